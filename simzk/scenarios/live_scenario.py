"""Play of a scenario on wall time: its time is advanced from outside, and its brokers are controlled over HTTP.

Rules of this module:
  - a step that is impossible because a client changed the cluster is skipped with a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.scenarios.broker_control import BrokerControl
from simzk.scenarios.player import Play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.scenarios.reader import Scenario
    from simzk.simulation import Event
    from simzk.simulation.request_faults import FaultRules
    from simzk.zookeeper.server import Server


class LiveScenario:
    """A play of which the time is advanced from outside.

    Args:
        scenario: the checked scenario; its own seed is used.
        start_ms: wall-clock time at its start, in milliseconds since the epoch.
        tell: called with the new events of the history.
        warn: called with the error of a step that was skipped.
        cluster_type: the class of the cluster.

    Attributes:
        server: the ZooKeeper that the brokers use.
        rules: the fault rules of the brokers' sessions.
        brokers: state and verbs of the brokers.

    >>> from simzk.scenarios.reader import read_scenario
    >>> scenario = read_scenario("scenarios/broker_failure.toml")
    >>> live = LiveScenario(scenario, start_ms=1_800_000_000_000, tell=lambda events: None, warn=print)
    >>> live.run_until(1_800_000_002_000)
    >>> live.server.tree.get("/controller") is not None
    True
    >>> live.close()
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        start_ms: int,
        tell: Callable[[Sequence[Event]], None],
        warn: Callable[[str], None],
        cluster_type: type[KafkaCluster] = KafkaCluster,
    ) -> None:
        self.play = Play(scenario, seed=scenario.seed, start_ms=start_ms, cluster_type=cluster_type)
        self._host = self.play.cluster.zookeeper_host
        self.server: Server = self._host.server
        self.rules: FaultRules = self._host.rules
        self.brokers: BrokerControl = BrokerControl(self.play.cluster)
        self._tell = tell
        self._warn = warn
        self._new: list[Event] = []
        self.play.history.observers.append(self._new.append)

    def now_ms(self) -> int:
        """Return the present wall-clock time of the cluster."""
        return self._host.now_ms()

    def next_ms(self) -> float | None:
        """Return the time of the next event without input; None if there is none."""
        next_us = self.play.next_at_us
        return None if next_us is None else self._host.start_ms + next_us / 1000

    def run_until(self, at_ms: int) -> None:
        """Advance time, and report the new events."""
        at_us = self._host.when_us(at_ms)
        while True:
            try:
                self.play.run_until(at_us)
                break
            except SimzkError as error:
                self._warn(str(error))
        if self._new:
            self._tell(list(self._new))
            self._new.clear()

    def wake_faults(self, at_ms: int) -> None:
        """See to it that what a fault holds back goes on then."""
        self._host.wake_at(at_ms)

    def pump(self) -> None:
        """Send what the server has to say."""
        self._host.send_output()

    def close(self) -> None:
        """Close the cluster."""
        self.play.close()
