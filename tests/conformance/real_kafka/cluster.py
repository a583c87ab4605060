"""Real brokers on a ZooKeeper, and three of them on a `simzk serve` of their own.

Rules of this module:
  - free ports are looked for; nothing outside the given folder is touched; no process outlives the cluster;
  - what other processes do is waited for by looking, within a generous bound, and what was missing is said.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from simzk.kafka.observation.recording import RecordedZnode
from tests.cli.test_serve import Process
from tests.conformance.real_kafka.tools import Tools
from tests.conformance.real_zookeeper import free_ports
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from tests.conformance.real_kafka.releases import Release

BROKERS = (1, 2, 3)
LOOK_S = 0.05
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "true",
    "delete.topic.enable": "true",
}


def settings_without_places(rack: str, log_dirs: Path) -> dict[str, object]:
    """Return the settings of a broker but for its id and addresses."""
    return {
        **SETTINGS,
        "broker.rack": rack,
        "log.dirs": log_dirs,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 8388608,
        "num.io.threads": 3,
        "num.network.threads": 2,
        "offsets.topic.num.partitions": 3,
        "offsets.topic.replication.factor": 3,
    }


# Settings of the recording's real ZooKeeper; sessions of Kafka's tools request more than 20 ticks.
ZOO_CFG = """\
tickTime=500
maxSessionTimeout=60000
maxClientCnxns=0
clientPort=0
clientPortAddress=127.0.0.1
dataDir={data}
forceSync=no
"""


def until(holds: Callable[[], bool], missing: Callable[[], str]) -> None:
    """Look until something holds; `missing` says what did not."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, missing()
        time.sleep(LOOK_S)


class RealBrokers(Tools):
    """Brokers of a release, none of them started, on a ZooKeeper.

    Args:
        release: which Kafka.
        jars: its jars.
        folder: an empty folder for logs and data.
        ports: the port of each broker.
        racks: the rack of each broker.
    """

    client: KazooClient
    """Client of the ZooKeeper, started."""

    def __init__(
        self, release: Release, jars: Path, folder: Path, ports: Mapping[int, int], racks: Mapping[int, str]
    ) -> None:
        super().__init__(release, jars, folder)
        self.ports = ports
        self.racks = racks
        self._brokers: dict[int, subprocess.Popen[bytes]] = {}

    def zookeeper_of(self, broker: int) -> str:
        """Return the address of ZooKeeper for a broker."""
        raise NotImplementedError

    def kill_all(self) -> None:
        """Kill all brokers, also stopped ones."""
        for process in self._brokers.values():
            process.kill()
            process.wait()

    # Brokers

    @property
    def bootstrap(self) -> str:
        """Return the brokers' addresses as a client's list."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def launch(self, broker: int) -> subprocess.Popen[bytes]:
        """Start the process of a broker."""
        properties = self.folder / f"{broker}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.properties(broker).items()))
        with (self.folder / f"{broker}.log").open("ab") as log:
            command = [*self._java(), "kafka.Kafka", str(properties)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self._brokers[broker] = process
        return process

    def start(self, broker: int) -> None:
        """Start a broker and wait until it is registered."""
        process = self.launch(broker)
        until(
            lambda: process.poll() is not None or self.session(broker) is not None,
            lambda: f"broker {broker} was not registered: {self.said(broker)}",
        )
        assert process.poll() is None, f"broker {broker} ended with {process.returncode}: {self.said(broker)}"

    def end(self, broker: int, number: signal.Signals) -> None:
        """Send a broker a signal that ends it, and wait until its process is gone."""
        self.signal(broker, number)
        self.wait_for_end(broker)

    def signal(self, broker: int, number: signal.Signals) -> None:
        """Send a broker a signal."""
        self._brokers[broker].send_signal(number)

    def has_ended(self, broker: int) -> bool:
        """Return whether a broker's process is gone."""
        return self._brokers[broker].poll() is not None

    def is_running(self, broker: int) -> bool:
        """Return whether a broker's process was started and is not gone."""
        return broker in self._brokers and not self.has_ended(broker)

    def wait_for_end(self, broker: int) -> None:
        """Wait until a broker's process is gone."""
        self._brokers[broker].wait(PATIENCE_S)

    def said(self, broker: int) -> str:
        """The end of a broker's log."""
        return (self.folder / f"{broker}.log").read_text(errors="replace")[-3000:]

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of a broker."""
        listens: dict[str, object] = {"listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker]}"}
        if self.release.number < (0, 9):
            listens = {"host.name": "127.0.0.1", "port": self.ports[broker]}
        return {
            **listens,
            "broker.id": broker,
            "zookeeper.connect": self.zookeeper_of(broker),
            **settings_without_places(self.racks[broker], self.folder / f"log-{broker}"),
        }

    # ZooKeeper

    def session(self, broker: int) -> int | None:
        """The session that holds a broker's registration, or None."""
        stat = self.client.exists(f"/brokers/ids/{broker}")
        return None if stat is None else int(stat.ephemeralOwner)

    def controller(self) -> int | None:
        """Which broker the controller is, or None."""
        try:
            return int(json.loads(self.client.get("/controller")[0])["brokerid"])
        except NoNodeError:
            return None

    def tree(self) -> dict[str, RecordedZnode]:
        """Every znode as a client sees it, by path; one that goes meanwhile is left out."""
        found: dict[str, RecordedZnode] = {}
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            with contextlib.suppress(NoNodeError):
                data, stat = self.client.get(path)
                children = self.client.get_children(path)
                found[path] = RecordedZnode(
                    None if data is None else data.decode(errors="replace"),
                    stat.version,
                    stat.cversion,
                    stat.aversion,
                    stat.ephemeralOwner != 0,
                    stat.numChildren,
                    stat.dataLength,
                )
                waiting.extend(f"{path.rstrip('/')}/{child}" for child in children)
        return dict(sorted(found.items()))


