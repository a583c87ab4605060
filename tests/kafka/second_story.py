"""A second story, of the oldest releases, recorded as the first was: what it tells apart the first did not.

Several partitions are reassigned at once, topics of one replica lose it, a topic is deleted while a broker is dead,
some partitions alone get their preferred leaders, an assignment shrinks to one broker.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation import recording
from simzk.kafka.zookeeper_mode.replay import transactions as recorded_transactions
from tests.kafka.recorded_story import CONFIG, MAX_SESSION_TIMEOUT_MS, RACKS, TICK_TIME_MS, in_sync_in_order, play

if TYPE_CHECKING:
    from simzk.kafka.observation.recording import Recording
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction

DATA = Path(__file__).parent / "data" / "second_story"
RELEASES = ("0.8.0", "0.8.1.1")
BASE_PORT = 24590
WIDE = {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [1, 3], 4: [2, 1], 5: [3, 2], 6: [1, 2]}
_BROKER = re.compile(r"broker(\d)$")


class SecondStory:
    """The story of one release.

    Args:
        release: one of `RELEASES`.
    """

    def __init__(self, release: str) -> None:
        self.release = release

    @cached_property
    def recorded(self) -> Recording:
        """The trees."""
        return recording.load(DATA / self.release / "dumps.json")

    @cached_property
    def transactions(self) -> dict[str, list[RecordedTransaction]]:
        """The transactions of each step."""
        return recorded_transactions.by_step(recorded_transactions.load(DATA / self.release / "txns.json"))

    @property
    def names(self) -> tuple[str, ...]:
        """The steps in order, from the first boot on."""
        return self.recorded.steps[1:]

    def empty_cluster(self, seed: int = 0) -> KafkaCluster:
        """Brokers that are not started yet, at an empty ZooKeeper."""
        c = KafkaCluster(
            self.release,
            racks=RACKS,
            config=CONFIG,
            tick_time_ms=TICK_TIME_MS,
            max_session_timeout_ms=MAX_SESSION_TIMEOUT_MS,
            base_port=BASE_PORT,
            boot=False,
            seed=seed,
        )
        c.delete_znode("/nothing")  # by whoever recorded the story, in a session open from the start
        c.run_for(1)
        return c

    def play(self, c: KafkaCluster, step: str) -> None:
        """Do what was done to the real cluster, and let what comes of it come."""
        c.prefer_controller(json.loads(self.recorded.tree(step)["/controller"].data or "")["brokerid"])
        before = self.recorded.tree(self.recorded.steps[self.recorded.steps.index(step) - 1])
        with in_sync_in_order(c, self.transactions.get(step, []), before):
            play(c, lambda c: self._act(c, step))

    def _act(self, c: KafkaCluster, step: str) -> None:
        code, found = step.partition("-")[0], _BROKER.search(step)
        if found is not None:
            broker = int(found[1])
            if "boot" in step or "restart" in step:
                c.restart(broker)
            elif "kill9" in step:
                c.kill(broker)
            else:
                c.shutdown(broker)
            return
        match code:
            case "b1":
                c.create_topic("w", assignment=WIDE)
            case "b2":
                c.create_topic("solo", assignment={0: [3], 1: [2]})
            case "c":
                c.reassign({("w", 0): [3, 2], ("w", 1): [3], ("w", 4): [1, 3]})
            case "e":
                c.delete_topic("w")
            case "g":
                c.add_partitions("solo", 4, assignment={2: [1], 3: [1]} if c.version == "0.8.0" else None)
            case "h":
                c.create_topic("v", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
            case "k":
                c.elect(partitions=[("v", 1), ("solo", 1)])
            case "n":
                c.reassign({("v", 2): [2]})
            case _:
                raise AssertionError(f"nobody plays {step}")
