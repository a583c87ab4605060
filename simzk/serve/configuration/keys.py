"""Keys of zoo.cfg with an effect, and the readers of their values.

Rules of this module:
  - a key is a row of `KEYS` and has a line in docs/zoo_cfg.md; a key without effect is in keys_without_effect.py;
  - a reader is a pure function of the text. It raises `ValueError`, with what is accepted, for a value with which the
    real server does not start (Integer.parseInt and its own parseBoolean), and `DoubtError` for a value that the real
    server replaces by another one (Integer.getInteger, Boolean.getBoolean); the file's reader warns of that;
  - `FLAGS` are keys of Java's command line, which have no effect in a zoo.cfg of the real server. Here they have,
    because there is no such command line, and a warning says so.

Source: QuorumPeerConfig.parseProperties, the readers of the system properties that it sets; java.lang.Integer, Long,
Boolean.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.wire.four_letter_words import ALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

UNSET = object()
"""Replacement in a `DoubtError`: the default of the setting."""


class DoubtError(Exception):
    """A value that the real server replaces by another one without a message.

    Args:
        right: what is accepted.
        replacement: the value that it uses.
    """

    def __init__(self, right: str, replacement: object = UNSET) -> None:
        super().__init__(right)
        self.replacement = replacement


def integer(value: str) -> int:
    """Read an integer, like Integer.parseInt."""
    number = int(value) if re.fullmatch(r"[+-]?[0-9]{1,4000}", value) else None
    if number is None or not -(2**31) <= number < 2**31:
        raise ValueError("a whole number")
    return number


def port(value: str) -> int:
    """Read a port number."""
    number = integer(value)
    if not 0 <= number <= 65535:
        raise ValueError("a port, 0 to 65535")
    return number


def positive(value: str) -> int:
    """Read an integer above 0."""
    number = integer(value)
    if number <= 0:
        raise ValueError("more than 0")
    return number


def boolean(value: str) -> bool:
    """Read true or false, like QuorumPeerConfig.parseBoolean."""
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def one_of(*values: str) -> Callable[[str], str]:
    """Return a reader that accepts these values, in any case of letters."""

    def read(value: str) -> str:
        if value.lower() not in values:
            raise ValueError(f"{', '.join(values[:-1])} or {values[-1]}")
        return value.lower()

    return read


def loose_integer(value: str) -> int:
    """Read an integer, also hexadecimal or octal, like Integer.getInteger (Integer.decode)."""
    found = re.fullmatch(r"([+-]?)(?:(?:0[xX]|#)([0-9a-fA-F]+)|(0[0-7]+)|([0-9]{1,4000}))", value)
    if found is None:
        raise DoubtError("a whole number")
    sign, hexadecimal, octal, decimal = found.groups()
    number = int(f"{sign}{hexadecimal or octal or decimal}", 16 if hexadecimal else 8 if octal else 10)
    if not -(2**63) <= number < 2**63:
        raise DoubtError("a whole number")
    return number


def loose_positive(value: str) -> int:
    """Read an integer above 0; others mean the default."""
    number = loose_integer(value)
    if number <= 0:
        raise DoubtError("more than 0")
    return number


def large_threshold(value: str) -> int | None:
    """Read a limit, None for no limit (ZooKeeperServer.setLargeRequestThreshold)."""
    number = loose_integer(value)
    if number == 0 or number < -1:
        raise DoubtError("more than 0, or -1", replacement=None)
    return None if number == -1 else number


def fill_time(value: str) -> int:
    """Read an interval of 1 ms or more; with less BlueThrottle divides by zero at each new session."""
    number = loose_integer(value)
    if number <= 0:
        raise ValueError("more than 0")
    return number


def double(value: str) -> float:
    """Read a decimal number, like Double.parseDouble without its suffixes."""
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value) is None:
        raise ValueError("a number")
    return float(value)


def loose_port(value: str) -> int:
    """Read a port number, also hexadecimal or octal."""
    number = loose_integer(value)
    if not 0 <= number <= 65535:
        raise ValueError("a port, 0 to 65535")
    return number


def loose_boolean(value: str) -> bool:
    """Read a boolean, like Boolean.getBoolean: everything but true is false."""
    if value.lower() not in ("true", "false"):
        raise DoubtError("true or false", replacement=False)
    return value.lower() == "true"


def yes(value: str) -> bool:
    """Read yes or no; others mean no."""
    if value not in ("yes", "no"):
        raise DoubtError("yes or no", replacement=False)
    return value == "yes"


def not_no(value: str) -> bool:
    """Read yes or no; others mean yes."""
    if value not in ("yes", "no"):
        raise DoubtError("yes or no", replacement=True)
    return value != "no"


def not_false(value: str) -> bool:
    """Read true or false; others mean true."""
    if value not in ("true", "false"):
        raise DoubtError("true or false", replacement=True)
    return value != "false"


def snap_count(value: str) -> int:
    """Read a number of transactions, 2 or more."""
    number = loose_integer(value)
    if number < 2:
        raise DoubtError("2 or more", replacement=2)  # ZooKeeperServer.getSnapCount
    return number


def words(value: str) -> frozenset[str]:
    """Read four-letter words; unknown ones are ignored, as in the real server."""
    listed = {word.strip() for word in value.split(",")} - {""}
    known = ALL_WORDS if "*" in listed else ALL_WORDS & listed
    if not listed <= ALL_WORDS | {"*"}:
        raise DoubtError("four-letter words, or *", replacement=known)
    return known


def names(value: str) -> tuple[str, ...]:
    """Read names separated by commas."""
    return tuple(name.strip() for name in value.split(","))


_ALGORITHMS = {"MD5": "md5", "SHA": "sha1", "SHA1": "sha1"} | {
    f"{family}-{bits}": f"{kind}{bits}"
    for family, kind in (("SHA", "sha"), ("SHA3", "sha3_"))
    for bits in (224, 256, 384, 512)
} | {"SHA-1": "sha1"}  # fmt: skip


def digest_algorithm(value: str) -> str:
    """Read an algorithm of java.security.MessageDigest; return hashlib's name."""
    if value.upper() not in _ALGORITHMS:
        raise ValueError(", ".join(sorted(_ALGORITHMS)))
    return _ALGORITHMS[value.upper()]


