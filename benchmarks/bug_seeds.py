"""Seeds until a swarm that knows nothing of them shows known bugs of Kafka.

    python -m benchmarks.bug_seeds [--seeds N] [--control] [--json OUT] [KAFKA-ID...]

`scenarios/anything_breaks.toml`, or for bugs of records `scenarios/anything_breaks_records.toml`, is played with the
release of each bug and seeds 1, 2, ... Nothing in them aims at a bug: each seed draws its faults and its traffic. A
watcher of each bug looks for the bug's own symptom, which it knows from the bug's scenario
(tests/scenarios/test_bug_symptoms.py plays those). Bugs of one release share the runs. The result is the first seed
that shows the symptom, or none within the limit; it is the same on every machine. `--control` plays the
newest release without each bug instead: a symptom that is seen there has another cause as well.

Rules of this module:
  - a watcher changes nothing: it reads events, znodes and brokers;
  - a symptom is what the scenario of the bug expects, of any partition and broker;
  - a symptom that another cause may have as well (a cut link, a death) is looked for where the cause is excluded.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka import paths
from simzk.kafka.log.log import first_difference
from simzk.kafka.observation.observer import parse_state
from simzk.scenarios import view
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from simzk.simulation import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.broker.replica_logs import Replica
    from simzk.kafka.observation.observer import EventState
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.scenarios.view import PartitionView

SCENARIOS = Path(__file__).parents[1] / "scenarios"
SWARM, RECORDS = "anything_breaks", "anything_breaks_records"
SEEDS = 30
INTERVAL_US = 250_000
"""How often conditions are checked, in virtual time."""
LOGS_COMPARED_US = 40 * INTERVAL_US
"""How often whole logs are compared."""
AFTERWARDS_US = 45_000_000
"""How long a run is watched after its last step, for conditions that have to last."""


class Moment:
    """An event and the cluster at that event; the memory of conditions that have to last.

    Args:
        play: the run.
    """

    def __init__(self, play: Play) -> None:
        self.play = play
        self.cluster = play.cluster
        self.event = Event(0, "watcher", "begins")
        self.ends: dict[int, str] = {}
        self.gone_us: dict[int, int] = {}
        self.registered_us: dict[int, int] = {}
        self.elected_us = 0
        self.deleting: dict[str, None] = {}
        self.left_to_slow_disk: dict[str, None] = {}
        self.led_when_gone: dict[TopicPartition, tuple[int, int, int]] = {}
        self.added_while_deleted: dict[str, None] = {}
        self._partitions: tuple[int, list[PartitionView]] = -1, []
        self._since_us: dict[tuple[object, ...], int] = {}

    def note(self, event: Event) -> None:
        """Take over an event, after the cluster has changed."""
        self.event = event
        kind, _, number = event.who.partition(" ")
        if kind == "broker" and number.isdecimal():
            if event.what in ("killed", "stopped"):
                self.ends[int(number)] = event.what
            elif event.what == "registration gone":
                self.gone_us[int(number)] = event.at_us
                self._note_led(int(number))
            elif event.what == "registered":
                self.registered_us[int(number)] = event.at_us
        elif event.what in ("elected", "controller gone"):
            self.elected_us = event.at_us
        if event.what == "deletion requested":
            self.deleting[event.subject] = None
        elif event.what == "topic deleted":
            self.deleting.pop(event.subject, None)
        elif event.what == "partition added" and event.subject.rpartition("-")[0] in self.deleting:
            self.added_while_deleted[event.subject] = None

    def _note_led(self, leader: int) -> None:
        """Note the leader epochs of partitions whose leader is gone, and could be replaced."""
        live = self.cluster.live_brokers
        for one in self.partitions():
            if one.state is not None and one.state.leader == leader and any(broker in live for broker in one.state.isr):
                self.led_when_gone[one.partition] = leader, one.state.leader_epoch, self.event.at_us

    @property
    def before(self) -> EventState | None:
        """The partition's state before the event; None for another event."""
        return parse_state(self.event.before)

    @property
    def after(self) -> EventState | None:
        """The partition's state after the event; None for another event."""
        return parse_state(self.event.after)

    @property
    def running(self) -> list[Broker]:
        """The brokers whose processes run, and are not paused."""
        return [broker for broker in self.cluster.brokers.values() if broker.alive and not broker.paused]

    def partitions(self) -> list[PartitionView]:
        """Return all partitions, as ZooKeeper has them."""
        zxid = self.cluster.server.zxid
        if self._partitions[0] != zxid:
            self._partitions = zxid, view.partitions(self.cluster.tree)
        return self._partitions[1]

    def partition(self) -> PartitionView | None:
        """Return the partition of the event; None if there is none."""
        topic, _, number = self.event.subject.rpartition("-")
        if not topic or not number.isdecimal():
            return None
        return next((one for one in self.partitions() if str(one.partition) == self.event.subject), None)

    def lasts(self, seconds: float, conditions: Iterable[tuple[object, ...]], name: str) -> bool:
        """Return whether one of the conditions that hold now has held at each check for some seconds."""
        now_us = self.cluster.scheduler.now_us
        present = {(name, *condition): self._since_us.get((name, *condition), now_us) for condition in conditions}
        for known in [known for known in self._since_us if known[0] == name and known not in present]:
            del self._since_us[known]
        self._since_us.update(present)
        return any(now_us - since_us >= seconds * 1_000_000 for since_us in present.values())

    def is_connected(self, one: int, other: int) -> bool:
        """Return whether two brokers can reach each other without delay."""
        network = self.cluster.network
        ends = f"broker {one}", f"broker {other}"
        return network.is_clear(*ends) and network.is_clear(*reversed(ends))

    def works(self, broker: int) -> bool:
        """Return whether a broker runs and is connected to ZooKeeper."""
        found = self.cluster.brokers[broker]
        return found in self.running and found.session.connected and not self.cluster.zookeeper_host.is_stopped

    def replicas(self) -> Iterator[tuple[Broker, Replica]]:
        """Yield the replicas of running brokers."""
        for broker in self.running:
            for replica in list(broker.replicas.replicas.values()):
                yield broker, replica


