"""Known differences between the recorded story and the same story at simulated brokers, with their reasons.

A row explains places in exchanges by step, API and path; an exchange is explained if rows explain all its places. Rows
do not say how often: most of them are about moments, and another run differs in other exchanges.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.conformance.wire_story_comparison import Difference, Place


class Cause(Enum):
    """Why an exchange differs."""

    ASKED_OTHERWISE = "the program asked something else when it recorded this release, or what follows from that"
    MARKERS = (
        "the moment at which the markers of a transaction are written: real brokers need longer than the program until "
        "its next request, and so complete the transaction later"
    )
    WATERMARK = "a follower learns of a high watermark with its next fetch, up to 200 ms later"
    ELECTION = (
        "a follower that fetches from a new leader before this has heard of its election fetches again a second later; "
        "until then the high watermark stays. Recorded brokers do so as often, in other steps"
    )
    FIRST_IDS = "a real broker has no producer ids until the controller has given it a block"
    TWO_REQUESTS = "which of two requests on two connections is served first"
    ANSWERED_AND_CLOSED = "a real broker answers and closes the connection; which of the two a client sees first"
    CREATION = "how long a topic is created"
    DELETION = "how long a topic is deleted"
    LOADED_GROUP = (
        "the simulated coordinator has read its log after the last update that names a topic to be deleted, which the "
        "recorded one heard after that"
    )
    NEXT_CONTROLLER = "which broker became the next controller"
    SAME_LEADER = "the moment of a preferred election that does not change the leader"
    SHRUNK_ISR = (
        "whether a follower had fetched from a new leader before it was killed. If not, the leader removed it from the "
        "ISR after 3 s; else only the controller did when the session ended, which raises the leader epoch (KAFKA-7152)"
    )
    BRIEF_WATCH = "the recording went on when some partitions had no leader yet"
    TIMED_OUT = "a commit timed out at the recorded broker, which was busy"
    BROKEN_GROUP = "up to 0.11 a client without protocols breaks its group; the simulated group rejects it"
    UNDECODABLE = "0.9.0.1 answers a Fetch of an unknown broker in another version"
    ISR_UNTOLD = "0.8.2 tells no broker that an ISR has grown: the recorded elections began too early and moved nobody"


class Row(NamedTuple):
    """Places that differ for a cause.

    Args:
        step, api, path: regular expressions of the whole text; a path has names and numbers of what a collection has.
        releases: of the recording; empty for all.
    """

    cause: Cause
    step: str
    api: str
    path: str = ".*"
    releases: tuple[str, ...] = ()


LONG_NAME = ("0.10.2.2", "0.11.0.3", "2.4.1", "2.8.2", "3.4.1")
"""Recordings in which a topic with a name of 249 characters was created."""
NOT_WHOLE = ("2.4.1", "2.8.2")
"""Recordings in which the ISRs were not whole before each failure."""
BROKEN_GROUPS = ("0.9.0.1", "0.10.2.2", "0.11.0.3")
BRIEF = ("0.8.2.2", "0.9.0.1", "2.4.1")
"""Recordings that stopped watching too early when the controller was killed."""
_FAILURES = (
    "(before|just killed|down|back|elected|reassigning|reassigned|partitions added|stopped|back from stop"
    "|controller killed|controller back)"
)
ROWS = (
    Row(Cause.FIRST_IDS, "init-producer-id: none|denied: idempotent: init-producer-id", "InitProducerId"),
    Row(Cause.MARKERS, "transaction, version .*", "InitProducerId|EndTxn|ListTransactions"),
    Row(Cause.MARKERS, "transaction, version .*", "Fetch|OffsetFetch", releases=("3.4.1",)),
    Row(Cause.MARKERS, "transactions: not the coordinator|list-transactions: filters", "ListTransactions"),
    Row(Cause.MARKERS, "init-producer-id: with producer id and epoch", "InitProducerId", r".*\.ProducerEpoch"),
    Row(Cause.MARKERS, "describe-log-dirs: all", "DescribeLogDirs", r".*__transaction_state.*\.PartitionSize"),
    Row(
        Cause.WATERMARK,
        f"fetch: (not the leader|max bytes 100|several partitions)|{_FAILURES}: fetch",
        "Fetch",
        r".*\.(HighWatermark|LastStableOffset|Records\.batches)",
    ),
    Row(Cause.ELECTION, "(down|elected|stopped): produce", "Produce", r".*\.ErrorCode"),
    Row(
        Cause.ELECTION,
        "(down|elected|stopped): list-offsets",
        "ListOffsets",
        r".*\.(ErrorCode|Offset|LeaderEpoch|OldStyleOffsets(\[\d\])?)",
    ),
    Row(Cause.ELECTION, "(down|elected|stopped): describe", "DescribeLogDirs", r".*\.PartitionSize"),
    Row(Cause.TWO_REQUESTS, "fetch: waits for data", "Fetch"),
    Row(Cause.ANSWERED_AND_CLOSED, "produce: records null", "Produce", releases=("2.8.2", "3.4.1")),
    Row(Cause.CREATION, "denied: create: (auto|create-topics)", "Metadata|CreateTopics"),
    Row(Cause.CREATION, "create-topics: what came of it", "Metadata", r".*\[ct\d-[a-z0-9]+\]"),
    Row(Cause.DELETION, "topic deleted: created again .*", "CreateTopics"),
    Row(Cause.DELETION, "topic deleted: asked of all", "ListOffsets", r".*\.(ErrorCode|Offset)"),
    Row(Cause.NEXT_CONTROLLER, "controller (killed|back): metadata", "Metadata|DescribeCluster", r".*\.ControllerId"),
    Row(Cause.NEXT_CONTROLLER, "controller (killed|back): describe", "ListPartitionReassignments", r".*\.ErrorCode"),
    Row(Cause.LOADED_GROUP, "(down|back): describe", "DescribeGroups", r".*\[g-v0\].*", ("0.10.2.2",)),
    Row(
        Cause.SAME_LEADER,
        "before: list-offsets",
        "OffsetForLeaderEpoch",
        r".*\.(EndOffset|LeaderEpoch)",
        ("0.11.0.3", "1.1.1", "2.0.1"),
    ),
    Row(
        Cause.SHRUNK_ISR,
        "controller (killed|back): metadata",
        "Metadata",
        r".*\[__consumer_offsets\]\.Partitions\[1\]\.LeaderEpoch",
        ("2.4.1",),
    ),
    Row(Cause.TIMED_OUT, "offset-commit: simple", "OffsetCommit", r".*\.ErrorCode", ("2.4.1",)),
    Row(Cause.TIMED_OUT, "offset-fetch: (simple|all topics)", "OffsetFetch", r".*\.CommittedOffset", ("2.4.1",)),
    Row(Cause.ASKED_OTHERWISE, "create-topics: illegal name 'xxxxxx'", "CreateTopics", releases=LONG_NAME),
    Row(Cause.ASKED_OTHERWISE, "create-topics: what came of it", "Metadata", r".*\[x{249}\]", LONG_NAME),
    Row(Cause.ASKED_OTHERWISE, "(elect-leaders .needed.: .*|preferred election)", "ElectLeaders", releases=NOT_WHOLE),
    Row(Cause.ASKED_OTHERWISE, "elected: describe", "Produce", releases=NOT_WHOLE),
    Row(Cause.BRIEF_WATCH, "controller killed: .*", ".*", releases=BRIEF),
    Row(Cause.BROKEN_GROUP, "join-group: no protocols|list-groups: all", "JoinGroup|ListGroups", ".*", BROKEN_GROUPS),
    Row(Cause.BROKEN_GROUP, "join-group: unknown member of no group", "JoinGroup", ".*", BROKEN_GROUPS),
    Row(Cause.UNDECODABLE, "fetch: as broker 9", "Fetch", releases=("0.9.0.1",)),
    Row(Cause.ISR_UNTOLD, "(elected|preferred|controller killed|controller back).*", ".*", releases=("0.8.2.2",)),
)
ENDS = {
    **dict.fromkeys(((release, "watch controller killed") for release in BRIEF), Cause.BRIEF_WATCH),
    **dict.fromkeys((("0.8.2.2", step) for step in ("watch back", "watch preferred")), Cause.ISR_UNTOLD),
}
"""Waits that may end with other metadata, by release and step."""
WITHOUT_IDENTITY = "request"


def cause_of(release: str, difference: Difference) -> Cause | None:
    """Return why an exchange differs; None if it is not known."""
    step, _, api, _, _ = difference.key
    found = [_cause_of_place(release, step, api, path) for path, _, _ in difference.places]
    if None not in found:
        return found[0]
    if difference.places[0][0].startswith(WITHOUT_IDENTITY):
        return Cause.ASKED_OTHERWISE
    return None


def unexplained(release: str, difference: Difference) -> list[Place]:
    """Return the places of an exchange that no row explains."""
    step, _, api, _, _ = difference.key
    return [place for place in difference.places if _cause_of_place(release, step, api, place[0]) is None]


def _cause_of_place(release: str, step: str, api: str, path: str) -> Cause | None:
    texts = step, api, path
    for row in ROWS:
        patterns = row.step, row.api, row.path
        if (not row.releases or release in row.releases) and all(map(re.fullmatch, patterns, texts)):
            return row.cause
    return None
