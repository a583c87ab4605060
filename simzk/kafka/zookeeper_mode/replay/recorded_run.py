"""A recorded run of a real cluster: settings, and for each step its actions, transactions and tree.

A recording is a folder with three JSON files, each of which may be compressed (`.json.gz`); docs/replay.md describes
them:
  - `meta.json`: Kafka version, settings of the cluster, and the steps with their actions;
  - `dumps.json`: the tree after each step (`simzk/kafka/observation/recording.py`);
  - `txns.json`: all transactions of ZooKeeper's log, in order.

A recording without actions is understood where the names of its steps and the commands of Kafka's tools say what was
done.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from simzk.documents import gunzip
from simzk.errors import RecordingError, SimzkError
from simzk.kafka.observation import recording
from simzk.kafka.observation.recording import json_fields
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.replay import inputs
from simzk.kafka.zookeeper_mode.replay import transactions as recorded_transactions
from simzk.kafka.zookeeper_mode.replay.actions import ActionRecord, ReplayAction, ToolCommand, actions_of_step
from simzk.kafka.zookeeper_mode.replay.allowed_differences import StepContext
from simzk.kafka.zookeeper_mode.replay.commands import Evidence, actions_of_commands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simzk.kafka.observation.recording import RecordedTree, RecordedZnode
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction

T = TypeVar("T")

SETTINGS: Mapping[str, str | int | bool] = {
    "zookeeper.session.timeout.ms": 6000,
    "auto.leader.rebalance.enable": False,
    "delete.topic.enable": True,
    "controlled.shutdown.enable": True,
}
"""Broker settings of a recording that names none."""
_TIMESTAMP = re.compile(r'"timestamp" ?: ?"(\d+)"')
_LAST_STEP_MS = 10_000
_TOO_LATE_MS = 3_600_000
"""An action this long before or after all transactions is by another clock."""
_FIRST_TRANSACTION_MS = 200
"""Time from the beginning of a step to its first transaction, where the recording does not say when it began."""


class _Step(Struct):
    step: str
    acts: list[ActionRecord] | None = None
    tools: list[ToolCommand] = []
    t0: float | None = None


class _Meta(Struct):
    version: str
    config: dict[str, str | int | bool] | None = None
    tick_time_ms: int = 500
    max_session_timeout_ms: int | None = 60_000
    clock_ms: float | None = None
    steps: list[_Step] = []


class _Times(Struct):
    step: str
    begins: int | None = None


@dataclass(frozen=True)
class RecordedStep:
    """One step of a recording.

    Attributes:
        name: name of the step.
        begins_ms, ends_ms: its time, in ms since the first transaction of the log.
        actions: what was done, in order.
        transactions: the transactions of the step.
        before, tree: the znodes before and after the step.
    """

    name: str
    begins_ms: int
    ends_ms: int
    actions: tuple[ReplayAction, ...]
    transactions: tuple[RecordedTransaction, ...]
    before: RecordedTree
    tree: RecordedTree

    @property
    def context(self) -> StepContext:
        """What selects the allowed differences."""
        kinds = frozenset(action.kind for action in self.actions)
        return StepContext(kinds, inputs.early_fetches(self.transactions, self.before))


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run.

    Attributes:
        version: the Kafka release.
        config: settings of the brokers.
        tick_time_ms, max_session_timeout_ms: settings of ZooKeeper.
        brokers: ids of all brokers.
        racks: racks by broker id.
        ports: port of each broker at its first registration.
        cluster_id: the cluster id; None if the release has none.
        steps: the steps, in order.
        transactions: all transactions, in order.
    """

    version: str
    config: Mapping[str, str | int | bool]
    tick_time_ms: int
    max_session_timeout_ms: int | None
    brokers: tuple[int, ...]
    racks: Mapping[int, str]
    ports: Mapping[int, int]
    cluster_id: str | None
    steps: tuple[RecordedStep, ...]
    transactions: Sequence[RecordedTransaction] = field(repr=False)


