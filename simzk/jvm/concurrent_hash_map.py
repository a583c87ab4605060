"""Order in which `java.util.concurrent.ConcurrentHashMap` (Java 8 and later) iterates.

ZooKeeper keeps the identities of a connection in such a map (`ServerCnxn.authInfo`); Kafka's consumers keep the
partitions that they own in one (`kafka.utils.Pool`), so it decides the order in which offsets are written.

Rules of this module:
  - the table has 16 bins at first and doubles each time when three quarters of their number are reached;
  - a new entry goes to the end of its bin; when the table doubles, the last run of entries that stay together keeps its
    order, and the entries before it are put in front one by one, which reverses them;
  - removal is not modelled;
  - bins are never trees here: that takes eight keys in one bin and does not change the order of iteration.

Source: ConcurrentHashMap.putVal, transfer; recorded consumers (docs/reference/kafka.md §4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from simzk.jvm.hash_codes import hash_code, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Key = TypeVar("Key")

_INITIAL_BINS: Final = 16
_HASH_BITS: Final = 0x7FFF_FFFF


def concurrent_order(keys: Iterable[Key], hash_of: Callable[[Key], int] = hash_code) -> list[Key]:
    """Return keys, given in order of insertion, in the order in which the map iterates.

    Args:
        keys: repeated ones count once.
        hash_of: the `hashCode` of a key.

    >>> concurrent_order([2, 0, 1])
    [0, 1, 2]
    >>> concurrent_order([16, 15, 0])
    [16, 0, 15]
    """
    bins: list[list[tuple[int, Key]]] = [[] for _ in range(_INITIAL_BINS)]
    for count, key in enumerate(dict.fromkeys(keys), start=1):
        hashed = spread(hash_of(key)) & _HASH_BITS
        bins[hashed & (len(bins) - 1)].append((hashed, key))
        if count >= len(bins) * 3 // 4:
            bins = _double(bins)
    return [key for entries in bins for _, key in entries]


def _double(bins: list[list[tuple[int, Key]]]) -> list[list[tuple[int, Key]]]:
    size = len(bins)
    halves: tuple[list[list[tuple[int, Key]]], ...] = ([], [])
    for entries in bins:
        start = _last_run(entries, size)
        ordered = [*reversed(entries[:start]), *entries[start:]]
        for upper, half in enumerate(halves):
            half.append([entry for entry in ordered if bool(entry[0] & size) == upper])
    return [*halves[0], *halves[1]]


def _last_run(entries: list[tuple[int, Key]], bit: int) -> int:
    """Return the index of the first entry of the last run that moves to one new bin."""
    start = len(entries)
    while start and (entries[start - 1][0] & bit) == (entries[-1][0] & bit):
        start -= 1
    return start
