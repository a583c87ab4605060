"""`simzk serve` with TLS: its options, and files that cannot be used, as a script sees them."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_main import simzk
from tests.cli.test_serve import refused, serving
from tests.serve.tcp_client import word
from tests.serve.tls_files import FILES, client_tls

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CERTIFICATE, KEY = str(FILES / "server.pem"), str(FILES / "server.key")
AUTHORITY = str(FILES / "authority.pem")


def asked(port: int, *, certificate: bool) -> str:
    """Return the answer to the four-letter word srvr over TLS."""
    with (
        socket.create_connection(("127.0.0.1", port), 30) as raw,
        client_tls(certificate=certificate).wrap_socket(raw, server_hostname="localhost") as connection,
    ):
        connection.sendall(b"srvr")
        return connection.recv(100).decode()


def test_a_secure_port_beside_the_other() -> None:
    options = ("--tls-cert", CERTIFICATE, "--tls-key", KEY, "--tls-ca", AUTHORITY)
    with serving("--port", "0", "--secure-port", "0", *options) as process:
        plain, secure = process.line.removeprefix("listening on ").strip().split(",")
        assert word(int(plain.rpartition(":")[2]), b"srvr").startswith("Zookeeper version: ")
        port = int(secure.rpartition(":")[2])
        assert asked(port, certificate=True).startswith("Zookeeper version: ")
        with suppress(OSError):  # as this machine's TLS tells it
            assert asked(port, certificate=False) == ""


def test_tls_on_the_only_port_and_clients_without_certificates(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    store = ("--tls-cert", str(FILES / "server.p12"), "--tls-password-file", str(tmp_path / "password"))
    with serving("--port", "0", *store) as process:
        assert asked(process.port, certificate=False).startswith("Zookeeper version: ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--secure-port", "0"), "--secure-port: a secure port needs a certificate; expected --tls-cert FILE"),
        (("--tls-ca", AUTHORITY), "--tls-ca: it is used with --tls-cert only; expected --tls-cert FILE beside it"),
        (("--tls-cert", CERTIFICATE, "--tls-key", str(FILES / "client.key")), "the key does not match the certificate"),
        (("--tls-cert", CERTIFICATE), "server.pem: it cannot be used"),
        (("--tls-cert", "/none.pem"), "/none.pem: cannot be read: No such file or directory"),
        (("--tls-cert", CERTIFICATE, "--tls-key", str(FILES)), "tls: cannot be read: Is a directory"),
        (("--tls-cert", CERTIFICATE, "--tls-key", str(FILES / "locked.key")), "expected the password of the key"),
        (("--tls-cert", str(FILES / "server.p12")), "the password is wrong, or the file is damaged"),
        (("--tls-cert", str(FILES / "server.jks")), "the password is wrong, or the file is damaged"),
        (("--tls-cert", CERTIFICATE, "--tls-key", KEY, "--tls-ca", KEY), "server.key: it cannot be used"),
        (
            ("--tls-cert", CERTIFICATE, "--tls-client-auth", "need"),
            "no certificate of a client would be trusted; expected --tls-ca",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(options: tuple[str, ...], says: str) -> None:
    assert says in refused("--port", "0", *options)


@pytest.mark.parametrize("store", ["server.p12", "server.jks"])
def test_a_store_where_its_library_is_missing_says_what_to_type(store: str) -> None:
    done = simzk("serve", "--port", "0", "--tls-cert", str(FILES / store), without=("cryptography",))
    assert done.returncode == 2
    assert done.stderr == (
        "simzk: error: key stores need cryptography, which is not installed; "
        "expected pip install 'simzk[tls]', or PEM files\n"
    )


def test_pem_needs_no_library() -> None:
    done = simzk("serve", "--port", "0", "--tls-cert", CERTIFICATE, "--tls-key", AUTHORITY, without=("cryptography",))
    assert f"{AUTHORITY}: it cannot be used" in done.stderr


def test_a_secure_port_that_is_taken_is_one_line_and_exit_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused("--port", "0", "--secure-port", port, "--tls-cert", CERTIFICATE, "--tls-key", KEY)
    in_use = "cannot listen: Address already in use; expected a free port, or 0 for any"
    assert said == f"simzk: error: 127.0.0.1:{port}: {in_use}\n"
