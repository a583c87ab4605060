"""Znodes that an operator writes by hand: the cluster obeys or ignores them, and goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.zookeeper_mode import paths
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from tests.kafka.clusters import cluster, quiet, state_fields, topic

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

STATE = "/brokers/topics/t/partitions/0/state"
NONSENSE = (
    None,
    "x",
    '{"version":1,"partitions":{"0":[1,1],"7":[-1]}}',
    '{"controller_epoch":99,"leader":3,"version":1,"leader_epoch":50,"isr":[3]}',
    '{"leader":4294967296,"leader_epoch":1,"isr":[1],"controller_epoch":0}',
    '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[-5,99999999]}]}',
)
PLACES = (
    STATE,
    "/brokers/ids/3",
    "/brokers/ids/9",
    "/brokers/ids/x",
    "/brokers/topics/t",
    "/brokers/topics/q",
    "/config/topics/t",
    "/config/changes/config_change_x",
    "/controller",
    "/controller_epoch",
    "/cluster/id",
    "/feature",
    "/latest_producer_id_block",
    "/isr_change_notification/isr_change_1",
    "/log_dir_event_notification/log_dir_event_1",
    "/admin/delete_topics/nope",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
)
# A registration that cannot be read makes the controller lose the event; an epoch of another version fences it; one who
# finds nobody in `/controller` resigns, and no other follows while the znode stands.
STALLING = {"/brokers/ids/3", "/brokers/ids/9", "/brokers/ids/x", "/controller_epoch", "/controller"}


@pytest.mark.parametrize(
    "request_of",
    [
        lambda path, data: req.Create(path, data, OPEN_ACL, 0),
        lambda path, data: req.Create2(path, data, OPEN_ACL, 0),
        lambda path, data: req.CreateContainer(path, data, OPEN_ACL, 4),
        lambda path, data: req.Multi((req.Create2(path, data, OPEN_ACL, 0),)),
    ],
    ids=["create", "create2", "container", "multi"],
)
def test_every_way_to_create_a_topic_is_recorded(request_of: Callable[[str, bytes], req.Request]) -> None:
    with cluster(3, controller=1) as c:
        client = c.server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), c.now_ms)
        c.server.handle(client, 1, request_of("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2]}}'), c.now_ms)
        c.pump()
        c.run_for(1)
        assert [event.after for event in c.history if event.what == "topic created"] == ["1 partitions"]
        assert c.state("t", 0).leader == 1


@pytest.mark.parametrize("path", PLACES)
def test_nonsense_anywhere_stops_nothing(path: str) -> None:
    for data in NONSENSE:
        with cluster(3, controller=1) as c:
            topic(c, "t", {0: [1, 2], 1: [2, 1]})
            topic(c, "u", {0: [2, 3]})
            c.write_znode(path, data)
            c.run_for(2)
            c.kill(2)
            c.run_for(9)
            c.elect()
            c.reassign({("t", 1): [3, 1]})
            c.add_partitions("u", 3)
            c.allocate_producer_ids(3)
            c.run_for(2)
            if path not in STALLING:
                assert c.state("u", 0).leader == 3
            c.restart(2)
            c.expire(1)
            c.run_for(8)
            assert c.server.tree.get(paths.CONTROLLER_EPOCH) is not None


def test_a_state_of_a_later_controller_is_left_alone() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2]})
        c.write_znode(STATE, '{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":5,"isr":[1,2]}')
        quiet(c)
        c.kill(1)
        c.run_for(10)
        # The election fails: a later controller must have written that. The dead replica is taken out all the same.
        assert c.state("t", 0).leader != 2
        assert not [event for event in c.history if event.what == "leader moved"]


@pytest.mark.parametrize("version", ["3.9", "0.9"])
@pytest.mark.parametrize(("written", "following"), [("-5", b"-4"), ("-1", b"0"), ("2147483647", b"-2147483648")])
def test_a_controller_with_an_epoch_below_that_of_the_states_elects_nobody(
    version: str, written: str, following: bytes
) -> None:
    with KafkaCluster(version=version, brokers=3, seed=1) as c:
        first = c.controller
        assert first is not None
        leader, follower = (broker for broker in c.brokers if broker != first)
        topic(c, "t", {0: [leader, follower]})
        c.write_znode(paths.CONTROLLER_EPOCH, written)
        c.kill(first)
        c.kill(leader)
        c.run_for(60)
        node = c.server.tree.get(paths.CONTROLLER_EPOCH)
        assert node is not None
        assert node.data == following
        assert c.controller == follower
        assert c.state("t", 0).leader == leader


def test_isr_notifications_of_older_brokers_are_taken_away() -> None:
    with cluster(2) as c:
        topic(c, "t", {0: [1, 2]})
        path = f"{paths.ISR_CHANGES}/isr_change_0000000000"
        c.write_znode(path, '{"version":1,"partitions":[{"topic":"t","partition":0}]}')
        quiet(c)
        assert c.server.tree.get(path) is None
        assert state_fields(c, "t") == (1, (1, 2), 0, 0)
