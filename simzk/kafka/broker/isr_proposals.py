"""The leader's proposals of ISRs on their way to the controller (AlterPartitionManager; KIP-497).

Rules of the module:
  - one request under way a broker; what is proposed meanwhile goes with the next;
  - a request that the controller could not serve is sent again after 50 ms, to whoever is controller then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.requests import AlterPartitionRequest, AlterPartitionResponse, Error, IsrProposal
from simzk.kafka.rpc import Connections, Disconnected
from simzk.simulation import History, Process, Queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.metadata_cache import MetadataCache
    from simzk.kafka.broker.replica_manager import ReplicaManager
    from simzk.kafka.topic_partition import TopicPartition

RETRY_PAUSE_US = 50_000


class IsrProposals:
    """Sends proposals, in batches, until each is answered."""

    def __init__(
        self,
        process: Process,
        connections: Connections,
        broker_id: int,
        *,
        broker_epoch: Callable[[], int],
        metadata: MetadataCache,
        history: History,
    ) -> None:
        self._process = process
        self._connections = connections
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._metadata = metadata
        self._history = history
        self._unsent: dict[TopicPartition, IsrProposal] = {}
        self._signal: Queue[None] = Queue()
        self.replicas: ReplicaManager | None = None
        process.spawn(self._run(), "ISR proposals")

    @property
    def unsent(self) -> bool:
        """Whether something is still to be announced: never, the controller tells all brokers."""
        return False

    def propose(self, proposal: IsrProposal) -> None:
        """Ask the controller for another ISR; a later proposal for the same partition takes the place of an earlier."""
        self._unsent[proposal.partition] = proposal
        if not len(self._signal):
            self._signal.put(None)

    async def _run(self) -> None:
        while True:
            await self._signal.get()
            while self._unsent:
                batch, self._unsent = self._unsent, {}
                response = await self._send(tuple(batch.values()))
                if response is None or response.error != Error.NONE:
                    self._unsent = batch | self._unsent
                    await self._process.sleep(RETRY_PAUSE_US)
                    continue
                if self._take(batch, response):
                    await self._process.sleep(RETRY_PAUSE_US)

    async def _send(self, proposals: tuple[IsrProposal, ...]) -> AlterPartitionResponse | None:
        controller = self._metadata.controller_id
        if controller is None:
            return None
        request = AlterPartitionRequest(self._broker_id, self._broker_epoch(), proposals)
        try:
            response: AlterPartitionResponse = await self._connections.call(
                self._process, f"broker {controller}", request
            )
        except Disconnected:
            return None
        return response

    def _take(self, batch: dict[TopicPartition, IsrProposal], response: AlterPartitionResponse) -> bool:
        """Hand the results on; whether something is to be sent again."""
        assert self.replicas is not None
        again = False
        for partition, proposal in batch.items():
            result = response.results.get(partition, Error.UNKNOWN_SERVER_ERROR)
            if isinstance(result, Error):
                who, asked = f"broker {self._broker_id}", f"isr {list(proposal.isr)}"
                self._history.record(who, "ISR change refused", str(partition), asked, result.value)
            if self.replicas.proposal_done(proposal, result):
                self._unsent.setdefault(partition, proposal)
                again = True
        return again
