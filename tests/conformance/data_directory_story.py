"""One story for both servers, in two chapters with a restart between, that leaves every kind of record on disk.

`python -m tests.conformance.data_directory_story FOLDER` plays it on a real ZooKeeper and keeps what that wrote, with
the tree as kazoo read it and the files as ZooKeeper's own tools print them: the recorded directory among the tests'
data.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kazoo.client import KazooClient

from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Reply
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance.arms import TcpArm
from tests.conformance.java_tools import log_by_java, sessions_sorted, snapshot_by_java
from tests.conformance.real_zookeeper import SUPER_DIGEST, RealZooKeeper
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server
    from simzk.zookeeper.tree import DataTree

CONFIG = ServerConfig(tick_time_ms=500, max_session_timeout_ms=40_000, extended_types=True, super_digest=SUPER_DIGEST)
CONNECT = req.ConnectRequest(0, 0, 40_000, 0, None, False)
AUTH_ACL = (ACL(31, Id("auth", "")),)
MIXED_ACL = (ACL(1, Id("world", "anyone")), ACL(31, Id("ip", "127.0.0.0/8")))

Step = tuple[int, req.Request]
"""Which client asks what; a client connects when it first asks."""


def chapter_one() -> list[Step]:
    create, create2 = req.Create, req.Create2
    steps: list[Step] = [
        (1, req.Auth(0, "digest", b"user:password")),
        (1, create("/plain", b"some data", OPEN_ACL, 0)),
        (1, create("/null", None, OPEN_ACL, 0)),
        (1, create("/empty", b"", OPEN_ACL, 0)),
        (1, create2("/second", bytes(range(256)), OPEN_ACL, 0)),
        (1, create("/ünï cödé", "dätä".encode(), OPEN_ACL, 0)),
        (1, create("/secret", b"s", AUTH_ACL, 0)),
        (1, create("/mixed", b"m", MIXED_ACL, 0)),
        (1, req.SetACL("/plain", MIXED_ACL, 0)),
        (1, req.SetACL("/plain", OPEN_ACL, 1)),
        (1, req.SetData("/plain", b"new data", 0)),
        (1, req.SetData("/null", None, -1)),
        (1, create("/queue", b"", OPEN_ACL, 0)),
        *[(1, create("/queue/item-", b"%d" % number, OPEN_ACL, 2)) for number in range(8)],
        (1, req.Delete("/queue/item-0000000003", -1)),
        (1, req.CreateContainer("/container", b"c", OPEN_ACL, 4)),
        (1, req.CreateTTL("/ttl", b"t", OPEN_ACL, 5, 1 << 30)),
        (1, req.CreateTTL("/ttl-", b"t", AUTH_ACL, 6, (1 << 40) - 1)),
        (2, create("/closing-b", b"", OPEN_ACL, 1)),
        (2, create("/closing-", b"", OPEN_ACL, 3)),
        (3, create("/staying", b"alive", OPEN_ACL, 1)),
        (3, create("/queue/staying", b"", OPEN_ACL, 1)),
        (1, req.Multi((create("/m", b"", OPEN_ACL, 0), req.SetData("/m", b"1", 0), req.Check("/m", 1)))),
        (1, req.Multi((create2("/m/n", b"", AUTH_ACL, 2), req.Delete("/empty", -1)))),
        (1, req.Multi((create("/x", b"", OPEN_ACL, 0), req.Delete("/none", -1), req.SetData("/m", b"2", -1)))),
        (1, req.Multi(())),
        (1, req.Delete("/none", -1)),
        (1, req.SetData("/plain", b"", 7)),
        (2, req.CloseSession()),
    ]
    return steps


def chapter_two() -> list[Step]:
    create = req.Create
    steps: list[Step] = [
        (4, create("/zookeeper/quota/queue", b"", OPEN_ACL, 0)),
        (4, create("/zookeeper/quota/queue/zookeeper_limits", b"count=100,bytes=-1", OPEN_ACL, 0)),
        (4, create("/zookeeper/quota/queue/zookeeper_stats", b"count=0,bytes=0", OPEN_ACL, 0)),
        (4, create("/queue/item-", b"behind the restart", OPEN_ACL, 2)),
        (5, create("/gone-", b"", OPEN_ACL, 3)),
        (4, req.Delete("/second", 0)),
        (4, create("/second", b"again", MIXED_ACL, 0)),
        *[(4, req.SetData("/m", b"%d" % number, -1)) for number in range(30)],
        (5, req.CloseSession()),
        (4, req.DeleteContainer("/container")),
    ]
    return steps


class Player(Protocol):
    """Player of one chapter."""

    def __call__(self, client: int, request: req.Request) -> None: ...


class RealPlayer:
    """Plays on a real server, and insists that each request is answered."""

    def __init__(self, port: int) -> None:
        self._arm = TcpArm(port)
        self._xid = 0

    def __call__(self, client: int, request: req.Request) -> None:
        if client not in self._arm.streams:
            self._arm.connect(client, CONNECT)
        self._xid += 1
        self._arm.send(client, [(self._xid, request)])
        assert any(isinstance(message, Reply) and message.xid == self._xid for message in self._arm.streams[client])

    def leave(self) -> None:
        """Cut all connections; the sessions stay."""
        for client in self._arm.streams:
            if self._arm.is_open(client):
                self._arm.drop(client)


class SimulatedPlayer:
    """Plays on simzk's server, whose clock moves by 1 ms a request."""

    def __init__(self, server: Server, now_ms: int) -> None:
        self._server = server
        self._connections: dict[int, Connection] = {}
        self._now_ms = now_ms

    def __call__(self, client: int, request: req.Request) -> None:
        self._now_ms += 1
        if client not in self._connections:
            self._connections[client] = self._server.connect(CONNECT, self._now_ms)
        self._server.handle(self._connections[client], 1, request, self._now_ms)
        self._server.take_output()


