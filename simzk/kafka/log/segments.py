"""Segments of a log: when a new one begins, and which are deleted because they are too old or too many.

Rules of this module (Log, LogSegment, LogConfig, LogManager.cleanupLogs; docs/reference/kafka.md §2.21):
  - records are appended to the last segment, the active one. What one request appends to a partition is in one segment;
  - a new segment begins with records that would make the active one larger than `segment.bytes`, that do not fit into
    its indexes, or whose offsets are too far from its base offset;
  - it also begins when the active one is older than `segment.ms`, in a compacted log than `max.compaction.lag.ms` (2.3
    and later): by the clock up to 0.10.0, then by the timestamps of its first records and of the new ones (KIP-33), by
    the clock only if the records have none;
  - the offset index has an entry for every `index.interval.bytes`, the time index one for each of these with a larger
    timestamp;
  - segments are deleted from the first one on while they are older than `retention.ms`: by the time of their last
    append up to 0.10.0, then by their largest timestamp. They are also deleted while the rest is not smaller than
    `retention.bytes`. From 0.11 on only those below the high watermark are;
  - when all are deleted, the log has an empty one at its end. An empty active segment is not deleted.
`segment.jitter.ms`, which is random, is not simulated.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from simzk.jvm.numbers import parse_int, parse_long
from simzk.kafka.log.record_batches import CODECS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.kafka.log.batches import RecordBatch
    from simzk.kafka.log.producer_state import EndedTransaction
    from simzk.kafka.releases.profile import LogRules

NO_TIMESTAMP = -1
NEVER_MS = 2**63 - 1
_MOST_OFFSETS = 2**31 - 1
"""Largest distance from the base offset: the indexes store four bytes of it."""
_STORED_CODECS = {"uncompressed": 0, **CODECS}
"""Codecs of batches in the log by `compression.type`; `producer` leaves them as they came."""
_OFFSET_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12


class LogConfig(NamedTuple):
    """Configuration of a log, with Kafka's defaults.

    Args:
        segment_bytes, segment_ms: `segment.bytes`, `segment.ms`.
        segment_index_bytes, index_interval_bytes: `segment.index.bytes`, `index.interval.bytes`.
        retention_bytes, retention_ms: `retention.bytes`, `retention.ms`; negative for no limit.
        deletes, compacts: whether `cleanup.policy` contains `delete`, and `compact`.
        min_cleanable_ratio: `min.cleanable.dirty.ratio`.
        delete_retention_ms: `delete.retention.ms`.
        min_compaction_lag_ms, max_compaction_lag_ms: `min.compaction.lag.ms`, `max.compaction.lag.ms`.
        max_message_bytes: `max.message.bytes`.
        has_append_time: whether `message.timestamp.type` is `LogAppendTime`.
        before_max_ms, after_max_ms: how far timestamps of producers may be in the past and in the future.
        codec: compression codec in which batches are stored, 0 for none; None for that of the producer.
        down_converts: `message.downconversion.enable`.
        min_isr: `min.insync.replicas`.
        magic: the format in which records are stored (`message.format.version`).

    >>> LogConfig().max_segment_ms, LogConfig(compacts=True, max_compaction_lag_ms=100).max_segment_ms
    (604800000, 100)
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * 3_600_000
    deletes: bool = True
    compacts: bool = False
    min_cleanable_ratio: float = 0.5
    delete_retention_ms: int = 24 * 3_600_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS
    max_message_bytes: int = 1_048_588
    has_append_time: bool = False
    before_max_ms: int = NEVER_MS
    after_max_ms: int = NEVER_MS
    codec: int | None = None
    down_converts: bool = True
    magic: int = 2
    min_isr: int = 1

    @property
    def max_segment_ms(self) -> int:
        """Age at which a segment is full."""
        lag_ms = self.max_compaction_lag_ms
        return min(lag_ms, self.segment_ms) if self.compacts and lag_ms > 0 else self.segment_ms


