"""The registrations of many brokers read in one request, as a controller reads them whenever one comes or goes.

Rules of this module:
  - a batch of k reads is k requests `GetData`, with a watch where one is asked for;
  - where one of the znodes is not there, or not open to all, they are asked for one by one;
  - the book of a session's watches is told of those that are new: the others stand in it;
  - a text is decoded once: hundreds of brokers say what they said before.

Both ways are held equal by tests/kafka/test_registrations.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from simzk.kafka import paths
from simzk.kafka.many_znodes import data_of, stat_of
from simzk.kafka.schemas import broker_registration
from simzk.tuples import NamedTuple
from simzk.zookeeper.batches import Batch
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import OPEN_ACL, GetData
from simzk.zookeeper.watches import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from simzk.kafka.schemas.broker_registration import BrokerRegistration
    from simzk.kafka.schemas.reading import Reading
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Server

TEXTS_KEPT = 4096
"""So many texts are kept decoded, of each way to read them; of more brokers, twice as many as there are."""

path_of = lru_cache(maxsize=4096)(paths.broker)
"""The path of a broker's znode."""


class RegistrationsRead(NamedTuple):
    """What was read of brokers, in the order asked for, those left out that are not there.

    Args:
        brokers: their ids.
        data: what stands in the znode of each.
        czxids: the zxids that made them.
        watched: the paths on which a watch was set that was not there, and maybe others that are watched.
    """

    brokers: list[int]
    data: list[bytes | None]
    czxids: list[int]
    watched: list[str]

    def decoded(self, reading: Reading) -> list[BrokerRegistration]:
        """What each broker says of itself, as `reading` reads it.

        Raises:
            ZnodeError: the first that cannot be used.
        """
        texts = _texts(reading)
        try:
            return list(map(texts.__getitem__, self.data))
        except KeyError:
            if len(texts) >= max(TEXTS_KEPT, 2 * len(self.data)):
                texts.clear()
            for broker, data in zip(self.brokers, self.data, strict=True):
                if data not in texts:
                    texts[data] = broker_registration.decode(path_of(broker), data, reading)
            return [texts[data] for data in self.data]


@lru_cache(maxsize=32)
def _texts(reading: Reading) -> dict[bytes | None, BrokerRegistration]:
    """What texts say that were decoded lately."""
    return {}


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
        told = [(broker, reply) for broker, reply in zip(self._brokers, replies, strict=True) if not reply.error]
        return RegistrationsRead(
            [broker for broker, _ in told],
            [data_of(reply) for _, reply in told],
            [stat_of(reply).czxid for _, reply in told],
            [path_of(broker) for broker, _ in told if path_of(broker) in self._watched],
        )

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        assert isinstance(body, RegistrationsRead)
        return [(GetData(path, True), Code.OK) for path in body.watched]

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> object:
        at = list(map(path_of, self._brokers))
        nodes = [node for node in map(server.tree.find, at) if node is not None and node.acl is OPEN_ACL]
        if len(nodes) < len(at):
            return super().serve(server, connection, xid, now_ms)
        table = server.watches.data
        new = table.lacking([path for path in at if path in self._watched], connection, Mode.STANDARD)
        for path in new:
            table.add(path, connection, Mode.STANDARD)
        return RegistrationsRead([*self._brokers], [node.data for node in nodes], [node.czxid for node in nodes], new)
