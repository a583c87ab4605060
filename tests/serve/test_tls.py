"""TLS of the TCP server: kazoo, x509 identities, keys of zoo.cfg, unusable files."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from kazoo.exceptions import AuthFailedError, InvalidACLError, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_acl

import simzk
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from simzk.serve.tcp.tls import Tls, subject_of
from simzk.zookeeper.acl import SCHEMES
from tests.cli.test_serve import refused, serving
from tests.serve.tcp_client import word
from tests.serve.tls_files import FILES, client_tls

SUBJECT = r"1.2.840.113549.1.9.1=#160d63406578616d706c652e6f7267,OU=a,O=simzk\, tests,C=NL"
"""Of client.pem, as Java's X500Principal.getName() gives it."""

TLS = Tls(FILES / "server.pem", FILES / "server.key", FILES / "authority.pem")
CLIENT = {
    "use_ssl": True,
    "ca": str(FILES / "authority.pem"),
    "certfile": str(FILES / "client.pem"),
    "keyfile": str(FILES / "client.key"),
}


def test_kazoo_over_tls_is_known_by_its_certificate() -> None:
    with simzk.ZooKeeperServer(tls=TLS) as server:
        client = server.client(**CLIENT)
        client.start()
        client.create("/mine", b"x", acl=[make_acl("x509", SUBJECT, all=True)])
        assert client.get("/mine")[0] == b"x"
        client.create("/another's", acl=[make_acl("x509", "CN=another", all=True)])
        with pytest.raises(NoAuthError):
            client.get("/another's")
        client.create("/auth", acl=[make_acl("auth", "", all=True)])
        assert [entry.id.id for entry in client.get_acls("/auth")[0]] == [SUBJECT]
        assert client.add_auth("x509", "")
        with pytest.raises(InvalidACLError):
            client.create("/bad", acl=[make_acl("x509", "no name", all=True)])


def test_large_frames_pass_tls() -> None:
    with simzk.ZooKeeperServer(tls=TLS) as server:
        client = server.client(**CLIENT)
        client.start()
        client.create("/large", bytes(1_000_000))
        assert [len(client.get("/large")[0]) for _ in range(5)] == [1_000_000] * 5
        server.disconnect(client)
        assert len(client.retry(client.get, "/large")[0]) == 1_000_000


@pytest.mark.parametrize("servers", [1, 3])
def test_a_secure_port_beside_the_other(servers: int) -> None:
    with simzk.ZooKeeperServer(servers=servers, tls=TLS, secure_port=0) as server:
        plain, secure = server.client(), server.client(**CLIENT)
        plain.start()
        secure.start()
        assert (len(server.hosts.split(",")), len(server.secure_hosts.split(","))) == (servers, servers)
        secure.create("/mine", b"x", acl=[make_acl("x509", SUBJECT, all=True)])
        plain.sync("/mine")
        with pytest.raises(NoAuthError):
            plain.get("/mine")
        server.disconnect(secure)
        assert secure.retry(secure.get, "/mine")[0] == b"x"


def test_a_server_that_starts_again_has_its_secure_port_again() -> None:
    with simzk.ZooKeeperServer(servers=3, tls=TLS, secure_port=0) as server:
        server.ensemble.stop(1)
        server.ensemble.start(1)
        client = server.client(hosts=server.ensemble.hosts(1), **CLIENT)
        client.start()
        assert [str(port) for _, port in client.hosts] == [server.secure_hosts.split(",")[0].rpartition(":")[2]]
        assert client.client_id[0] >> 56 == 1


def test_a_secure_port_needs_a_key() -> None:
    with pytest.raises(simzk.ConfigError, match="needs a key"):
        simzk.ZooKeeperServer(secure_port=0)


def test_who_is_a_stranger_or_shows_nothing_is_not_let_in() -> None:
    with simzk.ZooKeeperServer(tls=TLS) as server:
        stranger = {**CLIENT, "certfile": str(FILES / "stranger.pem"), "keyfile": str(FILES / "stranger.key")}
        for options in (stranger, {**CLIENT, "certfile": None, "keyfile": None}, {"use_ssl": False}):
            client = server.client(**options)
            with pytest.raises(KazooTimeoutError):
                client.start(timeout=1)
        assert len(server.server.sessions) == 0


def test_a_client_that_need_not_show_a_certificate_has_no_identity() -> None:
    tls = Tls(FILES / "server-and-key.pem", client_auth="none")
    with simzk.ZooKeeperServer(tls=tls) as server:
        client = server.client(ca=str(FILES / "authority.pem"))
        client.start()
        client.create("/open", b"x")
        with pytest.raises(AuthFailedError):
            client.add_auth("x509", "")


def test_without_tls_nobody_can_be_named_by_a_certificate() -> None:
    with simzk.ZooKeeper() as zookeeper:
        client = zookeeper.client()
        client.start()
        with pytest.raises(InvalidACLError):
            client.create("/mine", b"x", acl=[make_acl("x509", SUBJECT, all=True)])


