"""Codecs of all Kafka znodes by path: decode as a release, and encode again in its form."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simzk.kafka.releases.versions import VERSIONS, kafka_version
from simzk.kafka.zookeeper_mode.consumer import subscriptions as consumer
from simzk.kafka.zookeeper_mode.consumer.settings import consumer_version
from simzk.kafka.zookeeper_mode.schemas import (
    acl,
    admin,
    broker_registration,
    cluster,
    config,
    controller,
    delegation_token,
    feature,
    partition_state,
    topic,
)
from simzk.kafka.zookeeper_mode.tools.acls import acl_rules_of
from tests.kafka.foreign_znodes import decode_extended_change, decode_migration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition

    Reader = Callable[[str, bytes], object]

RELEASES = (
    *("0.8.0", "0.8.1.1", "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1"),
    *("2.2.2", "2.4.1", "2.7.2", "2.8.2", "3.4.1", "3.9.1"),
)


@dataclass(frozen=True)
class Writers:
    """Encoders that differ between releases."""

    broker: Callable[[broker_registration.BrokerRegistration], bytes]
    topic: Callable[[topic.TopicZnode], bytes]
    state: Callable[[LeaderAndIsr], bytes]
    controller: Callable[[int, int], bytes]
    change: Callable[[str], bytes]
    reassignment: Callable[[Mapping[TopicPartition, Iterable[int]]], bytes]
    election: Callable[[Iterable[TopicPartition]], bytes]


_0_8_0 = Writers(
    broker_registration.encode_v1_spaced,
    topic.encode_v1_spaced,
    partition_state.encode_spaced,
    controller.encode_v1_spaced,
    config.encode_change_of_topic,
    admin.encode_reassignment_spaced,
    admin.encode_partitions_spaced,
)
_0_8_1 = Writers(
    broker_registration.encode_v1,
    topic.encode_v1,
    partition_state.encode,
    controller.encode_v1,
    config.encode_change_of_topic,
    admin.encode_reassignment,
    admin.encode_partitions,
)
_0_9 = replace(_0_8_1, broker=broker_registration.encode_v2, change=config.encode_change_v1)
_0_10_0 = replace(_0_9, broker=broker_registration.encode_v3)
_0_10_2 = replace(_0_10_0, broker=broker_registration.encode_v4_of_2_12, change=config.encode_change)
_SINCE = (((0, 10, 1), _0_10_2), ((0, 10, 0), _0_10_0), ((0, 9), _0_9), ((0, 8, 1), _0_8_1), ((0, 8, 0), _0_8_0))


def number_of(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def writers_of(release: str) -> Writers:
    """Return the encoders of a release, also of a recorded one that is not simulated."""
    writers = next(row for since, row in _SINCE if number_of(release) >= since)
    if not any(release.startswith(f"{line}.") or release == line for line in VERSIONS):
        return writers
    version = kafka_version(release)
    return replace(
        writers,
        broker=version.znodes.encode_broker,
        topic=version.znodes.encode_topic,
        state=version.znodes.encode_state,
        controller=version.znodes.encode_controller,
        change=version.znodes.encode_config_change,
        reassignment=version.znodes.encode_reassignment,
        election=version.znodes.encode_election,
    )


READERS: tuple[tuple[str, Reader], ...] = (
    (r"/brokers/ids/\d+", broker_registration.decode),
    (r"/brokers/topics/[^/]+", topic.decode),
    (r"/brokers/topics/[^/]+/partitions/\d+/state", partition_state.decode),
    (r"/controller", controller.decode),
    (r"/controller_epoch", controller.decode_epoch),
    (r"/config/changes/[^/]+", config.decode_change),
    (r"/config/(topics|clients|brokers|ips|users)/[^/]+(/clients/[^/]+)?", config.decode),
    (r"/admin/reassign_partitions", admin.decode_reassignment),
    (r"/admin/preferred_replica_election", admin.decode_partitions),
    (r"/isr_change_notification/[^/]+", admin.decode_partitions),
    (r"/log_dir_event_notification/[^/]+", broker_registration.decode_log_dir_failure),
    (r"/cluster/id", cluster.decode_cluster_id),
    (r"/feature", feature.decode),
    (r"/migration", decode_migration),
    (r"/latest_producer_id_block", cluster.decode_producer_ids),
    (r"/delegation_token/tokens/[^/]+", delegation_token.decode),
    (r"/kafka-acl/[^/]+/[^/]+|/kafka-acl-extended/prefixed/[^/]+/[^/]+", acl.decode),
    (r"/kafka-acl-changes/[^/]+", acl.decode_change),
    (r"/kafka-acl-extended-changes/[^/]+", decode_extended_change),
    (r"/consumers/[^/]+/ids/[^/]+", consumer.decode),
    (r"/consumers/[^/]+/owners/[^/]+/\d+", lambda _, data: data.decode()),
    (r"/consumers/[^/]+/offsets/[^/]+/\d+", consumer.decode_offset),
)


def read(path: str, data: bytes) -> object:
    """Decode the value at a path."""
    (reader,) = (reader for pattern, reader in READERS if re.fullmatch(pattern, path))
    return reader(path, data)


def written_again(release: str, path: str, data: bytes) -> bytes:
    """Decode the value at a path, and encode it in the release's form."""
    writers = writers_of(release)
    match path.split("/")[1:]:
        case ["brokers", "ids", _]:
            return writers.broker(broker_registration.decode(path, data))
        case ["brokers", "topics", _]:
            return writers.topic(topic.decode(path, data))
        case ["brokers", "topics", *_]:
            return writers.state(partition_state.decode(path, data))
        case ["controller"]:
            stamp = re.search(rb'"timestamp":"(\d+)"', data)
            assert stamp is not None
            return writers.controller(controller.decode(path, data), int(stamp[1]))
        case ["controller_epoch"]:
            return controller.encode_epoch(controller.decode_epoch(path, data))
        case ["config", "changes", _]:
            return writers.change(config.decode_change(path, data))
        case ["config", *_]:
            return config.encode(config.in_properties_order(config.decode(path, data)))
        case ["admin", "reassign_partitions"]:
            return writers.reassignment(admin.decode_reassignment(path, data))
        case ["admin", "preferred_replica_election"]:
            return writers.election(admin.decode_partitions(path, data))
        case ["isr_change_notification", _]:
            return admin.encode_partitions(admin.decode_partitions(path, data))
        case ["cluster", "id"]:
            return cluster.encode_cluster_id(cluster.decode_cluster_id(path, data))
        case ["feature"]:
            version = kafka_version(release)
            assert version.znodes.encode_feature is not None
            found = feature.decode(path, data)
            return version.znodes.encode_feature(found.status, found.features)
        case ["latest_producer_id_block"]:
            block = cluster.decode_producer_ids(path, data)
            assert block is not None
            return cluster.encode_producer_ids(block)
        case ["kafka-acl-changes", _]:
            notice = acl.decode_change(path, data)
            return acl.encode_change(notice.kind, notice.name)
        case ["kafka-acl-extended-changes", _]:
            return acl.encode_extended_change(*decode_extended_change(path, data))
        case ["kafka-acl" | "kafka-acl-extended", *_]:
            major, minor, patch = number_of(release)[:3]
            rules = acl_rules_of((major, minor, patch))
            assert rules is not None
            return rules.encode(acl.decode(path, data))
        case ["consumers", _, "ids", _]:
            return consumer_version(release).encode(consumer.decode(path, data))
        case ["consumers", _, "owners", *_]:
            return data
        case ["consumers", _, "offsets", *_]:
            return consumer.encode_offset(consumer.decode_offset(path, data))
    raise AssertionError(f"no release wrote {path}")
