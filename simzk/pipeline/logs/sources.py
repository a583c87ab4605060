"""Spark data sources `zookeeper_log` and `zookeeper_snapshot`: files of a real ZooKeeper as rows.

Options: the path (`load(path)`, see files.py); `mode` for damage: PERMISSIVE (default) gives a row that reports it,
DROPMALFORMED omits it, FAILFAST fails; for logs `splitBytes`, the bytes of a log per task. The rows do not depend on
the splits. Filters on `operation`, `zxid` and `time` are applied before rows are built; filters on `zxid` also skip
files. If the reader has a schema, only its columns are built, because Spark does not pass the columns of a query.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

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
from simzk.pipeline.logs.files import PACKED, Found, Missing, opened, some_files, unreadable
from simzk.pipeline.logs.log_stream import LogStreamReader
from simzk.pipeline.logs.log_table import MOST, Row, Wanted, damage_row, log_rows, log_schema
from simzk.pipeline.logs.snapshot_table import snapshot_rows, snapshot_schema, unread_snapshot
from simzk.pipeline.spark.columns import batches
from simzk.pipeline.spark.options import columns_of, mode_of, number, sound
from simzk.zookeeper.persistence.files import LOG, SNAPSHOT, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

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

    def _given(self, kind: str, schema: StructType, whole: pa.Schema) -> tuple[Found, str, list[str]]:
        """Return the files, the mode and the requested columns."""
        return some_files(kind, self._path()), mode_of(self.options), columns_of(schema, whole)


class LogSource(_Source):
    """`spark.read.format("zookeeper_log")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "zookeeper_log"

    def schema(self) -> StructType:
        """Return the columns of `simzk.pipeline.logs.log_table.log_schema`."""
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
        """Return the columns of `simzk.pipeline.logs.snapshot_table.snapshot_schema`."""
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

    def __init__(self, found: Found, mode: str, columns: list[str], split_bytes: int) -> None:
        self.files = found.files
        self.missing = found.missing
        self.mode = mode
        self.columns = columns
        self.split_bytes = split_bytes
        self.wanted = Wanted()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Use the filters that skip files or rows; Spark applies all filters again."""
        for one in filters:
            self._take(one)
            yield one

    def _take(self, one: Filter) -> None:
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
        if column == "zxid" and isinstance(value, int):
            self.wanted = self.wanted._replace(first_zxid=max(self.wanted.first_zxid, value))
        elif column == "time" and isinstance(value, datetime):
            self.wanted = self.wanted._replace(first_ms=max(self.wanted.first_ms, _whole_ms(value)))

    def _until(self, column: str, value: object) -> None:
        if column == "zxid" and isinstance(value, int):
            self.wanted = self.wanted._replace(last_zxid=min(self.wanted.last_zxid, value))
        elif column == "time" and isinstance(value, datetime):
            self.wanted = self.wanted._replace(last_ms=min(self.wanted.last_ms, _whole_ms(value)))

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
            yield from batches(sound(self._rows(partition), self.mode), log_schema(), wanted=self.columns)

    def _rows(self, part: Stretch) -> Iterator[Row]:
        if part.missing:
            yield damage_row(part.path, None, part.missing)
            return
        try:
            with opened(Path(part.path)) as stream:
                yield from log_rows(part.path, stream, part.start, part.stop, self.wanted)
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

    def __init__(self, found: Found, mode: str, columns: list[str]) -> None:
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
        yield from batches(sound(_snapshot(partition), self.mode), snapshot_schema(), wanted=self.columns)


def _snapshot(part: Stretch) -> Iterator[Row]:
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
