"""Notifications that every broker follows: children of one znode, with numbers that rise (docs/reference/kafka.md §1.8;
ZkNodeChangeNotificationListener).

Rules of the module:
  - a notification carries no values: what it speaks of is read again;
  - notifications are handled in the order of their numbers, each once; those older than 15 minutes are deleted by
    whoever comes to it;
  - after a new session all are looked at again;
  - one that cannot be used is passed over; from 0.9 to 1.1 it is tried again whenever there is something to do, and
    what comes after it waits for ever; so it is in all releases with one whose name has no number.

Configuration changes as every broker follows them (docs/reference/kafka.md §1.8).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_long
from simzk.kafka import paths
from simzk.kafka.schemas import config
from simzk.kafka.schemas.json_text import NoJsonError
from simzk.kafka.zookeeper_client.session import SessionExpiredError, ZooKeeperSession
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION, KafkaZooKeeperClient
from simzk.simulation import Process, Queue
from simzk.zookeeper.requests import Delete

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.zookeeper_client.session import ZooKeeperSession
    from simzk.kafka.zookeeper_client.zk_client import KafkaZooKeeperClient
    from simzk.simulation import Process

KEPT_MS = 15 * 60 * 1000


class Notifications(ABC):
    """Watches the children of a znode.

    Args:
        process: the broker's.
        session: the broker's.
        client: the broker's use of it.
        parent: the znode.
        now_ms: the clock.
    """

    def __init__(
        self,
        process: Process,
        session: ZooKeeperSession,
        client: KafkaZooKeeperClient,
        parent: str,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._process = process
        self._session = session
        self._client = client
        self._parent = parent
        self._now_ms = now_ms
        self._last_number = -1
        self._signal: Queue[None] = Queue()

    def start(self) -> None:
        """Register, and read what there is."""
        self._session.child_handlers[self._parent] = self.look_again
        self._process.spawn(self._run(), f"notifications in {self._parent}")
        self.look_again()

    def look_again(self) -> None:
        """There may be new notifications."""
        self._signal.put(None)

    @abstractmethod
    async def handle(self, path: str, data: bytes | None) -> None:
        """One has come.

        Raises:
            ZnodeError: it cannot be used.
        """

    async def _run(self) -> None:
        while True:
            await self._signal.get()
            try:
                await self._process_new()
            except SessionExpiredError:
                continue
            except ZnodeError as problem:
                self._client.unusable(problem)

    async def _process_new(self) -> None:
        names = sorted(await self._client.children(self._parent))
        for name in names:
            path = f"{self._parent}/{name}"
            number = _number(path)
            if number > self._last_number:
                found = await self._client.read(path)
                if found is not None:
                    await self._handle(path, found[0])
                self._last_number = number
        for name in names:
            path = f"{self._parent}/{name}"
            found = await self._client.read(path)
            if found is not None and self._now_ms() - found[1].ctime_ms > KEPT_MS:
                await self._session.call(Delete(path, ANY_VERSION))

    async def _handle(self, path: str, data: bytes | None) -> None:
        try:
            await self.handle(path, data)
        except ZnodeError as problem:
            if self._client.version.broker.blocks_on_bad_notification:
                raise
            self._client.unusable(problem)


def _number(path: str) -> int:
    number = parse_long(path.rpartition("_")[2])
    if number is None:
        raise ZnodeError("has no number in its name", where=path, right="a prefix and a number")
    return number


class ConfigChanges(Notifications):
    """Watches `/config/changes` and tells which entity has which configuration now."""

    def __init__(
        self,
        process: Process,
        session: ZooKeeperSession,
        client: KafkaZooKeeperClient,
        *,
        now_ms: Callable[[], int],
        on_change: Callable[[str, dict[str, str]], None],
    ) -> None:
        super().__init__(process, session, client, paths.CONFIG_CHANGES, now_ms=now_ms)
        self._on_change = on_change

    async def handle(self, path: str, data: bytes | None) -> None:
        """An entity has changed: read it again; what is no JSON is of a release that wrote other notices."""
        try:
            entity_path = config.decode_change(path, data, self._client.version.reading)
        except NoJsonError as problem:
            self._client.unusable(problem)
            return
        known = self._client.version.configs.entity_types
        if entity_path.partition("/")[0] not in known:
            raise ZnodeError(f"is about {entity_path}", where=path, right=f"one of {', '.join(sorted(known))}")
        self._on_change(entity_path, await self._client.entity_config(entity_path))
