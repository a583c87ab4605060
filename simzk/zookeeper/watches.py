"""Watches: which connections watch which paths, and the events of a change (§3).

Rules of this module:
  - two tables: `data` (getData, exists, persistent, recursive) and `child` (getChildren, persistent);
  - a watch is a path, a watcher and modes; setting a mode twice is one watch; an event removes the standard mode;
  - a watcher gets one event for a change of a path, however many watches it has on it;
  - watchers are notified in the order in which they first watched; the real server defines no order.

Rules of 3.6 to 3.8 (`OldWatchManager`; before 3.6 there is one mode, so both ways are the same):
  - a watch has one mode; a new mode replaces the old one, shorter or longer;
  - a recursive watch is in the child table too: there it replaces another watch and gets the deletions of the subtree,
    which the one in the data table hides as long as it is there;
  - the type in `RemoveWatches` is a table, whatever the mode; `CheckWatches` finds the watches of every connection.

Source: org.apache.zookeeper.server.watch.WatchManager; WatchManager and WatcherModeManager of 3.6.4, DataTree.addWatch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar

from simzk.jvm.hash_codes import string_hash
from simzk.jvm.hash_map import capacity_for, hash_map_order
from simzk.zookeeper.replies import Code, EventType, RefusedError, WatchedEvent
from simzk.zookeeper.znode import PathSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.tree import Change

Watcher = TypeVar("Watcher")


class Mode(IntFlag):
    """Mode of a watch: until its first event, persistent, or persistent on the whole subtree."""

    STANDARD = 1
    PERSISTENT = 2
    RECURSIVE = 4


# Modes are stored as ints: operators of IntFlag run in Python and are slow.
_STANDARD, _RECURSIVE = int(Mode.STANDARD), int(Mode.RECURSIVE)
_CHILDREN_CHANGED = EventType.NODE_CHILDREN_CHANGED


class WatcherType(IntEnum):
    """Type of watches in `RemoveWatches` and `CheckWatches` (Watcher.WatcherType)."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class WatchTable(Generic[Watcher]):
    """Watches by path and by watcher, with their modes.

    A watcher stays in the table when its last watch has had its event, as in the real server.
    """

    __slots__ = ("_by_watcher", "_depths", "_peak", "_peaks", "_recursive", "_recursive_paths", "by_path")
    _drops_idle_watchers: ClassVar[bool] = True  # when their last watch was removed by request

    def __init__(self) -> None:
        self.by_path: dict[str | None, dict[Watcher, int]] = {}
        # The largest numbers of paths so far, of all watchers and of each, decide the capacities of the server's maps.
        self._peak = 0
        self._peaks: dict[Watcher, int] = {}
        self._by_watcher: dict[Watcher, dict[str | None, int]] = {}
        self._depths: dict[int, int] = {}
        self._recursive: Counter[str | None] = Counter()
        # Those of them that may be above a node: paths of watches are not validated.
        self._recursive_paths = PathSet()

    def __bool__(self) -> bool:
        return bool(self.by_path)

    def __len__(self) -> int:
        """Return the number of watches."""
        return sum(map(len, self.by_path.values()))

    @property
    def has_recursive(self) -> bool:
        """Return whether there is a recursive watch."""
        return bool(self._recursive)

    def add(self, path: str | None, watcher: Watcher, mode: int) -> None:
        """Add a mode to the watch of a watcher on a path."""
        watchers = self.by_path.get(path)
        if watchers is None:
            watchers = self.by_path[path] = {}
            self._count(path, 1)
            if len(self.by_path) > self._peak:
                self._peak = len(self.by_path)
        paths = self._by_watcher.get(watcher)
        if paths is None:
            paths = self._by_watcher[watcher] = {}
            self._peaks[watcher] = 0
        old = watchers.get(watcher, 0)
        self._set(path, watcher, old, old | int(mode))
        if len(paths) > self._peaks[watcher]:
            self._peaks[watcher] = len(paths)

    def contains(self, path: str | None, watcher: Watcher, mode: int) -> bool:
        """Return whether a watcher has a watch with one of the modes on a path."""
        return bool(self.by_path.get(path, {}).get(watcher, 0) & int(mode))

    def lacking(self, paths: Iterable[str], watcher: Watcher, mode: int) -> list[str]:
        """Return the paths on which a watcher has no watch with one of the modes."""
        modes: Mapping[str | None, int] = self._by_watcher.get(watcher, {})
        mode = int(mode)
        return [path for path in paths if not modes.get(path, 0) & mode]

    def remove(self, path: str | None, watcher: Watcher, mode: int) -> bool:
        """Remove modes of a watch; return whether it had one of them."""
        old = self.by_path.get(path, {}).get(watcher, 0)
        mode = int(mode)
        if old & mode:
            self._set(path, watcher, old, old & ~mode)
            if not self._by_watcher[watcher] and self._drops_idle_watchers:
                del self._by_watcher[watcher], self._peaks[watcher]
        assert not self.contains(path, watcher, mode), "a removed watch gets no event"
        return bool(old & mode)

    def forget(self, watcher: Watcher) -> None:
        """Remove all watches of a watcher."""
        for path, modes in list(self._by_watcher.get(watcher, {}).items()):
            self._set(path, watcher, modes, 0)
        left = self._by_watcher.pop(watcher, None)
        self._peaks.pop(watcher, None)
        assert not left, f"{watcher} is forgotten and has watches"

    def trigger(self, path: str, kind: EventType) -> dict[Watcher, None]:
        """Return the watchers of an event, recursive ones above included; remove the standard watches of its path.

        A change of children is no event for a recursive watch, which gets the changes of the children themselves.
        """
        notified: dict[Watcher, None] = {}
        for watcher, modes in list(self.by_path.get(path, {}).items()):
            if modes != _RECURSIVE or kind is not _CHILDREN_CHANGED:
                notified[watcher] = None
            if modes & _STANDARD:
                self._set(path, watcher, modes, modes & ~_STANDARD)
        if self._recursive and kind is not _CHILDREN_CHANGED:
            for ancestor in reversed(self._recursive_paths.along(path)):
                for watcher, modes in self.by_path.get(ancestor, {}).items():
                    if modes & _RECURSIVE:
                        notified[watcher] = None
        return notified

    def entries(self) -> Iterator[tuple[str | None, Watcher, Mode]]:
        """Yield all watches."""
        for path, watchers in self.by_path.items():
            for watcher, modes in watchers.items():
                yield path, watcher, Mode(modes)

    def modes_of(self, watcher: Watcher) -> dict[str | None, Mode]:
        """Return the modes of a watcher's watches by path, in order of their first watch."""
        return {path: Mode(modes) for path, modes in self._by_watcher.get(watcher, {}).items()}

    def ordered_paths(self) -> list[str | None]:
        """Return the watched paths in the order of the real server's HashMap."""
        return _in_map_order(self.by_path, self._peak)

    def watchers(self) -> Iterator[tuple[Watcher, list[str | None]]]:
        """Yield each watcher with its paths in the order of the real server's HashMap; it may have none left.

        The order of the watchers is that of their first watches. The real server's is that of identity hashes.
        """
        for watcher, paths in self._by_watcher.items():
            yield watcher, _in_map_order(paths, self._peaks[watcher])

    def _set(self, path: str | None, watcher: Watcher, old: int, new: int) -> None:
        assert self.by_path[path].get(watcher, 0) == old
        if (new ^ old) & _RECURSIVE:
            self._count_recursive(path, 1 if new & _RECURSIVE else -1)
        if new:
            self.by_path[path][watcher] = self._by_watcher[watcher][path] = new
            return
        del self.by_path[path][watcher]
        del self._by_watcher[watcher][path]
        if not self.by_path[path]:
            del self.by_path[path]
            self._count(path, -1)

    def _count_recursive(self, path: str | None, change: int) -> None:
        count = self._recursive[path] = self._recursive[path] + change
        assert count >= 0
        if not count:
            del self._recursive[path]
        if path is not None and path.startswith("/"):
            if count:
                self._recursive_paths.add(path)
            else:
                self._recursive_paths.discard(path)

    def _count(self, path: str | None, change: int) -> None:
        depth = 0 if path is None else path.count("/")
        self._depths[depth] = self._depths.get(depth, 0) + change
        assert self._depths[depth] >= 0

    def has_depth(self, depth: int) -> bool:
        """Return whether there is a watch on a path with `depth` names."""
        return self._depths.get(depth, 0) > 0

    def check(self) -> None:
        """Assert all invariants of the structure."""
        assert all(
            count == sum((path or "").count("/") == depth for path in self.by_path)
            for depth, count in self._depths.items()
        )
        forward = {(path, watcher, int(modes)) for path, watcher, modes in self.entries()}
        backward = {
            (path, watcher, modes) for watcher, paths in self._by_watcher.items() for path, modes in paths.items()
        }
        assert forward == backward
        assert len(self) == len(forward)
        assert all(modes for _, _, modes in self.entries())
        assert all(self.by_path.values())
        assert len(self.by_path) <= self._peak or not self.by_path
        assert self._peaks.keys() == self._by_watcher.keys()
        assert all(len(paths) <= self._peaks[watcher] for watcher, paths in self._by_watcher.items())
        recursive = Counter(path for path, _, modes in self.entries() if modes & Mode.RECURSIVE)
        assert self._recursive == recursive
        for path in recursive:
            assert path is None or not path.startswith("/") or path in self._recursive_paths.along(path)
        assert bool(self._recursive_paths) == any(path is not None and path.startswith("/") for path in recursive)


