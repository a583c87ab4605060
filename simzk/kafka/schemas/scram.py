"""SCRAM credentials: values in `/config/users/U` (docs/reference/kafka.md §1.3; RFC 5802, §3).

Rules of the module (ScramFormatter, ScramCredentialUtils):
  - `salted = PBKDF2(password, salt, iterations)`, `stored key = H(HMAC(salted, "Client Key"))`,
    `server key = HMAC(salted, "Server Key")`; the three byte strings are written as base64;
  - a password is encoded as UTF-8 without normalization; Kafka's salt is a random number of 130 bits in base 36;
  - fewer iterations than the mechanism's minimum are rejected.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final, NamedTuple

import numpy as np

from simzk.errors import ConfigError, ZnodeError
from simzk.jvm.numbers import parse_int
from simzk.kafka.schemas.json_text import shown

MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Hash algorithm of each mechanism."""

MIN_ITERATIONS: Final = 4096
SALT_BITS: Final = 130
_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


class ScramCredential(NamedTuple):
    """Stored form of a user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential(mechanism: str, password: str, salt: bytes, iterations: int = MIN_ITERATIONS) -> ScramCredential:
    """Compute a credential.

    Args:
        mechanism: one of `MECHANISMS`.
        password: password of the user.
        salt: random bytes.
        iterations: rounds of hashing.

    Raises:
        ConfigError: the mechanism is unknown, or there are too few iterations.
    """
    if (digest := MECHANISMS.get(mechanism)) is None:
        raise ConfigError(f"{mechanism!r} is not a SCRAM mechanism", where="mechanism", right=" or ".join(MECHANISMS))
    if iterations < MIN_ITERATIONS:
        raise ConfigError(f"iterations are {iterations}", where="iterations", right=f"{MIN_ITERATIONS} or more")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Compute a credential from a salted password.

    >>> len(credential_of("SCRAM-SHA-512", b"salted", b"salt", 4096).server_key)
    64
    """
    digest = MECHANISMS[mechanism]
    stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", digest), iterations)


def salt_of(number: int) -> bytes:
    """Return Kafka's salt for a random number of `SALT_BITS` bits.

    >>> salt_of(36 * 36 + 10)
    b'10a'
    """
    assert 0 <= number < 1 << SALT_BITS, f"not a number of {SALT_BITS} bits: {number}"
    return np.base_repr(number, 36).lower().encode()


def encode(stored: ScramCredential) -> str:
    """Encode a credential as a value of the user's configuration.

    >>> encode(ScramCredential(b"s", b"a", b"b", 4096))
    'salt=cw==,stored_key=YQ==,server_key=Yg==,iterations=4096'
    """
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in stored[:3])
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={stored.iterations}"


def decode(path: str, mechanism: str, value: str) -> ScramCredential:
    """Decode a credential.

    Args:
        path: path of the user's znode, for messages.
        mechanism: key of the value, for messages.
        value: text of the value.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.

    >>> decode("/config/users/a", "SCRAM-SHA-256", "salt=cw==,stored_key=YQ==,server_key=Yg==,iterations=4096").salt
    b's'
    """
    parts = dict(part.partition("=")[::2] for part in value.split(","))
    if sorted(parts) != sorted(_FIELDS):
        right = ",".join(f"{field}=..." for field in _FIELDS)
        raise ZnodeError(f"field {mechanism} is {shown(value)}", where=path, right=right)
    if (iterations := parse_int(parts["iterations"])) is None:
        what = f"field {mechanism}.iterations is {shown(parts['iterations'])}"
        raise ZnodeError(what, where=path, right="a decimal number")
    keys = []
    for field in _FIELDS[:3]:
        try:
            keys.append(base64.b64decode(parts[field], validate=True))
        except ValueError:  # binascii.Error is a ValueError; so is the error for text that is not ASCII
            what = f"field {mechanism}.{field} is {shown(parts[field])}"
            raise ZnodeError(what, where=path, right="base64") from None
    return ScramCredential(keys[0], keys[1], keys[2], iterations)
