"""Hypothesis strategies for layouts, as plain rows and as a `Layout`; small, with all faults of broken clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from simzk.partitions.arrays import pack, unpack
from simzk.partitions.layouts import Brokers, Layout


class Row(NamedTuple):
    """One partition in plain Python."""

    topic: str
    partition: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    min_insync_replicas: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class Broker(NamedTuple):
    """One broker in plain Python."""

    rack: str | None
    live: bool


class Cluster(NamedTuple):
    """Rows and brokers by id."""

    rows: list[Row]
    brokers: dict[int, Broker]


@st.composite
def clusters(draw: st.DrawFn, *, healthy: bool = False, most_rows: int = 12, moving: bool = False) -> Cluster:
    """Generate a cluster; `healthy`: all brokers live, no ISR empty, leaders in place; `moving`: with reassignments."""
    ids = draw(st.lists(st.integers(0, 40), min_size=1, max_size=7, unique=True))
    racks = st.sampled_from(["a", "b", "c"])
    some_have_none = draw(st.booleans())
    brokers = {
        broker: Broker(draw(racks | st.none() if some_have_none else racks), healthy or draw(st.integers(0, 3)) > 0)
        for broker in ids
    }
    places = draw(
        st.lists(st.tuples(st.sampled_from(["t", "u", "v"]), st.integers(0, 9)), max_size=most_rows, unique=True)
    )
    rows = []
    for topic, partition in places:
        replicas = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=5, unique=True))
        isr = draw(st.permutations(replicas))[: draw(st.integers(1 if healthy else 0, len(replicas)))]
        leader = draw(st.sampled_from(isr if healthy else [*isr, -1]))
        epoch, least = draw(st.integers(0, 9)), draw(st.integers(1, 3))
        moves: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        if moving and len(replicas) > 1 and draw(st.booleans()):
            some = tuple(draw(st.permutations(replicas))[1:])
            cut, end = draw(st.integers(0, len(some))), draw(st.integers(0, len(some)))
            moves = some[:cut], some[max(cut, end) :]
        rows.append(Row(topic, partition, replicas, list(isr), leader, epoch, least, *moves))
    return Cluster(rows, brokers)


def layout_of(cluster: Cluster) -> Layout:
    """Return a cluster as columns."""
    rows, topics = cluster.rows, sorted({row.topic for row in cluster.rows})
    ids = sorted(cluster.brokers)

    def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.array(values, np.int32)

    return Layout(
        brokers=Brokers(
            column(ids),
            tuple(cluster.brokers[broker].rack for broker in ids),
            np.array([cluster.brokers[broker].live for broker in ids], np.bool_),
        ),
        topics=tuple(topics),
        topic=column([topics.index(row.topic) for row in rows]),
        partition=column([row.partition for row in rows]),
        replicas=pack([row.replicas for row in rows]),
        isr=pack([row.isr for row in rows]),
        leader=column([row.leader for row in rows]),
        leader_epoch=column([row.leader_epoch for row in rows]),
        min_insync_replicas=column([row.min_insync_replicas for row in rows]),
        adding=pack([row.adding for row in rows]),
        removing=pack([row.removing for row in rows]),
    )


def rows_of(layout: Layout) -> list[Row]:
    """Return a layout as plain rows."""

    def ids(padded: list[int]) -> list[int]:
        return [broker for broker in padded if broker != -1]

    columns = (layout.topic, layout.partition, layout.replicas, layout.isr, layout.leader, layout.leader_epoch)
    moves = zip(unpack(layout.adding), unpack(layout.removing), strict=True)
    return [
        Row(layout.topics[topic], partition, ids(replicas), ids(isr), leader, leader_epoch, min_insync_replicas, *move)
        for (topic, partition, replicas, isr, leader, leader_epoch, min_insync_replicas), move in zip(
            zip(*(column.tolist() for column in (*columns, layout.min_insync_replicas)), strict=True),
            moves,
            strict=True,
        )
    ]
