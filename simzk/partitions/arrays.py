"""Lists of broker ids as padded arrays: the one representation that every rule of this room takes and returns.

Rules of the module:

1. A batch of k lists is `int32[k, w]`: each row holds its ids from the left in order, then `NONE` (-1) to the width.
2. A set of brokers (the live ones, the ones shutting down) is a *mask*: `bool[m]` over broker ids. An id beyond the
   mask is not in the set, so a replica on a broker nobody has heard of is simply dead.
3. A batch may lie in memory row by row or column by column; what comes back lies column by column, as every step of
   every rule goes. What decides on each element is bits, not branches: a processor foresees no branch of random data.
4. No function here changes what it is handed.
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

NONE = -1
"""The id of no broker: padding of a list, and the leader of a partition that has none."""

_LOT = 2**13

MAX_BROKER_ID = 2**20 - 1
"""The largest broker id that this room accepts: a mask over all ids then stays at one megabyte."""


_FEW = 16
"""Up to so many lists are packed one by one, which is quicker."""


def pack(lists: Sequence[Sequence[int]], width: int | None = None) -> IntArray:
    """Lists of ids as a padded array.

    Args:
        lists: k lists of broker ids.
        width: columns of the result; the longest list (at least 1) where not given.

    Returns:
        `int32[k, width]`.

    >>> pack([[3, 1], [2]]).tolist()
    [[3, 1], [2, -1]]
    """
    longest = max(map(len, lists), default=0)
    width = max(longest, 1) if width is None else width
    assert width >= longest, f"width {width} cannot hold a list of {longest}"
    packed = np.full((len(lists), width), NONE, dtype=np.int32)
    if len(lists) > _FEW:
        lengths = np.fromiter(map(len, lists), dtype=np.intp, count=len(lists))
        values = np.fromiter(chain.from_iterable(lists), dtype=np.int32, count=int(lengths.sum()))
        packed[np.arange(width) < lengths[:, None]] = values
        return packed
    for row, ids in enumerate(lists):
        packed[row, : len(ids)] = ids
    return packed


def pack_flat(values: IntArray, lengths: NDArray[np.integer]) -> IntArray:
    """Lists that stand one after the other as a padded array, of the integers' own width.

    >>> pack_flat(np.array([3, 1, 2], np.int32), np.array([2, 0, 1])).tolist()
    [[3, 1], [-1, -1], [2, -1]]
    """
    width = max(int(lengths.max(initial=0)), 1)
    if len(values) == len(lengths) * width:
        return values.reshape(len(lengths), width)
    packed = np.full((len(lengths), width), NONE, values.dtype)
    packed[np.arange(width) < lengths[:, None]] = values
    return packed


def unpack(ids: IntArray) -> list[tuple[int, ...]]:
    """The lists that a padded array holds.

    >>> unpack(pack([[3, 1], [2], []]))
    [(3, 1), (2,), ()]
    """
    return [tuple(row[:length]) for row, length in zip(ids.tolist(), sizes(ids).tolist(), strict=True)]


def sizes(ids: IntArray) -> IntArray:
    """The length of each list, `int32[k]`."""
    return count_of(ids != NONE)


def widen(ids: IntArray, width: int) -> IntArray:
    """The same lists in at least `width` columns (the very array where it is wide enough)."""
    missing = width - ids.shape[1]
    return ids if missing <= 0 else np.pad(ids, ((0, 0), (0, missing)), constant_values=NONE)


def broker_mask(brokers: Iterable[int]) -> BoolArray:
    """A set of brokers as a mask over broker ids.

    >>> broker_mask([0, 2]).tolist()
    [True, False, True]
    """
    members = np.fromiter(brokers, dtype=np.int64)
    mask = np.zeros(int(members.max(initial=-1)) + 1, dtype=np.bool_)
    assert members.size == 0 or (members.min() >= 0 and members.max() <= MAX_BROKER_ID), f"broker ids {members}"
    mask[members] = True
    return mask


def by_broker(values: Mapping[int, int], default: int) -> NDArray[np.int64]:
    """A number of each of some brokers as a column over broker ids; the last place is that of `NONE`.

    >>> by_broker({0: 7, 2: 9}, -5).tolist()
    [7, -5, 9, -5]
    """
    ids = np.fromiter(values, dtype=np.int64, count=len(values))
    assert ids.size == 0 or (ids.min() >= 0 and ids.max() <= MAX_BROKER_ID), f"broker ids {ids}"
    column = np.full(int(ids.max(initial=NONE)) + 2, default, dtype=np.int64)
    column[ids] = np.fromiter(values.values(), dtype=np.int64, count=len(values))
    return column


def among(ids: IntArray, mask: BoolArray) -> BoolArray:
    """Which of the ids are in the set; padding and ids beyond the mask are not. Shape of `ids`."""
    # Read without sign, padding is beyond every mask; what is beyond is looked up at the end, where nobody is.
    places = ids.astype(np.int32, copy=False).view(np.uint32)
    found: BoolArray = np.append(mask, np.False_).take(places.T, mode="clip").T
    return found


def contained(ids: IntArray, others: IntArray) -> BoolArray:
    """Which of the ids stand in the list of the same row of `others`; padding does not. Shape of `ids`."""
    columns, other_columns = np.ascontiguousarray(ids.T), np.ascontiguousarray(others.T)
    found = np.zeros(columns.shape, dtype=np.bool_)
    for other in other_columns:
        found |= columns == other
    found &= columns != NONE
    return found.T


def any_of(mask: BoolArray) -> BoolArray:
    """Whether anything in each row is set, `bool[k]`. Column by column: numpy reduces short rows slowly."""
    found = mask[:, 0].copy()
    for column in range(1, mask.shape[1]):
        found |= mask[:, column]
    return found


def count_of(mask: BoolArray) -> IntArray:
    """How many are set in each row, `int32[k]`."""
    counts = np.zeros(len(mask), dtype=np.int32)
    for column in range(mask.shape[1]):
        counts += mask[:, column]
    return counts


def first(ids: IntArray, chosen: BoolArray) -> IntArray:
    """The first chosen id of each row, -1 where none is; `int32[k]`."""
    columns = _or_none(ids, chosen)
    found: IntArray = columns[-1]
    for column in columns[-2::-1]:
        found = column ^ ((column ^ found) & _gaps(column))
    return found


def keep(ids: IntArray, kept: BoolArray) -> IntArray:
    """The kept ids of each row, order unchanged, padded anew.

    >>> keep(pack([[3, 1, 2]]), np.array([[True, False, True]])).tolist()
    [[3, 2, -1]]
    """
    columns = _or_none(ids, kept)
    # Each pass carries every gap one place to the right.
    for end in range(len(columns) - 1, 0, -1):
        for place in range(end):
            left, right = columns[place], columns[place + 1]
            gaps = _gaps(left)
            left ^= (left ^ right) & gaps
            right |= gaps
    return columns.T


def choose(mask: BoolArray, then: IntArray | np.int32, other: IntArray | np.int32) -> IntArray:
    """`then` where the mask is set, `other` elsewhere, by bits.

    `np.where` takes a branch for each element, which a processor that cannot foresee it pays tenfold.

    >>> choose(np.array([True, False]), np.array([1, 2], np.int32), np.array([-1, -7], np.int32)).tolist()
    [1, -7]
    """
    return other ^ ((other ^ then) & -mask.astype(np.int32))


def taken(column: Column, rows: NDArray[np.integer]) -> Column:
    """A copy of some rows of a column, or of lists, which go on lying in memory as they do."""
    if column.ndim == 2 and not column.flags.c_contiguous:
        return column.T.take(rows, axis=1).T
    return column.take(rows, axis=0)


def lots(rows: int) -> Iterator[slice]:
    """Many rows, as many at a time as stay in the processor's cache on their way."""
    return (slice(begin, begin + _LOT) for begin in range(0, rows, _LOT))


