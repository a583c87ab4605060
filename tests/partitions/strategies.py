"""Hypothesis strategies for partitions and clusters: small ids in small clusters, so that coincidences happen."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from tests.partitions.reference import VERSIONS, State, Version

BROKERS = [0, 1, 2, 3, 5, 8, 13]

versions: st.SearchStrategy[Version] = st.sampled_from(VERSIONS)
broker_sets = st.sets(st.sampled_from(BROKERS))
id_lists = st.lists(st.sampled_from(BROKERS), unique=True, max_size=6)


class Partition(NamedTuple):
    replicas: list[int]
    state: State
    unclean_allowed: bool


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """Generate a partition: ISR mostly within its replicas, in any order, leader mostly in the ISR or -1."""
    replicas = draw(st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=5))
    permuted = draw(st.permutations(replicas))
    isr = permuted[: draw(st.integers(0, len(permuted)))]
    if draw(st.integers(0, 9)) == 0:
        isr = draw(id_lists)
    leader = draw(st.sampled_from([*isr, -1] if draw(st.integers(0, 9)) else BROKERS))
    epochs = [draw(st.integers(0, 5)) for _ in range(3)]
    return Partition(
        replicas, State(leader, epochs[0], list(isr), epochs[1], epochs[2], draw(st.booleans())), draw(st.booleans())
    )


batches = st.lists(partitions(), min_size=1, max_size=8)
