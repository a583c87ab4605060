"""Lists of partitions: `/admin/reassign_partitions` and `/admin/preferred_replica_election`, by which an operator asks;
`/isr_change_notification/isr_change_N`, by which a leader tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.schemas import reassignment_bean
from simzk.kafka.schemas.json_text import JsonObject, read_object, write, write_spaced
from simzk.kafka.schemas.reading import LENIENT, Reading
from simzk.kafka.schemas.reassignment_bean import broker_ids
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def encode_reassignment(assignments: Mapping[TopicPartition, Iterable[int]]) -> bytes:
    """What the tool and the controller write.

    >>> encode_reassignment({TopicPartition("t", 0): [2, 3]}).decode()
    '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'
    """
    return write(_reassignment(assignments))


def encode_reassignment_spaced(assignments: Mapping[TopicPartition, Iterable[int]]) -> bytes:
    """What Kafka 0.8.0 writes.

    >>> encode_reassignment_spaced({TopicPartition("t", 0): [2, 3]}).decode()
    '{ "partitions":[ { "partition":0, "replicas":[ 2, 3 ], "topic":"t" } ], "version":1 }'
    """
    return write_spaced(_reassignment(assignments))


def _reassignment(assignments: Mapping[TopicPartition, Iterable[int]]) -> dict[str, object]:
    partitions = [
        {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
        for partition, replicas in assignments.items()
    ]
    return {"version": 1, "partitions": partitions}


def decode_reassignment(
    path: str, data: bytes | None, reading: Reading = LENIENT, *, strict: bool = True
) -> dict[TopicPartition, tuple[int, ...]]:
    """Read a reassignment as the controller does (§1.1): of a partition that is named twice the last counts.

    Args:
        path: of the znode.
        data: what it holds.
        reading: how a release parses it.
        strict: as a bean (2.0 and later): see `schemas.reassignment_bean`; else an unknown field is passed over.

    Raises:
        NoJsonError: the real one takes it for no reassignment.
        ZnodeError: the real one throws; path, field and why.
    """
    return dict(read_reassignment(path, data, reading, strict=strict))


def read_reassignment(
    path: str, data: bytes | None, reading: Reading = LENIENT, *, strict: bool = False
) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    """Read a reassignment entry by entry, as the tool does; for the rest as `decode_reassignment`."""
    if strict:
        return reassignment_bean.read(path, data, reading)
    fields = read_object(path, data, reading)
    if "partitions" not in fields.fields:
        return []
    return [(_partition(entry), broker_ids(entry)) for entry in fields.objects("partitions")]


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """What the tool writes.

    >>> encode_preferred_election([TopicPartition("t", 1)]).decode()
    '{"version":1,"partitions":[{"topic":"t","partition":1}]}'
    """
    return write(_preferred_election(partitions))


def encode_preferred_election_spaced(partitions: Iterable[TopicPartition]) -> bytes:
    """What Kafka 0.8.0 writes.

    >>> encode_preferred_election_spaced([TopicPartition("t", 1)]).decode()
    '{ "partitions":[ { "partition":1, "topic":"t" } ], "version":1 }'
    """
    return write_spaced(_preferred_election(partitions))


def _preferred_election(partitions: Iterable[TopicPartition]) -> dict[str, object]:
    entries = [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]
    return {"version": 1, "partitions": entries}


def decode_preferred_election(path: str, data: bytes | None, reading: Reading = LENIENT) -> list[TopicPartition]:
    """Read which partitions are to be led by their preferred replica.

    Raises:
        NoJsonError: it is no JSON, and the real one takes it for no partition (1.1 and later).
        ZnodeError: it cannot be used; path, field and why.
    """
    return [_partition(entry) for entry in read_object(path, data, reading).objects("partitions")]


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """What a leader of 0.9 to 2.6 writes after it changed ISRs: the same form."""
    return encode_preferred_election(partitions)


def decode_isr_change(path: str, data: bytes | None, reading: Reading = LENIENT) -> list[TopicPartition]:
    """Read of which partitions the ISRs changed; raises as `decode_preferred_election` does."""
    return decode_preferred_election(path, data, reading)


def _partition(entry: JsonObject) -> TopicPartition:
    return TopicPartition(entry.text("topic"), entry.integer("partition"))
