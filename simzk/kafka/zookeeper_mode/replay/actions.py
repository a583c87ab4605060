"""Actions of a recorded step: what was done to the real cluster, and when.

`meta.json` lists the actions of a step in `acts`; `do` is the kind, and `at` the wall time in s. `commands` understands
recordings without `acts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct

from simzk.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.metadata.entities import AclEntry

_OF_BROKERS = ("start", "pause", "resume", "kill", "shutdown")
_FIELDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_BROKERS, ("broker",)),
    "write": ("path", "text"),
    "delete_znode": ("path",),
    "create_topic": ("topic",),
    "add_partitions": ("topic", "total"),
    "delete_topic": ("topic",),
    "reassign": ("moves",),
    "cancel_reassignment": ("moves",),
    "elect": (),
    "alter_config": ("entity", "set"),
    "produce": ("topic", "partition"),
    "consume": ("topic",),
}
"""Kinds of actions, with the fields that each needs."""
_THROTTLE, _PRESERVE = "--throttle", "--preserve-throttles"
_OPTIONS: dict[str, tuple[str, ...]] = {
    "reassign": (_THROTTLE, "--additional", "--timeout"),
    "cancel_reassignment": (_PRESERVE, "--timeout"),
}
"""Options of Kafka's tools that a recorded action may have; the others would have to be simulated."""
_ELECTIONS = ("preferred", "unclean")
_BY_TOOLS = frozenset(_FIELDS) - {*_OF_BROKERS, "write", "delete_znode", "produce"}
_GAVE_UP = (
    "TimeoutException",
    "is not a recognized option",
    "can't be used with option",
    "because there is an existing partition assignment",
)
_NOTES = ("exited", "signalled", "gone", "up")
"""Notes of the recorder about the end of an action."""


class ToolCommand(Struct):
    """Command of Kafka's tools that the recorder ran."""

    cmd: str
    rc: int | str = 0
    out: str = ""

    @property
    def gave_up(self) -> bool:
        """Whether the tool did nothing: nobody answered, it does not have an option, or another one was at work."""
        return self.rc != 0 and any(reason in self.out for reason in _GAVE_UP)


