"""A recorded real cluster, imported as a layout, fails and is repaired as the real one did.

A layout holds what its columns hold. What else the real tree has, a cluster that goes on from a layout does not know;
`NOT_CARRIED` names it with why, and nothing else may differ.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation import recording
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.layout_import import layout_from_tree, layout_of_recording
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.partitions.arrays import NONE, any_of, broker_mask, widen
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.states import States
from simzk.partitions.transitions import after_leader_write, elect_preferred, expand_isr, write_election
from tests.kafka import lab_stories, second_story
from tests.kafka.lab_stories import DATA as LAB
from tests.kafka.lab_stories import LabStory
from tests.kafka.recorded_story import CONFIG, LAYOUTS, RELEASES, TICK_TIME_MS, Story
from tests.kafka.second_story import SecondStory
from tests.partitions.operations import broker_failure, controller_failover

if TYPE_CHECKING:
    from simzk.kafka.observation.recording import Difference, RecordedZnode
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.arrays import IntArray
    from simzk.partitions.layouts import Layout

FIRST_FROM_LAYOUTS = (2, 7)
UNCLEAN_UNTIL = (0, 11)
"""From then on unclean.leader.election.enable is false where nobody says otherwise."""
IN_COLUMNS = [release for release in RELEASES if tuple(map(int, release.split("."))) >= FIRST_FROM_LAYOUTS]
OF_PARTITIONS = re.compile(r"(b\d|d|e|f2?|g2?|h|i|j[23]?|k|n)-.*")
"""Steps in which something happens to brokers or partitions."""


class NotCarried(NamedTuple):
    """Fields of znodes that a layout does not contain, and the reason; no fields mean the whole znode."""

    pattern: str
    fields: frozenset[str]
    why: str

    def covers(self, difference: Difference) -> bool:
        is_field = not self.fields or difference.field in self.fields
        return re.fullmatch(self.pattern, difference.path) is not None and is_field


NOT_CARRIED = (
    NotCarried(
        r"/config/(brokers|clients|ips|users)(/.+)?|/config/changes(/.+)?|/config/topics(/t\d)?",
        frozenset({"exists", "children", "cversion"}),
        "configurations, but for min.insync.replicas, and the notices of their changes",
    ),
    NotCarried("/cluster/id", frozenset({"id"}), "who the cluster is"),
    NotCarried(r"/brokers/topics/t\d", frozenset({"topic_id"}), "the ids of topics"),
    NotCarried(r"/brokers/topics/t\d", frozenset({"version"}), "how often a topic was written before"),
    NotCarried(r"/brokers/ids/\d", frozenset({"version"}), "that a registration was written again"),
    NotCarried("/controller_epoch", frozenset({"version"}), "how many writes it took to the present epoch"),
    NotCarried("/latest_producer_id_block", frozenset(), "which ids producers have been given"),
)


def differences(cluster: KafkaCluster, tree: dict[str, RecordedZnode]) -> list[Difference]:
    return recording.differences(cluster.server.tree, tree)


def before_of(story: Story | SecondStory | LabStory, step: str) -> str:
    """The step before a step."""
    return story.recorded.steps[story.recorded.steps.index(step) - 1]


def number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def live_in(tree: dict[str, RecordedZnode]) -> list[int]:
    return sorted(int(path.rpartition("/")[2]) for path in tree if paths.parent(path) == paths.BROKER_IDS)


def controller_in(tree: dict[str, RecordedZnode]) -> int | None:
    return json.loads(tree[paths.CONTROLLER].data or "")["brokerid"] if paths.CONTROLLER in tree else None


def epoch(tree: dict[str, RecordedZnode]) -> int:
    """The controller's."""
    return int(tree[paths.CONTROLLER_EPOCH].data or "")


def epoch_in(cluster: KafkaCluster) -> int:
    node = cluster.server.tree.get(paths.CONTROLLER_EPOCH)
    assert node is not None
    return int(node.data or b"")


def imported(release: str, step: str) -> tuple[Story, Layout, int | None]:
    """A release's story, the layout that stood there before a step, and who was controller."""
    story = Story(release)
    before = before_of(story, step)
    _, layout = layout_of_recording(LAYOUTS / f"kafka-{release}" / "dumps.json", before)
    return story, layout, controller_in(story.recorded.tree(before))


