"""Decoders of znodes that simzk does not read: a KRaft controller's, and notifications of prefixed ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.jvm.scala_collections import immutable_order
from simzk.kafka.metadata.entities import PATTERNS, AclResource
from simzk.kafka.zookeeper_mode.schemas.acl import KINDS, VERSION
from simzk.kafka.zookeeper_mode.schemas.json_text import LENIENT, Reading, read_object, write

if TYPE_CHECKING:
    from simzk.jvm.scala_collections import Scala


class Migration(NamedTuple):
    """Progress of a migration: the KRaft controller, its epochs, and the last migrated offset."""

    controller_id: int
    controller_epoch: int
    metadata_epoch: int
    metadata_offset: int


def encode_migration(migration: Migration, scala: Scala) -> bytes:
    """Encode as the KRaft controller of 3.4 and later does.

    >>> encode_migration(Migration(1, 2, 3, 4), "2.13").decode()[:67]
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


def decode_migration(path: str, data: bytes | None, reading: Reading = LENIENT) -> Migration:
    """Decode the progress of the migration.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
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


class ControllerRegistration(NamedTuple):
    """Content of `/controller`.

    Args:
        broker: id of the controller.
        kraft_epoch: epoch of a KRaft controller during the migration; -1 for a broker; None: written by a
            release before 3.4.
    """

    broker: int
    kraft_epoch: int | None = None


def decode_registration(path: str, data: bytes | None, reading: Reading = LENIENT) -> ControllerRegistration:
    """Decode the registration as Kafka 3.4 and later does.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
    """
    fields = read_object(path, data, reading)
    epoch = fields.integer("kraftControllerEpoch") if "kraftControllerEpoch" in fields.fields else None
    return ControllerRegistration(fields.integer("brokerid"), epoch)


def decode_extended_change(path: str, data: bytes | None, reading: Reading = LENIENT) -> AclResource:
    """Decode the resource of such a notification.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
    """
    fields = read_object(path, data, reading)
    for field in fields.fields:
        if field not in ("version", "resourceType", "name", "patternType"):
            raise fields.wrong(field, "only version, resourceType, name and patternType")
    if fields.integer("version", 0) > VERSION:
        raise fields.wrong("version", f"{VERSION} or less")
    kind, name, pattern = fields.text("resourceType"), fields.text("name"), fields.text("patternType")
    if pattern.upper() not in PATTERNS:
        raise fields.wrong("patternType", ", ".join(PATTERNS))
    if not name or (reading.rejects_unknown_acls and kind.lower() not in KINDS):
        raise fields.wrong("name" if not name else "resourceType", "a resource")
    return AclResource(kind, name, pattern)
