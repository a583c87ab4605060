"""The bytes of kazoo's own sessions, both ways, cut at every byte: they read alike, however they arrive."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import BadArgumentsError, BadVersionError, NoNodeError

import simzk
from simzk.serve.wire_driver import Transport, WireDriver, WireLink
from simzk.wire.connections import Incoming, ServerConnection
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kazoo.client import KazooClient


class Tap:
    """Transport that records and forwards bytes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.up = b""
        self.down = b""

    def deliver(self, data: bytes) -> None:
        self.down += data
        self._transport.deliver(data)

    def end(self) -> None:
        self._transport.end()


def tree(client: KazooClient) -> None:
    client.create("/a", b"data")
    client.create("/a/n-", "\u00e9".encode(), sequence=True, ephemeral=True)
    client.set("/a", b"x" * 300, version=0)
    client.get("/a")
    client.get_children("/a", include_data=True)
    client.exists("/none")
    client.delete("/a", recursive=True)


def watches(client: KazooClient) -> None:
    client.create("/w")
    client.get("/w", watch=print)
    client.get_children("/w", watch=print)
    client.exists("/none", watch=print)
    client.set("/w", b"1")
    client.create("/w/c")
    client.create("/none")


def multi(client: KazooClient) -> None:
    for version in (0, 7):
        transaction = client.transaction()
        transaction.create(f"/m{version}", b"")
        transaction.check("/", version)
        transaction.set_data("/zookeeper", b"")
        transaction.commit()


def acls_and_errors(client: KazooClient) -> None:
    client.add_auth("digest", "user:secret")
    client.get_acls("/")
    client.sync("/")
    with suppress(NoNodeError):
        client.get("/none")
    with suppress(BadVersionError):
        client.set("/", b"", 99)
    with suppress(BadArgumentsError):
        client.delete("/zookeeper")


SESSIONS: list[Callable[[KazooClient], None]] = [tree, watches, multi, acls_and_errors]


def recorded(work: Callable[[KazooClient], None], monkeypatch: pytest.MonkeyPatch) -> list[Tap]:
    """The connections that a kazoo client makes for some work, its session's end included."""
    taps: list[Tap] = []
    true_open, true_receive = WireDriver.open, WireLink.receive

    def tapped_open(self: WireDriver, transport: Transport, *, address: str = "127.0.0.1") -> WireLink | None:
        taps.append(Tap(transport))
        return true_open(self, taps[-1], address=address)

    def tapped_receive(self: WireLink, data: bytes) -> None:
        assert isinstance(self.transport, Tap)
        self.transport.up += data
        true_receive(self, data)

    monkeypatch.setattr(WireDriver, "open", tapped_open)
    monkeypatch.setattr(WireLink, "receive", tapped_receive)
    with simzk.ZooKeeper() as zookeeper:
        client = zookeeper.client()
        client.start()
        work(client)
    return taps


@pytest.mark.parametrize("work", SESSIONS, ids=lambda work: work.__name__)
def test_a_session_of_kazoo_cut_at_every_byte_reads_alike(
    work: Callable[[KazooClient], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for tap in recorded(work, monkeypatch):
        asked = ServerConnection().receive_data(tap.up)
        assert len(asked) > 2
        for cut in range(len(tap.up) + 1):
            server = ServerConnection()
            assert server.receive_data(tap.up[:cut]) + server.receive_data(tap.up[cut:]) == asked
        server = ServerConnection()
        assert [one for byte in tap.up for one in server.receive_data(bytes([byte]))] == asked
        said = client_that_asked(asked).receive_data(tap.down)
        assert len(said) >= len(asked)
        for cut in range(len(tap.down) + 1):
            client = client_that_asked(asked)
            assert client.receive_data(tap.down[:cut]) + client.receive_data(tap.down[cut:]) == said


def client_that_asked(asked: Sequence[object]) -> ClientConnection:
    client = ClientConnection()
    for one in asked:
        if isinstance(one, Incoming):
            client.request(one.xid, one.request)
    return client
