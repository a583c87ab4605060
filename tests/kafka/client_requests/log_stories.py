"""Stories of logs: when segments begin, which are deleted, and what compaction leaves.

`play` plays them with a real or a simulated broker of a release, which has the settings `SETTINGS` and the topics
`topics(...)`, each with one partition.

Rules of this module:
  - all timestamps are fixed: long ago, or far in the future. So no story depends on the present time;
  - a log is not compacted while it is filled: its topic is not yet compacted, or only if all of it were dirty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from simzk.kafka.log.record_batches import (
    GZIP,
    NO_PRODUCER,
    BatchProducer,
    Record,
    encode_batch,
    encode_messages,
    entry_header,
    split_entries,
)
from simzk.kafka.protocol import messages as m
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.structs import Message
from simzk.kafka.releases.api_versions import accepted_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tests.kafka.security.conversations import Wire

M = TypeVar("M", bound=Message)
SETTINGS: Final[Mapping[str, str]] = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.enable": "true",
    "log.retention.check.interval.ms": "1000",
}
WITHOUT_VERIFICATION: Final[Mapping[str, str]] = {"transaction.partition.verification.enable": "false"}
"""Setting of releases that ask the coordinator about a transaction before its first batch (3.6 and later)."""
MS: Final = 1_600_000_000_000
"""Time of the records: long ago."""
FUTURE_MS: Final = 4_000_000_000_000
DAY_MS: Final = 24 * 3_600_000
SEGMENT_BYTES: Final = 1000
NEVER: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "segment.bytes": str(SEGMENT_BYTES)}
"""A log that is compacted only if more than all of it were dirty."""
COMPACTED: Final = NEVER | {"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
CLEANED_S: Final = 3.0
"""Time in which a broker applies a configuration and compacts a log."""
RETAINED_S: Final = 35.0
"""Time in which a broker deletes old segments: the first check is 30 s after its start."""
_BATCHES: Final = (0, 11)
_TIMESTAMPS: Final = (0, 10)
_ANSWER_S: Final = 20.0
_FETCH_BYTES: Final = 1 << 20


class Stage:
    """A broker of a release, as a client of it.

    Args:
        release: the release.
        wire: a connection to the broker.
        configure: replaces the configuration of a topic.
    """

    def __init__(
        self, release: tuple[int, ...], wire: Wire, configure: Callable[[str, Mapping[str, str]], None]
    ) -> None:
        self.release = release
        self.configure = configure
        self.magic = 2 if release >= _BATCHES else 1 if release >= _TIMESTAMPS else 0
        self._wire = wire
        self._number = 0

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._wire.pause(seconds)

    def ask(self, request: Message, version: int, kind: type[M]) -> M:
        """Send a request; return the response."""
        self._number += 1
        self._wire.send(encode_request(request, version, correlation_id=self._number, client_id="test"))
        frame = self._wire.wait(_ANSWER_S)
        assert frame is not None, f"no response to {request}"
        answered, _, response = decode_response(kind, version, frame)
        assert answered == self._number
        return response

    def accepts(self, request: type[Message], version: int) -> bool:
        """Return whether the broker accepts a version of a request."""
        found = accepted_versions(self.release).get(request.MESSAGE.api_key)
        return found is not None and found.low <= version <= found.high

    def entries(
        self,
        records: Iterable[Record],
        *,
        codec: int = 0,
        producer: BatchProducer = NO_PRODUCER,
        transaction: bool = False,
    ) -> bytes:
        """Return records as one batch, or in old releases as messages."""
        found = list(records)
        if self.magic < 2:
            numbered = [one._replace(offset=number) for number, one in enumerate(found)]
            return encode_messages(numbered, self.magic, codec)
        return encode_batch(found, codec=codec, producer=producer, is_transactional=transaction)

    def append(self, topic: str, data: bytes, *, transaction: str | None = None) -> int:
        """Append record data; return the error code."""
        version = {0: 1, 1: 2, 2: 3}[self.magic]
        partition = m.ProduceRequest.PartitionProduceData(index=0, records=data)
        request = m.ProduceRequest(
            transactional_id=transaction,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[m.ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
        )
        return self.ask(request, version, m.ProduceResponse).responses[0].partition_responses[0].error_code

    def produce(self, topic: str, data: bytes, *, transaction: str | None = None) -> None:
        """Append record data; it must be accepted."""
        code = self.append(topic, data, transaction=transaction)
        assert code == ErrorCode.NONE, f"{topic} is not appended to: {ErrorCode(code).name}"

    def end_transaction(self, topic: str, producer: BatchProducer, *, is_commit: bool) -> None:
        """Write a marker."""
        of = m.WriteTxnMarkersRequest
        one = of.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])
        marker = of.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=is_commit,
            topics=[one],
            coordinator_epoch=0,
        )
        version = 0 if self.accepts(of, 0) else 1
        response = self.ask(of(markers=[marker]), version, m.WriteTxnMarkersResponse)
        code = response.markers[0].topics[0].partitions[0].error_code
        assert code == ErrorCode.NONE, f"no marker in {topic}: {ErrorCode(code).name}"

    def old_offsets(self, topic: str, timestamp: int) -> list[int]:
        """Return offsets of segments, descending, by version 0 of ListOffsets."""
        of = m.ListOffsetsRequest
        one = of.ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=1000)
        request = of(replica_id=-1, topics=[of.ListOffsetsTopic(name=topic, partitions=[one])])
        found = self.ask(request, 0, m.ListOffsetsResponse).topics[0].partitions[0]
        assert found.error_code == ErrorCode.NONE
        return list(found.old_style_offsets)

    def size_bytes(self, topic: str) -> int | None:
        """Return the size of a log on disk; None if the release does not say."""
        if not self.accepts(m.DescribeLogDirsRequest, 0) and not self.accepts(m.DescribeLogDirsRequest, 1):
            return None
        of = m.DescribeLogDirsRequest
        version = 0 if self.accepts(of, 0) else 1
        request = of(topics=[of.DescribableLogDirTopic(topic=topic, partitions=[0])])
        response = self.ask(request, version, m.DescribeLogDirsResponse)
        (found,) = (one for one in response.results[0].topics if one.name == topic)
        return found.partitions[0].partition_size

    def fetch(self, topic: str, offset: int, *, is_committed: bool = False) -> Any:
        """Return what a fetch answers of the partition."""
        of = m.FetchRequest
        version = {0: 1, 1: 2, 2: 4}[self.magic]
        one = of.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        request = of(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_FETCH_BYTES,
            isolation_level=int(is_committed),
            topics=[of.FetchTopic(topic=topic, partitions=[one])],
        )
        found = self.ask(request, version, m.FetchResponse).responses[0].partitions[0]
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code).name
        return found

    def look(self, topic: str) -> dict[str, Any]:
        """Return all that a client can see of a log."""
        offset = self.old_offsets(topic, -2)[0]
        reads: list[list[str]] = []
        while True:
            data = bytes(self.fetch(topic, offset).records or b"")
            entries = split_entries(data)
            if not entries:
                break
            reads.append([bytes(entry).hex() for entry in entries])
            last = entry_header(entries[-1])
            offset = last.base_offset + last.last_offset_delta + 1
        found: dict[str, Any] = {
            "segments": self.old_offsets(topic, -1),
            "reads": reads,
            "size": self.size_bytes(topic),
        }
        if self.magic == 2:
            aborted = self.fetch(topic, self.old_offsets(topic, -2)[0], is_committed=True).aborted_transactions or ()
            found["aborted"] = [[one.producer_id, one.first_offset] for one in aborted]
        return found


Looks: TypeAlias = "Iterator[tuple[str, dict[str, Any]]]"


def _record(key: str | None, value: str | None, ms: int = MS) -> Record:
    return Record(None if key is None else key.encode(), None if value is None else value.encode(), (), ms)


def _filler(number: int, ms: int = MS) -> Record:
    """Return a record that no other one fits into a segment with."""
    return _record(f"filler {number}", "f" * (SEGMENT_BYTES - 150), ms)


def segments_by_size(stage: Stage, topic: str) -> Looks:
    """Fill segments of 1000 bytes by sets of several sizes, one of them too large."""
    for number, length in enumerate((100, 300, 500, 800, 10, 10, 700, 200, 200, 200)):
        stage.produce(topic, stage.entries([_record("key", "v" * length, MS + number)]))
    stage.produce(topic, stage.entries(_record("key", f"{number}") for number in range(8)))
    too_large = stage.append(topic, stage.entries([_record("key", "v" * 1200)]))
    yield "filled", stage.look(topic) | {"too large": too_large}


def segments_by_age(stage: Stage, topic: str) -> Looks:
    """Append records of several times to segments of one day."""
    for day in (0, 0.5, 1, 1.5, 0, 2.5, 3, 3.6, 1, 9):
        stage.produce(topic, stage.entries([_record("key", f"day {day}", MS + round(day * DAY_MS))]))
    stage.produce(topic, stage.entries(_record("key", f"day {day}", MS + day * DAY_MS) for day in (10, 2, 12)))
    stage.produce(topic, stage.entries([_record("key", "day 13", MS + 13 * DAY_MS)]))
    yield "filled", stage.look(topic)


def deleted_by_size(stage: Stage, topic: str) -> Looks:
    """Delete segments of a log that is too large."""
    for number, length in enumerate((600, 500, 400, 600, 100, 300, 300, 500)):
        stage.produce(topic, stage.entries([_record("key", "v" * length, FUTURE_MS + number)]))
    yield "filled", stage.look(topic)
    stage.configure(topic, {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1", "retention.bytes": "1500"})
    stage.pause(RETAINED_S)
    yield "deleted", stage.look(topic)


def deleted_by_age(stage: Stage, topic: str) -> Looks:
    """Delete old segments, at last all of them."""
    for number, ms in enumerate((MS, MS, FUTURE_MS, MS, FUTURE_MS)):
        stage.produce(topic, stage.entries([_filler(number, ms)]))
    yield "filled", stage.look(topic)
    stage.configure(topic, {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "1000"})
    stage.pause(RETAINED_S)
    yield "deleted", stage.look(topic)


def all_deleted(stage: Stage, topic: str) -> Looks:
    """Delete all segments, and append to the log that is left."""
    for number in range(3):
        stage.produce(topic, stage.entries([_filler(number)]))
    stage.configure(topic, {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "1000"})
    stage.pause(RETAINED_S)
    yield "deleted", stage.look(topic)
    stage.configure(topic, {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"})
    stage.pause(CLEANED_S)
    stage.produce(topic, stage.entries([_record("key", "value")]))
    yield "filled again", stage.look(topic)


def keys(stage: Stage, topic: str) -> Looks:
    """Compact records with equal keys, with other ones, and without any."""
    for number in range(6):
        batch = [
            _record(f"{number % 2}", f"{number}", MS + number),
            _record(None, "no key"),
            _record("last", f"{number}"),
        ]
        stage.produce(topic, stage.entries([*batch, _record(f"own {number}", "value", MS - number)]))
        stage.produce(topic, stage.entries([_record("small", "v" * 300)]))
    stage.produce(topic, stage.entries([_filler(0)]))
    yield "filled", stage.look(topic)
    stage.configure(topic, COMPACTED)
    stage.pause(CLEANED_S)
    yield "compacted", stage.look(topic)
    stage.configure(topic, NEVER)
    stage.pause(CLEANED_S)
    for number in range(4):
        batch = [_record("last", f"later {number}"), _record(f"own {number}", "later")]
        stage.produce(topic, stage.entries(batch))
        stage.produce(topic, stage.entries([_filler(number + 1)]))
    stage.configure(topic, COMPACTED)
    stage.pause(CLEANED_S)
    yield "compacted again", stage.look(topic)


def tombstones(stage: Stage, topic: str) -> Looks:
    """Compact tombstones, which go with the second compaction."""
    for number in range(3):
        batch = [_record("a", f"{number}"), _record("b", None if number == 2 else "value"), _record("c", "value")]
        stage.produce(topic, stage.entries(batch))
        stage.produce(topic, stage.entries([_record("d", None, MS + number), _record("e", "value")]))
        stage.produce(topic, stage.entries([_filler(number)]))
    stage.configure(topic, COMPACTED)
    stage.pause(CLEANED_S)
    yield "compacted", stage.look(topic)
    for number in range(2):
        stage.configure(topic, NEVER)
        stage.pause(CLEANED_S)
        stage.produce(topic, stage.entries([_record("c", None if number == 0 else "value")]))
        stage.produce(topic, stage.entries([_filler(number)]))
        stage.configure(topic, COMPACTED)
        stage.pause(CLEANED_S)
        yield f"compacted again, {number + 1}", stage.look(topic)


def kept_tombstones(stage: Stage, topic: str) -> Looks:
    """Compact twice while tombstones are kept."""
    for number in range(2):
        stage.configure(topic, NEVER)
        stage.pause(CLEANED_S)
        stage.produce(topic, stage.entries([_record("a", None), _record("b", f"{number}", MS - 7)]))
        stage.produce(topic, stage.entries([_record("c", None if number else "value")]))
        stage.produce(topic, stage.entries([_filler(number)]))
        stage.configure(topic, COMPACTED | {"delete.retention.ms": str(1000 * DAY_MS)})
        stage.pause(CLEANED_S)
        yield f"compacted, {number + 1}", stage.look(topic)


def compressed(stage: Stage, topic: str) -> Looks:
    """Compact compressed batches."""
    for number in range(4):
        batch = [_record(f"{key}", f"{number}" * 40, MS + number) for key in range(number, 5)]
        stage.produce(topic, stage.entries(batch, codec=GZIP))
        stage.produce(topic, stage.entries([_record("a", None), _record("a", "value")], codec=GZIP))
    stage.produce(topic, stage.entries([_filler(0)]))
    stage.configure(topic, COMPACTED)
    stage.pause(CLEANED_S)
    yield "compacted", stage.look(topic)


def append_times(stage: Stage, topic: str) -> Looks:
    """Compact batches that have the time of their append."""
    for number in range(3):
        stage.produce(topic, stage.entries([_record("a", f"{number}"), _record(f"{number}", "value")]))
        stage.produce(topic, stage.entries([_record("b", None), _record("b", "value")], codec=GZIP))
    stage.produce(topic, stage.entries([_filler(0)]))
    stage.configure(topic, COMPACTED | {"message.timestamp.type": "LogAppendTime"})
    stage.pause(CLEANED_S)
    yield "compacted", stage.look(topic)


def lags(stage: Stage, topic: str) -> Looks:
    """Compact nothing that is too young, and at once what has waited for too long."""
    for number in range(3):
        stage.produce(topic, stage.entries([_record("a", f"{number}"), _record("b", "value")]))
        stage.produce(topic, stage.entries([_filler(number, FUTURE_MS if number == 1 else MS)]))
    stage.configure(topic, COMPACTED | {"min.compaction.lag.ms": "1000"})
    stage.pause(CLEANED_S)
    yield "young", stage.look(topic)
    if stage.release >= (2, 3):
        stage.configure(topic, NEVER | {"max.compaction.lag.ms": "1000"})
        stage.pause(CLEANED_S)
        yield "overdue", stage.look(topic)


def dirty_ratio(stage: Stage, topic: str) -> Looks:
    """Compact only a log of which more than half is dirty."""
    for number in range(4):
        stage.produce(topic, stage.entries([_filler(number)]))
    stage.configure(topic, COMPACTED)
    stage.pause(CLEANED_S)
    half = NEVER | {"min.cleanable.dirty.ratio": "0.5"}
    stage.configure(topic, half)
    stage.pause(CLEANED_S)
    for number in range(5):
        stage.produce(topic, stage.entries([_filler(3 + number % 2)]))
        stage.pause(CLEANED_S)
        yield f"filled, {number + 1}", stage.look(topic)


def idempotent_producers(stage: Stage, topic: str) -> Looks:
    """Compact batches of producers: the last one of each stays, if need be without records."""
    for sequence in range(3):
        for producer in (1000, 1001):
            batch = [_record("a", f"{sequence}"), _record(f"of {producer}", f"{sequence}")]
            stage.produce(topic, stage.entries(batch, producer=BatchProducer(producer, 0, sequence * 2)))
    stage.produce(topic, stage.entries([_record("a", "1"), _record("of 1000", "1"), _record("of 1001", "1")]))
    stage.produce(topic, stage.entries([_filler(0)]))
    stage.configure(topic, COMPACTED)
    stage.pause(CLEANED_S)
    yield "compacted", stage.look(topic)
    stage.configure(topic, NEVER)
    stage.pause(CLEANED_S)
    batch = [_record("of 1000", "next"), _record("b", "next")]
    stage.produce(topic, stage.entries(batch, producer=BatchProducer(1000, 0, 6)))
    stage.produce(topic, stage.entries([_filler(0)]))
    stage.configure(topic, COMPACTED)
    stage.pause(CLEANED_S)
    yield "compacted again", stage.look(topic)


def transactions(stage: Stage, topic: str) -> Looks:
    """Compact committed, aborted and open transactions, in one segment and across several."""
    sequences: dict[int, int] = {}

    def batch(producer: int, *records: Record) -> None:
        sequence = sequences.get(producer, 0)
        sequences[producer] = sequence + len(records)
        stamp = BatchProducer(producer, 0, sequence)
        stage.produce(topic, stage.entries(records, producer=stamp, transaction=True), transaction=f"of {producer}")

    def end(producer: int, *, is_commit: bool) -> None:
        stage.end_transaction(topic, BatchProducer(producer, 0), is_commit=is_commit)

    batch(2000, _record("a", "aborted"), _record("b", "aborted"))
    batch(2001, _record("a", "committed"), _record("b", "committed"))
    end(2000, is_commit=False)
    end(2001, is_commit=True)
    batch(2002, _record("c", "over several segments, aborted"))
    batch(2003, _record("d", "over several segments, committed"))
    stage.produce(topic, stage.entries([_filler(0)]))
    batch(2002, _record("c", "again, aborted"))
    end(2002, is_commit=False)
    end(2003, is_commit=True)
    batch(2001, _record("a", "later"), _record("b", "later"))
    end(2001, is_commit=True)
    batch(2000, _record("e", None))
    end(2000, is_commit=True)
    stage.produce(topic, stage.entries([_filler(1)]))
    batch(2004, _record("f", "open"))
    stage.produce(topic, stage.entries([_filler(2)]))
    yield "filled", stage.look(topic)
    for number in range(3):
        stage.configure(topic, COMPACTED)
        stage.pause(CLEANED_S)
        yield f"compacted, {number + 1}", stage.look(topic)
        stage.configure(topic, NEVER)
        stage.pause(CLEANED_S)
        if number == 0:
            end(2004, is_commit=False)
        batch(2001, _record("a", f"later {number}"))
        end(2001, is_commit=True)
        stage.produce(topic, stage.entries([_record("d", f"later {number}"), _record("f", f"later {number}")]))
        stage.produce(topic, stage.entries([_filler(number)]))


class Story(NamedTuple):
    """A story: its function, the first configuration of its topic, and the first release that has it."""

    play: Callable[[Stage, str], Looks]
    config: Mapping[str, str] = NEVER
    since: tuple[int, ...] = (0, 9)


_KEPT: Final = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
STORIES: Final[Mapping[str, Story]] = {
    "segments by size": Story(segments_by_size, _KEPT),
    "segments by age": Story(segments_by_age, {"segment.ms": str(DAY_MS), "retention.ms": "-1"}),
    "keys": Story(keys, _KEPT),
    "tombstones": Story(tombstones),
    "kept tombstones": Story(kept_tombstones),
    "compressed": Story(compressed),
    "append times": Story(append_times, NEVER | {"message.timestamp.type": "LogAppendTime"}, (0, 10)),
    "lags": Story(lags, since=(0, 10, 1)),
    "dirty ratio": Story(dirty_ratio),
    "idempotent producers": Story(idempotent_producers, since=_BATCHES),
    "transactions": Story(transactions, since=_BATCHES),
    "deleted by size": Story(deleted_by_size, _KEPT),
    "deleted by age": Story(deleted_by_age, _KEPT),
    "all deleted": Story(all_deleted, _KEPT),
}


def topic_of(story: str) -> str:
    """Return the topic of a story."""
    return story.replace(" ", "-")


def topics(release: tuple[int, ...]) -> dict[str, Mapping[str, str]]:
    """Return the topics with their first configurations."""
    return {topic_of(name): story.config for name, story in STORIES.items() if release >= story.since}


def settings(release: tuple[int, ...]) -> dict[str, str]:
    """Return the settings of the broker."""
    return {**SETTINGS, **(WITHOUT_VERIFICATION if release >= (3, 6) else {})}


def play(stage: Stage, chosen: str | None = None) -> Iterator[dict[str, Any]]:
    """Play the stories of a release with a broker; yield what was seen."""
    for name, story in STORIES.items():
        if stage.release >= story.since and chosen in (None, name):
            for look, seen in story.play(stage, topic_of(name)):
                yield {"story": name, "look": look, **seen}
