"""Inter-broker protocols of each release, and registrations at old ones (MetadataVersion, ApiVersion)."""

from __future__ import annotations

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.releases.cluster_releases import at_protocol
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.clusters import quiet, state_fields

V2_KEYS = {
    "0.10.0": ["jmx_port", "timestamp", "endpoints", "host", "version", "port"],
    "1.1": ["endpoints", "jmx_port", "host", "timestamp", "port", "version"],
    "2.4": ["endpoints", "jmx_port", "host", "timestamp", "port", "version"],
    "2.7": ["endpoints", "jmx_port", "port", "host", "version", "timestamp"],
    "3.9": ["endpoints", "jmx_port", "port", "host", "version", "timestamp"],
}
"""As `BrokerIdZNode.encode` of 1.1.1, 2.4.1, 2.7.2 and 3.9.1 orders them."""


@pytest.mark.parametrize("release", V2_KEYS)
@pytest.mark.parametrize("protocol", ["0.8.2", "0.9.0", "0.10.0-IV0"])
def test_registrations_at_an_old_protocol_are_of_version_2(release: str, protocol: str) -> None:
    with KafkaCluster(release, brokers=2, racks=2, inter_broker_protocol=protocol) as c:
        node = c.tree.get(paths.broker(1))
        assert node is not None
        text = (node.data or b"").decode()
        assert b'"version":2' in (node.data or b"")
        keys = sorted(V2_KEYS[release], key=lambda key: text.index(f'"{key}":'))
        assert keys == V2_KEYS[release]
        assert "rack" not in text
        assert "listener_security_protocol_map" not in text
        c.create_topic("t", assignment={0: (1, 2)})
        quiet(c)
        assert state_fields(c, "t") == (1, (1, 2), 0, 0)


@pytest.mark.parametrize(
    ("release", "protocol", "why"),
    [
        ("0.8.2", "0.8.1", "has no inter.broker.protocol.version"),
        ("0.9", "0.10.0", "does not support .*; expected 0.8.0 to 0.9"),
        ("2.8", "3.0", "does not support .*; expected 0.8.0 to 2.8"),
        ("3.9", "2.7-IV3", "does not exist; expected 2.7-IV2 at most"),
        ("3.9", "0.7", "does not exist"),
        ("3.9", "0.8.2-IV1", "does not exist"),
        ("3.9", "new", "is not an inter-broker protocol"),
    ],
)
def test_unknown_and_newer_protocols_are_rejected(release: str, protocol: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        at_protocol(kafka_version(release), protocol)


def test_the_protocol_of_the_settings_takes_effect() -> None:
    """Topics have no ids below 2.8-IV0, whoever says the protocol; the argument wins over the settings."""
    settings = {"inter.broker.protocol.version": "2.4"}
    for given, has_ids in ((None, False), ("3.9", True)):
        with KafkaCluster("3.9", 1, config=settings, inter_broker_protocol=given) as c:
            c.create_topic("t", 1, 1)
            quiet(c)
            node = c.tree.get(paths.topic("t"))
            assert node is not None
            assert (b'"topic_id"' in (node.data or b"")) == has_ids
    with KafkaCluster("2.8", 2, broker_config={1: settings}) as c:
        assert [c.brokers[broker].version.znodes.has_topic_ids for broker in (1, 2)] == [False, True]
    with pytest.raises(ConfigError, match="does not support"):
        KafkaCluster("0.9", 1, config={"inter.broker.protocol.version": "0.10.0"})
