"""Expectations of a scenario: one class per kind of step that observes the cluster, and the table of them.

Rules of this module:
  - most expectations read ZooKeeper or the history, which any client could observe; `Metadata`, `Log` and `Produced`
    read the state of brokers and producers (`reads_brokers`);
  - `failures` returns one sentence for each difference, and nothing if the expectation holds.

To add one, write its class here and add it to `EXPECTATIONS`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka.log.log import first_difference
from simzk.kafka.observation import recording
from simzk.kafka.observation.agreement import (
    MissedDeletions,
    WrittenState,
    controller_differences,
    find_disagreements,
    read_written,
)
from simzk.kafka.observation.beliefs import (
    LeaderAwaitsNothing,
    SentEpochIsWritten,
    awaits_in_vain,
    is_fenced_by_known_bug,
    is_outdated_by_known_bug,
    is_unaware_by_known_bug,
    restarted_unnoticed,
    unannounced_deletions,
)
from simzk.kafka.observation.invariants import (
    IsrKept,
    WrittenByController,
    halted_by_known_bug,
    is_written_by_former_controller,
    leaderless_by_known_bug,
    renamed_by_known_bug,
)
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import NO_LEADER, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import UNCLEAN_KEY
from simzk.kafka.zookeeper_mode.schemas.admin import decode_reassignment
from simzk.scenarios import view
from simzk.scenarios.cluster_model import Step, list_fields
from simzk.scenarios.source import BrokerId, Index, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.observation.recording import Recording
    from simzk.scenarios.cluster_model import ClusterModel
    from simzk.scenarios.view import PartitionView

DIFFERENCES_SHOWN_MAX = 20


@dataclass(frozen=True)
class Observed:
    """State that an expectation reads.

    Args:
        cluster: the cluster.
        topics: number of partitions that each topic has by now according to the file; a missing one is not in sync.
        recording: the recording that the cluster started from, or None.

    Attributes:
        missed_deletions: what brokers miss in their caches, which is followed from one look to the next.
    """

    cluster: KafkaCluster
    topics: dict[str, int]
    recording: Recording | None
    missed_deletions: MissedDeletions = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "missed_deletions", MissedDeletions(self.cluster.history))

    def missing_partitions(self) -> list[str]:
        """Return the partitions that should exist and do not."""
        present = {seen.partition for seen in view.partitions(self.cluster.tree)}
        wanted = [TopicPartition(name, number) for name, count in self.topics.items() for number in range(count)]
        return [str(partition) for partition in wanted if partition not in present]


class Expectation(Step, kw_only=True):
    """A step that observes the cluster.

    Args:
        within: how long the expectation may take to hold; empty for now.
        name: how reports name it; empty for a name made from its values.
        bug: `shown` or `mended` if only releases with this outcome of the `[bug]` are checked.
    """

    expect: str
    within: str = ""
    name: str = ""
    bug: str = ""

    reads_brokers: ClassVar[bool] = False
    """Whether it can change without a new event or transaction."""

    def failures(self, observed: Observed) -> Iterable[str]:
        """Return how the cluster differs from the expectation at this virtual time; nothing if it holds."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the name of the expectation: the given one, or one made from its values."""
        return self.name or self._summary()

    def _summary(self) -> str:
        raise NotImplementedError


_STATE_KEYS = ("leader", "isr", "leader_epoch", "controller_epoch")
_PARTITION_KEYS = ("leader", "isr", "replicas", "leader_epoch", "controller_epoch", "version")


