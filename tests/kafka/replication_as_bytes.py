"""Requests of followers and their responses as bytes of Kafka's protocol, and back.

Simulated brokers exchange values. `bytes_between` puts the codec between two of them: each request of a follower, and
each response of its leader, is encoded in the newest version of the release and decoded again. Releases before 1.1 have
no fetch sessions and are left out: the values name what changed, the bytes would name everything.

What the values have and the protocol has not:
  - an identity of each batch, and records without content: such a batch is encoded as a header with the identity as
    base timestamp, and as many bytes as its records are assumed to have;
  - the range of the leader's log after OFFSET_OUT_OF_RANGE, for which Kafka's follower sends a ListOffsets request: it
    stands in the offsets of that partition, which are -1 in Kafka.
"""

from __future__ import annotations

import struct
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeVar

from simzk.kafka.log.batches import NO_EPOCH, ProducerStamp, RecordBatch
from simzk.kafka.log.leader_epochs import UNDEFINED, EpochEnd
from simzk.kafka.log.record_batches import entry_header, split_entries
from simzk.kafka.protocol import messages as protocol
from simzk.kafka.protocol.codec import decode_request, decode_response, encode_request, encode_response
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.requests import (
    AskedEpoch,
    EpochEndsRequest,
    EpochEndsResponse,
    FetchedPartition,
    FollowerFetchRequest,
    FollowerFetchResponse,
    LogRange,
)
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.protocol.structs import Message
    from simzk.kafka.releases.since import Release
    from simzk.kafka.rpc import Respond, Serve

M = TypeVar("M", bound="Message")

FETCH, EPOCH_ENDS = 1, 23
_HEAD = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_MARKERS: dict[int, Literal["commit", "abort"] | None] = {0: None, 1: "commit", 2: "abort"}
LAST_EPOCH_SINCE, TOPIC_IDS_SINCE, REPLICA_STATE_SINCE = 12, 13, 15
"""Versions of Fetch."""
NO_ID = "A" * 22
FOLLOWER_SINCE = 3
"""Version of OffsetForLeaderEpoch that names the follower."""
LEADER_EPOCH_SINCE = {FETCH: 9, EPOCH_ENDS: 2}


@dataclass
class Traffic:
    """Numbers of requests, batches and bytes that brokers have exchanged."""

    exchanges: int = 0
    batches: int = 0
    size_bytes: int = 0
    names: dict[str, str] = field(default_factory=dict)  # topics by the ids that stand for them


def bytes_between(serve: Serve, release: Release, traffic: Traffic) -> Serve:
    """Return a request handler of a broker that gets followers' requests, and gives its responses, as bytes."""
    versions = accepted_versions(release)
    fetch_version, ends_version = versions[FETCH].high, versions[EPOCH_ENDS].high

    def serve_bytes(request: object, respond: Respond) -> None:
        match request:
            case FollowerFetchRequest():
                version = max(fetch_version, _fetch_version_needed(request))
                fetch = _asked_to_fetch(request, version, traffic)
                serve(fetch, lambda response: respond(_fetched(response, version, traffic)))
            case EpochEndsRequest():
                ends = max(ends_version, LEADER_EPOCH_SINCE[EPOCH_ENDS] if request.fenced else 0)
                asked = _asked_for_ends(request, ends, traffic)
                serve(asked, lambda response: respond(_ends(response, ends, traffic)))
            case _:
                serve(request, respond)

    return serve_bytes


def _fetch_version_needed(request: FollowerFetchRequest) -> int:
    """Return the version that an upgraded follower sends to a leader of this release, by what it names."""
    if any(fetched.last_epoch != NO_EPOCH for fetched in request.changed):
        return LAST_EPOCH_SINCE
    return LEADER_EPOCH_SINCE[FETCH] if request.fenced else 0


def _requested(body: M, version: int, traffic: Traffic) -> M:
    """Return a request after a way as bytes."""
    frame = encode_request(body, version, correlation_id=1, client_id="broker")
    traffic.exchanges += 1
    traffic.size_bytes += len(frame)
    decoded = decode_request(frame)
    assert isinstance(decoded.body, type(body))
    return decoded.body


def _responded(body: M, version: int, traffic: Traffic) -> M:
    """Return a response after a way as bytes."""
    frame = encode_response(body, version, correlation_id=1)
    traffic.size_bytes += len(frame)
    return decode_response(type(body), version, frame)[2]


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    """Return the partitions in their order; a topic comes again if others stand between its partitions."""
    return [(topic, list(group)) for topic, group in groupby(partitions, key=lambda one: one.topic)]


