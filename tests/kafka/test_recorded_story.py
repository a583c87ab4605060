"""The whole story of a real cluster of each release, simulated: after each step every znode is the recorded one."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from simzk.errors import ConfigError
from simzk.kafka import recording
from simzk.kafka.cluster import KafkaCluster
from simzk.kafka.versions import VERSIONS, kafka_version
from simzk.zookeeper.transactions import CreateSessionTxn, Transaction
from tests.kafka import recorded_transactions
from tests.kafka.recorded_story import RELEASES, Story, play

STORIES = {release: Story(release) for release in RELEASES}
STEPS = [(release, step) for release in RELEASES for step, _ in STORIES[release].steps]

CHANCE_IN_TREES = {
    ("2.8.2", "/brokers/topics/t3: topic_id"): "the tool makes the topic without an id, and the controller draws one",
}
"""Fields of the trees that are chance and no input, by release, and why."""

EVERY = frozenset(RELEASES)
LATE_FETCHES = frozenset({"0.11.0.3", "0.10.2.2", "0.10.0.1", "0.9.0.1", "0.8.2.2", "0.8.1.1"})
UNORDERED = {
    "a1": (
        EVERY - {"3.9.1", "3.4.1", "3.0.2"},
        "a broker takes producer ids while its controller takes over: two threads",
    ),
    "b3": (EVERY, "the tool ends its session while the controller makes the partitions"),
    "h": (frozenset({"0.10.2.2"}), "as b3"),
    "f2": (frozenset({"2.2.2", "2.3.1", "2.6.3"}), "the tool ends its session while the controller elects"),
    "e": (EVERY, "which follower's fetch comes first, and which leader's timer, is a matter of microseconds"),
    "i": (LATE_FETCHES, "when a late fetch of the broker that stops lets it into an ISR again"),
    "n": (LATE_FETCHES | {"1.0.2"}, "as i"),
    "j": (EVERY, "as e"),
    "j3": (EVERY, "as e"),
}
"""Steps, by their code, whose transactions are compared without their order: in which releases, and why."""

# Which losers of an election were quick enough to try is a race as well; these are the tries that came too late.
LATE_TRIES = ("multi [error NodeExists; error RuntimeInconsistency]", "error NodeExists")
# A session that a tool leaves open ends half a minute later: in which step that falls is a matter of the pace.
LEFT = "closeSession []"
STEPS_WITH_ELECTIONS = ("d", "i")


@cache
def whole_story(release: str, seed: int) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Play a story from the empty tree: the differences, and the transactions, of each step."""
    story = STORIES[release]
    differences: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    with story.empty_cluster(seed) as c:
        log: list[str] = []
        begun: set[int] = set()

        def note(transaction: Transaction) -> None:
            if isinstance(transaction.record, CreateSessionTxn):
                begun.add(transaction.session_id)
            told = recorded_transactions.told(transaction.record)
            if told != LEFT or transaction.session_id in begun:
                log.append(told)

        c.server.on_transaction.append(note)
        for name, act in story.steps:
            log.clear()
            begun.clear()
            play(c, act, story.paces_s[name])
            found = [str(d) for d in recording.differences(c.server.tree, story.recorded.tree(name))]
            differences[name] = [d for d in found if not is_chance(release, d)]
            written[name] = list(log)
        c.check()
    return differences, written


def is_chance(release: str, difference: str) -> bool:
    return any(of == release and difference.startswith(start) for of, start in CHANCE_IN_TREES)


def comparable(transactions: list[str], code: str) -> list[str]:
    """The transactions without what is chance."""
    if code in STEPS_WITH_ELECTIONS:
        transactions = [told for told in transactions if told not in LATE_TRIES]
    # Which leader is the first to announce ISR changes is a race; its number is then another.
    transactions = [re.sub(r"(isr_change_)\d+", r"\1?", told) for told in transactions]
    return [re.sub(r'("topic_id":)"[^"]+"', r"\1?", told) if "topics/t3 " in told else told for told in transactions]


@pytest.mark.parametrize(("release", "step"), STEPS)
def test_each_step_from_the_empty_tree_leaves_the_recorded_tree(release: str, step: str) -> None:
    assert whole_story(release, 0)[0][step] == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_story_does_not_depend_on_chance(release: str, seed: int) -> None:
    assert not any(whole_story(release, seed)[0].values())