class ExpectPartition(Expectation, kw_only=True):
    """The state znode of a partition, and its replicas."""

    topic: str
    partition: Index
    leader: int | None = None
    isr: list[BrokerId] | None = None
    leader_epoch: int | None = None
    controller_epoch: int | None = None
    version: int | None = None
    replicas: list[BrokerId] | None = None

    def _check(self, model: ClusterModel) -> None:
        if model.check_topic(self.topic, "topic"):
            model.check_partition(self.topic, self.partition, "partition")
        model.check_brokers(self.isr or (), "isr")
        model.check_brokers(self.replicas or (), "replicas")
        if self.leader not in (None, NO_LEADER):
            model.check_broker(self.leader, "leader")
        if not _list_values(self, *_PARTITION_KEYS):
            right = "leader, isr, leader_epoch, controller_epoch, version or replicas"
            model.note("", "nothing is expected of the partition", right)

    def failures(self, observed: Observed) -> list[str]:
        name = f"{self.topic}-{self.partition}"
        seen = view.partition(observed.cluster.tree, TopicPartition(self.topic, self.partition))
        if seen is None:
            return [f"{name} does not exist"]
        found = _differences((f"{name} replicas", self.replicas, list(seen.assignment.replicas)))
        if seen.state is None:
            return [*found, f"{name} has no state"]
        return found + _state_differences(name, self, seen.state, *_STATE_KEYS, "version")

    def _summary(self) -> str:
        return f"{self.topic}-{self.partition} has {_list_values(self, *_PARTITION_KEYS)}"


class ExpectController(Expectation, kw_only=True):
    """The controller and its epoch; `broker = -1` is no controller."""

    broker: int | None = None
    epoch: int | None = None

    def _check(self, model: ClusterModel) -> None:
        if self.broker is None and self.epoch is None:
            model.note("", "nothing is expected of the controller", "broker or epoch")

    def failures(self, observed: Observed) -> list[str]:
        cluster = observed.cluster
        return _differences(
            ("controller", self.broker, -1 if cluster.controller is None else cluster.controller),
            ("controller epoch", self.epoch, view.controller_epoch(cluster.tree)),
        )

    def _summary(self) -> str:
        """Return the values in a few words.

        >>> ExpectController(expect="controller", broker=2, epoch=3).describe()
        'controller is 2, epoch 3'
        """
        if self.broker is None:
            return f"controller epoch {self.epoch}"
        epoch = "" if self.epoch is None else f", epoch {self.epoch}"
        return f"controller is {'none' if self.broker == -1 else self.broker}{epoch}"


class ExpectBrokers(Expectation, kw_only=True):
    """The brokers that are registered."""

    registered: list[BrokerId]

    def _check(self, model: ClusterModel) -> None:
        model.check_brokers(self.registered, "registered")

    def failures(self, observed: Observed) -> list[str]:
        return _differences(("registered brokers", sorted(self.registered), observed.cluster.live_brokers))

    def _summary(self) -> str:
        return f"registered brokers: {', '.join(map(str, self.registered)) or 'none'}"


class ExpectTopics(Expectation, kw_only=True):
    """The topics that exist."""

    topics: list[str]

    def failures(self, observed: Observed) -> list[str]:
        return _differences(("topics", sorted(self.topics), view.topics(observed.cluster.tree)))

    def _summary(self) -> str:
        return f"topics: {', '.join(self.topics) or 'none'}"


class ExpectZnode(Expectation, kw_only=True):
    """A znode: its existence, data, version and children."""

    path: str
    exists: bool = True
    data: str | None = None
    version: int | None = None
    children: list[str] | None = None

    def _check(self, model: ClusterModel) -> None:
        model.check_path(self.path, "path")

    def failures(self, observed: Observed) -> list[str]:
        znode = observed.cluster.tree.get(self.path)
        if znode is None:
            return [f"{self.path} does not exist"] if self.exists else []
        if not self.exists:
            return [f"{self.path} exists"]
        data = None if znode.data is None else znode.data.decode(errors="replace")
        children = None if self.children is None else sorted(self.children)
        return _differences(
            (f"{self.path} data", self.data, data),
            (f"{self.path} version", self.version, znode.version),
            (f"{self.path} children", children, sorted(znode.child_names())),
        )

    def _summary(self) -> str:
        if not self.exists:
            return f"{self.path} does not exist"
        values = list_fields(("data", self.data), ("version", self.version), ("children", self.children))
        return f"{self.path} has {values}" if values else f"{self.path} exists"


