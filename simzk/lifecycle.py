"""Observer of the servers and clusters that this process makes: the report of a failed test sees them.

Every package may import this module; it imports nothing. Without an observer, which is the rule outside of pytest,
nothing is recorded.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers treat this name as typing.TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    class Observer(Protocol):
        """Observer of servers and clusters."""

        def made(self, watched: object) -> None:
            """Note a server or cluster that was just made, and is ready."""

        def closing(self, watched: object) -> None:
            """Note one that is about to be closed, with its clients and sessions as they are."""


_observer: Observer | None = None


def observe(observer: Observer | None) -> Observer | None:
    """Let an observer be called from now on; return the one before it, to be restored.

    >>> class Printer:
    ...     def made(self, watched):
    ...         print("made", watched)
    ...     def closing(self, watched):
    ...         print("closing", watched)
    >>> before = observe(Printer())
    >>> import simzk
    >>> with simzk.ZooKeeper(version="3.8"):
    ...     pass
    made <ZooKeeper 3.8, 0 clients>
    closing <ZooKeeper 3.8, 0 clients>
    >>> _ = observe(before)
    """
    global _observer
    before, _observer = _observer, observer
    return before


def note_made(watched: object) -> None:
    """Tell the observer, if there is one."""
    if _observer is not None:
        _observer.made(watched)


def note_closing(watched: object) -> None:
    """Tell the observer, if there is one."""
    if _observer is not None:
        _observer.closing(watched)
