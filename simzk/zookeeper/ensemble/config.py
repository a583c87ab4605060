"""Configuration of an ensemble, beside the configuration of each of its servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.zookeeper.config import ServerConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.zookeeper.ensemble.membership import Membership

MAX_SERVERS = 254
"""Largest server id with TTL nodes (§2.3)."""


@dataclass(frozen=True)
class EnsembleConfig:
    """Configuration of an ensemble.

    Attributes:
        servers: number of voters; their ids start at 1.
        server: configuration of each server, except `server_id`.
        election_ms: time without a leader until a connected majority has elected one.
        read_only: whether a server without a leader serves read-only clients (readonlymode.enabled). Their sessions
            are local, as with localSessionsEnabled; without it a real server has no sessions to give.
        read_only_after_ms: time without a leader before it does so.
        observers: number of observers; their ids follow those of the voters.
        local_sessions: whether a session is known only to its server (localSessionsEnabled).
        upgrades_sessions: whether a local session becomes global when it creates an ephemeral znode, instead of
            being rejected (localSessionsUpgradingEnabled).
        membership: members by zoo.cfg, instead of these numbers.
        here: ids of the members that are simulated; the others never run.

    Raises:
        ConfigError: the number of servers is not 1 to 254, or the simulated members have no majority and do not serve
            read-only clients.
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
            raise ConfigError(f"{count} servers are out of range", where="servers", right=f"1 to {MAX_SERVERS}")
        if self.membership is not None:
            voters = self.membership.voters
            here = len(voters & set(self.here))
            if here < self.membership.quorum and not self.read_only:
                what = f"{here} of {len(voters)} voters are simulated, which is no majority to elect a leader"
                raise ConfigError(what, where="servers", right=f"{self.membership.quorum} of them or more")

    @property
    def ids(self) -> Sequence[int]:
        """Return the ids of the simulated servers, observers last."""
        return self.here or range(1, self.servers + self.observers + 1)
