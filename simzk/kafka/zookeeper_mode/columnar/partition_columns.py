"""Znodes `/brokers/topics/T/partitions/P` and `/state` as columns, besides the states in the partition table.

Rules of this module:
  - a state is stored only if a codec encodes the table's columns to exactly its data; otherwise the znode stays an
    object;
  - the table contains a state only while it is stored here; otherwise the row looks like one without a state;
  - packed numbers of a row are the zxids and times of both znodes. Everything else (ACL, codec and so on) is its form,
    which many rows share;
  - the partition's pzxid is not stored: it equals its czxid or, if it has a state, the state's czxid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka.topic_partition import NO_LEADER, LeaderAndIsr
from simzk.kafka.zookeeper_mode.columnar.packed_records import PackedRecords
from simzk.kafka.zookeeper_mode.columnar.znode_form import (
    FEW,
    NO_DATA,
    characters,
    chunks,
    new_znode,
    only_child,
    state_bytes,
)
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.partitions.arrays import MAX_BROKER_ID
from simzk.partitions.table import FREE_TOPIC
from simzk.zookeeper.requests import OPEN_ACL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.table import PartitionTable
    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.znode import Znode

STATE = "state"
STATE_CODECS = (partition_state.encode, partition_state.encode_spaced)
"""Forms refer to codecs by index."""

NO_STATE = LeaderAndIsr(NO_LEADER, 0, (), 0, version=-1)

CZXID, CTIME, STATE_CZXID, STATE_MZXID, STATE_CTIME, STATE_MTIME = range(6)
"""Indices of the numbers of a row; times in ms."""


class StateForm(NamedTuple):
    """Attributes of a stored `state` besides its numbers."""

    acl: tuple[ACL, ...]
    aversion: int
    codec: int


class PartitionForm(NamedTuple):
    """Attributes of a stored partition znode besides its numbers."""

    acl: tuple[ACL, ...]
    aversion: int
    data: bytes | None
    cversion: int
    has_state: bool


class RowForm(NamedTuple):
    """Forms of a row's two znodes; None for a znode that is not stored."""

    partition: PartitionForm | None
    state: StateForm | None

    @property
    def nodes(self) -> int:
        """Number of stored znodes."""
        return (self.partition is not None) + (self.state is not None)


_NOTHING = RowForm(None, None)


