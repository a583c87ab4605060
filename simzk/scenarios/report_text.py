"""Text report of a run: heading, timeline, final state, verdicts.

Rules of this module:
  - a report is a list of lines, a line a list of (text, style); a file or a pipe gets the text alone, byte for byte the
    same in every process; a terminal gets the same text in colours (`simzk.cli.console`). Names and data of znodes are
    escaped when it is written;
  - no function here reads a clock, the width of a terminal or the environment.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from simzk.printable import printable
from simzk.scenarios import view
from simzk.scenarios.player import BROKEN, EXPECTATION, OPERATOR, is_scenario_event
from simzk.scenarios.results import describe_plan
from simzk.scenarios.source import format_duration
from simzk.simulation.history import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simzk.scenarios.faults.plan import FaultPlan
    from simzk.scenarios.player import Play
    from simzk.simulation import Event

Line = list[tuple[str, str]]
"""Pieces of a line: text and its style on a terminal, such as `bold`; empty for none."""

WIDTH = 100
PARTITIONS_SHOWN_MAX = 60
FAULTS_SHOWN_MAX = 30
OF_EACH_BATCH = frozenset(
    {"records appended", "records fetched", "high watermark raised", "acknowledged", "records read"}
)
"""Kinds of event that every batch has; a timeline with clients leaves them out."""


def heading(play: Play, *others: Play) -> list[Line]:
    """Return the lines before a run: title, purpose, and everything that is needed to repeat it.

    Args:
        play: the run.
        others: runs of the same scenario and seed under other versions, to be compared.
    """
    scenario = play.scenario
    lines: list[Line] = [[(scenario.title, "bold")]]
    for paragraph in scenario.why.split("\n\n"):
        lines.extend([(f"  {line}", "dim")] for line in textwrap.wrap(paragraph, WIDTH - 2))
        lines.append([])
    brokers = ", ".join(
        f"{broker} ({scenario.racks[broker]})" if broker in scenario.racks else str(broker)
        for broker in scenario.brokers
    )
    versions = " and ".join(one.version for one in (play, *others))
    lines.append([(f"{scenario.path}, seed {play.seed}, Kafka {versions}, brokers {brokers}", "")])
    if scenario.recording is not None:
        lines.append([(f"starts from the tree recorded after {scenario.cluster.step}", "")])
    if play.plan is not None:
        lines.append([(describe_plan(play), "")])
        if play.plan.options is None:
            lines += fault_lines(play.plan)
    lines.append([])
    return lines


def fault_lines(plan: FaultPlan) -> list[Line]:
    """Return one line per fault of a plan, up to `FAULTS_SHOWN_MAX`, with its time since the last step."""
    lines: list[Line] = []
    for fault in plan.faults[:FAULTS_SHOWN_MAX]:
        lasts = f" for {format_duration(fault.duration_us)}" if fault.duration_us else ""
        lines.append([(f"  {fault.at}: {fault.describe()}{lasts}", "")])
    if len(plan.faults) > FAULTS_SHOWN_MAX:
        lines.append([(f"  and {len(plan.faults) - FAULTS_SHOWN_MAX} more", "dim")])
    return lines


def timeline_of(play: Play) -> list[Line]:
    """Return the timeline of a run; if clients ran, without the events that every batch has."""
    events = list(play.history)
    if not (play.cluster.traffic.producers or play.cluster.traffic.consumers):
        return timeline(events)
    kept = [event for event in events if event.what not in OF_EACH_BATCH]
    left_out = f"  {len(events) - len(kept):,} events of single batches are left out; --json has them"
    return [*timeline(kept)[:-1], [(left_out, "dim")], []]


def record_lines(records: Mapping[str, int]) -> list[Line]:
    """Return what became of the records of producers, one line each; nothing without records."""
    lines: list[Line] = [[("Records", "bold")]] if records else []
    return lines + [[(f"  {count:>9,}  {name}", "yellow" if "lost" in name else "")] for name, count in records.items()]


def timeline(events: Sequence[Event]) -> list[Line]:
    """Return one line per event; events of the scenario itself span the columns."""
    rows = [event for event in events if not is_scenario_event(event)]
    who_width = max((len(event.who) for event in rows), default=0)
    what_width = max((len(event.what) for event in rows), default=0)
    subject_width = max((len(event.subject) for event in rows), default=0)
    lines: list[Line] = []
    for event in events:
        time = (f"{format_time(event.at_us)}  ", "dim")
        if event.who == OPERATOR:
            lines.append([time, (f"> {event.what}", "bold cyan")])
        elif event.who == EXPECTATION:
            lines.append([time, verdict_piece(event)])
        else:
            change = " -> ".join(part for part in (event.before, event.after) if part)
            columns = f"  {event.what:<{what_width}}  {event.subject:<{subject_width}}  {change}"
            style = "red" if event.who == "fault" else "green"
            lines.append([time, (f"{event.who:<{who_width}}", style), (columns.rstrip(), "")])
    lines.append([])
    return lines


def closing(play: Play) -> list[Line]:
    """Return the state of the cluster at the end: partitions, controller, brokers."""
    cluster = play.cluster
    seen = view.partitions(cluster.tree)
    lines: list[Line] = [[(f"At {format_time(cluster.scheduler.now_us).strip()}", "bold")]]
    rows: list[tuple[str, ...]] = [("partition", "replicas", "leader", "isr", "epoch", "version", "")]
    rows += [_partition_row(partition) for partition in seen[:PARTITIONS_SHOWN_MAX]]
    lines.extend(_table(rows))
    if len(seen) > PARTITIONS_SHOWN_MAX:
        lines.append([(f"  and {len(seen) - PARTITIONS_SHOWN_MAX} more", "dim")])
    lines.append([])
    controller = "none" if cluster.controller is None else f"broker {cluster.controller}"
    lines.append([(f"  controller {controller}, epoch {view.controller_epoch(cluster.tree)}", "")])
    registered = cluster.live_brokers
    for broker in play.scenario.brokers:
        state = "registered" if broker in registered else "not registered"
        running = "" if cluster.brokers[broker].alive else ", down"
        rack = f" ({play.scenario.racks[broker]})" if broker in play.scenario.racks else ""
        lines.append([(f"  broker {broker}{rack} {state}{running}", "" if broker in registered else "red")])
    lines.append([])
    records = record_lines(cluster.traffic.counts())
    return lines + records + ([[]] if records else [])


def verdicts(play: Play) -> list[Line]:
    """Return the expectations with their results, then the violated invariants."""
    lines: list[Line] = [[("Expectations", "bold")]] if play.verdicts else []
    for verdict in play.verdicts:
        mark = ("  holds   ", "green") if verdict.held else (f"  {BROKEN}  ", "bold red")
        lines.append([mark, (f"{format_time(verdict.at_us)}  line {verdict.line:<4} {verdict.name}", "")])
        lines.extend([(f"            {failure}", "red")] for failure in verdict.failures)
    lines.extend([("  BROKEN  ", "bold red"), (f"invariant {violation}", "")] for violation in play.violations)
    if not play.violations:
        lines.append([("  holds   ", "green"), (f"at every event: {len(play.invariants)} invariants", "")])
    for issue, count in Counter(violation.issue for violation in play.known).items():
        first = next(violation for violation in play.known if violation.issue == issue)
        times = f"{count} time{'s' * (count != 1)}"
        lines.append([("  known   ", "yellow"), (f"{issue}, {times}; first {first}", "")])
    lines.append([])
    return lines


def conclusion(play: Play, replay: str) -> list[Line]:
    """Return the last lines: success, or the failure and the command that replays the run."""
    count = len(play.verdicts)
    if play.held:
        what = f"all {count} expectations held" if count != 1 else "the expectation held"
        return [[(f"{play.scenario.path}: {what} (seed {play.seed})", "bold green")]]
    failed, violations = sum(not verdict.held for verdict in play.verdicts), len(play.violations)
    lines: list[Line] = []
    if play.crash is not None:
        lines += ([(line, "red")] for line in play.crash.traceback.splitlines())
        what = f"the simulation itself failed (seed {play.seed}); this is a bug of simzk"
    elif failed:
        what = f"{failed} of {count} expectation{'s' * (count != 1)} failed (seed {play.seed})"
    else:
        assert violations > 0, "a run without a crash or a failed expectation fails by a violation"
        what = f"{violations} invariant violation{'s' * (violations != 1)} (seed {play.seed})"
    return [*lines, [(f"{play.scenario.path}: {what}", "bold red")], [("replay with: ", ""), (replay, "bold")]]


def plain(lines: Iterable[Line]) -> str:
    """Return lines as plain text, each with a newline."""
    return "".join("".join(printable(text) for text, _ in line).rstrip() + "\n" for line in lines)


def verdict_piece(event: Event) -> tuple[str, str]:
    """Return the verdict of an expectation as text, and its style."""
    if event.what == BROKEN:
        return f"! {BROKEN}: {event.subject}: {event.after}", "bold red"
    return f"= {event.what}: {event.subject}", "bold green"


def _partition_row(seen: view.PartitionView) -> tuple[str, ...]:
    assignment, state = seen.assignment, seen.state
    replicas = _ids(assignment.replicas)
    if state is None:
        return (str(seen.partition), replicas, "none", "", "", "", "no state")
    notes = []
    if not seen.online:
        notes.append("offline")
    elif len(state.isr) < len(assignment.replicas):
        notes.append("under-replicated")
    if assignment.adding:
        notes.append(f"adding {_ids(assignment.adding)}")
    if assignment.removing:
        notes.append(f"removing {_ids(assignment.removing)}")
    leader = str(state.leader) if seen.online else "none"
    numbers = (str(state.leader_epoch), str(state.version))
    return (str(seen.partition), replicas, leader, _ids(state.isr), *numbers, ", ".join(notes))


def _ids(brokers: Iterable[int]) -> str:
    return f"[{','.join(map(str, brokers))}]"


def _table(rows: Sequence[tuple[str, ...]]) -> list[Line]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines: list[Line] = []
    for index, row in enumerate(rows):
        cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(row[:-1], widths, strict=False))
        note = row[-1]
        style = "dim" if index == 0 else ""
        lines.append([(f"  {cells}  ", style), (note, "red" if note.startswith(("offline", "no state")) else "yellow")])
    return lines
