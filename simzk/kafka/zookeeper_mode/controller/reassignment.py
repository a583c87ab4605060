"""Partition reassignments, by API or by znode (KafkaController.onPartitionReassignment; docs/reference/kafka.md §2.11).

Rules from Kafka 2.4 on (KIP-455):
  - the topic znode alone stores the progress: replicas, adding replicas, removing replicas; `partitions.reassignment`
    computes these lists;
  - phase A: the controller writes the wider assignment and starts the new replicas; phase B, when all target replicas
    are in sync: it elects a target replica if needed, stops the others, and writes the final assignment;
  - the latest request replaces an earlier one, by API or by znode;
  - a znode that moves a partition to no replicas gets, from 2.7 on, as far as the topic's znode, and then every
    failover fails until somebody repairs that znode (recorded).

Rules up to Kafka 2.3, by `/admin/reassign_partitions` alone:
  - while the target is not in sync, the topic znode lists target and old replicas together without a distinction, so a
    new controller learns the target from the admin znode;
  - the admin znode lists the reassignments in progress and is deleted with the last; deleting it by hand stops none;
  - up to 0.10 the controller keeps its list over its terms: elected again, it resumes reassignments that another
    controller has completed since (recorded);
  - the only validation is that the partition exists, up to 0.10.0 also that all target brokers are live. A target equal
    to the present assignment is dropped, and nothing can be cancelled;
  - an empty target leaves the partition without replicas, and a broker named twice stays twice in the znode (recorded);
  - 0.8.0 does not write target replicas into the topic znode before the end, and keeps leader and leader epoch if the
    leader is a target replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import (
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
    mutable_partitions,
    named,
    partition_set,
)
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION
from simzk.kafka.zookeeper_mode.controller.channels import UnsentRequestError
from simzk.kafka.zookeeper_mode.controller.events import Watched, warnings_of_target
from simzk.kafka.zookeeper_mode.controller.state_machines import ControllerPart, Strategy
from simzk.kafka.zookeeper_mode.controller.states import PartitionState, ReplicaState
from simzk.partitions import reassignment as algebra
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.reassignment import widened_for_legacy
from simzk.partitions.states import states_of
from simzk.partitions.transitions import leads_target, raise_leader_epoch
from simzk.zookeeper.replies import Code, EventType
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from simzk.jvm.scala_collections import Scala
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.kafka.zookeeper_mode.controller.topic_deletion import TopicDeletion
    from simzk.partitions.states import States

Requested = dict[TopicPartition, tuple[int, ...]]


@dataclass(eq=False)
class Reassignments(ControllerPart):
    """Reassignments in progress, and requests for new ones."""

    _deletion: TopicDeletion
    """Deletions of topics, which a reassignment halts."""

    # -- requests

    async def load(self) -> None:
        """Read the reassignments in progress, before a failover; from 2.4 on they were read with the topics."""

    async def initialise(self) -> None:
        """Start the reassignments in the znode at a failover, then resume the others."""
        started = await self._start_znode()
        await self.resume(lambda _target: True, but=started)

    async def process_znode(self) -> None:
        """Handle the creation of `/admin/reassign_partitions`."""
        await self._start_znode()

    async def _start_znode(self) -> Collection[TopicPartition]:
        """Start the reassignments in the znode, remove those that fail from it, and return those that started.

        As in Kafka, the brokers of a target may be dead or unknown.
        """
        if not await self._client.exists(paths.REASSIGN_PARTITIONS):
            return ()
        to_start: dict[TopicPartition, ReplicaAssignment] = {}
        failed: dict[TopicPartition, ErrorCode] = {}
        for partition, target in (await self._client.requested_reassignment()).items():
            if partition not in self._context.table:
                failed[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif any(broker < 0 for broker in target):  # Kafka would wait for such a replica forever
                failed[partition] = ErrorCode.INVALID_REPLICA_ASSIGNMENT
            else:
                moving = self._build(partition, target)
                assert moving is not None, "only a cancellation may have nothing to do"
                to_start[partition] = moving
                self._record_warnings(partition, target)
        errors = await self._start(to_start)
        failed |= {p: error for p, error in errors.items() if error != ErrorCode.NONE}
        for partition, error in failed.items():
            self._log.record_refusal(paths.REASSIGN_PARTITIONS, f"reassignment of {partition}", error)
        if failed:
            await self._remove_from_znode(lambda partition, _target: partition in failed)
        return [partition for partition in to_start if partition not in failed]

    def _record_warnings(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        warnings = warnings_of_target(target, self._context.is_live)
        self._log.record_warnings(paths.REASSIGN_PARTITIONS, [f"{partition}: {warning}" for warning in warnings])

    async def process_api(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, ErrorCode]:
        """Handle AlterPartitionReassignments; a target of None cancels the reassignment."""
        errors: dict[TopicPartition, ErrorCode] = {}
        to_start: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in targets.items():
            error = self._validate(partition, target)
            if error != ErrorCode.NONE:
                errors[partition] = error
                continue
            moving = self._build(partition, target)
            if moving is None:
                errors[partition] = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            else:
                to_start[partition] = moving
        assert errors.keys() | to_start.keys() == targets.keys(), "each reassignment has a result"
        await self._remove_from_znode(lambda partition, _target: partition in to_start)
        return errors | await self._start(to_start)

    async def resume(self, wanted: Callable[[Sequence[int]], bool], but: Collection[TopicPartition] = ()) -> None:
        """Resume the reassignments in progress with a wanted target, except some."""
        context = self._context
        for partition in mutable_partitions(context.being_reassigned, context.collections):
            assignment = context.assignment(partition)
            if wanted(assignment.target) and partition not in but:
                await self._run(partition, assignment)

    async def maybe_complete(self, partition: TopicPartition) -> None:
        """Complete the reassignment of a partition after an ISR change, if all of the target is in sync."""
        assignment = self._context.assignment(partition)
        if assignment.being_reassigned and await self._is_complete(partition, assignment):
            await self._run(partition, assignment)

    def _validate(self, partition: TopicPartition, target: tuple[int, ...] | None) -> ErrorCode:
        """Return the error of a target requested by API: new replicas must be on live brokers."""
        if target is None:
            return ErrorCode.NONE
        if not target or len(dict.fromkeys(target)) != len(target) or any(broker < 0 for broker in target):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        origin = self._context.assignment(partition).origin
        if not all(broker in origin or self._context.is_live(broker) for broker in target):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        return ErrorCode.NONE if partition in self._context.table else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _build(self, partition: TopicPartition, target: tuple[int, ...] | None) -> ReplicaAssignment | None:
        """Return the assignment while the partition moves; None for an unknown partition or nothing to cancel."""
        present = self._context.assignment(partition)
        if not present.replicas:
            return None
        if target == ():
            return ReplicaAssignment(present.origin, (), present.origin)
        columns = algebra.Assignment(pack([present.replicas]), pack([present.adding]), pack([present.removing]))
        if target is not None:
            moving = algebra.reassign_to(columns, pack([tuple(dict.fromkeys(target))]))
        elif present.being_reassigned:
            moving = algebra.cancelled(columns)
        else:
            return None
        return ReplicaAssignment(*(unpack(ids)[0] for ids in moving))

    # -- phases

    async def _start(self, to_start: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, ErrorCode]:
        context = self._context
        errors = {}
        for partition in mutable_partitions(to_start, context.collections):
            if partition.topic in context.to_be_deleted or partition not in context.table:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif context.leadership(partition) is None:
                errors[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
            else:
                try:
                    await self._run(partition, to_start[partition])
                except ZnodeError as problem:
                    self._log.record("znode unusable", problem.where, str(problem))
                    errors[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
                else:
                    errors[partition] = ErrorCode.NONE
        assert errors.keys() == to_start.keys(), "each reassignment has a result"
        return errors

    async def _run(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Carry out phase A or B of a reassignment, depending on whether all of the target is in sync."""
        context = self._context
        assert partition in context.table, f"{partition} has no assignment"
        self._deletion.mark_ineligible([partition.topic])
        await self._update_current(partition, assignment)
        if not assignment.target and self._client.version.controller.counts_preferred_imbalance:
            raise ZnodeError(
                f"{partition} is to move to nobody", where=paths.topic(partition.topic), right="one replica or more"
            )
        if not await self._is_complete(partition, assignment):
            await self._raise_leader_epoch(partition, assignment.replicas)
            await self._replicas.handle(replicas_of(partition, assignment.adding), ReplicaState.NEW)
            return
        await self._replicas.handle(replicas_of(partition, assignment.adding), ReplicaState.ONLINE)
        done = ReplicaAssignment(assignment.target)
        if done.replicas:  # otherwise there is nobody to elect
            context.set_assignment(partition, done)
            await self._move_leader(partition, done.replicas)
        await self._stop_removed(partition, assignment.removing)
        await self._write_topic(partition, done)
        if partition in context.being_reassigned:
            self._unwatch(partition)
            await self._remove_from_znode(lambda other, target: other == partition and target == done.replicas)
            context.being_reassigned.pop(partition, None)
        context.set_assignment(partition, done)
        self._channels.send_metadata([partition])
        await self._deletion.resume_topics([partition.topic])

    async def _update_current(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._context
        present = context.assignment(partition)
        assert {*assignment.adding, *assignment.removing} <= {*assignment.replicas}, "replicas include both (KIP-455)"
        if present != assignment:
            await self._write_topic(partition, assignment)
            context.set_assignment(partition, assignment)
            unneeded = [broker for broker in present.replicas if broker not in assignment.replicas]
            if unneeded:
                await self._stop_removed(partition, unneeded)
        self._watch(partition)
        context.being_reassigned[partition] = assignment.target

    async def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Return whether all of the target is in sync, by the present znode."""
        return not assignment.being_reassigned or await self._are_in_sync(partition, assignment.target)

    def _watch(self, partition: TopicPartition) -> None:
        """Watch the state of a partition, if leaders write ISRs themselves; the next read of it sets the watch."""
        if self._client.version.broker.uses_alter_isr:
            return

        watcher = self._events.watcher(tuple(EventType), f"ISR of {partition}", self.maybe_complete, partition)
        self._session.data_handlers[paths.state(partition)] = watcher

    def _unwatch(self, partition: TopicPartition) -> None:
        self._session.data_handlers.pop(paths.state(partition), None)

    def remove_handlers(self) -> None:
        """Remove all handlers, at a resignation."""
        for partition in self._context.being_reassigned:
            self._unwatch(partition)

    async def _raise_leader_epoch(self, partition: TopicPartition, recipients: Sequence[int]) -> None:
        """Write the same leader and ISR with a new leader epoch, so that brokers accept the new replicas (A1, B3)."""
        assert recipients, "the new leader epoch is sent to the replicas"
        self._channels.require_sent()  # KafkaController.updateLeaderEpochAndSendRequest begins a batch first
        context, known = self._context, self._context.leadership(partition)
        while True:
            state = await self._client.state(partition)
            if state is None or state.controller_epoch > context.epoch:
                return
            after = with_next_epoch(state, context.epoch)
            (error,) = await self._client.write_states(named([partition]), after, context.epoch_version)
            if error != Code.BAD_VERSION:
                break
        assert after.version[0] == state.version + 1, "a write raises the version by one"
        if error == Code.OK:
            context.put_leadership(partition, after.one(0))
            self._channels.new_batch()
            self._channels.add_leaders(context.rows_of([partition]), pack([recipients]))
            if known is not None and not self._client.version.controller.caches_raised_epochs:
                self._channels.send_leaders()
                context.put_leadership(partition, known)
            self._channels.send()

    async def _move_leader(self, partition: TopicPartition, target: Sequence[int]) -> None:
        """Elect a target replica, or raise the leader epoch if one leads already."""
        assert target, f"{partition} moves to nobody, who cannot be elected"
        if self._leads_target(partition, target):
            await self._raise_leader_epoch(partition, target)
        else:
            await self._partitions.handle([partition], PartitionState.ONLINE, Strategy.REASSIGNMENT)

    def _leads_target(self, partition: TopicPartition, target: Sequence[int]) -> bool:
        context, rows = self._context, self._context.rows_of([partition])
        assert len(rows) == 1, f"{partition} has no assignment"
        offline = context.replicas_on_failed_dirs(rows)
        return bool(leads_target(context.table.leader[rows], pack([target]), context.live_mask(), offline)[0])

    async def _stop_removed(self, partition: TopicPartition, removed: Sequence[int]) -> None:
        """Remove replicas from the ISR, then from their brokers."""
        replicas = replicas_of(partition, removed)
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            await self._replicas.handle(replicas, state)

    async def _remove_from_znode(self, wanted: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
        """Remove entries from `/admin/reassign_partitions`; delete the znode with the last one."""
        if not await self._client.exists(paths.REASSIGN_PARTITIONS):
            return
        requested = await self._client.requested_reassignment()
        await self._write_znode({p: target for p, target in requested.items() if not wanted(p, target)})

    async def _write_znode(self, left: Requested) -> None:
        epoch_version = self._context.epoch_version
        if not left:
            if not self._client.version.controller.checks_before_delete or await self._client.exists(
                paths.REASSIGN_PARTITIONS
            ):
                await self._client.fenced([Delete(paths.REASSIGN_PARTITIONS, ANY_VERSION)], epoch_version)
            self._events.put(Watched.REASSIGNMENT, self.process_znode)
            return
        data = self._client.version.znodes.encode_reassignment(left)
        (result,) = await self._client.fenced([SetData(paths.REASSIGN_PARTITIONS, data, ANY_VERSION)], epoch_version)
        if result.error == Code.NO_NODE:
            await self._client.fenced([self._client.creation(paths.REASSIGN_PARTITIONS, data)], epoch_version)


def replicas_of(partition: TopicPartition, brokers: Sequence[int]) -> list[PartitionAndReplica]:
    """Return the replicas of a partition on some brokers."""
    return [PartitionAndReplica(partition, broker) for broker in brokers]


def with_next_epoch(state: LeaderAndIsr, controller_epoch: int) -> States:
    """Return the state of one partition with the same leader and ISR, and the next leader epoch."""
    after = raise_leader_epoch(states_of([state], max(len(state.isr), 1)), controller_epoch=controller_epoch)
    assert after.one(0)[:2] == (state.leader, state.leader_epoch + 1), "only the epoch rises"
    return after


def widened(target: Sequence[int], present: Sequence[int], scala: Scala) -> tuple[int, ...]:
    """Return the assignment of a partition that moves to a target, before KIP-455: target and old replicas together."""
    (both,) = unpack(widened_for_legacy(pack([tuple(dict.fromkeys(target))]), pack([present]), scala))
    assert {*both} == {*target, *present}, "a reassignment adds before it removes"
    return both


class LegacyReassignments(Reassignments):
    """Reassignments before KIP-455; `being_reassigned` of the context stores the targets."""

    async def load(self) -> None:
        """Read the reassignments in progress from the znode, before a failover."""
        self._context.being_reassigned.update(await self._client.requested_reassignment())

    async def initialise(self) -> None:
        """Resume the reassignments in progress at a failover."""
        await self._trigger(mutable_partitions(self._context.being_reassigned, self._context.collections))

    async def process_znode(self) -> None:
        """Handle the creation of `/admin/reassign_partitions`, before 1.1 also a change of its data.

        A change is handled for partitions that are not being reassigned already: the controller writes the znode too.
        """
        context = self._context
        if not await self._client.exists(paths.REASSIGN_PARTITIONS):
            return
        requested = await self._client.requested_reassignment()
        if self._client.version.controller.handles_changed_requests:
            requested = {p: target for p, target in requested.items() if p not in context.being_reassigned}
        context.being_reassigned.update(requested)
        await self._trigger(self._as_read(requested))

    def _as_read(self, requested: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return partitions in the order of the map decoded from the znode."""
        collections = self._context.collections
        if self._client.version.orders.reads_reassignments_into_mutable_map:
            return mutable_partitions(requested, collections)
        return list(partition_set(requested, collections))

    async def _listed(self) -> Requested:
        """Return the reassignments from which `_finish` removes some, in the order in which the znode is written."""
        context, present = self._context, self._context.being_reassigned
        if self._client.version.controller.finishes_reassignments_together:  # a mutable map (recorded in 2.2.2)
            return {p: present[p] for p in mutable_partitions(present, context.collections)}
        if self._client.version.controller.rereads_reassignments:
            present = await self._client.requested_reassignment()
        return {p: present[p] for p in partition_set(self._as_read(present), context.collections)}

    async def process_api(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, ErrorCode]:
        """Reject the request, which these releases do not have."""
        return dict.fromkeys(targets, ErrorCode.UNSUPPORTED_VERSION)

    async def resume(self, wanted: Callable[[Sequence[int]], bool], but: Collection[TopicPartition] = ()) -> None:
        context = self._context
        for partition in mutable_partitions(context.being_reassigned, context.collections):
            target = context.being_reassigned.get(partition)
            if target is not None and wanted(target) and partition not in but:
                await self._move(partition, target)

    async def maybe_complete(self, partition: TopicPartition) -> None:
        target = self._context.being_reassigned.get(partition)
        if target is not None and await self._are_in_sync(partition, target):
            try:
                await self._move(partition, target)
            except UnsentRequestError as problem:
                self._log.record("failed", f"reassignment of {partition}", str(problem))

    async def _trigger(self, partitions: Iterable[TopicPartition]) -> None:
        """Start reassignments; remove those that are invalid or already done from the list."""
        context, version = self._context, self._client.version
        dropped: dict[TopicPartition, None] = {}
        for partition in partitions:
            target = context.being_reassigned[partition]
            known = partition in context.table and context.leadership(partition) is not None
            same = known and context.znode_assignment(partition.topic)[partition.partition].replicas == target
            dead = any(broker < 0 for broker in target) or (
                not version.controller.reassigns_to_dead_brokers
                and not all(context.is_live(broker) for broker in target)
            )
            if not known or same or dead or partition.topic in context.to_be_deleted:
                if not same:
                    is_dead = known and dead and partition.topic not in context.to_be_deleted
                    why = ErrorCode.BROKER_NOT_AVAILABLE if is_dead else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    self._log.record_refusal(paths.REASSIGN_PARTITIONS, f"reassignment of {partition}", why)
                dropped[partition] = None
                continue
            self._record_warnings(partition, target)
            self._watch(partition)
            self._deletion.mark_ineligible([partition.topic])
            try:
                await self._move(partition, target)
            except UnsentRequestError as problem:  # it is removed a second time (recorded in 0.8.0)
                self._log.record("failed", f"reassignment of {partition}", str(problem))
                await self._finish({partition: None})
        await self._finish(dropped)

    async def _move(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        """Widen the assignment of a partition; complete the reassignment once all of the target is in sync."""
        context = self._context
        present = context.assignment(partition).replicas
        if not await self._are_in_sync(partition, target):
            if self._client.version.controller.writes_union_assignment:
                both = widened(target, present, context.scala)
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
        self._channels.require_sent()
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
            await self._write_znode({p: target for p, target in (await self._listed()).items() if p not in leaving})
            for partition in leaving:
                context.being_reassigned.pop(partition, None)
