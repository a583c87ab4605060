"""What may be set about a served ZooKeeper: where it listens, what it holds back, where it keeps its data.

Rules of this module:
  - a server that no file describes holds nothing back, for it stands on a desk or in a test: every four-letter word,
    TTL nodes, any number of connections. One with a zoo.cfg has the real server's defaults (zoo_cfg.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.wire.four_letter_words import ALL_WORDS
from simzk.zookeeper.config import ServerConfig

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.serve.tls import Tls


@dataclass(frozen=True)
class Settings:
    """How a ZooKeeper is served.

    Attributes:
        address: the interface to listen on; empty for all.
        port: the port to listen on; 0 for any free one.
        backlog: how many connections may wait to be accepted.
        max_connections_per_address: of one client's address; 0 for any number (maxClientCnxns).
        whitelist: the four-letter words that are answered (4lw.commands.whitelist).
        data_directory: where the tree is kept; None for in memory only (dataDir).
        log_directory: where its logs are kept if not there too (dataLogDir).
        fsync: whether what is acknowledged is forced to the disk (forceSync).
        snap_count: a snapshot is written about every so many transactions (snapCount).
        secure_port: a port beside `port` that TLS secures (secureClientPort); without it `tls` secures `port` itself.
        tls: how; None for no TLS.
        admin_address: the interface of the AdminServer.
        admin_port: its port, 0 for any free one; None for no AdminServer.
        admin_path: where its commands are found (admin.commandURL).
        snapshot_interval_ms: how long the AdminServer gives nobody another snapshot (admin.rateLimiterIntervalInMS).
        server: how the server itself behaves.
        text: the configuration file as it was read; None where there was none.
    """

    address: str = "127.0.0.1"
    port: int = 0
    backlog: int = 1024
    max_connections_per_address: int = 0
    whitelist: frozenset[str] = ALL_WORDS
    data_directory: Path | None = None
    log_directory: Path | None = None
    fsync: bool = True
    snap_count: int = 100_000
    admin_address: str = "127.0.0.1"
    admin_port: int | None = None
    admin_path: str = "/commands"
    snapshot_interval_ms: int = 0
    secure_port: int | None = None
    tls: Tls | None = None
    server: ServerConfig = field(default_factory=lambda: ServerConfig(extended_types=True))
    text: str | None = None
