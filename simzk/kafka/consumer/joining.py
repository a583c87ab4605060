"""Consumers of a simulated cluster: how one joins a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.consumer import subscriptions
from simzk.kafka.consumer.consumer import Consumer, Identity, World
from simzk.kafka.consumer.settings import VERSIONS, ConsumerConfig, consumer_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.consumer.subscriptions import Subscription
    from simzk.kafka.topic_partition import TopicPartition

_LAST = "1.1"


def join(
    cluster: KafkaCluster,
    group: str,
    topics: Mapping[str, int] | Subscription,
    *,
    name: str | None = None,
    consumer_id: str | None = None,
    version: str | None = None,
    config: Mapping[str, str | int | bool] | None = None,
    machine: str = "localhost",
    watch_brokers: bool = False,
    reads: bool = True,
) -> Consumer:
    """Start a consumer; it joins its group as time passes.

    Args:
        cluster: whose topics it reads.
        group: the group's name.
        topics: threads by topic, or what `white_list` and `black_list` give.
        name: of its process in the history; `consumer N` by default, counted over the cluster.
        consumer_id: `consumer.id`; else one is drawn from the machine's name, the time and chance.
        version: of the consumer; that of the cluster by default, 1.1 where the cluster's is later.
        config: Kafka's configuration keys where they differ from the defaults.
        machine: its host name.
        watch_brokers: listen to `/brokers/ids` from the start, as the wiki says that consumers do.
        reads: whether its application reads all that comes; else `Consumer.consume` alone moves an offset.

    Raises:
        ConfigError: a group or id that cannot be part of a path, or an option that cannot be.

    >>> from simzk.kafka.cluster.cluster import KafkaCluster
    >>> cluster = KafkaCluster(brokers=1, seed=1)
    >>> _ = cluster.create_topic("orders", partitions=2, replication_factor=1)
    >>> cluster.run_for(2)
    >>> consumer = cluster.consumer("billing", {"orders": 2}, consumer_id="c1", version="0.8.2")
    >>> cluster.run_for(2)
    >>> {str(partition): thread for partition, thread in consumer.owned().items()}
    {'orders-0': 'billing_c1-0', 'orders-1': 'billing_c1-1'}
    """
    _check_name("group", group)
    _check_name("consumer_id", consumer_id)
    subscription = topics if isinstance(topics, subscriptions.Subscription) else subscriptions.static(topics)
    number = 1 + sum(isinstance(participant, Consumer) for participant in cluster.participants)
    consumer = Consumer(
        Identity(group, name or f"consumer {number}", consumer_id, machine),
        subscription,
        consumer_version(version or _version_of(cluster)),
        ConsumerConfig(config),
        _world(cluster),
        watch_brokers=watch_brokers,
        reads=reads,
    )
    cluster.participants.append(consumer)
    consumer.start()
    return consumer


def _world(cluster: KafkaCluster) -> World:
    host, history = cluster.zookeeper_host, cluster.history
    return World(cluster.scheduler, host, history, lambda partition: _high_watermark(cluster, partition))


def _check_name(what: str, text: str | None) -> None:
    if text is not None and (not text or "/" in text or text in (".", "..")):
        raise ConfigError(f"{what} is {text!r}", where=what, right="a name that can be part of a path")


def _version_of(cluster: KafkaCluster) -> str:
    """The release of a cluster, or the last one that had this consumer."""
    name = cluster.version
    known = any(name == line or name.startswith(f"{line}.") for line in VERSIONS)
    return name if known else _LAST


def _high_watermark(cluster: KafkaCluster, partition: TopicPartition) -> int | None:
    """How many records the leader gives to consumers; None where no broker leads now."""
    for broker in cluster.brokers.values():
        if broker.alive and not broker.paused and broker.registered and broker.replicas.leads(partition):
            return broker.replicas.replicas[partition].high_watermark
    return None
