"""AlterReplicaLogDirs: where logs are created, and how long their moves take.

Codes, sizes and times are those of real brokers 2.8.2 and 3.9.1 with the same requests, unless a class is named.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

import simzk
from simzk.kafka.broker.log_dir_moves import RATE_KEY
from simzk.kafka.log.record_batches import Record, encode_batch
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ProduceRequest,
    ProduceResponse,
)
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.memory_client import MemoryClient

DIRS = ["/a", "/b"]
BATCH_BYTES = 1070


class Place(NamedTuple):
    """A log of a partition, or its copy."""

    path: str
    size: int
    lag: int
    is_copy: bool


def cluster_of(version: str = "3.9", **settings: str | int) -> simzk.KafkaCluster:
    """Return a cluster of one broker with two log directories."""
    return simzk.KafkaCluster(version, 1, config={"log.dirs": "/a, /b", "replica.fetch.max.bytes": 20_000, **settings})


def move(cluster: simzk.KafkaCluster, topic: str, path: str) -> ErrorCode:
    """Ask for a directory for the first partition of a topic."""
    named = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[0])
    request = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=path, topics=[named])]
    )
    response = MemoryClient(cluster, 1).call(request, 0, AlterReplicaLogDirsResponse)
    return ErrorCode(response.results[0].partitions[0].error_code)


def places(cluster: simzk.KafkaCluster, topic: str = "orders") -> list[Place]:
    """Return where the first partition of a topic is, as a client is told."""
    response = MemoryClient(cluster, 1).call(DescribeLogDirsRequest(topics=None), 0, DescribeLogDirsResponse)
    return [
        Place(found.log_dir, one.partition_size, one.offset_lag, one.is_future_key)
        for found in response.results
        for named in found.topics
        if named.name == topic
        for one in named.partitions
    ]


def create(cluster: simzk.KafkaCluster, topic: str = "orders") -> None:
    """Create a topic of one partition."""
    cluster.create_topic(topic, assignment={0: [1]})
    cluster.run_for(1)


def fill(cluster: simzk.KafkaCluster, batches: int) -> int:
    """Produce batches to `orders`; return the size of all."""
    data = encode_batch([Record(None, b"x" * 1000)])
    for _ in range(batches):
        part = ProduceRequest.PartitionProduceData(index=0, records=data)
        topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[part])
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
        response = MemoryClient(cluster, 1).call(request, 8, ProduceResponse)
        assert response.responses[0].partition_responses[0].error_code == 0
    return batches * len(data)


def throttle(cluster: simzk.KafkaCluster, rate: int) -> None:
    """Set how many bytes a second the broker may copy."""
    cluster.alter_config("brokers/1", {RATE_KEY: str(rate)})
    cluster.run_for(1)


# -- logs that do not exist yet


@pytest.mark.parametrize(("version", "code"), [("1.0", "REPLICA_NOT_AVAILABLE"), ("3.9", "UNKNOWN_TOPIC_OR_PARTITION")])
def test_a_log_is_created_where_it_was_wanted(version: str, code: str) -> None:
    with cluster_of(version) as cluster:
        assert [move(cluster, topic, "/b").name for topic in ("one", "two")] == [code] * 2
        for topic in ("one", "two", "three"):
            create(cluster, topic)
        assert [[one.path for one in places(cluster, topic)] for topic in ("one", "two", "three")] == [
            ["/b"],
            ["/b"],
            ["/a"],
        ]


def test_a_process_that_starts_remembers_no_directory() -> None:
    with cluster_of() as cluster:
        move(cluster, "orders", "/b")
        cluster.shutdown(1)
        cluster.run_for(5)
        cluster.restart(1)
        cluster.run_for(10)
        create(cluster)
        assert [one.path for one in places(cluster)] == ["/a"]


def test_a_log_is_offline_where_its_directory_has_failed() -> None:
    """LogManager.getOrCreateLog creates it nowhere else."""
    with cluster_of() as cluster:
        move(cluster, "orders", "/b")
        cluster.fail_log_dir(1, 1)
        create(cluster)
        assert TopicPartition("orders", 0) in cluster.brokers[1].log_dirs.offline
        assert move(cluster, "orders", "/a") == ErrorCode.KAFKA_STORAGE_ERROR
        cluster.brokers[1].log_dirs.check()


@pytest.mark.parametrize("version", ["2.1", "2.2", "3.9"])
def test_a_name_that_is_too_long_for_a_copy(version: str) -> None:
    with cluster_of(version) as cluster:
        codes = {size: move(cluster, "n" * size, "/a") for size in (213, 214, 249)}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == "3.9" else ErrorCode.REPLICA_NOT_AVAILABLE
        refused = ErrorCode.INVALID_TOPIC_EXCEPTION if version != "2.1" else unknown
        assert codes == {213: unknown, 214: refused, 249: refused}
        assert move(cluster, "n" * 249, "/c") == (refused if version != "2.1" else ErrorCode.LOG_DIR_NOT_FOUND)


# -- moves


def test_a_move_without_a_limit_is_over_at_once() -> None:
    with cluster_of() as cluster:
        create(cluster)
        size = fill(cluster, 50)
        assert places(cluster) == [Place("/a", size, 0, False)]
        assert move(cluster, "orders", "/b") == ErrorCode.NONE
        assert places(cluster) == [Place("/b", size, 0, False)]


def test_a_throttled_move_copies_a_part_whenever_its_rate_allows() -> None:
    with cluster_of() as cluster:
        create(cluster)
        size = fill(cluster, 50)
        throttle(cluster, 5000)
        began_us = cluster.scheduler.now_us
        assert move(cluster, "orders", "/b") == ErrorCode.NONE
        seen: list[tuple[list[Place], int]] = []
        while not seen or len(seen[-1][0]) == 2:
            now = places(cluster)
            if not seen or now != seen[-1][0]:
                seen.append((now, round((cluster.scheduler.now_us - began_us) / 1_000_000)))
            cluster.run_for(0.1)
        part = size // 50 * 18  # as many batches as fit into replica.fetch.max.bytes
        assert seen == [
            ([Place("/a", size, 0, False), Place("/b", part, 32, True)], 0),
            ([Place("/a", size, 0, False), Place("/b", 2 * part, 14, True)], 4),
            ([Place("/b", size, 0, False)], 8),
        ]


def test_a_move_is_cancelled_and_changes_its_target() -> None:
    with cluster_of(**{"log.dirs": "/a,/b,/c"}) as cluster:
        create(cluster)
        size = fill(cluster, 50)
        throttle(cluster, 1)
        dirs = cluster.brokers[1].log_dirs
        for path, copies in (("/b", ["/b"]), ("/c", []), ("/c", []), ("/a", [])):
            assert move(cluster, "orders", path) == ErrorCode.NONE
            dirs.check()
            if path == "/b":
                assert [one.path for one in places(cluster) if one.is_copy] == copies
            if path == "/c":  # nothing of the new copy has the time to be copied
                assert [(one.path, one.size) for one in places(cluster) if one.is_copy] == [("/c", 0)]
        cluster.run_for(60)
        assert places(cluster) == [Place("/a", size, 0, False)]


def test_a_process_that_starts_goes_on_with_a_move() -> None:
    with cluster_of() as cluster:
        create(cluster)
        size = fill(cluster, 50)
        throttle(cluster, 5000)
        move(cluster, "orders", "/b")
        cluster.kill(1)
        cluster.run_for(10)
        cluster.restart(1)
        cluster.run_for(10)
        cluster.run_for(10)
        assert places(cluster) == [Place("/b", size, 0, False)]
        cluster.brokers[1].log_dirs.check()


def test_a_topic_that_is_deleted_during_a_move_leaves_nothing() -> None:
    with cluster_of(**{"delete.topic.enable": "true"}) as cluster:
        create(cluster)
        fill(cluster, 50)
        throttle(cluster, 1)
        move(cluster, "orders", "/b")
        cluster.delete_topic("orders")
        cluster.run_for(5)
        dirs = cluster.brokers[1].log_dirs
        assert not dirs.futures
        dirs.check()
        cluster.run_for(60)


def test_after_a_failure_no_move_begins() -> None:
    with cluster_of(**{"log.dirs": "/a,/b,/c"}) as cluster:
        create(cluster)
        fill(cluster, 50)
        throttle(cluster, 1)
        move(cluster, "orders", "/b")
        cluster.fail_log_dir(1, 1)
        cluster.run_for(1)
        assert [one.path for one in places(cluster)] == ["/a"]  # the copy went with its directory
        assert move(cluster, "orders", "/c") == ErrorCode.KAFKA_STORAGE_ERROR
        assert move(cluster, "orders", "/a") == ErrorCode.NONE
        cluster.brokers[1].log_dirs.check()


def test_up_to_1_0_no_log_is_moved() -> None:
    with cluster_of("1.0") as cluster:
        create(cluster)
        assert move(cluster, "orders", "/b") == ErrorCode.NONE
        assert [one.path for one in places(cluster)] == ["/a"]


# -- settings


@pytest.mark.parametrize(
    ("settings", "paths"),
    [
        ({"log.dir": "/x"}, ["/x"]),
        ({"log.dir": "/x,/y"}, ["/x", "/y"]),
        ({"log.dir": "/x", "log.dirs": " /y , /z,"}, ["/y", "/z"]),
    ],
)
def test_the_settings_of_directories(settings: dict[str, str], paths: list[str]) -> None:
    """KafkaConfig.logDirs reads `log.dir` without `log.dirs`."""
    with simzk.KafkaCluster("3.9", 1, config=dict(settings)) as cluster:
        response = MemoryClient(cluster, 1).call(DescribeLogDirsRequest(topics=None), 0, DescribeLogDirsResponse)
        assert [one.log_dir for one in response.results] == paths
