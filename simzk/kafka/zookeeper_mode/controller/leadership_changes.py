"""Leader elections, controlled shutdowns and ISR changes that operators, brokers and timers request.

Rules of elections (docs/reference/kafka.md §2.12, §2.14):
  - a preferred election by znode ends with the deletion of the znode, whatever its result. Before 2.2 a partition
    without a leader in the controller's cache makes the election fail, and the znode stays. Up to 0.10 the controller
    then remembers all its partitions: it ignores them in later requests, elects no leaders automatically, and its next
    failovers fail (recorded);
  - the automatic rebalance (checkAndTriggerAutoLeaderRebalance) counts partitions by preferred broker. Where another
    broker leads more than `leader.imbalance.per.broker.percentage` of them, the preferred broker is elected for those
    that it can lead now (before 2.6: for all, if it is live). Up to 3.3 it pauses while any partition is being
    reassigned; later releases do not even leave out the reassigned ones (KAFKA-10149).

Rules of ISR changes (KafkaController.processAlterPartition, in the order of its checks; §2.8; KIP-497, KIP-841):
  - a request of a broker that is not registered, or with another broker epoch, is rejected as a whole;
  - a proposal is rejected if its epochs are ahead of the controller's (this controller was replaced) or behind them, or
    if an ISR member is not live; a proposal of the present state succeeds without a write;
  - accepted proposals are written on condition of the version, without a new leader epoch;
  - up to 2.6 leaders write ISRs themselves and announce them by sequential znodes: the controller reads those states
    again, sends them to all brokers, and deletes the znodes. Later controllers still do so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.jvm.hash_codes import product_hash
from simzk.jvm.scala_collections import SMALL, ScalaSet, immutable_order, mutable_set_order
from simzk.kafka.metadata.changes import Proposals
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import (
    UNKNOWN_BROKER_EPOCH,
    AlteredPartitions,
    IsrChangeRequest,
    IsrChangeResponse,
    ShutdownRequest,
    ShutdownResponse,
)
from simzk.kafka.topic_partition import PartitionAndReplica, TopicPartition, partition_set
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION
from simzk.kafka.zookeeper_mode.controller.channels import UnsentRequestError
from simzk.kafka.zookeeper_mode.controller.state_machines import ControllerPart, Strategy
from simzk.kafka.zookeeper_mode.controller.states import PartitionState, ReplicaState
from simzk.kafka.zookeeper_mode.schemas.admin import decode_partitions
from simzk.partitions.arrays import NONE, among, any_of, by_broker, sizes, widen
from simzk.partitions.states import States, no_states
from simzk.partitions.transitions import imbalance, requires_controlled_shutdown
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from simzk.kafka.zookeeper_mode.client.zk_client import KafkaZooKeeperClient
    from simzk.kafka.zookeeper_mode.controller.context import ControllerContext
    from simzk.kafka.zookeeper_mode.controller.reassignment import Reassignments
    from simzk.kafka.zookeeper_mode.controller.topic_deletion import TopicDeletion
    from simzk.partitions.arrays import BoolArray, IntArray

_FAILURE = {
    Strategy.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    Strategy.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


async def requested_elections(client: KafkaZooKeeperClient) -> list[TopicPartition]:
    """Return the partitions that `/admin/preferred_replica_election` names.

    Raises:
        ZnodeError: the znode is invalid in a way that makes Kafka throw an exception.
    """
    path = paths.PREFERRED_ELECTION
    found = await client.read(path)
    if found is None:
        return []
    if client.version.controller.fails_on_invalid_json:
        return decode_partitions(path, found[0], client.version.reading)
    return client.decode(decode_partitions, path, found[0]) or []


@dataclass(eq=False)
class LeaderElections(ControllerPart):
    """Elections requested by znode, by API or by the rebalance timer."""

    _deletion: TopicDeletion
    """Deletions of topics, which a preferred election halts up to 0.10."""

    async def process_znode(self) -> None:
        """Handle the creation of `/admin/preferred_replica_election`, once for each watcher of this broker."""
        rules = self._client.version.controller
        for _ in range(self._context.terms if rules.keeps_request_watchers else 1):
            await self._process_znode()

    async def _process_znode(self) -> None:
        context, version = self._context, self._client.version
        if not await self._client.exists(paths.PREFERRED_ELECTION):
            return
        requested = await requested_elections(self._client)
        if version.controller.keeps_requests:
            new = partition_set(requested, context.collections)
            new = new.filter(lambda p: p not in context.pending_elections and p.topic not in context.to_be_deleted)
            await self._elect_and_forget(list(new))
            return
        await self.elect(requested, Strategy.PREFERRED, again=version.rules.preferred_again)
        failed = self._failing([partition for partition in requested if partition.topic not in context.to_be_deleted])
        if not failed or not version.controller.fails_on_unknown_partition:
            await self._delete_znode()

    async def load(self) -> None:
        """Read the pending elections at a failover, before leaders are elected (0.8.1 to 0.10)."""
        if self._client.version.controller.reads_elections_first:
            pending = self._pending(await requested_elections(self._client))
            self._context.pending_elections.update(dict.fromkeys(pending))

    async def process_pending(self) -> None:
        """Carry out the elections in the znode at a failover, and delete it.

        Up to 0.10 the controller also resumes the elections that failed in its earlier terms.

        Raises:
            ZnodeError: a partition without a leader in the controller's cache makes the failover fail (before 2.2).
        """
        context, rules = self._context, self._client.version.controller
        if not rules.reads_elections_first:
            pending = self._pending(await requested_elections(self._client))
            if not rules.keeps_requests:
                pending = [partition for partition in pending if partition.topic not in context.to_be_deleted]
                await self._partitions.handle(pending, PartitionState.ONLINE, Strategy.PREFERRED)
                await self._delete_znode()
                return
            context.pending_elections.update(dict.fromkeys(pending))
        hash_of = context.collections.partition_hash
        remembered = mutable_set_order(context.pending_elections, context.scala, hash_of)
        failed = await self._elect_and_forget(list(partition_set(remembered, context.collections)))
        if failed:
            raise self._no_leader(failed[0])
        assert not context.pending_elections, "an election that did not fail has ended"

    def _pending(self, requested: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the known partitions of a request that the preferred replica does not lead yet."""
        context, rules = self._context, self._client.version.controller
        pending = []
        for partition in requested:
            state = context.leadership(partition)
            if partition not in context.table:
                if rules.fails_on_unknown_pending:
                    raise self._no_leader(partition)
            elif state is None and rules.fails_on_unknown_partition:
                raise self._no_leader(partition)
            elif state is None or state.leader != context.assignment(partition).replicas[0]:
                pending.append(partition)
        return pending

    def _no_leader(self, partition: TopicPartition) -> ZnodeError:
        what = f"{partition} has no leader that the controller knows"
        return ZnodeError(what, where=paths.PREFERRED_ELECTION, right="partitions with a leader")

    async def _elect_and_forget(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Elect preferred replicas and delete the znode (onPreferredReplicaElection up to 0.10).

        A partition without a leader in the controller's cache makes Kafka throw before it deletes the znode, and
        before it forgets the partitions.

        Returns:
            the partitions that made it fail.
        """
        context = self._context
        topics = dict.fromkeys(partition.topic for partition in partitions)
        context.pending_elections.update(dict.fromkeys(partitions))
        self._deletion.mark_ineligible(topics)
        known = [partition for partition in partitions if partition in context.table]
        await self._partitions.handle(known, PartitionState.ONLINE, Strategy.PREFERRED)
        failed = self._failing(partitions)
        if not failed:
            await self._delete_znode()
            for partition in partitions:
                assert partition in context.pending_elections, "another event ended the election"
                del context.pending_elections[partition]
            await self._deletion.resume_topics(topics)
        return failed

    def _failing(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions without a leader in the controller's cache, and record those that are unknown."""
        context = self._context
        failing = []
        for partition in partitions:
            if partition not in context.table:
                request, error = f"preferred election of {partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                self._log.record_refusal(paths.PREFERRED_ELECTION, request, error)
            elif context.leadership(partition) is not None:
                continue
            failing.append(partition)
        return failing

    async def elect(
        self, partitions: Sequence[TopicPartition] | None, strategy: Strategy, *, again: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Elect leaders of some partitions, or of all, and return the result by partition.

        Args:
            partitions: all if None.
            strategy: of the election.
            again: whether partitions that need no election get one nevertheless.
        """
        assert strategy in _FAILURE, f"nobody requests the election strategy {strategy}"
        context = self._context
        requested: ScalaSet[TopicPartition] = partition_set(
            context.names(context.order.all_in_set()) if partitions is None else partitions, context.collections
        )
        errors: dict[TopicPartition, ErrorCode] = {}
        for partition in requested:
            if partition not in context.table:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif partition.topic in context.to_be_deleted:
                errors[partition] = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif not again and not self._is_needed(partition, strategy):
                errors[partition] = ErrorCode.ELECTION_NOT_NEEDED
        electable = list(requested.filter(lambda partition: partition not in errors))
        elected = set(context.names(await self._partitions.handle(electable, PartitionState.ONLINE, strategy)))
        for partition in electable:
            errors[partition] = ErrorCode.NONE if partition in elected else _FAILURE[strategy]
        assert errors.keys() == set(requested), "each partition has a result"
        return errors

    async def rebalance(self) -> None:
        """Elect preferred replicas of brokers that lead too few of their partitions."""
        context, table = self._context, self._context.table
        percentage = self._config.integer("leader.imbalance.per.broker.percentage")
        rows = context.order.all_in_set()
        rows = rows[~context.of_topics(rows, context.to_be_deleted)]
        heads = table.replicas[rows, 0]
        found = imbalance(heads, table.states(rows))
        for broker in found.brokers(percentage):
            paused = context.being_reassigned and not self._client.version.controller.rebalances_during_reassignment
            if not paused and not context.pending_elections:
                eligible = context.order.in_set(self._eligible(broker, rows[found.misplaced & (heads == broker)]))
                await self._partitions.handle_rows(eligible, PartitionState.ONLINE, Strategy.PREFERRED)

    def _is_needed(self, partition: TopicPartition, strategy: Strategy) -> bool:
        context = self._context
        state = context.leadership(partition)
        leader = None if state is None else state.leader
        if strategy == Strategy.PREFERRED:
            return leader != context.assignment(partition).replicas[0]
        return leader is None or not context.is_online(leader, partition)

    def _eligible(self, broker: int, rows: IntArray) -> IntArray:
        """Return the partitions that a broker can lead now; before 2.6 all of them, if it is live."""
        context = self._context
        rows = rows[~np.isin(rows, context.rows_of(context.on_failed_dirs.get(broker, {})))]
        assert (context.table.leader[rows] != broker).all(), f"broker {broker} leads a misplaced partition"
        if not context.is_live(broker):
            return rows[:0]
        if self._client.version.controller.rebalances_only_eligible:
            rows = rows[any_of(context.table.isr[rows] == broker)]
        return rows

    async def _delete_znode(self) -> None:
        await self._client.fenced([Delete(paths.PREFERRED_ELECTION, ANY_VERSION)], self._context.epoch_version)
        # The handler is registered, so `exists` sets the watch for the next creation.
        await self._client.exists(paths.PREFERRED_ELECTION)


class ControlledShutdowns(ControllerPart):
    """Controlled shutdowns of brokers (KafkaController.doControlledShutdown)."""

    async def process(self, request: ShutdownRequest) -> ShutdownResponse:
        """Move leaders away from a broker that shuts down, remove it from ISRs, and return what it still leads."""
        try:
            return await self._process(request)
        except UnsentRequestError as problem:
            self._log.record("failed", f"controlled shutdown of broker {request.broker_id}", str(problem))
            return ShutdownResponse(ErrorCode.UNKNOWN_SERVER_ERROR, ())

    async def _process(self, request: ShutdownRequest) -> ShutdownResponse:
        context = self._context
        broker = request.broker_id
        live = context.brokers.get(broker)
        if live is None:
            return ShutdownResponse(ErrorCode.BROKER_NOT_AVAILABLE, ())
        if UNKNOWN_BROKER_EPOCH != request.broker_epoch < live.epoch:
            return ShutdownResponse(ErrorCode.STALE_BROKER_EPOCH, ())
        context.shutting_down[broker] = None
        rows, table = context.order.on_broker_in_set(broker), context.table
        hashed = len(rows) > SMALL
        assert not context.is_live(broker), "a broker that shuts down leads nothing more"
        concerned = requires_controlled_shutdown(*table.replicas_and_states(rows))
        concerned &= ~context.of_topics(rows, context.to_be_deleted)
        if self._client.version.controller.processes_one_by_one:
            moved = set(context.names(rows[concerned]))
            for partition in self._one_at_a_time_order(broker, context.names(rows)):
                if partition in moved:
                    await self._remove_one(broker, partition)
            rows = rows[concerned]
        else:
            if not concerned.all():  # a set that loses no element is not built anew
                rows = context.order.in_set(rows[concerned], hashed=hashed)
            await self._remove_all(broker, rows, hashed=hashed)
        if broker in context.orphaned_leaders.values() and self._client.version.controller.fails_at_removed_topics:
            why = "it leads a partition of a removed topic"
            self._log.record("failed", f"controlled shutdown of broker {broker}", why)
            return ShutdownResponse(ErrorCode.UNKNOWN_SERVER_ERROR, ())
        rows = rows[table.leader[rows] == broker]
        return ShutdownResponse(ErrorCode.NONE, tuple(context.names(context.order.in_set(rows, hashed=hashed))))

    async def _remove_all(self, broker: int, rows: IntArray, *, hashed: bool) -> None:
        """Move the leaders of partitions away from a broker, and remove it from the ISRs of those that it follows.

        `rows` are in the order of a set; `hashed` if that is a hash set whatever its size.
        """
        context, order = self._context, self._context.order
        assert broker in context.shutting_down, f"broker {broker} has not requested a controlled shutdown"
        leads = context.table.leader[rows] == broker
        led, followed = order.in_set(rows[leads], hashed=hashed), order.in_set(rows[~leads], hashed=hashed)
        assert len(led) + len(followed) == len(rows), "a broker leads or follows each of its partitions"
        await self._partitions.handle_rows(led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
        self._stop(broker, followed)
        brokers = np.full(len(followed), broker, dtype=np.int32)
        followed = followed[order.positions_in_replica_set(followed, brokers, hashed=hashed)]
        await self._replicas.handle_rows(followed, brokers, ReplicaState.OFFLINE)

    async def _remove_one(self, broker: int, partition: TopicPartition) -> None:
        """Move the leader of one partition away from a broker, or remove the broker from its ISR (up to 1.0)."""
        state = self._context.leadership(partition)
        if state is not None and state.leader == broker:
            await self._partitions.handle([partition], PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
            return
        assert broker in self._context.shutting_down, f"broker {broker} has not requested a controlled shutdown"
        self._stop(broker, self._context.rows_of([partition]))
        await self._replicas.handle([PartitionAndReplica(partition, broker)], ReplicaState.OFFLINE)

    def _stop(self, broker: int, rows: IntArray) -> None:
        """Send StopReplica for replicas on the broker that shuts down."""
        self._channels.require_sent()
        self._channels.new_batch()
        self._channels.add_stops(broker, rows, delete=False)
        self._channels.send()

    def _one_at_a_time_order(self, broker: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions on a broker in the order of a set of pairs with the replication factor (up to 1.0).

        0.8.0 reads the topic znodes instead.
        """
        context = self._context
        if self._client.version.controller.reads_topics_of_brokers:
            return context.partitions_as_read(broker)
        pairs = [(partition, len(context.assignment(partition).replicas)) for partition in partitions]
        partition_hash = context.collections.partition_hash
        ordered = immutable_order(pairs, context.scala, lambda pair: product_hash(partition_hash(pair[0]), pair[1]))
        return [partition for partition, _ in ordered]


_OUTDATED, _FAILED = ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR
"""Results of a write that came after another write of the znode, and of one that failed otherwise."""
_NOT_REGISTERED = np.iinfo(np.int64).min
"""Less than any broker epoch."""


@dataclass(eq=False)
class IsrChanges(ControllerPart):
    """ISR changes by partition leaders."""

    _reassignments: Reassignments
    """Those in progress, which an ISR change may complete."""

    async def process(self, request: IsrChangeRequest) -> IsrChangeResponse:
        """Handle a request of one leader, and return the new state or an error by partition."""
        broker = self._context.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return IsrChangeResponse(ErrorCode.STALE_BROKER_EPOCH, {})
        distinct = list({proposal.partition: proposal for proposal in request.proposals}.values())
        proposals = Proposals.of_one(request.broker_id, request.broker_epoch, distinct)
        altered = await self.process_many(proposals, in_order=True)
        return IsrChangeResponse(ErrorCode.NONE, altered.by_partition(proposals.partitions))

    async def process_many(self, proposals: Proposals, *, in_order: bool = False) -> AlteredPartitions:
        """Handle proposals of many leaders.

        Args:
            proposals: k proposals of distinct partitions.
            in_order: whether partitions with equal hashes are written in the order of `proposals`; otherwise by name,
                because proposals of many leaders have no order that Kafka defines.
        """
        context = self._context
        rows = context.table.find_all(proposals.partitions)
        states = context.table.states(np.maximum(rows, 0)) if len(context.table) else no_states(len(rows), 1)
        errors, is_present = self._validate(rows, states, proposals)
        assert len(errors) == len(is_present) == len(rows)
        accepted = np.flatnonzero((errors == 0) & ~is_present)
        accepted = accepted[context.order.positions_in_map(rows[accepted], in_order=in_order)]
        if context.scala != "2.13":  # the map of accepted proposals; in 2.13 it has the order of the map of all
            accepted = accepted[context.order.positions_in_map(rows[accepted])]
        assert rows[accepted].min(initial=0) >= 0, "a proposal for an unknown partition is accepted"
        written = proposals.at(accepted)
        after = States(
            leader=written.leader,
            leader_epoch=written.leader_epoch,
            isr=written.isr,
            controller_epoch=np.full(len(accepted), context.epoch, dtype=np.int32),
            version=written.version + np.int32(1),
            recovering=written.recovering,
        )
        partitions = context.table.partitions(rows[accepted])
        codes = await self._client.write_states(partitions, after, context.epoch_version)
        assert len(codes) == len(accepted), "each accepted proposal is written once"
        errors[accepted] = np.where(codes == Code.BAD_VERSION, _OUTDATED, np.where(codes == Code.OK, 0, _FAILED))
        width = max(states.isr.shape[1], after.isr.shape[1])
        states = states._replace(isr=widen(states.isr, width))
        states.put(accepted, after._replace(isr=widen(after.isr, width)))
        await read_states(context, self._client, context.order.in_set(rows[accepted][codes == Code.OK]))
        self._channels.send_metadata_of_rows(rows[rows >= 0])
        return AlteredPartitions(ErrorCode.NONE, errors, states)

    async def process_notifications(self) -> None:
        """Handle a change of the children of `/isr_change_notification`; all are deleted, also unusable ones."""
        client = self._client
        names = await client.children(paths.ISR_CHANGES)
        try:
            announced = await client.notifications(paths.ISR_CHANGES, names, decode_partitions)
            await self._update([partition for changed in announced for partition in changed])
        except Exception:  # not `finally`: a killed broker deletes nothing
            await client.delete_children(paths.ISR_CHANGES, names, self._context.epoch_version)
            raise
        await client.delete_children(paths.ISR_CHANGES, names, self._context.epoch_version)

    async def _update(self, changed: list[TopicPartition]) -> None:
        context = self._context
        if changed:
            await read_states(context, self._client, context.rows_of(changed))
            self._channels.send_metadata(changed)
        if self._client.version.broker.uses_alter_isr:  # otherwise a watch on the state completes reassignments (§2.11)
            for partition in [p for p in changed if p in context.being_reassigned]:
                await self._reassignments.maybe_complete(partition)

    def _validate(self, rows: IntArray, present: States, proposed: Proposals) -> tuple[NDArray[np.int16], BoolArray]:
        """Return an error code by proposal, 0 for none, and whether it proposes the present state."""
        context, strict = self._context, self._client.version.controller.validates_isr_changes
        known = (rows >= 0) & (present.version >= 0)
        assert len(rows) == len(present.leader) == len(proposed.leader)
        width = max(proposed.isr.shape[1], present.isr.shape[1])
        same_isr = ~any_of(widen(proposed.isr, width) != widen(present.isr, width))
        is_present = same_isr & (proposed.leader == present.leader) & (proposed.recovering == present.recovering)
        is_present &= known
        ahead = (proposed.version > present.version) | (proposed.leader_epoch > present.leader_epoch)
        epochs = by_broker({broker: live.epoch for broker, live in context.brokers.items()}, _NOT_REGISTERED)
        registered = epochs.take(np.where(proposed.leader < len(epochs), proposed.leader, NONE))
        checks = (
            (registered != proposed.broker_epoch, ErrorCode.STALE_BROKER_EPOCH),
            (~known, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (ahead & strict, ErrorCode.NOT_CONTROLLER),
            (proposed.leader_epoch < present.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
            (is_present, ErrorCode.NONE),
            ((proposed.version < present.version) & strict, ErrorCode.INVALID_UPDATE_VERSION),
            (proposed.recovering & ((sizes(proposed.isr) > 1) | ~present.recovering), ErrorCode.INVALID_REQUEST),
            (
                any_of((proposed.isr != NONE) & ~among(proposed.isr, context.live_mask())) & strict,
                ErrorCode.INELIGIBLE_REPLICA,
            ),
        )
        errors = np.select([check for check, _ in checks], [np.int16(error) for _, error in checks], np.int16(0))
        return errors.astype(np.int16), is_present


async def read_states(context: ControllerContext, client: KafkaZooKeeperClient, rows: IntArray) -> None:
    """Read partition states into the cache (updateLeaderAndIsrCache), in the order of `rows`."""
    states = await client.states(context.table.partitions(rows))
    assert len(states.version) == len(rows), "each partition is read once"
    exists = states.version >= 0
    context.table.put_all(rows[exists], states.where(exists))
