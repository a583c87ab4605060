"""Page of saved results: timelines, sweeps, risks and swarms, each as one or more sections.

The classes below list the tables of each kind; docs/pipeline.md, docs/layout.md and docs/risk.md explain their columns.
A section without rows has a sentence instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.report import page
from simzk.report.charts import Areas, Bars
from simzk.report.page import Section, Table, Text, Timeline
from simzk.report.table import length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.report.page import Part
    from simzk.report.table import Columns

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


def to_html(saved: Sequence[TimelinesTables | SweepTables | RiskTables | SwarmTables]) -> str:
    """Return one page of all results, in their order."""
    assert saved, "a page has one result or more"
    sections: list[Section] = []
    for number, tables in enumerate(saved):
        alone = len(saved) == 1
        if not alone:
            sections.append(Section(tables.title, [Text(text) for text in tables.summary]))
        sections += _sections(tables, f"p{number}", 2 if alone else 3)
    if len(saved) == 1:
        return page.to_html(saved[0].title, [Text(text) for text in saved[0].summary], sections)
    return page.to_html("simzk report", [], sections)


def _sections(tables: TimelinesTables | SweepTables | RiskTables | SwarmTables, name: str, level: int) -> list[Section]:
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
