"""InitProducerId: identities of idempotent producers (KIP-98).

Rules of this module (TransactionCoordinator.handleInitProducerId; recorded 0.11 to 3.9):
  - without a transactional id every request gets a new producer id, with epoch 0, whatever ids it names;
  - an empty transactional id is INVALID_REQUEST; requests with another one are for the transaction coordinator;
  - a request with a producer id but no epoch, or the other way round, is INVALID_REQUEST (KIP-360).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.kafka.client_requests.serving_broker import ClientApi
from simzk.kafka.coordinator.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import InitProducerIdResponse

if TYPE_CHECKING:
    from simzk.kafka.broker.producer_ids import ProducerIds
    from simzk.kafka.client_requests.broker_api import Answer, Context, Handler
    from simzk.kafka.protocol.messages import InitProducerIdRequest

INIT_PRODUCER_ID = 22


@dataclass(eq=False)
class ProducerIdsApi(ClientApi):
    """InitProducerId requests to one broker.

    Args:
        ids: its producer ids.
        transactional: handles requests with a transactional id.
    """

    ids: ProducerIds
    transactional: Handler

    @property
    def handlers(self) -> dict[int, Handler]:
        """The handlers by API key."""
        return {INIT_PRODUCER_ID: self.serve}

    def serve(self, context: Context, request: InitProducerIdRequest, answer: Answer) -> None:
        """Answer InitProducerId."""
        is_whole = (request.producer_id == NO_PRODUCER_ID) == (request.producer_epoch == NO_PRODUCER_EPOCH)
        if request.transactional_id and is_whole:
            self.transactional(context, request, answer)
            return
        if request.transactional_id is not None or not is_whole:
            answer(InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1))
            return

        def respond(producer_id: int | None) -> None:
            if producer_id is None:
                code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                answer(InitProducerIdResponse(error_code=code, producer_epoch=-1))
            else:
                answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

        self.ids.take(respond, waits=self.broker.version.api.waits_for_producer_ids)
