"""Offsets of consumer groups in ZooKeeper: version 0 of OffsetCommit and OffsetFetch (KafkaApis of 0.8.1 and later)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_long
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import ZooKeeperRefused

if TYPE_CHECKING:
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_mode.client.zk_client import KafkaZooKeeperClient


class GroupOffsets:
    """Offsets of consumer groups in znodes below `/consumers`; it implements `metadata.plane.GroupOffsetStore`."""

    def __init__(self, client: KafkaZooKeeperClient) -> None:
        self._client = client

    async def commit(self, group_id: str, partition: TopicPartition, offset: int) -> bool:
        """Store an offset; return false if ZooKeeper refuses it."""
        if not _is_name(group_id):
            return False
        try:
            await self._client.write_or_create(paths.consumer_offset(group_id, partition), str(offset).encode())
        except (ZooKeeperRefused, ZnodeError):
            return False
        return True

    async def fetch(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return a stored offset; None if there is none, or no number."""
        if not _is_name(group_id):
            return None
        try:
            found = await self._client.read(paths.consumer_offset(group_id, partition))
        except ZooKeeperRefused:
            return None
        return None if found is None else parse_long((found[0] or b"").decode(errors="replace"))


def _is_name(group_id: str) -> bool:
    """Return whether a group can have a znode."""
    return bool(group_id) and "/" not in group_id
