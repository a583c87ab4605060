"""Timelines computed in this process, for logs that are too small to be worth a Spark.

The tables are those of `simzk.pipeline.timelines.tables`, from the rows of the same reader. This is a second
implementation of their rules, because Spark takes ten seconds or more for what takes less than one here.
`simzk.pipeline.timelines.run.fits_here` alone chooses, and `benchmarks/timelines.py` compares both.

Rules of this module:
  - a function has the name and the result of its counterpart in `tables.py`, with rows as tuples;
  - times are microseconds since 1970, and None stands for null.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.pipeline.data_source import sound
from simzk.pipeline.logs.files import find_files
from simzk.pipeline.logs.sources import (
    LogReader,
    SnapshotFilesReader,
    Stretch,
    log_file_rows,
    snapshot_file_rows,
)
from simzk.pipeline.logs.tables import MOST, Wanted
from simzk.pipeline.timelines.tables import GONE, SET
from simzk.zookeeper.persistence.files import LOG, SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

Damages = list[dict[str, str]]

_CREATED = frozenset(("create", "create2", "createContainer", "createTTL"))
_MADE = _CREATED | {"setData"}
_REMOVED = frozenset(("delete", "deleteContainer"))


class LogRow(NamedTuple):
    """Row of `zookeeper_log`: the fields of `simzk.pipeline.logs.tables.log_schema`."""

    file: str
    offset: int
    zxid: int
    time: int
    session: int
    cxid: int
    step: int | None
    operation: str
    applied: bool
    path: str | None
    data: bytes | None
    version: int | None
    ephemeral: bool | None
    parent_cversion: int | None
    ttl_ms: int | None
    acl: object
    timeout_ms: int | None
    paths: list[str] | None
    error: int | None
    digest: int | None
    damage: str | None


class SnapshotRow(NamedTuple):
    """Row of `zookeeper_snapshot`: the fields of `simzk.pipeline.logs.tables.snapshot_schema`."""

    file: str
    path: str
    data: bytes | None
    acl: object
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    damage: str | None


class Change(NamedTuple):
    """A change of a znode, as of `changes_of`."""

    zxid: int
    step: int
    time: int
    session: int | None
    change: str
    path: str
    data: str | None
    version: int | None


class SessionEnd(NamedTuple):
    """End of a session, with the ephemerals deleted with it."""

    zxid: int
    time: int
    session: int
    cxid: int
    paths: list[str]


def read_logs(files: Sequence[str], mode: str) -> tuple[list[LogRow], Damages]:
    """Return the undamaged rows of some logs, and the damage; `mode` is the treatment of damage."""
    rows: list[LogRow] = []
    damages: Damages = []
    for stretch in LogReader(find_files(LOG, ",".join(files)), mode, [], MOST).partitions():
        assert isinstance(stretch, Stretch)
        for row in sound(log_file_rows(stretch, Wanted()), mode):
            if row[-1] is None:
                rows.append(LogRow(*row))  # type: ignore[arg-type]  # the fields of log_schema
            else:
                damages.append({"file": stretch.path, "damage": str(row[-1])})
    return rows, damages


def read_snapshots(files: Sequence[str], mode: str) -> tuple[list[SnapshotRow], Damages]:
    """Return the rows of some snapshots, and the damage; a damaged one has no rows, because a server rejects it."""
    rows: list[SnapshotRow] = []
    damages: Damages = []
    if not files:
        return rows, damages
    for stretch in SnapshotFilesReader(find_files(SNAPSHOT, ",".join(files)), mode, []).partitions():
        assert isinstance(stretch, Stretch)
        of_file = list(sound(snapshot_file_rows(stretch), mode))
        broken = [str(row[-1]) for row in of_file if row[-1] is not None]
        damages += [{"file": stretch.path, "damage": damage} for damage in broken]
        if not broken:
            rows += [SnapshotRow(*row) for row in of_file]  # type: ignore[arg-type]  # the fields of snapshot_schema
    return rows, damages


def contradictory_times(log: Iterable[LogRow], snapshots: Iterable[SnapshotRow]) -> dict[tuple[str, str], str]:
    """Return pairs of files in which a zxid has different times, with the reason."""
    times: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for row in log:
        times[row.zxid].add((row.time, row.file))
    for znode in snapshots:
        if not znode.path.startswith("/zookeeper"):
            for zxid, time in ((znode.czxid, znode.ctime), (znode.mzxid, znode.mtime)):
                if zxid > 0:
                    times[zxid].add((time, znode.file))
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for zxid, seen in times.items():
        if len({time for time, _ in seen}) > 1:
            for time, file in seen:
                for other_time, other in seen:
                    if file < other and time != other_time:
                        found[file, other].add(zxid)
    return {
        pair: f"{len(zxids):,} zxids have another time there, from 0x{min(zxids):x} on" for pair, zxids in found.items()
    }


def cluster_ids(
    log: Iterable[LogRow], snapshots: Iterable[SnapshotRow], chroot: str
) -> tuple[dict[str, set[tuple[int, str]]], frozenset[int]]:
    """Return the zxids and values of `/cluster/id` in each file, and the zxids at which it was deleted or replaced."""
    path = f"{chroot}/cluster/id"
    seen: list[tuple[str, int, bytes | None]] = []
    renewed = set()
    for row in log:
        if row.path == path and row.applied:
            seen.append((row.file, row.zxid, row.data))
            if row.operation in ("delete", "deleteContainer", "setData"):
                renewed.add(row.zxid)
    for znode in snapshots:
        if znode.path == path:
            seen.append((znode.file, znode.mzxid, znode.data))
            if znode.mzxid > znode.czxid:
                renewed.add(znode.mzxid)
    written: dict[str, set[tuple[int, str]]] = {}
    for file, zxid, data in seen:
        found = _parsed(_text(data))
        if isinstance(found, dict) and found.get("id") is not None:
            written.setdefault(file, set()).add((zxid, str(found["id"])))
    return written, frozenset(renewed)


def applied_once(log: Iterable[LogRow]) -> list[LogRow]:
    """Return each applied step once, even if several servers' logs contain it."""
    return list({(row.zxid, row.step): row for row in log if row.applied}.values())


