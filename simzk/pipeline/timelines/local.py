"""Timelines computed in this process, for logs that are too small to be worth a Spark.

The tables are those of `simzk.pipeline.timelines.tables`, from the rows of the same reader and by the same rules
(`simzk.pipeline.timelines.rules`). Here are the joins that Spark does there: it takes ten seconds or more for what
takes less than one here. `simzk.pipeline.timelines.run.fits_here` alone chooses, and `benchmarks/timelines.py`
compares both.

Rules of this module:
  - a function has the name and the result of its counterpart in `tables.py`, with rows as tuples;
  - times are microseconds since 1970, and None stands for null.
"""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

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
from simzk.pipeline.timelines import rules
from simzk.pipeline.timelines.rules import CREATED, GONE, MADE, REMOVED, SET, TimelineChange, parsed
from simzk.zookeeper.persistence.files import LOG, SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

Damages = list[dict[str, str]]


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
        found = parsed(_text(data))
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
        if row.operation in CREATED or row.operation in REMOVED:
            assert row.path is not None
            owner = row.session if row.operation in CREATED and row.ephemeral else None
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
) -> list[TimelineChange]:
    """Return each change of a znode below the chroot, in order."""
    found: dict[tuple[int, str, str, int | None], TimelineChange] = {}
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
) -> Iterator[TimelineChange]:
    for row in once:
        if row.operation in MADE:
            assert row.path is not None
            data = _text(row.data)
            yield TimelineChange(row.zxid, row.step or 0, row.time, row.session, SET, row.path, data, row.version or 0)
        elif row.operation in REMOVED:
            assert row.path is not None
            yield TimelineChange(row.zxid, row.step or 0, row.time, row.session, GONE, row.path, None, None)
    for end in ends:
        for place, path in enumerate(end.paths):
            yield TimelineChange(end.zxid, place, end.time, end.session, GONE, path, None, None)
    for znode in snapshots:
        yield TimelineChange(znode.mzxid, 0, znode.mtime, None, SET, znode.path, _text(znode.data), znode.version)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


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
    in_topics = sorted(_like(rules.IN_TOPIC, changes), key=rules.topic_of)
    partitions = sorted(rules.partitions_of(in_topics), key=attrgetter("topic", "partition", "from_zxid"))
    registrations = sorted(_like(rules.BROKER, changes), key=attrgetter("path"))
    rows: dict[str, Sequence[tuple[object, ...]]] = {
        "partitions": partitions,
        "totals": list(rules.totals_of(partitions, max((row.time for row in log), default=0))),
        "leadership": list(rules.leadership_of(partitions)),
        "controllers": list(rules.controllers_of(_like(rules.CONTROLLER, changes))),
        "brokers": list(rules.brokers_of(registrations)),
        "sessions": sessions_of(once, ends),
        "writers": writers_of(log),
    }
    return {name: (rules.schemas()[name], found) for name, found in rows.items()}


def _like(pattern: str, changes: Iterable[TimelineChange]) -> list[TimelineChange]:
    matches = re.compile(pattern).match
    return [change for change in changes if matches(change.path)]


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


_KINDS = tuple((re.compile(pattern), replacement) for pattern, replacement in rules.KIND_OF_PATH)


def writers_of(log: Iterable[LogRow]) -> list[tuple[object, ...]]:
    """Count writes by session, operation and kind of path (names and numbers omitted)."""
    kinds: dict[str | None, str | None] = {None: None}
    found: dict[tuple[int, str, str | None], list[int]] = {}
    for row in {(row.zxid, row.step): row for row in log}.values():
        if row.path not in kinds:
            assert row.path is not None
            kind = row.path
            for pattern, replacement in _KINDS:
                kind = pattern.sub(replacement, kind)
            kinds[row.path] = kind
        counted = found.setdefault((row.session, row.operation, kinds[row.path]), [0, row.time, row.time])
        counted[0] += 1
        counted[1:] = min(counted[1], row.time), max(counted[2], row.time)
    return [(*key, *counted) for key, counted in found.items()]
