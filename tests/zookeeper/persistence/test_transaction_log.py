"""Logs round trip; whatever happens to the bytes, the whole entries before it are kept and the rest is said."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import get_args
from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.persistence import LOG_HEADER, MAX_ENTRY_BYTES, Damage, DamageKind, LogEntry, TransactionLogReader
from simzk.zookeeper.persistence.records import _READERS, CODECS, decode_entry, encode_transaction
from simzk.zookeeper.persistence.transaction_log import encode_log_entry
from simzk.zookeeper.requests import OPEN_ACL
from tests.zookeeper.persistence.strategies import DIGESTS, TRANSACTIONS

ENTRIES = st.lists(st.builds(LogEntry, TRANSACTIONS, DIGESTS), max_size=6)
SESSION = txns.CreateSessionTxn(30_000)


class Drips:
    """A stream that gives a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, most: int) -> None:
        self._stream = BytesIO(data)
        self._most = most

    def read(self, size: int, /) -> bytes:
        return self._stream.read(min(size, self._most))


def read(data: bytes) -> tuple[list[LogEntry], Damage | None]:
    reader = TransactionLogReader(BytesIO(data))
    return list(reader), reader.damage


def written(entries: list[LogEntry]) -> list[bytes]:
    return [encode_log_entry(*entry) for entry in entries]


def numbered(count: int) -> list[LogEntry]:
    return [
        LogEntry(txns.Transaction(1, zxid, zxid, 1000, txns.SetDataTxn(f"/node-{zxid}", b"x" * zxid, zxid)), 5)
        for zxid in range(1, count + 1)
    ]


@given(ENTRIES)
def test_round_trip(entries: list[LogEntry]) -> None:
    assert read(LOG_HEADER + b"".join(written(entries))) == (entries, None)


@given(ENTRIES, st.integers(1, 5000))
def test_padding_ends_a_log(entries: list[LogEntry], padding: int) -> None:
    assert read(LOG_HEADER + b"".join(written(entries)) + bytes(padding)) == (entries, None)


@given(ENTRIES, st.integers(1, 50))
def test_chunks_do_not_matter(entries: list[LogEntry], most: int) -> None:
    data = LOG_HEADER + b"".join(written(entries)) + bytes(30)
    reader = TransactionLogReader(Drips(data, most))
    assert (list(reader), reader.damage) == (entries, None)


@given(TRANSACTIONS, DIGESTS)
def test_quick_readers_and_writers_agree_with_the_codecs(transaction: txns.Transaction, digest: int | None) -> None:
    data = encode_transaction(transaction, digest)
    number = struct.unpack_from(">i", data, 28)[0]
    kind, codec = CODECS[number]
    assert isinstance(transaction.record, kind)
    assert codec.read(data, 32) == _READERS[number](data, 32)
    assert data.startswith(codec.encode(transaction.record), 32)


def test_every_type_has_a_codec() -> None:
    assert {kind for kind, _ in CODECS.values()} == set(get_args(txns.Record))


@pytest.mark.parametrize("padding", [0, 100])
def test_cut_at_every_byte_of_the_last_entries(padding: int) -> None:
    entries = numbered(5)
    frames = written(entries)
    data = LOG_HEADER + b"".join(frames)
    bounds = [len(LOG_HEADER) + sum(map(len, frames[:count])) for count in range(6)]
    for cut in range(bounds[2], len(data)):
        whole = max(count for count in range(6) if bounds[count] <= cut)
        kept, damage = read(data[:cut] + bytes(padding))
        assert kept == entries[:whole]
        # Entries start with the zeros of a checksum: of those nobody can tell that they were one.
        begun = data[bounds[whole] : cut].strip(b"\0")
        assert damage == (Damage(DamageKind.TORN, bounds[whole], whole) if begun else None)


def test_every_byte_of_the_last_entries_corrupted() -> None:
    entries = numbered(4)
    frames = written(entries)
    data = LOG_HEADER + b"".join(frames)
    bounds = [len(LOG_HEADER) + sum(map(len, frames[:count])) for count in range(5)]
    for at in range(bounds[1], len(data)):
        whole = max(count for count in range(5) if bounds[count] <= at)
        for flip in (0x01, 0x80, 0xFF):
            corrupt = bytearray(data)
            corrupt[at] ^= flip
            kept, damage = read(bytes(corrupt))
            assert kept == entries[:whole], "all before it is kept, and nothing behind it is believed"
            assert damage is not None
            assert damage.offset == bounds[whole]
            assert damage.last_zxid == whole


@given(ENTRIES, st.binary(max_size=80))
def test_any_bytes_behind_an_entry(entries: list[LogEntry], junk: bytes) -> None:
    kept, damage = read(LOG_HEADER + b"".join(written(entries)) + junk)
    assert kept == entries
    assert (damage is None) == (not junk.strip(b"\0"))


