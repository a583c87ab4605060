"""Java's key stores: those that keytool and OpenSSL made, in both formats, and what cannot be used."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.serve.aes import decrypt_cbc
from simzk.serve.key_store import read_jks
from simzk.serve.pkcs12 import StoreError, read_pkcs12
from simzk.serve.tls import Tls
from tests.serve.test_tls import CLIENT, FILES

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE = ssl.PEM_cert_to_DER_cert((FILES / "server.pem").read_text())


@pytest.mark.parametrize("key", ["server.jks", "server.p12", "server-by-java.p12"])
@pytest.mark.parametrize("authorities", ["authority.jks", "authority.p12"])
def test_a_client_comes_in_by_stores_of_java(key: str, authorities: str, tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("secret\n")
    tls = Tls(FILES / key, authorities=FILES / authorities, password="secret", trust_password_path=tmp_path / "pw")
    with simzk.ZooKeeperServer(tls=tls) as server:
        client = server.client(**CLIENT)
        client.start()
        assert client.create("/a", b"") == "/a"


def test_both_formats_hold_the_same() -> None:
    for read, name in ((read_jks, "server.jks"), (read_pkcs12, "server.p12"), (read_pkcs12, "server-by-java.p12")):
        contents = read((FILES / name).read_bytes(), "secret")
        assert contents.key is not None
        assert contents.certificates[0] == CERTIFICATE
        assert len(contents.certificates) == 2


def test_a_store_is_known_by_its_bytes(tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes((FILES / "server-by-java.p12").read_bytes())
    assert Tls(store, client_auth="none", password="secret").context()


@pytest.mark.parametrize(
    ("name", "password", "says"),
    [
        ("server.jks", "wrong", "the password is wrong, or the file is damaged; expected the password of the store"),
        ("server.p12", "wrong", "the password is wrong; expected the password of the store"),
        ("authority.jks", "secret", "there is no key in it"),
        ("authority.p12", "secret", "there is no key in it"),
        ("legacy.p12", "secret", "it is encrypted by an older tool"),
        ("missing.p12", "secret", "cannot be read: No such file or directory"),
    ],
)
def test_a_store_that_cannot_be_used_is_told(name: str, password: str, says: str) -> None:
    with pytest.raises(simzk.ConfigError) as told:
        Tls(FILES / name, client_auth="none", password=password).context()
    assert str(told.value).startswith(f"{FILES / name}: ")
    assert says in str(told.value)


@pytest.mark.parametrize("name", ["server.jks", "server.p12", "authority.jks", "authority.p12"])
def test_a_store_that_is_cut_or_changed_is_told(name: str) -> None:
    whole = (FILES / name).read_bytes()
    read = read_jks if name.endswith("jks") else read_pkcs12
    contents = read(whole, "secret")
    for at in range(0, len(whole), 7):
        with pytest.raises(StoreError):
            read(whole[:at], "secret")
        changed = bytearray(whole)
        changed[at] ^= 0x55
        with suppress(StoreError):  # tags that say nothing may be other ones
            assert read(bytes(changed), "secret") == contents


# NIST SP 800-38A, F.2.2, F.2.4, F.2.6.
@pytest.mark.parametrize(
    ("key", "encrypted"),
    [
        ("2b7e151628aed2a6abf7158809cf4f3c", "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"),
        (
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a",
        ),
        (
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
        ),
    ],
)
def test_aes_opens_what_its_standard_shows(key: str, encrypted: str) -> None:
    opened = decrypt_cbc(bytes.fromhex(key), bytes(range(16)), bytes.fromhex(encrypted))
    assert opened.hex() == "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
