"""Chroot, login and ACLs of a cluster's ZooKeeper clients (docs/reference/kafka.md §1.9; ZkData.defaultAcls).

Rules of this module:
  - the client library adds the chroot to the paths of requests and removes it from those of replies and watch events,
    so that Kafka's code never sees it. The first broker to start creates the chroot, in a session without a chroot;
  - with `zookeeper.set.acl` all clients log in by SASL. Only they may change the znodes that they create, and everybody
    may read them; sensitive znodes are theirs alone, and `/consumers` is open to all.
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
"""Login of the brokers and tools of a simulated cluster."""
_ALL, _READ = 31, 1
_FIRST_WITH_ACLS: Final = (0, 9, 0)
_CREATOR: Final = ACL(_ALL, Id("auth", ""))
_WORLD_READS: Final = ACL(_READ, Id("world", "anyone"))


class ZooKeeperAccess(NamedTuple):
    """Chroot and security of a cluster's ZooKeeper clients.

    Args:
        chroot: path of the cluster's root znode; empty for `/`.
        secure: the clients log in and set ACLs.
    """

    chroot: str = ""
    secure: bool = False

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password of the login; None without security."""
        return (USER, PASSWORD) if self.secure else None

    def acl(self, path: str, version: KafkaVersion) -> tuple[ACL, ...]:
        """Return the ACL that a release gives to a new znode at a path, without the chroot.

        >>> from simzk.kafka.releases.versions import kafka_version
        >>> ZooKeeperAccess(secure=True).acl("/config/users/a", kafka_version("3.9"))
        (ACL(perms=31, id=Id(scheme='auth', id='')),)
        """
        if not self.secure or path in version.znodes.unprotected_paths:
            return OPEN_ACL
        return (_CREATOR,) if path.startswith(version.znodes.sensitive_paths) else (_CREATOR, _WORLD_READS)

    def send(self, request: Request) -> Request:
        """Return a request with the chroot added to its paths.

        >>> from simzk.zookeeper.requests import Exists
        >>> ZooKeeperAccess("/kafka").send(Exists("/brokers", False)).path
        '/kafka/brokers'
        """
        if not self.chroot:
            return request
        if isinstance(request, Multi):
            return Multi(tuple(self.send(part) for part in request.operations))  # type: ignore[misc]
        if isinstance(request, SetWatches):
            return request._replace(
                data=self._add_chroot(request.data),
                exist=self._add_chroot(request.exist),
                child=self._add_chroot(request.child),
            )
        path = getattr(request, "path", None)
        return request if path is None else request._replace(path=self.below(path))  # type: ignore[call-arg]

    def receive(self, reply: Reply) -> Reply:
        """Return a reply with the chroot removed; only replies to creates contain paths."""
        body = reply.body
        if self.chroot and isinstance(body, str):
            return reply._replace(body=self.above(body))
        if self.chroot and isinstance(body, list) and body and isinstance(body[0], OperationResult):
            parts = [part._replace(body=self.above(part.body)) if isinstance(part.body, str) else part for part in body]
            return reply._replace(body=parts)
        return reply

    def below(self, path: str) -> str:
        """Return a path with the chroot added."""
        return self.chroot + path if path != "/" else self.chroot or "/"

    def above(self, path: str) -> str:
        """Return a path with the chroot removed."""
        return path.removeprefix(self.chroot) or "/"

    def _add_chroot(self, found: tuple[str | None, ...] | None) -> tuple[str | None, ...] | None:
        return None if found is None else tuple(path and self.below(path) for path in found)


AT_THE_ROOT: Final = ZooKeeperAccess()


def access_of(chroot: str, *, secure: bool, oldest: KafkaVersion) -> ZooKeeperAccess:
    """Return the access that a cluster's options describe.

    Args:
        chroot: path of the cluster's root znode; empty for `/`.
        secure: `zookeeper.set.acl`.
        oldest: the oldest release among the brokers.

    Raises:
        ConfigError: the chroot is no path, or the release sets no ACLs.
    """
    if secure and oldest.number < _FIRST_WITH_ACLS:
        raise ConfigError(f"Kafka {oldest.name} sets no ACLs", where="zookeeper_set_acl", right="0.9 or later")
    if chroot and (not chroot.startswith("/") or chroot.endswith("/") or "//" in chroot):
        raise ConfigError(f"{chroot!r} is no chroot", where="zookeeper_chroot", right="such as /kafka")
    return ZooKeeperAccess(chroot, secure)


class KafkaTree(Protocol):
    """Znodes of a cluster by the paths that Kafka uses."""

    def get(self, path: str) -> Znode | None:
        """Return a znode; None if it does not exist."""

    def walk(self) -> Iterator[tuple[str, Znode]]:
        """Yield all znodes with their paths."""

    def __contains__(self, path: str) -> bool: ...


class ObservableTree(Protocol):
    """Tree with observers of its transactions."""

    @property
    def tree(self) -> KafkaTree:
        """The present znodes."""

    @property
    def on_transaction(self) -> Observers:
        """Observers, called with each transaction when it is applied."""


class ChrootView:
    """Part of a server's tree below a chroot, with the chroot removed from all paths."""

    def __init__(self, server: Server, access: ZooKeeperAccess) -> None:
        self._server = server
        assert access.chroot, "a cluster at the root needs no view"
        self._access = access
        self.on_transaction = Observers()
        server.on_transaction.append(self._observe)

    @property
    def tree(self) -> KafkaTree:
        return self

    def get(self, path: str) -> Znode | None:
        return self._server.tree.get(self._access.below(path))

    def walk(self) -> Iterator[tuple[str, Znode]]:
        for path, node in self._server.tree.walk():
            if self._is_below(path):
                yield self._access.above(path), node

    def __contains__(self, path: str) -> bool:
        return self._access.below(path) in self._server.tree

    def _is_below(self, path: str) -> bool:
        return path == self._access.chroot or path.startswith(f"{self._access.chroot}/")

    def _observe(self, transaction: txns.Transaction) -> None:
        translated = transaction._replace(record=self._record(transaction.record))
        for observe in self.on_transaction:
            observe(translated)

    def _record(self, record: txns.Record) -> txns.Record:
        """Return a record with the chroot removed from its paths."""
        if isinstance(record, txns.MultiTxn):
            return record._replace(records=tuple(self._record(part) for part in record.records))  # type: ignore[misc]
        if isinstance(record, txns.CloseSessionTxn):
            return record._replace(paths=tuple(self._access.above(p) for p in record.paths if self._is_below(p)))
        path = getattr(record, "path", None)
        if path is None:
            return record
        if not self._is_below(path):
            return txns.ErrorTxn(0)  # outside the chroot: no observer of the cluster acts on it
        return record._replace(path=self._access.above(path))  # type: ignore[call-arg]