class ExpectOffline(Expectation, kw_only=True):
    """The partitions without a leader: exactly these."""

    partitions: list[str]

    def _check(self, model: ClusterModel) -> None:
        model.check_partition_names(self.partitions, "partitions")

    def failures(self, observed: Observed) -> list[str]:
        leaderless = [str(seen.partition) for seen in view.partitions(observed.cluster.tree) if not seen.online]
        offline = sorted({*leaderless, *observed.missing_partitions()})
        return _differences(("offline partitions", sorted(self.partitions), offline))

    def _summary(self) -> str:
        return f"offline partitions: {', '.join(self.partitions) or 'none'}"


class ExpectWhole(Expectation, kw_only=True):
    """Every partition has a leader (with `preferred`, its first replica) and every replica is in sync."""

    preferred: bool = False

    def failures(self, observed: Observed) -> Iterator[str]:
        yield from (f"{name} does not exist" for name in observed.missing_partitions())
        for seen in view.partitions(observed.cluster.tree):
            if self._is_excused(observed, seen):
                continue
            if not seen.online:
                yield f"{seen.partition} has no leader"
            elif not seen.in_sync:
                isr = list(seen.state.isr) if seen.state else []
                yield f"{seen.partition} has isr {isr} of replicas {list(seen.assignment.replicas)}"
            elif self.preferred and not seen.preferred:
                yield f"the leader of {seen.partition} is not its first replica {seen.assignment.replicas[0]}"

    def _is_excused(self, _observed: Observed, _seen: PartitionView) -> bool:
        return False

    def _summary(self) -> str:
        return f"every partition has {'its preferred' if self.preferred else 'a'} leader and all replicas in sync"


class ExpectRecovered(ExpectWhole, kw_only=True):
    """Every partition is whole after faults, except those that a known bug of Kafka left without leader or follower.

    Invariants count the write or the event that did it (KAFKA-14808, KAFKA-14424, KAFKA-14190, KAFKA-9038, KAFKA-7235,
    KAFKA-9212, KAFKA-12686, KAFKA-3083, the lost reply to an ISR write, the leader of a former assignment, a deletion
    that a reassignment halts). An ISR that a controller up to 1.0 has emptied, because unclean elections were allowed,
    has no leader once an upgrade has disallowed them.
    """

    def _is_excused(self, observed: Observed, seen: PartitionView) -> bool:
        return not (seen.online and seen.in_sync) and _is_broken_by_known_bug(observed.cluster, seen)


def _is_broken_by_known_bug(cluster: KafkaCluster, seen: PartitionView) -> bool:
    """Return whether a known bug of Kafka keeps a partition without leader or follower, or its leader from leading."""
    invariants = cluster.invariants
    if seen.partition in leaderless_by_known_bug(invariants):
        return True
    if seen.partition.topic in renamed_by_known_bug(invariants) | halted_by_known_bug(invariants):
        return True
    if seen.state is None:
        return False
    if awaits_in_vain(invariants, seen.partition, seen.state.leader_epoch):
        return True
    if is_written_by_former_controller(invariants, seen.partition, seen.state.leader_epoch):
        return True
    if not seen.state.isr:  # written by an old controller; a new one after an upgrade elects nobody from it
        allows_unclean = any(broker.config.boolean(UNCLEAN_KEY) for broker in cluster.brokers.values())
        return not allows_unclean and not any(isinstance(one, IsrKept) for one in invariants)
    missing = [broker for broker in seen.assignment.replicas if broker not in seen.state.isr]
    leader, epoch = seen.state.leader, seen.state.leader_epoch
    if is_unaware_by_known_bug(invariants, seen.partition, leader, epoch):
        return True
    return bool(missing) and all(
        is_unaware_by_known_bug(invariants, seen.partition, broker, epoch)
        or is_fenced_by_known_bug(invariants, seen.partition, broker)
        for broker in missing
    )


