"""Batched ZooKeeper requests on columns: partition states read and written, topics read.

Rules of this module:
  - a batch of k requests has the effect of k pipelined requests. Each write is a multi of a check of
    `/controller_epoch` and a conditional set (without an epoch, the set alone): each takes the next zxid, fails alone
    and notifies its watchers;
  - a batch is served from columns only where no client can see the difference. A single request serves a row that has a
    watcher, that is not in columns or that columns cannot represent; all rows while an observer, such as a log, takes
    transactions one by one; and a topic that is an object, that the client may not read, that is being reassigned, or
    that has no id. Single requests keep their place among the others;
  - an observer that accepts batches (`zookeeper.observers`) gets the columns at once;
  - a batch that reads topics returns the partitions of each in ascending order, whatever the order of its text.

tests/kafka/zookeeper_mode/columnar/test_batches.py compares both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar.backing import ColumnarTopics
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.partitions.arrays import NONE, any_of, contained, widen
from simzk.partitions.states import States, no_states
from simzk.partitions.table import Partitions
from simzk.zookeeper import requests as req
from simzk.zookeeper.acl import READ
from simzk.zookeeper.replies import Code, Reply
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Batch, ask
from simzk.zookeeper.watches import Mode
from simzk.zookeeper.znode import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server

_STATE_DEPTH = paths.state(TopicPartition("t", 0)).count("/")
"""Depth of a partition state's path; hardly any other watched path is as deep."""
_MANY_WATCHES = 20
"""Ratio of watched paths to rows above which it is cheaper to build the path of each row."""


def columns_of(server: Server) -> ColumnarTopics | None:
    """Return the columns that back a server's topics; None if the topics are objects."""
    backing = server.tree.backing
    return backing if isinstance(backing, ColumnarTopics) else None


def _path(partitions: Partitions, place: int) -> str:
    return paths.state(TopicPartition(*partitions.name(place)))


class StatesRead(NamedTuple):
    """States of k partitions.

    Args:
        states: k states, with `version` -1 for those that are not in columns.
        replies: replies to `GetData` by place, for existing znodes that are not in columns.
    """

    states: States
    replies: dict[int, Reply]


@dataclass(eq=False)
class ReadStates(Batch):
    """Read of many partition states; the reply is `StatesRead`."""

    _partitions: Partitions

    def __len__(self) -> int:
        return self._partitions.size

    def requests(self) -> Iterator[req.Request]:
        for place in range(len(self)):
            yield req.GetData(_path(self._partitions, place), False)

    def assemble(self, replies: Sequence[Reply]) -> StatesRead:
        assert len(replies) == len(self)
        there = {place: reply for place, reply in enumerate(replies) if not reply.error}
        return StatesRead(no_states(len(replies), 1), there)

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> StatesRead:
        topics = columns_of(server)
        if topics is None:
            return self.assemble(
                [ask(server, connection, xid + place, one, now_ms) for place, one in enumerate(self.requests())]
            )
        rows = topics.table.find_all(self._partitions)
        plain = topics.are_plain(rows)
        if plain.all():
            states = topics.table.states(rows)
        else:  # a partition of a topic that is an object has no row
            states = no_states(len(rows), topics.table.width)
            states.put(np.flatnonzero(plain), topics.table.states(rows[plain]))
        replies = {}
        for place in np.flatnonzero(~plain).tolist():
            reply = ask(server, connection, xid + place, req.GetData(_path(self._partitions, place), False), now_ms)
            if not reply.error:
                replies[place] = reply
        return StatesRead(states, replies)


class Written(NamedTuple):
    """Consecutive transactions of a batch, as columns.

    Args:
        session_id: the session of the client.
        rows: int32[k], of the table of `topics`.
        before: the k states before.
        after: the k states after.
        topics: the columns.
        zxids: int64[k], ascending.
    """

    session_id: int
    rows: IntArray
    before: States
    after: States
    topics: ColumnarTopics
    zxids: NDArray[np.int64]


