"""Faults on single requests of Kafka clients: `KafkaCluster.broker_faults`, by API, client id, topic and broker.

Rules of this module:
  - rules and kinds of fault are those of ZooKeeper's requests (`simulation/request_faults.py`). The operation is the
    name of the API, the path a topic that the request names, and the session a client id, a broker, or both;
  - a rule is applied when the broker would begin to handle the request: the requests of a connection are handled one
    after the other, so those behind a delayed one wait;
  - a failed request is answered in the response form of its API, with the error in every topic and partition. A Produce
    request without acknowledgement has no response: its connection is closed, as a real broker does;
  - a request that is held back when its broker is killed or its client leaves is never handled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Protocol, TypeAlias, TypedDict, Unpack

from simzk.documents import is_number
from simzk.errors import ConfigError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.api_versions import api_names
from simzk.simulation.request_faults import (
    Delay,
    DropReply,
    DropRequest,
    Fail,
    FaultPoint,
    FaultRules,
    Hold,
    RequestFault,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from simzk.kafka.protocol.messages import RequestHeader
    from simzk.kafka.protocol.structs import Message, Struct
    from simzk.simulation import History
    from simzk.simulation.request_faults import FaultRule

BROKER_FAULTS: Final[Mapping[str, type[RequestFault]]] = {
    kind.name: kind for kind in (DropRequest, DropReply, Delay, Hold, Fail)
}
"""Kinds of fault on requests of Kafka clients."""
IMPLICIT: Final = frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata", "Heartbeat"})
"""Requests that client libraries send by themselves: a rule for any API does not match them."""
FAULTS: Final = "faults of clients' requests"
"""Component of the scheduler at which delayed requests wait."""
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")
_LIST_OF_NAMES: Final = "topic_names"
_TOPIC_RESOURCE: Final = 2
"""Type of a topic's settings (ConfigResource.Type)."""


class ApiVocabulary(NamedTuple):
    """Names of APIs and errors, for rules of faults.

    >>> API_VOCABULARY.code_of("NotEnoughReplicasError"), API_VOCABULARY.code_of("NOT_ENOUGH_REPLICAS")
    (19, 19)
    """

    operations: tuple[str, ...]
    implicit_operations: frozenset[str]
    hints: dict[str, str]
    errors: dict[str, int]
    faults_by_code: dict[int, str]
    protocol: str = "Kafka"
    accepted_errors: str = "the name of an error code, as NOT_ENOUGH_REPLICAS, or a client's exception for it"

    def code_of(self, name: str) -> int | None:
        """Return the error code of a name, which may be that of a client library's exception; None if there is none."""
        return _CODES.get(_plain(name))

    def check_path(self, path: str) -> None:
        """Raise `ConfigError` if a topic has no name."""
        if not path:
            raise ConfigError("the name of the topic is empty", where="topic", right="the name of a topic")


def _plain(name: str) -> str:
    """Return a name of an error as lower-case letters, without the ending of an exception's name.

    >>> _plain("NotEnoughReplicasException"), _plain("NOT_ENOUGH_REPLICAS")
    ('notenoughreplicas', 'notenoughreplicas')
    """
    return name.replace("_", "").lower().removesuffix("exception").removesuffix("error")


_CODES: Final = {_plain(code.name): int(code) for code in ErrorCode if code is not ErrorCode.NONE}
API_VOCABULARY: Final = ApiVocabulary(
    operations=tuple(api_names().values()),
    implicit_operations=IMPLICIT,
    hints={name.lower(): name for name in api_names().values()},
    errors={code.name: int(code) for code in ErrorCode if code is not ErrorCode.NONE},
    faults_by_code={},
)


