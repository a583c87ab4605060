"""The streaming form of `zookeeper_log`: a log that grows, in batches of whole transactions, each of them once.

An offset is the last zxid of a batch. What stands between two of them is the same whenever it is read
(log_follower.py), so a query that goes on from its checkpoint, or reads a batch again, loses and repeats nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from simzk.errors import ConfigError
from simzk.pipeline.columns import batches
from simzk.pipeline.files import opened
from simzk.pipeline.log_follower import LogFollower, LogStretch, stretch_rows
from simzk.pipeline.log_table import damage_row, log_schema
from simzk.pipeline.options import FAILFAST, sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from simzk.pipeline.log_table import Row

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
