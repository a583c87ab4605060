"""Which files of a data directory are no longer needed: older snapshots, and the logs before them.

Source: PurgeTxnLog, FileSnap.findNValidSnapshots, SnapStream.isValidSnapshot.

A data directory as it lies on disk, read: which files it has, and what they hold together (§6).

Rules of this module:
  - nothing is written, made, removed or locked: it may be another server's, which is running;
  - the newest snapshot that is whole is taken, and the logs behind it;
  - what is not whole is told as a loss; what the real server does not boot from is refused.

Source: FileTxnSnapLog, FileTxnLog.

A snapshot's file, packed or not, as the bytes that it holds, and the other way round (§6).

Rules of this module:
  - how a file is packed is the last part of its name.

Source: SnapStream, zookeeper.snapshot.compression.method.
"""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.errors import ConfigError
from simzk.garbage_collection import without_cyclic_gc
from simzk.zookeeper.persistence import MAX_ENTRY_BYTES, Restoration, SnapshotReader, TransactionLogReader
from simzk.zookeeper.persistence.files import LOG, SNAPSHOT, VERSION_FOLDER, unpacked, zxid_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from simzk.zookeeper.persistence import Readable


class Numbered(NamedTuple):
    """A log or a snapshot, by the zxid in its name."""

    zxid: int
    path: Path


def superfluous(snapshots: Sequence[Numbered], logs: Sequence[Numbered], kept: int) -> list[Path]:
    """What can be removed so that each of the newest `kept` whole snapshots can still be booted from.

    Args:
        snapshots: all of them, oldest first.
        logs: likewise.
        kept: how many.
    """
    whole = [snapshot.zxid for snapshot in reversed(snapshots) if looks_whole(snapshot.path)][:kept]
    if not whole:
        return []
    oldest = whole[-1]
    # A log that begins before a snapshot may go on behind it.
    first_log = max((log.zxid for log in logs if log.zxid <= oldest), default=0)
    return [
        *(snapshot.path for snapshot in snapshots if snapshot.zxid < oldest),
        *(log.path for log in logs if log.zxid < min(first_log, oldest)),
    ]


class Loss(NamedTuple):
    """Something that a directory once held, or should hold, and does not.

    Args:
        file: in which it was noticed.
        what: is lost.
    """

    file: Path
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


class DirectoryReader:
    """Reads the data directory of one server.

    Args:
        path: the server's dataDir.
        log_path: its dataLogDir, where logs are if not beside the snapshots.
        trusts_empty: whether logs may stand without a snapshot (snapshot.trust.empty).
        compares_digests: whether a tree that is not the one its digest was taken of is a loss (digest.enabled).
        sleeping: whether what is restored is only looked at (`Restoration`).

    Attributes:
        folder: where the snapshots are.
        log_folder: where the logs are.
        losses: what the last `restore` found missing.
    """

    def __init__(
        self,
        path: Path,
        log_path: Path | None = None,
        *,
        trusts_empty: bool = False,
        compares_digests: bool = True,
        sleeping: bool = False,
    ) -> None:
        self.folder = path / VERSION_FOLDER
        self.log_folder = (log_path or path) / VERSION_FOLDER
        self._trusts_empty = trusts_empty
        self._compares_digests = compares_digests
        self._sleeping = sleeping
        self.losses: list[Loss] = []

    def snapshots(self) -> list[Numbered]:
        """The snapshots, oldest first."""
        return _numbered(SNAPSHOT, self.folder)

    def logs(self) -> list[Numbered]:
        """The logs, oldest first."""
        return _numbered(LOG, self.log_folder)

    def restore(self, max_entry_bytes: int = MAX_ENTRY_BYTES) -> Restoration:
        """What the newest whole snapshot and the logs behind it hold; a new tree where there is neither.

        Args:
            max_entry_bytes: the longest entry to believe in.

        Raises:
            ConfigError: the directory cannot be read, or holds what the real server refuses to boot from.
        """
        self._look_for_strays()
        self.losses.clear()
        with without_cyclic_gc():
            return self._restore(max_entry_bytes)

    def _restore(self, max_entry_bytes: int) -> Restoration:
        snapshots, logs = self.snapshots(), self.logs()
        restoration = self._load_newest(snapshots, max_entry_bytes)
        if restoration is None:
            if snapshots or (logs and not self._trusts_empty):
                held = "a damaged snapshot only" if snapshots else "transaction logs without a snapshot"
                raise ConfigError(
                    f"it holds {held}", where=str(self.folder), right="a whole snapshot, or nothing at all"
                )
            restoration = Restoration(sleeping=self._sleeping)
        # The last log that starts at or before the first transaction wanted may hold it; all later ones do.
        wanted = restoration.zxid + 1
        first = max((log.zxid for log in logs if log.zxid <= wanted), default=0)
        for log in logs:
            if log.zxid >= first:
                self._replay(restoration, log, max_entry_bytes)
        self._note_gaps(restoration)
        return restoration

    def _load_newest(self, snapshots: list[Numbered], max_item_bytes: int) -> Restoration | None:
        """The newest snapshot that is whole; those that are not are told as losses."""
        for zxid, path in reversed(snapshots):
            restoration = Restoration(sleeping=self._sleeping)
            with open_snapshot(path) as stream:
                damage = restoration.load(SnapshotReader(stream, max_item_bytes=max_item_bytes), zxid)
            if damage is None:
                return restoration
            self.losses.append(Loss(path, f"not a whole snapshot, an older one is taken: {damage}"))
        return None

    def _replay(self, restoration: Restoration, log: Numbered, max_entry_bytes: int) -> None:
        with log.path.open("rb") as stream:
            reader = TransactionLogReader(stream, max_entry_bytes=max_entry_bytes)
            for entry in reader:
                zxid = entry.transaction.zxid
                if zxid > restoration.zxid + 1 and zxid >> 32 == restoration.zxid >> 32:
                    missing = f"0x{restoration.zxid + 1:x} to 0x{zxid - 1:x}"
                    self.losses.append(Loss(log.path, f"the transactions {missing} are missing before it"))
                restoration.replay(entry)
        damage = reader.damage
        if damage is None:
            return
        if not damage.is_crash:
            raise ConfigError(
                str(damage), where=str(log.path), right="a transaction log of ZooKeeper whose entries are whole"
            )
        self.losses.append(Loss(log.path, str(damage)))

    def _note_gaps(self, restoration: Restoration) -> None:
        if restoration.missing_until is not None:
            what = (
                f"the transactions up to 0x{restoration.missing_until:x}, which its snapshot partly shows, are missing"
            )
            self.losses.append(Loss(self.folder, what))
        if restoration.mismatch_zxid is not None and self._compares_digests:
            what = f"the tree after 0x{restoration.mismatch_zxid:x} is not the one that its digest was taken of"
            self.losses.append(Loss(self.folder, what))

    def _look_for_strays(self) -> None:
        """Where logs have a folder of their own, each kind is in its own (FileTxnSnapLog.checkLogDir, checkSnapDir)."""
        if self.log_folder == self.folder:
            return
        for kind, folder, setting in (
            (SNAPSHOT, self.log_folder, "dataLogDir"),
            (LOG, self.folder, "dataDir"),
        ):
            strays = _numbered(kind, folder)
            if strays:
                right = f"{setting} as the directory was written with"
                what = f"it holds {strays[0].path.name}, which belongs elsewhere"
                raise ConfigError(what, where=str(folder), right=right)


