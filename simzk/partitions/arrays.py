"""Lists of broker ids as padded arrays, the representation that all functions of this package use.

Rules of the module:

1. A batch of k lists is `int32[k, w]`: each row has its ids from the left in order, then `NONE` (-1) up to the width.
2. A set of brokers (live, shutting down) is a *mask*, `bool[m]` over broker ids. An id beyond the mask is not in the
   set, so a replica on an unknown broker counts as dead.
3. A batch may be stored by row or by column; results are stored by column, because the rules work column by column.
   Elements are selected by bit operations, not branches: branches on random data are mispredicted.
4. No function changes its arguments.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

IntArray: TypeAlias = NDArray[np.int32]
BoolArray: TypeAlias = NDArray[np.bool_]
Column = TypeVar("Column", IntArray, BoolArray)
Integer = TypeVar("Integer", bound=np.integer)

NONE = -1
"""The id of no broker: padding of a list, and the leader of a partition without leader."""

_LOT = 2**13

MAX_BROKER_ID = 2**20 - 1
"""The largest broker id accepted: a mask over all ids takes at most one megabyte."""


_FEW = 16
"""Up to this many lists are packed one by one, which is faster."""


def pack(lists: Sequence[Sequence[int]], width: int | None = None) -> IntArray:
    """Return lists of ids as a padded array.

    Args:
        lists: k lists of broker ids.
        width: columns of the result [default: the length of the longest list, at least 1].

    Returns:
        `int32[k, width]`.

    >>> pack([[3, 1], [2]]).tolist()
    [[3, 1], [2, -1]]
    """
    longest = max(map(len, lists), default=0)
    width = max(longest, 1) if width is None else width
    assert width >= longest, f"width {width} is less than the longest list, {longest}"
    packed = np.full((len(lists), width), NONE, dtype=np.int32)
    if len(lists) > _FEW:
        lengths = np.fromiter(map(len, lists), dtype=np.intp, count=len(lists))
        values = np.fromiter(chain.from_iterable(lists), dtype=np.int32, count=int(lengths.sum()))
        if len(values) == packed.size:  # no list is shorter than the longest
            return values.reshape(packed.shape)
        packed[np.arange(width) < lengths[:, None]] = values
        return packed
    for row, ids in enumerate(lists):
        packed[row, : len(ids)] = ids
    return packed


def pack_flat(values: IntArray, lengths: NDArray[np.integer]) -> IntArray:
    """Return concatenated lists as a padded array.

    Args:
        values: int[n], the ids of all lists, one list after another.
        lengths: int[k], the length of each list.

    Returns:
        [k, w], of the type of `values`.

    >>> pack_flat(np.array([3, 1, 2], np.int32), np.array([2, 0, 1])).tolist()
    [[3, 1], [-1, -1], [2, -1]]
    """
    width = max(int(lengths.max(initial=0)), 1)
    assert lengths.sum() == len(values), f"the lengths add up to {lengths.sum()}, not to the {len(values)} values"
    if len(values) == len(lengths) * width:
        return values.reshape(len(lengths), width)
    packed = np.full((len(lengths), width), NONE, values.dtype)
    packed[np.arange(width) < lengths[:, None]] = values
    return packed


def unpack(ids: IntArray) -> list[tuple[int, ...]]:
    """Return the lists of a padded array, int32[k, w].

    >>> unpack(pack([[3, 1], [2], []]))
    [(3, 1), (2,), ()]
    """
    return [tuple(row[:length]) for row, length in zip(ids.tolist(), sizes(ids).tolist(), strict=True)]


def sizes(ids: IntArray) -> IntArray:
    """Return the length of each list, `int32[k]`."""
    return count_of(ids != NONE)


def widen(ids: IntArray, width: int) -> IntArray:
    """Return the lists in at least `width` columns; the same array if it is wide enough."""
    missing = width - ids.shape[1]
    return ids if missing <= 0 else np.pad(ids, ((0, 0), (0, missing)), constant_values=NONE)


def broker_mask(brokers: Iterable[int]) -> BoolArray:
    """Return a set of brokers as a mask over broker ids, `bool[m]`.

    >>> broker_mask([0, 2]).tolist()
    [True, False, True]
    """
    members = np.fromiter(brokers, dtype=np.int64)
    mask = np.zeros(int(members.max(initial=-1)) + 1, dtype=np.bool_)
    assert members.size == 0 or (members.min() >= 0 and members.max() <= MAX_BROKER_ID), f"broker ids {members}"
    mask[members] = True
    return mask


def by_broker(values: Mapping[int, int], default: int) -> NDArray[np.int64]:
    """Return a column of values over broker ids, `int64[m + 1]`; the last entry, `default`, is that of `NONE`.

    >>> by_broker({0: 7, 2: 9}, -5).tolist()
    [7, -5, 9, -5]
    """
    ids = np.fromiter(values, dtype=np.int64, count=len(values))
    assert ids.size == 0 or (ids.min() >= 0 and ids.max() <= MAX_BROKER_ID), f"broker ids {ids}"
    column = np.full(int(ids.max(initial=NONE)) + 2, default, dtype=np.int64)
    column[ids] = np.fromiter(values.values(), dtype=np.int64, count=len(values))
    return column


def among(ids: IntArray, mask: BoolArray) -> BoolArray:
    """Return which ids are in the set, in the shape of `ids`; padding and ids beyond the mask are not."""
    assert mask.ndim == 1
    # As an unsigned number padding is beyond every mask; `clip` then reads the appended False.
    places = ids.astype(np.int32, copy=False).view(np.uint32)
    found: BoolArray = np.append(mask, np.False_).take(places.T, mode="clip").T
    return found


def contained(ids: IntArray, others: IntArray) -> BoolArray:
    """Return which ids occur in the same row of `others`, in the shape of `ids`; padding does not."""
    assert len(ids) == len(others), f"{len(ids)} lists are compared with {len(others)}"
    columns, other_columns = np.ascontiguousarray(ids.T), np.ascontiguousarray(others.T)
    found = np.zeros(columns.shape, dtype=np.bool_)
    for other in other_columns:
        found |= columns == other
    found &= columns != NONE
    return found.T


def all_in(ids: IntArray, others: IntArray) -> BoolArray:
    """Return whether all ids of each row occur in the same row of `others`, `bool[k]`; true for an empty list."""
    return ~any_of((ids != NONE) & ~contained(ids, others))


def sorted_distinct(values: NDArray[Integer]) -> NDArray[Integer]:
    """Return the distinct values, ascending, of their dtype.

    `np.unique` hashes integers from numpy 2.3 on, which takes a hundred times as long for a million values.

    >>> sorted_distinct(np.array([3, 1, 3], dtype=np.int32)).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def any_of(mask: BoolArray) -> BoolArray:
    """Return whether any element of each row is set, `bool[k]`. Works by column: numpy reduces short rows slowly."""
    assert mask.ndim == 2
    assert mask.shape[1] >= 1
    found = mask[:, 0].copy()
    for column in range(1, mask.shape[1]):
        found |= mask[:, column]
    return found


