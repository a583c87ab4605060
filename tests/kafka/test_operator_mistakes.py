"""Mistakes of operators in znodes: the simulated controller reacts like the recorded real controller of each release.

`data/mistakes` has the trees of three real brokers of each release after each step of `operator_mistakes.py`. The
winner of each controller election depends on timing and is an input.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation import recording
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.operator_mistakes import ASSIGNMENT, CLEARED, MISTAKES, Mistake

if TYPE_CHECKING:
    from simzk.simulation import Event

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "data" / "mistakes"
RELEASES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
CONFIG = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": False, "delete.topic.enable": True}
RACKS = {1: "rack1", 2: "rack2", 3: "rack3"}
NAMES = [mistake.name for mistake in MISTAKES]


@cache
def recorded(release: str) -> recording.Recording:
    return recording.load(FOLDER / f"{release}.json")


def is_chance(release: str, step: str, difference: str) -> bool:
    """Return whether a difference depends on timing that is not an input."""
    if step.startswith("a") and difference.startswith(paths.PRODUCER_IDS):
        return True  # a broker takes producer ids after it has registered: the recording may have looked in between
    if re.match(r"/brokers/topics/\w+: topic_id", difference):
        return True  # drawn
    # Controllers fail over endlessly; their number depends on timing.
    numbers = "version|data_length|controller_epoch|leader_epoch"
    paced = rf"/: (cversion|children)|/controller|/brokers/topics/t1/partitions/2/state: ({numbers})"
    endless = step == "reset-reassign-no-replicas" and kafka_version(release).controller.counts_preferred_imbalance
    return endless and re.match(paced, difference) is not None


def steps_of(release: str) -> tuple[str, ...]:
    """Return the steps to compare."""
    steps = recorded(release).steps
    return steps[: steps.index(UNTIL[release])] if release in UNTIL else steps


class Story(NamedTuple):
    """Result of a story: differences after each step, and history events of each mistake."""

    differences: dict[str, list[str]]
    events: dict[str, list[Event]]


@cache
def whole_story(release: str) -> Story:
    """Play the whole story of a release."""
    reported = recorded(release)
    found: dict[str, list[str]] = {}
    events: dict[str, list[Event]] = {}

    def compare(step: str) -> None:
        seen = [str(d) for d in recording.differences(c.server.tree, reported.tree(step))]
        found[step] = [d for d in seen if not is_chance(release, step, d)]

    def next_controller(step: str) -> None:
        node = reported.tree(step).get(paths.CONTROLLER)
        if node is not None:
            c.prefer_controller(json.loads(node.data or "")["brokerid"])

    last = reported.tree(reported.steps[-1])
    cluster_id = json.loads(last["/cluster/id"].data or "")["id"] if "/cluster/id" in last else None
    port = json.loads(reported.tree("a1-boot-broker1")["/brokers/ids/1"].data or "")["port"] - 1
    with KafkaCluster(
        release, racks=RACKS, config=CONFIG, tick_time_ms=500, base_port=port, cluster_id=cluster_id, boot=False
    ) as c:
        for broker in (1, 2, 3):
            c.restart(broker)
            assert c.run_until_quiet(60)
            compare(f"a{broker}-boot-broker{broker}")
        c.create_topic("t1", assignment=ASSIGNMENT)
        assert c.run_until_quiet(60)
        compare("b1-create-t1")
        for mistake in MISTAKES:
            if mistake.name not in steps_of(release):
                continue
            next_controller(mistake.name)
            before = len(c.history)
            c.write_znode(mistake.path, mistake.data)
            c.run_for(4)
            events[mistake.name] = list(c.history)[before:]
            compare(mistake.name)
            reset = f"reset-{mistake.name}"
            next_controller(reset)
            for path in (*CLEARED, paths.CONTROLLER):
                c.delete_znode(path)
            c.run_for(4)
            compare(reset)
    return Story(found, events)


UNTIL = {"0.10.2.2": "delete-unknown", "0.9.0.1": "reset-topic-no-json"}
"""Last comparable step by release: unknown partitions stay in the list of preferred elections that each broker
of 0.9 and 0.10 keeps in memory from one reign to the next, and its failovers fail until another is elected."""

STEPS = [
    (release, step)
    for release in RELEASES
    for step in steps_of(release)
    if step.removeprefix("reset-") in NAMES or (step[0] in "ab" and step != "a0-empty")
]


def test_all_mistakes_are_among_those_recorded() -> None:
    assert all(name in recorded("2.1.1").steps for name in NAMES)


@pytest.mark.parametrize("release", [release for release in RELEASES if release not in UNTIL])
def test_an_empty_target_blocks_failovers_from_2_7_on(release: str) -> None:
    """The real controller epoch was above 100 at the end of the recording; before 2.7 it rose by one."""
    last, before = ("reset-reassign-no-replicas", "reassign-no-replicas")
    epochs = [int(recorded(release).tree(step)[paths.CONTROLLER_EPOCH].data or "") for step in (before, last)]
    assert (epochs[1] > epochs[0] + 20) == kafka_version(release).controller.counts_preferred_imbalance
    with KafkaCluster(release, config=CONFIG) as c:
        c.create_topic("t1", assignment=ASSIGNMENT)
        c.run_for(5)
        mistake = MISTAKES[NAMES.index("reassign-no-replicas")]
        c.write_znode(mistake.path, mistake.data)
        c.run_for(5)
        c.delete_znode(paths.CONTROLLER)
        c.run_for(2)
        node = c.server.tree.get(paths.CONTROLLER_EPOCH)
        assert node is not None
        assert (int(node.data or b"") > 20) == kafka_version(release).controller.counts_preferred_imbalance


@pytest.mark.parametrize(("release", "step"), STEPS)
def test_a_mistake_leaves_the_recorded_tree(release: str, step: str) -> None:
    assert whole_story(release).differences[step] == []


READ_WRONG = frozenset({"znode unusable", "failed"})
TOLD: dict[str, tuple[frozenset[str], str]] = {
    "reassign-no-json": (READ_WRONG, "0.8"),
    "reassign-empty": (READ_WRONG, "0.8"),
    "reassign-list": (READ_WRONG, "0.8"),
    "reassign-no-partitions": (READ_WRONG, "2.0"),
    "reassign-unknown-field": (READ_WRONG, "2.0"),
    "reassign-log-dirs": (READ_WRONG, "2.0"),
    "reassign-unknown-topic": (frozenset({"refused"}), "0.8"),
    "reassign-unknown-partition": (frozenset({"refused"}), "0.8"),
    "reassign-duplicate": (frozenset({"doubtful"}), "0.8"),
    "elect-no-json": (READ_WRONG, "0.8"),
    "elect-empty": (READ_WRONG, "0.8"),
    "elect-no-partitions": (READ_WRONG, "0.8"),
    "elect-unknown": (frozenset({"refused"}), "0.8"),
    "delete-unknown": (frozenset({"refused"}), "0.8"),
    "topic-no-json": (READ_WRONG, "0.8"),
    "topic-no-partitions": (frozenset({"doubtful"}), "0.8"),
    "topic-dead-broker": (frozenset({"doubtful"}), "0.8"),
    "topic-duplicate": (frozenset({"doubtful"}), "0.8"),
    "topic-no-replicas": (frozenset({"doubtful"}), "0.8"),
    "topic-partitions-missing": (frozenset({"doubtful"}), "0.8"),
    "isr-change-no-json": (READ_WRONG, "0.9"),
    "log-dir-event-no-json": (READ_WRONG, "1.0"),
    "config-change-no-json": (READ_WRONG, "0.9"),
    "reassign-dead-broker": (frozenset({"doubtful", "refused"}), "0.8"),
    "reassign-no-replicas": (frozenset({"doubtful"}), "0.8"),
}
"""History events of the readers of a mistake, and the first release with them. Mistakes not listed have no effect or no
reader yet (config-no-json); the history records them as invalid nevertheless."""
UNREADABLE = ("no-json", "reassign-empty", "reassign-list", "elect-empty", "elect-no-partitions")


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


TELLING = [(release, mistake) for release in RELEASES for mistake in MISTAKES if mistake.name in steps_of(release)]


@pytest.mark.parametrize(("release", "mistake"), TELLING, ids=lambda value: getattr(value, "name", value))
def test_the_history_records_readers_and_reactions(release: str, mistake: Mistake) -> None:
    events = whole_story(release).events[mistake.name]
    naming = [event for event in events if mistake.path in (event.subject, event.after.partition(": ")[0])]
    by_readers = {event.what for event in naming if event.who != "admin"}
    expected, since = TOLD.get(mistake.name, (frozenset(), "0.8"))
    if expected and number(since) <= number(release):
        assert by_readers & expected
        assert all(event.after for event in naming)
    else:
        assert not by_readers & (READ_WRONG | {"refused", "doubtful"})
    if mistake.name.endswith(UNREADABLE) and any(event.what != "znode not written" for event in events):
        assert next(event.what for event in naming if event.who == "admin") in ("written wrong", "topic created")
