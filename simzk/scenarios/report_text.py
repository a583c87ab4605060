"""A run as text for people: heading, timeline, closing tables, verdicts.

Rules of this module:
  - a page is a list of lines, a line a list of (text, style); without styles it is what a file or a pipe gets, byte for
    byte the same in every process; a terminal gets the same text in colours (`simzk.cli.console`);
  - nothing here looks at a clock, a terminal's width or the environment.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from simzk.scenarios import view
from simzk.scenarios.player import BROKEN, EXPECTATION, OPERATOR, is_scenario_event
from simzk.simulation.history import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.scenarios.player import Play
    from simzk.simulation import Event

Line = list[tuple[str, str]]
"""Pieces of a line: a text and the style it has on a terminal, such as `bold`; empty for none."""

WIDTH = 100
PARTITIONS_SHOWN_MAX = 60


def heading(play: Play, *others: Play) -> list[Line]:
    """Return what is said before the run: title, why, and all that it takes to do it again.

    Args:
        play: about to run.
        others: of the same scenario and seed under other versions, to stand beside it.
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
        lines.append([(f"starts from the tree recorded after {scenario.start_step}", "")])
    if play.plan is not None:
        lines.append([(f"faults drawn from seed {play.seed}: {play.plan}", "")])
    lines.append([])
    return lines


def timeline(events: Sequence[Event]) -> list[Line]:
    """Return the events, a line each; what the scenario itself does stands out across the columns."""
    told = [event for event in events if not is_scenario_event(event)]
    who_width = max((len(event.who) for event in told), default=0)
    what_width = max((len(event.what) for event in told), default=0)
    subject_width = max((len(event.subject) for event in told), default=0)
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
    """Return how the cluster stands at the end."""
    cluster = play.cluster
    seen = view.partitions(cluster.tree)
    lines: list[Line] = [[(f"At {format_time(cluster.scheduler.now_us).strip()}", "bold")]]
    rows: list[tuple[str, ...]] = [("partition", "replicas", "leader", "isr", "epoch", "version", "")]
    rows += [_partition_row(partition) for partition in seen[:PARTITIONS_SHOWN_MAX]]
    lines.extend(_table(rows))
    if len(seen) > PARTITIONS_SHOWN_MAX:
        lines.append([(f"  and {len(seen) - PARTITIONS_SHOWN_MAX} more", "dim")])
    lines.append([])
    controller = "nobody" if cluster.controller is None else f"broker {cluster.controller}"
    lines.append([(f"  controller {controller}, epoch {view.controller_epoch(cluster.tree)}", "")])
    registered = view.registered_brokers(cluster.tree)
    for broker in play.scenario.brokers:
        state = "registered" if broker in registered else "not registered"
        running = "" if cluster.brokers[broker].alive else ", down"
        rack = f" ({play.scenario.racks[broker]})" if broker in play.scenario.racks else ""
        lines.append([(f"  broker {broker}{rack} {state}{running}", "" if broker in registered else "red")])
    lines.append([])
    return lines


def verdicts(play: Play) -> list[Line]:
    """Return what was expected and whether it held, then the invariants that broke."""
    lines: list[Line] = [[("Expectations", "bold")]] if play.verdicts else []
    for verdict in play.verdicts:
        mark = ("  holds   ", "green") if verdict.held else (f"  {BROKEN}  ", "bold red")
        lines.append([mark, (f"{format_time(verdict.at_us)}  line {verdict.line:<4} {verdict.name}", "")])
        lines.extend([(f"            {failure}", "red")] for failure in verdict.failures)
    lines.extend([("  BROKEN  ", "bold red"), (f"invariant {violation}", "")] for violation in play.violations)
    if not play.violations:
        lines.append([("  holds   ", "green"), ("at every event:", "")])
        lines.extend([(f"            {name}", "")] for name in play.invariants)
    lines.append([])
    return lines


def conclusion(play: Play, replay: str) -> list[Line]:
    """Return the last line: all is well, or the one command that shows the failure again."""
    count = len(play.verdicts)
    if play.held:
        return [[(f"{play.scenario.path}: all {count} expectations hold (seed {play.seed})", "bold green")]]
    if play.crash is not None:
        what = f"the simulation itself failed (seed {play.seed}); this is a bug of simzk"
        lines: list[Line] = [[(line, "red")] for line in play.crash.traceback.splitlines()]
        lines += [[(f"{play.scenario.path}: {what}", "bold red")], [("play it again with: ", ""), (replay, "bold")]]
        return lines
    broken = sum(not verdict.held for verdict in play.verdicts)
    what = f"{broken} of {count} expectations do not hold" if broken else f"{len(play.violations)} invariants broke"
    return [
        [(f"{play.scenario.path}: {what} (seed {play.seed})", "bold red")],
        [("play it again with: ", ""), (replay, "bold")],
    ]


def plain(lines: Iterable[Line]) -> str:
    """Return lines as plain text, each ended by a newline."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def verdict_piece(event: Event) -> tuple[str, str]:
    """Return what an expectation found, and its style."""
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
