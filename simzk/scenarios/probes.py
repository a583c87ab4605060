"""Probes: rare situations that a run reached, counted, so that a swarm says what it has tested.

Rules of this module:
  - a probe is a name and a function of an event and of the scene at that event; it changes nothing;
  - only runs with faults have probes, because each looks at every event.

To add one, write its function here and add it to `PROBES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simzk.kafka.observation.observer import parse_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.simulation import Event

_ENDS = ("killed", "halted", "stopped")


class Scene:
    """Condition of the cluster after the events so far.

    Args:
        cluster: the running cluster.

    Attributes:
        moving: partitions whose reassignment is in progress.
        deleting: topics whose deletion was requested and is not complete.
        leaderless: partitions without a leader.
        epochs: number of controller elections.
        ended_while_pending: brokers that ended while ISR changes of theirs were pending.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster: KafkaCluster = cluster
        self.moving: dict[str, None] = {}
        self.deleting: dict[str, None] = {}
        self.leaderless: dict[str, None] = {}
        self.elections: int = 0
        self.ended_while_pending: set[int] = set()

    def note(self, event: Event) -> None:
        """Update the scene after an event."""
        match event.what:
            case "reassignment" | "reassignment by znode":
                self.moving[event.subject] = None
            case "reassigned":
                self.moving.pop(event.subject, None)
            case "reassignment by znode: done":
                self.moving.pop("", None)
            case "deletion requested":
                self.deleting[event.subject] = None
            case "topic deleted":
                self.deleting.pop(event.subject, None)
                for partition in [p for p in self.leaderless if p.rpartition("-")[0] == event.subject]:
                    del self.leaderless[partition]
            case "leader lost":
                self.leaderless[event.subject] = None
            case "leader elected":
                self.leaderless.pop(event.subject, None)
            case "elected":
                self.elections += 1
            case _:
                pass
        broker = self.broker_of(event)
        if broker is not None and event.what in _ENDS and self.has_pending_isr(broker):
            self.ended_while_pending.add(broker)
        elif broker is not None and event.what == "registered":
            self.ended_while_pending.discard(broker)

    def broker_of(self, event: Event) -> int | None:
        """Return the broker that an event is of; None for another component."""
        name, _, number = event.who.partition(" ")
        return int(number) if name == "broker" and number.isdecimal() else None

    def has_pending_isr(self, broker: int) -> bool:
        """Return whether a broker waits for the result of an ISR that it proposed."""
        replicas = self.cluster.brokers[broker].replicas.replicas
        return any(replica.proposed is not None for replica in replicas.values())

    @property
    def is_failing_over(self) -> bool:
        """Whether a controller was elected and has not finished its failover."""
        return any(broker.alive and broker.controller.is_failing_over for broker in self.cluster.brokers.values())

    @property
    def active_controllers(self) -> int:
        """The number of running brokers that take themselves for the controller."""
        return sum(broker.alive and broker.controller.is_active for broker in self.cluster.brokers.values())


def _is_failover(event: Event, scene: Scene) -> bool:
    return event.what == "elected" and scene.elections > 0


def _failover_during_reassignment(event: Event, scene: Scene) -> bool:
    return _is_failover(event, scene) and bool(scene.moving)


def _failover_during_deletion(event: Event, scene: Scene) -> bool:
    return _is_failover(event, scene) and bool(scene.deleting)


def _failover_without_leader(event: Event, scene: Scene) -> bool:
    return _is_failover(event, scene) and bool(scene.leaderless)


def _failover_cut_short(event: Event, scene: Scene) -> bool:
    return event.what == "controller gone" and scene.is_failing_over


def _two_controllers(event: Event, scene: Scene) -> bool:
    return event.what in ("elected", "ready") and scene.active_controllers > 1


def _restarted_with_pending_isr(event: Event, scene: Scene) -> bool:
    return event.what == "started" and scene.broker_of(event) in scene.ended_while_pending


def _killed_during_shutdown(event: Event, scene: Scene) -> bool:
    broker = scene.broker_of(event)
    return event.what == "killed" and broker is not None and scene.cluster.brokers[broker].stopping


def _bounced(event: Event, scene: Scene) -> bool:
    return event.what == "started" and scene.broker_of(event) in scene.cluster.live_brokers


def _leader_moved_during_reassignment(event: Event, scene: Scene) -> bool:
    return event.what == "leader moved" and event.subject in scene.moving


def _last_isr_member_lost(event: Event, scene: Scene) -> bool:
    before = parse_state(event.before)
    return event.what == "leader lost" and before is not None and len(before.isr) == 1


def _isr_change_refused(event: Event, scene: Scene) -> bool:
    return event.what == "ISR change refused"


def _deleted_while_a_broker_is_down(event: Event, scene: Scene) -> bool:
    return event.what == "deletion requested" and not all(b.alive for b in scene.cluster.brokers.values())


def _all_brokers_gone(event: Event, scene: Scene) -> bool:
    return event.what == "registration gone" and not scene.cluster.live_brokers


def _two_releases(event: Event, scene: Scene) -> bool:
    if event.what != "registered":
        return False
    return len({broker.version.number for broker in scene.cluster.brokers.values() if broker.alive}) > 1


PROBES: Final[dict[str, Callable[[Event, Scene], bool]]] = {
    "controller failed over during a reassignment": _failover_during_reassignment,
    "controller failed over during a topic deletion": _failover_during_deletion,
    "controller failed over while a partition had no leader": _failover_without_leader,
    "controller lost its znode during its failover": _failover_cut_short,
    "two brokers took themselves for the controller": _two_controllers,
    "broker restarted while its ISR change was pending": _restarted_with_pending_isr,
    "broker was killed during its controlled shutdown": _killed_during_shutdown,
    "broker started while it was still registered": _bounced,
    "leader moved during the partition's reassignment": _leader_moved_during_reassignment,
    "last member of an ISR was lost": _last_isr_member_lost,
    "ISR change was refused": _isr_change_refused,
    "topic was deleted while a broker was down": _deleted_while_a_broker_is_down,
    "no broker was registered": _all_brokers_gone,
    "brokers of two releases ran together": _two_releases,
}
"""All probes by name."""


class Probes:
    """Count of the situations that a run reached.

    Args:
        cluster: the cluster; its events are counted from now on.

    Attributes:
        counts: how often each probe was reached, without those that were not.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.counts: dict[str, int] = {}
        self._scene = Scene(cluster)
        cluster.history.observers.append(self._observe)

    def _observe(self, event: Event) -> None:
        for name, is_reached in PROBES.items():
            if is_reached(event, self._scene):
                self.counts[name] = self.counts.get(name, 0) + 1
        self._scene.note(event)
