"""Znodes of the cluster as a whole: its id, its features, its blocks of producer ids (docs/reference/kafka.md §1.3)."""

from __future__ import annotations

from simzk.kafka.schemas.json_text import read_object, write
from simzk.tuples import NamedTuple

PRODUCER_ID_BLOCK_SIZE = 1000
DISABLED, ENABLED = 0, 1
"""The statuses of `/feature`."""


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


def decode_cluster_id(path: str, data: bytes | None) -> str:
    """Read the cluster's id."""
    return read_object(path, data).text("id")


def encode_feature_v1(status: int = ENABLED) -> bytes:
    """What 2.7 to 3.2 write: no release had a feature of its own.

    >>> encode_feature_v1().decode()
    '{"features":{},"version":1,"status":1}'
    """
    return write({"features": {}, "version": 1, "status": status})


def encode_feature_v2(status: int = ENABLED) -> bytes:
    """What 3.3 and later write at an inter-broker protocol that has no features of its own.

    >>> encode_feature_v2().decode()
    '{"features":{},"version":2,"status":1}'
    """
    return write({"features": {}, "version": 2, "status": status})


def decode_feature(path: str, data: bytes | None) -> tuple[int, int]:
    """The version and the status of `/feature`; no release had features that a simulation would need.

    >>> decode_feature("/feature", encode_feature_v2(DISABLED))
    (2, 0)
    """
    fields = read_object(path, data)
    return fields.integer("version"), fields.integer("status")


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    """What 0.11 and later write; the numbers of the block are strings.

    >>> encode_producer_ids(ProducerIdBlock(3, 0, 999)).decode()
    '{"version":1,"broker":3,"block_start":"0","block_end":"999"}'
    """
    return write({"version": 1, "broker": block.broker, "block_start": str(block.start), "block_end": str(block.end)})


def decode_producer_ids(path: str, data: bytes | None) -> ProducerIdBlock | None:
    """Read the last block; None where the znode has no data, which says that none was given out."""
    if not data:
        return None
    fields = read_object(path, data)
    bounds = [fields.text("block_start"), fields.text("block_end")]
    for name, bound in zip(("block_start", "block_end"), bounds, strict=True):
        if not bound.isdecimal():
            raise fields.wrong(name, "a decimal number as text")
    return ProducerIdBlock(fields.integer("broker"), int(bounds[0]), int(bounds[1]))
