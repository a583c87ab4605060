"""Local sessions of a real ensemble and of ours: what uses a zxid, who takes them up, what makes them global (§7)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import ConnectResponse, Reply
from tests.conformance.real_ensemble import SERVERS, RealEnsemble
from tests.serve.served import ServedEnsemble, served_ensemble
from tests.serve.tcp_client import TcpClient, word
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

pytestmark = [pytest.mark.slow, pytest.mark.java]

COUNTER = (1 << 32) - 1


def play(ports: Mapping[int, int], leader: int, lose: Callable[[int], None]) -> list[object]:
    """Play the story on sessions of a follower, the leader and another follower; then lose the leader."""
    first, second = (server for server in SERVERS if server != leader)
    reported: list[object] = []
    for server, other in ((first, second), (leader, first), (second, leader)):
        reported += story(ports, server, other)
    with TcpClient(ports[first]) as client:
        session = client.connect(timeout_ms=9000)
        lose(first)
        client.rest()
    reported.append(taken_up(ports[first], session))
    return reported


def taken_up(port: int, session: ConnectResponse) -> int:
    """Which session a server answers with; asked until it answers, as it may serve nobody for some time yet."""
    asked = req.ConnectRequest(0, 0, 9000, session.session_id, session.password, False)
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        with TcpClient(port) as client:
            client.socket.sendall(client.wire.connect(asked))
            answer = client.next()
        if isinstance(answer, ConnectResponse):
            return answer.session_id
    raise TimeoutError("no server took a connection")


def story(ports: Mapping[int, int], server: int, other: int) -> list[object]:
    reported: list[object] = []

    def look(what: object) -> None:
        """Record a reply and the server's counts of sessions; replies of other servers may lag."""
        counts = re.findall(r"zk_(?:local|global)_sessions\t\d+", word(ports[server], b"mntr"))
        reported.append((what, counts))
        headings = re.findall(r".*Session.*(?=\()", word(ports[server], b"dump"))
        reported.append([re.sub(r"\d+", "N", heading) for heading in headings])

    def ask(client: TcpClient, request: req.Request) -> None:
        reply = client.ask(request)
        assert isinstance(reply, Reply)
        look((type(request).__name__, reply.error, reply.zxid & COUNTER, reply.body))

    with TcpClient(ports[server]) as client:
        session = client.connect(timeout_ms=4000)
        look(session.session_id >> 56 == server)
        ask(client, req.Create(f"/p{server}", b"", req.OPEN_ACL, 0))
        ask(client, req.Exists("/none", False))
    with TcpClient(ports[other]) as elsewhere:
        look(elsewhere.connect(session=session).session_id)
    with TcpClient(ports[server]) as client:
        look(client.connect(timeout_ms=4000, session=session).session_id == session.session_id)
        ask(client, req.Multi((req.Create(f"/m{server}", b"", req.OPEN_ACL, 0),)))
        ask(client, req.Create(f"/e{server}", b"", req.OPEN_ACL, 1))
        ask(
            client,
            req.Multi((req.SetData("/", b"", -1), req.Create(f"/f{server}", b"", req.OPEN_ACL, 3), req.Check("/", 0))),
        )
        ask(client, req.Multi((req.Delete("/no", -1), req.Create(f"/g{server}", b"", req.OPEN_ACL, 1))))
        ask(client, req.Exists("/none", False))
        ask(client, req.Create(f"/c{server}", b"", req.OPEN_ACL, 2))
        ask(client, req.CloseSession())
        look(client.rest())
    with TcpClient(ports[server]) as client:
        client.connect()
        ask(client, req.CloseSession())
    return reported


def play_on_ours(running: ServedEnsemble, leader: int) -> list[object]:
    def lose(server: int) -> None:
        running.tcp.verbs().lose_leader()

    running.tcp.verbs().elect(leader)
    return play(running.ports, leader, lose)


@pytest.mark.parametrize("upgrades", [True, False])
def test_both_ensembles_tell_the_same_of_local_sessions(upgrades: bool) -> None:
    with RealEnsemble(upgrades=upgrades) as real:

        def lose(server: int) -> None:
            real.kill(leader)
            real.wait_for_mode(server, "leader", "follower")

        leader = real.leader
        expected = play(real.ports, leader, lose)
    config = ServerConfig(tick_time_ms=500, max_session_timeout_ms=40_000)
    settings = Settings(server=config, local_sessions=True, upgrades_sessions=upgrades)
    with served_ensemble(settings) as running:
        reported = play_on_ours(running, leader)
    for ours, theirs in zip(reported, expected, strict=True):
        assert ours == theirs
