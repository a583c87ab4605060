"""The tree of another cluster as the beginning of a simulation: znodes with their versions, live brokers with sessions.

Rules of the module:
  - what a client can read is restored as it was read; zxids and times, which a recording of trees does not hold, are
    made up: zxids rise in the order of the paths;
  - the ephemerals of a registered broker, and `/controller` if it names it, belong to one session; what the brokers
    need is decoded here, so that a tree which cannot be used is refused before anything runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.schemas import broker_registration, partition_state
from simzk.kafka.schemas import controller as controller_schema
from simzk.kafka.schemas import topic as topic_schema
from simzk.zookeeper.replies import Stat
from simzk.zookeeper.tree import DataTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.observation.recording import RecordedZnode
    from simzk.kafka.schemas.broker_registration import BrokerRegistration

FIRST_SESSION_ID = 0x0100_0000_0000_0001


class LiveSession(NamedTuple):
    """A broker that lives already: its session, and its broker epoch."""

    session_id: int
    epoch: int


class Restored(NamedTuple):
    """A tree, the last zxid in it, and what it says of brokers."""

    tree: DataTree
    zxid: int
    live: dict[int, LiveSession]
    registrations: dict[int, BrokerRegistration]
    replica_ids: frozenset[int]

    @classmethod
    def nothing(cls) -> Restored:
        """An empty tree."""
        return cls(DataTree(), 0, {}, {}, frozenset())


def restore(znodes: Mapping[str, RecordedZnode], now_ms: int) -> Restored:
    """Build the tree; its znodes were made and last written at `now_ms`.

    Raises:
        ZnodeError: a znode that cannot be used, an ephemeral that belongs to nobody, a child without its parent.
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
    tree, zxids = _plant(znodes, owners, now_ms)
    live = {broker: LiveSession(session, zxids[paths.broker(broker)]) for broker, session in sessions.items()}
    return Restored(tree, max(zxids.values(), default=0), live, registrations, frozenset(replica_ids))


def _plant(
    znodes: Mapping[str, RecordedZnode], owners: Mapping[str, int], now_ms: int
) -> tuple[DataTree, dict[str, int]]:
    tree = DataTree()
    zxids: dict[str, int] = {}
    for number, (path, znode) in enumerate(sorted(znodes.items()), start=1):
        if path != "/" and paths.parent(path) not in znodes:
            raise ZnodeError("its parent is missing", where=path, right="a tree in which every parent stands")
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
