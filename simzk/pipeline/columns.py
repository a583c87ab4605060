"""Rows to Arrow batches: a row at a time is appended, column by column, and a batch goes when it is full."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from simzk.zookeeper.requests import ACL

ROWS_PER_BATCH = 8192


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
    rows: Iterable[tuple[object, ...]], schema: pa.Schema, rows_per_batch: int = ROWS_PER_BATCH
) -> Iterator[pa.RecordBatch]:
    """Rows as batches of a schema.

    Args:
        rows: each with a value for every field, in the schema's order.
        schema: of what comes out.
        rows_per_batch: in all batches but the last.

    >>> import pyarrow as pa
    >>> [batch.to_pylist() for batch in batches([(1,), (2,)], pa.schema([("a", pa.int32())]))]
    [[{'a': 1}, {'a': 2}]]
    """
    chunk: list[tuple[object, ...]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == rows_per_batch:
            yield _batch(chunk, schema)
            chunk = []
    if chunk:
        yield _batch(chunk, schema)


def _batch(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
