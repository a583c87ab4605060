"""Automatic rebalance of leaders by release: schedule, imbalance count, elected partitions.

Source of the expectations: KafkaController.checkAndTriggerAutoLeaderRebalance of every release line (up to 0.10
checkAndTriggerPartitionRebalance).
"""

from __future__ import annotations

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from tests.kafka.clusters import quiet, topic

pytestmark = pytest.mark.slow

LINES = ["0.8.1", "0.8.2", "0.9", "0.10.2", "0.11", "1.0", "1.1", "2.1", "2.4", "2.5", "2.6", "3.3", "3.4", "3.9"]
FIRST_S, INTERVAL_S = 5, 60


def cluster(line: str, interval_s: int | None = INTERVAL_S, brokers: int = 4) -> KafkaCluster:
    """Return a cluster with the last broker as controller."""
    config: dict[str, str | int | bool] = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": True}
    config["delete.topic.enable"] = True
    if interval_s is not None:
        config["leader.imbalance.check.interval.seconds"] = interval_s
    c = KafkaCluster(line, brokers, config=config, boot=False)
    c.restart(brokers)
    c.run_for(1)
    for broker in range(1, brokers):
        c.restart(broker)
    quiet(c)
    assert c.controller == brokers
    return c


def ready_s(c: KafkaCluster) -> float:
    """Return the time of the present controller's failover, in seconds."""
    return max(event.at_us for event in c.history if event.what == "ready") / 1e6


def now_s(c: KafkaCluster) -> float:
    return c.scheduler.now_us / 1e6


def led_back_s(c: KafkaCluster, subject: str, leader: int) -> list[float]:
    """Return the times at which a broker became leader of a partition again, in seconds."""
    return [
        event.at_us / 1e6
        for event in c.history
        if event.what == "leader moved" and event.subject == subject and event.after.startswith(f"leader {leader} ")
    ]


def kill_and_restart(c: KafkaCluster, broker: int) -> None:
    """Kill and restart a broker, so that it leads nothing, between two checks."""
    since_s = (now_s(c) - ready_s(c) - FIRST_S) % INTERVAL_S
    c.run_for(INTERVAL_S - since_s + 1)
    c.kill(broker)
    c.run_for(9)
    c.restart(broker)
    c.run_for(15)


def leaders(c: KafkaCluster, name: str, partitions: int) -> list[int]:
    return [c.state(name, number).leader for number in range(partitions)]


@pytest.mark.parametrize("line", LINES)
def test_runs_five_seconds_after_a_failover_and_then_every_five_minutes(line: str) -> None:
    with cluster(line, None) as c:
        topic(c, "t", {0: [2, 3]})
        c.run_for(10)  # the first run of this controller is over
        c.kill(2)
        c.run_for(9)
        c.restart(2)
        c.run_for(15)
        assert leaders(c, "t", 1) == [3]
        c.prefer_controller(1)
        c.kill(4)
        c.run_for(30)
        assert c.controller == 1
        (first_s,) = led_back_s(c, "t-0", 2)
        assert FIRST_S <= first_s - ready_s(c) < FIRST_S + 0.1
        c.kill(2)
        c.run_for(9)
        c.restart(2)
        c.run_for(320)
        _, second_s = led_back_s(c, "t-0", 2)
        assert abs(second_s - first_s - 300) < 0.1


@pytest.mark.parametrize("line", ["0.8.2", "1.0", "1.1", "2.4", "2.6", "3.9"])
@pytest.mark.parametrize(("partitions", "moved"), [(10, False), (9, True)])
def test_requires_more_than_ten_percent_imbalance(line: str, partitions: int, moved: bool) -> None:
    with cluster(line) as c:
        topic(c, "t", {number: [2, 3] for number in range(partitions)})
        topic(c, "other", {number: [1, 3] for number in range(20)})  # of another broker: not counted
        kill_and_restart(c, 2)
        c.elect("preferred", [("t", number) for number in range(1, partitions)])
        c.run_for(5)
        assert leaders(c, "t", partitions) == [3] + [2] * (partitions - 1)
        c.run_for(INTERVAL_S)
        assert leaders(c, "t", 1) == [2 if moved else 3]


@pytest.mark.parametrize("line", ["0.8.2", "2.4", "2.6", "3.9"])
def test_a_preferred_broker_that_is_dead_or_behind_is_not_elected(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [2, 3]})
        kill_and_restart(c, 2)
        c.kill(2)
        c.run_for(2 * INTERVAL_S)
        assert leaders(c, "t", 1) == [3]
        c.network.cut("broker 2", "broker 3")
        c.restart(2)
        c.run_for(2 * INTERVAL_S)
        state = c.state("t", 0)
        assert (state.leader, state.isr) == (3, (3,))
        c.network.heal_all()
        c.run_for(2 * INTERVAL_S + 35)
        assert leaders(c, "t", 1) == [2]


@pytest.mark.parametrize("line", ["0.8.2", "1.1", "2.4", "3.9"])
def test_a_topic_that_is_being_deleted_is_not_counted(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {number: [2, 3] for number in range(10)})
        topic(c, "doomed", {0: [2, 1], 1: [2, 1]})
        kill_and_restart(c, 2)
        c.elect("preferred", [("t", number) for number in range(1, 10)])
        c.run_for(3)
        c.kill(1)  # so that the deletion cannot end
        c.run_for(9)
        c.write_znode("/admin/delete_topics/doomed", "")
        c.run_for(3)
        c.run_for(INTERVAL_S)
        assert c.tree.get("/admin/delete_topics/doomed") is not None
        assert leaders(c, "t", 10) == [3] + [2] * 9  # one of ten, not three of twelve


@pytest.mark.parametrize(
    ("line", "goes_on"), [("2.4", False), ("2.8", False), ("3.3", False), ("3.4", True), ("3.9", True)]
)
def test_pauses_during_reassignments_up_to_3_3(line: str, goes_on: bool) -> None:
    with cluster(line, brokers=5) as c:
        topic(c, "moving", {0: [3, 2]})
        topic(c, "still", {0: [2, 3]})
        kill_and_restart(c, 2)
        c.network.cut("broker 3", "broker 4")  # the new replica cannot fetch: the reassignment does not end
        c.reassign({("moving", 0): [2, 4]})
        c.run_for(3)
        assert c.assignment("moving")[0].replicas == (2, 4, 3)
        assert (leaders(c, "moving", 1), leaders(c, "still", 1)) == ([3], [3])
        c.run_for(INTERVAL_S)
        if goes_on:  # led by broker 2, broker 4 can fetch
            assert (leaders(c, "moving", 1), leaders(c, "still", 1)) == ([2], [2])
            c.run_for(20)
            assert c.assignment("moving")[0] == ((2, 4), (), ())
        else:
            assert (leaders(c, "moving", 1), leaders(c, "still", 1)) == ([3], [3])
