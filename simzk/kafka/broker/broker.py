"""One broker: its process, ZooKeeper session, registration, and clean shutdown (KafkaServer).

Rules of this module (docs/reference/kafka.md §1.3, §1.4, §2.14, §2.15):
  - a starting broker creates the persistent paths, reads its configuration, registers, and then takes part in the
    election of the controller;
  - a starting broker handles no request of other processes: from 1.0 on until its start is over, after its registration
    (KafkaServer.startup: the SocketServer's processors start last), up to 0.11 until it takes part in the election;
  - a broker whose id is still registered by another session cannot start: it closes its session and exits, and its
    supervisor restarts it;
  - a killed broker loses all but its logs; a paused one handles nothing and keeps its state. The page cache outlives a
    process, but not the power: see `log`;
  - a clean shutdown first moves the leaders, then closes the session. From 0.9 on a broker that is shut down while it
    starts halts instead (KafkaServer.shutdown: "still starting up, cannot shut down").
"""

from __future__ import annotations

import contextlib
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from simzk.errors import ZnodeError
from simzk.jvm.numbers import JavaRandom
from simzk.jvm.scala_collections import long_map_order, mutable_order
from simzk.kafka.broker.admin_handlers import AdminHandlers
from simzk.kafka.broker.authorizer import Authorizer
from simzk.kafka.broker.broker_log import BrokerLog
from simzk.kafka.broker.configs import ConfigChanges, EntityConfigs, TopicConfigs
from simzk.kafka.broker.delegation_tokens import DelegationTokens
from simzk.kafka.broker.described_configs import DescribedConfigs
from simzk.kafka.broker.disk import Disk
from simzk.kafka.broker.fetching import STARTS_US, Fetchers, FetchSessions
from simzk.kafka.broker.isr_changes import IsrProposals, IsrWrites
from simzk.kafka.broker.log_cleaner import LogCleaner
from simzk.kafka.broker.log_dir_moves import RATE_KEY, LogDirMoves
from simzk.kafka.broker.log_dirs import LogDirs
from simzk.kafka.broker.producer_ids import NoProducerIdsError, ProducerIds
from simzk.kafka.broker.producing import Producing
from simzk.kafka.broker.replica_logs import LogOnDisk, ReplicaLogs
from simzk.kafka.broker.replication_quotas import ReplicationQuotas, moves_quota
from simzk.kafka.broker.request_handlers import SETTINGS_OF_INTERNAL, RequestHandlers
from simzk.kafka.broker.scram_credentials import ScramCredentials
from simzk.kafka.client_requests.handlers import Context, ServingBroker
from simzk.kafka.coordinator.coordinator_log import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from simzk.kafka.listeners import (
    ADVERTISED,
    INTER_BROKER,
    INTER_BROKER_PROTOCOL,
    LISTENERS,
    BrokerListeners,
    Listener,
    is_listener_key,
    listeners_of,
    registered_listeners,
)
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.releases.cluster_releases import BrokerRelease, registration_of
from simzk.kafka.releases.settings import LOG_DIRS
from simzk.kafka.requests import ProducerIdsRequest, ShutdownRequest, ShutdownResponse
from simzk.kafka.rpc import REQUEST_TIMEOUT_MS, Disconnected
from simzk.kafka.security.scram import SALT_BITS, salt_of
from simzk.kafka.security.settings import PLAINTEXT, SaslSettings, check_protocol, sasl_settings, uses_sasl
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError, ZooKeeperSession
from simzk.kafka.zookeeper_mode.client.zk_client import (
    NO_EPOCH,
    PERSISTENT_SEQUENTIAL,
    UNCLEAN_KEY,
    KafkaZooKeeperClient,
    ZooKeeperRefused,
)
from simzk.kafka.zookeeper_mode.controller.controller import KafkaController
from simzk.kafka.zookeeper_mode.schemas.broker_registration import encode_log_dir_failure
from simzk.kafka.zookeeper_mode.schemas.cluster import decode_cluster_id, encode_cluster_id
from simzk.kafka.zookeeper_mode.schemas.config import REPLICAS_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from simzk.kafka.broker.cluster_resources import ClusterResources
    from simzk.kafka.broker.replica_manager import ReplicaManager
    from simzk.kafka.broker.transaction_markers import TransactionMarkers
    from simzk.kafka.broker.transaction_verification import TransactionVerification
    from simzk.kafka.client_requests.broker_api import BrokerApi
    from simzk.kafka.client_requests.metadata import MetadataApi
    from simzk.kafka.coordinator.group_coordinator import GroupCoordinator
    from simzk.kafka.coordinator.transaction_coordinator import TransactionCoordinator
    from simzk.kafka.log.log import Log
    from simzk.kafka.metadata.plane import GroupOffsetStore
    from simzk.kafka.protocol.messages import AddPartitionsToTxnRequest
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.requests import AdminResponse
    from simzk.kafka.rpc import Respond
    from simzk.kafka.security.login import LoginRules
    from simzk.kafka.security.mechanisms import LoginToken
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_mode.schemas.broker_registration import BrokerRegistration
    from simzk.simulation import Future, Process

T = TypeVar("T", int, None)
BOOT_US = 500_000
"""From the start of the process to its first request to ZooKeeper."""
LATE_REGISTRATION_US = 300_000
"""Between election and registration, up to 1.0: other parts of a real broker start meanwhile (0.1 to 0.4 s)."""
FAILED_START_US = 700_000
"""From a failed start to the end of the session: the parts that have started are shut down first, the client last
(KafkaServer.shutdown). Of real brokers 0.05 to 2.2 s (recorded)."""
NODE_IDS = (3, 1)
"""First release that answers the broker's id as `node.id` too (recorded)."""
RESTART_PAUSE_US = 1_000_000
"""How long a supervisor waits before it restarts a broker that has exited."""


