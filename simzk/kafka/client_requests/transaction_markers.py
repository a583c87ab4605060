"""WriteTxnMarkers of clients: what coordinators ask leaders for, and `kafka-transactions abort` (KIP-664).

Rules of this module (recorded 0.11 to 3.9):
  - it needs ClusterAction of the cluster, from 3.8 on Alter is enough. Otherwise each partition has the error;
  - a request without markers is answered with an empty response.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.kafka.broker.transaction_markers import marker_partitions, marker_result
from simzk.kafka.client_requests.serving_broker import ClientApi
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from simzk.kafka.broker.transaction_markers import TransactionMarkers
    from simzk.kafka.client_requests.broker_api import Answer, Context, Handler
    from simzk.kafka.protocol.messages import WriteTxnMarkersRequest

WRITE_TXN_MARKERS = 27


@dataclass(eq=False)
class TransactionMarkersApi(ClientApi):
    """WriteTxnMarkers requests of clients to one broker.

    Args:
        markers: appends the markers.
    """

    markers: TransactionMarkers

    @property
    def handlers(self) -> dict[int, Handler]:
        """The handlers by API key."""
        return {WRITE_TXN_MARKERS: self.serve}

    def serve(self, context: Context, request: WriteTxnMarkersRequest, answer: Answer) -> None:
        """Append markers."""
        operations = ("Alter", "ClusterAction") if self.broker.version.api.alter_writes_markers else ("ClusterAction",)
        if any(self.broker.allows_on_cluster(operation, context.principal) for operation in operations):
            self.markers.serve(request, answer)
            return
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        results = [
            marker_result(one.producer_id, dict.fromkeys(marker_partitions(one), refused)) for one in request.markers
        ]
        answer(WriteTxnMarkersResponse(markers=results))
