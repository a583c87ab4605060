"""Streams of chance: stable, independent, fair."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.simulation import RandomStream, Scheduler
from simzk.simulation.streams import keyed_hash

NAMES = st.text(max_size=20)


def test_a_stream_is_the_mersenne_twister_seeded_by_a_hash() -> None:
    twister = random.Random(keyed_hash(5, "stream/a"))
    stream = RandomStream(5, "a")
    assert [stream.bits(32) for _ in range(10)] == [twister.getrandbits(32) for _ in range(10)]


def test_draws_are_pinned() -> None:
    """These numbers are in every seed that a user has noted down: a change here breaks them all."""
    stream = RandomStream(1, "pinned")
    assert [stream.below(100) for _ in range(6)] == [9, 76, 56, 47, 15, 95]
    assert stream.shuffled(range(8)) == [3, 2, 6, 5, 4, 1, 7, 0]


@given(st.integers(0, 2**70), NAMES, NAMES, st.integers(1, 40))
def test_what_one_stream_draws_changes_nothing_for_another(seed: int, one: str, other: str, draws: int) -> None:
    alone = Scheduler(seed).stream(one).bits(64)
    clock = Scheduler(seed)
    if one != other:
        for _ in range(draws):
            clock.stream(other).below(1000)
    assert clock.stream(one).bits(64) == alone


def test_a_stream_goes_on_where_it_was() -> None:
    clock = Scheduler(seed=1)
    assert clock.stream("a") is clock.stream("a")
    assert clock.stream("a").bits(64) != clock.stream("a").bits(64)


@given(st.integers(), st.integers(1, 2**70))
def test_below_stays_below(seed: int, limit: int) -> None:
    stream = RandomStream(seed, "a")
    assert all(0 <= stream.below(limit) < limit for _ in range(20))


@given(st.integers(), st.integers(), st.integers(0, 2**40))
def test_between_includes_both_ends(seed: int, low: int, span: int) -> None:
    assert low <= RandomStream(seed, "a").between(low, low + span) <= low + span


def test_every_value_is_as_likely() -> None:
    stream = RandomStream(1, "fair")
    counts = Counter(stream.between(3, 9) for _ in range(7_000))
    assert sorted(counts) == [3, 4, 5, 6, 7, 8, 9]
    assert all(850 < count < 1150 for count in counts.values()), counts


def test_chance_is_never_at_zero_and_always_at_one() -> None:
    stream = RandomStream(1, "a")
    assert not any(stream.chance(0.0) for _ in range(100))
    assert all(stream.chance(1.0) for _ in range(100))
    assert 200 < sum(stream.chance(0.25) for _ in range(1000)) < 300


@given(st.integers(), st.lists(st.integers()))
def test_shuffled_keeps_the_items_and_the_argument(seed: int, items: list[int]) -> None:
    before = list(items)
    assert sorted(RandomStream(seed, "a").shuffled(items)) == sorted(items)
    assert items == before


def test_shuffled_reaches_every_order() -> None:
    stream = RandomStream(1, "a")
    assert len({tuple(stream.shuffled("abcd")) for _ in range(1000)}) == 24


def test_what_cannot_be_drawn_is_refused() -> None:
    stream = RandomStream(1, "a")
    with pytest.raises(AssertionError, match="no integer is below 0"):
        stream.below(0)
    with pytest.raises(AssertionError, match="between 2 and 1"):
        stream.between(2, 1)
    with pytest.raises(AssertionError, match="a choice from no items"):
        stream.choice([])
    with pytest.raises(AssertionError, match=r"invalid probability 1\.5"):
        stream.chance(1.5)
