"""Tables as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeAlias

Columns: TypeAlias = Mapping[str, Sequence[object]]
"""A table: columns of equal length, by name."""

MARKS = {True: "good", False: "bad"}
"""CSS class of a row, by the value in its marking column."""


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
    shown = [name for name in columns if name != marked_by]
    head = "".join(f"<th>{escape(name)}</th>" for name in shown)
    marks = [""] * length(columns)
    if marked_by:
        marks = ["" if value is None else f' class="{MARKS[bool(value)]}"' for value in columns[marked_by]]
    rows = zip(*(columns[name] for name in shown), strict=True)
    body = "".join(
        f"<tr{mark}>{''.join(_cell(value) for value in row)}</tr>" for mark, row in zip(marks, rows, strict=True)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, float):
        return f'<td class="number">{value:.3f}</td>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number">{value}</td>'
    return f"<td>{escape(str(value))}</td>"
