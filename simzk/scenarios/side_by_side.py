"""Comparison of one scenario under several versions, as text: histories, znodes and verdicts side by side.

Rules of this module:
  - a step of the operator begins a block in every column, so that events after the same step are side by side;
  - within a block every version is aligned with the first one, as by `diff`, first by equal events, then by the kind
    and subject of the events between them;
  - `*` marks events that differ; `~` marks equal events with times, counted from the step, that differ by `LATE_US` or
    more; smaller differences are the latency of single requests;
  - after the last step each run continues until it is quiet, so that the final znodes are not compared between two
    writes; a run that is not quiet within a minute is reported;
  - `FOLDED_MIN` or more rows in sequence without a mark are folded into one line with their number.
"""

from __future__ import annotations

import re
import textwrap
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.report.run_page import Comparison
from simzk.scenarios.player import BROKEN, EXPECTATION, HOLDS, OPERATOR
from simzk.scenarios.report_text import verdict_piece
from simzk.simulation.history import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simzk.scenarios.player import ExpectationResult, Play
    from simzk.scenarios.report_text import Line
    from simzk.simulation import Event

LATE_US = 1_000_000
FOLDED_MIN = 3
COLUMN_WIDTH = 64
ZNODES_SHOWN_MAX = 60

SAME, OTHER_TIME, DIFFERS = " ", "~", "*"
STYLES = {SAME: "", OTHER_TIME: "cyan", DIFFERS: "yellow"}
TIME_INDENT = " " * len(f"{format_time(0)}  ")
TIMESTAMP = re.compile(rb'"timestamp":"?\d+')

Row: TypeAlias = "tuple[Event | None, ...]"
"""Events side by side, one per version; None for a version without such an event."""
MarkedRow: TypeAlias = "tuple[str, Row]"


class Block(NamedTuple):
    """Events of one run from one step of the operator to the next; `step` is None before the first step."""

    step: Event | None
    events: list[Event]


def side_by_side(plays: Sequence[Play]) -> list[Line]:
    """Return the comparison of finished runs of one scenario and seed under several versions, without the heading."""
    assert len(plays) > 1, "a comparison has two runs or more"
    return [*histories(plays), *znodes(plays), *verdicts(plays)]


def histories(plays: Sequence[Play]) -> list[Line]:
    """Return the histories: one column per version, one block per step, differences marked, equal rows folded."""
    lines = _columns(SAME, [[f"Kafka {play.version}"] for play in plays], "bold")
    for step, marked in _marked_blocks(plays):
        if step is not None:
            lines.extend(_columns(step[0], [_cell(event) for event in step[1]], "bold cyan"))
        for mark, group in groupby(marked, key=lambda pair: pair[0]):
            rows = [row for _, row in group]
            if mark == SAME and len(rows) >= FOLDED_MIN:
                lines.append([(f"{SAME} {TIME_INDENT}({len(rows)} equal)", "dim")])
            else:
                for row in rows:
                    lines.extend(_columns(mark, [_cell(event) for event in row], STYLES[mark]))
    return [*lines, []]


def comparison(plays: Sequence[Play]) -> Comparison:
    """Return the comparison as tables for a page, without folding and wrapping."""
    names = [f"Kafka {play.version}" for play in plays]
    events: dict[str, list[object]] = {"mark": [], **{name: [] for name in names}}
    for step, marked in _marked_blocks(plays):
        for mark, row in marked if step is None else [step, *marked]:
            events["mark"].append(mark)
            for name, event in zip(names, row, strict=True):
                events[name].append(None if event is None else f"{format_time(event.at_us)}  {_event_text(event)}")
    trees = _trees(plays)
    paths = _differing(trees)
    differing: dict[str, list[object]] = {"znode": list(paths)}
    for name, tree in zip(names, trees, strict=True):
        differing[name] = [_shown(tree, path) for path in paths]
    return Comparison(f"{plays[0].scenario.title}: {' and '.join(names)} side by side", events, differing)


