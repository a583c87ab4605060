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

Java's HashMap with all its buckets, for sets in which more than eight names share one (§2.6).

Rules of this module:
  - a bucket is a list of names in the order in which they came, until a ninth comes to it: a table of fewer than 64
    buckets then grows, in a larger one the bucket becomes a red-black tree whose nodes keep the list beside it;
  - the list is what is listed. In a tree a new node stands behind its parent, and whatever becomes the root is moved to
    the front: so the order of the list tells the history of the tree;
  - a tree's order is that of spread hashes, as signed numbers, and then of names as Java compares them;
  - a tree that is too small to be worth it is a list again, in its order.

Source: java.util.HashMap of JDK 17 (putVal, resize, treeifyBin, TreeNode), Cormen et al., Introduction to Algorithms.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import islice
from operator import mul
from struct import unpack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
            # hardly any set needs one

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


_LIST_NAMES = 6
_LEFT, _RIGHT = 0, 1
_SIGN = 1 << 31


class _Node:
    """One name of a tree: `children` are the left and the right one; `rank` orders nodes."""

    __slots__ = ("children", "name", "parent", "rank", "red")

    def __init__(self, name: str, rank: tuple[int, bytes]) -> None:
        self.name = name
        self.rank = rank
        self.parent: _Node | None = None
        self.children: list[_Node | None] = [None, None]
        self.red = False

    @property
    def side(self) -> int:
        """Which child of its parent it is."""
        assert self.parent is not None
        return _RIGHT if self.parent.children[_RIGHT] is self else _LEFT


class _Tree:
    """A bucket that is a tree, and the order in which its names are listed."""

    def __init__(self, names: Iterable[str], rank_of: Callable[[str], tuple[int, bytes]]) -> None:
        self._rank_of = rank_of
        self._nodes: dict[str, _Node] = {}
        self._root: _Node | None = None
        self.names = list(names)
        for name in self.names:
            self._grow(name)
        self._move_root_to_front()

    def add(self, name: str) -> None:
        parent = self._grow(name)
        assert parent is not None, "a tree is never empty"
        self.names.insert(self.names.index(parent.name) + 1, name)
        self._move_root_to_front()

    def remove(self, name: str) -> bool:
        """Without a name it is a tree still, or it is too small (False)."""
        self.names.remove(name)
        root = self._root
        assert root is not None
        left, right = root.children
        if left is None or right is None or left.children[_LEFT] is None:
            return False
        self._shrink(self._nodes.pop(name))
        self._move_root_to_front()
        return True

    def _move_root_to_front(self) -> None:
        if self._root is not None and self.names[0] != self._root.name:
            self.names.remove(self._root.name)
            self.names.insert(0, self._root.name)

    def _grow(self, name: str) -> _Node | None:
        """A node for a name; its parent at first, which balancing may change."""
        node = self._nodes[name] = _Node(name, self._rank_of(name))
        parent, below = None, self._root
        while below is not None:
            parent, below = below, below.children[node.rank > below.rank]
        node.parent = parent
        if parent is None:
            self._root = node
        else:
            parent.children[node.rank > parent.rank] = node
            node.red = True
            self._balance_grown(node)
        return parent

    def _balance_grown(self, node: _Node) -> None:
        while node.parent is not None and node.parent.red:
            parent, above = node.parent, node.parent.parent
            assert above is not None, "a red node is not the root"
            side = parent.side
            uncle = above.children[1 - side]
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                above.red = True
                node = above
                continue
            if node.side != side:
                self._rotate(parent, side)
                parent = node
            parent.red, above.red = False, True
            self._rotate(above, 1 - side)
            break
        assert self._root is not None
        self._root.red = False

    def _rotate(self, node: _Node, side: int) -> None:
        """Move a node down to a side; its other child takes its place."""
        rising = node.children[1 - side]
        assert rising is not None
        inner = node.children[1 - side] = rising.children[side]
        if inner is not None:
            inner.parent = node
        self._put_in_place(node, rising)
        rising.children[side], node.parent = node, rising

    def _put_in_place(self, node: _Node, other: _Node | None) -> None:
        """Have another one where a node is."""
        if node.parent is None:
            self._root = other
        else:
            node.parent.children[node.side] = other
        if other is not None:
            other.parent = node.parent

    def _shrink(self, node: _Node) -> None:
        left, right = node.children
        if left is not None and right is not None:
            self._change_with_following(node, left, right)
        only = node.children[_LEFT] or node.children[_RIGHT]
        if only is None:
            # It stands for the nothing that will be there while the others are balanced.
            if not node.red:
                self._balance_shrunk(node)
            self._put_in_place(node, None)
            return
        self._put_in_place(node, only)
        if not node.red:
            self._balance_shrunk(only)

    def _change_with_following(self, node: _Node, left: _Node, right: _Node) -> None:
        """Have a node with these children and the one that follows it in order change places, and colours."""
        following = right
        while (before := following.children[_LEFT]) is not None:
            following = before
        node.red, following.red = following.red, node.red
        below, above = following.children[_RIGHT], following.parent
        self._put_in_place(node, following)
        following.children[_LEFT], left.parent = left, following
        if following is right:
            following.children[_RIGHT], node.parent = node, following
        else:
            assert above is not None
            above.children[_LEFT], node.parent = node, above
            following.children[_RIGHT], right.parent = right, following
        node.children = [None, below]
        if below is not None:
            below.parent = node

    def _balance_shrunk(self, node: _Node) -> None:
        """There is a black node too few on all ways through this one."""
        while node is not self._root and not node.red:
            parent, side = node.parent, node.side
            assert parent is not None
            sister = parent.children[1 - side]
            assert sister is not None, "the other way is longer"
            if sister.red:
                sister.red, parent.red = False, True
                self._rotate(parent, side)
                sister = parent.children[1 - side]
                assert sister is not None
            outer, inner = sister.children[1 - side], sister.children[side]
            if not _is_red(outer) and not _is_red(inner):
                sister.red = True
                node = parent
                continue
            if not _is_red(outer):
                assert inner is not None
                inner.red, sister.red = False, True
                self._rotate(sister, 1 - side)
                sister, outer = inner, sister
            sister.red, parent.red = parent.red, False
            assert outer is not None
            outer.red = False
            self._rotate(parent, side)
            break
        else:
            node.red = False
            return
        assert self._root is not None
        self._root.red = False


