"""Answers of simulated brokers while brokers die, stop and come back, compared with those of real brokers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import ProduceRequest, ProduceResponse
from simzk.kafka.releases.settings import is_setting
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests import recorded_groups, recorded_records
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded import RELEASES
from tests.kafka.client_requests.recorded_admin import LAGS, PROPERTIES
from tests.kafka.client_requests.recorded_failures import (
    EARLIER_DELETIONS,
    FIRST_STEP,
    OFFSETS,
    TRANSACTIONAL,
    Story,
    of_release,
)

if TYPE_CHECKING:
    from tests.kafka.client_requests.recorded import Exchange

TRANSACTIONAL_LEADER = 3
LAST_OF_FIRST_HALF = 2
"""Offset of the last record that the first half without transactions leaves in that partition."""
CHANCE_IN_TIME = (
    "a follower that fetches with a new leader epoch before its leader has heard of it, or while it waits in a long "
    "poll, fetches again after up to a second: acks=all and the high watermark wait for it. Real brokers race as well"
)
WATCHED_BRIEFLY = "the recording stopped watching when some partitions had no leader yet"
ISR_UNTOLD = (
    "0.8.2 tells no broker that an ISR has grown: the recorded election began before all ISRs were whole, and did not "
    "move all leaders within 25 s"
)
NEW_MEMBER = "0.8.2 had sent one UpdateMetadata less to the broker that came back"
QUICK_FOLLOWERS = "2.4.1"
"""In this recording, and in the simulation, the followers come in time."""
ALLOWED = (
    (
        tuple(release for release in RELEASES if release != QUICK_FOLLOWERS),
        r"down: (list-offsets|fetch|produce)|(elected|stopped): produce",
        "ListOffsets|Fetch|Produce",
        CHANCE_IN_TIME,
    ),
    (("2.0.1", "2.8.2", "3.4.1", "3.9.1"), "(elected|stopped): describe", "DescribeLogDirs", CHANCE_IN_TIME),
    (
        ("0.10.2.2", "0.11.0.3", "1.1.1", "3.4.1"),
        "topic deleted: asked of all",
        "ListOffsets",
        "the recorded broker had not yet stopped its replica",
    ),
    (
        ("0.10.2.2",),
        "down: describe",
        "DescribeGroups",
        "the simulated coordinator has read its log after the last update that names the topic to be deleted",
    ),
    (("0.8.2.2",), "watch back", "", NEW_MEMBER),
    (("0.8.2.2",), "elected: .*|watch preferred|controller killed: metadata", ".*", ISR_UNTOLD),
    (("0.8.2.2", "0.9.0.1", "2.4.1"), "watch controller killed", "", WATCHED_BRIEFLY),
    (("2.4.1",), "controller killed: (metadata|list-offsets)", ".*", WATCHED_BRIEFLY),
)
"""Steps and APIs that may differ, with the releases and the reason."""


def cluster_of(release: str) -> simzk.KafkaCluster:
    """Return three brokers with the topics, settings and coordinators of the recorded cluster."""
    version = kafka_version(release)
    number = version.number
    given = PROPERTIES | ({"replica.lag.time.max.ms": LAGS[release]} if release in LAGS else {})
    racks = None if number < (0, 10) else {broker: f"rack{broker}" for broker in (1, 2, 3)}
    config = {key: value for key, value in given.items() if is_setting(key, version)}
    directories = {3: {"log.dirs": "/kafka/b3,/kafka/b3-second"}} if number >= (1, 0) else None
    cluster = simzk.KafkaCluster(release, 3, racks, config=config, broker_config=directories, boot=False)
    for broker in cluster.brokers:  # broker 1 is the controller
        cluster.restart(broker)
        cluster.run_until(lambda: cluster.controller == 1)
    cluster.run_until_quiet()
    for name, (assignment, settings) in recorded_records.TOPICS.items():
        cluster.create_topic(name, assignment=dict(enumerate(assignment)), config=settings)
    if number >= (0, 11):
        cluster.create_topic("cfg", assignment={0: [1]})
    if release in EARLIER_DELETIONS:
        _leave_a_deletion(cluster)
    cluster.create_topic(OFFSETS, assignment=_offsets_of(release))
    cluster.run_until_quiet()
    return cluster


def _leave_a_deletion(cluster: simzk.KafkaCluster) -> None:
    """Delete a topic that cannot be deleted, as the first half did."""
    cluster.create_topic("unfinished", assignment={0: [1, 9]})
    cluster.run_for(1)
    cluster.delete_topic("unfinished")
    cluster.run_for(1)


def _offsets_of(release: str) -> dict[int, list[int]]:
    """Return the recorded replicas of the coordinators' topic, the leader first."""
    shown = next(one for one in of_release(release) if one["step"] == FIRST_STEP)["response"]
    (topic,) = (topic for topic in shown["Topics"] if topic["Name"] == OFFSETS)
    return {one["PartitionIndex"]: _leader_first(release, one) for one in topic["Partitions"]}


