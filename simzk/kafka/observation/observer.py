"""History events of a simulated cluster, derived from the transactions of its ZooKeeper.

Rules of this module:
  - an event records a change of the tree, whoever made it, and names its author by session. Broker and controller share
    a session: a write that a broker makes as leader or for its producers is attributed to the broker;
  - a multi is one change: its writes to Kafka's znodes are recorded, its checks are not;
  - a failed write is no event;
  - the previous state of a partition is the one observed last. States and assignments written one by one are kept by
    name; those written in batches, or never written, are read from the columns;
  - the log of a batch stores only what events show, in the smallest integer type that fits, in pieces of 4 MiB. A
    history grows with every write, and the first touch of a memory page takes as long as a batch takes for fifty rows;
  - a znode that no release can decode is recorded as invalid when it is written, whether or not anybody reads it. How a
    reader reacts is recorded by that reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from simzk.errors import ZnodeError
from simzk.jvm.numbers import next_int, parse_int
from simzk.kafka.cluster.zookeeper_host import ADDRESS
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import (
    acl,
    admin,
    broker_registration,
    cluster,
    config,
    controller,
    delegation_token,
    feature,
    partition_state,
)
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.schemas.json_text import read_value
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.partitions.arrays import unpack
from simzk.simulation.history import Event
from simzk.zookeeper import transactions as txns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.cluster.zookeeper_access import KafkaTree
    from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics
    from simzk.kafka.zookeeper_mode.columnar.batches import Written
    from simzk.kafka.zookeeper_mode.tools.operator import Operator
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.table import Partitions
    from simzk.simulation import History

Value = TypeVar("Value")

BrokerWrite = Literal["isr", "producer ids"]
"""Writes that a broker makes itself in older releases, and the controller in newer ones."""


class Participant(Protocol):
    """A process besides brokers and operator that uses the cluster's ZooKeeper, such as an old consumer."""

    @property
    def name(self) -> str:
        """The name in the history."""

    @property
    def session_id(self) -> int:
        """The id of its present session."""

    def kill(self) -> None:
        """Kill its process."""


