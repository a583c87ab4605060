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

from simzk.kafka import paths
from simzk.kafka.controller.scala_set import mutable_partitions, partition_set
from simzk.kafka.protocol import AlterPartitionRequest, AlterPartitionResponse, Error, IsrProposal
from simzk.kafka.schemas.admin import decode_isr_change
from simzk.kafka.schemas.reading import NoJsonError
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.kafka.zk_client import data_of

if TYPE_CHECKING:
    from simzk.kafka.controller.controller import KafkaController


class IsrChanges:
    """Judges and writes what leaders propose."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    async def process(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Write the ISRs that can be written; the state that stands now, or an error, by partition."""
        controller, context = self._controller, self._controller.context
        broker = context.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(Error.STALE_BROKER_EPOCH, {})
        results: dict[TopicPartition, LeaderAndIsr | Error] = {}
        accepted: dict[TopicPartition, LeaderAndIsr] = {}
        proposals = {proposal.partition: proposal for proposal in request.proposals}
        for partition in mutable_partitions(proposals, context.collections):
            verdict = self._judge(request.broker_id, proposals[partition])
            if isinstance(verdict, Error) or verdict == context.leadership(partition):
                results[partition] = verdict
            else:
                accepted[partition] = verdict
        ordered = {p: accepted[p] for p in mutable_partitions(accepted, context.collections)}
        outcome = await controller.client.write_states(ordered, context.epoch_version)
        results |= outcome.written
        results |= dict.fromkeys(outcome.retry, Error.INVALID_UPDATE_VERSION)
        results |= dict.fromkeys(outcome.failed, Error.UNKNOWN_SERVER_ERROR)
        await controller.refresh_leadership(list(partition_set(outcome.written, context.collections)))
        controller.send_metadata(list(proposals))
        return AlterPartitionResponse(Error.NONE, results)

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
            await controller.refresh_leadership(changed)
            controller.send_metadata(changed)
        if client.version.isr_by_controller:  # else a watch on the state completes them (§2.11)
            for partition in [p for p in changed if p in controller.context.being_reassigned]:
                await controller.reassignments.maybe_complete(partition)

    def _judge(self, broker: int, proposal: IsrProposal) -> LeaderAndIsr | Error:
        """An error, the present state where it is what is asked for, or the state to write."""
        context = self._controller.context
        present = context.leadership(proposal.partition)
        if present is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        strict = self._controller.client.version.judges_isr
        if strict and (proposal.version > present.version or proposal.leader_epoch > present.leader_epoch):
            return Error.NOT_CONTROLLER
        if proposal.leader_epoch < present.leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        wanted = (broker, proposal.isr, proposal.recovering)
        if wanted == (present.leader, present.isr, present.recovering):
            return present
        if strict and proposal.version < present.version:
            return Error.INVALID_UPDATE_VERSION
        if proposal.recovering and (len(proposal.isr) > 1 or not present.recovering):
            return Error.INVALID_REQUEST
        if strict and not all(context.is_live(member) for member in proposal.isr):
            return Error.INELIGIBLE_REPLICA
        return LeaderAndIsr(
            leader=broker,
            leader_epoch=proposal.leader_epoch,
            isr=proposal.isr,
            controller_epoch=context.epoch,
            version=proposal.version + 1,
            recovering=proposal.recovering,
        )
