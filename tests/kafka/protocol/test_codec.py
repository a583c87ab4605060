"""Frames of requests and responses, their headers, and the errors for bytes and values that do not fit."""

from __future__ import annotations

import pickle

import pytest

from simzk.errors import SimzkError
from simzk.kafka.protocol import messages
from simzk.kafka.protocol.codec import (
    decode,
    decode_request,
    decode_request_header,
    decode_response,
    encode,
    encode_request,
    encode_response,
)
from simzk.kafka.protocol.messages import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ControlledShutdownRequest,
    DescribeTopicPartitionsResponse,
    FetchRequest,
    FetchResponse,
    LeaderAndIsrRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    SaslHandshakeResponse,
)
from simzk.kafka.protocol.structs import Message, ProtocolError, UnsupportedVersionError

TOPIC_ID = "Q39C5OqCT7umaaUtMY7s4g"


def metadata_of(*topics: str | None) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics])


@pytest.mark.parametrize(
    ("body", "version", "header"),
    [
        (ControlledShutdownRequest(broker_id=1), 0, "0007 0000 00000007"),
        (ControlledShutdownRequest(broker_id=1), 1, "0007 0001 00000007 0001 63"),
        (MetadataRequest(topics=None), 1, "0003 0001 00000007 0001 63"),
        (MetadataRequest(topics=None), 9, "0003 0009 00000007 0001 63 00"),
        (ApiVersionsRequest(), 3, "0012 0003 00000007 0001 63 00"),
    ],
)
def test_the_version_of_a_request_decides_its_header(body: Message, version: int, header: str) -> None:
    frame = encode_request(body, version, correlation_id=7, client_id="c")
    assert frame == bytes.fromhex(header) + encode(body, version)
    request = decode_request(frame)
    assert (request.header.correlation_id, request.body) == (7, body)


def test_api_versions_is_answered_with_the_oldest_header() -> None:
    response = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=4)])
    frame = encode_response(response, 0, correlation_id=5)
    assert frame.hex() == "00000005" + "0023" + "00000001" + "0012" + "0000" + "0004"
    assert decode_response(ApiVersionsResponse, 4, frame) == (5, 0, response)
    newer = ApiVersionsResponse(zk_migration_ready=True)
    assert decode_response(ApiVersionsResponse, 3, encode_response(newer, 3, correlation_id=6)) == (6, 3, newer)


def test_a_null_client_id_and_bytes_after_the_body_are_accepted() -> None:
    frame = encode_request(metadata_of("a"), 1, correlation_id=1, client_id=None) + b"xyz"
    request = decode_request(memoryview(frame))
    assert (request.header.client_id, request.body) == (None, metadata_of("a"))
    with pytest.raises(ProtocolError, match="MetadataRequest v1 at byte 7: 3 bytes are left after the message"):
        decode(MetadataRequest, 1, encode(metadata_of("a"), 1) + b"xyz")


def test_records_are_views_of_the_frame() -> None:
    part = FetchResponse.PartitionData(partition_index=1, records=b"batches")
    response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[part])])
    frame = encode(response, 4)
    (topic,) = decode(FetchResponse, 4, frame).responses
    records = topic.partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert bytes(records) == b"batches"


def test_unknown_tags_survive() -> None:
    request = MetadataRequest(topics=[], unknown_tags={200: b"new", 3: b""})
    data = encode(request, 9)
    assert data.hex() == "0101000002" + "0300" + "c80103" + b"new".hex()
    assert decode(MetadataRequest, 9, data) == request
    with pytest.raises(ProtocolError, match="v8: the version has no tagged fields, and unknown ones are set"):
        encode(request, 8)
    partition = FetchResponse.PartitionData(
        current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=2), unknown_tags={7: b"x", 0: b"y"}
    )
    topics = [FetchResponse.FetchableTopicResponse(partitions=[partition])]
    with pytest.raises(ProtocolError, match="null in a field that is not nullable"):
        encode(FetchResponse(responses=[None]), 12)  # type: ignore[list-item]
    assert b"\x03\x00\x01y" in encode(FetchResponse(responses=topics), 12)  # tags in ascending order


