"""Configurations of entities in `/config/...`, and notifications of changes (docs/reference/kafka.md §1.3, §1.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from simzk.errors import ZnodeError
from simzk.jvm.hash_map import concurrent_order, hash_map_order
from simzk.kafka.zookeeper_mode.schemas.json_text import (
    LENIENT,
    JsonObject,
    NoJsonError,
    Reading,
    read_value,
    shown,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = TypeVar("Value")
MIN_INSYNC_REPLICAS = "min.insync.replicas"
"""Setting of a topic: how many replicas have a record before its producer gets the answer."""

RATE_KEYS = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
"""Replication quotas in a broker's configuration, in bytes per second (KIP-73)."""
REPLICAS_KEYS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
"""Throttled replicas in a topic's configuration: `*`, or `partition:broker,...`."""


def encode(values: Mapping[str, str]) -> bytes:
    """Encode as every release does, with the keys in the order of the map.

    >>> encode({"retention.ms": "1"}).decode()
    '{"version":1,"config":{"retention.ms":"1"}}'
    """
    return write({"version": 1, "config": dict(values)})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> dict[str, str]:
    """Decode an entity's configuration; a znode without data or JSON has none.

    From 1.1 on the version is ignored, and a znode without `config` has no configuration.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.

    >>> decode("/config/topics/t", b"{no json"), decode("/config/topics/t", b'{"config":{"retention.ms":"1"}}')
    ({}, {'retention.ms': '1'})
    """
    if not (data or b"").strip():
        return {}
    try:
        value = read_value(path, data, reading)
    except NoJsonError:
        return {}
    fields = JsonObject(path, value if isinstance(value, dict) else {})
    if reading.requires_config_version:
        if not isinstance(value, dict):
            raise ZnodeError(f"contains {shown(value)}", where=path, right="a JSON object")
        if fields.integer("version") != 1:
            raise fields.wrong("version", "1")
    elif not isinstance(fields.fields.get("config"), dict):
        return {}
    return fields.text_map("config")


def in_properties_order(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values in the order in which a `java.util.Properties` lists them.

    From Java 9 on a Properties is a ConcurrentHashMap inside, made for 8 keys, which is 16 bins.

    >>> list(in_properties_order({"segment.bytes": "1", "cleanup.policy": "2", "compression.type": "3"}))
    ['compression.type', 'cleanup.policy', 'segment.bytes']
    >>> rates = {"follower.replication.throttled.rate": "1", "leader.replication.throttled.rate": "1"}
    >>> list(in_properties_order(rates))
    ['leader.replication.throttled.rate', 'follower.replication.throttled.rate']
    """
    return {key: values[key] for key in concurrent_order(values)}


def in_java_map_order(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values in the order in which a `java.util.HashMap` lists them."""
    return {key: values[key] for key in hash_map_order(values)}


def sanitize(name: str) -> str:
    """Return an entity's name as in paths: URL-encoded, with `%20` for a space and `%2A` for a star.

    >>> sanitize("c 1"), sanitize("u@1")
    ('c%201', 'u%401')
    """
    return quote(name, safe="-_.").replace("~", "%7E")


def encode_change(entity_path: str) -> bytes:
    """Encode the notification of a changed configuration as Kafka 0.10.1 and later does.

    >>> encode_change("topics/t1").decode()
    '{"version":2,"entity_path":"topics/t1"}'
    """
    return write({"version": 2, "entity_path": entity_path})


def encode_change_v1(entity_path: str) -> bytes:
    """Encode the notification as Kafka 0.9 and 0.10.0 does.

    >>> encode_change_v1("clients/c").decode()
    '{"version":1,"entity_type":"clients","entity_name":"c"}'
    """
    kind, _, name = entity_path.partition("/")
    assert name, f"{entity_path!r} is no entity"
    return write({"version": 1, "entity_type": kind, "entity_name": name})


def encode_change_of_topic(entity_path: str) -> bytes:
    """Encode the notification as Kafka 0.8.1 and 0.8.2 does: only topics have configurations.

    >>> encode_change_of_topic("topics/t1").decode()
    '"t1"'
    """
    assert entity_path.startswith("topics/"), f"{entity_path} has no configuration"
    return write(entity_path.removeprefix("topics/"))


def decode_change(path: str, data: bytes | None, reading: Reading = LENIENT) -> str:
    """Decode the entity of a notification of any version, as a path below `/config`.

    Raises:
        NoJsonError: the data are not JSON; Kafka ignores them.
        ZnodeError: the data are invalid; names path, field and reason.
    """
    if not reading.has_endpoints:  # 0.8 removes the quotes unchecked (TopicConfigManager)
        text = (data or b"").decode(errors="replace")
        name = text[1:-1]
        if not name or "/" in name or "\x00" in name:
            raise NoJsonError(f"contains {shown(text)}", where=path, right="the name of a topic in quotes")
        return f"topics/{name}"
    value = read_value(path, data, reading)
    if isinstance(value, str):
        return f"topics/{value}"
    if not isinstance(value, dict):
        raise ZnodeError(f"contains {shown(value)}", where=path, right="a JSON object or the name of a topic")
    fields = JsonObject(path, value)
    match fields.integer("version"):
        case 1:
            return f"{fields.text('entity_type')}/{fields.text('entity_name')}"
        case 2:
            if "/" not in (entity_path := fields.text("entity_path")):
                raise fields.wrong("entity_path", "an entity type and a name, separated by a slash")
            return entity_path
    raise fields.wrong("version", "1 or 2")
