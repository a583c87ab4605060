"""Environment of a simulated broker: services of its cluster, its metadata cache, and its generated id.

Rules of this module:
  - only UpdateMetadata requests of the controller change a metadata cache, so it is as stale as the last one that
    arrived. A partition of a topic that is being deleted is removed; live brokers that a request does not name are
    removed, except up to 0.8.1 (MetadataCache.updateCache; docs/reference/kafka.md §2.7);
  - broker ids are generated in ZooKeeper with `broker.id=-1`, 0.9 and later (KafkaZkClient.generateBrokerSequenceId):
    each write of `/brokers/seqid` raises its version; the id is the version plus `reserved.broker.max.id`;
  - brokers of a simulated cluster are named by their ids from the beginning. So they ask in the order of the ids, once
    each, and keep the generated id (`meta.properties`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka import paths
from simzk.kafka.releases.settings import RESERVED
from simzk.kafka.requests import LEADER_DURING_DELETE
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_client.session import stat_of
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION
from simzk.zookeeper.requests import SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.broker.replica_manager import ReplicaManager
    from simzk.kafka.broker.timing import BrokerTiming
    from simzk.kafka.client_requests.broker_faults import BrokerFaultPoint
    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.controller.channels import ChannelManagerFactory
    from simzk.kafka.observation.records import RecordLedger
    from simzk.kafka.releases.cluster_releases import BrokerRelease
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.requests import ControlResponse, LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
    from simzk.kafka.rpc import Connections
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.kafka.zookeeper_client.session import ZooKeeperSession
    from simzk.simulation import History, Network, Process

_TURN_US = 10_000
"""How often a broker without an id checks whether it is the next to ask."""


class BrokerMetadata(NamedTuple):
    """Copy of a broker's metadata cache at one instant.

    Args:
        controller: the controller's id; None before the first request of a controller.
        live_brokers: live brokers by ascending id, with racks.
        partitions: leader, ISR and epochs by partition.
    """

    controller: int | None
    live_brokers: Mapping[int, str | None]
    partitions: Mapping[TopicPartition, LeaderAndIsr]

    def state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        """Return the cached state of a partition; None if there is none."""
        return self.partitions.get(TopicPartition(topic, partition))


class MetadataCache:
    """Metadata cache of a broker.

    Args:
        forgets: whether brokers are removed that a request does not name.

    Attributes:
        assignments: assigned replicas by partition.
        topics: the known partitions by topic and number.
        topic_ids: id by topic, as far as topics have ids.
        topic_names: topic by id.
        observers: called after each update with the topics that it named.
        revision: number of updates so far.
        topic_revisions: by known topic, the last update that named it.
        live_revision: the last update that changed the live brokers or their racks.
    """

    def __init__(self, *, forgets: bool) -> None:
        self.controller_id: int | None = None
        self.live_brokers: dict[int, str | None] = {}
        self.partitions: dict[TopicPartition, LeaderAndIsr] = {}
        self.assignments: dict[TopicPartition, tuple[int, ...]] = {}
        self.topics: dict[str, dict[int, TopicPartition]] = {}
        self.topic_ids: dict[str, str] = {}
        self.topic_names: dict[str, str] = {}
        self.observers: list[Callable[[set[str]], None]] = []
        self.revision: int = 0
        self.topic_revisions: dict[str, int] = {}
        self.live_revision: int = 0
        self._forgets = forgets

    def update(self, request: UpdateMetadataRequest) -> None:
        """Apply an UpdateMetadata request."""
        self.revision += 1
        self.controller_id = request.controller_id
        live = ({} if self._forgets else self.live_brokers) | dict(request.live_brokers)
        if live != self.live_brokers:
            self.live_revision = self.revision
        self.live_brokers = live
        for partition, state, assignment, _ in request.updates:
            self.topic_revisions[partition.topic] = self.revision
            if state.leader == LEADER_DURING_DELETE:
                self._remove(partition)
            else:
                self.partitions[partition] = state
                self.assignments[partition] = assignment.replicas
                self.topics.setdefault(partition.topic, {})[partition.partition] = partition
        assert len(self.partitions) == len(self.assignments)
        for topic, topic_id in request.topic_ids.items():
            if topic in self.topics:
                self._set_topic_id(topic, topic_id)
        if self.observers:
            named = {update.partition.topic for update in request.updates}
            for observer in list(self.observers):
                observer(named)

    def _remove(self, partition: TopicPartition) -> None:
        numbers = self.topics.get(partition.topic, {})
        assert (partition in self.partitions) == (partition.partition in numbers), f"{partition} is known by half"
        self.partitions.pop(partition, None)
        self.assignments.pop(partition, None)
        numbers.pop(partition.partition, None)
        if not numbers:
            self.topics.pop(partition.topic, None)
            self.topic_revisions.pop(partition.topic, None)
            self._forget_topic_id(partition.topic)

    def _set_topic_id(self, topic: str, topic_id: str) -> None:
        if self.topic_ids.get(topic) != topic_id:
            self._forget_topic_id(topic)
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def _forget_topic_id(self, topic: str) -> None:
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None and self.topic_names.get(topic_id) == topic:
            del self.topic_names[topic_id]

    def snapshot(self) -> BrokerMetadata:
        """Return a copy of the present content."""
        return BrokerMetadata(self.controller_id, dict(sorted(self.live_brokers.items())), dict(self.partitions))


class IdGeneration:
    """Brokers without an id.

    Args:
        brokers: ids in the order in which brokers ask; empty if all have configured ids.
        reserved: the highest id that is not generated (`reserved.broker.max.id`).
    """

    def __init__(self, brokers: Sequence[int], reserved: int) -> None:
        self._waiting = deque(brokers)
        self._reserved = reserved

    async def draw(self, broker: int, process: Process, session: ZooKeeperSession) -> None:
        """Generate the id of a broker that has none, after those of the brokers before it.

        Raises:
            ZnodeError: another id was generated, because another client has written the znode.
        """
        if broker not in self._waiting:
            return
        while self._waiting[0] != broker:
            await process.sleep(_TURN_US)
        reply = await session.call(SetData(paths.SEQUENCE_ID, b"", ANY_VERSION))
        drawn = stat_of(reply).version + self._reserved
        if drawn != broker:
            raise ZnodeError(f"generated the id {drawn}", where=paths.SEQUENCE_ID, right=f"{broker}, the next one")
        first = self._waiting.popleft()
        assert first == broker, f"{first} asks before {broker}"


def generation_of(brokers: Sequence[int], oldest: BrokerRelease) -> IdGeneration:
    """Return the generation of ids for brokers that all have none.

    Raises:
        ConfigError: the oldest release cannot generate ids.
    """
    if paths.SEQUENCE_ID not in oldest.version.znodes.persistent_paths:
        message = f"Kafka {oldest.version.name} cannot generate broker ids"
        raise ConfigError(message, where="generated_ids", right="0.9 or later")
    return IdGeneration(brokers, oldest.config.integer(RESERVED))


class ReplicaRequests(Protocol):
    """Handler of the control requests of one broker's replicas."""

    def lead_and_follow(self, request: LeaderAndIsrRequest) -> ControlResponse:
        """Become leader or follower of partitions."""

    def stop(self, request: StopReplicaRequest) -> ControlResponse:
        """Stop replicas."""

    def start_timers(self) -> None:
        """Start the periodic work of the replicas."""


