"""The registrations of many brokers read in one request, as a controller reads them whenever one comes or goes.

Rules of this module:
  - a batch of k reads is k requests `GetData`, with a watch where one is asked for;
  - a znode that only some may read, or that is not there, is read by a request of its own;
  - the book of a session's watches is told of those that are new: the others stand in it.

Both ways are held equal by tests/kafka/test_registrations.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from simzk.kafka import paths
from simzk.tuples import NamedTuple
from simzk.zookeeper.batches import Batch, ask
from simzk.zookeeper.replies import Code, Reply, Stat
from simzk.zookeeper.requests import OPEN_ACL, GetData
from simzk.zookeeper.watches import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Server

path_of = lru_cache(maxsize=4096)(paths.broker)
"""The path of a broker's znode."""


class Registration(NamedTuple):
    """A broker's znode: what stands in it, and the zxid that made it."""

    data: bytes | None
    czxid: int


class RegistrationsRead(NamedTuple):
    """What was read of brokers.

    Args:
        found: by broker, in the order asked for, those left out that are not there.
        watched: the paths on which a watch was set.
    """

    found: dict[int, Registration]
    watched: list[str]


class ReadRegistrations(Batch):
    """The znodes of brokers; the reply is `RegistrationsRead`.

    Args:
        brokers: distinct ids.
        watched: the paths of those on whose znodes a watch is set.
    """

    def __init__(self, brokers: Sequence[int], watched: Collection[str] = ()) -> None:
        self._brokers = brokers
        self._watched = watched

    def __len__(self) -> int:
        return len(self._brokers)

    def _request(self, broker: int) -> GetData:
        path = path_of(broker)
        return GetData(path, path in self._watched)

    def requests(self) -> Iterator[Request]:
        return map(self._request, self._brokers)

    def assemble(self, replies: Sequence[Reply]) -> RegistrationsRead:
        told = zip(self._brokers, replies, strict=True)
        return RegistrationsRead({broker: _told(reply) for broker, reply in told if not reply.error}, [])

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        assert isinstance(body, RegistrationsRead)
        return [(GetData(path, True), Code.OK) for path in body.watched]

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> RegistrationsRead:
        table, at = server.watches.data, list(map(path_of, self._brokers))
        handled = [path for path in at if path in self._watched]
        unwatched = dict.fromkeys(table.lacking(handled, connection, Mode.STANDARD))
        found: dict[int, Registration] = {}
        watched: list[str] = []
        for place, (broker, path, node) in enumerate(zip(self._brokers, at, map(server.tree.find, at), strict=True)):
            if node is None or node.acl is not OPEN_ACL:
                reply = ask(server, connection, xid + place, self._request(broker), now_ms)
                if reply.error:
                    continue
                found[broker] = _told(reply)
            else:
                found[broker] = Registration(node.data, node.czxid)
                if path in unwatched:
                    table.add(path, connection, Mode.STANDARD)
            if path in unwatched:
                watched.append(path)
        return RegistrationsRead(found, watched)


def _told(reply: Reply) -> Registration:
    assert isinstance(reply.body, tuple)
    data, stat = reply.body
    assert isinstance(stat, Stat)
    return Registration(data, stat.czxid)
