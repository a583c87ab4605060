"""Probes: rare situations that a run reached, counted, so that a swarm says what it has tested.

Rules of this module:
  - a probe is a name, the kinds of event at which it is looked for, and a function of such an event and of the scene
    before it; it changes nothing;
  - only runs with faults have probes.

To add one, write its function here and add it to `PROBES`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.observation.observer import parse_state
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.zookeeper_mode.controller.controller import KafkaController
    from simzk.simulation import Event


NOTED: Final = frozenset(
    {
        "reassignment",
        "reassignment by znode",
        "reassigned",
        "reassignment by znode: done",
        "deletion requested",
        "topic deleted",
        "leader lost",
        "leader elected",
        "elected",
        "records appended",
        "killed",
        "halted",
        "stopped",
        "registered",
    }
)
"""Kinds of event that change a scene."""


class Scene:
    """Condition of the cluster after the events so far.

    Attributes:
        moving: partitions whose reassignment is in progress.
        deleting: topics whose deletion was requested and is not complete.
        leaderless: partitions without a leader.
        elections: number of controller elections.
        ended_while_pending: brokers that ended while ISR changes of theirs were pending.
        duplicates: number of records that were appended again.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster: KafkaCluster = cluster
        self.moving: set[str] = set()
        self.deleting: set[str] = set()
        self.leaderless: set[str] = set()
        self.elections: int = 0
        self.ended_while_pending: set[int] = set()
        self.duplicates: int = 0

    def note(self, event: Event) -> None:
        """Update the scene after an event of a kind in `NOTED`; the other kinds do not change it."""
        match event.what:
            case "reassignment" | "reassignment by znode":
                self.moving.add(event.subject)
            case "reassigned" | "reassignment by znode: done":
                self.moving.discard(event.subject)
            case "deletion requested":
                self.deleting.add(event.subject)
            case "topic deleted":
                self.deleting.discard(event.subject)
                self.leaderless = {p for p in self.leaderless if p.rpartition("-")[0] != event.subject}
            case "leader lost":
                self.leaderless.add(event.subject)
            case "leader elected":
                self.leaderless.discard(event.subject)
            case "elected":
                self.elections += 1
            case "records appended":
                self.duplicates = self.cluster.record_ledger.duplicates
            case "killed" | "halted" | "stopped":
                broker = self.broker_of(event)
                if broker is not None:
                    replicas = self.cluster.brokers[broker].replicas.replicas.values()
                    if any(replica.proposed is not None for replica in replicas):
                        self.ended_while_pending.add(broker)
            case "registered":
                broker = self.broker_of(event)
                if broker is not None:
                    self.ended_while_pending.discard(broker)
            case kind:
                assert kind not in NOTED, f"a scene does nothing for {kind!r}"

    def broker_of(self, event: Event) -> int | None:
        """Return the broker that an event is of; None for another component."""
        name, _, number = event.who.partition(" ")
        return int(number) if name == "broker" and number.isdecimal() else None

    @property
    def controllers(self) -> Iterator[KafkaController]:
        """The controllers of the brokers that run, active or not."""
        return (broker.controller for broker in self.cluster.brokers.values() if broker.alive)


def _killed_during_shutdown(event: Event, scene: Scene) -> bool:
    broker = scene.broker_of(event)
    return broker is not None and scene.cluster.brokers[broker].stopping


def _last_isr_member_lost(event: Event, scene: Scene) -> bool:
    before = parse_state(event.before)
    return before is not None and len(before.isr) == 1


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


def _partition_of(event: Event) -> TopicPartition:
    topic, _, number = event.subject.rpartition("-")
    return TopicPartition(topic, int(number))


class Probe(NamedTuple):
    """A situation: the kinds of event at which it is looked for, and whether it is reached at such an event."""

    kinds: tuple[str, ...]
    is_reached: Callable[[Event, Scene], bool] = lambda _event, _scene: True


PROBES: Final[dict[str, Probe]] = {
    "controller failed over during a reassignment": Probe(
        ("elected",), lambda _, scene: scene.elections > 0 and bool(scene.moving)
    ),
    "controller failed over during a topic deletion": Probe(
        ("elected",), lambda _, scene: scene.elections > 0 and bool(scene.deleting)
    ),
    "controller failed over while a partition had no leader": Probe(
        ("elected",), lambda _, scene: scene.elections > 0 and bool(scene.leaderless)
    ),
    "controller lost its znode during its failover": Probe(
        ("controller gone",), lambda _, scene: any(one.is_failing_over for one in scene.controllers)
    ),
    "two brokers took themselves for the controller": Probe(
        ("elected", "ready"), lambda _, scene: sum(one.is_active for one in scene.controllers) > 1
    ),
    "broker restarted while its ISR change was pending": Probe(
        ("started",), lambda event, scene: scene.broker_of(event) in scene.ended_while_pending
    ),
    "broker was killed during its controlled shutdown": Probe(("killed",), _killed_during_shutdown),
    "broker started while it was still registered": Probe(
        ("started",), lambda event, scene: scene.broker_of(event) in scene.cluster.live_brokers
    ),
    "leader moved during the partition's reassignment": Probe(
        ("leader moved",), lambda event, scene: event.subject in scene.moving
    ),
    "last member of an ISR was lost": Probe(("leader lost",), _last_isr_member_lost),
    "ISR change was refused": Probe(("ISR change refused",)),
    "topic was deleted while a broker was down": Probe(
        ("deletion requested",), lambda _, scene: not all(b.alive for b in scene.cluster.brokers.values())
    ),
    "no broker was registered": Probe(("registration gone",), lambda _, scene: not scene.cluster.live_brokers),
    "brokers of two releases ran together": Probe(
        ("registered",),
        lambda _, scene: len({b.version.number for b in scene.cluster.brokers.values() if b.alive}) > 1,
    ),
    "leader died between an append and the high watermark": Probe(
        ("killed", "halted", "power lost"), _leader_ended_with_uncommitted_records
    ),
    "leader was replaced while a producer waited for acks": Probe(("leader moved",), _replaced_while_a_producer_waits),
    "leader that was replaced appended records": Probe(("records appended",), _superseded_leader_appended),
    "batch that was sent again was appended twice": Probe(
        ("records appended",), lambda _, scene: scene.cluster.record_ledger.duplicates > scene.duplicates
    ),
    "high watermark fell": Probe(("high watermark lowered",)),
    "acknowledged or read records were lost": Probe(("acknowledged records lost", "read records lost")),
    "offset of a consumer was gone": Probe(("offset reset",)),
}
"""All probes by name."""
_BY_KIND: Final[dict[str, list[tuple[str, Probe]]]] = {}
for _name, _probe in PROBES.items():
    for _kind in _probe.kinds:
        _BY_KIND.setdefault(_kind, []).append((_name, _probe))
_OBSERVED: Final = frozenset(_BY_KIND) | NOTED


class Probes:
    """Count of the situations that a run reaches from now on.

    Attributes:
        counts: how often each probe was reached, without those that were not.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.counts = Counter[str]()
        self._scene = Scene(cluster)
        cluster.history.observers.append(self._observe)

    def _observe(self, event: Event) -> None:
        if event.what not in _OBSERVED:  # nearly always
            return
        for name, probe in _BY_KIND.get(event.what, ()):
            if probe.is_reached(event, self._scene):
                self.counts[name] += 1
        self._scene.note(event)
