"""A simulated Kafka cluster in ZooKeeper mode: brokers, their ZooKeeper, and an operator, in virtual time.

Rules of this module:
  - virtual time passes in `advance` and `run_until_quiet` only. A request or a failure starts at the present instant
    and takes effect while time passes;
  - every public method and property acquires `lock`, which is a lock of threads in `simzk.KafkaCluster`: there the
    threads of kazoo clients use the same ZooKeeper.

Rules of quiescence (`run_until_quiet`):
  - a cluster is in sync if every partition that can have a leader has one, and every replica that can be in sync is;
  - topics marked for deletion do not count: their deletion waits for brokers that do not run;
  - the controller's table is checked first, because it is in columns. Where it shows a partition out of sync, the
    znode decides: up to 0.8.2 the controller is not notified of ISRs that leaders write.
"""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from dataclasses import replace
from functools import partial, wraps
from itertools import count
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

import numpy as np

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka.broker.admin_handlers import is_topic_name
from simzk.kafka.broker.broker import Broker
from simzk.kafka.broker.cluster_resources import ClusterResources, IdGeneration, ReplicationOfLogs, generation_of
from simzk.kafka.broker.replica_manager import BrokerEpochs, ReplicaManager
from simzk.kafka.broker.timing import BrokerTiming
from simzk.kafka.client_requests.broker_faults import FAULTS, BrokerRequestFaults
from simzk.kafka.cluster.initial_state import InitialState, state_from_layout, state_from_tree
from simzk.kafka.cluster.producer import Acks, Producer
from simzk.kafka.cluster.traffic import Traffic
from simzk.kafka.cluster.zookeeper_access import (
    AT_THE_ROOT,
    PASSWORD,
    USER,
    ChrootView,
    KafkaTree,
    ObservableTree,
    ZooKeeperAccess,
    access_of,
)
from simzk.kafka.cluster.zookeeper_host import BrokerFaults, ZooKeeperHost
from simzk.kafka.listeners import check_distinct
from simzk.kafka.metadata.entities import LITERAL, PREFIXED, AclEntry, AclResource
from simzk.kafka.observation.observer import Observer, Participant, SessionNames
from simzk.kafka.observation.records import RecordInvariant, RecordLedger, record_invariants
from simzk.kafka.releases.cluster_releases import (
    BrokerRelease,
    Releases,
    broker_ids,
    ids_above,
    local_registration,
    racks_of,
)
from simzk.kafka.requests import (
    AddPartitionsRequest,
    AdminResponse,
    AlterAclsRequest,
    AlterConfigRequest,
    CreateTokenRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    ElectionRequest,
    ExpireTokenRequest,
    ProducerIdsRequest,
    RenewTokenRequest,
)
from simzk.kafka.rpc import Connections
from simzk.kafka.security import scram
from simzk.kafka.security.settings import PLAINTEXT
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar import load_layout
from simzk.kafka.zookeeper_mode.controller.channels import BatchChannelManager, ControllerChannelManager
from simzk.kafka.zookeeper_mode.schemas import acl as acl_schema
from simzk.kafka.zookeeper_mode.schemas import controller as controller_schema
from simzk.kafka.zookeeper_mode.schemas import delegation_token, partition_state
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.schemas.cluster import UUID_BITS, uuid_text
from simzk.kafka.zookeeper_mode.schemas.config import sanitize
from simzk.kafka.zookeeper_mode.schemas.json_text import shown
from simzk.kafka.zookeeper_mode.schemas.scram import encode as encode_scram
from simzk.kafka.zookeeper_mode.tools.acls import kind_of
from simzk.kafka.zookeeper_mode.tools.operator import Operator
from simzk.partitions.arrays import BoolArray, IntArray, broker_mask, contained, pack
from simzk.partitions.table import PartitionTable
from simzk.partitions.transitions import live_members
from simzk.simulation import Condition, Future, History, Invariant, Network, Process, Scheduler
from simzk.simulation.request_faults import FaultRule, PauseHandle
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.server import Server
from simzk.zookeeper.transactions import CreateTxn, MultiTxn
from simzk.zookeeper.tree import DataTree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.kafka.cluster.ensemble_host import EnsembleHost
    from simzk.kafka.cluster.reassignment_command import ReassignmentCommand, Targets
    from simzk.kafka.metadata.cache import BrokerMetadata
    from simzk.kafka.observation.recording import RecordedZnode
    from simzk.kafka.protocol.errors import ErrorCode
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.requests import AppendResponse
    from simzk.kafka.zookeeper_mode.consumer.consumer import Consumer
    from simzk.kafka.zookeeper_mode.consumer.subscriptions import Subscription
    from simzk.kafka.zookeeper_mode.schemas.broker_registration import BrokerRegistration
    from simzk.kafka.zookeeper_mode.schemas.delegation_token import DelegationToken
    from simzk.kafka.zookeeper_mode.tools.reassign_partitions import Proposal
    from simzk.partitions.layouts import Layout
    from simzk.zookeeper.transactions import Transaction

START_MS = 1_735_689_600_000
"""Default time of all clocks at the start of a simulation, in ms since 1970: 2025-01-01 00:00 UTC."""
LATENCY_US = (150, 600)
"""Least and greatest latency of a message between two machines in one data centre."""
BASE_PORT = 9092
QUIET_US = 3_000_000
"""Time without writes after which a cluster counts as quiet."""
QUIET_STEP_US = 100_000
_DESCRIBED = 20  # partitions in `describe`
_BOOT_LIMIT_S = 60.0
# Up to 2.6 leaders write ISRs to ZooKeeper themselves, which the columnar replicas do not simulate.
_FIRST_WITH_LAYOUTS = (2, 7, 0)

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Cluster = TypeVar("_Cluster", bound="KafkaCluster")


