"""The comparison of real brokers' trees notices what it must, and lets pass what is chance."""

from __future__ import annotations

import pytest

from simzk.kafka.observation import recording
from simzk.kafka.observation.recording import RecordedZnode
from tests.conformance.real_kafka.comparison import differences
from tests.conformance.real_kafka.releases import RELEASES, Release
from tests.conformance.real_kafka.story import ACTIONS

STATE = "/brokers/topics/t1/partitions/0/state"
ZNODE = RecordedZnode('{"leader":1}', 3, 0, 0, False, 0, 12)
NEWEST = RELEASES[-1].number
OLDEST = RELEASES[0].number


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: str(release.version))
def test_every_recorded_step_can_be_played(release: Release) -> None:
    steps = recording.load(release.recording).steps
    assert len(steps) >= 19
    assert {step.partition("-")[0] for step in steps} <= ACTIONS.keys()


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: str(release.version))
def test_a_recording_equals_itself_and_no_other_step(release: Release) -> None:
    recorded = recording.load(release.recording)
    trees = [recorded.tree(step) for step in recorded.steps]
    assert [differences(tree, tree, release.number) for tree in trees] == [[]] * len(trees)
    unnoticed = {
        step
        for step, before, after in zip(recorded.steps[1:], trees, trees[1:], strict=False)
        if before != after and differences(before, after, release.number) == []
    }
    assert unnoticed <= {"h1-produce"}  # it takes a block of producer ids


@pytest.mark.parametrize(
    "change",
    [
        {"data": '{"leader":2}'},
        {"data": '{"leader": 1}'},
        {"data": None},
        {"version": 4},
        {"cversion": 1},
        {"aversion": 1},
        {"ephemeral": True},
        {"children": 1},
        {"data_length": 13},
    ],
    ids=str,
)
def test_every_field_is_compared(change: dict[str, object]) -> None:
    changed = ZNODE._replace(**change)  # type: ignore[arg-type]  # each of its own field's type
    assert len(differences({STATE: changed}, {STATE: ZNODE}, OLDEST)) == 1


def test_a_znode_on_one_side_alone_is_a_difference() -> None:
    assert len(differences({STATE: ZNODE}, {}, NEWEST)) == 1
    assert len(differences({}, {STATE: ZNODE}, NEWEST)) == 1


def test_what_is_chance_passes() -> None:
    def registration(port: int, at_ms: int) -> RecordedZnode:
        endpoint = f"PLAINTEXT://127.0.0.1:{port}"
        return ZNODE._replace(data=f'{{"endpoints":["{endpoint}"],"port":{port},"timestamp":"{at_ms}"}}')

    path = "/brokers/ids/1"
    assert differences({path: registration(40001, 1)}, {path: registration(23091, 2)}, NEWEST) == []


def test_a_replica_that_shuts_down_may_rejoin_where_it_was_let_to() -> None:
    def state(version: int, epoch: int, leader: int = 1, controller: int = 2) -> dict[str, RecordedZnode]:
        data = f'{{"controller_epoch":{controller},"leader":{leader},"leader_epoch":{epoch}}}'
        return {STATE: ZNODE._replace(version=version, data=data, data_length=len(data))}

    recorded = state(3, 9)
    for rejoined in (state(5, 9), state(5, 10), state(7, 11), state(5, 9, controller=3)):
        assert differences(rejoined, recorded, OLDEST) == []
        assert differences(rejoined, recorded, NEWEST) != []
        assert differences(recorded, rejoined, OLDEST) != []
    for other in (
        state(4, 9),
        state(3, 10),
        state(5, 11),
        state(5, 8),
        state(5, 9, leader=2),
        state(3, 9, controller=3),
    ):
        assert differences(other, recorded, OLDEST) != []


def test_a_replica_that_was_let_in_as_it_went_is_gone_all_the_same() -> None:
    def tree(version: int, isr: str, *live: int) -> dict[str, RecordedZnode]:
        data = f'{{"controller_epoch":2,"leader":1,"isr":[{isr}],"leader_epoch":4}}'
        state = ZNODE._replace(version=version, data=data, data_length=len(data))
        return {STATE: state, **{f"/brokers/ids/{broker}": ZNODE for broker in live}}

    let_in, out = tree(4, "1,2", 1), tree(3, "1", 1)
    for found, recorded in ((let_in, out), (out, let_in), (tree(5, "1", 1), let_in)):
        assert differences(found, recorded, OLDEST) == []
        assert differences(found, recorded, NEWEST) != []
    for other in (tree(5, "1,2", 1), tree(4, "1", 1)):
        assert differences(other, out, OLDEST) != []
