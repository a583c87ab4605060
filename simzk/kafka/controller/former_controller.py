"""Watchers of a former controller of 0.8.0, which act on requests by znode beside the new controller.

Rules of the module (docs/reference/kafka.md §2.2; recorded in 0.8.0):
  - a controller of 0.8.0 whose session expired stops its state machines and closes its channels, but removes no watcher
    and keeps its caches; with a new session zkclient notifies all watchers;
  - a preferred election elects nobody, but its znode is deleted, unless a partition has no leader in the old cache;
  - a reassignment starts no replica. Once all of the target is in sync, the assignment is written to the topic znode,
    with the other partitions as cached, and the entry is removed from `/admin/reassign_partitions`;
  - it then throws, since it has no channels. A reassignment that was in sync from the start is removed once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka import paths
from simzk.kafka.controller.leadership_changes import requested_elections
from simzk.kafka.controller.state_machines import ControllerPart
from simzk.kafka.topic_partition import ReplicaAssignment, mutable_partitions, partition_set
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION
from simzk.zookeeper.replies import EventType
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from simzk.kafka.controller.events import Work
    from simzk.kafka.topic_partition import TopicPartition

_NOTIFIED = (EventType.NODE_CREATED, EventType.NODE_DATA_CHANGED)


class FormerController(ControllerPart):
    """A controller after its session expired, with the context of its last term."""

    _is_over = False

    def end(self) -> None:
        """Do nothing more: the broker is controller again, or stops."""
        assert not self._is_over, "a former controller ends once"
        self._is_over = True

    async def start(self) -> None:
        """Watch the znodes of requests in a new session, and handle those that exist."""
        assert self._context.has_term, "a former controller acts with the state of its last term"
        self._watch(paths.PREFERRED_ELECTION, "preferred election by znode", self._process_election)
        self._watch(paths.REASSIGN_PARTITIONS, "reassignment by znode", self._process_reassignments)
        await self._process_election()
        await self._process_reassignments()
        for partition in list(self._context.being_reassigned):
            self._watch_state(partition)
            await self._maybe_complete(partition)

    def _watch(self, path: str, name: str, work: Work) -> None:
        def handle(kind: EventType) -> None:
            if kind in _NOTIFIED and not self._is_over:
                self._events.put(f"{name}, former controller", work, always=True)

        self._session.data_handlers[path] = handle

    def _watch_state(self, partition: TopicPartition) -> None:
        self._watch(paths.state(partition), f"ISR of {partition}", lambda: self._maybe_complete(partition))

    async def _process_election(self) -> None:
        context = self._context
        if self._is_over or not await self._client.exists(paths.PREFERRED_ELECTION):
            return
        requested = partition_set(await requested_elections(self._client), context.collections)
        new = list(requested.filter(lambda partition: partition not in context.pending_elections))
        context.pending_elections.update(dict.fromkeys(new))
        unknown = [partition for partition in new if context.leadership(partition) is None]
        if unknown:
            self._log.record("failed", f"preferred election of {unknown[0]}", "unknown to the former controller")
            return
        await self._client.fenced([Delete(paths.PREFERRED_ELECTION, ANY_VERSION)], context.epoch_version)
        await self._client.exists(paths.PREFERRED_ELECTION)
        for partition in new:
            assert partition in context.pending_elections, "another event ended the election"
            del context.pending_elections[partition]

    async def _process_reassignments(self) -> None:
        context = self._context
        if self._is_over or not await self._client.exists(paths.REASSIGN_PARTITIONS):
            return
        requested = await self._client.requested_reassignment()
        for partition in mutable_partitions(requested, context.collections):
            if partition not in context.being_reassigned:
                await self._reassign(partition, requested[partition])

    async def _reassign(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        context = self._context
        present = context.assignment(partition).replicas
        if present and present != target and all(context.is_live(broker) for broker in target):
            self._watch_state(partition)
            context.being_reassigned[partition] = target
            if not await self._are_in_sync(partition, target):
                return
            await self._complete(partition, target)
        await self._remove(partition)

    async def _maybe_complete(self, partition: TopicPartition) -> None:
        target = self._context.being_reassigned.get(partition)
        if not self._is_over and target is not None and await self._are_in_sync(partition, target):
            await self._complete(partition, target)

    async def _complete(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        context = self._context
        assert context.being_reassigned.get(partition) == target, f"{partition} moves to other brokers"
        if context.leadership(partition) is None:
            return
        await self._write_topic(partition, ReplicaAssignment(target))
        context.set_assignment(partition, ReplicaAssignment(target))
        await self._remove(partition)

    async def _remove(self, partition: TopicPartition) -> None:
        """Remove an entry from `/admin/reassign_partitions`; delete the znode with the last one."""
        context = self._context
        self._session.data_handlers.pop(paths.state(partition), None)
        requested = await self._client.requested_reassignment()
        ordered = partition_set(mutable_partitions(requested, context.collections), context.collections)
        left = {other: requested[other] for other in ordered if other != partition}
        encode = self._client.version.znodes.encode_reassignment
        path = paths.REASSIGN_PARTITIONS
        write = SetData(path, encode(left), ANY_VERSION) if left else Delete(path, ANY_VERSION)
        await self._client.fenced([write], context.epoch_version)
        await self._client.exists(path)
        context.being_reassigned.pop(partition, None)
