"""Pseudorandom numbers decided by a key alone.

SplitMix64 over a counter (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014), not numpy's
generators, whose numbers may change with its version.
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
    """A stream of numbers in [0, 1) decided by a key.

    Args:
        key: names the stream; different keys give different streams.

    >>> Draws(b"a").uniforms(3).round(3).tolist() == Draws(b"a").uniforms(3).round(3).tolist()
    True
    """

    def __init__(self, key: bytes) -> None:
        self._counter = int.from_bytes(blake2b(key, digest_size=8).digest(), "little")

    def uniforms(self, *shape: int) -> NDArray[np.float64]:
        """Return the next numbers of the stream, `float64[shape]`."""
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
        """Return numbers from 0 to `bound` - 1, `int64[count]`."""
        assert 0 < bound < 1 << 53, "a float64 represents each number below the bound"
        return (self.uniforms(count) * bound).astype(np.int64)

    def order(self, length: int) -> NDArray[np.intp]:
        """Return a permutation of 0 to `length` - 1, `intp[length]`."""
        return np.argsort(self.uniforms(length), kind="stable")
