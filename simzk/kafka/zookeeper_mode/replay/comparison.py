"""Comparison of a simulated step with the recorded one: every part of every transaction.

The trees are compared field by field (`recording.differences`), and nothing may differ.

Rules of this module:
  - what may differ is in `allowed_differences.TABLE`, and only there;
  - transactions without an `Unordered` row are compared in one order; each lane is compared in order, together with
    the ordered transactions that concern it;
  - in all, no transaction is missing or surplus.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.replay.allowed_differences import TABLE, Ignored, LaneChange, Masked, Unordered, held
from simzk.kafka.zookeeper_mode.replay.inputs import state_of, states

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from simzk.kafka.observation import recording
    from simzk.kafka.observation.recording import RecordedTree
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.kafka.zookeeper_mode.replay.allowed_differences import AllowedDifference, Number, StepContext
    from simzk.kafka.zookeeper_mode.replay.transactions import ComparableTransaction

_STATE = re.compile(r"(?:setData|create) (/brokers/topics/[^/ ]+/partitions/\d+/state) (\{.*?\}) (?:version|\[)")
_NOTHING = "nothing"


class TransactionDifference(NamedTuple):
    """Difference between the transactions of a simulated and a recorded step.

    Args:
        where: what is compared: `transactions`, or the lane of transactions without an order, with the position.
        recorded: the transaction of the real cluster.
        simulated: the transaction of the simulation.
    """

    where: str
    recorded: str
    simulated: str

    def __str__(self) -> str:
        return f"{self.where}: {self.simulated}, recorded was {self.recorded}"


def transaction_differences(
    simulated: Sequence[ComparableTransaction],
    recorded: Sequence[ComparableTransaction],
    before: RecordedTree,
    number: Number,
    step: StepContext,
    table: Sequence[AllowedDifference] = TABLE,
) -> list[TransactionDifference]:
    """Return the differences between the transactions of a step, without those that the table allows.

    Args:
        simulated, recorded: the transactions.
        before: the recorded tree before the step.
        number: the release.
        step: the step.
        table: what may differ.
    """
    rows = held(table, number, step)
    brokers = _brokers(before, (*simulated, *recorded))
    ignoring = [row for row in rows if isinstance(row, Ignored)]
    kept = ([one for one in of if not any(row.ignores(one) for row in ignoring)] for of in (simulated, recorded))
    left, right = (_Split(_changes(of, before, brokers, step.early_fetches), rows) for of in kept)
    found = _first_difference("transactions", left.ordered, right.ordered)
    for lane in left.lanes.keys() | right.lanes.keys():
        name = " ".join(map(str, lane)) if isinstance(lane, tuple) else str(lane)
        found += _first_difference(name, left.lanes.get(lane, []), right.lanes.get(lane, []))
    # One transaction can stand in several lanes: its difference is reported once.
    once = {(one.recorded, one.simulated): one for one in sorted(found, reverse=True)}
    surplus, missing = left.everything - right.everything, right.everything - left.everything
    return sorted(once.values()) or [
        *(TransactionDifference("surplus", _NOTHING, text) for text in surplus),
        *(TransactionDifference("missing", text, _NOTHING) for text in missing),
    ]


class CarriedOver:
    """Differences that remain from earlier steps, which are reported once.

    A later step compares how a number changes; versions in transactions are shifted by the difference of the znodes.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], recording.Difference] = {}

    def new_differences(self, found: Sequence[recording.Difference]) -> list[recording.Difference]:
        """Return the differences after a step that were not there before it."""
        result = [one for one in found if not _is_same(self._last.get((one.path, one.field)), one)]
        self._last = {(one.path, one.field): one for one in found}
        return result

    def shift(self, transactions: Iterable[ComparableTransaction]) -> list[ComparableTransaction]:
        """Return simulated transactions with the versions that the recorded znodes would have."""
        offsets = {
            key: int(one.simulated) - int(one.recorded)
            for key, one in self._last.items()
            if key[1] in ("version", "cversion")
        }
        return [one._replace(text=_shifted(one.text, offsets)) if offsets else one for one in transactions]


def _is_same(earlier: recording.Difference | None, now: recording.Difference) -> bool:
    """Return whether a difference is the same as before the step; of numbers, whether they changed alike."""
    if earlier is None:
        return False
    texts = (earlier.recorded, now.recorded, earlier.simulated, now.simulated)
    if not all(re.fullmatch(r"-?\d+", text) for text in texts):
        return earlier == now
    recorded_before, recorded, simulated_before, simulated = map(int, texts)
    return recorded - recorded_before == simulated - simulated_before


