"""`simzk layout plan`, as typed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simzk.partitions.arrays import unpack
from simzk.partitions.layouts import read_layout
from simzk.partitions.plans.plan import PHASES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

MOVES = {("topic-0", 0): [0, 3, 1], ("topic-1", 1): [5, 4, 0], ("topic-1", 2): [2, 3, 4]}


def entries(moves: dict[tuple[str, int], list[int]]) -> str:
    rows = [{"topic": name, "partition": number, "replicas": replicas} for (name, number), replicas in moves.items()]
    return json.dumps({"version": 1, "partitions": rows})


@pytest.fixture
def folder(simzk: Simzk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A layout of twelve partitions, where [3, 1, 2], [2, 1, 3] and [3, 2, 4] move, and a plan."""
    monkeypatch.chdir(tmp_path)
    made = ["--brokers", 6, "--racks", 3, "--topics", 2, "--partitions", 12, "--rf", 3, "--seed", 1]
    simzk("layout", "make", *made, "--min-insync-replicas", 2, "--out", "l.parquet")
    (tmp_path / "plan.json").write_text(entries(MOVES))
    return tmp_path


def lines(text: str) -> set[str]:
    return {" ".join(line.split()) for line in text.splitlines()}


def test_the_effects_of_a_plan_are_shown(simzk: Simzk, folder: Path) -> None:
    status, out, err = simzk("layout", "plan", "l.parquet", "plan.json", "--fail", 0)
    assert (status, err) == (0, "")
    assert {
        "plan.json, executed by Kafka 3.9",
        "partitions 3",
        "gain replicas 2",
        "change the order of replicas only 1",
        "change the preferred leader 3",
        "replicas copied 4, 2 between racks",
        "rack violations 0 before, 1 after",
        "added 1 of 3 (33.3%)",
        "│ joined │ 40 │ 9 │ 0 │ 0 │ 0 │ 0 │ - │ 6 │",
        "│ led │ 0 │ 0 │ 0 │ 2 │ 4 │",
        "│ rack1 │ 12 → 14 → 13 │ 4 │ 4 → 3 │ 2 │ 1 │",
        "│ 2 │ 6 → 4 │ 2 → 1 │ 2 │ 0 │ 3 │",
        "│ topic-0-0 │ 3, 1, 2 → 0, 3, 1 │ 0 │ 2 │ 3 │ 0 → 3 │ breaks the rack rule │",
        "│ topic-1-2 │ 3, 2, 4 → 2, 3, 4 │ - │ - │ 3 │ 0 → 1 │ │",
    } <= lines(out), out


