"""Settings of the old consumer, and the differences between its releases.

Rules of the module (docs/reference/kafka.md §4; ZookeeperConsumerConnector and PartitionAssignor of each release):
  - a difference between releases is a field of `ConsumerVersion`, declared once with the first release of each value,
    never an `if` on a version number.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError
from simzk.jvm.numbers import is_count
from simzk.kafka.releases.settings import Settings
from simzk.kafka.releases.since import Profile, at_release, before, by_release, since
from simzk.kafka.zookeeper_mode.consumer import subscriptions
from simzk.kafka.zookeeper_mode.consumer.assignors import (
    assign_range,
    assign_roundrobin,
    assign_roundrobin_alike,
    bracketed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_mode.consumer.assignors import GroupView, Strategy, ThreadId
    from simzk.kafka.zookeeper_mode.consumer.subscriptions import ConsumerRegistration

    Assignor = Callable[[GroupView], dict[TopicPartition, ThreadId]]

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
"""Defaults of ConsumerConfig in 0.8 to 1.1; `rebalance.backoff.ms` defaults to `zookeeper.sync.time.ms`."""

_BACKOFF: Final = "rebalance.backoff.ms"
_TEXTS: Final = {
    "auto.offset.reset": ("largest", "smallest"),
    "partition.assignment.strategy": ("range", "roundrobin"),
    **dict.fromkeys(("auto.commit.enable", "exclude.internal.topics"), ("true", "false")),
}


class ConsumerConfig(Settings):
    """Values of a consumer's settings, by Kafka's own names.

    Args:
        values: values that differ from the defaults; numbers and booleans are accepted besides text.

    Raises:
        ConfigError: a setting is not simulated, or its value is not of the default's type.

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
        assert self._values.keys() == {*DEFAULTS, _BACKOFF}, "each setting has a value"


_OFFSETS: Final = frozenset({"__consumer_offsets"})
LINES: Final = ("0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2", "0.11", "1.0.0", "1.0", "1.1")
"""Release lines with an old consumer, oldest first; a line stands for its last release."""


class ConsumerVersion(Profile):
    """One release line of the old consumer."""

    encode: Callable[[ConsumerRegistration], bytes] = by_release(
        subscriptions.encode_spaced,
        ((0, 8, 1), subscriptions.encode_compact),
        ((1, 0, 1), subscriptions.encode_escaped_twice),
    )
    """Encode `ids/C` (§4.1)."""
    assignors: Mapping[Strategy, Assignor] = by_release(
        {"range": assign_range},
        ((0, 8, 2), {"range": assign_range, "roundrobin": partial(assign_roundrobin_alike, name_of=bracketed)}),
        ((0, 10, 2), {"range": assign_range, "roundrobin": partial(assign_roundrobin, name_of=bracketed)}),
        ((1, 0), {"range": assign_range, "roundrobin": partial(assign_roundrobin, name_of=str)}),
    )
    """Assignors by `partition.assignment.strategy`; any other value means range (§4.4)."""
    internal_topics: frozenset[str] = by_release(
        frozenset(), ((0, 8, 2), _OFFSETS), ((0, 11), _OFFSETS | {"__transaction_state"})
    )
    """Topics that `exclude.internal.topics` excludes from a regex."""
    predates_assignors: bool = before((0, 8, 2))
    """A rebalance reads members and partitions before it releases its own, and reads offsets in assignment order.

    Owners are created in the order of an immutable map. Later releases have PartitionAssignor and release first.
    """
    reads_all_topics: bool = since((0, 10, 2))
    """A rebalance reads the partitions of all topics of the group, after its members."""
    verifies_registration: bool = since((0, 9))
    """`ids/C` is created together with its parents and must belong to this session (ZKCheckedEphemeral).

    Earlier releases wait, without limit, for an id that another session owns.
    """
    has_topic_session: bool = before((0, 8, 1))
    """The list of topics is watched by a second client with its own session."""
    rebalances_on_event_thread: bool = before((0, 8, 1))
    """A changed topic is rebalanced on the event thread; later releases trigger the watcher thread."""
    commits_in_hash_order: bool = since((0, 8, 2))
    """Offsets are written in the order of an immutable map, before topic by topic."""
    closes_under_lock: bool = before((0, 8, 2))
    """Closing is announced only after the rebalance in progress has ended."""
    stops_between_tries: bool = since((0, 9))
    """A consumer that closes abandons a rebalance after the attempt in progress."""


@cache
def consumer_version(name: str) -> ConsumerVersion:
    """Return the profile of a release, or of the last release of a line.

    Raises:
        ConfigError: that release has no old consumer, or is not simulated.

    >>> consumer_version("0.8.2.2").internal_topics
    frozenset({'__consumer_offsets'})
    """
    if (line := line_of(name)) is None:
        right = f"one of {', '.join(LINES)}"
        raise ConfigError(f"there is no old consumer of Kafka {name!r}", where="version", right=right)
    return at_release(ConsumerVersion, (*map(int, line.split(".")), 0 if line == "1.0.0" else 99))


def line_of(name: str) -> str | None:
    """Return the line of a release that has an old consumer, otherwise None.

    >>> line_of("0.8.2.2"), line_of("1.0.2"), line_of("2.0")
    ('0.8.2', '1.0', None)
    """
    return max((line for line in LINES if name == line or name.startswith(f"{line}.")), key=len, default=None)
