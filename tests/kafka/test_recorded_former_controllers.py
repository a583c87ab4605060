"""A controller is stopped in the middle of an event until its session is over: what it writes then, as real ones do.

`python -m tests.conformance.real_kafka.record_former_controllers` has recorded it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from simzk.kafka import paths
from simzk.kafka.cluster.cluster import KafkaCluster
from tests.kafka.clusters import QUICK, happened, quiet, topic, watch
from tests.kafka.recorded_lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

DATA = Path(__file__).parent / "data" / "former_controllers.jsonl.gz"
STORY, TOPIC = "stopped controller", "orders"
CONTROLLER, LEADER, FOLLOWER = 4, 1, 3
LAG_MS = 30_000
PARTITIONS = 200
RECORDED = {line["release"]: line["looks"] for line in read_lines(DATA)}


def counted(states: Iterable[tuple[int, tuple[int, ...], int, int]]) -> list[list[object]]:
    """Return how many partitions have each leader, ISR, leader epoch and controller epoch, ascending."""
    return [[leader, list(isr), *epochs, n] for (leader, isr, *epochs), n in sorted(Counter(states).items())]


def look(c: KafkaCluster) -> dict[str, Any]:
    """Return the controller epoch, the states, and whether the leader's writes are refused."""
    states = [c.state(TOPIC, number) for number in range(PARTITIONS)]
    node = c.tree.get(paths.CONTROLLER_EPOCH)
    assert node is not None
    assert node.data is not None
    return {
        "controller_epoch": int(node.data),
        "states": counted((one.leader, one.isr, one.leader_epoch, one.controller_epoch) for one in states),
        "refused": any(one.who == f"broker {LEADER}" and one.what == "ISR change refused" for one in c.history),
    }


def played(version: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Play the recorded story; return the looks, and the known bugs of Kafka that invariants have counted."""
    config = QUICK | {"replica.lag.time.max.ms": LAG_MS}
    with KafkaCluster(version, 4, config=config, boot=False) as c:
        monitor = watch(c)
        for broker in (CONTROLLER, 1, 2, 3):
            c.restart(broker)
            quiet(c)
        topic(c, TOPIC, {number: [LEADER, 2, FOLLOWER] for number in range(PARTITIONS)})
        c.run_for(3)
        c.kill(FOLLOWER)
        while not happened(c, "ISR shrunk"):
            c.run_for(0.001)
        c.pause(CONTROLLER)
        looks = [look(c)]
        while c.controller in (None, CONTROLLER):
            c.run_for(0.1)
        c.run_for(3)
        looks.append(look(c))
        c.resume(CONTROLLER)
        while CONTROLLER not in c.live_brokers:
            c.run_for(0.1)
        c.run_for(3)
        looks.append(look(c))
        c.run_for(1.6 * LAG_MS / 1000)
        looks.append(look(c))
        assert not monitor.violations
        return looks, [known.issue for known in monitor.known]


def without_counts(found: dict[str, Any]) -> dict[str, Any]:
    """Return a look without the numbers of partitions, which are those of the moment of the stop."""
    return found | {"states": [kind for *kind, _ in found["states"]]}


@pytest.mark.parametrize("release", RECORDED)
def test_a_former_controller_ends_its_event_as_a_real_one(release: str) -> None:
    """KAFKA-3083, and the leaders that cannot write any more (KAFKA-2729)."""
    recorded = RECORDED[release]
    looks, known = played(release)
    for real, simulated in zip(recorded[:2], looks[:2], strict=True):
        assert len(real["states"]) == 2, "it was stopped in the middle"
        assert without_counts(simulated) == without_counts(real)
    assert looks[2:] == recorded[2:]
    assert recorded[-1]["refused"]
    assert set(known) == {"KAFKA-3083"}


@pytest.mark.parametrize("line", ["1.1", "2.0", "3.9"])
def test_from_1_1_on_its_event_ends_with_its_session(line: str) -> None:
    looks, known = played(line)
    assert looks[1] == looks[2]
    assert not known
