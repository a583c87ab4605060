"""Kafka's `kafka-reassign-partitions` on a simulated cluster: generate, execute, verify, cancel.

The release's tool decides what is rejected, what is printed, and whether it writes to ZooKeeper or asks brokers
(ReassignPartitionsCommand; docs/reference/kafka.md §2.12).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from simzk.errors import ConfigError, LayoutError, ZnodeError
from simzk.jvm.numbers import JavaRandom
from simzk.kafka.requests import AdminResponse, AlterConfigRequest, AlterReassignmentsRequest
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import admin as admin_schema
from simzk.kafka.zookeeper_mode.schemas import config as config_schema
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.tools import reassign_partitions as reassign_tool
from simzk.kafka.zookeeper_mode.tools.operator import ZOOKEEPER
from simzk.partitions.assignment import assign_replicas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from simzk.kafka.cluster.zookeeper_access import KafkaTree
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.zookeeper_mode.tools.operator import Operator
    from simzk.kafka.zookeeper_mode.tools.reassign_partitions import Proposal
    from simzk.simulation import Future, RandomStream

K = TypeVar("K")
V = TypeVar("V")

Targets = Mapping[tuple[str, int], Sequence[int] | None] | str | Mapping[str, object]
"""Brokers by (topic, partition), None to cancel; or the JSON document that Kafka's tool reads, as text or parsed."""


