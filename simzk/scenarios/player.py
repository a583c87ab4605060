"""Plays a scenario on a simulated cluster and judges what it expects.

Rules of this module:
  - a run is a function of (scenario, seed, Kafka version): nothing else comes in;
  - a play lets no time pass by itself: it says what it waits for (`Wait`), and whoever plays it lets so much time pass,
    all of it at once (`run`) or as the wall clock goes (`run_until`);
  - the history is the one timeline: what the operator does and what an expectation finds are events in it too;
  - an expectation that may take its time is looked at after every event that it could have come true by, and its
    verdict bears the time it came true.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from simzk.errors import ScenarioError, SimzkError
from simzk.kafka.cluster.cluster import START_MS, KafkaCluster
from simzk.kafka.cluster.cost_model import MEASURED
from simzk.scenarios import actions, beliefs, expectations, schema
from simzk.scenarios import actions as action_words
from simzk.scenarios.reader import step_waits
from simzk.simulation import FaultPlan, Monitor
from simzk.simulation.faults.plan import CUT, EXPIRE, KILL, PAUSE
from simzk.simulation.history import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from simzk.scenarios.reader import FaultTimes, PlannedStep, Scenario
    from simzk.simulation import Event, Violation
    from simzk.simulation.faults.plan import Fault

OPERATOR, EXPECTATION, FAULT = "operator", "expectation", "fault"
HOLDS, BROKEN = "holds", "BROKEN"

AFTERWARDS = "after the last step: what is under way comes to its end"
SETTLES_SECONDS = 60.0
"""How long that may take."""

HEAD_START_US = 100_000
"""By how much the broker starts first that is to win the first election."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one expectation: when it was settled, on which line it stands, and in what it did not hold."""

    name: str
    line: int
    at_us: int
    failures: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether it held."""
        return not self.failures


class Wait(NamedTuple):
    """What a play waits for: a virtual time, or, before that, the next event, whatever it is."""

    until_us: int
    each_event: bool = False


class Crash(NamedTuple):
    """A failure of the simulation itself: what it was, and where."""

    what: str
    traceback: str


class Play:
    """One run of one scenario.

    Args:
        scenario: as read.
        seed: decides all chance that the scenario does not fix.
        version: the Kafka version of all brokers from beginning to end; empty for what the scenario says.
        start_ms: what the clocks of the cluster show at its beginning.

    Raises:
        ConfigError: a version that is not known.
    """

    def __init__(self, scenario: Scenario, *, seed: int, version: str = "", start_ms: int = START_MS) -> None:
        self.scenario = scenario
        self.seed = seed
        self.verdicts: list[Verdict] = []
        self._one_release = bool(version)
        self.version = version or _told(scenario.version)
        self._outcome = None if scenario.bug is None else scenario.bug.outcome(self.version)
        self.cluster = _make_cluster(scenario, seed, version, start_ms)
        self._scheduler = self.cluster.scheduler
        self.history = self.cluster.history
        self._monitor = Monitor(self.history, self.cluster.invariants, seed=seed)
        self.plan = self._draw_plan(scenario.faults)
        self.crash: Crash | None = None
        self.at_rest = False
        self._tell: Callable[[int], None] = lambda _: None
        self._waits = self._play()
        self._wait: Wait | None = Wait(0)

    @property
    def violations(self) -> list[Violation]:
        """The invariants that broke, in order."""
        return self._monitor.violations

    @property
    def invariants(self) -> list[str]:
        """The names of what must hold at every event."""
        return [invariant.name for invariant in self._monitor.invariants]

    @property
    def held(self) -> bool:
        """Whether every expectation held, no invariant broke, and the simulation itself did not fail."""
        return not (self.crash or self.violations) and all(verdict.held for verdict in self.verdicts)

    def run(self, tell: Callable[[int], None] = lambda _: None) -> None:
        """Start what does not run yet, play all steps, then the faults.

        A failure of the simulation itself ends the run and is kept in `crash`: it is a bug that this seed found.

        Args:
            tell: called with the virtual time after each step and each fault, in microseconds.

        Raises:
            ScenarioError: a step cannot be done as things stand then, such as the restart of a broker still running.
        """
        self._tell = tell
        try:
            while self._wait is not None:
                self._pass_time(self._wait, self._wait.until_us)
        except SimzkError:
            raise
        except Exception as failure:
            self.crash = Crash(f"{type(failure).__name__}: {failure}".strip(": "), traceback.format_exc())

    def run_until(self, at_us: int) -> None:
        """Play all that comes up to a virtual time; after the last step time alone passes.

        Raises:
            ScenarioError: as `run`; the step is left out, and the next call goes on after it.
        """
        while self._wait is not None and self._pass_time(self._wait, at_us):
            pass
        if self._wait is None:
            self._scheduler.run_until(at_us)

    @property
    def next_at_us(self) -> int | None:
        """When something happens next; None if nothing will by itself."""
        next_us = self._scheduler.next_at_us
        if self._wait is None:
            return next_us
        return self._wait.until_us if next_us is None else min(self._wait.until_us, next_us)

    def _pass_time(self, wait: Wait, at_us: int) -> bool:
        """Let time pass for what the play waits for, but not beyond `at_us`; whether it had what it waited for."""
        next_us = self._scheduler.next_at_us
        if wait.each_event and next_us is not None and next_us <= min(wait.until_us, at_us):
            self._scheduler.run_next()
        elif wait.until_us <= at_us:
            self._scheduler.run_until(max(wait.until_us, self._scheduler.now_us))
        else:
            self._scheduler.run_until(at_us)
            return False
        self._wait = next(self._waits, None)
        return True

    def settle(self) -> None:
        """After the last step, let come to its end what is under way; where that ends, `at_rest` says."""
        if self.crash is None:
            self.history.record(OPERATOR, AFTERWARDS)
            self.at_rest = self.cluster.run_until_quiet(SETTLES_SECONDS)

    def close(self) -> None:
        """Let go of the cluster: its coroutines are closed, and nothing of it runs any more."""
        self.cluster.close()

    def _play(self) -> Iterator[Wait]:
        self._start_brokers()
        for planned in self.scenario.steps:
            yield from self._play_step(planned)
            self._tell(self._scheduler.now_us)
        if self.plan is not None:
            yield from self._play_faults(self.plan)

    def _start_brokers(self) -> None:
        """Start a new cluster's brokers: together, or after the one that is to be controller."""
        first = self.scenario.controller
        for number, broker in self.cluster.brokers.items():
            if not broker.alive:
                delay_us = 0 if first in (None, number) else HEAD_START_US
                self._scheduler.call_later(delay_us, "scenario", broker.start)

    def _play_step(self, planned: PlannedStep) -> Iterator[Wait]:
        yield Wait(planned.at_us if planned.at_us is not None else self._scheduler.now_us + planned.after_us)
        step = planned.step
        if isinstance(step, schema.Expectation):
            if step.bug and step.bug != self._outcome:
                return
            yield from self._judge(step, planned.line, planned.within_us, planned.topics)
            return
        if isinstance(step, schema.Restart) and self._one_release:
            step = structs.replace(step, version="", inter_broker_protocol="")
        self.history.record(OPERATOR, action_words.describe(step))
        try:
            actions.act(self.cluster, step)
        except SimzkError as error:
            instant = format_time(self._scheduler.now_us).strip()
            where = f"{self.scenario.path}:{planned.line}: step at {instant}"
            raise ScenarioError(str(error), where=where) from None
        if step_waits(step):
            yield Wait(self._scheduler.now_us + planned.lasts_us)

    def _judge(
        self, step: schema.Expectation, line: int, within_us: int, topics: dict[str, int]
    ) -> Generator[Wait, None, None]:
        name = expectations.describe(step)
        failures = yield from self._settle(step, within_us, topics)
        self.verdicts.append(Verdict(name, line, self._scheduler.now_us, tuple(failures)))
        self.history.record(EXPECTATION, BROKEN if failures else HOLDS, name, after="; ".join(failures))

    def _settle(
        self, step: schema.Expectation, within_us: int, topics: dict[str, int]
    ) -> Generator[Wait, None, list[str]]:
        """Let time pass until the expectation holds or its time is over; return in what it fails then."""
        until_us = self._scheduler.now_us + within_us
        seen = None
        failures: list[str] = []
        while True:
            present = (self.cluster.server.zxid, len(self.history))
            if present != seen or isinstance(step, beliefs.Belief):
                seen = present
                failures = expectations.failures(self.cluster, step, topics, self.scenario.recording)
                if not failures:
                    return []
            next_us = self._scheduler.next_at_us
            if next_us is None or next_us > until_us:
                yield Wait(until_us)
                return failures
            yield Wait(until_us, each_event=True)

    def _draw_plan(self, times: FaultTimes | None) -> FaultPlan | None:
        if times is None:
            return None
        return FaultPlan.draw(
            self._scheduler.stream("fault plan"),
            members=len(self.scenario.brokers),
            safety_us=times.safety_us,
            liveness_us=times.liveness_us,
        )

    def _play_faults(self, plan: FaultPlan) -> Iterator[Wait]:
        start_us = self._scheduler.now_us
        running = [broker for broker in self.scenario.brokers if self.cluster.brokers[broker].alive]
        for fault in plan.faults(self._scheduler.stream("faults"), running):
            yield Wait(start_us + fault.at_us)
            self._strike(fault)
            self._tell(self._scheduler.now_us)
        yield Wait(start_us + plan.safety_us)
        self.history.record(OPERATOR, "heals everything; from now on the cluster must become whole")
        self.cluster.network.heal_all()
        whole = schema.ExpectWhole(expect="whole", name="after all faults, every partition is led and in sync")
        steps = self.scenario.steps
        yield from self._judge(whole, self.scenario.faults_line, plan.liveness_us, steps[-1].topics if steps else {})

    def _strike(self, fault: Fault) -> None:
        seconds = fault.duration_us / 1_000_000
        broker = fault.member
        if not self.cluster.brokers[broker].alive:  # it waits to be started again: its old session stands still
            return
        told = {KILL: "kills", PAUSE: "pauses", EXPIRE: "expires the session of", CUT: "cuts off"}[fault.kind]
        self.history.record(FAULT, f"{told} broker {broker}", after="" if fault.kind == EXPIRE else f"for {seconds:g}s")
        if fault.kind == KILL:
            self.cluster.kill(broker)
            self._scheduler.call_later(fault.duration_us, "faults", lambda: self._restart(broker))
        elif fault.kind == PAUSE:
            self.cluster.pause(broker, seconds)
        elif fault.kind == EXPIRE:
            self.cluster.expire(broker)
        else:
            actions.cut(self.cluster, broker)
            self._scheduler.call_later(fault.duration_us, "faults", lambda: actions.heal(self.cluster, broker))

    def _restart(self, broker: int) -> None:
        if not self.cluster.brokers[broker].alive:
            self.cluster.restart(broker)


