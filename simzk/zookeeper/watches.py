"""Which connections watch which paths, and whom a change tells (§3).

Rules of this module:
  - two tables: `data` (getData, exists, persistent, recursive) and `child` (getChildren, persistent);
  - a watch is (path, watcher, modes); the same mode set twice is one watch; standard mode is used up by its event;
  - a watcher gets one event for a change of a path, however many watches it has on it;
  - watchers are told in the order in which they first watched; the real server has no order among them.

Source: org.apache.zookeeper.server.watch.WatchManager.

Watches as ZooKeeper 3.6 to 3.8 kept them: one mode for a connection and a path, the last one asked for.

Rules of this module:
  - a table keeps one mode a watch: a new one takes the place of the old, be it longer or shorter;
  - a recursive watch stands among the child watches too, where it hears nothing but takes another's place;
  - what `RemoveWatches` asks for is a table, whatever the mode.

Before 3.6 there is only one mode, so that the two ways are one.

Source: WatchManager and WatcherModeManager of 3.6.4, DataTree.addWatch.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from simzk.zookeeper.paths import ancestors_of
from simzk.zookeeper.replies import Code, EventType, RefusedError, WatchedEvent
from simzk.zookeeper.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.tree import Change

Watcher = TypeVar("Watcher")


class Mode(IntFlag):
    """How long a watch lasts and how far it sees."""

    STANDARD = 1
    PERSISTENT = 2
    RECURSIVE = 4


# Flags of an enumeration are worked with in Python, numbers by the processor: what is kept and asked is a number.
_STANDARD, _RECURSIVE = int(Mode.STANDARD), int(Mode.RECURSIVE)


class WatcherType(IntEnum):
    """What `RemoveWatches` and `CheckWatches` may ask for (Watcher.WatcherType)."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class WatchTable(Generic[Watcher]):
    """Paths to watchers with their modes, and back."""

    __slots__ = ("_by_watcher", "_depths", "_recursive", "by_path")

    def __init__(self) -> None:
        self.by_path: dict[str | None, dict[Watcher, int]] = {}
        self._by_watcher: dict[Watcher, dict[str | None, int]] = {}
        self._depths: dict[int, int] = {}
        self._recursive = 0

    def __bool__(self) -> bool:
        return bool(self.by_path)

    def __len__(self) -> int:
        """The number of watches."""
        return sum(map(len, self.by_path.values()))

    @property
    def has_recursive(self) -> bool:
        """Whether anybody watches a whole subtree."""
        return self._recursive > 0

    def add(self, path: str | None, watcher: Watcher, mode: int) -> None:
        watchers = self.by_path.get(path)
        if watchers is None:
            watchers = self.by_path[path] = {}
            self._count(path, 1)
        self._by_watcher.setdefault(watcher, {})
        old = watchers.get(watcher, 0)
        self._set(path, watcher, old, old | int(mode))

    def contains(self, path: str | None, watcher: Watcher, mode: int) -> bool:
        """Whether the watcher has a watch of one of the modes on the path."""
        return bool(self.by_path.get(path, {}).get(watcher, 0) & int(mode))

    def lacking(self, paths: Iterable[str], watcher: Watcher, mode: int) -> list[str]:
        """Those of many paths on which the watcher has no watch of the modes."""
        held, mode = self._by_watcher.get(watcher, {}), int(mode)
        return [path for path in paths if not held.get(path, 0) & mode]

    def remove(self, path: str | None, watcher: Watcher, mode: int) -> bool:
        """Drop the modes of one watch; whether there was anything to drop."""
        old = self.by_path.get(path, {}).get(watcher, 0)
        mode = int(mode)
        if old & mode:
            self._set(path, watcher, old, old & ~mode)
        return bool(old & mode)

    def forget(self, watcher: Watcher) -> None:
        """Drop all that a watcher watches."""
        for path, modes in list(self._by_watcher.get(watcher, {}).items()):
            self._set(path, watcher, modes, 0)

    def trigger(self, path: str) -> dict[Watcher, None]:
        """Who watches `path` at this moment, or above it recursively; standard watches of it are used up."""
        told: dict[Watcher, None] = {}
        for watcher, modes in list(self.by_path.get(path, {}).items()):
            told[watcher] = None
            if modes & _STANDARD:
                self._set(path, watcher, modes, modes & ~_STANDARD)
        if self._recursive:
            for ancestor in ancestors_of(path):
                for watcher, modes in self.by_path.get(ancestor, {}).items():
                    if modes & _RECURSIVE:
                        told[watcher] = None
        return told

    def entries(self) -> Iterator[tuple[str | None, Watcher, Mode]]:
        """All watches."""
        for path, watchers in self.by_path.items():
            for watcher, modes in watchers.items():
                yield path, watcher, Mode(modes)

    def _set(self, path: str | None, watcher: Watcher, old: int, new: int) -> None:
        if (new ^ old) & _RECURSIVE:
            self._recursive += 1 if new & _RECURSIVE else -1
        if new:
            self.by_path[path][watcher] = self._by_watcher[watcher][path] = new
            return
        del self.by_path[path][watcher]
        del self._by_watcher[watcher][path]
        if not self.by_path[path]:
            del self.by_path[path]
            self._count(path, -1)
        if not self._by_watcher[watcher]:
            del self._by_watcher[watcher]

    def _count(self, path: str | None, change: int) -> None:
        depth = 0 if path is None else path.count("/")
        self._depths[depth] = self._depths.get(depth, 0) + change

    def has_depth(self, depth: int) -> bool:
        """Whether anybody watches a path of so many names."""
        return self._depths.get(depth, 0) > 0

    def check(self) -> None:
        """Assert all invariants of the structure."""
        assert all(
            count == sum((path or "").count("/") == depth for path in self.by_path)
            for depth, count in self._depths.items()
        )
        forward = {(path, watcher, int(modes)) for path, watcher, modes in self.entries()}
        backward = {
            (path, watcher, modes) for watcher, held in self._by_watcher.items() for path, modes in held.items()
        }
        assert forward == backward
        assert len(self) == len(forward)
        assert all(modes for _, _, modes in self.entries())
        assert all(self.by_path.values())
        assert all(self._by_watcher.values())
        assert self._recursive == sum(bool(modes & Mode.RECURSIVE) for _, _, modes in self.entries())


