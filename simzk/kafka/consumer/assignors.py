"""Who of a group's threads owns which partition: the range and the roundrobin assignor of the old consumer.

Rules of the module (docs/reference/kafka.md §4.4; PartitionAssignor):
  - every member computes the whole answer by itself, from what it has read: the same reads give the same answer;
  - threads are in the order of their text, so that `-10` stands before `-2`; partitions in the order of their numbers;
  - range deals each topic by itself, in contiguous runs, the first threads one more where it does not come out even;
  - roundrobin deals all partitions of all topics in turn, in the order of Java's hash of their names.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from simzk.jvm.hash_codes import string_hash
from simzk.kafka.consumer.errors import AssignmentError
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Strategy: TypeAlias = Literal["range", "roundrobin"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("range", "roundrobin")


class ThreadId(NamedTuple):
    """One thread of a consumer.

    >>> str(ThreadId("g_c", 0)), sorted([ThreadId("g_c", 2), ThreadId("g_c", 10)], key=str)[0].number
    ('g_c-0', 10)
    """

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


class GroupView(NamedTuple):
    """What a member has read of its group.

    Args:
        topics: those that the member itself subscribes, in the order of its map.
        partitions: of each topic read, sorted, the topics in the order of the map they are read into.
        threads: of all members by topic, sorted by text.
    """

    topics: tuple[str, ...]
    partitions: Mapping[str, Sequence[int]]
    threads: Mapping[str, Sequence[ThreadId]]


def assign_range(view: GroupView) -> dict[TopicPartition, ThreadId]:
    """Deal each of the member's topics to all threads that subscribe it.

    Raises:
        AssignmentError: a topic of the member that nobody of the group as read subscribes.

    >>> threads = [ThreadId("g_a", 0), ThreadId("g_a", 1), ThreadId("g_b", 0)]
    >>> view = GroupView(("t",), {"t": [0, 1, 2, 3]}, {"t": threads})
    >>> [str(thread) for thread in assign_range(view).values()]
    ['g_a-0', 'g_a-0', 'g_a-1', 'g_b-0']
    """
    assigned = {}
    for topic in view.topics:
        threads, partitions = view.threads.get(topic, ()), view.partitions[topic]
        if not threads:
            raise AssignmentError(f"nobody was read to subscribe {topic}")
        each, more = divmod(len(partitions), len(threads))
        for position, thread in enumerate(threads):
            start = each * position + min(position, more)
            for partition in partitions[start : start + each + (position < more)]:
                assigned[TopicPartition(topic, partition)] = thread
    return assigned


def assign_roundrobin_alike(
    view: GroupView, name_of: Callable[[TopicPartition], str]
) -> dict[TopicPartition, ThreadId]:
    """Deal all partitions in turn, as 0.8.2 to 0.10.1 do: only where all topics have the same threads.

    Args:
        view: what was read.
        name_of: the text of a partition whose hash orders it.

    Raises:
        AssignmentError: the topics of the group differ in their threads, or none was read.
    """
    if not view.threads:
        raise AssignmentError("nobody was read to subscribe anything")
    (head_topic, head), *others = view.threads.items()
    for topic, threads in others:
        if set(threads) != set(head):
            raise AssignmentError(f"roundrobin takes the same threads for every topic; {topic} and {head_topic} differ")
    return dict(zip(_dealt(view, name_of), cycle(sorted(head, key=str)), strict=False))


def assign_roundrobin(view: GroupView, name_of: Callable[[TopicPartition], str]) -> dict[TopicPartition, ThreadId]:
    """Deal all partitions in turn, as 0.10.2 and later do: a thread that does not subscribe the topic is passed over.

    Args:
        view: what was read.
        name_of: the text of a partition whose hash orders it.
    """
    turns = cycle(sorted({thread: None for threads in view.threads.values() for thread in threads}, key=str))
    assigned = {}
    for partition in _dealt(view, name_of):
        allowed = set(view.threads[partition.topic])
        assigned[partition] = next(thread for thread in turns if thread in allowed)
    return assigned


def bracketed(partition: TopicPartition) -> str:
    """The text of a partition up to Kafka 0.11: `[t,0]`."""
    return f"[{partition.topic},{partition.partition}]"


def dashed(partition: TopicPartition) -> str:
    """The text of a partition from Kafka 1.0 on: `t-0`."""
    return f"{partition.topic}-{partition.partition}"


def _dealt(view: GroupView, name_of: Callable[[TopicPartition], str]) -> list[TopicPartition]:
    """All partitions in the order in which they are dealt; those of equal hash stay as they were read."""
    read = [TopicPartition(topic, number) for topic, numbers in view.partitions.items() for number in numbers]
    return sorted(read, key=lambda partition: string_hash(name_of(partition)))
