"""SASL's DIGEST-MD5, as far as ZooKeeper uses it: the server's challenge, a response, the server's proof. No IO.

Rules of this module:
  - one exchange a connection: whatever comes first is answered by the challenge, what comes then must be the right
    response to it, and nothing may follow (seen on 3.9.5);
  - realm, order and form of the challenge are the real server's; only its nonce is handed in.

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
    """The client has not shown who it is."""


class DigestMd5:
    """One exchange.

    Args:
        users: name to password.
        nonce: what no other exchange has.

    Attributes:
        user: who the client has shown to be; None as long as it has not.
    """

    def __init__(self, users: Mapping[str, str], nonce: str) -> None:
        self._users = users
        self._nonce = nonce
        self._challenged = False
        self.user: str | None = None

    def answer(self, token: bytes) -> bytes:
        """What to say to the client's next token.

        Raises:
            SaslError: the exchange has failed.
        """
        if self.user is not None:
            raise SaslError("the exchange is over")
        if not self._challenged:
            self._challenged = True
            return f'realm="{REALM}",nonce="{self._nonce}",charset=utf-8,algorithm=md5-sess'.encode()
        said = read_directives(token)
        user, password = said.get("username", ""), self._users.get(said.get("username", ""))
        if password is None:
            raise SaslError(f"there is no user {user!r}")
        if said.get("nonce") != self._nonce or said.get("nc") != "00000001" or said.get("qop", "auth") != "auth":
            raise SaslError("it is no response to the challenge")
        if said.get("response") != _response(said, password, self._nonce, "AUTHENTICATE"):
            raise SaslError(f"the password of {user!r} is wrong")
        self.user = user
        return b"rspauth=" + _response(said, password, self._nonce, "").encode()


def respond(challenge: bytes, user: str, password: str, cnonce: str) -> bytes:
    """A client's response to the server's challenge, in the form of Java's client.

    Args:
        challenge: the server's first token.
        user: who logs in.
        password: the user's.
        cnonce: what no other login has.

    Raises:
        SaslError: it is no challenge.

    >>> server = DigestMd5({"u": "p"}, "n")
    >>> server.answer(respond(server.answer(b""), "u", "p", "c"))[:8], server.user
    (b'rspauth=', 'u')
    """
    said = read_directives(challenge)
    mine = {
        "username": user,
        "realm": said.get("realm", ""),
        "nonce": said.get("nonce", ""),
        "nc": "00000001",
        "cnonce": cnonce,
        "digest-uri": f"zookeeper/{said.get('realm', '')}",
    }
    response = _response(mine, password, mine["nonce"], "AUTHENTICATE")
    quoted = {name: value if name == "nc" else f'"{value}"' for name, value in mine.items()}
    parts = [f"{name}={value}" for name, value in quoted.items()]
    return ",".join(["charset=utf-8", *parts, "maxbuf=65536", f"response={response}", "qop=auth"]).encode()


def read_directives(token: bytes) -> dict[str, str]:
    """Names and values of a challenge or a response.

    Raises:
        SaslError: it is none.

    >>> read_directives(b'qop=auth, username="a\\\\"b"')
    {'qop': 'auth', 'username': 'a"b'}
    """
    text = token.decode("utf-8", "replace")
    pair = re.compile(_PAIR)
    said: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = pair.match(text, at)
        if found is None or found[1].lower() in said:
            raise SaslError("the token is malformed")
        quoted = found[2]
        said[found[1].lower()] = found[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = found.end()
    return said


def _hash(data: bytes) -> bytes:
    import hashlib  # what only a login needs is loaded by the first

    return hashlib.md5(data, usedforsecurity=False).digest()


def _response(said: Mapping[str, str], password: str, nonce: str, method: str) -> str:
    """The response-value of RFC 2831, 2.1.2.1; of no method for the server's own proof (2.1.3)."""
    user = f"{said['username']}:{said.get('realm', '')}:{password}"
    # Text within ISO 8859-1 is hashed as such, whatever the charset of the exchange.
    try:
        secret = _hash(user.encode("latin-1"))
    except UnicodeEncodeError:
        secret = _hash(user.encode())
    cnonce = said.get("cnonce", "")
    first = secret + f":{nonce}:{cnonce}".encode()
    if said.get("authzid"):
        first += f":{said['authzid']}".encode()
    second = f"{method}:{said.get('digest-uri', '')}".encode()
    middle = f"{nonce}:{said.get('nc', '')}:{cnonce}:auth"
    return _hash(f"{_hash(first).hex()}:{middle}:{_hash(second).hex()}".encode()).hex()


def nonce_of(session_id: int, exchange: int) -> str:
    """A nonce for a server's so manieth exchange: 30 bytes that look like chance, the same in every run."""
    import base64
    import hashlib

    return base64.b64encode(hashlib.sha256(b"%d %d" % (session_id, exchange)).digest()[:30]).decode()


def name_is_valid(name: str) -> bool:
    """Whether a name may stand in an ACL: it must look like a Kerberos principal where it has an @ (KerberosName).

    >>> name_is_valid("user"), name_is_valid("a/b@C"), name_is_valid("a@b@c")
    (True, True, False)
    """
    return "@" not in name or re.fullmatch(_KERBEROS_NAME, name) is not None


def name_matches(name: str, allowed: str) -> bool:
    """Whether who is called `name` is meant by an ACL's entry: "super" is by any (SASLAuthenticationProvider)."""
    return name in ("super", allowed)
