"""Conversion of rows to Arrow batches of bounded size."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from simzk.zookeeper.requests import ACL

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
