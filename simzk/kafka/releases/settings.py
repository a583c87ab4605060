"""Kafka's settings by release: defaults and values of a broker's settings, names of a topic's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError
from simzk.jvm.numbers import is_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.since import Release

RESERVED = "reserved.broker.max.id"
"""The highest broker id that ZooKeeper does not generate."""
_BOOLEANS = {"true": True, "false": False}

_BROKER_DEFAULTS: Final[dict[str, dict[Release, str | None]]] = {
    "zookeeper.session.timeout.ms": {(0, 8, 0): "6000", (2, 5): "18000"},  # KIP-537
    "zookeeper.max.in.flight.requests": {(0, 8, 0): "10"},
    "replica.lag.time.max.ms": {(0, 8, 0): "10000", (2, 5): "30000"},  # KIP-537
    "replica.fetch.wait.max.ms": {(0, 8, 0): "500"},
    "replica.fetch.max.bytes": {(0, 8, 0): "1048576"},
    "replica.fetch.response.max.bytes": {(0, 8, 0): None, (0, 10, 1): "10485760"},  # KIP-74
    "unclean.leader.election.enable": {(0, 8, 0): "true", (0, 11): "false"},
    "log.flush.interval.messages": {(0, 8, 0): "10000", (0, 8, 1): str(2**63 - 1)},
    "min.insync.replicas": {(0, 8, 0): "1"},
    "auto.leader.rebalance.enable": {(0, 8, 0): "false", (0, 8, 2): "true"},
    "leader.imbalance.per.broker.percentage": {(0, 8, 0): "10"},
    "leader.imbalance.check.interval.seconds": {(0, 8, 0): "300"},
    "controlled.shutdown.enable": {(0, 8, 0): "false", (0, 8, 2): "true"},
    "controlled.shutdown.max.retries": {(0, 8, 0): "3"},
    "controlled.shutdown.retry.backoff.ms": {(0, 8, 0): "5000"},
    "delete.topic.enable": {(0, 8, 0): "false", (1, 0): "true"},
    "auto.create.topics.enable": {(0, 8, 0): "true"},
    "num.partitions": {(0, 8, 0): "1"},
    "default.replication.factor": {(0, 8, 0): "1"},
    "offsets.topic.num.partitions": {(0, 8, 0): "50"},
    "offsets.topic.replication.factor": {(0, 8, 0): "3"},
    "transaction.state.log.num.partitions": {(0, 8, 0): "50"},
    "transaction.state.log.replication.factor": {(0, 8, 0): "3"},
    "reserved.broker.max.id": {(0, 8, 0): "1000"},
    "delegation.token.master.key": {(0, 8, 0): ""},
    "delegation.token.max.lifetime.ms": {(0, 8, 0): "604800000"},
    "delegation.token.expiry.time.ms": {(0, 8, 0): "86400000"},
    "delegation.token.expiry.check.interval.ms": {(0, 8, 0): "3600000"},
    "replica.lag.max.messages": {(0, 8, 0): "4000", (0, 9): None},  # KIP-16
}
"""First release of each default, ascending; None: the setting was removed."""

_TOPIC_KEYS_SINCE: Final[tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...]] = (
    (
        (0, 8, 1),
        (
            *("cleanup.policy", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms"),
            *("index.interval.bytes", "max.message.bytes", "min.cleanable.dirty.ratio", "retention.bytes"),
            *("retention.ms", "segment.bytes", "segment.index.bytes", "segment.ms"),
        ),
    ),
    ((0, 8, 2), ("min.insync.replicas", "segment.jitter.ms", "unclean.leader.election.enable")),
    ((0, 9, 0), ("compression.type", "preallocate")),
    ((0, 10, 0), ("message.format.version", "message.timestamp.difference.max.ms", "message.timestamp.type")),
    (
        (0, 10, 1),
        (
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "min.compaction.lag.ms",
        ),
    ),
    ((2, 0, 0), ("message.downconversion.enable",)),
    ((2, 3, 0), ("max.compaction.lag.ms",)),
    ((3, 0, 0), ("local.retention.bytes", "local.retention.ms", "remote.storage.enable")),
    ((3, 6, 0), ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")),
    ((3, 8, 0), ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")),
    ((3, 9, 0), ("remote.log.copy.disable", "remote.log.delete.on.disable")),
)
"""First release of each key of a topic's configuration (LogConfig.configNames of each release's last tag)."""


_INTS: Final = frozenset(
    {
        *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "index.interval.bytes"),
        *("max.message.bytes", "min.insync.replicas", "segment.bytes", "segment.index.bytes"),
    }
)
_TEXTS: Final = frozenset(
    {
        *("cleanup.policy", "compression.type", "follower.replication.throttled.replicas"),
        *("leader.replication.throttled.replicas", "message.format.version", "message.timestamp.type"),
    }
)
_BOOLEAN_KEYS: Final = frozenset(
    {
        *("message.downconversion.enable", "preallocate", "remote.log.copy.disable", "remote.log.delete.on.disable"),
        *("remote.storage.enable", "unclean.leader.election.enable"),
    }
)
_DOUBLES: Final = frozenset({"min.cleanable.dirty.ratio"})
_BITS: Final = {"INT": 31, "LONG": 63}


def value_problem(key: str, value: str) -> str | None:
    """Return why a value is not of the type of a topic's key, in the words of ConfigDef; None if it is.

    >>> value_problem("retention.ms", "x"), value_problem("retention.ms", "-1"), value_problem("preallocate", "1")
    ('Not a number of type LONG', None, 'Expected value to be either true or false')
    """
    if key in _TEXTS:
        return None
    if key in _BOOLEAN_KEYS:
        return None if value.strip().lower() in _BOOLEANS else "Expected value to be either true or false"
    if key in _DOUBLES:
        try:
            float(value)
        except ValueError:
            return "Not a number of type DOUBLE"
        return None
    kind = "INT" if key in _INTS else "LONG"
    digits = value.strip().removeprefix("-").removeprefix("+")
    fits = digits.isascii() and digits.isdecimal() and -(1 << _BITS[kind]) <= int(value) < 1 << _BITS[kind]
    return None if fits else f"Not a number of type {kind}"


def broker_defaults(release: Release) -> dict[str, str]:
    """Return the simulated settings of a broker with their defaults.

    >>> broker_defaults((2, 4))["replica.lag.time.max.ms"], broker_defaults((2, 5))["replica.lag.time.max.ms"]
    ('10000', '30000')
    """
    defaults = {}
    for key, rows in _BROKER_DEFAULTS.items():
        default = next(value for first, value in reversed(rows.items()) if first <= release)
        if default is not None:
            defaults[key] = default
    return defaults


def topic_keys(release: Release) -> frozenset[str]:
    """Return the keys that a topic's configuration may contain.

    >>> "min.insync.replicas" in topic_keys((0, 8, 1)), "min.insync.replicas" in topic_keys((0, 8, 2))
    (False, True)
    """
    return frozenset(key for since, keys in _TOPIC_KEYS_SINCE if since <= release for key in keys)


class BrokerConfig:
    """Values of a broker's settings, by Kafka's own names.

    Args:
        version: release that provides the defaults.
        values: values that differ from the defaults; numbers and booleans are accepted besides text.

    Raises:
        ConfigError: a setting is not simulated, or its value is not of the default's type.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> config = BrokerConfig(kafka_version("3.9"), {"replica.lag.time.max.ms": 10_000})
    >>> config.integer("replica.lag.time.max.ms"), config.boolean("delete.topic.enable")
    (10000, True)
    """

    def __init__(self, version: KafkaVersion, values: Mapping[str, str | int | bool] | None = None) -> None:
        self._values = dict(version.defaults)
        for key, value in (values or {}).items():
            if key not in version.defaults:
                raise ConfigError(
                    f"{key} is not simulated", where=f"config.{key}", right=f"one of {', '.join(version.defaults)}"
                )
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if version.defaults[key] == "":  # any text
                self._values[key] = text
                continue
            is_boolean = version.defaults[key] in _BOOLEANS
            if not (text in _BOOLEANS if is_boolean else is_count(text)):
                right = "true or false" if is_boolean else "a whole number"
                raise ConfigError(f"{key} is {value!r}", where=f"config.{key}", right=right)
            self._values[key] = text

    def text(self, key: str) -> str:
        """Return the value of a text setting; empty if it is not set."""
        return self._values[key]

    def integer(self, key: str) -> int:
        """Return the value of a numeric setting."""
        return int(self._values[key])

    def boolean(self, key: str) -> bool:
        """Return the value of a boolean setting."""
        return _BOOLEANS[self._values[key]]
