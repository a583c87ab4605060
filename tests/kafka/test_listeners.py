"""Listeners of brokers: settings that brokers refuse, as Kafka's jars do, and what they mean."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simzk
from simzk.errors import ConfigError
from simzk.kafka.listeners import Listener, address_text, listeners_of
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.security.sasl_client import JAAS, LoginClient, plain_token

OWN = Listener("PLAINTEXT", "PLAINTEXT", "10.0.0.1", 9092)
RECORDED: dict[str, dict[str, str | None]] = json.loads((Path(__file__).parent / "data" / "listeners.json").read_text())
RELEASES = list(next(iter(RECORDED.values())))
DOCKER = {
    "listeners": "INTERNAL://0.0.0.0:19092,EXTERNAL://0.0.0.0:9092",
    "advertised.listeners": "INTERNAL://broker:19092,EXTERNAL://localhost:9092",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SSL",
    "inter.broker.listener.name": "INTERNAL",
}
META_ADDRESS_SINCE = (1, 0)
"""First release that refuses to advertise 0.0.0.0; here all do, because no client could connect."""


@pytest.mark.parametrize("release", RELEASES)
def test_brokers_are_refused_as_the_jars_of_the_release_do(release: str) -> None:
    number = tuple(map(int, release.split(".")))
    for text, answers in RECORDED.items():
        settings = dict(pair.split("=", 1) for pair in text.split(" "))
        try:
            listeners_of(settings, number, OWN)
            problem = None
        except ConfigError as error:
            problem = error.what
        is_meta = problem is not None and "meta-address" in problem and number < META_ADDRESS_SINCE
        assert (None if is_meta else problem) == answers[release], text


@pytest.mark.parametrize(
    ("settings", "host", "expected"),
    [
        ({}, None, ("10.0.0.1", 9092)),
        ({}, "kafka", ("kafka", 9092)),
        ({"advertised.listeners": "PLAINTEXT://kafka:19092"}, None, ("kafka", 19092)),
        ({"advertised.listeners": "PLAINTEXT://kafka:19092"}, "other", ("other", 9092)),
        ({"advertised.listeners": "PLAINTEXT://[::1]:7"}, None, ("::1", 7)),
        ({"advertised.listeners": "PLAINTEXT://:7"}, None, ("10.0.0.1", 7)),
        ({"advertised.listeners": "PLAINTEXT://kafka:0"}, None, ("kafka", 9092)),
        ({"advertised.listeners": ""}, None, ("10.0.0.1", 9092)),
        ({"advertised.host.name": "kafka", "advertised.port": "7"}, None, ("kafka", 7)),
        ({"listeners": "PLAINTEXT://h:1"}, None, ("h", 1)),
        ({"listeners": "PLAINTEXT://:1"}, "kafka", ("kafka", 1)),
    ],
)
def test_the_address_is_that_of_the_option_or_of_the_settings(
    settings: dict[str, str], host: str | None, expected: tuple[str, int]
) -> None:
    assert listeners_of(settings, (2, 8), OWN, advertised_host=host).at("PLAINTEXT") == expected


def test_clients_use_the_listener_that_is_not_for_brokers() -> None:
    found = listeners_of(DOCKER, (3, 9), OWN)
    assert (found.inter_broker, found.of_clients.name, found.of_clients.security) == ("INTERNAL", "EXTERNAL", "SSL")
    only = {"listeners": "INTERNAL://h:1", "listener.security.protocol.map": "INTERNAL:SSL"}
    alone = listeners_of({**only, "inter.broker.listener.name": "INTERNAL"}, (3, 9), OWN)
    assert alone.of_clients.name == "INTERNAL"


@given(st.sampled_from(["listeners", "advertised.listeners", "listener.security.protocol.map"]), st.text(max_size=30))
def test_any_text_is_a_list_of_listeners_or_an_error(key: str, text: str) -> None:
    try:
        found = listeners_of({key: text}, (3, 9), OWN)
    except ConfigError:
        return
    assert all(one.host and 0 < one.port <= 65535 for one in found.advertised)


def ask(cluster: simzk.KafkaCluster, listener: str | None) -> list[tuple[str, int]]:
    """Return the addresses that broker 1 gives at a listener, which are the same in each answer."""
    client = MemoryClient(cluster, 1, listener=listener)
    described = client.call(DescribeClusterRequest(), 0, DescribeClusterResponse)
    metadata = client.call(MetadataRequest(topics=[]), 9, MetadataResponse)
    addresses = [(one.host, one.port) for one in metadata.brokers]
    assert [(one.host, one.port) for one in described.brokers] == addresses
    found = client.call(FindCoordinatorRequest(key="group"), 3, FindCoordinatorResponse)
    while found.error_code:
        cluster.advance(1)
        found = client.call(FindCoordinatorRequest(key="group"), 3, FindCoordinatorResponse)
    assert (found.host, found.port) in addresses
    return addresses


def brokers() -> dict[int, dict[str, str]]:
    """Return the settings of two brokers with two listeners each."""
    return {
        number: {
            **DOCKER,
            "listeners": f"INTERNAL://:{19090 + number},EXTERNAL://:{9090 + number}",
            "advertised.listeners": f"INTERNAL://broker{number}:19092,EXTERNAL://localhost:{9090 + number}",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
            "offsets.topic.replication.factor": "1",
        }
        for number in (1, 2)
    }


@pytest.mark.parametrize("version", ["0.10.2", "2.0", "2.8", "3.9"])
def test_answers_have_the_addresses_of_the_listener_at_which_a_client_asks(version: str) -> None:
    with simzk.KafkaCluster(version, brokers=2, broker_config=brokers()) as cluster:
        inside, outside = [("broker1", 19092), ("broker2", 19092)], [("localhost", 9091), ("localhost", 9092)]
        if version in ("2.8", "3.9"):
            assert [ask(cluster, name) for name in ("INTERNAL", "EXTERNAL", None)] == [inside, outside, outside]
        registered = json.loads(cluster.tree.get("/brokers/ids/2").data)  # type: ignore[union-attr, arg-type]
        assert registered["endpoints"] == ["INTERNAL://broker2:19092", "EXTERNAL://localhost:9092"]
        assert (registered["host"], registered["port"]) == ("broker2", 19092)
        assert registered["listener_security_protocol_map"] == {"INTERNAL": "PLAINTEXT", "EXTERNAL": "PLAINTEXT"}


REAL = (
    '{"features":{},"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT","EXTERNAL":"PLAINTEXT"},"endpoints":'
    '["INTERNAL://127.0.0.2:39092","EXTERNAL://localhost:49092"],"jmx_port":-1,"port":39092,"host":"127.0.0.2",'
    '"version":5,"timestamp":"T"}'
)
"""Registration of a real broker of 3.9.1."""


def test_a_broker_registers_as_a_real_one() -> None:
    config = {
        "listeners": "INTERNAL://0.0.0.0:39092,EXTERNAL://0.0.0.0:49092",
        "advertised.listeners": "INTERNAL://127.0.0.2:39092,EXTERNAL://localhost:49092",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with simzk.KafkaCluster(brokers=1, config=config) as cluster:
        data = cluster.tree.get("/brokers/ids/1").data.decode()  # type: ignore[union-attr]
    assert re.sub(r'"timestamp":"\d+"', '"timestamp":"T"', data) == REAL


def test_a_client_sees_no_broker_that_does_not_advertise_its_listener() -> None:
    own = brokers()
    own[2]["advertised.listeners"] = "INTERNAL://broker2:19092"
    with simzk.KafkaCluster(brokers=2, broker_config=own) as cluster:
        cluster.create_topic("t", assignment={0: [1, 2], 1: [2, 1]})
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1, listener="EXTERNAL")
        seen = client.call(MetadataRequest(topics=None), 9, MetadataResponse)
        assert [one.node_id for one in seen.brokers] == [1]
        (topic,) = seen.topics
        leaders = {one.partition_index: (one.error_code, one.leader_id) for one in topic.partitions}
        assert leaders == {0: (ErrorCode.NONE, 1), 1: (ErrorCode.LISTENER_NOT_FOUND, -1)}
        inside = MemoryClient(cluster, 1, listener="INTERNAL").call(MetadataRequest(topics=None), 9, MetadataResponse)
        assert [one.error_code for one in inside.topics[0].partitions] == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_restarted_broker_advertises_what_its_settings_say_now() -> None:
    with simzk.KafkaCluster(brokers=2, broker_config=brokers()) as cluster:
        cluster.shutdown(2)
        cluster.run_until(lambda: not cluster.brokers[2].alive)
        with pytest.raises(
            ConfigError, match="localhost:9091 in advertised listeners are already registered by broker 1"
        ):
            cluster.restart(2, config={"advertised.listeners": "INTERNAL://broker2:19092,EXTERNAL://localhost:9091"})
        cluster.restart(2, config={"advertised.listeners": "INTERNAL://broker2:19092,EXTERNAL://docker:9092"})
        cluster.run_until_quiet()
        assert ask(cluster, "EXTERNAL") == [("localhost", 9091), ("docker", 9092)]


def test_logins_are_of_the_listener() -> None:
    config = {
        "listeners": "INTERNAL://:19092,EXTERNAL://:9092",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.external.plain.sasl.jaas.config": JAAS,
        "listener.name.external.sasl.enabled.mechanisms": "PLAIN",
    }
    with simzk.KafkaCluster(brokers=1, config=config) as cluster:
        seen = MemoryClient(cluster, 1, listener="INTERNAL").call(MetadataRequest(topics=[]), 9, MetadataResponse)
        assert [one.port for one in seen.brokers] == [19092]
        client = LoginClient(cluster, 1)
        assert client.handshake("PLAIN").mechanisms == ["PLAIN"]
        assert client.authenticate(plain_token("alice", "secret")).error_code == ErrorCode.NONE


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert address_text("fe80::1", 9092) == "[fe80::1]:9092"
    with simzk.KafkaCluster(brokers=1, config={"advertised.listeners": "PLAINTEXT://[::1]:9092"}) as cluster:
        registered = json.loads(cluster.tree.get("/brokers/ids/1").data)  # type: ignore[union-attr, arg-type]
    assert (registered["endpoints"], registered["host"]) == (["PLAINTEXT://[::1]:9092"], "::1")
