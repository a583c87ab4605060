"""Between Arrow tables, as files hold them, and the columns of a `Layout`.

What comes in is taken if its values fit, and refused by column, or by row, if they do not (rows.py, problems.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simzk.partitions.arrays import MAX_BROKER_ID, NONE, sizes
from simzk.partitions.layouts.layout import Brokers, Layout
from simzk.partitions.layouts.problems import find_problems
from simzk.partitions.layouts.rows import Rows, rows_of_json

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

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
