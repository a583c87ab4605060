"""A scenario played as the wall clock goes: a world (brokers, ZooKeeper, an operator) that others can look into.

Rules of this module:
  - it reads no clock: whoever hosts it says how far time has come;
  - an operator's step that cannot be done as things stand, for somebody else was there before, is told and left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.scenarios.player import Play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.scenarios.reader import Scenario
    from simzk.simulation import Event
    from simzk.simulation.faults.request_faults import FaultRules
    from simzk.zookeeper.server import Server


class LiveScenario:
    """A play that time is let pass for from outside.

    Args:
        scenario: as read; its own seed decides what is chance.
        start_ms: what the clocks of its world show at its beginning.
        tell: called with the events of the history that are new.
        warn: called with what could not be done.

    Attributes:
        server: the ZooKeeper that the brokers use.
        rules: the faults that hold for the brokers' sessions.

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
    ) -> None:
        self.play = Play(scenario, seed=scenario.seed, start_ms=start_ms)
        self._host = self.play.cluster.zookeeper_host
        self.server: Server = self._host.server
        self.rules: FaultRules = self._host.rules
        self._tell = tell
        self._warn = warn
        self._new: list[Event] = []
        self.play.history.observers.append(self._new.append)

    def now_ms(self) -> int:
        """What the clocks show."""
        return self._host.now_ms()

    def next_ms(self) -> float | None:
        """When something happens next by itself; None if never."""
        next_us = self.play.next_at_us
        return None if next_us is None else self._host.start_ms + next_us / 1000

    def run_until(self, at_ms: int) -> None:
        """Let time pass, and tell what came of it."""
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
        """End the world."""
        self.play.close()
