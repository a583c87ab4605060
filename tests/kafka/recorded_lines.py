"""Files of recorded exchanges: one JSON object a line, compressed or not."""

from __future__ import annotations

import gzip
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def read_lines(file: Path) -> Iterator[Any]:
    """Return the objects of a file; its name says whether it is compressed."""
    data = file.read_bytes()
    return map(json.loads, (gzip.decompress(data) if file.suffix == ".gz" else data).splitlines())


def write_lines(file: Path, chosen: Iterable[Any]) -> None:
    """Write objects to a compressed file, and say how many and how large they are; equal ones give equal files."""
    lines = [json.dumps(one, separators=(",", ":")) + "\n" for one in chosen]
    file.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    sys.stdout.write(f"{len(lines)} exchanges, {file.stat().st_size} bytes\n")
