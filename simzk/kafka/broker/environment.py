"""Services that a simulated cluster gives to each of its brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from simzk.kafka.broker.metadata_cache import MetadataCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.id_generation import IdGeneration
    from simzk.kafka.broker.replica_manager import ReplicaManager
    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.controller.channels import ChannelManagerFactory
    from simzk.kafka.releases.cluster_releases import BrokerRelease
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.requests import ControlResponse, LeaderAndIsrRequest, StopReplicaRequest
    from simzk.kafka.rpc import Connections
    from simzk.simulation import History, Network


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
        """Return a new metadata cache."""
        return MetadataCache(forgets=version.broker.cache_drops_dead_brokers)

    def requests_of(self, _broker: int, with_logs: ReplicaRequests) -> ReplicaRequests:
        """Return the handler of replicas with logs."""
        return with_logs


@dataclass(frozen=True)
class Environment:
    """Clock, network, ZooKeeper, history and random numbers of a cluster, and what its brokers share.

    Attributes:
        version, config: release and configuration of the operator's tools.
        release_of: returns what a broker runs.
        log_dirs: log directories per broker.
        manager: the replicas of all brokers.
        replication: how the replicas replicate.
        channel_manager: makes the channels of a controller to the brokers.
        sends_batches: whether brokers send many requests to ZooKeeper as one.
    """

    network: Network
    host: ZooKeeperHost
    connections: Connections
    history: History
    version: KafkaVersion
    config: BrokerConfig
    release_of: Callable[[int], BrokerRelease]
    cluster_id: str
    ids: IdGeneration
    now_ms: Callable[[], int]
    new_topic_id: Callable[[], str]
    new_token_id: Callable[[], str]
    election_delay_us: Callable[[int], int]
    log_dirs: int
    cost_model: CostModel | None
    manager: ReplicaManager
    replication: Replication
    channel_manager: ChannelManagerFactory
    sends_batches: bool = False
