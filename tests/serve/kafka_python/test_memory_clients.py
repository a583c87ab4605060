"""Unmodified clients of kafka-python in memory: what they do, without a port, a wait or a difference between runs."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.errors import ConfigError
from simzk.serve.kafka_python import runtime
from tests.waiting import PATIENCE_S, in_thread

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic
    from kafka.errors import KafkaConnectionError, KafkaTimeoutError, NotEnoughReplicasError, PolicyViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

AT_ONCE = {"group.initial.rebalance.delay.ms": 0}
LONG_S = 60


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    with simzk.KafkaCluster(brokers=3, seed=1, config=AT_ONCE) as made:
        made.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        made.run_until_quiet()
        yield made


def now_s(cluster: simzk.KafkaCluster) -> float:
    return cluster.scheduler.now_us / 1_000_000


def values(polled: dict[TopicPartition, list[object]]) -> list[bytes]:
    return [record.value for records in polled.values() for record in records]  # type: ignore[attr-defined]


def consumer_of(cluster: simzk.KafkaCluster, **options: object) -> KafkaConsumer:
    return cluster.client(KafkaConsumer, "orders", auto_offset_reset="earliest", **options)


def refuse_in_this_thread(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
    """Let a function fail in this thread; other threads, as those of py4j after a test with Spark, may call it."""
    call, of_test = getattr(module, name), threading.current_thread()

    def refuse(*args: object, **kwargs: object) -> object:
        assert threading.current_thread() is not of_test, f"{module.__name__}.{name} is called"
        return call(*args, **kwargs)

    monkeypatch.setattr(module, name, refuse)


def client_threads() -> set[threading.Thread]:
    """Return the threads that are alive without those of py4j, which come and go after a test with Spark."""
    return {thread for thread in threading.enumerate() if not type(thread).__module__.startswith("py4j")}


def story(seed: int) -> tuple[list[str], list[object]]:
    """Play a story with all kinds of clients and failures; return the history, and what the clients saw."""
    seen: list[object] = []
    with simzk.KafkaCluster(brokers=3, seed=seed, config=AT_ONCE) as cluster:
        admin = cluster.client(KafkaAdminClient)
        admin.create_topics([NewTopic("orders", 3, 3)])
        producer = cluster.client(KafkaProducer, acks="all", linger_ms=2)
        sent = [producer.send("orders", b"%d" % number, key=b"%d" % number) for number in range(30)]
        seen += [(found.partition, found.offset, found.timestamp) for found in (one.get(30) for one in sent)]
        owners = [consumer_of(cluster, group_id="billing") for _ in range(2)]

        def consume(consumer: KafkaConsumer) -> None:
            while len(seen) < 60:
                for partition, records in consumer.poll(timeout_ms=1000).items():
                    seen.extend((partition, one.offset, one.value, now_s(cluster)) for one in records)

        calls = [cluster.run_in_background(consume, consumer) for consumer in owners]
        cluster.run_for(5)
        cluster.kill(1)
        seen.append(producer.send("orders", b"last", partition=0).get(60))
        for call in calls:
            call.result()
        seen.append([sorted(consumer.assignment()) for consumer in owners])
        seen += [admin.describe_topics(["orders"]), now_s(cluster)]
        return [str(event) for event in cluster.history], seen


def test_clients_produce_consume_and_administer_in_memory(cluster: simzk.KafkaCluster) -> None:
    admin = cluster.client(KafkaAdminClient)
    admin.create_topics([NewTopic("refunds", 1, 3)])
    producer = cluster.client(KafkaProducer, acks="all")
    for number in range(10):
        sent = producer.send("refunds", b"%d" % number).get(timeout=10)
        assert (sent.partition, sent.offset) == (0, number)
        assert abs(sent.timestamp - cluster.now_ms) < 1000
    consumer = cluster.client(KafkaConsumer, "refunds", auto_offset_reset="earliest", consumer_timeout_ms=2000)
    assert [record.value for record in consumer] == [b"%d" % number for number in range(10)]
    assert consumer.end_offsets([TopicPartition("refunds", 0)]) == {TopicPartition("refunds", 0): 10}
    assert {"orders", "refunds"} <= set(admin.list_topics())
    for client in (producer, consumer, admin):
        client.close()
        client.close()
    cluster.check()


def test_no_socket_is_opened_and_no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_in_this_thread(monkeypatch, socket, "socket")
    refuse_in_this_thread(monkeypatch, socket, "socketpair")
    refuse_in_this_thread(monkeypatch, socket, "getaddrinfo")
    before = client_threads()
    history, _ = story(seed=3)
    assert history
    assert client_threads() == before


def test_the_same_seed_gives_the_same_history_and_the_same_answers() -> None:
    first, second, other = story(seed=5), story(seed=5), story(seed=6)
    assert first == second
    assert first[0] != other[0]
    assert len(first[1]) > 60


def test_a_poll_takes_virtual_time_only(cluster: simzk.KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_in_this_thread(monkeypatch, time, "sleep")
    consumer = consumer_of(cluster)
    before_s = now_s(cluster)
    assert consumer.poll(timeout_ms=LONG_S * 1000) == {}
    assert LONG_S <= now_s(cluster) - before_s < LONG_S + 5


def test_time_stands_still_while_nobody_waits(cluster: simzk.KafkaCluster) -> None:
    producer = cluster.client(KafkaProducer)
    before_s = now_s(cluster)
    producer.partitions_for("orders")
    sent = producer.send("orders", b"1", partition=0)
    between_s = now_s(cluster)
    assert between_s - before_s < 1
    assert not sent.is_done
    cluster.run_for(1)
    assert sent.is_done
    assert now_s(cluster) == pytest.approx(between_s + 1)


def test_a_record_outlives_its_leader(cluster: simzk.KafkaCluster) -> None:
    producer = cluster.client(KafkaProducer, acks="all")
    assert producer.send("orders", b"before", partition=0).get(10).offset == 0
    cluster.kill(1)
    assert producer.send("orders", b"after", partition=0).get(60).offset == 1
    assert cluster.state("orders", 0).leader != 1
    consumer = consumer_of(cluster)
    found: list[bytes] = []
    while len(found) < 2:
        found += values(consumer.poll(timeout_ms=10_000))
    assert found == [b"before", b"after"]
    cluster.check()


def test_a_killed_broker_refuses_and_a_paused_one_is_silent() -> None:
    with simzk.KafkaCluster(brokers=1) as cluster:
        cluster.pause(1)
        before_s = now_s(cluster)
        with pytest.raises((KafkaConnectionError, KafkaTimeoutError)):
            cluster.client(KafkaAdminClient, bootstrap_timeout_ms=5000, request_timeout_ms=2000)
        assert 2 <= now_s(cluster) - before_s < 12
        cluster.resume(1)
        admin = cluster.client(KafkaAdminClient)
        cluster.kill(1)
        with pytest.raises((KafkaConnectionError, KafkaTimeoutError)):
            cluster.client(KafkaAdminClient, bootstrap_timeout_ms=5000)
        cluster.restart(1)
        cluster.run_until_quiet()
        assert admin.list_topics() == []


def test_bytes_on_a_cut_link_are_lost_until_the_client_connects_again(cluster: simzk.KafkaCluster) -> None:
    options = {"request_timeout_ms": 4000, "linger_ms": 0, "delivery_timeout_ms": 60_000}
    producer = cluster.client(KafkaProducer, acks="all", **options)
    assert producer.send("orders", b"1", partition=0).get(10).offset == 0
    cluster.network.cut("kafka client 1", "broker 1")
    lost = producer.send("orders", b"2", partition=0)
    cluster.run_for(3)
    assert not lost.is_done
    cluster.network.heal("kafka client 1", "broker 1")
    before_s = now_s(cluster)
    assert lost.get(30).offset == 1
    assert now_s(cluster) - before_s >= 0.9  # the request times out first


def test_consumers_of_a_group_share_partitions_and_take_over(cluster: simzk.KafkaCluster) -> None:
    options = {"group_id": "billing", "session_timeout_ms": 10_000, "heartbeat_interval_ms": 1000}
    consumers = [consumer_of(cluster, **options) for _ in range(2)]
    stopped: set[KafkaConsumer] = set()

    def consume(consumer: KafkaConsumer) -> int:
        count = 0
        while consumer not in stopped:
            count += len(values(consumer.poll(timeout_ms=500)))
        consumer.close()
        return count

    calls = [cluster.run_in_background(consume, consumer) for consumer in consumers]
    cluster.run_until(lambda: all(len(consumer.assignment()) in (1, 2) for consumer in consumers))
    owned = [consumer.assignment() for consumer in consumers]
    assert not owned[0] & owned[1]
    assert len(owned[0] | owned[1]) == 3
    producer = cluster.client(KafkaProducer, acks="all")
    for number in range(30):
        producer.send("orders", b"%d" % number, partition=number % 3)
    producer.flush()
    cluster.run_for(5)
    stopped.add(consumers[0])
    first = calls[0].result()
    cluster.run_until(lambda: len(consumers[1].assignment()) == 3)
    stopped.add(consumers[1])
    assert first + calls[1].result() == 30


def test_heartbeats_go_on_while_the_test_lets_time_pass(cluster: simzk.KafkaCluster) -> None:
    consumer = consumer_of(cluster, group_id="billing", session_timeout_ms=10_000, max_poll_interval_ms=600_000)
    cluster.run_until(lambda: consumer.poll(timeout_ms=1000) or consumer.assignment())
    cluster.run_for(120)
    (group,) = cluster.client(KafkaAdminClient).describe_groups(["billing"]).values()
    assert group["group_state"] == "Stable"
    assert len(group["members"]) == 1


def test_faults_of_requests_reach_clients_in_memory(cluster: simzk.KafkaCluster) -> None:
    cluster.fail_next("CreateTopics", "POLICY_VIOLATION")
    admin = cluster.client(KafkaAdminClient)
    with pytest.raises(PolicyViolationError):
        admin.create_topics([NewTopic("refunds", 1, 1)])
    producer = cluster.client(KafkaProducer, retries=0, enable_idempotence=False, acks="all")
    cluster.fail_next("Produce", "NOT_ENOUGH_REPLICAS")
    with pytest.raises(NotEnoughReplicasError):
        producer.send("orders", b"1", partition=0).get(30)


def test_a_callback_that_waits_is_told_so(cluster: simzk.KafkaCluster) -> None:
    producer, consumer = cluster.client(KafkaProducer), consumer_of(cluster)
    errors: list[Exception] = []

    def call_back(_: object) -> None:
        for wait in (lambda: consumer.topics(), lambda: cluster.run_for(1)):
            try:
                wait()
            except RuntimeError as error:
                errors.append(error)

    producer.send("orders", b"1", partition=0).add_callback(call_back).get(10)
    assert ["cannot wait" in str(error) or "time passes already" in str(error) for error in errors] == [True, True]


def test_an_error_in_the_background_is_raised_in_the_test(cluster: simzk.KafkaCluster) -> None:
    def fail() -> None:
        consumer_of(cluster).poll(timeout_ms=500)
        raise LookupError("of the background")

    call = cluster.run_in_background(fail)
    with pytest.raises(LookupError, match="of the background"):
        cluster.run_for(5)
    assert call.done


def test_the_end_of_a_cluster_ends_its_clients() -> None:
    before = client_threads()
    with simzk.KafkaCluster(brokers=3, config=AT_ONCE) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=1)
        clients = [
            cluster.client(KafkaProducer),
            consumer_of(cluster, group_id="billing"),
            cluster.client(KafkaAdminClient),
        ]
        call = cluster.run_in_background(clients[1].poll, timeout_ms=1_000_000)
        cluster.run_for(5)
    assert client_threads() == before
    for client in clients:
        client.close()
    with pytest.raises(RuntimeError, match="was closed"):
        call.result()


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (dict, {}, "is no client of kafka-python; expected a class such as kafka.KafkaConsumer"),
        (KafkaProducer, {"kafka_client": print}, "kafka_client: a client in memory has its own network"),
    ],
)
def test_what_cannot_be_made_is_refused(
    cluster: simzk.KafkaCluster, kind: type, options: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        cluster.client(kind, **options)


def test_clients_of_other_servers_keep_the_wall_clock(cluster: simzk.KafkaCluster) -> None:
    consumer_of(cluster).poll(timeout_ms=100_000)
    with simzk.KafkaServer(brokers=1) as server:
        server.create_topic("orders", partitions=1, replication_factor=1)
        server.run_until_quiet()
        with pytest.raises(ConfigError, match="clients over TCP"):
            server.cluster.client(KafkaProducer)
        producer = KafkaProducer(bootstrap_servers=server.bootstrap_servers)
        before_ms = time.time() * 1000
        sent = producer.send("orders", b"1").get(30)
        assert abs(sent.timestamp - before_ms) < 60_000
        producer.close()


@pytest.mark.kafka(brokers=1, config={"offsets.topic.replication.factor": 1, **AT_ONCE})
def test_the_fixture_has_clients(kafka_cluster: simzk.KafkaCluster) -> None:
    kafka_cluster.create_topic("orders", partitions=1, replication_factor=1)
    kafka_cluster.client(KafkaProducer).send("orders", b"paid").get(timeout=10)
    assert next(consumer_of(kafka_cluster, group_id="billing")).value == b"paid"


@pytest.mark.parametrize("version", ["2.4", "0.11", "0.10.2"])
def test_older_releases_have_clients_in_memory(version: str) -> None:
    with simzk.KafkaCluster(version, brokers=3) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=3)
        cluster.client(KafkaProducer, acks="all").send("orders", b"paid").get(timeout=10)
        assert next(consumer_of(cluster)).value == b"paid"


@pytest.mark.parametrize("options", [{}, {"linger_ms": 50}, {"retry_backoff_ms": 500}])
def test_a_record_for_a_partition_without_a_leader_expires(options: dict[str, int]) -> None:
    """The sender asks for metadata in each turn, which wakes it: a loop without end if turns took no virtual time."""
    with simzk.KafkaCluster(brokers=3, seed=1) as cluster:
        cluster.create_topic("lonely", assignment={0: [2]})
        cluster.run_until_quiet()
        timeouts = {"delivery_timeout_ms": 8000, "request_timeout_ms": 3000}
        producer = cluster.client(KafkaProducer, **timeouts, **options)
        producer.send("lonely", b"1").get(timeout=LONG_S)
        cluster.kill(2)
        net = producer._sender._client._net
        began_s, turns = now_s(cluster), net._turns
        with pytest.raises(KafkaTimeoutError, match="8000 ms has passed"):
            producer.send("lonely", b"2").get(timeout=LONG_S)
        assert 8 <= now_s(cluster) - began_s < 9
        assert net._turns - turns < 2_000
        again = cluster.client(KafkaProducer, **options).send("lonely", b"3")
        cluster.run_for(5)
        cluster.restart(2)
        assert again.get(timeout=LONG_S).offset == 1, "a leader that comes back is found"


def test_a_call_that_waits_again_and_again_fails_after_an_hour(
    cluster: simzk.KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "PATIENCE_US", 20_000_000)
    began_s = now_s(cluster)
    with pytest.raises(TimeoutError, match=r"kafka client 1: next\(\) has waited for 2\d virtual seconds in vain"):
        next(consumer_of(cluster))
    assert 20 <= now_s(cluster) - began_s < 25
    began_s = now_s(cluster)
    assert list(consumer_of(cluster, consumer_timeout_ms=40_000)) == [], "a longer timeout of the client counts"
    assert consumer_of(cluster).poll(timeout_ms=50_000) == {}, "and one of the call"
    assert now_s(cluster) - began_s >= 90


def test_a_thread_that_iterates_over_a_consumer_gives_others_their_turn(cluster: simzk.KafkaCluster) -> None:
    consumer, got = consumer_of(cluster, group_id="g"), []

    def work() -> None:
        for message in consumer:
            got.append(message.value)
            if len(got) == 3:
                return

    worker = in_thread(work)
    producer = cluster.client(KafkaProducer)
    for number in range(3):
        producer.send("orders", b"%d" % number, partition=0).get(timeout=LONG_S)
    worker.result(PATIENCE_S)
    assert got == [b"0", b"1", b"2"]
