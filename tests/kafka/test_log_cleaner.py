"""When brokers delete old segments and compact logs, after which changes, and what other replicas and readers see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.log.record_batches import BatchProducer, Record
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.log_stories import MS, Stage
from tests.kafka.security.test_recorded_logins import SimulatedWire

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "200", "min.cleanable.dirty.ratio": "0.01"}


def client(cluster: simzk.KafkaCluster, leader: int = 1, release: tuple[int, ...] = (3, 9)) -> Stage:
    """Return a client of a broker."""

    def configure(topic: str, config: Mapping[str, str]) -> None:
        cluster.alter_config(f"topics/{topic}", dict(config))

    return Stage(release, SimulatedWire(cluster, leader), configure)


def fill(stage: Stage, topic: str, values: int) -> None:
    """Append values of one key, each in a segment of its own, and one of another key."""
    for number in range(values):
        stage.produce(topic, stage.entries([Record(b"k", b"%d" % number * 90, timestamp_ms=MS)]))
    stage.produce(topic, stage.entries([Record(b"last", b"v" * 90, timestamp_ms=MS)]))


def times_s(cluster: simzk.KafkaCluster, what: str) -> list[float]:
    """Return when something happened to logs."""
    return [event.at_us / 1_000_000 for event in cluster.history if event.what == what]


@pytest.mark.parametrize(("pause_s", "checked_s"), [(6, 30), (29, 30), (31, 330), (400, 630)])
def test_old_records_are_deleted_at_the_next_check(pause_s: float, checked_s: float) -> None:
    """The checks are 30 s after the start of the broker and every 5 minutes later, whenever the records come."""
    with simzk.KafkaCluster("3.9", 1) as cluster:
        (started_s,) = times_s(cluster, "registered")
        cluster.create_topic("orders")
        cluster.run_for(max(0.0, started_s + pause_s - cluster.scheduler.now_us / 1_000_000))
        fill(client(cluster), "orders", 1)
        cluster.run_for(checked_s + 10)
        (deleted_s,) = times_s(cluster, "records deleted")
    assert deleted_s == pytest.approx(started_s + checked_s, abs=0.1)


def test_a_broker_setting_that_changes_holds_for_topics_without_their_own() -> None:
    with simzk.KafkaCluster("3.9", 1, config={"log.retention.ms": -1}) as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("kept", config={"retention.ms": "-1"})
        cluster.run_until_quiet()
        stage = client(cluster)
        fill(stage, "orders", 1)
        fill(stage, "kept", 1)
        cluster.run_for(400)
        assert times_s(cluster, "records deleted") == []
        cluster.alter_config("brokers/<default>", {"log.retention.ms": "1000"})
        cluster.run_for(400)
        deleted = [event.subject for event in cluster.history if event.what == "records deleted"]
    assert deleted == ["orders-0"]


def test_a_compacted_log_survives_its_broker_and_a_new_replica() -> None:
    """A follower that fetches a compacted log has the same records; no invariant takes the others for lost."""
    with simzk.KafkaCluster("3.9", 3) as cluster:
        cluster.create_topic("prices", assignment={0: [1, 2]}, config=COMPACTED)
        cluster.run_until_quiet()
        stage = client(cluster)
        fill(stage, "prices", 3)
        cluster.run_for(20)
        assert len(times_s(cluster, "log compacted")) == 2, "each replica is compacted by its broker"
        left = stage.look("prices")["reads"]
        assert sum(map(len, left)) == 2
        cluster.reassign({("prices", 0): [1, 3]})
        cluster.run_until_quiet()
        cluster.kill(1)
        cluster.run_until(lambda: cluster.state("prices", 0).leader == 3)
        cluster.run_until_quiet()
        assert client(cluster, 3).look("prices")["reads"] == [[entry for read in left for entry in read]]
        cluster.restart(1)
        cluster.run_until_quiet()
        assert cluster.state("prices", 0).isr == (3, 1)
        cluster.check()
        ledger = cluster.record_ledger
        assert ledger.losses == []
        assert [one.name for one in (ledger.logs_match, ledger.acknowledged_kept, ledger.read_kept) if one.first] == []


def test_without_the_cleaner_nothing_is_compacted() -> None:
    with simzk.KafkaCluster("3.9", 1, config={"log.cleaner.enable": False}) as cluster:
        cluster.create_topic("prices", config=COMPACTED)
        cluster.run_until_quiet()
        stage = client(cluster)
        fill(stage, "prices", 3)
        cluster.run_for(400)
        assert sum(map(len, stage.look("prices")["reads"])) == 4


def test_a_set_of_records_larger_than_a_segment_is_refused() -> None:
    with simzk.KafkaCluster("3.9", 1) as cluster:
        cluster.create_topic("orders", config={"segment.bytes": "200"})
        cluster.run_until_quiet()
        stage = client(cluster)
        assert stage.append("orders", stage.entries([Record(b"k", bytes(200))])) == 18


def test_a_follower_that_begins_anew_behind_deleted_records_has_no_segment() -> None:
    with simzk.KafkaCluster("3.9", 2) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]}, config={"segment.bytes": "200"})
        cluster.run_until_quiet()
        stage = client(cluster)
        fill(stage, "orders", 1)
        cluster.kill(2)
        cluster.run_until(lambda: cluster.state("orders", 0).isr == (1,))
        fill(stage, "orders", 3)
        cluster.run_for(400)  # all records are too old
        cluster.restart(2)
        cluster.run_for(400)
        log = cluster.brokers[2].log_of(TopicPartition("orders", 0))
        assert log is not None
        assert (log.start, log.end, log.segments) == (6, 6, ())
        cluster.check()


def test_time_goes_on_with_a_cleaner_that_never_waits() -> None:
    with simzk.KafkaCluster("3.9", 1, config={"log.cleaner.backoff.ms": 0}) as cluster:
        cluster.create_topic("prices", config=COMPACTED)
        cluster.run_until_quiet()
        fill(client(cluster), "prices", 3)
        before_ms = cluster.now_ms
        cluster.run_for(0.1)
        assert cluster.now_ms == before_ms + 100
        assert len(times_s(cluster, "log compacted")) == 1


@pytest.mark.parametrize(
    ("release", "setting"), [("3.9", "producer.id.expiration.ms"), ("2.4", "transactional.id.expiration.ms")]
)
def test_idle_producers_are_forgotten_but_not_in_a_transaction(release: str, setting: str) -> None:
    """ProducerStateManager.isProducerExpired; up to 3.3 the setting of the coordinator counts (KIP-854)."""
    config: dict[str, int | bool] = {setting: 3_600_000}
    if release == "3.9":
        config["transaction.partition.verification.enable"] = False  # the transaction has no coordinator
    with simzk.KafkaCluster(release, 1, config=config) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.run_until_quiet()
        stage, number = client(cluster, release=kafka_version(release).number), TopicPartition("orders", 0)
        now_ms = cluster.now_ms
        for producer, in_transaction in ((7, False), (8, True)):
            batch = stage.entries(
                [Record(b"k", b"v", timestamp_ms=now_ms)],
                producer=BatchProducer(producer, 0, 0),
                transaction=in_transaction,
            )
            stage.produce("orders", batch, transaction="t" if in_transaction else None)

        def known() -> list[int]:
            return [one for one in (7, 8) if cluster.brokers[1].replicas.producer_entry(number, one) is not None]

        cluster.run_for(3_500)
        assert known() == [7, 8]
        cluster.run_for(800)  # the next look is within 10 minutes
        assert known() == [8]
