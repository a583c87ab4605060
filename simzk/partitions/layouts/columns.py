"""Between Arrow tables, as files hold them, and the columns of a `Layout`.

What comes in may come from any tool: integers of any width, plain or large strings and lists. It is taken if its values
fit, and refused by column, or by row, if they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import MAX_BROKER_ID, NONE, pack_flat, sizes
from simzk.partitions.layouts.layout import Brokers, Layout
from simzk.partitions.layouts.problems import LONGEST_LIST, NAMED_PROBLEMS, Problems, find_problems

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

TOPIC = "topic"
OPTIONAL = {"min_insync_replicas": 1}
"""Columns that may be missing, with Kafka's own default."""


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
    """The partitions of a layout as an Arrow table of `partitions_schema`."""
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
    ]
    return pa.Table.from_arrays(arrays, schema=partitions_schema())


def brokers_table(brokers: Brokers) -> pa.Table:
    """The brokers of a layout as an Arrow table of `brokers_schema`."""
    import pyarrow as pa

    arrays = [pa.array(brokers.ids), pa.array(brokers.racks, pa.string()), pa.array(brokers.live)]
    return pa.Table.from_arrays(arrays, schema=brokers_schema())


def table_of_rows(rows: object, schema: pa.Schema, where: str) -> pa.Table:
    """A list of JSON objects as an Arrow table."""
    import pyarrow as pa

    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LayoutError("is no list of objects", where=where)
    present = [_widened(field) for field in schema if field.name not in OPTIONAL or _names(rows, field.name)]
    try:
        return pa.Table.from_pylist(rows, pa.schema(present))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise LayoutError(f"has a value of a wrong type: {error}", where=where) from error


def _widened(field: pa.Field) -> pa.Field:
    """The field with room for what cannot be, nulls and 64 bits, so that the row that holds it can be named."""
    import pyarrow as pa

    if field.type == pa.int32():
        return pa.field(field.name, pa.int64())
    if pa.types.is_list(field.type):
        return pa.field(field.name, pa.list_(pa.int64()))
    return field.with_nullable(True)


def _names(rows: list[dict[str, object]], field: str) -> bool:
    return any(field in row for row in rows)


def to_layout(partitions: pa.Table, brokers: pa.Table | None, where: str) -> Layout:
    """The layout that two tables hold, each row of it checked; `where` names the file in errors."""
    import pyarrow as pa

    for name in partitions_schema().names:
        if name not in partitions.column_names and name not in OPTIONAL:
            right = ", ".join(f"{field.name} {field.type}" for field in partitions_schema())
            raise LayoutError(f"has no column {name!r}", where=where, right=right)
    replicas = _padded(_column(partitions, "replicas", where), f"{where}: replicas")
    isr = _padded(_column(partitions, "isr", where), f"{where}: isr")
    topic = _column(partitions, TOPIC, where)
    if not pa.types.is_dictionary(topic.type):
        topic = topic.dictionary_encode()
    raw = Layout(
        brokers=_brokers_named(replicas) if brokers is None else to_brokers(brokers, where),
        topics=tuple(topic.dictionary.to_pylist()),
        topic=topic.indices.to_numpy().astype(np.int32, copy=False),
        partition=_integers(partitions, "partition", where),
        replicas=replicas,
        isr=isr,
        leader=_integers(partitions, "leader", where),
        leader_epoch=_integers(partitions, "leader_epoch", where),
        min_insync_replicas=_integers(partitions, "min_insync_replicas", where),
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
    )


