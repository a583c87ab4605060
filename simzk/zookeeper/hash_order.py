"""The order in which Java's HashSet lists text, for clients live by the order of getChildren (§2.6).

Rules of this module:
  - an element's place is the bucket of its spread hash; within a bucket, the order of insertion;
  - a set's capacity starts where its owner says and doubles when it is more than three quarters full; it never shrinks;
  - hashes are computed when the order is first asked for, since most sets are filled far more often than listed;
  - a set in which nine names came to share a bucket is a `HashTable` from then on (hash_table.py), for its order tells
    more than who came when. That depends on names that have gone, too, in sets of up to `LOOKED_AT` names (of more, the
    names that are used anywhere never share a bucket by nine): what came and went since a name was first taken out is
    noted, and looked at when the order is asked for, or when much was noted for a set of that size;
  - an empty set of so many buckets that crowding makes no more of them has forgotten what it held.

Source: java.util.HashMap, String.hashCode; docs/reference/zookeeper.md §2.6.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import islice
from operator import mul
from struct import unpack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simzk.zookeeper.hash_table import HashTable

TREE_NAMES = 8
"""Of more names than these in a bucket Java makes a tree."""
LOOKED_AT = 1024
NOTED = 128
"""So much is noted of any set, and of a larger one twice what it has."""
TOGETHER = 16
"""From so many names of a length on, it is quicker to hash them together."""
TREE_CAPACITY = 64
"""A crowded bucket of fewer doubles their number instead."""
_MASK = 0xFFFFFFFF


@lru_cache(maxsize=256)
def _weights(length: int) -> tuple[int, ...]:
    """Powers of 31 modulo 2^32, highest first, for a text of `length` UTF-16 units."""
    return tuple(pow(31, length - 1 - position, 1 << 32) for position in range(length))


def java_string_hash(text: str) -> int:
    """`String.hashCode` of Java, as an unsigned 32-bit number.

    >>> java_string_hash("zookeeper"), java_string_hash("BB") == java_string_hash("Aa")
    (1600681804, True)
    """
    if text.isascii():
        units: Sequence[int] = text.encode("ascii")
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    total: int = sum(map(mul, units, _weights(len(units))))
    return total & _MASK


def spread(hash_code: int) -> int:
    """`HashMap.hash`: the high half folded into the low one, since a bucket is chosen by the low bits."""
    return hash_code ^ (hash_code >> 16)


def spreads_of(names: Iterable[str]) -> dict[str, int]:
    """The spread hashes of names.

    >>> spreads_of(["zookeeper"])["zookeeper"] == spread(java_string_hash("zookeeper"))
    True
    """
    by_length: dict[int, list[str]] = {}
    for name in names:
        by_length.setdefault(len(name), []).append(name)
    spreads: dict[str, int] = {}
    for alike in by_length.values():
        if len(alike) >= TOGETHER and (text := "".join(alike)).isascii():
            spreads.update(zip(alike, _hash_together(text.encode("ascii"), len(alike)), strict=True))
        else:
            for name in alike:
                spreads[name] = spread(java_string_hash(name))
    return spreads


def _hash_together(text: bytes, count: int) -> tuple[int, ...]:
    """The spread hashes of `count` names of one length that follow each other, in 64 bits each of one large number."""
    length = len(text) // count
    total = 0
    for position, weight in enumerate(_weights(length)):
        units = bytearray(8 * count)
        units[::8] = text[position::length]
        total += int.from_bytes(units, "little") * weight  # of 39 bits: the sums of any name fit
    lower_halves = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")
    total &= lower_halves
    total = (total ^ total >> 16) & lower_halves
    return unpack(f"<{count}Q", total.to_bytes(8 * count, "little"))


def clone_capacity(size: int) -> int:
    """The capacity of `HashSet.clone()` of `size` elements (HashMap.putMapEntries)."""
    wanted = int(size / 0.75 + 1.0)
    return 1 << (wanted - 1).bit_length()


def capacity_for(size: int, capacity: int) -> int:
    """The buckets of a set that began with `capacity` and has grown to `size` elements.

    >>> capacity_for(6, 8), capacity_for(7, 8)
    (8, 16)
    """
    while size * 4 > capacity * 3:
        capacity *= 2
    return capacity


class _Noted:
    """What a set was when a name was first taken out after a look, and what came or went from then on."""

    __slots__ = ("at_most", "capacity", "names", "spreads", "unseen")

    def __init__(self, spreads: dict[str, int | None], capacity: int, unseen: bool) -> None:
        self.spreads = spreads
        self.capacity = capacity
        self.unseen = unseen
        self.at_most = max(NOTED, 2 * len(spreads))
        self.names: list[str] = []  # one that was there went, one that was not came


class HashOrderedSet:
    """A set of text that lists itself as a Java HashSet with the same history would.

    Args:
        capacity: the initial number of buckets, a power of two.

    >>> children = HashOrderedSet(8)
    >>> for name in ("quota", "config"):
    ...     children.add(name)
    >>> children.ordered()
    ['config', 'quota']
    """

    __slots__ = ("_buckets", "_capacity", "_noted", "_order", "_seen_capacity", "_spreads", "_table", "_unseen")

    def __init__(self, capacity: int) -> None:
        assert capacity & (capacity - 1) == 0, "a capacity of buckets is a power of two"
        self._capacity = capacity
        self._spreads: dict[str, int | None] = {}
        self._order: list[str] | None = None
        self._unseen = False  # something came since it was last looked at
        self._seen_capacity = capacity  # when it was
        self._buckets: dict[int, int] | None = None  # how many names each had then, where that is followed
        self._table: HashTable | None = None
        self._noted: _Noted | None = None

    def __len__(self) -> int:
        return len(self._spreads)

    def __contains__(self, element: object) -> bool:
        return element in self._spreads

    def __iter__(self) -> Iterator[str]:
        return iter(self.ordered())

    def add(self, element: str) -> None:
        spreads = self._spreads
        if element not in spreads:
            spreads[element] = None
            self._order = None
            self._unseen = True
            if len(spreads) * 4 > self._capacity * 3:
                self._capacity *= 2
            noted = self._noted
            if noted is not None:
                noted.names.append(element)
                if len(noted.names) == noted.at_most:
                    self._settle()

    def discard(self, element: str) -> None:
        spreads = self._spreads
        if element not in spreads:
            return
        noted = self._noted
        if noted is None:
            if (
                self._table is not None
                or not TREE_NAMES < len(spreads) <= LOOKED_AT
                or not (self._unseen or self._buckets is None)
            ):
                self._take_out(element)
                return
            noted = self._noted = _Noted(spreads.copy(), self._capacity, self._unseen)
        noted.names.append(element)
        del spreads[element]
        self._order = None
        if not spreads and self._capacity >= TREE_CAPACITY:
            self._noted = self._buckets = None
            self._seen_capacity = self._capacity
            self._unseen = False
        elif len(noted.names) == noted.at_most:
            self._settle()

    def _take_out(self, element: str) -> None:
        """Discard a name that is there, once it is known whether a bucket is crowded."""
        spreads = self._spreads
        if self._table is None and not TREE_NAMES < len(spreads) <= LOOKED_AT:
            self._buckets = None
        elif self._unseen or self._buckets is None:
            self._look()
        if self._table is not None:
            self._table.remove(element)
        elif self._buckets is not None:
            self._buckets[(spreads[element] or 0) & (self._capacity - 1)] -= 1
        del spreads[element]
        self._order = None

    def _settle(self) -> None:
        """Look at what was noted."""
        noted = self._noted
        if noted is None:
            return
        present, capacity = self._spreads, self._capacity
        self._noted = None
        self._spreads, self._capacity, self._unseen = noted.spreads, noted.capacity, noted.unseen
        self._look()
        if self._table is None:
            # `_look` has hashed what was there before.
            spreads = noted.spreads | spreads_of(
                name for name in dict.fromkeys(noted.names) if name not in noted.spreads
            )
            buckets = Counter(map((self._capacity - 1).__and__, spreads.values()))  # type: ignore[arg-type]
            if max(buckets.values()) <= TREE_NAMES:
                # Not even all of them together crowd a bucket.
                present.update(zip(present, map(spreads.__getitem__, present), strict=True))
                self._spreads, self._seen_capacity, self._capacity = present, capacity, capacity
                self._buckets = None
                return
        for element in noted.names:
            if element in self._spreads:
                self._take_out(element)
            else:
                self.add(element)

    @property
    def capacity(self) -> int:
        """The number of buckets that it has grown to."""
        self._settle()
        return self._capacity

    def in_order_of_arrival(self) -> list[str]:
        """The elements as they came: those of one bucket are listed so."""
        return list(self._spreads)

    def ordered(self) -> list[str]:
        """The elements in Java's order. The list is the set's own: copy it before keeping or changing it."""
        if self._order is None:
            self._settle()
            self._look()
            if self._table is not None:
                self._order = list(self._table)
            else:
                self._order = self._by_bucket(self._spreads, self._capacity)
        return self._order

    def _look(self) -> None:
        """See whether a bucket is crowded by what came since this was last done."""
        news = self._hashed_news()
        if self._table is None and self._crowd(news):
            from simzk.zookeeper.hash_table import HashTable  # hardly any set needs one

            before = islice(self._spreads, len(self) - len(news))
            self._table = HashTable(before, self._seen_capacity, self._spread_of)
            self._buckets = None
        if self._table is not None:
            for element in news:
                self._table.add(element)
            self._capacity = self._table.capacity
        self._seen_capacity = self._capacity
        self._unseen = False

    def _hashed_news(self) -> list[str]:
        """What came since the last look; it has its hash from now on."""
        spreads, news = self._spreads, []
        for element in reversed(spreads):
            if spreads[element] is not None:
                break
            news.append(element)
        news.reverse()
        spreads.update(spreads_of(news))
        return news

    def _crowd(self, news: list[str]) -> bool:
        """Whether with these a bucket has, or on the way to the present capacity had, more than eight names."""
        if len(self) <= TREE_NAMES:
            self._buckets = None
            return False
        if self._buckets is None or self._seen_capacity != self._capacity:
            return self._ever_crowded()
        for element in news:
            bucket = self._spread_of(element) & (self._capacity - 1)
            self._buckets[bucket] = count = self._buckets.get(bucket, 0) + 1
            if count > TREE_NAMES:
                return True
        return False

    def _ever_crowded(self) -> bool:
        capacity = self._seen_capacity
        while True:
            is_last = capacity >= self._capacity
            # So many names a set of this capacity has at most, the one included that makes it grow.
            within = islice(self._spreads.values(), None if is_last else capacity * 3 // 4 + 1)
            buckets = Counter(map((capacity - 1).__and__, within))  # type: ignore[arg-type]  # all are known
            if max(buckets.values()) > TREE_NAMES:
                return True
            if is_last:
                self._buckets = buckets if len(self) <= LOOKED_AT else None
                return False
            capacity *= 2

    def _spread_of(self, element: str) -> int:
        known = self._spreads[element]
        assert known is not None, "it was looked at"
        return known

    def clone_ordered(self) -> list[str]:
        """The elements in the order of the set's `clone()`, which has buckets for its present size only."""
        names, capacity = self.ordered(), clone_capacity(len(self))
        if self._table is None:
            return self._by_bucket(names, capacity)
        from simzk.zookeeper.hash_table import HashTable

        table = HashTable((), capacity, self._spread_of)
        for name in names:
            table.add(name)
        return list(table)

    def _by_bucket(self, elements: Iterable[str], capacity: int) -> list[str]:
        spreads, mask = self._spreads, capacity - 1
        return sorted(elements, key=lambda element: (spreads[element] or 0) & mask)

    def check(self) -> None:
        """Assert all invariants of the structure."""
        assert self._capacity & (self._capacity - 1) == 0
        assert len(self) * 4 <= self._capacity * 3
        assert self._seen_capacity <= self._capacity
        assert self._table is None or self._buckets is None
        if self._noted is None and self._buckets is not None and not self._unseen:
            mask = self._capacity - 1
            assert +Counter(self._buckets) == Counter(self._spread_of(name) & mask for name in self._spreads)
        if self._noted is not None:
            assert self._table is None, "a crowded set knows its order at once"
            assert self._order is None
            assert len(self._noted.names) < self._noted.at_most
            changed = {name for name, times in Counter(self._noted.names).items() if times % 2}
            assert changed ^ set(self._noted.spreads) == set(self._spreads), "what was noted leads to what is there"
        for element, known in self._spreads.items():
            assert known == spread(java_string_hash(element)) if known is not None else self._unseen
        assert self._order is None or (len(self._order) == len(self) and set(self._order) == set(self._spreads))
