"""Chance in a recorded run, read from its transactions, as inputs of a replay."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.documents import read_json
from simzk.errors import ZnodeError
from simzk.kafka.observation.recording import json_fields
from simzk.kafka.requests import FetchedPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.zookeeper.transactions import CreateTxn, MultiTxn, SetDataTxn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.observation.recording import RecordedTree
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedOperation, RecordedTransaction
    from simzk.zookeeper.transactions import Record, Transaction

    Recorded: TypeAlias = Iterable[RecordedTransaction]

LATE_FETCH_US = 100
"""Interval at which a late fetch is tried again, in µs."""
EXPIRY_RACE_MS = 1_700
"""An expiry races with a transaction that was made at most this long before it: it happens right after that one, since
real brokers and tools need longer for their work than simulated ones. The recordings are equal from 890 to 3000: their
longest race took 881 ms."""
MISSED_MS = 50
"""An announcement may miss a state that was written at most this long before it: two threads of the leader."""
FETCH_BACKOFF_MS = 1_000
"""A follower waits this long after a fetch that its leader refused: the default of replica.fetch.backoff.ms."""
EXPIRED_CXID = 0
"""The cxid of a closeSession that ZooKeeper writes itself when a session expires."""


class _IsrWrite(NamedTuple):
    at_ms: int
    path: str
    leader: int
    isr: tuple[int, ...]
    before: tuple[int, ...]
    is_same_epoch: bool


def _isr_writes(transactions: Recorded, before: RecordedTree) -> Iterator[_IsrWrite]:
    """Yield the writes of partition states, with the ISR before each."""
    known = states(before)
    for transaction in transactions:
        for part in transaction.parts():
            written = written_state(part)
            if written is None:
                continue
            earlier = known.get(part.path, written)
            known[part.path] = written
            is_same_epoch = written.leader_epoch == earlier.leader_epoch
            yield _IsrWrite(transaction.t, part.path, written.leader, written.isr, earlier.isr, is_same_epoch)


def states(tree: RecordedTree) -> dict[str, LeaderAndIsr]:
    """Return the partition states in a recorded tree by path, without those that cannot be read."""
    found = {path: state_of(path, znode.data) for path, znode in tree.items()}
    return {path: state for path, state in found.items() if state is not None}


def written_state(part: RecordedOperation) -> LeaderAndIsr | None:
    """Return the state of a partition that an operation sets; None if it sets none that can be read."""
    return state_of(part.path, part.data) if part.op == "setData" else None


def state_of(path: str, data: object) -> LeaderAndIsr | None:
    """Return the state of a partition; None for another znode, or if the data are none: anybody may write a znode."""
    if not isinstance(data, str) or paths.state_partition(path) is None:
        return None
    with suppress(ZnodeError):
        return partition_state.decode(path, data.encode())
    return None


def election_winners(transactions: Recorded) -> list[int]:
    """Return the winners of controller elections, in order."""
    return [
        transaction.broker
        for transaction in transactions
        for part in transaction.parts()
        if part.op == "create" and part.path == paths.CONTROLLER and transaction.broker is not None
    ]


def isr_joins(transactions: Recorded, before: RecordedTree) -> list[tuple[str, int]]:
    """Return the path of the state and the follower of each join of an ISR, in order."""
    writes = _isr_writes(transactions, before)
    return [(write.path, broker) for write in writes for broker in write.isr if broker not in write.before]


def _joins_and_registrations(
    transactions: Sequence[RecordedTransaction], before: RecordedTree
) -> list[tuple[str, int]]:
    """Return the joins of ISRs and the registrations of brokers, in order: the path and the broker."""
    found: list[tuple[str, int]] = []
    waiting = isr_joins(transactions, before)
    for transaction in transactions:
        broker = transaction.broker
        for part in transaction.parts():
            if broker is not None and part.op == "create" and part.path == _registration(broker):
                found.append((part.path, broker))
            if (written := written_state(part)) is not None:
                while waiting and waiting[0][0] == part.path and waiting[0][1] in written.isr:
                    found.append(waiting.pop(0))
    assert not waiting
    return found


def _registration(broker: int) -> str:
    return f"{paths.BROKER_IDS}/{broker}"


def registration(part: RecordedOperation, broker: int | None) -> dict[str, object] | None:
    """Return the fields of a broker's registration that an operation writes; None if it writes none."""
    is_written = part.op in ("create", "setData") and part.path == f"{paths.BROKER_IDS}/{broker}"
    return json_fields(part.data) if is_written and isinstance(part.data, str) else None


def early_fetches(transactions: Sequence[RecordedTransaction], before: RecordedTree) -> frozenset[tuple[int, int]]:
    """Return the pairs of leader and follower whose first fetch came before the leader knew that it led.

    The leader starts and is elected in these transactions, and the follower, which ran before, joins its ISR only after
    the pause that follows a refused fetch.
    """
    started = {
        broker
        for entry in transactions
        for part in entry.parts()
        if (broker := entry.broker) is not None and part.op == "create" and part.path == _registration(broker)
    }
    elected_ms: dict[str, int] = {}
    found: set[tuple[int, int]] = set()
    for write in _isr_writes(transactions, before):
        if not write.is_same_epoch:
            elected_ms[write.path] = write.at_ms
            continue
        at_ms = elected_ms.get(write.path)
        joined = [broker for broker in write.isr if broker not in write.before and broker not in started]
        if write.leader in started and at_ms is not None and write.at_ms - at_ms >= FETCH_BACKOFF_MS:
            found.update((write.leader, follower) for follower in joined)
    return frozenset(found)


