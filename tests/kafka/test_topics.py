"""Topics created, grown, configured and deleted."""

from __future__ import annotations

import pytest

from simzk.errors import ConfigError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.clusters import cluster, happened, quiet, state_fields, topic, watch


def test_placement_over_racks() -> None:
    with cluster(6, racks=3, seed=3) as c:
        c.create_topic("t", partitions=12, replication_factor=3)
        quiet(c)
        for assignment in c.assignment("t").values():
            assert len({c.brokers[broker].rack for broker in assignment.replicas}) == 3


def test_defaults_of_the_broker() -> None:
    with cluster(3, config={"num.partitions": 5, "default.replication.factor": 2}) as c:
        c.create_topic("t")
        quiet(c)
        assert [len(assignment.replicas) for assignment in c.assignment("t").values()] == [2] * 5


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 250])
def test_invalid_topic_names(name: str) -> None:
    with cluster(1) as c, pytest.raises(ConfigError, match="is no name for a topic"):
        c.create_topic(name)


def test_rejected_requests() -> None:
    with cluster(2) as c:
        topic(c, "a.b", {0: [1, 2]})
        refused = {
            "again": c.create_topic("a.b"),
            "collides": c.create_topic("a_b"),
            "too many": c.create_topic("t", replication_factor=3),
            "twice": c.create_topic("t", assignment={0: [1, 1]}),
            "uneven": c.create_topic("t", assignment={0: [1], 1: [1, 2]}),
            "gap": c.create_topic("t", assignment={0: [1], 2: [2]}),
            "fewer": c.add_partitions("a.b", 1),
            "none to grow": c.add_partitions("none", 3),
            "none to delete": c.delete_topic("none"),
            "none to configure": c.alter_config("topics/none", {"a": "b"}),
        }
        quiet(c)
        assert {what: answer.result().error for what, answer in refused.items()} == {
            "again": ErrorCode.TOPIC_ALREADY_EXISTS,
            "collides": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "too many": ErrorCode.INVALID_REPLICATION_FACTOR,
            "twice": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "uneven": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "gap": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "fewer": ErrorCode.INVALID_PARTITIONS,
            "none to grow": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "none to delete": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "none to configure": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert c.server.tree.get(paths.TOPICS).child_names() == ["a.b"]  # type: ignore[union-attr]
        assert len(happened(c, "refused")) == len(refused)


def test_added_partitions_continue_the_placement() -> None:
    with cluster(3) as c:
        topic(c, "t", {0: [2, 3]})
        c.add_partitions("t", 4)
        quiet(c)
        # Start and shift are the index of broker 2 in the sorted list (docs/reference/kafka.md §3.3).
        assert {p: a.replicas for p, a in c.assignment("t").items()} == {0: (2, 3), 1: (3, 2), 2: (1, 3), 3: (2, 3)}
        assert [state_fields(c, "t", number)[0] for number in range(4)] == [2, 3, 1, 2]


def test_a_deleted_topic_leaves_nothing() -> None:
    with cluster(3) as c:
        before = sorted(path for path, _ in c.server.tree.walk())
        monitor = watch(c)
        topic(c, "t", {number: [1, 2, 3] for number in range(6)})
        c.delete_topic("t")
        quiet(c)
        assert sorted(path for path, _ in c.server.tree.walk()) == before
        assert all(not broker.replicas.replicas for broker in c.brokers.values())
        assert not monitor.violations
        topic(c, "t", {0: [3, 1]})
        assert state_fields(c, "t") == (3, (3, 1), 0, 0)


def test_deletion_waits_for_a_dead_broker() -> None:
    with cluster(3, controller=1) as c:
        topic(c, "t", {0: [2, 3]})
        c.kill(3)
        quiet(c)
        c.delete_topic("t")
        quiet(c)
        assert c.server.tree.get(paths.delete_topic("t")) is not None
        assert c.server.tree.get(paths.topic("t")) is not None
        c.restart(3)
        quiet(c)
        assert c.server.tree.get(paths.delete_topic("t")) is None
        assert c.server.tree.get(paths.topic("t")) is None


def test_a_new_controller_finishes_a_deletion() -> None:
    with cluster(3, controller=1) as c:
        monitor = watch(c)
        topic(c, "t", {number: [2, 3] for number in range(10)})
        c.delete_topic("t")
        while c.server.tree.get(paths.partition(TopicPartition("t", 0))) is not None:
            assert c.scheduler.run_next()
        assert c.server.tree.get(paths.topic("t")) is not None  # half deleted
        c.kill(1)
        quiet(c)
        assert c.server.tree.get(paths.topic("t")) is None
        assert c.server.tree.get(paths.delete_topic("t")) is None
        assert not monitor.violations


def test_disabled_deletion_deletes_the_request() -> None:
    with cluster(2, config={"delete.topic.enable": False}) as c:
        topic(c, "t", {0: [1, 2]})
        c.delete_topic("t")
        quiet(c)
        assert c.server.tree.get(paths.delete_topic("t")) is None
        assert state_fields(c, "t") == (1, (1, 2), 0, 0)


def test_a_request_to_delete_an_unknown_topic_is_deleted() -> None:
    with cluster(2) as c:
        c.write_znode(paths.delete_topic("none"), None)
        quiet(c)
        assert c.server.tree.get(paths.delete_topic("none")) is None


def test_a_topic_made_by_hand_gets_an_id_and_partitions() -> None:
    with cluster(2) as c:
        c.write_znode(paths.topic("t"), '{"version":1,"partitions":{"0":[2,1]}}')
        quiet(c)
        assert state_fields(c, "t") == (2, (2, 1), 0, 0)
        node = c.server.tree.get(paths.topic("t"))
        assert node is not None
        assert b'"topic_id":"' in (node.data or b"")


@pytest.mark.parametrize("data", ["x", '{"version":1,"partitions":{"0":[]}}', '{"partitions":{"zero":[1]}}'])
def test_a_topic_made_by_hand_that_cannot_be_read_gets_no_partitions(data: str) -> None:
    with cluster(2) as c:
        c.write_znode(paths.topic("bad"), data)
        topic(c, "good", {0: [1, 2]})
        assert state_fields(c, "good") == (1, (1, 2), 0, 0)
        assert c.server.tree.get(paths.partitions("bad")) is None


def test_old_notifications_are_deleted() -> None:
    with cluster(2) as c:
        topic(c, "t", {0: [1, 2]})
        c.alter_config("topics/t", {"retention.ms": "1"})
        quiet(c)
        c.run_for(16 * 60)
        c.alter_config("topics/t", {"retention.ms": "2"})
        quiet(c)
        node = c.server.tree.get(paths.CONFIG_CHANGES)
        assert node is not None
        assert node.child_names() == ["config_change_0000000001"]


def test_blocks_of_producer_ids_follow_each_other() -> None:
    with cluster(2) as c:
        first = c.allocate_producer_ids(1)
        quiet(c)
        second = c.allocate_producer_ids(2)
        quiet(c)
        assert [answer.result().message for answer in (first, second)] == ["0", "1000"]
