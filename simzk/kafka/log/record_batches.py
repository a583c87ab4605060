"""Records as bytes: record batches (magic 2, KIP-98) and messages of magic 0 and 1, read and written without I/O.

Rules of this module (DefaultRecordBatch, DefaultRecord, LegacyRecord, AbstractLegacyRecordBatch):
  - record data is a sequence of entries; an entry is a batch of magic 2, or one message. A compressed message contains
    messages: those of magic 1 have offsets from 0 on, and the outer message has the offset of the last one;
  - the leader sets offset and leader epoch of a batch. The checksum does not cover them, so that the rest stays as the
    client sent it, and replicas share the bytes;
  - the header of a batch says how many records it has. The number in a compressed message of magic 0 is known only
    after decompression: gzip and snappy always work, lz4 and zstd with the packages `lz4` and `zstandard`;
  - magic 0 has no timestamps, magic 0 and 1 have no headers, control batches and producer ids.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from simzk.kafka.log.batches import NO_EPOCH, NewBatch, ProducerStamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NO_TIMESTAMP = -1
NO_PRODUCER_ID = NO_SEQUENCE = -1
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""Compression codecs by the names of `compression.type`."""
ENTRY_HEAD_BYTES = 12
"""Offset and length, before the rest of an entry."""
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
_HEAD = struct.Struct(">qiibIhiqqqhii")
_OFFSET_TO_EPOCH = struct.Struct(">qii")
_ENTRY = struct.Struct(">qi")
_MESSAGE = struct.Struct(">qiIbb")
_CHECKED_FROM = {0: 16, 1: 16, 2: 21}
"""Where the part of an entry begins that the checksum covers, by magic."""
_MAGIC_AT = 16
_MIN_BYTES = {0: 26, 1: 34, 2: _HEAD.size}
NEWEST = 2
"""Magic of record batches."""
_ABORT, _COMMIT = 0, 1
_GZIP_HEAD = bytes((0x1F, 0x8B, 8)) + bytes(7)
"""Header of GZIPOutputStream: no time, no operating system."""
UNPACKED_MAX = 1 << 28
"""Most bytes of one compressed entry that are unpacked."""
_PART_BYTES = 1 << 16
_TOO_LARGE = "compressed records of more than {} bytes"


class RecordDataError(ValueError):
    """Bytes that are no records."""


class InvalidRecordsError(RecordDataError):
    """Records that decode and contradict each other (InvalidRecordException)."""


class Record(NamedTuple):
    """One record.

    Args:
        key, value: bytes, or None.
        headers: names and values, in magic 2 only.
        timestamp_ms: creation or append time; `NO_TIMESTAMP` in magic 0.
        offset: offset in the log, once it is appended.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = 0


class EntryHeader(NamedTuple):
    """Header of a batch, or what stands for it in a message of magic 0 and 1.

    Args:
        base_offset: offset of the first record; of a message the offset that it names.
        size_bytes: size of the whole entry.
        leader_epoch: as the leader set it; `NO_EPOCH` in messages.
        magic: 0, 1 or 2.
        attributes: codec, kind of timestamp, transactional, control.
        last_offset_delta: last offset minus the base offset.
        base_timestamp, max_timestamp: in milliseconds; `NO_TIMESTAMP` if there are none.
        producer_id, producer_epoch, base_sequence: of an idempotent producer; else -1.
        records: number of records; of a compressed message of magic 0 -1, unknown.
    """

    base_offset: int
    size_bytes: int
    leader_epoch: int
    magic: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def codec(self) -> int:
        """Compression codec; 0 for none."""
        return self.attributes & _CODEC

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch has transaction markers instead of records of producers."""
        return bool(self.attributes & _CONTROL)

    @property
    def has_append_time(self) -> bool:
        """Whether the timestamps are those of the append (LogAppendTime)."""
        return bool(self.attributes & _LOG_APPEND_TIME)


