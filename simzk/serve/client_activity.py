"""Threads and callbacks of kazoo clients, observed so that a test can wait until they have nothing to do.

kazoo starts three threads for a client: one reads and writes the connection, one calls watchers, one calls callbacks of
asynchronous requests. Recipes start more with `handler.spawn`: a `DataWatch` after a reconnect, a `TreeCache`.

Rules of this module:
  - kazoo is unmodified: a handler is its extension point, and each thread and queue of a client comes from its handler;
  - a client of this process with a handler of its own (`KazooClient(hosts=server.hosts)`) is found by its connection
    thread. Its queues count unfinished callbacks, its thread is idle while it is in kazoo's `select`, and the kernel
    counts the bytes that lie in its socket;
  - a thread is idle while it waits for a queue that is empty, or for a connection on which nothing is under way. A
    thread that sleeps, or waits for a reply, is not idle;
  - each thread counts its steps, before it takes what it waited for. All threads were idle at one instant if each was
    idle in one look, and a second look shows the same counts;
  - an error of a callback is recorded, and raised again for kazoo, which logs it.
"""

from __future__ import annotations

import queue
import ssl
import struct
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler

from simzk.errors import ConfigError, SimzkError

try:
    import fcntl
    import termios
except ImportError:  # on Windows
    fcntl = termios = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import logging
    import socket
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    from _typeshed import HasFileno
    from kazoo.client import KazooClient
    from kazoo.protocol.states import Callback

_FIRST_PAUSE_S = 0.00005  # between two looks; doubled each time
_LONGEST_PAUSE_S = 0.005
_LISTENER_FAILED = "Error in connection state listener"  # as KazooClient._make_state_change logs it
_LIBRARIES = ("kazoo", "threading.py", "queue.py", "client_activity.py", "selectors.py")


class ConnectionTraffic(NamedTuple):
    """Bytes and state of one connection, on the server's side.

    Attributes:
        received_bytes: bytes that it has processed.
        sent_bytes: bytes that it has sent.
        busy: whether requests or output wait to be processed.
        paused: whether the server has stopped reading and answering.
        closing: whether the server has closed the connection, which the client will notice.
    """

    received_bytes: int
    sent_bytes: int
    busy: bool
    paused: bool
    closing: bool


Connections = Mapping[tuple[str, int], ConnectionTraffic] | None
"""The server's side of the connections, by the client's address; None if the server cannot be looked into."""
CallbackFailure = tuple[BaseException, str]
"""Error that a callback raised, and a description of the callback."""


class ThreadWait(Protocol):
    """Queue or connection that a thread waits for."""

    def is_quiet(self, connections: Connections, client: KazooClient | None) -> bool:
        """Return whether the thread goes on waiting unless something else happens."""


class Activity:
    """State of one thread of a client.

    Attributes:
        call: the function that the thread runs, or the callback that it calls.
        waits_for: what it waits for; None while it runs.
        steps: how often it stopped waiting.
        thread_id: of the thread; None before it runs.
        failure: the last error of a callback that it called.
    """

    __slots__ = ("call", "failure", "steps", "thread_id", "waits_for")

    def __init__(self, call: Callable[..., object]) -> None:
        self.call: Callable[..., object] = call
        self.waits_for: ThreadWait | None = None
        self.steps: int = 0
        self.thread_id: int | None = None
        self.failure: BaseException | None = None

    def run_on(self) -> None:
        """Stop waiting."""
        self.steps += 1
        self.waits_for = None


class ObservedQueue(queue.Queue[object]):
    """Queue of a handler: knows which thread of the client waits for it."""

    def __init__(self, handler: ObservedHandler) -> None:
        super().__init__()
        self._handler = handler

    def is_quiet(self, connections: Connections, client: KazooClient | None) -> bool:
        """Return whether the queue is empty."""
        return self.empty()

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        """Return the next item, as `queue.Queue` does."""
        activity = self._handler.activity()
        if activity is None:
            return super().get(block, timeout)
        activity.waits_for = self
        try:
            return super().get(block, timeout)
        finally:
            activity.run_on()

    # Called by queue.Queue under its lock

    def _get(self) -> object:
        activity = self._handler.activity()
        if activity is not None:
            activity.run_on()  # before the item leaves the queue
        return super()._get()

    def _put(self, item: object) -> None:
        super()._put(self._handler.observed(item) if callable(item) else item)


class ObservedHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Handler of one kazoo client whose threads and callbacks are observed.

    Args:
        number: of the client, for messages.

    Attributes:
        calls: number of callbacks queued and threads started.
        connection_activity: what the connection thread does; None before the first start.
        is_blocked: whether `settle` gave up on one of its threads.
    """

    def __init__(self, number: int = 0) -> None:
        self.begin_observing(number)
        super().__init__()

    def begin_observing(self, number: int) -> None:
        """Set what this class adds to kazoo's handler."""
        self.number: int = number
        self.is_blocked: bool = False
        self.calls: int = 0
        self.connection_activity: Activity | None = None
        self.queue_impl = partial(ObservedQueue, self)  # kazoo calls it without arguments
        self._local = threading.local()
        self._activities: dict[Activity, None] = {}
        self._lock = threading.Lock()
        self._failures: deque[CallbackFailure] = deque()
        self._client: weakref.ref[KazooClient] | None = None

    @property
    def client(self) -> KazooClient | None:
        """The client; None before its first start."""
        return None if self._client is None else self._client()

    def activity(self) -> Activity | None:
        """Return what the present thread does; None for a thread that kazoo did not start."""
        found: Activity | None = getattr(self._local, "activity", None)
        return found

    # Called by kazoo

    def spawn(self, func: Callable[..., object], *args: object, **kwargs: object) -> threading.Thread:
        """Run a function in a thread, as `SequentialThreadingHandler` does."""
        activity = Activity(func)
        owner = getattr(func, "__self__", None)
        logger: logging.Logger | None = None
        if isinstance(owner, ConnectionHandler):  # ConnectionHandler.start spawns the connection thread
            self._client = weakref.ref(owner.client)
            self.connection_activity = activity
            logger = owner.client.logger
        with self._lock:
            self._activities[activity] = None
            self.calls += 1

        def note_listener_error(record: logging.LogRecord) -> bool:
            """Record the error of a state listener, which kazoo catches and logs."""
            error = record.exc_info[1] if record.msg == _LISTENER_FAILED and record.exc_info else None
            if error is not None and self.activity() is not None:
                self.note_failure(error, "a state listener")
            return True

        def run() -> None:
            self._local.activity = activity
            activity.thread_id = threading.get_ident()
            if logger is not None:
                logger.addFilter(note_listener_error)
            try:
                func(*args, **kwargs)
            except BaseException as error:
                if error is not activity.failure:
                    self.note_failure(error, describe(activity.call))
                raise
            finally:
                if logger is not None:
                    logger.removeFilter(note_listener_error)
                with self._lock:
                    del self._activities[activity]

        try:
            thread: threading.Thread = super().spawn(run)
        except BaseException:
            with self._lock:
                del self._activities[activity]
            raise
        return thread

    def dispatch_callback(self, callback: Callback) -> None:
        """Queue the call of a watcher."""
        self.callback_queue.put(partial(callback.func, *callback.args))

    def observed(self, call: Callable[[], object]) -> Callable[[], object]:
        """Return a callback that records its error."""
        with self._lock:
            self.calls += 1

        def run() -> object:
            activity = self.activity()
            assert activity is not None, "the worker threads of the handler call its callbacks"
            worker, activity.call = activity.call, call
            try:
                return call()
            except BaseException as error:
                activity.failure = error
                self.note_failure(error, describe(call))
                raise
            finally:
                activity.call = worker

        return run

    # Called by whoever waits

    def note_failure(self, error: BaseException, callback: str) -> None:
        """Record the error of a callback."""
        self._failures.append((error, callback))

    def take_failures(self) -> list[CallbackFailure]:
        """Return the errors of callbacks since the last call, oldest first."""
        return [self._failures.popleft() for _ in range(len(self._failures))]

    def counts(self) -> tuple[object, ...]:
        """Return the counts that differ after any thread of the client has done something."""
        with self._lock:
            return (self.calls, *((id(activity), activity.steps) for activity in self._activities))

    def why_busy(self, connections: Connections) -> str:
        """Return what a thread does that is not idle; empty if all are idle."""
        with self._lock:
            activities = list(self._activities)
        client = self.client
        for activity in activities:
            waits_for = activity.waits_for
            if waits_for is None or not waits_for.is_quiet(connections, client):
                return self._explain(activity)
        return ""

    def _explain(self, activity: Activity) -> str:
        """Return what a thread does, for an error message."""
        client = self.client
        owner = getattr(activity.call, "__self__", None)
        if isinstance(owner, ConnectionHandler):
            if client is not None and not client.connected:
                doing = "it is not connected, and tries again"
            elif activity.waits_for is not None:
                doing = "a request or a reply is on its way"
            else:
                doing = "its connection thread is busy"
        else:
            doing = f"{describe(activity.call)} does not return"
        return f"client {self.number}: {doing}{_where(activity.thread_id)}"


