"""How `simzk layout plan` lays out on a screen what a plan would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape
from rich.table import Table

from simzk.cli.layout.tables import EXTREMES, MOST_LISTED, NARROW_WIDTH, alarm, console
from simzk.partitions.arrays import NONE, sizes, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.plans.what_if import Moved, PhaseReport, PlanReport

    Amount = Callable[[int], str]
    Total = Callable[[NDArray[np.int64]], NDArray[np.int64]]

MOST_PARTITIONS = 10
"""How many partitions are listed one by one."""

_STANDS = (
    "widened: the new replicas are told to join; joined: all of the target is in sync; led: one of it leads; "
    "removed: the old replicas are gone; finished: nothing but the target is assigned"
)


def show_plan(name: str, told: PlanReport, *, version: str, failed: list[int]) -> None:
    """Print what a plan would do."""
    screen = console()
    screen.print(_facts(f"{name}, as Kafka {version} carries it out", told))
    screen.print(_phase_table(told, narrow=screen.width < NARROW_WIDTH))
    if failed:
        screen.print(_failure_table(told, failed))
    if told.what_if.layout.brokers.rack_names:
        by_rack = _by_rack(told)
        screen.print(_load_table("rack", "racks", told, by_rack, range(len(by_rack.names))))
    screen.print(_broker_table(told))
    screen.print(_partition_table(told))


def _facts(title: str, told: PlanReport) -> Table:
    diff, waits, brokers = told.what_if.diff, told.what_if.phases.waits, told.what_if.layout.brokers
    named = len(diff.rows)
    table = Table(title=escape(title), title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for fact, count in (
        ("partitions", named),
        ("  get replicas", int((sizes(diff.adding) > 0).sum())),
        ("  lose replicas", int((sizes(diff.removing) > 0).sum())),
        ("  change their order alone", int(diff.order_only.sum())),
        ("  stay as they are", int(diff.unchanged.sum())),
        ("  get another preferred leader", int(diff.preferred_changed.sum())),
    ):
        table.add_row(fact, f"{count:,}")
    table.add_row("  wait for ever", alarm(int(waits.sum()), named))
    table.add_row("replicas copied", _copied(told.replicas, "{:,}".format))
    table.add_row("replicas deleted", f"{told.replicas.deleted.sum():,}")
    if told.data is not None:
        table.add_row("data copied", _copied(told.data, amount))
        table.add_row("data deleted", amount(int(told.data.deleted.sum())))
    if brokers.all_have_racks:
        worse = int((diff.breaks_racks & ~diff.broke_racks).sum())
        mended = int((diff.broke_racks & ~diff.breaks_racks).sum())
        before, after = (told.at(phase).summary.rack_violations for phase in ("before", "finished"))
        table.add_row("rack violations", f"{before:,} before, {after:,} after")
        table.add_row("  new ones", alarm(worse, named))
        table.add_row("  mended", f"{mended:,}")
    return table


def _copied(moved: Moved, shown: Amount) -> str:
    text = f"{shown(moved.copied)}, {shown(moved.cross_rack)} between racks"
    return text + (f", [red]{shown(moved.unsourced)} cannot be[/red]" if moved.unsourced else "")


def _phase_table(told: PlanReport, *, narrow: bool) -> Table:
    title = "after each phase, if all partitions had come just so far"
    table = Table(title=title, title_justify="left", caption=_STANDS, caption_justify="left")
    table.add_column("after", no_wrap=True)
    headings = ("assigned", "preferred led", "offline", "under min ISR", "at min ISR", "1 in sync")
    for heading in headings if narrow else (*headings, "worst failure", "writes"):
        table.add_column(heading, justify="right", overflow="fold")
    for phase in told.phases:
        exposed, summary = phase.exposure, phase.summary
        worst = "-" if exposed.worst_broker == NONE else f"broker {exposed.worst_broker}: {exposed.worst_offline:,}"
        cells = [
            phase.name,
            f"{summary.by_broker.replicas.sum():,}",
            f"{summary.preferred_led:,}",
            _red(exposed.offline),
            _red(exposed.under_min_isr),
            f"{exposed.at_min_isr:,}",
            f"{exposed.last_in_sync:,}",
        ]
        table.add_row(*cells if narrow else (*cells, worst, f"{phase.writes:,}"))
    return table


def _failure_table(told: PlanReport, failed: list[int]) -> Table:
    who = f"broker{'s' * (len(failed) > 1)} {', '.join(map(str, failed))}"
    table = Table("after", title=f"if {who} failed then", title_justify="left")
    for heading in ("offline", "of them new", "under min ISR", "leaders moved", "busiest broker leads"):
        table.add_column(heading, justify="right")
    for phase in told.phases:
        left = phase.failure
        assert left is not None, "it was asked for"
        table.add_row(
            phase.name,
            _red(left.offline),
            _red(left.newly_offline),
            _red(left.under_min_isr),
            f"{left.leaders_moved:,}",
            f"{left.busiest_leaders:,}",
        )
    return table


class _Load:
    """What some brokers, or racks, hold and move: columns over them."""

    def __init__(self, names: list[str], told: PlanReport, group: NDArray[np.intp], count: int) -> None:
        def total(column: NDArray[np.int64]) -> NDArray[np.int64]:
            found = np.zeros(count, np.int64)
            np.add.at(found, group[group != NONE], column[group != NONE])
            return found

        before, after = told.at("before"), told.at("finished")
        self.names = names
        self.replicas = [total(phase.summary.by_broker.replicas) for phase in (before, after)]
        self.replicas.insert(1, total(told.peak_replicas()))
        self.leaders = [total(phase.summary.by_broker.leaders) for phase in (before, after)]
        self.preferred = [total(phase.summary.by_broker.preferred) for phase in (before, after)]
        moved = told.replicas if told.data is None else told.data
        self.moved = [total(moved.copied_in), total(moved.copied_out)]
        peak = told.peak_bytes()
        self.held = None if peak is None else [_bytes_of(before, total), total(peak), _bytes_of(after, total)]


def _bytes_of(phase: PhaseReport, total: Total) -> NDArray[np.int64]:
    assert phase.held_bytes is not None
    return total(phase.held_bytes)


def _by_rack(told: PlanReport) -> _Load:
    brokers = told.what_if.layout.brokers
    number = {name: at for at, name in enumerate(brokers.rack_names)}
    group = np.array([NONE if rack is None else number[rack] for rack in brokers.racks], np.intp)
    return _Load(list(brokers.rack_names), told, group, len(number))


def _broker_table(told: PlanReport) -> Table:
    brokers = told.what_if.layout.brokers
    count = len(brokers.ids)
    load = _Load([str(broker) for broker in brokers.ids.tolist()], told, np.arange(count), count)
    if count <= MOST_LISTED:
        return _load_table("broker", "brokers", told, load, range(count))
    order = np.lexsort((np.arange(count), -load.moved[0]))
    chosen = [*order[:EXTREMES].tolist(), *np.lexsort((np.arange(count), -load.moved[1]))[:EXTREMES].tolist()]
    title = f"the {EXTREMES} brokers to which most is copied, and the {EXTREMES} from which most is"
    return _load_table("broker", title, told, load, dict.fromkeys(chosen))


def _load_table(what: str, title: str, told: PlanReport, load: _Load, chosen: Iterable[int]) -> Table:
    table = Table(what, title=title, title_justify="left")
    shown = "{:,}".format if told.data is None else amount
    headings = ["replicas", "leaders", "preferred", "copied in", "copied out"]
    for heading in [*headings, "data"] if load.held is not None else headings:
        table.add_column(heading, justify="right")
    for at in chosen:
        cells = [_becomes(load.replicas, at, "{:,}".format), _becomes(load.leaders, at, "{:,}".format)]
        cells += [_becomes(load.preferred, at, "{:,}".format), *(shown(int(column[at])) for column in load.moved)]
        if load.held is not None:
            cells.append(_becomes(load.held, at, amount))
        table.add_row(escape(load.names[at]), *cells)
    return table


def _becomes(columns: Sequence[NDArray[np.integer]], at: int, shown: Amount) -> str:
    """Before, the most in between, after; one number where they are one."""
    values = [int(column[at]) for column in columns]
    if len(set(values)) == 1:
        return shown(values[0])
    if len(values) == 3 and values[1] == max(values[0], values[2]):
        del values[1]
    return " → ".join(map(shown, values))


def _partition_table(told: PlanReport) -> Table:
    what_if = told.what_if
    diff, phases, layout = what_if.diff, what_if.phases, what_if.layout
    changed = np.flatnonzero(~diff.unchanged)
    left = len(changed) - MOST_PARTITIONS
    table = Table("partition", "replicas", "adds", "removes", title="partitions", title_justify="left")
    table.add_column("leader", justify="right")
    table.add_column("leader epoch", justify="right")
    table.add_column("")
    if left > 0:
        table.caption = f"and {left:,} more; --diff FILE writes all"
    before, after = phases.at("before").states, phases.at("finished").states
    for at in changed[:MOST_PARTITIONS].tolist():
        lists = (diff.before, diff.after, diff.adding, diff.removing)
        present, target, adds, removes = (", ".join(map(str, unpack(ids[at : at + 1])[0])) for ids in lists)
        row = diff.rows[at]
        notes = ["waits for ever"] if phases.waits[at] else []
        notes += ["breaks the rack rule"] if diff.breaks_racks[at] and not diff.broke_racks[at] else []
        table.add_row(
            escape(f"{layout.topics[layout.topic[row]]}-{layout.partition[row]}"),
            f"{present} → {target}",
            adds or "-",
            removes or "-",
            _becomes([before.leader, after.leader], at, str),
            _becomes([before.leader_epoch, after.leader_epoch], at, str),
            f"[red]{', '.join(notes)}[/red]" if notes else "",
        )
    return table


def _red(count: int) -> str:
    return f"[red]{count:,}[/red]" if count else "0"


def amount(size_bytes: int) -> str:
    """Bytes as people say them.

    >>> amount(1023), amount(1536), amount(5 * 2**40)
    ('1023 B', '1.5 KiB', '5.0 TiB')
    """
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1024 or unit == "PiB":
            break
    return f"{size:,.1f} {unit}"
