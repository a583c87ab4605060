"""Runs of the simulation refine Kip320; those of 0.10.2 break StrongIsr; and each mistake of a run is found.

python -m tests.models.test_histories FIRST LAST [VERSION]   # many seeds, with one line for each that breaks something
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from simzk.kafka.broker.replica_logs import ReplicaLogs
from simzk.kafka.topic_partition import TopicPartition
from simzk.scenarios.faults.dense_producers import DenseProducers
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from tests.canaries.swarm import failures
from tests.models.exploration import explore
from tests.models.histories import Refinement, abstract, observed_fetches
from tests.models.replication import (
    KIP_320,
    KIP_320_SEEN,
    PROPERTIES,
    canonical,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.replica_logs import Replica
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.simulation import Event
    from tests.models.replication import Model

SCENARIO = Path(__file__).with_name("swarm.toml")
MEAN_GAP_US = 250_000
"""Mean time between two batches of all producers."""
CHECKED = (
    "high watermark raised",
    "records fetched",
    "log truncated",
    "ISR expanded",
    "leader elected",
    "leader moved",
)


class Outcome(NamedTuple):
    """Result of one run.

    Args:
        steps: number of steps of the model that the run took.
        unexplained: the first step of each partition that the model does not allow.
        broken: properties that do not hold in a state of the run, each with the first event after which it does not.
        failed: what else failed.
    """

    steps: int
    unexplained: list[str]
    broken: dict[str, str]
    failed: list[str]


def judge(seed: int, version: str = "3.9", make: Callable[[int], Model] = KIP_320_SEEN) -> Outcome:
    """Play the swarm with a seed, and compare each step with a model and each state with its properties."""
    scenario = read_scenario(SCENARIO)
    run = Play(scenario, seed=seed, version=version)
    partitions = [TopicPartition(topic, number) for topic, n in scenario.topics.items() for number in range(n)]
    refinements = [Refinement(run.cluster, partition, make) for partition in partitions]
    broken: dict[str, str] = {}

    def check(event: Event) -> None:
        if event.what in CHECKED and len(broken) < len(PROPERTIES):
            for partition in partitions:
                if event.subject == str(partition):
                    state = abstract(run.cluster, partition)
                    for name, holds in PROPERTIES.items():
                        if name not in broken and not holds(state):
                            broken[name] = str(event)

    run.cluster.history.observers.append(check)
    with closing(run), observed_fetches(refinements):
        DenseProducers(run.cluster, scenario.topics, MEAN_GAP_US)
        run.run()
        for refinement in refinements:
            refinement.compare()
    unexplained = [one.unexplained for one in refinements if one.unexplained]
    return Outcome(sum(one.steps for one in refinements), unexplained, broken, list(failures(run)))


def assert_refines(seed: int) -> None:
    outcome = judge(seed)
    assert outcome[1:] == ([], {}, [])
    assert outcome.steps > 100


def test_a_run_of_3_9_refines_kip_320() -> None:
    assert_refines(2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 23))
def test_many_runs_of_3_9_refine_kip_320(seed: int) -> None:
    assert_refines(seed)


def test_a_leader_of_an_epoch_that_is_over_does_not_lack_what_was_committed_later() -> None:
    """Broker 3 learns late that it leads in epoch 3, after the leader of epoch 4 has committed its log."""
    assert_refines(165)


def test_an_election_whose_reply_is_lost_is_written_again() -> None:
    """The controller loses three replies to the election of a preferred leader."""
    assert_refines(387)


@pytest.mark.parametrize("seed", [63, 196, 635, 734])
def test_a_leader_that_is_not_told_of_its_written_isr_is_excused(seed: int) -> None:
    """The controller loses the reply to the write of an ISR (docs/reference/kafka.md §5, #49)."""
    assert_refines(seed)


@pytest.mark.slow
def test_a_run_is_no_refinement_of_the_module_that_looks_into_followers() -> None:
    """Kip320 itself waits with an ISR until the high watermark is in the leader's epoch; Kafka does not."""
    assert any("expand" in why for seed in range(1, 51) for why in judge(seed, make=KIP_320).unexplained)


@pytest.mark.slow
def test_0_10_2_breaks_strong_isr_within_50_seeds() -> None:
    assert any("StrongIsr" in judge(seed, "0.10.2").broken for seed in range(1, 51))


def joins_at_once(_self: ReplicaLogs, rows: IntArray, _follower: int) -> BoolArray:
    """A follower joins the ISR before it has caught up."""
    return np.ones(len(rows), dtype=np.bool_)


def waits_for_nobody(self: ReplicaLogs, replica: Replica) -> int:
    """The high watermark is the leader's log end offset."""
    return replica.log_end


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wrong", "kind"),
    [("have_caught_up", joins_at_once, "expand"), ("_least_log_end", waits_for_nobody, "advance")],
)
def test_a_mistake_is_a_step_that_the_model_does_not_allow(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[..., object], kind: str
) -> None:
    monkeypatch.setattr(ReplicaLogs, name, wrong)
    found = (why for seed in range(1, 51) for why in judge(seed).unexplained)
    assert kind in next(found)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(2, 1, 3), (3, 1, 2)])
def test_kip_320_of_what_brokers_see_keeps_all_properties(bounds: tuple[int, int, int]) -> None:
    model = KIP_320_SEEN(*bounds)
    result = explore(model.start(), model.steps, PROPERTIES, canonical=canonical)
    assert result.complete
    assert result.violated == ""
    assert result.states > explore(KIP_320(*bounds).start(), KIP_320(*bounds).steps, {}, canonical=canonical).states


def main() -> int:
    """Judge many seeds; return 1 if a run of 3.9 breaks something, or none of an older release."""
    first, last, version = int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or ["3.9"])[0]
    steps = 0
    broken = []
    for seed in range(first, last + 1):
        outcome = judge(seed, version)
        steps += outcome.steps
        if version != "3.9":
            outcome = outcome._replace(unexplained=[])
        if any(outcome[1:]):
            broken.append(seed)
            print(f"seed {seed}: {outcome.unexplained} {outcome.broken} {outcome.failed}"[:400], flush=True)
    print(f"{last + 1 - first} runs of {version}, {steps:,} steps; {len(broken)} break something")
    return bool(broken) == (version == "3.9")


if __name__ == "__main__":
    sys.exit(main())
