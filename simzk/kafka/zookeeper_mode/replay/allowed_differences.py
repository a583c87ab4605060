"""The differences that a replay allows between a simulated and a recorded run, in one table.

A row names what depends on timing between processes, why, and what is still compared. Its kinds:
  - `Masked`: a text that no two real runs share; the rest of the transaction is compared;
  - `Ignored`: transactions that one run has and another has not;
  - `Unordered`: transactions whose place among the others is a race: each of their lanes is in order, and the others
    are in order without them;
  - `Input`: chance that is no difference, because the replay reads it from the recording.

A row is selected by release, by what was done in a step, and by what its transactions show. A row that no recording
needs would hide a mistake: the tests leave each out, and some recording must then differ.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.replay.transactions import CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from simzk.kafka.zookeeper_mode.replay.transactions import ComparableTransaction

Number = tuple[int, ...]
FIRST, LAST = (0, 8, 0), (3, 9, 1)


def line(number: Number) -> Number:
    """Return the line of a release: rows hold for whole lines.

    >>> line((2, 4, 1)), line((0, 10, 2, 2))
    ((2, 4), (0, 10, 2))
    """
    return number[: 2 if number[0] else 3]


@dataclass(frozen=True)
class StepContext:
    """What rows of the table see of a step: what was done and recorded, never its name.

    Attributes:
        actions: kinds of its actions, such as `resume`.
        early_fetches: pairs of a leader that starts in the step, and a follower that fetched before it led.
    """

    actions: frozenset[str] = frozenset()
    early_fetches: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class AllowedDifference:
    """One allowed difference.

    Attributes:
        name: its name.
        why: the reason why it cannot be equal.
        compared: what is still compared.
        releases: first and last release.
        recorded: first and last recorded release that shows it, where more of the releases have it by their source.
        actions: the row holds in steps with one of these actions only; in all if empty.
        without: the row does not hold in steps with this action.
    """

    name: str
    why: str
    compared: str
    _: KW_ONLY
    releases: tuple[Number, Number] = (FIRST, LAST)
    recorded: tuple[Number, Number] | None = None
    actions: tuple[str, ...] = ()
    without: str = ""

    def holds(self, number: Number, step: StepContext) -> bool:
        """Return whether the row holds in a step of a release."""
        is_selected = not self.actions or not step.actions.isdisjoint(self.actions)
        is_selected = is_selected and self.without not in step.actions
        first, last = self.releases
        return is_selected and line(first) <= line(number) <= line(last)


def held(table: Iterable[AllowedDifference], number: Number, step: StepContext) -> list[AllowedDifference]:
    """Return the rows of a table that hold in a step of a release."""
    return [row for row in table if row.holds(number, step)]


@dataclass(frozen=True, kw_only=True)
class Masked(AllowedDifference):
    """A text in transactions that is replaced by `instead` on both sides, where `path` fits."""

    path: str = ".*"
    text: str
    instead: str


@dataclass(frozen=True, kw_only=True)
class Ignored(AllowedDifference):
    """Transactions that are ignored on both sides."""

    ignores: Callable[[ComparableTransaction], bool]


@dataclass(frozen=True, kw_only=True)
class Unordered(AllowedDifference):
    """Transactions without a place of their own.

    Attributes:
        lanes: returns the lanes of a transaction, none for all that the row is not about.
        instead_of: name of a row whose lanes do not count for the transactions of this one.
        text: what depends on the place, in the transactions of the row, after a group; `?` replaces it on both sides.
    """

    lanes: Callable[[LaneChange], tuple[Hashable, ...]]
    instead_of: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Input(AllowedDifference):
    """Chance that the replay reads from the recording."""


@dataclass(frozen=True)
class LaneChange:
    """A transaction with what decides about its lanes.

    Attributes:
        transaction: the transaction.
        state: path of the partition state that a setData writes; None for any other.
        leader: the leader in it.
        by_leader: whether the leader epoch stays the same: the leader changed the ISR.
        moved: brokers that join or leave the ISR.
        is_early: whether one of them fetched before its leader led.
        joined_before: number of followers that joined the ISR before, in the step and with this leader epoch.
        brokers: all brokers of the cluster.
    """

    transaction: ComparableTransaction
    state: str | None = None
    leader: int = -1
    by_leader: bool = False
    moved: tuple[int, ...] = ()
    is_early: bool = False
    joined_before: int = 0
    brokers: tuple[int, ...] = ()


_ANNOUNCEMENT = re.compile(r"(/isr_change_notification/isr_change_)\d+")
_REQUEST_PATH = re.compile(r"/admin/(?:reassign_partitions|preferred_replica_election)|/brokers/topics/[^/]+")
_CONFIG_CHANGE = re.compile(r"create /config/changes/")
_FAILED_CONFIG = re.compile(r"multi \[check /controller version \d+; error ")
_REFUSED_CREATE = re.compile(r"error NodeExists \[None, 'P', 'create', '/(?!controller')")
_PRODUCER_IDS = "/latest_producer_id_block"
_ACL_KIND = re.compile(r"'?(/kafka-acl(?:-extended/prefixed)?/[A-Z]\w+)'?[ \]]")
_TOPIC_REQUEST = re.compile(r"'?(/config/topics|/brokers/topics|/admin/delete_topics)/[^/' ]+[' ]")
_TOPIC_DELETION = re.compile(r"\bdelete /(brokers/topics|config/topics|admin/delete_topics)/")


def _isr_change(change: LaneChange) -> tuple[Hashable, ...]:
    joins = (("ISRs", change.leader, follower) for follower in change.moved)
    return (change.state, *joins) if change.by_leader else ()


def _state_alone(change: LaneChange) -> tuple[Hashable, ...]:
    return (change.state,) if change.by_leader else ()


def _early_join(change: LaneChange) -> tuple[Hashable, ...]:
    return _state_alone(change) if change.is_early else ()


def _further_join(change: LaneChange) -> tuple[Hashable, ...]:
    joins = (("ISRs", change.leader, follower, change.joined_before) for follower in change.moved)
    return (change.state, *joins) if change.by_leader and change.joined_before else ()


def _announcement(change: LaneChange) -> tuple[Hashable, ...]:
    if _ANNOUNCEMENT.search(change.transaction.text) is None:
        return ()
    if "create" in change.transaction.text:
        leader = change.transaction.broker
        return ("announced", leader), *(("ISRs", leader, follower) for follower in change.brokers)
    return ("deleted announcements",)


def _end_of_tool(change: LaneChange) -> tuple[Hashable, ...]:
    ends = change.transaction.who == CLIENT and change.transaction.text.startswith("closeSession []")
    return (("session", change.transaction.session),) if ends else ()


def _producer_ids(change: LaneChange) -> tuple[Hashable, ...]:
    is_block = change.transaction.paths == (_PRODUCER_IDS,) and change.transaction.text.startswith("setData")
    return (_PRODUCER_IDS,) if is_block else ()


def _acl_kind(change: LaneChange) -> tuple[Hashable, ...]:
    found = _ACL_KIND.search(change.transaction.text)
    is_tool = change.transaction.who == CLIENT
    return () if found is None or not is_tool else (("kind", change.transaction.session, found[1]),)


def _topic_request(change: LaneChange) -> tuple[Hashable, ...]:
    transaction = change.transaction
    is_request = _TOPIC_REQUEST.search(transaction.text) is not None and re.search(r"create|NoNode", transaction.text)
    return (("topics", transaction.who),) if is_request and transaction.who != CLIENT else ()


def _topic_deletion(change: LaneChange) -> tuple[Hashable, ...]:
    deletes = _TOPIC_DELETION.search(change.transaction.text)
    return (("deleted topics", change.transaction.who),) if deletes and change.transaction.who != CLIENT else ()


def _own_configuration(change: LaneChange) -> tuple[Hashable, ...]:
    transaction = change.transaction
    is_configuration = "/config/" in transaction.text or _FAILED_CONFIG.match(transaction.text) is not None
    if transaction.broker is None or not is_configuration:
        return ()
    is_change = _CONFIG_CHANGE.match(transaction.text) is not None
    return (("configuration", transaction.who), *((("configuration changes",),) if is_change else ()))


def _start_up(change: LaneChange) -> tuple[Hashable, ...]:
    transaction = change.transaction
    is_refused = transaction.broker is not None and _REFUSED_CREATE.match(transaction.text) is not None
    return (("start", transaction.who),) if is_refused else ()


def _by_former_controller(change: LaneChange) -> tuple[Hashable, ...]:
    is_request = any(_REQUEST_PATH.fullmatch(path) for path in change.transaction.paths)
    return (("writer", change.transaction.who),) if is_request and change.transaction.who != CLIENT else ()


TABLE: tuple[AllowedDifference, ...] = (
    Masked(
        name="sequence number of an announced ISR change",
        why="the number depends on which of two leaders announces its ISR changes first",
        compared="who announces what, how many announcements there are, and that each is deleted",
        releases=((0, 9, 0), (2, 6, 3)),
        text=r"(/isr_change_notification/isr_change_)\d+(.*?)(?: parent's cversion \d+)?$",
        instead=r"\1?\2",
    ),
    Ignored(
        name="lost elections",
        why="which other brokers had not yet seen the winner is a race between sessions",
        compared="who won, and everything that it wrote",
        ignores=lambda one: one.who != CLIENT and "error NodeExists" in one.text and "'/controller'" in one.text,
    ),
    Ignored(
        name="ISR of a leader that was fenced while it was paused",
        why="a paused leader may check for lagging followers before it learns that it is no longer the leader",
        compared="that the state does not change",
        releases=((0, 8, 2, 2), (1, 1, 1)),
        ignores=lambda one: one.text.startswith("error BadVersion") and paths.state_partition(one.paths[0]) is not None,
    ),
    Ignored(
        name="expired session of a tool",
        why="a tool that never closes a session lets it expire half a minute later, in a step that depends on the pace",
        compared="that the session began, and what it wrote",
        releases=((0, 10, 0, 1), (0, 11, 0, 3)),
        ignores=lambda one: one.who == CLIENT and one.session < 0 and one.text.startswith("closeSession []"),
    ),
    Masked(
        name="controller that deletes an announcement",
        why="the controller shuts down while the announcement is created: either it or the next one deletes it",
        compared="that it is deleted",
        releases=((0, 10, 2, 2), (0, 10, 2, 2)),
        path="/isr_change_notification/.*",
        text=r"^b\d+: (delete|error NoNode) ",
        instead=r"controller: \1 ",
    ),
    Unordered(
        name="ISRs written by leaders",
        why="leaders write ISRs concurrently with each other and with the controller, when followers fetch",
        compared="the order in which a follower joins the ISRs of each leader, and the order of changes of each state",
        releases=((0, 8, 1), (2, 6, 3)),
        without="resume",
        lanes=_isr_change,
    ),
    Unordered(
        name="ISRs of a restarted leader after a fetch that came too early",
        why="the restarted leader was slow: its follower fetched before it led, backed off, and then listed its "
        "partitions in the order of a mutable set",
        compared="the order of changes of each state; the joins of other followers and at other leaders as always",
        releases=((0, 10, 2, 2), (2, 6, 3)),
        recorded=((0, 10, 2, 2), (2, 4, 1)),
        without="resume",
        instead_of="ISRs written by leaders",
        lanes=_early_join,
    ),
    Unordered(
        name="ISRs proposed to the controller",
        why="leaders propose ISRs concurrently, when followers fetch; the controller writes them",
        compared="the order in which a follower joins the ISRs of each leader, and the order of changes of each state",
        releases=((2, 7, 0), LAST),
        without="resume",
        lanes=_isr_change,
    ),
    Unordered(
        name="ISRs of a further follower",
        why="a leader that waits for the answer about one follower skips another one, which joins at its next fetch; "
        "it does not wait where it is the first one",
        compared="the order in which a follower is the n-th to join the ISRs of a leader",
        releases=((2, 7, 0), LAST),
        recorded=(LAST, LAST),
        without="resume",
        instead_of="ISRs proposed to the controller",
        lanes=_further_join,
    ),
    Unordered(
        name="ISRs of 0.8.0",
        why="a follower starts to follow its partitions one at a time while it already fetches others",
        compared="the order of changes of each state",
        releases=(FIRST, (0, 8, 0)),
        lanes=_state_alone,
    ),
    Unordered(
        name="ISRs after a pause",
        why="a resumed broker fetches what it followed before, while it opens a new session and the controller sends "
        "new leaders",
        compared="the order of changes of each state",
        releases=((0, 8, 2, 2), LAST),
        actions=("resume",),
        lanes=_state_alone,
    ),
    Unordered(
        name="announced ISR changes",
        why="the timer of each leader has its own phase, drawn when it started",
        compared="that an announcement follows the leader's changes, with their names in order; how many each deletes",
        releases=((0, 9, 0), (2, 6, 3)),
        lanes=_announcement,
    ),
    Unordered(
        name="requests that a former controller handles too",
        why="two controllers of 0.8.0 handle each request by znode at the same time, in two processes",
        compared="all writes of each controller, in order",
        releases=(FIRST, (0, 8, 0)),
        lanes=_by_former_controller,
    ),
    Masked(
        name="version of a request that a former controller rewrites too",
        why="it counts the writes of the other controller so far",
        compared="the data, and the version in the tree",
        releases=(FIRST, (0, 8, 0)),
        path=_REQUEST_PATH.pattern,
        text=r"version -1 -> \d+$",
        instead="version -1 -> ?",
    ),
    Unordered(
        name="end of a tool",
        why="a tool closes its session while the controller processes its request",
        compared="that it follows everything that the tool did",
        releases=(FIRST, (2, 6, 3)),
        lanes=_end_of_tool,
    ),
    Unordered(
        name="producer ids of a starting broker",
        why="a thread of its own allocates them, while the broker becomes controller and others write",
        compared="the blocks, and the order in which brokers allocate them",
        releases=((0, 11, 0), (2, 8, 2)),
        lanes=_producer_ids,
    ),
    Unordered(
        name="start of a broker while its old session expires",
        why="the starting broker finds the paths of all brokers while the controller handles its failure",
        compared="which paths it tries to create, in order",
        releases=((1, 1, 1), (1, 1, 1)),
        actions=("kill",),
        lanes=_start_up,
    ),
    Unordered(
        name="configurations of brokers",
        why="the tool asks all brokers at once, and each sets or clears its throttle in its own configuration",
        compared="what each broker writes, in order, and the order in which the changes are announced",
        releases=((2, 6, 0), LAST),
        recorded=((2, 8, 2), (2, 8, 2)),
        actions=("reassign", "cancel_reassignment"),
        lanes=_own_configuration,
        text=r"( create /config/brokers/\d+ .* parent's cversion )\d+$",
    ),
    Unordered(
        name="kinds of ACL resources",
        why="the tool creates the paths in the order of a set of Java enums, whose hash codes are addresses: two runs "
        "of one release differ",
        compared="that all are created, each in each of the tool's sessions",
        releases=((3, 9, 1), LAST),
        lanes=_acl_kind,
    ),
    Masked(
        name="parent's cversion of kinds of ACL resources",
        why="it shows the order of a set of Java enums, whose hash codes are addresses",
        compared="that all are created",
        releases=((3, 9, 1), LAST),
        path=r"/kafka-acl(-extended/prefixed)?/[A-Z]\w+",
        text=r"parent's cversion \d+",
        instead="parent's cversion ?",
    ),
    Unordered(
        name="request with several topics",
        why="the request handler continues with the next topic while the controller processes the first",
        compared="what the request handler writes, in order, and what the controller writes, in order",
        releases=((2, 4, 0), LAST),
        lanes=_topic_request,
    ),
    Unordered(
        name="deletion of topics",
        why="brokers answer that replicas are deleted while they also fetch and join ISRs",
        compared="the order of all deletions",
        releases=((0, 8, 2, 2), (1, 1, 1)),
        lanes=_topic_deletion,
    ),
    Input("winner of a controller election", "a race between sessions", "everything that follows"),
    Input(
        "placements, ids, salts, and the broker that serves a request",
        "drawn by the broker or the tool that serves the request, by the controller, or by the client",
        "everything that follows",
    ),
    Input(
        "order of an ACL's entries from 2.8 on, order of topics in one request",
        "sets of Java objects whose hash codes are addresses",
        "everything that follows",
    ),
    Input(
        "late fetch of a broker that shuts down",
        "the fetch was on its way when the leader learned that the broker is out of the ISR",
        "what the leader writes then",
        releases=(FIRST, (2, 6, 3)),
    ),
    Input(
        "which of several followers joins an ISR first",
        "each waits in a long poll of its own",
        "what the controller writes then",
    ),
    Input(
        "change of an ISR in the ms in which its leader announces others",
        "one thread writes and then notes the change, another one announces",
        "all announcements, and that the change is in the next one",
        releases=((0, 9, 0), (2, 6, 3)),
    ),
    Input("session expiry", "it depends on the last heartbeat before the process stopped", "everything that follows"),
    Input(
        "end of a broker that does not come up",
        "its parts shut down at their own pace, or its machine ends the process",
        "what it wrote until then, and everything that follows",
    ),
    Input(
        "timers of ISRs, first fetch of a started broker, reconnection, registration and answer of a resumed one",
        "each timer has its own phase; a machine is fast or slow",
        "which followers lag, and what is written then",
    ),
    Input("pace", "the recorder decided which step a change belongs to that comes half a minute later", "every change"),
)
