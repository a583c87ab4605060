"""Channels from the controller to the brokers, and the batch of control requests that one state change produces.

Rules of the module (ControllerChannelManager, ControllerBrokerRequestBatch, RequestSendThread):
  - each broker has a queue with one request in flight; while the broker is unreachable the request is retried every
    100 ms, until the broker is removed. A controller of 0.10.2 to 2.0 that removes a broker first waits for the end of
    the request in flight, so a paused broker stops it for up to 30 s (KAFKA-4959, KAFKA-7576);
  - a batch is sent as LeaderAndIsr to each replica concerned, UpdateMetadata to all brokers, then StopReplica; each
    request names the controller epoch and the broker epoch (KIP-380);
  - a partition in a LeaderAndIsr request is also in the UpdateMetadata request of every registered broker;
  - where a `BatchTransport` connects all brokers of a large cluster, one message replaces the requests to all brokers
    that it reaches. Then the order of partitions within a batch is unobservable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from simzk.kafka.metadata.changes import LEADER_DURING_DELETE, PartitionUpdates, ReplicaStops
from simzk.kafka.requests import (
    ControlBatch,
    ControlResponse,
    LeadershipRequest,
    MetadataUpdateRequest,
    StopReplicasRequest,
)
from simzk.kafka.rpc import Connections, Disconnected
from simzk.kafka.zookeeper_mode.controller.states import group_by_broker
from simzk.partitions.arrays import NONE, any_of, contained, count_of, keep
from simzk.simulation import Process, Queue, Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_mode.controller.context import ControllerContext
    from simzk.partitions.arrays import BoolArray, IntArray

RETRY_BACKOFF_US = 100_000
"""RequestSendThread.doWork waits 100 ms before it retries."""

WRITTEN_AFTER_US = 150_000
"""Time until the thread of a channel has written a request; recorded brokers do not wait for one that is 0.1 s old. The
recordings of tests/kafka/data/two_racks are equal with any value from 5 ms to 3 s."""

UNSENT = "a request of a failed event is in the batch"


class UnsentRequestError(Exception):
    """Nothing can be sent, because an event that failed has left a request in the batch (up to 0.8.2)."""

    def __init__(self) -> None:
        super().__init__(UNSENT)


ControllerRequest = LeadershipRequest | MetadataUpdateRequest | StopReplicasRequest
OnResponse = Callable[[ControlResponse], None]


class BatchTransport(Protocol):
    """Transport of a batch of control requests to all brokers of a large cluster as one message."""

    def unreachable_brokers(self, source: str, brokers: Iterable[int], /) -> set[int]:
        """Return the brokers that the message would not reach; they get requests of their own."""

    def send(self, source: str, batch: ControlBatch, /) -> None:
        """Send a batch."""


class Channel:
    """Queue of control requests to one broker, and the task that sends them."""

    def __init__(self, process: Process, connections: Connections, broker: int) -> None:
        self._process = process
        self._connections = connections
        self._target = f"broker {broker}"
        self._queue: Queue[tuple[ControllerRequest, OnResponse | None]] = Queue()
        self._is_stopping = False
        self._is_sending = False
        self._sent_us = 0
        self._task: Task[None] = process.spawn(self._run(), f"channel to {self._target}")

    def put(self, request: ControllerRequest, on_response: OnResponse | None) -> None:
        """Add a request at the end of the queue."""
        assert not self._is_stopping, f"the channel to {self._target} is closed"
        self._queue.put((request, on_response))

    @property
    def is_idle(self) -> bool:
        """Whether no request waits or is in flight."""
        return not self._queue and not self._is_sending

    def stop(self) -> None:
        """Send nothing more, also not the request in flight."""
        self._task.cancel()

    async def finish(self) -> None:
        """Send nothing more, and wait for the end of the request in flight: a response, a broken connection, a timeout.

        A request that was taken from the queue a moment ago is not written yet: the interrupt closes its connection.
        """
        assert not self._is_stopping, f"the channel to {self._target} is closed twice"
        self._is_stopping = True
        if self._is_sending and self._process.scheduler.now_us - self._sent_us > WRITTEN_AFTER_US:
            await self._task
        else:
            self._task.cancel()

    async def _run(self) -> None:
        while not self._is_stopping:
            request, on_response = await self._queue.get()
            response = await self._send(request)
            if response is not None and on_response is not None:
                on_response(response)

    async def _send(self, request: ControllerRequest) -> ControlResponse | None:
        """Send a request until it is answered; None if the channel is to stop before."""
        while not self._is_stopping:
            assert not self._is_sending, f"two requests to {self._target} are in flight"
            self._is_sending, self._sent_us = True, self._process.scheduler.now_us
            try:
                response: ControlResponse = await self._connections.call(self._process, self._target, request)
            except Disconnected:
                self._is_sending = False
                if not self._is_stopping:
                    await self._process.sleep(RETRY_BACKOFF_US)
            else:
                self._is_sending = False
                return response
        return None


@dataclass(eq=False)
class ControllerChannelManager:
    """Channels to the brokers, and the present batch of control requests.

    State changes add to the batch, `send` sends it.

    Args:
        controller_id: broker id of the controller.
        process, connections, context: of the controller.
        partition_us: controller time to name one partition in the requests of a batch, in microseconds (cost model).
        sends_topic_ids: whether LeaderAndIsr and UpdateMetadata have the ids of topics.
        names_deleted: which UpdateMetadata requests name all topics to be deleted, too: `all`, `without partitions`, or
            `none`.
        names_brokers_alone: whether UpdateMetadata is sent while no partition has a state.

    Attributes:
        batches_requests: whether one message carries a batch to all brokers, so that the order of partitions is
            unobservable.
        has_unsent: whether a request stays in the batch of `KafkaController`, which can begin no other (up to 0.8.2).
            The batches of the state machines are others.
        on_deletion_response: is called with broker, partitions and response of each StopReplica that deletes logs.
        on_leaders_response: is called with broker and response of each LeaderAndIsr with partition errors.
    """

    _controller_id: int
    _process: Process
    _connections: Connections
    _context: ControllerContext
    _partition_us: int
    _sends_topic_ids: bool
    _names_deleted: str
    _names_brokers_alone: bool
    batches_requests = False
    has_unsent = False

    def __post_init__(self) -> None:
        assert self._partition_us >= 0, f"{self._partition_us} µs for a partition"
        self._uncharged_partitions = 0
        self._channels: dict[int, Channel] = {}
        self._leaders: list[tuple[IntArray, IntArray, bool]] = []
        self._metadata: list[tuple[Sequence[int], IntArray]] = []
        self._stops: dict[int, list[tuple[IntArray, bool]]] = {}
        self.on_deletion_response: Callable[[int, Sequence[TopicPartition], ControlResponse], None]
        self.on_leaders_response: Callable[[int, ControlResponse], None]

    # -- channels

    @property
    def is_open(self) -> bool:
        """Whether there is a channel to any broker."""
        return bool(self._channels)

    def add_broker(self, broker: int) -> None:
        """Open the channel to a broker."""
        assert broker not in self._channels, f"there is a channel to broker {broker}"
        self._channels[broker] = Channel(self._process, self._connections, broker)

    def remove_broker(self, broker: int) -> None:
        """Close the channel to a broker and drop the requests in its queue."""
        channel = self._channels.pop(broker, None)
        if channel is not None:
            channel.stop()

    def is_idle(self, broker: int) -> bool:
        """Return whether there is a channel to a broker, and no request waits in it or is in flight."""
        return broker in self._channels and self._channels[broker].is_idle

    async def finish_broker(self, broker: int) -> None:
        """Drop the requests in the queue of a broker, and close its channel after the request in flight."""
        channel = self._channels.pop(broker, None)
        if channel is not None:
            await channel.finish()

    def shut_down(self) -> None:
        """Close all channels and drop the batch."""
        for broker in list(self._channels):
            self.remove_broker(broker)
        self.new_batch()

    # -- metadata without a state change

    def send_metadata(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Send the registered brokers and some partitions to all brokers."""
        self.send_metadata_of_rows(self._context.rows_of(partitions))

    def send_metadata_of_rows(self, rows: IntArray) -> None:
        """Send the registered brokers and some partitions to all brokers."""
        self.new_batch()
        self.add_metadata(sorted(self._context.brokers), rows)
        self.send()

    def send_metadata_to(self, brokers: Sequence[int], *, with_partitions: bool = False) -> None:
        """Send the registered brokers, and on request all partitions that have a state, to some brokers."""
        assert all(broker in self._context.brokers for broker in brokers), f"one of brokers {brokers} is not registered"
        rows = self._rows_with_state() if with_partitions else np.empty(0, dtype=np.int32)
        self.new_batch()
        self.add_metadata(brokers, rows)
        self.send()

    def _rows_with_state(self) -> IntArray:
        """Return the partitions that the metadata caches of brokers have."""
        rows = self._context.order.all_in_set()
        return rows[self._context.table.version[rows] >= 0]

    # -- a batch

    def require_sent(self) -> None:
        """Raise an error if a request stays in the batch.

        Raises:
            UnsentRequestError: one does.
        """
        if self.has_unsent:
            raise UnsentRequestError

    def new_batch(self) -> None:
        """Start an empty batch."""
        self._leaders.clear()
        self._metadata.clear()
        self._stops.clear()

    def add_leaders(self, rows: IntArray, recipients: IntArray, *, is_new: bool = False) -> None:
        """Add LeaderAndIsr for some replicas, and UpdateMetadata for all brokers.

        Args:
            rows: int32[k] of the controller's table.
            recipients: int32[k, v], the brokers that receive each partition, padded.
            is_new: whether the replicas are new.
        """
        assert len(recipients) == len(rows)
        if not len(rows):
            return
        assert rows.min() >= 0, "a partition in a request has a row"
        self._leaders.append((rows, recipients, is_new))
        self.add_metadata(list(self._context.registered().racks), rows)

    def add_leaders_on(self, broker: int, rows: IntArray, *, is_new: bool = False) -> None:
        """Add LeaderAndIsr for the replicas on one broker, and UpdateMetadata for all brokers."""
        self.add_leaders(rows, np.full((len(rows), 1), broker, dtype=np.int32), is_new=is_new)

    def add_leaders_except_on(self, broker: int, rows: IntArray) -> None:
        """Add LeaderAndIsr for all replicas except those on one broker, and UpdateMetadata for all brokers."""
        replicas = self._context.table.replicas_at(rows)
        self.add_leaders(rows, keep(replicas, (replicas != NONE) & (replicas != broker)))

    def add_metadata(self, brokers: Sequence[int], rows: IntArray) -> None:
        """Add UpdateMetadata for some brokers; without rows it names the registered brokers only.

        Up to 2.1 a request without rows names all partitions. They are what the brokers have, so they are left out, but
        for those of topics to be deleted: brokers clean their groups when they hear of one.
        """
        assert rows.ndim == 1, "rows of the controller's table"
        if not self._names_brokers_alone and not len(rows) and not len(self._rows_with_state()):
            return
        deleted = self._context.to_be_deleted
        names_deleted = self._names_deleted == "all" or (self._names_deleted == "without partitions" and not len(rows))
        if deleted and names_deleted:
            table = self._context.table
            rows = np.concatenate([rows, *(table.rows_of(topic) for topic in deleted)])
        self._metadata.append((brokers, rows))

    def add_stops(self, broker: int, rows: IntArray, *, delete: bool) -> None:
        """Add StopReplica for replicas on a broker; `delete` in any call for a replica deletes its log."""
        assert rows.ndim == 1, "rows of the controller's table"
        if len(rows):
            assert rows.min() >= 0, "a replica that stops has a row"
            self._stops.setdefault(broker, []).append((rows, delete))

    def send(self) -> None:
        """Send the batch to all brokers that have a channel, and start a new one."""
        self._send_requests()
        self.new_batch()

    def _send_requests(self) -> None:
        self._send_leaders()
        self._send_metadata()
        for broker, parts in self._stops.items():
            if broker in self._context.brokers:
                self._put_stops(broker, self._stops_of(parts))

    def send_leaders(self) -> None:
        """Send the LeaderAndIsr requests of the batch before the rest of it."""
        self._send_leaders()
        self._leaders.clear()

    async def spend(self) -> None:
        """Sleep for the controller time of the partitions named since the last call."""
        partitions, self._uncharged_partitions = self._uncharged_partitions, 0
        if partitions and self._partition_us:
            await self._process.sleep(partitions * self._partition_us)

    # -- one request for each broker

    def _send_leaders(self) -> None:
        if not self._leaders:
            return
        flat = [_flat(rows, recipients, is_new) for rows, recipients, is_new in self._leaders]
        rows, brokers, is_new = map(np.concatenate, zip(*flat, strict=True))
        assert len(rows) == len(brokers) == len(is_new)
        for broker, places in group_by_broker(np.arange(len(rows), dtype=np.int32), brokers):
            if broker in self._context.brokers:
                self._uncharged_partitions += self._put_leaders(broker, *_distinct(rows[places], is_new[places]))

    def _put_leaders(self, broker: int, rows: IntArray, is_new: BoolArray) -> int:
        """Send LeaderAndIsr of distinct partitions to one broker, and return how many it names."""
        updates = self._updates(rows, is_new)
        on_response = partial(self._on_leaders_response, broker)
        request = LeadershipRequest(*self._header(broker), updates, self._topic_ids(updates))
        self._put(broker, request, on_response)
        return len(updates)

    def _on_leaders_response(self, broker: int, response: ControlResponse) -> None:
        if response.partition_errors:
            self.on_leaders_response(broker, response)

    def _send_metadata(self) -> None:
        racks = self._context.registered().racks
        parts_of: dict[int, list[int]] = {}
        for part, (brokers, _) in enumerate(self._metadata):
            for broker in brokers:
                parts_of.setdefault(broker, []).append(part)
        # Brokers with the same parts share one object: building the updates is the expensive step.
        updates_of: dict[tuple[int, ...], tuple[PartitionUpdates, dict[str, str]]] = {}
        for broker, parts in parts_of.items():
            if broker not in self._context.brokers:
                continue
            found = updates_of.get(tuple(parts))
            if found is None:
                rows = np.concatenate([self._metadata[part][1] for part in parts])
                updates = self._updates(*_distinct(rows, np.zeros(len(rows), dtype=np.bool_)))
                found = updates_of[tuple(parts)] = updates, self._topic_ids(updates)
            updates, topic_ids = found
            self._put(broker, MetadataUpdateRequest(*self._header(broker), updates, racks, topic_ids), None)

    def _topic_ids(self, updates: PartitionUpdates) -> dict[str, str]:
        """Return the ids of the topics of some partitions, as far as requests to brokers have them."""
        if not self._sends_topic_ids:
            return {}
        known = self._context.topic_ids
        topics = dict.fromkeys(topic for topic, _ in updates.partitions.names())
        return {topic: topic_id for topic in topics if (topic_id := known.get(topic)) is not None}

    def _stops_of(self, parts: list[tuple[IntArray, bool]]) -> ReplicaStops:
        rows = np.concatenate([rows for rows, _ in parts])
        delete = np.concatenate([np.full(len(rows), delete) for rows, delete in parts])
        if len(parts) > 1:  # the rows of one part are distinct
            rows, delete = _distinct(rows, delete)
        return ReplicaStops(self._context.table.partitions(rows), delete, self._stop_epochs(rows))

    def _put_stops(self, broker: int, stops: ReplicaStops) -> None:
        request = StopReplicasRequest(*self._header(broker), stops)
        deleted = [stop.partition for stop in stops if stop.delete] if stops.delete.any() else []
        self._put(broker, request, partial(self.on_deletion_response, broker, deleted) if deleted else None)

    def _put(self, broker: int, request: ControllerRequest, on_response: OnResponse | None) -> None:
        assert self._context.has_term, "only an active controller sends requests"
        channel = self._channels.get(broker)
        if channel is not None:
            channel.put(request, on_response)

    # -- contents of requests

    def _header(self, broker: int) -> tuple[int, int, int]:
        return self._controller_id, self._context.epoch, self._context.brokers[broker].epoch

    def _updates(self, rows: IntArray, is_new: BoolArray) -> PartitionUpdates:
        """Return the updates of partitions that have a state; the leader says whether a topic is to be deleted."""
        context = self._context
        updates = PartitionUpdates.of_table(context.table, rows, is_new)
        has_state = updates.states.version >= 0
        if not has_state.all():
            rows = rows[has_state]
            updates = PartitionUpdates.of_table(context.table, rows, is_new[has_state])
        assert len(updates) == len(rows)
        if context.to_be_deleted:
            updates.states.leader[context.of_topics(rows, context.to_be_deleted)] = LEADER_DURING_DELETE
        return updates

    def _stop_epochs(self, rows: IntArray) -> IntArray:
        """Return the leader epochs of StopReplica requests; LEADER_DURING_DELETE for topics to be deleted."""
        context = self._context
        assert rows.min(initial=0) >= 0, "a replica that stops has a row"
        deleted = context.of_topics(rows, context.to_be_deleted) | (context.table.version[rows] < 0)
        return np.where(deleted, np.int32(LEADER_DURING_DELETE), context.table.leader_epoch[rows])


