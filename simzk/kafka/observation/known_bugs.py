"""Conditions that hold in every release of Kafka, or in all but those with a certain bug (docs/track-record.md).

Rules of this module:
  - a condition is one class in `CONDITIONS`. It recognizes a bug by what happened, to any partition and broker, and
    changes nothing: it reads events, znodes and brokers;
  - `issue_of` tells from the profile of a release which bug breaks the condition there; empty for none. If no release
    that ran in the cluster has one, a broken condition is a violation like every other;
  - what another cause may bring about as well (a cut link, a death, a controller that just took over) is excluded. A
    condition that waits for requests of brokers (`needs_calm`) is a violation only if nothing was disturbed lately;
  - a condition that may be broken for a while is sampled: at events, at least `SAMPLED_US` apart, and more rarely in
    large clusters. It is violated, once, when the same thing was wrong at each sample for `lasts_us`.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from simzk.documents import is_number
from simzk.kafka.broker.replica_logs import NEVER_US
from simzk.kafka.observation.beliefs import REFUSED
from simzk.kafka.observation.invariants import FirstViolation
from simzk.kafka.observation.observer import parse_state
from simzk.kafka.topic_partition import NO_LEADER, LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.partitions.rules import Order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.broker.replica_logs import Replica
    from simzk.kafka.cluster.traffic import Traffic
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.observation.invariants import ObservedZnodes
    from simzk.kafka.observation.observer import EventState
    from simzk.kafka.observation.records import RecordLedger
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.simulation import Event, History, Network, Scheduler

SAMPLED_US: Final = 250_000
"""Least time between two samples of a condition, in virtual time."""
_RARELY: Final = 8
"""One in so many samples is of conditions that last for long, too."""
_OFTEN_MAX: Final = 200
"""Number of partitions up to which conditions are sampled that often; twice as many, half as often."""
_SECOND_US: Final = 1_000_000
_CALM_US: Final = 31 * _SECOND_US
"""How long nothing must be disturbed: a controller waits 30 s for a lost answer (`controller.socket.timeout.ms`)."""


class ObservedCluster(Protocol):
    """A cluster, as far as conditions read it."""

    brokers: dict[int, Broker]
    history: History
    network: Network
    scheduler: Scheduler
    zookeeper_host: ZooKeeperHost
    record_ledger: RecordLedger
    traffic: Traffic

    @property
    def controller(self) -> int | None:
        """The broker in `/controller`; None without one."""

    @property
    def live_brokers(self) -> list[int]:
        """The ids of the registered brokers."""


class Scene:
    """The cluster after each event, and what the conditions remember of earlier ones.

    Args:
        cluster: the cluster.
        znodes: its znodes, as invariants of znodes observe them.

    Attributes:
        ends: how each broker has ended last.
        gone_us: when a broker's registration has gone last.
        registered_us: when a broker has registered last.
        elected_us: when `/controller` has changed last.
        deleting: topics whose deletion was requested, and is not complete.
    """

    def __init__(self, cluster: ObservedCluster, znodes: ObservedZnodes) -> None:
        self.cluster = cluster
        self.znodes = znodes
        self.ends: dict[int, str] = {}
        self.gone_us: dict[int, int] = {}
        self.registered_us: dict[int, int] = {}
        self.elected_us = 0
        self.deleting: dict[str, None] = {}
        self._disturbed_us = self._paused_us = -_CALM_US
        self._looked_us = -1
        self._versions: list[KafkaVersion] = []
        for broker in cluster.brokers.values():
            self._note_version(broker.version)

    def note(self, event: Event) -> None:
        """Take over an event."""
        match event.what:
            case "killed" | "stopped" if (broker := broker_of(event.who)) is not None:
                self.ends[broker] = event.what
            case "started" if (broker := broker_of(event.who)) is not None:
                self._note_version(self.cluster.brokers[broker].version)
            case "registration gone" if (broker := broker_of(event.who)) is not None:
                self.gone_us[broker] = event.at_us
            case "registered" if (broker := broker_of(event.who)) is not None:
                self.registered_us[broker] = event.at_us
            case "elected" | "controller gone":
                self.elected_us = event.at_us
            case "deletion requested":
                self.deleting[event.subject] = None
            case "topic deleted":
                self.deleting.pop(event.subject, None)
            case _:
                pass

    def is_calm(self, now_us: int) -> bool:
        """Return whether all links, processes and requests were undisturbed lately, as far as samples can tell."""
        self._look(now_us)
        return now_us - max(self._disturbed_us, self._paused_us) >= _CALM_US

    def writes_at_once(self, now_us: int) -> bool:
        """Return whether nothing delayed what leaders propose lately: brokers beside the controller may be paused."""
        self._look(now_us)
        return now_us - self._disturbed_us >= _CALM_US

    def _look(self, now_us: int) -> None:
        if now_us == self._looked_us:  # many conditions ask at one time
            return
        self._looked_us, host = now_us, self.cluster.zookeeper_host
        paused = [broker.id for broker in self.cluster.brokers.values() if broker.paused]
        if paused:
            self._paused_us = now_us
        if (
            host.is_stopped
            or host.is_frozen
            or host.rules.active
            or self.cluster.network.has_faults
            or self.cluster.traffic.connections.faults
            or self.cluster.controller in paused
        ):
            self._disturbed_us = now_us

    def _note_version(self, version: KafkaVersion) -> None:
        if version not in self._versions:
            self._versions.append(version)

    def issue(self, issue_of: Callable[[KafkaVersion], str]) -> str:
        """Return the bug of a release that runs in the cluster, or ran; empty if none has one."""
        return next(filter(None, map(issue_of, self._versions)), "")

    @property
    def now_us(self) -> int:
        """The present time."""
        return self.cluster.scheduler.now_us

    @property
    def running(self) -> list[Broker]:
        """The brokers whose processes run, and are not paused."""
        return [broker for broker in self.cluster.brokers.values() if broker.alive and not broker.paused]

    def replicas(self) -> Iterator[tuple[Broker, Replica]]:
        """Yield the replicas of running brokers."""
        for broker in self.running:
            for replica in broker.replicas.replicas.values():
                yield broker, replica

    def leaders(self) -> Iterator[tuple[Broker, Replica]]:
        """Yield the replicas of running brokers that take themselves for the leader."""
        for broker, replica in self.replicas():
            if replica.state.leader == broker.id:
                yield broker, replica

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment | None:
        """Return the assignment of a partition in its topic's znode; None if it is not there."""
        return self.znodes.assignments(partition.topic).get(partition.partition)

    def state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """Return the state of a partition in its znode; None if there is none."""
        return self.znodes.states.get(partition)

    def working_controller(self) -> Broker | None:
        """Return the broker in `/controller` if it runs and is connected to ZooKeeper, and all brokers to it."""
        broker = self.controller()
        if broker is None:
            return None
        others = [one.id for one in self.running if one.registered]
        return broker if all(self.is_connected(broker.id, other) for other in others) else None

    def controller(self) -> Broker | None:
        """Return the broker in `/controller` if it runs and is connected to ZooKeeper."""
        controller, host = self.cluster.controller, self.cluster.zookeeper_host
        broker = None if controller is None else self.cluster.brokers.get(controller)
        if broker is None or not broker.alive or broker.paused or not broker.controller.is_active:
            return None
        is_connected = broker.session.connected and not host.is_stopped and not host.is_frozen
        return broker if is_connected and self._reaches_zookeeper(broker.id) else None

    def _reaches_zookeeper(self, broker: int) -> bool:
        network, end = self.cluster.network, f"broker {broker}"
        return all(network.is_clear(*ends) for ends in ((end, "zookeeper"), ("zookeeper", end)))

    def is_connected(self, one: int, other: int) -> bool:
        """Return whether two brokers can reach each other without delay."""
        network = self.cluster.network
        ends = f"broker {one}", f"broker {other}"
        return network.is_clear(*ends) and network.is_clear(*reversed(ends))


