"""Failure sets that somebody names: these brokers and these racks, together, as one.

`brokers=3+7` are those two brokers, `racks=a+b` all brokers of those racks, `racks=a+brokers=7` both. A file of sets
holds what fails together for reasons that a layout does not know, such as a power feed, each under its own name::

    {"feed 1": {"racks": ["a", "b"]}, "old machines": {"brokers": [3, 7, 11]}}

Brokers that are down already do not fail again; a set that names what the layout does not have does not fit it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, FailureSetError
from simzk.partitions.failures.sets import BROKERS, KINDS, RACKS, RIGHT, FailureSet, FailureSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.partitions.layouts import Brokers

FILE = ".json"
"""How the name of a file of sets ends."""

_FORM = '{"NAME": {"brokers": [ID, ...], "racks": ["RACK", ...]}, ...}, one of the two lists at least'


@dataclass(frozen=True)
class NamedFailure:
    """One failure set, by its members.

    Args:
        name: how it is told.
        brokers: ids, ascending.
        racks: names, sorted.
    """

    name: str
    brokers: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> NamedFailure:
        """Read `brokers=ID+ID`, `racks=NAME+NAME`, or both with a plus between them.

        Raises:
            ConfigError: the text is no such thing.

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
                raise ConfigError(f"{text!r} is no failure", right=RIGHT)
            of_kind.append(member if equals else term)
        ids, racks = members.get(BROKERS, []), sorted(set(members.get(RACKS, [])))
        if not all(one.isdecimal() and one.isascii() for one in ids) or not all(racks):
            raise ConfigError(f"{text!r} is no failure", right=RIGHT)
        brokers = sorted({int(one) for one in ids})
        terms = [f"{kind}={'+'.join(map(str, some))}" for kind, some in ((RACKS, racks), (BROKERS, brokers)) if some]
        return cls("+".join(terms), tuple(brokers), tuple(racks))

    def __str__(self) -> str:
        return self.name

    def population(self, brokers: Brokers) -> int:
        """One.

        Raises:
            FailureSetError: the cluster lacks a broker or a rack of it, or has none of its brokers up.
        """
        self._at(brokers)
        return 1

    def size(self, brokers: Brokers) -> int:
        """One, as `population`."""
        return self.population(brokers)

    def sets(self, brokers: Brokers, start: int, stop: int) -> Iterator[FailureSet]:
        """The set, if it is among `start` to `stop`.

        >>> from simzk.partitions.layouts import Brokers
        >>> brokers = Brokers.from_racks({1: "a", 2: "a", 3: "b"})
        >>> list(NamedFailure.parse("racks=a+brokers=3").sets(brokers, 0, 1))
        [FailureSet(brokers=(1, 2, 3), racks=('a',))]
        """
        for _ in range(start, min(stop, 1)):
            yield self._at(brokers)

    def _at(self, brokers: Brokers) -> FailureSet:
        ids = brokers.ids.tolist()
        lacks = [f"broker {one}" for one in self.brokers if one not in ids]
        lacks += [f"rack {one!r}" for one in self.racks if one not in brokers.racks]
        if lacks:
            raise FailureSetError(f"{self} cannot fail: there is no {', no '.join(lacks)}")
        found = tuple(
            broker
            for broker, rack, up in zip(ids, brokers.racks, brokers.live.tolist(), strict=True)
            if up and (broker in self.brokers or rack in self.racks)
        )
        if not found:
            raise FailureSetError(f"{self} cannot fail: all of it is down already")
        return FailureSet(found, self.racks)


AnyFailure = FailureSpec | NamedFailure
"""What `--fail` can name."""


def parse_failures(text: str, seed: int = 0) -> tuple[AnyFailure, ...]:
    """What one `--fail` names: all sets of a kind, one set, or those of a file.

    Args:
        text: as of `FailureSpec.parse` or `NamedFailure.parse`, or the path of a file that ends in `.json`.
        seed: decides which sets are drawn where not all are looked at.

    Raises:
        ConfigError: the text is no such thing; the error names the place in a file.

    >>> [str(spec) for text in ("brokers:2", "brokers=7+3") for spec in parse_failures(text)]
    ['brokers:2', 'brokers=3+7']
    """
    if text.strip().endswith(FILE):
        return read_failures(Path(text.strip()))
    return (NamedFailure.parse(text),) if "=" in text else (FailureSpec.parse(text, seed),)


def read_failures(path: Path) -> tuple[NamedFailure, ...]:
    """The sets of a file, in its order.

    Raises:
        ConfigError: it cannot be read, or is no such file; nothing of it is taken then.
    """
    try:
        read = json.loads(path.read_bytes(), object_pairs_hook=list)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError as error:
        raise ConfigError(f"is no JSON: {error}", where=str(path), right=_FORM) from None
    if not _is_object(read) or not read:
        raise ConfigError("holds no failure sets", where=str(path), right=_FORM)
    found: dict[str, NamedFailure] = {}
    for name, members in read:
        where = f"{path}: {name!r}"
        if name in found:
            raise ConfigError("stands twice", where=where, right="each name once")
        lists = dict(members) if _is_object(members) else {}
        brokers, racks = lists.get(BROKERS, []), lists.get(RACKS, [])
        is_whole = _is_object(members) and len(lists) == len(members) and not set(lists) - set(KINDS)
        if not name or not is_whole or not _is_list(brokers, int) or not _is_list(racks, str):
            raise ConfigError("is no failure set", where=where, right=_FORM)
        if not brokers and not racks:
            raise ConfigError("names nothing that fails", where=where, right=_FORM)
        found[name] = NamedFailure(name, tuple(sorted(set(brokers))), tuple(sorted(set(racks))))
    return tuple(found.values())


def _is_object(read: object) -> bool:
    """Whether it was an object: those are read as lists of pairs, so that a name that stands twice is seen."""
    return isinstance(read, list) and all(isinstance(pair, tuple) for pair in read)


def _is_list(read: object, kind: type) -> bool:
    # To Python true is a number.
    return isinstance(read, list) and all(isinstance(one, kind) and not isinstance(one, bool) for one in read)
