"""SASL mechanisms at a broker: PLAIN and SCRAM, one exchange each, without I/O.

Rules of this module (PlainSaslServer, ScramSaslServer, ScramMessages; RFC 4616, RFC 5802, RFC 7677):
  - an exchange takes the tokens of one client in order, and answers each with a token or a failure;
  - a failure that the client may read carries its text; the text of any other failure must not tell whether a user
    exists;
  - SCRAM: an unknown user fails at the first token, as in Kafka. There is no channel binding. The server's nonce is a
    random number of 130 bits in base 36, appended to that of the client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.security.scram import MECHANISMS as SCRAM_DIGESTS
from simzk.kafka.security.scram import MIN_ITERATIONS
from simzk.kafka.security.scram import credential as new_credential

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.security.scram import ScramCredential

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *SCRAM_DIGESTS)
"""The simulated mechanisms."""

_VALUE, _PRINTABLE = r"[\x01-\x2b\x2d-\x7f]+", r"[\x21-\x2b\x2d-\x7e]+"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?:m={_VALUE},)?"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})", re.DOTALL
)
_BY_TOKEN = "tokenauth=true"
"""Extension of a client that logs in by a delegation token."""
_OTHER_IDENTITY = "Authentication failed: Client requested an authorization id that is different from username"


class SaslMechanismError(Exception):
    """Failed exchange.

    Args:
        reason: what is wrong, for the history.
        told: whether the client may read the reason.
        breaks: whether the real server fails with an exception that nothing answers.
    """

    def __init__(self, reason: str, *, told: bool = False, breaks: bool = False) -> None:
        super().__init__(reason)
        self.reason: str = reason
        self.told: bool = told
        self.breaks: bool = breaks


class LoginToken(NamedTuple):
    """Delegation token by which its owner can log in (KIP-48): owner, secret, and the time of its expiry."""

    owner: str
    secret: bytes
    expires_ms: int


@dataclass(eq=False, repr=False)
class SaslExchange(ABC):
    """The broker's side of one login; it has no text, which might tell passwords.

    Attributes:
        user: name of the user; the one that the client claims to be until the exchange is complete.
        is_complete: whether the user is authenticated.
        token: the delegation token by which the client logs in; None without one.
    """

    user: str = field(default="", init=False)
    is_complete: bool = field(default=False, init=False)
    token: LoginToken | None = field(default=None, init=False)

    @abstractmethod
    def evaluate(self, token: bytes) -> bytes:
        """Return the answer to a client's token.

        Raises:
            SaslError: the login fails.
        """


@dataclass(eq=False, repr=False)
class PlainExchange(SaslExchange):
    """PLAIN: user and password in one token.

    Args:
        passwords: password by user.
        tells_parts: whether the client may read which part its token lacks; if not, empty parts at the end of a token
            do not count (String.split).
        checks_identity: whether the user can log in as itself only; if not, it may be anybody (CVE-2017-12610).

    >>> exchange = PlainExchange({"alice": "secret"})
    >>> exchange.evaluate(b"\\0alice\\0secret"), exchange.is_complete
    (b'', True)
    """

    passwords: Mapping[str, str]
    tells_parts: bool = field(default=True, kw_only=True)
    checks_identity: bool = field(default=True, kw_only=True)

    def evaluate(self, token: bytes) -> bytes:
        """Return an empty token if the password is right."""
        text = token.decode(errors="replace")
        parts = text.split("\0", 3) if self.tells_parts else text.rstrip("\0").split("\0")
        if len(parts) != 3:
            reason = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise SaslMechanismError(reason, told=self.tells_parts)
        identity, self.user, password = parts
        for what, value in (("username", self.user), ("password", password)):
            if not value:
                raise SaslMechanismError(f"Authentication failed: {what} not specified", told=self.tells_parts)
        known = self.passwords.get(self.user)
        if known is None or not hmac.compare_digest(known.encode(), password.encode()):
            raise SaslMechanismError("Authentication failed: Invalid username or password", told=True)
        if self.checks_identity and identity not in ("", self.user):
            raise SaslMechanismError(_OTHER_IDENTITY, told=True)
        self.user = identity or self.user
        self.is_complete = True
        return b""


@dataclass(eq=False, repr=False)
class ScramExchange(SaslExchange):
    """SCRAM: salt and iterations of the user's credential, then the proof that the client has the password.

    Args:
        mechanism: `SCRAM-SHA-256` or `SCRAM-SHA-512`.
        credential_of: returns the credential of a user; None if the user has none.
        token_of: returns the delegation token of an id; None if there is none.
        new_nonce: returns the server's part of the nonce.
        checks_nonce: whether the client's last message must repeat the whole nonce, as RFC 5802 says.
        has_extensions: whether extensions are part of what the client signs, and may name a delegation token.
    """

    mechanism: str
    credential_of: Callable[[str], ScramCredential | None]
    new_nonce: Callable[[], str]
    token_of: Callable[[str], LoginToken | None] = field(default=lambda _: None, kw_only=True)
    checks_nonce: bool = field(default=True, kw_only=True)
    has_extensions: bool = field(default=True, kw_only=True)
    _credential: ScramCredential | None = field(default=None, init=False)
    _client_first: str = field(default="", init=False)
    _server_first: str = field(default="", init=False)
    _nonce: str = field(default="", init=False)

    def evaluate(self, token: bytes) -> bytes:
        """Return the server's first message, or its last one if the client's proof is right."""
        text = token.decode(errors="replace")
        answer = self._begin(text) if self._credential is None else self._finish(text, self._credential)
        return answer.encode()

    def _begin(self, text: str) -> str:
        message = _CLIENT_FIRST.fullmatch(text)
        if message is None:
            raise SaslMechanismError("Invalid SCRAM client first message")
        name = self.user = _unescaped(message["name"])
        extensions = message["extensions"] if self.has_extensions else ""
        if _BY_TOKEN in extensions.split(","):
            self.token = self.token_of(name)
            if self.token is None:
                raise SaslMechanismError(f"Token Authentication failed: Invalid tokenId : {name}")
            self.user = self.token.owner
            password = base64.b64encode(self.token.secret).decode()
            credential: ScramCredential | None = new_credential(self.mechanism, password, self.new_nonce().encode())
        else:
            credential = self.credential_of(name)
        if credential is None:
            raise SaslMechanismError("Authentication failed: Invalid user credentials")
        if message["authzid"] is not None and _unescaped(message["authzid"]) != name:
            raise SaslMechanismError(_OTHER_IDENTITY, told=True)
        if credential.iterations < MIN_ITERATIONS:
            raise SaslMechanismError(f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS}")
        assert self._credential is None, "the first message comes once"
        self._credential = credential
        self._client_first = f"n={message['name']},r={message['nonce']}{extensions}"
        self._nonce = message["nonce"] + self.new_nonce()
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first

    def _finish(self, text: str, credential: ScramCredential) -> str:
        message = _CLIENT_FINAL.fullmatch(text)
        if message is None:
            raise SaslMechanismError("Invalid SCRAM client final message")
        if self.checks_nonce and message["nonce"] != self._nonce:
            raise SaslMechanismError("Invalid client nonce in the final client message.")
        signed = f"{self._client_first},{self._server_first},{message['bare']}".encode()
        digest = SCRAM_DIGESTS[self.mechanism]
        signature = hmac.digest(credential.stored_key, signed, digest)
        proof = base64.b64decode(message["proof"])
        if len(proof) != len(signature):
            raise SaslMechanismError("Argument arrays must be of the same length", breaks=True)
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key):
            raise SaslMechanismError("Invalid client credentials")
        self.is_complete = True
        return "v=" + base64.b64encode(hmac.digest(credential.server_key, signed, digest)).decode()


def _unescaped(name: str) -> str:
    """Return a user's name without the escapes of SCRAM.

    >>> _unescaped("a=2Cb=3Dc")
    'a,b=c'
    """
    return name.replace("=2C", ",").replace("=3D", "=")
