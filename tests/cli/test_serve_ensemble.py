"""`simzk serve --config zoo1.cfg --config zoo2.cfg ...`: the servers of an ensemble, each as its own file says."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient, KeeperState
from kazoo.exceptions import NotReadOnlyCallError

from simzk.zookeeper import requests as req
from tests.cli.test_serve import refused, serving
from tests.serve.tcp_client import TcpClient, word
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PEERS = "server.1=127.0.0.1:2888:3888\nserver.2=127.0.0.1:2889:3889\nserver.5=127.0.0.1:2890:3890\n"
OBSERVER = "server.7=127.0.0.1:2891:3891:observer\n"


# Any free one, as far as the file goes: the lines say nothing of clients.
FREE_PORT = "clientPort=0\nclientPortAddress=127.0.0.1\n"


def files(
    place: Path, *servers: int, more: str = "", lines: str = PEERS + OBSERVER, port: str = FREE_PORT
) -> list[str]:
    """Options that name the files of these servers."""
    options = []
    for server in servers:
        data = place / f"data{server}"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(str(server))
        file = place / f"zoo{server}.cfg"
        if not file.exists():
            file.write_text(
                f"tickTime=500\ninitLimit=10\nsyncLimit=5\ndataDir={data}\n{port}"
                f"admin.serverPort=0\nadmin.serverAddress=127.0.0.1\n4lw.commands.whitelist=*\n{more}{lines}"
            )
        options += ["--config", str(file)]
    return options


def ports(line: str) -> list[int]:
    return [int(port) for port in re.findall(r":(\d+)", line)]


def free_ports(count: int) -> list[int]:
    """Ports that nobody has at this moment; for lines that must name one."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]


def modes(line: str) -> list[str]:
    reported = [word(port, b"srvr") for port in ports(line)]
    return [re.search(r"Mode: (.*)", one)[1] for one in reported]  # type: ignore[index]


def test_each_server_is_as_its_file_says_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    options = files(tmp_path, 1, 2, 5, 7)
    with serving(*options) as process:
        assert modes(process.line) == ["follower", "follower", "leader", "observer"]
        first, _, third, observer = ports(process.line)
        with TcpClient(observer) as writer, TcpClient(first) as reader:
            session = writer.connect(timeout_ms=10_000)
            assert session.session_id >> 56 == 7
            assert writer.ask(req.Create("/a", b"kept", req.OPEN_ACL, 0)).error == 0
            reader.connect()
            reader.ask(req.Sync("/a"))
            assert reader.ask(req.Exists("/a", False)).error == 0
            members = [f"{line}:participant" for line in PEERS.splitlines()]
            config = reader.ask(req.GetData("/zookeeper/config", False)).body[0]  # type: ignore[index]
            assert config == ("\n".join(members) + f"\n{OBSERVER}version=0").encode()
        conf = word(third, b"conf")
        assert f"dataDir={tmp_path}/data5/version-2\n" in conf
        assert "serverId=5\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3890\nquorumPort=2890\n" in conf
        process.end(signal.SIGKILL)
    assert sorted(path.name for path in (tmp_path / "data7").iterdir()) == ["myid", "version-2"]
    with serving(*options) as process:
        with TcpClient(ports(process.line)[1]) as client:
            assert client.connect(session=session).session_id == session.session_id
            assert client.ask(req.GetData("/a", False)).body[0] == b"kept"  # type: ignore[index]
        status, said = process.end(signal.SIGTERM)
        assert status == 0
        assert said.count("simzk: AdminServer on http://127.0.0.1:") == 4


def test_a_majority_that_is_here_is_enough(tmp_path: Path) -> None:
    with serving(*files(tmp_path, 1, 2)) as process:
        assert modes(process.line) == ["follower", "leader"]
        process.end(signal.SIGTERM)
    assert "1 of 3 voters are simulated, which is no majority to elect a leader" in refused(*files(tmp_path, 1, 7))


