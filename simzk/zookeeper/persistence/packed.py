"""How the files of a data directory are packed: a stream's bytes, unpacked as they are read (§6).

Rules of this module:
  - how a file is packed is the last part of its name;
  - a packed stream that is broken just ends there: what is within says what is missing.

Source: SnapStream, zookeeper.snapshot.compression.method.
"""

from __future__ import annotations

import gzip
import zlib
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.zookeeper.persistence.transaction_log import Readable

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
