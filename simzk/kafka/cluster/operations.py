"""What an operator asks of a simulated cluster: topics, partitions, elections, configuration, znodes by hand.

Every verb begins at the present instant, takes effect while time passes, and gives the broker's answer as a future.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.broker.admin_handlers import is_topic_name
from simzk.kafka.cluster.reassignment_operations import ReassignmentOperations
from simzk.kafka.cluster.security_operations import SecurityOperations
from simzk.kafka.consumer.joining import join
from simzk.kafka.requests import (
    AdminResponse,
    AlterConfigRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    ElectLeadersRequest,
)
from simzk.kafka.schemas.reading import shown
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simzk.simulation import Future


class Operations(ReassignmentOperations, SecurityOperations):
    """The verbs; `_operator` carries them out."""

    consumer = join

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
        topic_id: str | None = None,
        via: int | str | None = None,
    ) -> Future[AdminResponse]:
        """Create a topic.

        Args:
            name: its name.
            partitions: how many; the broker's default where not given, or -1.
            replication_factor: replicas of each; the broker's default where not given, or -1.
            assignment: the brokers of each partition in preference order, in place of a placement by the broker.
            config: the topic's configuration.
            topic_id: drawn where it is not given.
            via: the broker that is asked, or "zookeeper" for the tool that writes there itself (2.8 and older); by
                default what the release's tool does: the controller is asked from 2.2 on for topics, 2.4 for elections,
                2.6 for configuration and reassignments.

        Returns:
            the broker's answer, once time has passed.

        Raises:
            ConfigError: no topic may be called so.
        """
        if not is_topic_name(name, self._tool):
            right = "letters, digits, '.', '_', '-', no more than the release takes"
            raise ConfigError(f"{shown(name)} is no name for a topic", where="name", right=right)
        by_partition = None if assignment is None else {p: tuple(ids) for p, ids in assignment.items()}
        if by_partition is not None:
            partitions = len(by_partition)
        request = CreateTopicRequest(name, partitions, replication_factor, by_partition, dict(config or {}), topic_id)
        return self._operator.request(f"create topic {name}", request, via)

    def delete_topic(self, name: str) -> Future[AdminResponse]:
        """Delete a topic."""
        return self._operator.request(f"delete topic {name}", DeleteTopicRequest(name))

    def add_partitions(
        self, name: str, total: int, *, assignment: Mapping[int, Sequence[int]] | None = None
    ) -> Future[AdminResponse]:
        """Give a topic more partitions.

        Args:
            name: the topic.
            total: how many it has in the end.
            assignment: the brokers of each new partition.
        """
        by_partition = None if assignment is None else {p: tuple(ids) for p, ids in assignment.items()}
        return self._operator.request(f"add partitions to {name}", CreatePartitionsRequest(name, total, by_partition))

    def elect(
        self,
        kind: str = "preferred",
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        via: int | str | None = None,
    ) -> Future[AdminResponse]:
        """Elect leaders.

        Args:
            kind: `preferred`, or `unclean` for partitions without a live leader.
            partitions: which; all where not given.
            via: as for `create_topic`.

        Raises:
            ConfigError: another kind.
        """
        if kind not in ("preferred", "unclean"):
            raise ConfigError(f"there is no {kind!r} election", where="kind", right="preferred or unclean")
        chosen = None if partitions is None else tuple(TopicPartition(*pair) for pair in partitions)
        return self._operator.request(f"{kind} election", ElectLeadersRequest(kind, chosen), via)

    def alter_config(
        self, entity_path: str, changes: Mapping[str, str | None], *, via: int | str | None = None
    ) -> Future[AdminResponse]:
        """Set and remove configuration keys (None removes).

        Args:
            entity_path: as below `/config`: `topics/orders`, `brokers/1`, `users/alice`.
            changes: the values by key.
            via: the broker that is asked, or "zookeeper" for the tool that writes there itself (2.8 and older); by
                default what the release's tool does: the controller is asked from 2.2 on for topics, 2.4 for elections,
                2.6 for configuration and reassignments.
        """
        return self._operator.request(f"configure {entity_path}", AlterConfigRequest(entity_path, dict(changes)), via)

    def write_znode(self, path: str, data: str | bytes | None) -> Future[None]:
        """Write a znode by hand, in a session of the operator's own: set it, or create it where it is not there."""
        return self._operator.write_znode(path, data.encode() if isinstance(data, str) else data)

    def delete_znode(self, path: str) -> Future[None]:
        """Delete a znode by hand."""
        return self._operator.delete_znode(path)