def _in_map_order(paths: Collection[str | None], peak: int) -> list[str | None]:
    """Return keys of a HashMap that had at most `peak` of them, given in order of insertion."""
    assert len(paths) <= peak
    return hash_map_order(paths, capacity_for(peak, 16), lambda path: 0 if path is None else string_hash(path))


class Notice(NamedTuple, Generic[Watcher]):
    """Event for a watcher, and the ACL that must give the watcher READ."""

    watcher: Watcher
    event: WatchedEvent
    acl: tuple[ACL, ...]


_EVERY_MODE = int(Mode.STANDARD | Mode.PERSISTENT | Mode.RECURSIVE)


class WatchManager(Generic[Watcher]):
    """Watches of one server."""

    __slots__ = ("child", "data", "triggered")

    def __init__(self) -> None:
        self.data: WatchTable[Watcher] = WatchTable()
        self.child: WatchTable[Watcher] = WatchTable()
        # Number of watchers per change by type of event, for changes with watchers (WatchManager.triggerWatch).
        self.triggered: defaultdict[EventType, Counter[int]] = defaultdict(Counter)

    def add_persistent(self, path: str | None, watcher: Watcher, *, recursive: bool) -> None:
        """Add a watch of `AddWatch`. A recursive one is only in the data table: it sees the children's own changes."""
        self.data.add(path, watcher, Mode.RECURSIVE if recursive else Mode.PERSISTENT)
        if not recursive:
            self.child.add(path, watcher, Mode.PERSISTENT)
        assert not self.child.has_recursive, "a recursive watch sees the children's own changes"

    def contains(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        """Return whether a watcher has a watch of a type on a path."""
        return any(table.contains(path, watcher, modes) for table, modes in self._tables_of(kind))

    def remove(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        """Remove the watches of a type; return whether there were any. No event is sent (§3)."""
        removed = [table.remove(path, watcher, modes) for table, modes in self._tables_of(kind)]
        return any(removed)

    def _tables_of(self, kind: WatcherType) -> tuple[tuple[WatchTable[Watcher], int], ...]:
        child, data = self.child, self.data
        return {
            WatcherType.CHILDREN: ((child, int(Mode.STANDARD)),),
            WatcherType.DATA: ((data, int(Mode.STANDARD)),),
            WatcherType.ANY: ((child, _EVERY_MODE), (data, _EVERY_MODE)),
            WatcherType.PERSISTENT: ((child, int(Mode.PERSISTENT)), (data, int(Mode.PERSISTENT))),
            WatcherType.PERSISTENT_RECURSIVE: ((data, int(Mode.RECURSIVE)),),
        }[kind]

    def forget(self, watcher: Watcher) -> None:
        """Remove all watches of a closed connection."""
        self.data.forget(watcher)
        self.child.forget(watcher)

    def fire(self, change: Change, zxid: int) -> list[Notice[Watcher]]:
        """Fire the watches of a change: the node's data watches, its child watches, its parent's child watches."""
        notices: list[Notice[Watcher]] = []
        kind, path, acl, parent_path, parent_acl = change
        event = WatchedEvent(kind, path, zxid)
        notified = self.data.trigger(path, kind) if self.data else {}
        notices.extend(Notice(watcher, event, acl) for watcher in notified)
        if notified:
            self.triggered[kind][len(notified)] += 1
        if not self.child or kind == EventType.NODE_DATA_CHANGED:
            return notices
        if kind == EventType.NODE_DELETED:
            gone = self.child.trigger(path, kind)
            notices.extend(Notice(watcher, event, acl) for watcher in gone if watcher not in notified)
            if gone:
                self.triggered[kind][len(gone)] += 1
        assert parent_path, "what is created or deleted has a parent"
        parent_event = WatchedEvent(_CHILDREN_CHANGED, parent_path, zxid)
        above = self.child.trigger(parent_path, _CHILDREN_CHANGED)
        notices.extend(Notice(watcher, parent_event, parent_acl) for watcher in above)
        if above:
            self.triggered[EventType.NODE_CHILDREN_CHANGED][len(above)] += 1
        return notices

    def check(self) -> None:
        """Assert all invariants of both tables."""
        self.data.check()
        self.child.check()
        assert not any(modes & Mode.RECURSIVE for _, _, modes in self.child.entries())


class OldWatchTable(WatchTable[Watcher]):
    """Watches with one mode each."""

    __slots__ = ()
    _drops_idle_watchers = False

    def add(self, path: str | None, watcher: Watcher, mode: int) -> None:
        """Set the mode of the watch of a watcher on a path."""
        old = self.by_path.get(path, {}).get(watcher, 0)
        if old:
            self._set(path, watcher, old, int(mode))
        else:
            super().add(path, watcher, mode)
        assert self.by_path[path][watcher] == int(mode), "a watch has one mode"


class OldWatchManager(WatchManager[Watcher]):
    """Watches of a server of a release before 3.9.

    Args:
        checks_all: whether `contains` finds the watches of every watcher (3.6.0).
    """

    __slots__ = ("_checks_all",)

    def __init__(self, *, checks_all: bool) -> None:
        super().__init__()
        self.data = OldWatchTable()
        self.child = OldWatchTable()
        self._checks_all = checks_all

    def add_persistent(self, path: str | None, watcher: Watcher, *, recursive: bool) -> None:
        """Add a watch of `AddWatch` to both tables."""
        for table in (self.data, self.child):
            table.add(path, watcher, Mode.RECURSIVE if recursive else Mode.PERSISTENT)

    def contains(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        """Return whether a watcher has a watch of a type on a path, or any watcher if `checks_all`."""
        if self._checks_all:
            return any(self._is_watched(path, table) for table, _ in self._tables_of(kind))
        return super().contains(path, watcher, kind)

    @staticmethod
    def _is_watched(path: str | None, table: WatchTable[Watcher]) -> bool:
        """Return whether anybody watches a path (WatchManager.containsWatcher, PathParentIterator).

        The real server goes from the path to its parents, if there are recursive watches to be found, and fails on the
        parent of a path without a slash. It has cut off the first parent before it looks for the path itself.
        """
        if path == "":
            return False
        if path is None or "/" not in path:
            raise RefusedError(Code.MARSHALLING_ERROR)
        if path not in table.by_path and table.has_recursive and not path.startswith("/"):
            raise RefusedError(Code.MARSHALLING_ERROR)
        return path in table.by_path

    def _tables_of(self, kind: WatcherType) -> tuple[tuple[WatchTable[Watcher], int], ...]:
        tables = {
            WatcherType.CHILDREN: ((self.child, _EVERY_MODE),),
            WatcherType.DATA: ((self.data, _EVERY_MODE),),
            WatcherType.ANY: ((self.child, _EVERY_MODE), (self.data, _EVERY_MODE)),
        }
        if kind not in tables:
            raise RefusedError(Code.MARSHALLING_ERROR)
        return tables[kind]

    def check(self) -> None:
        """Assert all invariants of both tables."""
        self.data.check()
        self.child.check()
