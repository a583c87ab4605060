"""Probes: rare situations that a run reached, counted, so that a swarm says what it has tested.

Rules of this module:
  - a probe is a name, the kinds of event at which it is looked for, and a function of such an event and of the scene
    before it; it changes nothing;
  - only runs with faults have probes.

To add one, write its function here and add it to `PROBES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.observation.observer import parse_state
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.simulation import Event


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
        duplicates: number of records that were appended again.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster: KafkaCluster = cluster
        self.moving: dict[str, None] = {}
        self.deleting: dict[str, None] = {}
        self.leaderless: dict[str, None] = {}
        self.elections: int = 0
        self.ended_while_pending: set[int] = set()
        self.duplicates: int = 0

    def note(self, event: Event) -> None:
        """Update the scene after an event."""
        note = _NOTES.get(event.what)
        if note is not None:
            note(self, event)

    def _note_reassignment(self, event: Event) -> None:
        self.moving[event.subject] = None

    def _note_reassigned(self, event: Event) -> None:
        self.moving.pop(event.subject, None)

    def _note_deletion(self, event: Event) -> None:
        self.deleting[event.subject] = None

    def _note_deleted(self, event: Event) -> None:
        self.deleting.pop(event.subject, None)
        for partition in [p for p in self.leaderless if p.rpartition("-")[0] == event.subject]:
            del self.leaderless[partition]

    def _note_leader_lost(self, event: Event) -> None:
        self.leaderless[event.subject] = None

    def _note_leader_elected(self, event: Event) -> None:
        self.leaderless.pop(event.subject, None)

    def _note_controller(self, event: Event) -> None:
        self.elections += 1

    def _note_append(self, event: Event) -> None:
        self.duplicates = self.cluster.record_ledger.duplicates

    def _note_end(self, event: Event) -> None:
        broker = self.broker_of(event)
        if broker is not None and self.has_pending_isr(broker):
            self.ended_while_pending.add(broker)

    def _note_registered(self, event: Event) -> None:
        broker = self.broker_of(event)
        if broker is not None:
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


_NOTES: Final[dict[str, Callable[[Scene, Event], None]]] = {
    "reassignment": Scene._note_reassignment,
    "reassignment by znode": Scene._note_reassignment,
    "reassigned": Scene._note_reassigned,
    "reassignment by znode: done": Scene._note_reassigned,
    "deletion requested": Scene._note_deletion,
    "topic deleted": Scene._note_deleted,
    "leader lost": Scene._note_leader_lost,
    "leader elected": Scene._note_leader_elected,
    "elected": Scene._note_controller,
    "records appended": Scene._note_append,
    "killed": Scene._note_end,
    "halted": Scene._note_end,
    "stopped": Scene._note_end,
    "registered": Scene._note_registered,
}
"""How the scene changes, by kind of event; most kinds do not change it."""


def _always(event: Event, scene: Scene) -> bool:
    return True


def _is_failover(event: Event, scene: Scene) -> bool:
    return scene.elections > 0


def _failover_during_reassignment(event: Event, scene: Scene) -> bool:
    return _is_failover(event, scene) and bool(scene.moving)


def _failover_during_deletion(event: Event, scene: Scene) -> bool:
    return _is_failover(event, scene) and bool(scene.deleting)


def _failover_without_leader(event: Event, scene: Scene) -> bool:
    return _is_failover(event, scene) and bool(scene.leaderless)


def _failover_cut_short(event: Event, scene: Scene) -> bool:
    return scene.is_failing_over


def _two_controllers(event: Event, scene: Scene) -> bool:
    return scene.active_controllers > 1


def _restarted_with_pending_isr(event: Event, scene: Scene) -> bool:
    return scene.broker_of(event) in scene.ended_while_pending


def _killed_during_shutdown(event: Event, scene: Scene) -> bool:
    broker = scene.broker_of(event)
    return broker is not None and scene.cluster.brokers[broker].stopping


def _bounced(event: Event, scene: Scene) -> bool:
    return scene.broker_of(event) in scene.cluster.live_brokers


def _leader_moved_during_reassignment(event: Event, scene: Scene) -> bool:
    return event.subject in scene.moving


def _last_isr_member_lost(event: Event, scene: Scene) -> bool:
    before = parse_state(event.before)
    return before is not None and len(before.isr) == 1


def _deleted_while_a_broker_is_down(event: Event, scene: Scene) -> bool:
    return not all(b.alive for b in scene.cluster.brokers.values())


def _all_brokers_gone(event: Event, scene: Scene) -> bool:
    return not scene.cluster.live_brokers


def _two_releases(event: Event, scene: Scene) -> bool:
    return len({broker.version.number for broker in scene.cluster.brokers.values() if broker.alive}) > 1


def _leader_ended_with_uncommitted_records(event: Event, scene: Scene) -> bool:
    number = scene.broker_of(event)
    broker = None if number is None else scene.cluster.brokers[number]
    if broker is None or not broker.alive:
        return False
    replicas = broker.replicas.replicas.items()
    return any(
        replica.log_end > replica.high_watermark and broker.replicas.leads(partition) for partition, replica in replicas
    )


def _replaced_while_a_producer_waits(event: Event, scene: Scene) -> bool:
    before = parse_state(event.before)
    leader = None if before is None else scene.cluster.brokers.get(before.leader)
    return leader is not None and leader.alive and leader.producing.has_waiting(_partition_of(event))


def _superseded_leader_appended(event: Event, scene: Scene) -> bool:
    number, partition = scene.broker_of(event), _partition_of(event)
    assert number is not None, "brokers append records"
    own = scene.cluster.brokers[number].replicas.replicas[partition].state.leader_epoch
    for other in scene.cluster.brokers.values():
        replica = other.replicas.replicas.get(partition) if other.alive else None
        if replica is not None and replica.state.leader == other.id and replica.state.leader_epoch > own:
            return True
    return False


def _batch_appended_again(event: Event, scene: Scene) -> bool:
    return scene.cluster.record_ledger.duplicates > scene.duplicates


def _partition_of(event: Event) -> TopicPartition:
    topic, _, number = event.subject.rpartition("-")
    return TopicPartition(topic, int(number))


class Probe(NamedTuple):
    """A situation: the kinds of event at which it is looked for, and whether it is reached at such an event."""

    kinds: tuple[str, ...]
    is_reached: Callable[[Event, Scene], bool]


PROBES: Final[dict[str, Probe]] = {
    "controller failed over during a reassignment": Probe(("elected",), _failover_during_reassignment),
    "controller failed over during a topic deletion": Probe(("elected",), _failover_during_deletion),
    "controller failed over while a partition had no leader": Probe(("elected",), _failover_without_leader),
    "controller lost its znode during its failover": Probe(("controller gone",), _failover_cut_short),
    "two brokers took themselves for the controller": Probe(("elected", "ready"), _two_controllers),
    "broker restarted while its ISR change was pending": Probe(("started",), _restarted_with_pending_isr),
    "broker was killed during its controlled shutdown": Probe(("killed",), _killed_during_shutdown),
    "broker started while it was still registered": Probe(("started",), _bounced),
    "leader moved during the partition's reassignment": Probe(("leader moved",), _leader_moved_during_reassignment),
    "last member of an ISR was lost": Probe(("leader lost",), _last_isr_member_lost),
    "ISR change was refused": Probe(("ISR change refused",), _always),
    "topic was deleted while a broker was down": Probe(("deletion requested",), _deleted_while_a_broker_is_down),
    "no broker was registered": Probe(("registration gone",), _all_brokers_gone),
    "brokers of two releases ran together": Probe(("registered",), _two_releases),
    "leader died between an append and the high watermark": Probe(
        ("killed", "halted", "power lost"), _leader_ended_with_uncommitted_records
    ),
    "leader was replaced while a producer waited for acks": Probe(("leader moved",), _replaced_while_a_producer_waits),
    "leader that was replaced appended records": Probe(("records appended",), _superseded_leader_appended),
    "batch that was sent again was appended twice": Probe(("records appended",), _batch_appended_again),
    "high watermark fell": Probe(("high watermark lowered",), _always),
    "acknowledged or read records were lost": Probe(("acknowledged records lost", "read records lost"), _always),
    "offset of a consumer was gone": Probe(("offset reset",), _always),
}
"""All probes by name."""
_BY_KIND: Final[dict[str, list[tuple[str, Probe]]]] = {}
for _name, _probe in PROBES.items():
    for _kind in _probe.kinds:
        _BY_KIND.setdefault(_kind, []).append((_name, _probe))


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
        for name, probe in _BY_KIND.get(event.what, ()):
            if probe.is_reached(event, self._scene):
                self.counts[name] = self.counts.get(name, 0) + 1
        self._scene.note(event)