def synchronized(
    method: Callable[Concatenate[_Cluster, _P], _R],
) -> Callable[Concatenate[_Cluster, _P], _R]:
    """Decorate a method of a cluster to acquire the cluster's lock."""

    @wraps(method)
    def run(self: _Cluster, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self.lock:
            return method(self, *args, **kwargs)

    return run


class ReplicaLog(NamedTuple):
    """Log end offset and high watermark of a replica."""

    log_end: int
    high_watermark: int


class KafkaCluster:
    """A simulated Kafka cluster in virtual time.

    Virtual time stands still except in `advance` and `run_until_quiet`: a request to the cluster (a topic, a failure)
    starts at the present instant and takes effect while time passes. The same seed and the same calls give the same
    history.

    Args:
        version: Kafka release of all brokers, or of each broker by id. The operator's tools are of the oldest.
        brokers: number of brokers (ids from 1), or their ids.
        racks: number of racks, assigned to brokers in turn, or the rack of each broker by id; no racks if None.
        seed: seed of all random choices.
        config: Kafka configuration that differs from the defaults, such as `{"unclean.leader.election.enable": True}`.
        broker_config: configuration of some brokers by id, which wins over `config`.
        tick_time_ms: ZooKeeper's tick.
        max_session_timeout_ms: longest session timeout that ZooKeeper grants; 20 ticks if None.
        base_port: broker N listens on this port plus N.
        inter_broker_protocol: `inter.broker.protocol.version` of all brokers, or of some by id; by default that of
            the release.
        cluster_id: the cluster id; random if None.
        log_dirs: number of log directories of each broker (`log.dirs`).
        zookeeper_set_acl: `zookeeper.set.acl`: brokers and tools log in by SASL, and only they may change the znodes
            that they create (0.9 and later).
        zookeeper_chroot: path of the cluster's root znode, such as `/kafka`.
        zookeeper_servers: number of ZooKeeper servers: 1, or an ensemble, of which servers can be killed and the leader
            lost. Brokers connect to any of them, and to another one when they lose it.
        generated_ids: brokers get their ids from ZooKeeper (`broker.id=-1`, 0.9 and later), from 1001 on or above
            `reserved.broker.max.id`; `brokers` is their number.
        boot: start all brokers and let time pass until they are registered and a controller is active; if False,
            `restart` starts each broker.
        start_ms: time of all clocks at the start, in ms since 1970.
        cost_model: processing time of ZooKeeper and the controller, such as `cost_model.MEASURED`; none if None.
        timing: decisions about time that are chance in a real cluster, such as the first fetch of a started broker;
            if None, the simulation decides.
        security: protocol of the brokers' listeners: `PLAINTEXT`, `SASL_PLAINTEXT`, `SSL` or `SASL_SSL`
            (docs/kafka_server.md).

    Raises:
        ConfigError: an option has an invalid value.

    >>> cluster = KafkaCluster(brokers=3, seed=1)
    >>> _ = cluster.create_topic("orders", partitions=1, assignment={0: [1, 2, 3]})
    >>> cluster.advance(1)
    >>> cluster.kill(1)
    >>> cluster.run_until_quiet()
    True
    >>> cluster.state("orders", 0).leader, cluster.state("orders", 0).isr
    (2, (2, 3))
    """

    lock: AbstractContextManager[object] = nullcontext()
    """The lock that every method and property acquires. Hold it to iterate over `tree` or `history` in a thread."""

    producer: Producer
    traffic: Traffic
    _ensemble_host: EnsembleHost | None = None

    def __init__(
        self,
        version: str | Mapping[int, str] = "3.9",
        brokers: int | Sequence[int] = 3,
        racks: int | Mapping[int, str] | None = None,
        seed: int = 0,
        *,
        config: Mapping[str, str | int | bool] | None = None,
        broker_config: Mapping[int, Mapping[str, str | int | bool]] | None = None,
        tick_time_ms: int = 2000,
        max_session_timeout_ms: int | None = None,
        base_port: int = BASE_PORT,
        inter_broker_protocol: str | Mapping[int, str] | None = None,
        cluster_id: str | None = None,
        log_dirs: int = 1,
        zookeeper_set_acl: bool = False,
        zookeeper_chroot: str = "",
        zookeeper_servers: int = 1,
        generated_ids: bool = False,
        boot: bool = True,
        start_ms: int = START_MS,
        cost_model: CostModel | None = None,
        timing: BrokerTiming | None = None,
        security: str = PLAINTEXT,
    ) -> None:
        ids = ids_above(config, brokers) if generated_ids else broker_ids(brokers)
        rack_of = racks_of(ids, racks)
        registrations = {broker: local_registration(base_port + broker, rack_of.get(broker)) for broker in ids}
        releases = Releases(ids, version, inter_broker_protocol, config, broker_config)
        if log_dirs < 1:
            raise ConfigError(f"there are {log_dirs} log directories", where="log_dirs", right="1 or more")
        access = access_of(zookeeper_chroot, secure=zookeeper_set_acl, oldest=releases.oldest.version)
        self._build(
            releases,
            registrations,
            InitialState(DataTree(), 0, {}, {}, frozenset()),
            ServerConfig(tick_time_ms=tick_time_ms, max_session_timeout_ms=max_session_timeout_ms),
            seed=seed,
            start_ms=start_ms,
            cluster_id=cluster_id,
            log_dirs=log_dirs,
            cost_model=cost_model,
            access=access,
            timing=timing,
            zookeeper_servers=zookeeper_servers,
            ids=generation_of(ids, releases.oldest) if generated_ids else None,
        )
        for broker in self.brokers.values():
            broker.set_endpoint(security=security)
        check_distinct({broker.id: broker.listeners for broker in self.brokers.values()})
        if boot:
            for broker in self.brokers.values():
                broker.start()
            self.run_until_quiet(_BOOT_LIMIT_S)
        self._note_ready()

    def _note_ready(self) -> None:
        """Do nothing; a subclass may tell that the cluster is ready to be used."""

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
        """Return a cluster that continues from the znodes of another, such as a recorded real cluster.

        The brokers that are registered in the tree run, and the one in `/controller` is controller. Brokers that only
        hold replicas, or are listed in `brokers`, do not run and can be started.

        Args:
            tree: the znodes by path, such as `recording.load(path).tree(step)`.
            brokers: ids of further brokers.
            racks: racks of brokers that are not registered in the tree.
            version, seed, config, tick_time_ms, base_port, start_ms, log_dirs, cost_model: as for a new cluster.

        Raises:
            ZnodeError: a znode that the cluster needs is invalid; says which path and field.
        """
        initial = state_from_tree(tree, start_ms)
        registrations = dict(initial.registrations)
        for broker in sorted({*brokers, *initial.replica_ids} - registrations.keys()):
            registrations[broker] = local_registration(base_port + broker, (racks or {}).get(broker))
        cluster = cls.__new__(cls)
        cluster._build(
            Releases(sorted(registrations), version, None, config),
            dict(sorted(registrations.items())),
            initial,
            ServerConfig(tick_time_ms=tick_time_ms),
            seed=seed,
            start_ms=start_ms,
            log_dirs=log_dirs,
            cost_model=cost_model,
        )
        cluster._continue_from(initial)
        return cluster

    @classmethod
    def from_layout(
        cls,
        layout: Layout,
        *,
        version: str = "3.9",
        seed: int = 0,
        config: Mapping[str, str | int | bool] | None = None,
        tick_time_ms: int = 2000,
        base_port: int = BASE_PORT,
        start_ms: int = START_MS,
        sends_batches: bool = True,
    ) -> Self:
        """Return a cluster that continues from a layout, of up to millions of partitions.

        The layout's live brokers run and the first of them is controller, as after a failover; the others do not run
        and can be started. Clients see all znodes; they are stored as columns, and so are the brokers' replicas.
        All logs are empty, and brokers accept no produce requests.

        Args:
            layout: a layout from `simzk.partitions.layouts.generate_layout` or `read_layout`.
            version: Kafka release of all brokers, 2.7 or later.
            sends_batches: the controller and the brokers send many ZooKeeper requests as one batch; if False, one by
                one as real ones do. Both give the same znodes, zxids and history.
            seed, config, tick_time_ms, base_port, start_ms: as for a new cluster.

        Raises:
            ConfigError: the version is older than 2.7.
            LayoutError: the layout is invalid; lists the first ten invalid partitions.

        >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
        >>> layout = generate_layout(brokers_in_racks(6, 3), topics=20, partitions=600, replication_factor=3, seed=1)
        >>> cluster = KafkaCluster.from_layout(layout)
        >>> cluster.kill(5)
        >>> cluster.run_until_quiet()
        True
        >>> bool((cluster.table.leader == 5).any()), len(cluster.table.rows_with_replica(5))
        (False, 300)
        """
        from simzk.partitions.layouts.layout import find_problems

        find_problems(layout).refuse("layout")
        ids = layout.brokers.ids.tolist()
        releases = Releases(ids, version, None, config)
        oldest = releases.oldest
        if oldest.version.number < _FIRST_WITH_LAYOUTS:
            what = f"leaders of Kafka {version} write ISRs, which is not simulated for layouts"
            raise ConfigError(what, where="version", right="2.7 or later")
        racks = zip(ids, layout.brokers.racks, strict=True)
        registrations = {broker: local_registration(base_port + broker, rack) for broker, rack in racks}
        initial = state_from_layout(
            layout,
            registrations,
            oldest.version,
            uuid_text(seed + 1),
            timeout_ms=oldest.config.integer("zookeeper.session.timeout.ms"),
            now_ms=start_ms,
        )
        cluster = cls.__new__(cls)
        cluster._build(
            releases,
            registrations,
            initial,
            ServerConfig(tick_time_ms=tick_time_ms),
            seed=seed,
            start_ms=start_ms,
            layout=layout,
            sends_batches=sends_batches,
        )
        cluster._continue_from(initial)
        return cluster

    def _build(
        self,
        releases: Releases,
        registrations: Mapping[int, BrokerRegistration],
        initial: InitialState,
        timeouts: ServerConfig,
        *,
        seed: int,
        start_ms: int,
        cluster_id: str | None = None,
        log_dirs: int = 1,
        cost_model: CostModel | None = None,
        access: ZooKeeperAccess = AT_THE_ROOT,
        ids: IdGeneration | None = None,
        layout: Layout | None = None,
        sends_batches: bool = True,
        timing: BrokerTiming | None = None,
        zookeeper_servers: int = 1,
    ) -> None:
        """Create all parts of the cluster; no broker runs yet."""
        assert layout is None or not access.chroot, "a layout stands at the root"
        self._releases = releases
        oldest = releases.oldest
        timeout_ms = oldest.config.integer("zookeeper.session.timeout.ms")
        self.seed = seed
        self.version: str = oldest.version.name
        self.scheduler: Scheduler = Scheduler(seed)
        self.network: Network = Network(self.scheduler, latency_us=LATENCY_US)
        self.history: History = History(self.scheduler)
        settings = timeouts._replace(sasl_users={USER: PASSWORD} if access.secure else None)
        self.zookeeper_host: ZooKeeperHost = self._new_zookeeper(
            initial, settings, timeout_ms, zookeeper_servers, start_ms=start_ms, access=access, cost_model=cost_model
        )
        self.server: Server = self.zookeeper_host.server
        topics = None if layout is None else load_layout(self.server, layout, oldest.version, start_ms)
        self._observable: ObservableTree = ChrootView(self.server, access) if access.chroot else self.server
        self.zookeeper_host.rules.lock = self.lock
        self.zookeeper_faults: BrokerFaults = BrokerFaults(
            self.zookeeper_host, self.history, lambda: list(self.brokers)
        )
        self.broker_faults: BrokerRequestFaults = BrokerRequestFaults(
            self.history, lambda: list(self.brokers), self.zookeeper_host.now_ms, self._call_at_ms, self.lock
        )
        self.participants: list[Participant] = []
        self._preferred_controllers: deque[int] = deque()
        self._topic_ids: dict[str, str] = {}
        self._invariants: tuple[Invariant, ...] | None = None
        self._unclean_requested = False
        self._last_transaction_us = 0
        self._last_in_sync: object = None
        self._replica_manager = ReplicaManager(BrokerEpochs(registrations))
        self.brokers: dict[int, Broker] = {}
        self.timing: BrokerTiming = timing or BrokerTiming()
        self.record_ledger: RecordLedger = self._new_ledger()
        environment = self._environment(releases, ids or IdGeneration((), 0), log_dirs, cost_model, cluster_id)
        if layout is not None:
            environment = self._with_empty_replicas(environment, sends_batches=sends_batches)
        for broker, registration in registrations.items():
            process = Process(self.scheduler, f"broker {broker}")
            self.brokers[broker] = Broker(broker, registration, process, environment)
        self._operator = Operator(self.scheduler, environment, lambda: self.controller)
        self.producer, self.traffic = self._new_clients(environment)
        names = SessionNames(self.brokers, self.participants, self._operator, self.zookeeper_host.client_of)
        observer = Observer(self.history, self.tree, names.name_of, names.broker_of, topics)
        observer.on_state = self.record_ledger.on_state
        observer.on_topic_deleted = self.record_ledger.forget
        observer.on_controller = self.record_ledger.on_controller_elected
        self._observable.on_transaction.add(observer.observe, observer.observe_batch)
        self.server.on_transaction.add(self._note_transaction, self._note_transaction)

    def _new_zookeeper(
        self,
        initial: InitialState,
        settings: ServerConfig,
        timeout_ms: int,
        servers: int,
        *,
        start_ms: int,
        access: ZooKeeperAccess,
        cost_model: CostModel | None,
    ) -> ZooKeeperHost:
        """Return ZooKeeper with the initial znodes and sessions; an ensemble begins without any."""
        scheduler, network = self.scheduler, self.network
        if servers != 1:
            from simzk.kafka.cluster.ensemble_host import EnsembleHost

            assert not initial.live, "an ensemble begins without sessions"
            self._ensemble_host = EnsembleHost(
                scheduler,
                network,
                servers,
                settings,
                self.history,
                start_ms=start_ms,
                access=access,
                cost_model=cost_model,
            )
            return self._ensemble_host
        sessions = [(live.session_id, timeout_ms) for live in initial.live.values()]
        server = Server(settings, now_ms=start_ms, tree=initial.tree, sessions=sessions, zxid=initial.zxid)
        return ZooKeeperHost(scheduler, network, server, start_ms=start_ms, access=access, cost_model=cost_model)

    def _new_ledger(self) -> RecordLedger:
        return RecordLedger(
            self.history,
            lambda broker, partition: self.brokers[broker].log_of(partition) if broker in self.brokers else None,
            lambda broker: self.brokers[broker].alive and not self.brokers[broker].paused,
            self._releases.record_defects,
            lambda: self._releases.lacks_topic_ids,
        )

    def _new_clients(self, environment: ClusterResources) -> tuple[Producer, Traffic]:
        """Return the clients of the cluster, whose batches are numbered together."""
        scheduler, connections, history, identities = self.scheduler, environment.connections, self.history, count(1)
        traffic = Traffic(scheduler, connections, history, self.record_ledger, list(self.brokers), identities)
        return Producer(scheduler, connections, history, identities), traffic

    def _with_empty_replicas(self, environment: ClusterResources, *, sends_batches: bool) -> ClusterResources:
        """Return the environment of brokers whose replicas have no logs, as those of a layout."""
        from simzk.kafka.broker.empty_replicas import ADDRESS, EmptyReplicas

        replicas = EmptyReplicas(
            Process(self.scheduler, ADDRESS),
            self.network,
            environment.connections,
            self.history,
            self._replica_manager,
            self.brokers,
            self._releases.oldest.version.orders.scala,
        )
        return replace(
            environment,
            replication=replicas,
            channel_manager=partial(BatchChannelManager, transport=replicas),
            sends_batches=sends_batches,
        )

    def _environment(
        self,
        releases: Releases,
        ids: IdGeneration,
        log_dirs: int,
        cost_model: CostModel | None,
        cluster_id: str | None,
    ) -> ClusterResources:
        """Return the services that all brokers share."""
        oldest = releases.oldest
        return ClusterResources(
            network=self.network,
            host=self.zookeeper_host,
            connections=Connections(self.scheduler, self.network),
            history=self.history,
            version=oldest.version,
            config=oldest.config,
            release_of=releases.of,
            endpoint_of=lambda broker: (
                self.brokers[broker].inter_broker_endpoint if broker in self.brokers else ("", -1)
            ),
            advertised_at=lambda broker, name: (
                self.brokers[broker].advertised_at(name) if broker in self.brokers else None
            ),
            cluster_id=cluster_id or self._new_uuid("cluster id"),
            ids=ids,
            now_ms=self.zookeeper_host.now_ms,
            new_topic_id=self._new_topic_id,
            new_token_id=lambda: self._new_uuid("token ids"),
            election_delay_us=self._election_delay_us,
            log_dirs=log_dirs,
            cost_model=cost_model,
            manager=self._replica_manager,
            replication=ReplicationOfLogs(),
            channel_manager=ControllerChannelManager,
            timing=self.timing,
            ledger=self.record_ledger,
            broker_faults=self.broker_faults.point,
        )

    def _call_at_ms(self, at_ms: int, callback: Callable[[], None]) -> None:
        self.scheduler.call_at(self.zookeeper_host.when_us(at_ms), FAULTS, callback)

    @synchronized
    def fail_next(self, api: str, error: str | ErrorCode, n: int = 1) -> FaultRule:
        """Let the next `n` requests of Kafka clients to one API fail; they are not applied.

        Args:
            api: name of the request as Kafka writes it: "Produce", "Metadata".
            error: the error code or its name, as "NOT_ENOUGH_REPLICAS".
            n: number of requests, of all clients and brokers together.

        Returns:
            the rule; `broker_faults` has more conditions and other faults.

        Raises:
            ConfigError: the API or the error is unknown, or `n` is below 1.

        >>> cluster = KafkaCluster(brokers=1)
        >>> cluster.fail_next("Produce", "NOT_ENOUGH_REPLICAS", 3)
        <fail Produce: fired 0 of 3>
        >>> cluster.close()
        """
        return self.broker_faults.fail(api, error=error, times=n)

    @synchronized
    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the high watermark at a partition's leader; None: no running, registered broker leads it."""
        for broker in self.brokers.values():
            if broker.alive and not broker.paused and broker.registered and broker.replicas.leads(partition):
                return broker.replicas.replicas[partition].high_watermark
        return None

    def _continue_from(self, initial: InitialState) -> None:
        """Attach the running brokers to their sessions, and let time pass until the cluster is quiet."""
        assert initial.live.keys() <= self.brokers.keys(), "a broker with a session is known"
        for broker, live in initial.live.items():
            self.brokers[broker].attach(live.session_id, live.epoch)
        self.run_until_quiet(_BOOT_LIMIT_S)
        self._note_ready()

    def _new_topic_id(self, topic: str) -> str:
        """Return the id of a new topic: the one that was set, or a random one."""
        return self._topic_ids.pop(topic, None) or self._new_uuid("topic ids")

    def _new_uuid(self, stream: str) -> str:
        """Return a random UUID in Kafka's form: 22 characters of URL-safe base64."""
        return uuid_text(self.scheduler.stream(stream).bits(UUID_BITS))

    def __repr__(self) -> str:
        brokers = "1 broker" if len(self.brokers) == 1 else f"{len(self.brokers)} brokers"
        controller = "no controller" if self.controller is None else f"controller {self.controller}"
        return f"<KafkaCluster {self.version}, {brokers}, {controller}, {self.scheduler.now_us / 1_000_000:.1f} s>"

    # -- Time

    @property
    @synchronized
    def now_ms(self) -> int:
        """The present time of the simulation, in ms since 1970 as ZooKeeper counts them."""
        return self.zookeeper_host.now_ms()

    @synchronized
    def advance(self, seconds: float) -> None:
        """Let virtual time pass.

        Args:
            seconds: virtual seconds, 0 or more; fractions count to the microsecond.

        Raises:
            ConfigError: a negative duration.

        >>> cluster = KafkaCluster(brokers=1)
        >>> before_ms = cluster.now_ms
        >>> cluster.advance(2.5)
        >>> cluster.now_ms - before_ms
        2500
        """
        if seconds < 0:
            raise ConfigError(f"time cannot go back by {-seconds:g} s", where="seconds", right="0 or more")
        self._pass_time(self.scheduler.now_us + round(seconds * 1_000_000))

    run_for = advance
    """The same as `advance`."""

    def _pass_time(self, until_us: int) -> None:
        """Let virtual time pass; the caller holds `lock`."""
        self.scheduler.run_until(until_us)

    def run_until(self, condition: Callable[[], _R], timeout_s: float = 120.0) -> _R:
        """Let virtual time pass until a condition is true.

        The condition is checked now and after each instant at which something happens. It runs without the cluster's
        lock, so it may use kazoo clients.

        Args:
            condition: returns a true value once it holds. An `AssertionError` or `SimzkError`, as of `state` for a
                topic that does not exist yet, means that it does not hold yet.
            timeout_s: longest time to pass, in virtual seconds.

        Returns:
            What the condition returned.

        Raises:
            TimeoutError: the condition does not hold in time; says which one, and the state of the cluster.
            ConfigError: a negative time.

        >>> with KafkaCluster(brokers=3) as cluster:
        ...     _ = cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        ...     cluster.run_until(lambda: cluster.state("orders", 0).leader)
        ...     cluster.kill(1)
        ...     cluster.run_until(lambda: cluster.state("orders", 0).leader != 1)
        1
        True
        """
        if timeout_s < 0:
            raise ConfigError(f"time cannot go back by {-timeout_s:g} s", where="timeout_s", right="0 or more")
        wanted = Condition(condition)
        with self.lock:
            deadline_us = self.scheduler.now_us + round(timeout_s * 1_000_000)
        while not wanted.holds():
            with self.lock:
                if self.scheduler.now_us >= deadline_us:
                    raise wanted.timeout(f"{timeout_s:g} virtual seconds", self.describe()) from wanted.error
                next_us = self.scheduler.next_at_us
                self._pass_time(deadline_us if next_us is None else min(next_us, deadline_us))
        return wanted.value

    @synchronized
    def describe(self) -> str:
        """Return the state of the cluster as text: time, seed, brokers, and leader and ISR of up to 20 partitions.

        >>> with KafkaCluster(brokers=2) as cluster:
        ...     _ = cluster.create_topic("orders", assignment={0: [2, 1]})
        ...     cluster.advance(1)
        ...     print(cluster.describe())
        <KafkaCluster 3.9, 2 brokers, controller 1, 4.6 s>, seed 0
        registered brokers: 1, 2
        orders-0: leader 2, isr [2, 1], leader epoch 0
        """
        lines = [
            f"{self!r}, seed {self.seed}",
            f"registered brokers: {', '.join(map(str, self.live_brokers)) or 'none'}",
        ]
        names = [self.table.name(row) for row in self.table.rows()[: _DESCRIBED + 1].tolist()]
        for topic, partition in sorted(names[:_DESCRIBED]):
            try:
                state = self.state(topic, partition)
            except (ConfigError, ZnodeError) as error:
                lines.append(f"{topic}-{partition}: {error.what}")
                continue
            leader = "no leader" if state.leader < 0 else f"leader {state.leader}"
            lines.append(f"{topic}-{partition}: {leader}, isr {list(state.isr)}, leader epoch {state.leader_epoch}")
        if len(names) > _DESCRIBED:
            lines.append("...")
        return "\n".join(lines)

    @synchronized
    def run_until_quiet(self, limit_seconds: float = 120.0) -> bool:
        """Let virtual time pass until nothing is left to happen without a further request.

        A cluster is quiet if, for three seconds, its ZooKeeper ensemble has a leader and waits for no server, all
        running brokers and no others are registered, a controller is active and its failover is complete, every replica
        that can be in sync is, no request of the operator is open, and ZooKeeper got no write.

        Args:
            limit_seconds: the longest time to pass, in virtual seconds.

        Returns:
            whether the cluster is quiet.
        """
        deadline_us = self.scheduler.now_us + round(limit_seconds * 1_000_000)
        busy_us = self.scheduler.now_us
        while self.scheduler.now_us < deadline_us:
            if not self._is_settled():
                busy_us = self.scheduler.now_us
            elif self.scheduler.now_us - max(self._last_transaction_us, busy_us) >= QUIET_US:
                return True
            self._pass_time(min(deadline_us, self.scheduler.now_us + QUIET_STEP_US))
        return False

    def _is_settled(self) -> bool:
        """Return whether the cluster would be quiet if nothing was written for a while."""
        alive = [broker for broker in self.brokers.values() if broker.alive]
        running = {broker.id for broker in alive}
        serving = {broker.id for broker in alive if broker.registered and not broker.stopping}
        ensemble = self._ensemble_host
        if ensemble is not None and (ensemble.leader is None or ensemble.ensemble.awaits_servers):
            return False
        if any(not broker.paused and broker.has_unannounced_isr_changes for broker in alive):
            return False
        if set(self.live_brokers) != running or serving != running or self._operator.is_busy:
            return False
        if not running:
            return True
        controller = self.controller
        if controller not in running or self.brokers[controller].paused:
            return False
        if self.brokers[controller].controller.is_failing_over:
            return False  # it may read for seconds before it writes: 10,000 topics take three
        lost = {broker.id: broker.log_dirs.offline for broker in alive}
        running = {broker.id for broker in alive if not broker.paused}
        # The look at all partitions is skipped while nothing that it depends on has changed.
        key = self.server.zxid, controller, running, {broker: dict(found) for broker, found in lost.items() if found}
        if key != self._last_in_sync:
            if not replicas_are_in_sync(self.table, self.tree, broker_mask(running), lost, self._outdated_replicas):
                return False
            self._last_in_sync = key
        return True

    def _outdated_replicas(self, partition: TopicPartition, state: LeaderAndIsr) -> list[int]:
        """Return the brokers that cannot join the ISR.

        Their leader fences them, because the controller sent an outdated epoch (KAFKA-9212). In 0.8.0 a broker that a
        reassignment has removed stays in the ISR (KAFKA-1097). Elected from there it is not sent a LeaderAndIsr, which
        goes to assigned replicas (OfflinePartitionLeaderSelector), and serves nobody.
        """
        ruling = self.brokers.get(-1 if self.controller is None else self.controller)
        if ruling is None or ruling.version.controller.caches_raised_epochs:
            return []
        controller, outdated = ruling.controller, []
        is_assigned = state.leader in controller.context.assignment(partition).replicas
        if not is_assigned and not ruling.version.controller.writes_union_assignment:
            return list(self.brokers)
        for broker in self.brokers.values():
            if not broker.alive or not broker.version.broker.fetches_have_leader_epochs:
                continue
            known = broker.replicas.state_of(partition)
            if known is not None and known.leader_epoch < state.leader_epoch and controller.has_sent_all(broker.id):
                outdated.append(broker.id)
        return outdated

    def _note_transaction(self, _: object) -> None:
        self._last_transaction_us = self.scheduler.now_us

    def pump(self) -> None:
        """Deliver ZooKeeper's pending output to the brokers, after a client outside the simulation changed something.

        The caller holds `lock`.
        """
        self.zookeeper_host.send_output()

    # -- State

    @property
    @synchronized
    def tree(self) -> KafkaTree:
        """The znodes by the paths that Kafka uses: those below the chroot, if there is one."""
        return self._observable.tree

    @property
    @synchronized
    def controller(self) -> int | None:
        """The broker in `/controller`; None if the znode is missing or invalid."""
        node = self.tree.get(paths.CONTROLLER)
        if node is None:
            return None
        try:
            return controller_schema.decode(paths.CONTROLLER, node.data)
        except ZnodeError:
            return None

    @property
    @synchronized
    def live_brokers(self) -> list[int]:
        """The ids of the registered brokers, ascending."""
        node = self.tree.get(paths.BROKER_IDS)
        ids = [paths.number_of(name) for name in (() if node is None else node.child_names())]
        return sorted(broker for broker in ids if broker is not None)

    @synchronized
    def racks_of_live(self) -> dict[int, str | None]:
        """Return the racks of the registered brokers by id, None for a broker without a rack."""
        return {broker: self.brokers[broker].rack for broker in self.live_brokers if broker in self.brokers}

    @property
    @synchronized
    def table(self) -> PartitionTable:
        """The partition table of the active controller; empty while no controller is active."""
        controller = self.controller
        broker = None if controller is None else self.brokers.get(controller)
        if broker is None or not broker.alive or not broker.controller.is_active:
            return PartitionTable()
        return broker.controller.context.table

    @property
    @synchronized
    def invariants(self) -> tuple[Invariant, ...]:
        """Invariants of znodes and brokers that no failure may break, checked from the first access on."""
        if self._invariants is None:
            from simzk.kafka.observation.beliefs import beliefs_of
            from simzk.kafka.observation.invariants import invariants_of
            from simzk.kafka.observation.known_bugs import Scene, conditions_of

            releases = self._releases
            of_znodes = invariants_of(
                self._observable,
                leaders_write=releases.leaders_write,
                empties_isr=releases.empties_isr,
                elects_in_steps=releases.elects_in_steps,
                former_controllers_issue=releases.former_controllers_issue,
                resigned_controllers_issue=releases.resigned_controllers_issue,
                assigns_last=releases.assigns_last,
                supersedes_reassignments=releases.supersedes_reassignments,
                unclean_allowed=lambda: self._unclean_requested or releases.unclean_allowed,
                unclean_issue=releases.unclean_issue,
                topic_id_issue=releases.topic_id_issue,
            )
            scene = Scene(self, of_znodes[0].znodes)
            of_beliefs = beliefs_of(
                self._replica_manager,
                self._observable,
                self._old_cache,
                self._caching,
                issue_of=scene.issue,
                leaders_read_again=releases.leaders_read_again,
            )
            self._invariants = (*of_znodes, *of_beliefs, *self._record_invariants(), *conditions_of(scene))
        return self._invariants

    def _old_cache(self) -> Callable[[TopicPartition], LeaderAndIsr | None] | None:
        """Return the cache of a controller that does not cache the leader epochs it raises; None for another one."""
        broker = self.brokers.get(-1 if self.controller is None else self.controller)
        if broker is None or broker.version.controller.caches_raised_epochs or not broker.alive:
            return None
        return broker.controller.context.leadership

    def _caching(self, topic: str) -> Iterator[int]:
        """Yield the running brokers whose metadata caches have a topic."""
        for broker in self.brokers.values():
            if broker.alive and topic in broker.metadata.topics:
                yield broker.id

    def _record_invariants(self) -> tuple[RecordInvariant, ...]:
        return record_invariants(self.record_ledger)

    @synchronized
    def state(self, topic: str, partition: int) -> LeaderAndIsr:
        """Return leader, leader epoch and ISR of a partition from ZooKeeper.

        Raises:
            ConfigError: the partition does not exist, or has no state yet.
            ZnodeError: its znode is invalid.

        >>> with KafkaCluster(brokers=3, seed=1) as cluster:
        ...     _ = cluster.create_topic("orders", assignment={0: [3, 1]})
        ...     cluster.advance(1)
        ...     cluster.state("orders", 0).leader
        3
        """
        path = paths.state(TopicPartition(topic, partition))
        node = self.tree.get(path)
        if node is None:
            right = "a partition that exists; after create_topic time has to pass, such as advance(1)"
            raise ConfigError(f"partition {topic}-{partition} has no state", where=path, right=right)
        return partition_state.decode(path, node.data, node.version)

    @synchronized
    def assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        """Return the replica assignment of each partition of a topic from ZooKeeper.

        Raises:
            ConfigError: the topic does not exist.
            ZnodeError: its znode is invalid.
        """
        path = paths.topic(topic)
        node = self.tree.get(path)
        if node is None:
            raise ConfigError(f"topic {topic} does not exist", where=path, right="a topic that exists")
        return topic_schema.decode(path, node.data).partitions

    # -- Failures

    @synchronized
    def kill(self, broker: int) -> None:
        """Kill a broker's process, as `kill -9` does; its session stays until it expires.

        Raises:
            ConfigError: the broker does not exist or does not run.
        """
        self._running(broker).kill()

    @synchronized
    def power_off(self, broker: int, *, unwritten_s: float = 30.0) -> None:
        """Cut the power of a broker's machine: its process ends, and what its operating system has not written is gone.

        Kafka flushes logs only at a clean shutdown and by `log.flush.interval.messages`; Linux writes what is older
        than 30 s. A killed process loses nothing of it. `restart` starts the broker again.

        Args:
            broker: id of the broker, which may be dead already.
            unwritten_s: age in seconds up to which appended records are only in memory.

        Raises:
            ConfigError: the broker does not exist, or the time is negative.

        >>> cluster = KafkaCluster(brokers=1, seed=1)
        >>> _ = cluster.create_topic("orders", assignment={0: [1]})
        >>> cluster.advance(1)
        >>> for wait_s in (40, 1):
        ...     _ = cluster.produce("orders", 0, records=10)
        ...     cluster.advance(wait_s)
        >>> cluster.power_off(1)
        >>> cluster.restart(1)
        >>> cluster.run_until_quiet()
        True
        >>> cluster.log(1, "orders", 0).log_end
        10
        """
        found = self._broker(broker)
        if unwritten_s < 0:
            raise ConfigError(f"the time is {unwritten_s} s", where="unwritten_s", right="0 or more")
        found.power_off(round(unwritten_s * 1_000_000))

    @synchronized
    def wipe(self, broker: int) -> None:
        """Replace the disks of a broker that does not run by empty ones; it keeps its id.

        Raises:
            ConfigError: the broker does not exist, or it runs.
        """
        found = self._broker(broker)
        if found.alive:
            raise ConfigError(f"broker {broker} is running", where="broker", right="a broker that is not")
        found.wipe()

    @synchronized
    def slow_disk(self, broker: int, seconds: float) -> None:
        """Let each access to a broker's disk take some time, until set to 0: appends, and reads of what followers lack.

        Accesses come one after the other. Reads at the log end come from the page cache and are fast.

        Args:
            broker: id of the broker, running or not.
            seconds: duration of an access in virtual seconds; 0 for a fast disk.

        Raises:
            ConfigError: the broker does not exist, or the time is negative.
        """
        found = self._broker(broker)
        if seconds < 0:
            raise ConfigError(f"the time is {seconds} s", where="seconds", right="0 or more")
        found.disk.set_delay(round(seconds * 1_000_000))

    @synchronized
    def restart(
        self,
        broker: int,
        *,
        version: str | None = None,
        inter_broker_protocol: str | None = None,
        port: int | None = None,
        rack: str | None = None,
        config: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        """Start a broker that does not run; while its old session exists, its registration fails and is retried.

        Args:
            broker: id of the broker.
            version: new release of the broker, as in a rolling upgrade; unchanged if None.
            inter_broker_protocol: new `inter.broker.protocol.version`; unchanged if None.
            port, rack: new port and rack; unchanged if None.
            config: settings of this broker that change.

        Raises:
            ConfigError: the broker does not exist, already runs, cannot run this release, or a setting is invalid.
        """
        found = self._broker(broker)
        if found.alive:
            raise ConfigError(f"broker {broker} is running", right="a broker that is not")
        check = partial(self._check_listeners_of, found, port)
        self._releases.change(broker, version, inter_broker_protocol, config, check)
        found.set_endpoint(port=port, rack=rack)
        found.start()

    def _check_listeners_of(self, broker: Broker, port: int | None, release: BrokerRelease) -> None:
        """Raise ConfigError if a broker cannot start with the listeners of a release's settings."""
        others = {other.id: other.listeners for other in self.brokers.values() if other is not broker}
        check_distinct({**others, broker.id: broker.listeners_with(release, port=port)})

    @synchronized
    def pause(self, broker: int, seconds: float | None = None) -> PauseHandle:
        """Suspend a broker's process, as SIGSTOP or a long garbage collection does.

        Args:
            broker: id of the broker.
            seconds: virtual seconds until the process resumes by itself; if None, until `resume`.

        Returns:
            a context manager that resumes the process at the end of its block.

        Raises:
            ConfigError: the broker does not exist or does not run.

        >>> cluster = KafkaCluster(brokers=3, seed=1)
        >>> with cluster.pause(2):
        ...     cluster.advance(30)
        ...     cluster.live_brokers
        [1, 3]
        """
        self._running(broker).process.pause(None if seconds is None else round(seconds * 1_000_000))
        self.history.record(f"broker {broker}", "paused", "", "", "" if seconds is None else f"for {seconds:g} s")
        return PauseHandle(lambda: self._end_pause(broker))

    @synchronized
    def resume(self, broker: int) -> None:
        """Resume a paused broker.

        Raises:
            ConfigError: the broker does not exist or does not run.
        """
        self._running(broker).process.resume()
        self.history.record(f"broker {broker}", "resumed")

    @synchronized
    def _end_pause(self, broker: int) -> None:
        """Resume a broker at the end of a `with` block, unless it was killed or resumed in the block."""
        if self.brokers[broker].alive and self.brokers[broker].paused:
            self.resume(broker)

    @synchronized
    def expire(self, broker: int, after: float = 0.0) -> None:
        """Expire the ZooKeeper session of a broker now or later, as ZooKeeper does after the session timeout.

        Args:
            broker: id of a broker that runs, or of a killed one with a session that still exists. A running broker
                without a session, such as one that is still starting, is not affected.
            after: virtual seconds from now. The session does not expire earlier, even if the timeout ends first.

        Raises:
            ConfigError: the broker does not exist, does not run and has no session, or the time is negative.

        >>> cluster = KafkaCluster(brokers=3, seed=1)
        >>> cluster.kill(2)
        >>> cluster.expire(2)
        >>> cluster.live_brokers
        [1, 3]
        """
        found = self._broker(broker)
        session_id = found.session_id
        session = self.server.sessions.get(session_id)
        if session is None and not found.alive:
            raise ConfigError(f"broker {broker} has no session", where="broker", right="a broker with a session")
        if after < 0:
            raise ConfigError(f"{after:g} s are in the past", where="after", right="0 or more")
        if after and session is not None:
            now_ms, after_us = self.zookeeper_host.now_ms(), round(after * 1_000_000)
            self.server.sessions.touch(session, now_ms, after_us // 1000)
            self.scheduler.call_later(after_us, f"broker {broker}", partial(self.expire_session, broker, session_id))
        else:
            self.expire_session(broker, session_id)

    @synchronized
    def expire_session(self, broker: int, session_id: int) -> None:
        """Expire one session of a broker now, if it still exists: also that of an earlier process.

        Args:
            broker: id of the broker, for the history.
            session_id: id of the session, as in `ephemeralOwner` of the broker's registration.
        """
        if session_id not in self.server.sessions:
            return
        self.history.record(f"broker {broker}", "session expired by hand")
        self.server.expire(session_id, self.zookeeper_host.now_ms())
        self.zookeeper_host.send_output()

    @synchronized
    def check_isrs(self, broker: int, *, early: float = 0.0) -> None:
        """Let a leader check for lagging followers now, as it does by its timer.

        Args:
            broker: id of the leader.
            early: virtual seconds by which a follower may lag less than `replica.lag.time.max.ms`.

        Raises:
            ConfigError: the broker does not exist or does not run.
        """
        self._running(broker).replicas.shrink_isrs(round(early * 1_000_000))

    @synchronized
    def announce_isr_changes(self, broker: int, missed: Sequence[tuple[str, int]] = ()) -> bool:
        """Let a leader of 0.9 to 2.6 announce ISR changes now if the last is old enough, as it does by its timer.

        Args:
            broker: the leader.
            missed: partitions with changes that are left for the next announcement, as (topic, partition): real leaders
                note a change only after they have written it.

        Returns:
            whether it had changes to announce.

        Raises:
            ConfigError: the broker does not exist or does not run.
        """
        found = self._running(broker)
        has_changes = found.has_unannounced_isr_changes
        found.announce_isr_changes([TopicPartition(*partition) for partition in missed])
        return has_changes

    @synchronized
    def disconnect(self, broker: int) -> None:
        """Close a broker's connection to ZooKeeper; the broker reconnects with the same session.

        Raises:
            ConfigError: the broker does not exist or does not run.
        """
        session = self._running(broker).session
        self.history.record(f"broker {broker}", "disconnected from ZooKeeper")
        session.break_connection()

    @synchronized
    def shutdown(self, broker: int) -> None:
        """Start a controlled shutdown of a broker, as SIGTERM does: its leaders move, then it closes its session.

        From 0.9 on a broker that is still starting halts.

        Raises:
            ConfigError: the broker does not exist or does not run.
        """
        self._running(broker).shut_down()

    @synchronized
    def fail_log_dir(self, broker: int, directory: int | tuple[str, int]) -> None:
        """Fail a log directory of a broker, as a broken disk does; its replicas are offline until the broker restarts.

        From 1.0 on the broker continues with its other directories; without any left, or before 1.0, it halts. After
        a restart the directory is empty and usable.

        Args:
            broker: id of the broker.
            directory: index of the directory from 0 on, or the (topic, partition) of a replica in it.

        Raises:
            ConfigError: the broker does not run, or the directory does not exist or has already failed.
        """
        found = self._running(broker)
        live = found.log_dirs.live
        chosen = directory if isinstance(directory, int) else found.log_dirs.directory_of(TopicPartition(*directory))
        if chosen not in live:
            named = f"directory {directory}" if isinstance(directory, int) else f"log of {directory[0]}-{directory[1]}"
            raise ConfigError(f"broker {broker} has no live {named}", where="directory", right=f"one of {live}")
        found.fail_log_dir(chosen)

    @property
    @synchronized
    def is_zookeeper_up(self) -> bool:
        """Whether the ZooKeeper server is neither stopped nor paused."""
        return not (self.zookeeper_host.is_stopped or self.zookeeper_host.is_frozen)

    @synchronized
    def stop_zookeeper(self) -> None:
        """Stop the ZooKeeper server of the brokers: their connections break, and they reconnect after its start.

        Its znodes and sessions are kept, and no session expires meanwhile. Other clients of the tree are not affected.

        Raises:
            ConfigError: it is stopped or paused.
        """
        self._require_zookeeper_up()
        self.history.record("zookeeper", "stopped")
        self.zookeeper_host.stop()

    @synchronized
    def pause_zookeeper(self) -> None:
        """Suspend the ZooKeeper server of the brokers, as SIGSTOP or a long garbage collection does.

        Raises:
            ConfigError: it is stopped or paused.
        """
        self._require_zookeeper_up()
        self.history.record("zookeeper", "paused")
        self.zookeeper_host.freeze()

    @synchronized
    def start_zookeeper(self) -> None:
        """Start the stopped ZooKeeper server, or resume the paused one.

        The session timeouts begin anew at a start. At the end of a pause sessions expire that are due.

        Raises:
            ConfigError: it runs.

        >>> cluster = KafkaCluster(brokers=3, seed=1)
        >>> cluster.stop_zookeeper()
        >>> cluster.advance(60)
        >>> cluster.start_zookeeper()
        >>> cluster.advance(10)
        >>> cluster.live_brokers, [event.what for event in cluster.history if event.who == "zookeeper"]
        ([1, 2, 3], ['stopped', 'started'])
        """
        if self.is_zookeeper_up:
            raise ConfigError("ZooKeeper runs", right="a stopped or paused ZooKeeper")
        self.history.record("zookeeper", "started" if self.zookeeper_host.is_stopped else "resumed")
        self.zookeeper_host.start()
        assert self.is_zookeeper_up, "ZooKeeper runs after its start"

    @property
    @synchronized
    def zookeeper_leader(self) -> int | None:
        """The number of the ZooKeeper server that leads the ensemble; None while there is none.

        Raises:
            ConfigError: the cluster has one ZooKeeper server.
        """
        return self._ensemble.leader

    @property
    @synchronized
    def zookeeper_servers(self) -> dict[int, str]:
        """State of each server of the ensemble by number: running, paused or killed; empty without an ensemble."""
        return {} if self._ensemble_host is None else self._ensemble_host.states

    @property
    @synchronized
    def killed_zookeeper_servers(self) -> list[int]:
        """The numbers of the ZooKeeper servers that were killed and not started again, ascending."""
        return [] if self._ensemble_host is None else self._ensemble_host.killed

    @synchronized
    def kill_zookeeper_server(self, server: int) -> None:
        """Kill one server of the ensemble: its connections break, and its clients go to other servers.

        Args:
            server: its number, from 1.

        Raises:
            ConfigError: the cluster has one ZooKeeper server, or the server does not exist or does not run.
        """
        self._ensemble.kill_server(server)

    @synchronized
    def restart_zookeeper_server(self, server: int) -> None:
        """Start a killed server of the ensemble, which takes over the history from the leader.

        Raises:
            ConfigError: the cluster has one ZooKeeper server, or the server does not exist or runs.
        """
        self._ensemble.start_server(server)

    @synchronized
    def lose_zookeeper_leader(self, outage_s: float | None = None) -> int:
        """Kill the leading server of the ensemble; all connections break until the others have elected another one.

        Session timeouts begin anew with the new leader.

        Args:
            outage_s: virtual seconds until then, if a majority runs [default: half a second].

        Returns:
            the number of the server, for `restart_zookeeper_server`.

        Raises:
            ConfigError: the cluster has one ZooKeeper server, there is no leader, or the time is negative.

        >>> cluster = KafkaCluster(brokers=3, zookeeper_servers=3, seed=1)
        >>> lost = cluster.lose_zookeeper_leader()
        >>> cluster.run_until_quiet()
        True
        >>> lost, cluster.zookeeper_leader, cluster.live_brokers
        (3, 2, [1, 2, 3])
        """
        leader = self._ensemble.leader
        if leader is None:
            raise ConfigError("the ensemble has no leader", right="an ensemble of which a majority runs")
        if outage_s is not None and outage_s < 0:
            raise ConfigError(f"the time is {outage_s} s", where="outage_s", right="0 or more")
        self._ensemble.kill_server(leader, None if outage_s is None else round(outage_s * 1000))
        return leader

    @synchronized
    def pause_zookeeper_server(self, server: int, seconds: float | None = None) -> PauseHandle:
        """Suspend one server of the ensemble, as SIGSTOP or a long garbage collection does.

        The other servers wait 5 ticks for it. Then they go on without it, and elect another leader if it led. After a
        shorter pause it goes on as if nothing had happened. Its clients hear nothing and go to other servers.

        Args:
            server: its number, from 1.
            seconds: virtual seconds until it resumes by itself; if None, until `resume_zookeeper_server`.

        Returns:
            a context manager that resumes the server at the end of its block.

        Raises:
            ConfigError: the cluster has one ZooKeeper server, ZooKeeper is stopped or paused as a whole, or the server
                does not exist, does not run or is paused.

        >>> cluster = KafkaCluster(brokers=3, zookeeper_servers=3, seed=1)
        >>> with cluster.pause_zookeeper_server(3):
        ...     cluster.advance(20)
        ...     cluster.zookeeper_leader, cluster.live_brokers
        (2, [1, 2, 3])
        """
        ensemble = self._ensemble
        self._require_zookeeper_up()
        if seconds is not None and seconds < 0:
            raise ConfigError(f"the time is {seconds:g} s", where="seconds", right="0 or more")
        ensemble.pause_server(server, None if seconds is None else round(seconds * 1_000_000))
        return PauseHandle(lambda: self._end_pause_of_server(server))

    @synchronized
    def resume_zookeeper_server(self, server: int) -> None:
        """Resume a paused server of the ensemble.

        Raises:
            ConfigError: the cluster has one ZooKeeper server, or the server is not paused.
        """
        self._ensemble.resume_server(server)

    @synchronized
    def _end_pause_of_server(self, server: int) -> None:
        """Resume a server at the end of a `with` block, unless it was killed or resumed in the block."""
        if server in self._ensemble.paused:
            self._ensemble.resume_server(server)

    @synchronized
    def cut_zookeeper_server(self, server: int, broker: int | None = None) -> None:
        """Cut one server of the ensemble off from all other servers, or from one broker; messages are lost.

        For 5 ticks neither side notices a cut between servers: brokers on the server read its tree, which falls behind,
        and their writes wait. Then it closes their connections, and they go to other servers. A server that leads has
        lost its majority, so the others elect another leader.

        Args:
            server: its number, from 1.
            broker: id of the broker, which reaches the other servers [default: from the other servers; clients still
                reach it].

        Raises:
            ConfigError: the cluster has one ZooKeeper server, or the server or broker does not exist.

        >>> cluster = KafkaCluster(brokers=3, zookeeper_servers=3, seed=1)
        >>> cluster.cut_zookeeper_server(3)
        >>> cluster.advance(20)
        >>> cluster.zookeeper_leader, cluster.live_brokers
        (2, [1, 2, 3])
        >>> cluster.heal_zookeeper_server(3)
        >>> cluster.run_until_quiet()
        True
        """
        self._ensemble.cut_server(server, None if broker is None else self._broker(broker).process.name)

    @synchronized
    def heal_zookeeper_server(self, server: int, broker: int | None = None) -> None:
        """End all cuts of one server of the ensemble, or the one between it and a broker.

        Raises:
            ConfigError: the cluster has one ZooKeeper server, or the server or broker does not exist.
        """
        self._ensemble.heal_server(server, None if broker is None else self._broker(broker).process.name)

    @synchronized
    def heal_zookeeper_servers(self) -> None:
        """Start all killed servers of the ensemble, resume paused ones and end all cuts; without one, do nothing."""
        if self._ensemble_host is not None:
            self._ensemble_host.heal_all()

    @property
    @synchronized
    def paused_zookeeper_servers(self) -> list[int]:
        """The numbers of the ZooKeeper servers that are paused one by one, ascending."""
        return [] if self._ensemble_host is None else self._ensemble_host.paused

    @property
    @synchronized
    def cut_zookeeper_servers(self) -> list[int]:
        """The numbers of the ZooKeeper servers that are cut off from the other servers, ascending."""
        return [] if self._ensemble_host is None else self._ensemble_host.cut_off

    @property
    def _ensemble(self) -> EnsembleHost:
        if self._ensemble_host is None:
            right = "a cluster with zookeeper_servers of 3 or more"
            raise ConfigError("the cluster has one ZooKeeper server", where="zookeeper_servers", right=right)
        return self._ensemble_host

    def _require_zookeeper_up(self) -> None:
        if not self.is_zookeeper_up:
            raise ConfigError("ZooKeeper is stopped or paused", right="a ZooKeeper that runs")

    @synchronized
    def prefer_controller(self, broker: int, *next_brokers: int) -> None:
        """Let a broker win the next controller election in which it takes part; otherwise the winner is random.

        Args:
            broker: id of the winner.
            next_brokers: winners of the elections after that; the last one stays preferred.

        Raises:
            ConfigError: a broker does not exist.
        """
        self._preferred_controllers = deque(self._broker(winner).id for winner in (broker, *next_brokers))
        if next_brokers and self._note_controller not in self.server.on_transaction:
            self.server.on_transaction.append(self._note_controller)

    def _note_controller(self, transaction: Transaction) -> None:
        """Go on to the next preferred controller after an election."""
        record = transaction.record
        records = record.records if isinstance(record, MultiTxn) else (record,)
        if any(isinstance(one, CreateTxn) and one.path.endswith(paths.CONTROLLER) for one in records):
            assert len(self._preferred_controllers) > 1, "the last preferred controller stays preferred"
            self._preferred_controllers.popleft()
            if len(self._preferred_controllers) < 2:
                self.server.on_transaction.remove(self._note_controller)

    def _election_delay_us(self, broker: int) -> int:
        preferred = self._preferred_controllers[0] if self._preferred_controllers else broker
        if preferred == broker or not self.brokers[preferred].alive:
            return 0
        assert self.brokers[broker].alive, "only a running broker takes part in an election"
        return self.timing.election_head_start_us

    def _broker(self, broker: int) -> Broker:
        found = self.brokers.get(broker)
        if found is None:
            known = ", ".join(str(known) for known in self.brokers)
            raise ConfigError(f"broker {broker} does not exist", where="broker", right=f"one of {known}")
        return found

    def _running(self, broker: int) -> Broker:
        found = self._broker(broker)
        if not found.alive:
            raise ConfigError(f"broker {broker} is not running", where="broker", right="a broker that runs")
        return found

    # -- Clients

    @synchronized
    def produce(
        self,
        topic: str,
        partition: int,
        records: int = 1,
        *,
        acks: Acks = 1,
        timeout_ms: int = 30_000,
        broker: int | None = None,
    ) -> Future[AppendResponse]:
        """Send records to a partition's leader, without retries.

        Args:
            topic, partition: the partition.
            records: number of records.
            acks: replicas that must have the records: 0, 1 or "all" (the ISR, of at least `min.insync.replicas`
                members); any number up to 0.8.2.
            timeout_ms: how long the leader may wait for these replicas, in ms.
            broker: id of the broker that gets the request; the leader in ZooKeeper by default.

        Returns:
            the response: an error, or the offset of the first record. It is done once time has passed.

        Raises:
            ConfigError: the partition or broker does not exist, or acks, records or timeout are out of range.

        >>> cluster = KafkaCluster(brokers=3, seed=1)
        >>> _ = cluster.create_topic("orders", assignment={0: [1, 2]}, config={"min.insync.replicas": "2"})
        >>> cluster.advance(1)
        >>> cluster.kill(2)
        >>> cluster.run_until_quiet()
        True
        >>> to_all, to_leader = cluster.produce("orders", 0, acks="all"), cluster.produce("orders", 0, acks=1)
        >>> cluster.advance(1)
        >>> to_all.result().error.name, to_leader.result().error.name
        ('NOT_ENOUGH_REPLICAS', 'NONE')
        """
        leader = self.state(topic, partition).leader if broker is None else self._broker(broker).id
        target = leader if leader in self.brokers else None
        return self.producer.send(TopicPartition(topic, partition), records, acks, timeout_ms, target)

    @synchronized
    def metadata(self, broker: int) -> BrokerMetadata:
        """Return a broker's metadata cache, which is as old as the last UpdateMetadata request that reached it.

        Raises:
            ConfigError: the broker does not exist or does not run.
        """
        return self._running(broker).metadata.snapshot()

    @synchronized
    def log(self, broker: int, topic: str, partition: int) -> ReplicaLog:
        """Return log end offset and high watermark of a broker's replica.

        Raises:
            ConfigError: the broker does not exist, does not run, or has no open log of the partition.
        """
        replica = self._running(broker).replicas.replicas.get(TopicPartition(topic, partition))
        if replica is None:
            raise ConfigError(f"broker {broker} has no log of {topic}-{partition}", right="a replica that it has")
        return ReplicaLog(replica.log_end, replica.high_watermark)

    @synchronized
    def allocate_producer_ids(self, broker: int) -> Future[AdminResponse]:
        """Let a broker allocate a block of producer ids, as it does for its first idempotent producer.

        Raises:
            ConfigError: the broker does not exist or does not run.
        """
        running = self._running(broker)
        via = None if running.client.version.controller.allocates_producer_ids else broker
        return self._operator.request("producer ids", ProducerIdsRequest(broker, running.epoch), via)

    @synchronized
    def consumer(
        self,
        group: str,
        topics: Mapping[str, int] | Subscription,
        *,
        name: str | None = None,
        consumer_id: str | None = None,
        version: str | None = None,
        config: Mapping[str, str | int | bool] | None = None,
        machine: str = "localhost",
        watch_brokers: bool = False,
        reads: bool = True,
    ) -> Consumer:
        """Start an old consumer, which uses ZooKeeper; it joins its group as time passes.

        Args:
            group: name of the consumer group.
            topics: number of threads by topic, or a subscription of `white_list` or `black_list`.
            name: name of its process in the history; `consumer N` by default.
            consumer_id: `consumer.id`; by default made of the machine's name, the time and a random number.
            version: release of the consumer; by default the cluster's, or 1.1 if that is later.
            config: Kafka configuration that differs from the defaults.
            machine: its host name.
            watch_brokers: watch `/brokers/ids` from the start, as Kafka's wiki page says; no release does.
            reads: the application reads all records; if False, only `Consumer.consume` moves an offset.

        Raises:
            ConfigError: the group or the id cannot be part of a path, or an option is invalid.

        >>> cluster = KafkaCluster(brokers=1, seed=1)
        >>> _ = cluster.create_topic("orders", partitions=2, replication_factor=1)
        >>> cluster.advance(2)
        >>> consumer = cluster.consumer("billing", {"orders": 2}, consumer_id="c1", version="0.8.2")
        >>> cluster.advance(2)
        >>> {str(partition): thread for partition, thread in consumer.owned().items()}
        {'orders-0': 'billing_c1-0', 'orders-1': 'billing_c1-1'}
        """
        from simzk.kafka.zookeeper_mode.consumer.consumer import (
            Consumer,
            ConsumerEnvironment,
            Identity,
            check_path_part,
        )
        from simzk.kafka.zookeeper_mode.consumer.settings import LINES, ConsumerConfig, consumer_version, line_of
        from simzk.kafka.zookeeper_mode.consumer.subscriptions import Subscription, static

        check_path_part("group", group)
        check_path_part("consumer_id", consumer_id)
        number = 1 + sum(isinstance(participant, Consumer) for participant in self.participants)
        release = version or (self.version if line_of(self.version) is not None else LINES[-1])
        consumer = Consumer(
            Identity(group, name or f"consumer {number}", consumer_id, machine),
            topics if isinstance(topics, Subscription) else static(topics),
            consumer_version(release),
            ConsumerConfig(config),
            ConsumerEnvironment(self.scheduler, self.zookeeper_host, self.history, self.high_watermark),
            watch_brokers=watch_brokers,
            reads=reads,
        )
        self.participants.append(consumer)
        consumer.start()
        return consumer

    # -- Topics and configuration. Each of these requests starts at the present instant; its future is done, with the
    # broker's response, once time has passed.

    @synchronized
    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
        topic_id: str | None = None,
        via: int | str | None = None,
    ) -> Future[AdminResponse]:
        """Create a topic.

        Args:
            name: name of the topic.
            partitions: number of partitions; -1 for the broker's default.
            replication_factor: replicas of each partition; -1 for the broker's default.
            assignment: brokers of each partition in preference order, instead of an assignment by the broker.
            config: configuration of the topic.
            topic_id: the topic id; random if None.
            via: id of the broker that gets the request, or "zookeeper" for the tool that writes to ZooKeeper (2.8 and
                older). By default as the release's tool does: requests go to the controller from 2.2 on for topics,
                2.4 for elections, 2.6 for configuration and reassignments.

        Returns:
            the broker's response; an error such as TOPIC_ALREADY_EXISTS is its `error`, not an exception.

        Raises:
            ConfigError: the name is invalid in this release.

        >>> cluster = KafkaCluster(brokers=3, seed=1)
        >>> response = cluster.create_topic("orders", partitions=3, replication_factor=2)
        >>> cluster.advance(1)
        >>> response.result().error.name, sorted(cluster.assignment("orders"))
        ('NONE', [0, 1, 2])
        """
        if not is_topic_name(name, self._tool):
            right = "letters, digits, '.', '_', '-', no more than the release takes"
            raise ConfigError(f"{shown(name)} is no name for a topic", where="name", right=right)
        by_partition = None if assignment is None else {p: tuple(ids) for p, ids in assignment.items()}
        if by_partition is not None:
            partitions = len(by_partition)
        request = CreateTopicRequest(name, partitions, replication_factor, by_partition, dict(config or {}), topic_id)
        return self._operator.request(f"create topic {name}", request, via)

    @synchronized
    def set_topic_id(self, name: str, topic_id: str) -> None:
        """Set the id that the next topic of a name gets, if a broker or the controller chooses one (2.8 and later).

        Args:
            name: name of the topic, which may also be created by writing its znodes.
            topic_id: the id: 22 characters of URL-safe base64.
        """
        self._topic_ids[name] = topic_id

    @synchronized
    def delete_topic(self, name: str) -> Future[AdminResponse]:
        """Delete a topic."""
        return self._operator.request(f"delete topic {name}", DeleteTopicRequest(name))

    @synchronized
    def add_partitions(
        self, name: str, total: int, *, assignment: Mapping[int, Sequence[int]] | None = None
    ) -> Future[AdminResponse]:
        """Add partitions to a topic.

        Args:
            name: name of the topic.
            total: number of partitions afterwards.
            assignment: brokers of each new partition in preference order.
        """
        by_partition = None if assignment is None else {p: tuple(ids) for p, ids in assignment.items()}
        return self._operator.request(f"add partitions to {name}", AddPartitionsRequest(name, total, by_partition))

    @synchronized
    def elect(
        self,
        kind: str = "preferred",
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        via: int | str | None = None,
    ) -> Future[AdminResponse]:
        """Elect leaders.

        Args:
            kind: `preferred`, or `unclean` for partitions without a live leader.
            partitions: the partitions as (topic, partition); all if None.
            via: as for `create_topic`.

        Raises:
            ConfigError: the kind is unknown.
        """
        if kind not in ("preferred", "unclean"):
            raise ConfigError(f"there is no {kind!r} election", where="kind", right="preferred or unclean")
        chosen = None if partitions is None else tuple(TopicPartition(*pair) for pair in partitions)
        self._unclean_requested |= kind == "unclean"
        return self._operator.request(f"{kind} election", ElectionRequest(kind, chosen), via)

    @synchronized
    def alter_config(
        self, entity_path: str, changes: Mapping[str, str | None], *, via: int | str | None = None
    ) -> Future[AdminResponse]:
        """Set and remove configuration keys.

        Args:
            entity_path: path below `/config`, such as `topics/orders`, `brokers/1` or `users/alice`.
            changes: the new values by key; None removes a key.
            via: as for `create_topic`.
        """
        return self._operator.request(f"configure {entity_path}", AlterConfigRequest(entity_path, dict(changes)), via)

    @synchronized
    def write_znode(self, path: str, data: str | bytes | None, *, create: bool = False) -> Future[None]:
        """Set a znode's data in a session of the operator's own, or create the znode if it is missing.

        Args:
            path: path of the znode.
            data: the data.
            create: create the znode, without an attempt to set it first.
        """
        return self._operator.write_znode(path, data.encode() if isinstance(data, str) else data, create=create)

    @synchronized
    def delete_znode(self, path: str) -> Future[None]:
        """Delete a znode in a session of the operator's own."""
        return self._operator.delete_znode(path)

    # -- Reassignments

    @property
    def _tool(self) -> KafkaVersion:
        """The release of the operator's tools."""
        return self._releases.oldest.version

    def _reassignment_command(self) -> ReassignmentCommand:
        from simzk.kafka.cluster.reassignment_command import ReassignmentCommand

        return ReassignmentCommand(self._operator, self._tool, self.tree, self.live_brokers)

    @synchronized
    def reassign(
        self,
        targets: Targets,
        *,
        via: int | str | None = None,
        throttle: int | None = None,
        first_brokers: Sequence[int] = (),
    ) -> Future[AdminResponse]:
        """Move partitions to other brokers (`kafka-reassign-partitions --execute`).

        Args:
            targets: new brokers by (topic, partition), None to cancel; or the JSON document of Kafka's tool.
            via: as for `create_topic`.
            throttle: replication quota in bytes per second (`--throttle`, 0.10.1 and later), written to the
                configuration first and removed by `verify_reassignment` and `cancel_reassignment`. New replicas are
                copied no faster than that. With 1 the reassignment stays under way (KIP-73).
            first_brokers: brokers that write their throttles before the others, in this order: the tool of 2.6 and
                later asks all brokers at once [default: in the order of the requests].

        Raises:
            ZnodeError: the JSON document is invalid.
            ConfigError: the tool rejects the plan or the throttle.

        >>> cluster = KafkaCluster(brokers=3, seed=1)
        >>> _ = cluster.create_topic("orders", assignment={0: [1, 2]})
        >>> cluster.advance(1)
        >>> _ = cluster.reassign({("orders", 0): [3, 2]})
        >>> cluster.advance(5)
        >>> cluster.assignment("orders")[0].replicas, cluster.state("orders", 0).leader
        ((3, 2), 3)
        """
        return self._reassignment_command().execute(targets, via, throttle, first_brokers)

    @synchronized
    def generate_reassignment(
        self, topics: Iterable[str], brokers: Sequence[int], *, rack_aware: bool = True
    ) -> Proposal:
        """Propose an assignment of topics to brokers (`--generate`) without any change.

        Args:
            topics: the topics to move.
            brokers: ids of the brokers to move them to.
            rack_aware: spread the replicas of a partition over racks; if False, as with `--disable-rack-aware`.

        Returns:
            the present and the proposed assignment as JSON that `reassign` accepts, and the output of the tool.

        Raises:
            ConfigError: a topic or broker does not exist or is listed twice, or there are too few brokers.
        """
        racks = self.racks_of_live() if rack_aware else dict.fromkeys(self.racks_of_live())
        stream = self.scheduler.stream("placement/reassignments")
        return self._reassignment_command().generate(list(topics), brokers, racks, stream)

    @synchronized
    def verify_reassignment(self, plan: str | Mapping[str, object], *, preserve_throttles: bool = False) -> str:
        """Return the report of the release's tool on a reassignment (`--verify`).

        If no reassignment is in progress, the tool also removes throttles as time passes; the tool of 2.6 and later
        does so even if there are none, but not those of topics if a broker of the plan is dead.

        Args:
            plan: the JSON document that was executed.
            preserve_throttles: keep the throttles (`--preserve-throttles`, 2.6 and later).

        Raises:
            ZnodeError: the JSON document is invalid.
            ConfigError: the tool rejects the plan.
        """
        return self._reassignment_command().verify(plan, preserve_throttles=preserve_throttles)

    @synchronized
    def cancel_reassignment(
        self,
        plan: str | Mapping[str, object],
        *,
        preserve_throttles: bool = False,
        first_brokers: Sequence[int] = (),
    ) -> Future[AdminResponse] | None:
        """Cancel those reassignments of a plan that are in progress (`--cancel`, 2.6 and later).

        The tool then removes the throttles of all live brokers, of the brokers of the plan and of its topics, also if
        none of the reassignments is in progress. A dead broker of the plan ends it after a minute, before the topics.

        Args:
            plan: the JSON document that was executed.
            preserve_throttles: keep the throttles (`--preserve-throttles`).
            first_brokers: brokers that remove their throttles before the others, in this order: the tool asks all
                brokers at once [default: in the order of the requests].

        Returns:
            the last response; None if none of them is in progress and throttles are preserved.

        Raises:
            ZnodeError: the JSON document is invalid.
            ConfigError: the tool rejects the plan, or the release's tool cannot cancel.
        """
        return self._reassignment_command().cancel(
            plan, preserve_throttles=preserve_throttles, first_brokers=first_brokers
        )

    # -- ACLs, users and delegation tokens

    @synchronized
    def add_acls(
        self, kind: str, name: str, entries: Iterable[AclEntry], *, prefixed: bool = False
    ) -> Future[AdminResponse]:
        """Add ACLs to a resource in ZooKeeper, as Kafka's AclCommand does with `--add`.

        Args:
            kind: type of the resource: cluster, topic, group, transactional id, delegation token or user.
            name: name of the resource, or the prefix of resource names.
            entries: the ACLs to add.
            prefixed: the name is a prefix (2.0 and later).

        Returns:
            the tool's response; UNSUPPORTED_VERSION if the release has no such feature.

        Raises:
            ConfigError: the type of resource does not exist, or there are no entries.
        """
        resource, added = _acl_resource(kind, name, prefixed=prefixed), tuple(entries)
        if not added:
            raise ConfigError("no rule is given", where="entries", right="one or more")
        return self._operator.alter_acls(f"authorize {kind} {name}", AlterAclsRequest(resource, added, ()))

    @synchronized
    def authorize_consumer(
        self, topic: str, group: str, *, to_topic: Iterable[AclEntry], to_group: Iterable[AclEntry]
    ) -> Future[AdminResponse]:
        """Add the ACLs of a consumer group, as AclCommand does with `--consumer`: two resources in one session.

        Args:
            topic, group: names of topic and group.
            to_topic: the ACLs to add to the topic: Read and Describe for each principal.
            to_group: the ACLs to add to the group: Read for each principal.
        """
        requests = [
            AlterAclsRequest(_acl_resource(kind, name, prefixed=False), tuple(entries), ())
            for kind, name, entries in (("topic", topic, to_topic), ("group", group, to_group))
        ]
        return self._operator.alter_acls(f"authorize consumers of {topic} in {group}", *requests)

    @synchronized
    def remove_acls(
        self, kind: str, name: str, entries: Iterable[AclEntry] | None = None, *, prefixed: bool = False
    ) -> Future[AdminResponse]:
        """Remove ACLs from a resource, as AclCommand does with `--remove`; all of them if `entries` is None."""
        resource = _acl_resource(kind, name, prefixed=prefixed)
        removed = None if entries is None else tuple(entries)
        return self._operator.alter_acls(f"unauthorize {kind} {name}", AlterAclsRequest(resource, (), removed))

    @synchronized
    def acls(self, kind: str, name: str, *, prefixed: bool = False) -> tuple[AclEntry, ...]:
        """Return the ACLs of a resource from ZooKeeper.

        Raises:
            ConfigError: the type of resource does not exist.
            ZnodeError: the znode is invalid.
        """
        path = paths.acl(_acl_resource(kind, name, prefixed=prefixed))
        node = self.tree.get(path)
        return () if node is None else acl_schema.decode(path, node.data)

    @synchronized
    def add_user(
        self,
        name: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-256",
        iterations: int = scram.MIN_ITERATIONS,
        salt: bytes | None = None,
        via: int | str | None = None,
    ) -> Future[AdminResponse]:
        """Add a SCRAM credential to a user's configuration (0.10.2 and later), after earlier changes of this user.

        Args:
            name: name of the user.
            password: password of the user; ZooKeeper stores keys derived from it.
            mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
            iterations: number of hash iterations.
            salt: the salt; random if None.
            via: as for `create_topic`.

        Raises:
            ConfigError: the mechanism does not exist, or there are too few iterations.
        """
        if salt is None:
            salt = scram.salt_of(self.scheduler.stream("scram salts").bits(scram.SALT_BITS))
        value = encode_scram(scram.credential(mechanism, password, salt, iterations))
        request = AlterConfigRequest(f"users/{sanitize(name)}", {mechanism: value})
        return self._operator.request(f"add user {name}", request, via)

    @synchronized
    def remove_user(
        self, name: str, *, mechanism: str = "SCRAM-SHA-256", via: int | str | None = None
    ) -> Future[AdminResponse]:
        """Remove a user's SCRAM credential; the rest of the user's configuration stays."""
        request = AlterConfigRequest(f"users/{sanitize(name)}", {mechanism: None})
        return self._operator.request(f"remove user {name}", request, via)

    @synchronized
    def create_token(
        self,
        owner: str,
        *,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
        requester: str | None = None,
        via: int | None = None,
    ) -> Future[AdminResponse]:
        """Create a delegation token (KIP-48); requires `delegation.token.master.key`.

        Args:
            owner: principal of the token, such as `User:alice`.
            renewers: principals that may renew the token, besides the owner.
            max_lifetime_ms: longest lifetime in ms; the configured maximum if not positive.
            requester: principal that requests the token, if not the owner (3.3 and later).
            via: id of the broker that gets the request; the controller by default.

        Returns:
            the broker's response, with the token id as its message.
        """
        request = CreateTokenRequest(owner, requester or owner, tuple(renewers), max_lifetime_ms)
        return self._operator.request(f"create a token for {owner}", request, via)

    @synchronized
    def renew_token(
        self, token_id: str, principal: str, *, lifetime_ms: int = -1, via: int | None = None
    ) -> Future[AdminResponse]:
        """Renew a token for some ms from now, up to its maximum; for the configured time if negative."""
        request = RenewTokenRequest(token_id, principal, lifetime_ms)
        return self._operator.request(f"renew token {token_id}", request, via)

    @synchronized
    def expire_token(
        self, token_id: str, principal: str, *, lifetime_ms: int = -1, via: int | None = None
    ) -> Future[AdminResponse]:
        """Let a token expire some ms from now; at once if negative."""
        request = ExpireTokenRequest(token_id, principal, lifetime_ms)
        return self._operator.request(f"expire token {token_id}", request, via)

    @synchronized
    def tokens(self) -> list[DelegationToken]:
        """Return the delegation tokens from ZooKeeper, ordered by id.

        Raises:
            ZnodeError: a token's znode is invalid.
        """
        parent = self.tree.get(paths.TOKENS)
        nodes = {path: self.tree.get(path) for path in map(paths.token, sorted(parent.child_names() if parent else ()))}
        found = [delegation_token.decode(path, node.data) for path, node in nodes.items() if node is not None]
        return [token for token in found if token is not None]

    # -- End

    @synchronized
    def close(self) -> None:
        """Kill all processes of the cluster; closing twice is allowed."""
        for participant in self.participants:
            participant.kill()
        for broker in self.brokers.values():
            broker.process.kill()
        self._operator.process.kill()
        self.producer.process.kill()
        self.traffic.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @synchronized
    def check(self) -> None:
        """Assert the internal invariants of all parts of the cluster, and those of records.

        A violation that a monitor of the invariants has reported is not reported again.
        """
        for invariant in self._record_invariants():
            assert invariant.first is None, f"{invariant.name}: {invariant.first}"
        self.server.check()
        self.scheduler.check()
        for broker in self.brokers.values():
            broker.process.check()
            broker.log_dirs.check()
            if broker.alive and broker.controller.is_active:
                broker.controller.context.check()
        self._replica_manager.check()
        host = self.zookeeper_host
        assert not (host.is_stopped and host.is_frozen), "a stopped ZooKeeper is not paused"


def _acl_resource(kind: str, name: str, *, prefixed: bool) -> AclResource:
    found = kind_of(kind)
    if found is None:
        raise ConfigError(f"there is no resource of type {kind!r}", where="kind", right="such as topic, group, cluster")
    if not name or "/" in name:
        raise ConfigError(f"a resource cannot be called {name!r}", where="name", right="a name without a slash")
    return AclResource(found, name, PREFIXED if prefixed else LITERAL)


def replicas_are_in_sync(
    table: PartitionTable,
    tree: KafkaTree,
    live: BoolArray,
    lost: Mapping[int, Collection[TopicPartition]],
    outdated: Callable[[TopicPartition, LeaderAndIsr], Sequence[int]] = lambda _partition, _state: (),
) -> bool:
    """Return whether every replica that can be in sync is, and every partition that can have a leader has one.

    Args:
        table: the controller's partition table.
        tree: the znodes.
        live: bool by broker id, True for a broker that runs.
        lost: partitions in failed log directories, by broker id.
        outdated: returns the brokers that cannot join a partition's ISR before its next leader epoch.
    """
    lost = {broker: partitions for broker, partitions in lost.items() if partitions}
    rows = table.rows()
    requests = tree.get(paths.DELETE_TOPICS)
    deleted = [] if requests is None else [table.topic_number(topic) for topic in requests.child_names()]
    rows = rows[~np.isin(table.topic[rows], deleted)] if deleted else rows
    rows = rows[table.version[rows] >= 0]
    offline = _lost_replicas(table, rows, lost)
    pending = rows[_out_of_sync(table.replicas[rows], table.isr[rows], table.leader[rows], live, offline)]
    for row in pending.tolist():
        partition = TopicPartition(*table.name(row))
        path = paths.state(partition)
        node = tree.get(path)
        try:
            state = partition_state.decode(path, None if node is None else node.data)
        except ZnodeError:
            return False
        leader = np.array([state.leader], dtype=np.int32)
        offline = _lost_replicas(table, np.array([row]), lost)
        if fenced := outdated(partition, state):
            offline = pack([[*fenced, *(() if offline is None else offline[0][offline[0] >= 0].tolist())]])
        if _out_of_sync(table.replicas[[row]], pack([state.isr]), leader, live, offline)[0]:
            return False
    return True


def _lost_replicas(
    table: PartitionTable, rows: IntArray, lost: Mapping[int, Collection[TopicPartition]]
) -> IntArray | None:
    """Return, by row, the brokers whose replica is in a failed log directory; None if no directory failed."""
    assert all(lost.values()), "a broker without failed directories is left out"
    if not lost:
        return None
    partitions = [TopicPartition(*table.name(row)) for row in rows.tolist()]
    return pack([[broker for broker, offline in lost.items() if partition in offline] for partition in partitions])


def _out_of_sync(
    replicas: IntArray, isr: IntArray, leader: IntArray, live: BoolArray, offline: IntArray | None
) -> BoolArray:
    """Return which partitions can still change: those with a live leader and a live replica outside the ISR, and those
    without a live leader but with a live member of the ISR."""
    assert len(replicas) == len(isr) == len(leader)
    missing = live_members(replicas, live, offline) & ~contained(replicas, isr)
    electable = live_members(isr, live, offline) & contained(isr, replicas)
    led = live_members(leader[:, None], live, offline)[:, 0]
    pending: BoolArray = led & np.any(missing, axis=1) | ~led & np.any(electable, axis=1)
    return pending
