"""Elections that somebody asked for: preferred replicas, unclean ones, and leaders for a controlled shutdown.

Rules of the module (docs/reference/kafka.md §2.12, §2.14):
  - a preferred election by znode always ends with the znode's deletion;
  - the automatic rebalance looks at partitions by their preferred broker, and acts where more than a tenth of them
    are led by another; it takes only those that the preferred broker could lead now (before 2.6: all, while it lives).
    Up to 3.3 it does nothing while any partition is being reassigned; later not even those are left out (KAFKA-10149).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.jvm.hash_codes import product_hash
from simzk.jvm.scala_collections import SMALL, ScalaSet, immutable_order, mutable_order
from simzk.kafka import paths
from simzk.kafka.controller.partition_state_machine import Strategy
from simzk.kafka.controller.states import PartitionState, ReplicaState
from simzk.kafka.requests import ControlledShutdownRequest, ControlledShutdownResponse, Error
from simzk.kafka.schemas import admin
from simzk.kafka.schemas.reading import NoJsonError
from simzk.kafka.topic_partition import PartitionAndReplica, TopicPartition, partition_set
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION
from simzk.partitions.arrays import any_of
from simzk.partitions.transitions import imbalance, requires_controlled_shutdown
from simzk.zookeeper.requests import Delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.controller.controller import KafkaController
    from simzk.partitions.arrays import IntArray

_FAILURE = {
    Strategy.PREFERRED: Error.PREFERRED_LEADER_NOT_AVAILABLE,
    Strategy.UNCLEAN: Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class LeaderElections:
    """Elects leaders on request."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    async def process_znode(self) -> None:
        """`/admin/preferred_replica_election` was created."""
        if await self._controller.client.exists(paths.PREFERRED_ELECTION):
            again = self._controller.client.version.rules.preferred_again
            errors = await self.elect(await self._requested(), Strategy.PREFERRED, again=again)
            unknown = [p for p, error in errors.items() if error == Error.UNKNOWN_TOPIC_OR_PARTITION]
            for partition in unknown:
                self._controller.note_refusal(
                    paths.PREFERRED_ELECTION, f"preferred election of {partition}", Error.UNKNOWN_TOPIC_OR_PARTITION
                )
            if not unknown or not self._controller.client.version.controller.fails_on_unknown_partition:
                await self._delete_znode()

    async def process_pending(self) -> None:
        """At a failover: what stands in the znode, which goes in any case."""
        context = self._controller.context
        requested = [p for p in await self._requested() if p.topic not in context.to_be_deleted]
        done = [p for p in requested if (s := context.leadership(p)) and s.leader == context.assignment(p).replicas[0]]
        pending = [p for p in requested if p not in done and context.knows(p)]
        await self._controller.partitions.handle(pending, PartitionState.ONLINE, Strategy.PREFERRED)
        await self._delete_znode()

    async def elect(
        self, partitions: Sequence[TopicPartition] | None, strategy: Strategy, *, again: bool = False
    ) -> dict[TopicPartition, Error]:
        """Elect leaders of partitions, all where none are named; how it went by partition.

        With `again` also of those that are led already as they should be.
        """
        context = self._controller.context
        asked: ScalaSet[TopicPartition] = partition_set(
            context.all_partitions() if partitions is None else partitions, context.collections
        )
        errors: dict[TopicPartition, Error] = {}
        for partition in asked:
            if not context.knows(partition):
                errors[partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
            elif partition.topic in context.to_be_deleted:
                errors[partition] = Error.INVALID_TOPIC_EXCEPTION
            elif not again and not self._is_needed(partition, strategy):
                errors[partition] = Error.ELECTION_NOT_NEEDED
        electable = list(asked.filter(lambda partition: partition not in errors))
        elected = set(
            context.names(await self._controller.partitions.handle(electable, PartitionState.ONLINE, strategy))
        )
        for partition in electable:
            errors[partition] = Error.NONE if partition in elected else _FAILURE[strategy]
        return errors

    async def rebalance(self) -> None:
        """The automatic rebalance of leaders."""
        controller, context = self._controller, self._controller.context
        table, version = context.table, controller.client.version
        percentage = controller.config.integer("leader.imbalance.per.broker.percentage")
        rows = context.all_rows()
        rows = rows[~context.of_topics(rows, context.to_be_deleted)]
        heads = table.replicas[rows, 0]
        found = imbalance(heads, table.states(rows))
        for broker in found.brokers(percentage):
            if context.being_reassigned and not version.controller.rebalances_during_reassignment:
                continue
            able = self._those_it_can_lead(broker, rows[found.misplaced & (heads == broker)])
            await controller.partitions.handle_rows(
                context.orders.in_set(able), PartitionState.ONLINE, Strategy.PREFERRED
            )

    async def shut_down(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        """Move leaders away from a broker that is about to stop, and take it out of ISRs."""
        controller, context = self._controller, self._controller.context
        broker = request.broker_id
        live = context.brokers.get(broker)
        if live is None:
            return ControlledShutdownResponse(Error.BROKER_NOT_AVAILABLE, ())
        if request.broker_epoch < live.epoch:
            return ControlledShutdownResponse(Error.STALE_BROKER_EPOCH, ())
        context.shutting_down[broker] = None
        rows, table = context.rows_on(broker), context.table
        hashed = len(rows) > SMALL
        concerned = requires_controlled_shutdown(*table.replicas_and_states(rows))
        concerned &= ~context.of_topics(rows, context.to_be_deleted)
        if controller.client.version.controller.processes_one_by_one:
            moved = set(context.names(rows[concerned]))
            for partition in self._in_turn(context.names(rows)):
                if partition in moved:
                    await self._take_from(broker, partition)
            rows = rows[concerned]
        else:
            if not concerned.all():  # else what is filtered is the set itself
                rows = context.orders.in_set(rows[concerned], hashed=hashed)
            await self._take_all_from(broker, rows, hashed=hashed)
        rows = rows[table.leader[rows] == broker]
        return ControlledShutdownResponse(Error.NONE, tuple(context.names(context.orders.in_set(rows, hashed=hashed))))

    async def _take_all_from(self, broker: int, rows: IntArray, *, hashed: bool) -> None:
        """Move the lead of partitions from a broker that stops, and take the broker out of the ISRs of others.

        Args:
            broker: who stops.
            rows: int32[k], in the order of a set.
            hashed: whether that is a hash set whatever its size.
        """
        controller, context = self._controller, self._controller.context
        leads = context.table.leader[rows] == broker
        led, followed = context.orders.in_set(rows[leads], hashed=hashed), rows[~leads]
        if not context.is_ordered_again:
            followed = context.orders.in_set(followed, hashed=hashed)
        await controller.partitions.handle_rows(led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
        controller.requests.new_batch()
        controller.requests.add_stops(broker, followed, delete=False)
        controller.requests.send()
        brokers = np.full(len(followed), broker, dtype=np.int32)
        if not context.is_ordered_again:
            followed = followed[context.orders.of_replicas(followed, brokers, hashed=hashed)]
        await controller.replicas.handle_rows(followed, brokers, ReplicaState.OFFLINE)

    async def _take_from(self, broker: int, partition: TopicPartition) -> None:
        """Move the lead of one partition from a broker that stops, or take the broker out of its ISR (up to 1.0)."""
        controller = self._controller
        if self._leader(partition) == broker:
            await controller.partitions.handle([partition], PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
            return
        controller.requests.new_batch()
        controller.requests.add_stops(broker, controller.context.rows_of([partition]), delete=False)
        controller.requests.send()
        await controller.replicas.handle([PartitionAndReplica(partition, broker)], ReplicaState.OFFLINE)

    def _in_turn(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The order of a set of pairs of a partition and its replication factor (up to 1.0).

        In 0.8.0 that of a map of the topics, and in each of the map of partitions that its znode is read into.
        """
        context = self._controller.context
        if self._controller.client.version.controller.reads_topics_at_shutdown:
            read = [
                TopicPartition(topic, number)
                for topic in mutable_order(context.topics, context.scala)
                for number in immutable_order(sorted(context.numbers_of(topic), key=str), context.scala)
            ]
            held = set(partitions)
            return [partition for partition in read if partition in held]
        pairs = [(partition, len(context.assignment(partition).replicas)) for partition in partitions]

        def hash_of(pair: tuple[TopicPartition, int]) -> int:
            return product_hash(context.collections.partition_hash(pair[0]), pair[1])

        return [partition for partition, _ in immutable_order(pairs, context.scala, hash_of)]

    def _leader(self, partition: TopicPartition) -> int | None:
        state = self._controller.context.leadership(partition)
        return None if state is None else state.leader

    def _is_needed(self, partition: TopicPartition, strategy: Strategy) -> bool:
        context = self._controller.context
        leader = self._leader(partition)
        if strategy == Strategy.PREFERRED:
            return leader != context.assignment(partition).replicas[0]
        return leader is None or not context.is_online(leader, partition)

    def _those_it_can_lead(self, broker: int, rows: IntArray) -> IntArray:
        """The partitions that a broker could lead now; before 2.6 all, while it lives."""
        context = self._controller.context
        rows = rows[~np.isin(rows, context.rows_of(context.on_failed_dirs.get(broker, {})))]
        if not context.is_live(broker):
            return rows[:0]
        if self._controller.client.version.controller.rebalances_only_eligible:
            rows = rows[any_of(context.table.isr[rows] == broker)]
        return rows

    async def _requested(self) -> list[TopicPartition]:
        found = await self._controller.client.read(paths.PREFERRED_ELECTION)
        if found is None:
            return []
        version = self._controller.client.version
        try:
            return admin.decode_preferred_election(paths.PREFERRED_ELECTION, found[0], version.reading)
        except NoJsonError as problem:
            if version.controller.fails_on_invalid_json:
                raise
            self._controller.client.unusable(problem)
            return []

    async def _delete_znode(self) -> None:
        delete = Delete(paths.PREFERRED_ELECTION, ANY_VERSION)
        await self._controller.client.fenced([delete], self._controller.context.epoch_version)
        # The watch for the next one is set by asking whether it is there (the handler is registered).
        await self._controller.client.exists(paths.PREFERRED_ELECTION)
