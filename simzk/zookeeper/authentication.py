"""What showing who one is comes to: the schemes of auth, and logging in by SASL (§4).

Rules of this module:
  - a verdict says what is answered and whether the connection ends; what was shown is added to the connection here;
  - nothing is sent here.

Source: ZooKeeperServer.processPacket, processSasl; the AuthenticationProviders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.acl import digest_id
from simzk.zookeeper.jute import decode_text
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Id
from simzk.zookeeper.sasl import DigestMd5, SaslError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.requests import Auth, Sasl


class Verdict(NamedTuple):
    """What a client is told that shows who it is.

    Attributes:
        code: of the reply; None for no reply.
        token: SASL's next word.
        closes: whether the connection ends.
    """

    code: Code | None
    token: bytes | None = None
    closes: bool = False


_ACCEPTED = Verdict(Code.OK)
_REFUSED = Verdict(Code.AUTH_FAILED, closes=True)
_CUT_OFF = Verdict(None, closes=True)


def authenticate(connection: Connection, request: Auth) -> Verdict:
    """Judge a request `Auth`."""
    config = connection.asker.config
    if request.scheme == "ip":
        connection.add_identity(Id("ip", connection.address))
    elif request.scheme == "digest" and request.auth is not None and config.digest_auth:
        digest = digest_id(request.auth, config.digest_algorithm)
        if digest == config.super_digest:
            connection.add_identity(Id("super", ""))
        connection.add_identity(Id("digest", digest))
    elif request.scheme == "x509" and any(identity.scheme == "x509" for identity in connection.identities):
        pass  # the handshake has shown it
    elif request.scheme == "ensemble" and "ensemble" in config.schemes:
        names = config.ensemble_names
        if request.auth and names is not None and decode_text(request.auth) not in names:
            return _CUT_OFF  # the client is to look for another server
    else:
        return _REFUSED
    return _ACCEPTED


def log_in(connection: Connection, request: Sasl, new_nonce: Callable[[], str]) -> Verdict:
    """Judge a token of a SASL exchange; `new_nonce` is for the first of a connection."""
    config = connection.asker.config
    if request.token is None:
        return _CUT_OFF  # there the real server stumbles, and says nothing
    passwords = config.passwords
    if passwords is None:
        # The real server answers with a null token and goes on (§1.5).
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
            return Verdict(code, closes=True)
    if token is not None and connection.sasl.user is not None:
        connection.add_identity(Id("sasl", connection.sasl.user))
        if connection.sasl.user in config.super_users:
            connection.add_identity(Id("super", ""))
    return Verdict(Code.OK, token)