class Notice(NamedTuple, Generic[Watcher]):
    """An event for a watcher, and the ACL by which the watcher must be able to read to be told."""

    watcher: Watcher
    event: WatchedEvent
    acl: tuple[ACL, ...]


_EVERY_MODE = int(Mode.STANDARD | Mode.PERSISTENT | Mode.RECURSIVE)


class WatchManager(Generic[Watcher]):
    """All watches of one server."""

    __slots__ = ("child", "data", "triggered")

    def __init__(self) -> None:
        self.data: WatchTable[Watcher] = WatchTable()
        self.child: WatchTable[Watcher] = WatchTable()
        # By kind of event, how many watchers a change had, where it had any (WatchManager.triggerWatch).
        self.triggered: dict[EventType, Summary] = {}

    def add_persistent(self, path: str | None, watcher: Watcher, *, recursive: bool) -> None:
        """What `AddWatch` asks for. A recursive watch sees children by their own changes: it is in one table only."""
        self.data.add(path, watcher, Mode.RECURSIVE if recursive else Mode.PERSISTENT)
        if not recursive:
            self.child.add(path, watcher, Mode.PERSISTENT)

    def contains(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        return any(table.contains(path, watcher, modes) for table, modes in self._sought(kind))

    def remove(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        """Drop what `RemoveWatches` asks for; whether there was any. No event is sent (§3)."""
        removed = [table.remove(path, watcher, modes) for table, modes in self._sought(kind)]
        return any(removed)

    def _sought(self, kind: WatcherType) -> tuple[tuple[WatchTable[Watcher], int], ...]:
        child, data = self.child, self.data
        return {
            WatcherType.CHILDREN: ((child, int(Mode.STANDARD)),),
            WatcherType.DATA: ((data, int(Mode.STANDARD)),),
            WatcherType.ANY: ((child, _EVERY_MODE), (data, _EVERY_MODE)),
            WatcherType.PERSISTENT: ((child, int(Mode.PERSISTENT)), (data, int(Mode.PERSISTENT))),
            WatcherType.PERSISTENT_RECURSIVE: ((data, int(Mode.RECURSIVE)),),
        }[kind]

    def forget(self, watcher: Watcher) -> None:
        """Drop all that a watcher watches, for its connection is gone."""
        self.data.forget(watcher)
        self.child.forget(watcher)

    def fire(self, change: Change, zxid: int) -> list[Notice[Watcher]]:
        """Whom a change of the tree tells what, in order: the node's data watches, its child watches, its parent's."""
        notices: list[Notice[Watcher]] = []
        kind, path, acl, parent_path, parent_acl = change
        event = WatchedEvent(kind, path, zxid)
        told = self.data.trigger(path) if self.data else {}
        notices.extend(Notice(watcher, event, acl) for watcher in told)
        if told:
            self._count(kind, len(told))
        if not self.child or kind == EventType.NODE_DATA_CHANGED:
            return notices
        if kind == EventType.NODE_DELETED:
            gone = self.child.trigger(path)
            notices.extend(Notice(watcher, event, acl) for watcher in gone if watcher not in told)
            if gone:
                self._count(kind, len(gone))
        parent_event = WatchedEvent(EventType.NODE_CHILDREN_CHANGED, parent_path, zxid)
        above = self.child.trigger(parent_path)
        notices.extend(Notice(watcher, parent_event, parent_acl) for watcher in above)
        if above:
            self._count(EventType.NODE_CHILDREN_CHANGED, len(above))
        return notices

    def _count(self, kind: EventType, watchers: int) -> None:
        if kind not in self.triggered:
            self.triggered[kind] = Summary()
        self.triggered[kind].note(watchers)

    def check(self) -> None:
        """Assert all invariants of both tables."""
        self.data.check()
        self.child.check()
        assert not any(modes & Mode.RECURSIVE for _, _, modes in self.child.entries())


_DEAF = 8
"""The mode of a recursive watch among the child watches."""

_ANY_MODE = int(Mode.STANDARD | Mode.PERSISTENT | Mode.RECURSIVE) | _DEAF


class OldWatchTable(WatchTable[Watcher]):
    """Paths to watchers with one mode each."""

    __slots__ = ()

    def add(self, path: str | None, watcher: Watcher, mode: int) -> None:
        self.remove(path, watcher, _ANY_MODE & ~mode)
        super().add(path, watcher, mode)

    def trigger(self, path: str) -> dict[Watcher, None]:
        deaf = [watcher for watcher, mode in self.by_path.get(path, {}).items() if mode == _DEAF]
        told = super().trigger(path)
        for watcher in deaf:
            del told[watcher]
        return told


class OldWatchManager(WatchManager[Watcher]):
    """All watches of one server of a release before 3.9."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.data = OldWatchTable()
        self.child = OldWatchTable()

    def add_persistent(self, path: str | None, watcher: Watcher, *, recursive: bool) -> None:
        self.data.add(path, watcher, Mode.RECURSIVE if recursive else Mode.PERSISTENT)
        self.child.add(path, watcher, _DEAF if recursive else Mode.PERSISTENT)

    def _sought(self, kind: WatcherType) -> tuple[tuple[WatchTable[Watcher], int], ...]:
        tables = {
            WatcherType.CHILDREN: ((self.child, _ANY_MODE),),
            WatcherType.DATA: ((self.data, _ANY_MODE),),
            WatcherType.ANY: ((self.child, _ANY_MODE), (self.data, _ANY_MODE)),
        }
        if kind not in tables:
            raise RefusedError(Code.MARSHALLING_ERROR)
        return tables[kind]
