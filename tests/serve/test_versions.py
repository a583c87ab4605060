"""Releases by name, and kazoo's detection of them."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import ConnectionLoss, UnimplementedError

import simzk
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from tests.cli.test_serve import refused, serving
from tests.serve.served import served, served_ensemble
from tests.serve.tcp_client import TcpClient, word

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDED: list[dict[str, str]] = json.loads(
    lzma.decompress((Path(__file__).parent / "data" / "words_by_release.json.xz").read_bytes())
)
"""Keys of mntr and conf that standalone servers list, where they are not those of the release before."""

OF_ENSEMBLES: dict[str, dict[str, dict[str, list[str]]]] = json.loads(
    lzma.decompress((Path(__file__).parent / "data" / "ensemble_words_by_release.json.xz").read_bytes())
)
"""What mntr and srvr of leader, follower and observer answered in real ensembles after `fill_ensemble`."""

TIMED = re.compile(
    r"zk_(avg|max|min)_latency|zk_packets|zk_\w+_file_descriptor|zk_approximate_data_size|Latency|Received|Sent"
)


def fill_ensemble(ports: Mapping[int, int]) -> None:
    """Let a client of each server create an ephemeral and a node of 1,000 bytes."""
    for number, port in ports.items():
        with TcpClient(port) as client:
            client.connect(20_000)
            for path, data, flags in ((f"/e{number}", b"x", 1), (f"/long{number}", b"x" * 1000, 0)):
                assert client.ask(req.Create(path, data, req.OPEN_ACL, flags)).error == 0


def test_kazoo_learns_that_an_old_server_does_not_know_a_request() -> None:
    with simzk.ZooKeeper(version="3.4") as zookeeper:
        client = zookeeper.client()
        client.start()
        client.create("/a", b"x")
        assert client.get_children("/zookeeper") == ["quota"]
        # The server refuses, and cuts the connection; kazoo may tell of either first.
        with pytest.raises((UnimplementedError, ConnectionLoss)):
            client.create("/b", b"", include_data=True)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["release"])
def test_monitoring_lists_what_the_release_has(recorded: dict[str, str]) -> None:
    with served(Settings(server=ServerConfig(version=recorded["release"]))) as server:
        mntr, conf = (word(server.port, name).splitlines() for name in (b"mntr", b"conf"))
        srvr = word(server.port, b"srvr")
    assert [line.partition("\t")[0] for line in mntr] == [f"zk_{key}" for key in recorded["mntr"].split()]
    assert [line.partition("=")[0] for line in conf] == recorded["conf"].split()
    assert ("Connections: " in srvr) == ("num_alive_connections" in recorded["mntr"])
    assert (
        ("min/avg/max: 0/0.0/0" in srvr) == ("zk_avg_latency\t0.0" in mntr) == ("cnt_readlatency" in recorded["mntr"])
    )


@pytest.mark.parametrize("release", OF_ENSEMBLES)
def test_members_of_an_ensemble_report_what_the_release_does(release: str) -> None:
    with served_ensemble(Settings(server=ServerConfig(version=release)), observers=1) as ensemble:
        fill_ensemble(ensemble.ports)
        found: dict[str, dict[str, list[str]]] = {}
        for port in ensemble.ports.values():
            mntr, srvr = (word(port, name).strip().splitlines() for name in (b"mntr", b"srvr"))
            role = next(line.partition("\t")[2] for line in mntr if line.startswith("zk_server_state"))
            found[role] = {"mntr": mntr, "srvr": srvr}
    for role, recorded in OF_ENSEMBLES[release].items():
        for name, lines in recorded.items():
            assert list(map(untimed, found[role][name])) == list(map(untimed, lines)), role
    assert found.keys() == OF_ENSEMBLES[release].keys() == {"leader", "follower", "observer"}


def untimed(line: str) -> str:
    """Return a line of mntr or srvr, without its number if it is of time, packets, files or the length of addresses."""
    timed = TIMED.match(line)
    return line if timed is None else timed[0]


def test_answers_to_words_count_as_packets() -> None:
    """Recorded with 3.9.5, 3.5.9 and 3.4.14: after srst, ruok and srvr, then mntr of 3.9.5 in three parts."""
    with served(Settings()) as server:
        assert [word(server.port, name) for name in (b"srst", b"ruok")] == ["Server stats reset.\n", "imok"]
        assert "Received: 2\nSent: 2\n" in word(server.port, b"srvr")
        mntr = word(server.port, b"mntr")
        assert "zk_packets_sent\t3\n" in mntr
        assert 2 * 8192 < len(mntr) <= 3 * 8192
        assert "Received: 4\nSent: 6\n" in word(server.port, b"srvr")


def test_the_newest_is_the_default() -> None:
    with simzk.ZooKeeper() as zookeeper:
        assert zookeeper.server.config.rules.release == (3, 9, 5)


def test_a_version_that_is_not_simulated_is_refused() -> None:
    with pytest.raises(
        simzk.ConfigError, match=r"ZooKeeper .4. is not simulated; expected one of 3\.4, 3\.4\.0 to 3\.4\.14, 3\.5"
    ):
        simzk.ZooKeeper(version="4")


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("version", ["3.4", "3.5.1", "3.9"])
def test_a_new_data_directory_has_the_tree_of_the_release(version: str, servers: int, tmp_path: Path) -> None:
    trees = []
    for folder in (None, tmp_path, tmp_path):  # in memory, new, and read back
        with simzk.ZooKeeperServer(version=version, servers=servers, data_directory=folder) as server:
            client = server.client()
            client.start()
            names = sorted(client.get_children("/zookeeper"))
            trees.append([(name, client.get_acls(f"/zookeeper/{name}")[0]) for name in names])
    assert trees[0] == trees[1] == trees[2]
    assert ("config" in dict(trees[0])) == (version != "3.4")


def test_a_tcp_server_introduces_itself_as_the_release() -> None:
    with simzk.ZooKeeperServer(version="3.5") as server:
        client = server.client()
        client.start()
        assert client.server_version() == (3, 5, 10)
        assert client.command(b"srvr").startswith("Zookeeper version: 3.5.10-a32c7183d42325b03e44a06aade6a0f16955bf13")
        assert client.create("/b", b"", include_data=True)[1].version == 0


def test_the_command_line_takes_a_version() -> None:
    with serving("--port", "0", "--zookeeper-version", "3.6.3") as process:
        assert "version: 3.6.3--6401e4ad" in word(process.port, b"srvr")


def test_the_command_line_refuses_an_unknown_version() -> None:
    (line,) = refused("--port", "0", "--zookeeper-version", "3.3").splitlines()
    assert "ZooKeeper '3.3' is not simulated; expected one of 3.4, 3.4.0 to 3.4.14" in line
    assert line.endswith("3.9, 3.9.0 to 3.9.5")
