"""Records of `__transaction_state`: transactional ids with their transactions, as bytes.

Rules of this module (TransactionLog; TransactionLogKey, TransactionLogValue):
  - a key and a value begin with their version, an int16; every release of ZooKeeper mode writes version 0 of both;
  - an empty transaction has null instead of partitions;
  - the last producer id and the last epoch (KIP-360) are not stored: a producer that repeats its request at the next
    leader is fenced;
  - a key without a value, a tombstone, removes the transactional id;
  - a key of another version is ignored: a later release may have written it;
  - bytes that are no such record raise `RecordError`.
"""

from __future__ import annotations

from simzk.kafka.coordinator.record_fields import FieldReader, FieldWriter, RecordError
from simzk.kafka.coordinator.transaction import TransactionSnapshot, TransactionState
from simzk.kafka.topic_partition import TopicPartition, numbers_by_topic

VERSION = 0
_NULL = -1
_STATES = tuple(TransactionState)
"""States by their code (TransactionState.id), in which `TransactionState` lists them."""


def encode_transaction_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id.

    >>> encode_transaction_key("t").hex()
    '0000000174'
    """
    writer = FieldWriter(VERSION)
    writer.texts(transactional_id)
    return writer.done()


def decode_transaction_key(data: bytes) -> str | None:
    """Return the transactional id of a key; None for a key of another version.

    Raises:
        RecordError: the bytes are no key.
    """
    reader = FieldReader(data)
    return reader.string() if reader.number("h") == VERSION else None


def encode_transaction(stored: TransactionSnapshot) -> bytes:
    """Return the value of a transactional id.

    >>> decode_transaction(encode_transaction(TransactionSnapshot(7, 3, 60_000, updated_ms=5)))[:4]
    (7, 3, 60000, <TransactionState.EMPTY: 'Empty'>)
    """
    writer = FieldWriter(VERSION)
    writer.numbers("qhib", stored.producer_id, stored.epoch, stored.timeout_ms, _STATES.index(stored.state))
    if stored.state == TransactionState.EMPTY:
        assert not stored.partitions, "an empty transaction has no partitions"
        writer.numbers("i", _NULL)
    else:
        by_topic = numbers_by_topic(stored.partitions)
        writer.numbers("i", len(by_topic))
        for topic, numbers in by_topic.items():
            writer.texts(topic)
            writer.numbers("i" * (1 + len(numbers)), len(numbers), *numbers)
    writer.numbers("qq", stored.updated_ms, stored.start_ms)
    return writer.done()


def decode_transaction(data: bytes) -> TransactionSnapshot:
    """Return the state of a value.

    Raises:
        RecordError: the bytes are no such value, or of an unknown version.
    """
    reader = FieldReader(data)
    version = reader.number("h")
    if version != VERSION:
        raise RecordError(f"a transaction of version {version}", where="byte 0", right=f"version {VERSION}")
    producer_id, epoch = reader.number("q"), reader.number("h")
    timeout_ms, code = reader.number("i"), reader.number("b")
    if not 0 <= code < len(_STATES):
        last = len(_STATES) - 1
        raise RecordError(f"a transaction in state {code}", where="byte 16", right=f"a state of 0 to {last}")
    partitions = []
    for _ in range(reader.number("i")):
        topic = reader.string()
        partitions += [TopicPartition(topic, reader.number("i")) for _ in range(reader.number("i"))]
    updated_ms, start_ms = reader.number("q"), reader.number("q")
    return TransactionSnapshot(producer_id, epoch, timeout_ms, _STATES[code], tuple(partitions), start_ms, updated_ms)