# -- symptoms: what the scenarios of the bugs expect


def _elected_outside_isr(now: Moment) -> bool:
    """A leader from outside the ISR."""
    before, after = now.before, now.after
    return before is not None and after is not None and after.leader not in (-1, before.leader, *before.isr)


def _elected_in_isr_order(now: Moment) -> bool:
    """An elected leader that is not the first of the assignment among the ISR."""
    before, after, found = now.before, now.after, now.partition()
    if before is None or after is None or found is None or after.leader in (-1, before.leader):
        return False
    live = [broker for broker in found.assignment.replicas if broker in after.isr]
    return before.leader not in after.isr and bool(live) and live[0] != after.leader


def _own_write_refused(now: Moment) -> bool:
    """A leader whose ISR was written, and who does not take it for written."""
    found = now.partition() if now.event.what == "ISR change refused" else None
    return found is not None and found.state is not None and now.event.before == f"isr {list(found.state.isr)}"


def _dead_in_metadata(now: Moment) -> bool:
    """A broker that is not registered, and is in a metadata cache ten seconds later, under one working controller."""
    live, controller = now.cluster.live_brokers, now.cluster.controller
    if controller is None or not now.works(controller):
        return now.lasts(10, (), "dead in metadata")
    gone = [one for one in now.gone_us if one not in live]
    return now.lasts(
        10,
        (
            (broker.id, one, now.elected_us)
            for broker in now.running
            for one in gone
            if broker.registered and one in broker.metadata.live_brokers and now.is_connected(controller, broker.id)
        ),
        "dead in metadata",
    )