def load(folder: Path) -> RecordedRun:
    """Read a recording.

    Args:
        folder: the folder with `meta.json`, `dumps.json` and `txns.json`.

    Raises:
        RecordingError: a file is missing or invalid, or a step has an unknown action.
    """
    if not folder.is_dir():
        raise RecordingError("there is no such folder", where=str(folder), right="the folder of a recording")
    files = {name: _file(folder, name) for name in ("meta", "dumps", "txns")}
    meta = _decode(files["meta"], _Meta)
    for name, ms in (("tick_time_ms", meta.tick_time_ms), ("max_session_timeout_ms", meta.max_session_timeout_ms)):
        if ms is not None and ms < 1:
            raise RecordingError(f"it is {ms}", where=f"{files['meta']}: {name}", right="1 or more")
    times = {entry.step: entry for entry in _decode(files["dumps"], list[_Times])}
    try:
        trees = recording.load(files["dumps"])
        entries = recorded_transactions.load(files["txns"])
    except SimzkError as error:
        raise RecordingError(error.what, where=error.where, right=error.right) from None
    if unknown := [entry.step for entry in entries if entry.step is not None and entry.step not in trees.steps]:
        what = f"a transaction belongs to the step {unknown[0]}"
        raise RecordingError(what, where=str(files["txns"]), right="the steps of dumps.json")
    _assign_steps(entries, trees)
    steps = _steps(files["meta"], meta, trees)
    clock_ms = meta.clock_ms if meta.clock_ms is not None else _clock_ms(entries)
    by_step = recorded_transactions.by_step(entries)
    begins = _begins(steps, times, by_step, clock_ms)
    ends = [*begins[1:], max([begins[-1], *(entry.t for entry in entries)]) + _LAST_STEP_MS]
    has_acts = any(step.acts for step in steps)
    latest_ms = ends[-1] + _TOO_LATE_MS
    before: dict[str, RecordedZnode] = {}
    last = trees.tree(steps[-1].step)
    found = []
    for step, begins_ms, ends_ms in zip(steps, begins, ends, strict=True):
        tree, own = trees.tree(step.step), by_step.get(step.step, [])
        where = f"{files['meta']}: step {step.step}"
        acts = step.acts if step.acts is not None or not has_acts else []
        if acts is None:
            actions = actions_of_commands(where, step.step, step.tools, begins_ms, Evidence(before, tree, last, own))
        else:
            actions = actions_of_step(where, acts, step.tools, begins_ms, clock_ms)
            if wrong := [action for action in actions if not -_TOO_LATE_MS <= action.at_ms <= latest_ms]:
                what = f"the action {wrong[0].kind} is {wrong[0].at_ms / 1000:g} s after the first transaction"
                right = "wall time in s, by the clock of the first transaction (clock_ms)"
                raise RecordingError(what, where=where, right=right)
        found.append(RecordedStep(step.step, begins_ms, ends_ms, actions, tuple(own), before, tree))
        before = tree
    registrations = _registrations(entries)
    brokers = {action.broker for step in found for action in step.actions if action.broker is not None}
    if not brokers | registrations.keys():
        raise RecordingError("no broker starts or registers", where=str(folder), right="the recording of a cluster")
    return RecordedRun(
        meta.version,
        SETTINGS if meta.config is None else meta.config,
        meta.tick_time_ms,
        meta.max_session_timeout_ms,
        tuple(sorted(brokers | registrations.keys())),
        {broker: str(fields["rack"]) for broker, fields in registrations.items() if fields.get("rack")},
        {broker: int(str(fields["port"])) for broker, fields in registrations.items()},
        _cluster_id(entries),
        tuple(found),
        entries,
    )


def _file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.json", folder / f"{name}.json.gz"):
        if path.is_file():
            return path
    raise RecordingError(f"the recording has no {name}.json", where=str(folder), right=f"{name}.json or {name}.json.gz")


def _decode(path: Path, to: type[T]) -> T:
    packed = path.read_bytes()
    try:
        return msgspec.json.decode(gunzip(packed) if path.suffix == ".gz" else packed, type=to)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RecordingError(f"the file is not valid ({error})", where=str(path), right="see docs/replay.md") from None


