"""Faults of ZooKeeper: its server, and requests of brokers to it.

To add a kind, write its class here and add it to `ZOOKEEPER_KINDS`, or to `SERVER_KINDS` if it needs several servers.
`ENSEMBLE_KINDS` are older: their faults are drawn among all others.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from simzk.scenarios.faults.fault import (
    ZOOKEEPER,
    Draw,
    Fault,
    FaultCheck,
    LastingBrokerFault,
    LastingFault,
    Setting,
    Target,
)
from simzk.scenarios.source import BrokerId, Count, did_you_mean, format_duration, parse_duration
from simzk.simulation import request_faults
from simzk.zookeeper.operations import VOCABULARY

ANY = ""
"""Operation that stands for all requests that a client is asked to send."""
_OPERATIONS: Final = (ANY, "create", "set", "delete", "transaction", "get", "get_children", "exists")
"""Operations that are drawn."""
_ERRORS: Final = ("CONNECTION_LOSS", "SESSION_EXPIRED")
"""Errors that are drawn: those that a client of a healthy tree can get for any request."""
_TIMES_MAX = 3


class ServerFault(LastingFault, kw_only=True, frozen=True):
    """A fault of the ZooKeeper server, which has one at a time."""

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        if draw.is_broken(ZOOKEEPER):
            return None
        return cls(kind=cls.name, at=draw.at, duration=draw.duration(ZOOKEEPER))

    def obstacle(self, target: Target) -> str:
        return "" if target.cluster.is_zookeeper_up else "ZooKeeper does not run"


class RestartZooKeeper(ServerFault, kw_only=True, frozen=True):
    """Stop ZooKeeper and start it again at the end: its znodes and sessions are kept."""

    def begin(self, target: Target) -> None:
        target.cluster.stop_zookeeper()
        target.call_later(self.duration_us, target.start_zookeeper)

    def describe(self) -> str:
        return "stops ZooKeeper"


class PauseZooKeeper(ServerFault, kw_only=True, frozen=True):
    """Pause the ZooKeeper server, as a long garbage collection does; sessions that are due expire at the end."""

    def begin(self, target: Target) -> None:
        target.cluster.pause_zookeeper()
        target.call_later(self.duration_us, target.start_zookeeper)

    def describe(self) -> str:
        return "pauses ZooKeeper"


class EnsembleFault(ServerFault, kw_only=True, frozen=True):
    """A fault of one server of an ensemble."""

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        return setting.zookeeper_servers > 1

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if not self.is_possible(check.setting):
            check.fail("kind", "the cluster has one ZooKeeper server", "zookeeper_servers = 3 in [cluster]")


class LoseZooKeeperLeader(EnsembleFault, kw_only=True, frozen=True):
    """Kill the leading ZooKeeper server, and start it again at the end; the others elect another leader."""

    def obstacle(self, target: Target) -> str:
        return super().obstacle(target) or ("" if target.cluster.zookeeper_leader else "ZooKeeper has no leader")

    def begin(self, target: Target) -> None:
        lost = target.cluster.lose_zookeeper_leader()
        target.call_later(self.duration_us, lambda: target.start_zookeeper_server(lost))

    def describe(self) -> str:
        return "kills the leader of the ZooKeeper ensemble"


class OneServerFault(EnsembleFault, kw_only=True, frozen=True):
    """A fault of a ZooKeeper server that the fault names."""

    server: Count

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        if draw.is_broken(ZOOKEEPER):
            return None
        server = draw.stream.between(1, draw.setting.zookeeper_servers)
        return cls(kind=cls.name, at=draw.at, server=server, duration=draw.duration(ZOOKEEPER))

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if self.server > check.setting.zookeeper_servers:
            right = f"1 to {check.setting.zookeeper_servers}"
            check.fail("server", f"ZooKeeper server {self.server} does not exist", right)

    def obstacle(self, target: Target) -> str:
        is_killed = self.server in target.cluster.killed_zookeeper_servers
        return super().obstacle(target) or (f"ZooKeeper server {self.server} does not run" if is_killed else "")


class KillZooKeeperServer(OneServerFault, kw_only=True, frozen=True):
    """Kill one ZooKeeper server, and start it again at the end: its clients go to other servers."""

    def begin(self, target: Target) -> None:
        target.cluster.kill_zookeeper_server(self.server)
        target.call_later(self.duration_us, lambda: target.start_zookeeper_server(self.server))

    def describe(self) -> str:
        return f"kills ZooKeeper server {self.server}"


class PauseZooKeeperServer(OneServerFault, kw_only=True, frozen=True):
    """Pause one ZooKeeper server until the end: the others go on without it after some seconds."""

    def obstacle(self, target: Target) -> str:
        is_paused = self.server in target.cluster.paused_zookeeper_servers
        return super().obstacle(target) or (f"ZooKeeper server {self.server} is paused" if is_paused else "")

    def begin(self, target: Target) -> None:
        pause = target.cluster.pause_zookeeper_server(self.server)
        target.call_later(self.duration_us, pause.resume)

    def describe(self) -> str:
        return f"pauses ZooKeeper server {self.server}"


class CutZooKeeperServer(OneServerFault, kw_only=True, frozen=True):
    """Cut one ZooKeeper server off from the other servers, or with `broker` from that broker, until the end."""

    broker: BrokerId | None = None

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        fault = super().draw(draw)
        if fault is None or draw.stream.below(2):
            return fault
        return structs.replace(fault, broker=draw.stream.choice(draw.setting.brokers))

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if self.broker is not None:
            check.broker("broker", self.broker)

    def obstacle(self, target: Target) -> str:
        return ""  # a server that does not run has links too: a start finds them broken

    def begin(self, target: Target) -> None:
        target.cluster.cut_zookeeper_server(self.server, self.broker)
        target.call_later(self.duration_us, lambda: target.cluster.heal_zookeeper_server(self.server, self.broker))

    def describe(self) -> str:
        whom = "the other servers" if self.broker is None else f"broker {self.broker}"
        return f"cuts ZooKeeper server {self.server} off from {whom}"


class BrokerRequestFault(LastingBrokerFault, kw_only=True, frozen=True):
    """A fault of the next requests of a broker to ZooKeeper, until it ends or has struck `times` times."""

    operation: str = ANY
    path: str = ""
    times: Count = 1

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        return {"operation": draw.stream.choice(_OPERATIONS), "times": draw.stream.between(1, _TIMES_MAX)}

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if self.operation not in (ANY, *VOCABULARY.operations):
            right = did_you_mean(self.operation, VOCABULARY.operations)
            check.fail("operation", f"unknown operation {self.operation!r}", right)
        if self.path and not self.path.startswith("/"):
            check.fail("path", f"{self.path!r} is no path", "such as /controller")

    def obstacle(self, target: Target) -> str:
        return ""  # the rule waits for the broker's next session

    def fault(self) -> request_faults.RequestFault:
        """Return what is done to a request."""
        raise NotImplementedError

    def begin(self, target: Target) -> None:
        faults = target.cluster.zookeeper_faults
        if self.path:
            rule = faults.inject(
                self.fault(), self.operation or None, client=self.broker, path=self.path, below=True, times=self.times
            )
        else:
            rule = faults.inject(self.fault(), self.operation or None, client=self.broker, times=self.times)
        target.call_later(self.duration_us, rule.clear)

    def _requests(self) -> str:
        """Return the requests in words."""
        number = "the next" if self.times == 1 else f"the next {self.times}"
        kind = self.operation or "request"
        below = f" at or below {self.path}" if self.path else ""
        return f"{number} {kind}{'s' * (self.times > 1)} of broker {self.broker}{below}"


class DropRequest(BrokerRequestFault, kw_only=True, frozen=True):
    """Lose requests before they are applied, and close the connection."""

    def fault(self) -> request_faults.RequestFault:
        return request_faults.DropRequest()

    def describe(self) -> str:
        return f"loses {self._requests()}"


class DropReply(BrokerRequestFault, kw_only=True, frozen=True):
    """Apply requests, lose their replies, and close the connection."""

    def fault(self) -> request_faults.RequestFault:
        return request_faults.DropReply()

    def describe(self) -> str:
        return f"loses the replies to {self._requests()}"


class Delay(BrokerRequestFault, kw_only=True, frozen=True):
    """Apply requests, and those behind them on the connection, after a delay of `by`."""

    by: str

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        return super().draw_details(draw, broker) | {"by": format_duration(draw.stream.between(1, 20_000) * 1_000)}

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if check.duration("by", self.by) < 1_000:
            check.fail("by", f"{self.by} is too short for ZooKeeper's clock", "1ms or more")

    def fault(self) -> request_faults.RequestFault:
        return request_faults.Delay((parse_duration(self.by) or 0) / 1_000_000)

    def describe(self) -> str:
        return f"delays {self._requests()} by {self.by}"


class Hold(BrokerRequestFault, kw_only=True, frozen=True):
    """Hold requests back, and those behind them on the connection, until the end; the session is kept alive."""

    def fault(self) -> request_faults.RequestFault:
        return request_faults.Hold()

    def describe(self) -> str:
        return f"holds back {self._requests()}"


class ExpireAt(BrokerRequestFault, kw_only=True, frozen=True):
    """Expire the session of the broker at a request, which is not applied."""

    def fault(self) -> request_faults.RequestFault:
        return request_faults.Expire()

    def describe(self) -> str:
        return f"expires the session at {self._requests()}"


class Fail(BrokerRequestFault, kw_only=True, frozen=True):
    """Reply to requests with an error instead of applying them."""

    error: str

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        return super().draw_details(draw, broker) | {"error": draw.stream.choice(_ERRORS)}

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.config("error", lambda: self.fault().resolve(VOCABULARY, ()))

    def fault(self) -> request_faults.RequestFault:
        return request_faults.Fail(self.error)

    def describe(self) -> str:
        return f"fails {self._requests()} with {self.error}"


ZOOKEEPER_KINDS: Final = (RestartZooKeeper, PauseZooKeeper, DropRequest, DropReply, Delay, Hold, ExpireAt, Fail)

ENSEMBLE_KINDS: Final = (LoseZooKeeperLeader, KillZooKeeperServer)
"""Kinds of fault of a cluster on several ZooKeeper servers that are drawn among all others."""
SERVER_KINDS: Final = (PauseZooKeeperServer, CutZooKeeperServer)
"""Kinds of fault of a cluster on several ZooKeeper servers that are drawn from a stream of their own."""
