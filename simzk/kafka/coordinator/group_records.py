"""Records of `__consumer_offsets`: committed offsets and groups, as bytes of each version.

Rules of this module (GroupMetadataManager; OffsetCommitKey, OffsetCommitValue, GroupMetadataKey, GroupMetadataValue):
  - a key and a value begin with their version, an int16. Keys of version 0 and 1 name offsets, of 2 groups;
  - every version that a release of ZooKeeper mode writes is decoded; a release writes the one of its inter-broker
    protocol (`GroupRules`);
  - a key without a value, a tombstone, removes the offset or group;
  - a key of another version is ignored: a later release may have written it;
  - bytes that are no such record raise `RecordError`.
"""

from __future__ import annotations

from typing import NamedTuple

from simzk.kafka.coordinator.group import GroupSnapshot, MemberSnapshot
from simzk.kafka.coordinator.record_fields import FieldReader, FieldWriter, RecordError
from simzk.kafka.topic_partition import TopicPartition

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
OFFSET_KEY_VERSION, GROUP_KEY_VERSION = 1, 2
OFFSET_VALUE_VERSIONS = range(4)
GROUP_VALUE_VERSIONS = range(4)
_OFFSET_KEYS = (0, 1)
_FIRST_WITH_EXPIRY, _LEADER_EPOCHS = 1, 3
_REBALANCE_TIMEOUT, _STATE_TIMESTAMP, _INSTANCE_ID = 1, 2, 3


class OffsetKey(NamedTuple):
    """Key of a committed offset."""

    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    """Key of a group."""

    group_id: str


class CommittedOffset(NamedTuple):
    """A committed offset.

    Args:
        offset: the offset of the next record to read.
        leader_epoch: epoch of the last record that was read; `NO_LEADER_EPOCH` if it is unknown.
        metadata: text of the client.
        commit_ms: when it was committed.
        expire_ms: when it expires, if the client asked for a retention time; else `NO_TIMESTAMP`.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_TIMESTAMP


# -- keys


def encode_offset_key(key: OffsetKey) -> bytes:
    """Return the key of an offset.

    >>> decode_key(encode_offset_key(OffsetKey("g", TopicPartition("orders", 2))))
    OffsetKey(group_id='g', partition=TopicPartition(topic='orders', partition=2))
    """
    writer = FieldWriter(OFFSET_KEY_VERSION)
    writer.texts(key.group_id, key.partition.topic)
    writer.numbers("i", key.partition.partition)
    return writer.done()


def encode_group_key(group_id: str) -> bytes:
    """Return the key of a group.

    >>> encode_group_key("g").hex()
    '0002000167'
    """
    writer = FieldWriter(GROUP_KEY_VERSION)
    writer.texts(group_id)
    return writer.done()


def decode_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Return a key; None for one of another version.

    Raises:
        RecordError: the bytes are no key.
    """
    reader = FieldReader(data)
    version = reader.number("h")
    if version in _OFFSET_KEYS:
        return OffsetKey(reader.string(), TopicPartition(reader.string(), reader.number("i")))
    return GroupKey(reader.string()) if version == GROUP_KEY_VERSION else None


# -- values


def encode_offset(committed: CommittedOffset, version: int) -> bytes:
    """Return the value of a committed offset.

    Args:
        committed: the offset.
        version: 0 (0.8.1), 1 (0.8.2), 2 (2.1-IV0) or 3 (2.1-IV1); one that expires by its own time is of version 1.
    """
    assert version in OFFSET_VALUE_VERSIONS, f"version {version}"
    if committed.expire_ms != NO_TIMESTAMP:  # later versions have no field for it
        version = min(version, _FIRST_WITH_EXPIRY)
    writer = FieldWriter(version)
    writer.numbers("q", committed.offset)
    if version >= _LEADER_EPOCHS:
        writer.numbers("i", committed.leader_epoch)
    writer.texts(committed.metadata)
    writer.numbers("q", committed.commit_ms)
    if version == _FIRST_WITH_EXPIRY:
        writer.numbers("q", committed.expire_ms)
    return writer.done()


def decode_offset(data: bytes) -> CommittedOffset:
    """Return the committed offset of a value.

    Raises:
        RecordError: the bytes are no such value, or of an unknown version.

    >>> decode_offset(encode_offset(CommittedOffset(7, 2, "note", 1000), 3))
    CommittedOffset(offset=7, leader_epoch=2, metadata='note', commit_ms=1000, expire_ms=-1)
    """
    reader = FieldReader(data)
    version = reader.number("h")
    if version not in OFFSET_VALUE_VERSIONS:
        raise RecordError(f"an offset of version {version}", where="byte 0", right="a version of 0 to 3")
    offset = reader.number("q")
    epoch = reader.number("i") if version >= _LEADER_EPOCHS else NO_LEADER_EPOCH
    metadata, commit_ms = reader.string(), reader.number("q")
    expire_ms = reader.number("q") if version == _FIRST_WITH_EXPIRY else NO_TIMESTAMP
    return CommittedOffset(offset, epoch, metadata, commit_ms, expire_ms)


def encode_group(group: GroupSnapshot, version: int) -> bytes:
    """Return the value of a group.

    Args:
        group: the group.
        version: 0 (0.9), 1 (0.10.1), 2 (2.1) or 3 (2.3).
    """
    assert version in GROUP_VALUE_VERSIONS, f"version {version}"
    writer = FieldWriter(version)
    writer.texts(group.protocol_type)
    writer.numbers("i", group.generation)
    writer.texts(group.protocol_name, group.leader)
    if version >= _STATE_TIMESTAMP:
        writer.numbers("q", group.state_since_ms)
    writer.numbers("i", len(group.members))
    for member in group.members:
        ids = [member.member_id, member.instance_id] if version >= _INSTANCE_ID else [member.member_id]
        writer.texts(*ids, member.client_id, member.client_host)
        if version >= _REBALANCE_TIMEOUT:
            writer.numbers("i", member.rebalance_ms)
        writer.numbers("i", member.session_ms)
        writer.data(member.subscription, member.assignment)
    return writer.done()


def decode_group(group_id: str, data: bytes) -> GroupSnapshot:
    """Return the group of a value.

    Raises:
        RecordError: the bytes are no such value, or of an unknown version.
    """
    reader = FieldReader(data)
    version = reader.number("h")
    if version not in GROUP_VALUE_VERSIONS:
        raise RecordError(f"a group of version {version}", where="byte 0", right="a version of 0 to 3")
    protocol_type, generation = reader.string(), reader.number("i")
    protocol_name, leader = reader.nullable_string(), reader.nullable_string()
    since_ms = reader.number("q") if version >= _STATE_TIMESTAMP else NO_TIMESTAMP
    members = []
    for _ in range(reader.number("i")):
        member_id = reader.string()
        instance_id = reader.nullable_string() if version >= _INSTANCE_ID else None
        client_id, client_host = reader.string(), reader.string()
        rebalance_ms = reader.number("i") if version >= _REBALANCE_TIMEOUT else NO_TIMESTAMP
        session_ms = reader.number("i")
        timeouts = session_ms, session_ms if version < _REBALANCE_TIMEOUT else rebalance_ms
        of_protocol = reader.data(), reader.data()
        members.append(MemberSnapshot(member_id, instance_id, client_id, client_host, *timeouts, *of_protocol))
    return GroupSnapshot(group_id, protocol_type, generation, protocol_name, leader, since_ms, members)
