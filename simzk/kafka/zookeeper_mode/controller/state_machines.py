"""State machines of partitions and replicas (PartitionStateMachine, ReplicaStateMachine).

Rules of the module (docs/reference/kafka.md §2.4, §2.5):
  - a transition from a state that is not a valid previous state is skipped (`states.TRANSITIONS`);
  - `simzk.partitions.transitions` decides leaders and ISRs; the state machines read states, write the new ones on
    condition of the version, retry where another write came first, and add control requests to the batch;
  - a state that a controller with a later epoch wrote is not overwritten: the transition fails;
  - a partition without a live replica stays NEW, one without an eligible leader OFFLINE;
  - replicas are handled broker by broker, those of one broker with pipelined reads and writes;
  - Kafka 0.8.0 does not write the state of a replica outside the cached ISR.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.jvm.scala_collections import SMALL, Scala, hash_order, immutable_order, mutable_order
from simzk.jvm.scala_columns import map_order, set_order
from simzk.kafka.zookeeper_mode.controller.states import (
    PartitionState,
    ReplicaState,
    group_by_broker,
    rows_and_brokers,
    transitions_of,
)
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.partitions.arrays import NONE, any_of, broker_mask, count_of, keep, pack, taken
from simzk.partitions.reassignment import in_sync
from simzk.partitions.rules import LastMember
from simzk.partitions.transitions import (
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred,
    first_states,
    initial_leader_and_isr,
    live_members,
    remove_from_isr,
    write_election,
)
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.topic_partition import LeaderAndIsr, PartitionAndReplica, ReplicaAssignment, TopicPartition
    from simzk.kafka.zookeeper_mode.client.session import ZooKeeperSession
    from simzk.kafka.zookeeper_mode.client.zk_client import KafkaZooKeeperClient
    from simzk.kafka.zookeeper_mode.controller.channels import ControllerChannelManager
    from simzk.kafka.zookeeper_mode.controller.context import ControllerContext
    from simzk.kafka.zookeeper_mode.controller.events import ControllerEventManager, ControllerLog
    from simzk.kafka.zookeeper_mode.controller.states import BrokerReplicas
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.partitions.transitions import Election


class Strategy(Enum):
    """Leader election strategy (PartitionLeaderElectionStrategy)."""

    OFFLINE = "offline"
    UNCLEAN = "unclean"
    REASSIGNMENT = "reassignment"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled shutdown"


@dataclass(eq=False)
class _StateMachine:
    """Reads and conditional writes of partition states, shared by both state machines.

    `unclean_by_default` is the broker's `unclean.leader.election.enable`.
    """

    _context: ControllerContext
    _client: KafkaZooKeeperClient
    _channels: ControllerChannelManager
    _unclean_by_default: bool

    def __post_init__(self) -> None:
        self._version = self._client.version
        self._transitions = transitions_of(self._version.number)

    async def _read_states(self, rows: IntArray) -> tuple[IntArray, States]:
        """Read states, without those that do not exist or that a later controller wrote; rows and states."""
        context = self._context
        assert rows.min(initial=0) >= 0, "only a partition with an assignment has a state"
        found = await self._client.states(context.table.partitions(rows))
        assert len(found.version) == len(rows), "each partition is read once"
        present = (found.version >= 0) & (found.controller_epoch <= context.epoch)
        return (rows, found) if present.all() else (rows[present], found.where(present))

    async def _write_states(self, rows: IntArray, states: States) -> tuple[BoolArray, BoolArray]:
        """Write states on condition of their versions, and cache those written; which are written, which outdated."""
        context = self._context
        assert context.has_term, "only an active controller writes states"
        assert len(rows) == len(states.leader)
        errors = await self._client.write_states(context.table.partitions(rows), states, context.epoch_version)
        assert len(errors) == len(rows), "each write has a result"
        is_written = errors == Code.OK
        context.table.put_all(rows[is_written], states.where(is_written))
        return is_written, errors == Code.BAD_VERSION

    async def _unclean_allowed(self, rows: IntArray) -> BoolArray:
        """Read which partitions' topics allow unclean leader election."""
        topics = [partition.topic for partition in self._context.names(rows)]
        allowed = await self._client.unclean_allowed(dict.fromkeys(topics), self._unclean_by_default)
        return np.array([allowed[topic] for topic in topics], dtype=np.bool_)


