"""Request and response between processes of a simulated cluster.

Rules of this module:
  - a request is served in the process of its target, which may respond later; the response is handled in the process
    of the caller;
  - if the target is dead, or dies before it responds, the connection breaks and the caller gets `Disconnected`;
  - if no response comes (a cut link, a long pause), the caller gets `Disconnected` after its timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from simzk.simulation import Future, Network, Process, Scheduler, Timer

REQUEST_TIMEOUT_MS = 30_000
"""Default of `request.timeout.ms` and similar settings of Kafka: 30 s."""


class Disconnected(Exception):  # noqa: N818 - an outcome, not a mistake
    """The connection broke before the response; the request may have been served or not."""


Respond = Callable[[Any], None]
Serve = Callable[[Any, Respond], None]


@dataclass(eq=False, slots=True)
class _Call:
    source: Process
    target: str
    answer: Future[Any] = field(default_factory=Future)
    timer: Timer | None = None  # None when the call is over


class Connections:
    """Request handlers by process name, and in-flight requests."""

    def __init__(self, scheduler: Scheduler, network: Network) -> None:
        self.scheduler = scheduler
        self.network = network
        self._ends: dict[str, tuple[Process, Serve]] = {}
        self._calls: dict[str, dict[_Call, None]] = {}

    def register(self, process: Process, serve: Serve) -> None:
        """Register `serve(request, respond)` as the request handler of a process."""
        self._ends[process.name] = (process, serve)
        self._calls.setdefault(process.name, {})

    def call(self, source: Process, target: str, request: object, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Future[Any]:
        """Send a request; return a future of the response, which fails with `Disconnected`."""
        assert timeout_ms > 0, f"a request of {source.name} to {target} has {timeout_ms} ms"
        call = _Call(source, target)
        self._calls.setdefault(target, {})[call] = None
        call.timer = self.scheduler.call_later(timeout_ms * 1000, source.name, partial(self._fail, call))
        self.network.send(source.name, target, partial(self._arrive, call, request))
        return call.answer

    def break_all(self, target: str) -> None:
        """Break all connections to a target that has just died."""
        for call in list(self._calls.get(target, ())):
            self.network.send(target, call.source.name, partial(self._fail, call))

    def _arrive(self, call: _Call, request: object) -> None:
        process, serve = self._ends.get(call.target, (None, None))
        if process is None or serve is None or not process.alive:
            self.network.send(call.target, call.source.name, partial(self._fail, call))
        else:
            process.deliver(partial(serve, request, partial(self._respond, call)))

    def _respond(self, call: _Call, response: Any) -> None:
        self.network.send(call.target, call.source.name, partial(self._finish, call, response))

    def _finish(self, call: _Call, response: Any) -> None:
        if self._close(call):
            call.source.deliver(partial(call.answer.set_result, response))

    def _fail(self, call: _Call) -> None:
        if self._close(call):
            error = Disconnected(f"{call.source.name} to {call.target}")
            call.source.deliver(partial(call.answer.set_exception, error))

    def _close(self, call: _Call) -> bool:
        if call.timer is None:
            return False
        call.timer.cancel()
        call.timer = None
        assert call in self._calls[call.target], "a call is in flight until it is over"
        del self._calls[call.target][call]
        return True
