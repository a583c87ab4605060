"""Many partitions by name: what one table says to another whose rows are not the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray


class Partitions(NamedTuple):
    """k partitions.

    Args:
        topics: names; nobody changes the list, but that more may come behind its end.
        topic: int32[k], index into `topics`.
        partition: int32[k], ids.

    >>> import numpy as np
    >>> Partitions(["a", "b"], np.array([1, 0]), np.array([7, 2])).names()
    [('b', 7), ('a', 2)]
    """

    topics: Sequence[str]
    topic: IntArray
    partition: IntArray

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.topic)

    def name(self, place: int) -> tuple[str, int]:
        """Topic and id of one."""
        return self.topics[int(self.topic[place])], int(self.partition[place])

    def names(self) -> list[tuple[str, int]]:
        """Topic and id of each."""
        topics = self.topics
        return [(topics[t], p) for t, p in zip(self.topic.tolist(), self.partition.tolist(), strict=True)]

    def at(self, places: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Partitions:
        """Some of them."""
        return Partitions(self.topics, self.topic[places], self.partition[places])
