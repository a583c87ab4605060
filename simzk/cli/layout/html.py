"""A layout as the tables of a page, and the page in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.cli.console import histogram
from simzk.cli.layout.tables import MOST_LISTED, facts_of, rack_loads
from simzk.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.partitions.layouts import BrokerLoad, Layout, LayoutSummary
    from simzk.report.table import Columns


def write_page(name: str, layout: Layout, summary: LayoutSummary, path: Path) -> None:
    """Write the page of a layout.

    Raises:
        ConfigError: the file cannot be written.
    """
    from simzk.report.layout_page import LayoutTables, to_html

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
            for what, column in (("leads", load.leaders), ("holds", load.replicas))
            if len(column) > MOST_LISTED
        },
    )
    try:
        path.write_text(to_html(tables), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", where=str(path)) from error


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
        "partitions": [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last, _ in bins],
        "brokers": [count for _, _, count in bins],
    }