def _numbered(kind: str, folder: Path) -> list[Numbered]:
    """The logs or the snapshots, oldest first; by their names, as the real server goes."""
    found = ((zxid_of(kind, path.name), path) for path in folder.iterdir())
    return sorted(Numbered(zxid, path) for zxid, path in found if zxid is not None)


@contextmanager
def refusing(folder: Path) -> Iterator[None]:
    """What the file system refuses, and what only looks like a directory of ours, as one clear error."""
    try:
        yield
    except OSError as error:
        where = str(error.filename or folder)
        raise ConfigError(f"the data directory cannot be used: {error.strerror or error}", where=where) from error


_GZIP_MAGIC, _SNAPPY_MAGIC = b"\x1f\x8b", b"\x82SNAPPY\x00"
_END = b"\x00\x00\x00\x01/"
_LEAST_BYTES = 10


@contextmanager
def open_snapshot(path: Path) -> Iterator[Readable]:
    """A snapshot's bytes, unpacked."""
    with path.open("rb") as stream:
        yield unpacked(stream, path.suffix)


def looks_whole(path: Path) -> bool:
    """Whether a file looks like a whole snapshot by its ends, which is all that the real server asks."""
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


class Packer(Protocol):
    """What packs a stream piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """What is to be written now that `data` has come."""

    def flush(self) -> bytes:
        """What is to be written at the end."""


class _Plain:
    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


class _Snappy:
    def __init__(self) -> None:
        from simzk.zookeeper.persistence.snappy import STREAM_HEAD

        self._out, self._buffer = STREAM_HEAD, b""

    def compress(self, data: bytes, /) -> bytes:
        from simzk.zookeeper.persistence.snappy import BLOCK_BYTES, pack_frame

        out, self._out = bytearray(self._out), b""
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= BLOCK_BYTES:
            out += pack_frame(self._buffer[at : at + BLOCK_BYTES])
            at += BLOCK_BYTES
        self._buffer = self._buffer[at:]
        return bytes(out)

    def flush(self) -> bytes:
        from simzk.zookeeper.persistence.snappy import pack_frame

        return self._out + (pack_frame(self._buffer) if self._buffer else b"")


def packer(method: str) -> Packer:
    """What packs a snapshot by the method "gz", "snappy" or "" for none."""
    if method == "gz":
        return zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    return _Snappy() if method == "snappy" else _Plain()
