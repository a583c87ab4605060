"""Page of a run: its expectations, one time axis for everything that happened, its znodes, its events.

Rules of this module:
  - what matters most comes first: failed expectations, then partitions without a leader, then missing replicas, then
    moved leaders;
  - every part has a maximum size, so that the page of any run stays below `page.PAGE_BYTES`; what is left out is
    counted on the page, with the command that writes everything.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.report import page
from simzk.report.charts import (
    Mark,
    RowGroup,
    Span,
    Strip,
    Timeline,
    TimelineRow,
    spans_by_row,
    strip_paths,
    used_legend,
)
from simzk.report.markup import escape
from simzk.report.packed import data_block, differences_of
from simzk.report.page import PAGE_BYTES, Figures, Section, Table, Text
from simzk.report.table import length
from simzk.report.znode_tree import differences, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.report.page import PagePart
    from simzk.report.table import Columns

RUN_BYTES = PAGE_BYTES - 42_000
"""Size of a page without its style, its script and its introduction."""
TITLED_SHARE, LANES_SHARE, ZNODES_SHARE, TABLE_SHARE, EVENTS_SHARE = 0.47, 0.25, 0.17, 0.04, 0.25
"""Maximum shares of a run's parts; the events have what the others leave, and this share at least."""
MARKS_MAX = 120
"""Maximum number of marks of each row on the time axis; of more, every second, third, ... is shown."""
MOMENTS_MAX = 5_000
"""Number of the most important events whose times are moments; of all times, every second, third, ... is one too."""
LINES_MAX = 60
"""Maximum number of lines through all rows for steps and faults; of more, only failed expectations have lines."""
SHARE_OF_SEVERAL = 0.4
"""Maximum size of a run on a page of several runs, as a share of the size on a page of one."""
OVERVIEW_BYTES, COMPARISON_BYTES = 50_000, 60_000

PROCESS = {"up": "ok", "paused or cut off": "stuck", "dead": "dead"}
SESSION = {"registered": "ok"}
CONTROLLER = {"controller": "lead"}
LEADER = {"preferred leader": "lead", "other leader": "other", "no leader": "bad"}
IN_SYNC = {"all in sync": "ok", "replicas missing": "warn", "no leader": "bad"}
LEGEND: Final = (
    ("ok", "up, registered, in sync"),
    ("lead", "controller or preferred leader"),
    ("other", "other leader"),
    ("warn", "replicas missing in ISR"),
    ("bad", "no leader; failed"),
    ("dead", "dead"),
    ("stuck", "paused or cut off"),
    ("sign act", "step"),
    ("sign fault", "fault"),
    ("sign ok", "holds"),
    ("sign bad", "failed"),
)
"""Styles of a run's page with their meanings."""
MARKS = {"step": "act", "fault": "fault", "held": "ok", "failed": "bad", "violation": "bad"}
MARK_ROWS = (
    ("failed", ("failed", "violation")),
    ("steps", ("step",)),
    ("faults", ("fault",)),
    ("expectations", ("held",)),
)

FIRST_KINDS: Final = (("step", "fault", "expectation"), ("broker", "controller"), ("leader",))
"""Kinds of events that are kept first if a run has too many, after the leaders that were lost; then all others."""


LANES: Final = ("Brokers", "above: process, below: session in ZooKeeper")
EVENT_COLUMNS: Final = ("at, s", "who", "what", "subject", "before", "after", "kind")


