"""`/feature`: which features are finalised for the whole cluster (docs/reference/kafka.md §1.3; KIP-584, FeatureZNode).

Rules of the module:
  - 2.7 to 3.2 write version 1, with the lowest and the highest level of each feature; 3.3 and later write version 2,
    with the highest alone, and still version 1 at an inter-broker protocol before 3.3, the highest for the lowest;
  - a reader of 2.7 to 3.2 takes any version from 1 on, one of 3.3 and later 1 and 2 alone;
  - no release has a feature of its own in ZooKeeper mode: what stands there somebody else has put there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.schemas.config import in_java_map_order
from simzk.kafka.schemas.json_text import LENIENT, JsonObject, Reading, read_object, write

if TYPE_CHECKING:
    from collections.abc import Mapping

DISABLED, ENABLED = 0, 1
MAX_LEVEL: Final = 2**15 - 1


class Levels(NamedTuple):
    """The levels of a feature that the cluster uses; `lowest` is None where the znode does not tell."""

    highest: int
    lowest: int | None = None


class FeatureZnode(NamedTuple):
    """What `/feature` holds.

    Args:
        status: `DISABLED` or `ENABLED`.
        features: the levels of each.
        version: of the schema.
    """

    status: int
    features: dict[str, Levels]
    version: int


def encode_v1(status: int = ENABLED, features: Mapping[str, Levels] | None = None) -> bytes:
    """What 2.7 to 3.2 write.

    >>> encode_v1().decode()
    '{"features":{},"version":1,"status":1}'
    """
    levels = {
        name: {"min_version_level": found.lowest or found.highest, "max_version_level": found.highest}
        for name, found in (features or {}).items()
    }
    return write({"features": in_java_map_order(levels), "version": 1, "status": status})


def encode_v1_of_3_3(status: int = ENABLED, features: Mapping[str, Levels] | None = None) -> bytes:
    """What 3.3 and later write at an inter-broker protocol before 3.3.

    >>> encode_v1_of_3_3(ENABLED, {"f": Levels(3)}).decode()
    '{"features":{"f":{"max_version_level":3,"min_version_level":3}},"version":1,"status":1}'
    """
    levels = {
        name: {"max_version_level": found.highest, "min_version_level": found.highest}
        for name, found in (features or {}).items()
    }
    return write({"features": levels, "version": 1, "status": status})


def encode_v2(status: int = ENABLED, features: Mapping[str, Levels] | None = None) -> bytes:
    """What 3.3 and later write.

    >>> encode_v2(ENABLED, {"f": Levels(3)}).decode()
    '{"features":{"f":{"max_version_level":3}},"version":2,"status":1}'
    """
    levels = {name: {"max_version_level": found.highest} for name, found in (features or {}).items()}
    return write({"features": levels, "version": 2, "status": status})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> FeatureZnode:
    """Read `/feature`.

    Raises:
        ZnodeError: it cannot be used; path, field and why.

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
