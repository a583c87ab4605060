"""Hypothesis strategies for simulated clusters: their shapes, their topics, and schedules of faults.

Rules of this module:
  - what is drawn is plain values, printable and comparable, so that a failing example can be pasted into a test;
  - small comes first: fewer brokers, fewer faults, shorter times are simpler, and Hypothesis shrinks towards them.

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
    """What a cluster is made of.

    Args:
        brokers: how many; their ids are 1, 2, ...
        racks: in how many racks, 0 where brokers have none.
        session_timeout_ms: of the brokers' ZooKeeper sessions.
        seed: decides all that is chance in its run.
    """

    brokers: int
    racks: int
    session_timeout_ms: int
    seed: int

    def start(self) -> simzk.KafkaCluster:
        """A cluster of this shape, booted."""
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
        """Create it, as an operator would who gives the assignment himself."""
        cluster.create_topic(self.name, assignment=dict(enumerate(self.replicas)))


class Fault(NamedTuple):
    """Something that is done to a broker, `after_ms` of virtual time after the fault before it.

    `duration_ms` is how long a pause lasts; 0 for the others. A verb that does not fit, as the restart of a broker that
    is up, does nothing, so that a schedule still makes sense when some of it is taken away.
    """

    after_ms: int
    verb: Verb
    broker: int
    duration_ms: int


def cluster_shapes(*, brokers_min: int = 1, brokers_max: int = 5) -> st.SearchStrategy[ClusterShape]:
    """Shapes of clusters.

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
    """Topics on brokers 1 to `brokers`, every partition with as many replicas."""
    replication_factor = draw(st.integers(1, brokers))
    ids = st.permutations(range(1, brokers + 1)).map(lambda order: tuple(order[:replication_factor]))
    return TopicShape(name, tuple(draw(st.lists(ids, min_size=1, max_size=partitions_max))))


@st.composite
def faults(draw: st.DrawFn, brokers: int) -> Fault:
    """One fault of one of the brokers 1 to `brokers`."""
    verb = draw(st.sampled_from(VERBS))
    # Below, at and above the session timeouts: a pause shorter than one is never noticed, a longer one is a death.
    duration_ms = draw(st.sampled_from([100, 2000, 5000, 7000, 20_000, 40_000])) if verb == "pause" else 0
    after_ms = draw(st.sampled_from([0, 1, 10, 100, 1000, 7000, 20_000]))
    return Fault(after_ms, verb, draw(st.integers(1, brokers)), duration_ms)


def fault_schedules(brokers: int, *, faults_max: int = 8) -> st.SearchStrategy[tuple[Fault, ...]]:
    """Schedules of faults, to be played by `play`."""
    return st.lists(faults(brokers), max_size=faults_max).map(tuple)


def play(cluster: simzk.KafkaCluster, schedule: tuple[Fault, ...]) -> None:
    """Play faults on a cluster, one after the other, each after its time."""
    for fault in schedule:
        cluster.run_for(fault.after_ms / 1000)
        inflict(cluster, fault)


def inflict(cluster: simzk.KafkaCluster, fault: Fault) -> bool:
    """Do one fault now; return whether it made sense."""
    alive = cluster.brokers[fault.broker].alive
    if alive == (fault.verb == "restart"):
        return False
    if fault.verb == "pause":
        cluster.pause(fault.broker, fault.duration_ms / 1000)
    else:
        getattr(cluster, fault.verb)(fault.broker)
    return True
