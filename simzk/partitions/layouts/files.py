"""Layout files: Parquet or Arrow with the brokers in a second file, or one JSON document (docs/layout.md).

Rules of the module:

1. All formats become the same Arrow tables and pass the same checks. Only the JSON reader walks over rows in Python.
2. Input may come from any tool: integers of any width, plain or large strings and lists, a column of lists without type
   because all are empty. Values out of range are kept as int64 until validation reports them.
3. Invalid columns or rows raise `LayoutError`; the error lists the first ten invalid rows with row number, partition or
   broker, the problem and the accepted values.
4. A file is written under another name and then renamed, so that no reader sees half a layout.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from simzk.documents import read_json
from simzk.errors import ConfigError, LayoutError
from simzk.partitions.arrays import MAX_BROKER_ID, NONE, pack_flat, sizes
from simzk.partitions.layouts.layout import LONGEST_LIST, NAMED_PROBLEMS, Brokers, Layout, Problems, find_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

_INT64: Final = range(-(2**63), 2**63)
_SHOWN: Final = 60


class Rows:
    """The rows of a table that was read from a file.

    Args:
        table: the input.
        schema: the expected columns; others are ignored.
        optional: columns that may be missing, with their default value; a missing list column means empty lists.
        names: the columns that identify a row; the last one is what a row is, such as a broker.
        where: the file, for errors.

    Raises:
        LayoutError: a column is missing.
    """

    def __init__(
        self, table: pa.Table, schema: pa.Schema, *, optional: Mapping[str, int], names: tuple[str, ...], where: str
    ) -> None:
        self._table, self._schema, self._optional = table, schema, optional
        self._names, self._where = names, where
        for name in schema.names:
            if name not in table.column_names and name not in optional:
                raise LayoutError(f"has no column {name!r}", where=where, right=_one_line(schema))

    def column(self, name: str) -> pa.Array:
        """Return one column as one Arrow array of the expected type."""
        import pyarrow as pa

        table, field = self._table, self._schema.field(name)
        if name not in table.column_names:
            return pa.repeat(pa.scalar(self._optional[name], field.type), table.num_rows)
        if table.column_names.count(name) > 1:
            raise LayoutError(f"repeated column {name!r}", where=self._where)
        column = table.column(name)
        if not _same_kind(column.type, field.type):
            raise LayoutError(f"column {name!r} has type {column.type}", where=self._where, right=str(field.type))
        if column.null_count and not field.nullable:
            self.refuse(
                np.flatnonzero(column.is_null().to_numpy()), lambda row: f"{name} is null; expected {field.type}"
            )
        one = column.unify_dictionaries().combine_chunks()
        # The column of an empty table has no chunks; newer versions of pyarrow return it chunked.
        one = pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one
        return one.cast(field.type) if pa.types.is_null(one.type) else one

    def integers(self, name: str) -> NDArray[Any]:
        """Return a column of integers: int32 if the file has int32, else int64."""
        return _to_numpy(self.column(name))

    def lists(self, name: str) -> NDArray[Any]:
        """Return a column of lists of broker ids, [n, w], padded with -1; no rows if the column is missing."""
        if name not in self._table.column_names:
            return np.empty((0, 1), np.int32)
        lists = self.column(name)
        flat, lengths = lists.flatten(), lists.value_lengths().to_numpy()

        def refuse(wrong: NDArray[np.bool_], what: str) -> None:
            """Raise an error for the rows of some values."""
            rows = np.unique(np.repeat(np.arange(len(lists)), lengths)[wrong])
            self.refuse(rows, lambda row: f"{name} {lists[row].as_py()} has {what}; expected ids of brokers")

        if flat.null_count:
            refuse(flat.is_null().to_numpy(zero_copy_only=False), "a null in it")
        values = _to_numpy(flat)
        if (values < 0).any():
            refuse(values < 0, "a negative id")
        too_long = np.flatnonzero(lengths > LONGEST_LIST)
        self.refuse(too_long, lambda row: f"{name} lists {lengths[row]} brokers; expected at most {LONGEST_LIST}")
        return pack_flat(values, lengths)

    def refuse(self, rows: NDArray[np.intp], words: Callable[[int], str]) -> None:
        """Raise `LayoutError` for some rows, ascending, if there are any."""
        assert (rows[1:] > rows[:-1]).all(), "rows ascend"
        first = rows[:NAMED_PROBLEMS].tolist()
        lines = tuple(f"row {row}{self._name(row)}: {words(row)}" for row in first)
        Problems(len(rows), lines, self._names[-1]).refuse(self._where)

    def _name(self, row: int) -> str:
        """Return the identity of a row as far as it is readable."""
        values = [self._table.column(name)[row].as_py() for name in self._names if name in self._table.column_names]
        known = len(values) == len(self._names) and None not in values
        return f" ({'-'.join(map(str, values))})" if known else ""


def rows_of_json(rows: object, schema: pa.Schema, *, optional: Collection[str], of: str, where: str) -> pa.Table:
    """Return a list of JSON objects as an Arrow table.

    Raises:
        LayoutError: the value is not a list of objects, or values have the wrong type.
    """
    import pyarrow as pa

    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LayoutError("not a list of objects", where=where, right=_one_line(schema))
    fields = [field for field in schema if field.name not in optional or any(field.name in row for row in rows)]
    wrong = [(row, field) for row, values in enumerate(rows) for field in fields if not _fits(values, field)]
    first: dict[int, str] = {}
    for row, field in wrong:
        if row not in first and len(first) < NAMED_PROBLEMS:
            first[row] = f"row {row}{_name_of(rows[row])}: {_what_is_wrong(rows[row], field)}"
    Problems(len({row for row, _ in wrong}), tuple(first.values()), of).refuse(where)
    return pa.Table.from_pylist(rows, pa.schema([_widened(field) for field in fields]))


def _fits(values: dict[str, object], field: pa.Field) -> bool:
    """Return whether the value of a field has its type; null is accepted if the field is nullable."""
    value = values.get(field.name)
    return bool(field.nullable) if value is None else _json_type(field.type)[0](value)


def _json_type(kind: pa.DataType) -> tuple[Callable[[object], bool], str]:
    """Return the test whether a JSON value has a type, and the type in JSON's terms."""
    from pyarrow import types

    if types.is_list(kind):
        return lambda value: isinstance(value, list) and all(map(_is_integer, value)), "a list of whole numbers"
    if types.is_integer(kind):
        return _is_integer, "a whole number"
    if types.is_boolean(kind):
        return lambda value: isinstance(value, bool), "true or false"
    return lambda value: isinstance(value, str), "a string"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64


