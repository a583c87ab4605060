"""What a real cluster's work costs in time, so that virtual time can be compared with a real one's.

Without a model a simulated cluster's work costs nothing and only the network takes time. With one, two things do:

  - the server handles one request after another: a read takes `read_us`, a write `write_us`;
  - the controller takes `order_us` for each partition that it names to a broker in a LeaderAndIsr, before it goes on.

`MEASURED` was fitted by hand to one run of Kafka 3.9.1: three brokers and a ZooKeeper 3.9.3 on two shared cores, two
topics of 1,000 partitions, replication factor 3 (`benchmarks/kafka_3_9_1_measured.json`, and that run's logs):

  - a new controller took 0.39 s from "Initializing controller context" to "Initializing topic deletion manager", in
    which it reads 2,000 states: 0.18 ms a read, with ten under way at once;
  - a broker's death wrote 2,000 states in 0.79 s and a controlled shutdown in 0.71 s, which read 1,300 to 2,000 states
    meanwhile: 0.27 ms a write;
  - a failover without any death was ready after 0.77 s: what is left goes to the 6,000 replicas that are named to
    brokers, 0.05 ms each.

`python -m benchmarks.kafka_failover` prints what comes of it beside what was measured, in that same run.

Held against what it was not fitted to (`python -m benchmarks.kafka_costs`: the recorded stories of eighteen
releases, bursts of 3 to 12 states on brokers that have just started) it is too quick. From the first to the last
state written, it says a median of 0.5 to 0.7 of the real time where a topic is created, 0.6 where a broker dies
from 1.1 on and 0.3 up to 1.0, 0.1 where the controller's broker dies and 0.1 to 0.2 where a broker is back and its
followers catch up; from a session's end to the last write 0.15 to 0.33. What is missing is some 10 to 200 ms a
burst, whatever its size: Java that runs code for the first time, threads that are woken, disks of brokers. So the
model is for thousands of partitions, where that counts little, and says too little for a handful.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simzk.zookeeper.requests import Create, Delete, Exists, GetChildren, GetChildren2, GetData, Multi, SetData

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.simulation import Scheduler
    from simzk.zookeeper.requests import Request


@dataclass(frozen=True, slots=True)
class CostModel:
    """How long the parts of a cluster's work take.

    Args:
        read_us: the server, for a read.
        write_us: the server, for a write, alone or in a multi.
        order_us: the controller, for a partition named to a broker.

    >>> MEASURED.of_request(Exists("/a", False)), MEASURED.of_request(Delete("/a", -1))
    (180, 270)
    """

    read_us: int
    write_us: int
    order_us: int

    def of_request(self, request: Request) -> int:
        """What a request costs the server; what keeps a session alive costs nothing."""
        if isinstance(request, Create | Delete | SetData | Multi):
            return self.write_us
        return self.read_us if isinstance(request, Exists | GetData | GetChildren | GetChildren2) else 0


MEASURED: Final = CostModel(read_us=180, write_us=270, order_us=50)


class ServiceQueue:
    """Work that is done one after another, each piece after its time."""

    def __init__(self, scheduler: Scheduler, component: str) -> None:
        self._scheduler = scheduler
        self._component = component
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def put(self, cost_us: int, work: Callable[[], None]) -> None:
        """Do something in its turn."""
        self._waiting.append((cost_us, work))
        if len(self._waiting) == 1:
            self._begin()

    def _begin(self) -> None:
        self._scheduler.call_later(self._waiting[0][0], self._component, self._finish)

    def _finish(self) -> None:
        _, work = self._waiting[0]
        work()
        self._waiting.popleft()
        if self._waiting:
            self._begin()
