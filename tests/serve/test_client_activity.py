"""When a client's connection is quiet: the byte counts of both ends, and what the server does with them.

The clients of `test_settle.py` are real; whether one of them is looked at while bytes are on their way is chance. Here
the counts are given.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from simzk.serve.client_activity import ConnectionTraffic, CountingSocket

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = ("127.0.0.1", 40000)
QUIET = ConnectionTraffic(received_bytes=4, sent_bytes=6, busy=False, paused=False, closing=False)


@pytest.fixture
def connection() -> Iterator[CountingSocket]:
    """A client's socket that has sent four bytes and received six."""
    client, server = socket.socketpair()
    with client, server:
        counting = CountingSocket(client, ADDRESS)
        counting.sendall(b"ping")
        server.sendall(b"answer")
        assert counting.recv(100) == b"answer"
        yield counting


def test_a_connection_is_quiet_when_each_end_has_what_the_other_sent(connection: CountingSocket) -> None:
    assert connection.is_quiet({ADDRESS: QUIET}, None)


def test_an_event_on_its_way_is_waited_for(connection: CountingSocket) -> None:
    assert not connection.is_quiet({ADDRESS: QUIET._replace(sent_bytes=7)}, None)
    assert not connection.is_quiet({ADDRESS: QUIET._replace(sent_bytes=7, paused=True)}, None)


def test_a_request_on_its_way_is_waited_for_unless_the_server_is_paused(connection: CountingSocket) -> None:
    assert not connection.is_quiet({ADDRESS: QUIET._replace(received_bytes=3)}, None)
    assert connection.is_quiet({ADDRESS: QUIET._replace(received_bytes=3, paused=True)}, None)


@pytest.mark.parametrize("state", ["busy", "closing"])
def test_a_server_with_work_left_is_waited_for(connection: CountingSocket, state: str) -> None:
    assert not connection.is_quiet({ADDRESS: QUIET._replace(**{state: True})}, None)


def test_a_connection_that_the_server_does_not_know_is_not_quiet(connection: CountingSocket) -> None:
    assert not connection.is_quiet({}, None)
