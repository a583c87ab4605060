"""Listeners of served brokers: ports, addresses that clients get, and settings that change with a restart."""

from __future__ import annotations

import json
import socket
import urllib.request
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

import simzk
from simzk.errors import ConfigError, IgnoredSettingWarning
from tests.waiting import PATIENCE_S

NAMES = {
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}

GROUPS = {"offsets.topic.replication.factor": 1, "group.initial.rebalance.delay.ms": 0}


def registered(server: simzk.KafkaServer, broker: int) -> dict[str, object]:
    """Return the registration of a broker."""
    node = server.cluster.tree.get(f"/brokers/ids/{broker}")
    assert node is not None
    assert node.data is not None
    found = json.loads(node.data)
    assert isinstance(found, dict)
    return found


def brokers_at(address: str) -> list[str]:
    """Return the addresses of all brokers, as librdkafka sees them at one."""
    metadata = AdminClient({"bootstrap.servers": address}).list_topics(timeout=PATIENCE_S)
    return sorted(f"{one.host}:{one.port}" for one in metadata.brokers.values())


def test_the_meta_address_is_refused_in_kafkas_words() -> None:
    said = r"advertised.listeners cannot use the nonroutable meta-address 0\.0\.0\.0\. Use a routable IP address\."
    with pytest.raises(ConfigError, match=said):
        simzk.KafkaServer(brokers=1, host="0.0.0.0")


@pytest.mark.parametrize("version", ["0.8.2", "0.9", "2.8", "3.9"])
def test_clients_and_znodes_have_the_advertised_address(version: str) -> None:
    with simzk.KafkaServer(version, brokers=2, host="0.0.0.0", advertised_host="kafka.example") as server:
        ports = {broker: int(address.rpartition(":")[2]) for broker, address in server.brokers.items()}
        assert server.bootstrap_servers == ",".join(f"kafka.example:{port}" for port in ports.values())
        for broker, port in ports.items():
            found = registered(server, broker)
            assert (found["host"], found["port"]) == ("kafka.example", port)


def test_each_broker_obeys_its_own_setting() -> None:
    own = {number: {"advertised.listeners": f"PLAINTEXT://kafka-{number}:{9000 + number}"} for number in (1, 2)}
    with simzk.KafkaServer(brokers=2, host="0.0.0.0", broker_config=own) as server:
        assert server.bootstrap_servers == "kafka-1:9001,kafka-2:9002"


def test_two_brokers_cannot_advertise_one_address() -> None:
    with pytest.raises(ConfigError, match=r"end points kafka:9092 in advertised .* already registered by broker 1"):
        simzk.KafkaServer(brokers=2, config={"advertised.listeners": "PLAINTEXT://kafka:9092"})


def test_a_client_gets_the_addresses_of_its_listener() -> None:
    config = {
        **NAMES,
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
        "advertised.listeners": "INTERNAL://localhost:0,EXTERNAL://127.0.0.1:0",
    }
    with simzk.KafkaServer(brokers=3, config=config) as server:
        inside, outside = (sorted(server.listeners[name].split(",")) for name in ("INTERNAL", "EXTERNAL"))
        assert server.bootstrap_servers == server.listeners["EXTERNAL"]
        assert len({*inside, *outside}) == 6
        assert brokers_at(inside[0].replace("localhost", "127.0.0.1")) == inside
        assert brokers_at(outside[1]) == outside
        assert registered(server, 3)["endpoints"] == [
            f"{name}://{server.listeners[name].split(',')[2]}" for name in ("INTERNAL", "EXTERNAL")
        ]


def test_all_ports_of_a_killed_broker_refuse_connections() -> None:
    config = {**NAMES, "listeners": "INTERNAL://:0,EXTERNAL://:0"}
    with simzk.KafkaServer(brokers=1, config=config) as server:
        ports = [int(address.rpartition(":")[2]) for address in server.listeners.values()]
        server.kill(1)
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        server.restart(1)
        server.run_until(lambda: server.cluster.brokers[1].accepts_clients)
        for port in ports:
            socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()


