"""Servers on an event loop in a thread: nobody touches the loop from another thread.

asyncio's debug mode checks that; its timers are a heap without a lock, which another thread could disorder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.verbs import TestServer


@pytest.fixture(autouse=True)
def _debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")


@pytest.mark.parametrize(
    "make",
    [
        simzk.ZooKeeperServer,
        lambda: simzk.ZooKeeperServer(clock="wall"),
        lambda: simzk.ZooKeeperServer(servers=3),
        lambda: simzk.ZooKeeperServer(servers=3, clock="wall"),
    ],
    ids=["virtual", "wall", "virtual ensemble", "wall ensemble"],
)
def test_verbs_of_zookeeper_leave_the_loop_to_its_thread(make: Callable[[], TestServer]) -> None:
    with make() as server:
        client = server.client()
        client.start(timeout=PATIENCE_S)
        client.create("/a", ephemeral=True)
        if server.is_on_wall_time:
            server.faults.delay("exists", seconds=0.01)
            assert client.exists("/a")
        server.disconnect(client)
        server.expire(client)
        server.settle(PATIENCE_S)
        assert server.server.tree.get("/a") is None


def test_verbs_of_kafka_leave_the_loop_to_its_thread() -> None:
    with simzk.KafkaServer("3.9", 3) as server:
        server.create_topic("orders", assignment={0: [1, 2, 3]})
        server.run_until_quiet()
        server.kill(1)
        server.run_until_quiet()
        assert server.state("orders", 0).leader == 2
        server.advance(30)
