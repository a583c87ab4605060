"""What leaders ask of the controller: other ISRs (docs/reference/kafka.md §2.8; KIP-497, KIP-841).

Rules of the module (KafkaController.processAlterPartition, in the order of its checks):
  - a request of a broker that is not registered, or of an earlier life of it, is stale as a whole;
  - a partition is refused for epochs beyond the controller's (this is then no controller any more) or behind them; the
    state that stands already is a success; a member that is not live is ineligible;
  - what passes is written on condition of the version, without a new leader epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.controller.scala_set import mutable_partitions, partition_set
from simzk.kafka.protocol import AlterPartitionRequest, AlterPartitionResponse, Error, IsrProposal
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition

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
        for partition in mutable_partitions(proposals, context.scala):
            verdict = self._judge(request.broker_id, proposals[partition])
            if isinstance(verdict, Error) or verdict == context.leadership(partition):
                results[partition] = verdict
            else:
                accepted[partition] = verdict
        ordered = {p: accepted[p] for p in mutable_partitions(accepted, context.scala)}
        outcome = await controller.client.write_states(ordered, context.epoch_version)
        results |= outcome.written
        results |= dict.fromkeys(outcome.retry, Error.INVALID_UPDATE_VERSION)
        results |= dict.fromkeys(outcome.failed, Error.UNKNOWN_SERVER_ERROR)
        await controller.refresh_leadership(list(partition_set(outcome.written, context.scala)))
        controller.send_metadata(list(proposals))
        return AlterPartitionResponse(Error.NONE, results)

    def _judge(self, broker: int, proposal: IsrProposal) -> LeaderAndIsr | Error:
        """An error, the present state where it is what is asked for, or the state to write."""
        context = self._controller.context
        present = context.leadership(proposal.partition)
        if present is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if proposal.version > present.version or proposal.leader_epoch > present.leader_epoch:
            return Error.NOT_CONTROLLER
        if proposal.leader_epoch < present.leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        wanted = (broker, proposal.isr, proposal.recovering)
        if wanted == (present.leader, present.isr, present.recovering):
            return present
        if proposal.version < present.version:
            return Error.INVALID_UPDATE_VERSION
        if proposal.recovering and (len(proposal.isr) > 1 or not present.recovering):
            return Error.INVALID_REQUEST
        if not all(context.is_live(member) for member in proposal.isr):
            return Error.INELIGIBLE_REPLICA
        return LeaderAndIsr(
            leader=broker,
            leader_epoch=proposal.leader_epoch,
            isr=proposal.isr,
            controller_epoch=context.epoch,
            version=present.version + 1,
            recovering=proposal.recovering,
        )
