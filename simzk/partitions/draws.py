"""Pseudorandom numbers and permutations, decided by a key or seed alone.

Rules of the module:

1. Numbers come from SplitMix64 over a counter (Steele, Lea, Flood 2014), not from numpy's generators: those may change
   with its version.
2. A permutation of any length is a Feistel network over the bits of a position, walked until the result is below the
   length: any slice can be computed anywhere, without a list. Neither is for secrets.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST, _TO_53_BITS = np.uint64(31), np.uint64(11)


class Draws:
    """A stream of numbers in [0, 1), all of them decided by a key.

    Args:
        key: names the stream; another key gives another stream.

    >>> Draws(b"a").uniforms(3).round(3).tolist() == Draws(b"a").uniforms(3).round(3).tolist()
    True
    """

    def __init__(self, key: bytes) -> None:
        self._counter = int.from_bytes(blake2b(key, digest_size=8).digest(), "little")

    def uniforms(self, *shape: int) -> NDArray[np.float64]:
        """The next numbers of the stream, `float64[shape]`."""
        count = int(np.prod(shape))
        first = np.uint64(self._counter % (1 << 64))
        self._counter += int(_GAMMA) * count
        mixed = first + np.arange(1, count + 1, dtype=np.uint64) * _GAMMA
        for shift, factor in _MIX:
            mixed = (mixed ^ (mixed >> shift)) * factor
        mixed ^= mixed >> _LAST
        found: NDArray[np.float64] = (mixed >> _TO_53_BITS).astype(np.float64) * 2.0**-53
        return found.reshape(shape)

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """Numbers from 0 up to, not including, `bound`; `int64[count]`."""
        return (self.uniforms(count) * bound).astype(np.int64)

    def order(self, length: int) -> NDArray[np.intp]:
        """The numbers 0 to `length` - 1, shuffled."""
        return np.argsort(self.uniforms(length), kind="stable")


_FEISTEL_ROUNDS = 6


def shuffled_at(place: int, length: int, seed: int) -> int:
    """The number at a place of the shuffled `range(length)`.

    Args:
        place: 0 to `length` - 1.
        length: how many numbers there are; any size.
        seed: decides the order.

    >>> sorted(shuffled_at(place, 10, seed=1) for place in range(10)) == list(range(10))
    True
    """
    assert 0 <= place < length
    half = max(((length - 1).bit_length() + 1) // 2, 1)
    number = _feistel(place, half, seed)
    while number >= length:
        number = _feistel(number, half, seed)
    return number


def _feistel(number: int, half: int, seed: int) -> int:
    mask = (1 << half) - 1
    left, right = number >> half, number & mask
    width = (half + 7) // 8
    for turn in range(_FEISTEL_ROUNDS):
        told = b"%d %d %d" % (seed, turn, right)
        left, right = right, left ^ (int.from_bytes(blake2b(told, digest_size=max(width, 8)).digest(), "big") & mask)
    return left << half | right
