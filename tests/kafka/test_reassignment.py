"""Reassignments by API and by znode, with and without failures (KIP-455)."""

from __future__ import annotations

import pytest

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.clusters import cluster, happened, quiet, state_fields, topic, watch

T0 = TopicPartition("t", 0)
ELECTION = '{"version":1,"partitions":[{"topic":"t","partition":%d}]}'


def test_replicas_are_added_and_removed_and_the_leader_moves() -> None:
    with cluster(5, controller=5) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        answer = c.reassign({("t", 0): [4, 2]})
        quiet(c)
        assert answer.result().partition_errors == {T0: ErrorCode.NONE}
        assert c.assignment("t") == {0: ReplicaAssignment((4, 2))}
        assert state_fields(c, "t")[:2] == (4, (2, 4))
        assert not c.brokers[1].replicas.replicas
        assert not monitor.violations
        written = [event.after for event in c.history if event.what in ("reassignment", "reassigned")]
        assert written == ["[4, 2, 1, 3] adding [4] removing [1, 3]", "[4, 2]"]


def test_the_json_of_kafkas_tool() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2]})
        c.reassign('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,1]}]}')
        quiet(c)
        assert c.assignment("t")[0].replicas == (3, 1)
        with pytest.raises(ZnodeError, match=r"partitions\[0\]\.replicas is missing"):
            c.reassign({"version": 1, "partitions": [{"topic": "t", "partition": 0}]})
        with pytest.raises(ConfigError, match="names no partition"):
            c.reassign({"t": [1]})


def test_a_reassignment_waits_for_a_broker_that_died_and_can_be_cancelled() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2]})
        c.pause(3, 60)
        c.reassign({("t", 0): [3, 2]})
        c.run_for(5)
        assert c.assignment("t")[0] == ReplicaAssignment((3, 2, 1), (3,), (1,))
        c.reassign({("t", 0): None})
        c.run_for(2)
        # Back to the origin, in the order of its replicas in the wider assignment.
        assert c.assignment("t")[0] == ReplicaAssignment((2, 1))
        answer = c.reassign({("t", 0): None})
        c.run_for(2)
        assert answer.result().partition_errors == {T0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}


def test_the_latest_reassignment_wins_and_starts_from_the_origin() -> None:
    with cluster(5, controller=5) as c:
        topic(c, "t", {0: [1, 2]})
        c.pause(3, 3)
        c.reassign({("t", 0): [3, 2]})
        c.run_for(1)
        c.reassign({("t", 0): [4, 2]})
        quiet(c)
        assert c.assignment("t") == {0: ReplicaAssignment((4, 2))}
        assert TopicPartition("t", 0) not in c.brokers[3].replicas.replicas


def test_a_new_controller_resumes_a_reassignment() -> None:
    with cluster(5, controller=5) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        c.pause(3, 4)
        c.reassign({("t", 0): [3, 2]})
        c.run_for(1)
        c.kill(5)
        quiet(c)
        assert c.controller != 5
        assert c.assignment("t") == {0: ReplicaAssignment((3, 2))}
        assert state_fields(c, "t")[:2] == (3, (2, 3)) or state_fields(c, "t")[:2] == (3, (3, 2))
        assert not monitor.violations


@pytest.mark.parametrize("target", [[], [2, 2], [-1, 2], [9, 1]])
def test_the_api_rejects_invalid_targets(target: list[int]) -> None:
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2]})
        answer = c.reassign({("t", 0): target})
        quiet(c)
        assert answer.result().partition_errors == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
        assert c.assignment("t") == {0: ReplicaAssignment((1, 2))}
        assert state_fields(c, "t") == (1, (1, 2), 0, 0)


def test_the_api_rejects_an_unknown_topic() -> None:
    with cluster(2) as c:
        answer = c.reassign({("none", 0): [1]})
        quiet(c)
        assert list(answer.result().partition_errors.values()) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert happened(c, "refused") == ["reassign none-0"]


