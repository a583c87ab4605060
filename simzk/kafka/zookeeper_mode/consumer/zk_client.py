"""ZooKeeper client of the old consumer: I0Itec's zkclient, with one event thread and calls that retry without limit.

Rules of the module (source of zkclient 0.3 to 0.10; the requests recorded of real consumers; docs/reference/kafka.md
§1.10):
  - a call is retried after a lost connection, and after an expired session in the new session: a sequence of writes
    begun in the old session continues in the new one;
  - a read sets a watch if the path has a listener, for children or data alike;
  - events are queued for one event thread: a slow listener delays the others; a child listener is called after `exists`
    and `getChildren` have set the watch again, a data listener after `exists` and `getData`;
  - an expired session queues the listeners of new sessions first, then all others, because anything may have changed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from simzk.errors import SimzkError
from simzk.jvm.hash_map import concurrent_order
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import ZooKeeperSession, data_of, stat_of
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION, EPHEMERAL, PERSISTENT, create_request
from simzk.kafka.zookeeper_mode.consumer.errors import ConsumerError, NoNodeError
from simzk.simulation import Future, Queue
from simzk.zookeeper.replies import Code, EventType, Reply
from simzk.zookeeper.requests import Delete, Exists, GetChildren, GetData, Request, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.simulation import Process

    Work: TypeAlias = Callable[[], Coroutine[Future[Any], None, None]]
    ChildListener: TypeAlias = Callable[[list[str] | None], Coroutine[Future[Any], None, None]]
    DataListener: TypeAlias = Callable[[bytes | None], Coroutine[Future[Any], None, None]]

NEW_SESSION_CHECK_US = 1000
"""Interval at which a call that met an expired session checks for a new one."""


class ZkClient:
    """Session, listeners and event thread of one zkclient.

    Args:
        process: process of the consumer.
        host: connects the session to ZooKeeper.
        timeout_ms: session timeout.
        on_error: called with the error of a listener; the event thread continues.
    """

    def __init__(
        self, process: Process, host: ZooKeeperHost, timeout_ms: int, on_error: Callable[[Exception], None]
    ) -> None:
        self.session = ZooKeeperSession(process, host, timeout_ms=timeout_ms)
        self.session.before_new_session = self._queue_all_listeners
        self.new_session_listeners: list[Work] = []
        self._process = process
        self._on_error = on_error
        self._child_listeners: dict[str, list[ChildListener]] = {}
        self._data_listeners: dict[str, list[DataListener]] = {}
        self._events: Queue[Work] = Queue()

    async def start(self) -> None:
        """Connect, and return when connected."""
        self._process.spawn(self._run_events(), "event thread")
        await self.session.start()

    # -- reads

    async def exists(self, path: str) -> bool:
        """Return whether a znode exists."""
        return (await self.call(Exists(path, self._is_watched(path)))).error == Code.OK

    async def children(self, path: str) -> list[str]:
        """Return the names of a znode's children in the server's order; none if the znode is missing."""
        reply = await self.call(GetChildren(path, self._is_watched(path)))
        return [] if reply.error else _names(reply)

    async def read(self, path: str) -> bytes | None:
        """Return a znode's data.

        Raises:
            NoNodeError: the znode is missing.
        """
        reply = await self.call(GetData(path, self._is_watched(path)))
        if reply.error:
            raise NoNodeError(path)
        return data_of(reply)

    async def owner(self, path: str) -> int | None:
        """Return the session that owns an ephemeral; None if the znode is missing."""
        reply = await self.call(GetData(path, False))
        return None if reply.error else stat_of(reply).ephemeral_owner

    # -- writes

    async def create_ephemeral(self, path: str, data: bytes) -> Code:
        """Create an ephemeral and its missing parents; return OK or NODE_EXISTS."""
        code = await self._create(path, data, EPHEMERAL)
        if code == Code.NO_NODE:
            await self.create_persistent(paths.parent(path))
            code = await self._create(path, data, EPHEMERAL)
        return code

    async def create_persistent(self, path: str) -> None:
        """Create a znode without data and its missing parents, unless it exists."""
        if await self._create(path, None, PERSISTENT) == Code.NO_NODE:
            await self.create_persistent(paths.parent(path))
            await self.create_persistent(path)

    async def write(self, path: str, data: bytes) -> None:
        """Set a znode at any version; create it and its parents if it is missing."""
        write = SetData(path, data, ANY_VERSION)
        if (await self.call(write)).error == Code.NO_NODE:
            await self.create_persistent(paths.parent(path))
            if await self._create(path, data, PERSISTENT) == Code.NODE_EXISTS:
                await self.call(write)

    async def delete(self, path: str) -> bool:
        """Delete a znode, and return whether it existed."""
        return (await self.call(Delete(path, ANY_VERSION))).error == Code.OK

    async def call(self, request: Request) -> Reply:
        """Send a request until it is answered, also across sessions."""
        while True:
            reply = await self.session.submit(request)
            if reply.error == Code.SESSION_EXPIRED:
                await self._process.sleep(NEW_SESSION_CHECK_US)
            elif reply.error != Code.CONNECTION_LOSS:
                return reply

    async def _create(self, path: str, data: bytes | None, mode: int) -> Code:
        return Code((await self.call(create_request(path, data, mode))).error)

    # -- listeners

    async def subscribe_children(self, path: str, listener: ChildListener) -> list[str]:
        """Call a listener whenever the children of a path change, and return the present ones."""
        listeners = self._child_listeners.setdefault(path, [])
        if listener not in listeners:
            listeners.append(listener)
        self._watch(path)
        await self.call(Exists(path, True))
        return await self.children(path)

    async def subscribe_data(self, path: str, listener: DataListener) -> None:
        """Call a listener whenever the data of a path change, with None after a deletion."""
        listeners = self._data_listeners.setdefault(path, [])
        if listener not in listeners:
            listeners.append(listener)
        self._watch(path)
        await self.call(Exists(path, True))

    def _is_watched(self, path: str) -> bool:
        return bool(self._child_listeners.get(path) or self._data_listeners.get(path))

    def _watch(self, path: str) -> None:
        self.session.data_handlers[path] = lambda kind: self._queue_listeners(path, kind)
        self.session.child_handlers[path] = lambda: self._queue_listeners(path, EventType.NODE_CHILDREN_CHANGED)

    def _queue_listeners(self, path: str, kind: EventType) -> None:
        if kind != EventType.NODE_DATA_CHANGED:
            for on_children in self._child_listeners.get(path, ()):
                self._events.put(partial(self._call_child_listener, path, on_children))
        if kind != EventType.NODE_CHILDREN_CHANGED:
            for on_data in self._data_listeners.get(path, ()):
                self._events.put(partial(self._call_data_listener, path, on_data))

    async def _queue_all_listeners(self) -> None:
        for listener in self.new_session_listeners:
            self._events.put(listener)
        for path in concurrent_order(self._child_listeners):
            self._queue_listeners(path, EventType.NODE_CHILDREN_CHANGED)
        for path in concurrent_order(self._data_listeners):
            self._queue_listeners(path, EventType.NODE_DATA_CHANGED)

    async def _call_child_listener(self, path: str, listener: ChildListener) -> None:
        assert self._is_watched(path), "a listener stays, and sets the watch again"
        await self.exists(path)
        reply = await self.call(GetChildren(path, self._is_watched(path)))
        await listener(None if reply.error else _names(reply))

    async def _call_data_listener(self, path: str, listener: DataListener) -> None:
        await self.call(Exists(path, True))
        reply = await self.call(GetData(path, True))
        await listener(None if reply.error else data_of(reply))

    async def _run_events(self) -> None:
        while True:
            work = await self._events.get()
            try:
                await work()
            except (ConsumerError, SimzkError) as error:  # zkclient logs it, and its thread continues (ZkEventThread)
                self._on_error(error)


def _names(reply: Reply) -> list[str]:
    """Return the names in a reply to getChildren."""
    assert isinstance(reply.body, list | tuple)
    return [str(name) for name in reply.body]