class BatchProducer(NamedTuple):
    """Identity of an idempotent producer in a batch that it sends."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    sequence: int = NO_SEQUENCE


NO_PRODUCER = BatchProducer()

# -- entries


def entry_size(data: bytes | memoryview, at: int = 0) -> int:
    """Return the size of the entry at a place.

    Raises:
        RecordDataError: the data ends before the entry does, or the entry is too short.
    """
    if len(data) - at < _MAGIC_AT + 1:
        raise RecordDataError(f"{len(data) - at} bytes are no record batch")
    _, length = _ENTRY.unpack_from(data, at)
    magic = data[at + _MAGIC_AT]
    if length + ENTRY_HEAD_BYTES < _MIN_BYTES.get(magic, _MAGIC_AT + 1):
        raise RecordDataError(f"a record batch of {length} bytes")
    if len(data) - at < length + ENTRY_HEAD_BYTES:
        raise RecordDataError(f"a record batch of {length} bytes ends after {len(data) - at - ENTRY_HEAD_BYTES}")
    return int(length) + ENTRY_HEAD_BYTES


def split_entries(data: bytes | memoryview) -> list[memoryview]:
    """Return the entries of record data.

    Raises:
        RecordDataError: the last one is cut short.
    """
    view, at, found = memoryview(data), 0, []
    while at < len(view):
        size = entry_size(view, at)
        found.append(view[at : at + size])
        at += size
    assert at == len(view)
    return found


def entry_header(entry: bytes | memoryview) -> EntryHeader:
    """Return the header of an entry that `split_entries` returned.

    Raises:
        RecordDataError: it is of an unknown magic.

    >>> header = entry_header(encode_batch([Record(b"k", b"v", timestamp_ms=5)], base_offset=3))
    >>> header.base_offset, header.records, header.max_timestamp, header.codec
    (3, 1, 5, 0)
    """
    if entry[_MAGIC_AT] == NEWEST:
        offset, length, epoch, magic, _, *others = _HEAD.unpack_from(entry)
        return EntryHeader._make((offset, length + ENTRY_HEAD_BYTES, epoch, magic, *others))
    if entry[_MAGIC_AT] not in _MIN_BYTES:
        raise RecordDataError(f"a record batch of magic {entry[_MAGIC_AT]}; 0 to 2 exist")
    offset, length, _, magic, attributes = _MESSAGE.unpack_from(entry)
    timestamp = struct.unpack_from(">q", entry, 18)[0] if magic else NO_TIMESTAMP
    records = 1 if not attributes & _CODEC else -1
    size = length + ENTRY_HEAD_BYTES
    return EntryHeader(offset, size, NO_EPOCH, magic, attributes, 0, timestamp, timestamp, -1, -1, -1, records)


def _crc32c(data: bytes | bytearray | memoryview) -> int:
    from crc32c import crc32c  # the package reads its own metadata, a twentieth of the start of a cluster

    checksum: int = crc32c(data)
    return checksum


def is_intact(entry: bytes | memoryview) -> bool:
    """Return whether the checksum of an entry is right."""
    magic = entry[_MAGIC_AT]
    checked = memoryview(entry)[_CHECKED_FROM.get(magic, 16) :]
    if magic == NEWEST:
        return bool(_crc32c(checked) == struct.unpack_from(">I", entry, 17)[0])
    return bool(zlib.crc32(checked) == struct.unpack_from(">I", entry, 12)[0])


def stamped(entry: bytes | memoryview, offset: int, records: int, leader_epoch: int = NO_EPOCH) -> bytes:
    """Return an entry with the offset and leader epoch that the leader assigns.

    Messages have no leader epoch. The offsets in a compressed message of magic 0 are absolute, so it is compressed
    again.
    """
    assert records > 0
    assert offset >= 0
    magic = entry[_MAGIC_AT]
    if magic == 0 and entry[_MAGIC_AT + 1] & _CODEC:
        numbered = [one._replace(offset=offset + number) for number, one in enumerate(decode_entry(entry))]
        return encode_messages(numbered, 0, entry[_MAGIC_AT + 1] & _CODEC)
    changed = bytearray(entry)
    if magic == NEWEST:
        _OFFSET_TO_EPOCH.pack_into(changed, 0, offset, len(entry) - ENTRY_HEAD_BYTES, leader_epoch)
    else:
        struct.pack_into(">q", changed, 0, offset + records - 1)
    return bytes(changed)


def new_batches(data: bytes | memoryview) -> tuple[NewBatch, ...]:
    """Return the entries of record data as batches to be appended.

    Raises:
        RecordDataError: the data is malformed, or a message is compressed and its codec is not installed.

    >>> new_batches(encode_batch([Record(b"k", b"v")] * 2, producer=BatchProducer(7, 0, 4)))[0].producer
    ProducerStamp(producer_id=7, epoch=0, sequence=4, is_transactional=False, marker=None, coordinator_epoch=-1)
    """
    return tuple(map(_new_batch, split_entries(data)))


def _new_batch(entry: memoryview) -> NewBatch:
    header = entry_header(entry)
    records = header.records if header.records >= 0 else len(decode_entry(entry))
    is_plain = not header.codec
    if header.producer_id == NO_PRODUCER_ID:
        return NewBatch(records, bytes(entry), is_as_sent=is_plain)
    producer = (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional)
    if not header.is_control:
        return NewBatch(records, bytes(entry), ProducerStamp(*producer), is_plain)
    (marker,) = decode_entry(entry)
    is_commit = marker.key is not None and int.from_bytes(marker.key[2:4], "big") == _COMMIT
    epoch = int.from_bytes(marker.value[2:6], "big", signed=True) if marker.value is not None else -1
    return NewBatch(records, bytes(entry), ProducerStamp(*producer, "commit" if is_commit else "abort", epoch))


def encode_marker(producer: BatchProducer, *, is_commit: bool, coordinator_epoch: int, timestamp_ms: int) -> bytes:
    """Return the control batch that ends a transaction (EndTransactionMarker).

    >>> marker = encode_marker(BatchProducer(7, 0), is_commit=False, coordinator_epoch=3, timestamp_ms=5)
    >>> new_batches(marker)[0].producer.marker, new_batches(marker)[0].producer.coordinator_epoch
    ('abort', 3)
    """
    key, value = struct.pack(">hh", 0, _COMMIT if is_commit else _ABORT), struct.pack(">hi", 0, coordinator_epoch)
    record = Record(key, value, timestamp_ms=timestamp_ms)
    return encode_batch([record], producer=producer, is_transactional=True, is_control=True)


def with_append_time(entry: bytes, now_ms: int) -> bytes:
    """Return an entry whose timestamp is that of its append, with a new checksum (LogAppendTime)."""
    changed = bytearray(entry)
    magic = entry[_MAGIC_AT]
    if magic == NEWEST:
        struct.pack_into(">h", changed, 21, struct.unpack_from(">h", entry, 21)[0] | _LOG_APPEND_TIME)
        struct.pack_into(">q", changed, 35, now_ms)
        struct.pack_into(">I", changed, 17, _crc32c(changed[_CHECKED_FROM[NEWEST] :]))
    elif magic == 1:
        changed[17] |= _LOG_APPEND_TIME
        struct.pack_into(">q", changed, 18, now_ms)
        struct.pack_into(">I", changed, 12, zlib.crc32(changed[_CHECKED_FROM[magic] :]))
    return bytes(changed)


def without_append_time(entry: bytes | memoryview) -> bytes:
    """Return a batch whose timestamps are those of the producer, with a new checksum (setMaxTimestamp)."""
    assert entry[_MAGIC_AT] == NEWEST, "messages with this mark are rejected"
    changed = bytearray(entry)
    struct.pack_into(">h", changed, 21, struct.unpack_from(">h", entry, 21)[0] & ~_LOG_APPEND_TIME)
    struct.pack_into(">I", changed, 17, _crc32c(changed[_CHECKED_FROM[NEWEST] :]))
    return bytes(changed)


# -- entries after a compaction


def delete_horizon_ms(entry: bytes) -> int | None:
    """Return when the tombstones or the marker of a batch are deleted; None if it does not say (KIP-534)."""
    header = entry_header(entry)
    return header.base_timestamp if header.magic == NEWEST and header.attributes & _DELETE_HORIZON else None


def with_records(entry: bytes, records: Sequence[Record], horizon_ms: int | None = None) -> bytes:
    """Return an entry with some of its records only (MemoryRecords.buildRetainedRecordsInto).

    A batch keeps its first and last offset, and what else its header says.

    Args:
        entry: a batch or a message.
        records: those that are left, at least one, as `decode_entry` returned them.
        horizon_ms: when tombstones and markers of the batch are deleted; None if it does not say.

    >>> entry = encode_batch([Record(b"a", b"1"), Record(b"b", b"2"), Record(b"a", None)], base_offset=7)
    >>> left = with_records(entry, decode_entry(entry)[1:2])
    >>> entry_header(left).last_offset_delta, [record.offset for record in decode_entry(left)]
    (2, [8])
    """
    header = entry_header(entry)
    assert records, "a batch without records is `emptied`"
    if header.magic != NEWEST:
        assert header.codec, "a message that is left is not changed"
        changed = encode_messages(records, header.magic, header.codec)
        return with_append_time(changed, header.max_timestamp) if header.has_append_time else changed
    first = records[0].timestamp_ms if horizon_ms is None else horizon_ms
    newest = max(record.timestamp_ms for record in records)
    body = b"".join(_encode_record(one, one.offset - header.base_offset, first) for one in records)
    attributes = header.attributes & ~_DELETE_HORIZON | (0 if horizon_ms is None else _DELETE_HORIZON)
    return _encode_head(
        header._replace(attributes=attributes, base_timestamp=first, max_timestamp=newest, records=len(records)),
        _pack(header.codec, body),
    )


def emptied(entry: bytes) -> bytes:
    """Return a batch without its records: the last one of its producer (DefaultRecordBatch.writeEmptyHeader)."""
    header = entry_header(entry)
    assert header.magic == NEWEST, "a message without records does not exist"
    attributes = header.attributes & (_LOG_APPEND_TIME | _TRANSACTIONAL | _CONTROL)
    return _encode_head(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records=0), b"")


def _encode_head(header: EntryHeader, packed: bytes) -> bytes:
    """Return a batch of magic 2 with its checksum."""
    offset, _, epoch, magic, *others = header
    data = bytearray(_HEAD.pack(offset, _HEAD.size + len(packed) - ENTRY_HEAD_BYTES, epoch, magic, 0, *others) + packed)
    struct.pack_into(">I", data, 17, _crc32c(data[_CHECKED_FROM[NEWEST] :]))
    return bytes(data)


# -- records to bytes


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    codec: int = 0,
    producer: BatchProducer = NO_PRODUCER,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Return a batch of magic 2; the records get consecutive offsets.

    Args:
        records: at least one; their offsets are ignored.
        base_offset, leader_epoch: as a leader sets them.
        codec: compression.
        producer: identity and first sequence number of an idempotent producer.
        is_transactional, is_control: attributes of the batch.

    Raises:
        RecordDataError: the codec is not installed.

    >>> [record.value for record in decode_records(encode_batch([Record(None, b"a"), Record(b"k", None)]))]
    [b'a', None]
    """
    assert records, "a batch has records"
    assert is_transactional or not is_control, "a marker belongs to a transaction"
    first = records[0].timestamp_ms
    latest = max(record.timestamp_ms for record in records)
    body = b"".join(_encode_record(record, number, first) for number, record in enumerate(records))
    packed = _pack(codec, body)
    attributes = codec | _TRANSACTIONAL * is_transactional | _CONTROL * is_control
    last = len(records) - 1
    head = EntryHeader(
        *(base_offset, 0, leader_epoch, NEWEST, attributes, last, first, latest), *producer, records=len(records)
    )
    return _encode_head(head, packed)