def play(player: Player, steps: list[Step]) -> None:
    for client, request in steps:
        player(client, request)


IN_FLIGHT = 200
"""Znodes that are asked for at once."""

Dump = dict[str, dict[str, object]]
"""Path -> data in hex (None is null), Stat, ACL."""


def dump_by_kazoo(hosts: str) -> Dump:
    """The tree as kazoo reads it, with the rights of the super user."""
    client = KazooClient(hosts=hosts, auth_data=[("digest", "super:test")])
    client.start()
    dump: Dump = {}
    try:
        level = ["/"]
        while level:
            below: list[str] = []
            for begin in range(0, len(level), IN_FLIGHT):
                asked = [
                    (path, client.get_async(path), client.get_acls_async(path), client.get_children_async(path))
                    for path in level[begin : begin + IN_FLIGHT]
                ]
                for path, node, acls, names in asked:
                    data, stat = node.get(PATIENCE_S)
                    acl, _ = acls.get(PATIENCE_S)
                    dump[path] = {
                        "data": None if data is None else data.hex(),
                        "stat": list(stat),
                        "acl": [[entry.perms, entry.id.scheme, entry.id.id] for entry in acl],
                    }
                    below += [f"{path.rstrip('/')}/{name}" for name in names.get(PATIENCE_S)]
            level = below
    finally:
        client.stop()
        client.close()
    return dump


def dump_of(tree: DataTree) -> Dump:
    """The same of a tree at hand."""
    return {
        path: {
            "data": None if node.data is None else node.data.hex(),
            "stat": list(node.stat()),
            "acl": [[perms, scheme, text] for perms, (scheme, text) in node.acl],
        }
        for path, node in tree.walk()
    }


def play_on_real_server(folder: Path) -> Dump:
    """Both chapters; `folder` becomes the data directory as it was when the server was killed."""
    with tempfile.TemporaryDirectory() as place:
        between = Path(place) / "between"
        with RealZooKeeper() as server:
            player = RealPlayer(server.port)
            play(player, chapter_one())
            player.leave()
            copy_directory(server.data_directory, between)
        # Snapshots often: the second chapter gets some, and several logs.
        with RealZooKeeper(boot_from=between, properties={"zookeeper.snapCount": "20"}) as server:
            player = RealPlayer(server.port)
            play(player, chapter_two())
            player.leave()
            dump = dump_by_kazoo(server.hosts)
            copy_directory(server.data_directory, folder)
    return dump


def copy_directory(source: Path, target: Path) -> None:
    """A data directory without most of the zeros that fill up its logs to 64 MiB."""
    shutil.copytree(source, target)
    for log in target.glob("version-2/log.*"):
        log.write_bytes(log.read_bytes().rstrip(b"\0") + bytes(1024))


def main() -> None:
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    dump = play_on_real_server(folder)
    (folder / "tree.json").write_text(json.dumps(dump, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    printed = folder / "printed"
    printed.mkdir()
    for path in sorted(folder.glob("version-2/*")):
        text = log_by_java(path) if path.name.startswith("log.") else sessions_sorted(snapshot_by_java(path))
        (printed / f"{path.name}.txt").write_bytes(text.encode("utf-8"))


if __name__ == "__main__":
    main()
