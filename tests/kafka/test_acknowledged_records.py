"""Acknowledged records in the logs of later leaders: losses with their causes, and the invariants of records."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from simzk.kafka.broker.producing import Producing
from simzk.kafka.broker.replica_logs import ReplicaLogs
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.log.log import Log, first_difference
from simzk.kafka.observation.records import UNEXPLAINED
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.clusters import quiet, state_fields, topic, watch
from tests.kafka.test_truncation import leads, lose_by_early_isr, produce, ruled

if TYPE_CHECKING:
    from simzk.simulation import Monitor

KEPT = "acknowledged records are in the log of every later leader"
COPIED = "acknowledged records are in as many logs as min.insync.replicas says"
MATCHED = "in-sync replicas have the same records up to the high watermark"


def losses(c: KafkaCluster) -> list[tuple[int, str]]:
    """Return number of records and cause of each loss."""
    return [(loss.batch.records, loss.cause) for loss in c.record_ledger.losses]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1.1", [(5, "KIP-279 or KAFKA-7128 or KIP-320")]),
        ("2.0.0", [(5, "KAFKA-7128 or KIP-320")]),
        ("2.0.1", []),
        ("3.9", []),
    ],
)
def test_a_known_defect_is_the_cause_of_a_loss(line: str, expected: list[tuple[int, str]]) -> None:
    found: list[KafkaCluster] = []
    lose_by_early_isr(line, found.append)
    assert losses(found[0]) == expected
    assert found[0].record_ledger.acknowledged == 20
    texts = [(event.subject, event.after) for event in found[0].history if event.what == "acknowledged records lost"]
    assert texts == [("t-0", cause) for _, cause in expected]


def test_a_follower_that_joins_too_early_violates_the_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake of KAFKA-7128, made in 3.9."""
    monkeypatch.setattr(
        ReplicaLogs, "have_caught_up", lambda _self, rows, _follower: np.ones(len(rows), dtype=np.bool_)
    )
    monitors: list[Monitor] = []
    assert lose_by_early_isr("3.9", lambda c: monitors.append(watch(c))) == 15
    (violation,) = [one for one in monitors[0].violations if one.invariant == KEPT]
    assert violation.detail == "broker 3 leads t-0 in epoch 2 without 5 records from 15 on"
    assert violation.event.what == "acknowledged records lost"


def test_a_follower_that_keeps_foreign_records_violates_log_matching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "truncate", lambda _self, _offset: 0)
    with ruled("2.4", replica_lag_time_max_ms=30_000) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        c.network.cut("broker 1", "broker 2")
        produce(c, 2, acks=1)
        c.kill(1)
        leads(c, 2)
        c.network.heal_all()
        produce(c, 2, acks=1)
        c.restart(1)
        quiet(c)
        produce(c, 1)
        assert {one.invariant for one in monitor.violations} == {MATCHED}
        assert "differs at offset 0" in monitor.violations[0].detail


def test_an_unclean_election_is_the_cause_of_a_loss() -> None:
    with ruled("3.9", unclean_leader_election_enable=True) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        produce(c, 3)
        c.kill(2)
        c.run_for(8)
        assert produce(c, 4).error == ErrorCode.NONE
        c.kill(1)
        c.run_for(8)
        c.restart(2)
        leads(c, 2)
        assert losses(c) == [(4, "unclean election")]
        assert not monitor.violations


def test_crashes_are_the_cause_of_a_loss_when_there_are_as_many_as_min_insync_replicas() -> None:
    """Three machines lose power at once; a killed process does not count as such a crash."""
    with ruled("3.9", min_insync_replicas=2) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        produce(c, 10)
        for end in (c.kill, c.power_off):
            for broker in (1, 2, 3):
                end(broker)
            c.run_for(10)
            for broker in (1, 2, 3):
                c.restart(broker)
            quiet(c)
            assert losses(c) == ([] if end == c.kill else [(10, "min.insync.replicas crashes")])
        assert not monitor.violations


def test_the_last_replica_of_an_isr_loses_its_disk() -> None:
    """KIP-966: one crash is fewer than `min.insync.replicas`, but the last replica is elected without its records."""
    with ruled("3.9", min_insync_replicas=2) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        produce(c, 10)
        c.kill(2)
        c.run_for(8)
        assert state_fields(c, "t")[1] == (1,)
        c.kill(1)
        c.wipe(1)
        c.restart(1)
        quiet(c)
        assert losses(c) == [(10, "KIP-966")]
        assert not monitor.violations


def test_the_last_member_of_an_isr_has_lost_its_disk_before_it_is_the_last() -> None:
    """KIP-966: the leader restarts without records; before its session expires, the other member leaves the ISR."""
    with ruled("3.9", min_insync_replicas=2, zookeeper_session_timeout_ms=18_000) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        produce(c, 10)
        c.kill(1)
        c.wipe(1)
        c.shutdown(2)
        c.run_until(lambda: state_fields(c, "t")[1] == (1,))
        c.restart(1)
        quiet(c)
        assert losses(c) == [(10, "KIP-966")]
        assert not monitor.violations


