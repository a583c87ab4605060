"""The whole story of a real cluster, simulated: after each step every znode is the recorded one, field by field."""

from __future__ import annotations

import json
from functools import cache

import pytest

from simzk.kafka import recording
from tests.kafka import recorded_story, recorded_transactions
from tests.kafka.recorded_story import FOLDER

RECORDED = recorded_story.load()
STEPS = recorded_story.steps(RECORDED)
NAMES = [name for name, _ in STEPS]

# Which follower's fetch comes first is a matter of microseconds: the ISR expansions of a restart come in any order.
RACES = {"e-restart-broker1", "j-restart-broker3", "j3-restart-broker3"}
# Which losers of an election were quick enough to try is a race as well; these are the tries that came too late.
LATE_TRY = "multi [error NodeExists; error RuntimeInconsistency]"


@cache
def whole_story(seed: int) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Play the story from the empty tree: the differences, and the transactions, of each step."""
    differences: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    with recorded_story.empty_cluster(RECORDED, seed) as c:
        log: list[str] = []
        c.server.on_transaction.append(lambda transaction: log.append(recorded_transactions.told(transaction.record)))
        for name, act in STEPS:
            log.clear()
            recorded_story.play(c, act)
            differences[name] = [str(d) for d in recording.differences(c.server.tree, RECORDED.tree(name))]
            written[name] = list(log)
        c.check()
    return differences, written


@pytest.mark.parametrize("step", NAMES)
def test_each_step_from_the_empty_tree_leaves_the_recorded_tree(step: str) -> None:
    assert whole_story(0)[0][step] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_the_story_does_not_depend_on_chance(seed: int) -> None:
    assert not any(whole_story(seed)[0].values())


@pytest.mark.parametrize("step", NAMES)
def test_each_step_writes_the_recorded_transactions(step: str) -> None:
    recorded = recorded_transactions.by_step(FOLDER / "txns.json")[step]
    expected = [transaction for transaction in recorded if transaction != LATE_TRY]
    written = whole_story(0)[1][step]
    if step in RACES:
        assert sorted(written) == sorted(expected)
    else:
        assert written == expected


def test_every_recorded_step_is_played_but_those_of_the_acl_tool() -> None:
    assert [step for step in RECORDED.steps if not step.startswith("l")] == ["a0-empty", *NAMES]


@pytest.mark.parametrize("start", NAMES[2:-1])
def test_a_cluster_goes_on_from_any_recorded_tree(start: str) -> None:
    after, act = STEPS[NAMES.index(start) + 1]
    with recorded_story.cluster_from(RECORDED.tree(start)) as c:
        assert recording.differences(c.server.tree, RECORDED.tree(start)) == []
        recorded_story.play(c, act)
        assert recording.differences(c.server.tree, RECORDED.tree(after)) == []


def test_one_leader_epoch_changed_by_hand_is_reported_with_znode_and_field() -> None:
    path = "/brokers/topics/t1/partitions/2/state"
    tree = RECORDED.tree("b2-create-t2")
    fields = json.loads(tree[path].data or "")
    fields["leader_epoch"] += 1
    tree[path] = tree[path]._replace(data=json.dumps(fields, separators=(",", ":")))
    with recorded_story.cluster_from(RECORDED.tree("b2-create-t2")) as c:
        (difference,) = recording.differences(c.server.tree, tree)
    assert str(difference) == f"{path}: leader_epoch is 0, recorded was 1"
