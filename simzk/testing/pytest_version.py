"""The oldest pytest that loads the plugin.

pytest loads the plugin wherever simzk is installed, also in projects that do not use it, so an older pytest is named in
one line instead of a traceback.
"""

from __future__ import annotations

import pytest

OLDEST = (7, 0)
"""pytest 7.0 has the stash, in which the plugin stores shared servers."""


def check_version(version: str) -> None:
    """End the process with one line if pytest is too old.

    Raises:
        SystemExit: it is. pytest prints a traceback for every other error of a plugin's import.
    """
    found = tuple(int(part) for part in version.split(".")[:2])
    if found < OLDEST:
        needed = ".".join(map(str, OLDEST))
        text = f"the pytest plugin needs pytest {needed} or newer, not {version}; -p no:simzk switches the plugin off"
        raise SystemExit(f"simzk: {text}")


check_version(pytest.__version__)
