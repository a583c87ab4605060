"""Change notifications: sequential children of one znode, handled by every broker (ZkNodeChangeNotificationListener).

Rules of this module (docs/reference/kafka.md §1.8):
  - a notification has no values: the broker reads the changed znode;
  - notifications are handled in the order of their numbers, each once. Every broker deletes those older than 15
    minutes;
  - after a new session the children are read again;
  - an invalid notification is skipped. From 0.9 to 1.1 it is retried with every later change, and blocks all after it;
    in all releases so does one without a number in its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_long
from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION, KafkaZooKeeperClient
from simzk.simulation import Process, Queue
from simzk.zookeeper.requests import Delete

if TYPE_CHECKING:
    from collections.abc import Callable


KEPT_MS = 15 * 60 * 1000
"""Age at which a notification is deleted (ZkNodeChangeNotificationListener.changeExpirationMs)."""


@dataclass(eq=False)
class Notifications(ABC):
    """Notifications below one znode.

    Args:
        parent: path of the znode.
    """

    _process: Process
    _client: KafkaZooKeeperClient
    _parent: str
    _now_ms: Callable[[], int]
    _last_number: int = field(default=-1, init=False)
    _signal: Queue[None] = field(default_factory=Queue, init=False)

    def start(self) -> None:
        """Watch the children, and handle those present."""
        assert self._parent not in self._client.session.child_handlers, f"{self._parent} is watched already"
        self._client.session.child_handlers[self._parent] = self.handle_new
        self._process.spawn(self._run(), f"notifications in {self._parent}")
        self.handle_new()

    def handle_new(self) -> None:
        """Read the children and handle new notifications."""
        self._signal.put(None)

    @abstractmethod
    async def handle(self, path: str, data: bytes | None) -> None:
        """Handle one notification.

        Raises:
            ZnodeError: the notification is invalid.
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
        present = [f"{self._parent}/{name}" for name in sorted(await self._client.children(self._parent))]
        for path in present:
            number = _number(path)
            if number > self._last_number:
                found = await self._client.read(path)
                if found is not None:
                    await self._handle(path, found[0])
                assert number > self._last_number, "notifications are handled one after the other"
                self._last_number = number
        for path in present:
            found = await self._client.read(path)
            if found is not None and self._now_ms() - found[1].ctime_ms > KEPT_MS:
                await self._client.session.call(Delete(path, ANY_VERSION))

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
        raise ZnodeError("name has no number", where=path, right="a prefix and a number")
    return number
