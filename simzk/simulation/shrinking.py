"""Delta debugging: the smallest part of a failing input that still fails (Zeller and Hildebrandt, 2002: ddmin)."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def shrink_list(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a part of a failing list that still fails, and of which no single item can be left out.

    Args:
        items: the list; it fails.
        fails: returns whether a part of the list, in the same order, fails too. It is called once for each part. To
            end the search early, it may return False from some time on: the result then fails, but may be too long.

    >>> shrink_list(range(100), lambda part: 17 in part and 71 in part)
    [17, 71]
    """
    kept = tuple(range(len(items)))

    @cache
    def still_fails(part: tuple[int, ...]) -> bool:
        return fails([items[index] for index in part])

    pieces = 2
    if kept and still_fails(()):
        return []
    while len(kept) > 1:
        assert 2 <= pieces <= len(kept), "each piece has at least one item"
        chunks = _chunks(kept, pieces)
        smaller = next((chunk for chunk in chunks if still_fails(chunk)), None)
        if smaller is not None:
            kept, pieces = smaller, 2
            continue
        rests = (tuple(index for index in kept if index not in chunk) for chunk in map(frozenset, chunks))
        rest = next((rest for rest in rests if still_fails(rest)), None) if pieces > 2 else None
        if rest is not None:
            kept, pieces = rest, max(pieces - 1, 2)
        elif pieces == len(kept):
            break
        else:
            pieces = min(2 * pieces, len(kept))
    return [items[index] for index in kept]


def shrink_number(number: int, least: int, fails: Callable[[int], bool]) -> int:
    """Return a number that still fails, found by halving the distance to the least one.

    Args:
        number: the number; it fails.
        least: the least number to try.
        fails: returns whether a smaller number fails too.

    >>> shrink_number(1_000, 0, lambda number: number >= 300)
    300
    """
    assert number >= least, f"{number} is below {least}"
    low = least - 1  # does not fail, as far as known
    while number - low > 1:
        middle = least if low == least - 1 and number > least else (low + number) // 2
        assert low < middle < number, "each step shortens the distance, so that the search ends"
        if fails(middle):
            number = middle
        else:
            low = middle
    assert number == low + 1, "the next smaller number does not fail, as far as known"
    return number


def _chunks(items: tuple[int, ...], pieces: int) -> list[tuple[int, ...]]:
    """Return consecutive pieces of nearly equal length, none of them empty."""
    assert 1 <= pieces <= len(items)
    bounds = [len(items) * piece // pieces for piece in range(pieces + 1)]
    chunks = [items[start:stop] for start, stop in pairwise(bounds)]
    assert sum(map(len, chunks)) == len(items), "the pieces are the whole list"
    return chunks