def log_config(value_of: Callable[[str], str], default_of: Callable[[str], str]) -> LogConfig:
    """Return the configuration of a log (LogConfig.fromProps); a number that is none counts as not set.

    Args:
        value_of: returns the value of a topic's key, which may be its default.
        default_of: returns its default.

    >>> values = {"cleanup.policy": "compact, delete", "segment.bytes": "x", "min.cleanable.dirty.ratio": "0.1"}
    >>> defaults = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}
    >>> config = log_config(lambda key: values.get(key, defaults.get(key, "7")), lambda key: defaults.get(key, "7"))
    >>> config.compacts, config.segment_bytes, config.min_cleanable_ratio
    (True, 7, 0.1)
    """

    def integer(key: str) -> int:
        own = parse_int(value_of(key))
        return int(default_of(key)) if own is None else own

    def ratio(key: str) -> float:
        try:
            return float(value_of(key))
        except ValueError:
            return float(default_of(key))

    def milliseconds(key: str) -> int:
        own = parse_long(value_of(key))
        return NEVER_MS if own is None else own

    # Since 3.6 the older key replaces both newer ones where it is set (LogConfig.getMessageTimestampBeforeMaxMs).
    either_max_ms = milliseconds("message.timestamp.difference.max.ms")
    before_max_ms, after_max_ms = (
        milliseconds(f"message.timestamp.{side}.max.ms") if either_max_ms == NEVER_MS else either_max_ms
        for side in ("before", "after")
    )
    policies = {policy.strip() for policy in value_of("cleanup.policy").split(",")}
    return LogConfig(
        segment_bytes=integer("segment.bytes"),
        segment_ms=integer("segment.ms"),
        segment_index_bytes=integer("segment.index.bytes"),
        index_interval_bytes=integer("index.interval.bytes"),
        retention_bytes=integer("retention.bytes"),
        retention_ms=integer("retention.ms"),
        deletes="delete" in policies,
        compacts="compact" in policies,
        min_cleanable_ratio=ratio("min.cleanable.dirty.ratio"),
        delete_retention_ms=integer("delete.retention.ms"),
        min_compaction_lag_ms=integer("min.compaction.lag.ms"),
        max_compaction_lag_ms=integer("max.compaction.lag.ms"),
        max_message_bytes=integer("max.message.bytes"),
        has_append_time=value_of("message.timestamp.type") == "LogAppendTime",
        before_max_ms=before_max_ms,
        after_max_ms=after_max_ms,
        codec=_STORED_CODECS.get(value_of("compression.type")),
        down_converts=value_of("message.downconversion.enable") != "false",
        min_isr=integer("min.insync.replicas"),
    )


class AppendedSet(NamedTuple):
    """Records that are appended together.

    Args:
        size_bytes: size of all batches.
        newest_ms: the largest timestamp; `NO_TIMESTAMP` if they have none.
        last_offset: the last offset.
    """

    size_bytes: int
    newest_ms: int
    last_offset: int


