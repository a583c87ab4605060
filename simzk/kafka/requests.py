"""Requests and responses between brokers, the controller and operators: values only.

Rules of this module:
  - the names differ from those of the messages on the wire (`protocol/messages.py`), which clients send and which carry
    these values between real processes;
  - a control request names the controller epoch, and the epoch of the target broker (KIP-380), so that the broker can
    reject requests from a former controller or for its earlier process;
  - requests about many partitions have columns (`metadata/changes.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.log.batches import NO_EPOCH
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from simzk.kafka.log.batches import NewBatch, RecordBatch
    from simzk.kafka.log.leader_epochs import EpochEnd
    from simzk.kafka.metadata.changes import (
        IsrProposal,
        PartitionUpdate,
        PartitionUpdates,
        Proposals,
        ReplicaStop,
        ReplicaStops,
    )
    from simzk.kafka.metadata.entities import AclEntry, AclResource
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.partitions.table import Partitions


UNKNOWN_BROKER_EPOCH = -1
"""The broker epoch in requests of brokers before 2.2 (AbstractControlRequest.UNKNOWN_BROKER_EPOCH)."""


class LeadershipRequest(NamedTuple):
    """Request to become leader or follower of partitions (LeaderAndIsr).

    `topic_ids` has the ids of their topics, as far as topics have ids (2.8).
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    updates: Sequence[PartitionUpdate]
    topic_ids: Mapping[str, str] = {}


class MetadataUpdateRequest(NamedTuple):
    """Update of a metadata cache: partitions that changed, and all live brokers with their racks (UpdateMetadata).

    `topic_ids` has the ids of the topics that changed, as far as topics have ids (2.8).
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    updates: Sequence[PartitionUpdate]
    live_brokers: Mapping[int, str | None]
    topic_ids: Mapping[str, str] = {}


class StopReplicasRequest(NamedTuple):
    """Request to stop replicas (StopReplica)."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    stops: Sequence[ReplicaStop]


class ControlResponse(NamedTuple):
    """Response to a control request: an error for the request, and errors by partition.

    `refused` has the partitions of a LeaderAndIsr whose leader epoch is not newer, which a controller ignores.
    """

    error: ErrorCode
    partition_errors: Mapping[TopicPartition, ErrorCode]
    refused: tuple[TopicPartition, ...] = ()


class IsrChangeRequest(NamedTuple):
    """ISR changes proposed by one broker (AlterPartition, KIP-497)."""

    broker_id: int
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]


class IsrChangeResponse(NamedTuple):
    """Response to `IsrChangeRequest`: an error for the request, or by partition the new state or an error."""

    error: ErrorCode
    results: Mapping[TopicPartition, LeaderAndIsr | ErrorCode]


class ShutdownRequest(NamedTuple):
    """Request to move the leaders of a broker that is about to stop (ControlledShutdown)."""

    broker_id: int
    broker_epoch: int


class ShutdownResponse(NamedTuple):
    """Response to `ShutdownRequest`: an error, or the partitions that the broker still leads."""

    error: ErrorCode
    remaining: tuple[TopicPartition, ...]


class FetchedPartition(NamedTuple):
    """Leader epoch and log end offset of a follower in one partition.

    `last_epoch` is the leader epoch of its last record, so that the leader can find out whether the logs differ
    (KIP-595); `NO_EPOCH` if the release does not send it. `log_start` is its log start offset (KIP-107).
    """

    partition: TopicPartition
    leader_epoch: int
    log_end: int
    last_epoch: int = NO_EPOCH
    log_start: int = 0


class FollowerFetchRequest(NamedTuple):
    """Fetch by a follower: a full one names all partitions, later ones only changes (KIP-227).

    `fenced`: whether the leader compares the leader epochs of the named partitions with its own (KIP-320).
    """

    replica_id: int
    full: bool
    fenced: bool
    changed: tuple[FetchedPartition, ...]
    forgotten: tuple[TopicPartition, ...]


