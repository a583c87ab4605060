"""Acceptance of connections: each one ends, and a lack of file descriptors passes."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

import pytest

from simzk.serve.tcp import accepting
from simzk.serve.tcp.accepting import Acceptor

if TYPE_CHECKING:
    from collections.abc import Iterator


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield bound


def connected(listener: socket.socket) -> socket.socket:
    client = socket.create_connection(listener.getsockname())
    client.setblocking(False)
    return client


async def all_received(client: socket.socket) -> bytes:
    """Return what a client receives until its connection ends."""
    loop, found = asyncio.get_running_loop(), b""
    while True:
        try:
            data = await loop.sock_recv(client, 100)
        except ConnectionResetError:
            return found
        if not data:
            return found
        found += data


def test_a_client_that_connected_before_the_start_is_accepted(listener: socket.socket) -> None:
    async def run() -> bytes:
        with connected(listener) as client:
            acceptor = Acceptor(listener, Greeting)
            acceptor.start()
            found = await all_received(client)
            acceptor.close()
            return found

    assert asyncio.run(run()) == b"hello"


@pytest.mark.parametrize("turns", range(4))
def test_a_connection_that_is_just_accepted_ends_with_the_acceptor(listener: socket.socket, turns: int) -> None:
    async def run() -> bytes:
        with connected(listener) as client:
            acceptor = Acceptor(listener, Greeting)
            acceptor.start()
            for _ in range(turns):
                await asyncio.sleep(0)
            acceptor.close()
            acceptor.abort()
            return await all_received(client)

    assert asyncio.run(run()) in (b"", b"hello")


def test_a_connection_is_accepted_once_a_file_descriptor_is_free(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy(socket.socket):
        has_none = True

        def accept(self) -> tuple[socket.socket, object]:
            if self.has_none:
                self.has_none = False
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(accepting, "_RETRY_S", 0.0)
    busy = Busy(fileno=socket.dup(listener.fileno()))

    async def run() -> bytes:
        with connected(listener) as client:
            acceptor = Acceptor(busy, Greeting)
            acceptor.start()
            found = await all_received(client)
            acceptor.close()
            return found

    assert asyncio.run(run()) == b"hello"
    assert not busy.has_none
    assert busy.fileno() == -1


def test_a_closed_acceptor_does_not_accept_again(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(accepting, "_RETRY_S", 0.0)
    empty = Empty(fileno=socket.dup(listener.fileno()))

    async def run() -> None:
        with connected(listener):
            acceptor = Acceptor(empty, Greeting)
            acceptor.start()
            for _ in range(3):
                await asyncio.sleep(0)
            acceptor.close()
            for _ in range(3):
                await asyncio.sleep(0)

    asyncio.run(run())
    assert empty.fileno() == -1
