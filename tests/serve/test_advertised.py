"""Addresses that served brokers give to clients."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simzk
from simzk.errors import ConfigError, IgnoredSettingWarning
from simzk.kafka.advertised import advertised_address

BOUND = ("10.0.0.1", 9092)


@pytest.mark.parametrize(
    ("settings", "host", "security", "expected"),
    [
        ({}, None, "PLAINTEXT", BOUND),
        ({}, "kafka", "PLAINTEXT", ("kafka", 9092)),
        ({"advertised.listeners": "PLAINTEXT://kafka:19092"}, None, "PLAINTEXT", ("kafka", 19092)),
        ({"advertised.listeners": "PLAINTEXT://kafka:19092"}, "other", "PLAINTEXT", ("other", 9092)),
        ({"advertised.listeners": "IN://a:1, SSL://b:2"}, None, "SSL", ("b", 2)),
        ({"advertised.listeners": "IN://a:1,OUT://b:2"}, None, "SSL", ("a", 1)),
        ({"advertised.listeners": "PLAINTEXT://[::1]:7"}, None, "PLAINTEXT", ("::1", 7)),
        ({"advertised.listeners": "PLAINTEXT://:7"}, None, "PLAINTEXT", ("10.0.0.1", 7)),
        ({"advertised.listeners": ""}, None, "PLAINTEXT", BOUND),
        ({"advertised.host.name": "kafka", "advertised.port": "7"}, None, "PLAINTEXT", ("kafka", 7)),
    ],
)
def test_the_address_is_that_of_the_option_or_of_the_settings(
    settings: dict[str, str], host: str | None, security: str, expected: tuple[str, int]
) -> None:
    assert advertised_address(settings, BOUND, host, security) == expected


@pytest.mark.parametrize("text", ["kafka:9092", "PLAINTEXT://kafka", "PLAINTEXT://kafka:70000", "PLAINTEXT://a:1,b:2"])
def test_listeners_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no list of listeners; expected such as PLAINTEXT://kafka:9092"):
        advertised_address({"advertised.listeners": text}, BOUND, None, "PLAINTEXT")


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    try:
        host, port = advertised_address({"advertised.listeners": text}, BOUND, None, "PLAINTEXT")
    except ConfigError:
        return
    assert host
    assert 0 <= port <= 65535


@pytest.mark.parametrize("config", [{}, {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}])
def test_the_meta_address_is_refused_in_kafkas_words(config: dict[str, str]) -> None:
    said = r"advertised.listeners cannot use the nonroutable meta-address 0\.0\.0\.0\. Use a routable IP address\."
    with pytest.raises(ConfigError, match=said):
        simzk.KafkaServer(brokers=1, host="0.0.0.0", config=config)


@pytest.mark.parametrize("version", ["0.8.2", "0.9", "2.8", "3.9"])
def test_clients_and_znodes_have_the_advertised_address(version: str) -> None:
    with simzk.KafkaServer(version, brokers=2, host="0.0.0.0", advertised_host="kafka.example") as server:
        ports = {broker: int(address.rpartition(":")[2]) for broker, address in server.brokers.items()}
        assert server.bootstrap_servers == ",".join(f"kafka.example:{port}" for port in ports.values())
        for broker, port in ports.items():
            node = server.cluster.tree.get(f"/brokers/ids/{broker}")
            assert node is not None
            assert node.data is not None
            found = json.loads(node.data)
            assert (found["host"], found["port"]) == ("kafka.example", port)


def test_each_broker_obeys_its_own_setting() -> None:
    own = {number: {"advertised.listeners": f"PLAINTEXT://kafka-{number}:{9000 + number}"} for number in (1, 2)}
    with simzk.KafkaServer(brokers=2, host="0.0.0.0", broker_config=own) as server:
        assert server.bootstrap_servers == "kafka-1:9001,kafka-2:9002"


def test_two_brokers_cannot_advertise_one_address() -> None:
    with pytest.raises(ConfigError, match=r"end points kafka:9092 in advertised .* already registered by broker 1"):
        simzk.KafkaServer(brokers=2, config={"advertised.listeners": "PLAINTEXT://kafka:9092"})


def test_settings_that_are_ignored_are_named() -> None:
    with pytest.warns(IgnoredSettingWarning, match=r"clients: num\.io\.threads$"):
        simzk.KafkaCluster(brokers=1, config={"num.io.threads": 4, "num.partitions": 2}).close()
