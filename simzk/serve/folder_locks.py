"""Folders that one server at a time may have.

Rules of this module:
  - a folder is locked by `flock` on itself: no file is left behind, and the end of a process lets go, however it ended.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from typing import TYPE_CHECKING

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class FolderLocks:
    """What one server has locked; let go at the latest when this object is gone."""

    def __init__(self) -> None:
        self._unlock: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return bool(self._unlock)

    def take(self, folder: Path) -> None:
        """Keep other processes, and other servers of this one, from a folder.

        Raises:
            ConfigError: another server has it.
        """
        descriptor = os.open(folder, os.O_RDONLY)
        self._unlock.append(weakref.finalize(self, os.close, descriptor))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            right = "a directory of its own for each server"
            raise ConfigError("another server is using it", where=str(folder), right=right) from None

    def let_go(self) -> None:
        """Give all of them free."""
        while self._unlock:
            self._unlock.pop()()
