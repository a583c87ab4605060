"""Layout files: round trips, reproducible bytes, and errors that leave no partial file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import LayoutError
from simzk.partitions.layouts import (
    Layout,
    brokers_in_racks,
    generate_layout,
    read_brokers,
    read_layout,
    write_layout,
)
from simzk.partitions.layouts.files import partitions_schema
from tests.partitions.layout_strategies import Cluster, clusters, layout_of, rows_of

FORMS = (".parquet", ".arrow", ".json")


def small() -> Layout:
    return generate_layout(brokers_in_racks(4, 2), topics=2, partitions=7, replication_factor=2, seed=3)


@given(clusters(moving=True), st.sampled_from(FORMS))
def test_written_layout_is_read_back(cluster: Cluster, form: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"layout{form}"
        write_layout(layout_of(cluster), path)
        read = read_layout(path)
        brokers = read_brokers(path)
        assert not [left for left in path.parent.iterdir() if "unfinished" in left.name]
    read.check()
    assert rows_of(read) == cluster.rows
    for found in (read.brokers, brokers):
        plain = zip(found.ids.tolist(), found.racks, found.live.tolist(), strict=True)
        assert {broker: (rack, live) for broker, rack, live in plain} == cluster.brokers


@pytest.mark.parametrize("form", FORMS)
def test_equal_layouts_give_equal_bytes(tmp_path: Path, form: str) -> None:
    digests = set()
    for name in ("one", "two"):
        write_layout(small(), tmp_path / f"{name}{form}")
        digests.add(hashlib.sha256((tmp_path / f"{name}{form}").read_bytes()).hexdigest())
    assert len(digests) == 1


def test_columns_match_the_documented_schema(tmp_path: Path) -> None:
    write_layout(small(), tmp_path / "layout.parquet")
    schema = pq.read_schema(tmp_path / "layout.parquet")
    assert [(field.name, str(field.type)) for field in schema] == [
        ("topic", "string"),
        ("partition", "int32"),
        ("replicas", "list<element: int32 not null>"),
        ("isr", "list<element: int32 not null>"),
        ("leader", "int32"),
        ("leader_epoch", "int32"),
        ("min_insync_replicas", "int32"),
    ]
    beside = pq.read_schema(tmp_path / "layout.brokers.parquet")
    assert [(field.name, str(field.type)) for field in beside] == [
        ("broker", "int32"),
        ("rack", "string"),
        ("live", "bool"),
    ]


def test_file_of_another_tool_is_read(tmp_path: Path) -> None:
    """Read 64-bit integers, large strings and lists, columns in another order, one more column, no optional one."""
    rows = small()
    table = pa.table(
        {
            "leader": pa.array(rows.leader.tolist(), pa.int64()),
            "note": ["from elsewhere"] * len(rows),
            "isr": pa.array(rows.isr.tolist(), pa.large_list(pa.int64())),
            "replicas": pa.array(rows.replicas.tolist(), pa.list_(pa.int16())),
            "partition": pa.array(rows.partition.tolist(), pa.uint64()),
            "leader_epoch": pa.array(rows.leader_epoch.tolist(), pa.int8()),
            "topic": pa.array([rows.topics[topic] for topic in rows.topic], pa.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "other.parquet")
    read = read_layout(tmp_path / "other.parquet")
    assert rows_of(read) == rows_of(rows)
    assert read.brokers.ids.tolist() == sorted({int(broker) for broker in rows.replicas.ravel()})
    assert set(read.brokers.racks) == {None}


def test_row_groups_with_different_dictionaries_are_one_column(tmp_path: Path) -> None:
    table = pa.concat_tables([_rows_table("a"), _rows_table("b")])
    pq.write_table(table, tmp_path / "groups.parquet", row_group_size=2)
    read = read_layout(tmp_path / "groups.parquet")
    assert [read.topics[topic] for topic in read.topic] == ["a"] * 3 + ["b"] * 3


def _rows_table(topic: str) -> pa.Table:
    rows = [
        {"topic": topic, "partition": number, "replicas": [1, 2], "isr": [1], "leader": 1, "leader_epoch": 0}
        for number in range(3)
    ]
    return pa.Table.from_pylist(rows, partitions_schema().remove(8).remove(7).remove(6))


@pytest.mark.parametrize(("form", "name"), [(".parquet", "Parquet"), (".arrow", "Arrow")])
def test_truncated_file_raises(tmp_path: Path, form: str, name: str) -> None:
    write_layout(small(), tmp_path / f"layout{form}")
    whole = (tmp_path / f"layout{form}").read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path = tmp_path / f"cut_{length}{form}"
        path.write_bytes(whole[:length])
        with pytest.raises(LayoutError, match=f"cannot be read as {name}"):
            read_layout(path)


def test_arrow_file_of_another_tool_is_read(tmp_path: Path) -> None:
    with pa.ipc.new_file(str(tmp_path / "other.arrow"), _rows_table("t").schema) as file:
        for batch in _rows_table("t").to_batches(max_chunksize=2):
            file.write_batch(batch)
    read = read_layout(tmp_path / "other.arrow")
    read.check()
    assert (read.topics, len(read), read.brokers.ids.tolist()) == (("t",), 3, [1, 2])


def test_truncated_brokers_file_raises(tmp_path: Path) -> None:
    path = tmp_path / "layout.parquet"
    write_layout(small(), path)
    beside = tmp_path / "layout.brokers.parquet"
    beside.write_bytes(beside.read_bytes()[:-3])
    with pytest.raises(LayoutError, match=r"layout\.brokers\.parquet: cannot be read as Parquet"):
        read_layout(path)


@pytest.mark.parametrize("column", ["topic", "partition", "replicas", "isr", "leader", "leader_epoch"])
def test_missing_column_raises(tmp_path: Path, column: str) -> None:
    path = tmp_path / "layout.parquet"
    write_layout(small(), path)
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    with pytest.raises(LayoutError, match=f"has no column '{column}'"):
        read_layout(path)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("replicas", pa.array(["1"] * 7), "column 'replicas' has type string; expected list"),
        ("topic", pa.array([1] * 7), "column 'topic' has type int64; expected string"),
        ("leader", pa.array([1.0] * 7), "column 'leader' has type double; expected int32"),
        (
            "partition",
            pa.array([0, None, 2, 3, 4, 5, None]),
            "2 invalid partitions:\n  row 1: partition is null; expected int32",
        ),
        (
            "isr",
            pa.array([[1]] * 6 + [[1, None]]),
            "row 6 ({}): isr [1, None] has a null in it; expected ids of brokers",
        ),
        (
            "replicas",
            pa.array([[0]] * 6 + [[1, -1]]),
            "row 6 ({}): replicas [1, -1] has a negative id; expected ids of",
        ),
        (
            "replicas",
            pa.array([[0]] * 6 + [list(range(300))]),
            "row 6 ({}): replicas lists 300 brokers; expected at most",
        ),
        ("replicas", pa.array([[]] * 7), "7 invalid partitions:\n  row 0 ("),
        ("replicas", pa.array([[]] * 7), "row 6 ({}): the list of replicas is empty; expected one or more"),
        ("leader", pa.nulls(7), "row 6 ({}): leader is null; expected int32"),
    ],
)
def test_column_of_wrong_type_raises(tmp_path: Path, column: str, values: pa.Array, message: str) -> None:
    path = tmp_path / "layout.parquet"
    write_layout(small(), path)
    table = pq.read_table(path)
    last = f"{table['topic'][6]}-{table['partition'][6]}"
    pq.write_table(table.set_column(table.column_names.index(column), column, values), path)
    with pytest.raises(LayoutError) as caught:
        read_layout(path)
    assert message.format(last) in str(caught.value)


def test_column_of_empty_lists_without_type_is_read(tmp_path: Path) -> None:
    """pyarrow and pandas infer such a column for ISRs of new partitions and for brokers without racks."""
    path = tmp_path / "layout.parquet"
    write_layout(small(), path)
    table = pq.read_table(path)
    for column, values in (("isr", pa.array([[]] * 7)), ("leader", pa.array([-1] * 7))):
        table = table.set_column(table.column_names.index(column), column, values)
    pq.write_table(table, path)
    beside = tmp_path / "layout.brokers.parquet"
    brokers = pq.read_table(beside)
    pq.write_table(brokers.set_column(1, "rack", pa.nulls(len(brokers))), beside)
    read = read_layout(path)
    assert (read.isr == -1).all()
    assert set(read.brokers.racks) == {None}
    read.check()


@pytest.mark.parametrize(
    ("brokers", "message"),
    [
        ([{"broker": 1, "rack": None, "live": True}] * 2, "broker 1 is repeated"),
        ([{"broker": -1, "rack": None, "live": True}], "broker id -1 is out of range"),
        ([{"broker": 2**20, "rack": None, "live": True}], "broker id 1048576 is out of range (0 to 1048575)"),
        ([{"broker": 1, "rack": "", "live": True}], "row 0 (1): the rack name is empty; expected a name or null"),
        ([{"broker": "one", "rack": None, "live": True}], 'row 0: broker is "one"; expected a whole number'),
        ([{"broker": True, "rack": None, "live": True}], "row 0: broker is true; expected a whole number"),
        ([{"broker": 1, "rack": 2, "live": True}], "row 0: rack is 2; expected a string"),
        ([{"broker": 1, "rack": "a", "live": 1}], "row 0: live is 1; expected true or false"),
        ([{"broker": 1, "rack": "a"}], "row 0: live is missing; expected true or false"),
        ([{"broker": n, "rack": "a"} for n in range(12)], "12 invalid brokers:"),
        ([{"broker": 1, "rack": None, "live": True}] * 13, "12 invalid brokers:\n  row 1 (1): broker 1 is repeated"),
        ([{"broker": None, "rack": None, "live": True}], "row 0: broker is null"),
        (["one"], "not a list of objects"),
    ],
)
def test_invalid_brokers_raise(tmp_path: Path, brokers: object, message: str) -> None:
    path = tmp_path / "layout.json"
    path.write_text(json.dumps({"brokers": brokers, "partitions": []}))
    with pytest.raises(LayoutError) as caught:
        read_layout(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"brokers":[]}', "\xff"])
def test_json_without_layout_raises(tmp_path: Path, text: str) -> None:
    path = tmp_path / "layout.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(LayoutError, match=r"not a layout|cannot be read as JSON"):
        read_layout(path)


def test_missing_file_and_unknown_format_raise(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="there is no such file"):
        read_layout(tmp_path / "none.parquet")
    with pytest.raises(
        LayoutError, match=r"unknown format '\.csv' of a layout file; expected \.parquet, \.arrow or \.json"
    ):
        read_layout(tmp_path / "none.csv")
    with pytest.raises(LayoutError, match="cannot be written"):
        write_layout(small(), tmp_path / "no" / "such" / "folder.parquet")


def test_empty_layout_is_written_and_read(tmp_path: Path) -> None:
    empty = layout_of(Cluster([], {}))
    for form in FORMS:
        write_layout(empty, tmp_path / f"empty{form}")
        read = read_layout(tmp_path / f"empty{form}")
        read.check()
        assert len(read) == 0
        assert read.replicas.dtype == np.int32


@pytest.mark.parametrize("form", FORMS)
def test_adding_and_removing_are_written_only_if_not_empty(tmp_path: Path, form: str) -> None:
    """Layouts without reassignments keep the same files."""
    still, path = small(), tmp_path / f"layout{form}"
    write_layout(still, path)
    assert b"removing" not in path.read_bytes()
    assert read_layout(path).adding.tolist() == [[-1]] * len(still)
    gone = still.replicas[:, :1].copy()
    gone[1:] = -1
    write_layout(replace(still, removing=gone), path)
    assert read_layout(path).removing.tolist() == gone.tolist()
    assert read_layout(path).reassigning.tolist() == [0]
