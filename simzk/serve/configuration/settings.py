"""Settings of a served ZooKeeper: ports, limits, storage, AdminServer.

Rules of this module:
  - each setting is documented with its key of zoo.cfg in parentheses;
  - a server without a configuration file has no restrictions, because it runs on a desk or in a test: every four-letter
    word, TTL nodes, any number of connections. One with a zoo.cfg has the real server's defaults (zoo_cfg.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from simzk.wire.four_letter_words import ALL_WORDS, answered_words
from simzk.zookeeper.config import ServerConfig

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.serve.configuration.members import Belonging
    from simzk.serve.tcp.tls import Tls
    from simzk.zookeeper.releases import Rules


class Throttle(NamedTuple):
    """Limits on how often sessions are requested (connection_throttle_*; simzk.serve.tcp.server).

    Attributes:
        tokens: size of the bucket of tokens; 0 for no throttle.
        fill_time_ms: interval at which tokens are added.
        fill_count: number of tokens added in each interval.
        freeze_time_ms: interval at which the probability of random rejection is changed; -1 for no random rejection.
        drop_increase: added to the probability when the bucket is empty.
        drop_decrease: subtracted from it when the used share of tokens is at most `decrease_ratio`.
        decrease_ratio: share of used tokens, 0 to 1.
        weighs: whether a session takes tokens by its kind instead of one; `tokens` and `fill_count` then count global
            sessions.
        global_weight: tokens of a new global session.
        local_weight: tokens of a new local session.
        renew_weight: tokens of a session that reconnects.
    """

    tokens: int = 0
    fill_time_ms: int = 1
    fill_count: int = 1
    freeze_time_ms: int = -1
    drop_increase: float = 0.02
    drop_decrease: float = 0.002
    decrease_ratio: float = 0.0
    weighs: bool = False
    global_weight: int = 3
    local_weight: int = 1
    renew_weight: int = 2


class Storage(NamedTuple):
    """Storage of a data directory, by the names and defaults of zoo.cfg.

    Attributes:
        fsync: whether transactions are forced to the disk before they are acknowledged (forceSync).
        slow_fsync_ms: a longer fsync is counted as slow (fsync.warningthresholdms).
        log_step_kib: logs are preallocated in steps of this size, filled with zeros; 0 for none (preAllocSize).
        log_limit_kib: size at which a new log is begun; 0 or less for no limit (txnLogSizeLimitInKb).
        snap_count: a snapshot is written every snap_count/2 to snap_count transactions, 2 or more (snapCount).
        snap_limit_kib: a snapshot is written after this much log, or half of it; 0 or less for no limit
            (snapSizeLimitInKb).
        compression: format of snapshots; empty for none (snapshot.compression.method).
        trusts_empty: whether logs without any snapshot begin with an empty tree (snapshot.trust.empty).
        makes_folders: whether missing folders are created (datadir.autocreate).
        digests: whether the tree's digest is written and compared (digest.enabled).
        names_ephemerals: whether the log lists the ephemerals that a closed session removes (closeSessionTxn.enabled).
        tells_zxid: whether a snapshot ends with the last zxid applied (serializeLastProcessedZxid.enabled).
        snapshots_kept: number of newest snapshots that a purge keeps (autopurge.snapRetainCount).
        purge_interval_h: interval of purges of older snapshots and logs; 0 or less for none (autopurge.purgeInterval).
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

    def of(self, rules: Rules) -> Storage:
        """Return the storage of a release, which writes only what it has."""
        has_digests = rules.digests_trees
        return self._replace(
            digests=self.digests and has_digests,
            names_ephemerals=self.names_ephemerals and has_digests,
            tells_zxid=self.tells_zxid and rules.release >= (3, 9, 0),
        )


class Metrics(NamedTuple):
    """Port for Prometheus (metricsProvider.className).

    Attributes:
        address: the interface to listen on; empty for all (metricsProvider.httpHost).
        port: the port; 0 for any free one (metricsProvider.httpPort).
        exports_process: whether metrics of the process are exported too (metricsProvider.exportJvmInfo).
    """

    address: str
    port: int
    exports_process: bool = True


