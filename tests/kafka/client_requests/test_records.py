"""Producers and consumers in virtual time: waiting, sessions, followers, deletion, formats, failures."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

import simzk
from simzk.kafka.client_requests.records.produce import whole_entries
from simzk.kafka.log.record_batches import (
    GZIP,
    SNAPPY,
    BatchProducer,
    Record,
    decode_records,
    encode_batch,
    encode_marker,
    encode_messages,
    encode_records,
)
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.clusters import FOR_EVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ORDERS = TopicPartition("orders", 0)
PRODUCE, FETCH = 9, 12
"""Versions with the name of the topic, batches and sessions."""


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    racks = {1: "a", 2: "b", 3: "c"}
    config = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    with simzk.KafkaCluster("3.9", 3, racks, config=config) as made:
        made.create_topic("orders", assignment={0: [1, 2, 3], 1: [1, 2, 3]})
        made.run_until_quiet()
        yield made


def batch(*values: bytes, producer: BatchProducer | None = None, is_transactional: bool = False) -> bytes:
    """Return a batch of values without keys."""
    records = [Record(None, value, timestamp_ms=1000 + number) for number, value in enumerate(values)]
    return encode_batch(records, producer=producer or BatchProducer(), is_transactional=is_transactional)


def produce_request(data: bytes, partition: int = 0, acks: int = -1, timeout_ms: int = 3000) -> ProduceRequest:
    """Return a request for one partition of `orders`."""
    part = ProduceRequest.PartitionProduceData(index=partition, records=data)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[part])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def produce(
    client: MemoryClient, data: bytes, partition: int = 0, acks: int = -1, *, version: int = PRODUCE
) -> tuple[int, int]:
    """Produce to a partition of `orders`; return error and base offset."""
    response = client.call(produce_request(data, partition, acks), version, ProduceResponse)
    result = response.responses[0].partition_responses[0]
    return result.error_code, result.base_offset


def fetch_request(
    offsets: dict[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    rack: str = "",
    isolation: int = 0,
) -> FetchRequest:
    """Return a fetch of partitions of `orders`."""
    one = FetchRequest.FetchPartition
    partitions = [
        one(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20) for number, offset in offsets.items()
    ]
    topics = [FetchRequest.FetchTopic(topic="orders", partitions=partitions)] if partitions else []
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 24,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        rack_id=rack,
        isolation_level=isolation,
    )


def partitions(response: FetchResponse) -> dict[int, FetchResponse.PartitionData]:
    """Return the partitions of a response by number."""
    return {one.partition_index: one for topic in response.responses for one in topic.partitions}


def values(data: FetchResponse.PartitionData) -> list[bytes | None]:
    """Return the values of the fetched records."""
    return [record.value for record in decode_records(bytes(data.records or b""))]


def fetched(client: MemoryClient, request: FetchRequest) -> dict[int, FetchResponse.PartitionData]:
    """Send a fetch; return the partitions of its response."""
    return partitions(client.call(request, FETCH, FetchResponse))


# -- waiting


def test_a_fetch_waits_for_a_record_and_no_longer(cluster: simzk.KafkaCluster) -> None:
    consumer, producer = MemoryClient(cluster, 1), MemoryClient(cluster, 1)
    consumer.send_request(fetch_request({0: 0}, max_wait_ms=5000), FETCH)
    cluster.run_for(1)
    assert not consumer.frames
    assert produce(producer, batch(b"paid")) == (0, 0)
    began_us = cluster.scheduler.now_us
    assert consumer.frames or consumer.wait() is not None
    assert cluster.scheduler.now_us - began_us < 100_000
    api = cluster.brokers[1].client_api
    assert consumer.connection in api.connections


def test_a_fetch_is_answered_when_its_time_is_over(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    assert produce(client, batch(b"paid")) == (0, 0)
    began_us = cluster.scheduler.now_us
    found = fetched(client, fetch_request({0: 0, 1: 0}, max_wait_ms=700, min_bytes=1 << 20))
    assert cluster.scheduler.now_us - began_us == 700_000
    assert (values(found[0]), values(found[1])) == ([b"paid"], [])


def test_a_fetch_that_waits_is_answered_when_the_leader_changes(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    request = fetch_request({0: 0}, max_wait_ms=60_000)
    request.topics[0].partitions[0].current_leader_epoch = 0
    client.send_request(request, FETCH)
    cluster.reassign({(ORDERS.topic, ORDERS.partition): [2, 3]})
    frame = client.wait(30)
    assert frame is not None


def test_consumers_read_committed_records_only(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    for broker in (2, 3):
        cluster.pause(broker)
    client.send_request(produce_request(batch(b"paid"), timeout_ms=500), PRODUCE)
    frame = client.wait()
    assert frame is not None
    assert cluster.log(1, "orders", 0).log_end == 1
    found = fetched(client, fetch_request({0: 0}))[0]
    assert (found.error_code, found.high_watermark, values(found)) == (0, 0, [])


# -- sessions and followers


def test_a_session_names_only_what_changed(cluster: simzk.KafkaCluster) -> None:
    client, producer = MemoryClient(cluster, 1), MemoryClient(cluster, 1)
    first = client.call(fetch_request({0: 0, 1: 0}, session=(0, 0)), FETCH, FetchResponse)
    assert (first.session_id > 0, sorted(partitions(first))) == (True, [0, 1])
    session = first.session_id
    nothing = client.call(fetch_request({}, session=(session, 1)), FETCH, FetchResponse)
    assert partitions(nothing) == {}
    assert produce(producer, batch(b"paid"), 1) == (0, 0)
    changed = fetched(client, fetch_request({}, session=(session, 2)))
    assert {number: values(one) for number, one in changed.items()} == {1: [b"paid"]}
    moved = fetched(client, fetch_request({1: 1}, session=(session, 3)))
    assert moved == {}
    refused = client.call(fetch_request({}, session=(session, 3)), FETCH, FetchResponse)
    assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_client_with_an_epoch_that_the_leader_does_not_have_is_told_where_logs_differ(
    cluster: simzk.KafkaCluster,
) -> None:
    """Tell it also if its offset is in the log of the leader (Partition.readRecords)."""
    client = MemoryClient(cluster, 1)
    assert produce(client, batch(b"a", b"b")) == (0, 0)
    cluster.brokers[1].replicas.replicas[ORDERS].log.epochs.assign(5, 2)
    for last_epoch, diverging in ((0, (-1, -1)), (3, (0, 2))):
        request = fetch_request({0: 1})
        request.topics[0].partitions[0].last_fetched_epoch = last_epoch
        (found,) = fetched(client, request).values()
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == diverging
        assert values(found) == ([b"a", b"b"] if last_epoch == 0 else [])


def test_a_session_names_a_partition_that_is_added_again(cluster: simzk.KafkaCluster) -> None:
    """Name it although nothing of it has changed: the session has a new CachedPartition."""
    client = MemoryClient(cluster, 1)
    first = client.call(fetch_request({0: 0, 1: 0}, session=(0, 0)), FETCH, FetchResponse)
    removed = fetch_request({}, session=(first.session_id, 1))
    removed.forgotten_topics_data = [FetchRequest.ForgottenTopic(topic="orders", partitions=[1])]
    assert fetched(client, removed) == {}
    added = fetched(client, fetch_request({1: 0}, session=(first.session_id, 2)))
    assert {number: (one.error_code, one.high_watermark) for number, one in added.items()} == {1: (0, 0)}
    assert fetched(client, fetch_request({1: 0}, session=(first.session_id, 3))) == {}


def fetch_ids(
    client: MemoryClient, session: tuple[int, int], *ids: str, forgotten: Sequence[str] = (), version: int = 13
) -> tuple[dict[str, int], FetchResponse]:
    """Fetch the first partition of topics by their ids; return the errors by id, in order, and the response."""
    one, kind = FetchRequest.FetchPartition, FetchRequest.FetchTopic
    request = FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        max_bytes=1 << 20,
        topics=[
            kind(topic_id=topic, partitions=[one(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)])
            for topic in ids
        ],
        forgotten_topics_data=[FetchRequest.ForgottenTopic(topic_id=topic, partitions=[0]) for topic in forgotten],
    )
    response = client.call(request, version, FetchResponse)
    return {topic.topic_id: topic.partitions[0].error_code for topic in response.responses}, response


@pytest.mark.parametrize("version", ["3.1", "3.9"])
def test_a_session_tells_a_topic_from_one_of_the_same_name_before(version: str) -> None:
    with simzk.KafkaCluster(version, 1) as cluster:
        ids = []
        client = MemoryClient(cluster, 1)
        session = 0
        for number in range(2):
            cluster.create_topic("orders", assignment={0: [1]})
            cluster.run_until_quiet()
            ids.append(cluster.brokers[1].metadata.topic_ids["orders"])
            if number == 0:
                errors, response = fetch_ids(client, (0, 0), ids[0])
                session = response.session_id
                assert (errors, session > 0) == ({ids[0]: 0}, True)
                assert fetch_ids(client, (session, 1))[0] == {}
                cluster.delete_topic("orders")
                cluster.run_until_quiet()
                # The session remembers the name of the id.
                assert fetch_ids(client, (session, 2))[0] == {ids[0]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        old, new = ids
        assert fetch_ids(client, (session, 3))[0] == {old: ErrorCode.INCONSISTENT_TOPIC_ID}
        assert fetch_ids(client, (session, 4), new)[0] == {old: ErrorCode.INCONSISTENT_TOPIC_ID, new: 0}
        assert produce(client, batch(b"a"))[0] == 0
        errors, response = fetch_ids(client, (session, 5))
        assert errors == {old: ErrorCode.INCONSISTENT_TOPIC_ID, new: 0}
        assert values(response.responses[1].partitions[0]) == [b"a"]
        assert fetch_ids(client, (session, 6), forgotten=[old])[0] == {new: 0}
        assert fetch_ids(client, (0, -1), old)[0] == {old: ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_session_keeps_an_unknown_id_until_it_is_forgotten(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    known, unknown = cluster.brokers[1].metadata.topic_ids["orders"], "A" * 20 + "ZA"
    errors, response = fetch_ids(client, (0, 0), unknown, known)
    assert list(errors.items()) == [(known, 0), (unknown, ErrorCode.UNKNOWN_TOPIC_ID)]
    session = response.session_id
    assert fetch_ids(client, (session, 1))[0] == {unknown: ErrorCode.UNKNOWN_TOPIC_ID}
    assert fetch_ids(client, (session, 2), forgotten=[unknown])[0] == {}


def opened(client: MemoryClient, *numbers: int, session: int = 0) -> int:
    """Fetch some partitions with a new session; return its id, 0 without one."""
    request = fetch_request(dict.fromkeys(numbers, 0), session=(session, 0))
    return client.call(request, FETCH, FetchResponse).session_id


def goes_on(client: MemoryClient, session: int, epoch: int = 1) -> bool:
    return client.call(fetch_request({}, session=(session, epoch)), FETCH, FetchResponse).error_code == 0


@pytest.mark.parametrize(
    ("release", "slots", "sessions"), [("3.7", 2, 2), ("3.8", 16, 16), ("3.8", 7, 0), ("2.8", 0, 0)]
)
def test_there_are_as_many_sessions_as_slots(release: str, slots: int, sessions: int) -> None:
    with simzk.KafkaCluster(release, 1, config={"max.incremental.fetch.session.cache.slots": slots}) as cluster:
        cluster.create_topic("orders", assignment={0: [1], 1: [1]})
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1)
        ids = [opened(client, 0) for _ in range(slots + 1)]
        assert len(set(ids) - {0}) == sessions
        assert ids[-1] == 0


def test_a_new_session_replaces_a_stale_one_or_a_smaller_old_one() -> None:
    """FetchSessionCache.tryEvict; the same answers as those of real 2.8.2 and 3.9.1."""
    with simzk.KafkaCluster("3.7", 1, config={"max.incremental.fetch.session.cache.slots": 2}) as cluster:
        cluster.create_topic("orders", assignment={0: [1], 1: [1], 2: [1]})
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1)
        small, large = opened(client, 0), opened(client, 0, 1, 2)
        assert opened(client, 0, 1) == 0  # the others are young
        cluster.run_for(121)
        assert goes_on(client, small)
        assert goes_on(client, large)
        assert opened(client, 0) == 0  # not larger than the smallest
        middle = opened(client, 0, 1)
        assert middle > 0
        assert not goes_on(client, small, 2)
        assert opened(client, 0, 1, 2) == 0  # young, or as large
        cluster.run_for(121)
        assert goes_on(client, large, 2)
        assert opened(client, 0) > 0
        assert not goes_on(client, middle)


def test_a_follower_replaces_the_session_of_a_client() -> None:
    with simzk.KafkaCluster("3.7", 1, config={"max.incremental.fetch.session.cache.slots": 1}) as cluster:
        cluster.create_topic("orders", assignment={0: [1], 1: [1]})
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1)
        of_client = opened(client, 0, 1)
        request = fetch_request({0: 0}, session=(0, 0))
        request.replica_id = 7
        of_follower = client.call(request, FETCH, FetchResponse).session_id
        assert of_follower > 0
        assert not goes_on(client, of_client)
        cluster.run_for(100)
        assert opened(client, 0, 1) == 0


def test_a_session_that_went_on_meanwhile_rejects_the_request_that_waits(cluster: simzk.KafkaCluster) -> None:
    waiting, other = MemoryClient(cluster, 1), MemoryClient(cluster, 1)
    session = opened(waiting, 0)
    request = fetch_request({}, session=(session, 1))
    request.max_wait_ms, request.min_bytes = 1000, 1
    waiting.connection.receive(encode_request(request, FETCH, correlation_id=1, client_id="test"))
    assert goes_on(other, session, 2)
    frame = waiting.wait(5)
    assert frame is not None
    response = decode_response(FetchResponse, FETCH, frame)[2]
    assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session)


@pytest.mark.parametrize(("first", "later"), [(12, 13), (13, 12)])
def test_a_session_does_not_change_between_names_and_ids(cluster: simzk.KafkaCluster, first: int, later: int) -> None:
    client = MemoryClient(cluster, 1)
    request = fetch_request({0: 0}, session=(0, 0))
    request.topics[0].topic_id = cluster.brokers[1].metadata.topic_ids["orders"]
    session = client.call(request, first, FetchResponse).session_id
    assert session > 0
    other = client.call(fetch_request({}, session=(session, 1)), later, FetchResponse)
    assert (other.error_code, other.session_id) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0)
    assert client.call(fetch_request({}, session=(session, 1)), first, FetchResponse).error_code == 0


@pytest.mark.parametrize(("version", "api", "waits"), [("0.9", 1, False), ("0.10.1", 3, True), ("3.9", 12, True)])
def test_a_partition_that_nobody_knows_hastens_no_fetch(version: str, api: int, waits: bool) -> None:
    with simzk.KafkaCluster(version, 1) as cluster:
        cluster.create_topic("orders", assignment={0: [1]})
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1)
        begun_us = cluster.scheduler.now_us
        response = client.call(fetch_request({7: 0, 0: 0}, max_wait_ms=1000), api, FetchResponse)
        numbers = [one.partition_index for topic in response.responses for one in topic.partitions]
        assert (cluster.scheduler.now_us - begun_us >= 1_000_000) == waits
        assert sorted(numbers) == [0, 7]
        if waits:
            assert numbers == [0, 7]
        begun_us = cluster.scheduler.now_us
        client.call(fetch_request({7: 0}, max_wait_ms=1000), api, FetchResponse)
        assert cluster.scheduler.now_us - begun_us < 100_000


def test_a_consumer_in_the_rack_of_a_follower_reads_there(cluster: simzk.KafkaCluster) -> None:
    leader = MemoryClient(cluster, 1)
    assert produce(leader, batch(b"paid")) == (0, 0)
    cluster.run_for(2)
    (told,) = fetched(leader, fetch_request({0: 0}, rack="c")).values()
    assert (told.preferred_read_replica, values(told)) == (3, [])
    (read,) = fetched(MemoryClient(cluster, 3), fetch_request({0: 0}, rack="c")).values()
    assert (read.error_code, values(read)) == (0, [b"paid"])
    (own,) = fetched(leader, fetch_request({0: 0}, rack="a")).values()
    assert (own.preferred_read_replica, values(own)) == (-1, [b"paid"])


# -- deletion


def delete(client: MemoryClient, offset: int, timeout_ms: int = 5000) -> tuple[int, int]:
    """Delete records of `orders-0`; return error and low watermark."""
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="orders", partitions=[part])
    response = client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms), 2, DeleteRecordsResponse)
    result = response.topics[0].partitions[0]
    return result.error_code, result.low_watermark


def test_a_batch_that_was_deleted_in_part_is_acknowledged_again(cluster: simzk.KafkaCluster) -> None:
    """The log start offset may lie in a batch that an idempotent producer sends again (KIP-107)."""
    client = MemoryClient(cluster, 1)
    request = InitProducerIdRequest(transactional_id=None)
    assert client.call(request, 4, InitProducerIdResponse).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.run_for(1)  # the block of ids arrives
    made = client.call(request, 4, InitProducerIdResponse)
    data = batch(b"0", b"1", b"2", producer=BatchProducer(made.producer_id, 0, 0))
    assert produce(client, data) == (0, 0)
    assert delete(client, 1) == (0, 1)
    assert produce(client, data) == (0, 0)
    assert cluster.record_ledger.acknowledged == 3
    cluster.check()


def test_deleted_records_are_deleted_on_all_replicas(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    for number in range(4):
        assert produce(client, batch(b"%d" % number)) == (0, number)
    assert delete(client, 3) == (0, 3)
    logs = [broker.log_of(ORDERS) for broker in cluster.brokers.values()]
    assert [(log.start, len(log.batches)) for log in logs if log is not None] == [(3, 1)] * 3
    cluster.kill(1)
    cluster.run_until(lambda: cluster.state("orders", 0).leader in (2, 3))
    cluster.run_for(1)
    next_leader = MemoryClient(cluster, cluster.state("orders", 0).leader)
    assert fetched(next_leader, fetch_request({0: 0}))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values(fetched(next_leader, fetch_request({0: 3}))[0]) == [b"3"]
    cluster.check()


def test_a_deletion_waits_for_live_replicas(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    assert produce(client, batch(b"paid")) == (0, 0)
    cluster.run_for(1)
    cluster.pause(3)
    assert delete(client, 1, timeout_ms=1000) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    cluster.resume(3)
    assert delete(client, 1) == (0, 1)


# -- transactions in the log


@pytest.mark.parametrize("is_commit", [True, False])
def test_committed_readers_wait_for_the_end_of_a_transaction(is_commit: bool) -> None:
    with simzk.KafkaCluster("3.4", 2) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1)
        request = produce_request(batch(b"in", producer=BatchProducer(7, 0, 0), is_transactional=True))
        request.transactional_id = "t"
        response = client.call(request, PRODUCE, ProduceResponse)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert produce(client, batch(b"out")) == (0, 1)
        before = fetched(client, fetch_request({0: 0}, isolation=1))[0]
        assert (before.high_watermark, before.last_stable_offset, values(before)) == (2, 0, [])
        assert values(fetched(client, fetch_request({0: 0}))[0]) == [b"in", b"out"]
        answers: list[object] = []
        marker = encode_marker(BatchProducer(7, 0), is_commit=is_commit, coordinator_epoch=0, timestamp_ms=5)
        cluster.brokers[1].producing.append_as_broker(ORDERS, marker, 5000, answers.append)
        cluster.run_for(1)
        assert len(answers) == 1
        after = fetched(client, fetch_request({0: 0}, isolation=1))[0]
        assert (after.last_stable_offset, values(after)[:2]) == (3, [b"in", b"out"])
        aborted = [(one.producer_id, one.first_offset) for one in after.aborted_transactions or ()]
        assert aborted == ([] if is_commit else [(7, 0)])


# -- producers


def test_a_batch_that_is_sent_again_after_a_failure_is_not_doubled(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    assert client.call(request, 4, InitProducerIdResponse).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.run_for(1)  # the block of ids arrives
    made = client.call(request, 4, InitProducerIdResponse)
    assert (made.error_code, made.producer_epoch) == (0, 0)
    data = batch(b"paid", producer=BatchProducer(made.producer_id, 0, 0))
    assert produce(client, data) == (0, 0)
    cluster.kill(1)
    cluster.run_until(lambda: cluster.state("orders", 0).leader in (2, 3))
    cluster.run_for(1)
    again = MemoryClient(cluster, cluster.state("orders", 0).leader)
    assert produce(again, data) == (0, 0)
    gap = batch(b"lost", producer=BatchProducer(made.producer_id, 0, 5))
    assert produce(again, gap) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    cluster.run_for(1)
    assert values(fetched(again, fetch_request({0: 0}))[0]) == [b"paid"]
    assert cluster.record_ledger.acknowledged == 1
    cluster.check()


def test_a_replica_without_a_leader_names_none() -> None:
    """It names the leader that it has accepted, not that of the metadata cache (KafkaApis.getCurrentLeader)."""
    with simzk.KafkaCluster("3.9", 3) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.run_until_quiet()
        for broker in (2, 1):
            cluster.kill(broker)
            cluster.run_for(30)
        cluster.restart(2)
        cluster.run_for(10)
        state = cluster.brokers[2].metadata.partitions[ORDERS]
        assert (state.leader, state.isr, state.leader_epoch > 0) == (-1, (1,), True)
        for broker, epoch in ((2, -1), (3, state.leader_epoch)):  # broker 3 has no replica
            answered = MemoryClient(cluster, broker).call(produce_request(batch(b"a")), 11, ProduceResponse)
            result = answered.responses[0].partition_responses[0]
            assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (-1, epoch)


def test_append_time_replaces_the_time_of_the_producer(cluster: simzk.KafkaCluster) -> None:
    cluster.alter_config("topics/orders", {"message.timestamp.type": "LogAppendTime"})
    cluster.run_for(1)
    client = MemoryClient(cluster, 1)
    response = client.call(produce_request(batch(b"paid")), PRODUCE, ProduceResponse)
    appended_ms = response.responses[0].partition_responses[0].log_append_time_ms
    assert appended_ms > 1_000_000
    record = decode_records(bytes(fetched(client, fetch_request({0: 0}))[0].records or b""))[0]
    assert record.timestamp_ms == appended_ms


def test_records_of_the_simulation_have_empty_values(cluster: simzk.KafkaCluster) -> None:
    cluster.produce("orders", 0, 3, acks="all")
    cluster.run_for(1)
    client = MemoryClient(cluster, 1)
    assert values(fetched(client, fetch_request({0: 0}))[0]) == [b"", b"", b""]
    assert produce(client, batch(b"paid")) == (0, 3)


# -- failures

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["produce", "produce", "produce", "kill", "restart", "pause", "resume", "wait"]),
        st.integers(1, 3),
    ),
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(STEPS, st.sampled_from(["3.9", "2.4", "0.11"]))
def test_what_consumers_read_is_what_was_acknowledged(steps: list[tuple[str, int]], version: str) -> None:
    """Under failures of processes, which lose no page cache, no acknowledged record is lost, changed or doubled."""
    acknowledged: dict[int, bytes] = {}
    with simzk.KafkaCluster(version, 3, config=FOR_EVER | {"min.insync.replicas": 2}) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        cluster.run_until_quiet()
        for number, (what, broker) in enumerate(steps):
            running = cluster.brokers[broker]
            if what == "produce":
                leader = cluster.brokers[max(cluster.state("orders", 0).leader, 1)]
                if leader.accepts_clients and not leader.paused:
                    value = b"%d" % number
                    with suppress(AssertionError):  # the broker closes the connection, or a wait is too long
                        error, offset = produce(MemoryClient(cluster, leader.id), batch(value))
                        if not error:
                            acknowledged[offset] = value
            elif what == "wait":
                cluster.run_for(broker * 10)
            elif what == "kill" and running.alive:
                cluster.kill(broker)
            elif what == "restart" and not running.alive:
                cluster.restart(broker)
            elif what == "pause" and running.alive and not running.paused:
                cluster.pause(broker)
            elif what == "resume" and running.alive and running.paused:
                cluster.resume(broker)
        for one in cluster.brokers.values():
            if one.paused:
                cluster.resume(one.id)
            if not one.alive:
                cluster.restart(one.id)
        cluster.run_for(120)
        client = MemoryClient(cluster, cluster.state("orders", 0).leader)
        found = partitions(client.call(fetch_request({0: 0}), 5, FetchResponse))[0]
        read = {record.offset: record.value for record in decode_records(bytes(found.records or b""))}
        assert {offset: read.get(offset) for offset in acknowledged} == acknowledged
        assert list(read) == list(range(found.high_watermark))
        latest = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        asked = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[latest])
        ends = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 2, ListOffsetsResponse)
        assert ends.topics[0].partitions[0].offset == found.high_watermark
        cluster.check()


# -- garbage

EDGES = st.sampled_from([0, 1, -1, -2, 5, 1 << 30, 2**31 - 1, -(2**31)])
DAMAGE = st.lists(st.tuples(st.integers(0, 199), st.integers(0, 255)), max_size=3)
ENTRIES = [
    *(
        encode_records([Record(b"k", b"v" * 20)] * 2, magic, codec)
        for magic in (0, 1, 2)
        for codec in (0, GZIP, SNAPPY)
    ),
    encode_marker(BatchProducer(1, 0), is_commit=True, coordinator_epoch=1, timestamp_ms=3),
]


def damaged(entry: bytes, damage: list[tuple[int, int]], length: int) -> bytes:
    """Return an entry with other bytes and another length, and the right checksum as far as it has one."""
    data = bytearray(entry)
    for place, byte in damage:
        data[place % len(data)] = byte
    del data[max(len(data) - length, 0) :]
    if len(data) > 61 and data[16] == 2:
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    elif len(data) > 20:
        data[12:16] = zlib.crc32(bytes(data[16:])).to_bytes(4, "big")
    return bytes(data)


def test_a_batch_without_records_is_rejected() -> None:
    data = bytearray(batch(b"v")[:61])
    data[8:12] = (61 - 12).to_bytes(4, "big")
    data[23:27] = (-1).to_bytes(4, "big", signed=True)  # the last offset delta
    data[57:61] = bytes(4)  # the number of records
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    with simzk.KafkaCluster("3.9", 1) as cluster:
        cluster.create_topic("orders", assignment={0: [1]})
        cluster.run_until_quiet()
        assert produce(MemoryClient(cluster, 1), bytes(data)) == (ErrorCode.INVALID_RECORD, -1)


@pytest.mark.parametrize(("version", "error"), [("3.9", ErrorCode.INVALID_RECORD), ("2.3", ErrorCode.CORRUPT_MESSAGE)])
def test_a_compressed_message_without_messages_is_rejected(version: str, error: ErrorCode) -> None:
    """AbstractLegacyRecordBatch throws an InvalidRecordException, which is a CorruptRecordException before 2.4."""
    data = bytearray(encode_messages([Record(None, gzip.compress(b""))], 1))
    data[17] = GZIP
    data[12:16] = zlib.crc32(bytes(data[16:])).to_bytes(4, "big")
    with simzk.KafkaCluster(version, 1) as cluster:
        cluster.create_topic("orders", assignment={0: [1]})
        cluster.run_until_quiet()
        assert produce(MemoryClient(cluster, 1), bytes(data), version=2) == (error, -1)


@pytest.mark.parametrize("version", ["3.9", "0.10.2"])
def test_no_request_breaks_a_broker(version: str) -> None:
    with simzk.KafkaCluster(version, 2) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2], 1: [1, 2]})
        cluster.run_until_quiet()

        @settings(max_examples=50, deadline=None)
        @given(st.sampled_from(ENTRIES), DAMAGE, st.sampled_from([0, 0, 0, 1, 30]), st.integers(0, 9), EDGES, EDGES)
        def exchange(
            entry: bytes, damage: list[tuple[int, int]], length: int, number: int, one: int, other: int
        ) -> None:
            accepted = cluster.brokers[1].client_api.accepted
            client = MemoryClient(cluster, 1)
            data = damaged(entry, damage, length)
            request = produce_request(data, acks=-1 if number % 2 else 1, timeout_ms=one)
            request.transactional_id = None
            client.send_request(request, min(number, accepted[0].high))
            client.wait(0.1)
            fetch = fetch_request({0: one, 1: other}, max_wait_ms=min(other, 5), min_bytes=one)
            fetch.max_bytes = fetch.replica_id = other
            for part in fetch.topics[0].partitions:
                part.partition_max_bytes = one
            client = MemoryClient(cluster, 1)
            client.send_request(fetch, min(number, accepted[1].high))
            client.wait(0.1)
            asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=one)
            topic = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[asked])
            client = MemoryClient(cluster, 1)
            client.send_request(ListOffsetsRequest(replica_id=other, topics=[topic]), min(number, accepted[2].high))
            assert client.wait() is not None

        exchange()
        cluster.check()


@given(st.binary(max_size=80))
def test_the_whole_entries_of_any_bytes_end(data: bytes) -> None:
    found = whole_entries(data)
    assert sum(map(len, found)) <= len(data)
