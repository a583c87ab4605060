"""What brokers say to each other: the requests of the controller to brokers, and of brokers to the controller.

Values only. Each request of a controller names its epoch and the epoch of the broker it is meant for, so that what
comes from a controller that is no more, or is meant for an earlier life of the broker, is refused (KIP-380).

What the controller tells brokers of many partitions, as columns; read one by one it is what a request lists.

Rules of the module:
  - the columns are of the moment in which they were made: nothing that happens later to the controller's table shows;
  - one set of columns goes to many brokers, and is made into single updates once, when somebody first reads them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar, overload

import numpy as np

from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.partitions.arrays import taken, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from simzk.kafka.schemas.acl import AclEntry, AclResource
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.names import Partitions
    from simzk.partitions.states import States
    from simzk.partitions.table import PartitionTable


class Error(Enum):
    """The errors of Kafka's protocol that are used here, by their names."""

    NONE = "NONE"
    NOT_CONTROLLER = "NOT_CONTROLLER"
    STALE_CONTROLLER_EPOCH = "STALE_CONTROLLER_EPOCH"
    STALE_BROKER_EPOCH = "STALE_BROKER_EPOCH"
    BROKER_NOT_AVAILABLE = "BROKER_NOT_AVAILABLE"
    BROKER_ID_NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    INVALID_REQUEST = "INVALID_REQUEST"
    INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA"
    INVALID_REPLICA_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR"
    INVALID_PARTITIONS = "INVALID_PARTITIONS"
    INVALID_CONFIG = "INVALID_CONFIG"
    NO_REASSIGNMENT_IN_PROGRESS = "NO_REASSIGNMENT_IN_PROGRESS"
    ELECTION_NOT_NEEDED = "ELECTION_NOT_NEEDED"
    PREFERRED_LEADER_NOT_AVAILABLE = "PREFERRED_LEADER_NOT_AVAILABLE"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    INVALID_TOPIC_EXCEPTION = "INVALID_TOPIC_EXCEPTION"
    TOPIC_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"
    TOPIC_DELETION_DISABLED = "TOPIC_DELETION_DISABLED"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    LEADER_NOT_AVAILABLE = "LEADER_NOT_AVAILABLE"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    NETWORK_EXCEPTION = "NETWORK_EXCEPTION"
    INVALID_REQUIRED_ACKS = "INVALID_REQUIRED_ACKS"
    INVALID_PRINCIPAL_TYPE = "INVALID_PRINCIPAL_TYPE"
    DELEGATION_TOKEN_AUTH_DISABLED = "DELEGATION_TOKEN_AUTH_DISABLED"
    DELEGATION_TOKEN_NOT_FOUND = "DELEGATION_TOKEN_NOT_FOUND"
    DELEGATION_TOKEN_EXPIRED = "DELEGATION_TOKEN_EXPIRED"
    DELEGATION_TOKEN_OWNER_MISMATCH = "DELEGATION_TOKEN_OWNER_MISMATCH"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"


class PartitionUpdate(NamedTuple):
    """A partition as the controller tells brokers of it."""

    partition: TopicPartition
    state: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool = False


class LeaderAndIsrRequest(NamedTuple):
    """Lead or follow these partitions."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    updates: Sequence[PartitionUpdate]


class UpdateMetadataRequest(NamedTuple):
    """What every broker should know: these partitions, and all the live brokers with their racks."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    updates: Sequence[PartitionUpdate]
    live_brokers: Mapping[int, str | None]


class ReplicaStop(NamedTuple):
    """Stop one replica; with `delete` its log goes too."""

    partition: TopicPartition
    delete: bool
    leader_epoch: int


