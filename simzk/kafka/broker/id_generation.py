"""Broker ids generated in ZooKeeper (`broker.id=-1`, 0.9 and later; KafkaZkClient.generateBrokerSequenceId).

Rules of this module:
  - each write of `/brokers/seqid` raises its version; the id is the version plus `reserved.broker.max.id`;
  - brokers of a simulated cluster are named by their ids from the beginning. So they ask in the order of the ids, once
    each, and keep the generated id (`meta.properties`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka import paths
from simzk.kafka.releases.settings import RESERVED
from simzk.kafka.zookeeper_client.session import stat_of
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION
from simzk.zookeeper.requests import SetData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.releases.cluster_releases import BrokerRelease
    from simzk.kafka.zookeeper_client.session import ZooKeeperSession
    from simzk.simulation import Process

_TURN_US = 10_000
"""How often a broker checks whether it is the next to ask."""


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
        self._waiting.popleft()


def generation_of(brokers: Sequence[int], oldest: BrokerRelease) -> IdGeneration:
    """Return the generation of ids for brokers that all have none.

    Raises:
        ConfigError: the oldest release cannot generate ids.
    """
    if paths.SEQUENCE_ID not in oldest.version.znodes.persistent_paths:
        message = f"Kafka {oldest.version.name} cannot generate broker ids"
        raise ConfigError(message, where="generated_ids", right="0.9 or later")
    return IdGeneration(brokers, oldest.config.integer(RESERVED))
