"""Partitions from state to state: first leaders and elections (docs/reference/kafka.md §2.5; PartitionStateMachine).

Rules of the module:
  - an election reads the states, decides by a batch function of `partitions.elections`, and writes on condition that
    nothing changed; where it did, it reads and decides again;
  - a state that a controller of a later epoch wrote is left alone: its election fails;
  - a partition without a live replica stays new, one without an eligible leader stays offline.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka.controller.scala_set import mutable_partitions, partition_set
from simzk.kafka.controller.states import PartitionState, transitions_of
from simzk.partitions.arrays import BoolArray, IntArray, pack
from simzk.partitions.elections import (
    Election,
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred,
    initial_leader_and_isr,
    live_members,
)
from simzk.partitions.states import States, states_of, written
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.controller.channels import BrokerRequests
    from simzk.kafka.controller.context import ControllerContext
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
    from simzk.kafka.zk_client import KafkaZooKeeperClient


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
        context.partition_states = {}
        one_at_a_time = self._client.version.one_at_a_time
        for partition in context.in_map_order() if one_at_a_time else context.all_partitions():
            state = context.leadership(partition)
            if state is None:
                context.partition_states[partition] = PartitionState.NEW
            elif context.is_online(state.leader, partition):
                context.partition_states[partition] = PartitionState.ONLINE
            else:
                context.partition_states[partition] = PartitionState.OFFLINE
        await self.trigger_online()

    async def trigger_online(self, topic: str | None = None) -> None:
        """Try to elect a leader for every partition that has none (of one topic only, where it is named)."""
        wanted = (PartitionState.OFFLINE, PartitionState.NEW)
        if topic is None:
            waiting = self._context.partitions_in(*wanted, hashed=self._client.version.waits_hashed)
        else:
            states = self._context.partition_states
            waiting = self._context.partitions_of(topic).filter(lambda partition: states.get(partition) in wanted)
        chosen = waiting.filter(lambda partition: partition.topic not in self._context.to_be_deleted)
        ordered = list(chosen)
        if self._client.version.waits_in_map:
            ordered = mutable_partitions(chosen, self._context.collections)
        if self._client.version.one_at_a_time:
            every = mutable_partitions(self._context.partition_states, self._context.collections)
            ordered = [partition for partition in every if partition in chosen]
        await self.handle(ordered, PartitionState.ONLINE, Strategy.OFFLINE)

    async def handle(
        self, partitions: Sequence[TopicPartition], target: PartitionState, strategy: Strategy = Strategy.OFFLINE
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """Move partitions to a state, then tell the brokers.

        Returns:
            the states of those that got a leader.
        """
        if not partitions:
            return {}
        states = self._context.partition_states
        allowed = self._transitions.partitions[target]
        valid = [p for p in partitions if states.get(p, PartitionState.NON_EXISTENT) in allowed]
        if target != PartitionState.ONLINE:
            states.update(dict.fromkeys(valid, target))
            return {}
        self._requests.new_batch()
        elected: dict[TopicPartition, LeaderAndIsr] = {}
        for batch in [[p] for p in valid] if self._client.version.one_at_a_time else [valid]:
            try:
                elected |= await self._bring_online(batch, strategy)
            except ZnodeError as problem:  # the real one logs it, and the batch stays where it was
                self._client.unusable(problem)
        self._requests.send()
        await self._requests.spend()
        return elected

    async def _bring_online(
        self, partitions: list[TopicPartition], strategy: Strategy
    ) -> dict[TopicPartition, LeaderAndIsr]:
        states = self._context.partition_states
        new = [partition for partition in partitions if states[partition] == PartitionState.NEW]
        elected = await self._initialise(new) if new else {}
        others = [p for p in partitions if states[p] != PartitionState.NEW and p not in elected]
        if others:
            elected |= await self._elect(others, strategy)
        states.update(dict.fromkeys(elected, PartitionState.ONLINE))
        return elected

    async def _initialise(self, partitions: list[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr]:
        """The first leader and ISR of new partitions; where a state is there already, that of another, it is kept."""
        context = self._context
        replicas = pack([context.assignment(partition).replicas for partition in partitions])
        election = initial_leader_and_isr(replicas, context.live_mask(), context.on_offline_dirs(partitions))
        columns = States(
            leader=election.leader,
            leader_epoch=np.zeros(len(partitions), dtype=np.int32),
            isr=election.isr,
            controller_epoch=np.full(len(partitions), context.epoch, dtype=np.int32),
            version=np.zeros(len(partitions), dtype=np.int32),
            recovering=np.zeros(len(partitions), dtype=np.bool_),
        )
        decided = {p: columns.one(row) for row, p in enumerate(partitions) if election.elected[row]}
        ordered = {partition: decided[partition] for partition in partition_set(decided, context.collections)}
        if not ordered:
            return {}
        as_listed = {partition: self._as_listed(partition, state) for partition, state in ordered.items()}
        codes = await self._client.create_states(as_listed, context.epoch_version)
        made = {partition: state for partition, state in ordered.items() if codes[partition] == Code.OK}
        for partition, state in made.items():
            context.put_leadership(partition, state)
            self._requests.add_leader_and_isr(state.isr, partition, is_new=True)
        return made

    def _as_listed(self, partition: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr:
        """A first state whose ISR names a broker twice where the assignment does (recorded)."""
        listed = self._context.odd.get(partition)
        return state if listed is None else state._replace(isr=tuple(b for b in listed if b in state.isr))

    async def _elect(
        self, partitions: Sequence[TopicPartition], strategy: Strategy
    ) -> dict[TopicPartition, LeaderAndIsr]:
        elected: dict[TopicPartition, LeaderAndIsr] = {}
        remaining = list(partitions)
        while remaining:
            found = await self._client.states(remaining)
            valid = {p: state for p, state in found.items() if state is not None}
            valid = {p: state for p, state in valid.items() if state.controller_epoch <= self._context.epoch}
            decided, recipients = await self._decide(valid, strategy)
            ordered = {partition: decided[partition] for partition in partition_set(decided, self._context.collections)}
            outcome = await self._client.write_states(ordered, self._context.epoch_version)
            for partition, state in outcome.written.items():
                self._context.put_leadership(partition, state)
                self._requests.add_leader_and_isr(recipients[partition], partition)
            elected |= outcome.written
            remaining = outcome.retry
        return elected

    async def _decide(
        self, valid: dict[TopicPartition, LeaderAndIsr], strategy: Strategy
    ) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, list[int]]]:
        """The states to write, by partition, and who is to be told."""
        if not valid:
            return {}, {}
        context = self._context
        partitions = list(valid)
        assignments = [context.assignment(partition) for partition in partitions]
        if strategy == Strategy.REASSIGNMENT:
            replicas = pack([assignment.target for assignment in assignments])
        else:
            replicas = pack([assignment.replicas for assignment in assignments])
        before = states_of(list(valid.values()), max(max(len(state.isr) for state in valid.values()), 1))
        election, order = await self._election(partitions, replicas, before, strategy)
        recovering = election.unclean & self._client.version.rules.recovering
        after = written(before, election.leader, election.isr, context.epoch, recovering)
        chosen = [row for row in order if election.elected[row]]
        shutdown = strategy == Strategy.CONTROLLED_SHUTDOWN
        live = context.registered_mask() if shutdown else context.live_mask()
        told = live_members(replicas, live, context.on_offline_dirs(partitions))
        recipients = {partitions[row]: replicas[row][told[row]].tolist() for row in chosen}
        return {partitions[row]: after.one(row) for row in chosen}, recipients

    async def _election(
        self, partitions: list[TopicPartition], replicas: IntArray, before: States, strategy: Strategy
    ) -> tuple[Election, list[int]]:
        """The election, and the order in which Kafka walks its results."""
        context, rules = self._context, self._client.version.rules
        live, offline = context.live_mask(), context.on_offline_dirs(partitions)
        rows = list(range(len(partitions)))
        match strategy:
            case Strategy.PREFERRED:
                return elect_preferred(replicas, before.isr, before.leader, live, offline, rules=rules), rows
            case Strategy.REASSIGNMENT:
                return elect_for_reassignment(replicas, before.isr, live, offline, rules), rows
            case Strategy.CONTROLLED_SHUTDOWN:
                registered, leaving = context.registered_mask(), context.shutting_down_mask()
                election = elect_for_controlled_shutdown(
                    replicas, before.isr, before.leader, registered, leaving, offline, rules
                )
                return election, rows
            case Strategy.OFFLINE | Strategy.UNCLEAN:
                in_sync: BoolArray = np.any(live_members(before.isr, live, offline), axis=1)
                allowed = await self._unclean_allowed(partitions, in_sync, strategy)
                election = elect_offline(replicas, before.isr, live, allowed, offline, rules)
                return election, [row for row in rows if not in_sync[row]] + [row for row in rows if in_sync[row]]

    async def _unclean_allowed(
        self, partitions: list[TopicPartition], in_sync: BoolArray, strategy: Strategy
    ) -> BoolArray:
        """Whether a leader from outside the ISR may be taken: asked of the topic where nobody in the ISR lives."""
        allowed = np.full(len(partitions), strategy == Strategy.UNCLEAN, dtype=np.bool_)
        if strategy == Strategy.UNCLEAN:
            return allowed
        asked = [row for row in range(len(partitions)) if not in_sync[row]]
        topics = dict.fromkeys(partitions[row].topic for row in asked)
        by_topic = await self._client.unclean_allowed(topics, self._unclean_by_default)
        for row in asked:
            allowed[row] = by_topic[partitions[row].topic]
        return allowed
