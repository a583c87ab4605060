"""Failure sets: brokers and racks that fail together, as command-line texts or in a JSON file.

Rules of the module:

1. `brokers:1` is every single live broker, `brokers:2` every pair, `racks:1` every rack with all its live brokers,
   `racks:1+brokers:1` every rack together with each live broker of another rack. `~1000` appended draws a thousand
   distinct sets by the seed, for specifications with too many sets.
2. The sets of a specification have a fixed order, that of `itertools.combinations` over sorted rack names, then over
   ascending ids, so that any slice can be computed anywhere.
3. `brokers=3+7` is one set of those two brokers, `racks=a+b` all brokers of those racks, `racks=a+brokers=7` both.
4. A file names sets that fail together for reasons outside a layout, such as a power feed::

       {"feed 1": {"racks": ["a", "b"]}, "old machines": {"brokers": [3, 7, 11]}}

5. Brokers that are already down do not fail again. A set that names a broker or rack that the layout does not have
   raises `FailureSetError`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, combinations
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from simzk.documents import is_number, read_json
from simzk.errors import ConfigError, FailureSetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simzk.partitions.layouts import Brokers

BROKERS, RACKS = KINDS = ("brokers", "racks")

MOST_SETS = 10_000_000
"""Maximum failure sets of one specification: at a millisecond each, about three hours of one core."""

MOST_RACK_SETS = 100_000
"""Maximum sets of racks that fail together with brokers: they are enumerated in memory."""

RIGHT = (
    "brokers:N, racks:N or racks:N+brokers:M, followed by ~S for S samples; "
    "brokers=ID+ID or racks=NAME+NAME for one set; or a file of sets, FILE.json"
)


class FailureSet(NamedTuple):
    """Brokers that fail together: their ids, ascending, and the racks by which they were chosen."""

    brokers: tuple[int, ...]
    racks: tuple[str, ...]


@dataclass(frozen=True)
class FailureSpec:
    """All failure sets of one kind, or a sample of them.

    Args:
        brokers: number of brokers that fail together, outside the racks that fail.
        racks: number of racks that fail with them.
        samples: number of sets to draw; None for all sets.
        seed: decides which sets are drawn.
    """

    brokers: int = 0
    racks: int = 0
    samples: int | None = None
    seed: int = 0

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> FailureSpec:
        """Parse `KIND:COUNT` or `racks:COUNT+brokers:COUNT`, each with or without `~SAMPLES`.

        Raises:
            ConfigError: the text is not a specification.

        >>> FailureSpec.parse("racks:1"), str(FailureSpec.parse("brokers:1+racks:2~500"))
        (FailureSpec(brokers=0, racks=1, samples=None, seed=0), 'racks:2+brokers:1~500')
        """
        sets, tilde, samples = text.strip().partition("~")
        counts: dict[str, int | None] = {}
        terms = sets.split("+")
        for term in terms:
            kind, _, count = term.partition(":")
            counts[kind] = _count(count)
        sample_size = _count(samples)
        if (
            None in counts.values()
            or len(counts) < len(terms)
            or set(counts) - set(KINDS)
            or (tilde and not sample_size)
        ):
            raise ConfigError(f"{text!r} is not a failure specification", right=RIGHT)
        return cls(counts.get(BROKERS) or 0, counts.get(RACKS) or 0, sample_size, seed)

    def __str__(self) -> str:
        terms = [f"{kind}:{count}" for kind, count in ((RACKS, self.racks), (BROKERS, self.brokers)) if count]
        return "+".join(terms) + ("" if self.samples is None else f"~{self.samples}")

    def population(self, brokers: Brokers) -> int:
        """Return the number of such sets in a cluster, drawn or not.

        Raises:
            FailureSetError: the cluster has fewer live brokers or racks than fail.
            ConfigError: there are too many sets of racks.
        """
        return _Space(self, brokers).population

    def size(self, brokers: Brokers) -> int:
        """Return the number of sets to evaluate.

        Raises:
            FailureSetError: the cluster has fewer live brokers or racks than fail.
            ConfigError: there are more than `MOST_SETS` sets.
        """
        population = self.population(brokers)
        sets = population if self.samples is None else min(self.samples, population)
        if sets > MOST_SETS:
            problem = f"{self} of {len(brokers.ids)} brokers has {sets:,} failure sets"
            raise ConfigError(problem, right=f"at most {MOST_SETS:,}, or a sample: {self}~10000")
        return sets

    def sets(self, brokers: Brokers, start: int, stop: int) -> Iterator[FailureSet]:
        """Yield the sets from `start` to `stop` - 1 of the fixed order.

        >>> from simzk.partitions.layouts import Brokers
        >>> brokers = Brokers.from_racks({1: "a", 2: "a", 3: "b"})
        >>> [chosen.brokers for chosen in FailureSpec(brokers=2).sets(brokers, 1, 3)]
        [(1, 3), (2, 3)]
        >>> [chosen.brokers for chosen in FailureSpec(racks=1, brokers=1).sets(brokers, 0, 3)]
        [(1, 2, 3), (1, 3), (2, 3)]
        """
        space = _Space(self, brokers)
        is_drawn = self.samples is not None and self.samples < space.population
        for number in range(start, stop):
            yield space.at(shuffled_at(number, space.population, self.seed) if is_drawn else number)


class _Space:
    """All sets of a specification in a cluster, by number."""

    def __init__(self, spec: FailureSpec, brokers: Brokers) -> None:
        self._spec = spec
        self._racks: dict[str, list[int]] = {}
        self._live: list[int] = []
        for broker, rack, up in zip(brokers.ids.tolist(), brokers.racks, brokers.live.tolist(), strict=True):
            if up:
                self._live.append(broker)
                if rack is not None:
                    self._racks.setdefault(rack, []).append(broker)
        self._names = sorted(self._racks)
        if spec.racks > len(self._names):
            raise FailureSetError(f"{spec} cannot fail: there are {len(self._names)} racks with a live broker")
        if spec.brokers > len(self._live):
            raise FailureSetError(f"{spec} cannot fail: there are {len(self._live)} live brokers")
        self._ends: list[int] = []
        if spec.racks and spec.brokers:
            rack_sets = comb(len(self._names), spec.racks)
            if rack_sets > MOST_RACK_SETS:
                raise ConfigError(f"{spec} has {rack_sets:,} sets of racks", right=f"at most {MOST_RACK_SETS:,}")
            sets_of_racks = combinations(self._names, spec.racks)
            beside = (len(self._live) - sum(len(self._racks[name]) for name in names) for names in sets_of_racks)
            self._ends = list(accumulate(comb(left, spec.brokers) for left in beside))
            self.population = self._ends[-1]
            if not self.population:
                raise FailureSetError(f"{spec} cannot fail: there are not enough live brokers outside the racks")
        else:
            self.population = comb(len(self._names), spec.racks) * comb(len(self._live), spec.brokers)

    def at(self, number: int) -> FailureSet:
        """Return the set with that number."""
        assert 0 <= number < self.population
        rack_number = number if self._spec.racks else 0
        if self._ends:
            rack_number = bisect_right(self._ends, number)
            number -= self._ends[rack_number - 1] if rack_number else 0
        names = combination_at(self._names, self._spec.racks, rack_number)
        in_racks = [broker for name in names for broker in self._racks[name]]
        chosen: Sequence[int] = ()
        if self._spec.brokers:
            gone = set(in_racks)
            left = [broker for broker in self._live if broker not in gone] if gone else self._live
            chosen = combination_at(left, self._spec.brokers, number)
        failed = tuple(sorted({*in_racks, *chosen}))
        assert len(failed) == len(in_racks) + self._spec.brokers, "a broker fails with its rack or beside it, not both"
        return FailureSet(failed, tuple(names))


_FEISTEL_ROUNDS = 6


def shuffled_at(place: int, length: int, seed: int) -> int:
    """Return the number at a position of the shuffled `range(length)`, without a list of all.

    A Feistel network over the bits of the position, walked until the result is below the length. Not for secrets.

    Args:
        place: 0 to `length` - 1.
        length: number of elements; any size.
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
    assert 0 <= number < 1 << 2 * half
    mask = (1 << half) - 1
    left, right = number >> half, number & mask
    width = (half + 7) // 8
    for turn in range(_FEISTEL_ROUNDS):
        message = b"%d %d %d" % (seed, turn, right)
        left, right = right, left ^ (int.from_bytes(blake2b(message, digest_size=max(width, 8)).digest(), "big") & mask)
    return left << half | right