class PartitionColumns:
    """Columns of the znodes of all partitions in a table.

    Args:
        table: the table; only this object writes the states of its rows.

    Attributes:
        held: number of stored znodes.
        records: packed numbers by row.
        before_change: called with a row before its state changes alone; not called for batches (`note_written`).
    """

    before_change: Callable[[int], None] | None = None

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        self.records: PackedRecords[RowForm] = PackedRecords(6)
        # The last znode that `look_state` returned, while it is valid: a write looks at a znode up to twice.
        self._seen: tuple[int, Znode] | None = None
        self.held = 0

    def _row(self, row: int) -> tuple[list[int], RowForm]:
        return self.records.get(row) or ([0] * 6, _NOTHING)

    def form(self, row: int) -> RowForm:
        """Return the form of a row."""
        return self.records.form(row) or _NOTHING

    def _write(self, row: int, numbers: Sequence[int], before: RowForm, after: RowForm) -> None:
        self._seen = None
        self.records.put(row, numbers, after)
        self.held += after.nodes - before.nodes
        assert self.held >= 0

    def fill(self, first: int, numbers: NDArray[np.int64], started: NDArray[np.bool_], form: RowForm) -> None:
        """Store both znodes of consecutive rows, whose states are in the table.

        Args:
            first: the first row.
            numbers: int64[k, 6], the numbers of each row.
            started: bool[k], rows that have znodes.
            form: form of these rows.
        """
        assert len(numbers) == len(started)
        self.records.fill(first, numbers, form)
        for row in (first + np.flatnonzero(~started)).tolist():
            self.records.clear(row)
        self.held += form.nodes * int(started.sum())

    # The partition's own node

    def look_partition(self, row: int) -> Znode | None:
        """Return a copy of the partition znode of a row; None if it is not stored."""
        numbers, form = self._row(row)
        held = form.partition
        if held is None:
            return None
        node = new_znode(held.data, held.acl, held.aversion, numbers[CZXID], numbers[CTIME])
        node.cversion = held.cversion
        if held.has_state:
            node.add_child(STATE)
            node.pzxid = numbers[STATE_CZXID]
        return node

    def take_partition(self, row: int) -> Znode | None:
        """Remove and return the partition znode of a row; None if it is not stored."""
        node = self.look_partition(row)
        if node is not None:
            numbers, form = self._row(row)
            self._write(row, numbers, form, form._replace(partition=None))
        return node

    def settle_partition(self, row: int, node: Znode) -> bool:
        """Store a partition znode if columns can represent it exactly; return whether it is stored."""
        numbers, form = self._row(row)
        assert form.partition is None
        has_state = only_child(node, STATE)
        if (
            has_state is None
            or (node.version, node.mzxid, node.mtime_ms) != (0, node.czxid, node.ctime_ms)
            or not 0 <= node.cversion <= FEW
            or node.data not in NO_DATA
        ):
            return False
        if has_state and form.state is None:
            # The state is stored later, or stays an object: the parent's pzxid is its czxid.
            numbers[STATE_CZXID] = node.pzxid
        if node.pzxid != (numbers[STATE_CZXID] if has_state else node.czxid):
            return False
        numbers = [node.czxid, node.ctime_ms, *numbers[STATE_CZXID:]]
        held = PartitionForm(node.acl, node.aversion, node.data, node.cversion, has_state)
        self._write(row, numbers, form, form._replace(partition=held))
        return True

    # Its state

    def look_state(self, row: int) -> Znode | None:
        """Return a copy of the state of a row; None if it is not stored. The caller must not change it."""
        if self._seen is not None and self._seen[0] == row:
            return self._seen[1]
        numbers, form = self._row(row)
        held = form.state
        if held is None:
            return None
        state = self._table.leader_and_isr(row)
        assert state is not None, "a state that is held is in the table"
        data = STATE_CODECS[held.codec](state)
        node = new_znode(data, held.acl, held.aversion, numbers[STATE_CZXID], numbers[STATE_CTIME])
        node.mzxid, node.mtime_ms, node.version = numbers[STATE_MZXID], numbers[STATE_MTIME], state.version
        self._seen = row, node
        return node

    def take_state(self, row: int) -> Znode | None:
        """Remove and return the state of a row; None if it is not stored."""
        node = self.look_state(row)
        if node is not None:
            if self.before_change is not None:
                self.before_change(row)
            numbers, form = self._row(row)
            self._write(row, numbers, form, form._replace(state=None))
        return node

    def settle_state(self, row: int, path: str, node: Znode) -> bool:
        """Store a state if columns can represent it exactly; return whether it is stored."""
        numbers, form = self._row(row)
        assert form.state is None
        found = self._find_codec(path, node)
        # A partition znode that is stored with the czxid of another state keeps it: its pzxid would change.
        others = form.partition is not None and form.partition.has_state and numbers[STATE_CZXID] != node.czxid
        if found is None or others:
            self.forget_state(row)
            return False
        if self.before_change is not None:
            self.before_change(row)
        state, codec = found
        numbers = [*numbers[:STATE_CZXID], node.czxid, node.mzxid, node.ctime_ms, node.mtime_ms]
        self._write(row, numbers, form, form._replace(state=StateForm(node.acl, node.aversion, codec)))
        self._table.put(row, state)
        return True

    def are_plain(self, rows: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which rows have a stored state with an open ACL and the codec of 0.8.1 and later: bool[k]."""
        return self.records.where(rows, _is_plain)

    def note_written(self, rows: NDArray[np.integer], zxids: NDArray[np.int64], now_ms: int) -> None:
        """Update zxids and times of rows after a batch wrote their states to the table.

        Args:
            rows: int32[k], all plain (`are_plain`).
            zxids: int64[k], the zxids of the writes.
            now_ms: time of the writes.
        """
        assert len(rows) == len(zxids)
        self._seen = None
        times = np.full(len(rows), now_ms, dtype=np.int64)
        self.records.update(rows, {STATE_MZXID: zxids, STATE_MTIME: times})

    def forget_state(self, row: int) -> None:
        """Remove the state of a row from the table, because it is deleted or stays an object."""
        assert self.form(row).state is None, "a stored state is taken first"
        if self._table.version.item(row) >= 0:
            self._table.put(row, NO_STATE)

    def _find_codec(self, path: str, node: Znode) -> tuple[LeaderAndIsr, int] | None:
        """Return the state of a znode and the index of its codec; None if the znode cannot be stored."""
        if (
            only_child(node, STATE) is not False
            or (node.cversion, node.pzxid) != (0, node.czxid)
            or node.version < 0
            or node.data is None
        ):
            return None
        try:
            state = partition_state.decode(path, node.data, node.version)
        except ZnodeError:
            return None
        isr = state.isr
        if (
            len(isr) > self._table.width
            or len(set(isr)) < len(isr)
            or not all(0 <= broker <= MAX_BROKER_ID for broker in isr)
            or not (state.leader == NO_LEADER or state.leader in isr)
            or state.leader_epoch < 0
        ):
            return None
        for codec, encode in enumerate(STATE_CODECS):
            if encode(state) == node.data:
                return state, codec
        return None

    def data_size(self, prefix: str) -> int:
        """Return the total size of paths and data of all stored znodes; paths start with `prefix`."""
        table, size = self._table, 0
        names = np.array([*map(len, table.topics)], dtype=np.int64)
        directory = len(f"{prefix}/partitions/")
        for rows in chunks(table.topic != FREE_TOPIC):
            forms = self.records.forms(rows)
            for kind in dict.fromkeys(_kind(form) for form, _ in forms):
                chosen = rows
                if sum(count for form, count in forms if _kind(form) == kind) < len(rows):
                    chosen = rows[self.records.where(rows, lambda form, kind=kind: _kind(form) == kind)]  # type: ignore[misc]
                is_held, codec = kind
                paths = int(names[table.topic[chosen]].sum()) + characters(table.partition[chosen])
                paths += directory * len(chosen)
                size += paths * is_held
                if codec is not None:
                    size += paths + len(f"/{STATE}") * len(chosen)
                    size += state_bytes(STATE_CODECS[codec], table.states(chosen))
        return size

    # Rows

    def forget_row(self, row: int) -> None:
        """Clear a row that leaves the table; none of its znodes is stored."""
        assert not self.form(row).nodes
        self.records.clear(row)

    def check(self) -> None:
        """Assert all invariants."""
        self.records.check()
        assert self.held == sum(form.nodes * rows for form, rows in self.records.forms())
        in_use = set(self._table.rows().tolist())
        for row in self.records.rows().tolist():
            assert row in in_use
        for row in in_use:
            assert (self.form(row).state is not None) == (self._table.version.item(row) >= 0)


def _kind(form: RowForm) -> tuple[bool, int | None]:
    """Return whether the partition znode is stored, and the codec of its state; None if that is not stored."""
    return form.partition is not None, None if form.state is None else form.state.codec


def _is_plain(form: RowForm) -> bool:
    state = form.state
    return state is not None and state.codec == 0 and state.acl is OPEN_ACL
