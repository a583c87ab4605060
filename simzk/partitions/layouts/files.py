"""Rows that somebody hands in, as an Arrow table or as JSON: columns of the kinds that they should be, or the first ten
rows that are not, each by its number, what it is of, what is wrong with it, and what would be right.

What comes in may come from any tool: integers of any width, plain or large strings and lists, a column of lists that
has no type because all are empty. Values that do not fit stay visible as 64-bit integers, for `problems.py` to name.

Between Arrow tables, as files hold them, and the columns of a `Layout`.

What comes in is taken if its values fit, and refused by column, or by row, if they do not (rows.py, problems.py).

Layout files: Parquet or Arrow with the brokers in a second file beside it, or one JSON document (docs/layout.md).

All forms become the same Arrow tables and go through the same checks; nothing here walks over rows in Python but the
reader of JSON. A file is written under another name first and then renamed, so that nobody reads half a layout.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

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
    """The rows of a table.

    Args:
        table: as it was handed in.
        schema: what its columns should be; others are not looked at.
        optional: columns that may be missing, with what stands for them; lists of nobody do.
        of: what a row is: a partition, a broker.
        names: the columns that say which one.
        where: the file, for errors.

    Raises:
        LayoutError: a column is missing.
    """

    def __init__(
        self,
        table: pa.Table,
        schema: pa.Schema,
        *,
        optional: Mapping[str, int],
        of: str,
        names: tuple[str, ...],
        where: str,
    ) -> None:
        self._table, self._schema, self._optional = table, schema, optional
        self._of, self._names, self._where = of, names, where
        for name in schema.names:
            if name not in table.column_names and name not in optional:
                raise LayoutError(f"has no column {name!r}", where=where, right=_told(schema))

    def column(self, name: str) -> pa.Array:
        """One column as one Arrow array of the right kind."""
        import pyarrow as pa

        table, field = self._table, self._schema.field(name)
        if name not in table.column_names:
            return pa.repeat(pa.scalar(self._optional[name], field.type), table.num_rows)
        if table.column_names.count(name) > 1:
            raise LayoutError(f"has two columns {name!r}", where=self._where)
        column = table.column(name)
        if not _same_kind(column.type, field.type):
            raise LayoutError(f"column {name!r} is {column.type}", where=self._where, right=str(field.type))
        if column.null_count and not field.nullable:
            self.refuse(
                np.flatnonzero(column.is_null().to_numpy()), lambda row: f"{name} is null; expected {field.type}"
            )
        one = column.unify_dictionaries().combine_chunks()
        # An empty table has a column of no chunks, which newer versions of pyarrow hand back chunked.
        one = pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one
        return one.cast(field.type) if pa.types.is_null(one.type) else one

    def integers(self, name: str) -> NDArray[Any]:
        """A column of integers: as int32 where the file has no more, else as int64."""
        return _to_numpy(self.column(name))

    def lists(self, name: str) -> NDArray[Any]:
        """A column of lists of broker ids as one row each, padded with -1 on the right; no rows where it is missing."""
        if name not in self._table.column_names:
            return np.empty((0, 1), np.int32)
        lists = self.column(name)
        flat, lengths = lists.flatten(), lists.value_lengths().to_numpy()

        def refuse(wrong: NDArray[np.bool_], what: str) -> None:
            """The rows of some values."""
            rows = np.unique(np.repeat(np.arange(len(lists)), lengths)[wrong])
            self.refuse(rows, lambda row: f"{name} {lists[row].as_py()} has {what}; expected ids of brokers")

        if flat.null_count:
            refuse(flat.is_null().to_numpy(zero_copy_only=False), "a null in it")
        values = _to_numpy(flat)
        if (values < 0).any():
            refuse(values < 0, "a negative id")
        if lengths.max(initial=0) > LONGEST_LIST:
            rows = np.flatnonzero(lengths > LONGEST_LIST)
            self.refuse(rows, lambda row: f"{name} lists {lengths[row]} brokers; expected at most {LONGEST_LIST}")
        return pack_flat(values, lengths)

    def refuse(self, rows: NDArray[np.intp], words: Callable[[int], str]) -> None:
        """Raise `LayoutError` for some rows, ascending, if there are any."""
        first = rows[:NAMED_PROBLEMS].tolist()
        lines = tuple(f"row {row}{self._name(row)}: {words(row)}" for row in first)
        Problems(len(rows), lines, self._of).refuse(self._where)

    def _name(self, row: int) -> str:
        """Which one a row says that it is, as far as it can be read."""
        values = [self._table.column(name)[row].as_py() for name in self._names if name in self._table.column_names]
        known = len(values) == len(self._names) and None not in values
        return f" ({'-'.join(map(str, values))})" if known else ""


def rows_of_json(rows: object, schema: pa.Schema, *, optional: Collection[str], of: str, where: str) -> pa.Table:
    """A list of JSON objects as an Arrow table.

    Raises:
        LayoutError: it is none, or values of it are not of the kind that they should be.
    """
    import pyarrow as pa

    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LayoutError("is no list of objects", where=where, right=_told(schema))
    fields = [field for field in schema if field.name not in optional or any(field.name in row for row in rows)]
    wrong = [(row, field) for row, values in enumerate(rows) for field in fields if not _fits(values, field)]
    first: dict[int, str] = {}
    for row, field in wrong:
        if row not in first and len(first) < NAMED_PROBLEMS:
            first[row] = f"row {row}{_name_of(rows[row])}: {_what_is_wrong(rows[row], field)}"
    Problems(len({row for row, _ in wrong}), tuple(first.values()), of).refuse(where)
    return pa.Table.from_pylist(rows, pa.schema([_widened(field) for field in fields]))


def _fits(values: dict[str, object], field: pa.Field) -> bool:
    """Whether the value of a field is of its kind: null too, where the field may be null."""
    from pyarrow import types

    value = values.get(field.name)
    if value is None:
        return bool(field.nullable)
    if types.is_list(field.type):
        return isinstance(value, list) and all(map(_is_integer, value))
    if types.is_integer(field.type):
        return _is_integer(value)
    return isinstance(value, bool if types.is_boolean(field.type) else str)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64


def _what_is_wrong(values: dict[str, object], field: pa.Field) -> str:
    right = f"expected {_kind(field.type)}"
    if field.name not in values:
        return f"{field.name} is missing; {right}"
    text = json.dumps(values[field.name])
    return f"{field.name} is {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'}; {right}"


def _kind(kind: pa.DataType) -> str:
    """A type in the words of JSON."""
    from pyarrow import types

    if types.is_list(kind):
        return "a list of whole numbers"
    if types.is_integer(kind):
        return "a whole number"
    return "true or false" if types.is_boolean(kind) else "a string"


def _name_of(values: dict[str, object]) -> str:
    """Which partition a row of JSON says that it is."""
    return f" ({values['topic']}-{values['partition']})" if {"topic", "partition"} <= values.keys() else ""


def _widened(field: pa.Field) -> pa.Field:
    """The field with room for 64 bits, so that what is out of range can be named."""
    import pyarrow as pa

    if field.type == pa.int32():
        return pa.field(field.name, pa.int64())
    return pa.field(field.name, pa.list_(pa.int64())) if pa.types.is_list(field.type) else field


def _same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the values of one type can be read as the other: an integer of any width is an integer."""
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
    """Integers as int32 where the file has no more, else as int64, so that what is out of range stays visible."""
    import pyarrow as pa

    if array.type != pa.int32():
        # Beyond 63 bits nothing is in range anyway.
        array = array.cast(pa.int64(), safe=array.type != pa.uint64())
    column: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return column


