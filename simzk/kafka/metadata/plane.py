"""What a broker asks of the metadata of its cluster, whatever serves them.

Rule of this module: a read or a write of metadata fails in one of two ways. It is unknown whether it will ever be
answered, `MetadataUnavailableError`; or it is answered by a refusal that nobody expects, `MetadataRefusedError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Future


class MetadataUnavailableError(Exception):
    """Metadata that cannot be read or written now: with ZooKeeper, the session has expired."""


class MetadataRefusedError(Exception):
    """Unexpected refusal of a read or write."""


class EntityReader(Protocol):
    """Reader of configurations and topics, as they are written now.

    All methods raise MetadataUnavailableError and MetadataRefusedError.
    """

    def entity_config(self, entity_path: str) -> Coroutine[Future[Any], None, dict[str, str]]:
        """Return an entity's configuration, such as that of `topics/orders`; empty if it has none.

        Raises:
            ZnodeError: the configuration is invalid.
        """

    def entity_names(self, kind: str) -> Coroutine[Future[Any], None, list[str]]:
        """Return the names of the entities of a kind that have a configuration, such as `users`, sorted."""

    def topic_exists(self, topic: str) -> Coroutine[Future[Any], None, bool]:
        """Return whether a topic exists."""


class GroupOffsetStore(Protocol):
    """Offsets of consumer groups outside Kafka: those of version 0 of OffsetCommit and OffsetFetch."""

    def commit(self, group_id: str, partition: TopicPartition, offset: int) -> Coroutine[Future[Any], None, bool]:
        """Store an offset; return whether it was stored."""

    def fetch(self, group_id: str, partition: TopicPartition) -> Coroutine[Future[Any], None, int | None]:
        """Return a stored offset; None if there is none."""
