"""Configuration changes as every broker follows them (docs/reference/kafka.md §1.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.broker.notifications import Notifications
from simzk.kafka.schemas import config
from simzk.kafka.schemas.reading import NoJsonError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.session import ZooKeeperSession
    from simzk.kafka.zk_client import KafkaZooKeeperClient
    from simzk.simulation import Process


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
        known = self._client.version.configured
        if entity_path.partition("/")[0] not in known:
            raise ZnodeError(f"is about {entity_path}", where=path, right=f"one of {', '.join(sorted(known))}")
        self._on_change(entity_path, await self._client.entity_config(entity_path))