def _what_is_wrong(values: dict[str, object], field: pa.Field) -> str:
    right = f"expected {_json_type(field.type)[1]}"
    if field.name not in values:
        return f"{field.name} is missing; {right}"
    text = json.dumps(values[field.name])
    return f"{field.name} is {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'}; {right}"


def _name_of(values: dict[str, object]) -> str:
    """Return the partition that a JSON row names."""
    return f" ({values['topic']}-{values['partition']})" if {"topic", "partition"} <= values.keys() else ""


def _widened(field: pa.Field) -> pa.Field:
    """Return the field with 64-bit integers, so that values out of range can be reported."""
    import pyarrow as pa

    if field.type == pa.int32():
        return pa.field(field.name, pa.int64())
    return pa.field(field.name, pa.list_(pa.int64())) if pa.types.is_list(field.type) else field


def _same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of the given type can be read as the wanted type: integers of any width are integers."""
    from pyarrow import types

    if types.is_null(given):  # no tool knows the type of a column that holds nothing
        return True
    if types.is_dictionary(given):
        given = given.value_type
    if types.is_list(wanted):
        is_list = types.is_list(given) or types.is_large_list(given)
        return is_list and _same_kind(given.value_type, wanted.value_type)
    if types.is_string(wanted):
        return bool(types.is_string(given) or types.is_large_string(given))
    if types.is_integer(wanted):
        return bool(types.is_integer(given))
    return bool(given == wanted)


def _to_numpy(array: pa.Array) -> NDArray[Any]:
    """Return integers as int32 if the file has int32, else as int64, so that values out of range can be reported."""
    import pyarrow as pa

    if array.type != pa.int32():
        # Values beyond 63 bits are out of range in any case.
        array = array.cast(pa.int64(), safe=array.type != pa.uint64())
    column: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return column


def _one_line(schema: pa.Schema) -> str:
    """Return a schema in one line."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


