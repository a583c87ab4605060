"""Broker failures in batches equal the reference by partition; traces of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.partitions.arrays import broker_mask, pack
from simzk.partitions.rules import rules_of
from simzk.partitions.states import LeaderAndIsr, States, states_of
from simzk.partitions.table import PartitionTable
from simzk.partitions.transitions import (
    after_leader_write,
    elect_for_controlled_shutdown,
    elect_offline,
    elect_preferred,
    expand_isr,
    write_election,
)
from tests.partitions import reference
from tests.partitions.operations import broker_failure, controller_failover, fail_brokers
from tests.partitions.reference import State
from tests.partitions.strategies import BROKERS, Partition, batches, versions

if TYPE_CHECKING:
    from tests.partitions.reference import Version


def as_states(batch: list[Partition], width: int) -> States:
    singles = [p.state for p in batch]
    return states_of(
        [
            LeaderAndIsr(s.leader, s.leader_epoch, tuple(s.isr), s.controller_epoch, s.version, s.recovering)
            for s in singles
        ],
        width,
    )


def singles(states: States) -> list[State]:
    rows = [states.one(row) for row in range(len(states.leader))]
    return [State(r.leader, r.leader_epoch, list(r.isr), r.controller_epoch, r.version, r.recovering) for r in rows]


@pytest.mark.parametrize("dead", [[5], [5, 6]])
def test_dead_isr_member_that_is_no_replica_stays(dead: list[int]) -> None:
    before = states_of([LeaderAndIsr(1, 0, (1, 5), 1), LeaderAndIsr(2, 0, (2, 5), 1)], 2)
    after, _ = broker_failure(pack([[1, 2], [2, 5]]), before, dead, broker_mask([1, 2]), controller_epoch=7)
    assert [after.one(row).isr for row in range(2)] == [(1, 5), (2,)]
    assert after.version.tolist() == [0, 1]


@given(versions, batches, st.lists(st.sampled_from(BROKERS), unique=True, max_size=4), st.data())
def test_broker_failure(version: Version, batch: list[Partition], dead: list[int], data: st.DataObject) -> None:
    live = data.draw(st.sets(st.sampled_from([b for b in BROKERS if b not in dead])))
    unclean = np.array([p.unclean_allowed for p in batch])
    before = as_states(batch, 6)
    after, elected_unclean = broker_failure(
        pack([p.replicas for p in batch]),
        before,
        dead,
        broker_mask(live),
        controller_epoch=7,
        unclean_allowed=unclean,
        rules=rules_of(version),
    )
    assert singles(after) == [
        reference.broker_failure(version, p.replicas, p.state, dead, live, 7, p.unclean_allowed) for p in batch
    ]
    assert singles(before) == [p.state for p in batch]
    if version >= (3, 2, 0):
        assert after.recovering.tolist() == (before.recovering | elected_unclean).tolist()


@given(versions, batches, st.permutations(BROKERS), st.integers(0, len(BROKERS)))
def test_controller_failover(version: Version, batch: list[Partition], brokers: list[int], dead_count: int) -> None:
    dead, live = brokers[:dead_count], set(brokers[dead_count:])
    after, _ = controller_failover(
        pack([p.replicas for p in batch]),
        as_states(batch, 6),
        dead,
        broker_mask(live),
        controller_epoch=7,
        unclean_allowed=np.array([p.unclean_allowed for p in batch]),
        rules=rules_of(version),
    )
    assert singles(after) == [
        reference.failover(version, p.replicas, p.state, dead, live, 7, p.unclean_allowed) for p in batch
    ]


@given(batches, st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=3))
def test_fail_brokers_returns_changed_rows_only(batch: list[Partition], dead: list[int]) -> None:
    live = {b for b in BROKERS if b not in dead}
    table = PartitionTable(6)
    table.add("t", {p: partition.replicas for p, partition in enumerate(batch)})
    rows = table.rows_of("t")
    table.apply(rows, as_states(batch, 6))
    failure = fail_brokers(table, dead, broker_mask(live), controller_epoch=7)
    touched = [
        (row, p.state, reference.broker_failure((3, 9, 1), p.replicas, p.state, dead, live, 7, False))
        for row, p in zip(rows.tolist(), batch, strict=True)
        if set(p.replicas) & set(dead)
    ]
    changed = [(row, before, after) for row, before, after in touched if before is not after]
    assert failure.rows.tolist() == [row for row, _, _ in changed]
    assert singles(failure.before) == [before for _, before, _ in changed]
    assert singles(failure.after) == [after for _, _, after in changed]
    assert singles(table.apply(failure.rows, failure.after)) == singles(failure.before)


def test_partitions_without_a_state_are_left_alone() -> None:
    table = PartitionTable()
    table.add("t", {0: [1, 2, 3]})
    live = broker_mask([2, 3])
    assert fail_brokers(table, [1], live, controller_epoch=1, unclean_allowed=True).rows.size == 0


def test_one_replica_each() -> None:
    before = states_of([LeaderAndIsr(1, 0, (1,), 1), LeaderAndIsr(2, 0, (2,), 1)], 1)
    after, _ = broker_failure(pack([[1], [2]]), before, [1], broker_mask([2]), controller_epoch=1)
    assert singles(after) == [State(-1, 1, [1], 1, 1), State(2, 0, [2], 1, 0)]


class Trace:
    """State znode of one partition with replicas 1, 2, 3 after each event (docs/reference/kafka.md §2.16)."""

    def __init__(self, version: Version = (3, 9, 1)) -> None:
        self.rules = rules_of(version)
        self.replicas = pack([[1, 2, 3]])
        self.states = states_of([LeaderAndIsr(1, 0, (1, 2, 3), 1)], 3)
        self.live = {1, 2, 3}

    def seen(self) -> tuple[int, tuple[int, ...], int, int]:
        state = self.states.one(0)
        return state.leader, state.isr, state.leader_epoch, state.version

    def dies(self, broker: int) -> None:
        self.live.discard(broker)
        self.states, _ = broker_failure(
            self.replicas, self.states, [broker], broker_mask(self.live), controller_epoch=1, rules=self.rules
        )

    def starts(self, broker: int, *, unclean: bool = False) -> None:
        self.live.add(broker)
        if self.states.leader[0] == -1:
            election = elect_offline(self.replicas, self.states.isr, broker_mask(self.live), unclean, rules=self.rules)
            if election.elected[0]:
                step = write_election(self.states, election, controller_epoch=1, rules=self.rules)
                self.states = step.after


def test_trace_of_three_brokers() -> None:
    trace = Trace()
    trace.dies(1)
    assert trace.seen() == (2, (2, 3), 1, 1)
    trace.dies(3)
    assert trace.seen() == (2, (2,), 2, 2)
    trace.dies(2)
    assert trace.seen() == (-1, (2,), 3, 3)
    trace.starts(1)
    assert trace.seen() == (-1, (2,), 3, 3)
    trace.starts(2)
    assert trace.seen() == (2, (2,), 4, 4)
    caught_up = expand_isr(trace.states.isr, np.array([1], np.int32))
    trace.states = after_leader_write(trace.states, caught_up)
    assert trace.seen() == (2, (2, 1), 4, 5)
    election = elect_preferred(trace.replicas, trace.states.isr, trace.states.leader, broker_mask(trace.live))
    trace.states = write_election(trace.states, election, controller_epoch=1).after
    assert trace.seen() == (1, (2, 1), 5, 6)
    election = elect_for_controlled_shutdown(
        trace.replicas, trace.states.isr, trace.states.leader, broker_mask(trace.live), broker_mask([1])
    )
    trace.states = write_election(trace.states, election, controller_epoch=1).after
    assert trace.seen() == (2, (2,), 6, 7)
    trace.dies(1)
    assert trace.seen() == (2, (2,), 6, 7)


def test_unclean_leader_is_marked_recovering() -> None:
    trace = Trace()
    for broker in (1, 3, 2):
        trace.dies(broker)
    trace.starts(1, unclean=True)
    assert trace.seen() == (1, (1,), 4, 4)
    assert trace.states.recovering.tolist() == [True]


@pytest.mark.parametrize(("version", "last_isr"), [((0, 8, 1), ()), ((0, 8, 2), (2,)), ((3, 9, 1), (2,))])
def test_all_replicas_dead(version: Version, last_isr: tuple[int, ...]) -> None:
    trace = Trace(version)
    for broker in (1, 3, 2):
        trace.dies(broker)
    assert trace.seen() == (-1, last_isr, 3, 3)


@pytest.mark.parametrize(("version", "seen"), [((2, 2, 2), (2, (2, 3), 1, 1)), ((2, 3, 0), (2, (2, 3), 2, 2))])
def test_the_leader_was_the_controller(version: Version, seen: tuple[int, tuple[int, ...], int, int]) -> None:
    trace = Trace(version)
    trace.states, _ = controller_failover(
        trace.replicas, trace.states, [1], broker_mask([2, 3]), controller_epoch=2, rules=trace.rules
    )
    assert trace.seen() == seen
