"""Transaction logs as streams of bytes (§6): a header, then entries, each with its checksum.

Rules of this module:
  - no file is opened here: a reader gets an object with `read`, a writer returns bytes;
  - memory is bounded by one chunk and one entry, however long the log;
  - zeros or the end of the file end a log; anything else that is no whole entry is `Damage` and ends it too.

Rules of `scan`, which reads any part of a log, for parallel readers:
  - a part has the entries that begin in it and the damages directly behind them. So parts that cover a log yield each
    entry and each damage once, wherever it is cut;
  - unlike a booting server, a scan continues behind a damage at the next whole entry;
  - of a file with a wrong header nothing is read; the first part reports the damage;
  - an entry in the middle of bytes is recognized by its header, its end mark and its checksum.

Source: FileTxnLog, FilePadding, Util.readTxnBytes.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Protocol
from zlib import adler32

from simzk.zookeeper.jute import MalformedError, TruncatedError
from simzk.zookeeper.persistence.files import Damage, DamageKind, Readable
from simzk.zookeeper.persistence.records import LogEntry, decode_entry, encode_transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.zookeeper.transactions import Transaction

MAX_ENTRY_BYTES = 2 * 0xFFFFF
"""Longest entry that a server with the default jute.maxbuffer reads (BinaryInputArchive.checkLength)."""

_MAGIC, _VERSION = b"ZKLG", 2
_file_header = Struct(">4siq")
_entry_header = Struct(">qi")
_END_MARK = 0x42
_CHUNK_BYTES = 1 << 20

HEADER_BYTES = _file_header.size
LOG_HEADER = _file_header.pack(_MAGIC, _VERSION, 0)
"""Header of every log: magic, version, database id."""


def head_damage(head: bytes) -> DamageKind | None:
    """Return the damage of the header of a log, given its first `HEADER_BYTES` bytes, or None.

    >>> head_damage(LOG_HEADER), head_damage(b"ZKLG"), head_damage(b"").name, head_damage(b"#!/bin/sh and so on").name
    (None, <DamageKind.TORN: 'the file ends inside an entry'>, 'EMPTY', 'FOREIGN')
    """
    if len(head) < HEADER_BYTES:
        if not head:
            return DamageKind.EMPTY
        return DamageKind.TORN if LOG_HEADER.startswith(head) else DamageKind.FOREIGN
    magic, version, _ = _file_header.unpack_from(head)
    if magic != _MAGIC:
        return DamageKind.FOREIGN
    return None if version == _VERSION else DamageKind.VERSION


def encode_log_entry(transaction: Transaction, tree_digest: int | None, *, names_ephemerals: bool = True) -> bytes:
    """Return a framed entry of a log; arguments as in `encode_transaction`."""
    data = encode_transaction(transaction, tree_digest, names_ephemerals=names_ephemerals)
    assert data, "a length of 0 ends a log"
    return _entry_header.pack(adler32(data), len(data)) + data + b"B"


class TransactionLogReader:
    """Reader of one log. Iteration yields its whole entries, once.

    Args:
        stream: log from its first byte on; it is read in chunks and not closed.
        max_entry_bytes: longest accepted entry.
        at: offset in the log at which the stream is, if not its first byte: the start of an entry.

    Attributes:
        offset: offset of the last yielded entry.
        damage: damage that ended the iteration, available after it; None at the log's own end.

    >>> from io import BytesIO
    >>> from simzk.zookeeper.transactions import CreateSessionTxn, Transaction
    >>> entry = encode_log_entry(Transaction(1, 0, 1, 1700000000000, CreateSessionTxn(30000)), None)
    >>> log = TransactionLogReader(BytesIO(LOG_HEADER + entry + entry[:20]))
    >>> [hex(entry.transaction.zxid) for entry in log]
    ['0x1']
    >>> print(log.damage)
    the file ends inside an entry, at byte 65; whole up to zxid 0x1
    """

    def __init__(self, stream: Readable, *, max_entry_bytes: int = MAX_ENTRY_BYTES, at: int = 0) -> None:
        self._stream = stream
        self._max_entry_bytes = max_entry_bytes
        self._start = at
        self.offset = at
        self._is_cut = False  # whether the last entry's record ends before its fields
        self.damage: Damage | None = None

    def __iter__(self) -> Iterator[LogEntry]:
        assert self.damage is None, "a log is read once"
        buffer = b""
        assert self._start == 0 or self._start >= HEADER_BYTES, "no entry begins in the header"
        at = 0
        dropped = self._start  # bytes of the file before the buffer
        if self._start == 0:
            buffer = self._fill(buffer, _file_header.size)
            wrong = head_damage(buffer[: _file_header.size])
            # A server checks only the magic, not the version (FileTxnIterator.inStreamCreated).
            if wrong is not None and wrong is not DamageKind.VERSION:
                self.damage = Damage(wrong, 0, None)
                return
            at = _file_header.size
        entry: LogEntry | None = None
        header_at, max_bytes = _entry_header.unpack_from, self._max_entry_bytes
        while True:
            size = len(buffer)
            # An entry is 12 bytes of header, its data, and the end mark.
            while at + 12 <= size:
                checksum, length = header_at(buffer, at)
                end = at + 12 + length
                if not 0 < length <= max_bytes or end >= size:
                    break
                data = buffer[at + 12 : end]
                if buffer[end] != _END_MARK or adler32(data) != checksum:
                    break
                try:
                    entry = decode_entry(data)
                except MalformedError as malformed:
                    self._is_cut = isinstance(malformed, TruncatedError)
                    break
                self.offset = dropped + at
                yield entry
                at = end + 1
            dropped += at
            before = size - at
            assert before >= 0, "the offset is behind a whole entry"
            buffer = self._fill(buffer[at:], self._needed_bytes(buffer, at))
            at = 0
            if len(buffer) == before:
                break
        kind = self._damage_at(buffer)
        if kind is not None:
            self.damage = Damage(kind, dropped, None if entry is None else entry.transaction.zxid)

    def _needed_bytes(self, buffer: bytes, at: int) -> int:
        """Return how many bytes from `at` on are needed to decode an entry or to tell its damage."""
        if len(buffer) - at < 12:
            return 12
        length: int = _entry_header.unpack_from(buffer, at)[1]
        return 12 + length + 1 if 0 < length <= self._max_entry_bytes else 12

    def _fill(self, buffer: bytes, needed: int) -> bytes:
        """Return the buffer extended to at least `needed` bytes, if the stream has them."""
        parts, size = [buffer], len(buffer)
        while size < needed:
            part = self._stream.read(_CHUNK_BYTES)
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts) if len(parts) > 1 else buffer

    def _damage_at(self, buffer: bytes) -> DamageKind | None:
        """Return the damage of the entry at the start of `buffer`, or None at the end of the log."""
        if len(buffer) < 12:
            return DamageKind.TORN if buffer.strip(b"\0") else None
        checksum, length = _entry_header.unpack_from(buffer)
        if length == 0:
            if checksum:
                return DamageKind.TORN
            return None if self._only_zeros(buffer) else DamageKind.HOLE
        if not 0 < length <= self._max_entry_bytes:
            return DamageKind.LENGTH
        # The real server checks the end mark first: an unfinished entry is torn, whatever its checksum.
        if len(buffer) <= 12 + length or buffer[12 + length] != _END_MARK:
            return DamageKind.TORN
        if adler32(buffer[12 : 12 + length]) != checksum:
            return DamageKind.CHECKSUM
        # A record that ends too early ends the log, as the end of the file does (EOFException).
        return DamageKind.TORN if self._is_cut else DamageKind.RECORD

    def _only_zeros(self, buffer: bytes) -> bool:
        """Return whether only padding is left."""
        while buffer:
            if buffer != bytes(len(buffer)):
                return False
            buffer = self._stream.read(_CHUNK_BYTES)
        return True


_HEAD_BYTES = _entry_header.size
_HEAD = re.compile(rb"(?s)(?=\0{4}.{4}(?!\0{4})\0[\0-\x7f].{2})")
"""Pattern of an entry's header: a 32-bit checksum in 64 bits, and a plausible length."""
_WINDOW_BYTES = 1 << 20


