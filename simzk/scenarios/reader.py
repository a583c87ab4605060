"""Scenario files, read and checked before a run.

Rules of this module:
  - everything that can be checked before the run is checked here, so that an invalid file changes nothing: keys, types,
    times that go backwards, brokers, topics and partitions that do not exist at a step, paths that ZooKeeper rejects;
  - `[bug]` names the releases that have a bug and those that do not, and the scenario is played with these alone;
  - an expectation with `bug = "shown"` is checked only in the former, one with `bug = "mended"` only in the latter, one
    without `bug` in both; a scenario with `[bug]` has at least one of each kind, so that it tells the releases apart.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import field

from simzk.errors import ConfigError, ScenarioError
from simzk.kafka.releases.versions import kafka_version
from simzk.scenarios.actions import ACTIONS, Action, Wait
from simzk.scenarios.cluster_model import ClusterModel, ClusterTable, initial_model
from simzk.scenarios.expectations import EXPECTATIONS, Expectation
from simzk.scenarios.source import (
    FORM,
    DependentError,
    Mistakes,
    Source,
    Table,
    did_you_mean,
    format_duration,
    parse_duration,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.kafka.observation.recording import Recording
    from simzk.scenarios.cluster_model import Step
    from simzk.scenarios.source import KeyPath

T = TypeVar("T", bound=Table)

SHOWN, MENDED = "shown", "mended"


class FaultsTable(Table, kw_only=True):
    """`[faults]`: how long random faults happen, and how long the recovery after them may take."""

    safety: str
    liveness: str


class BugTable(Table, kw_only=True):
    """`[bug]`: a known bug of Kafka, releases that have it, and releases that do not."""

    id: str
    shown_in: list[str]
    mended_in: list[str]


class ScenarioTable(Table, kw_only=True):
    """The whole file; its steps are converted one by one."""

    title: str
    why: str
    cluster: ClusterTable
    seed: int = 1
    faults: FaultsTable | None = None
    bug: BugTable | None = None
    step: list[dict[str, object]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bug:
    """A known bug of Kafka: its id in Kafka's tracker, release lines that have it, and lines that do not."""

    id: str
    shown_in: tuple[str, ...]
    mended_in: tuple[str, ...]

    def outcome(self, version: str) -> str:
        """Return `shown` or `mended` for a release.

        Raises:
            ConfigError: the scenario does not name this release.

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
            f"the scenario does not say whether Kafka {version} has {self.id}",
            where="[bug]",
            right=f"one of {known}",
        )


def read_bug(source: Source, table: ScenarioTable, steps: Sequence[Step]) -> Bug | None:
    """Return the bug of a scenario, after checking `[bug]` and the expectations that depend on it.

    Raises:
        ScenarioError: a release is not simulated or stands in both lists, or `bug` has another value.
    """
    outcomes = {}
    for index, step in enumerate(steps):
        if isinstance(step, Expectation) and step.bug:
            at = ("step", index, "bug")
            if step.bug not in (SHOWN, MENDED):
                source.fail(at, f"unknown outcome {step.bug!r}", f"{SHOWN} or {MENDED}")
            if table.bug is None:
                source.fail(at, "the bug is not described", "a table [bug]")
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
        source.fail(
            ("bug",), "shown_in and mended_in are empty or overlap", "one release or more in each list, none in both"
        )
    if len(outcomes) < 2:
        source.fail(
            ("bug",), "no expectations distinguish the outcomes", f'one with bug = "{SHOWN}", one with bug = "{MENDED}"'
        )
    if not isinstance(table.cluster.version, str):
        source.fail(("cluster", "version"), "a scenario of a bug has brokers of one release", 'version = "3.9"')
    return Bug(table.bug.id, shown, mended)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step and its times in microseconds.

    Args:
        step: the action or expectation.
        line: its line in the file.
        at_us: its time since the start, or None if the file gives none.
        after_us: its time since the step above, if `at_us` is None.
        within_us: how long an expectation may take to hold; 0 is now.
        lasts_us: duration of a `wait` or of a pause.
        topics: number of partitions of each topic at this step, as far as the file defines it.
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
    """Duration of random faults, and the time limit for the recovery after them."""

    safety_us: int
    liveness_us: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """A checked scenario, ready to be played.

    Args:
        path: its file, as the user named it.
        title: its title.
        why: its purpose, as paragraphs of text.
        seed: its own seed, used unless a run gives another.
        cluster: its table `[cluster]`; a run may give another Kafka version.
        brokers: broker ids.
        racks: the rack of each broker; empty for none.
        recording: a recording of a real cluster to start from and to compare with; None for a new cluster.
        steps: the steps in order.
        faults: the random faults after the steps; None for none.
        faults_line: the line of `[faults]`.
        bug: the known bug that the scenario shows; None for none.
    """

    path: Path
    title: str
    why: str
    seed: int
    cluster: ClusterTable
    brokers: tuple[int, ...]
    racks: dict[int, str]
    recording: Recording | None
    steps: tuple[PlannedStep, ...]
    faults: FaultTimes | None
    faults_line: int
    bug: Bug | None

    @property
    def longest_us(self) -> int:
        """Virtual time in microseconds at which the run ends at the latest."""
        latest_us = 0
        for planned in self.steps:
            begins_us = latest_us + planned.after_us if planned.at_us is None else planned.at_us
            waits_us = planned.lasts_us if isinstance(planned.step, Wait) else 0
            latest_us = begins_us + planned.within_us + waits_us
        return latest_us + (0 if self.faults is None else self.faults.safety_us + self.faults.liveness_us)


def read_scenario(path: str | Path) -> Scenario:
    """Read and check a scenario file.

    Raises:
        ScenarioError: the file is invalid; the error names file, line, key and what is accepted.
        SeveralMistakesError: the file has several mistakes; all are in it, except those that may follow from another.
    """
    source = Source(Path(path))
    mistakes = Mistakes()
    table = None
    with mistakes:
        table = source.convert(source.document, ScenarioTable, ())
    model = None
    cluster = _table(source, "cluster", ClusterTable)
    if cluster is not None:
        with mistakes:
            model = initial_model(source, cluster)
    steps = _read_steps(source, _step_tables(source), model, mistakes)
    faults = _read_faults(source, mistakes)
    mistakes.found.sort(key=lambda error: error.line)
    mistakes.report()
    assert table is not None
    assert model is not None
    if not steps and faults is None:
        source.fail((), "the scenario has no steps and no faults", "a [[step]] or [faults]")
    if faults is None and not any(isinstance(planned.step, Expectation) for planned in steps):
        source.fail((), "the scenario has no expectation and cannot fail", 'a [[step]] with expect = "..."')
    return Scenario(
        path=source.path,
        title=table.title,
        why=table.why.strip(),
        seed=table.seed,
        cluster=table.cluster,
        brokers=model.brokers,
        racks=model.racks,
        recording=model.recording,
        steps=steps,
        faults=faults,
        faults_line=source.line(("faults",)),
        bug=read_bug(source, table, [planned.step for planned in steps]),
    )


def read_scenarios(paths: Iterable[str | Path]) -> list[Scenario]:
    """Read and check several scenario files; raise the mistakes of all of them as `read_scenario` does."""
    mistakes = Mistakes()
    scenarios = []
    for path in paths:
        with mistakes:
            scenarios.append(read_scenario(path))
    mistakes.report()
    return scenarios


def _table(source: Source, name: str, to: type[T]) -> T | None:
    """Return a table of the file; None if it has mistakes, which are among those of the whole file, or is missing."""
    with suppress(ScenarioError):
        return source.convert(source.document.get(name), to, (name,))
    return None


def _read_faults(source: Source, mistakes: Mistakes) -> FaultTimes | None:
    table = _table(source, "faults", FaultsTable)
    if table is None:
        return None
    safety_us = liveness_us = 0
    with mistakes:
        safety_us = _time(source, table.safety, ("faults", "safety"))
    with mistakes:
        liveness_us = _time(source, table.liveness, ("faults", "liveness"))
    return FaultTimes(safety_us, liveness_us)


def _step_tables(source: Source) -> list[dict[str, object]]:
    steps = source.document.get("step")
    return [table for table in steps if isinstance(table, dict)] if isinstance(steps, list) else []


def _read_steps(
    source: Source, tables: list[dict[str, object]], model: ClusterModel | None, mistakes: Mistakes
) -> tuple[PlannedStep, ...]:
    """Return the steps; collect their mistakes.

    Args:
        source: the file.
        tables: its steps.
        model: the cluster before the first step; None if it is unknown, then only the keys of the steps are checked.
        mistakes: collects the mistakes. After a wrong action the state of the cluster is unknown, so that no step is
            compared with those above it any more.
    """
    steps: list[PlannedStep] = []
    earliest_us = latest_us = 0
    is_known = True
    for index, table in enumerate(tables):
        at: KeyPath = ("step", index)
        of_step = Mistakes()
        planned = None
        with of_step:
            step = _read_step(source, table, at)
            with of_step:
                if model is not None:
                    step.check(model, at)
            planned = _plan(source, step, at, {} if model is None else model.topics)
        mistakes.found += [error for error in of_step.found if is_known or not isinstance(error, DependentError)]
        if of_step.found and "expect" not in table:
            is_known = False
        if planned is None:
            continue
        if planned.at_us is not None:
            with mistakes:
                if model is not None and model.recording is not None:
                    source.fail((*at, "at"), "a recorded cluster has no start time", "after")
                if planned.at_us < latest_us:
                    _fail_backwards(source, (*at, "at"), planned.at_us, earliest_us, latest_us)
            earliest_us = latest_us = planned.at_us
        else:
            earliest_us, latest_us = earliest_us + planned.after_us, latest_us + planned.after_us
        latest_us += planned.within_us
        if isinstance(step, Wait):
            earliest_us, latest_us = earliest_us + planned.lasts_us, latest_us + planned.lasts_us
        steps.append(planned)
    return tuple(steps)


def _read_step(source: Source, table: dict[str, object], at: KeyPath) -> Action | Expectation:
    action, expect = table.get("action"), table.get("expect")
    if (action is None) == (expect is None):
        source.fail(at, "a step has either an action or an expectation", 'action = "..." or expect = "..."')
    kinds: dict[str, type[Action]] | dict[str, type[Expectation]] = EXPECTATIONS if action is None else ACTIONS
    key, word = ("expect", expect) if action is None else ("action", action)
    if not isinstance(word, str) or word not in kinds:
        source.fail((*at, key), f"unknown {key} {word!r}", did_you_mean(str(word), kinds))
    return source.convert(table, kinds[word], at)


def _plan(source: Source, step: Action | Expectation, at: KeyPath, topics: dict[str, int]) -> PlannedStep:
    if step.at and step.after:
        source.fail((*at, "after"), "a step has either at or after", "one of them")
    duration = getattr(step, "duration", "")
    within = step.within if isinstance(step, Expectation) else ""
    times_us: dict[str, int] = {}
    mistakes = Mistakes()
    for key, text in (("at", step.at), ("after", step.after), ("within", within), ("for", duration)):
        if text:
            with mistakes:
                times_us[key] = _time(source, text, (*at, key))
    mistakes.report()
    return PlannedStep(
        step=step,
        line=source.line(at),
        at_us=times_us.get("at"),
        after_us=times_us.get("after", 0),
        within_us=times_us.get("within", 0),
        lasts_us=times_us.get("for", 0),
        topics=dict(topics),
    )


def _time(source: Source, text: str, at: KeyPath) -> int:
    duration_us = parse_duration(text)
    if duration_us is None:
        source.fail(at, f"{text!r} is not a duration", FORM)
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
