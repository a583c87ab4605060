"""Znodes of a run over time, as differences: a tree at the start, and what each change replaces.

Rules of this module:
  - a change stores the part of the data that differs from the znode's data before: the lengths of the equal beginning
    and end, in characters, and the text between;
  - times are milliseconds of virtual time, as the page shows them; changes of one millisecond are one moment.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.report.packed import differences_of
from simzk.report.table import length

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from simzk.report.table import Columns


Replacement: TypeAlias = tuple[int, int, int, int, str]
"""Moment, path, equal beginning, equal end, text between."""
Change: TypeAlias = Replacement | tuple[int, int]
"""A replacement, or the moment and the path of a deleted znode."""


class ZnodeDifferences(NamedTuple):
    """Differences of a tree over time.

    Args:
        moments_ms: times of the moments, in order.
        paths: all paths.
        start: (path, data) at the start; a path is its place in `paths`.
        changes: the changes in order.
        left: number of changes that are left out, all after the others.
        until_ms: the time of the first change that is left out; None if all are there.
    """

    moments_ms: list[int]
    paths: list[str]
    start: list[tuple[int, str]]
    changes: list[Change]
    left: int
    until_ms: int | None

    def to_json(self) -> dict[str, object]:
        """Return the differences as values of JSON, which compress well.

        Times of moments and moments of changes are stored as differences, and the changes as columns: moment, path,
        equal beginning (-1 for a deleted znode), equal end, text between.
        """
        replaced = [change if len(change) == 5 else (*change, -1, 0, "") for change in self.changes]
        moments = [change[0] for change in replaced]
        columns = [[change[field] for change in replaced] for field in range(1, 5)]
        return {
            "moments": differences_of(self.moments_ms),
            "paths": self.paths,
            "start": self.start,
            "changes": [differences_of(moments), *columns],
            "until": self.until_ms,
        }


def differences(
    at_start: Mapping[str, str], changes: Columns, other_times_ms: AbstractSet[int], bytes_max: int
) -> ZnodeDifferences:
    """Return the differences of a tree over time.

    Args:
        at_start: the data at the start, by path.
        changes: `at, s`, `path`, `data` (None for a deleted znode), in order.
        other_times_ms: times that are moments too, in milliseconds.
        bytes_max: maximum size of the changes as JSON; later ones are left out.
    """
    count = length(changes)
    rows = list(zip(*(changes[name] for name in ("at, s", "path", "data")), strict=True)) if count else []
    places: dict[str, int] = {path: place for place, path in enumerate(at_start)}
    start = [(places[path], data) for path, data in at_start.items()]
    present, size = dict(at_start), sum(len(path) + len(data) for path, data in at_start.items())
    found: list[Change] = []
    for at_s, path, data in rows:
        change = _change(present, places, milliseconds(at_s), str(path), None if data is None else str(data))
        size += len(json.dumps(change, separators=(",", ":"), ensure_ascii=False).encode()) + 1
        size += len(str(path)) + 3 if change[1] == len(places) - 1 else 0
        if size > bytes_max:
            break
        found.append(change)
    left = count - len(found)
    times_ms = sorted({change[0] for change in found} | other_times_ms)
    moments = {at_ms: moment for moment, at_ms in enumerate(times_ms)}
    numbered: list[Change] = [(moments[change[0]], *change[1:]) for change in found]
    until_ms = milliseconds(rows[len(found)][0]) if left else None
    assert all(change[1] < len(places) for change in found), "a change is of a known path"
    return ZnodeDifferences(times_ms, list(places), start, numbered, left, until_ms)


def _change(present: dict[str, str], places: dict[str, int], at_ms: int, path: str, data: str | None) -> Change:
    """Return a change, with its time instead of its moment; adds its path to `places`, and applies it to `present`."""
    place = places.setdefault(path, len(places))
    if data is None:
        present.pop(path, None)
        return (at_ms, place)
    before = present.get(path, "")
    begin = _equal_beginning(before, data)
    end = _equal_beginning(before[begin:][::-1], data[begin:][::-1])
    present[path] = data
    return (at_ms, place, begin, end, data[begin : len(data) - end])


def _equal_beginning(one: str, other: str) -> int:
    """Return the number of characters at the beginning of two texts that are equal."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def milliseconds(at_s: object) -> int:
    """Return a time in seconds in whole milliseconds."""
    return round(float(str(at_s)) * 1000)
