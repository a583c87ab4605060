"""Partitions as somebody who follows a server's transactions knows them: by name, and else as columns have them.

Rules of the module:
  - a transaction is told when it is done: what it changes in columns is noted by name right before, once;
  - what was told one by one stands by name;
  - what was told as a batch, or never, is what the columns show: a batch takes the names of its rows away.

Whether what somebody wrote into a znode of Kafka's can be read at all, by whatever release.

Rules of the module:
  - a table from path to codec; topics and states are no part of it, for whoever follows them reads them anyway;
  - it says what is wrong when it is written, whoever reads it later, or nobody: what each reader then does is told by
    that reader.

What happened, read off the transactions of ZooKeeper: the events of a history that everybody can check.

Rules of the module:
  - an event tells a change of the tree, whoever made it; who did is known by the session. Broker and controller share
    one: what a broker writes on its own account, as leader or for its producers, is the broker's;
  - a multi is one change: only what it did to Kafka's znodes is told, its checks are not;
  - a write that failed is no event, but for the fence: a check of the controller's epoch that stopped a write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from simzk.errors import ZnodeError
from simzk.jvm.numbers import next_int, parse_int
from simzk.kafka import paths
from simzk.kafka.columnar.write_log import KeptWrites
from simzk.kafka.schemas import (
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
from simzk.kafka.schemas import controller as controller_schema
from simzk.kafka.schemas import topic as topic_schema
from simzk.kafka.schemas.json_text import read_value
from simzk.kafka.schemas.topic import TopicZnode
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.partitions.arrays import unpack
from simzk.simulation.history import Event
from simzk.zookeeper.transactions import (
    CloseSessionTxn,
    Create2Txn,
    CreateContainerTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    MultiTxn,
    Record,
    SetDataTxn,
    Transaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simzk.kafka.cluster.zookeeper_access import KafkaTree
    from simzk.kafka.columnar import ColumnarTopics
    from simzk.kafka.columnar.batches import Written
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.arrays import IntArray
    from simzk.partitions.table import Partitions
    from simzk.simulation import History


class KnownStates:
    """States by partition."""

    def __init__(self) -> None:
        self._named: dict[TopicPartition, LeaderAndIsr | None] = {}
        self._topics: ColumnarTopics | None = None

    def load(self, topics: ColumnarTopics) -> None:
        """Know what columns hold now, and what they will."""
        assert topics.partitions.before_change is None, "one follower of each"
        self._topics = topics
        topics.partitions.before_change = self._note

    def _note(self, row: int) -> None:
        assert self._topics is not None
        table = self._topics.table
        self._named.setdefault(TopicPartition(*table.name(row)), table.leader_and_isr(row))

    def get(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """The state of a partition, None where none is known."""
        return self._named[partition] if partition in self._named else self._shown(partition)

    def _shown(self, partition: TopicPartition) -> LeaderAndIsr | None:
        row = None if self._topics is None else self._topics.table.find(*partition)
        return None if row is None or self._topics is None else self._topics.table.leader_and_isr(row)

    def put(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """A state was written."""
        self._named[partition] = state

    def pop(self, partition: TopicPartition) -> None:
        """A state was deleted."""
        self._named.pop(partition, None)
        if self._shown(partition) is not None:  # the same transaction made it anew
            self._named[partition] = None

    def put_batch(self, written: Written) -> None:
        """Many states were written at once."""
        assert written.topics is self._topics
        if self._named:
            table, rows = written.topics.table, set(written.rows.tolist())
            for partition in [p for p in self._named if table.find(*p) in rows]:
                del self._named[partition]


class KnownTopics:
    """The assignments of topics by name; of those that were in columns from the beginning, what they were then."""

    def __init__(self) -> None:
        self._named: dict[str, TopicZnode] = {}
        self._gone: set[str] = set()
        self._loaded: tuple[Partitions, IntArray] | None = None
        self._moving: dict[TopicPartition, ReplicaAssignment] = {}

    def load(self, topics: ColumnarTopics) -> None:
        """Know what columns hold now."""
        table, rows = topics.table, topics.table.rows()
        self._loaded = table.partitions(rows), table.replicas[rows].copy()
        moving = np.array(table.reassigning(), dtype=np.int32)
        lists = zip(table.partitions(moving).names(), *map(unpack, table.assignment(moving)), strict=True)
        self._moving = {TopicPartition(*name): ReplicaAssignment(*one) for name, *one in lists}

    def get(self, name: str) -> TopicZnode | None:
        """What is known of a topic, None where nothing is."""
        known = self._named.get(name)
        if known is not None or self._loaded is None or name in self._gone:
            return known
        partitions, replicas = self._loaded
        if name not in partitions.topics:
            return None
        places = np.flatnonzero(partitions.topic == partitions.topics.index(name))
        numbers, lists = partitions.partition[places].tolist(), unpack(replicas[places])
        still = {number: ReplicaAssignment(ids) for number, ids in zip(numbers, lists, strict=True)}
        return TopicZnode({n: self._moving.get(TopicPartition(name, n), one) for n, one in still.items()})

    def put(self, name: str, topic: TopicZnode) -> None:
        """A topic was written."""
        self._named[name] = topic

    def pop(self, name: str) -> None:
        """A topic was deleted."""
        self._named.pop(name, None)
        self._gone.add(name)


_READERS: Final[tuple[tuple[str, Callable[[str, bytes | None], object]], ...]] = (
    (r"/brokers/ids/[^/]+", broker_registration.decode),
    (r"/controller", controller.decode),
    (r"/controller_epoch", controller.decode_epoch),
    (r"/config/changes/[^/]+", config.decode_change),
    (r"/config/(topics|clients|brokers|ips|users)/[^/]+(/clients/[^/]+)?", config.decode),
    (r"/admin/reassign_partitions", lambda path, data: admin.decode_reassignment(path, data, strict=False)),
    (r"/admin/preferred_replica_election", admin.decode_preferred_election),
    (r"/isr_change_notification/[^/]+", admin.decode_isr_change),
    (r"/log_dir_event_notification/[^/]+", broker_registration.decode_log_dir_failure),
    (r"/cluster/id", cluster.decode_cluster_id),
    (r"/feature", feature.decode),
    (r"/latest_producer_id_block", cluster.decode_producer_ids),
    (r"/delegation_token/tokens/[^/]+", delegation_token.decode),
    (r"/kafka-acl/[^/]+/[^/]+|/kafka-acl-extended/prefixed/[^/]+/[^/]+", acl.decode),
)
_ANY: Final = re.compile("|".join(f"({pattern.replace('(', '(?:')})" for pattern, _ in _READERS))
_MADE_EMPTY: Final = re.compile(r"/brokers/ids/[^/]+")
"""A registration is made without data, and filled in the same multi (2.2 and later)."""


def problem_with(path: str, data: bytes | None) -> ZnodeError | None:
    """Why nobody can read what was written; None where somebody can, or where the znode is none of the table.

    >>> str(problem_with("/controller_epoch", b"x"))
    '/controller_epoch: contains "x"; expected a decimal number of 32 bits'
    >>> problem_with("/config/topics/t", b'{"version":1,"config":{}}') is None
    True
    """
    match = _ANY.fullmatch(path)
    if match is None or (data is None and _MADE_EMPTY.fullmatch(path)):
        return None
    assert match.lastindex is not None
    reader = _READERS[match.lastindex - 1][1]
    try:
        reader(path, data)
        if reader is config.decode and data:
            read_value(path, data)  # which a reader takes for an empty one, and an operator does not
    except ZnodeError as problem:
        return problem
    return None


OwnAccount = Literal["isr", "producer ids"]

_NOTED = {
    paths.REASSIGN_PARTITIONS: "reassignment by znode",
    paths.PREFERRED_ELECTION: "preferred election by znode",
    paths.PRODUCER_IDS: "producer ids given out",
}


_TOLD = (CreateTxn, Create2Txn, CreateContainerTxn, CreateTTLTxn, SetDataTxn, DeleteTxn, CloseSessionTxn)
"""What there is to tell of; who sends much else, such as a hundred brokers that all want to be controller, is not
asked for."""


class Observer:
    """Turns transactions into events.

    Args:
        history: where the events go.
        tree: what stands now, read once for the states that were there before.
        who_is: the name of whom a session belongs to.
        on_its_own: the same where a broker writes something itself, an ISR that it leads or a block of producer ids, in
            the releases in which no controller does that for it; else None.
        topics: the columns in which the tree keeps its topics, where it does.
    """

    def __init__(
        self,
        history: History,
        tree: KafkaTree,
        who_is: Callable[[int], str],
        on_its_own: Callable[[int, OwnAccount], str | None] = lambda _session, _what: None,
        topics: ColumnarTopics | None = None,
    ) -> None:
        self._history = history
        self._who_is = who_is
        self._on_its_own = on_its_own
        self._session_id = 0
        self._states = KnownStates()
        self._topics = KnownTopics()
        self._kept = KeptWrites()
        self._epoch = "0"
        if topics is None:
            for path, node in tree.walk():
                self._learn(path, node.data)
            return
        self._states.load(topics)
        self._topics.load(topics)
        epoch = tree.get(paths.CONTROLLER_EPOCH)
        if epoch is not None:
            self._learn(paths.CONTROLLER_EPOCH, epoch.data)

    def observe_batch(self, written: Written) -> None:
        """Many transactions have been applied, each a write of one state; they are told when somebody looks."""
        who = self._who_is(written.session_id)
        self._states.put_batch(written)
        kept = self._kept.keep(written)

        def tell(at_us: int) -> Iterator[Event]:
            return (Event(at_us, who, *_change(*write)) for write in kept)

        self._history.record_later(tell)

    def observe(self, transaction: Transaction) -> None:
        """A transaction has been applied."""
        record = transaction.record
        parts = (record,) if not isinstance(record, MultiTxn) else () if record.failed else record.records
        if any(isinstance(part, _TOLD) for part in parts):
            self._session_id = transaction.session_id
            who = self._who_is(transaction.session_id)
            for part in parts:
                self._tell(who, part)

    def _learn(self, path: str, data: bytes | None) -> None:
        partition = paths.state_partition(path)
        if partition is not None:
            state = _state(path, data)
            if state is not None:
                self._states.put(partition, state)
        elif path.startswith(f"{paths.TOPICS}/") and path.count("/") == 3:
            topic = _topic(path, data)
            if topic is not None:
                self._topics.put(path.rpartition("/")[2], topic)
        elif path == paths.CONTROLLER_EPOCH:
            self._epoch = (data or b"").decode(errors="replace")

    def _tell(self, who: str, record: Record) -> None:
        match record:
            case CreateTxn() | Create2Txn() | CreateContainerTxn() | CreateTTLTxn():
                self._tell_create(who, record.path, record.data)
            case SetDataTxn():
                self._tell_set(who, record.path, record.data)
            case DeleteTxn():
                self._tell_delete(who, record.path)
            case CloseSessionTxn():
                for path in record.paths:
                    self._tell_delete(who, path)

    def _tell_problem(self, who: str, path: str, data: bytes | None) -> None:
        """What nobody can read is told when it is written, whether anybody reads it or not."""
        problem = problem_with(path, data)
        if problem is not None:
            self._history.record(who, "written wrong", path, "", str(problem))

    def _tell_create(self, who: str, path: str, data: bytes | None) -> None:
        self._tell_problem(who, path, data)
        parent, _, name = path.rpartition("/")
        partition = paths.state_partition(path)
        if partition is not None:
            self._tell_state(who, partition, _state(path, data))
        elif path == paths.CONTROLLER:
            broker = _controller(path, data)
            self._history.record(f"controller {broker}", "elected", "", "", f"epoch {self._next_epoch()}")
        elif parent == paths.BROKER_IDS:
            self._history.record(f"broker {name}", "registered")
        elif parent == paths.TOPICS:
            found = _topic(path, data)
            self._topics.put(name, found or TopicZnode({}))
            told = f"{path}: unreadable" if found is None else f"{len(found.partitions)} partitions"
            self._history.record(who, "topic created", name, "", told)
        elif parent == paths.DELETE_TOPICS:
            self._history.record(who, "deletion requested", name)
        elif parent == paths.CONFIG_CHANGES:
            self._history.record(who, "configuration changed", _text(data))
        elif path == paths.CONTROLLER_EPOCH:
            self._epoch = _text(data)
        elif path in _NOTED and data is not None:
            self._history.record(who, _NOTED[path], "", "", _text(data))

    def _next_epoch(self) -> str:
        # The multi that makes the controller raises its epoch next.
        epoch = parse_int(self._epoch)
        return "?" if epoch is None else str(next_int(epoch))

    def _tell_set(self, who: str, path: str, data: bytes | None) -> None:
        self._tell_problem(who, path, data)
        parent, _, name = path.rpartition("/")
        partition = paths.state_partition(path)
        if partition is not None:
            self._tell_state(who, partition, _state(path, data))
        elif path == paths.CONTROLLER_EPOCH:
            self._epoch = _text(data)
        elif parent == paths.TOPICS:
            self._tell_topic(who, name, _topic(path, data))
        elif path in _NOTED:
            if path == paths.PRODUCER_IDS:
                who = self._on_its_own(self._session_id, "producer ids") or who
            self._history.record(who, _NOTED[path], "", "", _text(data))

    def _tell_delete(self, who: str, path: str) -> None:
        parent, _, name = path.rpartition("/")
        partition = paths.state_partition(path)
        if partition is not None:
            self._states.pop(partition)
        elif path == paths.CONTROLLER:
            self._history.record("zookeeper", "controller gone", "", f"epoch {self._epoch}", "")
        elif parent == paths.BROKER_IDS:
            self._history.record(f"broker {name}", "registration gone")
        elif parent == paths.TOPICS:
            self._topics.pop(name)
            self._history.record(who, "topic deleted", name)
        elif path in _NOTED:
            self._history.record(who, f"{_NOTED[path]}: done")

    def _tell_state(self, who: str, partition: TopicPartition, state: LeaderAndIsr | None) -> None:
        before = self._states.get(partition)
        if state is None:
            self._history.record(who, "state unreadable", str(partition), _told(before), "")
            return
        self._states.put(partition, state)
        if before is not None and (before.leader, before.leader_epoch) == (state.leader, state.leader_epoch):
            who = self._on_its_own(self._session_id, "isr") or who  # a controller's write raises the leader epoch
        self._history.record(who, *_change(partition, before, state))

    def _tell_topic(self, who: str, name: str, topic: TopicZnode | None) -> None:
        before = self._topics.get(name) or TopicZnode({})
        if topic is None:
            self._history.record(who, "assignment unreadable", name)
            return
        self._topics.put(name, topic)
        for number, assignment in topic.partitions.items():
            old = before.partitions.get(number)
            if old is None:
                self._history.record(who, "partition added", f"{name}-{number}", "", _told_assignment(assignment))
            elif old != assignment:
                what = "reassignment" if assignment.being_reassigned else "reassigned"
                subject = f"{name}-{number}"
                self._history.record(who, what, subject, _told_assignment(old), _told_assignment(assignment))


def _change(partition: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr) -> tuple[str, str, str, str]:
    """What a write of a state is, of which partition, from what to what."""
    if before is None:
        what = "leader elected"
    elif before.leader != state.leader:
        what = "leader lost" if state.leader < 0 else "leader moved" if before.leader >= 0 else "leader elected"
    elif before.isr != state.isr:
        what = "ISR shrunk" if len(state.isr) < len(before.isr) else "ISR expanded"
    else:
        what = "epoch raised"
    return what, str(partition), _told(before), _told(state)


def _told(state: LeaderAndIsr | None) -> str:
    if state is None:
        return ""
    leader = "none" if state.leader < 0 else str(state.leader)
    recovering = " recovering" if state.recovering else ""
    return f"leader {leader} epoch {state.leader_epoch} isr {list(state.isr)}{recovering}"


_STATE = re.compile(r"leader (none|\d+) epoch (\d+) isr \[([\d, ]*)\]( recovering)?")


class ToldState(NamedTuple):
    """A state as events tell it: the leader (-1 for none), its epoch, the ISR."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


def read_told_state(told: str) -> ToldState | None:
    """The state that an event tells in its `before` or `after`; None where it tells something else.

    >>> read_told_state("leader none epoch 3 isr [2]")
    ToldState(leader=-1, leader_epoch=3, isr=(2,))
    """
    found = _STATE.fullmatch(told)
    if found is None:
        return None
    leader, epoch, isr, _ = found.groups()
    members = tuple(int(member) for member in isr.split(",") if member)
    return ToldState(-1 if leader == "none" else int(leader), int(epoch), members)


def _told_assignment(assignment: ReplicaAssignment) -> str:
    told = str(list(assignment.replicas))
    if assignment.adding:
        told += f" adding {list(assignment.adding)}"
    if assignment.removing:
        told += f" removing {list(assignment.removing)}"
    return told


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


def _state(path: str, data: bytes | None) -> LeaderAndIsr | None:
    try:
        return partition_state.decode(path, data)
    except ZnodeError:
        return None


def _topic(path: str, data: bytes | None) -> TopicZnode | None:
    try:
        return topic_schema.decode(path, data)
    except ZnodeError:
        return None


def _controller(path: str, data: bytes | None) -> str:
    try:
        return str(controller_schema.decode(path, data))
    except ZnodeError:
        return "?"