def unserved_by_known_bug(cluster: KafkaCluster) -> frozenset[TopicPartition]:
    """Return the partitions that clients need not be served from: a known bug of Kafka, which is counted, broke them.

    Some of them look whole in the znodes: no live broker knows that it leads them, or its ISR can change no more.
    """
    return frozenset(seen.partition for seen in view.partitions(cluster.tree) if _is_broken_by_known_bug(cluster, seen))


class ExpectAgreed(Expectation, kw_only=True):
    """Every registered broker that runs believes what the znodes say: controller, live brokers, leaders and ISRs.

    Topics that have lost their id do not count (KAFKA-14190, KAFKA-12835), nor partitions whose leader waits in vain
    for the result of a proposed ISR (KAFKA-12686, a lost reply), or whose leader epoch the controller did not cache
    (KAFKA-9212, up to 2.3), or that a former controller has written (KAFKA-3083, up to 1.0). A broker that was not
    registered when a topic was deleted, or that the controller had not told when it changed, keeps it in its cache
    until it restarts. A broker whose restart the controller did not notice (KAFKA-7235, up to 2.1) may lack states.
    With leaders of 0.8 metadata caches are not compared for ISRs, which these do not announce. Caches of 0.8.0 and
    0.8.1 may have dead brokers too (KAFKA-1549), and followers of 0.8.0 an older epoch of the same leader.
    """

    reads_brokers: ClassVar[bool] = True

    def failures(self, observed: Observed) -> Iterator[str]:
        return find_disagreements(_serving(observed.cluster), _written(observed))

    def _summary(self) -> str:
        return "every broker believes what the znodes say"


def _serving(cluster: KafkaCluster) -> list[Broker]:
    """Return the brokers that run and are registered."""
    return [one for one in cluster.brokers.values() if one.alive and one.registered and not one.paused]


_EXCUSING = (LeaderAwaitsNothing, SentEpochIsWritten, WrittenByController)
"""Invariants that know which partitions a bug of Kafka has made differ from the znodes."""


def _written(observed: Observed) -> WrittenState:
    """Return what the znodes say, without what known bugs of Kafka excuse."""
    cluster = observed.cluster
    serving = _serving(cluster)
    written = read_written(cluster.tree, cluster.controller, cluster.live_brokers)
    releases = [broker.version for broker in cluster.brokers.values()]
    missed = observed.missed_deletions.by_broker()
    written = replace(
        written,
        missed={
            broker.id: missed.get(broker.id, frozenset()) | unannounced_deletions(cluster.invariants, broker.id)
            for broker in serving
        },
        unnoticed=restarted_unnoticed(cluster.invariants),
        isrs_are_announced=all(release.broker.announces_isr_changes for release in releases),
        dead_stay_cached=not all(release.broker.cache_drops_dead_brokers for release in releases),
        followers_miss_epochs=any(release.controller.sends_shrunk_isr_to_leader_alone for release in releases),
    )
    # This is asked after each event for each partition: the other invariants are left out once.
    excusing = [one for one in cluster.invariants if isinstance(one, _EXCUSING)]
    excused = frozenset(
        partition
        for partition, (_, state) in written.partitions.items()
        if awaits_in_vain(excusing, partition, state.leader_epoch)
        or is_outdated_by_known_bug(excusing, partition, state.leader_epoch)
        or is_written_by_former_controller(excusing, partition, state.leader_epoch)
    )
    return written.without(renamed_by_known_bug(cluster.invariants), excused)


_REQUESTS = {
    paths.REASSIGN_PARTITIONS: "a reassignment",
    paths.PREFERRED_ELECTION: "a preferred election",
}
_QUEUES = {
    paths.DELETE_TOPICS: "a deletion",
    paths.ISR_CHANGES: "an ISR change",
    paths.LOG_DIR_EVENTS: "a failed log directory",
}


