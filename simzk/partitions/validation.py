"""Partitions handed in: what is wrong with them is said before anything changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import MAX_BROKER_ID, NONE, IntArray, first_duplicate, is_padded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def validate_replicas(replicas: IntArray) -> None:
    """Refuse lists of replicas that cannot be.

    Args:
        replicas: int32[k, w].

    Raises:
        LayoutError: a list is empty or not padded, an id is out of range, or a broker is named twice.
    """
    if not is_padded(replicas) or replicas.max(initial=NONE) > MAX_BROKER_ID:
        raise LayoutError("a replica is no broker id", right=f"ids from 0 to {MAX_BROKER_ID}")
    if (replicas[:, 0] == NONE).any():
        raise LayoutError("a partition has no replicas", right="at least one")
    row = first_duplicate(replicas)
    if row is not None:
        raise LayoutError(f"replicas {replicas[row][replicas[row] != NONE].tolist()} name a broker twice")


def validate_moves(replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int]) -> None:
    """Refuse replicas to add or remove that are not among the replicas, or are both.

    Raises:
        LayoutError: they do not fit.
    """
    if not (set(adding) | set(removing) <= set(replicas) and set(adding).isdisjoint(removing)):
        raise LayoutError(
            f"adding {list(adding)} and removing {list(removing)} do not fit replicas {list(replicas)}",
            right="distinct replicas of the partition",
        )


def in_topic_order(topics: Sequence[str], topic: IntArray, partition: IntArray) -> NDArray[np.intp]:
    """The positions of partitions by topic, then by id.

    Args:
        topics: names.
        topic: int32[k], index into `topics`.
        partition: int32[k], ids.

    Raises:
        LayoutError: a topic is named twice, an id is negative, or a partition is given twice.
    """
    if len(set(topics)) != len(topics):
        raise LayoutError("a topic is named twice")
    if partition.min(initial=0) < 0:
        raise LayoutError(f"partition id {partition.min()} cannot be", right="0 or more")
    assert topic.size == 0 or (topic.min() >= 0 and topic.max() < len(topics)), "topic is an index into topics"
    key = topic.astype(np.int64) << 32 | partition
    if (key[1:] > key[:-1]).all():
        return np.arange(len(key))
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    if twice.size:
        row = order[twice[0]]
        raise LayoutError(f"partition {partition[row]} of topic {topics[topic[row]]!r} is given twice")
    return order
