"""What a value of zoo.cfg means to the real server: it refuses some that are malformed, and makes something of others.

Rules of this module:
  - a reader is a pure function of the text; it raises `ValueError`, with what would be right, where the real server
    refuses to start (Integer.parseInt and its own parseBoolean), and `DoubtError` where it goes on with something else
    (Integer.getInteger, Boolean.getBoolean): whoever reads the file says so in a warning.

Source: QuorumPeerConfig.parseProperties; java.lang.Integer, Long, Boolean.

The keys of zoo.cfg that mean something here: what each sets, and how its value is read.

Rules of this module:
  - a key is a row of `KEYS`, and has a line in docs/zoo_cfg.md; one that is accepted and means nothing here is a row of
    zoo_cfg_without_effect.py instead;
  - `FLAGS` are those that the real server takes from Java's command line only: a zoo.cfg that has them sets nothing
    there. Here they are obeyed, for there is no such command line, and a warning says so.

Source: QuorumPeerConfig.parseProperties and whoever reads the system properties that it makes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.wire.four_letter_words import ALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

UNSET = object()
"""In a `DoubtError`: the setting is as if it were not there."""


class DoubtError(Exception):
    """A value that the real server takes for another one, without a word.

    Args:
        right: what would be right.
        taken_for: what it is taken for.
    """

    def __init__(self, right: str, taken_for: object = UNSET) -> None:
        super().__init__(right)
        self.taken_for = taken_for


def integer(value: str) -> int:
    """Integer.parseInt."""
    number = int(value) if re.fullmatch(r"[+-]?[0-9]+", value) else None
    if number is None or not -(2**31) <= number < 2**31:
        raise ValueError("a whole number")
    return number


def port(value: str) -> int:
    number = integer(value)
    if not 0 <= number <= 65535:
        raise ValueError("a port, 0 to 65535")
    return number


def positive(value: str) -> int:
    number = integer(value)
    if number <= 0:
        raise ValueError("more than 0")
    return number


def boolean(value: str) -> bool:
    """QuorumPeerConfig.parseBoolean."""
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def one_of(*values: str) -> Callable[[str], str]:
    """What must be one of these, in any case."""

    def read(value: str) -> str:
        if value.lower() not in values:
            raise ValueError(f"{', '.join(values[:-1])} or {values[-1]}")
        return value.lower()

    return read


def text(value: str) -> str:
    return value


def loose_integer(value: str) -> int:
    """Integer.getInteger, which takes hexadecimal and octal numbers too (Integer.decode)."""
    found = re.fullmatch(r"([+-]?)(?:(?:0[xX]|#)([0-9a-fA-F]+)|(0[0-7]+)|([0-9]+))", value)
    if found is None:
        raise DoubtError("a whole number")
    sign, hexadecimal, octal, decimal = found.groups()
    number = int(f"{sign}{hexadecimal or octal or decimal}", 16 if hexadecimal else 8 if octal else 10)
    if not -(2**63) <= number < 2**63:
        raise DoubtError("a whole number")
    return number


def loose_positive(value: str) -> int:
    number = loose_integer(value)
    if number <= 0:
        raise DoubtError("more than 0")
    return number


def large_threshold(value: str) -> int | None:
    """ZooKeeperServer.setLargeRequestThreshold; None for no limit."""
    number = loose_integer(value)
    if number == 0 or number < -1:
        raise DoubtError("more than 0, or -1", taken_for=None)
    return None if number == -1 else number


def fill_time(value: str) -> int:
    """With less than 1 ms BlueThrottle divides by nothing whenever a session is asked for."""
    number = loose_integer(value)
    if number <= 0:
        raise ValueError("more than 0")
    return number


def double(value: str) -> float:
    """Double.parseDouble, but that a number ends here as it does elsewhere."""
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value) is None:
        raise ValueError("a number")
    return float(value)


def loose_port(value: str) -> int:
    number = loose_integer(value)
    if not 0 <= number <= 65535:
        raise ValueError("a port, 0 to 65535")
    return number


def loose_boolean(value: str) -> bool:
    """Boolean.getBoolean, to which all is false that is not true."""
    if value.lower() not in ("true", "false"):
        raise DoubtError("true or false", taken_for=False)
    return value.lower() == "true"


def yes(value: str) -> bool:
    if value not in ("yes", "no"):
        raise DoubtError("yes or no", taken_for=False)
    return value == "yes"


def not_no(value: str) -> bool:
    if value not in ("yes", "no"):
        raise DoubtError("yes or no", taken_for=True)
    return value != "no"


def not_false(value: str) -> bool:
    if value not in ("true", "false"):
        raise DoubtError("true or false", taken_for=True)
    return value != "false"


def snap_count(value: str) -> int:
    number = loose_integer(value)
    if number < 2:
        raise DoubtError("2 or more", taken_for=2)  # ZooKeeperServer.getSnapCount
    return number


def words(value: str) -> frozenset[str]:
    """Four-letter words; what is none is passed over, as the real server does."""
    listed = {word.strip() for word in value.split(",")} - {""}
    known = ALL_WORDS if "*" in listed else ALL_WORDS & listed
    if not listed <= ALL_WORDS | {"*"}:
        raise DoubtError("four-letter words, or *", taken_for=known)
    return known


def names(value: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in value.split(","))


_ALGORITHMS = {"MD5": "md5", "SHA": "sha1", "SHA1": "sha1"} | {
    f"{family}-{bits}": f"{kind}{bits}"
    for family, kind in (("SHA", "sha"), ("SHA3", "sha3_"))
    for bits in (224, 256, 384, 512)
} | {"SHA-1": "sha1"}  # fmt: skip


def digest_algorithm(value: str) -> str:
    """A name of java.security.MessageDigest's as hashlib has it; the real server starts with no other."""
    if value.upper() not in _ALGORITHMS:
        raise ValueError(", ".join(sorted(_ALGORITHMS)))
    return _ALGORITHMS[value.upper()]


