"""Many topics read in one request: who holds each of their partitions, as columns where the topics are.

Rules of this module:
  - a batch of k reads is k requests `GetData`, each with a watch where one is asked for;
  - the partitions of a topic come in order, whatever the order of its text;
  - what the columns cannot say (a topic that is an object, that somebody may not read, that is being reassigned, or
    has no id) is read by a request of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka import paths
from simzk.kafka.columnar.batches import columns_of
from simzk.partitions.names import Partitions
from simzk.tuples import NamedTuple
from simzk.zookeeper import requests as req
from simzk.zookeeper.batches import Batch, ask
from simzk.zookeeper.replies import Code, Reply
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.watches import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simzk.kafka.columnar.backing import ColumnarTopics
    from simzk.partitions.arrays import IntArray
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server


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
