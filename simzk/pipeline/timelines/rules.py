"""Rules of the tables that follow from changes of znodes: what text says, intervals, totals.

Both readers call these functions: `simzk.pipeline.timelines.tables` on Spark, and `simzk.pipeline.timelines.local` in
this process.

Rules of this module:
  - a function gets rows in order and returns rows; it keeps the state of one topic, partition or path only;
  - a change is identified by its zxid and its step within the transaction;
  - an interval lasts from one change to the next; `until` is None if it lasted to the end;
  - text that no version of Kafka writes gives None and counts as no state;
  - times are microseconds since 1970, and None stands for null;
  - docs/reference/kafka.md §1 documents the znodes.
"""

from __future__ import annotations

import json
import re
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

SET, GONE = "set", "gone"
CREATED = ("create", "create2", "createContainer", "createTTL")
MADE = (*CREATED, "setData")
REMOVED = ("delete", "deleteContainer")
"""Operations that create a znode, set its data, and delete it."""

# Both readers apply these patterns, Java's expressions and Python's: they use what both have alike.
IN_TOPIC = r"^/(?:brokers|config)/topics/([^/]+)(?:$|/partitions/[0-9]+/state$)"
CONTROLLER = r"^/controller$"
BROKER = r"^/brokers/ids/([0-9]+)$"
KIND_OF_PATH = (
    (r"^(/config/[A-Za-z0-9_]+|/brokers/(?:topics|ids)|/consumers|/kafka-acl/[A-Za-z0-9_]+)/[^/]+", r"\1/*"),
    (r"/[0-9]+(?=/|$)", "/*"),
    (r"[0-9]{10}$", "*"),
)
"""Replacements, in order, that omit the names and numbers of a path."""

_IN_TOPIC = re.compile(IN_TOPIC)
_STATE = re.compile(r"/brokers/topics/[^/]+/partitions/([0-9]+)/state")
_TOPIC = re.compile(r"/brokers/topics/[^/]+")
_CONFIG = re.compile(r"/config/topics/[^/]+")


class TimelineChange(NamedTuple):
    """A change of a znode, its path below the chroot.

    `session` is None in a snapshot; `change` is `SET` or `GONE`, and a znode that is gone has no data and no version.
    """

    zxid: int
    step: int
    time: int
    session: int | None
    change: str
    path: str
    data: str | None
    version: int | None


class _State(NamedTuple):
    leader: int | None
    leader_epoch: int | None
    controller_epoch: int | None
    isr: list[int] | None


_NO_STATE = _State(-1, -1, -1, None)
"""A deleted state has no ISR, which no partition has."""


class Partition(NamedTuple):
    """Interval of a partition, as of `partitions_of`; `start` is the column `from`."""

    topic: str
    partition: int
    from_zxid: int
    until_zxid: int | None
    start: int
    until: int | None
    leader: int | None
    isr: list[int]
    leader_epoch: int | None
    controller_epoch: int | None
    version: int | None
    replicas: list[int] | None
    min_isr: int
    session: int | None
    offline: bool | None
    under_replicated: bool | None
    under_min_isr: bool | None


class _Known:
    """Last known state of a partition, and where it began."""

    __slots__ = ("replicas", "set_by", "start", "state", "version", "zxid")

    def __init__(self) -> None:
        self.zxid = self.start = 0
        self.state: _State | None = None
        self.replicas: list[int] | None = None
        self.set_by: int | None = None
        self.version: int | None = None

    def set_state(self, change: TimelineChange) -> None:
        """Apply a change of the state znode; invalid text changes nothing."""
        state = _NO_STATE if change.change == GONE else _state_of(change.data)
        self.state = self.state if state is None else state
        self.set_by = self.set_by if change.session is None else change.session
        self.version = self.version if change.version is None else change.version

    def interval(self, topic: str, partition: int, min_isr: int, until: TimelineChange | None) -> Partition | None:
        """Return the interval that ends with a change; None without an ISR, or if it had no duration."""
        state = self.state
        if state is None or state.isr is None or (until is not None and until.zxid == self.zxid):
            return None
        led = None if state.leader is None else state.leader >= 0
        is_small = len(state.isr) < min_isr
        return Partition(
            topic,
            partition,
            self.zxid,
            None if until is None else until.zxid,
            self.start,
            None if until is None else until.time,
            state.leader,
            state.isr,
            state.leader_epoch,
            state.controller_epoch,
            self.version,
            self.replicas,
            min_isr,
            self.set_by,
            offline=None if led is None else not led,
            under_replicated=None if self.replicas is None else len(state.isr) < len(self.replicas),
            under_min_isr=(None if is_small else False) if led is None else led and is_small,
        )


