"""Faults at will: a table of rules, each of which says what befalls which requests of a server's clients.

Rules of this module:
  - a rule speaks of a session, an operation and a path, each of them exactly or any; it knows no request's form, so
    that one table serves a simulated network, a connection in memory and TCP;
  - a request meets at most one rule: the oldest that speaks of it and has not yet struck as often as it may;
  - a rule that has struck so often stays in the table with its count until it is cleared (the last of them, at least);
  - what is asked for that cannot be is refused before anything of it holds.
"""

from __future__ import annotations

from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping
    from contextlib import AbstractContextManager

    from simzk.simulation.faults.point import FaultPoint

SPENT_MAX = 1000
"""Of the rules that have struck as often as they may, the last so many are listed."""


def closest(name: str, known: Collection[str]) -> str:
    """The question whether another name was meant; empty where none is like it."""
    from difflib import get_close_matches

    return "".join(f"; did you mean {close!r}?" for close in get_close_matches(name, known, n=1))


class Action(StrEnum):
    """What a rule does to a request."""

    DROP_REQUEST = "drop_request"
    DROP_REPLY = "drop_reply"
    DELAY = "delay"
    HOLD = "hold"
    PAUSE = "pause"
    EXPIRE = "expire"
    MOVE = "move"
    FAIL = "fail"


class Vocabulary(Protocol):
    """The names that rules may use."""

    @property
    def operations(self) -> tuple[str, ...]:
        """Of requests."""

    @property
    def unasked(self) -> Collection[str]:
        """Those of them that no rule about any operation means."""

    @property
    def hints(self) -> Mapping[str, str]:
        """Other words that somebody may try, in lower case, and the name that is right."""

    @property
    def errors(self) -> Mapping[str, int]:
        """The codes that a request may be answered with, by name."""

    @property
    def strikes(self) -> Mapping[int, str]:
        """The action of a code that no server answers with: it happens instead."""

    def code_of(self, name: str) -> int | None:
        """The code that somebody may mean by a name; None for none."""


class FaultRule:
    """One rule, made by `FaultRules.add`.

    Attributes:
        number: names it in its table.
        action: what it does.
        operation: which requests; None for any.
        session: whose, by id or by name; None for anybody's.
        path: which path; None for any.
        below: whether whatever is below the path is meant, too.
        times: how often it strikes at most; None for as long as it stands.
        delay_ms: by how much a request is late.
        error: the code that a request is answered with.
        server: where the session moves to.
        fired: how often it has struck.
    """

    __slots__ = (
        "_table",
        "action",
        "below",
        "delay_ms",
        "error",
        "fired",
        "number",
        "operation",
        "path",
        "server",
        "session",
        "times",
    )

    def __init__(
        self,
        table: FaultRules,
        number: int,
        action: Action,
        operation: str | None,
        *,
        session: Hashable | None,
        path: str | None,
        below: bool,
        times: int | None,
        delay_ms: int,
        error: int,
        server: int,
    ) -> None:
        self._table = table
        self.number = number
        self.action = action
        self.operation = operation
        self.session = session
        self.path = path
        self.below = below
        self.times = times
        self.delay_ms = delay_ms
        self.error = error
        self.server = server
        self.fired = 0

    @property
    def active(self) -> bool:
        """Whether it can still strike."""
        return self._table.is_active(self)

    @property
    def waiting(self) -> int:
        """How many requests it keeps back now."""
        return sum(point.kept_by(self) for point in self._table.points)

    def release(self) -> None:
        """Let go what it keeps back, in order; the rule itself stays for the rest of its times."""
        with self._table.lock:
            self._table.release(self)

    def clear(self) -> None:
        """End the rule, and let go what it keeps back."""
        with self._table.lock:
            self._table.clear(self)

    def means(self, who: tuple[Hashable, ...], operation: str, paths: tuple[str, ...]) -> bool:
        """Whether it speaks of a request."""
        if self.operation is None:
            if operation in self._table.vocabulary.unasked:
                return False
        elif self.operation != operation:
            return False
        if self.session is not None and self.session not in who:
            return False
        return self.path is None or any(self._covers(path) for path in paths)

    def _covers(self, path: str) -> bool:
        wanted = self.path
        assert wanted is not None
        return path == wanted or (self.below and path.startswith(wanted if wanted == "/" else f"{wanted}/"))

    def as_dict(self) -> dict[str, object]:
        """What it says and how often it has struck, as plain values."""
        told: dict[str, object] = {
            "rule": self.number,
            "action": self.action.value,
            "op": self.operation,
            "session": self.session,
            "path": self.path,
            "below": self.below,
            "times": self.times,
            "fired": self.fired,
            "waiting": self.waiting,
        }
        extra = {Action.DELAY: ("delay_ms", self.delay_ms), Action.FAIL: ("error", self.error)}
        extra[Action.MOVE] = ("server", self.server)
        return told | dict([extra[self.action]]) if self.action in extra else told

    def __repr__(self) -> str:
        whose = "" if self.session is None else f" of {self.session}"
        where = "" if self.path is None else f" at {'or below ' if self.below else ''}{self.path}"
        times = "" if self.times is None else f" of {self.times}"
        return f"<{self.action} {self.operation or 'any'}{whose}{where}: fired {self.fired}{times}>"


