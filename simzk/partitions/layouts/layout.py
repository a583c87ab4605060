"""A layout in memory: frozen columns over partitions, and the brokers that they name.

The rules of a layout (each checked by `problems.py` where a layout comes in, asserted by `Layout.check`):
- a broker id is 0 .. `MAX_BROKER_ID`, stands once, and `Brokers.ids` ascend;
- a partition (topic, number) stands once, its replicas are one or more distinct known brokers, in preference order;
- its ISR is a sequence of distinct members of the replicas; it may be empty (Kafka 0.8 to 0.10.2 writes `[]`);
- its leader is in its ISR, or -1 for none;
- who is added and who is removed by a reassignment under way are distinct replicas, nobody is both, and somebody stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import MAX_BROKER_ID, NONE, is_padded, sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Brokers:
    """The brokers of a layout, by ascending id.

    Args:
        ids: int32[b], ascending.
        racks: the rack of each, None where it has none.
        live: bool[b], false for a broker that replicas name but that is not registered.

    >>> brokers = Brokers.from_racks({2: "west", 1: "east"})
    >>> brokers.ids.tolist(), brokers.racks
    ([1, 2], ('east', 'west'))
    """

    ids: NDArray[np.int32]
    racks: tuple[str | None, ...]
    live: NDArray[np.bool_]

    @classmethod
    def from_racks(cls, racks: Mapping[int, str | None]) -> Brokers:
        """Live brokers from a mapping of id to rack."""
        ids = sorted(racks)
        return cls(np.array(ids, np.int32), tuple(racks[broker] for broker in ids), np.ones(len(ids), np.bool_))

    @property
    def rack_names(self) -> tuple[str, ...]:
        """The names of the racks, sorted."""
        return tuple(sorted({rack for rack in self.racks if rack is not None}))

    @property
    def all_have_racks(self) -> bool:
        """Whether rack rules apply: Kafka looks at racks only where every broker has one (§3.2)."""
        return None not in self.racks and len(self.racks) > 0

    def positions_of(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """The position in `ids` of each broker id (any shape); -1 stays -1. Every other id must be known."""
        if len(self.ids) and self.ids[-1] == len(self.ids) - 1:
            return ids  # ids are 0 .. b-1: they are the positions already
        positions = np.searchsorted(self.ids, ids).astype(np.int32)
        return np.where(ids == NONE, np.int32(NONE), positions)

    def check(self) -> None:
        """Assert the rules of brokers."""
        assert self.ids.dtype == np.int32
        assert self.live.dtype == np.bool_
        assert len(self.ids) == len(self.racks) == len(self.live)
        assert bool(np.all(np.diff(self.ids) > 0)), "ids must ascend, each once"
        assert len(self.ids) == 0 or (self.ids[0] >= 0 and self.ids[-1] <= MAX_BROKER_ID)
        assert all(rack is None or rack for rack in self.racks), "a rack has a name"


def _left_out() -> NDArray[np.int32]:
    return np.empty((0, 1), np.int32)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where every partition of a cluster lives; row i of each column is one partition.

    Args:
        brokers: all brokers that a replica may name.
        topics: names of the topics; `topic` indexes into it.
        topic: int32[n], the index of the topic in `topics`.
        partition: int32[n], the partition's number in its topic.
        replicas: int32[n, w], broker ids in preference order, padded with -1 on the right.
        isr: int32[n, v], a sequence of broker ids in the znode's order, padded with -1 on the right.
        leader: int32[n], a broker id, or -1 for none.
        leader_epoch: int32[n].
        min_insync_replicas: int32[n], the `min.insync.replicas` of the partition's topic.
        adding: int32[n, u], which of the replicas a reassignment under way adds (KIP-455), in the znode's order, padded
            with -1 on the right; nobody anywhere where left out.
        removing: int32[n, r], which of them it removes.
    """

    brokers: Brokers
    topics: tuple[str, ...]
    topic: NDArray[np.int32]
    partition: NDArray[np.int32]
    replicas: NDArray[np.int32]
    isr: NDArray[np.int32]
    leader: NDArray[np.int32]
    leader_epoch: NDArray[np.int32]
    min_insync_replicas: NDArray[np.int32]
    adding: NDArray[np.int32] = field(default_factory=_left_out)
    removing: NDArray[np.int32] = field(default_factory=_left_out)

    def __post_init__(self) -> None:
        for name in ("adding", "removing"):
            if not len(getattr(self, name)):
                # One list for all rows: a column of nobody takes no memory.
                nobody = np.broadcast_to(np.array([NONE], np.int32), (len(self), 1))
                object.__setattr__(self, name, nobody)

    @property
    def reassigning(self) -> NDArray[np.intp]:
        """The rows of which a reassignment is under way, ascending."""
        return np.flatnonzero((sizes(self.adding) > 0) | (sizes(self.removing) > 0))

    def __len__(self) -> int:
        return len(self.partition)

    def check(self) -> None:
        """Assert every rule of a layout."""
        from simzk.partitions.layouts.problems import find_problems  # it imports this module

        self.brokers.check()
        rows = len(self)
        for column in (self.topic, self.partition, self.leader, self.leader_epoch, self.min_insync_replicas):
            assert (column.dtype, column.shape) == (np.dtype(np.int32), (rows,))
        for lists in (self.replicas, self.isr, self.adding, self.removing):
            assert (lists.dtype, lists.ndim, len(lists)) == (np.dtype(np.int32), 2, rows)
            assert is_padded(lists)
        problems = find_problems(self)
        assert not problems.total, problems.first