def _waits_in_vain(cluster: KafkaCluster) -> bool:
    """Return whether `/admin/reassign_partitions` names only partitions of deleted topics, or broken by a known bug.

    A controller deletes a topic in a reassignment: it asks whether the topic may be deleted before the topic is queued
    (KafkaController.processTopicDeletion, ControllerContext.topicsIneligibleForDeletion). The znode remains until the
    next controller reads it.
    """
    node = cluster.tree.get(paths.REASSIGN_PARTITIONS)
    assert node is not None
    with suppress(ZnodeError):
        named = decode_reassignment(paths.REASSIGN_PARTITIONS, node.data, strict=False)
        broken = unserved_by_known_bug(cluster)
        return bool(named) and all(one in broken or cluster.tree.get(paths.topic(one.topic)) is None for one in named)
    return False


def _undone(cluster: KafkaCluster, written: WrittenState) -> Iterator[str]:
    """Yield a sentence for each partition with uncommitted records, and for each difference of the controller."""
    serving = {broker.id: broker for broker in _serving(cluster)}
    for partition, (_, state) in written.partitions.items():
        # A former leader that was never told of the end of its lead commits nothing more.
        leader = serving.get(state.leader)
        replica = None if leader is None else leader.replicas.replicas.get(partition)
        if replica is not None and replica.high_watermark != replica.log_end:
            yield f"{partition} is committed up to {replica.high_watermark} of {replica.log_end}"
    controller = cluster.brokers.get(-1 if cluster.controller is None else cluster.controller)
    if controller is None or not controller.controller.is_active:
        yield "no controller is active"
    else:
        yield from controller_differences(controller.controller.context, written)


_DELETES_LEADERLESS = (2, 0, 0)
"""First release whose deletion of a topic without leaders ends (KAFKA-6650)."""


class ExpectDone(Expectation, kw_only=True):
    """Nothing is left to be done: no request waits, all records are committed, and the controller knows the znodes.

    No request is in the znodes, every high watermark is the log end offset, and what the controller remembers of
    brokers, replicas, reassignments, elections and deletions equals the znodes. Excused are the partitions and topics
    of known bugs as for `agreed`, topics whose deletion a reassignment halts (KAFKA-14424), reassignments of deleted
    topics and of partitions that a known bug broke, and before 2.0 all that are being deleted: one of a topic without
    leaders never ends (KAFKA-6650).
    """

    reads_brokers: ClassVar[bool] = True

    def failures(self, observed: Observed) -> Iterator[str]:
        cluster = observed.cluster
        halted = halted_by_known_bug(cluster.invariants)
        stays = any(broker.version.number < _DELETES_LEADERLESS for broker in cluster.brokers.values())
        for path, what in _REQUESTS.items():
            is_there = cluster.tree.get(path) is not None
            if is_there and not (path == paths.REASSIGN_PARTITIONS and _waits_in_vain(cluster)):
                yield f"{what} waits: {path}"
        for path, what in _QUEUES.items():
            node = cluster.tree.get(path)
            is_excused = path == paths.DELETE_TOPICS and stays
            names = () if node is None or is_excused else node.child_names()
            yield from (f"{what} waits: {path}/{name}" for name in sorted(names) if name not in halted)
        written = _written(observed)
        if next(_undone(cluster, written), None) is not None:  # seldom: what known bugs break is looked up late
            yield from _undone(cluster, written.without(partitions=unserved_by_known_bug(cluster)))

    def _summary(self) -> str:
        return "nothing is left to be done, and the controller knows what the znodes say"


class ExpectLeaders(Expectation, kw_only=True):
    """The number of partitions that each broker leads."""

    leaders: dict[str, int]

    def _check(self, model: ClusterModel) -> None:
        model.check_broker_keys(self.leaders, "leaders")

    def failures(self, observed: Observed) -> list[str]:
        partitions = view.partitions(observed.cluster.tree)
        counts = Counter(seen.state.leader for seen in partitions if seen.state and seen.online)
        return _differences(("partitions led", self.leaders, {broker: counts[int(broker)] for broker in self.leaders}))

    def _summary(self) -> str:
        return "partitions led: " + ", ".join(f"broker {broker} {count}" for broker, count in self.leaders.items())


