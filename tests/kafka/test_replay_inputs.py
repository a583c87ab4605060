"""Replays read what was chance in a recording: made recordings of what no real cluster was recorded doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from tests.kafka.made_recordings import MadeStep, record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SEED = 7
"""Seed of the replays; the recordings have another one."""
TOPIC = '{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}'
MADE = MadeStep("make", [{"do": "write", "path": "/brokers/topics/t", "text": TOPIC}])
KILLED = MadeStep("kill", [{"do": "kill", "broker": broker} for broker in (1, 2, 3)])
CREATED = MadeStep(
    "create",
    [{"do": "create_topic", "topic": "t"}],
    lambda c: c.create_topic("t", assignment={0: [1, 2], 1: [2, 3]}),
)
DELETED = MadeStep("delete", [{"do": "delete_topic", "topic": "t"}], lambda c: c.delete_topic("t"))


def started(broker: int) -> MadeStep:
    return MadeStep(f"start {broker}", [{"do": "start", "broker": broker}])


def written(path: str, text: str) -> MadeStep:
    return MadeStep("write", [{"do": "write", "path": path, "text": text}])


def replayed(folder: Path, version: str, steps: Sequence[MadeStep]) -> list[str]:
    """Return the differences of a replay with another seed."""
    report = simzk.replay(record(folder / "recording", version, steps), seed=SEED)
    return [f"{step.name}: {line}" for step in report.steps for line in step.lines()]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["2.8", "3.9"])
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([MADE], id="written"),
        pytest.param([KILLED, MADE, started(1)], id="written while no controller runs"),
        pytest.param([CREATED, DELETED, MADE], id="written after a deletion"),
        pytest.param([MADE, DELETED, CREATED], id="created after a deletion"),
    ],
)
def test_a_topic_gets_the_id_that_the_recorded_one_got(version: str, steps: list[MadeStep], tmp_path: Path) -> None:
    assert replayed(tmp_path, version, steps) == []


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["0.10.2", "3.9"])
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/brokers/topics/t/partitions/0/state", "nonsense"),
        ("/brokers/topics/t/partitions/0/state", '{"leader":2}'),
        ("/brokers/topics/t/partitions/0/state", "[]"),
        ("/brokers/ids/7", "nonsense"),
        ("/brokers/ids/7", '{"x":1}'),
        ("/controller", "nonsense"),
        ("/cluster/id", "nonsense"),
        ("/latest_producer_id_block", "nonsense"),
    ],
)
def test_what_somebody_writes_may_be_nonsense(version: str, path: str, text: str, tmp_path: Path) -> None:
    assert replayed(tmp_path, version, [CREATED, written(path, text)]) == []
