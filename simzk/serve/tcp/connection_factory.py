"""How many sessions may be asked for in how short a time: a bucket of tokens, and chance where it stays empty (BLUE).

Rules of this module:
  - who finds too few tokens, or has bad luck, is cut off before anything is looked at;
  - time comes in as a number; chance is drawn by whoever made the throttle.

Source: BlueThrottle, ZooKeeperServer.processConnectRequest.

One port of a server: its listener, and the connections that came by it.

Rules of this module:
  - what limits connections (maxClientCnxns, maxCnxns) counts those of one port, as does what lists them;
  - a port speaks plainly, by TLS, or both (client.portUnification): there the first byte of a connection tells, for no
    length of a request and no four-letter word begins as a record of TLS does;
  - who has not said anything there has no connection yet.

Source: ServerCnxnFactory, NettyServerCnxnFactory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from simzk.serve.tcp.addresses import name_of
from simzk.serve.tcp.connection import TcpConnection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from simzk.serve.tcp.server import TcpServer
    from simzk.zookeeper.requests import ConnectRequest


class Throttle(NamedTuple):
    """What is asked of it (connection_throttle_*).

    Attributes:
        tokens: how many the bucket holds; 0 for no throttle.
        fill_time_ms: after so long it gets
        fill_count: more.
        freeze_time_ms: how long the chance of being cut off stays as it is; -1 for no such chance.
        drop_increase: how much it grows where the bucket is found empty.
        drop_decrease: how much it falls where no more is gone than
        decrease_ratio: of the whole.
        weighs: whether sessions take tokens by their kind, and not one each; both `tokens` and `fill_count` are then
            those of sessions known to all servers.
        global_weight: of a new session.
        local_weight: of a new session that only its server knows.
        renew_weight: of a session that is taken up again.
    """

    tokens: int = 0
    fill_time_ms: int = 1
    fill_count: int = 1
    freeze_time_ms: int = -1
    drop_increase: float = 0.02
    drop_decrease: float = 0.002
    decrease_ratio: float = 0.0
    weighs: bool = False
    global_weight: int = 3
    local_weight: int = 1
    renew_weight: int = 2


class ConnectionThrottle:
    """The bucket of one server.

    Args:
        asked: how it works.
        now_ms: when it is full.
        chance: a number from 0 to 1, another one each time.
        local_sessions: whether new sessions are known only to their server.

    Attributes:
        drop_chance: of being cut off whatever the tokens.

    >>> throttle = ConnectionThrottle(Throttle(tokens=2, fill_time_ms=100), 0, lambda: 0.5)
    >>> throttle.takes(1, 0), throttle.takes(1, 0), throttle.takes(1, 100), throttle.takes(1, 101)
    (True, True, False, True)
    """

    def __init__(
        self, asked: Throttle, now_ms: int, chance: Callable[[], float], *, local_sessions: bool = False
    ) -> None:
        self._asked = asked
        self._chance = chance
        self._new_weight = asked.local_weight if local_sessions else max(asked.global_weight, asked.local_weight)
        factor = max(asked.global_weight, asked.local_weight) if asked.weighs else 1
        self._capacity, self._fill_count = factor * asked.tokens, factor * asked.fill_count
        self._tokens = self._capacity
        self._filled_ms = self._frozen_ms = now_ms
        self.drop_chance = 0.0

    @property
    def deficit(self) -> int:
        """How many tokens are gone."""
        return self._capacity - self._tokens

    def lets_in(self, request: ConnectRequest, now_ms: int) -> bool:
        """Whether a session may be asked for now; its tokens are gone then."""
        if not self._asked.weighs:
            return self.takes(1, now_ms)
        renew = max(self._asked.renew_weight, self._asked.local_weight)
        return self.takes(renew if request.session_id else self._new_weight, now_ms)

    def takes(self, need: int, now_ms: int) -> bool:
        """Whether so many tokens are there; they are gone then."""
        since_ms = now_ms - self._filled_ms
        if since_ms > self._asked.fill_time_ms:
            gained = since_ms * self._fill_count // self._asked.fill_time_ms
            self._tokens = min(self._tokens + gained, self._capacity)
            self._filled_ms = now_ms
        if (self._asked.freeze_time_ms != -1 and not self._is_lucky(now_ms)) or self._tokens < need:
            return False
        self._tokens -= need
        return True

    def _is_lucky(self, now_ms: int) -> bool:
        asked = self._asked
        if now_ms - self._frozen_ms > asked.freeze_time_ms:
            if self._tokens == 0 and self.drop_chance < 1:
                self.drop_chance = min(self.drop_chance + asked.drop_increase, 1.0)
            elif self.deficit <= round(self._capacity * asked.decrease_ratio) and self.drop_chance > 0:
                self.drop_chance = max(self.drop_chance - asked.drop_decrease, 0.0)
            self._frozen_ms = now_ms
        return self._chance() >= self.drop_chance


_FIRST_RECORD, _LAST_RECORD = 0x14, 0x18  # the types of TLS records, of which each begins with one
_RETRY_S = 1.0  # after which it accepts again where the process has no file left


class ConnectionFactory:
    """A listening port.

    Args:
        server: whose connections come by it.
        listener: bound already; what connects before `start` waits in the backlog.
        tls: what secures it, or None.
        plain: whether it speaks plainly, too.

    Attributes:
        is_secure: whether all that come by it are secured.
        name: where it listens, as clients write it.
        port: its number.
        connections: the open ones, oldest first.
    """

    def __init__(
        self, server: TcpServer, listener: socket.socket, tls: ssl.SSLContext | None = None, *, plain: bool = False
    ) -> None:
        self._server = server
        self._listener = listener
        self._tls = tls
        self._unifies = tls is not None and plain
        self.is_secure = tls is not None and not plain
        self.name = name_of(listener)
        self.port: int = listener.getsockname()[1]
        self.connections: dict[TcpConnection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._accepting: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # where it accepts by itself
        self._undecided: dict[socket.socket, asyncio.TimerHandle | None] = {}
        self._handshakes: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to accept connections on the running loop."""
        loop = asyncio.get_running_loop()
        if self._unifies:
            self._loop = loop
            self._listener.setblocking(False)
            loop.add_reader(self._listener, self._accept, loop)
            return
        self._accepting = await loop.create_server(
            self._connection, sock=self._listener, backlog=self._server.settings.backlog, ssl=self._tls
        )

    def close(self) -> None:
        """Refuse new connections; those that are open stay."""
        if self._accepting is not None:
            self._accepting.close()
        if self._loop is not None:
            self._loop.remove_reader(self._listener)
        self._listener.close()

    def abort(self) -> None:
        """Cut the connections that are open."""
        for undecided in list(self._undecided):
            self._decided(undecided).close()
        for handshake in self._handshakes:
            handshake.cancel()
        for connection in list(self.connections):
            connection.abort()

    def _connection(self) -> TcpConnection:
        return TcpConnection(self._server, self)

    # Who is let in

    def admit(self, connection: TcpConnection) -> bool:
        """Whether one more connection of its address is let in."""
        self.connections[connection] = None
        self._by_address[connection.peer[0]] += 1
        settings = self._server.settings
        of_address, in_all = settings.max_connections_per_address, settings.max_connections
        if 0 < of_address < self._by_address[connection.peer[0]]:
            return False
        return in_all <= 0 or len(self.connections) <= in_all

    def forget(self, connection: TcpConnection) -> None:
        """A connection is gone."""
        del self.connections[connection]
        address = connection.peer[0]
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    # A port that speaks plainly and by TLS

    def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            client, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            loop.remove_reader(self._listener)
            self._server.call_later(_RETRY_S, self._accept_again)
            return
        client.setblocking(False)
        self._undecided[client] = self._server.when_silent(lambda: self._decided(client).close())
        loop.add_reader(client, self._decide, loop, client)

    def _accept_again(self) -> None:
        if self._loop is not None and self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept, self._loop)

    def _decided(self, client: socket.socket) -> socket.socket:
        timer = self._undecided.pop(client)
        if timer is not None:
            timer.cancel()
        assert self._loop is not None
        self._loop.remove_reader(client)
        return client

    def _decide(self, loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
        try:
            first = client.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        self._decided(client)
        if not first:
            client.close()
            return
        tls = self._tls if _FIRST_RECORD <= first[0] <= _LAST_RECORD else None
        handshake = loop.create_task(self._hand_over(loop, client, tls))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def _hand_over(
        self, loop: asyncio.AbstractEventLoop, client: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        with contextlib.suppress(OSError):  # a handshake that failed, of which its client is told by TLS
            await loop.connect_accepted_socket(self._connection, client, ssl=tls)
