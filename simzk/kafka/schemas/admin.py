"""`/admin/reassign_partitions` as Kafka 2.0 and later read it: Jackson fills a bean (docs/reference/kafka.md §1.1).

Rules of the module (ReassignPartitionsZNode.decode; recorded, text by text, in `tests/kafka/data/readers`):
  - an unknown field, or a value that cannot be made to fit, makes all of it unusable, as if it were no JSON;
  - numbers are made to fit: a fraction is cut off, text is read as a number, blanks around it taken off, nothing and
    no text are 0; a topic may be a number or a truth value, which stands for its text;
  - without `partitions`, or with nothing for an entry, the real one throws, and what the znode was read for is left
    undone; so it does, later, over an entry without a topic or replicas, and over replicas that are no numbers.

Lists of partitions: `/admin/reassign_partitions` and `/admin/preferred_replica_election`, by which an operator asks;
`/isr_change_notification/isr_change_N`, by which a leader tells.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from simzk.errors import ZnodeError
from simzk.jvm.numbers import INT_MAX, INT_MIN, parse_int
from simzk.kafka.schemas.json_text import (
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
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_FIELDS: Final = frozenset({"version", "partitions"})
_ENTRY_FIELDS: Final = frozenset({"topic", "partition", "replicas"})
Entry = tuple[TopicPartition, tuple[int, ...]]


def read(path: str, data: bytes | None, reading: Reading) -> list[Entry]:
    """The entries, in the order in which they stand.

    Raises:
        NoJsonError: it is no JSON, or cannot be made to fit.
        ZnodeError: the real one throws; path, field and why.

    >>> read("/r", b'{"partitions":[{"topic":"t","partition":"1","replicas":[2]}]}', LENIENT)
    [(TopicPartition(topic='t', partition=1), (2,))]
    """
    if data is not None and not data.strip():
        raise NoJsonError("holds no data", where=path, right="JSON")
    value = read_value(path, data, reading)
    if value is None:
        raise ZnodeError("holds null", where=path, right="a JSON object")
    fields = JsonObject(path, _object(path, value))
    _refuse_unknown(fields, _FIELDS)
    _number(fields, "version")
    partitions = fields.fields.get("partitions")
    if partitions is not None and not isinstance(partitions, list):
        raise _unfit(fields, "partitions", "a list of objects")
    beans = list(_beans(path, partitions or []))
    if partitions is None or None in beans:
        raise fields.wrong("partitions", "a list of objects")
    return [_entry(bean) for bean in beans if bean is not None]


def broker_ids(entry: JsonObject) -> tuple[int, ...]:
    """The replicas of an entry.

    Raises:
        ZnodeError: they are no list of numbers.
    """
    return entry.integers("replicas")


def _beans(path: str, partitions: list[JsonValue]) -> Iterator[JsonObject | None]:
    """Each entry, made to fit; None for null."""
    for index, value in enumerate(partitions):
        if value is None:
            yield None
            continue
        entry = JsonObject(path, _object(path, value, f"partitions[{index}]"), f"partitions[{index}].")
        _refuse_unknown(entry, _ENTRY_FIELDS)
        topic, replicas = entry.fields.get("topic"), entry.fields.get("replicas")
        if isinstance(topic, list | dict):
            raise _unfit(entry, "topic", "a string")
        if replicas is not None and not isinstance(replicas, list):
            raise _unfit(entry, "replicas", "a list of whole numbers of 32 bits")
        fitting: dict[str, JsonValue] = {"partition": _number(entry, "partition")}
        if "replicas" in entry.fields:
            fitting["replicas"] = replicas
        if topic is not None:
            fitting["topic"] = topic if isinstance(topic, str) else json.dumps(topic)
        yield JsonObject(path, fitting, f"partitions[{index}].")


def _entry(bean: JsonObject) -> Entry:
    return TopicPartition(bean.text("topic", ""), bean.integer("partition")), broker_ids(bean)


def _object(path: str, value: JsonValue, place: str = "") -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        what = f"field {place} is {shown(value)}" if place else f"holds {shown(value)}"
        raise NoJsonError(what, where=path, right="a JSON object")
    return value


def _number(fields: JsonObject, field: str) -> int:
    """A number of 32 bits, or what can be taken for one."""
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
    raise _unfit(fields, field, "a whole number of 32 bits")


def _refuse_unknown(fields: JsonObject, known: frozenset[str]) -> None:
    for field in fields.fields:
        if field not in known:
            raise _unfit(fields, field, f"only {', '.join(sorted(known))}")


def _unfit(fields: JsonObject, field: str, right: str) -> NoJsonError:
    error = fields.wrong(field, right)
    return NoJsonError(error.what, where=error.where, right=error.right)


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
        return read(path, data, reading)
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
