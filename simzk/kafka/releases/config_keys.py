"""Configuration keys of brokers and topics by release: type, default, what can change while a broker runs.

Rules of this module (KafkaConfig, LogConfig, DynamicBrokerConfig; recorded with DescribeConfigs, 0.11 to 3.9):
  - a line of the table is `broker NAME TYPE DYNAMIC SINCE:DEFAULT ...` or `topic NAME TYPE SYNONYM SINCE:DEFAULT ...`.
    DYNAMIC is the release from which the key can change while the broker runs, and the one from which it no longer can;
    SYNONYM is the broker's key that is the default of the topic's key, for which the default is `-`. Defaults are
    URL-encoded, `removed` from the release that has lost the key;
  - what a key means is a text of Kafka's documentation, which brokers answer from 2.6 on if they are asked;
  - releases before 0.11 have no DescribeConfigs: they have no keys here;
  - the value of a sensitive key is never answered.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from simzk.kafka.releases.config_definitions import DEFINITIONS
from simzk.kafka.releases.config_validators import INTERNAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.since import Release

UNKNOWN: Final = "unknown"
TYPES: Final = (UNKNOWN, "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
"""Types by their number in DescribeConfigs."""
PASSWORD: Final = "password"
_REMOVED: Final = "removed"
_ALTERNATIVES: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
"""Keys for the same setting, of which the first one that is set wins (DynamicBrokerConfig.brokerConfigSynonyms)."""
_FACTORS: Final = {"minutes": 60_000, "hours": 3_600_000}
RATES: Final = (
    *("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""Keys of a broker that are set dynamically only (DynamicConfig.Broker)."""
TYPES_RATES: Final = (2, 5)
"""The first release that describes the rates with their values; before, their type is unknown (KafkaConfig)."""
_PER_BROKER: Final = frozenset(
    {"advertised.listeners", "listener.security.protocol.map", "listeners", "principal.builder.class"}
)
_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_MECHANISMS: Final = (
    *("sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class"),
    *("sasl.server.callback.handler.class", "connections.max.reauth.ms"),
)
"""Keys that are set for a mechanism of a listener (DynamicBrokerConfig.ListenerMechanismConfigs)."""
_PER_BROKER_PREFIXES: Final = ("listener.name.", "sasl.", "ssl.")


