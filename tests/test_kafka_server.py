"""`simzk.KafkaServer`: real clients, failures of brokers, time that jumps, ports."""

from __future__ import annotations

import inspect
import socket
import struct
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

import simzk
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.messages import MetadataRequest, MetadataResponse
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.testing import wait_until
from tests.waiting import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.admin import NewPartitions, NewTopic
    from kafka.errors import InvalidPartitionsError, TopicAlreadyExistsError

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from confluent_kafka import admin as librdkafka_admin
from confluent_kafka import cimpl as librdkafka_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_SERVED = {"client", "close", "pump", "run_in_background"}  # clients of a server connect over TCP
"""Methods of a cluster that a server has itself, or that its threads call."""
CLOCKS_DIFFER_MS = 500
"""The monotonic clock of the machine may drift from its time by this."""


@pytest.fixture
def admin(kafka_server: simzk.KafkaServer) -> Iterator[KafkaAdminClient]:
    """An admin client of kafka-python."""
    client = KafkaAdminClient(bootstrap_servers=kafka_server.bootstrap_servers)
    with closing(client):
        yield client


def librdkafka(server: simzk.KafkaServer) -> librdkafka_admin.AdminClient:
    """Return an admin client of confluent-kafka that reports nothing on stderr."""
    return librdkafka_admin.AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})


