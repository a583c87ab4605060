"""Recorder of logs: it plays the stories of tests/kafka/client_requests/log_stories.py to real brokers.

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka python -m tests.conformance.real_kafka.record_logs [RELEASE ...]

starts a real ZooKeeper (that of PySpark) and one broker for each release, tells it the stories, and replaces what
`tests/kafka/client_requests/data/logs.jsonl.gz` has of the release. It takes four minutes for each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient

from simzk.kafka.releases.versions import kafka_version
from tests.conformance.real_kafka.cluster import RealBrokers, until
from tests.conformance.real_kafka.record_logins import SocketWire
from tests.conformance.real_kafka.releases import RELEASES, Release, jars
from tests.conformance.real_zookeeper import RealZooKeeper, free_port
from tests.kafka.client_requests import log_stories
from tests.kafka.client_requests.recorded_logs import FILE
from tests.kafka.recorded_lines import read_lines, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BROKER = 1
FIRST = (0, 9)
"""The first release of which the cleaner is on."""


class Broker(RealBrokers):
    """A broker with the topics of the stories.

    Args:
        release: which Kafka.
        folder: an empty folder for logs and data.
        zookeeper: the address of its ZooKeeper.
    """

    def __init__(self, release: Release, folder: Path, zookeeper: str) -> None:
        super().__init__(release, jars(release), folder, {BROKER: free_port()}, {BROKER: "rack1"})
        self._zookeeper = zookeeper

    def zookeeper_of(self, broker: int) -> str:
        """Return the address of ZooKeeper."""
        return self._zookeeper

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of the broker."""
        return super().properties(broker) | log_stories.settings(self.release.number)

    def prepare(self) -> None:
        """Write the topics."""
        for topic, config in log_stories.topics(self.release.number).items():
            self._write(f"/config/topics/{topic}", {"version": 1, "config": dict(config)})
            self._write(f"/brokers/topics/{topic}", {"version": 1, "partitions": {"0": [BROKER]}})

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        """Replace the configuration of a topic, and tell the broker."""
        self.client.set(f"/config/topics/{topic}", json.dumps({"version": 1, "config": dict(config)}).encode())
        change = kafka_version(self.release.version).znodes.encode_config_change(f"topics/{topic}")
        self.client.create("/config/changes/config_change_", change, sequence=True)

    def leads_all(self) -> bool:
        """Return whether all topics have a leader."""
        states = (f"/brokers/topics/{topic}/partitions/0/state" for topic in log_stories.topics(self.release.number))
        return all(self.client.exists(path) for path in states)

    def _write(self, path: str, value: object) -> None:
        self.client.create(path, json.dumps(value).encode(), makepath=True)


def record(release: Release, report: Callable[[str], object], chosen: str | None = None) -> list[dict[str, Any]]:
    """Tell the stories to a real broker; return what was seen.

    Args:
        release: which Kafka.
        report: shows the progress.
        chosen: the only story; all if None.
    """
    found = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real-kafka-")))
        zookeeper = stack.enter_context(RealZooKeeper())
        broker = Broker(release, folder, zookeeper.hosts)
        broker.client = KazooClient(zookeeper.hosts)
        stack.callback(broker.client.close)
        broker.client.start()
        stack.callback(broker.client.stop)
        stack.callback(broker.kill_all)
        broker.prepare()
        broker.start(BROKER)
        until(broker.leads_all, lambda: f"topics have no leaders: {broker.said(BROKER)}")
        wire = SocketWire(broker.ports[BROKER])
        stack.callback(wire.end)
        wire.pause(log_stories.CLEANED_S)
        for line in log_stories.play(log_stories.Stage(release.number, wire, broker.configure), chosen):
            report(f"{release.version}  {line['story']}: {line['look']}")
            found.append({"release": release.version, **line})
    return found


def main() -> None:
    """Record releases."""
    parser = argparse.ArgumentParser(description="Record segments and compaction at real brokers.")
    known = [release for release in RELEASES if release.number >= FIRST and not release.needs_java_11]
    versions = [release.version for release in known]
    parser.add_argument("releases", nargs="*", default=versions, help=f"of {', '.join(versions)} [default: all]")
    parser.add_argument("--story", choices=list(log_stories.STORIES), help="the only story [default: all]")
    parser.add_argument("--out", type=Path, default=FILE, help="file of the recordings [default: that of the tests]")
    arguments = parser.parse_args()
    begins_s = time.monotonic()

    def report(step: str) -> None:
        print(f"{time.monotonic() - begins_s:7.1f} s  {step}", file=sys.stderr)

    kept = list(read_lines(arguments.out)) if arguments.out.exists() else []
    for release in known:
        if release.version not in arguments.releases:
            continue
        found = record(release, report, arguments.story)
        stories = {line["story"] for line in found}
        kept = [line for line in kept if line["release"] != release.version or line["story"] not in stories] + found
        names = list(log_stories.STORIES)
        kept.sort(key=lambda line: (versions.index(line["release"]), names.index(line["story"])))
        write_lines(arguments.out, kept)


if __name__ == "__main__":
    main()
