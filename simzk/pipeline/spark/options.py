"""Options that all data sources share: numbers, columns, and the mode for damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

PERMISSIVE, DROPMALFORMED, FAILFAST = MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


def number(options: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    """Return an option as a number.

    Raises:
        ConfigError: it is no number, or too small.

    >>> number({"splitBytes": "4096"}, "splitBytes", 1), number({}, "splitBytes", 1)
    (4096, 1)
    """
    text = options.get(name, str(default))
    if not (text.isdecimal() and text.isascii() and int(text) >= least):
        raise ConfigError(f"{text!r} is invalid", where=name, right=f"{least} or more")
    return int(text)


def mode_of(options: Mapping[str, str]) -> str:
    """Return the option `mode`: the treatment of damage.

    Raises:
        ConfigError: the mode is unknown.
    """
    mode = options.get("mode", PERMISSIVE).upper()
    if mode not in MODES:
        raise ConfigError(f"unknown mode {mode}", where="mode", right=", ".join(MODES))
    return mode


def columns_of(schema: StructType, whole: pa.Schema) -> list[str]:
    """Return the columns of a reader's schema: a subset of the source's columns, in any order.

    Raises:
        ConfigError: a column is unknown or has another type.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    known = {field.name: field.dataType for field in from_arrow_schema(whole)}
    for field in schema:
        if field.name not in known:
            raise ConfigError(f"there is no column {field.name}", where="schema", right=", ".join(known))
        if field.dataType != known[field.name]:
            right = known[field.name].simpleString()
            raise ConfigError(f"it is no {field.dataType.simpleString()}", where=f"schema: {field.name}", right=right)
    return schema.fieldNames()


def sound(rows: Iterator[tuple[object, ...]], mode: str) -> Iterator[tuple[object, ...]]:
    """Apply the mode to rows whose last column is `damage`."""
    return rows if mode == PERMISSIVE else _sound(rows, mode)


def _sound(rows: Iterator[tuple[object, ...]], mode: str) -> Iterator[tuple[object, ...]]:
    for row in rows:
        if row[-1] is None:
            yield row
        elif mode == FAILFAST:
            raise ConfigError(str(row[-1]), where=str(row[0]), right="undamaged files, or mode PERMISSIVE")
