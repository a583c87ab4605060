"""`kafka-reassign-partitions` on a simulated cluster: what it proposes, prints, refuses and cleans up, by release."""

from __future__ import annotations

import json

import pytest

from simzk.errors import ConfigError, SimzkError
from simzk.kafka.cluster import KafkaCluster
from simzk.kafka.protocol import Error
from tests.kafka.clusters import QUICK, quiet

PLAN = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3],"log_dirs":["any","any"]}]}'


def booted(version: str) -> KafkaCluster:
    c = KafkaCluster(version, brokers=4, racks=2, config=QUICK)
    c.create_topic("t", assignment={0: [1, 2], 1: [2, 1]})
    quiet(c)
    return c


@pytest.mark.parametrize("version", ["3.9", "2.5", "1.1", "0.10.2"])
def test_a_proposal_is_carried_out_verified_and_says_so_in_the_words_of_the_release(version: str) -> None:
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
def test_what_is_under_way_and_what_failed(version: str, going: str, failed: str) -> None:
    with booted(version) as c:
        stuck = PLAN.replace("[2,3]", "[2,9]").replace(',"log_dirs":["any","any"]', "")
        assert failed in c.verify_reassignment(stuck)
        c.kill(4)
        c.reassign(stuck.replace("9", "4"))
        c.run_for(1)
        assert c.verify_reassignment(stuck).startswith(going)


def test_verify_takes_throttles_away_whether_there_are_any_or_not_from_2_6_on() -> None:
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


def test_cancelling_brings_the_old_replicas_back_from_2_6_on() -> None:
    with booted("2.6") as c:
        assert c.cancel_reassignment(PLAN) is None
        c.kill(3)
        c.reassign(PLAN)
        c.run_for(1)
        answer = c.cancel_reassignment(PLAN)
        assert answer is not None
        c.run_for(2)
        assert answer.result().error == Error.NONE
        assert sorted(c.assignment("t")[0].replicas) == [1, 2]
    with booted("2.5") as c, pytest.raises(ConfigError, match=r"tool of Kafka 2\.5 cannot cancel; expected 2\.6"):
        c.cancel_reassignment(PLAN)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("{", "no JSON"),
        ('{"version":1,"partitions":[]}', "Partition reassignment list cannot be empty"),
        (PLAN.replace("[2,3]", "[]"), "Partition replica list cannot be empty"),
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
def test_a_document_that_cannot_be_is_refused_before_anything_is_done(plan: str, said: str) -> None:
    with booted("3.9") as c:
        for refuse in (c.reassign, c.verify_reassignment, c.cancel_reassignment):
            with pytest.raises(SimzkError, match=said):
                refuse(plan)
        quiet(c)
        assert c.assignment("t")[0].replicas == (1, 2)


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
def test_a_proposal_that_cannot_be_made_is_refused(topics: list[str], brokers: list[int], said: str) -> None:
    with booted("3.9") as c, pytest.raises(ConfigError, match=said):
        c.generate_reassignment(topics, brokers)


def configs(c: KafkaCluster) -> dict[str, dict[str, str]]:
    found = {
        path: node.data for path, node in c.tree.walk() if path.startswith(("/config/topics/", "/config/brokers/"))
    }
    return {path.removeprefix("/config/"): json.loads(data or b"")["config"] for path, data in found.items()}


def announced(c: KafkaCluster) -> list[str]:
    """Whose configuration changed, in order."""
    notices = [(path, node.data) for path, node in c.tree.walk() if path.startswith("/config/changes/")]
    return [json.loads(data or b"")["entity_path"] for _, data in sorted(notices)]


RATE = "leader.replication.throttled.rate"


@pytest.mark.parametrize("version", ["3.9", "2.6", "2.5", "1.1", "0.11", "0.10.2", "0.10.1"])
def test_a_throttle_stands_in_brokers_and_topics_until_it_is_verified(version: str) -> None:
    with booted(version) as c:
        answer = c.reassign(PLAN, throttle=5000)
        quiet(c)
        assert answer.result().error == Error.NONE
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


def test_while_one_is_under_way_the_tool_in_zookeeper_changes_how_fast_it_may_be() -> None:
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


@pytest.mark.parametrize(("version", "throttle"), [("0.10.0", 5000), ("3.9", -1)])
def test_a_throttle_that_cannot_be_is_refused(version: str, throttle: int) -> None:
    with booted(version) as c, pytest.raises(ConfigError, match="cannot throttle this"):
        c.reassign(PLAN, throttle=throttle)