_Observed = TypeVar("_Observed", bound=ObservedHandler)


def adopt(handler: object, kind: type[_Observed], number: int) -> _Observed | None:
    """Make a handler that other code has created one of simzk's, without losing its identity, options and methods.

    Its class becomes a subclass of `kind` and of its class before.

    Args:
        handler: kazoo's handler or one of a subclass. One that was adopted before is adopted anew.
        kind: the class of simzk's handlers.
        number: of the client, for messages.

    Returns:
        The same object; None for a handler without kazoo's threads (gevent, eventlet).

    Raises:
        ConfigError: a client uses the handler already.
    """
    if not isinstance(handler, SequentialThreadingHandler):
        return None
    if handler.running:
        raise ConfigError("a client that runs has this handler", where="handler", right="a handler for each client")
    own = _own_class_of(handler)
    adopted: Any = handler
    adopted.__class__ = type(own.__name__, (kind, own), {"__module__": own.__module__, _OWN_CLASS: own})
    adopted.begin_observing(number)
    adopted.callback_queue, adopted.completion_queue = adopted.queue_impl(), adopted.queue_impl()
    observed: _Observed = adopted
    return observed


_OWN_CLASS = "simzk_own_class"


def _own_class_of(handler: SequentialThreadingHandler) -> type:
    own: type = getattr(type(handler), _OWN_CLASS, type(handler))
    return own


def is_adopted(handler: object) -> bool:
    """Return whether `adopt` has made the handler one of simzk's."""
    return hasattr(type(handler), _OWN_CLASS)


def describe(call: Callable[..., object]) -> str:
    """Return the name of a callback, and of the recipe that calls it.

    >>> describe(partial(print, "event"))
    'callback print'
    """
    while isinstance(call, partial):
        call = call.func
    owner = getattr(call, "__self__", None)
    function = getattr(owner, "_func", None)  # of a DataWatch or ChildrenWatch
    if callable(function):
        return f"callback {_name(function)} of {type(owner).__name__}({getattr(owner, '_path', '')!r})"
    return f"callback {_name(call)}"


def _name(call: Callable[..., object]) -> str:
    return getattr(call, "__qualname__", None) or repr(call)


def _where(thread_id: int | None) -> str:
    """Return the line that a thread executes, outside of kazoo and the standard library if there is one."""
    frame: FrameType | None = None if thread_id is None else sys._current_frames().get(thread_id)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.name not in _LIBRARIES and not set(path.parts) & set(_LIBRARIES):
            return f"; it is at {path}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


class CountingSocket:
    """Socket of a client that counts the bytes of the session, inside TLS; `address` is as the server writes it."""

    def __init__(self, connected: socket.socket, address: tuple[str, int]) -> None:
        self._socket = connected
        self._address = address
        self._received_bytes = 0
        self._sent_bytes = 0

    def recv(self, size: int) -> bytes:
        data = self._socket.recv(size)
        self._received_bytes += len(data)
        return data

    def send(self, data: bytes | bytearray | memoryview) -> int:
        count = self._socket.send(data)
        self._sent_bytes += count
        return count

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(data)
        self._sent_bytes += len(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._socket, name)

    def is_quiet(self, connections: Connections, client: KazooClient | None) -> bool:
        """Return whether no byte is on its way."""
        if connections is None:
            return client is None or (not client._pending and client.connected)
        traffic = connections.get(self._address)
        if traffic is None or traffic.busy or traffic.closing:
            return False
        # kazoo reads what TLS has decrypted only when more arrives: it waits all the same.
        unread = self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0
        all_sent = traffic.paused or traffic.received_bytes == self._sent_bytes
        return all_sent and traffic.sent_bytes == self._received_bytes + unread