class FaultRules:
    """The table.

    Args:
        vocabulary: the names that rules may use.

    Attributes:
        active: whether any rule can still strike. What is in the way of no request costs one look at this.
        lock: held by whoever makes requests pass, where more than one thread does.
        points: where the table is applied.
        on_fired: called as a rule strikes, with whose request of which kind and paths it was.

    >>> from types import SimpleNamespace
    >>> rules = FaultRules(SimpleNamespace(operations=("get", "set"), unasked=(), hints={}))
    >>> rule = rules.add("drop_reply", "set", path="/a", below=True)
    >>> rules.take((7,), "set", ("/ab",)), rules.take((7,), "set", ("/a/b",))
    (None, <drop_reply set at or below /a: fired 1 of 1>)
    >>> rule.active, rules.active
    (False, False)
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.active = False
        self.lock: AbstractContextManager[Any] = nullcontext()
        self.points: list[FaultPoint[Any, Any]] = []
        self.on_fired: Callable[[FaultRule, tuple[Hashable, ...], str, tuple[str, ...]], None] | None = None
        self._rules: list[FaultRule] = []
        self._spent: list[FaultRule] = []
        self._number = 0

    def add(
        self,
        action: str,
        operation: str | None = None,
        *,
        session: Hashable | None = None,
        path: str | None = None,
        below: bool = False,
        times: int | None = 1,
        delay_ms: int = 0,
        error: int = 0,
        server: int = 0,
    ) -> FaultRule:
        """Put a rule behind those that stand; the arguments are `FaultRule`'s.

        Raises:
            ConfigError: no such operation, a path that no znode can have, `below` without a path, `times` below 1, or
                a delay that is none.
        """
        if operation is not None:
            self._check_operation(operation)
        if path is not None and (not path.startswith("/") or (len(path) > 1 and path.endswith("/"))):
            raise ConfigError(f"{path!r} is no znode's path", where="path", right="one from the root, such as '/a/b'")
        if below and path is None:
            raise ConfigError("below what?", where="below", right="with a path")
        if times is not None and times < 1:
            raise ConfigError(f"{times} requests cannot fail", where="times", right="1 or more")
        if action == Action.DELAY and delay_ms < 1:
            raise ConfigError(f"a delay of {delay_ms} ms is none", where="seconds", right="0.001 or more")
        with self.lock:
            self._number += 1
            rule = FaultRule(
                self,
                self._number,
                Action(action),
                operation,
                session=session,
                path=path,
                below=below,
                times=times,
                delay_ms=delay_ms,
                error=error,
                server=server,
            )
            self._rules.append(rule)
            self._note_active()
            return rule

    def _check_operation(self, operation: str) -> None:
        known = self.vocabulary.operations
        if operation in known:
            return
        hint = self.vocabulary.hints.get(operation.replace("_", "").lower())
        meant = f"; did you mean {hint!r}?" if hint else closest(operation.lower(), known)
        raise ConfigError(
            f"no operation is called {operation!r}{meant}", where="op", right=f"one of {', '.join(known)}"
        )

    def take(
        self,
        who: tuple[Hashable, ...],
        operation: str,
        paths: tuple[str, ...],
        *,
        besides: FaultRule | None = None,
    ) -> FaultRule | None:
        """The rule that a request meets, which has struck once more now; None where there is none.

        Args:
            who: the names of the session.
            operation: what the request is called.
            paths: what it speaks of.
            besides: a rule that it does not meet any more.
        """
        for rule in self._rules:
            if rule is not besides and rule.means(who, operation, paths):
                rule.fired += 1
                if rule.fired == rule.times:
                    self._rules.remove(rule)
                    self._spent.append(rule)
                    del self._spent[:-SPENT_MAX]
                    self._note_active()
                if self.on_fired is not None:
                    self.on_fired(rule, who, operation, paths)
                return rule
        return None

    def is_active(self, rule: FaultRule) -> bool:
        """Whether a rule can still strike."""
        return rule in self._rules

    def list(self) -> list[FaultRule]:
        """The rules that were not cleared, oldest first, with those that have struck as often as they may."""
        with self.lock:
            return sorted([*self._spent, *self._rules], key=lambda rule: rule.number)

    def find(self, number: int) -> FaultRule:
        """The rule of a number.

        Raises:
            ConfigError: there is none.
        """
        for rule in self.list():
            if rule.number == number:
                return rule
        known = ", ".join(str(rule.number) for rule in self.list()) or "none, for there is no rule"
        raise ConfigError(f"there is no rule {number}", where="rule", right=f"one of {known}")

    def release(self, rule: FaultRule) -> None:
        """Let go what a rule keeps back, in order."""
        for point in list(self.points):
            point.let_go(rule)

    def clear(self, rule: FaultRule | None = None) -> None:
        """End one rule or, without one, all; what they keep back is let go."""
        with self.lock:
            cleared = self.list() if rule is None else [rule]
            self._rules = [kept for kept in self._rules if kept not in cleared]
            self._spent = [kept for kept in self._spent if kept not in cleared]
            self._note_active()
            for one in cleared:
                self.release(one)

    def _note_active(self) -> None:
        self.active = bool(self._rules)
        for point in self.points:
            point.note_active()

    def next_due_ms(self) -> int | None:
        """When the next request that is late goes on; None if there is none."""
        return min((due for point in self.points if (due := point.next_due_ms()) is not None), default=None)

    def tick(self, now_ms: int) -> None:
        """Let go what has been late for long enough."""
        for point in list(self.points):
            point.tick(now_ms)

    def check(self) -> None:
        """Assert that only rules that can strike stand among those that may, and that every point agrees."""
        assert self.active == bool(self._rules)
        for rule in self._rules:
            assert rule.times is None or rule.fired < rule.times
        for rule in self._spent:
            assert rule.fired == rule.times
        for point in self.points:
            point.check()