def count_of(mask: BoolArray) -> IntArray:
    """Return the number of set elements of each row, `int32[k]`."""
    assert mask.ndim == 2
    counts = np.zeros(len(mask), dtype=np.int32)
    for column in range(mask.shape[1]):
        counts += mask[:, column]
    return counts


def first(ids: IntArray, chosen: BoolArray) -> IntArray:
    """Return the first chosen id of each row, -1 for none; `int32[k]`."""
    columns = _or_none(ids, chosen)
    found: IntArray = columns[-1]
    for column in columns[-2::-1]:
        found = column ^ ((column ^ found) & _gaps(column))
    return found


def keep(ids: IntArray, kept: BoolArray) -> IntArray:
    """Return the kept ids of each row in their order, padded, `int32[k, w]`.

    >>> keep(pack([[3, 1, 2]]), np.array([[True, False, True]])).tolist()
    [[3, 2, -1]]
    """
    columns = _or_none(ids, kept)
    # Each pass moves every gap one place to the right.
    for end in range(len(columns) - 1, 0, -1):
        for place in range(end):
            left, right = columns[place], columns[place + 1]
            gaps = _gaps(left)
            left ^= (left ^ right) & gaps
            right |= gaps
    return columns.T


def without(ids: IntArray, others: IntArray) -> IntArray:
    """Return the ids of each row that do not occur in the same row of `others`, padded, `int32[k, w]`."""
    return keep(ids, (ids != NONE) & ~contained(ids, others))


