"""Many states read or written, many topics read, in one request: a batch means as many pipelined requests.

Rules of this module:
  - a batch of k conditional writes *is* k requests, each a multi of a check of `/controller_epoch` and of a write of
    one state at its version (without an epoch the write alone), one after the other: each takes the next zxid, fails
    alone, tells its watchers;
  - it is done column by column only as far as nobody could tell: a row that somebody watches, that is not in the
    columns, or that the columns cannot take, and all rows while transactions are listened to one by one (a log), go
    the way of single requests, in their place among the others;
  - who listens to transactions and can take a batch as a whole (`zookeeper.observers`) is told of the columns at once;
  - reads mean as many `GetData`.

Both ways are held equal by tests/kafka/columnar/test_batches.py.

Many topics read in one request: who holds each of their partitions, as columns where the topics are.

Rules of this module:
  - a batch of k reads is k requests `GetData`, each with a watch where one is asked for;
  - the partitions of a topic come in order, whatever the order of its text;
  - what the columns cannot say (a topic that is an object, that somebody may not read, that is being reassigned, or
    has no id) is read by a request of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.kafka import paths
from simzk.kafka.columnar.backing import ColumnarTopics
from simzk.kafka.schemas import partition_state
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
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
"""Of what else is watched next to nothing lies as deep as a state."""
_MANY_WATCHES = 20
"""To look at a watched path costs so much less than to name a row."""


def columns_of(server: Server) -> ColumnarTopics | None:
    """The columns in which a server keeps its topics, if it does."""
    backing = server.tree.backing
    return backing if isinstance(backing, ColumnarTopics) else None


def _path(partitions: Partitions, place: int) -> str:
    return paths.state(TopicPartition(*partitions.name(place)))


class StatesRead(NamedTuple):
    """What was read of k partitions.

    Args:
        states: k states, `version` -1 where the columns have none.
        replies: by place, what `GetData` said of a znode that the columns do not have.
    """

    states: States
    replies: dict[int, Reply]


class ReadStates(Batch):
    """The states of many partitions; the reply is `StatesRead`.

    Args:
        partitions: k of them.
    """

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def __len__(self) -> int:
        return self._partitions.size

    def requests(self) -> Iterator[req.Request]:
        for place in range(len(self)):
            yield req.GetData(_path(self._partitions, place), False)

    def assemble(self, replies: Sequence[Reply]) -> StatesRead:
        there = {place: reply for place, reply in enumerate(replies) if not reply.error}
        return StatesRead(no_states(len(replies), 1), there)

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> StatesRead:
        topics = columns_of(server)
        if topics is None:
            return self.assemble(
                [ask(server, connection, xid + place, one, now_ms) for place, one in enumerate(self.requests())]
            )
        rows = topics.table.find_all(self._partitions)
        states = topics.table.states(rows)
        apart = np.flatnonzero(~topics.are_plain(rows))
        states.version[apart] = -1
        replies = {}
        for place in apart.tolist():
            request = req.GetData(_path(self._partitions, place), False)
            reply = ask(server, connection, xid + place, request, now_ms)
            if not reply.error:
                replies[place] = reply
        return StatesRead(states, replies)


class Written(NamedTuple):
    """Consecutive transactions, told as columns: those of a batch that nobody could tell from single requests.

    Args:
        session_id: whose.
        rows: int32[k], of the table of `topics`.
        before: k states.
        after: k states.
        topics: the columns.
        zxids: int64[k], ascending.
    """

    session_id: int
    rows: IntArray
    before: States
    after: States
    topics: ColumnarTopics
    zxids: NDArray[np.int64]


class WriteStates(Batch):
    """Conditional writes of states; the reply is int32[k, 2]: the error of each check, and of each write.

    Args:
        partitions: k distinct ones.
        states: k states to write; their `version` is the one that the znode must have now.
        epoch_version: the version that `/controller_epoch` must have; None where it is not asked (before Kafka 2.1).
        encode: writes a state's text.
    """

    def __init__(
        self,
        partitions: Partitions,
        states: States,
        epoch_version: int | None,
        encode: Callable[[LeaderAndIsr], bytes] = partition_state.encode,
    ) -> None:
        assert all(len(column) == partitions.size for column in states)
        self._partitions = partitions
        self._states = states
        self._epoch_version = epoch_version
        self._encode = encode

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
        errors = [self._errors(reply) for reply in replies]
        return np.array(errors, dtype=np.int32).reshape(len(self), 2)

    def _errors(self, reply: Reply) -> tuple[int, int]:
        if self._epoch_version is None:
            return 0, reply.error
        assert isinstance(reply.body, (list, tuple)), "a multi of well-formed requests is answered one by one"
        checked, changed = reply.body
        return checked.error, changed.error

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> IntArray:
        topics = columns_of(server)
        rows = np.full(len(self), NONE, dtype=np.int32)
        if topics is not None and self._may_be_columns(server, connection):
            rows = topics.table.find_all(self._partitions)
            singly = self._singly(server, topics, rows)
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
                reply = ask(server, connection, xid + place, self._request(place), now_ms)
                errors[place] = self._errors(reply)
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
        """Which rows are to be written by a request of their own: bool[k]."""
        states, width = self._states, topics.table.width
        singly = ~topics.are_plain(rows)
        singly |= any_of(states.isr[:, width:] != NONE) if states.isr.shape[1] > width else np.False_
        singly |= (states.leader != NONE) & ~contained(states.leader[:, None], states.isr)[:, 0]
        if ((states.version == MAX_INT32) | (states.version == -1)).any():  # else none of that version is written
            singly |= topics.table.version[rows] == MAX_INT32
        watched = self._watched(server, topics, rows)
        return singly | np.isin(rows, watched) if watched else singly

    def _watched(self, server: Server, topics: ColumnarTopics, rows: IntArray) -> list[int]:
        """Those of the rows whose states somebody watches; others may be among them."""
        if not server.watches.data.has_depth(_STATE_DEPTH):
            return []
        by_path, table = server.watches.data.by_path, topics.table
        if len(by_path) > _MANY_WATCHES * len(rows):
            return [row for place, row in enumerate(rows.tolist()) if _path(self._partitions, place) in by_path]
        # One search through one text tells sooner than a look at each path that, as a rule, none is of a state.
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
        """The writes of rows that nobody looks at, told from one another by nothing but their zxids."""
        table, states = topics.table, self._states.map(lambda column: column[places])
        zxids = server.zxid + 1 + np.arange(len(rows), dtype=np.int64)
        server.zxid += len(rows)
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
    """Who holds the partitions of many topics.

    Args:
        ids: of the topics, None for one without, in the order asked for.
        partitions: k of them, of those topics in that order, but lying as in the columns.
        replicas: int32[k, w], padded.
    """

    ids: dict[str, str | None]
    partitions: Partitions
    replicas: IntArray


class TopicsRead(NamedTuple):
    """What was read of topics: replies to `GetData`, and columns; those that are not there are in neither."""

    replies: dict[str, Reply]
    columns: Assigned | None


class ReadTopics(Batch):
    """The assignments of many topics; the reply is `TopicsRead`.

    Args:
        names: of the topics, distinct.
        watch: whether a watch is set on each.
    """

    def __init__(self, names: Sequence[str], *, watch: bool) -> None:
        self._names = names
        self._watch = watch

    def __len__(self) -> int:
        return len(self._names)

    def requests(self) -> Iterator[req.Request]:
        return (req.GetData(paths.topic(name), self._watch) for name in self._names)

    def assemble(self, replies: Sequence[Reply]) -> TopicsRead:
        there = {name: reply for name, reply in zip(self._names, replies, strict=True) if not reply.error}
        return TopicsRead(there, None)

    def watches(self, body: object) -> Iterable[tuple[req.Request, int]]:
        assert isinstance(body, TopicsRead)
        found = [*body.replies, *(body.columns.ids if body.columns is not None else ())]
        return [(req.GetData(paths.topic(name), self._watch), Code.OK) for name in found]

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> TopicsRead:
        topics = columns_of(server)
        regular = {} if topics is None else _regular(topics, self._names)
        watches, replies = server.watches.data, dict[str, Reply]()
        for place, name in enumerate(self._names):
            if name not in regular:
                reply = ask(server, connection, xid + place, req.GetData(paths.topic(name), self._watch), now_ms)
                if not reply.error:
                    replies[name] = reply
            elif self._watch:
                watches.add(paths.topic(name), connection, Mode.STANDARD)
        return TopicsRead(replies, _assigned(topics, regular) if topics is not None else None)


def _regular(topics: ColumnarTopics, names: Sequence[str]) -> dict[str, tuple[range, str]]:
    """Topics whose columns say all there is: their partitions count from 0 in consecutive rows; rows and id of each."""
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
    return Assigned(ids, partitions, table.replicas_at(chosen))