@lru_cache(maxsize=1024)
def broker_of(who: str, kind: str = "broker") -> int | None:
    """Return the id of the broker, or controller, that a component of an event is; None for another one."""
    found, _, number = who.partition(" ")
    return int(number) if found == kind and is_number(number) else None


@lru_cache(maxsize=4096)
def _partition_of(subject: str) -> TopicPartition | None:
    topic, _, number = subject.rpartition("-")
    return TopicPartition(topic, int(number)) if topic and is_number(number) else None


def is_under_min_isr(leader: Broker, replica: Replica) -> bool:
    """Return whether an ISR, as its leader knows it, is smaller than `min.insync.replicas` and the assignment."""
    in_sync = len(replica.state.isr)
    required = leader.topic_configs.min_isr(replica.partition.topic)
    return in_sync < required and in_sync < len(replica.replicas)


class Condition(FirstViolation):
    """A condition that some releases break.

    Args:
        scene: the cluster.

    Attributes:
        name: the condition, in a few words.
        kinds: the kinds of event at which `on_event` is called.
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene

    @property
    def issue(self) -> str:
        """The bug of Kafka by which a release that ran breaks the condition; empty for none."""
        return self.scene.issue(self.issue_of)

    @staticmethod
    def issue_of(_version: KafkaVersion) -> str:
        """Return the bug of a release that breaks the condition; empty for none."""
        return ""

    def on_event(self, event: Event) -> None:
        """Check an event of one of the kinds that it names."""


class StateCondition(Condition):
    """A condition on a change of a partition's state."""

    def on_event(self, event: Event) -> None:
        before, after, partition = parse_state(event.before), parse_state(event.after), _partition_of(event.subject)
        if before is not None and after is not None and partition is not None:
            self.on_change(event, partition, before, after)

    def on_change(self, event: Event, partition: TopicPartition, before: EventState, after: EventState) -> None:
        """Check a change that was written."""
        raise NotImplementedError


class LastingCondition(Condition):
    """A condition that may be broken for a while.

    Attributes:
        lasts_us: how long the same thing must be wrong.
        needs_calm: whether a lost request can be why; then only the bug counts while something is disturbed.
    """

    needs_calm: ClassVar[bool] = True

    @property
    def lasts_us(self) -> int:
        raise NotImplementedError

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._since_us: dict[tuple[object, ...], int] = {}
        self._reported: dict[tuple[object, ...], None] = {}

    def on_sample(self, now_us: int) -> None:
        """Note what is wrong now, and report what has been wrong for long enough."""
        before, self._since_us = self._since_us, {}
        is_calm = self.scene.is_calm(now_us)
        if self.needs_calm and not is_calm and not self.issue:
            return
        for wrong in self.wrong():
            since_us = self._since_us[wrong] = before.get(wrong, now_us)
            if now_us - since_us >= self.lasts_us and wrong not in self._reported:
                self._reported[wrong] = None
                self.violate(f"{self.describe(wrong)} for {self.lasts_us // _SECOND_US} s")
        if self._reported:
            self._reported = {wrong: None for wrong in self._reported if wrong in self._since_us}

    def wrong(self) -> Iterable[tuple[object, ...]]:
        """Return what is wrong now."""
        raise NotImplementedError

    def describe(self, wrong: tuple[object, ...]) -> str:
        """Return a sentence on what is wrong."""
        raise NotImplementedError


