"""Watches as ZooKeeper 3.6 to 3.8 kept them: one mode for a connection and a path, the last one asked for.

Rules of this module:
  - a table keeps one mode a watch: a new one takes the place of the old, be it longer or shorter;
  - a recursive watch stands among the child watches too, where it hears nothing but takes another's place;
  - what `RemoveWatches` asks for is a table, whatever the mode.

Before 3.6 there is only one mode, so that the two ways are one.

Source: WatchManager and WatcherModeManager of 3.6.4, DataTree.addWatch.
"""

from __future__ import annotations

from simzk.zookeeper.refused import RefusedError
from simzk.zookeeper.replies import Code
from simzk.zookeeper.watches import Mode, Watcher, WatcherType, WatchManager, WatchTable

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
