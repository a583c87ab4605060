"""Access control: permission bits, authentication schemes, the check of an ACL (§4); the cache of ACLs of a tree.

Rules of this module:
  - checks are pure functions of an ACL and a connection's identities;
  - an ACL is a tuple; a tree stores each distinct one once, and the open ACL is recognized by identity;
  - schemes are one table: which ids are valid in ACLs, and which identities match them;
  - addresses and blocks of the ip scheme are parsed as IPAuthenticationProvider does.

Source: ZooKeeperServer.checkACL, PrepRequestProcessor.fixupACL, org.apache.zookeeper.server.auth,
ReferenceCountedACLCache.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from simzk.jvm.numbers import parse_hex_int, parse_int
from simzk.jvm.texts import decode_text
from simzk.jvm.x500_names import is_valid_x500_name
from simzk.zookeeper.replies import ClientInfo, Code, RefusedError
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.sasl import name_is_valid, name_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simzk.zookeeper.releases import Rules


class ACLCache:
    """Distinct ACLs of a tree, with the number of nodes that have each (ReferenceCountedACLCache).

    The open ACL, which most nodes have, is not counted.
    """

    __slots__ = ("_one", "_uses")

    def __init__(self) -> None:
        self._one: dict[tuple[ACL, ...], tuple[ACL, ...]] = {}
        self._uses: Counter[tuple[ACL, ...]] = Counter()

    def __len__(self) -> int:
        return len(self._one)

    def __iter__(self) -> Iterator[tuple[ACL, ...]]:
        return iter(self._one)

    def keep(self, acl: tuple[ACL, ...]) -> tuple[ACL, ...]:
        """Return the shared object of an ACL and count one more use."""
        if acl is OPEN_ACL or acl == OPEN_ACL:
            return OPEN_ACL
        assert (acl in self._uses) == (acl in self._one), "an ACL is shared as long as it is used"
        self._uses[acl] += 1
        return self._one.setdefault(acl, acl)

    def release(self, acl: tuple[ACL, ...]) -> None:
        """Count one use less of an ACL returned by `keep`."""
        if acl is OPEN_ACL:
            return
        assert self._uses[acl] > 0, "an ACL was released more often than kept"
        self._uses[acl] -= 1
        if not self._uses[acl]:
            del self._uses[acl], self._one[acl]

    def check(self, in_use: Iterable[tuple[ACL, ...]]) -> None:
        """Assert that the cache has the ACLs in `in_use`, which has one entry per use."""
        uses = Counter(acl for acl in in_use if acl is not OPEN_ACL)
        assert uses == self._uses
        assert set(uses) == set(self._one)


def _v4_bytes(text: str) -> bytes | None:
    numbers = [number for part in text.split(".") if (number := parse_int(part)) is not None and 0 <= number <= 255]
    return bytes(numbers) if len(numbers) == 4 == text.count(".") + 1 else None


def _v6_groups(text: str) -> list[int] | None:
    groups = text.split(":") if text else []
    # A group has four digits at most, and a sign counts as one: the group -1 is ffff.
    numbers = [parse_hex_int(group) if len(group) <= 4 else None for group in groups]
    return None if None in numbers else [number & 0xFFFF for number in numbers if number is not None]


def _v6_bytes(text: str) -> bytes | None:
    halves = text.split("::")
    if len(halves) > 2:
        return None
    parsed = [_v6_groups(half) for half in halves]
    head, tail = parsed[0], parsed[1] if len(halves) == 2 else []
    if head is None or tail is None:
        return None
    missing = 8 - len(head) - len(tail)
    if (missing != 0) if len(halves) == 1 else (missing < 1):
        return None
    address = b"".join(group.to_bytes(2, "big") for group in [*head, *[0] * missing, *tail])
    assert len(address) == 16
    return address


def _address_bytes(text: str) -> bytes | None:
    if ":" in text:
        return _v6_bytes(text)
    return _v4_bytes(text) if "." in text else None


def _block(text: str) -> tuple[bytes, int] | None:
    """Return the address and prefix length of a block, or None if the text is invalid."""
    address_text, slash, bits_text = text.partition("/")
    address = _address_bytes(address_text)
    if address is None:
        return None
    bits = parse_int(bits_text) if slash else len(address) * 8
    return (address, bits) if bits is not None and 0 <= bits <= len(address) * 8 else None


def ip_is_valid(text: str) -> bool:
    """Return whether an id of the ip scheme is valid in an ACL.

    >>> [ip_is_valid(text) for text in ("10.0.0.0/8", "::1", "10.0.0", "1.2.3.4/33")]
    [True, True, False, False]
    """
    return _block(text) is not None


def ip_matches(address_text: str, block_text: str) -> bool:
    """Return whether an address is in the block of an ACL.

    >>> ip_matches("10.1.2.3", "10.0.0.0/8"), ip_matches("11.1.2.3", "10.0.0.0/8")
    (True, False)
    """
    block, address = _block(block_text), _address_bytes(address_text)
    if block is None or address is None or len(address) != len(block[0]):
        return False
    ignored = len(address) * 8 - block[1]
    assert ignored >= 0, "a block is valid"
    return int.from_bytes(address, "big") >> ignored == int.from_bytes(block[0], "big") >> ignored


READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16

UNKNOWN_ACL: tuple[ACL, ...] = (ACL(0, Id("unknown", "ACL")),)
"""ACL of a node whose snapshot lacks it; every request that reads it fails, as in the real server."""

READ_ACL: tuple[ACL, ...] = (ACL(READ, Id("world", "anyone")),)
"""ACL of /zookeeper/config."""

_WORLD = Id("world", "anyone")


class Scheme(NamedTuple):
    """Authentication scheme: which ids are valid in ACLs, and which identities match an id."""

    is_valid: Callable[[str], bool]
    matches: Callable[[str, str], bool]


def _digest_is_valid(text: str) -> bool:
    """Return whether Java's `split(":")`, which drops empty parts at the end, returns two parts."""
    return len(text.rstrip(":").split(":")) == 2 and bool(text.rstrip(":"))