def compression(value: str) -> str:
    """SnapStream.StreamMode.fromString."""
    if value.lower() not in ("", "gz", "snappy"):
        raise DoubtError("gz, snappy or nothing", taken_for="")
    return value.lower()


def absent(right: str) -> Callable[[str], Any]:
    """What is not served, whatever the value."""

    def read(value: str) -> str:
        raise ValueError(right)

    return read


def never(right: str) -> Callable[[str], Any]:
    """What the real server serves when it is true, and this one does not: only false is taken."""

    def read(value: str) -> bool:
        if value.lower() == "true":
            raise ValueError(right)
        return False

    return read


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
    "clientPort": Key("port", port),
    "clientPortAddress": Key("address", text),
    "secureClientPort": Key("secure_port", port),
    "secureClientPortAddress": Key("secure_address", text, "file"),
    "clientPortListenBacklog": Key("backlog", integer),
    # How much of whom
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
    # Where it keeps what
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
    "ssl.keyStore.password": Key("password", text, "tls"),
    "ssl.keyStore.passwordPath": Key("password_path", Path, "tls"),
    "ssl.keyStore.type": Key("key_store_type", one_of("pem", "jks", "pkcs12"), "tls"),
    "ssl.trustStore.location": Key("authorities", Path, "tls"),
    "ssl.trustStore.password": Key("trust_password", text, "tls"),
    "ssl.trustStore.passwordPath": Key("trust_password_path", Path, "tls"),
    "ssl.trustStore.type": Key("trust_store_type", one_of("pem", "jks", "pkcs12"), "tls"),
    "ssl.clientAuth": Key("client_auth", one_of("need", "want", "none"), "tls"),
    "ssl.protocol": Key("protocol", text, "tls"),
    "ssl.enabledProtocols": Key("protocols", names, "tls"),
    "ssl.ciphersuites": Key("ciphers", names, "tls"),
    "client.portUnification": Key("unifies_ports", loose_boolean),
    "ssl.authProvider": Key("tls_scheme", text, "file"),
    # What is monitored
    "admin.enableServer": Key("admin_enabled", not_false, "file"),
    "admin.serverAddress": Key("admin_address", text),
    "admin.serverPort": Key("admin_port", loose_port),
    "admin.commandURL": Key("admin_path", text),
    "admin.idleTimeout": Key("admin_idle_ms", loose_positive),
    "admin.rateLimiterIntervalInMS": Key("snapshot_interval_ms", integer),
    "admin.snapshot.enabled": Key("gives_snapshots", loose_boolean),
    "admin.restore.enabled": Key("takes_snapshots", loose_boolean),
    "IPAuthenticationProvider.usexforwardedfor": Key("trusts_forwarded_for", loose_boolean),
    "metricsProvider.className": Key("metrics_provider", text, "file"),
    "metricsProvider.httpHost": Key("metrics_address", text, "file"),
    "metricsProvider.httpPort": Key("metrics_port", port, "file"),
    "metricsProvider.exportJvmInfo": Key("exports_process", loose_boolean, "file"),
    # An ensemble
    "initLimit": Key("init_limit", integer),
    "syncLimit": Key("sync_limit", integer),
    "localSessionsEnabled": Key("local_sessions", boolean),
    "localSessionsUpgradingEnabled": Key("upgrades_sessions", boolean),
    "readonlymode.enabled": Key("read_only", loose_boolean),
    "dynamicConfigFile": Key("dynamic", text, "file"),
    # How the server behaves
    "tickTime": Key("tick_time_ms", positive, "server"),
    "minSessionTimeout": Key("min_session_timeout_ms", integer, "server"),
    "maxSessionTimeout": Key("max_session_timeout_ms", integer, "server"),
    "jute.maxbuffer": Key("max_buffer_bytes", loose_positive, "server"),
    "extendedTypesEnabled": Key("extended_types", loose_boolean, "server"),
    "enforceQuota": Key("enforce_quota", loose_boolean, "server"),
    "reconfigEnabled": Key("reconfig_enabled", boolean, "server"),
    "znode.container.checkIntervalMs": Key("container_check_interval_ms", loose_positive, "server"),
    "znode.container.maxNeverUsedIntervalMs": Key("container_unused_ms", loose_integer, "server"),
    # Who may do what
    "skipACL": Key("skip_acl", yes, "server"),
    "DigestAuthenticationProvider.enabled": Key("digest_auth", loose_boolean, "server"),
    "DigestAuthenticationProvider.digestAlg": Key("digest_algorithm", digest_algorithm, "server"),
    "DigestAuthenticationProvider.superDigest": Key("super_digest", text, "server"),
    "X509AuthenticationProvider.superUser": Key("x509_super", text, "server"),
    "SASLAuthenticationProvider.superPassword": Key("super_password", text, "server"),
    "ensembleAuthName": Key("ensemble_names", lambda value: frozenset(names(value)), "server"),
    "enforce.auth.enabled": Key("enforces", loose_boolean, "file"),
    "enforce.auth.schemes": Key("enforced", names, "file"),
    "sessionRequireClientSASLAuth": Key("requires_sasl", loose_boolean, "file"),
    "allowSaslFailedClients": Key("keeps_failed_logins", loose_boolean, "server"),
    # What would have to be served
    "emulate353TTLNodes": Key("", never("false, or absent: TTL nodes are those of 3.5.4 and later"), "file"),
    "ssl.context.supplier.class": Key("", absent("nothing: keys come from files"), "file"),
    "letAnySaslUserDoX": Key("", absent("nothing: an ACL names who may do what"), "file"),
    "admin.portUnification": Key("", never("false, or absent: the AdminServer speaks HTTP"), "file"),
    "admin.forceHttps": Key("", never("false, or absent: the AdminServer speaks HTTP"), "file"),
    "ssl.crl": Key("", never("false, or absent: lists of revoked certificates are not fetched"), "file"),
    "ssl.ocsp": Key("", never("false, or absent: nobody is asked about certificates"), "file"),
    "ssl.clientHostnameVerification": Key("", never("false, or absent: clients are not looked up"), "file"),
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
