"""Many requests in one object: what nobody sends over a wire, and a server takes for the requests that it means.

Rules of this module:
  - a batch of n means its n requests, pipelined: each has the next xid, takes its zxid if it writes, fails alone, and
    tells its watchers, one after the other, nothing between them;
  - how it is served is its own affair, as long as nobody can tell that it was not one by one; `serve` is free to ask
    them one by one, which is what it does unless a batch knows a shorter way;
  - its one reply has the last of its xids, and a body that says what the replies say.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from simzk.zookeeper.replies import Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Server


class Batch:
    """Requests of one client, in order.

    It has no metaclass, for every request is asked whether it is one.
    """

    @abstractmethod
    def __len__(self) -> int:
        """How many requests it means."""

    @abstractmethod
    def requests(self) -> Iterator[Request]:
        """The requests that it means, in order."""

    @abstractmethod
    def assemble(self, replies: Sequence[Reply]) -> object:
        """The body of its reply, from the replies to its requests."""

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        """Those of its requests that may have set watches, and their errors, by the body of its reply."""
        return ()

    def answer(self, server: Server, connection: Connection, xid: int, now_ms: int) -> Reply:
        """Its reply; arguments as of `serve`."""
        body = self.serve(server, connection, xid, now_ms)
        return Reply(xid + max(len(self), 1) - 1, server.zxid, 0, body)

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> object:
        """The body of its reply, once the server has done what it means.

        Args:
            server: where it is done.
            connection: who asks; open.
            xid: of its first request.
            now_ms: the present time.
        """
        return self.assemble(
            [ask(server, connection, xid + place, one, now_ms) for place, one in enumerate(self.requests())]
        )


class Requests(Batch):
    """Any requests; the reply is the list of their replies."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests

    def __len__(self) -> int:
        return len(self._requests)

    def requests(self) -> Iterator[Request]:
        return iter(self._requests)

    def assemble(self, replies: Sequence[Reply]) -> list[Reply]:
        return list(replies)

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        assert isinstance(body, list)
        return zip(self._requests, (reply.error for reply in body), strict=True)


def ask(server: Server, connection: Connection, xid: int, request: Request, now_ms: int) -> Reply:
    """Do one request of a batch: its reply, which is not sent; what it tells others is."""
    server.handle(connection, xid, request, now_ms)
    reply = connection.outgoing.pop()
    assert isinstance(reply, Reply)
    return reply