def going_on(story: Story, layout: Layout, controller: int | None) -> KafkaCluster:
    """A cluster that goes on from a layout with the controller of the real one."""
    cluster = KafkaCluster.from_layout(
        layout, version=story.release, config=CONFIG, tick_time_ms=TICK_TIME_MS, base_port=story.base_port
    )
    if controller is not None and cluster.controller != controller:
        cluster.prefer_controller(controller)
        cluster.delete_znode(paths.CONTROLLER)
        assert cluster.run_until_quiet(60)
    return cluster


# The whole controller


@cache
def lived_on(release: str) -> tuple[Difference, ...]:
    """Imported before the first failure, the cluster lives through the rest of the story: what differs on the way."""
    story = Story(release)
    first = next(step for step in story.names if step.startswith("d-"))
    cluster = going_on(*imported(release, first))
    found: list[Difference] = []
    for step in story.names[story.names.index(first) :]:
        story.play(cluster, step)
        found += differences(cluster, story.recorded.tree(step))
    cluster.check()
    return tuple(found)


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", IN_COLUMNS)
def test_an_imported_cluster_fails_and_is_repaired_as_the_real_one_was(release: str) -> None:
    """Eighteen steps or more: killed, stopped and started brokers, elections, reassignments, growth, deletion."""
    found = lived_on(release)
    assert [str(one) for one in found if not any(row.covers(one) for row in NOT_CARRIED)] == []


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("row", NOT_CARRIED, ids=lambda row: row.pattern)
def test_nothing_is_excepted_that_need_not_be(row: NotCarried) -> None:
    assert any(row.covers(one) for release in IN_COLUMNS for one in lived_on(release))


class Seen(NamedTuple):
    """A partition after a step: who leads, who is in sync, how far its epoch and its version moved, and how far below
    the controller's epoch the one is that it was last written with, where it was."""

    leader: int
    isr: tuple[int, ...]
    epochs: int
    versions: int
    behind: int | None


def seen(before: dict[str, LeaderAndIsr], after: dict[str, LeaderAndIsr], epoch: int) -> dict[str, Seen]:
    found = {}
    for path, now in after.items():
        was = before.get(path, now._replace(leader_epoch=0, version=-1))
        written_now = now.version != was.version
        moved = now.leader_epoch - was.leader_epoch, now.version - was.version
        found[path] = Seen(now.leader, now.isr, *moved, epoch - now.controller_epoch if written_now else None)
    return found


def states_of(tree: dict[str, RecordedZnode]) -> dict[str, LeaderAndIsr]:
    return {
        path: partition_state.decode(path, (znode.data or "").encode(), znode.version)
        for path, znode in tree.items()
        if paths.state_partition(path) is not None
    }


def states_in(cluster: KafkaCluster) -> dict[str, LeaderAndIsr]:
    return {
        path: partition_state.decode(path, node.data, node.version)
        for path, node in cluster.server.tree.walk(paths.TOPICS)
        if paths.state_partition(path) is not None
    }


def assignments_of(tree: dict[str, RecordedZnode]) -> dict[str, object]:
    """Return the assignments in the topic znodes of a tree, without topic ids."""
    topics = {path: znode.data or "" for path, znode in tree.items() if paths.parent(path) == paths.TOPICS}
    fields = {path: json.loads(text) for path, text in topics.items()}
    return {path: {key: value for key, value in of.items() if key != "topic_id"} for path, of in fields.items()}


def assignments_in(cluster: KafkaCluster) -> dict[str, object]:
    nodes = {path: node for path, node in cluster.server.tree.walk(paths.TOPICS) if paths.parent(path) == paths.TOPICS}
    fields = {path: json.loads(node.data or b"") for path, node in nodes.items()}
    return {path: {key: value for key, value in of.items() if key != "topic_id"} for path, of in fields.items()}


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(
    ("release", "step"),
    [(release, step) for release in IN_COLUMNS for step in Story(release).names if OF_PARTITIONS.fullmatch(step)],
)
def test_from_any_step_the_next_is_as_it_was(release: str, step: str) -> None:
    """Imported right before it; of epochs and versions, which a layout does not hold or not all, how far they move."""
    story, layout, controller = imported(release, step)
    before, after = story.recorded.tree(before_of(story, step)), story.recorded.tree(step)
    cluster = going_on(story, layout, controller)
    ours = states_in(cluster)
    story.play(cluster, step)
    assert seen(ours, states_in(cluster), epoch_in(cluster)) == seen(states_of(before), states_of(after), epoch(after))
    assert assignments_in(cluster) == assignments_of(after)
    assert cluster.live_brokers == live_in(after)
    assert cluster.controller == controller_in(after)