Item = TypeVar("Item")


def combination_at(items: Sequence[Item], count: int, number: int) -> list[Item]:
    """Return the combination at a position of `itertools.combinations`.

    >>> combination_at("abcd", 2, 4)
    ['b', 'd']
    """
    assert 0 <= number < comb(len(items), count)
    chosen: list[Item] = []
    place, left = 0, len(items)
    while count:
        with_it = comb(left - 1, count - 1)
        if number < with_it:
            chosen.append(items[place])
            count -= 1
        else:
            number -= with_it
        place, left = place + 1, left - 1
    assert number == 0
    return chosen


def _count(text: str) -> int | None:
    return int(text) if is_number(text) and int(text) > 0 else None


FILE = ".json"
"""File name ending of a file of failure sets."""

_FORM = '{"NAME": {"brokers": [ID, ...], "racks": ["RACK", ...]}, ...}, at least one of the two lists'


@dataclass(frozen=True)
class NamedFailure:
    """One failure set, by its members.

    Args:
        name: shown in tables.
        brokers: ids, ascending.
        racks: names, sorted.
    """

    name: str
    brokers: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> NamedFailure:
        """Parse `brokers=ID+ID`, `racks=NAME+NAME`, or both joined by a plus.

        Raises:
            ConfigError: the text is not a failure set.

        >>> NamedFailure.parse("racks=b+a+brokers=7")
        NamedFailure(name='racks=a+b+brokers=7', brokers=(7,), racks=('a', 'b'))
        """
        members: dict[str, list[str]] = {}
        of_kind: list[str] | None = None
        for term in text.strip().split("+"):
            kind, equals, member = term.partition("=")
            if equals:
                of_kind = None if kind in members or kind not in KINDS else members.setdefault(kind, [])
            if of_kind is None:
                raise ConfigError(f"{text!r} is not a failure specification", right=RIGHT)
            of_kind.append(member if equals else term)
        ids, racks = members.get(BROKERS, []), sorted(set(members.get(RACKS, [])))
        if not all(map(is_number, ids)) or not all(racks):
            raise ConfigError(f"{text!r} is not a failure specification", right=RIGHT)
        brokers = sorted({int(one) for one in ids})
        terms = [f"{kind}={'+'.join(map(str, some))}" for kind, some in ((RACKS, racks), (BROKERS, brokers)) if some]
        return cls("+".join(terms), tuple(brokers), tuple(racks))

    def __str__(self) -> str:
        return self.name

    def population(self, brokers: Brokers) -> int:
        """Return 1.

        Raises:
            FailureSetError: the cluster lacks a broker or rack of the set, or none of its brokers is live.
        """
        self._at(brokers)
        return 1

    def size(self, brokers: Brokers) -> int:
        """Return 1, as `population`."""
        return self.population(brokers)

    def sets(self, brokers: Brokers, start: int, stop: int) -> Iterator[FailureSet]:
        """Yield the set if `start` to `stop` - 1 contains 0.

        >>> from simzk.partitions.layouts import Brokers
        >>> brokers = Brokers.from_racks({1: "a", 2: "a", 3: "b"})
        >>> list(NamedFailure.parse("racks=a+brokers=3").sets(brokers, 0, 1))
        [FailureSet(brokers=(1, 2, 3), racks=('a',))]
        """
        for _ in range(start, min(stop, 1)):
            yield self._at(brokers)

    def _at(self, brokers: Brokers) -> FailureSet:
        ids = brokers.ids.tolist()
        missing = [f"broker {one}" for one in self.brokers if one not in ids]
        missing += [f"rack {one!r}" for one in self.racks if one not in brokers.racks]
        if missing:
            raise FailureSetError(f"{self} cannot fail: there is no {', no '.join(missing)}")
        found = tuple(
            broker
            for broker, rack, up in zip(ids, brokers.racks, brokers.live.tolist(), strict=True)
            if up and (broker in self.brokers or rack in self.racks)
        )
        if not found:
            raise FailureSetError(f"{self} cannot fail: all its brokers are down already")
        return FailureSet(found, self.racks)


