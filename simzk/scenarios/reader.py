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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Meta, field

from simzk.errors import ConfigError, ScenarioError
from simzk.kafka.releases.versions import kafka_version
from simzk.scenarios.actions import ACTIONS, Action, CreateTopicStep, WaitStep
from simzk.scenarios.cluster_model import ClusterModel, ClusterTable, initial_model
from simzk.scenarios.examples import find_scenario
from simzk.scenarios.expectations import EXPECTATIONS, Expectation
from simzk.scenarios.faults.clients import CLIENT_ROLES, ClientLimits
from simzk.scenarios.faults.plan import FAULT_KINDS, SwarmLimits
from simzk.scenarios.faults.traffic import ROLES, TrafficLimits
from simzk.scenarios.source import (
    FORM,
    Count,
    DependentError,
    Mistakes,
    Source,
    TomlTable,
    convert_good_keys,
    did_you_mean,
    format_duration,
    good_keys,
    parse_duration,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from simzk.kafka.observation.recording import Recording
    from simzk.scenarios.source import KeyPath

T = TypeVar("T", bound=TomlTable)

SHOWN, MENDED = "shown", "mended"

Weight = Annotated[int, Meta(ge=0, le=1000)]


class ClientsTable(TomlTable, kw_only=True):
    """`[faults.clients]`: what is drawn of the clients during the faults."""

    gap: str = ""
    longest: str = ""
    weights: dict[str, Weight] = field(default_factory=dict)


class TrafficTable(ClientsTable, kw_only=True):
    """`[faults.traffic]`: what is drawn of producers and consumers, and how often others send all the time."""

    every: str = ""


class FaultsTable(TomlTable, kw_only=True):
    """`[faults]`: how long random faults happen, how long the recovery after them may take, and what is drawn."""

    safety: str
    liveness: str
    gap: str = ""
    longest: str = ""
    broken_max: Count | None = None
    weights: dict[str, Weight] = field(default_factory=dict)
    traffic: TrafficTable | None = None
    clients: ClientsTable | None = None


class BugTable(TomlTable, kw_only=True):
    """`[bug]`: a known bug of Kafka, releases that have it, and releases that do not."""

    id: str
    shown_in: list[str]
    mended_in: list[str]


class ScenarioTable(TomlTable, kw_only=True):
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
    def compacted_topics(self) -> tuple[str, ...]:
        """Topics that steps create with `cleanup.policy=compact`."""
        created = [planned.step for planned in self.steps if isinstance(planned.step, CreateTopicStep)]
        return tuple(step.topic for step in created if step.config.get("cleanup.policy") == "compact")

    @property
    def longest_us(self) -> int:
        """Virtual time in microseconds at which the run ends at the latest."""
        latest_us = 0
        for planned in self.steps:
            begins_us = latest_us + planned.after_us if planned.at_us is None else planned.at_us
            waits_us = planned.lasts_us if isinstance(planned.step, WaitStep) else 0
            latest_us = begins_us + planned.within_us + waits_us
        return latest_us + (0 if self.faults is None else self.faults.safety_us + self.faults.liveness_us)


def read_scenario(path: str | Path) -> Scenario:
    """Read and check a scenario.

    Args:
        path: its file, or the name of one that ships with simzk; messages and commands show it as it is given here.

    Raises:
        ConfigError: no file and no shipped scenario has this name.
        ScenarioError: the file is invalid; the error names file, line, key and what is accepted.
        SeveralMistakesError: the file has several mistakes; all are in it, except those that may follow from another.
    """
    found = find_scenario(str(path))
    scenario = _Reader(Path(found)).scenario()
    return scenario if found == str(path) else replace(scenario, path=Path(path))


def read_scenarios(paths: Iterable[str | Path]) -> list[Scenario]:
    """Read and check several scenario files; raise the mistakes of all of them as `read_scenario` does."""
    mistakes = Mistakes()
    scenarios = []
    for path in paths:
        with mistakes:
            scenarios.append(read_scenario(path))
    mistakes.report()
    return scenarios


_KEYS_OF_BROKERS = ("brokers", "racks", "version", "inter_broker_protocol", "from", "step")
"""Keys of `[cluster]` that decide what steps are compared with."""


class _Reader:
    """A scenario file that is read; its mistakes are collected, and raised together.

    The model is the cluster before the step that is read. If it is unknown because of a mistake, it is None, and only
    the keys of the steps are checked.
    """

    def __init__(self, path: Path) -> None:
        self._source = Source(path)
        self._mistakes = Mistakes()
        steps = self._source.document.get("step")
        self._tables = [table for table in steps if isinstance(table, dict)] if isinstance(steps, list) else []

    def scenario(self) -> Scenario:
        """Return the scenario, or raise all mistakes."""
        source, mistakes = self._source, self._mistakes
        table = None
        with mistakes:
            table = source.convert(source.document, ScenarioTable, ())
        cluster = self._table("cluster", ClusterTable)
        model = self._initial_model(cluster)
        steps = self._read_steps(model)
        faults = self._read_faults()
        bug = self._read_bug(cluster)
        if "faults" not in source.document:
            if "step" not in source.document:
                self._note((), "the scenario has no steps and no faults", "a [[step]] or [faults]")
            elif all("action" in step for step in self._tables):
                self._note((), "the scenario has no expectation and cannot fail", 'a [[step]] with expect = "..."')
        mistakes.found.sort(key=lambda error: error.line)
        mistakes.report()
        assert table is not None
        assert model is not None
        assert len(steps) == len(self._tables), "without a mistake every step is planned"
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

    def _note(self, at: KeyPath, what: str, right: str) -> None:
        self._mistakes.note(self._source.mistake(at, what, right))

    def _table(self, name: str, to: type[T]) -> T | None:
        """Return a table; None if it has mistakes, which are among those of the whole file, or is missing."""
        with suppress(ScenarioError):
            return self._source.convert(self._source.document.get(name), to, (name,))
        return None

    def _initial_model(self, cluster: ClusterTable | None) -> ClusterModel | None:
        """Return the cluster before the first step; None if it is unknown.

        Mistakes in `[cluster]` of other keys than those of the brokers leave the steps comparable.
        """
        if cluster is not None:
            with self._mistakes:
                return initial_model(self._source, cluster)
            return None
        table = self._source.document.get("cluster")
        if not isinstance(table, dict):
            return None
        good, partly = good_keys(table, ClusterTable), convert_good_keys(table, ClusterTable)
        if partly is None or any(key in table and key not in good for key in _KEYS_OF_BROKERS):
            return None
        with suppress(ScenarioError):  # it may follow from a mistake that was collected
            return initial_model(self._source, partly)
        return None

    def _read_bug(self, cluster: ClusterTable | None) -> Bug | None:
        """Return the known bug; check the expectations that depend on it too."""
        outcomes: set[object] = set()
        for index, table in enumerate(self._tables):
            outcome = table.get("bug")
            if not outcome or not isinstance(outcome, str) or "expect" not in table:
                continue
            at = ("step", index, "bug")
            outcomes.add(outcome)
            if outcome not in (SHOWN, MENDED):
                self._note(at, f"unknown outcome {outcome!r}", f"{SHOWN} or {MENDED}")
            if "bug" not in self._source.document:
                self._note(at, "the bug is not described", "a table [bug]")
        bug = self._table("bug", BugTable)
        if bug is None:
            return None
        needed = {SHOWN, MENDED} if bug.mended_in else {SHOWN}
        if outcomes < needed:
            right = ", ".join(f'one with bug = "{outcome}"' for outcome in (SHOWN, MENDED) if outcome in needed)
            self._note(("bug",), "no expectations distinguish the outcomes", right)
        if cluster is not None and not isinstance(cluster.version, str):
            self._note(("cluster", "version"), "a scenario of a bug has brokers of one release", 'version = "3.9"')
        are_known = True
        for key, versions in (("shown_in", bug.shown_in), ("mended_in", bug.mended_in)):
            for version in versions:
                try:
                    kafka_version(version)
                except ConfigError as error:
                    are_known = False
                    self._note(("bug", key), error.what, error.right)
        if not are_known:
            return None
        if not bug.shown_in or any(version in bug.mended_in for version in bug.shown_in):
            right = "one release or more in shown_in, none in both"
            self._note(("bug",), "shown_in is empty, or overlaps with mended_in", right)
        return Bug(bug.id, tuple(bug.shown_in), tuple(bug.mended_in))

    def _read_faults(self) -> SwarmLimits | None:
        """Return the limits of the faults that are drawn; None without `[faults]`, or if the table has mistakes."""
        table, mistakes_before = self._source.document.get("faults"), len(self._mistakes.found)
        good = good_keys(table, FaultsTable) if isinstance(table, dict) else {}
        for key in ("safety", "liveness"):
            if key in good:
                with self._mistakes:
                    self._source.duration(str(good[key]), ("faults", key))
        self._check_drawn(good, ("faults",), "kind of fault", FAULT_KINDS)
        for key, roles in (("traffic", ROLES), ("clients", CLIENT_ROLES)):
            drawn = good.get(key)
            if isinstance(drawn, dict):
                self._check_drawn(drawn, ("faults", key), "role", roles)
        faults = self._table("faults", FaultsTable)
        if faults is None or len(self._mistakes.found) > mistakes_before:
            return None
        limits = None
        if faults.traffic is not None:
            gap_us, longest_us = parse_duration(faults.traffic.gap), parse_duration(faults.traffic.longest)
            limits = TrafficLimits(faults.traffic.weights, gap_us, longest_us, parse_duration(faults.traffic.every))
        clients = None
        if faults.clients is not None:
            gap_us, longest_us = parse_duration(faults.clients.gap), parse_duration(faults.clients.longest)
            clients = ClientLimits(faults.clients.weights, gap_us, longest_us)
        return SwarmLimits(
            safety_us=parse_duration(faults.safety) or 0,
            liveness_us=parse_duration(faults.liveness) or 0,
            weights=faults.weights,
            gap_us=parse_duration(faults.gap),
            longest_us=parse_duration(faults.longest),
            broken_max=faults.broken_max,
            traffic=limits,
            clients=clients,
        )

    def _check_drawn(self, table: dict[str, object], at: KeyPath, noun: str, known: Collection[str]) -> None:
        """Check the times and the weights in a table of what is drawn."""
        for key in ("gap", "longest", "every"):
            with self._mistakes:
                if key in table and not self._source.duration(str(table[key]), (*at, key)):
                    self._source.fail((*at, key), f"{table[key]!r} is not positive", FORM)
        weights = table.get("weights", {})
        for name in weights if isinstance(weights, dict) else ():
            if name not in known:
                self._note((*at, "weights", name), f"unknown {noun} {name!r}", did_you_mean(name, known))

    def _read_steps(self, model: ClusterModel | None) -> tuple[PlannedStep, ...]:
        """Return the steps.

        After a wrong action the state of the cluster is unknown, so that no step is compared with those above it any
        more.
        """
        source = self._source
        steps: list[PlannedStep] = []
        earliest_us = latest_us = 0
        is_known = True
        for index, table in enumerate(self._tables):
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
            found = [error for error in of_step.found if is_known or not isinstance(error, DependentError)]
            self._mistakes.found += found
            if of_step.found and "expect" not in table:
                is_known = False
            if planned is None:
                continue
            if planned.at_us is not None:
                with self._mistakes:
                    if model is not None and model.recording is not None:
                        source.fail((*at, "at"), "a recorded cluster has no start time", "after")
                    if planned.at_us < latest_us:
                        _fail_backwards(source, (*at, "at"), planned.at_us, earliest_us, latest_us)
                earliest_us = latest_us = planned.at_us
            else:
                earliest_us, latest_us = earliest_us + planned.after_us, latest_us + planned.after_us
            latest_us += planned.within_us
            if isinstance(step, WaitStep):
                earliest_us, latest_us = earliest_us + planned.lasts_us, latest_us + planned.lasts_us
            assert earliest_us <= latest_us
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

    Other keys of it have mistakes, which were collected.
    """
    for key in ("at", "after", "within", "for"):
        text = table.get(key)
        if isinstance(text, str) and text:
            with mistakes:
                source.duration(text, (*at, key))
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
                times_us[key] = source.duration(text, (*at, key))
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


def _fail_backwards(source: Source, at: KeyPath, at_us: int, earliest_us: int, latest_us: int) -> None:
    end = format_duration(latest_us)
    ends = f"which ends at {end}" + " at the latest" * (earliest_us != latest_us)
    what = f"time goes backwards: {format_duration(at_us)} is before the step above it, {ends}"
    source.fail(at, what, f"{end} or later")
