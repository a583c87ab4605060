"""How each action of a scenario is told in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.scenarios import schema

if TYPE_CHECKING:
    from collections.abc import Sequence


def describe(step: schema.Action) -> str:
    """Return an action in a few words, as the timeline tells it.

    >>> describe(schema.Pause(action="pause", broker=1, duration="20s"))
    'pause broker 1 for 20s'
    """
    words = step.action.replace("_", " ")
    match step:
        case schema.CreateTopic(assignment=None):
            told = f"{words} {step.topic}: {step.partitions} partitions, {step.replication_factor} replicas each"
        case schema.CreateTopic():
            told = f"{words} {step.topic}: {_lists(step.assignment or [])}"
        case schema.DeleteTopic():
            told = f"{words} {step.topic}"
        case schema.AddPartitions():
            told = f"{words} to {step.topic}: {step.total} in all"
        case schema.Kill() | schema.Restart() | schema.Expire() | schema.Shutdown():
            told = f"{words} broker {step.broker}"
        case schema.FailLogDir(directory=None):
            told = f"{words} of {step.partition} on broker {step.broker}"
        case schema.FailLogDir():
            told = f"{words} {step.directory} of broker {step.broker}"
        case schema.Pause():
            told = f"{words} broker {step.broker} for {step.duration}"
        case schema.Reassign():
            told = f"{words} " + ", ".join(f"{name} to {replicas}" for name, replicas in step.replicas.items())
        case schema.Produce():
            whom = "" if step.broker is None else f" at broker {step.broker}"
            told = f"produce {step.records} records to {step.topic}-{step.partition}{whom}, acks {step.acks}"
        case schema.Elect():
            told = f"elect {step.kind} leaders of {', '.join(step.partitions) if step.partitions else 'all partitions'}"
        case schema.Cut():
            told = f"cut broker {step.broker} off from {_peer(step.peer)}"
        case schema.Heal():
            told = (
                "heal all links" if step.broker is None else f"heal broker {step.broker}'s link to {_peer(step.peer)}"
            )
        case schema.WriteZnode():
            told = f"write {step.path} {step.data}"
        case schema.DeleteZnode():
            told = f"delete {step.path}"
        case schema.DropReply():
            told = f"lose the next reply to broker {step.broker}'s {step.operation} of {step.path}"
        case schema.AddAcl():
            rule = f"{step.permission} {step.principal} {step.operation}"
            told = f"{rule} on {step.resource} {step.name}{'*' * step.prefixed} from {step.host}"
        case schema.RemoveAcls():
            told = f"{words} of {step.resource} {step.name}{'*' * step.prefixed}"
        case schema.Wait():
            told = f"wait {step.duration}"
        case _:
            raise AssertionError(f"no action {step.action}")
    return told


def _lists(assignment: Sequence[Sequence[int]]) -> str:
    return " ".join(str(list(replicas)).replace(" ", "") for replicas in assignment)


def _peer(peer: int | str) -> str:
    return f"broker {peer}" if isinstance(peer, int) else peer or "everything"
