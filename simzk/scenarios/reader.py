"""Scenarios of known bugs: `[bug]`, and which expectations hold where the bug is shown and where it is mended.

Rules of the module:
  - releases that have the bug and releases that have it no more are named; it is played with these alone;
  - an expectation with `bug = "shown"` is looked at in the former only, with `bug = "mended"` in the latter only, and
    one without in both; there is one of each kind, so that the scenario tells them apart.

Scenario files read and checked: what comes out can be played.

Everything that can be known before the run is checked here, so that a bad file does nothing at all: keys and types,
times that go backwards, brokers, topics and partitions that are not there at that step, paths that ZooKeeper refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.releases.versions import kafka_version
from simzk.scenarios import schema
from simzk.scenarios.model import World, by_broker, start_world
from simzk.scenarios.schema import ACTIONS, EXPECTATIONS, Action, Expectation, ScenarioTable, Step
from simzk.scenarios.source import FORM, Source, did_you_mean, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.observation.recording import Recording
    from simzk.scenarios.source import KeyPath

SHOWN, MENDED = "shown", "mended"


@dataclass(frozen=True, slots=True)
class Bug:
    """A known bug of Kafka: its id in Kafka's tracker, release lines that have it, and lines that do not."""

    id: str
    shown_in: tuple[str, ...]
    mended_in: tuple[str, ...]

    def outcome(self, version: str) -> str:
        """Whether the bug is `shown` or `mended` in a release.

        Raises:
            ConfigError: it is not said of this release.

        >>> Bug("KAFKA-1", ("2.4",), ("3.9",)).outcome("3.9.1")
        'mended'
        """
        line = kafka_version(version).name
        if line in self.shown_in:
            return SHOWN
        if line in self.mended_in:
            return MENDED
        known = ", ".join((*self.shown_in, *self.mended_in))
        raise ConfigError(
            f"{self.id} is said neither to show in Kafka {version} nor to be mended",
            where="[bug]",
            right=f"one of {known}",
        )


def read_bug(source: Source, table: schema.ScenarioTable, steps: Sequence[schema.Step]) -> Bug | None:
    """Read and check `[bug]` and the expectations that depend on it.

    Raises:
        ScenarioError: a release that is not simulated or not told apart, an expectation of neither outcome.
    """
    outcomes = {}
    for index, step in enumerate(steps):
        if isinstance(step, schema.Expectation) and step.bug:
            at = ("step", index, "bug")
            if step.bug not in (SHOWN, MENDED):
                source.fail(at, f"a bug is not {step.bug!r}", f"{SHOWN} or {MENDED}")
            if table.bug is None:
                source.fail(at, "which bug?", "a table [bug]")
            outcomes[step.bug] = True
    if table.bug is None:
        return None
    lines = []
    for key in ("shown_in", "mended_in"):
        try:
            lines.append(tuple(kafka_version(version).name for version in getattr(table.bug, key)))
        except ConfigError as error:
            source.fail(("bug", key), error.what, error.right)
    shown, mended = lines
    if not shown or not mended or any(line in mended for line in shown):
        source.fail(("bug",), "the releases do not tell them apart", "one or more in each list, none in both")
    if len(outcomes) < 2:
        source.fail(("bug",), "no expectation depends on it", f'one with bug = "{SHOWN}", one with bug = "{MENDED}"')
    if not isinstance(table.cluster.version, str):
        source.fail(("cluster", "version"), "a bug is shown by brokers of one release", 'version = "3.9"')
    return Bug(table.bug.id, shown, mended)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step, and its times in microseconds.

    Args:
        step: what to do or to look at.
        line: where it stands in its file.
        at_us: the instant since the start, if it names one.
        after_us: the time since the step above, if it names none.
        within_us: how long an expectation may take to hold; 0 is now.
        topics: how many partitions each topic has by then, as far as a file can tell.
        lasts_us: how long an action holds the story up (`wait`), or a pause lasts.
    """

    step: Action | Expectation
    line: int
    at_us: int | None
    after_us: int
    within_us: int
    lasts_us: int
    topics: dict[str, int]


@dataclass(frozen=True, slots=True)
class FaultTimes:
    """How long anything may break, and within which time after that all must be whole."""

    safety_us: int
    liveness_us: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that can be played.

    Args:
        path: its file, as the user named it.
        version: the Kafka version it is played with unless another is asked for; or that of each broker.
        protocol: the inter-broker protocol of all brokers or of some; empty where that is the release's own.
        brokers: ids.
        controller: who wins the first election; None leaves it to the seed.
        racks: a rack a broker; empty for none.
        config: the configuration that all brokers share, by Kafka's own keys.
        log_dirs: how many log directories each broker has.
        secured: brokers and tools log in to ZooKeeper, and what they make there is theirs (`zookeeper.set.acl`).
        chroot: where the cluster's znodes begin; empty for the root.
        measured_costs: whether the work of ZooKeeper and the controller takes as long as was measured, not none.
        recording: of a real cluster, to start from and to compare with; None for a cluster made new.
        start_step: the step of the recording to start from.
        steps: in order.
        faults: when whatever the seed draws breaks, after the steps; None for nothing.
        faults_line: where that stands.
        bug: the known bug it shows; None for none.
    """

    path: Path
    title: str
    why: str
    seed: int
    version: str | dict[int, str]
    protocol: str | dict[int, str]
    brokers: tuple[int, ...]
    controller: int | None
    racks: dict[int, str]
    config: dict[str, str]
    log_dirs: int
    secured: bool
    chroot: str
    measured_costs: bool
    recording: Recording | None
    start_step: str
    steps: tuple[PlannedStep, ...]
    faults: FaultTimes | None
    faults_line: int
    bug: Bug | None


