"""Release profile: everything in which Kafka releases differ, by the part of Kafka that behaves differently.

Rules of the module (docs/reference/kafka.md §0.1, §0.2):
  - a difference between releases is a field here, never an `if` on a version number elsewhere;
  - a field is declared once, with the first release of each value (`simzk.kafka.releases.since`);
  - rules for elections and ISR trimming are in `simzk.partitions.rules`, readers of znodes in
    `simzk.kafka.zookeeper_mode.schemas.json_text`, default settings and the keys of topics in `settings`;
  - "recorded" means: read from znodes and transactions that brokers of that release wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from simzk.jvm.hash_codes import string_hash
from simzk.kafka import requests as protocol
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.since import Profile, before, by_release, since
from simzk.kafka.topic_partition import Collections, TopicPartition, json_partition_hash, scala_json_partition_hash
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import (
    admin,
    broker_registration,
    config,
    controller,
    delegation_token,
    feature,
    partition_state,
    topic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simzk.jvm.scala_collections import Scala
    from simzk.kafka.releases.texts import TopicTexts
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.kafka.zookeeper_mode.schemas.delegation_token import DelegationToken
    from simzk.kafka.zookeeper_mode.schemas.json_text import Reading
    from simzk.partitions.rules import ElectionRules

FetchOrder: TypeAlias = Literal["scala's maps", "java's maps", "by topic", "by topic, hashed"]
"""Collections that a follower's fetch passes through (`simzk.kafka.broker.fetching`)."""

_PATHS_OF_0_8_1: Final = (
    *(paths.CONSUMERS, "/brokers/ids", "/brokers/topics", "/config/changes", "/config/topics"),
    "/admin/delete_topics",
)
_PATHS_OF_0_9: Final = (
    *_PATHS_OF_0_8_1[:5],
    *("/config/clients", "/admin/delete_topics", paths.SEQUENCE_ID, "/isr_change_notification"),
)
_PATHS_OF_0_11: Final = (*_PATHS_OF_0_9, "/latest_producer_id_block")
_PATHS_OF_1_1: Final = (
    *_PATHS_OF_0_8_1[:4],
    *("/admin/delete_topics", paths.SEQUENCE_ID, "/isr_change_notification", "/latest_producer_id_block"),
    *(paths.LOG_DIR_EVENTS, "/config/topics", "/config/clients", "/config/users", "/config/brokers"),
)
_OF_CONFIGS: Final = frozenset({protocol.AlterConfigRequest, protocol.AlterReassignmentsRequest})
_OF_TOPICS: Final = {protocol.CreateTopicRequest, protocol.AddPartitionsRequest, protocol.DeleteTopicRequest}
_OF_ELECTIONS: Final = {protocol.ElectionRequest}


class ZnodeRules(Profile):
    """Formats, paths and ACLs of the znodes that a release writes."""

    encode_broker: Callable[[broker_registration.BrokerRegistration], bytes] = by_release(
        broker_registration.encode_v1_spaced,
        ((0, 8, 1), broker_registration.encode_v1),
        ((0, 9), broker_registration.encode_v2),
        ((0, 10, 0), broker_registration.encode_v3),
        ((0, 10, 2), broker_registration.encode_v4_of_2_12),
        ((2, 6), broker_registration.encode_v4),
        ((2, 7), broker_registration.encode_v5),
    )
    """Encode `/brokers/ids/N` (§1.4)."""
    encode_topic: Callable[[topic.TopicZnode], bytes] = by_release(
        topic.encode_v1_spaced,
        ((0, 8, 1), topic.encode_v1),
        ((2, 4), topic.encode_v2_of_2_12),
        ((2, 6), topic.encode_v2),
        ((2, 8), topic.encode_v3),
    )
    """Encode `/brokers/topics/T` (§1.5)."""
    encode_state: Callable[[LeaderAndIsr], bytes] = by_release(
        partition_state.encode_spaced, ((0, 8, 1), partition_state.encode)
    )
    """Encode the `state` of a partition (§1.6)."""
    encode_controller: Callable[[int, int], bytes] = by_release(
        controller.encode_v1_spaced, ((0, 8, 1), controller.encode_v1), ((3, 4), controller.encode_v2)
    )
    """Encode `/controller` from a broker id and a time in ms (§1.7)."""
    encode_reassignment: Callable[[Mapping[TopicPartition, Iterable[int]]], bytes] = by_release(
        admin.encode_reassignment_spaced, ((0, 8, 1), admin.encode_reassignment)
    )
    """Encode `/admin/reassign_partitions`."""
    encode_election: Callable[[Iterable[TopicPartition]], bytes] = by_release(
        admin.encode_partitions_spaced, ((0, 8, 1), admin.encode_partitions)
    )
    """Encode `/admin/preferred_replica_election`."""
    encode_config_change: Callable[[str], bytes] = by_release(
        config.encode_change_of_topic, ((0, 9), config.encode_change_v1), ((0, 10, 1), config.encode_change)
    )
    """Encode the notification that the configuration of an entity changed (§1.8)."""
    encode_feature: Callable[[int, Mapping[str, feature.Levels]], bytes] | None = by_release(
        None, ((2, 7), feature.encode_v1), ((3, 3), feature.encode_v2)
    )
    """Encode `/feature` from its status and features; None: there is no such znode (KIP-584)."""
    encode_token: Callable[[DelegationToken, Scala], bytes] | None = by_release(
        None, ((1, 1), delegation_token.encode_v1), ((3, 3), delegation_token.encode_v3)
    )
    """Encode a delegation token; None: there are no tokens (KIP-48)."""
    deletion_request: bytes | None = by_release(b"", ((1, 1), None))
    """Data of `/admin/delete_topics/T` (recorded)."""
    persistent_paths: tuple[str, ...] = by_release(
        (),
        ((0, 8, 1), _PATHS_OF_0_8_1),
        ((0, 9), _PATHS_OF_0_9),
        ((0, 11), _PATHS_OF_0_11),
        ((1, 0), (*_PATHS_OF_0_11, paths.LOG_DIR_EVENTS)),
        ((1, 1), _PATHS_OF_1_1),
        ((2, 8), (*_PATHS_OF_1_1, "/config/ips")),
    )
    """Paths that a broker creates when it starts, in this order (§1.3)."""
    unprotected_paths: frozenset[str] = by_release(
        frozenset({paths.CONSUMERS, paths.CONTROLLER_EPOCH, paths.CONFIG_CHANGE_PREFIX}),
        ((0, 11), frozenset({paths.CONSUMERS})),
        ((1, 1), frozenset()),
        ((2, 0), frozenset({paths.CONSUMERS})),
    )
    """Paths created with an open ACL although `zookeeper.set.acl` is on (§1.9).

    `/consumers` is open by intention (1.1 alone forgot it), the others up to 0.10 by oversight (all recorded).
    """
    sensitive_paths: tuple[str, ...] = by_release(
        (), ((0, 10, 2), ("/config/users",)), ((1, 1), ("/config/users", "/config/brokers", "/delegation_token/tokens"))
    )
    """Prefixes of paths that `zookeeper.set.acl` hides from everybody but the brokers (§1.9)."""
    has_cluster_id: bool = since((0, 10, 1))
    """The cluster has an id in `/cluster/id` (KIP-78)."""
    has_features: bool = since((2, 7))
    """Features are finalized for the cluster in `/feature` (KIP-584); needs a protocol of 2.7 too."""
    has_topic_ids: bool = since((2, 8))
    """Topics have ids (KIP-516); needs a protocol of 2.8 too."""


