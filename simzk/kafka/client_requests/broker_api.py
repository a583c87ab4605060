"""Connections of clients to a simulated broker: frames to requests, and responses to frames.

Rules of this module (RequestChannel, KafkaApis; tests/kafka/test_client_requests.py has the recorded answers):
  - a connection has one request in progress: the next one is read when the response is sent, so responses are in order;
  - a request is handled in the process of the broker: a paused broker answers nothing, a killed one closes;
  - bytes that are no request, an unknown API and a version that the release does not accept close the connection; 0.9
    keeps it open without an answer;
  - at a port with SASL, frames belong to the login until it is complete (security/login.py);
  - a request passes the fault point before its handler, and its response after it (broker_faults.py);
  - every API of the release has a handler; KIP-848's are refused, as by brokers with ZooKeeper.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from simzk.kafka.client_requests.broker_faults import Exchange, Silence
from simzk.kafka.client_requests.error_responses import error_response
from simzk.kafka.client_requests.handlers import ANONYMOUS, Context
from simzk.kafka.protocol.codec import API_VERSIONS, decode_request, decode_request_header, encode_response
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from simzk.kafka.protocol.structs import ProtocolError
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.security.login import SASL_HANDSHAKE, LoginRules, SaslLogin
from simzk.kafka.security.settings import PLAINTEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.client_requests.broker_faults import BrokerFaultPoint
    from simzk.kafka.client_requests.handlers import Answer, Handler, ServingBroker
    from simzk.kafka.protocol.messages import RequestHeader
    from simzk.kafka.protocol.structs import Message
    from simzk.kafka.security.login import LoginReply
    from simzk.simulation import History

_METADATA_KEY = b"\0\3"
_SASL_HANDSHAKE_KEY = SASL_HANDSHAKE.to_bytes(2, "big")
_API_VERSIONS_KEY = API_VERSIONS.to_bytes(2, "big")
_FLEXIBLE = 3
"""The first version of ApiVersions with tagged fields, also in its header."""
_SHOWN = 200
"""Longest text of a client in the history."""
NEED_KRAFT = (68, 69)
"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, refused without a message (KIP-848; recorded with 3.9)."""


