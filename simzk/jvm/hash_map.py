"""Order in which Java's HashMap, HashSet and ConcurrentHashMap iterate; clients see it in getChildren (§2.6).

Rules of HashMap and HashSet:
  - a key's bucket is the low bits of its spread hash; keys of one bucket are listed in order of insertion;
  - a table starts with the capacity that its owner gives, doubles when it is more than three quarters full, and never
    shrinks;
  - hashes are computed when the order is first asked for: most sets are filled far more often than listed;
  - when a ninth name comes to a bucket, a table of fewer than 64 buckets doubles; in a larger one the bucket becomes a
    red-black tree. The tree is ordered by spread hash, as a signed number, and then by Java's order of texts; beside it
    the bucket's names are a list, which is what is iterated. A new node is listed behind its parent, and each new root
    moves to the front, so the list depends on the history of the tree. A tree that becomes too small is a list again;
  - such a set is a `HashTable` from then on. Whether a bucket was ever crowded depends also on names that were removed.
    So a set of up to `TRACKED_SIZE` names records its changes from the first removal on, and replays them when its
    order is asked for or when the record is long. In larger sets no names in use crowd a bucket;
  - a set that is emptied, and has too many buckets to double by crowding, forgets its history.

Rules of ConcurrentHashMap (Java 8 and later):
  - the table has 16 bins at first and doubles each time when three quarters of their number are reached;
  - a new entry goes to the end of its bin; when the table doubles, the last run of entries that stay together keeps its
    order, and the entries before it are put in front one by one, which reverses them;
  - when a ninth key comes to a bin, a table of fewer than 64 bins grows eightfold; in a larger one the bin becomes a
    tree, in which new keys are put in front and which is split in order. When a tree becomes a list again after
    removals depends on its shape in Java; here it does with two keys.

Source: java.util.HashMap of JDK 17 (putVal, resize, treeifyBin, TreeNode), ConcurrentHashMap (putVal, transfer);
docs/reference/zookeeper.md §2.6; docs/reference/kafka.md §4 (recorded consumers); Cormen et al., Introduction to
Algorithms (red-black trees).
"""

from __future__ import annotations

from array import array
from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from simzk.jvm.hash_codes import hash_code, spread, spread_hashes, string_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Key = TypeVar("Key")

TREE_NAMES = 8
"""Largest number of names in a bucket that is a list (TREEIFY_THRESHOLD)."""
TREE_CAPACITY = 64
"""Smallest table in which a crowded bucket becomes a tree (MIN_TREEIFY_CAPACITY)."""
TRACKED_SIZE = 1024
"""Largest set whose history of removals is recorded."""
RECORDED_CHANGES = 128
"""Longest record of changes of a small set; a larger set records twice its size."""


def clone_capacity(size: int) -> int:
    """Return the capacity of `HashSet.clone()` of `size` elements (HashMap.putMapEntries)."""
    wanted = int(size / 0.75 + 1.0)
    return 1 << (wanted - 1).bit_length()


def capacity_for(size: int, capacity: int) -> int:
    """Return the number of buckets of a set that began with `capacity` and grew to `size` elements.

    >>> capacity_for(6, 8), capacity_for(7, 8)
    (8, 16)
    """
    while size * 4 > capacity * 3:
        capacity *= 2
    return capacity


def hash_map_order(keys: Iterable[Key], capacity: int = 16, hash_of: Callable[[Key], int] = hash_code) -> list[Key]:
    """Return distinct keys, given in order of insertion, in the order in which a HashMap iterates.

    Args:
        keys: no nine of them in one bucket.
        capacity: number of buckets at first; 16 unless the map was made with another.
        hash_of: the `hashCode` of a key.

    >>> hash_map_order([16, 1, 0])
    [16, 0, 1]
    """
    inserted = list(keys)
    mask = capacity_for(len(inserted), capacity) - 1
    assert mask & (mask + 1) == 0, f"capacity {capacity} is no power of two"
    return sorted(inserted, key=lambda key: spread(hash_of(key)) & mask)


class _ChangeRecord:
    """State of a set at the first removal after it was examined, and the names added or removed from then on."""

    __slots__ = ("capacity", "limit", "names", "spreads", "unexamined")

    def __init__(self, spreads: dict[str, int | None], capacity: int, unexamined: bool) -> None:
        self.spreads = spreads
        self.capacity = capacity
        self.unexamined = unexamined
        self.limit = max(RECORDED_CHANGES, 2 * len(spreads))
        self.names: list[str] = []  # a name that was present is a removal, another one an addition


