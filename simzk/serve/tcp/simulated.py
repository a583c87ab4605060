"""A ZooKeeper on a TCP port that stands in a simulated world, whose time follows the wall clock.

Rules of this module:
  - the world's own time is what the server is told: it stands still between two wakings, and never runs ahead;
  - before anything that a client asks is applied, the world has come up to the present; after it the world is woken
    at its next event;
  - a world that fails stops the server: what it would say from then on is nobody's truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from simzk.serve.clock import WallClock
from simzk.serve.host import Host
from simzk.serve.tcp.deadline_timer import Alarm
from simzk.serve.tcp.server import TcpServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.configuration.settings import Settings
    from simzk.simulation.faults.rules import FaultRules
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Outgoing
    from simzk.zookeeper.server import Server


class World(Protocol):
    """Whoever uses the server from within, such as simulated brokers, in virtual time.

    Attributes:
        server: the ZooKeeper in it.
        rules: the table of faults that hold for its own sessions; they hold for clients too.
        on_foreign_output: what its pump hands over that is for connections of ours.
    """

    server: Server
    rules: FaultRules
    on_foreign_output: Callable[[Connection, list[Outgoing]], None] | None

    def now_ms(self) -> int:
        """Its time, as ZooKeeper counts it."""

    def next_ms(self) -> float | None:
        """When it next does something by itself; None if never."""

    def run_until(self, at_ms: int) -> None:
        """Do all that comes up to a time that is not past."""

    def wake_faults(self, at_ms: int) -> None:
        """See to it that what a fault holds back goes on then."""

    def pump(self) -> None:
        """Send what the server has to say."""


class WorldClock(WallClock):
    """The time that a world has come to; it runs with the wall, waking by waking."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._ahead_ms = world.now_ms() - super().now_ms()  # of the wall, as a world that has a past may be

    def now_ms(self) -> int:
        return self._world.now_ms()

    def present_ms(self) -> int:
        """How far the world is to come."""
        return max(super().now_ms() + self._ahead_ms, self._world.now_ms())


class WorldHost(Host):
    """Carries what TCP clients ask into a world, and brings the world up to the present.

    Args:
        world: the world.
        clock: its time.
        on_failure: called with what ended the world.

    Attributes:
        on_sent: called when the world may have something new to do.
    """

    def __init__(self, world: World, clock: WorldClock, on_failure: Callable[[Exception], None]) -> None:
        super().__init__(world.server, clock, pump=self._pump, rules=world.rules)
        self._world = world
        self._world_clock = clock
        self._on_failure = on_failure
        self.on_sent: Callable[[], None] = lambda: None
        world.rules.lock = self.lock
        world.on_foreign_output = self.deliver

    def _pump(self) -> None:
        self._world.pump()
        self.on_sent()

    def tick(self) -> None:
        with self.lock:
            if not self.is_open:
                return
            try:
                self._world.run_until(self._world_clock.present_ms())
            except Exception as failure:  # whatever it was: nobody else is there to hear of it
                self._on_failure(failure)
                return
            self._pump()

    def seconds_to_deadline(self) -> float | None:
        with self.lock:
            next_ms = self._world.next_ms()
            return None if next_ms is None or not self.is_open else (next_ms - self._world_clock.present_ms()) / 1000


class WorldTcp(TcpServer):
    """The ZooKeeper of a world on a port.

    Args:
        settings: where it is served; what concerns the server itself is the world's affair.
        world: its time begins when it is made, at the present wall time.

    Raises:
        ConfigError: it cannot listen.
    """

    def __init__(self, settings: Settings, world: World) -> None:
        self._world = world
        clock = WorldClock(world)
        super().__init__(settings, clock)
        host = WorldHost(world, clock, self._failed)
        host.on_sent = self.arm
        self.host = self._watched(host)
        self._alarm = Alarm(host)

    def _watched(self, host: Host) -> Host:
        def wake(at_ms: int) -> None:
            self._world.wake_faults(at_ms)
            self.call_on_loop(self.arm)

        watched = super()._watched(host)
        watched.on_deadline = wake
        return watched

    def _load(self, settings: Settings) -> Server:
        return self._world.server

    def _failed(self, failure: Exception) -> None:
        self.failure = failure
        self.call_on_loop(self._fail)
