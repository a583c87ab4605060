"""Lines on stderr beside the result of a command."""

from __future__ import annotations

import sys

from simzk.printable import printable_lines


def say(kind: str, what: str) -> None:
    """Write a message, such as `simzk: skipped: ...`; what it quotes from files and clients is escaped."""
    sys.stderr.write(f"simzk: {kind}: {printable_lines(what)}\n")
    sys.stderr.flush()
