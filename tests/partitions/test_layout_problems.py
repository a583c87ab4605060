"""Invalid layouts raise an error that lists the first ten invalid rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given

from simzk.errors import LayoutError
from simzk.partitions.layouts import Brokers, Layout, brokers_in_racks, generate_layout, read_layout, write_layout
from simzk.partitions.layouts.layout import find_problems
from tests.partitions.layout_strategies import Cluster, clusters, layout_of

if TYPE_CHECKING:
    from pathlib import Path


def healthy(partitions: int = 30) -> Layout:
    return generate_layout(brokers_in_racks(5, 5), topics=1, partitions=partitions, replication_factor=3, seed=1)


@given(clusters(moving=True))
def test_valid_layout_is_accepted(cluster: Cluster) -> None:
    layout_of(cluster).check()


RIGHT = {
    "topic": "t",
    "partition": 0,
    "replicas": [1, 2, 3],
    "isr": [1, 2],
    "leader": 1,
    "leader_epoch": 0,
    "min_insync_replicas": 1,
    "adding": [],
    "removing": [],
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"replicas": [1, 2, 9]}, "replica on unknown broker 9"),
        ({"replicas": [1, 2, 2]}, "duplicate replicas [1, 2, 2]"),
        ({"replicas": []}, "the list of replicas is empty"),
        ({"replicas": [1, 2, 2**31]}, "replicas [1, 2, 2147483648] is out of range (0 to 1048575)"),
        ({"isr": [1, 4]}, "ISR [1, 4] has a member that is not in replicas [1, 2, 3]"),
        ({"isr": [1, 1]}, "duplicate members in ISR [1, 1]"),
        ({"leader": 3}, "leader 3 is neither -1 (none) nor in ISR [1, 2]"),
        ({"leader": -2}, "leader -2 is neither -1 (none) nor in ISR [1, 2]"),
        ({"leader": 2**40 + 1}, "leader 1099511627777 is neither -1 (none) nor in ISR [1, 2]"),
        ({"leader_epoch": -1}, "leader_epoch -1 is out of range"),
        ({"leader_epoch": 2**31}, "leader_epoch 2147483648 is out of range"),
        ({"partition": -1}, "row 1 (t--1): the partition number is out of range"),
        ({"partition": 2**32}, "the partition number is out of range"),
        ({"partition": 7}, "row 1 (t-7): the partition is in an earlier row too"),
        ({"min_insync_replicas": 0}, "min_insync_replicas 0 is out of range (1 or more)"),
        ({"adding": [4]}, "adding [4] has a member that is not in replicas [1, 2, 3]"),
        ({"removing": [2, 2**40]}, "removing [2, 1099511627776] has a member that is not in replicas [1, 2, 3]"),
        ({"adding": [3, 3]}, "duplicate members in adding [3, 3]; expected each once"),
        ({"removing": [1, 1]}, "duplicate members in removing [1, 1]; expected each once"),
        ({"adding": [3, 2], "removing": [2]}, "adding [3, 2] and removing [2] share a member"),
        ({"removing": [3, 2, 1]}, "removing [3, 2, 1] leaves none of replicas [1, 2, 3]; expected at least one"),
        ({"topic": "a/b"}, "invalid topic name"),
        ({"topic": ".."}, "invalid topic name"),
        ({"topic": ""}, "invalid topic name"),
    ],
)
@pytest.mark.parametrize("form", [".json", ".parquet"])
def test_each_broken_rule_has_its_message(tmp_path: Path, wrong: dict[str, object], message: str, form: str) -> None:
    path = tmp_path / f"layout{form}"
    document: dict[str, list[dict[str, object]]] = {
        "brokers": [{"broker": broker, "rack": None, "live": True} for broker in (1, 2, 3, 4)],
        "partitions": [{**RIGHT, "partition": 7}, {**RIGHT, **wrong}, {**RIGHT, "partition": 8}],
    }
    if form == ".json":
        path.write_text(json.dumps(document))
    else:
        _write_wide(document, path)
    with pytest.raises(LayoutError) as caught:
        read_layout(path)
    assert str(caught.value).startswith(f"{path}: 1 invalid partition:\n  row 1 (")
    assert message in str(caught.value)


def _write_wide(document: dict[str, list[dict[str, object]]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(document["partitions"]), path)
    pq.write_table(
        pa.Table.from_pylist(document["brokers"]).cast(
            pa.schema([("broker", pa.int64()), ("rack", pa.string()), ("live", pa.bool_())])
        ),
        path.with_name("layout.brokers.parquet"),
    )


def test_number_beyond_64_bits_in_json_raises(tmp_path: Path) -> None:
    path = tmp_path / "layout.json"
    path.write_text(json.dumps({"brokers": [], "partitions": [{**RIGHT, "leader": 2**63}]}))
    with pytest.raises(LayoutError, match=r"row 0 \(t-0\): leader is 9223372036854775808; expected a whole number"):
        read_layout(path)


def test_error_lists_ten_rows_and_counts_the_rest(tmp_path: Path) -> None:
    layout = healthy()
    leader = layout.leader.copy()
    leader[3:28] = 99
    replicas = layout.replicas.copy()
    replicas[1, 1] = replicas[1, 0]
    path = tmp_path / "layout.parquet"
    write_layout(replace(layout, leader=leader, replicas=replicas), path)
    with pytest.raises(LayoutError) as caught:
        read_layout(path)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path}: 26 invalid partitions:"
    assert [line.split()[1] for line in lines[1:-1]] == ["1", "3", "4", "5", "6", "7", "8", "9", "10", "11"]
    assert lines[-1] == "  and 16 more"


def test_a_row_that_breaks_two_rules_counts_once() -> None:
    layout = healthy()
    leader, leader_epoch = layout.leader.copy(), layout.leader_epoch.copy()
    leader[4], leader_epoch[4] = 99, -5
    problems = find_problems(replace(layout, leader=leader, leader_epoch=leader_epoch))
    assert problems.total == 1
    assert len(problems.first) == 1


def test_replica_on_removed_broker_raises() -> None:
    layout = healthy()
    fewer = Brokers.from_racks(dict.fromkeys(range(4)))
    problems = find_problems(replace(layout, brokers=fewer))
    assert problems.total == int(np.count_nonzero((layout.replicas == 4).any(axis=1)))
    assert "replica on unknown broker 4" in problems.first[0]


@pytest.mark.parametrize("column", ["replicas", "isr"])
def test_check_rejects_wrong_padding(column: str) -> None:
    layout = healthy()
    padded = getattr(layout, column).copy()
    padded[2, 0] = -1
    with pytest.raises(AssertionError):
        replace(layout, **{column: padded}).check()
