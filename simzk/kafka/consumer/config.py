"""A consumer's configuration keys, by Kafka's own names, as far as they are simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError
from simzk.kafka.schemas.java_numbers import is_count

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULTS: Final = {
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.sync.time.ms": "2000",
    "rebalance.max.retries": "4",
    "auto.commit.enable": "true",
    "auto.commit.interval.ms": "60000",
    "auto.offset.reset": "largest",
    "exclude.internal.topics": "true",
    "partition.assignment.strategy": "range",
    "refresh.leader.backoff.ms": "200",
}
"""What ConsumerConfig of 0.8 to 1.1 says; `rebalance.backoff.ms` is the sync time where it is not set."""

_BACKOFF: Final = "rebalance.backoff.ms"
_TEXTS: Final = {
    "auto.offset.reset": ("largest", "smallest"),
    "partition.assignment.strategy": ("range", "roundrobin"),
    "auto.commit.enable": ("true", "false"),
    "exclude.internal.topics": ("true", "false"),
}


class ConsumerConfig:
    """The values of the keys.

    Args:
        values: what differs from the defaults; numbers and truth values may be given as such.

    Raises:
        ConfigError: a key that is not simulated, or a value of another kind than its default.

    >>> config = ConsumerConfig({"zookeeper.sync.time.ms": 500})
    >>> config.integer("rebalance.backoff.ms"), config.text("auto.offset.reset")
    (500, 'largest')
    """

    def __init__(self, values: Mapping[str, str | int | bool] | None = None) -> None:
        self._values = dict(DEFAULTS)
        for key, value in (values or {}).items():
            if key not in DEFAULTS and key != _BACKOFF:
                right = f"one of {', '.join([*DEFAULTS, _BACKOFF])}"
                raise ConfigError(f"{key} is not simulated", where=f"config.{key}", right=right)
            text = str(value).lower() if isinstance(value, bool) else str(value)
            allowed = _TEXTS.get(key)
            if (text not in allowed) if allowed else not is_count(text):
                right = f"one of {', '.join(allowed)}" if allowed else "a whole number"
                raise ConfigError(f"{key} is {value!r}", where=f"config.{key}", right=right)
            self._values[key] = text
        self._values.setdefault(_BACKOFF, self._values["zookeeper.sync.time.ms"])

    def integer(self, key: str) -> int:
        """The value of a key that is a number."""
        return int(self._values[key])

    def truth(self, key: str) -> bool:
        """The value of a key that is true or false."""
        return self._values[key] == "true"

    def text(self, key: str) -> str:
        """The value of a key that is a word."""
        return self._values[key]
