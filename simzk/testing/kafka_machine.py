"""Hypothesis state machine over simulated Kafka clusters, to subclass.

Rules of this module:
  - the machine performs operator actions and faults; it checks the cluster's invariants at every event, and liveness
    after everything is healed;
  - shrinking runs hundreds of examples, so an example that has failed is not healed, healing ends as soon as the
    cluster is quiet, and Hypothesis neither traces lines nor shrinks a second failure (`MACHINE_SETTINGS`);
  - what the machine does goes through `Story`, which writes the failing example as a test and as a scenario file.

`python -m benchmarks.shrinking` shows where the time of shrinking goes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.testing.story import Story
from simzk.testing.strategies import ClusterShape, Fault, TopicShape, faults, inflict, topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    import simzk
    from simzk.simulation.history import Invariant, Monitor

HEALED_WITHIN_S = 120
"""Time limit in virtual time for recovery: sessions of 18 s, a replica lag of 30 s, reassignments."""

SHUT_DOWN_WITHIN_S = 60
"""Time limit for a controlled shutdown, including pauses of the broker."""

MACHINE_SETTINGS = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase is not Phase.explain],
    report_multiple_bugs=False,
)
"""Settings of every machine's `TestCase`.

The phase `explain` would trace each line, which makes a step four times slower; several failures would be shrunk one
after the other.
"""


class KafkaClusterMachine(RuleBasedStateMachine):
    """State machine that creates topics, kills, restarts, pauses, expires, reassigns and elects in any order.

    A subclass adds rules and invariants, or sets the class attributes:

        class MyMachine(KafkaClusterMachine):
            brokers = 5

            @invariant()
            def my_tool_agrees(self): ...

        TestMyCluster = MyMachine.TestCase
        TestMyCluster.settings = settings(MACHINE_SETTINGS, max_examples=30)

    A leader that an overlapping reassignment removes is no failure, because real controllers remove it too: see `heal`.

    After a failure Hypothesis prints the steps of the smallest failing example, and below them the same as a test and
    as a scenario file, to paste.

    Attributes:
        brokers: number of brokers.
        topics_max: maximum number of topics.
        cluster: the cluster, set by the first step.
        monitor: the monitor of invariants, with their `violations`.
        story: what was done to the cluster.
    """

    brokers = 3
    topics_max = 3
    cluster: simzk.KafkaCluster
    monitor: Monitor
    story: Story

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.TestCase.settings = MACHINE_SETTINGS

    def extra_invariants(self) -> Sequence[Invariant]:
        """Return invariants in addition to the cluster's own; for subclasses."""
        return ()

    @initialize(seed=st.integers(0, 2**32 - 1), session_timeout_ms=st.sampled_from([6000, 18_000]))
    def boot(self, seed: int, session_timeout_ms: int) -> None:
        """Start the cluster."""
        from simzk.simulation.history import Monitor

        shape = ClusterShape(self.brokers, 0, session_timeout_ms, seed)
        self.cluster = shape.start()
        self.monitor = Monitor(self.cluster.history, (*self.cluster.invariants, *self.extra_invariants()), seed=seed)
        self.created: list[TopicShape] = []
        self.story = Story(self.cluster, shape)

    @rule(after_ms=st.sampled_from([1, 100, 1000, 7000, 20_000]))
    def run(self, after_ms: int) -> None:
        """Advance virtual time."""
        self.cluster.run_for(after_ms / 1000)

    @precondition(lambda self: len(self.created) < self.topics_max)
    @rule(topic=st.runner().flatmap(lambda self: topics(self.brokers, name=f"topic{len(self.created)}")))
    def create_topic(self, topic: TopicShape) -> None:
        """Create a topic with a random assignment."""
        self.story.create_topic(topic)
        self.created.append(topic)

    @rule(fault=st.runner().flatmap(lambda self: faults(self.brokers)))
    def fault(self, fault: Fault) -> None:
        """Let some time pass, then kill, restart, shut down, expire or pause a broker."""
        self.cluster.run_for(fault.after_ms / 1000)
        self.nothing_is_broken()  # here, so that a fault that comes later is not part of the example
        self.story.inflict(fault)

    @precondition(lambda self: self.created)
    @rule(data=st.data())
    def reassign(self, data: st.DataObject) -> None:
        """Reassign a partition to replicas on any brokers, live or not."""
        topic = data.draw(st.sampled_from(self.created), "topic")
        partition = data.draw(st.integers(0, len(topic.replicas) - 1), "partition")
        order = data.draw(st.permutations(range(1, self.brokers + 1)), "order")
        size = data.draw(st.integers(1, self.brokers), "replicas")
        self.story.reassign({(topic.name, partition): list(order[:size])})

    @rule(kind=st.sampled_from(["preferred", "unclean"]))
    def elect(self, kind: str) -> None:
        """Request an election for every partition."""
        self.story.elect(kind)

    def existing_topics(self) -> list[str]:
        """Return the topics that exist: a cluster without live brokers may have rejected a creation."""
        return existing_topics(self.cluster)

    @invariant()
    def nothing_is_broken(self) -> None:
        """Assert that no invariant was violated, and that the ZooKeeper tree is consistent."""
        if hasattr(self, "cluster"):
            assert not self.monitor.violations, "\n".join(str(broken) for broken in self.monitor.violations)
            self.cluster.server.check()

    def heal(self) -> None:
        """Wait for shutdowns, restart brokers that are down, and wait for recovery."""
        heal(self.cluster, story=self.story)

    def teardown(self) -> None:
        """Check liveness: after recovery all brokers are registered, with a controller and all leaders.

        An example that has failed before is only written down.
        """
        if not hasattr(self, "cluster"):
            return
        try:
            # Hypothesis calls this while the failure of a step propagates.
            failure = sys.exc_info()[1]
            if failure is None:
                self.story.begin_healing()
                try:
                    self.heal()
                    self.nothing_is_broken()
                    assert_recovered(self.cluster)
                except Exception as found:  # of any kind: written down, and raised
                    failure = found
                    raise
        finally:
            if isinstance(failure, Exception):
                note(self.story.to_text(type(self), failure, bool(self.extra_invariants())))
            self.cluster.close()
            # Hypothesis keeps the machine; a cluster has megabytes.
            del self.cluster, self.monitor, self.story


