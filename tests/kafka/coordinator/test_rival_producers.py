"""Properties of two producers with one transactional id, whose coordinator moves at any moment.

At most one of them can commit at a time: who begins fences the other. What is answered as committed is committed in
every partition of the transaction, what is answered as aborted is aborted in every one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simzk.kafka.protocol.errors import ErrorCode
from tests.kafka.coordinator.transaction_clients import ID, ORDERS, TIMEOUT_MS, Brokers, Producer

if TYPE_CHECKING:
    from simzk.kafka.coordinator.transaction import ProducerIdentity
    from simzk.kafka.topic_partition import TopicPartition

MOST_TRIES = 5
HEALS_S = 120.0
"""Virtual time after which no transaction is open: longer than its timeout."""


@dataclass(eq=False)
class Rival:
    """One of the producers.

    Attributes:
        identity: its id and epoch; None before the first.
        number: of its identity, in the order in which identities were answered.
        added: partitions whose addition was answered, with the number of their markers then.
    """

    identity: ProducerIdentity | None = None
    number: int = 0
    added: dict[TopicPartition, int] = field(default_factory=dict)


class RivalProducers(RuleBasedStateMachine):
    """Two producers and two coordinators."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = Brokers()
        self.rivals = [Rival(), Rival()]
        self.identities = 0
        self.decided: list[tuple[TopicPartition, int, bool]] = []

    rivals_ = st.sampled_from([0, 1])
    pauses = st.sampled_from([0.0, 0.01])

    @rule(rival=rivals_, names_itself=st.booleans(), after_s=pauses)
    def begin(self, rival: int, names_itself: bool, after_s: float) -> None:
        """A producer asks for its identity; the answer may come when others have asked, too."""
        producer = self.rivals[rival]

        def respond(answer: ProducerIdentity | ErrorCode) -> None:
            if not isinstance(answer, ErrorCode):
                self.identities += 1
                self.rivals[rival] = Rival(answer, self.identities)

        expected = producer.identity if names_itself else None
        self.brokers.coordinator.init_producer_id(ID, TIMEOUT_MS, expected, respond)
        self.brokers.run_for(after_s)

    @rule(rival=rivals_)
    def take_over(self, rival: int) -> None:
        """A new producer repeats its request until it has its identity, as clients do, unless it takes too long."""
        before = self.rivals[rival]
        for _ in range(MOST_TRIES):
            self.begin(rival=rival, names_itself=False, after_s=0.2)
            if self.rivals[rival] is not before:
                break

    @rule(rival=rivals_, partition=st.sampled_from(ORDERS), after_s=pauses)
    def add(self, rival: int, partition: TopicPartition, after_s: float) -> None:
        """A producer adds a partition."""
        producer, newest = self.rivals[rival], self.identities
        if producer.identity is None:
            return

        def respond(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                assert producer.number >= newest, "a fenced producer went on"
                producer.added.setdefault(partition, len(self.brokers.markers[partition]))

        self.brokers.coordinator.add_partitions(ID, producer.identity, [partition], respond)
        self.brokers.run_for(after_s)

    @rule(rival=rivals_, is_commit=st.booleans(), after_s=pauses)
    def end(self, rival: int, is_commit: bool, after_s: float) -> None:
        """A producer ends its transaction."""
        producer, newest = self.rivals[rival], self.identities
        if producer.identity is None:
            return
        added, producer.added = producer.added, {}

        def respond(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                assert producer.number >= newest, "a fenced producer ended a transaction"
                self.decided += [(partition, at, is_commit) for partition, at in added.items()]

        self.brokers.coordinator.end(ID, producer.identity, is_commit=is_commit, respond=respond)
        self.brokers.run_for(after_s)

    @rule(broker=st.sampled_from([0, 1]))
    def move(self, broker: int) -> None:
        """The partition of the id gets another leader, or another leader epoch."""
        self.brokers.move(broker)

    @rule(is_reachable=st.booleans())
    def cut(self, is_reachable: bool) -> None:
        """The leader of the data partitions can be reached or not."""
        self.brokers.is_reachable = is_reachable

    @rule(rejects=st.booleans())
    def shrink(self, rejects: bool) -> None:
        """Enough replicas of the transaction log are in sync or not."""
        self.brokers.log.rejects = rejects

    @rule(seconds=st.sampled_from([0.001, 0.004, 0.01, 0.05, 0.6, 20.0, 70.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.brokers.run_for(seconds)

    @invariant()
    def is_consistent(self) -> None:
        """Every structure is in order."""
        self.brokers.check()

    def teardown(self) -> None:
        """When nothing fails any more, decisions stand in all partitions, and a new producer can commit."""
        brokers = self.brokers
        brokers.is_reachable, brokers.log.rejects = True, False
        brokers.run_for(HEALS_S)
        for partition, at, is_commit in self.decided:
            found: list[Any] = brokers.markers[partition][at : at + 1]
            assert [marker.is_commit for marker in found] == [is_commit], f"{partition} has {found}"
        producer = Producer(brokers).begin()
        assert producer.add(*ORDERS) == ErrorCode.NONE
        assert producer.end(is_commit=True) == ErrorCode.NONE


TestRivalProducers = RivalProducers.TestCase
TestRivalProducers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
