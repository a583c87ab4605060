"""Pseudorandom permutations: each number once, dependent on the seed, uniform."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from simzk.partitions.failures.sets import shuffled_at


@given(st.integers(1, 400), st.integers(0, 2**70))
def test_each_number_occurs_once(length: int, seed: int) -> None:
    assert sorted(shuffled_at(place, length, seed) for place in range(length)) == list(range(length))


@given(st.integers(1, 10**40), st.integers(0, 9), st.data())
def test_numbers_are_below_the_length(length: int, seed: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, length - 1))
    assert 0 <= shuffled_at(place, length, seed) < length


def test_every_number_is_first_equally_often_over_seeds() -> None:
    # 20 numbers, 4,000 seeds: 200 each; chi-square with 19 degrees of freedom is below 43.8 in 999 of 1,000 cases.
    for place in (0, 7, 19):
        counts = Counter(shuffled_at(place, 20, seed) for seed in range(4000))
        assert sum((counts[number] - 200) ** 2 / 200 for number in range(20)) < 43.8
    # So do pairs of neighbours: 380 of them, and 477 bounds 999 of 1,000 cases with 379 degrees of freedom.
    pairs = Counter((shuffled_at(0, 20, seed), shuffled_at(1, 20, seed)) for seed in range(4000))
    wanted = 4000 / 380
    assert sum((count - wanted) ** 2 / wanted for count in pairs.values()) + (380 - len(pairs)) * wanted < 477