TOPIC = "topic"
MOVES = ("adding", "removing")
"""Columns that are written only if a reassignment is under way."""

_COLUMNS = ("replicas", "partition", "isr", "leader", "leader_epoch", "min_insync_replicas", *MOVES)
"""Columns of broker ids and other numbers, in the order in which they are read."""

OPTIONAL = {"min_insync_replicas": 1, **dict.fromkeys(MOVES, NONE)}
"""Columns that may be missing, with Kafka's default or no replica."""


CLUSTER_ID = "cluster_id"
"""Column of the brokers' ids in the cluster, where these are too large for a layout; missing elsewhere."""


def partitions_schema() -> pa.Schema:
    """Return the Arrow schema of the partitions of a layout."""
    import pyarrow as pa

    ids = pa.list_(pa.field("element", pa.int32(), nullable=False))
    types = {
        TOPIC: pa.string(),
        "partition": pa.int32(),
        "replicas": ids,
        "isr": ids,
        "leader": pa.int32(),
        "leader_epoch": pa.int32(),
        "min_insync_replicas": pa.int32(),
        "adding": ids,
        "removing": ids,
    }
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


def brokers_schema() -> pa.Schema:
    """Return the Arrow schema of the brokers of a layout."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("broker", pa.int32(), nullable=False),
            pa.field("rack", pa.string()),
            pa.field("live", pa.bool_(), nullable=False),
            pa.field(CLUSTER_ID, pa.int64(), nullable=False),
        ]
    )


def partitions_table(layout: Layout) -> pa.Table:
    """Return the partitions of a layout as an Arrow table of `partitions_schema`; without `MOVES` if all are empty."""
    import pyarrow as pa

    topic = pa.DictionaryArray.from_arrays(pa.array(layout.topic), pa.array(layout.topics, pa.string()))
    columns = [getattr(layout, name) for name in partitions_schema().names[1:]]
    arrays = [list_array(column) if column.ndim == 2 else pa.array(column) for column in columns]
    table = pa.Table.from_arrays([topic.cast(pa.string()), *arrays], schema=partitions_schema())
    return table if len(layout.reassigning) else table.drop_columns(list(MOVES))


def brokers_table(brokers: Brokers) -> pa.Table:
    """Return the brokers of a layout as an Arrow table of `brokers_schema`."""
    import pyarrow as pa

    mapped = brokers.ids if brokers.cluster_ids is None else brokers.cluster_ids
    arrays = [pa.array(brokers.ids), pa.array(brokers.racks, pa.string()), pa.array(brokers.live)]
    table = pa.Table.from_arrays([*arrays, pa.array(mapped, pa.int64())], schema=brokers_schema())
    return table.drop_columns([CLUSTER_ID]) if brokers.cluster_ids is None else table


def to_layout(partitions: pa.Table, brokers: Brokers | None, where: str) -> Layout:
    """Return the layout of a table after checking each row; `where` names the file in errors.

    Without `brokers`, the brokers are those that replicas name.
    """
    import pyarrow as pa

    schema, names = partitions_schema(), (TOPIC, "partition")
    rows = Rows(partitions, schema, optional=OPTIONAL, names=names, where=where)
    topic = rows.column(TOPIC)
    if not pa.types.is_dictionary(topic.type):
        topic = topic.dictionary_encode()
    lists = {name for name in _COLUMNS if pa.types.is_list(schema.field(name).type)}
    columns = {name: rows.lists(name) if name in lists else rows.integers(name) for name in _COLUMNS}
    if brokers is None:
        replicas = columns["replicas"]
        named = np.unique(replicas[(replicas >= 0) & (replicas <= MAX_BROKER_ID)])
        brokers = Brokers.from_racks(dict.fromkeys(named.tolist()))
    raw = Layout(
        brokers=brokers,
        topics=tuple(topic.dictionary.to_pylist()),
        topic=topic.indices.to_numpy().astype(np.int32, copy=False),
        **columns,
    )
    find_problems(raw).refuse(where)
    narrow: dict[str, Any] = {name: column.astype(np.int32, copy=False) for name, column in columns.items()}
    assert all((narrow[name] == column).all() for name, column in columns.items()), "every number fits 32 bits"
    return replace(raw, **narrow)


def to_brokers(table: pa.Table, where: str) -> Brokers:
    """Return the brokers of a table after checking each row; `where` names the file in errors."""
    rows = Rows(table, brokers_schema(), optional={CLUSTER_ID: 0}, names=("broker",), where=where)
    ids, racks = rows.integers("broker"), rows.column("rack").to_pylist()
    live = rows.column("live").to_numpy(zero_copy_only=False)
    outside = np.flatnonzero((ids < 0) | (ids > MAX_BROKER_ID))
    rows.refuse(outside, lambda row: f"broker id {ids[row]} is out of range (0 to {MAX_BROKER_ID})")
    order = np.argsort(ids, kind="stable")
    repeated = order[1:][ids[order][1:] == ids[order][:-1]]
    rows.refuse(np.sort(repeated), lambda row: f"broker {ids[row]} is repeated; expected each once")
    nameless = np.array([rack == "" for rack in racks], np.bool_)
    rows.refuse(np.flatnonzero(nameless), lambda row: "the rack name is empty; expected a name or null")
    cluster_ids = _cluster_ids(table, rows, order)
    brokers = Brokers(ids[order].astype(np.int32), tuple(racks[index] for index in order), live[order], cluster_ids)
    brokers.check()
    return brokers


def _cluster_ids(table: pa.Table, rows: Rows, order: NDArray[np.intp]) -> NDArray[np.int64] | None:
    """Return the brokers' ids in the cluster, in their order; None if the table has none."""
    if CLUSTER_ID not in table.column_names:
        return None
    found = rows.integers(CLUSTER_ID).astype(np.int64)
    falls = np.flatnonzero(np.diff(found[order]) <= 0) + 1
    right = "ids that ascend as those of the layout do"
    rows.refuse(np.sort(order[falls]), lambda row: f"{CLUSTER_ID} {found[row]} is out of order; expected {right}")
    return found[order]


