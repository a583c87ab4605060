"""A Hypothesis state machine over a simulated Kafka cluster, for subclassing.

Rules of this module:
  - the machine performs operator actions and faults; it checks the cluster's invariants at every event, and liveness
    after everything is healed;
  - a subclass adds rules and invariants, or sets the class attributes.

    from simzk.testing import KafkaClusterMachine

    class MyMachine(KafkaClusterMachine):
        brokers = 5

        @invariant()
        def my_tool_agrees(self): ...

    TestMyCluster = MyMachine.TestCase
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simzk.kafka import paths
from simzk.testing.strategies import ClusterShape, Fault, TopicShape, faults, inflict, topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    import simzk
    from simzk.simulation.history import Invariant, Monitor

HEALED_WITHIN_S = 120
"""Time limit in virtual time for recovery: sessions of 18 s, a replica lag of 30 s, reassignments."""

SHUT_DOWN_WITHIN_S = 60
"""Time limit for a controlled shutdown, including pauses of the broker."""


class KafkaClusterMachine(RuleBasedStateMachine):
    """State machine that creates topics, kills, restarts, pauses, expires, reassigns and elects in any order.

    Attributes:
        brokers: number of brokers.
        topics_max: maximum number of topics.
        cluster: the cluster, set by the first step.
        monitor: the monitor of invariants, with their `violations`.
    """

    brokers = 3
    topics_max = 3
    cluster: simzk.KafkaCluster
    monitor: Monitor

    def extra_invariants(self) -> Sequence[Invariant]:
        """Return invariants in addition to the cluster's own; for subclasses."""
        return ()

    @initialize(seed=st.integers(0, 2**32 - 1), session_timeout_ms=st.sampled_from([6000, 18_000]))
    def boot(self, seed: int, session_timeout_ms: int) -> None:
        """Start the cluster."""
        from simzk.simulation.history import Monitor

        self.cluster = ClusterShape(self.brokers, 0, session_timeout_ms, seed).start()
        watched = (*self.cluster.invariants, *self.extra_invariants())
        self.monitor = Monitor(self.cluster.history, watched, seed=seed)
        self.created: list[TopicShape] = []

    @rule(after_ms=st.sampled_from([1, 100, 1000, 7000, 20_000]))
    def run(self, after_ms: int) -> None:
        """Advance virtual time."""
        self.cluster.run_for(after_ms / 1000)

    @precondition(lambda self: len(self.created) < self.topics_max)
    @rule(data=st.data())
    def create_topic(self, data: st.DataObject) -> None:
        """Create a topic with a random assignment."""
        topic = data.draw(topics(self.brokers, name=f"topic{len(self.created)}"), "topic")
        topic.create(self.cluster)
        self.created.append(topic)

    @rule(data=st.data())
    def fault(self, data: st.DataObject) -> None:
        """Kill, restart, shut down, expire or pause a broker."""
        inflict(self.cluster, data.draw(faults(self.brokers), "fault"))

    @precondition(lambda self: self.created)
    @rule(data=st.data())
    def reassign(self, data: st.DataObject) -> None:
        """Reassign a partition to replicas on any brokers, live or not."""
        topic = data.draw(st.sampled_from(self.created), "topic")
        partition = data.draw(st.integers(0, len(topic.replicas) - 1), "partition")
        order = data.draw(st.permutations(range(1, self.brokers + 1)), "order")
        size = data.draw(st.integers(1, self.brokers), "replicas")
        self.cluster.reassign({(topic.name, partition): list(order[:size])})

    @rule(kind=st.sampled_from(["preferred", "unclean"]))
    def elect(self, kind: str) -> None:
        """Request an election for every partition."""
        self.cluster.elect(kind)

    def existing_topics(self) -> list[str]:
        """Return the topics that exist: a cluster without live brokers may have rejected a creation."""
        return [topic.name for topic in self.created if self.cluster.tree.get(paths.topic(topic.name)) is not None]

    @invariant()
    def nothing_is_broken(self) -> None:
        """Assert that no invariant was violated, and that the ZooKeeper tree is consistent."""
        if hasattr(self, "cluster"):
            assert not self.monitor.violations, "\n".join(str(broken) for broken in self.monitor.violations)
            self.cluster.server.check()

    def heal(self) -> None:
        """Wait for shutdowns, restart brokers that are down, and wait for recovery."""
        self.cluster.run_for(SHUT_DOWN_WITHIN_S)
        for broker in sorted(self.cluster.brokers):
            inflict(self.cluster, Fault(0, "restart", broker, 0))
        self.cluster.run_for(HEALED_WITHIN_S)

    def teardown(self) -> None:
        """Check liveness: after recovery all brokers are registered, with a controller and all leaders."""
        if not hasattr(self, "cluster"):
            return
        try:
            self.heal()
            self.nothing_is_broken()
            assert self.cluster.live_brokers == list(range(1, self.brokers + 1))
            assert self.cluster.controller in self.cluster.live_brokers
            for name in self.existing_topics():
                for partition in self.cluster.assignment(name):
                    state = self.cluster.state(name, partition)
                    assert state.leader in state.isr, f"{name}-{partition} has no leader: {state}"
        finally:
            self.cluster.close()
