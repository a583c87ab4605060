"""Known races of the old consumer (docs/reference/kafka.md §4.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode.consumer import Consumer, Subscription, static, white_list
from tests.kafka.zookeeper_mode.consumer.groups import GROUP, check_at_rest, cluster, event_texts, rest, watch
from tests.kafka.zookeeper_mode.consumer.invariants import expected_owners, owners

if TYPE_CHECKING:
    from simzk.kafka.cluster.cluster import KafkaCluster


def offset_in(c: KafkaCluster, topic: str, partition: int) -> bytes | None:
    node = c.server.tree.get(f"/consumers/{GROUP}/offsets/{topic}/{partition}")
    return None if node is None else node.data


def test_every_member_rebalances_on_each_join() -> None:
    c = cluster({"t": 8})
    consumers: list[Consumer] = []
    for number in range(1, 7):
        before = len(event_texts(c, "rebalanced")) + len(event_texts(c, "rebalance tried in vain"))
        consumers.append(c.consumer(GROUP, {"t": 1}, version="0.8.2"))
        rest(c, consumers)
        after = len(event_texts(c, "rebalanced")) + len(event_texts(c, "rebalance tried in vain"))
        assert after - before >= number
    check_at_rest(c, consumers)


def test_owners_of_a_dead_member_outlive_the_attempts() -> None:
    """Four tries with pauses of two seconds are over long before a session of 30 s; what saves the group is that the
    dead member's id goes with its owners, and triggers."""
    c = cluster({"t": 2})
    dead = c.consumer(
        GROUP, {"t": 1}, consumer_id="b", version="0.8.2", config={"zookeeper.session.timeout.ms": 30_000}
    )
    c.run_for(3)
    dead.kill()
    heir = c.consumer(GROUP, {"t": 2}, consumer_id="a", version="0.8.2")
    c.run_for(15)
    assert event_texts(c, "rebalance failed") == [heir.name]
    assert len(event_texts(c, "rebalance tried in vain", heir.name)) == 4
    assert heir.owned() == {}
    c.run_for(30)
    check_at_rest(c, [dead, heir])
    assert len(heir.owned()) == 2


def test_a_zombie_sets_the_offset_back() -> None:
    c = cluster({"t": 1})
    zombie = c.consumer(GROUP, {"t": 1}, consumer_id="a", version="0.8.2", reads=False)
    heir = c.consumer(GROUP, {"t": 1}, consumer_id="b", version="0.8.2", reads=False)
    rest(c, [zombie, heir])
    c.produce("t", 0, 100)
    c.run_for(1)
    zombie.consume("t", 0, 5)
    zombie.pause(20)
    c.run_for(15)
    heir.consume("t", 0, 90)
    heir.commit()
    c.run_for(1)
    assert offset_in(c, "t", 0) == b"90"
    zombie.commit()
    c.run_for(6)
    assert offset_in(c, "t", 0) == b"5"
    rest(c, [zombie, heir])
    check_at_rest(c, [zombie, heir])


def expired_in_rebalance(release: str, delay_us: int) -> tuple[bool, bool]:
    """A member's session expires so long after another has started, and a third one starts a moment later.

    Returns:
        whether the owners in ZooKeeper are what they must be in the end, and whether two ever owned one partition.
    """
    c = cluster({"t": 6})
    consumers: list[Consumer] = []
    monitor = watch(c, consumers)
    first = c.consumer(GROUP, {"t": 1}, consumer_id="a", version=release)
    consumers.append(first)
    c.run_for(2)
    consumers.append(c.consumer(GROUP, {"t": 1}, consumer_id="b", version=release))
    c.run_for(delay_us / 1_000_000)
    first.expire()
    c.run_for(0.004)
    consumers.append(c.consumer(GROUP, {"t": 1}, consumer_id="0", version=release))
    rest(c, consumers)
    right = owners(c.server.tree, GROUP) == expected_owners(c.server.tree, GROUP, first)
    return right, bool(monitor.violations)


def test_a_rebalance_of_an_expired_session_continues_in_the_next() -> None:
    """Up to 0.8.1 all is read before the release: a member whose session expires in the middle of it goes on to delete
    the owners of others by their paths, and claims by what it had read. From 0.8.2 on it reads after the release, finds
    its own id gone, and the try fails."""
    delays_us = range(23_000, 27_000, 500)
    assert any(expired_in_rebalance("0.8.0", delay_us) == (False, True) for delay_us in delays_us)
    assert all(expired_in_rebalance("0.8.2", delay_us) == (True, False) for delay_us in delays_us)