def _or_none(ids: IntArray, chosen: BoolArray) -> IntArray:
    """The chosen ids, NONE for the others, a place in the lists a line: int32[w, k]."""
    return np.ascontiguousarray(ids.T) | (np.ascontiguousarray(chosen.T).astype(np.int32) - np.int32(1))


def _gaps(column: IntArray) -> IntArray:
    """All bits where there is no id, none where there is one."""
    return column >> np.int32(31)


def alone(ids: IntArray, width: int) -> IntArray:
    """Each id as a list of one, `int32[k, width]`."""
    lists = np.full((len(ids), width), NONE, dtype=np.int32, order="F")
    lists[:, 0] = ids
    return lists


def first_duplicate(ids: IntArray) -> int | None:
    """The first row whose list names a broker twice, None where no list does."""
    twice = np.zeros(len(ids), dtype=np.bool_)
    for column in range(1, ids.shape[1]):
        twice |= any_of((ids[:, :column] == ids[:, column : column + 1]) & (ids[:, column : column + 1] != NONE))
    return int(np.argmax(twice)) if twice.any() else None


def is_padded(ids: IntArray) -> bool:
    """Whether every list stands at the left of its row and holds nothing below -1."""
    gap = (ids[:, :-1] == NONE) & (ids[:, 1:] != NONE)
    return not gap.any() and bool((ids >= NONE).all())
