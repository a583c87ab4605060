"""HTML page in one file: a title and sections with text, tables and plots."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.report import charts as timeline
from simzk.report import table
from simzk.report.charts import Areas, Bars

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.report.table import Columns

STYLE = """
:root { color-scheme: light; font: 15px/1.45 system-ui, sans-serif; color: #1b1f24; background: #fff; }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .3rem 0; max-width: 60rem; } code { background: #f2f4f6; padding: .1rem .3rem; border-radius: 3px; }
.plotly-graph-div { margin-bottom: 1.2rem; }
.scroll { overflow: auto; max-height: 34rem; border: 1px solid #d8dee4; border-radius: 4px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #eaeef2; vertical-align: top; }
th { position: sticky; top: 0; background: #f6f8fa; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.bad td { background: #ffebe9; } tr.good td:first-child { box-shadow: inset 4px 0 #2da44e; }
tr.bad td:first-child { box-shadow: inset 4px 0 #cf222e; }
""".strip()


class Text(NamedTuple):
    """A paragraph; with `code`, a command."""

    text: str
    code: bool = False

    def to_html(self) -> str:
        """Return the HTML."""
        return f"<p><code>{escape(self.text)}</code></p>" if self.code else f"<p>{escape(self.text)}</p>"


class Table(NamedTuple):
    """A table; `marked_by` as in `table.to_html`."""

    columns: Columns
    marked_by: str = ""

    def to_html(self) -> str:
        """Return the HTML."""
        return f'<div class="scroll">{table.to_html(self.columns, marked_by=self.marked_by)}</div>'


class Timeline(NamedTuple):
    """A heat map of spans; arguments as in `charts.to_html`."""

    spans: Columns
    name: str
    colours: Mapping[str, str]
    dated: bool = False

    def to_html(self) -> str:
        """Return the HTML."""
        return timeline.to_html(self.spans, name=self.name, colours=self.colours, dated=self.dated)


Part: TypeAlias = Text | Table | Timeline | Bars | Areas
"""An element of a section."""

PLOTS = (Timeline, Bars, Areas)
"""Elements that need plotly's script."""


class Section(NamedTuple):
    """A section of a page, with a title of level 2 or 3."""

    title: str
    parts: Sequence[Part]
    level: int = 2

    def to_html(self) -> str:
        """Return the HTML."""
        parts = "\n".join(part.to_html() for part in self.parts)
        return f"<h{self.level}>{escape(self.title)}</h{self.level}>\n{parts}"


def to_html(title: str, introduction: Sequence[Text], sections: Sequence[Section]) -> str:
    """Return a page.

    Args:
        title: the title.
        introduction: paragraphs below the title.
        sections: the sections in order.

    Returns:
        a self-contained HTML document.
    """
    script = ""
    if any(isinstance(part, PLOTS) for section in sections for part in section.parts):
        from plotly.offline import get_plotlyjs

        script = f"<script>{get_plotlyjs()}</script>\n"
    body = "\n".join([*(text.to_html() for text in introduction), *(section.to_html() for section in sections)])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>\n{script}</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
