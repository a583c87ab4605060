"""All in which a simulated story and a recorded one may differ, in one table; `comparison.py` knows no other.

A row names what is chance between processes that run beside each other, why, and what of it is compared all the same.
Its kinds:
  - `Hidden`: a text or a field that two real runs never share; the rest of the znode or transaction is compared;
  - `Left`: transactions that one run has and another has not;
  - `Floating`: transactions whose place among the others is a race: each lane of them is in order, and what is left
    without them is in order too;
  - `InMemory`: where a story is taken up from a recorded tree in its midst, what stands in no tree;
  - `Chosen`: chance that is no difference, because the story takes it from the recording and plays it.

A row that no story needs would hide a mistake: `test_stories.py` takes each away and finds a story that then differs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simzk.kafka import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from tests.kafka.recorded_transactions import Told

Number = tuple[int, ...]
FIRST, LAST = (0, 8, 0), (3, 9, 1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that may differ.

    Args:
        name: what it is called.
        why: why it cannot be equal.
        compared: what of it is compared all the same.
        since, until: the releases concerned.
        steps: the names of the steps concerned.
    """

    name: str
    why: str
    compared: str
    since: Number = FIRST
    until: Number = LAST
    steps: str = ".*"

    def holds(self, number: Number, step: str) -> bool:
        """Whether it concerns a step of a release."""
        return self.since <= number <= self.until and re.fullmatch(self.steps, step) is not None


@dataclass(frozen=True, kw_only=True)
class Hidden(Row):
    """A text in transactions and trees, put `instead` of what differs; where `path` fits."""

    path: str = ".*"
    text: str
    instead: str


@dataclass(frozen=True, kw_only=True)
class Left(Row):
    """Transactions that are left out on both sides."""

    leaves: Callable[[Told], bool]


@dataclass(frozen=True, kw_only=True)
class Floating(Row):
    """Transactions without a place, each in some lanes: `lanes` tells them, and nothing where it does not float."""

    lanes: Callable[[Change], tuple[Hashable, ...]]


@dataclass(frozen=True, kw_only=True)
class Chosen(Row):
    """Chance that the story takes from its recording."""


@dataclass(frozen=True, kw_only=True)
class InMemory(Row):
    """Matters to a cluster that is taken up from a tree: what stands in no znode.

    Args:
        starts: the steps, by release, after which nothing can be compared; none where `path` is left out alone.
        field: of the znode at this path that is not compared.
    """

    starts: frozenset[tuple[str, str]] = frozenset()
    path: str = ""
    field: str = ""


@dataclass(frozen=True)
class Change:
    """A transaction, with what its place is decided by.

    Args:
        told: it.
        state: the partition whose state a setData writes, and the written fields; None for any other.
        by_leader: whether that leaves the leader epoch as it was: an ISR that its leader changed.
        concerned: the followers that join or leave the ISR.
    """

    told: Told
    state: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    by_leader: bool = False
    concerned: tuple[int, ...] = ()


_NOTE = re.compile(r"(/isr_change_notification/isr_change_)\d+")
_IDS = "/latest_producer_id_block"


def _late_try(told: Told) -> bool:
    return told.who != "client" and "error NodeExists" in told.text and "'/controller'" in told.text


def _stale_isr(told: Told) -> bool:
    return told.text.startswith("error BadVersion") and paths.state_partition(told.paths[0]) is not None


def _left_session(told: Told) -> bool:
    return told.who == "client" and told.session < 0 and told.text.startswith("closeSession []")


def _isr_change(change: Change) -> tuple[Hashable, ...]:
    if not change.by_leader:
        return ()
    leader = change.fields["leader"]
    return change.state, *(("ISRs", leader, follower) for follower in change.concerned)


def _of_one_by_one(change: Change) -> tuple[Hashable, ...]:
    return (change.state,) if change.by_leader else ()


def _announcement(change: Change) -> tuple[Hashable, ...]:
    if _NOTE.search(change.told.text) is None:
        return ()
    if "create" in change.told.text:
        leader = int(change.told.who[1])
        return ("announced", leader), *(("ISRs", leader, follower) for follower in range(1, 5))
    return ("taken away",)


def _end_of_tool(change: Change) -> tuple[Hashable, ...]:
    ends = change.told.who == "client" and change.told.text.startswith("closeSession []")
    return (("session", change.told.session),) if ends else ()