def _deletion_stays(now: Moment) -> bool:
    """A topic whose deletion was requested thirty seconds ago, while all its brokers run."""
    running = [broker.id for broker in now.running if broker.registered]
    held_back = {one.partition.topic for one in now.partitions() if not {*one.assignment.replicas} <= {*running}}
    controller = now.cluster.controller
    if controller is None or any(not now.is_connected(controller, broker) for broker in running):
        return now.lasts(30, (), "deletion")
    asked = [topic for topic in now.deleting if now.cluster.tree.get(paths.delete_topic(topic)) is not None]
    return now.lasts(30, ((topic,) for topic in asked if topic not in held_back), "deletion")


def _reassignment_dropped(now: Moment) -> bool:
    """A reassignment that the controller drops because a broker is dead."""
    return now.event.what == "refused" and "BROKER_NOT_AVAILABLE" in now.event.after


def _records_lost(now: Moment) -> bool:
    """Acknowledged records lost by a known defect of the release, without a crash or an unclean election."""
    defects = next(iter(now.cluster.brokers.values())).version.broker.record_defects
    return now.event.what == "acknowledged records lost" and bool(defects) and now.event.after == defects


def _records_differ(now: Moment) -> bool:
    """Two members of an ISR with different records below the leader's high watermark, looked at every ten seconds."""
    if now.cluster.scheduler.now_us % LOGS_COMPARED_US:
        return False
    for one in now.partitions():
        if one.state is None or one.state.leader not in one.state.isr:
            continue
        logs = [now.cluster.brokers[broker].log_of(one.partition) for broker in one.state.isr]
        leader = now.cluster.brokers[one.state.leader].log_of(one.partition)
        if leader is None:
            continue
        if any(log and first_difference(leader, log, leader.high_watermark) is not None for log in logs):
            return True
    return False


def _failure_waits(now: Moment) -> bool:
    """A leader without registration for fifteen seconds under one controller, which runs and has another candidate."""
    controller, live = now.cluster.controller, now.cluster.live_brokers
    if controller is None or controller not in live or now.cluster.brokers[controller].paused:
        return now.lasts(15, (), "failure waits")
    return now.lasts(
        15,
        (
            (one.partition, now.elected_us)
            for one in now.partitions()
            if one.state is not None
            and one.state.leader not in (-1, *live)
            and any(broker in live for broker in one.state.isr)
        ),
        "failure waits",
    )


def _not_told(now: Moment) -> bool:
    """A broker that came back from a controlled shutdown twenty seconds ago, and has not heard of its partitions."""
    controller = now.cluster.controller
    untold = []
    for broker in now.running if controller is not None else ():
        assert controller is not None
        if not broker.registered or broker.replicas.replicas or now.ends.get(broker.id) != "stopped":
            continue
        mine = [one for one in now.partitions() if broker.id in one.assignment.replicas and one.online]
        if mine and now.is_connected(controller, broker.id):
            untold.append((broker.id, now.registered_us.get(broker.id), now.elected_us))
    return now.lasts(20, untold, "not told")


def _failure_unnoticed(now: Moment) -> bool:
    """A leader whose registration was gone, and that leads in the same leader epoch ten seconds later.

    There is one controller all the time, and another member of the ISR could have been elected.
    """
    states = {one.partition: one.state for one in now.partitions()}
    return now.lasts(
        10,
        (
            (partition, leader, epoch, gone_us)
            for partition, (leader, epoch, gone_us) in now.led_when_gone.items()
            if (state := states.get(partition)) is not None
            and (state.leader, state.leader_epoch) == (leader, epoch)
            and leader in now.cluster.live_brokers
            and now.elected_us < gone_us
        ),
        "failure unnoticed",
    )


def _dead_after_failover(now: Moment) -> bool:
    """A failover that leaves a broker without registration in the ISR of a live leader."""
    live = now.cluster.live_brokers
    return now.event.what == "ready" and any(
        one.state is not None and one.state.leader in live and any(broker not in live for broker in one.state.isr)
        for one in now.partitions()
        if one.partition.topic not in now.deleting
    )


