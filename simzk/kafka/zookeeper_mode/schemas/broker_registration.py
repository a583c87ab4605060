"""Brokers in `/brokers/ids/N`, and their notifications of failed log directories in
`/log_dir_event_notification/log_dir_event_N` (docs/reference/kafka.md §1.3, §1.4, §2.13).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from simzk.jvm.numbers import parse_int, parse_long
from simzk.jvm.scala_collections import Scala, immutable_order
from simzk.kafka.zookeeper_mode.schemas.config import in_java_map_order
from simzk.kafka.zookeeper_mode.schemas.json_text import (
    LENIENT,
    JsonObject,
    Reading,
    is_int,
    read_object,
    write,
    write_spaced,
)

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_FEATURE_VERSION: Final = 2**15 - 1
_ENDPOINT: Final = re.compile(r"(.*)://\[?[0-9a-zA-Z\-%._:]*\]?:(-?[0-9]+)")


class SupportedFeature(NamedTuple):
    """Feature that a broker supports, with its versions (KIP-584)."""

    name: str
    lowest: int
    highest: int


class BrokerRegistration(NamedTuple):
    """Content of a broker's registration.

    `host` and `port` are its first plaintext endpoint, empty and -1 without one.
    """

    host: str
    port: int
    rack: str | None = None
    endpoints: tuple[str, ...] = ()
    protocols: tuple[tuple[str, str], ...] = (("PLAINTEXT", "PLAINTEXT"),)
    jmx_port: int = -1
    timestamp_ms: int = 0
    features: tuple[SupportedFeature, ...] = ()


_ORDER_UNTIL_0_10_1: Final = ("jmx_port", "timestamp", "endpoints", "host", "version", "port", "rack")
_ORDER_OF_2_12: Final = (
    *("listener_security_protocol_map", "endpoints", "rack", "jmx_port", "host", "timestamp", "port", "version"),
)
_ORDER_OF_2_13: Final = (
    *("features", "listener_security_protocol_map", "endpoints", "rack", "jmx_port", "port", "host", "version"),
    "timestamp",
)
"""Order of the fields in the Scala maps of a release."""


def encode_v1_spaced(registration: BrokerRegistration) -> bytes:
    """Encode as Kafka 0.8.0 does.

    >>> encode_v1_spaced(BrokerRegistration("h", 1, timestamp_ms=7)).decode()
    '{ "host":"h", "jmx_port":-1, "port":1, "timestamp":"7", "version":1 }'
    """
    return write_spaced(_fields(registration, 1, "2.12"))


def encode_v1(registration: BrokerRegistration) -> bytes:
    """Encode as Kafka 0.8.1 and 0.8.2 does.

    >>> encode_v1(BrokerRegistration("h", 1, timestamp_ms=7)).decode()
    '{"jmx_port":-1,"timestamp":"7","host":"h","version":1,"port":1}'
    """
    return _encode(registration, 1, _ORDER_UNTIL_0_10_1)


def encode_v2(registration: BrokerRegistration) -> bytes:
    """Encode as Kafka 0.9 does.

    >>> encode_v2(BrokerRegistration("h", 1, None, ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()
    '{"jmx_port":-1,"timestamp":"7","endpoints":["PLAINTEXT://h:1"],"host":"h","version":2,"port":1}'
    """
    return _encode(registration, 2, _ORDER_UNTIL_0_10_1)


def encode_v3(registration: BrokerRegistration) -> bytes:
    """Encode as Kafka 0.10.0 and 0.10.1 does.

    >>> encode_v3(BrokerRegistration("h", 1, "r", ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()[-44:]
    ',"host":"h","version":3,"port":1,"rack":"r"}'
    """
    return _encode(registration, 3, _ORDER_UNTIL_0_10_1)


def encode_v4_of_2_12(registration: BrokerRegistration) -> bytes:
    """Encode as Kafka 0.10.2 to 2.5, built with Scala 2.12 or older, does.

    >>> encode_v4_of_2_12(BrokerRegistration("h", 1, "r", ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()[-73:]
    '"rack":"r","jmx_port":-1,"host":"h","timestamp":"7","port":1,"version":4}'
    """
    return _encode(registration, 4, _ORDER_OF_2_12)


def encode_v2_of_2_12(registration: BrokerRegistration) -> bytes:
    """Encode as Kafka 0.10.2 to 2.5, built with Scala 2.12 or older, does at a protocol before 0.10.0-IV1.

    >>> encode_v2_of_2_12(BrokerRegistration("h", 1, "r", ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()
    '{"endpoints":["PLAINTEXT://h:1"],"jmx_port":-1,"host":"h","timestamp":"7","port":1,"version":2}'
    """
    return _encode(registration, 2, _ORDER_OF_2_12)


def encode_v2_of_2_13(registration: BrokerRegistration) -> bytes:
    """Encode like `encode_v2_of_2_12` in Kafka 2.6 and later, built with Scala 2.13.

    >>> encode_v2_of_2_13(BrokerRegistration("h", 1, "r", ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()
    '{"endpoints":["PLAINTEXT://h:1"],"jmx_port":-1,"port":1,"host":"h","version":2,"timestamp":"7"}'
    """
    return _encode(registration, 2, _ORDER_OF_2_13)


def encode_v4(registration: BrokerRegistration) -> bytes:
    """Encode as Kafka 2.6, and later at an inter-broker protocol before 2.7, built with Scala 2.13, does.

    >>> encode_v4(BrokerRegistration("h", 1, None, ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()[-62:]
    '"jmx_port":-1,"port":1,"host":"h","version":4,"timestamp":"7"}'
    """
    return _encode(registration, 4, _ORDER_OF_2_13)


def encode_v5(registration: BrokerRegistration) -> bytes:
    """Encode as Kafka 2.7 and later, built with Scala 2.13, does.

    >>> encode_v5(BrokerRegistration("h", 1, None, ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()[:60]
    '{"features":{},"listener_security_protocol_map":{"PLAINTEXT"'
    """
    return _encode(registration, 5, _ORDER_OF_2_13)


def _encode(registration: BrokerRegistration, version: int, order: tuple[str, ...]) -> bytes:
    fields = _fields(registration, version, "2.13" if order is _ORDER_OF_2_13 else "2.12")
    assert fields.keys() <= {*order}, f"version {version} has a field without a place"
    return write({field: fields[field] for field in order if field in fields})


def _fields(registration: BrokerRegistration, version: int, scala: Scala) -> dict[str, object]:
    """Return the fields of a version of the schema."""
    fields: dict[str, object] = {
        "jmx_port": registration.jmx_port,
        "timestamp": str(registration.timestamp_ms),
        "host": registration.host if version == 1 else registration.host or None,
        "version": version,
        "port": registration.port,
    }
    if version >= 2:
        fields["endpoints"] = list(registration.endpoints)
    if version >= 3 and registration.rack is not None:
        fields["rack"] = registration.rack
    if version >= 4:
        protocols = dict(registration.protocols)
        fields["listener_security_protocol_map"] = {name: protocols[name] for name in immutable_order(protocols, scala)}
    if version >= 5:
        supported = {f.name: {"min_version": f.lowest, "max_version": f.highest} for f in registration.features}
        fields["features"] = in_java_map_order(supported)
    return fields


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> BrokerRegistration:
    """Decode a registration of any version.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
    """
    fields = read_object(path, data, reading)
    version = fields.integer("version") if reading.has_endpoints else 1
    if version < 1:
        raise fields.wrong("version", "1 or more")
    host, port = fields.fields.get("host"), fields.fields.get("port")
    if version == 1:
        host, port = fields.text("host"), fields.integer("port")
    endpoints = (f"PLAINTEXT://{host}:{port}",) if version == 1 else fields.texts("endpoints")
    protocols = (("PLAINTEXT", "PLAINTEXT"),) if version == 1 else _protocols(fields, endpoints)
    timestamp, jmx_port = fields.fields.get("timestamp"), fields.fields.get("jmx_port")
    return BrokerRegistration(
        host=host if isinstance(host, str) else "",
        port=port if is_int(port) else -1,
        rack=fields.text("rack", "") or None,
        endpoints=endpoints,
        protocols=protocols,
        jmx_port=fields.integer("jmx_port") if not reading.accepts_old_forms else jmx_port if is_int(jmx_port) else -1,
        timestamp_ms=parse_long(timestamp) or 0 if isinstance(timestamp, str) else 0,
        features=_features(fields) if reading.has_broker_features else (),
    )


def _protocols(fields: JsonObject, endpoints: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the protocol of each listener; without a map the listener's name is its protocol."""
    names = []
    for endpoint in endpoints:
        match = _ENDPOINT.fullmatch(endpoint)
        if match is None or parse_int(match[2]) is None:
            raise fields.wrong("endpoints", "a list of LISTENER://host:port")
        names.append(match[1])
    mapped = {name: name for name in names}
    if "listener_security_protocol_map" in fields.fields:
        mapped = fields.text_map("listener_security_protocol_map")
    for name in (*mapped, *names):
        if mapped.get(name, "").upper() not in PROTOCOLS:
            raise fields.wrong("listener_security_protocol_map", f"one of {', '.join(PROTOCOLS)} for each listener")
    return tuple(mapped.items())


def _features(fields: JsonObject) -> tuple[SupportedFeature, ...]:
    if fields.fields.get("features") is None:
        return ()
    found = []
    for name, versions in fields.object("features").items():
        if not isinstance(versions, dict):
            raise fields.wrong(f"features.{name}", "an object of versions")
        levels = JsonObject(fields.path, versions, f"features.{name}.")
        for label in levels.fields:
            levels.integer(label)
        lowest, highest = levels.integer("min_version"), levels.integer("max_version")
        if not 0 <= lowest <= highest <= MAX_FEATURE_VERSION:
            raise levels.wrong("max_version", "min_version or more")
        found.append(SupportedFeature(name, lowest, highest))
    return tuple(found)


FAILURE = 1
"""The only kind of event."""


def encode_log_dir_failure(broker: int) -> bytes:
    """Encode as Kafka 1.0 and later does.

    >>> encode_log_dir_failure(3).decode()
    '{"version":1,"broker":3,"event":1}'
    """
    return write({"version": 1, "broker": broker, "event": FAILURE})


def decode_log_dir_failure(path: str, data: bytes | None, reading: Reading = LENIENT) -> int:
    """Decode the broker of a failed log directory; the kind of event is ignored.

    Raises:
        NoJsonError: the data are not JSON; Kafka ignores them.
        ZnodeError: the data are invalid; names path, field and reason.
    """
    return read_object(path, data, reading).integer("broker")
