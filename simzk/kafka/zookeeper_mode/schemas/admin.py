"""Lists of partitions in znodes: reassignments, preferred elections and ISR changes.

Operators write `/admin/reassign_partitions` and `/admin/preferred_replica_election`, leaders write
`/isr_change_notification/isr_change_N`.

Rules of the strict reader of reassignments, used by the controller from 2.0 on, in which Jackson fills a bean
(ReassignPartitionsZNode.decode; docs/reference/kafka.md §1.1; recorded, text by text, in `tests/kafka/data/readers`):
  - an unknown field, or a value that cannot be converted, makes the whole znode unusable, as if it were no JSON;
  - numbers are converted: a fraction is truncated, text is parsed without blanks around it, null and empty text are 0;
    a topic may be a number or boolean, which is converted to text;
  - without `partitions`, or with null as an entry, Kafka throws, and the operation is not carried out; it throws later
    over an entry without topic or replicas, and over replicas that are no numbers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from simzk.errors import ZnodeError
from simzk.jvm.numbers import INT_MAX, INT_MIN, parse_int
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode.schemas.json_text import (
    LENIENT,
    JsonObject,
    JsonValue,
    NoJsonError,
    Reading,
    is_int,
    read_object,
    read_value,
    shown,
    write,
    write_spaced,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_FIELDS: Final = frozenset({"version", "partitions"})
_ENTRY_FIELDS: Final = frozenset({"topic", "partition", "replicas"})
Entry = tuple[TopicPartition, tuple[int, ...]]


def read(path: str, data: bytes | None, reading: Reading) -> list[Entry]:
    """Return the entries of a reassignment, decoded as a bean.

    Raises:
        NoJsonError: the data are not JSON, or cannot be converted.
        ZnodeError: Kafka throws an exception; names path, field and reason.

    >>> read("/r", b'{"partitions":[{"topic":"t","partition":"1","replicas":[2]}]}', LENIENT)
    [(TopicPartition(topic='t', partition=1), (2,))]
    """
    if data is not None and not data.strip():
        raise NoJsonError("has no data", where=path, right="JSON")
    value = read_value(path, data, reading)
    if value is None:
        raise ZnodeError("contains null", where=path, right="a JSON object")
    fields = JsonObject(path, _object(path, value))
    _reject_unknown(fields, _FIELDS)
    _number(fields, "version")
    partitions = fields.fields.get("partitions")
    if partitions is not None and not isinstance(partitions, list):
        raise _unusable(fields, "partitions", "a list of objects")
    beans = list(_beans(path, partitions or []))
    if partitions is None or None in beans:
        raise fields.wrong("partitions", "a list of objects")
    return [_entry(bean) for bean in beans if bean is not None]


def _beans(path: str, partitions: list[JsonValue]) -> Iterator[JsonObject | None]:
    """Yield each entry with converted values; None for null."""
    for index, value in enumerate(partitions):
        if value is None:
            yield None
            continue
        entry = JsonObject(path, _object(path, value, f"partitions[{index}]"), f"partitions[{index}].")
        _reject_unknown(entry, _ENTRY_FIELDS)
        topic, replicas = entry.fields.get("topic"), entry.fields.get("replicas")
        if isinstance(topic, list | dict):
            raise _unusable(entry, "topic", "a string")
        if replicas is not None and not isinstance(replicas, list):
            raise _unusable(entry, "replicas", "a list of whole numbers of 32 bits")
        fitting: dict[str, JsonValue] = {"partition": _number(entry, "partition")}
        if "replicas" in entry.fields:
            fitting["replicas"] = replicas
        if topic is not None:
            fitting["topic"] = topic if isinstance(topic, str) else json.dumps(topic)
        yield JsonObject(path, fitting, f"partitions[{index}].")


def _entry(bean: JsonObject) -> Entry:
    return TopicPartition(bean.text("topic", ""), bean.integer("partition")), bean.integers("replicas")


def _object(path: str, value: JsonValue, place: str = "") -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        what = f"field {place} is {shown(value)}" if place else f"contains {shown(value)}"
        raise NoJsonError(what, where=path, right="a JSON object")
    return value


def _number(fields: JsonObject, field: str) -> int:
    """Convert a field to a 32-bit integer."""
    value = fields.fields.get(field)
    if value is None:
        return 0
    if isinstance(value, str):
        text = value.strip()
        number = parse_int(text) if text else 0
        if number is not None:
            return number
    elif is_int(value):
        return value
    elif isinstance(value, float) and INT_MIN <= value <= INT_MAX:
        return int(value)
    raise _unusable(fields, field, "a whole number of 32 bits")


def _reject_unknown(fields: JsonObject, known: frozenset[str]) -> None:
    for field in fields.fields:
        if field not in known:
            raise _unusable(fields, field, f"only {', '.join(sorted(known))}")


def _unusable(fields: JsonObject, field: str, right: str) -> NoJsonError:
    error = fields.wrong(field, right)
    return NoJsonError(error.what, where=error.where, right=error.right)


def encode_reassignment(assignments: Mapping[TopicPartition, Iterable[int]]) -> bytes:
    """Encode as the tool and the controller do from 0.8.1 on.

    >>> encode_reassignment({TopicPartition("t", 0): [2, 3]}).decode()
    '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'
    """
    return write(_reassignment(assignments))


def encode_reassignment_spaced(assignments: Mapping[TopicPartition, Iterable[int]]) -> bytes:
    """Encode as Kafka 0.8.0 does.

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
    """Decode a reassignment as the controller does (§1.1): of a repeated partition the last entry counts.

    Args:
        path: path of the znode.
        data: data of the znode.
        reading: rules of the release.
        strict: decode as a bean (2.0 and later), see the rules of this module; otherwise ignore unknown fields.

    Raises:
        NoJsonError: Kafka treats the data as no reassignment.
        ZnodeError: Kafka throws an exception; names path, field and reason.
    """
    return dict(read_reassignment(path, data, reading, strict=strict))


