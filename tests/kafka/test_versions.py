"""Differences between release lines, beyond the recorded stories (docs/reference/kafka.md §0.1, §2)."""

from __future__ import annotations

import json

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.versions import VERSIONS, kafka_version
from simzk.partitions.rules import LastMember
from tests.kafka.clusters import QUICK, happened, quiet, state_fields, topic, watch

pytestmark = pytest.mark.slow

LINES = list(VERSIONS)
LEGACY = [line for line, version in VERSIONS.items() if not version.controller.reassigns_in_topic_znode]


def cluster(version: str, brokers: int = 4, *, controller: int = 4, **config: str) -> KafkaCluster:
    """Create a booted cluster of a line with a known controller."""
    values = QUICK | {key.replace("_", "."): value for key, value in config.items()}
    c = KafkaCluster(version, brokers, config=values, boot=False)
    for broker in (controller, *(b for b in c.brokers if b != controller)):
        c.restart(broker)
        quiet(c)
    assert c.controller == controller
    return c


def partitions_of(c: KafkaCluster, name: str) -> dict[str, list[int]]:
    node = c.server.tree.get(f"/brokers/topics/{name}")
    assert node is not None
    found: dict[str, list[int]] = json.loads(node.data or b"")["partitions"]
    return found


@pytest.mark.parametrize("line", [line for line in LINES if not VERSIONS[line].rules.always_unclean])
def test_the_golden_trace_is_the_same_in_every_line(line: str) -> None:
    """§2.16, steps 1 to 6: rules that are the same from 0.8.2 to 3.9 without unclean election."""
    with cluster(line, unclean_leader_election_enable="false") as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        for act, broker, expected in (
            (c.kill, 1, (2, (2, 3), 1, 1)),
            (c.kill, 3, (2, (2,), 2, 2)),
            (c.kill, 2, (-1, (2,), 3, 3)),
            (c.restart, 1, (-1, (2,), 3, 3)),
            (c.restart, 2, (2, (2, 1), 4, 5)),
        ):
            act(broker)
            quiet(c)
            assert state_fields(c, "t") == expected
        assert not monitor.violations
        c.check()


@pytest.mark.parametrize("line", [line for line in LINES if VERSIONS[line].rules.always_unclean])
def test_the_golden_trace_before_unclean_election_could_be_disabled(line: str) -> None:
    """§2.16, the variants: an ISR may lose its last member, and any live replica is elected."""
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2, 3]})
        for act, broker, expected in (
            (c.kill, 1, (2, (2, 3), 1, 1)),
            (c.kill, 3, (2, (2,), 2, 2)),
            (c.kill, 2, (-1, (), 3, 3)),
            (c.restart, 1, (1, (1,), 4, 4)),
            (c.restart, 2, (1, (1, 2), 4, 5)),
        ):
            act(broker)
            quiet(c)
            assert state_fields(c, "t") == expected
        c.check()


@pytest.mark.parametrize("line", LINES)
def test_an_isr_loses_its_last_member_up_to_1_0_with_unclean_election(line: str) -> None:
    with cluster(line, unclean_leader_election_enable="true") as c:
        topic(c, "t", {0: [1]})
        c.kill(1)
        quiet(c)
        emptied = VERSIONS[line].rules.last_member != LastMember.KEPT
        assert state_fields(c, "t") == (-1, () if emptied else (1,), 1, 1)


@pytest.mark.parametrize("line", LINES)
def test_a_dead_follower_found_at_failover_leaves_the_isr_from_2_3_on(line: str) -> None:
    """§2.3, step 7: earlier, the leader removes it, in 2.1 and 2.2 only when it lags."""
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2, 4]})
        c.kill(4)
        quiet(c)
        c.run_for(60)
        if VERSIONS[line].rules.failover_trims_dead:
            assert state_fields(c, "t") == (1, (1, 2), 1, 1)
        elif VERSIONS[line].broker.keeps_idle_followers_in_sync:
            assert state_fields(c, "t") == (1, (1, 2, 4), 0, 0)
        else:
            assert state_fields(c, "t") == (1, (1, 2), 0, 1)


@pytest.mark.parametrize("line", LEGACY)
def test_a_legacy_reassignment_writes_old_and_new_replicas_to_the_topic(line: str) -> None:
    """0.8.0 writes the new replicas only at the end."""
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.pause(3)
        c.reassign({("t", 0): [3, 2]})
        c.run_for(3)
        assert partitions_of(c, "t") == {
            "0": [3, 2, 1] if VERSIONS[line].controller.writes_union_assignment else [1, 2]
        }
        assert c.server.tree.get("/admin/reassign_partitions") is not None
        c.resume(3)
        quiet(c)
        assert partitions_of(c, "t") == {"0": [3, 2]}
        assert c.server.tree.get("/admin/reassign_partitions") is None
        assert sorted(c.state("t", 0).isr) == [2, 3]
        c.check()


def request_by_znode(c: KafkaCluster, target: list[int]) -> None:
    """Request a move of t-0 without the tool, which from 0.11 on rejects dead brokers."""
    move = {"topic": "t", "partition": 0, "replicas": target}
    c.write_znode("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": [move]}))