class HashOrderedSet:
    """Set of texts that iterates as a Java HashSet of the same history.

    Args:
        capacity: initial number of buckets, a power of two.

    >>> children = HashOrderedSet(8)
    >>> for name in ("quota", "config"):
    ...     children.add(name)
    >>> children.ordered()
    ['config', 'quota']
    """

    __slots__ = (
        "_buckets",
        "_capacity",
        "_examined_capacity",
        "_order",
        "_record",
        "_spreads",
        "_table",
        "_unexamined",
    )

    def __init__(self, capacity: int) -> None:
        assert capacity.bit_count() == 1, f"capacity {capacity} is no power of two"
        self._capacity = capacity
        self._spreads: dict[str, int | None] = {}
        self._order: list[str] | None = None
        self._unexamined = False  # whether a name was added since crowding was last examined
        self._examined_capacity = capacity  # the capacity at that time
        self._buckets: dict[int, int] | None = None  # number of names by bucket, if kept up to date
        self._table: HashTable | None = None
        self._record: _ChangeRecord | None = None

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
            self._unexamined = True
            if len(spreads) * 4 > self._capacity * 3:
                self._capacity *= 2
            record = self._record
            if record is not None:
                record.names.append(element)
                if len(record.names) == record.limit:
                    self._replay()

    def discard(self, element: str) -> None:
        spreads = self._spreads
        if element not in spreads:
            return
        record = self._record
        if record is None:
            if (
                self._table is not None
                or not TREE_NAMES < len(spreads) <= TRACKED_SIZE
                or not (self._unexamined or self._buckets is None)
            ):
                self._remove(element)
                return
            record = self._record = _ChangeRecord(spreads.copy(), self._capacity, self._unexamined)
        record.names.append(element)
        del spreads[element]
        self._order = None
        if not spreads and self._capacity >= TREE_CAPACITY:
            self._record = self._buckets = None
            self._examined_capacity = self._capacity
            self._unexamined = False
        elif len(record.names) == record.limit:
            self._replay()

    def _remove(self, element: str) -> None:
        """Remove a name that is present, after examining whether a bucket is crowded."""
        spreads = self._spreads
        if self._table is None and not TREE_NAMES < len(spreads) <= TRACKED_SIZE:
            self._buckets = None
        elif self._unexamined or self._buckets is None:
            self._examine()
        if self._table is not None:
            self._table.remove(element)
        elif self._buckets is not None:
            self._buckets[(spreads[element] or 0) & (self._capacity - 1)] -= 1
        del spreads[element]
        self._order = None

    def _replay(self) -> None:
        """Apply the recorded changes one by one, unless no bucket can have been crowded on the way."""
        record = self._record
        if record is None:
            return
        present, capacity = self._spreads, self._capacity
        self._record = None
        self._spreads, self._capacity, self._unexamined = record.spreads, record.capacity, record.unexamined
        self._examine()
        if self._table is None:
            # `_examine` has hashed the names that were there before.
            spreads = record.spreads | spread_hashes(
                name for name in dict.fromkeys(record.names) if name not in record.spreads
            )
            buckets = Counter(map((self._capacity - 1).__and__, spreads.values()))  # type: ignore[arg-type]
            if max(buckets.values()) <= TREE_NAMES:
                # Even all names together crowd no bucket.
                present.update(zip(present, map(spreads.__getitem__, present), strict=True))
                self._spreads, self._examined_capacity, self._capacity = present, capacity, capacity
                self._buckets = None
                return
        for element in record.names:
            if element in self._spreads:
                self._remove(element)
            else:
                self.add(element)

    @property
    def capacity(self) -> int:
        """Return the present number of buckets."""
        self._replay()
        return self._capacity

    def in_order_of_arrival(self) -> list[str]:
        """Return the elements in order of insertion, which is the order within a bucket."""
        return list(self._spreads)

    def ordered(self) -> list[str]:
        """Return the elements in Java's order. The list is the set's own: copy it before keeping or changing it."""
        if self._order is None:
            self._replay()
            self._examine()
            if self._table is not None:
                self._order = list(self._table)
            else:
                self._order = self._by_bucket(self._spreads, self._capacity)
        return self._order

    def _examine(self) -> None:
        """Examine whether the names added since the last examination crowd a bucket."""
        added = self._hash_added()
        if self._table is None and self._crowds_bucket(added):
            before = islice(self._spreads, len(self) - len(added))
            self._table = HashTable(before, self._examined_capacity, self._spread_of)
            self._buckets = None
        if self._table is not None:
            for element in added:
                self._table.add(element)
            self._capacity = self._table.capacity
        self._examined_capacity = self._capacity
        self._unexamined = False

    def _hash_added(self) -> list[str]:
        """Hash and return the names that were added since the last examination."""
        spreads, added = self._spreads, []
        for element in reversed(spreads):
            if spreads[element] is not None:
                break
            added.append(element)
        added.reverse()
        spreads.update(spread_hashes(added))
        return added

    def _crowds_bucket(self, added: list[str]) -> bool:
        """Return whether a bucket has, or on the way to the present capacity had, more than eight names."""
        if len(self) <= TREE_NAMES:
            self._buckets = None
            return False
        if self._buckets is None or self._examined_capacity != self._capacity:
            return self._ever_crowded()
        for element in added:
            bucket = self._spread_of(element) & (self._capacity - 1)
            self._buckets[bucket] = count = self._buckets.get(bucket, 0) + 1
            if count > TREE_NAMES:
                return True
        return False

    def _ever_crowded(self) -> bool:
        capacity = self._examined_capacity
        while True:
            is_last = capacity >= self._capacity
            # The most names that a set of this capacity has, including the one that makes it grow.
            within = islice(self._spreads.values(), None if is_last else capacity * 3 // 4 + 1)
            buckets = Counter(map((capacity - 1).__and__, within))  # type: ignore[arg-type]  # all are hashed
            if max(buckets.values()) > TREE_NAMES:
                return True
            if is_last:
                self._buckets = buckets if len(self) <= TRACKED_SIZE else None
                return False
            capacity *= 2

    def _spread_of(self, element: str) -> int:
        known = self._spreads[element]
        assert known is not None, "a name is hashed when its set is examined"
        return known

    def clone_ordered(self) -> list[str]:
        """Return the elements in the order of the set's `clone()`, whose capacity follows from the present size."""
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
        assert self._examined_capacity <= self._capacity
        assert self._table is None or self._buckets is None
        if self._record is None and self._buckets is not None and not self._unexamined:
            mask = self._capacity - 1
            assert +Counter(self._buckets) == Counter(self._spread_of(name) & mask for name in self._spreads)
        if self._record is not None:
            assert self._table is None, "a crowded set records no changes"
            assert self._order is None
            assert len(self._record.names) < self._record.limit
            changed = {name for name, times in Counter(self._record.names).items() if times % 2}
            assert changed ^ set(self._record.spreads) == set(self._spreads), "the record leads to the present names"
        for element, known in self._spreads.items():
            assert known == spread(string_hash(element)) if known is not None else self._unexamined
        assert self._order is None or (len(self._order) == len(self) and set(self._order) == set(self._spreads))


_LIST_NAMES = 6
_LEFT, _RIGHT = 0, 1
_SIGN = 1 << 31


class _Node:
    """Node of a tree: a name with its rank, which orders nodes, and its left and right child."""

    __slots__ = ("children", "name", "parent", "rank", "red")

    def __init__(self, name: str, rank: tuple[int, bytes]) -> None:
        self.name = name
        self.rank = rank
        self.parent: _Node | None = None
        self.children: list[_Node | None] = [None, None]
        self.red = False

    @property
    def side(self) -> int:
        """Return which child of its parent this node is."""
        assert self.parent is not None
        return _RIGHT if self.parent.children[_RIGHT] is self else _LEFT


class _Tree:
    """Bucket that is a red-black tree, and the list of its names in order of iteration."""

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
        assert len(self._nodes) == len(self.names), "each name has a node"
        self._move_root_to_front()

    def remove(self, name: str) -> bool:
        """Remove a name; return whether the bucket is still a tree (False: too small for one)."""
        self.names.remove(name)
        root = self._root
        assert root is not None
        left, right = root.children
        if left is None or right is None or left.children[_LEFT] is None:
            return False
        self._shrink(self._nodes.pop(name))
        assert len(self._nodes) == len(self.names), "each name has a node"
        self._move_root_to_front()
        return True

    def _move_root_to_front(self) -> None:
        if self._root is not None and self.names[0] != self._root.name:
            assert self._root.parent is None
            self.names.remove(self._root.name)
            self.names.insert(0, self._root.name)

    def _grow(self, name: str) -> _Node | None:
        """Insert a node for a name and return its parent before balancing."""
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
        """Rotate a node down to a side; its other child replaces it."""
        rising = node.children[1 - side]
        assert rising is not None, "a child rises"
        inner = node.children[1 - side] = rising.children[side]
        if inner is not None:
            inner.parent = node
        self._put_in_place(node, rising)
        rising.children[side], node.parent = node, rising

    def _put_in_place(self, node: _Node, other: _Node | None) -> None:
        """Put another node, or none, in the place of a node."""
        if node.parent is None:
            self._root = other
        else:
            node.parent.children[node.side] = other
        if other is not None:
            other.parent = node.parent

    def _shrink(self, node: _Node) -> None:
        left, successor = node.children
        if left is not None and successor is not None:
            # Its in-order successor, which has no left child, takes its place and its colour.
            while (before := successor.children[_LEFT]) is not None:
                successor = before
            node.name, node.rank = successor.name, successor.rank
            self._nodes[node.name] = node
            node = successor
        only = node.children[_LEFT] or node.children[_RIGHT]
        if only is None:
            # The node stands for the empty leaf while the tree is balanced, and is unlinked afterwards.
            if not node.red:
                self._balance_shrunk(node)
            self._put_in_place(node, None)
            return
        self._put_in_place(node, only)
        if not node.red:
            self._balance_shrunk(only)

    def _balance_shrunk(self, node: _Node) -> None:
        """Repair the colours after the paths through a node lost one black node."""
        while node is not self._root and not node.red:
            parent, side = node.parent, node.side
            assert parent is not None
            sibling = parent.children[1 - side]
            assert sibling is not None, "a sibling path has a black node more"
            if sibling.red:
                sibling.red, parent.red = False, True
                self._rotate(parent, side)
                sibling = parent.children[1 - side]
                assert sibling is not None
            outer, inner = sibling.children[1 - side], sibling.children[side]
            if not _is_red(outer) and not _is_red(inner):
                sibling.red = True
                node = parent
                continue
            if not _is_red(outer):
                assert inner is not None
                inner.red, sibling.red = False, True
                self._rotate(sibling, 1 - side)
                sibling, outer = inner, sibling
            sibling.red, parent.red = parent.red, False
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
    """Table with all its buckets, for a set in which a bucket was crowded.

    Args:
        names: present names in order of insertion, from a time when no bucket had ever been crowded.
        capacity: number of buckets.
        spread_of: function that returns the spread hash of a name, unsigned.
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
        """Add a name that is absent."""
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
        assert self._size * 4 <= self.capacity * 3, "a table is at most three quarters full"

    def remove(self, name: str) -> None:
        """Remove a name that is present."""
        assert self._size > 0
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
        # Java compares hashes as signed numbers, and texts by their UTF-16 units.
        return self._spread_of(name) ^ _SIGN, name.encode("utf-16-be", "surrogatepass")

    def _double(self) -> None:
        """Double the number of buckets; each is split into two, which keep its order."""
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
                else:  # resize() keeps a tree that moves whole
                    self._buckets[index + offset] = bucket if len(half) == len(names) else _Tree(half, self._rank_of)


_INITIAL_BINS: Final = 16
_HASH_BITS: Final = 0x7FFF_FFFF
_SMALL_TREE: Final = 2


class ConcurrentHashSet(Generic[Key]):
    """Set of keys that iterates as a ConcurrentHashMap of the same history, or as a set made of one.

    Args:
        hash_of: the `hashCode` of a key.

    >>> sessions = ConcurrentHashSet[int]()
    >>> for number in (17, 16, 2):
    ...     sessions.add(number)
    >>> sessions.discard(2)
    >>> list(sessions), len(sessions)
    ([16, 17], 2)
    """

    __slots__ = ("_bins", "_hash_of", "_hashes", "_trees")

    def __init__(self, hash_of: Callable[[Key], int] = hash_code) -> None:
        self._hash_of = hash_of
        self._hashes: dict[Key, int] = {}
        self._bins: list[list[Key]] = [[] for _ in range(_INITIAL_BINS)]
        self._trees: set[int] = set()  # indices of the bins that are trees

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, key: object) -> bool:
        return key in self._hashes

    def __iter__(self) -> Iterator[Key]:
        for entries in self._bins:
            yield from entries

    def add(self, key: Key) -> None:
        """Add a key, unless it is present."""
        if key in self._hashes:
            return
        hashed = self._hashes[key] = spread(self._hash_of(key)) & _HASH_BITS
        index = hashed & (len(self._bins) - 1)
        entries = self._bins[index]
        if index in self._trees:
            entries.insert(0, key)
        else:
            entries.append(key)
            if len(entries) > TREE_NAMES:
                self._grow_tree(index)
        if len(self._hashes) >= len(self._bins) * 3 // 4:
            self._double()

    def discard(self, key: Key) -> None:
        """Remove a key if it is present."""
        hashed = self._hashes.pop(key, None)
        if hashed is not None:
            index = hashed & (len(self._bins) - 1)
            self._bins[index].remove(key)
            if len(self._bins[index]) <= _SMALL_TREE:
                self._trees.discard(index)

    def reserve(self, most: int) -> None:
        """Enlarge the table as for a number of keys."""
        while most >= len(self._bins) * 3 // 4:
            self._double()

    def _grow_tree(self, index: int) -> None:
        """Make a crowded bin a tree, or enlarge a small table (treeifyBin, tryPresize)."""
        size = len(self._bins)
        if size >= TREE_CAPACITY:
            self._trees.add(index)
        else:
            while len(self._bins) * 3 // 4 < 4 * size:
                self._double()

    def _double(self) -> None:
        """Double the number of bins; each is split into two."""
        size, hashes = len(self._bins), self._hashes
        halves: tuple[list[list[Key]], ...] = ([], [])
        trees = set()
        for index, entries in enumerate(self._bins):
            is_tree = index in self._trees
            start = 0 if is_tree else _last_run([hashes[key] & size for key in entries])
            ordered = [*reversed(entries[:start]), *entries[start:]]
            for upper, half in enumerate(halves):
                half.append([key for key in ordered if bool(hashes[key] & size) == upper])
                if is_tree and len(half[-1]) > _LIST_NAMES:
                    trees.add(index + upper * size)
        self._bins = [*halves[0], *halves[1]]
        assert len(self._bins) == 2 * size
        self._trees = trees


def concurrent_order(keys: Iterable[Key], hash_of: Callable[[Key], int] = hash_code, *, most: int = 0) -> list[Key]:
    """Return keys, given in order of insertion, in the order in which a ConcurrentHashMap iterates.

    ZooKeeper keeps the identities of a connection in such a map (`ServerCnxn.authInfo`); Kafka's consumers keep the
    partitions that they own in one (`kafka.utils.Pool`), so it decides the order in which offsets are written.

    Args:
        keys: repeated ones count once.
        hash_of: the `hashCode` of a key.
        most: number of keys that the map has had at once, if it had more before: it does not shrink. Keys of one bin
            are in order of insertion then.

    >>> concurrent_order([2, 0, 1])
    [0, 1, 2]
    >>> concurrent_order([16, 15, 0])
    [16, 0, 15]
    >>> concurrent_order([16, 15, 0], most=12)
    [0, 15, 16]
    """
    made = ConcurrentHashSet(hash_of)
    made.reserve(most)
    for key in keys:
        made.add(key)
    return list(made)


def hash_set_of(keys: Iterable[str], size: int) -> HashOrderedSet:
    """Return a HashSet that was made of a collection.

    Args:
        keys: elements of the collection, in its order. Those whose order does not matter may be left out.
        size: number of elements of the collection.

    >>> hash_set_of(["quota", "config"], 2).ordered()
    ['quota', 'config']
    """
    made = HashOrderedSet(max(clone_capacity(size), _INITIAL_BINS))
    for key in keys:
        made.add(key)
    return made


def _last_run(sides: list[int]) -> int:
    """Return the index of the first entry of the last run that moves to one new bin; `sides` are the bins by entry."""
    start = len(sides)
    while start and sides[start - 1] == sides[-1]:
        start -= 1
    return start


LARGEST = 2**31 - 1


def number_of(name: str) -> int | None:
    """Return the 31-bit number that a name is, written without leading zeros, or None.

    >>> [number_of(name) for name in ("0", "17", "01", "-1", "1e3", "")]
    [0, 17, None, None, None, None]
    """
    if not (name.isascii() and name.isdigit()) or (name[0] == "0" and name != "0") or len(name) > len(str(LARGEST)):
        return None
    number = int(name)
    return number if number <= LARGEST else None


class NumberedNames(HashOrderedSet):
    """Set of names that are numbers 0, 1, 2, ..., as the children of a queue or a Kafka topic are, stored as numbers.

    It behaves as a `HashOrderedSet` of the same history, with 4 bytes or none per name: names 0 to n-1 in that order of
    insertion are a `range`, others an array in order of insertion. Any other name turns it into a plain set for good.

    Args:
        capacity: number of buckets, as of a `HashOrderedSet` of this size.
        numbers: elements in order of insertion; an array belongs to this set from here on.

    >>> names = NumberedNames(8, range(3))
    >>> names.add("3")
    >>> names.ordered(), names.numbers
    (['0', '1', '2', '3'], range(0, 4))
    """

    __slots__ = ("numbers",)

    def __init__(self, capacity: int, numbers: range | array[int]) -> None:
        super().__init__(capacity)
        self.numbers: range | array[int] | None = numbers
        """Elements in order of insertion; None once the set stores texts."""

    @classmethod
    def of(cls, names: HashOrderedSet) -> NumberedNames | None:
        """Return a copy of a set that stores numbers, or None if a name is no number."""
        numbers = array("i")
        for name in names.in_order_of_arrival():
            number = number_of(name)
            if number is None:
                return None
            numbers.append(number)
        count = len(numbers)
        if set(numbers) == set(range(count)) and tuple(names.ordered()) == _counted(count, names.capacity):
            # Only the order within buckets matters, and it is that of counting.
            return cls(names.capacity, range(count))
        return cls(names.capacity, numbers)

    def __len__(self) -> int:
        return super().__len__() if self.numbers is None else len(self.numbers)

    def __contains__(self, element: object) -> bool:
        if self.numbers is None:
            return super().__contains__(element)
        number = number_of(element) if isinstance(element, str) else None
        return number is not None and number in self.numbers

    def add(self, element: str) -> None:
        numbers = self.numbers
        number = None if numbers is None else number_of(element)
        if numbers is None or number is None:
            self._make_plain()
            super().add(element)
            return
        if number in numbers:
            return
        if isinstance(numbers, array):
            numbers.append(number)
        elif number == len(numbers):
            self.numbers = range(number + 1)
        else:
            self.numbers = array("i", [*numbers, number])
        self._order = None
        if len(self) * 4 > self._capacity * 3:
            self._capacity *= 2

    def discard(self, element: str) -> None:
        numbers = self.numbers
        if numbers is None:
            super().discard(element)
            return
        number = number_of(element)
        if number is None or number not in numbers:
            return
        if isinstance(numbers, range) and number == len(numbers) - 1:
            self.numbers = range(number)
        else:
            left = numbers if isinstance(numbers, array) else array("i", numbers)
            left.remove(number)
            self.numbers = left
        self._order = None

    def in_order_of_arrival(self) -> list[str]:
        return super().in_order_of_arrival() if self.numbers is None else list(map(str, self.numbers))

    def ordered(self) -> list[str]:
        if self.numbers is not None and self._order is None:
            if isinstance(self.numbers, range):
                self._order = list(_counted(len(self.numbers), self._capacity))
            else:
                self._order = hash_map_order(self.in_order_of_arrival(), self._capacity, string_hash)
        return super().ordered()

    def _make_plain(self) -> None:
        if self.numbers is not None:
            self._spreads = dict.fromkeys(self.in_order_of_arrival())
            self._examined_capacity = self._capacity  # numbers never crowd a bucket
            self.numbers = None

    def check(self) -> None:
        if self.numbers is None:
            super().check()
            return
        assert len(self) * 4 <= self._capacity * 3
        assert not self._spreads
        if isinstance(self.numbers, range):
            assert self.numbers == range(len(self.numbers))
        else:
            assert len(set(self.numbers)) == len(self.numbers)


@lru_cache(maxsize=32)
def _counted(count: int, capacity: int) -> tuple[str, ...]:
    """Return the names 0 to `count` - 1 in the order of a set to which they were added in that order."""
    return tuple(hash_map_order(map(str, range(count)), capacity, string_hash))
