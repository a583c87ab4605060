"""Who may do what: permission bits, schemes of identity, the check of an ACL (§4).

Rules of this module:
  - pure functions of an ACL and a connection's identities;
  - an ACL is a tuple, each distinct one kept once by the tree, so that the open ACL is known by identity;
  - schemes stand in one table: whether an id of the scheme may stand in an ACL, and whether an identity matches it.

Source: ZooKeeperServer.checkACL, PrepRequestProcessor.fixupACL, org.apache.zookeeper.server.auth.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simzk.tuples import NamedTuple
from simzk.zookeeper.ip_scheme import ip_is_valid, ip_matches
from simzk.zookeeper.jute import decode_text
from simzk.zookeeper.refused import RefusedError
from simzk.zookeeper.replies import ClientInfo, Code
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.sasl import name_is_valid, name_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16

READ_ACL: tuple[ACL, ...] = (ACL(READ, Id("world", "anyone")),)
"""The ACL of /zookeeper/config."""

_WORLD = Id("world", "anyone")


class Scheme(NamedTuple):
    """One way to be somebody: what may stand in an ACL, and which identity fits an ACL's id."""

    is_valid: Callable[[str], bool]
    matches: Callable[[str, str], bool]
    is_authenticated: bool


def _digest_is_valid(text: str) -> bool:
    """Whether Java's `split(":")`, which drops empty parts at the end, gives two parts."""
    return len(text.rstrip(":").split(":")) == 2 and bool(text.rstrip(":"))


_KEYWORDS = (
    "C|CN|L|S|ST|O|OU|T|IP|STREET|DC|DNQ|DNQUALIFIER|SURNAME|GIVENNAME|INITIALS|GENERATION|EMAIL|EMAILADDRESS|UID|"
    "SERIALNUMBER"
)
_ATTRIBUTE = rf"(?:{_KEYWORDS}|[0-9]+(?:\.[0-9]+)+)"
_PART = rf" *{_ATTRIBUTE} *= *(?:\\.|[^,+;\\=<>\"])*"
_NAME = rf"(?:{_PART}(?:[,+;]{_PART})*)?"


def _subject_is_valid(text: str) -> bool:
    """Whether Java's `X500Principal` takes it for a name, as far as names are written without quotes."""
    return re.fullmatch(_NAME, text, re.IGNORECASE) is not None


SCHEMES: dict[str, Scheme] = {
    "digest": Scheme(_digest_is_valid, str.__eq__, is_authenticated=True),
    "ip": Scheme(ip_is_valid, ip_matches, is_authenticated=False),
    "x509": Scheme(_subject_is_valid, str.__eq__, is_authenticated=True),
    "sasl": Scheme(name_is_valid, name_matches, is_authenticated=True),
}

DEFAULT_SCHEMES = frozenset({"digest", "ip"})
"""Those that every server has (`ServerConfig.schemes`)."""


def digest_id(credentials: bytes, algorithm: str = "sha1") -> str:
    """The id of the digest scheme for "user:password": the user, and the digest of the whole.

    >>> digest_id(b"super:test")
    'super:D/InIHSb7yEEbrWz8b9l71RjZJU='
    """
    # Not loaded by a server that nobody shows a password.
    import base64
    import hashlib

    # `new String(bytes)`: what is not UTF-8 becomes U+FFFD before it is digested.
    text = decode_text(credentials)
    digest = hashlib.new(algorithm, text.encode("utf-8")).digest()
    return f"{text.split(':', 1)[0]}:{base64.b64encode(digest).decode('ascii')}"


def is_permitted(acl: tuple[ACL, ...], permission: int, identities: Iterable[Id]) -> bool:
    """Whether a connection of these identities has one of the bits of `permission` by `acl`."""
    if not acl:
        return True
    for identity in identities:
        if identity.scheme == "super":
            return True
    for perms, allowed in acl:
        if not perms & permission:
            continue
        if allowed == _WORLD:
            return True
        scheme = SCHEMES.get(allowed.scheme or "")
        if scheme is None or allowed.id is None:
            continue
        for identity in identities:
            if (
                identity.scheme == allowed.scheme
                and identity.id is not None
                and scheme.matches(identity.id, allowed.id)
            ):
                return True
    return False


def expand_acl(
    acl: tuple[ACL, ...] | None, identities: Iterable[Id], schemes: frozenset[str] = DEFAULT_SCHEMES
) -> tuple[ACL, ...]:
    """The ACL to store for the one that a client sent: duplicates gone, `auth` replaced by who is authenticated.

    Raises:
        RefusedError: INVALID_ACL; MARSHALLING_ERROR for a null id, at which the real server stumbles (§1.4).
    """
    if acl is OPEN_ACL or acl == OPEN_ACL:
        return OPEN_ACL
    if not acl:
        raise RefusedError(Code.INVALID_ACL)
    expanded: list[ACL] = []
    for entry in dict.fromkeys(acl):
        scheme_name, text = entry.id
        if scheme_name is None:
            raise RefusedError(Code.INVALID_ACL)
        if scheme_name == "auth":
            expanded.extend(ACL(entry.perms, identity) for identity in _authenticated(identities))
            if not _authenticated(identities):
                raise RefusedError(Code.INVALID_ACL)
            continue
        scheme = SCHEMES.get(scheme_name) if scheme_name in schemes else None
        if text is None and (scheme is not None or scheme_name == "world"):
            raise RefusedError(Code.MARSHALLING_ERROR)
        if entry.id != _WORLD and (scheme is None or text is None or not scheme.is_valid(text)):
            raise RefusedError(Code.INVALID_ACL)
        expanded.append(entry)
    return tuple(expanded)


def _authenticated(identities: Iterable[Id]) -> list[Id]:
    return [
        identity for identity in identities if identity.scheme in SCHEMES and SCHEMES[identity.scheme].is_authenticated
    ]


def without_secrets(acl: tuple[ACL, ...]) -> tuple[ACL, ...]:
    """The ACL as it is shown to who may read but not administer: digests are blotted out (§4)."""
    return tuple(
        ACL(entry.perms, Id("digest", re.sub(":.*", ":x", entry.id.id)))
        if entry.id.scheme == "digest" and entry.id.id
        else entry
        for entry in acl
    )


def client_info(identity: Id) -> ClientInfo:
    """What `WhoAmI` tells of an identity (AuthUtil.getClientInfos)."""
    scheme, user = identity.scheme or "", identity.id or ""
    if scheme == "digest":
        user = user.split(":")[0]
    return ClientInfo(scheme, user if scheme in SCHEMES else "")
