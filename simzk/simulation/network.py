"""The network between processes: first in, first out on each directed link, as TCP keeps it; no order across links.

Every message passes `Network.send`, which is the one point where a fault applies: what is sent on a link that is cut is
lost, what is sent on a link that is held waits in order, and `drop_next` loses so many.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.simulation.scheduler import Scheduler, Timer
    from simzk.simulation.streams import RandomStream


class _Link:
    """One direction between two ends: what is under way, and the faults that hold on it."""

    __slots__ = ("chance", "component", "cut", "drop_count", "held", "held_back", "last_arrival_us", "under_way")

    def __init__(self, source: str, target: str) -> None:
        self.component = f"network/{source}->{target}"
        self.chance: RandomStream | None = None  # none is needed before the first message
        self.under_way: deque[tuple[Callable[[], None], Timer]] = deque()
        self.last_arrival_us = 0
        self.cut = False
        self.held = False
        self.held_back: deque[Callable[[], None]] = deque()
        self.drop_count = 0

    def arrive(self) -> None:
        """Hand over the first message: events of equal time run in the order of a hash, whichever was its own."""
        deliver, _ = self.under_way.popleft()
        deliver()


class Network:
    """Links with a latency, between ends that are known by name.

    Args:
        scheduler: the clock, and the source of each link's own stream of chance.
        latency_us: the least and the greatest time that a message is under way.

    >>> from simzk.simulation.scheduler import Scheduler
    >>> scheduler = Scheduler(seed=1)
    >>> network = Network(scheduler, latency_us=(200, 900))
    >>> network.send("1", "zookeeper", lambda: print("arrived"))
    >>> scheduler.run_until(1_000)
    arrived
    """

    def __init__(self, scheduler: Scheduler, *, latency_us: tuple[int, int]) -> None:
        assert 0 <= latency_us[0] <= latency_us[1], f"a latency of {latency_us}"
        self._scheduler = scheduler
        self._latency_us = latency_us
        self._links: dict[tuple[str, str], _Link] = {}
        self._disturbed = False

    def send(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        """Call `deliver` at the far end once the message arrives there, after all that was sent on this link before."""
        link = self._link(source, target)
        if link.cut:
            return
        if link.drop_count:
            link.drop_count -= 1
            return
        if link.held:
            link.held_back.append(deliver)
            return
        self._post(link, deliver)

    def cut(self, source: str, target: str, *, both: bool = True) -> None:
        """Lose what is under way and what will be sent, until `heal`; in one direction only if `both` is false."""
        self._disturbed = True
        for link in self._directions(source, target, both):
            link.cut = True
            for _, arrival in link.under_way:
                arrival.cancel()
            link.under_way.clear()
            link.held_back.clear()

    def heal(self, source: str, target: str, *, both: bool = True) -> None:
        """End every fault of the link: a cut, a hold, a loss that was to come."""
        for link in self._directions(source, target, both):
            link.cut = False
            link.drop_count = 0
            self._release(link)

    def hold(self, source: str, target: str) -> None:
        """Keep back what is sent from now on, in order, until `release`."""
        self._disturbed = True
        self._link(source, target).held = True

    def release(self, source: str, target: str) -> None:
        """Let go what was kept back, in order."""
        self._release(self._link(source, target))

    def drop_next(self, source: str, target: str, count: int = 1) -> None:
        """Lose the next messages."""
        assert count > 0
        self._disturbed = True
        self._link(source, target).drop_count = count

    def heal_all(self) -> None:
        """End every fault."""
        for source, target in list(self._links):
            self.heal(source, target, both=False)
        self._disturbed = False

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether a message sent now on that link would be lost to a cut."""
        link = self._links.get((source, target))
        return link is not None and link.cut

    def is_clear(self, source: str, target: str) -> bool:
        """Return whether a message sent now on that link would be under way at once."""
        if not self._disturbed:
            return True
        link = self._links.get((source, target))
        return link is None or not (link.cut or link.held or link.drop_count)

    @property
    def is_undisturbed(self) -> bool:
        """Return whether no fault was ever put on any link, or all were ended at once."""
        return not self._disturbed

    def check(self) -> None:
        """Assert that a cut link carries nothing and that only a held one keeps back."""
        for link in self._links.values():
            assert not link.cut or not (link.under_way or link.held_back)
            assert link.held or not link.held_back
            assert link.drop_count >= 0

    def _link(self, source: str, target: str) -> _Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = _Link(source, target)
        return link

    def _directions(self, source: str, target: str, both: bool) -> list[_Link]:
        there = self._link(source, target)
        return [there, self._link(target, source)] if both else [there]

    def _release(self, link: _Link) -> None:
        link.held = False
        held_back, link.held_back = link.held_back, deque()
        for deliver in held_back:
            self._post(link, deliver)

    def _post(self, link: _Link, deliver: Callable[[], None]) -> None:
        scheduler = self._scheduler
        if link.chance is None:
            link.chance = scheduler.stream(link.component)
        at_us = scheduler.now_us + link.chance.between(*self._latency_us)
        link.last_arrival_us = at_us = max(link.last_arrival_us, at_us)
        link.under_way.append((deliver, scheduler.call_at(at_us, link.component, link.arrive)))
