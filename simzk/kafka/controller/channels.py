"""The controller's connections to the brokers, and the batch of requests that a state change adds up to.

Rules of the module (ControllerChannelManager, ControllerBrokerRequestBatch):
  - one queue a broker, one request under way at a time, sent again after 100 ms while the broker is unreachable,
    until the broker is taken off the list;
  - a batch goes out as: LeaderAndIsr to each broker that is concerned, UpdateMetadata to all, StopReplica; each names
    the controller's epoch and the broker's;
  - a partition in a LeaderAndIsr is in the UpdateMetadata of every live broker too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from simzk.kafka.protocol import (
    ControlResponse,
    LeaderAndIsrRequest,
    PartitionUpdate,
    ReplicaStop,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from simzk.kafka.rpc import Connections, Disconnected
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.simulation import Process, Queue, Task

if TYPE_CHECKING:
    from simzk.kafka.controller.context import ControllerContext

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


class BrokerRequests:
    """What is to be told to the brokers; filled by state changes, sent as a batch.

    Args:
        controller_id: who sends.
        process: the controller's process.
        connections: the way to the brokers.
        context: what the controller knows.
        order_us: what it costs the controller to name a partition to a broker.
    """

    def __init__(
        self,
        controller_id: int,
        process: Process,
        connections: Connections,
        context: ControllerContext,
        *,
        order_us: int = 0,
    ) -> None:
        self._order_us = order_us
        self._orders = 0
        self._controller_id = controller_id
        self._process = process
        self._connections = connections
        self._context = context
        self._channels: dict[int, Channel] = {}
        self._leaders: dict[int, dict[TopicPartition, bool]] = {}
        self._metadata: dict[int, dict[TopicPartition, None]] = {}
        self._stops: dict[int, dict[TopicPartition, bool]] = {}
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

    # -- a batch

    def new_batch(self) -> None:
        """Begin a batch."""
        self._leaders.clear()
        self._metadata.clear()
        self._stops.clear()

    def add_leader_and_isr(self, brokers: Iterable[int], partition: TopicPartition, *, is_new: bool = False) -> None:
        """Tell replicas who leads; and everybody, too."""
        for broker in brokers:
            if broker >= 0:
                told = self._leaders.setdefault(broker, {})
                told[partition] = is_new or told.get(partition, False)
        self.add_metadata(sorted(self._context.brokers), [partition])

    def add_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Tell brokers of some partitions; of none to tell them of the live brokers only."""
        named = list(partitions)
        for broker in brokers:
            self._metadata.setdefault(broker, {}).update(dict.fromkeys(named))

    def add_stop(self, broker: int, partition: TopicPartition, *, delete: bool) -> None:
        """Stop a replica; a later call for the same one may add that its log goes."""
        stops = self._stops.setdefault(broker, {})
        stops[partition] = delete or stops.get(partition, False)

    def send(self) -> None:
        """Send the batch to those that can be reached."""
        self._send_leaders()
        self._send_metadata()
        self._send_stops()
        self.new_batch()

    async def spend(self) -> None:
        """Take the time that the orders given since the last call cost."""
        orders, self._orders = self._orders, 0
        if orders and self._order_us:
            await self._process.sleep(orders * self._order_us)

    def _send_leaders(self) -> None:
        for broker, partitions in self._leaders.items():
            updates = tuple(
                update
                for partition, is_new in partitions.items()
                if (update := self._update(partition, is_new)) is not None
            )
            if broker in self._context.brokers:
                self._orders += len(updates)
                request = LeaderAndIsrRequest(*self._header(broker), updates)
                self._put(broker, request, self._leaders_callback(broker))

    def _leaders_callback(self, broker: int) -> OnResponse:
        def on_response(response: ControlResponse) -> None:
            if self.on_leaders_response is not None and response.partition_errors:
                self.on_leaders_response(broker, response)

        return on_response

    def _send_metadata(self) -> None:
        live = self._context.racks()
        for broker, partitions in self._metadata.items():
            if broker not in self._context.brokers:
                continue
            updates = tuple(
                update for partition in partitions if (update := self._update(partition, False)) is not None
            )
            self._put(broker, UpdateMetadataRequest(*self._header(broker), updates, live), None)

    def _send_stops(self) -> None:
        for broker, partitions in self._stops.items():
            if broker not in self._context.brokers:
                continue
            stops = tuple(
                ReplicaStop(partition, delete, self._epoch_to_stop_with(partition))
                for partition, delete in partitions.items()
            )
            deleted = [stop.partition for stop in stops if stop.delete]
            request = StopReplicaRequest(*self._header(broker), stops)
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

    def _update(self, partition: TopicPartition, is_new: bool) -> PartitionUpdate | None:
        state = self._context.leadership(partition)
        if state is None:
            return None
        if partition.topic in self._context.to_be_deleted:
            state = LeaderAndIsr(DELETED, state.leader_epoch, state.isr, state.controller_epoch, state.version)
        return PartitionUpdate(partition, state, self._context.assignment(partition), is_new)

    def _epoch_to_stop_with(self, partition: TopicPartition) -> int:
        if partition.topic in self._context.to_be_deleted:
            return DELETED
        state = self._context.leadership(partition)
        return DELETED if state is None else state.leader_epoch
