"""Per-broker liveness and epochs, as arrays, used to fence control requests.

Rules of this module (KafkaApis.isBrokerEpochStale, ReplicaManager.becomeLeaderOrFollower):
  - a control request names the broker epoch of its target; one for an earlier epoch of the broker is stale (KIP-380);
  - a broker accepts control requests only of the highest controller epoch that it has seen since its process started;
  - a broker writes its liveness and its epoch here whenever they change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka.requests import CODE_OF, ERRORS, Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray

NO_EPOCH = np.iinfo(np.int64).min
"""The broker epoch of an id that no broker has."""
_STALE_BROKER, _STALE_CONTROLLER = CODE_OF[Error.STALE_BROKER_EPOCH], CODE_OF[Error.STALE_CONTROLLER_EPOCH]


class BrokerEpochs:
    """Liveness, broker epoch and last accepted controller epoch of each broker, by id.

    The last element of each array stands for ids that no broker has.

    Args:
        brokers: the ids of all brokers.

    >>> epochs = BrokerEpochs([1, 2])
    >>> epochs.set(1, alive=True, epoch=40)
    >>> epochs.fence(1, broker_epoch=40, controller_epoch=3), epochs.fence(1, broker_epoch=40, controller_epoch=2)
    (<Error.NONE: 'NONE'>, <Error.STALE_CONTROLLER_EPOCH: 'STALE_CONTROLLER_EPOCH'>)
    """

    def __init__(self, brokers: Iterable[int]) -> None:
        size = max(brokers, default=-1) + 2
        self.alive: BoolArray = np.zeros(size, dtype=np.bool_)
        self._epoch: NDArray[np.int64] = np.full(size, NO_EPOCH, dtype=np.int64)
        self._controller_epoch: NDArray[np.int64] = np.zeros(size, dtype=np.int64)

    def set(self, broker: int, *, alive: bool, epoch: int) -> None:
        """Set the liveness and epoch of a broker; a dead one forgets the controller epoch."""
        self.alive[broker] = alive
        self._epoch[broker] = epoch
        if not alive:
            self._controller_epoch[broker] = 0

    def of(self, brokers: IntArray) -> NDArray[np.int64]:
        """Return the broker epochs, int64[k]; `NO_EPOCH` for an id that no broker has."""
        known = (brokers >= 0) & (brokers < len(self._epoch))
        return self._epoch.take(np.where(known, brokers, len(self._epoch) - 1))

    @property
    def controller_epoch(self) -> int:
        """The highest controller epoch that a live broker has accepted."""
        return int(self._controller_epoch.max())

    def fence_all(self, brokers: IntArray, broker_epochs: NDArray[np.int64], controller_epoch: int) -> NDArray[np.int8]:
        """Check control requests to live brokers, and record the controller epoch at those that accept.

        Args:
            brokers: int32[k], distinct targets.
            broker_epochs: int64[k], the epochs that the requests name.
            controller_epoch: the epoch of the sender.

        Returns:
            An error code of each by `CODE_OF`, int8[k]; 0 where the request is accepted.
        """
        codes = np.zeros(len(brokers), dtype=np.int8)
        codes[controller_epoch < self._controller_epoch.take(brokers, mode="clip")] = _STALE_CONTROLLER
        codes[broker_epochs < self._epoch.take(brokers, mode="clip")] = _STALE_BROKER
        self._controller_epoch[brokers[codes == 0]] = controller_epoch
        return codes

    def fence(self, broker: int, broker_epoch: int, controller_epoch: int) -> Error:
        """Check one control request as `fence_all` does."""
        epochs = np.array([broker_epoch], dtype=np.int64)
        return ERRORS[int(self.fence_all(np.array([broker], dtype=np.int32), epochs, controller_epoch)[0])]

    def accepting(self, brokers: IntArray, broker_epochs: NDArray[np.int64], controller_epoch: int) -> BoolArray:
        """Return the brokers that live and accept a batch of control requests, as a mask over ids; see `fence_all`."""
        live = np.flatnonzero(self.alive.take(brokers, mode="clip"))
        brokers, broker_epochs = brokers[live], broker_epochs[live]
        accepted = self.fence_all(brokers, broker_epochs, controller_epoch) == 0
        mask = np.zeros_like(self.alive)
        mask[brokers[accepted]] = True
        return mask

    def check(self) -> None:
        """Assert that ids without a broker are not alive."""
        assert not self.alive[-1], "an id without a broker is alive"
        assert not self._controller_epoch[~self.alive].any(), "a dead broker has accepted a controller epoch"
