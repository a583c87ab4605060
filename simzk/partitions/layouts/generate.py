"""Layouts drawn from a seed: a healthy cluster as Kafka's own replica assignment would have placed it.

Topics are placed one after the other by `assign_topics` (docs/reference/kafka.md §3), each with a start and a shift of
its own from one stream of `java.util.Random`. Every replica is in sync and the preferred replica leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.assignment import assign_topics
from simzk.partitions.java_random import JavaRandom
from simzk.partitions.layouts.layout import Brokers, Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_PARTITIONS = 100_000_000
"""The most partitions that a layout is drawn with: the columns of more do not fit a large machine's memory."""


def brokers_in_racks(brokers: int, racks: int) -> Brokers:
    """Brokers 0 .. `brokers` - 1 dealt to `racks` racks in turn, named rack1, rack2, ...; no racks where `racks` is 0.

    Raises:
        LayoutError: a number is out of range, or a rack would be empty.

    >>> brokers_in_racks(3, 2).racks
    ('rack1', 'rack2', 'rack1')
    """
    if not 1 <= brokers <= 100_000:
        raise LayoutError(f"{brokers} brokers cannot be", right="1 to 100,000")
    if not 0 <= racks <= brokers:
        raise LayoutError(f"{racks} racks for {brokers} brokers cannot be", right="0 (no racks) to one a broker")
    return Brokers.from_racks({broker: f"rack{broker % racks + 1}" if racks else None for broker in range(brokers)})


def generate_layout(
    brokers: Brokers,
    *,
    topics: int,
    partitions: int,
    replication_factor: int,
    seed: int,
    min_insync_replicas: int = 1,
) -> Layout:
    """Draw a layout; the same arguments give the same layout.

    Args:
        brokers: where the replicas go; the rack-aware rule holds where every broker has a rack.
        topics: how many topics, `topic-0` and so on, share the partitions as evenly as can be.
        partitions: of all topics together.
        replication_factor: replicas of each partition.
        seed: of `java.util.Random`.
        min_insync_replicas: of every topic.

    Raises:
        LayoutError: a number is out of range, or there are too few brokers for the replication factor.

    >>> layout = generate_layout(brokers_in_racks(3, 3), topics=2, partitions=5, replication_factor=3, seed=1)
    >>> layout.topics, layout.partition.tolist()
    (('topic-0', 'topic-1'), [0, 1, 2, 0, 1])
    """
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise LayoutError(f"{partitions} partitions cannot be", right=f"1 to {MOST_PARTITIONS:,}")
    if not 1 <= topics <= partitions:
        raise LayoutError(f"{partitions} partitions cannot make {topics} topics", right="1 to one topic a partition")
    if not 1 <= min_insync_replicas <= replication_factor:
        raise LayoutError(
            f"min.insync.replicas {min_insync_replicas} cannot be", right="1 up to the replication factor"
        )
    sizes = np.full(topics, partitions // topics)
    sizes[: partitions % topics] += 1
    replicas = assign_topics(
        brokers.ids.tolist(), _racks_that_count(brokers), sizes.tolist(), replication_factor, random=JavaRandom(seed)
    )
    first_row = np.cumsum(sizes) - sizes
    return Layout(
        brokers=brokers,
        topics=tuple(f"topic-{number}" for number in range(topics)),
        topic=np.repeat(np.arange(topics, dtype=np.int32), sizes),
        partition=(np.arange(partitions) - np.repeat(first_row, sizes)).astype(np.int32),
        replicas=replicas,
        isr=replicas,
        leader=replicas[:, 0].copy(),
        leader_epoch=np.zeros(partitions, np.int32),
        min_insync_replicas=np.full(partitions, min_insync_replicas, np.int32),
    )


def _racks_that_count(brokers: Brokers) -> Mapping[int, str] | None:
    if not brokers.all_have_racks:
        return None
    return {int(broker): rack for broker, rack in zip(brokers.ids, brokers.racks, strict=True) if rack is not None}