def _written_by_another(now: Moment) -> bool:
    """A write of a controller that is not in /controller any more, or a controller epoch that such a broker raises."""
    if any(violation.issue == "KAFKA-6082" for violation in now.play.known):
        return True
    controller = now.cluster.controller
    writes = ("topic deleted", "leader elected", "leader moved", "leader lost")
    return controller is not None and now.event.what in writes and now.event.who not in (f"controller {controller}", "")


def _epoch_of_another(now: Moment) -> bool:
    """A controller that is not in /controller, and has the epoch of the one that is."""
    controller = now.cluster.controller
    if controller is None:
        return False
    terms = {broker.id: broker.controller.context for broker in now.cluster.brokers.values() if broker.alive}
    own = terms.pop(controller, None)
    return own is not None and any(term.has_term and term.epoch == own.epoch for term in terms.values())


def _written_in_the_next_session(now: Moment) -> bool:
    """A state that a controller writes which is not in /controller any more."""
    return any(violation.issue == "KAFKA-3083" for violation in now.play.known)


def _handled_after_resignation(now: Moment) -> bool:
    """A request by znode that is handled, or /controller deleted, by a broker that is not in /controller."""
    return any(violation.issue == "KAFKA-4447" for violation in now.play.known)


def _loads_for_ever(now: Moment) -> bool:
    """A coordinator that cannot load transactions, because it could not unload those of an earlier leader epoch."""
    return now.event.what == "cannot load transactions"


def _stranger_stays(now: Moment) -> bool:
    """A member of an ISR that its leader knows no replica of, for twenty seconds."""
    found = [
        (str(replica.partition), replica.state.leader_epoch)
        for broker, replica in now.replicas()
        if broker.replicas.leads(replica.partition) and {*replica.state.isr} - {*replica.replicas}
    ]
    return now.lasts(20, found, "stranger")


def _grown_while_deleted(now: Moment) -> bool:
    """A partition that is added to a topic during its deletion, and stays in the topic's znode."""
    names = [str(one.partition) for one in now.partitions() if one.partition.topic in now.deleting]
    return now.lasts(2, ((name,) for name in names if name in now.added_while_deleted), "grown")


def _idle_follower_left(now: Moment) -> bool:
    """A leader that removes a live follower with the whole log from the ISR."""
    before, after, found = now.before, now.after, now.partition()
    if now.event.what != "ISR shrunk" or before is None or after is None or found is None:
        return False
    if before.leader_epoch != after.leader_epoch:  # by the controller
        return False
    leader = now.cluster.brokers[after.leader].log_of(found.partition)
    logs = [now.cluster.brokers[one].log_of(found.partition) for one in before.isr if one not in after.isr]
    return leader is not None and any(log is not None and log.end >= leader.end for log in logs)


def _stopping_leader_not_told(now: Moment) -> bool:
    """A broker in controlled shutdown that leads, a second after another was elected."""
    states = {one.partition: one.state for one in now.partitions()}
    controller = now.cluster.controller
    return now.lasts(
        1,
        (
            (broker.id, replica.partition)
            for broker, replica in now.replicas()
            if broker.stopping
            and replica.state.leader == broker.id
            and (found := states.get(replica.partition)) is not None
            and found.leader not in (-1, broker.id)
            and controller is not None
            and now.is_connected(controller, broker.id)
        ),
        "stopping leader",
    )


def _unregistered_joins(now: Moment) -> bool:
    """A broker that joins an ISR, and is not registered or in controlled shutdown."""
    before, after = now.before, now.after
    if now.event.what != "ISR expanded" or before is None or after is None:
        return False
    joined = [broker for broker in after.isr if broker not in before.isr]
    live, brokers = now.cluster.live_brokers, now.cluster.brokers
    return any(broker not in live or (brokers[broker].alive and brokers[broker].stopping) for broker in joined)


