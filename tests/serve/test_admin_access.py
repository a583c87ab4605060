"""Host, Origin and token of requests that change state, over HTTP and by the rules alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simzk
from simzk.serve.admin_server.access import AccessRules
from simzk.serve.admin_server.faults import FAULTS
from simzk.serve.admin_server.http import HttpRequest
from simzk.serve.configuration.settings import Settings
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from tests.serve.http_client import fetch
from tests.serve.served import Served, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(Settings(admin_port=0)) as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with served(Settings(admin_port=0, admin_token=TOKEN)) as running:
        yield running


def post(server: Served, target: str = "/faults/clear", **headers: str) -> tuple[int, str | None]:
    """Return the status and the error of a POST; a header `host` may have the port as `PORT`."""
    sent = {name.replace("_", "-"): value.replace("PORT", str(server.admin_port)) for name, value in headers.items()}
    status, _, body = fetch(server.admin_port, target, "POST", headers=sent)
    return status, json.loads(body)["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost"},
        {"host": "LocalHost:PORT"},
        {"host": "0.0.0.0:PORT"},
        {"host": "[::]:PORT"},
        {"host": "127.0.0.1:PORT"},
        {"host": "127.1.2.3"},
        {"host": "[::1]:PORT"},
        {"host": "localhost:PORT", "origin": "http://localhost:PORT"},
        {"host": "127.0.0.1:PORT", "origin": "http://127.0.0.1:PORT", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
    ],
    ids=str,
)
def test_a_client_of_this_machine_may_post(server: Served, headers: dict[str, str]) -> None:
    assert post(server, **headers) == (200, None)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"origin": "http://example.org"}, "Origin http://example.org is not this server"),
        ({"origin": "null"}, "Origin null"),
        ({"origin": ""}, "Origin"),
        ({"origin": "http://["}, "Origin http://["),
        ({"origin": "file://"}, "Origin file://"),
        ({"host": "localhost:PORT", "origin": "http://localhost"}, "Origin http://localhost"),
        ({"host": "localhost:PORT", "origin": "http://127.0.0.1:PORT"}, "Origin http://127.0.0.1"),
        ({"host": "localhost:PORT", "origin": "ftp://localhost:PORT"}, "Origin ftp://"),
        ({"host": "evil.example:PORT", "origin": "http://evil.example:PORT"}, "Host 'evil.example"),
        ({"host": "localhost.evil.example"}, "Host 'localhost.evil.example'"),
        ({"host": "127.0.0.1.evil.example:PORT"}, "Host '127.0.0.1.evil.example"),
        ({"host": "192.0.2.1:PORT"}, "Host '192.0.2.1"),
        ({"host": "127.0.0.1@evil.example"}, "Host '127.0.0.1@evil.example'"),
        ({"host": "[::2]"}, "Host '[::2]'"),
        ({"host": ""}, "Host ''"),
        ({"sec_fetch_site": "cross-site"}, "a page of another site"),
        ({"sec_fetch_site": "same-site"}, "a page of another site"),
        ({"x_forwarded_for": "192.0.2.1"}, "a client on another machine needs a token"),
        ({"forwarded": "for=192.0.2.1"}, "a client on another machine needs a token"),
    ],
    ids=str,
)
def test_a_foreign_page_may_not_post(server: Served, headers: dict[str, str], said: str) -> None:
    status, error = post(server, "/faults/hold?op=get", **headers)
    assert status == 403
    assert error is not None
    assert said in error
    assert json.loads(fetch(server.admin_port, "/faults")[2])["rules"] == []


@pytest.mark.parametrize(
    "sent",
    [None, TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xe9"],
    ids=str,
)
def test_a_wrong_token_is_refused(guarded: Served, sent: str | None) -> None:
    headers = {} if sent is None else {"Authorization": sent}
    status, answered, body = fetch(guarded.admin_port, "/faults/clear", "POST", headers=headers)
    assert (status, answered["WWW-Authenticate"]) == (401, 'Bearer realm="simzk"')
    assert "the token is missing or wrong" in json.loads(body)["error"]
    assert TOKEN not in body.decode()


def test_the_token_opens_from_any_host_but_not_for_another_page(guarded: Served) -> None:
    with_token = {"authorization": f"Bearer {TOKEN}"}
    assert post(guarded, **with_token) == (200, None)
    assert post(guarded, **with_token, host="zookeeper:8080", x_forwarded_for="192.0.2.1") == (200, None)
    assert post(guarded, **with_token, origin="http://example.org")[0] == 403


@pytest.mark.parametrize("verb", [*FAULTS, "none-such"])
def test_a_get_changes_nothing(server: Served, verb: str) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        assert fetch(server.admin_port, f"/faults/{verb}", method)[0] == 405


def test_commands_of_a_real_server_need_no_token(guarded: Served) -> None:
    for target in ("/commands/ruok", "/commands/stat_reset", "/metrics"):
        assert fetch(guarded.admin_port, target, headers={"Host": "any.example"})[0] == 200


def test_the_rules_are_seen_with_the_token(guarded: Served) -> None:
    assert fetch(guarded.admin_port, "/faults")[0] == 401
    assert fetch(guarded.admin_port, "/faults", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200


def request(address: str, host: str, local: str, **headers: str) -> HttpRequest:
    return HttpRequest("POST", "/faults/clear", "", {"host": host, **headers}, b"", address, local)


@pytest.mark.parametrize("address", ["192.0.2.7", "0:0:0:0:0:0:0:2", "10.0.0.1"])
def test_another_machine_needs_the_token(address: str) -> None:
    local = "192.0.2.1"
    found = AccessRules(None, "").rejection(request(address, local, local))
    assert found is not None
    assert found.status == 403
    assert "--admin-token" in found.reason
    assert AccessRules(TOKEN, "").rejection(request(address, local, local)) is not None
    assert AccessRules(TOKEN, "").rejection(request(address, "any", local, authorization=f"bearer {TOKEN}")) is None


def test_a_host_may_be_the_bound_address() -> None:
    one = "0:0:0:0:0:0:0:1"
    assert AccessRules(None, "").rejection(request(one, "192.0.2.1:8080", "::ffff:192.0.2.1")) is None
    assert AccessRules(None, "").rejection(request(one, "[2001:db8::1]:8080", "2001:db8:0::1")) is None
    assert AccessRules(None, "zk.example").rejection(request(one, "ZK.example:8080", "192.0.2.1")) is None
    assert AccessRules(None, "").rejection(request(one, "zk.example:8080", "192.0.2.1")) is not None


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_any_headers_are_judged(host: str, origin: str, authorization: str) -> None:
    for access in (AccessRules(None, ""), AccessRules(TOKEN, "")):
        access.rejection(request("127.0.0.1", host, "127.0.0.1", origin=origin, authorization=authorization))


@pytest.mark.parametrize("token", ["", "a b", "\xe9", "a\n"])
def test_a_token_that_no_header_can_have_is_refused(token: str) -> None:
    with pytest.raises(simzk.ConfigError, match="--admin-token: the token is empty"):
        AccessRules(token, "")


@pytest.mark.parametrize(
    ("lines", "is_everywhere"),
    [
        ("clientPortAddress=127.0.0.1", False),
        ("clientPortAddress=localhost", False),
        ("clientPortAddress=127.0.0.1\nadmin.serverAddress=0.0.0.0", True),
        ("clientPortAddress=0.0.0.0", True),
        ("", True),
    ],
)
def test_what_only_simzk_has_listens_where_clients_connect(lines: str, is_everywhere: bool, tmp_path: Path) -> None:
    settings = parse_zoo_cfg(f"dataDir={tmp_path}\nclientPort=0\nadmin.serverPort=0\n{lines}\n")
    with served(settings) as running:
        for host, has_page in (("127.0.0.1", True), ("127.0.0.2", is_everywhere)):
            assert fetch(running.admin_port, "/commands/ruok", host=host)[0] == 200
            assert fetch(running.admin_port, "/no/servlet", host=host)[0] == 404
            for path, method in (("/", "GET"), ("/faults", "GET"), ("/live/state", "GET"), ("/faults/clear", "POST")):
                assert (fetch(running.admin_port, path, method, host=host)[0] == 200) is has_page, (host, path)
