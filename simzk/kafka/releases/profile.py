"""Release profile: the fields that a row of `simzk.kafka.releases.versions` fills for one Kafka release.

Rules of the module (docs/reference/kafka.md §0.1, §0.2):
  - a difference between releases is a field here, never an `if` on a number elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from simzk.jvm.scala_maps import json_partition_hash, scala_map_hash, string_hash
from simzk.kafka import paths
from simzk.kafka.topic_partition import Collections, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simzk.jvm.scala_maps import Scala
    from simzk.kafka.broker.fetch_order import FetchNaming
    from simzk.kafka.schemas import broker_registration, feature, topic
    from simzk.kafka.schemas.delegation_token import DelegationToken
    from simzk.kafka.schemas.reading import Reading
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.rules import ElectionRules


@dataclass(frozen=True, kw_only=True)
class KafkaVersion:
    """One release line of Kafka in ZooKeeper mode.

    Args:
        name: as users say it, such as `3.9`.
        number: for the table of election rules.
        scala: the Scala line of the build that was recorded; it fixes the order of maps and sets.
        rules: how leaders are elected and ISRs trimmed.
        encode_broker: writes `/brokers/ids/N`.
        encode_topic: writes `/brokers/topics/T`.
        encode_state: writes a partition's `state`.
        encode_controller: writes `/controller` from a broker id and a time in ms.
        encode_reassignment: writes `/admin/reassign_partitions`.
        encode_election: writes `/admin/preferred_replica_election`.
        encode_config_change: writes the notice that an entity's configuration changed.
        encode_feature: writes `/feature` from its status and features; None where there is no such znode (before 2.7).
        reading: how znodes are read.
        cluster_ids: the cluster has an id (KIP-78, 0.10.1 and later).
        features: features are finalised for the cluster (KIP-584).
        persistent_paths: made at a broker's start, in this order (§1.3).
        defaults: Kafka's configuration keys and what they are by default.
        zookeeper_tools: the release's tools can be told to work in ZooKeeper (`--zookeeper`, gone in 3.0).
        tools_in_zookeeper: requests that the release's own tools carry out in ZooKeeper, in a session of their own.
        config_checks_controller: configuration is written while the controller is the one seen (KAFKA-16539).
        removes_empty_quotas: a quota's znode goes with its last key, where none stands below it (KAFKA-14285, 3.5).
        configured: the types of entities that have a configuration.
        default_entities: there are configurations of all clients, users or brokers without one (`<default>`).
        ids_by_controller: the controller gives out blocks of producer ids on first use (KIP-730); before, each broker
            takes one at its start.
        rebalances_while_reassigning: the automatic rebalance goes on beside reassignments (KAFKA-10149).
        rebalances_only_able: it takes only partitions that the preferred broker could lead (KAFKA-9866).
        judges_isr: the controller refuses ISRs by epoch, version and members before it writes (KAFKA-14140, -14154).
        topic_ids: topics have ids (KIP-516).
        takes_isr_changes: a controller serves leaders that ask it for another ISR, whatever its own broker does.
        isr_by_controller: leaders ask the controller for another ISR (KIP-497); before, they write it, and announce it.
        announces_isr_changes: leaders that write ISRs themselves tell of it (0.9 and later).
        unclean_by_request: leaders from outside the ISR can be elected by request (KIP-460).
        elects_when_allowed: where unclean election is turned on for a topic, the controller tries it at once (2.1 and
            later); before, at the next event that brings partitions online.
        reassigns_in_topic: a reassignment stands in the topic's znode (KIP-455); before, in memory and in
            `/admin/reassign_partitions` alone.
        leaves_list_together: partitions leave `/admin/reassign_partitions` together, not one by one (2.0 and later).
        deletes_after_look: that znode is deleted after a look whether it is there (`deletePath`, 2.2 and later).
        strict_reassignments: an unknown field in that znode makes all of it unusable (2.0 and later).
        stumbles_over_unknown: a preferred election by znode that names an unknown partition never takes the znode away
            (up to 2.1, recorded).
        stumbles_over_no_json: nor does one whose znode is no JSON (up to 1.0, recorded).
        stuck_notifications: a notification that cannot be used is tried again and again, and what comes after it never
            (0.9 to 1.1).
        counts_imbalance: the controller counts the partitions that another than the preferred broker leads (2.7 and
            later), and fails where there is no preferred one, since nobody holds the partition.
        moves_to_dead: a reassignment to a broker that is dead waits for it (KAFKA-4214, 0.10.1); before, it is dropped.
        reads_reassignments_mutably: a reassignment's znode is read into a mutable map (up to 0.8.1); it decides orders.
        reassigns_by_topic: the tool looks at the partitions of a reassignment topic by topic (2.1 and later); it
            decides the order in which it writes them.
        reassign_tool_looks: what the tool makes sure of before it asks for a reassignment: that nothing is named twice
            (0.8.2 and later), that some partition is there (0.9 and later), that all are and no reassignment is under
            way (0.10.1 and later), that no list of replicas is empty and the brokers live (0.11 and later).
        widens_assignment: a reassignment that waits names its new replicas in the topic's znode (0.8.1 and later).
        broker_epochs: a registration has an epoch, and a broker that comes back at once is noticed (KIP-380).
        fenced: each write of a controller is fenced by its epoch, and its election is one multi (KAFKA-6082).
        idle_in_sync: a follower that has all there is stays in sync, dead or alive (KAFKA-7152).
        deletes_topics_together: topics that wait for their deletion go on in one batch, not one by one (2.5 and later).
        restores_assignment: partitions added to a topic that is being deleted are taken out again (KAFKA-6612).
        isr_checks_per_lag: how often a leader looks for late followers in the time in which they are late.
        checks_set_of_led: it looks in the order of a set of what it leads (up to 0.8.1).
        rereads_refused_isr: an ISR whose write was refused, though it stands, is written (KAFKA-1382, 0.8.2 and later).
        refreshes_isr: whether a replica that goes offline is in the ISR is read; 0.8.0 goes by what it knows.
        shutdown_by_topic: a controlled shutdown goes by the topics' znodes (0.8.0).
        waits_in_map: partitions that wait for a leader are taken in the order of a mutable map (1.1 and 2.0).
        waits_hashed: partitions that wait for a leader are taken in the order of an immutable hash map of all.
        byteswapped_maps: JSON maps hash as Scala before 2.12.8 does it; it decides the order of partitions in lists.
        flat_assignments: the controller keeps one map of partitions, not one for each topic; it decides orders.
        producer_ids: brokers take blocks of producer ids (KIP-98, 0.11 and later).
        refuses_collisions: topics may not differ in '.' and '_' alone (0.9 and later).
        plain_client_ids: the tool takes client ids of letters, digits, '.', '_' and '-' only (0.10 and 0.11).
        registers_first: a broker registers before it stands for election (0.8.0, and again from 1.1 on); between, it is
            the last thing that it does at its start.
        waits_for_its_own: a broker that finds its own registration of before waits a session's timeout and tries again
            (up to 0.8.2, the same host and port); later it cannot start.
        looks_before_election: who stands for election looks first whether there is a controller (0.8.2 and later).
        asks_first: a path is made only where asking shows that it is not there, and parents are made by name before
            what they hold: the client up to 1.0 (zkclient).
        makes_parents_of_ids: a registration is made from the top down, parents tried too (ZKCheckedEphemeral, 0.9-1.0).
        one_at_a_time: the controller takes partitions and replicas one after another, not in batches (up to 1.0).
        case_classes: its key is the case class TopicAndPartition (up to 1.0); it decides orders.
        elections_as_texts: a request of preferred elections is a set of texts (0.8.1 to 1.0); it decides orders.
        names_fetched: how a follower's fetch comes to the order in which it names partitions.
        case_classes_in_brokers: so is that of what a leader is to announce (up to 0.10.1).
        clears_isr_changes: a new controller takes the announcements away that it finds (1.1 and later).
        deletion: who asks for the deletion of a topic: the tool; 0.8.1 has none, and an operator makes the znode; the
            tool of 0.8.0 deletes the topic's znodes itself, and the controller deletes nothing.
        drops_disabled_deletions: a controller that may not delete takes the requests away (KAFKA-3175, 0.10.2).
        deletion_mark: what `/admin/delete_topics/T` holds.
        broker_configs_by_tool: the tool writes the configuration of brokers in ZooKeeper too.
        config_with_partitions: what the tool does with a topic's configuration when it adds partitions: 0.8.2 writes it
            again, 0.8.1 writes an empty one.
        encode_token: writes a delegation token; None where there are none (before 1.1, KIP-48).
        brokers_in_long_map: a broker keeps who lives in a `LongMap` (2.1 and later), before in a `HashMap`; its order
            decides where a topic is placed that it is asked to create without racks.
        credentials_by_tool: the tool writes users' credentials in ZooKeeper (before KIP-554, 2.7).
        open_to_all: what is created with these paths is open to all, with `zookeeper.set.acl` too: `/consumers` by
            intention (1.1 alone forgot it), up to 0.10 others by oversight (all recorded).
        sensitive: with `zookeeper.set.acl` the world cannot read what begins so.
        heeds_min_isr: a topic or broker says how many replicas must be in sync for a write that all must have
            (`min.insync.replicas`, 0.8.2 and later).
        counts_acks: a producer may ask for any number of acks (up to 0.8.2).
        answers_when_following: a leader that follows from now on answers producers that wait (0.10.0 and later).
        truncates_to_watermark: who follows another leader first cuts its log back to its high watermark (up to 0.10.2,
            KIP-101).
        watermark_waits: the high watermark waits for followers outside the ISR that were just caught up (0.10.2).
        watermark_waits_for_live: but not for those that the leader believes dead (3.6).
        watermark_needs_min_isr: it rises only with `min.insync.replicas` in the ISR (KAFKA-15583, 3.7).
        forgets_dead_brokers: a broker's cache forgets brokers that the controller names no more (0.8.2 and later).
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
    encode_reassignment: Callable[[Mapping[TopicPartition, Iterable[int]]], bytes]
    encode_election: Callable[[Iterable[TopicPartition]], bytes]
    encode_config_change: Callable[[str], bytes]
    encode_feature: Callable[[int, Mapping[str, feature.Levels]], bytes] | None
    reading: Reading
    cluster_ids: bool
    features: bool
    persistent_paths: tuple[str, ...]
    defaults: dict[str, str]
    zookeeper_tools: bool
    tools_in_zookeeper: frozenset[type]
    config_checks_controller: bool
    removes_empty_quotas: bool
    configured: frozenset[str]
    default_entities: bool
    ids_by_controller: bool
    rebalances_while_reassigning: bool
    rebalances_only_able: bool
    judges_isr: bool
    topic_ids: bool
    takes_isr_changes: bool
    isr_by_controller: bool
    announces_isr_changes: bool
    unclean_by_request: bool
    elects_when_allowed: bool
    reassigns_in_topic: bool
    leaves_list_together: bool
    deletes_after_look: bool
    strict_reassignments: bool
    stumbles_over_unknown: bool
    stumbles_over_no_json: bool
    stuck_notifications: bool
    counts_imbalance: bool
    moves_to_dead: bool
    reads_reassignments_mutably: bool
    reassigns_by_topic: bool
    reassign_tool_looks: frozenset[str]
    widens_assignment: bool
    broker_epochs: bool
    fenced: bool
    idle_in_sync: bool
    deletes_topics_together: bool
    restores_assignment: bool
    isr_checks_per_lag: int
    checks_set_of_led: bool
    rereads_refused_isr: bool
    refreshes_isr: bool
    shutdown_by_topic: bool
    waits_in_map: bool
    waits_hashed: bool
    byteswapped_maps: bool
    flat_assignments: bool
    producer_ids: bool
    refuses_collisions: bool
    plain_client_ids: bool
    registers_first: bool
    waits_for_its_own: bool
    looks_before_election: bool
    asks_first: bool
    makes_parents_of_ids: bool
    one_at_a_time: bool
    case_classes: bool
    elections_as_texts: bool
    names_fetched: FetchNaming
    case_classes_in_brokers: bool
    clears_isr_changes: bool
    deletion: Literal["asked", "by hand", "by the tool"]
    drops_disabled_deletions: bool
    deletion_mark: bytes | None
    broker_configs_by_tool: bool
    config_with_partitions: Literal["left", "written again", "emptied"]
    encode_token: Callable[[DelegationToken, Scala], bytes] | None
    brokers_in_long_map: bool
    credentials_by_tool: bool
    open_to_all: frozenset[str]
    sensitive: tuple[str, ...]
    election_tool_leaves_session: bool
    heeds_min_isr: bool
    counts_acks: bool
    answers_when_following: bool
    truncates_to_watermark: bool
    watermark_waits: bool
    watermark_waits_for_live: bool
    watermark_needs_min_isr: bool
    forgets_dead_brokers: bool

    @property
    def log_dir_events(self) -> bool:
        """Whether a broker outlives a log directory that fails, and tells of it (KIP-112, 1.0 and later)."""
        return paths.LOG_DIR_EVENTS in self.persistent_paths

    @property
    def collections(self) -> Collections:
        """What decides the order of the controller's maps and sets."""
        return Collections(self.scala, self.case_classes)

    def announced_hash(self, partition: TopicPartition) -> int:
        """The hash of a partition that a leader is to announce, which decides the order as well."""
        return Collections(self.scala, self.case_classes_in_brokers).partition_hash(partition)

    def json_hash(self, partition: tuple[str, int]) -> int:
        """The hash of the map that stands for a partition in an announcement, which decides the order there."""
        if self.case_classes:
            return scala_map_hash(partition)
        return json_partition_hash(partition, byteswapped=self.byteswapped_maps)

    def requested_hash(self, partition: tuple[str, int]) -> int:
        """The same for a request of preferred elections; up to 1.0 a set of texts is written there (`Json.encode`)."""
        if self.elections_as_texts:
            return string_hash(f'{{"topic":"{partition[0]}","partition":{partition[1]}}}')
        if self.case_classes:
            return self.collections.partition_hash(TopicPartition(*partition))
        return self.json_hash(partition)
