"""Requests far below the root: the work of one is bounded by the length of its path, counted and not timed."""

from __future__ import annotations

import sys
import tracemalloc
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Reply
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from simzk.zookeeper.znode import PathSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from simzk.zookeeper.connection import Connection

LIMITS = b"countHardLimit=100000;byteHardLimit=1000000000"


class Chain:
    """Server with a chain of znodes below a quota and recursive watches.

    Args:
        depth: number of znodes.
        watches_all: whether each has a recursive watch of its own.
    """

    def __init__(self, depth: int, *, watches_all: bool = False) -> None:
        self.server = Server(ServerConfig(enforce_quota=True), now_ms=0)
        self._client: Connection = self.server.connect(req.ConnectRequest(0, 0, 30_000, 0, None, False), 1)
        quota = "/zookeeper/quota/q"
        for path, data in (
            ("/q", b""),
            (quota, b""),
            (f"{quota}/zookeeper_limits", LIMITS),
            (f"{quota}/zookeeper_stats", b""),
        ):
            self.ask(req.Create(path, data, OPEN_ACL, 0))
        for path in ("/", "/q"):
            self.ask(req.AddWatch(path, 1))
        self.path = "/q"
        for _ in range(depth):
            self.path += "/n"
            self.ask(req.Create(self.path, b"x", OPEN_ACL, 0))
            if watches_all:
                self.ask(req.AddWatch(self.path, 1))

    def ask(self, request: req.Request) -> None:
        self.server.handle(self._client, 1, request, 2)
        *_, (_, messages) = self.server.take_output()
        assert isinstance(messages[-1], Reply)
        assert messages[-1].error == 0

    def requests(self) -> list[req.Request]:
        """Requests at the end of the chain; afterwards it is as before."""
        child = f"{self.path}/c"
        return [
            req.Create(child, b"y", OPEN_ACL, 0),
            req.SetData(child, b"yy", -1),
            req.GetData(child, True),
            req.GetChildren(self.path, True),
            req.GetEphemerals(self.path),
            req.SetACL(child, OPEN_ACL, -1),
            req.Multi((req.Check(child, -1), req.SetData(child, b"z", -1))),
            req.Delete(child, -1),
            req.CreateContainer(child, b"", OPEN_ACL, 4),
            req.DeleteContainer(child),
            req.AddWatch(child, 1),
            req.RemoveWatches(child, 5),
        ]


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions, of Python and of C, are called."""
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def calls_per_request(chain: Chain) -> list[int]:
    for request in chain.requests():  # what is computed once
        chain.ask(request)
    return [calls_of(lambda request=request: chain.ask(request)) for request in chain.requests()]  # type: ignore[misc]


# Requests that read every name: an ACL is set at a valid path only, a recursive watch has its place by its names.
BY_NAME = {"SetACL", "AddWatch", "RemoveWatches"}


def test_a_request_calls_as_much_at_any_depth() -> None:
    shallow, deep = calls_per_request(Chain(10)), calls_per_request(Chain(2510))
    kinds = [type(request).__name__ for request in Chain(1).requests()]
    more = {kind: after - before for kind, before, after in zip(kinds, shallow, deep, strict=True) if after > before}
    assert more.keys() == BY_NAME
    assert max(more.values()) <= 4 * 2500, "at most four calls for each name"


def test_watches_at_each_depth_cost_a_few_calls_each() -> None:
    few, many = (calls_per_request(Chain(depth, watches_all=True)) for depth in (100, 600))
    assert all(after - before <= 500 * 8 for before, after in zip(few, many, strict=True))


def test_a_request_needs_memory_in_proportion_to_its_path() -> None:
    chain = Chain(2500)
    for request in chain.requests():
        tracemalloc.start()
        try:
            chain.ask(request)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # All its ancestors as texts would take 1,250 times the path; a place for each of its names, 120 times.
        assert peak < 200 * len(chain.path), type(request)
    chain.server.check()


NAMES = st.lists(st.sampled_from(("a", "b", "ab", "")), max_size=4)
PATHS = NAMES.map(lambda names: "/" + "/".join(names))


@given(st.lists(st.tuples(st.booleans(), PATHS), max_size=20), PATHS)
def test_a_set_of_paths_finds_those_at_and_above_a_path(changes: list[tuple[bool, str]], asked: str) -> None:
    paths, reference = PathSet(), set[str]()
    for is_added, path in changes:
        (paths.add if is_added else paths.discard)(path)
        (reference.add if is_added else reference.discard)(path)
    assert bool(paths) == bool(reference)
    names = [] if asked == "/" else asked.split("/")[1:]
    ancestors = ["/", *("/" + "/".join(names[:count]) for count in range(1, len(names) + 1))]
    assert paths.along(asked) == [path for path in dict.fromkeys(ancestors) if path in reference]
