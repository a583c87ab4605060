"""APIs that a broker lists: each has a handler, and two refuse."""

from __future__ import annotations

import pytest

import simzk
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.releases.versions import LINES, kafka_version
from tests.kafka.client_requests.memory_client import MemoryClient


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("config", [{}, {"authorizer.class.name": "x"}], ids=["open", "authorizer"])
def test_every_api_of_a_release_has_a_handler(line: str, config: dict[str, str]) -> None:
    if config and kafka_version(line).number < (0, 11):
        pytest.skip("no ACLs by request")
    with simzk.KafkaCluster(line, 1, config=config) as cluster:
        assert accepted_versions(kafka_version(line).number).keys() <= cluster.brokers[1].client_api.handlers.keys()


def test_the_new_group_protocol_is_refused_as_by_real_brokers() -> None:
    with simzk.KafkaCluster("3.9", 1) as cluster:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
        response = MemoryClient(cluster, 1).call(request, 0, ConsumerGroupHeartbeatResponse)
        assert (response.error_code, response.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
