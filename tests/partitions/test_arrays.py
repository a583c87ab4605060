"""Padded lists of ids equal plain lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.partitions.arrays import (
    MAX_BROKER_ID,
    among,
    broker_mask,
    choose,
    contained,
    first,
    is_padded,
    keep,
    pack,
    sizes,
    taken,
    unpack,
    widen,
    with_duplicates,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.arrays import IntArray

ids = st.integers(0, 9)
lists = st.lists(st.lists(ids, unique=True, max_size=10), min_size=1, max_size=6)


LAYINGS: dict[str, Callable[[IntArray], IntArray]] = {
    "row by row": np.ascontiguousarray,
    "column by column": np.asfortranarray,
    "among other words": lambda ids: np.concatenate([ids, ids + 1, ids], axis=1)[:, : ids.shape[1]],
}


@given(lists, st.data())
@pytest.mark.parametrize("laying", LAYINGS)
def test_results_do_not_depend_on_memory_order(laying: str, batch: list[list[int]], data: st.DataObject) -> None:
    packed, mask = pack(batch), broker_mask(data.draw(st.sets(ids)))
    laid = LAYINGS[laying](packed)
    alive, some = among(packed, mask), np.array(data.draw(st.permutations(range(len(batch)))))
    assert among(laid, mask).tolist() == alive.tolist()
    assert keep(laid, alive).tolist() == keep(packed, alive).tolist()
    assert first(laid, alive).tolist() == first(packed, alive).tolist()
    assert contained(laid, packed[::-1]).tolist() == contained(packed, laid[::-1]).tolist()
    assert taken(laid, some).tolist() == [packed.tolist()[row] for row in some]
    assert choose(alive, laid, -laid).tolist() == np.where(alive, packed, -packed).tolist()


@given(lists, st.integers(0, 3))
def test_unpack_returns_packed_lists_of_any_width(batch: list[list[int]], more: int) -> None:
    width = max(1, *map(len, batch)) + more
    packed = widen(pack(batch), width)
    assert packed.shape == (len(batch), width)
    assert unpack(packed) == [tuple(one) for one in batch]
    assert sizes(packed).tolist() == [len(one) for one in batch]
    assert is_padded(packed)


@given(lists, st.data())
def test_keep_and_first_choose_in_order(batch: list[list[int]], data: st.DataObject) -> None:
    chosen = [[data.draw(st.booleans()) for _ in one] for one in batch]
    packed = pack(batch)
    mask = np.zeros(packed.shape, dtype=np.bool_)
    for row, flags in enumerate(chosen):
        mask[row, : len(flags)] = flags
    kept = [[one for one, flag in zip(*pair, strict=True) if flag] for pair in zip(batch, chosen, strict=True)]
    assert unpack(keep(packed, mask)) == [tuple(one) for one in kept]
    assert first(packed, mask).tolist() == [one[0] if one else -1 for one in kept]


@given(
    st.lists(st.tuples(st.lists(ids, unique=True), st.lists(ids, unique=True)), min_size=1, max_size=6), st.sets(ids)
)
def test_membership(pairs: list[tuple[list[int], list[int]]], members: set[int]) -> None:
    left, right = pack([pair[0] for pair in pairs]), pack([pair[1] for pair in pairs])
    found, live = contained(left, right), among(left, broker_mask(members))
    for row, (one, other) in enumerate(pairs):
        padding = [False] * (left.shape[1] - len(one))
        assert found[row].tolist() == [broker in other for broker in one] + padding
        assert live[row].tolist() == [broker in members for broker in one] + padding


@given(st.lists(st.lists(ids, max_size=5), min_size=1, max_size=6))
def test_duplicates_are_found(batch: list[list[int]]) -> None:
    twice = [row for row, one in enumerate(batch) if len(set(one)) != len(one)]
    assert np.flatnonzero(with_duplicates(pack(batch))).tolist() == twice


@pytest.mark.parametrize("broker", [-1, MAX_BROKER_ID + 1])
def test_mask_accepts_only_broker_ids(broker: int) -> None:
    with pytest.raises(AssertionError, match="broker ids"):
        broker_mask([broker])
