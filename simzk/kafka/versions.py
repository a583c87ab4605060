"""Which Kafka release a broker runs: the profile that decides what is written, and how.

Rules of the module (docs/reference/kafka.md §0.1, §0.2):
  - one row a release line, newest first; a row is the one above it with what the older release does otherwise;
  - a difference between releases is a field of the row, never an `if` on a number elsewhere;
  - a codec writes the one schema version that the row names, and reads all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError
from simzk.kafka import protocol
from simzk.kafka.schemas import broker_registration, cluster, controller, partition_state, topic
from simzk.kafka.topic_partition import Collections
from simzk.partitions.rules import ElectionRules, rules_of
from simzk.partitions.scala_order import json_partition_hash, scala_map_hash, string_hash

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.scala_order import Scala


@dataclass(frozen=True, kw_only=True)
class KafkaVersion:
    """One release line of Kafka in ZooKeeper mode.

    Args:
        name: as users say it, such as `3.9`.
        number: for the table of election rules.
        scala: the Scala line of the default build; it fixes the order of maps and sets.
        rules: how leaders are elected and ISRs trimmed.
        encode_broker: writes `/brokers/ids/N`.
        encode_topic: writes `/brokers/topics/T`.
        encode_state: writes a partition's `state`.
        encode_controller: writes `/controller` from a broker id and a time in ms.
        encode_feature: writes `/feature` from its status; None where there is no such znode (before 2.7).
        features: features are finalised for the cluster (KIP-584).
        persistent_paths: made at a broker's start, in this order (§1.3).
        defaults: Kafka's configuration keys and what they are by default.
        zookeeper_tools: the release's tools can be told to work in ZooKeeper (`--zookeeper`, gone in 3.0).
        tools_in_zookeeper: requests that the release's own tools carry out in ZooKeeper, in a session of their own.
        config_checks_controller: configuration is written while the controller is the one seen (KAFKA-16539).
        ids_by_controller: the controller gives out blocks of producer ids on first use (KIP-730); before, each broker
            takes one at its start.
        rebalances_while_reassigning: the automatic rebalance goes on beside reassignments (KAFKA-10149).
        rebalances_only_able: it takes only partitions that the preferred broker could lead (KAFKA-9866).
        judges_isr: the controller refuses ISRs by epoch, version and members before it writes (KAFKA-14140, -14154).
        topic_ids: topics have ids (KIP-516).
        takes_isr_changes: a controller serves leaders that ask it for another ISR, whatever its own broker does.
        isr_by_controller: leaders ask the controller for another ISR (KIP-497); before, they write it, and announce it.
        unclean_by_request: leaders from outside the ISR can be elected by request (KIP-460).
        reassigns_in_topic: a reassignment stands in the topic's znode (KIP-455); before, in memory and in
            `/admin/reassign_partitions` alone.
        broker_epochs: a registration has an epoch, and a broker that comes back at once is noticed (KIP-380).
        fenced: each write of a controller is fenced by its epoch, and its election is one multi (KAFKA-6082).
        idle_in_sync: a follower that has all there is stays in sync, dead or alive (KAFKA-7152).
        restores_assignment: partitions added to a topic that is being deleted are taken out again (KAFKA-6612).
        waits_hashed: partitions that wait for a leader are taken in the order of an immutable hash map of all.
        byteswapped_maps: JSON maps hash as Scala before 2.12.8 does it; it decides the order of partitions in lists.
        flat_assignments: the controller keeps one map of partitions, not one for each topic; it decides orders.
        producer_ids: brokers take blocks of producer ids (KIP-98, 0.11 and later).
        plain_client_ids: the tool takes client ids of letters, digits, '.', '_' and '-' only (0.10 and 0.11).
        registers_first: a broker registers before it stands for election (1.1 and later); before, it is the last thing
            that it does at its start.
        asks_first: a path is made only where asking shows that it is not there, and parents are made by name before
            what they hold: the client up to 1.0 (zkclient).
        makes_parents_of_ids: a registration is made from the top down, parents tried too (ZKCheckedEphemeral, 0.9-1.0).
        one_at_a_time: the controller takes partitions and replicas one after another, not in batches (up to 1.0).
        case_classes: its key is the case class TopicAndPartition (up to 1.0); it decides orders.
        clears_isr_changes: a new controller takes the announcements away that it finds (1.1 and later).
        deletion_mark: what `/admin/delete_topics/T` holds.
        broker_configs_by_tool: the tool writes the configuration of brokers in ZooKeeper too.
        election_tool_leaves_session: the tool for preferred elections never closes its second session (0.9-1.0).
    """

    name: str
    number: tuple[int, int, int]
    scala: Scala
    rules: ElectionRules
    encode_broker: Callable[[broker_registration.BrokerRegistration], bytes]
    encode_topic: Callable[[topic.TopicZnode], bytes]
    encode_state: Callable[[LeaderAndIsr], bytes]
    encode_controller: Callable[[int, int], bytes]
    encode_feature: Callable[[int], bytes] | None
    features: bool
    persistent_paths: tuple[str, ...]
    defaults: dict[str, str]
    zookeeper_tools: bool
    tools_in_zookeeper: frozenset[type]
    config_checks_controller: bool
    ids_by_controller: bool
    rebalances_while_reassigning: bool
    rebalances_only_able: bool
    judges_isr: bool
    topic_ids: bool
    takes_isr_changes: bool
    isr_by_controller: bool
    unclean_by_request: bool
    reassigns_in_topic: bool
    broker_epochs: bool
    fenced: bool
    idle_in_sync: bool
    restores_assignment: bool
    waits_hashed: bool
    byteswapped_maps: bool
    flat_assignments: bool
    producer_ids: bool
    plain_client_ids: bool
    registers_first: bool
    asks_first: bool
    makes_parents_of_ids: bool
    one_at_a_time: bool
    case_classes: bool
    clears_isr_changes: bool
    deletion_mark: bytes | None
    broker_configs_by_tool: bool
    election_tool_leaves_session: bool

    @property
    def collections(self) -> Collections:
        """What decides the order of the controller's maps and sets."""
        return Collections(self.scala, self.case_classes)

    def json_hash(self, partition: tuple[str, int]) -> int:
        """The hash of the map that stands for a partition in an announcement, which decides the order there."""
        if self.case_classes:
            return scala_map_hash(partition)
        return json_partition_hash(partition, byteswapped=self.byteswapped_maps)

    def requested_hash(self, partition: tuple[str, int]) -> int:
        """The same for a request of preferred elections; up to 1.0 a set of texts is written there (`Json.encode`)."""
        if self.case_classes:
            return string_hash(f'{{"topic":"{partition[0]}","partition":{partition[1]}}}')
        return self.json_hash(partition)


