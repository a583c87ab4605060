"""`simzk.KafkaCluster`: the simulated cluster together with an in-memory ZooKeeper for kazoo clients."""

from __future__ import annotations

import warnings
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from simzk.errors import ConfigError, IgnoredSettingWarning
from simzk.lifecycle import note_closing, note_made

try:  # before the modules that import them, so that the error names the extra to install
    if find_spec("crc32c") is None:
        raise ImportError("crc32c is not installed", name="crc32c")
    import numpy  # noqa: F401
except ImportError as missing:
    raise ConfigError(
        f"KafkaCluster needs {missing.name}, which is not installed", right="pip install 'simzk[kafka]'"
    ) from missing

from simzk.kafka.cluster import cluster as kafka
from simzk.kafka.listeners import address_text
from simzk.kafka.releases.settings import has_effect
from simzk.serve.kafka_python.runtime import FiberLock, require_test
from simzk.serve.tcp.broker_ports import BrokerPort

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from os import PathLike

    from simzk.kafka.client_requests.broker_api import ServedConnection
    from simzk.kafka.zookeeper_mode.replay.report import ReplayReport
    from simzk.serve.kafka_python.background import BackgroundCall
    from simzk.serve.kafka_python.clients import MemoryClients
    from simzk.serve.memory import ZooKeeper
    from simzk.serve.tcp.broker_ports import FrameTransport
    from simzk.simulation import Network, Scheduler

_C = TypeVar("_C")
_P = ParamSpec("_P")
_FIRST_WITH_NETWORKS = 3  # major version of kafka-python


