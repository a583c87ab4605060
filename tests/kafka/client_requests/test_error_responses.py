"""Responses with one error."""

from __future__ import annotations

import random
from typing import Any

import pytest

from simzk.kafka.client_requests.error_responses import error_response
from simzk.kafka.protocol.classes import message_class, request_class
from simzk.kafka.protocol.codec import decode, encode
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.protocol.plain import from_plain, random_message, to_plain

VERSIONS = [
    (key, version)
    for key, accepted in accepted_versions(kafka_version("3.9").number).items()
    for version in range(99)
    if version in accepted
]
CODE = ErrorCode.UNSUPPORTED_VERSION


def items(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the structs of a response that have an error code."""
    if "ErrorCode" in response or "PartitionErrorCode" in response:
        return [response]
    arrays = [value for value in response.values() if isinstance(value, list)]
    return [found for array in arrays for item in array if isinstance(item, dict) for found in items(item)]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_request_has_an_error_response(key: int, version: int) -> None:
    kind = request_class(key)
    assert kind is not None
    request = random_message(random.Random(version), kind, version)
    response = error_response(request, version, CODE, "no")
    assert response is not None
    assert decode(type(response), version, encode(response, version)).SCHEMA is response.SCHEMA
    for item in items(to_plain(response, version)):
        assert item.get("ErrorCode", item.get("PartitionErrorCode")) == CODE
        assert item.get("ErrorMessage", "no") == "no"


@pytest.mark.parametrize(
    ("api", "version", "request_fields", "found"),
    [
        ("Produce", 9, {"TopicData": [{"Name": "a", "PartitionData": [{"Index": 4}]}]}, [{"Index": 4}]),
        ("Fetch", 4, {"Topics": [{"Topic": "a", "Partitions": [{"Partition": 4}]}]}, [{"PartitionIndex": 4}]),
        ("Fetch", 13, {"Topics": [{"Partitions": [{"Partition": 4}]}]}, [{"Responses": []}]),
        ("OffsetFetch", 1, {"Topics": [{"Name": "a", "PartitionIndexes": [4]}]}, [{"PartitionIndex": 4}]),
        ("OffsetFetch", 9, {"Groups": [{"GroupId": "g"}, {"GroupId": "h"}]}, [{"GroupId": "g"}, {"GroupId": "h"}]),
        ("FindCoordinator", 4, {"CoordinatorKeys": ["g"]}, [{"Key": "g", "ErrorMessage": "no"}]),
        ("DescribeConfigs", 4, {"Resources": [{"ResourceType": 4, "ResourceName": "1"}]}, [{"ResourceName": "1"}]),
        ("CreateAcls", 2, {"Creations": [{}, {}]}, [{"ErrorMessage": "no"}] * 2),
        ("AddPartitionsToTxn", 1, {"V3AndBelowTopics": [{"Name": "a", "Partitions": [4]}]}, [{"PartitionIndex": 4}]),
    ],
)
def test_an_error_names_what_the_request_names(
    api: str, version: int, request_fields: dict[str, Any], found: list[dict[str, Any]]
) -> None:
    request = from_plain(message_class(api + "Request"), request_fields)
    response = error_response(request, version, CODE, "no")
    assert response is not None
    made = items(to_plain(response, version))
    assert [{name: one[name] for name in wanted} for one, wanted in zip(made, found, strict=True)] == found