def _stale_epoch_in_metadata(now: Moment) -> bool:
    """A partition being reassigned whose leader epoch is outdated in all reachable metadata caches for five seconds."""
    controller = now.cluster.controller
    if controller is None:
        return now.lasts(5, (), "stale epoch")
    caches = [one.metadata for one in now.running if one.registered and now.is_connected(controller, one.id)]
    moving = now.cluster.brokers[controller].controller.context.being_reassigned
    return now.lasts(
        5,
        (
            (one.partition, one.state.leader_epoch)
            for one in now.partitions()
            if one.state is not None and one.partition in moving and caches
            if all(
                (known := cache.partitions.get(one.partition)) is not None
                and known.leader_epoch < one.state.leader_epoch
                for cache in caches
            )
        ),
        "stale epoch",
    )


def _rebalance_waits(now: Moment) -> bool:
    """A preferred leader that is in sync and does not lead for two check intervals, while another partition moves."""
    controller = now.cluster.controller
    if controller is None:
        return now.lasts(1, (), "rebalance")
    broker = now.cluster.brokers[controller]
    interval_s = broker.config.integer("leader.imbalance.check.interval.seconds")
    moving = broker.controller.context.being_reassigned
    return now.lasts(
        2 * interval_s,
        (
            (one.partition, now.elected_us)
            for one in now.partitions()
            if one.state is not None and moving and one.partition not in moving
            if one.assignment.replicas[0] in one.state.isr and one.online and not one.preferred
        ),
        "rebalance",
    )


def _truncates_for_ever(now: Moment) -> bool:
    """A follower that asks its leader where an epoch without records ends for ten seconds."""
    return now.lasts(
        10,
        (
            (broker.id, replica.partition, replica.state.leader_epoch)
            for broker, replica in now.replicas()
            if replica.truncates
            and (entries := replica.log.epochs.entries)
            and entries[-1].start_offset == replica.log_end
            and (leader := now.cluster.brokers.get(replica.state.leader)) is not None
            and leader in now.running
            and leader.replicas.leads(replica.partition)
            and now.is_connected(broker.id, leader.id)
        ),
        "truncates",
    )


def _proposal_lost(now: Moment) -> bool:
    """A leader that waits for the result of a proposed ISR that is not on its way."""
    return any(
        replica.proposed is not None and replica.partition not in getattr(broker.proposals, "_pending", {})
        for broker, replica in now.replicas()
        if broker.replicas.leads(replica.partition) and _was_accepted(now, broker, replica)
    )


def _was_accepted(now: Moment, broker: Broker, replica: Replica) -> bool:
    """Return whether a leader is the one in ZooKeeper, and its proposal was not refused at this event."""
    found = next((one.state for one in now.partitions() if one.partition == replica.partition), None)
    if found is None or (found.leader, found.leader_epoch) != (broker.id, replica.state.leader_epoch):
        return False
    return found.version == replica.state.version


def _watermark_waits(now: Moment) -> bool:
    """A leader whose high watermark could be higher for a second."""
    return now.lasts(
        1,
        (
            (broker.id, replica.partition, replica.high_watermark)
            for broker, replica in now.replicas()
            if broker.replicas.leads(replica.partition) and _common_end(now, broker, replica) > replica.high_watermark
        ),
        "watermark",
    )


def _common_end(now: Moment, leader: Broker, replica: Replica) -> int:
    """Return the least log end offset of an ISR, and of followers that have caught up lately."""
    members = dict.fromkeys((*replica.state.isr, *(replica.proposed or ())))
    lately_us = now.cluster.scheduler.now_us - leader.config.integer("replica.lag.time.max.ms") * 1000
    counted = [
        progress.log_end
        for broker, progress in replica.followers.items()
        if broker in members or progress.caught_up_us >= lately_us
    ]
    return min([replica.log_end, *counted])


