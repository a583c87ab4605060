"""What is odd about an assignment that somebody wrote by hand: nothing is refused for it, and the history tells it
(docs/reference/kafka.md §2.11, "What operators write wrong").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.topic_partition import ReplicaAssignment

_TOLD_AT_MOST = 5


def of_topic(partitions: Mapping[int, ReplicaAssignment], is_live: Callable[[int], bool]) -> list[str]:
    """What is odd about a new topic, the first few things.

    >>> from simzk.kafka.topic_partition import ReplicaAssignment
    >>> of_topic({0: ReplicaAssignment((1, 1)), 2: ReplicaAssignment((1,))}, lambda broker: broker == 1)
    ['partition 0: a broker stands twice in [1, 1]', 'partitions are not numbered from 0 in a row']
    """
    if not partitions:
        return ["no partitions, so that nothing is made of it"]
    found = []
    for number, assignment in partitions.items():
        odd = _of_replicas(assignment.replicas, is_live)
        if odd:
            found.append(f"partition {number}: {odd}")
    if max(partitions) != len(partitions) - 1:
        found.append("partitions are not numbered from 0 in a row")
    return found[:_TOLD_AT_MOST]


def _of_replicas(replicas: Sequence[int], is_live: Callable[[int], bool]) -> str:
    if not replicas:
        return "no replicas, so that it gets no leader"
    if not any(is_live(broker) for broker in replicas):
        return f"nobody of {list(replicas)} lives, so that it waits for a leader"
    return f"a broker stands twice in {list(replicas)}" if len({*replicas}) < len(replicas) else ""


def of_target(target: Sequence[int], is_live: Callable[[int], bool]) -> list[str]:
    """What is odd about where a partition is to move.

    >>> of_target((2, 2, 9), lambda broker: broker == 2)
    ['a broker stands twice in [2, 2, 9]', '[9] do not live, so that it waits']
    """
    if not target:
        return ["it is to move to nobody"]
    odd = [f"a broker stands twice in {list(target)}"] if len({*target}) < len(target) else []
    dead = [broker for broker in dict.fromkeys(target) if not is_live(broker)]
    return [*odd, f"{dead} do not live, so that it waits"] if dead else odd