def topics_of(struct: Struct) -> Iterator[tuple[str, str]]:
    """Yield name and id of each topic that a request names; one of both is empty if the request does not have it.

    >>> from simzk.kafka.protocol.messages import ProduceRequest
    >>> part = ProduceRequest.TopicProduceData(name="orders")
    >>> list(topics_of(ProduceRequest(topic_data=[part])))
    [('orders', '')]
    """
    schema = struct.SCHEMA
    if "Topic" in schema.name and schema is not struct.MESSAGE.root:
        from simzk.kafka.protocol.schema import ZERO_UUID

        attributes = {field.attribute for field in schema.fields}
        name = next((found for one in _TOPIC_NAMES if one in attributes and (found := getattr(struct, one))), "")
        topic_id = getattr(struct, "topic_id", ZERO_UUID)
        if name or topic_id != ZERO_UUID:
            yield name, "" if topic_id == ZERO_UUID else topic_id
    elif getattr(struct, "resource_type", 0) == _TOPIC_RESOURCE:
        yield getattr(struct, "resource_name", ""), ""
    for field in schema.fields:
        if field.is_array and field.attribute == _LIST_OF_NAMES:
            yield from ((name, "") for name in getattr(struct, field.attribute) or ())
        elif field.is_array and field.struct is not None:
            for item in getattr(struct, field.attribute) or ():
                yield from topics_of(item)


class Silence(Enum):
    """The answer to a request without a response, such as a Produce with acks 0."""

    NO_RESPONSE = 0


class Exchange(NamedTuple):
    """A request that its broker has decoded, and the response once there is one."""

    header: RequestHeader
    version: int
    request: Message
    response: Message | Silence | None = None


class FaultLink(Protocol):
    """A broker's end of a connection, as far as faults act on it.

    Attributes:
        closed: whether it is closed.
    """

    closed: bool

    @property
    def broker(self) -> int:
        """The id of the broker."""

    def topic_name(self, topic_id: str) -> str:
        """Return the name of a topic id that the broker knows; empty for another."""

    def deliver(self, callback: Callable[[], None]) -> None:
        """Call back in the process of the broker."""

    def handle(self, exchange: Exchange) -> None:
        """Handle a request."""

    def answer_nothing(self) -> None:
        """Finish the request in progress without a response."""

    def close(self) -> None:
        """Close the connection."""


BrokerFaultPoint: TypeAlias = FaultPoint[FaultLink, Exchange]


@dataclass(eq=False)
class FaultDriver:
    """The brokers' side of the fault point.

    Args:
        now_ms: returns the time.
        wake_at: arranges for a tick of the rules at a time.
    """

    now_ms: Callable[[], int]
    wake_at: Callable[[int], None]

    def describe(self, link: FaultLink, request: Exchange) -> tuple[tuple[Hashable, ...], str, tuple[str, ...]]:
        """Return the names of the client and the broker, the name of the API, and the topics."""
        client, broker = _client(request.header.client_id or ""), _broker(link.broker)
        topics = dict.fromkeys(name or link.topic_name(topic_id) for name, topic_id in topics_of(request.request))
        name = api_names()[request.header.request_api_key]
        return (client, broker, f"{client} at {broker}"), name, tuple(filter(None, topics))

    def pass_on(self, link: FaultLink, xid: int, request: Exchange) -> None:
        """Let the broker handle a request, in its process."""
        link.deliver(partial(link.handle, request))

    def pass_nothing(self, link: FaultLink, xid: int) -> None:
        """Let the broker answer a request that it does not handle; the answer is replaced by the error."""
        link.deliver(link.answer_nothing)

    def is_open(self, link: FaultLink) -> bool:
        """Return whether the broker still reads a connection."""
        return not link.closed

    def cut(self, link: FaultLink) -> None:
        link.close()

    def xid_of(self, message: object) -> int:
        """Return the number of a response."""
        assert isinstance(message, Exchange)
        return message.header.correlation_id

    def with_error(self, message: object, code: int) -> Exchange:
        """Return an exchange with an error response; without a response if the request has none."""
        assert isinstance(message, Exchange)
        assert code != ErrorCode.NONE, "success is no fault"
        if getattr(message.request, "acks", None) == 0:
            return message._replace(response=None)
        from simzk.kafka.client_requests.error_responses import error_response

        return message._replace(response=error_response(message.request, message.version, ErrorCode(code)))

    def after_release(self, link: FaultLink) -> None:
        """Do nothing: responses are sent when they are there."""

    def expire(self, link: FaultLink) -> NoReturn:
        raise AssertionError("a client of a broker has no session")

    def move(self, link: FaultLink, server: int) -> NoReturn:
        raise AssertionError("a client of a broker has no session")

    def pause(self, link: FaultLink) -> NoReturn:
        raise AssertionError("a held request stops its connection")

    def resume(self, link: FaultLink) -> NoReturn:
        raise AssertionError("a held request stops its connection")


