"""`java.util.Random`, bit for bit: the chance in Kafka's replica assignment (docs/reference/kafka.md §3.4)."""

from __future__ import annotations

_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_STATE_MASK = (1 << 48) - 1


class JavaRandom:
    """The linear congruential generator of `java.util.Random`.

    Args:
        seed: as handed to Java's constructor (any long).

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
        """A number from 0 up to, not including, `bound` (`nextInt(int)`; 0 < bound < 2**31)."""
        assert 0 < bound < 1 << 31, f"bound must be positive and an int: {bound}"
        if bound & (bound - 1) == 0:
            return (bound * self._next(31)) >> 31
        # Draws from the last, incomplete run of `bound` numbers below 2**31 are refused: they favour low numbers.
        while True:
            drawn = self._next(31)
            value = drawn % bound
            if drawn - value + bound - 1 < 1 << 31:
                return value
