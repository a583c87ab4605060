"""Methods by which a test adds fault rules to a server, one method per kind of fault.

Rules of this module:
  - a method names the fault; which requests it applies to is given in the same words with every method (`Which`);
  - a fault names a session by its client; if the client has begun another session since, the rule does not match it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar, Unpack

from simzk.simulation import request_faults as kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from simzk.simulation.request_faults import FaultRule, FaultRules, RequestFault

ClientT = TypeVar("ClientT")


class Which(TypedDict, Generic[ClientT], total=False):
    """The requests that a rule matches, apart from their kind.

    Attributes:
        client: the client that sends them [default: any].
        path: their path, from the server's root without a client's chroot [default: any].
        below: whether all paths below `path` match too [default: False].
        times: number of requests after which the rule is used up; None for no limit [default: 1].
    """

    client: ClientT
    path: str
    below: bool
    times: int | None


class FaultVerbs(Generic[ClientT]):
    """Faults on the requests of one server's clients.

    Every method takes `op`, the operation as kazoo's method is called ("create", "set", "transaction", ...; None for
    any that a client is asked to do), and `Which`. It returns the rule, which counts its requests in `fired`.

    Args:
        rules: the rules of the server.
        session_of: returns the session of a client, by a name that the server's fault points use; raises `SimzkError`.
        servers: the servers that a session can move to.
        on_added: called with each rule that is added.
    """

    def __init__(
        self,
        rules: FaultRules,
        session_of: Callable[[ClientT], Hashable],
        servers: tuple[int, ...] = (),
        on_added: Callable[[FaultRule], None] = lambda _: None,
    ) -> None:
        self._rules = rules
        self._session_of = session_of
        self._servers = servers
        self._on_added = on_added

    @property
    def rules(self) -> list[FaultRule]:
        """The rules that were not cleared, oldest first."""
        return self._rules.list()

    def clear(self) -> None:
        """Remove all rules, and pass on the requests that they hold back."""
        self._rules.clear()

    def inject(self, fault: RequestFault, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Apply a fault of any kind to requests.

        Args:
            fault: the fault.
            op: the operation of the requests.
            **which: further conditions on the requests.

        Raises:
            ConfigError: the operation, client, path or parameter of the fault is invalid; the same with every method.
        """
        fault = fault.resolve(self._rules.vocabulary, self._servers)
        client = which.get("client")
        rule = self._rules.add(
            fault,
            op,
            session=None if client is None else self._session_of(client),
            path=which.get("path"),
            below=which.get("below", False),
            times=which.get("times", 1),
        )
        self._on_added(rule)
        return rule

    def drop_request(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Lose requests before they are applied, and close their connection: the client cannot tell."""
        return self.inject(kinds.DropRequest(), op, **which)

    def drop_reply(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Apply requests, lose their replies, and close their connection: the client cannot tell."""
        return self.inject(kinds.DropReply(), op, **which)

    def delay(self, op: str | None = None, *, seconds: float, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Apply requests, and the ones behind them on their connection, after a delay in seconds."""
        return self.inject(kinds.Delay(seconds), op, **which)

    def hold(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Hold requests back, and the ones behind them on their connection, until `FaultRule.release`.

        Watch events are still sent, and the session is kept alive.
        """
        return self.inject(kinds.Hold(), op, **which)

    def pause(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Stop reading and writing a connection at a request until `FaultRule.release`; its session may expire."""
        return self.inject(kinds.Pause(), op, **which)

    def expire(self, op: str | None = None, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Expire the session of a request before the request is applied."""
        return self.inject(kinds.Expire(), op, **which)

    def move(self, op: str | None = None, *, server: int, **which: Unpack[Which[ClientT]]) -> FaultRule:
        """Lose a request, close its connection, and let one server of the ensemble alone accept the session."""
        return self.inject(kinds.Move(server), op, **which)

    def fail(
        self, op: str | None = None, *, error: str | type[Exception], **which: Unpack[Which[ClientT]]
    ) -> FaultRule:
        """Reply to requests with an error instead of applying them.

        Args:
            op: the operation of the requests.
            error: kazoo's exception class, its name, or the name of the protocol's code: NoNodeError, "NoNodeError",
                "NO_NODE". For a lost connection or an expired session, that fault itself is applied.
            **which: further conditions on the requests.
        """
        return self.inject(kinds.Fail(error), op, **which)
