"""SASL DIGEST-MD5: kazoo logs in, in memory and over TCP; errors are those of a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    InvalidACLError,
    NoAuthError,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState
from kazoo.security import make_acl

import simzk
from simzk.serve.configuration.file_formats import parse_jaas, read_jaas
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Closed, Code, Reply
from simzk.zookeeper.requests import ACL, Id
from simzk.zookeeper.sasl import DigestMd5, SaslError
from tests.cli.test_serve import refused, serving
from tests.conformance.simulated_arms import SimulatedArm
from tests.serve.tcp_client import TcpClient
from tests.waiting import Reports

if TYPE_CHECKING:
    from pathlib import Path

USERS = {"alice": "secret", "super": "root"}


def options(user: str, password: str) -> dict[str, object]:
    return {"sasl_options": {"mechanism": "DIGEST-MD5", "username": user, "password": password}}


@pytest.mark.parametrize("kind", [simzk.ZooKeeper, simzk.ZooKeeperServer])
def test_kazoo_logs_in_and_is_known(kind: type[simzk.ZooKeeper | simzk.ZooKeeperServer]) -> None:
    pytest.importorskip("puresasl")
    with kind(sasl_users=USERS) as server:
        client, other = server.client(**options("alice", "secret")), server.client()
        client.start()
        other.start()
        client.create("/mine", b"x", acl=[make_acl("sasl", "alice", all=True)])
        assert client.get("/mine")[0] == b"x"
        with pytest.raises(NoAuthError):
            other.get("/mine")
        root = server.client(**options("super", "root"))
        root.start()
        assert root.get("/mine")[0] == b"x"
        with pytest.raises(InvalidACLError):
            client.create("/bad", b"", acl=[make_acl("sasl", "a@b@c", all=True)])


@pytest.mark.parametrize("kind", [simzk.ZooKeeper, simzk.ZooKeeperServer])
def test_who_logged_in_is_known_again_after_a_lost_connection(
    kind: type[simzk.ZooKeeper | simzk.ZooKeeperServer],
) -> None:
    pytest.importorskip("puresasl")
    with kind(sasl_users=USERS) as server:
        client = server.client(**options("alice", "secret"))
        client.start()
        client.create("/mine", b"x", acl=[make_acl("sasl", "alice", all=True)])
        server.disconnect(client)
        assert client.retry(client.get, "/mine")[0] == b"x"


@pytest.mark.parametrize("kind", [simzk.ZooKeeper, simzk.ZooKeeperServer])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret")])
def test_kazoo_gets_an_authentication_failure(
    kind: type[simzk.ZooKeeper | simzk.ZooKeeperServer], user: str, password: str
) -> None:
    pytest.importorskip("puresasl")
    with kind(sasl_users=USERS) as server:
        client = server.client(**options(user, password))
        states = Reports()
        client.add_listener(states)
        client.start_async()
        # For kazoo it is connected before it has logged in.
        assert [states.next(), states.next()] == [KazooState.CONNECTED, KazooState.LOST]
        # What is asked then fails as the login does, or finds the client stopped by it.
        with pytest.raises((AuthFailedError, ConnectionClosedError, SessionExpiredError)):
            client.get("/")


def test_an_exchange_of_the_real_server_is_answered_alike() -> None:
    # What a real 3.9.5 and pure-sasl said to each other.
    nonce = "HkNE+08UmjBHU2J07oZGHm+BhS76LtGHJaihQmaG"
    exchange = DigestMd5({"jaasuser": "jaas_password"}, nonce)
    challenge = f'realm="zk-sasl-md5",nonce="{nonce}",charset=utf-8,algorithm=md5-sess'
    assert exchange.answer(b"whatever") == challenge.encode()
    response = (
        f'qop=auth,realm="zk-sasl-md5",username="jaasuser",nonce="{nonce}",cnonce="978173533934182",nc=00000001,'
        'digest-uri="zookeeper/zk-sasl-md5",response=6f6059f0c76372fa44e1d06937e2e780'
    )
    assert exchange.answer(response.encode()) == b"rspauth=a3f516dc0aba50cf776406fb08d40527"
    assert exchange.user == "jaasuser"
    with pytest.raises(SaslError):
        exchange.answer(b"")
    for broken in (response[:-1], response.replace("nc=00000001", "nc=00000002"), "", response + ",qop=auth", "é="):
        again = DigestMd5({"jaasuser": "jaas_password"}, nonce)
        again.answer(b"")
        with pytest.raises(SaslError):
            again.answer(broken.encode())
        assert again.user is None


class Story:
    """One client of a server with these users."""

    def __init__(self, *, requires_sasl: bool = False, users: dict[str, str] | None = USERS) -> None:
        self.arm = SimulatedArm(
            ServerConfig(sasl_users=users, required_schemes=("sasl",) if requires_sasl else ()), zxid=0
        )
        self.arm.connect(1, req.ConnectRequest(0, 0, 30_000, 0, bytes(16), False))
        self._xid = 0

    def ask(self, *requests: req.Request) -> list[object]:
        seen = len(self.arm.streams[1])
        self.arm.send(1, [(self._xid + number, asked) for number, asked in enumerate(requests, 1)])
        self._xid += len(requests)
        return list(self.arm.streams[1][seen:])


def test_a_failed_login_ends_the_connection() -> None:
    story = Story()
    assert isinstance(story.ask(req.Sasl(b""))[0], Reply)
    assert story.ask(req.Sasl(b"nonsense"), req.Ping()) == [Reply(2, 0, Code.AUTH_FAILED, None), Closed()]


def test_a_failed_login_is_answered_with_a_null_token_too() -> None:
    """Without it the Java client takes the connection for lost (ZooKeeperServer.processSasl)."""
    with simzk.ZooKeeperServer(sasl_users=USERS) as server, TcpClient(server.port) as client:
        client.connect()
        assert client.ask(req.Sasl(b"")).error == 0
        client.send(req.Sasl(b"nonsense"))
        assert client.rest().hex() == f"00000014000000020000000000000000{Code.AUTH_FAILED & 0xFFFFFFFF:08x}ffffffff"


def test_a_null_token_ends_it_without_a_word() -> None:
    assert Story().ask(req.Sasl(None)) == [Closed()]
    assert Story(users=None).ask(req.Sasl(b""), req.Sasl(None)) == [Reply(1, 0, 0, None), Closed()]


def test_sasl_is_no_scheme_of_auth() -> None:
    assert Story().ask(req.Auth(0, "sasl", b"")) == [Reply(1, 0, Code.AUTH_FAILED, None), Closed()]


@pytest.mark.parametrize(
    "asked", [req.Ping(), req.GetData("/", False), req.CloseSession(), req.Create("/a", b"", req.OPEN_ACL, 0)]
)
def test_who_must_log_in_can_do_nothing_else(asked: req.Request) -> None:
    story = Story(requires_sasl=True)
    assert story.ask(req.Auth(0, "digest", b"a:b")) == [Reply(1, 0, 0, None)]
    code = Code.SESSION_CLOSED_REQUIRE_SASL_AUTH
    assert story.ask(asked, req.Sync("/")) == [Reply(2, 0, code, None), Closed()]
    assert story.arm.server.zxid == 1


def test_a_failed_required_login_is_reported() -> None:
    story = Story(requires_sasl=True)
    story.ask(req.Sasl(b""))
    assert story.ask(req.Sasl(b""))[0] == Reply(2, 0, Code.SESSION_CLOSED_REQUIRE_SASL_AUTH, None)


@pytest.mark.parametrize(
    ("name", "error"),
    [*((name, 0) for name in ("", "a", "a/b@C", "a b", "a@", "/x", "@x", "a/b/c")), ("x@y/z", -114), ("a@b@c", -114)],
)
def test_which_names_may_stand_in_an_acl(name: str, error: int) -> None:
    # As a real 3.9.5 answered.
    (reply,) = Story().ask(req.Create("/a", b"", (ACL(31, Id("sasl", name)),), 0))
    assert isinstance(reply, Reply)
    assert reply.error == error


JAAS = """
/* the server's part */
Client { some.Module required user_mallory="no"; };
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    // user_old="gone"
    user_alice="se//cr}et"
    user_bob="with \\"quotes\\"";
};
"""


def test_users_are_read_from_the_real_servers_file() -> None:
    assert parse_jaas(JAAS) == {"alice": "se//cr}et", "bob": 'with "quotes"'}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the section Server is missing"),
        ("Server { a.B required; };", "lists no user"),
        ('Client{user_a="b";};', "the section Server is missing"),
    ],
)
def test_a_file_without_users_is_refused(text: str, says: str) -> None:
    with pytest.raises(simzk.ConfigError, match=says):
        parse_jaas(text)


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(simzk.ConfigError, match="cannot be read"):
        read_jaas(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(simzk.ConfigError, match="not a text file"):
        read_jaas(tmp_path / "binary")


def test_simzk_serve_takes_the_file(tmp_path: Path) -> None:
    jaas, config = tmp_path / "jaas.conf", tmp_path / "zoo.cfg"
    jaas.write_text(JAAS)
    config.write_text(
        f"dataDir={tmp_path}/data\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        "sessionRequireClientSASLAuth=true\n"
    )
    assert "the required authentication scheme 'sasl' is not configured" in refused("--config", str(config))
    with serving("--config", str(config), "--jaas", str(jaas)) as process, TcpClient(process.port) as client:
        client.connect()
        assert client.ask(req.Sync("/")).error == Code.SESSION_CLOSED_REQUIRE_SASL_AUTH
