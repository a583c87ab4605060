"""Actions of a recorded step: what was done to the real cluster, and when.

`meta.json` lists the actions of a step in `acts`; `do` is the kind, and `at` the wall time in s. Without `acts` the
name of the step says what was done to a broker, and the commands of Kafka's tools say the rest.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msgspec import Struct

from simzk.errors import RecordingError
from simzk.kafka.replay.allowed_differences import StepContext

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FIELDS: dict[str, tuple[str, ...]] = {
    "start": ("broker",),
    "pause": ("broker",),
    "resume": ("broker",),
    "kill": ("broker",),
    "shutdown": ("broker",),
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
}
"""Kinds of actions, with the fields that each needs."""
_BY_TOOLS = frozenset(_FIELDS) - {"start", "pause", "resume", "kill", "shutdown", "write", "delete_znode", "produce"}
_TIMEOUT = "TimeoutException"
_NOTES = ("exited", "signalled", "gone", "up")
"""Notes of the recorder about the end of an action."""
_BROKER_STEPS = {
    "boot": "start",
    "restart": "start",
    "start": "start",
    "stop": "pause",
    "pause": "pause",
    "continue": "resume",
    "resume": "resume",
    "kill9": "kill",
    "kill": "kill",
    "sigterm": "shutdown",
}
_BROKER_STEP = re.compile(rf"(?:[a-z]\w*-)?({'|'.join(_BROKER_STEPS)})\b[\w-]*?-(?:broker)?(\d+)")
_EMPTY_STEP = re.compile(r".*\bempty\b.*")
_ENTITY = {"topics": "topics", "clients": "clients", "users": "users", "brokers": "brokers", "ips": "ips"}


class ToolCommand(Struct):
    """Command of Kafka's tools that the recorder ran."""

    cmd: str
    rc: int | str = 0
    out: str = ""

    @property
    def timed_out(self) -> bool:
        """Whether the tool gave up because nobody answered it."""
        return self.rc != 0 and _TIMEOUT in self.out


class ActionRecord(Struct, omit_defaults=True):
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
    moves: list[tuple[str, int, list[int]]] | None = None
    options: list[str] = []
    election: str = "preferred"
    partitions: list[tuple[str, int]] | None = None
    entity: str | None = None
    set: dict[str, str | None] | None = None
    records: int = 1


