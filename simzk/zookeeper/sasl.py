"""SASL DIGEST-MD5 as ZooKeeper uses it: the server's challenge, the response, the server's proof; without IO.

Rules of this module:
  - one login per connection: the first token is answered by the challenge, the second must be the right response, and
    no third may follow (seen on 3.9.5);
  - realm, order and form of the challenge are the real server's; the nonce is an argument.

Source: RFC 2831; SaslServerCallbackHandler and SASLAuthenticationProvider of 3.9.5, and Java's own server mechanism.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REALM = "zk-sasl-md5"
_PAIR = r'\s*([A-Za-z-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^",\s]*))\s*(?:,|$)'
_KERBEROS_NAME = "[^/@]*(/[^/@]*)?@[^/@]*"


class SaslError(Exception):
    """Failed SASL login."""


class DigestMd5:
    """Server side of one login.

    Args:
        users: password by user name.
        nonce: nonce that no other login has.

    Attributes:
        user: authenticated user; None before.
    """

    def __init__(self, users: Mapping[str, str], nonce: str) -> None:
        self._users = users
        self._nonce = nonce
        self._challenged = False
        self.user: str | None = None

    def answer(self, token: bytes) -> bytes:
        """Return the answer to the client's next token.

        Raises:
            SaslError: the login failed.
        """
        if self.user is not None:
            raise SaslError("the login is complete already")
        if not self._challenged:
            self._challenged = True
            return f'realm="{REALM}",nonce="{self._nonce}",charset=utf-8,algorithm=md5-sess'.encode()
        directives = read_directives(token)
        user = directives.get("username", "")
        password = self._users.get(user)
        if password is None:
            raise SaslError(f"user {user!r} does not exist")
        if (
            directives.get("nonce") != self._nonce
            or directives.get("nc") != "00000001"
            or directives.get("qop", "auth") != "auth"
        ):
            raise SaslError("the token is no response to the challenge")
        if directives.get("response") != _response(directives, password, self._nonce, "AUTHENTICATE"):
            raise SaslError(f"the password of {user!r} is wrong")
        self.user = user
        return b"rspauth=" + _response(directives, password, self._nonce, "").encode()


def respond(challenge: bytes, user: str, password: str, cnonce: str) -> bytes:
    """Return a client's response to a challenge, in the form of Java's client.

    Args:
        challenge: first token of the server.
        user: user name.
        password: password of the user.
        cnonce: nonce that no other login of the client has.

    Raises:
        SaslError: the challenge is malformed.

    >>> server = DigestMd5({"u": "p"}, "n")
    >>> server.answer(respond(server.answer(b""), "u", "p", "c"))[:8], server.user
    (b'rspauth=', 'u')
    """
    directives = read_directives(challenge)
    mine = {
        "username": user,
        "realm": directives.get("realm", ""),
        "nonce": directives.get("nonce", ""),
        "nc": "00000001",
        "cnonce": cnonce,
        "digest-uri": f"zookeeper/{directives.get('realm', '')}",
    }
    response = _response(mine, password, mine["nonce"], "AUTHENTICATE")
    quoted = {name: value if name == "nc" else f'"{value}"' for name, value in mine.items()}
    parts = [f"{name}={value}" for name, value in quoted.items()]
    return ",".join(["charset=utf-8", *parts, "maxbuf=65536", f"response={response}", "qop=auth"]).encode()


def read_directives(token: bytes) -> dict[str, str]:
    """Return the names and values in a challenge or a response.

    Raises:
        SaslError: the token is malformed.

    >>> read_directives(b'qop=auth, username="a\\\\"b"')
    {'qop': 'auth', 'username': 'a"b'}
    """
    text = token.decode("utf-8", "replace")
    pair = re.compile(_PAIR)
    directives: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = pair.match(text, at)
        if found is None or found[1].lower() in directives:
            raise SaslError("the token is malformed")
        assert found.end() > at, "a pair has a name"
        quoted = found[2]
        directives[found[1].lower()] = found[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = found.end()
    return directives


def _hash(data: bytes) -> bytes:
    import hashlib  # imported by the first login

    return hashlib.md5(data, usedforsecurity=False).digest()


def _response(directives: Mapping[str, str], password: str, nonce: str, method: str) -> str:
    """Return the response-value of RFC 2831, 2.1.2.1; an empty method makes the server's own proof (2.1.3)."""
    assert method in ("AUTHENTICATE", "")
    user = f"{directives['username']}:{directives.get('realm', '')}:{password}"
    # Text within ISO 8859-1 is hashed in that charset, whatever the charset of the login (RFC 2831, 2.1.2.1).
    try:
        secret = _hash(user.encode("latin-1"))
    except UnicodeEncodeError:
        secret = _hash(user.encode())
    cnonce = directives.get("cnonce", "")
    first = secret + f":{nonce}:{cnonce}".encode()
    if directives.get("authzid"):
        first += f":{directives['authzid']}".encode()
    second = f"{method}:{directives.get('digest-uri', '')}".encode()
    middle = f"{nonce}:{directives.get('nc', '')}:{cnonce}:auth"
    return _hash(f"{_hash(first).hex()}:{middle}:{_hash(second).hex()}".encode()).hex()


def nonce_of(session_id: int, login: int) -> str:
    """Return the nonce of a login: 30 bytes that look random but are the same in every run."""
    import base64
    import hashlib

    assert login > 0, "logins are counted from 1"
    return base64.b64encode(hashlib.sha256(b"%d %d" % (session_id, login)).digest()[:30]).decode()


def name_is_valid(name: str) -> bool:
    """Return whether a name is valid in an ACL; with an @ it must be a Kerberos principal (KerberosName).

    >>> name_is_valid("user"), name_is_valid("a/b@C"), name_is_valid("a@b@c")
    (True, True, False)
    """
    return "@" not in name or re.fullmatch(_KERBEROS_NAME, name) is not None


def name_matches(name: str, allowed: str) -> bool:
    """Return whether a user matches the id of an ACL entry; "super" matches any (SASLAuthenticationProvider)."""
    return name in ("super", allowed)
