"""Base classes of faults, what a plan needs to draw and check them, and what they act on.

Rules of this module:
  - a fault is one class: its fields are the keys of `[[fault]]` in a plan file, `draw` draws one from the seed, `check`
    compares it with the cluster that it is for, and `begin` lets it happen;
  - a class draws only from `Draw.stream`, and only what it needs, so that a plan is a function of its seed;
  - a fault ends by itself at its end time, or when everything heals: `Target.call_later` calls nothing after that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self

from msgspec import Struct, field, structs

from simzk.documents import is_number
from simzk.errors import ConfigError
from simzk.kafka.cluster.clients.fleet import ClientFleet
from simzk.kafka.cluster.clients.wire import Ports
from simzk.kafka.zookeeper_mode import paths
from simzk.scenarios.source import BrokerId, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.scenarios.source import KeyPath, Source
    from simzk.simulation import RandomStream

_INNER_WORD = re.compile("(?<!^)(?=[A-Z])")
FAULT, OPERATOR = "fault", "operator"
"""Who acts in the history."""
ZOOKEEPER = "zookeeper"
COMPONENT = "faults"
"""Component of the scheduler for the ends of faults."""
SHORTEST_US = 1_000
"""Minimum duration of a fault that is drawn."""
STOP_LIMIT_US, STOP_STEP_US = 30_000_000, 500_000
"""How long an operator waits for a broker to stop, and how often it looks."""


class Setting(NamedTuple):
    """The cluster that a plan is for, as far as its scenario defines it.

    Args:
        brokers: broker ids.
        version: the oldest release line among the brokers.
        topics: number of partitions by topic before the first fault.
        log_dirs: number of log directories of each broker.
        zookeeper_servers: number of ZooKeeper servers.
        compacted: those of the topics that are created with `cleanup.policy=compact`.
    """

    brokers: Sequence[int]
    version: str
    topics: Mapping[str, int]
    log_dirs: int
    zookeeper_servers: int = 1
    compacted: Sequence[str] = ()


class Draw:
    """State of a plan while its faults are drawn.

    Args:
        stream: source of all numbers.
        setting: the cluster.
        safety_us: end of the faults.
        longest_us: maximum duration of a fault.
        broken_max: maximum number of brokers with a fault at one time.

    Attributes:
        at_us: time of the fault that is drawn.
        topics: number of partitions by topic, as far as the faults so far create and delete them.
        moved: partitions that were reassigned, in order.
        created: number of topics that were created.
        is_upgraded: whether a rolling upgrade was drawn.
    """

    def __init__(
        self, stream: RandomStream, setting: Setting, *, safety_us: int, longest_us: int, broken_max: int
    ) -> None:
        self.stream: RandomStream = stream
        self.setting: Setting = setting
        self.at_us: int = 0
        self.topics: dict[str, int] = dict(setting.topics)
        self.moved: list[str] = []
        self.created: int = 0
        self.is_upgraded: bool = False
        self._safety_us = safety_us
        self._longest_us = longest_us
        self._broken_max = broken_max
        self._broken_until_us: dict[int | str, int] = dict.fromkeys((*setting.brokers, ZOOKEEPER), 0)

    @property
    def at(self) -> str:
        """The time of the fault, as plan files write it."""
        return format_duration(self.at_us)

    def broker(self) -> int | None:
        """Draw a broker without a fault; None if there is none, or if enough are broken."""
        brokers = self.setting.brokers
        healthy = [broker for broker in brokers if self._broken_until_us[broker] <= self.at_us]
        if not healthy or len(brokers) - len(healthy) >= self._broken_max:
            return None
        return self.stream.choice(healthy)

    def is_broken(self, member: int | str) -> bool:
        """Return whether a broker, or ZooKeeper, has a fault at this time."""
        return self._broken_until_us[member] > self.at_us

    def duration(self, member: int | str) -> str:
        """Draw the duration of a fault of a broker or of ZooKeeper, which is broken until then."""
        duration_us = min(self.stream.between(SHORTEST_US, self._longest_us), self._safety_us - self.at_us)
        assert duration_us > 0, "a fault begins before the end of the faults"
        self._broken_until_us[member] = self.at_us + duration_us
        return format_duration(duration_us)

    def duration_of_links(self) -> str:
        """Draw the duration of a fault of links; no broker is broken by it."""
        return format_duration(min(self.stream.between(SHORTEST_US, self._longest_us), self._safety_us - self.at_us))

    def partition(self) -> str | None:
        """Draw a partition that should exist by then, such as `orders-0`; None without topics."""
        if not self.topics:
            return None
        topic = self.stream.choice(list(self.topics))
        return f"{topic}-{self.stream.below(self.topics[topic])}"


class FaultCheck(NamedTuple):
    """A fault of a plan file that is checked.

    Args:
        source: the file.
        setting: the cluster.
        at: path of the fault in the file.
        safety_us: end of the faults.
    """

    source: Source
    setting: Setting
    at: KeyPath
    safety_us: int

    def fail(self, key: str, what: str, right: str) -> NoReturn:
        """Raise a ScenarioError at a key of the fault; arguments as of `Source.fail`."""
        self.source.fail((*self.at, key), what, right)

    def duration(self, key: str, text: str, *, positive: bool = True) -> int:
        """Return a duration of the fault in microseconds, as `Source.duration`."""
        return self.source.duration(text, (*self.at, key), positive=positive)

    def broker(self, key: str, broker: int) -> None:
        """Check that a broker exists."""
        if broker not in self.setting.brokers:
            right = f"one of {', '.join(map(str, self.setting.brokers))}"
            self.fail(key, f"broker {broker} does not exist", right)

    def brokers(self, key: str, brokers: Sequence[int]) -> None:
        """Check a list of brokers: all exist, each is named once, and there is one at least."""
        if not brokers or len(set(brokers)) != len(brokers):
            self.fail(key, f"{list(brokers)} is empty or names a broker twice", "each broker once")
        for broker in brokers:
            self.broker(key, broker)

    def partition(self, key: str, name: str) -> None:
        """Check that a text has the form of a partition's name; its topic may be created during the run."""
        topic, dash, number = name.rpartition("-")
        if not (topic and dash and is_number(number)):
            right = "a topic, a dash and a number, such as orders-0"
            self.fail(key, f"{name!r} is not the name of a partition", right)

    def topic(self, topic: str) -> None:
        """Check that a text can be a topic's name."""
        if not topic or "/" in topic:
            self.fail("topic", f"{topic!r} is not a valid topic name", "letters, digits, dot, dash, _")

    def config(self, key: str, call: Callable[[], object]) -> None:
        """Check that a call raises no ConfigError."""
        try:
            call()
        except ConfigError as error:
            self.fail(key, error.what, error.right)


