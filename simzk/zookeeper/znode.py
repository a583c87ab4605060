"""Znode: its path, its data, its ACL and the numbers of its Stat (§1.9, §2.1).

Rules of this module:
  - callers choose the error code of an invalid path;
  - characters of a path are tested as UTF-16 units, as in Java: no surrogates, so nothing outside the basic plane;
  - `cversion` is the stored one, which counts only creations of children; clients see another one (`Znode.stat`);
  - `ephemeral_owner` is a session id, or a mark of a container or TTL node (§2.3);
  - numbers are Java's: 32-bit versions and 64-bit zxids that wrap.

Source: org.apache.zookeeper.common.PathUtils, DataNode, EphemeralType.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simzk.jvm.hash_codes import signed_32
from simzk.jvm.hash_map import HashOrderedSet
from simzk.zookeeper.replies import Stat

if TYPE_CHECKING:
    from simzk.zookeeper.requests import ACL

# Compiled on first use by `re.search`: most servers never need it.
_BAD_CHARACTER = "[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]"
_BAD_CHARACTER_BUT_EDGES = "[\x00-\x1e\x80-\x9e\ud801-\uf8fe\ufff1-\ufffe\U00010000-\U0010ffff]"


CONFIG_PATH = "/zookeeper/config"
SPECIAL_PATHS = frozenset(("/", "/zookeeper", "/zookeeper/quota", CONFIG_PATH))
"""Nodes that clients cannot delete (DataTree.isSpecialPath)."""


def is_valid_name(name: str, *, edges: bool = False) -> bool:
    """Return whether `name` is a valid part of a path between slashes.

    Args:
        name: the name.
        edges: whether the first and last characters of most invalid ranges are valid (`Rules.path_edges_are_valid`).

    >>> [is_valid_name(name) for name in ("a", "...", ".", "", "a\\x00")]
    [True, True, False, False, False]
    """
    if not name or name in (".", ".."):
        return False
    # Printable ASCII is the common case, and several times cheaper to test than the search for bad characters.
    bad = _BAD_CHARACTER_BUT_EDGES if edges else _BAD_CHARACTER
    return (name.isascii() and name.isprintable()) or re.search(bad, name) is None


def is_valid_path(path: str, *, edges: bool = False) -> bool:
    """Return whether `path` is a valid path of a znode; `edges` as for `is_valid_name`.

    >>> [is_valid_path(path) for path in ("/", "/a/b", "/a/", "a", "//a", "/a/../b")]
    [True, True, False, False, False, False]
    """
    if path == "/":
        return True
    return path.startswith("/") and all(is_valid_name(name, edges=edges) for name in path[1:].split("/"))


def parent_of(path: str) -> str:
    """Return the path of the parent of a znode; "/" is its own parent.

    >>> parent_of("/a/b"), parent_of("/a")
    ('/a', '/')
    """
    assert "/" in path, f"{path!r} has no parent"
    return path[: path.rfind("/")] or "/"


class PathSet:
    """Set of paths that finds those at and above a path in one walk along its names (PathTrie).

    The walk ends at the first name that no path of the set has, so its work is bounded by the length of the path, and
    by the depth of the set: a look-up of every ancestor would hash the square of the length.

    >>> paths = PathSet()
    >>> for path in ("/", "/a/b", "/a/b/c", "/ab"):
    ...     paths.add(path)
    >>> paths.along("/a/b/d"), paths.along("/abc")
    (['/', '/a/b'], ['/'])
    >>> paths.discard("/a/b/c")
    >>> paths.along("/a/b/c")
    ['/', '/a/b']
    """

    __slots__ = ("_children", "_path")

    def __init__(self) -> None:
        self._path: str | None = None
        self._children: dict[str, PathSet] = {}

    def __bool__(self) -> bool:
        return self._path is not None or bool(self._children)

    def add(self, path: str) -> None:
        """Add a path, which begins with a slash."""
        assert path.startswith("/"), f"{path!r} has no slash at its start"
        at = self
        for name in _names(path):
            child = at._children.get(name)
            if child is None:
                child = at._children[name] = PathSet()
            at = child
        assert at._path in (None, path), "a place in the trie stands for one path"
        at._path = path

    def discard(self, path: str) -> None:
        """Remove a path if it is there."""
        way, names = [self], _names(path)
        for name in names:
            child = way[-1]._children.get(name)
            if child is None:
                return
            way.append(child)
        assert way[-1]._path in (None, path), "a place in the trie stands for one path"
        way[-1]._path = None
        for place in range(len(names) - 1, -1, -1):
            if way[place + 1]:
                break
            del way[place]._children[names[place]]

    def along(self, path: str) -> list[str]:
        """Return the paths of the set at and above a path, "/" first."""
        found = [] if self._path is None else [self._path]
        children, begin, size = self._children, 1, len(path)
        while children and begin <= size > 1:
            end = path.find("/", begin)
            if end == -1:
                end = size
            child = children.get(path[begin:end])
            if child is None:
                break
            children, begin = child._children, end + 1
            if child._path is not None:
                found.append(child._path)
        return found


def _names(path: str) -> list[str]:
    return [] if path == "/" else path.split("/")[1:]


CHILDREN_CAPACITY = 8
"""Initial capacity of a DataNode's set of children."""

