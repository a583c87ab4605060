"""Traffic during the faults: producers, consumers, and settings of topics that decide which records may be lost.

Rules of this module:
  - a client is an entry of a plan like a fault: it is drawn from the seed, saved, edited, replayed and shrunk;
  - clients are drawn only if a scenario has `[faults.traffic]`, from random streams of their own: the faults of a seed
    are the same with traffic and without;
  - each seed draws a weight for every role of `ROLES`; a role is a kind of client, or of setting. A topic that exists
    before the faults gets a setting at their begin, with a chance of the weight in eighths;
  - a client stops at the end of its duration, or when everything heals.

To add a role, write the function that draws it and add it to `ROLES`; a new kind of entry goes to `TRAFFIC_KINDS`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from msgspec import structs

from simzk.kafka.broker.producing import ALL
from simzk.kafka.cluster.traffic import ConsumerSettings, ProducerSettings
from simzk.kafka.releases.versions import kafka_version
from simzk.scenarios.actions import parse_partition
from simzk.scenarios.faults.fault import Draw, Fault, FaultCheck, LastingFault, Setting, Target
from simzk.scenarios.faults.operator import TopicStep
from simzk.scenarios.source import Count, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.simulation import RandomStream

TRAFFIC = "traffic"
"""Who acts in the history."""
WEIGHT_LIMIT: Final = 4
"""Upper limit, exclusive, of the number that multiplies the weight of a role."""
CHANCE_OF: Final = 8
"""The weight of a setting is its chance, as a part of this."""
CLIENTS_MAX: Final = 1_000
"""Limit of the clients of a drawn plan."""
UNCLEAN_KEY, MIN_INSYNC_KEY = "unclean.leader.election.enable", "min.insync.replicas"
_FIRST_WITH_UNCLEAN = (0, 8, 2)
_FIRST_WITH_MIN_INSYNC = (0, 8, 2)
_FIRST_WITH_IDEMPOTENCE = (0, 11, 0)  # KIP-98


class ClientEntry(LastingFault, kw_only=True, frozen=True):
    """A client of one partition."""

    who: ClassVar[str] = TRAFFIC

    partition: str
    gap: str
    timeout: str = "30s"

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.partition("partition", self.partition)
        for key, text in (("gap", self.gap), ("timeout", self.timeout)):
            if check.duration(key, text) < 1_000:
                check.fail(key, f"{text} is less than 1 ms", "1ms or more")

    @property
    def gap_us(self) -> int:
        """Time between two requests, in microseconds."""
        return parse_duration(self.gap) or 0

    @property
    def timeout_ms(self) -> int:
        """Time in ms that the client waits for an answer."""
        return (parse_duration(self.timeout) or 0) // 1_000


class Produce(ClientEntry, kw_only=True, frozen=True):
    """Send a batch of `records` every `gap`, each again up to `retries` times."""

    acks: Literal[0, 1, "all"]
    records: Count = 1
    retries: int = 0
    idempotent: bool = False

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        return cls.draw_with(draw.stream.choice((0, 1, "all")), draw)

    @classmethod
    def draw_idempotent(cls, draw: Draw) -> Fault | None:
        """Return an idempotent producer, which needs acks of all in the ISR; None without topics or in old releases."""
        if kafka_version(draw.setting.version).number < _FIRST_WITH_IDEMPOTENCE:
            return None
        producer = cls.draw_with("all", draw)
        return None if producer is None else structs.replace(producer, idempotent=True, retries=100)

    @classmethod
    def draw_with(cls, acks: Literal[0, 1, "all"], draw: Draw) -> Produce | None:
        """Return a producer with these acks; None without topics."""
        partition = draw.partition()
        if partition is None:
            return None
        return cls(
            kind=cls.name,
            at=draw.at,
            partition=partition,
            acks=acks,
            gap=_draw_ms(draw, 50, 2_000),
            records=draw.stream.between(1, 10),
            retries=draw.stream.choice((0, 3, 100)),
            timeout=_draw_ms(draw, 1_000, 30_000),
            duration=draw.duration_of_links(),
        )

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if self.retries < 0:
            check.fail("retries", f"there are {self.retries} retries", "0 or more")
        if self.idempotent and self.acks != "all":
            check.fail("acks", f"an idempotent producer has acks {self.acks}", '"all"')
        if self.idempotent and kafka_version(check.setting.version).number < _FIRST_WITH_IDEMPOTENCE:
            what = f"Kafka {check.setting.version} has no idempotent producers"
            check.fail("idempotent", what, "0.11 or later")

    def begin(self, target: Target) -> None:
        acks = ALL if self.acks == "all" else self.acks
        partition = parse_partition(self.partition)
        settings = ProducerSettings(
            partition, acks, self.gap_us, self.records, self.retries, self.timeout_ms, self.idempotent
        )
        producer = target.cluster.traffic.start_producer(settings)
        target.call_later(self.duration_us, producer.process.kill)

    def describe(self) -> str:
        batches = f"{self.records} record{'s' * (self.records != 1)} to {self.partition} every {self.gap}"
        idempotent = ", idempotent" * self.idempotent
        return f"produces {batches}, acks {self.acks}, {self.retries} retries{idempotent}"


class Consume(ClientEntry, kw_only=True, frozen=True):
    """Read a partition from its beginning, every `gap`, up to the high watermark."""

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        partition = draw.partition()
        if partition is None:
            return None
        return cls(
            kind=cls.name,
            at=draw.at,
            partition=partition,
            gap=_draw_ms(draw, 100, 2_000),
            timeout=_draw_ms(draw, 1_000, 30_000),
            duration=draw.duration_of_links(),
        )

    def begin(self, target: Target) -> None:
        settings = ConsumerSettings(parse_partition(self.partition), self.gap_us, self.timeout_ms)
        consumer = target.cluster.traffic.start_consumer(settings)
        target.call_later(self.duration_us, consumer.process.kill)

    def describe(self) -> str:
        return f"consumes {self.partition} every {self.gap}"


class ConfigureTopic(Fault, kw_only=True, frozen=True):
    """Set a configuration key of a topic."""

    who: ClassVar[str] = TRAFFIC

    topic: str
    key: str
    value: str

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        return "topics" in kafka_version(setting.version).configs.entity_types

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.topic(self.topic)
        if not self.is_possible(check.setting):
            what = f"topics of Kafka {check.setting.version} have no configuration"
            check.fail("kind", what, "0.8.1 or later")

    def begin(self, target: Target) -> None:
        target.cluster.alter_config(f"topics/{self.topic}", {self.key: self.value})

    def describe(self) -> str:
        return f"sets {self.key}={self.value} of topic {self.topic}"


TRAFFIC_KINDS: Final = (Produce, Consume, ConfigureTopic)

CLIENT_ROLES: Final[dict[str, Callable[[Draw], Fault | None]]] = {
    "acks_0": partial(Produce.draw_with, 0),
    "acks_1": partial(Produce.draw_with, 1),
    "acks_all": partial(Produce.draw_with, "all"),
    "idempotent": Produce.draw_idempotent,
    "consume": Consume.draw,
}
"""Functions that draw a client, by role."""
SETTING_ROLES: Final[dict[str, tuple[str, str, tuple[int, ...]]]] = {
    "unclean_election": (UNCLEAN_KEY, "true", _FIRST_WITH_UNCLEAN),
    "min_insync": (MIN_INSYNC_KEY, "2", _FIRST_WITH_MIN_INSYNC),
}
"""Key, value and first release of a setting, by role."""
ROLES: Final = (*CLIENT_ROLES, *SETTING_ROLES)
"""All roles, in the order in which a plan draws their weights."""


@dataclass(frozen=True, slots=True)
class TrafficLimits:
    """Limits of a scenario on the traffic that is drawn.

    Args:
        weights: relative frequency of roles by name [default: 1 for each]; a role of weight 0 is never drawn.
        gap_us: mean time between the begins of two clients; None to draw it.
        longest_us: maximum duration of a client; None to draw it.
        every_us: mean time between two batches of producers that send all the time (`DenseProducers`); None for none.
    """

    weights: Mapping[str, int] = field(default_factory=dict)
    gap_us: int | None = None
    longest_us: int | None = None
    every_us: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """Options of one seed.

    Args:
        gap_us: mean time between the begins of two clients.
        longest_us: maximum duration of a client.
        weights: weight of each role by its name.
    """

    gap_us: int
    longest_us: int
    weights: dict[str, int]

    @classmethod
    def draw(cls, stream: RandomStream, limits: TrafficLimits) -> TrafficOptions:
        """Return options drawn from a stream, within the limits of a scenario."""
        weights = {name: limits.weights.get(name, 1) * stream.below(WEIGHT_LIMIT) for name in ROLES}
        if not any(weights[name] for name in CLIENT_ROLES):
            weights |= {name: limits.weights.get(name, 1) for name in CLIENT_ROLES}
        gap_us, longest_us = stream.between(1_000, 20_000) * 1_000, stream.between(5_000, 90_000) * 1_000
        return cls(limits.gap_us or gap_us, limits.longest_us or longest_us, weights)

    def __str__(self) -> str:
        """Return all options, as printed before a run.

        >>> str(TrafficOptions(3, 4, {"acks_0": 1, "consume": 0}))
        'gap_us=3 longest_us=4 acks_0=1 consume=0'
        """
        weights = " ".join(f"{name}={weight}" for name, weight in self.weights.items())
        return f"gap_us={self.gap_us} longest_us={self.longest_us} {weights}"


def draw_traffic(
    stream: RandomStream, options: TrafficOptions, safety_us: int, setting: Setting, faults: Sequence[Fault]
) -> list[Fault]:
    """Return settings of topics and clients in the order of their time; all begin and end within the phase of faults.

    Clients use the topics that the operator has not deleted by then, according to `faults`, which are in order.
    """
    assert options.gap_us > 0
    draw = Draw(stream, setting, safety_us=safety_us, longest_us=options.longest_us, broken_max=0)
    entries = _draw_settings(draw, options)
    roles = [role for name, role in CLIENT_ROLES.items() for _ in range(options.weights[name])]
    left = deque(fault for fault in faults if isinstance(fault, TopicStep))
    for _ in range(CLIENTS_MAX if roles else 0):
        draw.at_us += stream.between(1, 2 * options.gap_us)
        if draw.at_us >= safety_us:
            break
        while left and left[0].at_us <= draw.at_us:
            left.popleft().change(draw.topics)
        entry = stream.choice(roles)(draw)
        if entry is not None:
            entries.append(entry)
    assert all(entry.end_us <= safety_us for entry in entries)
    return entries


def _draw_settings(draw: Draw, options: TrafficOptions) -> list[Fault]:
    """Return settings of the topics that exist at the begin."""
    if not ConfigureTopic.is_possible(draw.setting):
        return []
    number = kafka_version(draw.setting.version).number
    return [
        ConfigureTopic(kind=ConfigureTopic.name, at=draw.at, topic=topic, key=key, value=value)
        for name, (key, value, first) in SETTING_ROLES.items()
        for topic in draw.topics
        if draw.stream.below(CHANCE_OF) < options.weights[name] and number >= first
    ]


def _draw_ms(draw: Draw, least: int, most: int) -> str:
    """Draw a duration in ms; short ones are as frequent as long ones on a logarithmic scale of 2."""
    limit = least
    while limit < most and draw.stream.below(2):
        limit = min(2 * limit, most)
    return format_duration(draw.stream.between(least, limit) * 1_000)
