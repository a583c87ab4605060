"""An hour of virtual time in which sessions connect and end over TCP, and leave nothing behind."""

from __future__ import annotations

import gc
import socket
from typing import NamedTuple

import pytest

import simzk
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from tests.load.scale import SCALE
from tests.serve.tcp_client import TcpClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("load")]
WARM_UP_S = 60
OBJECTS_MAX = 200
"""Of growth, whatever the length: a leak of one object a session would be thousands."""


class Counts(NamedTuple):
    """Numbers of objects in a server."""

    sessions: int
    watches: int
    ephemerals: int
    znodes: int
    links: int
    objects: int


def counts(server: simzk.ZooKeeperServer) -> Counts:
    server.recorder.clear()  # it stores the latest 10,000 records
    gc.collect()
    with server.lock:
        inner = server.server
        inner.check()
        return Counts(
            len(inner.sessions),
            sum(1 for table in (inner.watches.data, inner.watches.child) for _ in table.entries()),
            sum(map(len, inner.tree.ephemerals.values())),
            len(inner.tree),
            len(server._driver._links),
            len(gc.get_objects()),
        )


def live_a_second(server: simzk.ZooKeeperServer, steady: TcpClient, second: int) -> None:
    """Connect clients: one closes its session, one reconnects, one disconnects and expires, one is expired."""
    closing, returning, vanishing, expiring = (TcpClient(server.port) for _ in range(4))
    with closing, returning, vanishing, expiring:
        for number, client in enumerate((closing, returning, vanishing, expiring)):
            session = client.connect(4000)
            for request in (
                req.Create(f"/churn/e{second}-{number}-", b"x", OPEN_ACL, 3),
                req.GetData("/churn", True),
                req.GetChildren("/churn/steady", True),
                req.AddWatch(f"/churn/{second}", number % 2),
            ):
                assert client.ask(request).error == 0
            if client is returning:
                client.socket.shutdown(socket.SHUT_WR)
                with TcpClient(server.port) as again:
                    assert again.connect(4000, session).session_id == session.session_id
                    assert again.ask(req.CloseSession()).error == 0
                    again.rest()
                client.rest()
            elif client is closing:
                client.send(req.CloseSession())
                client.rest()
            elif client is vanishing:
                # Until the server has closed its end too: a client that is connected does not expire as time advances.
                client.socket.shutdown(socket.SHUT_WR)
                client.rest()
            else:
                server._driver.expire_session(session.session_id)
                client.rest()
        assert steady.ask(req.SetData("/churn", b"%d" % second, -1)).error == 0
    server.advance(1)


def settle(server: simzk.ZooKeeperServer, steady: TcpClient) -> Counts:
    """Return the numbers of objects once all disconnected sessions have expired."""
    server.advance(60)
    assert steady.ask(req.Sync("/")).error == 0
    return counts(server)


def test_an_hour_of_sessions_that_come_and_go_leaves_nothing() -> None:
    with simzk.ZooKeeperServer() as server, TcpClient(server.port) as steady:
        steady.connect(40_000)
        for path in ("/churn", "/churn/steady"):
            assert steady.ask(req.Create(path, b"", OPEN_ACL, 0)).error == 0
        for second in range(WARM_UP_S):
            live_a_second(server, steady, second)
        before = settle(server, steady)
        for second in range(WARM_UP_S, WARM_UP_S + SCALE.churn_s):
            live_a_second(server, steady, second)
        after = settle(server, steady)
    print(f"\n{4 * SCALE.churn_s:,} sessions in {SCALE.churn_s:,} s: {before} before, {after} after")
    assert before[:5] == (1, 0, 0, 7, 1)
    assert after[:5] == before[:5]
    assert after.objects - before.objects < OBJECTS_MAX
