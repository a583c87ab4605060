"""Partitions of Metadata are encoded from columns and kept; they are those that the rule gives one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from simzk.jvm.hash_map import hash_map_order
from simzk.kafka.client_requests.handlers import Context, ServingBroker
from simzk.kafka.client_requests.metadata import MetadataApi
from simzk.kafka.metadata.cache import MetadataCache
from simzk.kafka.metadata.changes import LEADER_DURING_DELETE, PartitionUpdate
from simzk.kafka.protocol.codec import encode
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import MetadataRequest, MetadataResponse
from simzk.kafka.releases.settings import BrokerConfig
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.requests import MetadataUpdateRequest
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.protocol.structs import Message
    from simzk.kafka.releases.profile import KafkaVersion

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition

BROKERS = st.integers(0, 40)
IDS = st.lists(BROKERS, max_size=4, unique=True).map(tuple)
LEADERS = st.one_of(st.just(-1), st.just(LEADER_DURING_DELETE), BROKERS)
UPDATES = st.builds(
    lambda topic, number, leader, epoch, isr, replicas: PartitionUpdate(
        TopicPartition(topic, number), LeaderAndIsr(leader, epoch, isr, 1), ReplicaAssignment(replicas)
    ),
    st.sampled_from(["a", "b", "__consumer_offsets"]),
    st.integers(0, 5),
    LEADERS,
    st.integers(0, 2**31 - 1),
    IDS,
    IDS,
)
REQUESTS = st.builds(
    lambda updates, live: MetadataUpdateRequest(1, 1, 0, updates, dict.fromkeys(live)),
    st.lists(UPDATES, max_size=12),
    st.just([1, 2, 3]) | st.lists(BROKERS, max_size=20),
)
ASKED = st.one_of(st.none(), st.lists(st.sampled_from(["a", "b", "c"]), unique=True))


def shown(cache: MetadataCache, partition: TopicPartition, rules: KafkaVersion, version: int) -> Partition:
    """Return a partition as the rules of `metadata` show it."""
    live, state = cache.live_brokers, cache.partitions[partition]
    replicas, isr = list(cache.assignments[partition]), list(state.isr)
    if rules.api.replicas_in_hash_set:
        replicas = hash_map_order(replicas, hash_of=int)
    made = Partition(
        partition_index=partition.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=[replica for replica in replicas if replica not in live],
    )
    if version == 0:
        made.replica_nodes = [replica for replica in replicas if replica in live]
        made.isr_nodes = [replica for replica in isr if replica in live]
        if (made.replica_nodes, made.isr_nodes) != (replicas, isr):
            made.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    if state.leader not in live:
        made.leader_id = -1
        made.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        if rules.number < (2, 4):
            made.isr_nodes = []
        if rules.number < (2, 6):
            made.leader_epoch = -1
        if rules.api.confuses_leader_with_itself and version >= 6:
            made.error_code = ErrorCode.LISTENER_NOT_FOUND
    return made


def api_of(cache: MetadataCache, rules: KafkaVersion) -> MetadataApi:
    """Return the Metadata of a broker that creates no topics."""

    def refuse(*_: object) -> None:
        raise AssertionError("nothing is created")

    config = BrokerConfig(rules, {"auto.create.topics.enable": False})
    unused: Any = None
    serving = ServingBroker(
        *(1, rules, config, unused, cache, unused, unused, unused, unused),
        *(lambda: False, lambda broker, _listener: ("h", broker), lambda: 0),
    )
    return MetadataApi(serving, lambda: "c", refuse, lambda *_: None)  # type: ignore[arg-type]


def answered(api: MetadataApi, version: int, names: list[str] | None) -> MetadataResponse:
    """Return the answer to a request for topics, None for all."""
    answers: list[Message] = []
    asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    api.serve_metadata(Context(version, "test"), request, answers.append)  # type: ignore[arg-type]
    (answer,) = answers
    assert isinstance(answer, MetadataResponse)
    return answer


@given(
    st.sampled_from(["0.8.2", "0.10.2", "2.4", "3.9"]),
    st.lists(st.tuples(REQUESTS, st.integers(0, 12), ASKED), min_size=1, max_size=6),
)
def test_partitions_are_shown_as_the_cache_is_now(
    release: str, rounds: list[tuple[MetadataUpdateRequest, int, list[str] | None]]
) -> None:
    rules = kafka_version(release)
    cache = MetadataCache(forgets=rules.broker.cache_drops_dead_brokers)
    api = api_of(cache, rules)
    for update, version, names in rounds:
        cache.update(update.controller_id, update.updates, update.live_brokers, update.topic_ids)
        for _ in range(2):  # the second answer has what the first one encoded
            answer = answered(api, version, names)
            copies = [Topic(**{name: getattr(topic, name) for name in Topic.__slots__}) for topic in answer.topics]
            for topic in copies:
                known = cache.topics.get(topic.name or "", {})
                topic.partitions = [
                    shown(cache, TopicPartition(topic.name or "", number), rules, version) for number in known
                ]
            expected = MetadataResponse(
                brokers=answer.brokers,
                cluster_id=answer.cluster_id,
                controller_id=answer.controller_id,
                topics=copies,
                cluster_authorized_operations=answer.cluster_authorized_operations,
            )
            assert encode(answer, version) == encode(expected, version)
            if names is None:
                assert [topic.name for topic in answer.topics] == list(cache.topics)


def test_a_change_of_one_topic_leaves_the_encoded_partitions_of_the_others() -> None:
    rules = kafka_version("3.9")
    cache = MetadataCache(forgets=True)

    def update(*topics: str, live: Sequence[int] = (1, 2)) -> None:
        state, assignment = LeaderAndIsr(1, 0, (1, 2), 1), ReplicaAssignment((1, 2))
        updates = [PartitionUpdate(TopicPartition(topic, 0), state, assignment) for topic in topics]
        cache.update(1, updates, dict.fromkeys(live), {})

    def partitions() -> dict[str | None, object]:
        return {topic.name: topic.partitions for topic in answered(api, 12, None).topics}

    api = api_of(cache, rules)
    update("a", "b")
    first = partitions()
    update("b")
    second = partitions()
    assert second["a"] is first["a"]
    assert second["b"] is not first["b"]
    update(live=(1, 2, 3))
    assert partitions()["a"] is not first["a"]
