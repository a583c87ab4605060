"""Groups with members that join, leave, die and lose sessions: in the end the assignor's result holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode.consumer import Consumer, black_list, white_list
from tests.kafka.zookeeper_mode.consumer.groups import GROUP, check_at_rest, cluster, event_texts, rest, watch

if TYPE_CHECKING:
    from simzk.kafka.cluster.cluster import KafkaCluster

RELEASES = ["0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.1", "0.10.2", "0.11", "1.0", "1.1"]


@pytest.mark.parametrize("release", RELEASES)
def test_a_group_from_the_first_member_to_the_last(release: str) -> None:
    c = cluster({"t": 5, "u": 2})
    consumers: list[Consumer] = []
    monitor = watch(c, consumers)
    for number in range(4):
        consumers.append(c.consumer(GROUP, {"t": 2, "u": 1}, consumer_id=f"c{number}", version=release))
        rest(c, consumers)
        check_at_rest(c, consumers)
    assert sum(len(consumer.owned()) for consumer in consumers) == 7
    assert not [p for p in consumers[3].owned() if p.topic == "t"], "eight threads for five partitions"
    consumers[0].kill()
    rest(c, consumers)
    check_at_rest(c, consumers)
    consumers[1].close()
    rest(c, consumers)
    check_at_rest(c, consumers)
    consumers[2].expire()
    rest(c, consumers)
    check_at_rest(c, consumers)
    consumers[0].restart()
    rest(c, consumers)
    check_at_rest(c, consumers)
    for consumer in (consumers[0], consumers[2], consumers[3]):
        consumer.close()
    rest(c, consumers)
    check_at_rest(c, consumers)
    assert not monitor.violations
    assert f"/consumers/{GROUP}/offsets/t/4" in c.server.tree
    c.check()


@pytest.mark.parametrize("release", ["0.8.2", "0.10.2", "1.1"])
def test_roundrobin(release: str) -> None:
    c = cluster({"t": 5, "u": 3})
    config = {"partition.assignment.strategy": "roundrobin"}
    consumers = [c.consumer(GROUP, {"t": 1, "u": 1}, version=release, config=config) for _ in range(3)]
    rest(c, consumers)
    check_at_rest(c, consumers)
    assert sorted(len(consumer.owned()) for consumer in consumers) == [2, 3, 3]


def test_roundrobin_of_0_8_2_fails_for_different_members() -> None:
    c = cluster({"t": 2, "u": 2})
    config = {"partition.assignment.strategy": "roundrobin"}
    first = c.consumer(GROUP, {"t": 1, "u": 1}, version="0.8.2", config=config)
    rest(c, [first])
    second = c.consumer(GROUP, {"t": 1}, version="0.8.2", config=config)
    rest(c, [first, second])
    assert sorted(event_texts(c, "rebalance failed")) == [first.name, second.name]
    assert first.owned() == second.owned() == {}


@pytest.mark.parametrize("release", RELEASES)
def test_partitions_and_topics_are_added_and_deleted(release: str) -> None:
    c = cluster({"t1": 2, "other": 1})
    consumers = [c.consumer(GROUP, white_list("t.*"), version=release) for _ in range(2)]
    rest(c, consumers)
    check_at_rest(c, consumers)
    c.add_partitions("t1", 5)
    rest(c, consumers)
    check_at_rest(c, consumers)
    c.create_topic("t2", partitions=3, replication_factor=1)
    rest(c, consumers)
    check_at_rest(c, consumers)
    assert {p.topic for consumer in consumers for p in consumer.owned()} == {"t1", "t2"}
    c.add_partitions("t2", 4)
    rest(c, consumers)
    check_at_rest(c, consumers)
    c.delete_topic("t2")
    rest(c, consumers)
    assert {p.topic for consumer in consumers for p in consumer.owned()} == {"t1"}


@pytest.mark.parametrize(("release", "taken"), [("0.8.1", {"t", "__consumer_offsets"}), ("0.8.2", {"t"})])
def test_internal_topics_are_excluded_from_0_8_2_on(release: str, taken: set[str]) -> None:
    c = cluster({"t": 1, "__consumer_offsets": 1, "no": 1})
    consumer = c.consumer(GROUP, black_list("no"), version=release)
    rest(c, [consumer])
    assert {p.topic for p in consumer.owned()} == taken


def test_without_brokers_a_consumer_waits_for_one() -> None:
    c = cluster({"t": 2})
    c.kill(1)
    c.run_for(30)
    consumer = c.consumer(GROUP, {"t": 1}, version="0.8.2")
    rest(c, [consumer])
    assert event_texts(c, "no brokers found") == [consumer.name]
    assert consumer.owned() == {}
    c.restart(1)
    rest(c, [consumer])
    check_at_rest(c, [consumer])
    assert len(consumer.owned()) == 2


@pytest.mark.parametrize(("watch_brokers", "rebalances"), [(False, 1), (True, 2)])
def test_brokers_are_watched_only_on_request(watch_brokers: bool, rebalances: int) -> None:
    c = cluster({"t": 2}, brokers=2)
    consumer = c.consumer(GROUP, {"t": 1}, version="0.8.2", watch_brokers=watch_brokers)
    rest(c, [consumer])
    c.shutdown(2)
    rest(c, [consumer])
    assert len(event_texts(c, "rebalanced")) == rebalances


def settled(c: KafkaCluster, consumers: list[Consumer]) -> bool:
    """Let the group come to rest, for half a minute at most."""
    for _ in range(30):
        if all(consumer.idle and not consumer.process.paused for consumer in consumers):
            return True
        c.run_for(1)
    return False


VERBS = st.sampled_from(["join", "join", "kill", "close", "expire", "disconnect", "restart", "pause", "partitions"])


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.2", "1.1"]),
    st.lists(st.tuples(VERBS, st.integers(0, 3), st.sampled_from([0.01, 0.3, 2.0, 9.0])), min_size=1, max_size=8),
    st.integers(0, 1000),
)
@example("0.8.0", [("expire", 0, 0.01), ("close", 0, 0.01), ("pause", 0, 0.01)], 0)
def test_after_random_faults_all_partitions_are_owned(
    release: str, events: list[tuple[str, int, float]], seed: int
) -> None:
    c = cluster({"t": 3}, seed=seed)
    consumers = [c.consumer(GROUP, {"t": 2}, version=release)]
    partitions = 3
    for verb, which, seconds in events:
        consumer = consumers[which % len(consumers)]
        match verb:
            case "join" if len(consumers) < 4:
                consumers.append(c.consumer(GROUP, {"t": 2}, version=release))
            case "partitions":
                partitions += 1
                c.add_partitions("t", partitions)
            case "restart" if not consumer.alive:
                consumer.restart()
            # In the middle of a release the end of a session is one of the known races: test_races.py.
            case "expire" if settled(c, consumers) and consumer.alive and consumer.session_id:
                consumer.expire()
            case "kill" | "close" | "disconnect" if consumer.alive:
                getattr(consumer, verb)()
            case "pause" if settled(c, consumers) and consumer.alive:
                consumer.pause(8)
        c.run_for(seconds)
    rest(c, consumers, 300)
    check_at_rest(c, consumers)
    c.check()


def test_the_same_seed_gives_the_same_history() -> None:
    def story() -> str:
        c = cluster({"t": 4}, seed=5)
        consumers = [c.consumer(GROUP, white_list("t"), version="0.8.2") for _ in range(3)]
        c.run_for(3)
        consumers[0].kill()
        c.run_for(20)
        assert consumers[1].owned().keys() | consumers[2].owned().keys() == {TopicPartition("t", p) for p in range(4)}
        return c.history.to_text()

    assert story() == story()
