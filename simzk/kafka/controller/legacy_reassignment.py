"""Partition reassignments up to Kafka 2.3, by `/admin/reassign_partitions` alone.

Rules of the module (KafkaController.onPartitionReassignment of those releases; docs/reference/kafka.md §2.11 Legacy):
  - while the target is not in sync, the topic znode lists target and old replicas together without a distinction, so a
    new controller learns the target from the admin znode;
  - the admin znode lists the reassignments in progress and is deleted with the last; deleting it by hand stops none;
  - the only validation is that the partition exists, up to 0.10.0 also that all target brokers are live. A target equal
    to the present assignment is dropped, and nothing can be cancelled;
  - an empty target leaves the partition without replicas, and a broker named twice stays twice in the znode (recorded);
  - 0.8.0 does not write target replicas into the topic znode before the end, and keeps leader and leader epoch if the
    leader is a target replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka import paths
from simzk.kafka.controller.reassignment import Reassignments, replicas_of
from simzk.kafka.controller.states import ReplicaState
from simzk.kafka.requests import Error
from simzk.kafka.topic_partition import (
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
    mutable_partitions,
    partition_set,
)
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.reassignment import widened_for_legacy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


class LegacyReassignments(Reassignments):
    """Reassignments before KIP-455; `being_reassigned` of the context stores the targets."""

    async def load(self) -> None:
        """Read the reassignments in progress from the znode, before a failover."""
        requested = await self._client.requested_reassignment()
        self._context.being_reassigned.update(requested)

    async def initialise(self) -> None:
        """Resume the reassignments in progress at a failover."""
        context = self._context
        await self._trigger(mutable_partitions(context.being_reassigned, context.collections))

    async def process_znode(self) -> None:
        """Handle the creation of `/admin/reassign_partitions`."""
        context = self._context
        if not await self._client.exists(paths.REASSIGN_PARTITIONS):
            return
        requested = await self._client.requested_reassignment()
        context.being_reassigned.update(requested)
        await self._trigger(self._as_read(requested))

    def _as_read(self, requested: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return partitions in the order of the map decoded from the znode."""
        collections = self._context.collections
        if self._client.version.orders.reads_reassignments_into_mutable_map:
            return mutable_partitions(requested, collections)
        return list(partition_set(requested, collections))

    def _listed(self) -> list[TopicPartition]:
        """Return the partitions being reassigned in the order in which the znode is written."""
        context = self._context
        return list(partition_set(self._as_read(context.being_reassigned), context.collections))

    async def process_api(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, Error]:
        """Reject the request, which these releases do not have."""
        return dict.fromkeys(targets, Error.UNSUPPORTED_VERSION)

    async def resume(self, wanted: Callable[[Sequence[int]], bool], but: Collection[TopicPartition] = ()) -> None:
        """Resume the reassignments in progress with a wanted target, except some."""
        context = self._context
        for partition in mutable_partitions(context.being_reassigned, context.collections):
            target = context.being_reassigned.get(partition)
            if target is not None and wanted(target) and partition not in but:
                await self._move(partition, target)

    async def maybe_complete(self, partition: TopicPartition) -> None:
        """Complete the reassignment of a partition after an ISR change, if all of the target is in sync."""
        target = self._context.being_reassigned.get(partition)
        if target is not None and await self._are_in_sync(partition, target):
            await self._move(partition, target)

    async def _trigger(self, partitions: Iterable[TopicPartition]) -> None:
        """Start reassignments; remove those that are invalid or already done from the list."""
        context, version = self._context, self._client.version
        dropped: dict[TopicPartition, None] = {}
        for partition in partitions:
            target = context.being_reassigned[partition]
            known = context.has_partition(partition) and context.leadership(partition) is not None
            same = known and context.znode_assignment(partition.topic)[partition.partition].replicas == target
            dead = any(broker < 0 for broker in target) or (
                not version.controller.reassigns_to_dead_brokers
                and not all(context.is_live(broker) for broker in target)
            )
            if not known or same or dead or partition.topic in context.to_be_deleted:
                if not same:
                    is_dead = known and dead and partition.topic not in context.to_be_deleted
                    why = Error.BROKER_NOT_AVAILABLE if is_dead else Error.UNKNOWN_TOPIC_OR_PARTITION
                    self._log.record_refusal(paths.REASSIGN_PARTITIONS, f"reassignment of {partition}", why)
                dropped[partition] = None
                continue
            self._record_warnings(partition, target)
            self._watch(partition)
            self._deletion.mark_ineligible([partition.topic])
            await self._move(partition, target)
        await self._finish(dropped)

    async def _move(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        """Widen the assignment of a partition; complete the reassignment once all of the target is in sync."""
        context = self._context
        present = context.assignment(partition).replicas
        if not await self._are_in_sync(partition, target):
            if self._client.version.controller.writes_union_assignment:
                columns = pack([tuple(dict.fromkeys(target))]), pack([present])
                (both,) = unpack(widened_for_legacy(*columns, context.scala))
                context.set_assignment(partition, ReplicaAssignment(both))
                await self._write_topic(partition, ReplicaAssignment(both))
                await self._raise_leader_epoch(partition, both)
            new = [broker for broker in dict.fromkeys(target) if broker not in present]
            await self._replicas.handle(replicas_of(partition, new), ReplicaState.NEW)
            return
        for broker in target:
            await self._replicas.handle([PartitionAndReplica(partition, broker)], ReplicaState.ONLINE)
        done = ReplicaAssignment(target)
        if target:  # otherwise there is nobody to elect
            context.set_assignment(partition, done)
            if self._client.version.controller.writes_union_assignment or not self._leads_target(partition, target):
                await self._move_leader(partition, target)
        await self._stop_removed(partition, [broker for broker in present if broker not in target])
        await self._write_topic(partition, done)
        await self._finish({partition: None})
        if not target:
            context.set_assignment(partition, done)
        self._channels.send_metadata([partition])
        await self._deletion.resume_topics([partition.topic])

    async def _finish(self, partitions: Mapping[TopicPartition, None]) -> None:
        """Remove partitions from the list, in memory and in the znode, which is deleted with the last.

        From 2.0 on this is one write, also without partitions to remove; earlier releases write for each partition.
        """
        context, together = self._context, self._client.version.controller.finishes_reassignments_together
        for leaving in [partitions] if together else [{partition: None} for partition in partitions]:
            for partition in leaving:
                self._unwatch(partition)
            left = {p: context.being_reassigned[p] for p in self._listed() if p not in leaving}
            await self._write_znode(left)
            context.being_reassigned = left
