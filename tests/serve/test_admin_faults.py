"""Fault rules over HTTP: added, listed, released and cleared; invalid ones are answered with 400."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest

from simzk.serve.clock import StillClock
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Closed, Code
from tests.serve.served import Served, served
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def server(clock: StillClock) -> Iterator[Served]:
    with served(Settings(admin_port=0), clock) as running:
        yield running


@pytest.fixture
def client(server: Served) -> Iterator[TcpClient]:
    with TcpClient(server.port) as one:
        one.connect()
        one.ask(req.Create("/a", b"", req.OPEN_ACL, 0))
        yield one


def ask(server: Served, method: str, target: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=30)
    connection.request(method, target)
    response = connection.getresponse()
    reported = json.loads(response.read())
    connection.close()
    return response.status, reported


def session_of(server: Served) -> int:
    """Return the id of the only session."""
    with server.tcp.driver.lock:
        (session_id,) = server.tcp.driver.server.sessions.ids()
    return session_id


def rule(server: Served, target: str) -> int:
    status, reported = ask(server, "POST", f"/faults/{target}")
    assert (status, reported["error"]) == (200, None)
    number = reported["rule"]
    assert isinstance(number, int)
    return number


def listed(server: Served) -> list[dict[str, Any]]:
    status, reported = ask(server, "GET", "/faults")
    assert status == 200
    rules = reported["rules"]
    assert isinstance(rules, list)
    return rules


def version(server: Served) -> int:
    with server.tcp.driver.lock:
        node = server.tcp.driver.server.tree.get("/a")
        assert node is not None
        return node.version


@pytest.mark.parametrize(("verb", "applied"), [("drop_request", 0), ("drop_reply", 1)])
def test_a_request_or_its_reply_is_lost(server: Served, client: TcpClient, verb: str, applied: int) -> None:
    number = rule(server, f"{verb}?op=set&path=/a")
    client.send(req.SetData("/a", b"1", -1))
    assert isinstance(client.next(), Closed)
    assert version(server) == applied
    assert listed(server) == [
        {
            "rule": number,
            "action": verb,
            "op": "set",
            "session": None,
            "path": "/a",
            "below": False,
            "times": 1,
            "fired": 1,
            "waiting": 0,
        }
    ]


def test_a_held_request_goes_on_when_it_is_released_or_the_rule_cleared(server: Served, client: TcpClient) -> None:
    for end in ("release", "clear"):
        before = version(server)
        number = rule(server, f"hold?op=set&session=0x{session_of(server):x}")
        client.send(req.SetData("/a", b"1", -1))
        while not listed(server)[-1]["waiting"]:
            pass
        assert version(server) == before
        assert ask(server, "POST", f"/faults/{end}?rule={number}")[0] == 200
        assert client.next().error == 0  # type: ignore[union-attr]
        assert version(server) == before + 1


def test_a_delay_ends_as_time_goes_by(server: Served, clock: StillClock, client: TcpClient) -> None:
    rule(server, "delay?seconds=2.5&op=set&n=all")
    client.send(req.SetData("/a", b"1", -1))
    while not listed(server)[-1]["waiting"]:
        pass
    server.tcp.driver.advance(clock, 2499)
    assert version(server) == 0
    server.tcp.driver.advance(clock, 1)
    assert client.next().error == 0  # type: ignore[union-attr]


def test_an_error_is_answered_below_a_path(server: Served, client: TcpClient) -> None:
    rule(server, "fail?path=/a&below=true&error=NotEmptyError&n=2")
    assert client.ask(req.Create("/a/b", b"", req.OPEN_ACL, 0)).error == Code.NOT_EMPTY
    assert client.ask(req.GetData("/", False)).error == 0
    assert client.ask(req.GetData("/a", False)).error == Code.NOT_EMPTY
    assert client.ask(req.GetData("/a", False)).error == 0


def test_a_session_ends_at_a_request(server: Served, client: TcpClient) -> None:
    rule(server, "expire_at?op=get")
    session_id = session_of(server)
    client.send(req.GetData("/a", False))
    assert isinstance(client.next(), Closed)
    with server.tcp.driver.lock:
        assert session_id not in server.tcp.driver.server.sessions


def test_a_session_is_paused_at_a_request(server: Served, client: TcpClient) -> None:
    number = rule(server, "pause_at?op=set")
    client.send(req.SetData("/a", b"1", -1))
    while not listed(server)[-1]["fired"]:
        pass
    assert version(server) == 0
    assert ask(server, "POST", f"/faults/release?rule={number}")[0] == 200
    assert client.next().error == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("drop_reply?op=setData", "did you mean 'set'"),
        ("drop_reply?session=5", "there is no session 0x5"),
        ("hold?path=a", "'a' is not the path of a znode"),
        ("hold?below=maybe&path=/a", "below: 'maybe' is neither"),
        ("hold?n=0", "times"),
        ("hold?n=x", "n: 'x' is not a number"),
        ("delay", "seconds: the parameter is missing"),
        ("delay?seconds=x", "seconds: 'x' is not a number"),
        ("delay?seconds=-1", "-1.0 s is not a valid delay"),
        ("delay?seconds=inf", "seconds: invalid duration inf"),
        ("fail?op=get", "error: the parameter is missing"),
        ("fail?op=get&error=NoNod", "did you mean 'NO_NODE'"),
        ("release?rule=9", "rule 9 does not exist"),
        ("clear?rule=9", "rule 9 does not exist"),
    ],
)
def test_what_cannot_be_is_said(server: Served, target: str, said: str) -> None:
    status, reported = ask(server, "POST", f"/faults/{target}")
    assert status == 400
    assert said in reported["error"]
    assert listed(server) == []