# -- the controller


class ElectedInAssignmentOrder(StateCondition):
    """A leader that replaces one that left the ISR is the first of the assigned replicas in it.

    With the order of the ISR all leaders end up on one broker after a rolling restart.
    """

    name = "a leader is elected in the order of the assignment"
    kinds = frozenset({"leader elected", "leader moved"})

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        if version.rules.offline_order is Order.ISR:
            return "KAFKA-1503"
        return "KAFKA-3670" if version.rules.shutdown_order is Order.ISR else ""

    def on_change(self, event: Event, partition: TopicPartition, before: EventState, after: EventState) -> None:
        assignment = self.scene.assignment(partition)
        number = broker_of(event.who, "controller")
        controller = None if number is None else self.scene.cluster.brokers.get(number)
        if assignment is None or controller is None or before.leader in after.isr:
            return
        context = controller.controller.context
        in_sync = [one for one in assignment.replicas if one in after.isr and context.is_online(one, partition)]
        first = in_sync[0] if in_sync and after.leader not in (NO_LEADER, before.leader) else after.leader
        if first != after.leader:
            self.violate(
                f"{partition} elected {after.leader}, the first of {list(assignment.replicas)} in sync is {first}"
            )


class DeadLeaveAtFailover(Condition):
    """A new controller removes the brokers that are not registered from the ISRs of live leaders.

    What a leader adds to an ISR after the election is left out: see `LiveJoin`.
    """

    name = "a failover removes dead brokers from ISRs"
    kinds = frozenset({"elected", "ISR expanded", "ready"})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._expanded: dict[str, None] = {}  # partitions whose ISR has grown since the election

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.rules.failover_trims_dead else "KAFKA-3143"

    def on_event(self, event: Event) -> None:
        if event.what == "elected":
            self._expanded = {}
        elif event.what == "ISR expanded":
            self._expanded[event.subject] = None
        else:
            self._check(event)

    def _check(self, event: Event) -> None:
        number = broker_of(event.who, "controller")
        assert number is not None, "controllers are ready"
        context = self.scene.cluster.brokers[number].controller.context
        for partition, state in self.scene.znodes.states.items():
            if state.leader not in context.brokers or partition.topic in self.scene.deleting:
                continue
            if str(partition) in self._expanded:
                continue
            dead = [broker for broker in state.isr if broker not in context.brokers]
            if dead:
                self.violate(f"{event.who} is ready and leaves {dead} in the ISR {list(state.isr)} of {partition}")
                return


class ReassignmentWaits(Condition):
    """A reassignment waits for a target that is dead."""

    name = "a reassignment waits for dead brokers"
    kinds = frozenset({"refused"})

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.controller.reassigns_to_dead_brokers else "KAFKA-4214"

    def on_event(self, event: Event) -> None:
        if event.who.startswith("controller ") and "BROKER_NOT_AVAILABLE" in event.after:
            self.violate(f"{event.who} refuses {event.subject}: {event.after}")


class FailuresHandled(LastingCondition):
    """A leader without registration is replaced if the ISR has another live member, and the controller works."""

    name = "a controller replaces dead leaders"
    lasts_us = 15 * _SECOND_US

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "KAFKA-7576" if version.controller.waits_for_removed_brokers else ""

    def wrong(self) -> Iterator[tuple[object, ...]]:
        scene, live = self.scene, frozenset(self.scene.cluster.live_brokers)
        dead = [one for one in scene.gone_us if one not in live]
        if not dead or scene.controller() is None:
            return
        for partition, state in scene.znodes.states.items():
            if state.leader in dead and not live.isdisjoint(state.isr) and partition.topic not in scene.deleting:
                yield partition, state.leader, scene.elected_us

    def describe(self, wrong: tuple[object, ...]) -> str:
        partition, leader, _ = wrong
        return f"{partition} is led by {leader}, which is not registered,"


class RestartsLeadAnew(LastingCondition):
    """A leader whose registration was gone, and could be replaced, does not lead on in its leader epoch."""

    name = "a broker that was gone does not lead on in its leader epoch"
    kinds = frozenset({"registration gone"})
    lasts_us = 10 * _SECOND_US

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._led: dict[TopicPartition, tuple[int, int, int]] = {}

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.client.has_broker_epochs else "KAFKA-7235"

    def on_event(self, event: Event) -> None:
        leader, live = broker_of(event.who), frozenset(self.scene.cluster.live_brokers)
        for partition, state in self.scene.znodes.states.items():
            if state.leader == leader and not live.isdisjoint(state.isr):
                self._led[partition] = leader, state.leader_epoch, event.at_us

    def wrong(self) -> Iterator[tuple[object, ...]]:
        live = self.scene.cluster.live_brokers if self._led else ()
        for partition, (leader, epoch, gone_us) in list(self._led.items()):
            state = self.scene.state(partition)
            if state is None or (state.leader, state.leader_epoch) != (leader, epoch):
                del self._led[partition]
            elif leader in live and self.scene.elected_us < gone_us and self.scene.working_controller() is not None:
                yield partition, leader, epoch, gone_us

    def describe(self, wrong: tuple[object, ...]) -> str:
        partition, leader, epoch, _ = wrong
        return f"broker {leader} registers again and leads {partition} on in leader epoch {epoch}"


