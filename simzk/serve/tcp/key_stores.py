"""Java's key stores, as OpenSSL wants what is in them.

Rules of this module:
  - what a store is, is seen by its first bytes, as Java does where it expects JKS;
  - PKCS #12 is read by `cryptography`. JKS, which no library that is kept up reads, is read here: its container, and
    the cover of its key, which is SHA-1 and nothing more;
  - a private key is on the disk for a moment only, in a folder of this user, and encrypted, for there is no other way
    to hand it over.

Source: sun.security.provider.JavaKeyStore and KeyProtector; X509Util, StandardTypeFileKeyStoreLoader.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import ssl
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError
from simzk.serve.tcp.tls import read_store

try:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12
except ImportError as missing:
    raise ConfigError(
        "key stores need cryptography, which is not installed", right="pip install 'simzk[tls]', or PEM files"
    ) from missing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _CERTIFICATE = 1, 2
_COVERED = bytes.fromhex("060a2b060104012a021101010500")
"""Of a key in JKS what it is covered by, 1.3.6.1.4.1.42.2.17.1.1 without parameters, DER."""
_SALT_BYTES = _SEAL_BYTES = hashlib.sha1(usedforsecurity=False).digest_size


class StoreError(ValueError):
    """A store that cannot be read; its text says why."""


class Contents(NamedTuple):
    """What a store holds.

    Attributes:
        key: the first private key, or None.
        chain: the certificate of that key and those by which it was issued, in order, DER.
        others: the other certificates, DER.
    """

    key: PrivateKeyTypes | None
    chain: list[bytes]
    others: list[bytes]


def load_key(context: ssl.SSLContext, path: Path, password: str) -> None:
    """Give a context the key of a store, and its certificates.

    Raises:
        ConfigError: it cannot be read or used, the password is wrong, or there is no key in it.
    """
    contents = _contents(path, password)
    if contents.key is None or not contents.chain:
        raise ConfigError("there is no key in it", where=str(path), right="a key and its certificate")
    passing = secrets.token_hex()
    key = contents.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passing.encode()),
    )
    lines = [key.decode(), *map(ssl.DER_cert_to_PEM_cert, contents.chain)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "key.pem")
            file.touch(mode=0o600)
            file.write_text("".join(lines), encoding="ascii")
            context.load_cert_chain(file, password=passing)
    except ssl.SSLError as error:
        raise ConfigError(
            f"it cannot be used ({error.reason})", where=str(path), right="a key and its certificate"
        ) from error


def load_authorities(context: ssl.SSLContext, path: Path, password: str) -> None:
    """Let a context trust the certificates of a store.

    Raises:
        ConfigError: it cannot be read or used, the password is wrong, or there are none.
    """
    contents = _contents(path, password)
    trusted = contents.chain + contents.others
    if not trusted:
        raise ConfigError("there is no certificate in it", where=str(path), right="certificates to trust")
    try:
        context.load_verify_locations(cadata=b"".join(trusted))
    except ssl.SSLError as error:
        raise ConfigError(f"it cannot be used ({error.reason})", where=str(path), right="certificates") from error


def _contents(path: Path, password: str) -> Contents:
    data = read_store(path)
    try:
        return read_jks(data, password) if data.startswith(_JKS_MAGIC) else read_pkcs12(data, password)
    except StoreError as error:
        right = "the password of the store" if "password" in str(error) else "a key store of Java's"
        raise ConfigError(f"it cannot be used: {error}", where=str(path), right=right) from error


def read_pkcs12(data: bytes, password: str) -> Contents:
    """What a store holds in the format of Java since 9.

    Raises:
        StoreError: it is none that the library reads, is cut, or the password is wrong.
    """
    try:
        store = pkcs12.load_pkcs12(data, password.encode())
        certificates = [one.certificate for one in (store.cert, *store.additional_certs) if one is not None]
        chain = _chain(certificates) if store.key is not None else []
    except (ValueError, UnsupportedAlgorithm) as error:
        if "password" in str(error):
            raise StoreError("the password is wrong, or the file is damaged") from error
        raise StoreError(f"it is no PKCS #12 that can be read ({error})") from error
    others = [one for one in certificates if one not in chain]
    der = serialization.Encoding.DER
    return Contents(store.key, [one.public_bytes(der) for one in chain], [one.public_bytes(der) for one in others])


def _chain(certificates: list[Certificate]) -> list[Certificate]:
    """Of these certificates the first, and those by which it was issued, in order."""
    by_subject = {certificate.subject: certificate for certificate in certificates}
    found = certificates[:1]
    while found:
        following = by_subject.get(found[-1].issuer)
        if following is None or following in found:
            break
        found.append(following)
    return found


def read_jks(data: bytes, password: str) -> Contents:
    """What a store in Java's older format holds.

    Raises:
        StoreError: it is none, is cut, or the password is wrong.
    """
    secret = password.encode("utf-16-be")
    whole, seal = data[:-_SEAL_BYTES], data[-_SEAL_BYTES:]
    if not hmac.compare_digest(_digest(secret + b"Mighty Aphrodite" + whole), seal):
        raise StoreError("the password is wrong, or the file is damaged")
    reader = _Reader(whole)
    version, count = reader.number(">i"), reader.number(">i")
    key: PrivateKeyTypes | None = None
    chain: list[bytes] = []
    others: list[bytes] = []
    for _ in range(count):
        kind = reader.number(">i")
        reader.piece(">H")  # its alias
        reader.number(">q")  # when it was made
        if kind == _KEY:
            covered = reader.piece(">i")
            found = [reader.certificate(version) for _ in range(reader.number(">i"))]
            if key is None:
                key, chain = _private_key(_uncovered(covered, secret)), found
        elif kind == _CERTIFICATE:
            others.append(reader.certificate(version))
        else:
            raise StoreError("it holds what is neither a key nor a certificate")
    return Contents(key, chain, others)


class _Reader:
    """Reads the fields of a JKS one after another."""

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


def _uncovered(covered: bytes, secret: bytes) -> bytes:
    """A private key out of an EncryptedPrivateKeyInfo of Sun's own making (KeyProtector)."""
    octets = covered.partition(_COVERED)[2]  # an OCTET STRING, DER: its tag, its length, what it holds
    if len(octets) < 2:
        raise StoreError("its key is encrypted by something that is not known")
    begin = 2 + (octets[1] & 0x7F if octets[1] & 0x80 else 0)
    protected = octets[begin:]
    salt, hidden, seal = protected[:_SALT_BYTES], protected[_SALT_BYTES:-_SEAL_BYTES], protected[-_SEAL_BYTES:]
    stream, block = b"", salt
    while len(stream) < len(hidden):
        block = _digest(secret + block)
        stream += block
    key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(_digest(secret + key), seal):
        raise StoreError("the password of its key is another one")
    return key


def _private_key(der: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_der_private_key(der, None)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise StoreError(f"its key is of a kind that is not known ({error})") from error


def _digest(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()