@dataclass(eq=False)
class WriteStates(Batch):
    """Conditional writes of partition states; the reply is int32[k, 2], the error codes of each check and each write.

    Args:
        partitions: k distinct partitions.
        states: k states to write; `version` is the required version of the znode, -1 for any.
        epoch_version: required version of `/controller_epoch`; None for no check (before Kafka 2.1).
        encode: encodes a state.
    """

    _partitions: Partitions
    _states: States
    _epoch_version: int | None
    _encode: Callable[[LeaderAndIsr], bytes] = partition_state.encode

    def __post_init__(self) -> None:
        assert all(len(column) == self._partitions.size for column in self._states)

    def __len__(self) -> int:
        return self._partitions.size

    def requests(self) -> Iterator[req.Request]:
        return map(self._request, range(len(self)))

    def _request(self, place: int) -> req.Request:
        state = self._states.one(place)
        change = req.SetData(_path(self._partitions, place), self._encode(state), state.version)
        if self._epoch_version is None:
            return change
        return req.Multi((req.Check(paths.CONTROLLER_EPOCH, self._epoch_version), change))

    def assemble(self, replies: Sequence[Reply]) -> IntArray:
        assert len(replies) == len(self)
        return np.array([self._errors(reply) for reply in replies], dtype=np.int32).reshape(len(self), 2)

    def _errors(self, reply: Reply) -> tuple[int, int]:
        if self._epoch_version is None:
            return 0, reply.error
        assert isinstance(reply.body, (list, tuple)), "a multi of well-formed requests is answered one by one"
        assert len(reply.body) == 2
        checked, changed = reply.body
        return checked.error, changed.error

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> IntArray:
        topics = columns_of(server)
        rows = np.full(len(self), NONE, dtype=np.int32)
        if topics is not None and self._may_be_columns(server, connection):
            rows = topics.table.find_all(self._partitions)
            singly = self._singly(server, topics, rows)
            assert len(singly) == len(self), "each write is served once"
        else:
            singly = np.ones(len(self), dtype=np.bool_)
        errors = np.zeros((len(self), 2), dtype=np.int32)
        begin = 0
        for place in (*np.flatnonzero(singly).tolist(), len(self)):
            if begin < place:
                assert topics is not None
                places = slice(begin, place)
                self._write_columns(server, connection, topics, rows[places], places, now_ms, errors[places])
            if place < len(self):
                errors[place] = self._errors(ask(server, connection, xid + place, self._request(place), now_ms))
            begin = place + 1
        return errors

    def _may_be_columns(self, server: Server, connection: Connection) -> bool:
        epoch = server.tree.find(paths.CONTROLLER_EPOCH)
        return not (
            server.on_transaction.batch_forms is None
            or server.tree.quotas.armed
            or server.watches.data.has_recursive
            or epoch is None
            or not connection.asker.may(epoch.acl, READ)
            or self._encode is not partition_state.encode
        )

    def _singly(self, server: Server, topics: ColumnarTopics, rows: IntArray) -> BoolArray:
        """Return which rows need a request of their own: bool[k]."""
        states, width = self._states, topics.table.width
        plain = topics.are_plain(rows)
        singly = ~plain
        singly |= any_of(states.isr[:, width:] != NONE) if states.isr.shape[1] > width else np.False_
        singly |= (states.leader != NONE) & ~contained(states.leader[:, None], states.isr)[:, 0]
        if ((states.version == MAX_INT32) | (states.version == -1)).any():  # else none of that version is written
            singly[plain] |= topics.table.version[rows[plain]] == MAX_INT32
        watched = self._watched(server, topics, rows)
        return singly | np.isin(rows, watched) if watched else singly

    def _watched(self, server: Server, topics: ColumnarTopics, rows: IntArray) -> list[int]:
        """Return the rows with watched states; may include rows outside the batch."""
        if not server.watches.data.has_depth(_STATE_DEPTH):
            return []
        by_path, table = server.watches.data.by_path, topics.table
        if len(by_path) > _MANY_WATCHES * len(rows):
            return [row for place, row in enumerate(rows.tolist()) if _path(self._partitions, place) in by_path]
        # Usually no path is of a state: one search through the joined text is faster than a check of each path.
        if "/state\n" not in "\n".join([path or "" for path in by_path] + [""]):
            return []
        named = [paths.state_partition(path) for path in by_path if path is not None and path.endswith("/state")]
        return [table.row(*partition) for partition in named if partition is not None and partition in table]

    def _write_columns(
        self,
        server: Server,
        connection: Connection,
        topics: ColumnarTopics,
        rows: IntArray,
        places: slice,
        now_ms: int,
        errors: IntArray,
    ) -> None:
        """Write rows as columns, and report the writes to observers as one batch."""
        table, states = topics.table, self._states.map(lambda column: column[places])
        assert len(rows) == len(errors) == len(states.leader)
        assert rows.min() >= 0, "a partition without a row is written by a single request"
        zxids = server.zxid + 1 + np.arange(len(rows), dtype=np.int64)
        server.zxid += len(rows)
        assert zxids.item(-1) == server.zxid, "each write takes the next zxid, also one that fails"
        epoch = server.tree.find(paths.CONTROLLER_EPOCH)
        assert epoch is not None
        if self._epoch_version not in (None, -1, epoch.version):
            errors[:] = Code.BAD_VERSION, Code.RUNTIME_INCONSISTENCY
            return
        present = table.version[rows]
        fits = (states.version == present) | (states.version == -1)
        errors[~fits, 1] = Code.BAD_VERSION
        isr = widen(states.isr, table.width)[:, : table.width]
        written = states._replace(version=present + np.int32(1), isr=isr)
        if not fits.all():
            rows, zxids, written = rows[fits], zxids[fits], written.where(fits)
        before = table.apply(rows, written)
        topics.partitions.note_written(rows, zxids, now_ms)
        for observe in server.on_transaction.batch_forms or ():
            observe(Written(connection.session_id, rows, before, written, topics, zxids))


