"""What an operator writes wrong is treated as real controllers treated it, znode by znode, release by release.

Three real brokers of each release lived through the mistakes of `operator_mistakes.py`; what their trees were after
each step stands in `data/mistakes`. Who became controller after each is chance, and an input.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from simzk.kafka import paths, recording
from simzk.kafka.cluster import KafkaCluster
from simzk.kafka.versions import kafka_version
from tests.kafka.operator_mistakes import ASSIGNMENT, CLEARED, MISTAKES

FOLDER = Path(__file__).parent / "data" / "mistakes"
RELEASES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
CONFIG = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": False, "delete.topic.enable": True}
RACKS = {1: "rack1", 2: "rack2", 3: "rack3"}
NAMES = [mistake.name for mistake in MISTAKES]


@cache
def recorded(release: str) -> recording.Recording:
    return recording.load(FOLDER / f"{release}.json")


def is_chance(release: str, step: str, difference: str) -> bool:
    """Whether it is a matter of the pace, or of chance that is no input."""
    if step.startswith("a") and difference.startswith(paths.PRODUCER_IDS):
        return True  # a broker takes producer ids after it has registered: the recording may have looked in between
    if re.match(r"/brokers/topics/\w+: topic_id", difference):
        return True  # drawn
    # Controllers follow one another without end, and how many there were is a matter of the pace.
    numbers = "version|data_length|controller_epoch|leader_epoch"
    paced = rf"/: (cversion|children)|/controller|/brokers/topics/t1/partitions/2/state: ({numbers})"
    endless = step == "reset-reassign-no-replicas" and kafka_version(release).counts_imbalance
    return endless and re.match(paced, difference) is not None


def steps_of(release: str) -> tuple[str, ...]:
    """The steps that are compared."""
    steps = recorded(release).steps
    return steps[: steps.index(UNTIL[release])] if release in UNTIL else steps


@cache
def whole_story(release: str) -> dict[str, list[str]]:
    """The differences after each step."""
    told = recorded(release)
    found: dict[str, list[str]] = {}

    def compare(step: str) -> None:
        seen = [str(d) for d in recording.differences(c.server.tree, told.tree(step))]
        found[step] = [d for d in seen if not is_chance(release, step, d)]

    def next_controller(step: str) -> None:
        node = told.tree(step).get(paths.CONTROLLER)
        if node is not None:
            c.prefer_controller(json.loads(node.data or "")["brokerid"])

    last = told.tree(told.steps[-1])
    cluster_id = json.loads(last["/cluster/id"].data or "")["id"] if "/cluster/id" in last else None
    port = json.loads(told.tree("a1-boot-broker1")["/brokers/ids/1"].data or "")["port"] - 1
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
            c.write_znode(mistake.path, mistake.data)
            c.run_for(4)
            compare(mistake.name)
            reset = f"reset-{mistake.name}"
            next_controller(reset)
            for path in (*CLEARED, paths.CONTROLLER):
                c.delete_znode(path)
            c.run_for(4)
            compare(reset)
    return found


UNTIL = {"0.10.2.2": "delete-unknown", "0.9.0.1": "reset-topic-no-json"}
"""From here on a recording is not compared: unknown partitions stay in the list of preferred elections that each broker
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
def test_a_partition_that_moves_to_nobody_leaves_no_controller_from_2_7_on(release: str) -> None:
    """The real one's epoch was above 100 when the recording ended; before 2.7 there is one more."""
    last, before = ("reset-reassign-no-replicas", "reassign-no-replicas")
    epochs = [int(recorded(release).tree(step)[paths.CONTROLLER_EPOCH].data or "") for step in (before, last)]
    assert (epochs[1] > epochs[0] + 20) == kafka_version(release).counts_imbalance
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
        assert (int(node.data or b"") > 20) == kafka_version(release).counts_imbalance


@pytest.mark.parametrize(("release", "step"), STEPS)
def test_a_mistake_leaves_the_recorded_tree(release: str, step: str) -> None:
    assert whole_story(release)[step] == []
