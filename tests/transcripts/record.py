"""Records the transcripts anew: real clients, each through a proxy, against a real ZooKeeper.

    python -m tests.transcripts.record [NAME ...]

Rules of this module:
  - every client connects, creates, reads, watches, sends a multi; where it can, it loses its connection and comes back
    to its session; its znodes are gone when the next one starts;
  - who is not installed is named and keeps the transcript it has (README.md says how to install).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadVersionError, NoNodeError

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import ConnectResponse, Reply
from tests.conformance.clients.dialogue import PATH, foreign
from tests.conformance.real_zookeeper import RealZooKeeper, four_letter_word, jars
from tests.conformance.test_foreign_clients import BUILD, CLIENTS
from tests.conformance.test_java_client import CLIENT_S, SCRIPT
from tests.transcripts.proxy import RecordingProxy
from tests.transcripts.transcript import Transcript, write
from tests.waiting import PATIENCE_S, Reports
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Callable

_JAVA = ["java", "-Xmx256m", "-Dlog4j2.level=OFF", "-Dorg.apache.logging.log4j.level=OFF", "-cp"]


def kazoo(proxy: RecordingProxy, port: int) -> None:
    """Calls of kazoo; the connection is cut while watches are set, one of which fires meanwhile."""
    client = KazooClient(hosts=proxy.hosts)
    states, events = Reports(), Reports()
    client.add_listener(states)
    client.start(PATIENCE_S)
    client.add_auth("digest", "user:secret")
    client.create("/kazoo", "\u00e9\u20ac".encode())
    client.create("/kazoo/n-", b"", ephemeral=True, sequence=True, include_data=True)
    client.get("/kazoo", watch=events)
    client.set("/kazoo", b"x" * 300, version=0)
    events.next()
    client.get_children("/kazoo", include_data=True)
    client.get_acls("/kazoo")
    client.sync("/kazoo")
    with pytest.raises(NoNodeError):
        client.get("/none")
    with pytest.raises(BadVersionError):
        client.delete("/kazoo", 9)
    for checked in (1, 7):
        transaction = client.transaction()
        transaction.check("/kazoo", checked)
        transaction.create(f"/kazoo/m{checked}", b"one")
        transaction.set_data("/kazoo", b"two")
        transaction.delete(f"/kazoo/m{checked}")
        transaction.commit()
    client.get("/kazoo", watch=events)
    client.exists("/none", watch=events)
    client.get_children("/kazoo", watch=events)
    proxy.cut()
    states.until_equal(KazooState.SUSPENDED)
    states.until_equal(KazooState.CONNECTED)
    client.set("/kazoo", b"three")
    events.next()
    client.delete("/kazoo", recursive=True)
    client.stop()
    client.close()


def zkcli(proxy: RecordingProxy, port: int) -> None:
    """ZooKeeper's command line, with a script."""
    command = [*_JAVA, f"{jars()}/*", "org.apache.zookeeper.ZooKeeperMain", "-server", proxy.hosts]
    subprocess.run(command, input=SCRIPT, stdout=subprocess.DEVNULL, text=True, timeout=CLIENT_S, check=False)


def java_program(name: str) -> Callable[[RecordingProxy, int], None]:
    """A program of clients/ in Java."""

    def speak(proxy: RecordingProxy, port: int) -> None:
        program([*_JAVA, f"{jars()}/*", str(CLIENTS / name)])(proxy, port)

    return speak


def program(command: list[str]) -> Callable[[RecordingProxy, int], None]:
    """A program of clients/, which reconnects after a cut and sees its watch fire."""

    def speak(proxy: RecordingProxy, port: int) -> None:
        with foreign(command, proxy.address[1]) as client:
            client.until("connected 0x")
            client.until("waiting")
            if f"changed {PATH}" not in client.said:
                client.until(f"changed {PATH}")
            proxy.cut()
            client.until("disconnected")
            client.until("connected 0x")
            client.until(_set_three(port))

    return speak


def _set_three(port: int) -> str:
    other = KazooClient(hosts=f"127.0.0.1:{port}")
    other.start(PATIENCE_S)
    other.set(PATH, b"three")
    other.stop()
    other.close()
    return "read three"


class _Own:
    """Our own codec on a socket: it asks one thing after the other."""

    def __init__(self, proxy: RecordingProxy, connect: req.ConnectRequest) -> None:
        self._socket = socket.create_connection(proxy.address)
        self._wire = ClientConnection()
        self._xid = 0
        self._socket.sendall(self._wire.connect(connect))
        [response] = self._wire.receive_data(self._socket.recv(65536))
        assert isinstance(response, ConnectResponse)
        self.session = response

    def ask(self, request: req.Request) -> Reply:
        self._xid += 1
        self._socket.sendall(self._wire.request(self._xid, request))
        while True:
            for message in self._wire.receive_data(self._socket.recv(65536)):
                if isinstance(message, Reply):
                    return message

    def close(self) -> None:
        self._socket.close()


