"""Assignors of the old consumer, range and roundrobin: the owner of each partition among the threads of a group.

Rules of the module (docs/reference/kafka.md §4.4; PartitionAssignor):
  - every member computes the whole assignment by itself: the same reads give the same assignment;
  - threads are sorted by their text, so `-10` precedes `-2`; partitions are sorted by number;
  - range assigns each topic separately in contiguous runs; the first threads get one more if a remainder is left;
  - roundrobin assigns all partitions of all topics in turn, in the order of Java's hash of their names.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from simzk.jvm.hash_codes import string_hash
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode.consumer.errors import AssignmentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Strategy: TypeAlias = Literal["range", "roundrobin"]


class ThreadId(NamedTuple):
    """Thread of a consumer.

    >>> str(ThreadId("g_c", 0)), sorted([ThreadId("g_c", 2), ThreadId("g_c", 10)], key=str)[0].number
    ('g_c-0', 10)
    """

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


class GroupView(NamedTuple):
    """State of a group as one member has read it.

    Args:
        topics: topics to which the member itself subscribes, in the order of its map.
        partitions: sorted partitions by topic, the topics in the order of Kafka's map.
        threads: threads of all members by topic, sorted by text.
    """

    topics: tuple[str, ...]
    partitions: Mapping[str, Sequence[int]]
    threads: Mapping[str, Sequence[ThreadId]]


def assign_range(view: GroupView) -> dict[TopicPartition, ThreadId]:
    """Assign each topic of the member to all threads that subscribe to it.

    Raises:
        AssignmentError: no member that was read subscribes to a topic of this member.

    >>> threads = [ThreadId("g_a", 0), ThreadId("g_a", 1), ThreadId("g_b", 0)]
    >>> view = GroupView(("t",), {"t": [0, 1, 2, 3]}, {"t": threads})
    >>> [str(thread) for thread in assign_range(view).values()]
    ['g_a-0', 'g_a-0', 'g_a-1', 'g_b-0']
    """
    assigned = {}
    for topic in view.topics:
        threads = view.threads.get(topic, ())
        if not threads:
            raise AssignmentError(f"no member subscribes to {topic}")
        partitions = view.partitions[topic]  # of a topic with threads (`GroupRegistry.view`)
        assert len(set(threads)) == len(threads), "a thread has one turn in a topic"
        each, more = divmod(len(partitions), len(threads))
        for position, thread in enumerate(threads):
            start = each * position + min(position, more)
            for partition in partitions[start : start + each + (position < more)]:
                assigned[TopicPartition(topic, partition)] = thread
    assert len(assigned) == sum(len(view.partitions[topic]) for topic in view.topics), "each partition has an owner"
    return assigned


def assign_roundrobin_alike(
    view: GroupView, name_of: Callable[[TopicPartition], str]
) -> dict[TopicPartition, ThreadId]:
    """Assign all partitions in turn, as 0.8.2 to 0.10.1 do: all topics must have the same threads.

    Args:
        view: state of the group.
        name_of: text of a partition; its hash orders the partitions.

    Raises:
        AssignmentError: the topics of the group have different threads, or there are none.
    """
    if not view.threads:
        raise AssignmentError("no member subscribes to any topic")
    (first_topic, first), *others = view.threads.items()
    for topic, threads in others:
        if set(threads) != set(first):
            what = f"{topic} and {first_topic} differ"
            raise AssignmentError(f"roundrobin requires the same threads for every topic; {what}")
    assert first, f"{first_topic} is in the view without a thread"
    return dict(zip(_in_hash_order(view, name_of), cycle(sorted(first, key=str)), strict=False))


def assign_roundrobin(view: GroupView, name_of: Callable[[TopicPartition], str]) -> dict[TopicPartition, ThreadId]:
    """Assign all partitions in turn, as 0.10.2 and later do: threads that do not subscribe to the topic are skipped.

    Args:
        view: state of the group.
        name_of: text of a partition; its hash orders the partitions.
    """
    turns = cycle(sorted({thread: None for threads in view.threads.values() for thread in threads}, key=str))
    assigned = {}
    for partition in _in_hash_order(view, name_of):
        allowed = set(view.threads[partition.topic])
        assert allowed, f"no member subscribes to {partition.topic}"
        assigned[partition] = next(thread for thread in turns if thread in allowed)
    assert len(assigned) == sum(map(len, view.partitions.values())), "each partition has an owner"
    return assigned


def bracketed(partition: TopicPartition) -> str:
    """Return the text of a partition up to Kafka 0.11: `[t,0]`; from 1.0 on it is `t-0`."""
    return f"[{partition.topic},{partition.partition}]"


def _in_hash_order(view: GroupView, name_of: Callable[[TopicPartition], str]) -> list[TopicPartition]:
    """Return all partitions in the order of assignment; partitions with equal hashes keep the order of reading."""
    read = [TopicPartition(topic, number) for topic, numbers in view.partitions.items() for number in numbers]
    return sorted(read, key=lambda partition: string_hash(name_of(partition)))
