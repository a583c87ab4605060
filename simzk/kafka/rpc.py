"""Requests from broker to broker, and from an operator's tool to a broker: sent, served, answered, or lost.

Rules of the module:
  - a request is served in the process of its target, which may answer later; the answer runs in the caller's process;
  - a target that is dead, or dies before it answers, breaks the connection: the caller gets `Disconnected`;
  - one that never answers (a cut link, a long pause) costs the caller its timeout, and then counts as disconnected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from simzk.simulation import Future, Network, Process, Scheduler

REQUEST_TIMEOUT_MS = 30_000
"""`request.timeout.ms` and its kin: 30 s by default in Kafka."""


class Disconnected(Exception):  # noqa: N818 - an outcome, not a mistake
    """The connection broke before the answer came: the request may have been served, or not."""


Respond = Callable[[Any], None]
Serve = Callable[[Any, Respond], None]


class _Call:
    __slots__ = ("answer", "over", "source", "target", "timer")

    def __init__(self, source: Process, target: str) -> None:
        self.source = source
        self.target = target
        self.answer: Future[Any] = Future()
        self.over = False
        self.timer: Any = None


class Connections:
    """Who can be called by which name, and the calls that wait for an answer."""

    def __init__(self, scheduler: Scheduler, network: Network) -> None:
        self.scheduler = scheduler
        self.network = network
        self._ends: dict[str, tuple[Process, Serve]] = {}
        self._calls: dict[str, dict[_Call, None]] = {}

    def register(self, process: Process, serve: Serve) -> None:
        """Let `serve(request, respond)` answer, in `process`, what is sent to its name."""
        self._ends[process.name] = (process, serve)
        self._calls.setdefault(process.name, {})

    def call(self, source: Process, target: str, request: object, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Future[Any]:
        """Send a request; the future gets the answer, or fails with `Disconnected`."""
        call = _Call(source, target)
        self._calls.setdefault(target, {})[call] = None
        call.timer = self.scheduler.call_later(timeout_ms * 1000, source.name, lambda: self._fail(call))
        self.network.send(source.name, target, lambda: self._arrive(call, request))
        return call.answer

    def break_all(self, target: str) -> None:
        """Break every connection to a target that has just died."""
        for call in list(self._calls.get(target, ())):
            self.network.send(target, call.source.name, partial(self._fail, call))

    def _arrive(self, call: _Call, request: object) -> None:
        process, serve = self._ends.get(call.target, (None, None))
        if process is None or serve is None or not process.alive:
            self.network.send(call.target, call.source.name, lambda: self._fail(call))
            return

        def respond(response: Any) -> None:
            self.network.send(call.target, call.source.name, lambda: self._finish(call, response))

        process.deliver(lambda: serve(request, respond))

    def _finish(self, call: _Call, response: Any) -> None:
        if self._close(call):
            call.source.deliver(lambda: call.answer.set_result(response))

    def _fail(self, call: _Call) -> None:
        if self._close(call):
            error = Disconnected(f"{call.source.name} to {call.target}")
            call.source.deliver(lambda: call.answer.set_exception(error))

    def _close(self, call: _Call) -> bool:
        if call.over:
            return False
        call.over = True
        call.timer.cancel()
        del self._calls[call.target][call]
        return True