def _told(schema: pa.Schema) -> str:
    """A schema in one line."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


TOPIC = "topic"
MOVES = ("adding", "removing")
"""Columns that are written only where somebody is added or removed."""

OPTIONAL = {"min_insync_replicas": 1, **dict.fromkeys(MOVES, NONE)}
"""Columns that may be missing, with Kafka's own default, or nobody."""


def partitions_schema() -> pa.Schema:
    """The Arrow schema of a layout's partitions."""
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
    """The Arrow schema of the brokers beside a layout."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("broker", pa.int32(), nullable=False),
            pa.field("rack", pa.string()),
            pa.field("live", pa.bool_(), nullable=False),
        ]
    )


def partitions_table(layout: Layout) -> pa.Table:
    """The partitions of a layout as an Arrow table of `partitions_schema`, without `MOVES` where nobody moves."""
    import pyarrow as pa

    topic = pa.DictionaryArray.from_arrays(pa.array(layout.topic), pa.array(layout.topics, pa.string()))
    arrays = [
        topic.cast(pa.string()),
        pa.array(layout.partition),
        list_array(layout.replicas),
        list_array(layout.isr),
        pa.array(layout.leader),
        pa.array(layout.leader_epoch),
        pa.array(layout.min_insync_replicas),
        list_array(layout.adding),
        list_array(layout.removing),
    ]
    table = pa.Table.from_arrays(arrays, schema=partitions_schema())
    return table if len(layout.reassigning) else table.drop_columns(list(MOVES))


def brokers_table(brokers: Brokers) -> pa.Table:
    """The brokers of a layout as an Arrow table of `brokers_schema`."""
    import pyarrow as pa

    arrays = [pa.array(brokers.ids), pa.array(brokers.racks, pa.string()), pa.array(brokers.live)]
    return pa.Table.from_arrays(arrays, schema=brokers_schema())


def partitions_of_json(rows: object, where: str) -> pa.Table:
    """The partitions of a layout from a list of JSON objects."""
    return rows_of_json(rows, partitions_schema(), optional=OPTIONAL, of="partition", where=where)


def brokers_of_json(rows: object, where: str) -> pa.Table:
    """The brokers of a layout from a list of JSON objects."""
    return rows_of_json(rows, brokers_schema(), optional={}, of="broker", where=where)


def to_layout(partitions: pa.Table, brokers: Brokers | None, where: str) -> Layout:
    """The layout that a table holds, each row of it checked; `where` names the file in errors.

    Where no brokers are given, they are those that the replicas name.
    """
    import pyarrow as pa

    rows = Rows(
        partitions,
        partitions_schema(),
        optional=OPTIONAL,
        of="partition",
        names=(TOPIC, "partition"),
        where=where,
    )
    topic = rows.column(TOPIC)
    if not pa.types.is_dictionary(topic.type):
        topic = topic.dictionary_encode()
    replicas = rows.lists("replicas")
    raw = Layout(
        brokers=_brokers_named(replicas) if brokers is None else brokers,
        topics=tuple(topic.dictionary.to_pylist()),
        topic=topic.indices.to_numpy().astype(np.int32, copy=False),
        partition=rows.integers("partition"),
        replicas=replicas,
        isr=rows.lists("isr"),
        leader=rows.integers("leader"),
        leader_epoch=rows.integers("leader_epoch"),
        min_insync_replicas=rows.integers("min_insync_replicas"),
        adding=rows.lists("adding"),
        removing=rows.lists("removing"),
    )
    find_problems(raw).refuse(where)
    return _narrowed(raw)


def _narrowed(raw: Layout) -> Layout:
    """The same layout in 32-bit columns, once every value is known to fit."""
    return Layout(
        brokers=raw.brokers,
        topics=raw.topics,
        topic=raw.topic,
        partition=raw.partition.astype(np.int32, copy=False),
        replicas=raw.replicas.astype(np.int32, copy=False),
        isr=raw.isr.astype(np.int32, copy=False),
        leader=raw.leader.astype(np.int32, copy=False),
        leader_epoch=raw.leader_epoch.astype(np.int32, copy=False),
        min_insync_replicas=raw.min_insync_replicas.astype(np.int32, copy=False),
        adding=raw.adding.astype(np.int32, copy=False),
        removing=raw.removing.astype(np.int32, copy=False),
    )


def to_brokers(table: pa.Table, where: str) -> Brokers:
    """The brokers that a table holds, each row of it checked; `where` names the file in errors."""
    rows = Rows(table, brokers_schema(), optional={}, of="broker", names=("broker",), where=where)
    ids, racks = rows.integers("broker"), rows.column("rack").to_pylist()
    live = rows.column("live").to_numpy(zero_copy_only=False)
    outside = np.flatnonzero((ids < 0) | (ids > MAX_BROKER_ID))
    rows.refuse(outside, lambda row: f"broker id {ids[row]} is out of range (0 to {MAX_BROKER_ID})")
    order = np.argsort(ids, kind="stable")
    repeated = order[1:][ids[order][1:] == ids[order][:-1]]
    rows.refuse(np.sort(repeated), lambda row: f"broker {ids[row]} stands twice; expected each once")
    nameless = np.array([rack == "" for rack in racks], np.bool_)
    rows.refuse(np.flatnonzero(nameless), lambda row: "the rack has no name; expected a name, or null")
    return Brokers(ids[order].astype(np.int32), tuple(racks[index] for index in order), live[order])


def _brokers_named(replicas: NDArray[Any]) -> Brokers:
    inside = replicas[(replicas >= 0) & (replicas <= MAX_BROKER_ID)]
    return Brokers.from_racks(dict.fromkeys(np.unique(inside).tolist()))


def list_array(padded: NDArray[np.int32]) -> pa.Array:
    """Padded lists as an Arrow array of lists."""
    import pyarrow as pa

    lengths = sizes(padded)
    offsets = np.zeros(len(padded) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(padded[padded != NONE]), partitions_schema().field("isr").type
    )


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
    return to_brokers(table.read(beside), str(beside))


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
    brokers = to_brokers(table.read(beside), str(beside)) if beside.exists() else None
    return to_layout(partitions, brokers, str(path))


def _write_tables(table: _TableForm, path: Path, layout: Layout) -> None:
    # The brokers first: a layout that can be seen has its brokers beside it.
    brokers = brokers_table(layout.brokers)
    _replace(brokers_path(path), lambda target: table.write(brokers, target))
    partitions = partitions_table(layout)
    _replace(path, lambda target: table.write(partitions, target))


def parquet_table(path: Path) -> pa.Table:
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
    brokers = to_brokers(brokers_of_json(document["brokers"], f"{path}: brokers"), str(path))
    partitions = partitions_of_json(document["partitions"], f"{path}: partitions")
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
