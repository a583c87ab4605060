"""Rates of failure and repair of brokers and racks.

Rules of the module:

1. Brokers and racks are up or down independently, with exponential times: alternating renewal processes (Barlow,
   Proschan: Mathematical Theory of Reliability, 1965, chapter 4).
2. A replica is unreachable while its broker or its rack is down.
3. Rates are per year. After the last broker follows one that is always down, for the padding of lists of replicas;
   after the last rack follows one that never fails, for brokers without a rack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.layouts import Brokers

HOURS_PER_YEAR = 8766.0
MINUTES_PER_YEAR = HOURS_PER_YEAR * 60


class Rate(NamedTuple):
    """Failure rate and repair time.

    Args:
        per_year: failures per year of uptime.
        hours: mean time to repair.
    """

    per_year: float
    hours: float


class Rates(NamedTuple):
    """The rates of a cluster for one kind of failure, for b brokers and r racks, and one more of each (rule 3).

    Args:
        fail: float64[b + 1], failures of each broker per year.
        repair: float64[b + 1], repairs per year of downtime.
        rack: intp[b + 1], the rack of each broker.
        rack_fail: float64[r + 1].
        rack_repair: float64[r + 1].
    """

    fail: NDArray[np.float64]
    repair: NDArray[np.float64]
    rack: NDArray[np.intp]
    rack_fail: NDArray[np.float64]
    rack_repair: NDArray[np.float64]

    @property
    def down(self) -> NDArray[np.float64]:
        """float64[b + 1], share of time that each broker itself is down; 1 for the padding."""
        found = self.fail / (self.fail + self.repair)
        found[-1] = 1.0
        assert ((found >= 0) & (found <= 1)).all()
        return found

    @property
    def rack_down(self) -> NDArray[np.float64]:
        """float64[r + 1], share of time that each rack is down."""
        return self.rack_fail / (self.rack_fail + self.rack_repair)

    def until_back(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean time in years that a broker is unreachable after it, or its rack, fails.

        The other of the two may fail meanwhile: these are the mean times to absorption of a Markov chain with three
        states (broker down, both down, rack down).

        Returns:
            float64[b + 1] after a failure of the broker, and float64[b + 1] after a failure of its rack.
        """
        fail, repair = self.fail, self.repair
        rack_fail, rack_repair = self.rack_fail[self.rack], self.rack_repair[self.rack]
        zero = np.zeros_like(fail)
        leaving = np.array(
            [
                [repair + rack_fail, -rack_fail, zero],
                [-rack_repair, repair + rack_repair, -repair],
                [zero, -fail, rack_repair + fail],
            ]
        )
        times = np.linalg.solve(np.moveaxis(leaving, 2, 0), np.ones((len(fail), 3, 1)))[:, :, 0]
        assert (times > 0).all()
        return times[:, 0], times[:, 2]

    def check(self) -> None:
        """Assert the rules of rates."""
        assert len(self.fail) == len(self.repair) == len(self.rack)
        assert len(self.rack_fail) == len(self.rack_repair)
        assert all((column >= 0).all() and np.isfinite(column).all() for column in (self.fail, self.rack_fail))
        assert all((column > 0).all() and np.isfinite(column).all() for column in (self.repair, self.rack_repair))
        assert self.fail[-1] == self.rack_fail[-1] == 0
        assert self.rack[-1] == len(self.rack_fail) - 1
        assert ((self.rack >= 0) & (self.rack < len(self.rack_fail))).all()


def rates_of(brokers: Brokers, of_brokers: list[Rate], of_racks: dict[str, Rate]) -> Rates:
    """Return the rates of a cluster.

    Args:
        brokers: of the layout.
        of_brokers: of each broker, by position.
        of_racks: of each rack that has a broker.
    """
    assert len(of_brokers) == len(brokers.ids)
    names = brokers.rack_names
    fixed = Rate(0.0, HOURS_PER_YEAR)
    alone, shared = [*of_brokers, fixed], [*(of_racks[name] for name in names), fixed]
    rates = Rates(
        fail=np.array([rate.per_year for rate in alone]),
        repair=np.array([HOURS_PER_YEAR / rate.hours for rate in alone]),
        rack=np.append(np.where(brokers.rack_numbers == NONE, len(names), brokers.rack_numbers), len(names)),
        rack_fail=np.array([rate.per_year for rate in shared]),
        rack_repair=np.array([HOURS_PER_YEAR / rate.hours for rate in shared]),
    )
    rates.check()
    return rates
