"""Configurations, quotas, users, tokens, features and log directories for clients, as real brokers answer them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.metadata.entities import AclEntry, AclResource
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from simzk.kafka.releases.config_keys import broker_keys
from simzk.kafka.releases.settings import broker_defaults
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.security.scram import MIN_ITERATIONS
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded import NO_ID, TOPICS, replayed
from tests.kafka.client_requests.recorded_admin import (
    APIS,
    LAGS,
    PROPERTIES,
    comparable,
    exchanges,
    of_release,
    without_empty_topics,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.client_requests.recorded import Client, Exchange

CONFIGS = {"small": {"max.message.bytes": "2000"}, "compacted": {"cleanup.policy": "compact"}}
TWO_LOG_DIRS = (1, 0, 0)
"""First release of which broker 3 had two log directories: the first with DescribeLogDirs."""
TWO_DIRECTORIES = 3
"""The broker with two log directories."""
RACKS = {broker: f"rack{broker}" for broker in (1, 2, 3)}
MADE = TOPICS | {"cfg": [[1, 2]]}
"""The topics of the recorded cluster, by assignment."""
PARTS = ("configs", "quotas", "users", "features", "tokens", "log dirs", "acls")
RELEASES = list(dict.fromkeys(one["release"] for one in exchanges()))


def settings_of(release: str) -> tuple[dict[str, str | int | bool], dict[int, dict[str, str | int | bool]]]:
    """Return the settings of the recorded brokers: of all, and of single ones by broker."""
    number = kafka_version(release).number
    known = {*broker_keys(number), *broker_defaults(number)}
    config = PROPERTIES | ({"replica.lag.time.max.ms": LAGS[release]} if release in LAGS else {})
    own: dict[str, str | int | bool] = {"log.dirs": "/kafka/b3,/kafka/b3-second"}
    by_broker = {TWO_DIRECTORIES: own} if number >= TWO_LOG_DIRS else {}
    return {key: value for key, value in config.items() if key in known}, by_broker


def cluster_of(release: str) -> simzk.KafkaCluster:
    """Return three brokers with the settings and topics of the recorded cluster; broker 1 is the controller."""
    config, own = settings_of(release)
    cluster = simzk.KafkaCluster(release, 3, RACKS, config=config, broker_config=own, boot=False)
    for broker in cluster.brokers:
        cluster.restart(broker)
        cluster.run_until(lambda: cluster.controller == 1)
    cluster.run_until_quiet()
    for name, assignment in MADE.items():
        cluster.create_topic(name, assignment=dict(enumerate(assignment)), config=CONFIGS.get(name))
    cluster.run_until_quiet()
    return cluster


def differences(cluster: simzk.KafkaCluster, compared: list[Exchange]) -> list[str]:
    """Return the exchanges that differ from the recorded ones."""
    return differing(compared, lambda exchange: MemoryClient(cluster, exchange["broker"]), cluster.run_until_quiet)


def differing(
    compared: list[Exchange], connect: Callable[[Exchange], Client], run_until_quiet: Callable[[], object]
) -> list[str]:
    """Return the exchanges that differ from the recorded ones.

    Args:
        compared: the recorded exchanges.
        connect: returns a new connection to the broker of an exchange.
        run_until_quiet: lets time pass until the brokers have read what has changed.
    """
    found = []
    for exchange in compared:
        client = connect(exchange)
        got = comparable(replayed(client, exchange, lambda: NO_ID))
        client.connection.hang_up()
        if not exchange["api"].startswith("Describe"):
            run_until_quiet()
        wanted = comparable({name: exchange[name] for name in ("response", "closed", "no_answer") if name in exchange})
        if exchange["broker"] == TWO_DIRECTORIES and exchange["api"] == "DescribeLogDirs":
            got, wanted = without_empty_topics(got), without_empty_topics(wanted)  # which are where is chance
        if got != wanted:
            asked = f"{exchange['step']} | {exchange['api']} v{exchange['version']}"
            found.append(f"{asked}: expected\n  {json.dumps(wanted)}\n, got\n  {json.dumps(got)}")
    return found


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("part", PARTS)
def test_admin_requests(release: str, part: str) -> None:
    if compared := of_release(release, part):
        with cluster_of(release) as cluster:
            assert differences(cluster, compared) == []


def secured_cluster(release: str) -> simzk.KafkaCluster:
    """Return one broker with an authorizer, as in the second recording."""
    known = broker_keys(kafka_version(release).number)
    config: dict[str, str | int | bool] = {key: value for key, value in PROPERTIES.items() if key in known}
    config |= {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    config |= {"allow.everyone.if.no.acl.found": True, "auto.create.topics.enable": True}
    cluster = simzk.KafkaCluster(release, 1, {1: "rack1"}, config=config)
    for name in ("secret", "open"):
        cluster.create_topic(name, assignment={0: [1]})
    cluster.run_until_quiet()
    return cluster


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", RELEASES)
def test_acls_and_what_they_deny(release: str) -> None:
    with secured_cluster(release) as cluster:
        compared = [one for part in APIS for one in of_release(release, part, "second")]
        compared.sort(key=lambda one: int(one["place"]))
        assert differences(cluster, compared) == []


def test_a_scram_user_of_a_client_is_one_of_the_cluster() -> None:
    with simzk.KafkaCluster(brokers=1) as cluster:
        cluster.add_user("alice", "secret", salt=b"salt")
        cluster.run_until_quiet()
        node = cluster.tree.get("/config/users/alice")
        assert node is not None
        by_cluster = node.data
        client = MemoryClient(cluster, 1)
        kind = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
        salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", MIN_ITERATIONS)
        user = kind(name="alice", mechanism=1, iterations=MIN_ITERATIONS, salt=b"salt", salted_password=salted)
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[user])
        (result,) = client.call(request, 0, AlterUserScramCredentialsResponse).results
        assert result.error_code == 0
        node = cluster.tree.get("/config/users/alice")
        assert node is not None
        assert (node.data, node.stat().version) == (by_cluster, 1)


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(("release", "code"), [("3.1", 0), ("3.2", ErrorCode.INVALID_REQUEST)])
def test_a_key_that_is_altered_twice(release: str, code: int) -> None:
    """KAFKA-13552; librdkafka's test 0092 fails at a real 3.9.1 for this reason."""
    resource = AlterConfigsRequest.AlterConfigsResource
    entry = AlterConfigsRequest.AlterableConfig
    with simzk.KafkaCluster(release, 1) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.run_until_quiet()
        values = [entry(name="retention.ms", value="1000"), entry(name="retention.ms", value="2000")]
        request = AlterConfigsRequest(
            resources=[resource(resource_type=2, resource_name="orders", configs=values)], validate_only=False
        )
        (result,) = MemoryClient(cluster, 1).call(request, 1, AlterConfigsResponse).responses
        assert result.error_code == code
        node = cluster.tree.get("/config/topics/orders")
        assert node is not None
        assert json.loads(node.data or b"")["config"] == ({} if code else {"retention.ms": "2000"})


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", ["1.1", "2.4", "2.8", "3.9"])
@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("key", ["retention.ms", "no.such.key"])
def test_a_topic_that_does_not_exist_is_not_altered(release: str, key: str, validate_only: bool) -> None:
    """Recorded of 2.4.1, 2.8.2 and 3.9.1: what is missing is asked first, also if nothing would be written."""
    resource = AlterConfigsRequest.AlterConfigsResource
    configs = [AlterConfigsRequest.AlterableConfig(name=key, value="long")]
    names = ("missing", "not/valid")
    with simzk.KafkaCluster(release, 1) as cluster:
        request = AlterConfigsRequest(
            resources=[resource(resource_type=2, resource_name=name, configs=configs) for name in names],
            validate_only=validate_only,
        )
        results = MemoryClient(cluster, 1).call(request, 0, AlterConfigsResponse).responses
    found = {one.resource_name: (one.error_code, one.error_message) for one in results}
    if kafka_version(release).number >= (2, 8):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found == {name: (code, f"The topic '{name}' does not exist.") for name in names}
        return
    assert found["missing"] == (ErrorCode.UNKNOWN_SERVER_ERROR, 'Topic "missing" does not exist.')
    assert found["not/valid"][0] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_keys_that_the_broker_does_not_know_are_described() -> None:
    """Real brokers of 1.1.1, 2.4.1, 2.8.2 and 3.9.1 describe them without their values, and 1.0.2 does not."""
    jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    config = {
        "super.users": "User:admin",
        jaas: "org.apache.kafka.common.security.plain.PlainLoginModule required;",
    }
    described = {}
    for release in ("1.0", "1.1", "3.9"):
        with simzk.KafkaCluster(release, 1, config=config) as cluster:
            kind = DescribeConfigsRequest.DescribeConfigsResource
            resource = kind(resource_type=4, resource_name="1", configuration_keys=None)
            version = 0 if release == "1.0" else 1
            request = DescribeConfigsRequest(resources=[resource], include_synonyms=version > 0)
            (result,) = MemoryClient(cluster, 1).call(request, version, DescribeConfigsResponse).results
        described[release] = {one.name: one for one in result.configs if one.name in config}
    assert described["1.0"] == {}
    for found in (described["1.1"], described["3.9"]):
        assert found.keys() == config.keys()
        for name, one in found.items():
            assert (one.value, one.is_sensitive, one.read_only, one.config_source) == (None, True, True, 4)
            assert [(synonym.name, synonym.value, synonym.source) for synonym in one.synonyms] == [(name, None, 4)]


