"""A snapshot's file, packed or not, as the bytes that it holds, and the other way round (§6).

Rules of this module:
  - how a file is packed is the last part of its name.

Source: SnapStream, zookeeper.snapshot.compression.method.
"""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from simzk.zookeeper.persistence.files import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from simzk.zookeeper.persistence import Readable

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
