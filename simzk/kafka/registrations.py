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
from itertools import compress
from typing import TYPE_CHECKING, TypeVar

from simzk.kafka import paths
from simzk.kafka.many_znodes import data_of, stat_of
from simzk.kafka.schemas import broker_registration
from simzk.tuples import NamedTuple
from simzk.zookeeper.batches import Batch
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import OPEN_ACL, GetData
from simzk.zookeeper.watches import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from simzk.kafka.schemas.broker_registration import BrokerRegistration
    from simzk.kafka.schemas.reading import Reading
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Server

Key = TypeVar("Key")
Value = TypeVar("Value")

KEPT = 4096
"""So many ids and paths are kept made of each other."""
TEXTS_KEPT = 4096
"""So many texts are kept decoded, of each way to read them; of more brokers, twice as many as there are."""


class _Made(dict[Key, Value]):
    """What was made of keys lately, and is made of others when they are asked for."""

    def __init__(self, make: Callable[[Key], Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Key) -> Value:
        if len(self) >= KEPT:
            self.clear()
        self[key] = value = self._make(key)
        return value


_path_of = _Made(paths.broker).__getitem__
"""The path of a broker's znode."""
id_of = _Made(paths.broker_id).__getitem__
"""The id that a child of `/brokers/ids` stands for; raises ZnodeError where it is none."""


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
                    texts[data] = broker_registration.decode(_path_of(broker), data, reading)
            return [texts[data] for data in self.data]


@lru_cache(maxsize=32)
def _texts(reading: Reading) -> dict[bytes | None, BrokerRegistration]:
    """What texts say that were decoded lately."""
    return {}


class ReadRegistrations(Batch):
    """The znodes of brokers; the reply is `RegistrationsRead`.

    Args:
        brokers: distinct ids.
        watched: holds the paths of those on whose znodes a watch is set.
    """

    def __init__(self, brokers: Sequence[int], watched: Collection[str] = ()) -> None:
        self._brokers = brokers
        self._at = list(map(_path_of, brokers))
        self._watched = [path for path in self._at if path in watched]

    def __len__(self) -> int:
        return len(self._brokers)

    def requests(self) -> Iterator[Request]:
        watched = dict.fromkeys(self._watched)
        return (GetData(path, path in watched) for path in self._at)

    def assemble(self, replies: Sequence[Reply]) -> RegistrationsRead:
        there = [not reply.error for reply in replies]
        told, found = list(compress(replies, there)), dict.fromkeys(compress(self._at, there))
        return RegistrationsRead(
            list(compress(self._brokers, there)),
            [data_of(reply) for reply in told],
            [stat_of(reply).czxid for reply in told],
            [path for path in self._watched if path in found],
        )

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        assert isinstance(body, RegistrationsRead)
        return [(GetData(path, True), Code.OK) for path in body.watched]

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> object:
        nodes = [node for node in map(server.tree.find, self._at) if node is not None and node.acl is OPEN_ACL]
        if len(nodes) < len(self._at):
            return super().serve(server, connection, xid, now_ms)
        table = server.watches.data
        new = table.lacking(self._watched, connection, Mode.STANDARD)
        for path in new:
            table.add(path, connection, Mode.STANDARD)
        return RegistrationsRead([*self._brokers], [node.data for node in nodes], [node.czxid for node in nodes], new)
