"""Other assignments of a layout's partitions: by Kafka's rack-aware rule, in copysets, or random.

Rules of the module:

1. Every partition keeps its topic, number and replication factor; brokers and racks stay. Replicas go to live brokers
   only.
2. Copysets (Cidon et al.: Copysets, USENIX ATC 2013): brokers are shuffled and split into groups of R (the replication
   factor), S / (R - 1) times, so that each broker shares partitions with about S others, its *scatter width*. Each
   partition is placed in one group. Fewer groups mean fewer combinations of R failures that lose data.
3. The same seed gives the same assignment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from simzk.documents import is_number
from simzk.errors import ConfigError, LayoutError
from simzk.jvm.numbers import JavaRandom
from simzk.partitions.arrays import NONE, contained, sizes
from simzk.partitions.assignment import assign_topics
from simzk.partitions.draws import Draws

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray
    from simzk.partitions.layouts import Brokers, Layout

    Place = Callable[[Brokers, list[int], int, int], IntArray]

RACK_AWARE, COPYSETS, RANDOM = NAMES = ("rack-aware", "copysets", "random")

SCATTER_WIDTH = 10
"""Default scatter width, that of the paper's experiments on HDFS."""

RIGHT = "rack-aware, copysets, copysets:SCATTER_WIDTH or random"


def alternative(layout: Layout, name: str, seed: int) -> IntArray:
    """Return the replicas of an assignment by its name.

    Args:
        layout: the partitions to place.
        name: one of `RIGHT`.
        seed: of random choices.

    Returns:
        int32[n, w], padded.

    Raises:
        ConfigError: the name is unknown, or the layout lacks brokers or racks.

    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> layout = generate_layout(brokers_in_racks(6, 3), topics=1, partitions=4, replication_factor=3, seed=1)
    >>> len({tuple(sorted(replicas)) for replicas in alternative(layout, "copysets:2", seed=1).tolist()})
    2
    """
    kind, colon, number = name.partition(":")
    width = SCATTER_WIDTH
    if kind not in NAMES or (colon and kind != COPYSETS):
        raise ConfigError(f"unknown assignment {name!r}", right=RIGHT)
    if colon:
        if not (is_number(number) and int(number) > 0):
            raise ConfigError(f"missing scatter width in {name!r}", right="a number, such as copysets:10")
        width = int(number)

    places: dict[str, Place] = {
        RACK_AWARE: _rack_aware,
        COPYSETS: partial(_in_copysets, width=width),
        RANDOM: _by_chance,
    }
    return _placed(layout, places[kind], seed)


def with_replicas(layout: Layout, replicas: IntArray) -> Layout:
    """Return the layout after the move to other replicas: all replicas in sync, the preferred replica leads."""
    assert len(replicas) == len(layout)
    leader, nobody = replicas[:, 0].copy(), np.full((len(layout), 1), NONE, np.int32)
    return replace(layout, replicas=replicas, isr=replicas, leader=leader, adding=nobody, removing=nobody)


def moved(before: IntArray, after: IntArray) -> int:
    """Return the number of replicas to copy: those on brokers without a replica of the partition before."""
    assert len(before) == len(after)
    return int(np.count_nonzero((after != NONE) & ~contained(after, before)))


def _placed(layout: Layout, place: Place, seed: int) -> IntArray:
    """Place all partitions, topic by topic, one replication factor after another."""
    brokers = layout.brokers
    racks = tuple(rack for rack, up in zip(brokers.racks, brokers.live.tolist(), strict=True) if up)
    live = replace(brokers, ids=brokers.ids[brokers.live], racks=racks, live=np.ones(len(racks), np.bool_))
    found = np.full_like(layout.replicas, NONE)
    factors = sizes(layout.replicas)
    order = np.lexsort((layout.partition, layout.topic))
    for factor in np.unique(factors).tolist():
        if factor > len(live.ids):
            raise ConfigError(
                f"{factor} replicas need {factor} live brokers, there are {len(live.ids)}", right="at least as many"
            )
        rows = order[factors[order] == factor]
        counts = np.unique(layout.topic[rows], return_counts=True)[1]
        found[rows, :factor] = place(live, counts.tolist(), factor, seed)
    assert (sizes(found) == factors).all(), "each partition keeps its replication factor"
    return found


def _rack_aware(brokers: Brokers, counts: list[int], factor: int, seed: int) -> IntArray:
    racks = brokers.rack_by_id
    if not racks:
        raise ConfigError(
            "a rack-aware assignment needs racks, but some live brokers have none", right="a rack for each broker"
        )
    try:
        return assign_topics(brokers.ids.tolist(), racks, counts, factor, random=JavaRandom(seed))
    except LayoutError as error:
        raise ConfigError(str(error)) from None


