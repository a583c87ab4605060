"""What a group remembers of its members: timeouts, subscriptions, places of static ones (GroupCoordinator, 3.9)."""

from __future__ import annotations

import pytest

from simzk.kafka.coordinator.group import GroupState, JoinedMember
from simzk.kafka.coordinator.group_coordinator import GroupDescription
from simzk.kafka.coordinator.group_records import NO_LEADER_EPOCH, CommittedOffset
from simzk.kafka.coordinator.transaction import ProducerIdentity
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.coordinator.group_clients import GROUP, TOPIC, Brokers, Member, joined

NONE, UNKNOWN, REBALANCE = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS
PARTITION = TopicPartition(TOPIC, 0)


def described(brokers: Brokers) -> GroupDescription:
    """Return the group as it is described."""
    found = brokers.coordinator.describe(GROUP)
    assert isinstance(found, GroupDescription), found
    return found


def stable(brokers: Brokers, *members: Member) -> None:
    """Let members form the first generation; each is assigned its number, the first one leads."""
    for member in members:
        member.join()
    brokers.run_for(7)
    members[0].sync({member.member_id: bytes((number,)) for number, member in enumerate(members)})
    for member in members[1:]:
        member.sync()
    brokers.run_for(0.1)
    assert [member.synced[-1].assignment for member in members] == [bytes((n,)) for n in range(len(members))]
    brokers.check()


@pytest.mark.parametrize(("does", "lives"), [("beat", True), ("commit", True), ("add offsets", False), ("ask", False)])
def test_what_keeps_a_session_alive(does: str, lives: bool) -> None:
    """Heartbeats and commits do (doCommitOffsets); offsets of a transaction do not (doTxnCommitOffsets)."""
    brokers = Brokers()
    member = Member(brokers, session_ms=6_000)
    stable(brokers, member)
    results: list[dict[TopicPartition, ErrorCode]] = []
    for offset in range(2):
        brokers.run_for(4)
        if does == "beat":
            assert member.beat() == NONE
        elif does == "ask":
            brokers.coordinator.fetch(GROUP, [PARTITION], stable=True)
        else:
            producer = ProducerIdentity(7, 0) if does == "add offsets" else None
            committed = {PARTITION: CommittedOffset(offset, NO_LEADER_EPOCH, "", 0)}
            known = member.member_id, 1, None
            brokers.coordinator.commit(GROUP, known, committed, results.append, producer)
    assert described(brokers).state == (GroupState.STABLE if lives else GroupState.EMPTY)
    brokers.run_for(6.1)
    assert described(brokers).state == GroupState.EMPTY
    brokers.check()


@pytest.mark.parametrize(("release", "waits_for_ever"), [("2.1", True), ("2.2", False), ("3.9", False)])
def test_a_new_member_waits_for_five_minutes(release: str, waits_for_ever: bool) -> None:
    """Remove it then, although it waits for an answer (KAFKA-7610, NewMemberJoinTimeoutMs)."""
    brokers = Brokers(release)
    old = Member(brokers, rebalance_ms=900_000)
    stable(brokers, old)
    new = Member(brokers, session_ms=6_000)
    new.join()
    for _ in range(299):
        brokers.run_for(1)
        assert old.beat() == REBALANCE
    assert not new.joined
    brokers.run_for(2)
    assert [one.error for one in new.joined] == ([] if waits_for_ever else [UNKNOWN])
    old.join()
    assert len(old.joined[-1].members) == 1 + waits_for_ever
    brokers.check()


@pytest.mark.parametrize(("release", "updates"), [("1.1", False), ("3.3.1", False), ("3.3.2", True), ("3.9", True)])
def test_a_member_that_joins_again_brings_its_subscription_and_timeouts(release: str, updates: bool) -> None:
    """Take all that the request names (GroupMetadata.updateMember); timeouts only since KAFKA-14009."""
    brokers = Brokers(release)
    leader, other = Member(brokers, 20_000, name="leader"), Member(brokers, 20_000, name="other")
    stable(brokers, leader, other)
    other.session_ms, other.rebalance_ms, other.name = 6_000, 30_000, "changed"
    other.join()
    leader.join()
    assert leader.joined[-1].members == [
        JoinedMember(leader.member_id, None, b"range of leader"),
        JoinedMember(other.member_id, None, b"range of changed"),
    ]
    snapshot = described(brokers).snapshot
    assert [(one.session_ms, one.rebalance_ms) for one in snapshot.members] == [
        (60_000, 20_000),
        (6_000, 30_000) if updates else (60_000, 20_000),
    ]
    for member in (leader, other):
        member.sync()
    brokers.run_for(5.9)
    assert len(described(brokers).snapshot.members) == 2
    brokers.run_for(0.2)
    left = [one.member_id for one in described(brokers).snapshot.members]
    assert left == ([leader.member_id] if updates else [leader.member_id, other.member_id])
    brokers.check()


