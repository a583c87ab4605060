"""Transactions at their coordinator: fencing, markers, moves of the coordinator, timeouts, expiration."""

from __future__ import annotations

import pytest

from simzk.kafka.coordinator.coordinator_log import CoordinatorBatch, CoordinatorRecord
from simzk.kafka.coordinator.marker_channels import NO_LEADER
from simzk.kafka.coordinator.transaction import MAX_EPOCH, ProducerIdentity, TransactionSnapshot, TransactionState
from simzk.kafka.coordinator.transaction_records import decode_transaction, encode_transaction, encode_transaction_key
from simzk.kafka.protocol.errors import ErrorCode
from tests.kafka.coordinator.transaction_clients import ID, LEADER, ORDERS, TIMEOUT_MS, Brokers, Producer

NONE, CONCURRENT, FENCED = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
LONG_S = 5.0
"""Longer than a transaction takes to complete."""


def state_of(brokers: Brokers, transactional_id: str = ID) -> TransactionState:
    """Return the state of an id."""
    found = brokers.coordinator.describe(transactional_id)
    assert isinstance(found, TransactionSnapshot), found
    return found.state


def states_in_log(brokers: Brokers) -> list[TransactionState]:
    """Return the states in the log, ascending."""
    return [decode_transaction(record.value).state for record in brokers.log.records if record.value is not None]


def decisions(brokers: Brokers) -> list[list[bool]]:
    """Return for each partition the decisions of its markers."""
    return [[marker.is_commit for marker in brokers.markers[partition]] for partition in ORDERS]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_ends_with_one_marker_in_each_partition(is_commit: bool) -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    assert producer.add(ORDERS[0], ORDERS[2]) == NONE
    assert producer.end(is_commit=is_commit) == NONE
    assert producer.end(is_commit=is_commit) == CONCURRENT, "the markers are being written"
    brokers.run_for(LONG_S)
    assert decisions(brokers) == [[is_commit], [], [is_commit]]
    assert producer.end(is_commit=is_commit) == NONE, "a repeated request"
    assert producer.end(is_commit=not is_commit) == ErrorCode.INVALID_TXN_STATE
    kind = "COMMIT" if is_commit else "ABORT"
    ended = [TransactionState[f"PREPARE_{kind}"], TransactionState[f"COMPLETE_{kind}"]]
    assert states_in_log(brokers) == [TransactionState.EMPTY, TransactionState.ONGOING, *ended]
    brokers.check()


def test_a_new_producer_fences_the_older_one_and_aborts_its_transaction() -> None:
    brokers = Brokers()
    older, newer = Producer(brokers).begin(), Producer(brokers)
    older.add(ORDERS[1])
    assert newer.init() == CONCURRENT, "the open transaction is aborted first"
    newer.begin()
    assert older.identity is not None
    assert newer.identity == older.identity._replace(epoch=2), "epoch 1 fenced, and is given to nobody"
    assert older.add(ORDERS[0]) == FENCED
    assert older.end(is_commit=True) == FENCED
    assert older.init(names_itself=True) == FENCED
    assert decisions(brokers) == [[], [False], []]
    assert newer.add(ORDERS[0]) == newer.end(is_commit=True) == NONE
    brokers.run_for(LONG_S)
    assert decisions(brokers) == [[True], [False], []]


def test_a_producer_goes_on_with_the_next_epoch_and_may_repeat_its_request() -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    before = producer.identity
    assert before is not None
    assert producer.init(names_itself=True) == NONE
    bumped = producer.identity
    assert bumped == before._replace(epoch=1)
    producer.identity = before  # the answer was lost
    assert producer.init(names_itself=True) == NONE
    assert producer.identity == bumped
    Producer(brokers).begin()
    assert producer.init(names_itself=True) == FENCED
    producer.identity = ProducerIdentity(before.producer_id + 50, 0)
    assert producer.init(names_itself=True) == FENCED