def taken_by_sessions(once: Sequence[LogRow], snapshots: Sequence[SnapshotRow]) -> list[SessionEnd]:
    """Return the ends of sessions with the ephemerals deleted by each."""
    ends = [
        SessionEnd(row.zxid, row.time, row.session, row.cxid, row.paths or [])
        for row in once
        if row.operation == "closeSession"
    ]
    if all(end.paths for end in ends):
        return ends
    steps: dict[tuple[str, int, int | None], int] = {}
    for row in once:
        if row.operation in _CREATED or row.operation in _REMOVED:
            assert row.path is not None
            owner = row.session if row.operation in _CREATED and row.ephemeral else None
            key = (row.path, row.zxid, owner)
            steps[key] = max(steps.get(key, 0), row.step or 0)
    for znode in snapshots:
        if znode.ephemeral_owner > 0:
            steps.setdefault((znode.path, znode.czxid, znode.ephemeral_owner), 0)
    lives = sorted(((path, zxid, step, owner) for (path, zxid, owner), step in steps.items()), key=lambda one: one[:3])
    owned: dict[int, list[tuple[int, int | None, str]]] = defaultdict(list)
    for (path, zxid, _, owner), following in zip(lives, [*lives[1:], None], strict=True):
        if owner is not None:
            next_zxid = following[1] if following is not None and following[0] == path else None
            owned[owner].append((zxid, next_zxid, path))
    return [end if end.paths else end._replace(paths=_left(owned.get(end.session, ()), end.zxid)) for end in ends]


def _left(owned: Iterable[tuple[int, int | None, str]], zxid: int) -> list[str]:
    """Return the ephemerals that a session had at a zxid, sorted by name."""
    return sorted({path for made, gone, path in owned if made < zxid and (gone is None or gone > zxid)})


def changes_of(
    once: Sequence[LogRow], ends: Iterable[SessionEnd], snapshots: Iterable[SnapshotRow], chroot: str
) -> list[Change]:
    """Return each change of a znode below the chroot, in order."""
    found: dict[tuple[int, str, str, int | None], Change] = {}
    for change in _all_changes(once, ends, snapshots):
        if change.path.startswith(f"{chroot}/"):
            below = change._replace(path=change.path[len(chroot) :])
            key = (below.zxid, below.path, below.change, below.version)
            # A znode's change at one zxid, in a log and a snapshot, is one; only the log has the session.
            known = found.get(key)
            if known is None or (below.session is None, below.step) < (known.session is None, known.step):
                found[key] = below
    return sorted(found.values(), key=attrgetter("zxid", "step"))


