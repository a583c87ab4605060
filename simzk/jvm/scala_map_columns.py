"""The orders of `scala_order` over columns: where each key of a batch stands, by the hashes of the keys.

Rules of the module:

1. What comes back are places: `keys[set_order(hashes)]` are the keys as Scala iterates over them.
2. The rules are those of `scala_order`, which serves batches of few keys and the mutable maps of before Scala 2.13; a
   larger batch is put in order by sorting numbers that say where in the trie, or in the table, a key is.
3. Hashes are int32, as the JVM keeps them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from simzk.jvm.scala_maps import SMALL, Scala, hash_order, mutable_order, string_hash
from simzk.partitions.arrays import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray

    Places = NDArray[np.intp]

FEW = 64
"""Up to so many keys the plain functions are quicker."""
_LEVELS = 7
_KEY_LEVEL_BITS = 6
_SHARED = 32
"""Of a level's bits in a key: whether another key is in the same slot; the others are the slot."""
_PLACE_BITS = 21
_BEHIND_ALL = np.iinfo(np.int64).max
KEY_BITS = 63 - _PLACE_BITS
"""Of the largest key that `places_in_order` takes."""
_LARGEST_UNIT = 0xFFFF
_REPLICA_CLASS = "PartitionAndReplica"


def set_order(hashes: IntArray, scala: Scala = "2.13", *, hashed: bool = False) -> Places:
    """Where the keys of an immutable Set, given in insertion order, stand as it iterates.

    Args:
        hashes: int32[k], of distinct keys.
        scala: the Scala line.
        hashed: whether it is a hash set whatever its size.

    >>> set_order(np.array([1, 2, 3, 4, 5], np.int32)).tolist()
    [4, 0, 1, 2, 3]
    """
    count = len(hashes)
    if count <= SMALL and not hashed:
        return np.arange(count)
    if count <= FEW:
        values = hashes.tolist()
        return np.array(hash_order(range(count), scala, values.__getitem__), dtype=np.intp)
    paths = _paths(hashes)
    return _champ_order(paths) if scala == "2.13" else places_in_order(paths.astype(np.int64))


def map_order(hashes: IntArray, scala: Scala = "2.13", *, entries: int | None = None) -> Places:
    """Where the keys of a `mutable.HashMap`, given in insertion order, stand as it iterates.

    Args:
        hashes: int32[k], of distinct keys.
        scala: the Scala line.
        entries: how many keys the map has, where these are only some of them (2.13 alone: there the order of some
            follows from their number).

    >>> map_order(np.array([17, 1, 16], np.int32)).tolist()
    [2, 1, 0]
    """
    count = len(hashes)
    assert entries is None or scala == "2.13"
    if scala != "2.13" or (count <= FEW and entries in (None, count)):
        values = hashes.tolist()
        return np.array(mutable_order(range(count), scala, values.__getitem__), dtype=np.intp)
    mixed = hashes ^ (hashes.view(np.uint32) >> np.uint32(16)).view(np.int32)
    low = mixed & np.int32(buckets_of(count if entries is None else entries) - 1)
    return np.lexsort((mixed, low)) if count <= FEW else _bucket_order(low, mixed)


def _bucket_order(low: IntArray, mixed: IntArray) -> Places:
    # What is above the low bits decides among those of one bucket: together they are one number of 32 bits.
    bits = max(int(low.max(initial=0)).bit_length(), 1)
    return places_in_order(low.astype(np.int64) << (32 - bits) | (mixed.astype(np.int64) + 2**31) >> bits)


def places_in_order(keys: NDArray[np.int64]) -> Places:
    """Where keys stand when they are sorted, equal ones in the order given.

    Args:
        keys: int64[k], from 0 up to 42 bits.

    >>> places_in_order(np.array([7, 3, 7, 1])).tolist()
    [3, 1, 0, 2]
    """
    if len(keys) > 1 << _PLACE_BITS:
        return np.argsort(keys, kind="stable")
    # Sorting numbers that end in their places is ten times faster than sorting places by numbers.
    packed = np.sort(keys << _PLACE_BITS | np.arange(len(keys)))
    places: Places = (packed & (1 << _PLACE_BITS) - 1).astype(np.intp, copy=False)
    return places


