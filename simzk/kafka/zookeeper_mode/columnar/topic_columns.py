"""Znodes `/brokers/topics/T` and `/brokers/topics/T/partitions` as columns, by the topic's number in the table.

Rules of this module:
  - a topic is stored only if a codec encodes the table's assignments and the topic id to exactly its data; otherwise
    the znode stays an object;
  - the table contains the assignments of the last data that could be stored; other data leaves them unchanged;
  - the children of `partitions` are numbers: consecutive numbers from 0 need no memory, others 4 bytes each.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.errors import LayoutError, ZnodeError
from simzk.jvm.hash_map import LARGEST, NumberedNames
from simzk.jvm.scala_collections import SMALL
from simzk.kafka.topic_partition import ReplicaAssignment
from simzk.kafka.zookeeper_mode.columnar.packed_records import PackedRecords
from simzk.kafka.zookeeper_mode.columnar.znode_form import NO_DATA, chunks, is_plain, new_znode, only_child, topic_bytes
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.table import validate_moves, validate_replicas

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from simzk.jvm.hash_map import HashOrderedSet
    from simzk.partitions.table import PartitionTable
    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.znode import Znode

PARTITIONS = "partitions"
TOPIC_CODECS: tuple[Callable[[TopicZnode], bytes], ...] = (
    topic_schema.encode_v3,
    topic_schema.encode_v2,
    topic_schema.encode_v2_of_2_12,
    topic_schema.encode_v1,
    topic_schema.encode_v1_spaced,
)
"""Forms refer to codecs by index."""

ID_LENGTH = 22
"""Length of a topic id in characters."""

# Indices of the numbers of a topic: those of its own znode, then those of `partitions`.
CZXID, MZXID, PZXID, CTIME, MTIME, VERSION, CVERSION = range(7)
NODE_WIDTH = 7
CAPACITY, COUNT = 2 * NODE_WIDTH, 2 * NODE_WIDTH + 1
WIDTH = 2 * NODE_WIDTH + 2


class TopicForm(NamedTuple):
    """Attributes of a stored topic znode besides its numbers; `order` of its partitions unless ascending."""

    acl: tuple[ACL, ...]
    aversion: int
    codec: int
    has_partitions: bool
    order: tuple[int, ...] | None


class DirectoryForm(NamedTuple):
    """Attributes of a stored `partitions` znode besides its numbers."""

    acl: tuple[ACL, ...]
    aversion: int
    data: bytes | None


class BothForm(NamedTuple):
    """Forms of a topic's two znodes; None for a znode that is not stored."""

    topic: TopicForm | None
    directory: DirectoryForm | None

    @property
    def nodes(self) -> int:
        """Number of stored znodes."""
        return (self.topic is not None) + (self.directory is not None)


_NOTHING = ([0] * WIDTH, BothForm(None, None))


