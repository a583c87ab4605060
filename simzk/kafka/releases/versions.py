"""Which Kafka release a broker runs: the profile that decides what is written, and how.

Rules of the module (docs/reference/kafka.md §0.1, §0.2):
  - one row a release line, newest first; a row is the one above it with what the older release does otherwise;
  - a difference between releases is a field of the row (`simzk.kafka.releases.profile`), never an `if` on a number;
  - a codec writes the one schema version that the row names, and reads all of them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from simzk.errors import ConfigError
from simzk.kafka import paths
from simzk.kafka import requests as protocol
from simzk.kafka.releases.profile import KafkaVersion
from simzk.kafka.schemas import (
    admin,
    broker_registration,
    config,
    controller,
    delegation_token,
    feature,
    partition_state,
    reading,
    topic,
)
from simzk.partitions.rules import rules_of

_PATHS_3_9: Final = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    paths.SEQUENCE_ID,
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
    paths.SEQUENCE_ID,
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
    "min.insync.replicas": "1",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.per.broker.percentage": "10",
    "leader.imbalance.check.interval.seconds": "300",
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.max.retries": "3",
    "controlled.shutdown.retry.backoff.ms": "5000",
    "delete.topic.enable": "true",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "reserved.broker.max.id": "1000",
    "delegation.token.master.key": "",
    "delegation.token.max.lifetime.ms": "604800000",
    "delegation.token.expiry.time.ms": "86400000",
    "delegation.token.expiry.check.interval.ms": "3600000",
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
    encode_reassignment=admin.encode_reassignment,
    encode_election=admin.encode_preferred_election,
    encode_config_change=config.encode_change,
    encode_feature=feature.encode_v2,
    reading=reading.OF_3_7,
    cluster_ids=True,
    features=True,
    persistent_paths=_PATHS_3_9,
    defaults=_DEFAULTS_3_9,
    zookeeper_tools=False,
    tools_in_zookeeper=frozenset(),
    config_checks_controller=True,
    removes_empty_quotas=True,
    configured=frozenset({"topics", "clients", "users", "brokers", "ips"}),
    default_entities=True,
    ids_by_controller=True,
    rebalances_while_reassigning=True,
    rebalances_only_able=True,
    judges_isr=True,
    topic_ids=True,
    takes_isr_changes=True,
    isr_by_controller=True,
    announces_isr_changes=True,
    unclean_by_request=True,
    elects_when_allowed=True,
    reassigns_in_topic=True,
    leaves_list_together=True,
    deletes_after_look=True,
    strict_reassignments=True,
    stumbles_over_unknown=False,
    stumbles_over_no_json=False,
    stuck_notifications=False,
    counts_imbalance=True,
    moves_to_dead=True,
    reads_reassignments_mutably=False,
    reassigns_by_topic=True,
    reassign_tool_looks=frozenset({"empty lists", "duplicates", "none left", "partitions", "brokers"}),
    widens_assignment=True,
    broker_epochs=True,
    fenced=True,
    idle_in_sync=True,
    deletes_topics_together=True,
    restores_assignment=True,
    isr_checks_per_lag=2,
    checks_set_of_led=False,
    rereads_refused_isr=True,
    refreshes_isr=True,
    shutdown_by_topic=False,
    waits_in_map=False,
    waits_hashed=False,
    byteswapped_maps=False,
    flat_assignments=False,
    producer_ids=True,
    refuses_collisions=True,
    plain_client_ids=False,
    registers_first=True,
    waits_for_its_own=False,
    looks_before_election=True,
    asks_first=False,
    makes_parents_of_ids=False,
    one_at_a_time=False,
    case_classes=False,
    elections_as_texts=False,
    names_fetched="by topic, hashed",
    case_classes_in_brokers=False,
    clears_isr_changes=True,
    deletion="asked",
    drops_disabled_deletions=True,
    deletion_mark=None,
    broker_configs_by_tool=False,
    config_with_partitions="left",
    encode_token=delegation_token.encode_v3,
    brokers_in_long_map=True,
    credentials_by_tool=False,
    open_to_all=frozenset({paths.CONSUMERS}),
    sensitive=("/config/users", "/config/brokers", "/delegation_token/tokens"),
    election_tool_leaves_session=False,
    heeds_min_isr=True,
    counts_acks=False,
    answers_when_following=True,
    truncates_to_watermark=False,
    watermark_waits=True,
    watermark_waits_for_live=True,
    watermark_needs_min_isr=True,
    forgets_dead_brokers=True,
)
_3_8: Final = replace(_3_9, name="3.8", number=(3, 8, 0))
_3_7: Final = replace(_3_8, name="3.7", number=(3, 7, 0))
_3_6: Final = replace(
    _3_7,
    name="3.6",
    number=(3, 6, 0),
    config_checks_controller=False,
    watermark_needs_min_isr=False,
    reading=reading.OF_3_3,
)
_3_5: Final = replace(_3_6, name="3.5", number=(3, 5, 0), watermark_waits_for_live=False)
_3_4: Final = replace(_3_5, name="3.4", number=(3, 4, 0), removes_empty_quotas=False)
_3_3: Final = replace(
    _3_4,
    name="3.3",
    number=(3, 3, 0),
    encode_controller=controller.encode_v1,
    rebalances_while_reassigning=False,
)
_3_2: Final = replace(
    _3_3,
    name="3.2",
    number=(3, 2, 0),
    encode_token=delegation_token.encode_v1,
    encode_feature=feature.encode_v1,
    reading=reading.OF_3_2,
    judges_isr=False,
)
_3_1: Final = replace(_3_2, name="3.1", number=(3, 1, 0), rules=rules_of((3, 1, 0)), reading=reading.OF_2_8)
_3_0: Final = replace(_3_1, name="3.0", number=(3, 0, 0))
_2_8: Final = replace(
    _3_0,
    name="2.8",
    number=(2, 8, 0),
    zookeeper_tools=True,
    ids_by_controller=False,
)
_2_7: Final = replace(
    _2_8,
    name="2.7",
    reading=reading.OF_2_7,
    number=(2, 7, 0),
    encode_topic=topic.encode_v2,
    persistent_paths=tuple(path for path in _PATHS_3_9 if path != "/config/ips"),
    configured=_2_8.configured - {"ips"},
    topic_ids=False,
)
_2_6: Final = replace(
    _2_7,
    name="2.6",
    reading=reading.OF_2_5,
    number=(2, 6, 0),
    encode_broker=broker_registration.encode_v4,
    encode_feature=None,
    features=False,
    counts_imbalance=False,
    credentials_by_tool=True,
    takes_isr_changes=False,
    isr_by_controller=False,
)
_2_5: Final = replace(
    _2_6,
    name="2.5",
    number=(2, 5, 0),
    scala="2.12",
    encode_broker=broker_registration.encode_v4_of_2_12,
    encode_topic=topic.encode_v2_of_2_12,
    tools_in_zookeeper=frozenset({protocol.AlterConfigRequest, protocol.AlterReassignmentsRequest}),
    rebalances_only_able=False,
)
_2_4: Final = replace(
    _2_5,
    name="2.4",
    reading=reading.OF_2_4,
    number=(2, 4, 0),
    deletes_topics_together=False,
    names_fetched="by topic",
    defaults=_DEFAULTS_3_9 | {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "10000"},
)
_2_3: Final = replace(
    _2_4,
    name="2.3",
    reading=reading.OF_2_2,
    number=(2, 3, 0),
    encode_topic=topic.encode_v1,
    tools_in_zookeeper=_2_4.tools_in_zookeeper | {protocol.ElectLeadersRequest},
    unclean_by_request=False,
    reassigns_in_topic=False,
)
_2_2: Final = replace(_2_3, name="2.2", number=(2, 2, 0), rules=rules_of((2, 2, 0)), waits_hashed=True)
_2_1: Final = replace(
    _2_2,
    name="2.1",
    reading=reading.OF_1_1,
    number=(2, 1, 0),
    tools_in_zookeeper=_2_2.tools_in_zookeeper
    | {protocol.CreateTopicRequest, protocol.CreatePartitionsRequest, protocol.DeleteTopicRequest},
    rules=rules_of((2, 1, 0)),
    deletes_after_look=False,
    stumbles_over_unknown=True,
    broker_epochs=False,
)
_2_0: Final = replace(
    _2_1,
    name="2.0",
    number=(2, 0, 0),
    elects_when_allowed=False,
    reassigns_by_topic=False,
    brokers_in_long_map=False,
    fenced=False,
    idle_in_sync=False,
    waits_in_map=True,
    waits_hashed=False,
)
_1_1: Final = replace(
    _2_0,
    name="1.1",
    number=(1, 1, 0),
    open_to_all=frozenset(),
    rules=rules_of((1, 1, 0)),
    leaves_list_together=False,
    strict_reassignments=False,
    stuck_notifications=True,
    restores_assignment=False,
    byteswapped_maps=True,
    flat_assignments=True,
)
_1_0: Final = replace(
    _1_1,
    name="1.0",
    reading=reading.OF_1_0,
    number=(1, 0, 0),
    waits_in_map=False,
    stumbles_over_no_json=True,
    encode_token=None,
    open_to_all=_3_9.open_to_all,
    sensitive=("/config/users",),
    rules=rules_of((1, 0, 0)),
    persistent_paths=_PATHS_1_0,
    registers_first=False,
    asks_first=True,
    makes_parents_of_ids=True,
    one_at_a_time=True,
    case_classes=True,
    elections_as_texts=True,
    clears_isr_changes=False,
    deletion_mark=b"",
    broker_configs_by_tool=True,
    election_tool_leaves_session=True,
)
_0_11: Final = replace(
    _1_0,
    name="0.11",
    reading=reading.OF_0_9,
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
    reassign_tool_looks=frozenset({"duplicates", "none left", "partitions"}),
    open_to_all=frozenset({paths.CONSUMERS, paths.CONTROLLER_EPOCH, paths.CONFIG_CHANGE_PREFIX}),
    rules=rules_of((0, 10, 2)),
    persistent_paths=tuple(path for path in _0_11.persistent_paths if path != "/latest_producer_id_block"),
    defaults=_0_11.defaults | {"unclean.leader.election.enable": "true"},
    producer_ids=False,
    truncates_to_watermark=True,
)
_0_10_1: Final = replace(
    _0_10_2,
    name="0.10.1",
    number=(0, 10, 1),
    sensitive=(),
    scala="2.11",
    encode_broker=broker_registration.encode_v3,
    case_classes_in_brokers=True,
    drops_disabled_deletions=False,
    isr_checks_per_lag=1,
    watermark_waits=False,
)
_0_10_0: Final = replace(
    _0_10_1,
    name="0.10.0",
    number=(0, 10, 0),
    reassign_tool_looks=frozenset({"duplicates", "none left"}),
    names_fetched="java's maps",
    rules=rules_of((0, 10, 0)),
    encode_config_change=config.encode_change_v1,
    cluster_ids=False,
    moves_to_dead=False,
    plain_client_ids=False,
    configured=frozenset({"topics", "clients"}),
    default_entities=False,
)
_0_9: Final = replace(
    _0_10_0,
    name="0.9",
    number=(0, 9, 0),
    rules=rules_of((0, 9, 0)),
    encode_broker=broker_registration.encode_v2,
    answers_when_following=False,
)
_PATHS_0_8: Final = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/config/topics",
    "/admin/delete_topics",
)
_0_8_2: Final = replace(
    _0_9,
    name="0.8.2",
    reading=reading.OF_0_8,
    number=(0, 8, 2),
    reassign_tool_looks=frozenset({"duplicates"}),
    names_fetched="scala's maps",
    rules=rules_of((0, 8, 2)),
    encode_broker=broker_registration.encode_v1,
    encode_config_change=config.encode_change_of_topic,
    persistent_paths=_PATHS_0_8,
    defaults=_0_9.defaults | {"replica.lag.max.messages": "4000"},
    announces_isr_changes=False,
    refuses_collisions=False,
    waits_for_its_own=True,
    makes_parents_of_ids=False,
    config_with_partitions="written again",
    configured=frozenset({"topics"}),
    election_tool_leaves_session=False,
    counts_acks=True,
)
_0_8_1: Final = replace(
    _0_8_2,
    name="0.8.1",
    number=(0, 8, 1),
    scala="2.10",
    rules=rules_of((0, 8, 1)),
    defaults=_0_8_2.defaults | {"controlled.shutdown.enable": "false", "auto.leader.rebalance.enable": "false"},
    checks_set_of_led=True,
    rereads_refused_isr=False,
    looks_before_election=False,
    reads_reassignments_mutably=True,
    reassign_tool_looks=frozenset(),
    deletion="by hand",
    config_with_partitions="emptied",
    heeds_min_isr=False,
    forgets_dead_brokers=False,
)
_0_8_0: Final = replace(
    _0_8_1,
    name="0.8.0",
    number=(0, 8, 0),
    rules=rules_of((0, 8, 0)),
    encode_broker=broker_registration.encode_v1_spaced,
    encode_topic=topic.encode_v1_spaced,
    encode_state=partition_state.encode_spaced,
    encode_controller=controller.encode_v1_spaced,
    encode_reassignment=admin.encode_reassignment_spaced,
    encode_election=admin.encode_preferred_election_spaced,
    persistent_paths=(),
    configured=frozenset(),
    widens_assignment=False,
    idle_in_sync=True,
    refreshes_isr=False,
    shutdown_by_topic=True,
    registers_first=True,
    elections_as_texts=False,
    deletion="by the tool",
    config_with_partitions="left",
)
_LINES: Final = (
    *(_3_9, _3_8, _3_7, _3_6, _3_5, _3_4, _3_3, _3_2, _3_1, _3_0),
    *(_2_8, _2_7, _2_6, _2_5, _2_4, _2_3, _2_2, _2_1, _2_0),
    *(_1_1, _1_0, _0_11, _0_10_2, _0_10_1, _0_10_0, _0_9, _0_8_2, _0_8_1, _0_8_0),
)
VERSIONS: Final = {version.name: version for version in _LINES}
_OF_THEIR_OWN: Final = {"3.7.0": replace(_3_7, config_checks_controller=False)}
"""Releases that do otherwise than the later ones of their line."""


def kafka_version(name: str) -> KafkaVersion:
    """The profile of a release line.

    Args:
        name: a line such as `3.9`, which is its last release, or a release of it such as `3.9.1`.

    Raises:
        ConfigError: no such line is simulated.

    >>> kafka_version("3.9.1").name
    '3.9'
    """
    line = next((line for line in VERSIONS if re.fullmatch(rf"{re.escape(line)}(\.\d+)*", name)), None)
    if line is None:
        raise ConfigError(f"Kafka {name!r} is not simulated", where="version", right=f"one of {', '.join(VERSIONS)}")
    return _OF_THEIR_OWN.get(name, VERSIONS[line])
