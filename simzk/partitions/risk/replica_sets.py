"""The distinct sets of replicas of an assignment: partitions on the same brokers share their fate.

A set is a row of positions in `Brokers.ids`, ascending; shorter ones are filled up with the number of brokers, which is
the position of the broker that is always down (`rates`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray
    from simzk.partitions.layouts import Brokers


class ReplicaSets(NamedTuple):
    """The sets of an assignment, and which topics have partitions on them.

    Args:
        places: intp[m, w], the brokers of each set.
        partitions: int64[m], how many partitions each holds.
        by_topic: intp[k], the sets of each topic, ascending, topic by topic.
        partitions_by_topic: int64[k], how many of the topic's partitions each holds.
        starts: intp[t + 1], where a topic's begin.
    """

    places: NDArray[np.intp]
    partitions: NDArray[np.int64]
    by_topic: NDArray[np.intp]
    partitions_by_topic: NDArray[np.int64]
    starts: NDArray[np.intp]

    def of_topic(self, topic: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The sets of a topic, and how many of its partitions each holds."""
        held = slice(self.starts[topic], self.starts[topic + 1])
        return self.by_topic[held], self.partitions_by_topic[held]

    def scatter_widths(self, brokers: int) -> NDArray[np.int64]:
        """With how many others each broker shares partitions, int64[b] (Cidon et al., USENIX ATC 2013)."""
        pairs = np.zeros((brokers + 1, brokers + 1), np.bool_)
        for one in range(self.places.shape[1]):
            for other in range(self.places.shape[1]):
                pairs[self.places[:, one], self.places[:, other]] = True
        np.fill_diagonal(pairs, val=False)
        widths: NDArray[np.int64] = pairs[:brokers, :brokers].sum(axis=1)
        return widths


def replica_sets(brokers: Brokers, topics: int, topic: IntArray, replicas: IntArray) -> ReplicaSets:
    """The distinct sets of replicas.

    Args:
        brokers: of the layout.
        topics: how many there are.
        topic: int32[n], of each partition.
        replicas: int32[n, w], broker ids, padded.
    """
    base = len(brokers.ids) + 1
    positions = brokers.positions_of(replicas).astype(np.int64)
    positions[positions == NONE] = base - 1
    positions.sort(axis=1)
    places, number = _distinct(positions, base)
    counts = np.bincount(number, minlength=len(places))
    keys, held = np.unique(topic.astype(np.int64) * len(places) + number, return_counts=True)
    starts = np.searchsorted(keys // max(len(places), 1), np.arange(topics + 1))
    return ReplicaSets(places.astype(np.intp), counts, keys % max(len(places), 1), held, starts.astype(np.intp))


def distinct(rows: NDArray[np.intp], base: int) -> NDArray[np.intp]:
    """The distinct rows of numbers below `base`, in order.

    >>> distinct(np.array([[2, 1], [0, 2], [2, 1]]), 3).tolist()
    [[0, 2], [2, 1]]
    """
    if not _fit(rows, base):
        return np.unique(rows, axis=0)
    keys = np.sort(_keys(rows, base))
    keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
    found = np.empty((len(keys), rows.shape[1]), np.intp)
    for place in reversed(range(rows.shape[1])):
        keys, found[:, place] = np.divmod(keys, base)
    return found


def _distinct(rows: NDArray[np.int64], base: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The distinct rows in order, and for each row which of them it is."""
    if _fit(rows, base):
        _, first, number = np.unique(_keys(rows, base), return_index=True, return_inverse=True)
        return rows[first], number.reshape(-1)
    found, number = np.unique(rows, axis=0, return_inverse=True)
    return found, number.reshape(-1)


def _fit(rows: NDArray[np.int64], base: int) -> bool:
    """Whether a row fits one number: those sort ten times as fast as rows."""
    return bool(base ** rows.shape[1] < 1 << 62)


def _keys(rows: NDArray[np.int64], base: int) -> NDArray[np.int64]:
    keys = np.zeros(len(rows), np.int64)
    for column in rows.T:
        keys = keys * base + column
    return keys