def compression(value: str) -> str:
    """Read a compression method, like SnapStream.StreamMode.fromString."""
    if value.lower() not in ("", "gz", "snappy"):
        raise DoubtError("gz, snappy or nothing", replacement="")
    return value.lower()


def absent(right: str) -> Callable[[str], Any]:
    """Return a reader that rejects any value, because the feature is not supported."""

    def read(value: str) -> str:
        raise ValueError(right)

    return read


def never(right: str) -> Callable[[str], Any]:
    """Return a reader that rejects true, because the feature is not supported."""

    def read(value: str) -> bool:
        if value.lower() == "true":
            raise ValueError(right)
        return False

    return read


class Key(NamedTuple):
    """A key of the file and the field that it sets.

    Attributes:
        name: the field.
        read: reader of its value.
        of: the object with the field: "settings", "server" (ServerConfig), "storage" (Storage), "tls", "throttle"
            (Throttle), or "file" for a value that zoo_cfg.py combines with others.
    """

    name: str
    read: Callable[[str], Any]
    of: str = "settings"


KEYS = {
    # Ports
    "clientPort": Key("port", port),
    "clientPortAddress": Key("address", str),
    "secureClientPort": Key("secure_port", port),
    "secureClientPortAddress": Key("secure_address", str, "file"),
    "clientPortListenBacklog": Key("backlog", integer),
    # Limits
    "maxClientCnxns": Key("max_connections_per_address", integer),
    "maxCnxns": Key("max_connections", loose_integer),
    "largeRequestThreshold": Key("large_threshold", large_threshold, "file"),
    "largeRequestMaxBytes": Key("large_bytes", loose_positive, "file"),
    "connection_throttle_tokens": Key("tokens", loose_integer, "throttle"),
    "connection_throttle_fill_time": Key("fill_time_ms", fill_time, "throttle"),
    "connection_throttle_fill_count": Key("fill_count", loose_integer, "throttle"),
    "connection_throttle_freeze_time": Key("freeze_time_ms", loose_integer, "throttle"),
    "connection_throttle_drop_increase": Key("drop_increase", double, "throttle"),
    "connection_throttle_drop_decrease": Key("drop_decrease", double, "throttle"),
    "connection_throttle_decrease_ratio": Key("decrease_ratio", double, "throttle"),
    "connection_throttle_weight_enabled": Key("weighs", loose_boolean, "throttle"),
    "connection_throttle_global_session_weight": Key("global_weight", loose_positive, "throttle"),
    "connection_throttle_local_session_weight": Key("local_weight", loose_positive, "throttle"),
    "connection_throttle_renew_session_weight": Key("renew_weight", loose_positive, "throttle"),
    "nio.sessionlessCnxnTimeout": Key("silence_ms", loose_positive),
    "4lw.commands.whitelist": Key("whitelist", words),
    # Storage
    "dataDir": Key("data_directory", Path),
    "dataLogDir": Key("log_directory", Path),
    "datadir.autocreate": Key("makes_folders", loose_boolean, "storage"),
    "forceSync": Key("fsync", not_no, "storage"),
    "fsync.warningthresholdms": Key("slow_fsync_ms", loose_integer, "storage"),
    "preAllocSize": Key("log_step_kib", loose_integer, "storage"),
    "txnLogSizeLimitInKb": Key("log_limit_kib", loose_integer, "storage"),
    "snapCount": Key("snap_count", snap_count, "storage"),
    "snapSizeLimitInKb": Key("snap_limit_kib", loose_integer, "storage"),
    "snapshot.compression.method": Key("compression", compression, "storage"),
    "snapshot.trust.empty": Key("trusts_empty", loose_boolean, "storage"),
    "digest.enabled": Key("digests", loose_boolean, "storage"),
    "closeSessionTxn.enabled": Key("names_ephemerals", loose_boolean, "storage"),
    "serializeLastProcessedZxid.enabled": Key("tells_zxid", loose_boolean, "storage"),
    "autopurge.snapRetainCount": Key("snapshots_kept", integer, "storage"),
    "autopurge.purgeInterval": Key("purge_interval_h", integer, "storage"),
    # TLS
    "ssl.keyStore.location": Key("certificate", Path, "tls"),
    "ssl.keyStore.password": Key("password", str, "tls"),
    "ssl.keyStore.passwordPath": Key("password_path", Path, "tls"),
    "ssl.keyStore.type": Key("key_store_type", one_of("pem", "jks", "pkcs12"), "tls"),
    "ssl.trustStore.location": Key("authorities", Path, "tls"),
    "ssl.trustStore.password": Key("trust_password", str, "tls"),
    "ssl.trustStore.passwordPath": Key("trust_password_path", Path, "tls"),
    "ssl.trustStore.type": Key("trust_store_type", one_of("pem", "jks", "pkcs12"), "tls"),
    "ssl.clientAuth": Key("client_auth", one_of("need", "want", "none"), "tls"),
    "ssl.protocol": Key("protocol", str, "tls"),
    "ssl.enabledProtocols": Key("protocols", names, "tls"),
    "ssl.ciphersuites": Key("ciphers", names, "tls"),
    "client.portUnification": Key("unifies_ports", loose_boolean),
    "ssl.authProvider": Key("tls_scheme", str, "file"),
    # Monitoring
    "admin.enableServer": Key("admin_enabled", not_false, "file"),
    "admin.serverAddress": Key("admin_address", str),
    "admin.serverPort": Key("admin_port", loose_port),
    "admin.commandURL": Key("admin_path", str),
    "admin.idleTimeout": Key("admin_idle_ms", loose_positive),
    "admin.rateLimiterIntervalInMS": Key("snapshot_interval_ms", integer),
    "admin.snapshot.enabled": Key("gives_snapshots", loose_boolean),
    "admin.restore.enabled": Key("takes_snapshots", loose_boolean),
    "IPAuthenticationProvider.usexforwardedfor": Key("trusts_forwarded_for", loose_boolean),
    "metricsProvider.className": Key("metrics_provider", str, "file"),
    "metricsProvider.httpHost": Key("metrics_address", str, "file"),
    "metricsProvider.httpPort": Key("metrics_port", port, "file"),
    "metricsProvider.exportJvmInfo": Key("exports_process", loose_boolean, "file"),
    # Ensemble
    "initLimit": Key("init_limit", integer),
    "syncLimit": Key("sync_limit", integer),
    "localSessionsEnabled": Key("local_sessions", boolean),
    "localSessionsUpgradingEnabled": Key("upgrades_sessions", boolean),
    "readonlymode.enabled": Key("read_only", loose_boolean),
    "dynamicConfigFile": Key("dynamic", str, "file"),
    "standaloneEnabled": Key("standalone", boolean, "file"),
    # State machine
    "tickTime": Key("tick_time_ms", positive, "server"),
    "minSessionTimeout": Key("min_session_timeout_ms", integer, "server"),
    "maxSessionTimeout": Key("max_session_timeout_ms", integer, "server"),
    "jute.maxbuffer": Key("max_buffer_bytes", loose_positive, "server"),
    "extendedTypesEnabled": Key("extended_types", loose_boolean, "server"),
    "enforceQuota": Key("enforce_quota", loose_boolean, "server"),
    "reconfigEnabled": Key("reconfig_enabled", boolean, "server"),
    "znode.container.checkIntervalMs": Key("container_check_interval_ms", loose_positive, "server"),
    "znode.container.maxNeverUsedIntervalMs": Key("container_unused_ms", loose_integer, "server"),
    # Authentication and permissions
    "skipACL": Key("skip_acl", yes, "server"),
    "DigestAuthenticationProvider.enabled": Key("digest_auth", loose_boolean, "server"),
    "DigestAuthenticationProvider.digestAlg": Key("digest_algorithm", digest_algorithm, "server"),
    "DigestAuthenticationProvider.superDigest": Key("super_digest", str, "server"),
    "X509AuthenticationProvider.superUser": Key("x509_super", str, "server"),
    "SASLAuthenticationProvider.superPassword": Key("super_password", str, "server"),
    "ensembleAuthName": Key("ensemble_names", lambda value: frozenset(names(value)), "server"),
    "enforce.auth.enabled": Key("enforces", loose_boolean, "file"),
    "enforce.auth.schemes": Key("enforced", names, "file"),
    "sessionRequireClientSASLAuth": Key("requires_sasl", loose_boolean, "file"),
    "allowSaslFailedClients": Key("keeps_failed_logins", loose_boolean, "server"),
    # Features that are not supported
    "ssl.context.supplier.class": Key("", absent("nothing: keys come from files"), "file"),
    "letAnySaslUserDoX": Key("", absent("nothing: permissions are those of ACLs"), "file"),
    "admin.portUnification": Key("", never("false, or absent: the AdminServer speaks HTTP"), "file"),
    "admin.forceHttps": Key("", never("false, or absent: the AdminServer speaks HTTP"), "file"),
    "ssl.crl": Key("", never("false, or absent: lists of revoked certificates are not fetched"), "file"),
    "ssl.ocsp": Key("", never("false, or absent: certificates are not checked online"), "file"),
    "ssl.clientHostnameVerification": Key(
        "", never("false, or absent: host names of clients are not resolved"), "file"
    ),
}

PREFIXES = {
    "server.": "a member of its ensemble",
    "authProvider.": "the class of one more scheme of authentication",
    "superUser": "the name of a SASL user with all permissions",
}
"""Prefixes of keys that end with a number or a name; `superUser` is a key by itself too."""

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
"""The real server's authentication providers, with their schemes."""

DEFAULT_METRICS = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
NO_METRICS = "org.apache.zookeeper.metrics.impl.NullMetricsProvider"
PROMETHEUS_METRICS = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
