"""Tree of a live ZooKeeper, read by kazoo sessions that limit their load. Spark is not needed.

Rules of this module:
  - the load on the server is bounded: at most `in_flight` requests are in flight, `pause_s` passes between batches,
    and every session is closed;
  - the cluster keeps changing: a znode deleted before its request is omitted, a znode created meanwhile may be missing;
  - a lost connection is retried with its unanswered requests, because all requests are reads;
  - a znode that the session may not read is reported, not skipped silently.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import ConfigurationError, KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry, RetryFailedError

from simzk.errors import ConfigError
from simzk.pipeline.data_source import acl_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

IN_FLIGHT = 32
"""Default number of requests in flight: few enough to leave the server to its other clients."""

PATIENCE_S = 15.0
"""Timeout of a reply and of a reconnection."""

_PORTIONS_PER_TASK = 16
"""Subtrees differ much in size, so each task gets several."""


class Guest:
    """One kazoo session that limits its load on the server.

    Args:
        client: a started client.
        in_flight: maximum number of requests in flight.
        pause_s: pause between batches, in seconds.
        wait: sleep function.
    """

    def __init__(
        self,
        client: KazooClient,
        in_flight: int = IN_FLIGHT,
        pause_s: float = 0.0,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.client = client
        self.in_flight = in_flight
        self._pause_s = pause_s
        self._wait = wait
        self._began = False
        self._retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=2.0, deadline=PATIENCE_S)

    def ask(self, method: str, paths: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Send the same request for many znodes.

        Args:
            method: kazoo method without `_async`: `get`, `exists`, `get_children`, `get_acls`.
            paths: paths of the znodes.

        Returns:
            path and reply, in the order of the paths; the reply may be a NoAuthError. A deleted znode is omitted.
        """
        start = getattr(self.client, f"{method}_async")
        again = getattr(self.client, method)
        for lot in _lots(paths, self.in_flight):
            if self._began and self._pause_s:
                self._wait(self._pause_s)
            self._began = True
            for path, request in [(path, start(path)) for path in lot]:
                try:
                    yield path, self._answer(request, again, path)
                except NoNodeError:
                    continue

    def _answer(self, request: Any, again: Callable[[str], Any], path: str) -> Any:
        try:
            return request.get(timeout=PATIENCE_S)
        except NoAuthError as error:
            return error
        except self._retry.retry_exceptions:
            try:
                return self._retry.copy()(again, path)
            except NoAuthError as error:
                return error


class Portion(NamedTuple):
    """Znodes and subtrees that one task reads."""

    alone: tuple[str, ...]
    subtrees: tuple[str, ...]


@contextmanager
def session(hosts: str, auth: str = "") -> Iterator[KazooClient]:
    """Open a session and close it at the end.

    Args:
        hosts: hosts with an optional chroot: `host:port,host:port/chroot`.
        auth: `SCHEME:CREDENTIAL`; empty for none.

    Raises:
        ConfigError: the server does not answer, or stops answering.
    """
    scheme, _, credential = auth.partition(":")
    try:
        client = KazooClient(hosts, read_only=True, auth_data=[(scheme, credential)] if auth else None)
    except (ValueError, ConfigurationError) as error:
        raise ConfigError("invalid server address", where=hosts, right="HOST:PORT[,HOST:PORT...][/chroot]") from error
    try:
        client.start(PATIENCE_S)
        yield client
    except (KazooTimeoutError, RetryFailedError, KazooException) as error:
        nobody = isinstance(error, KazooTimeoutError | RetryFailedError)
        what = "no server answers" if nobody else f"it cannot be read: {error!r}"
        raise ConfigError(what, where=hosts, right="a running ZooKeeper, HOST:PORT[/chroot]") from error
    finally:
        client.stop()
        client.close()