def read_scenario(path: str | Path) -> Scenario:
    """Read and check a scenario file.

    Raises:
        ScenarioError: whatever is wrong, with file, line, key and what would be right.
    """
    source = Source(Path(path))
    table = source.convert(source.document, ScenarioTable, ())
    world = start_world(source, table.cluster)
    steps = _read_steps(source, table.step, world)
    faults = None
    if table.faults is not None:
        faults = FaultTimes(
            _time(source, table.faults.safety, ("faults", "safety")),
            _time(source, table.faults.liveness, ("faults", "liveness")),
        )
    if not steps and faults is None:
        source.fail((), "nothing happens in it", "a [[step]] or [faults]")
    if faults is None and not any(isinstance(planned.step, Expectation) for planned in steps):
        source.fail((), "it expects nothing, so that it could not fail", 'a [[step]] with expect = "..."')
    return Scenario(
        path=source.path,
        title=table.title,
        why=table.why.strip(),
        seed=table.seed,
        version=by_broker(table.cluster.version),
        protocol=by_broker(table.cluster.inter_broker_protocol),
        brokers=world.brokers,
        controller=table.cluster.controller,
        racks=world.racks,
        config={key: _config_text(value) for key, value in table.cluster.config.items()},
        log_dirs=table.cluster.log_dirs,
        secured=table.cluster.zookeeper_set_acl,
        chroot=table.cluster.zookeeper_chroot,
        measured_costs=table.cluster.costs == "measured",
        recording=world.recording,
        start_step=table.cluster.step,
        steps=steps,
        faults=faults,
        faults_line=source.line(("faults",)),
        bug=read_bug(source, table, [planned.step for planned in steps]),
    )


def _read_steps(source: Source, tables: list[dict[str, object]], world: World) -> tuple[PlannedStep, ...]:
    steps: list[PlannedStep] = []
    earliest_us = latest_us = 0
    for index, table in enumerate(tables):
        at: KeyPath = ("step", index)
        step = _read_step(source, table, at)
        world.check_step(step, at)
        planned = _plan(source, step, at, world.topics)
        if planned.at_us is not None:
            if world.recording is not None:
                source.fail((*at, "at"), "the start of a recorded cluster is no instant to count from", "after")
            if planned.at_us < latest_us:
                _fail_backwards(source, (*at, "at"), planned.at_us, earliest_us, latest_us)
            earliest_us = latest_us = planned.at_us
        else:
            earliest_us, latest_us = earliest_us + planned.after_us, latest_us + planned.after_us
        latest_us += planned.within_us
        if step_waits(step):
            earliest_us, latest_us = earliest_us + planned.lasts_us, latest_us + planned.lasts_us
        steps.append(planned)
    return tuple(steps)


def step_waits(step: Step) -> bool:
    """Return whether the next step follows only when the time of this one is over."""
    return isinstance(step, Action) and step.action == "wait"


def _read_step(source: Source, table: dict[str, object], at: KeyPath) -> Action | Expectation:
    action, expect = table.get("action"), table.get("expect")
    if (action is None) == (expect is None):
        source.fail(at, "a step needs either an action or something to expect", 'action = "..." or expect = "..."')
    kinds: dict[str, type[Action]] | dict[str, type[Expectation]] = EXPECTATIONS if action is None else ACTIONS
    key, word = ("expect", expect) if action is None else ("action", action)
    if not isinstance(word, str) or word not in kinds:
        source.fail((*at, key), f"there is no {key} {word!r}", did_you_mean(str(word), kinds))
    return source.convert(table, kinds[word], at)


def _plan(source: Source, step: Action | Expectation, at: KeyPath, topics: dict[str, int]) -> PlannedStep:
    if step.at and step.after:
        source.fail((*at, "after"), "a step is either at a time or after one", "at or after")
    duration = getattr(step, "duration", "")
    within = step.within if isinstance(step, Expectation) else ""
    return PlannedStep(
        step=step,
        line=source.line(at),
        at_us=_time(source, step.at, (*at, "at")) if step.at else None,
        after_us=_time(source, step.after, (*at, "after")) if step.after else 0,
        within_us=_time(source, within, (*at, "within")) if within else 0,
        lasts_us=_time(source, duration, (*at, "for")) if duration else 0,
        topics=dict(topics),
    )


def _time(source: Source, text: str, at: KeyPath) -> int:
    duration_us = parse_duration(text)
    if duration_us is None:
        source.fail(at, f"{text!r} is no time", FORM)
    return duration_us


def _fail_backwards(source: Source, at: KeyPath, at_us: int, earliest_us: int, latest_us: int) -> None:
    ends = format_duration(latest_us)
    if earliest_us != latest_us:
        ends = f"{ends} at the latest"
    source.fail(
        at,
        f"time goes backwards: {format_duration(at_us)} is before the step above it, which ends at {ends}",
        f"{format_duration(latest_us)} or later",
    )


def _config_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
