"""A step of a simulated story beside the recorded one: every part of every transaction, and every field of the tree.

Rules of the module:
  - what may differ stands in `races.TABLE`, and only there;
  - what does not float is in one order; each lane is in order, with what has its place and concerns it;
  - in all, nothing is more and nothing is missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from simzk.kafka import paths
from tests.kafka.races import TABLE, Change, Floating, Hidden, Left

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from simzk.kafka.observation import recording
    from simzk.kafka.observation.recording import RecordedZnode
    from tests.kafka.races import Number, Row
    from tests.kafka.recorded_transactions import Told

_STATE = re.compile(r"(?:setData|create) (/brokers/topics/[^/ ]+/partitions/\d+/state) (\{.*?\}) (?:version|\[)")


def differences(
    ours: Sequence[Told],
    theirs: Sequence[Told],
    before: Mapping[str, RecordedZnode],
    number: Number,
    step: str,
    table: Sequence[Row] = TABLE,
) -> list[str]:
    """In what the transactions of a step differ, beyond the table.

    Args:
        ours, theirs: the simulated and the recorded transactions.
        before: the tree before the step.
        number: the release.
        step: its name.
        table: what may differ.
    """
    rows = [row for row in table if row.holds(number, step)]
    left, right = (_Split(_changes(_kept(of, rows), before), rows) for of in (ours, theirs))
    found = _first_difference("transactions", left.rest, right.rest)
    for lane in left.lanes.keys() | right.lanes.keys():
        found += _first_difference(str(lane), left.lanes.get(lane, []), right.lanes.get(lane, []))
    return sorted(found) or _more_or_less(left.everything, right.everything)


class _Split:
    """A step's transactions: what has its place, and the lanes of what floats."""

    def __init__(self, changes: list[Change], rows: Sequence[Row]) -> None:
        floating = [row for row in rows if isinstance(row, Floating)]
        hidden = [row for row in rows if isinstance(row, Hidden)]
        self.rest: list[str] = []
        self.lanes: dict[Hashable, list[str]] = {}
        self.everything: Counter[str] = Counter()
        lanes_of = [[lane for row in floating for lane in row.lanes(change)] for change in changes]
        wanted = {lane for lanes in lanes_of for lane in lanes}
        for change, lanes in zip(changes, lanes_of, strict=True):
            text = str(change.told)
            for row in hidden:
                if any(re.fullmatch(row.path, path) for path in change.told.paths):
                    text = re.sub(row.text, row.instead, text)
            self.everything[text] += 1
            if not lanes:
                self.rest.append(text)
                lanes = [lane for lane in _lanes_of_placed(change) if lane in wanted]
            for lane in lanes:
                self.lanes.setdefault(lane, []).append(text)


def _lanes_of_placed(change: Change) -> Iterable[Hashable]:
    """In which lanes of others a transaction stands that has its place: those of its paths and of its session."""
    yield from (path for path in change.told.paths if path != "/controller_epoch")
    yield "session", change.told.session


def _kept(told: Sequence[Told], rows: Sequence[Row]) -> list[Told]:
    leaving = [row for row in rows if isinstance(row, Left)]
    return [one for one in told if not any(row.leaves(one) for row in leaving)]


def _changes(told: Sequence[Told], before: Mapping[str, RecordedZnode]) -> list[Change]:
    states = {
        path: json.loads(znode.data)
        for path, znode in before.items()
        if znode.data and paths.state_partition(path) is not None
    }
    changes = []
    for one in told:
        found = _STATE.search(one.text)
        if found is None or "error" in one.text:
            changes.append(Change(one))
            continue
        fields = json.loads(found[2])
        known = states.get(found[1], {"leader_epoch": None, "isr": []})
        states[found[1]] = fields
        concerned = tuple(sorted(set(known["isr"]) ^ set(fields["isr"])))
        changes.append(Change(one, found[1], fields, known["leader_epoch"] == fields["leader_epoch"], concerned))
    return changes


def _first_difference(what: str, ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    if list(ours) == list(theirs):
        return []
    at = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(ours), len(theirs)) if at is None else at
    mine, recorded = (of[at] if at < len(of) else "nothing more" for of in (ours, theirs))
    return [f"{what} [{at}]: {mine}, recorded was {recorded}"]


def _more_or_less(ours: Counter[str], theirs: Counter[str]) -> list[str]:
    more, less = ours - theirs, theirs - ours
    return [*(f"too many: {text}" for text in more), *(f"missing: {text}" for text in less)]


def tree_differences(
    found: Iterable[recording.Difference], number: Number, step: str, table: Sequence[Row] = TABLE
) -> list[recording.Difference]:
    """The differences of a tree, beyond the table."""
    hidden = [row for row in table if isinstance(row, Hidden) and row.holds(number, step)]
    return [
        one
        for one in found
        if not any(re.fullmatch(row.path, one.path) and f'"{one.field}"' in row.text for row in hidden)
    ]
