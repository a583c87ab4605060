"""The whole controller over a layout: by batches and by single requests it leaves the same tree, zxids and history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simzk.errors import ConfigError
from simzk.kafka import cluster as cluster_module
from simzk.kafka import paths
from simzk.kafka.cluster import KafkaCluster
from simzk.kafka.columnar.batches import ReadStates, WriteStates
from simzk.kafka.topic_partition import TopicPartition
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.zookeeper import requests as req
from simzk.zookeeper.batches import Batch

if TYPE_CHECKING:
    from simzk.partitions.layouts import Layout
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply
    from simzk.zookeeper.transactions import Transaction

BROKERS = 5
COLUMNS = ("topics", "topic", "partition", "replicas", "isr", "leader", "leader_epoch", "min_insync_replicas")
AT_ONCE = {"zookeeper.max.in.flight.requests": 1_000_000}
"""So that single requests arrive together, as a batch does: else only the times would differ."""


def layout_of(partitions: int, seed: int = 1, brokers: int = BROKERS) -> Layout:
    topics = max(1, partitions // 8)
    return generate_layout(
        brokers_in_racks(brokers, 0), topics=topics, partitions=partitions, replication_factor=3, seed=seed
    )


@pytest.fixture(autouse=True)
def constant_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent together arrives together, as a batch does, whatever the number of messages."""
    monkeypatch.setattr(cluster_module, "LATENCY_US", (400, 400))


class Both:
    """One story, by batches and by single requests."""

    def __init__(self, layout: Layout, *, seed: int = 0, version: str = "3.9") -> None:
        self.arms = [
            KafkaCluster.from_layout(layout, version=version, seed=seed, config=AT_ONCE, sends_batches=batches)
            for batches in (True, False)
        ]
        self.batches = [_noted(arm) for arm in self.arms]
        self.watchers = [
            arm.server.connect(req.ConnectRequest(0, 0, 4_000_000, 0, None, False), arm.now_ms) for arm in self.arms
        ]
        self.heard: list[list[Transaction]] = [[], []]
        self.compare()

    def play(self, step: str, broker: int, place: int) -> None:
        done = [
            self._try(arm, watcher, step, broker, place) for arm, watcher in zip(self.arms, self.watchers, strict=True)
        ]
        assert done[0] == done[1], "both can, or neither"
        quiet = [arm.run_until_quiet(90) for arm in self.arms]
        assert quiet[0] == quiet[1]
        self.compare()

    def _try(self, arm: KafkaCluster, watcher: Any, step: str, broker: int, place: int) -> str:
        table = arm.table
        topic, number = table.name(int(table.rows()[place % len(table)])) if len(table) else ("topic-0", 0)
        try:
            match step:
                case "kill" | "shutdown" | "expire" | "restart" | "resume":
                    getattr(arm, step)(broker)
                case "pause":
                    arm.pause(broker, 30)
                case "elect":
                    arm.elect("preferred")
                case "reassign":
                    arm.reassign({(topic, number): [1 + (broker + at) % BROKERS for at in range(3)]})
                case "create":
                    arm.create_topic(f"made-{broker}", partitions=6, replication_factor=3)
                case "delete":
                    arm.delete_topic(topic)
                case "watch":
                    path = paths.state(TopicPartition(topic, number))
                    arm.server.handle(watcher, 1, req.GetData(path, True), arm.now_ms)
                case "write":
                    path = paths.state(TopicPartition(topic, number))
                    node = arm.server.tree.get(path)
                    if node is not None:
                        arm.server.handle(watcher, 1, req.SetData(path, node.data, -1), arm.now_ms)
                        arm.pump()
                case "delay" | "drop_reply":
                    self._break(arm, step, paths.state(TopicPartition(topic, number)))
                case "listen":
                    arm.server.on_transaction.append(self.heard[self.arms.index(arm)].append)
        except ConfigError as refused:
            return str(refused)
        return ""

    def _break(self, arm: KafkaCluster, verb: str, path: str) -> None:
        """A rule that waits for the next write of one state."""
        if verb == "delay":
            arm.zookeeper_faults.delay("transaction", path=path, seconds=0.3)
        else:
            arm.zookeeper_faults.drop_reply("transaction", path=path)

    def compare(self) -> None:
        batched, single = self.arms
        assert self.heard[0] == self.heard[1], "who listens hears each transaction, of batches too"
        assert [tuple(event) for event in batched.history] == [tuple(event) for event in single.history]
        assert batched.server.zxid == single.server.zxid
        said = [[message for _, messages in arm.server.take_output() for message in messages] for arm in self.arms]
        assert said[0] == said[1]
        trees = zip(batched.server.tree.walk(), single.server.tree.walk(), strict=True)
        for (path, node), (expected_path, expected) in trees:
            assert (path, node.data, node.acl, node.stat()) == (
                expected_path,
                expected.data,
                expected.acl,
                expected.stat(),
            )
        for arm in self.arms:
            arm.check()


def _noted(arm: KafkaCluster) -> list[Batch]:
    """The batches that come to a cluster's server from now on."""
    handle, batches = arm.server.handle, []

    def noted(
        connection: Connection, xid: int, request: req.Request | Batch, now_ms: int, at_once: bool = False
    ) -> Reply | None:
        if isinstance(request, Batch):
            batches.append(request)
        return handle(connection, xid, request, now_ms, at_once)

    arm.server.handle = noted  # type: ignore[method-assign]
    return batches