class ExpectEvent(Expectation, kw_only=True):
    """The number of events so far that have these values."""

    what: str
    who: str | None = None
    subject: str | None = None
    before: str | None = None
    becomes: str | None = None
    count: int | None = None

    def failures(self, observed: Observed) -> list[str]:
        values = {"what": self.what, "who": self.who, "subject": self.subject}
        values |= {"before": self.before, "after": self.becomes}
        wanted = [(name, value) for name, value in values.items() if value is not None]
        history = observed.cluster.history
        count = sum(all(getattr(event, name) == value for name, value in wanted) for event in history)
        if self.count is None:
            return [] if count else ["no such event happened"]
        return _differences(("number of events", self.count, count))

    def _summary(self) -> str:
        values = " ".join(value for value in (self.who, self.what, self.subject, self.before, self.becomes) if value)
        if self.count is None:
            return f"{values}: at least once"
        return f"{values}: {'once' if self.count == 1 else f'{self.count} times'}"


class ExpectMetadata(Expectation, kw_only=True):
    """The metadata cache of a broker: live brokers, controller and one partition.

    `known = false` expects that the cache has no such partition.
    """

    broker: BrokerId
    live: list[BrokerId] | None = None
    controller: int | None = None
    topic: str = ""
    partition: Index | None = None
    known: bool = True
    leader: int | None = None
    isr: list[BrokerId] | None = None
    leader_epoch: int | None = None
    controller_epoch: int | None = None

    reads_brokers: ClassVar[bool] = True

    def _check(self, model: ClusterModel) -> None:
        has_state = bool(_list_values(self, *_STATE_KEYS))
        if (not self.topic) != (self.partition is None) or ((has_state or not self.known) and not self.topic):
            model.note("", "the partition is not named", "topic and partition")
        elif self.live is None and self.controller is None and not self.topic:
            model.note("", "nothing is expected", "live, controller, or a topic and partition")
        if has_state and not self.known:
            what = "no state can be expected of a partition that is not in the cache"
            model.note("known", what, "known = false alone")
        model.check_brokers(self.live or (), "live")
        model.check_brokers(self.isr or (), "isr")
        _check_past_partition(model, self.topic, self.partition)

    def failures(self, observed: Observed) -> list[str]:
        try:
            cache = observed.cluster.metadata(self.broker)
        except ConfigError as error:
            return [error.what]
        prefix = f"metadata of broker {self.broker}:"
        live = None if self.live is None else sorted(self.live)
        found = _differences(
            (f"{prefix} live brokers", live, list(cache.live_brokers)),
            (f"{prefix} controller", self.controller, cache.controller),
        )
        if self.partition is None:
            return found
        name = f"{self.topic}-{self.partition}"
        state = cache.state(self.topic, self.partition)
        if state is None or not self.known:
            return found + _differences((f"{prefix} {name} known", self.known, state is not None))
        return found + _state_differences(f"{prefix} {name}", self, state, *_STATE_KEYS)

    def _summary(self) -> str:
        """Return the values in a few words.

        >>> ExpectMetadata(expect="metadata", broker=3, live=[1, 3], topic="orders", partition=0, leader=1).describe()
        'metadata of broker 3: live brokers [1, 3], orders-0 with leader 1'
        """
        parts = [list_fields(("live brokers", self.live), ("controller", self.controller))]
        if self.topic:
            name = f"{self.topic}-{self.partition}"
            state = _list_values(self, *_STATE_KEYS)
            parts.append(f"{name} with {state}" if state else f"{name} {'known' if self.known else 'unknown'}")
        return f"metadata of broker {self.broker}: {', '.join(part for part in parts if part)}"


