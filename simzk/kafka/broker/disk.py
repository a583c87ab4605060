"""Disk of one broker: how long an access takes, and its logs while no process runs.

Rules of this module (docs/reference/kafka.md §2.17):
  - accesses to a slow disk come one after the other, and each takes the same time;
  - reads at the log end come from the page cache and take no time: followers that have caught up do not notice.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Disk:
    """Speed of a disk.

    Attributes:
        delay_us: duration of an access; 0 for a disk that is fast enough.

    >>> disk = Disk(delay_us=1000)
    >>> disk.access(now_us=0), disk.access(now_us=500), disk.access(now_us=5000)
    (1000, 1500, 1000)
    """

    delay_us: int = 0
    _free_us: int = 0

    def access(self, now_us: int) -> int:
        """Begin an access; return after how many µs it ends."""
        if not self.delay_us:
            return 0
        self._free_us = max(self._free_us, now_us) + self.delay_us
        return self._free_us - now_us
