"""Summary of integers: least, mean, greatest and percentiles.

Rules of this module:
  - the number of times each value came is stored: percentiles are exact, and memory is bounded by distinct values;
  - without values every figure is 0, as in the real server.

Source: AvgMinMaxCounter, AvgMinMaxPercentileCounter.
"""

from __future__ import annotations


class Summary:
    """Least, mean, greatest and percentiles of values.

    >>> summary = Summary()
    >>> summary.note(3, 2); summary.note(0)
    >>> summary.least, summary.mean, summary.greatest, summary.count, summary.total, summary.percentile(0.5)
    (0, 2.0, 3, 3, 6, 3)
    """

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[int, int] = {}

    def note(self, value: int, times: int = 1) -> None:
        """Add a value, `times` times."""
        self._times[value] = self._times.get(value, 0) + times

    def reset(self) -> None:
        """Forget all values."""
        self._times.clear()

    @property
    def least(self) -> int:
        """Return the least value, 0 without values."""
        return min(self._times, default=0)

    @property
    def greatest(self) -> int:
        """Return the greatest value, 0 without values."""
        return max(self._times, default=0)

    @property
    def count(self) -> int:
        """Return the number of values."""
        return sum(self._times.values())

    @property
    def total(self) -> int:
        """Return the sum of all values."""
        return sum(value * times for value, times in self._times.items())

    @property
    def mean(self) -> float:
        """Return the mean, 0 without values."""
        return self.total / self.count if self._times else 0.0

    def above(self, limit: int) -> int:
        """Return the number of values above a limit."""
        return sum(times for value, times in self._times.items() if value > limit)

    def percentile(self, share: float) -> int:
        """Return the least value that at least `share` of all values do not exceed."""
        left = share * self.count
        for value, times in sorted(self._times.items()):
            left -= times
            if left <= 0:
                return value
        return self.greatest
