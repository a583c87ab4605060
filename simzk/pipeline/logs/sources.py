"""Spark data sources `zookeeper_log`, also as a stream, and `zookeeper_snapshot`: files of a real ZooKeeper as rows.

Options: the path (`load(path)`, see files.py); `mode` for damage: PERMISSIVE (default) gives a row that reports it,
DROPMALFORMED omits it, FAILFAST fails; for logs `splitBytes`, the bytes of a log per task. The rows do not depend on
the splits. Filters on `operation`, `zxid` and `time` are applied before rows are built; filters on `zxid` also skip
files. If the reader has a schema, only its columns are built, because Spark does not pass the columns of a query.

A stream reads a growing log in batches of complete transactions, each exactly once. An offset is the last zxid of a
batch. The rows between two offsets are always the same, so a query that resumes from its checkpoint, or reads a batch
again, loses and repeats nothing. Rules of the stream:
  - a log is the set of files of one folder, by name; a transaction is in the newest file whose zxid is not greater;
  - damage belongs to the next transaction, in its file or in the next one. Until that transaction exists the damage is
    not reported, because the server may still be writing the entry;
  - if files were removed before they were read, one row reports the missing transactions;
  - byte offsets are a cache only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema

from simzk.errors import ConfigError
from simzk.garbage_collection import without_cyclic_gc
from simzk.pipeline.data_source import FAILFAST, batches, columns_of, mode_of, number, sound
from simzk.pipeline.logs.files import PACKED, FoundFiles, Missing, logs_in_folder, opened, some_files, unreadable
from simzk.pipeline.logs.tables import (
    MOST,
    Row,
    Wanted,
    damage_row,
    entry_rows,
    log_rows,
    log_schema,
    snapshot_rows,
    snapshot_schema,
    unread_snapshot,
)
from simzk.zookeeper.persistence import Damage
from simzk.zookeeper.persistence.files import LOG, SNAPSHOT, unpacked
from simzk.zookeeper.persistence.transaction_log import scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from simzk.pipeline.logs.files import NumberedFile
    from simzk.zookeeper.persistence.transaction_log import Seekable

BEFORE_ALL = -1
"""Offset of a stream that started before the first transaction."""

_ENTRY_HEAD_BYTES = 12


class EntryPosition(NamedTuple):
    """Position of a transaction's entry."""

    zxid: int
    path: Path
    offset: int


class LogStretch(NamedTuple):
    """A byte range of a log and the requested transactions in it.

    Args:
        path: the file; empty if the range only reports missing transactions.
        start, stop: first byte and first byte after the range; None for the end of the file.
        after, until: requested zxids are greater than `after` and at most `until`.
        following: zxid in the name of the next file; None for the newest.
        gone: description of removed transactions.
    """

    path: str
    start: int
    stop: int | None
    after: int
    until: int
    following: int | None
    gone: str = ""


