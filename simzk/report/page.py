"""HTML page in one file: a title and sections with text, tables and charts.

Rules of this module:
  - a page fetches nothing: its Content Security Policy permits only its own style and its own script, by their hashes;
  - it is complete without the script, which adds sorting, saving, filters and the znode tree;
  - `page.css` and `page.js` are in the page as they are in this package.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.report import table
from simzk.report.markup import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.report.table import Columns

PAGE_BYTES = 300_000
"""Maximum size of a page; parts of it that could be larger say what they leave out."""
TABLE_BYTES = 40_000
"""Maximum size of the rows of a table, unless another is given."""


class PagePart(Protocol):
    """An element of a section."""

    def to_html(self) -> str:
        """Return the HTML."""


class Text(NamedTuple):
    """A paragraph; with `code`, a command; with `style`, of a class of page.css."""

    text: str
    code: bool = False
    style: str = ""

    def to_html(self) -> str:
        kind = f' class="{self.style}"' if self.style else ""
        return f"<p{kind}><code>{escape(self.text)}</code></p>" if self.code else f"<p{kind}>{escape(self.text)}</p>"


class Table(NamedTuple):
    """A table.

    Args:
        columns: as in `table.to_html`.
        marked_by: as in `table.to_html`.
        bytes_max: maximum size of its rows; a sentence says how many rows are left out.
        rest: where the rows that are left out are, such as `the file brokers.parquet`.
        even: whether the columns have equal widths, except a short first one, and wrap long texts.
    """

    columns: Columns
    marked_by: str = ""
    bytes_max: int = TABLE_BYTES
    rest: str = ""
    even: bool = False

    def to_html(self) -> str:
        html, left = table.to_html_within(self.columns, self.bytes_max, marked_by=self.marked_by)
        kind = "scroll even" if self.even else "scroll"
        box = f'<div class="{kind}" tabindex="0" role="group" aria-label="Table">{html}</div>'
        if not left:
            return box
        count = table.length(self.columns)
        rest = f" All rows: {self.rest}." if self.rest else ""
        return box + Text(f"The first {count - left:,} of {count:,} rows are shown.{rest}", style="cut").to_html()


class Figures(NamedTuple):
    """Numbers that matter most, the most important first: what, its number as text, and whether it is good or bad."""

    figures: Sequence[tuple[str, str, bool | None]]

    def to_html(self) -> str:
        cells = "".join(
            f"<div{'' if good is None else f' class={table.MARKS[good]!r}'}><dt>{escape(what)}</dt>"
            f"<dd>{escape(value)}</dd></div>"
            for what, value, good in self.figures
        )
        return f'<dl class="figures">{cells}</dl>'


class Beside(NamedTuple):
    """Parts beside each other, as many as the width permits."""

    parts: Sequence[PagePart]

    def to_html(self) -> str:
        return f'<div class="beside">{"".join(f"<div>{part.to_html()}</div>" for part in self.parts)}</div>'


class Section(NamedTuple):
    """A section of a page, with a title of level 2 to 4, and an id that links lead to."""

    title: str
    parts: Sequence[PagePart]
    level: int = 2
    id: str = ""

    def to_html(self) -> str:
        parts = "\n".join(part.to_html() for part in self.parts)
        place = f' id="{escape(self.id)}"' if self.id else ""
        return f"<h{self.level}{place}>{escape(self.title)}</h{self.level}>\n{parts}"


def to_html(title: str, introduction: Sequence[PagePart], sections: Sequence[Section]) -> str:
    """Return a page, a self-contained HTML document: its title, the introduction below it, then the sections."""
    style, script = asset("page.css"), asset("page.js")
    style_source, script_source = sources()
    policy = (
        f"default-src 'none'; style-src {style_source}; script-src {script_source}; base-uri 'none'; form-action 'none'"
    )
    body = "\n".join([*(part.to_html() for part in introduction), *(section.to_html() for section in sections)])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<svg class="shared" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" '
        'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-back" width="6" height="6"/>'
        '<rect class="hatch-line" width="3" height="6"/></pattern></defs></svg>\n'
        f"<main>\n<h1>{escape(title)}</h1>\n{body}\n</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )


@cache
def sources() -> tuple[str, str]:
    """Return style and script of a page as source expressions of a Content Security Policy."""
    return f"'{_hash(asset('page.css'))}'", f"'{_hash(asset('page.js'))}'"


@cache
def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return files("simzk.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the source expression of an inline element in a Content Security Policy (CSP level 3, section 2.3.1)."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