class StoppedTold(LastingCondition):
    """A broker that comes back from a controlled shutdown is told of its partitions."""

    name = "a broker that comes back is told of its partitions"
    lasts_us = 20 * _SECOND_US

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.client.has_broker_epochs else "KAFKA-1120"

    def wrong(self) -> Iterator[tuple[object, ...]]:
        scene = self.scene
        back = [
            broker
            for broker in scene.running
            if broker.registered and not broker.replicas.replicas and scene.ends.get(broker.id) == "stopped"
        ]
        if not back or scene.working_controller() is None:
            return
        for broker in back:
            for partition, state in scene.znodes.states.items():
                assignment = scene.assignment(partition)
                if state.leader != NO_LEADER and assignment is not None and broker.id in assignment.replicas:
                    yield broker.id, scene.registered_us.get(broker.id), scene.elected_us
                    break

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, _, _ = wrong
        return f"broker {broker} is back from a controlled shutdown and knows none of its partitions"


class EpochOfOneController(LastingCondition):
    """A controller that is not in `/controller` does not have the epoch of the one that is."""

    name = "a former controller does not adopt the next controller epoch"
    lasts_us = 0
    needs_calm = False

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "KAFKA-1096" if version.controller.adopts_epochs else ""

    def wrong(self) -> Iterator[tuple[object, ...]]:
        brokers = self.scene.cluster.brokers.values()
        with_term = [one for one in brokers if one.alive and one.controller.context.has_term]
        controller = self.scene.cluster.controller if len(with_term) > 1 else None
        present = next((one.controller.context.epoch for one in with_term if one.id == controller), None)
        for one in with_term if present is not None else ():
            if one.id != controller and one.controller.context.epoch == present:
                yield one.id, present

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, epoch = wrong
        return f"broker {broker} is not in {paths.CONTROLLER} and has its controller epoch {epoch}"


class DeletionsEnd(LastingCondition):
    """A topic whose deletion was requested is deleted if all its brokers run and none of its partitions is moved."""

    name = "a requested deletion of a topic ends"
    lasts_us = 30 * _SECOND_US

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        if not version.controller.drops_disabled_deletions:
            return "KAFKA-3175"
        return "" if version.controller.reverts_partitions_of_deleted else "KAFKA-6650"

    def wrong(self) -> Iterator[tuple[object, ...]]:
        scene = self.scene
        if not scene.deleting or (controller := scene.working_controller()) is None:
            return
        running = {broker.id for broker in scene.running if broker.registered and not broker.stopping}
        failed = controller.controller.context.on_failed_dirs
        for topic in scene.deleting:
            assignments = scene.znodes.assignments(topic).values()
            brokers = {broker for one in assignments for broker in one.replicas}
            is_moved = any(one.being_reassigned for one in assignments) or topic in scene.znodes.halted
            is_requested = scene.znodes.server.tree.get(paths.delete_topic(topic)) is not None
            if is_requested and brokers <= running and not is_moved and brokers.isdisjoint(failed):
                yield topic, scene.elected_us

    def describe(self, wrong: tuple[object, ...]) -> str:
        topic, _ = wrong
        return f"the deletion of {topic} is requested and does not end"


class NoneGrowWhileDeleted(LastingCondition):
    """A partition that is added to a topic during its deletion is taken out of the topic's znode again."""

    name = "partitions that are added during a deletion are removed"
    kinds = frozenset({"partition added"})
    lasts_us = 2 * _SECOND_US

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._added: dict[TopicPartition, None] = {}

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.controller.reverts_partitions_of_deleted else "KAFKA-6612"

    def on_event(self, event: Event) -> None:
        partition = _partition_of(event.subject)
        if partition is not None and partition.topic in self.scene.deleting:
            self._added[partition] = None

    def wrong(self) -> Iterator[tuple[object, ...]]:
        self._added = {one: None for one in self._added if one.topic in self.scene.deleting}
        if self._added and self.scene.working_controller() is not None:
            for partition in self._added:
                if self.scene.assignment(partition) is not None:
                    yield partition, self.scene.elected_us

    def describe(self, wrong: tuple[object, ...]) -> str:
        partition, _ = wrong
        return f"{partition} was added during the deletion of its topic and stays"


class RebalanceGoesOn(LastingCondition):
    """The automatic rebalance elects preferred leaders also while other partitions are reassigned."""

    name = "leaders are rebalanced during reassignments"
    needs_calm = False

    @property
    def lasts_us(self) -> int:
        """Two intervals of the check."""
        config = next(iter(self.scene.cluster.brokers.values())).config
        return 2 * config.integer("leader.imbalance.check.interval.seconds") * _SECOND_US

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.controller.rebalances_during_reassignment else "KAFKA-10149"

    def wrong(self) -> Iterator[tuple[object, ...]]:
        scene = self.scene
        broker = scene.controller()
        if broker is None or not (moving := broker.controller.context.being_reassigned):
            return
        if not broker.config.boolean("auto.leader.rebalance.enable"):
            return
        for partition, state in scene.znodes.states.items():
            assignment = scene.assignment(partition)
            if assignment is None or partition in moving or state.leader == NO_LEADER:
                continue
            preferred = assignment.replicas[0]
            if preferred != state.leader and preferred in state.isr:
                yield partition, scene.elected_us

    def describe(self, wrong: tuple[object, ...]) -> str:
        partition, _ = wrong
        return f"the preferred leader of {partition} is in sync and does not lead"