def buckets_of(entries: int) -> int:
    """The buckets of a mutable map of 2.13 that began empty and has so many entries."""
    size = 16
    while entries >= size * 3 // 4:
        size *= 2
    return size


def partition_hashes(topic: IntArray, partition: IntArray, *, case_classes: bool = False) -> IntArray:
    """The JVM's hashes of partitions as the controller names them.

    Args:
        topic: int32[k], hashes of the topics' names.
        partition: int32[k], ids.
        case_classes: the key is the case class `TopicAndPartition` (up to Kafka 1.0).

    >>> partition_hashes(np.array([string_hash("t")], np.int32), np.array([0], np.int32)).tolist()
    [1077]
    """
    if case_classes:
        return product_hashes(topic, partition)
    wrapped: IntArray = (np.uint32(31) * (np.uint32(31) + partition.view(np.uint32)) + topic.view(np.uint32)).view(
        np.int32
    )
    return wrapped


def string_hashes(texts: Sequence[str]) -> IntArray:
    """`scala_order.string_hash` of many: int32[k].

    >>> string_hashes(["hello", ""]).tolist()
    [99162322, 0]
    """
    hashes = np.zeros(len(texts), dtype=np.uint32)
    lengths = np.fromiter(map(len, texts), dtype=np.intp, count=len(texts))
    longest = int(lengths.max(initial=0))
    if longest:
        units = np.array(texts, dtype=f"U{longest}").view(np.uint32).reshape(len(texts), longest)
        for place in range(longest):
            np.copyto(hashes, hashes * np.uint32(31) + units[:, place], where=lengths > place)
        # Beyond the sixteenth bit a character is two units.
        for odd in np.flatnonzero((units > _LARGEST_UNIT).any(axis=1)).tolist():
            hashes[odd] = string_hash(texts[odd]) & 0xFFFF_FFFF
    return hashes.view(np.int32)


def replica_hashes(partition: IntArray, broker: IntArray, scala: Scala) -> IntArray:
    """The JVM's hashes of `PartitionAndReplica(topicPartition, replica)`, by the hashes of the partitions."""
    return product_hashes(partition, broker, class_name=_REPLICA_CLASS if scala == "2.13" else "")


def product_hashes(*elements: IntArray, class_name: str = "") -> IntArray:
    """`scala_order.product_hash` of many: int32[k], by the hashes of the fields, int32[k] each."""
    value = np.full(len(elements[0]), 0xCAFE_BABE, dtype=np.uint32)
    if class_name:
        value = _mix(value, np.full(1, string_hash(class_name), dtype=np.int32))
    for element in elements:
        value = _mix(value, element)
    value ^= np.uint32(len(elements))
    value = (value ^ value >> np.uint32(16)) * np.uint32(0x85EB_CA6B)
    value = (value ^ value >> np.uint32(13)) * np.uint32(0xC2B2_AE35)
    finished: IntArray = (value ^ value >> np.uint32(16)).view(np.int32)
    return finished


def _mix(value: NDArray[np.uint32], element: IntArray) -> NDArray[np.uint32]:
    mixed = np.ascontiguousarray(element).view(np.uint32) * np.uint32(0xCC9E_2D51)
    mixed = _rotated(mixed, 15) * np.uint32(0x1B87_3593)
    return _rotated(value ^ mixed, 13) * np.uint32(5) + np.uint32(0xE654_6B64)


