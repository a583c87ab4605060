"""A consumer's configuration keys, by Kafka's own names, as far as they are simulated.

Which release a consumer is of: what it writes, what it reads when, and which rules it assigns by.

Rules of the module (docs/reference/kafka.md §4; ZookeeperConsumerConnector and PartitionAssignor of each release):
  - one row a line of releases; a difference between releases is a field of the row, never an `if` on a number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError
from simzk.jvm.numbers import is_count
from simzk.kafka.consumer.assignors import (
    Strategy,
    assign_range,
    assign_roundrobin,
    assign_roundrobin_alike,
    bracketed,
    dashed,
)
from simzk.kafka.schemas.consumer import encode_compact, encode_escaped_twice, encode_spaced

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


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.consumer.assignors import GroupView, ThreadId
    from simzk.kafka.schemas.consumer import ConsumerRegistration
    from simzk.kafka.topic_partition import TopicPartition

    Assignor = Callable[[GroupView], dict[TopicPartition, ThreadId]]


@dataclass(frozen=True)
class ConsumerVersion:
    """One line of releases of the old consumer.

    Args:
        name: as users say it, such as `0.8.2`.
        encode: writes `ids/C`.
        assignors: by the value of `partition.assignment.strategy`; another value means range.
        internal_topics: what `exclude.internal.topics` leaves out of a list.
        before_assignors: of the time before PartitionAssignor: a rebalance reads members and partitions first and then
            releases what it owns; offsets are read as partitions are dealt, owners made in an immutable map's order.
        reads_all_topics: partitions are read of all topics of the group, and after its members.
        checked_registration: `ids/C` is made with its parents at once and must belong to this session; else another
            session's is waited for, for ever.
        watches_in_own_session: topics are watched by a second client with a session of its own.
        rebalances_on_event_thread: a change of a topic is answered on the spot; else it only sets the trigger.
        commits_by_hash: offsets are written in the order of an immutable map; else topic by topic.
        closes_under_lock: one that closes says so only when the rebalance that is under way has come to its end.
        stops_between_tries: one that closes gives up a rebalance after the try that is under way.
    """

    name: str
    encode: Callable[[ConsumerRegistration], bytes]
    assignors: Mapping[Strategy, Assignor]
    internal_topics: frozenset[str]
    before_assignors: bool = False
    reads_all_topics: bool = False
    checked_registration: bool = True
    watches_in_own_session: bool = False
    rebalances_on_event_thread: bool = False
    commits_by_hash: bool = True
    closes_under_lock: bool = False
    stops_between_tries: bool = True


_OFFSETS: Final = frozenset({"__consumer_offsets"})
_0_8_2: Final = ConsumerVersion(
    name="0.8.2",
    encode=encode_compact,
    assignors={"range": assign_range, "roundrobin": partial(assign_roundrobin_alike, name_of=bracketed)},
    internal_topics=_OFFSETS,
    checked_registration=False,
    stops_between_tries=False,
)
_0_8_1: Final = replace(
    _0_8_2,
    name="0.8.1",
    assignors={"range": assign_range},
    internal_topics=frozenset(),
    before_assignors=True,
    closes_under_lock=True,
    commits_by_hash=False,
)
_0_8_0: Final = replace(
    _0_8_1, name="0.8.0", encode=encode_spaced, watches_in_own_session=True, rebalances_on_event_thread=True
)
_0_9: Final = replace(_0_8_2, name="0.9", checked_registration=True, stops_between_tries=True)
_0_10_2: Final = replace(
    _0_9,
    name="0.10.2",
    assignors={"range": assign_range, "roundrobin": partial(assign_roundrobin, name_of=bracketed)},
    reads_all_topics=True,
)
_0_11: Final = replace(_0_10_2, name="0.11", internal_topics=_OFFSETS | {"__transaction_state"})
_1_0_0: Final = replace(
    _0_11,
    name="1.0.0",
    assignors={"range": assign_range, "roundrobin": partial(assign_roundrobin, name_of=dashed)},
)
_1_0: Final = replace(_1_0_0, name="1.0", encode=encode_escaped_twice)

VERSIONS: Final = {
    version.name: version
    for version in (
        _0_8_0,
        _0_8_1,
        _0_8_2,
        _0_9,
        replace(_0_9, name="0.10.0"),
        replace(_0_9, name="0.10.1"),
        _0_10_2,
        _0_11,
        _1_0_0,
        _1_0,
        replace(_1_0, name="1.1"),
    )
}


def consumer_version(name: str) -> ConsumerVersion:
    """The row of a release, or of the line that it belongs to.

    Raises:
        ConfigError: there was no old consumer in that release, or it is not simulated.

    >>> consumer_version("0.8.2.2").name, consumer_version("1.0.2").name
    ('0.8.2', '1.0')
    """
    lines = [line for line in VERSIONS if name == line or name.startswith(f"{line}.")]
    if not lines:
        raise ConfigError(
            f"there is no old consumer of Kafka {name!r}", where="version", right=f"one of {', '.join(VERSIONS)}"
        )
    return VERSIONS[max(lines, key=len)]
