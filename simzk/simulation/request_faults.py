"""Faults on single requests: their kinds, the rules that select requests, and the point where rules are applied.

Rules of this module:
  - a kind of fault is one class in `REQUEST_FAULTS`; `FaultVerbs.inject`, the HTTP endpoints and the JSON of rules
    derive from it;
  - a rule selects requests by session, operation and path, each exact or any; it does not depend on the form of
    requests, so that the same rules serve a simulated network, a connection in memory and TCP, and requests of Kafka
    clients (there the path is a topic, and the session a client, a broker or both);
  - at most one rule applies to a request: the oldest one that matches it and is not used up; a rule that is used up
    stays listed with its count until it is cleared (`USED_UP_LISTED_MAX` of them at most);
  - an invalid rule is rejected as a whole before it takes effect;
  - the requests of one connection are handled in the order of their arrival: all wait behind one that is held back, and
    are matched when their turn comes;
  - a request is applied once or never: a lost request never reaches the server; one with a lost reply was applied,
    and its connection is closed in the place of the reply, after all messages before it;
  - a failed request has its reply replaced by the error in the same place, so that replies stay in order even if the
    server answers late;
  - requests held back are discarded when their connection closes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from simzk.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping

USED_UP_LISTED_MAX = 1000
"""Number of used-up rules that stay listed, the latest ones."""

DELAY_SECONDS_MAX = 1e9

LinkT = TypeVar("LinkT")
RequestT = TypeVar("RequestT")
LinkIn = TypeVar("LinkIn", contravariant=True)
RequestIn = TypeVar("RequestIn", contravariant=True)


def closest(name: str, known: Collection[str]) -> str:
    """Return a question whether a similar name was meant; empty if no name is similar."""
    close = nearest(name, known)
    return f"; did you mean {close!r}?" if close else ""


class Vocabulary(Protocol):
    """The names that rules may use, as the server defines them."""

    @property
    def operations(self) -> tuple[str, ...]:
        """Names of all requests."""

    @property
    def implicit_operations(self) -> Collection[str]:
        """Names of requests that clients send by themselves; a rule for any operation does not match these."""

    @property
    def hints(self) -> Mapping[str, str]:
        """Other names that users may try, in lower case, with the correct name."""

    @property
    def errors(self) -> Mapping[str, int]:
        """Error codes of replies by name."""

    @property
    def faults_by_code(self) -> Mapping[int, str]:
        """Names of the fault for codes that no server replies with: it is applied instead of a reply."""

    @property
    def protocol(self) -> str:
        """Name of the protocol that the errors belong to."""

    @property
    def accepted_errors(self) -> str:
        """Description of the accepted errors."""

    def code_of(self, name: str) -> int | None:
        """Return the code that a name means; None if there is none."""

    def check_path(self, path: str) -> None:
        """Raise `ConfigError` if no request can have this path."""


class HeldRequest(NamedTuple, Generic[RequestT]):
    """A request of a connection with requests held back: the first one by its rule, the others by those before it."""

    xid: int
    request: RequestT
    came_ms: int
    rule: FaultRule | None = None
    due_ms: int | None = None


class RequestFault(ABC):
    """Kind of fault that a rule applies to matching requests.

    Attributes:
        name: identifies the kind in rules and in JSON.
        endpoint: the last part of the HTTP path that adds such a rule, `/faults/ENDPOINT`; empty for the name.
        parameter: name of the parameter of the kind; empty for none.
        parameter_type: its type, which also reads it from text.
    """

    name: ClassVar[str]
    endpoint: ClassVar[str] = ""
    parameter: ClassVar[str] = ""
    parameter_type: ClassVar[type[int | float | str]] = str

    @classmethod
    def from_parameter(cls, value: str | float) -> RequestFault:
        """Return a fault of this kind; `value` is ignored by a kind without parameter."""
        arguments = [cls.parameter_type(value)] if cls.parameter else []
        return cls(*arguments)

    def resolve(self, vocabulary: Vocabulary, servers: tuple[int, ...]) -> RequestFault:
        """Check the parameter against a server, and return the fault to apply.

        Args:
            vocabulary: the names that the server knows.
            servers: the servers of its ensemble; empty for a single server.

        Raises:
            ConfigError: the server cannot apply the fault.
        """
        return self

    @abstractmethod
    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        """Apply the fault to a request that has reached a fault point, because of its rule."""

    def details(self) -> dict[str, object]:
        """Return the parameter of the fault for the JSON of its rule."""
        return {}


class DropRequest(RequestFault):
    """Lose the request before it is applied, and close its connection: the client cannot tell."""

    name = "drop_request"

    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        point.driver.cut(link)


class DropReply(RequestFault):
    """Apply the request, lose its reply, and close its connection: the client cannot tell."""

    name = "drop_reply"

    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        point.alter_reply(link, held.xid, None)
        point.driver.pass_on(link, held.xid, held.request)


class Delay(RequestFault):
    """Apply the request, and the ones behind it on its connection, after a delay."""

    name = "delay"
    parameter, parameter_type = "seconds", float

    def __init__(self, seconds: float) -> None:
        self.delay_ms = round(seconds * 1000) if 0 < seconds < DELAY_SECONDS_MAX else 0
        if self.delay_ms < 1:
            raise ConfigError(f"{seconds} s is not a valid delay", where="seconds", right="0.001 or more")

    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        due_ms = held.came_ms + self.delay_ms
        if due_ms <= point.driver.now_ms():  # it has waited behind another request for as long
            point.driver.pass_on(link, held.xid, held.request)
            return
        point.hold(link, held._replace(due_ms=due_ms))
        point.driver.wake_at(due_ms)

    def details(self) -> dict[str, object]:
        return {"delay_ms": self.delay_ms}


class Hold(RequestFault):
    """Hold the request back, and the ones behind it on its connection, until the rule is released.

    Watch events are still sent, and the session is kept alive.
    """

    name = "hold"

    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        point.hold(link, held)


class Pause(RequestFault):
    """Stop reading and writing the connection at the request until the rule is released; the session may expire."""

    name, endpoint = "pause", "pause_at"

    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        point.pause(link, held)


class Expire(RequestFault):
    """Expire the session of the request before the request is applied."""

    name, endpoint = "expire", "expire_at"

    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        point.driver.expire(link)


class Move(RequestFault):
    """Lose the request, close its connection, and let one server of the ensemble alone accept the session."""

    name, endpoint = "move", "move_at"
    parameter, parameter_type = "server", int

    def __init__(self, server: int) -> None:
        self.server = server

    def resolve(self, vocabulary: Vocabulary, servers: tuple[int, ...]) -> RequestFault:
        if self.server not in servers:
            right = f"one of {', '.join(map(str, servers))}" if servers else "a server of an ensemble"
            raise ConfigError(f"a session cannot move to server {self.server}", where="server", right=right)
        return self

    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        point.driver.move(link, self.server)

    def details(self) -> dict[str, object]:
        return {"server": self.server}


class Fail(RequestFault):
    """Reply with an error instead of applying the request.

    Args:
        error: the client library's exception class, its name, or the name of the protocol's code. For a code that no
            server replies with (a lost connection, an expired session) the fault itself is applied.
    """

    name = "fail"
    parameter = "error"

    def __init__(self, error: str | type[Exception]) -> None:
        self._error = error
        self._code = 0

    def resolve(self, vocabulary: Vocabulary, servers: tuple[int, ...]) -> RequestFault:
        error = self._error
        if isinstance(error, str):
            code, name = vocabulary.code_of(error), error
        else:
            code, name = getattr(error, "code", None), getattr(error, "__name__", str(error))
        if not isinstance(code, int) or code not in vocabulary.errors.values():
            raise ConfigError(
                f"{name} is not an error of {vocabulary.protocol}'s protocol"
                f"{closest(_protocol_name(name), vocabulary.errors)}",
                where="error",
                right=vocabulary.accepted_errors,
            )
        if code in vocabulary.faults_by_code:
            return REQUEST_FAULTS[vocabulary.faults_by_code[code]]()
        self._code = code
        assert self._code, "the code 0 means that a request succeeded"
        return self

    def apply(self, point: FaultPoint[LinkT, RequestT], link: LinkT, held: HeldRequest[RequestT]) -> None:
        assert self._code, "a fault is resolved before it is applied"
        point.alter_reply(link, held.xid, self._code)
        point.driver.pass_nothing(link, held.xid)

    def details(self) -> dict[str, object]:
        return {"error": self._code}


def _protocol_name(name: str) -> str:
    """Return the name of an exception as the protocol writes it: NO_NODE for NoNodeError."""
    if name.isupper():
        return name
    return "".join(f"_{c}" if c.isupper() else c.upper() for c in name.removesuffix("Error")).strip("_")


REQUEST_FAULTS: dict[str, type[RequestFault]] = {
    kind.name: kind for kind in (DropRequest, DropReply, Delay, Hold, Pause, Expire, Move, Fail)
}
"""All kinds of fault by name."""


class FaultRule:
    """One rule, made by `FaultRules.add`.

    Attributes:
        number: identifies the rule in its table.
        fault: what is done to matching requests.
        operation: the requests that match; None for any.
        session: the session that matches, by id or name; None for any.
        path: the path that matches; None for any.
        below: whether all paths below `path` match too.
        times: number of requests after which the rule is used up; None for no limit.
        fired: number of requests that the rule was applied to.
    """

    __slots__ = ("_table", "below", "fault", "fired", "number", "operation", "path", "session", "times")

    def __init__(
        self,
        table: FaultRules,
        number: int,
        fault: RequestFault,
        operation: str | None,
        session: Hashable | None,
        path: str | None,
        below: bool,
        times: int | None,
    ) -> None:
        self._table = table
        self.number: int = number
        self.fault: RequestFault = fault
        self.operation: str | None = operation
        self.session: Hashable | None = session
        self.path: str | None = path
        self.below: bool = below
        self.times: int | None = times
        self.fired: int = 0

    @property
    def action(self) -> str:
        """The name of the kind of fault."""
        return self.fault.name

    @property
    def active(self) -> bool:
        """Whether the rule can still match a request."""
        return self._table.is_active(self)

    @property
    def waiting(self) -> int:
        """Number of connections that wait because of the rule."""
        return sum(point.waiting_for(self) for point in self._table.points)

    def release(self) -> None:
        """Pass on the requests that the rule holds back, in order; the rule itself stays for its remaining times."""
        with self._table.lock:
            for point in list(self._table.points):
                point.release(self)

    def clear(self) -> None:
        """Remove the rule, and pass on the requests that it holds back."""
        self._table.clear(self)

    def matches(self, who: tuple[Hashable, ...], operation: str, paths: tuple[str, ...]) -> bool:
        """Return whether the rule applies to a request."""
        assert self.times is None or self.fired < self.times, f"{self} is used up"
        if self.operation is None:
            if operation in self._table.vocabulary.implicit_operations:
                return False
        elif self.operation != operation:
            return False
        if self.session is not None and self.session not in who:
            return False
        wanted = self.path
        if wanted is None:
            return True
        folder = wanted if wanted == "/" else f"{wanted}/"
        return any(path == wanted or (self.below and path.startswith(folder)) for path in paths)

    def as_dict(self) -> dict[str, object]:
        """Return the rule and its counts as plain values, for JSON."""
        values: dict[str, object] = {
            "rule": self.number,
            "action": self.action,
            "op": self.operation,
            "session": self.session,
            "path": self.path,
            "below": self.below,
            "times": self.times,
            "fired": self.fired,
            "waiting": self.waiting,
        }
        return values | self.fault.details()

    def __repr__(self) -> str:
        session = "" if self.session is None else f" of {self.session}"
        where = "" if self.path is None else f" at {'or below ' if self.below else ''}{self.path}"
        times = "" if self.times is None else f" of {self.times}"
        return f"<{self.action} {self.operation or 'any'}{session}{where}: fired {self.fired}{times}>"


def check_requests(vocabulary: Vocabulary, operation: str | None, path: str | None) -> None:
    """Check the operation and the path by which requests are chosen; None means any.

    Raises:
        ConfigError: the operation is unknown, or no request has such a path.
    """
    known = vocabulary.operations
    if operation is not None and operation not in known:
        hint = vocabulary.hints.get(operation.replace("_", "").lower())
        meant = f"; did you mean {hint!r}?" if hint else closest(operation.lower(), known)
        raise ConfigError(f"unknown operation {operation!r}{meant}", where="op", right=f"one of {', '.join(known)}")
    if path is not None:
        vocabulary.check_path(path)


class FaultRules:
    """The rules of one server.

    Args:
        vocabulary: the names that rules may use.

    Attributes:
        active: whether any rule can still match; if not, requests cost only this test.
        lock: held while rules change, if several threads use the server; a thread may take it twice.
        points: the fault points where the rules are applied.
        on_fired: called when a rule is applied, with the names of the session, the operation and the paths.

    >>> from types import SimpleNamespace
    >>> vocabulary = {"operations": ("get", "set"), "implicit_operations": (), "hints": {}}
    >>> rules = FaultRules(SimpleNamespace(check_path=lambda path: None, **vocabulary))
    >>> rule = rules.add(DropReply(), "set", path="/a", below=True)
    >>> rules.match((7,), "set", ("/ab",)), rules.match((7,), "set", ("/a/b",))
    (None, <drop_reply set at or below /a: fired 1 of 1>)
    >>> rule.active, rules.active
    (False, False)
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.active: bool = False
        self.lock: AbstractContextManager[Any] = nullcontext()
        self.points: list[FaultPoint[Any, Any]] = []
        self.on_fired: Callable[[FaultRule, tuple[Hashable, ...], str, tuple[str, ...]], None] | None = None
        self._rules: list[FaultRule] = []
        self._used_up: list[FaultRule] = []
        self._number = 0

    def add(
        self,
        fault: RequestFault,
        operation: str | None = None,
        *,
        session: Hashable | None = None,
        path: str | None = None,
        below: bool = False,
        times: int | None = 1,
    ) -> FaultRule:
        """Add a rule after the present ones; the arguments are those of `FaultRule`.

        Raises:
            ConfigError: the operation is unknown, no request has such a path, `below` is given without a path, or
                `times` is below 1.
        """
        check_requests(self.vocabulary, operation, path)
        if below and path is None:
            raise ConfigError("below is given without a path", where="below", right="below with path")
        if times is not None and times < 1:
            raise ConfigError(f"{times} is not a valid number of requests", where="times", right="1 or more")
        with self.lock:
            self._number += 1
            rule = FaultRule(self, self._number, fault, operation, session, path, below, times)
            assert not self._rules or self._rules[-1].number < rule.number, "the oldest rule is the first"
            self._rules.append(rule)
            self._note_active()
            return rule

    def match(
        self, who: tuple[Hashable, ...], operation: str, paths: tuple[str, ...], *, besides: FaultRule | None = None
    ) -> FaultRule | None:
        """Return the rule that applies to a request, and count it; None if there is none.

        Args:
            who: the names of the session.
            operation: the name of the request.
            paths: the paths of the request.
            besides: a rule that no longer applies to it.
        """
        for rule in self._rules:
            if rule is not besides and rule.matches(who, operation, paths):
                rule.fired += 1
                assert rule.times is None or rule.fired <= rule.times, f"{rule} matched after it was used up"
                if rule.fired == rule.times:
                    self._rules.remove(rule)
                    self._used_up.append(rule)
                    del self._used_up[:-USED_UP_LISTED_MAX]
                    self._note_active()
                if self.on_fired is not None:
                    self.on_fired(rule, who, operation, paths)
                return rule
        return None

    def is_active(self, rule: FaultRule) -> bool:
        """Return whether a rule can still match a request."""
        return rule in self._rules

    def list(self) -> list[FaultRule]:
        """Return the rules that were not cleared, used-up ones included, oldest first."""
        with self.lock:
            return sorted([*self._used_up, *self._rules], key=lambda rule: rule.number)

    def find(self, number: int) -> FaultRule:
        """Return the rule with a number.

        Raises:
            ConfigError: there is none.
        """
        known = {rule.number: rule for rule in self.list()}
        if number in known:
            return known[number]
        right = f"one of {', '.join(map(str, known))}" if known else "no number: there are no rules"
        raise ConfigError(f"rule {number} does not exist", where="rule", right=right)

    def clear(self, rule: FaultRule | None = None) -> None:
        """Remove one rule, or all rules, and pass on the requests that they hold back."""
        with self.lock:
            cleared = self.list() if rule is None else [rule]
            self._rules = [kept for kept in self._rules if kept not in cleared]
            self._used_up = [kept for kept in self._used_up if kept not in cleared]
            self._note_active()
            for one in cleared:
                one.release()

    def _note_active(self) -> None:
        self.active = bool(self._rules)
        for point in self.points:
            point.note_active()

    def next_due_ms(self) -> int | None:
        """Return the time at which the next delayed request is due; None if there is none."""
        return min((due for point in self.points if (due := point.next_due_ms()) is not None), default=None)

    def tick(self, now_ms: int) -> None:
        """Pass on the delayed requests that are due."""
        for point in list(self.points):
            point.tick(now_ms)

    def check(self) -> None:
        """Assert that used-up rules are separate from the others, and that every point is consistent."""
        assert self.active == bool(self._rules)
        for rule in self._rules:
            assert rule.times is None or rule.fired < rule.times
        for rule in self._used_up:
            assert rule.fired == rule.times
        assert len(self._used_up) <= USED_UP_LISTED_MAX
        numbers = [rule.number for rule in self.list()]
        assert len(set(numbers)) == len(numbers), "a rule is listed once"
        assert not numbers or numbers[-1] <= self._number
        for point in self.points:
            point.check()


