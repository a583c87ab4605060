"""Failure sets: which brokers fail together, enumerated by a small language.

`brokers:1` is every single live broker, `brokers:2` every pair, `racks:1` every rack with all its live brokers. The
sets of a specification have a fixed order, that of `itertools.combinations` over ascending ids or sorted rack names, so
that any slice of it can be computed anywhere and means the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, islice
from math import comb
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.partitions.layouts import Brokers

KINDS = ("brokers", "racks")

MOST_SETS = 10_000_000
"""The most failure sets of one specification: at a millisecond each, some three hours of one core."""


class FailureSet(NamedTuple):
    """Brokers that fail at one time: their ids, ascending, and the racks by which they were chosen, if they were."""

    brokers: tuple[int, ...]
    racks: tuple[str, ...]


@dataclass(frozen=True)
class FailureSpec:
    """All failure sets of one kind: every `count` of the brokers, or of the racks.

    Args:
        kind: `brokers` or `racks`.
        count: how many fail together.
    """

    kind: str
    count: int

    @classmethod
    def parse(cls, text: str) -> FailureSpec:
        """Read `KIND:COUNT`.

        Raises:
            ConfigError: the text is no such thing.

        >>> FailureSpec.parse("racks:1")
        FailureSpec(kind='racks', count=1)
        """
        kind, colon, count = text.strip().partition(":")
        if kind not in KINDS or not colon or not count.isdecimal() or not count.isascii() or int(count) == 0:
            raise ConfigError(f"{text!r} is no failure", right="brokers:N or racks:N with N of 1 or more")
        return cls(kind, int(count))

    def __str__(self) -> str:
        return f"{self.kind}:{self.count}"

    def size(self, brokers: Brokers) -> int:
        """How many sets there are in a cluster.

        Raises:
            ConfigError: more would fail than there are, or there are more sets than anybody can wait for.
        """
        candidates = len(self._candidates(brokers))
        if self.count > candidates:
            there_are = (
                f"there are {candidates} {'live brokers' if self.kind == 'brokers' else 'racks with a live broker'}"
            )
            raise ConfigError(f"{self} cannot fail: {there_are}")
        sets = comb(candidates, self.count)
        if sets > MOST_SETS:
            raise ConfigError(
                f"{self} of {candidates} {self.kind} is {sets:,} failure sets", right=f"at most {MOST_SETS:,}"
            )
        return sets

    def sets(self, brokers: Brokers, start: int, stop: int) -> Iterator[FailureSet]:
        """The sets `start` to `stop` of the fixed order.

        >>> from simzk.partitions.layouts import Brokers
        >>> brokers = Brokers.from_racks({1: "a", 2: "a", 3: "b"})
        >>> [chosen.brokers for chosen in FailureSpec("brokers", 2).sets(brokers, 1, 3)]
        [(1, 3), (2, 3)]
        """
        for chosen in islice(combinations(self._candidates(brokers), self.count), start, stop):
            ids = tuple(sorted(broker for candidate in chosen for broker in candidate.brokers))
            yield FailureSet(ids, tuple(rack for candidate in chosen for rack in candidate.racks))

    def _candidates(self, brokers: Brokers) -> list[FailureSet]:
        """What may fail, one by one: each live broker, or each rack's live brokers."""
        live = [
            (int(broker), rack) for broker, rack, up in zip(brokers.ids, brokers.racks, brokers.live, strict=True) if up
        ]
        if self.kind == "brokers":
            return [FailureSet((broker,), ()) for broker, _ in live]
        by_rack: dict[str, list[int]] = {}
        for broker, rack in live:
            if rack is not None:
                by_rack.setdefault(rack, []).append(broker)
        return [FailureSet(tuple(by_rack[rack]), (rack,)) for rack in sorted(by_rack)]
