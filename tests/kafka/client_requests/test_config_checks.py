"""Invalid values of configurations, as clients send them: the broker refuses them, and nothing is written.

The texts are those of Kafka's own jars (`tests/kafka/test_config_values.py`); here is which requests check, and how.
"""

from __future__ import annotations

import json

import pytest

import simzk
from simzk.errors import ConfigError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from simzk.kafka.releases.settings import is_setting
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded_admin import exchanges

INVALID_TOPICS = {
    "cleanup.policy": (
        "delet",
        "Invalid value delet for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    "min.cleanable.dirty.ratio": (
        "1.5",
        "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
    ),
    "message.timestamp.type": (
        "X",
        "Invalid value X for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime",
    ),
    "retention.ms": ("-5", "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
    "compression.gzip.level": (
        "10",
        "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
    ),
    "remote.storage.enable": (
        "true",
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
    ),
}
"""Values that 3.9 refuses, with its texts."""
TOPIC, BROKER, LONG = 2, 4, 5
Described = DescribeConfigsResponse.DescribeConfigsResourceResult
SET, APPEND = 0, 2


def config_of(cluster: simzk.KafkaCluster, entity: str) -> dict[str, str]:
    """Return what ZooKeeper has as the configuration of an entity."""
    node = cluster.tree.get(f"/config/{entity}")
    found: dict[str, str] = {} if node is None else json.loads(node.data or b"{}")["config"]
    return found


def altered(
    cluster: simzk.KafkaCluster, kind: int, name: str, configs: dict[str, str], *, validate_only: bool = False
) -> tuple[int, str | None]:
    """Return the answer of broker 1 to AlterConfigs."""
    entries = [AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
    request = AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = MemoryClient(cluster, 1).call(request, 0, AlterConfigsResponse).responses
    cluster.run_until_quiet()
    return result.error_code, result.error_message


def changed(
    cluster: simzk.KafkaCluster, kind: int, name: str, *changes: tuple[str, int, str]
) -> tuple[int, str | None]:
    """Return the answer of broker 1 to IncrementalAlterConfigs."""
    entry = IncrementalAlterConfigsRequest.AlterableConfig
    entries = [entry(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configs=entries)], validate_only=False
    )
    (result,) = MemoryClient(cluster, 1).call(request, 1, IncrementalAlterConfigsResponse).responses
    cluster.run_until_quiet()
    return result.error_code, result.error_message


def test_topics_are_not_made_or_altered_with_invalid_values() -> None:
    with simzk.KafkaCluster("3.9", 1) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.run_until_quiet()
        prefix = "Invalid config value for resource ConfigResource(type=TOPIC, name='orders'): "
        for key, (value, text) in INVALID_TOPICS.items():
            refused = (ErrorCode.INVALID_CONFIG, prefix + text)
            assert altered(cluster, TOPIC, "orders", {key: value}) == refused
            assert altered(cluster, TOPIC, "orders", {key: value}, validate_only=True) == refused
            assert changed(cluster, TOPIC, "orders", (key, SET, value)) == refused
            entry = CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            topic = CreateTopicsRequest.CreatableTopic(
                name="new", num_partitions=1, replication_factor=1, configs=[entry]
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
            (made,) = MemoryClient(cluster, 1).call(request, 5, CreateTopicsResponse).topics
            assert (made.error_code, made.error_message) == (ErrorCode.INVALID_CONFIG, text)
        assert config_of(cluster, "topics/orders") == {}
        assert cluster.tree.get("/brokers/topics/new") is None


def test_what_is_appended_is_checked_with_what_stands_there() -> None:
    with simzk.KafkaCluster("3.9", 1) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.run_until_quiet()
        throttled = "leader.replication.throttled.replicas"
        assert changed(cluster, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))[0] == ErrorCode.NONE
        assert changed(cluster, TOPIC, "orders", (throttled, APPEND, "0:1"))[0] == ErrorCode.NONE
        assert changed(cluster, TOPIC, "orders", ("cleanup.policy", APPEND, "x"))[0] == ErrorCode.INVALID_CONFIG
        code, text = changed(cluster, TOPIC, "orders", (throttled, APPEND, "abc"))
        assert code == ErrorCode.INVALID_CONFIG
        assert "Invalid value [0:1, abc] for configuration" in (text or "")
        assert config_of(cluster, "topics/orders") == {"cleanup.policy": "delete,compact", throttled: "0:1"}


@pytest.mark.parametrize("release", ["2.3", "2.8", "3.9"])
def test_compaction_lags_that_conflict_are_another_error(release: str) -> None:
    """A conflict is an InvalidConfigurationException, which is answered without the resource."""
    with simzk.KafkaCluster(release, 1) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.run_until_quiet()
        lags = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
        text = "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
        assert altered(cluster, TOPIC, "orders", lags) == (ErrorCode.INVALID_CONFIG, text)


@pytest.mark.parametrize("release", ["1.1", "2.4", "3.0", "3.9"])
def test_brokers_are_not_altered_with_invalid_values(release: str) -> None:
    resource = "ConfigResource(type=BROKER, name='1')" if release != "1.1" else "Resource(type=BROKER, name='1'}"
    prefix = f"Invalid config value for resource {resource}: " if kafka_version(release).number < (3, 0) else ""
    resized = "Dynamic thread count update validation failed for num.io.threads=100, "
    resized += "value should not be greater than double the current value 8"
    cause = f"org.apache.kafka.common.config.ConfigException: {resized}"
    at_least = "greater than or equal to" if kafka_version(release).number >= (2, 8) else "equal or greater than"
    texts = {
        ("num.io.threads", "0"): "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ("message.max.bytes", "-1"): "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
        ("min.insync.replicas", "0"): "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
        ("leader.replication.throttled.rate", "-1"): (
            "Invalid value -1 for configuration leader.replication.throttled.rate: Value must be at least 0"
        ),
        ("log.roll.ms", "0"): f"requirement failed: log.roll.ms must be {at_least} 1",
        ("num.io.threads", "100"): f"Invalid value {cause} for configuration Invalid dynamic configuration",
    }
    with simzk.KafkaCluster(release, 1) as cluster:
        for (key, value), text in texts.items():
            assert altered(cluster, BROKER, "1", {key: value}) == (ErrorCode.INVALID_REQUEST, prefix + text), key
        assert config_of(cluster, "brokers/1") == {}
        assert altered(cluster, BROKER, "1", {"num.io.threads": "16"})[0] == ErrorCode.NONE
        assert altered(cluster, BROKER, "1", {"num.io.threads": "32"})[0] == ErrorCode.NONE  # of the present value


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("num.io.threads", 0, "Value must be at least 1"),
        ("min.insync.replicas", 0, "Value must be at least 1"),
        ("compression.type", "zip", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("log.retention.hours", 0, "requirement failed: log.retention.ms must be unlimited"),
        ("replica.lag.time.max.ms", 100, "replica.fetch.wait.max.ms should always be less than or equal to"),
    ],
)
def test_a_cluster_does_not_start_with_settings_that_a_broker_refuses(key: str, value: str | int, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        simzk.KafkaCluster("3.9", 1, config={key: value})


def described(cluster: simzk.KafkaCluster, name: str, version: int) -> dict[str, Described]:
    """Return the entries of a broker's configuration by key."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=BROKER, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = MemoryClient(cluster, 1).call(request, version, DescribeConfigsResponse).results
    return {entry.name: entry for entry in result.configs}


@pytest.mark.parametrize("name", ["1", ""])
@pytest.mark.parametrize("release", ["2.4", "2.5", "3.9"])
def test_throttle_rates_are_described_as_numbers_from_2_5_on(release: str, name: str) -> None:
    """KafkaConfig.configType knows the keys of DynamicConfig.Broker since 2.5; keys without a type are secrets."""
    rate = "leader.replication.throttled.rate"
    with simzk.KafkaCluster(release, 1) as cluster:
        assert altered(cluster, BROKER, name, {rate: "5000"})[0] == ErrorCode.NONE
        entry = described(cluster, name, 2 if release == "2.5" else 3 if release == "3.9" else 1)[rate]
    assert (entry.value, entry.is_sensitive, entry.read_only) == (
        (None, True, True) if release == "2.4" else ("5000", False, True)
    )
    if release != "2.4":
        assert entry.config_type == (LONG if release == "3.9" else 0)  # version 3 has the field
        assert [(one.name, one.value) for one in entry.synonyms] == [(rate, "5000")]


def test_internal_keys_are_described_if_they_are_set() -> None:
    """AbstractConfig.originals and nonInternalValues: 314 keys of 3.9, and each internal one that is given."""
    given = {"unstable.api.versions.enable": True, "log.initial.task.delay.ms": 100}
    with simzk.KafkaCluster("3.9", 1) as plain, simzk.KafkaCluster("3.9", 1, config=given) as cluster:
        usual, entries = described(plain, "1", 3), described(cluster, "1", 3)
    assert len(usual) == 314
    assert entries.keys() - usual.keys() == given.keys()
    entry = entries["log.initial.task.delay.ms"]
    assert (entry.value, entry.is_sensitive, entry.config_type) == ("100", False, LONG)
    assert [(one.value, one.source) for one in entry.synonyms] == [("100", 4), ("30000", 5)]


RECORDED_SETTINGS: dict[str, str | int | bool] = {
    "zookeeper.session.timeout.ms": 6000,
    "zookeeper.connection.timeout.ms": 30000,
    "controlled.shutdown.enable": True,
    "auto.leader.rebalance.enable": False,
    "auto.create.topics.enable": False,
    "num.network.threads": 2,
    "num.io.threads": 3,
    "num.partitions": 1,
    "log.flush.scheduler.interval.ms": 3000000,
    "delete.topic.enable": True,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "log.cleaner.dedupe.buffer.size": 8388608,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}
"""What the properties of the recorded brokers set."""


@pytest.mark.parametrize("release", list(dict.fromkeys(one["release"] for one in exchanges())))
def test_keys_are_described_in_the_recorded_order(release: str) -> None:
    """Up to 2.5 what the properties give comes first among keys of one bucket: here those of the recorded brokers."""
    recorded: dict[int, list[str]] = {}
    for exchange in exchanges():
        if exchange["release"] == release and exchange["api"] == "DescribeConfigs":
            for result in exchange.get("response", {}).get("Results", ()):
                names = [entry["Name"] for entry in result["Configs"] or ()]
                if result["ResourceType"] in (TOPIC, BROKER) and len(names) > len(
                    recorded.get(result["ResourceType"], ())
                ):
                    recorded[result["ResourceType"]] = names
    if not recorded:
        pytest.skip("the release has no DescribeConfigs")
    config = {key: value for key, value in RECORDED_SETTINGS.items() if is_setting(key, kafka_version(release))}
    with simzk.KafkaCluster(release, 1, config=config) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.run_until_quiet()
        for kind, wanted in recorded.items():
            resource = DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name="1" if kind == BROKER else "orders", configuration_keys=None
            )
            request = DescribeConfigsRequest(resources=[resource])
            (result,) = MemoryClient(cluster, 1).call(request, 0, DescribeConfigsResponse).results
            got = [entry.name for entry in result.configs]
            assert sorted(got) == sorted(wanted)
            assert got == wanted


@pytest.mark.parametrize("names", [["retention.ms", "segment.bytes"], ["segment.bytes", "retention.ms"]])
@pytest.mark.parametrize(("release", "first"), [("2.4", "segment.bytes"), ("3.9", "segment.bytes")])
def test_the_first_invalid_value_in_the_order_of_definition_is_reported(
    release: str, first: str, names: list[str]
) -> None:
    """ConfigDef.parse goes through the keys as they are defined."""
    with simzk.KafkaCluster(release, 1) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.run_until_quiet()
        code, text = altered(cluster, TOPIC, "orders", dict.fromkeys(names, "-5"))
    assert (code, f"for configuration {first}: " in (text or "")) == (
        ErrorCode.INVALID_CONFIG if release == "3.9" else ErrorCode.INVALID_REQUEST,
        True,
    )


@pytest.mark.parametrize(("release", "code"), [("3.5", ErrorCode.NONE), ("3.6", ErrorCode.INVALID_CONFIG)])
def test_values_of_a_topic_must_fit_to_those_of_the_broker(release: str, code: ErrorCode) -> None:
    """LogConfig.validate combines them since 3.6."""
    with simzk.KafkaCluster(release, 1, config={"log.cleaner.max.compaction.lag.ms": 100}) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.run_until_quiet()
        got, text = altered(cluster, TOPIC, "orders", {"min.compaction.lag.ms": "200"})
        made = cluster.create_topic("payments", 1, 1, config={"min.compaction.lag.ms": "200"})
        cluster.run_until_quiet()
        assert made.result().error == code
    conflict = "conflict topic config setting min.compaction.lag.ms (200) > max.compaction.lag.ms (100)"
    assert (got, text) == (code, None if code == ErrorCode.NONE else conflict)


@pytest.mark.parametrize("names", [["num.io.threads", "message.max.bytes"], ["message.max.bytes", "num.io.threads"]])
def test_a_broker_with_several_invalid_values_names_the_first_defined_one(names: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"Invalid value -1 for configuration message\.max\.bytes: Value must be at"):
        simzk.KafkaCluster("2.8", 1, config=dict.fromkeys(names, -1))
