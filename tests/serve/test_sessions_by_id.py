"""Verbs with session ids, for clients other than kazoo; errors of a server that cannot start."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NoAuthError

import simzk
from simzk.serve.tcp.addresses import bind
from simzk.serve.tcp.server import TcpServer
from simzk.zookeeper import requests as req
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[simzk.ZooKeeperServer]:
    with simzk.ZooKeeperServer() as made:
        yield made


def test_a_foreign_client_is_named_by_its_session(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as client:
        session_id = client.connect().session_id
        server.faults.fail("create", error=NoAuthError, client=session_id)
        assert client.ask(req.Create("/a", b"", req.OPEN_ACL, 0)).error == -102
        assert client.ask(req.Create("/a", b"", req.OPEN_ACL, 0)).error == 0
        with server.pause(session_id):
            pass
        server.expire(session_id % (1 << 64))  # as a language without signs tells it
        assert session_id not in server.server.sessions


def test_a_session_that_is_not_there_is_named(server: simzk.ZooKeeperServer) -> None:
    for verb in (server.expire, server.disconnect, server.pause):
        with pytest.raises(simzk.SimzkError, match="there is no session 0x2a; expected the id of a live session"):
            verb(42)


def test_a_server_that_cannot_start_says_why_and_frees_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []

    async def start(self: TcpServer) -> None:
        ports.append(self.port)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(TcpServer, "start", start)
    before = threading.active_count()
    with pytest.raises(OSError, match="Too many open files"):
        simzk.ZooKeeperServer()
    with socket.create_server(("127.0.0.1", ports[0])):
        assert threading.active_count() <= before + 1


def test_a_name_that_is_none_is_said_as_the_system_says_it() -> None:
    with pytest.raises(simzk.ConfigError, match=r"no-such-host\.invalid:0: cannot listen: (?!Unknown error)"):
        bind("no-such-host.invalid", 0, 1)
