"""Layouts as znodes: `/brokers/topics` of any number of partitions, with all columns filled at once.

Rules of this module:
  - the znodes are those that Kafka writes if it creates the topics one after another: the topic, `partitions`, each
    partition and each state, in a transaction each. Partitions with a leader epoch above 0 are then written once more;
  - a partition with an empty ISR has not been started, and has no znodes.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from simzk.jvm.hash_map import capacity_for
from simzk.kafka.releases.cluster_releases import local_registration
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar.backing import ColumnarTopics
from simzk.kafka.zookeeper_mode.columnar.partition_columns import STATE_CODECS, PartitionForm, RowForm, StateForm
from simzk.kafka.zookeeper_mode.columnar.topic_columns import TOPIC_CODECS, BothForm, DirectoryForm, TopicForm
from simzk.kafka.zookeeper_mode.schemas import config
from simzk.kafka.zookeeper_mode.schemas.cluster import uuid_text
from simzk.partitions.arrays import NONE
from simzk.partitions.reassignment import Assignment
from simzk.partitions.states import States
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.transactions import CreateTxn, Transaction
from simzk.zookeeper.znode import CHILDREN_CAPACITY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.partitions.layouts import Layout
    from simzk.zookeeper.server import Server

BASE_PORT = 9092
CONTROLLER_EPOCH = 1
_CHUNK = 1 << 18
_GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835

_ROW = RowForm(PartitionForm(OPEN_ACL, 0, None, 1, True), StateForm(OPEN_ACL, 0, 0))


def load_layout(server: Server, layout: Layout, version: KafkaVersion, now_ms: int) -> ColumnarTopics:
    """Create all topics of a layout on a server at once, with the zxids of one transaction per znode.

    Args:
        server: a server without topics and without observers of transactions, which would not be called.
        layout: a valid layout.
        version: the release that writes the znodes; not 0.8.0, and 2.4 or later if a partition is being reassigned.
        now_ms: creation time of all znodes.

    Returns:
        The backing that stores them.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> from simzk.zookeeper.server import Server
    >>> layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=2, replication_factor=1, seed=1)
    >>> server = Server()
    >>> topics = load_layout(server, layout, kafka_version("2.7"), now_ms=0)
    >>> server.tree.get("/brokers/topics/topic-0/partitions/1/state").data
    b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    """
    assert not server.on_transaction
    assert version.controller.reassigns_in_topic_znode or not len(layout.reassigning)
    assert _ROW.state is not None
    assert STATE_CODECS[_ROW.state.codec] is version.znodes.encode_state
    for path in (paths.BROKER_IDS, paths.TOPICS):
        ensure(server, path, now_ms)
    topics = ColumnarTopics(max(layout.replicas.shape[1], layout.isr.shape[1]))
    zxids = _CreationZxids(layout, server.zxid)
    _fill_rows(topics, layout, zxids, now_ms)
    _fill_topics(topics, layout, zxids, version, now_ms)
    parent = server.tree.get(paths.TOPICS)
    assert parent is not None
    assert not parent.child_count
    for name in layout.topics:
        parent.add_child(name)
    parent.cversion += len(layout.topics)
    parent.pzxid = int(zxids.topic_zxid[-1]) if layout.topics else parent.pzxid
    server.zxid = zxids.last_zxid
    server.tree.mount(topics)
    return topics


def describe_brokers(server: Server, layout: Layout, version: KafkaVersion, now_ms: int) -> None:
    """Register the live brokers of a layout and configure its topics, for clients that read a cluster's znodes.

    No process has sessions for these brokers, so that their registrations are not ephemeral.
    """
    for path in (paths.BROKER_IDS, f"{paths.CONFIG}/topics"):
        ensure(server, path, now_ms)
    brokers = layout.brokers
    for broker, rack, live in zip(brokers.ids.tolist(), brokers.racks, brokers.live.tolist(), strict=True):
        if live:
            registration = local_registration(BASE_PORT + broker, rack)._replace(timestamp_ms=now_ms)
            ensure(server, paths.broker(broker), now_ms, version.znodes.encode_broker(registration))
    configure_topics(server, layout, now_ms)


def configure_topics(server: Server, layout: Layout, now_ms: int) -> None:
    """Create the configuration of each topic with another `min.insync.replicas` than 1."""
    numbers, firsts = np.unique(layout.topic, return_index=True)
    for number, least in zip(numbers.tolist(), layout.min_insync_replicas[firsts].tolist(), strict=True):
        if least != 1:
            values = config.encode({config.MIN_INSYNC_REPLICAS: str(least)})
            ensure(server, paths.config(f"topics/{layout.topics[number]}"), now_ms, values)


def ensure(server: Server, path: str, now_ms: int, data: bytes | None = None, session: int = 0) -> int:
    """Create a znode and its parents where they are missing, one transaction each; return the znode's czxid.

    A znode with a session is ephemeral.
    """
    node = server.tree.get(path)
    if node is None:
        ensure(server, paths.parent(path), now_ms)
        parent = server.tree.get(paths.parent(path))
        assert parent is not None
        record = CreateTxn(path, data, OPEN_ACL, session != 0, parent.cversion + 1)
        server.apply(Transaction(session, 0, server.zxid + 1, now_ms, record))
        node = server.tree.get(path)
    assert node is not None
    assert 0 <= node.czxid <= server.zxid, "a znode is as old as a transaction"
    return node.czxid


class _CreationZxids:
    """Zxids of the transactions that would create a layout."""

    def __init__(self, layout: Layout, before: int) -> None:
        count = len(layout.topics)
        order = np.lexsort((layout.partition, layout.topic))
        started = layout.isr[order, 0] != NONE
        topic = layout.topic[order]
        self.started = np.bincount(topic[started], minlength=count).astype(np.int64)
        """Number of partitions with znodes, by topic."""
        first = np.cumsum(2 + 2 * self.started) - (2 + 2 * self.started)
        self.topic_zxid: NDArray[np.int64] = before + 1 + first
        rank = np.cumsum(started) - started
        place = rank - (np.cumsum(self.started) - self.started)[topic]
        partition_zxid = self.topic_zxid[topic] + 2 + place
        self.partition_zxid = np.empty(len(layout), dtype=np.int64)
        self.partition_zxid[order] = partition_zxid
        self.state_zxid = self.partition_zxid + self.started[layout.topic]
        last = before + int((2 + 2 * self.started).sum())
        changed = (layout.leader_epoch > 0) & (layout.isr[:, 0] != NONE)
        self.mzxid = np.where(changed, last + np.cumsum(changed), self.state_zxid)
        self.last_zxid = last + int(changed.sum())
        assert self.mzxid[layout.isr[:, 0] != NONE].max(initial=before) <= self.last_zxid


def _fill_rows(topics: ColumnarTopics, layout: Layout, zxids: _CreationZxids, now_ms: int) -> None:
    started = layout.isr[:, 0] != NONE
    states = States(
        leader=layout.leader,
        leader_epoch=layout.leader_epoch,
        isr=layout.isr,
        controller_epoch=np.full(len(layout), CONTROLLER_EPOCH, dtype=np.int32) * started,
        version=np.where(started, layout.leader_epoch, np.int32(-1)).astype(np.int32),
        recovering=np.zeros(len(layout), dtype=np.bool_),
    )
    rows = topics.table.extend(layout.topics, layout.topic, layout.partition, layout.replicas, states)
    assert rows.tolist()[:1] in ([], [0]), "the table is new"
    moving = layout.reassigning
    if len(moving):
        lists = layout.replicas[moving], layout.adding[moving], layout.removing[moving]
        topics.table.assign(rows[moving], Assignment(*lists))
    topics.partitions.records.reserve(len(layout))
    for begin in range(0, len(layout), _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        times = np.full(len(layout.topic[chunk]), now_ms)
        numbers = (zxids.partition_zxid[chunk], times, zxids.state_zxid[chunk], zxids.mzxid[chunk], times, times)
        topics.partitions.fill(begin, np.stack(numbers, axis=1), started[chunk], _ROW)


def _fill_topics(
    topics: ColumnarTopics, layout: Layout, zxids: _CreationZxids, version: KafkaVersion, now_ms: int
) -> None:
    codec = TOPIC_CODECS.index(version.znodes.encode_topic)
    form = BothForm(TopicForm(OPEN_ACL, 0, codec, True, None), DirectoryForm(OPEN_ACL, 0, None))
    count = len(layout.topics)
    assert len(zxids.topic_zxid) == len(zxids.started) == count, "each topic has a zxid"
    zxid, zeros, times = zxids.topic_zxid, np.zeros(count, dtype=np.int64), np.full(count, now_ms)
    capacities = np.array([capacity_for(size, CHILDREN_CAPACITY) for size in zxids.started.tolist()], dtype=np.int64)
    capacities[zxids.started == 0] = 0
    own = (zxid, zxid, zxid + 1, times, times, zeros, zeros + 1)
    directory = (zxid + 1, zxid + 1, zxid + 1 + zxids.started, times, times, zeros, zxids.started)
    ids = [uuid_text((number + 1) * _GOLDEN) if version.znodes.has_topic_ids else None for number in range(count)]
    topics.topics.fill(np.stack((*own, *directory, capacities, zxids.started), axis=1), form, ids)
    # Topics with started partitions other than 0, 1, 2 and so on.
    highest = np.full(count, -1, dtype=np.int64)
    started = layout.isr[:, 0] != NONE
    np.maximum.at(highest, layout.topic[started], layout.partition[started])
    for number in np.flatnonzero(highest + 1 != zxids.started).tolist():
        mine = np.sort(layout.partition[started & (layout.topic == number)])
        topics.topics.name_partitions(number, array("i", mine.tolist()))
