"""One story in several clusters: topics as columns or as objects, requests in batches or one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

from simzk.errors import ConfigError
from simzk.jvm.hash_map import HashOrderedSet, NumberedNames
from simzk.kafka.cluster import cluster as cluster_module
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar import load_layout
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.zookeeper import requests as req
from simzk.zookeeper.driver import Link
from simzk.zookeeper.replies import ConnectResponse
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.server import Batch
from simzk.zookeeper.znode import CHILDREN_CAPACITY

if TYPE_CHECKING:
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.partitions.layouts import Layout
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.driver import Driver
    from simzk.zookeeper.replies import Outgoing, Reply
    from simzk.zookeeper.server import Server
    from simzk.zookeeper.transactions import Transaction
    from simzk.zookeeper.tree import DataTree

BROKERS = 5
LIMIT_SECONDS = 30
AT_ONCE = {"zookeeper.max.in.flight.requests": 1_000_000}
"""Constant, so that single requests arrive together as a batch does; otherwise the times would differ."""


def layout_of(partitions: int, seed: int = 1, brokers: int = BROKERS) -> Layout:
    topics = max(1, partitions // 8)
    return generate_layout(
        brokers_in_racks(brokers, 0), topics=topics, partitions=partitions, replication_factor=3, seed=seed
    )


class Kind(NamedTuple):
    """Storage of topics and form of requests of one cluster."""

    columns: bool
    batches: bool


BY_BATCHES, BY_SINGLE_REQUESTS, OBJECTS = ALL = Kind(True, True), Kind(True, False), Kind(False, False)


def load_as_objects(server: Server, layout: Layout, version: KafkaVersion, now_ms: int) -> None:
    """Load a layout as `load_layout` does, with every znode as an object and without a backing."""
    load_layout(server, layout, version, now_ms)
    hold_as_objects(server.tree)


def hold_as_objects(tree: DataTree) -> None:
    backed = tree._backed
    assert backed is not None
    for path, _ in list(tree.walk(paths.TOPICS))[1:]:
        node = backed[path]  # by index: it comes out
        if isinstance(node.children, NumberedNames):
            children = HashOrderedSet(CHILDREN_CAPACITY)
            for name in node.children.in_order_of_arrival():
                children.add(name)
            node.children = children
    assert not len(backed.backing)
    tree._nodes, tree._backed = dict(backed), None
    tree.find = tree.quotas.find = tree._nodes.get


def made(kind: Kind, layout: Layout, version: str, seed: int) -> KafkaCluster:
    loaded = load_layout if kind.columns else load_as_objects
    with mock.patch.object(cluster_module, "load_layout", loaded):
        cluster = KafkaCluster.from_layout(
            layout, version=version, seed=seed, config=AT_ONCE, sends_batches=kind.batches
        )
    assert (cluster.server.tree.backing is not None) == kind.columns
    return cluster


class NotingLink(Link):
    """Link of a client outside the cluster; records what it receives, with the session id."""

    def __init__(self, driver: Driver, said: list[tuple[int, Outgoing]]) -> None:
        super().__init__(driver, "127.0.0.1")
        self._said = said

    def transmit(self, outgoing: list[Outgoing]) -> None:
        for message in outgoing:
            if isinstance(message, ConnectResponse):
                self.session_id = message.session_id
            self._said.append((self.session_id, message))

    def end(self) -> None:
        """Do nothing, since no connection is open."""


class Arms:
    """One story in a cluster of each kind, with a client outside the cluster.

    Attributes:
        batches: the batches that came to each cluster's server.
        heard: the transactions that a subscribed observer received.
    """

    def __init__(
        self, layout: Layout, *, seed: int = 0, version: str = "3.9", kinds: tuple[Kind, ...] = (BY_BATCHES, OBJECTS)
    ) -> None:
        self.arms = [made(kind, layout, version, seed) for kind in kinds]
        self.batches = [noted_batches(arm) for arm in self.arms]
        self._said: list[list[tuple[int, Outgoing]]] = [[] for _ in self.arms]
        self.clients = []
        for arm, said in zip(self.arms, self._said, strict=True):
            link = NotingLink(arm.zookeeper_host, said)
            request = req.ConnectRequest(0, 0, 4_000_000, 0, None, False)
            self.clients.append(arm.server.connect(request, arm.now_ms, owner=link))
        self.heard: list[list[Transaction]] = [[] for _ in self.arms]
        self.compare()

    def play(self, step: str, broker: int, place: int, seconds: float | None = None) -> None:
        """Do one step, then let time pass: until the cluster is quiet, or some seconds."""
        done = [self._try(number, step, broker, place) for number in range(len(self.arms))]
        assert len(set(done)) == 1, "all can, or none"
        if seconds is None:
            quiet = [arm.run_until_quiet(LIMIT_SECONDS) for arm in self.arms]
            assert len(set(quiet)) == 1
        else:
            for arm in self.arms:
                arm.run_for(seconds)
        self.compare()

    def _try(self, number: int, step: str, broker: int, place: int) -> str:
        arm = self.arms[number]
        topics = sorted(arm.tree.get(paths.TOPICS).child_names())  # type: ignore[union-attr]
        topic = topics[place % len(topics)] if topics else "none"
        partitions = sorted(map(int, _children(arm, paths.partitions(topic))))
        partition = partitions[place // 7 % len(partitions)] if partitions else 0
        try:
            match step:
                case "kill" | "shutdown" | "expire" | "restart" | "resume" | "disconnect":
                    getattr(arm, step)(broker)
                case "pause":
                    arm.pause(broker, 30)
                case "cut":
                    arm.network.cut(f"broker {broker}", "zookeeper")
                case "cut off":
                    for other in arm.brokers:
                        if other != broker:
                            arm.network.cut(f"broker {broker}", f"broker {other}")
                case "heal":
                    arm.network.heal_all()
                case "elect":
                    arm.elect("preferred")
                case "elect uncleanly":
                    arm.elect("unclean")
                case "reassign":
                    arm.reassign({(topic, partition): [(broker + at) % BROKERS for at in range(1 + place % 4)]})
                case "cancel":
                    arm.reassign({(topic, partition): None})
                case "create":
                    arm.create_topic(f"made-{broker}", partitions=6, replication_factor=1 + place % 3)
                case "grow":
                    arm.add_partitions(topic, len(partitions) + 1 + place % 3)
                case "delete":
                    arm.delete_topic(topic)
                case "delay" | "drop_reply":
                    self._break(arm, step, paths.state(TopicPartition(topic, partition)))
                case "listen":
                    arm.server.on_transaction.append(self.heard[number].append)
                case _:
                    for request in requests_of(step, topic, partition, broker, place, arm):
                        arm.server.handle(self.clients[number], 1, request, arm.now_ms)
                    arm.pump()
        except ConfigError as refused:
            return str(refused)
        return ""

    @staticmethod
    def _break(arm: KafkaCluster, verb: str, path: str) -> None:
        """Add a fault rule for the next write of one state."""
        if verb == "delay":
            arm.zookeeper_faults.delay("transaction", path=path, seconds=0.3)
        else:
            arm.zookeeper_faults.drop_reply("transaction", path=path)

    def compare(self) -> None:
        """Assert that all clusters are equal in everything that clients can see."""
        first = self.arms[0]
        for number, arm in enumerate(self.arms[1:], start=1):
            assert self.heard[number] == self.heard[0], "who listens hears each transaction, of batches too"
            assert [tuple(event) for event in arm.history] == [tuple(event) for event in first.history]
            assert arm.server.zxid == first.server.zxid
            assert self._said[number] == self._said[0], "replies and events of the client that joined in"
            trees = zip(first.server.tree.walk(), arm.server.tree.walk(), strict=True)
            for (path, node), (expected_path, expected) in trees:
                assert (path, node.data, node.acl, node.stat()) == (
                    expected_path,
                    expected.data,
                    expected.acl,
                    expected.stat(),
                )
        for arm in self.arms:
            arm.check()


CLIENT_STEPS = (
    "watch",
    "watch all",
    "unwatch",
    "write",
    "write late",
    "write by condition",
    "write oddly",
    "write together",
    "lose the state",
    "lose the partition",
    "shut the state",
    "move by hand",
    "delete by hand",
    "make by hand",
    "read",
    "limit",
)
"""Steps of the outside client; "write what cannot be read" makes each new controller fail."""


def requests_of(
    step: str, topic: str, partition: int, broker: int, place: int, arm: KafkaCluster
) -> tuple[req.Request, ...]:
    """Return the requests of a client's step for the present tree."""
    name = TopicPartition(topic, partition)
    path, node = paths.state(name), arm.server.tree.get(paths.state(name))
    data = b"" if node is None else node.data
    version = -1 if node is None else node.version
    other = partition_state.encode(LeaderAndIsr(broker, place, (broker,), 1))
    match step:
        case "watch":
            return req.GetData(path, True), req.GetChildren2(paths.TOPICS, True), req.Exists(paths.topic(topic), True)
        case "watch all":
            return (req.AddWatch(paths.topic(topic) if place % 2 else paths.TOPICS, place // 2 % 2),)
        case "unwatch":
            return req.RemoveWatches(path, 3), req.RemoveWatches(paths.TOPICS, 5)
        case "write":
            return (req.SetData(path, data, -1),)
        case "write late":
            return (req.SetData(path, data, version + 1),)
        case "write by condition":
            return (req.SetData(path, other, version),)
        case "write oddly":
            return (req.SetData(path, (data or b"") + b" ", -1),)
        case "write what cannot be read":
            return (req.SetData(path, b'{"leader": %d}' % broker, -1),)
        case "write together":
            good = (req.Check(paths.topic(topic), -1), req.SetData(path, data, version))
            return (req.Multi((*good, req.Delete(paths.topic(topic), -1)) if place % 2 else good),)
        case "lose the state":
            return (req.Delete(path, -1),)
        case "lose the partition":
            return (req.Multi((req.Delete(path, -1), req.Delete(paths.partition(name), -1))),)
        case "shut the state":
            acl = (ACL(1, Id("world", "anyone")),) if place % 2 else OPEN_ACL
            return (req.SetACL(path, acl, -1),)
        case "move by hand":
            plan = b'{"version":1,"partitions":[{"topic":"%s","partition":%d,"replicas":[%d]}]}'
            text = plan % (topic.encode(), partition, broker)
            return (req.Create(paths.REASSIGN_PARTITIONS, text, OPEN_ACL, 0),)
        case "delete by hand":
            return (req.Create(f"{paths.DELETE_TOPICS}/{topic}", None, OPEN_ACL, 0),)
        case "make by hand":
            text = b'{"version":1,"partitions":{"0":[%d],"1":[%d,0]}}' % (broker, 1 + place % 4)
            return (req.Create(paths.topic(f"hand-{place % 3}"), text, OPEN_ACL, 0),)
        case "read":
            return req.MultiRead((req.GetData(path, False), req.GetChildren(paths.topic(topic), False))), req.Sync(path)
        case "limit":
            quota = f"/zookeeper/quota{paths.topic(topic)}"
            above = ("/zookeeper/quota/brokers", "/zookeeper/quota/brokers/topics", quota)
            limits = (("zookeeper_limits", b"count=9,bytes=900"), ("zookeeper_stats", b""))
            return (
                *[req.Create(at, b"", OPEN_ACL, 0) for at in above],
                *[req.Create(f"{quota}/{at}", text, OPEN_ACL, 0) for at, text in limits],
            )
    raise AssertionError(step)


def _children(arm: KafkaCluster, path: str) -> list[str]:
    node = arm.tree.get(path)
    return [] if node is None else node.child_names()


def noted_batches(arm: KafkaCluster) -> list[Batch]:
    """Return a list that collects the batches that a cluster's server gets from now on."""
    handle, batches = arm.server.handle, []

    def noted(
        connection: Connection, xid: int, request: req.Request | Batch, now_ms: int, at_once: bool = False
    ) -> Reply | None:
        if isinstance(request, Batch):
            batches.append(request)
        return handle(connection, xid, request, now_ms, at_once)

    arm.server.handle = noted  # type: ignore[method-assign]
    return batches
