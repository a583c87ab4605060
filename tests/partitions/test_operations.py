"""Random sequences of controller operations on a table equal the reference, for all versions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simzk.jvm.scala_collections import immutable_order
from simzk.partitions.arrays import NONE, BoolArray, IntArray, broker_mask, pack, unpack
from simzk.partitions.rules import rules_of
from simzk.partitions.states import LeaderAndIsr
from simzk.partitions.table import PartitionTable
from tests.partitions import reference
from tests.partitions.operations import (
    begin_legacy_reassignments,
    begin_partitions,
    begin_reassignments,
    bounce_brokers,
    cancel_reassignments,
    complete_reassignments,
    controller_failover,
    elect_preferred_leaders,
    expand_isrs,
    fail_brokers,
    rebalance_leaders,
    shrink_isrs,
    shut_down_broker,
    start_brokers,
)
from tests.partitions.reference import Moving, State, Version
from tests.partitions.strategies import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from simzk.partitions.states import States
    from tests.partitions.operations import Change, Move

BROKERS = [0, 1, 2, 3, 5]
TOPICS = ["t", "u"]
# Up to four members a Scala Set iterates as they came; beyond, tests/jvm/test_scala_collections.py has it.
assignments = st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=4)

Key = tuple[str, int]


class Operations(RuleBasedStateMachine):
    """State machine of controller operations."""

    def __init__(self) -> None:
        super().__init__()
        self.table = PartitionTable(1)
        self.moving: dict[Key, Moving] = {}
        self.states: dict[Key, State | None] = {}
        self.unclean: dict[Key, bool] = {}
        self.epoch = 1

    @initialize(version=versions, dead=st.sets(st.sampled_from(BROKERS), max_size=3), data=st.data())
    def begin(self, version: Version, dead: set[int], data: st.DataObject) -> None:
        self.version, self.election_rules = version, rules_of(version)
        self.registered = set(BROKERS) - dead
        self.leaving: set[int] = set()
        for topic in TOPICS:
            self.grow(topic, data.draw(st.lists(assignments, min_size=1, max_size=3)), unclean=data.draw(st.booleans()))

    @property
    def live(self) -> set[int]:
        return self.registered - self.leaving

    @property
    def allowed(self) -> BoolArray:
        allowed = np.zeros(len(self.table.topic), dtype=np.bool_)
        for key in self.states:
            allowed[self.table.row(*key)] = self.unclean[key]
        return allowed

    def rows(self, keys: Iterable[Key]) -> IntArray:
        return np.array([self.table.row(*key) for key in keys], dtype=np.int32)

    def make(self, change: Change, expected: Callable[[Key], State | None], keys: Iterable[Key]) -> None:
        """Apply a change; it must contain the states before and after of exactly the partitions that are written."""
        reported = {
            self.table.name(row): (as_state(change.before, place), as_state(change.after, place))
            for place, row in enumerate(change.rows.tolist())
        }
        wanted = {key: (self.states[key], expected(key)) for key in keys}
        assert reported == {key: pair for key, pair in wanted.items() if pair[0] != pair[1]}
        before = self.table.apply(change.rows, change.after)
        assert [as_state(before, place) for place in range(len(change.rows))] == [pair[0] for pair in reported.values()]
        self.states.update({key: after for key, (_, after) in wanted.items()})

    def apply(self, move: Move, expected: dict[Key, tuple[Moving, State | None]]) -> None:
        changed = {self.table.name(row) for row in move.rows.tolist()}
        assert changed >= {key for key, (moving, _) in expected.items() if moving != self.moving[key]}
        was = self.table.assign(move.rows, move.after)
        assert [unpack(ids) for ids in was] == [unpack(ids) for ids in move.before]
        self.moving.update({key: moving for key, (moving, _) in expected.items()})
        self.make(move.states, lambda key: expected[key][1], expected)

    def known(self) -> list[Key]:
        return [key for key, state in self.states.items() if state is not None]

    # Topics

    @rule(topic=st.sampled_from(TOPICS), replicas=st.lists(assignments, min_size=1, max_size=2), unclean=st.booleans())
    def grow(self, topic: str, replicas: list[list[int]], unclean: bool) -> None:
        first = 1 + max((number for name, number in self.states if name == topic), default=-1)
        keys = [(topic, number) for number in range(first, first + len(replicas))]
        numbers = np.arange(first, first + len(replicas), dtype=np.int32)
        rows = self.table.extend([topic], np.zeros_like(numbers), numbers, pack(replicas))
        for key, ids in zip(keys, replicas, strict=True):
            self.moving[key], self.states[key], self.unclean[key] = Moving(ids, [], []), None, unclean
        change = begin_partitions(self.table, rows, self.mask(), controller_epoch=self.epoch)
        self.make(change, lambda key: self.started(key), keys)

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        keys = [key for key in self.states if key[0] == topic]
        names, assigned, states = self.table.remove(self.rows(keys).tolist())
        assert names.names() == keys
        assert [ids.tolist() for ids in assigned.replicas] == [
            pack([self.moving[key].replicas], assigned.replicas.shape[1])[0].tolist() for key in keys
        ]
        assert [as_state(states, place) for place in range(len(keys))] == [self.states[key] for key in keys]
        for key in keys:
            del self.moving[key], self.states[key], self.unclean[key]

    # Brokers

    def mask(self) -> BoolArray:
        return broker_mask(self.live)

    def started(self, key: Key) -> State | None:
        replicas = self.moving[key].replicas
        return reference.start(self.version, replicas, self.states[key], self.live, self.epoch, self.unclean[key])

    def holding(self, brokers: Iterable[int]) -> list[Key]:
        return [key for key in self.states if {*self.moving[key].replicas} & {*brokers}]

    def failed(self, key: Key, dead: list[int], live: set[int]) -> State | None:
        state = self.states[key]
        return state and reference.broker_failure(
            self.version, self.moving[key].replicas, state, dead, live, self.epoch, self.unclean[key]
        )

    @precondition(lambda self: self.registered)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        dead = sorted(data.draw(st.sets(st.sampled_from(sorted(self.registered)), min_size=1, max_size=2)))
        self.registered -= {*dead}
        self.leaving -= {*dead}
        change = fail_brokers(
            self.table,
            dead,
            self.mask(),
            controller_epoch=self.epoch,
            unclean_allowed=self.allowed,
            rules=self.election_rules,
        )
        self.make(change, lambda key: self.failed(key, dead, self.live), self.holding(dead))

    @precondition(lambda self: len(self.registered) < len(BROKERS))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        dead = sorted({*BROKERS} - self.registered)
        new = sorted(data.draw(st.sets(st.sampled_from(dead), min_size=1, max_size=2)))
        self.registered |= {*new}
        change = start_brokers(
            self.table,
            new,
            self.mask(),
            controller_epoch=self.epoch,
            unclean_allowed=self.allowed,
            rules=self.election_rules,
        )
        self.make(change, self.started, self.holding(new))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def bounce(self, data: st.DataObject) -> None:
        bounced = sorted(data.draw(st.sets(st.sampled_from(sorted(self.live)), min_size=1, max_size=2)))
        change = bounce_brokers(
            self.table,
            bounced,
            self.mask(),
            controller_epoch=self.epoch,
            unclean_allowed=self.allowed,
            rules=self.election_rules,
        )

        def expected(key: Key) -> State | None:
            replicas, unclean = self.moving[key].replicas, self.unclean[key]
            between = self.failed(key, bounced, self.live - {*bounced})
            return reference.start(self.version, replicas, between, self.live, self.epoch, unclean)

        self.make(change, expected, self.holding(bounced))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def shut_down(self, data: st.DataObject) -> None:
        broker = data.draw(st.sampled_from(sorted(self.live)))
        change = shut_down_broker(
            self.table,
            broker,
            broker_mask(self.registered),
            broker_mask(self.leaving),
            controller_epoch=self.epoch,
            unclean_allowed=self.allowed,
            rules=self.election_rules,
        )
        self.leaving |= {broker}

        def expected(key: Key) -> State | None:
            state, replicas = self.states[key], self.moving[key].replicas
            return state and reference.shut_down(
                self.version, replicas, state, broker, self.registered, self.leaving, self.epoch, self.unclean[key]
            )

        self.make(change, expected, self.holding([broker]))

    @rule()
    def fail_over(self) -> None:
        """Start a new controller, which does not know which brokers are shutting down."""
        self.epoch += 1
        self.leaving.clear()
        rows, dead = self.table.rows(), [broker for broker in BROKERS if broker not in self.live]
        replicas, before = self.table.replicas_and_states(rows)
        after, _ = controller_failover(
            replicas,
            before,
            dead,
            self.mask(),
            controller_epoch=self.epoch,
            unclean_allowed=self.allowed[rows],
            rules=self.election_rules,
        )
        self.table.apply(rows, after)
        for key in self.known():
            self.states[key] = reference.failover(
                self.version,
                self.moving[key].replicas,
                self.states[key],  # type: ignore[arg-type]  # known
                dead,
                self.live,
                self.epoch,
                self.unclean[key],
            )

    # Leaders

    def preferred(self, key: Key) -> State | None:
        state, head = self.states[key], self.moving[key].replicas[0]
        if state is None:
            return None
        if self.election_rules.preferred_again and state.leader == head and head in self.live and head in state.isr:
            return reference.rewritten(state, reference.Elected(head, state.isr), self.epoch)
        elected = reference.preferred(self.moving[key].replicas, state.isr, state.leader, self.live)
        return state if elected is None else reference.rewritten(state, elected, self.epoch)

    @rule()
    def elect_preferred(self) -> None:
        rows = self.table.rows()
        change = elect_preferred_leaders(
            self.table, rows, self.mask(), controller_epoch=self.epoch, rules=self.election_rules
        )
        self.make(change, self.preferred, list(self.states))

    @rule(percentage=st.sampled_from([0, 10, 40, 100]))
    def rebalance(self, percentage: int) -> None:
        change = rebalance_leaders(
            self.table, self.mask(), percentage, controller_epoch=self.epoch, rules=self.election_rules
        )
        chosen = []
        for broker in BROKERS:
            prefer = [key for key in self.states if self.moving[key].replicas[0] == broker]
            astray = [key for key in prefer if (state := self.states[key]) and state.leader != broker]
            if prefer and len(astray) / len(prefer) > percentage / 100:
                chosen += astray
        self.make(change, self.preferred, chosen)

    @precondition(lambda self: self.known())
    @rule(data=st.data(), by_controller=st.booleans())
    def change_isrs(self, data: st.DataObject, by_controller: bool) -> None:
        keys = data.draw(st.lists(st.sampled_from(self.known()), unique=True, min_size=1))
        brokers = [data.draw(st.sampled_from(self.moving[key].replicas)) for key in keys]
        shrinking = data.draw(st.booleans())
        # A leader never leaves its own ISR.
        brokers = [NONE if shrinking and self.leader(k) == b else b for k, b in zip(keys, brokers, strict=True)]
        joining = np.array([broker if broker != NONE else 0 for broker in brokers], dtype=np.int32)
        epoch = self.epoch if by_controller else None
        if shrinking:
            leaving = np.array(brokers, dtype=np.int32)[:, None]
            change = shrink_isrs(self.table, self.rows(keys), leaving, controller_epoch=epoch)
        else:
            change = expand_isrs(self.table, self.rows(keys), joining, controller_epoch=epoch)
        by_key = dict(zip(keys, brokers, strict=True))

        def expected(key: Key) -> State | None:
            state, broker = self.states[key], by_key[key]
            assert state is not None
            if state.leader == NONE or broker == NONE or (broker in state.isr) != shrinking:
                return state
            # A reassignment may have made a fifth member: then the set of the leader is one in hash order.
            in_sync = immutable_order(state.isr if shrinking else [*state.isr, broker])
            isr = [member for member in in_sync if not shrinking or member != broker]
            written = reference.by_leader(state, isr)
            return written if epoch is None else replace(written, controller_epoch=epoch)

        self.make(change, expected, keys)

    def leader(self, key: Key) -> int:
        state = self.states[key]
        return NONE if state is None else state.leader

    # Reassignments

    @precondition(lambda self: self.states and self.version < (2, 4, 0))
    @rule(data=st.data(), is_complete=st.booleans())
    def reassign_legacy(self, data: st.DataObject, is_complete: bool) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.states)), unique=True, min_size=1))
        targets = {key: data.draw(assignments) for key in keys}
        targets = {key: new for key, new in targets.items() if len({*new, *self.moving[key].replicas}) <= 4}
        rows, target = self.rows(targets), pack(list(targets.values()))
        if self.version >= (0, 8, 1) and not is_complete:
            move = begin_legacy_reassignments(self.table, rows, target, "2.12", controller_epoch=self.epoch)
            expected = {
                key: reference.begin_legacy(self.moving[key], self.states[key], new, self.epoch)
                for key, new in targets.items()
            }
        else:
            move = complete_reassignments(
                self.table,
                rows,
                self.mask(),
                target=target,
                raises_epoch=self.version >= (0, 8, 1),
                controller_epoch=self.epoch,
                unclean_allowed=self.allowed,
                rules=self.election_rules,
            )
            expected = {
                key: reference.complete_legacy(
                    self.version, self.moving[key], self.states[key], new, self.live, self.epoch, self.unclean[key]
                )
                for key, new in targets.items()
            }
        self.apply(move, expected)

    @precondition(lambda self: self.states and self.version >= (2, 4, 0))
    @rule(data=st.data())
    def reassign(self, data: st.DataObject) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.states)), unique=True, min_size=1))
        targets = {key: data.draw(assignments) for key in keys}
        move = begin_reassignments(
            self.table,
            self.rows(keys),
            pack(list(targets.values())),
            controller_epoch=self.epoch,
            rules=self.election_rules,
        )
        self.apply(move, {key: self.begun(key, target) for key, target in targets.items()})

    def begun(self, key: Key, target: list[int]) -> tuple[Moving, State | None]:
        return reference.begin(self.version, self.moving[key], self.states[key], target, self.epoch, unclean=False)

    @rule()
    def cancel(self) -> None:
        rows = self.table.rows()
        move = cancel_reassignments(self.table, rows, controller_epoch=self.epoch, rules=self.election_rules)
        under_way = {key: moving for key, moving in self.moving.items() if moving.adding or moving.removing}
        origins = {
            key: [broker for broker in moving.replicas if broker not in moving.adding]
            for key, moving in under_way.items()
        }
        self.apply(move, {key: self.begun(key, origin) for key, origin in origins.items()})

    @rule()
    def complete(self) -> None:
        move = complete_reassignments(
            self.table,
            self.table.rows(),
            self.mask(),
            controller_epoch=self.epoch,
            unclean_allowed=self.allowed,
            rules=self.election_rules,
        )
        self.apply(
            move,
            {
                key: reference.complete(
                    self.version, self.moving[key], self.states[key], self.live, self.epoch, self.unclean[key]
                )
                for key in self.states
            },
        )

    @invariant()
    def the_table_is_the_reference(self) -> None:
        assert len(self.table) == len(self.states)
        for key, state in self.states.items():
            row = self.table.row(*key)
            moving = self.table.replicas_of(row), *self.table.moves_of(row)
            assert moving == tuple(map(tuple, self.moving[key]))
            found = self.table.leader_and_isr(row)
            assert (found and as_reference(found)) == state
        self.table.check()


def as_state(states: States, place: int) -> State | None:
    """Return one of many states, None if there is no znode."""
    found = states.one(place)
    return as_reference(found) if found.version >= 0 else None


def as_reference(state: LeaderAndIsr) -> State:
    """Return a state as the type of the reference."""
    leader, leader_epoch, isr, controller_epoch, version, recovering = state
    return State(leader, leader_epoch, list(isr), controller_epoch, version, recovering)


def test_imbalance_is_above_the_percentage_not_at_it() -> None:
    table = PartitionTable()
    for row in table.add("t", {number: [1, 2] for number in range(10)}).tolist():
        table.put(row, LeaderAndIsr(1 if row else 2, 0, (1, 2), 1))
    everyone = broker_mask([1, 2])
    assert rebalance_leaders(table, everyone, 10, controller_epoch=2).rows.tolist() == []
    assert rebalance_leaders(table, everyone, 9, controller_epoch=2).rows.tolist() == [0]


TestOperations = Operations.TestCase
TestOperations.settings = settings(stateful_step_count=30, max_examples=60, deadline=None)
