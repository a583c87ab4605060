"""Fixtures of the conformance tests: one real ZooKeeper for the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.pair import PROPERTIES, SETTINGS, TICK_MS, Pair
from tests.conformance.real_zookeeper import RealZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
from contextlib import ExitStack

# Plugins of kazoo's own suite, for processes of their own: to import one, as the collection of doctests would, is to
# make every kazoo client of this process one of that suite's server.
collect_ignore = ["kazoo_in_memory.py", "kazoo_suite/plugin.py"]


@pytest.fixture(scope="session")
def real_zookeeper() -> Iterator[RealZooKeeper]:
    """A real ZooKeeper 3.9; a test keeps to a path of its own."""
    with RealZooKeeper() as server:
        yield server


class Pairs:
    """The present pair of servers; a new one after a difference, which would show in all that follows."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._present: Pair | None = None

    def sound(self) -> Pair:
        if self._present is None or self._present.failed:
            self._stack.close()
            server = self._stack.enter_context(
                RealZooKeeper(tick_time_ms=TICK_MS, settings=SETTINGS, properties=PROPERTIES)
            )
            self._present = Pair(server.port)
            self._stack.callback(self._present.real.close)
        return self._present


@pytest.fixture(scope="session")
def pairs() -> Iterator[Pairs]:
    with ExitStack() as stack:
        yield Pairs(stack)


@pytest.fixture
def pair(pairs: Pairs) -> Pair:
    """A simulated server and a real one of its own, asked alike; a test leaves both trees as they were (`clean`)."""
    return pairs.sound()
