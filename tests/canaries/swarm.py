"""Runs of the shipped swarms that catch planted mistakes: the faults of a seed, clients meanwhile, every invariant.

python -m tests.canaries.swarm [--scenario NAME] [--version V] [--seeds FIRST LAST] [--all]   # until a seed fails
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.scenarios.reader import Scenario

_SHIPPED = Path(__file__).parents[2] / "scenarios"
SCENARIOS = {name: _SHIPPED / f"anything_breaks_{name}.toml" for name in ("dense", "zombies", "clients")}


def play(scenario: Scenario, seed: int, version: str = "") -> Play:
    """Play a scenario with one seed to its end, and return it, closed."""
    run = Play(scenario, seed=seed, version=version)
    with closing(run):
        run.run()
    return run


def failures(run: Play) -> Iterator[str]:
    """Yield what failed in a run: a crash of the simulation, violated invariants, expectations."""
    if run.crash is not None:
        yield f"crash: {run.crash.what}"
    yield from (f"{one.invariant}: {one.detail}" for one in run.violations)
    yield from (f"{verdict.name}: {'; '.join(verdict.failures)}" for verdict in run.verdicts if not verdict.held)


def main() -> int:
    """Play seeds until one fails; return 1 if one did."""
    parser = argparse.ArgumentParser(description="Play a swarm.")
    parser.add_argument("--scenario", choices=SCENARIOS, default="dense")
    parser.add_argument("--version", default="")
    parser.add_argument("--seeds", nargs=2, type=int, default=(1, 1), metavar=("FIRST", "LAST"))
    parser.add_argument("--all", action="store_true", help="go on after a seed that fails")
    arguments = parser.parse_args()
    first, last = arguments.seeds
    scenario = read_scenario(SCENARIOS[arguments.scenario])
    status = 0
    for seed in range(first, last + 1):
        for failure in failures(play(scenario, seed, arguments.version)):
            print(f"seed {seed}: {failure}", flush=True)
            status = 1
        if status and not arguments.all:
            break
    return status


if __name__ == "__main__":
    raise SystemExit(main())
