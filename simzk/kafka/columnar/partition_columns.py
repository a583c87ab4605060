"""`/brokers/topics/T/partitions/P` and its `state` in columns: what a row of the partition table has beside its state.

Rules of this module:
  - the state's text is what a codec writes of the table's columns, or the node is not held;
  - the columns of the table show a state only while it is held: else the row looks as if it had none;
  - a row keeps, packed, the zxids and times of both nodes; what is left of them (ACL, which codec) is its form;
  - the partition's pzxid is not kept: it is its own czxid, or where it has a state, that one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka.columnar.znode_form import FEW, NO_DATA, characters, chunks, made, only_child, state_bytes
from simzk.kafka.schemas import partition_state
from simzk.kafka.topic_partition import NO_LEADER, LeaderAndIsr
from simzk.partitions.arrays import MAX_BROKER_ID
from simzk.partitions.packed_records import PackedRecords
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
"""By their place they are named in forms."""

NO_STATE = LeaderAndIsr(NO_LEADER, 0, (), 0, version=-1)

CZXID, CTIME, STATE_CZXID, STATE_MZXID, STATE_CTIME, STATE_MTIME = range(6)
"""The numbers of a row; times in ms."""


class StateForm(NamedTuple):
    """A `state` that is held, but for its numbers."""

    acl: tuple[ACL, ...]
    aversion: int
    codec: int


class PartitionForm(NamedTuple):
    """A partition's own node that is held, but for its numbers."""

    acl: tuple[ACL, ...]
    aversion: int
    data: bytes | None
    cversion: int
    has_state: bool


class RowForm(NamedTuple):
    """What is held of a row; None for a node that is not."""

    partition: PartitionForm | None
    state: StateForm | None

    @property
    def nodes(self) -> int:
        """How many nodes."""
        return (self.partition is not None) + (self.state is not None)


_NOTHING = RowForm(None, None)


