"""The controller of one broker: its queue of events, its election, its failover and its resignation.

Rules of the module (KafkaController, ControllerEventManager; docs/reference/kafka.md §2.1 to §2.3, §2.15):
  - every broker has one; it rules while its broker stands in `/controller`, and else lets events pass;
  - watches and requests only put events into the queue, which are processed one by one, in order;
  - when the session is gone the queue is emptied and the controller resigns before a new session begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.controller.alter_partition import IsrChanges
from simzk.kafka.controller.channels import BrokerRequests
from simzk.kafka.controller.cluster_changes import ClusterChanges
from simzk.kafka.controller.context import ControllerContext, LiveBroker
from simzk.kafka.controller.elections import LeaderElections
from simzk.kafka.controller.legacy_reassignment import LegacyReassignments
from simzk.kafka.controller.log_dir_failures import LogDirFailures
from simzk.kafka.controller.partition_state_machine import PartitionStateMachine
from simzk.kafka.controller.reassignment import Reassignments
from simzk.kafka.controller.replica_state_machine import ReplicaStateMachine
from simzk.kafka.controller.topic_deletion import TopicDeletion
from simzk.kafka.schemas import feature
from simzk.kafka.zookeeper_client.batches import ControllerMovedError, ZooKeeperRefused
from simzk.kafka.zookeeper_client.session import SessionExpiredError, ZooKeeperSession
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION, UNCLEAN_KEY, KafkaZooKeeperClient
from simzk.partitions.row_order import as_they_lie
from simzk.simulation import Future, History, Process, Queue, Task, Timer
from simzk.zookeeper.replies import EventType
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.broker.empty_replicas import EmptyReplicas as LightReplicas
    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.requests import Error
    from simzk.kafka.rpc import Connections
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.partitions.arrays import IntArray

Work = Callable[[], Coroutine[Future[Any], None, None]]

FIRST_REBALANCE_US = 5_000_000


class ControllerEvent(NamedTuple):
    """Something to do in its turn. `always` says that it is done also while the broker is not controller."""

    name: str
    work: Work
    always: bool = False
    preempt: Callable[[], None] | None = None


class KafkaController:
    """The controller that a broker is, or may become.

    Args:
        broker_id: whose.
        process: where it runs.
        session: the broker's session.
        client: the broker's use of it.
        connections: the way to other brokers.
        config: the broker's configuration.
        history: where it says what it does.
        now_ms: the wall clock of the simulated world, for what is written.
        new_topic_id: draws the id of a topic that has none.
        election_delay_us: how long this broker is behind the quickest when it hears that there is no controller;
        asked at
            each election (which broker wins is chance in the real world, and an input here).
        cost_model: how long its work takes; None where it costs nothing.
        light: the replicas of all brokers, where they stand in one table.
    """

    def __init__(
        self,
        broker_id: int,
        process: Process,
        session: ZooKeeperSession,
        client: KafkaZooKeeperClient,
        connections: Connections,
        config: BrokerConfig,
        history: History,
        *,
        now_ms: Callable[[], int],
        new_topic_id: Callable[[], str],
        election_delay_us: Callable[[], int],
        cost_model: CostModel | None = None,
        light: LightReplicas | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.process = process
        self.session = session
        self.client = client
        self.config = config
        self.history = history
        self.new_topic_id = new_topic_id
        self.active_id: int | None = None
        self.context = ControllerContext(
            client.version.orders.collections,
            flat=client.version.orders.has_flat_assignments,
            tells_as_one=light is not None,
        )
        order_us = 0 if cost_model is None else cost_model.order_us
        self.requests = BrokerRequests(broker_id, process, connections, self.context, order_us=order_us, light=light)
        self.requests.on_deletion_response = self._on_deletion_response
        self.log_dirs = LogDirFailures(self)
        self.requests.on_leaders_response = self.log_dirs.on_response
        unclean = config.truth(UNCLEAN_KEY)
        self.replicas = ReplicaStateMachine(self.context, client, self.requests, unclean_by_default=unclean)
        self.partitions = PartitionStateMachine(self.context, client, self.requests, unclean_by_default=unclean)
        self.deletion = TopicDeletion(self)
        self.reassignments = (
            Reassignments(self) if client.version.controller.reassigns_in_topic_znode else LegacyReassignments(self)
        )
        self.elections = LeaderElections(self)
        self.isr_changes = IsrChanges(self)
        self.cluster = ClusterChanges(self)
        self.on_registered: Callable[[], Coroutine[Future[Any], None, None]] | None = None
        self._now_ms = now_ms
        self._election_delay_us = election_delay_us
        self._events: Queue[ControllerEvent] = Queue()
        self._queued: deque[ControllerEvent] = deque()
        self.expire_tokens: Callable[[], Coroutine[Future[Any], None, None]] | None = None
        self._rebalance: Timer | None = None
        self._token_check: Timer | None = None
        self._task: Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether this broker takes itself for the controller."""
        return self.active_id == self.broker_id

    def start(self, *, adopt: bool = False) -> None:
        """Begin to process events; the first is the election.

        Args:
            adopt: take up the rule that the session already has, where it holds `/controller`.
        """
        self._task = self.process.spawn(self._run(), "controller")
        self.put_event("startup", self._adopt if adopt else self._start_up, always=True)

    def put_event(
        self, name: str, work: Work, *, always: bool = False, preempt: Callable[[], None] | None = None
    ) -> None:
        """Do something in its turn; `preempt` is called instead where the queue is emptied first."""
        event = ControllerEvent(name, work, always, preempt)
        self._queued.append(event)
        self._events.put(event)

    async def expire(self) -> None:
        """The session is gone: nothing of what waits is done any more, and the controller resigns."""
        done: Future[None] = Future()

        async def resign() -> None:
            self.active_id = None
            self._resign()
            done.set_result(None)

        waiting, self._queued = self._queued, deque()
        self._events.clear()
        for event in waiting:
            if event.preempt is not None:
                event.preempt()
        self.put_event("expire", resign, always=True)
        await done

    def register_and_reelect(self) -> None:
        """A new session began: register the broker again, then see who is controller."""

        async def work() -> None:
            assert self.on_registered is not None
            await self.on_registered()
            await self._reelect()

        self.put_event("register and re-elect", work, always=True)

    def shut_down(self) -> None:
        """The broker stops: process nothing more, not even the rest of an event."""
        if self._task is not None:
            self._task.cancel()
        self._queued.clear()
        self._events.clear()
        self.active_id = None
        self._resign()

    # -- what the parts use

    def send_metadata(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Tell all brokers who lives, and of some partitions."""
        self.send_metadata_of_rows(self.context.rows_of(partitions))

    def send_metadata_of_rows(self, rows: IntArray) -> None:
        """Tell all brokers who lives, and of some partitions."""
        self.requests.new_batch()
        self.requests.add_metadata(sorted(self.context.brokers), rows)
        self.requests.send()

    def send_metadata_to(self, brokers: Sequence[int], *, of_all: bool = False) -> None:
        """Tell some brokers who lives, and of all partitions or of none."""
        self.requests.new_batch()
        if of_all:
            self.requests.add_metadata_of_all(brokers)
        else:
            self.requests.add_metadata(brokers, np.empty(0, dtype=np.int32))
        self.requests.send()

    async def refresh_leadership(self, rows: IntArray) -> None:
        """Read the states of partitions into the cache, in the order given."""
        rows, turns = as_they_lie(rows)
        states = await self.client.states(self.context.partitions(rows), turns)
        there = states.version >= 0
        self.context.table.put_all(rows[there], states.where(there))

    # -- events

    async def _run(self) -> None:
        while True:
            event = await self._events.get()
            if self._queued and self._queued[0] is event:
                self._queued.popleft()
            if not event.always and not self.is_active:
                if event.preempt is not None:
                    event.preempt()
                continue
            try:
                await event.work()
            except ControllerMovedError:
                self.history.record(f"controller {self.broker_id}", "fenced", event.name)
                if event.preempt is not None:
                    event.preempt()
                await self._guarded(self._maybe_resign)
            except SessionExpiredError:
                if event.preempt is not None:
                    event.preempt()
            except (ZooKeeperRefused, ZnodeError) as problem:
                self.history.record(f"controller {self.broker_id}", "failed", event.name, "", str(problem))

    def note_unusable(self, problem: ZnodeError) -> None:
        """Tell the history of an operator's znode that cannot be used; as in Kafka it is taken for empty."""
        self.history.record(f"controller {self.broker_id}", "znode unusable", problem.where, "", str(problem))

    def note_refusal(self, path: str, what: str, error: Error) -> None:
        """Tell the history of something asked for by znode that is not done."""
        self.history.record(f"controller {self.broker_id}", "refused", what, "", f"{path}: {error.name}")

    def note_doubts(self, path: str, doubts: Sequence[str]) -> None:
        """Tell the history what is odd about an assignment that somebody wrote, and that is taken all the same."""
        for doubt in doubts:
            self.history.record(f"controller {self.broker_id}", "doubtful", path, "", doubt)

    async def _guarded(self, work: Work) -> None:
        try:
            await work()
        except SessionExpiredError:
            return

    def _on_controller_change(self, kind: EventType) -> None:
        if kind != EventType.NODE_DELETED:
            self.put_event("controller change", self._maybe_resign, always=True)
            return
        delay_us = self._election_delay_us()
        if delay_us == 0:
            self.put_event("re-elect", self._reelect, always=True)
        else:
            self.process.call_later(delay_us, lambda: self.put_event("re-elect", self._reelect, always=True))

    async def _start_up(self) -> None:
        self.session.data_handlers[paths.CONTROLLER] = self._on_controller_change
        await self.client.exists(paths.CONTROLLER)
        await self._elect()

    async def _adopt(self) -> None:
        self.session.data_handlers[paths.CONTROLLER] = self._on_controller_change
        await self.client.exists(paths.CONTROLLER)
        self.active_id = await self.client.controller_id()
        if self.active_id is None:
            await self._elect()
        elif self.is_active:
            self.context.epoch, self.context.epoch_version = await self.client.controller_epoch()
            await self._fail_over()

    async def _reelect(self) -> None:
        await self._maybe_resign()
        await self._elect()

    async def _maybe_resign(self) -> None:
        was_active = self.is_active
        await self.client.exists(paths.CONTROLLER)
        self.active_id = await self.client.controller_id()
        if was_active and not self.is_active:
            self._resign()

    async def _elect(self) -> None:
        if self.client.version.client.reads_controller_before_election:
            self.active_id = await self.client.controller_id()
            if self.active_id is not None:
                return
        try:
            epoch, version = await self.client.become_controller(self.broker_id, self._now_ms())
            self.context.epoch, self.context.epoch_version = epoch, version
            self.active_id = self.broker_id
            await self._fail_over()
        except ControllerMovedError:
            await self._maybe_resign()
        except (ZooKeeperRefused, ZnodeError) as problem:
            self.history.record(f"controller {self.broker_id}", "failover failed", "", "", str(problem))
            await self._move()

    async def _move(self) -> None:
        """Something went wrong: make way for another controller."""
        was_active, version = self.is_active, self.context.epoch_version
        self.active_id = await self.client.controller_id()
        if was_active and self.active_id == self.broker_id:
            self.active_id = None
            self._resign()
            await self.client.fenced([Delete(paths.CONTROLLER, -1)], version)

    # -- failover and resignation

    async def _fail_over(self) -> None:
        """Take over, in the order of Kafka 1.1 and later (§2.3)."""
        session, context, client = self.session, self.context, self.client
        await self._set_up_features()
        children = session.child_handlers
        children[paths.BROKER_IDS] = lambda: self.put_event("broker change", self.cluster.process_brokers)
        children[paths.TOPICS] = lambda: self.put_event("topic change", self.cluster.process_topics)
        if client.version.controller.topic_deletion != "by tool":
            children[paths.DELETE_TOPICS] = lambda: self.put_event("topic deletion", self.deletion.process_requests)
        children[paths.LOG_DIR_EVENTS] = lambda: self.put_event("log dir failure", self.log_dirs.process_events)
        children[paths.ISR_CHANGES] = lambda: self.put_event("ISR changes", self.isr_changes.process_notifications)
        self._on_creation(paths.PREFERRED_ELECTION, "preferred election by znode", self.elections.process_znode)
        await client.exists(paths.PREFERRED_ELECTION)
        self._on_creation(paths.REASSIGN_PARTITIONS, "reassignment by znode", self.reassignments.process_znode)
        await client.exists(paths.REASSIGN_PARTITIONS)
        for path in (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
            found = await client.children(path)
            if path == paths.LOG_DIR_EVENTS or client.version.controller.deletes_stale_isr_changes:
                await client.delete_children(path, found, context.epoch_version)
        await self._initialise_context()
        await self.deletion.init()
        self.send_metadata()
        await self.replicas.start()
        await self.partitions.start()
        await self.reassignments.initialise()
        await self.deletion.resume()
        await self.elections.process_pending()
        self.history.record(f"controller {self.broker_id}", "ready", "", "", f"epoch {context.epoch}")
        if self.config.truth("auto.leader.rebalance.enable"):
            self._rebalance = self.process.call_later(FIRST_REBALANCE_US, self._put_rebalance)
        if self.expire_tokens is not None:
            self._token_check = self.process.call_later(0, self._check_tokens)

    async def _set_up_features(self) -> None:
        """A low inter-broker protocol makes no `/feature`, and switches off one that is there (§1.3).

        What is finalised stays, unless it was switched off; a znode that says already what it should is left alone.
        """
        client, version = self.client, self.client.version
        if version.znodes.encode_feature is None:
            return
        found = await client.read(paths.FEATURE)
        status = feature.ENABLED if version.znodes.has_features else feature.DISABLED
        if found is None:
            if version.znodes.has_features:
                await client.create(paths.FEATURE, version.znodes.encode_feature(status, {}))
            return
        present = feature.decode(paths.FEATURE, found[0], version.reading)
        kept = present.features if status == present.status == feature.ENABLED else {}
        wanted = version.znodes.encode_feature(status, kept)
        if feature.decode(paths.FEATURE, wanted, version.reading) != present:
            await self.session.call(SetData(paths.FEATURE, wanted, ANY_VERSION))

    async def _initialise_context(self) -> None:
        context, client = self.context, self.client
        context.brokers = {broker: LiveBroker(*found) for broker, found in (await client.brokers()).items()}
        names = await client.children(paths.TOPICS)
        self.cluster.watch_topics(names)
        texts, columns = await client.all_topics(names)
        if columns is not None:
            context.add_topics(columns)
        await self.cluster.note_topics(texts)
        for path in self.cluster.watch_brokers(sorted(context.brokers)):
            await client.exists(path)
        await self.refresh_leadership(context.all_rows())
        await self.reassignments.load()
        for broker in sorted(context.brokers):
            self.requests.add_broker(broker)

    def _resign(self) -> None:
        """Forget everything that only a controller knows."""
        handled = (paths.BROKER_IDS, paths.TOPICS, paths.DELETE_TOPICS, paths.LOG_DIR_EVENTS, paths.ISR_CHANGES)
        for path in handled:
            self.session.child_handlers.pop(path, None)
        for path in (paths.PREFERRED_ELECTION, paths.REASSIGN_PARTITIONS):
            self.session.data_handlers.pop(path, None)
        self.reassignments.forget()
        for broker in self.context.brokers:
            self.session.data_handlers.pop(paths.broker(broker), None)
        for topic in self.context.topics:
            self.session.data_handlers.pop(paths.topic(topic), None)
        if self._rebalance is not None:
            self._rebalance.cancel()
            self._rebalance = None
        if self._token_check is not None:
            self._token_check.cancel()
            self._token_check = None
        self.requests.shut_down()
        was_controller = self.context.epoch != 0
        self.context.reset()
        if was_controller:
            self.history.record(f"controller {self.broker_id}", "resigned")

    def _on_creation(self, path: str, name: str, work: Work) -> None:
        def handle(kind: EventType) -> None:
            if kind == EventType.NODE_CREATED:
                self.put_event(name, work)

        self.session.data_handlers[path] = handle

    def _on_deletion_response(self, broker: int, partitions: Sequence[TopicPartition], response: Any) -> None:
        self.put_event(
            f"replicas deleted on broker {broker}",
            lambda: self.deletion.process_response(broker, partitions, response),
        )

    def _check_tokens(self) -> None:
        """Beside the queue: tokens are no business of the controller's but for who sees to it."""
        assert self.expire_tokens is not None
        interval_us = self.config.integer("delegation.token.expiry.check.interval.ms") * 1000
        self._token_check = self.process.call_later(interval_us, self._check_tokens)
        self.process.spawn(self._guarded(self.expire_tokens), "expired tokens")

    def _put_rebalance(self) -> None:
        async def work() -> None:
            interval_us = self.config.integer("leader.imbalance.check.interval.seconds") * 1_000_000
            self._rebalance = self.process.call_later(interval_us, self._put_rebalance)
            await self.elections.rebalance()

        self.put_event("auto leader rebalance", work)