def split(guest: Guest, root: str, tasks: int, prefix: str = "") -> list[Portion]:
    """Split a tree into portions of subtrees by reading only its upper levels.

    Args:
        guest: who asks.
        root: the topmost znode.
        tasks: maximum number of portions.
        prefix: prefix of the requested paths among the root's children; empty for all.

    Raises:
        ConfigError: the root does not exist.
    """
    if not is_there(guest, root):
        raise ConfigError("the znode does not exist", where=root, right="the path of an existing znode")
    alone: list[str] = []
    level = [root]
    while level and len(level) < tasks * _PORTIONS_PER_TASK:
        below: list[str] = []
        for path, names in guest.ask("get_children", level):
            alone.append(path)
            children = [] if isinstance(names, NoAuthError) else _join(path, names)
            below += [child for child in children if path != root or child.startswith(prefix)]
        level = sorted(below)
    portions = [Portion(tuple(alone[task::tasks]), tuple(level[task::tasks])) for task in range(tasks)]
    return [portion for portion in portions if portion.alone or portion.subtrees]


def is_there(guest: Guest, path: str) -> bool:
    """Return whether a znode exists, readable or not."""
    return any(found is not None for _, found in guest.ask("exists", [path]))


def tree_rows(guest: Guest, name: str, portion: Portion) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a portion, with the columns of `snapshot_table.snapshot_schema`.

    Args:
        guest: who asks.
        name: name of the server for the column `file`.
        portion: znodes and subtrees, including their top znodes.
    """
    for row, _ in _znodes(guest, name, portion.alone):
        yield row
    # Depth first, a lot at a time: what waits to be read is a few lists of names, however large the tree.
    waiting: list[Sequence[str]] = [portion.subtrees]
    while waiting:
        lot = waiting.pop()
        parents: list[str] = []
        for row, path in _znodes(guest, name, lot[: guest.in_flight]):
            yield row
            if path:
                parents.append(path)
        if lot[guest.in_flight :]:
            waiting.append(lot[guest.in_flight :])
        for path, names in guest.ask("get_children", parents):
            if not isinstance(names, NoAuthError):
                waiting.append(_join(path, names))


def _znodes(guest: Guest, name: str, paths: Sequence[str]) -> Iterator[tuple[tuple[object, ...], str]]:
    """Yield the row of each znode, with its path if it has children."""
    acls = dict(guest.ask("get_acls", paths))
    hidden: list[str] = []
    for path, found in guest.ask("get", paths):
        if isinstance(found, NoAuthError):
            hidden.append(path)
        else:
            data, stat = found
            yield _row(name, path, data, acls.get(path), stat, None), path if stat.numChildren else ""
    # Before ZooKeeper 3.8.4 and 3.9.2 everybody may know a Stat (docs/reference/zookeeper.md §1).
    for path, stat in guest.ask("exists", hidden):
        damage = f"{path} may not be read by this session"
        if isinstance(stat, NoAuthError):
            yield (name, path, *(None,) * 11, damage), ""
        elif stat is not None:
            yield _row(name, path, None, acls.get(path), stat, damage), ""


def _row(name: str, path: str, data: bytes | None, acls: Any, stat: Any, damage: str | None) -> tuple[object, ...]:
    # Between its ACL and its data a znode may have been deleted.
    acl = None if acls is None or isinstance(acls, NoAuthError) else acl_value(tuple(acls[0]))
    return (
        name,
        path,
        data,
        acl,
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.ctime * 1000,
        stat.mtime * 1000,
        stat.version,
        # A Stat counts the changes of the children, a snapshot those that came (docs/reference/zookeeper.md §2.1).
        (stat.cversion + stat.numChildren) // 2,
        stat.aversion,
        stat.ephemeralOwner,
        damage,
    )


def _join(path: str, names: Iterable[str]) -> list[str]:
    """Return the sorted paths of children.

    >>> _join("/", ["b", "a"]), _join("/a", ["b"])
    (['/a', '/b'], ['/a/b'])
    """
    return [f"{path.rstrip('/')}/{name}" for name in sorted(names)]


def _lots(paths: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(paths)
    while lot := list(islice(rest, size)):
        yield lot