@dataclass(frozen=True)
class RunTables:
    """A run as tables, all times in seconds of virtual time.

    Args:
        title: the title of the scenario.
        heading: file, seed and version.
        held: whether all expectations and invariants held.
        outcome: the outcome, in a sentence.
        replay: the command that replays the run.
        expectations: `held`, `at, s`, `line`, `expectation`, `failures`.
        violations: `at, s`, `invariant`, `detail`, `event`; empty for none.
        brokers, sessions: spans (`charts`) of processes and registrations; rows are brokers.
        controllers: spans of one row, the controller.
        leaders, in_sync: spans; rows are partitions.
        marks: `at_s`, `kind` (of `MARKS`), `label`.
        events: `at, s`, `who`, `what`, `subject`, `before`, `after`, `kind`.
        end_s: the end of the time axis; 0 for the end of the last span.
        why: the purpose of the scenario, as paragraphs.
        faults: the plan of random faults; empty for none.
        rest: where everything is that the page leaves out; empty for the replay command with `--json OUT`.
        topics: the topics, by which events and partitions are filtered.
        lanes: heading and note of the lanes of `brokers`, which are clients if there is no cluster.
        znodes_at_start: the data of the znodes at the start, by path.
        znode_changes: `at, s`, `path`, `data` (None for a deleted znode), in order; empty if they were not logged.
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
    sessions: Columns = field(default_factory=dict)
    controllers: Columns = field(default_factory=dict)
    marks: Columns = field(default_factory=dict)
    end_s: float = 0.0
    why: str = ""
    faults: str = ""
    rest: str = ""
    topics: Sequence[str] = ()
    lanes: tuple[str, str] = LANES
    znodes_at_start: Mapping[str, str] = field(default_factory=dict)
    znode_changes: Columns = field(default_factory=dict)

    @cached_property
    def ranking(self) -> list[int]:
        """The places of all events, the most important first: the last one is among them."""
        count = length(self.events)
        kinds = [str(kind) for kind in self.events.get("kind", [""] * count)]
        whats = [str(what) for what in self.events.get("what", [""] * count)]
        ranks = {kind: rank for rank, group in enumerate(FIRST_KINDS) for kind in group}

        def rank(place: int) -> int:
            if place == count - 1:
                return -1
            return 0 if whats[place] == "leader lost" else ranks.get(kinds[place], len(FIRST_KINDS))

        return sorted(range(count), key=lambda place: (rank(place), place))


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
    """Return the page of one run, or of several runs with an overview and comparisons between them."""
    assert runs, "a page has one run or more"
    if len(runs) == 1:
        (run,) = runs
        return page.to_html(run.title, _introduction(run), _run_sections(run, "run", level=2, share=1.0))
    failed = [run for run in runs if not run.held]
    ordered = [*failed, *(run for run in runs if run.held)]
    sections = [Section("All runs", [_overview(ordered)])]
    for compared in comparisons:
        rest = "the text that the command prints"
        sections.append(
            Section(compared.title, [Table(compared.events, bytes_max=COMPARISON_BYTES, rest=rest, even=True)])
        )
        differing = Table(compared.znodes, even=True) if length(compared.znodes) else Text("The znodes are equal.")
        sections.append(Section("Znodes that differ at the end", [differing], 3))
    title = f"{len(runs)} runs, {len(failed)} failed"
    room = PAGE_BYTES - len(page.to_html(title, [], sections).encode()) - 1000
    shown: list[Section] = []
    count = 0
    for run in ordered:
        of_run = [
            Section(run.title, _introduction(run), id=f"run-{count}"),
            *_run_sections(run, f"run-{count}", level=3, share=SHARE_OF_SEVERAL),
        ]
        room -= sum(len(section.to_html().encode()) + 1 for section in of_run)
        if room < 0:
            break
        shown += of_run
        count += 1
    said = (
        f"{count} of {len(runs)} runs are shown in full, failed ones first. The replay command of a run writes its "
        "page with --html OUT."
    )
    return page.to_html(title, [Text(said, style="cut")] if count < len(runs) else [], [*sections, *shown])


def _overview(runs: Sequence[RunTables]) -> Table:
    columns: dict[str, Sequence[object]] = {
        "held": [run.held for run in runs],
        "scenario": [run.title for run in runs],
        "run": [run.heading for run in runs],
        "outcome": [run.outcome for run in runs],
        "replay command": [run.replay for run in runs],
    }
    return Table(columns, marked_by="held", bytes_max=OVERVIEW_BYTES, rest="simzk run FILE --seeds N --json OUT")


def _introduction(run: RunTables) -> list[PagePart]:
    why = [Text(" ".join(paragraph.split()), style="why") for paragraph in run.why.split("\n\n") if paragraph.strip()]
    faults = [Text(f"Random faults: {run.faults}", style="heading")] if run.faults else []
    verdict = Text(run.outcome, style="verdict good" if run.held else "verdict bad")
    return [
        verdict,
        *_failed(run),
        *why,
        Text(run.heading, style="heading"),
        *([Text(run.replay, code=True)] if run.replay else []),
        *faults,
        *([_figures(run)] if run.lanes == LANES else []),
    ]


FAILED_SHOWN_MAX = 5


def _failed(run: RunTables) -> list[PagePart]:
    """Return the first failed expectations, and what failed in each."""
    names = ("held", "at, s", "line", "expectation", "failures")
    rows = zip(*(run.expectations.get(name, ()) for name in names), strict=True)
    failed = [
        f"{float(str(at)):.3f} s, line {line}: {expectation}: {failures}"
        for held, at, line, expectation, failures in rows
        if not held
    ]
    return [Text(text, style="failure") for text in failed[:FAILED_SHOWN_MAX]]


def _figures(run: RunTables) -> Figures:
    """Return the numbers that matter most, the most important first."""
    leaders = spans_by_row(run.leaders)
    offline = {row: _lasted(spans, "no leader") for row, spans in leaders.items()}
    missing = {row: _lasted(spans, "replicas missing") for row, spans in spans_by_row(run.in_sync).items()}
    failed = sum(not held for held in run.expectations.get("held", ()))
    moved = sum(what == "leader moved" for what in run.events.get("what", ()))
    steps = sum(kind in ("step", "fault") for kind in run.events.get("kind", ()))
    judged = [("failed expectations", f"{failed} of {length(run.expectations)}", not failed)]
    return Figures(
        [
            *(judged if length(run.expectations) else ()),
            ("invariant violations", str(length(run.violations)), not length(run.violations)),
            ("partitions without a leader at some time", *_longest(offline)),
            ("partitions with replicas missing in the ISR", _longest(missing)[0], None),
            ("leaders moved", str(moved), None),
            ("steps and faults", str(steps), None),
        ]
    )


def _lasted(spans: Sequence[Span], state: str) -> float:
    return sum(span.end - span.begin for span in spans if span.state == state)


def _longest(lasted: Mapping[str, float]) -> tuple[str, bool]:
    """Return how many rows were in a state and which one the longest, and whether there is none."""
    count = sum(value > 0 for value in lasted.values())
    if not count:
        return "0", True
    longest = max(lasted, key=lambda row: lasted[row])
    return f"{count} of {len(lasted)}, {longest} for {lasted[longest]:.3f} s", False


def _run_sections(run: RunTables, name: str, *, level: int, share: float) -> list[Section]:
    room = round(RUN_BYTES * share)
    size = round(TABLE_SHARE * room)
    violations = {"held": [False] * length(run.violations), **run.violations}
    violated = Section("Violated invariants", [Table(violations, "held", size, _rest(run))], level)
    expected = Section("Expectations", [Table(run.expectations, "held", size, _rest(run))], level)
    before = [violated] if length(run.violations) else []
    after = [expected] if length(run.expectations) else []
    chart = _timeline(run, name, room)
    znodes = _znodes(run, name, round(ZNODES_SHARE * room))
    used = sum(len(part.encode()) for part in (chart.to_html(), znodes, *(table.to_html() for table in before + after)))
    events = _Events(run, max(room - used, round(EVENTS_SHARE * room)))
    happened = []
    if chart.to_html():
        happened = [Section("What happened", [chart, _Raw(znodes)], level)]
    return [*before, *happened, *after, Section("Events", [events], level)]


def _rest(run: RunTables) -> str:
    return run.rest or f"{run.replay} --json OUT"


class _Raw(NamedTuple):
    """HTML of this module."""

    html: str

    def to_html(self) -> str:
        return self.html


def _timeline(run: RunTables, name: str, room: int) -> Timeline:
    tables = (run.brokers, run.leaders, run.in_sync)
    ends = [span.end for table in tables for spans in spans_by_row(table).values() for span in spans]
    end_s = run.end_s or max(ends, default=0.0)
    rows, left = _partitions(run, end_s, round(LANES_SHARE * room))
    note = f"the first {len(rows)} of {len(rows) + left}; all: {_rest(run)}" if left else ""
    groups = [
        RowGroup("Steps, faults and expectations", _mark_rows(run)),
        RowGroup(run.lanes[0], _brokers(run), run.lanes[1]),
        RowGroup("Partitions", rows, note or "above: leader, below: ISR; the longest without a leader first"),
    ]
    lines = [Mark(float(str(at)), MARKS[str(kind)], "") for at, kind, _ in _marks(run) if kind != "held"]
    if len(lines) > LINES_MAX:  # more would hide the rows
        lines = [line for line in lines if line.style == "bad"][:LINES_MAX]
    titled_bytes, legend = round(TITLED_SHARE * room), used_legend(groups, LEGEND)
    return Timeline(f"{name}-time", "States over time", groups, 0.0, end_s, legend, lines, titled_bytes=titled_bytes)


def _marks(run: RunTables) -> list[tuple[object, ...]]:
    return list(zip(*(run.marks.get(name, ()) for name in ("at_s", "kind", "label")), strict=True))


def _mark_rows(run: RunTables) -> list[TimelineRow]:
    rows = []
    for title, kinds in MARK_ROWS:
        of_row = [Mark(float(str(at)), MARKS[str(kind)], str(said)) for at, kind, said in _marks(run) if kind in kinds]
        if of_row:
            kept = of_row[:: -(-len(of_row) // MARKS_MAX)]  # evenly: the first ones would look like all
            name = title if len(kept) == len(of_row) else f"{title}, {len(kept)} of {len(of_row)}"
            rows.append(TimelineRow(name, marks=kept))
    return rows


def _brokers(run: RunTables) -> list[TimelineRow]:
    processes, sessions = spans_by_row(run.brokers), spans_by_row(run.sessions)
    rows = [TimelineRow(row, [Strip(spans, CONTROLLER)]) for row, spans in spans_by_row(run.controllers).items()]
    for broker in dict.fromkeys([*processes, *sessions]):
        strips = [Strip(processes.get(broker, []), PROCESS)]
        if run.sessions:
            strips.append(Strip(sessions.get(broker, []), SESSION, narrow=True))
        rows.append(TimelineRow(broker, strips, broker=broker.split()[1] if " " in broker else ""))
    return rows


def _partitions(run: RunTables, end_s: float, bytes_max: int) -> tuple[list[TimelineRow], int]:
    """Return rows of partitions, those longest without a leader first, and the number of rows that are left out."""
    leaders, in_sync = spans_by_row(run.leaders), spans_by_row(run.in_sync)
    names = list(dict.fromkeys([*leaders, *in_sync]))
    bad = {name: _lasted(leaders.get(name, []), "no leader") for name in names}
    warn = {name: _lasted(in_sync.get(name, []), "replicas missing") for name in names}
    many = len(names) > MANY_PARTITIONS
    order = sorted(names, key=lambda name: (-bad[name], -warn[name] if many else 0.0))
    rows: list[TimelineRow] = []
    size = 0
    for name in order:
        strips = [Strip(leaders.get(name, []), LEADER), Strip(in_sync.get(name, []), IN_SYNC, narrow=True)]
        strips = [strip for strip in strips if strip.spans]
        size += BYTES_OF_ROW + sum(len(strip_paths(strip, 0.0, end_s)) for strip in strips)
        if size > bytes_max and rows:
            break
        rows.append(TimelineRow(name, strips, topic=name.rpartition("-")[0]))
    return rows, len(order) - len(rows)


def _moments_ms(run: RunTables) -> set[int]:
    """Return the times of events that are moments: those of the table's rows, and as many of the others as fit."""
    times_ms = list(map(milliseconds, run.events.get(EVENT_COLUMNS[0], ())))
    spread = sorted(set(times_ms))
    first = (times_ms[place] for place in run.ranking[:MOMENTS_MAX])
    return {*first, *spread[:: -(-len(spread) // MOMENTS_MAX) or 1]}


MANY_PARTITIONS = 24
"""Number of partitions above which they are ordered by the time with missing replicas too."""
BYTES_OF_ROW = 400
"""Size of a row of partitions in the HTML, without its spans, about."""


def _znodes(run: RunTables, name: str, bytes_max: int) -> str:
    """Return the slider of the chart, whose moments are the times of events and changes, and the znode tree."""
    times_ms = _moments_ms(run)
    size = bytes_max * DEFLATES_MOST
    while True:
        found = differences(run.znodes_at_start, run.znode_changes, times_ms, size)
        block = data_block(found.to_json(), bytes_max)
        if len(block.encode()) <= bytes_max or not found.changes:
            break
        size = size * bytes_max * 9 // (len(block) * 10)
    if not found.moments_ms:
        return ""
    last = len(found.moments_ms) - 1
    tree = ""
    if run.znodes_at_start:
        said = f"{found.left:,} later changes of znodes are left out. All: {_rest(run)}."
        left = Text(said, style="cut").to_html() if found.left else ""
        tree = (
            f'<details class="znodes" open><summary>Znodes at this moment</summary>{left}'
            f'<div class="scroll" tabindex="0" role="group" aria-label="Znodes"><ul class="tree"></ul></div></details>'
        )
    return (
        f'<div class="moment" data-chart="{escape(name)}-time" hidden><label for="{escape(name)}-moment">Moment</label>'
        f'<input type="range" id="{escape(name)}-moment" min="0" max="{last}" value="{last}" step="1">'
        f'<output for="{escape(name)}-moment"></output>{tree}{block}</div>'
        "<noscript><p>The slider and the znode tree need JavaScript.</p></noscript>"
    )


DEFLATES_MOST = 12
"""Upper limit of how much smaller compressed changes of znodes are."""
ROWS_SHARE = 0.4
"""Share of the size of too many events that are rows of the table; the others are compressed, for the script."""


class _Events(NamedTuple):
    """Events of a run as a table with filters.

    Of too many events the most important ones are rows, and the others are compressed: the script adds their rows.
    """

    run: RunTables
    bytes_max: int

    def to_html(self) -> str:
        texts, times, count = self._texts(), self.run.events.get(EVENT_COLUMNS[0], ()), length(self.run.events)

        def row_of(place: int) -> str:
            return _event(f"{float(str(times[place])):.3f}", *(column[place] for column in texts.values()))

        ranking = self.run.ranking
        rows = _first_within(ranking, row_of, self.bytes_max)
        block, packed = "", 0
        if len(rows) < count:
            rows = _first_within(ranking, row_of, round(ROWS_SHARE * self.bytes_max))
            block, packed = self._packed(texts, sorted(rows), ranking[len(rows) :])
        assert len(rows) + packed <= count, "no event is shown twice"
        topics = "\n".join(self.run.topics)
        heads = "".join(f"<th>{name}</th>" for name in ("at, s", "who", "what", "subject", "change"))
        return (
            f'{self._cut(count, len(rows), packed)}<div class="events" data-topics="{escape(topics)}">'
            f'<div class="scroll" tabindex="0" role="group" aria-label="Events"><table><thead><tr>{heads}</tr></thead>'
            f"<tbody>{''.join(rows[place] for place in sorted(rows))}</tbody></table></div>{block}</div>"
        )

    def _cut(self, count: int, kept: int, packed: int) -> str:
        """Return what is said of events that are left out, with the script and without."""
        what = "steps, faults, expectations and lost leaders, then brokers, controller and leaders come first"
        said = "{:,} of {:,} events are shown ({}). All events: {}."
        parts = []
        if kept + packed < count:
            parts.append(Text(said.format(kept + packed, count, what, _rest(self.run)), style="cut").to_html())
        if packed:
            text = f"Without JavaScript {said.format(kept, count, what, _rest(self.run))}"
            parts.append(f"<noscript>{Text(text, style='cut').to_html()}</noscript>")
        return "".join(parts)

    def _packed(self, texts: Mapping[str, list[str]], kept: Sequence[int], others: Sequence[int]) -> tuple[str, int]:
        """Return the first of other events as a data block that fits, and their number."""
        room = round((1 - ROWS_SHARE) * self.bytes_max)
        count = len(others)
        while count:
            block = data_block(self._columns(texts, sorted(others[:count]), kept), 0)
            if len(block) <= room:
                return block, count
            count = min(count - 1, count * room * 95 // (len(block) * 100))
        return "", 0

    def _columns(self, texts: Mapping[str, list[str]], places: Sequence[int], kept: Sequence[int]) -> dict[str, object]:
        """Return events as columns that compress well.

        `rows` are the numbers of rows that are in the table before each event, `ms` times, both as differences. A
        `before` is None if it is the `after` of the previous one of these events with the same subject.
        """
        columns = {name: [column[place] for place in places] for name, column in texts.items()}
        times = self.run.events.get("at, s", ())
        before: list[str | None] = []
        latest: dict[str, str] = {}
        for subject, was, after in zip(columns["subject"], columns["before"], columns["after"], strict=True):
            before.append(None if latest.get(subject) == was else was)
            latest[subject] = after
        return {
            "rows": differences_of([bisect_left(kept, place) for place in places]),
            "ms": differences_of([round(float(str(times[place])) * 1000) for place in places]),
            "kinds": list(map(_kinds, columns["kind"], columns["what"])),
            **{name: columns[name] for name in ("who", "what", "subject", "after")},
            "before": before,
        }

    def _texts(self) -> dict[str, list[str]]:
        """The columns of the events, apart from their times."""
        columns = self.run.events
        return {name: list(map(str, columns.get(name, [""] * length(columns)))) for name in EVENT_COLUMNS[1:]}


def _first_within(ranking: Sequence[int], row_of: Callable[[int], str], bytes_max: int) -> dict[int, str]:
    """Return the rows of the first places of a ranking that fit into a number of bytes, by place."""
    found: dict[int, str] = {}
    size = 0
    for place in ranking:
        row = row_of(place)
        size += len(row.encode())
        if size > bytes_max:
            break
        found[place] = row
    return found


def _kinds(kind: str, what: str) -> str:
    """Return the classes of the row of an event."""
    return f"{kind} bad" if what in ("leader lost", "BROKEN") else kind


def _event(at: str, who: str, what: str, subject: str, before: str, after: str, kind: str) -> str:
    change = " → ".join(part for part in (before, after) if part)
    cells = "".join(f"<td>{escape(text, quote=False)}</td>" for text in (at, who, what, subject, change))
    return f'<tr class="{escape(_kinds(kind, what))}">{cells}</tr>'