def _encode_record(record: Record, number: int, first_timestamp: int) -> bytes:
    parts = [b"\0", _zigzag(record.timestamp_ms - first_timestamp), _zigzag(number)]
    parts += [_sized(record.key), _sized(record.value), _zigzag(len(record.headers))]
    for name, value in record.headers:
        parts += [_sized(name.encode()), _sized(value)]
    body = b"".join(parts)
    return _zigzag(len(body)) + body


def encode_messages(records: Iterable[Record], magic: int, codec: int = 0) -> bytes:
    """Return records as messages of magic 0 or 1 with the offsets that the records have; headers are lost.

    >>> decode_records(encode_messages([Record(b"k", b"v", timestamp_ms=5, offset=7)], magic=1))
    [Record(key=b'k', value=b'v', headers=(), timestamp_ms=5, offset=7)]
    """
    assert magic in (0, 1)
    found = list(records)
    if not codec:
        return b"".join(_encode_message(one.offset, magic, 0, one.timestamp_ms, one.key, one.value) for one in found)
    base = found[0].offset if magic else 0
    inner = encode_messages([one._replace(offset=one.offset - base) for one in found], magic)
    latest = max(one.timestamp_ms for one in found)
    return _encode_message(found[-1].offset, magic, codec, latest, None, _pack(codec, inner))


