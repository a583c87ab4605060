"""Any watches and changes beside a model of the real server's two tables, one entry per path, watcher and mode."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.jvm.hash_codes import string_hash
from simzk.jvm.hash_map import hash_map_order
from simzk.zookeeper.replies import EventType
from simzk.zookeeper.tree import Change
from simzk.zookeeper.watches import Mode, OldWatchManager, WatcherType, WatchManager

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS = ("/a", "/a/b", "/a/b/c", "/a/bc", "/d", "/", *(f"/many/{number}" for number in range(14)))
WATCHERS = ("x", "y", "z")
S, P, R = Mode.STANDARD, Mode.PERSISTENT, Mode.RECURSIVE
EVERY = (S, P, R)
OF_TYPE = {
    WatcherType.CHILDREN: (("child",), (S,)),
    WatcherType.DATA: (("data",), (S,)),
    WatcherType.ANY: (("data", "child"), EVERY),
    WatcherType.PERSISTENT: (("data", "child"), (P,)),
    WatcherType.PERSISTENT_RECURSIVE: (("data",), (R,)),
}
CHANGES = (EventType.NODE_CREATED, EventType.NODE_DELETED, EventType.NODE_DATA_CHANGED)


class Model:
    """Modes by table, path and watcher (WatchManager and WatchStats of 3.9, WatcherModeManager before).

    Args:
        has_one_mode: whether a new mode replaces the old one, and recursive watches are in both tables (before 3.9).
    """

    def __init__(self, *, has_one_mode: bool) -> None:
        self.has_one_mode = has_one_mode
        self.modes: dict[str, dict[str, dict[str, set[Mode]]]] = {"data": {}, "child": {}}
        self.capacities: Counter[str] = Counter({"data": 16, "child": 16})
        self.counted: Counter[tuple[EventType, int]] = Counter()

    def add(self, table: str, path: str, watcher: str, mode: Mode) -> None:
        modes = self.modes[table].setdefault(path, {}).setdefault(watcher, set())
        if self.has_one_mode:
            modes.clear()
        modes.add(mode)
        while len(self.modes[table]) * 4 > self.capacities[table] * 3:
            self.capacities[table] *= 2

    def add_persistent(self, path: str, watcher: str, *, recursive: bool) -> None:
        """Follow DataTree.addWatch."""
        for table in ("data", "child"):
            if table == "data" or not recursive or self.has_one_mode:
                self.add(table, path, watcher, R if recursive else P)

    def of_type(self, path: str, watcher: str, kind: WatcherType) -> Iterator[tuple[str, Mode]]:
        """Yield the watches that a type means (DataTree.removeWatch)."""
        tables, modes = OF_TYPE[kind]
        for table in tables:
            for mode in self.modes[table].get(path, {}).get(watcher, set()):
                if mode in (EVERY if self.has_one_mode else modes):
                    yield table, mode

    def discard(self, table: str, path: str, watcher: str, mode: Mode) -> None:
        modes = self.modes[table][path]
        modes[watcher].discard(mode)
        if not modes[watcher]:
            del modes[watcher]
        if not modes:
            del self.modes[table][path]

    def trigger(self, table: str, path: str, kind: EventType) -> set[str]:
        """Follow triggerWatch, with PathParentIterator."""
        found = set()
        at = path
        while True:
            for watcher, modes in list(self.modes[table].get(at, {}).items()):
                if R in modes and kind != EventType.NODE_CHILDREN_CHANGED:
                    found.add(watcher)
                if at == path and modes & {S, P}:
                    found.add(watcher)
                    if S in modes:
                        self.discard(table, at, watcher, S)
            if at == "/":
                break
            at = at.rpartition("/")[0] or "/"
        if found:
            self.counted[kind, len(found)] += 1
        return found

    def fire(self, kind: EventType, path: str) -> set[tuple[str, EventType, str]]:
        """Follow DataTree.createNode, deleteNode and setData."""
        found = self.trigger("data", path, kind)
        if kind == EventType.NODE_DELETED:
            found = found | self.trigger("child", path, kind)
        events = {(watcher, kind, path) for watcher in found}
        if kind != EventType.NODE_DATA_CHANGED:
            parent = path.rpartition("/")[0] or "/"
            above = self.trigger("child", parent, EventType.NODE_CHILDREN_CHANGED)
            events |= {(watcher, EventType.NODE_CHILDREN_CHANGED, parent) for watcher in above}
        return events


class Step(NamedTuple):
    """One call: `path` is an index, to which some are added."""

    kind: str
    path: int
    watcher: str
    choice: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["data", "child", "many", "watch", "watch", "remove", "forget", "fire", "fire", "fire"]),
        st.integers(0, 5),
        st.sampled_from(WATCHERS),
        st.integers(0, 4),
    ),
    max_size=25,
)


@settings(max_examples=150)
@pytest.mark.parametrize("release", ["3.9", "3.6"])
@given(STEPS)
def test_events_and_watches_are_those_of_the_real_tables(release: str, steps: list[Step]) -> None:
    manager = WatchManager[str]() if release == "3.9" else OldWatchManager[str](checks_all=False)
    model = Model(has_one_mode=release != "3.9")
    tables = {"data": manager.data, "child": manager.child}
    types = list(WatcherType) if release == "3.9" else [WatcherType.CHILDREN, WatcherType.DATA, WatcherType.ANY]
    for zxid, (kind, place, watcher, choice) in enumerate(steps):
        path = PATHS[place]
        if kind in tables:
            tables[kind].add(path, watcher, S)
            model.add(kind, path, watcher, S)
        elif kind == "many":
            for one in PATHS[6:]:
                manager.data.add(one, watcher, S)
                model.add("data", one, watcher, S)
        elif kind == "watch":
            manager.add_persistent(path, watcher, recursive=choice > 1)
            model.add_persistent(path, watcher, recursive=choice > 1)
        elif kind == "remove":
            removed = list(model.of_type(path, watcher, types[choice % len(types)]))
            for table, mode in removed:
                model.discard(table, path, watcher, mode)
            assert manager.remove(path, watcher, types[choice % len(types)]) == bool(removed)
        elif kind == "forget":
            manager.forget(watcher)
            for table, paths in model.modes.items():
                for at, watchers in list(paths.items()):
                    for mode in list(watchers.get(watcher, ())):
                        model.discard(table, at, watcher, mode)
        else:
            change, at = CHANGES[choice % 3], path if path != "/" else PATHS[6]
            parent = "" if change == EventType.NODE_DATA_CHANGED else at.rpartition("/")[0] or "/"
            notices = [
                (one.watcher, one.event.type, one.event.path)
                for one in manager.fire(Change(change, at, (), parent, ()), zxid)
            ]
            assert len(notices) == len(set(notices)), "one event for a change of a path"
            assert set(notices) == model.fire(change, at)
        manager.check()
        _compare(manager, model, types)


def _compare(manager: WatchManager[str], model: Model, types: list[WatcherType]) -> None:
    for name, table in (("data", manager.data), ("child", manager.child)):
        paths = model.modes[name]
        assert {(path, watcher, int(mode)) for path, watcher, mode in table.entries()} == {
            (path, watcher, sum(modes)) for path, found in paths.items() for watcher, modes in found.items()
        }
        assert (len(table), bool(table)) == (sum(map(len, paths.values())), bool(paths))
        assert [table.has_depth(depth) for depth in (1, 2, 3)] == [
            any(path.count("/") == depth for path in paths) for depth in (1, 2, 3)
        ]
        order = hash_map_order(list(paths), model.capacities[name], string_hash)
        assert table.ordered_paths() == order
        assert table.has_recursive == any(R in modes for found in paths.values() for modes in found.values())
        for watcher in WATCHERS:
            mine = {path: found[watcher] for path, found in paths.items() if watcher in found}
            assert {path: int(mode) for path, mode in table.modes_of(watcher).items()} == {
                path: sum(modes) for path, modes in mine.items()
            }
            for mode in (S, S | P):
                lacking = [path for path in PATHS if not any(one in mode for one in mine.get(path, ()))]
                assert table.lacking(PATHS, watcher, mode) == lacking
    for path in PATHS[:6]:
        for watcher in WATCHERS:
            for kind in types:
                assert manager.contains(path, watcher, kind) == any(model.of_type(path, watcher, kind))
    counted = {(kind, size): times for kind, sizes in manager.triggered.items() for size, times in sizes.items()}
    assert counted == model.counted
