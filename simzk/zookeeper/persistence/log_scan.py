"""Any stretch of a transaction log, read on its own: what is whole, and where something is not (§6).

Rules of this module:
  - a stretch owns the entries that begin in it, and what is damaged right behind one of them: who begins in the damage
    cannot see it. So stretches that cover a log give each entry and each damage once, however it is cut;
  - unlike a server that boots, a scan goes on behind what is damaged, at the next entry that is whole;
  - of a file that does not begin as a log of the version that is known does, nothing is read, in no stretch; the first
    one says so;
  - an entry in the middle of bytes is known by its head, its mark and its checksum.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Protocol
from zlib import adler32

from simzk.zookeeper.persistence.damage import Damage
from simzk.zookeeper.persistence.transaction_log import HEADER_BYTES, MAX_ENTRY_BYTES, TransactionLogReader, head_damage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.zookeeper.persistence.records import LogEntry

_entry_header = Struct(">qi")
_HEAD_BYTES = _entry_header.size
_HEAD = re.compile(rb"(?s)(?=\0{4}.{4}(?!\0{4})\0[\0-\x7f].{2})")
"""How the head of an entry looks: a checksum of 32 bits in 64, and a length that is not absurd."""
_END_MARK = 0x42
_WINDOW_BYTES = 1 << 20


class Seekable(Protocol):
    """What a file opened for reading bytes offers."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> int: ...


def scan(
    stream: Seekable, start: int = 0, stop: int | None = None, *, max_entry_bytes: int = MAX_ENTRY_BYTES
) -> Iterator[tuple[int, LogEntry | Damage]]:
    """The entries that begin between two offsets of a log, and what is damaged behind one, in order, with offsets.

    Args:
        stream: the whole log; it is not closed.
        start: the first byte of the stretch; 0 takes the head of the file with it.
        stop: the first byte behind it; None for the end of the file.
        max_entry_bytes: the longest entry to believe in.

    >>> from io import BytesIO
    >>> from simzk.zookeeper.persistence.transaction_log import LOG_HEADER, encode_log_entry
    >>> from simzk.zookeeper.transactions import CreateSessionTxn, Transaction
    >>> entries = [encode_log_entry(Transaction(1, 0, zxid, 0, CreateSessionTxn(9)), None) for zxid in (1, 2, 3)]
    >>> log = LOG_HEADER + entries[0] + bytes(9) + entries[1] + entries[2]
    >>> for offset, found in scan(BytesIO(log)):
    ...     print(offset, found if isinstance(found, Damage) else found.transaction.zxid)
    16 1
    65 data stands behind the end of the log, at byte 65; whole up to zxid 0x1
    74 2
    123 3
    """
    stream.seek(0)
    wrong = head_damage(stream.read(HEADER_BYTES))
    if wrong is not None:
        if start == 0:
            yield 0, Damage(wrong, 0, None)
        return
    at: int | None = start if start == 0 else find_entry(stream, start, max_entry_bytes)
    while at is not None and (stop is None or at < stop):
        stream.seek(at)
        reader = TransactionLogReader(stream, max_entry_bytes=max_entry_bytes, at=at)
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
        at = find_entry(stream, damage.offset + 1, max_entry_bytes)


def find_entry(stream: Seekable, at: int, max_entry_bytes: int = MAX_ENTRY_BYTES) -> int | None:
    """Where the first whole entry begins that does not begin before `at`; None if there is none.

    >>> from io import BytesIO
    >>> from simzk.zookeeper.persistence.transaction_log import LOG_HEADER, encode_log_entry
    >>> from simzk.zookeeper.transactions import CreateSessionTxn, Transaction
    >>> entry = encode_log_entry(Transaction(1, 0, 1, 0, CreateSessionTxn(9)), None)
    >>> find_entry(BytesIO(LOG_HEADER + entry + entry), 17) == 16 + len(entry)
    True
    """
    first = max(at, HEADER_BYTES)  # the offset of the window's first byte
    stream.seek(first)
    window, is_end = b"", False
    place = 0
    while True:
        candidate = _HEAD.search(window, place)
        whole = None if candidate is None else _is_entry(window, candidate.start(), max_entry_bytes)
        if candidate is not None and whole:
            return first + candidate.start()
        if candidate is not None and (whole is False or is_end):
            place = candidate.start() + 1
        elif is_end:
            return None
        else:
            # What is before the candidate is no entry; without one, a head may begin in the last bytes.
            kept = candidate.start() if candidate is not None else max(place, len(window) - _HEAD_BYTES + 1)
            more = stream.read(_WINDOW_BYTES)
            is_end = not more
            window, first, place = window[kept:] + more, first + kept, 0


def _is_entry(window: bytes, place: int, max_entry_bytes: int) -> bool | None:
    """Whether a whole entry begins there; None where the window is too short to tell."""
    checksum: int
    length: int
    checksum, length = _entry_header.unpack_from(window, place)
    if not 0 < length <= max_entry_bytes:
        return False
    end = place + _HEAD_BYTES + length
    if end >= len(window):
        return None
    return window[end] == _END_MARK and adler32(window[place + _HEAD_BYTES : end]) == checksum
