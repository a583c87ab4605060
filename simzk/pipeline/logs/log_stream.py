"""A transaction log that grows, followed: what is whole by now, and where the rows between two zxids stand.

Rules of this module:
  - a log is its files of one folder, by name; a transaction is in the newest file whose name does not surpass it;
  - damage belongs to the transaction that follows it, in its file or in the next one. Before one follows, it is not
    there: the server may be writing that entry;
  - so the rows between two zxids are the same whenever they are asked for, once the last was seen; but for files
    that were removed, of which a row says what is gone;
  - byte offsets are remembered to spare time only.

The streaming form of `zookeeper_log`: a log that grows, in batches of whole transactions, each of them once.

An offset is the last zxid of a batch. What stands between two of them is the same whenever it is read
(log_follower.py), so a query that goes on from its checkpoint, or reads a batch again, loses and repeats nothing.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from simzk.errors import ConfigError
from simzk.pipeline.logs.files import PACKED, logs_in_folder, opened
from simzk.pipeline.logs.log_table import damage_row, entry_rows, log_schema
from simzk.pipeline.spark.columns import batches
from simzk.pipeline.spark.options import FAILFAST, sound
from simzk.zookeeper.persistence import Damage
from simzk.zookeeper.persistence.transaction_log import scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from simzk.pipeline.logs.files import NumberedFile
    from simzk.pipeline.logs.log_table import Row
    from simzk.zookeeper.persistence.transaction_log import Seekable

BEFORE_ALL = -1
"""The offset of a stream that began when there was no transaction."""

_ENTRY_HEAD_BYTES = 12


class Place(NamedTuple):
    """Where a transaction's entry begins."""

    zxid: int
    path: Path
    offset: int


class LogStretch(NamedTuple):
    """Some bytes of a log, and the transactions that are wanted of them.

    Args:
        path: the file; empty for a stretch that only tells what is gone.
        start, stop: the first byte, and the first one behind it; None for the end of the file.
        after, until: the zxids that are wanted are greater than `after`, and not greater than `until`.
        following: the zxid in the name of the next file, None for the newest.
        gone: what cannot be read any more, in words.
    """

    path: str
    start: int
    stop: int | None
    after: int
    until: int
    following: int | None
    gone: str = ""


class LogFollower:
    """Follows the log in a folder.

    Args:
        folder: a data directory, or its `version-2`.

    Raises:
        ConfigError: there is no such folder.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._places: list[Place] = []  # ascending; what stands at the ends of stretches
        logs_in_folder(folder)

    def first_zxid(self) -> int:
        """The offset before everything that is there now."""
        files = logs_in_folder(self._folder)
        return files[0].zxid - 1 if files else BEFORE_ALL

    def last_zxid(self) -> int:
        """The last transaction that is there, or `BEFORE_ALL`."""
        for file in reversed(logs_in_folder(self._folder)):
            place = self._last_in(file)
            if place is not None:
                if not self._places or self._places[-1] != place:
                    self._places = [*(known for known in self._places if known.zxid < place.zxid), place]
                return place.zxid
        return BEFORE_ALL

    def forget_before(self, zxid: int) -> None:
        """Nobody will ask for what is before this transaction any more."""
        self._places = [place for place in self._places if place.zxid >= zxid]

    def stretches(self, after: int, until: int, split_bytes: int) -> list[LogStretch]:
        """Where the transactions stand that are greater than `after`, and not greater than `until`."""
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

    def _last_in(self, file: NumberedFile) -> Place | None:
        last = max((place for place in self._places if place.path == file.path), default=None)
        if last is not None and file.path.suffix == PACKED:
            return last
        with opened(file.path) as stream:
            if last is not None and _is_quiet(stream, last):
                return last
            for offset, found in scan(stream, 0 if last is None else last.offset):
                if not isinstance(found, Damage):
                    last = Place(found.transaction.zxid, file.path, offset)
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
    """The rows of a stretch.

    Args:
        stretch: of a file.
        stream: the whole file, unpacked.
    """
    damages: list[Row] = []
    # The first entry behind the stretch is looked at too: it is the one that the last damage belongs to.
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


def _is_quiet(stream: Seekable, last: Place) -> bool:
    """Whether nothing but padding stands behind an entry, without reading all of the padding."""
    stream.seek(last.offset + _ENTRY_HEAD_BYTES - 4)
    length = int.from_bytes(stream.read(4), "big")
    stream.seek(last.offset + _ENTRY_HEAD_BYTES + length + 1)
    return not stream.read(_ENTRY_HEAD_BYTES).strip(b"\0")


def _gone(files: list[NumberedFile], after: int, until: int) -> str:
    """Which wanted transactions are in no file any more, in words; empty where none is known to be.

    The zxids of an epoch follow each other without a gap, from 1 on; how far an epoch went that is over, only its own
    files tell.

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


class WantedStretch(InputPartition):
    """One task: a stretch of a file, and which of its transactions are wanted."""

    def __init__(self, stretch: LogStretch) -> None:
        super().__init__(stretch)
        self.stretch = stretch


class LogStreamReader(DataSourceStreamReader):
    """Follows the log of one data directory.

    Args:
        folder: the data directory, or its `version-2`.
        mode: what to do with what is damaged, or gone.
        columns: those that are wanted.
        split_bytes: how much of a log a task reads.
    """

    def __init__(self, folder: str, mode: str, columns: list[str], split_bytes: int) -> None:
        self.folder = folder
        self.mode = mode
        self.columns = columns
        self.split_bytes = split_bytes
        self._follower = LogFollower(folder)

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's name, as are the others
        """Before all that is there when the query starts for the first time."""
        return {"zxid": self._follower.first_zxid()}

    def latestOffset(self, start: Offset, limit: object) -> Offset:  # noqa: N802
        """The last transaction that is whole; never one before `start`."""
        last = self._follower.last_zxid()
        if last < start["zxid"] and self.mode == FAILFAST:
            told = f"its log ends at zxid 0x{max(last, 0):x}, and 0x{start['zxid']:x} was read already"
            raise ConfigError(told, where=self.folder, right="the data directory that the checkpoint is of")
        return {"zxid": max(last, start["zxid"])}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Stretches of at most `split_bytes`; a packed log is one."""
        stretches = self._follower.stretches(start["zxid"], end["zxid"], self.split_bytes)
        return [WantedStretch(stretch) for stretch in stretches]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one stretch."""
        assert isinstance(partition, WantedStretch)
        rows = sound(_rows(self.folder, partition.stretch), self.mode)
        yield from batches(rows, log_schema(), wanted=self.columns)

    def commit(self, end: Offset) -> None:
        """Nobody asks for what is before `end` again."""
        self._follower.forget_before(end["zxid"])

    def stop(self) -> None:
        """Nothing is held open between two batches."""


def _rows(folder: str, stretch: LogStretch) -> Iterator[Row]:
    if stretch.gone:
        yield damage_row(folder, None, stretch.gone)
        return
    with opened(Path(stretch.path)) as stream:
        yield from stretch_rows(stretch, stream)
