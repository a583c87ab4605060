"""Recorder of logins and permissions: it plays the stories of tests/kafka/security/login_stories.py to real brokers.

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka python -m tests.conformance.real_kafka.record_logins [RELEASE ...]

starts a real ZooKeeper (that of PySpark) and one broker with a listener SASL_PLAINTEXT for each release, tells it the
stories, and replaces what `tests/kafka/security/data/logins.jsonl.gz` has of the release. It takes up to three
minutes for each.

Rules of this module:
  - users of SCRAM, ACLs and topics are znodes that are there before the broker starts;
  - users of PLAIN are in a JAAS file, which every release reads.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient

from simzk.kafka import paths
from simzk.kafka.schemas import acl, scram
from simzk.kafka.schemas.acl import AclResource
from simzk.kafka.schemas.config import sanitize
from tests.conformance.real_kafka.cluster import RealBrokers, until
from tests.conformance.real_kafka.releases import RELEASES, Release, jars
from tests.conformance.real_zookeeper import RealZooKeeper, free_port
from tests.kafka.recorded_lines import read_lines, write_lines
from tests.kafka.security import login_stories
from tests.kafka.security.recorded_logins import FILE

if TYPE_CHECKING:
    from collections.abc import Callable

BROKER = 1
FIRST = (0, 10)
"""The first release with SaslHandshake."""
CONNECT_S = 10.0


class SecuredBroker(RealBrokers):
    """A broker with a listener SASL_PLAINTEXT.

    Args:
        release: which Kafka.
        folder: an empty folder for logs and data.
        zookeeper: the address of its ZooKeeper.
    """

    def __init__(self, release: Release, folder: Path, zookeeper: str) -> None:
        super().__init__(release, jars(release), folder, {BROKER: free_port()}, {BROKER: "rack1"})
        self._zookeeper = zookeeper
        (folder / "jaas.conf").write_text(self._jaas())

    def _jaas(self) -> str:
        scram_module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        modules = [login_stories.JAAS, scram_module] if self.release.number >= (0, 10, 2) else [login_stories.JAAS]
        return "KafkaServer {\n" + "\n".join(modules) + "\n};\n"

    def zookeeper_of(self, broker: int) -> str:
        """Return the address of ZooKeeper."""
        return self._zookeeper

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of the broker."""
        own: dict[str, object] = {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{self.ports[broker]}",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
        }
        return super().properties(broker) | own | login_stories.settings(self.release.number)

    def _java(self) -> list[str]:
        java, *rest = super()._java()
        jaas = f"-Djava.security.auth.login.config={self.folder / 'jaas.conf'}"
        return [java, jaas, "-Dzookeeper.sasl.client=false", "-Dfile.encoding=UTF-8", *rest]

    def prepare(self) -> None:
        """Write the users, ACLs and topics."""
        for name, passwords in login_stories.CREDENTIALS.items():
            config = {
                mechanism: scram.encode(scram.credential(mechanism, password, login_stories.SALT))
                for mechanism, password in passwords.items()
            }
            self._write(f"/config/users/{sanitize(name)}", {"version": 1, "config": config})
        for (kind, name), entries in login_stories.acls(self.release.number).items():
            self.client.create(paths.acl(AclResource(kind, name)), acl.encode(entries), makepath=True)
        for topic in login_stories.TOPICS:
            self._write(f"/config/topics/{topic}", {"version": 1, "config": {}})
            self._write(f"/brokers/topics/{topic}", {"version": 1, "partitions": {"0": [BROKER]}})

    def _write(self, path: str, value: object) -> None:
        self.client.create(path, json.dumps(value).encode(), makepath=True)


class SocketWire:
    """A connection to a real broker.

    Args:
        port: its port.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self.closed = False

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        try:
            self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        except OSError:
            self.closed = True

    def wait(self, limit_s: float) -> bytes | None:
        """Return the next frame; None if the connection is closed, or nothing comes."""
        end_s = self.now_s() + limit_s
        while (frame := self._frame()) is None and not self.closed:
            left_s = end_s - self.now_s()
            if left_s <= 0:
                return None
            self._socket.settimeout(left_s)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return None
            except OSError:
                data = b""
            self.closed = not data
            self._data += data
        return frame

    def _frame(self) -> bytes | None:
        if len(self._data) < 4:
            return None
        (size,) = struct.unpack(">i", self._data[:4])
        if len(self._data) < 4 + size:
            return None
        frame, self._data = self._data[4 : 4 + size], self._data[4 + size :]
        return frame

    def now_s(self) -> float:
        """Return the time."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def end(self) -> None:
        """Close the connection."""
        self._socket.close()


def record(release: Release, report: Callable[[str], object], chosen: str | None = None) -> list[dict[str, Any]]:
    """Tell the stories to a real broker; return what was written down.

    Args:
        release: which Kafka.
        report: shows the progress.
        chosen: the only story; all if None.
    """
    found = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real-kafka-")))
        zookeeper = stack.enter_context(RealZooKeeper())
        broker = SecuredBroker(release, folder, zookeeper.hosts)
        broker.client = KazooClient(zookeeper.hosts)
        stack.callback(broker.client.close)
        broker.client.start()
        stack.callback(broker.client.stop)
        stack.callback(broker.kill_all)
        broker.prepare()
        broker.start(BROKER)

        def connect() -> SocketWire:
            return SocketWire(broker.ports[BROKER])

        def listens() -> bool:
            with contextlib.suppress(ConnectionRefusedError):
                connect().end()
                return True
            return False

        until(listens, lambda: f"the port refuses: {broker.said(BROKER)}")
        login_stories.wait_for_topics(release.number, connect)
        for line in login_stories.play(release.number, connect, chosen):
            report(f"{release.version}  {line['story']}: {line['talk']}")
            found.append({"release": release.version, **line})
    return found


def main() -> None:
    """Record releases."""
    parser = argparse.ArgumentParser(description="Record logins and permissions at real brokers.")
    known = [release for release in RELEASES if release.number >= FIRST]
    versions = [release.version for release in known]
    parser.add_argument("releases", nargs="*", default=versions, help=f"of {', '.join(versions)} [default: all]")
    parser.add_argument("--story", choices=list(login_stories.STORIES), help="the only story [default: all]")
    parser.add_argument("--out", type=Path, default=FILE, help="file of the recordings [default: that of the tests]")
    arguments = parser.parse_args()
    begins_s = time.monotonic()

    def report(step: str) -> None:
        if sys.stderr.isatty():
            print(f"{time.monotonic() - begins_s:7.1f} s  {step}", file=sys.stderr)

    kept = list(read_lines(arguments.out)) if arguments.out.exists() else []
    for release in known:
        if release.version not in arguments.releases:
            continue
        found = record(release, report, arguments.story)
        stories = {line["story"] for line in found}
        kept = [line for line in kept if line["release"] != release.version or line["story"] not in stories] + found
        names = list(login_stories.STORIES)
        kept.sort(key=lambda line: (versions.index(line["release"]), names.index(line["story"])))
        write_lines(arguments.out, kept)


if __name__ == "__main__":
    main()
