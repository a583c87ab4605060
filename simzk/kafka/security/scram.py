"""SCRAM credentials: what is stored of a password instead of it (RFC 5802, §3).

Rules of the module (ScramFormatter):
  - `salted = PBKDF2(password, salt, iterations)`, `stored key = H(HMAC(salted, "Client Key"))`,
    `server key = HMAC(salted, "Server Key")`;
  - a password is encoded as UTF-8 without normalization; Kafka's salt is a random number of 130 bits in base 36;
  - fewer iterations than the mechanism's minimum are rejected.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

import numpy as np

from simzk.errors import ConfigError

MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Hash algorithm of each mechanism."""

MIN_ITERATIONS: Final = 4096
SALT_BITS: Final = 130


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
