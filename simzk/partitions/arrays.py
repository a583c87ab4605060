"""Lists of broker ids as padded arrays: the one representation that every rule of this room takes and returns.

Rules of the module:

1. A batch of k lists is `int32[k, w]`: each row holds its ids from the left in order, then `NONE` (-1) to the width.
2. A set of brokers (the live ones, the ones shutting down) is a *mask*: `bool[m]` over broker ids. An id beyond the
   mask is not in the set, so a replica on a broker nobody has heard of is simply dead.
3. No function here changes what it is handed.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

IntArray: TypeAlias = NDArray[np.int32]
BoolArray: TypeAlias = NDArray[np.bool_]

NONE = -1
"""The id of no broker: padding of a list, and the leader of a partition that has none."""

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
    if mask.size == 0:
        return np.zeros(ids.shape, dtype=np.bool_)
    found: BoolArray = mask.take(ids, mode="clip")
    found &= ids >= 0
    found &= ids < mask.size
    return found


def contained(ids: IntArray, others: IntArray) -> BoolArray:
    """Which of the ids stand in the list of the same row of `others`; padding does not. Shape of `ids`."""
    found = np.zeros(ids.shape, dtype=np.bool_)
    other_columns = np.ascontiguousarray(others.T)
    for place in range(ids.shape[1]):
        column = np.ascontiguousarray(ids[:, place])
        hit = np.zeros(len(ids), dtype=np.bool_)
        for other in other_columns:
            hit |= column == other
        hit &= column != NONE
        found[:, place] = hit
    return found


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
    found = np.full(len(ids), NONE, dtype=np.int32)
    for column in reversed(range(ids.shape[1])):
        np.copyto(found, ids[:, column], where=chosen[:, column])
    return found


def keep(ids: IntArray, kept: BoolArray) -> IntArray:
    """The kept ids of each row, order unchanged, padded anew.

    >>> keep(pack([[3, 1, 2]]), np.array([[True, False, True]])).tolist()
    [[3, 2, -1]]
    """
    columns = np.where(kept.T, ids.T, np.int32(NONE))
    # Each pass carries every gap one place to the right.
    for end in range(len(columns) - 1, 0, -1):
        for place in range(end):
            gap = columns[place] == NONE
            np.copyto(columns[place], columns[place + 1], where=gap)
            np.copyto(columns[place + 1], np.int32(NONE), where=gap)
    return np.ascontiguousarray(columns.T)


def alone(ids: IntArray, width: int) -> IntArray:
    """Each id as a list of one, `int32[k, width]`."""
    lists = np.full((len(ids), width), NONE, dtype=np.int32)
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
