"""After faults every broker believes what the znodes say; each difference is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation.agreement import AGREEMENTS, MissedDeletions, disagreements, read_written
from simzk.kafka.topic_partition import PartitionAndReplica, TopicPartition
from simzk.kafka.zookeeper_mode.controller.states import ReplicaState
from simzk.kafka.zookeeper_mode.schemas.admin import encode_reassignment
from simzk.scenarios import expectations
from simzk.scenarios.expectations import ExpectAgreed, ExpectDone, Observed
from tests.kafka.clusters import cluster, quiet, topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


T0 = TopicPartition("t", 0)


@pytest.fixture
def c() -> Iterator[KafkaCluster]:
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2, 3], 1: [2, 1, 3]})
        topic(c, "gone", {0: [3, 1]})
        c.kill(1)
        quiet(c)
        c.delete_topic("gone")
        c.restart(1)
        quiet(c)
        c.expire(3)
        quiet(c)
        yield c


def found(c: KafkaCluster) -> list[str]:
    return disagreements(list(c.brokers.values()), read_written(c.tree, c.controller, c.live_brokers))


def test_brokers_agree_after_faults(c: KafkaCluster) -> None:
    assert found(c) == []


def test_a_broker_that_was_cut_off_disagrees_until_it_is_back(c: KafkaCluster) -> None:
    c.network.cut("broker 1", f"broker {c.controller}")
    c.kill(next(broker for broker in (2, 3) if broker != c.controller))
    c.run_for(10)
    assert any("broker 1" in difference for difference in found(c))
    c.network.heal_all()
    c.run_for(30)
    assert [difference for difference in found(c) if "broker 1 " in difference] == []


def forget_controller(c: KafkaCluster) -> None:
    c.brokers[1].metadata.controller_id = 7


def add_broker(c: KafkaCluster) -> None:
    c.brokers[1].metadata.live_brokers[7] = None


def keep_old_isr(c: KafkaCluster) -> None:
    cache = c.brokers[1].metadata.partitions
    cache[T0] = cache[T0]._replace(isr=(1,))


def keep_deleted(c: KafkaCluster) -> None:
    cache = c.brokers[1].metadata.partitions
    cache[TopicPartition("gone", 0)] = cache[T0]


def follow_old_leader(c: KafkaCluster) -> None:
    replica = c.brokers[1].replicas.replicas[T0]
    replica.state = replica.state._replace(leader_epoch=replica.state.leader_epoch - 1)


def lose_replica(c: KafkaCluster) -> None:
    del c.brokers[1].replicas.replicas[T0]


def lose_watch(c: KafkaCluster) -> None:
    link = c.brokers[1].session._link
    assert link is not None
    assert link.connection is not None
    c.server.watches.child.forget(link.connection)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (forget_controller, "brokers agree on the controller: broker 1 takes 7 for the controller"),
        (add_broker, "brokers agree on the live brokers: broker 1 takes [1, 2, 3, 7] for the live brokers"),
        (keep_old_isr, "metadata caches have the leaders and ISRs that are written: the cache of broker 1 has for t-0"),
        (
            keep_deleted,
            "metadata caches have the leaders and ISRs that are written: the cache of broker 1 has gone-0, which does",
        ),
        (follow_old_leader, "replicas have the leaders and ISRs that are written: broker 1 has for t-0 leader"),
        (lose_replica, "replicas have the leaders and ISRs that are written: broker 1 does not know t-0"),
        (lose_watch, "brokers and ZooKeeper have the same watches: broker 1: child watches on "),
    ],
)
def test_each_difference_is_reported(c: KafkaCluster, change: Callable[[KafkaCluster], None], said: str) -> None:
    change(c)
    (difference,) = found(c)
    assert difference.startswith(said)


def test_every_agreement_is_tested() -> None:
    assert [one.name for one in AGREEMENTS] == [
        "brokers agree on the controller",
        "brokers agree on the live brokers",
        "metadata caches have the leaders and ISRs that are written",
        "replicas have the leaders and ISRs that are written",
        "brokers and ZooKeeper have the same watches",
    ]


def test_a_broker_keeps_a_topic_whose_deletion_it_missed_until_it_restarts() -> None:
    """The controller names deleted topics to registered brokers only, and a broker adds to the cache that it has."""
    with cluster(3, controller=1) as c:
        topic(c, "gone", {0: [1, 2]})
        quiet(c)
        c.network.cut("broker 3", "zookeeper")
        c.run_for(30)
        assert c.live_brokers == [1, 2]
        c.delete_topic("gone")
        c.run_for(10)
        c.network.heal_all()
        quiet(c)
        written = read_written(c.tree, c.controller, c.live_brokers)
        brokers = list(c.brokers.values())
        (difference,) = disagreements(brokers, written)
        assert "the cache of broker 3 has gone-0, which does not exist" in difference
        assert MissedDeletions(c.history).by_broker()[3] == {"gone"}
        assert disagreements(brokers, replace(written, missed=MissedDeletions(c.history).by_broker())) == []
        c.kill(3)
        c.run_for(20)
        c.restart(3)
        quiet(c)
        assert MissedDeletions(c.history).by_broker()[3] == frozenset()
        assert found(c) == []


def test_a_broker_whose_restart_was_missed_may_lack_states_but_has_no_wrong_ones(c: KafkaCluster) -> None:
    """A controller up to 2.1 sends such a broker nothing but changes (KAFKA-7235)."""
    written = replace(read_written(c.tree, c.controller, c.live_brokers), unnoticed=frozenset({1}))
    brokers = list(c.brokers.values())
    cache = c.brokers[1].metadata
    del cache.partitions[T0]
    lose_replica(c)
    cache.controller_id = None
    cache.live_brokers.clear()
    assert disagreements(brokers, written) == []
    assert len(disagreements(brokers, replace(written, unnoticed=frozenset({2})))) == 4
    cache.partitions[T0] = c.state("t", 0)._replace(leader_epoch=0)
    add_broker(c)
    forget_controller(c)
    assert len(disagreements(brokers, written)) == 3


def test_isrs_of_caches_count_if_leaders_announce_them(c: KafkaCluster) -> None:
    """Leaders announce ISRs from 0.9 on; before, a cache has the ISR that a controller last sent."""
    written = read_written(c.tree, c.controller, c.live_brokers)
    brokers = list(c.brokers.values())
    keep_old_isr(c)
    assert len(disagreements(brokers, written)) == 1
    written = replace(written, isrs_are_announced=False)
    assert disagreements(brokers, written) == []
    cache = c.brokers[1].metadata.partitions
    cache[T0] = cache[T0]._replace(leader_epoch=9)
    assert len(disagreements(brokers, written)) == 1


def test_caches_of_0_8_1_may_have_dead_brokers_and_lack_no_live_one(c: KafkaCluster) -> None:
    written = replace(read_written(c.tree, c.controller, c.live_brokers), dead_stay_cached=True)
    brokers = list(c.brokers.values())
    add_broker(c)
    assert disagreements(brokers, written) == []
    del c.brokers[1].metadata.live_brokers[2]
    assert len(disagreements(brokers, written)) == 1


def test_followers_of_0_8_0_may_have_an_older_epoch_of_the_same_leader(c: KafkaCluster) -> None:
    written = replace(read_written(c.tree, c.controller, c.live_brokers), followers_miss_epochs=True)
    leader = c.state("t", 0).leader
    follower = next(broker for broker in c.brokers if broker != leader)
    replicas = [c.brokers[broker].replicas.replicas[T0] for broker in (follower, leader)]
    for replica, differs in zip(replicas, (0, 1), strict=True):
        replica.state = replica.state._replace(leader_epoch=replica.state.leader_epoch - 1)
        assert len(disagreements(list(c.brokers.values()), written)) == differs
    replicas[1].state = replicas[1].state._replace(leader_epoch=c.state("t", 0).leader_epoch)
    replicas[0].state = replicas[0].state._replace(leader=follower)
    assert len(disagreements(list(c.brokers.values()), written)) == 1


@pytest.mark.parametrize("version", ["0.8.0", "0.8.2", "0.10.2", "2.1"])
def test_brokers_of_older_releases_agree_after_faults(version: str) -> None:
    """A dead broker comes back, and the controller fails over."""
    with KafkaCluster(version, 3) as c:
        topic(c, "t", {0: [1, 2, 3], 1: [2, 1, 3]})
        dead = next(broker for broker in c.brokers if broker != c.controller)
        c.kill(dead)
        c.run_for(60)
        c.restart(dead)
        c.run_for(60)
        agreed = ExpectAgreed(expect="agreed")
        assert list(agreed.failures(Observed(c, {}, None))) == []
        assert c.controller is not None
        c.kill(c.controller)
        c.run_for(120)
        assert list(agreed.failures(Observed(c, {}, None))) == []
        c.brokers[dead].metadata.partitions.clear()
        assert list(agreed.failures(Observed(c, {}, None))) != []


def test_without_a_live_leader_a_started_broker_has_no_epoch(c: KafkaCluster) -> None:
    """The leader is gone for good, and a broker that starts then is sent an epoch that no replica accepts."""
    c.create_topic("alone", assignment={0: [1, 2]})
    quiet(c)
    alone = TopicPartition("alone", 0)
    c.kill(2)
    quiet(c)
    c.kill(1)
    quiet(c)
    c.restart(2)
    quiet(c)
    replica = c.brokers[2].replicas.replicas[alone]
    assert (c.state("alone", 0).leader, replica.state.leader_epoch) == (-1, -1)
    assert [one for one in found(c) if "alone" in one and "replicas have" in one] == []


def left(c: KafkaCluster) -> list[str]:
    return list(ExpectDone(expect="done").failures(Observed(c, {}, None)))


def test_nothing_is_left_to_be_done(c: KafkaCluster) -> None:
    assert left(c) == []


@pytest.mark.parametrize(
    "path", ["/admin/reassign_partitions", "/admin/delete_topics/t", "/log_dir_event_notification/x"]
)
def test_a_request_in_the_znodes_is_left(c: KafkaCluster, path: str) -> None:
    c.pause(c.controller or 0)
    c.write_znode(path, None, create=True)
    c.run_for(1)
    assert any(path in one for one in left(c))


@pytest.mark.parametrize("line", ["1.1", "2.4", "2.8"])
def test_a_reassignment_of_a_deleted_topic_is_kafkas_to_leave(line: str) -> None:
    """The controller asks whether a topic may be deleted before it is queued, so a reassignment does not halt it."""
    with KafkaCluster(line, 3) as c:
        c.run_until_quiet()
        leader, target = sorted({1, 2, 3} - {c.controller})
        c.create_topic("gone", assignment={0: [leader]})
        c.run_until_quiet()
        c.network.cut(f"broker {leader}", f"broker {target}")
        c.write_znode(
            "/admin/reassign_partitions", encode_reassignment({TopicPartition("gone", 0): [target]}), create=True
        )
        c.run_for(1)
        c.delete_topic("gone")
        c.run_for(5)
        c.network.heal()
        c.run_for(30)
        assert c.tree.get("/brokers/topics/gone") is None
        assert c.tree.get("/admin/reassign_partitions") is not None
        assert left(c) == []


def test_a_reassignment_of_a_partition_that_a_known_bug_broke_is_excused(
    c: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert c.controller is not None
    context = c.brokers[c.controller].controller.context
    context.being_reassigned[T0] = (1, 2)
    c.pause(c.controller)
    c.write_znode("/admin/reassign_partitions", encode_reassignment({T0: [1, 2]}), create=True)
    c.run_for(1)
    c.resume(c.controller)
    assert len(left(c)) == 2
    monkeypatch.setattr(expectations, "unserved_by_known_bug", lambda _cluster: frozenset({T0}))
    assert left(c) == []


def test_records_that_are_not_committed_are_left(c: KafkaCluster) -> None:
    leader = c.state("t", 0).leader
    c.brokers[leader].replicas.replicas[T0].log.high_watermark -= 1
    assert left(c) == ["t-0 is committed up to -1 of 0"]


def test_a_former_leader_that_was_not_told_has_nothing_to_commit(c: KafkaCluster) -> None:
    """A broker that missed the end of its lead still takes itself for the leader: it is not the one that is written."""
    follower = next(broker for broker in (1, 2, 3) if broker != c.state("t", 0).leader)
    replica = c.brokers[follower].replicas.replicas[T0]
    replica.state = replica.state._replace(leader=follower)
    replica.log.high_watermark -= 1
    assert left(c) == []


def test_a_replica_that_the_controller_does_not_know_is_a_difference(c: KafkaCluster) -> None:
    """While a reassignment ends, the znode names a replica whose state the controller has dropped."""
    assert c.controller is not None
    context = c.brokers[c.controller].controller.context
    context.replica_states.put(context.rows_of([T0]), 3, None)
    assert left(c) == ["the controller takes the replicas of t-0 on [3] for offline"]


def test_what_the_controller_remembers_is_compared(c: KafkaCluster) -> None:
    assert c.controller is not None
    context = c.brokers[c.controller].controller.context
    context.being_reassigned[T0] = (1, 2)
    context.shutting_down[2] = None
    context.put_leadership(T0, c.state("t", 0)._replace(leader_epoch=77))
    row, replica = context.rows_of([T0]), PartitionAndReplica(T0, 2)
    context.replica_states.put(row, replica.replica, ReplicaState.OFFLINE)
    found = "; ".join(left(c))
    for part in ("reassignments: t-0", "brokers that shut down: 2", "of epoch 77", "of t-0 on [2] for offline"):
        assert part in found
