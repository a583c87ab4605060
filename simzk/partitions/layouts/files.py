"""Layout files: Parquet or Arrow with the brokers in a second file beside it, or one JSON document (docs/layout.md).

All forms become the same Arrow tables and go through the same checks; nothing here walks over rows in Python but the
reader of JSON. A file is written under another name first and then renamed, so that nobody reads half a layout.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, LayoutError
from simzk.partitions.layouts import columns
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from simzk.partitions.layouts.layout import Brokers, Layout

FORMS = ".parquet, .arrow or .json"
"""The endings by which the form of a layout file is told."""

ROWS_PER_GROUP = 1 << 18
"""Rows of a Parquet row group: large enough to compress well, small enough to be read on several cores."""


def brokers_path(path: Path) -> Path:
    """The file with the brokers that stands beside a layout of Parquet or Arrow.

    >>> brokers_path(Path("cluster.parquet")).name
    'cluster.brokers.parquet'
    """
    return path.with_name(f"{path.stem}.brokers{path.suffix}")


def read_layout(path: str | Path) -> Layout:
    """Read a layout file and check every row of it.

    Args:
        path: a file that ends in `.parquet`, `.arrow` (Arrow's IPC file) or `.json`. Where no brokers stand beside a
            file of the first two, the brokers are those that the replicas name, all live, without racks.

    Raises:
        LayoutError: the file cannot be read, lacks a column, or has rows that cannot be; the first ten are named.
        ConfigError: pyarrow is not installed.
    """
    source = Path(path)
    require_pyarrow()
    form = _form_of(source)
    if not source.exists():
        raise LayoutError("there is no such file", where=str(source))
    return form.read(source)


def read_brokers(path: str | Path) -> Brokers:
    """The brokers of a layout file, without its partitions where they stand beside them.

    Args and raises as in `read_layout`.
    """
    beside = brokers_path(Path(path))
    table = TABLES.get(beside.suffix)
    if table is None or not beside.exists():
        return read_layout(path).brokers
    require_pyarrow()
    return columns.to_brokers(table.read(beside), str(beside))


def write_layout(layout: Layout, path: str | Path) -> None:
    """Write a layout; the same layout gives the same bytes.

    Args:
        layout: what to write.
        path: a file that ends in `.parquet`, `.arrow` or `.json`; what stands there is replaced.

    Raises:
        LayoutError: the ending is another, or the file cannot be written.
        ConfigError: pyarrow is not installed.
    """
    target = Path(path)
    require_pyarrow()
    form = _form_of(target)
    try:
        form.write(target, layout)
    except OSError as error:
        raise LayoutError(f"cannot be written: {error.strerror or error}", where=str(target)) from error


def require_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ConfigError("layout files need pyarrow: pip install 'simzk[layout]'") from error


def _form_of(path: Path) -> _Form:
    if path.suffix == ".json":
        return _Form(_read_json, _write_json)
    table = TABLES.get(path.suffix)
    if table is None:
        raise LayoutError(f"a layout file cannot end in {path.suffix!r}", where=str(path), right=FORMS)
    return _Form(
        lambda source: _read_tables(table, source), lambda target, layout: _write_tables(table, target, layout)
    )


def _read_tables(table: _TableForm, path: Path) -> Layout:
    beside = brokers_path(path)
    partitions = table.read(path)
    brokers = columns.to_brokers(table.read(beside), str(beside)) if beside.exists() else None
    return columns.to_layout(partitions, brokers, str(path))


def _write_tables(table: _TableForm, path: Path, layout: Layout) -> None:
    # The brokers first: a layout that can be seen has its brokers beside it.
    brokers = columns.brokers_table(layout.brokers)
    _replace(brokers_path(path), lambda target: table.write(brokers, target))
    partitions = columns.partitions_table(layout)
    _replace(path, lambda target: table.write(partitions, target))


def parquet_table(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, read_dictionary=[columns.TOPIC])
    except (pa.ArrowException, OSError) as error:
        raise LayoutError(f"cannot be read as Parquet: {str(error).splitlines()[0]}", where=str(path)) from error


def _write_parquet(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path, row_group_size=ROWS_PER_GROUP, compression="zstd", store_schema=False)


def _read_arrow(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.feather as feather

    try:
        table = feather.read_table(path, memory_map=True)
        table.validate()
    except (pa.ArrowException, OSError) as error:
        raise LayoutError(f"cannot be read as Arrow: {str(error).splitlines()[0]}", where=str(path)) from error
    return table


def _write_arrow(table: pa.Table, path: Path) -> None:
    import pyarrow.feather as feather

    feather.write_feather(table, str(path), compression="uncompressed")


class _TableForm(NamedTuple):
    """How an Arrow table stands in a file."""

    read: Callable[[Path], pa.Table]
    write: Callable[[pa.Table, Path], None]


TABLES = {".parquet": _TableForm(parquet_table, _write_parquet), ".arrow": _TableForm(_read_arrow, _write_arrow)}
"""The forms in which partitions and brokers are two tables, by ending."""


class _Form(NamedTuple):
    """How a layout stands in files."""

    read: Callable[[Path], Layout]
    write: Callable[[Path, Layout], None]


def _read_json(path: Path) -> Layout:
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, OSError) as error:
        raise LayoutError(f"cannot be read as JSON: {error}", where=str(path)) from error
    if not isinstance(document, dict) or set(document) != {"brokers", "partitions"}:
        raise LayoutError("is no layout", where=str(path), right="an object with the lists `brokers` and `partitions`")
    brokers = columns.to_brokers(columns.brokers_of_json(document["brokers"], f"{path}: brokers"), str(path))
    partitions = columns.partitions_of_json(document["partitions"], f"{path}: partitions")
    return columns.to_layout(partitions, brokers, str(path))


def _write_json(path: Path, layout: Layout) -> None:
    brokers, partitions = (
        ",\n".join(json.dumps(row, separators=(",", ":")) for row in table.to_pylist())
        for table in (columns.brokers_table(layout.brokers), columns.partitions_table(layout))
    )
    text = f'{{"brokers":[\n{brokers}\n],"partitions":[\n{partitions}\n]}}\n'
    _replace(path, lambda target: target.write_text(text))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        write(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
