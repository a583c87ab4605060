"""One job on every master: the rows that one process computes, though workers and masters are killed meanwhile.

`SIMZK_MASTERS=all` runs a sweep and timelines on each of them (some minutes); else a sweep on two executors, one of
which loses its Python.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from simzk.partitions.layouts import brokers_in_racks, generate_layout, read_layout, write_layout
from simzk.pipeline.sweeps.outcomes import parse_specs
from simzk.pipeline.sweeps.sweep import plan_sweep
from tests.pipeline.local_tables import failures_table, local_tables
from tests.pipeline.processes import Started, descendants, end
from tests.pipeline.spark_cluster import StandaloneCluster, environment

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2"
FAIL = "brokers:2,racks:1+brokers:1"
EVERY = os.environ.get("SIMZK_MASTERS") == "all"
only_asked_for = pytest.mark.skipif(not EVERY, reason="minutes, on a busy machine many of them: SIMZK_MASTERS=all")
patient = pytest.mark.timeout(1800)


class Sweep:
    """A sweep of some seconds, and what must come of it."""

    def __init__(self, folder: Path) -> None:
        self.layout = folder / "layout.parquet"
        drawn = generate_layout(brokers_in_racks(80, 4), topics=9, partitions=20_000, replication_factor=2, seed=11)
        write_layout(drawn, self.layout)
        plan = plan_sweep(self.layout, parse_specs(FAIL), folder / "none")
        self._tables = local_tables(plan)
        self._failures = failures_table(read_layout(self.layout), plan.specs)
        self._numbers = count()

    def on(self, job: Started, each: Callable[[str], None] = lambda _: None) -> int:
        """Run it; how many attempts at its tasks, and those before, have failed."""
        out = self.layout.parent / f"sweep-{next(self._numbers)}"
        done = job.ask("\t".join(["sweep", str(self.layout), FAIL, str(out)]), each)
        failures = pq.read_table(out / "failures").sort_by("failure_set")
        assert failures.cast(self._failures.schema).equals(self._failures)
        for name, table in self._tables.items():
            assert pq.read_table(out / f"{name}.parquet").equals(table), name
        return int(done.split()[1])


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return Sweep(tmp_path_factory.mktemp("sweep"))


def start_job(master: str, folder: Path) -> Started:
    folder.mkdir()
    variables = environment(PYTHONPATH=str(ROOT))
    job = Started([sys.executable, "-m", "tests.pipeline.spark_job", master], folder, variables)
    job.wait_for("^ready$")
    return job


def kill_pythons(*above: int) -> Callable[[str], None]:
    """As soon as some tasks are done, kill the Pythons that compute others, until Spark has noticed that one failed."""

    def each(reported: str) -> None:
        at, _, failed = reported.removeprefix("at ").rpartition(" failed ")
        # A sweep says its share, timelines what they do, and of how many tasks as soon as there are some.
        is_under_way = at.endswith(" tasks") or (at[0].isdigit() and float(at) > 0)
        if is_under_way and failed == "0":
            below = {pid: command for one in above for pid, command in descendants(one).items()}
            for pid, command in below.items():
                if "pyspark.daemon" in command:
                    end(pid)

    return each


def timelines(job: Started, out: Path, each: Callable[[str], None] = lambda _: None) -> dict[str, object]:
    """The tables of timelines, their rows in one order, what is said of them, and how many attempts have failed."""
    done = job.ask("\t".join(["timelines", str(KAFKA), str(out)]), each)
    tables: dict[str, pa.Table] = {
        folder.name: ds.dataset(folder, format="parquet", partitioning="hive").to_table()
        for folder in sorted(out.iterdir())
        if folder.is_dir()
    }
    assert len(tables) > 6
    rows = {name: sorted(table.to_pylist(), key=repr) for name, table in tables.items()}
    return {**rows, "said": (out / "timelines.json").read_text(), "failed": int(done.split()[1])}


def check_that_simzk_was_sent(job: Started) -> None:
    for place in job.ask("where").split()[1:]:
        assert place.endswith("simzk.zip/simzk/__init__.py"), "the workers have the driver's simzk"


@pytest.mark.java
def test_an_executor_that_loses_its_python_changes_nothing(sweep: Sweep, tmp_path: Path) -> None:
    with start_job("local-cluster[2,1,1024]", tmp_path / "job") as job:
        assert sweep.on(job, kill_pythons(job.pid)) > 0, "a task was under way"
        check_that_simzk_was_sent(job)


@patient
@only_asked_for
def test_a_sweep_and_timelines_are_the_same_on_every_master(sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    reported = {}
    for name in ("local[1]", "local[2]", "local-cluster[2,1,1024]"):
        with start_job(name, tmp_path / name) as job:
            assert sweep.on(job) == 0
            reported[name] = timelines(job, tmp_path / f"timelines-{name}")
    with StandaloneCluster(tmp_path / "cluster") as cluster, start_job(cluster.url, tmp_path / "standalone") as job:
        check_that_simzk_was_sent(job)
        assert sweep.on(job) == 0
        reported["standalone"] = timelines(job, tmp_path / "timelines-standalone")
    for name, tables in reported.items():
        assert tables == reported["local[1]"], name


@patient
@only_asked_for
def test_timelines_whose_python_is_lost_are_the_same(tmp_path: Path) -> None:
    with start_job("local-cluster[2,1,1024]", tmp_path / "job") as job:
        expected = timelines(job, tmp_path / "undisturbed")
        before = expected.pop("failed")
        # The driver has Pythons of its own, which plan what is read: where one of those is lost, the driver is.
        executors = [pid for pid, what in descendants(job.pid).items() if "CoarseGrainedExecutorBackend" in what]
        found = timelines(job, tmp_path / "disturbed", kill_pythons(*executors))
    assert before == 0
    assert int(str(found.pop("failed"))) > 0, "a task was under way"
    assert found == expected


@patient
@only_asked_for
def test_an_embedded_spark_that_may_try_again_goes_on_without_its_python(sweep: Sweep, tmp_path: Path) -> None:
    with start_job("local[2,4]", tmp_path / "job") as job:
        assert sweep.on(job, kill_pythons(job.pid)) > 0


@patient
@only_asked_for
def test_the_other_master_takes_over_and_a_worker_dies(sweep: Sweep, tmp_path: Path) -> None:
    """The masters' election, what they keep, and the workers' way to the new one all go through `simzk serve`."""
    (tmp_path / "cluster").mkdir()
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        with start_job(cluster.url, tmp_path / "job") as job:
            is_killed = False

            def kill_leader(reported: str) -> None:
                nonlocal is_killed
                if not is_killed and float(reported.split()[1]) > 0:
                    is_killed = True
                    cluster.masters[0].kill()

            assert sweep.on(job, kill_leader) == 0, "who computes does not notice"
            assert is_killed
            cluster.wait_for_takeover()
            # Of two executors, which the new master knows of by what the dead one kept, one is lost.
            first, second = cluster.workers
            is_killed = False

            def kill_worker(reported: str) -> None:
                nonlocal is_killed
                if not is_killed and float(reported.split()[1]) > 0:
                    is_killed = True
                    below = descendants(first.pid)
                    first.kill()
                    for pid in below:
                        end(pid)

            assert sweep.on(job, kill_worker) > 0, "tasks were under way there"
            cluster.masters[1].wait_for("Removing worker|Got disassociated|was disassociated")
            assert sweep.on(job, kill_pythons(second.pid)) > 0
        # Another driver finds the new master, and the worker that is left.
        with start_job(cluster.url, tmp_path / "other job") as other:
            assert sweep.on(other) == 0
