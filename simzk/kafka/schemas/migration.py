"""`/migration`: how far the metadata have gone over to KRaft (docs/reference/kafka.md §1.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.jvm.scala_collections import immutable_order
from simzk.kafka.schemas.json_text import read_object, write
from simzk.kafka.schemas.reading import LENIENT, Reading

if TYPE_CHECKING:
    from simzk.jvm.scala_collections import Scala


class Migration(NamedTuple):
    """The KRaft controller that migrates, its epochs, and the offset it has come to."""

    controller_id: int
    controller_epoch: int
    metadata_epoch: int
    metadata_offset: int


def encode(migration: Migration, scala: Scala) -> bytes:
    """What the KRaft controller of 3.4 and later writes.

    >>> encode(Migration(1, 2, 3, 4), "2.13").decode()[:67]
    '{"version":0,"kraft_metadata_offset":4,"kraft_controller_id":1,"kra'
    """
    fields: dict[str, object] = {
        "version": 0,
        "kraft_controller_id": migration.controller_id,
        "kraft_controller_epoch": migration.controller_epoch,
        "kraft_metadata_epoch": migration.metadata_epoch,
        "kraft_metadata_offset": migration.metadata_offset,
    }
    return write({field: fields[field] for field in immutable_order(fields, scala)})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> Migration:
    """Read how far it has come.

    Raises:
        ZnodeError: it cannot be used; path, field and why.
    """
    fields = read_object(path, data, reading)
    if fields.integer("version") != 0:
        raise fields.wrong("version", "0")
    return Migration(
        fields.integer("kraft_controller_id"),
        fields.integer("kraft_controller_epoch"),
        fields.integer("kraft_metadata_epoch"),
        fields.long("kraft_metadata_offset"),
    )