def _all_changes(
    once: Iterable[LogRow], ends: Iterable[SessionEnd], snapshots: Iterable[SnapshotRow]
) -> Iterator[Change]:
    for row in once:
        if row.operation in _MADE:
            assert row.path is not None
            data = _text(row.data)
            yield Change(row.zxid, row.step or 0, row.time, row.session, SET, row.path, data, row.version or 0)
        elif row.operation in _REMOVED:
            assert row.path is not None
            yield Change(row.zxid, row.step or 0, row.time, row.session, GONE, row.path, None, None)
    for end in ends:
        for place, path in enumerate(end.paths):
            yield Change(end.zxid, place, end.time, end.session, GONE, path, None, None)
    for znode in snapshots:
        yield Change(znode.mzxid, 0, znode.mtime, None, SET, znode.path, _text(znode.data), znode.version)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/([0-9]+)/state")
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")
_CONFIG = re.compile(r"/config/topics/([^/]+)")
_BROKER = re.compile(r"/brokers/ids/([0-9]+)")


class _State(NamedTuple):
    leader: int | None
    leader_epoch: int | None
    controller_epoch: int | None
    isr: list[int] | None


_NO_STATE = _State(-1, -1, -1, None)


class _Event(NamedTuple):
    """Change of a partition: its state, its replicas or its minimum ISR; None for what does not change."""

    zxid: int
    step: int
    time: int
    state: _State | None = None
    replicas: list[int] | None = None
    min_isr: int | None = None
    set_by: int | None = None
    version: int | None = None


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


def partitions_of(changes: Sequence[Change]) -> list[Partition]:
    """Return each partition's leader, ISR, epochs and replicas as intervals."""
    events: dict[tuple[str, int], list[_Event]] = defaultdict(list)
    minimums: dict[str, list[_Event]] = defaultdict(list)
    for change in changes:
        zxid, step, time, session, kind, path, data, version = change
        if found := _STATE.fullmatch(path):
            state = _NO_STATE if kind == GONE else _state_of(data)
            event = _Event(zxid, step, time, state=state, set_by=session, version=version)
            events[found[1], int(found[2])].append(event)
        elif (found := _TOPIC.fullmatch(path)) and kind == SET:
            for partition, replicas in _assignment_of(data):
                events[found[1], partition].append(_Event(zxid, step, time, replicas=replicas))
        elif found := _CONFIG.fullmatch(path):
            minimums[found[1]].append(_Event(zxid, step, time, min_isr=_min_isr_of(data)))
    return [
        interval
        for (topic, partition), of_partition in sorted(events.items())
        for interval in _intervals(topic, partition, [*of_partition, *minimums.get(topic, ())])
    ]


def _intervals(topic: str, partition: int, events: list[_Event]) -> Iterator[Partition]:
    events.sort(key=attrgetter("zxid", "step"))
    state = replicas = min_isr = set_by = version = None
    for event, following in zip(events, [*events[1:], None], strict=True):
        state = state if event.state is None else event.state
        replicas = replicas if event.replicas is None else event.replicas
        min_isr = min_isr if event.min_isr is None else event.min_isr
        set_by = set_by if event.set_by is None else event.set_by
        version = version if event.version is None else event.version
        until_zxid, until = (None, None) if following is None else (following.zxid, following.time)
        if state is None or state.isr is None or until_zxid == event.zxid:
            continue
        led = None if state.leader is None else state.leader >= 0
        least = 1 if min_isr is None else min_isr
        is_small = len(state.isr) < least
        yield Partition(
            topic,
            partition,
            event.zxid,
            until_zxid,
            event.time,
            until,
            state.leader,
            state.isr,
            state.leader_epoch,
            state.controller_epoch,
            version,
            replicas,
            least,
            set_by,
            offline=None if led is None else not led,
            under_replicated=None if replicas is None else len(state.isr) < len(replicas),
            under_min_isr=(None if is_small else False) if led is None else led and is_small,
        )


_JSON = json.JSONDecoder()


def _parsed(data: str | None) -> Any:
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
    found = _parsed(data)
    known = found if isinstance(found, dict) else {}
    return _State(
        _int(known.get("leader")),
        _int(known.get("leader_epoch")),
        _int(known.get("controller_epoch")),
        _ints(known.get("isr")),
    )


