"""Folders that one server at a time may have.

Rules of this module:
  - a folder is locked by `flock` on itself: no file is left behind, and the end of a process lets go, however it ended.

The transaction log that a data directory is writing (§6): opened, filled ahead with zeros, forced to disk, rolled.

Rules of this module:
  - a log is named after the first transaction that it holds, and is made when there is one;
  - with a step it grows by steps, whenever less than 4 KiB of the last one are left, as the real server's does; a
    reader ends at the zeros;
  - one that is longer than its limit, zeros included, is rolled once it is forced.

Source: FileTxnLog, FilePadding.

A data directory on disk: what a server boots from, and where what it acknowledges is kept (§6).

Rules of this module:
  - the formats are those of zookeeper/persistence; here are files, their names, their order, and fsync;
  - a transaction is on disk when `sync` returns, not before; whoever serves clients sends replies after it;
  - one server at a time has a directory: it is locked (folder_locks.py);
  - files are named and laid out as the real server's, so that either can boot from what the other wrote; a snapshot
    takes its name only when it is whole;
  - what is damaged stays for others to look at; only unfinished snapshots of our own are removed.

Source: FileTxnSnapLog, FileTxnLog, SyncRequestProcessor, ZooKeeperServer.loadData.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
import weakref
from collections import deque
from io import FileIO
from itertools import islice
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.serve.configuration.settings import Storage
from simzk.serve.storage.directory_reader import DirectoryReader, packer, refusing, superfluous
from simzk.zookeeper.persistence import (
    LOG_HEADER,
    TreeDigest,
    encode_log_entry,
    encode_snapshot,
    touched_paths,
)
from simzk.zookeeper.persistence.files import SNAPSHOT
from simzk.zookeeper.server import Server
from simzk.zookeeper.summary import Summary
from simzk.zookeeper.transactions import ErrorTxn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from simzk.serve.storage.directory_reader import Loss
    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.persistence import Restoration
    from simzk.zookeeper.transactions import Transaction


class FolderLocks:
    """What one server has locked; let go at the latest when this object is gone."""

    def __init__(self) -> None:
        self._unlock: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return bool(self._unlock)

    def take(self, folder: Path) -> None:
        """Keep other processes, and other servers of this one, from a folder.

        Raises:
            ConfigError: another server has it.
        """
        descriptor = os.open(folder, os.O_RDONLY)
        self._unlock.append(weakref.finalize(self, os.close, descriptor))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            right = "a directory of its own for each server"
            raise ConfigError("another server is using it", where=str(folder), right=right) from None

    def let_go(self) -> None:
        """Give all of them free."""
        while self._unlock:
            self._unlock.pop()()


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


_DIGEST_INTERVAL, _DIGESTS_KEPT = 128, 1024
_SLICE_PIECES = 2000
"""How much of a snapshot one `sync` writes: some milliseconds' worth."""


