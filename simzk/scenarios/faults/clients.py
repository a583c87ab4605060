"""Clients that speak Kafka's requests during the faults: groups, transactions, fetch sessions, administration.

Rules of this module:
  - a client is an entry of a plan like a fault: it is drawn from the seed, saved, edited, replayed and shrunk;
  - clients are drawn only if a scenario has `[faults.clients]`, from random streams of their own: the faults of a seed
    are the same with clients and without;
  - each seed draws a weight for every role of `CLIENT_ROLES`;
  - they use topics that exist before the faults; records with keys go to compacted topics, all others to the rest;
  - a client stops at the end of its duration, or when everything heals. A member of a group leaves it or crashes.

To add a role, write its class and add it to `CLIENT_ENTRIES`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import structs

from simzk.kafka.cluster.clients.group_member import MemberSettings
from simzk.kafka.cluster.clients.producers import TransactionSettings
from simzk.kafka.cluster.clients.readers import FETCH, WITH_TOPIC_IDS
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition
from simzk.scenarios.faults.fault import Draw, Fault, FaultCheck, LastingFault, Setting, Target
from simzk.scenarios.source import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.simulation import RandomStream

CLIENTS: Final = "clients"
"""Who acts in the history."""
WEIGHT_LIMIT: Final = 4
"""Upper limit, exclusive, of the number that multiplies the weight of a role."""
CLIENTS_MAX: Final = 1_000
"""Limit of the clients of a drawn plan."""
GROUPS: Final = 2
TRANSACTIONAL_IDS: Final = 3
"""Numbers of groups and of transactional ids, which are few, so that clients meet."""
_NO_GAP = "500ms"


class WireClientEntry(LastingFault, kw_only=True, frozen=True):
    """A client of one topic that sends a request, or does a round of them, every `gap`."""

    who: ClassVar[str] = CLIENTS
    since: ClassVar[tuple[int, ...]]
    """The first release that serves it."""

    topic: str
    partitions: int
    gap: str = _NO_GAP

    @property
    def gap_us(self) -> int:
        """Time between two rounds, in microseconds."""
        return parse_duration(self.gap) or 0

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        return kafka_version(setting.version).number >= cls.since

    @classmethod
    def topics(cls, setting: Setting) -> dict[str, int]:
        """Return the topics that it can use, with their numbers of partitions."""
        return {name: count for name, count in setting.topics.items() if name not in setting.compacted}

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        topics = cls.topics(draw.setting)
        if not topics or not cls.is_possible(draw.setting):
            return None
        topic = draw.stream.choice(list(topics))
        details = cls.draw_details(draw)
        gap = format_duration(draw.stream.between(200, 2_000) * 1_000)
        duration = draw.duration_of_links()
        return cls(
            kind=cls.name, at=draw.at, topic=topic, partitions=topics[topic], gap=gap, duration=duration, **details
        )

    @classmethod
    def draw_details(cls, draw: Draw) -> dict[str, Any]:
        """Return what a role has beside its topic and its times, by field."""
        return {}

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.topic(self.topic)
        if check.duration("gap", self.gap) < 1_000:
            check.fail("gap", f"{self.gap} is less than 1 ms", "1ms or more")
        if not 1 <= self.partitions <= check.setting.topics.get(self.topic, self.partitions):
            check.fail("partitions", f"there are {self.partitions} partitions", "as many as the topic has, or fewer")
        if not self.is_possible(check.setting):
            right = f"{'.'.join(map(str, self.since[:2]))} or later"
            check.fail("kind", f"Kafka {check.setting.version} does not serve it", right)

    @property
    def all_partitions(self) -> list[TopicPartition]:
        """The partitions of its topic."""
        return [TopicPartition(self.topic, number) for number in range(self.partitions)]


class JoinGroup(WireClientEntry, kw_only=True, frozen=True):
    """Be a member of a group that commits offsets; `instance` is the id of a static member."""

    since = (0, 11, 0)

    group: str
    instance: str = ""
    leaves: bool = True

    @classmethod
    def draw_details(cls, draw: Draw) -> dict[str, Any]:
        stream = draw.stream
        number = stream.below(GROUPS) + 1
        is_static = not stream.below(3) and kafka_version(draw.setting.version).number >= _STATIC_SINCE
        instance = f"instance-{number}-{stream.below(2) + 1}" if is_static else ""
        return {"group": f"group-{number}", "instance": instance, "leaves": bool(stream.below(2))}

    @classmethod
    def topics(cls, setting: Setting) -> dict[str, int]:
        """Return the first topic: the members of a group read the same."""
        return dict(list(super().topics(setting).items())[:1])

    def begin(self, target: Target) -> None:
        settings = MemberSettings(self.group, self.topic, self.partitions, self.gap_us, instance_id=self.instance)
        member = target.clients.start_member(settings)
        target.call_later(self.duration_us, member.leave if self.leaves else member.kill)

    def describe(self) -> str:
        static = f" as {self.instance}" if self.instance else ""
        return f"joins {self.group}{static} to read {self.topic}"


class Transact(WireClientEntry, kw_only=True, frozen=True):
    """Send transactions over partitions of a topic, with a transactional id that others may have too."""

    since = (0, 11, 0)

    transactional_id: str

    @classmethod
    def draw_details(cls, draw: Draw) -> dict[str, Any]:
        return {"transactional_id": f"transactions-{draw.stream.below(TRANSACTIONAL_IDS) + 1}"}

    def begin(self, target: Target) -> None:
        settings = TransactionSettings(self.transactional_id, self.topic, self.partitions, self.gap_us)
        target.call_later(self.duration_us, target.clients.start_transactions(settings).kill)

    def describe(self) -> str:
        return f"sends transactions to {self.topic} as {self.transactional_id}"


class ProduceOnce(WireClientEntry, kw_only=True, frozen=True):
    """Send numbered batches to a partition; `keyed` records have keys, as compacted topics need them."""

    since = (0, 11, 0)

    number: int = 0
    keyed: bool = False

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        found = super().draw(draw)
        if not isinstance(found, ProduceOnce):
            return found
        number, keyed = draw.stream.below(found.partitions), found.topic in draw.setting.compacted
        return structs.replace(found, number=number, keyed=keyed)

    @classmethod
    def topics(cls, setting: Setting) -> dict[str, int]:
        return dict(setting.topics)

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        if not 0 <= self.number < self.partitions:
            check.fail("number", f"there is no partition {self.number}", f"0 to {self.partitions - 1}")

    def begin(self, target: Target) -> None:
        partition = TopicPartition(self.topic, self.number)
        producer = target.clients.start_idempotent(partition, self.gap_us, has_keys=self.keyed)
        target.call_later(self.duration_us, producer.kill)

    def describe(self) -> str:
        return f"produces {'records with keys' if self.keyed else 'records'} once to {self.topic}-{self.number}"


class FetchBySession(WireClientEntry, kw_only=True, frozen=True):
    """Read committed records of a topic by fetch sessions, and compare them with full fetches."""

    since = (1, 1, 0)

    topic_ids: bool = True

    @classmethod
    def draw_details(cls, draw: Draw) -> dict[str, Any]:
        return {"topic_ids": bool(draw.stream.below(2))}

    def begin(self, target: Target) -> None:
        highest = FETCH if self.topic_ids else WITH_TOPIC_IDS - 1
        reader = target.clients.start_reader(self.all_partitions, self.gap_us, highest)
        target.call_later(self.duration_us, reader.kill)

    def describe(self) -> str:
        return f"reads {self.topic} by fetch sessions"


class DeleteRecords(WireClientEntry, kw_only=True, frozen=True):
    """Delete the first records of partitions of a topic."""

    since = (0, 11, 0)

    def begin(self, target: Target) -> None:
        deleter = target.clients.start_deleter(self.all_partitions, 4 * self.gap_us)
        target.call_later(self.duration_us, deleter.kill)

    def describe(self) -> str:
        return f"deletes records of {self.topic}"


class Administer(WireClientEntry, kw_only=True, frozen=True):
    """Create, change and delete topics of its own; `topic` is not used."""

    since = (2, 3, 0)

    def begin(self, target: Target) -> None:
        administrator = target.clients.start_administrator(4 * self.gap_us)
        target.call_later(self.duration_us, administrator.kill)

    def describe(self) -> str:
        return "creates, changes and deletes topics"


class WatchZnodes(WireClientEntry, kw_only=True, frozen=True):
    """Watch znodes of its own, which another client changes; `topic` is not used."""

    since = (0, 8, 0)

    def begin(self, target: Target) -> None:
        watcher = target.clients.start_watcher(self.gap_us)
        target.call_later(self.duration_us, watcher.kill)

    def describe(self) -> str:
        return "watches znodes"


_STATIC_SINCE: Final = (2, 3, 0)
CLIENT_ENTRIES: Final = (JoinGroup, Transact, ProduceOnce, FetchBySession, DeleteRecords, Administer, WatchZnodes)
CLIENT_ROLES: Final[dict[str, type[WireClientEntry]]] = {entry.name: entry for entry in CLIENT_ENTRIES}
"""All roles by name, in the order in which a plan draws their weights."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits of a scenario on the clients that are drawn.

    Args:
        weights: relative frequency of roles by name [default: 1 for each]; a role of weight 0 is never drawn.
        gap_us: mean time between the begins of two clients; None to draw it.
        longest_us: maximum duration of a client; None to draw it.
    """

    weights: Mapping[str, int] = field(default_factory=dict)
    gap_us: int | None = None
    longest_us: int | None = None


def draw_clients(stream: RandomStream, limits: ClientLimits, safety_us: int, setting: Setting) -> list[Fault]:
    """Return clients in the order of their time; all begin and end within the phase of faults."""
    weights = {name: limits.weights.get(name, 1) * stream.below(WEIGHT_LIMIT) for name in CLIENT_ROLES}
    if not any(weights.values()):
        weights = {name: limits.weights.get(name, 1) for name in CLIENT_ROLES}
    gap_us = limits.gap_us or stream.between(2_000, 15_000) * 1_000
    longest_us = limits.longest_us or stream.between(20_000, 120_000) * 1_000
    roles = [CLIENT_ROLES[name] for name, weight in weights.items() for _ in range(weight)]
    draw = Draw(stream, setting, safety_us=safety_us, longest_us=longest_us, broken_max=0)
    entries: list[Fault] = []
    for _ in range(CLIENTS_MAX if roles else 0):
        draw.at_us += stream.between(1, 2 * gap_us)
        if draw.at_us >= safety_us:
            break
        entry = stream.choice(roles).draw(draw)
        if entry is not None:
            entries.append(entry)
    assert all(entry.end_us <= safety_us for entry in entries), "clients end in the phase of faults"
    return entries
