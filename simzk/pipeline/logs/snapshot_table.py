"""Table `zookeeper_snapshot`: the znodes of a snapshot as rows.

A server rejects a damaged snapshot as a whole. Here a row with the reason follows the rows that could be decoded.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from simzk.pipeline.spark.columns import acl_type, acl_value
from simzk.zookeeper.persistence import SnapshotReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from simzk.zookeeper.persistence import Readable

Row = tuple[object, ...]


@cache
def snapshot_schema() -> pa.Schema:
    """Return the Arrow schema of `zookeeper_snapshot`; docs/pipeline.md documents the columns."""
    import pyarrow as pa

    time = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            ("file", pa.string()),
            ("path", pa.string()),
            ("data", pa.binary()),
            ("acl", acl_type()),
            ("czxid", pa.int64()),
            ("mzxid", pa.int64()),
            ("pzxid", pa.int64()),
            ("ctime", time),
            ("mtime", time),
            ("version", pa.int32()),
            ("cversion", pa.int32()),
            ("aversion", pa.int32()),
            ("ephemeral_owner", pa.int64()),
            ("damage", pa.string()),
        ]
    )


def snapshot_rows(file: str, stream: Readable) -> Iterator[Row]:
    """Yield the rows of a snapshot.

    Args:
        file: name of the snapshot in the rows.
        stream: the snapshot, decompressed.
    """
    reader = SnapshotReader(stream)
    for path, node in reader:
        yield (
            file,
            path,
            node.data,
            acl_value(node.acl),
            node.czxid,
            node.mzxid,
            node.pzxid,
            node.ctime_ms * 1000,
            node.mtime_ms * 1000,
            node.version,
            node.cversion,
            node.aversion,
            node.ephemeral_owner,
            None,
        )
    if reader.damage is not None:
        yield unread_snapshot(file, str(reader.damage))


def unread_snapshot(file: str, why: str) -> Row:
    """Return the row of a damaged snapshot."""
    return (file, *(None,) * 12, why)
