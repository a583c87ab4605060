"""Random and mutated bytes: a message or ProtocolError, nothing else, and memory in proportion to the frame."""

from __future__ import annotations

import os
import random
import tracemalloc
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.protocol.classes import message_class, response_class
from simzk.kafka.protocol.codec import RequestFrame, decode, decode_request, decode_response, encode
from simzk.kafka.protocol.schema import message_names
from simzk.kafka.protocol.structs import Message, ProtocolError
from tests.kafka.protocol.mutations import mutated
from tests.kafka.protocol.plain import random_message

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M")

KINDS = [message_class(name) for name in message_names()]
VERSIONS = [(kind, version) for kind in KINDS for version in kind.MESSAGE.versions]
MUTATIONS = int(os.environ.get("SIMZK_FUZZ_FRAMES", "5000"))
"""Mutated messages; 1,000,000 take a few minutes."""
BYTES_PER_BYTE = 400
"""Most memory per byte of a frame: an object with a dozen fields decoded from one byte each."""


def outcome(call: Callable[[], M]) -> M | ProtocolError:
    """Return the result of a call, or the error; any other exception fails the test."""
    try:
        return call()
    except ProtocolError as error:
        return error


def check_again(message: Message, version: int) -> None:
    """Encode and decode a message: the bytes stay the same (a NaN does not equal itself, its bytes do)."""
    data = encode(message, version)
    assert encode(decode(type(message), version, data), version) == data


def decoded(kind: type[Message], version: int, data: bytes) -> Message | None:
    """Return the message, or None for a ProtocolError that names a place."""
    found = outcome(lambda: decode(kind, version, data))
    if isinstance(found, Message):
        return found
    assert (found.message, found.version) == (kind.MESSAGE.name, version)
    assert found.offset is not None
    assert 0 <= found.offset <= len(data)
    return None


@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_random_bytes_are_a_message_or_an_error(which: tuple[type[Message], int], data: bytes) -> None:
    message = decoded(*which, data)
    if message is not None:
        check_again(message, which[1])


@given(st.binary(max_size=100))
def test_random_frames_are_a_request_or_an_error(frame: bytes) -> None:
    found = outcome(lambda: decode_request(frame))
    assert isinstance(found, RequestFrame) or found.message


@given(st.integers(0, 90), st.integers(-2, 20), st.binary(max_size=60))
def test_a_valid_header_before_random_bytes(api_key: int, version: int, body: bytes) -> None:
    frame = api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(4) + b"\xff\xff" + body
    request = outcome(lambda: decode_request(frame))
    assert isinstance(request, RequestFrame) or request.message
    kind = response_class(api_key)
    if kind is not None:
        response = outcome(lambda: decode_response(kind, version, frame))
        assert isinstance(response, tuple) or response.message


def test_mutated_messages_are_a_message_or_an_error() -> None:
    rng = random.Random(MUTATIONS)
    valid = 0
    for _ in range(MUTATIONS // 10):
        kind, version = rng.choice(VERSIONS)
        data = encode(random_message(rng, kind, version), version)
        for _ in range(10):
            message = decoded(kind, version, mutated(rng, data))
            if message is not None:
                valid += 1
                check_again(message, version)
    assert 0 < valid < MUTATIONS


@pytest.mark.parametrize("size", [100, 100_000])
def test_memory_is_in_proportion_to_the_frame(size: int) -> None:
    """Frames whose lengths promise gigabytes, and frames of the smallest items, which cost most per byte."""
    cases = [
        ("MetadataRequest", 0, b"\x7f\xff\xff\xff" + bytes(size)),
        ("MetadataRequest", 9, b"\xff\xff\xff\xff\x07" + bytes(size)),
        ("MetadataRequest", 0, (size // 2).to_bytes(4, "big") + bytes(size)),
        ("FetchResponse", 12, bytes(10) + b"\xff\xff\xff\xff\x07" + bytes(size)),
        ("LeaderAndIsrRequest", 0, bytes(8) + (size // 26).to_bytes(4, "big") + bytes(size)),
    ]
    for name, version, data in cases:
        kind = message_class(name)
        decoded(kind, version, b"")  # compile
        tracemalloc.start()
        kept = decoded(kind, version, data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del kept
        assert peak < 100_000 + BYTES_PER_BYTE * len(data), (name, version, peak)