def _encode_message(
    offset: int, magic: int, attributes: int, timestamp_ms: int, key: bytes | None, value: bytes | None
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp_ms) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return _ENTRY.pack(offset, len(body) + 4) + struct.pack(">I", zlib.crc32(body)) + body


def encode_records(records: Sequence[Record], magic: int, codec: int = 0) -> bytes:
    """Return records in the format of a release: a batch of magic 2, or messages, with offsets from 0 on."""
    if magic == NEWEST:
        return encode_batch(records, codec=codec)
    return encode_messages([one._replace(offset=number) for number, one in enumerate(records)], magic, codec)


# -- bytes to records


def decode_records(data: bytes | memoryview) -> list[Record]:
    """Return the records of all entries, control batches included.

    Raises:
        RecordDataError: the data is malformed, or its codec is not installed.
    """
    return [record for entry in split_entries(data) for record in decode_entry(entry)]


def decode_entry(entry: bytes | memoryview) -> list[Record]:
    """Return the records of one entry.

    Raises:
        RecordDataError: it is malformed, or its codec is not installed.
    """
    header = entry_header(entry)
    try:
        return _decode_batch(entry, header) if header.magic == NEWEST else list(_decode_messages(entry, header))
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise RecordDataError(f"malformed records: {error}") from None