class Assigned(NamedTuple):
    """Replica assignments of many topics.

    Args:
        ids: topic ids by name in the order of the request, None for a topic without an id.
        partitions: the k partitions of these topics, in the order of the columns.
        replicas: int32[k, w], padded.
    """

    ids: dict[str, str | None]
    partitions: Partitions
    replicas: IntArray


class TopicsRead(NamedTuple):
    """Topics read: replies to `GetData` by name, and columns; topics that do not exist are in neither."""

    replies: dict[str, Reply]
    columns: Assigned | None


@dataclass(eq=False)
class ReadTopics(Batch):
    """Read of the replica assignments of topics by distinct names, with a watch on each; the reply is `TopicsRead`."""

    _names: Sequence[str]

    def __len__(self) -> int:
        return len(self._names)

    def requests(self) -> Iterator[req.Request]:
        return (req.GetData(paths.topic(name), True) for name in self._names)

    def assemble(self, replies: Sequence[Reply]) -> TopicsRead:
        there = {name: reply for name, reply in zip(self._names, replies, strict=True) if not reply.error}
        return TopicsRead(there, None)

    def watches(self, body: object) -> Iterable[tuple[req.Request, int]]:
        assert isinstance(body, TopicsRead)
        found = [*body.replies, *(body.columns.ids if body.columns is not None else ())]
        return [(req.GetData(paths.topic(name), True), Code.OK) for name in found]

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> TopicsRead:
        topics = columns_of(server)
        regular = {} if topics is None else _regular(topics, self._names)
        watches, replies = server.watches.data, dict[str, Reply]()
        for place, name in enumerate(self._names):
            if name not in regular:
                reply = ask(server, connection, xid + place, req.GetData(paths.topic(name), True), now_ms)
                if not reply.error:
                    replies[name] = reply
            else:
                watches.add(paths.topic(name), connection, Mode.STANDARD)
        return TopicsRead(replies, _assigned(topics, regular) if topics is not None else None)


def _regular(topics: ColumnarTopics, names: Sequence[str]) -> dict[str, tuple[range, str]]:
    """Return rows and id of each topic that can be read as columns: an open znode with an id, without a reassignment,
    and partitions from 0 on in consecutive rows."""
    moving = {topics.table.name(row)[0] for row in topics.table.reassigning()}
    found: dict[str, tuple[range, str]] = {}
    for name, form, topic_id in zip(names, *topics.topics.forms_and_ids(names), strict=True):
        held = form.topic
        if held is not None and topic_id and held.acl is OPEN_ACL and name not in moving:
            rows = topics.table.run_of(name)
            if rows is not None:
                found[name] = rows, topic_id
    return found


def _assigned(topics: ColumnarTopics, regular: Mapping[str, tuple[range, str]]) -> Assigned | None:
    if not regular:
        return None
    table = topics.table
    begins = np.array([rows.start for rows, _ in regular.values()], dtype=np.int64)
    lengths = np.array([len(rows) for rows, _ in regular.values()], dtype=np.int64)
    lying = np.argsort(begins)
    begins, lengths = begins[lying], lengths[lying]
    before = np.cumsum(lengths) - lengths
    chosen = np.repeat(begins - before, lengths) + np.arange(int(lengths.sum()))
    topic = np.repeat(lying.astype(np.int32), lengths)
    partitions = Partitions(list(regular), topic, table.partition.take(chosen))
    ids: dict[str, str | None] = {name: topic_id for name, (_, topic_id) in regular.items()}
    assert partitions.size == len(chosen) == len(topic)
    return Assigned(ids, partitions, table.replicas_at(chosen))