STEPS = st.tuples(
    st.sampled_from(
        [
            "kill",
            "kill",
            "restart",
            "restart",
            "shutdown",
            "expire",
            "pause",
            "elect",
            "reassign",
            "create",
            "delete",
            "watch",
            "write",
            "listen",
        ]
    ),
    st.integers(0, BROKERS - 1),
    st.integers(0, 47),
)


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=6),
    seed=st.integers(0, 3),
    version=st.sampled_from(["3.9", "2.8", "2.7"]),
)
def test_batches_leave_what_single_requests_leave(steps: list[tuple[str, int, int]], seed: int, version: str) -> None:
    both = Both(layout_of(48, seed), seed=seed, version=version)
    for step in steps:
        both.play(*step)


def test_what_stands_in_the_way_of_batches() -> None:
    """Faults, watches, and who listens, one after the other."""
    both = Both(layout_of(48))
    story = [("watch", 0, 3), ("kill", 1, 0), ("write", 0, 3), ("delay", 0, 5), ("drop_reply", 0, 7), ("kill", 2, 0)]
    story += [("restart", 1, 0), ("listen", 0, 0), ("restart", 2, 0), ("kill", 3, 0)]
    for step in story:
        both.play(*step)
    assert both.heard[0]
    assert both.batches[0], "these were batches"
    assert not both.batches[1]


def test_a_middling_cluster_by_batches_and_by_single_requests() -> None:
    """A broker dies, the controller dies, brokers restart in turn: 1,200 partitions of 12 brokers."""
    layout = generate_layout(brokers_in_racks(12, 3), topics=15, partitions=1200, replication_factor=3, seed=4)
    both = Both(layout)
    controller = both.arms[0].controller
    assert controller is not None
    story = [("kill", 5), ("restart", 5), ("kill", controller), ("restart", controller)]
    story += [(step, broker) for broker in (2, 3) for step in ("shutdown", "restart")]
    for step, broker in story:
        before = both.arms[0].server.zxid
        both.play(step, broker, 0)
        assert both.arms[0].server.zxid - before > 150, "there was something to write"
    written = sum(len(batch) for batch in both.batches[0] if isinstance(batch, WriteStates))
    assert written > 1500
    assert any(isinstance(batch, ReadStates) and len(batch) == 1200 for batch in both.batches[0])


def test_a_rule_of_faults_has_each_request_sent_by_itself() -> None:
    """Also one that no request meets: it must be looked for in each."""
    arm = KafkaCluster.from_layout(layout_of(48))
    batches = _noted(arm)
    arm.zookeeper_faults.drop_reply("transaction", path="/brokers/topics/none/partitions/0/state")
    arm.kill(int(arm.table.leader[arm.table.row("topic-0", 0)]))
    assert arm.run_until_quiet()
    assert not any(isinstance(batch, WriteStates) for batch in batches)
    arm.zookeeper_faults.clear()
    arm.kill(arm.state("topic-0", 0).leader)
    assert arm.run_until_quiet()
    assert any(isinstance(batch, WriteStates) for batch in batches)


def test_light_replicas_come_to_what_brokers_with_logs_come_to() -> None:
    """The same layout and the same failures: leaders, epochs and who is in sync."""
    layout = layout_of(48, 2)
    light = KafkaCluster.from_layout(layout, config={"auto.leader.rebalance.enable": False})
    real = KafkaCluster(brokers=layout.brokers.ids.tolist(), config={"auto.leader.rebalance.enable": False})
    for number, name in enumerate(layout.topics):
        mine = np.flatnonzero(layout.topic == number)
        assignment = dict(zip(layout.partition[mine].tolist(), layout.replicas[mine].tolist(), strict=True))
        real.create_topic(name, assignment=assignment)
        assert real.run_until_quiet()
    for step, broker in [("kill", 4), ("kill", 3), ("restart", 4), ("shutdown", 2), ("restart", 3), ("restart", 2)]:
        for arm in (light, real):
            getattr(arm, step)(broker)
            assert arm.run_until_quiet()
    for topic, number in zip(layout.topic.tolist(), layout.partition.tolist(), strict=True):
        ours, theirs = (arm.state(layout.topics[topic], number) for arm in (light, real))
        assert (ours.leader, sorted(ours.isr)) == (theirs.leader, sorted(theirs.isr))


def test_a_broker_of_a_layout_that_stops_follows_nobody_anew() -> None:
    """So nobody asks for it to join an ISR that it has just left: the controller would refuse that."""
    cluster = KafkaCluster.from_layout(layout_of(48))
    cluster.shutdown(2)
    assert cluster.run_until_quiet()
    assert not cluster.brokers[2].alive
    assert not [event for event in cluster.history if event.what == "ISR change refused"]


def test_a_layout_of_an_old_release_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"2\.7 or later"):
        KafkaCluster.from_layout(layout_of(8), version="2.6")


def test_the_dead_of_a_layout_are_dead() -> None:
    """Brokers that do not live in the layout can be started; what they led has others lead it from the beginning."""
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
