"""Numbers of which only the least, the mean, the greatest and the percentiles are kept.

Rules of this module:
  - values are whole numbers; how often each one came is kept, so percentiles are exact and memory is bounded by how
    many different values there are;
  - of nothing all figures are 0, as the real server tells them.

Source: AvgMinMaxCounter, AvgMinMaxPercentileCounter.
"""

from __future__ import annotations


class Summary:
    """What is told of many values instead of the values.

    >>> summary = Summary()
    >>> summary.note(3, 2); summary.note(0)
    >>> summary.least, summary.mean, summary.greatest, summary.count, summary.total, summary.percentile(0.5)
    (0, 2.0, 3, 3, 6, 3)
    """

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[int, int] = {}

    def note(self, value: int, times: int = 1) -> None:
        """A value came, so many times."""
        self._times[value] = self._times.get(value, 0) + times

    def reset(self) -> None:
        """Forget all values."""
        self._times.clear()

    @property
    def least(self) -> int:
        return min(self._times, default=0)

    @property
    def greatest(self) -> int:
        return max(self._times, default=0)

    @property
    def count(self) -> int:
        return sum(self._times.values())

    @property
    def total(self) -> int:
        return sum(value * times for value, times in self._times.items())

    @property
    def mean(self) -> float:
        return self.total / self.count if self._times else 0.0

    def above(self, limit: int) -> int:
        """How many values are greater than a limit."""
        return sum(times for value, times in self._times.items() if value > limit)

    def percentile(self, share: float) -> int:
        """The least value that this share of all values does not exceed."""
        left = share * self.count
        for value, times in sorted(self._times.items()):
            left -= times
            if left <= 0:
                return value
        return self.greatest
