"""Rates of failure and repair, of brokers and of the racks that they share.

Rules of the module:

1. A broker and a rack are each up or down by turns, independently of all others, with exponential times: an alternating
   renewal process (Barlow, Proschan: Mathematical Theory of Reliability, 1965, chapter 4).
2. What stands on a broker is out of reach while the broker or its rack is down.
3. Rates are per year. Behind the last broker stands one that is always down, for the padding of lists of replicas, and
   behind the last rack one that never fails, for brokers without a rack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.layouts import Brokers

HOURS_PER_YEAR = 8766.0
MINUTES_PER_YEAR = HOURS_PER_YEAR * 60


class Rate(NamedTuple):
    """How often something fails, and how long it takes then.

    Args:
        per_year: failures a year of time that it is up.
        hours: the mean time until it is back.
    """

    per_year: float
    hours: float


class Rates(NamedTuple):
    """The rates of a cluster for one kind of failure; b brokers and r racks, and one more of each (rule 3).

    Args:
        fail: float64[b + 1], failures of each broker a year.
        repair: float64[b + 1], repairs a year of time that it is down.
        rack: intp[b + 1], the rack of each.
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
        """float64[b + 1], the share of time that each broker is down by itself; 1 for the padding."""
        found = self.fail / (self.fail + self.repair)
        found[-1] = 1.0
        return found

    @property
    def rack_down(self) -> NDArray[np.float64]:
        """float64[r + 1], the share of time that each rack is down."""
        return self.rack_fail / (self.rack_fail + self.rack_repair)

    def until_back(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How long a broker is out of reach, in years, from the moment at which it, or its rack, fails.

        The other one of the two may fail meanwhile: the mean times to absorption of a chain of three states (broker
        down, both down, rack down), whose fourth is the end.

        Returns:
            float64[b + 1] after a failure of the broker, and after one of its rack.
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
    """The rates of a cluster.

    Args:
        brokers: of the layout.
        of_brokers: of each, by position.
        of_racks: of each rack that a broker stands in.
    """
    names = brokers.rack_names
    number = {name: at for at, name in enumerate(names)}
    fixed = Rate(0.0, HOURS_PER_YEAR)
    alone, shared = [*of_brokers, fixed], [*(of_racks[name] for name in names), fixed]
    rates = Rates(
        fail=np.array([rate.per_year for rate in alone]),
        repair=np.array([HOURS_PER_YEAR / rate.hours for rate in alone]),
        rack=np.array([*(len(names) if rack is None else number[rack] for rack in brokers.racks), len(names)], np.intp),
        rack_fail=np.array([rate.per_year for rate in shared]),
        rack_repair=np.array([HOURS_PER_YEAR / rate.hours for rate in shared]),
    )
    rates.check()
    return rates
