"""Replica assignment of new partitions, rack-unaware and rack-aware (docs/reference/kafka.md §3).

Rules of the module (AdminUtils in Kafka, identical for equal `java.util.Random` numbers):

1. Replicas are spread over a *list* of brokers: as given or, with racks, one broker of each rack in turn.
2. The replicas of a partition depend on two numbers only: the index of its first replica in the list, and its shift,
   which grows by one each time the partitions have gone round the list. Both are computed for all partitions at once,
   so that a million partitions are placed in one pass.
3. With racks, a broker is skipped while a rack has no replica; the count of candidates continues from replica to
   replica.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simzk.errors import LayoutError
from simzk.partitions.arrays import MAX_BROKER_ID, IntArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_Indices: TypeAlias = NDArray[np.int64]


class Random(Protocol):
    """Source of random numbers for start and shift, such as `JavaRandom`."""

    def next_int(self, bound: int, /) -> int:
        """Return a number from 0 to `bound` - 1."""


def assign_replicas(
    brokers: Sequence[int],
    racks: Mapping[int, str] | None,
    partitions: int,
    replication_factor: int,
    fixed_start: int = -1,
    start_partition: int = -1,
    *,
    random: Random | None = None,
) -> dict[int, list[int]]:
    """Return the replicas of a topic's new partitions.

    Args:
        brokers: live broker ids, in the order of the caller (most callers in Kafka sort by id).
        racks: rack of each broker; None or empty for the rack-unaware rule.
        partitions: number of partitions to place.
        replication_factor: replicas of each.
        fixed_start: index in the list of brokers (after alternation by rack) of partition 0's first replica, and the
            shift; -1 draws both from `random`, the index first.
        start_partition: id of the first partition to place; -1 means 0.
        random: source of random numbers; required if `fixed_start` is -1.

    Returns:
        partition id to broker ids in preference order.

    Raises:
        LayoutError: too few brokers, racks for some brokers only, or a number out of range.

    >>> assign_replicas(range(5), None, 2, 3, fixed_start=0)
    {0: [0, 1, 2], 1: [1, 2, 3]}
    """
    listed, rack_numbers = _list_of_brokers(brokers, racks, replication_factor)
    if partitions <= 0:
        raise LayoutError(f"cannot assign {partitions} partitions", right="1 or more partitions")
    start, shift = _start_and_shift(len(listed), fixed_start, random)
    first_id = max(start_partition, 0)
    ids = np.arange(first_id, first_id + partitions, dtype=np.int64)
    # The shift grows at every multiple of the number of brokers but 0, the first partition's included.
    rounds = ids // len(listed) - (max(first_id, 1) - 1) // len(listed)
    placed = _place((ids + start) % len(listed), shift + rounds, len(listed), rack_numbers, replication_factor)
    return dict(zip(ids.tolist(), listed[placed].tolist(), strict=True))


def assign_topics(
    brokers: Sequence[int],
    racks: Mapping[int, str] | None,
    partitions: Sequence[int],
    replication_factor: int,
    *,
    random: Random,
) -> IntArray:
    """Return the replicas of many new topics, each with its own start and shift.

    Args:
        brokers, racks, replication_factor, random: as in `assign_replicas`.
        partitions: number of partitions of each topic.

    Returns:
        int32[sum(partitions), replication_factor]: the results of `assign_replicas` for each topic, concatenated.

    Raises:
        LayoutError: as in `assign_replicas`.
    """
    listed, rack_numbers = _list_of_brokers(brokers, racks, replication_factor)
    counts = np.asarray(partitions, dtype=np.int64)
    if (counts <= 0).any():
        raise LayoutError(f"cannot assign {counts.min()} partitions", right="1 or more partitions")
    drawn = np.array([_start_and_shift(len(listed), -1, random) for _ in partitions], dtype=np.int64).reshape(-1, 2)
    assert drawn.shape == (len(counts), 2)
    starts, shifts = np.repeat(drawn, counts, axis=0).T
    ids = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rounds = ids // len(listed)
    return listed[_place((ids + starts) % len(listed), shifts + rounds, len(listed), rack_numbers, replication_factor)]


def start_index_for_addition(brokers: Sequence[int], first_replica: int) -> int:
    """Return the `fixed_start` for adding partitions to a topic (0.10.0+, §3.3).

    Args:
        brokers: broker ids, ascending.
        first_replica: the preferred replica of the topic's partition 0.

    >>> start_index_for_addition([1, 3, 5], 3), start_index_for_addition([1, 3, 5], 9)
    (1, 0)
    """
    assert list(brokers) == sorted(brokers), "broker ids ascend"
    return next((index for index, broker in enumerate(brokers) if broker >= first_replica), 0)


def alternated_by_rack(racks: Mapping[int, str]) -> list[int]:
    """Return the brokers so that neighbours are in different racks: one of each rack in turn.

    >>> alternated_by_rack({0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"})
    [0, 3, 1, 5, 4, 2]
    """
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    # Java compares strings by UTF-16 code units.
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack, key=lambda rack: rack.encode("utf-16-be"))))
    brokers = [broker for turn in rounds for broker in turn if broker is not None]
    assert len(brokers) == len(racks)
    return brokers


def _list_of_brokers(
    brokers: Sequence[int], racks: Mapping[int, str] | None, replication_factor: int
) -> tuple[IntArray, _Indices | None]:
    """Return the list over which replicas are spread, and with racks the rack number of each position."""
    if replication_factor <= 0:
        raise LayoutError(f"replication factor {replication_factor} is out of range", right="1 or more")
    if replication_factor > len(brokers):
        raise LayoutError(
            f"replication factor {replication_factor} is larger than the {len(brokers)} available brokers"
        )
    if len(set(brokers)) != len(brokers) or min(brokers) < 0 or max(brokers) > MAX_BROKER_ID:
        raise LayoutError("broker ids are repeated or out of range", right=f"distinct ids from 0 to {MAX_BROKER_ID}")
    if not racks:
        return np.array(brokers, dtype=np.int32), None
    without = [broker for broker in brokers if broker not in racks]
    if without:
        raise LayoutError(f"not all brokers have rack information: {without[:5]} have none", right="all or none")
    listed = alternated_by_rack({broker: racks[broker] for broker in brokers})
    numbers = {rack: number for number, rack in enumerate(dict.fromkeys(racks[broker] for broker in listed))}
    return np.array(listed, dtype=np.int32), np.array([numbers[racks[broker]] for broker in listed], dtype=np.int64)


def _start_and_shift(brokers: int, fixed_start: int, chance: Random | None) -> tuple[int, int]:
    if fixed_start >= 0:
        return fixed_start, fixed_start
    assert chance is not None, "an assignment without fixed_start requires random"
    start, shift = chance.next_int(brokers), chance.next_int(brokers)
    assert 0 <= start < brokers
    assert 0 <= shift < brokers
    return start, shift


def _place(
    first: _Indices, shift: _Indices, brokers: int, racks: _Indices | None, replication_factor: int
) -> NDArray[np.intp]:
    """Return indices into the list of brokers, `intp[k, replication_factor]`, from first index and shift."""
    assert first.shape == shift.shape
    assert first.min(initial=0) >= 0
    assert first.max(initial=0) < brokers
    assert racks is None or len(racks) == brokers
    others = max(brokers - 1, 1)
    rack_count = 1 if racks is None else int(racks.max()) + 1
    step = shift * rack_count % others
    if first.size > brokers * others:
        # The result depends on (first, step) only: compute each pair once and look it up for each partition.
        pairs = np.arange(brokers * others, dtype=np.int64)
        table = _place_pairs(pairs // others, pairs % others, brokers, racks, replication_factor)
        placed: NDArray[np.intp] = table[first * others + step]
        return placed
    return _place_pairs(first, step, brokers, racks, replication_factor)


def _place_pairs(
    first: _Indices, step: _Indices, brokers: int, racks: _Indices | None, replication_factor: int
) -> NDArray[np.intp]:
    assert replication_factor <= brokers
    others = max(brokers - 1, 1)
    placed = np.empty((first.size, replication_factor), dtype=np.intp)
    placed[:, 0] = first
    if racks is None:
        for replica in range(1, replication_factor):
            placed[:, replica] = (first + 1 + (step + replica - 1) % others) % brokers
        return placed
    rack_count = int(racks.max()) + 1
    racks_used = np.ones(first.size, dtype=np.int64)
    tried = np.zeros(first.size, dtype=np.int64)
    for replica in range(1, replication_factor):
        pending = np.arange(first.size)
        # Each pass tries one candidate; after all other brokers every partition has found one.
        for _ in range(others):
            candidate = (first[pending] + 1 + (step[pending] + tried[pending]) % others) % brokers
            tried[pending] += 1
            earlier = placed[pending, :replica]
            new_rack = (racks[earlier] != racks[candidate][:, None]).all(axis=1)
            accepted = new_rack | (racks_used[pending] == rack_count)
            accepted &= (earlier != candidate[:, None]).all(axis=1)
            done = pending[accepted]
            placed[done, replica] = candidate[accepted]
            racks_used[done] += new_rack[accepted]
            pending = pending[~accepted]
            if pending.size == 0:
                break
        assert pending.size == 0, "a replica found no broker"
    return placed