@pytest.mark.parametrize("line", LEGACY)
def test_the_tool_rejects_dead_targets_from_0_11_on(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(3)
        quiet(c)
        answer = c.reassign({("t", 0): [3, 2]})
        c.run_for(5)
        assert (answer.result().error == ErrorCode.INVALID_REQUEST) == (
            "brokers" in VERSIONS[line].tools.reassignment_checks
        )


@pytest.mark.parametrize("line", LEGACY)
def test_the_tool_drops_unknown_partitions_up_to_0_10_0_and_rejects_them_later(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        answer = c.reassign({("t", 0): [2, 3], ("t", 7): [1], ("nope", 0): [1]})
        quiet(c)
        refuses = "partitions" in VERSIONS[line].tools.reassignment_checks
        assert (answer.result().error == ErrorCode.INVALID_REQUEST) == refuses
        assert partitions_of(c, "t") == {"0": [1, 2] if refuses else [2, 3]}


@pytest.mark.parametrize("line", LEGACY)
def test_a_reassignment_to_a_dead_broker_waits_for_it_from_0_10_1_on(line: str) -> None:
    """KAFKA-4214: earlier, it is dropped."""
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(3)
        quiet(c)
        request_by_znode(c, [3, 2])
        c.run_for(5)
        waits = c.server.tree.get("/admin/reassign_partitions") is not None
        assert waits == VERSIONS[line].controller.reassigns_to_dead_brokers
        c.restart(3)
        quiet(c)
        assert partitions_of(c, "t") == {"0": [3, 2] if waits else [1, 2]}
        c.check()


@pytest.mark.parametrize("line", [line for line in LEGACY if VERSIONS[line].controller.reassigns_to_dead_brokers])
def test_the_next_controller_continues_a_legacy_reassignment(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(3)
        quiet(c)
        request_by_znode(c, [2, 3])
        c.run_for(5)
        c.kill(4)
        quiet(c)
        c.restart(3)
        quiet(c)
        assert partitions_of(c, "t") == {"0": [2, 3]}
        assert c.server.tree.get("/admin/reassign_partitions") is None


@pytest.mark.parametrize("line", LEGACY)
def test_a_second_legacy_reassignment_and_a_cancellation_are_rejected(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.pause(3)
        c.reassign({("t", 0): [3, 2]})
        c.run_for(2)
        second, cancelled = c.reassign({("t", 0): [1]}), c.reassign({("t", 0): None})
        c.run_for(2)
        assert second.result().error == ErrorCode.INVALID_REQUEST
        assert cancelled.result().error == ErrorCode.UNSUPPORTED_VERSION


def test_leaders_that_write_isrs_announce_it() -> None:
    """Up to 2.6 the leader writes the ISR, and from 0.9 on announces it; from 2.7 on the controller writes it."""
    for line, version in VERSIONS.items():
        with cluster(line, 3, controller=3) as c:
            made: list[str] = []
            c.server.on_transaction.append(
                lambda transaction, made=made: made.append(str(getattr(transaction.record, "path", "")))  # type: ignore[misc]
            )
            topic(c, "t", {0: [1, 2]})
            c.kill(2)
            quiet(c)
            c.restart(2)
            quiet(c)
            announced = any("isr_change_0" in path for path in made)
            assert announced == (version.broker.announces_isr_changes and not version.broker.uses_alter_isr), line


def test_a_bounced_broker_is_noticed_from_2_2_on() -> None:
    """KIP-380: earlier, it has no partitions until another event."""
    for line, version in VERSIONS.items():
        with cluster(line, 3, controller=3) as c:
            topic(c, "t", {0: [1, 2]})
            c.pause(3)
            c.expire(1)
            c.run_for(2)
            c.resume(3)
            c.run_for(20)
            assert (c.state("t", 0).leader_epoch > 0) == version.client.has_broker_epochs, line


def test_requests_unknown_to_a_release_are_rejected() -> None:
    with cluster("3.9", 3, controller=3) as c, pytest.raises(ConfigError, match=r"no tool of Kafka 3\.9"):
        c.create_topic("t", partitions=1, via="zookeeper")
    with cluster("2.2", 3, controller=3) as c:
        by_tool, by_request = c.elect("unclean"), c.elect("unclean", via=3)
        c.run_for(2)
        assert by_tool.result().error == by_request.result().error == ErrorCode.UNSUPPORTED_VERSION
        assert len(happened(c, "refused")) == 2


@pytest.mark.parametrize("line", LINES)
def test_a_disabled_deletion_request_is_kept_or_removed(line: str) -> None:
    """KAFKA-3175: up to 0.10.1 the request remains; the tool of 0.8.0 sends none."""
    with cluster(line, 3, controller=3, delete_topic_enable="false") as c:
        topic(c, "t", {0: [1, 2]})
        c.delete_topic("t")
        quiet(c)
        rules = VERSIONS[line].controller
        left = c.server.tree.get("/admin/delete_topics/t") is not None
        assert left == (rules.topic_deletion != "by tool" and not rules.drops_disabled_deletions)
        assert (c.server.tree.get("/brokers/topics/t") is None) == (rules.topic_deletion == "by tool")


PARTS = ("znodes", "client", "controller", "broker", "configs", "tools", "orders", "reading")


@pytest.mark.parametrize(
    ("part", "field"), [(part, field) for part in PARTS for field in getattr(VERSIONS["3.9"], part).rows]
)
def test_every_field_distinguishes_some_releases(part: str, field: str) -> None:
    releases = [*VERSIONS.values(), *(kafka_version(f"{line}.0") for line in VERSIONS)]
    values = [getattr(getattr(release, part), field) for release in releases]
    assert any(value != values[0] for value in values)
