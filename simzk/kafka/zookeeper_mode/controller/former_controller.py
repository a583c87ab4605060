"""What a controller still does after it has resigned, up to 0.10.1, beside the new controller (KAFKA-4447).

Rules of the module (docs/reference/kafka.md §2.2; recorded in 0.8.0, 0.8.1.1, 0.8.2.2, 0.9.0.1 and 0.10.0.1):
  - a controller that resigns stops its state machines and closes its channels, but keeps its caches. It handles what
    waits behind the resignation as if it were controller;
  - with a new session zkclient notifies all watchers, while from 0.8.2 on the controller that resigns removes them: two
    threads, so that chance decides which are notified (recorded). Here the seed does;
  - 0.8.0 and 0.8.1 remove no watcher of a request by znode, so that the former controller handles later ones too;
  - it deletes announcements of ISR changes, and requests to delete topics that it does not know;
  - a preferred election elects nobody, but its znode is deleted, unless a partition has no leader in the old cache;
  - a reassignment starts no replica. From 0.8.1 on the old and new replicas are written to the topic znode, with the
    other partitions as cached. Once all of the target is in sync, the target is written; from 0.8.1 on only if the
    leader is no target replica, since otherwise the leader epoch is to rise. The entry is removed from
    `/admin/reassign_partitions` in any case but one: 0.8.0 waits until all of the target is in sync;
  - the leader epoch of a reassignment rises in 0.8.1 alone, whose former controller has the epoch of the present one;
  - it cannot send requests. From 0.9 on it then deletes `/controller`. Up to 0.8.2 the request stays in the batch, so
    that no leader epoch rises any more, and the process is never controller again: each failover fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.topic_partition import ReplicaAssignment, mutable_partitions, named, partition_set
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION
from simzk.kafka.zookeeper_mode.controller.events import Watched
from simzk.kafka.zookeeper_mode.controller.leadership_changes import read_states, requested_elections
from simzk.kafka.zookeeper_mode.controller.reassignment import widened, with_next_epoch
from simzk.kafka.zookeeper_mode.controller.state_machines import ControllerPart
from simzk.kafka.zookeeper_mode.schemas.admin import decode_partitions
from simzk.zookeeper.replies import EventType
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Collection

    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_mode.controller.events import Work

NOTIFIED: tuple[tuple[Watched, ...], ...] = (
    tuple(Watched),
    (Watched.ISR_CHANGES, Watched.DELETIONS),
    (Watched.DELETIONS,),
    (),
)
"""The events whose watchers are notified before a resignation removes them, as recorded; chance decides."""
_KINDS = (EventType.NODE_CREATED, EventType.NODE_DATA_CHANGED)


class FormerController(ControllerPart):
    """A controller after it resigned, with the context of its last term."""

    _is_over = False

    def end(self) -> None:
        """Do nothing more: the broker is controller again, or stops."""
        assert not self._is_over, "a former controller ends once"
        self._is_over = True

    def adopt(self, epoch: int, version: int) -> None:
        """Take over the epoch of another controller; up to 0.8.1 (ControllerEpochListener)."""
        self._context.epoch, self._context.epoch_version = epoch, version

    def keep_watching(self) -> None:
        """Handle requests by znode also after the resignation, as 0.8.0 and 0.8.1 do."""
        self._watch(paths.PREFERRED_ELECTION, Watched.ELECTION, self._process_election)
        self._watch(paths.REASSIGN_PARTITIONS, Watched.REASSIGNMENT, self._process_reassignments)
        for partition in self._context.being_reassigned:
            self._watch_state(partition)

    async def handle_all(self, notified: Collection[str]) -> None:
        """Handle what is there, as zkclient notifies watchers in a new session.

        Args:
            notified: the events whose watchers are not removed before, one of `NOTIFIED`.
        """
        assert self._context.has_term, "a former controller acts with the state of its last term"
        assert notified in NOTIFIED, f"{notified} was not recorded"
        for event, work in self._handlers.items():
            if event in notified:
                await work()
        if Watched.REASSIGNMENT in notified:
            for partition in list(self._context.being_reassigned):
                await self._maybe_complete(partition)

    def handler(self, event: str) -> Work | None:
        """Return what handles an event that waits behind the resignation, by its name; None if nothing does."""
        return self._handlers.get(event)

    @property
    def _handlers(self) -> dict[str, Work]:
        """By event, in the order in which zkclient notifies watchers: of children first."""
        return {
            Watched.ISR_CHANGES: self._process_isr_changes,
            Watched.DELETIONS: self._process_deletions,
            Watched.ELECTION: self._process_election,
            Watched.REASSIGNMENT: self._process_reassignments,
        }

    def _watch(self, path: str, name: str, work: Work) -> None:
        def handle(kind: EventType) -> None:
            if kind in _KINDS and not self._is_over:
                self._events.put(f"{name}, former controller", work, always=True)

        self._session.data_handlers[path] = handle

    def _watch_state(self, partition: TopicPartition) -> None:
        if self._client.version.controller.keeps_request_watchers:
            self._watch(paths.state(partition), f"ISR of {partition}", lambda: self._maybe_complete(partition))

    # -- ISR changes, deletions and elections

    async def _process_isr_changes(self) -> None:
        client = self._client
        if self._is_over or not client.version.broker.announces_isr_changes:
            return
        names = await client.children(paths.ISR_CHANGES)
        announced = await client.notifications(paths.ISR_CHANGES, names, decode_partitions)
        changed = [partition for partitions in announced for partition in partitions]
        if changed:
            await read_states(self._context, client, self._context.rows_of(changed))
            await self._fail_to_send()
        await client.delete_children(paths.ISR_CHANGES, names, self._context.epoch_version)

    async def _process_deletions(self) -> None:
        if self._is_over or self._client.version.controller.topic_deletion == "by tool":
            return
        topics = await self._client.children(paths.DELETE_TOPICS)
        unknown = [topic for topic in topics if topic not in self._context.topic_ids]
        await self._client.delete_children(paths.DELETE_TOPICS, unknown, self._context.epoch_version)

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

    # -- reassignments

    async def _process_reassignments(self) -> None:
        context = self._context
        if self._is_over or not await self._client.exists(paths.REASSIGN_PARTITIONS):
            return
        requested = await self._client.requested_reassignment()
        for partition in mutable_partitions(requested, context.collections):
            if partition not in context.being_reassigned:
                await self._reassign(partition, requested[partition])

    async def _reassign(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        context, rules = self._context, self._client.version.controller
        present = context.assignment(partition).replicas
        is_possible = rules.reassigns_to_dead_brokers or all(context.is_live(broker) for broker in target)
        if present and present != target and is_possible:
            self._watch_state(partition)
            context.being_reassigned[partition] = target
            if await self._are_in_sync(partition, target):
                await self._complete(partition, target)
            elif not rules.writes_union_assignment:
                return
            else:
                both = widened(target, present, context.scala)
                await self._assign(partition, both)
                await self._raise_leader_epoch(partition)
        await self._remove(partition)

    async def _maybe_complete(self, partition: TopicPartition) -> None:
        target = self._context.being_reassigned.get(partition)
        if not self._is_over and target is not None and await self._are_in_sync(partition, target):
            await self._complete(partition, target)

    async def _complete(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        context = self._context
        assert context.being_reassigned.get(partition) == target, f"{partition} moves to other brokers"
        known = context.leadership(partition)
        if known is None:
            return
        if self._client.version.controller.writes_union_assignment:
            context.set_assignment(partition, ReplicaAssignment(target))
            if known.leader in target and context.is_live(known.leader):
                await self._raise_leader_epoch(partition)
                return
        await self._assign(partition, target)
        await self._remove(partition)
        await self._fail_to_send()

    async def _assign(self, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        await self._write_topic(partition, ReplicaAssignment(replicas))
        self._context.set_assignment(partition, ReplicaAssignment(replicas))

    async def _raise_leader_epoch(self, partition: TopicPartition) -> None:
        """Write the same leader and ISR with a new leader epoch, which is not sent then."""
        context, state = self._context, await self._client.state(partition)
        if self._channels.has_unsent or state is None or state.controller_epoch > context.epoch:
            return
        after = with_next_epoch(state, context.epoch)
        await self._client.write_states(named([partition]), after, context.epoch_version)
        await self._fail_to_send()

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

    async def _fail_to_send(self) -> None:
        """Fail to send a request, without channels."""
        if not self._client.version.controller.deletes_controller_when_unsent:
            self._channels.has_unsent = True
            return
        self._log.record("cannot send", "", f"deletes {paths.CONTROLLER}")
        await self._client.fenced([Delete(paths.CONTROLLER, ANY_VERSION)], self._context.epoch_version)
