"""Acceptance of TCP connections on an asyncio loop.

Rules of this module:
  - each accepted connection ends: by its client, by its protocol, or when the acceptor is aborted. `asyncio.Server`
    forgets a connection that it is just accepting when it is closed; neither the client nor the server would ever see
    the end of that socket;
  - a process without a free file descriptor pauses, and accepts again.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

_ACCEPTS_IN_ONE_TURN = 128
_RETRY_S = 1.0  # pause before the next accept when the process has no file descriptor left


class Acceptor:
    """Accepts the connections of one listening socket.

    Args:
        listener: a bound socket; clients that connect before `start` wait in the backlog if it listens.
        make_protocol: returns the protocol of a new connection.
        on_accept: called with each accepted socket instead of `hand_over`, and calls that itself, or closes the socket.
        tls: TLS of every connection that is handed over at once; None for none.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        on_accept: Callable[[socket.socket], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._on_accept = partial(self.hand_over, tls=tls) if on_accept is None else on_accept
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which it was started."""
        assert self._loop is not None, "the acceptor was not started"
        return self._loop

    def start(self) -> None:
        """Begin to accept connections on the running loop."""
        assert self._loop is None, "the acceptor was started before"
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Refuse new connections and close the listener; connections that were handed over stay."""
        if self._retry is not None:
            self._retry.cancel()
        if self._loop is not None and self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
        self._listener.close()

    def abort(self) -> None:
        """Close the accepted connections that have no protocol yet."""
        for handshake in self._handshakes:
            handshake.cancel()

    def waiting(self) -> list[socket.socket]:
        """Accept what waits, and return the sockets that have no protocol yet; on the loop."""
        if self._loop is not None and self._listener.fileno() >= 0:
            self._accept()
        return list(self._handshakes.values())

    def hand_over(self, client: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Give an accepted socket to a new protocol, after a handshake if there is TLS."""
        assert client.gettimeout() == 0, "asyncio takes only sockets that do not block"
        handshake = self.loop.create_task(self._connect(client, tls))
        self._handshakes[handshake] = client
        handshake.add_done_callback(partial(self._end_handshake, client))

    def _accept(self) -> None:
        """Accept the connections that wait, up to a number in one turn of the loop."""
        for _ in range(_ACCEPTS_IN_ONE_TURN):
            try:
                client, _address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                self.loop.remove_reader(self._listener)
                self._retry = self.loop.call_later(_RETRY_S, self.loop.add_reader, self._listener, self._accept)
                return
            client.setblocking(False)
            self._on_accept(client)

    def _end_handshake(self, client: socket.socket, handshake: asyncio.Task[None]) -> None:
        assert handshake in self._handshakes, "a handshake ends once"
        del self._handshakes[handshake]
        if handshake.cancelled():  # perhaps before its first step
            client.close()

    async def _connect(self, client: socket.socket, tls: ssl.SSLContext | None) -> None:
        with contextlib.suppress(OSError):  # a failed handshake, which TLS reports to the client
            await self.loop.connect_accepted_socket(self._make_protocol, client, ssl=tls)