def test_a_leader_without_its_records_registers_while_there_is_no_controller() -> None:
    """The next controller cannot tell the registration from the one before, and the broker leads on."""
    with ruled("3.9", min_insync_replicas=2, zookeeper_session_timeout_ms=18_000) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        produce(c, 10)
        c.kill(1)
        c.wipe(1)
        c.run_for(10)
        c.kill(4)
        assert c.controller == 4
        c.restart(1)
        c.run_until(lambda: 1 not in c.live_brokers)
        c.run_until(lambda: 1 in c.live_brokers)
        quiet(c)
        assert c.controller != 4
        assert losses(c) == [(10, "crash without a controller")]
        assert not monitor.violations


def test_a_leader_without_its_records_goes_on_in_its_epoch_and_followers_keep_the_old_ones() -> None:
    """Its new records have epoch and offsets of those that were lost, so that followers do not truncate them."""
    with ruled("2.5", min_insync_replicas=2, zookeeper_session_timeout_ms=18_000) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        produce(c, 10)
        c.kill(1)
        c.wipe(1)
        c.run_for(10)
        c.kill(4)
        c.network.cut("broker 1", "broker 2")
        c.restart(1)
        c.run_until(lambda: c.controller not in (None, 4))
        c.run_until(lambda: c.brokers[1].registered)
        leads(c, 1)
        sent = c.produce("t", 0, records=3, acks="all")
        c.run_for(1)
        assert not sent.done
        c.network.heal_all()
        c.run_until(lambda: sent.done)
        assert sent.result().error == ErrorCode.NONE
        c.kill(1)
        quiet(c)
        assert state_fields(c, "t")[0] == 2
        assert losses(c) == [(10, "crash without a controller"), (3, "crash without a controller")]
        assert not monitor.violations


def test_followers_of_a_leader_without_its_records_differ_under_the_next_leader() -> None:
    """One follower has the new records of the epoch and the other one the old ones: neither of them has crashed."""
    with ruled("3.9", brokers=5, min_insync_replicas=2, zookeeper_session_timeout_ms=18_000) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        produce(c, 10)
        c.kill(1)
        c.wipe(1)
        c.run_for(10)
        assert c.controller is not None
        c.kill(c.controller)
        c.network.cut("broker 1", "broker 3")
        c.restart(1)
        c.run_until(lambda: c.controller not in (None, 5))
        c.run_until(lambda: c.brokers[1].registered)
        leads(c, 1)
        c.run_for(1)  # broker 2 truncates its log to that of the leader, which is empty
        sent = [c.produce("t", 0, records, acks="all") for records in (10, 2)]
        c.run_for(1)
        assert not any(answer.done for answer in sent)
        c.network.heal_all()
        quiet(c)
        c.kill(1)
        quiet(c)
        produce(c, 1)
        new, old = (c.brokers[broker].replicas.replicas[TopicPartition("t", 0)].log for broker in (2, 3))
        assert first_difference(new, old, up_to=10) == 0
        assert not monitor.violations


def test_a_committed_batch_that_a_leader_lacked_may_be_acknowledged_later() -> None:
    """A former leader of an old release that has the batch still answers its producer."""
    with ruled("0.8.2") as c:
        topic(c, "t", {0: [1, 2]})
        produce(c, 1, acks=1)
        partition, ledger = TopicPartition("t", 0), c.record_ledger
        (batch,) = c.brokers[1].replicas.replicas[partition].log.batches
        other = batch._replace(identity=batch.identity + 1)
        ledger.on_watermark(partition, 0, [other], 1)
        ledger.on_leader(2, partition, 1, Log())
        before = ledger.acknowledged
        ledger.acknowledge(1, partition, other, 0, -1, 1, (1, 2))
        assert ledger.acknowledged == before + 1


def test_a_batch_without_an_epoch_may_be_lost_after_an_upgrade() -> None:
    """Followers of a new release truncate it to their high watermark, too."""
    with ruled("3.9") as c:
        topic(c, "t", {0: [1, 2]})
        partition, ledger, old = TopicPartition("t", 0), c.record_ledger, Log()
        batch = old.append(1, leader_epoch=-1, identity=77)
        ledger.acknowledge(1, partition, batch, 0, -1, 1, (1, 2))
        ledger.on_leader(2, partition, 1, Log())
        assert losses(c) == [(1, "KIP-101")]