@given(st.binary(max_size=60))
def test_any_bytes_with_a_checksum_that_fits(data: bytes) -> None:
    """An entry with a correct checksum may still be malformed."""
    frame = struct.pack(">qi", adler32(data), len(data)) + data + b"B"
    kept, damage = read(LOG_HEADER + frame)
    assert len(kept) + (damage is not None) == 1 or not data


@given(st.binary(max_size=60))
def test_any_file(data: bytes) -> None:
    kept, damage = read(data)
    assert kept == []
    assert damage is not None


@given(TRANSACTIONS, st.data())
def test_a_record_cut_short_is_not_understood(transaction: txns.Transaction, data: st.DataObject) -> None:
    whole = encode_transaction(transaction, None)
    cut = data.draw(st.integers(0, len(whole) - 1))
    payload = whole[:cut]
    frame = struct.pack(">qi", adler32(payload), len(payload)) + payload + b"B"
    kept, damage = read(LOG_HEADER + frame)
    if kept:
        # Old servers wrote less: that is read, and nothing else.
        assert isinstance(kept[0].transaction.record, (txns.CreateTxn, txns.Create2Txn, txns.CloseSessionTxn))
    elif cut:
        # A real server takes it for the end of the log (tests/conformance/test_odd_directories.py).
        assert damage == Damage(DamageKind.TORN, len(LOG_HEADER), None)


@pytest.mark.parametrize(
    ("length", "kind"),
    [
        (-1, DamageKind.LENGTH),
        (MAX_ENTRY_BYTES + 1, DamageKind.LENGTH),
        (MAX_ENTRY_BYTES, DamageKind.TORN),
        (0, DamageKind.TORN),
    ],
)
def test_lengths_that_cannot_be(length: int, kind: DamageKind) -> None:
    """A damaged length is rejected, an unfinished entry is skipped, as in the real server."""
    assert read(LOG_HEADER + struct.pack(">qi", 77, length) + b"abc") == ([], Damage(kind, len(LOG_HEADER), None))


def test_a_hole_is_said() -> None:
    frames = written(numbered(3))
    data = LOG_HEADER + frames[0] + bytes(len(frames[1])) + frames[2]
    assert read(data) == (numbered(3)[:1], Damage(DamageKind.HOLE, len(LOG_HEADER) + len(frames[0]), 1))


def test_a_long_log_takes_little_memory() -> None:
    """A generated stream is read with the memory of one chunk."""
    frame = encode_log_entry(txns.Transaction(1, 1, 1, 1, txns.SetDataTxn("/a", bytes(1000), 1)), None)
    chunk = frame * 1000
    held = []

    class Endless:
        left = 60

        def read(self, size: int, /) -> bytes:
            held.append(size)
            self.left -= 1
            return LOG_HEADER if self.left == 59 else chunk if self.left >= 0 else b""

    reader = TransactionLogReader(Endless())
    assert sum(1 for _ in reader) == 59_000
    assert reader.damage is None
    assert max(held) <= 1 << 20


def test_what_old_servers_wrote() -> None:
    """A create without its parent's cversion (3.3), a closed session without paths, with and without a digest."""
    header = struct.pack(">qiqqi", 1, 2, 3, 4, 1)
    body = encode_transaction(txns.Transaction(1, 2, 3, 4, txns.CreateTxn("/a", b"", OPEN_ACL, True, 9)), None)[32:]
    assert decode_entry(header + body[:-4]).transaction.record == txns.CreateTxn("/a", b"", OPEN_ACL, True, -1)
    closed = struct.pack(">qiqqi", 1, 0, 3, 4, -11)
    assert decode_entry(closed).transaction.record == txns.CloseSessionTxn(())
    entry = decode_entry(closed + struct.pack(">iQ", 2, 1371985504))
    assert (entry.transaction.record, entry.tree_digest) == (txns.CloseSessionTxn(()), 1371985504)


def test_a_digest_of_another_kind_is_no_digest() -> None:
    data = encode_transaction(txns.Transaction(1, 0, 3, 4, SESSION), None)
    assert decode_entry(data + struct.pack(">iQ", 3, 7)).tree_digest is None
    assert decode_entry(data + struct.pack(">iQ", 2, 7)).tree_digest == 7


def test_a_reconfiguration_is_data_set() -> None:
    data = encode_transaction(txns.Transaction(1, 0, 3, 4, txns.SetDataTxn("/zookeeper/config", b"x", -1)), None)
    reconfig = data[:28] + struct.pack(">i", 16) + data[32:]
    assert decode_entry(reconfig).transaction.record == txns.SetDataTxn("/zookeeper/config", b"x", -1)
