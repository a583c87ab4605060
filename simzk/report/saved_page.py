"""The page of what commands wrote: timelines, sweeps, risks and swarms, each as one or more sections.

Each kind comes as tables, and says in its class which; docs/pipeline.md, docs/layout.md and docs/risk.md say what their
columns mean. A section without rows says so: nothing offline is an answer.
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
    """What happened to a cluster; times in seconds since 1970.

    Args:
        title: of what they are.
        told: what was read and lost, a sentence each.
        states: spans (`timeline`) of partitions or topics, the worst first.
        left_out: what of them is not shown, a sentence, or nothing.
        counts: `at_s`, and how many partitions were `offline`, `under min ISR`, `under-replicated` on the mean until
            the next.
        controllers: spans of one row, who was controller.
        brokers: spans of brokers, when each was registered.
        moves: `broker`, leaderships `gained` and `lost`.
        worst: the partitions that were longest in a bad state.
        expired: sessions that expired.
        writers: who wrote what how often.
    """

    title: str
    told: Sequence[str]
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
    """What failure sets leave.

    Args:
        title: of what they are.
        told: what was swept and what it is without a failure, a sentence each.
        worst: the worst failure sets: `fails`, and counts of partitions.
        estimates: of drawn sets, what all of them would come to.
        topics: the topics that are hit most.
        loads: by kind of failure, brokers and racks before, and the most that each leads after any set.
    """

    title: str
    told: Sequence[str]
    worst: Columns
    estimates: Columns
    topics: Columns
    loads: Mapping[str, tuple[Columns, Columns]]


@dataclass(frozen=True)
class RiskTables:
    """What assignments risk.

    Args:
        title: of what they are.
        told: the rates, and what was left out, a sentence each.
        assignments: one row each: `assignment`, probabilities a year with their intervals, and more to read.
        probabilities: `assignment`, `an outage` and `data lost`, each with `_low` and `_high`.
        topics: one row a topic, a column an assignment: probabilities to read, those worst off first.
    """

    title: str
    told: Sequence[str]
    assignments: Columns
    probabilities: Columns
    topics: Columns


@dataclass(frozen=True)
class SwarmTables:
    """What runs came to.

    Args:
        title: of what they are.
        told: how many held, a sentence each.
        outcomes: `scenario`, and how many runs `held` and `failed`.
        failed: runs that failed, with the command that plays each again.
        numbers: what was counted in runs: least, median, most and so on.
    """

    title: str
    told: Sequence[str]
    outcomes: Columns
    failed: Columns
    numbers: Columns


def to_html(saved: Sequence[TimelinesTables | SweepTables | RiskTables | SwarmTables]) -> str:
    """One page of everything, in the order in which it comes."""
    assert saved, "a page of nothing"
    sections: list[Section] = []
    for number, tables in enumerate(saved):
        alone = len(saved) == 1
        if not alone:
            sections.append(Section(tables.title, [Text(text) for text in tables.told]))
        sections += _sections(tables, f"p{number}", 2 if alone else 3)
    if len(saved) == 1:
        return page.to_html(saved[0].title, [Text(text) for text in saved[0].told], sections)
    return page.to_html("What simzk found", [], sections)


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
    # Beside the many that are short of a replica, the few that are offline would not be seen.
    counted = [
        Areas(tables.counts, f"{name}-counts-{number}", {state: STATE_COLOURS[state] for state in states}, "partitions")
        for number, states in enumerate(((OFFLINE, UNDER_MIN_ISR), (UNDER_REPLICATED,)))
    ]
    return {
        "What state partitions were in": _or_none(
            tables.states,
            [*left_out, Timeline(tables.states, f"{name}-states", STATE_COLOURS, dated=True)],
            "No partition was seen.",
        ),
        "How many partitions were in a bad state": _or_none(
            tables.counts,
            [*counted],
            "All partitions were in sync all the time.",
        ),
        "Partitions that were longest in a bad state": _table(tables.worst, "None was in a bad state."),
        "Leaderships that moved": _or_none(
            tables.moves,
            [Bars(tables.moves, f"{name}-moves", "broker", MOVED_COLOURS, "leaderships", upright=True)],
            "No leadership moved.",
        ),
        "Controllers": _or_none(
            tables.controllers,
            [Timeline(tables.controllers, f"{name}-controllers", {}, dated=True)],
            "No controller was seen.",
        ),
        "Brokers": _or_none(
            tables.brokers,
            [Timeline(tables.brokers, f"{name}-brokers", REGISTERED_COLOURS, dated=True)],
            "No broker registered or went.",
        ),
        "Sessions that expired": _table(tables.expired, "No session expired."),
        "Who wrote most": _table(tables.writers, "Nobody wrote."),
    }


def _sweep(tables: SweepTables, name: str) -> dict[str, list[Part]]:
    hit = {OFFLINE: STATE_COLOURS[OFFLINE], UNDER_MIN_ISR: STATE_COLOURS[UNDER_MIN_ISR]}
    moved = {"leaders moved": BEFORE}
    found: dict[str, list[Part]] = {
        "The worst failure sets": [
            Bars(tables.worst, f"{name}-worst", "fails", hit | moved, "partitions"),
            Table(tables.worst),
        ]
    }
    if length(tables.estimates):
        found["What all sets would come to, from those that were drawn"] = [Table(tables.estimates)]
    found["Topics that are hit most"] = _table(tables.topics, "No set takes a partition offline or under min ISR.")
    series = {"before": BEFORE, "after, at most": AFTER}
    for number, (fail, (brokers, racks)) in enumerate(tables.loads.items()):
        found[f"Load before and after: {fail}"] = [
            Text("How many partitions each leads before, and the most that it leads after any of the sets."),
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
                "probability in a year, of any partition",
                log=True,
            ),
            Table(tables.assignments),
        ],
        "Topics: an outage in a year": [Table(tables.topics)],
    }


def _swarm(tables: SwarmTables, name: str) -> dict[str, list[Part]]:
    series = {"held": STATE_COLOURS[OK], "failed": STATE_COLOURS[OFFLINE]}
    return {
        "Runs": [Bars(tables.outcomes, f"{name}-runs", "scenario", series, "runs", stacked=True)],
        "Runs that failed": _table(tables.failed, "None failed."),
        "What was counted": _table(tables.numbers, "Nothing was counted."),
    }


def _table(columns: Columns, nothing: str) -> list[Part]:
    return _or_none(columns, [Table(columns)], nothing)


def _or_none(columns: Columns, parts: list[Part], nothing: str) -> list[Part]:
    return parts if length(columns) else [Text(nothing)]