# -- what brokers are told


class DeadLeaveCaches(LastingCondition):
    """A broker that is not registered leaves the metadata caches."""

    name = "dead brokers leave the metadata caches"
    lasts_us = 10 * _SECOND_US

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        if not version.broker.cache_drops_dead_brokers:
            return "KAFKA-1549"
        return "KAFKA-7576" if version.controller.waits_for_removed_brokers else ""

    def wrong(self) -> Iterator[tuple[object, ...]]:
        scene = self.scene
        live = scene.cluster.live_brokers if scene.gone_us else ()
        gone = [one for one in scene.gone_us if one not in live]
        if not gone or scene.working_controller() is None:
            return
        for broker in scene.running:
            for one in gone if broker.registered and broker.id in live else ():
                if one in broker.metadata.live_brokers:
                    yield broker.id, one, scene.elected_us

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, dead, _ = wrong
        return f"the cache of broker {broker} has broker {dead}, which is not registered,"


class StoppingLeadersTold(LastingCondition):
    """A broker in controlled shutdown is told that another one leads, once it has left the ISR by that.

    Other changes of leaders meanwhile, such as the election of a preferred one, keep it in the ISR.
    """

    name = "a broker that shuts down is told of the leaders after it"
    lasts_us = _SECOND_US

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.controller.informs_stopping_leaders else "KAFKA-7482"

    def wrong(self) -> Iterator[tuple[object, ...]]:
        scene = self.scene
        live = scene.cluster.live_brokers
        stopping = [broker for broker in scene.running if broker.stopping and broker.id in live]
        if not stopping or scene.working_controller() is None:
            return
        for broker in stopping:
            for partition, replica in broker.replicas.replicas.items():
                state = scene.state(partition)
                if (
                    replica.state.leader == broker.id
                    and state is not None
                    and state.leader not in (NO_LEADER, broker.id)
                    and broker.id not in state.isr
                ):
                    yield broker.id, partition, state.leader

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, partition, leader = wrong
        return f"broker {broker} shuts down and leads {partition} on, whose leader is {leader},"


class EpochsReachCaches(LastingCondition):
    """The leader epoch of a partition that is being reassigned reaches a metadata cache."""

    name = "leader epochs of reassignments reach the metadata caches"
    lasts_us = 5 * _SECOND_US

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.controller.caches_raised_epochs else "KAFKA-9212"

    def wrong(self) -> Iterator[tuple[object, ...]]:
        scene = self.scene
        controller = scene.cluster.controller
        found = None if controller is None else scene.cluster.brokers.get(controller)
        moving = () if found is None else found.controller.context.being_reassigned
        if not moving or scene.working_controller() is None:
            return
        caches = [one.metadata for one in scene.running if one.registered]
        for partition in moving:
            state = scene.state(partition)
            known = [cache.partitions.get(partition) for cache in caches]
            if (
                state is not None
                and known
                and all(one is not None and one.leader_epoch < state.leader_epoch for one in known)
            ):
                yield partition, state.leader_epoch

    def describe(self, wrong: tuple[object, ...]) -> str:
        partition, epoch = wrong
        return f"no metadata cache has leader epoch {epoch} of {partition}"


class NoStrayReplicas(LastingCondition):
    """A broker follows no partition that is not assigned to it, when no reassignment is in progress.

    A controller that ends a reassignment sends StopReplica. Its successor does not, in any release, nor does it itself
    to a broker that registers again: what is left over then stays.
    """

    name = "a broker follows only partitions that are assigned to it"
    kinds = frozenset({"elected", "registered"})
    lasts_us = 30 * _SECOND_US

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._left_over: dict[tuple[object, ...], None] = {}

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.broker.stop_epochs == "not lower" else "KAFKA-13972"

    def on_event(self, event: Event) -> None:
        """Note what nobody will stop any more."""
        registered = broker_of(event.who)
        self._left_over.update((one, None) for one in self._strays() if registered in (None, one[0]))

    def wrong(self) -> Iterator[tuple[object, ...]]:
        strays = list(self._strays())
        self._left_over = {one: None for one in self._left_over if one in strays}
        return iter([one for one in strays if one not in self._left_over])

    def _strays(self) -> Iterator[tuple[object, ...]]:
        for broker in self.scene.cluster.brokers.values():
            for partition, replica in broker.replicas.replicas.items() if broker.alive else ():
                assignment = self.scene.assignment(partition)
                if assignment is None or assignment.being_reassigned or broker.id in assignment.replicas:
                    continue
                if replica.state.leader != NO_LEADER:
                    yield broker.id, partition

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, partition = wrong
        return f"broker {broker} follows {partition}, which is not assigned to it,"


# -- ISRs