def _assignment_of(data: str | None) -> Iterator[tuple[int, list[int]]]:
    found = _parsed(data)
    partitions = found.get("partitions") if isinstance(found, dict) else None
    if isinstance(partitions, dict) and all(_ints(replicas) is not None for replicas in partitions.values()):
        for name, replicas in partitions.items():
            number = _number_in(name)
            if number is not None:
                yield number, replicas


def _min_isr_of(data: str | None) -> int:
    found = _parsed(data)
    config = found.get("config") if isinstance(found, dict) else None
    value = config.get("min.insync.replicas") if isinstance(config, dict) else None
    number = _number_in(value)
    return 1 if number is None else number


class Total(NamedTuple):
    """Totals of a partition, as of `totals_of`."""

    topic: str
    partition: int
    observed_s: float
    offline_s: float
    under_replicated_s: float
    under_min_isr_s: float
    leader_moves: int
    isr_shrinks: int
    isr_expansions: int


def totals_of(partitions: Iterable[Partition], end: int) -> list[Total]:
    """Return the totals of each partition; `end` is the end of the observation."""
    found: dict[tuple[str, int], list[int]] = {}
    for row, before in _with_previous(partitions):
        sums = found.setdefault((row.topic, row.partition), [0] * 7)
        lasted = (end if row.until is None else row.until) - row.start
        conditions = (True, row.offline, row.under_replicated, row.under_min_isr)
        for place, holds in enumerate(conditions):
            sums[place] += lasted if holds else 0
        if before is not None:
            sums[4] += _has_moved(before, row)
            sums[5] += len(row.isr) < len(before.isr)
            sums[6] += len(row.isr) > len(before.isr)
    return [
        Total(topic, partition, a / 1e6, b / 1e6, c / 1e6, d / 1e6, moves, shrinks, expansions)
        for (topic, partition), (a, b, c, d, moves, shrinks, expansions) in found.items()
    ]


def _with_previous(partitions: Iterable[Partition]) -> Iterator[tuple[Partition, Partition | None]]:
    """Yield each interval with the one that ends where it begins; None if there is none."""
    before: Partition | None = None
    for row in partitions:
        follows = before is not None and before[:2] == row[:2] and before.until_zxid == row.from_zxid
        yield row, before if follows else None
        before = row


def _has_moved(before: Partition, row: Partition) -> bool:
    return before.leader is not None and row.leader is not None and before.leader != row.leader


def leadership_of(partitions: Iterable[Partition]) -> list[tuple[object, ...]]:
    """Return each leader change with both brokers; -1 for none."""
    return [
        (row.topic, row.partition, row.from_zxid, row.start, before.leader, row.leader, row.leader_epoch)
        for row, before in _with_previous(partitions)
        if before is not None and _has_moved(before, row)
    ]


def controllers_of(changes: Iterable[Change]) -> list[tuple[object, ...]]:
    """Return the controllers with their intervals; 0.8.0 wrote the bare id."""

    def broker(change: Change) -> int | None:
        found = _parsed(change.data)
        return _number_in(found.get("brokerid") if isinstance(found, dict) else change.data)

    return [(broker(change), *interval) for change, *interval in _ephemerals(changes, re.compile("/controller"))]


def brokers_of(changes: Iterable[Change]) -> list[tuple[object, ...]]:
    """Return the intervals in which each broker was registered."""
    return [(int(change.path.rpartition("/")[2]), *interval) for change, *interval in _ephemerals(changes, _BROKER)]


def _ephemerals(changes: Iterable[Change], path: re.Pattern[str]) -> Iterator[tuple[Any, ...]]:
    by_path: dict[str, list[Change]] = defaultdict(list)
    last: dict[str, Change] = {}
    for change in changes:
        if path.fullmatch(change.path):
            # Brokers set their registration again to learn its zxid; that starts no interval.
            before = last.get(change.path)
            is_again = before is not None and before.change == change.change == SET
            if not (is_again and before is not None and before.session == change.session):
                by_path[change.path].append(change)
            last[change.path] = change
    for turns in by_path.values():
        for change, following in zip(turns, [*turns[1:], None], strict=True):
            if change.change == SET:
                until_zxid, until = (None, None) if following is None else (following.zxid, following.time)
                yield change, change.session, change.zxid, until_zxid, change.time, until