def test_a_narrow_terminal_leaves_columns_out(simzk: Simzk, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    out = re.sub(r"\x1b\[[0-9;]*m", "", simzk("layout", "plan", "l.parquet", "plan.json", "--fail", 0, "--fail", 0).out)
    assert max(map(len, out.splitlines())) <= 80
    assert "│ finished │" in out
    assert "worst failure" not in out
    assert "Failure of broker 0 after each phase" in out


def test_what_is_written_says_the_same(simzk: Simzk, folder: Path) -> None:
    simzk("layout", "plan", "l.parquet", "plan.json", "--out", "a.parquet", "--diff", "d.parquet", "--json", "r.json")
    after, rows = read_layout("a.parquet"), pq.read_table("d.parquet").to_pylist()
    names = zip((after.topics[topic] for topic in after.topic), after.partition.tolist(), strict=True)
    places = {name: at for at, name in enumerate(names)}
    for row in rows:
        place = places[row["topic"], row["partition"]]
        assert list(unpack(after.replicas)[place]) == row["after"] == MOVES[row["topic"], row["partition"]]
        assert after.leader[place] == row["leader_after"]
        assert after.leader_epoch[place] == row["leader_epoch_after"]
    assert [row["order_only"] for row in rows] == [False, False, True]
    report = json.loads((folder / "r.json").read_text())
    assert [phase["phase"] for phase in report["phases"]] == list(PHASES)
    assert report["replicas"] == {"copied": 4, "cross_rack": 2, "unsourced": 0, "deleted": 4}
    assert sum(broker["copied_in"] for broker in report["brokers"]) == 4
    assert report["bytes"] is None
    assert report["partitions"]["breaks_racks"] == 1


def test_the_middle_of_a_plan_is_a_layout_to_go_on_from(simzk: Simzk, folder: Path) -> None:
    simzk("layout", "plan", "l.parquet", "plan.json", "--phase", "joined", "--out", "middle.json")
    middle = read_layout("middle.json")
    assert max(map(len, unpack(middle.isr))) == 6
    assert simzk("layout", "show", "middle.json").status == 0


def test_sizes_make_bytes_of_replicas(simzk: Simzk, folder: Path) -> None:
    layout = read_layout("l.parquet")
    names = [layout.topics[topic] for topic in layout.topic]
    sizes = [1 << (20 + at) for at in range(len(names))]
    table = pa.table({"topic": names, "partition": layout.partition, "size_bytes": sizes})
    pq.write_table(table, "sizes.parquet")
    numbers = layout.partition.tolist()
    dirs = [
        {"partition": f"{name}-{number}", "size": size, "offsetLag": 0, "isFuture": False}
        for name, number, size in zip(names, numbers, sizes, strict=True)
    ]
    smaller = [{**row, "size": size // 2} for row, size in zip(dirs, sizes, strict=True)]
    later = [{**row, "size": size * 2, "isFuture": True} for row, size in zip(dirs, sizes, strict=True)]
    brokers = [
        {"broker": at, "logDirs": [{"partitions": rows, "error": None, "logDir": "/d"}]}
        for at, rows in enumerate((smaller, dirs, later))
    ]
    said = f"Querying brokers for log directories information\nReceived\n{json.dumps({'brokers': brokers})}\n"
    (folder / "dirs.json").write_text(said)
    first, second = (
        simzk("layout", "plan", "l.parquet", "plan.json", "--sizes", name, "--json", f"{name}.out")
        for name in ("sizes.parquet", "dirs.json")
    )
    assert first.status == 0, first
    assert first == second
    report = json.loads((folder / "sizes.parquet.out").read_text())
    # One copy of the first partition, three of the eighth.
    assert report["bytes"]["copied"] == sizes[0] + 3 * sizes[names.index("topic-1") + 1]
    assert {"data copied 385.0 MiB, 256.0 MiB between racks"} <= lines(first.out), first.out
    held = {when: sum(broker[f"bytes_{when}"] for broker in report["brokers"]) for when in ("before", "peak", "after")}
    assert held["before"] == held["after"] == 3 * sum(sizes)
    assert held["peak"] >= held["before"] + report["bytes"]["copied"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--kafka-version", "4.0"], "Kafka '4.0' is not simulated"),
        (["--fail", "9"], "--fail: the layout has no broker 9"),
        (["--phase", "middle"], "--phase: unknown phase 'middle'; expected before, widened,"),
        (["--sizes", "none.parquet"], "none.parquet: there is no such file"),
        (["--sizes", "plan.json"], "plan.json: cannot be read"),
        (["--sizes", "few.parquet"], "few.parquet: no size is given for topic-0-0, topic-1-2; expected sizes of all"),
        (["--sizes", "negative.parquet"], "negative.parquet: the size of topic-1-1 is negative"),
        (["--sizes", "l.parquet"], "l.parquet: has no column 'size_bytes'"),
        (["--sizes", "sizes.csv"], "sizes.csv: unknown format '.csv' of a file of sizes"),
        (["--diff", "d.csv"], "d.csv: unsupported file type '.csv'"),
        (["--json", "no/r.json"], "no/r.json: cannot write the file"),
    ],
)
def test_what_cannot_be_is_refused(simzk: Simzk, folder: Path, more: list[str], said: str) -> None:
    for name, size in (("few", 7), ("negative", -7)):
        table = pa.table({"topic": ["topic-1", "else"], "partition": [1, 0], "size_bytes": [size, 1]})
        pq.write_table(table, f"{name}.parquet")
    status, out, err = simzk("layout", "plan", "l.parquet", "plan.json", *more)
    assert (status, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no JSON", "reassignment: contains b'no JSON', which is no JSON"),
        (entries({}), "Partition reassignment list cannot be empty"),
        (entries({("topic-9", 0): [1]}), "Topic topic-9 not found."),
        (entries({("topic-0", 0): [1, 17]}), "Unknown broker id 17"),
        (entries({("topic-0", 0): [1, 1]}), "topic-0-0 contains multiple entries for 1"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(simzk: Simzk, folder: Path, text: str, said: str) -> None:
    (folder / "plan.json").write_text(text)
    status, out, err = simzk("layout", "plan", "l.parquet", "plan.json", "--out", "a.parquet")
    assert (status, out) == (2, "")
    assert said in err
    assert not (folder / "a.parquet").exists()


def test_many_brokers_and_partitions_are_summed_up(simzk: Simzk, folder: Path) -> None:
    simzk("layout", "make", "--brokers", 60, "--racks", 0, "--partitions", 300, "--rf", 1, "--out", "many.json")
    layout = read_layout("many.json")
    moves = {("topic-0", at): [(broker + 1) % 60] for at, broker in enumerate(layout.leader.tolist())}
    (folder / "many.plan.json").write_text(entries(moves))
    for version in ("3.9", "0.10.0", "0.8.0"):
        status, out, _ = simzk("layout", "plan", "many.json", "many.plan.json", "--kafka-version", version)
        assert status == 0
        assert "and 290 more: --diff FILE writes all" in out
        assert "Brokers with most data copied in (5) and out (5)" in out
        assert "rack violations" not in out
