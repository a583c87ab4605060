"""Each invariant of what brokers believe reports a planted mistake, and nothing in a cluster without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from simzk.kafka.broker import replica_manager
from simzk.kafka.broker.replica_manager import BrokerEpochs
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.metadata.changes import PartitionUpdates
from simzk.kafka.observation.beliefs import (
    BELIEFS,
    BeliefInvariant,
    SentEpochIsWritten,
    WrittenIsrRecognized,
    awaits_in_vain,
    is_fenced_by_known_bug,
    is_unaware_by_known_bug,
    unannounced_deletions,
)
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.partitions.table import PartitionTable
from simzk.scenarios.expectations import ExpectAgreed, ExpectRecovered, Observed
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from tests.kafka.clusters import QUICK, cluster, quiet, topic, watch
from tests.kafka.test_fencing import lead

if TYPE_CHECKING:
    from simzk.simulation import Monitor


def watched(c: KafkaCluster) -> Monitor:
    monitor = watch(c)
    topic(c, "orders", {0: [1, 2]})
    assert monitor.violations == []
    return monitor


def accept(c: KafkaCluster, broker: int, leader_epoch: int) -> None:
    """Let the replica of a broker accept its own leadership of the partition, without a request."""
    table = PartitionTable()
    rows = table.add("orders", {0: (1, 2)})
    table.put(int(rows[0]), LeaderAndIsr(broker, leader_epoch, (1, 2), 1, version=leader_epoch))
    c.brokers[broker].replica_manager.accept_on(
        broker, PartitionUpdates.of_table(table, rows, is_new=False), np.array([True])
    )


def broken(c: KafkaCluster, monitor: Monitor) -> list[str]:
    c.history.record("somebody", "looks")
    return [f"{violation.invariant}: {violation.detail}" for violation in monitor.violations]


def test_a_cluster_is_checked_for_all_of_them() -> None:
    with cluster(1, controller=1) as c:
        assert [type(one) for one in c.invariants if isinstance(one, BeliefInvariant)] == list(BELIEFS)


@pytest.mark.parametrize(("line", "is_checked"), [("0.8.1", True), ("0.8.2", False), ("2.6", False), ("2.8", True)])
def test_lost_replies_are_told_of_leaders_that_do_not_read_again(line: str, is_checked: bool) -> None:
    with KafkaCluster(line, 1) as c:
        assert any(isinstance(one, WrittenIsrRecognized) for one in c.invariants) == is_checked


def test_a_replica_that_obeys_an_old_leader_epoch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(3, controller=3) as c:
        monitor = watched(c)
        c.kill(2)
        quiet(c)
        epoch = c.state("orders", 0).leader_epoch
        accept(c, 1, epoch - 1)
        assert broken(c, monitor) == [], "it is refused"
        monkeypatch.setattr(replica_manager, "is_newer", lambda epochs, accepted: np.ones_like(epochs - accepted, bool))
        accept(c, 1, epoch - 1)
        assert broken(c, monitor) == [
            (
                "a broker accepts no older leader epoch and no older controller:"
                f" broker 1 has leader epoch {epoch} of orders-0 and accepted {epoch - 1}"
            )
        ]


def test_a_broker_that_obeys_an_old_controller_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(3, controller=3) as c:
        monitor = watched(c)
        c.kill(3)
        quiet(c)
        fence_all = BrokerEpochs.fence_all

        def forgets(self: BrokerEpochs, *args: object) -> object:
            self._controller_epoch[:] = 0
            return fence_all(self, *args)  # type: ignore[arg-type]

        lead(c.brokers[1], controller_epoch=1, leader=1, leader_epoch=0)
        assert broken(c, monitor) == []
        monkeypatch.setattr(BrokerEpochs, "fence_all", forgets)
        lead(c.brokers[1], controller_epoch=1, leader=1, leader_epoch=0)
        assert "broker 1 obeyed controller epoch 2 and then an older one" in broken(c, monitor)[0]


def test_a_leader_epoch_that_nobody_wrote_is_reported() -> None:
    with cluster(3, controller=3) as c:
        monitor = watched(c)
        lead(c.brokers[2], controller_epoch=1, leader=2, leader_epoch=7)
        assert broken(c, monitor) == [
            (
                "a broker accepts only leader epochs that were written:"
                " broker 2 accepted leader epoch 7 of orders-0, 0 is written"
            )
        ]


def test_two_leaders_of_one_epoch_are_reported() -> None:
    with cluster(3, controller=3) as c:
        monitor = watch(c)
        c.pause(2)
        c.create_topic("orders", assignment={0: [1, 2]})
        c.run_until(lambda: c.brokers[1].replicas.leads(TopicPartition("orders", 0)))
        accept(c, 2, 0)
        found = broken(c, monitor)
        assert found[0] == (
            "one broker takes itself for the leader in a leader epoch:"
            " brokers 1 and 2 both lead orders-0 in leader epoch 0"
        )
        assert "broker 2 takes 2 for the leader of orders-0 in leader epoch 0" in found[1]


def test_a_topic_that_is_created_again_begins_with_epoch_0() -> None:
    with cluster(3, controller=3) as c:
        monitor = watched(c)
        for dying in (2, 1):
            c.kill(dying)
            quiet(c)
            c.restart(dying)
            quiet(c)
        assert c.state("orders", 0).leader_epoch > 0
        c.delete_topic("orders")
        quiet(c)
        topic(c, "orders", {0: [2, 1]})
        assert c.state("orders", 0).leader_epoch == 0
        assert broken(c, monitor) == []


def restarted_during_a_pause_of_the_controller(version: str) -> KafkaCluster:
    """Return a cluster whose controller 3 slept while broker 1 was killed, expired and started again."""
    c = KafkaCluster(version, 3, config=QUICK, boot=False)
    c.restart(3)
    quiet(c)
    for broker in (1, 2):
        c.restart(broker)
    quiet(c)
    topic(c, "orders", {0: [2, 1], 1: [1, 2]})
    assert c.controller == 3
    c.pause(3, 4)
    c.kill(1)
    c.expire(1)
    c.restart(1)
    return c


def test_a_restart_that_an_old_controller_misses_is_counted_and_excuses_its_replicas() -> None:
    with restarted_during_a_pause_of_the_controller("2.1") as c:
        monitor = watch(c)
        c.run_for(30)
        assert [(known.issue, known.detail) for known in monitor.known] == [
            ("KAFKA-7235", "controller 3 took the new registration of broker 1 for the old one")
        ]
        assert monitor.violations == []
        epoch = c.state("orders", 0).leader_epoch
        orders = TopicPartition("orders", 0)
        assert [is_unaware_by_known_bug(c.invariants, orders, b, epoch) for b in (1, 2)] == [True, False]
        recovered = ExpectRecovered(expect="whole")
        assert list(recovered.failures(Observed(c, {}, None))) == []
        c.kill(2)  # the leader of orders-0 now dies, which broker 1 is told
        c.run_for(30)
        assert list(recovered.failures(Observed(c, {}, None))) != []
        told = c.state("orders", 0).leader_epoch
        assert [is_unaware_by_known_bug(c.invariants, orders, 1, e) for e in (told, told + 1)] == [False, True]
        c.restart(2)
        c.expire(3)  # the next controller tells all brokers
        quiet(c)
        assert not is_unaware_by_known_bug(c.invariants, orders, 1, c.state("orders", 0).leader_epoch)
        assert set(c.state("orders", 0).isr) == {1, 2}


def test_a_deletion_that_a_broker_missed_with_the_controller_is_counted_and_excuses_its_cache() -> None:
    with cluster(3, controller=1) as c:
        monitor = watch(c)
        topic(c, "gone", {0: [1, 2]})
        topic(c, "told", {0: [1, 2]})
        quiet(c)
        c.delete_topic("told")
        quiet(c)
        c.network.cut("broker 1", "broker 3")
        c.delete_topic("gone")
        c.run_for(5)
        c.expire(1)
        c.run_for(5)
        c.network.heal_all()
        c.run_for(40)  # until the requests that were cut off time out
        quiet(c)
        assert [(known.issue, known.detail) for known in monitor.known] == [
            (
                "deletion lost with its controller",
                f"broker 3 was not told of the deletion of gone by the controller before {elected(c)}",
            )
        ]
        assert monitor.violations == []
        assert list(c.metadata(3).partitions) == [TopicPartition("gone", 0)]
        assert unannounced_deletions(c.invariants, 3) == {"gone"}
        assert unannounced_deletions(c.invariants, 2) == frozenset()
        agreed = ExpectAgreed(expect="agreed")
        assert list(agreed.failures(Observed(c, {}, None))) == []
        c.kill(3)
        c.run_for(20)
        c.restart(3)
        quiet(c)
        assert unannounced_deletions(c.invariants, 3) == frozenset()
        assert list(agreed.failures(Observed(c, {}, None))) == []


@pytest.mark.parametrize(("version", "is_dropped"), [("2.7", True), ("2.8", True), ("3.0", False)])
def test_a_proposal_that_an_old_answer_removes_is_counted_and_excuses_the_isr(version: str, is_dropped: bool) -> None:
    bugs = Path(__file__).parents[2] / "scenarios" / "bugs"
    play = Play(read_scenario(bugs / "kafka_12686_proposal_dropped_by_an_old_answer.toml"), seed=1, version=version)
    play.run()
    known = "broker 1 waits for the result of isr [1] of orders-0, which is never sent"
    found = [(one.issue, one.detail) for one in play.known]
    assert found == ([("KAFKA-12686", known)] if is_dropped else [])
    c = play.cluster
    state = c.state("orders", 0)
    assert awaits_in_vain(c.invariants, TopicPartition("orders", 0), state.leader_epoch) == is_dropped
    play.close()


def elected(c: KafkaCluster) -> str:
    return [event.who for event in c.history if event.what == "elected"][-1]


@pytest.mark.parametrize("is_allowed", [False, True])
def test_an_isr_that_was_emptied_before_an_upgrade_excuses_its_partition(is_allowed: bool) -> None:
    """Releases up to 1.0 write `[]` where unclean elections are allowed; later ones do not allow them by default."""
    with KafkaCluster("0.10.2", 3, seed=1, config={"unclean.leader.election.enable": True} if is_allowed else {}) as c:
        assert c.invariants  # as in a run, which checks them from its start on
        topic(c, "t", {0: [b for b in (1, 2, 3) if b != c.controller][:1]})
        (replica,) = c.assignment("t")[0].replicas
        c.kill(replica)
        c.run_for(30)
        assert c.state("t", 0).isr == ()
        for broker in (1, 2, 3):
            if c.brokers[broker].alive:
                c.kill(broker)
            c.run_for(30)
            c.restart(broker, version="1.1")
        c.run_for(60)
        assert c.state("t", 0).isr == ((replica,) if is_allowed else ())
        assert list(ExpectRecovered(expect="whole").failures(Observed(c, {}, None))) == []


def test_an_isr_that_no_old_controller_has_emptied_is_no_excuse() -> None:
    with KafkaCluster("3.9", 3, seed=1) as c:
        assert c.invariants
        topic(c, "t", {0: [b for b in (1, 2, 3) if b != c.controller][:1]})
        (replica,) = c.assignment("t")[0].replicas
        c.kill(replica)
        c.run_for(30)
        state = {"controller_epoch": 1, "leader": -1, "version": 1, "leader_epoch": 1, "isr": []}
        c.write_znode(paths.state(TopicPartition("t", 0)), json.dumps(state).encode())
        c.restart(replica)
        c.run_for(30)
        assert list(ExpectRecovered(expect="whole").failures(Observed(c, {}, None))) != []


def test_a_controller_that_knows_broker_epochs_misses_no_restart() -> None:
    with restarted_during_a_pause_of_the_controller("2.2") as c:
        monitor = watch(c)
        quiet(c)
        assert monitor.known == monitor.violations == []


def test_a_leader_that_is_not_told_of_its_written_isr_is_counted_and_excused() -> None:
    with KafkaCluster("3.9", 3, config=QUICK, boot=False) as c:
        c.restart(3)
        quiet(c)
        for broker in (1, 2):
            c.restart(broker)
        quiet(c)
        topic(c, "orders", {0: [1, 2], 1: [2, 1]})
        monitor, orders = watch(c), TopicPartition("orders", 0)
        c.kill(2)
        c.run_for(20)
        c.zookeeper_faults.drop_reply("transaction", client=3, path=paths.state(orders), times=1)
        c.restart(2)
        c.run_for(60)
        (known,) = monitor.known
        assert known.issue == "lost reply to an ISR write"
        assert known.detail == "broker 1 proposed isr [1, 2] of orders-0, which is written, and was refused"
        assert c.brokers[1].replicas.state_of(orders) != c.state("orders", 0)
        observed = Observed(c, {}, None)
        assert list(ExpectAgreed(expect="agreed").failures(observed)) == []
        assert list(ExpectRecovered(expect="whole").failures(observed)) == []
        c.brokers[1].metadata.partitions[TopicPartition("orders", 1)] = c.state("orders", 1)._replace(leader_epoch=9)
        assert len(list(ExpectAgreed(expect="agreed").failures(observed))) == 1, "the other partition is compared"
        c.kill(2)  # the next leader epoch
        c.run_for(20)
        assert not awaits_in_vain(c.invariants, orders, c.state("orders", 0).leader_epoch)
        assert monitor.violations == []


@pytest.mark.parametrize(("version", "is_fenced"), [("2.0", False), ("2.1", True), ("2.3", True), ("2.4", False)])
def test_a_broker_that_starts_during_a_reassignment_is_fenced_in_some_releases(version: str, is_fenced: bool) -> None:
    with KafkaCluster(version, 5, config=QUICK, boot=False) as c:
        c.restart(5)
        quiet(c)
        for broker in (1, 2, 3, 4):
            c.restart(broker)
        quiet(c)
        topic(c, "orders", {0: [1, 2, 3]})
        monitor, orders = watch(c), TopicPartition("orders", 0)
        c.kill(3)
        quiet(c)
        c.kill(4)
        c.reassign({("orders", 0): [1, 2, 4]})  # while broker 4 is registered still: the tool asks for that
        quiet(c)
        c.expire(5)  # the next controller raises the leader epoch again, and nothing after it refreshes its cache
        quiet(c)
        c.restart(3)
        quiet(c)
        assert c.state("orders", 0).isr == ((1, 2) if is_fenced else (1, 2, 3))
        assert is_fenced_by_known_bug(c.invariants, orders, 3) == (version < "2.4")
        assert list(ExpectAgreed(expect="agreed").failures(Observed(c, {}, None))) == []
        c.kill(2)  # the next leader epoch reaches broker 3
        quiet(c)
        assert c.state("orders", 0).isr == (1, 3)
        assert not is_fenced_by_known_bug(c.invariants, orders, 3)
        sent = [known.issue for known in monitor.known if known.invariant == SentEpochIsWritten.name]
        assert sent == ["KAFKA-9212"] * (version < "2.4")
        assert monitor.violations == []
