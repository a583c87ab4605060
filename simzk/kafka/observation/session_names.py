"""Session id to participant name, for the authors of history events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from simzk.kafka.cluster.zookeeper_host import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.tools.operator import Operator


BrokerWrite = Literal["isr", "producer ids"]
"""Writes that a broker makes itself in older releases, and the controller in newer ones."""


class Participant(Protocol):
    """A process besides brokers and operator that uses the cluster's ZooKeeper, such as an old consumer."""

    @property
    def name(self) -> str:
        """The name in the history."""

    @property
    def session_id(self) -> int:
        """The id of its present session."""

    def kill(self) -> None:
        """Kill its process."""


class SessionNames:
    """Names of the owners of a cluster's ZooKeeper sessions.

    Args:
        brokers: the brokers by id.
        participants: the other processes with sessions; may grow.
        operator: the operator.
        client_of: returns the network name of the client that is connected with a session, or None.
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
        self._owners: dict[int, Broker] = {}

    def name_of(self, session_id: int) -> str:
        """Return the name of a session's owner; `zookeeper` if it has none."""
        broker = self._owner(session_id)
        if broker is not None:
            return f"controller {broker.id}" if broker.controller.is_active else f"broker {broker.id}"
        for participant in self._participants:
            if session_id == participant.session_id:
                return participant.name
        if self._operator.holds(session_id):
            return "admin"
        return ADDRESS

    def broker_of(self, session_id: int, write: BrokerWrite) -> str | None:
        """Return the name of the broker that made a write itself; None if its release leaves that to the controller."""
        broker = self._owner(session_id)
        if broker is None:
            return None
        version = broker.version
        by_controller = version.broker.uses_alter_isr if write == "isr" else version.controller.allocates_producer_ids
        return None if by_controller else f"broker {broker.id}"

    def _owner(self, session_id: int) -> Broker | None:
        """Return the broker that owns a session, or owned it until it expired.

        Owners are cached: one broker writes thousands of times in a row, and a search asks all brokers.
        """
        known = self._owners.get(session_id)
        if known is not None and known.holds(session_id):
            return known
        found = self._by_name.get(self._client_of(session_id) or "")
        if found is None or not found.holds(session_id):
            found = next((broker for broker in self._brokers.values() if broker.holds(session_id)), None)
        if found is not None and session_id:  # 0 means no session, for any broker
            if len(self._owners) > 2 * len(self._brokers):  # sessions that have ended
                self._owners.clear()
            self._owners[session_id] = found
        return found
