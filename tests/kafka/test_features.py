"""`/feature`, features of brokers, and KRaft registrations: decoded, kept and encoded as by each release."""

from __future__ import annotations

import pytest

from simzk.errors import ZnodeError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import broker_registration, controller, feature
from simzk.kafka.zookeeper_mode.schemas.feature import ENABLED, FeatureZnode, Levels
from tests.kafka.clusters import quiet
from tests.kafka.foreign_znodes import decode_registration

V1 = '{"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}'
V2 = '{"features":{"f":{"max_version_level":3}},"version":2,"status":1}'


def _feature(c: KafkaCluster) -> str:
    node = c.tree.get(paths.FEATURE)
    assert node is not None
    return (node.data or b"").decode()


def test_forms_of_every_version() -> None:
    assert feature.decode("/f", V1.encode()) == FeatureZnode(ENABLED, {"f": Levels(3, 1)}, 1)
    assert feature.decode("/f", V2.encode()) == FeatureZnode(ENABLED, {"f": Levels(3)}, 2)
    assert feature.encode_v1(ENABLED, {"f": Levels(3, 1)}).decode() == V1
    assert feature.encode_v2(ENABLED, {"f": Levels(3)}).decode() == V2
    with pytest.raises(ZnodeError, match="/f: field version is 0"):
        feature.decode("/f", b'{"features":{},"version":0,"status":1}')
    with pytest.raises(ZnodeError, match=r"/f: field features\.f\.min_version_level is missing"):
        feature.decode("/f", V2.encode(), kafka_version("3.2").reading)


@pytest.mark.parametrize(
    ("release", "protocol", "before", "after"),
    [
        ("2.7", None, V1, V1),
        ("3.9", None, V2, V2),
        ("3.9", None, V1, V2),
        ("3.9", "3.2", V2, '{"features":{"f":{"max_version_level":3,"min_version_level":3}},"version":1,"status":1}'),
        ("3.9", "2.6", V2, '{"features":{},"version":1,"status":0}'),
        ("3.9", None, V2.replace('"status":1', '"status":0'), '{"features":{},"version":2,"status":1}'),
    ],
)
def test_a_failover_keeps_finalized_features(release: str, protocol: str | None, before: str, after: str) -> None:
    with KafkaCluster(release, brokers=2, inter_broker_protocol=protocol) as c:
        c.write_znode(paths.FEATURE, before)
        quiet(c)
        c.delete_znode(paths.CONTROLLER)
        quiet(c)
        assert _feature(c) == after


def test_features_of_a_broker_round_trip() -> None:
    supported = (broker_registration.SupportedFeature("f", 1, 3),)
    registration = broker_registration.BrokerRegistration("h", 1, None, ("PLAINTEXT://h:1",), features=supported)
    written = broker_registration.encode_v5(registration)
    assert written.startswith(b'{"features":{"f":{"min_version":1,"max_version":3}},')
    assert broker_registration.decode("/b", written) == registration
    old = broker_registration.decode("/b", written, kafka_version("2.6").reading)
    assert old == registration._replace(features=())


def test_a_kraft_controller_is_decoded() -> None:
    written = controller.encode_v2(3000, 5, kraft_epoch=7)
    assert controller.decode("/controller", written) == 3000
    assert decode_registration("/controller", written) == (3000, 7)
    assert decode_registration("/controller", controller.encode_v1(1, 5)) == (1, None)
