"""SASL login of one connection: the requests and tokens before the first other request, and again during a session.

Rules of this module (SaslServerAuthenticator, KafkaChannel, Processor):
  - a client may ask for ApiVersions (once, from 1.0 on), then names its mechanism by SaslHandshake. After version 0 of
    it, frames are bare tokens; after version 1, 1.0 and later, tokens are in SaslAuthenticate requests;
  - any other request closes the connection. Where tokens are expected in requests it is answered first, with
    ILLEGAL_SASL_STATE;
  - a failed login is answered, if the client can read an answer, and the connection is closed; from 2.1 on the end
    comes after `connection.failed.authentication.delay.ms` (KIP-306), and so does the answer (`LoginTexts` says which).
    Bytes that are no request close at once, except for the first ones;
  - after a bare token, a failure whose reason the client may not read closes at once;
  - SaslHandshake lists the mechanisms in the order of a HashSet, whatever the order of the setting;
  - from 2.2 on a session may have a lifetime (KIP-368): the client logs in again before it ends, with the same
    mechanism as the same user, at most once a second. The first other request after the end closes the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simzk.jvm.hash_map import hash_map_order
from simzk.kafka.client_requests.error_responses import error_response
from simzk.kafka.protocol.codec import API_VERSIONS, decode_request_header, encode_response
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from simzk.kafka.protocol.structs import ProtocolError, UnsupportedVersionError
from simzk.kafka.releases.since import Profile, at_release, by_release, since
from simzk.kafka.security.mechanisms import PLAIN, PlainExchange, SaslMechanismError, ScramExchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.protocol.messages import RequestHeader
    from simzk.kafka.protocol.structs import Message
    from simzk.kafka.releases.since import Release
    from simzk.kafka.security.mechanisms import LoginToken, SaslExchange
    from simzk.kafka.security.scram import ScramCredential
    from simzk.kafka.security.settings import SaslSettings

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
MAX_FRAME_BYTES: Final = 512 * 1024
"""Longest frame of a client that has not logged in (`sasl.server.max.receive.size`)."""
_LOGIN_INTERVAL_MS: Final = 1000
_IN_REQUESTS: Final = 1
"""First version of SaslHandshake after which tokens are in requests."""


class LoginTexts(Profile):
    """Differences between releases in answers to failed logins.

    Attributes:
        invalid: text for a client that must not read the reason.
        checks_scram_nonce: whether the last message of SCRAM must repeat the nonce (CVE-2024-56128).
        ends_with_token: whether a session with a lifetime ends when the delegation token of its login expires.
        always_ends_with_token: whether a session without a lifetime does so too.
        ends_bare: whether a session ends that began with bare tokens.
        of_success: text of the answer to a token that is right.
        delays_answers: whether the answer comes after the delay too, if the client may not read the reason.
        delays_strangers: whether the connection closes after the delay if the first bytes are no request; if not, only
            an unknown API does so.
        delays_large_frames: whether it does so after a frame that is too large.
        tells_plain_parts: whether a client reads what its token of PLAIN lacks.
        closes_expired: whether a session that has ended is closed; if not, its connection stays open, and silent.
        names_features: whether ApiVersions names the epoch of the features before the login, if there are any.
        has_flexible_headers: whether a header may have tagged fields, as that of ApiVersions in an unknown version.
        lists_versions_once: whether a client may ask for ApiVersions only once.
        checks_identity: whether a user can log in as itself only (CVE-2017-12610).
        has_extensions: whether what follows the nonce in the first message of SCRAM counts.
    """

    invalid: str = by_release(
        "Authentication failed due to invalid credentials with SASL mechanism {mechanism}",
        ((2, 2), "Authentication failed during {phase} due to invalid credentials with SASL mechanism {mechanism}"),
    )
    checks_scram_nonce: bool = since((3, 7, 2))
    ends_with_token: bool = since((2, 2))
    # The next ones are recorded: before and from the release on, the latter the first recorded one or its line's first.
    always_ends_with_token: bool = since((3, 0))  # not in 2.8.2, in 3.4.1
    ends_bare: bool = since((2, 7))  # not in 2.4.1
    of_success: str | None = by_release(None, ((2, 4), ""))  # null in 2.2.2
    delays_answers: bool = since((2, 7))  # not in 2.4.1
    delays_strangers: bool = since((2, 4))  # not in 2.2.2
    delays_large_frames: bool = since((2, 8))  # not in 2.7.2
    tells_plain_parts: bool = since((2, 4))  # not in 2.2.2
    closes_expired: bool = since((2, 4))  # not in 2.2.2
    names_features: bool = since((2, 8))  # not in 2.7.2
    has_flexible_headers: bool = since((2, 4))
    lists_versions_once: bool = since((1, 0))  # not in 0.11.0.3
    checks_identity: bool = since((0, 10, 2))
    has_extensions: bool = since((1, 1))  # not in 1.0.2


@dataclass(frozen=True)
class LoginRules:
    """Rules of all logins at one broker.

    Attributes:
        settings: mechanisms, lifetimes and the delay of failures.
        release: the broker's release.
        decode: returns header, body and version of a request; no body for ApiVersions in an unknown version.
        api_versions: returns the answer to ApiVersions; to None for an unknown version.
        credential_of: returns the credential of a SCRAM mechanism and a user; None for none.
        token_of: returns the delegation token of an id; None for none.
        new_nonce: returns the server's part of a nonce.
        now_ms: the clock, in milliseconds.
    """

    settings: SaslSettings
    release: Release
    decode: Callable[[bytes], tuple[RequestHeader, Message | None, int]]
    api_versions: Callable[[int, ApiVersionsRequest | None], Message]
    credential_of: Callable[[str, str], ScramCredential | None]
    token_of: Callable[[str], LoginToken | None]
    new_nonce: Callable[[], str]
    now_ms: Callable[[], int]

    @cached_property
    def texts(self) -> LoginTexts:
        """The texts of the release."""
        return at_release(LoginTexts, self.release)

    def new_exchange(self, mechanism: str) -> SaslExchange:
        """Return a new exchange of a mechanism."""
        assert mechanism in self.settings.mechanisms, f"{mechanism} is not enabled"
        texts = self.texts
        if mechanism == PLAIN:
            return PlainExchange(
                self.settings.passwords, tells_parts=texts.tells_plain_parts, checks_identity=texts.checks_identity
            )
        return ScramExchange(
            mechanism,
            partial(self.credential_of, mechanism),
            self.new_nonce,
            token_of=self.token_of,
            checks_nonce=texts.checks_scram_nonce,
            has_extensions=texts.has_extensions,
        )


class LoginReply(NamedTuple):
    """Answer of a broker to a frame of a client that logs in.

    Attributes:
        frame: the response, to be sent; None for none.
        closes: whether the connection is closed afterwards.
        delay_ms: how long it waits before both.
        reason: why the login failed, for the history; empty if it did not.
        answers_at_once: whether only the end waits.
    """

    frame: bytes | None
    closes: bool = False
    delay_ms: int = 0
    reason: str = ""
    answers_at_once: bool = False


class _State(Enum):
    BEGIN = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    OTHER_MECHANISM = auto()
    COMPLETE = auto()
    FAILED = auto()


class SaslLogin:
    """The broker's side of a login.

    Args:
        rules: what all logins at the broker have in common.
        before: the login that this one renews; None for the first one of a connection.

    Attributes:
        mechanism: the mechanism that the client has chosen; empty before.
        ends_ms: when the session ends unless the client logs in again; None for never.
    """

    def __init__(self, rules: LoginRules, before: SaslLogin | None = None) -> None:
        self._rules = rules
        self._before = before
        self._began_ms = rules.now_ms()
        self._state = _State.BEGIN
        self._exchange: SaslExchange | None = None
        self._in_requests = False
        self.mechanism: str = ""
        self.ends_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the user is authenticated."""
        return self._state is _State.COMPLETE

    @property
    def user(self) -> str:
        """The user; before the login is complete, the one that the client claims to be."""
        return "" if self._exchange is None else self._exchange.user

    @property
    def by_token(self) -> bool:
        """Whether the client has logged in by a delegation token."""
        return self._exchange is not None and self._exchange.token is not None

    @property
    def has_expired(self) -> bool:
        """Whether the session has ended."""
        return self.ends_ms is not None and self._rules.now_ms() > self.ends_ms

    @property
    def closes_expired(self) -> bool:
        """Whether the broker closes the connection of a session that has ended; if not, it stops to read from it."""
        return self._rules.texts.closes_expired

    def renewed(self) -> SaslLogin | None:
        """Return a login that renews this complete one; None if the client may not log in now."""
        assert self.is_complete, "a login is renewed after its end"
        age_ms = self._rules.now_ms() - self._began_ms
        if self.ends_ms is None or (self._before is not None and age_ms < _LOGIN_INTERVAL_MS):
            return None
        return SaslLogin(self._rules, self)

    def receive(self, frame: bytes) -> LoginReply:
        """Handle a frame of the client; the login is not complete."""
        assert self._state is not _State.COMPLETE
        if self._state is _State.FAILED:
            return LoginReply(None, closes=True)
        if len(frame) > MAX_FRAME_BYTES:
            reason = f"a frame of {len(frame)} bytes"
            return self._failed(None, reason) if self._rules.texts.delays_large_frames else self._closed(reason)
        try:
            if self._state is _State.TOKENS:
                return self._receive_token(frame)
            if self._state is _State.OTHER_MECHANISM:
                return self._failed(None, "another mechanism than before")
            return self._receive_request(frame)
        except ProtocolError as error:
            return self._closed(str(error))

    def _receive_request(self, frame: bytes) -> LoginReply:
        """Handle ApiVersions or SaslHandshake."""
        try:
            flexible = self._rules.texts.has_flexible_headers
            header, _ = decode_request_header(frame if flexible else frame[:2] + bytes(2) + frame[4:])
        except ProtocolError as error:
            is_first = self._state is _State.BEGIN and self._before is None
            is_unknown = isinstance(error, UnsupportedVersionError)
            delays = is_first and (is_unknown or self._rules.texts.delays_strangers)
            return self._failed(None, str(error)) if delays else self._closed(str(error))
        if header.request_api_key not in (API_VERSIONS, SASL_HANDSHAKE):
            return self._failed(None, f"request of type {header.request_api_key} before the login")
        header, request, version = self._rules.decode(frame)
        if isinstance(request, SaslHandshakeRequest):
            return self._choose(header, request, version)
        if self._state is _State.HANDSHAKE or self._before is not None:
            raise ProtocolError("ApiVersions a second time")
        assert request is None or isinstance(request, ApiVersionsRequest)
        response: Any = self._rules.api_versions(version, request)
        if not self._rules.texts.names_features:
            response.finalized_features_epoch = -1
        if response.error_code == ErrorCode.NONE and self._rules.texts.lists_versions_once:
            self._state = _State.HANDSHAKE
        return LoginReply(
            encode_response(response, 0 if request is None else version, correlation_id=header.correlation_id)
        )

    def _choose(self, header: RequestHeader, request: SaslHandshakeRequest, version: int) -> LoginReply:
        assert self._state in (_State.BEGIN, _State.HANDSHAKE), "a mechanism is chosen once"
        known, asked = self._rules.settings.mechanisms, request.mechanism
        code = ErrorCode.NONE if asked in known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        response = SaslHandshakeResponse(error_code=code, mechanisms=hash_map_order(known))
        frame = encode_response(response, version, correlation_id=header.correlation_id)
        if asked not in known:
            reason = f"mechanism {asked}"
            return self._failed(frame, reason) if self._before is None else self._closed(reason)
        self._in_requests = version >= _IN_REQUESTS
        self.mechanism = asked
        if self._before is not None and asked != self._before.mechanism:
            self._state = _State.OTHER_MECHANISM
        else:
            self._exchange, self._state = self._rules.new_exchange(asked), _State.TOKENS
        return LoginReply(frame)

    def _receive_token(self, frame: bytes) -> LoginReply:
        assert self._exchange is not None
        if not self._in_requests:
            try:
                answer = self._evaluate(self._exchange, frame)
            except SaslMechanismError as failure:
                return self._failed(None, failure.reason) if failure.told else self._closed(failure.reason)
            return LoginReply(answer)
        header, request, version = self._rules.decode(frame)
        number = header.correlation_id
        if not isinstance(request, SaslAuthenticateRequest):
            asked, version = (ApiVersionsRequest(), 0) if request is None else (request, version)
            refused = error_response(asked, version, ErrorCode.ILLEGAL_SASL_STATE)
            told = None if refused is None else encode_response(refused, version, correlation_id=number)
            return self._failed(told, f"request of type {header.request_api_key} during the login")
        response = SaslAuthenticateResponse(error_message=self._rules.texts.of_success)
        try:
            response.auth_bytes = self._evaluate(self._exchange, bytes(request.auth_bytes))
        except SaslMechanismError as failure:
            if failure.breaks:
                return self._closed(failure.reason)
            response.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
            phase = "authentication" if self._before is None else "re-authentication"
            untold = self._rules.texts.invalid.format(phase=phase, mechanism=self.mechanism)
            response.error_message = failure.reason if failure.told else untold
            failed = self._failed(encode_response(response, version, correlation_id=number), failure.reason)
            return failed._replace(answers_at_once=not (failure.told or self._rules.texts.delays_answers))
        if self.ends_ms is not None:
            response.session_lifetime_ms = self.ends_ms - self._rules.now_ms()
        return LoginReply(encode_response(response, version, correlation_id=number))

    def _evaluate(self, exchange: SaslExchange, token: bytes) -> bytes:
        """Return the answer to a token; complete the login after the last one.

        Raises:
            SaslError: the login fails.
        """
        answer = exchange.evaluate(token)
        if exchange.is_complete:
            assert self.user, "who has logged in has a name"
            if self._before is not None and self._before.user != self.user:
                change = f"User.{self._before.user}: User.{self.user}"
                raise SaslMechanismError(f"Cannot change principals during re-authentication from {change}", told=True)
            self._state = _State.COMPLETE
            self.ends_ms = self._end_ms(exchange)
        return answer

    def _end_ms(self, exchange: SaslExchange) -> int | None:
        """Return when the session of a complete exchange ends; None for never."""
        assert exchange.is_complete, "the session has not begun"
        now_ms, lifetime_ms = self._rules.now_ms(), self._rules.settings.lifetimes_ms[self.mechanism]
        texts = self._rules.texts
        if not (self._in_requests or texts.ends_bare):
            return None
        ends = [now_ms + lifetime_ms] if lifetime_ms else []
        if exchange.token is not None and (texts.ends_with_token if lifetime_ms else texts.always_ends_with_token):
            ends.append(max(now_ms, exchange.token.expires_ms))
        return min(ends, default=None)

    def _closed(self, reason: str) -> LoginReply:
        """Fail without an answer and without a delay."""
        assert reason, "the history tells why"
        self._state = _State.FAILED
        return LoginReply(None, closes=True, reason=reason)

    def _failed(self, frame: bytes | None, reason: str) -> LoginReply:
        assert reason, "the history tells why"
        self._state = _State.FAILED
        return LoginReply(frame, True, self._rules.settings.failure_delay_ms, reason)
