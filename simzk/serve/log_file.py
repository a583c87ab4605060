"""The transaction log that a data directory is writing (§6): opened, filled ahead with zeros, forced to disk, rolled.

Rules of this module:
  - a log is named after the first transaction that it holds, and is made when there is one;
  - with a step it grows by steps, whenever less than 4 KiB of the last one are left, as the real server's does; a
    reader ends at the zeros;
  - one that is longer than its limit, zeros included, is rolled once it is forced.

Source: FileTxnLog, FilePadding.
"""

from __future__ import annotations

import os
import time
from io import FileIO
from typing import TYPE_CHECKING

from simzk.zookeeper.persistence import LOG_HEADER

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.serve.storage import Storage
    from simzk.zookeeper.summary import Summary

_LEFT_BYTES = 4096


def padded_size(position: int, size: int, step: int) -> int:
    """How long a file is to be before what is at `position` is written (FilePadding.calculateFileSizeWithPadding).

    >>> padded_size(16, 16, 65536), padded_size(61440, 65536, 65536), padded_size(70000, 65536, 65536)
    (65552, 131072, 131072)
    """
    if step <= 0 or position + _LEFT_BYTES < size:
        return size
    if position > size:
        return position + step - (position + step) % step
    return size + step


class LogFile:
    """The log of one directory.

    Args:
        folder: where it is.
        storage: how it is written.
        forced: takes the time of each fsync in ms.

    Attributes:
        total_bytes: of this log and those before it, since `total_bytes` was last set.
    """

    def __init__(self, folder: Path, storage: Storage, forced: Summary) -> None:
        self._folder = folder
        self._storage = storage
        self._forced = forced
        self._stream: FileIO | None = None
        self._position = 0
        self._size = 0
        self._before_bytes = 0

    @property
    def total_bytes(self) -> int:
        return self._before_bytes + self._size

    def forget_total(self) -> None:
        """Begin to count `total_bytes` anew, as with each snapshot; the present log counts on."""
        self._before_bytes = 0

    def write(self, first_zxid: int, entries: bytes) -> None:
        """Append entries, the first of which is of that transaction, and force them.

        Raises:
            OSError: the disk does not take it.
        """
        stream = self._open(first_zxid)
        size = padded_size(self._position, self._size, self._storage.log_step_kib * 1024)
        if size != self._size:
            os.ftruncate(stream.fileno(), size)
        _write_all(stream, entries)
        self._position += len(entries)
        self._size = max(size, self._position)
        if self._storage.fsync:
            begin_ns = time.monotonic_ns()
            os.fdatasync(stream.fileno())
            self._forced.note((time.monotonic_ns() - begin_ns) // 1_000_000)
        if 0 < self._storage.log_limit_kib * 1024 < self._size:
            self.roll()

    def _open(self, first_zxid: int) -> FileIO:
        """The log to write to; there can be a file of that name, if its first entry is torn: it gives way."""
        if self._stream is None:
            self._stream = FileIO(self._folder / f"log.{first_zxid:x}", "w")
            _write_all(self._stream, LOG_HEADER)
            self._position = self._size = len(LOG_HEADER)
            sync_folder(self._folder, fsync=self._storage.fsync)
        return self._stream

    def roll(self) -> None:
        """What is written next is in another log."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
            self._before_bytes += self._size
            self._position = self._size = 0


def _write_all(stream: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[stream.write(left) :]


def sync_folder(folder: Path, *, fsync: bool) -> None:
    """Make names of files last, as their contents do."""
    if fsync:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
