"""The live page of the AdminServer: its page, its state, its verbs, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from simzk.serve.admin_server.live import CHILDREN_MAX, DATA_BYTES_MAX, REQUESTS_MAX, SESSIONS_MAX, WATCHES_MAX
from simzk.serve.clock import StillClock, WallClock
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.serve.http_client import fetch
from tests.serve.served import Served, served, served_ensemble
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKUP = "<img src=x onerror=alert(1)>"
HOUR_S = 3600


@pytest.fixture
def client(server: Served) -> Iterator[TcpClient]:
    with TcpClient(server.port) as one:
        one.connect()
        yield one


def ask(port: int, target: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, Any]]:
    status, _, body = fetch(port, target, method, headers=headers)
    return status, json.loads(body)


def state(server: Served) -> dict[str, Any]:
    status, found = ask(server.admin_port, "/live/state")
    assert (status, found["error"], found["stopped"]) == (200, None, False)
    return found


def create(client: TcpClient, path: str, data: bytes = b"", flags: int = 0) -> None:
    assert client.ask(req.Create(path, data, OPEN_ACL, flags)).error == 0


# The page


def test_the_page_runs_its_own_script_and_style_only(server: Served) -> None:
    status, headers, body = fetch(server.admin_port, "/")
    text = body.decode()
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert policy["default-src"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
    assert not re.findall(r"""https?://|\bsrc=|\bstyle=|\bon[a-z]+=["']|innerHTML|insertAdjacentHTML""", text)
    assert re.findall(r'href="([^"]*)"', text) == ["data:,"]


def test_the_page_has_no_body_for_a_head_and_takes_no_post(server: Served) -> None:
    assert fetch(server.admin_port, "/", "HEAD")[::2] == (200, b"")
    assert fetch(server.admin_port, "/", "POST")[0] == 405


def test_paths_of_the_real_server_stay(server: Served) -> None:
    assert fetch(server.admin_port, "/commands")[0] == 200
    assert fetch(server.admin_port, "/commands/..")[0] == 404
    assert fetch(server.admin_port, "/live")[0] == 404


# The state


def test_the_state_names_sessions_with_their_watches_and_ephemerals(server: Served, client: TcpClient) -> None:
    create(client, "/a")
    create(client, "/e", flags=1)
    client.ask(req.GetData("/a", True))
    client.ask(req.GetChildren("/a", True))
    client.ask(req.AddWatch("/a", 1))
    (session,) = state(server)["sessions"]
    assert session["connected"]
    assert session["watches"] == ["/a (data, standard|recursive)", "/a (children, standard)"]
    assert session["ephemerals"] == ["/e"]
    assert session["verbs"] == ["expire", "disconnect", "pause"]


def test_requests_are_listed_from_the_first_look_on(server: Served, client: TcpClient) -> None:
    create(client, "/before")
    assert state(server)["requests"] == []
    create(client, "/a")
    client.ask(req.GetData("/none", False))
    client.ask(req.Ping())
    found = state(server)["requests"]
    assert [(one["what"], one["paths"], one["result"]) for one in found] == [
        ("create", ["/a"], "ok"),
        ("get", ["/none"], "NO_NODE"),
    ]


def test_lists_are_bounded(server: Served, client: TcpClient) -> None:
    state(server)
    for number in range(max(CHILDREN_MAX, REQUESTS_MAX) + 1):
        create(client, f"/n{number}")
    for number in range(WATCHES_MAX + 3):
        client.ask(req.GetData(f"/n{number}", True))
    client.send(req.SetData("/n0", b"x" * (DATA_BYTES_MAX + 1), -1))
    client.next(), client.next()  # the event, and the reply
    found = state(server)
    (session,) = found["sessions"]
    assert len(found["requests"]) == REQUESTS_MAX
    assert (len(session["watches"]), session["watch_count"]) == (WATCHES_MAX, WATCHES_MAX + 2)  # one had its event
    root = ask(server.admin_port, "/live/node?path=/")[1]
    assert (len(root["children"]), root["child_count"]) == (CHILDREN_MAX, CHILDREN_MAX + 2)
    node = ask(server.admin_port, "/live/node?path=/n0")[1]
    assert (len(node["data"]), node["data_bytes"]) == (DATA_BYTES_MAX, DATA_BYTES_MAX + 1)


