"""What is wrong with a file on disk, as a value: the reader stops there, and keeps what came before.

How the files of a data directory are named: `version-2/log.<zxid>`, `version-2/snapshot.<zxid>`, packed ones too.

How the files of a data directory are packed: a stream's bytes, unpacked as they are read (§6).

Rules of this module:
  - how a file is packed is the last part of its name;
  - a packed stream that is broken just ends there: what is within says what is missing.

Source: SnapStream, zookeeper.snapshot.compression.method.
"""

from __future__ import annotations

import gzip
import zlib
from enum import Enum
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from simzk.zookeeper.persistence.transaction_log import Readable


class DamageKind(Enum):
    """Why a file cannot be read further."""

    EMPTY = "the file is empty"
    FOREIGN = "it does not start as such a file does"
    VERSION = "the file is of another format version"
    TORN = "the file ends inside an entry"
    HOLE = "data stands behind the end of the log"
    LENGTH = "an entry has an absurd length"
    CHECKSUM = "the checksum does not fit"
    RECORD = "an entry cannot be understood"


class Damage(NamedTuple):
    """Where a file stops making sense.

    Args:
        kind: why.
        offset: of the first byte that is not whole: the start of the entry, in bytes from the start of the file.
        last_zxid: of the last whole transaction before it in the same file, None where there is none.

    >>> print(Damage(DamageKind.TORN, 4096, 0x17))
    the file ends inside an entry, at byte 4096; whole up to zxid 0x17
    """

    kind: DamageKind
    offset: int
    last_zxid: int | None

    @property
    def is_crash(self) -> bool:
        """Whether a server killed while it wrote leaves such a file; the real server passes over it.

        Everything else it refuses to start from (FileTxnLog.FileTxnIterator.next).
        """
        return self.kind in (DamageKind.EMPTY, DamageKind.TORN, DamageKind.HOLE)

    def __str__(self) -> str:
        whole = "nothing before it" if self.last_zxid is None else f"whole up to zxid 0x{self.last_zxid:x}"
        return f"{self.kind.value}, at byte {self.offset}; {whole}"


VERSION_FOLDER = "version-2"
LOG, SNAPSHOT = "log", "snapshot"


def zxid_of(kind: str, name: str) -> int | None:
    """The zxid in a file's name; None where it is none of that kind (Util.getZxidFromName).

    >>> zxid_of("log", "log.1a"), zxid_of("log", "log.1a.gz"), zxid_of("log", "snapshot.1a")
    (26, 26, None)
    """
    prefix, _, rest = name.partition(".")
    if prefix != kind:
        return None
    try:
        return int(rest.partition(".")[0], 16)
    except ValueError:
        return None


_CHUNK_BYTES = 64 * 1024
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error)


def unpacked(stream: IO[bytes], suffix: str) -> Readable:
    """What a stream holds; the stream itself where it is not packed.

    Args:
        stream: a file opened for reading, at its beginning.
        suffix: the last part of its name, with its point, as `pathlib` has it.
    """
    if suffix == ".gz":
        return Unzipped(stream)
    return _Unsnapped(stream) if suffix == ".snappy" else stream


class Unzipped:
    """What a stream holds that is packed with gzip.

    Args:
        stream: a file opened for reading, at its beginning.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = gzip.GzipFile(fileobj=stream)

    def read(self, size: int, /) -> bytes:
        """Some bytes, at most so many; none at the end, or where the stream is broken."""
        try:
            # As much as is there: what comes before the break is not lost with it.
            return self._stream.read1(size)
        except _BROKEN:
            return b""

    def seek(self, offset: int, /) -> int:
        """Go to a byte of what is unpacked; backwards it takes as long as from the beginning."""
        try:
            return self._stream.seek(offset)
        except _BROKEN:
            return offset


class _Unsnapped:
    def __init__(self, stream: IO[bytes]) -> None:
        from simzk.zookeeper.persistence.snappy import Unpacker

        self._stream = stream
        self._unpacker = Unpacker()
        self._buffer = b""

    def read(self, size: int, /) -> bytes:
        from simzk.zookeeper.persistence.snappy import SnappyError

        while len(self._buffer) < size:
            chunk = self._stream.read(_CHUNK_BYTES)
            try:
                self._buffer += self._unpacker.feed(chunk)
            except SnappyError:
                break
            if not chunk:
                break
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken
