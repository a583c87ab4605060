"""Actions of a recorded step without `acts`: the name of the step and the commands of Kafka's tools say what was done.

What a command does not say is read from the recording: the file of a reassignment, the znode of a configuration, the
offsets topic that a consumer makes a broker create.
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from simzk.errors import RecordingError
from simzk.kafka.metadata.entities import AclEntry
from simzk.kafka.observation import recording
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.replay import console_consumer
from simzk.kafka.zookeeper_mode.replay.actions import ReplayAction, option
from simzk.kafka.zookeeper_mode.schemas import config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simzk.kafka.observation.recording import RecordedTree
    from simzk.kafka.zookeeper_mode.replay.actions import ToolCommand
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction

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
_OFFSETS_TOPIC = "__consumer_offsets"
_SCRAM = re.compile(r"(SCRAM-SHA-\d+)=\[(?:iterations=(\d+),)?password=(.*)\]")
_ADMIN_API = re.compile(r"\S+ Admin\.alterPartitionReassignments\b.*")
_READ_ONLY = frozenset({"--list", "--describe", "--generate"})
_RESOURCES = ("topic", "group", "cluster", "transactional-id", "delegation-token", "user-principal")


@dataclass(frozen=True)
class Evidence:
    """Recorded results of one step.

    Attributes:
        before, tree: the znodes before and after the step.
        last: the znodes after the last step.
        transactions: its transactions.
    """

    before: RecordedTree
    tree: RecordedTree
    last: RecordedTree
    transactions: Sequence[RecordedTransaction]


def actions_of_commands(
    where: str, name: str, tools: Sequence[ToolCommand], begins_ms: int, evidence: Evidence
) -> tuple[ReplayAction, ...]:
    """Return the actions that the name of a step and the commands of Kafka's tools say.

    Args:
        where: file and step, for errors.
        name: the name of the step.
        tools: commands of Kafka's tools that the recorder ran.
        begins_ms: when the step began, in ms since the first transaction.
        evidence: what the recording shows of the step.

    Raises:
        RecordingError: neither name nor commands say what was done.
    """
    if (found := _BROKER_STEP.fullmatch(name)) is not None:
        return (ReplayAction(_BROKER_STEPS[found[1]], begins_ms, broker=int(found[2])),)
    if not tools and _EMPTY_STEP.fullmatch(name) is None:
        right = "acts, a name such as boot-broker1, or commands of Kafka's tools"
        raise RecordingError("no action says what was done", where=where, right=right)
    return tuple(
        replace(action, at_ms=begins_ms, gave_up=tool.gave_up)
        for tool in tools
        if (action := _of_command(where, tool.cmd, evidence)) is not None
    )


def _of_command(where: str, command: str, evidence: Evidence) -> ReplayAction | None:
    """Return the action of one command of Kafka's tools; None if it changes nothing in ZooKeeper."""
    if _ADMIN_API.fullmatch(command):
        moves = (*_requested_moves(evidence), *((name, n, None) for name, n, _ in _cancelled_moves(evidence)))
        return ReplayAction("reassign", 0, moves=moves) if moves else None
    action, is_known = None, False
    with suppress(ValueError, LookupError, TypeError):  # words that the tool would refuse, too
        words = shlex.split(command)
        tool = words[0].rpartition(".")[2]
        is_old_consumer = tool == "ConsoleConsumer" and option(words, "--bootstrap-server") is None
        is_known = tool == "ConsoleConsumer" and not is_old_consumer  # which may only let a broker do something
        is_known |= not _READ_ONLY.isdisjoint(words)
        parse = _old_consumer if is_old_consumer else _TOOLS.get(tool)
        action = None if parse is None else parse(words, evidence)
    if action is None and not is_known:
        what = f"the command {command} is not enough to know what was done"
        raise RecordingError(what, where=where, right="acts in meta.json")
    return action


def _topic(words: Sequence[str], evidence: Evidence) -> ReplayAction | None:
    name = option(words, "--topic") or ""
    given = dict(pair.split("=", 1) for pair in _values(words, "--config"))
    if "--create" in words or words[0].endswith("CreateTopicCommand"):
        listed = option(words, "--replica-assignment") or option(words, "--replica-assignment-list")
        assignment = None if listed is None else tuple(tuple(map(int, ids.split(":"))) for ids in listed.split(","))
        return ReplayAction("create_topic", 0, topic=name, assignment=assignment, config=given)
    if "--delete" in words or words[0].endswith("DeleteTopicCommand"):
        return ReplayAction("delete_topic", 0, topic=name)
    if words[0].endswith("AddPartitionsCommand"):
        total = len(json.loads(evidence.tree[paths.topic(name)].data or "{}")["partitions"])
        return ReplayAction("add_partitions", 0, topic=name, total=total)
    if (total_text := option(words, "--partitions")) is not None:
        return ReplayAction("add_partitions", 0, topic=name, total=int(total_text))
    changes: dict[str, str | None] = {**given, **dict.fromkeys(_values(words, "--delete-config"))}
    return ReplayAction("alter_config", 0, entity=f"topics/{name}", changes=changes) if changes else None


def _values(words: Sequence[str], name: str) -> list[str]:
    """Return the values of an option that may be repeated."""
    return [value for word, value in pairwise(words) if word == name]


def _configuration(words: Sequence[str], evidence: Evidence) -> ReplayAction | None:
    added = option(words, "--add-config") or ""
    if (credential := _SCRAM.fullmatch(added)) is not None:
        user = option(words, "--entity-name") or ""
        return ReplayAction("add_user", 0, entity=f"users/{user}", text=credential[1], password=credential[3])
    changes: dict[str, str | None] = dict.fromkeys((option(words, "--delete-config") or "").split(","))
    changes |= dict(pair.split("=", 1) for pair in added.split(",") if pair)
    changes.pop("", None)
    entity = _entity(words, evidence)
    return None if entity is None else ReplayAction("alter_config", 0, entity=entity, changes=changes)


def _entity(words: Sequence[str], evidence: Evidence) -> str | None:
    """Return the path of an entity below /config: names of clients and users are quoted since 1.0."""
    parts: list[tuple[str, str]] = []
    for place, word in enumerate(words):
        if word == "--entity-type":
            parts.append((words[place + 1], "<default>"))
        elif word == "--entity-name" and parts:
            parts[-1] = (parts[-1][0], option(words[place:], "--entity-name") or "")
    if not parts:
        return None
    plain = "/".join(f"{kind}/{name}" for kind, name in parts)
    quoted = "/".join(f"{kind}/{name if name == '<default>' else config.sanitize(name)}" for kind, name in parts)
    return plain if paths.config(plain) in evidence.tree else quoted


def _reassignment(words: Sequence[str], evidence: Evidence) -> ReplayAction | None:
    if "--cancel" in words:
        plan = tuple(_cancelled_moves(evidence))
        keeps = "--preserve-throttles" in words
        return ReplayAction("cancel_reassignment", 0, moves=plan, preserves_throttles=keeps) if plan else None
    if "--execute" not in words:
        return None
    throttle = option(words, "--throttle")
    moves = tuple(_requested_moves(evidence))
    return (
        ReplayAction("reassign", 0, moves=moves, throttle=None if throttle is None else int(throttle))
        if moves
        else None
    )


def _requested_moves(evidence: Evidence) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yield the moves that the recording shows: in the znode of the tool, or in the topics' znodes."""
    for transaction in evidence.transactions:
        if transaction.path == paths.REASSIGN_PARTITIONS and isinstance(transaction.data, str):
            for move in json.loads(transaction.data)["partitions"]:
                yield move["topic"], move["partition"], tuple(move["replicas"])
            return
    found = set()
    for part in (part for transaction in evidence.transactions for part in transaction.parts()):
        parent, _, topic = part.path.rpartition("/")
        if parent != paths.TOPICS or part.op != "setData" or not isinstance(part.data, str):
            continue
        fields = json.loads(part.data)
        removing = fields.get("removing_replicas", {})
        for number in {**fields.get("adding_replicas", {}), **removing}:
            if (topic, number) not in found:
                found.add((topic, number))
                kept = (broker for broker in fields["partitions"][number] if broker not in removing.get(number, []))
                yield topic, int(number), tuple(kept)


def _cancelled_moves(evidence: Evidence) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yield the moves that were under way before, and whose partitions get their former replicas first."""
    found = set()
    for part in (part for transaction in evidence.transactions for part in transaction.parts()):
        parent, _, topic = part.path.rpartition("/")
        if parent != paths.TOPICS or part.op != "setData" or topic in found or part.path not in evidence.before:
            continue
        found.add(topic)
        before, after = (_assignments(data) for data in (evidence.before[part.path].data, part.data))
        for number, (replicas, adding, removing) in before.items():
            origin = [broker for broker in replicas if broker not in adding]
            if (adding or removing) and after.get(number) == (origin, [], []):
                yield topic, int(number), tuple(broker for broker in replicas if broker not in removing)


def _assignments(data: object) -> dict[str, tuple[list[int], list[int], list[int]]]:
    """Return the replicas of each partition in a topic's znode, and which of them are added and removed."""
    fields = (recording.json_fields(data) if isinstance(data, str) else None) or {}
    replicas, adding, removing = (
        found if isinstance(found := fields.get(name), dict) else {}
        for name in ("partitions", "adding_replicas", "removing_replicas")
    )
    return {number: (ids, adding.get(number, []), removing.get(number, [])) for number, ids in replicas.items()}


def _election(words: Sequence[str], _evidence: Evidence) -> ReplayAction | None:
    if words[0].endswith("PreferredReplicaLeaderElectionCommand"):
        return ReplayAction("elect", 0)
    kind = option(words, "--election-type") or "preferred"
    return ReplayAction("elect", 0, election=kind) if "--all-topic-partitions" in words else None


def _acls(words: Sequence[str], _evidence: Evidence) -> ReplayAction | None:
    kinds = [kind for kind in _RESOURCES if option(words, f"--{kind}") is not None]
    if len(kinds) != 1:
        return None
    entries = tuple(
        AclEntry(principal, option(words, "--operation") or "All", permission, option(words, host) or "*")
        for permission, who, host in (
            ("Allow", "--allow-principal", "--allow-host"),
            ("Deny", "--deny-principal", "--deny-host"),
        )
        if (principal := option(words, who)) is not None
    )
    return ReplayAction(
        "add_acls" if "--add" in words else "remove_acls",
        0,
        entity=kinds[0],
        text=option(words, f"--{kinds[0]}") or "",
        entries=entries or None,
        prefixed=option(words, "--resource-pattern-type") == "prefixed",
    )


def _producer(words: Sequence[str], evidence: Evidence) -> ReplayAction | None:
    """Return the records; the partition is chance, which only the offsets of old consumers show."""
    topic = option(words, "--topic") or ""
    partition, records = next(iter(console_consumer.offsets_read(evidence.last, topic).items()), (0, 1))
    return ReplayAction("produce", 0, topic=topic, partition=partition, records=records)


def _old_consumer(words: Sequence[str], evidence: Evidence) -> ReplayAction | None:
    topic = option(words, "--topic")
    if topic is None or console_consumer.member_of(evidence.transactions) is None:
        return None
    return ReplayAction("consume", 0, topic=topic)


def _consumer(_words: Sequence[str], evidence: Evidence) -> ReplayAction | None:
    """Return the creation of the offsets topic, which a broker creates for the first group."""
    path = paths.topic(_OFFSETS_TOPIC)
    if path not in evidence.tree or path in evidence.before:
        return None
    configured = json.loads(evidence.tree[paths.config(f"topics/{_OFFSETS_TOPIC}")].data or "{}")["config"]
    return ReplayAction("create_topic", 0, topic=_OFFSETS_TOPIC, config=configured)


_TOOLS: dict[str, Callable[[Sequence[str], Evidence], ReplayAction | None]] = {
    "TopicCommand": _topic,
    "CreateTopicCommand": _topic,
    "DeleteTopicCommand": _topic,
    "AddPartitionsCommand": _topic,
    "ConfigCommand": _configuration,
    "ReassignPartitionsCommand": _reassignment,
    "PreferredReplicaLeaderElectionCommand": _election,
    "LeaderElectionCommand": _election,
    "AclCommand": _acls,
    "ConsoleProducer": _producer,
    "ConsoleConsumer": _consumer,
}
