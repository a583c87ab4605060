"""`simzk_runs` on Spark: the rows that one process makes of the same runs, in any number of tasks; swarms alike."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import simzk.pipeline
from simzk.errors import SimzkError
from simzk.pipeline.swarms import (
    event_rows,
    events_schema,
    outcomes_schema,
    play_on_spark,
    result_of_row,
    run_row,
    runs_schema,
)
from simzk.scenarios.swarm import outcomes_of, plan_runs, play_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = [str(ROOT / "scenarios" / name) for name in ("broker_failure.toml", "unclean_election.toml")]
SIMZK = [sys.executable, "-c", "from simzk.cli import main; main()"]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    simzk.pipeline.register(spark)
    return spark


@pytest.fixture
def fragile(tmp_path: Path) -> str:
    """Without an input, which broker is controller is the business of the seed: some seeds fail."""
    text = (ROOT / "scenarios" / "controller_failover.toml").read_text(encoding="utf-8")
    assert "controller = 1\n" in text
    (tmp_path / "fragile.toml").write_text(text.replace("controller = 1\n", "", 1), encoding="utf-8")
    return str(tmp_path / "fragile.toml")


def load(session: SparkSession, files: str, **options: object) -> DataFrame:
    reader = session.read.format("simzk_runs")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(files)


def test_a_row_of_a_run_is_a_result_and_back(fragile: str) -> None:
    for documented in (True, False):
        for run in plan_runs([fragile, *FILES], 1, 3, ""):
            result = play_run(run, documented=documented)
            assert result_of_row(dict(zip(runs_schema().names, run_row(run.number, result), strict=True))) == result


@pytest.mark.java
@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_runs_are_those_of_one_process_in_any_number_of_tasks(session: SparkSession, fragile: str, tasks: int) -> None:
    files = [FILES[0], fragile]
    frame = load(session, ",".join(files), firstSeed=1, seeds=4, numPartitions=tasks, documents=True)
    assert frame.rdd.getNumPartitions() == tasks
    found = [result_of_row(row) for row in frame.toArrow().sort_by("run").to_pylist()]
    expected = [play_run(run, documented=True) for run in plan_runs(files, 1, 4, "")]
    assert found == expected
    assert {result.held for result in found} == {True, False}


@pytest.mark.java
def test_events_are_the_histories(session: SparkSession) -> None:
    frame = load(session, ",".join(FILES), seeds=2, rows="events", kafkaVersion="2.8", numPartitions=3)
    found = frame.toArrow().sort_by([("run", "ascending"), ("event", "ascending")]).to_pylist()
    names = events_schema().names
    expected = [
        dict(zip(names, row, strict=True))
        for run in plan_runs(FILES, None, 2, "2.8")
        for row in event_rows(run.number, play_run(run, documented=True))
    ]
    assert found == expected
    elected = frame.where("what = 'leader elected'").groupBy("file", "seed").count().collect()
    assert len(elected) == 4


@pytest.mark.java
def test_a_scenario_has_its_own_seed_and_version_where_none_is_named(session: SparkSession) -> None:
    (row,) = load(session, FILES[0]).collect()
    assert (row["seed"], row["kafka_version"], row["held"], row["document"]) == (1, "3.9", True, None)
    assert row["events"]["leader elected"] == 3


@pytest.mark.java
@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (FILES[0], {"rows": "columns"}, "rows: unknown rows 'columns'; expected runs or events"),
        (FILES[0], {"seeds": "0"}, "seeds: '0' is invalid; expected 1 or more"),
        (FILES[0], {"documents": "some"}, "documents: 'some' is invalid; expected true or false"),
        (FILES[0], {"kafkaVersion": "4.0"}, "Kafka '4.0' is not simulated"),
        ("nowhere.toml", {}, "nowhere.toml"),
    ],
)
def test_bad_options_are_reported(session: SparkSession, path: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        load(session, path, **options).collect()


@pytest.mark.java
def test_a_swarm_on_spark_tells_its_progress_and_its_errors(session: SparkSession, tmp_path: Path) -> None:
    shares: list[float] = []
    runs = plan_runs(FILES, None, 5, "")
    results = list(play_on_spark(session, runs, documented=False, progress=shares.append))
    assert results == [play_run(run, documented=False) for run in runs]
    assert shares == sorted(shares)
    gone = [run._replace(path=str(tmp_path / "gone.toml")) for run in runs]
    with pytest.raises(SimzkError, match=r"gone\.toml"):
        list(play_on_spark(session, gone, documented=False))


@pytest.mark.java
def test_the_command_says_and_writes_the_same_on_spark_and_in_one_process(fragile: str, tmp_path: Path) -> None:
    said, folders = [], [tmp_path / name for name in ("spark", "alone", "jobs")]
    for out, who in zip(folders, (["--master", "local[2]"], [], ["--jobs", "2"]), strict=True):
        arguments = ["run", "fragile.toml", FILES[0], "--seeds", "6", "--out", str(out), "--json", f"{out}.json", *who]
        ended = subprocess.run([*SIMZK, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (1, "")
        said.append(ended.stdout)
    assert said[0] == said[1] == said[2]
    assert "replay with: simzk run fragile.toml --seed" in said[0]
    assert re.search(r"fragile.toml: 6 runs\n  \d \(\d\d.\d\d%\) held\n  \d \(\d\d.\d\d%\) failed: ", said[0])
    for name, schema in (("runs", runs_schema()), ("outcomes", outcomes_schema())):
        tables = [pq.read_table(out / f"{name}.parquet") for out in folders]
        assert all(table.equals(tables[0]) and table.schema.equals(schema) for table in tables)
    assert len({Path(f"{out}.json").read_bytes() for out in folders}) == 1
    results = [play_run(run, documented=False) for run in plan_runs([fragile, FILES[0]], None, 6, "")]
    assert [row["runs"] for row in tables[0].to_pylist()] == [row.runs for row in outcomes_of(results)]
