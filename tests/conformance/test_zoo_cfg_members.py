"""A zoo.cfg with one member, or none: what the real server makes of it, and how it serves, is the same here."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from simzk.errors import ConfigError
from simzk.serve.clock import StillClock
from simzk.serve.configuration.ensemble_plan import of_files
from simzk.serve.configuration.zoo_cfg import read_zoo_cfg
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Reply
from tests.conformance.java_tools import told_by_java
from tests.conformance.real_zookeeper import class_path, four_letter_word, free_ports, java
from tests.serve.served import running_ensemble, served
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.java]

ONE = "server.1=localhost:2888:3888;2181\n"
LOCAL = "server.1=localhost:2888:3888;127.0.0.1:2181\n"
NO_PORT = "server.1=localhost:2888:3888\n"
OBSERVER = "server.2=localhost:2889:3889:observer\n"
ALONE = "standaloneEnabled=false\n"
RECONFIG = "reconfigEnabled=true\n"
LIMITS = "initLimit=5\nsyncLimit=2\n"


class File(NamedTuple):
    """A zoo.cfg, its `myid`, and its dynamicConfigFile, which the text names DYNAMIC."""

    text: str
    myid: str | None = "1"
    dynamic: str = ""


NUMBERS = ("300", "x", "-1", "0", "realm")
RESTS = ("", ":;2181:", ";2181;;")
DYNAMIC = (ONE, ONE + "x=1\n", ONE + "version=1\n", NO_PORT)
ROLES = ("participant", "observer", "spectator", "", ":")
CLIENTS = ("[::1]:2181", "0", "70000", "a:1;b", " 2181", "")
FILES = [
    *(File(ONE, myid) for myid in ("1", None, "2", "-1", "x", "", "1\n2\n", "1\r\n", " 1", "1 ", "+1", "01")),
    *(File("clientPort=2181\n", myid) for myid in (None, "77777", "-5", "x", "99999999999999999999")),
    *(File(ONE + f"clientPort={port}\n", myid) for port in (2181, 2182) for myid in ("1", None)),
    File(LOCAL),
    *(File(LOCAL + f"clientPort=2181\n{more}") for more in ("", "clientPortAddress=127.0.0.1\n")),
    *(File(LOCAL + f"clientPort=2181\nclientPortAddress={host}\n") for host in ("0.0.0.0", "localhost", "127.0.0.2")),
    File(ONE + "clientPort=2181\nclientPortAddress=127.0.0.1\n"),
    *(File(f"server.1=localhost:2888:3888;{client}\n") for client in CLIENTS),
    File(NO_PORT),
    File(NO_PORT + "clientPort=2181\n"),
    *(File(f"server.1=localhost:2888:3888:{role};2181\n") for role in ROLES),
    *(File(f"server.1={host}:2888:3888{rest}\n") for host in ("[::1]", "[::1]:") for rest in RESTS),
    File(ONE + OBSERVER),
    *(File(f"server.1={line}\nclientPort=2181\n") for line in ("", "localhost", "localhost:2888", "h:2888:2888")),
    *(File(f"server.{number}=localhost:2888:3888;2181\nclientPort=2181\n", "300") for number in NUMBERS),
    *(File(ONE + more) for more in ("group.1=1\n", "group.1=1\nweight.1=1\n", "weight.1=3\n", "group.1=1:2\n")),
    File("clientPort=2181\ngroup.1=1\n"),
    *(File(ONE + ALONE + more, myid) for more in ("", LIMITS, "initLimit=0\nsyncLimit=2\n") for myid in ("1", None)),
    File("clientPort=2181\n" + ALONE),
    File(ONE + LIMITS),
    File(ONE + "peerType=observer\n"),
    File(ONE + "reconfigEnabled=true\n"),
    *(File("dynamicConfigFile=DYNAMIC\n", dynamic=lines) for lines in DYNAMIC),
    File("dynamicConfigFile=DYNAMIC\n" + ONE, dynamic=ONE),
    File("dynamicConfigFile=DYNAMIC\nclientPort=2181\n"),
]


def written(place: Path, file: File) -> Path:
    """Write a zoo.cfg with its folder and return its path."""
    data = place / "data"
    data.mkdir(parents=True)
    if file.myid is not None:
        (data / "myid").write_bytes(file.myid.encode())
    (place / "dynamic.100").write_text(file.dynamic)
    path = place / "zoo.cfg"
    text = file.text.replace("DYNAMIC", str(place / "dynamic.100"))
    path.write_text(f"tickTime=2000\ndataDir={data}\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{text}")
    return path


def ours(path: Path) -> str:
    """Return what simzk makes of a zoo.cfg, in the words of ZooCfgs.java."""
    try:
        settings = read_zoo_cfg(path)
    except ConfigError as error:
        # The real server starts without a port, and no client can reach it.
        return "taken standalone none" if "clientPort is not set" in str(error) else "refused"
    kind = "standalone" if settings.belonging is None else "ensemble"
    address = {"": "0.0.0.0", "::1": "0:0:0:0:0:0:0:1"}.get(settings.address, settings.address)
    return f"taken {kind} {address}:{settings.port}"


@pytest.mark.timeout(150)
def test_one_member_is_read_alike(tmp_path: Path) -> None:
    paths = [written(tmp_path / str(number), file) for number, file in enumerate(FILES)]
    real = told_by_java("ZooCfgs.java", *map(str, paths)).splitlines()
    assert dict(zip(FILES, map(ours, paths), strict=True)) == dict(zip(FILES, real, strict=True))
    assert len(set(real)) > 6


def is_serving(port: int) -> bool:
    try:
        return b"Mode:" in four_letter_word(port, b"srvr")
    except OSError:
        return False


def start_real(path: Path, port: int) -> Iterator[None]:
    """Run a real server on a zoo.cfg, as zkServer.sh does."""
    main = ["-cp", class_path(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(path)]
    with subprocess.Popen(
        [*java(), "-Xmx256m", *main], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline_s = time.monotonic() + 60
            while not is_serving(port):
                assert process.poll() is None
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            yield
        finally:
            process.kill()


def answers(port: int) -> list[object]:
    """Return what a client can learn of the kind of server: words, /zookeeper/config, and the reply to reconfig."""
    words = [four_letter_word(port, word).decode() for word in (b"srvr", b"conf", b"mntr")]
    shown = [
        [line for line in words[0].splitlines() if line.startswith(("Mode", "Node count", "Zxid", "Proposal"))],
        [line for line in words[1].splitlines() if "Size=" not in line],
        [line for line in words[2].splitlines() if line.startswith(("zk_server_state", "zk_quorum", "zk_peer_state"))],
    ]
    replies = []
    with TcpClient(port) as client:
        client.connect()
        for request in (
            req.GetData("/zookeeper/config", False),
            req.Reconfig("server.2=localhost:2889:3889;2182", None, None, -1),
            req.Reconfig("server.2=localhost:2889:3889:observer;2182", None, None, -1),
            req.Reconfig(None, "1", None, -1),
            req.Reconfig(None, None, "server.1=localhost:2889:3889;2182", -1),
            req.Create("/after", b"", req.OPEN_ACL, 0),
        ):
            client.send(request)
            reply = client.next()
            assert isinstance(reply, Reply)
            replies.append((reply.zxid, reply.error, reply.body[0] if isinstance(reply.body, tuple) else reply.body))
    return [*shown, replies]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("more", ["", RECONFIG, ALONE + LIMITS, ALONE + LIMITS + RECONFIG])
def test_one_member_is_served_alike(tmp_path: Path, more: str) -> None:
    port, quorum, election, second = free_ports(4)
    lines = f"server.1=127.0.0.1:{quorum}:{election};127.0.0.1:{port}\n{more}"
    real_path = written(tmp_path / "real", File(lines))
    for _ in start_real(real_path, port):
        expected = answers(port)
    path = written(tmp_path / "ours", File(lines.replace(f";127.0.0.1:{port}", f";127.0.0.1:{second}")))
    settings = read_zoo_cfg(path)
    if settings.belonging is None:
        with served(settings, StillClock()) as server:
            found = answers(server.port)
    else:
        with running_ensemble(of_files([settings]), StillClock()) as ensemble:
            found = answers(ensemble.ports[1])
    shown = str(found).replace(str(second), str(port)).replace(str(tmp_path / "ours"), str(tmp_path / "real"))
    assert shown == str(expected)