def _leader_first(release: str, partition: Exchange) -> list[int]:
    """Return replicas in the order of the assignment; before 0.11 metadata have another one."""
    leader, replicas = partition["LeaderId"], partition["ReplicaNodes"]
    if kafka_version(release).number >= (0, 11):
        return sorted(replicas, key=lambda broker: broker != leader)
    return [leader, *sorted(set(replicas) - {leader}, key=lambda broker: (leader - broker) % len(replicas))]


def _play_first_half(release: str, cluster: simzk.KafkaCluster) -> None:
    """Let the cluster have the records and groups that the recorded one had."""

    def connect(broker: int) -> MemoryClient:
        return MemoryClient(cluster, broker)

    def topic_id(topic: str) -> str:
        return cluster.brokers[1].metadata.topic_ids.get(topic, recorded_records.NO_ID)

    lines = recorded_records.of_release(release)
    replay = recorded_records.Replay(connect, topic_id)
    for exchange in lines:
        replay.play(exchange)
        cluster.run_for(0.002)
    recorded_groups.Replay(connect, cluster.scheduler).play(recorded_groups.of_release(release))
    if release in EARLIER_DELETIONS and kafka_version(release).number >= (0, 11):
        cluster.create_topic("__transaction_state", assignment={number: [1, 2, 3] for number in range(3)})
        cluster.run_until_quiet()
    _fill(release, connect(TRANSACTIONAL_LEADER))


def _fill(release: str, client: MemoryClient) -> None:
    """Append as many records to the partition of the transactions as these had appended."""
    topic, number = TRANSACTIONAL
    (shown,) = (
        one
        for line in of_release(release)
        if (line["step"], line.get("broker"), line.get("api"))
        == ("before: list-offsets", TRANSACTIONAL_LEADER, "ListOffsets")
        for one in line["response"]["Topics"][0]["Partitions"]
        if one["PartitionIndex"] == number
    )
    end = shown["Offset"] if "Offset" in shown else shown["OldStyleOffsets"][0]
    produced = [one for one in recorded_records.of_release(release) if one["step"] == "produce: acks=1"][-1]
    data = bytes.fromhex(produced["request"]["TopicData"][0]["PartitionData"][0]["Records"])
    partition = ProduceRequest.PartitionProduceData(index=number, records=data)
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
    )
    at = LAST_OF_FIRST_HALF
    while at < end - 1:
        response = client.call(request, produced["version"], ProduceResponse)
        answered = response.responses[0].partition_responses[0]
        assert answered.error_code == ErrorCode.NONE
        at = answered.base_offset
    assert at == end - 1


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", RELEASES)
def test_answers_are_those_of_real_brokers(release: str) -> None:
    lines = of_release(release)
    assert len(lines) > 300
    with cluster_of(release) as cluster:
        _play_first_half(release, cluster)
        different = Story(cluster, lambda broker: MemoryClient(cluster, broker)).play(lines)
        cluster.check()
    used = set()
    unexpected = []
    for line, text in different:
        row = _allowance(line)
        used.add(row)
        if row is None:
            unexpected.append(text)
    assert unexpected == []
    assert used >= {number for number, row in enumerate(ALLOWED) if release in row[0]}, "an allowance is not needed"


def _allowance(line: Exchange) -> int | None:
    """Return the row of `ALLOWED` for a line, None if there is none."""
    for number, (releases, step, api, _) in enumerate(ALLOWED):
        if line["release"] in releases and re.fullmatch(step, line["step"]) and re.fullmatch(api, line.get("api", "")):
            return number
    return None


def test_every_release_is_compared() -> None:
    assert all(len(of_release(release)) > 300 for release in RELEASES)
