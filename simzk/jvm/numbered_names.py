"""Compact HashSet of names that are numbers 0, 1, 2, ..., as the children of a queue or a Kafka topic are.

Rules of this module:
  - it behaves as a `HashOrderedSet` of the same history, with 4 bytes or none per name;
  - names 0 to n-1 in that order of insertion are a `range`, others an array in order of insertion;
  - a name that is no such number turns it into a plain set for good.
"""

from __future__ import annotations

from array import array
from functools import lru_cache

from simzk.jvm.hash_codes import string_hash
from simzk.jvm.hash_map import HashOrderedSet, hash_map_order

LARGEST = 2**31 - 1


def number_of(name: str) -> int | None:
    """Return the 31-bit number that a name is, written without leading zeros, or None.

    >>> [number_of(name) for name in ("0", "17", "01", "-1", "1e3", "")]
    [0, 17, None, None, None, None]
    """
    if not (name.isascii() and name.isdigit()) or (name[0] == "0" and name != "0") or len(name) > len(str(LARGEST)):
        return None
    number = int(name)
    return number if number <= LARGEST else None


class NumberedNames(HashOrderedSet):
    """Set of decimal numbers as texts, stored as numbers.

    Args:
        capacity: number of buckets, as of a `HashOrderedSet` of this size.
        numbers: elements in order of insertion; an array belongs to this set from here on.

    >>> names = NumberedNames(8, range(3))
    >>> names.add("3")
    >>> names.ordered(), names.numbers
    (['0', '1', '2', '3'], range(0, 4))
    """

    __slots__ = ("numbers",)

    def __init__(self, capacity: int, numbers: range | array[int]) -> None:
        super().__init__(capacity)
        self.numbers: range | array[int] | None = numbers
        """Elements in order of insertion; None once the set stores texts."""

    @classmethod
    def of(cls, names: HashOrderedSet) -> NumberedNames | None:
        """Return a copy of a set that stores numbers, or None if a name is no number."""
        numbers = array("i")
        for name in names.in_order_of_arrival():
            number = number_of(name)
            if number is None:
                return None
            numbers.append(number)
        count = len(numbers)
        if set(numbers) == set(range(count)) and tuple(names.ordered()) == _counted(count, names.capacity):
            # Only the order within buckets matters, and it is that of counting.
            return cls(names.capacity, range(count))
        return cls(names.capacity, numbers)

    def __len__(self) -> int:
        return super().__len__() if self.numbers is None else len(self.numbers)

    def __contains__(self, element: object) -> bool:
        if self.numbers is None:
            return super().__contains__(element)
        number = number_of(element) if isinstance(element, str) else None
        return number is not None and number in self.numbers

    def add(self, element: str) -> None:
        numbers = self.numbers
        number = None if numbers is None else number_of(element)
        if numbers is None or number is None:
            self._make_plain()
            super().add(element)
            return
        if number in numbers:
            return
        if isinstance(numbers, array):
            numbers.append(number)
        elif number == len(numbers):
            self.numbers = range(number + 1)
        else:
            self.numbers = array("i", [*numbers, number])
        self._order = None
        if len(self) * 4 > self._capacity * 3:
            self._capacity *= 2

    def discard(self, element: str) -> None:
        numbers = self.numbers
        if numbers is None:
            super().discard(element)
            return
        number = number_of(element)
        if number is None or number not in numbers:
            return
        if isinstance(numbers, range) and number == len(numbers) - 1:
            self.numbers = range(number)
        else:
            left = numbers if isinstance(numbers, array) else array("i", numbers)
            left.remove(number)
            self.numbers = left
        self._order = None

    def in_order_of_arrival(self) -> list[str]:
        return super().in_order_of_arrival() if self.numbers is None else list(map(str, self.numbers))

    def ordered(self) -> list[str]:
        if self.numbers is not None and self._order is None:
            if isinstance(self.numbers, range):
                self._order = list(_counted(len(self.numbers), self._capacity))
            else:
                self._order = hash_map_order(self.in_order_of_arrival(), self._capacity, string_hash)
        return super().ordered()

    def _make_plain(self) -> None:
        if self.numbers is not None:
            self._spreads = dict.fromkeys(self.in_order_of_arrival())
            self._examined_capacity = self._capacity  # numbers never crowd a bucket
            self.numbers = None

    def check(self) -> None:
        if self.numbers is None:
            super().check()
            return
        assert len(self) * 4 <= self._capacity * 3
        assert not self._spreads
        if isinstance(self.numbers, range):
            assert self.numbers == range(len(self.numbers))
        else:
            assert len(set(self.numbers)) == len(self.numbers)


@lru_cache(maxsize=32)
def _counted(count: int, capacity: int) -> tuple[str, ...]:
    """Return the names 0 to `count` - 1 in the order of a set to which they were added in that order."""
    return tuple(hash_map_order(map(str, range(count)), capacity, string_hash))
