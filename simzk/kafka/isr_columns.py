"""ISRs that leaders ask for, as columns: proposals of many partitions, of one leader or of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.kafka.requests import Error, IsrProposal
from simzk.kafka.topic_partition import TopicPartition, named
from simzk.partitions.arrays import pack, taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.names import Partitions
    from simzk.partitions.states import States

ERRORS = tuple(Error)
CODE_OF = {error: code for code, error in enumerate(ERRORS)}
"""Errors in columns, by their place; that of NONE is 0."""


class Proposals(NamedTuple):
    """What leaders ask for of k distinct partitions.

    Args:
        partitions: which.
        leader: int32[k], who asks.
        broker_epoch: int64[k], of who asks.
        leader_epoch: int32[k], that it knows.
        isr: int32[k, w], padded.
        version: int32[k], that it knows.
        recovering: bool[k].
    """

    partitions: Partitions
    leader: IntArray
    broker_epoch: NDArray[np.int64]
    leader_epoch: IntArray
    isr: IntArray
    version: IntArray
    recovering: BoolArray

    @classmethod
    def of_one(cls, broker: int, broker_epoch: int, proposals: Sequence[IsrProposal]) -> Proposals:
        """Those of one leader."""
        count = len(proposals)
        numbers = np.array([(p.leader_epoch, p.version) for p in proposals], dtype=np.int32).reshape(count, 2)
        return cls(
            named([proposal.partition for proposal in proposals]),
            np.full(count, broker, dtype=np.int32),
            np.full(count, broker_epoch, dtype=np.int64),
            numbers[:, 0],
            pack([proposal.isr for proposal in proposals]),
            numbers[:, 1],
            np.array([proposal.recovering for proposal in proposals], dtype=np.bool_),
        )

    def at(self, places: NDArray[np.integer]) -> Proposals:
        """Some of them."""
        return Proposals(
            self.partitions.at(places),
            self.leader[places],
            self.broker_epoch[places],
            self.leader_epoch[places],
            taken(self.isr, places),
            self.version[places],
            self.recovering[places],
        )


class AlterPartitions(NamedTuple):
    """Many leaders ask for other ISRs at once."""

    proposals: Proposals


class AlteredPartitions(NamedTuple):
    """What came of each proposal.

    Args:
        error: one for all, where nobody looked at them.
        errors: int8[k], by `CODE_OF`.
        states: k states, that stand now where there was no error.
    """

    error: Error
    errors: NDArray[np.int8]
    states: States

    def by_partition(self, partitions: Partitions) -> Mapping[TopicPartition, LeaderAndIsr | Error]:
        """The same, one by one."""
        return {
            TopicPartition(*name): ERRORS[code] if code else self.states.one(place)
            for place, (name, code) in enumerate(zip(partitions.names(), self.errors.tolist(), strict=True))
        }
