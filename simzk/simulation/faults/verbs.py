"""The verbs by which a test tells faults: each puts one rule into a table.

Rules of this module:
  - a verb says what happens; which requests it happens to is said in the same words with every verb;
  - a fault names a session by its client; a client that has begun another session since is not meant any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar, Unpack

from simzk.errors import ConfigError
from simzk.simulation.faults.rules import Action, FaultRule, FaultRules, closest

if TYPE_CHECKING:
    from collections.abc import Hashable

ClientT = TypeVar("ClientT")

DELAY_SECONDS_MAX = 1e9


class Which(TypedDict, Generic[ClientT], total=False):
    """Which requests a rule means, beside their kind.

    Attributes:
        client: of whom; of anybody where it is not given.
        path: which path, from the server's root, without a client's chroot; any where it is not given.
        below: whether all that is below the path is meant, too.
        times: how many requests at most, 1 where it is not given; None for all until the rule is cleared.
    """

    client: ClientT
    path: str
    below: bool
    times: int | None


class FaultVerbs(ABC, Generic[ClientT]):
    """Faults at will on one server.

    Every verb takes `op`, the kind of request as kazoo's method is called ("create", "set", "transaction", ...; None
    for whatever a client is asked to do), and `Which`, and returns the rule, which counts how often it has `fired`.

    Args:
        rules: the table.
    """

    def __init__(self, rules: FaultRules) -> None:
        self._rules = rules

    @abstractmethod
    def _session_of(self, client: ClientT) -> Hashable:
        """The session of a client, by a name that the table's points know."""

    @property
    def rules(self) -> list[FaultRule]:
        """All rules that were not cleared, oldest first."""
        return self._rules.list()

    def clear(self) -> None:
        """End all rules, and let go whatever they keep back."""
        self._rules.clear()

    def drop_request(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Lose requests before they are applied, with their connection: the client cannot know.

        Raises:
            ConfigError: no such operation, client or path; as with every verb.
        """
        return self._add(Action.DROP_REQUEST, op, which)

    def drop_reply(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Lose the replies of requests that are applied, with their connection: the client cannot know."""
        return self._add(Action.DROP_REPLY, op, which)

    def delay(self, op: str | None = None, *, seconds: float, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Apply requests, and what their connection brings behind them, so much later.

        Raises:
            ConfigError: no time, or none that ends; and as with every verb.
        """
        if not 0 < seconds < DELAY_SECONDS_MAX:
            raise ConfigError(f"a delay of {seconds} s cannot be", where="seconds", right="0.001 or more")
        return self._add(Action.DELAY, op, which, delay_ms=round(seconds * 1000))

    def hold(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Keep requests back, and what their connection brings behind them, until `FaultRule.release`.

        Watch events still go out, and the session lives on.
        """
        return self._add(Action.HOLD, op, which)

    def pause(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """From a request on neither read nor answer its session, until `FaultRule.release`; it may expire meanwhile."""
        return self._add(Action.PAUSE, op, which)

    def expire(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """End the session that a request comes from, before the request is applied."""
        return self._add(Action.EXPIRE, op, which)

    def move(self, op: str | None = None, *, server: int, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Lose a request with its connection, and let its session be taken up by one server of the ensemble only.

        Raises:
            ConfigError: there is no ensemble, or it has no such server.
        """
        servers = self._servers()
        if server not in servers:
            right = f"one of {', '.join(map(str, servers))}" if servers else "a server of an ensemble"
            raise ConfigError(f"a session cannot move to server {server}", where="server", right=right)
        return self._add(Action.MOVE, op, which, server=server)

    def fail(
        self, op: str | None = None, *, error: str | type[Exception], **which: Unpack[Which[ClientT]]
    ) -> FaultRule:
        """Answer requests with an error in place of applying them.

        Args:
            op: which requests.
            error: kazoo's exception class, its name, or the protocol's: NoNodeError, "NoNodeError", "NO_NODE". A lost
                connection and an expired session are not answered: they happen.
            **which: which of them.

        Raises:
            ConfigError: an error that no server sends; and as with every verb.
        """
        code = self._code_of(error)
        return self._add(Action(self._rules.vocabulary.strikes.get(code, Action.FAIL)), op, which, error=code)

    def _servers(self) -> tuple[int, ...]:
        """The servers that a session can move to."""
        return ()

    def _add(
        self,
        action: Action,
        op: str | None,
        which: Which[ClientT],
        *,
        delay_ms: int = 0,
        error: int = 0,
        server: int = 0,
    ) -> FaultRule:
        client = which.get("client")
        return self._rules.add(
            action,
            op,
            session=None if client is None else self._session_of(client),
            path=which.get("path"),
            below=which.get("below", False),
            times=which.get("times", 1),
            delay_ms=delay_ms,
            error=error,
            server=server,
        )

    def _code_of(self, error: str | type[Exception]) -> int:
        errors, code = self._rules.vocabulary.errors, None
        if isinstance(error, str):
            code, name = self._rules.vocabulary.code_of(error), error
        else:
            code, name = getattr(error, "code", None), getattr(error, "__name__", str(error))
        if isinstance(code, int) and code in errors.values():
            return code
        raise ConfigError(
            f"{name} is no error of ZooKeeper's protocol{closest(_snake(name), errors)}",
            where="error",
            right="an exception class of kazoo.exceptions that has a code, as ConnectionLoss or NoNodeError",
        )


def _snake(name: str) -> str:
    """A name as the protocol writes it: NoNodeError is NO_NODE."""
    if name.isupper():
        return name
    return "".join(f"_{c}" if c.isupper() else c.upper() for c in name.removesuffix("Error")).strip("_")