def list_array(padded: NDArray[np.int32]) -> pa.Array:
    """Return padded lists, int32[n, w], as an Arrow array of lists."""
    import pyarrow as pa

    offsets = np.append(np.int32(0), np.cumsum(sizes(padded), dtype=np.int32))
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(padded[padded != NONE]), partitions_schema().field("isr").type
    )


FORMS = ".parquet, .arrow or .json"
"""File name endings of the formats."""

ROWS_PER_GROUP = 1 << 18
"""Rows of a Parquet row group: large enough to compress well, small enough to be read by several cores."""


def brokers_path(path: Path) -> Path:
    """Return the path of the brokers file of a Parquet or Arrow layout.

    >>> brokers_path(Path("cluster.parquet")).name
    'cluster.brokers.parquet'
    """
    return path.with_name(f"{path.stem}.brokers{path.suffix}")


def read_layout(path: str | Path) -> Layout:
    """Read a layout file and check every row.

    Args:
        path: a file that ends in `.parquet`, `.arrow` (Arrow IPC file) or `.json`. If a Parquet or Arrow layout has no
            brokers file, its brokers are those that replicas name, all live, without racks.

    Raises:
        LayoutError: the file is unreadable, lacks a column, or has invalid rows; the first ten are listed.
        ConfigError: pyarrow is not installed.
    """
    source = Path(path)
    require_pyarrow()
    table = _table_form(source)
    if not source.exists():
        raise LayoutError("there is no such file", where=str(source))
    return _read_json(source) if table is None else _read_tables(table, source)


