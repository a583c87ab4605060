"""`/brokers/topics/T`: who holds each partition, and which reassignments are under way (docs/reference/kafka.md §1.5).

Order of the partition keys: a mutable map of Scala keyed by the number as text (§1.2), natural up to ten partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.schemas.json_text import read_object, write
from simzk.kafka.topic_partition import ReplicaAssignment
from simzk.partitions.scala_order import mutable_order

if TYPE_CHECKING:
    from collections.abc import Mapping


class TopicZnode(NamedTuple):
    """A topic: its partitions, and its id where the version that wrote it gives topics ids (2.8 and later)."""

    partitions: dict[int, ReplicaAssignment]
    topic_id: str | None = None


def encode_v3(topic: TopicZnode) -> bytes:
    """What Kafka 2.8 and later, built with Scala 2.13, writes.

    >>> encode_v3(TopicZnode({0: ReplicaAssignment((1, 2))}, "abc")).decode()
    '{"partitions":{"0":[1,2]},"topic_id":"abc","adding_replicas":{},"removing_replicas":{},"version":3}'
    """
    fields: dict[str, object] = {"partitions": _by_partition(topic.partitions, "replicas")}
    if topic.topic_id is not None:
        fields["topic_id"] = topic.topic_id
    fields["adding_replicas"] = _by_partition(topic.partitions, "adding")
    fields["removing_replicas"] = _by_partition(topic.partitions, "removing")
    fields["version"] = 3
    return write(fields)


def decode(path: str, data: bytes | None) -> TopicZnode:
    """Read a topic of any version.

    The reader takes the maps as they come: a missing one is empty, and `version` is not looked at.

    Raises:
        ZnodeError: it cannot be used; path, field and why.
    """
    fields = read_object(path, data)
    adding = fields.integers_by_partition("adding_replicas")
    removing = fields.integers_by_partition("removing_replicas")
    replicas = fields.integers_by_partition("partitions")
    partitions = {
        number: ReplicaAssignment(ids, adding.get(number, ()), removing.get(number, ()))
        for number, ids in replicas.items()
    }
    return TopicZnode(partitions, fields.text("topic_id", "") or None)


def _by_partition(partitions: Mapping[int, ReplicaAssignment], part: str) -> dict[str, list[int]]:
    """The lists that are not empty (replicas: all of them), keyed and ordered as written."""
    lists = {str(number): list(getattr(assignment, part)) for number, assignment in sorted(partitions.items())}
    kept = {number: ids for number, ids in lists.items() if ids or part == "replicas"}
    return {number: kept[number] for number in mutable_order(kept)}
