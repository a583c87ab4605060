"""Network between processes: messages of one directed link arrive in order, as over TCP; links are independent.

Faults apply in `Network.send` only: a message on a cut link is lost, messages on a held link wait in order, those on a
slow link take longer, and `drop_next` loses a number of messages.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.simulation.scheduler import Component, Scheduler, Timer
    from simzk.simulation.streams import RandomStream


OCTAVES_MAX = 10
"""Limit of the medians that an exponential latency is longer than: one message in a thousand reaches it."""


class Latency(Protocol):
    """Distribution of the latency of messages."""

    def draw(self, stream: RandomStream) -> int:
        """Return the latency of one message in microseconds."""


class UniformLatency(NamedTuple):
    """Latency between two limits, each value with the same probability; fixed if they are equal."""

    least_us: int
    most_us: int

    def draw(self, stream: RandomStream) -> int:
        return stream.between(self.least_us, self.most_us)


class ExponentialLatency(NamedTuple):
    """Exponential latency: half of the messages take longer than the median, a quarter longer than twice the median.

    Between multiples of the median the distribution is uniform, so that only integers are drawn.

    >>> from simzk.simulation.streams import RandomStream
    >>> stream = RandomStream(1, "example")
    >>> drawn = [ExponentialLatency(1_000).draw(stream) for _ in range(4_000)]
    >>> [round(sum(latency >= limit for latency in drawn) / 4_000, 1) for limit in (0, 1_000, 2_000)]
    [1.0, 0.5, 0.2]
    """

    median_us: int

    def draw(self, stream: RandomStream) -> int:
        assert self.median_us >= 0, f"a median of {self.median_us} us"
        octaves = 0
        while octaves < OCTAVES_MAX and stream.bits(1):
            octaves += 1
        return octaves * self.median_us + stream.below(max(1, self.median_us))


@dataclass(slots=True, eq=False)
class _Link:
    """One direction between two ends: its messages in flight and its faults."""

    name: str
    component: Component | None = None  # created with the first message, like its stream
    chance: RandomStream | None = None
    in_flight: deque[tuple[Callable[[], None], Timer]] = field(default_factory=deque)
    last_arrival_us: int = 0
    cut: bool = False
    held: bool = False
    held_back: deque[Callable[[], None]] = field(default_factory=deque)
    drop_count: int = 0
    latency: Latency | None = None  # of a slow link

    def arrive(self) -> None:
        """Deliver the first message: two arrivals at one time may run in any order, the messages must not."""
        assert self.in_flight, f"{self.name}: an arrival without a message"
        assert not self.cut, f"{self.name}: a cut link loses its messages"
        deliver, _ = self.in_flight.popleft()
        deliver()


class Network:
    """Links with a latency between named ends.

    Args:
        scheduler: the clock, and the source of each link's random stream.
        latency_us: minimum and maximum latency of a message.

    >>> from simzk.simulation.scheduler import Scheduler
    >>> scheduler = Scheduler(seed=1)
    >>> network = Network(scheduler, latency_us=(200, 900))
    >>> network.send("1", "zookeeper", lambda: print("arrived"))
    >>> scheduler.run_until(1_000)
    arrived
    """

    def __init__(self, scheduler: Scheduler, *, latency_us: tuple[int, int]) -> None:
        assert 0 <= latency_us[0] <= latency_us[1], f"invalid latency {latency_us}"
        self._scheduler = scheduler
        self._least_us = latency_us[0]
        self._latencies = latency_us[1] - latency_us[0] + 1
        self._links: dict[tuple[str, str], _Link] = {}
        self._disturbed = False

    def send(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        """Call `deliver` when the message arrives, after all messages sent on this link before."""
        link = self._links.get((source, target)) or self._link(source, target)
        if self._disturbed:
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
        """Lose messages in flight and those sent until `heal`; in one direction only if `both` is false."""
        self._disturbed = True
        for link in self._directions(source, target, both):
            link.cut = True
            for _, arrival in link.in_flight:
                arrival.cancel()
            link.in_flight.clear()
            link.held_back.clear()

    def heal(self, source: str | None = None, target: str | None = None, *, both: bool = True) -> None:
        """End every fault of a link: cut, hold, slowness, and messages to be dropped.

        Args:
            source: one end; None heals all links.
            target: the other end; None heals all links of `source`.
            both: also in the direction from `target` to `source`.
        """
        if source is None:
            assert target is None, "a link is named by both ends, or by its source"
            self.heal_all()
            return
        if target is None:
            for ends in [ends for ends in self._links if source in ends]:
                self.heal(*ends, both=False)
            return
        for link in self._directions(source, target, both):
            link.cut = False
            link.latency = None
            link.drop_count = 0
            self._release(link)
            assert not link.held_back, f"{link.name}: a message waits on a healed link"

    def hold(self, source: str, target: str) -> None:
        """Hold messages back from now on, in order, until `release`."""
        self._disturbed = True
        self._link(source, target).held = True

    def release(self, source: str, target: str) -> None:
        """Send the messages that were held back, in order."""
        self._release(self._link(source, target))

    def slow(self, source: str, target: str, latency: Latency | None, *, both: bool = True) -> None:
        """Change the latency of messages that are sent from now on; None for that of the network."""
        self._disturbed = True
        for link in self._directions(source, target, both):
            link.latency = latency

    def drop_next(self, source: str, target: str, count: int = 1) -> None:
        """Lose the next `count` messages."""
        assert count > 0
        self._disturbed = True
        self._link(source, target).drop_count = count

    def heal_all(self) -> None:
        """End the faults of all links."""
        for source, target in list(self._links):
            self.heal(source, target, both=False)
        assert all(self.is_clear(source, target) for source, target in self._links), "no fault survives healing all"
        self._disturbed = False

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether a link is cut."""
        link = self._links.get((source, target))
        return link is not None and link.cut

    def is_clear(self, source: str, target: str) -> bool:
        """Return whether a message sent now on a link would not be delayed or lost by a fault."""
        if not self._disturbed:
            return True
        link = self._links.get((source, target))
        return link is None or not (link.cut or link.held or link.drop_count or link.latency is not None)

    @property
    def has_faults(self) -> bool:
        """Whether any link has a fault now."""
        return self._disturbed and any(
            link.cut or link.held or link.drop_count or link.latency is not None for link in self._links.values()
        )

    @property
    def is_undisturbed(self) -> bool:
        """Whether no link had a fault since the start or the last `heal_all`."""
        return not self._disturbed

    def check(self) -> None:
        """Assert that a cut link has no messages, and that only a held one holds messages back."""
        for link in self._links.values():
            assert not link.cut or not (link.in_flight or link.held_back)
            assert link.held or not link.held_back
            assert link.drop_count >= 0
            arrivals_us = [arrival.at_us for _, arrival in link.in_flight]
            assert arrivals_us == sorted(arrivals_us), f"{link.name}: a message overtakes another"
            assert self._disturbed or not (link.cut or link.held or link.drop_count or link.latency is not None)

    def _link(self, source: str, target: str) -> _Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = _Link(f"network/{source}->{target}")
        return link

    def _directions(self, source: str, target: str, both: bool) -> list[_Link]:
        there = self._link(source, target)
        return [there, self._link(target, source)] if both else [there]

    def _release(self, link: _Link) -> None:
        assert not link.cut or not link.held_back, f"{link.name}: a cut link loses its messages"
        link.held = False
        held_back, link.held_back = link.held_back, deque()
        for deliver in held_back:
            self._post(link, deliver)

    def _post(self, link: _Link, deliver: Callable[[], None]) -> None:
        assert not link.cut
        scheduler = self._scheduler
        chance, component = link.chance, link.component
        if chance is None or component is None:
            chance = link.chance = scheduler.stream(link.name)
            component = link.component = scheduler.component(link.name)
        slow = link.latency
        latency_us = self._least_us + chance.below(self._latencies) if slow is None else slow.draw(chance)
        at_us = scheduler.now_us + latency_us
        if at_us < link.last_arrival_us:
            at_us = link.last_arrival_us
        link.last_arrival_us = at_us
        link.in_flight.append((deliver, scheduler.schedule(at_us, component, link.arrive)))


class Direction:
    """One direction of a connection: messages in order, none after a lost one, as TCP delivers until it gives up.

    Args:
        network: the network.
        source, target: its ends.
    """

    def __init__(self, network: Network, source: str, target: str) -> None:
        self._network = network
        self._ends = source, target
        self._sent = 0
        self._arrived = 0

    def send(self, deliver: Callable[[], None]) -> None:
        """Call `deliver` when the message arrives."""
        self._network.send(*self._ends, partial(self._arrive, self._sent, deliver))
        self._sent += 1

    def _arrive(self, number: int, deliver: Callable[[], None]) -> None:
        assert self._arrived <= number < self._sent, f"message {number} arrives a second time, or was not sent"
        if number == self._arrived:
            self._arrived += 1
            deliver()
