"""Requests for topics that a release rejects: numbers, names, configuration keys (AdminUtils, LogConfig)."""

from __future__ import annotations

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.zookeeper_mode import paths

RELEASES = ("0.8.2", "0.9", "1.0", "2.4", "3.9")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("partitions", "factor", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-3, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
        (-1, -1, ErrorCode.NONE),
    ],
)
def test_only_minus_one_stands_for_the_default(release: str, partitions: int, factor: int, error: ErrorCode) -> None:
    with KafkaCluster(release, brokers=3) as c:
        answer = c.create_topic("t", partitions, factor)
        assert c.run_until_quiet(60)
        assert answer.result().error == error
        assert (c.tree.get(paths.topic("t")) is not None) == (error == ErrorCode.NONE)


@pytest.mark.parametrize(
    ("release", "key", "known"),
    [
        ("0.8.1", "min.insync.replicas", False),
        ("0.8.2", "min.insync.replicas", True),
        ("2.2", "max.compaction.lag.ms", False),
        ("2.3", "max.compaction.lag.ms", True),
        ("3.9", "a", False),
        ("3.9", "segment.ms", True),
    ],
)
def test_a_key_that_the_release_does_not_know_is_refused(release: str, key: str, known: bool) -> None:
    with KafkaCluster(release, brokers=1) as c:
        made = c.create_topic("t", 1, 1, config={key: "1"})
        assert c.run_until_quiet(60)
        assert made.result().error == (ErrorCode.NONE if known else ErrorCode.INVALID_CONFIG)
        c.create_topic("u", 1, 1)
        assert c.run_until_quiet(60)
        altered = c.alter_config("topics/u", {key: "1"})
        assert c.run_until_quiet(60)
        assert altered.result().error == (ErrorCode.NONE if known else ErrorCode.INVALID_CONFIG)


@pytest.mark.parametrize(("release", "longest"), [("0.8.2", 255), ("0.9", 255), ("0.10.0", 249), ("3.9", 249)])
def test_how_long_a_name_may_be(release: str, longest: int) -> None:
    with KafkaCluster(release, brokers=1) as c:
        c.create_topic("x" * longest, 1, 1)
        with pytest.raises(ConfigError, match="no name for a topic"):
            c.create_topic("x" * (longest + 1), 1, 1)
