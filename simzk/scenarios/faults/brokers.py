"""Faults of brokers: their processes, sessions, machines and disks.

To add a kind, write its class here and add it to `BROKER_KINDS`: `begin` calls a verb of `KafkaCluster`, and by
`Target.call_later` the verb that ends it; `Target.heal` ends what would last longer.
"""

from __future__ import annotations

from typing import Any, Final

from simzk.scenarios.faults.fault import BrokerFault, Draw, FaultCheck, LastingBrokerFault, Target
from simzk.scenarios.source import Index, format_duration, parse_duration


class Kill(LastingBrokerFault, kw_only=True, frozen=True):
    """Kill a broker, as `kill -9` does, and restart it at the end."""

    def begin(self, target: Target) -> None:
        target.cluster.kill(self.broker)
        target.call_later(self.duration_us, lambda: target.restart(self.broker))

    def describe(self) -> str:
        return f"kills broker {self.broker}"


class Pause(LastingBrokerFault, kw_only=True, frozen=True):
    """Pause a broker, as a long garbage collection does."""

    def begin(self, target: Target) -> None:
        target.cluster.pause(self.broker, self.duration_us / 1_000_000)

    def describe(self) -> str:
        return f"pauses broker {self.broker}"


class Shutdown(LastingBrokerFault, kw_only=True, frozen=True):
    """Shut a broker down in a controlled way, and restart it at the end; it is killed if it has not stopped by then."""

    def begin(self, target: Target) -> None:
        target.cluster.shutdown(self.broker)
        target.call_later(self.duration_us, lambda: target.stop_and_restart(self.broker))

    def describe(self) -> str:
        return f"shuts down broker {self.broker}"


class Expire(BrokerFault, kw_only=True, frozen=True):
    """Expire the session of a running broker."""

    def obstacle(self, target: Target) -> str:
        return super().obstacle(target) or ("" if target.cluster.is_zookeeper_up else "ZooKeeper does not run")

    def begin(self, target: Target) -> None:
        target.cluster.expire(self.broker)

    def describe(self) -> str:
        return f"expires the session of broker {self.broker}"


class Disconnect(BrokerFault, kw_only=True, frozen=True):
    """Close the connection of a broker to ZooKeeper; it reconnects with its session."""

    def begin(self, target: Target) -> None:
        target.cluster.disconnect(self.broker)

    def describe(self) -> str:
        return f"closes the connection of broker {self.broker} to ZooKeeper"


class FailLogDir(LastingBrokerFault, kw_only=True, frozen=True):
    """Fail a log directory of a broker; at the end the broker is restarted with a new, empty one."""

    directory: Index = 0

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        return {"directory": draw.stream.below(draw.setting.log_dirs)}

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if self.directory >= check.setting.log_dirs:
            what = f"brokers have no log directory {self.directory}"
            right = f"0 .. {check.setting.log_dirs - 1} (log_dirs in [cluster] sets their number)"
            check.fail("directory", what, right)

    def begin(self, target: Target) -> None:
        target.fail_log_dir(self.broker, self.directory)
        target.call_later(self.duration_us, lambda: target.stop_and_restart(self.broker))

    def describe(self) -> str:
        return f"fails log directory {self.directory} of broker {self.broker}"


class PowerOff(LastingBrokerFault, kw_only=True, frozen=True):
    """Cut the power of a broker's machine: records that are neither flushed nor `unwritten` old are gone."""

    unwritten: str = "30s"

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.duration("unwritten", self.unwritten, positive=False)

    def begin(self, target: Target) -> None:
        target.cluster.power_off(self.broker, unwritten_s=(parse_duration(self.unwritten) or 0) / 1_000_000)
        target.call_later(self.duration_us, lambda: target.restart(self.broker))

    def describe(self) -> str:
        return f"cuts the power of broker {self.broker}"


class Wipe(LastingBrokerFault, kw_only=True, frozen=True):
    """Kill a broker, and restart it at the end with empty disks."""

    def begin(self, target: Target) -> None:
        target.cluster.kill(self.broker)
        target.cluster.wipe(self.broker)
        target.call_later(self.duration_us, lambda: target.restart(self.broker))

    def describe(self) -> str:
        return f"kills broker {self.broker} and empties its disks"


class SlowDisk(LastingBrokerFault, kw_only=True, frozen=True):
    """Let each access to a broker's disk take some time until the end."""

    access: str

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        return {"access": format_duration(draw.stream.between(1, 60) ** 2 * 1_000)}  # 1 ms to 3.6 s, more often short

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.duration("access", self.access)

    def begin(self, target: Target) -> None:
        target.cluster.slow_disk(self.broker, (parse_duration(self.access) or 0) / 1_000_000)
        target.call_later(self.duration_us, lambda: target.cluster.slow_disk(self.broker, 0))

    def describe(self) -> str:
        return f"slows down the disk of broker {self.broker}, {self.access} an access"


BROKER_KINDS: Final = (Kill, Pause, Shutdown, Expire, Disconnect, FailLogDir, PowerOff, Wipe, SlowDisk)
