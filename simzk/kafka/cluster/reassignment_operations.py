"""What an operator does with `kafka-reassign-partitions`: generate, execute, verify, cancel, on a simulated cluster."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, LayoutError, ZnodeError
from simzk.jvm.java_random import JavaRandom
from simzk.kafka import paths
from simzk.kafka.requests import AdminResponse, AlterConfigRequest, AlterReassignmentsRequest
from simzk.kafka.schemas import admin as admin_schema
from simzk.kafka.schemas import config as config_schema
from simzk.kafka.schemas import topic as topic_schema
from simzk.kafka.tools import reassign_partitions as reassign_tool
from simzk.kafka.tools import reassign_partitions as throttles
from simzk.kafka.tools.operator import ZOOKEEPER
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.partitions.assignment import assign_replicas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.cluster.zookeeper_access import KafkaTree
    from simzk.kafka.releases.cluster_releases import Releases
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.tools.operator import Operator
    from simzk.kafka.tools.reassign_partitions import Proposal
    from simzk.simulation import Future, Scheduler

    Targets = Mapping[tuple[str, int], Sequence[int] | None] | str | Mapping[str, object]


class ReassignmentOperations:
    """The verbs; `_operator` carries them out."""

    _operator: Operator
    _releases: Releases
    scheduler: Scheduler

    @property
    @abstractmethod
    def tree(self) -> KafkaTree:
        """The znodes as Kafka calls them."""

    @property
    @abstractmethod
    def live_brokers(self) -> list[int]:
        """The brokers that are registered."""

    @abstractmethod
    def racks_of_live(self) -> dict[int, str | None]:
        """The racks of the brokers that are registered."""

    def reassign(
        self, targets: Targets, *, via: int | str | None = None, throttle: int | None = None
    ) -> Future[AdminResponse]:
        """Move partitions to other brokers (`--execute`).

        Args:
            targets: the brokers wanted by (topic, partition), None to cancel; or the JSON that Kafka's tool takes.
            via: as for `create_topic`.
            throttle: how many bytes a second may move (`--throttle`, 0.10.1 and later): it is written first, and taken
                away by `verify_reassignment`; nothing moves slower for it here.

        Raises:
            ZnodeError, ConfigError: JSON that the tool refuses; a throttle that cannot be.
        """
        if isinstance(targets, str) or "partitions" in targets:
            request = AlterReassignmentsRequest(dict(reassign_tool.read_plan(_text(targets), self._tool)))
        else:
            pairs = {TopicPartition(*_pair(key)): target for key, target in targets.items()}
            request = AlterReassignmentsRequest({p: _ids(target) for p, target in pairs.items()})
        if throttle is None:
            return self._operator.request("reassign", request, via)
        changes = self._throttles(request, throttle)
        if not reassign_tool.asks_brokers(self._tool) and self.tree.get(paths.REASSIGN_PARTITIONS) is not None:
            # One is under way: the tool in ZooKeeper changes how fast it may be, and does nothing else.
            limits = [change for change in changes if change.entity_path.startswith("brokers/")]
            return self._operator.in_turn([(f"throttle {limit.entity_path}", limit) for limit in limits], via)
        steps = [(f"throttle {change.entity_path}", change) for change in changes]
        return self._operator.in_turn([*steps, ("reassign", request)], via)

    def _throttles(self, request: AlterReassignmentsRequest, rate: int) -> list[AlterConfigRequest]:
        tool, plan = self._tool, {p: target for p, target in request.targets.items() if target is not None}
        if tool.number < throttles.KNOWN_SINCE or rate < 0 or len(plan) != len(request.targets):
            right = "0 or more, of a plan that cancels nothing, and 0.10.1 or later"
            raise ConfigError(f"the tool of Kafka {tool.name} cannot throttle this", where="throttle", right=right)
        reassign_tool.refuse(reassign_tool.refusal(list(plan.items()), tool))  # before anything is written
        present: dict[TopicPartition, ReplicaAssignment] = {}
        for name in dict.fromkeys(partition.topic for partition in plan):
            present |= self._assignments_of(name)
        if unknown := [str(partition) for partition in plan if partition not in present]:
            raise ConfigError(f"there is no {unknown[0]}", where="reassignment", right="partitions that are there")
        reassign_tool.refuse(reassign_tool.dead_brokers(plan, self.live_brokers, tool))
        return throttles.throttles(plan, present, rate, tool)

    def generate_reassignment(
        self, topics: Iterable[str], brokers: Sequence[int], *, rack_aware: bool = True
    ) -> Proposal:
        """Propose where topics could stand on some brokers (`--generate`); nothing is changed.

        Args:
            topics: that are to move.
            brokers: where to.
            rack_aware: spread replicas over racks; else `--disable-rack-aware`.

        Returns:
            the present assignment and the proposed one, each as JSON that `reassign` takes, and what the release's
            tool prints.

        Raises:
            ConfigError: a topic or broker that is not there or named twice, or too few brokers.
        """
        names = list(topics)
        for what, given in (("Broker list", list(map(str, brokers))), ("List of topics to reassign", names)):
            if twice := [item for item in dict.fromkeys(given) if given.count(item) > 1]:
                raise ConfigError(f"{what} contains duplicate entries: {','.join(twice)}", where="generate")
        racks = self.racks_of_live()
        if unknown := [broker for broker in brokers if broker not in racks]:
            raise ConfigError(f"Unknown broker id {unknown[0]}", where="brokers", right=f"some of {sorted(racks)}")
        current: dict[TopicPartition, tuple[int, ...]] = {}
        for name in names:
            found = self._assignments_of(name)
            if not found:
                raise ConfigError(f"Topic {name} not found.", where="topics", right="topics that are there")
            current |= {partition: assignment.replicas for partition, assignment in found.items()}
        known = {broker: rack for broker in brokers if (rack := racks[broker]) is not None} if rack_aware else {}
        random = JavaRandom(self.scheduler.stream("placement/reassignments").bits(48))

        def assign(partitions: int, factor: int) -> Mapping[int, Sequence[int]]:
            try:
                return assign_replicas(sorted(brokers), known or None, partitions, factor, random=random)
            except LayoutError as error:
                raise ConfigError(str(error), where="brokers") from None

        return reassign_tool.propose(current, assign, self._tool, TopicPartition)

    def verify_reassignment(self, plan: str | Mapping[str, object]) -> str:
        """Say how far a reassignment is (`--verify`), in the words of the release's tool.

        Where nothing is under way any more throttles are taken away as time passes: by the tool of 2.6 and later
        whether or not there are any.

        Args:
            plan: the JSON that was executed.

        Raises:
            ZnodeError, ConfigError: JSON that the tool refuses.
        """
        wanted = reassign_tool.read_plan(_text(plan), self._tool)
        names = dict.fromkeys(partition.topic for partition in wanted)
        present = {p: assignment for name in names for p, assignment in self._assignments_of(name).items()}
        text = reassign_tool.status(wanted, present, self._in_znode(), self._tool)
        if not reassign_tool.asks_brokers(self._tool):
            done = all(line.endswith("completed successfully") for line in text.splitlines()[1:])
            return f"{text}\nThrottle was removed." if done and self._clear_in_zookeeper(names) else text
        if self._any_under_way():
            return text
        brokers = sorted({*self.live_brokers, *(broker for replicas in wanted.values() for broker in replicas)})
        for broker in brokers:
            if broker in self.live_brokers:
                self._clear(f"brokers/{broker}", reassign_tool.BROKER_THROTTLES, broker)
        for name in names:
            self._clear(f"topics/{name}", reassign_tool.TOPIC_THROTTLES, None)
        told = ",".join(map(str, brokers)), ",".join(names)
        lines = [
            f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {told[0]}",
            f"Clearing topic-level throttles on topic{'' if len(names) == 1 else 's'} {told[1]}",
        ]
        return "\n".join([text, "", *lines])

    def cancel_reassignment(self, plan: str | Mapping[str, object]) -> Future[AdminResponse] | None:
        """Call off what a document asked for, as far as it is under way (`--cancel`, 2.6 and later).

        Returns:
            the broker's answer, once time has passed; None where none of it is under way.

        Raises:
            ZnodeError, ConfigError: JSON that the tool refuses, or a tool that cannot cancel.
        """
        if not reassign_tool.asks_brokers(self._tool):
            raise ConfigError(
                f"the tool of Kafka {self._tool.name} cannot cancel", where="version", right="2.6 or later"
            )
        wanted = reassign_tool.read_plan(_text(plan), self._tool)
        moving = {
            partition: None
            for partition in wanted
            if (found := self._assignments_of(partition.topic).get(partition)) is not None and found.being_reassigned
        }
        if not moving:
            return None
        return self._operator.request("cancel a reassignment", AlterReassignmentsRequest(moving))

    @property
    def _tool(self) -> KafkaVersion:
        return self._releases.oldest.version

    def _assignments_of(self, name: str) -> dict[TopicPartition, ReplicaAssignment]:
        path = paths.topic(name)
        node = self.tree.get(path)
        if node is None:
            return {}
        return {TopicPartition(name, n): found for n, found in topic_schema.decode(path, node.data).partitions.items()}

    def _in_znode(self) -> list[TopicPartition]:
        node = self.tree.get(paths.REASSIGN_PARTITIONS)
        if node is None:
            return []
        try:
            return list(admin_schema.decode_reassignment(paths.REASSIGN_PARTITIONS, node.data, strict=False))
        except ZnodeError:
            return []

    def _any_under_way(self) -> bool:
        parent = self.tree.get(paths.TOPICS)
        names = [] if parent is None else sorted(parent.child_names())
        return any(found.being_reassigned for name in names for found in self._assignments_of(name).values())

    def _clear_in_zookeeper(self, names: Iterable[str]) -> bool:
        """Up to 2.5 throttles are taken away where there are any; whether there were."""
        entities: list[tuple[str, Sequence[str]]] = [
            (f"brokers/{broker}", reassign_tool.BROKER_THROTTLES) for broker in self.live_brokers
        ]
        entities += [(f"topics/{name}", reassign_tool.TOPIC_THROTTLES) for name in names]
        changed = []
        for entity_path, keys in entities:
            node = self.tree.get(paths.config(entity_path))
            found = {} if node is None else self._configuration(paths.config(entity_path), node.data)
            if any(key in found for key in keys):
                changed.append(
                    (f"clear throttles of {entity_path}", AlterConfigRequest(entity_path, dict.fromkeys(keys)))
                )
        if changed:
            self._operator.in_turn(changed, ZOOKEEPER)
        return bool(changed)

    @staticmethod
    def _configuration(path: str, data: bytes | None) -> dict[str, str]:
        try:
            return config_schema.decode(path, data)
        except ZnodeError:
            return {}

    def _clear(self, entity_path: str, keys: Sequence[str], via: int | None) -> None:
        request = AlterConfigRequest(entity_path, dict.fromkeys(keys))
        self._operator.request(f"clear throttles of {entity_path}", request, via)


def _text(plan: str | Mapping[str, object] | Mapping[tuple[str, int], Sequence[int] | None]) -> str:
    return plan if isinstance(plan, str) else json.dumps(plan)


def _pair(key: object) -> tuple[str, int]:
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], int):
        return key[0], key[1]
    raise ConfigError(f"{key!r} names no partition", where="targets", right="(topic, partition)")


def _ids(target: object) -> tuple[int, ...] | None:
    if target is None:
        return None
    if isinstance(target, Sequence) and all(isinstance(broker, int) for broker in target):
        return tuple(target)
    raise ConfigError(f"{target!r} is no list of brokers", where="targets", right="broker ids")
