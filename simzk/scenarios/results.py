"""A run as values: for `--json`, and to come home from another process."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.scenarios import telling, view
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario

if TYPE_CHECKING:
    from simzk.scenarios.reader import Scenario


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one run.

    Args:
        file: the scenario.
        seed: of the run.
        held: whether all that was expected held.
        first_failure: the first thing that did not; empty if all held.
        replay: the command that plays it again.
        text: the whole run as plain text.
        document: the whole run as JSON.
    """

    file: str
    seed: int
    held: bool
    first_failure: str
    replay: str
    text: str
    document: dict[str, object]


def play_file(path: str, seed: int | None, version: str) -> Result:
    """Read and play a file; the seed is the file's own where none is given."""
    scenario = read_scenario(path)
    play = Play(scenario, seed=scenario.seed if seed is None else seed, version=version)
    try:
        play.run()
        return result_of(play, version)
    finally:
        play.close()


def result_of(play: Play, version: str) -> Result:
    """Return what came of a run that is over."""
    replay = replay_command(play.scenario, play.seed, version)
    lines = [*telling.heading(play), *telling.timeline(list(play.history)), *telling.closing(play)]
    lines += [*telling.verdicts(play), *telling.conclusion(play, replay)]
    return Result(
        file=str(play.scenario.path),
        seed=play.seed,
        held=play.held,
        first_failure=_first_failure(play),
        replay=replay,
        text=telling.plain(lines),
        document=document_of(play, replay),
    )


def replay_command(scenario: Scenario, seed: int, version: str) -> str:
    """Return the one command that plays a run again, to be typed where this one was."""
    words = ["simzk", "run", str(scenario.path), "--seed", str(seed)]
    if version:
        words += ["--kafka-version", version]
    return shlex.join(words)


def document_of(play: Play, replay: str) -> dict[str, object]:
    """Return a run as JSON values."""
    tree = play.cluster.tree
    return {
        "file": str(play.scenario.path),
        "title": play.scenario.title,
        "seed": play.seed,
        "kafka_version": play.version,
        "faults": None if play.plan is None else str(play.plan),
        "held": play.held,
        "crash": "" if play.crash is None else play.crash.traceback,
        "replay": replay,
        "expectations": [
            {
                "name": verdict.name,
                "held": verdict.held,
                "line": verdict.line,
                "at_us": verdict.at_us,
                "failures": list(verdict.failures),
            }
            for verdict in play.verdicts
        ],
        "violations": [violation.to_json() for violation in play.violations],
        "timeline": play.history.to_json(),
        "controller": play.cluster.controller,
        "controller_epoch": view.controller_epoch(tree),
        "brokers": view.registered_brokers(tree),
        "partitions": [_partition_document(seen) for seen in view.partitions(tree)],
    }


def _partition_document(seen: view.PartitionView) -> dict[str, object]:
    document: dict[str, object] = {
        "topic": seen.partition.topic,
        "partition": seen.partition.partition,
        "replicas": list(seen.assignment.replicas),
    }
    if seen.state is not None:
        document["leader"] = seen.state.leader
        document["isr"] = list(seen.state.isr)
        document["leader_epoch"] = seen.state.leader_epoch
        document["controller_epoch"] = seen.state.controller_epoch
        document["version"] = seen.state.version
    return document


def _first_failure(play: Play) -> str:
    if play.crash is not None:
        return play.crash.what
    for verdict in play.verdicts:
        if not verdict.held:
            return f"{verdict.name}: {verdict.failures[0]}"
    return str(play.violations[0]) if play.violations else ""
