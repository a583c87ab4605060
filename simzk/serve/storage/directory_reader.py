"""Data directories as they are on disk: files, restoration, and the files that a purge removes (§6).

Rules of this module:
  - nothing is written, created, removed or locked: the directory may belong to another server, which is running;
  - the newest whole snapshot is loaded, and the logs after it are replayed;
  - damaged files and missing transactions are reported as losses; what the real server does not boot from is an error;
  - the suffix of a snapshot file names its compression.

Source: FileTxnSnapLog, FileTxnLog, PurgeTxnLog, FileSnap.findNValidSnapshots, SnapStream,
zookeeper.snapshot.compression.method.
"""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.errors import ConfigError
from simzk.garbage_collection import without_cyclic_gc
from simzk.zookeeper.persistence import MAX_ENTRY_BYTES, Restoration, SnapshotReader, TransactionLogReader
from simzk.zookeeper.persistence.files import LOG, SNAPSHOT, VERSION_FOLDER, UnbootableError, unpacked, zxid_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from simzk.zookeeper.releases import Rules


class Numbered(NamedTuple):
    """A log or a snapshot, with the zxid in its name."""

    zxid: int
    path: Path


def purgeable_files(snapshots: Sequence[Numbered], logs: Sequence[Numbered], kept: int) -> list[Path]:
    """Return the files that can be removed so that a server still boots from each of the newest whole snapshots.

    Args:
        snapshots: all snapshots, oldest first.
        logs: all logs, oldest first.
        kept: number of snapshots to keep.
    """
    assert kept > 0, "a purge without a snapshot to keep would lose all data"
    whole = [snapshot.zxid for snapshot in reversed(snapshots) if is_whole_snapshot(snapshot.path)][:kept]
    if not whole:
        return []
    oldest = whole[-1]
    # A log that begins before a snapshot may contain transactions after it.
    first_log = max((log.zxid for log in logs if log.zxid <= oldest), default=0)
    return [
        *(snapshot.path for snapshot in snapshots if snapshot.zxid < oldest),
        *(log.path for log in logs if log.zxid < min(first_log, oldest)),
    ]


class Loss(NamedTuple):
    """Data that is missing from a directory.

    Args:
        file: where it was noticed.
        what: a description of what is missing.
    """

    file: Path
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


class DirectoryReader:
    """Reader of the data directory of one server.

    Args:
        path: the server's dataDir.
        log_path: its dataLogDir, if the logs are not beside the snapshots.
        trusts_empty: whether logs without a snapshot are accepted (snapshot.trust.empty).
        compares_digests: whether a tree that differs from its digest is a loss (digest.enabled).
        is_lazy: whether to decode only nodes that are looked up (`Restoration`).

    Attributes:
        folder: the folder of snapshots.
        log_folder: the folder of logs.
        losses: data that the last `restore` found missing.
    """

    def __init__(
        self,
        path: Path,
        log_path: Path | None = None,
        *,
        trusts_empty: bool = False,
        compares_digests: bool = True,
        is_lazy: bool = False,
    ) -> None:
        self.folder = path / VERSION_FOLDER
        self.log_folder = (log_path or path) / VERSION_FOLDER
        self._trusts_empty = trusts_empty
        self._compares_digests = compares_digests
        self._is_lazy = is_lazy
        self._rules: Rules | None = None
        self._extended_types = True
        self._last_entry: int | None = None
        self.losses: list[Loss] = []

    def snapshots(self) -> list[Numbered]:
        """Return the snapshots, oldest first."""
        return _numbered(SNAPSHOT, self.folder)

    def logs(self) -> list[Numbered]:
        """Return the logs, oldest first."""
        return _numbered(LOG, self.log_folder)

    def restore(
        self, max_entry_bytes: int = MAX_ENTRY_BYTES, *, rules: Rules | None = None, extended_types: bool = True
    ) -> Restoration:
        """Load the newest whole snapshot and replay the logs after it; return a new tree if there is neither.

        Args:
            max_entry_bytes: a log entry with a greater length is damage.
            rules: rules of the release that boots; they say what a new tree has, and whether transactions that are
                missing between two log entries are an error. With None a new tree is the newest release's, and a gap
                a loss.
            extended_types: whether there are TTL nodes (zookeeper.extendedTypesEnabled).

        Raises:
            ConfigError: the directory cannot be read, or the real server would not boot from it.
        """
        self._reject_misplaced_files()
        self.losses.clear()
        self._rules, self._extended_types = rules, extended_types
        self._last_entry = None
        with without_cyclic_gc():
            return self._restore(max_entry_bytes)

    def _restore(self, max_entry_bytes: int) -> Restoration:
        snapshots, logs = self.snapshots(), self.logs()
        restoration = self._load_newest(snapshots, max_entry_bytes)
        if restoration is None:
            if snapshots or (logs and not self._trusts_empty):
                content = "only damaged snapshots" if snapshots else "transaction logs without a snapshot"
                right = "a whole snapshot, or no files"
                raise ConfigError(f"it contains {content}", where=str(self.folder), right=right)
            restoration = self._new_restoration()
        # The last log that starts at or before the first transaction to replay may contain it; later logs are needed.
        wanted = restoration.zxid + 1
        first = max((log.zxid for log in logs if log.zxid <= wanted), default=0)
        for log in logs:
            if log.zxid >= first:
                self._replay(restoration, log, max_entry_bytes)
        self._report_gaps(restoration)
        return restoration

    def _load_newest(self, snapshots: list[Numbered], max_item_bytes: int) -> Restoration | None:
        """Load the newest whole snapshot; report damaged ones as losses."""
        for zxid, path in reversed(snapshots):
            restoration = self._new_restoration()
            with path.open("rb") as file, _refused(path):
                stream = unpacked(file, path.suffix)
                damage = restoration.load(SnapshotReader(stream, max_item_bytes=max_item_bytes), zxid)
            if damage is None:
                return restoration
            self.losses.append(Loss(path, f"damaged snapshot, an older one is used: {damage}"))
        return None

    def _replay(self, restoration: Restoration, log: Numbered, max_entry_bytes: int) -> None:
        with log.path.open("rb") as stream:
            reader = TransactionLogReader(stream, max_entry_bytes=max_entry_bytes)
            for entry in reader:
                zxid = entry.transaction.zxid
                if zxid > restoration.zxid + 1 and zxid >> 32 == restoration.zxid >> 32:
                    missing = f"the transactions 0x{restoration.zxid + 1:x} to 0x{zxid - 1:x} are missing before it"
                    if self._rules is not None and self._rules.rejects_gaps and self._last_entry is not None:
                        right = "logs without a gap, as a server of 3.9.4 and later demands"
                        raise ConfigError(missing, where=str(log.path), right=right)
                    self.losses.append(Loss(log.path, missing))
                if zxid > restoration.zxid:
                    self._last_entry = zxid
                with _refused(log.path):
                    restoration.replay(entry)
        damage = reader.damage
        if damage is None:
            return
        if not damage.is_crash:
            right = "a transaction log of ZooKeeper whose entries are whole"
            raise ConfigError(str(damage), where=str(log.path), right=right)
        self.losses.append(Loss(log.path, str(damage)))

    def _new_restoration(self) -> Restoration:
        return Restoration(is_lazy=self._is_lazy, extended_types=self._extended_types, rules=self._rules)

    def _report_gaps(self, restoration: Restoration) -> None:
        if restoration.missing_until is not None:
            until = f"0x{restoration.missing_until:x}"
            what = f"the transactions up to {until}, which its snapshot contains in part, are missing"
            self.losses.append(Loss(self.folder, what))
        if restoration.mismatch_zxid is not None and self._compares_digests:
            what = f"the tree after 0x{restoration.mismatch_zxid:x} does not match its digest"
            self.losses.append(Loss(self.folder, what))

    def _reject_misplaced_files(self) -> None:
        """Reject files in the wrong folder, if logs have their own (FileTxnSnapLog.checkLogDir, checkSnapDir)."""
        if self.log_folder == self.folder:
            return
        for kind, folder, setting in ((SNAPSHOT, self.log_folder, "dataLogDir"), (LOG, self.folder, "dataDir")):
            misplaced = _numbered(kind, folder)
            if misplaced:
                right = f"the {setting} that the directory was written with"
                what = f"it contains {misplaced[0].path.name}, which belongs in the other folder"
                raise ConfigError(what, where=str(folder), right=right)


