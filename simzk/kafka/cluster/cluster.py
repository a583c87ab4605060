"""A simulated Kafka cluster in ZooKeeper mode: brokers, a ZooKeeper, an operator, and time that passes when told to."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka import paths
from simzk.kafka.broker.broker import Broker
from simzk.kafka.broker.broker_epochs import BrokerEpochs
from simzk.kafka.broker.empty_replicas import ADDRESS, EmptyReplicas
from simzk.kafka.broker.environment import Environment, ReplicationOfLogs
from simzk.kafka.broker.id_generation import IdGeneration, generation_of
from simzk.kafka.broker.replica_manager import ReplicaManager
from simzk.kafka.cluster import restored_tree as restoring
from simzk.kafka.cluster.clients import Clients, Producer
from simzk.kafka.cluster.failures import BrokerFaults, Failures
from simzk.kafka.cluster.from_layout import FromLayout, LayoutStart
from simzk.kafka.cluster.operations import Operations
from simzk.kafka.cluster.quiescence import all_in_sync
from simzk.kafka.cluster.zookeeper_access import (
    AT_THE_ROOT,
    PASSWORD,
    USER,
    Access,
    Below,
    KafkaTree,
    Watched,
    access_of,
)
from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
from simzk.kafka.columnar import load_layout
from simzk.kafka.observation.invariants import invariants_of
from simzk.kafka.observation.observer import Observer
from simzk.kafka.observation.session_names import Participant, Writers
from simzk.kafka.releases.cluster_releases import Releases, broker_ids, ids_above, local_registration, racks_of
from simzk.kafka.requests import AdminResponse, AllocateProducerIdsRequest
from simzk.kafka.rpc import Connections
from simzk.kafka.schemas import controller as controller_schema
from simzk.kafka.schemas import partition_state
from simzk.kafka.schemas import topic as topic_schema
from simzk.kafka.schemas.uuid import UUID_BITS, uuid_text
from simzk.kafka.tools.operator import Operator
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.partitions.arrays import broker_mask
from simzk.partitions.table import PartitionTable
from simzk.simulation import Future, History, Invariant, Network, Process, Scheduler
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.kafka.observation.recording import RecordedZnode
    from simzk.kafka.schemas.broker_registration import BrokerRegistration

START_MS = 1_735_689_600_000
"""What the clocks of the simulated world show at its beginning: 2025-01-01, by choice."""
LATENCY_US = (150, 600)
"""From one machine to another in one data centre."""
BASE_PORT = 9092
ELECTION_HEAD_START_US = 50_000
QUIET_US = 3_000_000
QUIET_STEP_US = 100_000
_BOOT_LIMIT_SECONDS = 60.0


class KafkaCluster(FromLayout, Operations, Clients, Failures):
    """A simulated Kafka cluster, in virtual time.

    Time stands still but for `run_for` and `run_until_quiet`: what is asked of the cluster (a topic, a failure)
    begins at the present instant and takes effect while time passes. The same seed and the same calls give the same
    history.

    Args:
        version: which Kafka the brokers run, or each broker; the operator has the tools of the oldest.
        brokers: how many (ids from 1), or their ids.
        racks: how many racks the brokers are spread over in turn, or the rack of each broker; none by default.
        seed: decides all chance.
        config: Kafka's configuration keys where they differ from the defaults, such as
            `{"unclean.leader.election.enable": True}`.
        tick_time_ms: ZooKeeper's tick.
        max_session_timeout_ms: the longest session that ZooKeeper grants; twenty ticks where not given.
        base_port: broker N listens on this port plus N.
        inter_broker_protocol: `inter.broker.protocol.version`, of all brokers or of some; else that of the release.
        cluster_id: drawn where it is not given.
        log_dirs: how many log directories each broker has (`log.dirs`).
        zookeeper_set_acl: `zookeeper.set.acl`: brokers and tools log in by SASL, and what they make in ZooKeeper is
            theirs to change (0.9 and later).
        zookeeper_chroot: the path below which the cluster's znodes are, such as `/kafka`.
        generated_ids: the brokers have no ids (`broker.id=-1`, 0.9 and later) and are given 1001 and so on by
            ZooKeeper, above `reserved.broker.max.id`; `brokers` is how many.
        boot: whether the brokers are started, and time runs until all are registered and a controller serves; else
            `restart` starts each.
        start_ms: what all clocks show at the beginning.
        cost_model: how long the work of ZooKeeper and the controller takes, such as `cost_model.MEASURED`; nothing
            where it is not given.

    >>> cluster = KafkaCluster(brokers=3, seed=1)
    >>> _ = cluster.create_topic("orders", partitions=1, assignment={0: [1, 2, 3]})
    >>> cluster.run_for(1)
    >>> cluster.kill(1)
    >>> cluster.run_until_quiet()
    True
    >>> cluster.state("orders", 0).leader, cluster.state("orders", 0).isr
    (2, (2, 3))
    """

    def __init__(
        self,
        version: str | Mapping[int, str] = "3.9",
        brokers: int | Sequence[int] = 3,
        racks: int | Mapping[int, str] | None = None,
        seed: int = 0,
        *,
        config: Mapping[str, str | int | bool] | None = None,
        tick_time_ms: int = 2000,
        max_session_timeout_ms: int | None = None,
        base_port: int = BASE_PORT,
        inter_broker_protocol: str | Mapping[int, str] | None = None,
        cluster_id: str | None = None,
        log_dirs: int = 1,
        zookeeper_set_acl: bool = False,
        zookeeper_chroot: str = "",
        generated_ids: bool = False,
        boot: bool = True,
        start_ms: int = START_MS,
        cost_model: CostModel | None = None,
    ) -> None:
        ids = ids_above(config, brokers) if generated_ids else broker_ids(brokers)
        rack_of = racks_of(ids, racks)
        registrations = {broker: local_registration(base_port + broker, rack_of.get(broker)) for broker in ids}
        releases = Releases(ids, version, inter_broker_protocol, config)
        if log_dirs < 1:
            raise ConfigError(f"there are {log_dirs} log directories", where="log_dirs", right="1 or more")
        access = access_of(zookeeper_chroot, secure=zookeeper_set_acl, oldest=releases.oldest.version)
        generation = generation_of(ids, releases.oldest) if generated_ids else None
        nothing = restoring.Restored.nothing()
        timeouts = ServerConfig(tick_time_ms=tick_time_ms, max_session_timeout_ms=max_session_timeout_ms)
        given = (releases, registrations, seed, timeouts, cluster_id, log_dirs, nothing, start_ms)
        self._build(*given, cost_model, access, generation)
        if boot:
            for broker in self.brokers.values():
                broker.start()
            self.run_until_quiet(_BOOT_LIMIT_SECONDS)

    @classmethod
    def from_tree(
        cls,
        tree: Mapping[str, RecordedZnode],
        *,
        version: str = "3.9",
        seed: int = 0,
        brokers: Sequence[int] = (),
        racks: Mapping[int, str] | None = None,
        config: Mapping[str, str | int | bool] | None = None,
        tick_time_ms: int = 2000,
        base_port: int = BASE_PORT,
        start_ms: int = START_MS,
        log_dirs: int = 1,
        cost_model: CostModel | None = None,
    ) -> Self:
        """A cluster that goes on from the tree of another, such as one recorded from a real cluster.

        The brokers that are registered in the tree live, the one in `/controller` is controller; others that hold
        replicas, or are named in `brokers`, are dead and can be started.

        Args:
            tree: the znodes by path, such as `recording.load(path).tree(step)`.
            brokers: ids of further brokers.
            racks: the racks of brokers that are not registered in the tree.
            version, seed, config, tick_time_ms, base_port, start_ms, log_dirs, cost_model: as for a new
                cluster.

        Raises:
            ZnodeError: a znode that the cluster needs cannot be used; path, field and why.
        """
        restored = restoring.restore(tree, start_ms)
        registrations = dict(restored.registrations)
        for broker in sorted({*brokers, *restored.replica_ids} - registrations.keys()):
            registrations[broker] = local_registration(base_port + broker, (racks or {}).get(broker))
        cluster = cls.__new__(cls)
        releases = Releases(sorted(registrations), version, None, config)
        registered = dict(sorted(registrations.items()))
        timeouts = ServerConfig(tick_time_ms=tick_time_ms)
        cluster._build(releases, registered, seed, timeouts, None, log_dirs, restored, start_ms, cost_model)
        for broker, live in restored.live.items():
            cluster.brokers[broker].attach(live.session_id, live.epoch)
        cluster.run_until_quiet(_BOOT_LIMIT_SECONDS)
        return cluster

    def _build(
        self,
        releases: Releases,
        registrations: Mapping[int, BrokerRegistration],
        seed: int,
        timeouts: ServerConfig,
        cluster_id: str | None,
        log_dirs: int,
        restored: restoring.Restored,
        start_ms: int,
        cost_model: CostModel | None = None,
        access: Access = AT_THE_ROOT,
        ids: IdGeneration | None = None,
        start: LayoutStart | None = None,
    ) -> None:
        self._releases = releases
        oldest = releases.oldest
        timeout_ms = oldest.config.integer("zookeeper.session.timeout.ms")
        self.seed = seed
        self.version = oldest.version.name
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler, latency_us=LATENCY_US)
        self.history = History(self.scheduler)
        self.server = Server(
            timeouts._replace(sasl_users={USER: PASSWORD} if access.secure else None),
            now_ms=start_ms,
            tree=restored.tree,
            sessions=[(live.session_id, timeout_ms) for live in restored.live.values()],
            zxid=restored.zxid,
        )
        topics = None if start is None else load_layout(self.server, start.layout, oldest.version, start_ms)
        self._watched: Watched = Below(self.server, access) if access.chroot else self.server
        self.zookeeper_host = ZooKeeperHost(
            self.scheduler, self.network, self.server, start_ms=start_ms, access=access, cost_model=cost_model
        )
        self.zookeeper_faults = BrokerFaults(self.zookeeper_host, self.history, lambda: list(self.brokers))
        self.participants: list[Participant] = []
        self._preferred_controller: int | None = None
        self._last_transaction_us = 0
        self._seen_in_sync: object = None
        self._replica_manager = ReplicaManager(BrokerEpochs(registrations))
        self.brokers: dict[int, Broker] = {}
        world = self._environment(releases, ids or IdGeneration((), 0), log_dirs, cost_model, cluster_id)
        if start is not None:
            process = Process(self.scheduler, ADDRESS)
            replicas = EmptyReplicas(
                process, self.network, world.connections, self.history, self._replica_manager, self.brokers
            )
            world = replace(world, replication=replicas, batch_transport=replicas, sends_batches=start.sends_batches)
        for broker, registration in registrations.items():
            process = Process(self.scheduler, f"broker {broker}")
            self.brokers[broker] = Broker(broker, registration, process, world)
        self._operator = Operator(self.scheduler, world, lambda: self.controller)
        self.producer = Producer(self.scheduler, world.connections, self.history)
        writers = Writers(self.brokers, self.participants, self._operator, self.zookeeper_host.client_of)
        observer = Observer(self.history, self.tree, writers.who_is, writers.on_its_own, topics)
        self._watched.on_transaction.add(observer.observe, observer.observe_batch)
        self.server.on_transaction.add(self._note_transaction, self._note_transaction)

    def _environment(
        self,
        releases: Releases,
        ids: IdGeneration,
        log_dirs: int,
        cost_model: CostModel | None,
        cluster_id: str | None,
    ) -> Environment:
        """Return what all brokers share."""
        oldest = releases.oldest
        return Environment(
            network=self.network,
            host=self.zookeeper_host,
            connections=Connections(self.scheduler, self.network),
            history=self.history,
            version=oldest.version,
            config=oldest.config,
            release_of=releases.of,
            cluster_id=cluster_id or self._new_uuid("cluster id"),
            ids=ids,
            now_ms=lambda: self.now_ms,
            new_topic_id=lambda: self._new_uuid("topic ids"),
            new_token_id=lambda: self._new_uuid("token ids"),
            election_delay_us=self._election_delay_us,
            log_dirs=log_dirs,
            cost_model=cost_model,
            manager=self._replica_manager,
            replication=ReplicationOfLogs(),
        )

    # -- time

    @property
    def now_ms(self) -> int:
        """The clock of the simulated world, in milliseconds as ZooKeeper counts them."""
        return self.zookeeper_host.now_ms()

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + round(seconds * 1_000_000))

    def run_until_quiet(self, limit_seconds: float = 120.0) -> bool:
        """Let time pass until nothing is left to happen by itself.

        Quiet is: every running broker is registered and no other is, the controller serves, all replicas that can be
        are in sync, no request of the operator is open; all this, and no write, for three seconds.

        Args:
            limit_seconds: the most time that passes.

        Returns:
            whether it is quiet now.
        """
        deadline_us = self.scheduler.now_us + round(limit_seconds * 1_000_000)
        unsettled_us = self.scheduler.now_us
        while self.scheduler.now_us < deadline_us:
            if not self._is_settled():
                unsettled_us = self.scheduler.now_us
            elif self.scheduler.now_us - max(self._last_transaction_us, unsettled_us) >= QUIET_US:
                return True
            self.scheduler.run_until(min(deadline_us, self.scheduler.now_us + QUIET_STEP_US))
        return False

    def _is_settled(self) -> bool:
        registered = set(self._registered())
        running = {broker.id for broker in self.brokers.values() if broker.alive}
        serving = {b.id for b in self.brokers.values() if b.alive and b.registered and not b.stopping}
        if any(b.alive and not b.paused and b.has_unannounced_isr_changes for b in self.brokers.values()):
            return False
        if registered != running or serving != running or self._operator.busy:
            return False
        if not running:
            return True
        controller = self.controller
        if controller not in running or self.brokers[controller].paused:
            return False
        lost = {broker.id: broker.log_dirs.offline for broker in self.brokers.values() if broker.alive}
        running = {broker.id for broker in self.brokers.values() if broker.alive and not broker.paused}
        seen = self.server.zxid, controller, running, {broker: dict(found) for broker, found in lost.items() if found}
        if seen != self._seen_in_sync:
            if not all_in_sync(self.table, self.tree, broker_mask(running), lost):
                return False
            self._seen_in_sync = seen
        return True

    def _registered(self) -> list[int]:
        node = self.tree.get(paths.BROKER_IDS)
        ids = [paths.number_of(name) for name in (() if node is None else node.child_names())]
        return sorted(broker for broker in ids if broker is not None)

    def _note_transaction(self, _: object) -> None:
        self._last_transaction_us = self.scheduler.now_us

    def pump(self) -> None:
        """Send what the server has to say to the brokers, after a client of another kind has changed something."""
        self.zookeeper_host.send_output()

    # -- looking

    @property
    def tree(self) -> KafkaTree:
        """The znodes as Kafka calls them: those below the chroot, where there is one."""
        return self._watched.tree

    @property
    def controller(self) -> int | None:
        """The broker in `/controller`, None while there is none."""
        node = self.tree.get(paths.CONTROLLER)
        if node is None:
            return None
        try:
            return controller_schema.decode(paths.CONTROLLER, node.data)
        except ZnodeError:
            return None

    @property
    def live_brokers(self) -> list[int]:
        """The brokers that are registered, ascending."""
        return self._registered()

    def racks_of_live(self) -> dict[int, str | None]:
        """The racks of the brokers that are registered, None for one without."""
        return {broker: self.brokers[broker].rack for broker in self._registered() if broker in self.brokers}

    @property
    def table(self) -> PartitionTable:
        """What the active controller knows of all partitions; empty while nobody is controller."""
        controller = self.controller
        broker = None if controller is None else self.brokers.get(controller)
        if broker is None or not broker.alive or not broker.controller.is_active:
            return PartitionTable()
        return broker.controller.context.table

    @cached_property
    def invariants(self) -> tuple[Invariant, ...]:
        """What must hold in the znodes whatever breaks, watched from the first time it is asked for."""
        return tuple(invariants_of(self._watched, leaders_write=self._releases.leaders_write))

    def state(self, topic: str, partition: int) -> LeaderAndIsr:
        """Who leads a partition and who is in sync, as it stands in ZooKeeper.

        Raises:
            ConfigError: there is no such partition, or it has no state yet.
            ZnodeError: its znode cannot be used.
        """
        path = paths.state(TopicPartition(topic, partition))
        node = self.tree.get(path)
        if node is None:
            raise ConfigError(
                f"partition {topic}-{partition} has no state", where=path, right="a partition that is there"
            )
        return partition_state.decode(path, node.data, node.version)

    def assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        """Who holds each partition of a topic, as it stands in ZooKeeper.

        Raises:
            ConfigError: there is no such topic.
            ZnodeError: its znode cannot be used.
        """
        path = paths.topic(topic)
        node = self.tree.get(path)
        if node is None:
            raise ConfigError(f"topic {topic} does not exist", where=path, right="a topic that is there")
        return topic_schema.decode(path, node.data).partitions

    # -- elections of controllers

    def prefer_controller(self, broker: int) -> None:
        """Let a broker win the next election of a controller it takes part in; by whom it is won is else chance."""
        self._preferred_controller = self._broker(broker).id

    def _election_delay_us(self, broker: int) -> int:
        preferred = self._preferred_controller
        if preferred is None or preferred == broker or not self.brokers[preferred].alive:
            return 0
        return ELECTION_HEAD_START_US

    # -- clients

    def allocate_producer_ids(self, broker: int) -> Future[AdminResponse]:
        """Let a broker take a block of producer ids, as it does when the first idempotent producer comes."""
        asked = self._running(broker)
        via = None if asked.client.version.controller.allocates_producer_ids else broker
        return self._operator.request("producer ids", AllocateProducerIdsRequest(broker, asked.epoch), via)

    # -- the end

    def close(self) -> None:
        """Let go of everything: no broker runs any more."""
        for participant in self.participants:
            participant.kill()
        for broker in self.brokers.values():
            broker.process.kill()
        self._operator.process.kill()
        self.producer.process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self) -> None:
        """Assert that all structures of the cluster agree with themselves."""
        self.server.check()
        self.scheduler.check()
        for broker in self.brokers.values():
            broker.process.check()
            broker.log_dirs.check()
            if broker.alive and broker.controller.is_active:
                broker.controller.context.check()
        self._replica_manager.check()

    # -- help

    def _new_uuid(self, stream: str) -> str:
        """A random UUID as Kafka writes it: 22 characters of URL-safe base64."""
        return uuid_text(self.scheduler.stream(stream).bits(UUID_BITS))
