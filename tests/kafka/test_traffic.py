"""Clients with continuous traffic: retries and duplicates, stale leaders, committed reads, and named losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.broker.producing import ALL
from simzk.kafka.broker.replica_logs import ReplicaLogs
from simzk.kafka.cluster.traffic import ConsumerSettings, ProducerSettings
from simzk.kafka.log.log import Log
from simzk.kafka.requests import ReadRequest
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.clusters import quiet, topic, watch
from tests.kafka.test_acknowledged_records import KEPT
from tests.kafka.test_truncation import leads, ruled

if TYPE_CHECKING:
    from simzk.kafka.cluster.cluster import KafkaCluster

P = TopicPartition("t", 0)
KEPT_FOR_READERS = "records that a consumer has read are in the log of every later leader"


def producer(acks: int = ALL, *, retries: int = 0, timeout_ms: int = 5_000) -> ProducerSettings:
    return ProducerSettings(P, acks, gap_us=100_000, records=2, retries=retries, timeout_ms=timeout_ms)


CONSUMER = ConsumerSettings(P, gap_us=100_000, timeout_ms=5_000)


def isolate(c: KafkaCluster, broker: int) -> None:
    """Cut a broker off from ZooKeeper and from the other brokers; clients still reach it."""
    for other in (*(f"broker {one}" for one in c.brokers if one != broker), "zookeeper"):
        c.network.cut(f"broker {broker}", other)


@pytest.mark.parametrize("line", ["3.9", "2.4", "0.10.2", "0.8.0"])
def test_what_is_acknowledged_is_read_once_each(line: str) -> None:
    with ruled(line) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        for acks in (0, 1, ALL):
            c.traffic.start_producer(producer(acks))
        c.traffic.start_consumer(CONSUMER)
        c.run_for(3)
        for one in c.traffic.producers:
            one.process.kill()
        c.run_for(2)
        counts = c.traffic.counts()
        assert counts.keys() == {f"acknowledged, acks={acks}" for acks in (0, 1, "all")} | {"read by consumers"}
        assert counts["read by consumers"] == sum(counts.values()) - counts["read by consumers"] > 100
        assert c.traffic.consumers[0].position == c.log(1, "t", 0).high_watermark == counts["read by consumers"]
        assert not monitor.violations


def test_a_batch_that_got_no_answer_is_appended_twice() -> None:
    with ruled("3.9") as c:
        topic(c, "t", {0: [1]})
        c.traffic.start_producer(producer(1, retries=5, timeout_ms=1_000))
        c.run_for(1)
        name = c.traffic.producers[0].process.name
        c.network.cut("broker 1", name, both=False)
        c.run_for(1)
        c.network.heal_all()
        c.run_for(2)
        assert c.traffic.counts()["appended twice"] == 2
        identities = [batch.identity for batch in c.brokers[1].replicas.replicas[P].log.batches]
        assert len(identities) - len(set(identities)) == 1


@pytest.mark.parametrize(("acks", "cause"), [(0, "lost, acks=0: acks=0"), (1, "lost, acks=1: acks=1")])
def test_a_leader_that_was_replaced_loses_what_it_alone_acknowledged(acks: int, cause: str) -> None:
    """The producer believes in the old leader, which knows nothing of its successor."""
    with ruled("3.9") as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        c.traffic.start_producer(producer(acks))
        c.traffic.start_consumer(CONSUMER)
        c.run_for(2)
        isolate(c, 1)
        c.run_for(20)
        assert c.state("t", 0).leader == 2
        committed = c.brokers[1].replicas.replicas[P].high_watermark
        assert c.log(1, "t", 0).log_end > committed
        assert c.traffic.consumers[0].position == committed
        c.network.heal_all()
        c.traffic.stop()
        quiet(c)
        counts = c.traffic.counts()
        assert counts[cause] > 100
        assert not [name for name in counts if "read:" in name or "all" in name]
        assert not monitor.violations


def test_acks_0_loses_what_no_leader_has_received() -> None:
    with ruled("3.9") as c:
        topic(c, "t", {0: [1, 2]})
        c.traffic.start_producer(producer(0))
        c.run_for(1)
        c.network.cut("broker 1", c.traffic.producers[0].process.name)
        c.run_for(1)
        assert c.traffic.counts()["lost, acks=0: no leader had them"] >= 18


@pytest.mark.parametrize("line", ["0.11", "2.4", "3.9"])
def test_an_idempotent_producer_is_recognized_when_it_sends_a_batch_again(line: str) -> None:
    with ruled(line) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        c.traffic.start_producer(producer(ALL, retries=100, timeout_ms=1_000)._replace(is_idempotent=True))
        c.run_for(1)
        client = c.traffic.producers[0]
        for _ in range(3):
            c.network.cut("broker 1", client.process.name, both=False)
            c.run_for(1.5)
            c.network.heal_all()
            c.run_for(2)
        c.kill(1)
        c.run_for(15)
        client.process.kill()
        quiet(c)
        assert c.traffic.counts().keys() == {"acknowledged, acks=all"}
        stamps = [batch.producer for batch in c.brokers[2].replicas.replicas[P].log.batches]
        assert [stamp.sequence for stamp in stamps if stamp is not None] == list(range(0, 2 * len(stamps), 2))
        assert {stamp.epoch for stamp in stamps if stamp is not None} == {0}
        assert not monitor.violations


def test_an_idempotent_producer_begins_an_epoch_after_a_loss() -> None:
    """In 2.4 a leader whose log lost the producer rejects its next batch."""
    with ruled("2.4", unclean_leader_election_enable=True) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        c.kill(2)
        c.run_for(10)
        c.traffic.start_producer(producer(ALL, retries=100, timeout_ms=1_000)._replace(is_idempotent=True))
        c.run_for(3)
        c.kill(1)
        c.restart(2)
        c.run_for(10)
        leads(c, 2)
        c.run_for(3)
        first = c.brokers[2].replicas.replicas[P].log.batches[0].producer
        assert first is not None
        assert (first.epoch, first.sequence) == (1, 0)
        assert not monitor.violations


def test_a_leader_that_recognizes_no_batch_violates_the_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is planted: sequence numbers are ignored."""
    monkeypatch.setattr(ReplicaLogs, "_check_producers", lambda *_, **_kwargs: None)
    with ruled("3.9") as c:
        monitor = watch(c)
        topic(c, "t", {0: [1]})
        c.traffic.start_producer(producer(ALL, retries=100, timeout_ms=1_000)._replace(is_idempotent=True))
        c.run_for(1)
        c.network.cut("broker 1", c.traffic.producers[0].process.name, both=False)
        c.run_for(1)
        c.network.heal_all()
        c.run_for(2)
        assert {one.invariant for one in monitor.violations} == {"a batch of an idempotent producer is in a log once"}