def first_join_ms(transactions: Recorded, follower: int, after_ms: int = 0) -> int | None:
    """Return when a broker was first in an ISR that another broker leads, after a time; None if never."""
    writes = (write for write in _isr_writes(transactions, {}) if write.leader != follower and follower in write.isr)
    return next((write.at_ms for write in writes if write.at_ms >= after_ms), None)


def lag_checks(transactions: Recorded, before: RecordedTree) -> list[tuple[int, int]]:
    """Return when leaders removed lagging followers, in ms, and which leaders."""
    return [
        (write.at_ms, write.leader)
        for write in _isr_writes(transactions, before)
        if write.is_same_epoch and len(write.isr) < len(write.before)
    ]


def first_election_ms(transactions: Recorded, before: RecordedTree, after_ms: int) -> int | None:
    """Return when a controller first changed a leader epoch, after a time; None if never."""
    writes = (write for write in _isr_writes(transactions, before) if not write.is_same_epoch)
    return next((write.at_ms for write in writes if write.at_ms >= after_ms), None)


class Announcement(NamedTuple):
    """Announcement of ISR changes.

    Args:
        at_ms: its time.
        leader: the broker.
        missed: partitions that the leader wrote so shortly before that they are announced later.
    """

    at_ms: int
    leader: int
    missed: tuple[TopicPartition, ...]


def announcements(transactions: Sequence[RecordedTransaction]) -> list[Announcement]:
    """Return the announcements of ISR changes by leaders."""
    found = []
    written: list[tuple[int, int, TopicPartition]] = []
    for entry in transactions:
        partition = paths.state_partition(entry.path)
        if entry.broker is None:
            continue
        if entry.op == "setData" and partition is not None:
            written.append((entry.t, entry.broker, partition))
        if entry.op == "create" and entry.path.startswith(paths.ISR_CHANGE_PREFIX):
            named = {(one["topic"], one["partition"]) for one in read_json(str(entry.data))["partitions"]}
            recent = [one for at_ms, broker, one in written if broker == entry.broker and entry.t - at_ms < MISSED_MS]
            found.append(Announcement(entry.t, entry.broker, tuple(one for one in recent if one not in named)))
    return found


def config_writers(transactions: Recorded) -> list[int]:
    """Return the brokers that changed their own configurations, in the order in which they announced it."""
    found = dict.fromkeys(
        transaction.broker
        for transaction in transactions
        for part in transaction.parts()
        if part.op == "create"
        and part.path.startswith(paths.CONFIG_CHANGE_PREFIX)
        and f'"brokers/{transaction.broker}"' in str(part.data)
    )
    return [broker for broker in found if broker is not None]


def producer_id_allocations(transactions: Recorded) -> list[int]:
    """Return the brokers for which blocks of producer ids were allocated, in order."""
    return [
        read_json(part.data)["broker"]
        for transaction in transactions
        for part in transaction.parts()
        if transaction.broker is not None
        and part.path == paths.PRODUCER_IDS
        and part.op == "setData"
        and isinstance(part.data, str)
    ]


class DrawnTopicId(NamedTuple):
    """Id that a topic got.

    Args:
        at_ms: when it was written.
        topic: the topic.
        topic_id: the id.
    """

    at_ms: int
    topic: str
    topic_id: str


def topic_ids(transactions: Recorded, before: RecordedTree) -> list[DrawnTopicId]:
    """Return the ids that topics got from a broker or the controller, in order: at each creation one."""
    known = {path: _topic_id(znode.data) for path, znode in before.items() if path.startswith(f"{paths.TOPICS}/")}
    found = []
    for transaction in transactions:
        for part in transaction.parts():
            parent, _, topic = part.path.rpartition("/")
            if parent != paths.TOPICS:
                continue
            written = _topic_id(part.data) if part.op in ("create", "setData") else None
            if written is not None and written != known.get(part.path):
                found.append(DrawnTopicId(transaction.t, topic, written))
            if part.op in ("create", "setData", "delete"):
                known[part.path] = written
    return found


def _topic_id(data: object) -> str | None:
    fields = json_fields(data) if isinstance(data, str) else None
    topic_id = None if fields is None else fields.get("topic_id")
    return topic_id if isinstance(topic_id, str) else None


def assignment_in(data: object) -> dict[int, list[int]]:
    """Return the brokers of each partition in the data of a topic's znode; none if they cannot be read."""
    partitions = (json_fields(data) or {}).get("partitions") if isinstance(data, str) else None
    return {int(number): ids for number, ids in partitions.items()} if isinstance(partitions, dict) else {}


