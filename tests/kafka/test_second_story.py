"""A second story, of the oldest releases, recorded as the first was: what it tells apart the first did not.

Several partitions are reassigned at once, topics of one replica lose it, a topic is deleted while a broker is dead,
some partitions alone get their preferred leaders, an assignment shrinks to one broker.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.kafka import recording
from simzk.kafka.cluster import KafkaCluster
from tests.kafka import recorded_transactions
from tests.kafka.recorded_story import CONFIG, RACKS, TICK_TIME_MS, follow_nobody_more

if TYPE_CHECKING:
    from simzk.zookeeper.transactions import Transaction

DATA = Path(__file__).parent / "data" / "second_story"
RELEASES = ("0.8.0", "0.8.1.1")
BASE_PORT = 24590
WIDE = {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [1, 3], 4: [2, 1], 5: [3, 2], 6: [1, 2]}
SMALLEST_ID = re.compile(r"broker(\d)$")

UNORDERED = {
    "c": "which of two new replicas has all there is first",
    "i": "when the loser of the election tries",
    "j": "which follower's fetch comes first; a broker stands for election while leaders take it back",
    "k": "the tool ends its session while the controller elects",
    "m": "as j",
}
"""Steps, by their code, whose transactions are compared without their order, and why."""
BEFORE_THE_RACE = 8
"""How many transactions of the reassignments come before the new replicas do."""
LATE_TRY = "error NodeExists"


def recorded(release: str) -> recording.Recording:
    return recording.load(DATA / release / "dumps.json")


STEPS = [(release, step) for release in RELEASES for step in recorded(release).steps if not step.startswith("a0")]


def act(c: KafkaCluster, step: str, next_controller: int) -> None:
    """Do what was done to the real cluster."""
    code, found = step.partition("-")[0], SMALLEST_ID.search(step)
    if found is not None:
        broker = int(found[1])
        if "boot" in step or "restart" in step:
            c.restart(broker)
            return
        c.prefer_controller(next_controller)
        if "kill9" in step:
            c.kill(broker)
        else:
            c.shutdown(broker)
            follow_nobody_more(c, broker)
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


@cache
def whole_story(release: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Play it from the empty tree: the differences, and the transactions, of each step."""
    story = recorded(release)
    differences: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    c = KafkaCluster(release, racks=RACKS, config=CONFIG, tick_time_ms=TICK_TIME_MS, base_port=BASE_PORT, boot=False)
    with c:
        c.delete_znode("/nothing")  # by whoever recorded the story, in a session open from the start
        c.run_for(1)
        log: list[str] = []

        def note(transaction: Transaction) -> None:
            log.append(recorded_transactions.told(transaction.record))

        c.server.on_transaction.append(note)
        for step in story.steps[1:]:
            log.clear()
            controller = json.loads(story.tree(step)["/controller"].data or "")["brokerid"]
            act(c, step, controller)
            assert c.run_until_quiet(60), c.history.to_text()
            differences[step] = [str(d) for d in recording.differences(c.server.tree, story.tree(step))]
            written[step] = list(log)
        c.check()
    return differences, written


@pytest.mark.parametrize(("release", "step"), STEPS)
def test_each_step_leaves_the_recorded_tree(release: str, step: str) -> None:
    assert whole_story(release)[0][step] == []


@pytest.mark.parametrize(("release", "step"), STEPS)
def test_each_step_writes_the_recorded_transactions(release: str, step: str) -> None:
    entries = recorded_transactions.by_step(DATA / release / "txns.json").get(step, [])
    expected = [recorded_transactions.recorded(entry) for entry in entries]
    written = whole_story(release)[1][step]
    if step.startswith("i-"):
        expected, written = ([told for told in of if told != LATE_TRY] for of in (expected, written))
    if step.startswith("c-"):
        assert written[:BEFORE_THE_RACE] == expected[:BEFORE_THE_RACE]
        expected, written = ([told for told in of if not is_of_the_last(told)] for of in (expected, written))
    if step.partition("-")[0] in UNORDERED:
        expected, written = sorted(expected), sorted(written)
    assert written == expected


def is_of_the_last(told: str) -> bool:
    """Whether it names all partitions: after the move of one replica and of the other."""
    return told.startswith(("setData /brokers/topics/w {", "setData /admin/reassign_partitions"))
