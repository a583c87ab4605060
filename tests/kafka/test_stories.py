"""Simulated clusters write and leave the same as recorded clusters, step by step, but for what races decide."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

from simzk.kafka.observation import recording
from simzk.kafka.zookeeper_mode.replay import allowed_differences, comparison, inputs
from simzk.kafka.zookeeper_mode.replay import transactions as comparable
from simzk.kafka.zookeeper_mode.replay.allowed_differences import StepContext
from tests.kafka import lab_stories, recorded_story, second_story
from tests.kafka.lab_stories import LabStory
from tests.kafka.recorded_story import Story
from tests.kafka.second_story import SecondStory
from tests.kafka.two_racks import RELEASES as REPLAYED
from tests.kafka.two_racks import replayed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.observation.recording import Difference, RecordedZnode
    from simzk.kafka.zookeeper_mode.replay.allowed_differences import AllowedDifference
    from simzk.kafka.zookeeper_mode.replay.transactions import ComparableTransaction, RecordedTransaction

STORIES: dict[tuple[str, str], Story | SecondStory | LabStory] = {
    **{("first", release): Story(release) for release in recorded_story.RELEASES},
    **{("second", release): SecondStory(release) for release in second_story.RELEASES},
    **{(name, release): LabStory(name, release) for name, release in lab_stories.recorded()},
}
STEPS = [
    pytest.param(name, release, step, marks=pytest.mark.xdist_group(f"{name} {release}"))
    for (name, release), story in STORIES.items()
    for step in story.names
]
MANY = ["3.9.1", "2.8.2", "2.4.1", "1.1.1", "0.10.2.2", "0.8.2.2"]


class Played(NamedTuple):
    """A step: its context, the trees' differences, what was written and recorded, and the recorded tree before."""

    context: StepContext
    differences: list[Difference]
    ours: list[ComparableTransaction]
    theirs: list[ComparableTransaction]
    before: dict[str, RecordedZnode]


_DONE = re.compile(r"(?:\w+-)?(continue|resume|kill9|kill)\b")
_ACTIONS = {"continue": "resume", "resume": "resume", "kill9": "kill", "kill": "kill"}


def context(step: str, transactions: Sequence[RecordedTransaction], before: dict[str, RecordedZnode]) -> StepContext:
    """Return what selects the rows of a step: these stories say in its name what was done."""
    done = _DONE.match(step)
    actions = frozenset[str]() if done is None else frozenset((_ACTIONS[done[1]],))
    return StepContext(actions, inputs.early_fetches(transactions, before))


def number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


@cache
def played(name: str, release: str, seed: int = 0) -> dict[str, Played]:
    """Play a whole story from the empty tree."""
    story = STORIES[name, release]
    steps = {}
    before = story.recorded.tree(story.recorded.steps[0])
    with story.empty_cluster(seed) as c:
        log = comparable.TransactionLog(c)
        for step in story.names:
            log.take()
            story.play(c, step)
            tree = story.recorded.tree(step)
            found = recording.differences(c.server.tree, tree)
            entries = story.transactions.get(step, [])
            steps[step] = Played(
                context(step, entries, before), found, log.take(), comparable.recorded(entries), before
            )
            before = tree
        c.check()
    return steps


def unequal(
    name: str, release: str, step: str, table: tuple[AllowedDifference, ...] = allowed_differences.TABLE
) -> list[str]:
    """Return the differences of a step that the table does not allow."""
    of = played(name, release)[step]
    seen = comparison.transaction_differences(of.ours, of.theirs, of.before, number(release), of.context, table)
    return [*map(str, of.differences), *map(str, seen)]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(("name", "release", "step"), STEPS)
def test_a_step_leaves_and_writes_what_was_recorded(name: str, release: str, step: str) -> None:
    assert unequal(name, release, step) == []


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", [*recorded_story.RELEASES])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_first_story_does_not_depend_on_chance(release: str, seed: int) -> None:
    for step, of in played("first", release, seed).items():
        assert of.differences == [], step


@pytest.mark.slow_but_for_some_releases
@pytest.mark.xdist_group("rows")
@pytest.mark.parametrize(
    "row",
    [row for row in allowed_differences.TABLE if not isinstance(row, allowed_differences.Input)],
    ids=lambda row: row.name,
)
def test_no_row_is_idle_and_none_is_wider_than_needed(row: AllowedDifference) -> None:
    """Without it some story differs; so it is at both ends of its releases, or of those said to be recorded."""
    rest = tuple(other for other in allowed_differences.TABLE if other is not row)
    concerned = {
        release
        for (name, release), story in STORIES.items()
        for step in story.names
        if row.holds(number(release), played(name, release)[step].context) and unequal(name, release, step, rest)
    }
    concerned |= {
        release
        for release in REPLAYED
        for step in replayed(release).values()
        if row.holds(step.number, step.context) and not step.report(rest).equal
    }
    assert concerned, "no story needs it"
    line = allowed_differences.line
    known = [
        number(release)
        for release in recorded_story.RELEASES
        if line(row.releases[0]) <= line(number(release)) <= line(row.releases[1])
    ]
    needed = [number(release) for release in concerned]
    assert (min(needed), max(needed)) == (row.recorded or (min(known), max(known)))


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(
    "change",
    ["who", "path", "data", "asked version", "made version", "acl", "parent's cversion", "timeout", "order"],
)
def test_every_part_of_a_transaction_is_compared(change: str) -> None:
    of = played("first", "2.4.1")["b1-create-t1"]
    edited = list(of.ours)
    if change == "order":
        edited[0], edited[1] = edited[1], edited[0]
    else:
        edits = {
            "path": ("/brokers/topics/t1 ", "/brokers/topics/t9 "),
            "data": ('"version":2', '"version": 2'),
            "asked version": ("version 1; create", "version 2; create"),
            "made version": ("P', 'create'", "E', 'create'"),
            "acl": ("[31, 'world', 'anyone']", "[1, 'world', 'anyone']"),
            "parent's cversion": ("parent's cversion 1", "parent's cversion 7"),
        }
        at = 0
        if change in edits:
            at = next((i for i, reported in enumerate(edited) if edits[change][0] in reported.text), -1)
        if change == "who":
            edited[at] = edited[at]._replace(who="b3")
        elif change in edits and at >= 0:
            edited[at] = edited[at]._replace(text=edited[at].text.replace(*edits[change], 1))
        else:
            edited[at] = edited[at]._replace(text=f"{edited[at].text} 7")
    assert comparison.transaction_differences(of.ours, of.theirs, of.before, (2, 4, 1), of.context) == []
    assert comparison.transaction_differences(edited, of.theirs, of.before, (2, 4, 1), of.context) != []
