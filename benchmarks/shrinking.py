"""Profile of shrinking: the executions, time and memory until `KafkaClusterMachine` has its smallest failing example.

    python -m benchmarks.shrinking [--json OUT] [--profile]

Three mistakes are found and shrunk in a process each, with the settings of the machine and without Hypothesis's
database: an invariant that no kill survives, a controller that raises no epoch, and a controller that elects no leader
for offline partitions, which shows after healing only. The smallest examples have one or two steps. The time is CPU
time, which does not depend on what else the machine does. `--profile` prints the functions that take most of it.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import time
from collections import Counter, defaultdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from benchmarks.machine import machine
from benchmarks.verdict import verdict
from simzk.kafka.zookeeper_mode.controller.state_machines import PartitionStateMachine
from simzk.partitions import transitions
from simzk.testing import MACHINE_SETTINGS, ClusterShape, KafkaClusterMachine
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.partitions.states import States
    from simzk.simulation.history import Event, Invariant

DEMANDED_S = 30.0
DEMANDED_MB = 300.0
SETTINGS = settings(MACHINE_SETTINGS, database=None, derandomize=True)


class NobodyIsGone:
    """An invariant that the first kill violates."""

    name = "nobody is ever gone"

    def check(self, event: Event) -> str | None:
        return f"{event.who} is gone" if event.what == "registration gone" else None


class CarelessInvariant(KafkaClusterMachine):
    """The machine with a wrong invariant."""

    def extra_invariants(self) -> Sequence[Invariant]:
        return [NobodyIsGone()]


class CarelessController(KafkaClusterMachine):
    """The machine over a controller with a mistake."""


def without_new_epochs(correct: Callable[..., States]) -> Callable[..., States]:
    """Return `after_controller_write` with a mistake: an election keeps the old leader epoch."""

    def unraised(before: States, *arguments: object, **options: object) -> States:
        after = correct(before, *arguments, **options)
        is_election = after.leader != before.leader
        return after._replace(leader_epoch=np.where(is_election, before.leader_epoch, after.leader_epoch))

    return unraised


def plant_missing_epochs() -> None:
    """Let the controller write its elections with the old leader epoch."""
    transitions.after_controller_write = without_new_epochs(transitions.after_controller_write)


def plant_missing_elections() -> None:
    """Let the controller elect no leader for partitions that are offline."""

    async def nothing(*_: object, **__: object) -> None:
        return

    PartitionStateMachine.trigger_online = nothing  # type: ignore[method-assign]


MISTAKES: dict[str, tuple[type[KafkaClusterMachine], Callable[[], None]]] = {
    "wrong invariant": (CarelessInvariant, lambda: None),
    "missing epochs": (CarelessController, plant_missing_epochs),
    "missing elections": (CarelessController, plant_missing_elections),
}


def measure(mistake: str, *, profiled: bool) -> dict[str, Any]:
    """Find and shrink one mistake in this process."""
    kind, plant = MISTAKES[mistake]
    plant()
    counts, spent_s = Counter[str](), defaultdict[str, float](float)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            begun_s = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                counts[name] += 1
                spent_s[name] += time.process_time() - begun_s

        return run

    ClusterShape.start = timed("boot", ClusterShape.start)  # type: ignore[method-assign]
    KafkaClusterMachine.heal = timed("healing", KafkaClusterMachine.heal)  # type: ignore[method-assign]
    Server.check = timed("checks of the tree", Server.check)  # type: ignore[method-assign]
    profile = cProfile.Profile()
    found = ""
    begun_s = time.process_time()
    if profiled:
        profile.enable()
    try:
        run_state_machine_as_test(kind, settings=SETTINGS)
    except AssertionError as failure:
        found = str(failure)
    profile.disable()
    total_s = time.process_time() - begun_s
    assert found, "the mistake was not found"
    if profiled:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(30)
    return {
        "mistake": mistake,
        "found": found,
        "executions": counts["boot"],
        "cpu_s": total_s,
        "parts_s": dict(spent_s),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--mistake", choices=MISTAKES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mistake:
        print(json.dumps(measure(options.mistake, profiled=options.profile)))
        return
    results = []
    for mistake in MISTAKES:
        command = [sys.executable, "-m", "benchmarks.shrinking", "--mistake", mistake]
        done = subprocess.run(command + ["--profile"] * options.profile, stdout=subprocess.PIPE, text=True, check=True)
        result = json.loads(done.stdout.splitlines()[-1])
        results.append(result)
        held = result["cpu_s"] <= DEMANDED_S and result["peak_mb"] <= DEMANDED_MB
        text = verdict(f"{DEMANDED_S:.0f} s and {DEMANDED_MB:.0f} MB", held)
        costs = f"{result['executions']:5} executions {result['cpu_s']:6.1f} s CPU {result['peak_mb']:6.0f} MB"
        print(f"{mistake:18} {costs} {text}")
        for part, seconds in sorted(result["parts_s"].items(), key=lambda item: -item[1]):
            print(f"    {part:30} {seconds:6.2f} s")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=2))


if __name__ == "__main__":
    main()
