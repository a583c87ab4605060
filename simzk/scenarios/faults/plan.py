"""Fault plan of a run: swarm options and faults drawn from the seed.

Rules of this module:
  - first safety: for `safety_us` the faults of the plan happen; then liveness: everything heals, and the cluster must
    recover within `liveness_us`;
  - every option of a swarm is drawn anew for each seed, so that different seeds test different combinations of faults
    (swarm testing: Groce et al., ISSTA 2012);
  - a plan is a list of faults and depends on nothing else: it can be saved, edited and played again;
  - options draw a weight for each kind in the order of `FAULT_KINDS`, so a new kind changes the plans of all seeds;
  - kinds that need a ZooKeeper ensemble draw their weights from another stream, and only if there is one: the plans of
    clusters with one server do not depend on them;
  - faults of single calls (`CALL_KINDS`) are drawn so, too, if there are clients;
  - pauses and cuts of single servers (`SERVER_KINDS`) are drawn from streams of their own, beside the other faults: a
    plan without them does not depend on them either;
  - traffic and clients are drawn from other random streams, and their entries are in the same list (`traffic`,
    `clients`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from simzk.scenarios.faults.brokers import BROKER_KINDS
from simzk.scenarios.faults.calls import CALL_KINDS
from simzk.scenarios.faults.clients import CLIENT_ENTRIES, WireClientEntry, draw_clients
from simzk.scenarios.faults.fault import Draw, Fault, Setting
from simzk.scenarios.faults.links import LINK_KINDS
from simzk.scenarios.faults.operator import OPERATOR_KINDS, DeleteTopic
from simzk.scenarios.faults.traffic import TRAFFIC_KINDS, TrafficOptions, draw_traffic
from simzk.scenarios.faults.zookeeper import ENSEMBLE_KINDS, SERVER_KINDS, ZOOKEEPER_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.scenarios.faults.clients import ClientLimits
    from simzk.scenarios.faults.traffic import TrafficLimits
    from simzk.simulation import RandomStream

WEIGHT_LIMIT: Final = 4
"""Upper limit, exclusive, of the number that multiplies a kind's weight."""
FAULTS_MAX: Final = 10_000
"""Limit of the faults of a drawn plan, which bounds one whose mean gap is tiny."""

_EVERYWHERE: Final[dict[str, type[Fault]]] = {
    kind.name: kind for kind in (*BROKER_KINDS, *LINK_KINDS, *ZOOKEEPER_KINDS, *OPERATOR_KINDS)
}
FAULT_KINDS: Final[dict[str, type[Fault]]] = _EVERYWHERE | {
    kind.name: kind for kind in (*ENSEMBLE_KINDS, *SERVER_KINDS, *CALL_KINDS)
}
"""All kinds of fault by name, in the order in which a plan draws their weights."""
PLAN_KINDS: Final[dict[str, type[Fault]]] = FAULT_KINDS | {
    kind.name: kind for kind in (*TRAFFIC_KINDS, *CLIENT_ENTRIES)
}
"""All kinds of entries of a plan by name: faults, traffic and clients."""


@dataclass(frozen=True, slots=True)
class SwarmLimits:
    """Limits of a scenario on the faults that are drawn.

    Args:
        safety_us: length of the phase with faults.
        liveness_us: time limit for the recovery after it.
        weights: relative frequency of kinds by name [default: 1 for each]; a kind of weight 0 is never drawn.
        gap_us: mean time between two faults; None to draw it.
        longest_us: maximum duration of a fault; None to draw it.
        broken_max: maximum number of brokers with a fault at one time; None to draw it.
        traffic: limits on the traffic that is drawn; None for no traffic.
        clients: limits on the clients that are drawn; None for no clients.
    """

    safety_us: int
    liveness_us: int
    weights: Mapping[str, int] = field(default_factory=dict)
    gap_us: int | None = None
    longest_us: int | None = None
    broken_max: int | None = None
    traffic: TrafficLimits | None = None
    clients: ClientLimits | None = None