@dataclass(slots=True, eq=False)
class Segment:
    """One segment.

    Attributes:
        base_offset: its first offset, also if it has no record there.
        created_ms: when it began.
        modified_ms: when it was last appended to.
        size_bytes: size of its batches, those before the log start offset included.
        first_ms: the largest timestamp of the records that were appended first; `NO_TIMESTAMP` if there are none.
        largest_ms: the largest timestamp; `NO_TIMESTAMP` if there is none.
        offset_entries, time_entries: number of entries in its indexes.
    """

    base_offset: int
    created_ms: int
    modified_ms: int
    size_bytes: int = 0
    first_ms: int = NO_TIMESTAMP
    largest_ms: int = NO_TIMESTAMP
    offset_entries: int = 0
    time_entries: int = 0
    _since_entry_bytes: int = 0
    _last_entry_ms: int = NO_TIMESTAMP

    @property
    def index_bytes(self) -> int:
        """Size of the larger index."""
        return max(self.offset_entries * _OFFSET_ENTRY_BYTES, self.time_entries * _TIME_ENTRY_BYTES)

    def is_full(self, added: AppendedSet, config: LogConfig, now_ms: int, *, by_timestamps: bool) -> bool:
        """Return whether records that are to be appended begin a new segment (LogSegment.shouldRoll).

        >>> segment, added = Segment(0, created_ms=5, modified_ms=5), AppendedSet(600, 70, 3)
        >>> segment.add(added, LogConfig(), now_ms=90)
        >>> [segment.is_full(added, LogConfig(segment_bytes=size), 90, by_timestamps=True) for size in (1199, 1200)]
        [True, False]
        >>> later, config = added._replace(newest_ms=100), LogConfig(segment_ms=20)
        >>> [segment.is_full(later, config, 90, by_timestamps=by) for by in (True, False)]
        [True, True]
        """
        if self.size_bytes > config.segment_bytes - added.size_bytes:
            return True
        dated = by_timestamps and self.first_ms >= 0
        waited_ms = added.newest_ms - self.first_ms if dated else now_ms - self.created_ms
        return (
            (self.size_bytes > 0 and waited_ms > config.max_segment_ms)
            or self.offset_entries >= config.segment_index_bytes // _OFFSET_ENTRY_BYTES
            or (by_timestamps and self.time_entries >= config.segment_index_bytes // _TIME_ENTRY_BYTES - 1)
            or added.last_offset - self.base_offset > _MOST_OFFSETS
        )

    def add(self, added: AppendedSet, config: LogConfig, now_ms: int) -> None:
        """Note records that are appended (LogSegment.append)."""
        if not self.size_bytes:
            self.first_ms = added.newest_ms
        self.largest_ms = max(self.largest_ms, added.newest_ms)
        if self._since_entry_bytes > config.index_interval_bytes:
            self.offset_entries += 1
            self.time_entries += self.largest_ms > self._last_entry_ms
            self._last_entry_ms = max(self._last_entry_ms, self.largest_ms)
            self._since_entry_bytes = 0
        self._since_entry_bytes += added.size_bytes
        self.size_bytes += added.size_bytes
        self.modified_ms = now_ms

    def dated_ms(self, *, by_timestamps: bool) -> int:
        """Return how new it is: its largest timestamp, or the time of its last append."""
        return self.largest_ms if by_timestamps and self.largest_ms >= 0 else self.modified_ms


def place_of(segments: Sequence[Segment], offset: int) -> int:
    """Return the place of the segment that an offset is in; 0 for one before all segments, and without any."""
    return max(0, bisect_right(segments, offset, key=attrgetter("base_offset")) - 1)


class Compacted(NamedTuple):
    """Segments and batches that a compaction has left before an offset.

    Args:
        end: the offset.
        segments, batches: the segments and their batches.
        forgotten: aborted transactions of which no record is left.
    """

    end: int
    segments: list[Segment]
    batches: list[RecordBatch]
    forgotten: frozenset[EndedTransaction]


def count_expired(
    segments: Sequence[Segment], end: int, high_watermark: int, config: LogConfig, rules: LogRules, now_ms: int
) -> int:
    """Return how many segments, from the first one on, are to be deleted (Log.deleteOldSegments).

    Args:
        segments: all segments, ascending.
        end, high_watermark: those of the log.
        config, rules: how long records are kept.
        now_ms: the present time.
    """
    assert segments, "a log has a segment"
    if not config.deletes:
        return 0
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    kept_bytes = sum(segment.size_bytes for segment in segments)
    limits = config.retention_bytes >= 0 and kept_bytes >= config.retention_bytes
    for count, (segment, upper) in enumerate(zip(segments, ends, strict=True)):
        is_last_and_empty = count == len(segments) - 1 and not segment.size_bytes
        if is_last_and_empty or (rules.keeps_uncommitted_segments and high_watermark < upper):
            return count
        age_ms = now_ms - segment.dated_ms(by_timestamps=rules.dates_segments_by_records)
        is_old = config.retention_ms >= 0 and age_ms > config.retention_ms
        kept_bytes -= segment.size_bytes
        if not is_old and not (limits and kept_bytes >= config.retention_bytes):
            return count
    return len(segments)
