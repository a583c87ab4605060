"""Play of a scenario on a simulated cluster: its steps, its random faults and the verdicts of its expectations.

Rules of this module:
  - a run is a function of (scenario, seed, Kafka version); it has no other input;
  - a play does not advance time itself: it yields what it waits for (`Wait`), and its driver advances the time, all at
    once (`run`) or with the wall clock (`run_until`);
  - the history is the only timeline: actions of the operator and verdicts of expectations are events in it;
  - an expectation with a time limit is evaluated after every event that can change it; its verdict has the time at
    which it held;
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from simzk.errors import ScenarioError, SimzkError
from simzk.garbage_collection import with_rare_cyclic_gc
from simzk.kafka.cluster.clients.examination import Examiner
from simzk.kafka.cluster.cluster import START_MS, KafkaCluster
from simzk.kafka.cluster.cost_model import MEASURED
from simzk.kafka.releases.versions import kafka_version
from simzk.scenarios import actions
from simzk.scenarios.actions import RestartStep
from simzk.scenarios.cluster_model import by_broker
from simzk.scenarios.expectations import (
    ExpectAgreed,
    Expectation,
    ExpectDone,
    ExpectRecovered,
    Observed,
    unserved_by_known_bug,
)
from simzk.scenarios.faults.dense_producers import DenseProducers
from simzk.scenarios.faults.fault import FAULT, OPERATOR, Setting, Target
from simzk.scenarios.faults.operator import DeleteTopic
from simzk.scenarios.faults.plan import FaultPlan
from simzk.scenarios.probes import Probes
from simzk.scenarios.znode_log import ZnodeLog
from simzk.simulation import Monitor, Process
from simzk.simulation.history import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from simzk.kafka.observation.client_ledger import ClientLedger
    from simzk.scenarios.reader import PlannedStep, Scenario
    from simzk.simulation import Event, Violation

__all__ = [
    "EXPECTATION",
    "FAULT",
    "OPERATOR",
    "Crash",
    "ExpectationResult",
    "Play",
    "is_scenario_event",
]

EXPECTATION = "expectation"
HOLDS, BROKEN = "holds", "BROKEN"

AFTERWARDS = "after the last step: what is under way comes to its end"
QUIESCENCE_TIMEOUT_SECONDS = 60.0
"""Time limit for the cluster to become quiet after the last step."""

SETTLING_US, AGREEMENT_US = 10_000_000, 60_000_000
"""How long the caches of brokers may take after the recovery: leaders of up to 2.6 announce ISRs after five seconds,
and within a minute (IsrChangePropagationInterval); the first comparison waits for most of them."""

DONE_US = 30_000_000
"""How long requests may take that wait when the brokers agree."""

EXAMINATION_US, EXAMINATION_STEP_US = 600_000_000, 250_000
"""Time limit of the examination by clients, and how often the play looks whether it is over."""

HEAD_START_US = 100_000
"""Head start of the broker that wins the first election."""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """Result of one expectation: its name, its line in the file, the time of the result, and the differences found."""

    name: str
    line: int
    at_us: int
    failures: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether the expectation held."""
        return not self.failures


class PlayWait(NamedTuple):
    """A virtual time that a play waits for; with `each_event`, it continues after every event before that time too."""

    until_us: int
    each_event: bool = False


class Crash(NamedTuple):
    """An error that ended a run early: an exception in the simulation, or in a batch an impossible step.

    Args:
        what: the exception.
        traceback: its traceback; the place and the reason of an impossible step.
    """

    what: str
    traceback: str


