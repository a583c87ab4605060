"""Truncation of followers' logs, entry into the ISR, and disks, by release (docs/reference/kafka.md §2.17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster, ReplicaLog
from simzk.kafka.log.log import first_difference
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import AppendResponse, EpochEndsRequest, FollowerFetchRequest
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.clusters import quiet, state_fields, topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.kafka.log.batches import RecordBatch

T0 = TopicPartition("t", 0)
LINES = ["0.8.2", "0.10.2", "0.11", "1.1", "2.0.0", "2.0", "2.4", "2.7", "2.8", "3.9"]
"""One release of each way to truncate, and of each way to join an ISR."""


def ruled(line: str, brokers: int = 4, **config: str | int | bool) -> KafkaCluster:
    """Return a cluster with the last broker as controller."""
    quick: dict[str, str | int | bool] = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": False}
    values = quick | {key.replace("_", "."): value for key, value in config.items()}
    c = KafkaCluster(line, brokers, config=values, boot=False)
    c.restart(brokers)
    quiet(c)
    for broker in range(1, brokers):
        c.restart(broker)
    quiet(c)
    assert c.controller == brokers
    return c


def produce(c: KafkaCluster, records: int, acks: str | int = "all", seconds: float = 1.0) -> AppendResponse:
    """Send a batch, let time pass, and return the response."""
    answer = c.produce("t", 0, records, acks=acks)  # type: ignore[arg-type]  # a parameter of tests
    c.run_for(seconds)
    return answer.result()


def leads(c: KafkaCluster, broker: int) -> None:
    """Wait until a broker leads the partition."""
    c.run_until(lambda: c.brokers[broker].alive and c.brokers[broker].replicas.leads(T0))


def log_ends(c: KafkaCluster, *brokers: int) -> list[int]:
    return [c.log(broker, "t", 0).log_end for broker in brokers]


def requests_to(c: KafkaCluster, broker: int) -> list[object]:
    """Collect what a broker is asked from now on."""
    collected: list[object] = []
    connections = c.brokers[broker]._environment.connections
    process, serve = connections.ends[f"broker {broker}"]

    def recording(request: object, respond: object) -> None:
        collected.append(request)
        serve(request, respond)  # type: ignore[arg-type]

    connections.ends[f"broker {broker}"] = process, recording
    return collected


def lose_by_early_isr(line: str, note: Callable[[KafkaCluster], object] = lambda _: None) -> int:
    """Return how many of 20 acknowledged records the last of two leaders has, after two crashes and clean elections.

    Broker 3 leaves the ISR with 15 records; five more are acknowledged by the others. The leader dies before its
    followers know of their high watermark. The new one waits for broker 4, so its high watermark is 15, and broker 3,
    whose disk is slow, fetches from 15 on.
    """
    with ruled(line, 5, replica_lag_time_max_ms=4000, unclean_leader_election_enable=False) as c:
        note(c)
        topic(c, "t", {0: [1, 2, 3, 4]})
        assert produce(c, 15) == AppendResponse(ErrorCode.NONE, 0)
        c.network.cut("broker 1", "broker 3")
        pending = c.produce("t", 0, 5, acks="all")
        c.run_until(lambda: pending.done)
        assert pending.result() == AppendResponse(ErrorCode.NONE, 15)
        assert state_fields(c, "t")[:2] == (1, (1, 2, 4))
        c.network.cut("broker 2", "broker 4")
        c.kill(1)
        c.slow_disk(3, 10)
        c.run_until(lambda: state_fields(c, "t")[0] == 2)
        assert log_ends(c, 2, 3, 4) == [20, 15, 20]
        c.run_for(1.5)
        c.kill(2)
        c.run_until(lambda: state_fields(c, "t")[0] not in (2, -1))
        c.run_for(1)
        leader, isr, *_ = state_fields(c, "t")
        assert leader in isr
        return c.log(leader, "t", 0).log_end


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("line", ["0.8.2", "0.10.2", "2.4", "2.8", "3.9"])
def test_a_replica_accepts_no_epoch_without_a_leader(line: str) -> None:
    """Such a LeaderAndIsr only makes the log (ReplicaManager.makeFollowers)."""
    with ruled(line, unclean_leader_election_enable=False, replica_lag_time_max_ms=4000) as c:
        topic(c, "t", {0: [1, 2, 3]})
        for follower in (2, 3):
            c.network.cut("broker 1", f"broker {follower}")
        produce(c, 5, acks=1, seconds=15)
        assert state_fields(c, "t")[:3] == (1, (1,), 0)
        c.kill(1)
        c.run_for(10)
        c.kill(3)
        c.restart(3)
        c.run_for(10)
        leader, isr, epoch, _ = state_fields(c, "t")
        assert (leader, isr, epoch > 0) == (-1, (1,), True)
        states = [c.brokers[broker].replicas.replicas[T0].state for broker in (2, 3)]
        assert [(state.leader, state.leader_epoch) for state in states] == [(1, 0), (-1, -1)]
        assert c.log(3, "t", 0).log_end == 0
        c.network.heal_all()
        c.restart(1)
        quiet(c)
        assert log_ends(c, 1, 2, 3) == [5, 5, 5]


@pytest.mark.parametrize("line", ["2.6", "2.8", "3.4.0", "3.9"])
def test_a_replica_that_never_had_a_leader_is_stopped_when_its_reassignment_is_cancelled(line: str) -> None:
    """Its epoch is -1, so that the StopReplica is not fenced as one in its own epoch is (KAFKA-13972)."""
    with ruled(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(1)
        c.kill(2)
        c.run_for(20)
        c.reassign({("t", 0): [1, 2, 3]})
        c.run_for(5)
        assert T0 in c.brokers[3].replicas.replicas
        assert c.assignment("t")[0].adding == (3,)
        c.reassign({("t", 0): None})
        c.run_for(5)
        assert c.assignment("t")[0].replicas == (1, 2)
        assert T0 not in c.brokers[3].replicas.replicas


@pytest.mark.parametrize(("line", "left"), [("1.1", 15), ("2.0.0", 15), ("2.0.1", 20), ("2.4", 20), ("3.9", 20)])
def test_a_follower_joins_the_isr_with_the_log_that_the_leader_began_with(line: str, left: int) -> None:
    """KAFKA-7128, mended in 2.0.1: before, acknowledged records were lost in clean elections."""
    assert lose_by_early_isr(line) == left


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("line", LINES)
def test_the_log_of_a_former_leader_is_cut_to_that_of_its_successor(line: str) -> None:
    """The former leader has two records that nobody else has, the new one appended others at their offsets."""
    with ruled(line, replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2]})
        produce(c, 5)
        c.network.cut("broker 1", "broker 2")
        produce(c, 2, acks=1)
        assert log_ends(c, 1, 2) == [7, 5]
        c.kill(1)
        leads(c, 2)
        c.network.heal_all()
        produce(c, 1)
        asked = requests_to(c, 2)
        c.restart(1)
        quiet(c)
        c.run_for(2)
        assert [c.log(broker, "t", 0) for broker in (1, 2)] == [ReplicaLog(6, 6)] * 2
        ours, theirs = (c.brokers[broker].replicas.replicas[T0].log for broker in (1, 2))
        assert first_difference(ours, theirs, 6) is None
        questions = [request for request in asked if isinstance(request, EpochEndsRequest)]
        assert len(questions) == (1 if line in ("0.11", "1.1", "2.0.0", "2.0", "2.4", "2.7") else 0)
        assert all(request.names_epochs == (line >= "2") for request in questions)
        assert all(request.fenced == (line >= "2.1") for request in questions)
        fetches = [one for request in asked if isinstance(request, FollowerFetchRequest) for one in request.changed]
        assert any(one.last_epoch >= 0 for one in fetches) == (line in ("2.8", "3.9"))


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("line", ["2.4", "2.8", "3.9"])
def test_a_leader_that_appended_nothing_follows_the_next_one(line: str) -> None:
    """Its log has an epoch without records, which the next leader does not have (UnifiedLog.truncateTo)."""
    with ruled(line, replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2, 3]})
        produce(c, 3)
        c.network.cut("broker 2", "broker 3")
        c.kill(1)
        leads(c, 2)
        c.pause(2, 10)
        leads(c, 3)
        c.network.heal_all()
        c.run_for(12)
        produce(c, 2)
        assert log_ends(c, 2, 3) == [5, 5]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("line", ["0.11", "2.4", "3.9"])
def test_empty_logs_ask_nothing(line: str) -> None:
    with ruled(line) as c:
        topic(c, "t", {0: [1, 2, 3]})
        asked = requests_to(c, 2)
        c.kill(1)
        leads(c, 2)
        c.run_for(2)
        assert not [request for request in asked if isinstance(request, EpochEndsRequest)]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(("line", "survives"), [("1.1", False), ("2.0", True), ("2.7", True), ("3.9", True)])
def test_fast_failovers_leave_logs_different_or_not(line: str, survives: bool) -> None:
    """KAFKA-6361, the example of KIP-279: two leaders in turn append alone, then a third epoch compares their logs."""
    with ruled(line, unclean_leader_election_enable=True, replica_lag_time_max_ms=2000) as c:
        topic(c, "t", {0: [1, 2]})
        produce(c, 2)
        c.kill(2)
        c.run_for(8)
        produce(c, 1, acks=1)  # at offset 2, in the epoch of broker 1
        c.kill(1)
        c.run_for(8)
        c.restart(2)
        leads(c, 2)  # by an unclean election
        produce(c, 1, acks=1)  # at offset 2, in a later epoch
        c.kill(2)
        c.run_for(8)
        c.restart(1)
        leads(c, 1)
        produce(c, 1, acks=1)  # at offset 3, in the last epoch
        c.restart(2)
        quiet(c)
        c.run_for(3)
        ours, theirs = (c.brokers[broker].replicas.replicas[T0].log for broker in (1, 2))
        assert log_ends(c, 1, 2) == [4, 4]
        assert (first_difference(ours, theirs, 4) is None) == survives


def test_an_error_of_the_leader_delays_the_truncation_of_one_partition_only() -> None:
    with ruled("2.4", replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2], 1: [1, 2]})
        produce(c, 3)
        c.kill(2)
        c.run_for(8)
        stale = c.brokers[1].replicas.replicas[T0]
        kept, stale.state = stale.state, stale.state._replace(leader=-1)  # the leader does not lead it yet
        c.restart(2)
        c.run_for(5)
        follower = c.brokers[2].replicas.replicas
        assert follower[T0].truncates
        answer = c.produce("t", 1, 4, acks="all")
        c.run_for(3)
        assert answer.result().error == ErrorCode.NONE
        assert follower[TopicPartition("t", 1)].log_end == 4
        stale.state = kept
        c.run_for(3)
        assert not follower[T0].truncates
        produce(c, 2)
        assert log_ends(c, 1, 2) == [5, 5]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("line", ["0.9", "0.10.1", "3.9"])
def test_a_fetch_returns_no_more_than_its_size(line: str) -> None:
    """Ten batches of 161 bytes, two at a time; since 0.10.1 all partitions together are limited as well (KIP-74)."""
    config = {"replica_fetch_max_bytes": 400}
    if line != "0.9":
        config["replica_fetch_response_max_bytes"] = 500
    with ruled(line, 4, **config) as c:
        topic(c, "t", {0: [1, 2], 1: [1, 2]})
        c.network.cut("broker 1", "broker 2")
        for partition in (0, 1):
            for _ in range(10):
                c.produce("t", partition, 1, acks=1)
        c.run_for(1)
        follower = c.brokers[2].replicas
        sizes: list[dict[int, int]] = []
        append = follower.append_fetched

        def note(partition: TopicPartition, log_end: int, batches: Sequence[RecordBatch]) -> None:
            sizes.append({partition.partition: len(batches)})
            append(partition, log_end, batches)

        follower.append_fetched = note  # type: ignore[method-assign]
        c.network.heal_all()
        c.run_for(35)
        assert [follower.replicas[TopicPartition("t", p)].log_end for p in (0, 1)] == [10, 10]
        assert [follower.replicas[TopicPartition("t", p)].high_watermark for p in (0, 1)] == [10, 10]
        assert max(max(one.values()) for one in sizes) == 2
        assert len(sizes) >= 10


def test_a_killed_process_loses_nothing_and_a_machine_without_power_what_was_not_written() -> None:
    with ruled("3.9") as c:
        topic(c, "t", {0: [1]})
        produce(c, 10, seconds=40)
        produce(c, 5, seconds=10)
        c.kill(1)
        c.restart(1)
        quiet(c)
        assert log_ends(c, 1) == [15]
        c.power_off(1)
        c.restart(1)
        quiet(c)
        assert c.log(1, "t", 0) == ReplicaLog(10, 10)
        produce(c, 5)
        c.shutdown(1)
        c.run_for(5)
        c.power_off(1)
        c.restart(1)
        quiet(c)
        assert log_ends(c, 1) == [15]


def test_all_machines_without_power_lose_acknowledged_records() -> None:
    """Kafka relies on replicas, not on flushes: a power loss of all of them is not covered by acks=all."""
    for interval, left in ((2**63 - 1, 0), (1, 10)):
        with ruled("3.9", log_flush_interval_messages=interval) as c:
            topic(c, "t", {0: [1, 2, 3]})
            assert produce(c, 10).error == ErrorCode.NONE
            for broker in (1, 2, 3):
                c.power_off(broker)
            c.run_for(20)
            for broker in (1, 2, 3):
                c.restart(broker)
            quiet(c)
            c.run_for(2)
            assert log_ends(c, 1, 2, 3) == [left] * 3


def test_a_wiped_broker_fetches_everything_again() -> None:
    with ruled("3.9") as c:
        topic(c, "t", {0: [1, 2]})
        produce(c, 10)
        c.kill(2)
        c.run_for(8)
        with pytest.raises(ConfigError, match="broker 1 is running"):
            c.wipe(1)
        c.wipe(2)
        c.restart(2)
        quiet(c)
        c.run_for(2)
        assert [c.log(broker, "t", 0) for broker in (1, 2)] == [ReplicaLog(10, 10)] * 2


def test_a_slow_disk_delays_appends_one_after_the_other() -> None:
    with ruled("3.9") as c:
        topic(c, "t", {0: [1]})
        c.slow_disk(1, 2.0)
        answers = [c.produce("t", 0, 1) for _ in range(3)]
        for done in (0, 1, 2, 3):
            c.run_for(1.9 if done == 0 else 2.0)
            assert [answer.done for answer in answers] == [True] * done + [False] * (3 - done)
        c.slow_disk(1, 0)
        assert produce(c, 1).base_offset == 3


def test_a_follower_with_a_slow_disk_leaves_the_isr_and_returns() -> None:
    with ruled("3.9", replica_lag_time_max_ms=4000) as c:
        topic(c, "t", {0: [1, 2]})
        c.slow_disk(2, 10.0)
        produce(c, 10, acks=1, seconds=8)
        assert state_fields(c, "t")[1] == (1,)
        c.run_for(10)
        assert state_fields(c, "t")[1] == (1, 2)
        assert log_ends(c, 1, 2) == [10, 10]


def test_what_an_impossible_disk_fault_says() -> None:
    with KafkaCluster(brokers=1) as c:
        with pytest.raises(ConfigError, match="the time is -1 s"):
            c.power_off(1, unwritten_s=-1)
        with pytest.raises(ConfigError, match="the time is -1 s"):
            c.slow_disk(1, -1)
        with pytest.raises(ConfigError, match="broker 7 does not exist"):
            c.wipe(7)