@pytest.mark.parametrize("goes", ["leaves", "dies", "leaves before it joins"])
def test_who_waits_is_answered_at_once_when_nobody_is_missing_any_more(goes: str) -> None:
    """Complete the rebalance with the last member that is missing (removeMemberAndUpdateGroup)."""
    brokers = Brokers()
    one, two, three = members = [Member(brokers, 60_000, session_ms=6_000) for _ in range(3)]
    stable(brokers, *members[:2])
    if goes == "leaves before it joins":
        three.join(accepts_id=True)
        assert [answer.error for answer in three.joined] == [ErrorCode.MEMBER_ID_REQUIRED]
        one.join(protocols=("range", "another"))
        two.join()
        assert (len(one.joined), len(two.joined)) == (1, 1)
        assert three.leave() == [NONE]
        assert (len(one.joined), len(two.joined)) == (2, 2)
    else:
        three.join()
        one.join()
        brokers.run_for(5)
        assert (len(one.joined), len(three.joined)) == (1, 0)
        if goes == "leaves":
            assert two.leave() == [NONE]
        else:
            brokers.run_for(1.1)
        assert [len(member.joined) for member in members] == [2, 1, 1]
        assert two.beat() == UNKNOWN
    assert one.joined[-1].generation == 2
    assert len(one.joined[-1].members) == 2
    brokers.check()


def test_a_member_that_leaves_while_it_waits_is_told_that_it_is_none() -> None:
    brokers = Brokers()
    one, two = Member(brokers), Member(brokers)
    stable(brokers, one, two)
    new = Member(brokers)
    new.join()
    one.join()
    assert one.leave() == [NONE]
    assert one.joined[-1].error == UNKNOWN
    two.join()
    assert two.joined[-1].leader == two.member_id, "the next member leads"
    assert {member.member_id for member in two.joined[-1].members} == {two.member_id, new.member_id}
    brokers.check()


@pytest.mark.parametrize("when", ["joins", "is stable"])
def test_the_next_process_of_a_static_member_has_its_place(when: str) -> None:
    """Fence the process that waits in JoinGroup, and let the session begin anew (replaceStaticMember, KIP-345)."""
    brokers = Brokers()
    other, before = Member(brokers, 60_000), Member(brokers, 60_000, session_ms=6_000, instance_id="a")
    stable(brokers, other, before)
    if when == "joins":
        third = Member(brokers, 60_000)
        third.join()
        before.join()
    brokers.run_for(4)
    after = Member(brokers, 60_000, session_ms=6_000, instance_id="a", name="after")
    after.join()
    brokers.run_for(0.1)
    if when == "joins":
        assert before.joined[-1].error == ErrorCode.FENCED_INSTANCE_ID
        other.join()
        names = [(one.instance_id, one.metadata) for one in other.joined[-1].members]
        assert sorted(names, key=str) == [("a", b"range of after"), (None, b"range of "), (None, b"range of ")]
    else:
        brokers.run_for(5.8)
        assert len(described(brokers).snapshot.members) == 2, "the session began with the second process"
        brokers.run_for(0.2)
        assert [one.member_id for one in described(brokers).snapshot.members] == [other.member_id]
    assert after.joined[-1].generation == 1 + (when == "joins")
    assert before.member_id != after.member_id
    brokers.check()


@pytest.mark.parametrize("skips", [False, True])
def test_a_static_leader_that_restarts_does_not_assign_again(skips: bool) -> None:
    """Name the leader of before, or since JoinGroup 9 the members, and that there is nothing to assign (KIP-814)."""
    brokers = Brokers()
    before, other = Member(brokers, instance_id="a"), Member(brokers)
    stable(brokers, before, other)
    after = Member(brokers, instance_id="a")
    after.join(skips_assignment=skips)
    brokers.run_for(0.1)
    answer = after.joined[-1]
    assert (answer.error, answer.generation, answer.skip_assignment) == (NONE, 1, skips)
    assert (answer.leader, len(answer.members)) == ((after.member_id, 2) if skips else (before.member_id, 0))
    after.sync()
    assert after.synced[-1].assignment == b"\0"
    assert described(brokers).snapshot.leader == after.member_id
    brokers.check()


