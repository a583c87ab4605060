"""The controller's connections to the brokers, and the batch of requests that a state change adds up to.

Rules of the module (ControllerChannelManager, ControllerBrokerRequestBatch):
  - one queue a broker, one request under way at a time, sent again after 100 ms while the broker is unreachable,
    until the broker is taken off the list;
  - a batch goes out as: LeaderAndIsr to each broker that is concerned, UpdateMetadata to all, StopReplica; each names
    the controller's epoch and the broker's;
  - a partition in a LeaderAndIsr is in the UpdateMetadata of every live broker too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.kafka.controller.state_columns import grouped
from simzk.kafka.requests import (
    ControlResponse,
    LeaderAndIsrRequest,
    Orders,
    PartitionUpdates,
    ReplicaStops,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from simzk.kafka.rpc import Connections, Disconnected
from simzk.partitions.arrays import NONE, any_of, contained, count_of, keep, taken
from simzk.partitions.row_order import as_they_lie
from simzk.simulation import Process, Queue, Task

if TYPE_CHECKING:
    from simzk.kafka.broker.empty_replicas import EmptyReplicas as LightReplicas
    from simzk.kafka.controller.context import ControllerContext
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.partitions.arrays import BoolArray, IntArray

RETRY_PAUSE_US = 100_000
DELETED = -2
"""The leader, and the leader epoch, of a partition whose topic is being deleted (LeaderAndIsr.LeaderDuringDelete)."""

ControllerRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
OnResponse = Callable[[ControlResponse], None]


class Channel:
    """The queue of requests to one broker, and the task that sends them."""

    def __init__(self, process: Process, connections: Connections, broker: int) -> None:
        self._process = process
        self._connections = connections
        self._target = f"broker {broker}"
        self._queue: Queue[tuple[ControllerRequest, OnResponse | None]] = Queue()
        self._task: Task[None] = process.spawn(self._run(), f"channel to {self._target}")

    def put(self, request: ControllerRequest, on_response: OnResponse | None) -> None:
        """Send a request in its turn."""
        self._queue.put((request, on_response))

    def stop(self) -> None:
        """Send nothing more."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            request, on_response = await self._queue.get()
            response = await self._send(request)
            if on_response is not None:
                on_response(response)

    async def _send(self, request: ControllerRequest) -> ControlResponse:
        while True:
            try:
                response: ControlResponse = await self._connections.call(self._process, self._target, request)
            except Disconnected:
                await self._process.sleep(RETRY_PAUSE_US)
            else:
                return response


class _Only(NamedTuple):
    """The replica of one broker is told."""

    broker: int

    def are_told(self, replicas: IntArray) -> BoolArray:
        found: BoolArray = replicas == self.broker
        return found


class _AllBut(NamedTuple):
    """All replicas are told but that of one broker."""

    broker: int

    def are_told(self, replicas: IntArray) -> BoolArray:
        found: BoolArray = (replicas != NONE) & (replicas != self.broker)
        return found


