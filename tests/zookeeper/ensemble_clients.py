"""Clients of an `Ensemble` without sockets, which record requests and replies and check the guarantees of §7."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Closed, ConnectResponse, Reply, WatchedEvent

if TYPE_CHECKING:
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.ensemble import Ensemble, Member
    from simzk.zookeeper.replies import Outgoing

NOTHING = -1
KEY = "/key"


class Asked(NamedTuple):
    """Request in flight; after a sync, reads of the key must show the write of a zxid, or a later one."""

    request: req.Request
    seen_zxid: int


class Client:
    """One client: it keeps its session over connections, as the real ones do."""

    def __init__(self, ensemble: Ensemble, address: str = "127.0.0.1") -> None:
        self._ensemble = ensemble
        self._address = address
        self.connection: Connection | None = None
        self.member: Member | None = None
        self.session: ConnectResponse | None = None
        self.zxid = 0
        self.received: list[Outgoing] = []
        self.asked: dict[int, Asked] = {}
        self.written = NOTHING  # zxid of its own last write of the key that was acknowledged
        self.synced = NOTHING  # zxid of the write of the key that every later read must show
        self._xid = 0

    def connect(self, server: int, now_ms: int, *, read_only: bool = False, timeout_ms: int = 10_000) -> None:
        """Go to a server, with the session that it has."""
        self.leave()
        session_id, password = (0, None) if self.session is None else (self.session.session_id, self.session.password)
        request = req.ConnectRequest(0, self.zxid, timeout_ms, session_id, password, read_only)
        self.member = self._ensemble.members[server]
        self.connection = self.member.connect(request, now_ms, address=self._address, owner=self)
        deliver(self._ensemble)

    def leave(self) -> None:
        """Cut its connection."""
        if self.connection is not None and self.member is not None:
            self.member.disconnect(self.connection)
        self.connection = None
        self.asked.clear()

    def ask(self, request: req.Request, now_ms: int, seen_zxid: int = NOTHING) -> int:
        """Send a request; its xid."""
        assert self.connection is not None
        assert self.member is not None
        self._xid += 1
        self.asked[self._xid] = Asked(request, seen_zxid)
        self.member.handle(self.connection, self._xid, request, now_ms)
        deliver(self._ensemble)
        return self._xid

    @property
    def is_connected(self) -> bool:
        return self.connection is not None and not self.connection.closed

    def reply_to(self, xid: int) -> Reply | None:
        """The reply to a request, or None as long as there is none."""
        return next(
            (reported for reported in self.received if isinstance(reported, Reply) and reported.xid == xid), None
        )

    @property
    def events(self) -> list[WatchedEvent]:
        return [reported for reported in self.received if isinstance(reported, WatchedEvent)]

    def hear(self, connection: Connection, outgoing: list[Outgoing]) -> None:
        """Process a message of the server; ignore messages of earlier connections."""
        if connection is not self.connection:
            return
        self.received += outgoing
        for message in outgoing:
            match message:
                case ConnectResponse(session_id=0):
                    self.session = None
                    self.zxid, self.written, self.synced = 0, NOTHING, NOTHING
                case ConnectResponse():
                    self.session = message
                case Reply():
                    self._heed(message)
                case Closed():
                    self.connection = None
                    self.asked.clear()

    def _heed(self, reply: Reply) -> None:
        if reply.xid == -2:
            return
        request, seen_zxid = self.asked.pop(reply.xid)
        assert next(iter(self.asked), reply.xid + 1) > reply.xid, "replies keep the order of their requests"
        assert reply.zxid >= self.zxid, "a session never goes back"
        self.zxid = reply.zxid
        if reply.error:
            return
        match request:
            case req.SetData():
                self.written = reply.zxid
            case req.Sync():
                self.synced = max(self.synced, seen_zxid)
            case req.GetData():
                stat = reply.body[1]  # type: ignore[index]  # the data and the Stat
                assert stat.mzxid >= max(self.written, self.synced), "what it wrote, and what it synced to, it reads"


def deliver(ensemble: Ensemble) -> None:
    """Bring everything that the servers have to say to whom it is for."""
    for member in ensemble.members.values():
        for connection, outgoing in member.take_output():
            assert isinstance(connection.owner, Client)
            connection.owner.hear(connection, outgoing)


def create(path: str, flags: int = 0) -> req.Create:
    return req.Create(path, b"", req.OPEN_ACL, flags)


def connected(ensemble: Ensemble, server: int, now_ms: int = 0, *, timeout_ms: int = 10_000) -> Client:
    """A client with a session."""
    client = Client(ensemble)
    client.connect(server, now_ms, timeout_ms=timeout_ms)
    assert client.session is not None
    return client


def answer(client: Client, request: req.Request, now_ms: int = 0) -> Reply:
    """The reply to a request that need not wait."""
    reply = client.reply_to(client.ask(request, now_ms))
    assert reply is not None
    return reply