class Seekable(Readable, Protocol):
    """File opened for reading bytes, with random access."""

    def seek(self, offset: int, /) -> int:
        """Move to an offset."""


def scan(stream: Seekable, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, LogEntry | Damage]]:
    """Yield the entries that begin between two offsets of a log and the damages behind them, with their offsets.

    Args:
        stream: whole log; it is not closed.
        start: first offset of the part; 0 includes the header.
        stop: offset behind the part; None for the end of the file.

    >>> from io import BytesIO
    >>> from simzk.zookeeper.transactions import CreateSessionTxn, Transaction
    >>> entries = [encode_log_entry(Transaction(1, 0, zxid, 0, CreateSessionTxn(9)), None) for zxid in (1, 2, 3)]
    >>> log = LOG_HEADER + entries[0] + bytes(9) + entries[1] + entries[2]
    >>> for offset, found in scan(BytesIO(log)):
    ...     print(offset, found if isinstance(found, Damage) else found.transaction.zxid)
    16 1
    65 data follows the end of the log, at byte 65; whole up to zxid 0x1
    74 2
    123 3
    """
    stream.seek(0)
    wrong = head_damage(stream.read(HEADER_BYTES))
    if wrong is not None:
        if start == 0:
            yield 0, Damage(wrong, 0, None)
        return
    at: int | None = start if start == 0 else find_entry(stream, start)
    while at is not None and (stop is None or at < stop):
        stream.seek(at)
        reader = TransactionLogReader(stream, at=at)
        for entry in reader:
            if stop is not None and reader.offset >= stop:
                return
            yield reader.offset, entry
        damage = reader.damage
        if damage is None:
            return
        yield damage.offset, damage
        if stop is not None and damage.offset >= stop:
            return
        assert damage.offset >= at, "a scan does not go back"
        at = find_entry(stream, damage.offset + 1)