def test_a_tagged_field_with_its_default_is_not_written() -> None:
    assert encode(FetchRequest(cluster_id=None), 12) == encode(FetchRequest(), 12)
    assert len(encode(FetchRequest(cluster_id="c"), 12)) == len(encode(FetchRequest(), 12)) + 4
    state = FetchRequest.ReplicaState(replica_id=1)
    assert decode(FetchRequest, 15, encode(FetchRequest(replica_state=state), 15)).replica_state == state


def test_the_size_of_a_known_tag_is_ignored() -> None:
    """As Kafka does: the value says where it ends."""
    data = bytes.fromhex("00" * 25 + "010101" + "01 00 63 0261")
    assert decode(FetchRequest, 12, data).cluster_id == "a"


def test_a_nullable_struct() -> None:
    cursor = DescribeTopicPartitionsResponse.Cursor(topic_name="t", partition_index=2)
    for value in (None, cursor):
        response = DescribeTopicPartitionsResponse(next_cursor=value)
        assert decode(DescribeTopicPartitionsResponse, 0, encode(response, 0)) == response


def test_text_that_is_not_utf_8_becomes_what_java_makes_of_it() -> None:
    data = bytes.fromhex("0000000000010003eda080")
    assert decode(SaslHandshakeResponse, 0, data).mechanisms == ["\ufffd"]


def test_structs_are_values() -> None:
    one, other = metadata_of("a"), metadata_of("a")
    assert one == other
    assert one != metadata_of("b")
    assert MetadataRequest(topics=()) == MetadataRequest(topics=[])
    assert one != MetadataRequest.MetadataRequestTopic(name="a")
    assert repr(MetadataRequest.MetadataRequestTopic(name="a")) == (
        "MetadataRequest.MetadataRequestTopic(topic_id='AAAAAAAAAAAAAAAAAAAAAA', name='a')"
    )
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError):
        hash(one)
    with pytest.raises(AttributeError, match="Kafka has no message NoRequest"):
        messages.NoRequest  # type: ignore[attr-defined]  # noqa: B018
    assert "FetchRequest" in dir(messages)


