"""`/brokers/ids/N`: how to reach a broker, where it stands, what it can do (docs/reference/kafka.md §1.4)."""

from __future__ import annotations

from simzk.errors import ZnodeError
from simzk.kafka.schemas.json_text import JsonObject, read_object, write, write_spaced
from simzk.tuples import NamedTuple


class BrokerRegistration(NamedTuple):
    """What a broker says of itself.

    `rack` is None without one; `host`, `port` are its first plaintext endpoint, empty and -1 without any.
    """

    host: str
    port: int
    rack: str | None = None
    endpoints: tuple[str, ...] = ()
    protocols: tuple[tuple[str, str], ...] = (("PLAINTEXT", "PLAINTEXT"),)
    jmx_port: int = -1
    timestamp_ms: int = 0


def encode_v1_spaced(registration: BrokerRegistration) -> bytes:
    """What Kafka 0.8.0 writes.

    >>> encode_v1_spaced(BrokerRegistration("h", 1, timestamp_ms=7)).decode()
    '{ "host":"h", "jmx_port":-1, "port":1, "timestamp":"7", "version":1 }'
    """
    return write_spaced(_of_0_8(registration))


def encode_v1(registration: BrokerRegistration) -> bytes:
    """What Kafka 0.8.1 and 0.8.2 write.

    >>> encode_v1(BrokerRegistration("h", 1, timestamp_ms=7)).decode()
    '{"jmx_port":-1,"timestamp":"7","host":"h","version":1,"port":1}'
    """
    return write(_of_0_8(registration))


def encode_v2(registration: BrokerRegistration) -> bytes:
    """What Kafka 0.9 writes.

    >>> encode_v2(BrokerRegistration("h", 1, None, ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()
    '{"jmx_port":-1,"timestamp":"7","endpoints":["PLAINTEXT://h:1"],"host":"h","version":2,"port":1}'
    """
    return write(_of_0_9(registration, 2))


def encode_v3(registration: BrokerRegistration) -> bytes:
    """What Kafka 0.10.0 and 0.10.1 write.

    >>> encode_v3(BrokerRegistration("h", 1, "r", ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()[-44:]
    ',"host":"h","version":3,"port":1,"rack":"r"}'
    """
    fields = _of_0_9(registration, 3)
    if registration.rack is not None:
        fields["rack"] = registration.rack
    return write(fields)


def _of_0_8(registration: BrokerRegistration) -> dict[str, object]:
    return {
        "jmx_port": registration.jmx_port,
        "timestamp": str(registration.timestamp_ms),
        "host": registration.host,
        "version": 1,
        "port": registration.port,
    }


def _of_0_9(registration: BrokerRegistration, version: int) -> dict[str, object]:
    return {
        "jmx_port": registration.jmx_port,
        "timestamp": str(registration.timestamp_ms),
        "endpoints": list(registration.endpoints),
        "host": registration.host or None,
        "version": version,
        "port": registration.port,
    }


def encode_v4_of_2_12(registration: BrokerRegistration) -> bytes:
    """What Kafka 0.10.2 to 2.5, built with Scala 2.12 or older, writes.

    >>> encode_v4_of_2_12(BrokerRegistration("h", 1, "r", ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()[-73:]
    '"rack":"r","jmx_port":-1,"host":"h","timestamp":"7","port":1,"version":4}'
    """
    fields: dict[str, object] = {
        "listener_security_protocol_map": dict(registration.protocols),
        "endpoints": list(registration.endpoints),
    }
    if registration.rack is not None:
        fields["rack"] = registration.rack
    fields["jmx_port"] = registration.jmx_port
    fields["host"] = registration.host or None
    fields["timestamp"] = str(registration.timestamp_ms)
    fields["port"] = registration.port
    fields["version"] = 4
    return write(fields)


def encode_v4(registration: BrokerRegistration) -> bytes:
    """What Kafka 2.6, and later at an inter-broker protocol before 2.7, built with Scala 2.13, writes.

    >>> encode_v4(BrokerRegistration("h", 1, None, ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()[-62:]
    '"jmx_port":-1,"port":1,"host":"h","version":4,"timestamp":"7"}'
    """
    return _encode_of_2_13(registration, 4)


def encode_v5(registration: BrokerRegistration) -> bytes:
    """What Kafka 2.7 and later, built with Scala 2.13, writes.

    >>> encode_v5(BrokerRegistration("h", 1, None, ("PLAINTEXT://h:1",), timestamp_ms=7)).decode()[:60]
    '{"features":{},"listener_security_protocol_map":{"PLAINTEXT"'
    """
    return _encode_of_2_13(registration, 5)


def _encode_of_2_13(registration: BrokerRegistration, version: int) -> bytes:
    fields: dict[str, object] = {"features": {}} if version >= 5 else {}
    fields["listener_security_protocol_map"] = dict(registration.protocols)
    fields["endpoints"] = list(registration.endpoints)
    if registration.rack is not None:
        fields["rack"] = registration.rack
    fields["jmx_port"] = registration.jmx_port
    fields["port"] = registration.port
    fields["host"] = registration.host or None
    fields["version"] = version
    fields["timestamp"] = str(registration.timestamp_ms)
    return write(fields)


def decode(path: str, data: bytes | None) -> BrokerRegistration:
    """Read a registration of any version.

    Raises:
        ZnodeError: it cannot be used; path, field and why.
    """
    fields = read_object(path, data)
    version = fields.integer("version")
    if version < 1:
        raise fields.wrong("version", "1 or more")
    host, port = fields.text("host", ""), fields.integer("port", -1)
    endpoints: tuple[str, ...] = (f"PLAINTEXT://{host}:{port}",)
    protocols: tuple[tuple[str, str], ...] = (("PLAINTEXT", "PLAINTEXT"),)
    if version >= 2:
        endpoints = fields.texts("endpoints")
        protocols = _protocols(fields, endpoints)
    return BrokerRegistration(
        host=host,
        port=port,
        rack=fields.text("rack", "") or None,
        endpoints=endpoints,
        protocols=protocols,
        jmx_port=fields.integer("jmx_port", -1),
        timestamp_ms=_timestamp(fields),
    )


def _protocols(fields: JsonObject, endpoints: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Without a map the name of a listener is its protocol."""
    if "listener_security_protocol_map" in fields.fields:
        return tuple(fields.text_map("listener_security_protocol_map").items())
    names = [endpoint.partition("://")[0] for endpoint in endpoints]
    return tuple((name, name) for name in names)


def _timestamp(fields: JsonObject) -> int:
    text = fields.text("timestamp", "0")
    if not text.lstrip("-").isdigit():
        raise ZnodeError(f"field timestamp is {text!r}", where=fields.path, right="milliseconds as text")
    return int(text)
