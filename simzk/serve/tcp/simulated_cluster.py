"""ZooKeeper of a simulated cluster on a TCP port: the cluster's virtual time follows the wall clock.

Rules of this module:
  - the server's time is the cluster's: it stands still between two ticks, and never runs ahead of the wall;
  - before a client's request is applied, the cluster runs up to the present; afterwards the timer is set to the
    cluster's next event;
  - a cluster that fails stops the server: it would serve a state that nobody can trust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from simzk.serve.clock import WallClock
from simzk.serve.tcp.server import TcpServer
from simzk.serve.wire_driver import WireDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.configuration.settings import Settings
    from simzk.serve.simulated_brokers import SimulatedBrokers
    from simzk.simulation.request_faults import FaultRules
    from simzk.zookeeper.server import Server


class Cluster(Protocol):
    """A simulated cluster, as far as its ZooKeeper is served.

    Attributes:
        server: its ZooKeeper.
        rules: the fault rules of its brokers' sessions; they apply to TCP clients too.
    """

    server: Server
    rules: FaultRules

    @property
    def brokers(self) -> SimulatedBrokers:
        """Return its brokers, as the live page shows and controls them."""

    def now_ms(self) -> int:
        """Return its time, as ZooKeeper counts it."""

    def next_ms(self) -> float | None:
        """Return the time of its next event; None if there is none."""

    def run_until(self, at_ms: int) -> None:
        """Process all events up to a time that is not past."""

    def wake_faults(self, at_ms: int) -> None:
        """Pass on the requests whose delay ends at a time."""

    def pump(self) -> None:
        """Send the server's output, to brokers and to TCP clients."""


class ClusterClock(WallClock):
    """The time of a cluster, which follows the wall clock tick by tick."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._ahead_ms = cluster.now_ms() - super().now_ms()  # of the wall, as a cluster with a past may be

    def now_ms(self) -> int:
        return self._cluster.now_ms()

    def present_ms(self) -> int:
        """Return the time that the cluster has to run up to; a cluster that was advanced by hand stays ahead."""
        wall_ms = super().now_ms()
        self._ahead_ms = max(self._ahead_ms, self._cluster.now_ms() - wall_ms)
        assert wall_ms + self._ahead_ms >= self._cluster.now_ms(), "the cluster would run into its past"
        return wall_ms + self._ahead_ms


class ClusterDriver(WireDriver):
    """Driver of a cluster's ZooKeeper for TCP clients; a tick runs the cluster up to the present.

    Args:
        cluster: the cluster.
        clock: its time.
        on_error: called with the exception that ended the cluster.

    Attributes:
        on_sent: called when the cluster may have a new next event.
    """

    def __init__(self, cluster: Cluster, clock: ClusterClock, on_error: Callable[[Exception], None]) -> None:
        super().__init__(cluster.server, clock, send=self._send, rules=cluster.rules)
        self._cluster = cluster
        self._cluster_clock = clock
        self._on_error = on_error
        self.on_sent: Callable[[], None] = lambda: None

    def _send(self) -> None:
        self._cluster.pump()
        self.on_sent()

    def tick(self) -> None:
        """Run the cluster up to the present."""
        with self.lock:
            if not self.accepts_links:
                return
            present_ms = self._cluster_clock.present_ms()
            deadline_ms = self.server.next_deadline_ms()
            is_due = deadline_ms is not None and deadline_ms <= present_ms
            try:
                if is_due:
                    self._keep_awaited_sessions(present_ms)
                with self._attended(self._heard_links() if is_due else []):
                    self._cluster.run_until(present_ms)
            except Exception as error:  # of any kind: nobody else would report it
                self._on_error(error)
                return
            self._send()

    def advance_attended(self, advance: Callable[[], None]) -> None:
        """Let the cluster's time jump; a client that is connected and not paused keeps its session."""
        with self.lock, self.attended_links():
            advance()
            self._send()

    def seconds_to_deadline(self) -> float | None:
        """Return how long the loop may sleep until the cluster's next event; None if there is none."""
        with self.lock:
            next_ms = self._cluster.next_ms()
            if next_ms is None or not self.accepts_links:
                return None
            return (next_ms - self._cluster_clock.present_ms()) / 1000


class ClusterTcpServer(TcpServer):
    """The ZooKeeper of a simulated cluster on a port.

    Args:
        settings: its ports; the server itself is configured by the cluster.
        cluster: its virtual time is now from here on.

    Raises:
        ConfigError: it cannot listen.
    """

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._cluster = cluster
        self._cluster_clock = ClusterClock(cluster)
        super().__init__(settings, self._cluster_clock)

    @property
    def brokers(self) -> SimulatedBrokers:
        return self._cluster.brokers

    def _load(self, settings: Settings) -> Server:
        return self._cluster.server

    def _new_driver(self, server: Server) -> WireDriver:
        driver = ClusterDriver(self._cluster, self._cluster_clock, self.fail)
        driver.on_sent = self.arm_anywhere
        return driver

    def use_driver(self, driver: WireDriver) -> None:
        """Serve what a driver drives; delayed requests are events of the cluster."""
        super().use_driver(driver)

        def wake(at_ms: int) -> None:
            self._cluster.wake_faults(at_ms)
            self.call_on_loop(self.arm)

        driver.on_deadline = wake
