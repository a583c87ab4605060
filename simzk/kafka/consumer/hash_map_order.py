"""The order in which java.util.concurrent.ConcurrentHashMap (Java 8 and later) iterates: it fixes the order in which a
consumer writes offsets and releases partitions, for Kafka keeps what it owns in such maps (kafka.utils.Pool).

Rules of the module (source of OpenJDK; the recorded consumers, docs/reference/kafka.md §4):
  - 16 bins at first, twice as many whenever three quarters of their number are reached;
  - a new entry goes to the end of its bin; when the bins double, the last run of a bin that stays together keeps its
    order and what stood before it is put in front, one by one;
  - bins are never turned into trees here: that takes eight keys in one bin, and keeps the order of iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from simzk.partitions.scala_order import java_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Key = TypeVar("Key")

_BINS_AT_FIRST: Final = 16
_MASK: Final = 0xFFFF_FFFF
_HASH_BITS: Final = 0x7FFF_FFFF


def concurrent_order(keys: Iterable[Key], hash_of: Callable[[Key], int] = java_hash) -> list[Key]:
    """Distinct keys, given in the order in which they were put in, as the map iterates over them.

    >>> concurrent_order([2, 0, 1])
    [0, 1, 2]
    >>> concurrent_order([16, 15, 0])
    [16, 0, 15]
    """
    bins: list[list[tuple[int, Key]]] = [[] for _ in range(_BINS_AT_FIRST)]
    for count, key in enumerate(dict.fromkeys(keys), start=1):
        spread = _spread(hash_of(key))
        bins[spread & (len(bins) - 1)].append((spread, key))
        if count >= len(bins) * 3 // 4:
            bins = _doubled(bins)
    return [key for entries in bins for _, key in entries]


def _spread(value: int) -> int:
    value &= _MASK
    return (value ^ value >> 16) & _HASH_BITS


def _doubled(bins: list[list[tuple[int, Key]]]) -> list[list[tuple[int, Key]]]:
    size = len(bins)
    low: list[list[tuple[int, Key]]] = []
    high: list[list[tuple[int, Key]]] = []
    for entries in bins:
        parts: tuple[list[tuple[int, Key]], list[tuple[int, Key]]] = ([], [])
        start = _last_run(entries, size)
        if entries:
            parts[1 if entries[-1][0] & size else 0].extend(entries[start:])
        for entry in entries[:start]:
            parts[1 if entry[0] & size else 0].insert(0, entry)
        low.append(parts[0])
        high.append(parts[1])
    return low + high


def _last_run(entries: list[tuple[int, Key]], bit: int) -> int:
    """Where the last run of entries begins that all go to the same new bin."""
    start = len(entries)
    while start and (entries[start - 1][0] & bit) == (entries[-1][0] & bit):
        start -= 1
    return start