def _marked_blocks(plays: Sequence[Play]) -> Iterator[tuple[MarkedRow | None, list[MarkedRow]]]:
    """Yield each block of the histories: its step, None before the first one, and its aligned events."""
    for blocks in zip_longest(*(_blocks(play.history) for play in plays), fillvalue=Block(None, [])):
        steps: Row = tuple(block.step for block in blocks)
        starts_us = [0 if step is None else step.at_us for step in steps]
        mark = DIFFERS if None in steps else SAME  # a run that crashed ends early
        marked = [(_mark(row, starts_us), row) for row in align([block.events for block in blocks])]
        yield (mark, steps) if any(steps) else None, marked


def align(runs: Sequence[Sequence[Event]]) -> list[Row]:
    """Align the events of every run with those of the first; the order of each run is kept.

    >>> from simzk.simulation import Event
    >>> [[event and event.what for event in row] for row in align([
    ...     [Event(0, "a", "x"), Event(1, "a", "y")], [Event(0, "a", "x"), Event(1, "a", "new"), Event(2, "a", "y")]])]
    [['x', 'x'], [None, 'new'], ['y', 'y']]
    """
    first, *others = runs
    facing: list[list[Event | None]] = [[event, *(None for _ in others)] for event in first]
    before: list[list[list[Event]]] = [[[] for _ in others] for _ in range(len(first) + 1)]
    for column, other in enumerate(others):
        seen = 0
        for index, other_index in [*_pairs(first, other), (len(first), len(other))]:
            before[index][column].extend(other[seen:other_index])
            if index < len(first):
                facing[index][column + 1] = other[other_index]
            seen = other_index + 1
    rows: list[Row] = []
    for index, extra in enumerate(before):
        rows.extend((None, *events) for events in zip_longest(*extra))
        if index < len(first):
            rows.append(tuple(facing[index]))
    assert all(len(row) == len(runs) for row in rows)
    assert sum(event is not None for row in rows for event in row) == sum(map(len, runs)), "each event stands once"
    return rows


def _pairs(first: Sequence[Event], other: Sequence[Event]) -> list[tuple[int, int]]:
    """Return the index pairs of aligned events, ascending: equal events, then those of equal kind and subject."""
    pairs: list[tuple[int, int]] = []
    matcher = SequenceMatcher(None, [event[1:] for event in first], [event[1:] for event in other], False)
    for same, start, end, other_start, other_end in matcher.get_opcodes():
        if same == "equal":
            pairs.extend(zip(range(start, end), range(other_start, other_end), strict=True))
            continue
        kinds = [(event.what, event.subject) for event in first[start:end]]
        other_kinds = [(event.what, event.subject) for event in other[other_start:other_end]]
        for block in SequenceMatcher(None, kinds, other_kinds, False).get_matching_blocks():
            pairs.extend((start + block.a + offset, other_start + block.b + offset) for offset in range(block.size))
    return pairs


def znodes(plays: Sequence[Play]) -> list[Line]:
    """Return the znodes that differ at the end of the runs, apart from timestamps in them."""
    trees = _trees(plays)
    ends = ", ".join(f"Kafka {play.version} {_when(play)}" for play in plays)
    differing = _differing(trees)
    if not differing:
        return [[("The znodes are equal at the end", "bold"), (f" ({ends})", "dim")], []]
    lines: list[Line] = [[("Znodes that differ at the end", "bold"), (f" ({ends})", "dim")]]
    width = max(len(play.version) for play in plays)
    for path in differing[:ZNODES_SHOWN_MAX]:
        lines.append([(f"{DIFFERS} {path}", STYLES[DIFFERS])])
        for play, tree in zip(plays, trees, strict=True):
            lines.append([(f"    {play.version:<{width}}  ", "dim"), (_shown(tree, path), "")])
    if len(differing) > ZNODES_SHOWN_MAX:
        lines.append([(f"  and {len(differing) - ZNODES_SHOWN_MAX} more", "dim")])
    return [*lines, []]


def _trees(plays: Sequence[Play]) -> list[dict[str, bytes]]:
    """Return the data of all znodes by path, for each run."""
    return [{path: node.data or b"" for path, node in play.cluster.tree.walk()} for play in plays]


def _differing(trees: Sequence[Mapping[str, bytes]]) -> list[str]:
    return [path for path in sorted(set().union(*trees)) if _differs(trees, path)]


def _shown(tree: Mapping[str, bytes], path: str) -> str:
    if path not in tree:
        return "none"
    return ascii(tree[path].decode("utf-8", "backslashreplace"))[1:-1] or "empty"


