"""Kafka's settings by release: defaults and values of a broker's settings, names of a topic's settings."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError, nearest
from simzk.jvm.numbers import is_count
from simzk.kafka.listeners import is_listener_key
from simzk.kafka.releases.config_keys import (
    alternatives,
    broker_keys,
    internal_keys,
    topic_config_keys,
)
from simzk.kafka.releases.config_orders import parsed_order
from simzk.kafka.releases.config_values import broker_problem, value_problem
from simzk.kafka.security.settings import base_key, check_login_module, is_security_key

if TYPE_CHECKING:
    from collections.abc import KeysView, Mapping

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.since import Release

RESERVED = "reserved.broker.max.id"
"""The highest broker id that ZooKeeper does not generate."""
PROTOCOL, _FIRST_PROTOCOL = "inter.broker.protocol.version", (0, 9)
"""The setting of the inter-broker protocol, and the first release that has it."""
_BOOLEANS = {"true": True, "false": False}
CLASS_OF_AUTHORIZER = "authorizer.class.name"
LOG_DIRS = "log.dirs", "log.dir"
"""Settings with log directories; the first one that is set counts."""
_OF_AUTHORIZER = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Settings that AclAuthorizer reads; DescribeConfigs does not answer them."""
NEWEST: Final = (3, 9)
"""This release has every key of a topic that any release has."""
FIRST_DESCRIBED: Final = (0, 11)
"""The first release with DescribeConfigs, which tells the keys of a broker."""
_OF_LOGS: Final = (
    *("cleanup.policy", "compression.type", "delete.retention.ms", "index.interval.bytes", "max.compaction.lag.ms"),
    *("message.downconversion.enable", "message.format.version"),
    *("message.timestamp.after.max.ms", "message.timestamp.before.max.ms"),
    *("message.timestamp.difference.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio"),
    *("min.compaction.lag.ms", "retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes", "segment.ms"),
)
"""Simulated keys of a topic whose defaults are settings of the broker (`simzk.kafka.log.segments`)."""

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
    "offsets.commit.timeout.ms": {(0, 8, 0): "5000"},
    "offsets.retention.minutes": {(0, 8, 0): "1440", (2, 0): "10080"},  # KIP-186
    "offsets.retention.check.interval.ms": {(0, 8, 0): "600000"},
    "offset.metadata.max.bytes": {(0, 8, 0): "1024", (0, 9): "4096"},
    "group.min.session.timeout.ms": {(0, 8, 0): None, (0, 9): "6000"},
    "group.max.session.timeout.ms": {(0, 8, 0): None, (0, 9): "30000", (0, 10, 1): "300000", (2, 3): "1800000"},
    "group.initial.rebalance.delay.ms": {(0, 8, 0): None, (0, 11): "3000"},  # KIP-134
    "group.max.size": {(0, 8, 0): None, (2, 2): str(2**31 - 1)},  # KIP-389
    "transaction.state.log.num.partitions": {(0, 8, 0): "50"},
    "transaction.state.log.replication.factor": {(0, 8, 0): "3"},
    "request.timeout.ms": {(0, 8, 0): None, (0, 9): "30000"},
    "transaction.partition.verification.enable": {(0, 8, 0): None, (3, 6): "true"},  # KIP-890
    "transaction.state.log.min.isr": {(0, 8, 0): "2"},
    "transaction.max.timeout.ms": {(0, 8, 0): None, (0, 11): "900000"},
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": {(0, 8, 0): None, (0, 11): "60000", (2, 5): "10000"},
    "transactional.id.expiration.ms": {(0, 8, 0): None, (0, 11): "604800000"},
    "producer.id.expiration.ms": {(0, 8, 0): None, (3, 4): "86400000"},  # KIP-854
    "producer.id.expiration.check.interval.ms": {(0, 8, 0): None, (3, 4): "600000"},
    "transaction.remove.expired.transaction.cleanup.interval.ms": {(0, 8, 0): None, (0, 11): "3600000"},
    "reserved.broker.max.id": {(0, 8, 0): "1000"},
    "delegation.token.master.key": {(0, 8, 0): ""},
    "delegation.token.max.lifetime.ms": {(0, 8, 0): "604800000"},
    "delegation.token.expiry.time.ms": {(0, 8, 0): "86400000"},
    "delegation.token.expiry.check.interval.ms": {(0, 8, 0): "3600000"},
    "message.max.bytes": {(0, 8, 0): "1000000", (0, 8, 1): "1000012", (2, 5): "1048588"},
    "log.cleaner.enable": {(0, 8, 0): None, (0, 8, 1): "false", (0, 9): "true"},  # KAFKA-2988 (0.9.0.1)
    "log.cleaner.backoff.ms": {(0, 8, 0): None, (0, 8, 1): "15000"},
    "log.retention.check.interval.ms": {(0, 8, 0): None, (0, 8, 1): "300000"},
    "fetch.max.bytes": {(0, 8, 0): None, (2, 5): "57671680"},  # KIP-541
    "max.incremental.fetch.session.cache.slots": {(0, 8, 0): None, (1, 1): "1000"},  # KIP-227
    "replica.selector.class": {(0, 8, 0): None, (2, 4): ""},  # KIP-392
    "replica.lag.max.messages": {(0, 8, 0): "4000", (0, 9): None},  # KIP-16
    "alter.log.dirs.replication.quota.window.num": {(0, 8, 0): None, (1, 1): "11"},  # KIP-113
    "alter.log.dirs.replication.quota.window.size.seconds": {(0, 8, 0): None, (1, 1): "1"},
    "replication.quota.window.num": {(0, 8, 0): None, (0, 10, 1): "11"},  # KIP-73
    "replication.quota.window.size.seconds": {(0, 8, 0): None, (0, 10, 1): "1"},
}
"""First release of each default, ascending; None: the setting was removed."""

