"""Which Kafka release a broker runs: the profile that decides what is written, and how.

Rules of the module (docs/reference/kafka.md §0.1, §0.2):
  - one row a release line; a difference between releases is a field of the row, never an `if` on a number elsewhere;
  - a codec writes the one schema version that the row names, and reads all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError
from simzk.kafka.schemas import broker_registration, controller, partition_state, topic
from simzk.partitions.rules import ElectionRules, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.scala_order import Scala


@dataclass(frozen=True)
class KafkaVersion:
    """One release line of Kafka in ZooKeeper mode.

    Args:
        name: as users say it, such as `3.9`.
        number: for the table of election rules.
        scala: the Scala line of the default build; it fixes the order of maps and sets.
        rules: how leaders are elected and ISRs trimmed.
        encode_broker: writes `/brokers/ids/N`.
        encode_topic: writes `/brokers/topics/T`.
        encode_state: writes a partition's `state`.
        encode_controller: writes `/controller` from a broker id and a time in ms.
        persistent_paths: made at a broker's start, in this order (§1.3).
        defaults: Kafka's configuration keys and what they are by default.
    """

    name: str
    number: tuple[int, int, int]
    scala: Scala
    rules: ElectionRules
    encode_broker: Callable[[broker_registration.BrokerRegistration], bytes]
    encode_topic: Callable[[topic.TopicZnode], bytes]
    encode_state: Callable[[LeaderAndIsr], bytes]
    encode_controller: Callable[[int, int], bytes]
    persistent_paths: tuple[str, ...]
    defaults: dict[str, str]


_PATHS_3_9: Final = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)

_DEFAULTS_3_9: Final = {
    "zookeeper.session.timeout.ms": "18000",
    "zookeeper.max.in.flight.requests": "10",
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "unclean.leader.election.enable": "false",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.per.broker.percentage": "10",
    "leader.imbalance.check.interval.seconds": "300",
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.max.retries": "3",
    "controlled.shutdown.retry.backoff.ms": "5000",
    "delete.topic.enable": "true",
    "num.partitions": "1",
    "default.replication.factor": "1",
}

VERSIONS: Final = {
    "3.9": KafkaVersion(
        name="3.9",
        number=(3, 9, 0),
        scala="2.13",
        rules=rules_of((3, 9, 0)),
        encode_broker=broker_registration.encode_v5,
        encode_topic=topic.encode_v3,
        encode_state=partition_state.encode,
        encode_controller=controller.encode_v2,
        persistent_paths=_PATHS_3_9,
        defaults=_DEFAULTS_3_9,
    ),
}


def kafka_version(name: str) -> KafkaVersion:
    """The profile of a release line.

    Args:
        name: a line such as `3.9`, or a release of it such as `3.9.1`.

    Raises:
        ConfigError: no such line is simulated.

    >>> kafka_version("3.9.1").name
    '3.9'
    """
    for line, version in VERSIONS.items():
        if name == line or name.startswith(f"{line}."):
            return version
    raise ConfigError(f"Kafka {name!r} is not simulated", where="version", right=f"one of {', '.join(VERSIONS)}")
