"""A layout that cannot be is refused whole at every door, and its first ten wrong places are named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simzk import KafkaCluster
from simzk.errors import LayoutError
from simzk.partitions.layouts import brokers_in_racks, generate_layout, read_layout, write_layout
from simzk.zookeeper.persistence import encode_snapshot
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Finished, Simzk

PARTITIONS = 14
WRONG: dict[str, tuple[dict[str, object], str]] = {
    "unknown broker": ({"replicas": [0, 9]}, "replica on unknown broker 9; expected one of 0, 1, 2"),
    "duplicate": ({"replicas": [0, 0]}, "duplicate replicas [0, 0]; expected each once"),
    "empty": ({"replicas": [], "isr": [], "leader": -1}, "the list of replicas is empty; expected one or more"),
    "out of range": (
        {"replicas": [0, 2**40]},
        "a broker id of replicas [0, 1099511627776] is out of range (0 to 1048575)",
    ),
    "negative": ({"replicas": [0, -1]}, "replicas [0, -1] has a negative id; expected ids of brokers"),
    "leader": ({"leader": 2}, "leader 2 is neither -1 (none) nor in ISR [0]"),
    "added": ({"adding": [2]}, "adding [2] has a member that is not in replicas [0, 1]"),
    "removed": ({"removing": [1, 0]}, "removing [1, 0] leaves none of replicas [0, 1]; expected at least one"),
    "epoch": ({"leader_epoch": 2**31}, "leader_epoch 2147483648 is out of range (0 or more)"),
}
DOORS = {
    "show": ("layout", "show", "{}"),
    "plan": ("layout", "plan", "{}", "{}.plan.json"),
    "sweep": ("sweep", "{}", "--fail", "brokers:1", "--out", "{}.out"),
    "serve": ("serve", "--port", "0", "--kafka", "{}"),
    "risk": ("risk", "{}", "--out", "{}.out"),
}
DOOR_NAMES = [pytest.param(door, marks=pytest.mark.slow) if door == "sweep" else door for door in DOORS]  # on Spark


def rows(wrong: dict[str, object]) -> list[dict[str, Any]]:
    right = {"topic": "t", "replicas": [0, 1], "isr": [0], "leader": 0, "leader_epoch": 0, **wrong}
    return [{**right, "partition": number} for number in range(PARTITIONS)]


def write(folder: Path, form: str, wrong: dict[str, object]) -> Path:
    """A layout as some tool may have written it."""
    path = folder / f"layout{form}"
    brokers = [{"broker": broker, "rack": None, "live": True} for broker in range(3)]
    if form == ".json":
        path.write_text(json.dumps({"brokers": brokers, "partitions": rows(wrong)}))
    else:
        pq.write_table(pa.Table.from_pylist(rows(wrong)), path)
        pq.write_table(pa.Table.from_pylist(brokers), folder / "layout.brokers.parquet")
    (folder / f"{path.name}.plan.json").write_text('{"version":1,"partitions":[]}')
    return path


def at_door(simzk: Simzk, door: str, path: Path) -> Finished:
    before = sorted(path.parent.iterdir())
    done = simzk(*(word.format(path) for word in DOORS[door]))
    assert done.status == 2
    assert done.out == ""
    assert sorted(path.parent.iterdir()) == before, "nothing is written"
    return done


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("form", [".parquet", ".json"])
@pytest.mark.parametrize("door", DOOR_NAMES)
def test_the_first_ten_rows_are_named(simzk: Simzk, tmp_path: Path, door: str, form: str, wrong: str) -> None:
    change, message = WRONG[wrong]
    path = write(tmp_path, form, change)
    lines = [f"  row {number} (t-{number}): {message}\n" for number in range(10)]
    expected = f"{path}: 14 invalid partitions:\n{''.join(lines)}  and 4 more"
    assert at_door(simzk, door, path).err == f"simzk: error: {expected}\n"
    with pytest.raises(LayoutError) as caught:
        read_layout(path)
    assert str(caught.value) == expected


@pytest.mark.parametrize("form", [".parquet", ".json"])
@pytest.mark.parametrize("door", DOOR_NAMES)
def test_a_truncated_file_is_refused(simzk: Simzk, tmp_path: Path, door: str, form: str) -> None:
    path = write(tmp_path, form, {})
    whole = path.read_bytes()
    for length in (0, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert f"{path}: cannot be read as " in at_door(simzk, door, path).err


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("replicas", {0: 1}, "column 'replicas' has type"),
        ("leader", "0", "column 'leader' has type string; expected int32"),
        ("leader", 0.5, "column 'leader' has type double; expected int32"),
        ("topic", 1, "column 'topic' has type int64; expected string"),
    ],
)
@pytest.mark.parametrize("door", DOOR_NAMES)
def test_a_column_of_a_wrong_type_is_named(
    simzk: Simzk, tmp_path: Path, door: str, column: str, values: object, message: str
) -> None:
    wrong = {column: str(values) if isinstance(values, dict) else values}
    path = write(tmp_path, ".parquet", wrong)
    assert message in at_door(simzk, door, path).err
    path = write(tmp_path, ".json", wrong)
    err = at_door(simzk, door, path).err
    assert f"{path}: partitions: 14 invalid partitions:\n  row 0 (" in err
    assert f"): {column} is {json.dumps(wrong[column])}; expected a" in err


def test_a_cluster_does_not_go_on_from_what_is_no_layout() -> None:
    """A layout that was put together by hand."""
    layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=PARTITIONS, replication_factor=2, seed=1)
    replicas = np.where(layout.replicas == 1, 9, layout.replicas).astype(np.int32)
    with pytest.raises(LayoutError, match=r"^layout: \d+ invalid partitions:\n  row \d+ \(topic-0-\d+\): replica on"):
        KafkaCluster.from_layout(replace(layout, replicas=replicas))


def snapshot_of(folder: Path, znodes: dict[str, bytes]) -> None:
    """A data directory with these znodes."""
    tree = DataTree()
    for path, data in znodes.items():
        names = path[1:].split("/")
        for depth in range(1, len(names)):
            if (above := "/" + "/".join(names[:depth])) not in tree:
                tree.plant(above, Znode(None, OPEN_ACL, 0, 1, 1))
        tree.plant(path, Znode(data, OPEN_ACL, 0, 1, 1))
    (folder / "version-2").mkdir(parents=True)
    (folder / "version-2" / "snapshot.1").write_bytes(b"".join(encode_snapshot(tree, [], lambda: (1, 0), digest=False)))


TOPIC = "/brokers/topics/t"
LIST = ",".join(f'"{number}":[1]' for number in range(PARTITIONS))
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'


@pytest.mark.parametrize(
    ("change", "first", "last"),
    [
        (
            {TOPIC: LIST.replace("[1]", "[1,1]")},
            "row 0 (t-0): duplicate replicas [1, 1]; expected each once",
            "and 4 more",
        ),
        ({TOPIC: LIST.replace("[1]", "[]")}, "row 0 (t-0): the list of replicas is empty", "and 4 more"),
        ({"state": STATE.replace(b"[1]", b"[2]").decode()}, "row 0 (t-0): ISR [2] has a member that", "and 4 more"),
        ({"state": STATE[:-9].decode()}, f"{TOPIC}/partitions/0/state: contains b'", "and 4 more"),
        ({"state": STATE.replace(b"[1]", b'"1"').decode()}, '/state: field isr is "1"; expected a list', "and 4 more"),
        (
            {"moving": ',"adding_replicas":{"0":[2]},"removing_replicas":{}'},
            "row 0 (t-0): adding [2] has a member that is not in replicas [1]",
            "replicas [1]",
        ),
        ({TOPIC: LIST[:-4]}, f"{TOPIC}: contains b'", "expected JSON"),
    ],
)
def test_znodes_of_a_data_directory_are_refused_so_too(
    simzk: Simzk, tmp_path: Path, change: dict[str, str], first: str, last: str
) -> None:
    texts = {TOPIC: LIST, "moving": "", "state": STATE.decode(), **change}
    znodes = {TOPIC: b'{"version":1,"partitions":{%b}%b}' % (texts[TOPIC].encode(), texts["moving"].encode())}
    znodes |= {f"{TOPIC}/partitions/{number}/state": texts["state"].encode() for number in range(PARTITIONS)}
    snapshot_of(tmp_path / "data", znodes)
    out = tmp_path / "layout.parquet"
    done = simzk("layout", "import", "--data-dir", tmp_path / "data", "--out", out)
    assert done.status == 2
    assert done.err.startswith(f"simzk: error: {tmp_path / 'data'}")
    assert first in done.err
    assert done.err.rstrip().endswith(last)
    assert done.err.count("\n") == {"and 4 more": 12, "replicas [1]": 2}.get(last, 1)
    assert not out.exists()


def test_a_snapshot_with_a_wrong_checksum_is_no_layout(simzk: Simzk, tmp_path: Path) -> None:
    snapshot_of(tmp_path / "data", {TOPIC: b'{"version":1,"partitions":{"0":[1]}}'})
    snapshot = tmp_path / "data" / "version-2" / "snapshot.1"
    snapshot.write_bytes(snapshot.read_bytes().replace(b'"0":[1]', b'"0":[2]'))
    done = simzk("layout", "import", "--data-dir", tmp_path / "data", "--out", tmp_path / "layout.parquet")
    assert (done.status, done.out) == (2, "")
    assert "it contains only damaged snapshots; expected a whole snapshot, or no files" in done.err
    assert not (tmp_path / "layout.parquet").exists()


def test_what_is_right_passes_every_door(simzk: Simzk, tmp_path: Path) -> None:
    """So that it is the layout which was refused."""
    for form in (".parquet", ".json"):
        layout = read_layout(write(tmp_path, form, {}))
        write_layout(layout, tmp_path / f"again{form}")
        assert simzk("layout", "show", tmp_path / f"layout{form}").status == 0
        assert KafkaCluster.from_layout(layout).run_until_quiet()