class StopReplicaRequest(NamedTuple):
    """Stop these replicas."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    stops: Sequence[ReplicaStop]


class ControlResponse(NamedTuple):
    """The answer to a request of the controller: one error, and errors by partition."""

    error: Error
    partition_errors: Mapping[TopicPartition, Error]


class IsrProposal(NamedTuple):
    """The ISR that a leader asks for, with the epochs it knows."""

    partition: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]
    version: int
    recovering: bool = False


class AlterPartitionRequest(NamedTuple):
    """A leader asks for other ISRs (KIP-497)."""

    broker_id: int
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]


class AlterPartitionResponse(NamedTuple):
    """One error for all, or by partition the state that stands now or an error."""

    error: Error
    results: Mapping[TopicPartition, LeaderAndIsr | Error]


class ControlledShutdownRequest(NamedTuple):
    """A broker is about to stop."""

    broker_id: int
    broker_epoch: int


class ControlledShutdownResponse(NamedTuple):
    """An error, or the partitions that the broker still leads."""

    error: Error
    remaining: tuple[TopicPartition, ...]


class FetchedPartition(NamedTuple):
    """How far a follower has come with a partition, in which leader epoch."""

    partition: TopicPartition
    leader_epoch: int
    log_end: int


class FetchRequest(NamedTuple):
    """A follower asks a leader for what is new: of all at first (`full`), then naming only changes (KIP-227)."""

    replica_id: int
    full: bool
    changed: tuple[FetchedPartition, ...]
    forgotten: tuple[TopicPartition, ...]


class FetchResponse(NamedTuple):
    """The leader's log ends where they differ from the follower's, or errors; `session_lost`: name all anew.

    `watermarks` are the leader's high watermarks where they rose since the last answer.
    """

    session_lost: bool
    log_ends: Mapping[TopicPartition, int]
    errors: Mapping[TopicPartition, Error]
    watermarks: Mapping[TopicPartition, int] = {}


class ProduceRequest(NamedTuple):
    """Append records; `acks` of them must be there before the answer: 0 none, 1 the leader's, -1 all in the ISR."""

    partition: TopicPartition
    records: int
    acks: int
    timeout_ms: int


class ProduceResponse(NamedTuple):
    """Where the first record is in the log, -1 where that is not told; or an error."""

    error: Error
    base_offset: int = -1


class AllocateProducerIdsRequest(NamedTuple):
    """A broker asks for a block of producer ids (KIP-730)."""

    broker_id: int
    broker_epoch: int


class CreateTopicRequest(NamedTuple):
    """Create a topic: with a given assignment, or with so many partitions and replicas."""

    name: str
    partitions: int
    replication_factor: int
    assignment: Mapping[int, tuple[int, ...]] | None
    config: Mapping[str, str]
    topic_id: str | None


class DeleteTopicRequest(NamedTuple):
    """Delete a topic."""

    name: str


class CreatePartitionsRequest(NamedTuple):
    """Give a topic more partitions, `total` in the end."""

    name: str
    total: int
    assignment: Mapping[int, tuple[int, ...]] | None


class AlterAclsRequest(NamedTuple):
    """Change who may do what with a resource; `removed` None removes all that is not added."""

    resource: AclResource
    added: tuple[AclEntry, ...]
    removed: tuple[AclEntry, ...] | None


class CreateTokenRequest(NamedTuple):
    """Make a delegation token (KIP-48); a lifetime that is not positive is the longest."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


class RenewTokenRequest(NamedTuple):
    """Let a token live so long from now on; a negative time is the configured one."""

    token_id: str
    principal: str
    lifetime_ms: int


class ExpireTokenRequest(NamedTuple):
    """Let a token live only so long from now on; with a negative time it goes at once."""

    token_id: str
    principal: str
    lifetime_ms: int


class AlterConfigRequest(NamedTuple):
    """Set and remove configuration keys of an entity; `entity_path` as below `/config`."""

    entity_path: str
    changes: Mapping[str, str | None]


class AlterReassignmentsRequest(NamedTuple):
    """Move partitions; None cancels the reassignment under way (KIP-455)."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]


class ElectLeadersRequest(NamedTuple):
    """Elect leaders of all partitions (None) or of some; preferred replicas, or unclean ones (KIP-460)."""

    kind: str
    partitions: tuple[TopicPartition, ...] | None


class AdminResponse(NamedTuple):
    """The answer to an operator: one error with words, and errors by partition where the request was by partition."""

    error: Error
    message: str = ""
    partition_errors: Mapping[TopicPartition, Error] = {}


ItemT = TypeVar("ItemT")