def _numbered(kind: str, folder: Path) -> list[Numbered]:
    """Return the logs or the snapshots, oldest first, by the zxid in their names like the real server."""
    found = ((zxid_of(kind, path.name), path) for path in folder.iterdir())
    return sorted(Numbered(zxid, path) for zxid, path in found if zxid is not None)


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Raise UnbootableError as ConfigError."""
    try:
        yield
    except UnbootableError as error:
        raise ConfigError(str(error), where=str(path), right="content that a server of ZooKeeper boots from") from error


@contextmanager
def as_config_errors(folder: Path) -> Iterator[None]:
    """Raise errors of the file system, and of content on which the real server fails, as ConfigError."""
    try:
        with _refused(folder):
            yield
    except OSError as error:
        where = str(error.filename or folder)
        raise ConfigError(f"the data directory cannot be used: {error.strerror or error}", where=where) from error


_GZIP_MAGIC, _SNAPPY_MAGIC = b"\x1f\x8b", b"\x82SNAPPY\x00"
_END = b"\x00\x00\x00\x01/"
_LEAST_BYTES = 10


def is_whole_snapshot(path: Path) -> bool:
    """Return whether the first or last bytes are those of a whole snapshot; the real server checks no more."""
    with path.open("rb") as stream:
        if path.suffix == ".gz":
            return stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        if path.suffix == ".snappy":
            return stream.read(len(_SNAPPY_MAGIC)) == _SNAPPY_MAGIC
        size = stream.seek(0, 2)
        if size < _LEAST_BYTES:
            return False
        stream.seek(-len(_END), 2)
        return stream.read() == _END


class Compressor(Protocol):
    """Compressor of a stream."""

    def compress(self, data: bytes, /) -> bytes:
        """Add data; return bytes to write now."""

    def flush(self) -> bytes:
        """Return bytes to write at the end."""


class _Plain:
    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


class _Snappy:
    def __init__(self) -> None:
        from simzk.snappy import STREAM_HEAD

        self._out, self._buffer = STREAM_HEAD, b""

    def compress(self, data: bytes, /) -> bytes:
        from simzk.snappy import BLOCK_BYTES, pack_frame

        self._buffer += data
        whole = len(self._buffer) // BLOCK_BYTES * BLOCK_BYTES
        frames = (pack_frame(self._buffer[at : at + BLOCK_BYTES]) for at in range(0, whole, BLOCK_BYTES))
        out = b"".join([self._out, *frames])
        self._out, self._buffer = b"", self._buffer[whole:]
        assert len(self._buffer) < BLOCK_BYTES, "a whole block is left in the buffer"
        return out

    def flush(self) -> bytes:
        from simzk.snappy import pack_frame

        return self._out + (pack_frame(self._buffer) if self._buffer else b"")


def new_compressor(method: str) -> Compressor:
    """Return a compressor for the method "gz", "snappy" or "" for none."""
    if method == "gz":
        return zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    return _Snappy() if method == "snappy" else _Plain()
