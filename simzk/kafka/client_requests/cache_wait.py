"""Wait until a broker's metadata cache shows what a request has done (DelayedOperationPurgatory)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.client_requests.handlers import ServingBroker
    from simzk.simulation import Timer


def wait_for_cache(
    broker: ServingBroker, is_done: Callable[[], bool], timeout_ms: int, finish: Callable[[], None]
) -> None:
    """Call back when a metadata cache fulfils a condition, at once if it does, or after a timeout.

    Args:
        broker: has the cache; the end of its process cancels the wait.
        is_done: the condition.
        timeout_ms: 0 or less for no wait.
        finish: is called once.
    """
    if timeout_ms <= 0 or is_done():
        finish()
        return
    timer: Timer | None = None

    def observe(_topics: object) -> None:
        if is_done():
            end()

    def end() -> None:
        assert timer is not None
        assert observe in broker.cache.observers, "the wait has ended"
        timer.cancel()
        broker.cache.observers.remove(observe)
        finish()

    timer = broker.process.call_later(timeout_ms * 1000, end)
    broker.cache.observers.append(observe)