def find_entry(stream: Seekable, at: int) -> int | None:
    """Return the offset of the first whole entry that does not begin before `at`, or None.

    >>> from io import BytesIO
    >>> from simzk.zookeeper.transactions import CreateSessionTxn, Transaction
    >>> entry = encode_log_entry(Transaction(1, 0, 1, 0, CreateSessionTxn(9)), None)
    >>> find_entry(BytesIO(LOG_HEADER + entry + entry), 17) == 16 + len(entry)
    True
    """
    first = max(at, HEADER_BYTES)  # offset of the window
    stream.seek(first)
    window, is_end = b"", False
    place = 0
    while True:
        candidate = _HEAD.search(window, place)
        whole = None if candidate is None else _is_entry(window, candidate.start())
        if candidate is not None and whole:
            return first + candidate.start()
        if candidate is not None and (whole is False or is_end):
            place = candidate.start() + 1
        elif is_end:
            return None
        else:
            # No entry begins before the candidate; without a candidate, a header may begin in the last bytes.
            kept = candidate.start() if candidate is not None else max(place, len(window) - _HEAD_BYTES + 1)
            assert place <= kept <= len(window), "no byte is looked at twice or skipped"
            more = stream.read(_WINDOW_BYTES)
            is_end = not more
            window, first, place = window[kept:] + more, first + kept, 0


def _is_entry(window: bytes, place: int) -> bool | None:
    """Return whether a whole entry begins there, or None if the window is too short."""
    checksum: int
    length: int
    assert place + _HEAD_BYTES <= len(window), "the pattern of a header is as long as a header"
    checksum, length = _entry_header.unpack_from(window, place)
    if not 0 < length <= MAX_ENTRY_BYTES:
        return False
    end = place + _HEAD_BYTES + length
    if end >= len(window):
        return None
    return window[end] == _END_MARK and adler32(window[place + _HEAD_BYTES : end]) == checksum
