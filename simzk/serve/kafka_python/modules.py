"""Clock, chance, events and socket pairs of kafka-python's modules, replaced for clients in memory.

kafka-python 3 lets its network be replaced (`kafka_client`), but it reads the clock, draws random numbers and creates
events by the names `time`, `random`, `threading` and `socket` in its modules. These names lead here.

Rules of this module:
  - the code of kafka-python is not changed, only what these four names of its modules refer to, and its sender thread;
  - each call asks whether this thread runs a client in memory (`present`). A client that does not gets what it always
    got, so clients over TCP in the same process work as before;
  - modules of the standard library are not changed: other code that imports them is not affected.
"""

from __future__ import annotations

import random
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from kafka.producer import kafka as producer_module
from kafka.producer.sender import Sender

from simzk.serve.kafka_python.runtime import ClientRuntime, Fiber, VirtualEvent, present

if TYPE_CHECKING:
    from collections.abc import MutableSequence, Sequence
    from types import ModuleType


class _Replaced:
    """A module of the standard library, some names of which are replaced."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)


class _Time(_Replaced):
    """The module `time`, with the virtual time of a client in memory."""

    def monotonic(self) -> float:
        return (present() or time).monotonic()

    def time(self) -> float:
        return (present() or time).time()

    def sleep(self, seconds: float) -> None:
        (present() or time).sleep(seconds)


class _Random(_Replaced):
    """The module `random`, with the random stream of a client in memory."""

    def uniform(self, low: float, high: float) -> float:
        return (present() or random).uniform(low, high)

    def choice(self, items: Sequence[object]) -> object:
        return (present() or random).choice(items)

    def shuffle(self, items: MutableSequence[object]) -> None:
        (present() or random).shuffle(items)


class _Threading(_Replaced):
    """The module `threading`, with events for which a thread waits in virtual time."""

    def Event(self) -> VirtualEvent | threading.Event:  # noqa: N802 - the name that is replaced
        runtime = present()
        return threading.Event() if runtime is None else VirtualEvent(runtime)


class _WakePipe:
    """Both ends of the socket pair that wakes an event loop, which `MemoryNet` does without."""

    def setblocking(self, flag: bool) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Socket(_Replaced):
    """The module `socket`, without a socket pair for a client in memory."""

    def socketpair(self) -> tuple[socket.socket | _WakePipe, socket.socket | _WakePipe]:
        return socket.socketpair() if present() is None else (_WakePipe(), _WakePipe())


class FiberSender(Sender):  # type: ignore[misc]  # kafka-python has no types
    """The thread of a producer that sends batches, as a fiber."""

    def __init__(self, runtime: ClientRuntime, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self._runtime = runtime
        self._fiber = Fiber(runtime)

    def start(self) -> None:
        """Start the thread; its code begins when the producer lets time pass."""
        super().start()
        self._runtime.brokers.scheduler.call_later(0, self._runtime.name, self._begin)

    def _begin(self) -> None:
        self._fiber.resume()
        self._runtime.look()

    def run(self) -> None:
        """Send batches until the producer is closed."""
        self._fiber.run(super().run)

    def is_alive(self) -> bool:
        """Return whether its code has not ended."""
        return not self._fiber.done

    def join(self, timeout: float | None = None) -> None:
        """Let virtual time pass until its code has ended."""
        if self._runtime.wait(lambda: self._fiber.done, timeout):
            super().join()

    def abandon(self) -> None:
        """End its code where it waits, and the thread."""
        self._fiber.abandon()
        super().join()


def _new_sender(*args: object, **options: object) -> Sender:
    runtime = present()
    return Sender(*args, **options) if runtime is None else FiberSender(runtime, *args, **options)


_REPLACED: dict[str, _Replaced] = {
    "time": _Time(time),
    "random": _Random(random),
    "threading": _Threading(threading),
    "socket": _Socket(socket),
}


def replace_modules() -> None:
    """Replace the names in the modules of kafka-python that are imported by now; a second time changes nothing."""
    for name, module in list(sys.modules.items()):
        if name.startswith("kafka."):
            for replaced, replacement in _REPLACED.items():
                if vars(module).get(replaced) is vars(replacement)["_module"]:
                    setattr(module, replaced, replacement)
    producer_module.Sender = _new_sender
