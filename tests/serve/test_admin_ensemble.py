"""AdminServers of an ensemble: each reports its server's place, and accepts faults for all (§5, §7)."""

from __future__ import annotations

import http.client
import json
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from simzk.serve.configuration.ensemble_plan import of_files
from simzk.serve.configuration.settings import Settings
from simzk.serve.configuration.zoo_cfg import read_zoo_cfg
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Reply
from tests.cli.test_serve import refused, serving
from tests.serve.served import ServedEnsemble, running_ensemble, served, served_ensemble
from tests.serve.tcp_client import TcpClient, word
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ensemble() -> Iterator[ServedEnsemble]:
    with served_ensemble(Settings(admin_port=0), observers=1) as running:
        yield running


def ask(port: int, target: str, method: str = "GET") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request(method, target)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, json.loads(body) if body.startswith("{") else {"text": body}


def tell(ensemble: ServedEnsemble, server: int, name: str) -> dict[str, Any]:
    status, reported = ask(ensemble.admin_ports[server], f"/commands/{name}")
    assert status == 200
    return reported


def do(ensemble: ServedEnsemble, target: str, *, at: int = 1) -> dict[str, Any]:
    """Post a fault to the AdminServer of a server."""
    status, reported = ask(ensemble.admin_ports[at], f"/faults/{target}", "POST")
    assert (status, reported["error"]) == (200, None)
    return reported


def states(ensemble: ServedEnsemble, *servers: int) -> list[str]:
    """Return the modes of servers; empty if one serves nobody."""
    reported = [tell(ensemble, server, "server_stats") for server in servers]
    return [one["server_stats"]["server_state"] if one["error"] is None else "" for one in reported]


def test_each_tells_its_place(ensemble: ServedEnsemble) -> None:
    assert [tell(ensemble, server, "monitor")["server_state"] for server in (1, 2, 3, 4)] == [
        *("follower", "follower", "leader", "observer")
    ]
    assert tell(ensemble, 1, "leader") == {
        "is_leader": False,
        "leader_id": 3,
        "leader_ip": "127.0.0.1",
        "command": "leader",
        "error": None,
    }
    view = tell(ensemble, 4, "voting_view")["current_config"]
    assert {server: reported["client_address"] for server, reported in view.items()} == {
        str(server): f"127.0.0.1:{ensemble.ports[server]}" for server in (1, 2, 3)
    }
    assert [observer["sid"] for observer in tell(ensemble, 3, "observers")["observers"]] == [4]
    assert tell(ensemble, 3, "zabstate")["last_zxid"] == "0x100000000"
    assert f"observer;127.0.0.1:{ensemble.ports[4]}\nversion=100000000" in word(ensemble.ports[2], b"conf")


def test_the_metrics_page_tells_it_too(ensemble: ServedEnsemble) -> None:
    status, reported = ask(ensemble.admin_ports[3], "/metrics")
    assert status == 200
    assert "\nlearners 3.0\n" in reported["text"]
    assert '\nlearner_handler_qp_time_ms{key="4",quantile="0.99",} NaN\n' in reported["text"]


def test_counts_of_the_history_begin_anew(ensemble: ServedEnsemble) -> None:
    with TcpClient(ensemble.ports[1]) as client:
        client.connect()
        client.ask(req.Create("/a", b"", req.OPEN_ACL, 0))
        client.ask(req.Create("/a", b"", req.OPEN_ACL, 0))
        assert tell(ensemble, 3, "monitor")["proposal_count"] == 3
        assert tell(ensemble, 3, "monitor")["last_proposal_size"] == 36  # one that failed, without a digest
        assert tell(ensemble, 1, "monitor")["learner_proposal_received_count"] == 3
        assert tell(ensemble, 4, "monitor")["learner_proposal_received_count"] == 0
        assert tell(ensemble, 4, "monitor")["learner_commit_received_count"] == 3
        tell(ensemble, 3, "stat_reset")
        assert tell(ensemble, 3, "monitor")["proposal_count"] == 0
        assert "Proposal sizes last/min/max: -1/-1/-1" in word(ensemble.ports[3], b"srvr")