@dataclass(eq=False)
class BatchChannelManager(ControllerChannelManager):
    """Channels where one message carries a batch to all brokers that it reaches, by `transport`."""

    transport: BatchTransport
    batches_requests = True

    def _rows_with_state(self) -> IntArray:
        """Return no rows: brokers of a large cluster do not cache partitions."""
        return np.empty(0, dtype=np.int32)

    def send_leaders(self) -> None:
        """Send the whole batch: nothing else of it names partitions to brokers that do not cache them."""
        self.send()

    def _send_requests(self) -> None:
        """Send the batch as one message; unreachable brokers, and log deletions, get requests of their own."""
        context, source, transport = self._context, self._process.name, self.transport
        unreachable = transport.unreachable_brokers(source, context.brokers)
        parts = [self._part(rows, recipients, unreachable) for rows, recipients, _ in self._leaders]
        stops = {broker: self._stops_of(parts) for broker, parts in self._stops.items() if broker in context.brokers}
        brokers, epochs, racks, _ = context.registered()
        if unreachable:
            reachable = ~np.isin(brokers, list(unreachable))
            brokers, epochs = brokers[reachable], epochs[reachable]
        assert context.has_term, "only an active controller sends requests"
        assert len(brokers) == len(epochs)
        batch = ControlBatch(self._controller_id, context.epoch, brokers, epochs, racks, parts, stops)
        transport.send(source, batch)
        for broker, replica_stops in stops.items():
            if broker in unreachable or replica_stops.delete.any():
                self._put_stops(broker, replica_stops)

    def _part(self, rows: IntArray, recipients: IntArray, unreachable: set[int]) -> tuple[PartitionUpdates, BoolArray]:
        """Return updates of distinct partitions, and which assigned replicas of reachable brokers receive them."""
        self._uncharged_partitions += len(rows)
        updates = self._updates(rows, np.zeros(len(rows), dtype=np.bool_))
        if len(updates) < len(rows):
            known = np.flatnonzero(self._context.table.version[rows] >= 0)
            rows, recipients = rows[known], recipients[known]
        receive = contained(updates.replicas, recipients)
        if unreachable:
            for broker in sorted(unreachable):
                named = np.flatnonzero(any_of(receive & (updates.replicas == broker)))
                if len(named):
                    self._put_leaders(broker, rows[named], np.zeros(len(named), dtype=np.bool_))
            receive &= ~np.isin(updates.replicas, list(unreachable))
        assert receive.shape == updates.replicas.shape
        return updates, receive


ChannelManagerFactory: TypeAlias = Callable[
    [int, Process, Connections, "ControllerContext", int, bool, str, bool], ControllerChannelManager
]
"""Constructor of a `ControllerChannelManager`."""


def _flat(rows: IntArray, recipients: IntArray, is_new: bool) -> tuple[IntArray, IntArray, BoolArray]:
    """Return one entry for each recipient: rows, brokers, whether the replica is new."""
    assert len(rows) == len(recipients)
    named = recipients >= 0
    flat_rows = np.repeat(rows, count_of(named))
    return flat_rows, recipients[named], np.full(len(flat_rows), is_new)


def _distinct(rows: IntArray, marks: BoolArray) -> tuple[IntArray, BoolArray]:
    """Return each row once, in the order of first occurrence, marked if any occurrence is marked."""
    assert len(rows) == len(marks)
    distinct, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    if len(distinct) == len(rows):
        return rows, marks
    any_mark = np.zeros(len(distinct), dtype=np.bool_)
    np.logical_or.at(any_mark, inverse, marks)
    order = np.argsort(first)
    return distinct[order], any_mark[order]