def _decode_batch(entry: bytes | memoryview, header: EntryHeader) -> list[Record]:
    body = _unpack(header.codec, bytes(entry[_HEAD.size :]), NEWEST)
    reader = _Reader(body)
    found = []
    for _ in range(header.records):
        end = reader.zigzag() + reader.at
        reader.at += 1  # attributes, unused
        timestamp, offset = header.base_timestamp + reader.zigzag(), header.base_offset + reader.zigzag()
        key, value = reader.sized(), reader.sized()
        headers = tuple((_name(reader.sized()), reader.sized()) for _ in range(reader.count()))
        if reader.at != end:
            raise RecordDataError(f"a record ends at {reader.at}, not at {end}")
        timestamp = header.max_timestamp if header.has_append_time else timestamp
        found.append(Record(key, value, headers, timestamp, offset))
    if reader.at != len(body):
        raise RecordDataError(f"{len(body) - reader.at} bytes follow the last record")
    return found


def _decode_messages(entry: bytes | memoryview, header: EntryHeader) -> Iterator[Record]:
    at = 26 if header.magic else 18
    parts: list[bytes | None] = []
    for _ in range(2):
        (size,) = struct.unpack_from(">i", entry, at)
        at += 4
        if size > len(entry) - at:
            raise RecordDataError(f"a key or value of {size} bytes")
        parts.append(None if size < 0 else bytes(entry[at : at + size]))
        at += max(size, 0)
    key, value = parts
    if not header.codec:
        yield Record(key, value, (), header.base_timestamp, header.base_offset)
        return
    if value is None:
        raise RecordDataError("a compressed message without a value")
    inner = decode_records(_unpack(header.codec, value, header.magic))
    if not inner:
        raise InvalidRecordsError("a compressed message without messages")
    # Inner offsets of magic 1 are relative; the outer offset is that of the last one (KIP-31).
    shift = header.base_offset - inner[-1].offset if header.magic else 0
    for record in inner:
        timestamp = header.base_timestamp if header.has_append_time else record.timestamp_ms
        yield record._replace(offset=record.offset + shift, timestamp_ms=timestamp)


def _name(data: bytes | None) -> str:
    if data is None:
        raise RecordDataError("a header without a name")
    return data.decode()


