"""Answers of a coordinator by the state of the group, and what it keeps of offsets (GroupCoordinator.scala, 3.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.coordinator.coordinator_log import LOAD_US
from simzk.kafka.coordinator.group import GroupState
from simzk.kafka.coordinator.group_coordinator import GroupDescription, GroupOverview
from simzk.kafka.coordinator.group_records import NO_LEADER_EPOCH, CommittedOffset
from simzk.kafka.coordinator.transaction import ProducerIdentity
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.coordinator.group_clients import GROUP, TOPIC, Brokers, Consumer, Member

if TYPE_CHECKING:
    from collections.abc import Callable

NONE, LOADING = ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
UNKNOWN, REBALANCE = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
NO_MEMBER = ("", -1, None)
MINUTE_S = 60


def commit(
    brokers: Brokers,
    offsets: dict[TopicPartition, int],
    member: tuple[str, int, str | None] = NO_MEMBER,
    *,
    metadata: str = "",
    group: str = GROUP,
) -> dict[TopicPartition, ErrorCode]:
    """Commit, wait for the answer and return it."""
    now_ms = brokers.scheduler.now_us // 1000
    asked = {one: CommittedOffset(offset, NO_LEADER_EPOCH, metadata, now_ms) for one, offset in offsets.items()}
    results: list[dict[TopicPartition, ErrorCode]] = []
    brokers.coordinator.commit(group, member, asked, results.append)
    brokers.run_for(0.01)
    (result,) = results
    return result


def fetched(brokers: Brokers, *partitions: TopicPartition) -> list[int | None]:
    """Return committed offsets."""
    found = brokers.coordinator.fetch(GROUP, partitions, stable=True)
    assert isinstance(found, dict), found
    return [None if one.committed is None else one.committed.offset for one in found.values()]


def described(brokers: Brokers) -> GroupDescription:
    """Return the group."""
    found = brokers.coordinator.describe(GROUP)
    assert isinstance(found, GroupDescription), found
    return found


REQUESTS: dict[str, Callable[[Brokers, str], object]] = {
    "JoinGroup": lambda brokers, group: joins(brokers, group),
    "SyncGroup": lambda brokers, group: syncs(brokers, group),
    "Heartbeat": lambda brokers, group: brokers.coordinator.heartbeat(group, "m", 1, None),
    "LeaveGroup": lambda brokers, group: brokers.coordinator.leave(group, [("m", None), ("", "a")]),
    "OffsetCommit": lambda brokers, group: commit(brokers, {P0: 1}, ("m", 1, None), group=group)[P0],
    "DescribeGroups": lambda brokers, group: brokers.coordinator.describe(group),
    "DeleteGroups": lambda brokers, group: brokers.coordinator.delete(group),
    "OffsetDelete": lambda brokers, group: brokers.coordinator.delete_offsets(group, [P0]),
    "ListGroups": lambda brokers, _: brokers.coordinator.groups(),
}


def joins(brokers: Brokers, group: str) -> ErrorCode:
    """Let a member that the group does not know join."""
    member = Member(brokers)
    member.member_id = "m"
    results: list[ErrorCode] = []
    brokers.coordinator.join(group, member.request(), lambda result: results.append(result.error))
    return results[0]


def syncs(brokers: Brokers, group: str) -> ErrorCode:
    """Let a member that the group does not know ask for its assignment."""
    member = Member(brokers)
    member.member_id = "m"
    results: list[ErrorCode] = []
    brokers.coordinator.sync(group, member.sync_request(1), lambda result: results.append(result.error))
    return results[0]


INVALID, MISSING = ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND
ANSWERS: dict[str, tuple[object, object, object, object]] = {
    "JoinGroup": (LOADING, UNKNOWN, UNKNOWN, INVALID),
    "SyncGroup": (REBALANCE, UNKNOWN, UNKNOWN, INVALID),
    "Heartbeat": (NONE, UNKNOWN, UNKNOWN, INVALID),
    "LeaveGroup": (LOADING, [UNKNOWN] * 2, [UNKNOWN] * 2, INVALID),
    "OffsetCommit": (LOADING, UNKNOWN, ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
    "DescribeGroups": (LOADING, GroupState.STABLE, None, None),
    "DeleteGroups": (LOADING, ErrorCode.NON_EMPTY_GROUP, MISSING, MISSING),
    "OffsetDelete": (LOADING, {P0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}, MISSING, INVALID),
    "ListGroups": (
        (LOADING, []),
        (NONE, [GroupOverview(GROUP, "consumer", GroupState.STABLE)]),
        (NONE, [GroupOverview(GROUP, "consumer", GroupState.STABLE)]),
        (NONE, [GroupOverview(GROUP, "consumer", GroupState.STABLE)]),
    ),
}
"""While the group is loaded; of a member that it does not know; of no group; of a group without a name."""


@pytest.mark.parametrize("request_", REQUESTS)
def test_answers_by_the_state_of_the_group(request_: str) -> None:
    """Compare with validateGroupStatus and the handlers; the other broker is no coordinator at all."""
    brokers = Brokers()
    Consumer(brokers).start()
    brokers.run_for(10)
    brokers.move(1)
    send, (loading, stranger, no_group, no_name) = REQUESTS[request_], ANSWERS[request_]
    assert send(brokers, GROUP) == loading
    if request_ == "OffsetCommit":
        assert brokers.coordinator.fetch(GROUP, [P0], stable=True) == LOADING
        assert brokers.coordinator.place_of(GROUP) == LOADING
    brokers.run_for(LOAD_US / 1e6)
    found = send(brokers, GROUP)
    assert (found.state if isinstance(found, GroupDescription) else found) == stranger
    assert send(brokers, "other") == no_group
    assert send(brokers, "") == no_name
    brokers.check()


@pytest.mark.parametrize(("session_ms", "is_valid"), [(5_999, False), (6_000, True), (9_000, True), (9_001, False)])
def test_the_session_timeout_is_limited(session_ms: int, is_valid: bool) -> None:
    brokers = Brokers(group_max_session_timeout_ms=9_000)
    member = Member(brokers, session_ms=session_ms)
    member.join()
    brokers.run_for(4)
    assert [one.error for one in member.joined] == [NONE if is_valid else ErrorCode.INVALID_SESSION_TIMEOUT]
    brokers.check()


def test_offsets_with_long_metadata_are_refused_alone() -> None:
    brokers = Brokers(offset_metadata_max_bytes=3)
    assert commit(brokers, {P0: 1}, metadata="abc") == {P0: NONE}
    assert commit(brokers, {P0: 2}, metadata="abcd") == {P0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    asked = {P0: CommittedOffset(3, NO_LEADER_EPOCH, "abcd", 0), P1: CommittedOffset(4, NO_LEADER_EPOCH, "", 0)}
    results: list[dict[TopicPartition, ErrorCode]] = []
    brokers.coordinator.commit(GROUP, NO_MEMBER, asked, results.append)
    brokers.run_for(0.01)
    assert results == [{P0: ErrorCode.OFFSET_METADATA_TOO_LARGE, P1: NONE}]
    assert fetched(brokers, P0, P1) == [1, 4]


def test_a_commit_that_is_not_stored_leaves_the_one_before() -> None:
    """And an earlier commit does not replace a later one (GroupMetadata.onOffsetCommitAppend)."""
    brokers = Brokers()
    commit(brokers, {P0: 1})
    brokers.log.rejects = True
    assert commit(brokers, {P0: 2}) == {P0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    brokers.log.rejects = False
    assert fetched(brokers, P0, P1) == [1, None]
    for offset in (3, 4):
        brokers.coordinator.commit(GROUP, NO_MEMBER, {P0: CommittedOffset(offset, -1, "", 0)}, lambda _: None)
    found = brokers.coordinator.fetch(GROUP, None, stable=True)
    assert isinstance(found, dict)
    assert [one.error for one in found.values()] == [ErrorCode.UNSTABLE_OFFSET_COMMIT]
    first, second = brokers.log.unacknowledged
    brokers.log.acknowledge(second, NONE)
    assert fetched(brokers, P0) == [4]
    brokers.log.acknowledge(first, NONE)
    assert fetched(brokers, P0) == [4]
    brokers.check()


@pytest.mark.parametrize("moves", [False, True])
def test_offsets_expire_after_the_group_became_empty(moves: bool) -> None:
    """And those of a consumer without group after their commit (KIP-211, GroupMetadata.getExpiredOffsets)."""
    brokers = Brokers(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_S * 1000)
    member = Member(brokers, session_ms=1_800_000)
    member.join()
    brokers.run_for(4)
    member.sync()
    brokers.run_for(0.1)
    commit(brokers, {P0: 5}, (member.member_id, 1, None))
    brokers.run_for(8 * MINUTE_S)
    assert member.leave() == [NONE]
    snapshot = described(brokers).snapshot
    assert (snapshot.protocol_name, snapshot.protocol_type, snapshot.generation) == (None, "consumer", 2)
    if moves:
        brokers.run_for(1)
        brokers.move(1)
        brokers.run_for(1)
        assert described(brokers).snapshot == snapshot
    brokers.run_for(8 * MINUTE_S)
    assert fetched(brokers, P0) == [5]
    commit(brokers, {P1: 6})
    brokers.run_for(3 * MINUTE_S)
    assert fetched(brokers, P0, P1) == [None, None], "the later commit too: the group is as long empty"
    assert brokers.coordinator.describe(GROUP) is None
    brokers.move(1 - brokers.log.leader)
    brokers.run_for(1)
    assert brokers.coordinator.groups() == (NONE, [])
    brokers.check()


def test_offsets_of_a_consumer_without_group_expire_after_their_commit() -> None:
    brokers = Brokers(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_S * 1000)
    commit(brokers, {P0: 5})
    brokers.run_for(6 * MINUTE_S)
    commit(brokers, {P1: 6})
    brokers.run_for(3.9 * MINUTE_S)
    assert fetched(brokers, P0, P1) == [5, 6]
    brokers.run_for(1.2 * MINUTE_S)
    assert fetched(brokers, P0, P1) == [None, 6]
    brokers.move(1)
    brokers.run_for(1)
    assert fetched(brokers, P0, P1) == [None, 6]
    brokers.run_for(6 * MINUTE_S)
    assert brokers.coordinator.describe(GROUP) is None
    brokers.check()


def test_a_deleted_group_and_a_deleted_topic_leave_tombstones() -> None:
    brokers = Brokers()
    commit(brokers, {P0: 1, P1: 2, TopicPartition("kept", 0): 3})
    brokers.topics = {"kept"}
    brokers.coordinator.on_topics_changed({TOPIC, "kept"})
    brokers.move(1)
    brokers.run_for(1)
    assert fetched(brokers, P0, P1, TopicPartition("kept", 0)) == [None, None, 3]
    assert brokers.coordinator.delete(GROUP) == NONE
    assert brokers.coordinator.delete(GROUP) == MISSING
    brokers.move(0)
    brokers.run_for(1)
    assert brokers.coordinator.describe(GROUP) is None
    brokers.check()


def test_each_answer_to_a_sync_of_a_stable_group_lets_the_session_begin_anew() -> None:
    """GroupCoordinator.doSyncGroup."""
    brokers = Brokers()
    member = Member(brokers, session_ms=6_000)
    member.join()
    brokers.run_for(4)
    for _ in range(4):
        member.sync()
        brokers.run_for(4)
    assert described(brokers).state == GroupState.STABLE
    brokers.run_for(2.1)
    assert described(brokers).state == GroupState.EMPTY
    brokers.check()


@pytest.mark.parametrize("was_in_use", [False, True])
def test_offsets_are_deleted_while_a_group_that_was_empty_begins_anew(was_in_use: bool) -> None:
    """Members of a new group may read any topic, of one that was empty none yet (computeSubscribedTopics)."""
    brokers = Brokers()
    commit(brokers, {P0: 5})
    if was_in_use:
        first = Member(brokers)
        first.join()
        brokers.run_for(4)
        first.leave()
        assert described(brokers).snapshot.generation == 2
    Member(brokers).join()
    assert described(brokers).state == GroupState.PREPARING_REBALANCE
    refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert brokers.coordinator.delete_offsets(GROUP, [P0]) == {P0: NONE if was_in_use else refused}
    assert fetched(brokers, P0) == [None if was_in_use else 5]
    brokers.check()


def test_names_that_no_record_can_hold_are_refused() -> None:
    """An exception of the broker is UNKNOWN_SERVER_ERROR; nothing is kept of the group."""
    brokers = Brokers()
    failed, name = ErrorCode.UNKNOWN_SERVER_ERROR, "x" * 32_768
    assert brokers.coordinator.heartbeat(name, "m", 1, None) == failed
    assert commit(brokers, {P0: 1}, group=name) == {P0: failed}
    assert commit(brokers, {P0: 1}, group=name[1:]) == {P0: NONE}
    member = Member(brokers, instance_id=name)
    member.join()
    assert [one.error for one in member.joined] == [failed]
    assert brokers.coordinator.describe(GROUP) is None
    brokers.check()


PAID = TopicPartition("paid", 0)


@pytest.mark.parametrize(
    ("release", "read_expires", "other_expires"),
    [("2.0", True, True), ("2.1", False, False), ("2.3", False, False), ("2.4", False, True), ("3.9", False, True)],
)
def test_what_expires_in_a_stable_group(release: str, read_expires: bool, other_expires: bool) -> None:
    """All up to 2.0, nothing with KIP-211, then what no member reads (KIP-496)."""
    brokers = Brokers(release, offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_S * 1000)
    consumer = Consumer(brokers).start()
    brokers.run_for(10)
    commit(brokers, {P0: 5, PAID: 6}, (consumer.member_id, consumer.generation, None))
    brokers.run_for(9 * MINUTE_S)
    assert fetched(brokers, P0, PAID) == [5, 6]
    brokers.run_for(2.1 * MINUTE_S)
    assert fetched(brokers, P0, PAID) == [None if read_expires else 5, None if other_expires else 6]
    brokers.check()


def test_nothing_expires_during_a_rebalance() -> None:
    brokers = Brokers(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_S * 1000)
    consumer = Consumer(brokers).start()
    brokers.run_for(10)
    commit(brokers, {P0: 5, PAID: 6}, (consumer.member_id, consumer.generation, None))
    brokers.run_for(9 * MINUTE_S)
    consumer.stop()
    slow = Member(brokers, 1_200_000, session_ms=1_800_000)
    slow.join()
    brokers.run_for(7)
    slow.sync()
    Member(brokers).join()
    assert described(brokers).state == GroupState.PREPARING_REBALANCE
    brokers.run_for(4 * MINUTE_S)
    assert fetched(brokers, P0, PAID) == [5, 6]
    brokers.check()


def test_an_offset_does_not_expire_while_the_next_one_is_stored() -> None:
    """GroupMetadata.getExpiredOffsets leaves out pending commits."""
    brokers = Brokers(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_S * 1000)
    commit(brokers, {P0: 5})
    brokers.scheduler.run_until(10 * MINUTE_S * 1_000_000 - 2_000)
    assert commit(brokers, {P0: 6}) == {P0: NONE}
    brokers.run_for(MINUTE_S)
    assert fetched(brokers, P0) == [6]
    brokers.check()


def test_the_client_says_when_an_offset_expires() -> None:
    """OffsetCommit up to version 4."""
    brokers = Brokers(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_S * 1000)
    for partition, expire_s in ((P0, 3 * MINUTE_S), (P1, 20 * MINUTE_S)):
        asked = {partition: CommittedOffset(5, NO_LEADER_EPOCH, "", 0, expire_s * 1000)}
        brokers.coordinator.commit(GROUP, NO_MEMBER, asked, lambda _: None)
    brokers.run_for(2.9 * MINUTE_S)
    assert fetched(brokers, P0, P1) == [5, 5]
    brokers.run_for(0.2 * MINUTE_S)
    assert fetched(brokers, P0, P1) == [None, 5]
    brokers.run_for(16.8 * MINUTE_S)
    assert fetched(brokers, P1) == [5]
    brokers.run_for(0.2 * MINUTE_S)
    assert fetched(brokers, P1) == [None]


def test_offsets_of_a_group_of_another_kind_are_not_deleted() -> None:
    """NON_EMPTY_GROUP: the coordinator knows only what consumers read (handleDeleteOffsets)."""
    brokers = Brokers()
    member = Member(brokers)
    brokers.coordinator.join(GROUP, member.request()._replace(protocol_type="connect"), member.joined.append)
    brokers.run_for(4)
    assert brokers.coordinator.delete_offsets(GROUP, [P0]) == ErrorCode.NON_EMPTY_GROUP
    assert brokers.coordinator.delete(GROUP) == ErrorCode.NON_EMPTY_GROUP


def test_a_deleted_topic_takes_offsets_of_open_transactions_along() -> None:
    brokers = Brokers()
    asked = {P0: CommittedOffset(5, NO_LEADER_EPOCH, "", 0), PAID: CommittedOffset(6, NO_LEADER_EPOCH, "", 0)}
    brokers.coordinator.commit(GROUP, NO_MEMBER, asked, lambda _: None, ProducerIdentity(7, 0))
    brokers.run_for(0.1)
    brokers.topics = {"paid"}
    brokers.coordinator.on_topics_changed({TOPIC, "paid"})
    brokers.end_transaction(7, is_commit=True)
    assert fetched(brokers, P0, PAID) == [None, 6]
    brokers.check()


def test_a_load_ends_with_the_leadership() -> None:
    brokers = Brokers()
    commit(brokers, {P0: 5})
    for leader in (1, 0, 1):
        brokers.move(leader)
        brokers.run_for(LOAD_US / 2e6)
    assert brokers.coordinator.fetch(GROUP, [P0], stable=True) == LOADING
    brokers.run_for(LOAD_US / 1e6)
    assert fetched(brokers, P0) == [5]
    assert brokers.coordinators[0].fetch(GROUP, [P0], stable=True) == ErrorCode.NOT_COORDINATOR
    brokers.check()


@pytest.mark.parametrize(("release", "is_kept"), [("0.9", False), ("0.10.0", False), ("0.10.1", True), ("3.9", True)])
def test_a_group_whose_members_left_is_stored_or_removed(release: str, is_kept: bool) -> None:
    """KAFKA-2720."""
    brokers = Brokers(release)
    member = Member(brokers, session_ms=20_000)
    member.join()
    brokers.run_for(4)
    member.sync()
    brokers.run_for(0.1)
    member.leave()
    brokers.run_for(0.1)
    assert [record.value is not None for record in brokers.log.records] == [True, is_kept]
    brokers.check()
