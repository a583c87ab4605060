"""Hypothesis strategies for simulated clusters (shapes, topics, schedules of faults), and a state machine to subclass.

Rules of this module:
  - examples are plain values, printable and comparable, so that a failing example can be pasted into a test;
  - Hypothesis shrinks towards fewer brokers, fewer faults and shorter times;
  - the machine performs operator actions and faults; it checks the cluster's invariants at every event, and liveness
    after everything is healed.

>>> shape = ClusterShape(brokers=3, racks=0, session_timeout_ms=6000, seed=7)
>>> cluster = shape.start()
>>> play(cluster, (Fault(1000, "kill", 2, 0), Fault(9000, "restart", 2, 0)))
>>> cluster.run_for(10)
>>> cluster.live_brokers
[1, 2, 3]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simzk.kafka import paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    import simzk
    from simzk.simulation.history import Invariant, Monitor

Verb = Literal["kill", "restart", "pause", "expire", "shutdown"]
VERBS: tuple[Verb, ...] = ("restart", "kill", "shutdown", "expire", "pause")


class ClusterShape(NamedTuple):
    """Shape of a cluster.

    Args:
        brokers: number of brokers; their ids are 1, 2, ...
        racks: number of racks; 0 for none.
        session_timeout_ms: timeout of the brokers' ZooKeeper sessions.
        seed: seed of the run.
    """

    brokers: int
    racks: int
    session_timeout_ms: int
    seed: int

    def start(self) -> simzk.KafkaCluster:
        """Return a started cluster of this shape."""
        import simzk

        return simzk.KafkaCluster(
            brokers=self.brokers,
            racks=self.racks or None,
            seed=self.seed,
            config={"zookeeper.session.timeout.ms": str(self.session_timeout_ms)},
        )


class TopicShape(NamedTuple):
    """A topic: its name, and the replicas of each partition in preference order."""

    name: str
    replicas: tuple[tuple[int, ...], ...]

    def create(self, cluster: simzk.KafkaCluster) -> None:
        """Create the topic with this assignment."""
        cluster.create_topic(self.name, assignment=dict(enumerate(self.replicas)))


class Fault(NamedTuple):
    """Fault of a broker, `after_ms` of virtual time after the previous one.

    `duration_ms` is the duration of a pause; 0 for other verbs. A verb that is impossible, such as the restart of a
    running broker, has no effect: a schedule stays valid when Hypothesis removes parts of it.
    """

    after_ms: int
    verb: Verb
    broker: int
    duration_ms: int


def cluster_shapes(*, brokers_min: int = 1, brokers_max: int = 5) -> st.SearchStrategy[ClusterShape]:
    """Return a strategy for shapes of clusters.

    >>> from hypothesis import find
    >>> find(cluster_shapes(), lambda shape: True)
    ClusterShape(brokers=1, racks=0, session_timeout_ms=6000, seed=0)
    """
    return st.builds(
        ClusterShape,
        brokers=st.integers(brokers_min, brokers_max),
        racks=st.integers(0, 3),
        session_timeout_ms=st.sampled_from([6000, 18_000]),
        seed=st.integers(0, 2**32 - 1),
    )


@st.composite
def topics(draw: st.DrawFn, brokers: int, *, name: str = "topic", partitions_max: int = 4) -> TopicShape:
    """Draw a topic on brokers 1 to `brokers`, with one replication factor."""
    replication_factor = draw(st.integers(1, brokers))
    ids = st.permutations(range(1, brokers + 1)).map(lambda order: tuple(order[:replication_factor]))
    return TopicShape(name, tuple(draw(st.lists(ids, min_size=1, max_size=partitions_max))))


@st.composite
def faults(draw: st.DrawFn, brokers: int) -> Fault:
    """Draw a fault of one of the brokers 1 to `brokers`."""
    verb = draw(st.sampled_from(VERBS))
    # Below, at and above the session timeouts: a shorter pause is not noticed, a longer one expires the session.
    duration_ms = draw(st.sampled_from([100, 2000, 5000, 7000, 20_000, 40_000])) if verb == "pause" else 0
    after_ms = draw(st.sampled_from([0, 1, 10, 100, 1000, 7000, 20_000]))
    return Fault(after_ms, verb, draw(st.integers(1, brokers)), duration_ms)


def fault_schedules(brokers: int, *, faults_max: int = 8) -> st.SearchStrategy[tuple[Fault, ...]]:
    """Return a strategy for schedules of faults, to be applied by `play`."""
    return st.lists(faults(brokers), max_size=faults_max).map(tuple)


def play(cluster: simzk.KafkaCluster, schedule: tuple[Fault, ...]) -> None:
    """Apply a schedule of faults to a cluster, advancing its time."""
    for fault in schedule:
        cluster.run_for(fault.after_ms / 1000)
        inflict(cluster, fault)


def inflict(cluster: simzk.KafkaCluster, fault: Fault) -> bool:
    """Apply a fault now; return whether it was possible."""
    alive = cluster.brokers[fault.broker].alive
    if alive == (fault.verb == "restart"):
        return False
    if fault.verb == "pause":
        cluster.pause(fault.broker, fault.duration_ms / 1000)
    else:
        getattr(cluster, fault.verb)(fault.broker)
    return True


HEALED_WITHIN_S = 120
"""Time limit in virtual time for recovery: sessions of 18 s, a replica lag of 30 s, reassignments."""

SHUT_DOWN_WITHIN_S = 60
"""Time limit for a controlled shutdown, including pauses of the broker."""


class KafkaClusterMachine(RuleBasedStateMachine):
    """State machine that creates topics, kills, restarts, pauses, expires, reassigns and elects in any order.

    A subclass adds rules and invariants, or sets the class attributes:

        class MyMachine(KafkaClusterMachine):
            brokers = 5

            @invariant()
            def my_tool_agrees(self): ...

        TestMyCluster = MyMachine.TestCase

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
