"""The controller over a layout: batches and single requests give the same tree, zxids and history."""

from __future__ import annotations

import numpy as np
import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster import cluster as cluster_module
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.zookeeper_mode.columnar.batches import ReadStates, WriteStates
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from tests.kafka.zookeeper_mode.columnar.cluster_arms import ALL, Arms, layout_of, noted_batches

pytestmark = pytest.mark.slow

COLUMNS = ("topics", "topic", "partition", "replicas", "isr", "leader", "leader_epoch", "min_insync_replicas")


@pytest.fixture(autouse=True)
def constant_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one latency for all messages, so that single requests arrive together as a batch does."""
    monkeypatch.setattr(cluster_module, "LATENCY_US", (400, 400))


def test_what_stands_in_the_way_of_batches() -> None:
    """Test faults, watches and observers, one after another."""
    arms = Arms(layout_of(48), kinds=ALL)
    story = [("watch", 0, 3), ("kill", 1, 0), ("write", 0, 3), ("delay", 0, 5), ("drop_reply", 0, 7), ("kill", 2, 0)]
    story += [("restart", 1, 0), ("listen", 0, 0), ("restart", 2, 0), ("kill", 3, 0)]
    for step in story:
        arms.play(*step)
    assert arms.heard[0]
    assert arms.batches[0], "these were batches"
    assert not any(arms.batches[1:])


def test_a_cluster_is_not_quiet_while_a_controller_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failover that reads for longer than three seconds before it writes, as that of 10,000 topics does."""
    monkeypatch.setattr(cluster_module, "LATENCY_US", (350_000, 350_000))
    with KafkaCluster.from_layout(layout_of(48)) as cluster:
        controller = cluster.controller
        assert controller is not None
        led = cluster.table.leader == controller
        assert led.any()
        cluster.kill(controller)
        cluster.server.expire(cluster.brokers[controller].session.session_id, cluster.now_ms)
        assert cluster.run_until_quiet()
        assert not (cluster.table.leader == controller).any()
        assert [event.what for event in cluster.history][-1] == "ready"


def test_a_middling_cluster_by_batches_and_by_single_requests() -> None:
    """Kill a broker, kill the controller, restart brokers in turn: 1,200 partitions of 12 brokers."""
    layout = generate_layout(brokers_in_racks(12, 3), topics=15, partitions=1200, replication_factor=3, seed=4)
    arms = Arms(layout, kinds=ALL)
    controller = arms.arms[0].controller
    assert controller is not None
    story = [("kill", 5), ("restart", 5), ("kill", controller), ("restart", controller)]
    story += [(step, broker) for broker in (2, 3) for step in ("shutdown", "restart")]
    for step, broker in story:
        before = arms.arms[0].server.zxid
        arms.play(step, broker, 0)
        assert arms.arms[0].server.zxid - before > 150, "there was something to write"
    written = sum(len(batch) for batch in arms.batches[0] if isinstance(batch, WriteStates))
    assert written > 1500
    assert any(isinstance(batch, ReadStates) and len(batch) == 1200 for batch in arms.batches[0])


def test_a_rule_of_faults_has_each_request_sent_by_itself() -> None:
    """Count also a rule that matches no request: it is looked up for each request."""
    arm = KafkaCluster.from_layout(layout_of(48))
    batches = noted_batches(arm)
    arm.zookeeper_faults.drop_reply("transaction", path="/brokers/topics/none/partitions/0/state")
    arm.kill(int(arm.table.leader[arm.table.row("topic-0", 0)]))
    assert arm.run_until_quiet()
    assert not any(isinstance(batch, WriteStates) for batch in batches)
    arm.zookeeper_faults.clear()
    arm.kill(arm.state("topic-0", 0).leader)
    assert arm.run_until_quiet()
    assert any(isinstance(batch, WriteStates) for batch in batches)