def sessions_of(once: Iterable[LogRow], ends: Iterable[SessionEnd]) -> list[tuple[object, ...]]:
    """Return each session with start, end, kind of end, and the ephemerals deleted with it."""
    begun: dict[int, list[LogRow]] = defaultdict(list)
    for row in once:
        if row.operation == "createSession":
            begun[row.session].append(row)
    found: list[tuple[object, ...]] = []
    ended = set()
    for end in ends:
        # A close by the client has the xid of its request; an expiry has 0 (docs/reference/zookeeper.md §6).
        tail = (end.zxid, end.time, "closed" if end.cxid else "expired", end.paths)
        ended.add(end.session)
        starts = begun.get(end.session)
        heads = [(row.timeout_ms, row.zxid, row.time) for row in starts] if starts else [(None, None, None)]
        found += [(end.session, *head, *tail) for head in heads]
    for session, starts in begun.items():
        if session not in ended:
            found += [(session, row.timeout_ms, row.zxid, row.time, None, None, None, None) for row in starts]
    return found


def tables_of(
    log: Sequence[LogRow], snapshots: Sequence[SnapshotRow], chroot: str
) -> dict[str, tuple[pa.Schema, Sequence[tuple[object, ...]]]]:
    """Return the schema and rows of each table, by name, in the order in which they are written."""
    once = applied_once(log)
    ends = taken_by_sessions(once, snapshots)
    changes = changes_of(once, ends, snapshots, chroot)
    partitions = partitions_of(changes)
    rows: dict[str, Sequence[tuple[object, ...]]] = {
        "partitions": partitions,
        "totals": totals_of(partitions, max((row.time for row in log), default=0)),
        "leadership": leadership_of(partitions),
        "controllers": controllers_of(changes),
        "brokers": brokers_of(changes),
        "sessions": sessions_of(once, ends),
        "writers": writers_of(log),
    }
    schemas = _schemas()
    return {name: (schemas[name], found) for name, found in rows.items()}


def _schemas() -> dict[str, pa.Schema]:
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


def write_table(folder: Path, schema: pa.Schema, rows: Sequence[tuple[object, ...]], *, day_of: str = "") -> None:
    """Write a table as Spark does: a folder with `_SUCCESS`, times as INT96.

    Args:
        folder: the folder, which does not exist.
        schema, rows: the table.
        day_of: column of the time by whose day the rows are split into folders; empty for none.

    Raises:
        OSError: it cannot be written.
    """
    import pyarrow.parquet as pq

    by_day: dict[str, list[tuple[object, ...]]] = {} if day_of else {"": []}
    place = schema.get_field_index(day_of) if day_of else 0
    for row in rows:
        by_day.setdefault(_day(row[place]) if day_of else "", []).append(row)
    folder.mkdir(parents=True)
    for day, of_day in by_day.items():
        (folder / day).mkdir(exist_ok=True)
        part = folder / day / "part-00000.parquet"
        pq.write_table(_arrow(schema, of_day), part, use_deprecated_int96_timestamps=True, store_schema=False)
    (folder / "_SUCCESS").touch()


def _arrow(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    import pyarrow as pa

    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


def _day(time_us: object) -> str:
    assert isinstance(time_us, int)
    return f"day={datetime.fromtimestamp(time_us // 1_000_000, UTC):%Y-%m-%d}"


_NAMED = re.compile(r"^(/config/\w+|/brokers/(?:topics|ids)|/consumers|/kafka-acl/\w+)/[^/]+", re.ASCII)
_NUMBER = re.compile(r"/[0-9]+(?=/|$)")
_SEQUENCE = re.compile(r"[0-9]{10}$")


def writers_of(log: Iterable[LogRow]) -> list[tuple[object, ...]]:
    """Count writes by session, operation and kind of path (names and numbers omitted)."""
    kinds: dict[str | None, str | None] = {None: None}
    found: dict[tuple[int, str, str | None], list[int]] = {}
    for row in {(row.zxid, row.step): row for row in log}.values():
        if row.path not in kinds:
            assert row.path is not None
            kinds[row.path] = _SEQUENCE.sub("*", _NUMBER.sub("/*", _NAMED.sub(r"\1/*", row.path)))
        counted = found.setdefault((row.session, row.operation, kinds[row.path]), [0, row.time, row.time])
        counted[0] += 1
        counted[1:] = min(counted[1], row.time), max(counted[2], row.time)
    return [(*key, *counted) for key, counted in found.items()]
