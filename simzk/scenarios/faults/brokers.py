"""Faults of brokers: their processes, sessions, links and log directories.

To add a kind, write its class here and add it to `BROKER_KINDS`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from simzk.scenarios import actions
from simzk.scenarios.faults.fault import BrokerFault, LastingBrokerFault, Target


class Kill(LastingBrokerFault, kw_only=True, frozen=True):
    """Kill a broker, as `kill -9` does, and restart it at the end."""

    name: ClassVar[str] = "kill"

    def begin(self, target: Target) -> None:
        target.cluster.kill(self.broker)
        target.call_later(self.duration_us, lambda: target.restart(self.broker))

    def describe(self) -> str:
        return f"kills broker {self.broker}"


class Pause(LastingBrokerFault, kw_only=True, frozen=True):
    """Pause a broker, as a long garbage collection does."""

    name: ClassVar[str] = "pause"

    def begin(self, target: Target) -> None:
        target.cluster.pause(self.broker, self.duration_us / 1_000_000)

    def describe(self) -> str:
        return f"pauses broker {self.broker}"


class Expire(BrokerFault, kw_only=True, frozen=True):
    """Expire the session of a running broker."""

    name: ClassVar[str] = "expire"

    def begin(self, target: Target) -> None:
        target.cluster.expire(self.broker)

    def describe(self) -> str:
        return f"expires the session of broker {self.broker}"


class Cut(LastingBrokerFault, kw_only=True, frozen=True):
    """Cut a broker off from ZooKeeper and all other brokers."""

    name: ClassVar[str] = "cut"

    def begin(self, target: Target) -> None:
        actions.cut(target.cluster, self.broker)
        target.call_later(self.duration_us, lambda: actions.heal(target.cluster, self.broker))

    def describe(self) -> str:
        return f"cuts off broker {self.broker}"


BROKER_KINDS: Final = (Kill, Pause, Expire, Cut)