def test_more_sessions_than_are_shown_are_counted(server: Served) -> None:
    with server.tcp.driver.lock:
        for number in range(SESSIONS_MAX + 5):
            server.tcp.driver.server.connect(req.ConnectRequest(0, 0, 30_000, 0, None, False), 0, owner=number)
    found = state(server)
    assert (len(found["sessions"]), found["session_count"]) == (SESSIONS_MAX, SESSIONS_MAX + 5)
    assert found["sessions"][0]["verbs"] == ["expire"]  # not on a link of this driver


def test_a_node_is_data_and_never_markup(server: Served, client: TcpClient) -> None:
    create(client, f"/{MARKUP}", MARKUP.encode())
    create(client, "/bytes", b"\xac\xed\0")
    _, headers, body = fetch(server.admin_port, "/live/node?path=/%3Cimg%20src=x%20onerror=alert(1)%3E")
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body)["data"] == MARKUP
    assert ask(server.admin_port, "/live/node?path=/bytes")[1]["data"] == "ac ed 00"
    assert ask(server.admin_port, "/live/node?path=/zookeeper/quota")[1]["acl"] == ["world:anyone cdrwa"]


def test_digests_are_not_shown(server: Served, client: TcpClient) -> None:
    acl = (ACL(1, Id("digest", "bob:secret")),)
    assert client.ask(req.Create("/guarded", b"", acl, 0)).error == 0
    assert ask(server.admin_port, "/live/node?path=/guarded")[1]["acl"] == ["digest:bob:x r"]


@pytest.mark.parametrize("target", ["/live/node?path=/none", "/live/node?path=", "/live/node?path=x"])
def test_a_missing_node_is_an_error(server: Served, target: str) -> None:
    status, found = ask(server.admin_port, target)
    assert status == 400
    assert "there is no znode" in found["error"]


# What changes state


@pytest.mark.parametrize("target", ["/live/state", "/live/node?path=/", "/brokers"])
def test_reading_is_guarded_too_because_no_acl_is_checked(server: Served, target: str) -> None:
    assert ask(server.admin_port, target, Host="evil.example")[0] == 403
    assert ask(server.admin_port, target, Origin="http://evil.example")[0] == 403
    assert ask(server.admin_port, target, "POST")[0] == 405
    with served(Settings(admin_port=0, admin_token="secret")) as guarded:
        assert ask(guarded.admin_port, target)[0] == 401
        assert ask(guarded.admin_port, target, Authorization="Bearer secret")[0] != 401
        assert fetch(guarded.admin_port, "/")[0] == 200


@pytest.mark.parametrize("target", ["/advance?seconds=1", "/brokers/1/kill"])
def test_verbs_need_a_post_of_our_own_page(server: Served, target: str) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
        assert fetch(server.admin_port, target, method)[0] == 405
    assert ask(server.admin_port, target, "POST", Origin="http://evil.example")[0] == 403
    assert state(server)["server"]["now_ms"] == 0


@pytest.mark.parametrize("seconds", ["", "x", "-1", "nan", "inf", "3600.5"])
def test_a_time_that_cannot_pass_is_refused(server: Served, seconds: str) -> None:
    status, found = ask(server.admin_port, f"/advance?seconds={seconds}", "POST")
    assert status == 400
    assert found["error"].startswith("seconds: ")
    assert ask(server.admin_port, "/advance", "POST")[0] == 400


def test_without_brokers_there_are_none_to_kill(server: Served) -> None:
    assert state(server)["cluster"] is None
    status, found = ask(server.admin_port, "/brokers/1/kill", "POST")
    assert (status, found["error"]) == (409, "there are no simulated brokers; expected simzk serve --kafka FILE")
    assert ask(server.admin_port, "/brokers")[0] == 400


