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

import contextlib
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

from simzk.kafka.metadata.entities import AclResource
from simzk.kafka.security.scram import credential
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import acl, scram
from simzk.kafka.zookeeper_mode.schemas.config import sanitize
from tests.conformance.real_kafka import recorder
from tests.conformance.real_kafka.cluster import until
from tests.conformance.real_kafka.recorder import BROKER, RecordedBroker, started
from tests.conformance.real_kafka.releases import RELEASES, Release
from tests.kafka.security import login_stories
from tests.kafka.security.recorded_logins import FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST = (0, 10)
"""The first release with SaslHandshake."""
CONNECT_S = 10.0


class SecuredBroker(RecordedBroker):
    """A broker with a listener SASL_PLAINTEXT."""

    def __init__(self, release: Release, folder: Path, zookeeper: str) -> None:
        super().__init__(release, folder, zookeeper)
        (folder / "jaas.conf").write_text(self._jaas())

    def _jaas(self) -> str:
        scram_module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        modules = [login_stories.JAAS, scram_module] if self.release.number >= (0, 10, 2) else [login_stories.JAAS]
        return "KafkaServer {\n" + "\n".join(modules) + "\n};\n"

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
                mechanism: scram.encode(credential(mechanism, password, login_stories.SALT))
                for mechanism, password in passwords.items()
            }
            self.write(f"/config/users/{sanitize(name)}", {"version": 1, "config": config})
        for (kind, name), entries in login_stories.acls(self.release.number).items():
            self.client.create(paths.acl(AclResource(kind, name)), acl.encode(entries), makepath=True)
        for topic in login_stories.TOPICS:
            self.write_topic(topic, {})


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
    with started(release, SecuredBroker) as broker:

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
    known = [release for release in RELEASES if release.number >= FIRST]
    recorder.main("Record logins and permissions at real brokers.", known, login_stories.STORIES, FILE, record)


if __name__ == "__main__":
    main()
