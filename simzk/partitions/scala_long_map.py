"""The order in which Scala's `mutable.LongMap` iterates: an open table of numbers, as a broker keeps who lives in it.

Rules of the module (scala.collection.mutable.LongMap; equal to it in 2.12 and 2.13):
  - a number's place is where its mixed bits say, or the next free one of a quadratic walk; zero stands apart, first;
  - the table has the next power of two of the size it was made for, eight places at least, and is rebuilt twice as
    large once more than half is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = 0xFFFF_FFFF
_LARGEST = 0x3FFF_FFFF
_LEAST = 0b111


def long_map_order(keys: Iterable[int], size: int = 16) -> list[int]:
    """Distinct numbers from 0 on, given in insertion order, as a map iterates that was made for so many.

    >>> long_map_order([1, 2, 3, 4, 5, 6], 6)
    [5, 1, 4, 6, 2, 3]
    """
    mask = min((1 << max(size - 1, 0).bit_length()) - 1, _LARGEST) | _LEAST
    places: dict[int, int] = {}
    inserted = list(dict.fromkeys(keys))
    for key in inserted:
        if key == 0:
            continue
        places[_free(places, mask, key)] = key
        if 2 * len(places) > mask:
            mask, places = _rebuilt(places, mask)
    return [*([0] if 0 in inserted else []), *(places[place] for place in sorted(places))]


def _rebuilt(places: dict[int, int], mask: int) -> tuple[int, dict[int, int]]:
    mask = ((mask << 1) + 1) & _LARGEST
    while mask > 8 and 8 * len(places) < mask:
        mask >>= 1
    rebuilt: dict[int, int] = {}
    for place in sorted(places):
        rebuilt[_free(rebuilt, mask, places[place])] = places[place]
    return mask, rebuilt


def _free(places: dict[int, int], mask: int, key: int) -> int:
    folded = (key ^ key >> 32) & _WORD
    mixed = ((folded ^ folded >> 16) * 0x85EB_CA6B) & _WORD
    place, step = (mixed ^ mixed >> 13) & mask, 0
    while place in places:
        step += 1
        place = (place + 2 * (step + 1) * step - 3) & mask
    return place