AnyFailure = FailureSpec | NamedFailure
"""Argument of `--fail`."""


def parse_failures(text: str, seed: int = 0) -> tuple[AnyFailure, ...]:
    """Parse one `--fail`: all sets of a kind, one set, or the sets of a file.

    Args:
        text: as in `FailureSpec.parse` or `NamedFailure.parse`, or the path of a file that ends in `.json`.
        seed: decides which sets are drawn.

    Raises:
        ConfigError: the text is not a failure specification; for a file, the error names the place.

    >>> [str(spec) for text in ("brokers:2", "brokers=7+3") for spec in parse_failures(text)]
    ['brokers:2', 'brokers=3+7']
    """
    if text.strip().endswith(FILE):
        return read_failures(Path(text.strip()))
    return (NamedFailure.parse(text),) if "=" in text else (FailureSpec.parse(text, seed),)


def read_failures(path: Path) -> tuple[NamedFailure, ...]:
    """Read the sets of a file, in its order.

    Raises:
        ConfigError: the file is unreadable or invalid.
    """
    try:
        read = read_json(path.read_bytes(), pairs_as_list=True)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}", where=str(path), right=_FORM) from None
    if not _is_object(read) or not read:
        raise ConfigError("contains no failure sets", where=str(path), right=_FORM)
    found: dict[str, NamedFailure] = {}
    for name, members in read:
        where = f"{path}: {name!r}"
        if name in found:
            raise ConfigError("repeated name", where=where, right="each name once")
        lists = dict(members) if _is_object(members) else {}
        brokers, racks = lists.get(BROKERS, []), lists.get(RACKS, [])
        is_whole = _is_object(members) and len(lists) == len(members) and not set(lists) - set(KINDS)
        if not name or not is_whole or not _is_list(brokers, int) or not _is_list(racks, str):
            raise ConfigError("not a failure set", where=where, right=_FORM)
        if not brokers and not racks:
            raise ConfigError("names no broker and no rack", where=where, right=_FORM)
        found[name] = NamedFailure(name, tuple(sorted(set(brokers))), tuple(sorted(set(racks))))
    return tuple(found.values())


def _is_object(read: object) -> bool:
    """Return whether the value was a JSON object; objects are read as lists of pairs to detect repeated names."""
    return isinstance(read, list) and all(isinstance(pair, tuple) for pair in read)


def _is_list(read: object, kind: type) -> bool:
    # In Python, True is an int.
    return isinstance(read, list) and all(isinstance(one, kind) and not isinstance(one, bool) for one in read)
