"""Events of brokers, log directories and topics: they are added, fail, start or change.

Rules of the module (KafkaController.processBrokerChange, onReplicasBecomeOffline, processTopicChange,
processLogDirEventNotification; docs/reference/kafka.md §2.7, §2.9, §2.13):
  - new brokers are handled first, then those that restarted so quickly that only the broker epoch changed (KIP-380),
    then dead ones. A controller before 2.2 does not notice the second kind, and sends such a broker nothing
    (KAFKA-7235);
  - when brokers die, leaders are elected first, then the dead replicas leave the ISRs;
  - a notification of a failed log directory names the broker, not the replicas (KIP-112): the controller sends
    LeaderAndIsr for all replicas of the broker, and those that it answers with a storage error are offline;
  - after a topic's znodes were removed, a controller of 0.8.0 fails at every broker that starts, because it still has
    leaders of partitions without replicas (recorded; the next controller does not). What it has put into its batch by
    then is never sent: reassignments and controlled shutdowns fail, too (recorded).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simzk.jvm.scala_collections import SMALL
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import (
    PartitionAndReplica,
    TopicPartition,
    mutable_partitions,
    partition_set,
    replica_set,
)
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.controller.channels import UNSENT
from simzk.kafka.zookeeper_mode.controller.context import LiveBroker
from simzk.kafka.zookeeper_mode.controller.events import warnings_of_topic
from simzk.kafka.zookeeper_mode.controller.state_machines import ControllerPart
from simzk.kafka.zookeeper_mode.controller.states import PartitionState, ReplicaState, rows_and_brokers
from simzk.kafka.zookeeper_mode.schemas.broker_registration import decode_log_dir_failure
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.zookeeper.replies import EventType

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from typing import Any

    from simzk.kafka.requests import ControlResponse
    from simzk.kafka.zookeeper_mode.controller.reassignment import Reassignments
    from simzk.kafka.zookeeper_mode.controller.topic_deletion import TopicDeletion
    from simzk.partitions.arrays import IntArray
    from simzk.simulation import Future


RESTART_MISSED = "restart not noticed"
"""Event of a controller before 2.2 that takes a new registration for the old one (KAFKA-7235)."""
_DATA_CHANGED = frozenset({EventType.NODE_DATA_CHANGED})


@dataclass(eq=False)
class BrokerChanges(ControllerPart):
    """Brokers that start, restart, fail or change their registration; deletions and reassignments go on with them."""

    _deletion: TopicDeletion
    _reassignments: Reassignments

    async def process(self) -> None:
        """Handle a change of the children of `/brokers/ids`."""
        context, channels = self._context, self._channels
        found, known = await self._client.brokers(), context.brokers
        new, dead = sorted(found.keys() - known.keys()), sorted(known.keys() - found.keys())
        bounced = sorted(
            [broker for broker, (_, epoch) in known.items() if broker in found and found[broker][1] > epoch]
        )
        before, now = context.registered_at, self._client.registered_at
        if not self._client.version.client.has_broker_epochs:
            for broker in known:
                if broker in found and now[broker] > before.get(broker, now[broker]):
                    self._log.record(RESTART_MISSED, f"broker {broker}")
        context.registered_at = now
        registered = {broker: LiveBroker(*found[broker]) for broker in new + bounced}
        for broker in bounced + dead:
            if self._client.version.controller.waits_for_removed_brokers:
                await channels.finish_broker(broker)
            else:
                channels.remove_broker(broker)
        for broker in new + bounced:
            channels.add_broker(broker)
        if new:
            context.brokers.update({broker: registered[broker] for broker in new})
            await self._start(new)
        if bounced:
            for broker in bounced:
                del context.brokers[broker]
            await self._fail(bounced)
            context.brokers.update({broker: registered[broker] for broker in bounced})
            await self._start(bounced)
        if dead:
            for broker in dead:
                del context.brokers[broker]
            await self._fail(dead)
        assert context.brokers.keys() == found.keys(), "another event changed the brokers while this one waited"

    def watch(self, brokers: Sequence[int]) -> Sequence[str]:
        """Register handlers for changes of registrations, and return their paths; a read of each sets the watch."""
        watched = {paths.broker(broker): broker for broker in brokers}
        for path, broker in watched.items():
            name = f"registration of broker {broker}"
            self._session.data_handlers[path] = self._events.watcher(_DATA_CHANGED, name, self._update, broker)
        return list(watched)

    async def _update(self, broker: int) -> None:
        """Handle a change of the data of a broker's registration."""
        found = (await self._client.brokers()).get(broker)
        known = self._context.brokers.get(broker)
        if found is not None and known is not None and found[0] != known.registration:
            self._context.brokers[broker] = LiveBroker(found[0], known.epoch)
            self._channels.send_metadata()

    async def _start(self, brokers: list[int]) -> None:
        """Handle brokers that started (onBrokerStartup)."""
        context = self._context
        assert context.brokers.keys() >= {*brokers}, f"one of brokers {brokers} is not registered"
        if not self._can_send_all_metadata():
            return
        for broker in brokers:
            context.on_failed_dirs.pop(broker, None)
        existing = [broker for broker in sorted(context.brokers) if broker not in brokers]
        assert len(existing) + len(brokers) == len(context.brokers), f"one of brokers {brokers} is not registered"
        self._channels.send_metadata_to(existing)
        self._channels.send_metadata_to(brokers, with_partitions=True)
        rows, brokers_of_rows = self._replicas_on(brokers)
        await self._replicas.handle_rows(rows, brokers_of_rows, ReplicaState.ONLINE)
        await self._partitions.trigger_online()
        await self._reassignments.resume(lambda target: any(broker in target for broker in brokers))
        deleted = rows[context.of_topics(rows, context.to_be_deleted)]
        to_delete = dict.fromkeys(partition.topic for partition in context.names(deleted))
        if to_delete:
            await self._deletion.resume_topics(to_delete)
        for path in self.watch(brokers):
            await self._client.exists(path)

    def _can_send_all_metadata(self) -> bool:
        """Return whether the metadata of all partitions can be sent: each that has a leader has replicas.

        Otherwise those before the first one without, in the map of leaders, stay in the batch, so that whoever sends
        metadata next fails, too (ControllerBrokerRequestBatch.newBatch; recorded in 0.8.0).
        """
        context, channels = self._context, self._channels
        orphaned = context.orphaned_leaders if self._client.version.controller.fails_at_removed_topics else {}
        if not orphaned and not channels.has_unsent:
            return True
        led = [p for p in context.names(context.table.rows()) if context.leadership(p) is not None]
        ordered = mutable_partitions([*led, *orphaned], context.collections)
        if orphaned and not channels.has_unsent:
            channels.has_unsent = ordered[0] not in orphaned
            why = "the controller has leaders of partitions of a removed topic, but no replicas"
        else:
            why = UNSENT
        self._log.record("failed", "broker change", why)
        return False

    async def _fail(self, brokers: list[int]) -> None:
        """Handle brokers that died (onBrokerFailure)."""
        context = self._context
        assert not any(broker in context.brokers for broker in brokers), f"brokers {brokers} are still registered"
        for broker in brokers:
            context.shutting_down.pop(broker, None)
            context.on_failed_dirs.pop(broker, None)
        await self.handle_offline_replicas(*self._replicas_on(brokers))
        for broker in brokers:
            if broker not in context.brokers:
                self._session.data_handlers.pop(paths.broker(broker), None)

    def _replicas_on(self, brokers: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Return rows and brokers of the replicas on some brokers, in the order of an immutable set of replicas."""
        context = self._context
        if not self._client.version.controller.reads_topics_of_brokers:
            return context.replicas_on(brokers)
        read = [PartitionAndReplica(p, broker) for broker in brokers for p in context.partitions_as_read(broker)]
        return rows_and_brokers(list(replica_set(read, context.collections)), context.table)

    async def handle_offline_replicas(self, rows: IntArray, brokers: IntArray) -> None:
        """Handle replicas on dead brokers or failed log directories (onReplicasBecomeOffline).

        Leaders are elected before the replicas leave the ISRs, so that a partition that loses its leader is written
        once, not twice.

        Args:
            rows: int32[k], in the order of a set of replicas.
            brokers: int32[k], the broker of each replica.
        """
        context = self._context
        assert len(rows) == len(brokers)
        deleted = context.of_topics(rows, context.to_be_deleted)
        to_delete = [
            PartitionAndReplica(partition, broker)
            for partition, broker in zip(context.names(rows[deleted]), brokers[deleted].tolist(), strict=True)
        ]
        hashed = len(rows) > SMALL
        if to_delete:  # a filtered set is built anew, and a hash set stays one
            rows, brokers = rows[~deleted], brokers[~deleted]
            order = context.order.positions_in_replica_set(rows, brokers, hashed=hashed)
            rows, brokers = rows[order], brokers[order]
        leaderless = context.rows_with_offline_leader()
        await self._partitions.handle_rows(leaderless, PartitionState.OFFLINE)
        await self._partitions.trigger_online()
        await self._replicas.handle_rows(rows, brokers, ReplicaState.OFFLINE)
        await self._deletion.fail_replicas(to_delete)
        if not len(leaderless):
            self._channels.send_metadata()


@dataclass(eq=False)
class LogDirFailures(ControllerPart):
    """Failed log directories of live brokers."""

    _handle_offline_replicas: Callable[[IntArray, IntArray], Coroutine[Future[Any], None, None]]
    """Handles replicas by rows and brokers, as on a dead broker."""

    async def process(self) -> None:
        """Handle a change of the children of `/log_dir_event_notification`; all are deleted, also unreadable ones."""
        context = self._context
        names = await self._client.children(paths.LOG_DIR_EVENTS)
        try:
            found = await self._client.notifications(paths.LOG_DIR_EVENTS, names, decode_log_dir_failure)
            await self._replicas.handle_rows(*context.replicas_on(dict.fromkeys(found)), ReplicaState.ONLINE)
        except Exception:  # not `finally`: a killed broker deletes nothing
            await self._client.delete_children(paths.LOG_DIR_EVENTS, names, context.epoch_version)
            raise
        await self._client.delete_children(paths.LOG_DIR_EVENTS, names, context.epoch_version)

    def on_response(self, broker: int, response: ControlResponse) -> None:
        """Handle a LeaderAndIsr response with partition errors."""
        self._events.put(f"LeaderAndIsr response of broker {broker}", lambda: self._process(broker, response))

    async def _process(self, broker: int, response: ControlResponse) -> None:
        context = self._context
        if response.error != ErrorCode.NONE:
            return
        known = context.on_failed_dirs.setdefault(broker, {})
        offline = [p for p, error in response.partition_errors.items() if error == ErrorCode.KAFKA_STORAGE_ERROR]
        new = mutable_partitions([p for p in offline if p not in known], context.collections)
        known.update(dict.fromkeys(new))
        if new:
            rows = context.rows_of(new)
            brokers = np.full(len(rows), broker, dtype=np.int32)
            order = context.order.positions_in_replica_set(rows, brokers)
            await self._handle_offline_replicas(rows[order], brokers)


@dataclass(eq=False)
class TopicChanges(ControllerPart):
    """Topics and partitions that are created, and topics with removed znodes."""

    _new_topic_id: Callable[[str], str]

    async def process(self) -> None:
        """Handle a change of the children of `/brokers/topics`."""
        context = self._context
        names = await self._client.children(paths.TOPICS)
        new = [name for name in names if name not in context.topic_ids]
        removed = [name for name in context.topic_ids if name not in names]
        for name in new:  # also if its data is unusable: Kafka does not read it again
            context.topic_ids.setdefault(name, None)
        self.watch(new)
        found = await self._client.topics(new)
        for name in removed:
            context.remove_topic(name, by_znodes=True)
            self._session.data_handlers.pop(paths.topic(name), None)
        context.order.note_filtered()
        await self.add(found)
        for name, topic in found.items():
            self._log.record_warnings(paths.topic(name), warnings_of_topic(topic.partitions, context.is_live))
        read = [TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions]
        added = [partition for partition in self._in_map(read) if partition in context.table]
        assert context.topic_ids.keys() == {*names}, "another event changed the topics while this one waited"
        context.note_inserted(added)
        await self._create(added)

    def watch(self, names: Sequence[str]) -> None:
        """Register handlers for changes of assignments; the reads that follow set the watches."""
        handlers, watcher, process = self._session.data_handlers, self._events.watcher, self._process_assignment
        for name in names:
            handlers[paths.topic(name)] = watcher(_DATA_CHANGED, f"assignment of {name}", process, name)

    async def add(self, topics: dict[str, TopicZnode]) -> None:
        """Store new topics; one without a topic id (created by an older tool) gets one (KIP-516)."""
        context = self._context
        for name, topic in topics.items():
            topic_id, version = topic.topic_id, self._client.version
            if not version.znodes.has_topic_ids and version.controller.forgets_unused_topic_ids:
                topic_id = None
            elif topic_id is None and version.znodes.has_topic_ids:
                topic_id = self._new_topic_id(name)
                await self._client.write_topic(name, topic._replace(topic_id=topic_id), context.epoch_version)
            context.topic_ids[name] = topic_id
            if context.add_topic(name, topic.partitions):
                continue
            for number, assignment in topic.partitions.items():
                partition = TopicPartition(name, number)
                if context.set_assignment(partition, assignment) and assignment.being_reassigned:
                    context.being_reassigned[partition] = assignment.target

    async def _process_assignment(self, name: str) -> None:
        """Handle a change of a topic's assignment: create its new partitions (processPartitionModifications)."""
        context = self._context
        found = (await self._client.topics([name])).get(name)
        if found is None or name not in context.topic_ids:
            return
        partitions = {TopicPartition(name, number): assignment for number, assignment in found.partitions.items()}
        read = self._in_map(partitions)
        new = [partition for partition in read if not context.assignment(partition).replicas]
        if context.collections.case_classes:  # Kafka filters a mutable map
            new = mutable_partitions(new, context.collections)
        elif len(read) > SMALL:  # a larger set that was filtered stays a hash set
            new = list(partition_set(new, context.collections, hashed=True))
        if name in context.to_be_deleted:
            if new and self._client.version.controller.reverts_partitions_of_deleted:
                await self._restore(name, found)
            return
        for partition in new:
            context.set_assignment(partition, partitions[partition])
        added = [partition for partition in new if partition in context.table]
        context.note_inserted(added)
        await self._create(added)

    def as_inserted(self, topics: Mapping[str, TopicZnode]) -> list[TopicPartition]:
        """Return the partitions of all topics in the order in which a failover inserts them into the assignments."""
        read = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
        # Up to 1.0 they are read into the map itself.
        return read if self._context.collections.case_classes else self._in_map(read)

    def _in_map(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return partitions in the order of the map into which Kafka reads topic znodes: mutable up to 1.0."""
        if self._context.collections.case_classes:
            return mutable_partitions(partitions, self._context.collections)
        return list(partition_set(partitions, self._context.collections))

    async def _restore(self, name: str, found: TopicZnode) -> None:
        """Write the previous assignment of a topic to be deleted that got new partitions (KAFKA-6612)."""
        context = self._context
        partitions = [TopicPartition(name, number) for number in found.partitions]
        previous = {p.partition: context.assignment(p) for p in partitions if p in context.table}
        assert name in context.to_be_deleted, "new partitions of another topic are created"
        await self._client.write_topic(name, TopicZnode(previous, context.topic_ids[name]), context.epoch_version)

    async def _create(self, partitions: list[TopicPartition]) -> None:
        """Elect the first leaders of new partitions and start their replicas (onNewPartitionCreation).

        `partitions` are in the order of the map from which Kafka takes the keys.
        """
        context, new = self._context, partitions
        if not self._client.version.orders.creates_key_set:
            new = list(partition_set(partitions, context.collections))
        assert len(new) == len(partitions), "a new partition is repeated"
        assert all(partition in context.table for partition in new), "a new partition has an assignment"
        if new:
            await self._partitions.handle(new, PartitionState.NEW)
            await self._replicas.handle(list(context.replicas_of(new)), ReplicaState.NEW)
            await self._partitions.handle(new, PartitionState.ONLINE)
            await self._replicas.handle(list(context.replicas_of(new)), ReplicaState.ONLINE)
