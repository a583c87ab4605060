"""Replication quotas (KIP-73): throttled replicas out of sync are held back while a broker's rate is exceeded.

What real brokers answer during a throttled reassignment is compared in `client_requests/test_recorded_failures.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ZnodeError
from simzk.kafka.broker.replication_quotas import ReplicationQuota, ReplicationQuotas
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.releases.settings import BrokerConfig
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition

MOVE = TopicPartition("move", 0)
TARGETS: dict[tuple[str, int], list[int]] = {("move", 0): [3, 2]}
RATE_KEYS = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
REPLICAS_KEYS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
WINDOW_US, WINDOWS = 1_000_000, 11


def cluster_with_records(version: str, batches: int = 30) -> KafkaCluster:
    """Return three brokers and a topic on brokers 1 and 2, with records of at least 100 bytes a batch."""
    cluster = KafkaCluster(version, 3, config={"replica.fetch.max.bytes": 2_000})
    cluster.create_topic("move", assignment={0: [1, 2]})
    cluster.run_until_quiet()
    for _ in range(batches):
        cluster.produce("move", 0, 3)
        cluster.run_for(0.05)
    cluster.run_for(1)
    return cluster


def size_of_log(cluster: KafkaCluster, broker: int) -> int:
    replica = cluster.brokers[broker].replicas.replicas.get(MOVE)
    return 0 if replica is None else sum(batch.size_bytes for batch in replica.log.read(0))


def in_sync(cluster: KafkaCluster) -> set[int]:
    return set(cluster.state("move", 0).isr)


@pytest.mark.parametrize("version", ["0.10.1", "0.11", "1.1", "2.4", "3.9"])
def test_one_byte_a_second_holds_a_reassignment_until_the_throttle_is_removed(version: str) -> None:
    with cluster_with_records(version) as cluster:
        cluster.reassign(TARGETS, throttle=1)
        cluster.run_for(120)
        assert in_sync(cluster) == {1, 2}
        assert size_of_log(cluster, 3) == 0
        for path, keys in (("topics/move", REPLICAS_KEYS), *((f"brokers/{broker}", RATE_KEYS) for broker in (1, 2, 3))):
            cluster.alter_config(path, dict.fromkeys(keys))
        cluster.run_for(5)
        assert in_sync(cluster) == {2, 3}
        cluster.check()


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("version", ["0.10.1", "2.4", "3.9"])
def test_a_log_is_copied_at_the_rate(version: str, role: str) -> None:
    rate = 1_000
    with cluster_with_records(version, 60) as cluster:
        size_bytes = size_of_log(cluster, 1)
        assert size_bytes > 10 * rate
        cluster.alter_config("topics/move", {f"{role}.replication.throttled.replicas": "0:1,0:3"})
        for broker in (1, 3):
            cluster.alter_config(f"brokers/{broker}", {f"{role}.replication.throttled.rate": str(rate)})
        cluster.run_for(12)
        begun_us = cluster.scheduler.now_us
        cluster.reassign(TARGETS)
        cluster.run_until(lambda: in_sync(cluster) == {2, 3})
        took_s = (cluster.scheduler.now_us - begun_us) / 1e6
    # Each window may begin with one response more than the rate allows, and the last one need not be waited for.
    assert 0.5 * size_bytes / rate < took_s < 2 * size_bytes / rate + 5


def test_replicas_in_sync_go_on() -> None:
    with cluster_with_records("3.9") as cluster:
        cluster.alter_config("topics/move", dict.fromkeys(REPLICAS_KEYS, "*"))
        for broker in (1, 2, 3):
            cluster.alter_config(f"brokers/{broker}", dict.fromkeys(RATE_KEYS, "1"))
        cluster.run_for(12)
        sent = cluster.produce("move", 0, 3, acks="all")
        cluster.run_for(1)
        assert sent.result().error.name == "NONE"
        cluster.run_for(60)
        assert in_sync(cluster) == {1, 2}


def test_other_partitions_of_the_leader_are_not_held_back() -> None:
    with cluster_with_records("3.9") as cluster:
        cluster.create_topic("other", assignment={0: [1, 3]})
        cluster.reassign(TARGETS, throttle=1)
        cluster.run_for(5)
        sent = cluster.produce("other", 0, 3, acks="all")
        cluster.run_for(1)
        assert sent.result().error.name == "NONE"
        assert in_sync(cluster) == {1, 2}


def test_a_broker_that_restarts_knows_its_rate() -> None:
    with cluster_with_records("3.9") as cluster:
        cluster.reassign(TARGETS, throttle=1)
        cluster.run_for(5)
        for broker in (1, 3):
            cluster.kill(broker)
            cluster.run_for(30)
            cluster.restart(broker)
            cluster.run_for(60)
        # Without a response in the last eleven seconds the first one is free: it is not larger than a fetch.
        assert 3 not in in_sync(cluster)
        assert size_of_log(cluster, 3) <= 4_000


def test_wrong_values_change_nothing() -> None:
    version = kafka_version("3.9")
    quotas = ReplicationQuotas(1, version, BrokerConfig(version))
    quotas.set_topic("move", {REPLICAS_KEYS[0]: "0:1,1:2", REPLICAS_KEYS[1]: "*"})
    quotas.set_rates({RATE_KEYS[0]: "5"})
    with pytest.raises(ZnodeError, match=r"throttled\.replicas is 0-1"):
        quotas.set_topic("move", {REPLICAS_KEYS[0]: "", REPLICAS_KEYS[1]: "0-1"})
    with pytest.raises(ZnodeError, match=r"throttled\.rate is fast"):
        quotas.set_rates({RATE_KEYS[0]: "7", RATE_KEYS[1]: "fast"})
    assert [quotas.leader.is_throttled(TopicPartition("move", number)) for number in (0, 1)] == [True, False]
    assert quotas.follower.is_throttled(MOVE)
    assert (quotas.leader.limit, quotas.follower.limit) == (5, None)


def test_a_wrong_list_in_a_znode_is_told_and_the_broker_goes_on() -> None:
    with cluster_with_records("3.9") as cluster:
        cluster.alter_config("topics/move", {REPLICAS_KEYS[0]: "*"})
        cluster.alter_config("brokers/1", {RATE_KEYS[0]: "1"})
        cluster.run_for(1)
        cluster.write_znode("/config/topics/move", '{"version":1,"config":{"' + REPLICAS_KEYS[0] + '":"0-1"}}')
        change = '{"version":2,"entity_path":"topics/move"}'
        cluster.write_znode("/config/changes/config_change_0000000099", change, create=True)
        cluster.run_for(2)
        told = [event for event in cluster.history if event.what == "znode unusable"]
        assert len(told) == 3
        assert all("0-1" in event.after for event in told)
        cluster.reassign(TARGETS)
        cluster.run_for(30)
        assert in_sync(cluster) == {1, 2}


@given(
    st.lists(st.tuples(st.integers(0, 4_000_000), st.integers(0, 50_000)), max_size=40),
    st.integers(1, 20_000),
    st.integers(0, 13_000_000),
)
def test_the_rate_is_that_of_the_last_windows(records: list[tuple[int, int]], limit: int, later_us: int) -> None:
    """A window begins with the first bytes after the end of the last one, and ages as a whole."""
    quota = ReplicationQuota(RATE_KEYS[0], REPLICAS_KEYS[0], WINDOWS, WINDOW_US)
    quota.limit = limit
    now_us = 0
    windows: list[tuple[int, int]] = []
    for pause_us, size_bytes in records:
        now_us += pause_us
        quota.record(now_us, size_bytes)
        if not windows or now_us - windows[-1][0] >= WINDOW_US:
            windows.append((now_us, 0))
        windows[-1] = (windows[-1][0], windows[-1][1] + size_bytes)
        _assert_equal(quota, windows, now_us, limit)
    _assert_equal(quota, windows, now_us + later_us, limit)


def _assert_equal(quota: ReplicationQuota, windows: list[tuple[int, int]], now_us: int, limit: int) -> None:
    kept = [(begin_us, size) for begin_us, size in windows[-WINDOWS:] if now_us - begin_us < WINDOWS * WINDOW_US]
    elapsed_us = max(now_us - kept[0][0], WINDOW_US) if kept else WINDOW_US
    assert quota.is_exceeded(now_us) == (sum(size for _, size in kept) / (elapsed_us / 1e6) > limit)
