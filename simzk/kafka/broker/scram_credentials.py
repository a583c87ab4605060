"""SCRAM credentials of users, cached by one broker (CredentialCache, UserConfigHandler).

Rules of this module:
  - a broker reads the configuration of all users at its start, and of one user for each notification;
  - only a broker with SCRAM at its listener reads them: others send no such request here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from simzk.errors import ZnodeError
from simzk.kafka.security.scram import MECHANISMS
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import scram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.security.scram import ScramCredential
    from simzk.kafka.zookeeper_mode.client.zk_client import KafkaZooKeeperClient

_USERS = "users"


@dataclass(eq=False)
class ScramCredentials:
    """Credentials by mechanism and user."""

    _client: KafkaZooKeeperClient
    _found: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, init=False)

    async def load(self) -> None:
        """Read the credentials of all users."""
        for name in await self._client.children(paths.config(_USERS)):
            try:
                self.update(name, await self._client.entity_config(f"{_USERS}/{name}"))
            except ZnodeError as problem:
                self._client.unusable(problem)

    def update(self, name: str, values: Mapping[str, str]) -> None:
        """Cache the configuration of a user, by the name of its znode; ignore an invalid credential."""
        user = unquote(name)
        for mechanism in MECHANISMS:
            self._found.pop((mechanism, user), None)
            if mechanism in values:
                try:
                    path = paths.config(f"{_USERS}/{name}")
                    self._found[mechanism, user] = scram.decode(path, mechanism, values[mechanism])
                except ZnodeError as problem:
                    self._client.unusable(problem)

    def get(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return the credential of a user; None if the user has none."""
        return self._found.get((mechanism, user))