class _MemoryBrokers:
    """The brokers of a cluster, as Kafka clients in memory see them (`MemoryBrokers` of simzk.serve.kafka_python)."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self.scheduler: Scheduler = cluster.scheduler
        self.network: Network = cluster.network
        assert isinstance(cluster.lock, FiberLock), "clients in memory are made in virtual time only"
        self.lock: FiberLock = cluster.lock

    @property
    def addresses(self) -> list[str]:
        return [address_text(*broker.endpoint) for broker in self._cluster.brokers.values()]

    def now_ms(self) -> int:
        return self._cluster.zookeeper_host.now_ms()

    def pass_time(self, until_us: int) -> None:
        self._cluster._pass_time(until_us)

    def find(self, host: str, port: int) -> BrokerPort | None:
        ports = (
            BrokerPort(broker.id, one.name)
            for broker in self._cluster.brokers.values()
            for one in broker.listeners.advertised
            if one.address == (host, port)
        )
        return next(ports, None)

    def end_of(self, broker: int) -> str:
        return self._cluster.brokers[broker].process.name

    def connect(self, port: BrokerPort, transport: FrameTransport) -> ServedConnection | None:
        found = self._cluster.brokers[port.broker]
        return found.client_api.connect(transport, listener=port.listener) if found.accepts_clients else None


class KafkaCluster(kafka.KafkaCluster):
    """A simulated Kafka cluster in virtual time that kazoo clients can use.

    The constructor, the methods and their errors are those of `simzk.kafka.cluster.cluster.KafkaCluster`. All of them
    may be called from several threads.

    >>> with KafkaCluster(brokers=3) as cluster:
    ...     client = cluster.zookeeper.client()
    ...     client.start()
    ...     sorted(client.get_children("/brokers/ids"))
    ['1', '2', '3']
    >>> cluster
    <KafkaCluster 3.9, 3 brokers, controller 1, 3.6 s>
    """

    # The threads of kazoo clients and those of the test share one server: whoever uses it holds this lock.
    @cached_property
    def lock(self) -> AbstractContextManager[object]:  # type: ignore[override]
        """The lock that every method and property acquires. Hold it to iterate over `tree` or `history` in a thread."""
        return FiberLock()

    @cached_property
    def _calls(self) -> list[BackgroundCall[Any]]:
        return []

    _zookeeper: ZooKeeper | None = None
    _clients: MemoryClients | None = None

    @property
    def zookeeper(self) -> ZooKeeper:
        """The cluster's ZooKeeper for kazoo clients, which see and change the same znodes as the brokers.

        A client's request is applied at the present virtual instant; the cluster reacts in the next `advance`.
        """
        from simzk.serve.memory import ZooKeeper

        host = self.zookeeper_host
        with self.lock:
            if self._zookeeper is None:
                self._zookeeper = ZooKeeper(server=self.server, now_ms=host.now_ms, pump=self.pump, rules=host.rules)
                self._zookeeper.wake_by(host.wake_at)
            return self._zookeeper

    @kafka.synchronized
    def client(self, /, kind: Callable[_P, _C], *args: _P.args, **options: _P.kwargs) -> _C:
        """Return an unmodified client of kafka-python 3 that connects in memory; `close` of the cluster ends it.

        Its requests travel over `network`, where the client's end is called `"kafka client 1"` and so on: killed
        brokers refuse it, paused ones stay silent. Its clock is the cluster's virtual time, which passes while a call
        waits for something: a `poll` with a timeout of 30 s takes no wall time. Its tasks in the background, such as
        heartbeats, also run in `advance` and the other methods that let time pass.

        Args:
            kind: `kafka.KafkaProducer`, `kafka.KafkaConsumer` or `kafka.KafkaAdminClient`, or a subclass.
            args: of that class, such as the topics of a consumer.
            options: of that class. By default `bootstrap_servers` are all brokers.

        Raises:
            ConfigError: kafka-python 3 is not installed, `kind` is no client of it, the option `kafka_client` is given,
                or the cluster is that of a `KafkaServer`.

        >>> from kafka import KafkaConsumer, KafkaProducer
        >>> with KafkaCluster(brokers=3) as cluster:
        ...     _ = cluster.create_topic("orders", partitions=1, replication_factor=3)
        ...     producer = cluster.client(KafkaProducer, acks="all")
        ...     producer.send("orders", b"paid").get(timeout=30).offset
        ...     consumer = cluster.client(KafkaConsumer, "orders", auto_offset_reset="earliest")
        ...     next(consumer).value
        0
        b'paid'
        """
        try:
            import kafka as kafka_python

            if int(kafka_python.__version__.split(".")[0]) < _FIRST_WITH_NETWORKS:
                raise ImportError(kafka_python.__version__)
        except ImportError as missing:
            raise ConfigError(
                f"a client in memory needs kafka-python 3 ({missing})", right="pip install 'kafka-python>=3.0.12'"
            ) from missing
        from simzk.serve.kafka_python.clients import MemoryClients

        self._require_virtual_time()
        if self._clients is None:
            self._clients = MemoryClients(_MemoryBrokers(self))
        return self._clients.make(kind, *args, **options)

    @kafka.synchronized
    def run_in_background(
        self, /, function: Callable[_P, _C], *args: _P.args, **kwargs: _P.kwargs
    ) -> BackgroundCall[_C]:
        """Run a function in a thread of its own, in virtual time; it begins when time passes next.

        At any time one thread of all runs: this one, the test, or another such function, while the others wait for
        clients in memory. So two consumers of a group poll at once, as in two processes, and the same seed gives the
        same run. The function may use clients in memory and the verbs of the cluster, but cannot let time pass, nor use
        kazoo clients. What it raises is raised in the test, where time passes. `close` stops it where it waits.

        Args:
            function: the function.
            args, kwargs: its arguments.

        Returns:
            the call, with `done`, and `result(timeout)`, which lets time pass until the function returns.

        >>> from kafka import KafkaConsumer, KafkaProducer
        >>> with KafkaCluster(brokers=3) as cluster:
        ...     _ = cluster.create_topic("orders", partitions=1, replication_factor=3)
        ...     consumer = cluster.client(KafkaConsumer, "orders", auto_offset_reset="earliest")
        ...     call = cluster.run_in_background(next, consumer)
        ...     _ = cluster.client(KafkaProducer).send("orders", b"paid")
        ...     call.result().value
        b'paid'
        """
        from simzk.serve.kafka_python.background import BackgroundCall

        self._require_virtual_time()
        name = f"background call {len(self._calls) + 1}"
        call = BackgroundCall(_MemoryBrokers(self), name, lambda: function(*args, **kwargs))
        self._calls.append(call)
        return call

    def _require_virtual_time(self) -> None:
        if not isinstance(self.lock, FiberLock):
            raise ConfigError("this cluster is served on TCP ports, in wall time", right="clients over TCP")

    def _pass_time(self, until_us: int) -> None:
        require_test()
        super()._pass_time(until_us)

    def _note_ready(self) -> None:
        note_made(self)
        ignored = {
            key: None
            for broker in self.brokers.values()
            for key in broker.config.given
            if not has_effect(key, broker.version)
        }
        if ignored:
            text = f"config: not simulated, and only shown to clients: {', '.join(ignored)}"
            warnings.warn(text, IgnoredSettingWarning, stacklevel=3)

    def close(self) -> None:
        """Stop the kazoo clients of this cluster, then kill all its processes; closing twice is allowed."""
        note_closing(self)
        if self._zookeeper is not None:  # without the lock, which the clients' threads need to end
            self._zookeeper.close()
        with self.lock:
            for call in self._calls:
                call.stop()
            if self._clients is not None:
                self._clients.close()
        super().close()


def replay(recording: str | PathLike[str], *, version: str | None = None, seed: int = 0) -> ReplayReport:
    """Replay a recording of a real Kafka cluster on the simulation, and compare each step.

    The simulation does what was done to the real cluster, at the same time. What was chance in the real cluster is
    read from the recording: the winner of each controller election, when sessions expired and timers fired, the order
    in which followers joined ISRs, and ids. Everything else is computed, and compared after each step: every field of
    every znode, and every transaction in order.

    Args:
        recording: folder with `meta.json`, `dumps.json` and `txns.json` (each may be compressed: `.json.gz`), as
            docs/replay.md describes.
        version: Kafka release to simulate, such as "2.8"; that of the recording if None.
        seed: seed of the remaining random choices.

    Returns:
        the differences of each step.

    Raises:
        RecordingError: the recording is incomplete or invalid, or a step does not say what was done.
        ConfigError: the release is not simulated.

    Example::

        report = simzk.replay("recordings/2.4.1")
        assert report.equal, report.to_text()
    """
    try:
        from simzk.kafka.zookeeper_mode.replay import report
    except ImportError as missing:
        raise ConfigError(
            "replay needs msgspec, which is not installed", right="pip install 'simzk[cli,kafka]'"
        ) from missing

    return report.replay(Path(recording), version=version, seed=seed)
