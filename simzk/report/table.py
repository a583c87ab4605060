"""Tables as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from simzk.report.markup import escape

Columns: TypeAlias = Mapping[str, Sequence[object]]
"""A table: columns of equal length, by name."""

MARKS = {True: "good", False: "bad"}
"""CSS class of a row, by the value in its marking column."""


class CellLink(NamedTuple):
    """A cell that leads to another place of its page: its text, and the id of the place."""

    text: str
    target: str

    def __str__(self) -> str:
        return self.text


def length(columns: Columns) -> int:
    """Return the number of rows of a table."""
    lengths = {len(column) for column in columns.values()}
    assert len(lengths) <= 1, f"columns of different lengths: { ({name: len(c) for name, c in columns.items()}) }"
    return lengths.pop() if lengths else 0


def to_html(columns: Columns, *, marked_by: str = "") -> str:
    """Return a table as HTML.

    Args:
        columns: the table; None is an empty cell, a float has three decimals.
        marked_by: a column that marks rows as good (True), bad (False) or neither (None), and is not shown.

    >>> to_html({"name": ["a<b"], "held": [False]}, marked_by="held")
    '<table><thead><tr><th>name</th></tr></thead><tbody><tr class="bad"><td>a&lt;b</td></tr></tbody></table>'
    """
    return _whole(head(columns, marked_by=marked_by), rows(columns, marked_by=marked_by))


def _whole(heading: str, body: Sequence[str]) -> str:
    return f"<table>{heading}<tbody>{''.join(body)}</tbody></table>"


def to_html_within(columns: Columns, bytes_max: int, *, marked_by: str = "") -> tuple[str, int]:
    """Return the first rows of a table that fit into a number of bytes, as HTML, and the number of the other rows.

    >>> to_html_within({"n": [1, 2, 3]}, 100)[1]
    1
    """
    body, size = rows(columns, marked_by=marked_by), 0
    for count, row in enumerate(body):
        size += len(row.encode())
        if size > bytes_max:
            return _whole(head(columns, marked_by=marked_by), body[:count]), len(body) - count
    return _whole(head(columns, marked_by=marked_by), body), 0


def head(columns: Columns, *, marked_by: str = "") -> str:
    """Return the row of headings as HTML."""
    cells = "".join(
        f"<th{_number(column)}>{escape(name)}</th>" for name, column in columns.items() if name != marked_by
    )
    return f"<thead><tr>{cells}</tr></thead>"


def _number(column: Sequence[object]) -> str:
    """Return the attribute of a column of numbers."""
    first = next((value for value in column if value is not None), None)
    return ' class="number"' if isinstance(first, (int, float)) and not isinstance(first, bool) else ""


def rows(columns: Columns, *, marked_by: str = "") -> list[str]:
    """Return each row as HTML."""
    shown = [name for name in columns if name != marked_by]
    marks = [""] * length(columns)
    if marked_by:
        marks = ["" if value is None else f' class="{MARKS[bool(value)]}"' for value in columns[marked_by]]
    values = zip(*(columns[name] for name in shown), strict=True)
    return [f"<tr{mark}>{''.join(map(_cell, row))}</tr>" for mark, row in zip(marks, values, strict=True)]


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, CellLink):
        return f'<td><a href="#{escape(value.target)}">{escape(value.text)}</a></td>'
    if isinstance(value, float):
        return f'<td class="number">{value:.3f}</td>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number">{value}</td>'
    return f"<td>{escape(str(value))}</td>"
