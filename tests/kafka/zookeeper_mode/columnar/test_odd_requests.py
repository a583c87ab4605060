"""Unusual requests in a table: topics as columns give the same replies, trees and watch events as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.observation.observer import Observer
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment
from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics
from simzk.kafka.zookeeper_mode.schemas.partition_state import encode, encode_spaced
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode, encode_v1, encode_v3
from simzk.simulation import History, Scheduler
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.persistence import TreeDigest, encode_snapshot
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.server import Server
from tests.kafka.zookeeper_mode.columnar.requests import TOPICS_PATH
from tests.kafka.zookeeper_mode.columnar.test_backing import TOPIC_OF_FOUR

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.client import KazooClient

    from simzk.zookeeper.connection import Connection

pytestmark = pytest.mark.slow

T = f"{TOPICS_PATH}/t"
DIRECTORY = f"{T}/partitions"
P, STATE = f"{DIRECTORY}/0", f"{DIRECTORY}/0/state"
PATHS = [one.path for one in TOPIC_OF_FOUR if one.path is not None]
"""Paths of all znodes of the topic, parents first."""
EPHEMERAL, SEQUENTIAL, CONTAINER, TTL, SEQUENTIAL_TTL = 1, 2, 4, 5, 6
LIMIT = 0xFFFFF
CONFIG = ServerConfig(tick_time_ms=500, extended_types=True, container_check_interval_ms=3_000)
NEXT = encode(LeaderAndIsr(2, 1, (2,), 1))
READ_ONLY = (ACL(1, Id("world", "anyone")),)
NOBODY = (ACL(31, Id("ip", "10.0.0.1")),)
ANN = (ACL(31, Id("digest", "ann:X9rDoVFVBbOPFGcwvd2TzHkT5qA=")),)
ADMIN_ONLY = (ACL(16, Id("world", "anyone")),)


def get(path: str) -> req.GetData:
    return req.GetData(path, True)


def put(path: str, data: bytes | None, version: int = -1) -> req.SetData:
    return req.SetData(path, data, version)


def make(path: str, data: bytes | None = None, flags: int = 0, acl: tuple[ACL, ...] = OPEN_ACL) -> req.Create2:
    return req.Create2(path, data, acl, flags)


def remove(path: str, version: int = -1) -> req.Delete:
    return req.Delete(path, version)


def topic(*partitions: int, replicas: tuple[int, ...] = (1, 2), **more: tuple[int, ...]) -> TopicZnode:
    return TopicZnode(dict.fromkeys(partitions, ReplicaAssignment(replicas, **more)))


ODD: dict[str, tuple[req.Request, ...]] = {
    # Versions
    "a version too high": (put(STATE, NEXT, 1),),
    "a version too low": (put(STATE, NEXT), put(STATE, NEXT, 0)),
    "the right version twice": (put(STATE, NEXT, 0), put(STATE, NEXT, 0)),
    "a version below any": (put(STATE, NEXT, -2),),
    "the greatest version": (put(STATE, NEXT, 2**31 - 1),),
    "a check of each kind of node": tuple(req.Multi((req.Check(path, 0),)) for path in (T, DIRECTORY, P, STATE)),
    "a check that fails": (req.Multi((req.Check(STATE, 3), put(STATE, NEXT))),),
    "a delete at another version": (remove(STATE, 7), remove(STATE, 0)),
    "the same text again": (put(STATE, encode(LeaderAndIsr(1, 0, (1, 2), 1))), put(T, TOPIC_OF_FOUR[0].data)),
    # Data at a state
    "no data": (put(STATE, None), get(STATE), put(STATE, NEXT)),
    "empty data": (put(STATE, b""), get(STATE), put(STATE, NEXT)),
    "no JSON": (put(STATE, b"\xff\x00{"), get(STATE)),
    "JSON of another kind": (put(STATE, b"[1]"), put(STATE, b'"x"'), put(STATE, b"{}")),
    "another order of the fields": (
        put(STATE, b'{"leader":1,"version":1,"leader_epoch":0,"isr":[1],"controller_epoch":1}'),
    ),
    "spaces": (put(STATE, NEXT + b" "), put(STATE, encode_spaced(LeaderAndIsr(1, 3, (2, 1), 9)))),
    "numbers as nobody writes them": (
        put(STATE, NEXT.replace(b":2", b":2.0")),
        put(STATE, NEXT.replace(b"[2]", b"[02]")),
    ),
    "a leader out of its ISR": (put(STATE, encode(LeaderAndIsr(7, 1, (1, 2), 1))),),
    "an ISR longer than any row": (put(STATE, encode(LeaderAndIsr(1, 1, (1, 2, 3, 4, 5), 1))), put(STATE, NEXT)),
    "a broker twice": (put(STATE, encode(LeaderAndIsr(1, 1, (1, 1), 1))),),
    "nobody leads": (put(STATE, encode(LeaderAndIsr(-1, 1, (), 1))), put(STATE, encode(LeaderAndIsr(-1, 2, (2,), 1)))),
    "a leader of before ZooKeeper's time": (put(STATE, encode(LeaderAndIsr(-2, 1, (1,), 1))),),
    "epochs below nought": (put(STATE, encode(LeaderAndIsr(1, -1, (1,), -1))),),
    "greatest numbers": (put(STATE, encode(LeaderAndIsr(2**31 - 1, 2**31 - 1, (2**31 - 1,), 2**31 - 1))),),
    "numbers too great": (put(STATE, encode(LeaderAndIsr(2**31, 2**40, (2**31,), 2**63))),),
    "an unclean election": (put(STATE, encode(LeaderAndIsr(2, 1, (2,), 1, recovering=True))), get(STATE)),
    "a megabyte": (put(STATE, b"x" * LIMIT), get(STATE), put(STATE, NEXT)),
    "a field more": (put(STATE, NEXT.replace(b"{", b'{"more":1,')),),
    # Data elsewhere
    "data at a partition": (put(P, b"x"), get(P), put(P, None), put(P, b"")),
    "data at `partitions`": (put(DIRECTORY, b"x"), put(DIRECTORY, None), put(DIRECTORY, b"")),
    "no data at a topic": (put(T, None), get(T), put(T, TOPIC_OF_FOUR[0].data)),
    "no JSON at a topic": (put(T, b"{"), get(T), put(T, b"[]"), put(T, b"{}")),
    "a topic as an older release writes it": (put(T, encode_v1(topic(0, 1, 2, 3))),),
    "a topic that has grown": (put(T, encode_v3(topic(*range(7)))), make(f"{DIRECTORY}/6")),
    "a topic that has shrunk": (put(T, encode_v3(topic(0))), put(STATE, NEXT), put(T, encode_v3(topic(0, 1, 2, 3)))),
    "a topic of other partitions": (put(T, encode_v3(topic(8, 9))), get(T)),
    "replicas more than any row has": (put(T, encode_v3(topic(0, 1, 2, 3, replicas=(1, 2, 3, 4, 5)))),),
    "a partition without replicas": (put(T, encode_v3(topic(0, 1, 2, 3, replicas=()))),),
    "replicas below nought": (put(T, encode_v3(topic(0, 1, 2, 3, replicas=(-1, 1)))),),
    "a move, and its end": (
        put(T, encode_v3(topic(0, 1, 2, 3, replicas=(1, 2, 3), adding=(3,), removing=(1,)))),
        put(T, encode_v3(topic(0, 1, 2, 3, replicas=(2, 3)))),
    ),
    "a move of nobody": (put(T, encode_v3(topic(0, 1, 2, 3, adding=(9,)))),),
    "a topic of a megabyte": (put(T, b"x" * LIMIT), put(T, TOPIC_OF_FOUR[0].data)),
    # Births and deaths
    "a node that is there": (make(T), make(DIRECTORY), make(P), make(STATE)),
    "nodes that have children": (remove(T), remove(DIRECTORY), remove(P)),
    "a state that is gone and comes again": (remove(STATE), get(STATE), remove(STATE), make(STATE, NEXT), get(P)),
    "a partition that is gone and comes again": (remove(STATE), remove(P), make(P), make(STATE, NEXT)),
    "the last partition": (remove(f"{DIRECTORY}/3/state"), remove(f"{DIRECTORY}/3"), make(f"{DIRECTORY}/3")),
    "a partition that no topic knows": (make(f"{DIRECTORY}/17"), make(f"{DIRECTORY}/17/state", NEXT)),
    "names that are no numbers": tuple(make(f"{DIRECTORY}/{name}") for name in ("00", "x", "-1", "2147483648", "７")),
    "a child of a state": (make(f"{STATE}/below", b"x"), remove(STATE), put(STATE, NEXT), remove(f"{STATE}/below")),
    "a second child of a partition": (make(f"{P}/other"), remove(STATE), remove(f"{P}/other"), put(P, b"")),
    "a second child of a topic": (make(f"{T}/config"), put(T, encode_v3(topic(0, 1, 2, 3))), remove(f"{T}/config")),
    "a state without a partition": (make(f"{DIRECTORY}/9/state", NEXT),),
    "a topic of nothing": (
        make(f"{TOPICS_PATH}/u"),
        make(f"{TOPICS_PATH}/u/partitions"),
        make(f"{TOPICS_PATH}/u/partitions/0"),
    ),
    "a topic below a topic": (make(f"{T}/t", TOPIC_OF_FOUR[0].data), make(f"{T}/t/partitions")),
    "a name that is none": (make(f"{TOPICS_PATH}//x"), make(f"{T}/"), get(f"{T}/./x"), make(f"{T}/\0"), get("")),
    "a name in another alphabet": (make(f"{TOPICS_PATH}/тема", TOPIC_OF_FOUR[0].data), get(f"{TOPICS_PATH}/тема")),
    # Owners and sequences
    "an ephemeral topic": (
        make(f"{TOPICS_PATH}/e", TOPIC_OF_FOUR[0].data, EPHEMERAL),
        make(f"{TOPICS_PATH}/e/partitions"),
    ),
    "an ephemeral state": (remove(STATE), make(STATE, NEXT, EPHEMERAL), req.GetEphemerals("/"), put(STATE, NEXT)),
    "an ephemeral partition": (make(f"{DIRECTORY}/4", None, EPHEMERAL), req.GetEphemerals(DIRECTORY)),
    "a sequence of topics": (make(f"{TOPICS_PATH}/s", None, SEQUENTIAL), make(f"{TOPICS_PATH}/s", None, SEQUENTIAL)),
    "a sequence of partitions": (make(f"{DIRECTORY}/", None, SEQUENTIAL), make(f"{DIRECTORY}/n-", None, SEQUENTIAL)),
    "a sequence below a state": (make(f"{STATE}/", b"", SEQUENTIAL), make(f"{STATE}/", b"", SEQUENTIAL | EPHEMERAL)),
    "a container": (
        remove(STATE),
        req.CreateContainer(STATE, NEXT, OPEN_ACL, CONTAINER),
        make(f"{STATE}/x"),
        remove(f"{STATE}/x"),
    ),
    "a container of a topic": (req.CreateContainer(f"{TOPICS_PATH}/c", TOPIC_OF_FOUR[0].data, OPEN_ACL, CONTAINER),),
    "a delete as of a container": (req.DeleteContainer(STATE), req.DeleteContainer(T)),
    "a time to live": (remove(STATE), req.CreateTTL(STATE, NEXT, OPEN_ACL, TTL, 2_000), get(STATE)),
    "a sequence with a time to live": (req.CreateTTL(f"{DIRECTORY}/", None, OPEN_ACL, SEQUENTIAL_TTL, 2_000),),
    "no time to live": (req.CreateTTL(f"{DIRECTORY}/5", None, OPEN_ACL, TTL, 0),),
    "flags of no kind": (make(f"{DIRECTORY}/5", None, 77), make(f"{DIRECTORY}/5", None, -1)),
    # Rights
    "a state that may be read only": (req.SetACL(STATE, READ_ONLY, -1), put(STATE, NEXT), get(STATE), remove(STATE)),
    "a state that nobody may read": (
        req.SetACL(STATE, NOBODY, 0),
        get(STATE),
        req.Exists(STATE, True),
        req.GetACL(STATE),
    ),
    "a topic that nobody may read": (req.SetACL(T, NOBODY, -1), get(T), make(f"{T}/x"), req.GetChildren2(T, True)),
    "a partition that lets nobody in": (req.SetACL(P, READ_ONLY, -1), remove(STATE), make(f"{P}/x"), put(STATE, NEXT)),
    "`partitions` that lets nobody in": (req.SetACL(DIRECTORY, READ_ONLY, -1), make(f"{DIRECTORY}/5"), remove(P)),
    "rights to change rights": (
        req.SetACL(STATE, ADMIN_ONLY, -1),
        get(STATE),
        req.SetACL(STATE, OPEN_ACL, 1),
        get(STATE),
    ),
    "rights at another version": (req.SetACL(STATE, READ_ONLY, 5), req.GetACL(STATE)),
    "rights again and again": tuple(req.SetACL(path, OPEN_ACL, -1) for path in (STATE, P, DIRECTORY, T) * 20),
    "rights of who has come": (
        req.Auth(0, "digest", b"ann:pw"),
        req.SetACL(STATE, (ACL(31, Id("auth", "")),), -1),
        get(STATE),
    ),
    "rights of another": (
        req.SetACL(STATE, ANN, -1),
        get(STATE),
        req.Auth(0, "digest", b"ann:pw"),
        get(STATE),
        put(STATE, NEXT),
    ),
    "rights that are none": (req.SetACL(STATE, (), -1), req.SetACL(STATE, (ACL(31, Id("no", "x")),), -1)),
    "a state born with rights": (remove(STATE), make(STATE, NEXT, 0, READ_ONLY), req.GetACL(STATE), put(STATE, NEXT)),
    # Multis
    "a multi that fails at its end": (
        req.Multi((put(STATE, NEXT), remove(f"{DIRECTORY}/1/state"), put("/none", b""))),
    ),
    "a multi that fails at its beginning": (req.Multi((put("/none", b""), put(STATE, NEXT), make(f"{DIRECTORY}/5"))),),
    "a multi that makes and removes": (
        req.Multi((make(f"{DIRECTORY}/5"), remove(f"{DIRECTORY}/5"), put(STATE, NEXT, 0))),
    ),
    "a multi that writes twice": (req.Multi((put(STATE, NEXT, 0), put(STATE, b"x", 1), put(STATE, NEXT, 2))),),
    "a multi that removes and makes": (req.Multi((remove(STATE), make(STATE, NEXT), req.Check(STATE, 0))),),
    "a multi that removes a topic": (req.Multi(tuple(map(remove, reversed(PATHS)))),),
    "a multi that removes all but one node": (req.Multi(tuple(map(remove, PATHS))),),
    "a multi of reads": (
        req.MultiRead((req.GetData(STATE, False), req.GetChildren(P, False), req.GetData("/none", False))),
    ),
    "a multi of nothing": (req.Multi(()),),
    # Reads and watches
    "counts": tuple(req.GetAllChildrenNumber(path) for path in ("/", TOPICS_PATH, T, DIRECTORY, P, STATE, f"{T}/none")),
    "children": tuple(req.GetChildren2(path, True) for path in (TOPICS_PATH, T, DIRECTORY, P, STATE)),
    "nodes that are not there": (
        *(req.Exists(path, True) for path in (f"{DIRECTORY}/4", f"{P}/x", f"{STATE}/x")),
        make(f"{DIRECTORY}/4"),
    ),
    "sync": (req.Sync(STATE), put(STATE, NEXT), req.Sync("/none")),
    "a persistent watch": (req.AddWatch(STATE, 0), put(STATE, NEXT), put(STATE, NEXT), remove(STATE), make(STATE)),
    "a recursive watch": (req.AddWatch(DIRECTORY, 1), put(STATE, NEXT), remove(STATE), remove(P), make(P)),
    "watches that are taken back": (
        get(STATE),
        req.AddWatch(DIRECTORY, 1),
        *(req.RemoveWatches(path, kind) for path in (STATE, DIRECTORY, T) for kind in (1, 2, 3, 5)),
        put(STATE, NEXT),
    ),
    "watches asked after": tuple(req.CheckWatches(path, kind) for path in (STATE, P) for kind in (1, 2, 3)),
    "watches taken up again": (put(STATE, NEXT), req.SetWatches(0, (STATE, T), (f"{P}/x", P), (DIRECTORY, P))),
    "all watches taken up again": (
        req.SetWatches2(0, (T,), (), (P,), (STATE,), (DIRECTORY,)),
        put(STATE, NEXT),
        remove(STATE),
    ),
    "a quota": (
        make("/zookeeper/quota/brokers"),
        make("/zookeeper/quota/brokers/zookeeper_limits", b"count=12,bytes=-1"),
        make("/zookeeper/quota/brokers/zookeeper_stats"),
        put(STATE, NEXT),
        remove(STATE),
        get("/zookeeper/quota/brokers/zookeeper_stats"),
    ),
}


class Arm:
    """A server with one topic, a client that watches all of it, and one that sends requests."""

    def __init__(self, *, in_columns: bool) -> None:
        self.server = Server(CONFIG)
        self.asker, self.watcher = (self._connect() for _ in range(2))
        for request in (make("/brokers"), make(TOPICS_PATH), req.Multi(TOPIC_OF_FOUR)):
            self.server.handle(self.asker, 1, request, 10)
        if in_columns:
            self.backing = ColumnarTopics()
            self.server.tree.mount(self.backing)
            assert len(self.backing) == len(TOPIC_OF_FOUR), "all of it is in columns"
        self.history = History(Scheduler(seed=1))
        observer = Observer(self.history, self.server.tree, str, topics=self.backing if in_columns else None)
        self.server.on_transaction.add(observer.observe, observer.observe_batch)
        self.server.handle(self.watcher, 1, req.AddWatch(TOPICS_PATH, 1), 10)
        for path in (T, DIRECTORY, P, STATE):
            self.server.handle(self.watcher, 2, req.GetChildren(path, True), 10)
            self.server.handle(self.watcher, 3, req.Exists(path, True), 10)
        self.server.take_output()

    def _connect(self) -> Connection:
        return self.server.connect(req.ConnectRequest(0, 0, 4_000, 0, None, False), 0)

    def said(self) -> list[tuple[str, object]]:
        return [
            ("asker" if connection is self.asker else "watcher", message)
            for connection, messages in self.server.take_output()
            for message in messages
        ]

    def shown(self) -> tuple[object, ...]:
        server = self.server
        server.check()
        digest = TreeDigest(server.tree).value
        timeouts_ms = server.sessions.timeouts_ms()
        return (
            {
                path: (node.data, node.acl, node.stat(), node.cversion, node.child_names())
                for path, node in server.tree.walk()
            },
            b"".join(encode_snapshot(server.tree, timeouts_ms, lambda: (server.zxid, digest))),
            server.tree.data_size(),
            list(self.history),
        )


@pytest.mark.parametrize("odd", ODD)
def test_nobody_can_tell(odd: str) -> None:
    arms = Arm(in_columns=False), Arm(in_columns=True)

    def alike(act: Callable[[Arm], None]) -> None:
        for arm in arms:
            act(arm)
        expected, found = [(arm.said(), arm.shown()) for arm in arms]
        assert found == expected

    for xid, request in enumerate(ODD[odd], 1):
        alike(lambda arm, xid=xid, request=request: arm.server.handle(arm.asker, xid, request, 20 + xid))  # type: ignore[misc]
    for now_ms in range(1_000, 12_000, 1_000):  # sessions expire, containers and what has lived are swept
        alike(lambda arm, now_ms=now_ms: arm.server.tick(now_ms))  # type: ignore[misc]


def below_a_chroot(client: KazooClient) -> list[object]:
    """Return what an application sees whose chroot is a topic."""
    seen: list[object] = []
    client.create("/partitions/0/state/locks")
    locks = "/partitions/0/state/locks"
    seen += [client.create(f"{locks}/{name}-", sequence=True, ephemeral=True) for name in ("a", "b")]
    seen.append(client.set("/partitions/0/state", b"x"))
    seen.append(sorted(client.get_children("/partitions/0/state")))
    transaction = client.transaction()
    transaction.set_data("/partitions/1/state", NEXT, version=0)
    transaction.delete("/partitions/2")
    seen.append([repr(result) for result in transaction.commit()])
    seen.append(client.get("/partitions/1/state"))
    client.delete("/partitions", recursive=True)
    seen.append((client.get_children("/"), client.exists("/"), client.get("/")))
    return seen


def test_a_client_below_a_chroot_cannot_tell() -> None:
    seen = []
    for in_columns in (False, True):
        with simzk.ZooKeeper() as zookeeper:
            client = zookeeper.client()
            client.start()
            for operation in (
                req.Create2("/brokers", b"", OPEN_ACL, 0),
                req.Create2(TOPICS_PATH, b"", OPEN_ACL, 0),
                *TOPIC_OF_FOUR,
            ):
                client.create(operation.path, operation.data or b"")
            if in_columns:
                with zookeeper.lock:
                    backing = ColumnarTopics()
                    zookeeper.server.tree.mount(backing)
                    assert len(backing) > 5
            client = zookeeper.client(hosts=f"any{T}")
            client.start()
            seen.append(below_a_chroot(client))
    assert seen[0] == seen[1]