def _shifted(text: str, offsets: Mapping[tuple[str, str], int]) -> str:
    def of_set(found: re.Match[str]) -> str:
        offset = offsets.get((found[2], "version"), 0)
        expected = found[3] if found[3] in ("-1", "?") else str(int(found[3]) - offset)
        return f"{found[1]}{expected} -> {int(found[4]) - offset}"

    def of_create(found: re.Match[str]) -> str:
        parent = found[2].rpartition("/")[0] or "/"
        return f"{found[1]}{int(found[3]) - offsets.get((parent, 'cversion'), 0)}"

    text = re.sub(r"(setData (\S+) [^;]*? version )(-?\d+|\?) -> (\d+)", of_set, text)
    return re.sub(r"(create (\S+) [^;]*? parent's cversion )(\d+)", of_create, text)


class _Split:
    """Transactions of a step: those with an order, and the lanes of the others."""

    def __init__(self, changes: list[LaneChange], rows: Sequence[AllowedDifference]) -> None:
        unordered = [row for row in rows if isinstance(row, Unordered)]
        masked = [row for row in rows if isinstance(row, Masked)]
        self.ordered: list[str] = []
        self.lanes: dict[Hashable, list[str]] = {}
        self.everything: Counter[str] = Counter()
        lanes_of = [_lanes(change, unordered) for change in changes]
        wanted = {lane for lanes in lanes_of for lane in lanes}
        for change, lanes in zip(changes, lanes_of, strict=True):
            text = str(change.transaction)
            for pattern in (row.text for row in unordered if row.text and row.lanes(change)):
                text = re.sub(pattern, r"\1?", text)
            for row in masked:
                if any(re.fullmatch(row.path, path) for path in change.transaction.paths):
                    text = re.sub(row.text, row.instead, text)
            self.everything[text] += 1
            if not lanes:
                self.ordered.append(text)
                lanes = [lane for lane in _lanes_of_ordered(change) if lane in wanted]
            for lane in lanes:
                self.lanes.setdefault(lane, []).append(text)


def _lanes(change: LaneChange, rows: Sequence[Unordered]) -> list[Hashable]:
    """Return the lanes of a transaction; none if it has a place among the others."""
    found = {row.name: row.lanes(change) for row in rows}
    replaced = {row.instead_of for row in rows if found[row.name]}
    return [lane for name, lanes in found.items() if name not in replaced for lane in lanes]


def _lanes_of_ordered(change: LaneChange) -> Iterable[Hashable]:
    """Yield the lanes of others that an ordered transaction belongs to: those of its paths, session and writer."""
    yield from (path for path in change.transaction.paths if path != paths.CONTROLLER_EPOCH)
    yield "session", change.transaction.session
    yield "writer", change.transaction.who


def _brokers(before: RecordedTree, transactions: Iterable[ComparableTransaction]) -> tuple[int, ...]:
    """Return the brokers that write, or that an ISR names."""
    found = {one.broker for one in transactions if one.broker is not None}
    for state in (
        *states(before).values(),
        *(state for one in transactions if (state := _written(one)[1]) is not None),
    ):
        found.update(state.isr)
    return tuple(sorted(found))


def _written(transaction: ComparableTransaction) -> tuple[str, LeaderAndIsr | None]:
    """Return path and state of a partition that a transaction creates or sets; None if it sets none."""
    found = _STATE.search(transaction.text)
    return ("", None) if found is None or "error" in transaction.text else (found[1], state_of(found[1], found[2]))


def _changes(
    transactions: Sequence[ComparableTransaction],
    before: RecordedTree,
    brokers: tuple[int, ...],
    early_fetches: Collection[tuple[int, int]],
) -> list[LaneChange]:
    known = states(before)
    joined: Counter[tuple[str, int]] = Counter()
    changes = []
    for one in transactions:
        path, state = _written(one)
        if state is None:
            changes.append(LaneChange(one, brokers=brokers))
            continue
        earlier, in_epoch = known.get(path), (path, state.leader_epoch)
        known[path] = state
        isr = () if earlier is None else earlier.isr
        moved = tuple(sorted(set(isr) ^ set(state.isr)))
        by_leader = earlier is not None and earlier.leader_epoch == state.leader_epoch
        is_early = any((state.leader, follower) in early_fetches for follower in moved)
        changes.append(LaneChange(one, path, state.leader, by_leader, moved, is_early, joined[in_epoch], brokers))
        joined[in_epoch] += by_leader and len(state.isr) > len(isr)
    return changes


def _first_difference(where: str, simulated: Sequence[str], recorded: Sequence[str]) -> list[TransactionDifference]:
    pairs = enumerate(zip_longest(simulated, recorded, fillvalue=_NOTHING))
    found = (TransactionDifference(f"{where} [{at}]", theirs, ours) for at, (ours, theirs) in pairs if ours != theirs)
    return list(islice(found, 1))
