"""`simzk.KafkaServer`: a simulated Kafka cluster on TCP ports of this machine, for Kafka clients of any kind.

Rules of this module:
  - the event loop runs in one thread, which starts with the object and ends with `close`;
  - time is wall time, and jumps with `advance` and the other methods that let time pass;
  - whoever acquires the cluster's lock finds the cluster at the present; whoever releases it leaves ports that are open
    or closed as the brokers run or not.
"""

from __future__ import annotations

import asyncio
import threading
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, NamedTuple, ParamSpec, Self, TypeVar

from simzk.api import KafkaCluster
from simzk.errors import ConfigError, SimzkError
from simzk.kafka.client_requests.broker_faults import rule_fields
from simzk.kafka.client_requests.handlers import ANONYMOUS
from simzk.kafka.cluster import cluster as kafka
from simzk.kafka.listeners import LISTENERS, address_text, check_distinct
from simzk.kafka.releases.settings import has_effect
from simzk.kafka.security.settings import PLAINTEXT, uses_tls
from simzk.kafka.zookeeper_mode import paths
from simzk.scenarios.broker_control import OPERATOR, BrokerControl
from simzk.serve.admin_server.control import ControlServer, UnknownBrokerError
from simzk.serve.clock import WallClock
from simzk.serve.configuration.settings import Settings
from simzk.serve.tcp.broker_ports import BrokerPort, BrokerPorts, reserve
from simzk.serve.tcp.simulated_cluster import ClusterDriver, ClusterTcpServer
from simzk.serve.zookeeper_server import end_connections

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from tempfile import TemporaryDirectory
    from types import TracebackType

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.client_requests.broker_api import ServedConnection
    from simzk.kafka.client_requests.broker_faults import BrokerRequestFaults
    from simzk.kafka.cluster.zookeeper_host import BrokerFaults
    from simzk.kafka.observation.recording import RecordedZnode
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.partitions.layouts import Layout
    from simzk.scenarios.live_scenario import LiveScenario
    from simzk.scenarios.reader import Scenario
    from simzk.serve.simulated_brokers import Json
    from simzk.serve.tcp.broker_ports import FrameTransport
    from simzk.serve.tcp.tls import Tls
    from simzk.simulation import Event, History
    from simzk.simulation.request_faults import FaultRules
    from simzk.zookeeper.server import Server
    from simzk.zookeeper.znode import Znode

_Verbs = dict[str, tuple[tuple[str, ...], "Callable[[KafkaCluster, int], object]"]]
_BROKER_VERBS: _Verbs = {
    "kill": (("running", "paused"), KafkaCluster.kill),
    "stop": (("running",), KafkaCluster.shutdown),
    "start": (("stopped",), KafkaCluster.restart),
    "pause": (("running",), KafkaCluster.pause),
    "resume": (("paused",), KafkaCluster.resume),
}
"""Verbs for a broker: the states in which the HTTP control accepts it, and what it does."""
_SERVER_VERBS: _Verbs = {
    "kill": (("running", "paused"), KafkaCluster.kill_zookeeper_server),
    "start": (("killed",), KafkaCluster.restart_zookeeper_server),
    "pause": (("running",), KafkaCluster.pause_zookeeper_server),
    "resume": (("paused",), KafkaCluster.resume_zookeeper_server),
}
"""Verbs for a ZooKeeper server: the states in which the HTTP control accepts it, and what it does."""
_LINK_VERBS = {"cut": KafkaCluster.cut_zookeeper_server, "heal": KafkaCluster.heal_zookeeper_server}
"""Verbs for the links of a ZooKeeper server, in any state."""
_BOOT_MS, _BOOT_STEP_MS = 60_000, 100
"""Longest virtual time in which the brokers of a scenario start, and how often it is checked whether they serve."""
_LEAD_MS = 8_000
"""How long before the present the virtual time of a cluster begins that is booted and then served.

Its boot takes less: 4.5 s, with the znodes of a layout 6.3 s. What is left passes before it serves.
"""
_LOOP_S = 10.0
"""Longest time to wait for the loop's thread, which is busy for milliseconds."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _ServingLock:
    """The lock of a served cluster: its outermost block begins at the present, and ends with the right ports."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self.host: ClusterHost | None = None

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1 and self.host is not None:
            try:
                self.host.catch_up()
            except BaseException:
                self._depth -= 1
                self._lock.release()
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        host = self.host if self._depth == 1 else None
        ports_are_right = host is None or host.finish()
        self._depth -= 1
        self._lock.release()
        if host is not None and not ports_are_right:
            host.update_ports()


