"""A shuffled order of any length without a list of it: the number that stands at a place, computed by itself.

A Feistel network over the bits of a place, keyed by the seed, and walked on until it lands below the length: so no
number comes twice, and any slice of the order can be computed anywhere. Not for secrets.
"""

from __future__ import annotations

from hashlib import blake2b

ROUNDS = 6


def scattered(place: int, length: int, seed: int) -> int:
    """The number at a place of the shuffled `range(length)`.

    Args:
        place: 0 to `length` - 1.
        length: how many numbers there are; any size.
        seed: decides the order.

    >>> sorted(scattered(place, 10, seed=1) for place in range(10)) == list(range(10))
    True
    """
    assert 0 <= place < length
    half = max(((length - 1).bit_length() + 1) // 2, 1)
    number = _mixed(place, half, seed)
    while number >= length:
        number = _mixed(number, half, seed)
    return number


def _mixed(number: int, half: int, seed: int) -> int:
    mask = (1 << half) - 1
    left, right = number >> half, number & mask
    width = (half + 7) // 8
    for turn in range(ROUNDS):
        told = b"%d %d %d" % (seed, turn, right)
        left, right = right, left ^ (int.from_bytes(blake2b(told, digest_size=max(width, 8)).digest(), "big") & mask)
    return left << half | right