def test_a_static_member_whose_restart_cannot_be_stored_keeps_its_place() -> None:
    """Answer the error, and go on with the process before (updateStaticMemberAndRebalance, KAFKA-10284)."""
    brokers = Brokers()
    before, other = Member(brokers, 60_000, 6_000, "a"), Member(brokers, 60_000)
    stable(brokers, before, other)
    brokers.run_for(3)
    brokers.log.rejects = True
    after = Member(brokers, 50_000, 50_000, "a")
    after.join()
    answer = after.joined[-1]
    assert (answer.error, answer.member_id, answer.generation) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "", 1)
    assert (answer.leader, answer.members) == (before.member_id, [])
    assert before.beat() == NONE
    snapshot = described(brokers).snapshot
    first = next(one for one in snapshot.members if one.instance_id == "a")
    assert (first.member_id, first.session_ms, first.rebalance_ms) == (before.member_id, 6_000, 60_000)
    assert snapshot.leader == before.member_id
    brokers.run_for(5.9)
    assert before.beat() == NONE
    brokers.log.rejects = False
    after.join()
    brokers.run_for(0.1)
    assert after.joined[-1].error == NONE
    assert before.beat() == ErrorCode.FENCED_INSTANCE_ID
    brokers.check()


def test_a_new_coordinator_goes_on_with_what_is_stored() -> None:
    """Load the members with their timeouts and assignments (GroupMetadata.loadGroup); a full group rebalances."""
    brokers = Brokers(group_max_size=3)
    static, other = Member(brokers, 20_000, 6_000, "a", "static"), Member(brokers, 20_000, 7_000, name="other")
    stable(brokers, static, other)
    brokers.move(1)
    brokers.run_for(1)
    assert (static.beat(), other.beat()) == (NONE, NONE)
    assert static.beat(2) == ErrorCode.ILLEGAL_GENERATION
    static.sync()
    other.sync()
    assert [one.synced[-1].assignment for one in (static, other)] == [b"\0", b"\1"]
    after = Member(brokers, 20_000, 6_000, "a", "after")
    after.join()
    brokers.run_for(0.1)
    assert (after.joined[-1].generation, after.joined[-1].leader) == (1, static.member_id)
    brokers.move(0)
    brokers.run_for(5.9)
    assert len(described(brokers).snapshot.members) == 2
    brokers.run_for(0.5)
    assert [one.member_id for one in described(brokers).snapshot.members] == [other.member_id]
    assert described(brokers).state == GroupState.PREPARING_REBALANCE
    brokers.check()


def test_who_waits_is_sent_to_the_next_coordinator() -> None:
    """Answer JoinGroup and SyncGroup with NOT_COORDINATOR (GroupCoordinator.onGroupUnloaded), and forget all timers."""
    brokers = Brokers()
    leader, follower = joined(brokers, 2)
    follower.sync()
    old = brokers.coordinator
    brokers.move(1)
    assert [one.error for one in follower.synced] == [ErrorCode.NOT_COORDINATOR]
    brokers.run_for(1)
    again = [Member(brokers, session_ms=6_000) for _ in range(2)]
    again[0].join()
    again[1].join(accepts_id=True)
    brokers.move(0)
    assert [one.error for one in again[0].joined] == [ErrorCode.NOT_COORDINATOR]
    brokers.run_for(400)  # longer than all timeouts
    assert (len(leader.joined), len(again[0].joined), len(again[1].joined)) == (1, 1, 1)
    assert old.describe(GROUP) is None
    brokers.check()


@pytest.mark.parametrize(
    ("release", "completing", "stranger"),
    [
        ("0.9", REBALANCE, REBALANCE),
        ("0.10.0", REBALANCE, UNKNOWN),
        ("2.7", REBALANCE, UNKNOWN),
        ("2.8", NONE, UNKNOWN),
    ],
)
def test_heartbeats_in_each_state(release: str, completing: ErrorCode, stranger: ErrorCode) -> None:
    """GroupCoordinator.handleHeartbeat of the release."""
    brokers = Brokers(release)
    member, other = Member(brokers, session_ms=20_000), Member(brokers, session_ms=20_000)
    other.member_id = "other"
    stale = ErrorCode.ILLEGAL_GENERATION

    def beats() -> list[ErrorCode]:
        return [member.beat(1), member.beat(2), other.beat(1)]

    member.join()
    brokers.run_for(4)
    assert beats() == [completing, stale if release != "0.9" else REBALANCE, stranger]
    member.sync()
    brokers.run_for(0.1)
    assert beats() == [NONE, stale, UNKNOWN]
    other.member_id = ""
    other.join()
    other.member_id = "other"
    assert beats() == [REBALANCE, stale if release != "0.9" else REBALANCE, stranger]
    brokers.check()
