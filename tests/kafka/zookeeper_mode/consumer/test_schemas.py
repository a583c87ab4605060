"""Registrations and offsets of the old consumer: recorded forms, round trips, invalid data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ZnodeError
from simzk.kafka.zookeeper_mode.consumer.settings import LINES, consumer_version
from simzk.kafka.zookeeper_mode.consumer.subscriptions import (
    BLACK_LIST,
    STATIC,
    WHITE_LIST,
    ConsumerRegistration,
    decode,
    decode_offset,
    encode_compact,
    encode_escaped_twice,
    encode_offset,
    encode_spaced,
)

DATA = Path(__file__).parent / "data"
PATH = "/consumers/g/ids/c"


@pytest.mark.parametrize("release", ["0.8.0", "0.8.1.1", "0.8.2.2"])
def test_recorded_registrations_are_decoded_and_encoded_again(release: str) -> None:
    requests = json.loads((DATA / f"consumer-{release}.json").read_text())["requests"]
    text = next(r["data"] for r in requests if r["op"] == "create" and "/ids/" in r["path"])
    registration = decode(PATH, text.encode())
    assert registration.pattern == WHITE_LIST
    assert registration.subscription == {"t1": 1}
    assert consumer_version(release).encode(registration) == text.encode()


names = st.text(st.sampled_from("abcXYZ019._-"), min_size=1)
subscriptions = st.dictionaries(names, st.integers(1, 99), min_size=1, max_size=8)


@given(subscriptions, st.integers(0, 2**41))
def test_every_release_decodes_registrations_of_any_release(counts: dict[str, int], timestamp_ms: int) -> None:
    registration = ConsumerRegistration(STATIC, counts, timestamp_ms)
    for line in LINES:
        assert decode(PATH, consumer_version(line).encode(registration)) == registration


@given(st.text(min_size=1))
def test_a_regex_round_trips_from_0_8_1_to_1_0_0(regex: str) -> None:
    registration = ConsumerRegistration(BLACK_LIST, {regex: 2}, 7)
    assert decode(PATH, encode_compact(registration)) == registration


def test_a_backslash_is_unreadable_in_0_8_0_and_doubled_from_1_0_1_on() -> None:
    registration = ConsumerRegistration(WHITE_LIST, {r"t\d": 1}, 7)
    with pytest.raises(ZnodeError, match="no JSON"):
        decode(PATH, encode_spaced(registration))
    assert decode(PATH, encode_escaped_twice(registration)).subscription == {r"t\\d": 1}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no data"),
        (b"not json", "no JSON"),
        (b'{"subscription":{"t":1}}', "field pattern is missing"),
        (b'{"pattern":"static"}', "field subscription is missing"),
        (b'{"pattern":"static","subscription":["t"]}', "field subscription is"),
        (b'{"pattern":"static","subscription":{"t":"1"}}', "subscription.t"),
        (b'{"pattern":"static","subscription":{"t":0}}', "subscription.t"),
    ],
)
def test_invalid_registrations_are_rejected_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(ZnodeError, match=why) as error:
        decode(PATH, data)
    assert error.value.where == PATH


def test_unknown_fields_and_patterns_are_accepted() -> None:
    data = b'{"version":9,"pattern":"else","subscription":{"t":1},"more":[]}'
    assert decode(PATH, data) == ConsumerRegistration(STATIC, {"t": 1}, 0)
    assert decode(PATH, b'{"pattern":"white_list","subscription":{}}').pattern == STATIC


@given(st.integers(-(2**63), 2**63 - 1))
def test_offsets(offset: int) -> None:
    assert decode_offset("/o", encode_offset(offset)) == offset


@pytest.mark.parametrize("data", [None, b"", b"x", b"1.5", b"9223372036854775808", "²".encode()])
def test_invalid_offsets_are_rejected(data: bytes | None) -> None:
    with pytest.raises(ZnodeError, match="/o: contains"):
        decode_offset("/o", data)
