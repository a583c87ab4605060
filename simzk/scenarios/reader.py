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
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Meta, field

from simzk.errors import ConfigError, ScenarioError
from simzk.kafka.releases.versions import kafka_version
from simzk.scenarios.actions import ACTIONS, Action, Wait
from simzk.scenarios.cluster_model import ClusterModel, ClusterTable, initial_model
from simzk.scenarios.expectations import EXPECTATIONS, Expectation
from simzk.scenarios.faults.plan import FAULT_KINDS, SwarmLimits
from simzk.scenarios.faults.traffic import ROLES, TrafficLimits
from simzk.scenarios.source import (
    FORM,
    Count,
    DependentError,
    Mistakes,
    Source,
    Table,
    convert_good_keys,
    did_you_mean,
    format_duration,
    good_keys,
    parse_duration,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.kafka.observation.recording import Recording
    from simzk.scenarios.source import KeyPath

T = TypeVar("T", bound=Table)

SHOWN, MENDED = "shown", "mended"

Weight = Annotated[int, Meta(ge=0, le=1000)]


class TrafficTable(Table, kw_only=True):
    """`[faults.traffic]`: what is drawn of the clients during the faults."""

    gap: str = ""
    longest: str = ""
    weights: dict[str, Weight] = field(default_factory=dict)


class FaultsTable(Table, kw_only=True):
    """`[faults]`: how long random faults happen, how long the recovery after them may take, and what is drawn."""

    safety: str
    liveness: str
    gap: str = ""
    longest: str = ""
    broken_max: Count | None = None
    weights: dict[str, Weight] = field(default_factory=dict)
    traffic: TrafficTable | None = None


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
    """A known bug of Kafka: its id in Kafka's tracker, releases that have it, and releases that do not.

    A release is a line such as `2.8`, or one of its releases such as `2.8.0`. No release with ZooKeeper is without the
    bug if `mended_in` is empty.
    """

    id: str
    shown_in: tuple[str, ...]
    mended_in: tuple[str, ...]

    def outcome(self, version: str) -> str:
        """Return `shown` or `mended` for a release; its line counts if the release itself is not named.

        Raises:
            ConfigError: the scenario names neither this release nor its line.

        >>> bug = Bug("KAFKA-1", ("2.4", "2.8.0"), ("2.8", "3.9"))
        >>> bug.outcome("3.9.1"), bug.outcome("2.8.0"), bug.outcome("2.8.2")
        ('mended', 'shown', 'mended')
        """
        for name in (version, kafka_version(version).name):
            if name in self.shown_in:
                return SHOWN
            if name in self.mended_in:
                return MENDED
        known = ", ".join((*self.shown_in, *self.mended_in))
        raise ConfigError(
            f"the scenario does not say whether Kafka {version} has {self.id}",
            where="[bug]",
            right=f"one of {known}",
        )


def _read_bug(
    source: Source, cluster: ClusterTable | None, tables: Sequence[dict[str, object]], mistakes: Mistakes
) -> Bug | None:
    """Return the bug of a scenario; collect the mistakes of `[bug]` and of the expectations that depend on it."""
    is_described = "bug" in source.document
    outcomes: set[object] = set()
    for index, table in enumerate(tables):
        outcome = table.get("bug")
        if not outcome or not isinstance(outcome, str) or "expect" not in table:
            continue
        at = ("step", index, "bug")
        outcomes.add(outcome)
        if outcome not in (SHOWN, MENDED):
            mistakes.note(source.mistake(at, f"unknown outcome {outcome!r}", f"{SHOWN} or {MENDED}"))
        if not is_described:
            mistakes.note(source.mistake(at, "the bug is not described", "a table [bug]"))
    bug = _table(source, "bug", BugTable)
    if bug is None:
        return None
    needed = {SHOWN, MENDED} if bug.mended_in else {SHOWN}
    if outcomes < needed:
        right = ", ".join(f'one with bug = "{outcome}"' for outcome in (SHOWN, MENDED) if outcome in needed)
        mistakes.note(source.mistake(("bug",), "no expectations distinguish the outcomes", right))
    if cluster is not None and not isinstance(cluster.version, str):
        what = "a scenario of a bug has brokers of one release"
        mistakes.note(source.mistake(("cluster", "version"), what, 'version = "3.9"'))
    if not (
        _are_known(source, bug.shown_in, "shown_in", mistakes)
        & _are_known(source, bug.mended_in, "mended_in", mistakes)
    ):
        return None
    if not bug.shown_in or any(version in bug.mended_in for version in bug.shown_in):
        right = "one release or more in shown_in, none in both"
        mistakes.note(source.mistake(("bug",), "shown_in is empty, or overlaps with mended_in", right))
    return Bug(bug.id, tuple(bug.shown_in), tuple(bug.mended_in))


def _are_known(source: Source, versions: Sequence[str], key: str, mistakes: Mistakes) -> bool:
    """Return whether the releases that a key of `[bug]` lists are simulated; collect those that are not."""
    unknown = 0
    for version in versions:
        try:
            kafka_version(version)
        except ConfigError as error:
            unknown += 1
            mistakes.note(source.mistake(("bug", key), error.what, error.right))
    return not unknown


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
        faults: what is drawn of the random faults after the steps; None for no faults.
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
    faults: SwarmLimits | None
    faults_line: int
    bug: Bug | None

    @property
    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic after the last step, as far as the file defines it."""
        return self.steps[-1].topics if self.steps else {}

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
    cluster = _table(source, "cluster", ClusterTable)
    model = _initial_model(source, cluster, mistakes)
    tables = _step_tables(source)
    steps = _read_steps(source, tables, model, mistakes)
    faults = _read_faults(source, mistakes)
    bug = _read_bug(source, cluster, tables, mistakes)
    if "faults" not in source.document:
        if "step" not in source.document:
            mistakes.note(source.mistake((), "the scenario has no steps and no faults", "a [[step]] or [faults]"))
        elif all("action" in table for table in tables):
            right = 'a [[step]] with expect = "..."'
            mistakes.note(source.mistake((), "the scenario has no expectation and cannot fail", right))
    mistakes.found.sort(key=lambda error: error.line)
    mistakes.report()
    assert table is not None
    assert model is not None
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
        bug=bug,
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


_KEYS_OF_BROKERS = ("brokers", "racks", "version", "inter_broker_protocol", "from", "step")
"""Keys of `[cluster]` that decide what steps are compared with."""


def _initial_model(source: Source, cluster: ClusterTable | None, mistakes: Mistakes) -> ClusterModel | None:
    """Return the cluster before the first step; None if it is unknown because of a mistake, which is collected.

    Args:
        source: the file.
        cluster: its table `[cluster]`; None if the table has mistakes, which were collected.
        mistakes: collects the others. Mistakes of other keys than those of the brokers leave the steps comparable.
    """
    if cluster is not None:
        with mistakes:
            return initial_model(source, cluster)
        return None
    table = source.document.get("cluster")
    if not isinstance(table, dict):
        return None
    good, partly = good_keys(table, ClusterTable), convert_good_keys(table, ClusterTable)
    if partly is None or any(key in table and key not in good for key in _KEYS_OF_BROKERS):
        return None
    with suppress(ScenarioError):  # it may follow from a mistake that was collected
        return initial_model(source, partly)
    return None


def _read_faults(source: Source, mistakes: Mistakes) -> SwarmLimits | None:
    """Return the limits of the faults that are drawn; None without `[faults]`, or if the table has mistakes."""
    table = source.document.get("faults")
    good = good_keys(table, FaultsTable) if isinstance(table, dict) else {}
    in_table = Mistakes()
    for key in ("safety", "liveness", "gap", "longest"):
        with in_table:
            if key in good and not _time(source, str(good[key]), ("faults", key)) and key in ("gap", "longest"):
                source.fail(("faults", key), f"{good[key]!r} is not positive", FORM)
    _check_weights(source, good, ("faults",), "kind of fault", FAULT_KINDS, in_table)
    traffic = good.get("traffic")
    if isinstance(traffic, dict):
        for key in ("gap", "longest"):
            with in_table:
                if key in traffic and not _time(source, str(traffic[key]), ("faults", "traffic", key)):
                    source.fail(("faults", "traffic", key), f"{traffic[key]!r} is not positive", FORM)
        _check_weights(source, traffic, ("faults", "traffic"), "role", ROLES, in_table)
    mistakes.found += in_table.found
    converted = _table(source, "faults", FaultsTable)
    if converted is None or in_table.found:
        return None
    return SwarmLimits(
        safety_us=parse_duration(converted.safety) or 0,
        liveness_us=parse_duration(converted.liveness) or 0,
        weights=converted.weights,
        gap_us=parse_duration(converted.gap),
        longest_us=parse_duration(converted.longest),
        broken_max=converted.broken_max,
        traffic=None if converted.traffic is None else _traffic_limits(converted.traffic),
    )


def _check_weights(
    source: Source, table: dict[str, object], at: KeyPath, noun: str, known: Iterable[str], mistakes: Mistakes
) -> None:
    """Collect the names in a table of weights that do not exist."""
    weights = table.get("weights", {})
    for name in weights if isinstance(weights, dict) else ():
        with mistakes:
            if name not in known:
                source.fail((*at, "weights", name), f"unknown {noun} {name!r}", did_you_mean(name, known))


def _traffic_limits(table: TrafficTable) -> TrafficLimits:
    return TrafficLimits(table.weights, parse_duration(table.gap), parse_duration(table.longest))


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
        step = planned = None
        with of_step:
            step = _read_step(source, table, at)
        if step is None:
            _check_good_keys(source, table, at, model, of_step)
        else:
            with of_step:
                if model is not None:
                    step.check(model, at)
            with of_step:
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


def _check_good_keys(
    source: Source, table: dict[str, object], at: KeyPath, model: ClusterModel | None, mistakes: Mistakes
) -> None:
    """Collect the mistakes of a step with regard to the cluster and to time that are in keys of the right type.

    Args:
        source: the file.
        table: the step; other keys of it have mistakes, which were collected.
        at: its place.
        model: the cluster before the step; None if it is unknown.
        mistakes: collects the mistakes.
    """
    for key in ("at", "after", "within", "for"):
        text = table.get(key)
        if isinstance(text, str) and text:
            with mistakes:
                _time(source, text, (*at, key))
    word = table.get("action", table.get("expect"))
    kind = {**ACTIONS, **EXPECTATIONS}.get(word) if isinstance(word, str) else None
    step = None if kind is None else convert_good_keys(table, kind)
    if step is None or model is None:
        return
    of_keys = Mistakes()
    with of_keys:
        step.check(model, at)
    # A mistake of the step as a whole may follow from the keys that are missing now.
    mistakes.found += [error for error in of_keys.found if len(error.at) > len(at)]


def _plan(source: Source, step: Action | Expectation, at: KeyPath, topics: dict[str, int]) -> PlannedStep:
    mistakes = Mistakes()
    with mistakes:
        if step.at and step.after:
            source.fail((*at, "after"), "a step has either at or after", "one of them")
    duration = getattr(step, "duration", "")
    within = step.within if isinstance(step, Expectation) else ""
    times_us: dict[str, int] = {}
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
