"""Finalized features of the cluster in `/feature` (docs/reference/kafka.md §1.3; KIP-584, FeatureZNode).

Rules of the module:
  - 2.7 to 3.2 write version 1, with the lowest and the highest level of each feature; 3.3 and later write version 2
    with the highest level only, and at an inter-broker protocol before 3.3 version 1 with the highest level twice;
  - a reader of 2.7 to 3.2 accepts any version from 1 on, a reader of 3.3 and later only 1 and 2;
  - no release has features in ZooKeeper mode: features in the znode were written by others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.zookeeper_mode.schemas.config import in_java_map_order
from simzk.kafka.zookeeper_mode.schemas.json_text import LENIENT, JsonObject, Reading, read_object, write

if TYPE_CHECKING:
    from collections.abc import Mapping

DISABLED, ENABLED = 0, 1
MAX_LEVEL: Final = 2**15 - 1


class Levels(NamedTuple):
    """Finalized levels of a feature; `lowest` is None if the znode does not contain it."""

    highest: int
    lowest: int | None = None


class FeatureZnode(NamedTuple):
    """Content of `/feature`.

    Args:
        status: `DISABLED` or `ENABLED`.
        features: levels by feature.
        version: version of the schema.
    """

    status: int
    features: dict[str, Levels]
    version: int


def encode_v1(status: int = ENABLED, features: Mapping[str, Levels] | None = None) -> bytes:
    """Encode as Kafka 2.7 to 3.2 does.

    >>> encode_v1().decode()
    '{"features":{},"version":1,"status":1}'
    """
    levels = {
        name: {"min_version_level": found.lowest or found.highest, "max_version_level": found.highest}
        for name, found in (features or {}).items()
    }
    return write({"features": in_java_map_order(levels), "version": 1, "status": status})


def encode_v1_of_3_3(status: int = ENABLED, features: Mapping[str, Levels] | None = None) -> bytes:
    """Encode as Kafka 3.3 and later does at an inter-broker protocol before 3.3.

    >>> encode_v1_of_3_3(ENABLED, {"f": Levels(3)}).decode()
    '{"features":{"f":{"max_version_level":3,"min_version_level":3}},"version":1,"status":1}'
    """
    highest = {name: found.highest for name, found in (features or {}).items()}
    levels = {name: {"max_version_level": level, "min_version_level": level} for name, level in highest.items()}
    return write({"features": levels, "version": 1, "status": status})


def encode_v2(status: int = ENABLED, features: Mapping[str, Levels] | None = None) -> bytes:
    """Encode as Kafka 3.3 and later does.

    >>> encode_v2(ENABLED, {"f": Levels(3)}).decode()
    '{"features":{"f":{"max_version_level":3}},"version":2,"status":1}'
    """
    levels = {name: {"max_version_level": found.highest} for name, found in (features or {}).items()}
    return write({"features": levels, "version": 2, "status": status})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> FeatureZnode:
    """Decode `/feature`.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.

    >>> decode("/feature", encode_v2(DISABLED))
    FeatureZnode(status=0, features={}, version=2)
    """
    fields = read_object(path, data, reading)
    version = fields.integer("version")
    if version < 1 or (version > 2 and reading.accepts_forms_of_3_3):
        raise fields.wrong("version", "1 or 2" if reading.accepts_forms_of_3_3 else "1 or more")
    status = fields.integer("status")
    if status not in (DISABLED, ENABLED):
        raise fields.wrong("status", f"{DISABLED} or {ENABLED}")
    found = {}
    if fields.fields.get("features") is None:
        raise fields.wrong("features", "an object from feature to its levels")
    for name, levels in fields.object("features").items():
        if not isinstance(levels, dict):
            raise fields.wrong(f"features.{name}", "an object of levels")
        needs_lowest = version == 1 or not reading.accepts_forms_of_3_3
        found[name] = _levels(JsonObject(path, levels, f"features.{name}."), needs_lowest=needs_lowest)
    return FeatureZnode(status, found, version)


def _levels(fields: JsonObject, *, needs_lowest: bool) -> Levels:
    for name in fields.fields:
        fields.integer(name)
    highest = fields.integer("max_version_level")
    lowest = fields.integer("min_version_level") if needs_lowest else None
    if not (lowest or 1) <= highest <= MAX_LEVEL or (lowest is not None and lowest < 1):
        raise fields.wrong("max_version_level", f"the lowest level, 1 or more, up to {MAX_LEVEL}")
    return Levels(highest, lowest)