class LogRange(NamedTuple):
    """Log start offset and log end offset of a leader."""

    start: int
    end: int


class FollowerFetchResponse(NamedTuple):
    """Records after the follower's log end offsets, or errors.

    Args:
        session_lost: whether the follower must send a full fetch.
        records: batches by partition.
        errors: errors by partition.
        watermarks: high watermarks of partitions with records, and those that rose since the last response.
        diverging: ends of leader epochs where the follower's log differs from the leader's (KIP-595).
        ranges: logs of the leader that do not contain the follower's log end offset (OFFSET_OUT_OF_RANGE). Kafka's
            follower asks for them with a ListOffsets request.
        starts: log start offsets of partitions where they rose since the last response (KIP-107).
    """

    session_lost: bool
    records: Mapping[TopicPartition, tuple[RecordBatch, ...]]
    errors: Mapping[TopicPartition, ErrorCode]
    watermarks: Mapping[TopicPartition, int] = {}
    diverging: Mapping[TopicPartition, EpochEnd] = {}
    ranges: Mapping[TopicPartition, LogRange] = {}
    starts: Mapping[TopicPartition, int] = {}


class AskedEpoch(NamedTuple):
    """Leader epoch that a follower has accepted, and the epoch of its last record, of which it asks for the end."""

    leader_epoch: int
    last_epoch: int


class EpochEndsRequest(NamedTuple):
    """Question of a follower where leader epochs end in the leader's logs (OffsetForLeaderEpoch, KIP-101).

    Args:
        replica_id: the follower.
        fenced: whether the leader compares the leader epochs with its own (KIP-320).
        names_epochs: whether the answer names epochs (version 1, KIP-279).
        epochs: the epochs by partition.
    """

    replica_id: int
    fenced: bool
    names_epochs: bool
    epochs: Mapping[TopicPartition, AskedEpoch]


class EpochEndsResponse(NamedTuple):
    """Response to `EpochEndsRequest`: the end of an epoch or an error by partition."""

    ends: Mapping[TopicPartition, EpochEnd | ErrorCode]


class AppendRequest(NamedTuple):
    """Request to append records (Produce).

    Args:
        partition: the partition.
        records: number of records.
        acks: 0 (no response), 1 (the leader only) or -1 (all in the ISR).
        timeout_ms: how long the leader may wait for acks.
        identity: number that identifies the batch in the cluster.
        batches: the batches, of this many records together; empty for one batch without content.
        is_of_coordinator: whether a coordinator appends them: their sequence numbers are not checked.
    """

    partition: TopicPartition
    records: int
    acks: int
    timeout_ms: int
    identity: int = 0
    batches: tuple[NewBatch, ...] = ()
    is_of_coordinator: bool = False


class AppendResponse(NamedTuple):
    """Offset of the first appended record, -1 if unknown; or an error."""

    error: ErrorCode
    base_offset: int = -1


class FindLeaderRequest(NamedTuple):
    """Request of a client for the leader of a partition, as the broker's metadata cache has it (Metadata)."""

    partition: TopicPartition


class FindLeaderResponse(NamedTuple):
    """Leader of a partition; -1 if the metadata cache has none."""

    leader: int


class ReadRequest(NamedTuple):
    """Fetch by a consumer: committed records from an offset on.

    Args:
        partition: the partition.
        offset: the first offset.
        max_bytes: size of the batches, except for the first one.
    """

    partition: TopicPartition
    offset: int
    max_bytes: int


class ReadResponse(NamedTuple):
    """Records up to the high watermark, or an error.

    Args:
        error: the error; OFFSET_OUT_OF_RANGE if the log does not contain the offset.
        batches: the batches.
        readable: log start offset and high watermark; None if the broker does not lead the partition.
    """

    error: ErrorCode
    batches: tuple[RecordBatch, ...] = ()
    readable: LogRange | None = None


class ProducerIdsRequest(NamedTuple):
    """Request for a block of producer ids (AllocateProducerIds, KIP-730)."""

    broker_id: int
    broker_epoch: int