class ControlledTransport(Protocol[LinkIn, RequestIn]):
    """A transport that carries requests to a server; a fault point controls it, and each call takes effect at once."""

    def describe(self, link: LinkIn, request: RequestIn) -> tuple[tuple[Hashable, ...], str, tuple[str, ...]]:
        """Return the names of the session, the name of the request and its paths."""

    def now_ms(self) -> int:
        """Return the server's time."""

    def wake_at(self, at_ms: int) -> None:
        """Arrange for a `tick` of the point at this time."""

    def pass_on(self, link: LinkIn, xid: int, request: RequestIn) -> None:
        """Hand a request to the server."""

    def pass_nothing(self, link: LinkIn, xid: int) -> None:
        """Hand the server a request that changes nothing, to be replied to under the same xid."""

    def is_open(self, link: LinkIn) -> bool:
        """Return whether the server still reads the connection."""

    def cut(self, link: LinkIn) -> None:
        """Send the server's pending output, then close the connection."""

    def expire(self, link: LinkIn) -> None:
        """Expire the session."""

    def move(self, link: LinkIn, server: int) -> None:
        """Close the connection, and let this server alone accept the session again."""

    def pause(self, link: LinkIn) -> None:
        """Stop reading and writing the connection."""

    def resume(self, link: LinkIn) -> None:
        """Read and write the connection again; calls `FaultPoint.resumed`."""

    def xid_of(self, message: object) -> int | None:
        """Return the xid of a reply; None for another message."""

    def with_error(self, message: object, code: int) -> object:
        """Return an error reply with the xid of a reply."""

    def after_release(self, link: LinkIn) -> None:
        """Send the server's pending output, after requests that were held back have been passed on."""


