"""A kazoo client, in memory and over TCP, reads, watches and changes a million partitions while brokers fail."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kazoo.exceptions import BadVersionError, NodeExistsError, NotEmptyError

import simzk
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar import load_layout
from simzk.kafka.zookeeper_mode.columnar.batches import WriteStates
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.partitions.arrays import broker_mask
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from tests.partitions.operations import fail_brokers
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kazoo.client import KazooClient
    from kazoo.protocol.states import WatchedEvent

    from simzk.partitions.layouts import Layout
    from simzk.partitions.table import PartitionTable
    from simzk.serve.verbs import TestServer

pytestmark = pytest.mark.slow

BROKERS, TOPICS, PARTITIONS = 300, 10_000, 1_000_000
NOW_MS = 0  # time stands still


@cache
def layout() -> Layout:
    return generate_layout(
        brokers_in_racks(BROKERS, 3), topics=TOPICS, partitions=PARTITIONS, replication_factor=3, seed=1
    )


class Cluster:
    """Registered brokers with a session each, and a controller that elects leaders when one fails."""

    def __init__(self, zookeeper: TestServer) -> None:
        self._zookeeper = zookeeper
        self.dead: set[int] = set()
        with zookeeper.lock:
            server = zookeeper.server
            # The recorder of requests sees no transactions of the layout.
            server.on_transaction.clear()
            self.topics = load_layout(server, layout(), kafka_version("3.9"), NOW_MS)
            self._sessions = {}
            for broker in range(BROKERS):
                registered = server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), NOW_MS)
                server.handle(registered, 1, req.Create(paths.broker(broker), b"{}", OPEN_ACL, 1), NOW_MS)
                self._sessions[broker] = registered
            self._controller = self._sessions[0]
            server.handle(self._controller, 2, req.Create(paths.CONTROLLER_EPOCH, b"1", OPEN_ACL, 0), NOW_MS)

    def fail(self, broker: int) -> int:
        """Expire a broker's session, elect leaders, and return the number of states written."""
        with self._zookeeper.lock:
            server = self._zookeeper.server
            server.expire(self._sessions[broker].session_id, NOW_MS)
            live = broker_mask(other for other in range(BROKERS) if other not in self.dead | {broker})
            failure = fail_brokers(self.topics.table, [broker], live, controller_epoch=1)
            partitions = self.topics.table.partitions(failure.rows)
            written = failure.after._replace(version=failure.before.version)
            self._controller.outgoing.clear()
            server.handle(self._controller, 3, WriteStates(partitions, written, 0), NOW_MS)
            assert not self._controller.outgoing.pop().body.any()  # type: ignore[union-attr]
            self.dead.add(broker)
        self._zookeeper.advance(0)  # sends the events
        return len(failure.rows)


