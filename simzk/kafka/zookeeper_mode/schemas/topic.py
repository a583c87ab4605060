"""Topics in `/brokers/topics/T`: replica assignments and reassignments in progress (docs/reference/kafka.md §1.5).

Order of the partition keys (§1.2): each release copies the given map into one keyed by the number as text, up to 2.3 an
immutable map, from 2.4 on a mutable one. The given map must have the order of Kafka's map.
"""

from __future__ import annotations

from typing import NamedTuple

from simzk.jvm.numbers import parse_int
from simzk.jvm.scala_collections import Scala, immutable_order, mutable_order
from simzk.kafka.topic_partition import ReplicaAssignment
from simzk.kafka.zookeeper_mode.schemas.cluster import canonical_uuid
from simzk.kafka.zookeeper_mode.schemas.json_text import (
    LENIENT,
    JsonObject,
    JsonValue,
    Reading,
    read_object,
    write,
    write_spaced,
)


class TopicZnode(NamedTuple):
    """Content of a topic znode: assignments by partition, and the topic id (2.8 and later)."""

    partitions: dict[int, ReplicaAssignment]
    topic_id: str | None = None


def encode_v1_spaced(topic: TopicZnode) -> bytes:
    """Encode as Kafka 0.8.0 does.

    >>> encode_v1_spaced(TopicZnode({1: ReplicaAssignment((2, 1)), 0: ReplicaAssignment((1, 2))})).decode()
    '{ "partitions":{ "0":[ 1, 2 ], "1":[ 2, 1 ] }, "version":1 }'
    """
    lists = {str(number): list(assignment.replicas) for number, assignment in topic.partitions.items()}
    return write_spaced({"version": 1, "partitions": lists})


def encode_v1(topic: TopicZnode) -> bytes:
    """Encode as Kafka 0.8.1 to 2.3 does, without reassignments.

    >>> encode_v1(TopicZnode({1: ReplicaAssignment((2, 1)), 0: ReplicaAssignment((1, 2))})).decode()
    '{"version":1,"partitions":{"1":[2,1],"0":[1,2]}}'
    """
    lists = {str(number): list(assignment.replicas) for number, assignment in topic.partitions.items()}
    return write({"version": 1, "partitions": {key: lists[key] for key in immutable_order(lists, "2.12")}})


def encode_v2_of_2_12(topic: TopicZnode) -> bytes:
    """Encode as Kafka 2.4 and 2.5, built with Scala 2.12, does.

    >>> encode_v2_of_2_12(TopicZnode({0: ReplicaAssignment((1, 2))})).decode()
    '{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}'
    """
    return _encode_v2(topic, "2.12")


def encode_v2(topic: TopicZnode) -> bytes:
    """Encode as Kafka 2.6 and 2.7, built with Scala 2.13, does."""
    return _encode_v2(topic, "2.13")


def _encode_v2(topic: TopicZnode, scala: Scala) -> bytes:
    return write({"version": 2, **_lists(topic, scala)})


def encode_v3(topic: TopicZnode) -> bytes:
    """Encode as Kafka 2.8 and later, built with Scala 2.13, does.

    >>> encode_v3(TopicZnode({0: ReplicaAssignment((1, 2))}, "abc")).decode()
    '{"partitions":{"0":[1,2]},"topic_id":"abc","adding_replicas":{},"removing_replicas":{},"version":3}'
    """
    lists = _lists(topic, "2.13")
    topic_id = {} if topic.topic_id is None else {"topic_id": topic.topic_id}
    return write({"partitions": lists.pop("partitions"), **topic_id, **lists, "version": 3})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> TopicZnode:
    """Decode a topic of any version.

    A missing map is empty, `version` is ignored, and so are reassignments of partitions without an assignment.

    Raises:
        NoJsonError: the data are not JSON; Kafka treats the topic as one without partitions.
        ZnodeError: the data are invalid; names path, field and reason.
    """
    fields = read_object(path, data, reading)
    adding = fields.object("adding_replicas") if reading.has_reassignments else {}
    removing = fields.object("removing_replicas") if reading.has_reassignments else {}
    partitions = {}
    for key, ids in fields.object("partitions").items():
        if (number := parse_int(key)) is None or number < 0:
            raise fields.wrong(f"partitions.{key}", "a partition number")
        partitions[number] = ReplicaAssignment(
            _brokers(fields, f"partitions.{key}", ids),
            _brokers(fields, f"adding_replicas.{key}", adding.get(key, [])),
            _brokers(fields, f"removing_replicas.{key}", removing.get(key, [])),
        )
    return TopicZnode(partitions, _topic_id(fields) if reading.has_topic_ids else None)


def _brokers(fields: JsonObject, field: str, ids: JsonValue) -> tuple[int, ...]:
    brokers = fields.integer_list(field, ids)
    if any(broker < 0 for broker in brokers):
        raise fields.wrong(field, "broker ids")
    return brokers


def _topic_id(fields: JsonObject) -> str | None:
    if "topic_id" not in fields.fields:
        return None
    if (topic_id := canonical_uuid(fields.text("topic_id"))) is None:
        raise fields.wrong("topic_id", "22 characters of base64")
    return topic_id


def _lists(topic: TopicZnode, scala: Scala) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the three maps of a znode in its order; only that of the replicas has empty lists."""
    by_number = {str(number): assignment for number, assignment in topic.partitions.items()}
    fields = {
        "partitions": {number: assignment.replicas for number, assignment in by_number.items()},
        "adding_replicas": {number: assignment.adding for number, assignment in by_number.items() if assignment.adding},
        "removing_replicas": {number: one.removing for number, one in by_number.items() if one.removing},
    }
    return {field: {number: of[number] for number in mutable_order(of, scala)} for field, of in fields.items()}
