"""The ledger of clients: each broken promise is found, and what real clients see is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.observation.client_ledger import (
    ClientLedger,
    LogRecord,
    Outcome,
    ProducerEpoch,
    SentRecord,
)
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from simzk.kafka.observation.records import RecordInvariant

ORDERS = TopicPartition("orders", 0)
ONE, TWO = b"one", b"two"


def violated(ledger: ClientLedger) -> list[RecordInvariant]:
    """Return the promises that are broken."""
    return [one for one in ledger.invariants if one.first is not None]


def synced(ledger: ClientLedger, generation: int, *, broker: int = 1, member: str = "a", data: bytes = ONE) -> None:
    """Let the leader of a generation assign, and a member get it."""
    ledger.on_proposed("group", generation, {"a": ONE, "b": TWO})
    ledger.on_synced("group", generation, member, data, broker=broker, sent=ledger.moment())


def test_a_member_gets_what_its_leader_assigned() -> None:
    ledger = ClientLedger()
    synced(ledger, 1)
    synced(ledger, 1, member="b", data=TWO)
    assert not violated(ledger)
    synced(ledger, 1, member="b", data=ONE)
    assert violated(ledger) == [ledger.assigned]


def test_generations_rise_but_at_a_coordinator_that_was_replaced_unnoticed() -> None:
    ledger = ClientLedger()
    synced(ledger, 3, broker=1)
    synced(ledger, 4, broker=2)
    synced(ledger, 3, broker=1)
    assert not violated(ledger)
    synced(ledger, 3, broker=2)
    assert violated(ledger) == [ledger.generations]


def test_a_group_without_offsets_may_be_removed_and_begin_anew() -> None:
    ledger = ClientLedger()
    synced(ledger, 3)
    synced(ledger, 1)
    ledger.on_heartbeat("group", 1, "a", broker=1, sent=ledger.moment())
    ledger.on_commit_sent("group", ORDERS, 7)
    ledger.on_committed("group", 1, ORDERS, 7, sent=ledger.moment())
    synced(ledger, 2)
    assert not violated(ledger)
    synced(ledger, 1)
    assert violated(ledger) == [ledger.generations]


def test_an_old_generation_commits_nothing() -> None:
    ledger = ClientLedger()
    synced(ledger, 3)
    before = ledger.moment()
    synced(ledger, 4)
    ledger.on_commit_sent("group", ORDERS, 7)
    ledger.on_committed("group", 3, ORDERS, 7, sent=before)
    assert not violated(ledger), "the commit was on its way"
    ledger.on_committed("group", 3, ORDERS, 7, sent=ledger.moment())
    assert violated(ledger) == [ledger.old_members]


def test_a_broker_takes_no_heartbeat_of_a_generation_before_its_own() -> None:
    ledger = ClientLedger()
    synced(ledger, 3, broker=1)
    synced(ledger, 4, broker=2)
    ledger.on_heartbeat("group", 3, "a", broker=1, sent=ledger.moment())
    assert not violated(ledger), "broker 1 does not know of the next generation"
    ledger.on_heartbeat("group", 3, "a", broker=2, sent=ledger.moment())
    assert violated(ledger) == [ledger.old_members]


def test_committed_offsets_do_not_go_back() -> None:
    ledger = ClientLedger()
    for offset in (5, 9):
        ledger.on_commit_sent("group", ORDERS, offset)
    ledger.on_committed("group", 1, ORDERS, 5, sent=ledger.moment())
    ledger.on_fetched("group", 2, ORDERS, 9, sent=ledger.moment())
    assert not violated(ledger), "the answer to the second commit may have been lost"
    ledger.on_fetched("group", 2, ORDERS, -1, sent=ledger.moment())
    assert violated(ledger) == [ledger.offsets_kept]


def test_the_epochs_of_a_transactional_id_rise() -> None:
    ledger = ClientLedger()
    first, second = ledger.moment(), ledger.moment()
    ledger.on_producer("id", ProducerEpoch(7, 1), sent=second)
    ledger.on_producer("id", ProducerEpoch(7, 0), sent=first)
    assert not violated(ledger), "the answers overtook each other"
    ledger.on_producer("id", ProducerEpoch(7, 1), sent=ledger.moment())
    assert violated(ledger) == [ledger.epochs]


def sent_transaction(ledger: ClientLedger, *values: bytes) -> None:
    """Let a producer send values in one transaction."""
    producer = ProducerEpoch(7, 0)
    ledger.on_producer("id", producer, sent=ledger.moment())
    transaction = ledger.begin("id", producer)
    for place, value in enumerate(values):
        ledger.on_sent(value, SentRecord(ORDERS, "producer", place, transaction))
        ledger.on_acknowledged(value, place)


def test_a_fenced_producer_commits_nothing() -> None:
    ledger = ClientLedger()
    sent_transaction(ledger, ONE)
    before = ledger.moment()
    ledger.on_producer("id", ProducerEpoch(7, 1), sent=before)
    ledger.on_ended(ledger.transactions[0], Outcome.COMMITTED, sent=ledger.moment())
    assert violated(ledger) == [ledger.fenced]


def judged(outcome: Outcome, *, first: bool, second: bool) -> list[str]:
    """Return the promises that are broken if a transaction ended so, and these of its records are committed."""
    ledger = ClientLedger()
    sent_transaction(ledger, ONE, TWO)
    ledger.transactions[0].outcome = outcome
    records = [LogRecord(0, None, ONE, first), LogRecord(1, None, TWO, second)]
    ledger.judge_log(ORDERS, 0, records, compacts=False)
    ledger.judge_transactions({ORDERS: (0, records)})
    return [one.name for one in violated(ledger)]


def test_a_transaction_is_read_whole_or_not_at_all() -> None:
    atomic = [ClientLedger().atomic.name]
    assert judged(Outcome.COMMITTED, first=True, second=True) == []
    assert judged(Outcome.COMMITTED, first=True, second=False) == atomic
    assert judged(Outcome.ABORTED, first=False, second=False) == []
    assert judged(Outcome.ABORTED, first=False, second=True) == atomic
    assert judged(Outcome.OPEN, first=True, second=True) == atomic
    assert judged(Outcome.IN_DOUBT, first=True, second=True) == []
    assert judged(Outcome.IN_DOUBT, first=False, second=False) == []
    assert judged(Outcome.IN_DOUBT, first=True, second=False) == atomic


def test_a_reader_sees_no_record_of_an_open_transaction() -> None:
    ledger = ClientLedger()
    sent_transaction(ledger, ONE)
    ledger.on_read("reader", ORDERS, LogRecord(0, None, ONE))
    assert violated(ledger) == [ledger.atomic]


def test_a_reader_leaves_out_what_its_leader_has_deleted_and_the_next_one_has_again() -> None:
    records = [LogRecord(offset, None, b"%d" % offset) for offset in range(5)]
    cases = (("reader", 1, 3, False), ("reader", 1, 2, True), ("reader", 2, 3, True), ("another", 1, 3, True))
    for reader, offset, start, is_broken in cases:
        ledger = ClientLedger()
        for read in (0, 3, 4):
            ledger.on_read("reader", ORDERS, records[read])
        ledger.on_left_out(reader, ORDERS, offset, start)
        ledger.judge_log(ORDERS, 0, records, compacts=False)
        assert violated(ledger) == [ledger.atomic] * is_broken, (reader, offset, start)


def test_a_record_is_in_the_log_once_and_in_order() -> None:
    for records in ([(0, ONE), (1, ONE)], [(0, TWO), (1, ONE)]):
        ledger = ClientLedger()
        for place, value in enumerate((ONE, TWO)):
            ledger.on_sent(value, SentRecord(ORDERS, "producer", place))
        ledger.judge_log(ORDERS, 0, [LogRecord(at, None, value) for at, value in records], compacts=False)
        assert violated(ledger) == [ledger.once]


def test_records_above_the_log_start_are_there() -> None:
    ledger = ClientLedger()
    ledger.on_sent(ONE, SentRecord(ORDERS, "producer", 0))
    ledger.on_acknowledged(ONE, 4)
    ledger.judge_log(ORDERS, 5, [], compacts=False)
    assert not violated(ledger)
    ledger.judge_log(ORDERS, 4, [], compacts=False)
    assert violated(ledger) == [ledger.log_start]


def test_a_log_begins_where_it_was_deleted_to() -> None:
    ledger = ClientLedger()
    ledger.on_delete_sent(ORDERS, 8)
    ledger.on_log_start(ORDERS, 8, broker=1, sent=ledger.moment())
    before = ledger.moment()
    ledger.on_deleted(ORDERS, 8, 8, broker=1)
    ledger.on_log_start(ORDERS, 0, broker=1, sent=before)
    ledger.on_log_start(ORDERS, 0, broker=2, sent=ledger.moment())
    assert not violated(ledger), "broker 2 may not have been live"
    ledger.on_log_start(ORDERS, 7, broker=1, sent=ledger.moment())
    assert violated(ledger) == [ledger.log_start]


def test_the_newest_value_of_a_key_survives() -> None:
    for found, is_broken in (([(0, ONE), (1, TWO)], False), ([(1, TWO)], False), ([(0, ONE)], True), ([], True)):
        ledger = ClientLedger()
        for place, value in enumerate((ONE, TWO)):
            ledger.on_sent(value, SentRecord(ORDERS, "producer", place, key=b"k"))
            ledger.on_acknowledged(value, place)
        ledger.judge_log(ORDERS, 0, [LogRecord(at, b"k", value) for at, value in found], compacts=True)
        assert violated(ledger) == [ledger.newest_kept] * is_broken
