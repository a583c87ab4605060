"""Reconfigurations of a real ensemble and of ours: the same answers, and the same /zookeeper/config after each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from simzk import ZooKeeperServer
from simzk.serve.clock import WallClock
from simzk.serve.configuration.ensemble_plan import of_files
from simzk.serve.configuration.zoo_cfg import read_zoo_cfg
from tests.conformance.real_ensemble import SERVERS, RealEnsemble
from tests.conformance.real_zookeeper import SUPER_DIGEST
from tests.serve.served import running_ensemble

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.serve.served import ServedEnsemble

pytestmark = pytest.mark.slow

NEW = "server.100=127.0.0.1:1:2:observer;127.0.0.1:3"


class Ask(NamedTuple):
    """A reconfiguration request; `{1}` to `{3}` stand for the address part of the running members."""

    joining: str | None = None
    leaving: str | None = None
    members: str | None = None
    from_config: int = -1


ASKED = {
    "an observer": Ask(NEW),
    "the same again": Ask(NEW),
    "order of ids": Ask(
        "server.17=h17:1:2:observer;3,server.9=h9:1:2:observer;127.0.0.2:3,server.33=h33:1:2:observer;4"
    ),
    "defaults": Ask("server.5=127.0.0.1:7:8;9"),
    "a leave and a join": Ask("server.6=127.0.0.1:10:11:PARTICIPANT;12", "5"),
    "several leave": Ask(None, "6, 100,17,9,33,77"),
    "nothing": Ask(),
    "empty": Ask("", ""),
    "stale": Ask(NEW, from_config=0),
    "future": Ask(NEW, from_config=1 << 40),
    "no equals sign": Ask("some thing"),
    "two equals signs": Ask("server.7=a=b"),
    "no id": Ask("server.x=127.0.0.1:1:2:observer;3"),
    "no prefix": Ask("7=127.0.0.1:1:2:observer;3"),
    "another prefix": Ask("peer.8=127.0.0.1:4:5:observer;6"),
    "without a client port": Ask("server.7=127.0.0.1:1:2:observer"),
    "too few ports": Ask("server.7=127.0.0.1:1;3"),
    "too many parts": Ask("server.7=127.0.0.1:1:2:observer:x;3"),
    "two clients": Ask("server.7=127.0.0.1:1:2:observer;3;4"),
    "client of three parts": Ask("server.7=127.0.0.1:1:2:observer;a:3:4"),
    "equal ports": Ask("server.7=127.0.0.1:1:1:observer;3"),
    "no port": Ask("server.7=127.0.0.1:one:2:observer;3"),
    "no client port": Ask("server.7=127.0.0.1:1:2:observer;three"),
    "an absurd port": Ask("server.7=127.0.0.1:1:70000:observer;3"),
    "an unknown kind": Ask("server.7=127.0.0.1:1:2:watcher;3"),
    "addresses of others": Ask("server.8=10.0.0.8:4:5:observer;10.0.0.9:6"),
    "an address that is taken": Ask("server.7=10.0.0.8:5:22:observer;23"),
    "a client's address that is taken": Ask("server.7=10.0.0.9:6:22:observer;23"),
    "its own address": Ask("server.8=10.0.0.8:5:4:observer;10.0.0.9:7"),
    "a port of this machine, taken": Ask("server.6=127.0.0.1:4:5:observer;6,server.7=127.0.0.1:4:22:observer;23"),
    "IPv6": Ask("server.7=[::1]:31:32:observer;[::1]:33"),
    "IPv6 unclosed": Ask("server.7=[::1:31:32:observer;33"),
    "an unknown one leaves": Ask(None, "77"),
    "who leaves is no number": Ask(None, "x"),
    "too few voters": Ask(None, "1,2"),
    "no quorum": Ask(
        "server.70=127.0.0.1:41:42;43,server.71=127.0.0.1:44:45;46,server.72=127.0.0.1:47:48;49"
        ",server.73=127.0.0.1:50:51;52"
    ),
    "members": Ask(members="server.1={1},server.2={2},server.3={3}"),
    "members by lines": Ask(members="server.1={1}\nserver.2={2}\nserver.3={3}\nversion=5\n"),
    "members and more": Ask(members="server.3={3},server.2={2},server.1={1},server.90=h90:1:2:observer"),
    "members and who joins": Ask(NEW, None, "server.1={1},server.2={2},server.3={3}"),
    "one member": Ask(members="server.1={1}"),
    "one member and an observer": Ask(members="server.1={1},server.9=h:1:2:observer;3"),
    "observers only": Ask(members="server.9=h:1:2:observer;3"),
    "no members": Ask(members=""),
    "members of an unknown key": Ask(members="server.1={1},server.2={2},server.3={3},dataDir=/tmp"),
    "members that are none": Ask(members="something"),
    "members without a quorum": Ask(members="server.1={1},server.70=127.0.0.1:41:42;43,server.71=127.0.0.1:44:45;46"),
}


class Played(NamedTuple):
    """Replies of an ensemble to each of `ASKED`, and its servers at the end."""

    said: dict[str, object]
    modes: list[str]


def play(hosts: str, members: dict[int, str], modes: Callable[[], list[str]]) -> Played:
    client = KazooClient(hosts=hosts, auth_data=[("digest", "super:test")])
    ordinary = KazooClient(hosts=hosts)
    client.start()
    ordinary.start()

    def named(text: bytes) -> str:
        reported = text.decode()
        for server, line in members.items():
            reported = reported.replace(line, f"<{server}>")
        return re.sub("version=[0-9a-f]+", "version=V", reported)

    def ask(asker: KazooClient, asked: Ask) -> object:
        filled = None
        if asked.members is not None:
            filled = asked.members
            for server, line in members.items():
                filled = filled.replace(f"{{{server}}}", line)
        before = client.get("/zookeeper/config")[1]
        try:
            text, stat = asker.reconfig(asked.joining, asked.leaving, filled, asked.from_config)
        except KazooException as refused:
            return type(refused).__name__, client.get("/zookeeper/config")[1].mzxid == before.mzxid
        client.sync("/")
        now, reported = client.get("/zookeeper/config")
        version = int(text.rpartition(b"=")[2], 16)
        return named(text), stat.version, stat.mzxid == version > before.mzxid, now == text, reported == stat

    try:
        said = {name: ask(client, asked) for name, asked in ASKED.items()}
        for name in ("an observer", "no equals sign", "stale", "no quorum", "nothing"):
            said[f"{name}, by anybody"] = ask(ordinary, ASKED[name])
        return Played(said, modes())
    finally:
        for one in (client, ordinary):
            one.stop()
            one.close()


def play_on_ours() -> Played:
    with ZooKeeperServer(servers=3, super_digest=SUPER_DIGEST) as ours:
        client = ours.client()
        client.start()
        lines = client.get("/zookeeper/config")[0].decode().splitlines()[:-1]
        members = {server: line.partition("=")[2] for server, line in enumerate(lines, 1)}
        return play(ours.ensemble.hosts(3), members, lambda: sorted(ours.ensemble.modes.values()))


@pytest.mark.java
def test_both_ensembles_answer_alike() -> None:
    with RealEnsemble() as real:
        members = {int(line[7]): line[9:] for line in real.members.splitlines()}
        hosts = f"127.0.0.1:{real.ports[real.leader]}"
        expected = play(hosts, members, lambda: sorted(real.mode(server) for server in real.ports))
    ours = play_on_ours()
    different = {name: (what, expected.said[name]) for name, what in ours.said.items() if what != expected.said[name]}
    assert different == {}
    assert ours == expected


def configured(hosts: str) -> str:
    client = KazooClient(hosts=hosts)
    client.start()
    text: bytes = client.get("/zookeeper/config")[0]
    kept = client.get("/kept")[0]
    client.stop()
    client.close()
    return f"{text.decode()}\n{kept.decode()}"


def reconfigure(hosts: str, joining: str) -> None:
    client = KazooClient(hosts=hosts, auth_data=[("digest", "super:test")])
    client.start()
    client.reconfig(joining, None, None)
    client.ensure_path("/kept")
    client.set("/kept", joining.encode())
    client.stop()
    client.close()


@pytest.mark.java
def test_either_ensemble_goes_on_with_the_others_files() -> None:
    """Reconfigured by the real servers, then by ours on their very files, then theirs again."""

    def serve(server_ids: tuple[int, ...]) -> AbstractContextManager[ServedEnsemble]:
        return running_ensemble(of_files([read_zoo_cfg(real.config(server)) for server in server_ids]), WallClock())

    with RealEnsemble() as real:
        hosts = f"127.0.0.1:{real.ports[3]}"
        line = real.members.splitlines()[0].replace("participant", "observer")
        reconfigure(hosts, line)
        expected = configured(hosts)
        for server in SERVERS:
            real.kill(server)
        with serve(SERVERS) as ours:
            assert {server: member.mode for server, member in ours.tcp.ensemble.members.items()} == {
                1: "observer",
                2: "follower",
                3: "leader",
            }
            assert configured(hosts) == expected
            reconfigure(hosts, line.replace("observer", "participant"))
            expected = configured(hosts)
        for server in SERVERS:
            real.run(server)
        for server in SERVERS:
            real.wait_for_mode(server, "leader", "follower")
        assert configured(hosts) == expected
