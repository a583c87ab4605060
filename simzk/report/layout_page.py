"""Page of a layout: facts, loads of racks and brokers, and their distribution.

Tables of a layout (`LayoutTables`), loads in partitions:
  - `facts`: `fact`, `value`, and `good`, None for a neutral fact;
  - `racks`, `brokers`: `rack` or `broker`, and the partitions that it `leads`, `follows`, has `out of sync`, and
    `holds`;
  - `spread`: by load (`lead`, `replicate`) the number of live `brokers` per number of `partitions`; empty for few
    brokers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.report import page
from simzk.report.charts import MOST_UPRIGHT, Bars
from simzk.report.page import Section, Table, Text
from simzk.report.table import length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.report.page import Part
    from simzk.report.table import Columns

COLOURS = {"leads": "#4c78a8", "follows": "#9ecae9", "out of sync": "#cf222e"}
HELD = {"leads": COLOURS["leads"], "holds": "#9ecae9", "out of sync": COLOURS["out of sync"]}
SPREAD_COLOUR = {"brokers": "#4c78a8"}


@dataclass(frozen=True)
class LayoutTables:
    """A layout as tables (see above), and its title."""

    title: str
    facts: Columns
    racks: Columns
    brokers: Columns
    spread: Mapping[str, Columns]


def to_html(tables: LayoutTables) -> str:
    """Return the page of a layout."""
    sections = [Section("Summary", [Table(tables.facts, marked_by="good")])]
    for what, columns in (("rack", tables.racks), ("broker", tables.brokers)):
        sections.append(Section(f"Loads of {what}s", _loads(columns, what)))
    for what, columns in tables.spread.items():
        title = f"Live brokers by number of partitions that they {what}"
        bars = Bars(columns, f"spread-{what}", "partitions", SPREAD_COLOUR, "brokers", upright=True)
        sections.append(Section(title, [bars] if length(columns) else [Text("No broker is live.")]))
    return page.to_html(tables.title, [], sections)


def _loads(columns: Columns, what: str) -> list[Part]:
    if not length(columns):
        return [Text(f"No {what}s.")]
    if length(columns) > MOST_UPRIGHT:  # lines instead of stacked bars
        return [Bars(columns, f"{what}s", what, HELD, "partitions", upright=True), Table(columns)]
    return [Bars(columns, f"{what}s", what, COLOURS, "partitions", upright=True, stacked=True), Table(columns)]
