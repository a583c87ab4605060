"""The keys of zoo.cfg that mean something here: what each sets, and how its value is read.

Rules of this module:
  - a key is a row of `KEYS`, and has a line in docs/zoo_cfg.md; one that is accepted and means nothing here is a row of
    zoo_cfg_without_effect.py instead;
  - `FLAGS` are those that the real server takes from Java's command line only: a zoo.cfg that has them sets nothing
    there. Here they are obeyed, for there is no such command line, and a warning says so.

Source: QuorumPeerConfig.parseProperties and whoever reads the system properties that it makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.serve.configuration import values

if TYPE_CHECKING:
    from collections.abc import Callable


class Key(NamedTuple):
    """What a key of the file sets.

    Attributes:
        name: the field.
        read: the value for it.
        of: whose field: of "settings", "server" (ServerConfig), "storage" (Storage), "tls", "throttle" (Throttle), or
            of the "file" only, for something that zoo_cfg.py puts together.
    """

    name: str
    read: Callable[[str], Any]
    of: str = "settings"


KEYS = {
    # Where it listens
    "clientPort": Key("port", values.port),
    "clientPortAddress": Key("address", values.text),
    "secureClientPort": Key("secure_port", values.port),
    "secureClientPortAddress": Key("secure_address", values.text, "file"),
    "clientPortListenBacklog": Key("backlog", values.integer),
    # How much of whom
    "maxClientCnxns": Key("max_connections_per_address", values.integer),
    "maxCnxns": Key("max_connections", values.loose_integer),
    "largeRequestThreshold": Key("large_threshold", values.large_threshold, "file"),
    "largeRequestMaxBytes": Key("large_bytes", values.loose_positive, "file"),
    "connection_throttle_tokens": Key("tokens", values.loose_integer, "throttle"),
    "connection_throttle_fill_time": Key("fill_time_ms", values.fill_time, "throttle"),
    "connection_throttle_fill_count": Key("fill_count", values.loose_integer, "throttle"),
    "connection_throttle_freeze_time": Key("freeze_time_ms", values.loose_integer, "throttle"),
    "connection_throttle_drop_increase": Key("drop_increase", values.double, "throttle"),
    "connection_throttle_drop_decrease": Key("drop_decrease", values.double, "throttle"),
    "connection_throttle_decrease_ratio": Key("decrease_ratio", values.double, "throttle"),
    "connection_throttle_weight_enabled": Key("weighs", values.loose_boolean, "throttle"),
    "connection_throttle_global_session_weight": Key("global_weight", values.loose_positive, "throttle"),
    "connection_throttle_local_session_weight": Key("local_weight", values.loose_positive, "throttle"),
    "connection_throttle_renew_session_weight": Key("renew_weight", values.loose_positive, "throttle"),
    "nio.sessionlessCnxnTimeout": Key("silence_ms", values.loose_positive),
    "4lw.commands.whitelist": Key("whitelist", values.words),
    # Where it keeps what
    "dataDir": Key("data_directory", Path),
    "dataLogDir": Key("log_directory", Path),
    "datadir.autocreate": Key("makes_folders", values.loose_boolean, "storage"),
    "forceSync": Key("fsync", values.not_no, "storage"),
    "fsync.warningthresholdms": Key("slow_fsync_ms", values.loose_integer, "storage"),
    "preAllocSize": Key("log_step_kib", values.loose_integer, "storage"),
    "txnLogSizeLimitInKb": Key("log_limit_kib", values.loose_integer, "storage"),
    "snapCount": Key("snap_count", values.snap_count, "storage"),
    "snapSizeLimitInKb": Key("snap_limit_kib", values.loose_integer, "storage"),
    "snapshot.compression.method": Key("compression", values.compression, "storage"),
    "snapshot.trust.empty": Key("trusts_empty", values.loose_boolean, "storage"),
    "digest.enabled": Key("digests", values.loose_boolean, "storage"),
    "closeSessionTxn.enabled": Key("names_ephemerals", values.loose_boolean, "storage"),
    "serializeLastProcessedZxid.enabled": Key("tells_zxid", values.loose_boolean, "storage"),
    "autopurge.snapRetainCount": Key("snapshots_kept", values.integer, "storage"),
    "autopurge.purgeInterval": Key("purge_interval_h", values.integer, "storage"),
    # TLS
    "ssl.keyStore.location": Key("certificate", Path, "tls"),
    "ssl.keyStore.password": Key("password", values.text, "tls"),
    "ssl.keyStore.passwordPath": Key("password_path", Path, "tls"),
    "ssl.keyStore.type": Key("key_store_type", values.one_of("pem", "jks", "pkcs12"), "tls"),
    "ssl.trustStore.location": Key("authorities", Path, "tls"),
    "ssl.trustStore.password": Key("trust_password", values.text, "tls"),
    "ssl.trustStore.passwordPath": Key("trust_password_path", Path, "tls"),
    "ssl.trustStore.type": Key("trust_store_type", values.one_of("pem", "jks", "pkcs12"), "tls"),
    "ssl.clientAuth": Key("client_auth", values.one_of("need", "want", "none"), "tls"),
    "ssl.protocol": Key("protocol", values.text, "tls"),
    "ssl.enabledProtocols": Key("protocols", values.names, "tls"),
    "ssl.ciphersuites": Key("ciphers", values.names, "tls"),
    "client.portUnification": Key("unifies_ports", values.loose_boolean),
    "ssl.authProvider": Key("tls_scheme", values.text, "file"),
    # What is monitored
    "admin.enableServer": Key("admin_enabled", values.not_false, "file"),
    "admin.serverAddress": Key("admin_address", values.text),
    "admin.serverPort": Key("admin_port", values.loose_port),
    "admin.commandURL": Key("admin_path", values.text),
    "admin.idleTimeout": Key("admin_idle_ms", values.loose_positive),
    "admin.rateLimiterIntervalInMS": Key("snapshot_interval_ms", values.integer),
    "admin.snapshot.enabled": Key("gives_snapshots", values.loose_boolean),
    "admin.restore.enabled": Key("takes_snapshots", values.loose_boolean),
    "IPAuthenticationProvider.usexforwardedfor": Key("believes_proxies", values.loose_boolean),
    "metricsProvider.className": Key("metrics_provider", values.text, "file"),
    "metricsProvider.httpHost": Key("metrics_address", values.text, "file"),
    "metricsProvider.httpPort": Key("metrics_port", values.port, "file"),
    "metricsProvider.exportJvmInfo": Key("exports_process", values.loose_boolean, "file"),
    # An ensemble
    "initLimit": Key("init_limit", values.integer),
    "syncLimit": Key("sync_limit", values.integer),
    "localSessionsEnabled": Key("local_sessions", values.boolean),
    "localSessionsUpgradingEnabled": Key("upgrades_sessions", values.boolean),
    "readonlymode.enabled": Key("read_only", values.loose_boolean),
    "dynamicConfigFile": Key("dynamic", values.text, "file"),
    # How the server behaves
    "tickTime": Key("tick_time_ms", values.positive, "server"),
    "minSessionTimeout": Key("min_session_timeout_ms", values.integer, "server"),
    "maxSessionTimeout": Key("max_session_timeout_ms", values.integer, "server"),
    "jute.maxbuffer": Key("max_buffer_bytes", values.loose_positive, "server"),
    "extendedTypesEnabled": Key("extended_types", values.loose_boolean, "server"),
    "enforceQuota": Key("enforce_quota", values.loose_boolean, "server"),
    "reconfigEnabled": Key("reconfig_enabled", values.boolean, "server"),
    "znode.container.checkIntervalMs": Key("container_check_interval_ms", values.loose_positive, "server"),
    "znode.container.maxNeverUsedIntervalMs": Key("container_unused_ms", values.loose_integer, "server"),
    # Who may do what
    "skipACL": Key("skip_acl", values.yes, "server"),
    "DigestAuthenticationProvider.enabled": Key("digest_auth", values.loose_boolean, "server"),
    "DigestAuthenticationProvider.digestAlg": Key("digest_algorithm", values.digest_algorithm, "server"),
    "DigestAuthenticationProvider.superDigest": Key("super_digest", values.text, "server"),
    "X509AuthenticationProvider.superUser": Key("x509_super", values.text, "server"),
    "SASLAuthenticationProvider.superPassword": Key("super_password", values.text, "server"),
    "ensembleAuthName": Key("ensemble_names", lambda value: frozenset(values.names(value)), "server"),
    "enforce.auth.enabled": Key("enforces", values.loose_boolean, "file"),
    "enforce.auth.schemes": Key("enforced", values.names, "file"),
    "sessionRequireClientSASLAuth": Key("requires_sasl", values.loose_boolean, "file"),
    "allowSaslFailedClients": Key("keeps_failed_logins", values.loose_boolean, "server"),
    # What would have to be served
    "emulate353TTLNodes": Key("", values.never("false, or absent: TTL nodes are those of 3.5.4 and later"), "file"),
    "ssl.context.supplier.class": Key("", values.absent("nothing: keys come from files"), "file"),
    "letAnySaslUserDoX": Key("", values.absent("nothing: an ACL names who may do what"), "file"),
    "admin.portUnification": Key("", values.never("false, or absent: the AdminServer speaks HTTP"), "file"),
    "admin.forceHttps": Key("", values.never("false, or absent: the AdminServer speaks HTTP"), "file"),
    "ssl.crl": Key("", values.never("false, or absent: lists of revoked certificates are not fetched"), "file"),
    "ssl.ocsp": Key("", values.never("false, or absent: nobody is asked about certificates"), "file"),
    "ssl.clientHostnameVerification": Key("", values.never("false, or absent: clients are not looked up"), "file"),
}

PREFIXES = {
    "server.": "a member of its ensemble",
    "authProvider.": "the class of one more scheme of authentication",
    "superUser": "the name of a SASL user who may do everything",
}
"""Keys of which there can be several: what follows is a number or a name. `superUser` may stand alone."""

FLAGS = frozenset(
    {
        "jute.maxbuffer",
        "znode.container.checkIntervalMs",
        "znode.container.maxNeverUsedIntervalMs",
        "znode.container.maxPerMinute",
        "readonlymode.enabled",
    }
)
"""Keys of Java's command line: the real server's zoo.cfg cannot set them."""

AUTH_PROVIDERS = {
    "org.apache.zookeeper.server.auth.DigestAuthenticationProvider": "digest",
    "org.apache.zookeeper.server.auth.IPAuthenticationProvider": "ip",
    "org.apache.zookeeper.server.auth.X509AuthenticationProvider": "x509",
    "org.apache.zookeeper.server.auth.SASLAuthenticationProvider": "sasl",
    "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider": "ensemble",
}
"""The real server's own classes, and the schemes that they are for."""

DEFAULT_METRICS = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
NO_METRICS = "org.apache.zookeeper.metrics.impl.NullMetricsProvider"
PROMETHEUS_METRICS = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
