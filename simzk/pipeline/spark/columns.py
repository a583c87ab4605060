"""Rows to Arrow batches: a row at a time is appended, column by column, and a batch goes when it is full."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from simzk.zookeeper.requests import ACL

ROWS_PER_BATCH = 8192
BYTES_PER_BATCH = 8 << 20
"""A batch is whole, too, where its values of bytes are so many: znodes may have a megabyte each."""


def acl_type() -> pa.DataType:
    """The type of a column of ACLs; `acl_value` gives what stands in it."""
    import pyarrow as pa

    entry = pa.struct([("perms", pa.int32()), ("scheme", pa.string()), ("id", pa.string())])
    return pa.list_(pa.field("element", entry))


@cache
def acl_value(acl: tuple[ACL, ...]) -> list[dict[str, object]]:
    """An ACL as such a column has it."""
    return [{"perms": entry.perms, "scheme": entry.id.scheme, "id": entry.id.id} for entry in acl]


def batches(
    rows: Iterable[tuple[object, ...]],
    schema: pa.Schema,
    rows_per_batch: int = ROWS_PER_BATCH,
    *,
    wanted: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows as batches of a schema.

    Args:
        rows: each with a value for every field, in the schema's order.
        schema: of the rows.
        rows_per_batch: in all batches but the last; fewer where a column of bytes is full of large values.
        wanted: the columns that come out, and in which order; all where it is not given.

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

    # Column by column: `zip` over so many rows would take them all apart at once, which is slower.
    arrays = [pa.array([row[place] for row in rows], field.type) for place, field in zip(places, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)
