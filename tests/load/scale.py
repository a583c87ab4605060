"""Scale of the load tests: a part by default, all with SIMZK_LOAD=full.

    SIMZK_LOAD=full pytest tests/load

The full load takes some minutes, and 20,000 open files in a process.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple


class Scale(NamedTuple):
    """Numbers of sessions, znodes and so on.

    Attributes:
        sessions: connected at once over TCP, in all client processes together.
        processes: number of client processes.
        znodes: created over one connection.
        watches: of as many sessions on one path.
        unread: replies of 100,000 bytes that a client requests and does not read.
        churn_s: virtual seconds of sessions that connect and end.
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
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def allow_open_files() -> None:
    """Raise this process's limit of open files to its maximum."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
