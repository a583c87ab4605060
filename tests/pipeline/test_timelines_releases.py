"""Timelines of what brokers of all recorded releases wrote, 0.8.0 to 3.9.1: those that looking at the tree gives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from simzk.pipeline.timelines.run import plan_timelines, run_timelines, run_timelines_here
from tests.pipeline.plain_timelines import Timelines
from tests.pipeline.recorded_logs import RELEASES, write_logs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Rows = list[dict[str, Any]]

pytestmark = pytest.mark.slow

STATE = ("leader", "isr", "leader_epoch", "controller_epoch", "version", "replicas", "min_isr", "session")
CONDITIONS = ("offline", "under_replicated", "under_min_isr")
LEADER, ISR = 0, 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("releases")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Timelines:
    return Timelines(write_logs(folder))


@pytest.fixture(scope="module", params=[pytest.param("Spark", marks=pytest.mark.java), "here"])
def table(request: pytest.FixtureRequest, folder: Path, plain: Timelines) -> Callable[[str], Rows]:
    """The rows of a table, computed on Spark or in this process."""
    out = folder / f"out-{request.param}"
    plan = plan_timelines([str(folder)], out)
    if request.param == "here":
        found = run_timelines_here(plan)
    else:
        found = run_timelines(request.getfixturevalue("spark"), plan)
    assert found.damages == []
    assert found.transactions == plain.writers.total()

    def rows(name: str) -> Rows:
        reported: Rows = ds.dataset(out / name, format="parquet", partitioning="hive").to_table().to_pylist()
        return reported

    return rows


def ms(time: Any) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def merged(rows: Rows, key: Callable[[dict[str, Any]], Any], what: tuple[str, ...]) -> dict[Any, list[tuple[Any, ...]]]:
    """Intervals by thing, in order; those that say the same one after the other are one."""
    lines: dict[Any, list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: row["from_zxid"]):
        reported = tuple(tuple(row[name]) if isinstance(row[name], list) else row[name] for name in what)
        line = lines.setdefault(key(row), [])
        begun, since = row["from_zxid"], ms(row["from"])
        if line and line[-1][0] == reported and line[-1][2] == row["from_zxid"]:
            _, begun, _, since, _ = line.pop()
        line.append((reported, begun, row["until_zxid"], since, ms(row["until"])))
    return lines


def test_partitions_are_what_looking_at_the_tree_after_each_transaction_gives(
    table: Callable[[str], Rows], plain: Timelines
) -> None:
    found = merged(table("partitions"), lambda row: (row["topic"], row["partition"]), (*STATE, *CONDITIONS))
    assert found == {key: [tuple(one) for one in line] for key, line in plain.partitions.items()}
    days = {row["from_zxid"] >> 32: row["day"] for row in table("partitions")}
    assert len(days) == len(set(days.values())) == len(RELEASES)


def test_totals_and_moves_are_those_of_the_intervals(table: Callable[[str], Rows], plain: Timelines) -> None:
    found = {(row.pop("topic"), row.pop("partition")): row for row in table("totals")}
    assert found.keys() == plain.partitions.keys()
    for key, row in found.items():
        sizes = [len(after) - len(before) for _, before, after in plain.moves(key, ISR)]  # type: ignore[arg-type]
        counts = {
            "leader_moves": len(plain.moves(key, LEADER)),
            "isr_shrinks": sum(size < 0 for size in sizes),
            "isr_expansions": sum(size > 0 for size in sizes),
        }
        assert {name: row.pop(name) for name in counts} == counts
        lasted = {"observed_s": plain.seconds(key, None)}
        lasted |= {f"{name}_s": plain.seconds(key, len(STATE) + place) for place, name in enumerate(CONDITIONS)}
        assert row == pytest.approx(lasted, abs=1e-3)
    moves = [
        (row["topic"], row["partition"], row["zxid"], row["from_broker"], row["to_broker"])
        for row in table("leadership")
    ]
    wanted = [(*key, *move) for key in found for move in plain.moves(key, LEADER)]
    assert sorted(moves) == sorted(wanted)
    assert len(moves) > 10 * len(RELEASES)


def test_controllers_and_brokers_are_those_of_the_tree(table: Callable[[str], Rows], plain: Timelines) -> None:
    owned = {key: [tuple(one) for one in line] for key, line in plain.owners.items()}
    what = ("broker", "session")
    assert merged(table("controllers"), lambda _: "controller", what)["controller"] == owned.pop("controller")
    assert merged(table("brokers"), lambda row: f"/brokers/ids/{row['broker']}", what) == owned


def test_sessions_took_what_they_owned_also_where_the_log_does_not_say_so(
    table: Callable[[str], Rows], plain: Timelines
) -> None:
    names = ("timeout_ms", "from_zxid", "until_zxid", "end")
    found = {row["session"]: (*(row[name] for name in names), sorted(row["ephemerals"])) for row in table("sessions")}
    assert found == {session: tuple(ended) for session, ended in plain.sessions.items()}
    taken = [zxid >> 32 for _, _, zxid, _, paths in found.values() if paths]
    assert set(taken) == set(range(1, 1 + len(RELEASES)))


def test_who_wrote_how_often(table: Callable[[str], Rows], plain: Timelines) -> None:
    found: Counter[tuple[object, ...]] = Counter()
    for row in table("writers"):
        found[row["session"], row["operation"]] += row["count"]
    wanted: Counter[tuple[object, ...]] = Counter()
    for (session, operation, _), count in plain.writers.items():
        wanted[session, operation] += count
    assert found == wanted