def test_a_reassignment_by_znode_deletes_the_znode_at_its_end() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2], 1: [2, 1]})
        c.write_znode(
            paths.REASSIGN_PARTITIONS,
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,2]},'
            '{"topic":"t","partition":1,"replicas":[3,1]}]}',
        )
        quiet(c)
        assert {number: a.replicas for number, a in c.assignment("t").items()} == {0: (3, 2), 1: (3, 1)}
        assert c.server.tree.get(paths.REASSIGN_PARTITIONS) is None
        # The watch is set again: a second file works.
        c.write_znode(
            paths.REASSIGN_PARTITIONS, '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}'
        )
        quiet(c)
        assert c.assignment("t")[0].replicas == (1,)
        assert c.server.tree.get(paths.REASSIGN_PARTITIONS) is None


def test_a_znode_with_an_unknown_broker_waits_for_it() -> None:
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2]})
        c.write_znode(
            paths.REASSIGN_PARTITIONS, '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[9,2]}]}'
        )
        c.run_for(10)
        assert c.assignment("t")[0] == ReplicaAssignment((9, 2, 1), (9,), (1,))
        assert c.server.tree.get(paths.REASSIGN_PARTITIONS) is not None
        assert state_fields(c, "t") == (1, (1, 2), 1, 1)


def test_a_duplicate_replica_in_the_znode_is_removed() -> None:
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2]})
        c.write_znode(
            paths.REASSIGN_PARTITIONS, '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,2]}]}'
        )
        quiet(c)
        assert c.assignment("t")[0] == ReplicaAssignment((2,))


@pytest.mark.parametrize(
    "data",
    [
        "this is no JSON",
        "[]",
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3],"log_dirs":["any"]}]}',
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":3}]}',
    ],
)
def test_an_unusable_znode_changes_nothing(data: str) -> None:
    """An unusable znode is logged, counts as empty and is not deleted (§1.1).

    The next one is not noticed either: the controller's handler acts on the creation of the znode, and sets its watch
    again only after it deleted the znode itself (PartitionReassignmentHandler). A new controller reads it.
    """
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2]})
        c.write_znode(paths.REASSIGN_PARTITIONS, data)
        quiet(c)
        assert c.assignment("t") == {0: ReplicaAssignment((1, 2))}
        assert state_fields(c, "t") == (1, (1, 2), 0, 0)
        assert len(happened(c, "znode unusable")) == 1
        c.delete_znode(paths.REASSIGN_PARTITIONS)
        quiet(c)
        c.write_znode(
            paths.REASSIGN_PARTITIONS, '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3]}]}'
        )
        quiet(c)
        assert c.assignment("t") == {0: ReplicaAssignment((1, 2))}
        c.expire(3)
        quiet(c)
        assert c.assignment("t") == {0: ReplicaAssignment((3,))}


def test_failed_entries_are_removed_from_the_znode() -> None:
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2]})
        c.write_znode(
            paths.REASSIGN_PARTITIONS,
            '{"version":1,"partitions":[{"topic":"unknown","partition":0,"replicas":[1]},'
            '{"topic":"t","partition":7,"replicas":[1]},{"topic":"t","partition":0,"replicas":[3,1]}]}',
        )
        quiet(c)
        assert c.assignment("t")[0].replicas == (3, 1)
        assert c.server.tree.get(paths.REASSIGN_PARTITIONS) is None
        assert happened(c, "refused") == ["reassignment of unknown-0", "reassignment of t-7"]


@pytest.mark.parametrize(
    "data", ["x", '{"version":1,"partitions":[{"topic":"none","partition":0}]}', '{"version":1,"partitions":[]}']
)
def test_a_preferred_election_by_znode_always_ends_with_its_deletion(data: str) -> None:
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2]})
        c.write_znode(paths.PREFERRED_ELECTION, data)
        quiet(c)
        assert c.server.tree.get(paths.PREFERRED_ELECTION) is None
        assert state_fields(c, "t") == (1, (1, 2), 0, 0)
        assert happened(c, "znode unusable") == ([paths.PREFERRED_ELECTION] if data == "x" else [])


def test_a_preferred_election_by_znode() -> None:
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2], 1: [1, 2]})
        c.kill(1)
        quiet(c)
        c.restart(1)
        quiet(c)
        for number in (0, 1):
            c.write_znode(paths.PREFERRED_ELECTION, ELECTION % number)
            quiet(c)
            assert c.state("t", number).leader == 1
        assert c.server.tree.get(paths.PREFERRED_ELECTION) is None
