"""Assignments of a consumer group of real clients, under joins, leaves, crashes and lost coordinators."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import simzk

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.slow

PARTITIONS, BROKERS, MEMBERS_MAX = 5, 3, 4
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "zookeeper.session.timeout.ms": 6000,
}
SESSION_MS, HEARTBEAT_MS = 6_000, 1_000
QUIET_S = 240.0
"""Longest time until the members agree: a request to a broker that is gone times out first."""


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """A member of the group: a kafka-python consumer that polls in the background, and what it was assigned.

    Args:
        group: the group.
        number: of the member.
    """

    def __init__(self, group: Group, number: int) -> None:
        self.cluster = group.cluster
        self.end = f"kafka client {number}"
        self.given = group.given
        self.is_running = True
        self.consumer = self.cluster.client(
            KafkaConsumer,
            group_id="billing",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=SESSION_MS + 1000,
            max_poll_interval_ms=SESSION_MS,
        )
        self.consumer.subscribe(["orders"], listener=self)
        self.call = self.cluster.run_in_background(self._poll)

    def _poll(self) -> None:
        while self.is_running:
            self.consumer.poll(timeout_ms=500)

    def on_partitions_revoked(self, revoked: object) -> None:
        """Do nothing."""

    def on_partitions_assigned(self, _: object) -> None:
        """Note the assignment of a generation."""
        generation = self.consumer._coordinator.generation_if_stable()
        assigned = frozenset(self.consumer.assignment())
        self.given.append(Assignment(generation.generation_id, generation.member_id, assigned))

    def crash(self) -> None:
        """End without a word."""
        self.is_running = False
        for broker in range(1, BROKERS + 1):
            self.cluster.network.cut(self.end, f"broker {broker}")

    def leave(self) -> None:
        """End, and say so."""
        self.is_running = False
        self.call.result(QUIET_S)
        self.consumer.close(timeout_ms=5000)


class Assignment(NamedTuple):
    """Partitions that a member was assigned in a generation."""

    generation: int
    member_id: str
    partitions: frozenset[TopicPartition]


class Group:
    """A consumer group of real clients."""

    def __init__(self, cluster: simzk.KafkaCluster) -> None:
        self.cluster = cluster
        self.given: list[Assignment] = []
        self.members: list[Member] = []
        self._started = 0

    @property
    def coordinator(self) -> int:
        """The broker that leads the log of the group; -1 for none."""
        return self.cluster.state("__consumer_offsets", 0).leader

    def do(self, action: str, choice: int) -> None:
        """Do one thing to the group."""
        down = [number for number, broker in self.cluster.brokers.items() if not broker.alive]
        if action == "join" and len(self.members) < MEMBERS_MAX:
            self._started += 1
            self.members.append(Member(self, self._started))
        elif action in ("leave", "crash") and len(self.members) > 1:
            member = self.members.pop(choice % len(self.members))
            (member.leave if action == "leave" else member.crash)()
        elif action == "kill coordinator" and not down and self.coordinator > 0:
            self.cluster.kill(self.coordinator)
        elif action == "restart" and down:
            self.cluster.restart(down[0])
        elif action == "wait":
            self.cluster.run_for(choice)

    def agrees(self) -> bool:
        """Return whether the members own each partition once, all by one generation."""
        owned = [partition for member in self.members for partition in member.consumer.assignment()]
        generations = [member.consumer._coordinator.generation_if_stable() for member in self.members]
        numbers = {-1 if one is None else one.generation_id for one in generations}
        every = [TopicPartition("orders", number) for number in range(PARTITIONS)]
        return sorted(owned) == every and len(numbers) == 1

    def check(self) -> None:
        """Assert that no two members of one generation have the same partition."""
        owners: dict[tuple[int, TopicPartition], str] = {}
        for assignment in self.given:
            for partition in assignment.partitions:
                owner = owners.setdefault((assignment.generation, partition), assignment.member_id)
                assert owner == assignment.member_id, f"{partition} has two owners in {assignment.generation}"


ACTIONS = st.sampled_from(["join", "join", "leave", "crash", "kill coordinator", "restart", "wait", "wait"])


# A lost coordinator costs seconds: plans are few. HYPOTHESIS_PROFILE=thorough draws more.
@settings(
    max_examples=max(8, settings().max_examples // 100),
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # a plan is short, and shrinking it takes minutes
    suppress_health_check=[HealthCheck.too_slow],
)
@given(plan=st.lists(st.tuples(ACTIONS, st.integers(0, 12)), min_size=3, max_size=12), seed=st.integers(0, 1000))
def test_each_partition_has_one_owner(plan: Sequence[tuple[str, int]], seed: int) -> None:
    with simzk.KafkaCluster(brokers=BROKERS, seed=seed, config=CONFIG) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        cluster.create_topic("__consumer_offsets", partitions=1, replication_factor=3)
        cluster.run_until_quiet()
        group = Group(cluster)
        for action, choice in [("join", 0), *plan]:
            group.do(action, choice)
        group.do("restart", 0)
        cluster.run_until(group.agrees, QUIET_S)
        cluster.run_for(10)
        assert group.agrees()
        group.check()
        cluster.check()