class PartitionStateMachine(_StateMachine):
    """Transitions of partitions: first leader and ISR, and leader elections."""

    _term = 0
    _most = 0
    """The most partitions of this term, as seen at its elections."""
    _most_earlier = 0

    async def start(self) -> None:
        """Set the state of each partition at a failover, and elect leaders where there is none."""
        context = self._context
        states, table, order = context.partition_states, context.table, context.order
        states.clear()
        rows = order.all_in_map() if self._version.controller.processes_one_by_one else order.all_in_set()
        # The order of `rows` is the order of states. Of a million partitions next to none is NEW or OFFLINE, so all
        # become ONLINE first.
        states.put(rows, PartitionState.ONLINE)
        states.put(rows[table.version[rows] < 0], PartitionState.NEW)
        states.put(context.rows_with_offline_leader(deleted_too=True), PartitionState.OFFLINE)
        assert len(states) == len(rows), "each partition has a state"
        await self.trigger_online()

    async def trigger_online(self, topic: str | None = None) -> None:
        """Try to elect a leader for every partition that is NEW or OFFLINE (of one topic only, if given)."""
        context, version, states = self._context, self._version, self._context.partition_states
        wanted = (PartitionState.OFFLINE, PartitionState.NEW)
        if topic is None:
            waiting = context.rows_in(*wanted, hashed=version.orders.waiting_partitions == "hash map")
        else:
            rows = context.rows_of(context.partitions_of(topic))
            waiting = context.order.in_set(rows[states.are_in(rows, wanted)], hashed=len(rows) > SMALL)
        waiting = waiting[~context.of_topics(waiting, context.to_be_deleted)]
        if version.orders.waiting_partitions == "mutable map":
            waiting = context.order.in_map(waiting)
        if version.controller.processes_one_by_one:
            known = states.rows_in(*PartitionState)
            rows = context.order.in_cleared_map(known, self._most_in_earlier_terms(len(known)))
            waiting = rows[np.isin(rows, waiting)]
        await self.handle_rows(waiting, PartitionState.ONLINE)

    def _most_in_earlier_terms(self, count: int) -> int:
        """Return the most partitions of an earlier term of this process, whose map of states was only cleared."""
        if self._term != self._context.terms:
            self._term, self._most_earlier = self._context.terms, max(self._most_earlier, self._most)
        self._most = max(self._most, count)
        return self._most_earlier

    async def handle(
        self, partitions: Iterable[TopicPartition], target: PartitionState, strategy: Strategy = Strategy.OFFLINE
    ) -> IntArray:
        """Move partitions to a state, as `handle_rows`; unknown partitions are left out."""
        return await self.handle_rows(self._context.rows_of(dict.fromkeys(partitions)), target, strategy)

    async def handle_rows(
        self, rows: IntArray, target: PartitionState, strategy: Strategy = Strategy.OFFLINE
    ) -> IntArray:
        """Move partitions to a state, and send the control requests.

        Args:
            rows: int32[k] of the controller's table, in the order in which they are handled.
            target: the new state.
            strategy: of the leader election, if the new state is ONLINE.

        Returns:
            int32[j], the rows for which a leader was elected.
        """
        if not len(rows):
            return rows
        assert self._context.has_term, "only an active controller changes states"
        states = self._context.partition_states
        valid = rows[states.are_in(rows, self._transitions.partitions[target])]
        if target != PartitionState.ONLINE:
            states.put(valid, target)
            return valid[:0]
        self._channels.new_batch()
        elected = [valid[:0]]
        one_at_a_time = self._version.controller.processes_one_by_one
        for batch in np.split(valid, len(valid)) if one_at_a_time and len(valid) else [valid]:
            try:
                elected += await self._bring_online(batch, strategy)
            except ZnodeError as problem:  # Kafka logs it and leaves the batch in its state
                self._client.unusable(problem)
        self._channels.send()
        await self._channels.spend()
        return np.concatenate(elected)

    async def _bring_online(self, rows: IntArray, strategy: Strategy) -> list[IntArray]:
        states = self._context.partition_states
        are_new = states.are_in(rows, (PartitionState.NEW,))
        new, others = rows[are_new], rows[~are_new]
        elected = [await self._initialise(new)] if len(new) else []
        if len(others):
            elected += await self._elect(others, strategy)
        valid_before = self._transitions.partitions[PartitionState.ONLINE]
        for found in elected:
            assert states.are_in(found, valid_before).all(), "an event changed states while another one waited"
            states.put(found, PartitionState.ONLINE)
        return elected

    async def _initialise(self, rows: IntArray) -> IntArray:
        """Create the state znodes of new partitions; a znode that exists already is kept, and its partition fails."""
        context = self._context
        election = initial_leader_and_isr(
            context.table.replicas[rows], context.live_mask(), context.replicas_on_failed_dirs(rows)
        )
        columns = first_states(election.leader, election.isr, context.epoch)
        chosen = self._set_order(rows, np.flatnonzero(election.elected))
        if not len(chosen):
            return rows[:0]
        names = context.names(rows[chosen])
        states = {
            partition: self._with_listed_isr(partition, columns.one(position))
            for position, partition in zip(chosen.tolist(), names, strict=True)
        }
        codes = await self._client.create_states(states, context.epoch_version)
        assert codes.keys() == states.keys()
        created = chosen[[codes[partition] == Code.OK for partition in names]]
        context.table.put_all(rows[created], columns.at(created))
        self._channels.add_leaders(rows[created], election.isr[created], is_new=True)
        return rows[created]

    def _with_listed_isr(self, partition: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr:
        """Return a first state with the duplicates of the assignment in its ISR, as Kafka writes them (recorded)."""
        listed = self._context.znode_lists.get(partition)
        return state if listed is None else state._replace(isr=tuple(b for b in listed if b in state.isr))

    def _set_order(self, rows: IntArray, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return positions in `rows` in the order of an immutable set of those rows."""
        if len(positions) <= SMALL:
            return positions
        return positions[set_order(self._context.order.hashes(rows[positions]), self._context.scala)]

    async def _elect(self, rows: IntArray, strategy: Strategy) -> list[IntArray]:
        elected: list[IntArray] = []
        while len(rows):
            rows, before = await self._read_states(rows)
            if not len(rows):
                break
            order, after, recipients = await self._decide(rows, before, strategy)
            rows = rows[order]
            is_written, is_outdated = await self._write_states(rows, after.at(order))
            self._channels.add_leaders(rows[is_written], taken(recipients, order[is_written]))
            elected.append(rows[is_written])
            rows = rows[is_outdated]
        return elected

    async def _decide(
        self, rows: IntArray, before: States, strategy: Strategy
    ) -> tuple[NDArray[np.intp], States, IntArray]:
        """Elect leaders; positions of the partitions with a leader in the order of writes, states, recipients."""
        context = self._context
        replicas = context.table.replicas_at(rows)
        assert len(rows) == len(before.leader)
        if strategy == Strategy.REASSIGNMENT:
            replicas = pack([context.assignment(partition).target for partition in context.names(rows)])
        election, order = await self._election(rows, replicas, before, strategy)
        assert len(order) == len(election.leader) == len(rows), "each partition is decided once"
        written = write_election(before, election, controller_epoch=context.epoch, rules=self._version.rules)
        # A broker that shuts down gets the requests that take its leaders away, except in 1.1 and 2.0 (KAFKA-7482).
        informs = strategy == Strategy.CONTROLLED_SHUTDOWN and self._version.controller.informs_stopping_leaders
        live = context.registered().mask if informs else context.live_mask()
        recipients = keep(replicas, live_members(replicas, live, context.replicas_on_failed_dirs(rows)))
        return self._set_order(rows, order[election.elected[order]]), written.after, recipients

    async def _election(
        self, rows: IntArray, replicas: IntArray, before: States, strategy: Strategy
    ) -> tuple[Election, NDArray[np.intp]]:
        """Elect leaders by a strategy; the election, and the order in which Kafka iterates its results."""
        context, rules = self._context, self._version.rules
        live, offline = context.live_mask(), context.replicas_on_failed_dirs(rows)
        order = np.arange(len(rows), dtype=np.intp)
        match strategy:
            case Strategy.PREFERRED:
                leader = context.table.leader[rows]  # cached: an election whose reply was lost is written again
                return elect_preferred(replicas, before.isr, leader, live, offline, rules=rules), order
            case Strategy.REASSIGNMENT:
                return elect_for_reassignment(replicas, before.isr, live, offline, rules), order
            case Strategy.CONTROLLED_SHUTDOWN:
                registered, leaving = context.registered().mask, broker_mask(sorted(context.shutting_down))
                election = elect_for_controlled_shutdown(
                    replicas, before.isr, before.leader, registered, leaving, offline, rules
                )
                return election, order
            case Strategy.OFFLINE | Strategy.UNCLEAN:
                in_sync = any_of(live_members(before.isr, live, offline))
                unclean_candidates = order[~in_sync]
                allowed = np.full(len(rows), strategy == Strategy.UNCLEAN, dtype=np.bool_)
                if strategy == Strategy.OFFLINE:  # Kafka reads the configs of topics without a live ISR member only
                    allowed[unclean_candidates] = await self._unclean_allowed(rows[unclean_candidates])
                election = elect_offline(replicas, before.isr, live, allowed, offline, rules)
                return election, np.concatenate([unclean_candidates, order[in_sync]])


class ReplicaStateMachine(_StateMachine):
    """Transitions of replicas: start, stop, removal from the ISR, deletion."""

    async def start(self) -> None:
        """Set the state of each replica at a failover; dead replicas leave the ISRs (KAFKA-3143)."""
        context = self._context
        is_online = context.online_replicas()
        context.replica_states.put_all(is_online, ReplicaState.ONLINE, self._transitions.dead_at_start)
        if self._channels.batches_requests:
            await self._send_online(is_online)
        else:
            await self.handle_rows(*self._in_map(is_online), ReplicaState.ONLINE)
        offline = self._in_map(~is_online & (context.table.replicas != NONE))
        if self._version.rules.failover_trims_dead:
            await self.handle_rows(*offline, ReplicaState.OFFLINE)

    async def _send_online(self, is_online: BoolArray) -> None:
        """Send leaders to all online replicas, like `handle_rows` does for ONLINE replicas that become ONLINE again.

        The order of one message to all brokers is unobservable, which saves sorting all replicas of the cluster.
        """
        table, rows = self._context.table, self._context.table.rows()
        rows = rows[table.version[rows] >= 0]
        self._channels.new_batch()
        self._channels.add_leaders(rows, np.where(is_online[rows], table.replicas[rows], np.int32(NONE)))
        self._channels.send()
        await self._channels.spend()

    def _in_map(self, chosen: BoolArray) -> tuple[IntArray, IntArray]:
        """Return rows and brokers of some of all replicas, in the order of a mutable map of replicas."""
        context = self._context
        assert chosen.shape == context.table.replicas.shape
        rows = context.order.all_in_map()
        chosen = chosen[rows]
        brokers = context.table.replicas[rows][chosen]
        rows = np.repeat(rows, count_of(chosen))
        assert len(rows) == len(brokers), "each chosen replica has its row"
        order = map_order(context.order.replica_hashes(rows, brokers), context.scala)
        return rows[order], brokers[order]

    async def handle(self, replicas: Sequence[PartitionAndReplica], target: ReplicaState) -> None:
        """Move replicas to a state, as `handle_rows`; replicas of unknown partitions are left out."""
        await self.handle_rows(*rows_and_brokers(replicas, self._context.table), target)

    async def handle_rows(self, rows: IntArray, brokers: IntArray, target: ReplicaState) -> None:
        """Move replicas to a state, and send the control requests.

        Args:
            rows: int32[k] of the controller's table, in the order in which they are handled.
            brokers: int32[k], the broker of each replica.
            target: the new state.
        """
        assert len(rows) == len(brokers)
        if not len(rows):
            return
        self._channels.new_batch()
        if self._version.controller.processes_one_by_one:
            groups = [(broker, rows[[position]]) for position, broker in enumerate(brokers.tolist())]
        else:
            by_broker = dict(group_by_broker(rows, brokers))
            groups = [(broker, by_broker[broker]) for broker in _group_order(list(by_broker), self._context.scala)]
        assert sum(len(rows_on) for _, rows_on in groups) == len(rows), "each replica is handled once"
        for broker, rows_on in groups:
            try:
                await self._handle_broker(broker, rows_on, target)
            except ZnodeError as problem:  # Kafka logs it and leaves the replicas of this broker in their states
                self._client.unusable(problem)
        self._channels.send()
        await self._channels.spend()

    async def _handle_broker(self, broker: int, rows: IntArray, target: ReplicaState) -> None:
        states = self._context.replica_states
        found = states.of_broker(broker, rows)
        found = found.where(found.are_in(self._transitions.replicas[target]))
        valid = found.rows
        match target:
            case ReplicaState.NEW:
                self._enter_new(broker, valid)
            case ReplicaState.ONLINE:
                self._enter_online(found)
            case ReplicaState.OFFLINE:
                await self._enter_offline(broker, valid)
            case ReplicaState.DELETION_STARTED:
                states.put(valid, broker, ReplicaState.DELETION_STARTED)
                self._channels.add_stops(broker, valid, delete=True)
            case ReplicaState.NON_EXISTENT:
                if self._transitions.stops_at_end:
                    self._channels.add_stops(broker, valid, delete=True)
                states.put(valid, broker, None)
                for partition in self._context.names(valid):
                    self._unassign(broker, partition)
            case _:
                states.put(valid, broker, target)

    def _enter_new(self, broker: int, rows: IntArray) -> None:
        table = self._context.table
        has_state = table.version[rows] >= 0
        # A leader cannot be NEW: Kafka fails with a StateChangeFailedException.
        entering = ~has_state | (table.leader[rows] != broker)
        self._channels.add_leaders_on(broker, rows[entering & has_state], is_new=True)
        self._context.replica_states.put(rows[entering], broker, ReplicaState.NEW)

    def _enter_online(self, found: BrokerReplicas) -> None:
        context, broker, rows = self._context, found.broker, found.rows
        are_new = found.are_in((ReplicaState.NEW,))
        for partition in context.names(rows[are_new]):
            assignment = context.assignment(partition)
            if broker not in assignment.replicas:
                wider = assignment._replace(replicas=(*assignment.replicas, broker))
                context.set_assignment(partition, wider)
        has_state = context.table.version[rows] >= 0
        self._channels.add_leaders_on(broker, rows[has_state & ~are_new])
        if are_new.any():  # a changed assignment invalidates `found`
            found = context.replica_states.of_broker(broker, rows)
        context.replica_states.put_found(found, ReplicaState.ONLINE)

    async def _enter_offline(self, broker: int, rows: IntArray) -> None:
        context, channels, states = self._context, self._channels, self._context.replica_states
        channels.add_stops(broker, rows, delete=False)
        has_state = context.table.version[rows] >= 0
        with_state = rows if has_state.all() else rows[has_state]
        if not self._version.controller.reads_isr_before_offline:
            in_cached_isr = any_of(context.table.isr[with_state] == broker)
            states.put(with_state[~in_cached_isr], broker, ReplicaState.OFFLINE)
            with_state = with_state[in_cached_isr]
        removed = await self._remove_from_isr(broker, with_state)
        assert len(removed) <= len(with_state), "a replica leaves an ISR once"
        informed = removed[~context.of_topics(removed, context.to_be_deleted)]
        if self._version.controller.sends_shrunk_isr_to_leader_alone:
            channels.add_leaders(informed, context.table.leader[informed][:, None])
        else:
            channels.add_leaders_except_on(broker, informed)
        states.put(removed, broker, ReplicaState.OFFLINE)
        if not self._transitions.leaderless_stay and not has_state.all():
            leaderless = rows[context.table.version[rows] < 0]
            if len(leaderless):
                channels.add_metadata(list(context.registered().racks), leaderless)
                states.put(leaderless, broker, ReplicaState.OFFLINE)

    async def _remove_from_isr(self, broker: int, rows: IntArray) -> IntArray:
        """Remove a replica from ISRs; return the partitions that do not have it in the ISR afterwards."""
        context, removed = self._context, [rows[:0]]
        while len(rows):
            rows, before = await self._read_states(rows)
            # The order in which Kafka iterates the states that it read: a set of a map.
            order = context.order.positions_in_map(rows)
            assert len(order) == len(rows), "a row is repeated"
            order = order[set_order(context.order.hashes(rows[order]), context.scala)]
            rows, before = rows[order], before.at(order)
            is_member = any_of(before.isr == broker)
            if not is_member.all():
                context.table.put_all(rows[~is_member], before.where(~is_member))
                removed.append(rows[~is_member])
            rows, after = await self._without(broker, rows, before, is_member)
            is_written, is_outdated = await self._write_states(rows, after)
            removed.append(rows[is_written])
            rows = rows[is_outdated]
        return np.concatenate(removed)

    async def _without(
        self, broker: int, rows: IntArray, before: States, is_member: BoolArray
    ) -> tuple[IntArray, States]:
        """Return rows and new states of the partitions with a replica in their ISRs, in the order of writes.

        `rows` are in the order of a set; `is_member`, bool[k], says whether the replica is in the ISR.
        """
        assert len(is_member) == len(rows) == len(before.leader)
        chosen = np.flatnonzero(is_member)
        rules, order = self._version.rules, self._context.order
        unclean: BoolArray | bool = False
        if rules.last_member == LastMember.KEPT_IF_CLEAN:  # only then the last ISR member depends on the topic's config
            unclean = await self._unclean_allowed(rows[chosen])
        if len(chosen) < len(rows):  # a filtered set is built anew, and a hash set stays one
            again = set_order(order.hashes(rows[chosen]), self._context.scala, hashed=len(rows) > SMALL)
            chosen = chosen[again]
            unclean = unclean if isinstance(unclean, bool) else unclean[again]
        states = before.at(chosen)
        epoch = self._context.epoch
        removal = remove_from_isr(states, broker, controller_epoch=epoch, unclean_allowed=unclean, rules=rules)
        assert removal.changed.all()
        return rows[chosen], removal.after

    def _unassign(self, broker: int, partition: TopicPartition) -> None:
        """Remove a replica from the cached assignment; the last one stays there until its topic is removed."""
        before = self._context.assignment(partition)
        after = tuple(tuple(other for other in ids if other != broker) for ids in before)
        if after[0]:
            self._context.set_assignment(partition, type(before)(*after))


def _group_order(brokers: list[int], scala: Scala) -> list[int]:
    """Return brokers in the key order of a `groupBy`: from 2.13 on a hash map, before an immutable map."""
    if scala == "2.13":
        return hash_order(brokers, scala)
    return immutable_order(mutable_order(brokers, scala), scala)


@dataclass(eq=False)
class ControllerPart:
    """Base of the parts of a controller: the state and the services that process its events."""

    _context: ControllerContext
    _client: KafkaZooKeeperClient
    _session: ZooKeeperSession
    _config: BrokerConfig
    _events: ControllerEventManager
    _log: ControllerLog
    _channels: ControllerChannelManager
    _partitions: PartitionStateMachine
    _replicas: ReplicaStateMachine

    async def _are_in_sync(self, partition: TopicPartition, target: Sequence[int]) -> bool:
        state = await self._client.state(partition)
        return state is not None and bool(in_sync(pack([target]), pack([state.isr]))[0])

    async def _write_topic(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._context
        present = context.znode_assignment(partition.topic)
        present[partition.partition] = assignment
        topic = TopicZnode(present, context.topic_ids[partition.topic])
        await self._client.write_topic(partition.topic, topic, context.epoch_version)
