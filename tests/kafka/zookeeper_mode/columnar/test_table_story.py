"""Any sequence of operations on a table equals the slow reference and the same story in znodes.

One story for each example, under the rules of any release line, is played four times: by the batch functions on a
`PartitionTable`, by the plain lists of `ReferenceTable`, by requests that write what the table came to in a ZooKeeper
whose topics are in columns, and by single requests that write what the reference wrote in one of objects. After each
step the table equals the reference, the two trees equal each other in every byte and number, and the columns behind the
one tree equal the table.

There are four brokers: longer sets of Scala are in hash order, which has its own tests (tests/jvm).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from simzk.kafka.releases.versions import VERSIONS, kafka_version
from tests.kafka.zookeeper_mode.columnar.table_by_batches import TableByBatches
from tests.kafka.zookeeper_mode.columnar.znode_arms import ZnodeArm, as_written
from tests.partitions import reference
from tests.partitions.reference_table import ReferenceTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.table import PartitionTable
    from tests.partitions.reference import State
    from tests.partitions.reference_table import Partition

pytestmark = pytest.mark.slow

BROKERS = [1, 2, 5, 13]
RACKS = ["a", "a", "b", "c"]
TOPICS = ["orders", "payments", "é"]

RULES_CHANGE_AT = {
    "0.8.0": "no assignment is widened, no topic deleted",
    "0.8.1": "moves widen the assignment",
    "0.8.2": "elections in the order of the assignment, unclean ones where allowed",
    "0.10.0": "shutdowns in the order of the assignment",
    "1.1": "the last member stays, the preferred leader is elected again",
    "2.2": "it is not",
    "2.3": "a new controller takes the dead out of ISRs",
    "2.4": "moves stand in the topic",
    "2.7": "the controller writes ISRs",
    "3.2": "unclean leaders recover",
}
"""First release of each set of rules."""


class TableStory(RuleBasedStateMachine):
    """One story in four implementations."""

    lines: ClassVar[list[str]]

    @initialize(
        data=st.data(),
        racks=st.one_of(st.none(), st.permutations(RACKS)),
        factor=st.integers(1, 3),
        start=st.integers(0, 3),
    )
    def begin(self, data: st.DataObject, racks: list[str] | None, factor: int, start: int) -> None:
        version = kafka_version(data.draw(st.sampled_from(self.lines)))
        self.racks = dict(zip(BROKERS, racks, strict=True)) if racks else {}
        self.reference = ReferenceTable(version.number, live=set(BROKERS))
        self.by_batches = TableByBatches(version, BROKERS)
        self.objects, self.columns = ZnodeArm(version, columns=False), ZnodeArm(version, columns=True)
        self.arms = [self.objects, self.columns]
        self.create("orders", 4, factor, start)

    # -- playing

    def play(self, step: Callable[[Any], None], *, topics: bool = False) -> None:
        """Compare both tables, then both trees, with as many writes as the reference made."""
        before = {topic: self.assigned(topic) for topic in self.topics()}
        step(self.reference)
        step(self.by_batches)
        written_by_reference, self.reference.written = self.reference.written, []
        self.compare_changes(written_by_reference)
        for topic in self.topics():
            now = self.assigned(topic)
            if topic not in before:
                for arm in self.arms:
                    arm.make_topic(topic, now)
            elif now != before[topic]:
                for arm in self.arms:
                    arm.write_topic(topic, now)
        self.write_states(written_by_reference)

    def assigned(self, topic: str) -> dict[int, reference.Moving]:
        return {number: self.reference.moving[topic, number] for number in self.reference.numbers(topic)}

    def topics(self) -> list[str]:
        return list(dict.fromkeys(topic for topic, _ in self.reference.moving))

    def write_states(self, states: list[tuple[Partition, State]]) -> None:
        """Write first states and each round of writes: the reference to the objects, the table to the columns."""
        new = [(partition, state) for partition, state in states if state.version == 0]
        for arm in self.arms:
            arm.make_states(new)
        left = [pair for pair in states if pair[1].version > 0]
        while left:
            now: dict[Partition, State] = {}
            later = []
            for partition, state in left:
                if partition in now:
                    later.append((partition, state))
                else:
                    now[partition] = state
            left = later
            for arm in self.arms:
                arm.now_ms += 1
            self.objects.write_one_by_one(now.items())
            final = [partition for partition, state in now.items() if state is self.reference.states[partition]]
            if len(final) == len(now):
                table = self.by_batches.table
                rows = np.array([table.row(*partition) for partition in final], dtype=np.int32)
                self.columns.write_together(table.partitions(rows), table.states(rows))
            else:
                self.columns.write_one_by_one(now.items())

    def compare_changes(self, states: list[tuple[Partition, State]]) -> None:
        """Compare the changed rows of the batches with the writes of the reference."""
        table, changed = self.by_batches.table, self.by_batches.changed
        touched = {table.name(row) for rows, _ in changed for row in rows.tolist()}
        assert touched == {partition for partition, _ in states}
        changed.clear()

    # -- steps

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 5), factor=st.integers(1, 3), start=st.integers(0, 5))
    def create(self, topic: str, count: int, factor: int, start: int) -> None:
        live = len(self.reference.live)
        if topic in self.topics() or not live:
            return
        chosen, first, racks = min(factor, live), start % live, self.racks
        self.reference.create(topic, count, chosen, racks, first, first)
        wanted, self.reference.written = self.reference.written, []
        self.by_batches.create(topic, count, chosen, racks, first)
        self.compare_changes(wanted)
        for arm in self.arms:
            arm.make_topic(topic, self.assigned(topic))
        self.write_states(wanted)

    @precondition(lambda self: self.reference.live)
    @rule(data=st.data(), count=st.integers(1, 3))
    def grow(self, data: st.DataObject, count: int) -> None:
        topic = self.any_topic(data)
        if topic is not None and len(self.reference.numbers(topic)) < 12:
            self.play(lambda table: table.grow(topic, count, self.racks))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        topic = self.any_topic(data)
        if topic is not None:
            numbers = self.reference.numbers(topic)
            self.play(lambda table: table.delete(topic))
            for arm in self.arms:
                arm.remove_topic(topic, numbers)

    @precondition(lambda self: self.reference.live)
    @rule(data=st.data())
    def brokers_fail(self, data: st.DataObject) -> None:
        choice = st.lists(st.sampled_from(sorted(self.reference.live)), unique=True, min_size=1)
        dead = data.draw(choice)
        self.play(lambda table: table.fail(dead))

    @precondition(lambda self: len(self.reference.live) < len(BROKERS))
    @rule(data=st.data())
    def brokers_start(self, data: st.DataObject) -> None:
        dead = sorted(set(BROKERS) - self.reference.live)
        back = data.draw(st.lists(st.sampled_from(dead), unique=True, min_size=1))
        self.play(lambda table: table.start(back))

    @precondition(lambda self: self.reference.live)
    @rule(data=st.data())
    def broker_bounces(self, data: st.DataObject) -> None:
        broker = data.draw(st.sampled_from(sorted(self.reference.live)))
        self.play(lambda table: table.bounce(broker))

    @precondition(lambda self: self.reference.can_lead)
    @rule(data=st.data())
    def broker_shuts_down(self, data: st.DataObject) -> None:
        broker = data.draw(st.sampled_from(sorted(self.reference.can_lead)))
        self.play(lambda table: table.shut_down(broker))

    @rule(data=st.data())
    def controller_fails_over(self, data: st.DataObject) -> None:
        """Let the next controller find the brokers that failed with it or without a controller."""
        live = sorted(self.reference.live)
        dead = data.draw(st.lists(st.sampled_from(live), unique=True)) if live else []
        for arm in self.arms:
            arm.fail_over(self.reference.epoch + 1)
        self.play(lambda table: table.fail_over(dead))

    @rule(data=st.data())
    def preferred_election(self, data: st.DataObject) -> None:
        topic = self.any_topic(data)
        if topic is not None:
            self.play(lambda table: table.elect_preferred(topic))

    @rule(data=st.data())
    def unclean_election(self, data: st.DataObject) -> None:
        topic = self.any_topic(data)
        if topic is not None:
            self.play(lambda table: table.allow_unclean(topic))

    @rule(data=st.data())
    def followers_leave(self, data: st.DataObject) -> None:
        led = [p for p, s in self.reference.states.items() if s.leader in self.reference.live and len(s.isr) > 1]
        if led:
            partition = data.draw(st.sampled_from(led))
            state = self.reference.states[partition]
            followers = [broker for broker in state.isr if broker != state.leader]
            out = data.draw(st.lists(st.sampled_from(followers), unique=True, min_size=1))
            self.play(lambda table: table.shrink(partition, out))

    @rule(data=st.data())
    def follower_joins(self, data: st.DataObject) -> None:
        able = {p: self.able_to_join(p) for p in self.reference.states}
        partitions = [partition for partition, brokers in able.items() if brokers]
        if partitions:
            partition = data.draw(st.sampled_from(partitions))
            broker = data.draw(st.sampled_from(able[partition]))
            self.play(lambda table: table.expand(partition, broker))

    @rule()
    def all_join(self) -> None:
        """Let time pass: live replicas join the ISR, and reassignments complete."""
        for partition in list(self.reference.states):
            for broker in self.able_to_join(partition):
                self.play(lambda table, p=partition, b=broker: table.expand(p, b))  # type: ignore[misc]
            if self.reference.can_finish(partition):
                self.play(lambda table, p=partition: table.finish(p))  # type: ignore[misc]

    def able_to_join(self, partition: Partition) -> list[int]:
        state = self.reference.states[partition]
        holders = dict.fromkeys((*self.reference.moving[partition].replicas, *(self.reference.target(partition) or ())))
        if state.leader not in self.reference.live:
            return []
        return [b for b in holders if b in self.reference.live and b not in state.isr]

    @rule(data=st.data(), wanted=st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=3))
    def reassign(self, data: st.DataObject, wanted: list[int]) -> None:
        partitions = list(self.reference.states)
        if not partitions:
            return
        partition = data.draw(st.sampled_from(partitions))
        moving = self.reference.moving[partition]
        legacy = self.reference.version < (2, 4, 0)
        busy = legacy and partition in self.reference.targets
        if not busy and not (legacy and wanted == moving.replicas):
            self.play(lambda table: table.reassign(partition, wanted))

    @rule(data=st.data())
    def reassignment_ends(self, data: st.DataObject) -> None:
        ready = [partition for partition in self.reference.states if self.reference.can_finish(partition)]
        if ready:
            partition = data.draw(st.sampled_from(ready))
            self.play(lambda table: table.finish(partition))

    @precondition(lambda self: self.reference.version >= (2, 4, 0))
    @rule(data=st.data())
    def reassignment_is_cancelled(self, data: st.DataObject) -> None:
        moving = [p for p in self.reference.states if self.reference.target(p) is not None]
        if moving:
            partition = data.draw(st.sampled_from(moving))
            self.play(lambda table: table.cancel(partition))

    def any_topic(self, data: st.DataObject) -> str | None:
        topics = self.topics()
        return data.draw(st.sampled_from(topics)) if topics else None

    # -- what holds

    @invariant()
    def table_and_reference_agree(self) -> None:
        table = self.by_batches.table
        table.check()
        assert table_as_lists(table) == {
            partition: (moving, as_written(states[partition]) if partition in states else None)
            for states in [self.reference.states]
            for partition, moving in self.reference.moving.items()
        }

    @invariant()
    def trees_agree(self) -> None:
        for arm in self.arms:
            arm.server.check()
        assert self.columns.server.zxid == self.objects.server.zxid
        trees = zip(self.columns.server.tree.walk(), self.objects.server.tree.walk(), strict=True)
        for (path, node), (expected_path, expected) in trees:
            assert (path, node.data, node.acl, node.stat()) == (
                expected_path,
                expected.data,
                expected.acl,
                expected.stat(),
            )

    @invariant()
    def columns_hold_what_the_table_says(self) -> None:
        backing = self.columns.backing
        assert backing is not None
        ours, theirs = table_as_lists(self.by_batches.table), table_as_lists(backing.table)
        known = self.reference.version >= (2, 4, 0)
        for partition, (moving, state) in ours.items():
            held_moving, held_state = theirs[partition]
            assert held_moving.replicas == moving.replicas
            assert not known or held_moving == moving
            assert held_state == state
        assert ours.keys() == theirs.keys()
        assert len(backing) == sum(1 for path, _ in self.objects.server.tree.walk("/brokers/topics")) - 1


def table_as_lists(table: PartitionTable) -> dict[Partition, tuple[reference.Moving, LeaderAndIsr | None]]:
    return {
        table.name(row): (
            reference.Moving(*map(list, (table.replicas_of(row), *table.moves_of(row)))),
            table.leader_and_isr(row),
        )
        for row in table.rows().tolist()
    }


def lines_from(first: str) -> list[str]:
    """Return all releases with the rules of one."""
    lines = sorted(VERSIONS, key=lambda name: kafka_version(name).number)
    ends = [lines.index(name) for name in RULES_CHANGE_AT] + [len(lines)]
    begin = lines.index(first)
    return lines[begin : min(end for end in ends if end > begin)]


EXAMPLES = max(5, settings().max_examples // 16)


@pytest.mark.parametrize("first", RULES_CHANGE_AT)
def test_a_table_equals_the_reference_and_znodes(first: str) -> None:
    class Story(TableStory):
        lines = lines_from(first)

    run_state_machine_as_test(Story, settings=settings(max_examples=EXAMPLES, stateful_step_count=40))


def test_all_lines_are_played() -> None:
    assert sorted(line for first in RULES_CHANGE_AT for line in lines_from(first)) == sorted(VERSIONS)
