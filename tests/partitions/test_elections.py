"""Elections and ISR removals in batches equal the reference by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.jvm.scala_collections import Scala, hash_order
from simzk.partitions.arrays import broker_mask, pack, unpack
from simzk.partitions.rules import rules_of
from simzk.partitions.transitions import (
    Election,
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred,
    expand_isr,
    first_states,
    initial_leader_and_isr,
    remove_from_isr,
    shrink_isr,
)
from tests.partitions import reference
from tests.partitions.strategies import BROKERS, Partition, batches, broker_sets, id_lists, versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.partitions.arrays import BoolArray, IntArray
    from tests.partitions.reference import Elected, Version


def columns(batch: Sequence[Partition]) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
    return (
        pack([p.replicas for p in batch]),
        pack([p.state.isr for p in batch]),
        np.array([p.state.leader for p in batch], dtype=np.int32),
        np.array([p.unclean_allowed for p in batch]),
    )


def assert_decided(election: Election, expected: Sequence[Elected | None], isr_before: Sequence[list[int]]) -> None:
    """Compare every field of every row with the expected outcome; a failed election keeps the ISR."""
    assert election.elected.tolist() == [e is not None for e in expected]
    assert election.leader.tolist() == [-1 if e is None else e.leader for e in expected]
    kept = [list(before) if e is None else e.isr for e, before in zip(expected, isr_before, strict=True)]
    assert [list(ids) for ids in unpack(election.isr)] == kept
    assert election.unclean.tolist() == [e is not None and e.unclean for e in expected]


@given(versions, batches, broker_sets)
def test_offline(version: Version, batch: list[Partition], live: set[int]) -> None:
    replicas, isr, _, unclean = columns(batch)
    election = elect_offline(replicas, isr, broker_mask(live), unclean, rules=rules_of(version))
    expected = [reference.offline(version, p.replicas, p.state.isr, live, p.unclean_allowed) for p in batch]
    assert_decided(election, expected, [p.state.isr for p in batch])


@given(batches, broker_sets, st.data())
def test_offline_log_dirs_make_single_replicas_dead(
    batch: list[Partition], live: set[int], data: st.DataObject
) -> None:
    on_offline_dirs = [data.draw(id_lists) for _ in batch]
    replicas, isr, _, unclean = columns(batch)
    election = elect_offline(replicas, isr, broker_mask(live), unclean, pack(on_offline_dirs))
    expected = [
        reference.offline((3, 9, 1), p.replicas, p.state.isr, live - set(dead), p.unclean_allowed)
        for p, dead in zip(batch, on_offline_dirs, strict=True)
    ]
    assert_decided(election, expected, [p.state.isr for p in batch])


@given(batches, broker_sets)
def test_initialise(batch: list[Partition], live: set[int]) -> None:
    election = initial_leader_and_isr(columns(batch)[0], broker_mask(live))
    assert_decided(election, [reference.initialise(p.replicas, live) for p in batch], [[] for _ in batch])


@given(batches, broker_sets)
def test_preferred(batch: list[Partition], live: set[int]) -> None:
    replicas, isr, leader, _ = columns(batch)
    election = elect_preferred(replicas, isr, leader, broker_mask(live))
    expected = [reference.preferred(p.replicas, p.state.isr, p.state.leader, live) for p in batch]
    assert_decided(election, expected, [p.state.isr for p in batch])


@given(versions, batches, broker_sets)
def test_reassignment(version: Version, batch: list[Partition], live: set[int]) -> None:
    target, isr, _, _ = columns(batch)
    election = elect_for_reassignment(target, isr, broker_mask(live), rules=rules_of(version))
    expected = [reference.reassign(version, p.replicas, p.state.isr, live) for p in batch]
    assert_decided(election, expected, [p.state.isr for p in batch])


@given(versions, batches, broker_sets, broker_sets)
def test_controlled_shutdown(version: Version, batch: list[Partition], registered: set[int], leaving: set[int]) -> None:
    replicas, isr, leader, _ = columns(batch)
    election = elect_for_controlled_shutdown(
        replicas, isr, leader, broker_mask(registered), broker_mask(leaving), rules=rules_of(version)
    )
    expected = [
        reference.controlled_shutdown(version, p.replicas, p.state.isr, p.state.leader, registered, leaving)
        for p in batch
    ]
    assert_decided(election, expected, [p.state.isr for p in batch])


@given(versions, batches, st.data())
def test_removal_from_the_isr(version: Version, batch: list[Partition], data: st.DataObject) -> None:
    brokers = [data.draw(st.sampled_from(BROKERS) | st.sampled_from(p.state.isr or BROKERS)) for p in batch]
    _, isr, leader, unclean = columns(batch)
    removal = remove_from_isr(
        first_states(leader, isr, 8),
        np.array(brokers, dtype=np.int32),
        controller_epoch=9,
        unclean_allowed=unclean,
        rules=rules_of(version),
    )
    expected = [
        reference.remove(version, p.state, broker, 9, p.unclean_allowed)
        for p, broker in zip(batch, brokers, strict=True)
    ]
    assert removal.changed.tolist() == [after is not p.state for p, after in zip(batch, expected, strict=True)]
    assert removal.after.leader.tolist() == [after.leader for after in expected]
    assert [list(ids) for ids in unpack(removal.after.isr)] == [after.isr for after in expected]


@pytest.mark.parametrize(
    ("version", "unclean", "left"),
    [((0, 8, 1), False, ()), ((0, 8, 2), False, (2,)), ((1, 0, 2), True, ()), ((1, 1, 0), True, (2,))],
)
def test_removal_of_the_last_isr_member(version: Version, unclean: bool, left: tuple[int, ...]) -> None:
    before = first_states(np.array([2], np.int32), pack([[2]]), 1)
    removal = remove_from_isr(before, 2, controller_epoch=1, unclean_allowed=unclean, rules=rules_of(version))
    assert removal.changed.tolist() == [True]
    assert (removal.after.leader.tolist(), unpack(removal.after.isr)) == ([-1], [left])


@given(batches)
def test_arguments_are_not_modified(batch: list[Partition]) -> None:
    replicas, isr, leader, unclean = columns(batch)
    for column in (replicas, isr, leader, unclean):
        column.flags.writeable = False
    live, shutting_down = broker_mask([0, 1, 2]), broker_mask([1])
    elect_offline(replicas, isr, live, unclean)
    elect_preferred(replicas, isr, leader, live)
    elect_for_reassignment(replicas, isr, live)
    elect_for_controlled_shutdown(replicas, isr, leader, live, shutting_down)
    remove_from_isr(first_states(leader, isr, 1), 1, controller_epoch=2, unclean_allowed=unclean)
    expand_isr(isr, leader)
    shrink_isr(isr, replicas)


def test_a_live_isr_member_that_is_not_assigned_blocks_unclean_election_too() -> None:
    election = elect_offline(pack([[1, 2]]), pack([[3]]), broker_mask([1, 3]), True)
    assert election.elected.tolist() == [False]


def test_no_partitions_at_all() -> None:
    none = pack([], 3)
    assert elect_offline(none, none, broker_mask([1]), False).leader.size == 0
    assert remove_from_isr(first_states(none[:, 0], none, 1), 1, controller_epoch=2).changed.size == 0


@given(id_lists, st.sampled_from(BROKERS), st.sampled_from(get_args(Scala)))
def test_leader_writes_isr_in_scala_set_order(isr: list[int], broker: int, scala: Scala) -> None:
    grown = list(dict.fromkeys([*isr, broker]))
    if len(grown) > 4:
        # A set of five or more is in hash order whatever it was filled with, in whichever order.
        grown = hash_order(sorted(grown), scala)
    assert unpack(expand_isr(pack([isr]), np.array([broker], np.int32), scala)) == [tuple(grown)]
    members = hash_order(sorted(isr), scala) if len(isr) > 4 else isr
    assert unpack(shrink_isr(pack([isr]), pack([[broker]]), scala)) == [tuple(r for r in members if r != broker)]


@pytest.mark.parametrize(
    ("members", "written"), [([1, 2, 3, 4, 5], (5, 1, 2, 3, 4)), ([1, 2, 3, 4, 5, 6], (5, 1, 6, 2, 3, 4))]
)
def test_known_orders_of_large_isrs(members: list[int], written: tuple[int, ...]) -> None:
    isr = pack([members[:-1]])
    assert unpack(expand_isr(isr, np.array(members[-1:], np.int32), "2.12")) == [written]