class ClientRules(Profile):
    """A broker's ZooKeeper client: zkclient up to 1.0, KafkaZkClient later (§1.10), and the broker's registration."""

    exists_before_create: bool = before((1, 1))
    """Create a path only after `exists` answered that it is missing, and parents by name first (zkclient)."""
    has_broker_epochs: bool = since((2, 2))
    """A registration has an epoch, its czxid, and a bounced broker is noticed (KIP-380, KAFKA-7235)."""
    creates_registration_parents: bool = since((0, 9), before=(1, 1))
    """A registration is created from the top down, its parents too (ZKCheckedEphemeral)."""
    waits_for_own_registration: bool = before((0, 9))
    """A broker that finds its own earlier registration (same host and port) waits a session timeout and retries.

    Later releases fail to start.
    """
    registers_before_election: bool = by_release(True, ((0, 8, 1), False), ((1, 1), True))
    """A broker registers before it stands for election; otherwise registration is the last step of its start (§2.7)."""
    reads_controller_before_election: bool = since((0, 8, 2))
    """A candidate reads `/controller` first and is a candidate only if it is missing (§2.2)."""
    retries_across_sessions: bool = before((1, 1))
    """A request that waits while its session expires is sent again in the next one (`retryUntilConnected`)."""
    fences_writes: bool = since((2, 1))
    """Each controller write checks the version of `/controller_epoch`; the election is one multi (KAFKA-6082)."""


