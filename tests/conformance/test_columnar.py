"""A server with topics in columns is asked the same as a real ZooKeeper, over the wire, and answers the same."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics
from tests.conformance.conftest import Pairs
from tests.conformance.topic_traffic import TopicTraffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.pair import Pair

pytestmark = [pytest.mark.slow, pytest.mark.java]

REQUESTS = 15_000


@pytest.fixture
def columnar_pair() -> Iterator[Pair]:
    """A pair of its own: the simulated side of it keeps topics in columns."""
    with ExitStack() as stack:
        yield Pairs(stack).sound()


@pytest.mark.timeout(900)
def test_traffic_at_topics_is_answered_the_same(columnar_pair: Pair) -> None:
    pair, backing = columnar_pair, ColumnarTopics()
    pair.simulated.server.tree.mount(backing)
    most_held = 0

    def note(_: object) -> None:
        nonlocal most_held
        most_held = max(most_held, len(backing))

    pair.simulated.server.on_transaction.append(note)
    seed = 0
    while pair.requests < REQUESTS:
        pair.play(seed, TopicTraffic)
        seed += 1
    assert most_held >= 10, "topics with partitions were held"
    assert len(backing) == len(backing.table) == 0, "all was removed"
