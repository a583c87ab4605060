"""Kafka's configuration keys of a broker, as far as they are simulated: the release's defaults and what a user sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.jvm.numbers import is_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.profile import KafkaVersion

RESERVED = "reserved.broker.max.id"
"""The highest broker id that ZooKeeper does not give out."""
_TRUTH = {"true": True, "false": False}


class BrokerConfig:
    """The values of the keys, by Kafka's own names.

    Args:
        version: gives the defaults.
        values: what differs from them; numbers and truth values may be given as such.

    Raises:
        ConfigError: a key that is not simulated, or a value of another kind than its default.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> config = BrokerConfig(kafka_version("3.9"), {"replica.lag.time.max.ms": 10_000})
    >>> config.integer("replica.lag.time.max.ms"), config.truth("delete.topic.enable")
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
            is_truth = version.defaults[key] in _TRUTH
            if not (text in _TRUTH if is_truth else is_count(text)):
                right = "true or false" if is_truth else "a whole number"
                raise ConfigError(f"{key} is {value!r}", where=f"config.{key}", right=right)
            self._values[key] = text

    def text(self, key: str) -> str:
        """The value of a key that is text; empty where it is not set."""
        return self._values[key]

    def integer(self, key: str) -> int:
        """The value of a key that is a number."""
        return int(self._values[key])

    def truth(self, key: str) -> bool:
        """The value of a key that is true or false."""
        return _TRUTH[self._values[key]]
