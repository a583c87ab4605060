"""A kazoo client over TCP walks, watches and changes a cluster of a million partitions that lives, while brokers fail.

The brokers, their controller and the network between them are simulated, and time follows the wall; what the client
sees comes over a socket from the server of `simzk serve`. `SIMZK_WALK` says how many of the million states are read.
"""

from __future__ import annotations

import json
import os
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.serve.configuration.settings import Settings
from tests.kafka.zookeeper_mode.columnar.live_cluster import LiveCluster, Operator
from tests.serve.served import ServedCluster
from tests.waiting import PATIENCE_S, Reports, in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = pytest.mark.slow

BROKERS, TOPICS, PARTITIONS = 300, 10_000, 1_000_000
READ = int(os.environ.get("SIMZK_WALK", "3000"))
IN_FLIGHT = 500
CONTROLLER, NEXT_CONTROLLER = 0, 1
TICK_TIME_MS, SESSION_SECONDS = 20_000, 300.0
"""Session timeout in s: virtual time jumps until the cluster is quiet, and the session must outlive that."""


@pytest.fixture
def operator() -> Iterator[Operator]:
    layout = generate_layout(
        brokers_in_racks(BROKERS, 3), topics=TOPICS, partitions=PARTITIONS, replication_factor=3, seed=1
    )
    with KafkaCluster.from_layout(layout, tick_time_ms=TICK_TIME_MS) as cluster:
        assert cluster.controller == CONTROLLER
        world = LiveCluster(cluster)
        served = ServedCluster(Settings(), world)
        operator = Operator(world, served)
        yield operator
        served.stop()
        assert served.tcp.failure is None


@pytest.fixture
def client(operator: Operator) -> Iterator[KazooClient]:
    started = KazooClient(f"127.0.0.1:{operator.port}", timeout=SESSION_SECONDS)
    started.start(PATIENCE_S)
    yield started
    started.stop()
    started.close()


def pipelined(requests: Iterable[Any]) -> Iterator[Any]:
    """Return the results of kazoo's asynchronous calls, with many in flight."""
    under_way: deque[Any] = deque()
    for request in requests:
        under_way.append(request)
        if len(under_way) >= IN_FLIGHT:
            yield under_way.popleft().get(timeout=PATIENCE_S)
    while under_way:
        yield under_way.popleft().get(timeout=PATIENCE_S)


def state_of(answer: tuple[bytes, Any]) -> LeaderAndIsr:
    return partition_state.decode("", answer[0], answer[1].version)


def state(client: KazooClient, place: TopicPartition) -> LeaderAndIsr:
    return state_of(client.get(paths.state(place)))


def led_by(operator: Operator, broker: int, count: int) -> list[TopicPartition]:
    """Return some partitions that a broker leads."""
    return operator.do(
        lambda cluster: [
            TopicPartition(*cluster.table.name(row))
            for row in np.flatnonzero(cluster.table.leader == broker)[:count].tolist()
        ]
    )


def seen_alike(operator: Operator, client: KazooClient, places: Iterable[TopicPartition]) -> None:
    """Assert that the client reads the states of the cluster and of its controller."""
    for place in places:
        read = state(client, place)
        said, believed = operator.do(
            lambda cluster, place=place: (  # type: ignore[misc]
                cluster.state(*place),
                cluster.table.leader_and_isr(cluster.table.row(*place)),
            )
        )
        assert read == said == believed


@pytest.mark.timeout(1200)
def test_a_client_of_a_million_partitions(operator: Operator, client: KazooClient) -> None:
    walk_while_brokers_fail(operator, client)
    hear_of_a_failure(operator, client)
    write_on_condition(operator, client)
    see_the_controller_fail_over(operator, client)
    operate_by_znodes(operator, client)


def walk_while_brokers_fail(operator: Operator, client: KazooClient) -> None:
    topics = client.get_children(paths.TOPICS)
    assert len(topics) == client.exists(paths.TOPICS).children_count == TOPICS
    dying = range(100, 130, 3)  # of one rack, so that no partition loses two
    killed = in_thread(lambda: list(map(operator.kill, dying)))
    below = pipelined(client.get_children_async(paths.partitions(topic)) for topic in topics)
    places = [TopicPartition(topic, int(name)) for topic, names in zip(topics, below, strict=True) for name in names]
    assert len(places) == PARTITIONS
    chosen = [places[at] for at in np.linspace(0, PARTITIONS - 1, READ).astype(int).tolist()]
    before = [state_of(answer) for answer in pipelined(client.get_async(paths.state(place)) for place in chosen)]
    killed.result(PATIENCE_S)
    ids = Reports()
    client.ChildrenWatch(paths.BROKER_IDS, lambda names: ids(set(map(int, names))))
    ids.until(lambda alive: not alive & set(dying))
    assert operator.do(lambda cluster: cluster.run_until_quiet())
    after = [state_of(answer) for answer in pipelined(client.get_async(paths.state(place)) for place in chosen)]
    for old, new in zip(before, after, strict=True):
        assert old.leader in old.isr
        assert new.leader in new.isr
        assert not set(new.isr) & set(dying)
        assert new.version - old.version == new.leader_epoch - old.leader_epoch >= 0
    seen_alike(operator, client, chosen[::100])


