"""Brokers that were paused past the end of their session: what they do before they register again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.broker.timing import BrokerTiming
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.replay.transactions import TransactionLog
from simzk.zookeeper.transactions import CreateTxn
from tests.kafka.clusters import QUICK, quiet, topic

if TYPE_CHECKING:
    from simzk.zookeeper.transactions import Transaction

REJOINED_MS = {
    "0.8.0": {"u-1": 338},
    "0.8.2": {"t-4": 490, "t-1": 492, "t-5": 494, "u-2": 495},
    "0.10.2": {"u-2": 495, "t-5": 497, "t-3": 500, "t-1": 502},
    "1.1": {"t-4": 40, "t-5": 41, "t-1": 46, "u-2": 49},
    "2.4": {"u-2": 40, "t-1": 42, "t-5": 53, "t-3": 83},
}
"""When a real follower was back in ISRs after SIGCONT, about; it registered 1.2 to 2.0 s after SIGCONT.

Real ones of 2.8 and 3.9 joined after they had registered.
"""


def woken_follower(line: str, protocol: str | None = None) -> tuple[bool, bool]:
    """Pause a follower past its session; return whether it is in the ISR, and registered, 0.6 s after it woke."""
    with KafkaCluster(line, 3, config=QUICK, boot=False, inter_broker_protocol=protocol) as c:
        for broker in (1, 2, 3):
            c.restart(broker)
            quiet(c)
        topic(c, "t", {0: [1, 2, 3]})
        c.pause(3)
        while 3 in c.state("t", 0).isr:
            c.run_for(0.1)
        c.run_for(1)
        assert c.live_brokers == [1, 2]
        c.resume(3)
        c.run_for(0.6)
        found = 3 in c.state("t", 0).isr, 3 in c.live_brokers
        quiet(c)
        assert sorted(c.state("t", 0).isr) == [1, 2, 3]
        c.check()
        return found


@pytest.mark.parametrize(
    ("line", "rejoins"),
    [
        *[(line, True) for line in ("0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.2", "0.11", "1.1", "2.0", "2.1", "2.4")],
        *[(line, False) for line in ("2.5", "2.6", "2.7", "3.9")],
    ],
)
def test_a_woken_follower_joins_isrs_before_it_registers_up_to_2_4(line: str, rejoins: bool) -> None:
    assert all(pause_ms < 600 for pauses_ms in REJOINED_MS.values() for pause_ms in pauses_ms.values())
    assert woken_follower(line) == (rejoins, False)


def test_a_follower_of_an_old_protocol_is_not_fenced() -> None:
    assert woken_follower("2.8", "2.0") == (True, False)
    assert woken_follower("2.8", "2.1") == (False, False)


SHRUNK_IN_VAIN = {
    "0.8.2": ["t-3", "t-2"],
    "0.10.2": ["t-5", "t-3", "t-2", "t-1", "u-2", "u-0", "t-3"],
}
"""ISRs that real leaders, woken after their session had expired, tried to shrink to themselves: all BadVersion."""


@pytest.mark.parametrize(
    ("line", "tries"),
    [
        *[(line, True) for line in ("0.8.1", "0.8.2", "0.9", "0.10.2", "0.11", "1.0")],
        *[(line, False) for line in ("0.8.0", "1.1", "2.0", "2.1", "2.4", "2.8", "3.9")],
    ],
)
def test_a_woken_leader_tries_to_shrink_isrs_up_to_1_0(line: str, tries: bool) -> None:
    with KafkaCluster(line, 3, config=QUICK, boot=False) as c:
        log = TransactionLog(c)
        for broker in (1, 2, 3):
            c.restart(broker)
            quiet(c)
        topic(c, "t", {0: [3, 1, 2], 1: [3, 2, 1]})
        c.pause(3)
        c.run_for(22)
        assert [c.state("t", number).leader for number in (0, 1)] == [1, 2]
        log.take()
        c.resume(3)
        c.run_for(3)
        failed = [reported for reported in log.take() if reported.who == "b3" and "BadVersion" in reported.text]
        assert sorted(reported.paths[0].split("/")[-2] for reported in failed) == (["0", "1"] if tries else [])
        assert all('"isr":[3]' in reported.text for reported in failed)
        quiet(c)
        c.check()


def moves_leader_of_frozen_broker(line: str) -> tuple[bool, bool]:
    """Pause a broker with a control request in flight; return whether its leader has moved 10 s and 35 s later."""
    with KafkaCluster(line, 3, config=QUICK) as c:
        quiet(c)
        other = next(broker for broker in (1, 2, 3) if broker != c.controller)
        rest = [broker for broker in (1, 2, 3) if broker != other]
        topic(c, "t", {0: [other, *rest]})
        c.pause(other)
        c.create_topic("u", assignment={0: [rest[0], other]})
        c.run_for(10)
        early = c.state("t", 0).leader != other
        assert other not in c.live_brokers
        c.run_for(25)
        late = c.state("t", 0).leader != other
        c.resume(other)
        quiet(c)
        c.check()
        return early, late


@pytest.mark.parametrize(
    ("line", "moves"),
    [
        *[(line, (True, True)) for line in ("0.8.2", "0.10.1", "2.1", "3.9")],
        *[(line, (False, True)) for line in ("0.10.2", "1.1", "2.0")],
    ],
)
def test_a_controller_of_0_10_2_to_2_0_waits_for_a_frozen_broker(line: str, moves: tuple[bool, bool]) -> None:
    """It waits for the request in flight, which times out after 30 s, before it handles the failure (KAFKA-7576)."""
    assert moves_leader_of_frozen_broker(line) == moves


def test_a_resumed_broker_creates_a_replica_in_its_new_session() -> None:
    """A new log needs the topic's configuration from ZooKeeper, so the LeaderAndIsr is answered after reconnection."""
    with KafkaCluster("0.10.2", 3, config=QUICK) as c:
        quiet(c)
        other = next(broker for broker in (1, 2, 3) if broker != c.controller)
        c.pause(other)
        rest = [broker for broker in (1, 2, 3) if broker != other]
        c.create_topic("u", assignment={0: [rest[0], other]})
        c.run_for(10)
        assert other not in c.live_brokers
        c.resume(other)
        written: list[str] = []
        c.server.on_transaction.append(lambda transaction: written.append(type(transaction.record).__name__))
        c.run_for(0.5)
        assert written == []  # the controller waits for the answer, and the broker for a session
        quiet(c)
        assert written[0] == "CreateSessionTxn"
        assert sorted(c.state("u", 0).isr) == sorted([rest[0], other])


