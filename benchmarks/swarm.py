"""Runs of a scenario under many seeds: Spark with one task at a time and with two, a bare process, a bare pool of two.

    python -m benchmarks.swarm [--json OUT] [--scenario FILE] [--seeds N] [--rounds N]

All arms play the same runs with the same results, run by run. The figures are runs per second of wall time, the median
of the rounds. On Spark the start of the session, and the first swarm, in which Java warms up and the workers
begin, are separate.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, write_figures
from simzk.pipeline.spark_session import spark_session
from simzk.pipeline.swarms import play_on_spark
from simzk.scenarios.swarm import plan_runs, play_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.scenarios.results import Result

SCENARIO = Path(__file__).parents[1] / "scenarios" / "anything_breaks.toml"
MASTERS = ("local[1]", "local[2]")
POOL = 2
LEAST_TIMES = 1.7
"""How many times as fast two tasks must be as one."""

play = partial(play_run, documented=False)


def seconds(arm: Callable[[], Sequence[Result]], expected: Sequence[Result]) -> float:
    """Return the seconds until an arm met every expectation."""
    begun_s = time.perf_counter()
    results = arm()
    taken_s = time.perf_counter() - begun_s
    assert results == expected, "an arm came to something else"
    return taken_s


def median_rate(arm: Callable[[], Sequence[Result]], expected: Sequence[Result], rounds: int) -> float:
    """Return the median of the runs per second."""
    return round(len(expected) / statistics.median(seconds(arm, expected) for _ in range(rounds)), 2)


def measure(scenario: str, seeds: int, rounds: int) -> dict[str, float]:
    """Return all figures by name."""
    runs = plan_runs([scenario], None, seeds, "")
    expected = [play(run) for run in runs]
    figures: dict[str, float] = {"runs": seeds, "held": sum(result.held for result in expected)}
    figures["one_process_runs_per_s"] = median_rate(lambda: list(map(play, runs)), expected, rounds)
    with ProcessPoolExecutor(POOL) as pool:
        list(pool.map(play, runs[:POOL]))  # each has begun
        arm = partial(pool.map, play, runs, chunksize=8)
        figures[f"pool_of_{POOL}_runs_per_s"] = median_rate(lambda: list(arm()), expected, rounds)
    for master in MASTERS:
        begun_s = time.perf_counter()
        with spark_session(master) as spark:
            figures[f"{master}_started_s"] = round(time.perf_counter() - begun_s, 2)
            swarm = lambda: list(play_on_spark(spark, runs, documented=False))  # noqa: E731
            figures[f"{master}_first_swarm_s"] = round(seconds(swarm, expected), 2)
            figures[f"{master}_runs_per_s"] = median_rate(swarm, expected, rounds)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--scenario", type=Path, default=SCENARIO)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    figures = measure(str(options.scenario), options.seeds, options.rounds)
    one, two = (figures[f"{master}_runs_per_s"] for master in MASTERS)
    judged = [
        Figure("two_tasks_beside_one", round(two / one, 2), "times as fast", at_least=LEAST_TIMES),
        Figure("on_two_tasks", two, "runs a second"),
        Figure(f"bare_pool_of_{POOL}", figures[f"pool_of_{POOL}_runs_per_s"], "runs a second"),
    ]
    write_figures("swarm", judged, figures, options.json)


if __name__ == "__main__":
    main()
