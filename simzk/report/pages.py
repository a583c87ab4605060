"""Pages of layouts and of saved results: timelines, sweeps, risks and swarms.

The classes below list the tables of each page; docs/pipeline.md, docs/layout.md and docs/risk.md explain the columns of
saved results. A section without rows has a sentence instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from simzk.report import page
from simzk.report.charts import (
    MOST_UPRIGHT,
    Areas,
    Bars,
    RowGroup,
    Strip,
    Timeline,
    TimelineRow,
    spans_by_row,
    used_legend,
)
from simzk.report.page import Beside, Figures, Section, Table, Text
from simzk.report.table import CellLink, length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.report.page import PagePart
    from simzk.report.table import Columns

LOADS = {"leads": "lead", "follows": "other", "out of sync": "warn"}
LOADS_OF_MANY = {"leads": "lead", "holds": "other", "out of sync": "warn"}
"""Styles of loads; those of many brokers are lines instead of parts of a bar."""
SPREAD = {"brokers": "lead"}


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
    facts = zip(*(tables.facts[name] for name in ("fact", "value", "good")), strict=True)
    figures = Figures([(str(fact), str(value), bool(good)) for fact, value, good in facts if good is not None])
    sections = [Section("Summary", [figures, Table(tables.facts, marked_by="good")])]
    for what, columns in (("rack", tables.racks), ("broker", tables.brokers)):
        sections.append(Section(f"Loads of {what}s", _loads(columns, what)))
    for what, columns in tables.spread.items():
        title = f"Live brokers by number of partitions that they {what}"
        bars = Bars(columns, f"spread-{what}", "partitions", SPREAD, "brokers", upright=True)
        sections.append(Section(title, [bars] if length(columns) else [Text("No broker is live.")]))
    return page.to_html(tables.title, [], sections)


def _loads(columns: Columns, what: str) -> list[PagePart]:
    if not length(columns):
        return [Text(f"No {what}s.")]
    if length(columns) > MOST_UPRIGHT:  # lines instead of stacked bars
        bars = Bars(columns, f"{what}s", what, LOADS_OF_MANY, "partitions", upright=True)
        return [bars, Table(_worst_first(columns), bytes_max=LOADS_BYTES)]
    return [Bars(columns, f"{what}s", what, LOADS, "partitions", upright=True, stacked=True), Table(columns)]


LOADS_BYTES = 80_000
"""Maximum size of a table of loads."""


def _worst_first(columns: Columns) -> Columns:
    """Return loads in the order of the replicas out of sync, then of the partitions led, most first."""
    keys = list(zip(*(columns[name] for name in ("out of sync", "leads")), strict=True))
    order = sorted(range(len(keys)), key=lambda at: tuple(-int(str(key)) for key in keys[at]))
    return {name: [column[at] for at in order] for name, column in columns.items()}


OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, OK = "offline", "under min ISR", "under-replicated", "all in sync"
STATE_STYLES = {OFFLINE: "bad", UNDER_MIN_ISR: "low", UNDER_REPLICATED: "warn", OK: "ok"}
REGISTERED = {"registered": "ok"}
LOADS_OF_SWEEP = {"before": "lead", "after, at most": "after"}
MOVED = {"gained": "lead", "lost": "other"}
RISKS = {"an outage": "low", "data lost": "bad"}


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
        partitions: the partitions that each of the worst failure sets takes offline or below min ISR, in the order of
            `worst`; no columns for a set without any.
    """

    title: str
    summary: Sequence[str]
    worst: Columns
    estimates: Columns
    topics: Columns
    loads: Mapping[str, tuple[Columns, Columns]]
    partitions: Sequence[Columns] = ()


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


def _timelines(tables: TimelinesTables, name: str) -> dict[str, list[PagePart]]:
    left_out = [Text(tables.left_out, style="cut")] if tables.left_out else []
    # Two charts: the few offline partitions would not be visible beside the many under-replicated ones.
    counted = [
        Areas(tables.counts, f"{name}-counts-{number}", {state: STATE_STYLES[state] for state in states}, "partitions")
        for number, states in enumerate(((OFFLINE, UNDER_MIN_ISR), (UNDER_REPLICATED,)))
    ]
    return {
        "What happened": [*left_out, *_history(tables, name)],
        "Partitions in a bad state over time": _or_none(
            tables.counts, [*counted], "All partitions were in sync all the time."
        ),
        "Partitions longest in a bad state": _table(tables.worst, "No partition was in a bad state."),
        "Leader changes by broker": _or_none(
            tables.moves,
            [Bars(tables.moves, f"{name}-moves", "broker", MOVED, "leaderships", upright=True)],
            "No leader changed.",
        ),
        "Expired sessions": _table(tables.expired, "No session expired."),
        "Sessions with the most writes": _table(tables.writers, "No session wrote."),
    }


