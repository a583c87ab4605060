"""SaslHandshake and SaslAuthenticate where no login is expected: at a port without SASL, or after the login.

Rules of this module (KafkaApis.handleSaslHandshakeRequest; recorded 0.10.0 to 3.9):
  - each is answered with ILLEGAL_SASL_STATE, and the connection stays open;
  - up to 1.0 the answer to SaslHandshake lists the enabled mechanisms, which are GSSAPI by default.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from simzk.kafka.security.login import SASL_AUTHENTICATE, SASL_HANDSHAKE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.client_requests.handlers import Answer, Context, Handler, ServingBroker


BY_DEFAULT = ("GSSAPI",)
"""The default of `sasl.enabled.mechanisms`."""
_LISTED_BEFORE = (1, 1)
_TEXT = "SaslAuthenticate request received after successful authentication"


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    mechanisms = broker.login_mechanisms
    return {
        SASL_HANDSHAKE: partial(refuse_handshake, broker.serving_broker, mechanisms),
        SASL_AUTHENTICATE: refuse_authenticate,
    }


def refuse_handshake(
    broker: ServingBroker, mechanisms: Sequence[str], _context: Context, _request: SaslHandshakeRequest, answer: Answer
) -> None:
    """Refuse to begin a login; name the enabled mechanisms where the release does."""
    listed = list(mechanisms) if broker.version.number < _LISTED_BEFORE else []
    answer(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=listed))


def refuse_authenticate(_context: Context, _request: SaslAuthenticateRequest, answer: Answer) -> None:
    """Refuse a token."""
    answer(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TEXT))