class FaultPoint(Generic[LinkT, RequestT]):
    """The point of one transport where rules are applied to its requests, and their replies altered.

    The driver calls `admit`, `alter` and `forget` while `active`; the point answers by calling the driver.

    Args:
        rules: the rules to apply.
        driver: the transport.

    Attributes:
        active: whether a rule can match, a request is held back or a reply is to be altered; if not, the driver need
            not call.
    """

    def __init__(self, rules: FaultRules, driver: ControlledTransport[LinkT, RequestT]) -> None:
        self.rules = rules
        self.active: bool = rules.active
        self.driver = driver
        self._held: dict[LinkT, deque[HeldRequest[RequestT]]] = {}
        # By connection and xid: the error that replaces a reply, None if the reply is lost.
        self._altered: dict[LinkT, dict[int, int | None]] = {}
        # A pause outlives its connection: the session may come back on another one.
        self._paused: dict[LinkT, FaultRule] = {}
        rules.points.append(self)

    def close(self) -> None:
        """Stop applying the rules here."""
        if self in self.rules.points:
            self.rules.points.remove(self)
        self._held.clear()
        self._altered.clear()
        self.note_active()

    def note_active(self) -> None:
        """Update `active` after a change of the rules or of the requests here."""
        self.active = self.rules.active or bool(self._held) or bool(self._altered)

    # -- calls of the driver

    def admit(self, link: LinkT, xid: int, request: RequestT) -> None:
        """Accept a request from a connection, and pass it on now, later or never."""
        assert self.active, "the driver asks only while a rule or a request needs it"
        arrived = HeldRequest(xid, request, self.driver.now_ms())
        held = self._held.get(link)
        if held is not None:
            held.append(arrived)
            return
        self._match(link, arrived)

    def is_holding(self, link: LinkT) -> bool:
        """Return whether requests of a connection are held back."""
        return link in self._held

    def alter(self, link: LinkT, outgoing: list[Any]) -> bool:
        """Replace the replies of failed requests; remove a lost reply and all messages behind it.

        Args:
            link: the connection.
            outgoing: the messages to send on it, in order; changed in place.

        Returns:
            whether a reply is lost: the connection is to be closed after the remaining messages.
        """
        assert self.active, "the driver asks only while a rule or a reply needs it"
        altered = self._altered.get(link)
        if altered is None:
            return False
        assert altered, "a connection without replies to alter has no entry"
        is_lost = False
        for at, message in enumerate(outgoing):
            xid = self.driver.xid_of(message)
            if xid is None or xid not in altered:
                continue
            code = altered.pop(xid)
            if code is None:
                del outgoing[at:]
                is_lost = True
                break
            outgoing[at] = self.driver.with_error(message, code)
        if not altered:
            del self._altered[link]
            self.note_active()
        return is_lost

    def forget(self, link: LinkT) -> None:
        """Discard all state of a connection that is closed."""
        self._held.pop(link, None)
        self._altered.pop(link, None)
        self.note_active()

    def resumed(self, link: LinkT) -> None:
        """Pass on the requests that a pause held back on a connection that is read again."""
        self._paused.pop(link, None)
        held = self._held.get(link)
        if held and held[0].rule is not None and isinstance(held[0].rule.fault, Pause):
            self._pass_first(link, held[0].rule)

    # -- calls of faults

    def alter_reply(self, link: LinkT, xid: int, code: int | None) -> None:
        """Replace the reply with this xid by an error; None loses it."""
        self._altered.setdefault(link, {})[xid] = code
        self.note_active()

    def hold(self, link: LinkT, held: HeldRequest[RequestT]) -> None:
        """Hold a request back, before all others of its connection."""
        assert held.rule is not None, "only a rule holds a request back"
        assert held.due_ms is None or held.due_ms > held.came_ms, "a delay is longer than zero"
        waiting = self._held.setdefault(link, deque())
        assert not waiting or waiting[0].rule is None, "one rule holds a connection back at a time"
        waiting.appendleft(held)
        self.note_active()

    def pause(self, link: LinkT, held: HeldRequest[RequestT]) -> None:
        """Hold a request back, and pause its connection until its rule is released."""
        assert held.rule is not None, "only a rule pauses a connection"
        self.hold(link, held)
        self._paused[link] = held.rule
        self.driver.pause(link)

    # -- calls of rules

    def waiting_for(self, rule: FaultRule) -> int:
        """Return the number of connections that wait because of a rule."""
        return sum(held[0].rule is rule for held in self._held.values() if held)

    def release(self, rule: FaultRule) -> None:
        """Pass on the requests that a rule holds back, and those that wait behind them."""
        for link in [link for link, pausing in self._paused.items() if pausing is rule]:
            del self._paused[link]
            self.driver.resume(link)
        for link, held in list(self._held.items()):
            if held and held[0].rule is rule:
                self._pass_first(link, rule)

    def release_all(self) -> None:
        """Pass on all requests that are held back here."""
        while rule := next(iter(self._paused.values()), None):
            self.release(rule)
        while rule := next((held[0].rule for held in self._held.values() if held), None):
            self.release(rule)

    def _delayed(self) -> list[tuple[int, LinkT]]:
        """Return the connections whose first request is delayed, with the time at which it is due."""
        return [(due_ms, link) for link, held in self._held.items() if held and (due_ms := held[0].due_ms) is not None]

    def next_due_ms(self) -> int | None:
        """Return the time at which the next delayed request is due; None if there is none."""
        return min((due_ms for due_ms, _ in self._delayed()), default=None)

    def tick(self, now_ms: int) -> None:
        """Pass on the delayed requests that are due, in the order of their due times."""
        while due := [delayed for delayed in self._delayed() if delayed[0] <= now_ms]:
            self._pass_first(min(due, key=itemgetter(0))[1])

    def _match(self, link: LinkT, held: HeldRequest[RequestT], besides: FaultRule | None = None) -> None:
        """Apply the rule that matches a request, or pass the request on."""
        who, operation, paths = self.driver.describe(link, held.request)
        rule = self.rules.match(who, operation, paths, besides=besides)
        if rule is None:
            self.driver.pass_on(link, held.xid, held.request)
        else:
            rule.fault.apply(self, link, held._replace(rule=rule))

    def _pass_first(self, link: LinkT, besides: FaultRule | None = None) -> None:
        """Pass on the first request that is held back, and match the ones behind it against all rules but one."""
        waiting = self._held[link]
        first = waiting.popleft()
        assert first.rule is not None, "the first request of a connection is held back by a rule"
        if self.driver.is_open(link):
            self.driver.pass_on(link, first.xid, first.request)
        # A request that is passed on may close its connection, and `forget` then discards the waiting ones.
        while self._held.get(link) is waiting and waiting and waiting[0].rule is None:
            held = waiting.popleft()
            if self.driver.is_open(link):
                self._match(link, held, besides)
        if self._held.get(link) is waiting and not waiting:
            del self._held[link]
            self.note_active()
        self.driver.after_release(link)

    def check(self) -> None:
        """Assert that the first request held back has a rule, and the ones behind it have none."""
        assert self.active == (self.rules.active or bool(self._held) or bool(self._altered))
        for held in self._held.values():
            assert held, "a connection without waiting requests has no entry"
            assert held[0].rule is not None
            assert all(one.rule is None for one in list(held)[1:])
            assert [one.came_ms for one in held] == sorted(one.came_ms for one in held)
        assert all(self._altered.values())


class PauseHandle(AbstractContextManager["PauseHandle"]):
    """A pause in effect, until `resume` is called or its `with` block ends.

    Args:
        resume: ends the pause.

    >>> with PauseHandle(lambda: print("resumed")):
    ...     print("paused")
    paused
    resumed
    """

    def __init__(self, resume: Callable[[], None]) -> None:
        self._resume = resume

    def resume(self) -> None:
        """End the pause: requests and messages that arrived in the meantime are processed in order."""
        self._resume()

    def __exit__(self, *_: object) -> None:
        self.resume()
