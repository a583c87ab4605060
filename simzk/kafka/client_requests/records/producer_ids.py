"""InitProducerId: identities of idempotent producers (KIP-98).

Rules of this module (TransactionCoordinator.handleInitProducerId; recorded 0.11 to 3.9):
  - without a transactional id every request gets a new producer id, with epoch 0, whatever ids it names;
  - an empty transactional id is INVALID_REQUEST; requests with another one are for the transaction coordinator;
  - a request with a producer id but no epoch, or the other way round, is INVALID_REQUEST (KIP-360).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.coordinator.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import InitProducerIdResponse

if TYPE_CHECKING:
    from simzk.kafka.broker.producer_ids import ProducerIds
    from simzk.kafka.client_requests.handlers import Answer, Context, Handler, ServingBroker
    from simzk.kafka.protocol.messages import InitProducerIdRequest

INIT_PRODUCER_ID = 22


def init_producer_id(
    broker: ServingBroker,
    ids: ProducerIds,
    transactional: Handler,
    context: Context,
    request: InitProducerIdRequest,
    answer: Answer,
) -> None:
    """Answer InitProducerId.

    Args:
        broker, context, request, answer: as of every handler.
        ids: the broker's producer ids.
        transactional: handles requests with a transactional id.
    """
    is_whole = (request.producer_id == NO_PRODUCER_ID) == (request.producer_epoch == NO_PRODUCER_EPOCH)
    if request.transactional_id and is_whole:
        transactional(context, request, answer)
        return
    if request.transactional_id is not None or not is_whole:
        answer(InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1))
        return

    def respond(producer_id: int | None) -> None:
        if producer_id is None:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            answer(InitProducerIdResponse(error_code=code, producer_epoch=-1))
        else:
            assert producer_id >= 0, f"{producer_id} identifies no producer"
            answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    ids.take(respond, waits=broker.version.api.waits_for_producer_ids)