class _Select(NamedTuple):
    """Wait of a connection thread for its sockets."""

    readers: Sequence[object]

    def is_quiet(self, connections: Connections, client: KazooClient | None) -> bool:
        """Return whether nothing is to be read or sent."""
        if client is not None and client._queue:
            return False
        sockets = (reader for reader in self.readers if isinstance(reader, CountingSocket))
        return all(one.is_quiet(connections, client) for one in sockets)


class ObservedTcpHandler(ObservedHandler):
    """Observed handler of a client that connects over TCP."""

    name = "simzk_tcp_handler"

    def create_connection(self, *args: object, **options: object) -> CountingSocket:
        """Connect as kazoo does."""
        from simzk.serve.tcp.addresses import as_java  # imported late: a client in memory needs no asyncio

        connected: socket.socket = super().create_connection(*args, **options)
        host, port = connected.getsockname()[:2]
        return CountingSocket(connected, (as_java(host), port))

    def select(
        self,
        readers: Sequence[object],
        writers: Sequence[object],
        exceptional: Sequence[object],
        timeout_s: float | None = None,
    ) -> tuple[list[object], list[object], list[object]]:
        """Wait for sockets."""
        found: tuple[list[object], list[object], list[object]]
        activity = None if writers else self.activity()
        if activity is not None:
            activity.waits_for = _Select(readers)
        try:
            found = super().select(readers, writers, exceptional, timeout_s)
        finally:
            if activity is not None:
                activity.run_on()
        return found


_UNSENT = 0x894B  # SIOCOUTQNSD of Linux: bytes that the kernel has not sent


def unread_bytes(connected: HasFileno) -> int:
    """Return the number of bytes that have arrived at a socket and were not read; 0 where the kernel does not say."""
    return 0 if fcntl is None else _ask_kernel(connected, termios.FIONREAD)


def unsent_bytes(connected: HasFileno) -> int:
    """Return the number of written bytes that a socket has yet to send; 0 where the kernel does not say."""
    return _ask_kernel(connected, _UNSENT) if sys.platform == "linux" else 0


def _ask_kernel(connected: HasFileno, what: int) -> int:
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(connected.fileno(), what, bytes(4)))
    except OSError:  # it was closed
        return 0
    return int(count)


class Watched(Protocol):
    """Client that `settle` waits for; its number orders messages."""

    number: int

    def activity(self) -> object:
        """Return a true value if the present thread is one of the client's."""

    def counts(self) -> tuple[object, ...]:
        """Return counts that differ after any thread of the client has done something."""

    def why_busy(self, connections: Connections) -> str:
        """Return what a thread does that is not idle; empty if all are idle."""

    def take_failures(self) -> list[CallbackFailure]:
        """Return the errors of callbacks since the last call, oldest first."""