class LogFollower:
    """Reader of the growing log in one folder.

    Args:
        folder: data directory, or its `version-2`.

    Raises:
        ConfigError: the folder does not exist.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._places: list[EntryPosition] = []  # ascending: the entries at the ends of ranges
        logs_in_folder(folder)

    def first_zxid(self) -> int:
        """Return the offset before the first present transaction."""
        files = logs_in_folder(self._folder)
        return files[0].zxid - 1 if files else BEFORE_ALL

    def last_zxid(self) -> int:
        """Return the zxid of the last transaction, or `BEFORE_ALL`."""
        for file in reversed(logs_in_folder(self._folder)):
            place = self._last_in(file)
            if place is not None:
                if not self._places or self._places[-1] != place:
                    self._places = [*(known for known in self._places if known.zxid < place.zxid), place]
                return place.zxid
        return BEFORE_ALL

    def forget_before(self, zxid: int) -> None:
        """Discard cached positions before this transaction."""
        self._places = [place for place in self._places if place.zxid >= zxid]

    def stretches(self, after: int, until: int, split_bytes: int) -> list[LogStretch]:
        """Return the byte ranges of the transactions greater than `after` and at most `until`."""
        files = logs_in_folder(self._folder)
        found: list[LogStretch] = []
        gone = _gone(files, after, until)
        if gone:
            found.append(LogStretch("", 0, None, after, until, None, gone))
        for file, following in pairwise([*files, None]):
            assert file is not None
            end = None if following is None else following.zxid
            if file.zxid > until or (end is not None and end <= after):
                continue
            for start, stop in self._cuts(file.path, after, until, split_bytes):
                found.append(LogStretch(str(file.path), start, stop, after, until, end))
        return found

    def _last_in(self, file: NumberedFile) -> EntryPosition | None:
        last = max((place for place in self._places if place.path == file.path), default=None)
        if last is not None and file.path.suffix == PACKED:
            return last
        with opened(file.path) as stream:
            if last is not None and _is_quiet(stream, last):
                return last
            for offset, found in scan(stream, 0 if last is None else last.offset):
                if not isinstance(found, Damage):
                    last = EntryPosition(found.transaction.zxid, file.path, offset)
        return last

    def _cuts(self, path: Path, after: int, until: int, split_bytes: int) -> Iterator[tuple[int, int | None]]:
        if path.suffix == PACKED:
            yield 0, None
            return
        here = [place for place in self._places if place.path == path]
        start = max((place.offset for place in here if place.zxid <= after), default=0)
        last = min((place.offset + 1 for place in here if place.zxid >= until), default=None)
        end = path.stat().st_size if last is None else last
        starts = list(range(start, end, split_bytes))
        yield from zip(starts, [*starts[1:], last], strict=True)


def stretch_rows(stretch: LogStretch, stream: Seekable) -> Iterator[Row]:
    """Yield the rows of a byte range.

    Args:
        stretch: a range of a file.
        stream: the whole file, decompressed.
    """
    damages: list[Row] = []
    # The first entry after the range is decoded too, because the last damage belongs to it.
    for offset, found in scan(stream, stretch.start):
        if isinstance(found, Damage):
            damages.append(damage_row(stretch.path, offset, found))
            continue
        zxid = found.transaction.zxid
        if stretch.following is not None and zxid >= stretch.following:
            break  # the next file has it
        is_behind = stretch.stop is not None and offset >= stretch.stop
        if _is_wanted(stretch, zxid):
            yield from damages
            if not is_behind:
                yield from entry_rows(stretch.path, offset, found)
        damages = []
        if is_behind or zxid > stretch.until:
            return
    if damages and stretch.following is not None and _is_wanted(stretch, stretch.following):
        yield from damages


def _is_wanted(stretch: LogStretch, zxid: int) -> bool:
    return stretch.after < zxid <= stretch.until


def _is_quiet(stream: Seekable, last: EntryPosition) -> bool:
    """Return whether only padding follows an entry, without reading all of it."""
    stream.seek(last.offset + _ENTRY_HEAD_BYTES - 4)
    length = int.from_bytes(stream.read(4), "big")
    stream.seek(last.offset + _ENTRY_HEAD_BYTES + length + 1)
    return not stream.read(_ENTRY_HEAD_BYTES).strip(b"\0")


def _gone(files: list[NumberedFile], after: int, until: int) -> str:
    """Describe the requested transactions whose files were removed; empty if there are none.

    The zxids of an epoch are consecutive from 1 on; the last one of a finished epoch is known from its own files only.

    >>> from pathlib import Path
    >>> from simzk.pipeline.logs.files import NumberedFile
    >>> _gone([NumberedFile(0x17, Path("log.17"))], 0x10, 0x20)
    'transactions 0x11 to 0x16 are gone: their files were removed before they were read'
    >>> _gone([NumberedFile(0x17, Path("log.17"))], 0x16, 0x20)
    ''
    """
    first = files[0].zxid if files else until + 1
    if after == BEFORE_ALL or first <= after + 1 or after >= until:
        return ""
    last = min(first - 1, until)
    same_epoch = first >> 32 == after >> 32
    if not same_epoch and first & 0xFFFFFFFF <= 1:
        return ""
    begins = after + 1 if same_epoch else (first >> 32 << 32) + 1
    return f"transactions 0x{begins:x} to 0x{last:x} are gone: their files were removed before they were read"


Offset = dict[str, int]


class LogStreamReader(DataSourceStreamReader):
    """Stream reader of the log of one data directory.

    Args:
        folder: the data directory, or its `version-2`.
        mode: treatment of damaged or removed transactions.
        columns: requested columns.
        split_bytes: bytes of a log per task.
    """

    def __init__(self, folder: str, mode: str, columns: list[str], split_bytes: int) -> None:
        self.folder = folder
        self.mode = mode
        self.columns = columns
        self.split_bytes = split_bytes
        self._follower = LogFollower(folder)

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's name, as are the others
        """Return the offset before everything present when the query starts."""
        return {"zxid": self._follower.first_zxid()}

    def latestOffset(self, start: Offset, limit: object) -> Offset:  # noqa: N802
        """Return the last complete transaction, never one before `start`."""
        last = self._follower.last_zxid()
        if last < start["zxid"] and self.mode == FAILFAST:
            what = f"its log ends at zxid 0x{max(last, 0):x}, and 0x{start['zxid']:x} was read already"
            raise ConfigError(what, where=self.folder, right="the data directory that the checkpoint is of")
        return {"zxid": max(last, start["zxid"])}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return ranges of at most `split_bytes`; a compressed log is one range."""
        stretches = self._follower.stretches(start["zxid"], end["zxid"], self.split_bytes)
        return [InputPartition(stretch) for stretch in stretches]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range."""
        rows = sound(_rows(self.folder, partition.value), self.mode)
        yield from batches(rows, log_schema(), wanted=self.columns)

    def commit(self, end: Offset) -> None:
        """Discard cached positions before `end`."""
        self._follower.forget_before(end["zxid"])

    def stop(self) -> None:
        """Do nothing: no file stays open between batches."""


def _rows(folder: str, stretch: LogStretch) -> Iterator[Row]:
    if stretch.gone:
        yield damage_row(folder, None, stretch.gone)
        return
    with opened(Path(stretch.path)) as stream:
        yield from stretch_rows(stretch, stream)


SPLIT_BYTES = 16 << 20
"""Default of `splitBytes`: a quarter of the 64 MiB that the server preallocates."""


class Stretch(InputPartition):
    """One task: a file, the bytes `start` to `stop` of a log, or a missing path with the reason."""

    def __init__(self, path: str, start: int = 0, stop: int | None = None, missing: str = "") -> None:
        super().__init__((path, start, stop))
        self.path = path
        self.start = start
        self.stop = stop
        self.missing = missing


class _Source(DataSource):
    """Options shared by both sources."""

    def _path(self) -> str:
        path = self.options.get("path")
        if path is None:
            raise ConfigError(f"{self.name()} reads files", right='load("/path/to/dataDir")')
        return path

    def _given(self, kind: str, schema: StructType, whole: pa.Schema) -> tuple[FoundFiles, str, list[str]]:
        """Return the files, the mode and the requested columns."""
        return some_files(kind, self._path()), mode_of(self.options), columns_of(schema, whole)


class LogSource(_Source):
    """`spark.read.format("zookeeper_log")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "zookeeper_log"

    def schema(self) -> StructType:
        """Return the columns of `simzk.pipeline.logs.tables.log_schema`."""
        return from_arrow_schema(log_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the logs named by the options."""
        files, mode, columns = self._given(LOG, schema, log_schema())
        return LogReader(files, mode, columns, number(self.options, "splitBytes", SPLIT_BYTES))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return a stream reader of the log named by the options."""
        folder, mode, columns = self._path(), mode_of(self.options), columns_of(schema, log_schema())
        return LogStreamReader(folder, mode, columns, number(self.options, "splitBytes", SPLIT_BYTES))


class SnapshotSource(_Source):
    """`spark.read.format("zookeeper_snapshot")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "zookeeper_snapshot"

    def schema(self) -> StructType:
        """Return the columns of `simzk.pipeline.logs.tables.snapshot_schema`."""
        return from_arrow_schema(snapshot_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the snapshots named by the options."""
        return SnapshotFilesReader(*self._given(SNAPSHOT, schema, snapshot_schema()))


class LogReader(DataSourceReader):
    """Reader that splits logs into byte ranges, one per task.

    Args:
        found: the logs.
        mode: treatment of damage.
        columns: requested columns.
        split_bytes: bytes of a log per task.
    """

    def __init__(self, found: FoundFiles, mode: str, columns: list[str], split_bytes: int) -> None:
        self.files = found.files
        self.missing = found.missing
        self.mode = mode
        self.columns = columns
        self.split_bytes = split_bytes
        self.wanted = Wanted()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Use the filters that skip files or rows; Spark applies all filters again."""
        for one in filters:
            self._apply(one)
            yield one

    def _apply(self, one: Filter) -> None:
        match one:
            case EqualTo(("operation",), str(operation)):
                self._narrow({operation})
            case In(("operation",), operations):
                self._narrow({str(operation) for operation in operations})
            case EqualTo((column,), value):
                self._from(column, value)
                self._until(column, value)
            case GreaterThan((column,), value) | GreaterThanOrEqual((column,), value):
                self._from(column, value)
            case LessThan((column,), value) | LessThanOrEqual((column,), value):
                self._until(column, value)
            case _:
                pass

    def _narrow(self, operations: set[str]) -> None:
        known = self.wanted.operations
        kept = known & operations if known else operations
        self.wanted = self.wanted._replace(operations=frozenset(kept or {""}))

    def _from(self, column: str, value: object) -> None:
        self._bound("first", max, column, value)

    def _until(self, column: str, value: object) -> None:
        self._bound("last", min, column, value)

    def _bound(self, end: str, tighter: Callable[[int, int], int], column: str, value: object) -> None:
        if column == "zxid" and isinstance(value, int):
            unit, number = "zxid", value
        elif column == "time" and isinstance(value, datetime):
            unit, number = "ms", _whole_ms(value)
        else:
            return
        field = f"{end}_{unit}"
        changes: dict[str, Any] = {field: tighter(getattr(self.wanted, field), number)}
        self.wanted = self.wanted._replace(**changes)

    def partitions(self) -> Sequence[InputPartition]:
        """Return ranges of at most `split_bytes`; a compressed log is one range."""
        stretches = _missing(self.missing)
        for place, file in enumerate(self.files):
            following = self.files[place + 1].zxid if place + 1 < len(self.files) else MOST
            same_folder = place + 1 < len(self.files) and self.files[place + 1].path.parent == file.path.parent
            if file.zxid > self.wanted.last_zxid or (same_folder and following <= self.wanted.first_zxid):
                continue
            size = _size(file.path)
            if file.path.suffix == PACKED or size <= self.split_bytes:
                stretches.append(Stretch(str(file.path)))
                continue
            starts = range(0, size, self.split_bytes)
            stretches.extend(
                Stretch(str(file.path), start, stop) for start, stop in zip(starts, [*starts[1:], None], strict=True)
            )
        return stretches

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range."""
        assert isinstance(partition, Stretch)
        with without_cyclic_gc():
            rows = sound(log_file_rows(partition, self.wanted), self.mode)
            yield from batches(rows, log_schema(), wanted=self.columns)


def log_file_rows(part: Stretch, wanted: Wanted) -> Iterator[Row]:
    """Yield the rows of a byte range of a log, of `log_schema`."""
    if part.missing:
        yield damage_row(part.path, None, part.missing)
        return
    try:
        with opened(Path(part.path)) as stream:
            yield from log_rows(part.path, stream, part.start, part.stop, wanted)
    except OSError as error:
        if part.start == 0:
            yield damage_row(part.path, None, unreadable(error))


def _whole_ms(time: datetime) -> int:
    """Return the millisecond of a time, as the log counts; Spark applies the exact filter again."""
    return int((time - _EPOCH) // _MS)


_EPOCH = datetime.fromtimestamp(0, UTC)
_MS = timedelta(milliseconds=1)


class SnapshotFilesReader(DataSourceReader):
    """Reader with one task per snapshot."""

    def __init__(self, found: FoundFiles, mode: str, columns: list[str]) -> None:
        self.files = found.files
        self.missing = found.missing
        self.mode = mode
        self.columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task per file."""
        return [*_missing(self.missing), *(Stretch(str(file.path)) for file in self.files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one snapshot."""
        assert isinstance(partition, Stretch)
        yield from batches(sound(snapshot_file_rows(partition), self.mode), snapshot_schema(), wanted=self.columns)


def snapshot_file_rows(part: Stretch) -> Iterator[Row]:
    """Yield the rows of a snapshot, of `snapshot_schema`."""
    if part.missing:
        yield unread_snapshot(part.path, part.missing)
        return
    path = Path(part.path)
    try:
        with path.open("rb") as stream:
            yield from snapshot_rows(part.path, unpacked(stream, path.suffix))
    except OSError as error:
        yield unread_snapshot(part.path, unreadable(error))


def _missing(paths: list[Missing]) -> list[InputPartition]:
    return [Stretch(one.path, missing=str(one)) for one in paths]


def _size(path: Path) -> int:
    """Return the size of a file; 0 if it cannot be read, which its task reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
