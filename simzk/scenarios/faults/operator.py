"""Steps of an operator during the faults: topics, reassignments, elections, rolling restarts and upgrades.

Rules of this module:
  - a step is a kind of fault like any other: it is drawn from the seed, saved, edited and replayed;
  - a request may be refused or get no answer, as for a real operator: the history says so, and the run goes on.

To add a kind, write its class here and add it to `OPERATOR_KINDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from simzk.kafka.releases.cluster_releases import at_protocol
from simzk.kafka.releases.versions import LINES, kafka_version
from simzk.scenarios.actions import parse_partition
from simzk.scenarios.faults.fault import OPERATOR, Draw, Fault, FaultCheck, Restart, Setting, Target
from simzk.scenarios.source import BrokerId, Count, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

REPLICAS_MAX, PARTITIONS_MAX, TOPICS_MAX = 3, 4, 6
"""Limits of what is drawn: replicas of a partition, partitions that are created or added, topics that are created."""
_FIRST_WITH_DELETION = (0, 9, 0)
_FIRST_WITH_CANCELLATION = (2, 4, 0)  # KIP-455
_FIRST_WITH_PROTOCOLS = (0, 9, 0)


class OperatorStep(Fault, kw_only=True, frozen=True):
    """A step of the operator."""

    who: ClassVar[str] = OPERATOR


class TopicStep(OperatorStep, kw_only=True, frozen=True):
    """A step with one topic."""

    topic: str

    def change(self, topics: dict[str, int]) -> None:
        """Change the number of partitions by topic, as the step does."""
        raise NotImplementedError

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.topic(self.topic)


class CreateTopic(TopicStep, kw_only=True, frozen=True):
    """Create a topic; the brokers place its replicas."""

    partitions: Count
    replication_factor: Count

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        if draw.created == TOPICS_MAX:
            return None
        draw.created += 1
        topic = f"swarm-{draw.created}"
        draw.topics[topic] = partitions = draw.stream.between(1, PARTITIONS_MAX)
        replicas = draw.stream.between(1, min(REPLICAS_MAX, len(draw.setting.brokers)))
        return cls(kind=cls.name, at=draw.at, topic=topic, partitions=partitions, replication_factor=replicas)

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        brokers = len(check.setting.brokers)
        if self.replication_factor > brokers:
            what = f"{self.replication_factor} replicas on {brokers} brokers"
            check.fail("replication_factor", what, f"at most {brokers}")

    def change(self, topics: dict[str, int]) -> None:
        topics[self.topic] = self.partitions

    def begin(self, target: Target) -> None:
        target.cluster.create_topic(self.topic, self.partitions, self.replication_factor)

    def describe(self) -> str:
        return f"creates topic {self.topic}: {self.partitions} partitions, {self.replication_factor} replicas each"


class DeleteTopic(TopicStep, kw_only=True, frozen=True):
    """Delete a topic."""

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        if len(draw.topics) < 2:
            return None
        topic = draw.stream.choice(list(draw.topics))
        del draw.topics[topic]
        return cls(kind=cls.name, at=draw.at, topic=topic)

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        return kafka_version(setting.version).number >= _FIRST_WITH_DELETION

    def change(self, topics: dict[str, int]) -> None:
        topics.pop(self.topic, None)

    def begin(self, target: Target) -> None:
        target.cluster.delete_topic(self.topic)

    def describe(self) -> str:
        return f"deletes topic {self.topic}"


class AddPartitions(TopicStep, kw_only=True, frozen=True):
    """Add partitions to a topic, up to a total; the brokers place their replicas."""

    total: Count

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        if not draw.topics:
            return None
        topic = draw.stream.choice(list(draw.topics))
        total = draw.topics[topic] + draw.stream.between(1, PARTITIONS_MAX)
        if total > 3 * PARTITIONS_MAX:
            return None
        draw.topics[topic] = total
        return cls(kind=cls.name, at=draw.at, topic=topic, total=total)

    def change(self, topics: dict[str, int]) -> None:
        topics[self.topic] = self.total

    def begin(self, target: Target) -> None:
        target.cluster.add_partitions(self.topic, self.total)

    def describe(self) -> str:
        return f"adds partitions to {self.topic}: {self.total} in all"


class Reassign(OperatorStep, kw_only=True, frozen=True):
    """Reassign a partition to other replicas."""

    partition: str
    replicas: tuple[BrokerId, ...]

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        partition = draw.partition()
        if partition is None:
            return None
        draw.moved.append(partition)
        brokers = draw.setting.brokers
        size = draw.stream.between(1, min(REPLICAS_MAX, len(brokers)))
        replicas = tuple(draw.stream.shuffled(brokers)[:size])
        return cls(kind=cls.name, at=draw.at, partition=partition, replicas=replicas)

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.partition("partition", self.partition)
        check.brokers("replicas", self.replicas)

    def begin(self, target: Target) -> None:
        topic, partition = parse_partition(self.partition)
        target.cluster.reassign({(topic, partition): self.replicas})

    def describe(self) -> str:
        return f"reassigns {self.partition} to {list(self.replicas)}"


class CancelReassignment(OperatorStep, kw_only=True, frozen=True):
    """Cancel the reassignment of a partition, if it is in progress."""

    partition: str

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        return cls(kind=cls.name, at=draw.at, partition=draw.moved[-1]) if draw.moved else None

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        return kafka_version(setting.version).number >= _FIRST_WITH_CANCELLATION

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.partition("partition", self.partition)

    def begin(self, target: Target) -> None:
        topic, partition = parse_partition(self.partition)
        target.cluster.reassign({(topic, partition): None})

    def describe(self) -> str:
        return f"cancels the reassignment of {self.partition}"


class Elect(OperatorStep, kw_only=True, frozen=True):
    """Elect the preferred leaders of all partitions; or with `election = "unclean"` those without a live leader.

    Unclean elections are not drawn, because they may lose acknowledged records.
    """

    election: Literal["preferred", "unclean"] = "preferred"

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        return cls(kind=cls.name, at=draw.at)

    def begin(self, target: Target) -> None:
        target.cluster.elect(self.election)

    def describe(self) -> str:
        return f"elects {self.election} leaders"


class RollingRestart(OperatorStep, kw_only=True, frozen=True):
    """Restart brokers one after another, each by a controlled shutdown, with a pause of `gap` after each start."""

    brokers: tuple[BrokerId, ...]
    gap: str

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        order = tuple(draw.stream.shuffled(draw.setting.brokers))
        return cls(kind=cls.name, at=draw.at, brokers=order, gap=_draw_gap(draw))

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.brokers("brokers", self.brokers)
        check.duration("gap", self.gap, positive=False)

    def begin(self, target: Target) -> None:
        target.roll([Restart(broker) for broker in self.brokers], parse_duration(self.gap) or 0)

    def describe(self) -> str:
        return f"restarts brokers {_ids(self.brokers)} one after another, {self.gap} apart"


class RollingUpgrade(RollingRestart, kw_only=True, frozen=True):
    """Upgrade brokers one after another: first each to a release at the old protocol, then each to its protocol.

    `version` is the new release, `protocol` the inter-broker protocol until all brokers run it.
    """

    version: str
    protocol: str

    @classmethod
    def draw(cls, draw: Draw) -> Fault | None:
        if draw.is_upgraded:
            return None
        draw.is_upgraded = True
        present = kafka_version(draw.setting.version).name
        version = draw.stream.choice(LINES[: LINES.index(present)])
        order, gap = tuple(draw.stream.shuffled(draw.setting.brokers)), _draw_gap(draw)
        return cls(kind=cls.name, at=draw.at, brokers=order, gap=gap, version=version, protocol=present)

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        present = kafka_version(setting.version)
        return present.number >= _FIRST_WITH_PROTOCOLS and present.name != LINES[0]

    def check(self, check: FaultCheck) -> None:
        super().check(check)
        check.config("version", lambda: kafka_version(self.version))
        check.config("protocol", lambda: at_protocol(kafka_version(self.version), self.protocol))
        older = kafka_version(check.setting.version)
        if kafka_version(self.version).number < older.number:
            check.fail("version", f"{self.version} is no upgrade", f"{older.name} or later")

    def begin(self, target: Target) -> None:
        code = [Restart(broker, self.version, self.protocol) for broker in self.brokers]
        protocol = [Restart(broker, "", kafka_version(self.version).name) for broker in self.brokers]
        target.roll(code + protocol, parse_duration(self.gap) or 0)

    def describe(self) -> str:
        return f"upgrades brokers {_ids(self.brokers)} to {self.version} one after another, {self.gap} apart"


def _draw_gap(draw: Draw) -> str:
    return format_duration(draw.stream.between(0, 20_000) * 1_000)


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


OPERATOR_KINDS: Final = (
    CreateTopic,
    DeleteTopic,
    AddPartitions,
    Reassign,
    CancelReassignment,
    Elect,
    RollingRestart,
    RollingUpgrade,
)
