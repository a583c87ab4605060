"""Which files of a data directory are no longer needed: older snapshots, and the logs before them.

Source: PurgeTxnLog, FileSnap.findNValidSnapshots, SnapStream.isValidSnapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.serve.snapshot_file import looks_whole
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Numbered(NamedTuple):
    """A log or a snapshot, by the zxid in its name."""

    zxid: int
    path: Path


def superfluous(snapshots: Sequence[Numbered], logs: Sequence[Numbered], kept: int) -> list[Path]:
    """What can be removed so that each of the newest `kept` whole snapshots can still be booted from.

    Args:
        snapshots: all of them, oldest first.
        logs: likewise.
        kept: how many.
    """
    whole = [snapshot.zxid for snapshot in reversed(snapshots) if looks_whole(snapshot.path)][:kept]
    if not whole:
        return []
    oldest = whole[-1]
    # A log that begins before a snapshot may go on behind it.
    first_log = max((log.zxid for log in logs if log.zxid <= oldest), default=0)
    return [
        *(snapshot.path for snapshot in snapshots if snapshot.zxid < oldest),
        *(log.path for log in logs if log.zxid < min(first_log, oldest)),
    ]
