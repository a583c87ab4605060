"""Faults of the network between brokers, and between brokers and ZooKeeper.

To add a kind, write its class here and add it to `LINK_KINDS`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from simzk.scenarios.faults.fault import Draw, Fault, FaultCheck, LastingBrokerFault, LastingFault, Target
from simzk.scenarios.network_links import ZOOKEEPER, cut, end_of, heal, peer_ends
from simzk.scenarios.source import BrokerId, format_duration, parse_duration
from simzk.simulation.network import ExponentialLatency, UniformLatency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from simzk.simulation.network import Latency

EVERYTHING = ""
"""Peer that stands for ZooKeeper and all other brokers."""
Keeper = Literal["both", "group", "others"]


class LinkFault(LastingBrokerFault, kw_only=True, frozen=True):
    """A fault of the links between a broker and a peer: another broker, ZooKeeper, or by default both."""

    peer: BrokerId | str = EVERYTHING

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        # Everything, ZooKeeper or another broker, each with the same probability.
        others = [other for other in draw.setting.brokers if other != broker]
        which = draw.stream.below(3)
        if which == 2 and others:
            return {"peer": draw.stream.choice(others)}
        return {"peer": ZOOKEEPER if which else EVERYTHING}

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if self.peer not in (EVERYTHING, ZOOKEEPER, *check.setting.brokers) or self.peer == self.broker:
            others = [str(broker) for broker in check.setting.brokers if broker != self.broker]
            check.fail("peer", f"no peer {self.peer!r}", f"one of {', '.join(others)}, zookeeper")

    def obstacle(self, target: Target) -> str:
        return ""  # a dead broker has links too: a restart finds them broken

    def ends(self, target: Target) -> Iterable[tuple[str, str]]:
        """Return the links as pairs of ends, the broker first."""
        return [(end_of(self.broker), end) for end in peer_ends(target.cluster, self.broker, self.peer)]

    def heal_later(self, target: Target) -> None:
        """Heal the links at the end."""
        target.call_later(self.duration_us, partial(heal, target.cluster, self.broker, self.peer))

    @property
    def _from_peer(self) -> str:
        return "" if self.peer == EVERYTHING else f" from {end_of(self.peer)}"


class Cut(LinkFault, kw_only=True, frozen=True):
    """Cut links: their messages are lost in both directions."""

    def begin(self, target: Target) -> None:
        cut(target.cluster, self.broker, self.peer)
        self.heal_later(target)

    def describe(self) -> str:
        return f"cuts off broker {self.broker}{self._from_peer}"


class CutOneWay(LinkFault, kw_only=True, frozen=True):
    """Lose the messages that a broker sends (`direction = "from"`), or those that are sent to it (`"to"`)."""

    direction: Literal["from", "to"]

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        return super().draw_details(draw, broker) | {"direction": "from" if draw.stream.below(2) else "to"}

    def begin(self, target: Target) -> None:
        for broker, peer in self.ends(target):
            source, sink = (broker, peer) if self.direction == "from" else (peer, broker)
            target.cluster.network.cut(source, sink, both=False)
        self.heal_later(target)

    def describe(self) -> str:
        broker, peer = end_of(self.broker), end_of(self.peer) or "everything"
        source, sink = (broker, peer) if self.direction == "from" else (peer, broker)
        return f"loses what {source} sends to {sink}"


class Clog(LinkFault, kw_only=True, frozen=True):
    """Hold the messages of links back, in order; they arrive at the end."""

    def begin(self, target: Target) -> None:
        network = target.cluster.network
        _both_ways(target, self.broker, self.peer, network.hold)
        target.call_later(self.duration_us, partial(_both_ways, target, self.broker, self.peer, network.release))

    def describe(self) -> str:
        return f"clogs the links of broker {self.broker}{self._from_peer.replace('from', 'to')}"


class SlowLink(LinkFault, kw_only=True, frozen=True):
    """Delay the messages of links, by a latency that is drawn for each: fixed, uniform up to it, or exponential.

    The latency of an exponential distribution is its median: half of the messages take longer, a quarter longer than
    twice as long.
    """

    latency: str
    distribution: Literal["fixed", "uniform", "exponential"] = "exponential"

    @classmethod
    def draw_details(cls, draw: Draw, broker: int) -> dict[str, Any]:
        details = super().draw_details(draw, broker)
        latency_us = draw.stream.between(1, 40) ** 2 * 1_000  # 1 ms to 1.6 s, more often short
        distribution = draw.stream.choice(("fixed", "uniform", "exponential"))
        return details | {"latency": format_duration(latency_us), "distribution": distribution}

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.duration("latency", self.latency)

    def begin(self, target: Target) -> None:
        network = target.cluster.network
        latency_us = parse_duration(self.latency) or 0
        latency: Latency = UniformLatency(latency_us if self.distribution == "fixed" else 0, latency_us)
        if self.distribution == "exponential":
            latency = ExponentialLatency(latency_us)

        def slow(latency: Latency | None) -> None:
            for broker, peer in self.ends(target):
                network.slow(broker, peer, latency)

        slow(latency)
        target.call_later(self.duration_us, lambda: slow(None))

    def describe(self) -> str:
        links = f"the links of broker {self.broker}{self._from_peer.replace('from', 'to')}"
        return f"slows down {links}, {self.distribution} {self.latency}"


class Split(LastingFault, kw_only=True, frozen=True):
    """Cut a group of brokers off from the other brokers; one of the two groups loses ZooKeeper too, or none."""

    brokers: tuple[BrokerId, ...]
    zookeeper: Keeper = "both"

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        brokers = draw.setting.brokers
        if len(brokers) < 2 or draw.broker() is None:
            return None
        size = draw.stream.between(1, len(brokers) - 1)
        group = tuple(sorted(draw.stream.shuffled(brokers)[:size]))
        keepers: tuple[Keeper, ...] = ("both", "group", "others")
        keeper = draw.stream.choice(keepers)
        return cls(kind=cls.name, at=draw.at, brokers=group, zookeeper=keeper, duration=draw.duration_of_links())

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.brokers("brokers", self.brokers)

    def begin(self, target: Target) -> None:
        network = target.cluster.network
        others = [broker for broker in target.cluster.brokers if broker not in self.brokers]
        links = [(end_of(one), end_of(other)) for one in self.brokers for other in others]
        losers = {"both": (), "group": others, "others": self.brokers}[self.zookeeper]
        links += [(end_of(broker), ZOOKEEPER) for broker in losers]
        for one, other in links:
            network.cut(one, other)

        def heal() -> None:
            for one, other in links:
                network.heal(one, other)

        target.call_later(self.duration_us, heal)

    def describe(self) -> str:
        keeps = {"both": "both keep", "group": "they keep", "others": "the others keep"}[self.zookeeper]
        return f"splits brokers {', '.join(map(str, self.brokers))} off, {keeps} ZooKeeper"


class Swizzle(LastingFault, kw_only=True, frozen=True):
    """Clog brokers one after another, then release them one after another in another order.

    FoundationDB's tests found more with it than with any other fault of the network (its documentation on testing).
    """

    clogged: tuple[BrokerId, ...]
    released: tuple[BrokerId, ...]

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        brokers = draw.setting.brokers
        if draw.broker() is None:
            return None
        clogged = tuple(draw.stream.shuffled(brokers)[: draw.stream.between(1, len(brokers))])
        released = tuple(draw.stream.shuffled(clogged))
        return cls(kind=cls.name, at=draw.at, clogged=clogged, released=released, duration=draw.duration_of_links())

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.brokers("clogged", self.clogged)
        check.brokers("released", self.released)
        if set(self.clogged) != set(self.released):
            right = "the same brokers in another order"
            check.fail("released", "clogged and released name different brokers", right)

    def begin(self, target: Target) -> None:
        network = target.cluster.network
        step_us = self.duration_us // (2 * len(self.clogged))
        for place, broker in enumerate(self.clogged):
            target.call_later(place * step_us, partial(_both_ways, target, broker, EVERYTHING, network.hold))
        for place, broker in enumerate(self.released):
            at_us = self.duration_us - (len(self.released) - 1 - place) * step_us
            target.call_later(at_us, partial(_both_ways, target, broker, EVERYTHING, network.release))

    def describe(self) -> str:
        clogged, released = (", ".join(map(str, brokers)) for brokers in (self.clogged, self.released))
        return f"clogs brokers {clogged} in turn and releases {released}"


def _both_ways(target: Target, broker: int, peer: int | str, act: Callable[[str, str], None]) -> None:
    """Call a function with the ends of each link between a broker and a peer, and with the ends exchanged."""
    own = end_of(broker)
    for end in peer_ends(target.cluster, broker, peer):
        act(own, end)
        act(end, own)


LINK_KINDS: Final = (Cut, CutOneWay, Clog, SlowLink, Split, Swizzle)
