"""Handler and sockets in memory: waits, reads, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.serve.memory import MemoryHandler
from tests.waiting import PATIENCE_S, in_thread

if TYPE_CHECKING:
    from simzk.serve.memory import MemorySocket


class Echo:
    """A peer that sends everything back."""

    session_id = 0

    def __init__(self, socket: MemorySocket) -> None:
        self.socket = socket
        self.hung_up = False

    def receive(self, data: bytes) -> None:
        self.socket.deliver(data)

    def hang_up(self) -> None:
        self.hung_up = True


class EchoListener:
    """Server with output after `deadline_s`, if that is not None."""

    def __init__(self, deadline_s: float | None = None) -> None:
        self.deadline_s = deadline_s
        self.peers: list[Echo] = []
        self.open = True

    def accept(self, socket: MemorySocket) -> Echo | None:
        if not self.open:
            return None
        self.peers.append(Echo(socket))
        return self.peers[-1]

    def seconds_to_deadline(self) -> float | None:
        return self.deadline_s

    def tick(self) -> None:
        self.deadline_s = None
        self.peers[-1].socket.deliver(b"due")

    def answer_word(self, data: bytes) -> bytes | None:
        return None


def connected(listener: EchoListener) -> tuple[MemoryHandler, MemorySocket]:
    handler = MemoryHandler(listener)
    return handler, handler.create_connection(("127.0.0.1", 2181))


def test_what_was_sent_is_read_in_any_portions() -> None:
    handler, socket = connected(EchoListener())
    assert socket.send(memoryview(b"abc")) == 3
    socket.sendall(b"de")
    assert handler.select([socket], [], [], 0) == ([socket], [], [])
    assert [socket.recv(2), socket.recv(2), socket.recv(9)] == [b"ab", b"c", b"de"]
    assert handler.select([socket], [], [], 0) == ([], [], [])
    with pytest.raises(BlockingIOError):
        socket.recv(1)


def test_memory_can_always_be_written() -> None:
    handler, socket = connected(EchoListener())
    assert handler.select([], [socket], [], 0) == ([], [socket], [])


def test_a_wait_ends_when_another_thread_sends() -> None:
    listener = EchoListener()
    handler, socket = connected(listener)
    reader, writer = handler.create_socket_pair()
    waiting = in_thread(lambda: handler.select([socket, reader], [], [], PATIENCE_S))
    writer.send(b"\0")
    assert waiting.result(PATIENCE_S)[0] == [reader]
    assert reader.recv(1) == b"\0"
    waiting = in_thread(lambda: handler.select([socket, reader], [], [], PATIENCE_S))
    listener.peers[0].socket.deliver(b"x")
    assert waiting.result(PATIENCE_S)[0] == [socket]


def test_a_wait_lets_the_server_do_what_is_due() -> None:
    handler, socket = connected(EchoListener(deadline_s=0.001))
    assert handler.select([socket], [], [], PATIENCE_S)[0] == [socket]
    assert socket.recv(3) == b"due"


def test_what_came_before_the_end_is_still_read() -> None:
    listener = EchoListener()
    handler, socket = connected(listener)
    socket.send(b"last")
    socket.end()
    assert [socket.recv(9), socket.recv(9)] == [b"last", b""]
    assert handler.select([socket], [], [], None)[0] == [socket]


def test_closing_hangs_up_once_and_ends_sending() -> None:
    listener = EchoListener()
    _, socket = connected(listener)
    socket.close()
    socket.close()
    assert listener.peers[0].hung_up
    with pytest.raises(OSError, match="closed"):
        socket.send(b"x")


def test_nobody_listening_refuses() -> None:
    listener = EchoListener()
    listener.open = False
    with pytest.raises(ConnectionRefusedError):
        connected(listener)


def test_a_closed_wake_pipe_says_so() -> None:
    reader, writer = MemoryHandler(EchoListener()).create_socket_pair()
    with pytest.raises(BlockingIOError):
        reader.recv(1)
    writer.close()
    with pytest.raises(OSError, match="closed"):
        writer.send(b"\0")