def verdicts(plays: Sequence[Play]) -> list[Line]:
    """Return the expectations with the result in each version, then the violated invariants."""
    by_line = [{verdict.line: verdict for verdict in play.verdicts} for play in plays]
    widths = [max(len(play.version), len(BROKEN)) + 2 for play in plays]
    versions = "".join(f"{play.version:<{width}}" for play, width in zip(plays, widths, strict=True))
    lines: list[Line] = [[(f"  {versions}Expectations", "bold")]]
    for line in sorted({line for of_play in by_line for line in of_play}):
        of_line = [of_play.get(line) for of_play in by_line]
        results = [_result(verdict) for verdict in of_line]
        mark = SAME if len(set(results)) == 1 else DIFFERS
        cells = zip(results, widths, strict=True)
        marks = [(f"{result:<{width}}", "bold red" if result == BROKEN else "green") for result, width in cells]
        name = next(verdict.name for verdict in of_line if verdict is not None)
        lines.append([(f"{mark} ", STYLES[mark]), *marks, (f"line {line:<4} {name}", "")])
        for play, verdict in zip(plays, of_line, strict=True):
            failures = () if verdict is None else verdict.failures
            lines.extend([(f"      Kafka {play.version}: {failure}", "red")] for failure in failures)
    for play in plays:
        lines.extend([(f"  Kafka {play.version}: invariant {broken}", "bold red")] for broken in play.violations)
    return [*lines, []]


def _when(play: Play) -> str:
    instant = format_time(play.cluster.scheduler.now_us).strip()
    if play.crash is not None:
        return f"crashed at {instant}"
    return f"quiet at {instant}" if play.is_quiet else f"NOT quiet at {instant}, work is still in progress"


def _result(verdict: ExpectationResult | None) -> str:
    """Return the result in one word; an expectation with a `bug` is not checked in every version."""
    return "-" if verdict is None else HOLDS if verdict.held else BROKEN


def _differs(trees: Sequence[Mapping[str, bytes]], path: str) -> bool:
    """Return whether a znode differs; timestamps (in those of brokers and the controller) are ignored."""
    if any(path not in tree for tree in trees):
        return True
    return len({TIMESTAMP.sub(b'"timestamp":', tree[path]) for tree in trees}) > 1


def _blocks(events: Iterable[Event]) -> list[Block]:
    blocks = [Block(None, [])]
    for event in events:
        if event.who == OPERATOR:
            blocks.append(Block(event, []))
        else:
            blocks[-1].events.append(event)
    return blocks


def _mark(row: Row, starts_us: Sequence[int]) -> str:
    events = [event for event in row if event is not None]
    if len(events) < len(row) or any(event[1:] != events[0][1:] for event in events):  # apart from their times
        return DIFFERS
    delays_us = [event.at_us - start_us for event, start_us in zip(events, starts_us, strict=True)]
    return OTHER_TIME if max(delays_us) - min(delays_us) >= LATE_US else SAME


def _cell(event: Event | None) -> list[str]:
    """Return an event as lines that fit into a column."""
    if event is None:
        return []
    first, *more = textwrap.wrap(_event_text(event), COLUMN_WIDTH - len(TIME_INDENT), break_on_hyphens=False)
    return [f"{format_time(event.at_us)}  {first}", *(f"{TIME_INDENT}{line}" for line in more)]


def _event_text(event: Event) -> str:
    """Return an event as text, without its time."""
    if event.who == OPERATOR:
        return f"> {event.what}"
    if event.who == EXPECTATION:
        return verdict_piece(event)[0]
    change = " -> ".join(part for part in (event.before, event.after) if part)
    return "  ".join(part for part in (event.who, event.what, event.subject, change) if part)


def _columns(mark: str, cells: Sequence[Sequence[str]], style: str) -> list[Line]:
    """Return a row as lines, with the mark before the first one."""
    lines: list[Line] = []
    for index, texts in enumerate(zip_longest(*cells, fillvalue="")):
        columns = " | ".join(f"{text:<{COLUMN_WIDTH}}" for text in texts)
        lines.append([(f"{SAME if index else mark} {columns}".rstrip(), style)])
    return lines