class IdleFollowersStay(StateCondition):
    """A leader does not remove a follower from the ISR that has its whole log."""

    name = "a follower with the whole log stays in the ISR"
    kinds = frozenset({"ISR shrunk"})

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.broker.keeps_idle_followers_in_sync else "KAFKA-7152"

    def on_change(self, event: Event, partition: TopicPartition, before: EventState, after: EventState) -> None:
        leader = self.scene.cluster.brokers.get(after.leader)
        if leader is None or not leader.alive or before.leader_epoch != after.leader_epoch:  # by the controller
            return
        replica = leader.replicas.replicas.get(partition)
        if replica is None or (replica.state.leader, replica.state.leader_epoch) != (leader.id, after.leader_epoch):
            return
        # One that has caught up since the leader proposed its removal has done so lately, unless the proposal waited.
        if not self.issue and not self.scene.writes_at_once(self.scene.now_us):
            return
        long_ago_us = self.scene.now_us - 1000 * leader.config.integer("replica.lag.time.max.ms")
        for broker in before.isr:
            progress = replica.followers.get(broker) if broker not in after.isr else None
            if progress is not None and progress.log_end >= replica.log_end and progress.caught_up_us <= long_ago_us:
                self.violate(
                    f"broker {leader.id} removes {broker} from the ISR of {partition}, which has its whole log"
                )


class LiveJoin(StateCondition):
    """A broker that joins an ISR is registered and does not shut down, as the controller knows it."""

    name = "a broker that joins an ISR is registered and stays"
    kinds = frozenset({"ISR expanded"})

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        if not version.broker.fetches_have_leader_epochs:
            return "KAFKA-7395"
        if not version.broker.fetch_sessions_keep_leader_epochs:
            return "KAFKA-9338"
        return "" if version.controller.validates_isr_changes else "KAFKA-14140"

    def on_change(self, event: Event, partition: TopicPartition, before: EventState, after: EventState) -> None:
        cluster = self.scene.cluster
        controller = cluster.brokers.get(-1 if cluster.controller is None else cluster.controller)
        if controller is None or not controller.controller.is_active:
            return
        live = cluster.live_brokers
        for one in after.isr:
            broker = None if one in before.isr else cluster.brokers.get(one)
            is_leaving = broker is not None and (one not in live or (broker.alive and broker.stopping))
            if is_leaving and not controller.controller.context.is_live(one):
                self.violate(f"{one} joins the ISR of {partition}, and is not registered or shuts down")


class JoinedHaveCommitted(StateCondition):
    """A follower that joins an ISR has all records that its leader has committed."""

    name = "a follower joins an ISR with all committed records"
    kinds = frozenset({"ISR expanded"})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._issue = ""

    @property
    def issue(self) -> str:
        """The bug of the violation that is reported next."""
        return self._issue

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        if version.broker.counts_diverging_fetches:
            return "KAFKA-13141"
        return "" if version.broker.isr_waits_for_epoch_start else "KAFKA-7128"

    def on_change(self, event: Event, partition: TopicPartition, before: EventState, after: EventState) -> None:
        brokers = self.scene.cluster.brokers
        leader = brokers[after.leader].log_of(partition) if after.leader in brokers else None
        for broker in after.isr:
            log = None if broker in before.isr or broker not in brokers else brokers[broker].log_of(partition)
            if leader is None or log is None or log.end >= leader.high_watermark:
                continue
            # An empty disk joins by a fetch from before it was lost, in every release.
            was_lost = self.scene.cluster.record_ledger.has_crashed(partition, broker)
            self._issue = "KAFKA-14139" if was_lost else self.scene.issue(self.issue_of)
            has = f"records up to {log.end}, committed are {leader.high_watermark}"
            self.violate(f"{broker} joins the ISR of {partition} with {has}")


class StrangersLeave(LastingCondition):
    """A leader removes a member from the ISR that it knows no replica of."""

    name = "a member of an ISR that is no replica leaves it"
    lasts_us = 20 * _SECOND_US
    needs_calm = False

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "KAFKA-9672" if version.broker.check_ends_at_strangers else ""

    def wrong(self) -> Iterator[tuple[object, ...]]:
        for broker, replica in self.scene.leaders():
            if not set(replica.state.isr) <= {*replica.replicas} and broker.replicas.leads(replica.partition):
                yield broker.id, replica.partition, replica.state.leader_epoch

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, partition, _ = wrong
        return f"broker {broker} keeps a member in the ISR of {partition} that it knows no replica of"


class ProposalsPending(LastingCondition):
    """A leader that waits for the result of a proposed ISR has sent the proposal, or will."""

    name = "a leader waits only for proposals that are pending"
    kinds = frozenset({REFUSED})
    lasts_us = 2 * _SECOND_US
    needs_calm = False

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "KAFKA-12686" if version.broker.withdraws_isr_proposals else ""

    def on_event(self, event: Event) -> None:
        """Forget a partition whose leader gets a result."""
        partition = _partition_of(event.subject)
        self._since_us = {wrong: since_us for wrong, since_us in self._since_us.items() if wrong[1] != partition}

    def wrong(self) -> Iterator[tuple[object, ...]]:
        for broker, replica in self.scene.leaders():
            if replica.proposed is None or broker.proposals.is_pending(replica.partition):
                continue
            state, known = self.scene.state(replica.partition), replica.state
            # With another version it was written, and the reply lost.
            if state is not None and (state.leader_epoch, state.version) == (known.leader_epoch, known.version):
                yield broker.id, replica.partition, known.leader_epoch, replica.proposed

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, partition, _, isr = wrong
        return f"broker {broker} waits for the result of isr {isr} of {partition}, which is not pending,"


# -- records


