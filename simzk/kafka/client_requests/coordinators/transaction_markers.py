"""WriteTxnMarkers of clients: what coordinators ask leaders for, and `kafka-transactions abort` (KIP-664).

Rules of this module (recorded 0.11 to 3.9):
  - it needs ClusterAction of the cluster, from 3.8 on Alter is enough. Otherwise each partition has the error;
  - a request without markers is answered with an empty response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.broker.transaction_markers import marker_partitions, marker_result
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from simzk.kafka.broker.transaction_markers import TransactionMarkers
    from simzk.kafka.client_requests.handlers import Answer, Context, ServingBroker
    from simzk.kafka.protocol.messages import WriteTxnMarkersRequest

WRITE_TXN_MARKERS = 27


def write_transaction_markers(
    broker: ServingBroker,
    markers: TransactionMarkers,
    context: Context,
    request: WriteTxnMarkersRequest,
    answer: Answer,
) -> None:
    """Append markers."""
    operations = ("Alter", "ClusterAction") if broker.version.api.alter_writes_markers else ("ClusterAction",)
    if any(broker.allows_on_cluster(operation, context.principal) for operation in operations):
        markers.serve(request, answer)
        return
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = [
        marker_result(one.producer_id, dict.fromkeys(marker_partitions(one), refused)) for one in request.markers
    ]
    answer(WriteTxnMarkersResponse(markers=results))