def to_brokers(table: pa.Table, where: str) -> Brokers:
    """The brokers that a table holds, checked; `where` names the file in errors."""
    for name in brokers_schema().names:
        if name not in table.column_names:
            raise LayoutError(f"the brokers have no column {name!r}", where=where, right="broker, rack, live")
    ids = _integers(table, "broker", where)
    racks = _column(table, "rack", where, nullable=True).to_pylist()
    live = _column(table, "live", where).to_numpy(zero_copy_only=False)
    outside = (ids < 0) | (ids > MAX_BROKER_ID)
    if outside.any():
        raise LayoutError(f"broker id {ids[outside][0]} is out of range (0 to {MAX_BROKER_ID})", where=where)
    order = np.argsort(ids, kind="stable")
    repeated = ids[order][1:] == ids[order][:-1]
    if repeated.any():
        raise LayoutError(f"broker {ids[order][1:][repeated][0]} stands twice among the brokers", where=where)
    if "" in racks:
        raise LayoutError(
            f"the rack of broker {ids[racks.index('')]} has no name", where=where, right="a name, or null"
        )
    return Brokers(ids[order].astype(np.int32), tuple(racks[index] for index in order), live[order])


def _brokers_named(replicas: NDArray[Any]) -> Brokers:
    inside = replicas[(replicas >= 0) & (replicas <= MAX_BROKER_ID)]
    return Brokers.from_racks(dict.fromkeys(np.unique(inside).tolist()))


def _column(table: pa.Table, name: str, where: str, *, nullable: bool = False) -> pa.Array:
    """One column as one Arrow array of the right kind; an optional one that is missing is filled with its default."""
    import pyarrow as pa

    if name not in table.column_names:
        return pa.repeat(pa.scalar(OPTIONAL[name], pa.int32()), table.num_rows)
    field = (partitions_schema() if name in partitions_schema().names else brokers_schema()).field(name)
    if table.column_names.count(name) > 1:
        raise LayoutError(f"has two columns {name!r}", where=where)
    column = table.column(name)
    if not _same_kind(column.type, field.type):
        raise LayoutError(f"column {name!r} is {column.type}", where=where, right=str(field.type))
    if column.null_count and not nullable:
        _refuse_rows(np.flatnonzero(column.is_null().to_numpy()), f"{name} is null", where)
    one = column.unify_dictionaries().combine_chunks()
    # An empty table has a column of no chunks, which newer versions of pyarrow hand back chunked.
    return pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one


def _same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the values of one type can be read as the other: an integer of any width is an integer."""
    from pyarrow import types

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


def _integers(table: pa.Table, name: str, where: str) -> NDArray[Any]:
    return _to_numpy(_column(table, name, where))


def _to_numpy(array: pa.Array) -> NDArray[Any]:
    """Integers as int32 where the file has no more, else as int64, so that what is out of range stays visible."""
    import pyarrow as pa

    if array.type != pa.int32():
        # Beyond 63 bits nothing is in range anyway.
        array = array.cast(pa.int64(), safe=array.type != pa.uint64())
    column: NDArray[Any] = array.to_numpy()
    return column


def _padded(lists: pa.Array, where: str) -> NDArray[Any]:
    """A column of lists as one row each, padded with -1 on the right."""
    flat = lists.flatten()
    if flat.null_count:
        raise LayoutError("has a list with a null in it", where=where)
    values, lengths = _to_numpy(flat), lists.value_lengths().to_numpy()
    if (values < 0).any():
        row_of_value = np.repeat(np.arange(len(lists)), lengths)
        _refuse_rows(np.unique(row_of_value[values < 0]), "a broker id is negative", where)
    if lengths.max(initial=0) > LONGEST_LIST:
        _refuse_rows(np.flatnonzero(lengths > LONGEST_LIST), f"more than {LONGEST_LIST} brokers in a list", where)
    return pack_flat(values, lengths)


def _refuse_rows(rows: NDArray[np.intp], words: str, where: str) -> None:
    Problems(len(rows), tuple(f"row {row}: {words}" for row in rows[:NAMED_PROBLEMS])).refuse(where)


def list_array(padded: NDArray[np.int32]) -> pa.Array:
    """Padded lists as an Arrow array of lists."""
    import pyarrow as pa

    lengths = sizes(padded)
    offsets = np.zeros(len(padded) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(padded[padded != NONE]), partitions_schema().field("isr").type
    )