class ClientTransport(Protocol):
    """The way to one client."""

    def send(self, frame: bytes) -> None:
        """Send the frame of a response, without its length."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(eq=False)
class BrokerApi:
    """The APIs of one broker, from one start of its process to the next.

    Args:
        broker: the broker.
        name: its name in the history.
        history: where requests that cannot be answered are recorded.
        features_epoch: returns the epoch of the finalized features; -1 if the release has none.
        handlers: by API key.
        faults: the faults of clients' requests.
        listener: name of the listener of a connection that names none.
        new_login_rules: returns the rules of SASL logins, by the name of each listener with SASL.
    """

    broker: ServingBroker
    name: str
    history: History
    features_epoch: Callable[[], int]
    handlers: dict[int, Handler]
    faults: BrokerFaultPoint
    listener: str = PLAINTEXT
    new_login_rules: Mapping[str, Callable[[BrokerApi], LoginRules]] = field(default_factory=dict)
    connections: dict[ServedConnection, None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.accepted = accepted_versions(self.broker.version.number)
        self._has_old_headers = API_VERSIONS in self.accepted and self.accepted[API_VERSIONS].high < _FLEXIBLE
        self.handlers = {
            **self.handlers,
            API_VERSIONS: lambda context, request, answer: answer(self.api_versions(context.version, request)),
            **dict.fromkeys(NEED_KRAFT, refuse_unsupported),
        }
        assert self.accepted.keys() <= self.handlers.keys(), "an API of the release has no handler"
        self._login_rules = {listener: new_rules(self) for listener, new_rules in self.new_login_rules.items()}

    def connect(
        self, transport: ClientTransport, principal: str = ANONYMOUS, listener: str | None = None
    ) -> ServedConnection:
        """Return the broker's end of a new connection; the process runs.

        Args:
            transport: the way to the client.
            principal: the client's principal by its certificate; a SASL login replaces it.
            listener: name of the listener; None for the one that is for clients.
        """
        assert self.broker.process.alive
        at = listener or self.listener
        rules = self._login_rules.get(at)
        connection = ServedConnection(self, transport, principal, None if rules is None else SaslLogin(rules), at)
        self.connections[connection] = None
        return connection

    def close(self) -> None:
        """Close all connections, because the process ends."""
        for connection in list(self.connections):
            connection.close()

    def answers(self, api_key: int, version: int) -> bool:
        """Return whether the release accepts a version of an API."""
        return version in self.accepted.get(api_key, ())

    def decode(self, frame: bytes) -> tuple[RequestHeader, Message | None, int]:
        """Return header, body and version of a request; no body for ApiVersions in an unknown version.

        Raises:
            ProtocolError: it is no request, or one that the release does not accept.
        """
        if self.broker.version.api.answers_metadata_of_any_version and frame[:2] == _METADATA_KEY:
            frame = _METADATA_KEY + b"\0\0" + frame[4:]
        if frame[:2] == _API_VERSIONS_KEY and self._has_old_headers:
            asked = int.from_bytes(frame[2:4], "big", signed=True)
            if not self.answers(API_VERSIONS, asked):
                header, _ = decode_request_header(frame[:2] + b"\0\0" + frame[4:])
                return header, None, asked
        header, _ = decode_request_header(frame)
        version = header.request_api_version
        if self.answers(header.request_api_key, version):
            return header, decode_request(frame).body, version
        if header.request_api_key == API_VERSIONS and API_VERSIONS in self.accepted:
            return header, None, version
        raise ProtocolError(f"the broker does not accept {header}")

    def api_versions(self, version: int, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
        """Return the answer to ApiVersions; to None, which stands for an unknown version, in version 0."""
        if request is None:
            return self.refuse_api_versions()
        if version >= 3 and not (
            is_software_text(request.client_software_name) and is_software_text(request.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        return ApiVersionsResponse(api_keys=self._ranges(self.accepted), finalized_features_epoch=self.features_epoch())

    def refuse_api_versions(self) -> ApiVersionsResponse:
        """Return the answer to ApiVersions in a version that the release does not have, in version 0 (KIP-511)."""
        named = [API_VERSIONS] if self.broker.version.api.names_versions_on_refusal else []
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._ranges(named))

    def _ranges(self, keys: Any) -> list[ApiVersionsResponse.ApiVersion]:
        one, accepted = ApiVersionsResponse.ApiVersion, self.accepted
        return [one(api_key=key, min_version=accepted[key].low, max_version=accepted[key].high) for key in keys]


def refuse_unsupported(context: Context, request: Message, answer: Answer) -> None:
    """Answer a request with UNSUPPORTED_VERSION."""
    answer(error_response(request, context.version, ErrorCode.UNSUPPORTED_VERSION))


def is_software_text(text: str) -> bool:
    """Return whether a text is the name or version of a client's software: letters, digits, `-` and `.` inside.

    >>> [is_software_text(text) for text in ("kafka-python", "3.0.1", "a_b", "-a", "")]
    [True, True, False, False, False]
    """
    inner = text.replace("-", "a").replace(".", "a")
    return inner.isascii() and inner.isalnum() and text[0] not in "-." and text[-1] not in "-."


class ServedConnection:
    """The broker's end of a connection, on which faults act as on every `FaultLink`.

    Args:
        api: the broker's APIs.
        transport: the way to the client.
        principal: the client's principal before a login.
        login: the SASL login that comes first; None for none.
        listener: name of the listener at which the client connected.
    """

    def __init__(
        self,
        api: BrokerApi,
        transport: ClientTransport,
        principal: str = ANONYMOUS,
        login: SaslLogin | None = None,
        listener: str = "",
    ) -> None:
        self._api = api
        self._transport = transport
        self.principal: str = principal
        self._login = login
        self._listener = listener
        self._waiting: deque[bytes] = deque()
        self._in_progress = False
        self._exchange: Exchange | None = None
        self._goes_on = False
        self.closed: bool = False

    @property
    def broker(self) -> int:
        return self._api.broker.id

    @property
    def backlog(self) -> int:
        """Number of requests that are not handled yet: an earlier one is, or the broker is paused."""
        return len(self._waiting)

    def receive(self, frame: bytes) -> None:
        """Handle the frame of a request in the broker's process, after the response to the one before."""
        if not self.closed:
            self._waiting.append(frame)
            self._api.broker.process.deliver(self._go_on)

    def hang_up(self) -> None:
        """Forget the connection, because the client has closed its end."""
        self.closed = True
        self._waiting.clear()
        self._api.connections.pop(self, None)
        self._api.faults.forget(self)

    def close(self) -> None:
        """Close the connection."""
        if not self.closed:
            self.hang_up()
            self._transport.close()

    def _go_on(self) -> None:
        if self._goes_on:  # an answer that comes at once; thousands of requests may wait
            return
        self._goes_on = True
        while self._waiting and not self._in_progress and not self.closed:
            self._serve(self._waiting.popleft())
        self._goes_on = False

    def _serve(self, frame: bytes) -> None:
        assert not self._in_progress, "one request is handled at a time"
        rules = self._api.broker.version.api
        if self._login is not None and self._passes_login(self._login, frame):
            return
        if not frame and rules.ignores_empty_frames:
            return
        try:
            header, body, version = self._api.decode(frame)
        except ProtocolError:
            if not rules.ignores_malformed_requests:
                self.close()
            return
        if body is None:  # of a version that the release does not have
            self._respond(self._api.refuse_api_versions(), 0, header.correlation_id)
            return
        self._in_progress = True
        exchange = self._exchange = Exchange(header, version, body)
        if self._api.faults.active:
            self._api.faults.admit(self, header.correlation_id, exchange)
        else:
            self.handle(exchange)

    def _passes_login(self, login: SaslLogin, frame: bytes) -> bool:
        """Handle a frame that is part of a login, or that comes too late; return whether that is all."""
        if login.is_complete:
            renewed = login.renewed() if frame[:2] == _SASL_HANDSHAKE_KEY else None
            if renewed is None:
                if login.has_expired and login.closes_expired:
                    self.close()
                elif login.has_expired:
                    self._in_progress = True  # the request is never answered, and no other one is read
                return login.has_expired
            login = self._login = renewed
        reply = login.receive(frame)
        if login.is_complete:
            self.principal = f"User:{login.user}"
        if reply.reason:
            self._api.history.record(self._api.name, "login failed", login.user[:_SHOWN], "", reply.reason[:_SHOWN])
        if reply.answers_at_once and reply.frame is not None and reply.delay_ms:
            self._transport.send(reply.frame)
            reply = reply._replace(frame=None)
        if reply.delay_ms:
            self._in_progress = True
            self._api.broker.process.call_later(reply.delay_ms * 1000, lambda: self._reply(reply))
        else:
            self._reply(reply)
        return True

    def _reply(self, reply: LoginReply) -> None:
        """Send the response to a frame of a login, unless the client has closed its end meanwhile."""
        if self.closed:
            return
        if reply.frame is not None:
            self._transport.send(reply.frame)
        if reply.closes:
            self.close()

    def topic_name(self, topic_id: str) -> str:
        return self._api.broker.cache.topic_names.get(topic_id, "")

    def deliver(self, callback: Callable[[], None]) -> None:
        self._api.broker.process.deliver(callback)

    def handle(self, exchange: Exchange) -> None:
        """Handle a request; its response is sent when the handler has it."""
        assert self._in_progress, "a request is handled once"
        header = exchange.header
        handler = self._api.handlers[header.request_api_key]
        context = Context(
            exchange.version,
            header.client_id,
            self.principal,
            self._login is not None and self._login.by_token,
            self._listener,
        )
        handler(context, exchange.request, lambda response: self.finish(exchange._replace(response=response)))

    def answer_nothing(self) -> None:
        """Finish the request in progress without a response; the fault point puts an error in its place."""
        assert self._exchange is not None, "a request is in progress"
        self.finish(self._exchange)

    def finish(self, exchange: Exchange) -> None:
        """Send a response, and go on with the next request; close the connection if there is no response."""
        if self.closed:
            return
        assert self._in_progress, "a request is answered once"
        outgoing, self._exchange = [exchange], None
        is_lost = self._api.faults.active and self._api.faults.alter(self, outgoing)
        response = None if is_lost else outgoing[0].response
        if response is None:
            self.close()
            return
        if not isinstance(response, Silence):
            assert response.MESSAGE.api_key == exchange.request.MESSAGE.api_key, "the answer is one to the request"
            self._respond(response, exchange.version, exchange.header.correlation_id)
        self._in_progress = False
        # The answer may be given amid a change of replicas, to which the next request must not add.
        if self._waiting and not self._goes_on:
            self._api.broker.process.call_later(0, self._go_on)

    def _respond(self, response: Message, version: int, correlation_id: int) -> None:
        self._transport.send(encode_response(response, version, correlation_id=correlation_id))
