"""Records of `__consumer_offsets`: bytes by the published schemas, every version back and forth, and garbage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.coordinator.group import GroupSnapshot, MemberSnapshot
from simzk.kafka.coordinator.group_records import (
    GROUP_VALUE_VERSIONS,
    OFFSET_VALUE_VERSIONS,
    CommittedOffset,
    GroupKey,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from simzk.kafka.coordinator.record_fields import RecordError
from simzk.kafka.releases.cluster_releases import at_protocol
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition

TEXTS = st.text(max_size=20)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.builds(
    MemberSnapshot, TEXTS, st.none() | TEXTS, TEXTS, TEXTS, INTS, INTS, st.binary(max_size=9), st.binary(max_size=9)
)
GROUPS = st.builds(
    GroupSnapshot, st.just("g"), TEXTS, INTS, st.none() | TEXTS, st.none() | TEXTS, LONGS, st.lists(MEMBERS, max_size=3)
)


def test_bytes_are_those_of_the_published_schemas() -> None:
    """OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json and GroupMetadataValue.json, by hand."""
    assert encode_offset_key(OffsetKey("g", TopicPartition("t", 2))).hex() == "000100016700017400000002"
    assert encode_group_key("g").hex() == "0002000167"
    offset = CommittedOffset(5, 3, "m", 9)
    assert encode_offset(offset, 3).hex() == "000300000000000000050000000300016d0000000000000009"
    assert encode_offset(offset, 2).hex() == "0002000000000000000500016d0000000000000009"
    assert encode_offset(offset, 1).hex() == "0001000000000000000500016d0000000000000009" + "f" * 16
    member = MemberSnapshot("m", "i", "c", "/h", 6, 7, b"s", b"a")
    group = GroupSnapshot("g", "consumer", 4, "range", "m", 9, [member])
    head = "0008" + b"consumer".hex() + "000000040005" + b"range".hex() + "00016d"
    tail = "0000000600000001730000000161"
    assert encode_group(group, 0).hex() == "0000" + head + "0000000100016d00016300022f68" + tail
    assert encode_group(group, 3).hex() == (
        "0003" + head + "00000000000000090000000100016d00016900016300022f6800000007" + tail
    )


@given(st.builds(CommittedOffset, LONGS, INTS, TEXTS, LONGS, LONGS), st.sampled_from(OFFSET_VALUE_VERSIONS))
def test_offsets_back_and_forth(offset: CommittedOffset, version: int) -> None:
    expires = offset.expire_ms != -1 and version > 0
    wanted = offset._replace(
        leader_epoch=offset.leader_epoch if version >= 3 and not expires else -1,
        expire_ms=offset.expire_ms if expires else -1,
    )
    if offset.expire_ms == -1 or version == 0:
        wanted = wanted._replace(leader_epoch=offset.leader_epoch if version >= 3 else -1)
    assert decode_offset(encode_offset(offset, version)) == wanted


@given(GROUPS, st.sampled_from(GROUP_VALUE_VERSIONS))
def test_groups_back_and_forth(group: GroupSnapshot, version: int) -> None:
    members = [
        member._replace(
            instance_id=member.instance_id if version >= 3 else None,
            rebalance_ms=member.rebalance_ms if version >= 1 else member.session_ms,
        )
        for member in group.members
    ]
    wanted = group._replace(members=members, state_since_ms=group.state_since_ms if version >= 2 else -1)
    assert decode_group("g", encode_group(group, version)) == wanted


@given(TEXTS, TEXTS, st.integers(0, 2**31 - 1))
def test_keys_back_and_forth(group_id: str, topic: str, number: int) -> None:
    key = OffsetKey(group_id, TopicPartition(topic, number))
    assert decode_key(encode_offset_key(key)) == key
    assert decode_key(encode_group_key(group_id)) == GroupKey(group_id)


@given(st.binary(max_size=60))
def test_garbage(data: bytes) -> None:
    for decode in (decode_key, decode_offset, lambda found: decode_group("g", found)):
        try:
            decode(data)
        except RecordError:
            continue


def test_a_key_of_a_later_release_is_ignored() -> None:
    assert decode_key(b"\0\x09anything") is None


@pytest.mark.parametrize(
    ("release", "protocol", "versions"),
    [
        ("0.9", None, (1, 0)),
        ("0.10.1", None, (1, 1)),
        ("2.0", None, (1, 1)),
        ("2.1", None, (3, 2)),
        ("2.3", None, (3, 3)),
        ("3.9", None, (3, 3)),
        ("3.9", "2.1-IV0", (2, 2)),
        ("3.9", "2.0", (1, 1)),
        ("2.4", "0.10.0", (1, 0)),
    ],
)
def test_versions_of_values_by_release_and_protocol(
    release: str, protocol: str | None, versions: tuple[int, int]
) -> None:
    version = kafka_version(release)
    rules = (version if protocol is None else at_protocol(version, protocol)).groups
    assert (rules.offset_value_version, rules.group_value_version) == versions