def test_a_resumed_broker_answers_and_registers_when_told() -> None:
    """Recorded with 0.10.2.2: 89 and 442 ms until the answer, 121 and 1207 ms until the registration."""
    timing = BrokerTiming(answer_pause_us=lambda _: 442_000, registration_pause_us=lambda _: 1_207_000)
    with KafkaCluster("0.10.2", 3, config=QUICK, timing=timing) as c:
        quiet(c)
        other = next(broker for broker in (1, 2, 3) if broker != c.controller)
        rest = [broker for broker in (1, 2, 3) if broker != other]
        topic(c, "t", {0: [other, *rest]})
        c.pause(other)
        c.create_topic("u", assignment={0: [rest[0], other]})
        c.run_for(10)
        assert c.controller is not None
        controller, state = c.brokers[c.controller], paths.state(TopicPartition("t", 0))
        times_us: dict[str, int] = {}

        def note(transaction: Transaction) -> None:
            record = transaction.record
            name = getattr(record, "path", type(record).__name__)
            if name != state or transaction.session_id == controller.session_id:
                times_us.setdefault(name, c.scheduler.now_us)

        c.server.on_transaction.append(note)
        c.resume(other)
        quiet(c)
        began_us = times_us["CreateSessionTxn"]
        after_ms = {name: (at_us - began_us) // 1000 for name, at_us in times_us.items()}
        assert 442 <= after_ms[state] < 500
        assert 1207 <= after_ms[f"/brokers/ids/{other}"] < 1300


def test_a_change_that_comes_too_late_is_announced_next() -> None:
    """Recorded in step h1 of 0.10.2.2: a leader announces t-1 in the ms after it wrote t-0 and t-1."""
    timing = BrokerTiming(announces_isr_changes=False)
    with KafkaCluster("0.10.2", 3, config=QUICK, timing=timing) as c:
        quiet(c)
        topic(c, "t", {0: [1, 2], 1: [1, 2]})
        c.pause(2)
        c.run_for(12)
        c.resume(2)
        c.run_for(20)
        assert [c.state("t", number).isr for number in (0, 1)] == [(1, 2), (1, 2)]
        announced: list[bytes | None] = []

        def note(transaction: Transaction) -> None:
            if isinstance(transaction.record, CreateTxn):
                announced.append(transaction.record.data)

        c.server.on_transaction.append(note)
        assert c.announce_isr_changes(1, missed=[("t", 0)])
        assert c.announce_isr_changes(1)
        c.run_for(1)
        assert announced == [b'{"version":1,"partitions":[{"topic":"t","partition":%d}]}' % number for number in (1, 0)]
        assert not c.announce_isr_changes(1)