def concat(left: IntArray, right: IntArray) -> IntArray:
    """Concatenate the lists of each row, in as few columns as possible.

    >>> concat(pack([[3, 1], [2]]), pack([[4], [5]])).tolist()
    [[3, 1, 4], [2, 5, -1]]
    """
    both = np.concatenate([left, right], axis=1)
    lists = keep(both, both != NONE)
    return lists[:, : max(int(sizes(lists).max(initial=0)), 1)]


def choose(mask: BoolArray, then: IntArray | np.int32, other: IntArray | np.int32) -> IntArray:
    """Return `then` where the mask is set, `other` elsewhere.

    Bit operations, because `np.where` branches on each element, which is up to ten times slower on random masks.

    >>> choose(np.array([True, False]), np.array([1, 2], np.int32), np.array([-1, -7], np.int32)).tolist()
    [1, -7]
    """
    # numpy would broadcast a column of one row silently.
    assert np.shape(then) in ((), mask.shape)
    assert np.shape(other) in ((), mask.shape)
    return other ^ ((other ^ then) & -mask.astype(np.int32))


def taken(column: Column, rows: NDArray[np.integer]) -> Column:
    """Copy some rows of a column or of lists; lists keep their memory order."""
    assert rows.ndim == 1
    if column.ndim == 2 and not column.flags.c_contiguous:
        return column.T.take(rows, axis=1).T
    return column.take(rows, axis=0)


def lots(rows: int) -> Iterator[slice]:
    """Yield slices of `rows` rows that fit the processor cache."""
    return (slice(begin, begin + _LOT) for begin in range(0, rows, _LOT))


def _or_none(ids: IntArray, chosen: BoolArray) -> IntArray:
    """Return the chosen ids, NONE for the others, one line per place: int32[w, k]."""
    assert ids.shape == chosen.shape
    assert ids.dtype == np.int32, "NONE is recognised by the sign bit of 32"
    return np.ascontiguousarray(ids.T) | (np.ascontiguousarray(chosen.T).astype(np.int32) - np.int32(1))


def _gaps(column: IntArray) -> IntArray:
    """Return all bits set where an entry is NONE, else 0."""
    return column >> np.int32(31)


def alone(ids: IntArray, width: int) -> IntArray:
    """Return each id as a list of one, `int32[k, width]`."""
    assert width >= 1
    lists = np.full((len(ids), width), NONE, dtype=np.int32, order="F")
    lists[:, 0] = ids
    return lists


def with_duplicates(ids: IntArray) -> BoolArray:
    """Return which rows name a broker twice, `bool[k]`; by column, because rows are short and columns long."""
    twice = np.zeros(len(ids), dtype=np.bool_)
    for right in range(1, ids.shape[1]):
        for left in range(right):
            twice |= (ids[:, left] == ids[:, right]) & (ids[:, right] != NONE)
    return twice


def is_padded(ids: IntArray) -> bool:
    """Return whether every list starts at the left of its row and contains nothing below -1."""
    gap = (ids[:, :-1] == NONE) & (ids[:, 1:] != NONE)
    return not gap.any() and bool((ids >= NONE).all())
