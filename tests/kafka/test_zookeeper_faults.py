"""Brokers whose requests to ZooKeeper, or the replies, are lost, late or refused (docs/reference/kafka.md §1.10)."""

from __future__ import annotations

import pytest

import simzk
from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation.agreement import disagreements, read_written
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.clusters import QUICK, cluster, happened, quiet, state_fields, topic, watch
from tests.waiting import PATIENCE_S

STATE = paths.state(TopicPartition("t", 0))


def test_the_lost_reply_of_a_conditional_write_is_no_failure() -> None:
    """KAFKA-1382: the write is sent again and finds the version that it made itself; then the state is read again.

    A controller elects anew from what it reads, and writes once more (PartitionStateMachine.electLeaderForPartitions);
    it goes on with the version that stands.
    """
    with cluster(4, controller=4) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        before = state_fields(c, "t")
        rule = c.zookeeper_faults.drop_reply("transaction", client=4, path=STATE)
        c.kill(1)
        quiet(c)
        assert rule.fired == 1
        assert c.controller == 4
        leader, isr, epoch, version = state_fields(c, "t")
        assert (leader, isr) == (2, (2, 3))
        assert (epoch, version) == (before[2] + 2, before[3] + 2)
        assert c.table.version[c.table.row("t", 0)] == version
        assert happened(c, "fault: drop_reply") == [f"{paths.CONTROLLER_EPOCH}, {STATE}"]
        c.restart(1)
        quiet(c)
        assert sorted(state_fields(c, "t")[1]) == [1, 2, 3], "the writes after it succeed, too"
        assert not monitor.violations


@pytest.mark.parametrize("verb", ["drop_request", "drop_reply"])
@pytest.mark.parametrize("times", [1, 2])
def test_an_isr_shrinks_whatever_is_lost_of_its_write(verb: str, times: int) -> None:
    with cluster(4, controller=4) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        version = state_fields(c, "t")[3]
        rule = getattr(c.zookeeper_faults, verb)("transaction", path=STATE, times=times)
        c.pause(3)
        c.produce("t", 0)
        c.run_for(60)
        assert rule.fired >= 1
        assert state_fields(c, "t")[:2] == (1, (1, 2))
        assert state_fields(c, "t")[3] == version + 1
        c.resume(3)
        quiet(c)
        assert sorted(state_fields(c, "t")[1]) == [1, 2, 3]
        assert not monitor.violations


@pytest.mark.parametrize(("verb", "first"), [("drop_request", "0"), ("drop_reply", "1000")])
def test_a_lost_reply_costs_a_block_of_producer_ids(verb: str, first: str) -> None:
    """From 3.0 on nobody looks whether the block that stands is one's own (ZkProducerIdManager)."""
    with cluster(3, controller=1) as c:
        rule = getattr(c.zookeeper_faults, verb)("set", path=paths.PRODUCER_IDS)
        answer = c.allocate_producer_ids(1)
        quiet(c)
        assert rule.fired == 1
        assert answer.result().message == first


@pytest.mark.parametrize("verb", ["drop_request", "drop_reply"])
def test_a_broker_registers_whatever_is_lost_of_its_request(verb: str) -> None:
    with cluster(3) as c:
        c.kill(2)
        quiet(c)
        rule = getattr(c.zookeeper_faults, verb)("transaction", client=2, path=paths.broker(2))
        c.restart(2)
        quiet(c)
        assert rule.fired == 1
        assert c.live_brokers == [1, 2, 3]


def test_the_lost_reply_of_an_election_makes_a_controller_all_the_same() -> None:
    """§2.2: what stands in /controller and its epoch says that it was our own success."""
    with cluster(3, controller=1) as c:
        c.prefer_controller(2)
        rule = c.zookeeper_faults.drop_reply("transaction", client=2, path=paths.CONTROLLER)
        c.kill(1)
        quiet(c)
        assert rule.fired == 1
        assert c.controller == 2
        node = c.server.tree.get(paths.CONTROLLER_EPOCH)
        assert node is not None
        assert node.data == b"2"


def test_a_delay_is_of_virtual_time_and_of_one_broker() -> None:
    with cluster(3, controller=1) as c:
        topic(c, "t", {0: [1, 2, 3]})
        rule = c.zookeeper_faults.delay("transaction", seconds=2, client=1, path=STATE)
        c.shutdown(3)
        c.run_for(1.5)
        assert rule.waiting == 1
        assert state_fields(c, "t")[1] == (1, 2, 3)
        c.run_for(2)
        assert state_fields(c, "t")[1] == (1, 2)


