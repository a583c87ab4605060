"""Chance: named streams of one seed.

Rule 1: a stream is a function of (seed, name) alone, so that a component which draws more, or a component which is
        new, changes no draw of another.
Rule 2: a stream uses `getrandbits` of the Mersenne Twister only. Python promises that method and seeding by an integer
        to be stable; `shuffle`, `sample`, `randrange` and numpy's generators have all changed under their users.
Rule 3: names are hashed by BLAKE2b and never by `hash()`, which differs from process to process.
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
"""A draw is rejected with a probability below one half: ten thousand in a row do not happen."""


def keyed_hash(seed: int, name: str) -> int:
    """Return 64 bits that depend on the seed and the name, and on nothing else.

    >>> hex(keyed_hash(7, "broker-1"))
    '0x7fd816a4355da455'
    """
    digest = hashlib.blake2b(name.encode(), digest_size=8, key=str(seed).encode()[:64])
    return int.from_bytes(digest.digest(), "big")


class RandomStream:
    """One named stream of chance.

    Args:
        seed: the seed of the whole run.
        name: whose stream it is, such as `network/1->zookeeper`.

    >>> RandomStream(7, "a").below(100) == RandomStream(7, "a").below(100)
    True
    """

    __slots__ = ("_bits", "name", "seed")

    def __init__(self, seed: int, name: str) -> None:
        self.seed: int = seed
        self.name: str = name
        self._bits = random.Random(keyed_hash(seed, f"stream/{name}")).getrandbits

    def below(self, limit: int) -> int:
        """Return an integer of 0 .. limit-1, each equally likely."""
        assert limit > 0, f"stream {self.name}: nothing is below {limit}"
        bits, width, rejected = self._bits, (limit - 1).bit_length(), 0
        while (drawn := bits(width)) >= limit:
            rejected += 1
            assert rejected < _REJECTIONS_MAX, f"stream {self.name}: the generator is broken"
        return drawn

    def between(self, low: int, high: int) -> int:
        """Return an integer of low .. high, both included."""
        assert low <= high, f"stream {self.name}: between {low} and {high}"
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return true with the given probability (0.0 never, 1.0 always); it draws once in either case."""
        assert 0.0 <= probability <= 1.0, f"stream {self.name}: a probability of {probability}"
        return self._bits(_FLOAT_BITS) < probability * (1 << _FLOAT_BITS)

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items, each equally likely."""
        assert items, f"stream {self.name}: a choice of nothing"
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in an order drawn by Fisher and Yates' method; the argument is left as it was."""
        shuffled = list(items)
        for last in range(len(shuffled) - 1, 0, -1):
            other = self.below(last + 1)
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return shuffled

    def bits(self, width: int) -> int:
        """Return `width` random bits as an integer, as for an identifier."""
        assert width > 0, f"stream {self.name}: {width} bits"
        return self._bits(width)
