"""Small files that are there whole or not at all.

Source: AtomicFileWritingIdiom.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, text: str, *, fsync: bool = True) -> None:
    """Put a text in the place of what a file held; whoever reads it meanwhile sees either.

    Args:
        path: the file.
        text: of ISO 8859-1.
        fsync: whether it is to outlive the machine.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="latin-1", newline="") as stream:
        stream.write(text)
        stream.flush()
        if fsync:
            os.fsync(stream.fileno())
    partial.replace(path)