_PATHS_3_9: Final = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)

_PATHS_1_0: Final = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/config/topics",
    "/config/clients",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
)

_DEFAULTS_3_9: Final = {
    "zookeeper.session.timeout.ms": "18000",
    "zookeeper.max.in.flight.requests": "10",
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "unclean.leader.election.enable": "false",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.per.broker.percentage": "10",
    "leader.imbalance.check.interval.seconds": "300",
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.max.retries": "3",
    "controlled.shutdown.retry.backoff.ms": "5000",
    "delete.topic.enable": "true",
    "num.partitions": "1",
    "default.replication.factor": "1",
}

_3_9: Final = KafkaVersion(
    name="3.9",
    number=(3, 9, 0),
    scala="2.13",
    rules=rules_of((3, 9, 0)),
    encode_broker=broker_registration.encode_v5,
    encode_topic=topic.encode_v3,
    encode_state=partition_state.encode,
    encode_controller=controller.encode_v2,
    encode_feature=cluster.encode_feature_v2,
    features=True,
    persistent_paths=_PATHS_3_9,
    defaults=_DEFAULTS_3_9,
    zookeeper_tools=False,
    tools_in_zookeeper=frozenset(),
    config_checks_controller=True,
    ids_by_controller=True,
    rebalances_while_reassigning=True,
    rebalances_only_able=True,
    judges_isr=True,
    topic_ids=True,
    takes_isr_changes=True,
    isr_by_controller=True,
    unclean_by_request=True,
    reassigns_in_topic=True,
    broker_epochs=True,
    fenced=True,
    idle_in_sync=True,
    restores_assignment=True,
    waits_hashed=False,
    byteswapped_maps=False,
    flat_assignments=False,
    producer_ids=True,
    plain_client_ids=False,
    registers_first=True,
    asks_first=False,
    makes_parents_of_ids=False,
    one_at_a_time=False,
    case_classes=False,
    clears_isr_changes=True,
    deletion_mark=None,
    broker_configs_by_tool=False,
    election_tool_leaves_session=False,
)
_3_4: Final = replace(_3_9, name="3.4", number=(3, 4, 0), rules=rules_of((3, 4, 0)), config_checks_controller=False)
_2_8: Final = replace(
    _3_4,
    name="2.8",
    number=(2, 8, 0),
    rules=rules_of((2, 8, 0)),
    encode_controller=controller.encode_v1,
    encode_feature=cluster.encode_feature_v1,
    zookeeper_tools=True,
    ids_by_controller=False,
    rebalances_while_reassigning=False,
    judges_isr=False,
)
_2_7: Final = replace(
    _2_8,
    name="2.7",
    number=(2, 7, 0),
    rules=rules_of((2, 7, 0)),
    encode_topic=topic.encode_v2,
    persistent_paths=tuple(path for path in _PATHS_3_9 if path != "/config/ips"),
    topic_ids=False,
)
_2_4: Final = replace(
    _2_7,
    name="2.4",
    number=(2, 4, 0),
    scala="2.12",
    rules=rules_of((2, 4, 0)),
    encode_broker=broker_registration.encode_v4_of_2_12,
    encode_topic=topic.encode_v2_of_2_12,
    encode_feature=None,
    features=False,
    defaults=_DEFAULTS_3_9 | {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "10000"},
    tools_in_zookeeper=frozenset({protocol.AlterConfigRequest, protocol.AlterReassignmentsRequest}),
    takes_isr_changes=False,
    isr_by_controller=False,
    rebalances_only_able=False,
)
_2_2: Final = replace(
    _2_4,
    name="2.2",
    number=(2, 2, 0),
    rules=rules_of((2, 2, 0)),
    encode_topic=topic.encode_v1,
    tools_in_zookeeper=_2_4.tools_in_zookeeper | {protocol.ElectLeadersRequest},
    unclean_by_request=False,
    reassigns_in_topic=False,
    waits_hashed=True,
)
_1_1: Final = replace(
    _2_2,
    name="1.1",
    number=(1, 1, 0),
    rules=rules_of((1, 1, 0)),
    tools_in_zookeeper=_2_2.tools_in_zookeeper
    | {protocol.CreateTopicRequest, protocol.CreatePartitionsRequest, protocol.DeleteTopicRequest},
    broker_epochs=False,
    fenced=False,
    idle_in_sync=False,
    restores_assignment=False,
    waits_hashed=False,
    byteswapped_maps=True,
    flat_assignments=True,
)
_1_0: Final = replace(
    _1_1,
    name="1.0",
    number=(1, 0, 0),
    scala="2.11",
    rules=rules_of((1, 0, 0)),
    persistent_paths=_PATHS_1_0,
    registers_first=False,
    asks_first=True,
    makes_parents_of_ids=True,
    one_at_a_time=True,
    case_classes=True,
    clears_isr_changes=False,
    deletion_mark=b"",
    broker_configs_by_tool=True,
    election_tool_leaves_session=True,
)
_0_11: Final = replace(
    _1_0,
    name="0.11",
    number=(0, 11, 0),
    rules=rules_of((0, 11, 0)),
    persistent_paths=tuple(path for path in _PATHS_1_0 if path != "/log_dir_event_notification"),
    defaults=_1_0.defaults | {"delete.topic.enable": "false"},
    plain_client_ids=True,
)
_0_10_2: Final = replace(
    _0_11,
    name="0.10.2",
    number=(0, 10, 2),
    rules=rules_of((0, 10, 2)),
    persistent_paths=tuple(path for path in _0_11.persistent_paths if path != "/latest_producer_id_block"),
    defaults=_0_11.defaults | {"unclean.leader.election.enable": "true"},
    producer_ids=False,
)
VERSIONS: Final = {
    version.name: version for version in (_3_9, _3_4, _2_8, _2_7, _2_4, _2_2, _1_1, _1_0, _0_11, _0_10_2)
}


def kafka_version(name: str) -> KafkaVersion:
    """The profile of a release line.

    Args:
        name: a line such as `3.9`, or a release of it such as `3.9.1`.

    Raises:
        ConfigError: no such line is simulated.

    >>> kafka_version("3.9.1").name
    '3.9'
    """
    for line, version in VERSIONS.items():
        if name == line or name.startswith(f"{line}."):
            return version
    raise ConfigError(f"Kafka {name!r} is not simulated", where="version", right=f"one of {', '.join(VERSIONS)}")