def _stray_replica(now: Moment) -> bool:
    """A replica that its broker follows, and that no assignment names, for thirty seconds without a reassignment."""
    assigned = {one.partition: one.assignment for one in now.partitions()}
    return now.lasts(
        30,
        (
            (broker.id, replica.partition)
            for broker, replica in now.replicas()
            if (found := assigned.get(replica.partition)) is not None
            and broker.id not in found.replicas
            and not (found.adding or found.removing)
            and replica.state.leader >= 0
        ),
        "stray",
    )


def _joins_without_records(now: Moment) -> bool:
    """A follower that joins an ISR without records that its leader has committed."""
    before, after, found = now.before, now.after, now.partition()
    if now.event.what != "ISR expanded" or before is None or after is None or found is None:
        return False
    leader = now.cluster.brokers[after.leader].log_of(found.partition)
    logs = [now.cluster.brokers[one].log_of(found.partition) for one in after.isr if one not in before.isr]
    return leader is not None and any(log is not None and log.end < leader.high_watermark for log in logs)


def _committed_below_min_isr(now: Moment) -> bool:
    """A high watermark that rises while the ISR is smaller than min.insync.replicas."""
    if now.event.what != "high watermark raised":
        return False
    return any(
        str(replica.partition) == now.event.subject
        and f"broker {broker.id}" == now.event.who
        and broker.replicas.leads(replica.partition)
        and len(replica.state.isr) < broker.topic_configs.min_isr(replica.partition.topic)
        for broker, replica in now.replicas()
    )


def _lost_by_slow_leader(now: Moment) -> bool:
    """A partition without a leader, because a leader with a slow disk has removed its live followers from the ISR."""
    before, after, found = now.before, now.after, now.partition()
    if before is None or after is None or found is None:
        return False
    if now.event.what == "ISR shrunk" and before.leader_epoch == after.leader_epoch and len(after.isr) == 1:
        left = [broker for broker in before.isr if broker not in after.isr]
        slow = now.cluster.brokers[after.leader].disk.delay_us > 0
        if slow and any(now.cluster.brokers[one] in now.running for one in left):
            now.left_to_slow_disk[now.event.subject] = None
    if now.event.what == "ISR expanded":
        now.left_to_slow_disk.pop(now.event.subject, None)
    live = [broker for broker in found.assignment.replicas if broker in now.cluster.live_brokers]
    return now.event.what == "leader lost" and now.event.subject in now.left_to_slow_disk and bool(live)


def _last_replica_lost_records(now: Moment) -> bool:
    """Acknowledged records lost with the disk of the last member of an ISR, which leads."""
    found = now.partition() if now.event.what == "acknowledged records lost" else None
    if found is None or found.state is None or now.event.who != f"broker {found.state.leader}":
        return False
    return found.state.isr == (found.state.leader,) and now.event.after in ("KIP-966", "min.insync.replicas crashes")


def _left_to_dead_replicas(now: Moment) -> bool:
    """A partition whose leader a reassignment stops, while all replicas that are left are dead."""
    after, found = now.after, now.partition()
    if now.event.what != "leader lost" or after is None or found is None:
        return False
    live = now.cluster.live_brokers
    return any(broker in live and broker not in found.assignment.replicas for broker in after.isr)


def _id_dropped_by_tool(now: Moment) -> bool:
    """A topic whose id is dropped by a tool or broker, not by the controller."""
    return any(violation.issue == "KAFKA-14190" for violation in now.play.known)


def _id_dropped_by_controller(now: Moment) -> bool:
    """A topic whose id is dropped by a controller of a release that has topic ids."""
    return any(violation.issue == "KAFKA-12835" for violation in now.play.known)


class Symptom(NamedTuple):
    """A bug, a release that has it, and the test for its symptom.

    Args:
        release: the release that is played.
        is_seen: the test.
        at_events: whether it is a test of each event; otherwise of the cluster, every `INTERVAL_US`.
        swarm: the scenario that is played.
        upgraded_from: the release that the swarm begins with instead, for a bug of upgrades to `release`.
    """

    release: str
    is_seen: Callable[[Moment], bool]
    at_events: bool = True
    swarm: str = SWARM
    upgraded_from: str = ""


