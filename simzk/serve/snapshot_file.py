"""A snapshot's file, compressed or not, as the bytes that it holds (§6).

Source: SnapStream, zookeeper.snapshot.compression.method.
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from simzk.zookeeper.persistence import Readable


@contextmanager
def open_snapshot(path: Path) -> Iterator[Readable]:
    """A snapshot's bytes, unpacked.

    Raises:
        ConfigError: it is compressed by what is not read here.
    """
    if path.suffix == ".snappy":
        raise ConfigError("snapshots compressed by snappy cannot be read", where=str(path), right="gzip, or none")
    with path.open("rb") as stream:
        yield _Unzipped(stream) if path.suffix == ".gz" else stream


class _Unzipped:
    """A gzip stream that just ends where it is broken: the snapshot within says what is missing."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = gzip.GzipFile(fileobj=stream)

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return b""
