"""Faults of single calls: refused requests are not served, lost answers break the connection after the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.rpc import CallFault, Connections, Disconnected
from simzk.simulation import Network, Process, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable


class Pair:
    """A caller and a server that adds one to numbers."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(seed=1)
        self.connections = Connections(self.scheduler, Network(self.scheduler, latency_us=(100, 200)))
        self.caller, self.server = Process(self.scheduler, "caller"), Process(self.scheduler, "server")
        self.served: list[object] = []
        self.connections.register(self.server, self._serve)

    def _serve(self, request: object, respond: Callable[[object], None]) -> None:
        self.served.append(request)
        respond("served")

    def ask(self, request: object) -> object:
        answer = self.connections.call(self.caller, "server", request)
        self.scheduler.run_until(self.scheduler.now_us + 10_000)
        return answer.result()


def test_a_refused_request_is_not_served() -> None:
    pair = Pair()
    pair.connections.faults.append(CallFault("caller", int, lambda number: f"refused {number}"))
    assert pair.ask(3) == "refused 3"
    assert pair.served == []
    assert pair.ask("text") == "served"


@pytest.mark.parametrize("end", ["caller", "server"])
def test_a_lost_answer_breaks_the_connection_after_the_request(end: str) -> None:
    pair = Pair()
    pair.connections.faults.append(CallFault(end, int))
    with pytest.raises(Disconnected):
        pair.ask(3)
    assert pair.served == [3]
    pair.connections.faults.clear()
    assert pair.ask(3) == "served"
