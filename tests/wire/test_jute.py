"""Jute's primitives where Java has ways of its own (docs/reference/zookeeper.md §1.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper.jute import ACLS, BOOLEAN, BUFFER, INT, LONG, TEXT, Codec, MalformedError, record, vector
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.wire.strategies import TEXTS


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff\xff\xff\xff", None),
        (b"\0\0\0\0", ""),
        (b"\0\0\0\x04\xf0\x9f\x98\x80", "\U0001f600"),
        # Surrogates one by one, as Java's own writer has them: each reads as one U+FFFD.
        (b"\0\0\0\x06\xed\xa0\xbd\xed\xb8\x80", "\ufffd\ufffd"),
        # A part of one, before whatever follows, too: as Java 17 decodes them (tests/conformance/test_odd_texts.py).
        (b"\0\0\0\x02\xed\xa0", "\ufffd"),
        (b"\0\0\0\x03\xed\xbfA", "\ufffdA"),
        (b"\0\0\0\x05\xed\xa0\xed\xb0\x80", "\ufffd\ufffd"),
        (b"\0\0\0\x01\xed", "\ufffd"),
        (b"\0\0\0\x02\xffa", "\ufffda"),
    ],
)
def test_text_is_read_as_java_reads_it(data: bytes, text: str | None) -> None:
    assert TEXT.decode(data) == text


def test_text_beyond_the_basic_plane_is_written_by_units() -> None:
    # Seen on 3.9.5: the path of an event that SetWatches made.
    assert TEXT.encode("/\U0001f600") == b"\0\0\0\x07/\xed\xa0\xbd\xed\xb8\x80"


@given(TEXTS)
def test_other_text_is_utf_8(text: str) -> None:
    encoded = text.encode("utf-8")
    assert TEXT.encode(text) == len(encoded).to_bytes(4, "big") + encoded
    assert TEXT.decode(TEXT.encode(text)) == text


@pytest.mark.parametrize("number", [1, 0x80, 0xFF])
def test_any_byte_but_zero_is_true(number: int) -> None:
    assert BOOLEAN.decode(bytes([number])) is True


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (INT, b"\0\0\0"),
        (LONG, b"\0" * 7),
        (BOOLEAN, b""),
        (BUFFER, b"\xff\xff\xff\xfe"),
        (BUFFER, b"\0\0\0\2x"),
        (vector(INT), b"\x7f\xff\xff\xff"),
        (vector(INT), b"\0\0\0\2\0\0\0\1"),
    ],
)
def test_what_ends_too_soon_or_cannot_be_is_malformed(codec: Codec[object], data: bytes) -> None:
    with pytest.raises(MalformedError):
        codec.decode(data)


def test_a_null_vector_is_not_an_empty_one() -> None:
    assert vector(INT).decode(b"\xff\xff\xff\xff") is None
    assert vector(INT).decode(b"\0\0\0\0") == ()
    assert vector(INT).encode(None) == b"\xff\xff\xff\xff"


@given(st.binary(max_size=40))
def test_readers_never_escape(data: bytes) -> None:
    for codec in (INT, LONG, BOOLEAN, BUFFER, TEXT, vector(TEXT)):
        try:
            codec.read(data, 0)
        except MalformedError:
            continue


def test_the_acl_of_nearly_every_node_is_one_object() -> None:
    # The store knows it by identity.
    written = ACLS.encode(OPEN_ACL)
    assert ACLS.decode(written) is OPEN_ACL
    assert ACLS.decode(written[:-1] + b"x") == (ACL(31, Id("world", "anyonx")),)


def test_a_record_is_compiled_when_it_is_first_asked_for() -> None:
    pair = record(ACL, INT, record(Id, TEXT, TEXT))
    assert not {"read", "write"} & vars(pair).keys()
    read = pair.read
    assert pair.decode(pair.encode(OPEN_ACL[0])) == OPEN_ACL[0]
    assert pair.read is read
    assert not hasattr(pair, "scan")
