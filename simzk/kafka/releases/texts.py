"""Texts of errors about topics, by release, as brokers send them to clients (recorded 0.10.2 to 3.9).

Rules of this module:
  - a text is a format with named fields; "recorded" releases are 0.10.2, 0.11, 1.1, 2.0, 2.4, 2.8, 3.4 and 3.9, so a
    change between two of them is dated to the later line, or where a Kafka issue says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.releases.since import Profile, by_release, since

if TYPE_CHECKING:
    from collections.abc import Sequence


_LEGAL = "ASCII alphanumerics, '.', '_' and '-'"
_REJECTED = "One or more records have been rejected"
_FIRST_ERRORS = " due to {count} record errors in total, and only showing the first three errors at most: [{errors}]"


class TopicTexts(Profile):
    """Texts of errors about topics."""

    empty_name: str = by_release(
        "topic name is illegal, can't be empty",
        ((0, 11), "Topic name is illegal, it can't be empty"),
        ((3, 0), "Topic name is invalid: the empty string is not allowed"),
    )
    dotted_name: str = by_release(
        'topic name cannot be "." or ".."',
        ((0, 11), 'Topic name cannot be "." or ".."'),
        ((3, 0), "Topic name is invalid: '{name}' is not allowed"),
    )
    long_name: str = by_release(
        "topic name is illegal, can't be longer than {longest} characters",
        ((0, 11), "Topic name is illegal, it can't be longer than {longest} characters, topic name: {name}"),
        ((3, 0), "Topic name is invalid: the length of '{name}' is longer than the max allowed length {longest}"),
    )
    illegal_name: str = by_release(
        "topic name {name} is illegal, contains a character other than " + _LEGAL,
        ((0, 11), 'Topic name "{name}" is illegal, it contains a character other than ' + _LEGAL),
        ((3, 0), "Topic name is invalid: '{name}' contains one or more characters other than " + _LEGAL),
    )
    wholly_illegal_name: str | None = by_release(
        "topic name {name} is illegal,  contains a character other than " + _LEGAL, ((0, 11), None)
    )
    """For a name without any legal character; None: as `illegal_name`."""
    exists: str = by_release("Topic '{name}' already exists.")
    marked_for_deletion: str = by_release(
        "Topic '{name}' already exists.", ((3, 0), "Topic '{name}' is marked for deletion.")
    )
    collides: str = by_release("Topic '{name}' collides with existing topics: {others}")
    few_partitions: str = by_release(
        "number of partitions must be larger than 0", ((1, 0), "Number of partitions must be larger than 0.")
    )
    few_replicas: str = by_release(
        "replication factor must be larger than 0", ((1, 0), "Replication factor must be larger than 0.")
    )
    many_replicas: str = by_release(
        "replication factor: {factor} larger than available brokers: {brokers}",
        ((1, 0), "Replication factor: {factor} larger than available brokers: {brokers}."),
    )
    duplicate_replica: str = by_release("Duplicate replica assignment found: {map}({assignment})")
    map_name: str = by_release("Map", ((2, 6), "HashMap"))
    """Name of Scala's map in texts: of 2.12, then of 2.13."""
    uneven_replicas: str = by_release("All partitions should have the same number of replicas")
    gap: str = by_release("partitions should be a consecutive 0-based integer sequence")
    counts_and_assignment: str = by_release(
        "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at "
        "the same time."
    )
    unknown_key: str = by_release("Unknown Log configuration {key}.", ((0, 11), "Unknown topic config name: {key}"))
    null_value: str | None = by_release(
        None,
        ((2, 8), "Null value not supported for topic configs : {key}"),
        ((3, 0), "Null value not supported for topic configs: {key}"),
    )
    twice_in_request: str = by_release(
        "Create topics request from client `{client}` contains multiple entries for the following topics: {names}",
        ((2, 4), "Found multiple entries for this topic."),
    )
    keyless_record: str = by_release(
        "Compacted topic cannot accept message without key in topic partition {partition}.",
        ((3, 5), "Compacted topic cannot accept message without key in topic partition {partition}"),
    )
    mistimed_record: str = by_release(
        "Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be within "
        "[{first}, {last}]"
    )
    append_time_record: str = by_release(
        "Invalid timestamp type in message {record}. Producer should not set timestamp type to LogAppendTime."
    )
    lists_rejected_records: bool = since((2, 5))
    """All rejected records of a batch are listed with their texts; before, the first one without (KAFKA-8729)."""
    rejected_records: str = by_release("{text}", ((2, 5), _REJECTED), ((3, 2), _REJECTED + _FIRST_ERRORS))
    rejected_timestamps: str = by_release("{text}", ((2, 5), _REJECTED + " due to invalid timestamp"))
    """The same if the timestamp of one of them is invalid."""
    metadata_topic: str = by_release(
        "Authorization failed.", ((3, 9), "Creation of internal topic __cluster_metadata is prohibited.")
    )
    queued_for_deletion: str = by_release("The topic is queued for deletion.")
    not_controller: str | None = by_release(None, ((2, 4), ""))
    unknown_election: str = by_release("Value {kind} must be one of [PREFERRED, UNCLEAN]", ((2, 8), ""))
    """An election of an unknown kind; empty: no text."""
    knows_election_not_needed: bool = since((2, 4))
    """An election that changes nothing is an error (KIP-460); before, it succeeds."""
    election_not_needed: str = by_release(
        "Leader election not needed for topic partition", ((2, 8), "Leader election not needed for topic partition.")
    )
    explains_targets: bool = since((2, 8))
    """An invalid target of a reassignment is explained."""

    def invalid_target(self, target: Sequence[int], live: Sequence[int]) -> str:
        """Return why a target of a reassignment is invalid."""
        if not self.explains_targets:
            return "Replica assignment is invalid."
        if not target:
            return "Empty replica list specified in partition reassignment."
        listed = ", ".join(map(str, target))
        if len(dict.fromkeys(target)) != len(target):
            return f"Duplicate replica ids in partition reassignment replica list: ArrayBuffer({listed})"
        if any(broker < 0 for broker in target):
            return f"Invalid broker id in replica list: ArrayBuffer({listed})"
        dead = ", ".join(str(broker) for broker in target if broker not in live)
        present = ", ".join(map(str, live))
        return (
            f"Replica assignment has brokers that are not alive. Replica list: ArrayBuffer({dead}), live broker list: "
            f"Set({present})"
        )