def test_replicas_without_records_end_as_replicas_with_logs() -> None:
    """The same layout and the same failures lead to the same leaders and ISRs."""
    layout = layout_of(48, 2)
    empty = KafkaCluster.from_layout(layout, config={"auto.leader.rebalance.enable": False})
    real = KafkaCluster(brokers=layout.brokers.ids.tolist(), config={"auto.leader.rebalance.enable": False})
    for number, name in enumerate(layout.topics):
        mine = np.flatnonzero(layout.topic == number)
        assignment = dict(zip(layout.partition[mine].tolist(), layout.replicas[mine].tolist(), strict=True))
        real.create_topic(name, assignment=assignment)
        assert real.run_until_quiet()
    for step, broker in [("kill", 4), ("kill", 3), ("restart", 4), ("shutdown", 2), ("restart", 3), ("restart", 2)]:
        for arm in (empty, real):
            getattr(arm, step)(broker)
            assert arm.run_until_quiet()
    for topic, number in zip(layout.topic.tolist(), layout.partition.tolist(), strict=True):
        ours, theirs = (arm.state(layout.topics[topic], number) for arm in (empty, real))
        assert (ours.leader, sorted(ours.isr)) == (theirs.leader, sorted(theirs.isr))


def test_a_leader_elected_uncleanly_proposes_nothing_until_a_follower_joins() -> None:
    """The state stays RECOVERING, as recorded of real brokers: they write RECOVERED with the next ISR only (3.2+)."""
    config = {"unclean.leader.election.enable": True, "auto.leader.rebalance.enable": False}
    cluster = KafkaCluster.from_layout(layout_of(24), config=config)
    first, second, last = cluster.assignment("topic-0")[0].replicas
    for broker in (first, second, last):
        cluster.kill(broker)
        assert cluster.run_until_quiet()
    cluster.restart(first)
    assert cluster.run_until_quiet()
    state = cluster.state("topic-0", 0)
    assert (state.leader, state.isr, state.recovering) == (first, (first,), True)
    cluster.restart(second)
    assert cluster.run_until_quiet()
    state = cluster.state("topic-0", 0)
    assert (state.leader, state.isr, state.recovering) == (first, (first, second), False)
    cluster.check()


def test_a_broker_of_a_layout_that_shuts_down_follows_no_new_leader() -> None:
    """So no leader proposes to add it to an ISR that it has just left; the controller would refuse that."""
    cluster = KafkaCluster.from_layout(layout_of(48))
    cluster.shutdown(2)
    assert cluster.run_until_quiet()
    assert not cluster.brokers[2].alive
    assert not [event for event in cluster.history if event.what == "ISR change refused"]


def test_a_layout_of_an_old_release_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"2\.7 or later"):
        KafkaCluster.from_layout(layout_of(8), version="2.6")


def test_the_dead_of_a_layout_are_dead() -> None:
    """Brokers that do not run in the layout can be started; other brokers lead their partitions from the start."""
    layout = layout_of(48)
    brokers = layout.brokers
    dead = type(brokers)(brokers.ids, brokers.racks, np.array([True, True, True, True, False]))
    cluster = KafkaCluster.from_layout(type(layout)(dead, *(getattr(layout, name) for name in COLUMNS)))
    gone = int(brokers.ids[-1])
    assert cluster.live_brokers == brokers.ids[:-1].tolist()
    assert not (cluster.table.leader == gone).any()
    assert not (cluster.table.isr == gone).any()
    cluster.restart(gone)
    assert cluster.run_until_quiet()
    assert (cluster.table.isr >= 0).all()


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_replica_more_than_any_partition_had(place: int) -> None:
    cluster = KafkaCluster.from_layout(layout_of(24), seed=1)
    row = cluster.table.row("topic-1", 2)
    (before,) = [cluster.table.replicas_of(row)]
    (another, *_) = (broker for broker in cluster.brokers if broker not in before)
    wanted = [*before[:place], another, *before[place:]]
    cluster.reassign({("topic-1", 2): wanted})
    assert cluster.run_until_quiet(60)
    state = cluster.state("topic-1", 2)
    assert sorted(state.isr) == sorted(wanted)
    assert cluster.table.replicas_of(row) == tuple(wanted)
    cluster.check()