@pytest.mark.parametrize(
    ("kind", "version", "data", "expected"),
    [
        (MetadataRequest, 1, "", "MetadataRequest v1, Topics at byte 0: the message ends too early"),
        (MetadataRequest, 0, "fffffffb", "MetadataRequest v0, Topics at byte 4: negative length -5"),
        (MetadataRequest, 0, "ffffffff", "Topics at byte 4: null in a field that is not nullable"),
        (MetadataRequest, 0, "7ffffff0", "Topics at byte 4: length 2147483632, but 0 bytes are left"),
        (MetadataRequest, 0, "00000002 0001 61 0032 616263",
         "Topics[1].Name at byte 9: length 50, but 3 bytes are left"),
        (MetadataRequest, 9, "ffffffffff00", "Topics at byte 0: a varint has more than 5 bytes"),
        (MetadataRequest, 9, "81808080", "Topics at byte 0: the message ends too early"),
        (LeaderAndIsrRequest, 0, "00000001 000000", "ControllerEpoch at byte 4: the message ends too early"),
        (LeaderAndIsrRequest, 0, "00000001 00000001 00000001 0000" + "00000000" * 4 + "00000002 00000001",
         "UngroupedPartitionStates[0].Isr at byte 34: length 2, but 4 bytes are left"),
        (FetchResponse, 12, "00000000 0000 00000000 01 01 07 05 01", "v12 at byte 13: length 5, but 1 bytes are left"),
        (FetchResponse, 12, "00000000 0000 00000000 01 01 00 01 01", "NodeEndpoints at byte 13: tag 0 belongs to"),
        (FetchResponse, 12, "00000000 0000 00000000 8080808078", "Responses at byte 15: length 2147483647, but"),
        (FetchRequest, 12, "00" * 25 + "010101" + "01 00 03 05 6161",
         "ClusterId at byte 32: length 4, but 2 bytes are left"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_message(kind: type[Message], version: int, data: str, expected: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode(kind, version, bytes.fromhex(data))
    assert expected in str(raised.value)
    assert isinstance(raised.value, SimzkError)
    assert (raised.value.message, raised.value.version) == (kind.MESSAGE.name, version)


def partition_state(**values: object) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(**values)  # type: ignore[arg-type]
    return LeaderAndIsrRequest(ungrouped_partition_states=[LeaderAndIsrRequest.LeaderAndIsrPartitionState(), state])


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (metadata_of("a", None), 1, "MetadataRequest v1, Topics[1].Name: null in a field that is not nullable"),
        (metadata_of("a" * 40_000), 1, "Topics[0].Name: 40000 is no int16"),
        (metadata_of("a" * 40_000), 9, "Topics[0].Name: a string of 40000 bytes; the longest has 32767"),
        (MetadataRequest(topics=None), 0, "Topics: null in a field that is not nullable"),
        (MetadataRequest(topics=[], allow_auto_topic_creation=False), 3, "AllowAutoTopicCreation: the version lacks"),
        (partition_state(leader=1 << 31), 0, "UngroupedPartitionStates[1].Leader: 2147483648 is no int32"),
        (partition_state(leader="one"), 0, "UngroupedPartitionStates[1].Leader: 'one' is no int32"),
        (partition_state(isr=[1, 2, 1 << 40]), 0, "UngroupedPartitionStates[1].Isr[2]: 1099511627776 is no int32"),
        (partition_state(isr=[*range(100), None]), 0, "UngroupedPartitionStates[1].Isr[100]: None is no int32"),
        (MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(topic_id="no")]), 10,
         "Topics[0].TopicId: 'no' is not a UUID of 22 characters in base64"),
        (ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(partition_data=[
            ProduceRequest.PartitionProduceData(records="text")])]), 3, "a field of type bytes or records"),  # type: ignore[arg-type]
        (AddPartitionsToTxnRequest(), 99, "AddPartitionsToTxnRequest v99: the version does not exist"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(message: Message, version: int, expected: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        encode(message, version)
    assert expected in str(raised.value)


def test_an_ignorable_field_is_dropped_by_a_version_that_lacks_it() -> None:
    topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=TOPIC_ID)
    data = encode(MetadataResponse(topics=[topic], cluster_id="c"), 1)
    assert decode(MetadataResponse, 1, data).cluster_id is None


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("", "RequestHeader at byte 0: the frame has 0 bytes"),
        ("000300", "RequestHeader at byte 0: the frame has 3 bytes"),
        ("0003000000", "RequestHeader v1, CorrelationId at byte 4: the message ends too early"),
        ("00030009 00000001 ffff", "RequestHeader v2 at byte 10: the message ends too early"),
    ],
)
def test_headers_that_end_too_early(frame: str, expected: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode_request(bytes.fromhex(frame))
    assert expected in str(raised.value)


def test_an_unknown_api_key_and_an_unknown_version() -> None:
    with pytest.raises(UnsupportedVersionError, match="RequestHeader at byte 0: API key 999 is unknown"):
        decode_request_header(bytes.fromhex("03e7000000000007000163"))
    frame = bytes.fromhex("0012 0063 00000007 0001 63 00")
    header, at = decode_request_header(frame)
    assert (header.request_api_version, header.correlation_id, at) == (99, 7, len(frame))
    with pytest.raises(UnsupportedVersionError, match="ApiVersionsRequest v99: the version does not exist"):
        decode_request(frame)