def test_two_sessions_with_one_id() -> None:
    c = cluster({"t": 2})
    first = c.consumer(GROUP, {"t": 1}, consumer_id="a", version="0.8.2")
    c.run_for(2)
    waits = c.consumer(GROUP, {"t": 1}, consumer_id="a", version="0.8.2")
    refused = c.consumer(GROUP, {"t": 1}, consumer_id="a", version="0.9")
    c.run_for(60)
    assert event_texts(c, "joined", waits.name) == []
    assert len(event_texts(c, "registration refused", refused.name)) == 1
    assert not refused.alive
    first.close()
    c.run_for(10)
    assert len(waits.owned()) == 2


def test_owners_of_an_earlier_session_with_the_same_name_count_as_created() -> None:
    """A member that is killed and restarted with the same id at once; 0.8.2 waits for its id, the owners are gone by
    then, and all is made again."""
    c = cluster({"t": 2})
    member = c.consumer(GROUP, {"t": 1}, consumer_id="a", version="0.8.2")
    c.run_for(2)
    member.kill()
    member.restart()
    c.run_for(3)
    assert member.owned() == {}
    c.run_for(12)
    check_at_rest(c, [member])
    assert len(member.owned()) == 2


def test_changed_offsets_are_written_each_minute() -> None:
    c = cluster({"t": 2})
    consumer = c.consumer(GROUP, {"t": 1}, version="0.8.2", config={"auto.offset.reset": "smallest"})
    c.run_for(5)
    c.produce("t", 1, 7)
    c.run_for(50)
    assert offset_in(c, "t", 1) is None
    c.run_for(10)
    assert (offset_in(c, "t", 0), offset_in(c, "t", 1)) == (b"0", b"7")
    node = c.server.tree.get(f"/consumers/{GROUP}/offsets/t/1")
    c.run_for(120)
    assert node is not None
    assert node.version == 0
    consumer.kill()
    c.produce("t", 1, 3)
    c.run_for(20)
    heir = c.consumer(GROUP, {"t": 1}, version="1.1", reads=False)
    c.run_for(5)
    assert heir.offset("t", 1) == 7


def test_a_new_group_starts_at_the_end_by_default() -> None:
    c = cluster({"t": 1})
    c.produce("t", 0, 4)
    c.run_for(2)
    consumer = c.consumer(GROUP, {"t": 1}, reads=False)
    c.run_for(3)
    assert consumer.offset("t", 0) == 4


@pytest.mark.parametrize(
    ("topics", "options", "field"),
    [
        ({"t": 1}, {"version": "2.0"}, "version"),
        ({"t": 1}, {"consumer_id": "a/b"}, "consumer_id"),
        ({"t": 1}, {"config": {"no.such.key": 1}}, "config.no.such.key"),
        ({"t": 1}, {"config": {"rebalance.max.retries": "many"}}, "config.rebalance.max.retries"),
        ({"t": 1}, {"config": {"partition.assignment.strategy": "sticky"}}, "config.partition.assignment.strategy"),
    ],
)
def test_invalid_arguments_are_rejected_and_nothing_joins(
    topics: dict[str, int], options: dict[str, object], field: str
) -> None:
    c = cluster({"t": 1})
    with pytest.raises(ConfigError) as error:
        c.consumer(GROUP, topics, **options)  # type: ignore[arg-type]
    assert error.value.where == field
    assert not c.participants


def test_invalid_subscriptions_are_rejected() -> None:
    with pytest.raises(ConfigError, match="no regex"):
        white_list("t(")
    with pytest.raises(ConfigError, match="threads"):
        white_list("t", 0)
    with pytest.raises(ConfigError, match="threads"):
        static({"t": 0})
    with pytest.raises(ConfigError, match="no topic"):
        static({})
    assert isinstance(white_list(" 't1, t2' "), Subscription)
    assert white_list(" 't1, t2' ").counts == (("t1|t2", 1),)


def test_a_consumer_cannot_read_a_partition_that_it_does_not_own() -> None:
    c = cluster({"t": 1})
    consumer = c.consumer(GROUP, {"t": 1})
    with pytest.raises(ConfigError, match="does not own t-0"):
        consumer.consume("t", 0, 1)
    c.run_for(2)
    assert consumer.owned().keys() == {TopicPartition("t", 0)}
    consumer.kill()
    with pytest.raises(ConfigError, match="is not running"):
        consumer.pause(1)


def test_an_unreadable_registration_fails_every_attempt() -> None:
    c = cluster({"t": 1})
    consumer = c.consumer(GROUP, {"t": 1}, version="0.8.2")
    c.run_for(2)
    c.write_znode(f"/consumers/{GROUP}/ids/{GROUP}_stranger", "not json")
    c.run_for(12)
    assert "no JSON" in event_texts(c, "rebalance tried in vain", consumer.name)[0]
    assert event_texts(c, "rebalance failed") == [consumer.name]
    c.delete_znode(f"/consumers/{GROUP}/ids/{GROUP}_stranger")
    rest(c, [consumer])
    check_at_rest(c, [consumer])
