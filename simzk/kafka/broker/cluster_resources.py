"""ClusterResources of a simulated broker: services of its cluster, and its generated id.

Rules of this module:
  - broker ids are generated in ZooKeeper with `broker.id=-1`, 0.9 and later (KafkaZkClient.generateBrokerSequenceId):
    each write of `/brokers/seqid` raises its version; the id is the version plus `reserved.broker.max.id`;
  - brokers of a simulated cluster are named by their ids from the beginning. So they ask in the order of the ids, once
    each, and keep the generated id (`meta.properties`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka.metadata.cache import MetadataCache
from simzk.kafka.releases.settings import RESERVED
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import stat_of
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION
from simzk.zookeeper.requests import SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.broker.replica_manager import ReplicaManager
    from simzk.kafka.broker.timing import BrokerTiming
    from simzk.kafka.client_requests.broker_faults import BrokerFaultPoint
    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.metadata.changes import PartitionUpdate, ReplicaStop
    from simzk.kafka.observation.records import RecordLedger
    from simzk.kafka.releases.cluster_releases import BrokerRelease
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.requests import ControlResponse
    from simzk.kafka.rpc import Connections
    from simzk.kafka.zookeeper_mode.client.session import ZooKeeperSession
    from simzk.kafka.zookeeper_mode.controller.channels import ChannelManagerFactory
    from simzk.simulation import History, Network, Process

_TURN_US = 10_000
"""How often a broker without an id checks whether it is the next to ask."""


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

    def lead_and_follow(self, updates: Sequence[PartitionUpdate], topic_ids: Mapping[str, str]) -> ControlResponse:
        """Become leader or follower of partitions; `topic_ids` has the ids of their topics, as far as they have ids."""

    def stop(self, stops: Sequence[ReplicaStop]) -> ControlResponse:
        """Stop replicas."""

    def start_timers(self) -> None:
        """Start the periodic work of the replicas."""


class Replication(Protocol):
    """Replication between the brokers of a cluster: replicas with logs, or without."""

    def metadata_cache(self, version: KafkaVersion) -> MetadataCache:
        """Return the metadata cache of a broker that starts."""

    def control_handler_of(self, broker: int, replicas: ReplicaRequests) -> ReplicaRequests:
        """Return the handler of a broker's control requests, given that of its replicas with logs."""


class ReplicationOfLogs:
    """Replication where every replica has a log; each broker keeps its own state."""

    def metadata_cache(self, version: KafkaVersion) -> MetadataCache:
        return MetadataCache(forgets=version.broker.cache_drops_dead_brokers)

    def control_handler_of(self, _broker: int, replicas: ReplicaRequests) -> ReplicaRequests:
        return replicas


@dataclass(frozen=True)
class ClusterResources:
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
