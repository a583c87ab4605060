"""What the controller does when brokers or topics come and go (docs/reference/kafka.md §2.7, §2.9).

Rules of the module:
  - new brokers first, then those that were away so shortly that only their epoch tells (KIP-380), then the dead;
  - at a death partitions get leaders first, then the dead replicas leave the ISRs;
  - once a topic's znodes are gone a controller of 0.8.0 does nothing more for a broker that starts: it knows leaders of
    partitions whose replicas it does not know (recorded; the next controller does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.scala_collections import SMALL, ScalaSet
from simzk.kafka import paths
from simzk.kafka.controller import assignment_warnings as doubts
from simzk.kafka.controller.context import LiveBroker
from simzk.kafka.controller.states import PartitionState, ReplicaState
from simzk.kafka.schemas.topic import TopicZnode
from simzk.kafka.topic_partition import (
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
    mutable_partitions,
    partition_set,
)
from simzk.zookeeper.replies import EventType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.kafka.controller.controller import KafkaController
    from simzk.partitions.arrays import IntArray


class ClusterChanges:
    """Follows brokers and topics."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    # -- brokers

    async def process_brokers(self) -> None:
        """The children of `/brokers/ids` changed."""
        controller, context = self._controller, self._controller.context
        found, known = await controller.client.brokers(), context.brokers
        new, dead = sorted(found.keys() - known.keys()), sorted(known.keys() - found.keys())
        bounced = sorted(
            [broker for broker, (_, epoch) in known.items() if broker in found and found[broker][1] > epoch]
        )
        present = {broker: LiveBroker(*found[broker]) for broker in new + bounced}
        for broker in bounced + dead:
            controller.requests.remove_broker(broker)
        for broker in new + bounced:
            controller.requests.add_broker(broker)
        if new:
            context.brokers.update({broker: present[broker] for broker in new})
            await self._start_brokers(new)
        if bounced:
            for broker in bounced:
                del context.brokers[broker]
            await self._fail_brokers(bounced)
            context.brokers.update({broker: present[broker] for broker in bounced})
            await self._start_brokers(bounced)
        if dead:
            for broker in dead:
                del context.brokers[broker]
            await self._fail_brokers(dead)

    def watch_brokers(self, brokers: Sequence[int]) -> Sequence[str]:
        """Register for changes of brokers' registrations; the paths."""
        watched = [paths.broker(broker) for broker in brokers]
        for broker, path in zip(brokers, watched, strict=True):
            self._controller.session.data_handlers[path] = self._on_registration(broker)
        return watched

    def _on_registration(self, broker: int) -> Callable[[EventType], None]:
        def handle(kind: EventType) -> None:
            if kind == EventType.NODE_DATA_CHANGED:
                self._controller.put_event(f"registration of broker {broker}", lambda: self._update_broker(broker))

        return handle

    async def _update_broker(self, broker: int) -> None:
        """A broker changed what it says of itself."""
        controller, context = self._controller, self._controller.context
        found = (await controller.client.brokers()).get(broker)
        known = context.brokers.get(broker)
        if found is not None and known is not None and found[0] != known.registration:
            context.brokers[broker] = LiveBroker(found[0], known.epoch)
            controller.send_metadata()

    async def _start_brokers(self, brokers: list[int]) -> None:
        controller, context = self._controller, self._controller.context
        if context.haunted and controller.client.version.controller.topic_deletion == "by tool":
            why = "a topic is gone of whose partitions it knows leaders, but no replicas"
            controller.history.record(f"controller {controller.broker_id}", "failed", "broker change", "", why)
            return
        for broker in brokers:
            context.on_failed_dirs.pop(broker, None)
        existing = [broker for broker in sorted(context.brokers) if broker not in brokers]
        controller.send_metadata_to(existing)
        controller.send_metadata_to(brokers, of_all=True)
        rows, holders = context.replicas_on(brokers)
        await controller.replicas.handle_rows(rows, holders, ReplicaState.ONLINE)
        await controller.partitions.trigger_online()
        await controller.reassignments.resume(lambda target: any(broker in target for broker in brokers))
        deleted = rows[context.of_topics(rows, context.to_be_deleted)]
        to_delete = dict.fromkeys(partition.topic for partition in context.names(deleted))
        if to_delete:
            await controller.deletion.resume_topics(to_delete)
        for path in self.watch_brokers(brokers):
            await controller.client.exists(path)

    async def _fail_brokers(self, brokers: list[int]) -> None:
        controller, context = self._controller, self._controller.context
        for broker in brokers:
            context.shutting_down.pop(broker, None)
            context.on_failed_dirs.pop(broker, None)
        await self.replicas_offline(*context.replicas_on(brokers))
        for broker in brokers:
            if broker not in context.brokers:
                controller.session.data_handlers.pop(paths.broker(broker), None)

    async def replicas_offline(self, rows: IntArray, brokers: IntArray) -> None:
        """Replicas went offline, with their brokers or their log directories: leaders first, then the ISRs.

        Args:
            rows: int32[k], in the order of a set of replicas.
            brokers: int32[k], whose replica of each.
        """
        controller, context = self._controller, self._controller.context
        deleted = context.of_topics(rows, context.to_be_deleted)
        to_delete = [
            PartitionAndReplica(partition, broker)
            for partition, broker in zip(context.names(rows[deleted]), brokers[deleted].tolist(), strict=True)
        ]
        others, holders = rows, brokers
        if to_delete:  # what was filtered is still a hash set, if it was one
            others, holders = rows[~deleted], brokers[~deleted]
            order = context.orders.of_replicas(others, holders, hashed=len(rows) > SMALL)
            others, holders = others[order], holders[order]
        leaderless = context.rows_with_offline_leader()
        await controller.partitions.handle_rows(leaderless, PartitionState.OFFLINE)
        await controller.partitions.trigger_online()
        await controller.replicas.handle_rows(others, holders, ReplicaState.OFFLINE)
        await controller.deletion.fail_replicas(to_delete)
        if not len(leaderless):
            controller.send_metadata()

    # -- topics

    async def process_topics(self) -> None:
        """The children of `/brokers/topics` changed."""
        controller, context = self._controller, self._controller.context
        names = await controller.client.children(paths.TOPICS)
        new = [name for name in names if name not in context.topics]
        gone = [name for name in context.topics if name not in names]
        for name in new:  # known from here on, also where what it holds cannot be used: it is not looked at again
            context.topic_ids.setdefault(name, None)
        self.watch_topics(new)
        found = await controller.client.topics(new)
        for name in gone:
            context.remove_topic(name)
            controller.session.data_handlers.pop(paths.topic(name), None)
        await self.note_topics(found)
        for name, topic in found.items():
            controller.note_doubts(paths.topic(name), doubts.of_topic(topic.partitions, context.is_live))
        partitions = [TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions]
        known = [partition for partition in partitions if context.knows(partition)]
        if context.collections.case_classes:
            known = mutable_partitions(known, context.collections)
        await self._new_partitions(partition_set(known, context.collections))

    def watch_topics(self, names: Sequence[str]) -> None:
        """Register for changes of topics' assignments; the watches are set by the reads that follow."""
        for name in names:
            self._controller.session.data_handlers[paths.topic(name)] = self._on_topic(name)

    def _on_topic(self, name: str) -> Callable[[EventType], None]:
        def handle(kind: EventType) -> None:
            if kind == EventType.NODE_DATA_CHANGED:
                self._controller.put_event(f"assignment of {name}", lambda: self.process_topic(name))

        return handle

    async def note_topics(self, topics: dict[str, TopicZnode]) -> None:
        """Take assignments up; a topic without an id (made by an older tool) gets one."""
        controller, context = self._controller, self._controller.context
        for name, topic in topics.items():
            topic_id = topic.topic_id
            if topic_id is None and controller.client.version.znodes.has_topic_ids:
                topic_id = controller.new_topic_id()
                await controller.client.write_topic(name, topic._replace(topic_id=topic_id), context.epoch_version)
            context.topic_ids[name] = topic_id
            if context.add_topic(name, topic.partitions):
                continue
            for number, assignment in topic.partitions.items():
                partition = TopicPartition(name, number)
                if context.set_assignment(partition, assignment) and assignment.being_reassigned:
                    context.being_reassigned[partition] = assignment.target

    async def process_topic(self, name: str) -> None:
        """A topic's assignment changed: partitions that are not known yet are new."""
        controller, context = self._controller, self._controller.context
        found = (await controller.client.topics([name])).get(name)
        if found is None or name not in context.topics:
            return
        partitions = {TopicPartition(name, number): assignment for number, assignment in found.partitions.items()}
        hashed = len(partitions) > SMALL
        new = [p for p in partition_set(partitions, context.collections) if not context.assignment(p).replicas]
        if context.collections.case_classes:  # a mutable map, filtered
            new, hashed = mutable_partitions(new, context.collections), False
        added = partition_set(new, context.collections, hashed=hashed)
        if name in context.to_be_deleted:
            if added and controller.client.version.controller.reverts_partitions_of_deleted:
                await self._restore(name, found)
            return
        for partition in added:
            context.set_assignment(partition, partitions[partition])
        await self._new_partitions(added.filter(context.knows))

    async def _restore(self, name: str, found: TopicZnode) -> None:
        """Partitions were added to a topic that is being deleted: take them out again (KAFKA-6612)."""
        context = self._controller.context
        known: dict[int, ReplicaAssignment] = {
            number: context.assignment(TopicPartition(name, number))
            for number in found.partitions
            if context.knows(TopicPartition(name, number))
        }
        topic = TopicZnode(known, context.topics[name])
        await self._controller.client.write_topic(name, topic, context.epoch_version)

    async def _new_partitions(self, partitions: ScalaSet[TopicPartition]) -> None:
        controller, context = self._controller, self._controller.context
        new = list(partitions)
        if not new:
            return
        await controller.partitions.handle(new, PartitionState.NEW)
        await controller.replicas.handle(context.replicas_of(new), ReplicaState.NEW)
        await controller.partitions.handle(new, PartitionState.ONLINE)
        await controller.replicas.handle(context.replicas_of(new), ReplicaState.ONLINE)
