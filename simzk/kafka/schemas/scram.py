"""SCRAM credentials, as they stand as values in `/config/users/U` (docs/reference/kafka.md §1.3; RFC 5802, §3).

Rules of the module (ScramFormatter, ScramCredentialUtils):
  - `salted = PBKDF2(password, salt, iterations)`, `stored key = H(HMAC(salted, "Client Key"))`,
    `server key = HMAC(salted, "Server Key")`; the three byte strings stand as base64;
  - a password is taken as UTF-8 as it is; the salt that Kafka draws is a number of 130 bits written to base 36;
  - fewer iterations than the mechanism's least are refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final, NamedTuple

from simzk.errors import ConfigError, ZnodeError
from simzk.jvm.numbers import parse_int
from simzk.kafka.schemas.json_text import shown

MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""

LEAST_ITERATIONS: Final = 4096
SALT_BITS: Final = 130
_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramCredential(NamedTuple):
    """What is kept of a user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential(mechanism: str, password: str, salt: bytes, iterations: int = LEAST_ITERATIONS) -> ScramCredential:
    """Compute a credential.

    Args:
        mechanism: one of `MECHANISMS`.
        password: the user's.
        salt: random bytes.
        iterations: rounds of hashing.

    Raises:
        ConfigError: there is no such mechanism, or the rounds are too few.
    """
    digest = MECHANISMS.get(mechanism)
    if digest is None:
        raise ConfigError(f"there is no {mechanism!r}", where="mechanism", right=" or ".join(MECHANISMS))
    if iterations < LEAST_ITERATIONS:
        raise ConfigError(f"iterations are {iterations}", where="iterations", right=f"{LEAST_ITERATIONS} or more")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", digest), iterations)


def salt_of(number: int) -> bytes:
    """The salt that Kafka makes of a random number of `SALT_BITS` bits.

    >>> salt_of(36 * 36 + 10)
    b'10a'
    """
    assert 0 <= number < 1 << SALT_BITS
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits.encode()


def encode(kept: ScramCredential) -> str:
    """The value as it stands in the user's configuration.

    >>> encode(ScramCredential(b"s", b"a", b"b", 4096))
    'salt=cw==,stored_key=YQ==,server_key=Yg==,iterations=4096'
    """
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in kept[:3])
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={kept.iterations}"


def decode(path: str, mechanism: str, value: str) -> ScramCredential:
    """Read a value.

    Args:
        path: of the user's znode, for messages.
        mechanism: under which the value stands, for messages.
        value: the text.

    Raises:
        ZnodeError: it cannot be used; path, field and why.

    >>> decode("/config/users/a", "SCRAM-SHA-256", "salt=cw==,stored_key=YQ==,server_key=Yg==,iterations=4096").salt
    b's'
    """
    parts = dict(part.partition("=")[::2] for part in value.split(","))
    if sorted(parts) != sorted(_FIELDS):
        raise ZnodeError(
            f"field {mechanism} is {shown(value)}", where=path, right=",".join(f"{f}=..." for f in _FIELDS)
        )
    iterations = parse_int(parts["iterations"])
    if iterations is None:
        raise ZnodeError(
            f"field {mechanism}.iterations is {shown(parts['iterations'])}", where=path, right="a decimal number"
        )
    keys = []
    for field in _FIELDS[:3]:
        try:
            keys.append(base64.b64decode(parts[field], validate=True))
        except ValueError:  # binascii.Error is one; so is what is not ASCII
            raise ZnodeError(
                f"field {mechanism}.{field} is {shown(parts[field])}", where=path, right="base64"
            ) from None
    return ScramCredential(keys[0], keys[1], keys[2], iterations)