class ExpectLog(Expectation, kw_only=True):
    """The log of a partition on a broker [default: the leader]: its end, high watermark and records; or no log.

    `matches` and `differs_from` name a broker with the same records, or with others, as far as both logs reach.
    """

    topic: str
    partition: Index
    broker: BrokerId | None = None
    exists: bool = True
    log_end: int | None = None
    high_watermark: int | None = None
    matches: BrokerId | None = None
    differs_from: BrokerId | None = None

    reads_brokers: ClassVar[bool] = True

    def _check(self, model: ClusterModel) -> None:
        values = self.log_end, self.high_watermark, self.matches, self.differs_from
        if any(value is not None for value in values) != self.exists:
            keys = "log_end, high_watermark, matches or differs_from"
            right = keys if self.exists else f"none of {keys}"
            model.note("", "nothing is expected" if self.exists else "a log that does not exist has values", right)
        for key in ("matches", "differs_from"):
            model.check_broker(getattr(self, key), key)
        _check_past_partition(model, self.topic, self.partition)

    def failures(self, observed: Observed) -> list[str]:
        cluster, name = observed.cluster, f"{self.topic}-{self.partition}"
        try:
            broker = cluster.state(self.topic, self.partition).leader if self.broker is None else self.broker
            if broker == NO_LEADER:
                return [f"{name} has no leader"]
            log = cluster.log(broker, self.topic, self.partition)
        except ConfigError as error:
            is_absent = not self.exists and broker in cluster.brokers and cluster.brokers[broker].alive
            return [] if is_absent else [error.what]
        if not self.exists:
            return [f"{name} has a log on broker {broker}"]
        found = _differences(
            (f"{name} on broker {broker}: log end", self.log_end, log.log_end),
            (f"{name} on broker {broker}: high watermark", self.high_watermark, log.high_watermark),
        )
        for other, is_equal in ((self.matches, True), (self.differs_from, False)):
            if other is not None:
                found += self._record_differences(cluster, broker, other, is_equal=is_equal)
        return found

    def _record_differences(self, cluster: KafkaCluster, broker: int, other: int, *, is_equal: bool) -> list[str]:
        """Return a sentence if two logs have not the same records, or have them though they should not."""
        partition = TopicPartition(self.topic, self.partition)
        ours, theirs = (cluster.brokers[one].log_of(partition) for one in (broker, other))
        if ours is None or theirs is None:
            return [f"{partition} has no log on broker {broker if ours is None else other}"]
        offset = first_difference(
            ours, theirs, min(ours.end, theirs.end), since=cluster.record_ledger.compacted_to(partition)
        )
        if is_equal and offset is not None:
            return [f"{partition} differs on brokers {broker} and {other} from offset {offset} on"]
        if not is_equal and offset is None:
            return [f"{partition} has the same records on brokers {broker} and {other}"]
        return []

    def _summary(self) -> str:
        """Return the values in a few words.

        >>> ExpectLog(expect="log", topic="orders", partition=0, broker=2, log_end=10, matches=1).describe()
        'orders-0 on broker 2: log end 10, matches 1'
        """
        place = "the leader" if self.broker is None else f"broker {self.broker}"
        if not self.exists:
            return f"{self.topic}-{self.partition} has no log on {place}"
        values = list_fields(
            ("log end", self.log_end),
            ("high watermark", self.high_watermark),
            ("matches", self.matches),
            ("differs from", self.differs_from),
        )
        return f"{self.topic}-{self.partition} on {place}: {values}"


_ANSWERS = (
    "NONE",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
    "INVALID_REQUIRED_ACKS",
)
"""Errors that a producer can meet, suggested for an unknown one."""


