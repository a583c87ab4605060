"""Records of `__transaction_state`: bytes that Kafka's schemas define, and every state there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.coordinator.record_fields import RecordError
from simzk.kafka.coordinator.transaction import TransactionSnapshot, TransactionState
from simzk.kafka.coordinator.transaction_records import (
    decode_transaction,
    decode_transaction_key,
    encode_transaction,
    encode_transaction_key,
)
from simzk.kafka.topic_partition import TopicPartition

PARTITIONS = st.lists(st.builds(TopicPartition, st.sampled_from(["a", "b", "ö"]), st.integers(0, 99)), unique=True).map(
    lambda found: tuple(sorted(found))
)
SNAPSHOTS = st.builds(
    TransactionSnapshot,
    producer_id=st.integers(0, 2**63 - 1),
    epoch=st.integers(-1, 2**15 - 1),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from([state for state in TransactionState if state != TransactionState.EMPTY]),
    partitions=PARTITIONS,
    start_ms=st.integers(0, 2**62),
    updated_ms=st.integers(0, 2**62),
)


def test_the_bytes_are_those_of_the_published_schemas() -> None:
    """TransactionLogKey and TransactionLogValue of version 0, written by hand."""
    assert encode_transaction_key("tx") == bytes.fromhex("0000 0002 7478")
    begun = TransactionSnapshot(1000, 3, 60_000, TransactionState.ONGOING, (TopicPartition("m0", 2),), 16, 17)
    assert encode_transaction(begun) == bytes.fromhex(
        "0000 00000000000003e8 0003 0000ea60 01 00000001 0002 6d30 00000001 00000002 0000000000000011 0000000000000010"
    )
    empty = TransactionSnapshot(1000, 0, 60_000, updated_ms=17)
    assert encode_transaction(empty) == bytes.fromhex(
        "0000 00000000000003e8 0000 0000ea60 00 ffffffff 0000000000000011 ffffffffffffffff"
    )


@given(SNAPSHOTS)
def test_values_are_read_as_they_were_written(stored: TransactionSnapshot) -> None:
    assert decode_transaction(encode_transaction(stored)) == stored


@given(SNAPSHOTS, st.integers(0, 40))
def test_a_value_that_ends_too_early_is_rejected(stored: TransactionSnapshot, length: int) -> None:
    with pytest.raises(RecordError):
        decode_transaction(encode_transaction(stored)[: min(length, 32)])


@pytest.mark.parametrize("data", ["0001 00", "0000 00000000000003e8 0000 0000ea60 09 ffffffff"])
def test_a_value_of_another_version_or_state_is_rejected(data: str) -> None:
    with pytest.raises(RecordError):
        decode_transaction(bytes.fromhex(data))


def test_a_key_of_another_version_is_ignored() -> None:
    assert decode_transaction_key(encode_transaction_key("tx")) == "tx"
    assert decode_transaction_key(b"\0\1xx") is None