SYMPTOMS: dict[str, Symptom] = {
    "KAFKA-1028": Symptom("0.8.1", _elected_outside_isr),
    "KAFKA-1096": Symptom("0.8.1", _epoch_of_another, at_events=False),
    "KAFKA-1382": Symptom("0.8.1", _own_write_refused),
    "KAFKA-1503": Symptom("0.8.1", _elected_in_isr_order),
    "KAFKA-1549": Symptom("0.8.1", _dead_in_metadata, at_events=False),
    "KAFKA-3175": Symptom("0.9", _deletion_stays, at_events=False),
    "KAFKA-3670": Symptom("0.9", _elected_in_isr_order),
    "KAFKA-4214": Symptom("0.10.0", _reassignment_dropped),
    "KAFKA-1211": Symptom("0.10.2", _records_lost, swarm=RECORDS),
    "KAFKA-3083": Symptom("1.0", _written_in_the_next_session),
    "KAFKA-4447": Symptom("0.10.1", _handled_after_resignation),
    "KAFKA-7576": Symptom("0.10.2", _failure_waits, at_events=False),
    "KAFKA-1120": Symptom("1.1", _not_told, at_events=False),
    "KAFKA-3143": Symptom("1.1", _dead_after_failover),
    "KAFKA-6082": Symptom("1.1", _written_by_another),
    "KAFKA-6361": Symptom("1.1", _records_differ, at_events=False, swarm=RECORDS),
    "KAFKA-6612": Symptom("1.1", _grown_while_deleted, at_events=False),
    "KAFKA-6650": Symptom("1.1", _deletion_stays, at_events=False),
    "KAFKA-7128": Symptom("1.1", _records_lost, swarm=RECORDS),
    "KAFKA-7152": Symptom("1.1", _idle_follower_left),
    "KAFKA-7235": Symptom("1.1", _failure_unnoticed, at_events=False),
    "KAFKA-7482": Symptom("1.1", _stopping_leader_not_told, at_events=False),
    "KAFKA-6880": Symptom("2.0", _records_differ, at_events=False, swarm=RECORDS),
    "KAFKA-7395": Symptom("2.0", _unregistered_joins),
    "KAFKA-9212": Symptom("1.1", _stale_epoch_in_metadata, at_events=False),
    "KAFKA-9307": Symptom("2.3", _loads_for_ever),
    "KAFKA-9338": Symptom("2.4", _unregistered_joins),
    "KAFKA-10149": Symptom("2.4", _rebalance_waits, at_events=False),
    "KAFKA-10706": Symptom("2.4", _truncates_for_ever, at_events=False, swarm=RECORDS),
    "KAFKA-12686": Symptom("2.8.0", _proposal_lost, at_events=False, swarm=RECORDS),
    "KAFKA-13091": Symptom("2.8.0", _watermark_waits, at_events=False, swarm=RECORDS),
    "KAFKA-13141": Symptom("2.8.0", _joins_without_records, swarm=RECORDS),
    "KAFKA-12835": Symptom("2.8.0", _id_dropped_by_controller),
    "KAFKA-13972": Symptom("2.8.0", _stray_replica, at_events=False),
    "KAFKA-9672": Symptom("2.8.0", _stranger_stays, at_events=False),
    "KAFKA-14140": Symptom("2.8.0", _unregistered_joins),
    "KAFKA-15583": Symptom("3.6", _committed_below_min_isr, swarm=RECORDS),
    "KAFKA-8733": Symptom("3.9", _lost_by_slow_leader, swarm=RECORDS),
    "KAFKA-14190": Symptom("3.9", _id_dropped_by_tool, upgraded_from="1.1"),
    "KAFKA-14139": Symptom("3.9", _joins_without_records, swarm=RECORDS),
    "KAFKA-14424": Symptom("3.9", _left_to_dead_replicas),
    "KAFKA-15332": Symptom("3.9", _last_replica_lost_records, swarm=RECORDS),
}
"""The symptom of each bug in scenarios/bugs, by id."""