class PartitionColumns:
    """The nodes of the partitions of one table.

    Args:
        table: whose rows they are; this object writes the states of its rows, and nobody else.

    Attributes:
        held: how many nodes are held.
        before_change: called with a row whose state is about to change by itself, not with others (`note_written`).
    """

    before_change: Callable[[int], None] | None = None

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        self._records: PackedRecords[RowForm] = PackedRecords(6)
        # A write looks at a node, perhaps twice, before it takes it: the last one looked at, while it stands so.
        self._seen: tuple[int, Znode] | None = None
        self.held = 0

    @property
    def records(self) -> PackedRecords[RowForm]:
        """The packed numbers, by row."""
        return self._records

    def _row(self, row: int) -> tuple[list[int], RowForm]:
        return self._records.get(row) or ([0] * 6, _NOTHING)

    def form(self, row: int) -> RowForm:
        """What is held of a row."""
        return self._records.form(row) or _NOTHING

    def _write(self, row: int, numbers: Sequence[int], before: RowForm, after: RowForm) -> None:
        self._seen = None
        self._records.put(row, numbers, after)
        self.held += after.nodes - before.nodes

    def fill(self, first: int, numbers: NDArray[np.int64], started: NDArray[np.bool_], form: RowForm) -> None:
        """Hold both nodes of the started ones of consecutive rows, whose states are in the table.

        Args:
            first: the first row.
            numbers: int64[k, 6], of each row.
            started: bool[k], rows that have nodes.
            form: of these.
        """
        self._records.fill(first, numbers, form)
        for row in (first + np.flatnonzero(~started)).tolist():
            self._records.clear(row)
        self.held += form.nodes * int(started.sum())

    # The partition's own node

    def look_partition(self, row: int) -> Znode | None:
        numbers, form = self._row(row)
        held = form.partition
        if held is None:
            return None
        node = made(held.data, held.acl, held.aversion, numbers[CZXID], numbers[CTIME])
        node.cversion = held.cversion
        if held.has_state:
            node.add_child(STATE)
            node.pzxid = numbers[STATE_CZXID]
        return node

    def take_partition(self, row: int) -> Znode | None:
        node = self.look_partition(row)
        if node is not None:
            self._drop(row, partition=True)
        return node

    def settle_partition(self, row: int, node: Znode) -> bool:
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
            # The state comes later, or stays an object: its czxid is known from here.
            numbers[STATE_CZXID] = node.pzxid
        if node.pzxid != (numbers[STATE_CZXID] if has_state else node.czxid):
            return False
        numbers = [node.czxid, node.ctime_ms, *numbers[STATE_CZXID:]]
        held = PartitionForm(node.acl, node.aversion, node.data, node.cversion, has_state)
        self._write(row, numbers, form, form._replace(partition=held))
        return True

    # Its state

    def look_state(self, row: int) -> Znode | None:
        if self._seen is not None and self._seen[0] == row:
            return self._seen[1]
        numbers, form = self._row(row)
        held = form.state
        if held is None:
            return None
        state = self._table.leader_and_isr(row)
        assert state is not None, "a state that is held is in the table"
        data = STATE_CODECS[held.codec](state)
        node = made(data, held.acl, held.aversion, numbers[STATE_CZXID], numbers[STATE_CTIME])
        node.mzxid, node.mtime_ms, node.version = numbers[STATE_MZXID], numbers[STATE_MTIME], state.version
        self._seen = row, node
        return node

    def take_state(self, row: int) -> Znode | None:
        node = self.look_state(row)
        if node is not None:
            if self.before_change is not None:
                self.before_change(row)
            self._drop(row, partition=False)
        return node

    def settle_state(self, row: int, path: str, node: Znode) -> bool:
        numbers, form = self._row(row)
        assert form.state is None
        found = self._fitting(path, node)
        # Where the partition's node is held with another state's czxid, that one is not written over.
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
        """Which of the rows have a state that is held, is open to everybody, and is written as from 0.8.1 on."""
        return self._records.where(rows, _is_plain)

    def note_written(self, rows: NDArray[np.integer], zxids: NDArray[np.int64], now_ms: int) -> None:
        """The states of some rows were written, and are in the table.

        Args:
            rows: int32[k], all plain (`are_plain`).
            zxids: int64[k], of the writes.
            now_ms: when it was.
        """
        self._seen = None
        times = np.full(len(rows), now_ms, dtype=np.int64)
        self._records.update(rows, {STATE_MZXID: zxids, STATE_MTIME: times})

    def forget_state(self, row: int) -> None:
        """There is no state here, or none that fits."""
        if self._table.version.item(row) >= 0:
            self._table.put(row, NO_STATE)

    def _fitting(self, path: str, node: Znode) -> tuple[LeaderAndIsr, int] | None:
        """The state that a node says, and the codec that writes it so; None where it does not fit."""
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
        """Characters of the paths and bytes of the data of the nodes that are held; `prefix` is of their paths."""
        table, size = self._table, 0
        names = np.array([*map(len, table.topics)], dtype=np.int64)
        directory = len(f"{prefix}/partitions/")
        for rows in chunks(table.topic != FREE_TOPIC):
            forms = self._records.forms(rows)
            for kind in dict.fromkeys(_kind(form) for form, _ in forms):
                chosen = rows
                if sum(count for form, count in forms if _kind(form) == kind) < len(rows):
                    chosen = rows[self._records.where(rows, lambda form, kind=kind: _kind(form) == kind)]  # type: ignore[misc]
                is_held, codec = kind
                paths = int(names[table.topic[chosen]].sum()) + characters(table.partition[chosen])
                paths += directory * len(chosen)
                size += paths * is_held
                if codec is not None:
                    size += paths + len(f"/{STATE}") * len(chosen)
                    size += state_bytes(STATE_CODECS[codec], table.states(chosen))
        return size

    # Rows

    def _drop(self, row: int, *, partition: bool) -> None:
        numbers, form = self._row(row)
        self._write(row, numbers, form, form._replace(partition=None) if partition else form._replace(state=None))

    def forget_row(self, row: int) -> None:
        """The row's partition leaves the table; nothing of it is held."""
        assert not self.form(row).nodes
        self._records.clear(row)

    def check(self) -> None:
        """Assert every invariant."""
        self._records.check()
        assert self.held == sum(form.nodes * rows for form, rows in self._records.forms())
        in_use = set(self._table.rows().tolist())
        for row in self._records.rows().tolist():
            assert row in in_use
        for row in in_use:
            assert (self.form(row).state is not None) == (self._table.version.item(row) >= 0)


def _kind(form: RowForm) -> tuple[bool, int | None]:
    """Whether a partition's own node is held, and the codec of its state if that is."""
    return form.partition is not None, None if form.state is None else form.state.codec


def _is_plain(form: RowForm) -> bool:
    state = form.state
    return state is not None and state.codec == 0 and state.acl is OPEN_ACL
