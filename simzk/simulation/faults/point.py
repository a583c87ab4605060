"""Where faults take hold: the one point that requests pass on their way to a server, and replies on their way back.

Rules of this module:
  - the requests of one connection are handled in the order in which they came, whatever holds one of them up: behind a
    request that is kept back all others of its connection wait, and meet their rules when their turn comes;
  - a request is applied once or never: one that is lost never reaches the server; one whose reply is lost has, and the
    connection ends where that reply would have stood, after all that stood before it;
  - a request that is told to fail leaves the place of its reply to the error, so that replies keep their order even
    where the server answers late;
  - a connection that is gone takes with it what was kept back of it.

A driver (a simulated server's network end, a host of real connections) calls `admit`, `alter` and `forget` while
`active`, and is told what to do by the methods of `Driver`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from simzk.simulation.faults.rules import Action

if TYPE_CHECKING:
    from collections.abc import Hashable

    from simzk.simulation.faults.rules import FaultRule, FaultRules

LinkT = TypeVar("LinkT")
RequestT = TypeVar("RequestT")
LinkIn = TypeVar("LinkIn", contravariant=True)
RequestIn = TypeVar("RequestIn", contravariant=True)


class Driver(Protocol[LinkIn, RequestIn]):
    """Whoever carries requests to a server; all that it is asked for here is done at once."""

    def describe(self, link: LinkIn, request: RequestIn) -> tuple[tuple[Hashable, ...], str, tuple[str, ...]]:
        """By which names the session goes, what the request is called, and its paths."""

    def now_ms(self) -> int:
        """The server's time."""

    def wake_at(self, at_ms: int) -> None:
        """See to it that the point is ticked at that time."""

    def pass_on(self, link: LinkIn, xid: int, request: RequestIn) -> None:
        """Hand a request to the server."""

    def pass_nothing(self, link: LinkIn, xid: int) -> None:
        """Hand the server a request in place of another, which changes nothing and whose reply has the same xid."""

    def is_open(self, link: LinkIn) -> bool:
        """Whether the server still hears the connection."""

    def cut(self, link: LinkIn) -> None:
        """Send what the server has said, then break the connection."""

    def expire(self, link: LinkIn) -> None:
        """End the session."""

    def move(self, link: LinkIn, server: int) -> None:
        """Break the connection and let the session be taken up by that server only."""

    def pause(self, link: LinkIn) -> None:
        """Neither read nor send any more."""

    def resume(self, link: LinkIn) -> None:
        """Read and send again; `FaultPoint.resumed` is called on the way."""

    def xid_of(self, message: object) -> int | None:
        """Of a reply the xid; None for what is none."""

    def with_error(self, message: object, code: int) -> object:
        """The reply of the same xid that refuses with an error."""

    def went_on(self, link: LinkIn) -> None:
        """What was kept back was passed on, as far as it could be: send what the server has said."""


class _Kept(NamedTuple, Generic[RequestT]):
    """A request that waits: for its rule where it is the first and has one, else for those before it."""

    xid: int
    request: RequestT
    came_ms: int
    rule: FaultRule | None = None
    due_ms: int | None = None