class ControllerRules(Profile):
    """The controller: failover, state machines, reassignment, preferred elections, deletion (§2)."""

    names_deleted: str = by_release("all", ((2, 0), "without partitions"), ((2, 2), "none"))
    """Which UpdateMetadata requests name all partitions of topics to be deleted (addUpdateMetadataRequestForBrokers):
    all; those for all partitions, when brokers come and go; or none."""
    names_brokers_alone: bool = since((0, 9))
    """UpdateMetadata is sent while no partition has a state; before, brokers know no broker until then (recorded)."""
    processes_one_by_one: bool = before((1, 1))
    """Partitions and replicas change state one after another, not in batches (KAFKA-5642)."""
    waits_for_removed_brokers: bool = since((0, 10, 2), before=(2, 1))
    """A dead broker is handled after the request in flight to it has ended (KAFKA-4959, KAFKA-7576; recorded)."""
    sends_shrunk_isr_to_leader_alone: bool = before((0, 8, 1))
    """The partitions of a dead replica are in a LeaderAndIsr to their leaders, not to other followers (recorded)."""
    deletes_stale_isr_changes: bool = since((1, 1))
    """A new controller deletes the ISR change notifications that it finds (§2.3)."""
    reads_isr_before_offline: bool = since((0, 8, 1))
    """Read the ISR from the state znode before a replica goes offline; 0.8.0 uses its cache (§2.6)."""
    reads_topics_of_brokers: bool = before((0, 8, 1))
    """The replicas on a broker that starts, dies or shuts down are read from the topic znodes (§2.7, §2.14)."""
    accepts_isr_changes: bool = since((2, 7))
    """The controller serves AlterIsr requests, whatever the protocol of its own broker is (KIP-497)."""
    validates_isr_changes: bool = since((3, 3))
    """The controller rejects ISR changes by epoch, version and members before it writes (KAFKA-14140, KAFKA-14154)."""
    accepts_unclean_elections: bool = since((2, 4))
    """A request can elect leaders from outside the ISR (KIP-460)."""
    elects_when_unclean_enabled: bool = since((2, 1))
    """Elect at once when unclean election is enabled for a topic; before, at the next event that elects."""
    rebalances_during_reassignment: bool = since((3, 4))
    """The automatic rebalance runs while partitions are reassigned (KAFKA-10149)."""
    rebalances_only_eligible: bool = since((2, 6))
    """The automatic rebalance skips partitions that the preferred replica cannot lead (KAFKA-9866)."""
    fails_on_unknown_partition: bool = before((2, 2))
    """A preferred election that names an unknown partition never deletes its znode (recorded)."""
    fails_on_unknown_pending: bool = before((0, 8, 1))
    """A failover fails at a pending preferred election of an unknown partition; later ones drop it (recorded)."""
    reads_elections_first: bool = since((0, 8, 1), before=(0, 11))
    """A failover reads the pending preferred elections before the state machines start (§2.3)."""
    keeps_requests: bool = before((0, 11))
    """Preferred elections that failed, and reassignments, stay in the memory of a former controller (recorded)."""
    failed_failover: Literal["stays", "moves", "resigns"] = by_release(
        "stays", ((0, 8, 1), "moves"), ((0, 11), "resigns")
    )
    """What a controller does when its failover throws (§2.2, recorded).

    `stays`: it keeps `/controller` and processes events; `moves`: it deletes `/controller` and processes events of its
    old term until its session expires or it is elected again; `resigns`: it removes its handlers and state first.
    """
    rereads_reassignments: bool = before((1, 1))
    """A partition is removed from `/admin/reassign_partitions` as the znode is then, not as the cache is (recorded)."""
    handles_changed_requests: bool = before((1, 1))
    """A change of `/admin/reassign_partitions` and of the election znode is a request as their creation is (recorded).

    The listeners of zkclient do not distinguish them.
    """
    keeps_request_watchers: bool = before((0, 8, 2))
    """A former controller still acts on reassignments and preferred elections by znode (recorded; KAFKA-1578).

    Elected again it has watchers of each term.
    """
    acts_after_resignation: bool = before((0, 10, 2))
    """A controller that has resigned still handles what waits behind its resignation (recorded; KAFKA-4447)."""
    deletes_controller_when_unsent: bool = since((0, 9), before=(0, 10, 2))
    """A former controller that cannot send a request deletes `/controller`, whoever is controller (recorded).

    Up to 0.8.2 the request stays in its batch instead, and each later failover of the process fails.
    """
    resigns_at_deletion: bool = since((0, 8, 1))
    """A controller resigns when `/controller` is deleted, other than by the end of its session.

    One of 0.8.0 goes on beside the next one (ZookeeperLeaderElector; by reading).
    """
    resigns_at_change: bool = since((0, 9))
    """A controller resigns when it finds another broker in `/controller`; before, it goes on (by reading)."""
    adopts_epochs: bool = before((0, 8, 2))
    """A controller takes over the epoch that another one has written (ControllerEpochListener, KAFKA-1096)."""
    fails_with_open_channels: bool = since((0, 9), before=(0, 11))
    """Each failover after a failed one of the same session fails too, as it opens channels (recorded).

    The failed one has left its channels open, whose metrics cannot be registered twice.
    """
    elects_at_missed_deletion: bool = before((1, 1))
    """A change of `/controller` that finds the znode missing starts an election (zkclient, recorded)."""
    deletes_topics_last: bool = before((0, 11))
    """Topics are deleted by a thread, which a failover starts as its last step."""
    fails_on_invalid_json: bool = before((1, 1))
    """A preferred election that is no JSON never deletes its znode (recorded)."""
    counts_preferred_imbalance: bool = since((2, 7))
    """Count partitions led by another than the preferred replica; fails where a partition has no replicas (§2.11)."""
    reassigns_in_topic_znode: bool = since((2, 4))
    """A reassignment is stored in the topic znode (KIP-455); before, in `/admin/reassign_partitions` alone."""
    informs_stopping_leaders: bool = by_release(True, ((1, 1), False), ((2, 1), True))
    """A broker in controlled shutdown receives the LeaderAndIsr that take its leaders away (KAFKA-7482)."""
    caches_raised_epochs: bool = since((2, 4))
    """The controller caches the leader epoch that a reassignment raises (KAFKA-9212).

    Up to 2.3 only LeaderAndIsr has it; UpdateMetadata, and a LeaderAndIsr to a broker that starts, have the one before.
    """
    reassigns_to_dead_brokers: bool = since((0, 10, 1))
    """A reassignment waits for a target that is dead; before, it is dropped (KAFKA-4214)."""
    writes_union_assignment: bool = since((0, 8, 1))
    """A legacy reassignment first writes old and new replicas to the topic znode (§2.11)."""
    finishes_reassignments_together: bool = since((2, 0))
    """Finished partitions are removed from `/admin/reassign_partitions` in one write, not one by one."""
    checks_before_delete: bool = since((2, 2))
    """`/admin/reassign_partitions` is deleted only after `exists` found it (KafkaZkClient.deletePath)."""
    rejects_unknown_fields: bool = since((2, 0))
    """An unknown field in `/admin/reassign_partitions` makes the whole znode unusable (§1.1)."""
    topic_deletion: Literal["by tool", "by znode", "by request"] = by_release(
        "by tool", ((0, 8, 1), "by znode"), ((0, 8, 2), "by request")
    )
    """Who starts a topic deletion (§2.10).

    The tool of 0.8.0 deletes the topic's znodes itself; 0.8.1 has no tool, and an operator creates the znode.
    """
    fails_at_removed_topics: bool = before((0, 9))
    """The leaders of a topic that was removed by its znodes stay in the cache, and events fail at them (recorded)."""
    drops_disabled_deletions: bool = since((0, 10, 2))
    """A controller that may not delete topics removes the requests (KAFKA-3175)."""
    batches_deletions: bool = since((2, 5))
    """Topics that wait for deletion are processed in one batch, not one by one."""
    reverts_partitions_of_deleted: bool = since((2, 0))
    """Partitions added to a topic that is being deleted are removed again (KAFKA-6612)."""
    forgets_unused_topic_ids: bool = since((2, 8, 0), before=(2, 8, 1))
    """At a protocol before 2.8 the controller caches no topic ids, and writes topics without them (KAFKA-12835)."""
    sends_topic_ids: bool = since((2, 8))
    """LeaderAndIsr and UpdateMetadata have topic ids (versions 5 and 7); needs a protocol of 2.8-IV1 too."""
    allocates_producer_ids: bool = since((3, 0))
    """The controller allocates producer id blocks on first use (KIP-730); needs a protocol of 3.0-IV0 too.

    Before, each broker reserves a block when it starts.
    """