@pytest.fixture(params=["memory", "tcp"])
def zookeeper(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    with simzk.ZooKeeper() if request.param == "memory" else simzk.ZooKeeperServer() as made:
        yield made


@pytest.fixture
def cluster(zookeeper: TestServer) -> Cluster:
    return Cluster(zookeeper)


@pytest.fixture
def client(zookeeper: TestServer, cluster: Cluster) -> Iterator[KazooClient]:
    started = zookeeper.client(timeout=40.0)
    started.start(PATIENCE_S)
    yield started
    started.stop()


def state_at(client: KazooClient, path: str) -> LeaderAndIsr:
    data, stat = client.get(path)
    return partition_state.decode(path, data, stat.version)


def test_a_client_among_a_million_partitions(zookeeper: TestServer, cluster: Cluster, client: KazooClient) -> None:
    table = cluster.topics.table
    assert sorted(client.get_children(paths.TOPICS)) == sorted(layout().topics)
    assert client.exists(paths.TOPICS).children_count == TOPICS
    failed = 5
    untouched = [row for row in range(PARTITIONS - 100, PARTITIONS) if failed not in table.replicas_of(row)]
    name = layout().topics[4711]
    walk(table, client, name)
    watch(cluster, client, failed, untouched)
    change(table, client, untouched[0])
    make_and_remove(client, name, TopicPartition(*table.name(untouched[0])))


def walk(table: PartitionTable, client: KazooClient, name: str) -> None:
    """Assert that every znode of a topic matches the layout."""
    rows = table.rows_of(name)
    assigned = topic_schema.decode(paths.topic(name), client.get(paths.topic(name))[0]).partitions
    numbers = sorted(map(int, client.get_children(paths.partitions(name))))
    assert numbers == table.partition[rows].tolist() == sorted(assigned)
    for row, number in zip(rows.tolist(), numbers, strict=True):
        place = TopicPartition(name, number)
        assert client.get_children(paths.partition(place)) == ["state"]
        assert state_at(client, paths.state(place)) == table.leader_and_isr(row)
        assert assigned[number].replicas == table.replicas_of(row)


def watch(cluster: Cluster, client: KazooClient, failed: int, others: list[int]) -> None:
    """Fail a broker, and assert that each watcher of its partitions is notified once and no other."""
    table = cluster.topics.table
    held = table.rows_with_replica(failed)[:40].tolist()
    events: list[WatchedEvent] = []
    reported = threading.Semaphore(0)

    def note(event: WatchedEvent) -> None:
        events.append(event)
        reported.release()

    for row in (*held, *others):
        client.get(paths.state(TopicPartition(*table.name(row))), watch=note)
    client.get_children(paths.BROKER_IDS, watch=note)
    client.exists(paths.broker(failed), watch=note)
    before = {row: table.leader_and_isr(row) for row in held}
    assert cluster.fail(failed) > PARTITIONS // BROKERS
    for _ in range(len(held) + 2):
        assert reported.acquire(timeout=PATIENCE_S)
    client.sync("/")
    expected = {paths.state(TopicPartition(*table.name(row))): "CHANGED" for row in held}
    expected |= {paths.BROKER_IDS: "CHILD", paths.broker(failed): "DELETED"}
    assert {event.path: event.type for event in events} == expected
    assert len(events) == len(expected)
    for row in held:
        old, new = before[row], state_at(client, paths.state(TopicPartition(*table.name(row))))
        assert old is not None
        assert new.isr == tuple(broker for broker in old.isr if broker != failed)
        assert new.leader == (new.isr[0] if old.leader == failed else old.leader)
        assert (new.leader_epoch, new.version) == (old.leader_epoch + 1, old.version + 1)


def change(table: PartitionTable, client: KazooClient, row: int) -> None:
    """Write a state as a client: conditionally, in a multi that fails, and in another form than Kafka's."""
    path = paths.state(TopicPartition(*table.name(row)))
    data, stat = client.get(path)
    changed = partition_state.encode(LeaderAndIsr(-1, 9, (1,), 2))
    with pytest.raises(BadVersionError):
        client.set(path, changed, version=stat.version + 1)
    transaction = client.transaction()
    transaction.set_data(path, changed)
    transaction.create(path, b"")
    assert isinstance(transaction.commit()[1], NodeExistsError)
    assert client.get(path) == (data, stat)
    after = client.set(path, changed, version=stat.version)
    assert (after.version, after.czxid, after.dataLength) == (stat.version + 1, stat.czxid, len(changed))
    assert table.leader_and_isr(row) == LeaderAndIsr(-1, 9, (1,), 2, stat.version + 1)
    client.set(path, b"by hand")
    assert client.get(path)[0] == b"by hand"
    client.set(path, changed)
    assert table.leader_and_isr(row) == LeaderAndIsr(-1, 9, (1,), 2, stat.version + 3)


def make_and_remove(client: KazooClient, name: str, place: TopicPartition) -> None:
    """Create a partition of one topic and delete one of another as a client."""
    with pytest.raises(NotEmptyError):
        client.delete(paths.partition(place))
    client.create(paths.partition(TopicPartition(name, 100)), b"")
    assert client.exists(paths.partitions(name)).cversion == 101
    client.delete(paths.state(place))
    client.delete(paths.partition(place))
    assert str(place.partition) not in client.get_children(paths.partitions(place.topic))


def test_a_client_walks_while_brokers_fail(cluster: Cluster, client: KazooClient) -> None:
    table = cluster.topics.table
    failures = threading.Thread(target=lambda: [cluster.fail(broker) for broker in range(10, 20)])
    picked = np.linspace(0, PARTITIONS - 1, 300).astype(int).tolist()
    names = [TopicPartition(*table.name(row)) for row in picked]
    failures.start()
    seen: dict[TopicPartition, LeaderAndIsr] = {}
    walks = 0
    while failures.is_alive() or not walks:
        for place in names:
            dead = set(cluster.dead)
            state = state_at(client, paths.state(place))
            assert state.leader in state.isr
            assert not dead & set(state.isr)
            earlier = seen.get(place, state)
            assert state.leader_epoch - earlier.leader_epoch == state.version - earlier.version >= 0
            seen[place] = state
        walks += 1
    failures.join()
    for row, place in zip(picked, names, strict=True):
        assert state_at(client, paths.state(place)) == table.leader_and_isr(row)
