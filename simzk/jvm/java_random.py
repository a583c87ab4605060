"""`java.util.Random`, bit for bit.

Kafka's replica assignment draws from it (docs/reference/kafka.md §3.4); ZooKeeper makes session passwords with it
(docs/reference/zookeeper.md §1.3).
"""

from __future__ import annotations

_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_STATE_MASK = (1 << 48) - 1


class JavaRandom:
    """The linear congruential generator of `java.util.Random`.

    Args:
        seed: the argument of Java's constructor (any long).

    >>> random = JavaRandom(42)
    >>> [random.next_int(10) for _ in range(5)]
    [0, 3, 8, 4, 0]
    """

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _STATE_MASK

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _STATE_MASK
        return self._state >> (48 - bits)

    def next_int(self, bound: int) -> int:
        """Return a number from 0 up to, not including, `bound` (`nextInt(int)`; 0 < bound < 2**31)."""
        assert 0 < bound < 1 << 31, f"bound {bound} is no positive int"
        if bound & (bound - 1) == 0:
            return (bound * self._next(31)) >> 31
        # A draw from the last, incomplete run of `bound` numbers below 2**31 would favour low numbers: draw again.
        while True:
            drawn = self._next(31)
            value = drawn % bound
            if drawn - value + bound - 1 < 1 << 31:
                return value

    def next_bytes(self, count: int) -> bytes:
        """Return `count` bytes (`nextBytes`): the low byte of each int first.

        >>> JavaRandom(42).next_bytes(5).hex()
        '359d41baf7'
        """
        drawn = b"".join(self._next(32).to_bytes(4, "little") for _ in range(-(-count // 4)))
        return drawn[:count]