class _InColumns(Sequence[ItemT]):
    """Something of each of k partitions, made of columns when somebody first reads it."""

    partitions: Partitions

    @property
    @abstractmethod
    def _items(self) -> list[ItemT]: ...

    def __len__(self) -> int:
        return self.partitions.size

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self._items)

    @overload
    def __getitem__(self, place: int) -> ItemT: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ItemT]: ...
    def __getitem__(self, place: int | slice) -> ItemT | Sequence[ItemT]:
        return self._items[place]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._items})"


class PartitionUpdates(_InColumns[PartitionUpdate]):
    """Updates of k partitions.

    Args:
        partitions: which.
        states: k states.
        replicas: int32[k, w], who is assigned, padded.
        moving: by place, the assignments of those that are being reassigned.
        is_new: bool[k], or one for all.
        source: the table that says who is assigned, and how often that had been changed.
    """

    def __init__(
        self,
        partitions: Partitions,
        states: States,
        replicas: IntArray,
        moving: dict[int, ReplicaAssignment],
        is_new: BoolArray | bool,
        source: tuple[PartitionTable, int],
    ) -> None:
        self.source = source
        self.partitions = partitions
        self.states = states
        self.replicas = replicas
        self._moving = moving
        self._is_new = is_new

    @classmethod
    def of_table(cls, table: PartitionTable, rows: IntArray, is_new: BoolArray | bool) -> PartitionUpdates:
        """Of some rows of a table, as they are now."""
        moving = {}
        under_way = table.reassigning()
        for place in np.flatnonzero(np.isin(rows, under_way)).tolist() if under_way else ():
            row = int(rows[place])
            moving[place] = ReplicaAssignment(table.replicas_of(row), table.adding_of(row), table.removing_of(row))
        replicas, states = table.replicas_and_states(rows)
        return cls(table.partitions(rows), states, replicas, moving, is_new, (table, table.assignments))

    def at(self, places: NDArray[np.integer]) -> PartitionUpdates:
        """Some of them, as far as light replicas ask: who moves, and who is new, is left out."""
        replicas = taken(self.replicas, places)
        return PartitionUpdates(self.partitions.at(places), self.states.at(places), replicas, {}, False, self.source)

    @cached_property
    def _items(self) -> list[PartitionUpdate]:
        is_new = np.broadcast_to(np.asarray(self._is_new), len(self)).tolist()
        assigned = [ReplicaAssignment(replicas) for replicas in unpack(self.replicas)]
        for place, assignment in self._moving.items():
            assigned[place] = assignment
        states = map(self.states.one, range(len(self)))
        names = (TopicPartition(*name) for name in self.partitions.names())
        return [PartitionUpdate(*update) for update in zip(names, states, assigned, is_new, strict=True)]


class ReplicaStops(_InColumns[ReplicaStop]):
    """Replicas of k partitions that a broker is to stop.

    Args:
        partitions: which.
        delete: bool[k], whether the log goes too.
        leader_epoch: int32[k].
    """

    def __init__(self, partitions: Partitions, delete: BoolArray, leader_epoch: IntArray) -> None:
        self.partitions = partitions
        self.delete = delete
        self.leader_epoch = leader_epoch

    @cached_property
    def _items(self) -> list[ReplicaStop]:
        columns = zip(self.partitions.names(), self.delete.tolist(), self.leader_epoch.tolist(), strict=True)
        return [ReplicaStop(TopicPartition(*name), delete, epoch) for name, delete, epoch in columns]


class Orders(NamedTuple):
    """What a controller tells many brokers at once.

    Args:
        controller_id: who sends.
        controller_epoch: its epoch.
        brokers: whom it is meant for, int32[b].
        broker_epochs: their lives that are meant, int64[b].
        live_brokers: who lives, with racks.
        parts: updates of k distinct partitions each, and which of their assigned replicas are told to lead or follow,
            bool[k, w]; one after the other.
        stops: by broker, replicas to stop.
    """

    controller_id: int
    controller_epoch: int
    brokers: IntArray
    broker_epochs: NDArray[np.int64]
    live_brokers: Mapping[int, str | None]
    parts: Sequence[tuple[PartitionUpdates, BoolArray]]
    stops: Mapping[int, ReplicaStops]