def test_altered_quotas_are_answered_in_the_order_of_their_maps() -> None:
    """Recorded of 2.8.2 and 3.9.1."""
    users: list[str | None] = ["one", "two", "three", "four", "five", "six", None]
    entry, part = AlterClientQuotasRequest.EntryData, AlterClientQuotasRequest.EntityData
    change = AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1.0, remove=False)
    app = part(entity_type="client-id", entity_name="app")
    entities = [
        parts
        for name in users
        for user in [part(entity_type="user", entity_name=name)]
        for parts in ([user], [user, app])
    ]
    entries = [entry(entity=parts, ops=[change]) for parts in (*entities, entities[0])]
    with simzk.KafkaCluster("3.9", 1) as cluster:
        request = AlterClientQuotasRequest(entries=entries, validate_only=True)
        answered = MemoryClient(cluster, 1).call(request, 1, AlterClientQuotasResponse).entries
    found = [[(part.entity_type, part.entity_name) for part in one.entity] for one in answered]
    alone = [[("user", name)] for name in ("six", "two", "four", "three", None, "one", "five")]
    both = [[("client-id", "app"), ("user", name)] for name in ("one", "three", "six", "four", None, "five", "two")]
    assert [one for one in found if len(one) == 1] == alone
    assert [one for one in found if len(one) == 2] == both
    assert found[:3] == [alone[0], both[0], alone[1]]


