"""Request and response between processes of a simulated cluster.

Rules of this module:
  - a request is served in the process of its target, which may respond later; the response is handled in the process
    of the caller;
  - if the target is dead, or dies before it responds, the connection breaks and the caller gets `Disconnected`;
  - if no response comes (a cut link, a long pause), the caller gets `Disconnected` after its timeout;
  - a fault of calls refuses requests before they are served, or breaks the connection when they have been.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from simzk.simulation import Future, Network, Process, Scheduler, Timer

REQUEST_TIMEOUT_MS = 30_000
"""Default of `request.timeout.ms` and similar settings of Kafka: 30 s."""


class Disconnected(Exception):  # noqa: N818 - an outcome, not a mistake
    """The connection broke before the response; the request may have been served or not."""


Respond = Callable[[Any], None]
Serve = Callable[[Any, Respond], None]


class CallFault(NamedTuple):
    """A fault of the calls of one kind, from or to one process.

    Args:
        end: name of the process that sends them, or that serves them.
        kind: class of the requests.
        refuse: returns the response with which a request is refused; None to serve it and break the connection then.
    """

    end: str
    kind: type[object]
    refuse: Callable[[Any], object] | None = None


class _Call:
    """One request and its response."""

    __slots__ = ("_connections", "_request", "answer", "source", "target", "timer")

    def __init__(self, connections: Connections, source: Process, target: str, request: object) -> None:
        self.answer: Future[Any] = Future()
        self.source: Process = source
        self.target: str = target
        self.timer: Timer | None = None  # None when the call is over
        self._connections = connections
        self._request = request

    def arrive(self) -> None:
        """Deliver the request to the target, or break the connection if that is dead."""
        connections = self._connections
        end = connections.ends.get(self.target)
        if end is None or not end[0].alive:
            connections.network.send(self.target, self.source.name, self.fail)
            return
        process, serve = end
        fault = self._fault() if connections.faults else None
        if fault is None:
            process.deliver_last(partial(serve, self._request, self.respond))
        elif fault.refuse is not None:
            self.respond(fault.refuse(self._request))
        else:
            process.deliver_last(partial(serve, self._request, self._break))

    def respond(self, response: Any) -> None:
        """Send the response to the caller."""
        self._connections.network.send(self.target, self.source.name, partial(self._finish, response))

    def _fault(self) -> CallFault | None:
        """Return the fault of this call, if there is one."""
        for fault in self._connections.faults:
            if fault.end in (self.source.name, self.target) and isinstance(self._request, fault.kind):
                return fault
        return None

    def _break(self, _response: Any) -> None:
        """Break the connection in place of a response."""
        self._connections.network.send(self.target, self.source.name, self.fail)

    def _finish(self, response: Any) -> None:
        if self._close():  # nearly always
            self.source.deliver_last(partial(self.answer.set_last_result, response))

    def fail(self) -> None:
        """Let the call fail, unless it is over."""
        if self._close():
            error = Disconnected(f"{self.source.name} to {self.target}")
            self.source.deliver_last(partial(self.answer.set_exception, error))

    def _close(self) -> bool:
        timer = self.timer
        if timer is None:
            return False
        timer.callback = self.timer = None
        self._connections.forget(self)
        return True


class Connections:
    """Request handlers by process name, and in-flight requests.

    Attributes:
        ends: each process with its request handler, by name.
        faults: the faults of calls at present.
    """

    def __init__(self, scheduler: Scheduler, network: Network) -> None:
        self.scheduler = scheduler
        self.network = network
        self.ends: dict[str, tuple[Process, Serve]] = {}
        self.faults: list[CallFault] = []
        self._calls: dict[str, dict[_Call, None]] = {}

    def register(self, process: Process, serve: Serve) -> None:
        """Register `serve(request, respond)` as the request handler of a process."""
        self.ends[process.name] = (process, serve)
        self._calls.setdefault(process.name, {})

    def call(self, source: Process, target: str, request: object, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Future[Any]:
        """Send a request; return a future of the response, which fails with `Disconnected`."""
        assert timeout_ms > 0, f"a request of {source.name} to {target} has {timeout_ms} ms"
        call = _Call(self, source, target, request)
        calls = self._calls.get(target)
        if calls is None:
            calls = self._calls[target] = {}
        calls[call] = None
        scheduler = self.scheduler
        call.timer = scheduler.schedule(scheduler.now_us + timeout_ms * 1000, source.component, call.fail)
        self.network.send(source.name, target, call.arrive)
        return call.answer

    def break_all(self, target: str) -> None:
        """Break all connections to a target that has just died."""
        for call in list(self._calls.get(target, ())):
            self.network.send(target, call.source.name, call.fail)

    def forget(self, call: _Call) -> None:
        """Remove a call that is over."""
        del self._calls[call.target][call]  # a call is in flight until it is over