def test_a_batch_of_an_epoch_that_began_with_defects_may_be_lost_after_the_upgrade() -> None:
    with KafkaCluster("1.1", 2) as c:
        c.run_until_quiet()
        topic(c, "t", {0: [1, 2]})
        partition, ledger, old = TopicPartition("t", 0), c.record_ledger, Log()
        for broker in (1, 2):
            c.shutdown(broker)
            c.run_until_quiet()
            c.restart(broker, version="3.9")
            c.run_until_quiet()
        epoch = c.state("t", 0).leader_epoch
        batches = [old.append(1, leader_epoch=one, identity=77 + one) for one in (0, epoch + 1)]
        for batch in batches:
            ledger.acknowledge(1, partition, batch, batch.leader_epoch, -1, 1, (1, 2))
        ledger.on_leader(2, partition, epoch + 2, Log())
        assert losses(c) == [(1, "KIP-279 or KAFKA-7128 or KIP-320"), (1, UNEXPLAINED)]


def test_records_acknowledged_too_early_violate_the_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producing, "_has_passed", lambda *_: True)
    with ruled("3.9", min_insync_replicas=2) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2]})
        produce(c, 1)
        assert [(one.invariant, one.detail) for one in monitor.violations] == [
            (COPIED, "1 records of t-0 from 0 on are acknowledged, but 1 of [1, 2] have them, not 2")
        ]


def test_a_replica_that_is_removed_counts_no_more() -> None:
    """A leader does not wait for replicas that its controller removes, although they are in the ISR a moment longer."""
    with ruled("3.9", replica_lag_time_max_ms=60_000) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3]})
        produce(c, 1)
        c.network.cut("broker 1", "broker 3")
        assert c.produce("t", 0, 2, acks=1)
        c.run_for(1)
        c.reassign({("t", 0): [2]})
        quiet(c)
        assert state_fields(c, "t")[1] == (2,)
        assert not monitor.violations


def test_the_history_tells_what_happens_to_records() -> None:
    with ruled("2.4", replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2]})
        begin = len(c.history)
        produce(c, 5)
        c.network.cut("broker 1", "broker 2")
        produce(c, 2, acks=1)
        c.kill(1)
        leads(c, 2)
        c.network.heal_all()
        c.restart(1)
        quiet(c)
        kinds = ("records ", "log truncated", "high watermark ", "begins to lead")
        told = [(e.who, e.what, e.before, e.after) for e in list(c.history)[begin:] if e.what.startswith(kinds)]
        assert told == [
            ("broker 1", "records appended", "end 0", "end 5 epoch 0"),
            ("broker 2", "records fetched", "end 0", "end 5 epoch 0"),
            ("broker 1", "high watermark raised", "0", "5"),
            ("broker 2", "high watermark raised", "0", "5"),
            ("broker 1", "records appended", "end 5", "end 7 epoch 0"),
            ("broker 2", "begins to lead", "", "epoch 1 from 5"),
            ("broker 1", "log truncated", "end 7", "end 5 epoch 1"),
            ("broker 1", "high watermark raised", "0", "5"),
        ]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(("line", "seed"), [(line, seed) for line in ("2.0.1", "2.4", "2.8", "3.9") for seed in (1, 2)])
def test_no_acknowledged_record_is_lost_whatever_processes_and_links_fail(line: str, seed: int) -> None:
    """Processes are killed, paused and expire, links fail in either direction, disks are slow, elections are clean."""
    draw = random.Random(seed)
    with ruled(line, min_insync_replicas=2, replica_lag_time_max_ms=4000, unclean_leader_election_enable=False) as c:
        topic(c, "t", {0: [1, 2, 3]})
        monitor = watch(c)
        for _ in range(60):
            c.run_for(draw.random())
            c.produce("t", 0, draw.randint(1, 3), acks=draw.choice(["all", "all", 1]))
            fail_once(c, draw)
        c.network.heal_all()
        c.run_for(15)
        for number, broker in c.brokers.items():
            c.slow_disk(number, 0)
            if not broker.alive:
                c.restart(number)
        quiet(c, 200)
        c.check()
        assert c.record_ledger.acknowledged
        assert not [one for one in monitor.violations if one.invariant in (KEPT, COPIED, MATCHED)]
        assert {loss.cause for loss in c.record_ledger.losses} <= {"acks=1"}, UNEXPLAINED


def fail_once(c: KafkaCluster, draw: random.Random) -> None:
    """Let something fail or recover, or nothing."""
    number, chance = draw.randint(1, 3), draw.random()
    broker = c.brokers[number]
    if not broker.alive:
        if chance < 0.3:
            c.restart(number)
    elif chance < 0.06:
        c.kill(number)
    elif chance < 0.1 and not broker.paused:
        c.pause(number, 12 * draw.random())
    elif chance < 0.13 and not broker.paused:
        c.expire(number)
    elif chance < 0.18:
        c.network.cut(f"broker {number}", f"broker {draw.choice([1, 2, 3])}", both=chance < 0.15)
    elif chance < 0.28:
        c.network.heal_all()
    elif chance < 0.32:
        c.slow_disk(number, draw.choice([0, 0.1, 3]))