class Settings(NamedTuple):
    """Configuration of a served ZooKeeper.

    Attributes:
        address: the interface to listen on; empty for all.
        port: the port to listen on; 0 for any free one.
        backlog: maximum number of connections that wait to be accepted, as conf reports it; the default below 1
            (clientPortListenBacklog).
        max_connections_per_address: connections of one client address; 0 or less for no limit (maxClientCnxns).
        max_connections: connections in all; 0 for no limit (maxCnxns).
        throttle: limits how often sessions are requested; None for no limit.
        silence_ms: timeout of a connection that requests no session (nio.sessionlessCnxnTimeout).
        whitelist: four-letter words that are answered, beside those that always are; None for those of the release
            (4lw.commands.whitelist).
        data_directory: folder of snapshots and logs; None for in memory only (dataDir).
        log_directory: folder of logs, if another (dataLogDir).
        storage: how snapshots and logs are written.
        secure_port: a second port, for TLS (secureClientPort); without it `tls` applies to `port`.
        secure_address: the interface of that port; None for the one of `port` (secureClientPortAddress).
        tls: TLS configuration; None for no TLS.
        unifies_ports: whether `port` accepts both plain text and TLS (client.portUnification).
        admin_address: the interface of the AdminServer.
        live_address: the interface on which it also has what only simzk has (live page, faults, brokers, metrics); None
            for its own.
        admin_port: its port, 0 for any free one; None for no AdminServer.
        admin_path: URL path of its commands (admin.commandURL).
        admin_token: the token that a client needs for simzk's own requests by HTTP; None if none is set.
        admin_idle_ms: idle timeout of its connections (admin.idleTimeout).
        gives_snapshots: whether the command snapshot is enabled (admin.snapshot.enabled).
        takes_snapshots: whether the command restore is enabled (admin.restore.enabled).
        trusts_forwarded_for: whether the client's address is read from X-Forwarded-For
            (IPAuthenticationProvider.usexforwardedfor).
        snapshot_interval_ms: minimum time between two of these commands (admin.rateLimiterIntervalInMS).
        metrics: port for Prometheus, or None; with it mntr answers in Prometheus's names too.
        counts: whether metrics are counted (not with the NullMetricsProvider).
        init_limit: reported by conf and without effect otherwise (initLimit).
        sync_limit: likewise (syncLimit).
        local_sessions: whether sessions of an ensemble are local to the server where they begin
            (localSessionsEnabled).
        upgrades_sessions: whether a local session that creates an ephemeral znode becomes global, instead of being
            refused (localSessionsUpgradingEnabled).
        read_only: whether a server without a majority serves read-only clients (readonlymode.enabled).
        server: configuration of the state machine.
        text: the configuration file as it was read; None without one.
        belonging: the file's ensemble; None for a single server.
        notices: warnings about the file.
    """

    address: str = "127.0.0.1"
    port: int = 0
    backlog: int = -1
    max_connections_per_address: int = 0
    max_connections: int = 0
    throttle: Throttle | None = None
    silence_ms: int = 10_000
    whitelist: frozenset[str] | None = ALL_WORDS
    data_directory: Path | None = None
    log_directory: Path | None = None
    storage: Storage = Storage()
    admin_address: str = "127.0.0.1"
    live_address: str | None = None
    admin_port: int | None = None
    admin_path: str = "/commands"
    admin_token: str | None = None
    admin_idle_ms: int = 30_000
    gives_snapshots: bool = True
    takes_snapshots: bool = True
    trusts_forwarded_for: bool = False
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

    @property
    def words(self) -> frozenset[str]:
        """Return the four-letter words that are answered."""
        return answered_words(self.whitelist, self.server.rules.release, read_only=self.read_only)

    @property
    def accept_backlog(self) -> int:
        """Return the maximum number of connections that wait to be accepted."""
        return self.backlog if self.backlog > 0 else 1024