def _is_red(node: _Node | None) -> bool:
    return node is not None and node.red


class HashTable:
    """The buckets of one map.

    Args:
        names: that it holds, in the order in which they came, no bucket having ever been crowded.
        capacity: how many buckets it has.
        spread_of: the spread hash of a name, as an unsigned number.
    """

    def __init__(self, names: Iterable[str], capacity: int, spread_of: Callable[[str], int]) -> None:
        self.capacity = capacity
        self._spread_of = spread_of
        self._size = 0
        self._buckets: dict[int, list[str] | _Tree] = {}
        for name in names:
            bucket = self._buckets.setdefault(spread_of(name) & (capacity - 1), [])
            assert isinstance(bucket, list)
            bucket.append(name)
            self._size += 1

    def add(self, name: str) -> None:
        """Put in a name that is not there."""
        index = self._spread_of(name) & (self.capacity - 1)
        bucket = self._buckets.setdefault(index, [])
        if isinstance(bucket, _Tree):
            bucket.add(name)
        else:
            bucket.append(name)
            if len(bucket) > TREE_NAMES:
                if self.capacity < TREE_CAPACITY:
                    self._double()
                else:
                    self._buckets[index] = _Tree(bucket, self._rank_of)
        self._size += 1
        if self._size * 4 > self.capacity * 3:
            self._double()

    def remove(self, name: str) -> None:
        """Take out a name that is there."""
        index = self._spread_of(name) & (self.capacity - 1)
        bucket = self._buckets[index]
        if isinstance(bucket, _Tree):
            if not bucket.remove(name):
                self._buckets[index] = bucket.names
        else:
            bucket.remove(name)
        self._size -= 1

    def __iter__(self) -> Iterator[str]:
        for index in sorted(self._buckets):
            bucket = self._buckets[index]
            yield from bucket.names if isinstance(bucket, _Tree) else bucket

    def _rank_of(self, name: str) -> tuple[int, bytes]:
        # Hashes are compared as signed numbers, names by their UTF-16 units.
        return self._spread_of(name) ^ _SIGN, name.encode("utf-16-be", "surrogatepass")

    def _double(self) -> None:
        """Twice as many buckets; what was in one is in two, in its order."""
        old, bit = self._buckets, self.capacity
        self.capacity *= 2
        self._buckets = {}
        for index, bucket in old.items():
            names = bucket.names if isinstance(bucket, _Tree) else bucket
            halves: tuple[list[str], list[str]] = ([], [])
            for name in names:
                halves[bool(self._spread_of(name) & bit)].append(name)
            for offset, half in zip((0, bit), halves, strict=True):
                if not half:
                    continue
                if not isinstance(bucket, _Tree) or len(half) <= _LIST_NAMES:
                    self._buckets[index + offset] = half
                else:  # a tree that stays whole is not made anew
                    self._buckets[index + offset] = bucket if len(half) == len(names) else _Tree(half, self._rank_of)
