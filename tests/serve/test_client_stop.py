"""The end of clients with a callback that does not return: in memory, over TCP, of fixtures and patches."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import KazooState

import simzk
from simzk.serve import client_stop
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.serve.verbs import TestServer

MAKE = [simzk.ZooKeeper, simzk.ZooKeeperServer]


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that callbacks of the test wait for; it is set after the test, so no thread is left."""
    monkeypatch.setattr(client_stop, "PATIENCE_S", 0.01)
    monkeypatch.setattr(client_stop, "_END_S", 0.01)
    before, event = set(threading.enumerate()), threading.Event()
    yield event
    event.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def started(server: TestServer) -> KazooClient:
    client = server.client()
    client.start(timeout=PATIENCE_S)
    client.create("/a")
    return client


def block_a_watch(client: KazooClient, event: threading.Event) -> None:
    client.get("/a", watch=lambda _: event.wait())
    client.set("/a", b"1")


def block_a_completion(client: KazooClient, event: threading.Event) -> None:
    client.get_async("/a").rawlink(lambda _: event.wait())


def block_a_state_listener(client: KazooClient, event: threading.Event) -> None:
    """Block the listener that is called at the end of the client."""
    client.add_listener(lambda state: event.wait() if state == KazooState.LOST else None)


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("block", [block_a_watch, block_a_completion, block_a_state_listener])
@pytest.mark.parametrize("settles", [True, False])
def test_a_server_closes_beside_a_blocked_callback(
    make: Any, block: Any, settles: bool, blocked: threading.Event
) -> None:
    server = make()
    client = started(server)
    block(client, blocked)
    if settles and block is not block_a_state_listener:
        with pytest.raises(TimeoutError, match=r"callback \S*<lambda> does not return; it is at \S*test_client_stop"):
            server.settle(0.01)
    with pytest.warns(RuntimeWarning, match=r"simzk: client 1: .*; its thread was left running"):
        server.close()
    assert server.clients == ()


@pytest.mark.parametrize("make", MAKE)
def test_a_callback_that_waits_for_a_reply_ends_with_an_error(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state listener that calls the client waits for a reply that its own thread would have to read (kazoo 241)."""
    monkeypatch.setattr(client_stop, "PATIENCE_S", 0.01)
    monkeypatch.setattr(client_stop, "_END_S", PATIENCE_S)
    errors: list[type[BaseException]] = []
    with make() as server:
        client = started(server)

        waits = threading.Event()

        def listen(state: str) -> None:
            if state == KazooState.CONNECTED:
                waits.set()
                try:
                    client.get("/a")
                except Exception as error:
                    errors.append(type(error))

        client.add_listener(listen)
        server.expire(client)
        assert waits.wait(PATIENCE_S)
        with pytest.raises(TimeoutError, match="connection thread is busy; it is at"):
            server.settle(0.01)
    assert errors == [ConnectionLoss]


def test_a_patch_ends_beside_a_blocked_callback(blocked: threading.Event) -> None:
    patch = simzk.patch()
    patch.__enter__()
    client = KazooClient()
    client.start(timeout=PATIENCE_S)
    client.create("/a")
    block_a_watch(client, blocked)
    with pytest.warns(RuntimeWarning, match="its thread was left running"):
        patch.__exit__(None, None, None)


def test_a_reset_goes_on_beside_a_blocked_callback(blocked: threading.Event) -> None:
    with simzk.ZooKeeper() as server:
        block_a_watch(started(server), blocked)
        with pytest.warns(RuntimeWarning, match="its thread was left running"):
            server.reset()
        assert server.server.tree.get("/a") is None