@pytest.mark.parametrize(("release", "step"), STEPS)
def test_each_step_writes_the_recorded_transactions(release: str, step: str) -> None:
    code = step.partition("-")[0]
    entries = STORIES[release].transactions.get(step, [])
    begun = {entry["who"] for entry in entries if entry["op"] == "createSession"}
    told = [(entry["who"], recorded_transactions.recorded(entry)) for entry in entries]
    expected = comparable([text for who, text in told if text != LEFT or who in begun], code)
    written = comparable(whole_story(release, 0)[1][step], code)
    if release in UNORDERED.get(code, (frozenset(), ""))[0]:
        assert sorted(written) == sorted(expected)
    else:
        assert written == expected


@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_step_is_played(release: str) -> None:
    story = STORIES[release]
    assert story.recorded.steps == ("a0-empty", *(name for name, _ in story.steps))


IN_MEMORY_ALONE = {("0.8.0", "j-restart-broker3"), ("0.8.0", "k-delete-t2")}
"""Steps after which it matters what the controller knows otherwise than the znodes: 0.8.0 hears of no leader's ISRs."""


@pytest.mark.parametrize(
    ("release", "start"),
    [
        (release, step)
        for release in RELEASES
        for step, _ in STORIES[release].steps[2:-1]
        if (release, step) not in IN_MEMORY_ALONE
    ],
)
def test_a_cluster_goes_on_from_any_recorded_tree(release: str, start: str) -> None:
    story = STORIES[release]
    names = [name for name, _ in story.steps]
    after, act = story.steps[names.index(start) + 1]
    with story.cluster_from(story.recorded.tree(start)) as c:
        assert recording.differences(c.server.tree, story.recorded.tree(start)) == []
        if start == "h1-produce" and start not in story.transactions:  # what was produced stands in no tree
            play(c, story.steps[names.index(start)][1])
        play(c, act, story.lasts_s(after))
        found = [str(d) for d in recording.differences(c.server.tree, story.recorded.tree(after))]
        if story.lasts_s(start) is not None:  # what leaders had still to announce stands in no znode
            found = [d for d in found if not d.startswith("/isr_change_notification: cversion")]
        assert [d for d in found if not is_chance(release, d)] == []


def test_one_leader_epoch_changed_by_hand_is_reported_with_znode_and_field() -> None:
    path = "/brokers/topics/t1/partitions/2/state"
    story = STORIES["3.9.1"]
    tree = story.recorded.tree("b2-create-t2")
    fields = json.loads(tree[path].data or "")
    fields["leader_epoch"] += 1
    tree[path] = tree[path]._replace(data=json.dumps(fields, separators=(",", ":")))
    with story.cluster_from(story.recorded.tree("b2-create-t2")) as c:
        (difference,) = recording.differences(c.server.tree, tree)
    assert str(difference) == f"{path}: leader_epoch is 0, recorded was 1"


BY_HAND = {
    "3.8": "3.8.1: all equal, but that step e was over before the replicas were in sync again",
    "3.6": "3.6.2: all equal",
    "3.3": "3.3.2: all equal, but that step j3 was over before the replicas were in sync again",
    "3.2": "3.2.3: all equal",
    "2.5": "2.5.1: all equal",
    "2.1": "2.1.1: all equal, but for two late fetches of the broker that stops in step i",
    "2.0": "2.0.1: all equal, but for leaders' timers in the steps e and j, which were late",
    "0.10.1": "0.10.1.1: all equal, but for a leader's timer in step e, which was late",
}
"""Lines whose recordings are not kept here, with what was found when one was compared step by step."""
READ = frozenset({"3.7", "3.5", "3.1"})
"""Lines made from the sources alone: what their neighbours do, but for what a release is known to have changed."""


def test_every_line_that_is_offered_was_compared_or_read() -> None:
    recorded = [kafka_version(release).name for release in RELEASES]
    assert recorded == [line for line in VERSIONS if line in recorded]
    assert [line for line in VERSIONS if line not in recorded and line not in BY_HAND and line not in READ] == []


@pytest.mark.parametrize("version", ["4.0", "0.7", "2", "3.9.x", "3.10", ""])
def test_a_line_that_is_not_offered_is_refused_with_those_that_are(version: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)is not simulated.*3\.9, 3\.8, .*, 0\.10\.2, 0\.10\.1"):
        KafkaCluster(version)
