"""Warnings about assignments that operators wrote by hand.

Source: docs/reference/kafka.md §2.11, "What operators write wrong". As in Kafka,
such an assignment is carried out; the warnings are recorded in the history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.topic_partition import ReplicaAssignment

_MAX_WARNINGS = 5


def of_topic(partitions: Mapping[int, ReplicaAssignment], is_live: Callable[[int], bool]) -> list[str]:
    """Return the first few warnings about a new topic.

    >>> from simzk.kafka.topic_partition import ReplicaAssignment
    >>> of_topic({0: ReplicaAssignment((1, 1)), 2: ReplicaAssignment((1,))}, lambda broker: broker == 1)
    ['partition 0: duplicate broker in [1, 1]', 'partition numbers are not consecutive from 0']
    """
    if not partitions:
        return ["no partitions: the topic stays empty"]
    warnings = []
    for number, assignment in partitions.items():
        warning = _of_replicas(assignment.replicas, is_live)
        if warning:
            warnings.append(f"partition {number}: {warning}")
    if max(partitions) != len(partitions) - 1:
        warnings.append("partition numbers are not consecutive from 0")
    return warnings[:_MAX_WARNINGS]


def _of_replicas(replicas: Sequence[int], is_live: Callable[[int], bool]) -> str:
    if not replicas:
        return "no replicas: no leader can be elected"
    if not any(is_live(broker) for broker in replicas):
        return f"no broker of {list(replicas)} is live: the partition waits for a leader"
    return f"duplicate broker in {list(replicas)}" if len({*replicas}) < len(replicas) else ""


def of_target(target: Sequence[int], is_live: Callable[[int], bool]) -> list[str]:
    """Return the warnings about the target of a reassignment.

    >>> of_target((2, 2, 9), lambda broker: broker == 2)
    ['duplicate broker in [2, 2, 9]', '[9] not live: the reassignment waits']
    """
    if not target:
        return ["empty target"]
    warnings = [f"duplicate broker in {list(target)}"] if len({*target}) < len(target) else []
    dead = [broker for broker in dict.fromkeys(target) if not is_live(broker)]
    return [*warnings, f"{dead} not live: the reassignment waits"] if dead else warnings
