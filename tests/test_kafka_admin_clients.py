"""Admin requests of unmodified clients to `simzk.KafkaServer`: kafka-python and librdkafka (confluent-kafka)."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.waiting import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from confluent_kafka import KafkaException
from confluent_kafka import admin as librdkafka_admin
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigSource
from confluent_kafka.admin._config import ConfigResource as Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    import simzk


@pytest.fixture
def admin(kafka_server: simzk.KafkaServer) -> Iterator[KafkaAdminClient]:
    """An admin client of kafka-python."""
    client = KafkaAdminClient(bootstrap_servers=kafka_server.bootstrap_servers)
    with closing(client):
        yield client


@pytest.fixture
def librdkafka(kafka_server: simzk.KafkaServer) -> librdkafka_admin.AdminClient:
    """An admin client of confluent-kafka that reports nothing on stderr."""
    return librdkafka_admin.AdminClient({"bootstrap.servers": kafka_server.bootstrap_servers, "log_level": 0})


@pytest.fixture
def orders(kafka_server: simzk.KafkaServer) -> str:
    """A topic."""
    kafka_server.create_topic("orders", assignment={0: [1, 2]})
    kafka_server.run_until_quiet()
    return "orders"


def test_kafka_python_alters_and_describes_a_topic(
    kafka_server: simzk.KafkaServer, admin: KafkaAdminClient, orders: str
) -> None:
    topic = ConfigResource(ConfigResourceType.TOPIC, orders)

    def modified() -> dict[str, str]:
        found = admin.describe_configs([topic])["topic"][orders]
        return {name: config["value"] for name, config in found.items()}

    assert modified() == {}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, orders, {"retention.ms": "1000"})])
    assert modified() == {"retention.ms": "1000"}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, orders, {"cleanup.policy": ("append", "compact")})])
    assert modified() == {"retention.ms": "1000", "cleanup.policy": "delete,compact"}
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, orders, {"retention.ms": None})])
    assert modified() == {"cleanup.policy": "delete,compact"}
    with kafka_server.cluster.lock:
        node = kafka_server.cluster.tree.get(f"/config/topics/{orders}")
        assert node is not None
    assert node.data == b'{"version":1,"config":{"cleanup.policy":"delete,compact"}}'


def test_librdkafka_alters_and_describes_a_broker(
    kafka_server: simzk.KafkaServer, librdkafka: librdkafka_admin.AdminClient
) -> None:
    broker = Resource(Resource.Type.BROKER, "2")
    broker.add_incremental_config(ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET))
    (altered,) = librdkafka.incremental_alter_configs([broker]).values()
    altered.result(PATIENCE_S)
    kafka_server.run_until_quiet()
    values = {}
    for number in ("1", "2"):
        (found,) = librdkafka.describe_configs([Resource(Resource.Type.BROKER, number)]).values()
        entry = found.result(PATIENCE_S)["log.cleaner.threads"]
        values[number] = (entry.value, ConfigSource(entry.source).name)
    assert values == {"1": ("1", "DEFAULT_CONFIG"), "2": ("2", "DYNAMIC_BROKER_CONFIG")}


def test_librdkafka_sees_why_a_setting_is_rejected(librdkafka: librdkafka_admin.AdminClient, orders: str) -> None:
    wrong = Resource(Resource.Type.TOPIC, orders, set_config={"segment.bytes": "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # AlterConfigs is deprecated
        (altered,) = librdkafka.alter_configs([wrong]).values()
    with pytest.raises(KafkaException, match="Value must be at least 14"):
        altered.result(PATIENCE_S)
