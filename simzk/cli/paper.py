"""Where lines go: to a terminal in colours, to anything else as the same text without them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.scenarios.telling import Line


def show(lines: Iterable[Line]) -> None:
    """Write lines to stdout and flush it."""
    if sys.stdout.isatty():
        show_in_colours(lines)
    else:
        from simzk.scenarios.telling import plain

        sys.stdout.write(plain(lines))
    sys.stdout.flush()


def show_in_colours(lines: Iterable[Line]) -> None:
    """Write lines to a terminal, in colours, as long as they are."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True)


class Progress:
    """One line on stderr that tells how far a long run is; on a terminal only."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def tell(self, line: str) -> None:
        """Put a line in place of the last."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def close(self) -> None:
        """Take the line away."""
        self.tell("")
