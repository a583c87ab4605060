"""Output to a pipe whose reader has left, as in `simzk run FILE | head`: the rest is discarded, the command goes on.

The command still writes its files and exits with its own status. SIGPIPE is not used: it would end `simzk serve` when a
client leaves.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator


class ClosableOutput:
    """A text stream that discards what its reader no longer reads.

    Args:
        stream: the stream; all other attributes are those of it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, or discard it."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        """Flush the stream, or discard what it has buffered."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._discard()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def _discard(self) -> None:
        """Connect the stream to the null device, also for what is still in its buffer."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


@contextmanager
def closable_output() -> Iterator[None]:
    """Let the readers of stdout and stderr leave in the block."""
    out, err = ClosableOutput(sys.stdout), ClosableOutput(sys.stderr)
    with redirect_stdout(cast("TextIO", out)), redirect_stderr(cast("TextIO", err)):
        try:
            yield
        finally:
            out.flush()
            err.flush()
