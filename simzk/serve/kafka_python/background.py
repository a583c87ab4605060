"""Functions that run in the background of a test, in virtual time: `KafkaCluster.run_in_background`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from simzk.serve.kafka_python.runtime import ClientRuntime, Fiber, require_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.kafka_python.runtime import MemoryBrokers

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """A function that runs while virtual time passes, in turns with the test and with other such functions.

    Args:
        brokers: the cluster.
        name: its name, in events and messages.
        function: the function.
    """

    def __init__(self, brokers: MemoryBrokers, name: str, function: Callable[[], T]) -> None:
        self._runtime = ClientRuntime(brokers, name)
        self._function = function
        self._fiber = Fiber(None)
        self._results: list[T] = []
        self._thread = threading.Thread(target=self._fiber.run, args=(self._call,), name=name, daemon=True)
        self._thread.start()
        brokers.scheduler.call_later(0, name, self._fiber.resume)

    @property
    def done(self) -> bool:
        """Whether the function has returned or raised an error."""
        return self._fiber.done

    def result(self, timeout: float = 120.0) -> T:
        """Let virtual time pass until the function returns; return its result.

        Args:
            timeout: longest virtual time to pass, in seconds.

        Raises:
            TimeoutError: it does not return in time.
            Exception: what the function raises.
        """
        require_test()
        if not self._runtime.wait(lambda: self.done, timeout):
            raise TimeoutError(f"{self._runtime.name} has not returned after {timeout:g} virtual seconds")
        assert self._fiber.done, "the wait ends with the function"
        if self._fiber.error is not None:
            raise self._fiber.error
        if not self._results:
            raise RuntimeError(f"{self._runtime.name} was stopped, because the cluster was closed")
        return self._results[0]

    def stop(self) -> None:
        """End the function where it waits, and its thread."""
        self._fiber.abandon()
        self._thread.join()

    def _call(self) -> None:
        assert not self._results, "a function runs once"
        self._results.append(self._function())
