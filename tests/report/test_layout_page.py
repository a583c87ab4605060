"""The page of a layout shows its tables, for any number of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.report.pages import LayoutTables, layout_page

if TYPE_CHECKING:
    from simzk.report.table import Columns

NAMES = ("leads", "follows", "out of sync", "holds")


def tables(brokers: int, rack: str = "east") -> LayoutTables:
    loads = {name: [7] * brokers for name in NAMES}
    spread: Columns = {"partitions": ["7"], "brokers": [brokers]}
    return LayoutTables(
        title="big.parquet",
        facts={"fact": ["offline", "topics"], "value": ["3 of 9", "2"], "good": [False, None]},
        racks={"rack": [rack], **{name: [21] for name in NAMES}} if brokers else {},
        brokers={"broker": list(range(brokers)), **loads},
        spread={"lead": spread} if brokers > 40 else {},
    )


@pytest.mark.parametrize(("brokers", "kind"), [(3, '"type":"bar"'), (300, '"mode":"lines"')])
def test_brokers_are_bars_or_lines(brokers: int, kind: str) -> None:
    html = layout_page(tables(brokers))
    _, _, plot = html.partition('id="brokers"')
    assert kind in plot.partition("</script>")[0]
    assert ("Live brokers by number of partitions that they lead" in html) == (brokers > 40)
    assert '<tr class="bad"><td>offline</td><td>3 of 9</td></tr><tr><td>topics</td><td>2</td></tr>' in html
    assert html == layout_page(tables(brokers)), "the same tables make the same bytes"


def test_a_layout_of_nothing_has_a_page() -> None:
    html = layout_page(tables(0))
    assert "No racks." in html
    assert "No brokers." in html
    assert "<script" not in html


def test_names_are_text() -> None:
    html = layout_page(tables(3, rack="<b>east</b>"))
    assert "<td>&lt;b&gt;east&lt;/b&gt;</td>" in html
    assert "<td><b>east" not in html
