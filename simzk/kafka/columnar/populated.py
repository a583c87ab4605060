"""A running cluster's znodes but for its topics: brokers that are registered, a controller, the persistent paths.

It is the beginning of a simulation that goes on from a layout: brokers that live there live already, each with a
session of its own, and the first of them is controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka import paths
from simzk.kafka.cluster.restored_tree import FIRST_SESSION_ID, LiveSession, Restored
from simzk.kafka.layout_import import MIN_INSYNC_REPLICAS
from simzk.kafka.schemas import config
from simzk.kafka.schemas import controller as controller_schema
from simzk.kafka.schemas.cluster import encode_cluster_id
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from simzk.zookeeper.transactions import CreateSessionTxn, CreateTxn, Record, Transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.schemas.broker_registration import BrokerRegistration
    from simzk.partitions.layouts import Layout

FIRST_EPOCH = 1


def populated(
    layout: Layout,
    registrations: Mapping[int, BrokerRegistration],
    version: KafkaVersion,
    cluster_id: str,
    *,
    timeout_ms: int,
    now_ms: int,
) -> Restored:
    """The znodes of a layout's cluster without those of its topics, made at `now_ms`.

    Args:
        layout: whose live brokers are registered, and whose topics are configured.
        registrations: what its brokers say of themselves.
        version: in whose form the znodes are written.
        cluster_id: what `/cluster/id` says.
        timeout_ms: of the brokers' sessions.
        now_ms: when all of it is made.
    """
    world = _World(Server(now_ms=now_ms), now_ms)
    for path in (*version.znodes.persistent_paths, paths.BROKER_IDS, paths.TOPICS):
        world.make(path)
    if version.znodes.has_cluster_id:
        world.make(paths.CLUSTER_ID, encode_cluster_id(cluster_id))
    world.make(paths.CONTROLLER_EPOCH, controller_schema.encode_epoch(FIRST_EPOCH))
    live: dict[int, LiveSession] = {}
    for broker in layout.brokers.ids[layout.brokers.live].tolist():
        session = FIRST_SESSION_ID + len(live)
        world.apply(session, CreateSessionTxn(timeout_ms))
        registration = version.znodes.encode_broker(registrations[broker]._replace(timestamp_ms=now_ms))
        live[broker] = LiveSession(session, world.make(paths.broker(broker), registration, session))
        if len(live) == 1:
            world.make(paths.CONTROLLER, version.znodes.encode_controller(broker, now_ms), session)
    numbers, firsts = np.unique(layout.topic, return_index=True)
    for number, least in zip(numbers.tolist(), layout.min_insync_replicas[firsts].tolist(), strict=True):
        if least != 1:
            world.make(
                paths.config(f"topics/{layout.topics[number]}"), config.encode({MIN_INSYNC_REPLICAS: str(least)})
            )
    return Restored(world.server.tree, world.server.zxid, live, dict(registrations), frozenset())


class _World:
    """A server on which znodes are made."""

    def __init__(self, server: Server, now_ms: int) -> None:
        self.server = server
        self._now_ms = now_ms

    def apply(self, session: int, record: Record) -> None:
        self.server.apply(Transaction(session, 0, self.server.zxid + 1, self._now_ms, record))

    def make(self, path: str, data: bytes | None = None, session: int = 0) -> int:
        """A znode where there is none, and its parents; ephemeral where a session owns it; its czxid."""
        tree = self.server.tree
        if tree.get(path) is None:
            if tree.get(paths.parent(path)) is None:
                self.make(paths.parent(path))
            parent = tree.get(paths.parent(path))
            assert parent is not None
            self.apply(session, CreateTxn(path, data, OPEN_ACL, session != 0, parent.cversion + 1))
        node = tree.get(path)
        assert node is not None
        return node.czxid