class ServedCluster(KafkaCluster):
    """A cluster of which the time follows the wall clock, and jumps where a method lets time pass."""

    report_name = "KafkaServer"
    """What the report of a failed test calls it."""

    @cached_property
    def lock(self) -> AbstractContextManager[object]:  # type: ignore[override]
        """The lock that every method and property acquires. Hold it to iterate over `tree` or `history` in a thread."""
        return _ServingLock()

    driver: ClusterDriver | None = None
    play_until: Callable[[int], None] | None = None
    """Plays the steps of a scenario up to a virtual time in microseconds; None without a scenario."""

    def _pass_time(self, until_us: int) -> None:
        run_until = self.play_until or self.scheduler.run_until
        if self.driver is None:
            super()._pass_time(until_us)
        else:
            self.driver.advance_attended(lambda: run_until(until_us))


class ClusterHost:
    """A cluster, its ZooKeeper's port and its brokers' ports, on one event loop.

    Args:
        cluster: the cluster; its brokers run.
        settings: of ZooKeeper's port.
        reserved: the bound socket of each port of a broker.
        live: the scenario that the cluster plays; None for none.
        control_port: port of the HTTP control, 0 for any free one; None for none.
        tls: TLS of the brokers' ports that have TLS.

    Attributes:
        server: the cluster's ZooKeeper.
        rules: the fault rules of its sessions.
        brokers: state and verbs of the brokers.
        tcp: the server of ZooKeeper's port.

    Raises:
        ConfigError: ZooKeeper's port is in use.
    """

    def __init__(
        self,
        cluster: ServedCluster,
        settings: Settings,
        reserved: Mapping[BrokerPort, socket.socket],
        tls: Mapping[BrokerPort, ssl.SSLContext],
        control_port: int | None = None,
        live: LiveScenario | None = None,
    ) -> None:
        self._cluster = cluster
        self._live = live
        zookeeper = self._zookeeper = cluster.zookeeper_host
        self.now_ms, self.wake_faults, self.pump = zookeeper.now_ms, zookeeper.wake_at, zookeeper.send_output
        self.advance = cluster.advance
        self._loop: asyncio.AbstractEventLoop | None = None
        self._catches_up = False
        self.server: Server = cluster.server
        self.rules: FaultRules = zookeeper.rules
        self.brokers: BrokerControl = BrokerControl(cluster)
        self.tcp: ClusterTcpServer = ClusterTcpServer(settings, self)
        self._control: ControlServer | None = None
        if control_port is not None:
            self._control = ControlServer(self.tcp, settings.address, control_port, self, self.brokers)
        assert isinstance(self.tcp.driver, ClusterDriver)
        self._driver = cluster.driver = self.tcp.driver
        self._ports = BrokerPorts(self._driver, self, reserved, tls)
        assert isinstance(cluster.lock, _ServingLock)
        cluster.lock.host = self

    async def start(self) -> None:
        """Accept connections on the running loop."""
        self._loop = asyncio.get_running_loop()
        await self.tcp.start()
        self._ports.start()
        if self._control is not None:
            await self._control.start()

    def stop(self) -> None:
        """Close all ports and connections; on the loop."""
        if self._control is not None:
            self._control.stop()
        self._ports.stop()
        self.tcp.stop()
        self._loop = None

    # The cluster, as the server of its ZooKeeper sees it (simulated_cluster.Cluster)

    def next_ms(self) -> float | None:
        if self._live is not None:
            return self._live.next_ms()
        next_us = self._cluster.scheduler.next_at_us
        return None if next_us is None else self._zookeeper.start_ms + next_us / 1000

    def run_until(self, at_ms: int) -> None:
        if self._live is not None:
            self._live.run_until(at_ms)
        else:
            self._cluster.scheduler.run_until(self._zookeeper.when_us(at_ms))

    # The brokers, as their ports see them

    def accepting(self) -> set[int]:
        """Return the brokers whose ports accept connections."""
        return {broker.id for broker in self._cluster.brokers.values() if broker.accepts_clients}

    def connect(self, port: BrokerPort, transport: FrameTransport, subject: str | None) -> ServedConnection | None:
        """Return the broker's end of a new connection; None if it accepts none."""
        found = self._cluster.brokers[port.broker]
        principal = ANONYMOUS if subject is None else f"User:{subject}"
        return found.client_api.connect(transport, principal, port.listener) if found.accepts_clients else None

    # The brokers, as the HTTP control sees them (control.ControlledBrokers)

    @property
    def control_url(self) -> str:
        """URL of the HTTP control; empty without one."""
        return "" if self._control is None else f"http://{self._control.name}"

    def control_state(self) -> Json:
        cluster = self._cluster
        return {
            str(number): {
                "state": _state_of(broker),
                "address": address_text(*broker.endpoint),
                "is_controller": number == cluster.controller,
            }
            for number, broker in cluster.brokers.items()
        }

    def control(self, number: int, verb: str, properties: Mapping[str, str]) -> None:
        """Do something to a broker; time jumps until a stopped one has left ZooKeeper, and a started one serves."""
        cluster, broker = self._cluster, self._cluster.brokers.get(number)
        if broker is None:
            right = f"one of {', '.join(map(str, cluster.brokers))}"
            raise UnknownBrokerError(f"broker {number} does not exist", where="broker", right=right)
        state = _state_of(broker)
        fitting, act = _BROKER_VERBS[verb]
        if state not in fitting:
            right = f"a broker that is {' or '.join(fitting)}"
            raise SimzkError(f"broker {number} is {state}", where=verb, right=right)
        cluster.history.record(OPERATOR, f"{verb} broker {number}")
        if verb == "start":
            cluster.restart(number, config=simulated(properties, broker.version))
            cluster.run_until(lambda: broker.accepts_clients)
        else:
            act(cluster, number)
        if verb == "stop":
            cluster.run_until(lambda: not broker.alive and number not in cluster.live_brokers)

    def zookeeper_state(self) -> Json:
        cluster = self._cluster
        states, cut_off = cluster.zookeeper_servers, cluster.cut_zookeeper_servers
        leader = cluster.zookeeper_leader if states else None
        return {
            str(number): {"state": state, "is_leader": number == leader, "is_cut_off": number in cut_off}
            for number, state in states.items()
        }

    def control_zookeeper(self, number: int, verb: str, broker: int | None) -> None:
        cluster = self._cluster
        state = cluster.zookeeper_servers.get(number)
        if state is None:
            right = f"one of {', '.join(map(str, cluster.zookeeper_servers))}" if cluster.zookeeper_servers else "none"
            raise UnknownBrokerError(f"ZooKeeper server {number} does not exist", where="server", right=right)
        if verb in _LINK_VERBS:
            _LINK_VERBS[verb](cluster, number, broker)
            return
        fitting, act = _SERVER_VERBS[verb]
        if state not in fitting:
            right = f"a server that is {' or '.join(fitting)}"
            raise SimzkError(f"ZooKeeper server {number} is {state}", where=verb, right=right)
        if broker is not None:
            raise ConfigError(f"{verb} has no broker", where="broker", right="no broker")
        act(cluster, number)

    def request_faults(self) -> Json:
        return {"rules": [rule_fields(rule) for rule in self._cluster.broker_faults.rules]}

    def change_request_faults(self, verb: str, parameters: Mapping[str, str]) -> Json:
        rule = self._cluster.broker_faults.change(verb, parameters)
        return {"error": None} if rule is None else {"error": None, **rule_fields(rule)}

    # The lock

    def catch_up(self) -> None:
        """Run the cluster up to the present.

        Raises:
            Exception: the cluster has failed before.
        """
        if self._catches_up or self._loop is None:
            return
        if self.tcp.failure is not None and not self.tcp.is_on_loop:
            raise self.tcp.failure
        self._catches_up = True
        try:
            self._driver.tick()
        finally:
            self._catches_up = False

    def finish(self) -> bool:
        """Send what the cluster has to say, and set the timer; return whether the ports are right."""
        if self._loop is None:
            return True
        self.pump()
        self.tcp.arm_anywhere()
        return self._ports.is_current

    def update_ports(self) -> None:
        """Open and close ports as the brokers run; without the lock. Return when that is done."""
        if self.tcp.is_on_loop:
            self._ports.update()
            return
        done = threading.Event()

        def update() -> None:
            self._ports.update()
            done.set()

        self.tcp.call_on_loop(update)
        done.wait(_LOOP_S)


