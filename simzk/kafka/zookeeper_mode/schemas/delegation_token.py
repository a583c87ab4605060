"""Delegation tokens in `/delegation_token/tokens/ID`, with which clients log in instead of their credentials
(docs/reference/kafka.md §1.2, §1.3; DelegationTokenManager).

Rules of the module:
  - the fields have the order of an immutable Scala map;
  - principals are sanitized like names in paths; times are numbers, not text;
  - a token from before 3.3 was requested by its owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from simzk.jvm.scala_collections import immutable_order
from simzk.kafka.metadata.entities import is_principal
from simzk.kafka.zookeeper_mode.schemas.config import sanitize
from simzk.kafka.zookeeper_mode.schemas.json_text import LENIENT, Reading, read_object, write

if TYPE_CHECKING:
    from simzk.jvm.scala_collections import Scala

REQUESTERS_FROM = 3
"""First version of the schema with `tokenRequester`."""


class DelegationToken(NamedTuple):
    """Stored part of a token; its secret is derived from its id and the brokers' key.

    Args:
        token_id: 22 characters of base64.
        owner: principal of the token, such as `User:alice`.
        requester: principal that requested it.
        renewers: principals that may renew it besides the owner.
        issued_ms: time of issue.
        expires_ms: time of expiry.
        ends_ms: latest time to which it can be renewed.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int


def encode_v1(token: DelegationToken, scala: Scala) -> bytes:
    """Encode as Kafka 1.1 to 3.2 does.

    >>> encode_v1(DelegationToken("i", "User:a", "User:a", ("User:b",), 1, 2, 3), "2.13").decode()[:62]
    '{"issueTimestamp":1,"renewers":["User%3Ab"],"tokenId":"i","own'
    """
    return _write(_fields(token, 1), scala)


def encode_v3(token: DelegationToken, scala: Scala) -> bytes:
    """Encode as Kafka 3.3 and later does.

    >>> encode_v3(DelegationToken("i", "User:a", "User:c", (), 1, 2, 3), "2.13").decode()[:62]
    '{"issueTimestamp":1,"renewers":[],"tokenRequester":"User%3Ac",'
    """
    return _write(_fields(token, REQUESTERS_FROM) | {"tokenRequester": sanitize(token.requester)}, scala)


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> DelegationToken | None:
    """Decode a token of any version; None: the znode has no data.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
    """
    if not data:
        return None
    fields = read_object(path, data, reading)
    version = fields.integer("version")
    last = REQUESTERS_FROM if reading.accepts_forms_of_3_3 else 1
    if not 1 <= version <= last:
        raise fields.wrong("version", f"1 to {last}")
    owner = fields.text("owner")
    requester = fields.text("tokenRequester") if version >= REQUESTERS_FROM else owner
    for principal in (owner, requester, *fields.texts("renewers")):
        if not is_principal(unquote(principal)):
            raise fields.wrong("owner", "type:name, also for requester and renewers")
    return DelegationToken(
        token_id=fields.text("tokenId"),
        owner=unquote(owner),
        requester=unquote(requester),
        renewers=tuple(unquote(renewer) for renewer in fields.texts("renewers")),
        issued_ms=fields.long("issueTimestamp"),
        expires_ms=fields.long("expiryTimestamp"),
        ends_ms=fields.long("maxTimestamp"),
    )


def _fields(token: DelegationToken, version: int) -> dict[str, object]:
    return {
        "version": version,
        "owner": sanitize(token.owner),
        "renewers": [sanitize(renewer) for renewer in token.renewers],
        "issueTimestamp": token.issued_ms,
        "maxTimestamp": token.ends_ms,
        "expiryTimestamp": token.expires_ms,
        "tokenId": token.token_id,
    }


def _write(fields: dict[str, object], scala: Scala) -> bytes:
    return write({field: fields[field] for field in immutable_order(fields, scala)})
