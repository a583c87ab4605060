"""Process of clients, each with a session and a watch on one path that must fire once.

    python -m tests.load.clients PORT SESSIONS PATH

It prints `ready` once all watches are set, `fired` once each client has received its event and read the new data, and
closes all sessions when it reads a line.
"""

from __future__ import annotations

import sys

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Closed, EventType, Reply, WatchedEvent
from tests.load.scale import allow_open_files
from tests.serve.tcp_client import TcpClient

TIMEOUT_MS = 40_000  # the longest that a server of the usual tick grants


def main() -> None:
    port, sessions, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    allow_open_files()
    clients = [TcpClient(port) for _ in range(sessions)]
    identities = {client.connect(TIMEOUT_MS).session_id for client in clients}
    assert len(identities) == sessions
    for client in clients:
        assert client.ask(req.GetData(path, True)).error == 0
    print("ready", flush=True)
    for client in clients:
        event = client.next()
        assert isinstance(event, WatchedEvent), event
        assert (event.type, event.path) == (EventType.NODE_DATA_CHANGED, path)
        reply = client.ask(req.GetData(path, False))  # a second event would stand before it
        assert isinstance(reply.body, tuple)
        assert reply.body[0] == b"new"
    print("fired", flush=True)
    sys.stdin.readline()
    for client in clients:
        client.send(req.CloseSession())
    for client in clients:
        assert isinstance(client.next(), Reply)
        assert isinstance(client.next(), Closed)


if __name__ == "__main__":
    main()
