"""The partition table equals a dictionary after each random step, with every invariant checked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simzk.errors import LayoutError
from simzk.jvm.numbers import JavaRandom
from simzk.partitions.arrays import MAX_BROKER_ID, NONE, broker_mask, pack
from simzk.partitions.assignment import assign_topics
from simzk.partitions.states import LeaderAndIsr, States, states_of
from simzk.partitions.table import BrokerIndex, PartitionTable
from tests.partitions.operations import fail_brokers, table_of_columns
from tests.partitions.strategies import BROKERS

TOPICS = ["a", "b", "c", "d"]
replica_lists = st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=6)


def state_strategy(replicas: list[int]) -> st.SearchStrategy[LeaderAndIsr]:
    members = st.lists(st.sampled_from([*replicas, BROKERS[0]]), unique=True, max_size=6)
    return members.flatmap(
        lambda isr: st.builds(
            LeaderAndIsr,
            st.sampled_from([*isr, -1]),
            st.integers(0, 9),
            st.just(tuple(isr)),
            st.integers(0, 9),
            st.integers(0, 9),
            st.booleans(),
        )
    )


class TableMachine(RuleBasedStateMachine):
    """State machine; the model maps a partition to replicas, adding, removing and state or None."""

    def __init__(self) -> None:
        super().__init__()
        self.table = PartitionTable(1)
        self.replicas: dict[tuple[str, int], list[int]] = {}
        self.moves: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        self.states: dict[tuple[str, int], LeaderAndIsr] = {}

    def pick(self, data: st.DataObject) -> tuple[str, int]:
        return data.draw(st.sampled_from(sorted(self.replicas)))

    @initialize(topic=st.sampled_from(TOPICS), partitions=st.lists(replica_lists, min_size=1, max_size=5))
    def start(self, topic: str, partitions: list[list[int]]) -> None:
        self.add(topic, dict(enumerate(partitions)))

    @rule(topic=st.sampled_from(TOPICS), assignment=st.dictionaries(st.integers(0, 12), replica_lists, max_size=5))
    def add(self, topic: str, assignment: dict[int, list[int]]) -> None:
        if any((topic, p) in self.replicas for p in assignment):
            with pytest.raises(LayoutError, match="exists already"):
                self.table.add(topic, assignment)
            return
        rows = self.table.add(topic, assignment)
        assert [self.table.name(row) for row in rows.tolist()] == [(topic, p) for p in assignment]
        self.replicas.update({(topic, p): replicas for p, replicas in assignment.items()})

    @rule(topic=st.sampled_from(TOPICS), replicas=st.lists(replica_lists, min_size=1, max_size=3))
    def add_next(self, topic: str, replicas: list[list[int]]) -> None:
        first = 1 + max((p for t, p in self.replicas if t == topic), default=-1)
        self.add(topic, dict(enumerate(replicas, start=first)))

    @rule(topic=st.sampled_from(TOPICS))
    def remove_topic(self, topic: str) -> None:
        self.forget([key for key in self.replicas if key[0] == topic])

    @precondition(lambda self: self.replicas)
    @rule(data=st.data())
    def remove_some(self, data: st.DataObject) -> None:
        self.forget(sorted(data.draw(st.sets(st.sampled_from(sorted(self.replicas)), max_size=4))))

    def forget(self, keys: list[tuple[str, int]]) -> None:
        self.table.remove([self.table.row(*key) for key in keys])
        for key in keys:
            del self.replicas[key]
            self.moves.pop(key, None)
            self.states.pop(key, None)

    @precondition(lambda self: self.replicas)
    @rule(data=st.data(), replicas=replica_lists)
    def reassign(self, data: st.DataObject, replicas: list[int]) -> None:
        key = self.pick(data)
        cut, stop = sorted((data.draw(st.integers(0, len(replicas))), data.draw(st.integers(0, len(replicas)))))
        self.table.set_assignment(self.table.row(*key), replicas, replicas[:cut], replicas[cut:stop])
        self.replicas[key] = replicas
        self.moves[key] = replicas[:cut], replicas[cut:stop]

    @precondition(lambda self: self.replicas)
    @rule(data=st.data())
    def put(self, data: st.DataObject) -> None:
        key = self.pick(data)
        self.states[key] = data.draw(state_strategy(self.replicas[key]))
        self.table.put(self.table.row(*key), self.states[key])

    @precondition(lambda self: self.states)
    @rule(data=st.data(), undo=st.booleans())
    def apply(self, data: st.DataObject, undo: bool) -> None:
        keys = sorted(data.draw(st.sets(st.sampled_from(sorted(self.states)), min_size=1, max_size=4)))
        new = {key: data.draw(state_strategy(self.replicas[key])) for key in keys}
        rows = np.array([self.table.row(*key) for key in keys], dtype=np.int32)
        before = self.table.apply(rows, states_of(list(new.values()), 6))
        assert [before.one(row) for row in range(len(keys))] == [self.states[key] for key in keys]
        if undo:
            self.table.apply(rows, before)
        else:
            self.states.update(new)

    @precondition(lambda self: self.states)
    @rule(dead=st.sets(st.sampled_from(BROKERS), min_size=1, max_size=3))
    def brokers_fail(self, dead: set[int]) -> None:
        live = broker_mask(b for b in BROKERS if b not in dead)
        failure = fail_brokers(self.table, sorted(dead), live, controller_epoch=9)
        self.table.apply(failure.rows, failure.after)
        for place, row in enumerate(failure.rows.tolist()):
            self.states[self.table.name(row)] = failure.after.one(place)

    @invariant()
    def all_invariants_hold(self) -> None:
        self.table.check()

    @invariant()
    def the_table_is_the_model(self) -> None:
        assert len(self.table) == len(self.replicas)
        assert {self.table.name(row) for row in self.table.rows().tolist()} == self.replicas.keys()
        for key, replicas in self.replicas.items():
            row = self.table.row(*key)
            assert self.table.replicas_of(row) == tuple(replicas)
            assert self.table.leader_and_isr(row) == self.states.get(key)
            adding, removing = self.moves.get(key, ([], []))
            assert self.table.moves_of(row) == (tuple(adding), tuple(removing))
        for topic in TOPICS:
            ids = sorted(p for t, p in self.replicas if t == topic)
            assert self.table.partition[self.table.rows_of(topic)].tolist() == ids

    @invariant()
    def the_index_is_the_model(self) -> None:
        for broker in BROKERS:
            held = {self.table.row(*key) for key, replicas in self.replicas.items() if broker in replicas}
            assert self.table.rows_with_replica(broker).tolist() == sorted(held)

    @invariant()
    def rows_not_led_by_equals_the_model(self) -> None:
        """Compare before the index is built, and after."""
        for live in (BROKERS[:2], BROKERS):
            left = [self.table.row(*key) for key, state in self.states.items() if state.leader not in live]
            assert self.table.rows_not_led_by(broker_mask(live)).tolist() == sorted(left)


TestTable = TableMachine.TestCase
TestTable.settings = settings(stateful_step_count=25, deadline=None)


@pytest.mark.parametrize(
    ("topics", "topic", "partition", "replicas", "says"),
    [
        (["t"], [0, 0], [0, 0], [[1], [1]], "is repeated"),
        (["t"], [0], [-1], [[1]], "is negative"),
        (["t", "t"], [0, 1], [0, 0], [[1], [1]], "a topic is repeated"),
        (["t"], [0], [0], [[]], "no replicas"),
        (["t"], [0], [0], [[1, 1]], "repeat a broker"),
        (["t"], [0], [0], [[-2]], "invalid broker id"),
        (["t"], [0], [0], [[MAX_BROKER_ID + 1]], "invalid broker id"),
        (["t"], [0], [0], [[NONE, 1]], "invalid broker id"),
        (["known"], [0, 0], [1, 0], [[1], [2]], "partition 0 of topic 'known' exists already"),
    ],
)
def test_invalid_input_changes_nothing(
    topics: list[str], topic: list[int], partition: list[int], replicas: list[list[int]], says: str
) -> None:
    table = PartitionTable()
    table.add("known", {0: [1, 2, 3]})
    with pytest.raises(LayoutError, match=says):
        table.extend(topics, np.array(topic, np.int32), np.array(partition, np.int32), pack(replicas))
    assert len(table) == 1
    assert table.topics == ["known"]
    table.check()


def test_invalid_assignment_changes_nothing() -> None:
    table = PartitionTable()
    (row,) = table.add("t", {0: [1, 2]})
    with pytest.raises(LayoutError, match="repeat a broker"):
        table.set_assignment(row, [3, 3])
    with pytest.raises(LayoutError, match="do not fit"):
        table.set_assignment(row, [1, 2], adding=[3])
    assert table.replicas_of(row) == (1, 2)
    table.check()


def test_columns_are_read_only() -> None:
    table = PartitionTable()
    table.add("t", {0: [1, 2]})
    for column in (table.topic, table.replicas, table.isr, table.leader, table.recovering, table.rows_with_replica(1)):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_check_finds_a_leader_outside_its_isr() -> None:
    table = PartitionTable()
    (row,) = table.add("t", {0: [1, 2]})
    table.put(row, LeaderAndIsr(1, 0, (2,), 1))
    with pytest.raises(AssertionError, match="a leader is not in its ISR"):
        table.check()


def test_an_unknown_partition_has_no_row() -> None:
    table = PartitionTable()
    table.add("t", {0: [1]})
    for unknown in [("t", 1), ("t", -1), ("u", 0)]:
        assert unknown not in table
        with pytest.raises(KeyError):
            table.row(*unknown)


def large_table(topics: int, partitions: int) -> PartitionTable:
    racks = {broker: f"r{broker % 3}" for broker in range(30)}
    replicas = assign_topics(range(30), racks, [partitions] * topics, 3, random=JavaRandom(1))
    count = len(replicas)
    zeros = np.zeros(count, dtype=np.int32)
    states = States(replicas[:, 0].copy(), zeros, replicas, zeros, zeros, np.zeros(count, dtype=np.bool_))
    topic = np.repeat(np.arange(topics, dtype=np.int32), partitions)
    partition = np.tile(np.arange(partitions, dtype=np.int32), topics)
    return table_of_columns([f"t{number}" for number in range(topics)], topic, partition, replicas, states)


def scanned(table: PartitionTable, broker: int) -> list[int]:
    return np.flatnonzero((table.replicas == broker).any(axis=1)).tolist()


def test_large_changes_keep_the_index() -> None:
    table = large_table(100, 40)
    assert table.rows_with_replica(7).tolist() == scanned(table, 7)
    table.remove(table.rows_of("t3").tolist() + table.rows_of("t50").tolist())
    assert table.rows_with_replica(7).tolist() == scanned(table, 7)
    more = large_table(100, 40).replicas
    rows = table.extend(["u"], np.zeros(4000, np.int32), np.arange(4000, dtype=np.int32), more)
    assert rows.size == 4000
    assert table.rows_with_replica(7).tolist() == scanned(table, 7)
    table.check()


def test_ids_beyond_sixteen_bits_are_indexed() -> None:
    index = BrokerIndex(pack([[1, MAX_BROKER_ID], [70_000, 1]]))
    assert index.brokers() == [1, 70_000, MAX_BROKER_ID]
    assert index.rows(70_000).tolist() == [1]


def test_failure_reads_only_rows_of_the_broker() -> None:
    table = large_table(100, 40)
    held = table.rows_with_replica(7)
    failure = fail_brokers(table, [7], broker_mask(b for b in range(30) if b != 7), controller_epoch=1)
    assert failure.rows.tolist() == held.tolist()
    table.apply(failure.rows, failure.after)
    assert not (table.leader == 7).any()
    table.check()
