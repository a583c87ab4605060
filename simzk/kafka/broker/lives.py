"""The lives that a cluster's brokers live, as columns: who is told as one of hundreds is judged as one of hundreds.

Rules of the module:
  - a broker's process and its epoch are the broker's own; it says here what they are whenever they change;
  - an order is taken only in the life that it is meant for, or a later one, and only from a controller that is not
    behind the last one obeyed in this life (KIP-380).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simzk.kafka.broker.broker import Broker
    from simzk.partitions.arrays import BoolArray, IntArray

NO_LIFE = np.iinfo(np.int64).min
"""The epoch of no broker."""


class Lives:
    """What is known of each broker, by its id; the last place is that of ids that no broker has.

    Args:
        brokers: all there are.
    """

    def __init__(self, brokers: Mapping[int, Broker]) -> None:
        size = max(brokers, default=-1) + 2
        self.alive: BoolArray = np.zeros(size, dtype=np.bool_)
        self._epoch: NDArray[np.int64] = np.full(size, NO_LIFE, dtype=np.int64)
        self._obeyed: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        self._brokers = brokers
        for broker in brokers:
            self.note(broker)

    def note(self, broker: int) -> None:
        """A broker began or ended, or has another epoch."""
        found = self._brokers[broker]
        self.alive[broker] = found.alive
        self._epoch[broker] = found.epoch
        if not found.alive:
            self._obeyed[broker] = 0

    def epochs(self, brokers: IntArray) -> NDArray[np.int64]:
        """The epochs of brokers, int64[k]; of one that is not here, `NO_LIFE`."""
        return self._epoch.take(np.where((brokers >= 0) & (brokers < len(self._epoch)), brokers, len(self._epoch) - 1))

    def obey(self, brokers: IntArray, epochs: NDArray[np.int64], controller_epoch: int) -> BoolArray:
        """Which brokers do what a controller orders.

        Args:
            brokers: int32[k], distinct.
            epochs: int64[k], the lives that are meant.
            controller_epoch: the controller's.

        Returns:
            bool[m] over broker ids.
        """
        takes = self.alive.take(brokers, mode="clip")
        takes &= epochs >= self._epoch.take(brokers, mode="clip")
        takes &= controller_epoch >= self._obeyed.take(brokers, mode="clip")
        obeying = brokers[takes]
        self._obeyed[obeying] = controller_epoch
        mask = np.zeros_like(self.alive)
        mask[obeying] = True
        return mask

    def obeys(self, broker: int, controller_epoch: int) -> bool:
        """Whether one broker, that was told by itself in the life that it lives, does what a controller orders."""
        if controller_epoch < self._obeyed[broker]:
            return False
        self._obeyed[broker] = controller_epoch
        return True

    def check(self) -> None:
        """Assert that the columns say what the brokers are."""
        for broker, found in self._brokers.items():
            assert self.alive[broker] == found.alive
            assert self._epoch[broker] == found.epoch
        assert not self.alive[-1]
