"""Recorder of the answers to franz-go's kadm: it plays the story of kafka_clients/kadm_story.py to real brokers.

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka SIMZK_KAFKA_CLIENTS=~/.cache/simzk-kafka-clients \\
        python -m tests.conformance.real_kafka.record_kadm [RELEASE ...]

starts a real ZooKeeper (that of PySpark) and three brokers for each release, and replaces its recording. It needs Java
and `go`, and takes about two minutes for each.

Rules of this module:
  - brokers start one after the other, so that the first is the controller;
  - an answer to a step that only reads is recorded when it has not changed for a while.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient

from tests.conformance.kafka_clients import kadm_story
from tests.conformance.kafka_clients.kadm_story import Kadm, Step
from tests.conformance.real_kafka.cluster import BROKERS, RealBrokers, until
from tests.conformance.real_kafka.releases import RELEASES, Release, jars
from tests.conformance.real_zookeeper import RealZooKeeper, free_ports
from tests.kafka.recorded_lines import write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

SAME_S, LOOK_S = 0.6, 0.2


class Brokers(RealBrokers):
    """Three brokers with the settings of the story.

    Args:
        release: which Kafka.
        folder: an empty folder for logs and data.
        zookeeper: the address of their ZooKeeper.
    """

    def __init__(self, release: Release, folder: Path, zookeeper: str) -> None:
        ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        super().__init__(release, jars(release), folder, ports, {broker: f"rack{broker}" for broker in BROKERS})
        self._zookeeper = zookeeper

    def zookeeper_of(self, broker: int) -> str:
        """Return the address of ZooKeeper."""
        return self._zookeeper

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of a broker."""
        return super().properties(broker) | kadm_story.settings(broker, self.release.number, self.folder)


def settled(kadm: Kadm, step: Step) -> Any:
    """Take a step; repeat one that reads until its answer stays the same."""
    answer = kadm.ask(step)
    since_s = time.monotonic()
    while step.reads and time.monotonic() < since_s + SAME_S:
        time.sleep(LOOK_S)
        again = kadm.ask(step)
        if again != answer:
            answer, since_s = again, time.monotonic()
    return answer


def record(release: Release, program: Path, folder: Path) -> Iterator[tuple[str, Any]]:
    """Play the story to real brokers; yield each step with its answer."""
    with contextlib.ExitStack() as stack:
        zookeeper = stack.enter_context(RealZooKeeper())
        brokers = Brokers(release, folder, zookeeper.hosts)
        brokers.client = KazooClient(zookeeper.hosts)
        stack.callback(brokers.client.close)
        brokers.client.start()
        stack.callback(brokers.client.stop)
        stack.callback(brokers.kill_all)
        for broker in BROKERS:
            brokers.start(broker)
        with Kadm(program, brokers.bootstrap, folder) as kadm:
            steps = kadm_story.steps(program)
            until(lambda: len(kadm.ask(steps[0])) == len(BROKERS), lambda: "not every broker is known")
            for step in steps:
                yield step.name, settled(kadm, step)
        for broker in BROKERS:
            brokers.signal(broker, signal.SIGKILL)


def main() -> None:
    """Record the named releases, or all of the story."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", nargs="*", default=kadm_story.RELEASES)
    known = {release.version: release for release in RELEASES}
    for name in parser.parse_args().release:
        with tempfile.TemporaryDirectory() as temporary:
            folders = [Path(temporary) / part for part in ("program", "brokers")]
            for folder in folders:
                folder.mkdir()
            program = kadm_story.build(folders[0], kadm_story.cache())
            answers = list(record(known[name], program, folders[1]))
        sys.stdout.write(f"{name}: ")
        write_lines(kadm_story.recording_of(name), answers)


if __name__ == "__main__":
    main()
