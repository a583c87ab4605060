"""Record batches and messages: compared with kafka-python's, and read back for any records."""

from __future__ import annotations

import gzip
import importlib
import warnings
from contextlib import suppress

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.log import record_batches
from simzk.kafka.log.record_batches import (
    GZIP,
    SNAPPY,
    BatchProducer,
    Record,
    RecordDataError,
    decode_entry,
    decode_records,
    encode_batch,
    encode_messages,
    encode_records,
    entry_header,
    is_intact,
    new_batches,
    split_entries,
    stamped,
    with_append_time,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its files in an old way
    from kafka.record import MemoryRecords, MemoryRecordsBuilder

TIMESTAMPS = st.integers(0, 2**41)
DATA = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), DATA), max_size=2).map(tuple)
RECORDS = st.lists(st.builds(Record, DATA, DATA, HEADERS, TIMESTAMPS), min_size=1, max_size=6)
CODECS = st.sampled_from([0, GZIP, SNAPPY, record_batches.LZ4, record_batches.ZSTD])


def numbered(records: list[Record], base: int, *, headers: bool = True) -> list[Record]:
    """Return the records as they are read back."""
    kept = [one if headers else one._replace(headers=()) for one in records]
    return [one._replace(offset=base + number) for number, one in enumerate(kept)]


@given(RECORDS, CODECS, st.integers(0, 2**50), st.integers(-1, 99))
def test_a_batch_is_read_back_with_the_offsets_of_the_leader(
    records: list[Record], codec: int, base: int, epoch: int
) -> None:
    data = stamped(encode_batch(records, codec=codec, producer=BatchProducer(5, 1, 3)), base, len(records), epoch)
    assert is_intact(data)
    assert decode_records(data) == numbered(records, base)
    header = entry_header(data)
    assert (header.base_offset, header.leader_epoch, header.records) == (base, epoch, len(records))
    assert (header.last_offset_delta, header.max_timestamp) == (
        len(records) - 1,
        max(one.timestamp_ms for one in records),
    )
    (batch,) = new_batches(data)
    assert batch.producer is not None
    assert (batch.records, batch.producer[:3]) == (len(records), (5, 1, 3))


@given(RECORDS, CODECS, st.sampled_from([0, 1]), st.integers(0, 2**50))
def test_messages_are_read_back_with_the_offsets_of_the_leader(
    records: list[Record], codec: int, magic: int, base: int
) -> None:
    batches = new_batches(encode_records(records, magic, codec))
    assert sum(batch.records for batch in batches) == len(records)
    data, offset = b"", base
    for batch in batches:
        assert batch.payload is not None
        data += stamped(batch.payload, offset, batch.records)
        offset += batch.records
    assert all(map(is_intact, split_entries(data)))
    wanted = numbered(records, base, headers=False)
    assert decode_records(data) == (wanted if magic else [one._replace(timestamp_ms=-1) for one in wanted])


@given(RECORDS, st.sampled_from([0, GZIP]), st.sampled_from([0, 1, 2]))
def test_kafka_python_reads_the_same(records: list[Record], codec: int, magic: int) -> None:
    read = []
    batches = MemoryRecords(encode_records(records, magic, codec))
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        read += [(one.offset, one.timestamp, one.key, one.value, list(one.headers or ())) for one in batch]
    assert read == [
        (number, one.timestamp_ms if magic else None, one.key, one.value, list(one.headers) if magic == 2 else [])
        for number, one in enumerate(records)
    ]


@given(RECORDS, st.sampled_from([0, GZIP]), st.sampled_from([0, 1, 2]))
def test_records_of_kafka_python_are_read(records: list[Record], codec: int, magic: int) -> None:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for one in records:
        headers = list(one.headers) if magic == 2 else []
        builder.append(timestamp=one.timestamp_ms, key=one.key, value=one.value, headers=headers)
    builder.close()
    data = builder.buffer()
    assert all(map(is_intact, split_entries(data)))
    wanted = numbered(records, 0, headers=magic == 2)
    if codec and magic == 1:  # its compressed messages have the offset 0, which the leader replaces
        data = stamped(data, 0, len(records))
    assert decode_records(data) == (wanted if magic else [one._replace(timestamp_ms=-1) for one in wanted])


@given(RECORDS, st.sampled_from([1, 2]))
def test_the_time_of_the_append_replaces_that_of_the_producer(records: list[Record], magic: int) -> None:
    entries = [with_append_time(bytes(entry), 77) for entry in split_entries(encode_records(records, magic))]
    assert all(map(is_intact, entries))
    assert {one.timestamp_ms for entry in entries for one in decode_records(entry)} == {77}


@given(st.binary(max_size=90), st.integers(0, 200), st.integers(0, 255))
def test_garbage_is_an_error_and_nothing_else(data: bytes, at: int, byte: int) -> None:
    damaged = bytearray(encode_batch([Record(b"k", b"v" * 30, (("h", b"x"),))] * 2))
    damaged[at % len(damaged)] = byte
    for some in (data, bytes(damaged)):
        with suppress(RecordDataError):
            decode_records(some)
        with suppress(RecordDataError):
            new_batches(some)


@pytest.mark.parametrize("codec", [record_batches.LZ4, record_batches.ZSTD])
def test_frames_of_other_packages_are_opened(codec: int) -> None:
    """Clients compress bit by bit: their frames do not say how large the data is."""
    records = [Record(b"k", b"value" * 100)] * 2
    assert [record.value for record in decode_records(encode_batch(records, codec=codec))] == [b"value" * 100] * 2
    packed = encode_batch(records)
    body = packed[61:]
    if codec == record_batches.ZSTD:
        compressor = zstandard.ZstdCompressor().compressobj()
        frame = compressor.compress(body) + compressor.flush()
    else:
        lz4_compressor = lz4.frame.LZ4FrameCompressor()
        frame = lz4_compressor.begin() + lz4_compressor.compress(body) + lz4_compressor.flush()
    sent = bytearray(packed[:61] + frame)
    sent[8:12] = (len(sent) - 12).to_bytes(4, "big")
    sent[22] |= codec
    assert decode_entry(bytes(sent)) == decode_entry(packed)


@pytest.mark.parametrize("codec", [record_batches.LZ4, record_batches.ZSTD])
def test_a_codec_that_is_not_installed_is_named(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    data = bytearray(encode_messages([Record(b"k", b"v")], 1, GZIP))
    data[17] = codec
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(RecordDataError, match=r"with the package (lz4|zstandard)"):
        decode_records(bytes(data))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_without_messages_is_an_error(magic: int) -> None:
    data = bytearray(encode_messages([Record(None, gzip.compress(b""))], magic))
    data[17] = GZIP
    with pytest.raises(RecordDataError, match="without messages"):
        decode_records(bytes(data))


@pytest.mark.parametrize("codec", [GZIP, record_batches.LZ4, record_batches.ZSTD])
def test_a_bomb_is_rejected(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "UNPACKED_MAX", 1000)
    with pytest.raises(RecordDataError, match="more than 1000 bytes"):
        decode_records(encode_batch([Record(None, b"0" * 5000)], codec=codec))
