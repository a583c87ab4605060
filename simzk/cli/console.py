"""Output of commands: files; text, coloured on a terminal only; progress line; tables; bars; histograms.

Rules of this module:
  - the length of a bar is its share of the longest one; a part above zero has at least one cell;
  - a screen without block characters gets ASCII; each part of a bar has its own character, so that no information is in
    the colours alone.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rich.console import ConsoleOptions, RenderResult

    from simzk.scenarios.report_text import Line


PLAIN_WIDTH = 120
"""Width of tables without a terminal."""


def write_text(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        ConfigError: it cannot be written.
    """
    with writes_to(path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def writes_to(path: Path) -> Iterator[None]:
    """Raise a ConfigError if the file cannot be written in the block."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write the file: {error.strerror or error}", where=str(path)) from None


def show(lines: Iterable[Line]) -> None:
    """Write lines to stdout and flush it."""
    if sys.stdout.isatty():
        show_in_colours(lines)
    else:
        from simzk.scenarios.report_text import plain  # imported late: most commands play no scenario

        sys.stdout.write(plain(lines))
    sys.stdout.flush()


def show_in_colours(lines: Iterable[Line]) -> None:
    """Write lines to a terminal in colours, without wrapping."""
    console = Console(highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True)


def console() -> Console:
    """Return the console for tables: as wide as the terminal, or `PLAIN_WIDTH` in a file or pipe."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def number_table(title: str, first: str, headings: Iterable[str]) -> Table:
    """Return a table without rows: a column of names and columns of numbers."""
    table = Table(first, title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def fact_table(title: str, facts: Iterable[tuple[str, str]]) -> Table:
    """Return a table of facts and their values, without headings."""
    table = Table(title=escape(title), title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for fact in facts:
        table.add_row(*fact)
    return table


class Progress:
    """A line on stderr with the progress of a long run, on a terminal only; it is removed at the end of the block."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def show(self, line: str) -> None:
        """Replace the line."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.show("")


NARROWEST, WIDEST = 8, 40
"""Minimum and maximum width of a bar column, in cells."""
MOST_BINS = 12
"""Maximum number of rows of a histogram."""


class Part(NamedTuple):
    """Appearance of a part of a bar: block character, ASCII character and colour."""

    sign: str
    plain: str
    colour: str


LEADS: Final = Part("█", "#", "blue")
FOLLOWS: Final = Part("▒", "=", "cyan")
OUT_OF_SYNC: Final = Part("░", ".", "red")
KEY: Final = f"{LEADS.sign} leads {FOLLOWS.sign} follows {OUT_OF_SYNC.sign} out of sync"
PLAIN_KEY: Final = f"{LEADS.plain} leads {FOLLOWS.plain} follows {OUT_OF_SYNC.plain} out of sync"


class Bar:
    """A bar of parts.

    Args:
        values: the value of each part.
        parts: their appearance.
        most: the total of the longest bar of the table.

    >>> cells(Bar([4, 2, 0], [LEADS, FOLLOWS, OUT_OF_SYNC], 12), 12)
    [4, 2, 0]
    >>> cells(Bar([1, 998, 1], [LEADS, FOLLOWS, OUT_OF_SYNC], 1000), 10)
    [1, 8, 1]
    """

    def __init__(self, values: Sequence[int], parts: Sequence[Part], most: int) -> None:
        assert len(values) == len(parts)
        assert 0 <= sum(values) <= most or most == 0
        self.values = values
        self.parts = parts
        self.most = most

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(NARROWEST, options.max_width), min(WIDEST, options.max_width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part, count in zip(self.parts, cells(self, options.max_width), strict=True):
            if count:
                yield Segment((part.plain if options.ascii_only else part.sign) * count, Style.parse(part.colour))


def cells(bar: Bar, width: int) -> list[int]:
    """Return the number of cells of each part of a bar; their sum is the share of the bar in the width."""
    if not sum(bar.values):
        return [0] * len(bar.values)
    seen = [int(value > 0) for value in bar.values]
    length = max(round(width * sum(bar.values) / bar.most), min(sum(seen), width))
    found, taken, left = [], 0, sum(bar.values)
    for at, value in enumerate(bar.values):
        room = length - taken - sum(seen[at + 1 :])
        count = round((length - taken) * value / left) if left else 0
        found.append(max(min(count, room), min(seen[at], max(room, 0))))
        taken += found[-1]
        left -= value
    return found


def histogram(values: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (first, last, count) for at most `MOST_BINS` equal ranges of integers.

    >>> histogram([3, 4, 4, 9])
    [(3, 3, 1), (4, 4, 2), (5, 5, 0), (6, 6, 0), (7, 7, 0), (8, 8, 0), (9, 9, 1)]
    >>> histogram([0, 100])[0], histogram([7, 7]), histogram([])
    ((0, 8, 1), [(7, 7, 2)], [])
    """
    if not values:
        return []
    least, most = min(values), max(values)
    step = -(-(most - least + 1) // MOST_BINS)
    bins = [(first, min(first + step - 1, most)) for first in range(least, most + 1, step)]
    counts = [0] * len(bins)
    for value in values:
        counts[(value - least) // step] += 1
    return [(first, last, count) for (first, last), count in zip(bins, counts, strict=True)]
