"""What the controller does when a log directory of a live broker fails (docs/reference/kafka.md §2.13; KIP-112).

Rules of the module (KafkaController.processLogDirEventNotification, processLeaderAndIsrResponseReceived):
  - a notification says which broker, not which replicas: a LeaderAndIsr of all that it holds asks for them;
  - what the broker answers with a storage error is offline, as on a dead broker, until the broker starts or dies;
  - the notification goes in any case, also one that cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka import paths
from simzk.kafka.controller.states import ReplicaState
from simzk.kafka.requests import ControlResponse, Error
from simzk.kafka.schemas import log_dir_event
from simzk.kafka.schemas.reading import NoJsonError
from simzk.kafka.topic_partition import mutable_partitions
from simzk.kafka.zookeeper_client.batches import data_of

if TYPE_CHECKING:
    from simzk.kafka.controller.controller import KafkaController


class LogDirFailures:
    """Finds out what was lost, and moves it."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    async def process_events(self) -> None:
        """The children of `/log_dir_event_notification` changed."""
        controller, context = self._controller, self._controller.context
        names = await controller.client.children(paths.LOG_DIR_EVENTS)
        try:
            brokers = await self._brokers(names)
            await controller.replicas.handle_rows(*context.replicas_on(brokers), ReplicaState.ONLINE)
        finally:
            await controller.client.delete_children(paths.LOG_DIR_EVENTS, names, context.epoch_version)

    def on_response(self, broker: int, response: ControlResponse) -> None:
        """A broker answered a LeaderAndIsr, with errors of partitions."""
        self._controller.put_event(f"LeaderAndIsr response of broker {broker}", lambda: self._process(broker, response))

    async def _process(self, broker: int, response: ControlResponse) -> None:
        controller, context = self._controller, self._controller.context
        if response.error != Error.NONE:
            return
        known = context.on_failed_dirs.setdefault(broker, {})
        offline = [p for p, error in response.partition_errors.items() if error == Error.KAFKA_STORAGE_ERROR]
        new = mutable_partitions([p for p in offline if p not in known], context.collections)
        known.update(dict.fromkeys(new))
        if new:
            rows = context.rows_of(new)
            brokers = np.full(len(rows), broker, dtype=np.int32)
            order = context.orders.of_replicas(rows, brokers)
            await controller.cluster.replicas_offline(rows[order], brokers)

    async def _brokers(self, names: list[str]) -> dict[int, None]:
        """The brokers that notifications are of."""
        found: dict[int, None] = {}
        client = self._controller.client
        wanted = [f"{paths.LOG_DIR_EVENTS}/{name}" for name in names]
        for path, reply in zip(wanted, await client.read_all(wanted), strict=True):
            if not reply.error:
                try:
                    found[log_dir_event.decode(path, data_of(reply), client.version.reading)] = None
                except NoJsonError as problem:
                    client.unusable(problem)
        return found