def _producer_ids(change: Change) -> tuple[Hashable, ...]:
    return (_IDS,) if change.told.paths == (_IDS,) and change.told.text.startswith("setData") else ()


def _kind_of_resource(change: Change) -> tuple[Hashable, ...]:
    found = re.search(r"'?(/kafka-acl(?:-extended/prefixed)?/[A-Z]\w+)'?[ \]]", change.told.text)
    return () if found is None or change.told.who != "client" else (("kind", change.told.session, found[1]),)


def _handled(change: Change) -> tuple[Hashable, ...]:
    told = change.told
    asked = re.search(r"'?(/config/topics|/brokers/topics|/admin/delete_topics)/[^/' ]+[' ]", told.text)
    handled = told.who != "client" and asked is not None and re.search(r"create|NoNode", told.text) is not None
    return (("handled", told.who),) if handled else ()


def _deletion(change: Change) -> tuple[Hashable, ...]:
    deletes = re.search(r"\bdelete /(brokers/topics|config/topics|admin/delete_topics)/", change.told.text)
    return (("deleted", change.told.who),) if deletes and change.told.who != "client" else ()


TABLE: tuple[Row, ...] = (
    Hidden(
        name="drawn topic id",
        why="a tool that works in ZooKeeper makes a topic without an id, and the controller draws one",
        compared="everything but the 22 characters",
        since=(2, 8, 0),
        until=(2, 8, 2),
        path="/brokers/topics/t3",
        text=r'("topic_id":)"[\w-]{22}"',
        instead=r'\1"?"',
    ),
    Hidden(
        name="number of an announcement",
        why="which of two leaders announces its ISR changes first decides the number",
        compared="who announces what, how many there are, and that each is taken away",
        since=(0, 9, 0),
        until=(2, 6, 3),
        text=r"(/isr_change_notification/isr_change_)\d+(.*?)(?: parent's cversion \d+)?$",
        instead=r"\1?\2",
    ),
    Left(
        name="losers of an election",
        why="which other brokers had not yet seen the winner is a race between sessions",
        compared="who won, and all that it wrote",
        leaves=_late_try,
    ),
    Left(
        name="a zombie's ISR",
        why="whether a leader that was stopped looks for late followers before it learns that it leads no more",
        compared="that the state stays as it was",
        since=(0, 8, 2, 2),
        until=(1, 1, 1),
        leaves=_stale_isr,
    ),
    Left(
        name="a session that a tool left",
        why="a tool that never closes a session has it end half a minute later: in which step, is a matter of the pace",
        compared="that it began, and what it did",
        since=(0, 10, 0, 1),
        until=(0, 11, 0, 3),
        leaves=_left_session,
    ),
    Hidden(
        name="who takes an announcement away",
        why="the controller stops while it comes: it, or the next one",
        compared="that it is taken away",
        since=(0, 10, 2, 2),
        until=(0, 10, 2, 2),
        path="/isr_change_notification/.*",
        text=r"^b\d: delete ",
        instead="controller: delete ",
    ),
    Floating(
        name="ISRs by leaders",
        why="leaders change ISRs beside each other and beside the controller, when followers come to fetch",
        compared="the order in which a follower joins the ISRs of each leader, and all that happens to each state",
        since=(0, 8, 1),
        until=(2, 3, 1),
        steps=r"(?!\w+-continue-).*",
        lanes=_isr_change,
    ),
    Floating(
        name="ISRs by leaders of 2.4 to 2.6",
        why="as above",
        compared="as above",
        since=(2, 4, 1),
        until=(2, 6, 3),
        steps=r"(?!\w+-continue-|g5-restart-).*",
        lanes=_isr_change,
    ),
    Floating(
        name="ISRs after a fetch that came too early",
        why="a follower that fetches before its leader knows that it leads is put off, and names its partitions in "
        "another order then",
        compared="all that happens to each state",
        since=(2, 4, 1),
        until=(2, 4, 1),
        steps=r"g5-restart-.*",
        lanes=_of_one_by_one,
    ),
    Floating(
        name="ISRs by leaders that ask",
        why="as above; the controller writes them",
        compared="as above",
        since=(2, 7, 0),
        steps=r"(?!\w+-continue-|g6-).*",
        lanes=_isr_change,
    ),
    Floating(
        name="ISRs of two followers",
        why="a leader that has asked for one follower passes over another until it has its answer",
        compared="all that happens to each state",
        steps=r"g6-restart-.*",
        since=(2, 8, 2),
        until=(2, 8, 2),
        lanes=_of_one_by_one,
    ),
    Floating(
        name="ISRs of 0.8.0",
        why="it begins to follow partitions one at a time while it already fetches others",
        compared="all that happens to each state",
        until=(0, 8, 0),
        lanes=_of_one_by_one,
    ),
    Floating(
        name="ISRs when a broker continues",
        why="a broker that was stopped goes on to fetch what it followed, while its new session is made and the "
        "controller tells it what to follow",
        compared="all that happens to each state",
        since=(0, 8, 2, 2),
        steps=r"\w+-continue-.*",
        lanes=_of_one_by_one,
    ),
    Floating(
        name="announced ISRs",
        why="each leader's timer has its own phase, drawn when it started",
        compared="that it comes after the leader's changes, with their names in order; how many are taken away by whom",
        since=(0, 9, 0),
        until=(2, 6, 3),
        lanes=_announcement,
    ),
    Floating(
        name="end of a tool",
        why="a tool that has asked ends its session while the controller acts",
        compared="that it comes after all that the tool did",
        until=(2, 6, 3),
        lanes=_end_of_tool,
    ),
    Floating(
        name="producer ids at a start",
        why="a broker takes them in a thread of its own, while it takes over and others write",
        compared="the blocks, and the order in which brokers take them",
        since=(0, 11, 0),
        until=(2, 8, 2),
        lanes=_producer_ids,
    ),
    Floating(
        name="kinds of resources",
        why="the tool makes the paths in the order of a set of Java enums, whose hashes are addresses: two runs of one "
        "release differ",
        compared="that all are made, each in each of the tool's sessions",
        since=(3, 9, 1),
        lanes=_kind_of_resource,
    ),
    Hidden(
        name="count of kinds of resources",
        why="as above: which comes when shows in the parent's cversion",
        compared="that all are made",
        since=(3, 9, 1),
        path=r"/kafka-acl(-extended/prefixed)?/[A-Z]\w+",
        text=r"parent's cversion \d+",
        instead="parent's cversion ?",
    ),
    Floating(
        name="request of several topics",
        why="the handler goes on to the next topic while the controller, another thread, has the first",
        compared="what the handler writes, in order, and what the controller writes, in order",
        since=(2, 4, 0),
        lanes=_handled,
    ),
    Floating(
        name="deletion of topics",
        why="the answers of brokers that delete replicas come beside what else they do: fetch, and join ISRs",
        compared="the order of all that is deleted",
        since=(0, 8, 2, 2),
        until=(1, 1, 1),
        lanes=_deletion,
    ),
    InMemory(
        name="leaders' ISRs in 0.8.0",
        why="its controller hears of no leader's ISRs, and goes by what it knew",
        compared="all other steps",
        until=(0, 8, 0),
        starts=frozenset({("0.8.0", "j-restart-broker3"), ("0.8.0", "k-delete-t2")}),
    ),
    InMemory(
        name="what leaders had still to announce",
        why="the story went on before they did",
        compared="everything else",
        since=(0, 9, 0),
        until=(1, 0, 2),
        path="/isr_change_notification",
        field="cversion",
    ),
    Chosen(
        name="who is elected controller",
        why="a race between sessions",
        compared="all that follows",
    ),
    Chosen(
        name="placements, ids, salts, who was asked",
        why="drawn by the broker or the tool that was asked, or by the client",
        compared="all that follows",
    ),
    Chosen(
        name="order of an ACL's entries from 2.8 on, order of topics in one request",
        why="sets of Java objects whose hashes are addresses",
        compared="all that follows",
    ),
    Chosen(
        name="late fetch",
        why="a fetch of a broker that stops was on the way when its leader learnt that it is out of the ISR",
        compared="what the leader writes then",
        until=(2, 6, 3),
    ),
    Chosen(
        name="which of several followers joins an ISR first",
        why="each is in the middle of a long poll of its own",
        compared="what the controller writes then",
    ),
    Chosen(
        name="when leaders look for late followers and announce ISRs, and when fetchers of a broker that started begin",
        why="each leader's timer has its own phase; a machine is fast or slow",
        compared="whom they find late, and what they write",
    ),
    Chosen(
        name="pace",
        why="whether what is under way half a minute later falls into a step was decided by who recorded the story",
        compared="all that falls into it",
    ),
)