class TopicColumns:
    """Columns of the two znodes of each topic in a table.

    Args:
        table: the table; only this object changes its assignments.
        is_used: returns whether a znode of a row's partition is stored, so that the row must stay.
        forget_row: called with each row that leaves the table.

    Attributes:
        held: number of stored znodes.
        records: packed numbers by topic number.
    """

    def __init__(
        self, table: PartitionTable, is_used: Callable[[int], bool], forget_row: Callable[[int], None]
    ) -> None:
        self._table = table
        self._is_used = is_used
        self._forget_row = forget_row
        self.records: PackedRecords[BothForm] = PackedRecords(WIDTH)
        self._ids: NDArray[np.bytes_] = np.zeros(0, dtype=f"S{ID_LENGTH}")
        self._numbers: dict[int, array[int]] = {}
        self.held = 0

    @property
    def nbytes(self) -> int:
        """Size of the columns in bytes."""
        explicit = sum(len(numbers) * numbers.itemsize for numbers in self._numbers.values())
        return self.records.nbytes + self._ids.nbytes + explicit

    def _both(self, name: str) -> tuple[int, list[int], BothForm]:
        number = self._table.topic_number(name)
        numbers, form = (self.records.get(number) if number >= 0 else None) or _NOTHING
        return number, numbers, form

    def form(self, name: str) -> BothForm:
        """Return the form of a topic."""
        number = self._table.topic_number(name)
        return (self.records.form(number) if number >= 0 else None) or _NOTHING[1]

    def forms_and_ids(self, names: Sequence[str]) -> tuple[list[BothForm], list[str]]:
        """Return forms and ids of many topics; "" for a topic without an id."""
        numbers = np.array([self._table.topic_number(name) for name in names], dtype=np.int64)
        there = (numbers >= 0) & (numbers < len(self._ids))
        ids = np.zeros(len(numbers), dtype=self._ids.dtype)
        ids[there] = self._ids[numbers[there]]
        return [form or _NOTHING[1] for form in self.records.forms_of(numbers)], ids.astype(str).tolist()

    def _write(self, number: int, numbers: Sequence[int], before: BothForm, after: BothForm) -> None:
        assert number >= 0, "a topic without partitions has no number"
        self.records.put(number, numbers, after)
        self.held += after.nodes - before.nodes
        assert self.held >= 0

    def fill(self, numbers: NDArray[np.int64], form: BothForm, ids: Sequence[str | None]) -> None:
        """Store both znodes of all topics, whose assignments are in the table.

        Args:
            numbers: int64[k, 16], the numbers of each topic by its number in the table.
            form: form of all topics.
            ids: ids of the topics, None for a topic without an id.
        """
        assert numbers.shape == (len(ids), WIDTH)
        self.records.fill(0, numbers, form)
        self._ids = np.array([topic_id or "" for topic_id in ids], dtype=self._ids.dtype)
        self.held += form.nodes * len(ids)

    def name_partitions(self, number: int, partitions: array[int]) -> None:
        """Set the children of `partitions` of a stored topic that are not consecutive numbers from 0."""
        assert self.records.form(number) is not None, "the topic is stored first"
        self._numbers[number] = partitions

    # The topic's own node

    def look_topic(self, name: str) -> Znode | None:
        """Return a copy of a topic znode; None if it is not stored."""
        number, numbers, form = self._both(name)
        held = form.topic
        if held is None:
            return None
        topic_id = self._ids[number].decode() or None
        data = TOPIC_CODECS[held.codec](TopicZnode(self._assignments(name, held.order), topic_id))
        node = _restored(data, held.acl, held.aversion, numbers[:NODE_WIDTH])
        if held.has_partitions:
            node.add_child(PARTITIONS)
        return node

    def take_topic(self, name: str) -> Znode | None:
        """Remove and return a topic znode; None if it is not stored."""
        node = self.look_topic(name)
        if node is not None:
            number, numbers, form = self._both(name)
            self._write(number, numbers, form, form._replace(topic=None))
        return node

    def settle_topic(self, path: str, name: str, node: Znode) -> bool:
        """Store a topic znode if columns can represent it exactly; return whether it is stored."""
        has_partitions = only_child(node, PARTITIONS)
        if has_partitions is None or node.data is None:
            return False
        try:
            topic = topic_schema.decode(path, node.data)
        except ZnodeError:
            return False
        written = _find_codec(topic, node.data)
        if written is None or not self._assign(name, topic):
            return False
        number, numbers, form = self._both(name)
        assert form.topic is None
        held = TopicForm(node.acl, node.aversion, written[0], has_partitions, written[1])
        self._write(number, [*_numbers_of(node), *numbers[NODE_WIDTH:]], form, form._replace(topic=held))
        self._store_id(number, topic.topic_id)
        return True

    def forget_topic(self, name: str) -> None:
        """Remove the partitions of a deleted topic from the table."""
        number = self._table.topic_number(name)
        if number >= 0:
            assert not self.form(name).nodes
            self.records.clear(number)
            self._remove(self._table.rows_of(name).tolist())

    def _assignments(self, name: str, order: Sequence[int] | None) -> dict[int, ReplicaAssignment]:
        table = self._table
        rows = table.rows_of(name)
        moving = set(table.reassigning()).intersection(rows.tolist())
        found = {}
        for row, partition, replicas in zip(
            rows.tolist(), table.partition[rows].tolist(), unpack(table.replicas[rows]), strict=True
        ):
            if row in moving:
                found[partition] = ReplicaAssignment(replicas, *table.moves_of(row))
            else:
                found[partition] = ReplicaAssignment(replicas)
        return found if order is None else {partition: found[partition] for partition in order}

    def _assign(self, name: str, topic: TopicZnode) -> bool:
        """Set the assignments of a topic in the table; return whether they are set.

        Nothing changes if the table cannot represent them, or if a removed partition still has stored znodes.
        """
        table = self._table
        if not _is_representable(topic, table.width):
            return False
        rows = table.rows_of(name)
        known = dict(zip(table.partition[rows].tolist(), rows.tolist(), strict=True))
        gone = [row for partition, row in known.items() if partition not in topic.partitions]
        if any(map(self._is_used, gone)):
            return False
        present = self._assignments(name, None)
        new = {partition: one.replicas for partition, one in topic.partitions.items() if partition not in known}
        if new:
            table.add(name, new)
        for partition, one in topic.partitions.items():
            if one != present.get(partition, ReplicaAssignment(one.replicas)):
                table.set_assignment(table.row(name, partition), one.replicas, one.adding, one.removing)
        self._remove(gone)
        return True

    def _remove(self, rows: Sequence[int]) -> None:
        for row in rows:
            self._forget_row(row)
        self._table.remove(rows)

    def _store_id(self, number: int, topic_id: str | None) -> None:
        assert len(topic_id or "") <= ID_LENGTH, "a longer id would be cut"
        present = len(self._ids)
        if number >= present:
            ids = np.zeros(max(number + 1, present + present // 4), dtype=self._ids.dtype)
            ids[:present] = self._ids
            self._ids = ids
        self._ids[number] = (topic_id or "").encode()

    # `partitions`

    def look_directory(self, name: str) -> Znode | None:
        """Return a copy of a topic's `partitions`; None if it is not stored."""
        number, numbers, form = self._both(name)
        held = form.directory
        if held is None:
            return None
        node = _restored(held.data, held.acl, held.aversion, numbers[NODE_WIDTH:CAPACITY])
        if numbers[CAPACITY]:
            explicit = self._numbers.get(number)
            node.children = NumberedNames(numbers[CAPACITY], range(numbers[COUNT]) if explicit is None else explicit)
        return node

    def take_directory(self, name: str) -> Znode | None:
        """Remove and return a topic's `partitions`; None if it is not stored."""
        node = self.look_directory(name)
        if node is not None:
            number, numbers, form = self._both(name)
            self._write(number, numbers, form, form._replace(directory=None))
            self._numbers.pop(number, None)
        return node

    def settle_directory(self, name: str, node: Znode) -> bool:
        """Store a topic's `partitions` if columns can represent it exactly; return whether it is stored."""
        number, numbers, form = self._both(name)
        assert form.directory is None
        children = None if node.children is None else _as_numbers(node.children)
        if (
            number < 0
            or not is_plain(node)
            or node.data not in NO_DATA
            or (children is None) != (node.children is None)
        ):
            return False
        capacity, count = (0, 0) if children is None else (children.capacity, len(children))
        if children is not None and isinstance(children.numbers, array):
            self._numbers[number] = children.numbers
        numbers = [*numbers[:NODE_WIDTH], *_numbers_of(node), capacity, count]
        held = DirectoryForm(node.acl, node.aversion, node.data)
        self._write(number, numbers, form, form._replace(directory=held))
        return True

    def data_size(self, prefix: str) -> int:
        """Return the total size of paths and data of all stored znodes; paths start with `prefix`."""
        topics, numbers = self._table.topics, self.records.rows()
        paths = np.array([*map(len, topics)], dtype=np.int64) + len(prefix)
        below = numbers[self.records.where(numbers, lambda form: form.directory is not None)]
        size = int(paths[below].sum()) + len(f"/{PARTITIONS}") * len(below)
        for codec, encode in enumerate(TOPIC_CODECS):
            held = numbers[self.records.where(numbers, lambda form, codec=codec: _codec(form) == codec)]  # type: ignore[misc]
            if len(held):
                size += int(paths[held].sum()) + self._text_bytes(held, encode)
        return size

    def _text_bytes(self, numbers: NDArray[np.integer], encode: Callable[[TopicZnode], bytes]) -> int:
        """Return the total data size of topics by number, without encoding them."""
        table = self._table
        chosen = np.zeros(len(table.topics) + 1, dtype=np.bool_)  # the last is that of free rows
        chosen[numbers] = True
        rows = ((table.partition[part], table.replicas_at(part)) for part in chunks(chosen[table.topic]))
        moves: dict[tuple[int, bool], dict[int, tuple[int, ...]]] = {}
        for row in table.reassigning():
            number = table.topic.item(row)
            for is_adding, brokers in zip((True, False), table.moves_of(row), strict=True):
                if chosen[number] and brokers:
                    moves.setdefault((number, is_adding), {})[table.partition.item(row)] = brokers
        ids = np.char.str_len(self._ids[numbers])
        return topic_bytes(encode, ids, rows, moves.values())

    def check(self) -> None:
        """Assert all invariants."""
        self.records.check()
        assert self.held == sum(form.nodes * topics for form, topics in self.records.forms())
        for number in self.records.rows().tolist():
            assert self._table.topics[number], "a stored znode belongs to a topic"
        for number in self._numbers:
            record = self.records.get(number)
            assert record is not None
            assert record[1].directory is not None


def _codec(form: BothForm) -> int | None:
    """Return the codec of a topic znode; None if it is not stored."""
    return None if form.topic is None else form.topic.codec


def _restored(data: bytes | None, acl: tuple[ACL, ...], aversion: int, numbers: Sequence[int]) -> Znode:
    node = new_znode(data, acl, aversion, numbers[CZXID], numbers[CTIME])
    node.mzxid, node.pzxid, node.mtime_ms = numbers[MZXID], numbers[PZXID], numbers[MTIME]
    node.version, node.cversion = numbers[VERSION], numbers[CVERSION]
    return node


def _numbers_of(node: Znode) -> list[int]:
    return [node.czxid, node.mzxid, node.pzxid, node.ctime_ms, node.mtime_ms, node.version, node.cversion]


def _as_numbers(children: HashOrderedSet) -> NumberedNames | None:
    """Return a set of children as numbers; None if it has other names."""
    if not isinstance(children, NumberedNames):
        return NumberedNames.of(children)
    return None if children.numbers is None else children


def _find_codec(topic: TopicZnode, data: bytes) -> tuple[int, tuple[int, ...] | None] | None:
    """Return codec and partition order (None if ascending) that encode a topic to its data; None if there are none."""
    partitions, topic_id = topic
    if topic_id is not None and not (topic_id.isascii() and "\0" not in topic_id and len(topic_id) <= ID_LENGTH):
        return None
    orders: list[tuple[int, ...] | None] = [None]
    if len(partitions) <= SMALL and list(partitions) != sorted(partitions):
        # Scala keeps insertion order in maps of up to four entries only.
        orders.append(tuple(partitions))
    for codec, encode in enumerate(TOPIC_CODECS):
        for order in orders:
            ordered = {partition: partitions[partition] for partition in order or sorted(partitions)}
            if encode(TopicZnode(ordered, topic_id)) == data:
                return codec, order
    return None


def _is_representable(topic: TopicZnode, width: int) -> bool:
    """Return whether a table of a width can represent the assignments of a topic."""
    assignments = topic.partitions.values()
    if not assignments or max(topic.partitions) > LARGEST:
        return False
    if not all(len(one.replicas) <= width and min(one.replicas, default=0) >= 0 for one in assignments):
        return False
    try:
        validate_replicas(pack([one.replicas for one in assignments]))
        for one in assignments:
            if one.being_reassigned:
                validate_moves(one.replicas, one.adding, one.removing)
    except LayoutError:
        return False
    return True
