"""Children held as numbers are listed, counted and found as a set of their names with the same history."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.jvm.hash_map import HashOrderedSet, NumberedNames

NAMES = st.integers(0, 40).map(str) | st.sampled_from(["x", "007", "2147483647", "2147483648", "", "-1"])
STEPS = st.lists(st.tuples(st.booleans() | st.just(True), NAMES | st.none()), max_size=60)


@settings(max_examples=2 * settings().max_examples)  # a planted mistake is found among a hundred
@given(before=STEPS, after=STEPS)
def test_any_history_gives_the_same_names(
    before: list[tuple[bool, str | None]], after: list[tuple[bool, str | None]]
) -> None:
    plain = HashOrderedSet(8)
    play(before, plain)
    packed = NumberedNames.of(plain)
    if packed is None:
        assert any(not name.isdigit() or name != str(int(name)) or int(name) >= 2**31 for name in plain)
        return
    play(after, plain)
    play(after, packed)
    packed.check()
    assert packed.ordered() == plain.ordered()
    assert (len(packed), packed.capacity) == (len(plain), plain.capacity)
    assert all(name in packed for name in plain)
    assert "41" not in packed
    assert packed.in_order_of_arrival() == plain.in_order_of_arrival() or isinstance(packed.numbers, range)


def play(steps: list[tuple[bool, str | None]], names: HashOrderedSet) -> None:
    """Add and discard; a name of None is the next that counts."""
    for adds, name in steps:
        known = str(len(names)) if name is None else name
        if adds:
            names.add(known)
        else:
            names.discard(known)


def test_names_that_came_in_order_are_a_range() -> None:
    names = NumberedNames(8, range(0))
    held: list[object] = []
    for number in range(1000):
        names.add(str(number))
    held.append(names.numbers)
    for gone in ("999", "3"):
        names.discard(gone)
        held.append(names.numbers)
    names.add("odd")
    held.append(names.numbers)
    assert held == [range(1000), range(999), array("i", [*range(3), *range(4, 999)]), None]
    assert len(names) == 999