def _name(topic: str, version: int) -> str:
    """Return how versions of Fetch without topic ids name a topic."""
    return topic if version < TOPIC_IDS_SINCE else ""


def _id(topic: str, version: int, traffic: Traffic) -> str:
    """Return the id that stands for a topic in later versions."""
    if version < TOPIC_IDS_SINCE:
        return NO_ID
    topic_id = urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_URL, topic).bytes).decode().rstrip("=")
    traffic.names[topic_id] = topic
    return topic_id


# -- Fetch


def _asked_to_fetch(request: FollowerFetchRequest, version: int, traffic: Traffic) -> FollowerFetchRequest:
    """Return a request after a way as bytes."""
    kind = protocol.FetchRequest
    changed = {fetched.partition: fetched for fetched in request.changed}
    body = kind(session_epoch=0 if request.full else 1)
    if version >= REPLICA_STATE_SINCE:
        body.replica_state = kind.ReplicaState(replica_id=request.replica_id)
    else:
        body.replica_id = request.replica_id
    body.topics = [
        kind.FetchTopic(
            topic=_name(topic, version),
            topic_id=_id(topic, version, traffic),
            partitions=[
                kind.FetchPartition(
                    partition=name.partition,
                    current_leader_epoch=changed[name].leader_epoch if request.fenced else -1,
                    fetch_offset=changed[name].log_end,
                    last_fetched_epoch=changed[name].last_epoch,
                    log_start_offset=changed[name].log_start,
                )
                for name in names
            ],
        )
        for topic, names in by_topic(changed)
    ]
    body.forgotten_topics_data = [
        kind.ForgottenTopic(
            topic=_name(topic, version),
            topic_id=_id(topic, version, traffic),
            partitions=[name.partition for name in names],
        )
        for topic, names in by_topic(request.forgotten)
    ]
    return _fetch_request(_requested(body, version, traffic), request.fenced, traffic)


def _fetch_request(body: protocol.FetchRequest, is_fenced: bool, traffic: Traffic) -> FollowerFetchRequest:
    replica_id = body.replica_id if body.replica_id >= 0 else body.replica_state.replica_id
    named = tuple(
        FetchedPartition(
            TopicPartition(topic.topic or traffic.names[topic.topic_id], one.partition),
            *(one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch, one.log_start_offset),
        )
        for topic in body.topics
        for one in topic.partitions
    )
    gone = tuple(
        TopicPartition(topic.topic or traffic.names[topic.topic_id], number)
        for topic in body.forgotten_topics_data
        for number in topic.partitions
    )
    assert all((one.leader_epoch >= 0) == is_fenced for one in named), "a release names leader epochs, or it does not"
    return FollowerFetchRequest(replica_id, body.session_epoch == 0, is_fenced, named, gone)


def _fetched(response: FollowerFetchResponse, version: int, traffic: Traffic) -> FollowerFetchResponse:
    """Return a response after a way as bytes."""
    kind = protocol.FetchResponse
    names = dict.fromkeys(
        (
            *(*response.records, *response.diverging, *response.ranges, *response.errors),
            *(*response.watermarks, *response.starts),
        )
    )
    body = kind(
        error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND if response.session_lost else 0,
        responses=[
            kind.FetchableTopicResponse(
                topic=_name(topic, version),
                topic_id=_id(topic, version, traffic),
                partitions=[_partition_data(response, name, traffic) for name in group],
            )
            for topic, group in by_topic(names)
        ],
    )
    return _fetch_response(_responded(body, version, traffic), traffic)


def _partition_data(
    response: FollowerFetchResponse, name: TopicPartition, traffic: Traffic
) -> protocol.FetchResponse.PartitionData:
    kind = protocol.FetchResponse
    error = response.errors.get(name, ErrorCode.NONE)
    span = response.ranges.get(name)
    end = response.diverging.get(name, UNDEFINED)
    batches = response.records.get(name, ())
    traffic.batches += len(batches)
    return kind.PartitionData(
        partition_index=name.partition,
        error_code=ErrorCode.OFFSET_OUT_OF_RANGE if span else error,
        high_watermark=span.end if span else response.watermarks.get(name, -1),
        log_start_offset=span.start if span else response.starts.get(name, -1),
        diverging_epoch=kind.EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset),
        records=b"".join(map(_entry, batches)),
    )