def test_what_is_held_is_written_when_it_is_released() -> None:
    with cluster(3, controller=1) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        rule = c.zookeeper_faults.hold("transaction", client=1, path=STATE)
        c.kill(3)
        c.run_for(10)
        assert (rule.waiting, state_fields(c, "t")[1]) == (1, (1, 2, 3))
        rule.release()
        quiet(c)
        assert state_fields(c, "t")[1] == (1, 2)
        assert not monitor.violations


def test_a_broker_that_zookeeper_does_not_read_expires_and_comes_back() -> None:
    with cluster(3, controller=1) as c:
        monitor = watch(c)
        rule = c.zookeeper_faults.pause("ping", client=2)
        c.run_for(20)
        assert rule.fired == 1
        assert c.live_brokers == [1, 3]
        rule.release()
        quiet(c)
        assert c.live_brokers == [1, 2, 3]
        assert not monitor.violations


def test_a_session_expires_at_a_write_and_the_write_is_not_made() -> None:
    with cluster(3, controller=1) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        rule = c.zookeeper_faults.expire("transaction", client=1, path=STATE)
        c.shutdown(3)
        quiet(c)
        assert rule.fired == 1
        assert state_fields(c, "t")[1] in ((1, 2), (2, 1), (2,))
        assert not monitor.violations


def test_a_controller_may_die_while_it_reads_isr_notifications() -> None:
    with simzk.KafkaCluster("2.1", 3, seed=1) as c:
        controller = c.controller
        assert controller is not None
        first, second = (broker for broker in (1, 2, 3) if broker != controller)
        topic(c, "t", {0: [first, second]})
        rule = c.zookeeper_faults.pause("get", client=controller, path=paths.ISR_CHANGES, below=True)
        c.kill(second)
        c.run_for(30)
        c.restart(second)
        c.run_until(lambda: rule.fired == 1, timeout_s=30)
        c.kill(controller)
        node = c.server.tree.get(paths.ISR_CHANGES)
        assert node is not None
        assert node.children, "a dead controller deletes nothing"
        c.run_for(60)
        assert not node.children, "the next controller deletes them"


def test_an_unknown_broker_is_refused() -> None:
    with cluster(2) as c, pytest.raises(ConfigError, match="broker 7 does not exist; expected one of 1, 2"):
        c.zookeeper_faults.hold(client=7)


def test_kazoo_clients_of_a_cluster_meet_the_same_rules() -> None:
    with simzk.KafkaCluster(brokers=2, seed=3) as c:
        client = c.zookeeper.client()
        client.start()
        late = c.zookeeper.faults.delay("create", seconds=1, client=client)
        pending = client.create_async("/a")
        while not late.fired:
            pending.wait(0.01)
        c.run_for(0.9)
        assert (late.waiting, client.client_state) == (1, "CONNECTED")
        c.run_for(0.2)
        assert pending.get(timeout=PATIENCE_S) == "/a"
        assert [rule.number for rule in c.zookeeper_faults.rules] == [late.number]


def test_the_same_faults_give_the_same_history() -> None:
    def story() -> str:
        with cluster(3, controller=1, seed=8) as c:
            topic(c, "t", {0: [1, 2, 3]})
            c.zookeeper_faults.drop_reply("transaction", path=STATE, times=2)
            c.zookeeper_faults.delay("ping", seconds=0.2, times=5)
            c.kill(2)
            quiet(c)
            return c.history.to_text()

    assert story() == story()


@pytest.mark.parametrize("version", ["1.0", "2.4", "3.9"])
def test_a_preferred_election_whose_reply_is_lost_is_written_again(version: str) -> None:
    """Its controller finds the preferred replica elected, and by its cache the election is still needed."""
    with KafkaCluster(version, 3, config=QUICK, seed=1) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        c.kill(1)
        quiet(c)
        c.restart(1)
        quiet(c)
        leader, _, epoch, _ = state_fields(c, "t")
        assert leader != 1
        assert c.controller is not None
        operation = "set" if version == "1.0" else "transaction"
        rule = c.zookeeper_faults.drop_reply(operation, client=c.controller, path=STATE)
        c.elect("preferred")
        quiet(c)
        assert rule.fired == 1
        assert state_fields(c, "t")[0] == 1
        assert state_fields(c, "t")[2] >= epoch + 1
        assert disagreements(list(c.brokers.values()), read_written(c.tree, c.controller, c.live_brokers)) == []
        assert not monitor.violations
