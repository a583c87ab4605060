"""A live server's tree, read through kazoo as a guest would: few requests at once, pauses, sessions that are closed.

Rules of this module:
  - what is asked for together is answered before more is asked: never more than `in_flight` requests are under way, and
    `pause_s` passes before the next of them;
  - the cluster goes on meanwhile: a znode that is gone when its turn comes is left out, one that appears behind the
    reader's back is not missed by anybody;
  - a connection that is lost is waited for, and what it left unanswered is asked again: everything here only reads;
  - what the session may not read is told, not passed over.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConfigurationError, KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry, RetryFailedError

from simzk.errors import ConfigError
from simzk.pipeline.columns import acl_value
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

IN_FLIGHT = 32
"""Requests under way at once where nothing else is said: enough to get on, few enough to leave a server to others."""

PATIENCE_S = 15.0
"""How long an answer, or a server that went away, is waited for."""

_PORTIONS_PER_TASK = 16
"""Subtrees are very unequal in size: a task is dealt several, and all but the smallest trees have enough of them."""


class Guest:
    """A session, and how politely it asks.

    Args:
        client: one that was started.
        in_flight: the most requests that are under way at once.
        pause_s: waited between one such lot and the next.
        wait: what waits, `time.sleep`.
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
        """Ask the same of many znodes.

        Args:
            method: kazoo's, without `_async`: `get`, `exists`, `get_children`, `get_acls`.
            paths: of the znodes.

        Returns:
            path and answer, in the order of the paths; for an answer there may stand NoAuthError. A znode that is gone
            is left out.
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
    """What one task reads: znodes by themselves, and subtrees."""

    alone: tuple[str, ...]
    subtrees: tuple[str, ...]


@contextmanager
def session(hosts: str, auth: str = "") -> Iterator[KazooClient]:
    """A session that is closed at the end.

    Args:
        hosts: as clients write them, with a chroot or without: `host:port,host:port/chroot`.
        auth: `SCHEME:CREDENTIAL` to give to the server; empty for none.

    Raises:
        ConfigError: nobody answers there, or goes on answering.
    """
    scheme, _, credential = auth.partition(":")
    try:
        client = KazooClient(hosts, read_only=True, auth_data=[(scheme, credential)] if auth else None)
    except (ValueError, ConfigurationError) as error:
        raise ConfigError("no server is named so", where=hosts, right="HOST:PORT[,HOST:PORT...][/chroot]") from error
    try:
        client.start(PATIENCE_S)
        yield client
    except (KazooTimeoutError, RetryFailedError, KazooException) as error:
        nobody = isinstance(error, KazooTimeoutError | RetryFailedError)
        what = "nobody answers" if nobody else f"it cannot be read: {error!r}"
        raise ConfigError(what, where=hosts, right="a running ZooKeeper, HOST:PORT[/chroot]") from error
    finally:
        client.stop()
        client.close()


def split(guest: Guest, root: str, tasks: int, prefix: str = "") -> list[Portion]:
    """Cut a tree into portions of subtrees, by looking at its upper levels only.

    Args:
        guest: who asks.
        root: the topmost znode.
        tasks: how many portions there are at most.
        prefix: how the paths begin that are wanted among the root's children; empty for all of them.

    Raises:
        ConfigError: there is no such root.
    """
    if not is_there(guest, root):
        raise ConfigError("there is no such znode", where=root, right="the path of one that is there")
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
    """Whether there is a znode, hidden or not."""
    return any(found is not None for _, found in guest.ask("exists", [path]))


def tree_rows(guest: Guest, name: str, portion: Portion) -> Iterator[tuple[object, ...]]:
    """The rows of a portion, in the columns of `snapshot_table.snapshot_schema`.

    Args:
        guest: who asks.
        name: of the server, as it stands in the column `file`.
        portion: what is read; of a subtree its top too.
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
    """Of each znode its row, and its path again where it has children."""
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
    """The paths of children, in order.

    >>> _join("/", ["b", "a"]), _join("/a", ["b"])
    (['/a', '/b'], ['/a/b'])
    """
    return [f"{path.rstrip('/')}/{name}" for name in sorted(names)]


def _lots(paths: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(paths)
    while lot := list(islice(rest, size)):
        yield lot