# In the middle of a reassignment

MOVING, CANCELLED = "e1-kill9-broker3-then-move", "e2-cancel"
"""Broker 3 is down, and x-0 moves to it from 1; then that is cancelled."""


def imported_as_it_moves(release: str) -> tuple[LabStory, KafkaCluster]:
    """A cluster that goes on from where x-0 waits for broker 3; its topic stands there as the real one's."""
    story = LabStory("administration", release)
    tree = story.recorded.tree(MOVING)
    _, layout = layout_of_recording(LAB / "administration" / release / "dumps.json.gz", MOVING)
    assert layout.adding[layout.reassigning].tolist() == [[3]]
    assert layout.removing[layout.reassigning].tolist() == [[1]]
    cluster = KafkaCluster.from_layout(layout, version=release, config=CONFIG, tick_time_ms=TICK_TIME_MS)
    assert cluster.controller == controller_in(tree)
    assert assignments_in(cluster) == assignments_of(tree)
    return story, cluster


MOVING_IN_COLUMNS = [release for name, release in lab_stories.recorded() if name == "administration"]
MOVING_IN_COLUMNS = [release for release in MOVING_IN_COLUMNS if number(release) >= FIRST_FROM_LAYOUTS]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", MOVING_IN_COLUMNS)
def test_a_reassignment_that_was_imported_is_cancelled_as_the_real_one_was(release: str) -> None:
    story, cluster = imported_as_it_moves(release)
    before, after = story.recorded.tree(MOVING), story.recorded.tree(CANCELLED)
    ours = states_in(cluster)
    cluster.reassign({("x", 0): None})
    assert cluster.run_until_quiet()
    assert seen(ours, states_in(cluster), epoch_in(cluster)) == seen(states_of(before), states_of(after), epoch(after))
    assert assignments_in(cluster) == assignments_of(after)
    cluster.check()


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", MOVING_IN_COLUMNS)
def test_a_reassignment_that_was_imported_is_completed_once_its_broker_is_there(release: str) -> None:
    """As by a cluster whose brokers are objects, which lived through the story up to a failover in that state."""
    story, cluster = imported_as_it_moves(release)
    with story.empty_cluster() as lived:
        for step in story.names[: story.names.index(MOVING) + 1]:
            story.play(lived, step)
        assert assignments_in(lived) == assignments_in(cluster)
        lived.delete_znode(paths.CONTROLLER)
        assert lived.run_until_quiet(60)
        found = []
        for arm in (cluster, lived):
            before = states_in(arm)
            arm.restart(3)
            assert arm.run_until_quiet(60)
            arm.check()
            found.append((assignments_in(arm), seen(before, states_in(arm), epoch_in(arm))))
        assert found[0] == found[1]
    text = cluster.server.tree.get("/brokers/topics/x")
    assert text is not None
    assert b'"0":[2,3],' in (text.data or b"")
    assert b'"adding_replicas":{},"removing_replicas":{}' in (text.data or b"")


# The table alone


class Planned(NamedTuple):
    """Partitions of a layout as the table's functions take them, with what a layout does not hold of their states."""

    names: list[str]
    replicas: IntArray
    states: States


def table_of(layout: Layout, states: dict[str, LeaderAndIsr]) -> Planned:
    where = zip(layout.topic.tolist(), layout.partition.tolist(), strict=True)
    names = [paths.state(TopicPartition(layout.topics[topic], partition)) for topic, partition in where]
    rows = [row for row, name in enumerate(names) if name in states]
    names = [names[row] for row in rows]
    others = [[of.controller_epoch, of.version] for of in map(states.__getitem__, names)]
    controller_epoch, version = np.array(others, np.int32).reshape(len(names), 2).T
    recovering = np.array([states[name].recovering for name in names], np.bool_)
    lists = layout.leader[rows], layout.leader_epoch[rows], layout.isr[rows]
    return Planned(names, layout.replicas[rows], States(*lists, controller_epoch, version, recovering))


STORIES: dict[tuple[str, str], Story | SecondStory | LabStory] = {
    **{("first", release): Story(release) for release in RELEASES},
    **{("second", release): SecondStory(release) for release in second_story.RELEASES},
    **{(name, release): LabStory(name, release) for name, release in lab_stories.recorded()},
}
KILLED = re.compile(r".*kill9.*broker(\d)")
RESTARTED = re.compile(r"[ej]3?-restart-broker(\d)")
ELECTED = re.compile(r"(f2?-preferred|d5-elect|k1-elect)(?!-some).*")
ELSEWHERE = {
    ("first", "0.8.0", "j2-kill9-noncontroller-broker3"): (
        "its controller hears of no leader's ISRs, and goes by what it knew: it writes nothing"
    ),
}
"""Where the real controller went by something that stands in no znode, and why."""


