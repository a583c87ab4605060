"""What may be set about how a server's tree is kept on disk, by the names and defaults of zoo.cfg.

What may be set about a served ZooKeeper: where it listens, what it holds back, where it keeps its data.

Rules of this module:
  - a server that no file describes holds nothing back, for it stands on a desk or in a test: every four-letter word,
    TTL nodes, any number of connections. One with a zoo.cfg has the real server's defaults (zoo_cfg.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from simzk.wire.four_letter_words import ALL_WORDS
from simzk.zookeeper.config import ServerConfig

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.serve.configuration.members import Belonging
    from simzk.serve.tcp.connection_factory import Throttle
    from simzk.serve.tcp.tls import Tls


class Storage(NamedTuple):
    """How a data directory is written, and what is made of one that is found.

    Attributes:
        fsync: whether what is acknowledged is forced to the disk (forceSync).
        slow_fsync_ms: what takes longer is counted as slow (fsync.warningthresholdms).
        log_step_kib: logs grow by so much at once, filled with zeros; 0 for as they are written (preAllocSize).
        log_limit_kib: a log that is longer is followed by another; 0 or less for no limit (txnLogSizeLimitInKb).
        snap_count: a snapshot is made every snap_count/2 to snap_count transactions, 2 or more (snapCount).
        snap_limit_kib: or every so much of logs, half of it at least; 0 or less for no limit (snapSizeLimitInKb).
        compression: how snapshots are packed (snapshot.compression.method).
        trusts_empty: whether logs without any snapshot begin with an empty tree (snapshot.trust.empty).
        makes_folders: whether folders that are not there are made (datadir.autocreate).
        digests: whether the tree's digest is written, and compared (digest.enabled).
        names_ephemerals: whether the log names what the end of a session removes (closeSessionTxn.enabled).
        tells_zxid: whether a snapshot ends with the last zxid applied (serializeLastProcessedZxid.enabled).
        snapshots_kept: of those that are purged, so many newest ones are kept (autopurge.snapRetainCount).
        purge_interval_h: how often older snapshots and their logs are removed; 0 or less for never
            (autopurge.purgeInterval).
    """

    fsync: bool = True
    slow_fsync_ms: int = 1000
    log_step_kib: int = 0
    log_limit_kib: int = 0
    snap_count: int = 100_000
    snap_limit_kib: int = 4 * 1024 * 1024
    compression: Literal["", "gz", "snappy"] = ""
    trusts_empty: bool = False
    makes_folders: bool = True
    digests: bool = True
    names_ephemerals: bool = True
    tells_zxid: bool = True
    snapshots_kept: int = 3
    purge_interval_h: int = 0


class Metrics(NamedTuple):
    """A port of its own for Prometheus (metricsProvider.className).

    Attributes:
        address: the interface to listen on; empty for all (metricsProvider.httpHost).
        port: 0 for any free one (metricsProvider.httpPort).
        exports_process: whether it tells of the process too (metricsProvider.exportJvmInfo).
    """

    address: str
    port: int
    exports_process: bool = True


class Settings(NamedTuple):
    """How a ZooKeeper is served.

    Attributes:
        address: the interface to listen on; empty for all.
        port: the port to listen on; 0 for any free one.
        backlog: how many connections may wait to be accepted.
        max_connections_per_address: of one client's address; 0 or less for any number (maxClientCnxns).
        max_connections: in all; 0 for any number (maxCnxns).
        throttle: how many sessions may be asked for in how short a time; None for any number.
        silence_ms: how long a connection may ask for nothing (nio.sessionlessCnxnTimeout).
        whitelist: the four-letter words that are answered (4lw.commands.whitelist).
        data_directory: where the tree is kept; None for in memory only (dataDir).
        log_directory: where its logs are kept if not there too (dataLogDir).
        storage: how they are kept.
        secure_port: a port beside `port` that TLS secures (secureClientPort); without it `tls` secures `port` itself.
        secure_address: the interface of that port; None for the one of `port`.
        tls: how; None for no TLS.
        unifies_ports: whether `port` speaks both plainly and by TLS (client.portUnification).
        admin_address: the interface of the AdminServer.
        admin_port: its port, 0 for any free one; None for no AdminServer.
        admin_path: where its commands are found (admin.commandURL).
        admin_idle_ms: how long its connections may be silent (admin.idleTimeout).
        gives_snapshots: whether it has the command snapshot (admin.snapshot.enabled).
        takes_snapshots: whether it has the command restore (admin.restore.enabled).
        believes_proxies: whether an address is told by X-Forwarded-For (IPAuthenticationProvider.usexforwardedfor).
        snapshot_interval_ms: how long the AdminServer gives nobody another snapshot (admin.rateLimiterIntervalInMS).
        metrics: where else metrics are told, or None; with it mntr tells them in Prometheus's form, too.
        counts: whether anything is counted at all (not so with the NullMetricsProvider).
        init_limit: ticks that a server of an ensemble may take to join its leader; told and no more (initLimit).
        sync_limit: ticks that it may be behind it; told and no more (syncLimit).
        local_sessions: whether an ensemble's sessions are known only to the server where they begin
            (localSessionsEnabled).
        upgrades_sessions: whether such a session is known to all once it makes an ephemeral znode, and is not refused
            (localSessionsUpgradingEnabled).
        read_only: whether a server without a majority serves read-only clients (readonlymode.enabled).
        server: how the server itself behaves.
        text: the configuration file as it was read; None where there was none.
        belonging: what that file says of an ensemble; None for a lone server.
        notices: what is to be said about that file.
    """

    address: str = "127.0.0.1"
    port: int = 0
    backlog: int = 1024
    max_connections_per_address: int = 0
    max_connections: int = 0
    throttle: Throttle | None = None
    silence_ms: int = 10_000
    whitelist: frozenset[str] = ALL_WORDS
    data_directory: Path | None = None
    log_directory: Path | None = None
    storage: Storage = Storage()
    admin_address: str = "127.0.0.1"
    admin_port: int | None = None
    admin_path: str = "/commands"
    admin_idle_ms: int = 30_000
    gives_snapshots: bool = True
    takes_snapshots: bool = True
    believes_proxies: bool = False
    snapshot_interval_ms: int = 0
    metrics: Metrics | None = None
    counts: bool = True
    init_limit: int = 10
    sync_limit: int = 5
    local_sessions: bool = False
    upgrades_sessions: bool = False
    read_only: bool = False
    secure_port: int | None = None
    secure_address: str | None = None
    tls: Tls | None = None
    unifies_ports: bool = False
    server: ServerConfig = ServerConfig(extended_types=True)
    text: str | None = None
    belonging: Belonging | None = None
    notices: tuple[str, ...] = ()
