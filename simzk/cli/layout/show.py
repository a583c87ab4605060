"""`simzk layout show`: facts of a layout and loads of racks and brokers, on a console and as an HTML page.

More than `MOST_LISTED` brokers or racks are shown as a histogram of their loads and a table of the extremes, unless
`--all-brokers` is given.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.table import Table

from simzk.cli.console import (
    FOLLOWS,
    KEY,
    LEADS,
    OUT_OF_SYNC,
    PLAIN_KEY,
    Bar,
    console,
    escape,
    fact_table,
    histogram,
    write_text,
)
from simzk.partitions.layouts import BrokerLoad, Layout, LayoutSummary, elect_offline_leaders, exposure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simzk.report.table import Columns

MOST_LISTED = 40
"""Maximum number of brokers or racks that are listed one by one."""

EXTREMES = 5
"""Number of the most and of the least loaded ones that are listed instead."""

NAMED_BROKERS = 10
"""Maximum number of brokers that a fact names."""

NARROW_WIDTH = 90
"""Width below which tables have fewer columns, so that numbers and bars are not cut."""


class Fact(NamedTuple):
    """A fact of a layout; `good` is None for a neutral one."""

    name: str
    value: str
    good: bool | None = None


def show_layout(name: str, layout: Layout, summary: LayoutSummary, *, all_brokers: bool) -> None:
    """Print the summary of a layout."""
    brokers = layout.brokers
    screen = console()
    facts = facts_of(layout, summary)
    screen.print(
        fact_table(name, ((what, f"[red]{value}[/red]" if good is False else value) for what, value, good in facts))
    )
    narrow = screen.width < NARROW_WIDTH
    key = PLAIN_KEY if screen.options.ascii_only else KEY
    if summary.by_rack:
        names, members = list(summary.by_rack), Counter(brokers.racks)
        loads = rack_loads(summary)
        chosen = _chosen(loads, all_of=all_brokers)
        table = _table("rack", "brokers", len(names), chosen, key, narrow=narrow)
        for at in chosen:
            table.add_row(escape(names[at]), f"{members[names[at]]:,}", *_load_cells(loads, at, narrow=narrow))
        screen.print(table)
    chosen = _chosen(summary.by_broker, all_of=all_brokers)
    if len(chosen) < len(brokers.ids):
        for what, loads_of in (("lead", summary.by_broker.leaders), ("replicate", summary.by_broker.replicas)):
            screen.print(_histogram(what, loads_of[brokers.live]))
    table = _table("broker", "rack", len(brokers.ids), chosen, key, narrow=narrow)
    for at in chosen:
        broker = brokers.name_of(at) if brokers.live[at] else f"{brokers.name_of(at)} [red]down[/red]"
        table.add_row(broker, escape(brokers.racks[at] or "-"), *_load_cells(summary.by_broker, at, narrow=narrow))
    screen.print(table)


def facts_of(layout: Layout, summary: LayoutSummary) -> list[Fact]:
    """Return the facts of a layout, in order."""
    brokers, partitions, exposed = layout.brokers, summary.partitions, exposure(elect_offline_leaders(layout))
    down = int(np.count_nonzero(~brokers.live))
    factors = ", ".join(f"{factor} ({count:,})" for factor, count in summary.replication_factors.items())
    at_risk = exposed.last_in_sync
    worst = f", {exposed.worst_offline:,} of them on broker {exposed.worst_broker}" if at_risk else ""
    found = [
        Fact(
            "brokers", f"{len(brokers.ids):,}" + (f", {down:,} of them down" if down else ""), False if down else None
        ),
        Fact("racks", f"{len(brokers.rack_names):,}" if brokers.rack_names else "unknown"),
        Fact("topics", f"{summary.topics:,}"),
        Fact("partitions", f"{partitions:,}"),
        Fact("replication factor", factors or "-"),
        Fact("preferred leaders", _share(summary.preferred_led, partitions)),
        _never("offline", summary.offline, partitions),
        _never("under-replicated", summary.under_replicated, partitions),
        _never("under min ISR", summary.under_min_isr, partitions),
        Fact("one in sync", (_share(at_risk, partitions) if at_risk else "0") + worst),
    ]
    if brokers.all_have_racks:
        found.append(_never("rack violations", summary.rack_violations, partitions))
    if summary.reassigning:
        moves = "; ".join(
            f"{what} {_ids(brokers)}"
            for what, brokers in (("gain:", summary.gaining), ("lose:", summary.losing))
            if brokers
        )
        found.append(Fact("being reassigned", f"{_share(summary.reassigning, partitions)}; brokers that {moves}"))
    for name, skew in (("replica skew", summary.replica_skew), ("leader skew", summary.leader_skew)):
        found.append(Fact(name, f"{skew:.2f} (maximum / mean per broker)"))
    return found


def _ids(brokers: Sequence[int]) -> str:
    """Return the first brokers of a list as text."""
    more = len(brokers) - NAMED_BROKERS
    return ", ".join(map(str, brokers[:NAMED_BROKERS])) + (f" and {more:,} more" if more > 0 else "")


def _never(name: str, count: int, whole: int) -> Fact:
    """Return a fact that is good if its count is zero."""
    return Fact(name, _share(count, whole) if count else "0", not count)


def _table(what: str, beside: str, count: int, chosen: Sequence[int], key: str, *, narrow: bool) -> Table:
    """Return a table of loads without rows."""
    title, caption = f"{what.capitalize()}s", key
    if len(chosen) < count:
        title += f" with the most ({EXTREMES}) and the fewest ({EXTREMES}) leaders"
        caption += "; --all-brokers lists all brokers"
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column(what, justify="right" if what == "broker" else "left", overflow="fold")
    table.add_column(beside, justify="left" if beside == "rack" else "right", overflow="fold")
    for heading in ("partitions", "leads") if narrow else ("partitions", "leads", "preferred", "out of sync"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("")
    return table


def _chosen(load: BrokerLoad, *, all_of: bool) -> Sequence[int]:
    """Return the rows to list: all of a few, else the extremes."""
    count = len(load.leaders)
    if all_of or count <= MOST_LISTED:
        return range(count)
    order = np.lexsort((np.arange(count), -load.leaders))
    return [*order[:EXTREMES].tolist(), *order[-EXTREMES:].tolist()]


def rack_loads(summary: LayoutSummary) -> BrokerLoad:
    """Return the loads of racks as columns."""
    loads = summary.by_rack.values()
    rows = [(load.replicas, load.leaders, load.preferred, load.preferred_led, load.out_of_sync) for load in loads]
    return BrokerLoad(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def _load_cells(load: BrokerLoad, at: int, *, narrow: bool) -> tuple[str | Bar, ...]:
    """Return the cells of a broker or rack: partitions, leaders, preferred leaders, out-of-sync replicas, a bar."""
    held, leads, out = int(load.replicas[at]), int(load.leaders[at]), int(load.out_of_sync[at])
    bar = Bar((leads, held - out - leads, out), (LEADS, FOLLOWS, OUT_OF_SYNC), int(load.replicas.max()))
    if narrow:
        return f"{held:,}", f"{leads:,}", bar
    preferred = _share(int(load.preferred_led[at]), int(load.preferred[at]))
    return f"{held:,}", f"{leads:,}", preferred, f"{out:,}", bar


def _histogram(what: str, loads: NDArray[np.int64]) -> Table:
    bins = histogram(loads.tolist())
    most = max((count for _, _, count in bins), default=0)
    table = Table(title=f"Live brokers by number of partitions that they {what}", title_justify="left")
    table.add_column("partitions", justify="right")
    table.add_column("brokers", justify="right")
    table.add_column("")
    for first, last, count in bins:
        table.add_row(_range(first, last), f"{count:,}", Bar([count], [LEADS], most))
    return table


def _range(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else "none"


def alarm(count: int, whole: int) -> str:
    """Return a count in red unless it is zero."""
    return f"[red]{_share(count, whole)}[/red]" if count else "0"


def document_of(name: str, layout: Layout, summary: LayoutSummary) -> dict[str, object]:
    """Return the summary of a layout for `--json`: its numbers, and the loads of racks and brokers."""
    exposed = exposure(elect_offline_leaders(layout))
    numbers = {
        field.name: getattr(summary, field.name)
        for field in fields(summary)
        if field.name not in ("by_broker", "by_rack", "replication_factors")
    }
    brokers = zip(layout.brokers.ids.tolist(), layout.brokers.racks, layout.brokers.live.tolist(), strict=True)
    by_rack = _rows(rack_loads(summary)) if summary.by_rack else []
    return {
        "layout": name,
        **numbers,
        "replication_factors": {str(factor): count for factor, count in summary.replication_factors.items()},
        "exposure": exposed._asdict(),
        "racks": [{"rack": rack} | load for rack, load in zip(summary.by_rack, by_rack, strict=True)],
        "brokers": [
            {"broker": broker, "rack": rack, "live": live} | load
            for (broker, rack, live), load in zip(brokers, _rows(summary.by_broker), strict=True)
        ],
    }


def _rows(load: BrokerLoad) -> list[dict[str, int]]:
    columns = {field.name: getattr(load, field.name).tolist() for field in fields(load)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write_page(name: str, layout: Layout, summary: LayoutSummary, path: Path) -> None:
    """Write the HTML page of a layout.

    Raises:
        ConfigError: the file cannot be written.
    """
    from simzk.report.pages import LayoutTables, layout_page

    brokers, load = layout.brokers, summary.by_broker
    facts = facts_of(layout, summary)
    states = ["live" if live else "down" for live in brokers.live.tolist()]
    beside: Columns = {"rack": list(brokers.racks), "state": states}
    tables = LayoutTables(
        title=name,
        facts={
            "fact": [fact.name for fact in facts],
            "value": [fact.value for fact in facts],
            "good": [fact.good for fact in facts],
        },
        racks=_loads("rack", list(summary.by_rack), rack_loads(summary), {}) if summary.by_rack else {},
        brokers=_loads("broker", brokers.ids.tolist(), load, beside),
        spread={
            what: _spread(histogram(column[brokers.live].tolist()))
            for what, column in (("lead", load.leaders), ("replicate", load.replicas))
            if len(column) > MOST_LISTED
        },
    )
    write_text(path, layout_page(tables))


def _loads(what: str, names: list[object], load: BrokerLoad, beside: Columns) -> Columns:
    return {
        what: names,
        **beside,
        "leads": load.leaders.tolist(),
        "follows": (load.replicas - load.leaders - load.out_of_sync).tolist(),
        "out of sync": load.out_of_sync.tolist(),
        "holds": load.replicas.tolist(),
        "preferred leader of": load.preferred.tolist(),
        "and leads them": load.preferred_led.tolist(),
    }


def _spread(bins: list[tuple[int, int, int]]) -> Columns:
    return {
        "partitions": [_range(first, last) for first, last, _ in bins],
        "brokers": [count for _, _, count in bins],
    }
