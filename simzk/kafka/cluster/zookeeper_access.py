"""How a cluster comes to its ZooKeeper: below a chroot, logged in, and with ACLs of its own
(docs/reference/kafka.md §1.9; ZooKeeper's client, ZkData.defaultAcls).

Rules of the module:
  - below a chroot every path that a client of the cluster sends or is told of begins there, and Kafka knows nothing of
    it; the first broker to start makes the chroot, in a session of its own that sees the whole tree;
  - with `zookeeper.set.acl` all log in by SASL, and what they create is theirs to change and the world's to read; what
    is sensitive is theirs alone, and `/consumers` is open to all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from simzk.errors import ConfigError
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.replies import OperationResult, Reply
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id, Multi, Request, SetWatches
from simzk.zookeeper.transactions import Observers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.zookeeper.server import Server
    from simzk.zookeeper.znode import Znode

USER: Final = "kafka"
PASSWORD: Final = "kafka-secret"
"""By which brokers and tools of a simulated cluster log in."""
_ALL, _READ = 31, 1
_FIRST_WITH_ACLS: Final = (0, 9, 0)
_CREATOR: Final = ACL(_ALL, Id("auth", ""))
_WORLD_READS: Final = ACL(_READ, Id("world", "anyone"))


class Access(NamedTuple):
    """How the clients of a cluster come to its ZooKeeper.

    Args:
        chroot: where the cluster's znodes begin; empty for the root.
        secure: they log in, and set ACLs.
    """

    chroot: str = ""
    secure: bool = False

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password to log in with."""
        return (USER, PASSWORD) if self.secure else None

    def acl(self, path: str, version: KafkaVersion) -> tuple[ACL, ...]:
        """The ACL that a release gives to a znode that it creates.

        Args:
            path: as Kafka knows it.
            version: the release.

        >>> from simzk.kafka.releases.versions import kafka_version
        >>> Access(secure=True).acl("/config/users/a", kafka_version("3.9"))
        (ACL(perms=31, id=Id(scheme='auth', id='')),)
        """
        if not self.secure or path in version.znodes.unprotected_paths:
            return OPEN_ACL
        return (_CREATOR,) if path.startswith(version.znodes.sensitive_paths) else (_CREATOR, _WORLD_READS)

    def send(self, request: Request) -> Request:
        """A request as the server gets it.

        >>> from simzk.zookeeper.requests import Exists
        >>> Access("/kafka").send(Exists("/brokers", False)).path
        '/kafka/brokers'
        """
        if not self.chroot:
            return request
        if isinstance(request, Multi):
            return Multi(tuple(self.send(part) for part in request.operations))  # type: ignore[misc]
        if isinstance(request, SetWatches):
            return request._replace(
                data=self._all(request.data), exist=self._all(request.exist), child=self._all(request.child)
            )
        path = getattr(request, "path", None)
        return request if path is None else request._replace(path=self.below(path))  # type: ignore[call-arg]

    def receive(self, reply: Reply) -> Reply:
        """A reply as Kafka gets it: of what names a path only that of a create."""
        body = reply.body
        if self.chroot and isinstance(body, str):
            return reply._replace(body=self.above(body))
        if self.chroot and isinstance(body, list) and body and isinstance(body[0], OperationResult):
            parts = [part._replace(body=self.above(part.body)) if isinstance(part.body, str) else part for part in body]
            return reply._replace(body=parts)
        return reply

    def below(self, path: str) -> str:
        """The whole path of what Kafka calls by `path`."""
        return self.chroot + path if path != "/" else self.chroot or "/"

    def above(self, path: str) -> str:
        """What Kafka calls a path below the chroot."""
        return path.removeprefix(self.chroot) or "/"

    def _all(self, found: tuple[str | None, ...] | None) -> tuple[str | None, ...] | None:
        return None if found is None else tuple(path and self.below(path) for path in found)


AT_THE_ROOT: Final = Access()


def access_of(chroot: str, *, secure: bool, oldest: KafkaVersion) -> Access:
    """What a cluster's options ask for.

    Args:
        chroot: where its znodes begin.
        secure: `zookeeper.set.acl`.
        oldest: the oldest release among its brokers.

    Raises:
        ConfigError: the chroot is no path, or a release sets no ACLs.
    """
    if secure and oldest.number < _FIRST_WITH_ACLS:
        raise ConfigError(f"Kafka {oldest.name} sets no ACLs", where="zookeeper_set_acl", right="0.9 or later")
    if chroot and (not chroot.startswith("/") or chroot.endswith("/") or "//" in chroot):
        raise ConfigError(f"{chroot!r} is no chroot", where="zookeeper_chroot", right="such as /kafka")
    return Access(chroot, secure)


class KafkaTree(Protocol):
    """The znodes of a cluster, as Kafka calls them."""

    def get(self, path: str) -> Znode | None:
        """A znode, None where there is none."""

    def walk(self) -> Iterator[tuple[str, Znode]]:
        """All znodes."""

    def __contains__(self, path: str) -> bool: ...


class Watched(Protocol):
    """A server whose tree can be looked at, and which tells of each transaction as it is applied."""

    @property
    def tree(self) -> KafkaTree:
        """What stands now."""

    @property
    def on_transaction(self) -> Observers:
        """Who is told."""


class Below:
    """What of a server lies below a chroot, for those who know Kafka's paths."""

    def __init__(self, server: Server, access: Access) -> None:
        self._server = server
        self._access = access
        self.on_transaction = Observers()
        server.on_transaction.append(self._see)

    @property
    def tree(self) -> KafkaTree:
        """The znodes below."""
        return self

    def get(self, path: str) -> Znode | None:
        """A znode below, None where there is none."""
        return self._server.tree.get(self._access.below(path))

    def walk(self) -> Iterator[tuple[str, Znode]]:
        """All znodes below."""
        for path, node in self._server.tree.walk():
            if self._is_below(path):
                yield self._access.above(path), node

    def __contains__(self, path: str) -> bool:
        return self._access.below(path) in self._server.tree

    def _is_below(self, path: str) -> bool:
        return path == self._access.chroot or path.startswith(f"{self._access.chroot}/")

    def _see(self, transaction: txns.Transaction) -> None:
        told = transaction._replace(record=self._record(transaction.record))
        for observe in self.on_transaction:
            observe(told)

    def _record(self, record: txns.Record) -> txns.Record:
        if isinstance(record, txns.MultiTxn):
            return record._replace(records=tuple(self._record(part) for part in record.records))  # type: ignore[misc]
        if isinstance(record, txns.CloseSessionTxn):
            return record._replace(paths=tuple(self._access.above(p) for p in record.paths if self._is_below(p)))
        path = getattr(record, "path", None)
        if path is None:
            return record
        if not self._is_below(path):
            return txns.ErrorTxn(0)  # nothing that concerns the cluster
        return record._replace(path=self._access.above(path))  # type: ignore[call-arg]