class Broker:
    """A broker of a simulated cluster.

    Args:
        registration: its registration znode; the timestamp is set when it registers.
        process: its process, not running yet.
        environment: what all brokers of the cluster share.
    """

    version: KafkaVersion
    config: BrokerConfig

    def __init__(
        self, broker_id: int, registration: BrokerRegistration, process: Process, environment: ClusterResources
    ) -> None:
        self.id = broker_id
        self.rack = registration.rack
        self.process = process
        self.epoch = -1
        self.cluster_id = environment.cluster_id
        self.features_epoch = -1
        self.registered = self.stopping = self.serving = False
        self._held_requests: list[Callable[[], None]] = []
        self.logs: dict[TopicPartition, LogOnDisk] = {}
        self.version, self.config = environment.release_of(broker_id)
        self.log_dirs = self._new_log_dirs(environment.log_dirs)
        self.disk = Disk(process)
        self._registration = registration
        self._environment = environment
        self._name = f"broker {broker_id}"
        self._record = partial(environment.history.record, self._name)
        self.listeners: BrokerListeners = registered_listeners(registration)
        self._own_listener = self.listeners.of_clients
        self._advertised_host: str | None = None
        self._bound: Mapping[str, tuple[str, int]] = {}
        self._session_before = 0
        process.kill()
        environment.connections.register(process, self.serve)

    @property
    def alive(self) -> bool:
        """Whether its process runs, paused or not."""
        return self.process.alive

    @property
    def paused(self) -> bool:
        """Whether its process is paused."""
        return self.process.paused

    @property
    def accepts_clients(self) -> bool:
        """Whether its port accepts connections: from its registration to the end of its process."""
        return self.serving

    @property
    def handles_requests(self) -> bool:
        """Whether its process has started to handle requests; earlier ones wait."""
        return self.process.alive and self.id not in self._environment.manager.epochs.starting

    @property
    def endpoint(self) -> tuple[str, int]:
        """Host and port for clients in its next or present registration."""
        return self.listeners.of_clients.address

    @property
    def inter_broker_endpoint(self) -> tuple[str, int]:
        """Host and port for other brokers in its next or present registration."""
        return self.listeners.at(self.listeners.inter_broker) or self.endpoint

    @property
    def uses_sasl(self) -> bool:
        """Whether clients log in by SASL at one of its listeners."""
        return any(uses_sasl(one.security) for one in self.listeners.bound)

    def advertised_at(self, listener: str) -> tuple[str, int] | None:
        """Return host and port that it advertises at a listener; None if it has no such listener.

        An empty name stands for the listener that is for clients.
        """
        return self.listeners.at(listener) if listener else self.endpoint

    @property
    def session_id(self) -> int:
        """The id of its last ZooKeeper session, which may have ended; 0 if it never had one."""
        return self.session.session_id if hasattr(self, "session") else 0

    @property
    def has_unannounced_isr_changes(self) -> bool:
        """Whether it has written ISRs that it has not announced yet (0.9 to 2.6)."""
        return self.proposals.has_unannounced_changes

    def owns_session(self, session_id: int) -> bool:
        """Return whether a ZooKeeper session is its present or previous one."""
        return self.process.alive and session_id in (self.session.session_id, self.session.last_session_id)

    @property
    def replica_manager(self) -> ReplicaManager:
        """Replicas of all brokers of the cluster."""
        return self._environment.manager

    # -- verbs of the cluster

    def start(self) -> None:
        """Start the process, which registers later."""
        self._record("started")
        self._start_process()
        self.process.spawn(self._boot(), "boot")

    @property
    def registration_data(self) -> bytes:
        """Contents of the znode with which it registers."""
        registration = self._registration._replace(timestamp_ms=self._environment.now_ms())
        return self.version.znodes.encode_broker(registration)

    def set_endpoint(
        self,
        *,
        port: int | None = None,
        rack: str | None = None,
        host: str | None = None,
        security: str | None = None,
        advertised_host: str | None = None,
    ) -> None:
        """Set rack and listeners from the next start on; None changes nothing.

        Args:
            port, host, security: address and protocol of its listener if the settings have none.
            rack: its rack.
            advertised_host: the host that all its listeners advertise.

        Raises:
            ConfigError: the release does not have a protocol, or the settings of listeners are invalid.
        """
        own = self._own_listener
        if security is not None:
            own = own._replace(name=security, security=security)
        own = own._replace(host=own.host if host is None else host, port=own.port if port is None else port)
        at_host = self._advertised_host if advertised_host is None else advertised_host
        listeners = self._listeners_with(self._environment.release_of(self.id), own, at_host)
        self._own_listener, self._advertised_host = own, at_host
        if rack is not None:
            self.rack = rack
        if listeners != self.listeners:
            self.listeners = listeners
            self._registration = registration_of(listeners.advertised, self.rack)
        self._registration = self._registration._replace(rack=self.rack)
        if self.alive and self.uses_sasl:
            self._spawn_in_session(self._load_scram_credentials, "SCRAM credentials")

    def bind(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Set where its listeners listen for good, by name."""
        self._bound = dict(addresses)
        host, port = addresses.get(self._own_listener.name, self._own_listener.address)
        self.set_endpoint(host=host, port=port)

    def listeners_with(self, release: BrokerRelease, *, port: int | None = None) -> BrokerListeners:
        """Return its listeners with a release, its settings and another port.

        Raises:
            ConfigError: the release does not have a protocol, the settings of listeners are invalid, or the addresses
                at which it listens would change although clients are connected there.
        """
        own = self._own_listener if port is None else self._own_listener._replace(port=port)
        return self._listeners_with(release, own, self._advertised_host)

    def _listeners_with(self, release: BrokerRelease, own: Listener, advertised_host: str | None) -> BrokerListeners:
        version, config = release
        found = self.listeners  # as registered
        is_set = any(is_listener_key(key, version.number) for key in config.given)
        if is_set or self._bound or (own, advertised_host) != (self._own_listener, self._advertised_host):
            found = listeners_of(
                config.given, version.number, own, advertised_host=advertised_host, bound_before=self._bound
            )
        self._sasl_settings(release, found)
        return found

    def _sasl_settings(self, release: BrokerRelease, listeners: BrokerListeners) -> dict[str, SaslSettings]:
        """Return the settings of each listener with SASL, by name.

        Raises:
            ConfigError: the release does not have a protocol, or its settings for it are invalid.
        """
        version, config = release
        for one in listeners.bound:
            check_protocol(one.security, version.number, version.name)
        logins = [one.name for one in listeners.bound if uses_sasl(one.security)]
        return {name: sasl_settings(config.given, version.number, name) for name in logins}

    def attach(self, session_id: int, epoch: int) -> None:
        """Continue a broker that registered before the simulation began, in its session."""
        self._start_process()
        self.session.adopt(session_id)
        assert self.owns_session(session_id)
        self._set_epoch(epoch if self.version.client.has_broker_epochs else NO_EPOCH)
        self.process.spawn(self._attach(), "attach")

    def kill(self) -> None:
        """End the process at once; the session remains until it expires."""
        assert self.alive, f"{self._name} is dead"
        self._record("killed")
        self._end_process()

    def log_of(self, partition: TopicPartition) -> Log | None:
        """Return the log of a replica, whether the process runs or not; None if there is none."""
        if self.process.alive and (replica := self.replicas.replicas.get(partition)) is not None:
            return replica.log
        found = self.logs.get(partition)
        return None if found is None else found.log

    def power_off(self, unwritten_us: int) -> None:
        """End the process if it runs, and lose the records of the last `unwritten_us` that were not flushed."""
        self._record("power lost")
        if self.alive:
            self._end_process()
        for partition, (log, watermark) in self.logs.items():
            log.flush_older(self.process.scheduler.now_us - unwritten_us)
            end = log.end
            if lost := log.lose_unflushed():
                self._record("records lost", str(partition), f"end {end}", f"end {log.end}")
                assert end - log.end == lost
                self._environment.ledger.on_crash(self.id, [partition])
            assert log.flushed == log.end, f"{partition} has lost what was written to disk, or kept what was not"
            self.logs[partition] = LogOnDisk(log, min(watermark, log.end))

    def wipe(self) -> None:
        """Replace the disks by empty ones; the process does not run."""
        assert not self.alive, f"{self._name} runs"
        self._record("disks replaced")
        self._environment.ledger.on_crash(self.id, self.logs)
        self.logs = {}
        self.log_dirs = self._new_log_dirs(self.log_dirs.count)

    def _new_log_dirs(self, count: int) -> LogDirs:
        """Return empty log directories: those of the settings, or a number of them."""
        texts = [text for key in LOG_DIRS if (text := self.config.given.get(key)) is not None]
        given = [path.strip() for path in texts[0].split(",") if path.strip()] if texts else []
        if given:
            return LogDirs(given)
        numbered = [f"/kafka/b{self.id}-{number}" for number in range(count)]
        return LogDirs(numbered if count > 1 else [f"/kafka/b{self.id}"])

    def shut_down(self) -> None:
        """Start a clean shutdown; a broker of 0.9 or later that is still starting halts."""
        assert self.alive, f"{self._name} is dead"
        self._record("shutting down")
        if self.stopping:
            return
        self.stopping = True
        if self.serving or not self.version.broker.halts_if_stopped_while_starting:
            self.process.spawn(self._shut_down(), "shutdown")
        else:
            self.process.deliver(lambda: self._halt("it was still starting"))

    def _halt(self, reason: str) -> None:
        """End the process at once by its own decision; the session remains until it expires."""
        assert self.alive
        self._record("halted", "", "", reason)
        self._end_process()

    def fail_log_dir(self, directory: int) -> None:
        """Let a log directory fail; a paused broker notices when it is resumed.

        Without another live directory, or up to 0.11, the broker halts.
        """

        def notice() -> None:
            if directory not in self.log_dirs.live:  # it failed twice while the broker was paused
                return
            lost = self.log_dirs.fail(directory)
            names = ", ".join(str(partition) for partition in lost)
            self._record("log directory failed", str(directory), names)
            self._environment.ledger.on_crash(self.id, lost)
            self.replicas.lose(lost)
            if self.version.broker.survives_log_dir_failure and self.log_dirs.live:
                data = encode_log_dir_failure(self.id)
                event = partial(self.client.create, paths.LOG_DIR_EVENT_PREFIX, data, PERSISTENT_SEQUENTIAL)
                self._spawn_in_session(event, "log dir event")
            else:
                self._halt("a log directory failed")

        self.process.deliver(notice)

    def announce_isr_changes(self, missed: Sequence[TopicPartition]) -> None:
        """Announce ISR changes (0.9 to 2.6) if the last one is old enough; the missed are left for the next time."""
        if isinstance(self.proposals, IsrWrites):
            self.process.spawn(self.proposals.announce_if_due(missed), "announce ISRs")

    # -- start and end of the process

    def _start_process(self) -> None:
        """Start a process with new state; only the logs remain."""
        assert not self.alive, f"{self._name} runs"
        assert not self._held_requests
        environment, process = self._environment, self.process
        self.version, self.config = version, config = environment.release_of(self.id)
        process.restart()
        self._set_epoch(self.epoch)
        environment.manager.epochs.starting.add(self.id)
        self.log_dirs.restart()
        self.disk.restart()
        self.registered = self.stopping = self.serving = False
        self.session = ZooKeeperSession(
            process,
            environment.host,
            timeout_ms=config.integer("zookeeper.session.timeout.ms"),
            reconnect_pause_us=lambda: self._chosen_us(environment.timing.reconnect_pause_us, None),
            max_in_flight=config.integer("zookeeper.max.in.flight.requests"),
            sends_batches=environment.sends_batches,
            retries_across_sessions=version.client.retries_across_sessions,
        )
        self.session.before_new_session = self._before_new_session
        self.session.after_new_session = self._after_new_session
        self.client = KafkaZooKeeperClient(self.session, version, self._note_unusable)
        self.metadata = environment.replication.metadata_cache(version)
        self.described_configs = DescribedConfigs(version.number, self.id, self._static_config)
        self._begin_replication()
        self._begin_coordination()
        self.controller = self._new_controller()
        client, now_ms, new_id = self.client, environment.now_ms, environment.new_token_id
        self.config_changes = ConfigChanges(process, client, paths.CONFIG_CHANGES, now_ms, self._on_config)
        self.tokens = DelegationTokens(process, client, paths.TOKEN_CHANGES, now_ms, config, new_id)
        self.authorizer = Authorizer(process, client, config, now_ms)
        self.scram_credentials = ScramCredentials(self.client)
        self.entity_configs = EntityConfigs(self.client)
        self.controller.expire_tokens = self.tokens.remove_expired if self.tokens.enabled else None
        self.admin = AdminHandlers(
            self.client,
            self._racks,
            random=JavaRandom(process.scheduler.stream(f"placement/{self._name}").bits(48)),
            new_topic_id=environment.new_topic_id if version.znodes.has_topic_ids else None,
            defaults=(config.integer("num.partitions"), config.integer("default.replication.factor")),
            usual=self.described_configs.topic_default,
        )
        self._handlers = RequestHandlers(
            self.id,
            process,
            self.client,
            epochs=environment.manager.epochs,
            replicas=self.replica_requests,
            metadata=self.metadata,
            fetch_sessions=self.fetch_sessions,
            producing=self.producing,
            markers=lambda: self.markers,
            tokens=self.tokens,
            admin=self.admin,
            controller=self.controller,
            logs=self.replicas,
            answer_pause_us=lambda: self._chosen_us(environment.timing.answer_pause_us, 0),
            add_partitions=self._add_partitions_of_brokers,
        )
        self._client_api: BrokerApi | None = None
        self.serving_broker = self._new_serving_broker()

    def _new_serving_broker(self) -> ServingBroker:
        """Return what handlers of clients' requests see of the process that starts."""
        return ServingBroker(
            self.id,
            self.version,
            self.config,
            self.process,
            self.metadata,
            self.client,
            self.authorizer,
            self.replicas,
            self.topic_configs,
            is_controller=lambda: self.controller.is_active,
            endpoint_of=self._environment.advertised_at,
            now_ms=self._environment.now_ms,
        )

    def _begin_replication(self) -> None:
        """Prepare the logs of the process that starts, its fetches and those of its followers, and its ISR changes."""
        environment, process, version, config = self._environment, self.process, self.version, self.config
        defaults = self.described_configs.topic_default
        self.topic_configs = TopicConfigs(process, self.client, defaults, self._on_topic_config)
        self.quotas = ReplicationQuotas(self.id, version, config)
        self.replicas = self._replica_logs()
        self.log_dir_moves = LogDirMoves(
            process,
            self.replicas,
            self.log_dirs,
            moves_quota(version, config),
            config.integer("replica.fetch.max.bytes"),
            lambda: self.described_configs.own.get(RATE_KEY),
        )
        self.replicas.on_future = self.log_dir_moves.go_on
        self.replica_requests = environment.replication.control_handler_of(self.id, self.replicas)
        self.log_cleaner = LogCleaner(
            process, self.replicas, self.topic_configs, config, version.log, environment.now_ms
        )
        self.fetchers = Fetchers(
            process,
            environment.connections,
            self.replicas,
            version,
            lambda: self.stopping,
            environment.endpoint_of,
            lambda: self._chosen_us(environment.timing.first_fetch_us, STARTS_US),
            self.disk,
            self.quotas.follower,
        )
        self.proposals = self._isr_proposals()
        self.fetch_sessions = FetchSessions(process, self.replicas, version, config, self.disk, self.quotas.leader)
        self.producing = Producing(process, version, self.replicas, self._on_append, self.disk)
        self.replicas.on_watermark = self._on_watermark
        self.replicas.on_leadership = self._on_leadership
        self.replicas.on_logs_changed = self.fetch_sessions.complete_fetches

    def _begin_coordination(self) -> None:
        """Forget the coordinators of the process before; those of the process that starts are made on first use."""
        for name in ("groups", "markers", "verification", "transactions", "metadata_api"):
            self.__dict__.pop(name, None)
        self.producer_ids = ProducerIds(
            self.process, self._allocate_producer_ids, lambda reason: self._record("no producer ids", "", "", reason)
        )

    @cached_property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        from simzk.kafka.coordinator.group_coordinator import GroupCoordinator, uuid_text

        ids = self.process.scheduler.stream(f"members/{self._name}")
        return GroupCoordinator(
            self.process,
            self.version.groups,
            self.config,
            self._broker_log("offsets.commit.timeout.ms"),
            partitions=lambda: self.partitions_of_internal(OFFSETS_TOPIC),
            topic_exists=lambda topic: topic in self.metadata.topics,
            watch_topics=self.metadata.observers.append,
            now_ms=self._environment.now_ms,
            new_id=lambda: uuid_text(ids.bits(128)),
        )

    @cached_property
    def markers(self) -> TransactionMarkers:
        """Transaction markers in the logs that the broker leads."""
        from simzk.kafka.broker.transaction_markers import TransactionMarkers

        return TransactionMarkers(
            self.config, self.replicas, self.producing, self._environment.now_ms, self._on_transaction_marker
        )

    @cached_property
    def verification(self) -> TransactionVerification:
        """Questions to the coordinators of transactions."""
        from simzk.kafka.broker.transaction_verification import TransactionVerification

        partitions = partial(self.partitions_of_internal, TRANSACTIONS_TOPIC)
        return TransactionVerification(self.process, self.metadata, self.replicas, partitions, self._call)

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""
        from simzk.kafka.coordinator.marker_channels import MarkerChannels
        from simzk.kafka.coordinator.transaction_coordinator import TransactionCoordinator

        version = self.version
        return TransactionCoordinator(
            self.process,
            version.transactions,
            self.config,
            self._broker_log("request.timeout.ms"),
            partial(self.producer_ids.take, waits=version.api.waits_for_producer_ids),
            markers=MarkerChannels(self.process, self._leader_of, self._call),
            partitions=partial(self.partitions_of_internal, TRANSACTIONS_TOPIC),
            read_count=partial(self.client.topic_exists, TRANSACTIONS_TOPIC),
            now_ms=self._environment.now_ms,
            record=lambda what, partition, after: self._record(what, str(partition), "", after),
        )

    def _broker_log(self, timeout_key: str) -> BrokerLog:
        """Return the logs of the broker for a coordinator; the setting is the timeout of its appends."""
        timeout_ms = self.config.integer(timeout_key) if timeout_key in self.config.keys else REQUEST_TIMEOUT_MS
        return BrokerLog(self.producing, self.replicas, self.version.groups, timeout_ms, self._environment.now_ms)

    def _call(self, broker: int, request: object) -> Future[Any]:
        """Send a request to a broker; return a future of the response, which fails with `Disconnected`."""
        return self._environment.connections.call(self.process, f"broker {broker}", request)

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """Return the leader of a partition in the metadata cache, `NO_LEADER` without a live one, None if unknown."""
        from simzk.kafka.coordinator.marker_channels import NO_LEADER

        state = self.metadata.partitions.get(partition)
        if state is None:
            return None
        return state.leader if state.leader in self.metadata.live_brokers else NO_LEADER

    @cached_property
    def metadata_api(self) -> MetadataApi:
        """Metadata for clients, which every client asks for."""
        from simzk.kafka.client_requests.metadata import MetadataApi

        return MetadataApi(
            self.serving_broker,
            cluster_id=lambda: self.cluster_id if self.version.znodes.has_cluster_id else None,
            create_topic=self.admin.create_topic,
            record=self._record,
        )

    def create_on_demand(self, topic: str) -> Coroutine[Future[Any], None, object]:
        """Create an internal topic that a client needs."""
        return self.metadata_api.create_on_demand(topic)

    @property
    def group_offsets(self) -> GroupOffsetStore:
        """Offsets of version 0 of OffsetCommit, in ZooKeeper."""
        from simzk.kafka.zookeeper_mode.client.group_offsets import GroupOffsets

        return GroupOffsets(self.client)

    @property
    def login_mechanisms(self) -> Sequence[str]:
        """The SASL mechanisms that are enabled, of the first listener that has any."""
        from simzk.kafka.client_requests.sasl import BY_DEFAULT

        sasl = self._sasl_settings(BrokerRelease(self.version, self.config), self.listeners)
        return next((settings.mechanisms for settings in sasl.values()), BY_DEFAULT)

    @property
    def serve_between_brokers(self) -> Callable[[object, Respond], None]:
        """Serves a request between brokers."""
        return self._handlers.serve

    def is_broker(self, broker: int) -> bool:
        """Return whether the cluster has a broker with an id."""
        return self._environment.manager.epochs.has_place_for(broker)

    def _add_partitions_of_brokers(self, request: AddPartitionsToTxnRequest, respond: Respond) -> None:
        """Serve AddPartitionsToTxn of another broker, in the newest version of the release."""
        from simzk.kafka.client_requests.coordinators.transactions import ADD_PARTITIONS, transactions_api

        version = accepted_versions(self.version.number)[ADD_PARTITIONS].high
        transactions_api(self).serve_add_partitions(Context(version, None), request, respond)

    def partitions_of_internal(self, topic: str) -> int:
        """Return how many partitions an internal topic has, or will have."""
        found = self.metadata.topics.get(topic)
        return len(found) if found else self.config.integer(f"{SETTINGS_OF_INTERNAL[topic]}.num.partitions")

    def _on_leadership(self, partition: TopicPartition) -> None:
        self.producing.complete_waiting(partition)
        if partition.topic == OFFSETS_TOPIC:
            self.groups.on_leadership(partition)
        elif partition.topic == TRANSACTIONS_TOPIC:
            self.transactions.on_leadership(partition)

    def _on_transaction_marker(self, partition: TopicPartition, producer_id: int, is_commit: bool) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self.groups.end_transaction(partition, producer_id, is_commit=is_commit)

    @property
    def client_api(self) -> BrokerApi:
        """The APIs for clients of the present process, or of the last one; made for the first client."""
        if self._client_api is None:
            made = self._new_client_api()
            # Another thread that looks at the connections may have made it meanwhile: the imports take milliseconds.
            self._client_api = self._client_api or made
        return self._client_api

    def _new_client_api(self) -> BrokerApi:
        from simzk.kafka.client_requests.apis import handlers_of
        from simzk.kafka.client_requests.broker_api import BrokerApi
        from simzk.kafka.client_requests.refusal_events import noting_refusals

        environment = self._environment
        sasl = self._sasl_settings(BrokerRelease(self.version, self.config), self.listeners)
        handlers = handlers_of(self)
        if self.authorizer.is_enabled:
            from simzk.kafka.client_requests.authorization import guarded

            handlers = guarded(self.serving_broker, handlers)
        handlers = noting_refusals(handlers, self._record, has_authorizer=self.authorizer.is_enabled)
        return BrokerApi(
            self.serving_broker,
            self._name,
            environment.history,
            features_epoch=lambda: self.features_epoch,
            handlers=handlers,
            faults=environment.broker_faults,
            listener=self.listeners.of_clients.name,
            new_login_rules={name: partial(self._login_rules, settings) for name, settings in sasl.items()},
        )

    def _token_for_login(self, token_id: str) -> LoginToken | None:
        token = self.tokens.get(token_id) if self.tokens.enabled else None
        if token is None:
            return None
        from simzk.kafka.security.mechanisms import LoginToken

        return LoginToken(token.owner.partition(":")[2], self.tokens.secret(token_id), token.expires_ms)

    def _login_rules(self, settings: SaslSettings, api: BrokerApi) -> LoginRules:
        from simzk.kafka.security.login import LoginRules

        nonces = self.process.scheduler.stream(f"sasl/{self._name}")
        return LoginRules(
            settings,
            self.version.number,
            decode=api.decode,
            api_versions=api.api_versions,
            credential_of=self.scram_credentials.get,
            token_of=self._token_for_login,
            new_nonce=lambda: salt_of(nonces.bits(SALT_BITS)).decode(),
            now_ms=self._environment.now_ms,
        )

    def _static_config(self) -> dict[str, str]:
        """Return the broker's properties as clients see them: those that were given, and those of its place."""
        zookeeper, given, listeners = self._environment.host, self.config.given, self.listeners
        own = {
            "broker.id": str(self.id),
            "zookeeper.connect": zookeeper.client_address + zookeeper.access.chroot,
        }
        if not any(key in given for key in LOG_DIRS):
            own["log.dirs"] = ",".join(self.log_dirs.paths)
        if not given.get(LISTENERS):
            own[LISTENERS] = ",".join(map(str, listeners.bound))
            if listeners.inter_broker != PLAINTEXT and INTER_BROKER not in given:
                own[INTER_BROKER_PROTOCOL] = listeners.inter_broker
        if listeners.advertised != listeners.bound and (self._advertised_host or not given.get(ADVERTISED)):
            own[ADVERTISED] = ",".join(map(str, listeners.advertised))
        if self.version.number >= NODE_IDS:
            own["node.id"] = str(self.id)
        return given | own | ({} if self.rack is None else {"broker.rack": self.rack})

    def _new_controller(self) -> KafkaController:
        environment = self._environment
        controller = KafkaController(
            self.id,
            self.process,
            self.session,
            self.client,
            environment.connections,
            self.config,
            environment.history,
            now_ms=environment.now_ms,
            new_topic_id=environment.new_topic_id,
            election_delay_us=lambda: environment.election_delay_us(self.id),
            cost_model=environment.cost_model,
            channel_manager=environment.channel_manager,
        )
        controller.on_registered = self._register_again
        return controller

    def _chosen_us(self, choose: Callable[[int], int | None] | None, typical_us: T) -> int | T:
        """Return a time that `BrokerTiming` chooses for this broker, or the typical one."""
        chosen_us = None if choose is None else choose(self.id)
        return typical_us if chosen_us is None else chosen_us

    def _replica_logs(self) -> ReplicaLogs:
        environment, validates = self._environment, self.version.controller.validates_isr_changes
        return ReplicaLogs(
            self.id,
            self.version,
            self.config,
            self.process,
            environment.manager,
            environment.history,
            environment.ledger,
            environment.timing,
            self.logs,
            self.log_dirs,
            self.topic_configs,
            propose_isr=lambda proposal: self.proposals.propose(proposal),
            withdraw_isr=lambda partition: self.proposals.withdraw(partition),
            follow=lambda changed: self.fetchers.update(changed),
            is_alive=lambda broker: not validates or broker in self.metadata.live_brokers,
            is_available=self._is_available_leader,
            now_ms=environment.now_ms,
        )

    def _is_available_leader(self, leader: int) -> bool:
        """Return whether a replica may follow a leader; up to 0.8 a LeaderAndIsr names the live ones itself."""
        return leader != -1 and (not self.version.broker.follows_cached_brokers or leader in self.metadata.live_brokers)

    def _isr_proposals(self) -> IsrProposals | IsrWrites:
        if not self.version.broker.uses_alter_isr:
            return IsrWrites(
                self.process,
                self.client,
                state_of=self.replicas.state_of,
                on_results=self.replicas.handle_results,
                has_timer=self._environment.timing.announces_isr_changes,
            )
        return IsrProposals(
            self.process,
            self._environment.connections,
            self.id,
            broker_epoch=lambda: self.epoch,
            metadata=self.metadata,
            on_results=self.replicas.handle_results,
            on_dropped=self.replicas.note_dropped,
        )

    async def _boot(self) -> None:
        """Start and register; after an error before the registration the process exits, and is restarted later."""
        try:
            await self._connect()
            if self.version.client.registers_before_election:
                await self._pause_before_registration(0)
                await self._register()
            self.proposals.start()
            await self.tokens.load()
            await self.authorizer.load()
            await self._load_scram_credentials()
            self.controller.start()
            if self.version.broker.handles_requests_before_start_ends:
                self._start_handling_requests()
            if self.version.broker.reserves_producer_ids and not self.version.controller.allocates_producer_ids:
                self.producer_ids.prefetch()
            if not self.version.client.registers_before_election:
                await self._pause_before_registration(LATE_REGISTRATION_US)
                await self._register()
        except (ZooKeeperRefused, SessionExpiredError, ZnodeError) as problem:
            self._record("cannot start", "", "", str(problem) or "its session expired")
            await self._exit()
            return
        self._start_serving()

    async def _exit(self) -> None:
        """Shut down after a failed start, and restart later."""
        assert not self.serving, "only a start fails"
        self.stopping = True
        self.session.after_new_session = None
        await self.process.sleep(self._chosen_us(self._environment.timing.failed_start_us, FAILED_START_US))
        await self._close()
        if self._environment.timing.restarts_brokers:
            self.process.scheduler.call_later(RESTART_PAUSE_US, self.process.name, self._supervise)
        self._end_process()

    async def _close(self) -> None:
        self.controller.shut_down()
        await self.session.close()

    async def _pause_before_registration(self, typical_us: int) -> None:
        if pause_us := self._chosen_us(self._environment.timing.registration_pause_us, typical_us):
            await self.process.sleep(pause_us)

    async def _connect(self) -> None:
        await self.process.sleep(BOOT_US)
        await self._make_chroot()
        await self.session.start()
        for path in self.version.znodes.persistent_paths:
            await self.client.ensure(path)
        if self.version.znodes.has_cluster_id:
            found = await self.client.read(paths.CLUSTER_ID)
            if found is None:
                await self.client.create_recursive(paths.CLUSTER_ID, encode_cluster_id(self._environment.cluster_id))
            else:
                self.cluster_id = decode_cluster_id(paths.CLUSTER_ID, found[0], self.version.reading)
        await self._environment.ids.draw(self.id, self.process, self.session)
        for name in (paths.DEFAULT_ENTITY, str(self.id)):
            self._set_broker_config(name, await self.client.entity_config(f"brokers/{name}"))
        await self.client.children(paths.TOPICS)
        await self._watch_features()
        await self.client.brokers()

    async def _make_chroot(self) -> None:
        """Create the chroot in a session of its own without one."""
        access = self._environment.host.access
        if access.chroot:
            timeout_ms = self.config.integer("zookeeper.session.timeout.ms")
            session = ZooKeeperSession(
                self.process, self._environment.host, timeout_ms=timeout_ms, access=access._replace(chroot="")
            )
            await session.start()
            await KafkaZooKeeperClient(session, self.version).ensure(access.chroot)
            await session.close()

    async def _attach(self) -> None:
        await self.session.start()
        self.registered = True
        self._read_features_again()
        self._spawn_in_session(self.authorizer.load, "ACLs")
        self.proposals.start()
        self.controller.start(adopt=True)
        self._start_serving()

    async def _load_scram_credentials(self) -> None:
        if self.uses_sasl:
            await self.scram_credentials.load()

    def _start_serving(self) -> None:
        assert not self.serving
        self.serving = True
        self.config_changes.start()
        self.replica_requests.start_timers()
        self.log_cleaner.start()
        self._start_handling_requests()

    def _start_handling_requests(self) -> None:
        """Handle the requests that have arrived since the start of the process, and all later ones."""
        self._environment.manager.epochs.starting.discard(self.id)
        assert self.handles_requests
        held, self._held_requests = self._held_requests, []
        for handle in held:
            self.process.deliver(handle)

    def _set_epoch(self, epoch: int) -> None:
        """Set the broker epoch; the process runs."""
        assert self.alive
        assert epoch >= self.epoch or epoch == NO_EPOCH, f"{self._name}: epoch {epoch} is below {self.epoch}"
        self.epoch = epoch
        self._environment.manager.epochs.set(self.id, alive=True, epoch=epoch)

    def _supervise(self) -> None:
        if not self.alive:
            self.start()

    def _end_process(self) -> None:
        self.registered = False
        self.serving = False
        self._held_requests = []
        self.logs = self.replicas.on_disk()
        self.session.drop_connection()
        if self._client_api is not None:
            self._client_api.close()
        self.process.kill()
        self._environment.manager.epochs.set(self.id, alive=False, epoch=self.epoch)
        self._environment.manager.forget(self.id)
        self._environment.connections.break_all(self._name)
        assert not self.alive
        assert not self.session.connected

    def _note_unusable(self, problem: ZnodeError) -> None:
        """Record an invalid znode that the broker ignores."""
        actor = f"controller {self.id}" if self.controller.is_active else self._name
        self._environment.history.record(actor, "znode unusable", problem.where, "", str(problem))

    async def _register(self) -> None:
        registration = self._registration._replace(timestamp_ms=self._environment.now_ms())
        self._set_epoch(await self.client.register_broker(self.id, registration, self._session_before))
        self.registered = True

    async def _register_again(self) -> None:
        await self._pause_before_registration(0)
        await self._register()

    async def _allocate_producer_ids(self) -> int:
        """Allocate a block of producer ids, up to 2.8 in ZooKeeper, later by the controller; return its first id."""
        if not self.version.controller.allocates_producer_ids:
            return await self.client.allocate_producer_ids(self.id)
        controller = self.metadata.controller_id
        if controller is None:
            raise NoProducerIdsError("the controller is not known")
        answer: AdminResponse = await self._call(controller, ProducerIdsRequest(self.id, self.epoch))
        if answer.error != ErrorCode.NONE:
            raise NoProducerIdsError(answer.error.name)
        return int(answer.message)

    async def _racks(self) -> dict[int, str | None]:
        """Return live brokers in the order of the cache's map, which decides the placement of new topics.

        A broker of 0.8 reads them in ZooKeeper (AdminUtils.createTopic); its cache may have none yet.
        """
        if not self.version.controller.names_brokers_alone:
            registered = await self.client.brokers()
            return {broker: registered[broker][0].rack for broker in sorted(registered)}
        live = self.metadata.live_brokers
        ids = sorted(live)
        ordered = (
            long_map_order(ids, len(ids))
            if self.version.orders.brokers_in_long_map
            else mutable_order(ids, self.version.orders.scala)
        )
        assert len(ordered) == len(live)
        return {broker: live[broker] for broker in ordered}

    async def _watch_features(self) -> None:
        if not self.version.znodes.has_features:
            return
        self.session.data_handlers[paths.FEATURE] = lambda _kind: self._read_features_again()
        await self.client.exists(paths.FEATURE)
        found = await self.client.read(paths.FEATURE)
        self.features_epoch = -1 if found is None else found[1].version

    def _read_features_again(self) -> None:
        self._spawn_in_session(self._watch_features, "features")

    def _spawn_in_session(self, start: Callable[[], Coroutine[Future[Any], None, object]], name: str) -> None:
        """Run something in the background; give it up if the session expires."""

        async def work() -> None:
            with contextlib.suppress(SessionExpiredError):
                await start()

        self.process.spawn(work(), name)

    async def _before_new_session(self) -> None:
        self._record("learned that its session has expired")
        self.registered = False
        self._session_before = self.session.last_session_id
        if not self.version.client.retries_across_sessions:
            await self.controller.expire()

    def _after_new_session(self) -> None:
        assert self.session.session_id != self._session_before
        if self.version.client.retries_across_sessions:
            self.controller.resign_in_turn()
        self.controller.register_and_reelect()
        self.config_changes.handle_new()
        self.tokens.handle_new()
        self.authorizer.handle_new()
        self._read_features_again()

    async def _shut_down(self) -> None:
        if self.config.boolean("controlled.shutdown.enable"):
            await self._controlled_shutdown()
        await self._close()
        self.replicas.save_watermarks()
        self.replicas.flush()
        self._record("stopped")
        self._end_process()

    async def _controlled_shutdown(self) -> None:
        """Ask the controller to move the leaders of this broker; retry after failures (§2.14)."""
        assert self.stopping
        config = self.config
        for attempt in range(config.integer("controlled.shutdown.max.retries")):
            if attempt:
                await self.process.sleep(config.integer("controlled.shutdown.retry.backoff.ms") * 1000)
            try:
                controller = await self.client.controller_id()
            except SessionExpiredError:
                continue
            except ZnodeError as problem:
                self._note_unusable(problem)
                continue
            if controller is None:
                continue
            try:
                response: ShutdownResponse = await self._call(controller, ShutdownRequest(self.id, self.epoch))
            except Disconnected:
                continue
            if response.error == ErrorCode.NONE and not response.remaining:
                return
        if self.version.broker.sleeps_after_last_shutdown_try:
            await self.process.sleep(config.integer("controlled.shutdown.retry.backoff.ms") * 1000)

    # -- replication and configuration

    def _on_append(self, partition: TopicPartition) -> None:
        self.fetch_sessions.complete_fetches([partition])

    def _on_watermark(self, partition: TopicPartition) -> None:
        self.fetch_sessions.on_watermark(partition)
        self.producing.complete_waiting(partition)

    def _on_config(self, entity_path: str, values: dict[str, str]) -> None:
        """Apply a topic's configuration; elect uncleanly at once if that was enabled, in releases that do so."""
        kind, _, name = entity_path.partition("/")
        if kind == "brokers":
            self._set_broker_config(name, values)
        if kind == "brokers" and name == str(self.id):
            self.quotas.set_rates(values)
        if kind == "users" and self.uses_sasl:
            self.scram_credentials.update(name, values)
        if kind == "topics":
            self.topic_configs.update(name, values)
            if self.version.controller.elects_when_unclean_enabled and values.get(UNCLEAN_KEY) == "true":
                partitions = self.controller.partitions
                self.controller.put_event(f"unclean election for {name}", lambda: partitions.trigger_online(name))

    def _set_broker_config(self, name: str, values: Mapping[str, str]) -> None:
        """Set the dynamic configuration of this broker or of all, which topics without their own values have too."""
        self.described_configs.update(name, values)
        self.topic_configs.on_broker_config()

    def _on_topic_config(self, topic: str) -> None:
        """Apply the configuration of a topic that was read: its throttled replicas, and `min.insync.replicas`."""
        try:
            self.quotas.set_topic(topic, {key: self.topic_configs.own_text(topic, key) for key in REPLICAS_KEYS})
        except ZnodeError as problem:
            self.client.unusable(problem)
        if self.quotas.needs_rates:
            self.process.spawn(self._read_rates(), "replication quotas")
        self.replicas.on_topic_config(topic)

    async def _read_rates(self) -> None:
        """Read how fast throttled replicas may be copied, unless a notification has told it meanwhile."""
        try:
            values = await self.client.entity_config(f"brokers/{self.id}")
            if self.quotas.needs_rates:
                self.quotas.set_rates(values)
        except SessionExpiredError:
            return  # read again with the next topic's configuration
        except ZnodeError as problem:
            self.client.unusable(problem)

    def serve(self, request: Any, respond: Callable[[Any], None]) -> None:
        """Serve a request of another process; `respond` is called with the response, now or later."""
        assert not self.process.paused, f"a request for {self._name}, which is paused"
        if self.handles_requests:
            self._handlers.serve(request, respond)
        else:
            self.call_when_started(partial(self._handlers.serve, request, respond))

    def call_when_started(self, handle: Callable[[], None]) -> None:
        """Call a function that handles a request: now, or when the broker starts to handle requests."""
        assert self.alive
        assert not self.paused
        if self.handles_requests:
            handle()
        else:
            self._held_requests.append(handle)