class ConfigKey(NamedTuple):
    """A key in one release.

    Args:
        name: its name.
        kind: one of `TYPES`.
        default: its default; None if it has none.
        is_read_only: whether it cannot change while the broker runs.
        synonym: the broker's key that is the default of a topic's key, None if there is none.
        may_be_secret: whether the broker does not know what it means.
    """

    name: str
    kind: str
    default: str | None
    is_read_only: bool
    synonym: str | None = None
    may_be_secret: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is never answered."""
        return self.kind == PASSWORD or self.may_be_secret


@cache
def broker_keys(release: Release) -> dict[str, ConfigKey]:
    """Return the keys of a broker by name.

    >>> key = broker_keys((3, 9, 1))["log.cleaner.threads"]
    >>> key.kind, key.default, key.is_read_only, broker_keys((1, 0, 2))["log.cleaner.threads"].is_read_only
    ('int', '1', False, True)
    """
    return _keys("broker", release)


@cache
def default_values(release: Release) -> dict[str, str]:
    """Return the defaults of a broker's keys that have one.

    >>> default_values((3, 9, 1))["num.io.threads"]
    '8'
    """
    return {name: key.default for name, key in broker_keys(release).items() if key.default is not None}


@cache
def topic_config_keys(release: Release) -> dict[str, ConfigKey]:
    """Return the keys of a topic by name.

    >>> topic_config_keys((3, 9, 1))["retention.ms"].synonym
    'log.retention.ms'
    """
    return _keys("topic", release)


def _keys(owner: str, release: Release) -> dict[str, ConfigKey]:
    keys = {}
    for line in DEFINITIONS.split("\n")[1:-1]:
        kind_of_owner, name, kind, fourth, *steps = line.split(" ")
        if kind_of_owner != owner:
            continue
        assert kind in TYPES, f"{name} is of type {kind}"
        parts = [step.partition(":")[::2] for step in steps]
        default = next((text for since, text in reversed(parts) if _release(since) <= release), _REMOVED)
        if default == _REMOVED:
            continue
        value = None if default in ("null", "-") else "" if default == '""' else unquote(default)
        if owner == "topic":
            keys[name] = ConfigKey(name, kind, value, is_read_only=False, synonym=None if fourth == "-" else fourth)
        else:
            changes = sum(_release(since) <= release for since in fourth.split(",") if since != "-")
            keys[name] = ConfigKey(name, kind, value, is_read_only=changes % 2 == 0)
    return keys


@cache
def internal_keys(owner: str, release: Release) -> dict[str, ConfigKey]:
    """Return the internal keys of a `broker` or a `topic`: it obeys them, and describes those that are set.

    >>> internal_keys("broker", (3, 9))["unstable.api.versions.enable"].default, internal_keys("topic", (3, 9))
    ('false', {})
    """
    keys = {}
    for line in INTERNAL.split("\n")[1:-1]:
        kind_of_owner, name, kind, *steps = line.split(" ")
        parts = [step.partition(":")[::2] for step in steps]
        default = next((text for first, text in reversed(parts) if _release(first) <= release), _REMOVED)
        if kind_of_owner == owner and default != _REMOVED:
            value = None if default == "null" else default.strip('"')
            keys[name] = ConfigKey(name, kind, value, is_read_only=owner == "broker")
    return keys


def documentation(owner: str, name: str, release: Release) -> str | None:
    """Return what a key of a `broker` or a `topic` means; None if it is unknown.

    >>> documentation("broker", "num.partitions", (3, 9, 1))
    'The default number of log partitions per topic'
    """
    found = [text for since, text in _documentation()[owner].get(name, ()) if _release(since) <= release]
    return found[-1] if found else None


@cache
def _documentation() -> dict[str, dict[str, list[tuple[str, str | None]]]]:
    texts: dict[str, dict[str, list[tuple[str, str | None]]]] = json.loads(
        gzip.decompress(Path(__file__).with_name("config_documentation.json.gz").read_bytes())
    )
    return texts


@cache
def _release(text: str) -> Release:
    return tuple(map(int, text.split(".")))


def alternatives(name: str) -> tuple[str, ...]:
    """Return the keys of a broker for the same setting, the strongest first.

    >>> alternatives("log.retention.hours"), alternatives("num.partitions")
    (('log.retention.ms', 'log.retention.minutes', 'log.retention.hours'), ('num.partitions',))
    >>> alternatives("listener.name.outside.ssl.client.auth")
    ('listener.name.outside.ssl.client.auth', 'ssl.client.auth')
    """
    found = next((names for names in _ALTERNATIVES if name in names), (name,))
    return found if (base := _base_of_listener(name)) is None else (name, base)


def other_key(name: str, keys: Mapping[str, ConfigKey], release: Release) -> ConfigKey:
    """Return a key that is not among those of the release: internal, of a listener, or one that only a plug-in knows.

    >>> keys = broker_keys((3, 9, 1))
    >>> other_key("listener.name.outside.ssl.client.auth", keys, (3, 9)).kind
    'string'
    >>> other_key("super.users", keys, (3, 9)).is_sensitive
    True
    >>> [other_key(RATES[0], keys, release).kind for release in ((2, 4), (2, 5))]
    ['unknown', 'long']
    """
    if name in RATES and release >= TYPES_RATES:
        return ConfigKey(name, "long", None, is_read_only=True)
    base = internal_keys("broker", release).get(name) or keys.get(_base_of_listener(name) or name)
    if base is None:
        return ConfigKey(name, UNKNOWN, None, is_read_only=True, may_be_secret=True)
    return ConfigKey(name, base.kind, base.default if base.name == name else None, is_read_only=True)


def _base_of_listener(name: str) -> str | None:
    """Return the key that a key of a listener, or of a mechanism there, stands for; None of another key."""
    if (found := _OF_LISTENER.fullmatch(name)) is None:
        return None
    return next((base for base in _OF_MECHANISMS if found[1].endswith(base)), found[1])


def in_milliseconds(name: str, value: str) -> str:
    """Return the value of one of the alternatives of a key in milliseconds.

    >>> in_milliseconds("log.retention.hours", "168"), in_milliseconds("log.retention.minutes", "-1")
    ('604800000', '-1')
    """
    factor = _FACTORS.get(name.rpartition(".")[2], 1)
    return value if factor == 1 or value.startswith("-") else str(int(value) * factor)


def belongs_to_one_broker(name: str) -> bool:
    """Return whether a dynamic key can be set of single brokers only (DynamicBrokerConfig.PerBrokerConfigs).

    >>> belongs_to_one_broker("listeners"), belongs_to_one_broker("background.threads")
    (True, False)
    """
    return name in _PER_BROKER or name.startswith(_PER_BROKER_PREFIXES)
