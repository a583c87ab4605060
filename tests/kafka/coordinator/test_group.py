"""Rules of rebalances that no recording shows, from Kafka's improvement proposals and issues."""

from __future__ import annotations

import re

import pytest

from simzk.kafka.coordinator.group import GroupState
from simzk.kafka.coordinator.group_coordinator import _Entry
from simzk.kafka.coordinator.group_records import NO_LEADER_EPOCH, CommittedOffset
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.coordinator.group_clients import GROUP, TOPIC, Brokers, Consumer, Member, joined

VALID_PREVIOUS_STATES = """
Dead -> Set(Stable, PreparingRebalance, CompletingRebalance, Empty, Dead),
CompletingRebalance -> Set(PreparingRebalance),
Stable -> Set(CompletingRebalance),
PreparingRebalance -> Set(Stable, CompletingRebalance, Empty),
Empty -> Set(PreparingRebalance)
"""
"""From GroupMetadata.scala of Kafka 1.1."""


@pytest.mark.parametrize("line", VALID_PREVIOUS_STATES.strip().splitlines())
def test_a_group_changes_its_state_only_as_in_kafka(line: str) -> None:
    to, previous = re.findall(r"\w+", line)[0], re.findall(r"\w+", line)[2:]
    for state in GroupState:
        brokers = Brokers()
        joined(brokers, 1)
        entry = brokers.coordinator._find(GROUP)
        assert isinstance(entry, _Entry)
        group = entry.group
        group.state = state
        if state.value in previous:
            group._set_state(GroupState(to))
            assert group.state.value == to
        else:
            with pytest.raises(AssertionError, match=f"{GROUP} is {state.value}, and becomes {to}"):
                group._set_state(GroupState(to))


def test_a_member_that_waits_for_its_assignment_hears_of_a_new_rebalance() -> None:
    brokers = Brokers()
    follower = joined(brokers, 2)[1]
    follower.sync()
    assert not follower.synced
    Member(brokers).join()
    assert [result.error for result in follower.synced] == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_member_whose_sync_fails_has_its_session_timeout_from_then_on() -> None:
    """Wait in SyncGroup for longer than the session timeout, hear of a rebalance, and die (propagateAssignment)."""
    brokers = Brokers()
    leader, follower = Member(brokers, 60_000), Member(brokers, 60_000, session_ms=6_000)
    for member in (leader, follower):
        member.join()
    brokers.run_for(7)
    follower.sync()
    brokers.run_for(10)
    third = Member(brokers, 60_000)
    third.join()
    assert [result.error for result in follower.synced] == [ErrorCode.REBALANCE_IN_PROGRESS]
    leader.join()
    brokers.run_for(5.9)
    assert len(third.joined) == 0, "the follower may still join"
    brokers.run_for(0.2)
    assert {member.member_id for member in leader.joined[-1].members} == {leader.member_id, third.member_id}
    brokers.check()


@pytest.mark.parametrize("beats", [True, False])
def test_a_member_that_sends_heartbeats_may_join_late(beats: bool) -> None:
    """Keep it in a rebalance for the rebalance timeout, and without heartbeats for its session timeout."""
    brokers = Brokers()
    slow = Member(brokers, 60_000, session_ms=6_000)
    slow.join()
    brokers.run_for(7)
    slow.sync()
    brokers.run_for(1)
    other = Member(brokers, 60_000)
    other.join()
    for _ in range(5):
        brokers.run_for(4)
        if beats:
            answer = brokers.coordinator.heartbeat(GROUP, slow.member_id, 1, None)
            assert answer == ErrorCode.REBALANCE_IN_PROGRESS
    assert bool(other.joined) != beats, "the rebalance ends without a member whose session has expired"
    slow.join()
    later = ErrorCode.NONE if beats else ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.error for one in slow.joined] == [ErrorCode.NONE, later]


def test_a_static_member_that_waits_for_its_assignment_is_fenced_by_the_next_process() -> None:
    """Answer the first process, which must not take the assignment of the second (KIP-345)."""
    brokers = Brokers("2.3")
    _, before = members = Member(brokers), Member(brokers, instance_id="a")
    for member in members:
        member.join()
    brokers.run_for(7)
    before.sync()
    assert not before.synced
    after = Member(brokers, instance_id="a")
    after.join()
    brokers.run_for(1)
    assert [result.error for result in before.synced] == [ErrorCode.FENCED_INSTANCE_ID]
    brokers.check()


def test_each_new_member_prolongs_the_first_rebalance() -> None:
    """Wait for `group.initial.rebalance.delay.ms` after each new member, up to the rebalance timeout (KIP-134)."""
    brokers = Brokers()
    members = [Member(brokers) for _ in range(5)]
    for member in members:
        member.join()
        brokers.run_for(2.5)
        brokers.check()
    # The first delay of 3 s is prolonged to 6, 9 and 10 s: the last member joins at 10 s, in the next generation.
    assert [bool(member.joined) for member in members] == [True, True, True, True, False]


