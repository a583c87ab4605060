"""Random layouts decided by a seed: clusters as placed by Kafka's replica assignment.

`assign_topics` places the topics (docs/reference/kafka.md §3), each with its own start and shift from one stream of
`java.util.Random`, one replication factor after another. Every partition is led by its preferred replica, and every
replica is in sync except for the requested ISR gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import LayoutError
from simzk.jvm.numbers import JavaRandom
from simzk.partitions.arrays import NONE, keep
from simzk.partitions.arrays import sizes as sizes_of
from simzk.partitions.assignment import assign_topics
from simzk.partitions.draws import Draws
from simzk.partitions.layouts.layout import Brokers, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_PARTITIONS = 100_000_000
"""Maximum partitions of a generated layout: the columns of more do not fit a large machine's memory."""

MOST_SKEW = 10.0
"""Maximum skew: the second topic has a thousandth of the partitions of the first."""


def brokers_in_racks(brokers: int, racks: int) -> Brokers:
    """Return brokers 0 to `brokers` - 1 in racks rack1, rack2, ... in turn; without racks if `racks` is 0.

    Raises:
        LayoutError: a number is out of range, or a rack would be empty.

    >>> brokers_in_racks(3, 2).racks
    ('rack1', 'rack2', 'rack1')
    """
    if not 1 <= brokers <= 100_000:
        raise LayoutError(f"number of brokers {brokers} is out of range", right="1 to 100,000")
    if not 0 <= racks <= brokers:
        raise LayoutError(
            f"number of racks {racks} is out of range", right=f"0 (no racks) to {brokers}, one per broker"
        )
    return Brokers.from_racks({broker: f"rack{broker % racks + 1}" if racks else None for broker in range(brokers)})


def generate_layout(
    brokers: Brokers,
    *,
    topics: int,
    partitions: int,
    replication_factor: int | Sequence[int],
    seed: int,
    min_insync_replicas: int = 1,
    topic_skew: float = 0.0,
    isr_gaps: float = 0.0,
    rack_aware: bool = True,
) -> Layout:
    """Generate a layout; equal arguments give equal layouts.

    Args:
        brokers: brokers for the replicas.
        topics: number of topics, named `topic-0` and so on.
        partitions: of all topics together.
        replication_factor: replicas of each partition; topics take several values in turn.
        seed: of `java.util.Random` and of the ISR gaps.
        min_insync_replicas: of every topic, at most its replication factor.
        topic_skew: topic i gets a share proportional to 1 / (i + 1) ** topic_skew, at least one partition; 0 is even.
        isr_gaps: share of the partitions with one follower out of sync; partitions with one replica have no gap.
        rack_aware: whether the rack-aware rule applies if every broker has a rack (KIP-36, Kafka 0.10.0).

    Raises:
        LayoutError: a number is out of range, or there are fewer brokers than replicas.

    >>> layout = generate_layout(brokers_in_racks(3, 3), topics=2, partitions=5, replication_factor=3, seed=1)
    >>> layout.topics, layout.partition.tolist()
    (('topic-0', 'topic-1'), [0, 1, 2, 0, 1])
    >>> mixed = generate_layout(
    ...     brokers_in_racks(3, 3), topics=3, partitions=11, replication_factor=[3, 1], seed=1, topic_skew=1.0)
    >>> np.bincount(mixed.topic).tolist()
    [5, 3, 3]
    """
    factors = [replication_factor] if isinstance(replication_factor, int) else list(replication_factor)
    _check_numbers(topics, partitions, factors, min_insync_replicas, topic_skew, isr_gaps)
    sizes = _topic_sizes(topics, partitions, topic_skew)
    topic = np.repeat(np.arange(topics, dtype=np.int32), sizes)
    factor = np.resize(np.array(factors, np.int32), topics)
    replicas = _placed(brokers, sizes, factor, JavaRandom(seed), rack_aware=rack_aware)
    return Layout(
        brokers=brokers,
        topics=tuple(f"topic-{number}" for number in range(topics)),
        topic=topic,
        partition=(np.arange(partitions) - np.repeat(np.cumsum(sizes) - sizes, sizes)).astype(np.int32),
        replicas=replicas,
        isr=_with_gaps(replicas, isr_gaps, seed),
        leader=replicas[:, 0].copy(),
        leader_epoch=np.zeros(partitions, np.int32),
        min_insync_replicas=np.minimum(factor, min_insync_replicas).astype(np.int32)[topic],
    )