def late_joins(transactions: Recorded, broker: int) -> list[str]:
    """Return the states whose leader added a broker again after its controlled shutdown had removed it."""
    removed: dict[str, None] = {}
    found: dict[str, None] = {}
    for write in _isr_writes(transactions, {}):
        if broker not in write.isr:
            removed[write.path] = None
        elif write.path in removed:
            found[write.path] = None
    return list(found)


def racing_predecessor(entries: Sequence[RecordedTransaction], place: int) -> RecordedTransaction | None:
    """Return the transaction right before an expiry if both were a race: in one step, at most a second apart.

    Args:
        entries: all transactions of the recording.
        place: place of the expiry among them.
    """
    if not place:
        return None
    before, expiry = entries[place - 1 : place + 1]
    return before if before.step == expiry.step and expiry.t - before.t <= EXPIRY_RACE_MS else None


def moves_replicas(transactions: Recorded) -> bool:
    """Return whether a reassignment is requested or changes an assignment."""
    return any(
        transaction.path == paths.REASSIGN_PARTITIONS
        or any(
            part.path.rpartition("/")[0] == paths.TOPICS and "_replicas" in str(part.data) for part in transaction.ops
        )
        for transaction in transactions
    )


def _simulated_state(part: SetDataTxn) -> LeaderAndIsr | None:
    return None if part.data is None else state_of(part.path, part.data.decode(errors="replace"))


def _parts(transaction: Transaction) -> Sequence[Record]:
    record = transaction.record
    return record.records if isinstance(record, MultiTxn) else (record,)


class JoinOrder:
    """Order in which the followers of a partition join its ISR, or those of all partitions during a reassignment.

    A leader skips a follower that is not the next one, and considers it again at its next fetch. A follower joins after
    its registration if it did in the recording: a resumed broker fetches while it opens a new session. One that joined
    only in the step after waits for that step.

    Args:
        transactions: recorded transactions of a step.
        before: the recorded tree before it.
        later: the joins of the next step (`isr_joins`).
    """

    def __init__(
        self, transactions: Sequence[RecordedTransaction], before: RecordedTree, later: Iterable[tuple[str, int]] = ()
    ) -> None:
        self._waiting = _joins_and_registrations(transactions, before)
        self._isrs = {path: state.isr for path, state in states(before).items()}
        self._later = set(later).difference(isr_joins(transactions, before))
        self._is_global = moves_replicas(transactions)

    def note(self, transaction: Transaction) -> bool:
        """Take note of a transaction of the simulation; return whether others may join now."""
        count = len(self._waiting)
        for part in _parts(transaction):
            if isinstance(part, SetDataTxn) and (state := _simulated_state(part)) is not None:
                for follower in set(state.isr).difference(self._isrs.get(part.path, ())):
                    self._end_waiting(part.path, follower)
                self._isrs[part.path] = state.isr
            elif isinstance(part, CreateTxn) and part.path.startswith(f"{paths.BROKER_IDS}/"):
                self._end_waiting(part.path, int(part.path.rpartition("/")[2]))
        return len(self._waiting) < count

    def _end_waiting(self, path: str, broker: int) -> None:
        if (path, broker) in self._waiting:
            self._waiting.remove((path, broker))

    def allows(self, partition: TopicPartition, follower: int) -> bool:
        """Return whether a follower may join the ISR of a partition now."""
        join = paths.state(partition), follower
        if join not in self._waiting:
            return join not in self._later
        earlier = [path for path, _ in self._waiting[: self._waiting.index(join)]]
        if _registration(follower) in earlier:
            return False
        joins = [path for path in earlier if paths.state_partition(path) is not None]
        return not joins if self._is_global else join[0] not in joins


class LateFetch:
    """One more fetch of a broker that shuts down, after the controller has removed it from ISRs.

    A leader that has not heard of the removal yet processes the fetch a little later.

    Args:
        cluster: the simulated cluster.
        states: paths of the states whose leaders process the fetch, in this order.
        broker: the broker.
    """

    def __init__(self, cluster: KafkaCluster, states: Sequence[str], broker: int) -> None:
        self._cluster = cluster
        self._states = list(states)
        self._waiting = dict.fromkeys(states)
        self._broker = broker
        cluster.server.on_transaction.append(self._note)

    def _note(self, transaction: Transaction) -> None:
        for part in _parts(transaction):
            if not isinstance(part, SetDataTxn) or part.path not in self._waiting:
                continue
            if (state := _simulated_state(part)) is not None and self._broker not in state.isr:
                del self._waiting[part.path]
                if not self._waiting:
                    self._schedule()

    def _schedule(self) -> None:
        self._cluster.scheduler.call_later(LATE_FETCH_US, "late fetch", self._fetch)

    def _fetch(self) -> None:
        while self._states:
            partition = paths.state_partition(self._states[0])
            assert partition is not None
            replicas = self._cluster.brokers[self._cluster.state(*partition).leader].replicas
            replica = replicas.replicas[partition]
            if self._broker in replica.state.isr:
                self._schedule()
                return
            fetched = FetchedPartition(partition, replica.state.leader_epoch, replica.log.end)
            replicas.fetch(self._broker, fetched, is_fenced=True)
            del self._states[0]
