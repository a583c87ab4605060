"""HashSet order against a JDK, lists of a real server (docs/reference/zookeeper.md §2.6) and a slow model."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simzk.jvm.hash_codes import spread_hashes, string_hash
from simzk.jvm.hash_map import HashOrderedSet, clone_capacity

pytestmark = pytest.mark.slow


def slow_hash(text: str) -> int:
    """`String.hashCode` by its definition, unit by unit."""
    result = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        result = (result * 31 + int.from_bytes(data[at : at + 2], "big")) % 2**32
    return result


@given(st.lists(st.text(st.characters(max_codepoint=127), min_size=3, max_size=4) | st.text(max_size=3), max_size=80))
def test_hashes_of_many_texts(texts: list[str]) -> None:
    assert spread_hashes(texts) == {text: slow_hash(text) ^ slow_hash(text) >> 16 for text in texts}


def test_hashes_of_long_texts() -> None:
    texts = ["\x7f" * 5000 + str(number) for number in range(1000, 1100)]
    assert spread_hashes(texts) == {text: slow_hash(text) ^ slow_hash(text) >> 16 for text in texts}


class SlowSet:
    """Table of buckets as in java.util.HashMap, rebuilt when it grows."""

    def __init__(self, capacity: int) -> None:
        self.buckets: list[list[str]] = [[] for _ in range(capacity)]

    def _bucket(self, name: str) -> list[str]:
        spread = slow_hash(name) ^ slow_hash(name) >> 16
        return self.buckets[spread % len(self.buckets)]

    def add(self, name: str) -> None:
        if name in self._bucket(name):
            return
        self._bucket(name).append(name)
        names = list(self)
        if len(names) > len(self.buckets) * 0.75:
            self.buckets = [[] for _ in range(2 * len(self.buckets))]
            for moved in names:
                self._bucket(moved).append(moved)

    def discard(self, name: str) -> None:
        if name in self._bucket(name):
            self._bucket(name).remove(name)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return (name for bucket in self.buckets for name in bucket)


NAMES = st.text(max_size=3) | st.sampled_from(["Aa", "BB", "AaAa", "BBBB", "AaBB"]) | st.integers(0, 99).map(str)


@given(st.text())
def test_hash_of_text(text: str) -> None:
    assert string_hash(text) % 2**32 == slow_hash(text)


@given(st.lists(st.tuples(st.booleans(), NAMES), max_size=60), st.sampled_from([8, 16]))
def test_order_through_any_history(history: list[tuple[bool, str]], capacity: int) -> None:
    ours, slow = HashOrderedSet(capacity), SlowSet(capacity)
    for added, name in history:
        for either in (ours, slow):
            (either.add if added else either.discard)(name)
        assert list(ours) == list(slow)
        ours.check()
    clone = SlowSet(clone_capacity(len(ours)))
    for name in slow:
        clone.add(name)
    assert ours.clone_ordered() == list(clone)


DATA = Path(__file__).parent / "data"
"""Histories of sets of colliding names, and the lists of the JDK's HashSet at each query (HashOrders.java)."""


def orders(histories: str) -> list[str]:
    """Return the answers to the queries in a file of histories."""
    names, answers = HashOrderedSet(8), []
    for line in histories.split("\n"):
        if not line:
            names = HashOrderedSet(8)
        elif line[0] == "+":
            names.add(line[1:])
        elif line[0] == "-":
            names.discard(line[1:])
        else:
            answers.append(" ".join(names.clone_ordered() if line == "c" else names.ordered()))
            names.check()
    return answers


def test_crowded_buckets_are_listed_as_by_the_jdk() -> None:
    expected = (DATA / "hash_orders.txt").read_text().splitlines()
    assert orders((DATA / "hash_histories.txt").read_text().rstrip("\n")) == expected


@pytest.mark.java
@pytest.mark.timeout(120)
def test_the_jdk_lists_them_so() -> None:
    command = ["java", str(DATA / "HashOrders.java"), str(DATA / "hash_histories.txt")]
    listed = subprocess.run(command, capture_output=True, check=True, text=True, timeout=100).stdout
    assert listed == (DATA / "hash_orders.txt").read_text()


@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from(["Aa", "BB"]), min_size=5, max_size=5)), max_size=120)
)
def test_looking_changes_nothing(history: list[tuple[bool, list[str]]]) -> None:
    """A set listed after each step has the order of one listed only at the end."""
    often, once = HashOrderedSet(8), HashOrderedSet(8)
    for added, parts in history:
        for names in (often, once):
            (names.add if added else names.discard)("".join(parts))
        often.ordered()
        often.check()
    assert often.ordered() == once.ordered()
    assert often.clone_ordered() == once.clone_ordered()
    assert often.capacity == once.capacity


class EagerSet(HashOrderedSet):
    """Set that examines buckets at every removal."""

    __slots__ = ()

    def discard(self, name: str) -> None:
        if name in self:
            self._remove(name)


COLLIDING = ["".join(parts) for parts in itertools.product(["Aa", "BB"], repeat=5)]
"""Names with one hash code."""
NUMBERS = list(map(str, range(200)))
CHANGES = st.sampled_from(["toggle", "add", "remove"])
STEPS: st.SearchStrategy[tuple[str, list[str]]] = st.one_of(
    st.tuples(st.sampled_from(["list", "capacity"]), st.just([])),
    st.tuples(CHANGES, st.lists(st.sampled_from(COLLIDING), max_size=20)),
    st.tuples(CHANGES, st.lists(st.sampled_from(NUMBERS[:70]), max_size=60)),
    st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from([NUMBERS[:70], NUMBERS])),
    st.tuples(st.just("remove"), st.just([*COLLIDING, *NUMBERS])),
)


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=25), st.sampled_from([8, 16]))
# A set that is emptied after it was listed.
@example([("add", NUMBERS[:70]), ("list", []), ("add", ["70"]), ("remove", NUMBERS)], 8)
# Nine of a bucket in a set that was emptied with many buckets; and in one that grew while it was not looked at.
@example([("add", NUMBERS[:70]), ("remove", NUMBERS[:70]), ("add", COLLIDING[:9]), ("list", [])], 8)
@example(
    [
        ("add", NUMBERS[:12]),
        ("remove", ["0"]),
        ("add", NUMBERS[:24]),
        ("remove", NUMBERS[1:23]),
        ("toggle", ["0"] * 92),
        ("add", COLLIDING[:9]),
    ],
    16,
)
def test_a_look_put_off_finds_what_one_at_once_does(steps: list[tuple[str, list[str]]], capacity: int) -> None:
    lazy, eager = HashOrderedSet(capacity), EagerSet(capacity)
    for step, names in steps:
        for name in names:
            for either in (lazy, eager):
                if step == "add" or (step == "toggle" and name not in either):
                    either.add(name)
                else:
                    either.discard(name)
        if step == "list":
            assert lazy.ordered() == eager.ordered()
        elif step == "capacity":
            assert lazy.capacity == eager.capacity
        lazy.check()
        eager.check()
        assert (len(lazy), lazy.in_order_of_arrival()) == (len(eager), eager.in_order_of_arrival())
    assert lazy.clone_ordered() == eager.clone_ordered()
    assert lazy.ordered() == eager.ordered()
    assert lazy.capacity == eager.capacity
