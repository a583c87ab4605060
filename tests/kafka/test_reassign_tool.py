"""`kafka-reassign-partitions` on a simulated cluster: proposals, output, rejections and cleanup, by release."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError, SimzkError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.versions import VERSIONS
from simzk.kafka.requests import AdminResponse
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode.tools.reassign_partitions import read_plan
from simzk.zookeeper.transactions import CreateSessionTxn
from tests.kafka.clusters import QUICK, quiet, topic

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAN = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3],"log_dirs":["any","any"]}]}'


def booted(version: str) -> KafkaCluster:
    c = KafkaCluster(version, brokers=4, racks=2, config=QUICK)
    c.create_topic("t", assignment={0: [1, 2], 1: [2, 1]})
    quiet(c)
    return c


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["3.9", "2.5", "1.1", "0.10.2"])
def test_a_proposal_is_executed_and_verified_in_the_words_of_the_release(version: str) -> None:
    with booted(version) as c:
        proposal = c.generate_reassignment(["t"], [3, 4])
        assert proposal.text.startswith(
            f"Current partition replica assignment\n{proposal.current}\n\nProposed partition"
        )
        wanted = json.loads(proposal.proposed)["partitions"]
        assert sorted(entry["partition"] for entry in wanted) == [0, 1]
        assert all(sorted(entry["replicas"]) == [3, 4] for entry in wanted)
        assert all(("log_dirs" in entry) == (version != "0.10.2") for entry in wanted)
        c.reassign(proposal.proposed)
        quiet(c)
        assert all(sorted(c.assignment("t")[number].replicas) == [3, 4] for number in (0, 1))
        said = c.verify_reassignment(proposal.proposed)
        done = "Reassignment of partition t-0 is completed." if version == "3.9" else "t-0 completed successfully"
        assert done in said
        c.reassign(proposal.current)
        quiet(c)
        assert {number: found.replicas for number, found in c.assignment("t").items()} == {0: (1, 2), 1: (2, 1)}


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(
    ("version", "going", "failed"),
    [
        (
            "3.9",
            "Status of partition reassignment:\nReassignment of partition t-0 is still in progress.",
            "There is no active reassignment of partition t-0, but replica set is 1,2 rather than 2,9.",
        ),
        (
            "2.4",
            "Status of partition reassignment: \nReassignment of partition t-0 is still in progress",
            "Reassignment of partition t-0 failed",
        ),
    ],
)
def test_verify_reports_moves_in_progress_and_failed_ones(version: str, going: str, failed: str) -> None:
    with booted(version) as c:
        stuck = PLAN.replace("[2,3]", "[2,9]").replace(',"log_dirs":["any","any"]', "")
        assert failed in c.verify_reassignment(stuck)
        c.kill(4)
        c.reassign(stuck.replace("9", "4"))
        c.run_for(1)
        assert c.verify_reassignment(stuck).startswith(going)


def test_verify_always_removes_throttles_from_2_6_on() -> None:
    with booted("3.9") as c:
        c.alter_config("brokers/1", {"leader.replication.throttled.rate": "5"})
        quiet(c)
        said = c.verify_reassignment(PLAN.replace("[2,3]", "[1,2]"))
        quiet(c)
        assert said.endswith(
            "is completed.\n\nClearing broker-level throttles on brokers 1,2,3,4\n"
            "Clearing topic-level throttles on topic t"
        )
        for broker in (1, 4):
            node = c.tree.get(f"/config/brokers/{broker}")
            assert node is not None
            assert node.data == b'{"version":1,"config":{}}'
    with booted("2.5") as c:
        c.verify_reassignment(PLAN.replace("[2,3]", "[1,2]"))
        quiet(c)
        assert c.tree.get("/config/brokers/1") is None


def test_cancelling_restores_the_old_replicas_from_2_6_on() -> None:
    with booted("2.6") as c:
        assert c.cancel_reassignment(PLAN, preserve_throttles=True) is None
        c.kill(3)
        c.reassign(PLAN)
        c.run_for(1)
        answer = c.cancel_reassignment(PLAN, preserve_throttles=True)
        assert answer is not None
        c.run_for(2)
        assert answer.result().error == ErrorCode.NONE
        assert sorted(c.assignment("t")[0].replicas) == [1, 2]
    with booted("2.5") as c, pytest.raises(ConfigError, match=r"tool of Kafka 2\.5 cannot cancel; expected 2\.6"):
        c.cancel_reassignment(PLAN)


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("{", "no JSON"),
        ('{"version":1,"partitions":[]}', "Partition reassignment list cannot be empty"),
        (PLAN.replace('[2,3],"log_dirs":["any","any"]', "[]"), "Partition replica list cannot be empty"),
        (
            PLAN.replace("[2,3]", "[2,2]"),
            "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 2",
        ),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
            "Partition reassignment contains duplicate topic partitions: t-0",
        ),
    ],
)
def test_an_invalid_document_is_rejected_before_anything_is_done(plan: str, said: str) -> None:
    with booted("3.9") as c:
        for refuse in (c.reassign, c.verify_reassignment, c.cancel_reassignment):
            with pytest.raises(SimzkError, match=said):
                refuse(plan)
        quiet(c)
        assert c.assignment("t")[0].replicas == (1, 2)


MOVE = '{"topic":"foo","partition":0,"replicas":[2,3]%s}'


# Texts of kafka-tools 3.9.2 (ReassignPartitionsCommand.parseExecuteAssignmentArgs, run on the jars); those of the tool
# in Scala from its source (parsePartitionReassignmentData, DecodeJson).
@pytest.mark.parametrize(
    ("release", "plan", "said"),
    [
        ("3.9", '{"version":2,"partitions":[]}', "Not supported version field value 2"),
        ("3.9", '{"version":"1","partitions":[]}', 'Expected `Integer` value, received "1"'),
        ("3.6", '{"version":"1","partitions":[]}', 'Expected `Int` value, received "1"'),
        ("2.0", '{"version":2,"partitions":[]}', "Not supported version field value 2"),
        ("1.1", '{"version":2,"partitions":[%s]}' % (MOVE % ""), None),
        (
            "3.9",
            '{"partitions":[%s]}' % (MOVE % ',"log_dirs":["any"]'),
            "Size of replicas list [2, 3] is different from size of log dirs list [any] for partition foo-0",
        ),
        (
            "3.7",
            '{"partitions":[%s]}' % (MOVE % ',"log_dirs":[]'),
            "Size of replicas list [2, 3] is different from size of log dirs list [] for partition foo-0",
        ),
        (
            "1.0",
            '{"partitions":[%s]}' % (MOVE % ',"log_dirs":["any"]'),
            "Size of replicas list List(2, 3) is different from size of log dirs list List(any) for partition foo-0",
        ),
        ("0.11", '{"partitions":[%s]}' % (MOVE % ',"log_dirs":[]'), None),
        ("3.9", '{"version":1,"partitions":[%s]}' % (MOVE % ',"log_dirs":["any","/d"]'), None),
        ("3.9", '\ufeff{"version":1,"partitions":[%s]}' % (MOVE % ""), "Unexpected character"),
        ("0.8.2", '\ufeff{"version":1,"partitions":[%s]}' % (MOVE % ""), "Unexpected character"),
    ],
)
def test_a_document_is_read_as_by_the_release(release: str, plan: str, said: str | None) -> None:
    if said is None:
        assert read_plan(plan, VERSIONS[release]) == {TopicPartition("foo", 0): (2, 3)}
        return
    with pytest.raises(SimzkError, match=re.escape(said)):
        read_plan(plan, VERSIONS[release])


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(
    ("topics", "brokers", "said"),
    [
        (["t", "t"], [1, 2], "List of topics to reassign contains duplicate entries: t"),
        (["t"], [1, 1], "Broker list contains duplicate entries: 1"),
        (["t"], [1, 9], "Unknown broker id 9"),
        (["nope"], [1, 2], "Topic nope not found"),
        (["t"], [1], "1"),
    ],
)
def test_an_impossible_proposal_is_rejected(topics: list[str], brokers: list[int], said: str) -> None:
    with booted("3.9") as c, pytest.raises(ConfigError, match=said):
        c.generate_reassignment(topics, brokers)


def configs(c: KafkaCluster) -> dict[str, dict[str, str]]:
    found = {
        path: node.data for path, node in c.tree.walk() if path.startswith(("/config/topics/", "/config/brokers/"))
    }
    return {path.removeprefix("/config/"): json.loads(data or b"")["config"] for path, data in found.items()}


def announced(c: KafkaCluster) -> list[str]:
    """Return the entities with changed configurations, in order."""
    notices = [(path, node.data) for path, node in c.tree.walk() if path.startswith("/config/changes/")]
    return [json.loads(data or b"")["entity_path"] for _, data in sorted(notices)]


RATE = "leader.replication.throttled.rate"


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["3.9", "2.6", "2.5", "1.1", "0.11", "0.10.2", "0.10.1"])
def test_throttles_are_set_on_brokers_and_topics_until_verify(version: str) -> None:
    with booted(version) as c:
        answer = c.reassign(PLAN, throttle=5000)
        quiet(c)
        assert answer.result().error == ErrorCode.NONE
        seen = configs(c)
        assert seen["topics/t"] == {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:3",
        }
        rates = {RATE: "5000", "follower.replication.throttled.rate": "5000"}
        assert {path: found for path, found in seen.items() if path.startswith("brokers/")} == {
            f"brokers/{broker}": rates for broker in (1, 2, 3)
        }
        order = announced(c)
        assert order.index("topics/t") == (3 if version.startswith("0.10") else 0)
        assert sorted(order) == ["brokers/1", "brokers/2", "brokers/3", "topics/t"]
        said = c.verify_reassignment(PLAN)
        asks = version in ("2.6", "3.9")
        assert said.endswith("Clearing topic-level throttles on topic t" if asks else "Throttle was removed.")
        quiet(c)
        assert not any("throttled" in key for found in configs(c).values() for key in found)
        assert "Throttle was removed." not in c.verify_reassignment(PLAN)


RECORDED_PLAN = (
    '{"version":1,"partitions":[{"topic":"u","partition":0,"replicas":[22,11]},'
    '{"topic":"t","partition":0,"replicas":[21,22]}]}'
)
CLEARED = [f"brokers/{broker}" for broker in (21, 22, 11, 12)]
"""Recorded of 2.8.2 and 3.9.1: every live broker was written, by itself, before the topics of the plan."""


def with_throttles(c: KafkaCluster) -> None:
    topic(c, "t", {0: [11, 12]})
    topic(c, "u", {0: [21, 11]})
    c.reassign(RECORDED_PLAN, throttle=1000)
    quiet(c)


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["3.9.1", "2.8.2", "2.6"])
def test_cancel_clears_throttles_as_recorded(version: str) -> None:
    with KafkaCluster(version, [11, 12, 21, 22], seed=1) as c:
        with_throttles(c)
        assert c.cancel_reassignment(RECORDED_PLAN, preserve_throttles=True) is None
        before = announced(c)
        assert before
        said = c.verify_reassignment(RECORDED_PLAN, preserve_throttles=True)
        quiet(c)
        assert "throttles" not in said
        assert announced(c) == before
        for _ in range(2):  # also if nothing is throttled
            answer = c.cancel_reassignment(RECORDED_PLAN)
            assert answer is not None
            quiet(c)
            assert answer.result().error == ErrorCode.NONE
            after = announced(c)[len(before) :]
            assert sorted(after[:4]) == sorted(CLEARED)
            assert sorted(after[4:]) == ["topics/t", "topics/u"]
            before = announced(c)
            assert all(not found for found in configs(c).values())
        said = c.verify_reassignment(RECORDED_PLAN)
        topics = "t,u" if version == "3.9.1" else "u,t"
        assert said.endswith(
            "\n\nClearing broker-level throttles on brokers 21,22,11,12\n"
            f"Clearing topic-level throttles on topics {topics}"
        )


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["3.9.1", "2.8.2"])
def test_a_dead_broker_ends_the_tool_before_it_clears_topics(version: str) -> None:
    with KafkaCluster(version, [11, 12, 21, 22], seed=1) as c:
        with_throttles(c)
        c.kill(22)
        c.run_for(20)
        before = announced(c)
        answer = c.cancel_reassignment(RECORDED_PLAN)
        assert answer is not None
        c.run_for(50)
        assert not answer.done
        c.run_for(20)  # the real tool exits with a TimeoutException after 60 s
        assert answer.result().error != ErrorCode.NONE
        assert sorted(announced(c)[len(before) :]) == ["brokers/11", "brokers/12", "brokers/21"]
        assert configs(c)["topics/u"]
        assert configs(c)["brokers/22"]
        said = c.verify_reassignment(RECORDED_PLAN)
        assert "Clearing broker-level throttles on brokers 21," in said
        assert "Clearing topic-level" not in said


def test_the_tool_in_zookeeper_changes_the_throttle_of_a_move_in_progress() -> None:
    with booted("2.3") as c:
        c.pause(3)  # it lives, and takes nothing over
        c.reassign(PLAN, throttle=5000)
        c.run_for(5)
        assert c.tree.get("/admin/reassign_partitions") is not None
        c.reassign(PLAN.replace("[2,3]", "[2,4]"), throttle=9000)
        c.run_for(5)
        seen = configs(c)
        assert {broker: seen[f"brokers/{broker}"][RATE] for broker in (1, 2, 4)} == {
            1: "9000",
            2: "9000",
            4: "9000",
        }
        assert seen["topics/t"]["follower.replication.throttled.replicas"] == "0:3"


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(("version", "throttle"), [("0.10.0", 5000), ("3.9", -1)])
def test_an_invalid_throttle_is_rejected(version: str, throttle: int) -> None:
    with booted(version) as c, pytest.raises(ConfigError, match="cannot throttle this"):
        c.reassign(PLAN, throttle=throttle)


IN_ZOOKEEPER = [line for line, version in VERSIONS.items() if version.number < (2, 6)]
BY_BROKERS = [line for line in VERSIONS if line not in IN_ZOOKEEPER]
# What the tool says of a target for t-0, or of another plan, and the first release whose tool says so.
REFUSED_SINCE: dict[str, tuple[dict[tuple[str, int], Sequence[int] | None], tuple[int, int, int], str]] = {
    "empty plan": ({}, (0, 8, 0), "Partition reassignment data file is empty"),
    "empty list": ({("t", 0): []}, (0, 11, 0), "Partition replica list cannot be empty"),
    "one empty list": ({("t", 1): [1, 2], ("t", 0): []}, (0, 11, 0), "Partition replica list cannot be empty"),
    "replica twice": (
        {("t", 0): [2, 3, 2, 3]},
        (0, 8, 2),
        "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 2,3",
    ),
    "no partition": ({("t", 7): [1]}, (0, 9, 0), ""),
    "partly no partition": (
        {("t", 0): [2, 3], ("t", 7): [1]},
        (0, 10, 1),
        "The proposed assignment contains non-existent partitions: t-7",
    ),
    "no broker": ({("t", 0): [1, 9]}, (0, 11, 0), "The proposed assignment contains non-existent brokerIDs: 9"),
    "negative": ({("t", 0): [-1, 2]}, (0, 11, 0), "The proposed assignment contains non-existent brokerIDs: -1"),
}


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("case", REFUSED_SINCE)
@pytest.mark.parametrize("version", IN_ZOOKEEPER)
def test_the_tool_in_zookeeper_checks_before_it_writes(version: str, case: str) -> None:
    """ReassignPartitionsCommand.parseAndValidate of 0.8.0 to 2.5.1."""
    plan, since, said = REFUSED_SINCE[case]
    with booted(version) as c:
        answer = c.reassign(plan)
        quiet(c)
        if VERSIONS[version].number < since:
            assert answer.result() == AdminResponse(ErrorCode.NONE)
            return
        assert answer.result().error == ErrorCode.INVALID_REQUEST
        assert answer.result().message.startswith(said)
        assert c.tree.get("/admin/reassign_partitions") is None
        assert {number: found.replicas for number, found in c.assignment("t").items()} == {0: (1, 2), 1: (2, 1)}


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", IN_ZOOKEEPER)
def test_the_tool_in_zookeeper_reads_documents_as_it_reads_plans(version: str) -> None:
    number = VERSIONS[version].number
    with booted(version) as c:
        for replicas, since in (("[]", (0, 11, 0)), ("[2,2]", (0, 8, 2))):
            document = f'{{"version":1,"partitions":[{{"topic":"t","partition":1,"replicas":{replicas}}}]}}'
            if number < since:
                answer = c.reassign(document)
                quiet(c)
                assert answer.result().error == ErrorCode.NONE
            else:
                with pytest.raises(ConfigError, match="Partition replica list"):
                    c.reassign(document)


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("target", [[], [1, 9], [2, 2], [-1, 2], None])
@pytest.mark.parametrize("version", BY_BROKERS)
def test_brokers_reject_invalid_partitions_one_by_one(version: str, target: list[int] | None) -> None:
    """KIP-455; KafkaController.validateReplicas of 2.6 and later."""
    with booted(version) as c:
        answer = c.reassign({("t", 0): target, ("t", 1): [3, 4]})
        quiet(c)
        refused = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS if target is None else ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert answer.result() == AdminResponse(
            ErrorCode.NONE, "", {TopicPartition("t", 0): refused, TopicPartition("t", 1): ErrorCode.NONE}
        )
        assert {number: found.replicas for number, found in c.assignment("t").items()} == {0: (1, 2), 1: (3, 4)}


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(
    ("version", "target", "said"),
    [
        ("3.9", [], "Partition replica list cannot be empty"),
        ("3.9", [1, 9], "Unknown broker id 9"),
        ("2.4", [], "Partition replica list cannot be empty"),
        ("2.4", [2, 2], "t-0 contains multiple entries for 2"),
        ("2.4", [1, 9], "non-existent brokerIDs: 9"),
    ],
)
def test_a_rejected_plan_sets_no_throttle(version: str, target: list[int], said: str) -> None:
    with booted(version) as c:
        before = configs(c)
        with pytest.raises(ConfigError, match=said):
            c.reassign({("t", 0): target}, throttle=5000)
        quiet(c)
        assert configs(c) == before


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["0.8.2", "0.8.1", "0.8.0"])
def test_up_to_0_8_2_an_empty_list_is_written_and_remains(version: str) -> None:
    """ReassignPartitionsCommand.reassignPartitions; the listener of the controller processes an empty list."""
    with booted(version) as c:
        c.reassign({("t", 7): [1]})
        quiet(c)
        node = c.tree.get("/admin/reassign_partitions")
        assert node is not None
        assert json.loads(node.data or b"") == {"version": 1, "partitions": []}
        answer = c.reassign({("t", 0): [2, 3]})
        quiet(c)
        assert answer.result().error == ErrorCode.INVALID_REQUEST
        assert c.assignment("t")[0].replicas == (1, 2)


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["0.10.2", "1.1", "2.5"])
def test_the_tool_in_zookeeper_writes_all_throttles_in_one_session(version: str) -> None:
    with booted(version) as c:
        opened: list[int] = []
        c.server.on_transaction.append(
            lambda transaction: (
                opened.append(transaction.session_id) if isinstance(transaction.record, CreateSessionTxn) else None
            )
        )
        c.reassign({("t", 0): [3, 4]}, throttle=1000)
        quiet(c)
        assert c.tree.get("/config/brokers/4") is not None
        assert c.assignment("t")[0].replicas == (3, 4)
        assert len(opened) == 1
