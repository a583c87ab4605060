"""Replicas from state to state, and what each entry does (docs/reference/kafka.md §2.4; ReplicaStateMachine).

Rules of the module:
  - replicas are handled broker by broker, those of a broker as one batch of pipelined reads and writes;
  - a replica that goes offline leaves the ISR by `partitions.transitions.remove_from_isr`; the write is retried if the
    leader wrote first;
  - a state that a controller of a later epoch wrote is left alone, and so is the replica;
  - 0.8.0 leaves the state alone of a replica that it does not know to be in sync;
  - a transition that may not be is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.jvm.scala_collections import SMALL, Scala, hash_order, immutable_order, mutable_order
from simzk.jvm.scala_columns import map_order, places_in_order, set_order
from simzk.kafka.controller.state_columns import grouped, replicas_of
from simzk.kafka.controller.states import ReplicaState, transitions_of
from simzk.kafka.topic_partition import PartitionAndReplica
from simzk.partitions.arrays import NONE, any_of, count_of
from simzk.partitions.row_order import as_they_lie
from simzk.partitions.rules import LastMember
from simzk.partitions.transitions import remove_from_isr
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from simzk.kafka.controller.channels import BrokerRequests
    from simzk.kafka.controller.context import ControllerContext
    from simzk.kafka.controller.state_columns import ReplicasOn
    from simzk.kafka.zookeeper_client.zk_client import KafkaZooKeeperClient
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.row_order import Turns
    from simzk.partitions.states import States


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
        are_online = context.online_replicas()
        context.replica_states.put_all(are_online, ReplicaState.ONLINE, self._transitions.dead_at_start)
        if self._requests.tells_as_one:
            await self._tell_all(are_online)
        else:
            await self.handle_rows(*self._in_map(are_online), ReplicaState.ONLINE)
        offline = self._in_map(~are_online & (context.table.replicas != NONE))
        if self._client.version.rules.failover_trims_dead:
            await self.handle_rows(*offline, ReplicaState.OFFLINE)

    async def _tell_all(self, are_online: BoolArray) -> None:
        """What `handle_rows` comes to where every replica that is online enters that state once more."""
        table, rows = self._context.table, self._context.table.rows()
        rows = rows[table.version[rows] >= 0]
        self._requests.new_batch()
        self._requests.add_leaders(rows, np.where(are_online[rows], table.replicas[rows], np.int32(NONE)))
        self._requests.send()
        await self._requests.spend()

    def _in_map(self, chosen: BoolArray) -> tuple[IntArray, IntArray]:
        """Some of all replicas, as a mutable map of them iterates: rows and brokers."""
        context = self._context
        rows = context.orders.everything()
        chosen = chosen[rows]
        brokers = context.table.replicas[rows][chosen]
        rows = np.repeat(rows, count_of(chosen))
        order = map_order(context.orders.replica_hashes(rows, brokers), context.scala)
        return rows[order], brokers[order]

    async def handle(self, replicas: Sequence[PartitionAndReplica], target: ReplicaState) -> None:
        """As `handle_rows`, of replicas by name, those of partitions that are not known left out."""
        await self.handle_rows(*replicas_of(replicas, self._context.table), target)

    async def handle_rows(self, rows: IntArray, brokers: IntArray, target: ReplicaState) -> None:
        """Move replicas to a state, then tell the brokers.

        Args:
            rows: int32[k] of the controller's table, in the order in which they are handled.
            brokers: int32[k], whose replica of each.
            target: the state.
        """
        if not len(rows):
            return
        self._requests.new_batch()
        if self._client.version.controller.processes_one_by_one:
            groups = [(broker, rows[[place]]) for place, broker in enumerate(brokers.tolist())]
        else:
            by_broker = dict(grouped(rows, brokers))
            groups = [(broker, by_broker[broker]) for broker in _grouped_order(list(by_broker), self._context.scala)]
        for broker, held in groups:
            await self._handle_broker(broker, held, target)
        self._requests.send()
        await self._requests.spend()

    async def _handle_broker(self, broker: int, rows: IntArray, target: ReplicaState) -> None:
        try:
            await self._move_on_broker(broker, rows, target)
        except ZnodeError as problem:  # the real one logs it, and the batch stays where it was
            self._client.unusable(problem)

    async def _move_on_broker(self, broker: int, rows: IntArray, target: ReplicaState) -> None:
        states = self._context.replica_states
        found = states.on(broker, rows)
        held = found.where(found.are_in(self._transitions.replicas[target]))
        valid = held.rows
        match target:
            case ReplicaState.NEW:
                self._enter_new(broker, valid)
            case ReplicaState.ONLINE:
                self._enter_online(held)
            case ReplicaState.OFFLINE:
                await self._enter_offline(broker, valid)
            case ReplicaState.DELETION_STARTED:
                states.put(valid, broker, ReplicaState.DELETION_STARTED)
                self._requests.add_stops(broker, valid, delete=True)
            case ReplicaState.NON_EXISTENT:
                if self._transitions.stops_at_end:
                    self._requests.add_stops(broker, valid, delete=True)
                for partition in self._context.names(valid):
                    self._forget(PartitionAndReplica(partition, broker))
            case _:
                states.put(valid, broker, target)

    def _enter_new(self, broker: int, rows: IntArray) -> None:
        table = self._context.table
        has_state = table.version[rows] >= 0
        # One that is to become leader cannot be new.
        entering = ~has_state | (table.leader[rows] != broker)
        self._requests.add_leaders_on(broker, rows[entering & has_state], is_new=True)
        self._context.replica_states.put(rows[entering], broker, ReplicaState.NEW)

    def _enter_online(self, held: ReplicasOn) -> None:
        context, broker, rows = self._context, held.broker, held.rows
        are_new = held.are_in((ReplicaState.NEW,))
        for partition in context.names(rows[are_new]):
            assignment = context.assignment(partition)
            if broker not in assignment.replicas:
                wider = assignment._replace(replicas=(*assignment.replicas, broker))
                context.set_assignment(partition, wider)
        led = context.table.version[rows] >= 0
        self._requests.add_leaders_on(broker, rows[led & ~are_new])
        if are_new.any():  # their assignments may be others now
            held = context.replica_states.on(broker, rows)
        context.replica_states.put_on(held, ReplicaState.ONLINE)

    async def _enter_offline(self, broker: int, rows: IntArray) -> None:
        context, requests, states = self._context, self._requests, self._context.replica_states
        requests.add_stops(broker, rows, delete=False)
        has_state = context.table.version[rows] >= 0
        led = rows if has_state.all() else rows[has_state]
        if not self._client.version.controller.reads_isr_before_offline:
            known_in = any_of(context.table.isr[led] == broker)
            states.put(led[~known_in], broker, ReplicaState.OFFLINE)
            led = led[known_in]
        done = await self._remove_from_isr(broker, led)
        concerned = done[~context.of_topics(done, context.to_be_deleted)]
        requests.add_leaders_but_on(broker, concerned)
        states.put(done, broker, ReplicaState.OFFLINE)
        if not self._transitions.leaderless_stay and not has_state.all():
            leaderless = rows[context.table.version[rows] < 0]
            if len(leaderless):
                requests.add_metadata(list(context.registered().racks), leaderless)
                states.put(leaderless, broker, ReplicaState.OFFLINE)

    async def _remove_from_isr(self, broker: int, rows: IntArray) -> IntArray:
        """Take a replica out of ISRs, again where another write came between; the partitions where it is out now."""
        context = self._context
        done: list[IntArray] = [rows[:0]]
        while len(rows):
            rows, turns = as_they_lie(rows)
            partitions = context.partitions(rows)
            found = await self._client.states(partitions, turns)
            present = (found.version >= 0) & (found.controller_epoch <= context.epoch)
            inside = any_of(found.isr == broker) & present
            outside = present & ~inside
            if outside.any():
                context.table.put_all(rows[outside], found.where(outside))
            if self._requests.tells_as_one and not inside.any():  # nothing is written, nobody sees an order
                done.append(rows[present])
                break
            order = self._walked(rows, places_in_order(turns), present)
            done.append(rows[order[~inside[order]]])
            chosen, turns, after = await self._without(broker, rows, order[inside[order]], len(order), found)
            rows, partitions = rows[chosen], partitions.at(chosen)
            errors = await self._client.write_states(partitions, after, context.epoch_version, turns)
            ok, outrun = errors == Code.OK, errors == Code.BAD_VERSION
            written_now = rows[ok]
            context.table.put_all(written_now, after.where(ok))
            if not self._requests.tells_as_one:  # else nobody sees an order
                written_now = written_now[places_in_order(turns[ok])]
            done.append(written_now)
            rows = rows[outrun][places_in_order(turns[outrun])]
        return np.concatenate(done)

    def _walked(self, rows: IntArray, given: NDArray[np.intp], present: BoolArray) -> NDArray[np.intp]:
        """The places of states that are present in the order in which Kafka walks them.

        Args:
            rows: int32[k].
            given: the k places in the order in which they were handed over.
            present: bool[k].
        """
        orders, scala, order = self._context.orders, self._context.scala, given[present[given]]
        order = order[orders.places_in_map(rows[order])]
        return order[set_order(orders.hashes(rows[order]), scala)]

    async def _without(
        self, broker: int, rows: IntArray, walked: NDArray[np.intp], entries: int, found: States
    ) -> tuple[NDArray[np.intp], Turns, States]:
        """States without a replica that is in their ISRs.

        Args:
            broker: whose replica.
            rows: int32[k].
            walked: the places of those states, in the order of a set.
            entries: of how many entries that set was before it was filtered.
            found: k states.

        Returns:
            the places, ascending, in whose turn each is written, and what is.
        """
        unclean = await self._unclean_allowed(rows[walked]) if len(walked) else False
        if isinstance(unclean, np.ndarray):
            unclean = unclean[places_in_order(walked)]
        if len(walked) < entries:
            hashes = self._context.orders.hashes(rows[walked])
            walked = walked[set_order(hashes, self._context.scala, hashed=entries > SMALL)]
        chosen, turns = as_they_lie(walked)
        before = found.at(chosen)
        removal = remove_from_isr(
            before,
            broker,
            controller_epoch=self._context.epoch,
            unclean_allowed=unclean,
            rules=self._client.version.rules,
        )
        assert removal.changed.all()
        return chosen, turns, removal.after

    async def _unclean_allowed(self, rows: IntArray) -> BoolArray | bool:
        """Whether unclean election is on for the topics; asked where the last member of an ISR depends on it."""
        if self._client.version.rules.last_member != LastMember.KEPT_IF_CLEAN:
            return False
        topics = [partition.topic for partition in self._context.names(rows)]
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