def test_a_port_with_tls_beside_one_without() -> None:
    config = {
        **NAMES,
        "listeners": "INTERNAL://:0,EXTERNAL://:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SSL",
        "advertised.listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://localhost:0",
    }
    with simzk.KafkaServer(brokers=1, config=config) as server:
        assert brokers_at(server.listeners["INTERNAL"]) == [server.listeners["INTERNAL"]]
        options = {"security.protocol": "SSL", "ssl.ca.location": str(server.certificate)}
        client = AdminClient({"bootstrap.servers": server.bootstrap_servers, **options})
        (broker,) = client.list_topics(timeout=PATIENCE_S).brokers.values()
        assert f"{broker.host}:{broker.port}" == server.listeners["EXTERNAL"]


def test_a_broker_that_starts_again_advertises_what_its_settings_say() -> None:
    with simzk.KafkaServer(brokers=2, control_port=0, config={"advertised.listeners": "PLAINTEXT://:0"}) as server:
        first, second = server.bootstrap_servers.split(",")
        port = second.rpartition(":")[2]
        server.shutdown(2)
        server.run_until(lambda: not server.cluster.brokers[2].alive)
        server.restart(2, config={"advertised.listeners": f"PLAINTEXT://localhost:{port}"})
        server.run_until_quiet()
        assert registered(server, 2)["endpoints"] == [f"PLAINTEXT://localhost:{port}"]
        assert brokers_at(first) == [first, f"localhost:{port}"]
        for verb, body in (("stop", b""), ("start", b"advertised.listeners=PLAINTEXT://kafka:7")):
            request = urllib.request.Request(f"{server.control_url}/brokers/2/{verb}", body, method="POST")
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                assert json.load(answer) == {"error": None}
        assert registered(server, 2)["endpoints"] == ["PLAINTEXT://kafka:7"]
        server.run_until_quiet()
        assert brokers_at(first) == [first, "kafka:7"]


def test_the_ports_of_a_served_broker_do_not_change() -> None:
    with simzk.KafkaServer(brokers=1) as server:
        server.kill(1)
        for change in ({"config": {"listeners": "PLAINTEXT://127.0.0.1:9"}}, {"port": 9}):
            with pytest.raises(ConfigError, match="the ports of a served broker do not change; expected PLAINTEXT://"):
                server.restart(1, **change)
        server.restart(1)


def test_a_protocol_is_chosen_once() -> None:
    with pytest.raises(ConfigError, match="security: it cannot be combined with the setting listeners"):
        simzk.KafkaServer(
            brokers=1, security="SSL", config={"listeners": "SSL://:0", "security.inter.broker.protocol": "SSL"}
        )


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
@pytest.mark.parametrize(("host", "advertised"), [("::", None), ("::1", None), ("::", "localhost")])
def test_librdkafka_produces_and_consumes_over_ipv6(host: str, advertised: str | None) -> None:
    with simzk.KafkaServer(brokers=2, host=host, advertised_host=advertised, config=GROUPS) as server:
        server.create_topic("t", partitions=2, replication_factor=2)
        server.run_until_quiet()
        assert server.bootstrap_servers.startswith("localhost:" if advertised else f"[{host}]:")
        producer = Producer({"bootstrap.servers": server.bootstrap_servers})
        for partition in (0, 1):
            producer.produce("t", b"%d" % partition, partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        options = {"group.id": "g", "auto.offset.reset": "earliest"}
        with closing(Consumer({"bootstrap.servers": server.bootstrap_servers, **options})) as consumer:
            consumer.subscribe(["t"])
            found = [consumer.poll(PATIENCE_S) for _ in range(2)]
        assert {one.value() for one in found if one is not None} == {b"0", b"1"}


def test_settings_that_are_ignored_are_named() -> None:
    with pytest.warns(IgnoredSettingWarning, match=r"clients: num\.io\.threads$"):
        simzk.KafkaCluster(brokers=1, config={"num.io.threads": 4, "num.partitions": 2}).close()
