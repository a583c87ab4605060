"""What conformance tests share: one real ZooKeeper for the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.pair import PROPERTIES, TICK_MS, Pair
from tests.conformance.real_zookeeper import RealZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def real_zookeeper() -> Iterator[RealZooKeeper]:
    """A real ZooKeeper 3.9; a test keeps to a path of its own."""
    with RealZooKeeper() as server:
        yield server


@pytest.fixture(scope="session")
def pair() -> Iterator[Pair]:
    """A simulated server and a real one of its own, asked alike; a test leaves both trees as they were (`clean`)."""
    with RealZooKeeper(tick_time_ms=TICK_MS, properties=PROPERTIES) as server:
        both = Pair(server.port)
        yield both
        both.real.close()
