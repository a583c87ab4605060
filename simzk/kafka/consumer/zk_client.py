"""The client of ZooKeeper that old consumers use: I0Itec's zkclient, one thread for events, calls that never give up.

Rules of the module (source of zkclient 0.3 to 0.10; the requests recorded of real consumers; docs/reference/kafka.md
§1.10):
  - a call is made again after a lost connection, and also after an expired session, in the new one: what a consumer
    began to write in its old session it goes on to write in its new one;
  - a path is read with a watch where somebody listens to it, children or data alike;
  - events queue up for one event thread: a listener that takes long keeps the others waiting; a listener of children
    is called after `exists` and `getChildren` have set the watch again, one of data after `exists` and `getData`;
  - an expired session tells first the listeners of new sessions, then all others, for anything may have changed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from simzk.errors import SimzkError
from simzk.jvm.concurrent_hash_map import concurrent_order
from simzk.kafka import paths
from simzk.kafka.consumer.errors import ConsumerError, NoNodeError
from simzk.kafka.zookeeper_client.batches import data_of, stat_of
from simzk.kafka.zookeeper_client.session import ZooKeeperSession
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION, EPHEMERAL, PERSISTENT, create_request
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
"""So often a call that met the end of the session looks whether a new one has begun."""


class ZkClient:
    """A session, its listeners and its event thread.

    Args:
        process: whose client it is.
        host: the way to ZooKeeper.
        timeout_ms: of the session.
        on_error: told of what a listener could not do; the event thread goes on.
    """

    def __init__(
        self, process: Process, host: ZooKeeperHost, timeout_ms: int, on_error: Callable[[Exception], None]
    ) -> None:
        self.session = ZooKeeperSession(process, host, timeout_ms=timeout_ms)
        self.session.before_new_session = self._tell_expiry
        self.new_session_listeners: list[Work] = []
        self._process = process
        self._on_error = on_error
        self._child_listeners: dict[str, list[ChildListener]] = {}
        self._data_listeners: dict[str, list[DataListener]] = {}
        self._events: Queue[Work] = Queue()

    async def start(self) -> None:
        """Connect; returns once connected."""
        self._process.spawn(self._run_events(), "event thread")
        await self.session.start()

    async def close(self) -> None:
        """End the session by request."""
        await self.session.close()

    # -- reads

    async def exists(self, path: str) -> bool:
        """Whether a znode is there."""
        return (await self.call(Exists(path, self._is_watched(path)))).error == Code.OK

    async def children(self, path: str) -> list[str]:
        """The names of a znode's children in the server's order, none where it is not there."""
        reply = await self.call(GetChildren(path, self._is_watched(path)))
        return [] if reply.error else _names(reply)

    async def read(self, path: str) -> bytes | None:
        """A znode's data.

        Raises:
            NoNodeError: it is not there.
        """
        reply = await self.call(GetData(path, self._is_watched(path)))
        if reply.error:
            raise NoNodeError(path)
        return data_of(reply)

    async def owner(self, path: str) -> int | None:
        """The session that an ephemeral belongs to; None where the path is not there."""
        reply = await self.call(GetData(path, False))
        return None if reply.error else stat_of(reply).ephemeral_owner

    # -- writes

    async def create_ephemeral(self, path: str, data: bytes) -> Code:
        """Create an ephemeral, and its parents where they are missing; OK or NODE_EXISTS."""
        code = await self._create(path, data, EPHEMERAL)
        if code == Code.NO_NODE:
            await self.create_persistent(paths.parent(path))
            code = await self._create(path, data, EPHEMERAL)
        return code

    async def create_persistent(self, path: str) -> None:
        """Create a znode without data and the parents that are missing; one that is there is fine."""
        if await self._create(path, None, PERSISTENT) == Code.NO_NODE:
            await self.create_persistent(paths.parent(path))
            await self.create_persistent(path)

    async def write(self, path: str, data: bytes) -> None:
        """Set a znode whatever its version; create it, with its parents, where it is not there."""
        write = SetData(path, data, ANY_VERSION)
        if (await self.call(write)).error == Code.NO_NODE:
            await self.create_persistent(paths.parent(path))
            if await self._create(path, data, PERSISTENT) == Code.NODE_EXISTS:
                await self.call(write)

    async def delete(self, path: str) -> bool:
        """Delete a znode, whoever made it; false where it was not there."""
        return (await self.call(Delete(path, ANY_VERSION))).error == Code.OK

    async def call(self, request: Request) -> Reply:
        """Send a request until it is answered, in whichever session that is."""
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
        """Call a listener whenever the children of a path change; they are returned as they are now."""
        listeners = self._child_listeners.setdefault(path, [])
        if listener not in listeners:
            listeners.append(listener)
        self._watch(path)
        await self.call(Exists(path, True))
        reply = await self.call(GetChildren(path, True))
        return [] if reply.error else _names(reply)

    async def subscribe_data(self, path: str, listener: DataListener) -> None:
        """Call a listener whenever the data of a path change, with None once it is deleted."""
        listeners = self._data_listeners.setdefault(path, [])
        if listener not in listeners:
            listeners.append(listener)
        self._watch(path)
        await self.call(Exists(path, True))

    def _is_watched(self, path: str) -> bool:
        return bool(self._child_listeners.get(path) or self._data_listeners.get(path))

    def _watch(self, path: str) -> None:
        self.session.data_handlers[path] = lambda kind: self._on_event(path, kind)
        self.session.child_handlers[path] = lambda: self._on_event(path, EventType.NODE_CHILDREN_CHANGED)

    def _on_event(self, path: str, kind: EventType) -> None:
        if kind != EventType.NODE_DATA_CHANGED:
            self._tell_children(path)
        if kind != EventType.NODE_CHILDREN_CHANGED:
            self._tell_data(path)

    def _tell_children(self, path: str) -> None:
        for listener in self._child_listeners.get(path, ()):
            self._events.put(partial(self._call_child_listener, path, listener))

    def _tell_data(self, path: str) -> None:
        for listener in self._data_listeners.get(path, ()):
            self._events.put(partial(self._call_data_listener, path, listener))

    async def _tell_expiry(self) -> None:
        for listener in self.new_session_listeners:
            self._events.put(listener)
        for path in concurrent_order(self._child_listeners):
            self._tell_children(path)
        for path in concurrent_order(self._data_listeners):
            self._tell_data(path)

    async def _call_child_listener(self, path: str, listener: ChildListener) -> None:
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
            except (ConsumerError, SimzkError) as error:  # the thread outlives it
                self._on_error(error)


def _names(reply: Reply) -> list[str]:
    """The names in a reply to getChildren."""
    assert isinstance(reply.body, list | tuple)
    return [str(name) for name in reply.body]
