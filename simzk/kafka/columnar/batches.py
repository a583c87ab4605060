"""Many states read or written in one call: a batch means as many pipelined requests, and is taken for them.

Rules of this module:
  - a batch of k conditional writes *is* k requests, each a multi of a check of `/controller_epoch` and of a write of
    one state at its version, one after the other: each takes the next zxid, fails alone, tells its watchers;
  - it is done column by column only as far as nobody could tell: a row that somebody watches, that is not in the
    columns, or that the columns cannot take, and all rows while transactions are listened to (a log, a history), go
    the way of single requests, in their place among the others;
  - reads mean as many `GetData`.

Both ways are held equal by tests/kafka/columnar/test_batches.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.columnar.partition_columns import NO_STATE
from simzk.kafka.schemas import partition_state
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.partitions.arrays import NONE, any_of, contained, widen
from simzk.tuples import NamedTuple
from simzk.zookeeper import requests as req
from simzk.zookeeper.acl import READ
from simzk.zookeeper.replies import Code, Reply
from simzk.zookeeper.znode import MAX_INT32

if TYPE_CHECKING:
    from simzk.kafka.columnar.backing import ColumnarTopics
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server


class StateWrites(NamedTuple):
    """k conditional writes of states.

    Args:
        rows: int32[k], distinct rows of the table.
        states: k states to write; their `version` is the one that the znode must have now.
        epoch_version: the version that `/controller_epoch` must have.
    """

    rows: IntArray
    states: States
    epoch_version: int


class Batches:
    """Reads and writes of many states at a server.

    Args:
        server: whose tree has the backing.
        topics: the backing.
    """

    def __init__(self, server: Server, topics: ColumnarTopics) -> None:
        assert not server.config.required_schemes, "a request may end no connection here"
        self._server = server
        self._topics = topics

    def read(self, connection: Connection, xid: int, rows: IntArray, now_ms: int) -> States:
        """The states of some rows, as `GetData` of each would say them.

        Args:
            connection: who asks; open.
            xid: of the first request; each has the next.
            rows: int32[k], of the table.
            now_ms: the present time.

        Returns:
            k states, `version` -1 where there is none that can be read.
        """
        assert not connection.closed
        self._server.hear(connection, now_ms)
        states = self._topics.table.states(rows)
        for place in np.flatnonzero(~self._topics.partitions.are_plain(rows)).tolist():
            path = self._path(int(rows[place]))
            state = _state_in(path, self._ask(connection, xid + place, req.GetData(path, False), now_ms))
            states = states._replace(isr=widen(states.isr, len(state.isr)))
            states.put_one(place, state)
        return states

    def write(self, connection: Connection, xid: int, writes: StateWrites, now_ms: int) -> IntArray:
        """Write states, each on its conditions.

        Args:
            connection: who asks; open.
            xid: of the first request; each has the next.
            writes: what is asked.
            now_ms: the present time.

        Returns:
            int32[k, 2], the errors of each request: of its check, and of its write.
        """
        assert not connection.closed
        self._server.hear(connection, now_ms)
        count = len(writes.rows)
        errors = np.zeros((count, 2), dtype=np.int32)
        begin = 0
        for place in (*np.flatnonzero(self._singly(connection, writes)).tolist(), count):
            if begin < place:
                self._write_columns(writes, slice(begin, place), now_ms, errors[begin:place])
            if place < count:
                errors[place] = self._write_one(connection, xid + place, writes, place, now_ms)
            begin = place + 1
        return errors

    def _singly(self, connection: Connection, writes: StateWrites) -> BoolArray:
        """Which rows are to be written by a request of their own: bool[k]."""
        server, topics, (rows, states, _) = self._server, self._topics, writes
        epoch = server.tree.find(paths.CONTROLLER_EPOCH)
        if (
            server.on_transaction
            or server.tree.quotas.armed
            or server.watches.data.has_recursive
            or epoch is None
            or not connection.asker.may(epoch.acl, READ)
        ):
            return np.ones(len(rows), dtype=np.bool_)
        width = topics.table.width
        singly = ~topics.partitions.are_plain(rows)
        singly |= any_of(states.isr[:, width:] != NONE) if states.isr.shape[1] > width else np.False_
        singly |= (states.leader != NONE) & ~contained(states.leader[:, None], states.isr)[:, 0]
        singly |= topics.table.version[rows] == MAX_INT32
        return singly | np.isin(rows, self._watched(rows))

    def _watched(self, rows: IntArray) -> list[int]:
        """Those of the rows whose states somebody watches; others may be among them."""
        by_path, table = self._server.watches.data.by_path, self._topics.table
        if len(by_path) > len(rows):
            return [row for row in rows.tolist() if self._path(row) in by_path]
        named = [paths.state_partition(path) for path in by_path if path is not None]
        return [table.row(*partition) for partition in named if partition is not None and partition in table]

    def _write_columns(self, writes: StateWrites, places: slice, now_ms: int, errors: IntArray) -> None:
        """The writes of rows that nobody looks at, told from one another by nothing but their zxids."""
        server, table = self._server, self._topics.table
        rows, states = writes.rows[places], writes.states.map(lambda column: column[places])
        zxids = server.zxid + 1 + np.arange(len(rows), dtype=np.int64)
        server.zxid += len(rows)
        epoch = server.tree.find(paths.CONTROLLER_EPOCH)
        assert epoch is not None
        if writes.epoch_version not in (-1, epoch.version):
            errors[:] = Code.BAD_VERSION, Code.RUNTIME_INCONSISTENCY
            return
        present = table.version[rows]
        fits = (states.version == present) | (states.version == -1)
        errors[~fits, 1] = Code.BAD_VERSION
        done, isr = rows[fits], widen(states.isr, table.width)[:, : table.width]
        written = states._replace(version=present + np.int32(1), isr=isr).where(fits)
        table.apply(done, written)
        self._topics.partitions.note_written(done, zxids[fits], now_ms)

    def _write_one(
        self, connection: Connection, xid: int, writes: StateWrites, place: int, now_ms: int
    ) -> tuple[int, int]:
        state = writes.states.one(place)
        path = self._path(int(writes.rows[place]))
        check = req.Check(paths.CONTROLLER_EPOCH, writes.epoch_version)
        change = req.SetData(path, partition_state.encode(state), state.version)
        reply = self._ask(connection, xid, req.Multi((check, change)), now_ms)
        assert isinstance(reply.body, list), "a multi of well-formed requests is answered one by one"
        checked, changed = reply.body
        return checked.error, changed.error

    def _ask(self, connection: Connection, xid: int, request: req.Request, now_ms: int) -> Reply:
        self._server.handle(connection, xid, request, now_ms)
        reply = connection.outgoing.pop()
        assert isinstance(reply, Reply)
        return reply

    def _path(self, row: int) -> str:
        return paths.state(TopicPartition(*self._topics.table.name(row)))


def _state_in(path: str, reply: Reply) -> LeaderAndIsr:
    """The state that a reply to `GetData` says; none where it says none that can be used."""
    if reply.error:
        return NO_STATE
    assert isinstance(reply.body, tuple)
    data, stat = reply.body
    try:
        return partition_state.decode(path, data, stat.version)
    except ZnodeError:
        return NO_STATE
