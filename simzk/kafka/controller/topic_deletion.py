"""The deletion of topics, from the request in ZooKeeper to the last znode (docs/reference/kafka.md §2.10).

Rules of the module (TopicDeletionManager):
  - a topic is deleted when every replica has confirmed that its log is gone: first all replicas go offline (their ISRs
    shrink in the znodes), then their logs go, then the znodes, children first;
  - a replica on a dead broker, or in a log directory that failed, makes the topic ineligible until that broker is back;
    so does a reassignment under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.scala_collections import immutable_order, mutable_set_order
from simzk.kafka import paths
from simzk.kafka.controller.states import PartitionState, ReplicaState, transitions_of
from simzk.kafka.requests import ControlResponse, Error
from simzk.kafka.topic_partition import PartitionAndReplica, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.kafka.controller.controller import KafkaController


class TopicDeletion:
    """Deletes topics, one step an event."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self._partitions_leave_first = transitions_of(controller.client.version.number).deleted_leave_first

    @property
    def _enabled(self) -> bool:
        return self._controller.config.truth("delete.topic.enable")

    async def init(self) -> None:
        """Read what is to be deleted, at a failover, and mark what offline replicas or reassignments hold up."""
        context = self._controller.context
        topics = await self._controller.client.children(paths.DELETE_TOPICS)
        if not self._enabled:
            if self._controller.client.version.controller.drops_disabled_deletions:
                await self._controller.client.delete_children(paths.DELETE_TOPICS, topics, context.epoch_version)
            return
        context.to_be_deleted = dict.fromkeys(topics)
        offline = [topic for topic in topics if self._has_offline_replica(topic)]
        moving = [partition.topic for partition in context.being_reassigned]
        self.mark_ineligible([*offline, *moving])

    async def process_requests(self) -> None:
        """The children of `/admin/delete_topics` changed."""
        controller, context = self._controller, self._controller.context
        topics = await controller.client.children(paths.DELETE_TOPICS)
        unknown = [topic for topic in topics if topic not in context.topics]
        for topic in unknown:
            error = Error.UNKNOWN_TOPIC_OR_PARTITION
            controller.note_refusal(paths.delete_topic(topic), f"deletion of {topic}", error)
        await controller.client.delete_children(paths.DELETE_TOPICS, unknown, context.epoch_version)
        known = [topic for topic in topics if topic in context.topics]
        if not self._enabled:
            if controller.client.version.controller.drops_disabled_deletions:
                await controller.client.delete_children(paths.DELETE_TOPICS, known, context.epoch_version)
        elif known:
            moving = {partition.topic for partition in context.being_reassigned}
            context.to_be_deleted.update(dict.fromkeys(known))
            self.mark_ineligible([topic for topic in known if topic in moving])
            await self.resume()

    def mark_ineligible(self, topics: Iterable[str]) -> None:
        """Halt the deletion of topics; of no effect for one that is not to be deleted."""
        context = self._controller.context
        context.ineligible_for_deletion.update(
            dict.fromkeys(topic for topic in topics if topic in context.to_be_deleted)
        )

    async def resume_topics(self, topics: Iterable[str]) -> None:
        """Something that halted the deletion of topics may be over."""
        context = self._controller.context
        resumed = [topic for topic in topics if topic in context.to_be_deleted]
        if resumed:
            for topic in resumed:
                context.ineligible_for_deletion.pop(topic, None)
            await self.resume()

    async def fail_replicas(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """Replicas could not be deleted: their topics wait."""
        concerned = [r for r in replicas if r.topic_partition.topic in self._controller.context.to_be_deleted]
        if concerned:
            await self._controller.replicas.handle(concerned, ReplicaState.DELETION_INELIGIBLE)
            self.mark_ineligible(replica.topic_partition.topic for replica in concerned)
            await self.resume()

    async def process_response(
        self, broker: int, partitions: Sequence[TopicPartition], response: ControlResponse
    ) -> None:
        """A broker answered that it has deleted replicas, or could not."""
        failed = {
            partition
            for partition in partitions
            if response.error != Error.NONE or response.partition_errors.get(partition, Error.NONE) != Error.NONE
        }
        await self.fail_replicas([PartitionAndReplica(p, broker) for p in partitions if p in failed])
        deleted = [PartitionAndReplica(p, broker) for p in partitions if p not in failed]
        deleted = [r for r in deleted if r.topic_partition.topic in self._controller.context.to_be_deleted]
        if deleted:
            await self._controller.replicas.handle(deleted, ReplicaState.DELETION_SUCCESSFUL)
            await self.resume()

    async def resume(self) -> None:
        """Go on with every topic that can go on: topic by topic, from 2.5 on all together (KAFKA-8904)."""
        context = self._controller.context
        together = self._controller.client.version.controller.batches_deletions
        to_retry: list[str] = []
        to_start: list[str] = []
        for topic in immutable_order(mutable_set_order(context.to_be_deleted, context.scala), context.scala):
            states = context.replica_states.among(context.table.rows_of(topic))
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                await self._complete(topic)
            elif ReplicaState.DELETION_STARTED not in states and ReplicaState.DELETION_INELIGIBLE in states:
                to_retry.append(topic)
                if not together:
                    await self._controller.replicas.handle(self._ineligible_of(topic), ReplicaState.OFFLINE)
            if self._is_eligible(topic):
                to_start.append(topic)
                if not together:
                    await self._start([topic])
        if together and to_retry:
            of_topics = mutable_set_order(to_retry, context.scala)
            ineligible = [replica for topic in of_topics for replica in self._ineligible_of(topic)]
            ordered = mutable_set_order(ineligible, context.scala, context.collections.replica_hash)
            await self._controller.replicas.handle(ordered, ReplicaState.OFFLINE)
        if together and to_start:
            await self._start(mutable_set_order(to_start, context.scala))

    def _ineligible_of(self, topic: str) -> list[PartitionAndReplica]:
        return list(self._controller.context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE))

    def _is_eligible(self, topic: str) -> bool:
        context = self._controller.context
        started = ReplicaState.DELETION_STARTED in context.replica_states.among(context.table.rows_of(topic))
        return topic in context.to_be_deleted and not started and topic not in context.ineligible_for_deletion

    def _has_offline_replica(self, topic: str) -> bool:
        context = self._controller.context
        return any(not context.is_online(r.replica, r.topic_partition) for r in context.replicas_of_topic(topic))

    async def _start(self, topics: list[str]) -> None:
        """Stop serving the topics, take their live replicas offline, and ask for the deletion of their logs."""
        controller, context = self._controller, self._controller.context
        unseen = [topic for topic in topics if topic not in context.deletion_started]
        if self._partitions_leave_first:
            await self._leave(unseen)
        context.deletion_started.update(dict.fromkeys(unseen))
        controller.send_metadata([partition for topic in topics for partition in context.partitions_of(topic)])
        dead: list[PartitionAndReplica] = []
        alive: list[PartitionAndReplica] = []
        for topic in topics:
            for replica in context.replicas_of_topic(topic):
                if not context.is_online(replica.replica, replica.topic_partition):
                    dead.append(replica)
                elif context.replica_states.get(replica) != ReplicaState.DELETION_SUCCESSFUL:
                    alive.append(replica)
        await controller.replicas.handle(dead, ReplicaState.DELETION_INELIGIBLE)
        await controller.replicas.handle(alive, ReplicaState.OFFLINE)
        await controller.replicas.handle(alive, ReplicaState.DELETION_STARTED)
        self.mark_ineligible(replica.topic_partition.topic for replica in dead)

    async def _leave(self, topics: list[str]) -> None:
        """The partitions of topics are no more."""
        partitions = [partition for topic in topics for partition in self._controller.context.partitions_of(topic)]
        await self._controller.partitions.handle(partitions, PartitionState.OFFLINE)
        await self._controller.partitions.handle(partitions, PartitionState.NON_EXISTENT)

    async def _complete(self, topic: str) -> None:
        """Every replica is gone: so are the znodes now."""
        controller, context = self._controller, self._controller.context
        controller.session.data_handlers.pop(paths.topic(topic), None)
        await controller.replicas.handle(list(context.replicas_of_topic(topic)), ReplicaState.NON_EXISTENT)
        if not self._partitions_leave_first:
            await self._leave([topic])
        await controller.client.delete_recursive(paths.topic(topic), context.epoch_version)
        await controller.client.delete_children(f"{paths.CONFIG}/topics", [topic], context.epoch_version)
        await controller.client.delete_children(paths.DELETE_TOPICS, [topic], context.epoch_version)
        context.remove_topic(topic)
