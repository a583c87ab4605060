"""PKCS #12, the format of Java's key stores since Java 9: private keys and certificates under a password.

Rules of this module:
  - what is read is checked first: whoever has a wrong password is told so;
  - keys stay encrypted as they are, for OpenSSL opens them itself; certificates are opened here, if they are encrypted
    by PBES2 with AES, as Java since 17 and OpenSSL since 3 do it.

Source: RFC 7292, RFC 8018, X.690.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SEQUENCE, _INTEGER, _OCTETS, _OID = 0x30, 0x02, 0x04, 0x06
_DATA, _ENCRYPTED_DATA = "2a864886f70d010701", "2a864886f70d010706"
_KEY_BAG, _SHROUDED_BAG, _CERTIFICATE_BAG = (f"2a864886f70d010c0a01{kind}" for kind in ("01", "02", "03"))
_PBES2, _PBKDF2 = "2a864886f70d01050d", "2a864886f70d01050c"
_LOCAL_KEY_ID = "2a864886f70d010915"
_AES_BYTES = {"608648016503040102": 16, "608648016503040116": 24, "60864801650304012a": 32}
_HASHES = {
    "2b0e03021a": "sha1",
    "608648016503040201": "sha256",
    "608648016503040202": "sha384",
    "608648016503040203": "sha512",
    "2a864886f70d0207": "sha1",
    "2a864886f70d0209": "sha256",
    "2a864886f70d020a": "sha384",
    "2a864886f70d020b": "sha512",
}


class StoreError(ValueError):
    """A store that cannot be read; its text says why."""


class Contents(NamedTuple):
    """What a store holds, DER.

    Attributes:
        key: the first private key, or None.
        is_encrypted: whether it is an EncryptedPrivateKeyInfo, under the store's password.
        certificates: those of that key first, then the others.
    """

    key: bytes | None
    is_encrypted: bool
    certificates: list[bytes]


class _Item(NamedTuple):
    tag: int
    value: bytes
    whole: bytes


def items(data: bytes) -> Iterator[_Item]:
    """The items of a DER value, one after another."""
    at = 0
    try:
        while at < len(data):
            begin, tag, length = at, data[at], data[at + 1]
            at += 2
            if length & 0x80:
                count = length & 0x7F
                length = int.from_bytes(data[at : at + count], "big")
                at += count
            if at + length > len(data):
                raise StoreError("it ends in the middle")
            yield _Item(tag, data[at : at + length], data[begin : at + length])
            at += length
    except IndexError:
        raise StoreError("it ends in the middle") from None


def _parts(data: bytes, *tags: int) -> list[bytes]:
    """The values of the first items, which must be of these tags; 0 is any, and what follows is left out."""
    found = list(items(data))[: len(tags)]
    if len(found) < len(tags) or any(tag not in (0, item.tag) for tag, item in zip(tags, found, strict=True)):
        raise StoreError("it is no PKCS #12")
    return [item.value for item in found]


def _inner(data: bytes) -> bytes:
    return _parts(data, 0)[0]


def read_pkcs12(data: bytes, password: str) -> Contents:
    """What a store holds.

    Raises:
        StoreError: it is none, is encrypted by something older, or the password is wrong.
    """
    (outer,) = _parts(data, _SEQUENCE)
    pieces = [item.value for item in items(outer)]
    if len(pieces) < 3:
        raise StoreError("it has no integrity that a password shows")
    kind, content = _parts(pieces[1], _OID, 0)
    if kind.hex() != _DATA:
        raise StoreError("its integrity is not a password's")
    safe = _inner(content)
    _check(safe, pieces[2], password)
    return _collected(_bags(safe, password))


def _check(safe: bytes, mac_data: bytes, password: str) -> None:
    digest_info, salt, *rest = (item.value for item in items(mac_data))
    algorithm, digest = _parts(digest_info, _SEQUENCE, _OCTETS)
    name = _hash_name(algorithm)
    iterations = int.from_bytes(rest[0], "big") if rest else 1
    key = _derived(name, password, salt, iterations)
    if not hmac.compare_digest(hmac.digest(key, safe, name), digest):
        raise StoreError("the password is wrong")


def _hash_name(algorithm: bytes) -> str:
    (oid,) = _parts(algorithm, _OID)
    name = _HASHES.get(oid.hex())
    if name is None:
        raise StoreError(f"its hash is not known ({oid.hex()})")
    return name


def _derived(name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The key of the integrity check (RFC 7292, B.2, with the ID 3)."""
    make: Callable[[bytes], bytes] = lambda data: hashlib.new(name, data).digest()  # noqa: E731
    block, size = hashlib.new(name).block_size, hashlib.new(name).digest_size
    secret = password.encode("utf-16-be") + b"\0\0"
    filled = b"".join(
        (part * (-(-block * -(-len(part) // block) // len(part)) + 1))[: block * -(-len(part) // block)]
        for part in (salt, secret)
        if part
    )
    out = make(b"\x03" * block + filled)
    for _ in range(iterations - 1):
        out = make(out)
    assert len(out) == size, "one block of the hash is as long as its key"
    return out


def _bags(safe: bytes, password: str) -> Iterator[bytes]:
    for info in items(_inner(safe)):
        kind, content = _parts(info.value, _OID, 0)
        if kind.hex() == _DATA:
            opened = _inner(content)
        elif kind.hex() == _ENCRYPTED_DATA:
            _, encrypted = _parts(_inner(content), _INTEGER, _SEQUENCE)
            _, algorithm, data = _parts(encrypted, _OID, _SEQUENCE, 0)
            opened = _decrypted(algorithm, data, password)
        else:
            raise StoreError("a part of it is encrypted for somebody's key")
        for bag in items(_inner(opened)):
            yield bag.value


def _decrypted(algorithm: bytes, data: bytes, password: str) -> bytes:
    from simzk.serve.aes import decrypt_cbc

    scheme, parameters = _parts(algorithm, _OID, _SEQUENCE)
    if scheme.hex() != _PBES2:
        raise StoreError("it is encrypted by an older tool: keytool -importkeystore of Java 17 or newer mends that")
    derivation, encryption = _parts(parameters, _SEQUENCE, _SEQUENCE)
    kind, how = _parts(derivation, _OID, _SEQUENCE)
    cipher, start = _parts(encryption, _OID, _OCTETS)
    if kind.hex() != _PBKDF2 or cipher.hex() not in _AES_BYTES:
        raise StoreError("it is encrypted by something else than PBKDF2 and AES")
    salt, iterations = _parts(how, _OCTETS, _INTEGER)
    prf = [item.value for item in items(how) if item.tag == _SEQUENCE]
    name = _hash_name(prf[0]) if prf else "sha1"
    key = hashlib.pbkdf2_hmac(
        name, password.encode(), salt, int.from_bytes(iterations, "big"), _AES_BYTES[cipher.hex()]
    )
    if len(data) % 16:
        raise StoreError("it ends in the middle")
    opened = decrypt_cbc(key, start, data)
    return opened[: -opened[-1]]


def _collected(bags: Iterator[bytes]) -> Contents:
    key: tuple[bytes, bool] | None = None
    key_id = b""
    certificates: list[tuple[bytes, bytes]] = []
    for bag in bags:
        kind, content = _parts(bag, _OID, 0)
        name = _local_key_id(bag)
        if kind.hex() in (_KEY_BAG, _SHROUDED_BAG) and key is None:
            key, key_id = (content, kind.hex() == _SHROUDED_BAG), name
        elif kind.hex() == _CERTIFICATE_BAG:
            _, wrapped = _parts(_inner(content), _OID, 0)
            certificates.append((name, _inner(wrapped)))
    certificates.sort(key=lambda pair: not key_id or pair[0] != key_id)
    found, is_encrypted = key or (None, False)
    return Contents(found, is_encrypted, [certificate for _, certificate in certificates])


def _local_key_id(bag: bytes) -> bytes:
    """By which a key and its certificate know each other; empty where there is none."""
    for attributes in list(items(bag))[2:3]:
        for attribute in items(attributes.value):
            kind, values = _parts(attribute.value, _OID, 0)
            if kind.hex() == _LOCAL_KEY_ID:
                return _inner(values)
    return b""


def chain(certificates: list[bytes]) -> list[bytes]:
    """Of these certificates the first, and those by which it was issued, in order."""
    by_subject = {_names(certificate)[1]: certificate for certificate in certificates}
    found = certificates[:1]
    while found:
        issuer, subject = _names(found[-1])
        following = by_subject.get(issuer)
        if issuer == subject or following is None or following in found:
            break
        found.append(following)
    return found


def _names(certificate: bytes) -> tuple[bytes, bytes]:
    """Issuer and subject of an X.509 certificate, encoded."""
    fields = [item.whole for item in items(_inner(_inner(certificate)))]
    if fields and fields[0][0] == 0xA0:  # the version
        fields = fields[1:]
    if len(fields) < 5:
        raise StoreError("it holds what is no certificate")
    return fields[2], fields[4]