class FaultPoint(Generic[LinkT, RequestT]):
    """The point of one driver.

    Args:
        rules: the table that is applied.
        driver: who carries requests.

    Attributes:
        active: whether there is anything to do here at all: a rule that can strike, a request kept back, a reply to
            be lost. A driver need not call while it is False.
    """

    def __init__(self, rules: FaultRules, driver: Driver[LinkT, RequestT]) -> None:
        self.rules = rules
        self.active = rules.active
        self._driver = driver
        self._kept: dict[LinkT, deque[_Kept[RequestT]]] = {}
        # Per connection: by xid the error that takes a reply's place, None where the reply is lost.
        self._altered: dict[LinkT, dict[int, int | None]] = {}
        # A pause outlives the connection that it began on: its session may come back on another.
        self._paused: dict[LinkT, FaultRule] = {}
        rules.points.append(self)

    def close(self) -> None:
        """Apply the table here no more."""
        if self in self.rules.points:
            self.rules.points.remove(self)
        self._kept.clear()
        self._altered.clear()
        self.note_active()

    def note_active(self) -> None:
        """The table has changed, or what is under way here."""
        self.active = self.rules.active or bool(self._kept) or bool(self._altered)

    # What the driver brings.

    def admit(self, link: LinkT, xid: int, request: RequestT) -> None:
        """A request has come; it is passed on now, later, or never."""
        kept = self._kept.get(link)
        if kept is not None:
            kept.append(_Kept(xid, request, self._driver.now_ms()))
            return
        self._meet(link, _Kept(xid, request, self._driver.now_ms()))

    def keeps(self, link: LinkT) -> bool:
        """Whether anything of a connection is kept back."""
        return link in self._kept

    def alter(self, link: LinkT, outgoing: list[Any]) -> bool:
        """Put errors in the places of the replies that they take; what is lost is taken away, with all behind it.

        Args:
            link: the connection.
            outgoing: what is to be sent on it, in order; changed in place.

        Returns:
            whether something is lost: the connection is to end behind the rest.
        """
        altered = self._altered.get(link)
        if altered is None:
            return False
        is_lost = False
        for at, message in enumerate(outgoing):
            xid = self._driver.xid_of(message)
            if xid is None or xid not in altered:
                continue
            code = altered.pop(xid)
            if code is None:
                del outgoing[at:]
                is_lost = True
                break
            outgoing[at] = self._driver.with_error(message, code)
        if not altered:
            del self._altered[link]
            self.note_active()
        return is_lost

    def forget(self, link: LinkT) -> None:
        """A connection is gone."""
        self._kept.pop(link, None)
        self._altered.pop(link, None)
        self.note_active()

    def resumed(self, link: LinkT) -> None:
        """A connection is read again: what a pause kept back goes on."""
        self._paused.pop(link, None)
        kept = self._kept.get(link)
        if kept and kept[0].rule is not None and kept[0].rule.action is Action.PAUSE:
            self._go_on(link, kept[0].rule)

    # What rules ask.

    def kept_by(self, rule: FaultRule) -> int:
        """How many connections wait for a rule."""
        return sum(kept[0].rule is rule for kept in self._kept.values() if kept)

    def let_go(self, rule: FaultRule) -> None:
        """Pass on what a rule keeps back, and what waits behind it."""
        for link in [link for link, pausing in self._paused.items() if pausing is rule]:
            del self._paused[link]
            self._driver.resume(link)
        for link, kept in list(self._kept.items()):
            if kept and kept[0].rule is rule:
                self._go_on(link, rule)

    def let_go_all(self) -> None:
        """Pass on whatever is kept back here."""
        while rule := next(iter(self._paused.values()), None):
            self.let_go(rule)
        while rule := next((kept[0].rule for kept in self._kept.values() if kept), None):
            self.let_go(rule)

    def next_due_ms(self) -> int | None:
        """When the next request that is late goes on."""
        return min(
            (kept[0].due_ms for kept in self._kept.values() if kept and kept[0].due_ms is not None), default=None
        )

    def tick(self, now_ms: int) -> None:
        """Pass on what has been late for long enough, by the time it was due."""
        while True:
            due = [
                (kept[0].due_ms, link)
                for link, kept in self._kept.items()
                if kept and kept[0].due_ms is not None and kept[0].due_ms <= now_ms
            ]
            if not due:
                return
            self._go_on(min(due, key=lambda one: one[0])[1])

    # The way of a request.

    def _meet(self, link: LinkT, one: _Kept[RequestT], besides: FaultRule | None = None) -> None:
        """A request whose turn has come meets the rule that speaks of it, if there is one."""
        driver, xid, request = self._driver, one.xid, one.request
        who, operation, paths = driver.describe(link, request)
        rule = self.rules.take(who, operation, paths, besides=besides)
        if rule is None:
            driver.pass_on(link, xid, request)
            return
        match rule.action:
            case Action.DROP_REQUEST:
                driver.cut(link)
            case Action.DROP_REPLY:
                self._alter(link, xid, None)
                driver.pass_on(link, xid, request)
            case Action.FAIL:
                self._alter(link, xid, rule.error)
                driver.pass_nothing(link, xid)
            case Action.EXPIRE:
                driver.expire(link)
            case Action.MOVE:
                driver.move(link, rule.server)
            case Action.DELAY:
                due_ms = one.came_ms + rule.delay_ms
                if due_ms <= driver.now_ms():  # it has waited behind another for as long
                    driver.pass_on(link, xid, request)
                    return
                self._keep(link, one._replace(rule=rule, due_ms=due_ms))
                driver.wake_at(due_ms)
            case Action.HOLD:
                self._keep(link, one._replace(rule=rule))
            case Action.PAUSE:
                self._keep(link, one._replace(rule=rule))
                self._paused[link] = rule
                driver.pause(link)

    def _alter(self, link: LinkT, xid: int, code: int | None) -> None:
        self._altered.setdefault(link, {})[xid] = code
        self.note_active()

    def _keep(self, link: LinkT, one: _Kept[RequestT]) -> None:
        self._kept.setdefault(link, deque()).appendleft(one)
        self.note_active()

    def _go_on(self, link: LinkT, besides: FaultRule | None = None) -> None:
        """The first that waits has met its rule: it is passed on, then those behind it meet theirs, but for one."""
        kept = self._kept[link]
        first = kept.popleft()
        if self._driver.is_open(link):
            self._driver.pass_on(link, first.xid, first.request)
        # What is passed on may end the connection, and a driver that forgets it takes away what waits.
        while self._kept.get(link) is kept and kept and kept[0].rule is None:
            one = kept.popleft()
            if self._driver.is_open(link):
                self._meet(link, one, besides)
        if self._kept.get(link) is kept and not kept:
            del self._kept[link]
            self.note_active()
        self._driver.went_on(link)

    def check(self) -> None:
        """Assert that only what a rule keeps back, and what is behind it, waits."""
        assert self.active == (self.rules.active or bool(self._kept) or bool(self._altered))
        for kept in self._kept.values():
            assert kept, "a connection that nothing waits on is not noted"
            assert kept[0].rule is not None
            assert all(one.rule is None for one in list(kept)[1:])
        assert all(self._altered.values())
