"""`simzk.patch`: kazoo clients that other code creates connect to a fake ZooKeeper, whatever their hosts are.

Rules of this module:
  - `KazooClient` stays the same class: its constructor and `set_hosts` are replaced while a patch is active, so a name
    that was imported before, and a subclass, are patched too;
  - a patch holds for all threads of the process. The patch that was entered last decides;
  - a client that has a handler of simzk already is left alone;
  - at the end of a patch the clients that it redirected are stopped.
"""

from __future__ import annotations

import inspect
import threading
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from weakref import WeakSet

from kazoo.client import KazooClient

from simzk.serve.client_activity import ObservedHandler, is_adopted
from simzk.serve.client_stop import stop_clients, warn_of_blocked
from simzk.serve.memory import ZooKeeper
from simzk.serve.verbs import EAGER_RETRY

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_F = TypeVar("_F", bound="Callable[..., Any] | type")

_INIT = KazooClient.__init__
_SET_HOSTS = KazooClient.set_hosts
_SIGNATURE = inspect.signature(_INIT)
_TEST_METHOD = "test"  # the beginning of the names of test methods, as for unittest
_SASL_SCHEME = "sasl"  # of kazoo's auth_data: the older way to ask for a login
_OLD_RETRY_OPTIONS = {"max_retries", "retry_delay", "retry_backoff", "retry_max_delay"}


class Redirecting(Protocol):
    """A server that clients can be redirected to."""

    @property
    def accepts_sasl(self) -> bool:
        """Whether clients can log in by SASL."""

    def redirect(self, hosts: str | list[str], handler: object = None) -> dict[str, object]:
        """Return the options that lead a client to this server."""


_lock = threading.RLock()


@dataclass(eq=False)
class _ActivePatch:
    """A patch between its begin and its end; `owned` is a server that ends with it."""

    server: Redirecting
    owned: ZooKeeper | None
    clients: WeakSet[KazooClient] = field(default_factory=WeakSet)


_active: list[_ActivePatch] = []


def _remove_login(options: dict[str, Any]) -> None:
    """Remove a login by SASL from the options of a client.

    A server without SASL answers each token with an empty one, and kazoo sends the next one without end.
    """
    options.pop("sasl_options", None)
    if options.get("auth_data"):
        options["auth_data"] = {entry for entry in options["auth_data"] if entry[0] != _SASL_SCHEME}


@wraps(_INIT)
def _init(self: KazooClient, *args: object, **kwargs: object) -> None:
    bound = _SIGNATURE.bind(self, *args, **kwargs)
    options = bound.arguments
    handler = options.get("handler")
    with _lock:
        patch = _active[-1] if _active else None
    is_simzks = isinstance(handler, ObservedHandler) and not is_adopted(handler)
    if patch is None or is_simzks or inspect.isclass(handler):
        _INIT(self, *args, **kwargs)
        return
    default_hosts: str = _SIGNATURE.parameters["hosts"].default
    options.update(patch.server.redirect(options.get("hosts") or default_hosts, handler))
    if not patch.server.accepts_sasl:
        _remove_login(options)
    if options.get("connection_retry") is None and not _OLD_RETRY_OPTIONS & options.get("kwargs", {}).keys():
        options["connection_retry"] = {**EAGER_RETRY, "sleep_func": options["handler"].sleep_func}
    _INIT(*bound.args, **bound.kwargs)
    with _lock:
        patch.clients.add(self)


@wraps(_SET_HOSTS)
def _set_hosts(self: KazooClient, hosts: str | list[str], randomize_hosts: bool | None = None) -> None:
    with _lock:
        patch = next((one for one in _active if self in one.clients), None)
    if patch is not None:
        redirected: Any = patch.server.redirect(hosts)["hosts"]
        hosts = redirected
    _SET_HOSTS(self, hosts, randomize_hosts)


class Patch:
    """A patch of kazoo's clients: a context manager and a decorator; `patch` makes it.

    Args:
        server: the server that clients are redirected to; None for a new one in memory for each block or call.
    """

    def __init__(self, server: Redirecting | None = None) -> None:
        self._server = server
        self._entered: list[_ActivePatch] = []

    def __enter__(self) -> ZooKeeper:
        owned = ZooKeeper() if self._server is None else None
        server: Any = self._server or owned
        begun = _ActivePatch(server, owned)
        with _lock:
            _active.append(begun)
            self._entered.append(begun)
            KazooClient.__init__, KazooClient.set_hosts = _init, _set_hosts
        entered: ZooKeeper = server
        return entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        with _lock:
            ended = self._entered.pop()
            _active.remove(ended)
            if not _active:
                KazooClient.__init__, KazooClient.set_hosts = _INIT, _SET_HOSTS
        with _lock:
            clients = list(ended.clients)
        blocked = stop_clients(clients)
        if ended.owned is not None:
            ended.owned.close()
        warn_of_blocked(blocked)
        return False

    def __call__(self, decorated: _F) -> _F:
        """Return a function that runs in a patch, or a class whose test methods do."""
        if isinstance(decorated, type):
            for name, method in list(vars(decorated).items()):
                if name.startswith(_TEST_METHOD) and inspect.isfunction(method):
                    setattr(decorated, name, self(method))
            return decorated
        if inspect.iscoroutinefunction(decorated):
            coroutine_function = decorated

            @wraps(coroutine_function)
            async def run_coroutine(*args: object, **kwargs: object) -> object:
                with self:
                    return await coroutine_function(*args, **kwargs)

            return run_coroutine  # type: ignore[return-value]  # it has the same signature

        @wraps(decorated)
        def run(*args: object, **kwargs: object) -> object:
            with self:
                return decorated(*args, **kwargs)

        return run  # type: ignore[return-value]  # it has the same signature


def patch(zookeeper: Redirecting | None = None) -> Patch:
    """Redirect every `KazooClient` that is created meanwhile, by whatever code, to a fake ZooKeeper.

    It is a context manager and a decorator of functions, coroutines and test classes; the fixture `patched_kazoo`
    patches a test with its `zookeeper`. Of a client's `hosts` only the chroot is used, and TLS options have no effect,
    nor has a login by SASL if the server has no `sasl_users`; all other options work as they are. A subclass of kazoo's
    handler works; handlers of gevent and eventlet need a server on TCP. Clients that are created inside are stopped at
    the end.

    Args:
        zookeeper: a `simzk.ZooKeeper`, `simzk.ZooKeeperServer` or the ZooKeeper of a cluster; None for a new
            `simzk.ZooKeeper` for each block or call.

    Returns:
        A context manager that returns the ZooKeeper.

    Raises:
        ConfigError: a client of a server in memory is created with gevent's or eventlet's handler.

    >>> from kazoo.client import KazooClient
    >>> def connect_to_production() -> KazooClient:
    ...     client = KazooClient(hosts="zk-1.example.org:2181,zk-2.example.org:2181", timeout=5)
    ...     client.start()
    ...     return client
    >>> with patch() as zookeeper:
    ...     client = connect_to_production()
    ...     path = client.create("/lock", ephemeral=True)
    ...     zookeeper.expire(client)
    ...     zookeeper.settle()
    ...     client.exists("/lock") is None
    True
    >>> @patch()
    ... def count_children() -> int:
    ...     return len(connect_to_production().get_children("/"))
    >>> count_children()
    1
    """
    return Patch(zookeeper)
