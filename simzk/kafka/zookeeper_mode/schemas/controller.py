"""Controller and its epoch in `/controller` and `/controller_epoch` (docs/reference/kafka.md §1.7)."""

from __future__ import annotations

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_int
from simzk.kafka.zookeeper_mode.schemas.json_text import LENIENT, Reading, read_object, shown, write, write_spaced

NO_KRAFT_EPOCH = -1
"""Epoch in the registration of a broker, which is no KRaft controller."""


def encode_v1(broker_id: int, timestamp_ms: int) -> bytes:
    """Encode as Kafka 0.8.1 to 3.3 does.

    >>> encode_v1(1, 5).decode()
    '{"version":1,"brokerid":1,"timestamp":"5"}'
    """
    return write({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def encode_v2(broker_id: int, timestamp_ms: int, kraft_epoch: int = NO_KRAFT_EPOCH) -> bytes:
    """Encode as Kafka 3.4 and later does, for brokers and for KRaft controllers with their epoch.

    >>> encode_v2(1, 5).decode()
    '{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}'
    """
    fields = {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms)}
    return write(fields | {"kraftControllerEpoch": kraft_epoch})


def encode_v1_spaced(broker_id: int, timestamp_ms: int) -> bytes:
    """Encode as Kafka 0.8.0 does.

    >>> encode_v1_spaced(1, 5).decode()
    '{ "brokerid":1, "timestamp":"5", "version":1 }'
    """
    return write_spaced({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> int:
    """Decode the controller's id; up to 1.0 a bare number is accepted too, as 0.8.0-beta wrote it.

    Raises:
        NoJsonError: the data are not JSON; Kafka 1.1 and later ignores them.
        ZnodeError: the data are invalid; names path, field and reason.

    >>> decode("/controller", b"3")
    3
    """
    if not reading.accepts_old_forms:
        return read_object(path, data, reading).integer("brokerid")
    try:
        return read_object(path, data, reading).integer("brokerid")
    except ZnodeError as error:
        if (bare := parse_int((data or b"").decode(errors="replace"))) is None:
            raise ZnodeError(error.what, where=path, right=f"{error.right}, or a bare number") from None
        return bare


def encode_epoch(epoch: int) -> bytes:
    """Encode the epoch as every release does."""
    return str(epoch).encode()


def decode_epoch(path: str, data: bytes | None) -> int:
    """Decode the epoch, a 32-bit integer in Java's decimal form.

    Raises:
        ZnodeError: the data are no such number.

    >>> decode_epoch("/controller_epoch", b"2147483647")
    2147483647
    """
    text = (data or b"").decode(errors="replace")
    if (epoch := parse_int(text)) is None:
        raise ZnodeError(f"contains {shown(text)}", where=path, right="a decimal number of 32 bits")
    return epoch
