"""Signals that end a command which serves."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ended_by_signals() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM and Ctrl-C set on the running loop; after the block they are ignored.

    So a second signal does not interrupt the stop.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in ENDING:
        loop.add_signal_handler(number, ended.set)
    yield ended
    for number in ENDING:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
