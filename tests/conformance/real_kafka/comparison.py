"""Comparison of the znodes that real brokers left on simzk and on a real ZooKeeper: every field.

What two runs of real brokers never share stands in `CHANCE` and `EXEMPT`, each row with its reason, and in
`_less_the_dead` and `_less_rejoinings`. Who wins an election and where a topic is placed are no chance here: the story
takes them from the recording.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.observation.recording import RecordedZnode


class Chance(NamedTuple):
    """A part of a znode's text that differs from run to run, and what is read in its place."""

    path: re.Pattern[str]
    text: re.Pattern[str]
    instead: str
    why: str


class Exempt(NamedTuple):
    """Fields of a znode that differ from run to run."""

    path: re.Pattern[str]
    fields: frozenset[str]
    why: str


CHANCE = (
    Chance(
        re.compile(r"/brokers/ids/\d|/controller"),
        re.compile(r'"timestamp":"\d+"'),
        '"timestamp":"T"',
        "wall time",
    ),
    Chance(
        re.compile(r"/brokers/ids/\d"),
        re.compile(r'(?<="port":)\d+|(?<=127\.0\.0\.1:)\d+'),
        "PORT",
        "a free port is taken",
    ),
    Chance(re.compile(r"/cluster/id"), re.compile(r'"id":"[\w-]{22}"'), '"id":"ID"', "a random UUID"),
    Chance(
        re.compile(r"/brokers/topics/[^/]+"), re.compile(r'"topic_id":"[\w-]{22}"'), '"topic_id":"ID"', "a random UUID"
    ),
    Chance(
        re.compile(r"/config/users/alice"),
        re.compile(r"salt=[^,]+,stored_key=[^,]+,server_key=[^,]+"),
        "SALTED",
        "a random salt",
    ),
)
EXEMPT = (
    Exempt(
        re.compile(r"/zookeeper(/.*)?"),
        frozenset(("exists", "data", "version", "cversion", "children", "data_length")),
        "the server's own znodes; the recording did not read /zookeeper/config",
    ),
    Exempt(
        re.compile(r"/latest_producer_id_block"),
        frozenset(("data", "version", "data_length")),
        "a producer asks any broker for its id, and another one if that is slow; each takes a block",
    ),
    Exempt(
        re.compile(r"/consumers/g1/offsets/t1/\d"),
        frozenset(("data", "version")),
        "a producer of 0.8 sends to one partition, drawn at random; a consumer commits now and then and as it ends, so "
        "that time decides whether it finds its offset moved once or twice",
    ),
    Exempt(
        re.compile(r"/config/users/alice"),
        frozenset(("data_length",)),
        "a salt is a random number in digits, now and then with fewer of them",
    ),
    Exempt(
        re.compile(r"/isr_change_notification"),
        frozenset(("cversion",)),
        "a leader tells changes every 2.5 s, in one znode or in several, as they happen to fall",
    ),
)
# The recorded run drew the placement of these by itself; here it is given, which orders the keys otherwise.
_PLACED = re.compile(r"/brokers/topics/(t2|t3|__consumer_offsets)")
_STATE = re.compile(r"/brokers/topics/[^/]+/partitions/\d+/state")
_ISR = re.compile(r'(?<="isr":\[)[\d,]*(?=\])')
_EPOCHS = {name: re.compile(rf'(?<="{name}":)\d+') for name in ("leader_epoch", "controller_epoch")}
# Since KIP-841 a replica that shuts down is not let into an ISR.
_NO_REJOINING = (3, 3)


def differences(
    found: Mapping[str, RecordedZnode], recorded: Mapping[str, RecordedZnode], number: tuple[int, ...]
) -> list[str]:
    """Each field in which the two trees differ, less what is chance: path, field, found, recorded.

    Args:
        found: the tree on simzk.
        recorded: the tree on a real ZooKeeper.
        number: the release that wrote both.
    """
    reported = []
    for path in sorted(found.keys() | recorded.keys()):
        exempt = frozenset[str]().union(*(row.fields for row in EXEMPT if row.path.fullmatch(path)))
        ours, theirs = found.get(path), recorded.get(path)
        if ours is None or theirs is None:
            if "exists" not in exempt:
                reported.append(f"{path}: {'absent' if ours is None else 'there'}, and it was not so in the recording")
            continue
        if number < _NO_REJOINING and _STATE.fullmatch(path):
            ours, theirs = _less_the_dead(ours, found), _less_the_dead(theirs, recorded)
            ours = _less_rejoinings(ours, theirs)
        fields = {**ours._asdict(), "data": _masked(path, ours.data)}
        wanted = {**theirs._asdict(), "data": _masked(path, theirs.data)}
        reported.extend(
            f"{path}: {name} is {fields[name]!r}, recorded was {wanted[name]!r}"
            for name in fields.keys() - exempt
            if fields[name] != wanted[name]
        )
    return reported


def _less_the_dead(state: RecordedZnode, tree: Mapping[str, RecordedZnode]) -> RecordedZnode:
    """A state before it let in a replica whose broker was just shutting down, and is gone by now.

    Whether it does is a race; if it does, its leader notices after replica.lag.time.max.ms.
    """
    found = _ISR.search(state.data or "")
    in_sync = [broker for broker in (found[0] if found else "").split(",") if broker]
    live = [broker for broker in in_sync if f"/brokers/ids/{broker}" in tree]
    if len(live) == len(in_sync) or not live:
        return state
    data = _ISR.sub(",".join(live), state.data or "")
    return state._replace(version=state.version - 1, data=data, data_length=len(data))


def _less_rejoinings(ours: RecordedZnode, theirs: RecordedZnode) -> RecordedZnode:
    """Our state without what a replica causes that fetches while it shuts down.

    It is let into the ISR once more, and out again: by the controller with a leader epoch more, or by the leader, which
    may have heard of the next controller by then and writes its epoch.
    """
    more = ours.version - theirs.version
    if more <= 0 or more % 2:
        return ours
    risen = {field: _rise(field, ours, theirs) for field in _EPOCHS}
    if not 0 <= risen["leader_epoch"] <= more // 2 or not 0 <= risen["controller_epoch"] <= 1:
        return ours
    data = ours.data or ""
    for epoch in _EPOCHS.values():
        data = epoch.sub(epoch.findall(theirs.data or "")[0], data)
    return ours._replace(version=theirs.version, data=data, data_length=len(data))


def _rise(field: str, ours: RecordedZnode, theirs: RecordedZnode) -> int:
    """By how much an epoch is higher here; -1 where it is not there to be compared."""
    here, recorded = (_EPOCHS[field].search(state.data or "") for state in (ours, theirs))
    return -1 if here is None or recorded is None else int(here[0]) - int(recorded[0])


def _masked(path: str, data: str | None) -> object:
    if data is None:
        return None
    for row in CHANCE:
        if row.path.fullmatch(path):
            data = row.text.sub(row.instead, data)
    return json.loads(data) if _PLACED.fullmatch(path) else data
