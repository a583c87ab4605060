"""`/brokers/topics` of a DataTree stored as columns of a partition table.

Rules of this module:
  - stored are the znodes of topics, of their `partitions`, of each partition and of its `state`; any other znode below
    `/brokers/topics` stays an object;
  - a partition's znodes are stored only while its topic's assignment, which creates the row, is in the table;
  - only this backing changes the table, when clients write znodes (`simzk.zookeeper.tree`).

A partition's two znodes take 26 bytes besides the table's columns, which `python -m benchmarks.columns` measures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.jvm.hash_map import number_of
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar.partition_columns import STATE, PartitionColumns
from simzk.kafka.zookeeper_mode.columnar.topic_columns import PARTITIONS, TopicColumns
from simzk.partitions.table import PartitionTable

if TYPE_CHECKING:
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.zookeeper.znode import Znode

PREFIX = f"{paths.TOPICS}/"
_LONGEST = 4


class ColumnarTopics:
    """Backing of `/brokers/topics` (`simzk.zookeeper.tree.Backing`).

    Args:
        width: length of the replica and ISR columns of each row. A topic with longer lists stays an object: the width
            never grows, because it would grow in all rows.

    >>> from simzk.zookeeper.requests import OPEN_ACL
    >>> from simzk.zookeeper.tree import DataTree
    >>> from simzk.zookeeper.znode import Znode
    >>> tree, backing = DataTree(), ColumnarTopics()
    >>> for path, data in (
    ...     ("/brokers", b""), ("/brokers/topics", b""),
    ...     ("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2]}}'),
    ... ):
    ...     tree.plant(path, Znode(data, OPEN_ACL, 0, 7, 5))
    >>> tree.mount(backing)
    >>> backing.table.replicas.tolist(), len(backing), tree.get("/brokers/topics/t").data
    ([[1, 2, -1]], 1, b'{"version":1,"partitions":{"0":[1,2]}}')
    """

    prefix = PREFIX

    def __init__(self, width: int = 3) -> None:
        self.table = PartitionTable(width)
        self.partitions = PartitionColumns(self.table)
        self.topics = TopicColumns(
            self.table, lambda row: self.partitions.form(row).nodes > 0, self.partitions.forget_row
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, and of the table's index if it is built."""
        return self.table.nbytes + self.partitions.records.nbytes + self.topics.nbytes

    def are_plain(self, rows: IntArray) -> BoolArray:
        """Return which rows can be read and written as columns: bool[k]; False for -1, which is no row."""
        assert rows.ndim == 1
        known = rows >= 0
        if known.all():
            return self.partitions.are_plain(rows)
        plain: BoolArray = np.zeros(len(rows), dtype=np.bool_)
        plain[known] = self.partitions.are_plain(rows[known])
        return plain

    def __len__(self) -> int:
        return self.topics.held + self.partitions.held

    def _parts(self, path: str) -> list[str]:
        """Return the names below the prefix; none for a path that is never stored as columns."""
        parts = path[len(PREFIX) :].split("/")
        if len(parts) > _LONGEST or (len(parts) > 1 and parts[1] != PARTITIONS) or parts[3:] not in ([], [STATE]):
            return []
        return parts

    def _row(self, topic: str, name: str) -> int | None:
        partition = number_of(name)
        return None if partition is None else self.table.find(topic, partition)

    def holds(self, path: str) -> bool:
        match self._parts(path):
            case [topic]:
                return self.topics.form(topic).topic is not None
            case [topic, _]:
                return self.topics.form(topic).directory is not None
            case [topic, _, name, *below]:
                row = self._row(topic, name)
                if row is not None:
                    form = self.partitions.form(row)
                    return (form.state if below else form.partition) is not None
        return False

    def look(self, path: str) -> Znode | None:
        match self._parts(path):
            case [topic]:
                return self.topics.look_topic(topic)
            case [topic, _]:
                return self.topics.look_directory(topic)
            case [topic, _, name, *below]:
                row = self._row(topic, name)
                if row is not None:
                    return self.partitions.look_state(row) if below else self.partitions.look_partition(row)
        return None

    def take(self, path: str) -> Znode | None:
        match self._parts(path):
            case [topic]:
                return self.topics.take_topic(topic)
            case [topic, _]:
                return self.topics.take_directory(topic)
            case [topic, _, name, *below]:
                row = self._row(topic, name)
                if row is not None:
                    return self.partitions.take_state(row) if below else self.partitions.take_partition(row)
        return None

    def settle(self, path: str, node: Znode) -> bool:
        match self._parts(path):
            case [topic]:
                return self.topics.settle_topic(path, topic, node)
            case [topic, _]:
                return self.topics.settle_directory(topic, node)
            case [topic, _, name, *below]:
                row = self._row(topic, name)
                if row is not None and below:
                    return self.partitions.settle_state(row, path, node)
                if row is not None:
                    return self.partitions.settle_partition(row, node)
        return False

    def forget(self, path: str) -> None:
        match self._parts(path):
            case [topic]:
                self.topics.forget_topic(topic)
            case [topic, _, name, _]:
                row = self._row(topic, name)
                if row is not None:
                    self.partitions.forget_state(row)

    def count_below(self, path: str) -> int:
        if PREFIX.startswith(f"{path}/"):
            return len(self)
        match self._parts(path) if path.startswith(PREFIX) else []:
            case [topic]:
                return self.topics.form(topic).nodes - self.holds(path) + self._stored_nodes_of(topic)
            case [topic, _]:
                return self._stored_nodes_of(topic)
            case [_, _, _]:
                return int(self.holds(f"{path}/{STATE}"))
        return 0

    def data_size(self) -> int:
        return self.topics.data_size(PREFIX) + self.partitions.data_size(PREFIX)

    def _stored_nodes_of(self, topic: str) -> int:
        rows = self.table.rows_of(topic)
        return sum(form.nodes * count for form, count in self.partitions.records.forms(rows))

    def check(self) -> None:
        """Assert every invariant."""
        self.table.check()
        self.topics.check()
        self.partitions.check()
