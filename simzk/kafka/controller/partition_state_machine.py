"""Partitions from state to state: first leaders and elections (docs/reference/kafka.md §2.5; PartitionStateMachine).

Rules of the module:
  - an election reads the states, decides by a batch function of `partitions.transitions`, and writes on condition that
    nothing changed; where it did, it reads and decides again;
  - a state that a controller of a later epoch wrote is left alone: its election fails;
  - a partition without a live replica stays new, one without an eligible leader stays offline.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.jvm.scala_collections import SMALL
from simzk.jvm.scala_columns import places_in_order, set_order
from simzk.kafka.controller.states import PartitionState, transitions_of
from simzk.partitions.arrays import BoolArray, IntArray, any_of, keep, pack, taken
from simzk.partitions.row_order import as_they_lie
from simzk.partitions.transitions import (
    Election,
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred,
    first_states,
    initial_leader_and_isr,
    live_members,
    write_election,
)
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from simzk.kafka.controller.channels import BrokerRequests
    from simzk.kafka.controller.context import ControllerContext
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
    from simzk.kafka.zookeeper_client.zk_client import KafkaZooKeeperClient
    from simzk.partitions.states import States


class Strategy(Enum):
    """By which rule a leader is elected."""

    OFFLINE = "offline"
    UNCLEAN = "unclean"
    REASSIGNMENT = "reassignment"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled shutdown"


class PartitionStateMachine:
    """Moves partitions between states.

    Args:
        context: what the controller knows.
        client: its way to ZooKeeper.
        requests: its way to the brokers.
        unclean_by_default: the broker's `unclean.leader.election.enable`.
    """

    def __init__(
        self,
        context: ControllerContext,
        client: KafkaZooKeeperClient,
        requests: BrokerRequests,
        *,
        unclean_by_default: bool,
    ) -> None:
        self._context = context
        self._client = client
        self._requests = requests
        self._unclean_by_default = unclean_by_default
        self._transitions = transitions_of(client.version.number)

    async def start(self) -> None:
        """Give each partition its first state, and try to bring all of them online."""
        context = self._context
        states, table = context.partition_states, context.table
        states.clear()
        rows = (
            context.orders.everything() if self._client.version.controller.processes_one_by_one else context.all_rows()
        )
        # Their order is that of the states; those without a leader are found among them, not the other way round.
        states.put(rows, PartitionState.ONLINE)
        states.put(rows[table.version[rows] < 0], PartitionState.NEW)
        states.put(context.rows_with_offline_leader(deleted_too=True), PartitionState.OFFLINE)
        await self.trigger_online()

    async def trigger_online(self, topic: str | None = None) -> None:
        """Try to elect a leader for every partition that has none (of one topic only, where it is named)."""
        context, version, states = self._context, self._client.version, self._context.partition_states
        wanted = (PartitionState.OFFLINE, PartitionState.NEW)
        if topic is None:
            waiting = context.rows_in(*wanted, hashed=version.orders.waiting_partitions == "hash map")
        else:
            rows = context.rows_of(context.partitions_of(topic))
            waiting = context.orders.in_set(rows[states.are_in(rows, wanted)], hashed=len(rows) > SMALL)
        waiting = waiting[~context.of_topics(waiting, context.to_be_deleted)]
        if version.orders.waiting_partitions == "mutable map":
            waiting = context.orders.in_map(waiting)
        if version.controller.processes_one_by_one:
            every = context.orders.in_map(states.rows_in(*PartitionState))
            waiting = every[np.isin(every, waiting)]
        await self.handle_rows(waiting, PartitionState.ONLINE)

    async def handle(
        self, partitions: Iterable[TopicPartition], target: PartitionState, strategy: Strategy = Strategy.OFFLINE
    ) -> IntArray:
        """As `handle_rows`, of partitions by name, those that are not known left out."""
        return await self.handle_rows(self._context.rows_of(dict.fromkeys(partitions)), target, strategy)

    async def handle_rows(
        self, rows: IntArray, target: PartitionState, strategy: Strategy = Strategy.OFFLINE
    ) -> IntArray:
        """Move partitions to a state, then tell the brokers.

        Args:
            rows: int32[k] of the controller's table, in the order in which they are handled.
            target: the state.
            strategy: how a leader is elected.

        Returns:
            int32[j], those that got a leader.
        """
        if not len(rows):
            return rows
        states = self._context.partition_states
        valid = rows[states.are_in(rows, self._transitions.partitions[target])]
        if target != PartitionState.ONLINE:
            states.put(valid, target)
            return valid[:0]
        self._requests.new_batch()
        elected = [valid[:0]]
        one_at_a_time = self._client.version.controller.processes_one_by_one
        for batch in np.split(valid, len(valid)) if one_at_a_time and len(valid) else [valid]:
            try:
                elected += await self._bring_online(batch, strategy)
            except ZnodeError as problem:  # the real one logs it, and the batch stays where it was
                self._client.unusable(problem)
        self._requests.send()
        await self._requests.spend()
        return np.concatenate(elected)

    async def _bring_online(self, rows: IntArray, strategy: Strategy) -> list[IntArray]:
        states = self._context.partition_states
        are_new = states.are_in(rows, (PartitionState.NEW,))
        new, others = rows[are_new], rows[~are_new]
        elected = [await self._initialise(new)] if len(new) else []
        if len(others):
            elected += await self._elect(others, strategy)
        for found in elected:
            states.put(found, PartitionState.ONLINE)
        return elected

    async def _initialise(self, rows: IntArray) -> IntArray:
        """The first leader and ISR of new partitions; where a state is there already, that of another, it is kept."""
        context = self._context
        election = initial_leader_and_isr(
            context.table.replicas[rows], context.live_mask(), context.on_offline_dirs(rows)
        )
        columns = first_states(election.leader, election.isr, context.epoch)
        chosen = self._in_set(rows, np.flatnonzero(election.elected))
        if not len(chosen):
            return rows[:0]
        names = context.names(rows[chosen])
        as_listed = {
            partition: self._as_listed(partition, columns.one(place))
            for place, partition in zip(chosen.tolist(), names, strict=True)
        }
        codes = await self._client.create_states(as_listed, context.epoch_version)
        made = chosen[[codes[partition] == Code.OK for partition in names]]
        context.table.put_all(rows[made], columns.at(made))
        self._requests.add_leaders(rows[made], election.isr[made], is_new=True)
        return rows[made]

    def _as_listed(self, partition: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr:
        """A first state whose ISR names a broker twice where the assignment does (recorded)."""
        listed = self._context.odd.get(partition)
        return state if listed is None else state._replace(isr=tuple(b for b in listed if b in state.isr))

    def _in_set(self, rows: IntArray, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """Some places of rows, in the order of an immutable set of those rows."""
        if len(places) <= SMALL:
            return places
        return places[set_order(self._context.orders.hashes(rows[places]), self._context.scala)]

    async def _elect(self, rows: IntArray, strategy: Strategy) -> list[IntArray]:
        context = self._context
        elected: list[IntArray] = []
        while len(rows):
            rows, turns = as_they_lie(rows)
            partitions = context.partitions(rows)
            found = await self._client.states(partitions, turns)
            valid = np.flatnonzero((found.version >= 0) & (found.controller_epoch <= context.epoch))
            if not len(valid):
                break
            if len(valid) < len(rows):
                rows, turns, found, partitions = rows[valid], turns[valid], found.at(valid), partitions.at(valid)
            order, after, recipients = await self._decide(rows, turns, found, strategy)
            chosen, turns = as_they_lie(order)
            rows, after, recipients = rows[chosen], after.at(chosen), taken(recipients, chosen)
            errors = await self._client.write_states(partitions.at(chosen), after, context.epoch_version, turns)
            ok = errors == Code.OK
            context.table.put_all(rows[ok], after.where(ok))
            done = np.flatnonzero(ok)
            if not self._requests.tells_as_one:  # else nobody sees an order
                done = done[places_in_order(turns[done])]
            self._requests.add_leaders(rows[done], taken(recipients, done))
            elected.append(rows[done])
            outrun = errors == Code.BAD_VERSION
            rows = rows[outrun][places_in_order(turns[outrun])]
        return elected

    async def _decide(
        self, rows: IntArray, turns: NDArray[np.intp], before: States, strategy: Strategy
    ) -> tuple[NDArray[np.intp], States, IntArray]:
        """Which of the rows get a leader, in the order in which they are written, the states, and who is to be told."""
        context = self._context
        replicas = context.table.replicas_at(rows)
        if strategy == Strategy.REASSIGNMENT:
            replicas = pack([context.assignment(partition).target for partition in context.names(rows)])
        given = places_in_order(turns)
        election, order = await self._election(rows, given, replicas, before, strategy)
        rules = self._client.version.rules
        after = write_election(before, election, controller_epoch=context.epoch, rules=rules).after
        shutdown = strategy == Strategy.CONTROLLED_SHUTDOWN
        live = context.registered_mask() if shutdown else context.live_mask()
        told = keep(replicas, live_members(replicas, live, context.on_offline_dirs(rows)))
        return self._in_set(rows, order[election.elected[order]]), after, told

    async def _election(
        self, rows: IntArray, given: NDArray[np.intp], replicas: IntArray, before: States, strategy: Strategy
    ) -> tuple[Election, NDArray[np.intp]]:
        """The election, and the order in which Kafka walks its results, by the order in which rows were given."""
        context, rules = self._context, self._client.version.rules
        live, offline = context.live_mask(), context.on_offline_dirs(rows)
        match strategy:
            case Strategy.PREFERRED:
                return elect_preferred(replicas, before.isr, before.leader, live, offline, rules=rules), given
            case Strategy.REASSIGNMENT:
                return elect_for_reassignment(replicas, before.isr, live, offline, rules), given
            case Strategy.CONTROLLED_SHUTDOWN:
                registered, leaving = context.registered_mask(), context.shutting_down_mask()
                election = elect_for_controlled_shutdown(
                    replicas, before.isr, before.leader, registered, leaving, offline, rules
                )
                return election, given
            case Strategy.OFFLINE | Strategy.UNCLEAN:
                in_sync = any_of(live_members(before.isr, live, offline))
                first, then = given[~in_sync[given]], given[in_sync[given]]
                allowed = await self._unclean_allowed(rows, first, strategy)
                election = elect_offline(replicas, before.isr, live, allowed, offline, rules)
                return election, np.concatenate([first, then])

    async def _unclean_allowed(self, rows: IntArray, asked: NDArray[np.intp], strategy: Strategy) -> BoolArray:
        """Whether a leader from outside the ISR may be taken: asked of the topic where nobody in the ISR lives."""
        allowed = np.full(len(rows), strategy == Strategy.UNCLEAN, dtype=np.bool_)
        if strategy == Strategy.UNCLEAN:
            return allowed
        names = self._context.names(rows[asked])
        by_topic = await self._client.unclean_allowed(
            dict.fromkeys(partition.topic for partition in names), self._unclean_by_default
        )
        allowed[asked] = [by_topic[partition.topic] for partition in names]
        return allowed
