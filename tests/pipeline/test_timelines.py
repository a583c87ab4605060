"""Timelines of a real cluster, out of what its ZooKeeper kept: after each step they say what the recorded tree says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import simzk.pipeline
from simzk.kafka.observation.recording import load
from simzk.kafka.zookeeper_mode.schemas import partition_state, topic
from simzk.pipeline.timelines import tables as timelines
from simzk.pipeline.timelines.tables import changes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from simzk.kafka.observation.recording import RecordedZnode

KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2"
STEPS: dict[str, int] = json.loads((KAFKA / "steps.json").read_text())
RECORDED = load(KAFKA / "dumps.json")

# The story's kills and signals, in the order of the brokers' starts; broker 3 and the second life of broker 1 go on.
ENDS = [
    (1, "expired"),
    (2, "closed"),
    (3, None),
    (1, None),
    (2, "expired"),
    (2, "closed"),
]

pytestmark = [pytest.mark.slow, pytest.mark.java]

Row = dict[str, object]


def rows(frame: DataFrame) -> list[Row]:
    found: list[Row] = frame.toArrow().to_pylist()
    return found


@pytest.fixture(scope="module")
def log(spark: SparkSession) -> DataFrame:
    simzk.pipeline.register(spark)
    return spark.read.format("zookeeper_log").load(str(KAFKA)).cache()


@pytest.fixture(scope="module")
def changes(log: DataFrame) -> DataFrame:
    return changes_of(log, None, "").cache()


@pytest.fixture(scope="module")
def partitions(changes: DataFrame) -> list[Row]:
    return rows(timelines.partitions_of(changes))


def at(found: list[Row], zxid: int) -> list[Row]:
    """The intervals that a zxid falls into."""
    return [
        row
        for row in found
        if row["from_zxid"] <= zxid and (row["until_zxid"] is None or zxid < row["until_zxid"])  # type: ignore[operator]
    ]


def states_of(tree: dict[str, RecordedZnode]) -> dict[tuple[str, int], tuple[object, ...]]:
    states: dict[tuple[str, int], tuple[object, ...]] = {}
    for path, znode in tree.items():
        if path.endswith("/state"):
            _, _, _, name, _, number, _ = path.split("/")
            state = partition_state.decode(path, (znode.data or "").encode())
            replicas = topic.decode(f"/brokers/topics/{name}", (tree[f"/brokers/topics/{name}"].data or "").encode())
            states[name, int(number)] = (
                state.leader,
                list(state.isr),
                state.leader_epoch,
                state.controller_epoch,
                znode.version,
                list(replicas.partitions[int(number)].replicas),
            )
    return states


@pytest.mark.parametrize("step", RECORDED.steps)
def test_after_each_step_the_intervals_are_the_recorded_states(partitions: list[Row], step: str) -> None:
    fields = ("leader", "isr", "leader_epoch", "controller_epoch", "version", "replicas")
    found = {
        (row["topic"], row["partition"]): tuple(row[field] for field in fields) for row in at(partitions, STEPS[step])
    }
    assert found == states_of(RECORDED.tree(step))


@pytest.fixture(scope="module")
def controllers(changes: DataFrame) -> list[Row]:
    return rows(timelines.controllers_of(changes))


@pytest.fixture(scope="module")
def brokers(changes: DataFrame) -> list[Row]:
    return rows(timelines.brokers_of(changes))


@pytest.mark.parametrize("step", RECORDED.steps)
def test_after_each_step_controller_and_brokers_are_the_recorded_ones(
    controllers: list[Row], brokers: list[Row], step: str
) -> None:
    tree = RECORDED.tree(step)
    controller = [json.loads(tree["/controller"].data or "")["brokerid"]] if "/controller" in tree else []
    assert [row["broker"] for row in at(controllers, STEPS[step])] == controller
    registered = sorted(int(path.rpartition("/")[2]) for path in tree if path.startswith("/brokers/ids/"))
    assert sorted(row["broker"] for row in at(brokers, STEPS[step])) == registered  # type: ignore[type-var]


def test_partitions_were_as_long_without_a_full_isr_as_their_intervals_say(
    changes: DataFrame, partitions: list[Row]
) -> None:
    end = max(row["from"] for row in partitions)  # type: ignore[type-var]
    end_us = (end - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)  # type: ignore[operator]
    totals = rows(timelines.totals_of(timelines.partitions_of(changes), end_us))
    assert {(row["topic"], row["partition"]) for row in totals} == {
        (row["topic"], row["partition"]) for row in partitions
    }
    for total in totals:
        own = sorted(
            (row for row in partitions if (row["topic"], row["partition"]) == (total["topic"], total["partition"])),
            key=lambda row: int(str(row["from_zxid"])),
        )
        seconds = [((row["until"] or end) - row["from"]).total_seconds() for row in own]  # type: ignore[operator]
        for name in ("offline", "under_replicated", "under_min_isr"):
            wanted = sum(time for time, row in zip(seconds, own, strict=True) if row[name])
            assert total[f"{name}_s"] == pytest.approx(wanted, abs=1e-3)
        assert total["observed_s"] == pytest.approx(sum(seconds), abs=1e-3)
        moves = sum(before["leader"] != after["leader"] for before, after in pairwise(own))
        assert total["leader_moves"] == moves
    # Broker 1 was killed and broker 2 shut down: what they led moved, and nothing stayed without a leader.
    assert sum(int(str(total["leader_moves"])) for total in totals) > 0


def test_killed_brokers_sessions_expired_and_others_were_closed(log: DataFrame, brokers: list[Row]) -> None:
    ends = {row["session"]: row for row in rows(timelines.sessions_of(log, None))}
    lived = sorted(brokers, key=lambda row: int(str(row["from_zxid"])))
    reported = [(row["broker"], ends[row["session"]]["end"]) for row in lived]
    assert reported == ENDS


def test_writers_are_counted_by_kind_of_path(log: DataFrame) -> None:
    found = rows(timelines.writers_of(log))
    state = "/brokers/topics/*/partitions/*/state"
    written = sum(int(str(row["count"])) for row in found if row["path"] == state)
    whole = log.where("path like '%/state' and operation is not null").count()
    assert written == whole > 50
