"""Predicted effects of a plan equal those in a cluster of that layout, write by write, in all kinds of releases."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simzk.errors import SimzkError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation.recording import load
from simzk.kafka.releases.versions import VERSIONS, kafka_version
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.layout_import import layout_from_tree, layout_of_recording
from simzk.kafka.zookeeper_mode.replay import transactions as recorded_transactions
from simzk.kafka.zookeeper_mode.schemas import partition_state, topic
from simzk.kafka.zookeeper_mode.tools import plan_documents as plans
from simzk.partitions.arrays import unpack
from simzk.partitions.layouts import Brokers, brokers_in_racks, generate_layout
from simzk.partitions.plans.plan import find_rows
from simzk.partitions.table import Partitions
from simzk.zookeeper.transactions import MultiTxn, SetDataTxn
from tests.kafka.clusters import QUICK, quiet

if TYPE_CHECKING:
    from simzk.partitions.layouts import Layout
    from simzk.partitions.plans.what_if import PlanWhatIf
    from simzk.zookeeper.transactions import Transaction

pytestmark = pytest.mark.slow

LAYOUTS = Path(__file__).parents[2] / "scenarios" / "layouts"
BROKERS = range(1, 6)
LINES = ["3.9", "2.8", "2.4", "2.3", "1.0", "0.10.2", "0.8.1", "0.8.0"]
"""On each side of what changed: KIP-455, who writes ISRs, the assignment that is widened."""


EXAMPLES = settings().max_examples // 16
"""For each line; a story takes a fifth of a second. Six in every run, more where somebody looks longer."""


class Seen(NamedTuple):
    """Replicas, leader, ISR (a set) and leader epoch in the znodes of one partition."""

    replicas: tuple[int, ...]
    leader: int
    isr: frozenset[int]
    leader_epoch: int


class Znodes:
    """State of a layout's partitions after each write to their znodes."""

    def __init__(self, layout: Layout) -> None:
        names = Partitions(layout.topics, layout.topic, layout.partition).names()
        columns = (unpack(layout.replicas), layout.leader.tolist(), unpack(layout.isr), layout.leader_epoch.tolist())
        self._now = {
            name: Seen(replicas, leader, frozenset(isr), epoch)
            for name, replicas, leader, isr, epoch in zip(names, *columns, strict=True)
        }
        self.seen = {name: [now] for name, now in self._now.items()}
        self.writes = dict.fromkeys(self._now, 0)

    def note(self, transaction: Transaction) -> None:
        """Record an applied transaction."""
        record = transaction.record
        for part in record.records if isinstance(record, MultiTxn) else [record]:
            if isinstance(part, SetDataTxn):
                self.write(part.path, part.data)

    def write(self, path: str, data: bytes | None) -> None:
        """Record a written znode."""
        place = path.removeprefix("/brokers/topics/").split("/")
        if path == paths.topic(place[0]):
            for number, assignment in topic.decode(path, data).partitions.items():
                self._put((place[0], number), self._now[place[0], number]._replace(replicas=assignment.replicas))
        elif path.endswith("/state"):
            state, name = partition_state.decode(path, data), (place[0], int(place[2]))
            self.writes[name] += 1
            self._put(name, Seen(self._now[name].replicas, state.leader, frozenset(state.isr), state.leader_epoch))

    def _put(self, name: tuple[str, int], now: Seen) -> None:
        if now != self._now[name]:
            self._now[name] = now
            self.seen[name].append(now)

    def check(self, what_if: PlanWhatIf) -> None:
        """Assert that each partition of a plan went through the predicted phases, and no further."""
        layout, rows = what_if.layout, what_if.diff.rows
        for place, name in enumerate(Partitions(layout.topics, layout.topic, layout.partition).at(rows).names()):
            found, seen = predicted(what_if, place), self.seen[name]
            assert seen[-1] == found[-1], (name, seen, found)
            left = iter(seen)
            assert all(phase in left for phase in dict.fromkeys(found)), (name, seen, found)
            assert self.writes[name] == what_if.phases.at("finished").states.version[place]


