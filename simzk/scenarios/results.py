"""Result of a run as plain values, for `--json` and to be returned from another process."""

from __future__ import annotations

import shlex
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.scenarios import view
from simzk.scenarios.faults.plan_file import fault_fields
from simzk.scenarios.faults.traffic import TRAFFIC
from simzk.scenarios.player import EXPECTATION, FAULT, OPERATOR, Crash, Play
from simzk.scenarios.source import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.scenarios.faults.plan import FaultPlan
    from simzk.scenarios.player import ExpectationResult
    from simzk.scenarios.reader import Scenario

_SCENARIO_COMPONENTS = (OPERATOR, EXPECTATION, FAULT, TRAFFIC)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one run.

    Args:
        file: the scenario file.
        seed: the seed of the run.
        version: the Kafka version.
        failed: names of failed expectations and violated invariants, or the crash of the simulation.
        first_failure: the first failure in full; empty if all held.
        replay: the command that replays the run.
        events: number of events by kind, without those of the operator, faults and expectations.
        settled_us: virtual time in microseconds at which each expectation held.
        document: the whole run as JSON values; None if not requested.
        znodes: the changes of znodes as JSON values; None if the play did not log them.
        probes: how often the run reached each probe, without those that it did not reach.
        records: what became of the records of producers, by name, without zeros.
        failed_at_us: time of the first failure, since the begin of the faults; None if it is an expectation.
    """

    file: str
    seed: int
    version: str
    failed: tuple[str, ...]
    first_failure: str
    replay: str
    events: dict[str, int]
    settled_us: dict[str, int]
    document: dict[str, object] | None
    znodes: dict[str, object] | None = None
    probes: dict[str, int] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    failed_at_us: int | None = None

    @property
    def held(self) -> bool:
        """Whether all expectations and invariants held."""
        return not self.failed


def play_scenario(
    scenario: Scenario,
    seed: int,
    version: str,
    *,
    documented: bool,
    plan: FaultPlan | None = None,
    plan_file: str = "",
) -> Result:
    """Play a whole scenario, and return its result.

    A step that is impossible in this run, such as the restart of a running broker, is a failure of this run only: the
    other runs of a batch are played.
    """
    with closing(Play(scenario, seed=seed, version=version, plan=plan, plan_file=plan_file)) as play:
        try:
            play.run()
        except SimzkError as error:
            play.crash = Crash(f"impossible step: {error.what}", str(error))
        return result_of(play, version, documented=documented)


def result_of(play: Play, version: str, *, documented: bool) -> Result:
    """Return the result of a finished run."""
    replay = replay_command(play.scenario, play.seed, version, play.plan_file)
    failed = [play.crash.what] if play.crash is not None else []
    named = [(_name(verdict, play.verdicts), verdict) for verdict in play.verdicts]
    failed += [name for name, verdict in named if not verdict.held]
    failed += [violation.invariant for violation in play.violations]
    assert play.held == (not failed)
    counted = Counter(event.what for event in play.history if event.who not in _SCENARIO_COMPONENTS)
    return Result(
        file=str(play.scenario.path),
        seed=play.seed,
        version=play.version,
        failed=tuple(dict.fromkeys(failed)),
        first_failure=_first_failure(play),
        replay=replay,
        events=dict(sorted(counted.items())),
        settled_us={name: verdict.at_us for name, verdict in named if verdict.held},
        document=document_of(play, replay) if documented else None,
        znodes=None if play.znodes is None else play.znodes.to_json(),
        probes={} if play.probes is None else dict(sorted(play.probes.counts.items())),
        records=play.cluster.traffic.counts(),
        failed_at_us=_failed_at_us(play, failed),
    )


def _failed_at_us(play: Play, failed: Sequence[str]) -> int | None:
    """Return when the first failure happened, since the begin of the faults, if it is a crash or a violation."""
    if play.faults_from_us is None or not failed:
        return None
    assert play.faults_from_us <= play.cluster.scheduler.now_us
    if play.crash is not None:
        return play.cluster.scheduler.now_us - play.faults_from_us
    if not play.violations or play.violations[0].invariant != failed[0]:
        return None
    return max(0, play.violations[0].event.at_us - play.faults_from_us)


def _name(verdict: ExpectationResult, verdicts: Sequence[ExpectationResult]) -> str:
    """Return the name of an expectation, with its line if the name is not unique."""
    alone = sum(other.name == verdict.name for other in verdicts) == 1
    return verdict.name if alone else f"{verdict.name} (line {verdict.line})"


def replay_command(scenario: Scenario, seed: int, version: str, plan_file: str = "") -> str:
    """Return the command that replays a run in the same working directory."""
    words = ["simzk", "run", str(scenario.path), "--seed", str(seed)]
    if version:
        words += ["--kafka-version", version]
    if plan_file:
        words += ["--plan", plan_file]
    return shlex.join(words)


def describe_plan(play: Play) -> str:
    """Return where the faults of a run come from, with all options that were drawn."""
    plan = play.plan
    assert plan is not None
    faults = f"{len(plan.faults)} fault{'s' * (len(plan.faults) != 1)}"
    if plan.options is None:
        return f"{faults} of {play.plan_file or 'a plan'}"
    times = f"safety_us={plan.safety_us} liveness_us={plan.liveness_us}"
    return f"{faults} drawn from seed {play.seed}: {times} {plan.options}"


def plan_document(plan: FaultPlan) -> dict[str, object]:
    """Return a plan as JSON values: what a plan file has, apart from seed and version."""
    return {
        "safety": format_duration(plan.safety_us),
        "liveness": format_duration(plan.liveness_us),
        "fault": [dict(fault_fields(fault)) for fault in plan.faults],
    }


def document_of(play: Play, replay: str) -> dict[str, object]:
    """Return a run as JSON values."""
    return {
        "file": str(play.scenario.path),
        "title": play.scenario.title,
        "why": play.scenario.why,
        "seed": play.seed,
        "kafka_version": play.version,
        "faults": None if play.plan is None else describe_plan(play),
        "probes": {} if play.probes is None else dict(sorted(play.probes.counts.items())),
        "records": play.cluster.traffic.counts(),
        "plan": None if play.plan is None else plan_document(play.plan),
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
        "known_bugs": [violation.to_json() for violation in play.known],
        "racks": {str(broker): rack for broker, rack in play.scenario.racks.items()},
        **document_of_cluster(play.cluster),
    }


def document_of_cluster(
    cluster: KafkaCluster, *, events_max: int | None = None, partitions_max: int | None = None
) -> dict[str, object]:
    """Return the history of a cluster and its present state as JSON values.

    Args:
        cluster: the cluster.
        events_max: the number of latest events; None for all.
        partitions_max: the number of partitions, by topic and partition; None for all.
    """
    history = cluster.history
    first = 0 if events_max is None else max(0, len(history) - events_max)
    return {
        "timeline": [history[place]._asdict() for place in range(first, len(history))],
        "controller": cluster.controller,
        "controller_epoch": view.controller_epoch(cluster.tree),
        "brokers": cluster.live_brokers,
        "partitions": [_partition_document(seen) for seen in view.partitions(cluster.tree, partitions_max)],
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
