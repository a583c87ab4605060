"""Folders of downloaded files, shared by all tests of a machine.

Rules of this module:
  - a folder appears whole or not at all;
  - one process at a time downloads into a parent folder: Ivy's cache, which is there too, allows only one.
"""

from __future__ import annotations

import fcntl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def filled(folder: Path, fill: Callable[[Path], object]) -> Path:
    """Return a folder, filled first if it does not exist.

    Args:
        folder: the folder; its parent is created if it is missing.
        fill: downloads into an empty folder.
    """
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                fetched = Path(temporary) / "fetched"
                fetched.mkdir()
                fill(fetched)
                fetched.rename(folder)
    return folder
