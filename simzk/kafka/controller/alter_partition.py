"""ISR changes that partition leaders request or announce (docs/reference/kafka.md §2.8; KIP-497, KIP-841).

Rules of the module (KafkaController.processAlterPartition, in the order of its checks):
  - a request of a broker that is not registered, or with another broker epoch, is rejected as a whole;
  - a proposal is rejected if its epochs are ahead of the controller's (this controller was replaced) or behind them, or
    if an ISR member is not live; a proposal of the present state succeeds without a write;
  - accepted proposals are written on condition of the version, without a new leader epoch;
  - up to 2.6 leaders write ISRs themselves and announce them by sequential znodes: the controller reads those states
    again, sends them to all brokers, and deletes the znodes. Later controllers still do so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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
from simzk.kafka.schemas.json_text import NoJsonError
from simzk.kafka.zookeeper_client.session import data_of
from simzk.partitions.arrays import NONE, among, any_of, by_broker, sizes, widen
from simzk.partitions.states import States, no_states
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.kafka.controller.channels import ControllerChannelManager
    from simzk.kafka.controller.context import ControllerContext
    from simzk.kafka.controller.reassignment import Reassignments
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_client.zk_client import KafkaZooKeeperClient
    from simzk.partitions.arrays import BoolArray, IntArray

_OUTDATED, _FAILED = CODE_OF[Error.INVALID_UPDATE_VERSION], CODE_OF[Error.UNKNOWN_SERVER_ERROR]
"""Results of a write that came after another write of the znode, and of one that failed otherwise."""
_NOT_REGISTERED = np.iinfo(np.int64).min
"""Less than any broker epoch."""


@dataclass(eq=False)
class IsrChanges:
    """ISR changes by partition leaders."""

    _context: ControllerContext
    _client: KafkaZooKeeperClient
    _channels: ControllerChannelManager
    _reassignments: Reassignments

    async def process(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Handle a request of one leader, and return the new state or an error by partition."""
        broker = self._context.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(Error.STALE_BROKER_EPOCH, {})
        asked = list({proposal.partition: proposal for proposal in request.proposals}.values())
        proposals = Proposals.of_one(request.broker_id, request.broker_epoch, asked)
        altered = await self.process_many(proposals, in_order=True)
        return AlterPartitionResponse(Error.NONE, altered.by_partition(proposals.partitions))

    async def process_many(self, proposals: Proposals, *, in_order: bool = False) -> AlteredPartitions:
        """Handle proposals of many leaders.

        Args:
            proposals: k proposals of distinct partitions.
            in_order: whether partitions with equal hashes are written in the order of `proposals`; otherwise by name,
                because proposals of many leaders have no order that Kafka defines.
        """
        context = self._context
        rows = context.table.find_all(proposals.partitions)
        states = context.table.states(np.maximum(rows, 0)) if len(context.table) else no_states(len(rows), 1)
        errors, is_present = self._validate(rows, states, proposals)
        accepted = np.flatnonzero((errors == 0) & ~is_present)
        accepted = accepted[context.order.positions_in_map(rows[accepted], in_order=in_order)]
        if context.scala != "2.13":  # the map of accepted proposals; in 2.13 it has the order of the map of all
            accepted = accepted[context.order.positions_in_map(rows[accepted])]
        asked = proposals.at(accepted)
        after = States(
            leader=asked.leader,
            leader_epoch=asked.leader_epoch,
            isr=asked.isr,
            controller_epoch=np.full(len(accepted), context.epoch, dtype=np.int32),
            version=asked.version + np.int32(1),
            recovering=asked.recovering,
        )
        partitions = context.table.partitions(rows[accepted])
        codes = await self._client.write_states(partitions, after, context.epoch_version)
        errors[accepted] = np.where(codes == Code.BAD_VERSION, _OUTDATED, np.where(codes == Code.OK, 0, _FAILED))
        width = max(states.isr.shape[1], after.isr.shape[1])
        states = states._replace(isr=widen(states.isr, width))
        states.put(accepted, after._replace(isr=widen(after.isr, width)))
        await read_states(context, self._client, context.order.in_set(rows[accepted][codes == Code.OK]))
        self._channels.send_metadata_of_rows(rows[rows >= 0])
        return AlteredPartitions(Error.NONE, errors, states)

    async def process_notifications(self) -> None:
        """Handle a change of the children of `/isr_change_notification`; all are deleted, also unusable ones."""
        client = self._client
        names = await client.children(paths.ISR_CHANGES)
        try:
            await self._update(await self._announced(names))
        finally:
            await client.delete_children(paths.ISR_CHANGES, names, self._context.epoch_version)

    async def _announced(self, names: list[str]) -> list[TopicPartition]:
        """Read the partitions that notifications name."""
        client = self._client
        changed: list[TopicPartition] = []
        wanted = [f"{paths.ISR_CHANGES}/{name}" for name in names]
        for path, reply in zip(wanted, await client.read_all(wanted), strict=True):
            if not reply.error:
                try:
                    changed += decode_isr_change(path, data_of(reply), client.version.reading)
                except NoJsonError as problem:
                    client.unusable(problem)
        return changed

    async def _update(self, changed: list[TopicPartition]) -> None:
        context = self._context
        if changed:
            await read_states(context, self._client, context.rows_of(changed))
            self._channels.send_metadata(changed)
        if self._client.version.broker.uses_alter_isr:  # otherwise a watch on the state completes reassignments (§2.11)
            for partition in [p for p in changed if p in context.being_reassigned]:
                await self._reassignments.maybe_complete(partition)

    def _validate(self, rows: IntArray, present: States, asked: Proposals) -> tuple[NDArray[np.int8], BoolArray]:
        """Return an error code by proposal, 0 for none, and whether it proposes the present state."""
        context, strict = self._context, self._client.version.controller.validates_isr_changes
        known = (rows >= 0) & (present.version >= 0)
        width = max(asked.isr.shape[1], present.isr.shape[1])
        same_isr = ~any_of(widen(asked.isr, width) != widen(present.isr, width))
        is_present = same_isr & (asked.leader == present.leader) & (asked.recovering == present.recovering)
        is_present &= known
        ahead = (asked.version > present.version) | (asked.leader_epoch > present.leader_epoch)
        epochs = by_broker({broker: live.epoch for broker, live in context.brokers.items()}, _NOT_REGISTERED)
        registered = epochs.take(np.where(asked.leader < len(epochs), asked.leader, NONE))
        checks = (
            (registered != asked.broker_epoch, Error.STALE_BROKER_EPOCH),
            (~known, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (ahead & strict, Error.NOT_CONTROLLER),
            (asked.leader_epoch < present.leader_epoch, Error.FENCED_LEADER_EPOCH),
            (is_present, Error.NONE),
            ((asked.version < present.version) & strict, Error.INVALID_UPDATE_VERSION),
            (asked.recovering & ((sizes(asked.isr) > 1) | ~present.recovering), Error.INVALID_REQUEST),
            (any_of((asked.isr != NONE) & ~among(asked.isr, context.live_mask())) & strict, Error.INELIGIBLE_REPLICA),
        )
        errors = np.select([check for check, _ in checks], [np.int8(CODE_OF[error]) for _, error in checks], np.int8(0))
        return errors.astype(np.int8), is_present


async def read_states(context: ControllerContext, client: KafkaZooKeeperClient, rows: IntArray) -> None:
    """Read partition states into the cache (updateLeaderAndIsrCache), in the order of `rows`."""
    states = await client.states(context.table.partitions(rows))
    exists = states.version >= 0
    context.table.put_all(rows[exists], states.where(exists))