def _history(tables: TimelinesTables, name: str) -> list[PagePart]:
    """Return one chart of partitions, controllers and brokers, and a sentence for each of these without rows."""
    found: list[PagePart] = []
    groups = []
    for title, spans, styles, nothing in (
        ("Partitions, the worst first", tables.states, STATE_STYLES, "No partition was seen."),
        ("Controller", tables.controllers, {}, "No controller was seen."),
        ("Brokers", tables.brokers, REGISTERED, "No broker registered or left."),
    ):
        rows = spans_by_row(spans)
        if not rows:
            found.append(Text(nothing))
        # The states of controllers are their names.
        leads = dict.fromkeys((span.state for of_row in rows.values() for span in of_row), "lead")
        groups.append(
            RowGroup(title, [TimelineRow(row, [Strip(of_row, styles or leads)]) for row, of_row in rows.items()])
        )
    spans_of_all = [span for group in groups for row in group.rows for strip in row.strips for span in strip.spans]
    if spans_of_all:
        begin, end = min(span.begin for span in spans_of_all), max(span.end for span in spans_of_all)
        legend = used_legend(groups, HISTORY_LEGEND)
        found.insert(0, Timeline(f"{name}-history", "States over time", groups, begin, end, legend, dated=True))
    return found


HISTORY_LEGEND = (
    ("bad", OFFLINE),
    ("low", UNDER_MIN_ISR),
    ("warn", UNDER_REPLICATED),
    ("ok", f"{OK}; registered"),
    ("lead", "controller"),
)


SET_BYTES = 6_000
"""Maximum size of the table of a failure set's partitions."""


def _sweep(tables: SweepTables, name: str) -> dict[str, list[PagePart]]:
    fails = list(tables.worst.get("fails", ()))
    assert len(tables.partitions) <= len(fails), "partitions are those of the worst failure sets"
    listed = {place: columns for place, columns in enumerate(tables.partitions) if length(columns)}
    links = [CellLink(str(who), f"{name}-set-{at}") if at in listed else who for at, who in enumerate(fails)]
    worst = Table({**tables.worst, "fails": links})
    found: dict[str, list[PagePart]] = {
        "Worst failure sets": [_worst_figures(tables.worst), *_worst_chart(tables.worst, name), worst]
    }
    if listed:
        rest = "worst.parquet, at most 1,000 of a set"
        sections = [
            Section(str(fails[at]), [Table(columns, bytes_max=SET_BYTES, rest=rest)], 4, f"{name}-set-{at}")
            for at, columns in listed.items()
        ]
        found["Partitions of the worst failure sets"] = [Beside(sections)]
    if length(tables.estimates):
        found["Estimates for all sets from samples"] = [Table(tables.estimates)]
    found["Most affected topics"] = _table(tables.topics, "No set takes a partition offline or under min ISR.")
    for number, (fail, (brokers, racks)) in enumerate(tables.loads.items()):
        found[f"Load before and after: {fail}"] = [
            Text("Partitions led before, and the maximum led after any of the sets."),
            Bars(brokers, f"{name}-brokers-{number}", "broker", LOADS_OF_SWEEP, "partitions led", upright=True),
            Bars(racks, f"{name}-racks-{number}", "rack", LOADS_OF_SWEEP, "partitions led", upright=True),
        ]
    return found


HIT, MOVED_LEADERS = {OFFLINE: "bad", UNDER_MIN_ISR: "low"}, {"leaders moved": "lead"}


def _worst_figures(worst: Columns) -> Figures:
    """Return the most that any failure set does, what matters most first."""
    offline, below, moved = (_most(worst, what) for what in (OFFLINE, UNDER_MIN_ISR, "leaders moved"))
    return Figures(
        [
            ("partitions offline, at most in one set", f"{offline:,}", not offline),
            ("partitions under min ISR, at most in one set", f"{below:,}", not below),
            ("leaders moved, at most in these sets", f"{moved:,}", None),
        ]
    )


def _worst_chart(worst: Columns, name: str) -> list[PagePart]:
    """Return the chart of what matters; moved leaders are shown only if nothing is offline or under min ISR."""
    if any(_most(worst, what) for what in HIT):
        return [Bars(worst, f"{name}-worst", "fails", HIT, "partitions")]
    nothing = Text("No set takes a partition offline or under min ISR; leaders move.")
    return [nothing, Bars(worst, f"{name}-worst", "fails", MOVED_LEADERS, "partitions")]


def _most(columns: Columns, name: str) -> int:
    return max((int(str(value)) for value in columns.get(name, ())), default=0)


def _risk(tables: RiskTables, name: str) -> dict[str, list[PagePart]]:
    axis = "probability per year, of any partition"
    return {
        "Assignments": [
            Bars(tables.probabilities, f"{name}-assignments", "assignment", RISKS, axis, log=True),
            Table(tables.assignments),
        ],
        "Topics: probability of an outage per year": [Table(tables.topics)],
    }


def _swarm(tables: SwarmTables, name: str) -> dict[str, list[PagePart]]:
    series = {"held": "ok", "failed": "bad"}
    return {
        "Runs": [Bars(tables.outcomes, f"{name}-runs", "scenario", series, "runs", stacked=True)],
        "Failed runs": _table(tables.failed, "No run failed."),
        "Event counts": _table(tables.numbers, "No events."),
    }


def _table(columns: Columns, nothing: str) -> list[PagePart]:
    return _or_none(columns, [Table(columns)], nothing)


def _or_none(columns: Columns, parts: list[PagePart], nothing: str) -> list[PagePart]:
    return parts if length(columns) else [Text(nothing)]
