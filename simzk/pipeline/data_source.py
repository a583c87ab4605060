"""Parts that all Spark data sources share: options, columns, the mode for damage, and Arrow batches of bounded size."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from simzk.documents import is_number
from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from simzk.zookeeper.requests import ACL

PERMISSIVE, DROPMALFORMED, FAILFAST = MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


def number(options: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    """Return an option as a number.

    Raises:
        ConfigError: it is no number, or too small.

    >>> number({"splitBytes": "4096"}, "splitBytes", 1), number({}, "splitBytes", 1)
    (4096, 1)
    """
    text = options.get(name, str(default))
    if not (is_number(text) and int(text) >= least):
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


def slices(count: int, tasks: int) -> Iterator[tuple[int, int]]:
    """Return the bounds of slices of nearly equal size, one per task.

    >>> list(slices(10, 3))
    [(0, 3), (3, 6), (6, 10)]
    """
    return pairwise(count * task // tasks for task in range(tasks + 1))


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


ROWS_PER_BATCH = 8192
BYTES_PER_BATCH = 8 << 20
"""A batch also ends at this size of its binary values, because a znode may have a megabyte."""


def acl_type() -> pa.DataType:
    """Return the Arrow type of a column of ACLs; `acl_value` builds its values."""
    import pyarrow as pa

    entry = pa.struct([("perms", pa.int32()), ("scheme", pa.string()), ("id", pa.string())])
    return pa.list_(pa.field("element", entry))


@cache
def acl_value(acl: tuple[ACL, ...]) -> list[dict[str, object]]:
    """Return an ACL as a value of such a column."""
    return [{"perms": entry.perms, "scheme": entry.id.scheme, "id": entry.id.id} for entry in acl]


def batches(
    rows: Iterable[tuple[object, ...]],
    schema: pa.Schema,
    rows_per_batch: int = ROWS_PER_BATCH,
    *,
    wanted: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Convert rows to batches of a schema.

    Args:
        rows: tuples with a value per field, in the schema's order.
        schema: schema of the rows.
        rows_per_batch: rows of all batches but the last; fewer if a binary column has large values.
        wanted: output columns in order; default all.

    >>> import pyarrow as pa
    >>> schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    >>> [batch.to_pylist() for batch in batches([(1, "x"), (2, "y")], schema, wanted=["b"])]
    [[{'b': 'x'}, {'b': 'y'}]]
    """
    import pyarrow as pa

    names = schema.names if wanted is None else wanted
    places = [schema.get_field_index(name) for name in names]
    fields = pa.schema([schema.field(place) for place in places])
    large = next((place for place in places if pa.types.is_binary(schema.field(place).type)), None)
    chunk: list[tuple[object, ...]] = []
    size = 0
    for row in rows:
        chunk.append(row)
        if large is not None:
            data = row[large]
            if data is not None:
                size += len(data)
        if len(chunk) == rows_per_batch or size >= BYTES_PER_BATCH:
            yield _batch(chunk, places, fields)
            chunk, size = [], 0
    if chunk:
        yield _batch(chunk, places, fields)


def _batch(rows: list[tuple[object, ...]], places: list[int], fields: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    # One column at a time: `zip` over so many rows is slower.
    arrays = [pa.array([row[place] for row in rows], field.type) for place, field in zip(places, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)