class ActionRecord(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of `acts` in meta.json."""

    do: str
    at: float | None = None
    broker: int | None = None
    path: str | None = None
    text: str | None = None
    topic: str | None = None
    partition: int | None = None
    total: int | None = None
    assignment: list[list[int]] | None = None
    config: dict[str, str] = {}
    moves: list[tuple[str, int, list[int] | None]] | None = None
    options: list[str] = []
    election: str = "preferred"
    partitions: list[tuple[str, int]] | None = None
    entity: str | None = None
    set: dict[str, str | None] | None = None
    records: int = 1


@dataclass(frozen=True)
class ReplayAction:
    """One action.

    Attributes:
        kind: such as `start` or `create_topic`.
        at_ms: when it began, in ms since the first transaction of the log.
        broker: the broker, for what is done to a broker.
        path, text: the znode and its data.
        topic, partition, total, assignment, config: a topic: partition number, number of partitions, brokers of each
            partition, configuration.
        moves: topic, partition and brokers of each partition that moves; None for brokers cancels, by the admin client.
        throttle: replication quota of a reassignment in bytes per second.
        preserves_throttles: whether a cancelled reassignment keeps its throttles.
        election, partitions: kind of election; the partitions as (topic, partition), None for all.
        entity, changes: path below /config, and new values by key, None to remove a key.
        records: number of records to produce.
        entries, prefixed: ACLs that are added or removed, None for all; whether `text` is a prefix of resources.
        password: of a user whose credential is added.
        gave_up: whether the tool failed (`ToolCommand.gave_up`).
    """

    kind: str
    at_ms: int
    broker: int | None = None
    path: str = ""
    text: str = ""
    topic: str = ""
    partition: int = 0
    total: int = 0
    assignment: tuple[tuple[int, ...], ...] | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    moves: tuple[tuple[str, int, tuple[int, ...] | None], ...] = ()
    throttle: int | None = None
    preserves_throttles: bool = False
    election: str = "preferred"
    partitions: tuple[tuple[str, int], ...] | None = None
    entity: str = ""
    changes: Mapping[str, str | None] = field(default_factory=dict)
    records: int = 1
    entries: tuple[AclEntry, ...] | None = None
    prefixed: bool = False
    password: str = ""
    gave_up: bool = False


def actions_of_step(
    where: str, records: Sequence[ActionRecord], tools: Sequence[ToolCommand], begins_ms: int, clock_ms: float
) -> tuple[ReplayAction, ...]:
    """Return the actions of a step with `acts`.

    Args:
        where: file and step, for errors.
        records: the entries of `acts`.
        tools: commands of Kafka's tools that the recorder ran.
        begins_ms: when the step began, in ms since the first transaction.
        clock_ms: wall time of the first transaction, in ms.

    Raises:
        RecordingError: an action is unknown or lacks a field.
    """
    actions = [
        _action(f"{where}: acts[{index}]", record, begins_ms, clock_ms)
        for index, record in enumerate(records)
        if record.do not in _NOTES
    ]
    by_tools = [action for action in actions if action.kind in _BY_TOOLS]
    if len(by_tools) != len(tools):  # some actions were not done with Kafka's tools
        return tuple(actions)
    idle = [action for action, tool in zip(by_tools, tools, strict=True) if tool.gave_up]
    return tuple(replace(action, gave_up=action in idle) for action in actions)


def _action(where: str, record: ActionRecord, begins_ms: int, clock_ms: float) -> ReplayAction:
    if (needed := _FIELDS.get(record.do)) is None:
        raise RecordingError(f"{record.do!r} is no action", where=f"{where}.do", right=f"one of {', '.join(_FIELDS)}")
    for name in needed:
        if getattr(record, name) is None:
            right = f"the fields {', '.join(needed)}"
            raise RecordingError(f"the action {record.do} has no {name}", where=where, right=right)
    at_ms = begins_ms if record.at is None else round(record.at * 1000 - clock_ms)
    allowed = _OPTIONS.get(record.do, ())
    if unknown := [word for word in record.options if word.startswith("--") and word not in allowed]:
        right = f"some of {', '.join(allowed)}" if allowed else "no options"
        raise RecordingError(
            f"the option {unknown[0]} of {record.do} is unknown", where=f"{where}.options", right=right
        )
    if record.path is not None and not record.path.startswith("/"):
        raise RecordingError(f"{record.path!r} is no path", where=f"{where}.path", right="a path that begins with /")
    throttle = option(record.options, _THROTTLE)
    if _THROTTLE in record.options and (throttle is None or not throttle.isdigit()):
        raise RecordingError(
            f"{_THROTTLE} is {throttle or 'empty'}", where=f"{where}.options", right="bytes per second"
        )
    if record.election not in _ELECTIONS:
        right = " or ".join(_ELECTIONS)
        raise RecordingError(f"{record.election!r} is no election", where=f"{where}.election", right=right)
    if record.do == "cancel_reassignment" and any(ids is None for _, _, ids in record.moves or ()):
        what = "cancel_reassignment is Kafka's tool, whose plan names brokers"
        raise RecordingError(what, where=f"{where}.moves", right="reassign, for the admin client")
    return ReplayAction(
        record.do,
        at_ms,
        broker=record.broker,
        path=record.path or "",
        text=record.text or "",
        topic=record.topic or "",
        partition=record.partition or 0,
        total=record.total or 0,
        assignment=None if record.assignment is None else tuple(tuple(ids) for ids in record.assignment),
        config=record.config,
        moves=tuple(
            (topic, partition, None if ids is None else tuple(ids)) for topic, partition, ids in record.moves or ()
        ),
        throttle=None if throttle is None else int(throttle),
        preserves_throttles=_PRESERVE in record.options,
        election=record.election,
        partitions=None if record.partitions is None else tuple(record.partitions),
        entity=record.entity or "",
        changes=record.set or {},
        records=record.records,
    )


def option(words: Sequence[str], name: str) -> str | None:
    """Return the value of an option, or None; a name with spaces is written in several words.

    >>> option(["--entity-name", "c", "1", "--alter"], "--entity-name")
    'c 1'
    """
    if name not in words:
        return None
    value = takewhile(lambda word: not word.startswith("--"), words[words.index(name) + 1 :])
    return " ".join(value) or None
