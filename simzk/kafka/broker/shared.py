"""What all brokers of a simulated cluster share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.id_generation import IdGeneration
    from simzk.kafka.broker.light_replicas import LightReplicas
    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.releases.cluster_releases import Release
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.rpc import Connections
    from simzk.simulation import History, Network


@dataclass(frozen=True)
class World:
    """What all brokers share: the clock, the network, ZooKeeper, the history, and the chances of the run.

    `version` and `config` are those of the operator's tools, `release_of` tells what each broker runs; `log_dirs` is
    how many log directories each broker has; `light` are the replicas of all brokers where they stand in one table;
    `sends_batches` is whether many requests to ZooKeeper go as one.
    """

    network: Network
    host: ZooKeeperHost
    connections: Connections
    history: History
    version: KafkaVersion
    config: BrokerConfig
    release_of: Callable[[int], Release]
    cluster_id: str
    ids: IdGeneration
    now_ms: Callable[[], int]
    new_topic_id: Callable[[], str]
    new_token_id: Callable[[], str]
    election_delay_us: Callable[[int], int]
    log_dirs: int
    cost_model: CostModel | None
    light: LightReplicas | None = None
    sends_batches: bool = False
