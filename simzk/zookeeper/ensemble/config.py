"""What may be set about an ensemble beside what may be set about each of its servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.zookeeper.config import ServerConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.zookeeper.ensemble.membership import Membership

MAX_SERVERS = 254
"""The greatest id of a server that can have TTL nodes (§2.3)."""


@dataclass(frozen=True)
class EnsembleConfig:
    """How an ensemble behaves.

    Attributes:
        servers: how many servers with a vote there are; their ids count from 1.
        server: how each of them behaves; its `server_id` is the servers' own.
        election_ms: how long nobody leads before a majority that can speak with each other has elected a leader.
        read_only: whether a server that looks for a leader in vain serves read-only clients (readonlymode.enabled).
            Their sessions are its own, as a real one's are where localSessionsEnabled is set; where it is not, a real
            one has no session to give.
        read_only_after_ms: how long it looks before it does so.
        observers: how many servers without a vote there are beside them; their ids follow.
        local_sessions: whether sessions are known to the server only where they begin (localSessionsEnabled).
        upgrades_sessions: whether such a session becomes one of all when it makes an ephemeral znode, and is not
            refused (localSessionsUpgradingEnabled).
        membership: who belongs to it where something else than these numbers says so (zoo.cfg).
        here: the ids of those of them that there are; of the others none ever runs.

    Raises:
        ConfigError: fewer than 1 server, or more than 254; of a membership no majority is here, though
            none is to serve read-only clients.
    """

    servers: int = 3
    server: ServerConfig = field(default_factory=ServerConfig)
    election_ms: int = 0
    read_only: bool = False
    read_only_after_ms: int = 0
    observers: int = 0
    local_sessions: bool = False
    upgrades_sessions: bool = False
    membership: Membership | None = None
    here: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count = self.servers + self.observers
        if self.servers < 1 or self.observers < 0 or count > MAX_SERVERS:
            raise ConfigError(f"an ensemble cannot have {count} servers", where="servers", right=f"1 to {MAX_SERVERS}")
        if self.membership is not None:
            voters = self.membership.voters
            here = len(voters & set(self.here))
            if here < self.membership.quorum and not self.read_only:
                what = f"of {len(voters)} servers with a vote {here} are here, and could never elect a leader"
                raise ConfigError(what, where="servers", right=f"{self.membership.quorum} of them or more")

    @property
    def ids(self) -> Sequence[int]:
        """The ids of the servers that there are; numbered observers are the last."""
        return self.here or range(1, self.servers + self.observers + 1)
