"""Cluster-wide znodes and UUIDs: cluster id, producer id blocks (docs/reference/kafka.md §1.3)."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from simzk.jvm.numbers import parse_long
from simzk.kafka.zookeeper_mode.schemas.json_text import LENIENT, Reading, read_object, write

PRODUCER_ID_BLOCK_SIZE = 1000


class ProducerIdBlock(NamedTuple):
    """Last allocated block of producer ids: its broker, first id and last id."""

    broker: int
    start: int
    end: int


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode as Kafka 0.10.1 and later does: the version is a string.

    >>> encode_cluster_id("abc").decode()
    '{"version":"1","id":"abc"}'
    """
    return write({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes | None, reading: Reading = LENIENT) -> str:
    """Decode the cluster id.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
    """
    return read_object(path, data, reading).text("id")


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    """Encode as Kafka 0.11 and later does: the numbers of the block are strings.

    >>> encode_producer_ids(ProducerIdBlock(3, 0, 999)).decode()
    '{"version":1,"broker":3,"block_start":"0","block_end":"999"}'
    """
    return write({"version": 1, "broker": block.broker, "block_start": str(block.start), "block_end": str(block.end)})


def decode_producer_ids(path: str, data: bytes | None, reading: Reading = LENIENT) -> ProducerIdBlock | None:
    """Decode the last block; None: the znode has no data, and no block was allocated.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
    """
    if data is None:
        return None
    fields = read_object(path, data, reading)
    bounds = []
    for name in ("block_start", "block_end"):
        if (bound := parse_long(fields.text(name))) is None:
            raise fields.wrong(name, "a decimal number of 64 bits as text")
        bounds.append(bound)
    return ProducerIdBlock(fields.integer("broker"), bounds[0], bounds[1])


UUID_BITS = 128
TEXT_LENGTH = 22


def uuid_text(bits: int) -> str:
    """Return a random UUID (version 4) from 128 random bits: 22 characters of URL-safe base64.

    >>> uuid_text(0)
    'AAAAAAAAQACAAAAAAAAAAA'
    """
    bits &= (1 << UUID_BITS) - 1
    bits = bits & ~(0xF << 76) | 4 << 76
    bits = bits & ~(0x3 << 62) | 2 << 62
    return base64.urlsafe_b64encode(bits.to_bytes(UUID_BITS // 8, "big")).decode().rstrip("=")


def canonical_uuid(text: str) -> str | None:
    """Return a UUID's text in Kafka's form; None: it is no UUID (Uuid.fromString).

    >>> canonical_uuid("AAAAAAAAQACAAAAAAAAAAA=="), canonical_uuid("x")
    ('AAAAAAAAQACAAAAAAAAAAA', None)
    """
    bare = text.removesuffix("==")
    if len(text) > TEXT_LENGTH + 2 or len(bare) != TEXT_LENGTH or not bare.isascii() or set("+/") & set(bare):
        return None
    try:
        bits = base64.b64decode(bare + "==", altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return base64.urlsafe_b64encode(bits).decode().rstrip("=")
