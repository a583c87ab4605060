"""Digests of what random runs come to, to compare two trees after a change that must not be observable.

    python -m tests.scenarios.history_digests write FILE [--seeds N] [--first N] [--scenario NAME] [--version LINE]
    python -m tests.scenarios.history_digests compare OLD NEW
    python -m tests.scenarios.history_digests show SCENARIO VERSION SEED

`write` plays each seed of each scenario on each release, and writes one line for each run: the scenario, the release,
the seed, the number of events, and a digest of each part (`PARTS`). `compare` lists the runs of which a part differs,
and exits with 1 if there are any. `show` prints the parts of one run as text; `diff` of two trees' texts shows the
first difference. Each tree plays with its own simzk: run the command in the folder of the tree.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FOLDER = Path(__file__).parents[2] / "scenarios"
SCENARIOS = ("anything_breaks", "anything_breaks_records", "anything_breaks_clients")
VERSIONS = ("3.9", "2.8", "1.1", "0.8.2")
SEEDS = 8
PARTS = ("history", "znodes", "logs", "verdicts")
"""What is compared: the events, each znode with its Stat, each log with its high watermark and epochs, and what the run
came to: its end in virtual time, expectations, violations, and what the ledgers counted."""


def parts_of(play: Play) -> dict[str, str]:
    """Return each part of a run that is over as text, one event, znode, batch or count a line."""
    cluster = play.cluster
    znodes = [(path, str(node.data), tuple(node.stat())) for path, node in cluster.server.tree.walk()]
    logs: list[object] = []
    for broker, running in cluster.brokers.items():
        for partition in sorted({*running.replicas.replicas, *running.logs}):
            log = running.log_of(partition)
            if log is not None:
                name = f"{broker} {partition}"
                logs.append((name, log.start, log.end, log.high_watermark, log.flushed, str(log.epochs.entries)))
                logs += [f"{name} {batch}" for batch in log.batches]
    ledger = cluster.record_ledger
    verdicts = [
        f"ended at {cluster.scheduler.now_us} us",
        *map(str, (play.crash, *play.verdicts, *play.violations, *play.known)),
        f"acknowledged {ledger.by_acks}, read {ledger.read}, appended twice {ledger.duplicates}",
        *map(str, ledger.losses),
        str(cluster.traffic.counts()),
    ]
    history = [json.dumps(event) for event in play.history.to_json()]
    found: Mapping[str, Sequence[object]] = dict(
        zip(PARTS, (history, znodes, logs, verdicts), strict=True),
    )
    return {part: "\n".join(map(str, lines)) + "\n" for part, lines in found.items()}


def play_to_the_end(scenario: str, version: str, seed: int) -> tuple[int, dict[str, str]]:
    """Play one run; return the number of its events, and its parts."""
    read = read_scenario(FOLDER / f"{scenario}.toml")
    with closing(Play(read, seed=seed, version=version)) as play:
        play.run()
        return len(play.history), parts_of(play)


def digest_lines(scenarios: Sequence[str], versions: Sequence[str], seeds: Sequence[int]) -> Iterator[str]:
    """Play each run, and return its line."""
    for scenario in scenarios:
        for version in versions:
            for seed in seeds:
                try:
                    events, parts = play_to_the_end(scenario, version, seed)
                except ConfigError:  # an old release does not know a setting of the scenario
                    events, parts = 0, dict.fromkeys(PARTS, "refused")
                digests = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in parts.values()]
                yield " ".join((scenario, version, str(seed), str(events), *digests))


def differences(old: str, new: str) -> list[str]:
    """Return what differs between two files of digests, a line for each run.

    >>> differences("a 3.9 1 7 h z l v", "a 3.9 1 8 H z l v")
    ['a 3.9 seed 1: events 7 -> 8, history']
    >>> differences("a 3.9 1 7 h z l v", "")
    ['a 3.9 seed 1: only in one file']
    """
    runs = [{tuple(words[:3]): words[3:] for words in map(str.split, text.splitlines())} for text in (old, new)]
    found = []
    for run in dict.fromkeys((*runs[0], *runs[1])):
        name = f"{run[0]} {run[1]} seed {run[2]}"
        if run not in runs[0] or run not in runs[1]:
            found.append(f"{name}: only in one file")
            continue
        before, after = runs[0][run], runs[1][run]
        changed = [f"events {before[0]} -> {after[0]}"] if before[0] != after[0] else []
        changed += [part for part, one, other in zip(PARTS, before[1:], after[1:], strict=True) if one != other]
        if changed:
            found.append(f"{name}: {', '.join(changed)}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write")
    write.add_argument("file", type=Path)
    write.add_argument("--seeds", type=int, default=SEEDS)
    write.add_argument("--first", type=int, default=1)
    write.add_argument("--scenario", action="append", help=f"a file of scenarios/ [default: {', '.join(SCENARIOS)}]")
    write.add_argument("--version", action="append", help=f"a release [default: {', '.join(VERSIONS)}]")
    compare = commands.add_parser("compare")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    show = commands.add_parser("show")
    show.add_argument("scenario")
    show.add_argument("version")
    show.add_argument("seed", type=int)
    options = parser.parse_args(arguments)
    if options.command == "show":
        _, parts = play_to_the_end(options.scenario, options.version, options.seed)
        for part, text in parts.items():
            print(f"== {part}\n{text}", end="")
        return 0
    if options.command == "compare":
        found = differences(options.old.read_text(), options.new.read_text())
        runs = len(options.new.read_text().splitlines())
        print("\n".join(found) if found else f"equal: {runs:,} runs")
        return 1 if found or not runs else 0
    seeds = range(options.first, options.first + options.seeds)
    with options.file.open("w") as file:
        for line in digest_lines(options.scenario or SCENARIOS, options.version or VERSIONS, seeds):
            print(line, file=file, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
