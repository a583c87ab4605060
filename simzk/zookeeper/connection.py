"""Connection of one client: its session, its authenticated identities, its outgoing messages; authentication (§4).

Rules of this module:
  - `authenticate` and `log_in` add identities to the connection and return an `AuthenticationResult`; the server sends
    the reply.

Source: ServerCnxn, ZooKeeperServer.processPacket and processSasl, the AuthenticationProviders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.jvm.hash_map import concurrent_order
from simzk.jvm.texts import decode_text
from simzk.zookeeper.acl import digest_id
from simzk.zookeeper.prepare import Asker
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Id
from simzk.zookeeper.sasl import DigestMd5, SaslError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.prepare import PendingCversions
    from simzk.zookeeper.quotas import Quotas
    from simzk.zookeeper.replies import Outgoing
    from simzk.zookeeper.requests import Auth, Sasl
    from simzk.zookeeper.sessions import Session


class Connection:
    """Connection of a client. `Server.connect` makes it, and only the server changes it, except `owner` and `attended`.

    Attributes:
        session: the session, None if the server rejected the connect request.
        session_id: id of the session, 0 without one.
        timeout_ms: negotiated session timeout.
        heard_ms: time of the last request; -1 before the first.
        closed: whether the server ended the connection; what is in `outgoing` is still sent.
        address: address of the client, its identity in the ip scheme.
        outgoing: messages to send, in order, until `Server.take_output` collects them.
        owner: reference of the driver, which the server ignores.
        read_only: the read-only byte of connect responses; None for a client that does not know it.
        sasl: state of a SASL login; None before the first token.
        attended: set by the driver while a client is connected: `Server.tick` then touches the session instead of
            expiring it.
    """

    __slots__ = (
        "_identities",
        "address",
        "asker",
        "attended",
        "closed",
        "heard_ms",
        "outgoing",
        "owner",
        "read_only",
        "sasl",
        "session",
        "session_id",
        "timeout_ms",
    )

    def __init__(
        self, address: str, owner: object, config: ServerConfig, quotas: Quotas, pending: PendingCversions
    ) -> None:
        self.session: Session | None = None
        self.session_id: int = 0
        self.timeout_ms: int = 0
        self.closed: bool = False
        self.heard_ms: int = -1
        self.address: str = address
        self.outgoing: list[Outgoing] = []
        self.owner: object = owner
        self.read_only: bool | None = None
        self.sasl: DigestMd5 | None = None
        self.attended: bool = False
        self.asker: Asker = Asker((Id("ip", address),), config, config.rules, quotas, pending)
        self._identities = self.asker.identities

    def __repr__(self) -> str:
        return f"Connection(0x{self.session_id:x}, {self.address}{', closed' if self.closed else ''})"

    @property
    def identities(self) -> tuple[Id, ...]:
        """Return the authenticated identities in the order of the real server's set, before 3.6 its list."""
        return self.asker.identities

    def add_identity(self, identity: Id) -> None:
        """Add an identity that the client authenticated."""
        assert identity.scheme, "an identity is of a scheme"
        if identity not in self.identities:
            self._identities = (*self._identities, identity)
            identities = self._identities
            if self.asker.rules.identities_are_hashed:
                identities = tuple(concurrent_order(identities, Id.hash_code))
                assert len(identities) == len(self._identities)
            self.asker = self.asker._replace(identities=identities)


class AuthenticationResult(NamedTuple):
    """Result of an authentication request.

    Attributes:
        code: error code of the reply; None for no reply.
        token: next SASL token of the server.
        closes: whether the connection is closed.
    """

    code: Code | None
    token: bytes | None = None
    closes: bool = False


_ACCEPTED = AuthenticationResult(Code.OK)
_REFUSED = AuthenticationResult(Code.AUTH_FAILED, closes=True)
_CLOSED_SILENTLY = AuthenticationResult(None, closes=True)


def authenticate(connection: Connection, request: Auth) -> AuthenticationResult:
    """Add the identities that an `Auth` request proves; return its result."""
    config = connection.asker.config
    if request.scheme == "ip":
        connection.add_identity(Id("ip", connection.address))
    elif request.scheme == "digest" and request.auth is not None and config.digest_auth:
        digest = digest_id(request.auth, config.digest_algorithm)
        if digest == config.super_digest:
            connection.add_identity(Id("super", ""))
        connection.add_identity(Id("digest", digest))
    elif request.scheme == "x509" and any(identity.scheme == "x509" for identity in connection.identities):
        pass  # authenticated by the TLS handshake
    elif request.scheme == "ensemble" and "ensemble" in config.schemes:
        names = config.ensemble_names
        if request.auth and names is not None and decode_text(request.auth) not in names:
            return _CLOSED_SILENTLY  # the client is meant for another ensemble
    else:
        return _REFUSED
    return _ACCEPTED


def log_in(connection: Connection, request: Sasl, new_nonce: Callable[[], str]) -> AuthenticationResult:
    """Process a SASL token; return its result. `new_nonce` is called for the first token of a connection."""
    config = connection.asker.config
    if request.token is None:
        return _CLOSED_SILENTLY  # the real server fails on it and sends no reply
    passwords = config.passwords
    if passwords is None:
        # Without SASL the real server answers with a null token and keeps the connection (§1.5).
        return _ACCEPTED
    if connection.sasl is None:
        connection.sasl = DigestMd5(passwords, new_nonce())
    token = None
    try:
        token = connection.sasl.answer(request.token)
    except SaslError:
        required = "sasl" in config.required_schemes
        if required or not config.keeps_failed_logins:
            code = Code.SESSION_CLOSED_REQUIRE_SASL_AUTH if required else Code.AUTH_FAILED
            return AuthenticationResult(code, closes=True)
    if token is not None and connection.sasl.user is not None:
        connection.add_identity(Id("sasl", connection.sasl.user))
        if connection.sasl.user in config.super_users:
            connection.add_identity(Id("super", ""))
    return AuthenticationResult(Code.OK, token)