@dataclass(frozen=True, slots=True)
class ReassignmentCommand:
    """One run of the tool, with what it reads from the cluster.

    Args:
        operator: sends requests and writes znodes.
        tool: the release of the tool.
        tree: the cluster's znodes.
        live_brokers: ids of the registered brokers, ascending.
    """

    operator: Operator
    tool: KafkaVersion
    tree: KafkaTree
    live_brokers: Sequence[int]

    def execute(
        self, targets: Targets, via: int | str | None, throttle: int | None, first_brokers: Sequence[int] = ()
    ) -> Future[AdminResponse]:
        """Start moving partitions (`--execute`), with throttles written first."""
        if isinstance(targets, str) or "partitions" in targets:
            request = AlterReassignmentsRequest(dict(reassign_tool.read_plan(_to_text(targets), self.tool)))
        else:
            pairs = {TopicPartition(*_parse_partition(key)): target for key, target in targets.items()}
            request = AlterReassignmentsRequest({p: _parse_brokers(target) for p, target in pairs.items()})
        if throttle is None:
            return self.operator.request("reassign", request, via)
        changes = self._throttles(request, throttle)
        if not reassign_tool.asks_brokers(self.tool) and self.tree.get(paths.REASSIGN_PARTITIONS) is not None:
            # A reassignment is in progress: the tool in ZooKeeper changes the rate of the throttle and nothing else.
            limits = [change for change in changes if change.entity_path.startswith("brokers/")]
            return self.operator.in_turn([(f"throttle {limit.entity_path}", limit) for limit in limits], via)
        of_brokers = {change.entity_path: change for change in changes if change.entity_path.startswith("brokers/")}
        of_topics = [change for change in changes if change.entity_path not in of_brokers]
        if first_brokers and reassign_tool.asks_brokers(self.tool):
            quick = [path for broker in first_brokers if (path := f"brokers/{broker}") in of_brokers]
            changes = [*of_topics, *(of_brokers[path] for path in dict.fromkeys([*quick, *of_brokers]))]
        steps = [(f"throttle {change.entity_path}", change) for change in changes]
        return self.operator.in_turn([*steps, ("reassign", request)], via)

    def _throttles(self, request: AlterReassignmentsRequest, rate: int) -> list[AlterConfigRequest]:
        plan = {p: target for p, target in request.targets.items() if target is not None}
        if self.tool.number < reassign_tool.THROTTLES_SINCE or rate < 0 or len(plan) != len(request.targets):
            right = "0 or more, of a plan that cancels nothing, and 0.10.1 or later"
            raise ConfigError(f"the tool of Kafka {self.tool.name} cannot throttle this", where="throttle", right=right)
        # The whole plan is validated before anything is written.
        reassign_tool.require_accepted(reassign_tool.rejection(list(plan.items()), self.tool))
        present: dict[TopicPartition, ReplicaAssignment] = {}
        for name in dict.fromkeys(partition.topic for partition in plan):
            present |= self._assignments_of(name)
        if unknown := [str(partition) for partition in plan if partition not in present]:
            raise ConfigError(
                f"partition {unknown[0]} does not exist", where="reassignment", right="partitions that exist"
            )
        reassign_tool.require_accepted(reassign_tool.dead_brokers(plan, list(self.live_brokers), self.tool))
        return reassign_tool.throttles(plan, present, rate, self.tool)

    def generate(
        self, topics: Sequence[str], brokers: Sequence[int], racks: Mapping[int, str | None], stream: RandomStream
    ) -> Proposal:
        """Propose an assignment of topics to brokers (`--generate`).

        Args:
            topics: the topics to move.
            brokers: the brokers to move them to.
            racks: rack of each live broker; all None to ignore racks.
            stream: seeds the tool's random generator.
        """
        for what, given in (("Broker list", list(map(str, brokers))), ("List of topics to reassign", topics)):
            if duplicates := [item for item in dict.fromkeys(given) if given.count(item) > 1]:
                raise ConfigError(f"{what} contains duplicate entries: {','.join(duplicates)}", where="generate")
        if unknown := [broker for broker in brokers if broker not in racks]:
            raise ConfigError(f"Unknown broker id {unknown[0]}", where="brokers", right=f"some of {sorted(racks)}")
        current: dict[TopicPartition, tuple[int, ...]] = {}
        for name in topics:
            found = self._assignments_of(name)
            if not found:
                raise ConfigError(f"Topic {name} not found.", where="topics", right="topics that exist")
            current |= {partition: assignment.replicas for partition, assignment in found.items()}
        rack_of = {broker: rack for broker in brokers if (rack := racks[broker]) is not None}
        random = JavaRandom(stream.bits(48))

        def assign(partitions: int, factor: int) -> Mapping[int, Sequence[int]]:
            try:
                return assign_replicas(sorted(brokers), rack_of or None, partitions, factor, random=random)
            except LayoutError as error:
                raise ConfigError(str(error), where="brokers") from None

        return reassign_tool.propose(current, assign, self.tool)

    def verify(self, plan: str | Mapping[str, object], *, preserve_throttles: bool) -> str:
        """Return the tool's report on a reassignment (`--verify`), and clear throttles when it is complete."""
        wanted = reassign_tool.read_plan(_to_text(plan), self.tool)
        names = dict.fromkeys(partition.topic for partition in wanted)
        present = {p: assignment for name in names for p, assignment in self._assignments_of(name).items()}
        in_znode = self._decoded(partial(admin_schema.decode_reassignment, strict=False), paths.REASSIGN_PARTITIONS)
        text = reassign_tool.status(wanted, present, in_znode, self.tool)
        if not reassign_tool.asks_brokers(self.tool):
            is_complete = all(line.endswith("completed successfully") for line in text.splitlines()[1:])
            return f"{text}\nThrottle was removed." if is_complete and self._clear_in_zookeeper(names) else text
        if preserve_throttles or self._is_any_in_progress():
            return text
        steps, said = self._clear_all(wanted)
        self.operator.in_turn(steps)
        return "\n".join([text, "", *said])

    def _clear_all(
        self, plan: Mapping[TopicPartition, tuple[int, ...]], first_brokers: Sequence[int] = ()
    ) -> tuple[list[tuple[str, object]], list[str]]:
        """Return the requests that clear the throttles of brokers and topics, and the tool's lines (clearAllThrottles).

        Brokers come first, each with a request of its own; a dead broker of the plan times out, which ends the tool.
        """
        brokers, topics = reassign_tool.throttled(plan, self.live_brokers, self.tool)
        dead = [broker for broker in brokers if broker not in self.live_brokers]
        quick = [broker for broker in first_brokers if broker in brokers]
        answering = [broker for broker in dict.fromkeys([*quick, *brokers]) if broker not in dead]
        cleared: dict[str, Sequence[str]] = {}
        cleared |= {f"brokers/{broker}": reassign_tool.BROKER_THROTTLES for broker in (*answering, *dead)}
        cleared |= {f"topics/{name}": config_schema.REPLICAS_KEYS for name in topics}
        said = [("broker", list(map(str, brokers))), ("topic", topics)][: 1 if dead else 2]
        return (
            [_clearing(entity_path, keys) for entity_path, keys in cleared.items()],
            [
                f"Clearing {kind}-level throttles on {kind}{'s'[: len(names) - 1]} {','.join(names)}"
                for kind, names in said
            ],
        )

    def cancel(
        self, plan: str | Mapping[str, object], *, preserve_throttles: bool, first_brokers: Sequence[int] = ()
    ) -> Future[AdminResponse] | None:
        """Cancel those reassignments of a plan that are in progress (`--cancel`), then clear all throttles.

        Returns:
            the last response; None if nothing is in progress and throttles are preserved.
        """
        if not reassign_tool.asks_brokers(self.tool):
            raise ConfigError(
                f"the tool of Kafka {self.tool.name} cannot cancel", where="version", right="2.6 or later"
            )
        wanted = reassign_tool.read_plan(_to_text(plan), self.tool)
        moving = {
            partition: None
            for partition in wanted
            if (found := self._assignments_of(partition.topic).get(partition)) is not None and found.being_reassigned
        }
        steps: list[tuple[str, object]] = []
        if moving:
            steps.append(("cancel a reassignment", AlterReassignmentsRequest(moving)))
        if not preserve_throttles:
            steps += self._clear_all(wanted, first_brokers)[0]
        return self.operator.in_turn(steps) if steps else None

    def _assignments_of(self, name: str) -> dict[TopicPartition, ReplicaAssignment]:
        path = paths.topic(name)
        node = self.tree.get(path)
        if node is None:
            return {}
        return {TopicPartition(name, n): found for n, found in topic_schema.decode(path, node.data).partitions.items()}

    def _decoded(self, decode: Callable[[str, bytes | None], dict[K, V]], path: str) -> dict[K, V]:
        """Decode a znode; empty if it is missing or cannot be decoded."""
        node = self.tree.get(path)
        try:
            return {} if node is None else decode(path, node.data)
        except ZnodeError:
            return {}

    def _is_any_in_progress(self) -> bool:
        parent = self.tree.get(paths.TOPICS)
        names = [] if parent is None else sorted(parent.child_names())
        return any(found.being_reassigned for name in names for found in self._assignments_of(name).values())

    def _clear_in_zookeeper(self, names: Iterable[str]) -> bool:
        """Clear the throttles that are set, as the tools up to 2.5 do; return whether there were any."""
        throttles: dict[str, Sequence[str]] = {}
        throttles |= {f"brokers/{broker}": reassign_tool.BROKER_THROTTLES for broker in self.live_brokers}
        throttles |= {f"topics/{name}": config_schema.REPLICAS_KEYS for name in names}
        changes = []
        for entity_path, keys in throttles.items():
            configuration = self._decoded(config_schema.decode, paths.config(entity_path))
            if any(key in configuration for key in keys):
                changes.append(_clearing(entity_path, keys))
        if changes:
            self.operator.in_turn(changes, ZOOKEEPER)
        return bool(changes)


def _clearing(entity_path: str, keys: Sequence[str]) -> tuple[str, object]:
    """Return the request that removes keys of a configuration, with its description."""
    assert keys, f"nothing of {entity_path} is removed"
    return f"clear throttles of {entity_path}", AlterConfigRequest(entity_path, dict.fromkeys(keys))


def _to_text(plan: Targets) -> str:
    return plan if isinstance(plan, str) else json.dumps(plan)


def _parse_partition(key: object) -> tuple[str, int]:
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], int):
        return key[0], key[1]
    raise ConfigError(f"{key!r} names no partition", where="targets", right="(topic, partition)")


def _parse_brokers(target: object) -> tuple[int, ...] | None:
    if target is None:
        return None
    if isinstance(target, Sequence) and all(isinstance(broker, int) for broker in target):
        return tuple(target)
    raise ConfigError(f"{target!r} is no list of brokers", where="targets", right="broker ids")