class WatermarkRises(LastingCondition):
    """The high watermark rises when all that count have the records."""

    name = "the high watermark rises when the ISR has the records"
    kinds = frozenset({"records appended", "ISR shrunk", "ISR expanded"})
    lasts_us = _SECOND_US
    needs_calm = False

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._looked_us: dict[str, int] = {}  # when a leader had to look at the high watermark last, by partition

    def on_event(self, event: Event) -> None:
        """Note that a leader looks at a high watermark."""
        self._looked_us[event.subject] = event.at_us

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return (
            ""
            if not version.broker.uses_alter_isr or version.broker.raises_watermark_after_alter_isr
            else "KAFKA-13091"
        )

    def wrong(self) -> Iterator[tuple[object, ...]]:
        for broker, replica in self.scene.leaders():
            watermark = replica.high_watermark
            if watermark == replica.log_end or not broker.replicas.leads(replica.partition):
                continue
            if broker.version.broker.high_watermark_needs_min_isr and is_under_min_isr(broker, replica):
                continue
            if self._common_end(broker, replica) > watermark:
                yield broker.id, replica.partition, watermark

    def _common_end(self, leader: Broker, replica: Replica) -> int:
        """Return the least log end offset of an ISR, and of followers that had caught up lately.

        A leader looks only at appends, fetches and changes of the ISR whether one has done so.
        """
        members = {*replica.state.isr, *(replica.proposed or ())}
        lag_us = leader.config.integer("replica.lag.time.max.ms") * 1000
        since_us = max(NEVER_US + 1, self._looked_us.get(str(replica.partition), NEVER_US) - lag_us)
        counted = [
            progress.log_end
            for broker, progress in replica.followers.items()
            if broker in members or progress.caught_up_us >= since_us
        ]
        return min([replica.log_end, *counted])

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, partition, watermark = wrong
        return f"the high watermark of {partition} at broker {broker} stays {watermark}, although the ISR has more,"


class CommittedByEnough(Condition):
    """The high watermark rises only while the ISR has `min.insync.replicas` members."""

    name = "the high watermark waits for min.insync.replicas"
    kinds = frozenset({"high watermark raised"})

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.broker.high_watermark_needs_min_isr else "KAFKA-15583"

    def on_event(self, event: Event) -> None:
        number, partition = broker_of(event.who), _partition_of(event.subject)
        assert number is not None, "brokers raise high watermarks"
        assert partition is not None, "a high watermark is of a partition"
        broker = self.scene.cluster.brokers[number]
        replica = broker.replicas.replicas.get(partition)
        if replica is None or replica.state.leader != number:
            return
        if is_under_min_isr(broker, replica):
            self.violate(f"{event.who} commits {partition} up to {event.after} with ISR {list(replica.state.isr)}")


class TruncationEnds(LastingCondition):
    """A follower that truncates its log comes to an end with it."""

    name = "a follower's truncation ends"
    lasts_us = 10 * _SECOND_US

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "" if version.broker.truncation_drops_empty_epochs else "KAFKA-10706"

    def wrong(self) -> Iterator[tuple[object, ...]]:
        scene = self.scene
        for broker, replica in scene.replicas():
            if not replica.truncates:
                continue
            entries, leader = replica.log.epochs.entries, scene.cluster.brokers.get(replica.state.leader)
            if not entries or entries[-1].start_offset != replica.log_end or leader is None:
                continue
            leads = leader.alive and not leader.paused and leader.replicas.leads(replica.partition)
            if leads and scene.is_connected(broker.id, leader.id):
                yield broker.id, replica.partition, replica.state.leader_epoch

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, partition, epoch = wrong
        return f"broker {broker} truncates {partition} in leader epoch {epoch}"


class SlowLeaderKeepsFollowers(StateCondition):
    """A leader with a slow disk does not take its live followers out of the ISR, to be lost itself then."""

    name = "a leader with a slow disk does not become the only one in sync"
    kinds = frozenset({"ISR shrunk", "ISR expanded", "leader lost"})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._left: dict[TopicPartition, None] = {}

    @staticmethod
    def issue_of(_version: KafkaVersion) -> str:
        return "KAFKA-8733"

    def on_change(self, event: Event, partition: TopicPartition, before: EventState, after: EventState) -> None:
        brokers = self.scene.cluster.brokers
        if event.what == "ISR shrunk" and before.leader_epoch == after.leader_epoch and len(after.isr) == 1:
            left = [brokers[one] for one in before.isr if one not in after.isr and one in brokers]
            leader = brokers.get(after.leader)
            if leader is not None and leader.disk.delay_us and any(one.alive and not one.paused for one in left):
                self._left[partition] = None
        elif event.what == "ISR expanded":
            self._left.pop(partition, None)
        elif event.what == "leader lost" and partition in self._left:
            assignment, live = self.scene.assignment(partition), self.scene.cluster.live_brokers
            if assignment is not None and not set(live).isdisjoint(assignment.replicas):
                self.violate(f"{partition} is lost with broker {before.leader}, which had a slow disk")


class LastReplicaKeepsRecords(Condition):
    """The last member of an ISR does not lead on without records that it has acknowledged."""

    name = "the last member of an ISR keeps acknowledged records"
    kinds = frozenset({"acknowledged records lost"})

    @staticmethod
    def issue_of(_version: KafkaVersion) -> str:
        return "KAFKA-15332"

    def on_event(self, event: Event) -> None:
        partition = _partition_of(event.subject)
        state = None if partition is None else self.scene.state(partition)
        if state is None or event.who != f"broker {state.leader}" or state.isr != (state.leader,):
            return
        if event.after in ("KIP-966", "min.insync.replicas crashes"):
            self.violate(f"{event.who} leads {event.subject} as the only one in sync without {event.before}")


