"""The page of a layout shows its tables, for any number of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.report.page import PAGE_BYTES
from simzk.report.pages import LayoutTables, layout_page
from tests.report.reading import Reader

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


@pytest.mark.parametrize(("brokers", "tag"), [(3, "rect"), (300, "path"), (5000, "path")])
def test_brokers_are_bars_or_lines(brokers: int, tag: str) -> None:
    html = layout_page(tables(brokers))
    assert len(html.encode()) <= PAGE_BYTES
    (shapes,) = Reader(html).charts["brokers"].values()
    series = [shape for shape in shapes if shape.tag == tag]
    assert len(series) == (9 if brokers == 3 else 3), "three series of loads"
    assert ("Live brokers by number of partitions that they lead" in html) == (brokers > 40)
    assert '<tr class="bad"><td>offline</td><td>3 of 9</td></tr><tr><td>topics</td><td>2</td></tr>' in html
    assert html == layout_page(tables(brokers)), "the same tables make the same bytes"


def test_a_layout_of_nothing_has_a_page() -> None:
    html = layout_page(tables(0))
    assert "No racks." in html
    assert "No brokers." in html
    assert "<figure" not in html


def test_names_are_text() -> None:
    html = layout_page(tables(3, rack="<b>east</b>"))
    assert "<td>&lt;b&gt;east&lt;/b&gt;</td>" in html
    assert "<b>" not in html


def test_of_too_many_brokers_those_out_of_sync_and_with_the_most_leaders_are_listed() -> None:
    many = tables(5000)
    brokers = {**many.brokers, "out of sync": [int(at == 4999) for at in range(5000)]}
    read = Reader(layout_page(LayoutTables(many.title, many.facts, many.racks, brokers, many.spread)))
    listed = [int(text) for text in read.texts["td"] if text.isdigit()]
    assert 4999 in listed
    assert any(text.startswith("The first ") and " of 5,000 rows are shown." in text for text in read.texts["p"])
