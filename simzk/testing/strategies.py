"""Hypothesis strategies for simulated clusters: shapes, topics, schedules of faults.

Rules of this module:
  - examples are plain values, printable and comparable, so that a failing example can be pasted into a test;
  - Hypothesis shrinks towards fewer brokers, fewer faults and shorter times.

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

if TYPE_CHECKING:
    import simzk

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
    if cluster.brokers[fault.broker].alive == (fault.verb == "restart"):
        return False
    if fault.verb == "pause":
        cluster.pause(fault.broker, fault.duration_ms / 1000)
    else:
        getattr(cluster, fault.verb)(fault.broker)
    return True
