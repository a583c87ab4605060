"""Admin requests of unmodified clients to `simzk.KafkaServer`: kafka-python and librdkafka (confluent-kafka)."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.metadata.entities import AclEntry
from tests.waiting import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.admin import (
        ACL,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ConfigResource,
        ConfigResourceType,
        KafkaAdminClient,
        ResourcePattern,
    )
    from kafka.admin import ResourceType as PythonResource
    from kafka.admin import ScramMechanism as PythonMechanism
    from kafka.admin import UserScramCredentialUpsertion as PythonUpsertion

from confluent_kafka import KafkaException
from confluent_kafka import admin as librdkafka_admin
from confluent_kafka.admin._acl import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigSource
from confluent_kafka.admin._config import ConfigResource as Resource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@pytest.mark.parametrize("chroot", ["", "/kafka"])
def test_librdkafka_finds_zookeeper_by_the_configuration_of_a_broker(chroot: str) -> None:
    with simzk.KafkaServer(brokers=[7], zookeeper_chroot=chroot) as server:
        client = librdkafka_admin.AdminClient({"bootstrap.servers": server.bootstrap_servers})
        (found,) = client.describe_configs([Resource(Resource.Type.BROKER, "7")]).values()
        assert found.result(PATIENCE_S)["zookeeper.connect"].value == server.zookeeper_hosts + chroot


def test_librdkafka_sees_why_a_setting_is_rejected(librdkafka: librdkafka_admin.AdminClient, orders: str) -> None:
    wrong = Resource(Resource.Type.TOPIC, orders, set_config={"segment.bytes": "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # AlterConfigs is deprecated
        (altered,) = librdkafka.alter_configs([wrong]).values()
    with pytest.raises(KafkaException, match="Value must be at least 14"):
        altered.result(PATIENCE_S)


def test_kafka_python_moves_a_replica_to_another_directory() -> None:
    with (
        simzk.KafkaServer(brokers=1, config={"log.dirs": "/data/a,/data/b"}) as server,
        closing(KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)) as admin,
    ):
        server.create_topic("orders", assignment={0: [1]})
        server.run_until_quiet()

        def where() -> list[str]:
            (broker,) = admin.describe_log_dirs()
            return [found["log_dir"] for found in broker["log_dirs"] if found["topics"]]

        assert where() == ["/data/a"]
        admin.alter_replica_log_dirs({("orders", 0, 1): "/data/b"})
        assert where() == ["/data/b"]


@pytest.mark.kafka(brokers=1)  # kafka-python asks any broker, and only the controller alters users
def test_users_of_two_clients(admin: KafkaAdminClient, librdkafka: librdkafka_admin.AdminClient) -> None:
    upserted = PythonUpsertion("alice", PythonMechanism.SCRAM_SHA_256, password=b"secret", iterations=4096)
    assert admin.alter_user_scram_credentials([upserted]) == {"alice": None}
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    (altered,) = librdkafka.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("bob", info, b"secret")]
    ).values()
    altered.result(PATIENCE_S)
    futures = librdkafka.describe_user_scram_credentials(["alice", "bob"])
    assert isinstance(futures, dict)
    infos = {name: future.result(PATIENCE_S).scram_credential_infos for name, future in futures.items()}
    found = {name: [(one.mechanism.name, one.iterations) for one in of_user] for name, of_user in infos.items()}
    assert found == {"alice": [("SCRAM_SHA_256", 4096)], "bob": [("SCRAM_SHA_512", 8192)]}


def test_acls_of_two_clients() -> None:
    config = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
    with (
        simzk.KafkaServer(brokers=1, config=config) as server,
        closing(KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)) as admin,
    ):
        pattern = ResourcePattern(PythonResource.TOPIC, "orders", ACLResourcePatternType.PREFIXED)
        acl = ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
        assert admin.create_acls([acl])["failed"] == []
        client = librdkafka_admin.AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        any_type, any_pattern = ResourceType.ANY, ResourcePatternType.ANY
        rest = (None, None, AclOperation.ANY, AclPermissionType.ANY)
        anything = AclBindingFilter(any_type, None, any_pattern, *rest)  # type: ignore[arg-type]  # None is any
        (found,) = client.describe_acls(anything).result(PATIENCE_S)
        assert (found.name, found.principal, found.operation) == ("orders", "User:alice", AclOperation.READ)
        assert server.acls("topic", "orders", prefixed=True) == (AclEntry("User:alice", "Read"),)