class Replication(Protocol):
    """Replication between the brokers of a cluster: replicas with logs, or without."""

    def metadata_cache(self, version: KafkaVersion) -> MetadataCache:
        """Return the metadata cache of a broker that starts."""

    def requests_of(self, broker: int, with_logs: ReplicaRequests) -> ReplicaRequests:
        """Return the handler of a broker's control requests, given that of its replicas with logs."""


class ReplicationOfLogs:
    """Replication where every replica has a log; each broker keeps its own state."""

    def metadata_cache(self, version: KafkaVersion) -> MetadataCache:
        return MetadataCache(forgets=version.broker.cache_drops_dead_brokers)

    def requests_of(self, _broker: int, with_logs: ReplicaRequests) -> ReplicaRequests:
        return with_logs


@dataclass(frozen=True)
class Environment:
    """Clock, network, ZooKeeper, history and random numbers of a cluster, and what its brokers share.

    Attributes:
        version, config: release and configuration of the operator's tools.
        release_of: returns what a broker runs.
        endpoint_of: returns host and port at which other brokers connect to a broker.
        advertised_at: returns host and port that a broker advertises at a listener; None if it has no such listener.
        log_dirs: log directories per broker.
        manager: the replicas of all brokers.
        replication: how the replicas replicate.
        channel_manager: makes the channels of a controller to the brokers.
        timing: decisions about time that are inputs of the simulation.
        ledger: the acknowledged records.
        broker_faults: the point where faults of clients' requests apply.
        sends_batches: whether brokers send many requests to ZooKeeper as one.
    """

    network: Network
    host: ZooKeeperHost
    connections: Connections
    history: History
    version: KafkaVersion
    config: BrokerConfig
    release_of: Callable[[int], BrokerRelease]
    endpoint_of: Callable[[int], tuple[str, int]]
    advertised_at: Callable[[int, str], tuple[str, int] | None]
    cluster_id: str
    ids: IdGeneration
    now_ms: Callable[[], int]
    new_topic_id: Callable[[str], str]
    new_token_id: Callable[[], str]
    election_delay_us: Callable[[int], int]
    log_dirs: int
    cost_model: CostModel | None
    manager: ReplicaManager
    replication: Replication
    channel_manager: ChannelManagerFactory
    timing: BrokerTiming
    ledger: RecordLedger
    broker_faults: BrokerFaultPoint
    sends_batches: bool = False