def _make_cluster(scenario: Scenario, seed: int, version: str, start_ms: int) -> KafkaCluster:
    """Return a recorded cluster as it was, or a new one whose brokers start at this instant."""
    costs = MEASURED if scenario.measured_costs else None
    if scenario.recording is not None:
        tree = scenario.recording.tree(scenario.start_step)
        own = version or _told(scenario.version)
        return KafkaCluster.from_tree(
            tree,
            version=own,
            seed=seed,
            config=scenario.config,
            start_ms=start_ms,
            log_dirs=scenario.log_dirs,
            cost_model=costs,
        )
    return KafkaCluster(
        version or scenario.version,
        scenario.brokers,
        scenario.racks or None,
        seed,
        config=scenario.config,
        inter_broker_protocol=None if version else scenario.protocol or None,
        boot=False,
        start_ms=start_ms,
        log_dirs=scenario.log_dirs,
        zookeeper_set_acl=scenario.secured,
        zookeeper_chroot=scenario.chroot,
        cost_model=costs,
    )


def _told(version: str | Mapping[int, str]) -> str:
    """The releases of a cluster in words: `3.9`, or `1: 2.4, 2: 2.8`."""
    if isinstance(version, str):
        return version
    return ", ".join(f"{broker}: {line}" for broker, line in version.items())


def is_told_by_scenario(event: Event) -> bool:
    """Return whether an event is the scenario's own: what the operator did, or a verdict."""
    return event.who in (OPERATOR, EXPECTATION)
