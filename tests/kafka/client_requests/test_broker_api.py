"""APIs that a broker lists and does not serve."""

from __future__ import annotations

import simzk
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.kafka.client_requests.memory_client import MemoryClient


def test_the_new_group_protocol_is_refused_as_by_real_brokers() -> None:
    with simzk.KafkaCluster("3.9", 1) as cluster:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
        response = MemoryClient(cluster, 1).call(request, 0, ConsumerGroupHeartbeatResponse)
        assert (response.error_code, response.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
        assert not any(event.what == "cannot answer" for event in cluster.history)
