"""Ids that brokers are given by ZooKeeper, where they have none of their own (`broker.id=-1`, 0.9 and later;
KafkaZkClient.generateBrokerSequenceId).

Rules of the module:
  - each write of `/brokers/seqid` raises its version: that, above `reserved.broker.max.id`, is the id;
  - brokers of a simulated cluster are known by their ids beforehand: they ask in the order of these, each once, and
    keep what they were given (`meta.properties`).
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

    from simzk.kafka.releases.cluster_releases import Release
    from simzk.kafka.zookeeper_client.session import ZooKeeperSession
    from simzk.simulation import Process

_TURN_US = 10_000


class IdGeneration:
    """Who has no id yet.

    Args:
        brokers: in the order in which they ask; none where all have ids of their own.
        reserved: the highest id that is not given out.
    """

    def __init__(self, brokers: Sequence[int], reserved: int) -> None:
        self._waiting = deque(brokers)
        self._reserved = reserved

    async def draw(self, broker: int, process: Process, session: ZooKeeperSession) -> None:
        """Ask for a broker's id, if it has none, once it is its turn.

        Raises:
            ZnodeError: the id that is given is another, since somebody else has written the znode.
        """
        if broker not in self._waiting:
            return
        while self._waiting[0] != broker:
            await process.sleep(_TURN_US)
        reply = await session.call(SetData(paths.SEQUENCE_ID, b"", ANY_VERSION))
        drawn = stat_of(reply).version + self._reserved
        if drawn != broker:
            raise ZnodeError(f"gave the id {drawn}", where=paths.SEQUENCE_ID, right=f"{broker}, which is next")
        self._waiting.popleft()


def generation_of(brokers: Sequence[int], oldest: Release) -> IdGeneration:
    """Brokers that are all without ids.

    Raises:
        ConfigError: the oldest release gives none out.
    """
    if paths.SEQUENCE_ID not in oldest.version.znodes.persistent_paths:
        raise ConfigError(f"Kafka {oldest.version.name} generates no ids", where="generated_ids", right="0.9 or later")
    return IdGeneration(brokers, oldest.config.integer(RESERVED))