@pytest.mark.parametrize(
    ("certificate", "key", "password", "says"),
    [
        ("server.pem", "client.key", None, "the key does not match the certificate; expected the key of"),
        ("server.pem", "missing.key", None, "missing.key: cannot be read: No such file or directory"),
        ("server.pem", "../../test_tls.py", None, "not a PEM file"),
        ("server.pem", "server.pem", None, "it cannot be used"),
        ("server.pem", "locked.key", None, "expected the password of the key"),
        ("server.pem", "locked.key", "wrong", "expected the password of the key"),
    ],
)
def test_an_unusable_file_is_reported(certificate: str, key: str, password: str | None, says: str) -> None:
    tls = Tls(FILES / certificate, FILES / key, FILES / "authority.pem", password=password)
    with pytest.raises(simzk.ConfigError) as reported:
        simzk.ZooKeeperServer(tls=tls)
    assert says in str(reported.value)


def test_a_key_with_its_password_is_taken() -> None:
    assert Tls(FILES / "server.pem", FILES / "locked.key", client_auth="none", password="secret").context()


def zoo_cfg(folder: Path, *lines: str) -> Path:
    path = folder / "zoo.cfg"
    path.write_text("\n".join([f"dataDir={folder}/data", "admin.enableServer=false", *lines, ""]))
    return path


def test_a_zoo_cfg_opens_a_secure_port_beside_the_other(tmp_path: Path) -> None:
    lines = (
        "clientPort=0",
        "clientPortAddress=127.0.0.1",
        "secureClientPort=0",
        f"ssl.keyStore.location={FILES / 'server-and-key.pem'}",
        f"ssl.trustStore.location={FILES / 'authority.pem'}",
    )
    with serving("--config", str(zoo_cfg(tmp_path, *lines))) as process:
        plain, secure = process.line.removeprefix("listening on ").strip().split(",")
        assert word(int(plain.rpartition(":")[2]), b"srvr").startswith("Zookeeper version: 3.9.5")
        address = ("127.0.0.1", int(secure.rpartition(":")[2]))
        with (
            socket.create_connection(address, 30) as raw,
            client_tls().wrap_socket(raw, server_hostname="localhost") as connection,
        ):
            connection.sendall(b"srvr")
            assert connection.recv(100).startswith(b"Zookeeper version: 3.9.5")


def test_a_key_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes((FILES / "server.pem").read_bytes() + (FILES / "client.key").read_bytes())
    config = zoo_cfg(tmp_path, "secureClientPort=0", f"ssl.keyStore.location={both}", "ssl.clientAuth=none")
    assert f"{both}: the key does not match the certificate" in refused("--config", str(config))


def test_only_a_secure_port() -> None:
    text = "dataDir=/z\nsecureClientPort=2281\nssl.keyStore.location=/k.pem\nssl.clientAuth=none\n"
    settings = parse_zoo_cfg(text)
    assert (settings.port, settings.secure_port, settings.server.x509) == (2281, None, True)
    assert settings.tls == Tls(Path("/k.pem"), client_auth="none", protocols=("TLSv1.3",))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "a secure port needs a key"),
        ("ssl.keyStore.location=/k.der", "its type is unknown; expected ssl.keyStore.type"),
        ("ssl.keyStore.location=/k\nssl.clientAuth=perhaps", "invalid ssl.clientAuth: 'perhaps'"),
    ],
)
def test_an_invalid_zoo_cfg_is_reported(line: str, says: str) -> None:
    with pytest.raises(simzk.ConfigError) as reported:
        parse_zoo_cfg(f"dataDir=/z\nsecureClientPort=2281\n{line}\n")
    assert says in str(reported.value)


def test_a_subject_is_written_as_java_writes_it() -> None:
    names = ((("organizationName", " a"), ("commonName", "b")), (("commonName", '#<"+;>\\ '),))
    assert subject_of({"subject": names}) == r"CN=\#\<\"\+\;\>\\\ ,O=\ a+CN=b"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (SUBJECT.split(",", 1)[1], True),
        ("", True),
        ("CN=a, O=b", True),
        ("1.2.3=x", True),
        ("a", False),
        ("FOO=a", False),
    ],
)
def test_which_names_java_takes(text: str, valid: bool) -> None:
    assert SCHEMES["x509"].is_valid(text) is valid


def test_protocols_and_ciphers_are_those_of_the_file(tmp_path: Path) -> None:
    keys = f"ssl.keyStore.location={FILES / 'server-and-key.pem'}\nssl.clientAuth=none\n"
    least = f"dataDir={tmp_path}\nclientPort=0\nsecureClientPort=0\n{keys}"
    tls = parse_zoo_cfg(least).tls
    assert tls is not None
    context = tls.context()
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    more = "ssl.enabledProtocols=TLSv1.3, TLSv1.2\nssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n"
    tls = parse_zoo_cfg(least + more).tls
    assert tls is not None
    context = tls.context()
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert "ECDHE-RSA-AES128-GCM-SHA256" in {cipher["name"] for cipher in context.get_ciphers()}
    assert "ECDHE-RSA-AES256-GCM-SHA384" not in {cipher["name"] for cipher in context.get_ciphers()}


@pytest.mark.parametrize(
    ("tls", "says"),
    [
        (Tls(FILES / "server-and-key.pem", client_auth="none", protocols=("TLSv9",)), "unknown protocol 'TLSv9'"),
        (Tls(FILES / "server-and-key.pem", client_auth="none", ciphers=("TLS_X_WITH_Y",)), "unknown cipher suites TLS"),
        (Tls(FILES / "server-and-key.pem", client_auth="none", password_path=FILES / "none"), "none: cannot be read"),
    ],
)
def test_unsupported_tls_options_are_reported(tls: Tls, says: str) -> None:
    with pytest.raises(simzk.ConfigError) as reported:
        tls.context()
    assert says in str(reported.value)