class BrokerRequests:
    """What is to be told to the brokers; filled by state changes, sent as a batch.

    Args:
        controller_id: who sends.
        process: the controller's process.
        connections: the way to the brokers.
        context: what the controller knows.
        order_us: what it costs the controller to name a partition to a broker.
        light: the brokers' replicas, where all brokers are told as one.
    """

    def __init__(
        self,
        controller_id: int,
        process: Process,
        connections: Connections,
        context: ControllerContext,
        *,
        order_us: int = 0,
        light: LightReplicas | None = None,
    ) -> None:
        self._light = light
        self._order_us = order_us
        self._orders = 0
        self._controller_id = controller_id
        self._process = process
        self._connections = connections
        self._context = context
        self._channels: dict[int, Channel] = {}
        self._leaders: list[tuple[IntArray, IntArray | _Only | _AllBut, bool]] = []
        self._metadata: list[tuple[Sequence[int], IntArray]] = []
        self._stops: dict[int, list[tuple[IntArray, bool]]] = {}
        self.on_deletion_response: Callable[[int, Sequence[TopicPartition], ControlResponse], None] | None = None
        self.on_leaders_response: Callable[[int, ControlResponse], None] | None = None

    # -- who can be reached

    def add_broker(self, broker: int) -> None:
        """Open the channel to a broker."""
        assert broker not in self._channels, f"there is a channel to broker {broker}"
        self._channels[broker] = Channel(self._process, self._connections, broker)

    def remove_broker(self, broker: int) -> None:
        """Close the channel to a broker: what waits in it is never sent."""
        channel = self._channels.pop(broker, None)
        if channel is not None:
            channel.stop()

    def shut_down(self) -> None:
        """Close all channels and forget what was to be sent."""
        for broker in list(self._channels):
            self.remove_broker(broker)
        self.new_batch()

    @property
    def tells_as_one(self) -> bool:
        """Whether all brokers are told in one message, so that the order in it is of no consequence."""
        return self._light is not None

    # -- a batch

    def new_batch(self) -> None:
        """Begin a batch."""
        self._leaders.clear()
        self._metadata.clear()
        self._stops.clear()

    def add_leaders(self, rows: IntArray, recipients: IntArray, *, is_new: bool = False) -> None:
        """Tell replicas who leads partitions; and everybody, too.

        Args:
            rows: int32[k] of the controller's table.
            recipients: int32[k, v], the brokers to tell of each, padded.
            is_new: whether the replicas are new.
        """
        self._add_leaders(rows, recipients, is_new)

    def add_leaders_on(self, broker: int, rows: IntArray, *, is_new: bool = False) -> None:
        """Tell one broker who leads partitions; and everybody, too."""
        self._add_leaders(rows, _Only(broker), is_new)

    def add_leaders_but_on(self, broker: int, rows: IntArray) -> None:
        """Tell all replicas but that of one broker who leads partitions; and everybody, too."""
        self._add_leaders(rows, _AllBut(broker), is_new=False)

    def _add_leaders(self, rows: IntArray, recipients: IntArray | _Only | _AllBut, is_new: bool) -> None:
        if not len(rows):
            return
        if self._light is None:  # else those are found when the batch goes, among the replicas of then
            recipients = self._named(recipients, rows)
        self._leaders.append((rows, recipients, is_new))
        self.add_metadata(list(self._context.registered().racks), rows)

    def _named(self, recipients: IntArray | _Only | _AllBut, rows: IntArray) -> IntArray:
        """The brokers to tell of each of the rows, int32[k, v]."""
        if isinstance(recipients, _Only):
            return np.full((len(rows), 1), recipients.broker, dtype=np.int32)
        if isinstance(recipients, _AllBut):
            replicas = self._context.table.replicas_at(rows)
            return keep(replicas, recipients.are_told(replicas))
        return recipients

    def add_metadata(self, brokers: Sequence[int], rows: IntArray) -> None:
        """Tell brokers of some partitions; of none to tell them of the live brokers only."""
        self._metadata.append((brokers, rows))

    def add_stops(self, broker: int, rows: IntArray, *, delete: bool) -> None:
        """Stop replicas; a later call for the same ones may add that their logs go."""
        if len(rows):
            self._stops.setdefault(broker, []).append((rows, delete))

    def add_metadata_of_all(self, brokers: Sequence[int]) -> None:
        """Tell brokers of all partitions that have a state."""
        if self._light is None:  # else nobody keeps more than who lives
            rows = self._context.all_rows()
            self.add_metadata(brokers, rows[self._context.table.version[rows] >= 0])
        else:
            self.add_metadata(brokers, np.empty(0, dtype=np.int32))

    def send(self) -> None:
        """Send the batch to those that can be reached."""
        if self._light is None:
            self._send_leaders()
            self._send_metadata()
            self._send_stops()
        else:
            self._send_as_one(self._light)
        self.new_batch()

    def _send_as_one(self, light: LightReplicas) -> None:
        """All that can be told as one; others, and who is to delete logs, by themselves."""
        context, source = self._context, self._process.name
        apart = light.deaf(source, context.brokers)
        parts = [self._part(rows, recipients, apart) for rows, recipients, _ in self._leaders]
        stops = {broker: self._stops_of(parts) for broker, parts in self._stops.items() if broker in context.brokers}
        brokers, epochs, racks, _ = context.registered()
        if apart:
            together = ~np.isin(brokers, list(apart))
            brokers, epochs = brokers[together], epochs[together]
        orders = Orders(self._controller_id, context.epoch, brokers, epochs, racks, parts, stops)
        light.send(source, orders)
        for broker, told_to_stop in stops.items():
            if broker in apart or told_to_stop.delete.any():
                self._put_stops(broker, told_to_stop)

    async def spend(self) -> None:
        """Take the time that the orders given since the last call cost."""
        orders, self._orders = self._orders, 0
        if orders and self._order_us:
            await self._process.sleep(orders * self._order_us)

    def _send_leaders(self) -> None:
        if not self._leaders:
            return
        told = [_flat(rows, self._named(recipients, rows), is_new) for rows, recipients, is_new in self._leaders]
        rows, brokers, is_new = map(np.concatenate, zip(*told, strict=True))
        for broker, places in grouped(np.arange(len(rows), dtype=np.int32), brokers):
            if broker in self._context.brokers:
                self._orders += self._put_leaders(broker, *_once(rows[places], is_new[places]))

    def _part(
        self, rows: IntArray, recipients: IntArray | _Only | _AllBut, apart: set[int]
    ) -> tuple[PartitionUpdates, BoolArray]:
        """Updates of distinct partitions, and which assigned replicas are told; who is apart is told by itself."""
        self._orders += len(rows)
        lying, turns = as_they_lie(rows)  # told as one, they need no order
        if isinstance(recipients, np.ndarray) and lying is not rows:
            recipients = taken(recipients, turns)
        updates = self._updates(lying, np.zeros(len(rows), dtype=np.bool_))
        if len(updates) < len(rows):
            known = np.flatnonzero(self._context.table.version[lying] >= 0)
            lying, recipients = lying[known], recipients[known] if isinstance(recipients, np.ndarray) else recipients
        if isinstance(recipients, np.ndarray):
            told = contained(updates.replicas, recipients)
        else:
            told = recipients.are_told(updates.replicas)
        if apart:
            away = np.isin(updates.replicas, list(apart))
            for broker in sorted(apart):
                named = np.flatnonzero(any_of(told & (updates.replicas == broker)))
                if len(named):
                    self._put_leaders(broker, lying[named], np.zeros(len(named), dtype=np.bool_))
            told &= ~away
        return updates, told

    def _put_leaders(self, broker: int, rows: IntArray, is_new: BoolArray) -> int:
        """A LeaderAndIsr of distinct partitions to one broker; of how many it tells."""
        updates = self._updates(rows, is_new)
        request = LeaderAndIsrRequest(*self._header(broker), updates)
        self._put(broker, request, self._leaders_callback(broker))
        return len(updates)

    def _leaders_callback(self, broker: int) -> OnResponse:
        def on_response(response: ControlResponse) -> None:
            if self.on_leaders_response is not None and response.partition_errors:
                self.on_leaders_response(broker, response)

        return on_response

    def _send_metadata(self) -> None:
        live = self._context.registered().racks
        told: dict[int, list[int]] = {}
        for place, (brokers, _) in enumerate(self._metadata):
            for broker in brokers:
                told.setdefault(broker, []).append(place)
        made: dict[tuple[int, ...], PartitionUpdates] = {}
        for broker, places in told.items():
            if broker not in self._context.brokers:
                continue
            updates = made.get(tuple(places))
            if updates is None:
                rows = np.concatenate([self._metadata[place][1] for place in places])
                updates = made[tuple(places)] = self._updates(*_once(rows, np.zeros(len(rows), dtype=np.bool_)))
            self._put(broker, UpdateMetadataRequest(*self._header(broker), updates, live), None)

    def _send_stops(self) -> None:
        for broker, parts in self._stops.items():
            if broker in self._context.brokers:
                self._put_stops(broker, self._stops_of(parts))

    def _stops_of(self, parts: list[tuple[IntArray, bool]]) -> ReplicaStops:
        rows = np.concatenate([rows for rows, _ in parts])
        delete = np.concatenate([np.full(len(rows), delete) for rows, delete in parts])
        if len(parts) > 1:  # each alone is of distinct partitions
            rows, delete = _once(rows, delete)
        if self._light is not None and not delete.any():
            rows.sort()  # told as one, they need no order
        return ReplicaStops(self._context.partitions(rows), delete, self._epochs_to_stop_with(rows))

    def _put_stops(self, broker: int, stops: ReplicaStops) -> None:
        request = StopReplicaRequest(*self._header(broker), stops)
        deleted = [stop.partition for stop in stops if stop.delete] if stops.delete.any() else []
        self._put(broker, request, self._deletion_callback(broker, deleted) if deleted else None)

    def _deletion_callback(self, broker: int, deleted: Sequence[TopicPartition]) -> OnResponse:
        def on_response(response: ControlResponse) -> None:
            assert self.on_deletion_response is not None
            self.on_deletion_response(broker, deleted, response)

        return on_response

    def _put(self, broker: int, request: ControllerRequest, on_response: OnResponse | None) -> None:
        channel = self._channels.get(broker)
        if channel is not None:
            channel.put(request, on_response)

    def _header(self, broker: int) -> tuple[int, int, int]:
        return self._controller_id, self._context.epoch, self._context.brokers[broker].epoch

    def _updates(self, rows: IntArray, is_new: BoolArray) -> PartitionUpdates:
        """What is told of partitions: nothing of one that has no state, of one that is being deleted just that."""
        context = self._context
        updates = PartitionUpdates.of_table(context.table, rows, is_new)
        known = updates.states.version >= 0
        if not known.all():
            rows = rows[known]
            updates = PartitionUpdates.of_table(context.table, rows, is_new[known])
        if context.to_be_deleted:
            updates.states.leader[context.of_topics(rows, context.to_be_deleted)] = DELETED
        return updates

    def _epochs_to_stop_with(self, rows: IntArray) -> IntArray:
        context = self._context
        deleted = context.of_topics(rows, context.to_be_deleted) | (context.table.version[rows] < 0)
        return np.where(deleted, np.int32(DELETED), context.table.leader_epoch[rows])


def _flat(rows: IntArray, recipients: IntArray, is_new: bool) -> tuple[IntArray, IntArray, BoolArray]:
    """One replica a place: rows, brokers, whether they are new."""
    named = recipients >= 0
    flat_rows = np.repeat(rows, count_of(named))
    return flat_rows, recipients[named], np.full(len(flat_rows), is_new)


def _once(rows: IntArray, marked: BoolArray) -> tuple[IntArray, BoolArray]:
    """Each row once, in the order in which it first comes, marked where any of the same is."""
    distinct, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    if len(distinct) == len(rows):
        return rows, marked
    either = np.zeros(len(distinct), dtype=np.bool_)
    np.logical_or.at(either, inverse, marked)
    order = np.argsort(first)
    return distinct[order], either[order]