class RealCluster(RealBrokers):
    """Brokers 1, 2 and 3 of a release, none of them started, on an empty ZooKeeper.

    Args:
        release: which Kafka.
        jars: its jars.
        folder: an empty folder for logs and data.
    """

    def __init__(self, release: Release, jars: Path, folder: Path) -> None:
        ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        super().__init__(release, jars, folder, ports, {broker: f"rack{broker}" for broker in BROKERS})
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            (self.folder / "zookeeper").mkdir()
            (self.folder / "zoo.cfg").write_text(ZOO_CFG.format(data=self.folder / "zookeeper"))
            arguments = ("--config", str(self.folder / "zoo.cfg"), "--port", "0", "--admin-port", "0")
            self._zookeeper = Process(*arguments)
            stack.callback(self._zookeeper.end, signal.SIGKILL)
            assert self._zookeeper.popen.stderr is not None
            self._admin = self._zookeeper.popen.stderr.readline().split()[-1].rpartition("/")[0]
            self.hosts = f"127.0.0.1:{self._zookeeper.port}"
            self.client = KazooClient(self.hosts)
            stack.callback(self.client.close)
            self.client.start()
            stack.callback(self.client.stop)
            stack.callback(self.kill_all)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def zookeeper_of(self, broker: int) -> str:
        """Return the address of ZooKeeper, the same for all brokers."""
        return self.hosts

    def fault(self, verb: str, **query: object) -> dict[str, object]:
        """Do one of `simzk serve`'s faults by HTTP; what it answers."""
        asked = urllib.parse.urlencode(query)
        request = urllib.request.Request(f"{self._admin}/faults/{verb}?{asked}", method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            reported: dict[str, object] = json.load(answer)
        assert reported["error"] is None, reported
        return reported

    @contextlib.contextmanager
    def kept_from(self, path: str, brokers: Iterable[int]) -> Iterator[None]:
        """Answer nothing more to a broker that asks for this path, meanwhile; it must be shorter than a session."""
        sessions = [session for broker in brokers if (session := self.session(broker)) is not None]
        rules = [self.fault("pause_at", session=session, path=path)["rule"] for session in sessions]
        try:
            yield
        finally:
            for rule in rules:
                self.fault("clear", rule=rule)