def _by_chance(brokers: Brokers, counts: list[int], factor: int, seed: int) -> IntArray:
    """Choose brokers at random, each combination with equal probability, regardless of racks."""
    assert factor <= len(brokers.ids)
    count, total = len(brokers.ids), sum(counts)
    chance = Draws(b"random %d %d" % (seed, factor)).uniforms(factor, total)
    chosen = np.empty((total, factor), np.int64)
    for place in range(factor):
        # A number among the remaining brokers; each chosen broker below it moves it up by one.
        drawn = (chance[place] * (count - place)).astype(np.int64)
        for earlier in np.sort(chosen[:, :place], axis=1).T:
            drawn += drawn >= earlier
        chosen[:, place] = drawn
    assert chosen.max(initial=0) < count
    return brokers.ids[chosen]


def _in_copysets(brokers: Brokers, counts: list[int], factor: int, seed: int, *, width: int) -> IntArray:
    """Place the partitions of each topic in consecutive copysets; the first replica rotates within a copyset."""
    sets = copysets(brokers, factor, width, seed)
    draws = Draws(b"places %d %d" % (seed, factor))
    first, turn = draws.below(len(sets), len(counts)), draws.below(factor, len(counts))
    sizes_of = np.array(counts, np.int64)
    number = np.arange(sizes_of.sum()) - np.repeat(np.cumsum(sizes_of) - sizes_of, sizes_of)
    # Each time a topic returns to a copyset, the next of its brokers leads.
    visit, at = np.divmod(number + np.repeat(first, sizes_of), len(sets))
    leads = visit + at + np.repeat(turn, sizes_of)
    turned: IntArray = np.take_along_axis(sets[at], (leads[:, None] + np.arange(factor)) % factor, axis=1)
    return turned


def copysets(brokers: Brokers, factor: int, width: int, seed: int) -> IntArray:
    """Return groups of brokers, each with brokers of different racks if every broker has a rack and the racks allow it.

    Args:
        brokers: all of them live.
        factor: brokers per group.
        width: target scatter width; at most all other brokers.
        seed: of the shuffling.

    Returns:
        int32[k, factor], distinct groups in random order.
    """
    count = len(brokers.ids)
    assert 1 <= factor <= count
    assert brokers.live.all()
    shuffles = -(-min(width, count - 1) // (factor - 1)) if factor > 1 else 1
    # If rack rules do not apply, each broker has its own rack.
    rack = brokers.rack_numbers if brokers.all_have_racks else np.arange(count)
    draws = Draws(b"copysets %d %d" % (seed, factor))
    groups = np.concatenate([_shuffled_groups(rack, factor, draws) for _ in range(max(shuffles, 1))])
    distinct = np.unique(np.sort(groups, axis=1), axis=0)
    assert (distinct[:, 1:] > distinct[:, :-1]).all(), "a group has distinct brokers"
    ordered: IntArray = brokers.ids[distinct[draws.order(len(distinct))]]
    return ordered


def _shuffled_groups(rack: NDArray[np.integer], factor: int, draws: Draws) -> NDArray[np.intp]:
    """Split all brokers into groups of `factor`, with different racks where no rack has more brokers than groups."""
    assert 1 <= factor <= len(rack)
    count = len(rack)
    shuffled = draws.order(count)
    sizes_of_racks = np.bincount(rack)
    turn = np.argsort(draws.order(len(sizes_of_racks)), kind="stable")
    # Rack by rack, the largest first: positions one group length apart are in different racks.
    line = shuffled[np.lexsort((turn[rack[shuffled]], -sizes_of_racks[rack[shuffled]]))]
    length = count // factor
    groups = line[: length * factor].reshape(factor, length).T
    # Remaining brokers form groups with brokers of other racks.
    joined = [_joined(rack, int(broker), factor, draws) for broker in line[length * factor :]]
    return np.concatenate([groups, np.array(joined, np.intp).reshape(-1, factor)])


def _joined(rack: NDArray[np.integer], broker: int, factor: int, draws: Draws) -> list[int]:
    others = [int(other) for other in draws.order(len(rack)) if other != broker]
    by_rack = {int(rack[broker]): broker}
    for other in others:
        by_rack.setdefault(int(rack[other]), other)
    group = list(by_rack.values())[:factor]
    full = [*group, *(other for other in others if other not in group)][:factor]
    assert len(full) == factor
    return full
