"""Data directory of one server on disk: locks, transaction log, snapshots, purge (§6).

Rules of this module:
  - the formats are those of zookeeper/persistence; this module adds files, their names, their order, and fsync;
  - a transaction is on disk when `sync` returns, not before; replies are sent after it;
  - one server at a time uses a directory: its folders are locked with `flock`, which leaves no file behind and ends
    with the process;
  - files have the names and layout of the real server's, so that either can boot from what the other wrote;
  - a log is named after its first transaction, and created with it. With preallocation it grows by steps, filled with
    zeros, whenever less than 4 KiB of the last step are left; a reader stops at the zeros. A log longer than its limit,
    zeros included, is closed after the fsync;
  - a snapshot gets its name only when it is complete; damaged files are kept, only unfinished snapshots of simzk are
    removed.

Source: FileTxnSnapLog, FileTxnLog, FilePadding, SyncRequestProcessor, ZooKeeperServer.loadData.
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
from simzk.serve.storage.directory_reader import DirectoryReader, as_config_errors, new_compressor, purgeable_files
from simzk.wire.statistics import Summary
from simzk.zookeeper.persistence import LOG_HEADER, TreeDigest, encode_log_entry, encode_snapshot, touched_paths
from simzk.zookeeper.persistence.files import SNAPSHOT
from simzk.zookeeper.server import Server
from simzk.zookeeper.transactions import ErrorTxn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from simzk.serve.storage.directory_reader import Loss
    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.persistence import Restoration
    from simzk.zookeeper.transactions import Transaction


class FolderLocks:
    """Locks of one server on folders; released at the latest when this object is deleted."""

    def __init__(self) -> None:
        self._unlock: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return bool(self._unlock)

    def acquire(self, folder: Path) -> None:
        """Lock a folder against other processes, and against other servers of this process.

        Raises:
            ConfigError: another server uses it.
        """
        descriptor = os.open(folder, os.O_RDONLY)
        self._unlock.append(weakref.finalize(self, os.close, descriptor))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            right = "a directory of its own for each server"
            raise ConfigError("another server is using it", where=str(folder), right=right) from None

    def release(self) -> None:
        """Release all locks."""
        while self._unlock:
            self._unlock.pop()()


_LEFT_BYTES = 4096


def padded_size(position: int, size: int, step: int) -> int:
    """Return the size of a log before entries are written at `position` (FilePadding.calculateFileSizeWithPadding).

    >>> padded_size(16, 16, 65536), padded_size(61440, 65536, 65536), padded_size(70000, 65536, 65536)
    (65552, 131072, 131072)
    """
    if step <= 0 or position + _LEFT_BYTES < size:
        return size
    if position > size:
        return position + step - (position + step) % step
    return size + step


class LogFile:
    """Transaction log that a data directory writes.

    Args:
        folder: the folder of logs.
        storage: how it is written.
        fsync_times: collects the time of each fsync in ms.
    """

    def __init__(self, folder: Path, storage: Storage, fsync_times: Summary) -> None:
        self._folder = folder
        self._storage = storage
        self._fsync_times = fsync_times
        self._stream: FileIO | None = None
        self._position = 0
        self._size = 0
        self._before_bytes = 0

    @property
    def total_bytes(self) -> int:
        """Size of this log and those before it, since `reset_total`."""
        return self._before_bytes + self._size

    def reset_total(self) -> None:
        """Reset `total_bytes` to the size of the present log."""
        self._before_bytes = 0

    def write(self, first_zxid: int, entries: bytes) -> None:
        """Append entries and force them to the disk.

        Args:
            first_zxid: of the first entry.
            entries: encoded entries.

        Raises:
            OSError: the disk cannot be written to.
        """
        assert entries, "an fsync without a transaction"
        stream = self._open(first_zxid)
        size = padded_size(self._position, self._size, self._storage.log_step_kib * 1024)
        if size != self._size:
            os.ftruncate(stream.fileno(), size)
        _write_all(stream, entries)
        self._position += len(entries)
        self._size = max(size, self._position)
        assert self._size >= len(LOG_HEADER) + len(entries), "the log is shorter than what was written"
        if self._storage.fsync:
            begin_ns = time.monotonic_ns()
            os.fdatasync(stream.fileno())
            self._fsync_times.note((time.monotonic_ns() - begin_ns) // 1_000_000)
        if 0 < self._storage.log_limit_kib * 1024 < self._size:
            self.roll()

    def _open(self, first_zxid: int) -> FileIO:
        """Return the log to write to. A file of its name, left with a torn first entry, is overwritten."""
        if self._stream is None:
            assert self._position == self._size == 0, "the log before was closed"
            self._stream = FileIO(self._folder / f"log.{first_zxid:x}", "w")
            _write_all(self._stream, LOG_HEADER)
            self._position = self._size = len(LOG_HEADER)
            sync_folder(self._folder, fsync=self._storage.fsync)
        return self._stream

    def roll(self) -> None:
        """Close the log; the next write begins another."""
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
    """Force the names of files in a folder to the disk."""
    if fsync:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_DIGEST_INTERVAL, _DIGESTS_KEPT = 128, 1024
_SLICE_PIECES = 2000
"""Pieces of a snapshot that one `sync` writes, which takes some milliseconds."""


class DataDirectory:
    """Data directory of one server.

    Args:
        path: the server's dataDir, created if missing.
        storage: how snapshots and logs are written.
        log_path: its dataLogDir, if logs are not beside the snapshots; created if missing.

    Attributes:
        folder: the folder of snapshots.
        log_folder: the folder of logs.
        measured: summaries by the real server's metric names: times of fsyncs and snapshots in ms, transactions per
            write.
        losses: data that the last `load` found missing.
        digests: zxid and digest of the tree at every 128th zxid, the last 1024 of them (§2.7).

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
            raise ConfigError(f"{self._storage.snap_count} is too small", where="snap_count", right="2 or more")
        self._reader = DirectoryReader(
            path, log_path, trusts_empty=self._storage.trusts_empty, compares_digests=self._storage.digests
        )
        self.folder: Path = self._reader.folder
        self.log_folder: Path = self._reader.log_folder
        self._locks = FolderLocks()
        names = ("fsynctime", "snapshottime", "sync_processor_batch_size")
        self.measured: dict[str, Summary] = {name: Summary() for name in names}
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
        """Return the server of this directory; a new one if it is empty.

        A snapshot is written at once, and from then on each transaction of the server is logged.

        Args:
            config: for the server.
            now_ms: the present time; each session has its full timeout again.

        Raises:
            ConfigError: the directory cannot be read or written, another server uses it, or the real server would not
                boot from it.
        """
        restoration = self.restore(config)
        tree, sessions = restoration.tree, restoration.sessions.items()
        server = Server(config, now_ms=now_ms, tree=tree, sessions=sessions, zxid=restoration.zxid)
        self.attach(server, restoration)
        return server

    def restore(self, config: ServerConfig) -> Restoration:
        """Lock the directory and load it; return a new tree if it is empty, or raise ConfigError as `load`."""
        assert self._server is None, "a directory is loaded once"
        self._storage = self._storage.of(config.rules)
        try:
            with as_config_errors(self.folder):
                return self._read(config)
        except BaseException:
            self._locks.release()
            raise

    def _read(self, config: ServerConfig) -> Restoration:
        if not self._locks:
            for folder in self._folders():
                if not self._storage.makes_folders and not folder.exists():
                    right = "datadir.autocreate, or a folder"
                    raise ConfigError("the folder does not exist", where=str(folder), right=right)
                folder.mkdir(parents=True, exist_ok=True)
                self._locks.acquire(folder)
        if self._storage.purge_interval_h > 0:
            self._purge()
        for unfinished in self.folder.glob(f".{SNAPSHOT}.*.partial"):
            unfinished.unlink()
        # The real server limits entries that it reads back by the same setting (BinaryInputArchive.checkLength).
        restoration = self._reader.restore(
            2 * config.max_buffer_bytes,
            rules=config.rules,
            extended_types=config.extended_types,
        )
        restoration.finish()
        return restoration

    def attach(self, server: Server, restoration: Restoration) -> None:
        """Write a snapshot of a server at once, and log each of its transactions from now on.

        Args:
            server: made from `restoration`, and unchanged since.
            restoration: of this directory, or of another one whose history this one continues.

        Raises:
            ConfigError: the directory cannot be written.
        """
        assert self._server is None, "a directory belongs to one server"
        assert self._locks, "a directory is locked before it is written"
        assert server.zxid >= restoration.zxid, "the server lacks transactions of its directory"
        self._server, self._digest = server, restoration.finish()
        server.on_transaction.append(self._append)
        try:
            with as_config_errors(self.folder):
                self._begin_snapshot()
                self._finish_snapshot()
        except BaseException:
            self._locks.release()
            raise

    def truncate(self, zxid: int) -> None:
        """Remove transactions after a zxid, which were never committed; a snapshot of another server will follow.

        Logs are removed first, so that a server can boot from the rest whenever the process is killed.

        Raises:
            ConfigError: the directory cannot be written.
        """
        assert self._server is None, "a server uses the directory"
        with as_config_errors(self.folder):
            for _, path in reversed(self._reader.logs()):
                path.unlink()
            for later, path in self._reader.snapshots():
                if later > zxid:
                    path.unlink()
            for folder in self._folders():
                sync_folder(folder, fsync=self._storage.fsync)

    def _folders(self) -> list[Path]:
        return [self.folder] if self.log_folder == self.folder else [self.folder, self.log_folder]

    # Monitoring

    def size_bytes(self) -> tuple[int, int]:
        """Return the sizes of the folders of snapshots and of logs; the same twice if they share one."""
        data, logs = (sum(file.stat().st_size for file in place.iterdir()) for place in (self.folder, self.log_folder))
        return data, logs

    def last_snapshot(self) -> tuple[int, int]:
        """Return the zxid of the newest snapshot, and its time in seconds since 1970."""
        zxid, path = self._reader.snapshots()[-1]
        return zxid, int(path.stat().st_mtime)

    # Logging

    def _append(self, transaction: Transaction) -> None:
        """Queue a transaction that was applied; `sync` writes it."""
        assert self._digest is not None
        record = transaction.record
        digest = None
        if self._storage.digests:
            # A failed write is logged without a digest, as in the real server.
            digest = None if record.__class__ is ErrorTxn else self._digest.refresh(touched_paths(record))
            if transaction.zxid % _DIGEST_INTERVAL == 0:
                self.digests.append((transaction.zxid, self._digest.value))
        assert not self._unwritten or transaction.zxid > self._first_unwritten, "the log has transactions in order"
        if not self._unwritten:
            self._first_unwritten = transaction.zxid
        named = self._storage.names_ephemerals
        self._unwritten.append(encode_log_entry(transaction, digest, names_ephemerals=named))

    def sync(self) -> None:
        """Write the transactions that were applied since the last call, with one write and one fsync.

        It also continues a snapshot that is being written, and purges older files at their interval.

        Raises:
            OSError: the disk cannot be written to. Nothing that was applied since may be acknowledged, now or later:
                the log may end with half an entry, after which nothing can be written.
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
            is_long = self._storage.snap_limit_kib > 0 and self._snapshot_after_bytes < self._log.total_bytes
            if self._snapshot is None and (is_long or self._since_snapshot > self._snapshot_after):
                self._log.roll()
                self._begin_snapshot()
        if self._snapshot is not None and next(self._snapshot, _DONE) is _DONE:
            self._snapshot = None
        hours = (time.monotonic() - self._purged_s) / 3600
        if 0 < self._storage.purge_interval_h <= hours:
            self._purge()

    def close(self) -> None:
        """Write the transactions that were applied, and close the files; later transactions are not logged.

        Raises:
            OSError: as `sync`, unless that has raised it already.
        """
        try:
            if self._failure is None:
                self.sync()
                self._finish_snapshot()
        finally:
            self._log.roll()
            self._locks.release()
            if self._server is not None:
                self._server.on_transaction.remove(self._append)
                self._server = None

    def abandon(self) -> None:
        """Close the files as they are, after the disk has failed."""
        self._unwritten.clear()
        self._snapshot = None
        self._log.roll()
        self._locks.release()

    def _purge(self) -> None:
        """Remove older snapshots and the logs before them (autopurge)."""
        self._purged_s = time.monotonic()
        for path in purgeable_files(self._reader.snapshots(), self._reader.logs(), self._storage.snapshots_kept):
            path.unlink()

    # Snapshots

    def snapshot(self) -> Path:
        """Write a snapshot of the server; return its file, or raise OSError as `sync`."""
        assert self._server is not None
        self.sync()
        self._finish_snapshot()
        self._log.roll()
        self._begin_snapshot()
        self._finish_snapshot()
        assert self._last_snapshot is not None
        return self._last_snapshot

    def restart_from_tree(self) -> None:
        """Write a snapshot after the server's tree was replaced: the log does not lead to it. Raise as `sync`."""
        assert self._server is not None
        self._digest = TreeDigest(self._server.tree)
        self.snapshot()

    def _begin_snapshot(self) -> None:
        assert self._snapshot is None, "one snapshot is written at a time"
        self._since_snapshot = 0
        # Random, so that the servers of an ensemble do not write snapshots at once
        # (SyncRequestProcessor.resetSnapshotStats).
        half = self._storage.snap_count // 2
        self._snapshot_after = half + random.randrange(half)
        half = max(self._storage.snap_limit_kib, 1) * 512
        self._snapshot_after_bytes = half + random.randrange(half)
        self._log.reset_total()
        self._snapshot = self._write_snapshot()

    def _finish_snapshot(self) -> None:
        if self._snapshot is not None:
            for _ in self._snapshot:
                pass
            self._snapshot = None

    def _write_snapshot(self) -> Iterator[None]:
        """Write a snapshot slice by slice; the server may change between slices, so the snapshot is fuzzy."""
        server, digest = self._server, self._digest
        assert server is not None
        assert digest is not None
        begin_ns, storage = time.monotonic_ns(), self._storage
        pieces = encode_snapshot(
            server.tree,
            server.sessions.timeouts_ms(),
            lambda: (server.zxid, digest.value),
            digest=storage.digests,
            last_zxid=storage.tells_zxid,
        )
        ending = f".{storage.compression}" if storage.compression else ""
        whole = self._last_snapshot = self.folder / f"{SNAPSHOT}.{server.zxid:x}{ending}"
        compressor = new_compressor(storage.compression)
        # The real server does not read a file of this name as a snapshot.
        partial = self.folder / f".{whole.name}.partial"
        with partial.open("wb") as stream:
            while some := list(islice(pieces, _SLICE_PIECES)):
                stream.write(compressor.compress(b"".join(some)))
                yield
            stream.write(compressor.flush())
            stream.flush()
            if storage.fsync:
                os.fsync(stream.fileno())
        partial.replace(whole)
        self.measured["snapshottime"].note((time.monotonic_ns() - begin_ns) // 1_000_000)
        sync_folder(self.folder, fsync=storage.fsync)


_DONE = object()
