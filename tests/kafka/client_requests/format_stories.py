"""Stories of record formats: what a broker stores in the format of `message.format.version`, and what it answers of it.

`play` plays them with a real or a simulated broker of a release, which has the settings `settings(...)` and the topics
`topics(...)`, each with one partition.

Rules of this module:
  - records of each format are sent to a topic of each format, with each version of Produce that takes them;
  - after each of them the offset of the largest timestamp is asked for; at last all is fetched with every version that
    names topics and knows no sessions, and all times are asked for;
  - timestamps are fixed, and later in each request.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from simzk.kafka.log.record_batches import (
    GZIP,
    Record,
    RecordDataError,
    encode_batch,
    encode_messages,
    entry_size,
)
from simzk.kafka.protocol import messages as m
from tests.kafka.client_requests.log_stories import MS, WITHOUT_VERIFICATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kafka.client_requests.log_stories import Stage

_FETCH_BYTES: Final = 1 << 20
_LAST_FETCH: Final = 6
"""The last version of Fetch without sessions."""
_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3
_WITH_TOPIC_IDS: Final = 10
_MESSAGES: Final = ((0, (0, 1, 2)), (1, (2,)))
"""Formats of messages, and the versions of Produce that take them."""
_BATCHES: Final = (3, 5, 7)
_WITH_HEADERS: Final = 5
"""The version of Produce whose records have headers, which old formats do not have."""
_TAKES_BATCHES: Final = (0, 11)

STORIES: Final[Mapping[str, Mapping[str, str]]] = {
    "0.9.0": {"message.format.version": "0.9.0"},
    "0.10.2": {"message.format.version": "0.10.2"},
    "0.11.0": {"message.format.version": "0.11.0"},
    "0.9.0, compressed": {"message.format.version": "0.9.0", "compression.type": "gzip"},
    "0.10.2, compressed": {"message.format.version": "0.10.2", "compression.type": "gzip"},
    "0.11.0, plain": {"message.format.version": "0.11.0", "compression.type": "uncompressed"},
}
"""Configurations of the topics by story. An old format is obeyed with a protocol below 3.0 only."""
PROTOCOL: Final = "2.7"
"""Protocol of later releases: the last one without topic ids."""


def topic_of(story: str) -> str:
    """Return the topic of a story."""
    return story.replace(", ", "-")


def topics(release: tuple[int, ...]) -> dict[str, Mapping[str, str]]:
    """Return the topics with their configurations; a release knows no later format."""
    return {topic_of(name): config for name, config in STORIES.items() if release >= since(name)}


def since(story: str) -> tuple[int, ...]:
    """Return the first release that knows the format of a story."""
    return tuple(map(int, STORIES[story]["message.format.version"].split(".")))


def settings(release: tuple[int, ...]) -> dict[str, str]:
    """Return the settings of the broker."""
    found = {"inter.broker.protocol.version": PROTOCOL} if release >= (2, 7) else {}
    return {**found, **(WITHOUT_VERIFICATION if release >= (3, 6) else {})}


def play(stage: Stage, chosen: str | None = None) -> Iterator[dict[str, Any]]:
    """Tell the stories; yield what was seen.

    Args:
        stage: the broker.
        chosen: the only story; all if None.
    """
    for story in STORIES:
        if chosen in (None, story) and stage.release >= since(story):
            for look, seen in _play(stage, topic_of(story)):
                yield {"story": story, "look": look, **seen}


def _play(stage: Stage, topic: str) -> Iterator[tuple[str, dict[str, Any]]]:
    number = 0
    for codec in (0, GZIP):
        for magic, versions in _MESSAGES:
            for version in versions:
                number += 1
                if stage.accepts(m.ProduceRequest, version):
                    records = [one._replace(offset=at) for at, one in enumerate(_records(number))]
                    # In a compressed message offsets are relative in format 1; a client numbers both from 0.
                    sent = encode_messages(records, magic, codec)
                    yield f"Produce v{version}, format {magic}, codec {codec}", _produced(stage, topic, version, sent)
        for version in _BATCHES:
            number += 1
            if stage.release >= _TAKES_BATCHES and stage.accepts(m.ProduceRequest, version):
                sent = encode_batch(_records(number, has_headers=version == _WITH_HEADERS), codec=codec)
                yield f"Produce v{version}, format 2, codec {codec}", _produced(stage, topic, version, sent)
    end = _listed(stage, topic, 1, _LATEST)[1]
    for version in range(_LAST_FETCH + 1):
        if stage.accepts(m.FetchRequest, version):
            yield f"Fetch v{version}", {"reads": _reads(stage, topic, version, end)}
    times = (
        _LATEST,
        _EARLIEST,
        _MAX_TIMESTAMP,
        MS,
        *(MS + 100 * at + late for at in range(1, number) for late in (1, 3)),
    )
    for version in range(1, 8):
        if stage.accepts(m.ListOffsetsRequest, version):
            yield f"ListOffsets v{version}", {"times": [[at, *_listed(stage, topic, version, at)] for at in times]}
    if stage.accepts(m.MetadataRequest, _WITH_TOPIC_IDS):
        asked = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name=topic)])
        (found,) = stage.ask(asked, _WITH_TOPIC_IDS, m.MetadataResponse).topics
        yield f"Metadata v{_WITH_TOPIC_IDS}", {"topic id": str(found.topic_id)}


def _records(number: int, *, has_headers: bool = False) -> list[Record]:
    """Return the records of a request; the second one is the latest, the third one may have headers."""
    ms = MS + 100 * number
    headers = (("header", b"value"),) if has_headers else ()
    return [
        Record(b"first", b"%d" % number, (), ms + 1),
        Record(None, b"%d" % number, (), ms + 3),
        Record(b"third", None, headers, ms + 2),
    ]


def _produced(stage: Stage, topic: str, version: int, data: bytes) -> dict[str, Any]:
    """Produce record data; return the response, and the largest timestamp where it can be asked for."""
    of = m.ProduceRequest
    one = of.PartitionProduceData(index=0, records=data)
    request = of(acks=-1, timeout_ms=10_000, topic_data=[of.TopicProduceData(name=topic, partition_data=[one])])
    found = stage.ask(request, version, m.ProduceResponse).responses[0].partition_responses[0]
    seen: dict[str, Any] = {
        "produced": [found.error_code, found.base_offset, found.log_append_time_ms, found.log_start_offset]
    }
    if stage.accepts(m.ListOffsetsRequest, 7):
        seen["largest"] = _listed(stage, topic, 7, _MAX_TIMESTAMP)
    return seen


def _listed(stage: Stage, topic: str, version: int, timestamp: int) -> list[int]:
    """Return error, offset, timestamp and leader epoch that ListOffsets answers."""
    of = m.ListOffsetsRequest
    one = of.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = of(replica_id=-1, topics=[of.ListOffsetsTopic(name=topic, partitions=[one])])
    found = stage.ask(request, version, m.ListOffsetsResponse).topics[0].partitions[0]
    return [found.error_code, found.offset, found.timestamp, found.leader_epoch]


def _reads(stage: Stage, topic: str, version: int, end: int) -> list[list[Any]]:
    """Return error, high watermark and entries of fetches from the offsets 0, 1 and of the middle."""
    of = m.FetchRequest
    found = []
    for offset in (0, 1, end // 2, end):
        one = of.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        topics = [of.FetchTopic(topic=topic, partitions=[one])]
        request = of(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=_FETCH_BYTES, topics=topics)
        answer = stage.ask(request, version, m.FetchResponse).responses[0].partitions[0]
        found.append([answer.error_code, answer.high_watermark, _whole_entries(bytes(answer.records or b""))])
    return found


def _whole_entries(data: bytes) -> list[str]:
    """Return the entries of a response; one that is cut is padding (LazyDownConversionRecordsSend)."""
    entries, at = [], 0
    with suppress(RecordDataError):
        while at < len(data):
            size = entry_size(data, at)
            entries.append(data[at : at + size].hex())
            at += size
    return entries
