"""Interface of a simulated cluster's brokers, for the live page: this package does not know of Kafka."""

from __future__ import annotations

from typing import Protocol

Json = dict[str, object]


class SimulatedBrokers(Protocol):
    """The brokers of a simulated cluster, as far as they are shown and controlled over HTTP."""

    def state(self) -> Json:
        """Return brokers, partitions and the latest events as JSON values."""

    def picture(self) -> str:
        """Return the page of what has happened so far, an HTML document with its own style and script."""

    @property
    def picture_sources(self) -> tuple[str, str]:
        """Style and script of the picture, as sources of a Content Security Policy."""

    def act(self, broker: int, verb: str, peer: int | None) -> None:
        """Do something to a broker.

        Args:
            broker: its id.
            verb: one of `verbs`.
            peer: another broker, for `cut` and `heal`; None for ZooKeeper and all other brokers.

        Raises:
            SimzkError: the broker, the peer or the verb does not exist, or the broker's state does not fit.
        """

    @property
    def verbs(self) -> tuple[str, ...]:
        """Names of what `act` does."""
