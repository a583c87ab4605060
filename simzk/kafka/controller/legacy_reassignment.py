"""Moving partitions up to Kafka 2.3, where only `/admin/reassign_partitions` says what moves (§2.11 Legacy).

Rules of the module (KafkaController.onPartitionReassignment of those releases; docs/reference/kafka.md §2.11):
  - while the target is not in sync, the topic's znode names target and old replicas together, and does not say which
    is which: after a failover that is known from the admin znode alone;
  - the admin znode lists what is under way, and goes with the last of it; deleted by hand it stops nothing;
  - nothing is validated but that the partition exists, up to 0.10.0 also that all of the target live; what is assigned
    so already is dropped; nothing is cancelled; without any target the partition ends with nobody, and a broker named
    twice stands twice in the znode (recorded);
  - 0.8.0 names the target nowhere else, and leaves alone a leader that is in it, and its epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.scala_collections import immutable_order
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

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


class LegacyReassignments(Reassignments):
    """Carries out reassignments of before KIP-455; `being_reassigned` holds the targets."""

    async def load(self) -> None:
        """At a failover, before anything is done: what the znode says is under way."""
        controller = self._controller
        requested = await controller.client.requested_reassignment()
        controller.context.being_reassigned.update(requested)

    async def initialise(self) -> None:
        """At a failover: go on with it."""
        context = self._controller.context
        await self._trigger(mutable_partitions(context.being_reassigned, context.collections))

    async def process_znode(self) -> None:
        """`/admin/reassign_partitions` was created."""
        controller, context = self._controller, self._controller.context
        if not await controller.client.exists(paths.REASSIGN_PARTITIONS):
            return
        requested = await controller.client.requested_reassignment()
        context.being_reassigned.update(requested)
        await self._trigger(self._as_read(requested))

    def _as_read(self, requested: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions in the order of the map that the znode is read into."""
        collections = self._controller.context.collections
        if self._controller.client.version.orders.reads_reassignments_into_mutable_map:
            return mutable_partitions(requested, collections)
        return list(partition_set(requested, collections))

    def _listed(self) -> list[TopicPartition]:
        """What is under way in the order in which the znode is written anew."""
        context = self._controller.context
        return list(partition_set(self._as_read(context.being_reassigned), context.collections))

    async def process_api(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, Error]:
        """There is no such request yet."""
        return dict.fromkeys(targets, Error.UNSUPPORTED_VERSION)

    async def resume(self, wanted: Callable[[Sequence[int]], bool], but: Collection[TopicPartition] = ()) -> None:
        """Go on with reassignments that are under way, of targets that are wanted."""
        context = self._controller.context
        for partition in mutable_partitions(context.being_reassigned, context.collections):
            target = context.being_reassigned.get(partition)
            if target is not None and wanted(target) and partition not in but:
                await self._move(partition, target)

    async def maybe_complete(self, partition: TopicPartition) -> None:
        """The ISR of a partition under reassignment changed."""
        target = self._controller.context.being_reassigned.get(partition)
        if target is not None and await self._are_in_sync(partition, target):
            await self._move(partition, target)

    async def _trigger(self, partitions: Iterable[TopicPartition]) -> None:
        """Start each; those that cannot be started, or need not be, leave the list."""
        controller, context = self._controller, self._controller.context
        version = controller.client.version
        dropped: dict[TopicPartition, None] = {}
        for partition in partitions:
            target = context.being_reassigned[partition]
            known = context.knows(partition) and context.leadership(partition) is not None
            same = known and context.written(partition.topic)[partition.partition].replicas == target
            dead = any(broker < 0 for broker in target) or (
                not version.controller.reassigns_to_dead_brokers
                and not all(context.is_live(broker) for broker in target)
            )
            if not known or same or dead or partition.topic in context.to_be_deleted:
                if not same:
                    is_dead = known and dead and partition.topic not in context.to_be_deleted
                    why = Error.BROKER_NOT_AVAILABLE if is_dead else Error.UNKNOWN_TOPIC_OR_PARTITION
                    controller.note_refusal(paths.REASSIGN_PARTITIONS, f"reassignment of {partition}", why)
                dropped[partition] = None
                continue
            self._note_doubts(partition, target)
            self._watch(partition)
            controller.deletion.mark_ineligible([partition.topic])
            await self._move(partition, target)
        await self._finish(dropped)

    async def _move(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        controller, context = self._controller, self._controller.context
        present = context.assignment(partition).replicas
        if not await self._are_in_sync(partition, target):
            if controller.client.version.controller.writes_union_assignment:
                both = tuple(immutable_order((*target, *present), context.scala))
                context.set_assignment(partition, ReplicaAssignment(both))
                await self._write_topic(partition, ReplicaAssignment(both))
                await self._raise_leader_epoch(partition, both)
            new = [broker for broker in dict.fromkeys(target) if broker not in present]
            await controller.replicas.handle(replicas_of(partition, new), ReplicaState.NEW)
            return
        for broker in target:
            await controller.replicas.handle([PartitionAndReplica(partition, broker)], ReplicaState.ONLINE)
        done = ReplicaAssignment(target)
        if target:  # else nobody can be elected
            context.set_assignment(partition, done)
            if controller.client.version.controller.writes_union_assignment or not self._is_led_by_one_of(
                partition, target
            ):
                await self._move_leader(partition, done)
        await self._stop_removed(partition, [broker for broker in present if broker not in target])
        await self._write_topic(partition, done)
        await self._finish({partition: None})
        if not target:
            context.set_assignment(partition, done)
        controller.send_metadata([partition])
        await controller.deletion.resume_topics([partition.topic])

    def _is_led_by_one_of(self, partition: TopicPartition, replicas: Sequence[int]) -> bool:
        context = self._controller.context
        state = context.leadership(partition)
        return state is not None and state.leader in replicas and context.is_live(state.leader)

    async def _finish(self, partitions: Mapping[TopicPartition, None]) -> None:
        """Partitions leave the list, here and in the znode, which goes with the last.

        From 2.0 on they leave together, and the znode goes also where there was nothing to leave; before one by one.
        """
        together = self._controller.client.version.controller.finishes_reassignments_together
        for leaving in [partitions] if together else [{partition: None} for partition in partitions]:
            context = self._controller.context
            for partition in leaving:
                self._unwatch(partition)
            left = {p: context.being_reassigned[p] for p in self._listed() if p not in leaving}
            await self._write_znode(left)
            context.being_reassigned = left
