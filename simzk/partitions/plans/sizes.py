"""Files with the sizes of partitions.

Two formats are read, by file name ending:
- `.parquet`: one row per partition: `topic` string, `partition` int, `size_bytes` int, of one replica;
- `.json`: the output of `kafka-log-dirs --describe`. The largest replica of a partition counts; replicas that are
  being moved to another directory (`isFuture`) do not.

Partitions that the layout does not have are ignored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import NONE
from simzk.partitions.layouts.files import parquet_table, require_pyarrow
from simzk.partitions.plans.plan import find_rows
from simzk.partitions.table import Partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from simzk.partitions.layouts.layout import Layout

    Sizes = tuple[Partitions, NDArray[np.int64]]

UNKNOWN = -1
"""Size of a partition that is not in the file."""

_LOG_DIRS = "the output of kafka-log-dirs --describe"


def read_sizes(path: str | Path, layout: Layout) -> NDArray[np.int64]:
    """Return the bytes of a replica of each partition of a layout, `UNKNOWN` if not in the file; int64[n].

    Args:
        path: a file that ends in `.parquet` or `.json`.
        layout: the layout.

    Raises:
        LayoutError: the file is unreadable or contains invalid sizes.
        ConfigError: pyarrow is not installed.
    """
    source = Path(path)
    read = {".parquet": _read_parquet, ".json": _read_log_dirs}.get(source.suffix)
    if read is None:
        raise LayoutError(
            f"unknown format {source.suffix!r} of a file of sizes", where=str(source), right=".parquet or .json"
        )
    if not source.exists():
        raise LayoutError("there is no such file", where=str(source))
    partitions, size_bytes = read(source)
    if (size_bytes < 0).any():
        name, number = partitions.name(int(np.argmax(size_bytes < 0)))
        raise LayoutError(f"the size of {name}-{number} is negative", where=str(source), right="0 or more bytes")
    sizes = np.full(len(layout), UNKNOWN, np.int64)
    rows = find_rows(layout, partitions)
    known = rows != NONE
    np.maximum.at(sizes, rows[known], size_bytes[known])
    return sizes


def _read_parquet(path: Path) -> Sizes:
    require_pyarrow()
    import pyarrow as pa
    import pyarrow.compute as pc

    table = parquet_table(path)
    columns: dict[str, Any] = {}
    for name, kind in (("topic", pa.string()), ("partition", pa.int32()), ("size_bytes", pa.int64())):
        if name not in table.column_names:
            raise LayoutError(f"has no column {name!r}", where=str(path), right="topic, partition, size_bytes")
        try:
            column = table.column(name).cast(kind)
        except pa.ArrowException as error:
            kinds = f"column {name!r} has type {table.column(name).type}"
            raise LayoutError(kinds, where=str(path), right=str(kind)) from error
        if column.null_count:
            raise LayoutError(f"column {name!r} contains null", where=str(path))
        columns[name] = column
    names = pc.dictionary_encode(pa.concat_arrays(columns["topic"].chunks or [pa.array([], pa.string())]))
    partitions = Partitions(names.dictionary.to_pylist(), names.indices.to_numpy(), columns["partition"].to_numpy())
    return partitions, columns["size_bytes"].to_numpy()


def _read_log_dirs(path: Path) -> Sizes:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LayoutError(f"cannot be read: {error}", where=str(path), right=_LOG_DIRS) from error
    # The tool prints messages before the document.
    start = next((at for at, line in enumerate(lines) if line.lstrip().startswith("{")), 0)
    try:
        found = list(_replicas(json.loads("\n".join(lines[start:]))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayoutError(f"cannot be read: {error!r}", where=str(path), right=_LOG_DIRS) from error
    topics = {name: number for number, name in enumerate(dict.fromkeys(name for name, _, _ in found))}
    numbers = np.array([(topics[name], partition) for name, partition, _ in found], np.int32).reshape(len(found), 2)
    partitions = Partitions(list(topics), numbers[:, 0], numbers[:, 1])
    return partitions, np.array([size for _, _, size in found], np.int64)


def _replicas(document: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    for broker in document["brokers"]:
        for log_dir in broker["logDirs"]:
            for replica in log_dir["partitions"]:
                if not replica["isFuture"]:
                    topic, _, number = replica["partition"].rpartition("-")
                    yield topic, int(number), int(replica["size"])