class DataDirectory:
    """The data directory of one server.

    Args:
        path: the server's dataDir; made if it is not there.
        storage: how it is kept.
        log_path: where logs are kept if not beside the snapshots, its dataLogDir; made if it is not there.

    Attributes:
        folder: where the snapshots are.
        log_folder: where the logs are.
        measured: times in ms of its fsyncs and snapshots, and how many transactions it wrote at once, by the names
            that the real server tells them by.
        losses: what the last `load` found missing.
        digests: zxids and the tree's digest at each, at every 128th zxid, the last 1024 of them (§2.7).

    >>> import tempfile
    >>> from pathlib import Path
    >>> from simzk.zookeeper.config import ServerConfig
    >>> with tempfile.TemporaryDirectory() as place:
    ...     directory = DataDirectory(Path(place), Storage(fsync=False))
    ...     server = directory.load(ServerConfig(), now_ms=0)
    ...     directory.close()
    ...     sorted(file.name for file in Path(place).glob("*/*"))
    ['snapshot.0']
    """

    def __init__(self, path: Path, storage: Storage | None = None, *, log_path: Path | None = None) -> None:
        self._storage = storage or Storage()
        if self._storage.snap_count < 2:
            what = f"a snapshot every {self._storage.snap_count} transactions is too often"
            raise ConfigError(what, where="snap_count", right=">= 2")
        self._reader = DirectoryReader(
            path, log_path, trusts_empty=self._storage.trusts_empty, compares_digests=self._storage.digests
        )
        self.folder: Path = self._reader.folder
        self.log_folder: Path = self._reader.log_folder
        self._locks = FolderLocks()
        self.measured: dict[str, Summary] = {
            "fsynctime": Summary(),
            "snapshottime": Summary(),
            "sync_processor_batch_size": Summary(),
        }
        self._log = LogFile(self.log_folder, self._storage, self.measured["fsynctime"])
        self._unwritten: list[bytes] = []
        self._failure: OSError | None = None
        self._first_unwritten = 0
        self._since_snapshot = 0
        self._snapshot_after = 0
        self._snapshot_after_bytes = 0
        self._snapshot: Iterator[None] | None = None
        self._last_snapshot: Path | None = None
        self._purged_s = time.monotonic()
        self._server: Server | None = None
        self._digest: TreeDigest | None = None
        self.losses: list[Loss] = self._reader.losses
        self.digests: deque[tuple[int, int]] = deque(maxlen=_DIGESTS_KEPT)

    # Booting

    def load(self, config: ServerConfig, now_ms: int) -> Server:
        """The server that this directory holds; an empty directory holds a new one.

        A snapshot is written at once, and from then on each transaction of the server goes to the log.

        Args:
            config: for the server.
            now_ms: the present time, from which each session has its whole timeout again.

        Raises:
            ConfigError: the directory cannot be read or written, is another server's, or holds what the real server
                refuses to boot from.
        """
        restoration = self.restore(config)
        server = Server(
            config,
            now_ms=now_ms,
            tree=restoration.tree,
            sessions=restoration.sessions.items(),
            zxid=restoration.zxid,
        )
        self.keep(server, restoration)
        return server

    def restore(self, config: ServerConfig) -> Restoration:
        """What this directory holds, for a server that somebody else makes of it; an empty one holds a new tree.

        From now on it is nobody else's.

        Raises:
            ConfigError: as `load`.
        """
        assert self._server is None, "a directory is loaded once"
        try:
            with refusing(self.folder):
                return self._read(config)
        except BaseException:
            self._locks.let_go()
            raise

    def _read(self, config: ServerConfig) -> Restoration:
        if not self._locks:
            for folder in self._folders():
                if not self._storage.makes_folders and not folder.exists():
                    raise ConfigError("it is not there, and is not to be made", where=str(folder), right="a folder")
                folder.mkdir(parents=True, exist_ok=True)
                self._locks.take(folder)
        if self._storage.purge_interval_h > 0:
            self._purge()
        for unfinished in self.folder.glob(f".{SNAPSHOT}.*.partial"):
            unfinished.unlink()
        # What the real server reads back is bounded by the same setting (BinaryInputArchive.checkLength).
        restoration = self._reader.restore(2 * config.max_buffer_bytes)
        restoration.finish()
        return restoration

    def keep(self, server: Server, restoration: Restoration) -> None:
        """Write a snapshot of a server at once, and from now on each of its transactions to the log.

        Args:
            server: made of `restoration`, and still what that is.
            restoration: of this directory, or of one whose history this one is to have.

        Raises:
            ConfigError: the directory cannot be written.
        """
        assert self._server is None, "a directory is of one server"
        self._server, self._digest = server, restoration.finish()
        server.on_transaction.append(self._append)
        try:
            with refusing(self.folder):
                self._begin_snapshot()
                self._finish_snapshot()
        except BaseException:
            self._locks.let_go()
            raise

    def truncate(self, zxid: int) -> None:
        """Forget what came after a transaction, that others have not: a snapshot of theirs will follow.

        Logs go first, so that what is left can be booted from whenever the process is killed.

        Raises:
            ConfigError: the directory cannot be written.
        """
        with refusing(self.folder):
            for _, path in reversed(self._reader.logs()):
                path.unlink()
            for later, path in self._reader.snapshots():
                if later > zxid:
                    path.unlink()
            for folder in self._folders():
                sync_folder(folder, fsync=self._storage.fsync)

    def _folders(self) -> list[Path]:
        return [self.folder] if self._is_one else [self.folder, self.log_folder]

    @property
    def _is_one(self) -> bool:
        return self.log_folder == self.folder

    # What it holds

    def size_bytes(self) -> tuple[int, int]:
        """The size of the folder of snapshots, and of that of logs; the same where they share one."""
        data, logs = (
            sum(path.stat().st_size for path in folder.iterdir()) for folder in (self.folder, self.log_folder)
        )
        return data, logs

    def last_snapshot(self) -> tuple[int, int]:
        """The zxid of the newest snapshot, and when it was written, in seconds since 1970."""
        zxid, path = self._reader.snapshots()[-1]
        return zxid, int(path.stat().st_mtime)

    # Logging

    def _append(self, transaction: Transaction) -> None:
        """Note a transaction that was just applied; `sync` writes it."""
        assert self._digest is not None
        record = transaction.record
        digest = None
        if self._storage.digests:
            # What failed is logged without a digest, as the real server does.
            digest = None if record.__class__ is ErrorTxn else self._digest.refresh(touched_paths(record))
            if transaction.zxid % _DIGEST_INTERVAL == 0:
                self.digests.append((transaction.zxid, self._digest.value))
        if not self._unwritten:
            self._first_unwritten = transaction.zxid
        named = self._storage.names_ephemerals
        self._unwritten.append(encode_log_entry(transaction, digest, names_ephemerals=named))

    def sync(self) -> None:
        """Put on disk what was applied since the last time: one write and one fsync, however much it is.

        Also goes on with a snapshot where one is due, and removes older files when they are to be looked at.

        Raises:
            OSError: the disk does not take it. Nothing that was applied since may be acknowledged then, now or later:
                the log may end in half an entry, behind which nothing can be written.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._write()
        except OSError as failure:
            self._failure = failure
            raise

    def _write(self) -> None:
        if self._unwritten:
            self._log.write(self._first_unwritten, b"".join(self._unwritten))
            self.measured["sync_processor_batch_size"].note(len(self._unwritten))
            self._since_snapshot += len(self._unwritten)
            self._unwritten.clear()
            if self._snapshot is None and self._is_snapshot_due():
                self._log.roll()
                self._begin_snapshot()
        if self._snapshot is not None and next(self._snapshot, _DONE) is _DONE:
            self._snapshot = None
        hours = (time.monotonic() - self._purged_s) / 3600
        if 0 < self._storage.purge_interval_h <= hours:
            self._purge()

    def close(self) -> None:
        """Put on disk what was applied, and let go of the files; the server may be used on, unrecorded.

        Raises:
            OSError: as `sync`, unless that has raised it already.
        """
        try:
            if self._failure is None:
                self.sync()
                self._finish_snapshot()
        finally:
            self._log.roll()
            self._locks.let_go()
            if self._server is not None:
                self._server.on_transaction.remove(self._append)
                self._server = None

    def abandon(self) -> None:
        """Let go of the files as they are, for the disk takes nothing more."""
        self._unwritten.clear()
        self._snapshot = None
        self._log.roll()
        self._locks.let_go()

    def _purge(self) -> None:
        """Remove what nobody will boot from any more (autopurge)."""
        self._purged_s = time.monotonic()
        snapshots, logs = self._reader.snapshots(), self._reader.logs()
        for path in superfluous(snapshots, logs, self._storage.snapshots_kept):
            path.unlink()

    # Snapshots

    def snapshot(self) -> Path:
        """Write a snapshot of the server as it is, with what it applied; its file.

        Raises:
            OSError: as `sync`.
        """
        assert self._server is not None
        self.sync()
        self._finish_snapshot()
        self._log.roll()
        self._begin_snapshot()
        self._finish_snapshot()
        assert self._last_snapshot is not None
        return self._last_snapshot

    def start_anew(self) -> None:
        """The server has another tree than what was logged leads to: it is on disk when this returns.

        Raises:
            OSError: as `sync`.
        """
        assert self._server is not None
        self._digest = TreeDigest(self._server.tree)
        self.snapshot()

    def _is_snapshot_due(self) -> bool:
        limited = self._storage.snap_limit_kib > 0
        return self._since_snapshot > self._snapshot_after or (
            limited and self._log.total_bytes > self._snapshot_after_bytes
        )

    def _begin_snapshot(self) -> None:
        self._since_snapshot = 0
        # Not all servers of an ensemble shall be busy with it at once (SyncRequestProcessor.resetSnapshotStats).
        half = self._storage.snap_count // 2
        self._snapshot_after = half + random.randrange(half)
        half = max(self._storage.snap_limit_kib, 1) * 512
        self._snapshot_after_bytes = half + random.randrange(half)
        self._log.forget_total()
        self._snapshot = self._write_snapshot()

    def _finish_snapshot(self) -> None:
        if self._snapshot is not None:
            for _ in self._snapshot:
                pass
            self._snapshot = None

    def _write_snapshot(self) -> Iterator[None]:
        """Write a snapshot slice by slice; between slices the server may go on, which makes it fuzzy."""
        server, digest = self._server, self._digest
        assert server is not None
        assert digest is not None
        begin_ns = time.monotonic_ns()
        storage = self._storage
        pieces = encode_snapshot(
            server.tree,
            server.sessions.timeouts_ms(),
            lambda: (server.zxid, digest.value),
            digest=storage.digests,
            last_zxid=storage.tells_zxid,
        )
        ending = f".{storage.compression}" if storage.compression else ""
        whole = self._last_snapshot = self.folder / f"{SNAPSHOT}.{server.zxid:x}{ending}"
        packing = packer(storage.compression)
        # The real server does not take a file of this name for a snapshot.
        partial = self.folder / f".{whole.name}.partial"
        with partial.open("wb") as stream:
            while some := list(islice(pieces, _SLICE_PIECES)):
                stream.write(packing.compress(b"".join(some)))
                yield
            stream.write(packing.flush())
            stream.flush()
            if storage.fsync:
                os.fsync(stream.fileno())
        partial.replace(whole)
        self.measured["snapshottime"].note((time.monotonic_ns() - begin_ns) // 1_000_000)
        sync_folder(self.folder, fsync=storage.fsync)


_DONE = object()
