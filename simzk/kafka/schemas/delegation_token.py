"""`/delegation_token/tokens/ID`: a token that a client may log in with instead of its credentials
(docs/reference/kafka.md §1.2, §1.3; DelegationTokenManager).

Rules of the module:
  - the fields stand in the order in which an immutable Scala map of them iterates;
  - principals stand sanitized as names in paths do; times are numbers, not text;
  - a token of before 3.3 was requested by its owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from simzk.jvm.scala_collections import immutable_order
from simzk.kafka.schemas.acl import is_principal
from simzk.kafka.schemas.config import sanitize
from simzk.kafka.schemas.json_text import LENIENT, Reading, read_object, write

if TYPE_CHECKING:
    from simzk.jvm.scala_collections import Scala

REQUESTERS_FROM = 3
"""The first version of the schema that tells who asked for the token."""


class DelegationToken(NamedTuple):
    """What is kept of a token; its secret follows from its id and the brokers' key.

    Args:
        token_id: 22 characters of base64.
        owner: who acts with it, such as `User:alice`.
        requester: who asked for it.
        renewers: who may renew it, besides the owner.
        issued_ms, expires_ms, ends_ms: when it was made, when it expires, up to when it can be renewed.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int


def encode_v1(token: DelegationToken, scala: Scala) -> bytes:
    """What 1.1 to 3.2 write.

    >>> encode_v1(DelegationToken("i", "User:a", "User:a", ("User:b",), 1, 2, 3), "2.13").decode()[:62]
    '{"issueTimestamp":1,"renewers":["User%3Ab"],"tokenId":"i","own'
    """
    return _write(_fields(token, 1), scala)


def encode_v3(token: DelegationToken, scala: Scala) -> bytes:
    """What 3.3 and later write.

    >>> encode_v3(DelegationToken("i", "User:a", "User:c", (), 1, 2, 3), "2.13").decode()[:62]
    '{"issueTimestamp":1,"renewers":[],"tokenRequester":"User%3Ac",'
    """
    return _write(_fields(token, REQUESTERS_FROM) | {"tokenRequester": sanitize(token.requester)}, scala)


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> DelegationToken | None:
    """Read a token of any version; None where the znode holds no data.

    Raises:
        ZnodeError: it cannot be used; path, field and why.
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
            raise fields.wrong("owner", "type:name, for requester and renewers as well")
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