def test_one_that_looks_for_a_leader_tells_little(ensemble: ServedEnsemble) -> None:
    do(ensemble, "lose_leader?outage=5")
    for name in ("server_stats", "ruok", "leader", "snapshot"):
        assert tell(ensemble, 1, name) == {
            "command": name,
            "error": "This ZooKeeper instance is not currently serving requests",
        }
    assert tell(ensemble, 1, "zabstate")["zabstate"] == ""
    assert tell(ensemble, 1, "get_trace_mask")["tracemask"] == 306
    assert ask(ensemble.admin_ports[1], "/commands/monitor")[0] == 500


def test_one_that_is_stopped_tells_nothing_and_is_started_through_its_own(ensemble: ServedEnsemble) -> None:
    assert do(ensemble, "lose_leader")["server"] == 3
    assert ask(ensemble.admin_ports[3], "/commands/ruok")[0] == 503
    assert ask(ensemble.admin_ports[3], "/metrics")[0] == 503
    do(ensemble, "start?server=3", at=3)
    assert states(ensemble, 1, 2, 3) == ["follower", "leader", "follower"]
    with TcpClient(ensemble.ports[3]) as client:
        client.connect()
        assert tell(ensemble, 3, "connections")["connections"][0]["session_id"] >> 56 == 3


def test_servers_are_stopped_cut_off_and_elected(ensemble: ServedEnsemble) -> None:
    do(ensemble, "stop?server=1")
    do(ensemble, "cut?servers=3", at=1)
    assert states(ensemble, 2, 3, 4) == ["", "", ""]
    do(ensemble, "heal")
    do(ensemble, "elect?server=2")
    assert states(ensemble, 2, 3, 4) == ["leader", "follower", "observer"]
    do(ensemble, "elect")
    assert states(ensemble, 2, 3, 4) == ["follower", "leader", "observer"]


def test_a_server_lags_and_catches_up(ensemble: ServedEnsemble) -> None:
    do(ensemble, "lag?server=1&transactions=10")
    with TcpClient(ensemble.ports[3]) as writer, TcpClient(ensemble.ports[1]) as reader:
        writer.connect()
        reader.connect()
        writer.ask(req.Create("/a", b"", req.OPEN_ACL, 0))
        assert reader.ask(req.Exists("/a", False)).error == -101
        do(ensemble, "lag?server=1")
        assert reader.ask(req.Exists("/a", False)).error == 0


def test_a_session_moves_to_one_server(ensemble: ServedEnsemble) -> None:
    with TcpClient(ensemble.ports[1]) as client:
        session = client.connect()
        do(ensemble, f"move?session={session.session_id}&server=2", at=3)
        assert client.rest() == b""
    with TcpClient(ensemble.ports[3]) as elsewhere:
        elsewhere.socket.sendall(
            elsewhere.wire.connect(req.ConnectRequest(0, 0, 10_000, session.session_id, session.password, False))
        )
        assert elsewhere.rest() == b""
    with TcpClient(ensemble.ports[2]) as moved:
        assert moved.connect(session=session).session_id == session.session_id
        rule = do(ensemble, f"move_at?op=create&session=0x{session.session_id:x}&server=4", at=2)["rule"]
        moved.send(req.Create("/a", b"", req.OPEN_ACL, 0))
        assert moved.rest() == b""
    with TcpClient(ensemble.ports[4]) as moved:
        assert moved.connect(session=session).session_id == session.session_id
        assert moved.ask(req.Exists("/a", False)).error == -101
    (listed,) = ask(ensemble.admin_ports[1], "/faults")[1]["rules"]
    assert (listed["rule"], listed["fired"]) == (rule, 1)


