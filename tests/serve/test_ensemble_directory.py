"""Data directories of an ensemble: acknowledged writes survive, whichever servers had them."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from simzk import ConfigError, ZooKeeperServer
from simzk.serve.configuration.settings import Storage
from simzk.serve.storage.ensemble_directory import DataPlace, EnsembleDirectory, make_folder
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.ensemble import EnsembleConfig
from tests.cli.test_serve import refused, serving
from tests.conformance.real_zookeeper import SUPER_DIGEST
from tests.serve.tcp_client import TcpClient
from tests.waiting import PATIENCE_S
from tests.zookeeper.persistence.strategies import contents

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.zookeeper.ensemble import Ensemble, Member

NEW_SESSION = req.ConnectRequest(0, 0, 10_000, 0, None, False)
CONFIG = EnsembleConfig(3)


def create(path: str, flags: int = 0) -> req.Create:
    return req.Create(path, b"", req.OPEN_ACL, flags)


def do(member: Member, *requests: req.Request) -> None:
    """Apply requests of a new session of one server."""
    connection = member.connect(NEW_SESSION, 1000)
    for request in requests:
        member.handle(connection, 1, request, 1000)
    member.take_output()


def load(place: Path, now_ms: int = 1000, config: EnsembleConfig = CONFIG) -> tuple[EnsembleDirectory, Ensemble]:
    make_folder(place, config.ids)
    storage = Storage(fsync=False)
    directory = EnsembleDirectory({one: DataPlace(place / str(one), None, storage) for one in config.ids})
    return directory, directory.load(config, now_ms)


def killed(place: Path, *lost: int) -> Path:
    """Return a copy of the directories as a process killed now leaves them, without those of some servers."""
    left = place.with_name(f"{place.name}-left")
    shutil.copytree(place, left, ignore=lambda folder, names: map(str, lost) if folder == str(place) else ())
    return left


def epochs(place: Path, server_id: int) -> list[str]:
    folder = place / str(server_id) / "version-2"
    return [(folder / name).read_text() for name in ("acceptedEpoch", "currentEpoch")]


def test_what_was_acknowledged_survives_and_the_epoch_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "data"
    directory, ensemble = load(place)
    with closing(directory):
        do(ensemble.members[1], create("/a"), create("/e", 1))
        directory.sync()
        left = killed(place)
        assert [epochs(left, server_id) for server_id in (1, 2, 3)] == [["1", "1"]] * 3
        again, revived = load(left)
        with closing(again):
            revived.check()
            for member in revived.members.values():
                assert contents(member.tree) == contents(ensemble.members[1].tree)
                assert member.sessions.timeouts_ms() == ensemble.members[1].sessions.timeouts_ms()
            assert (revived.shared.epoch, epochs(left, 1)) == (2, ["2", "2"])
            do(revived.members[2], create("/b"))
            assert revived.members[1].zxid == 0x2_0000_0002
        assert again.losses == []


@pytest.mark.parametrize("lost", [(3,), (1, 2)])
def test_one_server_that_has_it_all_is_enough(tmp_path: Path, lost: tuple[int, ...]) -> None:
    place = tmp_path / "data"
    directory, ensemble = load(place)
    with closing(directory):
        do(ensemble.members[3], create("/a"), create("/a/b"))
        directory.sync()
        left = killed(place, *lost)
    again, revived = load(left)
    with closing(again):
        do(revived.members[1], create("/a/c"))
        again.sync()
        revived.check()
    for server_id in (1, 2, 3):  # a real server would boot from each
        alone = killed(left, *({1, 2, 3} - {server_id}))
        third, last = load(alone)
        third.close()
        assert all("/a/c" in member.tree for member in last.members.values())
        shutil.rmtree(alone)


def test_a_server_that_was_stopped_gets_what_it_missed(tmp_path: Path) -> None:
    place = tmp_path / "data"
    directory, ensemble = load(place)
    with closing(directory):
        do(ensemble.members[3], create("/before"))
        ensemble.stop(1, 1000)
        do(ensemble.members[3], create("/after"))
        directory.sync()
        again, revived = load(killed(place))
        with closing(again):
            revived.check()
            assert "/after" in revived.members[1].tree
        ensemble.start(1, 1000)
        assert "/after" in ensemble.members[1].tree


def test_what_the_newer_epoch_has_not_is_taken_back(tmp_path: Path) -> None:
    """Server 1 was cut off with a transaction that the others never committed, and they have elected since."""
    place = tmp_path / "data"
    directory, ensemble = load(place)
    do(ensemble.members[3], create("/common"))
    directory.close()
    alone, lonely = load(tmp_path / "lonely", config=EnsembleConfig(1))
    do(lonely.members[1], create("/common"), create("/never-committed"))
    alone.close()
    shutil.rmtree(place / "1")
    shutil.copytree(tmp_path / "lonely" / "1", place / "1")
    for server_id in (2, 3):
        (place / str(server_id) / "version-2" / "currentEpoch").write_text("2")
        (place / str(server_id) / "version-2" / "acceptedEpoch").write_text("2")
    again, revived = load(place)
    do(revived.members[1], create("/later"))
    again.close()
    revived.check()
    assert revived.shared.epoch == 3
    third, last = load(place)
    third.close()
    assert "/never-committed" not in last.members[1].tree
    assert "/later" in last.members[1].tree


def test_what_is_no_directory_of_the_ensemble_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "data"
    load(place, config=EnsembleConfig(5))[0].close()
    with pytest.raises(ConfigError, match="it belongs to no server of this ensemble") as fewer:
        load(place)
    assert fewer.value.right == "5 servers"
    (place / "2" / "myid").write_text("7\n")
    with pytest.raises(ConfigError, match="it belongs to another server"):
        load(place, config=EnsembleConfig(5))
    (place / "2" / "myid").write_text("2\n")
    (place / "3" / "version-2" / "currentEpoch").write_text("soon")
    with pytest.raises(ConfigError, match="invalid epoch 'soon'"):
        load(place, config=EnsembleConfig(5))
    with pytest.raises(ConfigError, match="single server"):
        load(place / "1")


def test_a_disk_that_refuses_ends_what_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ZooKeeperServer(servers=3, data_directory=tmp_path) as server, TcpClient(server.port) as client:
        client.connect()

        def refuse(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fdatasync", refuse)
        client.send(create("/a"))
        assert type(client.next()).__name__ == "Closed"


def test_a_server_that_stops_and_starts_goes_on_with_its_directory(tmp_path: Path) -> None:
    with ZooKeeperServer(servers=3, data_directory=tmp_path) as server:
        client = server.client(hosts=server.ensemble.hosts(3))
        client.start(PATIENCE_S)
        server.ensemble.stop(1)
        client.create("/meanwhile")
        server.ensemble.start(1)
        client.create("/again")
    with ZooKeeperServer(servers=3, data_directory=tmp_path) as server:
        client = server.client(hosts=server.ensemble.hosts(1))
        client.start(PATIENCE_S)
        assert {"meanwhile", "again"} <= set(client.get_children("/"))


def test_the_command_goes_on_after_a_kill(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--servers", "3", "--data-dir", str(tmp_path / "data"))

    def port_of(line: str, server_id: int) -> int:
        return int(line.strip().split(",")[server_id - 1].rpartition(":")[2])

    with serving(*arguments) as process, TcpClient(port_of(process.line, 1)) as client:
        session = client.connect(timeout_ms=30_000)
        assert client.ask(create("/a")).error == 0
        assert client.ask(create("/e", 1)).error == 0
        process.end(signal.SIGKILL)
    with serving(*arguments) as process, TcpClient(port_of(process.line, 2)) as client:
        assert client.connect(30_000, session).session_id == session.session_id
        assert client.ask(req.Exists("/e", False)).error == 0
        assert process.end(signal.SIGTERM) == (0, "")
    assert "single server" in refused("--port", "0", "--servers", "3", "--data-dir", str(tmp_path / "data" / "1"))


def test_a_lone_server_boots_from_one_of_them(tmp_path: Path) -> None:
    from simzk.serve.storage.data_directory import DataDirectory

    directory, ensemble = load(tmp_path / "data")
    do(ensemble.members[2], create("/a"))
    directory.close()
    with closing(DataDirectory(tmp_path / "data" / "1", Storage(fsync=False))) as lone:
        assert "/a" in lone.load(ServerConfig(), 1000).tree


def test_who_belongs_to_it_after_a_reconfiguration_is_kept(tmp_path: Path) -> None:
    def members(server: ZooKeeperServer, asked: int) -> tuple[list[str], int]:
        client = server.client(hosts=server.ensemble.hosts(asked), auth_data=[("digest", "super:test")])
        client.start(PATIENCE_S)
        data, stat = client.get("/zookeeper/config")
        *lines, version = data.decode().splitlines()
        assert version == f"version={stat.mzxid:x}"
        for line in lines:
            server_id = int(line[7])
            assert line.endswith(f";{server.ensemble.hosts(server_id)}")
        return [line.rpartition(";")[0] for line in lines], stat.mzxid

    with ZooKeeperServer(servers=4, data_directory=tmp_path, super_digest=SUPER_DIGEST) as server:
        client = server.client(hosts=server.ensemble.hosts(4), auth_data=[("digest", "super:test")])
        client.start(PATIENCE_S)
        line = client.get("/zookeeper/config")[0].decode().splitlines()[1]
        client.reconfig(line.replace("participant", "observer"), "1", None)
        before = members(server, 3)
        assert [line[7] + line.rpartition(":")[2] for line in before[0]] == [
            "2observer",
            "3participant",
            "4participant",
        ]
        modes = server.ensemble.modes
    with ZooKeeperServer(servers=4, data_directory=tmp_path, super_digest=SUPER_DIGEST) as server:
        assert server.ensemble.modes == modes == {1: "follower", 2: "observer", 3: "follower", 4: "leader"}
        assert members(server, 1) == members(server, 2) == before
    with ZooKeeperServer(servers=5, data_directory=tmp_path) as grown:
        assert sorted(grown.ensemble.modes.values()) == [*["follower"] * 4, "leader"], "a new server, a new ensemble"
    with ZooKeeperServer(servers=5, data_directory=tmp_path, super_digest=SUPER_DIGEST) as server:
        client = server.client(auth_data=[("digest", "super:test")])
        client.start(PATIENCE_S)
        client.reconfig(None, "1,2", None)
    for server_id in (3, 4, 5):
        shutil.move(tmp_path / str(server_id), tmp_path.parent / f"gone-{server_id}")
    with pytest.raises(ConfigError, match="0 of 3 voters are simulated"):
        ZooKeeperServer(servers=2, data_directory=tmp_path)
