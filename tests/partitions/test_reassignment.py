"""Assignments during reassignments equal the reference, for any sequence of targets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simzk.jvm.scala_collections import immutable_order
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.reassignment import (
    Assignment,
    cancelled,
    completed,
    in_sync,
    is_reassigning,
    origin_of,
    reassign_to,
    target_of,
    widened_for_legacy,
)
from tests.partitions import reference
from tests.partitions.reference import Moving
from tests.partitions.strategies import BROKERS, id_lists

targets = st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=5)


def at_rest(replicas: list[list[int]]) -> Assignment:
    none: list[list[int]] = [[] for _ in replicas]
    return Assignment(pack(replicas), pack(none), pack(none))


def lists(assignment: Assignment) -> list[Moving]:
    columns = [[list(ids) for ids in unpack(column)] for column in assignment]
    return [Moving(*lists_of_one) for lists_of_one in zip(*columns, strict=True)]


@given(st.lists(st.tuples(targets, targets, targets), min_size=1, max_size=5))
def test_successive_targets_keep_the_origin(stories: list[tuple[list[int], list[int], list[int]]]) -> None:
    start, first, second = ([story[step] for story in stories] for step in range(3))
    once = reassign_to(at_rest(start), pack(first))
    twice = reassign_to(once, pack(second))
    expected_once = [reference.reassignment(Moving(s, [], []), t) for s, t in zip(start, first, strict=True)]
    assert lists(once) == expected_once
    assert lists(twice) == [reference.reassignment(m, t) for m, t in zip(expected_once, second, strict=True)]
    assert unpack(target_of(twice)) == [tuple(t) for t in second]
    assert [set(ids) for ids in unpack(origin_of(twice))] == [set(s) for s in start]
    assert is_reassigning(twice).tolist() == [set(s) != set(t) for s, t in zip(start, second, strict=True)]
    assert lists(completed(twice)) == [Moving(t, [], []) for t in second]
    assert [set(m.replicas) for m in lists(cancelled(twice))] == [set(s) for s in start]
    assert not is_reassigning(cancelled(twice)).any()


@given(targets, id_lists)
def test_in_sync_is_the_whole_target_in_the_isr(target: list[int], isr: list[int]) -> None:
    assert in_sync(pack([target]), pack([isr])).tolist() == [set(target) <= set(isr)]


@given(targets, targets)
def test_legacy_writes_the_union_in_set_order(target: list[int], replicas: list[int]) -> None:
    union = immutable_order([*target, *replicas], "2.12")
    assert unpack(widened_for_legacy(pack([target]), pack([replicas]), "2.12")) == [tuple(union)]
