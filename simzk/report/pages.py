"""Pages of layouts, of runs, and of saved results: timelines, sweeps, risks and swarms.

The classes below list the tables of each page; docs/pipeline.md, docs/layout.md and docs/risk.md explain the columns of
saved results. A section without rows has a sentence instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from simzk.report import page
from simzk.report.charts import MOST_UPRIGHT, Areas, Bars
from simzk.report.page import Section, Table, Text, Timeline
from simzk.report.table import length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.report.page import Part
    from simzk.report.table import Columns

SHOWN_MAX = 12
"""Maximum number of runs that are shown in full; failed runs come first."""
ROWS_MAX = 200
"""Maximum number of rows of a heat map; those with the most changes are kept."""

BROKER_COLOURS = {"controller": "#f58518", "registered": "#54a24b", "away": "#e4e7eb"}
LEADER_COLOURS = {"no leader": "#cf222e"}
IN_SYNC_COLOURS = {
    "all": "#54a24b",
    "1 missing": "#eeca3b",
    "2 missing": "#f58518",
    "no leader": "#cf222e",
}


@dataclass(frozen=True)
class RunTables:
    """A run as tables, all times in seconds of virtual time.

    Args:
        title: the title of the scenario.
        heading: file, seed and version.
        held: whether all expectations and invariants held.
        outcome: the outcome, in a sentence.
        replay: the command that replays the run.
        expectations: `held`, `at_s`, `line`, `name`, `failures`.
        violations: `at_s`, `invariant`, `event`, `detail`.
        brokers, leaders, in_sync: spans (`charts`).
        events: `at_s`, `who`, `what`, `subject`, `before`, `after`.
    """

    title: str
    heading: str
    held: bool
    outcome: str
    replay: str
    expectations: Columns
    violations: Columns
    brokers: Columns
    leaders: Columns
    in_sync: Columns
    events: Columns


@dataclass(frozen=True)
class Comparison:
    """One scenario under several versions: events side by side, and the znodes that differ at the end.

    Args:
        title: the title of the comparison.
        events: one row per event or step, one column per version; `mark` marks differences.
        znodes: one row per znode that differs, one column per version.
    """

    title: str
    events: Columns
    znodes: Columns


def runs_page(runs: Sequence[RunTables], comparisons: Sequence[Comparison] = ()) -> str:
    """Return the page of one run, or of several runs with an overview.

    Args:
        runs: the runs as tables.
        comparisons: comparisons between runs of one scenario.
    """
    assert runs, "a page has one run or more"
    if len(runs) == 1:
        (run,) = runs
        introduction = [Text(run.heading), Text(run.outcome), Text(run.replay, code=True)]
        return page.to_html(run.title, introduction, _run_sections(run, "run", level=2))
    failed = [run for run in runs if not run.held]
    shown = [*failed, *(run for run in runs if run.held)][:SHOWN_MAX]
    overview: dict[str, Sequence[object]] = {
        "held": [run.held for run in runs],
        "scenario": [run.title for run in runs],
        "run": [run.heading for run in runs],
        "outcome": [run.outcome for run in runs],
        "replay command": [run.replay for run in runs],
    }
    sections = [Section("All runs", [Table(overview, marked_by="held")])]
    for compared in comparisons:
        sections.append(Section(compared.title, [Table(compared.events)]))
        differing = Table(compared.znodes) if length(compared.znodes) else Text("The znodes are equal.")
        sections.append(Section("Znodes that differ at the end", [differing], 3))
    for number, run in enumerate(shown):
        introduction = [Text(run.heading), Text(run.outcome), Text(run.replay, code=True)]
        sections += [Section(run.title, introduction), *_run_sections(run, f"run-{number}", level=3)]
    title = f"{len(runs)} runs, {len(failed)} failed"
    left = len(runs) - len(shown)
    return page.to_html(title, [Text(f"{left} are in the overview only.")] if left else [], sections)


def _run_sections(run: RunTables, name: str, *, level: int) -> list[Section]:
    found = [Section("Expectations", [Table(run.expectations, marked_by="held")], level)]
    if length(run.violations):
        found.append(Section("Violated invariants", [Table(run.violations)], level))
    for title, spans, kind, colours in (
        ("Brokers", run.brokers, "brokers", BROKER_COLOURS),
        ("Leaders", run.leaders, "leaders", LEADER_COLOURS),
        ("Replicas in sync", run.in_sync, "in-sync", IN_SYNC_COLOURS),
    ):
        kept, left = _most_changed(spans)
        if length(kept):
            notes = [Text(f"{left} more with fewer changes are not shown.")] if left else []
            found.append(Section(title, [*notes, Timeline(kept, f"{name}-{kind}", colours)], level))
    return [*found, Section("Events", [Table(run.events)], level)]


def _most_changed(spans: Columns) -> tuple[Columns, int]:
    """Return the spans of the rows with the most spans, in the order of the table, and the number of other rows."""
    counts: dict[object, int] = {}
    for row in spans["row"]:
        counts[row] = counts.get(row, 0) + 1
    if len(counts) <= ROWS_MAX:
        return spans, 0
    kept = set(sorted(counts, key=lambda row: -counts[row])[:ROWS_MAX])
    chosen = [at for at, row in enumerate(spans["row"]) if row in kept]
    return {name: [column[at] for at in chosen] for name, column in spans.items()}, len(counts) - ROWS_MAX


LOAD_COLOURS = {"leads": "#4c78a8", "follows": "#9ecae9", "out of sync": "#cf222e"}
HELD = {"leads": LOAD_COLOURS["leads"], "holds": "#9ecae9", "out of sync": LOAD_COLOURS["out of sync"]}
SPREAD_COLOUR = {"brokers": "#4c78a8"}


@dataclass(frozen=True)
class LayoutTables:
    """A layout as tables; loads in partitions.

    Args:
        title: the title.
        facts: `fact`, `value`, and `good`, None for a neutral fact.
        racks, brokers: `rack` or `broker`, and the partitions that it `leads`, `follows`, has `out of sync`, and
            `holds`.
        spread: by load (`lead`, `replicate`) the number of live `brokers` per number of `partitions`; empty for few
            brokers.
    """

    title: str
    facts: Columns
    racks: Columns
    brokers: Columns
    spread: Mapping[str, Columns]


def layout_page(tables: LayoutTables) -> str:
    """Return the page of a layout."""
    sections = [Section("Summary", [Table(tables.facts, marked_by="good")])]
    for what, columns in (("rack", tables.racks), ("broker", tables.brokers)):
        sections.append(Section(f"Loads of {what}s", _loads(columns, what)))
    for what, columns in tables.spread.items():
        title = f"Live brokers by number of partitions that they {what}"
        bars = Bars(columns, f"spread-{what}", "partitions", SPREAD_COLOUR, "brokers", upright=True)
        sections.append(Section(title, [bars] if length(columns) else [Text("No broker is live.")]))
    return page.to_html(tables.title, [], sections)


def _loads(columns: Columns, what: str) -> list[Part]:
    if not length(columns):
        return [Text(f"No {what}s.")]
    if length(columns) > MOST_UPRIGHT:  # lines instead of stacked bars
        return [Bars(columns, f"{what}s", what, HELD, "partitions", upright=True), Table(columns)]
    return [Bars(columns, f"{what}s", what, LOAD_COLOURS, "partitions", upright=True, stacked=True), Table(columns)]


OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, OK = "offline", "under min ISR", "under-replicated", "all in sync"
STATE_COLOURS = {OFFLINE: "#cf222e", UNDER_MIN_ISR: "#f58518", UNDER_REPLICATED: "#eeca3b", OK: "#54a24b"}
REGISTERED_COLOURS = {"registered": "#54a24b"}
BEFORE, AFTER = "#4c78a8", "#f58518"
MOVED_COLOURS = {"gained": "#54a24b", "lost": "#cf222e"}
RISK_COLOURS = {"an outage": "#f58518", "data lost": "#cf222e"}


@dataclass(frozen=True)
class TimelinesTables:
    """Timelines of a cluster; times in seconds since 1970.

    Args:
        title: the title.
        summary: sentences on the data read and lost.
        states: spans (`charts`) of partitions or topics, the worst first.
        left_out: a sentence on rows that are not shown, or empty.
        counts: `at_s`, and the mean number of partitions `offline`, `under min ISR`, `under-replicated` until the next
            row.
        controllers: spans of one row: the controller.
        brokers: spans of brokers: their registrations.
        moves: `broker`, leaderships `gained` and `lost`.
        worst: the partitions longest in a bad state.
        expired: expired sessions.
        writers: write counts by session, operation and kind of path.
    """

    title: str
    summary: Sequence[str]
    states: Columns
    left_out: str
    counts: Columns
    controllers: Columns
    brokers: Columns
    moves: Columns
    worst: Columns
    expired: Columns
    writers: Columns


@dataclass(frozen=True)
class SweepTables:
    """Results of a failure sweep.

    Args:
        title: the title.
        summary: sentences on the sets swept and on the state without a failure.
        worst: the worst failure sets: `fails`, and counts of partitions.
        estimates: estimates for all sets from samples.
        topics: the most affected topics.
        loads: by kind of failure, the partitions led by brokers and racks before, and the maximum after any set.
    """

    title: str
    summary: Sequence[str]
    worst: Columns
    estimates: Columns
    topics: Columns
    loads: Mapping[str, tuple[Columns, Columns]]


@dataclass(frozen=True)
class RiskTables:
    """Risks of replica assignments.

    Args:
        title: the title.
        summary: sentences on the rates and on skipped assignments.
        assignments: one row per assignment: `assignment`, probabilities per year with their intervals, and more.
        probabilities: `assignment`, `an outage` and `data lost`, each with `_low` and `_high`.
        topics: one row per topic, one column per assignment: probabilities as text, the highest first.
    """

    title: str
    summary: Sequence[str]
    assignments: Columns
    probabilities: Columns
    topics: Columns


@dataclass(frozen=True)
class SwarmTables:
    """Results of many runs.

    Args:
        title: the title.
        summary: sentences on the number of runs.
        outcomes: `scenario`, and the number of runs that `held` and `failed`.
        failed: failed runs, with the commands that replay them.
        numbers: distribution of the numbers counted in runs: least, median, most and others.
    """

    title: str
    summary: Sequence[str]
    outcomes: Columns
    failed: Columns
    numbers: Columns


SavedTables: TypeAlias = TimelinesTables | SweepTables | RiskTables | SwarmTables


def results_page(saved: Sequence[SavedTables]) -> str:
    """Return one page of all results, in their order."""
    assert saved, "a page has one result or more"
    sections: list[Section] = []
    for number, tables in enumerate(saved):
        alone = len(saved) == 1
        if not alone:
            sections.append(Section(tables.title, [Text(text) for text in tables.summary]))
        sections += _result_sections(tables, f"p{number}", 2 if alone else 3)
    if len(saved) == 1:
        return page.to_html(saved[0].title, [Text(text) for text in saved[0].summary], sections)
    return page.to_html("simzk report", [], sections)


def _result_sections(tables: SavedTables, name: str, level: int) -> list[Section]:
    if isinstance(tables, TimelinesTables):
        found = _timelines(tables, name)
    elif isinstance(tables, SweepTables):
        found = _sweep(tables, name)
    elif isinstance(tables, RiskTables):
        found = _risk(tables, name)
    else:
        found = _swarm(tables, name)
    return [Section(title, parts, level) for title, parts in found.items()]


def _timelines(tables: TimelinesTables, name: str) -> dict[str, list[Part]]:
    left_out = [Text(tables.left_out)] if tables.left_out else []
    # Two charts: the few offline partitions would not be visible beside the many under-replicated ones.
    counted = [
        Areas(tables.counts, f"{name}-counts-{number}", {state: STATE_COLOURS[state] for state in states}, "partitions")
        for number, states in enumerate(((OFFLINE, UNDER_MIN_ISR), (UNDER_REPLICATED,)))
    ]
    return {
        "Partition states": _or_none(
            tables.states,
            [*left_out, Timeline(tables.states, f"{name}-states", STATE_COLOURS, dated=True)],
            "No partition was seen.",
        ),
        "Partitions in a bad state over time": _or_none(
            tables.counts,
            [*counted],
            "All partitions were in sync all the time.",
        ),
        "Partitions longest in a bad state": _table(tables.worst, "No partition was in a bad state."),
        "Leader changes by broker": _or_none(
            tables.moves,
            [Bars(tables.moves, f"{name}-moves", "broker", MOVED_COLOURS, "leaderships", upright=True)],
            "No leader changed.",
        ),
        "Controllers": _or_none(
            tables.controllers,
            [Timeline(tables.controllers, f"{name}-controllers", {}, dated=True)],
            "No controller was seen.",
        ),
        "Brokers": _or_none(
            tables.brokers,
            [Timeline(tables.brokers, f"{name}-brokers", REGISTERED_COLOURS, dated=True)],
            "No broker registered or left.",
        ),
        "Expired sessions": _table(tables.expired, "No session expired."),
        "Sessions with the most writes": _table(tables.writers, "No session wrote."),
    }


def _sweep(tables: SweepTables, name: str) -> dict[str, list[Part]]:
    hit = {OFFLINE: STATE_COLOURS[OFFLINE], UNDER_MIN_ISR: STATE_COLOURS[UNDER_MIN_ISR]}
    moved = {"leaders moved": BEFORE}
    found: dict[str, list[Part]] = {
        "Worst failure sets": [
            Bars(tables.worst, f"{name}-worst", "fails", hit | moved, "partitions"),
            Table(tables.worst),
        ]
    }
    if length(tables.estimates):
        found["Estimates for all sets from samples"] = [Table(tables.estimates)]
    found["Most affected topics"] = _table(tables.topics, "No set takes a partition offline or under min ISR.")
    series = {"before": BEFORE, "after, at most": AFTER}
    for number, (fail, (brokers, racks)) in enumerate(tables.loads.items()):
        found[f"Load before and after: {fail}"] = [
            Text("Partitions led before, and the maximum led after any of the sets."),
            Bars(brokers, f"{name}-brokers-{number}", "broker", series, "partitions led", upright=True),
            Bars(racks, f"{name}-racks-{number}", "rack", series, "partitions led", upright=True),
        ]
    return found


def _risk(tables: RiskTables, name: str) -> dict[str, list[Part]]:
    return {
        "Assignments": [
            Bars(
                tables.probabilities,
                f"{name}-assignments",
                "assignment",
                RISK_COLOURS,
                "probability per year, of any partition",
                log=True,
            ),
            Table(tables.assignments),
        ],
        "Topics: probability of an outage per year": [Table(tables.topics)],
    }


def _swarm(tables: SwarmTables, name: str) -> dict[str, list[Part]]:
    series = {"held": STATE_COLOURS[OK], "failed": STATE_COLOURS[OFFLINE]}
    return {
        "Runs": [Bars(tables.outcomes, f"{name}-runs", "scenario", series, "runs", stacked=True)],
        "Failed runs": _table(tables.failed, "No run failed."),
        "Event counts": _table(tables.numbers, "No events."),
    }


def _table(columns: Columns, nothing: str) -> list[Part]:
    return _or_none(columns, [Table(columns)], nothing)


def _or_none(columns: Columns, parts: list[Part], nothing: str) -> list[Part]:
    return parts if length(columns) else [Text(nothing)]