def test_with_acks_all_and_retries_nothing_is_lost_or_given_up() -> None:
    with ruled("3.9", min_insync_replicas=2) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        c.traffic.start_producer(producer(ALL, retries=1_000, timeout_ms=2_000))
        c.traffic.start_consumer(CONSUMER)
        for broker in (1, 2, 3):
            c.run_for(2)
            isolate(c, broker)
            c.run_for(20)
            c.network.heal_all()
            c.run_for(10)
        c.traffic.producers[0].process.kill()
        quiet(c)
        assert c.traffic.counts().keys() <= {"acknowledged, acks=all", "appended twice", "read by consumers"}
        sent = c.traffic.producers[0].sent
        assert sent - 2 <= c.record_ledger.acknowledged <= sent
        assert c.record_ledger.read >= c.record_ledger.acknowledged
        assert not monitor.violations


def test_a_consumer_that_reads_beyond_the_high_watermark_violates_the_invariant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mistake is planted: the leader serves all that it has."""
    with ruled("3.9") as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        c.traffic.start_producer(producer(1))
        c.run_for(2)
        isolate(c, 1)
        c.run_for(1)
        replicas, log = c.brokers[1].replicas, c.brokers[1].replicas.replicas[P].log
        assert log.end > log.high_watermark
        read = Log.read
        with monkeypatch.context() as patched:
            patched.setattr(Log, "read", lambda self, offset, **_: read(self, offset))
            replicas.read_committed(ReadRequest(P, 0, 1_000_000))
        c.run_for(20)
        leads(c, 2)
        assert {one.invariant for one in monitor.violations} == {KEPT, KEPT_FOR_READERS}


def test_a_consumer_goes_on_at_the_high_watermark_when_its_records_are_gone() -> None:
    with ruled("3.9", unclean_leader_election_enable=True) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        c.kill(2)
        c.run_for(10)
        c.traffic.start_producer(producer(1))
        c.traffic.start_consumer(CONSUMER)
        c.run_for(3)
        c.kill(1)
        c.traffic.producers[0].process.kill()
        c.restart(2)
        c.run_for(10)
        leads(c, 2)
        c.run_for(5)
        counts = c.traffic.counts()
        assert counts["offsets reset"] == 1
        assert counts["lost, acks=1 and read: unclean election"] > 20
        assert not monitor.violations
