"""Common part of recorders that play stories to real brokers of each release, most of them to one.

Rules of this module:
  - the stories' topics, and what else a broker finds at its start, are znodes that are there before it starts;
  - recording a release replaces what the file has of it, or of the one story that was played.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kazoo.client import KazooClient

from tests.conformance.real_kafka.cluster import RealBrokers
from tests.conformance.real_kafka.releases import Release, jars
from tests.conformance.real_zookeeper import RealZooKeeper, free_ports
from tests.kafka.recorded_lines import read_lines, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

BROKER = 1


class BrokersOnZooKeeper(RealBrokers):
    """Brokers on a real ZooKeeper of their own, each in a rack of its own.

    Args:
        release: which Kafka.
        folder: an empty folder for logs and data.
        zookeeper: the address of their ZooKeeper.

    Attributes:
        ids: which brokers.
    """

    ids: ClassVar[Sequence[int]]

    def __init__(self, release: Release, folder: Path, zookeeper: str) -> None:
        ports = dict(zip(self.ids, free_ports(len(self.ids)), strict=True))
        super().__init__(release, jars(release), folder, ports, {broker: f"rack{broker}" for broker in self.ids})
        self._zookeeper = zookeeper

    def zookeeper_of(self, broker: int) -> str:
        """Return the address of ZooKeeper."""
        return self._zookeeper

    def write(self, path: str, value: object) -> None:
        """Write a znode with a JSON text."""
        self.client.create(path, json.dumps(value).encode(), makepath=True)


class RecordedBroker(BrokersOnZooKeeper):
    """One broker on a ZooKeeper of its own."""

    ids = (BROKER,)

    def prepare(self) -> None:
        """Write what the broker finds at its start."""
        raise NotImplementedError

    def write_topic(self, topic: str, config: dict[str, str]) -> None:
        """Write a topic with one partition."""
        self.write(f"/config/topics/{topic}", {"version": 1, "config": config})
        self.write(f"/brokers/topics/{topic}", {"version": 1, "partitions": {"0": [BROKER]}})


B = TypeVar("B", bound=BrokersOnZooKeeper)
R = TypeVar("R", bound=RecordedBroker)


@contextlib.contextmanager
def on_zookeeper(
    release: Release, kind: Callable[[Release, Path, str], B], *, server: Path | None = None
) -> Iterator[B]:
    """Yield brokers on a real ZooKeeper, none of them started; `server` is the folder of its jars, if not PySpark's."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real-kafka-")))
        zookeeper = stack.enter_context(RealZooKeeper(jars_from=server))
        brokers = kind(release, folder, zookeeper.hosts)
        brokers.client = KazooClient(zookeeper.hosts)
        stack.callback(brokers.client.close)
        brokers.client.start()
        stack.callback(brokers.client.stop)
        stack.callback(brokers.kill_all)
        yield brokers


@contextlib.contextmanager
def started(release: Release, kind: Callable[[Release, Path, str], R]) -> Iterator[R]:
    """Yield a broker that is prepared and registered, on a real ZooKeeper."""
    with on_zookeeper(release, kind) as broker:
        broker.prepare()
        broker.start(BROKER)
        yield broker


def main(
    description: str,
    known: Sequence[Release],
    stories: Collection[str],
    file: Path,
    record: Callable[[Release, Callable[[str], object], str | None], list[dict[str, Any]]],
) -> None:
    """Record releases, as the command line says.

    Args:
        description: of the command.
        known: the releases that can be recorded.
        stories: the names of the stories, in the order of the file.
        file: the file of the recordings.
        record: plays the stories, or one of them, to a release, and reports its steps; returns the lines of the file.
    """
    parser = argparse.ArgumentParser(description=description)
    versions = [release.version for release in known]
    parser.add_argument("releases", nargs="*", default=versions, help=f"of {', '.join(versions)} [default: all]")
    parser.add_argument("--story", choices=list(stories), help="the only story [default: all]")
    parser.add_argument("--out", type=Path, default=file, help="file of the recordings [default: that of the tests]")
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
        played = {line["story"] for line in found}
        kept = [line for line in kept if line["release"] != release.version or line["story"] not in played] + found
        names = list(stories)
        kept.sort(key=lambda line: (versions.index(line["release"]), names.index(line["story"])))
        write_lines(arguments.out, kept)
