"""Summary of a layout: load by broker and rack, skew, partitions at risk, and violations of the rack rule.

Definitions, as in Kafka's metrics and tools:
- *offline*: the partition has no leader, or its leader is not live;
- *under-replicated*: fewer in-sync replicas than replicas; *under min ISR*: fewer than `min.insync.replicas`;
- *preferred*: the first replica leads;
- *rack violation*: the replicas are in fewer racks than possible, min(replicas, racks); only if all brokers have a rack
  (docs/reference/kafka.md §3.2);
- *reassigning*: the topic znode names replicas to add or remove (KIP-455); *gaining*, *losing*: the brokers of these;
- *skew*: the maximum load divided by the mean load of the live brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, count_of, sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray
    from simzk.partitions.layouts.layout import Brokers, Layout


class Exposure(NamedTuple):
    """Numbers of partitions by their live ISR members.

    Args:
        offline: partitions without a live ISR member.
        under_min_isr: fewer than `min.insync.replicas`, including offline ones.
        at_min_isr: exactly `min.insync.replicas`: after one more failure, writes with acks=all are rejected.
        last_in_sync: one live ISR member: its failure makes the partition offline.
        worst_broker: broker that is the last live ISR member of most partitions; -1 if there is none.
        worst_offline: the number of these partitions.
    """

    offline: int
    under_min_isr: int
    at_min_isr: int
    last_in_sync: int
    worst_broker: int
    worst_offline: int


def exposure(layout: Layout) -> Exposure:
    """Count the partitions of a layout by their live ISR members.

    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> exposure(generate_layout(brokers_in_racks(3, 0), topics=1, partitions=6, replication_factor=1, seed=0))
    Exposure(offline=0, under_min_isr=0, at_min_isr=6, last_in_sync=6, worst_broker=0, worst_offline=2)
    """
    brokers = layout.brokers
    isr = brokers.positions_of(layout.isr)
    alive = np.append(brokers.live, False)[isr]
    in_sync = count_of(alive)
    last = np.flatnonzero(in_sync == 1)
    alone = isr[last][alive[last]]
    last_on = np.bincount(alone, minlength=len(brokers.ids))
    worst = int(np.argmax(last_on)) if len(alone) else NONE
    assert last_on.sum() == len(last), "a partition counts once, for its only live ISR member"
    return Exposure(
        offline=int(np.count_nonzero(in_sync == 0)),
        under_min_isr=int(np.count_nonzero(in_sync < layout.min_insync_replicas)),
        at_min_isr=int(np.count_nonzero(in_sync == layout.min_insync_replicas)),
        last_in_sync=len(last),
        worst_broker=int(brokers.ids[worst]) if worst != NONE else NONE,
        worst_offline=int(last_on[worst]) if worst != NONE else 0,
    )


@dataclass(frozen=True, eq=False)
class BrokerLoad:
    """Load of each broker or rack; all int64, one entry per broker or rack.

    Args:
        replicas: replicas on it.
        leaders: partitions that it leads.
        preferred: partitions with their first replica on it.
        preferred_led: those of them that it leads.
        out_of_sync: replicas on it that are not in the ISR.
    """

    replicas: NDArray[np.int64]
    leaders: NDArray[np.int64]
    preferred: NDArray[np.int64]
    preferred_led: NDArray[np.int64]
    out_of_sync: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LayoutSummary:
    """Numbers of a layout; the module docstring defines the terms."""

    partitions: int
    topics: int
    replication_factors: dict[int, int]
    offline: int
    under_replicated: int
    under_min_isr: int
    preferred_led: int
    rack_violations: int
    reassigning: int
    gaining: tuple[int, ...]
    losing: tuple[int, ...]
    replica_skew: float
    leader_skew: float
    by_broker: BrokerLoad
    by_rack: dict[str, BrokerLoad]


def summarize(layout: Layout) -> LayoutSummary:
    """Summarize a layout.

    >>> from simzk.partitions.layouts import Brokers, generate_layout
    >>> summary = summarize(generate_layout(Brokers.from_racks({1: "a", 2: "b"}), topics=1, partitions=4,
    ...                                     replication_factor=2, seed=0))
    >>> summary.by_broker.replicas.tolist(), summary.rack_violations
    ([4, 4], 0)
    """
    brokers = layout.brokers
    replicas = brokers.positions_of(layout.replicas)
    isr = brokers.positions_of(layout.isr)
    leader = brokers.positions_of(layout.leader)
    in_sync, factors = sizes(isr), sizes(replicas)
    by_broker = _load(replicas, isr, leader, len(brokers.ids))
    has_live_leader = (leader != NONE) & brokers.live[leader]
    values, counts = np.unique(factors, return_counts=True)
    return LayoutSummary(
        partitions=len(layout),
        topics=len(np.unique(layout.topic)),
        replication_factors=dict(zip(values.tolist(), counts.tolist(), strict=True)),
        offline=int(np.count_nonzero(~has_live_leader)),
        under_replicated=int(np.count_nonzero(in_sync < factors)),
        under_min_isr=int(np.count_nonzero(in_sync < layout.min_insync_replicas)),
        preferred_led=int(by_broker.preferred_led.sum()),
        reassigning=len(layout.reassigning),
        gaining=_named(layout.adding),
        losing=_named(layout.removing),
        rack_violations=int(np.count_nonzero(breaks_rack_rule(brokers, layout.replicas))),
        replica_skew=_skew(by_broker.replicas[brokers.live]),
        leader_skew=_skew(by_broker.leaders[brokers.live]),
        by_broker=by_broker,
        by_rack=_by_rack(layout, by_broker),
    )


def _named(lists: NDArray[np.int32]) -> tuple[int, ...]:
    """Return the brokers in some lists, int32[n, w], ascending."""
    return tuple(np.unique(lists[lists != NONE]).tolist())


def _load(replicas: IntArray, isr: IntArray, leader: IntArray, brokers: int) -> BrokerLoad:
    def count(positions: IntArray) -> NDArray[np.int64]:
        # Position -1 (none) is counted in the first bin, which is dropped.
        return np.bincount(positions.ravel() + 1, minlength=brokers + 1)[1:].astype(np.int64)

    head, replicas_on = replicas[:, 0], count(replicas)
    out_of_sync = replicas_on - count(isr)
    assert (out_of_sync >= 0).all(), "ISR members are replicas"
    return BrokerLoad(replicas_on, count(leader), count(head), count(head[head == leader]), out_of_sync)


def _by_rack(layout: Layout, by_broker: BrokerLoad) -> dict[str, BrokerLoad]:
    racks = layout.brokers.rack_numbers
    loads = [getattr(by_broker, column.name) for column in fields(BrokerLoad)]
    return {
        name: BrokerLoad(*(load[racks == number].sum(keepdims=True) for load in loads))
        for number, name in enumerate(layout.brokers.rack_names)
    }


def breaks_rack_rule(brokers: Brokers, replicas: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which partitions are in fewer racks than possible; none if a broker has no rack.

    Args:
        brokers: of the layout.
        replicas: int32[k, w], broker ids.

    Returns:
        bool[k].
    """
    if not brokers.all_have_racks:
        return np.zeros(len(replicas), np.bool_)
    racks = np.where(replicas == NONE, np.int32(NONE), brokers.rack_numbers[brokers.positions_of(replicas)])
    distinct = np.zeros(len(racks), np.intp)
    for column in range(racks.shape[1]):
        seen = (racks[:, :column] == racks[:, column : column + 1]).any(axis=1)
        distinct += ~seen & (racks[:, column] != NONE)
    limit = np.minimum(sizes(replicas), len(brokers.rack_names))
    assert (distinct <= limit).all()
    return distinct < limit


def _skew(loads: NDArray[np.int64]) -> float:
    assert loads.min(initial=0) >= 0
    mean = loads.mean() if len(loads) else 0.0
    return float(loads.max() / mean) if mean else 1.0
