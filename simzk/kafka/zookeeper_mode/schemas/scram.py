"""SCRAM credentials as values in `/config/users/U` (docs/reference/kafka.md §1.3; ScramCredentialUtils).

Rule of the module: the three byte strings of a credential are written as base64.
"""

from __future__ import annotations

import base64
from typing import Final

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_int
from simzk.kafka.security.scram import ScramCredential
from simzk.kafka.zookeeper_mode.schemas.json_text import shown

_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


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