CONTAINER_OWNER = -(1 << 63)
"""Stored ephemeralOwner of a container (EphemeralType.CONTAINER_EPHEMERAL_OWNER)."""

MIN_INT32, MAX_INT32 = -(1 << 31), (1 << 31) - 1
MAX_TTL_MS = (1 << 40) - 1
_TTL_MASK = 0xFF << 56


def ttl_owner(ttl_ms: int) -> int:
    """Return the stored ephemeralOwner of a TTL node: the top byte set, the TTL in the lower 40 bits."""
    assert 0 < ttl_ms <= MAX_TTL_MS
    return (_TTL_MASK | ttl_ms) - (1 << 64)


def ttl_of(owner: int) -> int | None:
    """Return the TTL in ms in a stored ephemeralOwner, or None if the node is no TTL node."""
    if owner >= 0 or owner == CONTAINER_OWNER or (owner & _TTL_MASK) != _TTL_MASK:
        return None
    return owner & MAX_TTL_MS


def has_unknown_type(owner: int) -> bool:
    """Return whether a stored ephemeralOwner is of an extended type that no release has (EphemeralType.get).

    >>> has_unknown_type(ttl_owner(5)), has_unknown_type(-1), has_unknown_type(CONTAINER_OWNER), has_unknown_type(7)
    (False, True, False, False)
    """
    return owner & _TTL_MASK == _TTL_MASK and owner & ((1 << 56) - 1) > MAX_TTL_MS


def is_session(owner: int) -> bool:
    """Return whether a stored ephemeralOwner is a session id, so that the node is ephemeral."""
    return owner != 0 and owner != CONTAINER_OWNER and ttl_of(owner) is None


class Znode:
    """Node of a `DataTree`; only the tree changes it."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "ctime_ms",
        "cversion",
        "czxid",
        "data",
        "ephemeral_owner",
        "mtime_ms",
        "mzxid",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, acl: tuple[ACL, ...], ephemeral_owner: int, zxid: int, time_ms: int) -> None:
        self.data: bytes | None = data
        self.acl: tuple[ACL, ...] = acl
        self.ephemeral_owner: int = ephemeral_owner
        self.czxid: int = zxid
        self.mzxid: int = zxid
        self.pzxid: int = zxid
        self.ctime_ms: int = time_ms
        self.mtime_ms: int = time_ms
        self.version: int = 0
        self.cversion: int = 0
        self.aversion: int = 0
        self.children: HashOrderedSet | None = None

    @property
    def child_count(self) -> int:
        """Return the number of children."""
        return 0 if self.children is None else len(self.children)

    def child_names(self) -> list[str]:
        """Return the names of the children in the real server's order, as a new list."""
        return [] if self.children is None else list(self.children.ordered())

    def add_child(self, name: str) -> None:
        """Add the name of a child."""
        if self.children is None:
            self.children = HashOrderedSet(CHILDREN_CAPACITY)
        self.children.add(name)

    def stat(self) -> Stat:
        """Return the Stat as clients see it; its cversion counts creations and deletions (DataNode.copyStat)."""
        data, children, owner = self.data, self.children, self.ephemeral_owner
        child_count = 0 if children is None else len(children)
        # Most replies have a Stat: `tuple.__new__` saves the call of the NamedTuple's constructor.
        return tuple.__new__(
            Stat,
            (
                self.czxid,
                self.mzxid,
                self.ctime_ms,
                self.mtime_ms,
                self.version,
                signed_32(self.cversion * 2 - child_count) if child_count or self.cversion else 0,
                self.aversion,
                owner if owner == 0 or is_session(owner) else 0,
                0 if data is None else len(data),
                child_count,
                self.pzxid,
            ),
        )
