"""Controller of a broker: election, failover, resignation, and the processing of its events.

Rules of the module (KafkaController; docs/reference/kafka.md §2.1 to §2.3, §2.15):
  - every broker has one; it is active while `/controller` names its broker, otherwise it skips most events;
  - watchers and requests only add events to the queue; `ControllerEventManager` processes them one by one;
  - when the session expires, the queue is cleared and the controller resigns before a new session begins. Up to 1.0 it
    first processes what waits, in the new session, and then resigns (KAFKA-3083);
  - up to 0.10.1 a controller that has resigned still handles what waits behind its resignation (`FormerController`);
  - when a failover fails, the broker stays or resigns, as its release does (`failed_failover` of its profile);
  - a `ControllerPart` processes each kind of event, with the context (state), the ZooKeeper client, the channels to the
    brokers and the state machines. No part refers to `KafkaController`.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from simzk.errors import ZnodeError
from simzk.jvm.scala_collections import immutable_order
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError, ZooKeeperSession
from simzk.kafka.zookeeper_mode.client.zk_client import (
    ANY_VERSION,
    UNCLEAN_KEY,
    ControllerMovedError,
    KafkaZooKeeperClient,
    ZooKeeperRefused,
)
from simzk.kafka.zookeeper_mode.controller.channels import ControllerChannelManager, UnsentRequestError
from simzk.kafka.zookeeper_mode.controller.cluster_changes import BrokerChanges, LogDirFailures, TopicChanges
from simzk.kafka.zookeeper_mode.controller.context import ControllerContext, LiveBroker
from simzk.kafka.zookeeper_mode.controller.events import (
    ControllerEvent,
    ControllerEventManager,
    ControllerLog,
    Watched,
    Work,
)
from simzk.kafka.zookeeper_mode.controller.former_controller import NOTIFIED, FormerController
from simzk.kafka.zookeeper_mode.controller.leadership_changes import (
    ControlledShutdowns,
    IsrChanges,
    LeaderElections,
    read_states,
)
from simzk.kafka.zookeeper_mode.controller.reassignment import LegacyReassignments, Reassignments
from simzk.kafka.zookeeper_mode.controller.state_machines import PartitionStateMachine, ReplicaStateMachine
from simzk.kafka.zookeeper_mode.controller.topic_deletion import TopicDeletion
from simzk.kafka.zookeeper_mode.schemas import controller as controller_schema
from simzk.kafka.zookeeper_mode.schemas import feature
from simzk.simulation import Future, History, Process, Timer
from simzk.zookeeper.replies import EventType
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.rpc import Connections
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_mode.controller.channels import ChannelManagerFactory

FIRST_REBALANCE_US = 5_000_000
"""Delay of the first automatic rebalance after a failover (KafkaController.onControllerFailover)."""


class _EarlierTermError(Exception):
    """A failover fails by what an earlier term has left: open channels to the brokers."""


class KafkaController:
    """Controller of one broker, active or not.

    Args:
        broker_id, process, session, client, connections, config: of the broker.
        history: for the events of the controller.
        now_ms: wall clock of the simulated cluster, for timestamps in znodes.
        new_topic_id: returns an id for a topic without one.
        election_delay_us: delay of this broker behind the fastest when `/controller` is deleted, in microseconds;
            called at each election. In a real cluster chance decides which broker wins; here the caller does.
        cost_model: durations of the controller's work; None for zero.
        channel_manager: makes the channels to the brokers.

    Attributes:
        put_event: adds an event at the end of the queue; see `ControllerEvent` for the arguments.
        active_id: broker id in `/controller`, as last read; None if there was none.
        on_registered: registers the broker after a new session began.
        expire_tokens: removes expired delegation tokens; None if the broker has no tokens.
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
        new_topic_id: Callable[[str], str],
        election_delay_us: Callable[[], int],
        cost_model: CostModel | None = None,
        channel_manager: ChannelManagerFactory = ControllerChannelManager,
    ) -> None:
        self.broker_id = broker_id
        self.client = client
        self.active_id: int | None = None
        self.on_registered: Callable[[], Coroutine[Future[Any], None, None]] | None = None
        self.expire_tokens: Callable[[], Coroutine[Future[Any], None, None]] | None = None
        self._process = process
        self._session = session
        self._config = config
        self._now_ms = now_ms
        self._election_delay_us = election_delay_us
        self._rebalance: Timer | None = None
        self._token_check: Timer | None = None
        self._acts_in_former_term = False
        self.is_failing_over = False
        self._former: FormerController | None = None
        events = self._events = ControllerEventManager(process, self._process_event)
        self.put_event = events.put
        log = self._log = ControllerLog(history, broker_id)
        context = self.context = ControllerContext(client.version.orders)
        channels = self._channels = channel_manager(
            broker_id,
            process,
            connections,
            context,
            0 if cost_model is None else cost_model.order_us,
            client.version.controller.sends_topic_ids,
            client.version.controller.names_deleted,
            client.version.controller.names_brokers_alone,
        )
        unclean = config.boolean(UNCLEAN_KEY)
        self.replicas = replicas = ReplicaStateMachine(context, client, channels, unclean)
        self.partitions = partitions = PartitionStateMachine(context, client, channels, unclean)
        self._services = client, session, config, events, log, channels, partitions, replicas
        services = context, *self._services
        deletion = self._deletion = TopicDeletion(*services)
        reassignments = Reassignments if client.version.controller.reassigns_in_topic_znode else LegacyReassignments
        self.reassignments = reassignments(*services, deletion)
        self.elections = LeaderElections(*services, deletion)
        self.shutdowns = ControlledShutdowns(*services)
        self.isr_changes = IsrChanges(*services, self.reassignments)
        self._topics = TopicChanges(*services, new_topic_id)
        self._brokers = BrokerChanges(*services, deletion, self.reassignments)
        self._log_dirs = LogDirFailures(*services, self._brokers.handle_offline_replicas)
        channels.on_deletion_response = self._on_deletion_response
        channels.on_leaders_response = self._log_dirs.on_response

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it has read."""
        return self.active_id == self.broker_id

    @property
    def fails_over_in_vain(self) -> bool:
        """Whether the last failover failed, and the next ones of this process may fail too (up to 0.10)."""
        return self._channels.has_unsent or self._acts_in_former_term

    def start(self, *, adopt: bool = False) -> None:
        """Start to process events, the first of which is the election.

        Args:
            adopt: keep the role of controller if the session owns `/controller` already.
        """
        assert self.active_id is None, "a controller starts before it has read who is controller"
        self._events.start()
        self.put_event("startup", partial(self._start_up, adopt=adopt), always=True)

    async def expire(self) -> None:
        """Cancel all waiting events and resign, after the session expired."""
        assert not self._session.session_id, "the session of a controller that resigns has expired"
        done: Future[None] = Future()

        async def resign() -> None:
            await self._leave()
            done.set_result(None)

        self._events.cancel_all()
        self.put_event("expire", resign, always=True)
        await done

    def resign_in_turn(self) -> None:
        """Resign once all waiting events are processed, in a session that followed an expired one (up to 1.0)."""
        assert self._session.session_id, "zkclient opens the new session before it tells of it"
        self.put_event("expire", self._leave, always=True)

    async def _leave(self) -> None:
        """Resign, as the session has expired."""
        self.active_id = None
        self._resign()

    def register_and_reelect(self) -> None:
        """Register the broker again in a new session, then take part in the election (RegisterBrokerAndReelect)."""

        async def work() -> None:
            assert self.on_registered is not None
            await self.on_registered()
            if self.client.version.controller.adopts_epochs:
                await self._watch_epoch()
            await self._reelect()
            if self._former is not None:
                await self._former.handle_all(self._notified_watchers())
            elif self.is_active and self.client.version.controller.keeps_request_watchers:
                await self.elections.process_znode()
                await self.reassignments.process_znode()

        self.put_event("register and re-elect", work, always=True)

    def _notified_watchers(self) -> tuple[Watched, ...]:
        """Return the events whose watchers zkclient notifies before a resignation removes them."""
        if self.client.version.controller.keeps_request_watchers:
            return tuple(Watched)
        return NOTIFIED[self._process.scheduler.stream(f"watchers/{self._process.name}").below(len(NOTIFIED))]

    def shut_down(self) -> None:
        """Stop with the broker, also in the middle of an event."""
        self._events.stop()
        self.active_id = None
        if self._end_term():
            self._log.record("resigned")

    # -- events

    async def _process_event(self, event: ControllerEvent) -> None:
        work: Work | None = event.work
        if not event.always and not self.is_active and not self._acts_in_former_term:
            work = None if self._former is None else self._former.handler(event.name)
        if work is None:
            event.cancel()
            return
        try:
            await work()
        except ControllerMovedError:
            self._log.record("fenced", event.name)
            event.cancel()
            await self._guarded(self._maybe_resign)
        except SessionExpiredError:
            event.cancel()
        except (ZooKeeperRefused, ZnodeError) as problem:
            self._log.record("failed", event.name, str(problem))

    async def _guarded(self, work: Work) -> None:
        with suppress(SessionExpiredError):
            await work()

    def _on_controller_change(self, kind: EventType) -> None:
        if kind != EventType.NODE_DELETED:
            self.put_event("controller change", self._process_controller_change, always=True)
            return
        put = partial(self.put_event, "re-elect", self._reelect, always=True)
        delay_us = self._election_delay_us()
        if delay_us == 0:
            put()
        else:
            self._process.call_later(delay_us, put)

    async def _start_up(self, *, adopt: bool) -> None:
        self._session.data_handlers[paths.CONTROLLER] = self._on_controller_change
        await self.client.exists(paths.CONTROLLER)
        if self.client.version.controller.adopts_epochs:
            put = partial(self.put_event, "controller epoch", self._watch_epoch, always=True)
            self._session.data_handlers[paths.CONTROLLER_EPOCH] = lambda _kind: put()
            await self._watch_epoch()
        if adopt:
            self.active_id = await self.client.controller_id()
        if not adopt or self.active_id is None:
            await self._elect()
        elif self.is_active:
            self.context.begin_term(*await self.client.controller_epoch())
            await self._fail_over()

    async def _reelect(self) -> None:
        await self._maybe_resign()
        await self._elect()

    async def _process_controller_change(self) -> None:
        await self._maybe_resign()
        if self.active_id is None and self.client.version.controller.elects_at_missed_deletion:
            delay_us = self._election_delay_us()
            if delay_us:
                await self._process.sleep(delay_us)
            await self._elect()

    async def _maybe_resign(self) -> None:
        await self.client.exists(paths.CONTROLLER)
        await self._read_controller()

    async def _read_controller(self) -> None:
        """Read `/controller`, and resign if it named this broker before and does not now.

        Up to 0.8.2 a controller that finds another one there does not resign, and one of 0.8.0 never does: it processes
        events as before, until its session expires.
        """
        was_active, rules = self.is_active, self.client.version.controller
        self.active_id = await self.client.controller_id()
        if was_active and not self.is_active:
            if rules.resigns_at_deletion if self.active_id is None else rules.resigns_at_change:
                self._resign()
            else:
                self._acts_in_former_term = True

    async def _watch_epoch(self) -> None:
        """Take over a new controller epoch, also that of another controller (ControllerEpochListener, KAFKA-1096)."""
        found = await self.client.read(paths.CONTROLLER_EPOCH)
        if found is None:
            await self.client.exists(paths.CONTROLLER_EPOCH)
            return
        epoch, version = controller_schema.decode_epoch(paths.CONTROLLER_EPOCH, found[0]), found[1].version
        if self.context.has_term:
            self.context.epoch, self.context.epoch_version = epoch, version
        elif self._former is not None:
            self._former.adopt(epoch, version)

    async def _elect(self) -> None:
        assert not self.is_failing_over, "an election waits for the end of a failover"
        if self.client.version.client.reads_controller_before_election:
            await self._read_controller()
            if self.active_id is not None:
                return
        elif self.is_active:  # an earlier event has elected it
            return
        try:
            epoch, version = await self.client.become_controller(self.broker_id, self._now_ms())
            self._begin_term(epoch, version)
            await self._fail_over()
        except ControllerMovedError:
            await self._maybe_resign()
        except (ZooKeeperRefused, ZnodeError, _EarlierTermError, UnsentRequestError) as problem:
            self._log.record("failover failed", "", str(problem))
            await self._trigger_move()

    def _begin_term(self, epoch: int, version: int) -> None:
        """Become active with a new controller epoch.

        Raises:
            _EarlierTermError: a failed failover has left its channels open (0.9 to 0.10).
        """
        channels_open = self._acts_in_former_term and self._channels.is_open
        fails = channels_open and self.client.version.controller.fails_with_open_channels
        if self._acts_in_former_term and not fails:
            self._end_term()
        if self._former is not None:
            self._former.end()
            self._former = None
        assert fails or not self._channels.is_open, "the channels of an earlier term are closed"
        assert fails or not self.context.has_term, "the state of an earlier term is gone"
        self.context.begin_term(epoch, version)
        self.active_id = self.broker_id
        if fails:
            raise _EarlierTermError("the channels of the failed term are open")

    async def _trigger_move(self) -> None:
        """Delete `/controller` after a failed failover, so that another broker is elected; from 0.11 on resign first.

        0.8.0 keeps the znode. Up to 0.10 the broker keeps the handlers and the state of the failed term. If the znode
        is gone or names another broker, Kafka 2.1 and later keep the state of the failed term until the next failover
        overwrites it (triggerControllerMove); here the broker resigns in every release from 0.11 on.
        """
        rule = self.client.version.controller.failed_failover
        if rule == "stays":
            return
        if rule == "moves":
            self.active_id, self._acts_in_former_term = None, True
            await self.client.fenced([Delete(paths.CONTROLLER, ANY_VERSION)], self.context.epoch_version)
            return
        was_active, version = self.is_active, self.context.epoch_version
        await self._read_controller()
        if was_active and self.is_active:
            self.active_id = None
            self._resign()
            await self.client.fenced([Delete(paths.CONTROLLER, ANY_VERSION)], version)

    # -- failover and resignation

    def has_sent_all(self, broker: int) -> bool:
        """Return whether no request of this controller to a broker waits or is in flight."""
        return self._channels.is_idle(broker)

    async def _fail_over(self) -> None:
        """Become active; `is_failing_over` until that is done or has failed."""
        assert not self.is_failing_over, "failovers are events, processed one by one"
        self.is_failing_over = True
        try:
            await self._become_active()
        finally:
            self.is_failing_over = False

    async def _become_active(self) -> None:
        """Become active (onControllerFailover), in the order of Kafka 1.1 and later (§2.3)."""
        context, client, version = self.context, self.client, self.client.version
        assert self.is_active, "another broker was elected"
        assert context.has_term, "a failover is part of a term"
        assert not context.being_reassigned or version.controller.keeps_requests
        assert not context.brokers, "the controller has brokers of an earlier term"
        assert not context.topic_ids, "the controller has topics of an earlier term"
        await self._set_up_features()
        self._register_child_handlers()
        await self._watch(paths.PREFERRED_ELECTION, Watched.ELECTION, self.elections.process_znode)
        await self._watch(paths.REASSIGN_PARTITIONS, Watched.REASSIGNMENT, self.reassignments.process_znode)
        for path in (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
            found = await client.children(path)
            if path == paths.LOG_DIR_EVENTS or version.controller.deletes_stale_isr_changes:
                await client.delete_children(path, found, context.epoch_version)
        await self._initialise_context()
        await self._deletion.init()
        self._channels.send_metadata()
        await self.replicas.start()
        await self.partitions.start()
        await self.reassignments.initialise()
        if version.controller.deletes_topics_last:
            await self.elections.process_pending()
            await self._deletion.begin()
        else:
            await self._deletion.begin()
            await self.elections.process_pending()
        self._channels.require_sent()
        self._log.record("ready", "", f"epoch {context.epoch}")
        if self._config.boolean("auto.leader.rebalance.enable"):
            assert self._rebalance is None, "the timer of an earlier term goes on"
            self._rebalance = self._process.call_later(FIRST_REBALANCE_US, self._put_rebalance)
        if self.expire_tokens is not None:
            assert self._token_check is None, "the timer of an earlier term goes on"
            self._token_check = self._process.call_later(0, self._check_tokens)

    def _register_child_handlers(self) -> None:
        children, put = self._session.child_handlers, self.put_event
        children[paths.BROKER_IDS] = lambda: put("broker change", self._brokers.process)
        children[paths.TOPICS] = lambda: put("topic change", self._topics.process)
        if self.client.version.controller.topic_deletion != "by tool":
            children[paths.DELETE_TOPICS] = lambda: put(Watched.DELETIONS, self._deletion.process_requests)
        children[paths.LOG_DIR_EVENTS] = lambda: put("log dir failure", self._log_dirs.process)
        children[paths.ISR_CHANGES] = lambda: put(Watched.ISR_CHANGES, self.isr_changes.process_notifications)

    async def _set_up_features(self) -> None:
        """Create or update `/feature` (KIP-584; §1.3).

        An inter-broker protocol without features does not create the znode, and disables one that exists. Finalised
        features stay unless the znode was disabled. A znode with the right contents is not written.
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
            await self._session.call(SetData(paths.FEATURE, wanted, ANY_VERSION))

    async def _initialise_context(self) -> None:
        context, client = self.context, self.client
        assert not self._channels.is_open, "channels are opened to the brokers that are read now"
        context.brokers = {broker: LiveBroker(*found) for broker, found in (await client.brokers()).items()}
        context.registered_at = client.registered_at
        names = immutable_order(await client.children(paths.TOPICS), context.scala)
        self._topics.watch(names)
        texts, columns = await client.all_topics(names)
        if columns is not None:
            context.add_topics(columns)
        await self._topics.add(texts)
        context.note_inserted(self._topics.as_inserted(texts))
        for path in self._brokers.watch(sorted(context.brokers)):
            await client.exists(path)
        await read_states(context, client, context.order.all_in_set())
        for broker in sorted(context.brokers):
            self._channels.add_broker(broker)
        assert self._channels.is_open == bool(context.brokers)
        await self.elections.load()
        await self.reassignments.load()

    def _resign(self) -> None:
        """End the term of a controller (onControllerResignation)."""
        rules, last_term = self.client.version.controller, copy(self.context)
        if not self._end_term():
            return
        self._log.record("resigned")
        if rules.acts_after_resignation:
            if not rules.adopts_epochs:
                last_term.epoch = last_term.epoch_version = 0
            self._former = FormerController(last_term, *self._services)
            if rules.keeps_request_watchers:
                self._former.keep_watching()

    def _end_term(self) -> bool:
        """Remove all handlers, timers, channels and state of a term; return whether there was one."""
        for path in (paths.BROKER_IDS, paths.TOPICS, paths.DELETE_TOPICS, paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
            self._session.child_handlers.pop(path, None)
        self.reassignments.remove_handlers()
        watched = *map(paths.broker, self.context.brokers), *map(paths.topic, self.context.topic_ids)
        for path in (paths.PREFERRED_ELECTION, paths.REASSIGN_PARTITIONS, *watched):
            self._session.data_handlers.pop(path, None)
        for timer in (self._rebalance, self._token_check):
            if timer is not None:
                timer.cancel()
        self._rebalance = self._token_check = None
        self._channels.shut_down()
        assert not self._channels.is_open, "no channel outlives its term"
        was_controller = self.context.has_term
        self.context.reset(keeps_requests=self.client.version.controller.keeps_requests)
        assert not self.context.has_term
        self._acts_in_former_term = False
        return was_controller

    async def _watch(self, path: str, name: str, work: Work) -> None:
        """Handle the creation of a request znode, before 1.1 also a change of its data."""
        kinds = {EventType.NODE_CREATED}
        if self.client.version.controller.handles_changed_requests:
            kinds.add(EventType.NODE_DATA_CHANGED)
        self._session.data_handlers[path] = self._events.watcher(kinds, name, work)
        await self.client.exists(path)

    def _on_deletion_response(self, broker: int, partitions: Sequence[TopicPartition], response: Any) -> None:
        work = partial(self._deletion.process_response, broker, partitions, response)
        self.put_event(f"replicas deleted on broker {broker}", work)

    # -- timers

    def _check_tokens(self) -> None:
        """Remove expired tokens outside the event queue: only the timer belongs to the controller (KIP-48)."""
        assert self.expire_tokens is not None
        interval_us = self._config.integer("delegation.token.expiry.check.interval.ms") * 1000
        self._token_check = self._process.call_later(interval_us, self._check_tokens)
        self._process.spawn(self._guarded(self.expire_tokens), "expired tokens")

    def _put_rebalance(self) -> None:
        async def work() -> None:
            interval_us = self._config.integer("leader.imbalance.check.interval.seconds") * 1_000_000
            self._rebalance = self._process.call_later(interval_us, self._put_rebalance)
            await self.elections.rebalance()

        self.put_event("auto leader rebalance", work)
