"""Unmodified kafka-python clients of a simulated cluster, which `KafkaCluster.client` returns.

Rules of this module:
  - a client is an instance of the class that was asked for, by a subclass whose public methods note that this thread
    runs this client (`ClientRuntime.entered`); kafka-python finds its clock and its event loop by that;
  - a call of a client holds the cluster's lock, so that clients in several threads take turns, call by call.
"""

from __future__ import annotations

import inspect
import math
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kafka import KafkaProducer
from kafka.producer.future import FutureRecordMetadata

from simzk.errors import ConfigError
from simzk.serve.kafka_python.modules import FiberSender, replace_modules
from simzk.serve.kafka_python.network import memory_client
from simzk.serve.kafka_python.runtime import ClientRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.kafka_python.runtime import MemoryBrokers

C = TypeVar("C")
P = ParamSpec("P")

_TIMESTAMP_POSITION = 5
"""Position of `timestamp_ms` among the arguments of `KafkaProducer.send`."""


class _RecordFuture(FutureRecordMetadata):  # type: ignore[misc]  # kafka-python has no types
    """Result of a send, for which a test waits in virtual time."""

    __slots__ = ()

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the result."""
        with self._produce_future._latch.runtime.entered():
            return super().get(timeout)


def _timeout_s(method: Callable[..., object], client: Any, args: tuple[object, ...], options: object) -> float | None:
    """Return the longest timeout that a call or its client was given, in seconds; None for none."""
    given = inspect.signature(method).bind(client, *args, **dict(options)).arguments  # type: ignore[call-overload]
    values = {name: value for name, value in given.items() if "timeout" in name}
    if method.__name__ == "__next__":
        values["consumer_timeout_ms"] = client.config["consumer_timeout_ms"]
    seconds = [
        value / (1000 if name.endswith("_ms") else 1)
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
    ]
    return max(seconds, default=None)


def _entering(method: Callable[..., object]) -> Callable[..., object]:
    """Return a method that notes which client this thread runs."""

    name = method.__name__.strip("_")

    @wraps(method)
    def run(self: Any, /, *args: object, **kwargs: object) -> object:
        runtime: ClientRuntime = self._simzk_runtime
        asked_s = partial(_timeout_s, method, self, args, kwargs)
        with runtime.brokers.lock, runtime.entered(), runtime.calling(f"{name}()", asked_s):
            return method(self, *args, **kwargs)

    return run


@_entering
def _send(self: Any, /, *args: object, **kwargs: object) -> FutureRecordMetadata:
    """Send a record, with a timestamp of virtual time unless one is given."""
    if len(args) <= _TIMESTAMP_POSITION and kwargs.get("timestamp_ms") is None:
        kwargs["timestamp_ms"] = self._simzk_runtime.brokers.now_ms()
    future = KafkaProducer.send(self, *args, **kwargs)
    future.__class__ = _RecordFuture
    return future


_SPECIAL = ("__init__", "__next__", "__exit__", "__del__")


def _subclass(kind: type) -> type:
    """Return a subclass of a client's class whose public methods run in virtual time."""
    members: dict[str, object] = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    for name in dir(kind):
        found = getattr(kind, name)
        is_method = callable(found) and not isinstance(
            inspect.getattr_static(kind, name), type | staticmethod | classmethod
        )
        if is_method and (name in _SPECIAL or not name.startswith("_")):
            members[name] = _entering(found)
    if issubclass(kind, KafkaProducer):
        members["send"] = _send
    return type(kind.__name__, (kind,), members)


class _Made:
    """A client, and what ends with it; `kind` is the class that it is made of."""

    def __init__(self, runtime: ClientRuntime, kind: type) -> None:
        self.runtime = runtime
        made: Any = object.__new__(kind)
        self.client = made
        self.client._simzk_runtime = runtime
        self._network: Any = None

    def network(self, **configs: object) -> object:
        """Return its network; kafka-python calls this with its settings."""
        self._network = memory_client(self.runtime, **configs)
        return self._network

    def end(self) -> None:
        """Stop it where it is, without a word to the brokers; its `close` does nothing then."""
        sender = getattr(self.client, "_sender", None)
        if isinstance(sender, FiberSender):
            sender.abandon()
        if isinstance(self.client, KafkaProducer):
            self.client._unregister_cleanup()
        self.client._closed = True
        if self._network is not None:
            with self.runtime.entered(in_step=True):
                self._network.close()


class MemoryClients:
    """The clients of one cluster."""

    def __init__(self, brokers: MemoryBrokers) -> None:
        self._brokers = brokers
        self._kinds: dict[type, type] = {}
        self._made: list[_Made] = []

    def make(self, kind: Callable[P, C], *args: P.args, **options: P.kwargs) -> C:
        """Return a client; `KafkaCluster.client` says more."""
        defaults = getattr(kind, "DEFAULT_CONFIG", {})
        if not isinstance(kind, type) or "kafka_client" not in defaults:
            right = "a class such as kafka.KafkaConsumer; other clients connect to a simzk.KafkaServer"
            raise ConfigError(f"{kind!r} is no client of kafka-python", right=right)
        if "kafka_client" in options:
            raise ConfigError("a client in memory has its own network", where="kafka_client", right="no such option")
        replace_modules()
        name = f"kafka client {len(self._made) + 1}"
        chosen: dict[str, Any] = {"bootstrap_servers": self._brokers.addresses, **options}
        if defaults.get("client_id", "") is None:  # kafka-python numbers them by process: no two runs would be equal
            chosen.setdefault("client_id", name.replace(" ", "-"))
        if kind not in self._kinds:
            self._kinds[kind] = _subclass(kind)
        made = _Made(ClientRuntime(self._brokers, name), self._kinds[kind])
        self._made.append(made)
        try:
            made.client.__init__(*args, kafka_client=made.network, **chosen)
        except BaseException:
            made.end()
            raise
        client: C = made.client
        return client

    def close(self) -> None:
        """Stop all clients."""
        for made in self._made:
            made.end()
