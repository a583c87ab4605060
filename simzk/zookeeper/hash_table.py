"""Java's HashMap with all its buckets, for sets in which more than eight names share one (§2.6).

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

from typing import TYPE_CHECKING

from simzk.zookeeper.hash_order import TREE_CAPACITY, TREE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
