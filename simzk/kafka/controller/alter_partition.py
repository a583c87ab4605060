"""What leaders ask of the controller, or tell it of: other ISRs (docs/reference/kafka.md §2.8; KIP-497, KIP-841).

Rules of the module (KafkaController.processAlterPartition, in the order of its checks):
  - a request of a broker that is not registered, or of an earlier life of it, is stale as a whole;
  - a partition is refused for epochs beyond the controller's (this is then no controller any more) or behind them; the
    state that stands already is a success; a member that is not live is ineligible;
  - what passes is written on condition of the version, without a new leader epoch;
  - up to 2.6 leaders write ISRs themselves, and announce them by znodes: the controller reads those partitions again,
    tells all brokers, and takes the znodes away, which it also does where no broker writes any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.jvm.scala_columns import places_in_order
from simzk.kafka import paths
from simzk.kafka.requests import (
    CODE_OF,
    AlteredPartitions,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Error,
    Proposals,
)
from simzk.kafka.schemas.admin import decode_isr_change
from simzk.kafka.schemas.reading import NoJsonError
from simzk.kafka.zookeeper_client.batches import data_of
from simzk.partitions.arrays import NONE, among, any_of, by_broker, sizes, widen
from simzk.partitions.row_order import as_they_lie
from simzk.partitions.states import States, no_states
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.kafka.controller.controller import KafkaController
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.row_order import Turns

_OUTRUN, _FAILED = CODE_OF[Error.INVALID_UPDATE_VERSION], CODE_OF[Error.UNKNOWN_SERVER_ERROR]
"""What becomes of a proposal whose znode was written meanwhile, or could not be written."""
_NO_LIFE = np.iinfo(np.int64).min
"""No broker's epoch."""


class IsrChanges:
    """Judges and writes what leaders propose."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    async def process(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Write the ISRs that can be written; the state that stands now, or an error, by partition."""
        broker = self._controller.context.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(Error.STALE_BROKER_EPOCH, {})
        asked = list({proposal.partition: proposal for proposal in request.proposals}.values())
        proposals = Proposals.of_one(request.broker_id, request.broker_epoch, asked)
        altered = await self.process_many(proposals, in_order=True)
        return AlterPartitionResponse(Error.NONE, altered.by_partition(proposals.partitions))

    async def process_many(self, proposals: Proposals, *, in_order: bool = False) -> AlteredPartitions:
        """As `process`, of many leaders.

        Args:
            proposals: k of them.
            in_order: whether that in which they come counts; of equal hashes else their names decide.
        """
        controller, context = self._controller, self._controller.context
        rows = context.table.find_all(proposals.partitions)
        states = context.table.states(np.maximum(rows, 0)) if len(context.table) else no_states(len(rows), 1)
        errors, stands = self._judge(rows, states, proposals)
        walked = np.flatnonzero((errors == 0) & ~stands)
        walked = walked[context.orders.places_in_map(rows[walked], in_order=in_order)]
        if context.scala != "2.13":  # the map of what is accepted; in 2.13 it iterates as that of what is asked
            walked = walked[context.orders.places_in_map(rows[walked])]
        accepted, turns = as_they_lie(walked)
        asked = proposals.at(accepted)
        after = States(
            leader=asked.leader,
            leader_epoch=asked.leader_epoch,
            isr=asked.isr,
            controller_epoch=np.full(len(accepted), context.epoch, dtype=np.int32),
            version=asked.version + np.int32(1),
            recovering=asked.recovering,
        )
        partitions = context.partitions(rows[accepted])
        codes = await controller.client.write_states(partitions, after, context.epoch_version, turns)
        errors[accepted] = np.where(codes == Code.BAD_VERSION, _OUTRUN, np.where(codes == Code.OK, 0, _FAILED))
        width = max(states.isr.shape[1], after.isr.shape[1])
        states = states._replace(isr=widen(states.isr, width))
        states.put(accepted, after._replace(isr=widen(after.isr, width)))
        await controller.refresh_leadership(self._read_again(rows[accepted], turns, codes == Code.OK))
        controller.send_metadata_of_rows(rows[rows >= 0])
        return AlteredPartitions(Error.NONE, errors, states)

    def _read_again(self, rows: IntArray, turns: Turns, done: BoolArray) -> IntArray:
        """The rows that were written, in the order in which they are read again; read as one they need none."""
        if self._controller.session.sends_batches:
            return rows[done]
        order = places_in_order(turns)
        return self._controller.context.orders.in_set(rows[order[done[order]]])

    async def process_notifications(self) -> None:
        """The children of `/isr_change_notification` changed; they go, also where one cannot be used."""
        controller, client = self._controller, self._controller.client
        names = await client.children(paths.ISR_CHANGES)
        try:
            await self._take_up(await self._announced(names))
        finally:
            await client.delete_children(paths.ISR_CHANGES, names, controller.context.epoch_version)

    async def _announced(self, names: list[str]) -> list[TopicPartition]:
        """The partitions that notifications name."""
        client = self._controller.client
        changed: list[TopicPartition] = []
        wanted = [f"{paths.ISR_CHANGES}/{name}" for name in names]
        for path, reply in zip(wanted, await client.read_all(wanted), strict=True):
            if not reply.error:
                try:
                    changed += decode_isr_change(path, data_of(reply), client.version.reading)
                except NoJsonError as problem:
                    client.unusable(problem)
        return changed

    async def _take_up(self, changed: list[TopicPartition]) -> None:
        controller, client = self._controller, self._controller.client
        if changed:
            await controller.refresh_leadership(controller.context.rows_of(changed))
            controller.send_metadata(changed)
        if client.version.broker.uses_alter_isr:  # else a watch on the state completes them (§2.11)
            for partition in [p for p in changed if p in controller.context.being_reassigned]:
                await controller.reassignments.maybe_complete(partition)

    def _judge(self, rows: IntArray, present: States, asked: Proposals) -> tuple[NDArray[np.int8], BoolArray]:
        """An error of each, 0 for none, and whether what is asked for is the state that stands."""
        context, strict = self._controller.context, self._controller.client.version.controller.validates_isr_changes
        known = (rows >= 0) & (present.version >= 0)
        width = max(asked.isr.shape[1], present.isr.shape[1])
        same_isr = ~any_of(widen(asked.isr, width) != widen(present.isr, width))
        stands = same_isr & (asked.leader == present.leader) & (asked.recovering == present.recovering)
        stands &= known
        ahead = (asked.version > present.version) | (asked.leader_epoch > present.leader_epoch)
        epochs = by_broker({broker: live.epoch for broker, live in context.brokers.items()}, _NO_LIFE)
        registered = epochs.take(np.where(asked.leader < len(epochs), asked.leader, NONE))
        checks = (
            (registered != asked.broker_epoch, Error.STALE_BROKER_EPOCH),
            (~known, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (ahead & strict, Error.NOT_CONTROLLER),
            (asked.leader_epoch < present.leader_epoch, Error.FENCED_LEADER_EPOCH),
            (stands, Error.NONE),
            ((asked.version < present.version) & strict, Error.INVALID_UPDATE_VERSION),
            (asked.recovering & ((sizes(asked.isr) > 1) | ~present.recovering), Error.INVALID_REQUEST),
            (any_of((asked.isr != NONE) & ~among(asked.isr, context.live_mask())) & strict, Error.INELIGIBLE_REPLICA),
        )
        errors = np.select([check for check, _ in checks], [np.int8(CODE_OF[error]) for _, error in checks], np.int8(0))
        return errors.astype(np.int8), stands