class PlainClient:
    """Client of this process with kazoo's own handler or a subclass of it, which knows only the address of the server.

    The errors of its callbacks are not recorded: kazoo logs them. `thread` is its connection thread.
    """

    number = 0

    def __init__(self, client: KazooClient, thread: threading.Thread) -> None:
        self._client = client
        self._thread = thread

    def activity(self) -> bool:
        """Return whether the present thread is one of kazoo's for this client."""
        return threading.current_thread() in (self._thread, *self._client.handler._workers)

    def counts(self) -> tuple[object, ...]:
        """Return nothing: whatever a callback sends is counted by the server."""
        return ()

    def take_failures(self) -> list[CallbackFailure]:
        return []

    def why_busy(self, connections: Connections) -> str:
        client = self._client
        connected = client._connection._socket
        address = None if connected is None else _address_of(connected)
        traffic = None if connections is None or address is None else connections.get(address)
        name = "a client" if address is None else f"client at {address[0]}:{address[1]}"
        if traffic is None or traffic.closing or not (client.connected or traffic.paused):
            return "" if not self._thread.is_alive() else f"{name}: it is not connected, and tries again"
        # In the order in which a reply passes: socket, connection thread, queues.
        if not traffic.paused and unread_bytes(connected):
            return f"{name}: a reply is on its way"
        if client._queue or not self._is_selecting():
            return f"{name}: its connection thread is busy"
        for work in (client.handler.completion_queue, client.handler.callback_queue):
            if work.unfinished_tasks:
                where = next(filter(None, (_where(worker.ident) for worker in client.handler._workers)), "")
                return f"{name}: a callback does not return{where}"
        return ""

    def _is_selecting(self) -> bool:
        """Return whether the connection thread waits for its sockets."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        selects = {kind.select.__code__ for kind in (SequentialThreadingHandler, type(self._client.handler))}
        for _ in range(_FRAMES_IN_SELECT):
            if frame is None:
                return False
            if frame.f_code in selects:
                return True
            frame = frame.f_back
        return False


_FRAMES_IN_SELECT = 5  # from the call into the kernel to `select` of the handler


def plain_clients(is_mine: Callable[[KazooClient], bool]) -> list[PlainClient]:
    """Return the running clients of this process with kazoo's own handler or a subclass that are the server's."""
    found = []
    for thread in threading.enumerate():
        owner = getattr(getattr(thread, "_target", None), "__self__", None)
        if not isinstance(owner, ConnectionHandler) or not is_mine(owner.client):
            continue
        handler = owner.client.handler
        if isinstance(handler, SequentialThreadingHandler) and not isinstance(handler, ObservedHandler):
            found.append(PlainClient(owner.client, thread))
    return found


def _address_of(connected: socket.socket) -> tuple[str, int] | None:
    """Return the address of a socket as the server writes it; None if it was closed."""
    from simzk.serve.tcp.addresses import as_java  # imported late: a client in memory needs no asyncio

    try:
        host, port = connected.getsockname()[:2]
    except OSError:
        return None
    return as_java(host), port


class Look(NamedTuple):
    """A look at a server.

    Attributes:
        connections: its side of the connections.
        counts: a value that differs after the server has processed or sent something.
        busy: what the server has yet to process or to send; empty if nothing.
    """

    connections: Connections
    counts: object = None
    busy: str = ""


def wait_until_idle(handlers: Callable[[], Iterable[Watched]], look: Callable[[], Look], timeout_s: float) -> None:
    """Wait until all clients and the server have nothing to do, then raise what callbacks raised meanwhile.

    Args:
        handlers: returns the clients: their observed handlers, or what stands for one.
        look: returns the state of the server at one instant.
        timeout_s: longest time to wait, in seconds.

    Raises:
        TimeoutError: a client is still busy; the message names it and its callback.
        SimzkError: a callback of one of the clients waits, and would wait for itself.
        BaseException: the error that a callback raised; several in one `BaseExceptionGroup`.
    """
    give_up_at_s = time.monotonic() + timeout_s
    pause_s = _FIRST_PAUSE_S
    idle: object = None
    while True:
        observed = sorted(handlers(), key=lambda handler: handler.number)
        if any(handler.activity() for handler in observed):
            raise SimzkError("a callback cannot wait for the end of all callbacks", right="a call in the test's thread")
        # The counts come first: what starts after them shows in the next look.
        counts = [handler.counts() for handler in observed]
        seen = look()
        busy = seen.busy or next((why for handler in observed if (why := handler.why_busy(seen.connections))), "")
        if not busy:
            if idle == (counts, seen.counts):
                break
            idle = (counts, seen.counts)
            continue
        idle = None
        if time.monotonic() >= give_up_at_s:
            for handler in observed:
                if isinstance(handler, ObservedHandler) and handler.why_busy(seen.connections):
                    handler.is_blocked = True  # the end of the test does not wait for it once more
            raise_failures(observed)
            raise TimeoutError(f"not settled after {timeout_s:g} s: {busy}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    raise_failures(observed)


def raise_failures(handlers: Sequence[Watched]) -> None:
    """Raise what callbacks raised since the last time; several errors in one `BaseExceptionGroup`."""
    found = []
    for handler in handlers:
        for error, callback in handler.take_failures():
            error.add_note(f"raised in {callback} of client {handler.number}")
            found.append(error)
    if len(found) == 1:
        raise found[0]
    if found:
        raise BaseExceptionGroup(f"{len(found)} callbacks failed", found)
