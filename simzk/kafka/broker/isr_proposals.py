"""ISR changes that leaders propose to the controller (AlterPartitionManager, Partition; KIP-497).

Rules of this module:
  - one request per broker is in flight; later proposals go with the next request;
  - a request that fails as a whole is sent again after 50 ms, to the controller of that time;
  - the error of a partition decides about a retry (`outcome_of`; Partition.handleAlterPartitionError).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from simzk.kafka.requests import AlterPartitionRequest, AlterPartitionResponse, Error, IsrProposal
from simzk.kafka.rpc import Connections, Disconnected
from simzk.simulation import History, Process, Queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.metadata_cache import MetadataCache
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition

RETRY_PAUSE_US = 50_000


class Outcome(IntEnum):
    """Reaction of a leader to the result of its proposal."""

    COMMITTED = 0
    """The controller wrote the ISR."""
    RETRY = 1
    """The proposal is sent again."""
    REVERTED = 2
    """The controller did not write it: the leader returns to the committed ISR and may propose again."""
    PENDING = 3
    """Whether it was written is unknown: the leader proposes nothing more until the next LeaderAndIsr."""


_OUTCOMES = {
    Error.NONE: Outcome.COMMITTED,
    Error.INELIGIBLE_REPLICA: Outcome.REVERTED,
    Error.FENCED_LEADER_EPOCH: Outcome.PENDING,
    Error.INVALID_UPDATE_VERSION: Outcome.PENDING,
    Error.UNKNOWN_TOPIC_OR_PARTITION: Outcome.PENDING,
    Error.INVALID_REQUEST: Outcome.PENDING,
}


def outcome_of(error: Error) -> Outcome:
    """Return how a leader reacts to an error; it retries after every error that has no rule of its own.

    >>> [outcome_of(error).name for error in (Error.NOT_CONTROLLER, Error.REQUEST_TIMED_OUT, Error.INVALID_REQUEST)]
    ['RETRY', 'RETRY', 'PENDING']
    """
    return _OUTCOMES.get(error, Outcome.RETRY)


class IsrProposals:
    """Sends the proposals of one broker in batches, until each has a result.

    Args:
        process: the broker's process.
        connections: the way to the controller.
        broker_id: the broker's id.
        broker_epoch: returns the broker's epoch.
        metadata: the broker's metadata cache, which names the controller.
        history: records refused proposals.
        on_result: called with each proposal and its result; returns the outcome.
    """

    def __init__(
        self,
        process: Process,
        connections: Connections,
        broker_id: int,
        *,
        broker_epoch: Callable[[], int],
        metadata: MetadataCache,
        history: History,
        on_result: Callable[[IsrProposal, LeaderAndIsr | Error], Outcome],
    ) -> None:
        self._process = process
        self._connections = connections
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._metadata = metadata
        self._history = history
        self._on_result = on_result
        self._unsent: dict[TopicPartition, IsrProposal] = {}
        self._signal: Queue[None] = Queue()
        process.spawn(self._run(), "ISR proposals")

    def start(self) -> None:
        """Do nothing: there are no announcements, the controller informs all brokers."""

    @property
    def has_unannounced_changes(self) -> bool:
        """Always false: the controller informs all brokers."""
        return False

    def propose(self, proposal: IsrProposal) -> None:
        """Propose an ISR; a later proposal for the same partition replaces an unsent one."""
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
                if self._handle(batch, response):
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

    def _handle(self, batch: dict[TopicPartition, IsrProposal], response: AlterPartitionResponse) -> bool:
        """Handle the result of each proposal; return whether any is to be retried."""
        retries = False
        for partition, proposal in batch.items():
            result = response.results.get(partition, Error.UNKNOWN_SERVER_ERROR)
            if isinstance(result, Error):
                actor, proposed = f"broker {self._broker_id}", f"isr {list(proposal.isr)}"
                self._history.record(actor, "ISR change refused", str(partition), proposed, result.value)
            if self._on_result(proposal, result) == Outcome.RETRY:
                self._unsent.setdefault(partition, proposal)
                retries = True
        return retries
