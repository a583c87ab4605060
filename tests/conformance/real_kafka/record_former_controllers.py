"""Record what real controllers write that were stopped in the middle of an event until their session was over.

    python -m tests.conformance.real_kafka.record_former_controllers [RELEASE...] [--out FILE]

A follower of many partitions is killed, and the controller's process is stopped while it removes the follower from
their ISRs. Another broker becomes controller. Then the first one runs again. A test plays the same story to simulated
brokers (tests/kafka/test_recorded_former_controllers).
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoNodeError

from tests.conformance.real_kafka.cluster import until
from tests.conformance.real_kafka.recorder import BrokersOnZooKeeper, main, on_zookeeper
from tests.conformance.real_kafka.releases import RELEASES, Release
from tests.kafka.test_recorded_former_controllers import (
    CONTROLLER,
    DATA,
    FOLLOWER,
    LAG_MS,
    LEADER,
    PARTITIONS,
    STORY,
    TOPIC,
    counted,
)
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BROKERS = (CONTROLLER, 1, 2, 3)
SETTLES_S = 3.0
STOPS_AFTER = 1
"""How many ISRs the controller has written at least when it is stopped."""
REFUSED = "Cached zkVersion"
"""What a leader logs when the state is not as it knows it (Partition.updateIsr)."""


class FourBrokers(BrokersOnZooKeeper):
    """Four brokers, the first of which is controller, on a ZooKeeper of their own."""

    ids = BROKERS

    def __init__(self, release: Release, folder: Path, zookeeper: str) -> None:
        super().__init__(release, folder, zookeeper)
        with (folder / "log4j.properties").open("a") as settings:
            settings.write("log4j.logger.kafka.cluster.Partition=INFO\n")

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of a broker."""
        return {**super().properties(broker), "replica.lag.time.max.ms": LAG_MS}

    def states(self) -> list[dict[str, Any]]:
        """The states of all partitions that have one, in order."""
        asked = [self.client.get_async(f"/brokers/topics/{TOPIC}/partitions/{n}/state") for n in range(PARTITIONS)]
        found = []
        for one in asked:
            with contextlib.suppress(NoNodeError):
                found.append(json.loads(one.get()[0]))
        return found

    def shrunk(self) -> int:
        """The number of partitions whose ISR lacks the follower."""
        return sum(FOLLOWER not in state["isr"] for state in self.states())

    def look(self) -> dict[str, Any]:
        """The controller epoch, the states, and whether the leader's writes are refused."""
        said = (self.folder / f"{LEADER}.log").read_text(errors="replace")
        return {
            "controller_epoch": int(self.client.get("/controller_epoch")[0]),
            "states": counted(
                (state["leader"], tuple(state["isr"]), state["leader_epoch"], state["controller_epoch"])
                for state in self.states()
            ),
            "refused": REFUSED in said,
        }


def play(brokers: FourBrokers, report: Callable[[str], object]) -> list[dict[str, Any]]:
    """Play the story; return all looks."""
    for broker in BROKERS:
        brokers.start(broker)
    report("four brokers run")
    assert brokers.controller() == CONTROLLER
    config = json.dumps({"version": 1, "config": {}}).encode()
    brokers.client.create(f"/config/topics/{TOPIC}", config, makepath=True)
    partitions = {str(number): [LEADER, 2, FOLLOWER] for number in range(PARTITIONS)}
    brokers.client.create(f"/brokers/topics/{TOPIC}", json.dumps({"version": 1, "partitions": partitions}).encode())
    until(lambda: len(brokers.states()) == PARTITIONS, lambda: f"{len(brokers.states())} states")
    time.sleep(SETTLES_S)
    brokers.end(FOLLOWER, signal.SIGKILL)
    deadline_s = time.monotonic() + PATIENCE_S
    while brokers.shrunk() < STOPS_AFTER:
        assert time.monotonic() < deadline_s, "the controller does not notice that the follower is dead"
    brokers.signal(CONTROLLER, signal.SIGSTOP)
    looks = [brokers.look()]
    report(f"the controller is stopped: {looks[0]}")
    until(lambda: brokers.controller() not in (None, CONTROLLER), lambda: "nobody else is controller")
    time.sleep(SETTLES_S)
    looks.append(brokers.look())
    brokers.signal(CONTROLLER, signal.SIGCONT)
    until(lambda: brokers.session(CONTROLLER) is not None, lambda: "the former controller is not registered")
    time.sleep(SETTLES_S)
    looks.append(brokers.look())
    report(f"the former controller is back: {looks[-1]}")
    time.sleep(1.6 * LAG_MS / 1000)
    looks.append(brokers.look())
    report(f"the leader has looked for late followers: {looks[-1]}")
    return looks


def record(release: Release, report: Callable[[str], object], _story: str | None) -> list[dict[str, Any]]:
    """Return the line of a release."""
    report(f"Kafka {release.version}")
    with on_zookeeper(release, FourBrokers) as brokers:
        return [{"release": release.version, "story": STORY, "looks": play(brokers, report)}]


if __name__ == "__main__":
    releases = [release for release in RELEASES if release.number < (1, 1)]  # later ones write all states at once
    main(__doc__ or "", releases, [STORY], DATA, record)