def _state_of(broker: Broker) -> str:
    return "stopped" if not broker.alive else "paused" if broker.paused else "running"


def simulated(properties: Mapping[str, str], version: KafkaVersion) -> dict[str, str]:
    """Return the settings of a properties file that have an effect.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> simulated({"num.partitions": "3", "num.io.threads": "8"}, kafka_version("3.9"))
    {'num.partitions': '3'}
    """
    return {key: value for key, value in properties.items() if has_effect(key, version)}


def _verb(method: Callable[Concatenate[KafkaCluster, _P], _R]) -> Callable[Concatenate[KafkaServer, _P], _R]:
    """Return a method of a server that does what the method of its cluster does."""

    @wraps(method)
    def run(self: KafkaServer, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return method(self.cluster, *args, **kwargs)

    return run


class Listeners(NamedTuple):
    """Addresses of a cluster.

    Attributes:
        host: the interface, which is the brokers' address for clients too unless another is advertised.
        port: the first broker's port; each other one listens on the next port. 0 for any free ports.
        zookeeper_port: ZooKeeper's port; 0 for any free one.
        control_port: port of the HTTP control; 0 for any free one, None for none.
        control_token: token that its clients send; needed beyond this machine.
        security: protocol of the brokers' ports: `PLAINTEXT`, `SASL_PLAINTEXT`, `SSL` or `SASL_SSL`.
        tls: certificate and key of ports with TLS; None for a new self-signed certificate.
        advertised_host: the host that brokers give to clients; None for the one of the setting `advertised.listeners`,
            else `host`.

    `port` and `security` are of brokers without the setting `listeners`, which says both for each listener; its empty
    hosts stand for `host`.
    """

    host: str = "127.0.0.1"
    port: int = 0
    zookeeper_port: int = 0
    control_port: int | None = None
    control_token: str | None = None
    security: str = PLAINTEXT
    tls: Tls | None = None
    advertised_host: str | None = None


def _reserve(broker: Broker, port: int, options: Listeners) -> dict[BrokerPort, socket.socket]:
    """Reserve the ports of a broker, and let it know them.

    Args:
        broker: the broker.
        port: its port if the settings have no listeners; 0 for any free one.
        options: the other options of its listener.

    Raises:
        ConfigError: a port is in use, or the settings of the listeners are invalid.
    """
    if options.security != PLAINTEXT and broker.config.given.get(LISTENERS):
        raise ConfigError(f"it cannot be combined with the setting {LISTENERS}", where="security", right="one of both")
    broker.set_endpoint(
        port=port, host=options.host, security=options.security, advertised_host=options.advertised_host
    )
    ports: dict[BrokerPort, socket.socket] = {}
    try:
        for one in broker.listeners.bound:
            ports[BrokerPort(broker.id, one.name)] = reserve(one.host, one.port)
        hosts = {one.name: one.host for one in broker.listeners.bound}
        broker.bind({place.listener: (hosts[place.listener], at.getsockname()[1]) for place, at in ports.items()})
    except BaseException:
        for at in ports.values():
            at.close()
        raise
    return ports


def _boot(cluster: ServedCluster) -> None:
    """Start the first broker, which becomes controller, then the others; in virtual time, at once."""
    first, *others = cluster.brokers.values()
    first.start()
    cluster.run_until(lambda: cluster.controller == first.id)
    for broker in others:
        broker.start()
    cluster.run_until_quiet()


def _recorded(node: Znode) -> RecordedZnode:
    """Return a znode as recordings have it."""
    from simzk.kafka.observation.recording import RecordedZnode

    data, children = node.data, len(node.children or ())
    text = None if data is None else data.decode()
    is_ephemeral = bool(node.ephemeral_owner)
    return RecordedZnode(text, node.version, node.cversion, node.aversion, is_ephemeral, children, len(data or b""))


def _boot_scenario(live: LiveScenario) -> None:
    """Play a scenario in virtual time until all brokers serve, or for a limited time if one does not."""
    cluster, end_ms = live.play.cluster, live.now_ms() + _BOOT_MS
    _write_registrations(cluster)
    live.run_until(live.now_ms() + _BOOT_STEP_MS)
    while live.now_ms() < end_ms and not all(broker.accepts_clients for broker in cluster.brokers.values()):
        live.run_until(live.now_ms() + _BOOT_STEP_MS)


def _boot_time_ms(scenario: Scenario) -> int:
    """Return the virtual time after which all brokers of a scenario serve."""
    from simzk.scenarios.live_scenario import LiveScenario

    live = LiveScenario(scenario, start_ms=kafka.START_MS, tell=lambda _: None, warn=lambda _: None)
    try:
        _boot_scenario(live)
        return live.now_ms() - kafka.START_MS
    finally:
        live.close()


def _register_again(cluster: ServedCluster) -> None:
    """Let the brokers that run already write their new addresses to ZooKeeper, as after a change of listeners."""
    _write_registrations(cluster)
    cluster.run_until_quiet()


def _write_registrations(cluster: kafka.KafkaCluster) -> None:
    for broker in cluster.brokers.values():
        path = paths.broker(broker.id)
        if cluster.tree.get(path) is not None:
            cluster.write_znode(path, broker.registration_data)


def _catch_up(cluster: ServedCluster, live: LiveScenario | None) -> None:
    """Let the rest of the time until the present pass in a cluster that has booted."""
    left_ms = WallClock().now_ms() - cluster.now_ms
    if left_ms <= 0:
        return
    if live is None:
        cluster.run_for(left_ms / 1000)
    else:
        live.run_until(live.now_ms() + left_ms)


class KafkaServer:
    """A simulated Kafka cluster whose brokers and ZooKeeper listen on TCP ports.

    Brokers answer the requests that are simulated so far (docs/kafka_server.md). A killed broker refuses connections, a
    paused one accepts them and stays silent. Ports do not change while a broker is down. Time is wall time; `advance`,
    `run_until` and `run_until_quiet` let it jump. The other methods are those of `KafkaCluster`.

    Args:
        version, brokers, racks, seed, config: as of `KafkaCluster`.
        host: the interface to listen on, which is the brokers' address for clients too unless another is advertised.
        advertised_host: the host that brokers give to clients; None for the one of the setting `advertised.listeners`,
            which has a port too, else `host`. With `host="0.0.0.0"` one of them is needed.
        port: the first broker's port; each other one listens on the next port. 0 for any free ports. A broker with the
            setting `listeners` has the ports and protocols of its listeners instead.
        zookeeper_port: ZooKeeper's port; 0 for any free one.
        control_port: port of the HTTP control; 0 for any free one, None for none.
        control_token: token that its clients send; needed beyond this machine.
        security: protocol of the brokers' ports: `PLAINTEXT`, `SASL_PLAINTEXT`, `SSL` or `SASL_SSL`.
        tls: certificate and key of ports with TLS (`simzk.serve.tcp.tls.Tls`); None for a new self-signed certificate
            (needs the extra `tls`).
        broker_config, inter_broker_protocol, cluster_id, log_dirs, tick_time_ms, max_session_timeout_ms: as of
            `KafkaCluster`.
        zookeeper_set_acl, zookeeper_chroot, zookeeper_servers: as of `KafkaCluster`. ZooKeeper's port is that of an
            observer, which follows the servers of an ensemble and never fails.

    Attributes:
        cluster: the cluster, in virtual time that follows the wall clock.
        certificate: file of the certificate of the brokers' ports, which clients may trust; None without TLS.

    Raises:
        ConfigError: an option has an invalid value, or a port is in use.

    >>> import simzk
    >>> with simzk.KafkaServer(brokers=2) as server:
    ...     list(server.brokers), server.live_brokers
    ([1, 2], [1, 2])
    """

    def __init__(
        self,
        version: str | Mapping[int, str] = "3.9",
        brokers: int | Sequence[int] = 3,
        racks: int | Mapping[int, str] | None = None,
        seed: int = 0,
        *,
        config: Mapping[str, str | int | bool] | None = None,
        broker_config: Mapping[int, Mapping[str, str | int | bool]] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        zookeeper_port: int = 0,
        control_port: int | None = None,
        control_token: str | None = None,
        security: str = PLAINTEXT,
        tls: Tls | None = None,
        advertised_host: str | None = None,
        inter_broker_protocol: str | Mapping[int, str] | None = None,
        cluster_id: str | None = None,
        log_dirs: int = 1,
        tick_time_ms: int = 2000,
        max_session_timeout_ms: int | None = None,
        zookeeper_set_acl: bool = False,
        zookeeper_chroot: str = "",
        zookeeper_servers: int = 1,
    ) -> None:
        cluster = ServedCluster(
            version,
            brokers,
            racks,
            seed,
            config=config,
            broker_config=broker_config,
            inter_broker_protocol=inter_broker_protocol,
            cluster_id=cluster_id,
            log_dirs=log_dirs,
            tick_time_ms=tick_time_ms,
            max_session_timeout_ms=max_session_timeout_ms,
            zookeeper_set_acl=zookeeper_set_acl,
            zookeeper_chroot=zookeeper_chroot,
            zookeeper_servers=zookeeper_servers,
            boot=False,
            start_ms=WallClock().now_ms() - _LEAD_MS,
        )
        listeners = Listeners(host, port, zookeeper_port, control_port, control_token, security, tls, advertised_host)
        self._serve(cluster, listeners, lambda: _boot(cluster))

    def _serve(
        self, cluster: ServedCluster, listeners: Listeners, boot: Callable[[], None], live: LiveScenario | None = None
    ) -> None:
        """Reserve the ports, boot the cluster and begin to serve."""
        self.cluster: ServedCluster = cluster
        self._files: TemporaryDirectory[str] | None = None
        ports: dict[BrokerPort, socket.socket] = {}
        try:
            for place, broker in enumerate(cluster.brokers.values()):
                ports |= _reserve(broker, listeners.port + place if listeners.port else 0, listeners)
            check_distinct({broker.id: broker.listeners for broker in cluster.brokers.values()})
            tls = self._tls(listeners)
            boot()
            _catch_up(cluster, live)
            settings = Settings(
                address=listeners.host, port=listeners.zookeeper_port, admin_token=listeners.control_token
            )
            self._host = ClusterHost(cluster, settings, ports, tls, listeners.control_port, live)
        except BaseException:
            for bound in ports.values():
                bound.close()
            cluster.close()
            self._remove_files()
            raise
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simzk-kafka-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        cluster.zookeeper_host.client_address = self.zookeeper_hosts

    def _tls(self, listeners: Listeners) -> dict[BrokerPort, ssl.SSLContext]:
        """Return the TLS configuration of the brokers' ports that have TLS.

        Raises:
            ConfigError: the certificate cannot be used, or no port has TLS.
        """
        tls = listeners.tls
        secured = [
            BrokerPort(broker.id, one.name)
            for broker in self.cluster.brokers.values()
            for one in broker.listeners.bound
            if uses_tls(one.security)
        ]
        if not secured:
            if tls is not None:
                raise ConfigError(
                    "these ports have no TLS", where="tls", right='security="SSL" or "SASL_SSL" beside it'
                )
            self.certificate: Path | None = None
            return {}
        if tls is None:
            from tempfile import TemporaryDirectory

            from simzk.serve.tcp.self_signed import make_certificate

            self._files = TemporaryDirectory(prefix="simzk-")
            found = [broker.listeners for broker in self.cluster.brokers.values()]
            hosts = [one.host for of_broker in found for one in (*of_broker.bound, *of_broker.advertised)]
            tls = make_certificate(Path(self._files.name), dict.fromkeys(hosts))
        self.certificate = tls.certificate
        return dict.fromkeys(secured, tls.context())

    def _remove_files(self) -> None:
        if self._files is not None:
            self._files.cleanup()

    @classmethod
    def from_layout(
        cls,
        layout: Layout,
        *,
        version: str = "3.9",
        seed: int = 0,
        config: Mapping[str, str | int | bool] | None = None,
        listeners: Listeners | None = None,
    ) -> Self:
        """Return a server of a cluster that continues from a layout.

        Each broker has a metadata cache and a log for each of its replicas: 10,000 partitions with three replicas need
        70 MB. (`KafkaCluster.from_layout` stores millions of partitions as columns, without both.)

        Args:
            layout: the layout; its live brokers run.
            version: Kafka release of all brokers, 2.7 or later.
            seed, config: as of a new cluster.
            listeners: where to listen [default: any free ports of 127.0.0.1].

        Raises:
            ConfigError: the version is older than 2.7, or a port is in use.
            LayoutError: the layout is invalid.

        >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
        >>> layout = generate_layout(brokers_in_racks(3, 3), topics=2, partitions=6, replication_factor=3, seed=1)
        >>> with KafkaServer.from_layout(layout) as server:
        ...     len(server.brokers), server.cluster.table.leader.size
        (3, 6)
        """
        start_ms = WallClock().now_ms() - _LEAD_MS
        with kafka.KafkaCluster.from_layout(layout, version=version, config=config, start_ms=start_ms) as source:
            tree = {path: _recorded(node) for path, node in source.tree.walk()}
        racks = dict(zip(layout.brokers.ids.tolist(), layout.brokers.racks, strict=True))
        racked = {broker: rack for broker, rack in racks.items() if rack}
        cluster = ServedCluster.from_tree(
            tree, version=version, seed=seed, racks=racked, config=config, start_ms=start_ms
        )
        made = cls.__new__(cls)
        made._serve(cluster, listeners or Listeners(), lambda: _register_again(cluster))
        return made

    @classmethod
    def from_scenario(
        cls,
        file: str,
        *,
        listeners: Listeners | None = None,
        tell: Callable[[Sequence[Event]], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Return a server of the cluster of a scenario, whose steps happen on wall time.

        It serves once all brokers run. The steps of the time until then have happened.

        Args:
            file: the scenario's file, or the name of a shipped scenario.
            listeners: where to listen [default: any free ports of 127.0.0.1].
            tell: called with new events of the history.
            warn: called with the error of a step that was skipped.

        Raises:
            ScenarioError: the file is invalid.
            ConfigError: a port is in use.

        >>> with KafkaServer.from_scenario("broker_failure") as server:
        ...     server.live_brokers
        [1, 2, 3]
        """
        from simzk.scenarios.live_scenario import LiveScenario
        from simzk.scenarios.reader import read_scenario

        scenario = read_scenario(file)
        boot_ms = _boot_time_ms(scenario)
        start_ms = WallClock().now_ms() - boot_ms
        live = LiveScenario(scenario, start_ms=start_ms, tell=tell, warn=warn, cluster_type=ServedCluster)
        cluster = live.play.cluster
        assert isinstance(cluster, ServedCluster)
        cluster.play_until = live.play.run_until
        made = cls.__new__(cls)
        made._serve(cluster, listeners or Listeners(), lambda: _boot_scenario(live), live)
        return made

    def __repr__(self) -> str:
        return f"<KafkaServer {self.cluster.version} at {self.bootstrap_servers}>"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._host.start())
        finally:
            self._ready.set()
        self._loop.run_forever()
        self._host.stop()
        self._loop.run_until_complete(end_connections())
        self._loop.close()

    @property
    def brokers(self) -> dict[int, str]:
        """Address of each broker by id, as clients write it."""
        return {broker.id: address_text(*broker.endpoint) for broker in self.cluster.brokers.values()}

    @property
    def listeners(self) -> dict[str, str]:
        """Addresses of all brokers at each advertised listener, by its name, separated by commas.

        `bootstrap_servers` are those of the first one that is not for other brokers only.
        """
        found: dict[str, list[str]] = {}
        for broker in self.cluster.brokers.values():
            for one in broker.listeners.advertised:
                found.setdefault(one.name, []).append(address_text(*one.address))
        return {name: ",".join(addresses) for name, addresses in found.items()}

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, separated by commas."""
        return ",".join(self.brokers.values())

    @property
    def zookeeper_hosts(self) -> str:
        """Address of the cluster's ZooKeeper, as kazoo's hosts."""
        return self._host.tcp.hosts

    @property
    def control_url(self) -> str:
        """URL of the HTTP control; empty without one."""
        return self._host.control_url

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return next(iter(self.cluster.brokers.values())).cluster_id

    @property
    def broker_faults(self) -> BrokerRequestFaults:
        """Faults on the requests of Kafka clients, by API, client id, topic and broker."""
        return self.cluster.broker_faults

    @property
    def zookeeper_faults(self) -> BrokerFaults:
        """Faults on the requests of brokers to ZooKeeper, by broker, operation and path."""
        return self.cluster.zookeeper_faults

    @property
    def history(self) -> History:
        """Events of the cluster, in order."""
        return self.cluster.history

    @property
    def version(self) -> str:
        """Release of the cluster's oldest broker."""
        return self.cluster.version

    @property
    def controller(self) -> int | None:
        """The broker in `/controller`; None if the znode is missing or invalid."""
        return self.cluster.controller

    @property
    def live_brokers(self) -> list[int]:
        """The ids of the registered brokers, ascending."""
        return self.cluster.live_brokers

    @property
    def now_ms(self) -> int:
        """The present time of the cluster, in ms since 1970."""
        return self.cluster.now_ms

    @property
    def is_zookeeper_up(self) -> bool:
        """Whether ZooKeeper is neither stopped nor paused as a whole."""
        return self.cluster.is_zookeeper_up

    @property
    def zookeeper_servers(self) -> dict[int, str]:
        """State of each server of the ensemble by number: running, paused or killed; empty without an ensemble."""
        return self.cluster.zookeeper_servers

    @property
    def zookeeper_leader(self) -> int | None:
        """The number of the ZooKeeper server that leads the ensemble; None while there is none."""
        return self.cluster.zookeeper_leader

    @property
    def killed_zookeeper_servers(self) -> list[int]:
        """The numbers of the ZooKeeper servers that were killed and not started again, ascending."""
        return self.cluster.killed_zookeeper_servers

    @property
    def paused_zookeeper_servers(self) -> list[int]:
        """The numbers of the ZooKeeper servers that are paused one by one, ascending."""
        return self.cluster.paused_zookeeper_servers

    @property
    def cut_zookeeper_servers(self) -> list[int]:
        """The numbers of the ZooKeeper servers that are cut off from the other servers, ascending."""
        return self.cluster.cut_zookeeper_servers

    fail_next: Final = _verb(KafkaCluster.fail_next)
    high_watermark: Final = _verb(KafkaCluster.high_watermark)
    advance: Final = _verb(KafkaCluster.advance)
    run_for: Final = _verb(KafkaCluster.run_for)
    run_until: Final = _verb(KafkaCluster.run_until)
    describe: Final = _verb(KafkaCluster.describe)
    run_until_quiet: Final = _verb(KafkaCluster.run_until_quiet)
    racks_of_live: Final = _verb(KafkaCluster.racks_of_live)
    state: Final = _verb(KafkaCluster.state)
    assignment: Final = _verb(KafkaCluster.assignment)
    kill: Final = _verb(KafkaCluster.kill)
    restart: Final = _verb(KafkaCluster.restart)
    pause: Final = _verb(KafkaCluster.pause)
    resume: Final = _verb(KafkaCluster.resume)
    expire: Final = _verb(KafkaCluster.expire)
    expire_session: Final = _verb(KafkaCluster.expire_session)
    check_isrs: Final = _verb(KafkaCluster.check_isrs)
    announce_isr_changes: Final = _verb(KafkaCluster.announce_isr_changes)
    disconnect: Final = _verb(KafkaCluster.disconnect)
    shutdown: Final = _verb(KafkaCluster.shutdown)
    fail_log_dir: Final = _verb(KafkaCluster.fail_log_dir)
    pause_zookeeper: Final = _verb(KafkaCluster.pause_zookeeper)
    start_zookeeper: Final = _verb(KafkaCluster.start_zookeeper)
    stop_zookeeper: Final = _verb(KafkaCluster.stop_zookeeper)
    kill_zookeeper_server: Final = _verb(KafkaCluster.kill_zookeeper_server)
    restart_zookeeper_server: Final = _verb(KafkaCluster.restart_zookeeper_server)
    lose_zookeeper_leader: Final = _verb(KafkaCluster.lose_zookeeper_leader)
    pause_zookeeper_server: Final = _verb(KafkaCluster.pause_zookeeper_server)
    resume_zookeeper_server: Final = _verb(KafkaCluster.resume_zookeeper_server)
    cut_zookeeper_server: Final = _verb(KafkaCluster.cut_zookeeper_server)
    heal_zookeeper_server: Final = _verb(KafkaCluster.heal_zookeeper_server)
    heal_zookeeper_servers: Final = _verb(KafkaCluster.heal_zookeeper_servers)
    power_off: Final = _verb(KafkaCluster.power_off)
    slow_disk: Final = _verb(KafkaCluster.slow_disk)
    wipe: Final = _verb(KafkaCluster.wipe)
    prefer_controller: Final = _verb(KafkaCluster.prefer_controller)
    produce: Final = _verb(KafkaCluster.produce)
    metadata: Final = _verb(KafkaCluster.metadata)
    log: Final = _verb(KafkaCluster.log)
    allocate_producer_ids: Final = _verb(KafkaCluster.allocate_producer_ids)
    consumer: Final = _verb(KafkaCluster.consumer)
    create_topic: Final = _verb(KafkaCluster.create_topic)
    set_topic_id: Final = _verb(KafkaCluster.set_topic_id)
    delete_topic: Final = _verb(KafkaCluster.delete_topic)
    add_partitions: Final = _verb(KafkaCluster.add_partitions)
    elect: Final = _verb(KafkaCluster.elect)
    alter_config: Final = _verb(KafkaCluster.alter_config)
    write_znode: Final = _verb(KafkaCluster.write_znode)
    delete_znode: Final = _verb(KafkaCluster.delete_znode)
    reassign: Final = _verb(KafkaCluster.reassign)
    generate_reassignment: Final = _verb(KafkaCluster.generate_reassignment)
    verify_reassignment: Final = _verb(KafkaCluster.verify_reassignment)
    cancel_reassignment: Final = _verb(KafkaCluster.cancel_reassignment)
    add_acls: Final = _verb(KafkaCluster.add_acls)
    authorize_consumer: Final = _verb(KafkaCluster.authorize_consumer)
    remove_acls: Final = _verb(KafkaCluster.remove_acls)
    acls: Final = _verb(KafkaCluster.acls)
    add_user: Final = _verb(KafkaCluster.add_user)
    remove_user: Final = _verb(KafkaCluster.remove_user)
    create_token: Final = _verb(KafkaCluster.create_token)
    renew_token: Final = _verb(KafkaCluster.renew_token)
    expire_token: Final = _verb(KafkaCluster.expire_token)
    tokens: Final = _verb(KafkaCluster.tokens)
    check: Final = _verb(KafkaCluster.check)

    def close(self) -> None:
        """Stop all brokers, refuse new connections, and free the ports; closing twice is allowed."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self.cluster.close()
        self._remove_files()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


for _name, _method in vars(kafka.KafkaCluster).items():
    # Each is listed above, for type checkers; a method that is new is there from its first day on.
    if callable(_method) and not _name.startswith("_") and _name != "pump" and not hasattr(KafkaServer, _name):
        setattr(KafkaServer, _name, _verb(_method))