class CreateTopicRequest(NamedTuple):
    """Request to create a topic, with an assignment or with counts of partitions and replicas."""

    name: str
    partitions: int
    replication_factor: int
    assignment: Mapping[int, tuple[int, ...]] | None
    config: Mapping[str, str]
    topic_id: str | None


class DeleteTopicRequest(NamedTuple):
    """Request to delete a topic."""

    name: str


class AddPartitionsRequest(NamedTuple):
    """Request to add partitions to a topic, up to `total` (CreatePartitions)."""

    name: str
    total: int
    assignment: Mapping[int, tuple[int, ...]] | None


class AlterAclsRequest(NamedTuple):
    """Request to change the ACL of a resource; `removed` None removes all entries that are not added."""

    resource: AclResource
    added: tuple[AclEntry, ...]
    removed: tuple[AclEntry, ...] | None


class CreateTokenRequest(NamedTuple):
    """Request to create a delegation token (KIP-48); a lifetime of 0 or less is the maximum."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


class RenewTokenRequest(NamedTuple):
    """Request to renew a token from now on; a negative lifetime is the configured one."""

    token_id: str
    principal: str
    lifetime_ms: int


class ExpireTokenRequest(NamedTuple):
    """Request to set when a token expires, from now on; a negative lifetime deletes it at once."""

    token_id: str
    principal: str
    lifetime_ms: int


class AlterConfigRequest(NamedTuple):
    """Request to set and remove configuration keys of an entity; `entity_path` is relative to `/config`."""

    entity_path: str
    changes: Mapping[str, str | None]


class AlterReassignmentsRequest(NamedTuple):
    """Request to reassign partitions; None cancels the reassignment in progress (KIP-455)."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]


class ElectionRequest(NamedTuple):
    """Request to elect leaders of some partitions, or of all (None); the kind is preferred or unclean (KIP-460)."""

    kind: str
    partitions: tuple[TopicPartition, ...] | None


class AdminResponse(NamedTuple):
    """Response to an operator: an error with a message, and errors by partition if the request was by partition.

    `topic_id` is the id of a topic that was created.
    """

    error: ErrorCode
    message: str = ""
    partition_errors: Mapping[TopicPartition, ErrorCode] = {}
    topic_id: str | None = None


class ControlBatch(NamedTuple):
    """LeaderAndIsr, UpdateMetadata and StopReplica for many brokers, as one message.

    Args:
        controller_id: the sender.
        controller_epoch: its epoch.
        brokers: the target brokers, int32[b].
        broker_epochs: their epochs, int64[b].
        live_brokers: live brokers with their racks.
        parts: LeaderAndIsr requests in order: updates of k distinct partitions each, and which of their assigned
            replicas they are for, bool[k, w].
        stops: replicas to stop, by broker.
    """

    controller_id: int
    controller_epoch: int
    brokers: IntArray
    broker_epochs: NDArray[np.int64]
    live_brokers: Mapping[int, str | None]
    parts: Sequence[tuple[PartitionUpdates, BoolArray]]
    stops: Mapping[int, ReplicaStops]


class AlterPartitions(NamedTuple):
    """ISR changes proposed by many brokers, as one message."""

    proposals: Proposals


class AlteredPartitions(NamedTuple):
    """Response to `AlterPartitions`.

    Args:
        error: an error for all proposals; then the other fields are unused.
        errors: int16[k], error codes.
        states: k states, the new ones where there was no error.
    """

    error: ErrorCode
    errors: NDArray[np.int16]
    states: States

    def by_partition(self, partitions: Partitions) -> Mapping[TopicPartition, LeaderAndIsr | ErrorCode]:
        """Return the result of each proposal: the new state or an error."""
        return {
            TopicPartition(*name): ErrorCode(code) if code else self.states.one(place)
            for place, (name, code) in enumerate(zip(partitions.names(), self.errors.tolist(), strict=True))
        }
