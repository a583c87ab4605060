"""Java's key stores of keytool and OpenSSL, in both formats, and unusable ones."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import simzk
from simzk.serve.tcp.key_stores import Contents, StoreError, read_jks, read_pkcs12
from simzk.serve.tcp.tls import Tls
from tests.serve.test_tls import CLIENT
from tests.serve.tls_files import FILES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("key", ["server.jks", "server.p12", "server-by-java.p12", "legacy.p12"])
@pytest.mark.parametrize("authorities", ["authority.jks", "authority.p12"])
def test_a_client_comes_in_by_stores_of_java(key: str, authorities: str, tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("secret\n")
    tls = Tls(FILES / key, authorities=FILES / authorities, password="secret", trust_password_path=tmp_path / "pw")
    with simzk.ZooKeeperServer(tls=tls) as server:
        client = server.client(**CLIENT)
        client.start()
        assert client.create("/a", b"") == "/a"


def held(contents: Contents) -> tuple[bytes, list[bytes], list[bytes]]:
    """Return the content of a store in a comparable form."""
    key = b"" if contents.key is None else contents.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key, contents.chain, contents.others


def test_both_formats_hold_the_same() -> None:
    key = (FILES / "server.key").read_bytes()
    chain = [ssl.PEM_cert_to_DER_cert((FILES / name).read_text()) for name in ("server.pem", "authority.pem")]
    for read, name in ((read_jks, "server.jks"), (read_pkcs12, "server.p12"), (read_pkcs12, "server-by-java.p12")):
        assert held(read((FILES / name).read_bytes(), "secret")) == (key, chain, [])
    for read, name in ((read_jks, "authority.jks"), (read_pkcs12, "authority.p12")):
        assert held(read((FILES / name).read_bytes(), "secret")) == (b"", [], chain[1:])


def test_a_store_is_known_by_its_bytes(tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes((FILES / "server-by-java.p12").read_bytes())
    assert Tls(store, client_auth="none", password="secret").context()


@pytest.mark.parametrize(
    ("name", "password", "says"),
    [
        ("server.jks", "wrong", "the password is wrong, or the file is damaged; expected the password of the store"),
        ("server.p12", "wrong", "the password is wrong, or the file is damaged; expected the password of the store"),
        ("authority.jks", "secret", "it contains no key"),
        ("authority.p12", "secret", "it contains no key"),
        ("missing.p12", "secret", "cannot be read: No such file or directory"),
    ],
)
def test_an_unusable_store_is_reported(name: str, password: str, says: str) -> None:
    with pytest.raises(simzk.ConfigError) as reported:
        Tls(FILES / name, client_auth="none", password=password).context()
    assert str(reported.value).startswith(f"{FILES / name}: ")
    assert says in str(reported.value)


def test_a_file_of_another_format_is_reported() -> None:
    with pytest.raises(
        simzk.ConfigError, match=r"not a PKCS #12 file that can be parsed \(.*\); expected a key store of Java's"
    ):
        Tls(FILES / "server.pem", client_auth="none", key_store_type="pkcs12", password="secret").context()


@pytest.mark.parametrize("name", ["server.jks", "server.p12", "authority.jks", "authority.p12"])
def test_a_truncated_or_changed_store_is_reported(name: str) -> None:
    whole = (FILES / name).read_bytes()
    read = read_jks if name.endswith("jks") else read_pkcs12
    contents = held(read(whole, "secret"))
    for at in range(0, len(whole), 7):
        with pytest.raises(StoreError):
            read(whole[:at], "secret")
        changed = bytearray(whole)
        changed[at] ^= 0x55
        with suppress(StoreError):  # tags that say nothing may be other ones
            assert held(read(bytes(changed), "secret")) == contents