def _defects_if(wanted: str, version: KafkaVersion) -> str:
    """Return the defects of a release if they are these."""
    return wanted if version.broker.record_defects == wanted else ""


class RecordsSurviveDefects(Condition):
    """Acknowledged records are not lost by the way in which replicas of a release truncate their logs, or join the ISR.

    A release without such a defect has no such loss: `RecordLedger` calls it unexplained.
    """

    name = "acknowledged records survive elections"
    kinds = frozenset({"acknowledged records lost"})

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return version.broker.record_defects

    def on_event(self, event: Event) -> None:
        if event.after and event.after == self.scene.issue(partial(_defects_if, event.after)):
            self.violate(f"{event.who} leads {event.subject} without {event.before}")


class TransactionsLoad(Condition):
    """A coordinator that leads a partition of transactions again loads them."""

    name = "a coordinator loads its transactions"
    kinds = frozenset({"cannot load transactions"})

    @staticmethod
    def issue_of(version: KafkaVersion) -> str:
        return "KAFKA-9307" if version.transactions.reads_count_to_unload else ""

    def on_event(self, event: Event) -> None:
        self.violate(f"{event.who} cannot load the transactions of {event.subject}")


class MarkersWritten(LastingCondition):
    """A transaction that was committed or aborted gets its markers, while coordinator and leader go on undisturbed."""

    name = "a prepared transaction gets its markers"
    lasts_us = 40 * _SECOND_US

    def wrong(self) -> Iterator[tuple[object, ...]]:
        for broker in self.scene.running:
            if "transactions" not in vars(broker):  # it was never asked for any
                continue
            for partition, epoch, (transactional_id, stored) in broker.transactions.without_markers():
                state = self.scene.state(partition)
                if state is None or (state.leader, state.leader_epoch) != (broker.id, epoch):
                    continue
                for lacking in stored.partitions:
                    if self._could_have_it(broker, lacking):
                        yield broker.id, epoch, transactional_id, stored.producer_id, stored.epoch, lacking

    def _could_have_it(self, coordinator: Broker, partition: TopicPartition) -> bool:
        """Return whether the coordinator reaches the leader of a partition, whose records are all committed."""
        scene, state = self.scene, self.scene.state(partition)
        known = coordinator.metadata.partitions.get(partition)
        leader = None if state is None else scene.cluster.brokers.get(state.leader)
        if state is None or leader is None or known is None or known.leader_epoch != state.leader_epoch:
            return False
        replica = leader.replicas.replicas.get(partition)
        if not leader.alive or leader.paused or replica is None or not leader.replicas.leads(partition):
            return False
        if replica.high_watermark < replica.log_end or is_under_min_isr(leader, replica):
            return False
        return leader is coordinator or scene.is_connected(coordinator.id, leader.id)

    def describe(self, wrong: tuple[object, ...]) -> str:
        broker, _, transactional_id, _, _, partition = wrong
        return f"broker {broker} writes no marker of {transactional_id} to {partition}"


CONDITIONS: tuple[type[Condition], ...] = (
    ElectedInAssignmentOrder,
    DeadLeaveAtFailover,
    ReassignmentWaits,
    FailuresHandled,
    RestartsLeadAnew,
    StoppedTold,
    EpochOfOneController,
    DeletionsEnd,
    NoneGrowWhileDeleted,
    RebalanceGoesOn,
    DeadLeaveCaches,
    StoppingLeadersTold,
    EpochsReachCaches,
    NoStrayReplicas,
    IdleFollowersStay,
    LiveJoin,
    JoinedHaveCommitted,
    StrangersLeave,
    ProposalsPending,
    WatermarkRises,
    CommittedByEnough,
    TruncationEnds,
    SlowLeaderKeepsFollowers,
    LastReplicaKeepsRecords,
    RecordsSurviveDefects,
    TransactionsLoad,
    MarkersWritten,
)
"""All conditions."""


class _Watch:
    """Calls the conditions at events, and samples them."""

    def __init__(self, scene: Scene, conditions: Sequence[Condition]) -> None:
        self._scene = scene
        self._by_kind: dict[str, list[Condition]] = {}
        for one in conditions:
            for kind in sorted(one.kinds):
                self._by_kind.setdefault(kind, []).append(one)
        lasting = [one for one in conditions if isinstance(one, LastingCondition)]
        # What lasts for long is sampled more rarely.
        self._often = [one for one in lasting if one.lasts_us <= _RARELY * SAMPLED_US]
        self._rarely = [one for one in lasting if one.lasts_us > _RARELY * SAMPLED_US]
        self._samples = 0
        self._next_us = 0

    def on_event(self, event: Event) -> None:
        """Check an event, and all conditions that last if a sample is due."""
        self._scene.note(event)
        for one in self._by_kind.get(event.what, ()):
            one.on_event(event)
        if event.at_us >= self._next_us:
            often = 1 + len(self._scene.znodes.states) // _OFTEN_MAX
            self._next_us = event.at_us + SAMPLED_US * often
            self._samples += 1
            for sampled in self._often if self._samples % _RARELY else (*self._often, *self._rarely):
                sampled.on_sample(event.at_us)


def conditions_of(scene: Scene) -> tuple[Condition, ...]:
    """Return the conditions of a cluster, which are checked at its events from now on."""
    conditions = tuple(kind(scene) for kind in CONDITIONS)
    assert len({one.name for one in conditions}) == len(conditions), "violations are counted by name"
    scene.cluster.history.observers.append(_Watch(scene, conditions).on_event)
    return conditions
