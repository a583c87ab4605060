"""Rules of releases up to 0.9 without a recorded story (docs/reference/kafka.md §1.4, §2.2, §2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.clusters import QUICK, happened, quiet, state_fields, topic

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE = paths.state(TopicPartition("t", 0))


def cluster(line: str, config: Mapping[str, str | int | bool] | None = None) -> KafkaCluster:
    """Return a cluster of three brokers with the third as controller."""
    c = KafkaCluster(line, 3, config=QUICK | dict(config or {}), boot=False)
    for broker in (3, 1, 2):
        c.restart(broker)
        quiet(c)
    assert c.controller == 3
    return c


@pytest.mark.parametrize(("line", "waits"), [("0.8.0", True), ("0.8.1", True), ("0.8.2", True), ("0.9", False)])
def test_a_broker_that_finds_its_own_registration_waits_for_its_end_up_to_0_8_2(line: str, waits: bool) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(1)
        c.restart(1)
        quiet(c)
        assert c.live_brokers == [1, 2, 3]
        assert (happened(c, "cannot start") == []) == waits
        assert sorted(c.state("t", 0).isr) == [1, 2]
        c.check()


@pytest.mark.parametrize("line", ["0.8.0", "0.8.1", "0.8.2"])
def test_a_controller_that_comes_back_while_its_znode_stands_is_fenced_by_the_next_epoch(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(3)
        c.restart(3)
        quiet(c)
        assert c.live_brokers == [1, 2, 3]
        assert c.controller is not None
        node = c.server.tree.get(paths.CONTROLLER_EPOCH)
        assert node is not None
        assert node.data == b"2"
        active = [broker.id for broker in c.brokers.values() if broker.controller.is_active]
        assert active == [c.controller]
        c.check()


@pytest.mark.parametrize(("line", "written"), [("0.8.0", False), ("0.8.1", False), ("0.8.2", True), ("0.9", True)])
def test_an_isr_whose_reply_was_lost_is_taken_for_written_from_0_8_2_on(line: str, written: bool) -> None:
    """KAFKA-1382: earlier releases keep the old version, so that no later write of the leader succeeds."""
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(2)
        quiet(c)
        rule = c.zookeeper_faults.drop_reply("set", client=1, path=STATE)
        c.restart(2)
        c.run_for(20)
        assert rule.fired == 1
        assert state_fields(c, "t")[1] == (1, 2)
        assert (happened(c, "ISR change refused") == []) == written
        accepted = c.brokers[1].replicas.replicas[TopicPartition("t", 0)].state
        assert (accepted.isr == (1, 2)) == written


@pytest.mark.parametrize("line", ["1.0", "1.1", "2.6"])
def test_a_leader_tries_again_after_its_session_has_expired_at_a_write(line: str) -> None:
    """KafkaZkClient.conditionalUpdatePath throws since 1.1, and the next fetch asks for the same ISR again.

    No LeaderAndIsr helps the leader: the controller is dead, and the next one finds nothing to change.
    """
    with cluster(line, {"zookeeper.session.timeout.ms": 40_000, "replica.lag.time.max.ms": 10_000}) as c:
        topic(c, "t", {0: [1, 2]})
        c.pause(2)
        c.produce("t", 0)
        c.run_for(25)
        leader, isr, epoch, _ = state_fields(c, "t")
        assert (leader, isr) == (1, (1,))
        rule = c.zookeeper_faults.expire("set", client=1, path=STATE)
        c.kill(3)
        c.resume(2)
        c.run_for(10)
        assert rule.fired == 1
        assert happened(c, "learned that its session has expired")
        assert state_fields(c, "t")[:3] == (1, (1, 2), epoch)


@pytest.mark.parametrize(("line", "stays"), [("0.8.0", True), ("0.8.1", False), ("0.8.2", False), ("0.9", False)])
def test_a_follower_that_is_silent_and_has_all_there_is_stays_in_sync_in_0_8_0(line: str, stays: bool) -> None:
    with cluster(line, {"zookeeper.session.timeout.ms": 40_000}) as c:
        topic(c, "t", {0: [1, 2]})
        c.produce("t", 0)
        c.run_for(2)
        c.pause(2)
        c.run_for(25)
        assert state_fields(c, "t")[1] == ((1, 2) if stays else (1,))


@pytest.mark.parametrize("line", ["0.8.0", "0.8.1", "0.8.2", "0.9"])
@pytest.mark.parametrize("records", [100, 5000])
def test_a_follower_too_many_messages_behind_is_late_at_once_in_0_8(line: str, records: int) -> None:
    """From 0.9 on only the time since the last fetch counts (KIP-16)."""
    config = {"zookeeper.session.timeout.ms": 40_000, "replica.lag.time.max.ms": 30_000}
    with cluster(line, config) as c:
        topic(c, "t", {0: [1, 2]})
        c.produce("t", 0)
        c.run_for(2)
        c.pause(2)
        c.produce("t", 0, records)
        c.run_for(29)
        late = records > 4000 and line != "0.9"
        assert state_fields(c, "t")[1] == ((1,) if late else (1, 2))


@pytest.mark.parametrize(("line", "refused"), [("0.8.1", False), ("0.8.2", False), ("0.9", True)])
def test_names_that_differ_in_dots_and_underscores_alone_are_refused_from_0_9_on(line: str, refused: bool) -> None:
    with cluster(line) as c:
        topic(c, "a.b", {0: [1]})
        answer = c.create_topic("a_b", assignment={0: [1]})
        quiet(c)
        assert answer.result().error == (ErrorCode.INVALID_TOPIC_EXCEPTION if refused else ErrorCode.NONE)


def test_a_controller_of_0_8_0_does_nothing_for_brokers_that_start_once_a_topic_was_deleted() -> None:
    """It fails at the partitions of the topic, whose znodes the tool deleted (recorded); the next one does not."""
    with cluster("0.8.0") as c:
        topic(c, "gone", {0: [1, 2]})
        topic(c, "t", {0: [1]})
        c.delete_topic("gone")
        c.kill(1)
        quiet(c)
        c.restart(1)
        c.run_for(10)
        assert state_fields(c, "t") == (-1, (), 1, 1)
        assert len(happened(c, "failed")) == 1
        c.kill(3)
        quiet(c)
        assert state_fields(c, "t") == (1, (1,), 2, 2)


@pytest.mark.parametrize(("line", "epochs"), [("0.8.0", [1, 0]), ("0.8.1", [1, 1])])
def test_only_the_leader_hears_of_a_dead_replica_in_0_8_0(line: str, epochs: list[int]) -> None:
    with cluster(line) as c:
        partition = TopicPartition("t", 0)
        topic(c, "t", {0: [1, 2, 3]})
        c.kill(2)
        quiet(c)
        assert state_fields(c, "t")[:2] == (1, (1, 3))
        assert [c.brokers[broker].replicas.replicas[partition].state.leader_epoch for broker in (1, 3)] == epochs


@pytest.mark.parametrize(("line", "joins"), [("0.8.0", True), ("0.8.2", False)])
def test_a_resumed_broker_needs_no_configuration_for_a_new_log_in_0_8_0(line: str, joins: bool) -> None:
    """Recorded in step h3 of 0.8.0: broker 12 joins 0.5 s after SIGCONT, 1.6 s before its new session."""
    with cluster(line) as c:
        c.pause(1)
        c.create_topic("t", assignment={0: [2, 1]})
        c.run_for(10)
        assert c.live_brokers == [2, 3]
        before = c.brokers[1].session_id
        c.resume(1)
        c.run_for(0.3)
        assert c.brokers[1].session_id == before
        assert (TopicPartition("t", 0) in c.brokers[1].replicas.replicas) == joins
