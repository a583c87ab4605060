"""Random streams: independent named streams of one seed.

Rules of this module:
  - a stream is a function of (seed, name) alone, so that neither a new component nor one that draws more numbers
    changes the draws of another;
  - a stream uses `getrandbits` of the Mersenne Twister only: Python guarantees that this method and seeding by an
    integer are stable, while `shuffle`, `sample`, `randrange` and numpy's generators have all changed;
  - names are hashed by BLAKE2b and never by `hash()`, which differs between processes.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_FLOAT_BITS = 53
_REJECTIONS_MAX = 10_000
"""Limit of rejections in a row; a draw is rejected with a probability below one half."""


def keyed_hash(seed: int, name: str) -> int:
    """Return 64 bits that depend on the seed and the name only.

    >>> hex(keyed_hash(7, "broker-1"))
    '0x7fd816a4355da455'
    """
    digest = hashlib.blake2b(name.encode(), digest_size=8, key=str(seed).encode()[:64])
    return int.from_bytes(digest.digest(), "big")


class RandomStream:
    """One named random stream.

    Args:
        seed: the seed of the whole run.
        name: the name of its component, such as `network/1->zookeeper`.

    >>> RandomStream(7, "a").below(100) == RandomStream(7, "a").below(100)
    True
    """

    __slots__ = ("_bits", "name", "seed")

    def __init__(self, seed: int, name: str) -> None:
        self.seed: int = seed
        self.name: str = name
        self._bits = random.Random(keyed_hash(seed, f"stream/{name}")).getrandbits

    def below(self, limit: int) -> int:
        """Return an integer of 0 .. limit-1 with uniform probability."""
        assert limit > 0, f"stream {self.name}: no integer is below {limit}"
        bits, width = self._bits, (limit - 1).bit_length()
        drawn = bits(width)
        if drawn >= limit:
            rejected = 1
            while (drawn := bits(width)) >= limit:
                rejected += 1
                assert rejected < _REJECTIONS_MAX, f"stream {self.name}: the generator is broken"
        return drawn

    def between(self, low: int, high: int) -> int:
        """Return an integer of low .. high, both included, with uniform probability."""
        assert low <= high, f"stream {self.name}: between {low} and {high}"
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return true with a probability (0.0 never, 1.0 always), drawing exactly once."""
        assert 0.0 <= probability <= 1.0, f"stream {self.name}: invalid probability {probability}"
        return self._bits(_FLOAT_BITS) < probability * (1 << _FLOAT_BITS)

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items with uniform probability."""
        assert items, f"stream {self.name}: a choice from no items"
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher-Yates shuffle); the argument is not changed."""
        shuffled = list(items)
        for last in range(len(shuffled) - 1, 0, -1):
            other = self.below(last + 1)
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return shuffled

    def bits(self, width: int) -> int:
        """Return `width` random bits as an integer, for example for an identifier."""
        assert width > 0, f"stream {self.name}: {width} bits"
        return self._bits(width)