_TOPIC_KEYS_SINCE: Final[dict[Release, tuple[str, ...]]] = {
    (0, 8, 1): (
        *("cleanup.policy", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms"),
        *("index.interval.bytes", "max.message.bytes", "min.cleanable.dirty.ratio", "retention.bytes"),
        *("retention.ms", "segment.bytes", "segment.index.bytes", "segment.ms"),
    ),
    (0, 8, 2): ("min.insync.replicas", "segment.jitter.ms", "unclean.leader.election.enable"),
    (0, 9, 0): ("compression.type", "preallocate"),
    (0, 10, 0): ("message.format.version", "message.timestamp.difference.max.ms", "message.timestamp.type"),
    (0, 10, 1): (
        *("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"),
        "min.compaction.lag.ms",
    ),
    (2, 0, 0): ("message.downconversion.enable",),
    (2, 3, 0): ("max.compaction.lag.ms",),
    (3, 0, 0): ("local.retention.bytes", "local.retention.ms", "remote.storage.enable"),
    (3, 6, 0): ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms"),
    (3, 8, 0): ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
    (3, 9, 0): ("remote.log.copy.disable", "remote.log.delete.on.disable"),
}
"""First release of each key of a topic's configuration (LogConfig.configNames of each release's last tag)."""


def broker_defaults(release: Release) -> dict[str, str]:
    """Return the simulated settings of a broker with their defaults.

    >>> broker_defaults((2, 4))["replica.lag.time.max.ms"], broker_defaults((2, 5))["replica.lag.time.max.ms"]
    ('10000', '30000')
    """
    defaults = {
        key: next(value for first, value in reversed(rows.items()) if first <= release)
        for key, rows in _BROKER_DEFAULTS.items()
    }
    return {key: default for key, default in defaults.items() if default is not None}


def topic_keys(release: Release) -> frozenset[str]:
    """Return the keys that a topic's configuration may contain.

    >>> "min.insync.replicas" in topic_keys((0, 8, 1)), "min.insync.replicas" in topic_keys((0, 8, 2))
    (False, True)
    """
    return frozenset(key for since, keys in _TOPIC_KEYS_SINCE.items() if since <= release for key in keys)


@cache
def _defaults_of_logs(release: Release) -> frozenset[str]:
    """Return the settings of a broker that are defaults of the simulated keys of topics."""
    known, keys = topic_keys(release), topic_config_keys(NEWEST)
    synonyms = [keys[name].synonym for name in _OF_LOGS if name in known]
    return frozenset(name for synonym in synonyms if synonym is not None for name in alternatives(synonym))


def is_setting(key: str, version: KafkaVersion) -> bool:
    """Return whether a release has a setting, simulated or not; before 0.11 only the simulated ones are known.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> [is_setting(key, kafka_version("3.9")) for key in ("num.io.threads", "super.users", "no.such")]
    [True, True, False]
    """
    keys = broker_keys(version.number) | internal_keys("broker", version.number)
    if key in version.defaults or key in keys or (key in _OF_AUTHORIZER and CLASS_OF_AUTHORIZER in keys):
        return True
    if key in _defaults_of_logs(version.number) or is_listener_key(key, version.number):
        return True
    return is_security_key(key, version.number) or base_key(key) in keys


def nearest_setting(key: str, version: KafkaVersion) -> str:
    """Return the setting that was probably meant by a key that the release does not have; empty if none is near.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> nearest_setting("num.io.threadz", kafka_version("3.9")), nearest_setting("x", kafka_version("3.9"))
    ('num.io.threads', '')
    """
    return "" if is_setting(key, version) else nearest(key, {*version.defaults, *broker_keys(version.number)})


def has_effect(key: str, version: KafkaVersion) -> bool:
    """Return whether a setting changes what the simulated brokers do; all others are only shown to clients.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> [has_effect(key, kafka_version("3.9")) for key in ("num.partitions", "log.retention.hours", "num.io.threads")]
    [True, True, False]
    """
    others = (*_OF_AUTHORIZER, CLASS_OF_AUTHORIZER, *LOG_DIRS, PROTOCOL)
    if key in version.defaults or key in others or key in _defaults_of_logs(version.number):
        return True
    return is_security_key(key, version.number) or is_listener_key(key, version.number)


def _check_known(key: str, text: str, version: KafkaVersion) -> None:
    """Raise an error if the release has no such setting, or if it is for a login module that is not simulated."""
    if not is_setting(key, version):
        right = nearest_setting(key, version) or f"one of {', '.join(version.defaults)}"
        raise ConfigError(f"{key} is not simulated", where=f"config.{key}", right=right)
    check_login_module(key, text)


def _check_value(key: str, text: str, version: KafkaVersion) -> None:
    """Raise an error if a broker of the release does not start with this value, in its words."""
    if (problem := value_problem("broker", base_key(key) or key, text, version.number)) is not None:
        raise ConfigError(problem, where=f"config.{key}", right="a value that Kafka accepts")


class Settings:
    """Values of settings, by Kafka's own names."""

    _values: dict[str, str]

    def text(self, key: str) -> str:
        """Return the value of a text setting; empty if it is not set."""
        return self._values[key]

    def integer(self, key: str) -> int:
        """Return the value of a numeric setting."""
        return int(self._values[key])

    def boolean(self, key: str) -> bool:
        """Return the value of a boolean setting."""
        return _BOOLEANS[self._values[key]]


class BrokerConfig(Settings):
    """Values of a broker's settings, by Kafka's own names.

    Args:
        version: release that provides the defaults.
        values: values that differ from the defaults; numbers and booleans are accepted besides text. A setting of the
            release that is not simulated has no effect, but clients see its value.

    Attributes:
        given: the values that were given, as text.

    Raises:
        ConfigError: the release has no such setting, or a broker of the release does not start with these values.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> config = BrokerConfig(kafka_version("3.9"), {"replica.lag.time.max.ms": 10_000})
    >>> config.integer("replica.lag.time.max.ms"), config.boolean("delete.topic.enable")
    (10000, True)
    """

    def __init__(self, version: KafkaVersion, values: Mapping[str, str | int | bool] | None = None) -> None:
        self._values = dict(version.defaults)
        self.given: dict[str, str] = {}
        for key, value in (values or {}).items():
            self.given[key] = text = str(value).lower() if isinstance(value, bool) else str(value)
            if version.defaults.get(key) is None:
                _check_known(key, text, version)
        for key in parsed_order("broker", self.given, version.number):
            text, default = self.given[key], version.defaults.get(key)
            _check_value(key, text, version)
            if default is None:
                continue
            is_boolean = default in _BOOLEANS
            if default and not (text in _BOOLEANS if is_boolean else is_count(text)):  # empty: any text
                right = "true or false" if is_boolean else "a whole number"
                raise ConfigError(f"{key} is {(values or {})[key]!r}", where=f"config.{key}", right=right)
            self._values[key] = text
        if (problem := broker_problem(self.given, version.number)) is not None:
            raise ConfigError(problem, where="config", right="settings with which a broker of this release starts")

    @property
    def keys(self) -> KeysView[str]:
        """The simulated settings of the release."""
        return self._values.keys()
