"""Snappy blocks against another implementation, in both directions; malformed blocks are rejected."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simzk.snappy import SnappyError, pack_block, unpack_block

DATA = st.binary(max_size=300) | st.lists(st.sampled_from([b"a", b"bc", b"some text", bytes(70)]), max_size=400).map(
    b"".join
)


@given(DATA)
@example(bytes(range(256)) * 200)
@example(b"x" * 60_000)
def test_each_unpacks_what_the_other_packed(data: bytes) -> None:
    codec = pa.Codec("snappy")
    assert unpack_block(codec.compress(data, asbytes=True)) == data
    assert unpack_block(pack_block(data)) == data
    assert codec.decompress(pack_block(data), decompressed_size=len(data), asbytes=True) == data


def test_copies_of_all_three_kinds_are_read() -> None:
    """Copies with offsets of one, two and four bytes, overlapping ones included."""
    copies = [(0b000_001_01, b"\x02"), (0b000111_10, b"\x03\x00"), (0b000100_11, b"\x08\x00\x00\x00")]
    block = bytes([6 + 5 + 8 + 5, 5 << 2]) + b"abcdef" + b"".join(bytes([tag]) + offset for tag, offset in copies)
    unpacked = bytearray(b"abcdef")
    for length, back in ((5, 2), (8, 3), (5, 8)):
        for _ in range(length):
            unpacked.append(unpacked[-back])
    assert unpack_block(block) == bytes(unpacked)


@given(st.binary(max_size=40) | DATA.map(pack_block), st.integers(0, 400), st.binary(max_size=3))
def test_bytes_that_are_no_block_are_refused(block: bytes, at: int, other: bytes) -> None:
    mangled = block[:at] + other + block[at + len(other) :]
    with contextlib.suppress(SnappyError):
        unpack_block(mangled)


@pytest.mark.parametrize(
    "block", [b"", b"\x01", b"\x05\x10abc", b"\x04\x0eab\x00\x00", b"\x04\x00a\x0a\x09\x00", b"\x09\x00a"]
)
def test_what_is_cut_short_or_reaches_back_too_far_is_refused(block: bytes) -> None:
    with pytest.raises(SnappyError):
        unpack_block(block)
