"""Waiting on wall time, for threads that `zookeeper.settle()` does not know."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from simzk.errors import ConfigError
from simzk.simulation.condition import Condition

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_LONGEST_PAUSE_S = 0.02


def wait_until(condition: Callable[[], T], timeout_s: float = 10.0, *, timeout: float | None = None) -> T:
    """Wait on wall time until a condition is true: for threads of the test, and for clients in other processes.

    Prefer `zookeeper.settle()` for watchers and callbacks of kazoo clients, and `kafka_cluster.run_until` for what a
    simulated cluster does: both need no time limit that fits the machine.

    Args:
        condition: returns a true value once it holds. An `AssertionError` or `SimzkError` means that it does not hold
            yet; any other error is raised.
        timeout_s: longest time to wait, in seconds.
        timeout: the same, by the name that other libraries have for it.

    Returns:
        What the condition returned.

    Raises:
        TimeoutError: the condition did not hold in time; says which one, and what it returned or raised at last.
        ConfigError: a negative time.

    >>> import threading
    >>> done = threading.Event()
    >>> threading.Timer(0.01, done.set).start()
    >>> wait_until(done.is_set)
    True
    """
    if timeout is not None:
        timeout_s = timeout
    if timeout_s < 0:
        raise ConfigError(f"time cannot go back by {-timeout_s:g} s", where="timeout_s", right="0 or more")
    wanted = Condition(condition)
    give_up_at_s = time.monotonic() + timeout_s
    pause_s = 0.0005
    while not wanted.holds():
        if time.monotonic() >= give_up_at_s:
            raise wanted.timeout(f"{timeout_s:g} s") from wanted.error
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    return wanted.value
