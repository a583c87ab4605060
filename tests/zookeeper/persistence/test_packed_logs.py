"""Broken gzip files: the data before the break is read."""

from __future__ import annotations

import gzip
from io import BytesIO
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper.persistence import LOG_HEADER, Damage, encode_log_entry
from simzk.zookeeper.persistence.files import Unzipped
from simzk.zookeeper.persistence.transaction_log import scan
from simzk.zookeeper.transactions import SetDataTxn, Transaction

if TYPE_CHECKING:
    from simzk.zookeeper.persistence import LogEntry

ENTRIES = [
    encode_log_entry(Transaction(1, zxid, zxid, zxid * 7919, SetDataTxn(f"/a{zxid * zxid}", b"", zxid)), zxid**5)
    for zxid in range(1, 200)
]
LOG = LOG_HEADER + b"".join(ENTRIES)
PACKED = gzip.compress(LOG)


def found(packed: bytes) -> list[tuple[int, LogEntry | Damage]]:
    return list(scan(Unzipped(BytesIO(packed))))


def test_a_packed_log_is_the_log() -> None:
    assert found(PACKED) == list(scan(BytesIO(LOG)))
    assert len(found(PACKED)) == len(ENTRIES)


@given(st.integers(0, len(PACKED) - 1))
def test_of_a_truncated_one_the_first_transactions_are_read(cut: int) -> None:
    entries = found(PACKED[:cut])
    whole = [one for _, one in entries if not isinstance(one, Damage)]
    assert [entry.transaction.zxid for entry in whole] == list(range(1, 1 + len(whole)))
    if cut > len(PACKED) * 3 // 4:
        assert len(whole) > len(ENTRIES) // 2


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_of_a_changed_one_no_transaction_is_read_that_was_not_there(at: int, flip: int) -> None:
    changed = bytearray(PACKED)
    changed[at] ^= flip
    real = list(scan(BytesIO(LOG)))
    assert [one for one in found(bytes(changed)) if not isinstance(one[1], Damage) and one not in real] == []