class BrokerRules(Profile):
    """A broker: ISR changes, replication, produce requests, metadata cache, notifications (§2.7, §2.8)."""

    handles_requests_before_start_ends: bool = before((1, 0))
    """A broker handles requests while it starts, before it registers (KafkaServer.startup).

    Later releases start the processors of the SocketServer last.
    """
    checks_topic_ids: bool = since((2, 8))
    """A LeaderAndIsr for a log of another topic of the same name is rejected (INCONSISTENT_TOPIC_ID, KIP-516)."""
    halts_if_stopped_while_starting: bool = since((0, 9))
    """A broker that is shut down while it starts halts, without a controlled shutdown (KafkaServer.shutdown)."""
    uses_alter_isr: bool = since((2, 7))
    """Leaders ask the controller for ISR changes (KIP-497); needs a protocol of 2.7-IV2 too.

    Before, they write the state znode themselves.
    """
    withdraws_isr_proposals: bool = since((2, 7), before=(3, 0))
    """A LeaderAndIsr withdraws the proposed ISR of its partition, also one in flight (KAFKA-12686)."""
    announces_isr_changes: bool = since((0, 9))
    """Leaders that write ISRs announce it in `/isr_change_notification` (§2.8)."""
    accepts_own_isr_after_conflict: bool = since((0, 8, 2))
    """After BADVERSION a leader reads the state again and accepts its own data (KAFKA-1382)."""
    sleeps_after_last_shutdown_try: bool = before((0, 9))
    """A controlled shutdown that leaves partitions is given up one backoff after the last try (recorded: 15.5 s).

    By reading, brokers of 0.9 to 2.4 do so, too.
    """
    isr_checks_per_lag_time: int = by_release(1, ((0, 10, 2), 2))
    """Checks for late followers within `replica.lag.time.max.ms` (§2.8)."""
    keeps_idle_followers_in_sync: bool = by_release(True, ((0, 8, 1), False), ((2, 1), True))
    """A follower at the log end offset stays in sync, dead or alive (§2.8; from 2.1 on KAFKA-7152)."""
    keeps_followers_when_leader_stays: bool = since((0, 9))
    """A leader that led before its new epoch keeps the log end offsets of followers (Partition.makeLeader)."""
    resets_caught_up_times: bool = by_release(True, ((0, 9), False), ((0, 10, 2), True))
    """A new epoch sets when followers were last caught up: those in the ISR now, others never (KAFKA-4485).

    From 0.9 to 0.10.1 the time stays; for the followers of a new leader it is when that opened the replica.
    """
    check_ends_at_strangers: bool = since((2, 4), before=(3, 0))
    """The check for lagging followers ends at an ISR member outside the assignment, with an exception (KAFKA-9672).

    Other releases remove it.
    """
    has_min_insync_replicas: bool = since((0, 8, 2))
    """`min.insync.replicas` limits produce requests with acks -1 (§2.8)."""
    accepts_any_acks: bool = before((0, 9))
    """A producer may ask for any number of acks (§2.8)."""
    stop_epochs: Literal["ignored", "higher", "not lower"] = by_release(
        "ignored", ((2, 6), "higher"), ((3, 4, 1), "not lower")
    )
    """Leader epochs, compared with the replica's own, at which a StopReplica is accepted.

    Before 2.6 the request has none (KIP-570). Up to 3.4.0 one with the replica's own epoch is fenced, so that the
    replicas of a reassignment that was cancelled stay (KAFKA-13972).
    """
    answers_produce_on_demotion: bool = since((0, 10, 0))
    """A leader that becomes a follower answers its pending produce requests (§2.8)."""
    fetches_have_leader_epochs: bool = since((2, 1))
    """A follower's fetch names its leader epochs, so that the leader can fence it (KIP-320).

    Needs a protocol of 2.1-IV2 too.
    """
    fetch_sessions_keep_leader_epochs: bool = since((2, 5))
    """A leader fences all partitions of a fetch session; before, only those that a request names (KAFKA-9338)."""
    fetchers_start_with_leader_epochs: bool = since((2, 1))
    """A partition is added to a fetcher with its leader epoch too (InitialFetchState)."""
    fetches_from_high_watermark: bool = since((1, 1))
    """A new follower's first offset is its high watermark, before its log end offset (ReplicaManager.makeFollowers)."""
    follows_cached_brokers: bool = since((0, 9))
    """A replica follows only a leader that is alive in the metadata cache (ReplicaManager.makeFollowers)."""
    truncates_to_high_watermark: bool = before((0, 11))
    """A follower of a new leader truncates its log to its high watermark (KIP-101)."""
    truncates_to_epoch_end: bool = since((0, 11))
    """A follower of a new leader asks it where its last epoch ends, and truncates to that (KIP-101, §2.17).

    Record batches then contain the leader epoch. Needs a protocol of 0.11.0-IV2 too; without it no log has an epoch, so
    that followers truncate to the high watermark.
    """
    epoch_ends_name_epochs: bool = since((2, 0))
    """The answer names the largest epoch up to the one asked for (KIP-279); needs a protocol of 2.0-IV0 too."""
    truncates_after_missed_epochs: bool = since((2, 0))
    """A follower asks again if its leader stayed, but the leader epoch rose by more than 1 (KAFKA-6361)."""
    epochs_begin_with_leadership: bool = since((2, 0, 1))
    """A leader notes its epoch when it begins to lead, not with its first record (KAFKA-7415, §2.17)."""
    isr_waits_for_epoch_start: bool = since((2, 0, 1))
    """A follower joins the ISR only with the log that the leader had when it began to lead (KAFKA-7128).

    The branch 1.1 has it too, but 1.1.2 was never released.
    """
    truncates_on_fetch: bool = since((2, 8))
    """A follower's fetch names its last epoch, and the response where the logs differ (KAFKA-10554, KIP-595, §2.17).

    Needs a protocol of 2.7-IV1 too.
    """
    counts_diverging_fetches: bool = since((2, 8, 0), before=(2, 8, 1))
    """A fetch that is answered with a diverging epoch counts as the follower's log end offset (KAFKA-13141).

    The leaders of 2.7.0 and 2.7.1 have it too, but their followers do not ask so.
    """
    truncation_drops_empty_epochs: bool = since((2, 6, 1))
    """A truncation that removes no record still removes an epoch without records (KAFKA-10706)."""
    high_watermark_waits_for_caught_up: bool = since((0, 10, 2))
    """The high watermark waits for followers outside the ISR that caught up recently (§2.8)."""
    high_watermark_ignores_dead: bool = since((3, 6))
    """Of those followers, the high watermark waits only for the ones that are alive in the metadata cache (§2.8)."""
    raises_watermark_after_alter_isr: bool = since((3, 1))
    """The high watermark may rise when the answer to a proposed ISR arrives (KAFKA-13091).

    From 2.7 to 3.0 it waits for the next fetch or record; leaders that write ISRs themselves raise it at once.
    """
    high_watermark_needs_min_isr: bool = since((3, 7))
    """The high watermark rises only with `min.insync.replicas` in the ISR (KAFKA-15583)."""
    cache_drops_dead_brokers: bool = since((0, 8, 2))
    """The metadata cache drops brokers that the controller no longer lists (MetadataCache.updateCache)."""
    blocks_on_bad_notification: bool = before((2, 0))
    """A notification that cannot be parsed is retried for ever, and later ones are never processed (0.9 to 1.1)."""
    moves_logs: bool = since((1, 1))
    """AlterReplicaLogDirs moves a log; before, it only says where a log is to be created (KIP-113)."""
    limits_moved_names: bool = since((2, 2))
    """A log is not moved if the name of its copy's directory is longer than a file system allows (KAFKA-4893)."""
    survives_log_dir_failure: bool = since((1, 0))
    """A broker outlives the failure of a log directory and announces it (KIP-112)."""
    recognized_duplicates: int = by_release(1, ((1, 0), 5))
    """Latest batches of an idempotent producer that are recognized if it sends them again (KAFKA-5494)."""
    unknown_producer: Literal["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "NONE"] = by_release(
        "OUT_OF_ORDER_SEQUENCE_NUMBER", ((1, 0), "UNKNOWN_PRODUCER_ID"), ((2, 5), "NONE")
    )
    """Error for a producer that the log does not know and that does not start with sequence number 0 (KIP-360)."""
    producer_after_marker: Literal["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"] = by_release(
        "OUT_OF_ORDER_SEQUENCE_NUMBER", ((2, 0), "UNKNOWN_PRODUCER_ID"), ((2, 5), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    )
    """Error for a producer of which the log has only a marker, and that does not start with sequence number 0."""
    lists_empty_transactions: bool = before((2, 8))
    """A marker of a transaction without records is listed among the aborted transactions of its partition."""
    reserves_producer_ids: bool = since((0, 11))
    """Brokers reserve producer id blocks (KIP-98)."""
    rejects_colliding_topics: bool = since((0, 9))
    """Topics may not differ in '.' and '_' alone (§2.9)."""
    topic_config_when_growing: Literal["kept", "rewritten", "emptied"] = by_release(
        "kept", ((0, 8, 1), "emptied"), ((0, 8, 2), "rewritten"), ((0, 9), "kept")
    )
    """Effect of added partitions on the topic's configuration znode (§2.9; recorded)."""

    @property
    def record_defects(self) -> str:
        """Return the defects by which the release loses acknowledged records in clean elections; empty for none.

        >>> from simzk.kafka.releases.versions import kafka_version
        >>> [kafka_version(name).broker.record_defects for name in ("0.10.2", "1.1", "2.0.1", "2.8.0", "3.9")]
        ['KIP-101 or KAFKA-7128 or KIP-320', 'KIP-279 or KAFKA-7128 or KIP-320', 'KIP-320', 'KAFKA-13141', '']
        """
        defects = (
            "" if self.epoch_ends_name_epochs else "KIP-279" if self.truncates_to_epoch_end else "KIP-101",
            "" if self.isr_waits_for_epoch_start else "KAFKA-7128",
            "" if self.fetches_have_leader_epochs else "KIP-320",
            "KAFKA-13141" if self.counts_diverging_fetches else "",
        )
        return " or ".join(filter(None, defects))


class LogRules(Profile):
    """Segments of logs, their deletion and their compaction (docs/reference/kafka.md §2.21)."""

    obeys_format: bool = since((0, 10, 0), before=(3, 0))
    """`message.format.version` has effect; from 3.0 on with an older inter-broker protocol only (KIP-724)."""
    dates_segments_by_records: bool = since((0, 10, 1))
    """The age of a segment follows from the timestamps of its records (KIP-33); before, from the clock."""
    keeps_uncommitted_segments: bool = since((0, 11))
    """Segments beyond the high watermark are not deleted, however old they are (Log.deletableSegments)."""
    compaction_stops_at: Literal["end", "open transaction", "last stable offset"] = by_release(
        "end", ((0, 11), "open transaction"), ((3, 1), "last stable offset")
    )
    """Where compaction ends: before 3.1 beyond the high watermark, too (LogCleanerManager.cleanableOffsets)."""
    has_max_compaction_lag: bool = since((2, 3))
    """Records are compacted after `max.compaction.lag.ms`, also in a log that is not dirty enough (KIP-354)."""
    keeps_last_batch_by: Literal["sequence", "offset"] = by_release("sequence", ((2, 2, 1), "offset"))
    """How the last batch of a producer is found, which compaction keeps, if need be without records.

    By its sequence number even the marker of an aborted transaction may be kept (KAFKA-8335).
    """
    follows_transactions_across_segments: bool = since((2, 3))
    """A marker is kept while batches of its transaction are in an earlier segment, too (KAFKA-8335)."""
    batches_have_delete_horizons: bool = since((3, 1))
    """Tombstones and markers are deleted at a time that is in their batch since the first compaction (KIP-534).

    Before, and in formats without such a time: when they are older than the last segment that is compacted already by
    `delete.retention.ms`.
    """


class EntityConfigRules(Profile):
    """Configurations of topics, clients, users, brokers and IPs in `/config` (§1.3, §1.8)."""

    entity_types: frozenset[str] = by_release(
        frozenset(),
        ((0, 8, 1), frozenset({"topics"})),
        ((0, 9), frozenset({"topics", "clients"})),
        ((0, 10, 1), frozenset({"topics", "clients", "users", "brokers"})),
        ((2, 8), frozenset({"topics", "clients", "users", "brokers", "ips"})),
    )
    """Types of entities that have a configuration."""
    has_default_entities: bool = since((0, 10, 1))
    """`<default>` configures all clients, users or brokers without a configuration of their own."""
    restricts_client_ids: bool = since((0, 10, 1), before=(1, 0))
    """The tool accepts only client ids of letters, digits, '.', '_' and '-'."""
    deletes_empty_quotas: bool = since((3, 5))
    """A quota's znode is deleted with its last key, unless it has children (KAFKA-14285)."""
    checks_controller: bool = since((3, 7, 1))
    """A configuration is written together with a check of `/controller` (KAFKA-16539)."""


class ToolRules(Profile):
    """Kafka's command line tools."""

    accepts_zookeeper: bool = before((3, 0))
    """The tools accept `--zookeeper`."""
    requests_in_zookeeper: frozenset[type] = by_release(
        _OF_CONFIGS | _OF_ELECTIONS | _OF_TOPICS,
        ((2, 2), _OF_CONFIGS | _OF_ELECTIONS),
        ((2, 4), _OF_CONFIGS),
        ((2, 6), frozenset()),
    )
    """Requests that the tools carry out in a ZooKeeper session of their own unless `via` names a broker."""
    writes_broker_configs: bool = before((1, 1))
    """The tool writes broker configurations to ZooKeeper too (before KIP-226)."""
    writes_credentials: bool = before((2, 7))
    """The tool writes SCRAM credentials to ZooKeeper (before KIP-554)."""
    reassignment_checks: frozenset[str] = by_release(
        frozenset(),
        ((0, 8, 2), frozenset({"duplicates"})),
        ((0, 9), frozenset({"duplicates", "none left"})),
        ((0, 10, 1), frozenset({"duplicates", "none left", "partitions"})),
        ((0, 11), frozenset({"duplicates", "none left", "partitions", "empty lists", "brokers"})),
    )
    """Checks of the reassignment tool before it asks for a reassignment (§2.11).

    `duplicates`: nothing is named twice; `none left`: at least one partition exists; `partitions`: all exist and no
    reassignment is in progress; `empty lists`: no replica list is empty; `brokers`: all targets are alive.
    """
    reads_plan_log_dirs: bool = since((1, 0))
    """The reassignment tool wants one log directory for each replica of a plan that names some (KIP-113)."""
    reads_plan_version: bool = since((2, 0))
    """The reassignment tool rejects a plan of another version than 1 (parsePartitionReassignmentData)."""
    is_in_java: bool = since((3, 7))
    """The reassignment tool is in Java, no longer in Scala: texts and orders of its collections (KAFKA-14595)."""
    leaves_election_session: bool = since((0, 9), before=(1, 1))
    """The preferred election tool never closes its second session (recorded)."""


class OrderRules(Profile):
    """Scala and Java collections of a release: they fix the order of writes, requests and JSON lists (§1.2, §2.4)."""

    scala: Scala = by_release("2.10", ((0, 8, 2), "2.11"), ((0, 10, 2), "2.12"), ((2, 6), "2.13"))
    """Scala line of the recorded build (§0.2)."""
    has_case_class_keys: bool = before((1, 1))
    """The controller's key is the case class TopicAndPartition, later the clients' TopicPartition."""
    brokers_have_case_class_keys: bool = before((0, 10, 2))
    """Keys of the ISR changes that a leader is to announce are case classes too."""
    has_flat_assignments: bool = before((2, 0))
    """The controller keeps one map of partitions, not one for each topic."""
    swaps_bytes_of_map_hashes: bool = before((2, 0))
    """JSON maps are hashed as Scala before 2.12.8 hashes them."""
    writes_elections_as_texts: bool = since((0, 8, 1), before=(1, 1))
    """A preferred election request is a set of JSON texts (Json.encode)."""
    filters_assignments_of_broker: bool = before((0, 10, 2))
    """The partitions on a broker are filtered into a map of their own, later only collected (§1.2)."""
    creates_key_set: bool = since((0, 10, 2), before=(1, 1))
    """New partitions are the key set of the mutable map that was read, not an immutable set copied from it (§2.9)."""
    waiting_partitions: Literal["as found", "mutable map", "hash map"] = by_release(
        "as found", ((1, 1), "mutable map"), ((2, 1), "hash map"), ((2, 3), "as found")
    )
    """Collection from which partitions without leader are elected (PartitionStateMachine.triggerOnlinePartition…)."""
    reads_reassignments_into_mutable_map: bool = before((0, 8, 2))
    """`/admin/reassign_partitions` is read into a mutable map."""
    groups_reassignments_by_topic: bool = since((2, 1))
    """The reassignment tool processes partitions topic by topic, which fixes the order of its list."""
    fetches: FetchOrder = by_release(
        "scala's maps", ((0, 9), "java's maps"), ((0, 10, 1), "by topic"), ((2, 5), "by topic, hashed")
    )
    """Collections that a follower's fetch passes through."""
    checks_set_of_led: bool = before((0, 8, 2))
    """Late followers are looked for in a set of the led partitions, later in a map of all partitions."""
    brokers_in_long_map: bool = since((2, 1))
    """Alive brokers are cached in a LongMap, not a HashMap; its order places topics created without racks."""

    @property
    def collections(self) -> Collections:
        """Return the key types and Scala line of the controller's maps and sets."""
        return Collections(self.scala, self.has_case_class_keys)

    def announced_hash(self, partition: TopicPartition) -> int:
        """Return the hash of a partition in a leader's set of ISR changes to announce."""
        return Collections(self.scala, self.brokers_have_case_class_keys).partition_hash(partition)

    def json_hash(self, partition: tuple[str, int]) -> int:
        """Return the hash of the map that represents a partition in an announcement."""
        if self.has_case_class_keys:
            return scala_json_partition_hash(partition)
        return json_partition_hash(partition, byteswapped=self.swaps_bytes_of_map_hashes)

    def election_hash(self, partition: tuple[str, int]) -> int:
        """Return the hash of the element that represents a partition in a preferred election request."""
        if self.writes_elections_as_texts:
            return string_hash(f'{{"topic":"{partition[0]}","partition":{partition[1]}}}')
        if self.has_case_class_keys:
            return self.collections.partition_hash(TopicPartition(*partition))
        return self.json_hash(partition)


class ApiRules(Profile):
    """Answers of a broker to requests of clients (recorded)."""

    hides_thrown_errors: bool = before((0, 9))
    """UpdateMetadata and ControlledShutdown fail with UNKNOWN_SERVER_ERROR, whatever was thrown (recorded 0.8.2)."""
    names_stale_partitions: bool = since((1, 1))
    """A LeaderAndIsr with a stale controller epoch is answered with the error of each of its partitions."""
    answers_metadata_of_any_version: bool = before((0, 10, 0))
    """Metadata of an unknown version is answered as version 0; later the connection is closed."""
    ignores_malformed_requests: bool = since((0, 9), before=(0, 10, 0))
    """A request that cannot be decoded gets no answer, and the connection stays open; else it is closed."""
    ignores_empty_frames: bool = since((0, 9), before=(1, 0))
    """A frame of length 0 gets no answer, and the connection stays open; else it is closed."""
    names_versions_on_refusal: bool = since((2, 4))
    """The answer to ApiVersions in an unknown version names the versions of ApiVersions (KIP-511)."""
    validates_unknown_names: bool = since((2, 8))
    """Metadata answers INVALID_TOPIC_EXCEPTION to an illegal name, even if no topic may be created."""
    rejects_metadata_topic: ErrorCode = by_release(
        ErrorCode.NONE, ((3, 3), ErrorCode.TOPIC_AUTHORIZATION_FAILED), ((3, 9), ErrorCode.INVALID_REQUEST)
    )
    """Error of CreateTopics for the topic of KRaft's metadata (KafkaApis; the last one recorded in 3.9.1)."""
    creates_internal_topics: bool = before((2, 8))
    """Metadata creates an internal topic that a client names, even if no topic may be created."""
    closes_at_null_config: bool = before((0, 11))
    """CreateTopics with a null value in a configuration closes the connection."""
    has_default_counts: bool = since((2, 4))
    """CreateTopics accepts -1 as the numbers of the broker's configuration (KIP-464)."""
    requires_consecutive_partitions: bool = since((2, 4))
    """CreateTopics rejects an assignment with a gap, or not from 0 on."""
    answers_each_duplicate: bool = since((2, 4))
    """A topic that a request names twice has two results, not one."""
    fails_on_invalid_values: bool = before((2, 4))
    """An invalid value in a configuration is UNKNOWN_SERVER_ERROR, later INVALID_CONFIG."""
    rejects_null_as_request: bool = since((2, 8), before=(3, 0))
    """A null value in a configuration is INVALID_REQUEST, later INVALID_CONFIG; before 2.8 an unknown error."""
    rejects_deletion_if_disabled: bool = since((2, 1))
    """DeleteTopics answers TOPIC_DELETION_DISABLED if `delete.topic.enable` is false (KIP-366)."""
    fails_whole_metadata: bool = before((0, 9))
    """A topic that cannot be created fails the whole Metadata request: no brokers, and this error for each topic."""
    replicas_in_hash_set: bool = since((0, 10, 0), before=(0, 11))
    """The metadata cache keeps the replicas of a partition in a HashSet, which loses their order."""
    unasked_operations: int = by_release(0, ((2, 5), -(1 << 31)))
    """Authorized operations that a client did not ask for; 0 in 2.4, the later default in 2.8 (2.5 to 2.7 unknown)."""
    batch_magic: int = by_release(0, ((0, 10, 0), 1), ((0, 11), 2))
    """Format in which records are stored: messages of magic 0 or 1, batches of magic 2 (KIP-32, KIP-98)."""
    without_replica: ErrorCode = by_release(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ((2, 0), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    )
    """Error of a broker that has no replica of a partition in its metadata cache (KAFKA-6650)."""
    fetch_names_unknown_last: bool = since((0, 10, 1))
    """A fetch answers partitions outside the metadata cache last, and waits for the others (KafkaApis)."""
    follower_without_replica: ErrorCode = by_release(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ((2, 0), ErrorCode.REPLICA_NOT_AVAILABLE),
        ((2, 5), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    )
    """The same for a fetch that followers may serve (KIP-392; REPLICA_NOT_AVAILABLE recorded in 2.4)."""
    unknown_follower: ErrorCode = by_release(
        ErrorCode.UNKNOWN_SERVER_ERROR, ((1, 0), ErrorCode.NONE), ((3, 4), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    )
    """Error of a fetch with the id of a broker that has no replica."""
    drops_headers: bool = since((1, 0))
    """Headers are lost where records are converted down; before, the request fails (KAFKA-6739; recorded in 0.11)."""
    closes_at_empty_records: bool = since((2, 4), before=(2, 8))
    """A Produce without records closes the connection, in all versions."""
    closes_at_invalid_records: bool = before((2, 4))
    """A Produce from version 3 on without exactly one batch of magic 2 closes the connection; later an error."""
    has_invalid_record_error: bool = since((2, 4))
    """Records that are intact but invalid are INVALID_RECORD, before that CORRUPT_MESSAGE (KIP-467)."""
    rejects_keyless_records: bool = since((0, 9))
    """Records without a key are invalid in compacted topics."""
    exempts_undated_records: bool = since((0, 11))
    """Records without a timestamp are not out of any range of timestamps."""
    rejects_append_time: bool = before((3, 6))
    """A producer must not mark timestamps as those of the append; later only in topics that have these, or without a
    timestamp (LogValidator.validateTimestamp)."""
    stores_single_batch: bool = since((2, 4))
    """Compressed records are invalid beside others; before, they are stored together (LogValidator)."""
    rejects_internal_topics: bool = since((0, 8, 2))
    """Clients cannot append to internal topics."""
    admin_client_appends: bool = since((0, 9))
    """A client with the id of AdminUtils can append to internal topics."""
    looks_for_topics_first: bool = since((0, 10, 1))
    """A topic that does not exist is refused first; before, acks and internal topics are (ReplicaManager)."""
    has_fetch_sessions: bool = since((1, 1))
    """Clients can fetch in sessions (KIP-227)."""
    fetch_session_caches: int = by_release(1, ((3, 8), 8))
    """Number of caches that share the slots of fetch sessions (KAFKA-9401)."""
    converts_together: bool = before((0, 11))
    """Records that are converted down become one compressed message if the first of them is compressed."""
    converts_in_chunks: bool = since((2, 0))
    """Records are converted down while they are sent, after their size is promised (KIP-283)."""
    converts_by_version: bool = since((3, 0))
    """Whether records are converted down depends on the version of the request alone, not on their formats."""
    caps_min_bytes: bool = since((2, 5))
    """A fetch waits for no more bytes than its response may have (KIP-541)."""
    rejects_zstd_topics: bool = since((2, 1))
    """A topic that is stored with zstd cannot be read by clients that do not know it (KIP-110)."""
    fetch_names_stable_offset: bool = since((2, 4))
    """A fetch of uncommitted records is answered with the last stable offset, before that with -1."""
    lists_no_transactions: bool = since((3, 0))
    """A fetch of an unknown partition is answered with an empty list of aborted transactions, before that with null."""
    lists_each_duplicate: bool = since((2, 8))
    """ListOffsets and OffsetForLeaderEpoch answer a partition that a request names twice with two results, before that
    with one: the first of ListOffsets, the last of OffsetForLeaderEpoch."""
    requires_transactional_id: bool = since((2, 4))
    """A transactional batch without a transactional id in the request is rejected."""
    alter_writes_markers: bool = since((3, 8))
    """WriteTxnMarkers is allowed with Alter of the cluster, too, not only with ClusterAction (KIP-1037)."""
    verifies_transactions: bool = since((3, 6))
    """A leader asks the coordinator whether a transactional batch belongs to a transaction (KIP-890)."""
    ignores_null_records: bool = by_release(False, ((0, 9), True), ((0, 10, 0), False), ((3, 5), True))
    """A Produce with null instead of records gets no answer; else the connection is closed."""
    explains_unknown_topics: bool = since((3, 0))
    """DescribeProducers answers an unknown topic with a text."""
    rejects_unknown_times: bool = since((3, 9))
    """ListOffsets rejects negative times that its version does not know; before they are times (KAFKA-15735)."""
    knows_max_timestamp: bool = since((3, 0))
    """ListOffsets finds the record with the largest timestamp (KIP-734)."""
    reads_newest_record: bool = since((3, 8))
    """It is looked for in its batch; before, it is the one that was noted when the batch was appended (KAFKA-16310)."""
    knows_local_start: bool = since((3, 4))
    """ListOffsets finds the start of the local log (KIP-405)."""
    knows_tiered_offset: bool = since((3, 9))
    """ListOffsets finds the last tiered offset (KIP-1005)."""
    knows_unavailable_offsets: bool = since((2, 2))
    """ListOffsets rejects to name the latest offset while it may be too low after an election (KIP-207)."""
    waits_for_producer_ids: bool = before((3, 6))
    """InitProducerId waits until the broker has producer ids, later the answer is COORDINATOR_LOAD_IN_PROGRESS."""
    confuses_leader_with_itself: bool = since((2, 0), before=(2, 7))
    """Metadata from version 6 on answers LISTENER_NOT_FOUND where no leader is available (KAFKA-10312)."""
    shows_isr_without_leader: bool = since((2, 4))
    """Metadata shows the ISR of a partition without an available leader."""
    shows_epoch_without_leader: bool = since((2, 6))
    """Metadata shows the leader epoch of a partition without an available leader."""


class GroupRules(Profile):
    """Coordinators of consumer groups (docs/reference/kafka.md §2.18)."""

    has_groups: bool = since((0, 9))
    """Brokers coordinate groups with members; before that they only keep offsets."""
    keeps_empty_groups: bool = since((0, 10, 1))
    """A group without members exists as long as it has offsets (KAFKA-2720)."""
    loads_protocol_type: bool = since((1, 0))
    """A group without members has a protocol type also after its log was read (GroupMetadata.loadGroup)."""
    offset_value_version: int = by_release(1, ((2, 1), 3))
    """Version of committed offsets in records: with leader epochs (KIP-320)."""
    group_value_version: int = by_release(0, ((0, 10, 1), 1), ((2, 1), 2), ((2, 3), 3))
    """Version of groups in records: rebalance timeout (KIP-62), time of the state (KIP-211), instance ids (KIP-345)."""
    delays_first_rebalance: bool = since((0, 11))
    """The first rebalance of an empty group waits for more members (KIP-134)."""
    expires_new_members: bool = since((2, 2))
    """A new member may wait for its first generation for five minutes at most (KAFKA-7610)."""
    expires_unsynced_members: bool = since((3, 0))
    """A member that does not ask for its assignment within the rebalance timeout is removed (KAFKA-12890)."""
    heartbeats_fail_outside_stable: bool = before((0, 10, 0))
    """Every heartbeat to a group that is not stable is answered REBALANCE_IN_PROGRESS, whoever sends it."""
    heartbeats_while_completing: bool = since((2, 8))
    """A heartbeat is successful while the leader assigns; before that it was REBALANCE_IN_PROGRESS."""
    record_magic: int = by_release(0, ((0, 10, 0), 1), ((0, 11), 2))
    """Format of the records of `__consumer_offsets`."""
    closes_at_unknown_kind: bool = before((2, 4))
    """FindCoordinator for an unknown kind of coordinator closes the connection."""
    unknown_kind: str = by_release("UNKNOWN_SERVER_ERROR", ((2, 8), "INVALID_REQUEST"))
    """Error of FindCoordinator for an unknown kind of coordinator."""
    rebalances_for_replaced: bool = since((2, 5))
    """A static member that restarts before the members have their assignments begins a rebalance."""
    stores_replaced: bool = since((2, 6, 1))
    """A static member that restarts in a stable group is stored with its new id, and rebalances the group if that
    changes the protocol (KAFKA-10284; sizes of logs recorded in 2.4 and 2.8)."""
    updates_timeouts: bool = since((3, 3, 2))
    """A member that joins again brings new timeouts; before that it keeps those of its first request (KAFKA-14009)."""
    has_coordinator_texts: bool = since((2, 4))
    """FindCoordinator has a text for each result."""
    failed_generation: int = by_release(0, ((2, 4), -1))
    """Generation in a JoinGroup response with an error."""
    completing_state: str = by_release("AwaitingSync", ((1, 1), "CompletingRebalance"))
    """Name of the state in which members wait for the leader's assignment."""
    filters_ignore_case: bool = since((3, 9))
    """ListGroups compares names of states without case."""
    fails_old_leave: bool = since((3, 4), before=(3, 5))
    """LeaveGroup up to version 2 answers UNSUPPORTED_VERSION where the broker cannot serve the group."""
    commits_to_unknown_partitions: bool = before((2, 0))
    """OffsetCommit accepts a partition that does not exist, if its topic does."""
    hides_loading_from_old_producers: bool = since((2, 6))
    """TxnOffsetCommit answers old clients COORDINATOR_NOT_AVAILABLE while a group is being loaded (KAFKA-9656)."""
    verifies_transactions: bool = since((3, 7))
    """TxnOffsetCommit asks the coordinator of the transaction whether the group's offsets belong to it (KIP-890)."""
    fetches_fail_by_partition: bool = before((3, 9))
    """OffsetFetch version 1 answers the error of the coordinator for each partition; later it names no partitions."""
    fetches_all_if_none_named: bool = since((0, 9), before=(0, 10, 0))
    """OffsetFetch version 1 without topics answers all offsets of the group."""
    deletes_empty_ids: bool = since((2, 0))
    """DeleteGroups accepts an empty group id."""
    expires_unsubscribed: bool = since((2, 4))
    """Offsets of topics that a stable group of consumers does not read expire (KIP-496)."""
    offsets_expire_in_active_groups: bool = before((2, 1))
    """Offsets expire after a time since their commit, even those that an active group reads (KIP-211)."""


class TransactionRules(Profile):
    """Coordinators of transactions (docs/reference/kafka.md §2.20)."""

    accepts_later_epochs: bool = before((2, 5))
    """EndTxn with a later epoch than the producer's is appended before it is rejected, and the markers are never sent
    (recorded up to 2.4; KIP-360)."""
    reads_count_to_unload: bool = since((1, 1), before=(2, 4, 1))
    """A coordinator reads in ZooKeeper how many partitions there are before it unloads one. If the session expires, it
    keeps the transactions, and when it leads again, it loads for ever (KAFKA-9307). Up to 1.0 the read is repeated in
    the next session; from 2.4.1 on a load replaces what is there."""
    defers_completion: bool = since((2, 7))
    """Followers learn of the completion of a transaction when its broker handles the next request, or when their long
    poll ends: appends outside of a request thread wake nobody (KAFKA-8334; recorded 2.8 to 3.9)."""


@dataclass(frozen=True, kw_only=True)
class KafkaVersion:
    """Profile of one release line of Kafka in ZooKeeper mode.

    Args:
        name: name of the line, such as `3.9`.
        number: its number, with three digits: `(3, 9, 0)`, `(0, 10, 2)`.
        rules: election and ISR rules.
        reading: rules for reading znodes.
        defaults: default of each simulated broker setting.
        znodes: formats of the znodes that are written.
        client: the broker's ZooKeeper client and registration.
        controller: the controller.
        broker: the broker.
        log: segments of logs and their compaction.
        api: answers to clients.
        groups: coordinators of consumer groups.
        transactions: coordinators of transactions.
        configs: entity configurations.
        tools: command line tools.
        orders: collections that fix the order of writes.
        texts: texts of errors about topics.
    """

    name: str
    number: tuple[int, int, int]
    rules: ElectionRules
    reading: Reading
    defaults: Mapping[str, str]
    znodes: ZnodeRules
    client: ClientRules
    controller: ControllerRules
    broker: BrokerRules
    log: LogRules
    api: ApiRules
    groups: GroupRules
    transactions: TransactionRules
    configs: EntityConfigRules
    tools: ToolRules
    orders: OrderRules
    texts: TopicTexts
