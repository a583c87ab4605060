"""Spark driver that executes commands while a test disturbs it.

    python -m tests.pipeline.spark_job MASTER

Lines of its input are `sweep LAYOUT FAIL OUT` and `timelines DATA OUT`, words separated by tabs. While a sweep runs it
says `at SHARE failed N`: how much is done, and how many attempts at tasks have failed; while timelines do, what they
are at and the same number; at the end of each job `done N`.
`where` says from where the workers have simzk.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.pipeline.spark_session import spark_session
from simzk.pipeline.sweeps.outcomes import parse_specs
from simzk.pipeline.sweeps.sweep import plan_sweep, run_sweep
from simzk.pipeline.timelines.run import plan_timelines, run_timelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def failed_attempts(spark: SparkSession) -> int:
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(None)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage is not None)


def where(_: object) -> str:
    import simzk

    return str(simzk.__file__)


def main() -> None:
    with spark_session(sys.argv[1]) as spark:
        print("ready", flush=True)

        def tell(at: float | str, _: float | None = None) -> None:
            print(f"at {at} failed {failed_attempts(spark)}", flush=True)

        for line in sys.stdin:
            match line.rstrip("\n").split("\t"):
                case ["sweep", layout, fail, out]:
                    run_sweep(spark, plan_sweep(Path(layout), parse_specs(fail), Path(out)), tell)
                    print(f"done {failed_attempts(spark)}", flush=True)
                case ["timelines", data, out]:
                    run_timelines(spark, plan_timelines([data], Path(out)), tell)
                    print(f"done {failed_attempts(spark)}", flush=True)
                case ["where"]:
                    print("done", *spark.sparkContext.parallelize(range(2), 2).map(where).collect(), flush=True)


if __name__ == "__main__":
    main()