@dataclass(eq=False)
class _Reader:
    """A place in the bytes of a batch's records."""

    _data: bytes
    at: int = 0

    def zigzag(self) -> int:
        """Return a signed number of variable length."""
        number = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number >> 1 ^ -(number & 1)
            shift += 7
            if shift > 63:
                raise RecordDataError("a number of more than ten bytes")

    def count(self) -> int:
        """Return the number of headers."""
        number = self.zigzag()
        if not 0 <= number <= len(self._data):
            raise RecordDataError(f"{number} headers")
        return number

    def sized(self) -> bytes | None:
        """Return bytes with their length before them; None for a negative length."""
        size = self.zigzag()
        if size < 0:
            return None
        if size > len(self._data) - self.at:
            raise RecordDataError(f"a key or value of {size} bytes")
        self.at += size
        return self._data[self.at - size : self.at]


def _zigzag(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    if left < 0x80:
        return bytes((left,))
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else _zigzag(len(data)) + data


# -- compression


class _Stream(Protocol):
    """Unpacked data that is read bit by bit."""

    def read(self, size: int, /) -> bytes: ...


class _Lz4(Protocol):
    """The module lz4.frame, as far as it is used."""

    def compress(self, data: bytes, /) -> bytes: ...
    def open(self, file: BytesIO, mode: str, /) -> _Stream: ...


class _ZstdDecompressor(Protocol):
    def stream_reader(self, file: BytesIO, /) -> _Stream: ...


class _Zstd(Protocol):
    """The module zstandard, as far as it is used."""

    def compress(self, data: bytes, /) -> bytes: ...
    def ZstdDecompressor(self) -> _ZstdDecompressor: ...  # noqa: N802 - a class of the package


_MODULES = {LZ4: ("lz4", "lz4.frame"), ZSTD: ("zstd", "zstandard")}
"""Names of the codecs that need a package, and of its module."""


def _package(codec: int) -> Any:
    name, module = _MODULES[codec]
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        message = f"records compressed with {name} can be opened with the package {package}"
        raise RecordDataError(f"{message}: pip install 'simzk[codecs]'") from None


def _opened(codec: int, data: bytes) -> _Stream:
    """Return the unpacked data of a frame, which need not say how large it is: clients compress bit by bit."""
    if codec == LZ4:
        lz4: _Lz4 = _package(codec)
        return lz4.open(BytesIO(data), "rb")
    zstd: _Zstd = _package(codec)
    return zstd.ZstdDecompressor().stream_reader(BytesIO(data))


def _pack(codec: int, data: bytes) -> bytes:
    if not codec:
        return data
    if codec == GZIP:
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        tail = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
        return _GZIP_HEAD + packer.compress(data) + packer.flush() + tail
    if codec == SNAPPY:
        from simzk import snappy

        blocks = range(0, len(data), snappy.BLOCK_BYTES)
        return snappy.STREAM_HEAD + b"".join(snappy.pack_frame(data[at : at + snappy.BLOCK_BYTES]) for at in blocks)
    package: _Lz4 | _Zstd = _package(codec)
    return package.compress(data)


def _unpack(codec: int, data: bytes, magic: int) -> bytes:
    try:
        if not codec:
            return data
        if codec == GZIP:
            unpacker = zlib.decompressobj(wbits=31)
            unpacked = unpacker.decompress(data, UNPACKED_MAX)
            if unpacker.unconsumed_tail:
                raise RecordDataError(_TOO_LARGE.format(UNPACKED_MAX))
            return unpacked
        if codec == SNAPPY:
            return b"".join(_snappy_blocks(data))
        if codec in _MODULES:
            stream, parts, left = _opened(codec, data), list[bytes](), UNPACKED_MAX
            while part := stream.read(_PART_BYTES):
                parts.append(part)
                left -= len(part)
                if left < 0:
                    raise RecordDataError(_TOO_LARGE.format(UNPACKED_MAX))
            return b"".join(parts)
    except RecordDataError:
        raise
    except Exception as error:
        raise RecordDataError(f"records of magic {magic} cannot be decompressed: {error}") from None
    raise RecordDataError(f"compression codec {codec}; 1 to 4 exist")


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    """Yield the blocks of a stream of snappy-java, or of one raw block."""
    from simzk import snappy

    if not data.startswith(snappy.STREAM_HEAD[:8]):
        yield snappy.unpack_block(data)
        return
    at = len(snappy.STREAM_HEAD)
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield snappy.unpack_block(data[at + 4 : at + 4 + size])
        at += 4 + size
