"""Java's key stores, as OpenSSL wants what is in them.

Rules of this module:
  - what a store is, is seen by its first bytes, as Java does where it expects JKS;
  - a private key is on the disk for a moment only, in a folder of this user, for there is no other way to hand it over.

Source: sun.security.provider.JavaKeyStore and KeyProtector; X509Util, StandardTypeFileKeyStoreLoader.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
import struct
import tempfile
from pathlib import Path

from simzk.errors import ConfigError
from simzk.serve.pkcs12 import Contents, StoreError, chain, items, read_pkcs12
from simzk.serve.tls import read_store

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _CERTIFICATE = 1, 2
_SALT_BYTES = 20


def load_key(context: ssl.SSLContext, path: Path, password: str) -> None:
    """Give a context the key of a store, and its certificates.

    Raises:
        ConfigError: it cannot be read or used, the password is wrong, or there is no key in it.
    """
    contents = _contents(path, password)
    if contents.key is None or not contents.certificates:
        raise ConfigError("there is no key in it", where=str(path), right="a key and its certificate")
    try:
        kind = "ENCRYPTED PRIVATE KEY" if contents.is_encrypted else "PRIVATE KEY"
        lines = [_pem(kind, contents.key), *(_pem("CERTIFICATE", one) for one in chain(contents.certificates))]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "key.pem")
            file.touch(mode=0o600)
            file.write_text("".join(lines), encoding="ascii")
            context.load_cert_chain(file, password=password)
    except (ssl.SSLError, StoreError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
        raise ConfigError(
            f"it cannot be used ({reason})", where=str(path), right="a key and its certificate"
        ) from error


def load_authorities(context: ssl.SSLContext, path: Path, password: str) -> None:
    """Let a context trust the certificates of a store.

    Raises:
        ConfigError: it cannot be read or used, the password is wrong, or there are none.
    """
    contents = _contents(path, password)
    if not contents.certificates:
        raise ConfigError("there is no certificate in it", where=str(path), right="certificates to trust")
    try:
        context.load_verify_locations(cadata=b"".join(contents.certificates))
    except ssl.SSLError as error:
        raise ConfigError(f"it cannot be used ({error.reason})", where=str(path), right="certificates") from error


def _contents(path: Path, password: str) -> Contents:
    data = read_store(path)
    try:
        return read_jks(data, password) if data.startswith(_JKS_MAGIC) else read_pkcs12(data, password)
    except StoreError as error:
        right = "the password of the store" if "password" in str(error) else "a key store of Java's"
        raise ConfigError(f"it cannot be used: {error}", where=str(path), right=right) from error


def read_jks(data: bytes, password: str) -> Contents:
    """What a store in Java's older format holds.

    Raises:
        StoreError: it is none, is cut, or the password is wrong.
    """
    secret = password.encode("utf-16-be")
    whole, seal = data[:-20], data[-20:]
    if not hmac.compare_digest(
        hashlib.sha1(secret + b"Mighty Aphrodite" + whole, usedforsecurity=False).digest(), seal
    ):
        raise StoreError("the password is wrong, or the file is damaged")
    reader = _Reader(whole)
    version, count = reader.number(">i"), reader.number(">i")
    key: bytes | None = None
    of_key: list[bytes] = []
    certificates: list[bytes] = []
    for _ in range(count):
        kind = reader.number(">i")
        reader.piece(">H")  # its alias
        reader.number(">q")  # when it was made
        if kind == _KEY:
            encrypted = reader.piece(">i")
            found = [reader.certificate(version) for _ in range(reader.number(">i"))]
            if key is None:
                key, of_key = _unprotected(encrypted, secret), found
        elif kind == _CERTIFICATE:
            certificates.append(reader.certificate(version))
        else:
            raise StoreError("it holds what is neither a key nor a certificate")
    return Contents(key, False, of_key + certificates)


class _Reader:
    """Reads the fields of a store one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_JKS_MAGIC)

    def number(self, form: str) -> int:
        """The next number, in a form of `struct`."""
        try:
            (number,) = struct.unpack_from(form, self._data, self._at)
        except struct.error:
            raise StoreError("it ends in the middle") from None
        assert isinstance(number, int)
        self._at += struct.calcsize(form)
        return number

    def piece(self, form: str) -> bytes:
        """The next piece, which is as long as the number before it says."""
        length = self.number(form)
        piece = self._data[self._at : self._at + length]
        if length < 0 or len(piece) != length:
            raise StoreError("it ends in the middle")
        self._at += length
        return piece

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.piece(">H")  # its type, X.509
        return self.piece(">i")


def _unprotected(encrypted: bytes, secret: bytes) -> bytes:
    """A private key out of an EncryptedPrivateKeyInfo of Sun's own making (KeyProtector)."""
    _, protected = (item.value for item in items(next(items(encrypted)).value))
    salt, hidden, seal = protected[:_SALT_BYTES], protected[_SALT_BYTES:-_SALT_BYTES], protected[-_SALT_BYTES:]
    stream, block = b"", salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if hashlib.sha1(secret + key, usedforsecurity=False).digest() != seal:
        raise StoreError("the password of its key is another one")
    return key


def _pem(kind: str, data: bytes) -> str:
    lines = base64.encodebytes(data).decode()
    return f"-----BEGIN {kind}-----\n{lines}-----END {kind}-----\n"
