"""Files of a data directory: names (`version-2/log.<zxid>`, `version-2/snapshot.<zxid>`), packing, and damage.

Rules of this module:
  - the suffix of a name says how the file is packed; it is unpacked while it is read (§6);
  - a broken packed stream ends there; the reader of its content reports what is missing;
  - damage is a value: a reader stops there and keeps what came before.

Source: Util.getZxidFromName, SnapStream, zookeeper.snapshot.compression.method.
"""

from __future__ import annotations

import gzip
import zlib
from enum import Enum
from typing import IO, NamedTuple, Protocol


class Readable(Protocol):
    """File opened for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""


class DamageKind(Enum):
    """Reason why a file cannot be read further."""

    EMPTY = "the file is empty"
    FOREIGN = "the file does not start with the header of its kind"
    VERSION = "the file is of another format version"
    TORN = "the file ends inside an entry"
    HOLE = "data follows the end of the log"
    LENGTH = "the length of an entry is out of range"
    CHECKSUM = "the checksum is wrong"
    RECORD = "an entry does not decode"


class Damage(NamedTuple):
    """Damage of a file: its kind and position.

    Args:
        kind: reason.
        offset: offset of the damaged entry in the file.
        last_zxid: zxid of the last whole transaction before it in the same file, or None.

    >>> print(Damage(DamageKind.TORN, 4096, 0x17))
    the file ends inside an entry, at byte 4096; whole up to zxid 0x17
    """

    kind: DamageKind
    offset: int
    last_zxid: int | None

    @property
    def is_crash(self) -> bool:
        """Return whether a server killed while writing leaves such a file, which the real server accepts.

        It refuses to start with any other damage (FileTxnLog.FileTxnIterator.next).
        """
        return self.kind in (DamageKind.EMPTY, DamageKind.TORN, DamageKind.HOLE)

    def __str__(self) -> str:
        whole = "nothing before it" if self.last_zxid is None else f"whole up to zxid 0x{self.last_zxid:x}"
        return f"{self.kind.value}, at byte {self.offset}; {whole}"


class UnbootableError(Exception):
    """Content that decodes, and on which the real server fails while it boots; it looks for no older snapshot then."""


VERSION_FOLDER = "version-2"
LOG, SNAPSHOT = "log", "snapshot"


def zxid_of(kind: str, name: str) -> int | None:
    """Return the zxid in the name of a file, or None if it is not of that kind (Util.getZxidFromName).

    >>> zxid_of("log", "log.1a"), zxid_of("log", "log.1a.gz"), zxid_of("log", "snapshot.1a")
    (26, 26, None)
    """
    assert kind in (LOG, SNAPSHOT)
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
    """Return a stream of unpacked bytes, or the stream itself if it is not packed.

    Args:
        stream: file opened for reading, at its beginning.
        suffix: suffix of its name, with the dot, as in `pathlib`.
    """
    assert not suffix or suffix.startswith("."), "a suffix has its dot"
    if suffix == ".gz":
        return Unzipped(stream)
    return _Unsnapped(stream) if suffix == ".snappy" else stream


class Unzipped:
    """Unpacked bytes of a gzip stream, a file opened for reading, at its beginning."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = gzip.GzipFile(fileobj=stream)

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end or where the stream is broken."""
        assert size >= 0, "a file is read in parts"
        try:
            # `read1` returns the bytes before a break, which `read` would lose.
            return self._stream.read1(size)
        except _BROKEN:
            return b""

    def seek(self, offset: int, /) -> int:
        """Move to an offset of the unpacked bytes; moving back unpacks from the beginning."""
        try:
            return self._stream.seek(offset)
        except _BROKEN:
            return offset


class _Unsnapped:
    def __init__(self, stream: IO[bytes]) -> None:
        from simzk.snappy import Unpacker

        self._stream = stream
        self._unpacker = Unpacker()
        self._buffer = b""

    def read(self, size: int, /) -> bytes:
        from simzk.snappy import SnappyError

        assert size >= 0, "a file is read in parts"
        while len(self._buffer) < size:
            chunk = self._stream.read(_CHUNK_BYTES)
            try:
                self._buffer += self._unpacker.feed(chunk)
            except SnappyError:
                break
            if not chunk:
                break
        unpacked_bytes, self._buffer = self._buffer[:size], self._buffer[size:]
        return unpacked_bytes
