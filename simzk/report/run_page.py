"""Page of runs: brokers, leaders and replicas in sync over time, expectations, events.

Tables of a run (`RunTables`), all times in seconds of virtual time:
  - `expectations`: `held`, `at_s`, `line`, `name`, `failures`;
  - `violations`: `at_s`, `invariant`, `event`, `detail`;
  - `brokers`, `leaders`, `in_sync`: spans (`timeline`);
  - `events`: `at_s`, `who`, `what`, `subject`, `before`, `after`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.report import page
from simzk.report.page import Section, Table, Text, Timeline
from simzk.report.table import length

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """A run as tables (see above).

    Args:
        title: the title of the scenario.
        heading: file, seed and version.
        held: whether all expectations and invariants held.
        outcome: the outcome, in a sentence.
        replay: the command that replays the run.
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


def to_html(runs: Sequence[RunTables], comparisons: Sequence[Comparison] = ()) -> str:
    """Return the page of one run, or of several runs with an overview.

    Args:
        runs: the runs as tables.
        comparisons: comparisons between runs of one scenario.
    """
    assert runs, "a page has one run or more"
    if len(runs) == 1:
        (run,) = runs
        introduction = [Text(run.heading), Text(run.outcome), Text(run.replay, code=True)]
        return page.to_html(run.title, introduction, _sections(run, "run", level=2))
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
        sections += [Section(run.title, introduction), *_sections(run, f"run-{number}", level=3)]
    title = f"{len(runs)} runs, {len(failed)} failed"
    left = len(runs) - len(shown)
    return page.to_html(title, [Text(f"{left} are in the overview only.")] if left else [], sections)


def _sections(run: RunTables, name: str, *, level: int) -> list[Section]:
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
