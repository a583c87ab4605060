"""Pause of Python's cyclic garbage collector while millions of live objects are created."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_cyclic_gc() -> Iterator[None]:
    """Disable the cyclic garbage collector inside the block.

    The collector traverses young objects after every few hundred allocations. While a million znodes, log entries
    or JSON values are read, none of them is garbage, and the traversals take about a fifth of the processor time.

    >>> with without_cyclic_gc():
    ...     gc.isenabled()
    False
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
