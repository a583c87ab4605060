"""Scans of parts of a log: wherever it is cut, each entry is read once; damages are reported and skipped."""

from __future__ import annotations

from io import BytesIO
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper.persistence import LOG_HEADER, Damage, DamageKind, encode_log_entry
from simzk.zookeeper.persistence.transaction_log import find_entry, scan
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.transactions import CreateSessionTxn, CreateTxn, SetDataTxn, Transaction


def entry(zxid: int, data: bytes) -> bytes:
    record = CreateTxn("/a", data, OPEN_ACL, False, 1) if zxid % 2 else SetDataTxn("/a", data, zxid)
    return encode_log_entry(Transaction(7, zxid, zxid, 1_700_000_000_000, record), zxid)


# Data that looks like heads, marks and zeros is what a search could stumble over.
datas = st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([bytes(30), b"B" * 30, b"\0\0\0\0BBBB\0\0\0\1B"])))


def zxids(log: bytes, start: int = 0, stop: int | None = None) -> list[int]:
    return [found.transaction.zxid for _, found in scan(BytesIO(log), start, stop) if not isinstance(found, Damage)]


@given(datas, st.lists(st.integers(0, 2000)), st.integers(0, 100))
def test_stretches_give_each_entry_once(blobs: list[bytes], cuts: list[int], padding: int) -> None:
    log = LOG_HEADER + b"".join(entry(zxid, data) for zxid, data in enumerate(blobs, 1)) + bytes(padding)
    bounds = sorted({0, *(cut % len(log) for cut in cuts)})
    parts = [zxids(log, start, stop) for start, stop in zip(bounds, [*bounds[1:], None], strict=True)]
    assert list(chain.from_iterable(parts)) == list(range(1, len(blobs) + 1))


@given(datas.filter(len), st.data(), st.binary(min_size=1, max_size=30))
def test_what_is_damaged_is_passed_over(blobs: list[bytes], data: st.DataObject, garbage: bytes) -> None:
    """Bytes between two entries lose no entry; a changed byte in an entry loses that entry, and is reported."""
    entries = [entry(zxid, blob) for zxid, blob in enumerate(blobs, 1)]
    where = data.draw(st.integers(0, len(entries) - 1))
    strewn = LOG_HEADER + b"".join([*entries[:where], garbage, *entries[where:]])
    assert zxids(strewn) == list(range(1, len(blobs) + 1))
    hit = bytearray(entries[where])
    hit[data.draw(st.integers(12, len(hit) - 2))] ^= 1 << data.draw(st.integers(0, 7))
    damaged = LOG_HEADER + b"".join([*entries[:where], bytes(hit), *entries[where + 1 :]])
    assert zxids(damaged) == [zxid for zxid in range(1, len(blobs) + 1) if zxid != where + 1]
    (reported,) = [offset for offset, found in scan(BytesIO(damaged)) if isinstance(found, Damage)]
    assert reported == len(LOG_HEADER) + sum(map(len, entries[:where]))


@given(datas.filter(len), st.data(), st.lists(st.integers(0, 2000), min_size=1))
def test_stretches_tell_each_damage_once(blobs: list[bytes], data: st.DataObject, cuts: list[int]) -> None:
    """A log may be cut before, in or directly behind a damage."""
    log = bytearray(LOG_HEADER + b"".join(entry(zxid, blob) for zxid, blob in enumerate(blobs, 1)))
    for _ in range(data.draw(st.integers(1, 3))):
        log[data.draw(st.integers(len(LOG_HEADER), len(log) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    bounds = sorted({0, *(cut % len(log) for cut in cuts)})
    parts = [list(scan(BytesIO(log), a, b)) for a, b in zip(bounds, [*bounds[1:], None], strict=True)]
    assert list(chain.from_iterable(parts)) == list(scan(BytesIO(log)))


def test_a_head_across_two_windows_is_found() -> None:
    """Windows are of a mebibyte: an entry may begin anywhere around the end of one."""
    begin = encode_log_entry(Transaction(1, 0, 1, 0, CreateSessionTxn(9)), None)
    for before in range((1 << 20) - 20, (1 << 20) + 20):
        log = LOG_HEADER + b"\xff" * before + begin
        assert find_entry(BytesIO(log), 0) == len(LOG_HEADER) + before


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"not a log at all", DamageKind.FOREIGN),
        (bytes(16), DamageKind.FOREIGN),
        (LOG_HEADER[:7] + b"\3" + LOG_HEADER[8:], DamageKind.VERSION),
        (LOG_HEADER[:9], DamageKind.TORN),
        (b"", DamageKind.EMPTY),
    ],
)
def test_a_file_that_is_no_log_is_one_damage_however_it_is_cut(head: bytes, kind: DamageKind) -> None:
    behind = b"".join(entry(zxid, b"data") for zxid in range(1, 9)) if len(head) == len(LOG_HEADER) else b""
    file = BytesIO(head + behind)
    assert list(scan(file)) == [(0, Damage(kind, 0, None))]
    parts = [list(scan(file, start, start + 50)) for start in range(0, len(head + behind), 50)]
    assert list(chain.from_iterable(parts)) == ([(0, Damage(kind, 0, None))] if head else [])


def test_a_log_without_entries_has_no_rows() -> None:
    assert list(scan(BytesIO(LOG_HEADER))) == []