SECOND_STORY = Path(__file__).parent / "data" / "second_story"
RECORDINGS = sorted(path.parent for folder in (LAYOUTS, SECOND_STORY) for path in folder.glob("*/dumps.json"))
MOVED = {
    "g-reassign": {("t1", 0): [2, 3]},
    "g2-reassign-admin-api": {("t1", 1): [1, 2]},
    "c-reassign": {("w", 0): [3, 2], ("w", 1): [3], ("w", 4): [1, 3]},
    "n-reassign2": {("v", 2): [2]},
}
"""What the recorded operators moved where."""


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: f"{folder.parent.name} {folder.name}")
def test_real_clusters_reassigned_as_predicted(folder: Path) -> None:
    """Compare write by write; the final layout is that of the step's dump."""
    dump = folder / "dumps.json"
    transactions = recorded_transactions.by_step(recorded_transactions.load(folder / "txns.json"))
    recording = load(dump)
    played = [step for step in recording.steps if step in MOVED]
    assert played
    for step in played:
        before = recording.steps[recording.steps.index(step) - 1]
        moved = [{"topic": t, "partition": p, "replicas": replicas} for (t, p), replicas in MOVED[step].items()]
        _, layout = layout_of_recording(dump, before)
        _, after = layout_of_recording(dump, step)
        text = json.dumps({"version": 1, "partitions": moved})
        what_if = plans.what_if(layout, text, kafka_version(folder.name.removeprefix("kafka-")))
        assert not what_if.phases.waits.any()
        znodes = Znodes(layout)
        for entry in transactions[step]:
            for part in entry.parts():
                if part.op == "setData" and part.path.startswith("/brokers/topics/"):
                    znodes.write(part.path, str(part.data).encode())
        znodes.check(what_if)
        found = what_if.layout_at("finished")
        assert unpack(found.replicas) == unpack(after.replicas)
        assert list(map(set, unpack(found.isr))) == list(map(set, unpack(after.isr)))
        assert found.leader.tolist() == after.leader.tolist()
        assert found.leader_epoch.tolist() == after.leader_epoch.tolist()


def layout_now(cluster: KafkaCluster) -> Layout:
    return layout_from_tree({path: node.data for path, node in cluster.server.tree.walk()}, where="the cluster")


def document(targets: dict[int, list[int]]) -> str:
    entries = [{"topic": "t", "partition": number, "replicas": target} for number, target in targets.items()]
    return json.dumps({"version": 1, "partitions": entries})


def predicted(what_if: PlanWhatIf, place: int) -> list[Seen]:
    """Return the predicted state of one partition of a plan after each phase."""
    found = []
    for _, assignment, states in what_if.phases.phases:
        state = states.one(place)
        found.append(Seen(unpack(assignment.replicas)[place], state.leader, frozenset(state.isr), state.leader_epoch))
    return found