def existing_topics(cluster: simzk.KafkaCluster) -> list[str]:
    """Return the names of a cluster's topics, ascending."""
    node = cluster.tree.get(paths.TOPICS)
    return [] if node is None else sorted(node.child_names())


def heal(cluster: simzk.KafkaCluster, *, story: Story | None = None) -> None:
    """Wait until shutdowns and pauses have ended, restart brokers that are down, and wait until the cluster is quiet.

    Real controllers of 2.4 to 3.9 leave a partition without a leader if a reassignment supersedes or cancels another
    whose adding replica leads (KafkaController.updateCurrentReassignment). This does what an operator has to do: it
    requests an unclean election, which elects a live member of the ISR. If no member of the ISR is a replica any more,
    real controllers elect nobody while one of them lives; then the partition is reassigned to its ISR.

    Args:
        cluster: the cluster.
        story: writes the actions down; None for no story.

    >>> import simzk
    >>> with simzk.KafkaCluster(brokers=3) as cluster:
    ...     cluster.kill(1)
    ...     heal(cluster)
    ...     assert_recovered(cluster)
    """
    for _ in range(SHUT_DOWN_WITHIN_S):
        if not any(broker.alive and (broker.stopping or broker.paused) for broker in cluster.brokers.values()):
            break
        cluster.run_for(1)
    for broker in sorted(cluster.brokers):
        fault = Fault(0, "restart", broker, 0)
        if story is None:
            inflict(cluster, fault)
        else:
            story.inflict(fault)
    if not _recovers(cluster):
        _restore_leaders(cluster, cluster if story is None else story)
        _recovers(cluster)


def _restore_leaders(cluster: simzk.KafkaCluster, operations: simzk.KafkaCluster | Story) -> None:
    """Request leaders of partitions that lost theirs to a reassignment, and for which no controller elects one."""
    for name in existing_topics(cluster):
        for number, assignment in cluster.assignment(name).items():
            if cluster.tree.get(paths.state(TopicPartition(name, number))) is None:
                continue
            state = cluster.state(name, number)
            if state.leader >= 0:
                continue
            if not set(state.isr) & set(assignment.replicas):
                operations.reassign({(name, number): list(state.isr)})
            elif assignment.adding or assignment.removing:
                operations.elect("unclean", [(name, number)])


def _recovers(cluster: simzk.KafkaCluster) -> bool:
    """Let time pass until the cluster has recovered and is quiet; return whether it has recovered in time."""
    for _ in range(HEALED_WITHIN_S):
        try:
            assert_recovered(cluster)
        except AssertionError:
            cluster.run_for(1)
        else:
            cluster.run_until_quiet(HEALED_WITHIN_S)
            return True
    return False


def assert_recovered(cluster: simzk.KafkaCluster) -> None:
    """Assert that all brokers are registered, one is controller, and every partition has a leader in its ISR."""
    assert cluster.live_brokers == sorted(cluster.brokers), f"of {sorted(cluster.brokers)} {cluster.live_brokers} live"
    assert cluster.controller in cluster.live_brokers, f"the controller is {cluster.controller}"
    for name in existing_topics(cluster):
        for partition in cluster.assignment(name):
            described = TopicPartition(name, partition)
            assert cluster.tree.get(paths.state(described)) is not None, f"{described} has no state"
            state = cluster.state(name, partition)
            assert state.leader in state.isr, f"{described} has no leader: {state}"