def read_brokers(path: str | Path) -> Brokers:
    """Return the brokers of a layout file, without reading partitions if brokers are in their own file.

    Args and raises as in `read_layout`.
    """
    beside = brokers_path(Path(path))
    table = TABLES.get(beside.suffix)
    if table is None or not beside.exists():
        return read_layout(path).brokers
    require_pyarrow()
    return to_brokers(table.read(beside), str(beside))


def write_layout(layout: Layout, path: str | Path) -> None:
    """Write a layout; equal layouts give equal bytes.

    Args:
        layout: the layout.
        path: a file that ends in `.parquet`, `.arrow` or `.json`; an existing file is replaced.

    Raises:
        LayoutError: the ending is unknown, or the file cannot be written.
        ConfigError: pyarrow is not installed.
    """
    target = Path(path)
    require_pyarrow()
    table = _table_form(target)
    try:
        if table is None:
            _write_json(target, layout)
        else:
            _write_tables(table, target, layout)
    except OSError as error:
        raise LayoutError(f"cannot be written: {error.strerror or error}", where=str(target)) from error


def require_pyarrow() -> None:
    """Raise `ConfigError` if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ConfigError("layout files need pyarrow: pip install 'simzk[layout]'") from error


def _table_form(path: Path) -> _TableForm | None:
    """Return how tables are stored in a file with this ending; None for JSON, which is one document."""
    if path.suffix != ".json" and path.suffix not in TABLES:
        raise LayoutError(f"unknown format {path.suffix!r} of a layout file", where=str(path), right=FORMS)
    return TABLES.get(path.suffix)


def _read_tables(table: _TableForm, path: Path) -> Layout:
    beside = brokers_path(path)
    partitions = table.read(path)
    brokers = to_brokers(table.read(beside), str(beside)) if beside.exists() else None
    return to_layout(partitions, brokers, str(path))


def _write_tables(table: _TableForm, path: Path, layout: Layout) -> None:
    # Brokers first, so that a reader that sees a layout finds its brokers.
    brokers = brokers_table(layout.brokers)
    _replace(brokers_path(path), lambda target: table.write(brokers, target))
    partitions = partitions_table(layout)
    _replace(path, lambda target: table.write(partitions, target))


def parquet_table(path: Path) -> pa.Table:
    """Read a Parquet file as an Arrow table; raise `LayoutError` if it is unreadable."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, read_dictionary=[TOPIC])
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
    """Reader and writer of an Arrow table in a file format."""

    read: Callable[[Path], pa.Table]
    write: Callable[[pa.Table, Path], None]


TABLES = {".parquet": _TableForm(parquet_table, _write_parquet), ".arrow": _TableForm(_read_arrow, _write_arrow)}
"""Formats with one file for partitions and one for brokers, by file name ending."""


def _read_json(path: Path) -> Layout:
    try:
        document = read_json(path.read_bytes())
    except (ValueError, OSError) as error:
        raise LayoutError(f"cannot be read as JSON: {error}", where=str(path)) from error
    if not isinstance(document, dict) or set(document) != {"brokers", "partitions"}:
        raise LayoutError("not a layout", where=str(path), right="an object with the lists `brokers` and `partitions`")
    listed, rows = document["brokers"], document["partitions"]
    named = rows_of_json(listed, brokers_schema(), optional=(CLUSTER_ID,), of="broker", where=f"{path}: brokers")
    brokers = to_brokers(named, str(path))
    partitions = rows_of_json(rows, partitions_schema(), optional=OPTIONAL, of="partition", where=f"{path}: partitions")
    return to_layout(partitions, brokers, str(path))


def _write_json(path: Path, layout: Layout) -> None:
    brokers, partitions = (
        ",\n".join(json.dumps(row, separators=(",", ":")) for row in table.to_pylist())
        for table in (brokers_table(layout.brokers), partitions_table(layout))
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
