"""Replays read what was chance in a recording: made recordings of what no real cluster was recorded doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.zookeeper_mode.schemas.config import RATE_KEYS, REPLICAS_KEYS
from simzk.kafka.zookeeper_mode.tools.reassign_partitions import BROKER_THROTTLES
from tests.kafka.made_recordings import MadeStep, record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simzk.kafka.cluster.cluster import KafkaCluster

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


def replayed(
    folder: Path,
    version: str,
    steps: Sequence[MadeStep],
    *,
    seed: int = 1,
    has_acts: bool = True,
    timing: simzk.BrokerTiming | None = None,
) -> list[str]:
    """Return the differences of a replay with another seed."""
    recorded = record(folder / "recording", version, steps, seed=seed, has_acts=has_acts, timing=timing)
    report = simzk.replay(recorded, seed=SEED)
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


def _twice(c: KafkaCluster) -> None:
    c.create_topic("t", assignment={0: [2, 3]})
    c.run_for(3)
    c.delete_topic("t")
    c.run_for(5)
    c.create_topic("t", assignment={0: [3, 1], 1: [1, 2]})


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["0.8.2", "1.1", "2.8", "3.9"])
def test_a_topic_is_placed_as_it_was_written_though_another_one_remains(version: str, tmp_path: Path) -> None:
    twice = MadeStep(
        "twice",
        [
            {"do": "create_topic", "topic": "t"},
            {"do": "delete_topic", "topic": "t", "after": 3},
            {"do": "create_topic", "topic": "t", "after": 8},
        ],
        _twice,
        lasts_s=5.0,
    )
    assert replayed(tmp_path, version, [twice, DELETED]) == []


def test_a_consumer_that_was_not_recorded_is_told(tmp_path: Path) -> None:
    consumed = MadeStep("consume", [{"do": "consume", "topic": "t"}], lambda c: None)
    (line,) = replayed(tmp_path, "0.10.2", [CREATED, consumed])
    assert "consume: no consumer with --zookeeper was recorded" in line


MOVES = [["t", 0, [3, 2]]]
PLAN = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}
REASSIGNMENT = "kafka.admin.ReassignPartitionsCommand --bootstrap-server localhost:9092 --reassignment-json-file r.json"
ADMIN_API = "kafka.Client Admin.alterPartitionReassignments"
PAUSED = MadeStep("pause-broker3", [{"do": "pause", "broker": 3}], lasts_s=1.0)
RESUMED = MadeStep("resume-broker3", [{"do": "resume", "broker": 3}])
STUCK = MadeStep(
    "move",
    [{"do": "reassign", "moves": MOVES}],
    lambda c: c.reassign({("t", 0): [3, 2]}, via=c.controller),
    lasts_s=1.0,
    tools=[ADMIN_API],
)
CREATED_BY_TOOL = CREATED._replace(
    tools=["kafka.admin.TopicCommand --create --topic t --replica-assignment 1:2,2:3 --bootstrap-server localhost:9092"]
)


def cancelled(action: str, brokers: list[int] | None) -> MadeStep:
    """Cancel through the admin client: AlterPartitionReassignments without replicas."""
    return MadeStep(
        "cancel",
        [{"do": action, "moves": [["t", 0, brokers]]}],
        lambda c: c.reassign({("t", 0): None}, via=c.controller),
        tools=[ADMIN_API],
    )


@pytest.mark.parametrize(
    ("version", "action", "brokers"),
    [
        ("2.4", "cancel_reassignment", [3, 2]),
        ("2.5", "cancel_reassignment", [3, 2]),
        ("2.4", "reassign", None),
        ("2.5", "reassign", None),
        ("2.8", "reassign", None),
        ("3.9", "reassign", None),
    ],
)
@pytest.mark.parametrize("is_under_way", [True, False])
def test_the_admin_client_cancels_a_reassignment(
    version: str, action: str, brokers: list[int] | None, is_under_way: bool, tmp_path: Path
) -> None:
    before = [PAUSED, STUCK] if is_under_way else [PAUSED]
    assert replayed(tmp_path, version, [CREATED, *before, cancelled(action, brokers), RESUMED]) == []


@pytest.mark.parametrize("version", ["2.4", "2.5", "3.9"])
def test_a_recording_without_actions_shows_what_the_admin_client_cancelled(version: str, tmp_path: Path) -> None:
    steps = [CREATED_BY_TOOL, PAUSED, STUCK, cancelled("reassign", None), RESUMED]
    assert replayed(tmp_path, version, steps, has_acts=False) == []


@pytest.mark.parametrize("version", ["2.6", "3.9"])
@pytest.mark.parametrize("options", [[], ["--preserve-throttles"]])
def test_a_recording_without_actions_shows_what_the_tool_cancelled(
    version: str, options: list[str], tmp_path: Path
) -> None:
    tool = MadeStep(
        "cancel",
        [],
        lambda c: c.cancel_reassignment(PLAN, preserve_throttles=bool(options)),
        tools=[" ".join((REASSIGNMENT, "--cancel", *options)), f"{REASSIGNMENT} --list"],
    )
    assert replayed(tmp_path, version, [CREATED_BY_TOOL, PAUSED, STUCK, tool, RESUMED], has_acts=False) == []


def _clear_at_once(c: KafkaCluster) -> None:
    """Clear throttles as the real tool does: all brokers at once, then the topics."""
    answers = [c.alter_config(f"brokers/{n}", dict.fromkeys(BROKER_THROTTLES), via=n) for n in (2, 1, 3)]
    while not all(answer.done for answer in answers):
        c.run_for(0.0005)
    c.alter_config("topics/t", dict.fromkeys(REPLICAS_KEYS))


def _throttle_at_once(c: KafkaCluster) -> None:
    c.alter_config("topics/t", dict(zip(REPLICAS_KEYS, ("0:1,0:2", "0:3"), strict=True)))
    c.run_for(0.1)
    answers = [c.alter_config(f"brokers/{n}", dict.fromkeys(RATE_KEYS, "1000"), via=n) for n in (3, 1, 2)]
    while not all(answer.done for answer in answers):
        c.run_for(0.0005)
    c.reassign({("t", 0): [3, 2]})


@pytest.mark.parametrize("version", ["2.6", "2.7", "2.8", "3.0", "3.4", "3.9"])
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(MadeStep("cancel", [{"do": "cancel_reassignment", "moves": MOVES}], _clear_at_once), id="cancel"),
        pytest.param(
            MadeStep(
                "move", [{"do": "reassign", "moves": MOVES, "options": ["--throttle", "1000"]}], _throttle_at_once
            ),
            id="throttle",
        ),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_brokers_write_their_throttles_in_any_order(version: str, step: MadeStep, seed: int, tmp_path: Path) -> None:
    assert replayed(tmp_path, version, [CREATED, step], seed=seed) == []


BOUNCED = MadeStep("bounce", [{"do": "kill", "broker": 2}, {"do": "start", "broker": 2}], lasts_s=15.0)


@pytest.mark.parametrize("version", ["0.9.0", "1.1", "2.4", "3.9"])
@pytest.mark.parametrize("keeps_s", [0.05, 2.0, 9.0])
def test_a_failed_start_keeps_its_session_as_long_as_the_recorded_one(
    version: str, keeps_s: float, tmp_path: Path
) -> None:
    timing = simzk.BrokerTiming(restarts_brokers=False, failed_start_us=lambda _: round(keeps_s * 1_000_000))
    assert replayed(tmp_path, version, [CREATED, BOUNCED, started(2)], timing=timing) == []


def _halt(c: KafkaCluster, after_s: float, *, closes: bool) -> None:
    """Start a broker whose process ends while it starts, and whose session is closed, or expires."""
    c.kill(2)
    c.run_for(8)
    c.restart(2)
    c.run_for(after_s)
    session_id = c.brokers[2].session_id
    c.kill(2)
    if closes:
        c.run_for(0.2)
        c.expire_session(2, session_id)


@pytest.mark.parametrize("version", ["0.9.0", "1.1", "3.9"])
@pytest.mark.parametrize("after_s", [0.55, 0.6])
@pytest.mark.parametrize("closes", [True, False])
def test_a_process_that_ends_while_it_starts_leaves_what_the_recorded_one_left(
    version: str, after_s: float, closes: bool, tmp_path: Path
) -> None:
    timing = simzk.BrokerTiming(restarts_brokers=False, registration_pause_us=lambda _: 300_000)
    halted = MadeStep(
        "halt",
        [{"do": "kill", "broker": 2}, {"do": "start", "broker": 2, "after": 8}],
        lambda c: _halt(c, after_s, closes=closes),
    )
    assert replayed(tmp_path, version, [CREATED, halted, started(2)], timing=timing) == []