class Restart(NamedTuple):
    """A restart of a broker: with another release or inter-broker protocol, or the same if they are empty."""

    broker: int
    version: str = ""
    protocol: str = ""


class Target:
    """A running cluster, as faults see it, and the clients that speak Kafka's requests to it."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster: KafkaCluster = cluster
        host = cluster.zookeeper_host
        self.clients: ClientFleet = ClientFleet(
            cluster.scheduler, Ports(cluster.network, cluster.brokers, host.now_ms), host
        )
        self._is_healed = False
        self._replaced: set[int] = set()  # brokers with a failed log directory

    def is_alive(self, broker: int) -> bool:
        """Return whether a broker's process runs, paused or not."""
        return self.cluster.brokers[broker].alive

    def call_later(self, delay_us: int, action: Callable[[], None]) -> None:
        """Call an action after a delay in virtual time, unless everything has healed by then."""

        def act() -> None:
            if not self._is_healed:
                action()

        self.cluster.scheduler.call_later(delay_us, COMPONENT, act)

    def restart(self, broker: int) -> None:
        """Start a broker, unless it runs."""
        if not self.is_alive(broker):
            self.cluster.restart(broker)

    def start_zookeeper(self) -> None:
        """Start or resume ZooKeeper, unless it runs."""
        if not self.cluster.is_zookeeper_up:
            self.cluster.start_zookeeper()

    def start_zookeeper_server(self, server: int) -> None:
        """Start a ZooKeeper server of the ensemble, unless it runs."""
        if server in self.cluster.killed_zookeeper_servers:
            self.cluster.restart_zookeeper_server(server)

    def stop_and_restart(self, broker: int) -> None:
        """Restart a broker, whether it runs, is about to stop or is down: its log directories are usable again."""
        self._replaced.discard(broker)
        if self.is_alive(broker):
            self.cluster.kill(broker)
        self.cluster.restart(broker)

    def fail_log_dir(self, broker: int, directory: int) -> None:
        """Fail a log directory until the broker restarts."""
        self._replaced.add(broker)
        self.cluster.fail_log_dir(broker, directory)

    def roll(self, restarts: Sequence[Restart], gap_us: int) -> None:
        """Restart brokers one after another: a controlled shutdown, a start, and a pause before the next.

        A broker that has not stopped after `STOP_LIMIT_US` is killed, one that is down is started.
        """
        if not restarts:
            return
        assert gap_us >= 0
        broker, version, protocol = restarts[0]
        if self.is_alive(broker):
            self.cluster.shutdown(broker)
        limit_us = self.cluster.scheduler.now_us + STOP_LIMIT_US

        def start() -> None:
            if self.is_alive(broker):
                if self.cluster.scheduler.now_us < limit_us:
                    self.call_later(STOP_STEP_US, start)
                    return
                self.cluster.kill(broker)
            self.cluster.restart(broker, version=version or None, inter_broker_protocol=protocol or None)
            self.call_later(gap_us, lambda: self.roll(restarts[1:], gap_us))

        self.call_later(STOP_STEP_US, start)

    def heal(self) -> None:
        """End all faults and stop all clients: the network and ZooKeeper work, all brokers run with all directories.

        Up to 0.10 the failover of a controller may fail again and again, by what it remembers or by a preferred
        election that waits in its znode. Its operator restarts it then, and deletes the znode.
        """
        cluster = self.cluster
        assert not self._is_healed, "faults happen once, then everything heals"
        self._is_healed = True
        cluster.traffic.stop()
        self.clients.stop()
        self.start_zookeeper()
        cluster.heal_zookeeper_servers()
        cluster.network.heal_all()
        cluster.zookeeper_faults.clear()
        cluster.traffic.connections.faults.clear()
        fails_over_in_vain = [one.id for one in cluster.brokers.values() if one.controller.fails_over_in_vain]
        for number, broker in cluster.brokers.items():
            cluster.slow_disk(number, 0)
            if number in self._replaced or broker.stopping or (broker.alive and number in fails_over_in_vain):
                self.stop_and_restart(number)
            elif not broker.alive:
                cluster.restart(number)
            elif broker.paused:
                cluster.resume(number)
        assert all(broker.alive and not broker.paused for broker in cluster.brokers.values())
        assert cluster.is_zookeeper_up
        if fails_over_in_vain and cluster.tree.get(paths.PREFERRED_ELECTION) is not None:
            cluster.delete_znode(paths.PREFERRED_ELECTION)


