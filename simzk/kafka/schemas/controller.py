"""`/controller` and `/controller_epoch`: who the controller is, and of which epoch (docs/reference/kafka.md §1.7)."""

from __future__ import annotations

from typing import NamedTuple

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_int
from simzk.kafka.schemas.json_text import LENIENT, Reading, read_object, shown, write, write_spaced

NO_KRAFT_EPOCH = -1
"""What a broker writes for the epoch of a KRaft controller, which it is not."""


class ControllerRegistration(NamedTuple):
    """Who the controller is.

    Args:
        broker: its id.
        kraft_epoch: the epoch of a KRaft controller that has taken over, `NO_KRAFT_EPOCH` of a broker; None where the
            release that wrote it knew nothing of KRaft (before 3.4).
    """

    broker: int
    kraft_epoch: int | None = None


def encode_v1(broker_id: int, timestamp_ms: int) -> bytes:
    """What Kafka 0.8.1 to 3.3 writes.

    >>> encode_v1(1, 5).decode()
    '{"version":1,"brokerid":1,"timestamp":"5"}'
    """
    return write({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def encode_v2(broker_id: int, timestamp_ms: int, kraft_epoch: int = NO_KRAFT_EPOCH) -> bytes:
    """What Kafka 3.4 and later writes: brokers, and KRaft controllers with their epochs.

    >>> encode_v2(1, 5).decode()
    '{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}'
    """
    fields = {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms)}
    return write(fields | {"kraftControllerEpoch": kraft_epoch})


def encode_v1_spaced(broker_id: int, timestamp_ms: int) -> bytes:
    """What Kafka 0.8.0 writes.

    >>> encode_v1_spaced(1, 5).decode()
    '{ "brokerid":1, "timestamp":"5", "version":1 }'
    """
    return write_spaced({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> int:
    """The id of the broker that is controller; up to 1.0 a bare number, as in 0.8.0-beta, is one too.

    Raises:
        NoJsonError: it is no JSON, of which the real one takes no notice (1.1 and later).
        ZnodeError: it cannot be used; path, field and why.

    >>> decode("/controller", b"3")
    3
    """
    if not reading.accepts_old_forms:
        return read_object(path, data, reading).integer("brokerid")
    try:
        return read_object(path, data, reading).integer("brokerid")
    except ZnodeError as error:
        bare = parse_int((data or b"").decode(errors="replace"))
        if bare is None:
            raise ZnodeError(error.what, where=path, right=f"{error.right}, or a bare number") from None
        return bare


def decode_registration(path: str, data: bytes | None, reading: Reading = LENIENT) -> ControllerRegistration:
    """Who the controller is, and whether it is one of KRaft: what 3.4 and later read.

    Raises:
        ZnodeError: it cannot be used; path, field and why.

    >>> decode_registration("/controller", encode_v2(3000, 5, 7))
    ControllerRegistration(broker=3000, kraft_epoch=7)
    """
    fields = read_object(path, data, reading)
    epoch = fields.integer("kraftControllerEpoch") if "kraftControllerEpoch" in fields.fields else None
    return ControllerRegistration(fields.integer("brokerid"), epoch)


def encode_epoch(epoch: int) -> bytes:
    """The epoch, as every version writes it."""
    return str(epoch).encode()


def decode_epoch(path: str, data: bytes | None) -> int:
    """The epoch, a number of 32 bits as Java reads it.

    Raises:
        ZnodeError: no such number.

    >>> decode_epoch("/controller_epoch", b"2147483647")
    2147483647
    """
    text = (data or b"").decode(errors="replace")
    epoch = parse_int(text)
    if epoch is None:
        raise ZnodeError(f"holds {shown(text)}", where=path, right="a decimal number of 32 bits")
    return epoch
