"""A pytest plugin: kazoo's own tests against a server in memory, by `pytest -p tests.conformance.kazoo_in_memory`.

kazoo's harness starts a cluster of Java processes and makes clients of its addresses. Here its cluster is three
endpoints of one server in this process, and the handler that kazoo takes by default is one that connects to them; the
tests are kazoo's, unmodified. Time is wall time, as those tests know no other.
"""

from __future__ import annotations

import gc
import sys
import types
from importlib import import_module
from typing import TYPE_CHECKING

import kazoo.client
import kazoo.handlers.threading
import pytest

from simzk.serve.clock import WallClock
from simzk.serve.memory import MemoryHandler
from simzk.serve.wire_driver import WireDriver, WireLink
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.server import Server
from tests.conformance.real_zookeeper import SUPER_DIGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.serve.memory import MemorySocket

FIRST_PORT = 20_000
CONFIG = ServerConfig(tick_time_ms=500, extended_types=True, super_digest=SUPER_DIGEST, reconfig_enabled=True)
# The next holder says that it holds as soon as the last one has let go, which takes no time in memory; a test that was
# not awake between them waits for ever, and its end for the holder, which waits for the test.
MUST_SEE_NOBODY = "waits for the instant in which nobody holds the lock"
# What is skipped, by the name of kazoo's tests ("#" is its end): what a server in memory has not got, tests that may
# hang anywhere, and tests that a machine with other work fails.
SKIPPED = {
    "TestSemaphore and test_handle_session_loss": "waits without a bound for an event that may have come and gone",
    "KazooLockingQueueTests and test_concurrent_execution": "gives three threads 0.2 s to be done",
    "KazooPartitionerTests and test_party_of_two": "gives a partitioner 0.1 s to see that the other has gone",
    "KazooLockTests and test_lock_many_threads": "a thread late for its barrier, which closes again, spins for ever",
    "KazooLockTests and test_rw_lock": MUST_SEE_NOBODY,
    "KazooLockTests and test_lock#": MUST_SEE_NOBODY,
    "TestSSLClient": "no TLS in memory",
    "TestReadOnlyMode": "needs an ensemble that loses its quorum",
    "test_add_remove_observer": "needs an ensemble",
    "test_bad_input": "needs an ensemble",
    "test_no_super_auth": "needs an ensemble",
    "test_sasl": "needs a server with SASL",
}


class Endpoint:
    """One address of the server, as kazoo's harness knows a server of its cluster."""

    def __init__(self, host: WireDriver, port: int) -> None:
        self._host = host
        self.port = port
        self.running = True
        self._sockets: list[MemorySocket] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    secure_address = "127.0.0.1:1"

    def run(self) -> None:
        self.running = True

    def stop(self) -> None:
        """Refuse connections and cut those that are open; the server behind keeps its state."""
        self.running = False
        cut, self._sockets = self._sockets, []
        for socket in cut:
            socket.end()

    def accept(self, socket: MemorySocket) -> WireLink | None:
        if not self.running:
            return None
        self._sockets.append(socket)
        return self._host.open(socket)

    def seconds_to_deadline(self) -> float | None:
        return self._host.seconds_to_deadline()

    def tick(self) -> None:
        self._host.tick()

    def answer_word(self, data: bytes) -> bytes | None:
        return None


class Cluster:
    """Three endpoints of one server, as kazoo's harness knows a cluster."""

    def __init__(self) -> None:
        clock = WallClock()
        host = WireDriver(Server(CONFIG, now_ms=clock.now_ms()), clock)
        self._endpoints = [Endpoint(host, FIRST_PORT + index) for index in range(3)]

    def __getitem__(self, index: int) -> Endpoint:
        return self._endpoints[index]

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def start(self) -> None:
        for endpoint in self._endpoints:
            endpoint.run()

    def stop(self) -> None:
        for endpoint in self._endpoints:
            endpoint.stop()

    def terminate(self) -> None:
        """Called when a test class ends; the state may stay, as every test has a chroot of its own."""

    def get_logs(self) -> list[str]:
        return []

    def at(self, port: int) -> Endpoint:
        return self._endpoints[port - FIRST_PORT]


CLUSTER = Cluster()


class SuiteHandler(MemoryHandler):
    """Connects to the endpoint that kazoo has chosen."""

    def __init__(self) -> None:
        super().__init__(CLUSTER[0])

    def create_connection(self, address: tuple[str, int], **options: object) -> MemorySocket:
        if not FIRST_PORT <= address[1] < FIRST_PORT + 3:
            raise ConnectionRefusedError(f"nobody listens on port {address[1]}")
        self.listener = CLUSTER.at(address[1])
        return super().create_connection(address, **options)


kazoo.client.SequentialThreadingHandler = SuiteHandler
kazoo.handlers.threading.SequentialThreadingHandler = SuiteHandler  # some tests pass one themselves
for other in ("gevent", "eventlet"):  # some tests take the first handler that is installed; only ours talks in memory
    sys.modules[f"kazoo.handlers.{other}"] = None  # type: ignore[assignment]
for absent in ("OpenSSL", "jks"):  # kazoo.testing imports them for the TLS port of its own cluster
    sys.modules.setdefault(absent, types.ModuleType(absent))
objgraph = types.ModuleType("objgraph")  # kazoo's tests of TreeCache count objects with it, and nothing else
objgraph.count = lambda name: sum(type(found).__name__ == name for found in gc.get_objects())  # type: ignore[attr-defined]
sys.modules.setdefault("objgraph", objgraph)
import_module("kazoo.testing.harness").get_global_cluster = lambda: CLUSTER  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name, reason in SKIPPED.items():
            if all(part in f"{item.nodeid}#" for part in name.split(" and ")):
                item.add_marker(pytest.mark.skip(reason=reason))