@pytest.mark.parametrize("release", ["2.8", "3.9"])
def test_a_strict_filter_without_components_matches_no_quota(release: str) -> None:
    """Recorded of 2.8.2 and 3.9.1."""
    part = AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="alice")
    change = AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1.0, remove=False)
    with simzk.KafkaCluster(release, 1) as cluster:
        client = MemoryClient(cluster, 1)
        entry = AlterClientQuotasRequest.EntryData(entity=[part], ops=[change])
        client.call(AlterClientQuotasRequest(entries=[entry]), 0, AlterClientQuotasResponse)
        for strict, count in ((True, 0), (False, 1)):
            request = DescribeClientQuotasRequest(components=[], strict=strict)
            response = client.call(request, 0, DescribeClientQuotasResponse)
            assert (response.error_code, len(response.entries or ())) == (0, count)


def test_a_failed_log_directory_is_described() -> None:
    with simzk.KafkaCluster(brokers=1, log_dirs=2) as cluster:
        cluster.create_topic("orders", assignment={0: [1], 1: [1]})
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1)

        def described() -> list[tuple[str, int, list[str]]]:
            found = client.call(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse).results
            return [(one.log_dir, one.error_code, [topic.name for topic in one.topics]) for one in found]

        assert described() == [("/kafka/b1-0", 0, ["orders"]), ("/kafka/b1-1", 0, ["orders"])]
        cluster.fail_log_dir(1, 0)
        cluster.run_until_quiet()
        assert described() == [
            ("/kafka/b1-0", ErrorCode.KAFKA_STORAGE_ERROR, []),
            ("/kafka/b1-1", 0, ["orders"]),
        ]


def test_acls_reach_other_brokers_and_survive_a_restart() -> None:
    config = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:admin"}
    with simzk.KafkaCluster(brokers=2, config=config | {"allow.everyone.if.no.acl.found": "true"}) as cluster:
        authorizers = [broker.authorizer for broker in cluster.brokers.values()]
        topic = AclResource("Topic", "orders-eu")
        assert all(one.allows("Read", topic) for one in authorizers)
        cluster.add_acls("topic", "orders", [AclEntry("User:ANONYMOUS", "Write")], prefixed=True)
        cluster.run_until_quiet()
        seen = [[one.allows(what, topic) for what in ("Write", "Describe", "Read")] for one in authorizers]
        assert seen == [[True, True, False]] * 2
        cluster.add_acls("topic", "*", [AclEntry("User:*", "All", "Deny")])
        cluster.run_until_quiet()
        assert not any(one.allows("Write", topic) for one in authorizers)
        cluster.kill(2)
        cluster.run_for(30)
        cluster.restart(2)
        cluster.run_until_quiet()
        assert cluster.brokers[2].authorizer.acls == authorizers[0].acls
        cluster.remove_acls("topic", "*")
        cluster.remove_acls("topic", "orders", prefixed=True)
        cluster.run_until_quiet()
        assert [broker.authorizer.acls for broker in cluster.brokers.values()] == [{}, {}]


def test_without_open_access_a_client_may_do_nothing() -> None:
    config = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    with simzk.KafkaCluster(brokers=1, config=config) as cluster:
        cluster.create_topic("orders", assignment={0: [1]})
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1)
        one = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="orders")
        (result,) = client.call(DescribeConfigsRequest(resources=[one]), 4, DescribeConfigsResponse).results
        assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