@pytest.mark.parametrize("delay_ms", [0, 3000])
def test_a_later_rebalance_ends_with_the_last_member(delay_ms: int) -> None:
    brokers = Brokers(group_initial_rebalance_delay_ms=delay_ms)
    first, second = joined(brokers, 2)
    third = Member(brokers)
    third.join()
    first.join()
    assert not third.joined
    second.join()
    assert {member.joined[-1].generation for member in (first, second, third)} == {2}


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_second_member_joins_right_after_the_first(is_stored: bool) -> None:
    """Send the first member back while its assignment is being stored; afterwards the second waits for it.

    By GroupCoordinator of 3.9 (prepareRebalance, tryCompleteJoin, doCommitOffsets). librdkafka's test 0118 passes in
    the first case only: in the second its first consumer is not polled, and does not join again.
    """
    brokers = Brokers(group_initial_rebalance_delay_ms=0)
    first, second = Member(brokers), Member(brokers)
    first.join()
    brokers.run_for(0)
    first.sync()
    if is_stored:
        brokers.run_for(1)
    second.join()
    assert [one.error for one in first.synced] == [
        ErrorCode.NONE if is_stored else ErrorCode.REBALANCE_IN_PROGRESS,
    ]
    answer = brokers.coordinator.heartbeat(GROUP, first.member_id, 1, None)
    assert answer == ErrorCode.REBALANCE_IN_PROGRESS
    first.sync()
    assert first.synced[-1].error == ErrorCode.REBALANCE_IN_PROGRESS
    results: list[dict[TopicPartition, ErrorCode]] = []
    offset = {TopicPartition(TOPIC, 0): CommittedOffset(1, NO_LEADER_EPOCH, "", 0)}
    brokers.coordinator.commit(GROUP, (first.member_id, 1, None), offset, results.append)
    brokers.run_for(9)
    assert results == [{TopicPartition(TOPIC, 0): ErrorCode.NONE}]
    assert not second.joined
    brokers.run_for(2)  # the rebalance timeout
    assert (second.joined[-1].generation, second.joined[-1].leader) == (2, second.member_id)
    assert len(second.joined[-1].members) == 1
    brokers.check()


def test_a_full_group_rejects_members() -> None:
    """Answer GROUP_MAX_SIZE_REACHED to a member too many (KIP-389)."""
    brokers = Brokers(group_max_size=2)
    joined(brokers, 2)
    third = Member(brokers)
    third.join()
    assert third.joined[0].error == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_rebalance_waits_for_members_that_were_given_an_id() -> None:
    """Wait for those who were answered MEMBER_ID_REQUIRED, until their session times out (KIP-394)."""
    brokers = Brokers()
    (member,) = joined(brokers, 1)
    lost = Member(brokers)
    lost.join(accepts_id=True)
    assert lost.joined[0].error == ErrorCode.MEMBER_ID_REQUIRED
    member.join(protocols=("range", "roundrobin"))
    brokers.run_for(9)
    assert len(member.joined) == 1
    brokers.run_for(2)  # the rebalance timeout
    assert member.joined[-1].generation == 2


def test_a_leader_that_does_not_come_back_is_replaced() -> None:
    brokers = Brokers()
    leader, other = joined(brokers, 2)
    assert other.joined[-1].leader == leader.member_id
    third = Member(brokers)
    third.join()
    other.join()
    brokers.run_for(11)
    assert other.joined[-1].leader == other.member_id
    assert {member.member_id for member in other.joined[-1].members} == {other.member_id, third.member_id}
    assert brokers.coordinator.heartbeat(GROUP, leader.member_id, 2, None) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("release", "generation"), [("2.8", 1), ("3.0", 2)])
def test_a_member_that_does_not_sync_is_removed(release: str, generation: int) -> None:
    """Remove members without a SyncGroup after the rebalance timeout, and rebalance (KAFKA-12890, 3.0)."""
    brokers = Brokers(release)
    follower = joined(brokers, 2)[1]
    follower.sync()  # the leader does not
    brokers.run_for(11)
    is_in_rebalance = bool(follower.synced)
    assert is_in_rebalance == (generation == 2)
    if is_in_rebalance:
        follower.join()
        assert follower.joined[-1].generation == generation
        assert follower.joined[-1].leader == follower.member_id


def test_members_without_a_common_protocol() -> None:
    brokers = Brokers()
    joined(brokers, 2)
    other = Member(brokers)
    other.join(protocols=("sticky",))
    assert other.joined[0].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("release", "stored"), [("2.4", 1), ("2.6.0", 1), ("2.6.1", 2), ("3.9", 2)])
def test_a_static_member_that_restarts_is_stored_with_its_new_id(release: str, stored: int) -> None:
    """KAFKA-10284; the sizes of logs that brokers of 2.4 and 2.8 recorded."""
    brokers = Brokers(release, group_initial_rebalance_delay_ms=0)
    Consumer(brokers, "a").start()
    brokers.run_for(0.1)
    Consumer(brokers, "a").start()
    brokers.run_for(0.1)
    assert len(brokers.log.batches) == stored
    brokers.check()