def connect(address: str) -> socket.socket:
    """Return a connection to a broker."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def framed(body: bytes) -> bytes:
    """Return a frame with its length."""
    return struct.pack(">i", len(body)) + body


def metadata_request(number: int) -> bytes:
    """Return the frame of a request for all topics."""
    return framed(encode_request(MetadataRequest(topics=None), 9, correlation_id=number, client_id="test"))


def read_metadata(connection: socket.socket) -> tuple[int, MetadataResponse]:
    """Return the number and the body of the next response."""
    (length,) = struct.unpack(">i", read(connection, 4))
    number, _, response = decode_response(MetadataResponse, 9, read(connection, length))
    return number, response


def read(connection: socket.socket, count: int) -> bytes:
    """Return the next bytes."""
    data = b""
    while len(data) < count:
        data += connection.recv(count - len(data))
    return data


def test_kafka_python_describes_cluster_and_topics(kafka_server: simzk.KafkaServer, admin: KafkaAdminClient) -> None:
    kafka_server.create_topic("orders", assignment={0: [1, 2], 1: [2, 3]})
    kafka_server.run_until_quiet()
    found = admin.describe_cluster()
    assert found["controller_id"] == 1
    assert {one["broker_id"]: f"{one['host']}:{one['port']}" for one in found["brokers"]} == kafka_server.brokers
    assert admin.list_topics() == ["orders"]
    (topic,) = admin.describe_topics(["orders"])
    led = {one["partition_index"]: (one["leader_id"], one["isr_nodes"]) for one in topic["partitions"]}
    assert led == {0: (1, [1, 2]), 1: (2, [2, 3])}


def test_librdkafka_sees_a_failover(kafka_server: simzk.KafkaServer) -> None:
    kafka_server.create_topic("orders", assignment={0: [2, 3]})
    kafka_server.run_until_quiet()
    client = librdkafka(kafka_server)
    before = client.list_topics(timeout=PATIENCE_S)
    assert before.topics["orders"].partitions[0].leader == 2
    kafka_server.kill(2)
    kafka_server.advance(30)  # the session expires
    after = client.list_topics(timeout=PATIENCE_S)
    assert after.topics["orders"].partitions[0].leader == 3
    assert after.topics["orders"].partitions[0].isrs == [3]
    assert sorted(after.brokers) == [1, 3]


def test_kafka_python_creates_grows_and_deletes_topics(
    kafka_server: simzk.KafkaServer, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic("orders", 2, 3), NewTopic("placed", replica_assignments={0: [3, 1]})])
    assert kafka_server.state("placed", 0).leader == 3
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic("orders", 1, 1)])
    admin.create_partitions({"orders": NewPartitions(4)})
    assert sorted(kafka_server.assignment("orders")) == [0, 1, 2, 3]
    admin.delete_topics(["placed"])
    assert admin.list_topics() == ["orders"]


def test_kafka_python_reassigns_partitions(kafka_server: simzk.KafkaServer, admin: KafkaAdminClient) -> None:
    kafka_server.create_topic("orders", assignment={0: [1, 2]})
    kafka_server.run_until_quiet()
    orders = TopicPartition("orders", 0)
    admin.alter_partition_reassignments({orders: [3, 2]})
    kafka_server.run_until_quiet()
    assert not admin.list_partition_reassignments()
    assert kafka_server.assignment("orders")[0].replicas == (3, 2)
    assert kafka_server.state("orders", 0).leader in (2, 3)


def test_librdkafka_elects_a_preferred_leader(kafka_server: simzk.KafkaServer) -> None:
    kafka_server.create_topic("orders", assignment={0: [2, 3]})
    kafka_server.run_until_quiet()
    kafka_server.shutdown(2)
    kafka_server.run_until(lambda: not kafka_server.cluster.brokers[2].alive)
    kafka_server.restart(2)
    kafka_server.run_until_quiet()
    assert kafka_server.state("orders", 0).leader == 3
    client = librdkafka(kafka_server)
    orders = LibrdkafkaPartition("orders", 0)
    results = client.elect_leaders(ElectionType.PREFERRED, [orders]).result(PATIENCE_S)
    assert list(results.values()) == [None]
    assert kafka_server.state("orders", 0).leader == 2


def test_librdkafka_creates_and_deletes_topics(kafka_server: simzk.KafkaServer) -> None:
    client = librdkafka(kafka_server)
    created = client.create_topics(
        [librdkafka_topics.NewTopic("orders", 3, 2), librdkafka_topics.NewTopic("a b", 1, 1)]
    )
    created["orders"].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="Topic name is invalid"):
        created["a b"].result(PATIENCE_S)
    client.create_partitions([librdkafka_topics.NewPartitions("orders", 5)])["orders"].result(PATIENCE_S)
    assert len(client.list_topics(timeout=PATIENCE_S).topics["orders"].partitions) == 5
    client.delete_topics(["orders"])["orders"].result(PATIENCE_S)
    assert client.list_topics(timeout=PATIENCE_S).topics == {}


def test_a_killed_broker_refuses_connections_and_returns_to_its_port(kafka_server: simzk.KafkaServer) -> None:
    address = kafka_server.brokers[2]
    with connect(address) as connection:
        wait_until(lambda: kafka_server.cluster.brokers[2].client_api.connections)
        kafka_server.kill(2)
        assert connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(address)
    kafka_server.advance(30)
    kafka_server.restart(2)
    kafka_server.run_until_quiet()
    assert kafka_server.brokers[2] == address
    with connect(address) as connection:
        connection.sendall(metadata_request(1))
        number, response = read_metadata(connection)
    assert number == 1
    assert sorted(broker.node_id for broker in response.brokers) == [1, 2, 3]


def test_a_paused_broker_accepts_and_answers_when_it_is_resumed(kafka_server: simzk.KafkaServer) -> None:
    broker = kafka_server.cluster.brokers[2]
    kafka_server.pause(2)
    with connect(kafka_server.brokers[2]) as connection:
        connection.sendall(metadata_request(1) + metadata_request(2))
        wait_until(lambda: sum(one.backlog for one in broker.client_api.connections) == 2)
        kafka_server.resume(2)
        assert [read_metadata(connection)[0] for _ in range(2)] == [1, 2]


def test_a_broker_that_shuts_down_closes_its_connections(kafka_server: simzk.KafkaServer) -> None:
    with connect(kafka_server.brokers[3]) as connection:
        wait_until(lambda: kafka_server.cluster.brokers[3].client_api.connections)
        kafka_server.shutdown(3)
        kafka_server.run_until(lambda: not kafka_server.cluster.brokers[3].alive)
        assert connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(kafka_server.brokers[3])


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", 0x7FFFFFFF),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("16030100c8010000c40303") + bytes(192),
    ],
    ids=["huge", "over the limit", "negative", "zero", "HTTP", "TLS"],
)
def test_bytes_that_are_no_frame_close_the_connection(kafka_server: simzk.KafkaServer, sent: bytes) -> None:
    with connect(kafka_server.brokers[1]) as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""


def test_a_request_in_pieces_and_requests_in_one_piece(kafka_server: simzk.KafkaServer) -> None:
    with connect(kafka_server.brokers[1]) as connection:
        for byte in metadata_request(1):
            connection.sendall(bytes([byte]))
        assert read_metadata(connection)[0] == 1
        connection.sendall(b"".join(metadata_request(number) for number in range(2, 1000)))
        assert [read_metadata(connection)[0] for _ in range(2, 1000)] == list(range(2, 1000))


def test_a_kazoo_client_keeps_its_session_while_time_jumps(kafka_server: simzk.KafkaServer) -> None:
    client = KazooClient(hosts=kafka_server.zookeeper_hosts)
    client.start()
    client.create("/mine", ephemeral=True)
    kafka_server.advance(3600)
    assert client.exists("/mine")
    assert client.get_children("/brokers/ids") == ["1", "2", "3"]
    client.stop()
    client.close()


def served(kind: str) -> simzk.KafkaServer:
    """Return a server of one kind."""
    match kind:
        case "layout":
            racks = brokers_in_racks(3, 3)
            layout = generate_layout(racks, topics=2, partitions=6, replication_factor=3, seed=1)
            return simzk.KafkaServer.from_layout(layout)
        case "scenario":
            return simzk.KafkaServer.from_scenario("broker_failure")
        case release:
            return simzk.KafkaServer(release, 3)


@pytest.mark.parametrize("kind", ["0.8.2", "2.4", "3.9", "layout", "scenario"])
def test_a_served_cluster_has_the_time_of_the_wall(kind: str) -> None:
    def wall_ms() -> int:
        return time.time_ns() // 1_000_000

    with served(kind) as server:
        before_ms, now_ms, after_ms = wall_ms(), server.now_ms, wall_ms()
        assert before_ms - CLOCKS_DIFFER_MS <= now_ms <= after_ms + CLOCKS_DIFFER_MS
        server.advance(60)
        assert server.now_ms >= now_ms + 60_000


@pytest.mark.kafka(version="0.8.2", brokers=2)
def test_an_old_release_has_no_api_versions(kafka_server: simzk.KafkaServer) -> None:
    with connect(kafka_server.brokers[1]) as connection:
        connection.sendall(framed(struct.pack(">hhih", 18, 0, 1, -1)))
        assert connection.recv(1) == b""
    assert kafka_server.version == "0.8.2"


def test_ports_are_free_after_close() -> None:
    with simzk.KafkaServer(brokers=1) as server:
        address = server.brokers[1]
        port = int(address.rpartition(":")[2])
        with pytest.raises(simzk.ConfigError, match="in use"):
            simzk.KafkaServer(brokers=1, port=port)
    server.close()
    with simzk.KafkaServer(brokers=1, port=port) as again:
        assert again.brokers[1] == address
        assert repr(again) == f"<KafkaServer 3.9 at {address}>"


def test_settings_of_one_broker() -> None:
    config = {1: {"num.partitions": 5}}
    with simzk.KafkaServer(brokers=2, broker_config=config) as server:
        brokers = server.cluster.brokers
        assert [brokers[number].config.integer("num.partitions") for number in (1, 2)] == [5, 1]
        server.kill(2)
        server.advance(30)
        server.restart(2, config={"num.partitions": 7})
        assert brokers[2].config.integer("num.partitions") == 7
        with pytest.raises(simzk.ConfigError, match="not simulated"):
            simzk.KafkaServer(brokers=1, config={"no.such": 1})


def test_a_server_has_the_methods_of_a_cluster() -> None:
    def public(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    assert public(simzk.KafkaCluster) - public(simzk.KafkaServer) <= NOT_SERVED


def test_faults_of_requests_reach_clients_and_end(kafka_server: simzk.KafkaServer, admin: KafkaAdminClient) -> None:
    rule = kafka_server.fail_next("CreatePartitions", "INVALID_PARTITIONS")
    kafka_server.create_topic("orders", partitions=1, replication_factor=1)
    kafka_server.run_until_quiet()
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({"orders": NewPartitions(2)})
    assert rule.fired == 1
    held = kafka_server.broker_faults.hold("CreatePartitions")
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(admin.create_partitions, {"orders": NewPartitions(2)})
        try:
            wait_until(lambda: held.waiting == 1, timeout_s=PATIENCE_S)
            assert len(kafka_server.assignment("orders")) == 1
        finally:
            held.release()
        made.result(timeout=PATIENCE_S)
    assert len(kafka_server.assignment("orders")) == 2
    assert kafka_server.broker_faults.rules == [rule, held]


def test_clients_go_on_while_zookeeper_servers_fail() -> None:
    with simzk.KafkaServer(brokers=3, zookeeper_servers=3) as server:
        assert server.zookeeper_servers == {1: "running", 2: "running", 3: "running"}
        client = KazooClient(server.zookeeper_hosts)
        client.start(PATIENCE_S)
        with closing(KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)) as admin:
            lost = server.lose_zookeeper_leader()
            server.run_until_quiet()
            assert server.zookeeper_servers[lost] == "killed"
            admin.create_topics([NewTopic("orders", 1, 3)])
            server.run_until(lambda: server.state("orders", 0).leader > 0)
            assert client.exists("/brokers/topics/orders") is not None
            server.restart_zookeeper_server(lost)
            with server.pause_zookeeper_server(lost):
                server.advance(30)
                assert server.paused_zookeeper_servers == [lost]
            server.cut_zookeeper_server(1)
            assert server.cut_zookeeper_servers == [1]
            server.heal_zookeeper_servers()
            server.run_until_quiet()
            assert server.live_brokers == [1, 2, 3]
            assert client.connected
        client.stop()
        client.close()


IMPORTED_ON_USE = (
    *("crc32c", "msgspec", "simzk.kafka.client_requests.broker_api", "simzk.kafka.client_requests.metadata"),
    *(
        "simzk.kafka.zookeeper_mode.consumer",
        "simzk.kafka.coordinator.group",
        "simzk.kafka.zookeeper_mode.layout_import",
    ),
    *("simzk.kafka.protocol.schema", "simzk.partitions.layouts", "simzk.scenarios.actions"),
    *("simzk.zookeeper.ensemble", "simzk.zookeeper.persistence"),
)
"""Packages and modules that a cluster without clients does not need: each would delay the start of every process."""


def test_a_server_without_clients_imports_only_what_it_needs() -> None:
    script = f"""
import sys, simzk
with simzk.KafkaServer(control_port=0) as server:
    print(*(name for name in {IMPORTED_ON_USE} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "\n"
