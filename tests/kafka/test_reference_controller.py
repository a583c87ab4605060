"""The controller of each release line against the slow reference controller.

After each event, at quiescence, the tests compare the states of all partitions and replicas, leaders, ISRs in order,
leader epochs (which count the controller's writes) and controller epochs. The order in which followers rejoin an ISR
depends on fetches and is an input of the reference. For a topic being deleted only the length of the ISR is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation.observer import parse_state
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.versions import VERSIONS, kafka_version
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.controller.states import PartitionState
from simzk.zookeeper.requests import GetChildren, GetChildren2
from tests.kafka.clusters import QUICK, quiet
from tests.kafka.reference_controller import Partition, Reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Batch

BROKERS = (1, 2, 3, 4)
VERBS = (
    *("kill", "kill", "start", "start", "shut down", "expire", "bounce", "create", "grow", "delete", "elect"),
    *("reassign", "reassign", "strand", "cancel"),
)
Step = tuple[str, int, list[int]]
steps = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(0, 5), st.permutations(BROKERS).map(list)), min_size=3, max_size=12
)

# A reassignment in both the topic's znode and the admin znode, at a failover: it is started once, not twice.
FOUND: list[Step] = [
    ("elect", 4, [2, 4, 3, 1]),
    ("create", 3, [2, 3, 1, 4]),
    ("kill", 5, [3, 1, 2, 4]),
    ("shut down", 5, [2, 3, 4, 1]),
    ("reassign", 1, [3, 1, 2, 4]),
    ("start", 0, [3, 1, 2, 4]),
    ("kill", 0, [4, 3, 2, 1]),
    ("reassign", 3, [4, 2, 3, 1]),
]

# A reassignment waits for a dead broker and is cancelled where possible; sessions expire meanwhile and afterwards.
WAITED: list[Step] = [
    ("create", 1, [1, 2, 3, 4]),
    ("strand", 1, [4, 3, 1, 2]),
    ("expire", 0, [1, 2, 3, 4]),
    ("cancel", 0, [1, 2, 3, 4]),
    ("start", 0, [4, 3, 1, 2]),
    ("bounce", 0, [2, 1, 3, 4]),
    ("expire", 0, [3, 4, 1, 2]),
    ("strand", 1, [4, 3, 2, 1]),
    ("bounce", 0, [1, 2, 3, 4]),
    ("start", 0, [3, 4, 1, 2]),
]

# 0.8.0: new replicas do not learn of a leader that is elected while the reassignment waits.
LEADERLESS: list[Step] = [
    ("reassign", 0, [1, 3, 2, 4]),
    ("reassign", 3, [1, 2, 3, 4]),
    ("kill", 0, [1, 2, 3, 4]),
    ("start", 0, [1, 2, 3, 4]),
    ("kill", 0, [1, 2, 3, 4]),
    ("kill", 0, [4, 2, 3, 1]),
    ("reassign", 1, [1, 2, 3, 4]),
    ("kill", 0, [1, 4, 3, 2]),
    ("start", 0, [4, 2, 3, 1]),
]

# A topic is deleted while a reassignment of it waits: the deletion goes on when the broker of a replica starts.
DELETED: list[Step] = [
    ("reassign", 0, [1, 2, 3, 4]),
    ("kill", 0, [1, 2, 3, 4]),
    ("reassign", 1, [1, 2, 3, 4]),
    ("delete", 0, [1, 2, 3, 4]),
    ("start", 0, [1, 2, 3, 4]),
    ("create", 5, [1, 2, 3, 4]),
    ("kill", 0, [2, 1, 3, 4]),
    ("start", 0, [1, 2, 3, 4]),
]

# A topic that never had a leader is deleted while its broker is dead; up to 1.1 the next controller cannot make its
# replica offline (KAFKA-6650).
NEVER_LED: list[Step] = [
    ("kill", 0, [1, 2, 3, 4]),
    ("kill", 0, [1, 3, 2, 4]),
    ("kill", 0, [1, 2, 3, 4]),
    ("delete", 0, [1, 2, 3, 4]),
    ("start", 0, [1, 2, 3, 4]),
    ("create", 0, [2, 4, 3, 1]),
    ("delete", 0, [1, 2, 3, 4]),
    ("kill", 0, [4, 1, 2, 3]),
]


# An old broker that restarts takes part in the election before it finds that its old registration exists: it can be
# controller for a moment, and ends.
ELECTED_IN_VAIN: list[Step] = [
    ("kill", 0, [1, 2, 3, 4]),
    ("start", 0, [1, 2, 3, 4]),
    ("delete", 0, [1, 2, 3, 4]),
    ("kill", 0, [1, 2, 3, 4]),
    ("shut down", 0, [1, 2, 3, 4]),
    ("start", 0, [1, 2, 3, 4]),
    ("expire", 0, [1, 2, 3, 4]),
    ("shut down", 0, [1, 2, 3, 4]),
    ("bounce", 0, [1, 2, 3, 4]),
]

# A controller of 2.1 to 2.3 learns of its own leader epoch from the ISR change that a leader announces.
ANNOUNCED: list[Step] = [
    ("kill", 3, [1, 3, 4, 2]),
    ("bounce", 2, [4, 3, 2, 1]),
    ("strand", 4, [1, 4, 3, 2]),
    ("expire", 2, [4, 3, 2, 1]),
    ("start", 2, [2, 1, 4, 3]),
    ("expire", 3, [2, 3, 1, 4]),
]

# 2.1 to 2.3: a broker that dies lets the controller send a written state again, to a follower that has an older epoch.
SENT_AGAIN: list[Step] = [
    ("kill", 0, [1, 2, 3, 4]),
    ("elect", 0, [1, 2, 3, 4]),
    ("strand", 0, [1, 2, 3, 4]),
    ("expire", 0, [1, 2, 3, 4]),
    ("start", 0, [1, 2, 3, 4]),
    ("kill", 0, [1, 2, 3, 4]),
]

# 0.8.0: a broker that a reassignment has removed is elected from the ISR, and is not told.
REMOVED: list[Step] = [
    ("kill", 0, [1, 2, 4, 3]),
    ("bounce", 0, [2, 1, 3, 4]),
    ("reassign", 0, [3, 4, 2, 1]),
    ("bounce", 0, [3, 1, 4, 2]),
]


class Both:
    """A simulated cluster and the reference controller, with the same events."""

    def __init__(self, version: str, *, unclean: bool, seed: int) -> None:
        config = QUICK | {
            "unclean.leader.election.enable": unclean,
            "delete.topic.enable": True,
            "controlled.shutdown.enable": True,
            "replica.lag.time.max.ms": 1_000_000_000,  # no leader drops a follower: what a controller does is looked at
        }
        self.cluster = KafkaCluster(version=version, brokers=BROKERS, seed=seed, config=config)
        self.reference = Reference(kafka_version(version).number, unclean, live=set(BROKERS), epoch=1)
        self.made = 0
        self.compared = 0
        self.stranded: set[str] = set()
        self.former: dict[int, int] = {}
        self.looked_us: list[int] = []
        self._note_looks()

    def _note_looks(self) -> None:
        """Record the times at which a controller reads the registered brokers."""
        handle = self.cluster.server.handle

        def noted(
            connection: Connection, xid: int, request: Request | Batch, now_ms: int, at_once: bool = False
        ) -> Reply | None:
            if isinstance(request, GetChildren | GetChildren2) and request.path == paths.BROKER_IDS:
                self.looked_us.append(self.cluster.scheduler.now_us)
            return handle(connection, xid, request, now_ms, at_once)

        self.cluster.server.handle = noted  # type: ignore[method-assign]

    # -- events

    def play(self, step: Step) -> None:
        verb, number, brokers = step
        actions: dict[str, Callable[[int, list[int]], None]] = {
            "kill": self.kill,
            "start": self.start,
            "shut down": self.shut_down,
            "create": self.create,
            "grow": self.grow,
            "delete": self.delete,
            "reassign": self.reassign,
            "strand": self.strand,
            "cancel": self.cancel,
            "expire": self.expire,
            "bounce": self.bounce,
            "elect": self.elect,
        }
        actions[verb](number, brokers)
        self.compare(step)

    def kill(self, _number: int, brokers: list[int]) -> None:
        broker = self._pick(brokers, alive=True)
        if broker is not None:
            self._lose(broker, lambda: self.cluster.kill(broker))

    def shut_down(self, _number: int, brokers: list[int]) -> None:
        broker = self._pick(brokers, alive=True)
        if broker is not None:
            before = len(self.cluster.history)
            self._lose(broker, lambda: self.cluster.shutdown(broker), lambda: self._leave(broker, before))
            for partition in self._rejoined(broker, before, after_its_end=True):
                self.reference.take_in(partition, broker)

    def start(self, _number: int, brokers: list[int]) -> None:
        broker = self._pick(brokers, alive=False)
        if broker is None:
            return
        alone = self.cluster.controller is None
        self.cluster.restart(broker)
        quiet(self.cluster)
        registers_first = kafka_version(self.cluster.version).client.registers_before_election
        if alone and registers_first:
            self.reference.live.add(broker)
        if alone:
            self.reference.fail_over()
        if not (alone and registers_first):
            self.reference.broker_started(broker)

    def expire(self, number: int, brokers: list[int]) -> None:
        """Expire a broker's session during a long garbage collection pause.

        It ends when the leaders have announced their ISR changes (every 2.5 s, 5 s after the last one): whether the
        cache of a controller of 2.1 to 2.3 is outdated (KAFKA-9212) when the broker returns is no race then.
        """
        broker = self._pick(brokers, alive=True)
        if broker is None or len(self.reference.live) < 2 or self.reference.version < (0, 8, 1):
            return
        ruled = self.cluster.controller == broker
        if ruled:
            self.former[broker] = self.cluster.brokers[broker].process.incarnation
        self.cluster.pause(broker, 8)
        self.cluster.expire(broker)
        self.cluster.run_for(3)
        self._lost(broker, ruled=ruled)
        self.compare(("expire", number, brokers))
        quiet(self.cluster)
        assert broker in self.cluster.live_brokers
        self.reference.broker_started(broker)

    def bounce(self, _number: int, brokers: list[int]) -> None:
        """Restart a broker before its old session expires: it can register only afterwards."""
        broker = self._pick(brokers, alive=True)
        if broker is None or len(self.reference.live) < 2 or self.reference.targets:
            return  # a reassignment might end between
        ruled = self.cluster.controller == broker
        before = len(self.cluster.history)
        self.cluster.kill(broker)
        self.cluster.restart(broker)
        quiet(self.cluster)
        assert broker in self.cluster.live_brokers
        missed = self._was_missed(broker, before)
        if missed:
            self._lost(broker, ruled=ruled)
        elif ruled:
            self.reference.fail_over()
        elected = [event for event in list(self.cluster.history)[before:] if event.what == "elected"]
        for _ in elected[int(ruled) :]:  # the broker that restarted was controller itself, and ended
            self.reference.fail_over()
        if missed:
            self.reference.broker_started(broker)

    def create(self, number: int, brokers: list[int]) -> None:
        live = [broker for broker in brokers if broker in self.reference.live]
        if live and self.cluster.controller is not None:
            self.made += 1
            assignment = {p: self._some(brokers, p, 1 + number % 3) for p in range(1 + number // 2)}
            answer = self.cluster.create_topic(f"t{self.made}", assignment=assignment)
            quiet(self.cluster)
            assert answer.result().error == ErrorCode.NONE, answer.result()
            self.reference.create(f"t{self.made}", assignment)

    def grow(self, number: int, brokers: list[int]) -> None:
        topic = self._topic(number)
        if topic is not None and self.cluster.controller is not None:
            count = sum(1 for name, _ in self.reference.assignment if name == topic)
            factor = len(self.reference.assignment[topic, 0])
            if any(name == topic for name, _ in self.reference.targets):
                return
            assignment = {count: brokers[:factor]}
            answer = self.cluster.add_partitions(topic, count + 1, assignment=assignment)
            quiet(self.cluster)
            if answer.result().error == ErrorCode.NONE:
                self.reference.create(topic, assignment)

    def delete(self, number: int, _brokers: list[int]) -> None:
        topic = self._topic(number)
        can = self.reference.version >= (0, 8, 1)  # 0.8.0 has no deletion
        moving = self.stranded & {name for name, _ in self.reference.targets}  # a move outlives its topic (§2.10)
        if can and topic is not None and topic not in moving and self.cluster.controller is not None:
            self.cluster.delete_topic(topic)
            quiet(self.cluster)
            self.reference.delete(topic)

    def reassign(self, number: int, brokers: list[int]) -> None:
        topic = self._topic(number)
        if topic is None or self.cluster.controller is None:
            return
        partition = topic, 0
        target = [broker for broker in self._some(brokers, number, 1 + number % 3) if broker in self.reference.live]
        busy = self.reference.version < (2, 6, 0) and self.reference.targets  # the znode is there still
        if not target or partition not in self.reference.states or busy or self._has_rival():
            return
        self.cluster.reassign({partition: target})
        quiet(self.cluster)
        same = self.reference.assignment[partition] == tuple(target)
        if not (same and self.reference.version < (2, 4, 0)):
            self.reference.reassign(partition, target)

    def strand(self, number: int, brokers: list[int]) -> None:
        """Reassign a partition to a broker that just died, before its session expires."""
        topic = self._topic(number)
        busy = self.reference.version < (2, 6, 0) and self.reference.targets
        if topic is None or busy or self.cluster.controller is None or (topic, 0) not in self.reference.states:
            return
        if self.reference.version < (0, 8, 1) or self._has_rival():
            return  # a replica outside of the assignment may then lead without a LeaderAndIsr: not in the tables
        partition = topic, 0
        needed = (self.cluster.controller, *self.reference.states[partition].isr)
        broker = next((b for b in brokers if b in self.reference.live and b not in needed), None)
        if broker is None:
            return
        self.stranded.add(topic)
        others = [other for other in brokers if other in self.reference.live and other != broker]
        target = [broker, *others[: number % 3]]
        self.cluster.kill(broker)
        self.reference.silent.add(broker)
        self.cluster.reassign({partition: target})
        self.cluster.run_for(2)
        self.reference.reassign(partition, target)
        self.compare(("strand", number, brokers))
        quiet(self.cluster)
        self.reference.silent.discard(broker)
        self._lost(broker, ruled=False)

    def cancel(self, number: int, _brokers: list[int]) -> None:
        """Cancel a reassignment by API (2.4 and later)."""
        moving = [partition for partition in self.reference.targets if partition[0] not in self.reference.deleted]
        if not moving or self.cluster.controller is None or self.reference.version < (2, 4, 0):
            return
        partition = moving[number % len(moving)]
        answer = self.cluster.reassign({partition: None}, via=self.cluster.controller)
        quiet(self.cluster)
        assert answer.result().error == ErrorCode.NONE, answer.result()
        self.reference.cancel(partition)

    def elect(self, _number: int, _brokers: list[int]) -> None:
        if self.cluster.controller is None or self._has_rival():
            return
        if self.reference.version < (2, 2, 0) and not self.reference.states.keys() >= self.reference.assignment.keys():
            return  # an election of a partition that never had a leader fails, see test_failed_elections
        self.cluster.elect("preferred")
        quiet(self.cluster)
        self.reference.elect_preferred()

    # -- help

    def _has_rival(self) -> bool:
        """Return whether a former controller handles requests by znode too, as up to 0.8.1 (KAFKA-1578, recorded)."""
        if self.reference.version >= (0, 8, 2):
            return False
        processes = {broker: self.cluster.brokers[broker].process for broker in self.former}
        return any(one.alive and one.incarnation == self.former[broker] for broker, one in processes.items())

    def _leave(self, broker: int, before: int) -> None:
        self.reference.shut_down(broker, self._rejoined(broker, before, after_its_end=False))

    def _rejoined(self, broker: int, before: int, *, after_its_end: bool) -> list[Partition]:
        """Return the partitions with an ISR that a broker rejoined during its shutdown, a race recorded in 0.10.2.

        Up to 3.2 also after the controller handled its failure (KAFKA-14140); then it stays in the ISR.
        """
        events = list(self.cluster.history)[before:]
        names = [event.subject.rpartition("-") for event in events if event.what == "ISR expanded"]
        rejoined = [(topic, int(number)) for topic, _, number in names]
        return [p for p in rejoined if (broker in self._seen(p)[1]) == after_its_end]

    def _lose(self, broker: int, end: Callable[[], None], before: Callable[[], None] = lambda: None) -> None:
        ruled = self.cluster.controller == broker
        end()
        quiet(self.cluster)
        before()
        self._lost(broker, ruled=ruled)

    def _lost(self, broker: int, *, ruled: bool) -> None:
        """Let the reference handle the end of a broker's registration, as controller or as the next one."""
        if not ruled:
            self.reference.broker_failed(broker)
            return
        self.reference.live.discard(broker)
        self.reference.leaving.discard(broker)
        if self.cluster.controller is not None:
            self.reference.fail_over()

    def _was_missed(self, broker: int, before: int) -> bool:
        """Return whether a controller read the brokers while this one was not registered.

        Up to 2.1 a controller does not notice a shorter absence (§2.7). If the controller itself returns before the
        next one reads the brokers, that one finds it registered.
        """
        events = [event for event in list(self.cluster.history)[before:] if event.who == f"broker {broker}"]
        (gone,) = [event.at_us for event in events if event.what == "registration gone"]
        (back,) = [event.at_us for event in events if event.what == "registered"]
        looked = any(gone <= at_us < back for at_us in self.looked_us)
        return looked or self.reference.version >= (2, 2, 0)

    def _pick(self, brokers: list[int], *, alive: bool) -> int | None:
        return next((broker for broker in brokers if self.cluster.brokers[broker].alive == alive), None)

    def _topic(self, number: int) -> str | None:
        topics: dict[str, None] = dict.fromkeys(name for name, _ in self.reference.assignment)
        left = [name for name in topics if name not in self.reference.deleted]
        return left[number % len(left)] if left else None

    @staticmethod
    def _some(brokers: list[int], first: int, count: int) -> list[int]:
        turned = brokers[first % len(brokers) :] + brokers[: first % len(brokers)]
        return turned[:count]

    # -- the comparison

    def compare(self, step: Step) -> None:
        reported = [str(event) for event in self.cluster.history][-60:]
        where = f"{step}\n" + "\n".join(reported)
        seen = {partition: self._seen(partition) for partition in self.reference.states}
        order = {partition: state[1] for partition, state in seen.items()}
        self.reference.catch_up(order, self._passing(order))
        for partition, wanted in self.reference.states.items():
            found = seen[partition]
            if partition[0] in self.reference.deleted:  # which member of its ISR went last is the order of a Scala map
                assert (found[0], len(found[1]), found[2]) == (wanted.leader, len(wanted.isr), wanted.leader_epoch), (
                    where
                )
            else:
                assert found == wanted, where
            self.reference.states[partition] = wanted._replace(isr=found[1])
        ruling = self.cluster.controller
        if ruling is None:
            return
        context = self.cluster.brokers[ruling].controller.context
        assert context.epoch == self.reference.epoch, where
        found_partitions = {
            tuple(p): s.value for s in PartitionState for p in context.names(context.partition_states.rows_in(s))
        }
        assert found_partitions == self.reference.partitions, where
        found_replicas = {(*r.topic_partition, r.replica): s.value for r, s in context.replica_states.items()}
        assert found_replicas == self.reference.replicas, where
        names = context.names(context.table.rows())
        assigned: dict[Any, Any] = {tuple(p): set(context.assignment(p).replicas) for p in names}
        assert assigned == {p: set(brokers) for p, brokers in self.reference.assignment.items()}, where

    def _passing(self, isrs: dict[Partition, tuple[int, ...]]) -> dict[Partition, list[int]]:
        """Return the brokers that joined an ISR since the last comparison and left it again."""
        events, self.compared = list(self.cluster.history)[self.compared :], len(self.cluster.history)
        passing: dict[Partition, list[int]] = {}
        for event in events:
            topic, _, number = event.subject.rpartition("-")
            joined = parse_state(event.after) if event.what == "ISR expanded" else None
            before = parse_state(event.before)
            if joined is not None and before is not None and (topic, int(number)) in isrs:
                left = set(joined.isr) - set(before.isr) - set(isrs[topic, int(number)])
                passing.setdefault((topic, int(number)), []).extend(sorted(left))
        return passing

    def _seen(self, partition: tuple[str, int]) -> tuple[int, tuple[int, ...], int, int]:
        state = self.cluster.state(*partition)
        return state.leader, state.isr, state.leader_epoch, state.controller_epoch


# Five examples of each release line in CI, a hundred with the profile "thorough".
EXAMPLES = max(5, settings().max_examples // 20)


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(steps=FOUND, unclean=False, seed=3)
@example(steps=WAITED, unclean=True, seed=0)
@example(steps=LEADERLESS, unclean=False, seed=0)
@example(steps=DELETED, unclean=False, seed=0)
@example(steps=NEVER_LED, unclean=True, seed=0)
@example(steps=ELECTED_IN_VAIN, unclean=False, seed=0)
@example(steps=ANNOUNCED, unclean=True, seed=3)
@example(steps=SENT_AGAIN, unclean=False, seed=1)
@example(steps=REMOVED, unclean=False, seed=1)
@given(steps=steps, unclean=st.booleans(), seed=st.integers(0, 3))
def test_the_reference_agrees(version: str, steps: list[Step], unclean: bool, seed: int) -> None:
    both = Both(version, unclean=unclean, seed=seed)
    with both.cluster:
        both.play(("create", 5, [1, 2, 3, 4]))
        for step in steps:
            both.play(step)
