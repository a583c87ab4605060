"""The order in which a connection's identities stand: that of a Java ConcurrentHashMap, by which they are told (§4).

Rules of this module:
  - nothing is ever taken away: a connection keeps what it has shown;
  - a table of 16 buckets doubles with the twelfth, the twenty-fourth, the forty-eighth identity, and so on; a bucket
    that is split keeps its last run of one half as it is, and has what came before that turned round.

Source: ServerCnxn.authInfo; java.util.concurrent.ConcurrentHashMap, putVal and transfer; the generated Id.hashCode.

The order in which java.util.concurrent.ConcurrentHashMap (Java 8 and later) iterates: it fixes the order in which a
consumer writes offsets and releases partitions, for Kafka keeps what it owns in such maps (kafka.utils.Pool).

Rules of the module (source of OpenJDK; the recorded consumers, docs/reference/kafka.md §4):
  - 16 bins at first, twice as many whenever three quarters of their number are reached;
  - a new entry goes to the end of its bin; when the bins double, the last run of a bin that stays together keeps its
    order and what stood before it is put in front, one by one;
  - bins are never turned into trees here: that takes eight keys in one bin, and keeps the order of iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from simzk.jvm.hash_map import java_string_hash, spread
from simzk.jvm.scala_maps import java_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.zookeeper.requests import Id

_FIRST_BUCKETS = 16


def in_table_order(shown: Sequence[Id]) -> tuple[Id, ...]:
    """Identities in the order of the table.

    Args:
        shown: in the order in which they were shown, each once.

    >>> from simzk.zookeeper.requests import Id
    >>> [identity.id for identity in in_table_order([Id("ip", "127.0.0.1"), Id("super", ""), Id("digest", "a:b")])]
    ['a:b', '', '127.0.0.1']
    """
    buckets: list[list[tuple[int, Id]]] = [[] for _ in range(_FIRST_BUCKETS)]
    for count, identity in enumerate(shown, 1):
        hashed = _hash(identity)
        buckets[hashed & (len(buckets) - 1)].append((hashed, identity))
        if count >= len(buckets) * 3 // 4:
            buckets = _doubled_identities(buckets)
    return tuple(identity for bucket in buckets for _, identity in bucket)


def _hash(identity: Id) -> int:
    code = 17 * 37 + java_string_hash(identity.scheme or "")
    code = code * 37 + java_string_hash(identity.id or "")
    return spread(code & 0xFFFFFFFF)


def _doubled_identities(buckets: list[list[tuple[int, Id]]]) -> list[list[tuple[int, Id]]]:
    size = len(buckets)
    halves: tuple[list[list[tuple[int, Id]]], ...] = ([], [])
    for bucket in buckets:
        run = len(bucket)
        while run > 1 and (bucket[run - 1][0] ^ bucket[run - 2][0]) & size == 0:
            run -= 1
        at = max(run - 1, 0)  # where the last run begins
        ordered = [*reversed(bucket[:at]), *bucket[at:]]
        for upper, half in enumerate(halves):
            half.append([entry for entry in ordered if bool(entry[0] & size) == upper])
    return [*halves[0], *halves[1]]


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
