"""How `simzk layout show` lays a layout out on a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simzk.partitions.layouts import BrokerLoad, Layout, LayoutSummary, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_BROKERS = 40
"""More brokers than this are not listed one by one, unless asked for."""

EXTREMES = 5
"""How many of the most and of the least loaded brokers are listed instead."""

PLAIN_WIDTH = 120
"""Width of what is written where there is no terminal."""


def console() -> Console:
    """Where tables go: the terminal as wide as it is, a file or pipe at a fixed width."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def show_layout(name: str, layout: Layout, *, all_brokers: bool) -> None:
    """Print the summary of a layout."""
    summary = summarize(layout)
    screen = console()
    screen.print(_facts(name, layout, summary))
    if summary.by_rack:
        screen.print(_rack_table(layout, summary))
    screen.print(_broker_table(layout, summary, all_brokers=all_brokers))


def _facts(name: str, layout: Layout, summary: LayoutSummary) -> Table:
    brokers, partitions = layout.brokers, summary.partitions
    down = int(np.count_nonzero(~brokers.live))
    factors = ", ".join(f"{factor} ({count:,})" for factor, count in summary.replication_factors.items())
    table = Table(title=escape(name), title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    table.add_row("brokers", f"{len(brokers.ids):,}" + (f", {down:,} of them down" if down else ""))
    table.add_row("racks", f"{len(brokers.rack_names):,}" if brokers.rack_names else "none known")
    table.add_row("topics", f"{summary.topics:,}")
    table.add_row("partitions", f"{partitions:,}")
    table.add_row("replication factor", factors or "-")
    table.add_row("preferred leaders", _share(summary.preferred_led, partitions))
    table.add_row("offline", alarm(summary.offline, partitions))
    table.add_row("under-replicated", alarm(summary.under_replicated, partitions))
    table.add_row("under min ISR", alarm(summary.under_min_isr, partitions))
    if brokers.all_have_racks:
        table.add_row("rack violations", alarm(summary.rack_violations, partitions))
    table.add_row("replica skew", f"{summary.replica_skew:.2f} (most / mean of a broker)")
    table.add_row("leader skew", f"{summary.leader_skew:.2f} (most / mean of a broker)")
    return table


def _rack_table(layout: Layout, summary: LayoutSummary) -> Table:
    table = Table("rack", title="racks", title_justify="left")
    for heading in ("brokers", "replicas", "leaders", "preferred leaders", "out of sync"):
        table.add_column(heading, justify="right")
    for rack, load in summary.by_rack.items():
        table.add_row(escape(rack), f"{layout.brokers.racks.count(rack):,}", *_load_cells(load, 0))
    return table


def _broker_table(layout: Layout, summary: LayoutSummary, *, all_brokers: bool) -> Table:
    brokers, load = layout.brokers, summary.by_broker
    few = all_brokers or len(brokers.ids) <= MOST_BROKERS
    title = "brokers" if few else f"the {EXTREMES} brokers that lead most and the {EXTREMES} that lead least"
    table = Table(title=title, title_justify="left", caption=None if few else "--all-brokers lists every one")
    table.add_column("broker", justify="right")
    table.add_column("rack")
    for heading in ("replicas", "leaders", "preferred leaders", "out of sync"):
        table.add_column(heading, justify="right")
    table.add_column("state")
    for position in range(len(brokers.ids)) if few else _extremes(load):
        table.add_row(
            str(brokers.ids[position]),
            escape(brokers.racks[position] or "-"),
            *_load_cells(load, position),
            "live" if brokers.live[position] else "[red]down[/red]",
        )
    return table


def _extremes(load: BrokerLoad) -> Iterable[int]:
    order = np.lexsort((np.arange(len(load.leaders)), -load.leaders))
    return [*order[:EXTREMES].tolist(), *order[-EXTREMES:].tolist()]


def _load_cells(load: BrokerLoad, index: int) -> tuple[str, str, str, str]:
    preferred = _share(int(load.preferred_led[index]), int(load.preferred[index]))
    return f"{load.replicas[index]:,}", f"{load.leaders[index]:,}", preferred, f"{load.out_of_sync[index]:,}"


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else "none"


def alarm(count: int, whole: int) -> str:
    """A count that should be nothing, in red where it is something."""
    return f"[red]{_share(count, whole)}[/red]" if count else "0"
