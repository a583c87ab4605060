"""Order of Scala's maps and sets for whole columns of keys, given by their hash codes.

Rules of this module:
  - functions return places: `keys[set_order(hashes)]` are the keys in order of iteration;
  - the rules are those of `scala_collections`, which is called for few keys and for mutable maps before Scala 2.13. A
    larger batch is ordered by sorting numbers that encode the place of a key in the trie or in the table;
  - hash codes are int32, as on the JVM.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from simzk.jvm.hash_codes import spread_hashes, string_hash
from simzk.jvm.scala_collections import SMALL, Scala, buckets_of, hash_order, mutable_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    IntArray: TypeAlias = NDArray[np.int32]
    Places: TypeAlias = NDArray[np.intp]

FEW = 64
"""Largest batch for which the plain functions are faster."""
_LEVELS = 7
_KEY_LEVEL_BITS = 6
_SHARED = 32
"""Bit of a level in a sort key: another key is in the same slot. The other bits of a level are the slot."""
_PLACE_BITS = 21
_LAST = np.iinfo(np.int64).max
KEY_BITS = 63 - _PLACE_BITS
"""Bits of the largest sort key of `places_in_order`."""


def set_order(hashes: IntArray, scala: Scala = "2.13", *, hashed: bool = False) -> Places:
    """Return the places of the keys of an immutable Set, given in order of insertion, in order of iteration.

    Args:
        hashes: int32[k], of distinct keys.
        scala: Scala version.
        hashed: True for a hash set at any size.

    >>> set_order(np.array([1, 2, 3, 4, 5], np.int32)).tolist()
    [4, 0, 1, 2, 3]
    """
    assert hashes.dtype == np.int32, "hash codes are those of the JVM"
    count = len(hashes)
    if count <= SMALL and not hashed:
        return np.arange(count)
    if count <= FEW:
        values = hashes.tolist()
        return np.array(hash_order(range(count), scala, values.__getitem__), dtype=np.intp)
    paths = _paths(hashes)
    return _champ_order(paths) if scala == "2.13" else places_in_order(paths.astype(np.int64))


def map_order(hashes: IntArray, scala: Scala = "2.13", *, most: int = 0) -> Places:
    """Return the places of the keys of a `mutable.HashMap`, given in order of insertion, in order of iteration.

    Args:
        hashes: int32[k], of distinct keys.
        scala: Scala version.
        most: number of keys that the map had before it was cleared (2.10 to 2.12).

    >>> map_order(np.array([17, 1, 16], np.int32)).tolist()
    [2, 1, 0]
    """
    assert hashes.dtype == np.int32, "hash codes are those of the JVM"
    count = len(hashes)
    if scala != "2.13" or count <= FEW:
        values = hashes.tolist()
        return np.array(mutable_order(range(count), scala, values.__getitem__, most=most), dtype=np.intp)
    mixed = hashes ^ (hashes.view(np.uint32) >> np.uint32(16)).view(np.int32)
    low = mixed & np.int32(buckets_of(count) - 1)
    # Within a bucket the bits above the low ones decide: both together are one number of 32 bits.
    bits = max(int(low.max(initial=0)).bit_length(), 1)
    return places_in_order(low.astype(np.int64) << (32 - bits) | (mixed.astype(np.int64) + 2**31) >> bits)


def places_in_order(keys: NDArray[np.int64]) -> Places:
    """Return the places of keys (int64[k], from 0 up to 42 bits) in ascending order, equal keys in the order given.

    >>> places_in_order(np.array([7, 3, 7, 1])).tolist()
    [3, 1, 0, 2]
    """
    if len(keys) > 1 << _PLACE_BITS:
        return np.argsort(keys, kind="stable")
    # Sorting numbers that end in their place is ten times faster than `argsort`.
    packed = np.sort(keys << _PLACE_BITS | np.arange(len(keys)))
    places: Places = (packed & (1 << _PLACE_BITS) - 1).astype(np.intp, copy=False)
    return places


def string_hashes(texts: Sequence[str]) -> IntArray:
    """Return `String.hashCode` of each text: int32[k].

    >>> string_hashes(["hello", ""]).tolist()
    [99162322, 0]
    """
    spreads = spread_hashes(texts)
    hashes = np.fromiter(map(spreads.__getitem__, texts), dtype=np.uint32, count=len(texts))
    return (hashes ^ hashes >> np.uint32(16)).view(np.int32)  # `spread` is its own inverse


def product_hashes(*elements: IntArray, class_name: str = "") -> IntArray:
    """Return `product_hash` of each row: int32[k], from the hash codes of each field, int32[k]."""
    assert len(set(map(len, elements))) == 1, "each field has as many hash codes"
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
    mixed = _rotate_left(mixed, 15) * np.uint32(0x1B87_3593)
    return _rotate_left(value ^ mixed, 13) * np.uint32(5) + np.uint32(0xE654_6B64)


def _rotate_left(value: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return value << np.uint32(bits) | value >> np.uint32(32 - bits)


def _paths(hashes: IntArray) -> NDArray[np.uint32]:
    """Return the path of each key in the trie as a number: groups of five bits, the one at the root first."""
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
    """Return places in the order of a CHAMP trie: in a node, keys alone in their slot precede the sub-nodes."""
    sorted_by = places_in_order(paths.astype(np.int64))
    ordered = paths[sorted_by]
    return sorted_by[places_in_order(_champ_keys(ordered, _shared_groups(ordered)))]


def _shared_groups(ordered: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return how many groups each path shares with the next one; paths ascend along the last axis."""
    differing = (ordered[..., 1:] ^ ordered[..., :-1]).astype(np.float64)
    highest = np.frexp(differing)[1] - 1  # highest differing bit; -1 if equal
    return np.where(highest < 0, _LEVELS, (31 - highest) // 5)


def _champ_keys(ordered: NDArray[np.uint32], common: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return sort keys in the order of a CHAMP trie, from ascending paths and the groups shared by neighbours."""
    assert common.shape[-1] == max(ordered.shape[-1] - 1, 0), "neighbours are pairs"
    alone_at = np.zeros(ordered.shape, dtype=np.int64)
    alone_at[..., :-1] = common
    np.maximum(alone_at[..., 1:], common, out=alone_at[..., 1:])
    # Below the deepest level at which a key is alone, no bits decide.
    levels = min(int(alone_at.max(initial=0)) + 1, _LEVELS)
    wide, key = ordered.astype(np.int64), np.zeros(ordered.shape, dtype=np.int64)
    for level in range(levels):
        key <<= _KEY_LEVEL_BITS
        key |= wide & 3 if level == _LEVELS - 1 else wide >> (27 - 5 * level) & 31
        key |= _SHARED
    key &= _deciding_bits(levels).take(alone_at)
    return key


@cache
def _deciding_bits(levels: int) -> NDArray[np.int64]:
    """Return the deciding bits of a sort key of `levels` levels, by the level at which the key is alone: int64[8]."""
    assert 0 < levels <= _LEVELS
    every = (1 << _KEY_LEVEL_BITS * levels) - 1
    masks = []
    for alone_at in range(_LEVELS + 1):
        below = _KEY_LEVEL_BITS * max(levels - 1 - alone_at, 0)
        not_shared = _SHARED << below if alone_at < levels else 0
        masks.append(every & ~((1 << below) - 1) & ~not_shared)
    return np.array(masks, dtype=np.int64)


def lists_in_hash_order(ids: IntArray, scala: Scala = "2.13") -> IntArray:
    """Return each list of broker ids in the order in which an immutable hash set of them iterates.

    Args:
        ids: int32[k, w], lists of distinct ids, padded with -1.
        scala: Scala version.

    >>> lists_in_hash_order(np.array([[1, 2, 3, 4, 5], [9, 8, 7, -1, -1]], np.int32)).tolist()
    [[5, 1, 2, 3, 4], [9, 7, 8, -1, -1]]
    """
    assert ids.dtype == np.int32, "a broker id is its own hash code"
    padding = ids < 0
    paths = _paths(ids.ravel()).reshape(ids.shape)
    order = np.argsort(np.where(padding, _LAST, paths.astype(np.int64)), axis=1, kind="stable")
    ids = np.take_along_axis(ids, order, axis=1)
    padding = np.take_along_axis(padding, order, axis=1)
    paths = np.take_along_axis(paths, order, axis=1)
    if scala != "2.13":
        return ids
    common = np.where(padding[:, 1:], 0, _shared_groups(paths))
    keys = np.where(padding, _LAST, _champ_keys(paths, common))
    return np.take_along_axis(ids, np.argsort(keys, axis=1, kind="stable"), axis=1)