def _check_numbers(
    topics: int, partitions: int, factors: list[int], min_insync_replicas: int, topic_skew: float, isr_gaps: float
) -> None:
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise LayoutError(f"number of partitions {partitions} is out of range", right=f"1 to {MOST_PARTITIONS:,}")
    if not 1 <= topics <= partitions:
        raise LayoutError(f"number of topics {topics} is out of range", right=f"1 to {partitions}, one per partition")
    if not factors or min(factors) < 1:
        raise LayoutError(f"replication factors {factors} are out of range", right="1 or more")
    if not 1 <= min_insync_replicas <= max(factors):
        raise LayoutError(
            f"min.insync.replicas {min_insync_replicas} is out of range", right="1 to the replication factor"
        )
    if not 0 <= topic_skew <= MOST_SKEW:
        raise LayoutError(f"topic skew {topic_skew:g} is out of range", right=f"0 (even) to {MOST_SKEW:g}")
    if not 0 <= isr_gaps <= 1:
        raise LayoutError(f"share of partitions with ISR gaps {isr_gaps:g} is out of range", right="0 to 1")


def _topic_sizes(topics: int, partitions: int, skew: float) -> NDArray[np.int64]:
    """Return the partitions of each topic, int64[topics]: one each, then by weight, then by largest remainder."""
    # Rounded, so that all math libraries give the same weights.
    assert 1 <= topics <= partitions
    weights = np.round(2**40 / np.arange(1, topics + 1) ** skew)
    quota = (partitions - topics) * (weights / weights.sum())
    extra = np.floor(quota).astype(np.int64)
    left = partitions - topics - int(extra.sum())
    remainders = np.round(quota - extra, 6)
    extra[np.argsort(-remainders, kind="stable")[:left]] += 1
    assert extra.sum() + topics == partitions
    sizes: NDArray[np.int64] = 1 + extra
    return sizes


def _placed(
    brokers: Brokers, sizes: NDArray[np.int64], factor: NDArray[np.int32], random: JavaRandom, *, rack_aware: bool
) -> NDArray[np.int32]:
    racks = brokers.rack_by_id if rack_aware else None
    ids = brokers.ids.tolist()
    if factor.min() == factor.max():
        return assign_topics(ids, racks, sizes.tolist(), int(factor[0]), random=random)
    of_row = np.repeat(factor, sizes)
    replicas = np.full((len(of_row), int(factor.max())), NONE, np.int32)
    for one in dict.fromkeys(factor.tolist()):
        counts = sizes[factor == one].tolist()
        replicas[of_row == one, :one] = assign_topics(ids, racks, counts, one, random=random)
    assert (replicas[:, 0] != NONE).all(), "each partition was placed"
    return replicas


def _with_gaps(replicas: NDArray[np.int32], share: float, seed: int) -> NDArray[np.int32]:
    """Return ISRs: the replicas, without one follower in a share of the partitions."""
    if not share:
        return replicas
    draws = Draws(b"isr gaps %d" % seed)
    followers = sizes_of(replicas) - 1
    gone = 1 + (draws.uniforms(len(replicas)) * followers).astype(np.int32)
    assert (gone <= np.maximum(followers, 1)).all()
    short = (draws.uniforms(len(replicas)) < share) & (followers > 0)
    staying = (replicas != NONE) & ~(short[:, None] & (np.arange(replicas.shape[1]) == gone[:, None]))
    isr = keep(replicas, staying)
    assert (isr[:, 0] == replicas[:, 0]).all(), "the preferred replica, which leads, stays in sync"
    return isr