class ExpectProduced(Expectation, kw_only=True):
    """The result of produce requests: number of acknowledged records so far, and the last error code."""

    topic: str
    partition: Index
    acknowledged: int | None = None
    last: str | None = None

    reads_brokers: ClassVar[bool] = True

    def _check(self, model: ClusterModel) -> None:
        if self.last is not None and self.last not in ErrorCode.__members__:
            model.note("last", f"unknown error code {self.last!r}", did_you_mean(self.last, _ANSWERS))
        if self.acknowledged is None and self.last is None:
            model.note("", "nothing is expected", "acknowledged or last")
        _check_past_partition(model, self.topic, self.partition)

    def failures(self, observed: Observed) -> list[str]:
        partition = TopicPartition(self.topic, self.partition)
        producer = observed.cluster.producer
        last = producer.last.get(partition)
        return _differences(
            (f"records acknowledged in {partition}", self.acknowledged, producer.acknowledged.get(partition, 0)),
            ("the last answer", self.last, None if last is None else last.name),
        )

    def _summary(self) -> str:
        values = list_fields(("records acknowledged:", self.acknowledged), ("last answer", self.last))
        return f"{self.topic}-{self.partition} {values}"


class ExpectRecorded(Expectation, kw_only=True):
    """The whole tree equals the one that a real cluster had after a step of its recording, field by field."""

    step: str

    def _check(self, model: ClusterModel) -> None:
        if model.recording is None:
            model.note("step", "the cluster does not start from a recording", "[cluster] with from and step")
            return
        steps = model.recording.steps
        if self.step not in steps:
            model.note("step", f"the recording has no step {self.step!r}", did_you_mean(self.step, steps))

    def failures(self, observed: Observed) -> list[str]:
        assert observed.recording is not None, "the reader has checked that there is a recording"
        wanted = observed.recording.tree(self.step)
        found = [str(difference) for difference in recording.differences(observed.cluster.tree, wanted)]
        more = len(found) - DIFFERENCES_SHOWN_MAX
        return [*found[:DIFFERENCES_SHOWN_MAX], f"and {more} more"] if more > 0 else found

    def _summary(self) -> str:
        return f"the tree equals the recorded one after {self.step}"


EXPECTATIONS: dict[str, type[Expectation]] = {
    "partition": ExpectPartition,
    "controller": ExpectController,
    "brokers": ExpectBrokers,
    "topics": ExpectTopics,
    "znode": ExpectZnode,
    "offline": ExpectOffline,
    "whole": ExpectWhole,
    "agreed": ExpectAgreed,
    "done": ExpectDone,
    "leaders": ExpectLeaders,
    "event": ExpectEvent,
    "metadata": ExpectMetadata,
    "log": ExpectLog,
    "produced": ExpectProduced,
    "recorded": ExpectRecorded,
}
"""All expectations by the word that a step gives as `expect`."""


def _differences(*compared: tuple[str, object, object]) -> list[str]:
    """Return a sentence for each (name, expected, found) that differs; None is expected of what is not compared."""
    return [
        f"{name} is {found}, expected {expected}"
        for name, expected, found in compared
        if expected is not None and expected != found
    ]


def _state_differences(where: str, expected: object, state: object, *keys: str) -> list[str]:
    """Return a sentence for each key of a partition's state that differs."""
    found = {key: list(getattr(state, key)) if key == "isr" else getattr(state, key) for key in keys}
    names = {key: f"{where} {key.replace('_', ' ')}" for key in keys}
    return _differences(*((names[key], getattr(expected, key), found[key]) for key in keys))


def _list_values(step: Expectation, *keys: str) -> str:
    """Return the names and values of those keys that a step gives."""
    return list_fields(*((key.replace("_", " "), getattr(step, key)) for key in keys))


def _check_past_partition(model: ClusterModel, topic: str, partition: int | None) -> None:
    """Check that a partition exists or has been deleted: a stale cache or log may still have it."""
    if not topic or partition is None:
        return
    if partition >= model.topics.get(topic, model.deleted.get(topic, 0)):
        right = "a topic and partition that a step above creates"
        model.note_after_steps("partition", f"{topic}-{partition} does not exist at this step", right)
