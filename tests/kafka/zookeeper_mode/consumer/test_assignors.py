"""Assignors: examples computed by hand from the published rules, and properties."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode.consumer.assignors import (
    GroupView,
    ThreadId,
    assign_range,
    assign_roundrobin,
    assign_roundrobin_alike,
    bracketed,
)
from simzk.kafka.zookeeper_mode.consumer.errors import AssignmentError


def view(partitions: dict[str, int], members: dict[str, dict[str, int]]) -> GroupView:
    """Return a group view of partitions by topic and threads by topic of each member."""
    threads: dict[str, list[ThreadId]] = {topic: [] for topic in partitions}
    for member, counts in members.items():
        for topic, count in counts.items():
            threads[topic] += [ThreadId(member, number) for number in range(count)]
    sorted_threads = {topic: sorted(found, key=str) for topic, found in threads.items() if found}
    return GroupView(tuple(sorted_threads), {t: range(n) for t, n in partitions.items()}, sorted_threads)


def dealt(assigned: dict[TopicPartition, ThreadId]) -> dict[str, list[str]]:
    """Return the partitions by thread."""
    found: dict[str, list[str]] = {}
    for partition, thread in assigned.items():
        found.setdefault(str(thread), []).append(str(partition))
    return {thread: sorted(found[thread]) for thread in sorted(found)}


def test_range_matches_kafkas_own_example() -> None:
    """Two consumers with two threads each, five partitions: p0 and p1 to C1-0, p2 to C1-1, p3 to C2-0, p4 to C2-1."""
    answer = dealt(assign_range(view({"p": 5}, {"C1": {"p": 2}, "C2": {"p": 2}})))
    assert answer == {"C1-0": ["p-0", "p-1"], "C1-1": ["p-2"], "C2-0": ["p-3"], "C2-1": ["p-4"]}


def test_range_assigns_each_topic_separately_and_leaves_extra_threads_idle() -> None:
    group = view({"a": 3, "b": 1}, {"g_1": {"a": 1, "b": 1}, "g_2": {"a": 1, "b": 1}, "g_3": {"a": 2}})
    # a: four threads for three partitions; b: two threads for one partition.
    assert dealt(assign_range(group)) == {"g_1-0": ["a-0", "b-0"], "g_2-0": ["a-1"], "g_3-0": ["a-2"]}


def test_threads_are_sorted_by_text() -> None:
    """Eleven threads: `-10` comes second, right after `-1`... and before `-2`."""
    answer = assign_range(view({"t": 11}, {"c": {"t": 11}}))
    assert [str(answer[TopicPartition("t", p)]) for p in range(4)] == ["c-0", "c-1", "c-10", "c-2"]


def test_range_rejects_a_topic_without_subscribers() -> None:
    with pytest.raises(AssignmentError, match="no member subscribes to t"):
        assign_range(GroupView(("t",), {"t": [0]}, {}))


def test_range_rejects_a_topic_of_which_no_partition_was_read() -> None:
    """From 0.10.2 on only topics of listed members are read: the member itself may have lost its id meanwhile."""
    with pytest.raises(AssignmentError, match="no member subscribes to t"):
        assign_range(GroupView(("t",), {}, {}))


def test_roundrobin_assigns_in_the_order_of_name_hashes() -> None:
    """Texts of equal length: the hash grows by 31 with the digit, by 31 ** 3 with the letter: a-0 a-1 a-2 b-0 b-1."""
    group = view({"b": 2, "a": 3}, {"g_1": {"a": 1, "b": 1}, "g_2": {"a": 1, "b": 1}})
    expected = {"g_1-0": ["a-0", "a-2", "b-1"], "g_2-0": ["a-1", "b-0"]}
    assert dealt(assign_roundrobin_alike(group, bracketed)) == expected
    assert dealt(assign_roundrobin(group, bracketed)) == expected


def java_hash(text: str) -> int:
    value = 0
    for c in text:
        value = (31 * value + ord(c)) % 2**32
    return value - 2**32 if value >= 2**31 else value


def test_the_hashed_text_of_a_partition_changed_in_1_0() -> None:
    """A number of two digits makes a longer text, whose hash is far away: before the others, or behind, by the form."""
    group = view({"orders": 12}, {"c": {"orders": 1}})
    for name_of, form, first in ((bracketed, "[orders,{}]", 0), (str, "orders-{}", 10)):
        numbers = [partition.partition for partition in assign_roundrobin(group, name_of)]
        assert numbers == sorted(range(12), key=lambda number: java_hash(form.format(number)))
        assert numbers[0] == first


def test_roundrobin_of_0_8_2_requires_equal_threads() -> None:
    group = view({"a": 1, "b": 1}, {"g_1": {"a": 1, "b": 1}, "g_2": {"a": 1}})
    with pytest.raises(AssignmentError, match="the same threads for every topic"):
        assign_roundrobin_alike(group, bracketed)


def test_roundrobin_skips_threads_that_do_not_subscribe() -> None:
    """`a` is dealt first: g_1 (a-0), g_2 (a-1); of `b` only g_2 may take any."""
    group = view({"a": 2, "b": 2}, {"g_1": {"a": 1}, "g_2": {"a": 1, "b": 1}})
    assert dealt(assign_roundrobin(group, bracketed)) == {"g_1-0": ["a-0"], "g_2-0": ["a-1", "b-0", "b-1"]}


def slow_range(partitions: int, threads: int) -> list[int]:
    """Assign partitions to threads one by one."""
    sizes = [0] * threads
    for turn in range(partitions):
        sizes[turn % threads] += 1
    return [thread for thread, size in enumerate(sizes) for _ in range(size)]


@given(st.integers(0, 40), st.integers(1, 9))
def test_range_is_fair_and_contiguous(partitions: int, threads: int) -> None:
    answer = assign_range(view({"t": partitions}, {"c": {"t": threads}}))
    assert [answer[TopicPartition("t", p)].number for p in range(partitions)] == slow_range(partitions, threads)


GROUPS = st.dictionaries(
    st.sampled_from(["g_a", "g_b", "g_c", "g_d"]),
    st.dictionaries(st.sampled_from(["t1", "t2", "t3"]), st.integers(1, 12), min_size=1),
    min_size=1,
)
TOPICS = st.fixed_dictionaries({"t1": st.integers(0, 14), "t2": st.integers(0, 14), "t3": st.integers(0, 14)})


@given(TOPICS, GROUPS)
def test_each_subscribed_partition_has_one_subscribed_owner(
    topics: dict[str, int], members: dict[str, dict[str, int]]
) -> None:
    subscribed = {topic: n for topic, n in topics.items() if any(topic in counts for counts in members.values())}
    group = view(subscribed, members)
    for answer in (assign_range(group), assign_roundrobin(group, bracketed), assign_roundrobin(group, str)):
        assert set(answer) == {TopicPartition(topic, p) for topic, n in subscribed.items() for p in range(n)}
        for partition, thread in answer.items():
            assert thread.number < members[thread.consumer][partition.topic]


@given(TOPICS, st.integers(1, 4), st.integers(1, 3))
def test_roundrobin_of_equals_is_even(topics: dict[str, int], members: int, threads: int) -> None:
    group = view(topics, {f"c{m}": dict.fromkeys(topics, threads) for m in range(members)})
    answer = assign_roundrobin(group, bracketed)
    assert answer == assign_roundrobin_alike(group, bracketed)
    counts = Counter(answer.values())
    assert max(counts.values(), default=0) - min((counts[t] for t in group.threads["t1"]), default=0) <= 1
