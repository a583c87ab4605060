"""Topic deletion, from the request znode to the removal of the topic's znodes (docs/reference/kafka.md §2.10).

Rules of the module (TopicDeletionManager):
  - all replicas go offline, which shrinks the ISRs in the znodes; then brokers delete the logs; when every replica has
    confirmed it, the controller deletes the topic's znodes, children first;
  - a replica on a dead broker or in a failed log directory halts the deletion until that broker starts again; a
    reassignment that starts later or is found at a failover halts it too, but not one that was in progress when the
    deletion was requested (recorded in 0.10.2, 1.1 and 3.9);
  - up to 0.10 a failover deletes no topic before its last step, so a controller with a failed failover deletes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.scala_collections import immutable_order, mutable_set_order
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import PartitionAndReplica, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.controller.state_machines import ControllerPart
from simzk.kafka.zookeeper_mode.controller.states import PartitionState, ReplicaState, transitions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.kafka.requests import ControlResponse


class TopicDeletion(ControllerPart):
    """Deletions of topics, advanced one step by each event."""

    @property
    def _is_enabled(self) -> bool:
        return self._config.boolean("delete.topic.enable")

    @property
    def _partitions_leave_first(self) -> bool:
        return transitions_of(self._client.version.number).deleted_leave_first

    async def init(self) -> None:
        """Read the topics to be deleted at a failover, and halt those with an offline replica or a reassignment."""
        context = self._context
        topics = await self._client.children(paths.DELETE_TOPICS)
        if not self._is_enabled:
            if self._client.version.controller.drops_disabled_deletions:
                await self._client.delete_children(paths.DELETE_TOPICS, topics, context.epoch_version)
            return
        assert not context.deletion_started, "no deletion has started in this term"
        context.to_be_deleted = dict.fromkeys(topics)
        offline = [topic for topic in topics if self._has_offline_replica(topic)]
        busy = [partition.topic for partition in (*context.being_reassigned, *context.pending_elections)]
        self.mark_ineligible([*offline, *busy])

    async def process_requests(self) -> None:
        """Handle a change of the children of `/admin/delete_topics`."""
        context = self._context
        topics = await self._client.children(paths.DELETE_TOPICS)
        unknown = [topic for topic in topics if topic not in context.topic_ids]
        for topic in unknown:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._log.record_refusal(paths.delete_topic(topic), f"deletion of {topic}", error)
        await self._client.delete_children(paths.DELETE_TOPICS, unknown, context.epoch_version)
        known = [topic for topic in topics if topic in context.topic_ids]
        if not self._is_enabled:
            if self._client.version.controller.drops_disabled_deletions:
                await self._client.delete_children(paths.DELETE_TOPICS, known, context.epoch_version)
        elif known:
            # Kafka marks topics with a reassignment as ineligible before it queues them, which has no effect.
            context.to_be_deleted.update(dict.fromkeys(known))
            await self.resume()

    def mark_ineligible(self, topics: Iterable[str]) -> None:
        """Halt the deletion of those of some topics that are to be deleted."""
        context = self._context
        context.ineligible_for_deletion.update(
            dict.fromkeys(topic for topic in topics if topic in context.to_be_deleted)
        )

    async def resume_topics(self, topics: Iterable[str]) -> None:
        """Resume the deletion of topics after a broker start or a completed reassignment."""
        context = self._context
        resumed = [topic for topic in topics if topic in context.to_be_deleted]
        if resumed:
            for topic in resumed:
                context.ineligible_for_deletion.pop(topic, None)
            await self.resume()

    async def fail_replicas(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """Halt the deletion of topics with replicas that cannot be deleted."""
        concerned = [r for r in replicas if r.topic_partition.topic in self._context.to_be_deleted]
        if concerned:
            await self._replicas.handle(concerned, ReplicaState.DELETION_INELIGIBLE)
            self.mark_ineligible(replica.topic_partition.topic for replica in concerned)
            await self.resume()

    async def process_response(
        self, broker: int, partitions: Sequence[TopicPartition], response: ControlResponse
    ) -> None:
        """Handle the StopReplica response of a broker that deleted replicas.

        A response to a request that was refused as a whole, such as one with a stale broker epoch, names no partition:
        the controller ignores it (ControllerBrokerRequestBatch.sendRequestsToBrokers).
        """
        if response.error != ErrorCode.NONE:
            return
        failed = {p for p in partitions if response.partition_errors.get(p, ErrorCode.NONE) != ErrorCode.NONE}
        await self.fail_replicas([PartitionAndReplica(p, broker) for p in partitions if p in failed])
        deleted = [PartitionAndReplica(p, broker) for p in partitions if p not in failed]
        deleted = [r for r in deleted if r.topic_partition.topic in self._context.to_be_deleted]
        if deleted:
            await self._replicas.handle(deleted, ReplicaState.DELETION_SUCCESSFUL)
            await self.resume()

    async def begin(self) -> None:
        """Begin to delete topics, in a failover."""
        assert not self._context.deletes_topics, "a failover begins to delete topics once"
        self._context.deletes_topics = True
        await self.resume()

    async def resume(self) -> None:
        """Advance every deletion that can advance: topic by topic, from 2.5 on all together (KAFKA-8904)."""
        context = self._context
        if self._client.version.controller.deletes_topics_last and not context.deletes_topics:
            return
        together = self._client.version.controller.batches_deletions
        to_retry: list[str] = []
        to_start: list[str] = []
        for topic in immutable_order(mutable_set_order(context.to_be_deleted, context.scala), context.scala):
            states = context.replica_states.distinct(context.table.rows_of(topic))
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                await self._complete(topic)
            elif ReplicaState.DELETION_STARTED not in states and ReplicaState.DELETION_INELIGIBLE in states:
                to_retry.append(topic)
                if not together:
                    await self._replicas.handle(self._ineligible_of(topic), ReplicaState.OFFLINE)
            if self._is_eligible(topic):
                to_start.append(topic)
                if not together:
                    await self._start([topic])
        if together and to_retry:
            of_topics = mutable_set_order(to_retry, context.scala)
            ineligible = [replica for topic in of_topics for replica in self._ineligible_of(topic)]
            ordered = mutable_set_order(ineligible, context.scala, context.collections.replica_hash)
            await self._replicas.handle(ordered, ReplicaState.OFFLINE)
        if together and to_start:
            await self._start(mutable_set_order(to_start, context.scala))

    def _ineligible_of(self, topic: str) -> list[PartitionAndReplica]:
        state_of = self._context.replica_states.get
        replicas = self._context.replicas_of_topic(topic)
        return list(replicas.filter(lambda replica: state_of(replica) == ReplicaState.DELETION_INELIGIBLE))

    def _is_eligible(self, topic: str) -> bool:
        context = self._context
        started = ReplicaState.DELETION_STARTED in context.replica_states.distinct(context.table.rows_of(topic))
        return topic in context.to_be_deleted and not started and topic not in context.ineligible_for_deletion

    def _has_offline_replica(self, topic: str) -> bool:
        context = self._context
        return any(not context.is_online(r.replica, r.topic_partition) for r in context.replicas_of_topic(topic))

    async def _start(self, topics: list[str]) -> None:
        """Take the live replicas of topics offline and request the deletion of their logs (onTopicDeletion)."""
        context = self._context
        assert all(topic in context.to_be_deleted for topic in topics), f"nobody requested the deletion of all {topics}"
        assert not any(topic in context.ineligible_for_deletion for topic in topics), f"one of {topics} is halted"
        unseen = [topic for topic in topics if topic not in context.deletion_started]
        if self._partitions_leave_first:
            await self._remove_partitions(unseen)
        context.deletion_started.update(dict.fromkeys(unseen))
        self._channels.send_metadata([partition for topic in topics for partition in context.partitions_of(topic)])
        dead: list[PartitionAndReplica] = []
        alive: list[PartitionAndReplica] = []
        for topic in topics:
            for replica in context.replicas_of_topic(topic):
                if not context.is_online(replica.replica, replica.topic_partition):
                    dead.append(replica)
                elif context.replica_states.get(replica) != ReplicaState.DELETION_SUCCESSFUL:
                    alive.append(replica)
        await self._replicas.handle(dead, ReplicaState.DELETION_INELIGIBLE)
        await self._replicas.handle(alive, ReplicaState.OFFLINE)
        await self._replicas.handle(alive, ReplicaState.DELETION_STARTED)
        self.mark_ineligible(replica.topic_partition.topic for replica in dead)

    async def _remove_partitions(self, topics: list[str]) -> None:
        """Move the partitions of topics to NON_EXISTENT."""
        partitions = [partition for topic in topics for partition in self._context.partitions_of(topic)]
        await self._partitions.handle(partitions, PartitionState.OFFLINE)
        await self._partitions.handle(partitions, PartitionState.NON_EXISTENT)

    async def _complete(self, topic: str) -> None:
        """Delete the znodes of a topic without replicas (completeDeleteTopic)."""
        context = self._context
        assert topic in context.to_be_deleted, f"nobody requested the deletion of {topic}"
        states = context.replica_states.distinct(context.table.rows_of(topic))
        assert states <= {ReplicaState.DELETION_SUCCESSFUL}, f"a broker has a log of {topic}"
        self._session.data_handlers.pop(paths.topic(topic), None)
        await self._replicas.handle(list(context.replicas_of_topic(topic)), ReplicaState.NON_EXISTENT)
        if not self._partitions_leave_first:
            await self._remove_partitions([topic])
        await self._client.delete_recursive(paths.topic(topic), context.epoch_version)
        await self._client.delete_children(f"{paths.CONFIG}/topics", [topic], context.epoch_version)
        await self._client.delete_children(paths.DELETE_TOPICS, [topic], context.epoch_version)
        context.remove_topic(topic)
        context.order.note_filtered()
