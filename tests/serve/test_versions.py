"""Releases by name, and kazoo's detection of them."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from kazoo.exceptions import ConnectionLoss, UnimplementedError

import simzk
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper.config import ServerConfig
from tests.cli.test_serve import refused, serving
from tests.serve.served import served
from tests.serve.tcp_client import word

RECORDED: list[dict[str, str]] = json.loads(
    lzma.decompress((Path(__file__).parent / "data" / "words_by_release.json.xz").read_bytes())
)
"""Keys of mntr and conf that standalone servers list, where they are not those of the release before."""


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