def _client(client_id: str) -> str:
    return f"client {client_id}"


def _broker(number: int) -> str:
    return f"broker {number}"


def _whole(parameters: Mapping[str, str], name: str) -> int:
    """Return a parameter as a whole number."""
    text = parameters[name]
    if not is_number(text):
        raise ConfigError(f"{text!r} is no number", where=name, right="a whole number")
    return int(text)


def rule_fields(rule: FaultRule) -> dict[str, object]:
    """Return a rule and its counts as plain values, for JSON."""
    fields = rule.as_dict()
    sender = fields.pop("session")
    renamed = {"api": fields.pop("op"), "topic": fields.pop("path"), "from": sender}
    del fields["below"]
    return {"rule": fields.pop("rule"), "action": fields.pop("action"), **renamed, **fields}


class WhichRequests(TypedDict, total=False):
    """The requests that a rule matches, apart from their API.

    Attributes:
        client_id: the client id that the request has [default: any].
        topic: a topic that the request names [default: any].
        broker: the broker that receives it [default: any].
        times: number of requests after which the rule is used up; None for no limit [default: 1].
    """

    client_id: str
    topic: str
    broker: int
    times: int | None


class BrokerRequestFaults:
    """Faults on the requests that Kafka clients send to brokers.

    Every method takes `api`, the name of the request as Kafka writes it ("Produce", "CreateTopics", ...; None for any
    that a client is asked to do), and `WhichRequests`. It returns the rule, which counts its requests in `fired`.

    Args:
        history: records each fault.
        brokers: returns the ids of all brokers.
        now_ms: returns the time.
        call_at_ms: calls back at a time.
        lock: held while rules change.

    Attributes:
        table: the rules.
        point: where they are applied.
    """

    def __init__(
        self,
        history: History,
        brokers: Callable[[], list[int]],
        now_ms: Callable[[], int],
        call_at_ms: Callable[[int, Callable[[], None]], object],
        lock: AbstractContextManager[object],
    ) -> None:
        self.table: FaultRules = FaultRules(API_VOCABULARY)
        self.table.lock = lock
        self.table.on_fired = self._record
        self._history = history
        self._brokers = brokers
        self._now_ms = now_ms
        self._call_at_ms = call_at_ms
        self.point: BrokerFaultPoint = FaultPoint(self.table, FaultDriver(now_ms, self._wake_at))

    @property
    def rules(self) -> list[FaultRule]:
        """The rules that were not cleared, oldest first."""
        return self.table.list()

    def clear(self) -> None:
        """Remove all rules, and let brokers handle the requests that they hold back."""
        self.table.clear()

    def inject(self, fault: RequestFault, api: str | None = None, **which: Unpack[WhichRequests]) -> FaultRule:
        """Apply a fault of one of the kinds in `BROKER_FAULTS` to requests.

        Raises:
            ConfigError: the API, broker, topic, number of times or fault is invalid; the same with every method.
        """
        if fault.name not in BROKER_FAULTS:
            right = f"one of {', '.join(BROKER_FAULTS)}"
            raise ConfigError(f"{fault.name} is no fault of a broker's request", where="fault", right=right)
        return self.table.add(
            fault.resolve(API_VOCABULARY, ()),
            api,
            session=self._sender(which.get("client_id"), which.get("broker")),
            path=which.get("topic"),
            times=which.get("times", 1),
        )

    def drop_request(self, api: str | None = None, **which: Unpack[WhichRequests]) -> FaultRule:
        """Lose requests before they are applied, and close their connection: the client cannot tell."""
        return self.inject(DropRequest(), api, **which)

    def drop_reply(self, api: str | None = None, **which: Unpack[WhichRequests]) -> FaultRule:
        """Apply requests, lose their responses, and close their connection: the client cannot tell."""
        return self.inject(DropReply(), api, **which)

    def delay(self, api: str | None = None, *, seconds: float, **which: Unpack[WhichRequests]) -> FaultRule:
        """Apply requests, and the ones behind them on their connection, after a delay in seconds."""
        return self.inject(Delay(seconds), api, **which)

    def hold(self, api: str | None = None, **which: Unpack[WhichRequests]) -> FaultRule:
        """Hold requests back, and the ones behind them on their connection, until `FaultRule.release`."""
        return self.inject(Hold(), api, **which)

    def fail(self, api: str | None = None, *, error: str | ErrorCode, **which: Unpack[WhichRequests]) -> FaultRule:
        """Answer requests with an error in every topic and partition, instead of applying them.

        Args:
            api: the API of the requests.
            error: the error code or its name, as "NOT_ENOUGH_REPLICAS".
            **which: further conditions on the requests.
        """
        return self.inject(Fail(error.name if isinstance(error, ErrorCode) else error), api, **which)

    def change(self, verb: str, parameters: Mapping[str, str]) -> FaultRule | None:
        """Add a rule, or release or clear rules, as clients of the HTTP control ask; return the rule.

        Args:
            verb: a kind of fault, `fail_next`, `release` or `clear`.
            parameters: `api`, `client_id`, `topic`, `broker`, `n` (a number of requests or `all`), the parameter of the
                kind (`seconds`, `error`), and `rule`, the number of a rule.

        Raises:
            ConfigError: the verb or a parameter is invalid.

        >>> from simzk.kafka.cluster.cluster import KafkaCluster
        >>> with KafkaCluster(brokers=1) as cluster:
        ...     cluster.broker_faults.change("fail_next", {"api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER", "n": "2"})
        <fail Fetch: fired 0 of 2>
        """
        unknown = parameters.keys() - {"api", "client_id", "topic", "broker", "n", "seconds", "error", "rule"}
        if unknown:
            raise ConfigError(f"unknown parameter {min(unknown)!r}", where=verb, right="docs/faults.md lists them")
        if verb in ("release", "clear"):
            if "rule" in parameters:
                rule = self.table.find(_whole(parameters, "rule"))
                (rule.release if verb == "release" else rule.clear)()
                return rule
            if verb == "release":
                raise ConfigError("the parameter is missing", where="rule", right="the number of a rule")
            self.clear()
            return None
        kind = BROKER_FAULTS.get("fail" if verb == "fail_next" else verb)
        if kind is None:
            right = f"one of {', '.join((*BROKER_FAULTS, 'fail_next', 'release', 'clear'))}"
            raise ConfigError(f"unknown fault {verb!r}", where="broker_faults", right=right)
        if kind.parameter and kind.parameter not in parameters:
            raise ConfigError("the parameter is missing", where=kind.parameter, right=f"?{kind.parameter}=...")
        which = WhichRequests()
        if "client_id" in parameters:
            which["client_id"] = parameters["client_id"]
        if "topic" in parameters:
            which["topic"] = parameters["topic"]
        if "broker" in parameters:
            which["broker"] = _whole(parameters, "broker")
        if "n" in parameters:
            which["times"] = None if parameters["n"] == "all" else _whole(parameters, "n")
        value = parameters.get(kind.parameter, "")
        if kind.parameter_type is float:
            try:
                float(value)
            except ValueError:
                raise ConfigError(f"{value!r} is no number", where=kind.parameter, right="a number") from None
        return self.inject(kind.from_parameter(value), parameters.get("api"), **which)

    def _wake_at(self, at_ms: int) -> None:
        self._call_at_ms(at_ms, lambda: self.table.tick(self._now_ms()))

    def _sender(self, client_id: str | None, broker: int | None) -> str | None:
        """Return the name of the session that a rule matches."""
        if broker is not None and broker not in (known := self._brokers()):
            right = f"one of {', '.join(map(str, known))}"
            raise ConfigError(f"broker {broker} does not exist", where="broker", right=right)
        names = [_client(client_id)] if client_id is not None else []
        return " at ".join(names + ([_broker(broker)] if broker is not None else [])) or None

    def _record(self, rule: FaultRule, who: tuple[Hashable, ...], operation: str, paths: tuple[str, ...]) -> None:
        self._history.record(str(who[2]), f"fault: {rule.action}", ", ".join(paths), "", operation)
