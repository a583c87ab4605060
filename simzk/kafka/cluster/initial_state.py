"""Znodes, live sessions and broker registrations with which a simulated cluster starts.

Rules of this module:
  - a recorded tree is restored as clients read it. A recording has no zxids and no times: zxids are assigned in the
    order of the paths, and all times are the start of the simulation;
  - the ephemerals of a registered broker, and `/controller` if it names that broker, belong to one session;
  - every znode that the brokers need is decoded here, so that an invalid tree is rejected before anything runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ZnodeError
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar.layouts import configure_topics, ensure
from simzk.kafka.zookeeper_mode.schemas import broker_registration, partition_state
from simzk.kafka.zookeeper_mode.schemas import controller as controller_schema
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.schemas.cluster import encode_cluster_id
from simzk.zookeeper.replies import Stat
from simzk.zookeeper.server import Server
from simzk.zookeeper.transactions import CreateSessionTxn, Transaction
from simzk.zookeeper.tree import DataTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.observation.recording import RecordedZnode
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.zookeeper_mode.schemas.broker_registration import BrokerRegistration
    from simzk.partitions.layouts import Layout

FIRST_SESSION_ID = 0x0100_0000_0000_0001
FIRST_CONTROLLER_EPOCH = 1


class LiveSession(NamedTuple):
    """ZooKeeper session and broker epoch of a broker that runs from the start."""

    session_id: int
    epoch: int


class InitialState(NamedTuple):
    """Tree and brokers with which a simulation starts.

    Args:
        tree: the znodes.
        zxid: the last zxid in the tree.
        live: session and epoch of each broker that runs, by broker id.
        registrations: registration of each known broker, by broker id.
        replica_ids: brokers that a replica assignment of the tree names.
    """

    tree: DataTree
    zxid: int
    live: dict[int, LiveSession]
    registrations: dict[int, BrokerRegistration]
    replica_ids: frozenset[int]


def state_from_tree(znodes: Mapping[str, RecordedZnode], now_ms: int) -> InitialState:
    """Return the state that a recorded tree describes.

    Args:
        znodes: the recorded znodes by path.
        now_ms: creation and modification time of every znode.

    Raises:
        ZnodeError: a znode cannot be decoded, an ephemeral has no owner, a parent is missing.
    """
    registrations: dict[int, BrokerRegistration] = {}
    replica_ids: set[int] = set()
    controller: int | None = None
    for path, znode in znodes.items():
        data = None if znode.data is None else znode.data.encode()
        parent, _, name = path.rpartition("/")
        if parent == paths.BROKER_IDS:
            if (broker := paths.number_of(name)) is None:
                raise ZnodeError("is no broker's id", where=path, right="a number")
            registrations[broker] = broker_registration.decode(path, data)
        elif path == paths.CONTROLLER:
            controller = controller_schema.decode(path, data)
        elif parent == paths.TOPICS:
            for assignment in topic_schema.decode(path, data).partitions.values():
                replica_ids.update(assignment.replicas)
        elif paths.state_partition(path) is not None:
            partition_state.decode(path, data)
    sessions = {broker: FIRST_SESSION_ID + index for index, broker in enumerate(sorted(registrations))}
    if controller is not None and controller not in sessions:
        raise ZnodeError(f"names broker {controller}", where=paths.CONTROLLER, right="a broker that is registered")
    owners = {paths.broker(broker): session for broker, session in sessions.items()}
    if controller is not None:
        owners[paths.CONTROLLER] = sessions[controller]
    tree, zxids = _restore_tree(znodes, owners, now_ms)
    live = {broker: LiveSession(session, zxids[paths.broker(broker)]) for broker, session in sessions.items()}
    assert live.keys() == registrations.keys(), "each registration has a session"
    return InitialState(tree, max(zxids.values(), default=0), live, registrations, frozenset(replica_ids))


def _restore_tree(
    znodes: Mapping[str, RecordedZnode], owners: Mapping[str, int], now_ms: int
) -> tuple[DataTree, dict[str, int]]:
    """Return a tree with the recorded znodes, and the zxid assigned to each path."""
    tree = DataTree()
    zxids: dict[str, int] = {}
    for number, (path, znode) in enumerate(sorted(znodes.items()), start=1):
        if path != "/" and paths.parent(path) not in znodes:
            raise ZnodeError("its parent is missing", where=path, right="a tree with the parent of every znode")
        if znode.ephemeral and path not in owners:
            raise ZnodeError("is ephemeral and belongs to no broker", where=path, right="/controller or a broker's id")
        zxids[path] = number
        stat = Stat(
            czxid=number,
            mzxid=number,
            ctime_ms=now_ms,
            mtime_ms=now_ms,
            version=znode.version,
            cversion=znode.cversion,
            aversion=znode.aversion,
            ephemeral_owner=owners.get(path, 0),
            data_length=znode.data_length,
            num_children=znode.children,
            pzxid=number,
        )
        tree.restore(path, None if znode.data is None else znode.data.encode(), stat)
    return tree, zxids


def state_from_layout(
    layout: Layout,
    registrations: Mapping[int, BrokerRegistration],
    version: KafkaVersion,
    cluster_id: str,
    *,
    timeout_ms: int,
    now_ms: int,
) -> InitialState:
    """Return the state of a layout's running cluster, without the znodes of its topics.

    Each live broker has a session; the first of them is controller.

    Args:
        registrations: registration of each broker of the layout.
        version: the release that wrote the znodes.
        cluster_id: the id in `/cluster/id`.
        timeout_ms: session timeout of the brokers.
        now_ms: creation time of every znode.
    """
    server = Server(now_ms=now_ms)
    for path in (*version.znodes.persistent_paths, paths.BROKER_IDS, paths.TOPICS):
        ensure(server, path, now_ms)
    if version.znodes.has_cluster_id:
        ensure(server, paths.CLUSTER_ID, now_ms, encode_cluster_id(cluster_id))
    ensure(server, paths.CONTROLLER_EPOCH, now_ms, controller_schema.encode_epoch(FIRST_CONTROLLER_EPOCH))
    live: dict[int, LiveSession] = {}
    for broker in layout.brokers.ids[layout.brokers.live].tolist():
        session = FIRST_SESSION_ID + len(live)
        server.apply(Transaction(session, 0, server.zxid + 1, now_ms, CreateSessionTxn(timeout_ms)))
        registration = version.znodes.encode_broker(registrations[broker]._replace(timestamp_ms=now_ms))
        live[broker] = LiveSession(session, ensure(server, paths.broker(broker), now_ms, registration, session))
        if len(live) == 1:
            ensure(server, paths.CONTROLLER, now_ms, version.znodes.encode_controller(broker, now_ms), session)
    configure_topics(server, layout, now_ms)
    return InitialState(server.tree, server.zxid, live, dict(registrations), frozenset())