def test_the_last_epoch_but_one_is_followed_by_a_new_producer_id() -> None:
    brokers = Brokers()
    stored = TransactionSnapshot(7, MAX_EPOCH - 2, TIMEOUT_MS)
    brokers.log.batches.append(
        CoordinatorBatch((CoordinatorRecord(encode_transaction_key(ID), encode_transaction(stored)),))
    )
    brokers.move(1)
    brokers.run_for(0.1)
    producer = Producer(brokers).begin()
    assert producer.identity == (7, MAX_EPOCH - 1)
    producer.add(ORDERS[0])
    newer = Producer(brokers).begin()
    assert newer.identity == (101, 0), "the last epoch aborted the transaction"
    assert brokers.markers[ORDERS[0]][0].producer == (7, MAX_EPOCH)
    assert producer.end(is_commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("moment_s", [0.0, 0.0005, 0.0035, 0.0045, 0.0055, 0.2])
def test_the_next_coordinator_completes_a_decided_transaction(moment_s: float) -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    producer.add(*ORDERS)
    answers: list[ErrorCode] = []
    assert producer.identity is not None
    brokers.coordinator.end(ID, producer.identity, is_commit=True, respond=answers.append)
    brokers.run_for(moment_s)
    brokers.move(1)
    assert brokers.coordinator.describe(ID) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert brokers.coordinators[0].describe(ID) == ErrorCode.NOT_COORDINATOR
    brokers.run_for(LONG_S)
    assert state_of(brokers) == TransactionState.COMPLETE_COMMIT
    assert answers in ([NONE], [ErrorCode.NOT_COORDINATOR])
    assert all(set(found) == {True} for found in decisions(brokers))


def test_a_leader_with_a_new_epoch_goes_on_as_the_same_coordinator() -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    producer.add(ORDERS[0])
    brokers.is_reachable = False
    producer.end(is_commit=True)
    brokers.run_for(0.01)
    brokers.move(0)
    assert brokers.coordinator.describe(ID) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    brokers.is_reachable = True
    brokers.run_for(LONG_S)
    assert [marker.coordinator_epoch for marker in brokers.markers[ORDERS[0]]] == [1]


@pytest.mark.parametrize(
    ("version", "session_expires", "answer"),
    [
        ("1.0", True, NONE),
        ("2.3", False, NONE),
        ("2.3", True, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("2.4.0", True, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("2.4.1", True, NONE),
    ],
)
def test_who_cannot_read_the_number_of_partitions_loads_for_ever_when_it_leads_again(
    version: str, session_expires: bool, answer: ErrorCode
) -> None:
    """KAFKA-9307."""
    brokers = Brokers(version)
    producer = Producer(brokers).begin()
    brokers.session_expires = session_expires
    brokers.move(1)
    brokers.run_for(LONG_S)
    assert producer.add(ORDERS[0]) == NONE, "the other coordinator has loaded the id"
    brokers.session_expires = False
    for leader in (0, 1, 0):
        brokers.move(leader)
        brokers.run_for(LONG_S)
    assert producer.add(ORDERS[1]) == answer
    stuck = answer != NONE
    assert brokers.recorded == 2 * stuck * ["cannot load transactions: those of leader epoch 1 are still there"]


def test_only_another_coordinator_sends_markers_that_were_never_sent() -> None:
    """EndTxn with a later epoch, up to 2.4; recorded with 2.4.1, where a follower died meanwhile."""
    brokers = Brokers("2.4")
    producer = Producer(brokers).begin()
    producer.add(ORDERS[0])
    assert producer.identity is not None
    answers: list[ErrorCode] = []
    later = producer.identity._replace(epoch=5)
    brokers.coordinator.end(ID, later, is_commit=True, respond=answers.append)
    brokers.run_for(LONG_S)
    brokers.move(0)
    brokers.run_for(LONG_S)
    assert answers == [ErrorCode.PRODUCER_FENCED]
    assert brokers.markers[ORDERS[0]] == []
    brokers.move(1)
    brokers.run_for(LONG_S)
    assert [marker.is_commit for marker in brokers.markers[ORDERS[0]]] == [True]


def test_markers_are_sent_until_the_leader_is_known_and_reachable() -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    producer.add(ORDERS[0], ORDERS[1])
    brokers.leaders.update(dict.fromkeys(ORDERS, NO_LEADER))
    assert producer.end(is_commit=True) == NONE
    brokers.run_for(LONG_S)
    assert producer.end(is_commit=True) == CONCURRENT
    brokers.is_reachable = False
    brokers.leaders.update(dict.fromkeys(ORDERS, LEADER))
    brokers.run_for(LONG_S)
    assert decisions(brokers) == [[], [], []]
    del brokers.leaders[ORDERS[1]]  # the topic was deleted
    brokers.is_reachable = True
    brokers.run_for(LONG_S)
    assert decisions(brokers) == [[True], [], []]
    assert state_of(brokers) == TransactionState.COMPLETE_COMMIT


def test_a_transition_that_cannot_be_appended_changes_nothing() -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    brokers.log.rejects = True
    assert producer.add(ORDERS[0]) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state_of(brokers) == TransactionState.EMPTY
    brokers.log.rejects = False
    assert producer.add(ORDERS[0]) == NONE
    brokers.log.rejects = True
    newer = Producer(brokers)
    assert [newer.init() for _ in range(3)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    brokers.log.rejects = False
    assert producer.end(is_commit=True) == FENCED, "the epoch is bumped in memory, once"
    assert producer.identity is not None
    assert newer.begin().identity == producer.identity._replace(epoch=2)
    newer.add(ORDERS[0])
    brokers.run_for(TIMEOUT_MS / 1000 + 15)
    assert state_of(brokers) == TransactionState.COMPLETE_ABORT
    assert newer.end(is_commit=True) == FENCED, "later the epoch is bumped again"


def test_a_completion_is_appended_when_enough_replicas_are_back() -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    producer.add(ORDERS[0])
    producer.end(is_commit=True)
    brokers.log.rejects = True
    brokers.run_for(LONG_S)
    assert state_of(brokers) == TransactionState.PREPARE_COMMIT
    brokers.log.rejects = False
    brokers.run_for(LONG_S)
    assert state_of(brokers) == TransactionState.COMPLETE_COMMIT


def test_markers_that_travelled_together_are_all_sent_again() -> None:
    brokers = Brokers()
    producers = [Producer(brokers, f"{ID} {number}").begin() for number in range(3)]
    for producer in producers:
        producer.add(ORDERS[0])
    brokers.is_reachable = False
    for producer in producers:
        assert producer.identity is not None
        brokers.coordinator.end(
            producer.transactional_id, producer.identity, is_commit=True, respond=lambda error: None
        )
    brokers.run_for(LONG_S)
    brokers.is_reachable = True
    brokers.run_for(LONG_S)
    assert decisions(brokers)[0] == [True] * 3


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced() -> None:
    brokers = Brokers()
    producer = Producer(brokers)
    producer.init(timeout_ms=15_000)
    producer.add(ORDERS[0])
    brokers.run_for(14.9)
    assert state_of(brokers) == TransactionState.ONGOING
    brokers.run_for(10.1)
    assert state_of(brokers) == TransactionState.COMPLETE_ABORT
    assert decisions(brokers) == [[False], [], []]
    assert producer.end(is_commit=True) == FENCED


def test_each_transaction_has_the_whole_timeout() -> None:
    brokers = Brokers()
    producer = Producer(brokers)
    producer.init(timeout_ms=15_000)
    for _ in range(2):  # the second one begins when the first one would have timed out
        assert producer.add(ORDERS[0]) == NONE
        brokers.run_for(13)
        assert state_of(brokers) == TransactionState.ONGOING
        assert producer.end(is_commit=True) == NONE
        brokers.run_for(LONG_S)
    assert decisions(brokers)[0] == [True, True]


@pytest.mark.parametrize(("timeout_ms", "error"), [(0, True), (1, False), (900_000, False), (900_001, True)])
def test_the_timeout_of_transactions_is_limited(timeout_ms: int, error: bool) -> None:
    expected = ErrorCode.INVALID_TRANSACTION_TIMEOUT if error else NONE
    assert Producer(Brokers()).init(timeout_ms=timeout_ms) == expected


def test_an_unused_id_expires_unless_a_transaction_is_open() -> None:
    hour_s = 3600
    brokers = Brokers(transactional_id_expiration_ms=2 * hour_s * 1000)
    open_one, used, unused = (Producer(brokers, name).begin() for name in ("open", "used", "unused"))
    open_one.init(timeout_ms=900_000)
    brokers.run_for(1.9 * hour_s)
    used.init()
    open_one.add(ORDERS[0])
    brokers.run_for(0.11 * hour_s)
    brokers.run_for(1.0 * hour_s)
    assert brokers.coordinator.describe("unused") == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert unused.add(ORDERS[0]) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert state_of(brokers, "used") == TransactionState.EMPTY
    assert brokers.log.records[-1].value is None or encode_transaction_key("unused") in {
        record.key for record in brokers.log.records if record.value is None
    }
    brokers.move(1)
    brokers.run_for(1.0)
    assert brokers.coordinator.describe("unused") == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_a_later_epoch_blocks_the_id_up_to_2_4() -> None:
    """The recorded brokers decide for an epoch that nobody has, reject it, and never write the markers (KIP-360)."""
    for version, blocks in (("2.4", True), ("2.5", False)):
        brokers = Brokers(version)
        producer = Producer(brokers).begin()
        producer.add(ORDERS[0])
        assert producer.identity is not None
        producer.identity = producer.identity._replace(epoch=5)
        assert producer.end(is_commit=True) == FENCED
        brokers.run_for(LONG_S)
        expected = TransactionState.PREPARE_COMMIT if blocks else TransactionState.ONGOING
        assert state_of(brokers) == expected
        assert decisions(brokers) == [[], [], []]
        assert Producer(brokers).init() == CONCURRENT


@pytest.mark.parametrize("request_", ["InitProducerId", "AddPartitionsToTxn", "EndTxn", "none"])
@pytest.mark.parametrize(("release", "defers"), [("2.6", False), ("2.7", True), ("3.9", True)])
def test_the_next_request_of_anybody_completes_a_transaction(request_: str, release: str, defers: bool) -> None:
    """Or the end of the followers' long polls does (KAFKA-8334)."""
    brokers = Brokers(release)
    producer, other = Producer(brokers).begin(), Producer(brokers, "other").begin()
    producer.add(ORDERS[0])
    producer.end(is_commit=True)
    brokers.run_for(0.1)
    assert decisions(brokers)[0] == [True]
    assert state_of(brokers) == (TransactionState.PREPARE_COMMIT if defers else TransactionState.COMPLETE_COMMIT)
    if request_ == "InitProducerId":
        other.init()
    elif request_ == "AddPartitionsToTxn":
        other.add(ORDERS[1])
    elif request_ == "EndTxn":
        other.end(is_commit=True)
    brokers.run_for(0.02)
    is_complete = state_of(brokers) == TransactionState.COMPLETE_COMMIT
    assert is_complete == (not defers or request_ != "none")
    brokers.run_for(0.5)
    assert state_of(brokers) == TransactionState.COMPLETE_COMMIT
    brokers.check()


def stored(brokers: Brokers, transactional_id: str = ID) -> TransactionSnapshot:
    """Return what is known of an id."""
    found = brokers.coordinator.describe(transactional_id)
    assert isinstance(found, TransactionSnapshot), found
    return found


@pytest.mark.parametrize("is_commit", [True, False])
def test_each_transition_changes_what_it_says_and_nothing_else(is_commit: bool) -> None:
    """Compare with TransactionMetadata.prepare...; the next coordinator reads the same."""
    brokers = Brokers()
    brokers.run_for(1)
    producer = Producer(brokers)
    seen = []

    def note() -> None:
        seen.append(stored(brokers))
        brokers.move(1 - brokers.log.leader)
        brokers.run_for(0.1)
        assert stored(brokers) == seen[-1]._replace(last_epoch=-1, last_producer_id=-1)
        brokers.run_for(0.9)

    def now_ms() -> int:
        return brokers.scheduler.now_us // 1000

    def expect(name: str, before: int, partitions: tuple[int, ...], start: int | None, epoch: int = 0) -> None:
        last = seen[-1]
        assert (last.state.name, last.epoch) == (name, epoch)
        assert last.partitions == tuple(ORDERS[number] for number in partitions)
        assert before <= last.updated_ms <= now_ms()
        assert last.start_ms == (-1 if start is None else seen[start].updated_ms)
        assert last.timeout_ms == 30_000

    before = now_ms()
    assert producer.init(timeout_ms=30_000) == NONE
    note()
    expect("EMPTY", before, (), None)
    before = now_ms()
    assert producer.add(ORDERS[1]) == NONE
    note()
    expect("ONGOING", before, (1,), 1)
    before = now_ms()
    assert producer.add(ORDERS[0], ORDERS[1]) == NONE
    note()
    expect("ONGOING", before, (1, 0), 1)
    assert producer.add(ORDERS[0]) == NONE
    assert stored(brokers).updated_ms == seen[-1].updated_ms, "nothing is added"
    brokers.is_reachable = False
    before = now_ms()
    assert producer.end(is_commit=is_commit) == NONE
    kind = "COMMIT" if is_commit else "ABORT"
    note()
    expect(f"PREPARE_{kind}", before, (1, 0), 1)
    brokers.is_reachable = True
    brokers.run_for(LONG_S)
    note()
    expect(f"COMPLETE_{kind}", seen[-2].updated_ms + 20, (), 1)
    before = now_ms()
    assert producer.add(ORDERS[2]) == NONE
    note()
    expect("ONGOING", before, (2,), 5)
    assert producer.end(is_commit=True) == NONE
    brokers.run_for(LONG_S)
    assert producer.init(timeout_ms=30_000, names_itself=True) == NONE
    assert stored(brokers).last_epoch == 0
    assert stored(brokers)._replace(last_epoch=-1, last_producer_id=-1, updated_ms=0) == seen[0]._replace(
        epoch=1, last_epoch=-1, last_producer_id=-1, updated_ms=0
    )
    assert producer.init(timeout_ms=20_000) == NONE
    assert (stored(brokers).timeout_ms, stored(brokers).epoch, stored(brokers).last_epoch) == (20_000, 2, -1)


@pytest.mark.parametrize(
    ("epochs", "named", "answer"),
    [
        ((5, 4), (7, 5), (7, 6)),
        ((5, 4), (7, 4), (7, 5)),  # a repeated request
        ((5, 4), (7, 3), FENCED),
        ((5, 4), (8, 5), FENCED),
        ((5, -1), (7, 4), FENCED),
        ((MAX_EPOCH - 1, MAX_EPOCH - 2), (7, MAX_EPOCH - 1), (101, 0)),
        ((MAX_EPOCH - 1, MAX_EPOCH - 2), (7, MAX_EPOCH - 2), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_producer_that_names_its_id_and_epoch(
    epochs: tuple[int, int], named: tuple[int, int], answer: tuple[int, int] | ErrorCode
) -> None:
    """TransactionMetadata.prepareIncrementProducerEpoch, and IllegalStateException where no epoch is left (KIP-360)."""
    brokers = Brokers()
    Producer(brokers).begin()
    shard = brokers.coordinator._shard_of(ID)
    assert not isinstance(shard, ErrorCode)
    transaction = shard.transactions[ID]
    transaction.stored = TransactionSnapshot(7, epochs[0], TIMEOUT_MS, last_epoch=epochs[1])
    brokers.next_id = 100
    producer = Producer(brokers, identity=ProducerIdentity(*named))
    error = producer.init(names_itself=True)
    assert (producer.identity if error == NONE else error) == answer


def test_the_epoch_that_fences_is_given_to_nobody() -> None:
    """Forget the epoch before (prepareFenceProducerEpoch): who names it did not ask for the present one."""
    brokers = Brokers()
    producer = Producer(brokers).begin()
    first = producer.identity
    assert first is not None
    assert producer.init(names_itself=True) == producer.add(ORDERS[0]) == NONE
    brokers.run_for(TIMEOUT_MS / 1000 + 15)
    assert state_of(brokers) == TransactionState.COMPLETE_ABORT
    for identity in (first, producer.identity):
        assert Producer(brokers, identity=identity).init(names_itself=True) == FENCED
    assert Producer(brokers).begin().identity == first._replace(epoch=3)
    brokers.check()


def test_a_loaded_transaction_is_aborted_after_its_timeout() -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    producer.add(ORDERS[0])
    brokers.move(1)
    brokers.run_for(TIMEOUT_MS / 1000 + 15)
    assert state_of(brokers) == TransactionState.COMPLETE_ABORT
    assert [(one.producer.epoch, one.coordinator_epoch) for one in brokers.markers[ORDERS[0]]] == [(1, 2)]


def test_only_the_present_coordinator_sends_markers() -> None:
    """Cancel those of a coordinator that is gone (TransactionMarkerRequestCompletionHandler)."""
    brokers = Brokers()
    producer = Producer(brokers).begin()
    producer.add(*ORDERS)
    brokers.is_reachable = False
    producer.end(is_commit=True)
    for leader in (1, 0, 1):
        brokers.run_for(0.2)
        brokers.move(leader)
    assert list(brokers.coordinators[0].without_markers()) == []
    brokers.is_reachable = True
    brokers.run_for(0.01)
    assert decisions(brokers) == [[], [], []], "the log is being loaded"
    brokers.run_for(0.011)
    assert [(epoch, one.transactional_id) for _, epoch, one in brokers.coordinator.without_markers()] == [(4, ID)]
    brokers.run_for(LONG_S)
    assert list(brokers.coordinator.without_markers()) == []
    assert [[one.coordinator_epoch for one in brokers.markers[partition]] for partition in ORDERS] == [[4]] * 3
    assert state_of(brokers) == TransactionState.COMPLETE_COMMIT
    brokers.check()


@pytest.mark.parametrize("rotates", [False, True])
@pytest.mark.parametrize("meanwhile", ["nothing", "no ids", "a move", "another producer"])
def test_what_happens_while_a_producer_id_is_asked_for(rotates: bool, meanwhile: str) -> None:
    """TransactionCoordinator.handleInitProducerId and prepareInitProducerIdTransit."""
    brokers = Brokers()
    if rotates:
        exhausted = TransactionSnapshot(7, MAX_EPOCH - 1, TIMEOUT_MS)
        record = CoordinatorRecord(encode_transaction_key(ID), encode_transaction(exhausted))
        brokers.log.batches.append(CoordinatorBatch((record,)))
        brokers.move(0)
        brokers.move(1)
        brokers.move(0)
        brokers.run_for(0.1)
    brokers.has_ids = meanwhile != "no ids"
    answers: list[ProducerIdentity | ErrorCode] = []
    others: list[ProducerIdentity | ErrorCode] = []
    expected = ProducerIdentity(7, MAX_EPOCH - 1) if rotates else None
    brokers.coordinator.init_producer_id(ID, TIMEOUT_MS, expected, answers.append)
    assert answers == []
    if meanwhile == "a move":
        brokers.move(1)
    elif meanwhile == "another producer":
        brokers.run_for(0.0005)
        brokers.coordinator.init_producer_id(ID, TIMEOUT_MS, None, others.append)
    brokers.run_for(0.1)
    error = {"no ids": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a move": ErrorCode.NOT_COORDINATOR}
    assert answers == [error.get(meanwhile, ProducerIdentity(101, 0))]
    if meanwhile == "another producer":
        assert others == [CONCURRENT], "the first one is being stored"
    if meanwhile == "nothing":
        producer = Producer(brokers, identity=expected)
        if rotates:
            assert (producer.init(names_itself=True), producer.identity) == (NONE, (101, 0)), "a repeated request"
            producer.identity = ProducerIdentity(7, MAX_EPOCH - 2)
            assert producer.init(names_itself=True) == FENCED
        Producer(brokers).begin()
        producer.identity = expected or ProducerIdentity(101, 5)
        assert producer.init(names_itself=True) == FENCED
    brokers.check()


def test_an_id_is_in_use_while_it_is_removed_and_stays_if_that_fails() -> None:
    """TransactionStateManager.removeExpiredTransactionalIds: the id is DEAD until the tombstone is appended."""
    brokers = Brokers(
        transactional_id_expiration_ms=1000, transaction_remove_expired_transaction_cleanup_interval_ms=10_000
    )
    producer = Producer(brokers).begin()
    brokers.log.rejects = True
    brokers.run_for(10.1)
    brokers.log.rejects = False
    assert producer.add(ORDERS[0]) == NONE, "the removal has failed"
    producer.end(is_commit=False)
    brokers.run_for(0.6)
    at_us = brokers.scheduler.now_us
    while brokers.log.records[-1].value is not None:
        brokers.run_for(0.001)
        assert brokers.scheduler.now_us < at_us + 20_000_000, "it expires"
    answers: list[ErrorCode] = []
    assert producer.identity is not None
    brokers.coordinator.add_partitions(ID, producer.identity, [ORDERS[0]], answers.append)
    brokers.run_for(1)
    assert answers == [CONCURRENT]
    assert brokers.coordinator.transactions() == []
    brokers.run_for(10)
    assert Producer(brokers).begin().identity == (102, 0)
    brokers.check()


def test_ids_are_listed_when_all_are_loaded() -> None:
    brokers = Brokers()
    for name in ("a", "b"):
        Producer(brokers, name).begin().add(ORDERS[0])
    brokers.move(1)
    assert brokers.coordinator.transactions() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert brokers.coordinators[0].transactions() == []
    brokers.run_for(0.1)
    listed = brokers.coordinator.transactions()
    assert not isinstance(listed, ErrorCode)
    assert [(one.transactional_id, one.stored.producer_id) for one in listed] == [("a", 101), ("b", 102)]
    assert not brokers.coordinator.has_pending
    assert Producer(brokers, "x" * 32_768).init() == ErrorCode.UNKNOWN_SERVER_ERROR, "too long for a record"
    assert Producer(brokers, "").init() == ErrorCode.INVALID_REQUEST


def test_verification_names_the_partitions_that_were_not_added() -> None:
    brokers = Brokers()
    producer = Producer(brokers).begin()
    producer.add(ORDERS[0])
    identity = producer.identity
    assert identity is not None
    verify = brokers.coordinator.verify_partitions
    assert verify(ID, identity, ORDERS[:2]) == [NONE, ErrorCode.INVALID_TXN_STATE]
    assert verify(ID, identity._replace(epoch=1), ORDERS[:1]) == [FENCED]
    assert verify("other", identity, ORDERS[:1]) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert verify("", identity, ORDERS[:1]) == [ErrorCode.INVALID_REQUEST]
    assert verify(ID, identity._replace(producer_id=1), ORDERS[:2]) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    brokers.is_reachable = False
    producer.end(is_commit=True)
    assert verify(ID, identity, ORDERS[:1]) == [CONCURRENT]
    brokers.is_reachable = True
    brokers.run_for(LONG_S)
    assert verify(ID, identity, ORDERS[:1]) == [ErrorCode.INVALID_TXN_STATE]