def topic_of(change: TimelineChange) -> str:
    """Return the topic that a change of a partition's state, an assignment or a topic's configuration is about."""
    found = _IN_TOPIC.match(change.path)
    assert found is not None, f"{change.path} is of no topic"
    return found[1]


def partitions_of(changes: Iterable[TimelineChange]) -> Iterator[Partition]:
    """Yield each partition's leader, ISR, epochs and replicas as intervals.

    Args:
        changes: those with a path like `IN_TOPIC`, of one topic after the other, each in the order of zxid and step.
    """
    for topic, of_topic in groupby(changes, topic_of):
        yield from _intervals(topic, of_topic)


def _intervals(topic: str, changes: Iterable[TimelineChange]) -> Iterator[Partition]:
    known: dict[int, _Known] = {}
    min_isr = 1
    for change in changes:
        has_state, has_min_isr = _STATE.fullmatch(change.path), _CONFIG.fullmatch(change.path)
        has_replicas = change.change == SET and _TOPIC.fullmatch(change.path)
        replicas = dict(_assignment_of(change.data)) if has_replicas else {}
        changed = [int(has_state[1])] if has_state else list(known if has_min_isr else replicas)
        for number in changed:
            of_partition = known.setdefault(number, _Known())
            interval = of_partition.interval(topic, number, min_isr, change)
            if interval is not None:
                yield interval
            of_partition.zxid, of_partition.start = change.zxid, change.time
            of_partition.replicas = replicas.get(number, of_partition.replicas)
            if has_state:
                of_partition.set_state(change)
        if has_min_isr:
            min_isr = _min_isr_of(change.data)
    for number, of_partition in known.items():
        interval = of_partition.interval(topic, number, min_isr, None)
        if interval is not None:
            yield interval


_JSON = json.JSONDecoder()


def parsed(data: str | None) -> Any:
    """Return JSON text as a value; None if it is none. Text after the value is ignored, as Spark does."""
    try:
        return None if data is None else _JSON.raw_decode(data.lstrip())[0]
    except ValueError:
        return None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31 else None


def _ints(value: object) -> list[int] | None:
    return value if isinstance(value, list) and all(_int(one) is not None for one in value) else None


def _number_in(value: object) -> int | None:
    """Return the number that a JSON value is, or has as text; None if there is none."""
    text = str(value).strip()
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,9}", text) else None


def _state_of(data: str | None) -> _State | None:
    if data is None or not data.strip():
        return None  # the state before it holds on
    found = parsed(data)
    known = found if isinstance(found, dict) else {}
    return _State(
        _int(known.get("leader")),
        _int(known.get("leader_epoch")),
        _int(known.get("controller_epoch")),
        _ints(known.get("isr")),
    )


def _assignment_of(data: str | None) -> Iterator[tuple[int, list[int]]]:
    found = parsed(data)
    partitions = found.get("partitions") if isinstance(found, dict) else None
    if isinstance(partitions, dict) and all(_ints(replicas) is not None for replicas in partitions.values()):
        for name, replicas in partitions.items():
            number = _number_in(name)
            if number is not None:
                yield number, replicas


def _min_isr_of(data: str | None) -> int:
    found = parsed(data)
    config = found.get("config") if isinstance(found, dict) else None
    value = config.get("min.insync.replicas") if isinstance(config, dict) else None
    number = _number_in(value)
    return 1 if number is None else number


class Total(NamedTuple):
    """Totals of a partition, in seconds and numbers of changes."""

    topic: str
    partition: int
    observed_s: float
    offline_s: float
    under_replicated_s: float
    under_min_isr_s: float
    leader_moves: int
    isr_shrinks: int
    isr_expansions: int


def totals_of(partitions: Iterable[Partition], end: int) -> Iterator[Total]:
    """Yield the totals of each partition.

    Args:
        partitions: intervals of one partition after the other, each in the order of time.
        end: end of the observation, for intervals without an end.
    """
    for (topic, partition), rows in groupby(partitions, lambda row: row[:2]):
        lasted_us, moves, shrinks, expansions = [0, 0, 0, 0], 0, 0, 0
        for row, before in _with_previous(rows):
            us = (end if row.until is None else row.until) - row.start
            for place, holds in enumerate((True, row.offline, row.under_replicated, row.under_min_isr)):
                lasted_us[place] += us if holds else 0
            if before is not None:
                moves += _has_moved(before, row)
                shrinks += len(row.isr) < len(before.isr)
                expansions += len(row.isr) > len(before.isr)
        observed_s, offline_s, under_replicated_s, under_min_isr_s = (us / 1e6 for us in lasted_us)
        seconds = (observed_s, offline_s, under_replicated_s, under_min_isr_s)
        yield Total(topic, partition, *seconds, moves, shrinks, expansions)


