"""Recorder of the latest requests to one server with their results, of watch events, and of ends of sessions.

Rules of this module:
  - a request is recorded when it arrives, its result when the reply is sent; a request without a reply has no result;
  - memory is bounded by the number of records and by the data of large requests; the oldest records go first;
  - the recorder runs on the fast path of every request, so one request costs one small object and no formatting;
  - paths are those of the server: a client's chroot is part of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.zookeeper.operations import BY_REQUEST, operation_and_paths
from simzk.zookeeper.replies import Code, EventType
from simzk.zookeeper.requests import Multi
from simzk.zookeeper.transactions import CloseSessionTxn, CreateSessionTxn

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.client import KazooClient

    from simzk.zookeeper.replies import Reply, WatchedEvent
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.transactions import Transaction

RECORDS_MAX = 10_000
"""Number of requests, watch events and session changes that are stored; then the oldest are forgotten."""
LARGE_BYTES = 1024
"""Size from which on the data of a request counts as large."""
LARGE_BYTES_MAX = 16 << 20
"""Size of the data of all stored large requests; then the oldest records are forgotten."""

_new = tuple.__new__
_WITH_DATA = frozenset(kind for kind in BY_REQUEST if "data" in getattr(kind, "_fields", ()) or kind is Multi)


class RecordedRequest(NamedTuple):
    """A request that reached the server, with its result.

    Args:
        at_ms: the server's time when it arrived.
        client: the kazoo client that sent it, if the server's object made the client; else None.
        session_id: the session that sent it.
        op: the operation, named like kazoo's method: "create", "transaction".
        paths: the paths, from the server's root; of a transaction those of its operations.
        request: the request with all fields, as `simzk.zookeeper.requests` defines them.
        answered: whether the reply was sent.
        error: kazoo's exception class of the reply; None for success, and without a reply.
        zxid: the zxid of the reply; 0 without a reply.
    """

    at_ms: int
    client: KazooClient | None
    session_id: int
    op: str
    paths: tuple[str, ...]
    request: Request
    answered: bool
    error: type[Exception] | None
    zxid: int

    @property
    def path(self) -> str:
        """The first path; empty if the request has none."""
        return self.paths[0] if self.paths else ""

    @property
    def data(self) -> bytes | None:
        """The data that the request writes; None if it writes none."""
        data: bytes | None = getattr(self.request, "data", None)
        return data


class Answered(NamedTuple):
    """A recorded request with its result, made in one step on the fast path."""

    at_ms: int
    session_id: int
    request: Request
    error: int
    zxid: int


class Pending:
    """A recorded request whose reply is sent later; `error` is None until then."""

    __slots__ = ("at_ms", "error", "request", "session_id", "zxid")

    def __init__(self, at_ms: int, session_id: int, request: Request) -> None:
        self.at_ms: int = at_ms
        self.session_id: int = session_id
        self.request: Request = request
        self.error: int | None = None
        self.zxid: int = 0

    def answer(self, reply: Reply) -> None:
        """Set the result. A failed transaction has the error of the operation that failed, as kazoo reports it."""
        assert self.error is None, "a request is answered once"
        _, self.zxid, self.error, results = reply
        if self.request.__class__ is Multi and isinstance(results, list):
            # Operations before the failed one have error 0, those after it RUNTIME_INCONSISTENCY.
            errors = [result.error for result in results if result.error not in (0, Code.RUNTIME_INCONSISTENCY)]
            self.error = errors[0] if errors else self.error


Exchange: TypeAlias = Answered | Pending


class RecordedNotice(NamedTuple):
    """A recorded watch event, change of a session, or verb of the test: `what` happened, to which znode.

    Of a verb that is about no session, the session id is 0.
    """

    at_ms: int
    session_id: int
    what: str
    path: str = ""


class RequestRecorder:
    """The latest requests, watch events and session changes of one server.

    Args:
        records_max: number of records to store.
        large_bytes_max: size of the data of all stored large requests.

    >>> from simzk.zookeeper.requests import GetData
    >>> recorder = RequestRecorder(records_max=2)
    >>> for path in ("/a", "/b", "/c"):
    ...     _ = recorder.begin(0, 7, GetData(path, False))
    >>> [exchange.request.path for exchange in recorder.exchanges()]
    ['/b', '/c']
    """

    def __init__(self, records_max: int = RECORDS_MAX, large_bytes_max: int = LARGE_BYTES_MAX) -> None:
        assert records_max > 0, "a recorder without room"
        self._records: deque[Exchange | RecordedNotice] = deque(maxlen=records_max)
        self._large_bytes_max = large_bytes_max
        self._large_bytes = 0  # at least the size of stored large requests, as forgotten ones count until the next scan
        self.append: Callable[[Exchange | RecordedNotice], None] = self._records.append

    def add(self, at_ms: int, session_id: int, request: Request, reply: Reply) -> None:
        """Record a request that is answered at once."""
        kind = request.__class__
        if kind in _WITH_DATA:
            self.begin(at_ms, session_id, request).answer(reply)
        else:
            self.append(_new(Answered, (at_ms, session_id, request, reply[2], reply[1])))

    def begin(self, at_ms: int, session_id: int, request: Request) -> Pending:
        """Record a request; the caller calls `answer` when the reply is sent."""
        pending = Pending(at_ms, session_id, request)
        self.append(pending)
        if request.__class__ in _WITH_DATA:
            size = data_bytes_of(request)
            if size > LARGE_BYTES:
                self._large_bytes += size
                if self._large_bytes > self._large_bytes_max:
                    self._forget()
        return pending

    def note_event(self, at_ms: int, session_id: int, event: WatchedEvent) -> None:
        """Record a watch event that is sent to a session."""
        self.append(RecordedNotice(at_ms, session_id, f"watch event {EventType(event.type).name}", event.path))

    def note_verb(self, at_ms: int, what: str, session_id: int = 0) -> None:
        """Record what a test does to the server, or to a session."""
        assert what, "a verb says what it does"
        self.append(RecordedNotice(at_ms, session_id, what))

    def note_transaction(self, transaction: Transaction) -> None:
        """Record the begin or the end of a session; ignore other transactions."""
        record = transaction.record
        if record.__class__ is CloseSessionTxn:
            # A client that closes its session sends a request with an xid; the server expires it without one.
            what = "session closed" if transaction.cxid else "session expired"
            self.append(RecordedNotice(transaction.time_ms, transaction.session_id, what))
        elif record.__class__ is CreateSessionTxn:
            self.append(RecordedNotice(transaction.time_ms, transaction.session_id, "session opened"))

    def _forget(self) -> None:
        """Forget the oldest records until large requests use half of their bytes; the newest record stays."""
        records = self._records
        self._large_bytes = sum(_large_bytes_of(record) for record in records)
        if self._large_bytes > self._large_bytes_max:
            while len(records) > 1 and self._large_bytes > self._large_bytes_max // 2:
                self._large_bytes -= _large_bytes_of(records.popleft())
        assert self._large_bytes >= 0, "more large requests are forgotten than stored"

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()
        self._large_bytes = 0

    def mark(self) -> RecordedNotice:
        """Record a mark, and return it for `records`."""
        notice = RecordedNotice(0, 0, "")
        self.append(notice)
        return notice

    def records(self, since: RecordedNotice | None = None) -> list[Exchange | RecordedNotice]:
        """Return the stored records, oldest first: those after a mark, or all if it is None or forgotten."""
        found = list(self._records)
        for place, record in enumerate(found):
            if record is since:
                found = found[place + 1 :]
                break
        return [record for record in found if record.session_id or (isinstance(record, RecordedNotice) and record.what)]

    def exchanges(self, since: RecordedNotice | None = None) -> list[Exchange]:
        """Return the stored requests, oldest first; `since` as for `records`."""
        return [record for record in self.records(since) if not isinstance(record, RecordedNotice)]


def data_bytes_of(request: Request) -> int:
    """Return the size of the data in a request.

    >>> from simzk.zookeeper.requests import OPEN_ACL, Create
    >>> data_bytes_of(Multi((Create("/a", b"12", OPEN_ACL, 0), Create("/b", b"345", OPEN_ACL, 0))))
    5
    """
    if isinstance(request, Multi):
        return sum(len(getattr(operation, "data", None) or b"") for operation in request.operations)
    return len(getattr(request, "data", None) or b"")


def _large_bytes_of(record: Exchange | RecordedNotice) -> int:
    size = 0 if isinstance(record, RecordedNotice) else data_bytes_of(record.request)
    return size if size > LARGE_BYTES else 0


def public_form(exchange: Exchange, client: KazooClient | None) -> RecordedRequest:
    """Return a recorded request as tests see it."""
    from kazoo.exceptions import EXCEPTIONS, ZookeeperError  # imported late: a server may have no kazoo clients

    op, paths = operation_and_paths(exchange.request)
    error = EXCEPTIONS.get(exchange.error, ZookeeperError) if exchange.error else None
    answered = exchange.error is not None
    return RecordedRequest(
        exchange.at_ms, client, exchange.session_id, op, paths, exchange.request, answered, error, exchange.zxid
    )
