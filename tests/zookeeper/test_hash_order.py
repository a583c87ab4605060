"""Java's hash order, against what a real server listed (docs/reference/zookeeper.md §2.6) and a slow reference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper.hash_order import HashOrderedSet, clone_capacity, java_string_hash


def slow_hash(text: str) -> int:
    """`String.hashCode` by its definition, unit by unit."""
    result = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        result = (result * 31 + int.from_bytes(data[at : at + 2], "big")) % 2**32
    return result


class SlowSet:
    """A table of buckets as java.util.HashMap has it, moved whole when it grows."""

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
    assert java_string_hash(text) == slow_hash(text)


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
