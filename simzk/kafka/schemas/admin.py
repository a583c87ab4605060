"""Lists of partitions: `/admin/reassign_partitions` and `/admin/preferred_replica_election`, by which an operator asks;
`/isr_change_notification/isr_change_N`, by which a leader tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka.schemas.json_text import JsonObject, JsonValue, read_value, write, write_spaced
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_REASSIGNMENT_FIELDS = {"version", "partitions"}
_PARTITION_FIELDS = {"topic", "partition", "replicas"}


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


class StumblingError(ZnodeError):
    """The real reader throws here what its caller does not catch: what the znode was read for is left undone."""


def decode_reassignment(path: str, data: bytes | None, *, strict: bool = True) -> dict[TopicPartition, tuple[int, ...]]:
    """Read a reassignment as the controller does (§1.1): of a partition that is named twice the last counts.

    Args:
        path: of the znode.
        data: what it holds.
        strict: an unknown field makes all of it unusable (2.0 and later); else it is passed over.

    Raises:
        ZnodeError: it cannot be used; path, field and why; a StumblingError where it is JSON of another shape.
    """
    return dict(read_reassignment(path, data, strict=strict))


def read_reassignment(
    path: str, data: bytes | None, *, strict: bool = False
) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    """Read a reassignment entry by entry, as the tool does; for the rest as `decode_reassignment`."""
    value = read_value(path, data)
    if strict and not isinstance(value, dict):
        raise ZnodeError("holds no object", where=path, right="a JSON object")
    fields = _shaped(path, value)
    if strict:
        _refuse_unknown(fields, _REASSIGNMENT_FIELDS)
    elif "partitions" not in fields.fields:
        return []
    entries = []
    try:
        for entry in fields.objects("partitions"):
            if strict:
                _refuse_unknown(entry, _PARTITION_FIELDS)
            partition = TopicPartition(entry.text("topic"), entry.integer("partition"))
            entries.append((partition, entry.integers("replicas")))
    except _UnknownFieldError:
        raise
    except ZnodeError as error:
        raise StumblingError(error.what, where=error.where, right=error.right) from None
    return entries


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


def decode_preferred_election(path: str, data: bytes | None) -> list[TopicPartition]:
    """Read which partitions are to be led by their preferred replica.

    Raises:
        ZnodeError: it cannot be used; path, field and why; a StumblingError where it is JSON of another shape.
    """
    fields = _shaped(path, read_value(path, data))
    try:
        entries = fields.objects("partitions")
        return [TopicPartition(entry.text("topic"), entry.integer("partition")) for entry in entries]
    except ZnodeError as error:
        raise StumblingError(error.what, where=error.where, right=error.right) from None


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """What a leader of 0.9 to 2.6 writes after it changed ISRs: the same form."""
    return encode_preferred_election(partitions)


def decode_isr_change(path: str, data: bytes | None) -> list[TopicPartition]:
    """Read of which partitions the ISRs changed; nothing where it cannot be used, as the real reader takes it."""
    try:
        return decode_preferred_election(path, data)
    except ZnodeError:
        return []


class _UnknownFieldError(ZnodeError):
    """A field that the strict reader knows nothing of."""


def _shaped(path: str, value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise StumblingError("holds no object", where=path, right="a JSON object")
    return JsonObject(path, value)


def _refuse_unknown(fields: JsonObject, known: set[str]) -> None:
    for field in fields.fields:
        if field not in known:
            error = fields.wrong(field, f"only {', '.join(sorted(known))}")
            raise _UnknownFieldError(error.what, where=error.where, right=error.right)
