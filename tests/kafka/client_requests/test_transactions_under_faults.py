"""Random transactions while brokers die and come back: a consumer reads exactly what was committed, in its order."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import simzk
from simzk.kafka.log.record_batches import (
    BatchProducer,
    Record,
    decode_entry,
    encode_batch,
    entry_header,
    split_entries,
)
from simzk.kafka.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.clusters import FOR_EVER

pytestmark = pytest.mark.slow

ORDERS = TopicPartition("orders", 0)
HEALS_S = 60.0
"""Virtual time after which a partition has a leader again, and a started broker is in the ISR."""
BROKERS = (1, 2, 3)


class Sent(NamedTuple):
    """An acknowledged record; without a transaction it has no producer, in an open one no outcome."""

    value: bytes
    producer_id: int | None
    is_commit: bool | None


class Log:
    """One partition, and what was acknowledged of it."""

    def __init__(self, cluster: simzk.KafkaCluster) -> None:
        self.cluster = cluster
        self.sent: list[Sent] = []
        self.sequences: dict[int, int] = {}

    @property
    def leader(self) -> MemoryClient:
        """A client of the leader."""
        return MemoryClient(self.cluster, self.cluster.state(*ORDERS).leader)

    def send(self, producer_id: int | None) -> None:
        """Produce a record, in the transaction of a producer or without one."""
        value = b"%d" % len(self.sent)
        producer = BatchProducer()
        if producer_id is not None:
            producer = BatchProducer(producer_id, 0, self.sequences.get(producer_id, 0))
            self.sequences[producer_id] = producer.sequence + 1
        record = Record(None, value, timestamp_ms=5)
        data = encode_batch([record], producer=producer, is_transactional=producer_id is not None)
        part = ProduceRequest.PartitionProduceData(index=0, records=data)
        topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[part])
        request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=30_000, topic_data=[topic])
        (result,) = self.leader.call(request, 9, ProduceResponse).responses[0].partition_responses
        assert result.error_code == 0
        self.sent.append(Sent(value, producer_id, True if producer_id is None else None))

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """Write the marker of a transaction."""
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_result=is_commit,
            topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="orders", partition_indexes=[0])],
            coordinator_epoch=0,
        )
        response = self.leader.call(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        assert response.markers[0].topics[0].partitions[0].error_code == 0
        self.sent = [
            one._replace(is_commit=is_commit) if (one.producer_id, one.is_commit) == (producer_id, None) else one
            for one in self.sent
        ]

    def committed(self) -> list[bytes]:
        """Return the values that a consumer of committed transactions reads: those before the first open one."""
        first_open = next((at for at, one in enumerate(self.sent) if one.is_commit is None), len(self.sent))
        return [one.value for one in self.sent[:first_open] if one.is_commit]

    def read(self, max_bytes: int) -> list[bytes]:
        """Read as consumers do: skip the records of aborted transactions up to their markers (KafkaConsumer)."""
        values: list[bytes] = []
        aborted: set[int] = set()
        offset = 0
        while True:
            part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
            topic = FetchRequest.FetchTopic(topic="orders", partitions=[part])
            request = FetchRequest(max_bytes=1 << 20, isolation_level=1, topics=[topic])
            found = self.leader.call(request, 12, FetchResponse).responses[0].partitions[0]
            assert found.error_code == 0
            listed = sorted(found.aborted_transactions or (), key=lambda one: one.first_offset)
            data = bytes(found.records or b"")
            if not data:
                assert offset == found.last_stable_offset
                return values
            for entry in split_entries(data[: sum(_sizes(data))]):
                header = entry_header(entry)
                while listed and listed[0].first_offset <= header.base_offset:
                    aborted.add(listed.pop(0).producer_id)
                if header.is_control:
                    aborted.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborted):
                    values += [record.value or b"" for record in decode_entry(entry)]
                offset = header.base_offset + header.last_offset_delta + 1


def _sizes(data: bytes) -> list[int]:
    """Return the sizes of the whole batches at the beginning of some data."""
    found, at = [], 0
    while len(data) - at >= 12 and len(data) - at >= (size := int.from_bytes(data[at + 8 : at + 12], "big") + 12):
        found.append(size)
        at += size
    return found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from((None, 7, 8))),
        st.tuples(st.just("send"), st.sampled_from((7, 8))),
        st.tuples(st.sampled_from(("commit", "abort")), st.sampled_from((7, 8))),
        st.tuples(st.sampled_from(("kill", "power", "start")), st.sampled_from(BROKERS)),
    ),
    max_size=14,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from((80, 160, 4000)))
def test_a_consumer_reads_exactly_what_was_committed(steps: list[tuple[str, int | None]], max_bytes: int) -> None:
    config = FOR_EVER | {"transaction.partition.verification.enable": False}
    with simzk.KafkaCluster("3.9", 3, config=config) as cluster:
        cluster.create_topic("orders", assignment={0: list(BROKERS)})
        cluster.run_until_quiet()
        log, alive = Log(cluster), set(BROKERS)
        for step, who in steps:
            if step == "send":
                log.send(who)
            elif step in ("commit", "abort"):
                assert who is not None
                log.end(who, is_commit=step == "commit")
            elif who in alive and step != "start" and len(alive) > 1:
                assert who is not None
                (cluster.kill if step == "kill" else cluster.power_off)(who)
                alive.discard(who)
                cluster.run_for(HEALS_S)
            elif who is not None and who not in alive and step == "start":
                cluster.restart(who)
                alive.add(who)
                cluster.run_for(HEALS_S)
            assert log.read(max_bytes) == log.committed()
        cluster.run_for(HEALS_S)
        logs = [cluster.brokers[broker].replicas.replicas[ORDERS].log for broker in sorted(alive)]
        for one in logs:
            one.check()
        assert len({(one.end, one.last_stable_offset) for one in logs}) == 1
        cluster.check()
