"""Properties of a group whose members come and go and whose coordinator moves, at any moment."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.coordinator.group_clients import GROUP, PARTITIONS, TOPIC, Brokers, Consumer

SETTLES_S = 60.0
"""Virtual time after which a group with living members is stable: longer than all timeouts one after the other."""
MOST_CONSUMERS = 4


class MovingCoordinator(RuleBasedStateMachine):
    """A group of consumers on two brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = Brokers()
        self.consumers: list[Consumer] = []
        self.committed: dict[int, int] = {}
        self.offset = 0

    @property
    def running(self) -> list[Consumer]:
        """Consumers that have not ended."""
        return [consumer for consumer in self.consumers if consumer.is_running]

    @precondition(lambda self: len(self.running) < MOST_CONSUMERS)
    @rule(instance=st.sampled_from([None, None, "a", "b"]))
    def start(self, instance: str | None) -> None:
        """A consumer starts; a static one takes the place of its process before."""
        self.consumers.append(Consumer(self.brokers, instance).start())

    @precondition(lambda self: self.running)
    @rule(data=st.data(), says_so=st.booleans())
    def end(self, data: st.DataObject, says_so: bool) -> None:
        """A consumer ends."""
        consumer = data.draw(st.sampled_from(self.running))
        (consumer.leave if says_so else consumer.stop)()

    @rule(broker=st.sampled_from([0, 1]))
    def move(self, broker: int) -> None:
        """The partition of the group gets another leader."""
        self.brokers.move(broker)

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.5, 2.0, 7.0, 30.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.brokers.run_for(seconds)

    @precondition(lambda self: any(consumer.assigned for consumer in self.running))
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """A consumer commits an offset of a partition that it reads, and waits for the response."""
        consumer = data.draw(st.sampled_from([one for one in self.running if one.assigned]))
        assert consumer.assigned
        partition = data.draw(st.sampled_from(consumer.assigned))
        self.offset += 1
        consumer.commit(partition, self.offset)
        self.brokers.run_for(0.01)
        if consumer.acknowledged.get(partition) == self.offset:
            self.committed[partition] = self.offset

    @invariant()
    def invariants_hold(self) -> None:
        """All invariants of the coordinators hold, and generations never fall."""
        self.brokers.check()
        for consumer in self.consumers:
            assert consumer.generations == sorted(consumer.generations)

    @invariant()
    def no_partition_is_read_twice(self) -> None:
        """Members of the same generation have different partitions, but for a static member and its process before."""
        readers: dict[tuple[int, int], str] = {}
        for consumer in self.running:
            name = consumer.instance_id or consumer.member_id
            for partition in consumer.assigned or ():
                assert readers.setdefault((consumer.generation, partition), name) == name

    def teardown(self) -> None:
        """In the end every partition has exactly one member, and no committed offset is lost."""
        self.brokers.run_for(SETTLES_S)
        self.invariants_hold()
        read = sorted(partition for consumer in self.running for partition in consumer.assigned or ())
        assert read == (list(range(PARTITIONS)) if self.running else [])
        asked = [TopicPartition(TOPIC, partition) for partition in self.committed]
        found = self.brokers.coordinator.fetch(GROUP, asked, stable=True)
        assert isinstance(found, dict)
        for partition, offset in self.committed.items():
            committed = found[TopicPartition(TOPIC, partition)].committed
            assert committed is not None
            assert committed.offset >= offset


TestMovingCoordinator = MovingCoordinator.TestCase
TestMovingCoordinator.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