@dataclass(frozen=True, slots=True)
class SwarmOptions:
    """Options of one seed.

    Args:
        gap_us: mean time between two faults.
        longest_us: maximum duration of a fault.
        broken_max: maximum number of brokers with a fault at one time.
        weights: relative frequency of each kind of fault, by its name.
        traffic: options of the traffic; None for no traffic.
    """

    gap_us: int
    longest_us: int
    broken_max: int
    weights: dict[str, int]
    traffic: TrafficOptions | None = None

    @classmethod
    def draw(cls, stream: RandomStream, limits: SwarmLimits, setting: Setting) -> SwarmOptions:
        """Return options drawn from a stream, within the limits of a scenario."""
        wanted = {
            name: limits.weights.get(name, 1) if kind.is_possible(setting) else 0 for name, kind in _EVERYWHERE.items()
        }
        weights = {name: weight * stream.below(WEIGHT_LIMIT) for name, weight in wanted.items()}
        if not any(weights.values()):
            weights = wanted
        gap_us = stream.between(1_000, 20_000) * 1_000
        longest_us = stream.between(1_000, 40_000) * 1_000
        broken_max = stream.between(1, max(1, len(setting.brokers)))
        return cls(
            gap_us=limits.gap_us or gap_us,
            longest_us=limits.longest_us or longest_us,
            broken_max=limits.broken_max or broken_max,
            weights=weights,
        )

    def with_weights(self, stream: RandomStream, limits: SwarmLimits, kinds: tuple[type[Fault], ...]) -> SwarmOptions:
        """Return the options with drawn weights of further kinds."""
        drawn = {kind.name: limits.weights.get(kind.name, 1) * stream.below(WEIGHT_LIMIT) for kind in kinds}
        return replace(self, weights=self.weights | drawn)

    def __str__(self) -> str:
        """Return all options, as printed before a run.

        >>> str(SwarmOptions(3, 4, 5, {"kill": 1, "pause": 0}))
        'gap_us=3 longest_us=4 broken_max=5 kill=1 pause=0'
        """
        weights = " ".join(f"{name}={weight}" for name, weight in self.weights.items())
        traffic = "" if self.traffic is None else f", traffic: {self.traffic}"
        return f"gap_us={self.gap_us} longest_us={self.longest_us} broken_max={self.broken_max} {weights}{traffic}"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of a run.

    Args:
        safety_us: length of the phase with faults.
        liveness_us: time limit for the recovery after it.
        faults: the faults, in the order of their times.
        options: the options from which the faults were drawn; None for a plan that was read or changed.
    """

    safety_us: int
    liveness_us: int
    faults: tuple[Fault, ...]
    options: SwarmOptions | None = None

    def __post_init__(self) -> None:
        times_us = [fault.at_us for fault in self.faults]
        assert times_us == sorted(times_us), "faults happen in the order of the plan"
        assert all(0 <= at_us < self.safety_us for at_us in times_us), "faults begin in the phase of faults"

    @property
    def has_clients(self) -> bool:
        """Whether clients that speak Kafka's requests are in the plan."""
        return any(isinstance(fault, WireClientEntry) for fault in self.faults)

    @classmethod
    def draw(cls, stream_of: Callable[[str], RandomStream], limits: SwarmLimits, setting: Setting) -> FaultPlan:
        """Return the plan of a seed; `stream_of` returns its random stream of a name."""
        options = SwarmOptions.draw(stream_of("fault plan"), limits, setting)
        if setting.zookeeper_servers > 1:
            options = options.with_weights(stream_of("fault plan/ensemble"), limits, ENSEMBLE_KINDS)
        faults = draw_faults(stream_of("faults"), options, limits.safety_us, setting)
        if limits.traffic is not None:
            traffic = TrafficOptions.draw(stream_of("traffic plan"), limits.traffic)
            options = replace(options, traffic=traffic)
            faults += draw_traffic(stream_of("traffic"), traffic, limits.safety_us, setting, faults)
        if setting.zookeeper_servers > 1:
            stream = stream_of("fault plan/servers")
            of_servers = replace(options, weights={}).with_weights(stream, limits, SERVER_KINDS)
            faults += draw_faults(stream_of("faults/servers"), of_servers, limits.safety_us, setting)
            options = replace(options, weights=options.weights | of_servers.weights)
        if limits.clients is not None:
            stream = stream_of("fault plan/calls")
            of_calls = replace(options, weights={}).with_weights(stream, limits, _possible(CALL_KINDS, setting))
            faults += draw_faults(stream_of("faults/calls"), of_calls, limits.safety_us, setting)
            options = replace(options, weights=options.weights | of_calls.weights)
            faults += draw_clients(
                stream_of("clients plan"), limits.clients, limits.safety_us, _kept_topics(setting, faults)
            )
        faults.sort(key=lambda fault: fault.at_us)
        return cls(limits.safety_us, limits.liveness_us, tuple(faults), options)

    def with_faults(self, faults: tuple[Fault, ...]) -> FaultPlan:
        """Return a plan of the same lengths with other faults."""
        return FaultPlan(self.safety_us, self.liveness_us, tuple(sorted(faults, key=lambda fault: fault.at_us)))


def _possible(kinds: Sequence[type[Fault]], setting: Setting) -> tuple[type[Fault], ...]:
    """Return the kinds that a cluster can have."""
    return tuple(kind for kind in kinds if kind.is_possible(setting))


def _kept_topics(setting: Setting, faults: Sequence[Fault]) -> Setting:
    """Return a setting without the topics that the operator deletes: clients rely on theirs."""
    deleted = {fault.topic for fault in faults if isinstance(fault, DeleteTopic)}
    return setting._replace(topics={name: count for name, count in setting.topics.items() if name not in deleted})


def draw_faults(stream: RandomStream, options: SwarmOptions, safety_us: int, setting: Setting) -> list[Fault]:
    """Return faults in the order of their time; all begin within the phase of faults, and end within it."""
    assert options.gap_us > 0
    kinds = [kind for kind, weight in options.weights.items() for _ in range(weight)]
    if not kinds:
        return []
    draw = Draw(stream, setting, safety_us=safety_us, longest_us=options.longest_us, broken_max=options.broken_max)
    faults: list[Fault] = []
    while len(faults) < FAULTS_MAX:
        draw.at_us += stream.between(1, 2 * options.gap_us)
        if draw.at_us >= safety_us:
            break
        fault = FAULT_KINDS[stream.choice(kinds)].draw(draw)
        if fault is not None:
            faults.append(fault)
    assert all(fault.end_us <= safety_us for fault in faults)
    return faults