SCHEMES: dict[str, Scheme] = {
    "digest": Scheme(_digest_is_valid, str.__eq__),
    "ip": Scheme(ip_is_valid, ip_matches),
    "x509": Scheme(is_valid_x500_name, str.__eq__),
    "sasl": Scheme(name_is_valid, name_matches),
}
_AUTHENTICATED = SCHEMES.keys() - {"ip"}  # nobody has to prove an address


def digest_id(credentials: bytes, algorithm: str = "sha1") -> str:
    """Return the id of the digest scheme for "user:password": the user and the digest of the whole text.

    >>> digest_id(b"super:test")
    'super:D/InIHSb7yEEbrWz8b9l71RjZJU='
    """
    # Imported here: most servers never see a password.
    import base64
    import hashlib

    # `new String(bytes)` replaces invalid UTF-8 by U+FFFD before the digest.
    text = decode_text(credentials)
    digest = hashlib.new(algorithm, text.encode("utf-8")).digest()
    return f"{text.split(':', 1)[0]}:{base64.b64encode(digest).decode('ascii')}"


def has_null(acl: tuple[ACL, ...]) -> bool:
    """Return whether an ACL has a null scheme or id, on whose hash code the real server fails."""
    return acl is not OPEN_ACL and any(None in entry.id for entry in acl)


def is_permitted(acl: tuple[ACL, ...], permission: int, identities: Iterable[Id]) -> bool:
    """Return whether an ACL gives one of the bits of `permission` to one of the identities."""
    assert permission, "no permission is asked for"
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
        for name, user in identities:
            if name == allowed.scheme and user is not None and scheme.matches(user, allowed.id):
                return True
    return False


def expand_acl(
    acl: tuple[ACL, ...] | None, identities: Iterable[Id], schemes: frozenset[str], rules: Rules
) -> tuple[ACL, ...]:
    """Return the ACL to store: without duplicates, with `auth` replaced by the authenticated identities.

    Args:
        acl: ACL of a request.
        identities: identities of the client.
        schemes: schemes allowed beside world and auth.
        rules: rules of the release.

    Raises:
        RefusedError: INVALID_ACL; MARSHALLING_ERROR for a null id, on which the real server fails (§1.4).
    """
    if acl is OPEN_ACL or acl == OPEN_ACL:
        return OPEN_ACL
    if not acl:
        raise RefusedError(Code.INVALID_ACL if acl is not None or rules.null_acl_is_invalid else Code.MARSHALLING_ERROR)
    authenticated = [identity for identity in identities if identity.scheme in _AUTHENTICATED]
    expanded: list[ACL] = []
    last: list[ACL] = []
    for entry in dict.fromkeys(acl):
        scheme_name, text = entry.id
        if scheme_name is None:
            raise RefusedError(Code.INVALID_ACL if rules.null_scheme_is_invalid else Code.MARSHALLING_ERROR)
        if scheme_name == "auth":
            there = last if rules.expands_auth_last else expanded
            there.extend(ACL(entry.perms, identity) for identity in authenticated)
            if not authenticated:
                raise RefusedError(Code.INVALID_ACL)
            continue
        scheme = SCHEMES.get(scheme_name) if scheme_name in schemes else None
        if text is None and (scheme is not None or scheme_name == "world"):
            raise RefusedError(Code.MARSHALLING_ERROR)
        if entry.id != _WORLD and (scheme is None or text is None or not scheme.is_valid(text)):
            raise RefusedError(Code.INVALID_ACL)
        if scheme_name == "ip" and not set(rules.ip_acls_exclude).isdisjoint(text or ""):
            raise RefusedError(Code.INVALID_ACL)
        expanded.append(entry)
    assert all(entry.id.scheme != "auth" for entry in (*expanded, *last)), "each auth is replaced"
    assert expanded or last, "an ACL without entries gives everybody all permissions"
    return (*expanded, *last)


_SECRET = re.compile(":[^\n\r\x85\u2028\u2029]*")
"""Java's `:.*`: the rest of a line, by the line ends of `java.util.regex.Pattern`."""


def without_secrets(acl: tuple[ACL, ...]) -> tuple[ACL, ...]:
    """Return an ACL with hidden digests, as clients without ADMIN see it (§4)."""
    return tuple(
        ACL(entry.perms, Id("digest", _SECRET.sub(":x", entry.id.id)))
        if entry.id.scheme == "digest" and entry.id.id
        else entry
        for entry in acl
    )


def client_info(identity: Id) -> ClientInfo:
    """Return an identity as `WhoAmI` shows it (AuthUtil.getClientInfos)."""
    scheme, user = identity.scheme or "", identity.id or ""
    if scheme == "digest":
        user = user.split(":")[0]
    return ClientInfo(scheme, user if scheme in SCHEMES else "")
