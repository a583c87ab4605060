"""Clients of a `Server` for tests: one call per request, and the messages sent to each client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Closed, ConnectResponse, Outgoing, Reply, WatchedEvent
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from simzk.zookeeper.sessions import password_of

if TYPE_CHECKING:
    from simzk.zookeeper.connection import Connection

SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="


class Client:
    """One client: its connection, and all that it was sent."""

    def __init__(self, story: Story, connection: Connection) -> None:
        self._story = story
        self.connection = connection
        self.sent: list[Outgoing] = []
        self._xid = 0

    def ask(self, request: req.Request) -> Reply:
        """Return the reply to a request; earlier messages are in `sent`."""
        self._xid += 1
        story = self._story
        story.now_ms += 1
        story.server.handle(self.connection, self._xid, request, story.now_ms)
        story.flush()
        replies = [said for said in self.sent if isinstance(said, Reply)]
        assert replies, "a live connection is answered"
        return replies[-1]

    def body(self, request: req.Request) -> Any:
        """The body of a reply that is no error."""
        reply = self.ask(request)
        assert reply.error == 0, f"{request}: {reply.error}"
        return reply.body

    def error(self, request: req.Request) -> int:
        return int(self.ask(request).error)

    def create(self, path: str, data: bytes | None = b"", flags: int = 0) -> str:
        made: str = self.body(req.Create(path, data, OPEN_ACL, flags))
        return made

    def events(self) -> list[tuple[str, str]]:
        """The events that came since this was last asked, as (kind, path)."""
        taken = [(said.type.name if hasattr(said.type, "name") else "?", said.path) for said in self._events()]
        self.sent = [said for said in self.sent if not isinstance(said, WatchedEvent)]
        return taken

    def _events(self) -> list[WatchedEvent]:
        return [said for said in self.sent if isinstance(said, WatchedEvent)]

    @property
    def response(self) -> ConnectResponse:
        return next(said for said in self.sent if isinstance(said, ConnectResponse))

    @property
    def was_closed(self) -> bool:
        return any(isinstance(said, Closed) for said in self.sent)


class Story:
    """A server and its clients, checked after every step."""

    def __init__(self, config: ServerConfig | None = None) -> None:
        self.server = Server(config or ServerConfig(tick_time_ms=500, extended_types=True, super_digest=SUPER_DIGEST))
        self.now_ms = 0
        self._clients: dict[Connection, Client] = {}

    def client(self, timeout_ms: int = 10_000, *, address: str = "127.0.0.1", **fields: Any) -> Client:
        """A connected client; `fields` are those of its ConnectRequest."""
        self.now_ms += 1
        request = req.ConnectRequest(0, 0, timeout_ms, 0, None, False)._replace(**fields)
        connection = self.server.connect(request, self.now_ms, address=address)
        self._clients[connection] = client = Client(self, connection)
        self.flush()
        return client

    def resume(self, client: Client, password: bytes | None = None, timeout_ms: int = 10_000) -> Client:
        """A second connection for a client's session."""
        session_id = client.connection.session_id
        return self.client(timeout_ms, session_id=session_id, password=password or password_of(session_id))

    def tick_to(self, now_ms: int) -> None:
        """Let time run from deadline to deadline until `now_ms`."""
        while (deadline_ms := self.server.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            self.now_ms = deadline_ms
            self.server.tick(deadline_ms)
            self.flush()
        self.now_ms = max(self.now_ms, now_ms)

    def flush(self) -> None:
        for connection, messages in self.server.take_output():
            self._clients[connection].sent.extend(messages)
        self.server.check()
