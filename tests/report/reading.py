"""Reading of pages in tests: texts by tag, tables, charts, and what a page could fetch."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.report.packed import DEFLATED, JSON

if TYPE_CHECKING:
    from simzk.report.znode_tree import ZnodeDifferences

VOID = {"meta", "br", "img", "link", "input"}


class Shape(NamedTuple):
    """A shape of a chart: its tag, its class, its attributes and the text under the pointer."""

    tag: str
    style: str
    attributes: dict[str, str]
    title: str


class Reader(HTMLParser):
    """Parser of a page; asserts that every tag is closed.

    Attributes:
        texts: texts by tag.
        marks: class of each row of a table, in order.
        fetched: addresses outside of the page that it could fetch.
        ids, targets: ids, and the ids that links lead to.
        charts: shapes of each chart by the id of the chart and the name of the row.
        data: the values of data blocks, compressed or not.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.texts: dict[str, list[str]] = {}
        self.marks: list[str | None] = []
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.charts: dict[str, dict[str, list[Shape]]] = {}
        self.data: list[dict[str, Any]] = []
        self._chart = self._row = ""
        self._is_name = False
        self._data_type: str | None = None
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("class") or ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids += [value for name, value in found.items() if name == "id"]
        if tag == "tr":
            self.marks.append(found.get("class"))
        self._data_type = found.get("type") if tag == "script" else None
        for name in ("src", "href", "action", "data"):
            address = found.get(name, "")
            if address.startswith("#"):
                self.targets.append(address[1:])
            elif address:
                self.fetched.append(address)
        if tag == "figure":
            self._chart = found["id"]
            self.charts[self._chart] = {}
        self._is_name = tag == "span" and found.get("class") == "name"
        if tag in ("rect", "path", "line", "text") or found.get("class", "").startswith("sign "):
            self.charts.get(self._chart, {}).get(self._row, []).append(Shape(tag, found.get("class", ""), found, ""))

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self.open.pop()
        self._data_type = None
        assert opened == tag
        if tag == "figure":
            self._chart = ""

    def handle_data(self, data: str) -> None:
        if not self.open:
            return
        tag, _ = self.open[-1]
        self.texts.setdefault(tag, []).append(data)
        if self._data_type == JSON:
            self.data.append(json.loads(data))
        elif self._data_type == DEFLATED:
            self.data.append(json.loads(zlib.decompress(base64.b64decode(data))))
        if self._is_name:
            self._row = data
            self.charts[self._chart].setdefault(data, [])
        elif tag == "title" and self._chart:
            shapes = self.charts[self._chart][self._row]
            shapes[-1] = shapes[-1]._replace(title=data)


def titles(html: str, chart: str) -> dict[str, list[tuple[str, str]]]:
    """Return the style and the text of each shape of a chart that has a text, by row."""
    rows = Reader(html).charts[chart]
    return {row: [(shape.style, shape.title) for shape in shapes if shape.title] for row, shapes in rows.items()}


def tree_at(found: ZnodeDifferences, moment: int) -> dict[str, str]:
    """Return the data of all znodes after a moment, by path, as the script of the page computes it."""
    tree = {found.paths[path]: data for path, data in found.start}
    for change in found.changes:
        path = found.paths[change[1]]
        if change[0] > moment:
            break
        if len(change) == 2:
            tree.pop(path, None)
            continue
        _, _, begin, end, between = change
        before = tree.get(path, "")
        tree[path] = f"{before[:begin]}{between}{before[len(before) - end :]}"
    return tree
