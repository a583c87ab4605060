"""Handle of a paused client or broker, as a context manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class PauseHandle:
    """A pause in effect, until `resume` is called or its `with` block ends.

    Args:
        resume: ends the pause.

    >>> with PauseHandle(lambda: print("resumed")):
    ...     print("paused")
    paused
    resumed
    """

    def __init__(self, resume: Callable[[], None]) -> None:
        self._resume = resume

    def resume(self) -> None:
        """End the pause: requests and messages that arrived in the meantime are processed in order."""
        self._resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resume()
