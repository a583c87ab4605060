"""Znodes of the cluster as a whole: its id, its blocks of producer ids (docs/reference/kafka.md §1.3)."""

from __future__ import annotations

from typing import NamedTuple

from simzk.jvm.numbers import parse_long
from simzk.kafka.schemas.json_text import read_object, write
from simzk.kafka.schemas.reading import LENIENT, Reading

PRODUCER_ID_BLOCK_SIZE = 1000


class ProducerIdBlock(NamedTuple):
    """The last block of producer ids that was given out: to whom, from where to where (both included)."""

    broker: int
    start: int
    end: int


def encode_cluster_id(cluster_id: str) -> bytes:
    """What 0.10.1 and later write; the version is a string.

    >>> encode_cluster_id("abc").decode()
    '{"version":"1","id":"abc"}'
    """
    return write({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes | None, reading: Reading = LENIENT) -> str:
    """Read the cluster's id.

    Raises:
        ZnodeError: it cannot be used; path, field and why.
    """
    return read_object(path, data, reading).text("id")


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    """What 0.11 and later write; the numbers of the block are strings.

    >>> encode_producer_ids(ProducerIdBlock(3, 0, 999)).decode()
    '{"version":1,"broker":3,"block_start":"0","block_end":"999"}'
    """
    return write({"version": 1, "broker": block.broker, "block_start": str(block.start), "block_end": str(block.end)})


def decode_producer_ids(path: str, data: bytes | None, reading: Reading = LENIENT) -> ProducerIdBlock | None:
    """Read the last block; None where the znode has no data, which says that none was given out.

    Raises:
        ZnodeError: it cannot be used; path, field and why.
    """
    if data is None:
        return None
    fields = read_object(path, data, reading)
    bounds = []
    for name in ("block_start", "block_end"):
        bound = parse_long(fields.text(name))
        if bound is None:
            raise fields.wrong(name, "a decimal number of 64 bits as text")
        bounds.append(bound)
    return ProducerIdBlock(fields.integer("broker"), bounds[0], bounds[1])
