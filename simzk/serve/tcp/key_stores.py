"""Java's key stores, JKS and PKCS #12, loaded into an `ssl.SSLContext`.

Rules of this module:
  - the format of a store is recognised by its first bytes, as Java does where it expects JKS;
  - PKCS #12 is parsed by `cryptography`. JKS, which no maintained library parses, is parsed here: its container, and
    the encryption of its key, which is a SHA-1 stream;
  - `ssl` loads private keys from files only, so a key is written to a temporary file for a moment, encrypted and
    readable by this user only.

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

try:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12
except ImportError as missing:
    right = "pip install 'simzk[tls]', or PEM files"
    raise ConfigError("key stores need cryptography, which is not installed", right=right) from missing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _CERTIFICATE = 1, 2
_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a021101010500")
"""AlgorithmIdentifier of an encrypted key in JKS: 1.3.6.1.4.1.42.2.17.1.1 without parameters, DER."""
_SALT_BYTES = _DIGEST_BYTES = hashlib.sha1(usedforsecurity=False).digest_size


class StoreError(ValueError):
    """A store cannot be parsed, for the reason in the text."""


class Contents(NamedTuple):
    """Keys and certificates of a store.

    Attributes:
        key: the first private key, or None.
        chain: the certificate of that key, then those of its issuers, in order, DER.
        others: the other certificates, DER.
    """

    key: PrivateKeyTypes | None
    chain: list[bytes]
    others: list[bytes]


def load_key(context: ssl.SSLContext, path: Path, data: bytes, password: str) -> None:
    """Load the key of a store and its certificates into a context; `data` is the content of the file.

    Raises:
        ConfigError: it cannot be parsed or used, the password is wrong, or it contains no key.
    """
    contents = _contents(path, data, password)
    if contents.key is None or not contents.chain:
        raise ConfigError("it contains no key", where=str(path), right="a key and its certificate")
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
        right = "a key and its certificate"
        raise ConfigError(f"it cannot be used ({error.reason})", where=str(path), right=right) from error


def load_authorities(context: ssl.SSLContext, path: Path, data: bytes, password: str) -> None:
    """Load the certificates of a store into a context as trusted; `data` is the content of the file.

    Raises:
        ConfigError: it cannot be parsed or used, the password is wrong, or it contains no certificate.
    """
    contents = _contents(path, data, password)
    trusted = contents.chain + contents.others
    if not trusted:
        raise ConfigError("it contains no certificate", where=str(path), right="certificates to trust")
    try:
        context.load_verify_locations(cadata=b"".join(trusted))
    except ssl.SSLError as error:
        raise ConfigError(f"it cannot be used ({error.reason})", where=str(path), right="certificates") from error


def _contents(path: Path, data: bytes, password: str) -> Contents:
    try:
        return read_jks(data, password) if data.startswith(_JKS_MAGIC) else read_pkcs12(data, password)
    except StoreError as error:
        right = "the password of the store" if "password" in str(error) else "a key store of Java's"
        raise ConfigError(f"it cannot be used: {error}", where=str(path), right=right) from error


def read_pkcs12(data: bytes, password: str) -> Contents:
    """Parse a PKCS #12 store, the default format of Java since 9; raise StoreError as `read_jks`."""
    try:
        store = pkcs12.load_pkcs12(data, password.encode())
        certificates = [one.certificate for one in (store.cert, *store.additional_certs) if one is not None]
        chain = _chain(certificates) if store.key is not None else []
    except (ValueError, UnsupportedAlgorithm) as error:
        if "password" in str(error):
            raise StoreError("the password is wrong, or the file is damaged") from error
        raise StoreError(f"not a PKCS #12 file that can be parsed ({error})") from error
    others = [one for one in certificates if one not in chain]
    der = serialization.Encoding.DER
    return Contents(store.key, [one.public_bytes(der) for one in chain], [one.public_bytes(der) for one in others])


def _chain(certificates: list[Certificate]) -> list[Certificate]:
    """Return the first certificate and those of its issuers, in order."""
    by_subject = {certificate.subject: certificate for certificate in certificates}
    found = certificates[:1]
    while found and (following := by_subject.get(found[-1].issuer)) is not None and following not in found:
        found.append(following)
    return found


def read_jks(data: bytes, password: str) -> Contents:
    """Parse a JKS store, Java's older format.

    Raises:
        StoreError: it cannot be parsed, or the password is wrong.
    """
    secret = password.encode("utf-16-be")
    whole, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not hmac.compare_digest(_digest(secret + b"Mighty Aphrodite" + whole), digest):
        raise StoreError("the password is wrong, or the file is damaged")
    reader = _Reader(whole)
    version, count = reader.number(">i"), reader.number(">i")
    key: PrivateKeyTypes | None = None
    chain: list[bytes] = []
    others: list[bytes] = []
    for _ in range(count):
        kind = reader.number(">i")
        reader.piece(">H")  # alias
        reader.number(">q")  # time of creation
        if kind == _KEY:
            encrypted = reader.piece(">i")
            found = [reader.certificate(version) for _ in range(reader.number(">i"))]
            if key is None:
                key, chain = _private_key(_decrypted(encrypted, secret)), found
        elif kind == _CERTIFICATE:
            others.append(reader.certificate(version))
        else:
            raise StoreError("it contains an entry that is neither a key nor a certificate")
    return Contents(key, chain, others)


class _Reader:
    """Reader of the fields of a JKS store."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_JKS_MAGIC)

    def number(self, form: str) -> int:
        """Return the next number, in a format of `struct`."""
        try:
            (number,) = struct.unpack_from(form, self._data, self._at)
        except struct.error:
            raise StoreError("it ends in the middle") from None
        assert isinstance(number, int)
        self._at += struct.calcsize(form)
        return number

    def piece(self, form: str) -> bytes:
        """Return the next bytes, whose length is a number before them."""
        length = self.number(form)
        piece = self._data[self._at : self._at + length]
        if length < 0 or len(piece) != length:
            raise StoreError("it ends in the middle")
        self._at += length
        return piece

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.piece(">H")  # type, X.509
        return self.piece(">i")


def _decrypted(encrypted: bytes, secret: bytes) -> bytes:
    """Decrypt the private key of Sun's EncryptedPrivateKeyInfo (KeyProtector)."""
    octets = encrypted.partition(_KEY_PROTECTOR)[2]  # an OCTET STRING, DER: tag, length, content
    if len(octets) < 2:
        raise StoreError("its key is encrypted by an unknown algorithm")
    begin = 2 + (octets[1] & 0x7F if octets[1] & 0x80 else 0)
    protected = octets[begin:]
    salt, hidden, digest = protected[:_SALT_BYTES], protected[_SALT_BYTES:-_DIGEST_BYTES], protected[-_DIGEST_BYTES:]
    stream, block = b"", salt
    while len(stream) < len(hidden):
        block = _digest(secret + block)
        stream += block
    key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(_digest(secret + key), digest):
        raise StoreError("the password of its key differs from that of the store")
    return key


def _private_key(der: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_der_private_key(der, None)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise StoreError(f"its key is of an unknown kind ({error})") from error


def _digest(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()
