"""Command restore of the AdminServer: it replaces tree and sessions by a snapshot, like a real 3.9.5."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from simzk.serve.configuration.settings import Settings, Storage
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code
from tests.serve.http_client import fetch
from tests.serve.served import Served, served, served_ensemble
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANYBODY = {"Authorization": "digest root:x"}


@pytest.fixture
def server() -> Iterator[Served]:
    with served(Settings(admin_port=0)) as running:
        yield running


def snapshot(port: int) -> bytes:
    status, _, data = fetch(port, "/commands/snapshot", headers=ANYBODY)
    assert status == 200
    return data


def restore(port: int, data: bytes | None, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    status, _, body = fetch(port, "/commands/rest", "POST", body=data, headers=ANYBODY if headers is None else headers)
    return status, json.loads(body)


def test_the_tree_and_its_sessions_are_those_of_the_snapshot(server: Served) -> None:
    with TcpClient(server.port) as old, TcpClient(server.port) as new, TcpClient(server.port) as again:
        session = old.connect(timeout_ms=20_000)
        old.ask(req.Create("/a", b"1", req.OPEN_ACL, 0))
        old.ask(req.Create("/e", b"1", req.OPEN_ACL, 1))
        data = snapshot(server.admin_port)
        other = new.connect(timeout_ms=20_000)
        new.ask(req.Create("/b", b"2", req.OPEN_ACL, 0))
        new.ask(req.Create("/ne", b"2", req.OPEN_ACL, 1))
        old.ask(req.GetData("/a", True))
        assert restore(server.admin_port, data) == (200, {"last_zxid": 3, "command": "restore", "error": None})
        # Whose session is in it goes on, without its watches; history goes on behind both.
        assert old.ask(req.GetData("/b", False)).error == Code.NO_NODE
        assert old.ask(req.SetData("/a", b"3", -1)).zxid == 7
        assert old.ask(req.Create("/e2", b"", req.OPEN_ACL, 1)).zxid == 8
        assert sorted(old.ask(req.GetEphemerals(None)).body) == ["/e", "/e2"]  # type: ignore[call-overload]
        assert old.ask(req.GetData("/ne", False)).error == Code.NO_NODE
        # The others are cut off, and have no session any more.
        assert new.rest() == b""
        assert again.connect(session=other).session_id == 0
        with server.tcp.driver.lock:
            server.tcp.driver.server.check()
            assert server.tcp.driver.server.sessions.ids() == [session.session_id]


@pytest.mark.parametrize("data", [None, b"", b"nonsense"])
def test_what_is_no_snapshot_changes_nothing(server: Served, data: bytes | None) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        client.ask(req.Create("/a", b"1", req.OPEN_ACL, 0))
        assert restore(server.admin_port, data) == (500, {"command": "restore", "error": None})
        whole = snapshot(server.admin_port)
        assert restore(server.admin_port, whole[:-1])[0] == 500
        assert restore(server.admin_port, whole[:50] + b"\xff" + whole[51:])[0] == 500
        assert client.ask(req.Exists("/a", False)).error == 0
        assert "\nrestore_error_count 3.0\n" in fetch(server.admin_port, "/metrics")[2].decode()


def test_who_may_restore_and_how_often() -> None:
    with served(Settings(admin_port=0, snapshot_interval_ms=300_000)) as server:
        data = snapshot(server.admin_port)
        missing = {"command": "restore", "error": "Auth info is missing for the command"}
        assert restore(server.admin_port, data, {}) == (401, missing)
        assert restore(server.admin_port, data, {"Authorization": "digest"})[0] == 401
        assert [restore(server.admin_port, data)[0] for _ in range(2)] == [200, 429]
        assert "\nrestore_rate_limited_count 1.0\n" in fetch(server.admin_port, "/metrics")[2].decode()


def test_a_body_may_come_in_chunks(server: Served) -> None:
    data = snapshot(server.admin_port)
    head = b"POST /commands/restore HTTP/1.1\r\nHost: a\r\nAuthorization: ip\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (data[:100], data[100:], b""))
    with TcpClient(server.admin_port) as client:
        client.socket.sendall(head)
        for at in range(0, len(chunks), 37):
            client.socket.sendall(chunks[at : at + 37])
        client.socket.sendall(b"GET /commands/ruok HTTP/1.0\r\n\r\n")
        assert client.rest().count(b"HTTP/1.1 200 OK\r\n") == 2


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        (Settings(admin_port=0, takes_snapshots=False), 503),
        (Settings(admin_port=0, storage=Storage(tells_zxid=False)), 500),
    ],
)
def test_restoring_may_be_turned_off(settings: Settings, status: int) -> None:
    with served(settings) as server:
        assert restore(server.admin_port, b"x") == (status, {"command": "restore", "error": None})


def test_snapshots_may_be_turned_off() -> None:
    with served(Settings(admin_port=0, gives_snapshots=False)) as server:
        assert fetch(server.admin_port, "/commands/snapshot", headers=ANYBODY)[0] == 503


def test_an_ensemble_is_not_restored() -> None:
    with served_ensemble(Settings(admin_port=0)) as ensemble:
        assert restore(ensemble.admin_ports[1], b"x")[0] == 500


def test_what_was_restored_survives(tmp_path: Path) -> None:
    settings = Settings(admin_port=0, data_directory=tmp_path, storage=Storage(fsync=False))
    with served(settings) as server, TcpClient(server.port) as client:
        client.connect()
        client.ask(req.Create("/a", b"1", req.OPEN_ACL, 0))
        data = snapshot(server.admin_port)
        client.ask(req.Create("/b", b"1", req.OPEN_ACL, 0))
        assert restore(server.admin_port, data)[0] == 200
        client.ask(req.Create("/c", b"1", req.OPEN_ACL, 0))
    with served(settings) as server, TcpClient(server.port) as client:
        assert server.tcp.losses == []
        client.connect()
        assert [client.ask(req.Exists(path, False)).error for path in ("/a", "/b", "/c")] == [0, -101, 0]


def test_an_address_may_come_from_a_proxy() -> None:
    reported = {"Authorization": "ip", "X-Forwarded-For": "10.1.2.3, 127.0.0.1"}
    for believes, status in ((True, 403), (False, 200)):
        with served(Settings(admin_port=0, trusts_forwarded_for=believes)) as server, TcpClient(server.port) as client:
            client.connect()
            client.ask(req.SetACL("/", (req.ACL(31, req.Id("ip", "127.0.0.1")),), -1))
            assert fetch(server.admin_port, "/commands/snapshot", headers=reported)[0] == status