@dataclass(frozen=True)
class Action:
    """One action.

    Attributes:
        kind: such as `start` or `create_topic`.
        at_ms: when it began, in ms since the first transaction of the log.
        broker: the broker, for what is done to a broker.
        path, text: the znode and its data.
        topic, partition, total, assignment, config: a topic: partition number, number of partitions, brokers of each
            partition, configuration.
        moves: topic, partition and brokers of each partition that moves.
        throttle: replication quota of a reassignment in bytes per second.
        election, partitions: kind of election; the partitions as (topic, partition), None for all.
        entity, changes: path below /config, and new values by key, None to remove a key.
        records: number of records to produce.
        timed_out: whether the tool gave up after a timeout: nobody answered some of its requests.
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
    moves: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    throttle: int | None = None
    election: str = "preferred"
    partitions: tuple[tuple[str, int], ...] | None = None
    entity: str = ""
    changes: Mapping[str, str | None] = field(default_factory=dict)
    records: int = 1
    timed_out: bool = False


def actions_of_step(
    where: str,
    name: str,
    records: Sequence[ActionRecord] | None,
    tools: Sequence[ToolCommand],
    begins_ms: int,
    clock_ms: float,
) -> tuple[Action, ...]:
    """Return the actions of a step.

    Args:
        where: file and step, for errors.
        name: the name of the step.
        records: the entries of `acts`; None if there are none.
        tools: commands of Kafka's tools that the recorder ran.
        begins_ms: when the step began, in ms since the first transaction.
        clock_ms: wall time of the first transaction, in ms.

    Raises:
        RecordingError: an action is unknown or lacks a field, or neither name nor commands say what was done.
    """
    if records is None:
        return tuple(_guess(where, name, tools, begins_ms))
    actions = [
        _action(f"{where}: acts[{index}]", record, begins_ms, clock_ms)
        for index, record in enumerate(records)
        if record.do not in _NOTES
    ]
    by_tools = [action for action in actions if action.kind in _BY_TOOLS]
    if len(by_tools) != len(tools):  # some actions were not done with Kafka's tools
        return tuple(actions)
    late = [action for action, tool in zip(by_tools, tools, strict=True) if tool.timed_out]
    return tuple(replace(action, timed_out=action in late) for action in actions)


def step_context(name: str) -> StepContext:
    """Return the context of a step with a name that says what was done to a broker."""
    found = _BROKER_STEP.match(name)
    return StepContext(name, frozenset() if found is None else frozenset((_BROKER_STEPS[found[1]],)))


def _action(where: str, record: ActionRecord, begins_ms: int, clock_ms: float) -> Action:
    needed = _FIELDS.get(record.do)
    if needed is None:
        raise RecordingError(f"{record.do!r} is no action", where=f"{where}.do", right=f"one of {', '.join(_FIELDS)}")
    for name in needed:
        if getattr(record, name) is None:
            right = f"the fields {', '.join(needed)}"
            raise RecordingError(f"the action {record.do} has no {name}", where=where, right=right)
    at_ms = begins_ms if record.at is None else round(record.at * 1000 - clock_ms)
    throttle = _option(record.options, "--throttle")
    return Action(
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
        moves=tuple((topic, partition, tuple(ids)) for topic, partition, ids in record.moves or ()),
        throttle=None if throttle is None else int(throttle),
        election=record.election,
        partitions=None if record.partitions is None else tuple(record.partitions),
        entity=record.entity or "",
        changes=record.set or {},
        records=record.records,
    )


def _guess(where: str, name: str, tools: Sequence[ToolCommand], begins_ms: int) -> list[Action]:
    """Return the actions that the name of a step and the commands of tools say."""
    found = _BROKER_STEP.fullmatch(name)
    if found is not None:
        return [Action(_BROKER_STEPS[found[1]], begins_ms, broker=int(found[2]))]
    actions = [replace(_of_command(where, tool.cmd, begins_ms), timed_out=tool.timed_out) for tool in tools]
    if not actions and _EMPTY_STEP.fullmatch(name) is None:
        raise RecordingError(
            "no action says what was done",
            where=where,
            right="acts, a name such as boot-broker1, or commands of Kafka's tools",
        )
    return actions


def _of_command(where: str, command: str, begins_ms: int) -> Action:
    """Return the action of one command of Kafka's tools."""
    words = shlex.split(command)
    tool = words[0].rpartition(".")[2]
    topic = _option(words, "--topic") or ""
    match tool:
        case "TopicCommand" | "CreateTopicCommand" if "--create" in words or tool == "CreateTopicCommand":
            given = _option(words, "--replica-assignment") or _option(words, "--replica-assignment-list")
            assignment = None if given is None else tuple(tuple(map(int, ids.split(":"))) for ids in given.split(","))
            return Action("create_topic", begins_ms, topic=topic, assignment=assignment, config=_configs(words))
        case "TopicCommand" | "DeleteTopicCommand" if "--delete" in words or tool == "DeleteTopicCommand":
            return Action("delete_topic", begins_ms, topic=topic)
        case "TopicCommand" if "--partitions" in words:
            return Action("add_partitions", begins_ms, topic=topic, total=int(_option(words, "--partitions") or 0))
        case "ConfigCommand" if (entity := _entity(words)) is not None:
            changes: dict[str, str | None] = dict.fromkeys((_option(words, "--delete-config") or "").split(","))
            changes |= dict(pair.split("=", 1) for pair in (_option(words, "--add-config") or "").split(",") if pair)
            changes.pop("", None)
            return Action("alter_config", begins_ms, entity=entity, changes=changes)
        case "PreferredReplicaLeaderElectionCommand":
            return Action("elect", begins_ms)
        case "LeaderElectionCommand" if "--all-topic-partitions" in words:
            return Action("elect", begins_ms, election=_option(words, "--election-type") or "preferred")
    raise RecordingError(
        f"the command {command} is not enough to know what was done",
        where=where,
        right="acts in meta.json",
    )


def _option(words: Sequence[str], name: str) -> str | None:
    """Return the value of an option, or None."""
    places = [place for place, word in enumerate(words[:-1]) if word == name]
    return words[places[0] + 1] if places else None


def _configs(words: Sequence[str]) -> dict[str, str]:
    pairs = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "--config"]
    return dict(pair.split("=", 1) for pair in pairs)


def _entity(words: Sequence[str]) -> str | None:
    kind, name = _option(words, "--entity-type"), _option(words, "--entity-name")
    if kind not in _ENTITY or words.count("--entity-type") > 1:
        return None
    return f"{kind}/{'<default>' if name is None else name}"