class Watch:
    """Watchers of bugs in one run.

    Args:
        play: the run, not started.
        bugs: the ids of the bugs to look for.

    Attributes:
        seen: the bugs whose symptom was seen, with its virtual time in microseconds.
    """

    def __init__(self, play: Play, bugs: Sequence[str]) -> None:
        self.seen: dict[str, int] = {}
        self._play = play
        self._bugs = bugs
        self._moment = Moment(play)
        play.history.observers.append(self._on_event)

    def run(self) -> None:
        """Play the run until all symptoms were seen, or to `AFTERWARDS_US` after its end."""
        scheduler, over_us = self._moment.cluster.scheduler, 0
        while len(self.seen) < len(self._bugs) and (not over_us or scheduler.now_us < over_us + AFTERWARDS_US):
            self._play.run_until(scheduler.now_us + INTERVAL_US)
            self._look(at_events=False)
            if self._play.is_over and not over_us:
                over_us = scheduler.now_us

    def _on_event(self, event: Event) -> None:
        self._moment.note(event)
        self._look(at_events=True)

    def _look(self, *, at_events: bool) -> None:
        for bug in self._bugs:
            symptom = SYMPTOMS[bug]
            if bug not in self.seen and symptom.at_events == at_events and symptom.is_seen(self._moment):
                self.seen[bug] = self._moment.cluster.scheduler.now_us


def releases_without() -> dict[str, str]:
    """Return the newest release without each bug; bugs that all releases have are left out."""
    bugs = [read_scenario(path).bug for path in sorted((SCENARIOS / "bugs").glob("*.toml"))]
    return {bug.id: bug.mended_in[-1] for bug in bugs if bug is not None and bug.mended_in}


def first_seeds(release_of: Mapping[str, str], seeds: int) -> Iterator[tuple[str, int | None]]:
    """Yield each bug with the first seed that shows its symptom, or None; release by release.

    Args:
        release_of: the release to play by the id of each bug.
        seeds: the last seed to play.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for bug, release in release_of.items():
        groups.setdefault((release, SYMPTOMS[bug].swarm), []).append(bug)
    for (release, swarm), left in groups.items():
        scenario = read_scenario(SCENARIOS / f"{swarm}.toml")
        for seed in range(1, seeds + 1):
            if not left:
                break
            play = Play(scenario, seed=seed, version=release)
            watch = Watch(play, left)
            watch.run()
            play.close()
            yield from ((bug, seed) for bug in left if bug in watch.seen)
            left = [bug for bug in left if bug not in watch.seen]
            print(f"\r{release}, {swarm}: seed {seed}, {len(left)} left ", end="", file=sys.stderr, flush=True)
        yield from ((bug, None) for bug in left)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the first seed of each bug as a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bug_seeds", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bugs", nargs="*", metavar="KAFKA-ID", help="bugs to look for [default: all]")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"number of seeds of each release [default: {SEEDS}]")
    parser.add_argument("--control", action="store_true", help="play the newest release without each bug")
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    unknown = [bug for bug in options.bugs if bug not in SYMPTOMS]
    if unknown or options.seeds < 1:
        right = f"one of {', '.join(SYMPTOMS)}" if unknown else "1 or more"
        parser.error(f"{unknown[0] if unknown else '--seeds'}: expected {right}")
    affected = {bug: symptom.upgraded_from or symptom.release for bug, symptom in SYMPTOMS.items()}
    known = releases_without() if options.control else affected
    release_of = {bug: known[bug] for bug in options.bugs or SYMPTOMS if bug in known}
    found: dict[str, int | None] = {}
    for bug, seed in first_seeds(release_of, options.seeds):
        found[bug] = seed
        text = f"not within {options.seeds} seeds" if seed is None else f"seed {seed}"
        print(f"\r{bug:<12} {release_of[bug]:<7} {text}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"seeds": options.seeds, "first": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