Story = tuple[list[list[int]], list[int], dict[int, list[int]]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Generate replicas of partitions, dead brokers, and targets of some partitions."""
    factor = draw(st.integers(1, 4))
    lists = st.permutations(BROKERS).map(lambda brokers: list(brokers[:factor]))
    replicas = draw(st.lists(lists, min_size=1, max_size=4))
    dead = draw(st.lists(st.sampled_from(BROKERS), max_size=2, unique=True))
    live = [broker for broker in BROKERS if broker not in dead]
    targets = {}
    for number, present in enumerate(replicas):
        kind = draw(st.sampled_from(["none", "any", "order", "same", "swap"]))
        left = [broker for broker in present if broker in live]
        if kind == "any":
            targets[number] = draw(st.lists(st.sampled_from(live), min_size=1, max_size=4, unique=True))
        elif kind == "order" and left == present:
            targets[number] = draw(st.permutations(present))
        elif kind == "same" and left == present:
            targets[number] = present
        elif kind == "swap" and len(left) > 1:
            targets[number] = left[1:]
    return replicas, dead, targets or {0: [live[0]]}


@pytest.mark.parametrize("line", LINES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=stories())
def test_a_plan_is_carried_out_as_predicted(
    line: str, story: tuple[list[list[int]], list[int], dict[int, list[int]]]
) -> None:
    replicas, dead, targets = story
    if line == "0.8.0":
        dead = []  # whether such a controller takes the dead out of an ISR depends on its past
    with KafkaCluster(line, brokers=list(BROKERS), config=QUICK) as cluster:
        cluster.create_topic("t", assignment=dict(enumerate(replicas)))
        quiet(cluster)
        for broker in dead:
            cluster.kill(broker)
            quiet(cluster)
        text = document(targets)
        layout = layout_now(cluster)
        what_if, znodes = plans.what_if(layout, text, VERSIONS[line]), Znodes(layout)
        cluster.server.on_transaction.append(znodes.note)
        cluster.reassign(text)
        cluster.run_until_quiet(30)
        znodes.check(what_if)
        after, told_after = layout_now(cluster), what_if.layout_at("finished")
        assert unpack(after.replicas) == unpack(told_after.replicas)
        assert after.leader.tolist() == told_after.leader.tolist()
        assert after.leader_epoch.tolist() == told_after.leader_epoch.tolist()


@pytest.mark.parametrize("line", ["3.9", "2.7"])
def test_a_cluster_started_from_a_layout_ends_as_predicted(line: str) -> None:
    """Move a third of 600 partitions on six brokers in three racks."""
    layout = generate_layout(brokers_in_racks(6, 3), topics=10, partitions=600, replication_factor=3, seed=2)
    entries = [
        {
            "topic": layout.topics[layout.topic[row]],
            "partition": int(layout.partition[row]),
            "replicas": [(broker + row % 5) % 6 for broker in layout.replicas[row].tolist()],
        }
        for row in range(0, 600, 3)
    ]
    text = json.dumps({"version": 1, "partitions": entries})
    what_if = plans.what_if(layout, text, VERSIONS[line])
    with KafkaCluster.from_layout(layout, version=line, config=QUICK) as cluster:
        cluster.reassign(text)
        quiet(cluster)
        after, found = layout_now(cluster), what_if.layout_at("finished")
        by_name = find_rows(after, Partitions(layout.topics, layout.topic, layout.partition))
        assert (after.replicas[by_name] == found.replicas).all()
        assert (after.leader[by_name] == found.leader).all()
        assert (after.leader_epoch[by_name] == found.leader_epoch).all()
        assert (np.sort(after.isr[by_name]) == np.sort(found.isr)).all()


@pytest.mark.parametrize(
    ("line", "entries", "said"),
    [
        ("3.9", [], "Partition reassignment list cannot be empty"),
        ("3.9", [("t", 0, [1, 1])], "t-0 contains multiple entries for 1"),
        ("3.9", [("t", 0, [1]), ("t", 0, [2])], "contains duplicate topic partitions: t-0"),
        ("3.9", [("t", 0, [])], "Partition replica list cannot be empty"),
        ("3.9", [("t", 0, [1, 3])], "Unknown broker id 3"),
        ("3.9", [("t", 0, [1, 9])], "Unknown broker id 9"),
        ("3.9", [("u", 0, [1])], "Topic u not found."),
        ("3.9", [("t", 7, [1])], "t-7: The partition does not exist."),
        ("2.4", [("t", 0, [1, 9])], "The proposed assignment contains non-existent brokerIDs: 9"),
        ("1.1", [("t", 7, [1]), ("u", 0, [1])], "contains non-existent partitions: t-7, u-0"),
        ("0.10.0", [("t", 0, [1, 3])], "drops reassignments to dead brokers"),
        ("0.8.1", [("t", 0, [1, 1])], "repeat a broker"),
    ],
)
def test_a_plan_is_rejected_as_by_the_tool_of_its_release(
    line: str, entries: list[tuple[str, int, list[int]]], said: str
) -> None:
    healthy = generate_layout(
        Brokers.from_racks(dict.fromkeys([1, 2, 3])), topics=1, partitions=2, replication_factor=1, seed=0
    )
    brokers = replace(healthy.brokers, live=np.array([True, True, False]))
    layout = replace(healthy, brokers=brokers, topics=("t",))
    text = json.dumps(
        {"version": 1, "partitions": [{"topic": t, "partition": p, "replicas": r} for t, p, r in entries]}
    )
    with pytest.raises(SimzkError, match=re.escape(said)):
        plans.what_if(layout, text, VERSIONS[line])


def test_without_checks_a_plan_waits_for_a_dead_broker() -> None:
    """0.10.1 to 0.10.2: neither the tool nor the controller rejects it."""
    layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=1, replication_factor=1, seed=0)
    (home,) = layout.replicas[0].tolist()
    down, up = (home + 1) % 3, (home + 2) % 3
    live = np.array([broker != down for broker in range(3)])
    what_if = plans.what_if(
        replace(layout, brokers=replace(layout.brokers, live=live)),
        json.dumps({"version": 1, "partitions": [{"topic": "topic-0", "partition": 0, "replicas": [down, up]}]}),
        VERSIONS["0.10.2"],
    )
    assert what_if.phases.waits.tolist() == [True]
    assert unpack(what_if.layout_at("finished").replicas) == [(down, up, home)]
    assert unpack(what_if.layout_at("finished").isr) == [(home, up)]
    moved = what_if.moved()
    assert (moved.copied, moved.unsourced, int(moved.deleted.sum())) == (1, 1, 0)