def test_session_verbs_find_the_session_on_any_server(ensemble: ServedEnsemble) -> None:
    with TcpClient(ensemble.ports[1]) as client:
        session = client.connect()
        do(ensemble, f"pause?session={session.session_id}", at=2)
        client.send(req.Exists("/", False))
        do(ensemble, f"resume?session={session.session_id}", at=3)
        reply = client.next()
        assert isinstance(reply, Reply)
        assert reply.error == 0
        do(ensemble, f"disconnect?session={session.session_id}", at=4)
        assert client.rest() == b""
    with TcpClient(ensemble.ports[2]) as client:
        client.connect(session=session)
        do(ensemble, f"expire?session={session.session_id}", at=4)
        assert client.rest() == b""


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("stop?server=9", "server 9 does not exist"),
        ("start?server=1", "server 1 runs already"),
        ("stop", "the parameter is missing"),
        ("cut?servers=1,x", "'x' is not a number"),
        ("lag?server=1&seconds=nan", "seconds: invalid duration nan"),
        ("lag?server=1&seconds=x", "'x' is not a number"),
        ("lose_leader?outage=-1", "an outage of -1000 ms is negative"),
        ("lag?server=1&transactions=-1", "a lag is negative"),
        ("move?session=1&server=2", "there is no session 0x1"),
        ("move_at?server=9", "cannot move to server 9"),
        ("elect?server=4", "cannot be elected"),
    ],
)
def test_what_cannot_be_is_answered_400(ensemble: ServedEnsemble, target: str, said: str) -> None:
    status, reported = ask(ensemble.admin_ports[2], f"/faults/{target}", "POST")
    assert status == 400
    assert said in reported["error"]


def test_a_lone_server_has_nothing_of_an_ensemble() -> None:
    with served(Settings(admin_port=0)) as running:
        for verb in (
            "stop?server=1",
            "lose_leader",
            "elect",
            "cut?servers=1",
            "heal",
            "lag?server=1",
            "move?session=1",
        ):
            status, reported = ask(running.admin_port, f"/faults/{verb}", "POST")
            assert (status, "single server" in reported["error"]) == (400, True)


def test_the_command_says_where_the_adminservers_are() -> None:
    with serving("--port", "0", "--servers", "3", "--observers", "1", "--admin-port", "0") as process:
        assert len(process.line.split(",")) == 4
        status, said = process.end(signal.SIGTERM)
    place = r"http://127\.0\.0\.1:(\d+)/"
    ports = re.findall(rf"simzk: AdminServer on {place}commands, live page on {place}\n", said)
    assert (status, len(set(ports)), [one for one in ports if one[0] != one[1]]) == (0, 4, [])
    assert "is not a number of observers" in refused("--observers", "254")


def test_where_a_file_says_where_clients_connect_only_its_own_server_knows(tmp_path: Path) -> None:
    lines = "server.1=h:2888:3888\nserver.2=h:2889:3889\n"
    files = []
    for server in (1, 2):
        data = tmp_path / str(server)
        data.mkdir()
        (data / "myid").write_text(str(server))
        file = tmp_path / f"zoo{server}.cfg"
        file.write_text(
            f"initLimit=1\nsyncLimit=1\ndataDir={data}\nclientPort=0\nclientPortAddress=127.0.0.1\n"
            f"admin.serverPort=0\nadmin.serverAddress=127.0.0.1\n{lines}"
        )
        files.append(read_zoo_cfg(file))
    with running_ensemble(of_files(files)) as ensemble:
        for server in (1, 2):
            view = tell(ensemble, server, "voting_view")["current_config"]
            known = {name: reported["client_address"] for name, reported in view.items()}
            assert known == {"1": "", "2": "", str(server): f"127.0.0.1:{ensemble.ports[server]}"}
        assert tell(ensemble, 1, "initial_configuration")["initial_configuration"] is None
