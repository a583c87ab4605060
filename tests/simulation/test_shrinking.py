"""Delta debugging: what is left fails, and nothing of it can be left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simzk.simulation.shrinking import shrink_list, shrink_number


@given(st.lists(st.integers(0, 30), max_size=40), st.sets(st.integers(0, 30), max_size=4))
def test_the_items_that_cause_a_failure_are_left(items: list[int], causes: set[int]) -> None:
    def fails(part: list[int]) -> bool:
        assert tuple(part) not in played, "each part is tried once"
        played.add(tuple(part)) if len(set(items)) == len(items) else None
        return causes <= set(part)

    played: set[tuple[int, ...]] = set()
    if not fails(items):
        return
    played.clear()
    assert sorted(shrink_list(items, fails)) == sorted(causes)


@given(st.integers(2, 60), st.data())
def test_no_single_item_of_the_result_can_be_left_out(size: int, data: st.DataObject) -> None:
    """Also of a failure that is not monotonic: some parts fail, some do not, at random."""
    failing = data.draw(st.sets(st.frozensets(st.integers(0, size - 1)), max_size=20)) | {frozenset(range(size))}
    left = shrink_list(range(size), lambda part: frozenset(part) in failing)
    assert frozenset(left) in failing
    assert left == sorted(left)
    if len(left) > 1:
        assert all(frozenset(left) - {item} not in failing for item in left)


def test_a_search_that_is_stopped_returns_what_fails() -> None:
    tries = 0

    def fails(part: list[int]) -> bool:
        nonlocal tries
        tries += 1
        return tries < 4 and 77 in part

    left = shrink_list(range(100), fails)
    assert 77 in left
    assert len(left) < 100


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_least_failing_number_is_found(least: int, limit: int, number: int) -> None:
    limit, number = max(limit, least), max(number, limit, least)
    assert shrink_number(number, least, lambda tried: tried >= limit) == limit