def _fetch_response(body: protocol.FetchResponse, traffic: Traffic) -> FollowerFetchResponse:
    records: dict[TopicPartition, tuple[RecordBatch, ...]] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    watermarks: dict[TopicPartition, int] = {}
    diverging: dict[TopicPartition, EpochEnd] = {}
    ranges: dict[TopicPartition, LogRange] = {}
    starts: dict[TopicPartition, int] = {}
    for topic in body.responses:
        for one in topic.partitions:
            name = TopicPartition(topic.topic or traffic.names[topic.topic_id], one.partition_index)
            if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                ranges[name] = LogRange(one.log_start_offset, one.high_watermark)
                continue
            if one.error_code:
                errors[name] = ErrorCode(one.error_code)
            if one.records:
                records[name] = tuple(map(_batch, split_entries(bytes(one.records))))
            if one.high_watermark >= 0:
                watermarks[name] = one.high_watermark
            if one.log_start_offset >= 0:
                starts[name] = one.log_start_offset
            end = EpochEnd(one.diverging_epoch.epoch, one.diverging_epoch.end_offset)
            if end != UNDEFINED:
                diverging[name] = end
    is_lost = body.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return FollowerFetchResponse(is_lost, records, errors, watermarks, diverging, ranges, starts)


def _entry(batch: RecordBatch) -> bytes:
    """Return a batch without content as a header of format 2 and as many bytes as its records are taken for."""
    assert batch.payload is None, "batches of the simulation's own producers have no content"
    producer = batch.producer or ProducerStamp(-1, -1, -1)
    attributes = _TRANSACTIONAL * producer.is_transactional + _CONTROL * (producer.marker is not None)
    marker = next(number for number, name in _MARKERS.items() if name == producer.marker)
    head = _HEAD.pack(
        *(batch.base_offset, batch.size_bytes - 12, batch.leader_epoch, 2, 0, attributes, batch.records - 1),
        *(batch.identity, marker << 32 | producer.coordinator_epoch & 0xFFFFFFFF),
        *(producer.producer_id, producer.epoch, producer.sequence, batch.records),
    )
    return head + bytes(batch.size_bytes - len(head))


def _batch(entry: memoryview) -> RecordBatch:
    header = entry_header(entry)
    assert header.size_bytes == len(entry)
    assert header.last_offset_delta == header.records - 1
    stamp = None
    if header.producer_id >= 0:
        (epoch,) = struct.unpack(">i", struct.pack(">I", header.max_timestamp & 0xFFFFFFFF))
        marker = _MARKERS[header.max_timestamp >> 32]
        assert header.is_control == (marker is not None)
        stamp = ProducerStamp(
            header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional, marker, epoch
        )
    return RecordBatch(header.base_offset, header.records, header.leader_epoch, header.base_timestamp, None, stamp)


# -- OffsetForLeaderEpoch


def _asked_for_ends(request: EpochEndsRequest, version: int, traffic: Traffic) -> EpochEndsRequest:
    kind = protocol.OffsetForLeaderEpochRequest
    body = _requested(
        kind(
            replica_id=request.replica_id if version >= FOLLOWER_SINCE else kind().replica_id,
            topics=[
                kind.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        kind.OffsetForLeaderPartition(
                            partition=name.partition,
                            current_leader_epoch=request.epochs[name].leader_epoch if request.fenced else -1,
                            leader_epoch=request.epochs[name].last_epoch,
                        )
                        for name in names
                    ],
                )
                for topic, names in by_topic(request.epochs)
            ],
        ),
        version,
        traffic,
    )
    epochs = {
        TopicPartition(topic.topic, one.partition): AskedEpoch(one.current_leader_epoch, one.leader_epoch)
        for topic in body.topics
        for one in topic.partitions
    }
    return EpochEndsRequest(request.replica_id, request.fenced, request.names_epochs, epochs)


def _ends(response: EpochEndsResponse, version: int, traffic: Traffic) -> EpochEndsResponse:
    kind = protocol.OffsetForLeaderEpochResponse

    def ended(name: TopicPartition, end: EpochEnd | ErrorCode) -> protocol.OffsetForLeaderEpochResponse.EpochEndOffset:
        if isinstance(end, ErrorCode):
            return kind.EpochEndOffset(partition=name.partition, error_code=end)
        assert version or end.epoch == NO_EPOCH, "version 0 names no epoch"
        return kind.EpochEndOffset(partition=name.partition, leader_epoch=end.epoch, end_offset=end.end_offset)

    body = _responded(
        kind(
            topics=[
                kind.OffsetForLeaderTopicResult(
                    topic=topic, partitions=[ended(name, response.ends[name]) for name in names]
                )
                for topic, names in by_topic(response.ends)
            ]
        ),
        version,
        traffic,
    )
    return EpochEndsResponse(
        {
            TopicPartition(topic.topic, one.partition): (
                ErrorCode(one.error_code) if one.error_code else EpochEnd(one.leader_epoch, one.end_offset)
            )
            for topic in body.topics
            for one in topic.partitions
        }
    )