def test_still_time_advances_by_hand(server: Served, client: TcpClient) -> None:
    assert ask(server.admin_port, "/advance?seconds=2.5", "POST") == (200, {"error": None})
    found = state(server)
    assert found["server"]["now_ms"] == 2500
    assert len(found["sessions"]) == 1


@pytest.mark.parametrize("clock", [StillClock, WallClock])
def test_time_passes_and_only_sessions_without_a_client_end(clock: type[StillClock | WallClock]) -> None:
    with served(Settings(admin_port=0), clock()) as server, TcpClient(server.port) as stays:
        stays.connect()
        with TcpClient(server.port) as gone:
            gone.connect()
            create(gone, "/e", flags=1)
        before_ms = state(server)["server"]["now_ms"]
        assert ask(server.admin_port, f"/advance?seconds={HOUR_S}", "POST")[0] == 200
        found = state(server)
        assert found["server"]["now_ms"] - before_ms >= HOUR_S * 1000
        assert [one["connected"] for one in found["sessions"]] == [True]
        assert 0 < found["sessions"][0]["expires_in_ms"] <= 40_000
        assert stays.ask(req.Exists("/e", False)).error == -101


def test_a_paused_session_expires_as_time_passes() -> None:
    with served(Settings(admin_port=0), WallClock()) as server, TcpClient(server.port) as client:
        client.connect()
        (session,) = state(server)["sessions"]
        assert ask(server.admin_port, f"/faults/pause?session={session['id']}", "POST")[0] == 200
        assert state(server)["sessions"][0]["verbs"] == ["expire", "disconnect", "resume"]
        assert ask(server.admin_port, f"/advance?seconds={HOUR_S}", "POST")[0] == 200
        assert state(server)["sessions"] == []


def test_time_passes_for_all_servers_of_an_ensemble() -> None:
    with served_ensemble(Settings(admin_port=0), WallClock()) as ensemble:
        ports = ensemble.admin_ports
        with TcpClient(ensemble.ports[1]) as one, TcpClient(ensemble.ports[2]) as two:
            one.connect(), two.connect()
            assert ask(ports[3], f"/advance?seconds={HOUR_S}", "POST")[0] == 200
            assert one.ask(req.Exists("/", False)).error == 0
            assert two.ask(req.Exists("/", False)).error == 0
            assert ask(ports[3], "/faults/stop?server=1", "POST")[0] == 200
            stopped = ask(ports[1], "/live/state")[1]
            assert (stopped["stopped"], stopped["servers"][0]["state"]) == (True, "stopped")
            assert ask(ports[2], "/live/state")[1]["session_count"] == 2


def test_servers_of_an_ensemble_have_their_state_and_verbs() -> None:
    with served_ensemble(Settings(admin_port=0)) as ensemble:
        port = ensemble.admin_ports[1]

        def servers() -> list[tuple[str, bool, list[str]]]:
            found = ask(port, "/live/state")[1]["servers"]
            return [(one["state"], one["cut_off"], one["verbs"]) for one in found]

        assert sorted(state for state, _, _ in servers()) == ["follower", "follower", "leader"]
        leader = next(number for number, (state, _, _) in enumerate(servers(), 1) if state == "leader")
        other = 1 if leader != 1 else 2
        assert ask(port, f"/faults/cut?servers={other}", "POST")[0] == 200
        assert servers()[other - 1] == ("not serving", True, ["stop", "heal"])
        assert ask(port, "/faults/heal", "POST")[0] == 200
        assert ask(port, f"/faults/stop?server={other}", "POST")[0] == 200
        assert servers()[other - 1] == ("stopped", False, ["start"])
        assert ask(port, f"/faults/start?server={other}", "POST")[0] == 200
        assert servers()[other - 1][:2] != ("stopped", False)


def test_a_single_server_has_no_ensemble(server: Served) -> None:
    assert state(server)["servers"] is None
