"""Processing times of a real cluster, for comparing virtual time with real time.

Without a cost model only the network takes time. With one, two more things do:

  - the ZooKeeper server processes one request after another: a read takes `read_us`, a write `write_us`;
  - the controller takes `order_us` for each partition in a LeaderAndIsr request to a broker.

`MEASURED` was fitted by hand to one run of Kafka 3.9.1: three brokers and a ZooKeeper 3.9.3 on two shared cores, two
topics of 1,000 partitions, replication factor 3 (`benchmarks/kafka_3_9_1_measured.json`, and that run's logs):

  - a new controller took 0.39 s from "Initializing controller context" to "Initializing topic deletion manager", in
    which it reads 2,000 states: 0.18 ms a read, with ten in flight;
  - a broker's death wrote 2,000 states in 0.79 s and a controlled shutdown in 0.71 s, which read 1,300 to 2,000 states
    in the same time: 0.27 ms a write;
  - a failover without a broker failure took 0.77 s: the rest is spent on the 6,000 replicas in requests to brokers,
    0.05 ms each.

`python -m benchmarks.kafka_failover` prints the model's times beside those of that run.

On runs to which it was not fitted (`python -m benchmarks.kafka_costs`: the recorded stories of eighteen releases,
bursts of 3 to 12 states on brokers that have just started) the model is too fast. Its median time from the first to
the last state written is 0.5 to 0.7 of the real time for the creation of a topic, 0.6 for a broker failure from 1.1
on and 0.3 up to 1.0, 0.1 for a failure of the controller, and 0.1 to 0.2 for the return of a broker; from the end of
a session to the last write 0.15 to 0.33. Missing are 10 to 200 ms a burst, whatever its size: Java code that runs for
the first time, thread wake-ups, disks of brokers. So the model is for thousands of partitions; for a handful its
times are too short.
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
    """Processing times.

    Args:
        read_us: of the ZooKeeper server for a read.
        write_us: of the ZooKeeper server for a write or a multi.
        order_us: of the controller for a partition in a request to a broker.

    >>> MEASURED.of_request(Exists("/a", False)), MEASURED.of_request(Delete("/a", -1))
    (180, 270)
    """

    read_us: int
    write_us: int
    order_us: int

    def __post_init__(self) -> None:
        assert min(self.read_us, self.write_us, self.order_us) >= 0, f"no processing time is negative: {self}"

    def of_request(self, request: Request) -> int:
        """Return the processing time of a request, in µs; 0 for requests of the session itself, such as pings."""
        if isinstance(request, Create | Delete | SetData | Multi):
            return self.write_us
        return self.read_us if isinstance(request, Exists | GetData | GetChildren | GetChildren2) else 0


MEASURED: Final = CostModel(read_us=180, write_us=270, order_us=50)


class ServiceQueue:
    """Queue of a server that processes one request after another, each for its processing time."""

    def __init__(self, scheduler: Scheduler, component: str) -> None:
        self._scheduler = scheduler
        self._component = component
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def put(self, cost_us: int, work: Callable[[], None]) -> None:
        """Add a request: `work` runs when the requests before it and its own time are over."""
        assert cost_us >= 0
        self._waiting.append((cost_us, work))
        if len(self._waiting) == 1:
            self._begin()

    def _begin(self) -> None:
        assert self._waiting, "a server begins with a request that waits"
        self._scheduler.call_later(self._waiting[0][0], self._component, self._finish)

    def _finish(self) -> None:
        _, work = self._waiting[0]
        work()
        assert self._waiting[0][1] is work, "a request stays first until it is done"
        self._waiting.popleft()
        if self._waiting:
            self._begin()
