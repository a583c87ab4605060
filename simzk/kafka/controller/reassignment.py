"""Moving partitions to other brokers, by the API or by a znode (docs/reference/kafka.md §2.11; KIP-455).

Rules of the module (KafkaController.onPartitionReassignment):
  - where a reassignment stands is in the topic znode alone: replicas, adding, removing; the algebra is
    `partitions.reassignment`;
  - first the znode is widened, then replicas are added; when all the target is in sync, the leader moves if it must,
    the others leave, and the znode is written anew;
  - the latest request wins, whichever way it came;
  - a znode that moves a partition to nobody gets, from 2.7 on, as far as the topic's znode, and no failover gets past
    that: controllers follow one another until the topic's znode is mended (recorded).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.controller import assignment_warnings as doubts
from simzk.kafka.controller.partition_state_machine import Strategy
from simzk.kafka.controller.states import PartitionState, ReplicaState
from simzk.kafka.requests import Error
from simzk.kafka.schemas.topic import TopicZnode
from simzk.kafka.topic_partition import (
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
    mutable_partitions,
    named,
)
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION
from simzk.partitions import reassignment as algebra
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.states import states_of
from simzk.partitions.transitions import raise_leader_epoch
from simzk.zookeeper.replies import Code, EventType
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from simzk.kafka.controller.controller import KafkaController

Requested = dict[TopicPartition, tuple[int, ...]]


class Reassignments:
    """Carries out reassignments."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    # -- how they come

    async def load(self) -> None:
        """At a failover, before anything is done: the topics say what is under way, and have been read."""

    async def initialise(self) -> None:
        """At a failover: what stands in the znode, then what else was under way."""
        taken_up = await self._take_up_znode()
        await self.resume(lambda _target: True, but=taken_up)

    async def process_znode(self) -> None:
        """`/admin/reassign_partitions` was created."""
        await self._take_up_znode()

    async def _take_up_znode(self) -> Collection[TopicPartition]:
        """Take up what can be of the znode, and take the rest out of it; what was taken up.

        Replica lists are not validated, as in Kafka: brokers may be dead or unknown.
        """
        controller = self._controller
        if not await controller.client.exists(paths.REASSIGN_PARTITIONS):
            return ()
        to_start: dict[TopicPartition, ReplicaAssignment] = {}
        failed: dict[TopicPartition, Error] = {}
        for partition, target in (await controller.client.requested_reassignment()).items():
            moving = self._build(partition, target)
            if moving is None:
                failed[partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
            elif any(broker < 0 for broker in target):  # the real one would wait for it for ever
                failed[partition] = Error.INVALID_REPLICA_ASSIGNMENT
            else:
                to_start[partition] = moving
                self._note_doubts(partition, target)
        errors = await self._start(to_start)
        failed |= {p: error for p, error in errors.items() if error != Error.NONE}
        for partition, error in failed.items():
            controller.note_refusal(paths.REASSIGN_PARTITIONS, f"reassignment of {partition}", error)
        if failed:
            await self._remove_from_znode(lambda partition, _target: partition in failed)
        return [partition for partition in to_start if partition not in failed]

    def _note_doubts(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        odd = [f"{partition}: {doubt}" for doubt in doubts.of_target(target, self._controller.context.is_live)]
        self._controller.note_doubts(paths.REASSIGN_PARTITIONS, odd)

    async def process_api(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, Error]:
        """An operator asked through a broker; None cancels."""
        errors: dict[TopicPartition, Error] = {}
        to_start: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in targets.items():
            error = self._validate(partition, target)
            if error != Error.NONE:
                errors[partition] = error
                continue
            moving = self._build(partition, target)
            if moving is None:
                errors[partition] = Error.NO_REASSIGNMENT_IN_PROGRESS
            else:
                to_start[partition] = moving
        await self._remove_from_znode(lambda partition, _target: partition in to_start)
        return errors | await self._start(to_start)

    async def resume(self, wanted: Callable[[Sequence[int]], bool], but: Collection[TopicPartition] = ()) -> None:
        """Go on with reassignments that are under way, of targets that are wanted."""
        context = self._controller.context
        for partition in mutable_partitions(context.being_reassigned, context.collections):
            assignment = context.assignment(partition)
            if wanted(assignment.target) and partition not in but:
                await self._run(partition, assignment)

    async def maybe_complete(self, partition: TopicPartition) -> None:
        """The ISR of a partition under reassignment changed."""
        assignment = self._controller.context.assignment(partition)
        if assignment.being_reassigned and await self._is_complete(partition, assignment):
            await self._run(partition, assignment)

    def _validate(self, partition: TopicPartition, target: tuple[int, ...] | None) -> Error:
        """A target that comes by the API: brokers that are new to the partition must be live."""
        if target is None:
            return Error.NONE
        if not target or len(dict.fromkeys(target)) != len(target) or any(broker < 0 for broker in target):
            return Error.INVALID_REPLICA_ASSIGNMENT
        origin = self._controller.context.assignment(partition).origin
        if not all(broker in origin or self._controller.context.is_live(broker) for broker in target):
            return Error.INVALID_REPLICA_ASSIGNMENT
        return Error.NONE if self._controller.context.knows(partition) else Error.UNKNOWN_TOPIC_OR_PARTITION

    def _build(self, partition: TopicPartition, target: tuple[int, ...] | None) -> ReplicaAssignment | None:
        """What the topic znode will say while the partition moves; None where there is nothing to do or to cancel."""
        present = self._controller.context.assignment(partition)
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

    # -- what is done

    async def _start(self, to_start: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, Error]:
        context = self._controller.context
        errors = {}
        for partition in mutable_partitions(to_start, context.collections):
            if partition.topic in context.to_be_deleted or not context.knows(partition):
                errors[partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
            elif context.leadership(partition) is None:
                errors[partition] = Error.UNKNOWN_SERVER_ERROR
            else:
                try:
                    await self._run(partition, to_start[partition])
                except ZnodeError as problem:
                    self._controller.note_unusable(problem)
                    errors[partition] = Error.UNKNOWN_SERVER_ERROR
                else:
                    errors[partition] = Error.NONE
        return errors

    async def _run(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        controller, context = self._controller, self._controller.context
        controller.deletion.mark_ineligible([partition.topic])
        await self._update_current(partition, assignment)
        if not assignment.target and controller.client.version.controller.counts_preferred_imbalance:
            raise ZnodeError(
                f"{partition} is to move to nobody", where=paths.topic(partition.topic), right="one replica or more"
            )
        if not await self._is_complete(partition, assignment):
            await self._raise_leader_epoch(partition, assignment.replicas)
            await controller.replicas.handle(replicas_of(partition, assignment.adding), ReplicaState.NEW)
            return
        await controller.replicas.handle(replicas_of(partition, assignment.adding), ReplicaState.ONLINE)
        done = ReplicaAssignment(assignment.target)
        if done.replicas:  # else nobody can be elected
            context.set_assignment(partition, done)
            await self._move_leader(partition, done)
        await self._stop_removed(partition, assignment.removing)
        await self._write_topic(partition, done)
        if partition in context.being_reassigned:
            self._unwatch(partition)
            await self._remove_from_znode(lambda other, target: other == partition and target == done.replicas)
            context.being_reassigned.pop(partition, None)
        context.set_assignment(partition, done)
        controller.send_metadata([partition])
        await controller.deletion.resume_topics([partition.topic])

    async def _update_current(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._controller.context
        present = context.assignment(partition)
        if present != assignment:
            await self._write_topic(partition, assignment)
            context.set_assignment(partition, assignment)
            unneeded = [broker for broker in present.replicas if broker not in assignment.replicas]
            if unneeded:
                await self._stop_removed(partition, unneeded)
        self._watch(partition)
        context.being_reassigned[partition] = assignment.target

    async def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Whether all of the target is in sync, by what stands in ZooKeeper now."""
        return not assignment.being_reassigned or await self._are_in_sync(partition, assignment.target)

    async def _are_in_sync(self, partition: TopicPartition, target: Sequence[int]) -> bool:
        state = await self._controller.client.state(partition)
        return state is not None and bool(algebra.in_sync(pack([target]), pack([state.isr]))[0])

    def _watch(self, partition: TopicPartition) -> None:
        """Where leaders write ISRs themselves, the state's znode tells of it; reading it sets the watch."""
        if self._controller.client.version.broker.uses_alter_isr:
            return

        def handle(_kind: EventType) -> None:
            self._controller.put_event(f"ISR of {partition}", lambda: self.maybe_complete(partition))

        self._controller.session.data_handlers[paths.state(partition)] = handle

    def _unwatch(self, partition: TopicPartition) -> None:
        self._controller.session.data_handlers.pop(paths.state(partition), None)

    def forget(self) -> None:
        """The controller resigns."""
        for partition in self._controller.context.being_reassigned:
            self._unwatch(partition)

    async def _raise_leader_epoch(self, partition: TopicPartition, recipients: Sequence[int]) -> None:
        """One leader epoch more with the same leader and ISR, so that the leader takes the new replicas (A1, B3)."""
        controller, context = self._controller, self._controller.context
        while True:
            state = await controller.client.state(partition)
            if state is None or state.controller_epoch > context.epoch:
                return
            before = states_of([state], max(len(state.isr), 1))
            after = raise_leader_epoch(before, controller_epoch=context.epoch)
            (error,) = await controller.client.write_states(named([partition]), after, context.epoch_version)
            if error != Code.BAD_VERSION:
                break
        if error == Code.OK:
            context.put_leadership(partition, after.one(0))
            controller.requests.new_batch()
            controller.requests.add_leaders(context.rows_of([partition]), pack([recipients]))
            controller.requests.send()

    async def _move_leader(self, partition: TopicPartition, done: ReplicaAssignment) -> None:
        controller, context = self._controller, self._controller.context
        state = context.leadership(partition)
        assert state is not None
        if state.leader in done.replicas and context.is_online(state.leader, partition):
            await self._raise_leader_epoch(partition, done.replicas)
        else:
            await controller.partitions.handle([partition], PartitionState.ONLINE, Strategy.REASSIGNMENT)

    async def _stop_removed(self, partition: TopicPartition, removed: Sequence[int]) -> None:
        """Out of the ISR, then off the brokers."""
        replicas = replicas_of(partition, removed)
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            await self._controller.replicas.handle(replicas, state)

    async def _write_topic(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._controller.context
        present = context.written(partition.topic)
        present[partition.partition] = assignment
        topic = TopicZnode(present, context.topics[partition.topic])
        await self._controller.client.write_topic(partition.topic, topic, context.epoch_version)

    async def _remove_from_znode(self, wanted: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
        """Take entries out of `/admin/reassign_partitions`; without any the znode goes."""
        controller, _context = self._controller, self._controller.context
        if not await controller.client.exists(paths.REASSIGN_PARTITIONS):
            return
        requested = await controller.client.requested_reassignment()
        await self._write_znode({p: target for p, target in requested.items() if not wanted(p, target)})

    async def _write_znode(self, left: Requested) -> None:
        controller, context = self._controller, self._controller.context
        if not left:
            if not controller.client.version.controller.checks_before_delete or await controller.client.exists(
                paths.REASSIGN_PARTITIONS
            ):
                delete = Delete(paths.REASSIGN_PARTITIONS, ANY_VERSION)
                await controller.client.fenced([delete], context.epoch_version)
            controller.put_event("reassignment by znode", self.process_znode)
            return
        data = controller.client.version.znodes.encode_reassignment(left)
        (result,) = await controller.client.fenced(
            [SetData(paths.REASSIGN_PARTITIONS, data, ANY_VERSION)], context.epoch_version
        )
        if result.error == Code.NO_NODE:
            create = controller.client.creation(paths.REASSIGN_PARTITIONS, data)
            await controller.client.fenced([create], context.epoch_version)


def replicas_of(partition: TopicPartition, brokers: Sequence[int]) -> list[PartitionAndReplica]:
    """The replicas of a partition on some brokers."""
    return [PartitionAndReplica(partition, broker) for broker in brokers]
