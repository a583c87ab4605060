"""Recorder of logs: it plays the stories of tests/kafka/client_requests/log_stories.py to real brokers.

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka python -m tests.conformance.real_kafka.record_logs [RELEASE ...]

starts a real ZooKeeper (that of PySpark) and one broker for each release, tells it the stories, and replaces what
`tests/kafka/client_requests/data/logs.jsonl.gz` has of the release. It takes four minutes for each.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from simzk.kafka.releases.versions import kafka_version
from tests.conformance.real_kafka import recorder
from tests.conformance.real_kafka.cluster import until
from tests.conformance.real_kafka.record_logins import SocketWire
from tests.conformance.real_kafka.recorder import BROKER, RecordedBroker, started
from tests.conformance.real_kafka.releases import RELEASES, Release
from tests.kafka.client_requests import log_stories
from tests.kafka.client_requests.recorded_logs import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FIRST = (0, 9)
"""The first release of which the cleaner is on."""


class Broker(RecordedBroker):
    """A broker with the topics of the stories."""

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of the broker."""
        return super().properties(broker) | log_stories.settings(self.release.number)

    def prepare(self) -> None:
        """Write the topics."""
        for topic, config in log_stories.topics(self.release.number).items():
            self.write_topic(topic, dict(config))

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        """Replace the configuration of a topic, and tell the broker."""
        self.client.set(f"/config/topics/{topic}", json.dumps({"version": 1, "config": dict(config)}).encode())
        change = kafka_version(self.release.version).znodes.encode_config_change(f"topics/{topic}")
        self.client.create("/config/changes/config_change_", change, sequence=True)

    def leads_all(self) -> bool:
        """Return whether all topics have a leader."""
        states = (f"/brokers/topics/{topic}/partitions/0/state" for topic in log_stories.topics(self.release.number))
        return all(self.client.exists(path) for path in states)


def record(release: Release, report: Callable[[str], object], chosen: str | None = None) -> list[dict[str, Any]]:
    """Tell the stories to a real broker; return what was seen.

    Args:
        release: which Kafka.
        report: shows the progress.
        chosen: the only story; all if None.
    """
    found = []
    with started(release, Broker) as broker:
        until(broker.leads_all, lambda: f"topics have no leaders: {broker.said(BROKER)}")
        wire = SocketWire(broker.ports[BROKER])
        wire.pause(log_stories.CLEANED_S)
        for line in log_stories.play(log_stories.Stage(release.number, wire, broker.configure), chosen):
            report(f"{release.version}  {line['story']}: {line['look']}")
            found.append({"release": release.version, **line})
        wire.end()
    return found


def main() -> None:
    """Record releases."""
    known = [release for release in RELEASES if release.number >= FIRST and not release.needs_java_11]
    recorder.main("Record segments and compaction at real brokers.", known, log_stories.STORIES, FILE, record)


if __name__ == "__main__":
    main()
