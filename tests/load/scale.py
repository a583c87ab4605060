"""How much load: a share in every run, all of it where it is asked for.

    SIMZK_LOAD=full pytest tests/load

The whole takes some minutes, and 20,000 open files in a process.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple


class Scale(NamedTuple):
    """So much of each.

    Attributes:
        sessions: connected at once over TCP, in all processes of clients together.
        processes: of clients.
        znodes: created over one connection.
        watches: of as many sessions on one path.
        unread: replies of 100,000 bytes that a client asks for and does not read.
        churn_s: virtual seconds in which sessions come and go.
    """

    sessions: int
    processes: int
    znodes: int
    watches: int
    unread: int
    churn_s: int


SHARE = Scale(sessions=400, processes=2, znodes=80_000, watches=5_000, unread=2_000, churn_s=200)
FULL = Scale(sessions=10_000, processes=4, znodes=1_000_000, watches=100_000, unread=20_000, churn_s=3600)
SCALE = FULL if os.environ.get("SIMZK_LOAD") == "full" else SHARE


def resident_bytes(process_id: int) -> int:
    """The memory that a process has now, as Linux counts it."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def allow_open_files() -> None:
    """Let this process open as many files as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