def read_reassignment(
    path: str, data: bytes | None, reading: Reading = LENIENT, *, strict: bool = False
) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    """Decode a reassignment entry by entry, as the tool does; see `decode_reassignment`."""
    if strict:
        return read(path, data, reading)
    fields = read_object(path, data, reading)
    if "partitions" not in fields.fields:
        return []
    return [(_partition(entry), entry.integers("replicas")) for entry in fields.objects("partitions")]


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode a preferred election as the tool does from 0.8.1 on, or ISR changes as a leader of 0.9 to 2.6 does.

    >>> encode_partitions([TopicPartition("t", 1)]).decode()
    '{"version":1,"partitions":[{"topic":"t","partition":1}]}'
    """
    return write(_partitions(partitions))


def encode_partitions_spaced(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode a preferred election as Kafka 0.8.0 does.

    >>> encode_partitions_spaced([TopicPartition("t", 1)]).decode()
    '{ "partitions":[ { "partition":1, "topic":"t" } ], "version":1 }'
    """
    return write_spaced(_partitions(partitions))


def _partitions(partitions: Iterable[TopicPartition]) -> dict[str, object]:
    entries = [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]
    return {"version": 1, "partitions": entries}


def decode_partitions(path: str, data: bytes | None, reading: Reading = LENIENT) -> list[TopicPartition]:
    """Decode the partitions of a preferred election, or with ISR changes.

    Raises:
        NoJsonError: the data are not JSON; Kafka 1.1 and later reads no partitions.
        ZnodeError: the data are invalid; names path, field and reason.
    """
    return [_partition(entry) for entry in read_object(path, data, reading).objects("partitions")]


def _partition(entry: JsonObject) -> TopicPartition:
    return TopicPartition(entry.text("topic"), entry.integer("partition"))