def test_less_than_a_majority_serves_those_who_only_read(tmp_path: Path) -> None:
    with serving(*files(tmp_path, 1, more="readonlymode.enabled=true\nlocalSessionsEnabled=true\n")) as process:
        (port,) = ports(process.line)
        client = KazooClient(f"127.0.0.1:{port}", read_only=True)
        client.start(PATIENCE_S)
        assert client.client_state == KeeperState.CONNECTED_RO
        assert client.get_children("/") == ["zookeeper"]
        with pytest.raises(NotReadOnlyCallError):
            client.create("/a")
        client.stop()
        client.close()
        assert modes(process.line) == ["read-only"]
        process.end(signal.SIGTERM)


def test_an_adminserver_whose_port_is_taken_is_passed_over(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serving(*files(tmp_path, 1, 2, more=f"admin.serverPort={port}\n")) as process:
            assert modes(process.line) == ["follower", "leader"]
            status, said = process.end(signal.SIGTERM)
    assert (status, said.count("AdminServer on")) == (0, 0)
    assert f"simzk: warning: server 2 has no AdminServer: 127.0.0.1:{port}: cannot listen" in said


def test_one_file_of_several_and_what_they_say_already(tmp_path: Path) -> None:
    said = refused(*files(tmp_path, 1))
    assert "zoo1.cfg: it is the file of one of 4 servers, which simzk runs in one process, not in one each;" in said
    assert "expected one process with the files of all: simzk serve --config" in said
    assert "; without files: simzk serve --servers 4" in said
    for option in (
        ("--port", "0"),
        ("--servers", "3"),
        ("--data-dir", "x"),
        ("--admin-port", "0"),
        ("--observers", "1"),
    ):
        assert f"{option[0]}: it cannot be combined with the files of an ensemble" in refused(
            *files(tmp_path, 1, 2), *option
        )


def test_what_was_reconfigured_stands_in_the_files_as_the_real_server_writes_them(tmp_path: Path) -> None:
    lines = "".join(
        f"server.{server}=127.0.0.1:{2887 + server}:{3887 + server}:{kind};127.0.0.1:{port}\n"
        for server, kind, port in zip((1, 2, 5, 7), ("participant",) * 3 + ("observer",), free_ports(4), strict=True)
    )
    options = files(tmp_path, 1, 2, 5, 7, more="reconfigEnabled=true\nskipACL=yes\n", lines=lines, port="")
    before = (tmp_path / "zoo1.cfg").read_text()
    with serving(*options) as process, TcpClient(ports(process.line)[0]) as client:
        assert (tmp_path / "zoo1.cfg.bak").read_text() == before
        assert (tmp_path / "zoo7.cfg.dynamic.100000000").read_text() == lines.rstrip("\n")
        client.connect()
        joining = lines.splitlines()[0].replace("participant", "observer")
        reply = client.ask(req.Reconfig(joining, "7", None, -1))
        assert reply.error == 0
        process.end(signal.SIGKILL)
    dynamic = tmp_path / f"zoo2.cfg.dynamic.{reply.zxid:x}"
    members = [joining, *lines.splitlines()[1:3]]
    assert dynamic.read_text().splitlines() == members
    assert (tmp_path / "zoo2.cfg").read_text().splitlines() == [
        *(line for line in before.replace("data1", "data2").splitlines() if not line.startswith("server.")),
        f"dynamicConfigFile={dynamic}",
    ]
    with serving(*options) as process, TcpClient(ports(process.line)[1]) as client:
        assert modes(process.line) == ["observer", "follower", "leader"]
        client.connect()
        config = client.ask(req.GetData("/zookeeper/config", False)).body[0]  # type: ignore[index]
        assert config == "\n".join([*members, f"version={reply.zxid:x}"]).encode()
        status, said = process.end(signal.SIGTERM)
    assert (status, "simzk: warning: server 7 has left the ensemble, and is not started\n" in said) == (0, True)
