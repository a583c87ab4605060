"""Output of commands: files; text, coloured on a terminal only; progress; tables; bars; histograms.

Rules of this module:
  - a file named `-` is stdout; no other text goes there then;
  - the length of a bar is its share of the longest one; a part above zero has at least one cell;
  - a screen without block characters gets ASCII; each part of a bar has its own character, so that no information is in
    the colours alone.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, NoReturn, Self

import typer
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.measure import Measurement
from rich.progress import BarColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from simzk.cli.commands import INTERRUPTED
from simzk.cli.messages import say
from simzk.errors import ConfigError
from simzk.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import ConsoleOptions, RenderResult
    from rich.progress_bar import ProgressBar

    from simzk.scenarios.report_text import Line


PLAIN_WIDTH = 120
"""Width of tables without a terminal."""


STDOUT = Path("-")
"""Name of a file that is stdout."""


def writable(path: Path | None) -> Path | None:
    """Return the file of an option as it is: a callback, so that a long command checks it before it begins.

    Raises:
        ConfigError: it is a directory, or in no directory that may be written to.
    """
    if path is None or path == STDOUT:
        return path
    if path.is_dir():
        raise ConfigError("cannot write the file: Is a directory", where=str(path), right="the name of a file")
    if not path.parent.is_dir():
        what = "cannot write the file: No such file or directory"
        raise ConfigError(what, where=str(path), right="a file in an existing directory")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError("cannot write the file: Permission denied", where=str(path))
    return path


JsonOut = Annotated[
    Path | None,
    typer.Option("--json", help="File for the result as JSON; - for stdout.", metavar="OUT", callback=writable),
]


def require_one_stdout(*files: Path | None) -> None:
    """Check that at most one of the files is stdout.

    Raises:
        ConfigError: two are.
    """
    if files.count(STDOUT) > 1:
        raise ConfigError("two outputs go to stdout", where=str(STDOUT), right="- for one of them")


@contextmanager
def text_output(*files: Path | None) -> Iterator[None]:
    """Discard text on stdout in the block if stdout is one of the files, which are written outside of the block.

    Raises:
        ConfigError: two files are stdout.
    """
    require_one_stdout(*files)
    if STDOUT not in files:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


def write_text(path: Path, text: str) -> None:
    """Write a file, or stdout for `-`.

    Raises:
        ConfigError: it cannot be written.
    """
    if path == STDOUT:
        sys.stdout.write(text)
        return
    with writes_to(path):
        path.write_text(text, encoding="utf-8")


def write_json(path: Path | None, document: object) -> None:
    """Write a document as JSON, unless no file is given.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path is not None:
        write_text(path, json.dumps(document, indent=1) + "\n")


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
        console.print(Text.assemble(*((printable(text), style) for text, style in line)), soft_wrap=True)


def console() -> Console:
    """Return the console for tables: as wide as the terminal, or `PLAIN_WIDTH` in a file or pipe."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def escape(text: str) -> str:
    r"""Return a name from a file for a table: without markup, and in one line.

    >>> print(escape("[red]\x1b[31m"))
    \[red]\x1b[31m
    """
    return escape_markup(printable(text))


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


def exit_interrupted(done: str) -> NoReturn:
    """Say on stderr what is done after Ctrl-C, and exit.

    Raises:
        typer.Exit: always, with the status of an interrupted command.
    """
    say("interrupted", done)
    raise typer.Exit(INTERRUPTED)


class _TimeLeft(TimeRemainingColumn):
    """The time left, by the speed of the last 30 seconds; the time passed while the whole is unknown."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(f"{task.elapsed or 0.0:.0f} s", style="progress.elapsed")
        return Text.assemble(super().render(task), " left")


class _Share(BarColumn):
    """A bar with the finished share; nothing while that is unknown."""

    def render(self, task: Task) -> ProgressBar:
        bar = super().render(task)
        bar.width = 0 if task.total is None else BAR_WIDTH
        return bar


BAR_WIDTH = 20
REFRESH_PER_S = 4


class Progress:
    """A line on stderr with the progress of a long run and the time left.

    It is shown on a terminal only, and removed at the end of the block. Every thread may show something.
    """

    def __init__(self) -> None:
        self._progress = RichProgress(
            TextColumn("{task.description}", markup=False),
            _Share(),
            _TimeLeft(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
            refresh_per_second=REFRESH_PER_S,
            redirect_stdout=False,
        )
        self._task = self._progress.add_task("", total=None)
        self._share = 0.0

    def show(self, line: str, share: float | None = None) -> None:
        """Replace the line.

        Args:
            line: text, which is escaped.
            share: finished share of the present step, 0 to 1; None if it is unknown. A smaller one begins a new step.
        """
        line = printable(line)
        if share is None or share < self._share:
            self._progress.reset(self._task, total=None, description=line)
        if share is not None:
            self._progress.update(self._task, total=1.0, completed=share, description=line)
        self._share = 0.0 if share is None else share

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


NARROWEST, WIDEST = 8, 40
"""Minimum and maximum width of a bar column, in cells."""
MOST_BINS = 12
"""Maximum number of rows of a histogram."""


class BarPart(NamedTuple):
    """Appearance of a part of a bar: block character, ASCII character and colour."""

    sign: str
    plain: str
    colour: str


LEADS: Final = BarPart("█", "#", "blue")
FOLLOWS: Final = BarPart("▒", "=", "cyan")
OUT_OF_SYNC: Final = BarPart("░", ".", "red")
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

    def __init__(self, values: Sequence[int], parts: Sequence[BarPart], most: int) -> None:
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