class Play:
    """One run of one scenario.

    Args:
        scenario: the checked scenario.
        seed: seed of everything random that the scenario does not fix.
        version: the Kafka version of all brokers for the whole run; empty for the versions of the scenario.
        start_ms: wall-clock time of the cluster at its start, in milliseconds since the epoch.
        logs_znodes: whether the changes of znodes are logged (`znodes`); they cost memory.
        plan: the faults after the steps; None to draw them from the seed, if the scenario has faults.
        plan_file: the file that the plan was read from, for the command that replays the run; empty for none.
        cluster_type: the class of the cluster.

    Raises:
        ConfigError: the version is unknown.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int,
        version: str = "",
        start_ms: int = START_MS,
        logs_znodes: bool = False,
        plan: FaultPlan | None = None,
        plan_file: str = "",
        cluster_type: type[KafkaCluster] = KafkaCluster,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.plan_file = plan_file
        self.verdicts: list[ExpectationResult] = []
        self._one_release = bool(version)
        self.version = version or _version_text(scenario.cluster.version)
        self._outcome = None if scenario.bug is None else scenario.bug.outcome(self.version)
        self.cluster = _make_cluster(scenario, seed, version, start_ms, cluster_type)
        self._scheduler = self.cluster.scheduler
        self.history = self.cluster.history
        self.znodes = ZnodeLog(self.cluster.server, lambda: self._scheduler.now_us) if logs_znodes else None
        self.plan: FaultPlan | None = plan
        if plan is None and scenario.faults is not None:
            self.plan = FaultPlan.draw(self._scheduler.stream, scenario.faults, setting_of(scenario, version))
        self._target = Target(self.cluster)
        self._has_clients = self.plan is not None and self.plan.has_clients
        promised = self._target.clients.ledger.invariants if self._has_clients else ()
        self._monitor = Monitor(self.history, (*self.cluster.invariants, *promised), seed=seed)
        if scenario.faults is not None and (traffic := scenario.faults.traffic) is not None and traffic.every_us:
            DenseProducers(self.cluster, scenario.topics, traffic.every_us)
        self.probes = None if self.plan is None else Probes(self.cluster)
        self.faults_from_us: int | None = None
        self.crash: Crash | None = None
        self.is_quiet = False
        self._on_progress: Callable[[int], None] = lambda _: None
        self._waits = self._play()
        self._wait: PlayWait | None = PlayWait(0)

    @property
    def violations(self) -> list[Violation]:
        """The violations of invariants, in order."""
        return self._monitor.violations

    @property
    def known(self) -> list[Violation]:
        """The violations by known bugs of the Kafka release, in order; they fail no run."""
        return self._monitor.known

    @property
    def invariants(self) -> list[str]:
        """The names of the invariants that are checked at every event."""
        return [invariant.name for invariant in self._monitor.invariants]

    @property
    def clients(self) -> ClientLedger | None:
        """Ledger of the clients that speak Kafka's requests; None without such clients."""
        return self._target.clients.ledger if self._has_clients else None

    @property
    def held(self) -> bool:
        """Whether every expectation held, no invariant was violated and the simulation did not crash."""
        return not (self.crash or self.violations) and all(verdict.held for verdict in self.verdicts)

    @property
    def is_over(self) -> bool:
        """Whether all steps and faults have been played."""
        return self._wait is None

    def run(self, on_progress: Callable[[int], None] = lambda _: None) -> None:
        """Start the brokers, play all steps, then the faults.

        An exception in the simulation itself ends the run and is stored in `crash`: this seed found a bug of simzk.

        Args:
            on_progress: called with the virtual time in microseconds after each step and each fault.

        Raises:
            ScenarioError: a step is impossible in the cluster's state, such as the restart of a running broker.
        """
        self._on_progress = on_progress
        try:
            with with_rare_cyclic_gc():
                while self._wait is not None:
                    self._pass_time(self._wait, self._wait.until_us)
        except SimzkError:
            raise
        except Exception as failure:
            self.crash = Crash(f"{type(failure).__name__}: {failure}".strip(": "), traceback.format_exc())

    def run_until(self, at_us: int) -> None:
        """Play up to a virtual time; after the last step only time passes.

        Raises:
            ScenarioError: as in `run`; the step is skipped, and the next call continues after it.
        """
        while self._wait is not None and self._pass_time(self._wait, at_us):
            pass
        if self._wait is None:
            self._scheduler.run_until(at_us)
            self._monitor.look(at_us)

    @property
    def next_at_us(self) -> int | None:
        """The virtual time of the next event; None if there will be none without input."""
        next_us = self._scheduler.next_at_us
        if self._wait is None:
            return next_us
        return self._wait.until_us if next_us is None else min(self._wait.until_us, next_us)

    def _pass_time(self, wait: PlayWait, at_us: int) -> bool:
        """Advance time for a wait, but not beyond `at_us`; return whether the wait is over."""
        next_us = self._scheduler.next_at_us
        if wait.each_event and next_us is not None and next_us <= min(wait.until_us, at_us):
            self._scheduler.run_next()
        elif wait.until_us <= at_us:
            self._scheduler.run_until(max(wait.until_us, self._scheduler.now_us))
            self._monitor.look(self._scheduler.now_us)
        else:
            self._scheduler.run_until(at_us)
            self._monitor.look(self._scheduler.now_us)
            return False
        self._wait = next(self._waits, None)
        return True

    def run_until_quiet(self) -> None:
        """Run on after the last step until the cluster is quiet; `is_quiet` says whether it became so in time."""
        if self.crash is None:
            self.history.record(OPERATOR, AFTERWARDS)
            self.is_quiet = self.cluster.run_until_quiet(QUIESCENCE_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close the cluster and its coroutines."""
        self.cluster.close()

    def _play(self) -> Iterator[PlayWait]:
        self._start_brokers()
        for planned in self.scenario.steps:
            yield from self._play_step(planned)
            self._on_progress(self._scheduler.now_us)
        if self.plan is not None:
            yield from self._play_faults(self.plan)

    def _start_brokers(self) -> None:
        """Start the brokers of a new cluster at once, as `KafkaCluster` does; a chosen controller has a head start."""
        first = self.scenario.cluster.controller
        for number, broker in self.cluster.brokers.items():
            if broker.alive:
                continue
            if first is None:
                broker.start()
            else:
                self._scheduler.call_later(0 if first == number else HEAD_START_US, "scenario", broker.start)

    def _play_step(self, planned: PlannedStep) -> Iterator[PlayWait]:
        yield PlayWait(planned.at_us if planned.at_us is not None else self._scheduler.now_us + planned.after_us)
        step = planned.step
        if isinstance(step, Expectation):
            if step.bug and step.bug != self._outcome:
                return
            yield from self._judge(step, planned.line, planned.within_us, planned.topics)
            return
        if isinstance(step, RestartStep) and self._one_release:
            kept = step.inter_broker_protocol if self.scenario.bug is not None else ""
            step = structs.replace(step, version="", inter_broker_protocol=kept)
        self.history.record(OPERATOR, step.describe())
        try:
            step.run(self.cluster)
        except SimzkError as error:
            where = f"{self.scenario.path}:{planned.line}: step at {format_time(self._scheduler.now_us).strip()}"
            raise ScenarioError(str(error), where=where) from None
        if isinstance(step, actions.WaitStep):
            yield PlayWait(self._scheduler.now_us + planned.lasts_us)

    def _judge(
        self, step: Expectation, line: int, within_us: int, topics: dict[str, int]
    ) -> Generator[PlayWait, None, None]:
        name = step.describe()
        assert within_us >= 0
        until_us = self._scheduler.now_us + within_us
        failures = yield from self._await(step, until_us, topics)
        assert self._scheduler.now_us <= until_us, "no verdict is later than the time limit"
        self.verdicts.append(ExpectationResult(name, line, self._scheduler.now_us, tuple(failures)))
        self.history.record(EXPECTATION, BROKEN if failures else HOLDS, name, after="; ".join(failures))

    def _await(self, step: Expectation, until_us: int, topics: dict[str, int]) -> Generator[PlayWait, None, list[str]]:
        """Wait until the expectation holds or its time limit is over; return its failures at that time."""
        observed = Observed(self.cluster, topics, self.scenario.recording)
        seen = None
        while True:
            present = (self.cluster.server.zxid, len(self.history))
            # Most expectations read the tree and the history only: without a change there they need no evaluation.
            if present != seen or step.reads_brokers:
                seen = present
                if next(iter(step.failures(observed)), None) is None:
                    return []
            next_us = self._scheduler.next_at_us
            if next_us is None or next_us > until_us:
                failures = list(step.failures(observed))
                yield PlayWait(until_us)
                return failures
            yield PlayWait(until_us, each_event=True)

    def _play_faults(self, plan: FaultPlan) -> Iterator[PlayWait]:
        assert self.faults_from_us is None, "faults are played once"
        start_us = self.faults_from_us = self._scheduler.now_us
        for fault in plan.faults:
            yield PlayWait(start_us + fault.at_us)
            assert self._scheduler.now_us == start_us + fault.at_us, "no fault is late"
            fault.play(self._target)
            self._on_progress(self._scheduler.now_us)
        yield PlayWait(start_us + plan.safety_us)
        self.history.record(OPERATOR, "heals everything; from now on the cluster must become whole")
        self._target.heal()
        whole = ExpectRecovered(
            expect="whole", name="after all faults, every partition has a leader and all replicas in sync"
        )
        deleted = {fault.topic for fault in plan.faults if isinstance(fault, DeleteTopic)}
        kept = {name: count for name, count in self.scenario.topics.items() if name not in deleted}
        yield from self._judge(whole, self.scenario.faults_line, plan.liveness_us, kept)
        if self.verdicts[-1].held:
            yield PlayWait(self._scheduler.now_us + SETTLING_US)
            agreed = ExpectAgreed(expect="agreed", name="after all faults, every broker believes what the znodes say")
            yield from self._judge(agreed, self.scenario.faults_line, AGREEMENT_US, kept)
        if self.verdicts[-1].held:
            done = ExpectDone(expect="done", name="after all faults, nothing is left to be done")
            yield from self._judge(done, self.scenario.faults_line, DONE_US, kept)
        if self._has_clients and self.verdicts[-1].held:
            yield from self._examine(kept)

    def _examine(self, topics: Mapping[str, int]) -> Iterator[PlayWait]:
        """Let a client examine what the clients were promised."""
        process = Process(self._scheduler, "examiner")
        unserved = unserved_by_known_bug(self.cluster)
        examiner = Examiner(process, self._target.clients, topics, self.scenario.compacted_topics, unserved)
        until_us = self._scheduler.now_us + EXAMINATION_US
        while not examiner.is_done and self._scheduler.now_us < until_us:
            yield PlayWait(self._scheduler.now_us + EXAMINATION_STEP_US)
        failures = examiner.failures if examiner.is_done else [*examiner.failures, "the examination does not end"]
        examiner.kill()
        self._target.clients.stop()
        name = "after all faults, clients find what they were promised"
        self.verdicts.append(
            ExpectationResult(name, self.scenario.faults_line, self._scheduler.now_us, tuple(failures))
        )
        self.history.record(EXPECTATION, BROKEN if failures else HOLDS, name, after="; ".join(failures))


def setting_of(scenario: Scenario, version: str) -> Setting:
    """Return the cluster that a fault plan of a scenario is for; an empty version is those of the scenario."""
    given = version or scenario.cluster.version
    oldest = given if isinstance(given, str) else min(given.values(), key=lambda line: kafka_version(line).number)
    table = scenario.cluster
    return Setting(
        scenario.brokers,
        oldest,
        scenario.topics,
        table.log_dirs,
        table.zookeeper_servers,
        scenario.compacted_topics,
    )


def _make_cluster(
    scenario: Scenario, seed: int, version: str, start_ms: int, cluster_type: type[KafkaCluster]
) -> KafkaCluster:
    """Return a cluster restored from a recording, or a new one with brokers that are not started."""
    table = scenario.cluster
    costs = MEASURED if table.costs == "measured" else None
    config = actions.config_text(table.config)
    has_protocols = not version or scenario.bug is not None  # a bug may need brokers of one release at two protocols
    if scenario.recording is not None:
        return cluster_type.from_tree(
            scenario.recording.tree(table.step),
            version=version or _version_text(table.version),
            seed=seed,
            config=config,
            start_ms=start_ms,
            log_dirs=table.log_dirs,
            cost_model=costs,
        )
    return cluster_type(
        version or by_broker(table.version),
        scenario.brokers,
        scenario.racks or None,
        seed,
        config=config,
        inter_broker_protocol=by_broker(table.inter_broker_protocol) or None if has_protocols else None,
        boot=False,
        start_ms=start_ms,
        log_dirs=table.log_dirs,
        zookeeper_set_acl=table.zookeeper_set_acl,
        zookeeper_chroot=table.zookeeper_chroot,
        zookeeper_servers=table.zookeeper_servers,
        cost_model=costs,
    )


def _version_text(version: str | Mapping[str, str]) -> str:
    """Return the releases of a cluster as text: `3.9`, or `1: 2.4, 2: 2.8`."""
    if isinstance(version, str):
        return version
    return ", ".join(f"{int(broker)}: {line}" for broker, line in version.items())


def is_scenario_event(event: Event) -> bool:
    """Return whether an event belongs to the scenario itself: an action of the operator, or a verdict."""
    return event.who in (OPERATOR, EXPECTATION)
