"""Configuration changes as every broker follows them (docs/reference/kafka.md §1.8; ZkNodeChangeNotificationListener).

Rules of the module:
  - a notification carries no values: the entity is read again;
  - notifications are handled in the order of their numbers, each once; those older than 15 minutes are deleted by
    whoever comes to it;
  - after a new session all are looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.schemas import config
from simzk.kafka.session import SessionExpiredError, ZooKeeperSession
from simzk.kafka.zk_client import ANY_VERSION, KafkaZooKeeperClient
from simzk.simulation import Process, Queue
from simzk.zookeeper.requests import Delete

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT_MS = 15 * 60 * 1000


class ConfigChanges:
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
        self._process = process
        self._session = session
        self._client = client
        self._now_ms = now_ms
        self._on_change = on_change
        self._last_number = -1
        self._signal: Queue[None] = Queue()

    def start(self) -> None:
        """Register, and read what there is."""
        self._session.child_handlers[paths.CONFIG_CHANGES] = self.look_again
        self._process.spawn(self._run(), "config changes")
        self.look_again()

    def look_again(self) -> None:
        """There may be new notifications."""
        self._signal.put(None)

    async def _run(self) -> None:
        while True:
            await self._signal.get()
            try:
                await self._process_changes()
            except SessionExpiredError:
                continue

    async def _process_changes(self) -> None:
        names = sorted(await self._client.children(paths.CONFIG_CHANGES))
        for name in names:
            number = _number(name)
            if number > self._last_number:
                await self._process_one(f"{paths.CONFIG_CHANGES}/{name}")
                self._last_number = number
        for name in names:
            path = f"{paths.CONFIG_CHANGES}/{name}"
            found = await self._client.read(path)
            if found is not None and self._now_ms() - found[1].ctime_ms > KEPT_MS:
                await self._session.call(Delete(path, ANY_VERSION))

    async def _process_one(self, path: str) -> None:
        found = await self._client.read(path)
        if found is None:
            return
        try:
            entity_path = config.decode_change(path, found[0])
        except ZnodeError:
            return  # Kafka logs it and goes on
        self._on_change(entity_path, await self._client.entity_config(entity_path))


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdigit() else -1