@dataclass(eq=False)
class SessionNames:
    """Names of the owners of a cluster's ZooKeeper sessions.

    Args:
        brokers: the brokers by id.
        participants: the other processes with sessions; may grow.
        operator: the operator.
        client_of: returns the network name of the client that is connected with a session, or None.
    """

    _brokers: Mapping[int, Broker]
    _participants: Sequence[Participant]
    _operator: Operator
    _client_of: Callable[[int], str | None]
    _owners: dict[int, Broker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name = {broker.process.name: broker for broker in self._brokers.values()}
        assert len(self._by_name) == len(self._brokers), "two brokers have one name"

    def name_of(self, session_id: int) -> str:
        """Return the name of a session's owner; `zookeeper` if it has none."""
        broker = self._owner(session_id)
        if broker is not None:
            return f"controller {broker.id}" if broker.controller.is_active else f"broker {broker.id}"
        for participant in self._participants:
            if session_id == participant.session_id:
                return participant.name
        return "admin" if self._operator.owns_session(session_id) else ADDRESS

    def broker_of(self, session_id: int, write: BrokerWrite) -> str | None:
        """Return the name of the broker that made a write itself; None if its release leaves that to the controller."""
        if (broker := self._owner(session_id)) is None:
            return None
        version = broker.version
        by_controller = version.broker.uses_alter_isr if write == "isr" else version.controller.allocates_producer_ids
        return None if by_controller else f"broker {broker.id}"

    def _owner(self, session_id: int) -> Broker | None:
        """Return the broker that owns a session, or owned it until it expired.

        Owners are cached: one broker writes thousands of times in a row, and a search asks all brokers.
        """
        if (known := self._owners.get(session_id)) is not None and known.owns_session(session_id):
            return known
        found = self._by_name.get(self._client_of(session_id) or "")
        if found is None or not found.owns_session(session_id):
            found = next((broker for broker in self._brokers.values() if broker.owns_session(session_id)), None)
        if found is not None and session_id:  # 0 means no session, for any broker
            if len(self._owners) > 2 * len(self._brokers):  # sessions that have ended
                self._owners.clear()
            self._owners[session_id] = found
        assert found is None or found.owns_session(session_id), "the session is another broker's"
        return found


_PIECE_BYTES = 2**22
_MAX_INT16 = np.iinfo(np.int16).max


class BatchLog:
    """Log of the state writes of many batches."""

    def __init__(self) -> None:
        self._piece = np.empty(0, dtype=np.uint8)
        self._used = 0

    def append(self, written: Written) -> LoggedBatch:
        """Copy the writes of a batch."""
        before, after = written.before, written.after
        ids, epochs = (before.isr, after.isr), (before.leader_epoch, after.leader_epoch)
        return LoggedBatch(
            written.topics.table.partitions(self._copy([written.rows], np.int32)[0]),
            self._copy([before.recovering, after.recovering], np.bool_),
            # A leader is a member of its ISR or NONE, so that the ISRs alone decide the type.
            self._copy(
                [before.leader, after.leader, *before.isr.T, *after.isr.T], _smallest_type(*map(_greatest, ids))
            ),
            self._copy(epochs, _smallest_type(*map(_greatest, epochs))),
            before.isr.shape[1],
        )

    def _copy(self, columns: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
        """Return a copy of columns of k numbers as kind[len(columns), k]."""
        rows, item = len(columns[0]), np.dtype(kind).itemsize
        assert all(len(column) == rows for column in columns)
        size = -(-len(columns) * rows * item // 8) * 8
        if self._used + size > len(self._piece):
            self._piece, self._used = np.empty(max(_PIECE_BYTES, size), dtype=np.uint8), 0
        begin, self._used = self._used, self._used + size
        assert self._used <= len(self._piece), "a copy ends within its piece"
        copied = self._piece[begin : begin + len(columns) * rows * item].view(kind).reshape(len(columns), rows)
        for line, column in zip(copied, columns, strict=True):
            line[:] = column
        return copied


def _greatest(numbers: IntArray) -> int:
    return int(numbers.max(initial=0))


def _smallest_type(*greatest: int) -> type[np.signedinteger[Any]]:
    """Return the smallest integer type for numbers from -1 up to the greatest."""
    assert max(greatest) <= np.iinfo(np.int32).max, "ids and epochs are Java's int"
    return np.int16 if max(greatest) <= _MAX_INT16 else np.int32


@dataclass(eq=False, slots=True)
class LoggedBatch:
    """State writes of one batch.

    Args:
        partitions: the k partitions, in the order of the writes.
        recovering: bool[2, k], whether the leader was recovering before and after the write.
        ids: [2 + w + v, k], the leaders before and after, the ISRs before and after.
        epochs: [2, k], the leader epochs before and after.
        width: w, the width of the ISRs before.
    """

    _partitions: Partitions
    _recovering: BoolArray
    _ids: NDArray[Any]
    _epochs: NDArray[Any]
    _width: int

    def __post_init__(self) -> None:
        assert self._epochs.shape == self._recovering.shape == (2, self._partitions.size)
        assert self._ids.shape[1] == self._partitions.size
        assert len(self._ids) >= 2 + self._width, "the ISRs before follow the leaders"

    def __iter__(self) -> Iterator[tuple[TopicPartition, LeaderAndIsr, LeaderAndIsr]]:
        """Yield each partition with its states before and after, in the order of the writes.

        Controller epochs and versions are not logged: events do not show them.
        """
        names = [TopicPartition(*name) for name in self._partitions.names()]
        isrs = self._ids[2 : 2 + self._width], self._ids[2 + self._width :]
        before, after = map(_to_states, self._ids[:2], self._epochs, isrs, self._recovering)
        return zip(names, before, after, strict=True)


def _to_states(leader: IntArray, leader_epoch: IntArray, isr: IntArray, recovering: BoolArray) -> list[LeaderAndIsr]:
    columns = zip(leader.tolist(), leader_epoch.tolist(), unpack(isr.T), recovering.tolist(), strict=True)
    return [LeaderAndIsr(leads, epoch, ids, 0, recovering=marked) for leads, epoch, ids, marked in columns]


class ObservedStates:
    """Last observed state of each partition."""

    def __init__(self) -> None:
        self._named: dict[TopicPartition, LeaderAndIsr | None] = {}
        self._topics: ColumnarTopics | None = None

    def load(self, topics: ColumnarTopics) -> None:
        """Observe the states of columns from now on."""
        assert topics.partitions.before_change is None, "columns have one observer"
        assert not self._named, "columns are loaded before anything is observed"
        self._topics = topics
        topics.partitions.before_change = self._keep_previous

    def _keep_previous(self, row: int) -> None:
        """Keep a state that is about to change until its transaction is observed."""
        assert self._topics is not None
        table = self._topics.table
        self._named.setdefault(TopicPartition(*table.name(row)), table.leader_and_isr(row))

    def get(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """Return the state of a partition; None if it has none."""
        return self._named[partition] if partition in self._named else self._in_columns(partition)

    def _in_columns(self, partition: TopicPartition) -> LeaderAndIsr | None:
        row = None if self._topics is None else self._topics.table.find(*partition)
        return None if row is None or self._topics is None else self._topics.table.leader_and_isr(row)

    def put(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """Set the state of a partition."""
        self._named[partition] = state

    def pop(self, partition: TopicPartition) -> None:
        """Remove the state of a partition."""
        self._named.pop(partition, None)
        if self._in_columns(partition) is not None:  # the same transaction created it again
            self._named[partition] = None

    def put_batch(self, written: Written) -> None:
        """Use the columns' states for the rows of a batch."""
        assert written.topics is self._topics, "a batch writes to the observed columns"
        if self._named:
            table, rows = written.topics.table, set(written.rows.tolist())
            for partition in [p for p in self._named if table.find(*p) in rows]:
                del self._named[partition]


class ObservedTopics:
    """Last observed replica assignments of each topic; at first, those of the columns at the start."""

    def __init__(self) -> None:
        self._named: dict[str, TopicZnode] = {}
        self._deleted: set[str] = set()
        self._initial: tuple[Partitions, IntArray] | None = None
        self._moving: dict[TopicPartition, ReplicaAssignment] = {}

    def load(self, topics: ColumnarTopics) -> None:
        """Take the assignments of columns as observed."""
        assert not self._named, "columns are loaded before anything is observed"
        table, rows = topics.table, topics.table.rows()
        self._initial = table.partitions(rows), table.replicas[rows].copy()
        moving = np.array(table.reassigning(), dtype=np.int32)
        lists = zip(table.partitions(moving).names(), *map(unpack, table.assignment(moving)), strict=True)
        self._moving = {TopicPartition(*name): ReplicaAssignment(*one) for name, *one in lists}

    def get(self, name: str) -> TopicZnode | None:
        """Return the assignments of a topic; None if it does not exist."""
        observed = self._named.get(name)
        if observed is not None or self._initial is None or name in self._deleted:
            return observed
        partitions, replicas = self._initial
        if name not in partitions.topics:
            return None
        places = np.flatnonzero(partitions.topic == partitions.topics.index(name))
        numbers, lists = partitions.partition[places].tolist(), unpack(replicas[places])
        initial = {number: ReplicaAssignment(ids) for number, ids in zip(numbers, lists, strict=True)}
        return TopicZnode({n: self._moving.get(TopicPartition(name, n), one) for n, one in initial.items()})

    def put(self, name: str, topic: TopicZnode) -> None:
        """Set the assignments of a topic."""
        self._named[name] = topic

    def pop(self, name: str) -> None:
        """Remove a topic."""
        self._named.pop(name, None)
        self._deleted.add(name)
        assert self.get(name) is None, f"{name} is deleted, and still observed"


_DECODERS: Final[tuple[tuple[str, Callable[[str, bytes | None], object]], ...]] = (
    (r"/brokers/ids/[^/]+", broker_registration.decode),
    (r"/controller", controller.decode),
    (r"/controller_epoch", controller.decode_epoch),
    (r"/config/changes/[^/]+", config.decode_change),
    (r"/config/(topics|clients|brokers|ips|users)/[^/]+(/clients/[^/]+)?", config.decode),
    (r"/admin/reassign_partitions", lambda path, data: admin.decode_reassignment(path, data, strict=False)),
    (r"/admin/preferred_replica_election", admin.decode_partitions),
    (r"/isr_change_notification/[^/]+", admin.decode_partitions),
    (r"/log_dir_event_notification/[^/]+", broker_registration.decode_log_dir_failure),
    (r"/cluster/id", cluster.decode_cluster_id),
    (r"/feature", feature.decode),
    (r"/latest_producer_id_block", cluster.decode_producer_ids),
    (r"/delegation_token/tokens/[^/]+", delegation_token.decode),
    (r"/kafka-acl/[^/]+/[^/]+|/kafka-acl-extended/prefixed/[^/]+/[^/]+", acl.decode),
)
_DECODED_PATHS: Final = re.compile("|".join(f"({pattern.replace('(', '(?:')})" for pattern, _ in _DECODERS))
_CREATED_EMPTY: Final = re.compile(r"/brokers/ids/[^/]+")
"""A registration is created without data and set in the same multi (2.2 and later)."""


def decoding_error(path: str, data: bytes | None) -> ZnodeError | None:
    """Return why no release can decode a znode's data; None if one can, or if the path is not in the table.

    Topics and partition states are not in the table: the observer decodes them itself.

    >>> str(decoding_error("/controller_epoch", b"x"))
    '/controller_epoch: contains "x"; expected a decimal number of 32 bits'
    >>> decoding_error("/config/topics/t", b'{"version":1,"config":{}}') is None
    True
    """
    match = _DECODED_PATHS.fullmatch(path)
    if match is None or (data is None and _CREATED_EMPTY.fullmatch(path)):
        return None
    assert match.lastindex is not None
    decode = _DECODERS[match.lastindex - 1][1]
    try:
        decode(path, data)
        if decode is config.decode and data:
            read_value(path, data)  # config.decode returns {} for invalid JSON, as brokers do
    except ZnodeError as error:
        return error
    return None


_RECORDED = {
    paths.REASSIGN_PARTITIONS: "reassignment by znode",
    paths.PREFERRED_ELECTION: "preferred election by znode",
    paths.PRODUCER_IDS: "producer ids given out",
}

_CREATIONS = (txns.CreateTxn, txns.Create2Txn, txns.CreateContainerTxn, txns.CreateTTLTxn)
_OBSERVED = (*_CREATIONS, txns.SetDataTxn, txns.DeleteTxn, txns.CloseSessionTxn)
"""Transactions that can be events. For all others, such as the failed elections of a hundred brokers, the author is not
looked up."""


class Observer:
    """Observer of transactions that records events.

    Args:
        history: the history.
        tree: the present znodes, read once for the states before the first transaction.
        name_of: returns the name of a session's owner.
        broker_of: returns the name of the broker that wrote an ISR or a block of producer ids itself, in releases in
            which no controller does that for it; else None.
        topics: the columns that back the tree's topics, if there are any.

    Attributes:
        on_state: called with each partition state, the one before, and its partition; not for states in columns.
        on_topic_deleted: called with the name of each deleted topic.
        on_controller: called when a controller is elected.
    """

    def __init__(
        self,
        history: History,
        tree: KafkaTree,
        name_of: Callable[[int], str],
        broker_of: Callable[[int, BrokerWrite], str | None] = lambda _session, _what: None,
        topics: ColumnarTopics | None = None,
    ) -> None:
        self.on_state: Callable[[TopicPartition, LeaderAndIsr | None, LeaderAndIsr], None] = lambda *_: None
        self.on_topic_deleted: Callable[[str], None] = lambda _: None
        self.on_controller: Callable[[], None] = lambda: None
        self._history = history
        self._name_of = name_of
        self._broker_of = broker_of
        self._session_id = 0
        self._zxid = -1
        self._states = ObservedStates()
        self._topics = ObservedTopics()
        self._batches = BatchLog()
        self._epoch = "0"
        if topics is None:
            for path, node in tree.walk():
                self._observe_initial(path, node.data)
            return
        self._states.load(topics)
        self._topics.load(topics)
        if (epoch := tree.get(paths.CONTROLLER_EPOCH)) is not None:
            self._epoch = _text(epoch.data)

    def observe_batch(self, written: Written) -> None:
        """Record the state writes of a batch; their events are created when the history is read."""
        if len(written.zxids):
            assert written.zxids[0] > self._zxid, "each transaction is observed once, in order"
            self._zxid = int(written.zxids[-1])
        who = self._name_of(written.session_id)
        self._states.put_batch(written)
        batch = self._batches.append(written)

        def events(at_us: int) -> Iterator[Event]:
            return (Event(at_us, who, *_describe_change(*write)) for write in batch)

        self._history.record_later(events)

    def observe(self, transaction: txns.Transaction) -> None:
        """Record the events of a transaction."""
        assert transaction.zxid > self._zxid, "each transaction is observed once, in order"
        self._zxid = transaction.zxid
        record = transaction.record
        parts = (record,) if not isinstance(record, txns.MultiTxn) else () if record.failed else record.records
        if any(isinstance(part, _OBSERVED) for part in parts):
            self._session_id = transaction.session_id
            who = self._name_of(transaction.session_id)
            for part in parts:
                self._record(who, part)

    def _observe_initial(self, path: str, data: bytes | None) -> None:
        partition = paths.state_partition(path)
        parent, _, name = path.rpartition("/")
        if partition is not None:
            if (state := _decoded(partition_state.decode, path, data)) is not None:
                self._states.put(partition, state)
        elif parent == paths.TOPICS:
            if (topic := _decoded(topic_schema.decode, path, data)) is not None:
                self._topics.put(name, topic)
        elif path == paths.CONTROLLER_EPOCH:
            self._epoch = _text(data)

    def _record(self, who: str, record: txns.Record) -> None:
        match record:
            case txns.CreateTxn() | txns.Create2Txn() | txns.CreateContainerTxn() | txns.CreateTTLTxn():
                self._record_write(who, record.path, record.data, is_new=True)
            case txns.SetDataTxn():
                self._record_write(who, record.path, record.data, is_new=False)
            case txns.DeleteTxn():
                self._record_delete(who, record.path)
            case txns.CloseSessionTxn():
                for path in record.paths:
                    self._record_delete(who, path)

    def _record_write(self, who: str, path: str, data: bytes | None, *, is_new: bool) -> None:
        if (error := decoding_error(path, data)) is not None:
            self._history.record(who, "written wrong", path, "", str(error))
        if (partition := paths.state_partition(path)) is not None:
            self._record_state(who, partition, _decoded(partition_state.decode, path, data))
        elif path == paths.CONTROLLER_EPOCH:
            self._epoch = _text(data)
        elif path in _RECORDED:
            if not is_new and path == paths.PRODUCER_IDS:
                who = self._broker_of(self._session_id, "producer ids") or who
            if data is not None or not is_new:
                self._history.record(who, _RECORDED[path], "", "", _text(data))
        elif is_new:
            self._record_create(who, path, data)
        elif path.rpartition("/")[0] == paths.TOPICS:
            self._record_topic(who, path.rpartition("/")[2], _decoded(topic_schema.decode, path, data))

    def _record_create(self, who: str, path: str, data: bytes | None) -> None:
        assert path not in _RECORDED, "the same event as for a change"
        parent, _, name = path.rpartition("/")
        if path == paths.CONTROLLER:
            broker = _decoded(controller.decode, path, data)
            who = f"controller {'?' if broker is None else broker}"
            self.on_controller()
            # The multi that creates /controller sets /controller_epoch after it.
            epoch = parse_int(self._epoch)
            self._history.record(who, "elected", "", "", f"epoch {'?' if epoch is None else next_int(epoch)}")
        elif parent == paths.BROKER_IDS:
            self._history.record(f"broker {name}", "registered")
        elif parent == paths.TOPICS:
            found = _decoded(topic_schema.decode, path, data)
            self._topics.put(name, found or TopicZnode({}))
            text = f"{path}: unreadable" if found is None else f"{len(found.partitions)} partitions"
            self._history.record(who, "topic created", name, "", text)
        elif parent == paths.DELETE_TOPICS:
            self._history.record(who, "deletion requested", name)
        elif parent == paths.CONFIG_CHANGES:
            self._history.record(who, "configuration changed", _text(data))

    def _record_delete(self, who: str, path: str) -> None:
        parent, _, name = path.rpartition("/")
        if (partition := paths.state_partition(path)) is not None:
            self._states.pop(partition)
        elif path == paths.CONTROLLER:
            self._history.record("zookeeper", "controller gone", "", f"epoch {self._epoch}", "")
        elif parent == paths.BROKER_IDS:
            self._history.record(f"broker {name}", "registration gone")
        elif parent == paths.TOPICS:
            self._topics.pop(name)
            self.on_topic_deleted(name)
            self._history.record(who, "topic deleted", name)
        elif path in _RECORDED:
            self._history.record(who, f"{_RECORDED[path]}: done")

    def _record_state(self, who: str, partition: TopicPartition, state: LeaderAndIsr | None) -> None:
        before = self._states.get(partition)
        if state is None:
            self._history.record(who, "state unreadable", str(partition), _format_state(before), "")
            return
        self._states.put(partition, state)
        self.on_state(partition, before, state)
        if before is not None and (before.leader, before.leader_epoch) == (state.leader, state.leader_epoch):
            # A write of the controller would have raised the leader epoch: this one is the leader's own.
            who = self._broker_of(self._session_id, "isr") or who
        self._history.record(who, *_describe_change(partition, before, state))

    def _record_topic(self, who: str, name: str, topic: TopicZnode | None) -> None:
        before = self._topics.get(name) or TopicZnode({})
        if topic is None:
            self._history.record(who, "assignment unreadable", name)
            return
        self._topics.put(name, topic)
        for number, assignment in topic.partitions.items():
            if (old := before.partitions.get(number)) is None:
                self._history.record(who, "partition added", f"{name}-{number}", "", assignment.to_text())
            elif old != assignment:
                what = "reassignment" if assignment.being_reassigned else "reassigned"
                self._history.record(who, what, f"{name}-{number}", old.to_text(), assignment.to_text())


def _describe_change(
    partition: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr
) -> tuple[str, str, str, str]:
    """Return kind, partition, previous and new state of a state write, as in an event."""
    if before is None:
        what = "leader elected"
    elif before.leader != state.leader:
        what = "leader lost" if state.leader < 0 else "leader moved" if before.leader >= 0 else "leader elected"
    elif before.isr != state.isr:
        what = "ISR shrunk" if len(state.isr) < len(before.isr) else "ISR expanded"
    else:
        what = "epoch raised"
    return what, str(partition), _format_state(before), _format_state(state)


def _format_state(state: LeaderAndIsr | None) -> str:
    if state is None:
        return ""
    leader = "none" if state.leader < 0 else str(state.leader)
    recovering = " recovering" if state.recovering else ""
    return f"leader {leader} epoch {state.leader_epoch} isr {list(state.isr)}{recovering}"


_STATE = re.compile(r"leader (none|\d+) epoch (\d+) isr \[([\d, ]*)\]( recovering)?")


class EventState(NamedTuple):
    """Partition state in an event: the leader (-1 for none), its epoch, the ISR."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


def parse_state(text: str) -> EventState | None:
    """Return the partition state in the `before` or `after` of an event; None if there is none.

    >>> parse_state("leader none epoch 3 isr [2]")
    EventState(leader=-1, leader_epoch=3, isr=(2,))
    """
    if (found := _STATE.fullmatch(text)) is None:
        return None
    leader, epoch, isr, _ = found.groups()
    members = tuple(int(member) for member in isr.split(",") if member)
    return EventState(-1 if leader == "none" else int(leader), int(epoch), members)


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


def _decoded(decode: Callable[[str, bytes | None], Value], path: str, data: bytes | None) -> Value | None:
    """Decode a znode; None if it is invalid."""
    try:
        return decode(path, data)
    except ZnodeError:
        return None
