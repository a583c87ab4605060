"""Replicas from state to state, and what each entry does (docs/reference/kafka.md §2.4; ReplicaStateMachine).

Rules of the module:
  - replicas are handled broker by broker, those of a broker as one batch of pipelined reads and writes;
  - a replica that goes offline leaves the ISR by the rule of `partitions.isr`; the write is tried again where the
    leader was quicker;
  - a state that a controller of a later epoch wrote is left alone, and so is the replica;
  - 0.8.0 leaves the state alone of a replica that it does not know to be in sync;
  - a transition that may not be is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka.controller.scala_set import mutable_partitions, partition_set
from simzk.kafka.controller.states import ReplicaState, transitions_of
from simzk.kafka.topic_partition import LeaderAndIsr, PartitionAndReplica, TopicPartition
from simzk.partitions.isr import remove_from_isr
from simzk.partitions.rules import LastMember
from simzk.partitions.scala_order import SMALL, Scala, hash_order, immutable_order, mutable_order
from simzk.partitions.states import states_of, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.controller.channels import BrokerRequests
    from simzk.kafka.controller.context import ControllerContext
    from simzk.kafka.zk_client import KafkaZooKeeperClient
    from simzk.partitions.arrays import BoolArray


def _grouped_order(brokers: list[int], scala: Scala) -> list[int]:
    """The keys of what `groupBy` makes: from 2.13 on a hash map of any size, before an immutable map."""
    if scala == "2.13":
        return hash_order(brokers, scala)
    return immutable_order(mutable_order(brokers, scala), scala)


class ReplicaStateMachine:
    """Moves replicas between states.

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
        self._unclean_by_default = unclean_by_default
        self._context = context
        self._client = client
        self._requests = requests
        self._transitions = transitions_of(client.version.number)

    async def start(self) -> None:
        """Give each replica its first state: online where its broker lives; the dead leave the ISRs (KAFKA-3143)."""
        context = self._context
        online, offline = context.online_and_offline_replicas()
        context.replica_states = dict.fromkeys(online, ReplicaState.ONLINE)
        context.replica_states.update(dict.fromkeys(offline, self._transitions.dead_at_start))
        await self.handle(online, ReplicaState.ONLINE)
        if self._client.version.rules.failover_trims_dead:
            await self.handle(offline, ReplicaState.OFFLINE)

    async def handle(self, replicas: Sequence[PartitionAndReplica], target: ReplicaState) -> None:
        """Move replicas to a state, then tell the brokers."""
        if not replicas:
            return
        self._requests.new_batch()
        if self._client.version.one_at_a_time:
            for replica in replicas:
                await self._handle_broker(replica.replica, [replica], target)
            self._requests.send()
            await self._requests.spend()
            return
        by_broker: dict[int, list[PartitionAndReplica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica.replica, []).append(replica)
        for broker in _grouped_order(list(by_broker), self._context.scala):
            await self._handle_broker(broker, by_broker[broker], target)
        self._requests.send()
        await self._requests.spend()

    async def _handle_broker(self, broker: int, replicas: list[PartitionAndReplica], target: ReplicaState) -> None:
        try:
            await self._move_on_broker(broker, replicas, target)
        except ZnodeError as problem:  # the real one logs it, and the batch stays where it was
            self._client.unusable(problem)

    async def _move_on_broker(self, broker: int, replicas: list[PartitionAndReplica], target: ReplicaState) -> None:
        states = self._context.replica_states
        allowed = self._transitions.replicas[target]
        valid = [replica for replica in replicas if states.get(replica, ReplicaState.NON_EXISTENT) in allowed]
        match target:
            case ReplicaState.NEW:
                self._enter_new(broker, valid)
            case ReplicaState.ONLINE:
                self._enter_online(broker, valid)
            case ReplicaState.OFFLINE:
                await self._enter_offline(broker, valid)
            case ReplicaState.DELETION_STARTED:
                for replica in valid:
                    states[replica] = ReplicaState.DELETION_STARTED
                    self._requests.add_stop(broker, replica.topic_partition, delete=True)
            case ReplicaState.NON_EXISTENT:
                for replica in valid:
                    if self._transitions.stops_at_end:
                        self._requests.add_stop(broker, replica.topic_partition, delete=True)
                    self._forget(replica)
            case _:
                states.update(dict.fromkeys(valid, target))

    def _enter_new(self, broker: int, replicas: list[PartitionAndReplica]) -> None:
        for replica in replicas:
            state = self._context.leadership(replica.topic_partition)
            if state is not None:
                if state.leader == broker:
                    continue  # it is to become leader: it cannot be new
                self._requests.add_leader_and_isr([broker], replica.topic_partition, is_new=True)
            self._context.replica_states[replica] = ReplicaState.NEW

    def _enter_online(self, broker: int, replicas: list[PartitionAndReplica]) -> None:
        for replica in replicas:
            partition = replica.topic_partition
            if self._context.replica_states.get(replica) == ReplicaState.NEW:
                assignment = self._context.assignment(partition)
                if broker not in assignment.replicas:
                    wider = assignment._replace(replicas=(*assignment.replicas, broker))
                    self._context.set_assignment(partition, wider)
            elif self._context.leadership(partition) is not None:
                self._requests.add_leader_and_isr([broker], partition)
            self._context.replica_states[replica] = ReplicaState.ONLINE

    async def _enter_offline(self, broker: int, replicas: list[PartitionAndReplica]) -> None:
        context, requests = self._context, self._requests
        for replica in replicas:
            requests.add_stop(broker, replica.topic_partition, delete=False)
        led = [replica.topic_partition for replica in replicas if context.leadership(replica.topic_partition)]
        if not self._client.version.refreshes_isr:
            known_out = [p for p in led if (state := context.leadership(p)) is not None and broker not in state.isr]
            for partition in known_out:
                context.replica_states[PartitionAndReplica(partition, broker)] = ReplicaState.OFFLINE
            led = [partition for partition in led if partition not in known_out]
        for partition in await self._remove_from_isr(broker, led):
            if partition.topic not in context.to_be_deleted:
                others = [other for other in context.assignment(partition).replicas if other != broker]
                requests.add_leader_and_isr(others, partition)
            context.replica_states[PartitionAndReplica(partition, broker)] = ReplicaState.OFFLINE
        for replica in replicas:
            if context.leadership(replica.topic_partition) is None and not self._transitions.leaderless_stay:
                requests.add_metadata(sorted(context.brokers), [replica.topic_partition])
                context.replica_states[replica] = ReplicaState.OFFLINE

    async def _remove_from_isr(self, broker: int, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Take a replica out of ISRs, again where another write came between; the partitions where it is out now."""
        done: list[TopicPartition] = []
        remaining = partitions
        while remaining:
            found = await self._client.states(remaining)
            present = {
                partition: state
                for partition, state in found.items()
                if state is not None and state.controller_epoch <= self._context.epoch
            }
            ordered = partition_set(mutable_partitions(present, self._context.collections), self._context.collections)
            members = {p: present[p] for p in ordered if broker in present[p].isr}
            done += [p for p in ordered if p not in members]
            for partition in done:
                if partition in present:
                    self._context.put_leadership(partition, present[partition])
            new = await self._without(broker, members)
            hashed = len(present) > SMALL
            order = partition_set(new, self._context.collections, hashed=hashed)
            outcome = await self._client.write_states({p: new[p] for p in order}, self._context.epoch_version)
            for partition, state in outcome.written.items():
                self._context.put_leadership(partition, state)
            done += outcome.written
            remaining = outcome.retry
        return done

    async def _without(
        self, broker: int, members: dict[TopicPartition, LeaderAndIsr]
    ) -> dict[TopicPartition, LeaderAndIsr]:
        if not members:
            return {}
        before = states_of(list(members.values()), max(len(state.isr) for state in members.values()))
        unclean = await self._unclean_allowed(list(members))
        removal = remove_from_isr(before.isr, before.leader, broker, unclean, self._client.version.rules)
        assert removal.changed.all()
        after = written(before, removal.leader, removal.isr, self._context.epoch)
        return {partition: after.one(row) for row, partition in enumerate(members)}

    async def _unclean_allowed(self, partitions: list[TopicPartition]) -> BoolArray:
        """Whether unclean election is on for the topics; asked where the last member of an ISR depends on it."""
        if self._client.version.rules.last_member != LastMember.KEPT_IF_CLEAN:
            return np.zeros(len(partitions), dtype=np.bool_)
        topics = [partition.topic for partition in partitions]
        allowed = await self._client.unclean_allowed(dict.fromkeys(topics), self._unclean_by_default)
        return np.array([allowed[topic] for topic in topics], dtype=np.bool_)

    def _forget(self, replica: PartitionAndReplica) -> None:
        """A replica that is gone leaves the assignment in memory."""
        partition = replica.topic_partition
        before = self._context.assignment(partition)
        left = tuple(tuple(other for other in ids if other != replica.replica) for ids in before)
        if left[0]:
            self._context.set_assignment(partition, type(before)(*left))
        self._context.replica_states.pop(replica, None)