def hear_of_a_failure(operator: Operator, client: KazooClient) -> None:
    failing = 7
    held = led_by(operator, failing, 40)
    others = [
        place
        for place in led_by(operator, 8, 200)
        if failing not in operator.do(lambda cluster, place=place: cluster.state(*place).isr)  # type: ignore[misc]
    ]
    before = {place: state(client, place) for place in held}
    epoch = int(client.get(paths.CONTROLLER_EPOCH)[0])
    events = Reports()
    for place in (*held, *others):
        client.get(paths.state(place), watch=events)
    client.get_children(paths.BROKER_IDS, watch=events)
    client.exists(paths.broker(failing), watch=events)
    operator.kill(failing)
    reported = [events.next() for _ in range(len(held) + 2)]
    expected = {paths.state(place): "CHANGED" for place in held}
    expected |= {paths.BROKER_IDS: "CHILD", paths.broker(failing): "DELETED"}
    assert {event.path: event.type for event in reported} == expected
    for place in held:
        old, new = before[place], state(client, place)
        left = tuple(broker for broker in old.isr if broker != failing)
        assert new == LeaderAndIsr(left[0], old.leader_epoch + 1, left, epoch, old.version + 1)
    assert operator.do(lambda cluster: cluster.run_until_quiet())
    client.sync("/")
    assert events.empty, "no other client received an event"
    seen_alike(operator, client, held)


def see_the_controller_fail_over(operator: Operator, client: KazooClient) -> None:
    ruling = json.loads(client.get(paths.CONTROLLER)[0])["brokerid"]
    epoch = int(client.get(paths.CONTROLLER_EPOCH)[0])
    operator.do(lambda cluster: cluster.prefer_controller(NEXT_CONTROLLER))
    held = led_by(operator, ruling, 20)
    controllers = Reports()
    client.DataWatch(paths.CONTROLLER, lambda data, _: controllers(None if data is None else json.loads(data)))
    operator.kill(ruling)
    controllers.until(lambda found: found is not None and found["brokerid"] == NEXT_CONTROLLER)
    assert operator.do(lambda cluster: cluster.run_until_quiet())
    assert int(client.get(paths.CONTROLLER_EPOCH)[0]) == epoch + 1
    for place in held:
        now = state(client, place)
        assert now.leader in now.isr
        assert ruling not in now.isr
        assert now.controller_epoch == epoch + 1
    seen_alike(operator, client, held)


def write_on_condition(operator: Operator, client: KazooClient) -> None:
    """Write a state conditionally; the controller reads it again on a version conflict, and writes."""
    failing = 20
    (place,) = led_by(operator, failing, 1)
    path = paths.state(place)
    data, stat = client.get(path)
    with pytest.raises(BadVersionError):
        client.set(path, data, version=stat.version + 1)
    changed = client.set(path, data, version=stat.version)
    assert (changed.version, changed.czxid, changed.dataLength) == (stat.version + 1, stat.czxid, len(data))
    with pytest.raises(BadVersionError):
        client.set(path, data, version=stat.version)
    changes = Reports()
    client.get(path, watch=changes)
    operator.kill(failing)
    assert changes.next().type == "CHANGED"
    assert operator.do(lambda cluster: cluster.run_until_quiet())
    now = state(client, place)
    assert failing not in now.isr
    assert now.leader in now.isr
    assert now.version > changed.version
    seen_alike(operator, client, [place])


def operate_by_znodes(operator: Operator, client: KazooClient) -> None:
    """Reassign a partition, create and delete a topic, as an operator's tools do."""
    (place,) = led_by(operator, 30, 1)
    target = [broker for broker in (40, 41, 42, 43) if broker not in state(client, place).isr][:3]
    plan = {"version": 1, "partitions": [{"topic": place.topic, "partition": place.partition, "replicas": target}]}
    asked = Reports()
    client.create(paths.REASSIGN_PARTITIONS, json.dumps(plan).encode())
    client.DataWatch(paths.REASSIGN_PARTITIONS, lambda data, _: asked(data))
    asked.until(lambda data: data is None)
    assert operator.do(lambda cluster: cluster.run_until_quiet())
    topic = json.loads(client.get(paths.topic(place.topic))[0])
    assert topic["partitions"][str(place.partition)] == target
    assert not topic["adding_replicas"]
    assert sorted(state(client, place).isr) == sorted(target)
    assert state(client, place).leader == target[0]

    made = TopicPartition("made-by-hand", 1)
    states = Reports()
    client.exists(paths.state(made), watch=states)
    client.create(paths.topic(made.topic), b'{"version":1,"partitions":{"0":[50,51],"1":[52,53]}}')
    assert states.next().type == "CREATED"
    assert (state(client, made).leader, state(client, made).isr) == (52, (52, 53))
    seen_alike(operator, client, [place, made])

    gone = TopicPartition("topic-5", 0)
    holder = state(client, gone).isr[-1]
    operator.kill(holder)
    left = Reports()
    client.DataWatch(paths.topic(gone.topic), lambda data, _: left(data))
    client.create(f"{paths.DELETE_TOPICS}/{gone.topic}")
    assert operator.do(lambda cluster: cluster.run_until_quiet())
    assert gone.topic in client.get_children(paths.TOPICS), "it waits for brokers that are dead"
    for broker in operator.do(lambda cluster: sorted(cluster.brokers.keys() - set(cluster.live_brokers))):
        operator.do(lambda cluster, broker=broker: cluster.restart(broker))  # type: ignore[misc]
    left.until(lambda data: data is None)
    assert operator.do(lambda cluster: cluster.run_until_quiet())
    assert client.get_children(paths.DELETE_TOPICS) == []
    names = client.get_children(paths.TOPICS)
    assert gone.topic not in names
    assert made.topic in names


def test_one_thread_at_a_time_is_in_a_served_cluster() -> None:
    """A cluster in virtual time has no lock; served on TCP, it has one."""
    with KafkaCluster(brokers=1) as cluster:
        served = ServedCluster(Settings(), LiveCluster(cluster))
        assert cluster.zookeeper_host.rules.lock is served.tcp.driver.lock
        lock: Any = served.tcp.driver.lock
        with lock:
            assert not in_thread(lambda: lock.acquire(blocking=False)).result(PATIENCE_S)
        served.stop()
