"""Recorder of record formats: it plays the stories of tests/kafka/client_requests/format_stories.py to real brokers.

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka python -m tests.conformance.real_kafka.record_formats [RELEASE ...]

starts a real ZooKeeper (that of PySpark) and one broker for each release, tells it the stories, and replaces what
`tests/kafka/client_requests/data/formats.jsonl.gz` has of the release. It takes half a minute for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.real_kafka import recorder
from tests.conformance.real_kafka.cluster import until
from tests.conformance.real_kafka.record_logins import SocketWire
from tests.conformance.real_kafka.recorder import BROKER, RecordedBroker, started
from tests.conformance.real_kafka.releases import RELEASES, Release
from tests.kafka.client_requests import format_stories
from tests.kafka.client_requests.log_stories import CLEANED_S, Stage
from tests.kafka.client_requests.recorded_formats import FILE

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = (0, 10)
"""The first release that knows two formats."""


class Broker(RecordedBroker):
    """A broker with the topics of the stories."""

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of the broker."""
        return super().properties(broker) | format_stories.settings(self.release.number)

    def prepare(self) -> None:
        """Write the topics."""
        for topic, config in format_stories.topics(self.release.number).items():
            self.write_topic(topic, dict(config))

    def leads_all(self) -> bool:
        """Return whether all topics have a leader."""
        states = (f"/brokers/topics/{topic}/partitions/0/state" for topic in format_stories.topics(self.release.number))
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
        wire.pause(CLEANED_S)
        stage = Stage(release.number, wire, lambda topic, config: None)
        for line in format_stories.play(stage, chosen):
            report(f"{release.version}  {line['story']}: {line['look']}")
            found.append({"release": release.version, **line})
        wire.end()
    return found


def main() -> None:
    """Record releases."""
    known = [release for release in RELEASES if release.number >= FIRST and not release.needs_java_11]
    recorder.main("Record formats of records at real brokers.", known, format_stories.STORIES, FILE, record)


if __name__ == "__main__":
    main()