def _with_previous(partitions: Iterable[Partition]) -> Iterator[tuple[Partition, Partition | None]]:
    """Yield each interval with the one that ends where it begins; None if there is none, or the topic was recreated."""
    before: Partition | None = None
    for row in partitions:
        follows = before is not None and before[:2] == row[:2] and before.until_zxid == row.from_zxid
        yield row, before if follows else None
        before = row


def _has_moved(before: Partition, row: Partition) -> bool:
    return before.leader is not None and row.leader is not None and before.leader != row.leader


def leadership_of(partitions: Iterable[Partition]) -> Iterator[tuple[object, ...]]:
    """Yield each leader change with both brokers; -1 for none.

    Args:
        partitions: as for `totals_of`.
    """
    for row, before in _with_previous(partitions):
        if before is not None and _has_moved(before, row):
            yield row.topic, row.partition, row.from_zxid, row.start, before.leader, row.leader, row.leader_epoch


def controllers_of(changes: Iterable[TimelineChange]) -> Iterator[tuple[object, ...]]:
    """Yield the controllers with their intervals; 0.8.0 wrote the bare id.

    Args:
        changes: those with the path `CONTROLLER`, in the order of zxid and step.
    """
    for change, *interval in _ephemerals(changes):
        found = parsed(change.data)
        yield _number_in(found.get("brokerid") if isinstance(found, dict) else change.data), *interval


def brokers_of(changes: Iterable[TimelineChange]) -> Iterator[tuple[object, ...]]:
    """Yield the intervals in which each broker was registered.

    Args:
        changes: those with a path like `BROKER`, of one path after the other, each in the order of zxid and step.
    """
    for change, *interval in _ephemerals(changes):
        yield int(change.path.rpartition("/")[2]), *interval


def _ephemerals(changes: Iterable[TimelineChange]) -> Iterator[tuple[Any, ...]]:
    for _, of_path in groupby(changes, lambda change: change.path):
        turns: list[TimelineChange] = []
        last: TimelineChange | None = None
        for change in of_path:
            # Brokers set their registration again to learn its zxid; that starts no interval.
            is_again = last is not None and last.change == change.change == SET and last.session == change.session
            if not is_again:
                turns.append(change)
            last = change
        for change, following in zip(turns, [*turns[1:], None], strict=True):
            if change.change == SET:
                until_zxid, until = (None, None) if following is None else (following.zxid, following.time)
                yield change, change.session, change.zxid, until_zxid, change.time, until


@cache
def schemas() -> dict[str, pa.Schema]:
    """Return the Arrow schema of each table; docs/pipeline.md documents the columns."""
    import pyarrow as pa

    time, text, truth, real = pa.timestamp("us", "UTC"), pa.string(), pa.bool_(), pa.float64()
    small, large = pa.int32(), pa.int64()
    whole = partial(pa.field, nullable=False)
    ids, names = pa.list_(pa.field("element", small)), pa.list_(pa.field("element", text))
    interval = (("from_zxid", large), ("until_zxid", large), ("from", time), ("until", time))
    partition = (("topic", text), ("partition", small))
    ephemeral = pa.schema([("broker", small), ("session", large), *interval])
    state = (("leader", small), ("isr", ids), ("leader_epoch", small), ("controller_epoch", small), ("version", small))
    conditions = (("offline", truth), ("under_replicated", truth), ("under_min_isr", truth))
    return {
        "partitions": pa.schema(
            [*partition, *interval, *state, ("replicas", ids), whole("min_isr", small), ("session", large), *conditions]
        ),
        "totals": pa.schema(
            [
                *partition,
                ("observed_s", real),
                *(whole(name, real) for name in ("offline_s", "under_replicated_s", "under_min_isr_s")),
                *(whole(name, large) for name in ("leader_moves", "isr_shrinks", "isr_expansions")),
            ]
        ),
        "leadership": pa.schema(
            [
                *partition,
                *(("zxid", large), ("time", time), ("from_broker", small), ("to_broker", small)),
                ("leader_epoch", small),
            ]
        ),
        "controllers": ephemeral,
        "brokers": ephemeral,
        "sessions": pa.schema(
            [
                *(("session", large), ("timeout_ms", small), ("from_zxid", large), ("from", time)),
                *(("until_zxid", large), ("until", time), ("end", text), ("ephemerals", names)),
            ]
        ),
        "writers": pa.schema(
            [
                *(("session", large), ("operation", text), ("path", text), whole("count", large)),
                *(("first", time), ("last", time)),
            ]
        ),
    }