def _steps(path: Path, meta: _Meta, trees: recording.Recording) -> list[_Step]:
    """Return the steps of the recording, in the order of the trees."""
    known = {step.step: step for step in meta.steps}
    if meta.steps and (missing := [name for name in trees.steps if name not in known]):
        raise RecordingError(f"step {missing[0]} is missing", where=str(path), right="the steps of dumps.json")
    if surplus := [name for name in known if name not in trees.steps]:
        raise RecordingError(f"step {surplus[0]} has no tree", where=str(path), right="the steps of dumps.json")
    return [known.get(name, _Step(name)) for name in trees.steps]


def _assign_steps(entries: Sequence[RecordedTransaction], trees: recording.Recording) -> None:
    """Assign transactions between two steps: to the earlier one if its tree shows them, else to the later one."""
    first = next((place for place, entry in enumerate(entries) if entry.step is not None), len(entries))
    earlier = None if first == len(entries) else entries[first].step
    between: list[RecordedTransaction] = []
    for entry in entries[first:]:
        if entry.step is None:
            between.append(entry)
            continue
        if between and earlier is not None:
            tree = trees.tree(earlier)
            shown = max((place for place, one in enumerate(between) if _shows(tree, one)), default=-1)
            for place, one in enumerate(between):
                one.step = earlier if place <= shown else entry.step
            between.clear()
        earlier = entry.step
    for one in between:
        one.step = earlier


def _shows(tree: RecordedTree, entry: RecordedTransaction) -> bool:
    """Return whether a tree has the effect of a transaction; False if it has none that the tree can show."""
    for part in entry.parts():
        znode = tree.get(part.path)
        if part.op == "create" and znode is not None:
            return True
        if part.op == "setData" and znode is not None and znode.version >= (part.new_version or 0):
            return True
        if part.op == "delete" and znode is None:
            return True
    return False


def _clock_ms(entries: Sequence[RecordedTransaction]) -> float:
    """Return the wall time of the first transaction in ms, from the latest timestamp relative to its transaction."""
    starts = [
        int(found[1]) - entry.t
        for entry in entries
        for part in entry.parts()
        if part.op in ("create", "setData")
        and isinstance(part.data, str)
        and (found := _TIMESTAMP.search(part.data)) is not None
    ]
    return max(starts, default=0)


def _begins(
    steps: Sequence[_Step],
    times: Mapping[str, _Times],
    by_step: Mapping[str, Sequence[RecordedTransaction]],
    clock_ms: float,
) -> list[int]:
    """Return when the steps began, in ms since the first transaction."""
    found: list[int | None] = []
    for step in steps:
        begins = times[step.step].begins
        if begins is None and step.t0 is not None:
            begins = round(step.t0 * 1000 - clock_ms)
        if by_step.get(step.step):
            first_ms = by_step[step.step][0].t
            begins = first_ms - _FIRST_TRANSACTION_MS if begins is None else min(begins, first_ms)
        found.append(begins)
    known = [begins for begins in found if begins is not None]
    last = known[-1] if known else 0
    filled = []
    for begins in reversed(found):
        last = last if begins is None else min(begins, last)
        filled.append(last)
    result = filled[::-1]
    assert all(earlier <= later for earlier, later in pairwise(result))
    return result


def _cluster_id(entries: Sequence[RecordedTransaction]) -> str | None:
    """Return the id that the first broker wrote; None if the release has none."""
    for entry in entries:
        if entry.broker is not None and entry.op == "create" and entry.path == paths.CLUSTER_ID:
            fields = json_fields(entry.data) if isinstance(entry.data, str) else None
            return None if fields is None else str(fields.get("id"))
    return None


def _registrations(entries: Sequence[RecordedTransaction]) -> dict[int, dict[str, object]]:
    """Return the fields of the first registration of each broker that it wrote itself."""
    found: dict[int, dict[str, object]] = {}
    for entry in entries:
        for part in entry.parts():
            fields = inputs.registration(part, entry.broker)
            if entry.broker is not None and fields is not None:
                found.setdefault(entry.broker, fields)
    return found
