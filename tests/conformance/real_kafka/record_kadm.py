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
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.kafka_clients import kadm_story
from tests.conformance.kafka_clients.kadm_story import Kadm, Step
from tests.conformance.real_kafka.cluster import BROKERS, until
from tests.conformance.real_kafka.recorder import BrokersOnZooKeeper, on_zookeeper
from tests.conformance.real_kafka.releases import RELEASES, Release
from tests.kafka.recorded_lines import write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

SAME_S, LOOK_S = 0.6, 0.2


class Brokers(BrokersOnZooKeeper):
    """Three brokers with the settings of the story."""

    ids = BROKERS

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


def record(release: Release, program: Path) -> Iterator[tuple[str, Any]]:
    """Play the story to real brokers; yield each step with its answer."""
    with on_zookeeper(release, Brokers) as brokers:
        for broker in BROKERS:
            brokers.start(broker)
        with Kadm(program, brokers.bootstrap, brokers.folder) as kadm:
            steps = kadm_story.steps(program)
            until(lambda: len(kadm.ask(steps[0])) == len(BROKERS), lambda: "not every broker is known")
            for step in steps:
                yield step.name, settled(kadm, step)


def main() -> None:
    """Record the named releases, or all of the story."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", nargs="*", default=kadm_story.RELEASES)
    known = {release.version: release for release in RELEASES}
    for name in parser.parse_args().release:
        with tempfile.TemporaryDirectory() as temporary:
            program = kadm_story.build(Path(temporary), kadm_story.cache())
            answers = list(record(known[name], program))
        sys.stdout.write(f"{name}: ")
        write_lines(kadm_story.recording_of(name), answers)


if __name__ == "__main__":
    main()
