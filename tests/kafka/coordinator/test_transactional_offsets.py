"""Offsets that are committed with transactions (KIP-98, KIP-447)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.kafka.coordinator.group_records import NO_LEADER_EPOCH, CommittedOffset
from simzk.kafka.coordinator.transaction import ProducerIdentity
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.coordinator.group_clients import GROUP, TOPIC, Brokers, Consumer

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_MEMBER = ("", -1, None)


def commit(
    brokers: Brokers,
    partition: int,
    offset: int,
    producer_id: int | None,
    member: tuple[str, int, str | None] = NO_MEMBER,
    *,
    metadata: str = "",
) -> list[ErrorCode]:
    """Ask for a commit; return a list that gets the error."""
    producer = None if producer_id is None else ProducerIdentity(producer_id, 0)
    key, results = TopicPartition(TOPIC, partition), list[ErrorCode]()
    committed = {key: CommittedOffset(offset, NO_LEADER_EPOCH, metadata, 0)}
    brokers.coordinator.commit(GROUP, member, committed, lambda found: results.append(found[key]), producer)
    return results


def fetched(brokers: Brokers, partition: int, *, stable: bool = True) -> int | ErrorCode | None:
    """Return the committed offset of a partition; None if there is none, or the error."""
    key = TopicPartition(TOPIC, partition)
    found = brokers.coordinator.fetch(GROUP, [key], stable=stable)
    if isinstance(found, ErrorCode):
        return found
    committed, error = found[key]
    if error != ErrorCode.NONE:
        return error
    return None if committed is None else committed.offset


def test_offsets_are_unstable_until_the_marker() -> None:
    brokers = Brokers()
    results = commit(brokers, 0, 4, 7)
    assert results == []
    assert fetched(brokers, 0) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    brokers.run_for(1)
    assert results == [ErrorCode.NONE]
    assert fetched(brokers, 0) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetched(brokers, 0, stable=False) is None
    assert fetched(brokers, 1) is None
    brokers.end_transaction(8, is_commit=True)
    assert fetched(brokers, 0) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    brokers.end_transaction(7, is_commit=True)
    assert fetched(brokers, 0) == 4
    brokers.check()


def test_a_group_with_nothing_but_offsets_of_a_transaction_is_kept() -> None:
    """Remove it with the others when the transaction is aborted (GroupMetadataManager.cleanupGroupMetadata)."""
    brokers = Brokers(offsets_retention_check_interval_ms=60_000)
    commit(brokers, 0, 4, 7)
    brokers.run_for(61)
    brokers.coordinator.on_topics_changed({"another"})
    assert fetched(brokers, 0) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    brokers.end_transaction(7, is_commit=True)
    assert fetched(brokers, 0) == 4
    brokers.check()


def test_an_offset_that_is_deleted_while_it_is_stored_does_not_come_back() -> None:
    """Note a stored offset only if it is still pending (GroupMetadata.onOffsetCommitAppend)."""
    brokers = Brokers()
    commit(brokers, 1, 9, None)
    brokers.run_for(1)
    results = commit(brokers, 0, 4, None)
    assert results == []
    deleted = TopicPartition(TOPIC, 0)
    assert brokers.coordinator.delete_offsets(GROUP, [deleted]) == {deleted: ErrorCode.NONE}
    brokers.run_for(1)
    assert (results, fetched(brokers, 0), fetched(brokers, 1)) == ([ErrorCode.NONE], None, 9)


def test_an_abort_drops_the_offsets() -> None:
    brokers = Brokers()
    commit(brokers, 0, 3, None)
    brokers.run_for(1)
    commit(brokers, 0, 4, 7)
    brokers.run_for(1)
    brokers.end_transaction(7, is_commit=False)
    assert fetched(brokers, 0) == 3
    brokers.check()


def test_a_later_commit_outside_of_the_transaction_wins() -> None:
    brokers = Brokers()
    commit(brokers, 0, 4, 7)
    commit(brokers, 0, 9, None)
    brokers.run_for(1)
    brokers.end_transaction(7, is_commit=True)
    assert fetched(brokers, 0) == 9


def test_a_commit_that_is_not_stored_is_not_pending() -> None:
    brokers = Brokers()
    results = commit(brokers, 0, 4, 7)
    brokers.log.acknowledge(brokers.log.unacknowledged[0], ErrorCode.INVALID_PRODUCER_EPOCH)
    assert results == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert fetched(brokers, 0) is None
    brokers.check()


def test_metadata_that_is_too_long_is_refused() -> None:
    brokers = Brokers(offset_metadata_max_bytes=3)
    assert commit(brokers, 0, 4, 7, metadata="long") == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert fetched(brokers, 0) is None


def test_a_member_is_checked_where_the_request_names_it() -> None:
    brokers = Brokers()
    consumer = Consumer(brokers).start()
    brokers.run_for(10)
    assert consumer.assigned is not None
    member = consumer.member_id, consumer.generation, None
    assert commit(brokers, 0, 1, 7, ("", consumer.generation + 1, None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(brokers, 0, 1, 7, (consumer.member_id, consumer.generation + 1, None)) == [
        ErrorCode.ILLEGAL_GENERATION
    ]
    for named in (member, NO_MEMBER):
        results = commit(brokers, 0, 1, 7, named)
        brokers.run_for(1)
        assert results == [ErrorCode.NONE]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 1), st.sampled_from((None, 7, 8))),
        st.tuples(st.sampled_from(("end", "abort")), st.just(0), st.sampled_from((7, 8))),
        st.tuples(st.sampled_from(("move", "wait")), st.just(0), st.none()),
    ),
    max_size=20,
)


def expected(steps: Sequence[tuple[str, int, int | None, int]]) -> dict[int, int | ErrorCode]:
    """Return the answer for each partition, by reading the log of commits and markers once for each."""
    found: dict[int, int | ErrorCode] = {}
    for partition in (0, 1):
        commits = [
            (place, offset, producer)
            for place, (kind, number, producer, offset) in enumerate(steps)
            if kind == "commit" and number == partition
        ]
        for place, offset, producer in commits:
            if producer is None:
                found[partition] = offset
                continue
            end = next((one[0] for one in steps[place:] if one[0] in ("end", "abort") and one[2] == producer), None)
            if end == "end":
                found[partition] = offset
        open_ones = [
            place
            for place, _, producer in commits
            if producer is not None
            and not any(one[0] in ("end", "abort") and one[2] == producer for one in steps[place:])
        ]
        if open_ones:
            found[partition] = ErrorCode.UNSTABLE_OFFSET_COMMIT
    return found


@settings(max_examples=50)
@given(STEPS)
def test_the_next_coordinator_reads_the_same_from_the_log(steps: list[tuple[str, int, int | None]]) -> None:
    brokers = Brokers()
    done: list[tuple[str, int, int | None, int]] = []
    for offset, (kind, partition, producer) in enumerate(steps, start=1):
        if kind == "move":
            brokers.move(1 - brokers.log.leader)
        elif kind == "commit":
            commit(brokers, partition, offset, producer)
        elif kind in ("end", "abort"):
            assert producer is not None
            brokers.end_transaction(producer, is_commit=kind == "end")
        brokers.run_for(1)
        brokers.check()
        done.append((kind, partition, producer, offset))
        wanted = expected(done)
        assert {one: fetched(brokers, one) for one in (0, 1)} == {one: wanted.get(one) for one in (0, 1)}
