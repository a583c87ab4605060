"""Unmodified clients log in to `simzk.KafkaServer`: kafka-python and librdkafka (confluent-kafka)."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import simzk
from simzk.errors import ConfigError
from simzk.serve.tcp.tls import Tls
from simzk.wire.frames import framed
from tests.kafka.security.sasl_client import JAAS
from tests.serve.tls_files import FILES, client_tls
from tests.serve.tls_records import RecordClient
from tests.waiting import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import KafkaAdminClient

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

POLL_S = 0.1
API_VERSIONS = (18).to_bytes(2) + bytes(2)
"""Key and version 0 of the request, before its correlation id and its empty client id."""
SUBJECT = "1.2.840.113549.1.9.1=#160d63406578616d706c652e6f7267,OU=a,O=simzk\\, tests,C=NL"
TLS = Tls(FILES / "server.pem", FILES / "server.key", FILES / "authority.pem", "want")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def server() -> Iterator[simzk.KafkaServer]:
    """A broker with SASL, where alice has the same password by every mechanism, and a topic."""
    config = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS}
    with simzk.KafkaServer(brokers=1, config=config, security="SASL_PLAINTEXT") as made:
        for mechanism in MECHANISMS[1:]:
            made.add_user("alice", "secret", mechanism=mechanism)
            made.run_until_quiet()
        made.create_topic("orders", partitions=1, replication_factor=1)
        made.run_until_quiet()
        yield made


def python_options(server: simzk.KafkaServer, mechanism: str, password: str) -> dict[str, Any]:
    """Return options of kafka-python."""
    return {
        "bootstrap_servers": server.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


def librdkafka_options(server: simzk.KafkaServer, mechanism: str, password: str) -> dict[str, Any]:
    """Return options of librdkafka."""
    return {
        "bootstrap.servers": server.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        "log_level": 0,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(server: simzk.KafkaServer, mechanism: str) -> None:
    options = python_options(server, mechanism, "secret")
    with closing(KafkaProducer(**options)) as producer:
        sent = producer.send("orders", mechanism.encode()).get(PATIENCE_S)
    with closing(KafkaConsumer(**options, enable_auto_commit=False)) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek(TopicPartition("orders", 0), sent.offset)
        assert next(consumer).value == mechanism.encode()


@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_kafka_python_with_a_wrong_password(server: simzk.KafkaServer, mechanism: str) -> None:
    with pytest.raises(kafka_errors.KafkaError):
        KafkaAdminClient(**python_options(server, mechanism, "wrong"), bootstrap_timeout_ms=2000)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in(server: simzk.KafkaServer, mechanism: str) -> None:
    delivered = []
    producer = Producer(librdkafka_options(server, mechanism, "secret"))
    producer.produce(
        "orders", mechanism.encode(), on_delivery=lambda error, message: delivered.append((error, message))
    )
    assert producer.flush(PATIENCE_S) == 0
    ((error, message),) = delivered
    assert error is None
    assert message.value() == mechanism.encode()


@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_librdkafka_with_a_wrong_password(server: simzk.KafkaServer, mechanism: str) -> None:
    problems: list[str] = []
    options = librdkafka_options(server, mechanism, "wrong") | {"error_cb": lambda error: problems.append(error.str())}
    client = AdminClient(options)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    for _ in range(round(PATIENCE_S / POLL_S)):
        if not problems:
            client.poll(POLL_S)
    assert any("Authentication failed" in problem for problem in problems), problems


@pytest.mark.parametrize("security", ["SSL", "SASL_SSL"])
def test_clients_trust_the_certificate_of_the_server(security: str) -> None:
    config = {"listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS}
    with simzk.KafkaServer(brokers=1, config=config, security=security) as server:
        server.create_topic("orders", partitions=1, replication_factor=1)
        server.run_until_quiet()
        login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "secret"}
        common: dict[str, Any] = {"bootstrap_servers": server.bootstrap_servers, "security_protocol": security}
        common |= login if security == "SASL_SSL" else {}
        with closing(KafkaProducer(**common, ssl_cafile=str(server.certificate))) as producer:
            producer.send("orders", b"large" * 100_000).get(PATIENCE_S)
        options: dict[str, Any] = {
            "bootstrap.servers": server.bootstrap_servers,
            "security.protocol": security,
            "ssl.ca.location": str(server.certificate),
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "log_level": 0,
        }
        assert "orders" in AdminClient(options).list_topics(timeout=PATIENCE_S).topics
        del options["ssl.ca.location"]
        with pytest.raises(KafkaException):  # it does not trust the certificate
            AdminClient(options).list_topics(timeout=1)
        with pytest.raises(kafka_errors.KafkaError):  # no TLS
            KafkaAdminClient(bootstrap_servers=server.bootstrap_servers, bootstrap_timeout_ms=1000)
        certificate = server.certificate
    assert certificate is not None
    assert not certificate.exists()


def test_the_subject_of_a_certificate_is_the_principal() -> None:
    with simzk.KafkaServer(brokers=1, security="SSL", tls=TLS) as server:
        context = client_tls()
        context.check_hostname = False
        admin = KafkaAdminClient(
            bootstrap_servers=server.bootstrap_servers, security_protocol="SSL", ssl_context=context
        )
        with closing(admin):
            admin.describe_cluster()
            with server.cluster.lock:
                connections = list(server.cluster.brokers[1].client_api.connections)
                principals = {connection.principal for connection in connections}
    assert principals == {f"User:{SUBJECT}"}


def test_each_response_has_a_tls_record_of_its_own() -> None:
    frames = [framed(API_VERSIONS + correlation.to_bytes(4) + bytes(2)) for correlation in range(5)]
    with (
        simzk.KafkaServer(brokers=1, security="SSL", tls=TLS) as server,
        RecordClient(int(server.bootstrap_servers.rpartition(":")[2]), client_tls()) as client,
    ):
        client.send(b"".join(frames))
        answers = [client.message() for _ in frames]
    assert [(int.from_bytes(data[4:8]), records) for data, records in answers] == [(at, 1) for at in range(5)]


def test_options_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="these ports have no TLS"):
        simzk.KafkaServer(brokers=1, tls=TLS)
    with pytest.raises(ConfigError, match="cannot be read"):
        simzk.KafkaServer(brokers=1, security="SSL", tls=Tls(FILES / "missing.pem"))
