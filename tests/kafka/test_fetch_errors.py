"""A partition with an error is left out of a follower's fetches for a second; the others go on (delayPartitions)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import FetchedPartition, FollowerFetchRequest, FollowerFetchResponse
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.clusters import topic
from tests.kafka.test_truncation import ruled

if TYPE_CHECKING:
    from simzk.kafka.cluster.cluster import KafkaCluster

CONTROLLER = 4
MOVES, T0 = TopicPartition("moves", 0), TopicPartition("t", 0)


def seconds_until_committed(c: KafkaCluster, name: str, limit_s: float = 5.0) -> float:
    """Return how long a batch with acks of all takes."""
    begun_us = c.scheduler.now_us
    answer = c.produce(name, 0, acks="all")
    c.run_until(lambda: answer.done, limit_s)
    assert answer.result().error == ErrorCode.NONE
    return (c.scheduler.now_us - begun_us) / 1e6


@pytest.mark.parametrize("line", ["0.10.2", "1.1", "2.4", "2.8", "3.9"])
def test_other_partitions_of_a_leader_go_on(line: str) -> None:
    with ruled(line) as c:
        topic(c, "moves", {0: [2, 1, 3]})
        topic(c, "stays", {0: [1, 3]})
        c.run_for(2)
        # Broker 1 becomes the leader of one partition, and hears of it after its follower.
        c.network.hold(f"broker {CONTROLLER}", "broker 1")
        c.kill(2)
        c.run_until(lambda: c.brokers[3].replicas.replicas[MOVES].state.leader == 1)
        c.run_for(0.7)  # the follower has asked broker 1, which does not lead
        assert not c.brokers[1].replicas.leads(MOVES)
        times_s = [seconds_until_committed(c, "stays") for _ in range(5)]
        assert max(times_s) < 0.1
        c.network.release(f"broker {CONTROLLER}", "broker 1")
        c.run_for(5)
        assert set(c.state("moves", 0).isr) == {1, 3}
        c.check()


@pytest.mark.parametrize("line", ["2.1", "2.4", "2.7"])
def test_a_fenced_follower_fetches_as_soon_as_it_knows_the_new_epoch(line: str) -> None:
    with ruled(line) as c:
        topic(c, "t", {0: [1, 2, 3]})
        c.run_for(2)
        c.network.hold(f"broker {CONTROLLER}", "broker 3")
        c.kill(2)
        c.run_until(lambda: c.brokers[1].replicas.replicas[T0].state.isr == (1, 3))
        c.run_for(3)
        waits = c.produce("t", 0, acks="all", timeout_ms=20_000)
        c.run_for(3)
        assert not waits.done, "a follower with an old leader epoch gets no records"
        c.network.release(f"broker {CONTROLLER}", "broker 3")
        begun_us = c.scheduler.now_us
        c.run_until(lambda: waits.done)
        assert waits.result().error == ErrorCode.NONE
        assert c.scheduler.now_us - begun_us < 100_000
        c.check()


def test_a_follower_ahead_of_its_leader_tries_again_after_a_second() -> None:
    with ruled("3.9") as c:
        topic(c, "t", {0: [1, 2, 3]})
        c.run_for(2)
        c.network.hold(f"broker {CONTROLLER}", "broker 1")
        c.kill(2)
        c.run_until(lambda: c.brokers[3].replicas.replicas[T0].state.isr == (1, 3))
        c.run_for(5)
        c.network.release(f"broker {CONTROLLER}", "broker 1")
        c.run_for(0.01)
        assert seconds_until_committed(c, "t") < 1.2
        c.check()


@pytest.mark.parametrize("line", ["1.1", "2.4", "3.9"])
def test_a_follower_in_a_new_leader_epoch_is_told_the_high_watermark_again(line: str) -> None:
    """Tell it although it has not risen: what was on its way may be lost with the epoch before (CachedPartition)."""
    with ruled(line) as c:
        topic(c, "t", {0: [1, 2]})
        answer = c.produce("t", 0, acks="all")
        c.run_until(lambda: answer.done)
        c.kill(2)
        c.run_for(1)
        found: list[FollowerFetchResponse] = []
        for number, epoch in enumerate((0, 0, 1)):
            named = FetchedPartition(T0, epoch, 1)
            c.brokers[1].fetch_sessions.serve(FollowerFetchRequest(2, not number, False, (named,), ()), found.append)
            c.run_for(1)
        assert [one.watermarks for one in found] == [{T0: 1}, {}, {T0: 1}]
