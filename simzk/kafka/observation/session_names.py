"""Whose a ZooKeeper session is: what the history calls those who wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from simzk.kafka.cluster.zookeeper_host import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.observation.observer import OwnAccount
    from simzk.kafka.tools.operator import Operator


class Participant(Protocol):
    """Whoever else lives on a cluster's ZooKeeper in virtual time, such as an old consumer."""

    @property
    def name(self) -> str:
        """How the history calls it."""

    @property
    def session_id(self) -> int:
        """Its session now."""

    def kill(self) -> None:
        """End it at once."""


class Writers:
    """All who have sessions with a cluster's ZooKeeper.

    Args:
        brokers: by id.
        participants: who else lives on it; more may come.
        operator: who has the tools.
        client_of: the name on the network of the client that is connected with a session; None where nobody is.
    """

    def __init__(
        self,
        brokers: Mapping[int, Broker],
        participants: Sequence[Participant],
        operator: Operator,
        client_of: Callable[[int], str | None],
    ) -> None:
        self._brokers = brokers
        self._by_name = {broker.process.name: broker for broker in brokers.values()}
        self._client_of = client_of
        self._participants = participants
        self._operator = operator
        self._holders: dict[int, Broker] = {}

    def who_is(self, session_id: int) -> str:
        """The name of whom a session belongs to; ZooKeeper itself where nobody holds it."""
        broker = self._holder(session_id)
        if broker is not None:
            return f"controller {broker.id}" if broker.controller.is_active else f"broker {broker.id}"
        for participant in self._participants:
            if session_id == participant.session_id:
                return participant.name
        if self._operator.holds(session_id):
            return "admin"
        return ADDRESS

    def on_its_own(self, session_id: int, what: OwnAccount) -> str | None:
        """A broker that writes something itself, in a release in which no controller does that for it; else None."""
        broker = self._holder(session_id)
        if broker is None:
            return None
        version = broker.version
        by_controller = version.broker.uses_alter_isr if what == "isr" else version.controller.allocates_producer_ids
        return None if by_controller else f"broker {broker.id}"

    def _holder(self, session_id: int) -> Broker | None:
        """The broker whose session it is, or was until a moment ago; mostly it was the same the last time."""
        known = self._holders.get(session_id)
        if known is not None and known.holds(session_id):
            return known
        found = self._by_name.get(self._client_of(session_id) or "")
        if found is None or not found.holds(session_id):
            found = next((broker for broker in self._brokers.values() if broker.holds(session_id)), None)
        if found is not None and session_id:  # no session is that of several
            if len(self._holders) > 2 * len(self._brokers):
                self._holders.clear()
            self._holders[session_id] = found
        return found
