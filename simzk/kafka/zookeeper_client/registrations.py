"""Batched reads of broker registrations: a controller reads all of them whenever a broker comes or goes.

Rules of the module:
  - a batch of k reads means k `GetData` requests, each with a watch if one is wanted;
  - if a znode is missing, or its ACL is not open, the requests are served one by one;
  - the session records only new watches: the others are recorded already;
  - each text is decoded once: hundreds of brokers register with the same text again.

tests/kafka/test_registrations.py compares both ways.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from simzk.kafka import paths
from simzk.kafka.schemas import broker_registration
from simzk.kafka.zookeeper_client.session import data_of, stat_of
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import OPEN_ACL, GetData
from simzk.zookeeper.server import Batch
from simzk.zookeeper.watches import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from simzk.kafka.schemas.broker_registration import BrokerRegistration
    from simzk.kafka.schemas.json_text import Reading
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Server

Key = TypeVar("Key")
Value = TypeVar("Value")

CACHED = 4096
"""Limit on cached ids and paths."""
TEXTS_CACHED = 4096
"""Limit on cached registrations per reading; for more brokers twice their number."""


class _Cache(dict[Key, Value]):
    """Values computed from keys on first use, cleared when full."""

    def __init__(self, make: Callable[[Key], Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Key) -> Value:
        if len(self) >= CACHED:
            self.clear()
        self[key] = value = self._make(key)
        return value


_path_of = _Cache(paths.broker).__getitem__
"""Path of a broker's znode."""
id_of = _Cache(paths.broker_id).__getitem__
"""Broker id of a child of `/brokers/ids`; raises ZnodeError if the name is no id."""


class RegistrationsRead(NamedTuple):
    """Registered brokers among the requested ones, in the requested order.

    Args:
        brokers: ids of the brokers.
        data: data of each znode.
        czxids: zxid of each creation.
        watched: paths with a new watch, and possibly others that are watched.
    """

    brokers: list[int]
    data: list[bytes | None]
    czxids: list[int]
    watched: list[str]

    def decoded(self, reading: Reading) -> list[BrokerRegistration]:
        """Decode the registrations.

        Raises:
            ZnodeError: a registration is invalid; names the first one.
        """
        texts = _texts(reading)
        try:
            return list(map(texts.__getitem__, self.data))
        except KeyError:
            if len(texts) >= max(TEXTS_CACHED, 2 * len(self.data)):
                texts.clear()
            for broker, data in zip(self.brokers, self.data, strict=True):
                if data not in texts:
                    texts[data] = broker_registration.decode(_path_of(broker), data, reading)
            return [texts[data] for data in self.data]


@lru_cache(maxsize=32)
def _texts(reading: Reading) -> dict[bytes | None, BrokerRegistration]:
    """Return the cache of decoded registrations for a reading."""
    return {}


class ReadRegistrations(Batch):
    """Batch that reads the znodes of brokers; its reply is `RegistrationsRead`.

    Args:
        brokers: distinct broker ids.
        watched: paths on which a watch is set, among others.
    """

    def __init__(self, brokers: Sequence[int], watched: Collection[str] = ()) -> None:
        self._brokers = brokers
        self._paths = list(map(_path_of, brokers))
        self._watched = [path for path in self._paths if path in watched]

    def __len__(self) -> int:
        return len(self._brokers)

    def requests(self) -> Iterator[Request]:
        watched = dict.fromkeys(self._watched)
        return (GetData(path, path in watched) for path in self._paths)

    def assemble(self, replies: Sequence[Reply]) -> RegistrationsRead:
        exists = [not reply.error for reply in replies]
        read, found = list(compress(replies, exists)), dict.fromkeys(compress(self._paths, exists))
        return RegistrationsRead(
            list(compress(self._brokers, exists)),
            [data_of(reply) for reply in read],
            [stat_of(reply).czxid for reply in read],
            [path for path in self._watched if path in found],
        )

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        assert isinstance(body, RegistrationsRead)
        return [(GetData(path, True), Code.OK) for path in body.watched]

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> object:
        nodes = [node for node in map(server.tree.find, self._paths) if node is not None and node.acl is OPEN_ACL]
        if len(nodes) < len(self._paths):
            return super().serve(server, connection, xid, now_ms)
        table = server.watches.data
        new = table.lacking(self._watched, connection, Mode.STANDARD)
        for path in new:
            table.add(path, connection, Mode.STANDARD)
        return RegistrationsRead([*self._brokers], [node.data for node in nodes], [node.czxid for node in nodes], new)