def table_after(name: str, release: str, step: str) -> tuple[dict[str, LeaderAndIsr], dict[str, LeaderAndIsr]]:
    """Return the states after a step: from batches over an imported layout, and of the real cluster."""
    story = STORIES[name, release]
    before, after = story.recorded.tree(before_of(story, step)), story.recorded.tree(step)
    texts = {path: None if znode.data is None else znode.data.encode() for path, znode in before.items()}
    names, replicas, states = table_of(layout_from_tree(texts, where=step), states_of(before))
    live, rules = broker_mask(live_in(after)), kafka_version(release).rules
    if not live.any():
        pass  # nobody is left to write
    elif killed := KILLED.fullmatch(step):
        broker = int(killed[1])
        unclean = number(release) < UNCLEAN_UNTIL
        fail = controller_failover if controller_in(before) == broker else broker_failure
        dead = sorted(set(replicas[replicas != NONE].tolist()) - set(live_in(after)))
        gone = dead if fail is controller_failover else [broker]
        states, _ = fail(
            replicas, states, gone, live, controller_epoch=epoch(after), unclean_allowed=unclean, rules=rules
        )
    elif restarted := RESTARTED.fullmatch(step):
        broker = int(restarted[1])
        joins = any_of(replicas == broker) & ~any_of(states.isr == broker) & (states.leader != NONE)
        rows = np.flatnonzero(joins)
        old = states.at(rows)
        isr = expand_isr(old.isr, np.full(len(rows), broker, np.int32), kafka_version(release).orders.scala)
        by_controller = number(release) >= FIRST_FROM_LAYOUTS  # before, leaders write with the epoch that they know
        new = after_leader_write(old, isr, epoch(after) if by_controller else None)
        states = states._replace(isr=widen(states.isr, isr.shape[1]))
        states.put(rows, new._replace(isr=widen(new.isr, states.isr.shape[1])))
    else:
        election = elect_preferred(replicas, states.isr, states.leader, live, rules=rules)
        states = write_election(states, election, controller_epoch=epoch(after), rules=rules).after
    real = states_of(after)
    return {path: states.one(row) for row, path in enumerate(names)}, {path: real[path] for path in names}


TABLE_STEPS = [
    (name, release, step)
    for (name, release), story in STORIES.items()
    for step in story.names
    if KILLED.fullmatch(step) or ELECTED.fullmatch(step) or (name == "first" and RESTARTED.fullmatch(step))
    if states_of(story.recorded.tree(step))
]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(("name", "release", "step"), TABLE_STEPS)
def test_batches_over_an_imported_layout_leave_the_states_that_the_real_cluster_left(
    name: str, release: str, step: str
) -> None:
    """Leader, ISR, both epochs and the version of every partition: of all releases from 0.8.0 on."""
    ours, real = table_after(name, release, step)
    assert real
    assert (ours == real) == ((name, release, step) not in ELSEWHERE)


def test_all_releases_fail_and_are_repaired() -> None:
    for release in RELEASES:
        steps = [step for name, of, step in TABLE_STEPS if (name, of) == ("first", release)]
        for kind in (KILLED, RESTARTED, ELECTED):
            assert any(kind.fullmatch(step) for step in steps), (release, kind)


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", RELEASES)
def test_what_if_tells_what_became_of_the_real_cluster(release: str) -> None:
    """At each kill of the first story: leaders moved, offline, under-replicated, load of the busiest."""
    story = Story(release)
    for step in story.names:
        killed = KILLED.fullmatch(step)
        if killed is None or ("first", release, step) in ELSEWHERE:
            continue
        before, after = states_of(story.recorded.tree(before_of(story, step))), states_of(story.recorded.tree(step))
        outcome = WhatIf(imported(release, step)[1]).fail([int(killed[1])])
        leaders = [state.leader for state in after.values() if state.leader != NONE]
        assert outcome.leaders_moved == sum(after[path].leader not in (NONE, before[path].leader) for path in before)
        assert outcome.offline == len(after) - len(leaders)
        assert outcome.busiest_leaders == max(map(leaders.count, leaders)) == leaders.count(outcome.busiest_broker)
