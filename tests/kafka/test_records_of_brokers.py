"""Records that a broker appends itself, as coordinators do: replicated, acknowledged, read by the next leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.log.record_batches import Record, decode_records, encode_records
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import AppendResponse
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.clusters import FOR_EVER, topic

if TYPE_CHECKING:
    from simzk.kafka.broker.broker import Broker

OFFSETS = TopicPartition("__consumer_offsets", 0)


def stored_records(broker: Broker) -> list[Record]:
    """Return the records in the log of a broker; none if it has none."""
    log = broker.log_of(OFFSETS)
    payloads = [] if log is None else [batch.payload for batch in log.batches]
    return [record for data in payloads if data is not None for record in decode_records(data)]


@pytest.mark.parametrize(("line", "magic"), [("3.9", 2), ("0.11", 2), ("0.10.2", 1), ("0.9", 0)])
def test_the_next_leader_reads_what_was_acknowledged(line: str, magic: int) -> None:
    with KafkaCluster(line, 3, config=FOR_EVER) as cluster:
        topic(cluster, OFFSETS.topic, {0: [1, 2, 3]})
        leader, answers = cluster.brokers[1], list[AppendResponse]()
        for key in (b"a", b"b"):
            data = encode_records([Record(key, b"1", timestamp_ms=5), Record(key, b"2", timestamp_ms=6)], magic)
            leader.producing.append_as_broker(OFFSETS, data, 5000, answers.append)
        cluster.run_for(1)
        assert answers == [AppendResponse(ErrorCode.NONE, 0), AppendResponse(ErrorCode.NONE, 2)]
        written = stored_records(leader)
        assert [(one.offset, one.key, one.value) for one in written] == [
            *((0, b"a", b"1"), (1, b"a", b"2"), (2, b"b", b"1"), (3, b"b", b"2"))
        ]
        assert cluster.record_ledger.acknowledged == 4
        logs = [broker.log_of(OFFSETS) for broker in cluster.brokers.values()]
        payloads = [[batch.payload for batch in log.batches] for log in logs if log is not None]
        assert all(one is other for same in zip(*payloads, strict=True) for one in same for other in same)
        assert [record for data in payloads[2] if data is not None for record in decode_records(data)] == written
        cluster.kill(1)
        cluster.run_for(60)
        following = cluster.brokers[cluster.state(*OFFSETS).leader]
        assert following.id != 1
        assert stored_records(following) == written
        cluster.check()


def test_a_follower_rejects_them() -> None:
    with KafkaCluster("3.9", 2) as cluster:
        topic(cluster, OFFSETS.topic, {0: [1, 2]})
        answers: list[AppendResponse] = []
        data = encode_records([Record(b"k", b"v")], 2)
        cluster.brokers[2].producing.append_as_broker(OFFSETS, data, 5000, answers.append)
        cluster.run_for(1)
        assert answers == [AppendResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert stored_records(cluster.brokers[2]) == []