class Fault(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One fault.

    Args:
        kind: name of its kind.
        at: when it begins, from the end of the scenario's steps.
    """

    kind: str
    at: str

    name: ClassVar[str]
    """The kind's name in plan files and weights: the name of its class, as in `restart_zookeeper`."""
    who: ClassVar[str] = FAULT
    """Who acts in the history."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = _INNER_WORD.sub("_", cls.__name__.replace("ZooKeeper", "Zookeeper")).lower()

    def __post_init__(self) -> None:
        assert self.kind == self.name, "the kind that a plan file names is the class"

    @property
    def at_us(self) -> int:
        """When it begins, in microseconds."""
        return parse_duration(self.at) or 0

    @property
    def duration_us(self) -> int:
        """Duration in microseconds; 0 for a fault that does not last."""
        return 0

    @property
    def end_us(self) -> int:
        """When it ends, in microseconds."""
        return self.at_us + self.duration_us

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        """Return a fault of this kind that begins at `draw.at_us`; None if the cluster cannot have one then."""
        raise NotImplementedError

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        """Return whether a cluster can have faults of this kind."""
        return True

    def check(self, check: FaultCheck) -> None:
        """Check the fault against the cluster.

        Raises:
            ScenarioError: it cannot happen there.
        """
        if check.duration("at", self.at, positive=False) >= check.safety_us:
            right = f"less than the safety of {format_duration(check.safety_us)}"
            check.fail("at", f"the fault begins at {self.at}", right)

    def obstacle(self, target: Target) -> str:
        """Return why the fault cannot begin now; empty if it can."""
        return ""

    def begin(self, target: Target) -> None:
        """Let the fault begin, and arrange for its end.

        Raises:
            SimzkError: the cluster refuses it.
        """
        raise NotImplementedError

    def describe(self) -> str:
        """Return what it does, such as `kills broker 3`."""
        raise NotImplementedError

    def play(self, target: Target) -> None:
        """Record the fault and let it begin; record why if it cannot."""
        history = target.cluster.history
        if obstacle := self.obstacle(target):
            history.record(self.who, f"skipped: {self.describe()}", after=obstacle)
            return
        lasts = f"for {self.duration_us / 1_000_000:g}s" if self.duration_us else ""
        history.record(self.who, self.describe(), after=lasts)
        try:
            self.begin(target)
        except ConfigError as error:
            history.record(self.who, f"refused: {self.describe()}", after=str(error))

    def moved_to(self, at_us: int) -> Self:
        """Return the same fault at another time."""
        return structs.replace(self, at=format_duration(at_us))

    def lasting(self, duration_us: int) -> Self:
        """Return the same fault with another duration; a fault that does not last stays as it is."""
        return self


class LastingFault(Fault, kw_only=True, frozen=True):
    """A fault that lasts for some time."""

    duration: str = field(name="for")

    @property
    def duration_us(self) -> int:
        return parse_duration(self.duration) or 0

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.duration("for", self.duration)

    def lasting(self, duration_us: int) -> Self:
        return structs.replace(self, duration=format_duration(duration_us))


class BrokerFault(Fault, kw_only=True, frozen=True):
    """A fault of a broker that runs."""

    broker: BrokerId

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        broker = draw.broker()
        return None if broker is None else cls(kind=cls.name, at=draw.at, broker=broker)

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.broker("broker", self.broker)

    def obstacle(self, target: Target) -> str:
        return "" if target.is_alive(self.broker) else f"broker {self.broker} does not run"


class LastingBrokerFault(LastingFault, kw_only=True, frozen=True):
    """A fault of a broker that runs, which lasts for some time."""

    broker: BrokerId

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        broker = draw.broker()
        if broker is None:
            return None
        details = cls.draw_details(draw, broker)
        return cls(kind=cls.name, at=draw.at, broker=broker, **details, duration=draw.duration(broker))

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        """Return what a kind has beside its broker and its duration, by field; the duration is drawn afterwards."""
        return {}

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.broker("broker", self.broker)

    def obstacle(self, target: Target) -> str:
        return "" if target.is_alive(self.broker) else f"broker {self.broker} does not run"
