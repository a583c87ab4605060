"""Seeds until a swarm that knows nothing of them shows known bugs of Kafka.

    python -m benchmarks.bug_seeds [--seeds N] [--json OUT] [KAFKA-ID...]

`scenarios/anything_breaks.toml`, or for bugs of records `scenarios/anything_breaks_records.toml`, is played with the
release of each bug and seeds 1, 2, ... Nothing in them aims at a bug: each seed draws its faults and its traffic. The
invariants of every run count what a release breaks by a known bug (`Monitor.known`); in a release without the bug the
same is a violation. Bugs of one release share the runs. The result is the first seed in which the bug was counted, or
none within the limit; it is the same on every machine. tests/scenarios/test_bug_symptoms.py plays each bug's scenario.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.observation.known_bugs import RecordsSurviveDefects
from simzk.kafka.observation.records import LOGS_MATCH
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simzk.simulation import Violation

SCENARIOS = Path(__file__).parents[1] / "scenarios"
SWARM, RECORDS = "anything_breaks", "anything_breaks_records"
SEEDS = 30
INTERVAL_US = 5_000_000
"""How often a run is looked at, in virtual time, to end it early."""
AFTERWARDS_US = 45_000_000
"""How long a run goes on after its last step, for conditions that have to last."""
LOST = RecordsSurviveDefects.name


class Symptom(NamedTuple):
    """How a bug is counted, and what is played to see it.

    Args:
        release: the release that is played.
        swarm: the scenario that is played.
        upgraded_from: the release that the swarm begins with instead, for a bug of upgrades to `release`.
        issue: the name under which it is counted, or a part of it [default: the id of the bug].
        invariant: the invariant that counts it [default: any].
    """

    release: str
    swarm: str = SWARM
    upgraded_from: str = ""
    issue: str = ""
    invariant: str = ""

    def is_of(self, bug: str, known: Violation) -> bool:
        """Return whether a known violation is by the bug."""
        return (self.issue or bug) in known.issue.split(" or ") and self.invariant in ("", known.invariant)


SYMPTOMS: dict[str, Symptom] = {
    "KAFKA-1028": Symptom("0.8.1"),
    "KAFKA-1096": Symptom("0.8.1"),
    "KAFKA-1382": Symptom("0.8.1"),
    "KAFKA-1503": Symptom("0.8.1"),
    "KAFKA-1549": Symptom("0.8.1"),
    "KAFKA-3175": Symptom("0.9"),
    "KAFKA-3670": Symptom("0.9"),
    "KAFKA-4214": Symptom("0.10.0"),
    "KAFKA-1211": Symptom("0.10.2", RECORDS, issue="KIP-101", invariant=LOST),
    "KAFKA-3083": Symptom("1.0"),
    "KAFKA-4447": Symptom("0.10.1"),
    "KAFKA-7576": Symptom("0.10.2"),
    "KAFKA-1120": Symptom("1.1"),
    "KAFKA-3143": Symptom("1.1"),
    "KAFKA-6082": Symptom("1.1"),
    "KAFKA-6361": Symptom("1.1", RECORDS, issue="KIP-279", invariant=LOGS_MATCH),
    "KAFKA-6612": Symptom("1.1"),
    "KAFKA-6650": Symptom("1.1"),
    "KAFKA-7128": Symptom("1.1", RECORDS, invariant=LOST),
    "KAFKA-7152": Symptom("1.1"),
    "KAFKA-7235": Symptom("1.1"),
    "KAFKA-7482": Symptom("1.1"),
    "KAFKA-6880": Symptom("2.0", RECORDS, issue="KIP-320", invariant=LOGS_MATCH),
    "KAFKA-7395": Symptom("2.0"),
    "KAFKA-9212": Symptom("1.1"),
    "KAFKA-9307": Symptom("2.3"),
    "KAFKA-9338": Symptom("2.4"),
    "KAFKA-10149": Symptom("2.4"),
    "KAFKA-10706": Symptom("2.4", RECORDS),
    "KAFKA-12686": Symptom("2.8.0", RECORDS),
    "KAFKA-13091": Symptom("2.8.0", RECORDS),
    "KAFKA-13141": Symptom("2.8.0", RECORDS),
    "KAFKA-12835": Symptom("2.8.0"),
    "KAFKA-13972": Symptom("2.8.0"),
    "KAFKA-9672": Symptom("2.8.0"),
    "KAFKA-14140": Symptom("2.8.0"),
    "KAFKA-15583": Symptom("3.6", RECORDS),
    "KAFKA-8733": Symptom("3.9", RECORDS),
    "KAFKA-14190": Symptom("3.9", upgraded_from="1.1"),
    "KAFKA-14139": Symptom("3.9", RECORDS),
    "KAFKA-14424": Symptom("3.9"),
    "KAFKA-15332": Symptom("3.9", RECORDS),
}
"""The symptom of each bug in scenarios/bugs, by id."""


def counted(play: Play, bugs: Sequence[str]) -> list[str]:
    """Play a run until all of some bugs were counted, or to `AFTERWARDS_US` after its end; return those that were."""
    scheduler, over_us = play.cluster.scheduler, 0
    while True:
        seen = [bug for bug in bugs if any(SYMPTOMS[bug].is_of(bug, known) for known in play.known)]
        if len(seen) == len(bugs) or (over_us and scheduler.now_us >= over_us + AFTERWARDS_US):
            return seen
        play.run_until(scheduler.now_us + INTERVAL_US)
        if play.is_over and not over_us:
            over_us = scheduler.now_us


def first_seeds(release_of: Mapping[str, str], seeds: int) -> Iterator[tuple[str, int | None]]:
    """Yield each bug with the first seed that shows its symptom, or None; release by release.

    Args:
        release_of: the release to play by the id of each bug.
        seeds: the last seed to play.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for bug, release in release_of.items():
        groups.setdefault((release, SYMPTOMS[bug].swarm), []).append(bug)
    for (release, swarm), left in groups.items():
        scenario = read_scenario(SCENARIOS / f"{swarm}.toml")
        for seed in range(1, seeds + 1):
            if not left:
                break
            play = Play(scenario, seed=seed, version=release)
            seen = counted(play, left)
            play.close()
            yield from ((bug, seed) for bug in seen)
            left = [bug for bug in left if bug not in seen]
            print(f"\r{release}, {swarm}: seed {seed}, {len(left)} left ", end="", file=sys.stderr, flush=True)
        yield from ((bug, None) for bug in left)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the first seed of each bug as a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bug_seeds", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bugs", nargs="*", metavar="KAFKA-ID", help="bugs to look for [default: all]")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"number of seeds of each release [default: {SEEDS}]")
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    unknown = [bug for bug in options.bugs if bug not in SYMPTOMS]
    if unknown or options.seeds < 1:
        right = f"one of {', '.join(SYMPTOMS)}" if unknown else "1 or more"
        parser.error(f"{unknown[0] if unknown else '--seeds'}: expected {right}")
    release_of = {bug: SYMPTOMS[bug].upgraded_from or SYMPTOMS[bug].release for bug in options.bugs or SYMPTOMS}
    found: dict[str, int | None] = {}
    for bug, seed in first_seeds(release_of, options.seeds):
        found[bug] = seed
        text = f"not within {options.seeds} seeds" if seed is None else f"seed {seed}"
        print(f"\r{bug:<12} {release_of[bug]:<7} {text}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"seeds": options.seeds, "first": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