def without_read_only(proxy: RecordingProxy, port: int) -> None:
    """A client of the time before 3.4: no readOnly in its connect request, nor in the answers; each kind of request."""
    new = req.ConnectRequest(0, 0, 10_000, 0, bytes(16), None)
    with closing(_Own(proxy, new)) as client:
        create = ("/own", b"one", req.OPEN_ACL, 0)
        for request in (
            req.Create(*create),
            req.Create2("/own/two", None, req.OPEN_ACL, 1),
            req.CreateContainer("/own/container", b"", req.OPEN_ACL, 4),
            req.CreateTTL("/own/ttl", b"", req.OPEN_ACL, 5, 1000_000),
            req.GetData("/own", watch=True),
            req.AddWatch("/own", 1),
            req.SetData("/own", b"two", 0),
            req.GetChildren("/own", watch=True),
            req.GetChildren2("/own", watch=False),
            req.Exists("/none", watch=True),
            req.CheckWatches("/none", 3),
            req.RemoveWatches("/none", 3),
            req.SetACL("/own", req.OPEN_ACL, 0),
            req.GetACL("/own"),
            req.GetEphemerals("/own"),
            req.GetAllChildrenNumber("/own"),
            req.WhoAmI(),
            req.Ping(),
            req.Sync("/own"),
            req.Multi((req.Create2("/own/m", b"", req.OPEN_ACL, 0), req.Check("/own", 1), req.Delete("/own/m", 0))),
            req.Multi((req.SetData("/own", b"", 1), req.Delete("/none", 0), req.Create(*create))),
            req.MultiRead((req.GetData("/own", watch=False), req.GetChildren("/own", watch=False))),
            req.MultiRead((req.GetData("/none", watch=False),)),
            req.Create(*create),
            req.DeleteContainer("/own/container"),
        ):
            client.ask(request)
        session = client.session
    again = new._replace(session_id=session.session_id, password=session.password)
    with closing(_Own(proxy, again)) as client:
        assert client.session.session_id == session.session_id
        client.ask(req.SetWatches(1, ("/own",), ("/own/two",), None))
        client.ask(req.SetWatches2(1, (), (), (), ("/own",), ("/own",)))
        client.ask(req.Delete("/own/two", 0))
        client.ask(req.CloseSession())
    with closing(_Own(proxy, again)) as client:
        assert client.session.session_id == 0


CLIENTS_BY_NAME: dict[str, tuple[str, Callable[[RecordingProxy, int], None]]] = {
    "kazoo": (f"kazoo {version('kazoo')}", kazoo),
    "zkcli": ("zkCli of the server's version", zkcli),
    "java_client": (
        "Java client of the server's version",
        java_program("JavaClient.java"),
    ),
    "curator": ("Curator of PySpark", java_program("CuratorClient.java")),
    "c": ("C client of Debian's libzookeeper-mt", program([str(BUILD / "c-client")])),
    "go": ("github.com/go-zookeeper/zk 1.0.4", program([str(BUILD / "go" / "client")])),
    "node": ("node-zookeeper-client 1.1.3", program(["node", str(BUILD / "node" / "client.js")])),
    "without_read_only": ("simzk's client codec, as before 3.4", without_read_only),
}
_NEEDS = {"c": BUILD / "c-client", "go": BUILD / "go" / "client", "node": BUILD / "node" / "node_modules"}


def main(names: list[str]) -> None:
    """Record the clients of these names, or all."""
    with RealZooKeeper() as real:
        server = four_letter_word(real.port, b"srvr").decode().split()[2].partition("-")[0]
        for name in names or CLIENTS_BY_NAME:
            if name in _NEEDS and not _NEEDS[name].exists():
                print(f"{name}: not installed, its transcript stays as it is")
                continue
            if name == "node":
                shutil.copy(CLIENTS / "client.js", BUILD / "node" / "client.js")
            label, speak = CLIENTS_BY_NAME[name]
            with RecordingProxy(real.port) as proxy:
                speak(proxy, real.port)
                streams = proxy.finished()
            write(name, Transcript(label, f"ZooKeeper {server.rstrip(',')}", streams))
            print(f"{name}: {[(len(one.to_server), len(one.to_client)) for one in streams]} bytes")
            _clean(real)


def _clean(real: RealZooKeeper) -> None:
    client = KazooClient(hosts=real.hosts)
    client.start(PATIENCE_S)
    for child in client.get_children("/"):
        if child != "zookeeper":
            client.delete(f"/{child}", recursive=True)
    client.stop()
    client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
