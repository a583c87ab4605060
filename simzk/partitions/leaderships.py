"""Leaders and ISRs that change while all live: shutdowns in order, preferred leaders, what leaders themselves write.

Rules of the module (docs/reference/kafka.md §2.6, §2.8, §2.9, §2.12, §2.14):

1. A broker that shuts down in order hands over what it leads and leaves the ISRs of the rest; partitions of one replica
   stay until it is gone.
2. A broker is out of balance where more than a percentage of the partitions that prefer it are led by another or by
   nobody; these are elected anew where their preferred replica lives and is in sync.
3. A leader's own write of an ISR raises the version, not the leader epoch, and ends a recovery.
4. Nothing is applied here: each operation returns the rows that change, with their states before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, broker_mask, choose, count_of, sizes, taken
from simzk.partitions.course import Change, Course
from simzk.partitions.elections import elect_for_controlled_shutdown, elect_preferred, initial_leader_and_isr
from simzk.partitions.isr import expand_isr, shrink_isr
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.states import States, first_states

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.jvm.scala_maps import Scala
    from simzk.partitions.table import PartitionTable


def begin_partitions(table: PartitionTable, rows: IntArray, live: BoolArray, *, controller_epoch: int) -> Change:
    """The first states of new partitions, of a new topic or of one that grew; those without a live replica wait.

    Args:
        table: the partitions.
        rows: int32[k], distinct; those that have a state already are left alone.
        live: mask of live brokers.
        controller_epoch: the epoch of the controller that writes.

    >>> from simzk.partitions.table import PartitionTable
    >>> table = PartitionTable()
    >>> begin_partitions(table, table.add("t", {0: [1, 2], 1: [3]}), broker_mask([2]), controller_epoch=1).after.one(0)
    LeaderAndIsr(leader=2, leader_epoch=0, isr=(2,), controller_epoch=1, version=0, recovering=False)
    """
    replicas, before = table.replicas_and_states(rows)
    election = initial_leader_and_isr(replicas, live)
    begun = np.flatnonzero(election.elected & (before.version < 0))
    after = first_states(election.leader[begun], taken(election.isr, begun), controller_epoch)
    return Change(rows[begun], before.at(begun), after, np.zeros(len(begun), dtype=np.bool_))


def shut_down_broker(
    table: PartitionTable,
    broker: int,
    registered: BoolArray,
    shutting_down: BoolArray | None = None,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Change:
    """What the controller does before a broker stops that asks for it (§2.14).

    Args:
        table: the partitions; only rows with a replica on the broker are read.
        broker: who asks.
        registered: mask of all brokers that live, shutting down or not.
        shutting_down: mask of others that have asked.
        controller_epoch: the epoch of the controller that writes.
        unclean_allowed: whether unclean election is on, by row of the table, or one for all (0.8.2 to 1.0 only).
        rules: the row of the Kafka version.

    >>> from simzk.partitions.states import LeaderAndIsr
    >>> from simzk.partitions.table import PartitionTable
    >>> table = PartitionTable()
    >>> for row, leader in zip(table.add("t", {0: [1, 2], 1: [2, 1]}), (1, 2)):
    ...     table.put(row, LeaderAndIsr(leader, 0, (1, 2), 1))
    >>> change = shut_down_broker(table, 1, broker_mask([1, 2]), controller_epoch=1)
    >>> change.after.leader.tolist(), change.after.isr.tolist()
    ([2, 2], [[2, -1, -1], [2, -1, -1]])
    """
    rows = table.rows_with_replica(broker)
    replicas, before = table.replicas_and_states(rows)
    concerned = needs_shutdown(replicas, before)
    allowed = unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[rows]
    course = Course(replicas, before, allowed, rules)
    led = before.leader == broker
    places = np.flatnonzero(concerned & led)
    leaving = broker_mask([broker])
    if shutting_down is not None:
        leaving = _either(leaving, shutting_down)
    course.elect(
        places,
        elect_for_controlled_shutdown(
            taken(replicas, places),
            taken(before.isr, places),
            before.leader[places],
            registered,
            leaving,
            rules=rules,
        ),
    )
    course.remove(choose(concerned & ~led, np.int32(broker), np.int32(NONE)))
    return Change.between(rows, before, course.outcome(controller_epoch))


def needs_shutdown(replicas: IntArray, states: States) -> BoolArray:
    """Which partitions a controlled shutdown of one of their brokers concerns: those with another replica, bool[k]."""
    return (count_of(replicas != NONE) > 1) & (states.version >= 0)


def elect_preferred_leaders(
    table: PartitionTable,
    rows: IntArray,
    live: BoolArray,
    *,
    controller_epoch: int,
    rules: ElectionRules = LATEST,
) -> Change:
    """The preferred replicas of some rows, distinct, as leaders where they live, are in sync and do not lead (§2.12).

    From 1.1 to 2.1 also those that lead already are elected again, as a znode that asks for them has it.
    """
    replicas, before = table.replicas_and_states(rows)
    course = Course(replicas, before, False, rules)
    places = np.flatnonzero(before.version >= 0)
    election = elect_preferred(
        taken(replicas, places), taken(before.isr, places), before.leader[places], live, rules=rules
    )
    course.elect(places, election)
    return Change.between(rows, before, course.outcome(controller_epoch))


class Imbalance(NamedTuple):
    """How k partitions are led: whether each is led by another than it prefers, or by nobody, `astray` bool[k]; and by
    broker how many prefer it, `preferring` int64[b], and are astray, `astray_from` int64[b]."""

    astray: BoolArray
    preferring: NDArray[np.int64]
    astray_from: NDArray[np.int64]

    def brokers(self, percentage: int) -> list[int]:
        """The brokers of whose partitions more than a percentage are astray, ascending."""
        return np.flatnonzero(self.astray_from * 100 > percentage * self.preferring).tolist()


def imbalance(heads: IntArray, states: States) -> Imbalance:
    """How partitions are led beside how they should be (§2.12 Auto).

    Args:
        heads: int32[k], their preferred replicas.
        states: of the k partitions; one that has none counts, but is not astray.
    """
    astray = (states.version >= 0) & (states.leader != heads)
    strayed = np.bincount(heads, astray).astype(np.int64)
    return Imbalance(astray, np.bincount(heads).astype(np.int64), strayed)


def rebalance_leaders(
    table: PartitionTable,
    live: BoolArray,
    percentage: int = 10,
    *,
    controller_epoch: int,
    rules: ElectionRules = LATEST,
) -> Change:
    """The automatic rebalance over all rows: preferred leaders for the brokers that are out of balance."""
    rows = table.rows()
    replicas, states = table.replicas_and_states(rows)
    heads = replicas[:, 0]
    found = imbalance(heads, states)
    astray = rows[found.astray & np.isin(heads, found.brokers(percentage))]
    return elect_preferred_leaders(table, astray, live, controller_epoch=controller_epoch, rules=rules)


def shrink_isrs(
    table: PartitionTable, rows: IntArray, leaving: IntArray, scala: Scala = "2.13", controller_epoch: int | None = None
) -> Change:
    """Followers leave the ISRs, as their leaders write it (§2.8).

    Args:
        table: the partitions.
        rows: int32[k], distinct, with a state.
        leaving: int32[k, v], the followers that leave each, padded.
        scala: Scala line of the Kafka version: it fixes the order of sets of more than four.
        controller_epoch: of the controller that writes for the leaders (2.7+); None where these write themselves.
    """
    before = table.states(rows)
    return _by_leaders(rows, before, shrink_isr(before.isr, leaving, scala), controller_epoch)


def expand_isrs(
    table: PartitionTable, rows: IntArray, joining: IntArray, scala: Scala = "2.13", controller_epoch: int | None = None
) -> Change:
    """A follower joins each ISR, as its leader writes it; arguments as of `shrink_isrs`, `joining` int32[k].

    >>> from simzk.partitions.states import LeaderAndIsr
    >>> from simzk.partitions.table import PartitionTable
    >>> table = PartitionTable()
    >>> rows = table.add("t", {0: [1, 2]})
    >>> table.put(rows[0], LeaderAndIsr(2, 3, (2,), 1, version=5))
    >>> expand_isrs(table, rows, np.array([1], np.int32)).after.one(0)
    LeaderAndIsr(leader=2, leader_epoch=3, isr=(2, 1), controller_epoch=1, version=6, recovering=False)
    """
    before = table.states(rows)
    return _by_leaders(rows, before, expand_isr(before.isr, joining, scala), controller_epoch)


def _by_leaders(rows: IntArray, before: States, isr: IntArray, controller_epoch: int | None) -> Change:
    # A change of who is in sync is a change of how many are: one operation only takes or only adds.
    members = sizes(isr)
    places = np.flatnonzero((members != sizes(before.isr)) & (before.leader != NONE))
    isr = isr[:, : max(before.isr.shape[1], int(members.max(initial=0)))]
    old = before.at(places)
    after = old._replace(
        isr=taken(isr, places),
        version=old.version + np.int32(1),
        recovering=np.zeros(len(places), dtype=np.bool_),
    )
    if controller_epoch is not None:
        after = after._replace(controller_epoch=np.full(len(places), controller_epoch, dtype=np.int32))
    return Change(rows[places], old, after, np.zeros(len(places), dtype=np.bool_))


def _either(one: BoolArray, other: BoolArray) -> BoolArray:
    """The union of two masks."""
    union = np.zeros(max(len(one), len(other)), dtype=np.bool_)
    union[: len(one)] |= one
    union[: len(other)] |= other
    return union