def _rotated(value: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return value << np.uint32(bits) | value >> np.uint32(32 - bits)


def _paths(hashes: IntArray) -> NDArray[np.uint32]:
    """The path of each key in the trie as a number: its groups of five bits, the one at the root first."""
    value = np.ascontiguousarray(hashes).view(np.uint32)
    value = value + ~(value << np.uint32(9))
    value = value ^ value >> np.uint32(14)
    value = value + (value << np.uint32(4))
    value = value ^ value >> np.uint32(10)
    path = np.zeros_like(value)
    for level in range(_LEVELS - 1):
        path |= (value >> np.uint32(5 * level) & np.uint32(31)) << np.uint32(27 - 5 * level)
    return path | value >> np.uint32(30)


def _champ_order(paths: NDArray[np.uint32]) -> Places:
    """A node's keys that are alone in their slots stand before its sub-nodes: the level of each is what it takes."""
    sorted_by = places_in_order(paths.astype(np.int64))
    ordered = paths[sorted_by]
    return sorted_by[places_in_order(_champ_keys(ordered, _in_common(ordered)))]


def _in_common(ordered: NDArray[np.uint32]) -> NDArray[np.int64]:
    """How many groups each path has in common with the next one, of ascending paths along the last axis."""
    differing = (ordered[..., 1:] ^ ordered[..., :-1]).astype(np.float64)
    highest = np.frexp(differing)[1] - 1  # of the bits; -1 where they are equal
    return np.where(highest < 0, _LEVELS, (31 - highest) // 5)


def _champ_keys(ordered: NDArray[np.uint32], common: NDArray[np.int64]) -> NDArray[np.int64]:
    """What ascends as the keys of a set iterate, by their ascending paths and what neighbours have in common."""
    alone_at = np.zeros(ordered.shape, dtype=np.int64)
    alone_at[..., :-1] = common
    np.maximum(alone_at[..., 1:], common, out=alone_at[..., 1:])
    # Deeper than where the last one is alone nothing is left to tell.
    levels = min(int(alone_at.max(initial=0)) + 1, _LEVELS)
    wide, key = ordered.astype(np.int64), np.zeros(ordered.shape, dtype=np.int64)
    for level in range(levels):
        key <<= _KEY_LEVEL_BITS
        key |= wide & 3 if level == _LEVELS - 1 else wide >> (27 - 5 * level) & 31
        key |= _SHARED
    key &= _told(levels).take(alone_at)
    return key


@cache
def _told(levels: int) -> NDArray[np.int64]:
    """Of a key of so many levels the bits that tell something, by the level at which it is alone: int64[8]."""
    every = (1 << _KEY_LEVEL_BITS * levels) - 1
    masks = []
    for alone_at in range(_LEVELS + 1):
        below = _KEY_LEVEL_BITS * max(levels - 1 - alone_at, 0)
        not_shared = _SHARED << below if alone_at < levels else 0
        masks.append(every & ~((1 << below) - 1) & ~not_shared)
    return np.array(masks, dtype=np.int64)


def lists_in_hash_order(ids: IntArray, scala: Scala = "2.13") -> IntArray:
    """Each list of broker ids as an immutable hash set of them iterates.

    Args:
        ids: int32[k, w], padded lists of distinct ids.
        scala: the Scala line.

    >>> lists_in_hash_order(np.array([[1, 2, 3, 4, 5], [9, 8, 7, -1, -1]], np.int32)).tolist()
    [[5, 1, 2, 3, 4], [9, 7, 8, -1, -1]]
    """
    padding = ids == NONE
    paths = _paths(ids.ravel()).reshape(ids.shape)
    order = np.argsort(np.where(padding, _BEHIND_ALL, paths.astype(np.int64)), axis=1, kind="stable")
    ids, padding, paths = (np.take_along_axis(column, order, axis=1) for column in (ids, padding, paths))
    if scala != "2.13":
        return ids
    common = np.where(padding[:, 1:], 0, _in_common(paths))
    keys = np.where(padding, _BEHIND_ALL, _champ_keys(paths, common))
    return np.take_along_axis(ids, np.argsort(keys, axis=1, kind="stable"), axis=1)
