"""`/controller` and `/controller_epoch`: who the controller is, and of which epoch (docs/reference/kafka.md §1.7)."""

from __future__ import annotations

from simzk.errors import ZnodeError
from simzk.kafka.schemas.json_text import JsonObject, read_value, write, write_spaced


def encode_v1(broker_id: int, timestamp_ms: int) -> bytes:
    """What Kafka 0.8.1 to 3.3 writes.

    >>> encode_v1(1, 5).decode()
    '{"version":1,"brokerid":1,"timestamp":"5"}'
    """
    return write({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def encode_v2(broker_id: int, timestamp_ms: int) -> bytes:
    """What Kafka 3.4 and later writes.

    >>> encode_v2(1, 5).decode()
    '{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}'
    """
    return write({"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1})


def encode_v1_spaced(broker_id: int, timestamp_ms: int) -> bytes:
    """What Kafka 0.8.0 writes.

    >>> encode_v1_spaced(1, 5).decode()
    '{ "brokerid":1, "timestamp":"5", "version":1 }'
    """
    return write_spaced({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def decode(path: str, data: bytes | None) -> int:
    """The id of the broker that is controller; a bare number, as in 0.8.0-beta, is one too.

    Raises:
        ZnodeError: neither.
    """
    value = read_value(path, data)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise ZnodeError(f"holds {value!r}", where=path, right="a JSON object with brokerid")
    return JsonObject(path, value).integer("brokerid")


def encode_epoch(epoch: int) -> bytes:
    """The epoch, as every version writes it."""
    return str(epoch).encode()


def decode_epoch(path: str, data: bytes | None) -> int:
    """The epoch.

    Raises:
        ZnodeError: not a decimal number.
    """
    text = (data or b"").decode(errors="replace")
    if not text.isdecimal():
        raise ZnodeError(f"holds {text!r}", where=path, right="a decimal number")
    return int(text)
