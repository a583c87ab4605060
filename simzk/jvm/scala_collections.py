"""Order in which Scala's maps and sets iterate: it fixes JSON keys, batches of the controller, and ISR lists.

Rules of this module (docs/reference/kafka.md §1.2, §2.4; compared with four real scala-library versions):
  - up to four entries, an immutable map or set keeps order of insertion; a larger one is a hash trie (Scala 2.10 to
    2.12) or a CHAMP trie (2.13), whose order depends on the hash codes alone, and stays one when it is filtered;
  - a mutable map or set is in the order of its buckets at any size. Up to 2.12 a set is one open table of 32 places,
    doubled when 45 % are taken: a key goes to the place of its mixed hash or the next free one;
  - a `mutable.LongMap` (2.12 and 2.13 alike) is an open table: a number goes to the place of its mixed bits or the next
    free one of a quadratic walk; zero stands apart, first. The table has the next power of two of the size it was made
    for, at least eight places, and is rebuilt with twice as many once more than half are taken;
  - keys are ints, texts, or anything with its own hash function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Literal, TypeAlias, TypeVar

from simzk.jvm.hash_codes import MASK, byteswap32, hash_code, rotate_left, signed_32, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Scala: TypeAlias = Literal["2.10", "2.11", "2.12", "2.13"]
Key = TypeVar("Key")

SMALL: Final = 4
"""Largest size at which an immutable map or set keeps order of insertion."""

_GROUP_BITS: Final = 5


def immutable_order(keys: Iterable[Key], scala: Scala = "2.13", hash_of: Callable[[Key], int] = hash_code) -> list[Key]:
    """Return keys, given in order of insertion, in the order in which an immutable Map or Set iterates.

    >>> immutable_order([3, 1, 2])
    [3, 1, 2]
    >>> immutable_order([1, 2, 3, 4, 5])
    [5, 1, 2, 3, 4]
    """
    inserted = list(dict.fromkeys(keys))
    return inserted if len(inserted) <= SMALL else hash_order(inserted, scala, hash_of)


def hash_order(keys: Sequence[Key], scala: Scala = "2.13", hash_of: Callable[[Key], int] = hash_code) -> list[Key]:
    """Return distinct keys in the order in which an immutable hash map or hash set of any size iterates.

    A set that once had more than four entries stays a hash set. Keys of equal hash keep the order given.

    >>> hash_order(["0", "1", "2", "3", "4", "5", "6", "7"], "2.13")
    ['4', '5', '0', '2', '7', '3', '6', '1']
    """
    hashed = [(_improve(hash_of(key)), key) for key in keys]
    if scala == "2.13":
        return _champ_order(hashed, 0)
    return [key for _, key in sorted(hashed, key=lambda entry: _trie_path(entry[0]))]


def mutable_order(
    keys: Iterable[Key], scala: Scala = "2.13", hash_of: Callable[[Key], int] = hash_code, *, most: int = 0
) -> list[Key]:
    """Return keys, given in order of insertion, in the order in which a `mutable.HashMap` that began empty iterates.

    Args:
        keys: repeated ones count once.
        scala: Scala version.
        hash_of: the `hashCode` of a key.
        most: number of keys that the map had before it was cleared, which keeps its table (2.10 to 2.12).

    >>> mutable_order([1, 19], "2.12", int), mutable_order([1, 19], "2.12", int, most=13)
    ([19, 1], [1, 19])
    >>> mutable_order(["0", "1", "2", "3", "4", "5", "6", "7"], "2.12")
    ['2', '5', '7', '1', '4', '6', '0', '3']
    """
    inserted = [(signed_32(hash_of(key)), key) for key in dict.fromkeys(keys)]
    return _sorted_buckets_order(inserted) if scala == "2.13" else _chained_order(inserted, most)


def mutable_set_order(
    keys: Iterable[Key], scala: Scala = "2.13", hash_of: Callable[[Key], int] = hash_code
) -> list[Key]:
    """Return keys, given in order of insertion, in the order in which a `mutable.HashSet` that began empty iterates.

    >>> mutable_set_order([0, 1, 2, 3], "2.12")
    [0, 1, 2, 3]
    """
    inserted = [(signed_32(hash_of(key)), key) for key in dict.fromkeys(keys)]
    return _sorted_buckets_order(inserted) if scala == "2.13" else _open_table_order(inserted)


def _improve(value: int) -> int:
    """Return `improve` of a hash code, as immutable hash maps do: a poor hash is spread over all bits."""
    value &= MASK
    value = (value + (~(value << 9) & MASK)) & MASK
    value ^= value >> 14
    value = (value + (value << 4)) & MASK
    return value ^ value >> 10


def _trie_path(improved: int) -> tuple[int, ...]:
    """Return the path of a key in the trie: groups of five bits, the lowest first."""
    return tuple(improved >> shift & 31 for shift in range(0, 32, _GROUP_BITS))


def _champ_order(hashed: Sequence[tuple[int, Key]], shift: int) -> list[Key]:
    """Return the keys of one node: those alone in their slot, by slot, then those of the sub-nodes, by slot."""
    if shift >= 32:
        return [key for _, key in hashed]
    slots: dict[int, list[tuple[int, Key]]] = {}
    for entry in hashed:
        slots.setdefault(entry[0] >> shift & 31, []).append(entry)
    ordered = [slots[slot] for slot in sorted(slots)]
    inline = [entries[0][1] for entries in ordered if len(entries) == 1]
    for entries in ordered:
        if len(entries) > 1:
            inline += _champ_order(entries, shift + _GROUP_BITS)
    return inline


def _chained_order(inserted: Sequence[tuple[int, Key]], most: int = 0) -> list[Key]:
    """Order of Scala 2.10 to 2.12: new entries at the front of their bucket, iteration from the last bucket down."""
    size = 16
    while most > size * 3 // 4:
        size *= 2
    buckets: list[list[tuple[int, Key]]] = [[] for _ in range(size)]
    for count, entry in enumerate(inserted, start=1):
        buckets[_chained_index(entry[0], size)].insert(0, entry)
        if count > size * 3 // 4:
            size *= 2
            grown: list[list[tuple[int, Key]]] = [[] for _ in range(size)]
            for bucket in reversed(buckets):
                for moved in bucket:
                    grown[_chained_index(moved[0], size)].insert(0, moved)
            buckets = grown
    return [key for bucket in reversed(buckets) for _, key in bucket]


def _chained_index(value: int, size: int) -> int:
    assert size.bit_count() == 1, f"{size} buckets are no power of two"
    # The rotation is fixed by the initial size of the table, also after it has grown.
    rotated = rotate_left(byteswap32(value), 32 - 4)
    return rotated >> (32 - (size.bit_length() - 1))


def _open_table_order(inserted: Sequence[tuple[int, Key]]) -> list[Key]:
    """Order of mutable sets of Scala 2.10 to 2.12: an open table, iterated from the first place on."""
    table: list[tuple[int, Key] | None] = [None] * 32
    for count, entry in enumerate(inserted, start=1):
        _place(table, entry)
        if count >= len(table) * 45 // 100:
            grown: list[tuple[int, Key] | None] = [None] * (2 * len(table))
            for moved in table:
                if moved is not None:
                    _place(grown, moved)
            table = grown
    return [entry[1] for entry in table if entry is not None]


def _place(table: list[tuple[int, Key] | None], entry: tuple[int, Key]) -> None:
    """Put an entry into the first free place from its own on; the rotation is that of the initial size, as in maps."""
    assert len(table).bit_count() == 1
    index = rotate_left(byteswap32(entry[0]), 32 - 5) >> (32 - (len(table).bit_length() - 1))
    while table[index] is not None:
        index = (index + 1) % len(table)
    table[index] = entry


def _sorted_buckets_order(inserted: Sequence[tuple[int, Key]]) -> list[Key]:
    """Order of Scala 2.13: buckets by the low bits, from the first on, each sorted by hash."""
    size = buckets_of(len(inserted))
    mixed = [(signed_32(spread(value)), key) for value, key in inserted]
    return [key for _, key in sorted(mixed, key=lambda entry: (entry[0] & (size - 1), entry[0]))]


def buckets_of(entries: int) -> int:
    """Return the number of buckets of a mutable map of 2.13 that began empty and has `entries` entries."""
    size = 16
    while entries >= size * 3 // 4:
        size *= 2
    return size


class ScalaSet(Generic[Key]):
    """Immutable Set of Scala, in its order of iteration.

    Args:
        keys: in order of insertion.
        hash_of: the `hashCode` of a key.
        scala: Scala version.
        hashed: True for a hash set at any size, as a larger set that was filtered; then an attribute of any set.

    >>> list(ScalaSet([3, 1, 2], hash, "2.13"))
    [3, 1, 2]
    """

    def __init__(
        self, keys: Iterable[Key], hash_of: Callable[[Key], int], scala: Scala, *, hashed: bool = False
    ) -> None:
        self._keys = dict.fromkeys(keys)
        self._hash_of = hash_of
        self._scala = scala
        self.hashed: bool = hashed or len(self._keys) > SMALL

    def __iter__(self) -> Iterator[Key]:
        if self.hashed:
            return iter(hash_order(list(self._keys), self._scala, self._hash_of))
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def filter(self, condition: Callable[[Key], bool]) -> ScalaSet[Key]:
        """Return the keys that satisfy a condition, in a set of the same kind."""
        return ScalaSet((key for key in self if condition(key)), self._hash_of, self._scala, hashed=self.hashed)


_LONG_MAP_MOST = 0x3FFF_FFFF
_LONG_MAP_LEAST = 0b111
"""Largest and smallest mask of a LongMap."""


def long_map_order(keys: Iterable[int], size: int = 16) -> list[int]:
    """Return numbers from 0 on, given in order of insertion, in the order in which a LongMap made for `size` iterates.

    >>> long_map_order([1, 2, 3, 4, 5, 6], 6)
    [5, 1, 4, 6, 2, 3]
    """
    mask = min((1 << max(size - 1, 0).bit_length()) - 1, _LONG_MAP_MOST) | _LONG_MAP_LEAST
    places: dict[int, int] = {}
    inserted = list(dict.fromkeys(keys))
    for key in (key for key in inserted if key != 0):
        places[_free(places, mask, key)] = key
        if 2 * len(places) > mask:
            mask, places = _rebuilt(places, mask)
    assert len(places) == len(inserted) - (0 in inserted), "each number has a place of its own"
    return [*([0] if 0 in inserted else []), *(places[place] for place in sorted(places))]


def _rebuilt(places: dict[int, int], mask: int) -> tuple[int, dict[int, int]]:
    mask = ((mask << 1) + 1) & _LONG_MAP_MOST
    while mask > 8 and 8 * len(places) < mask:
        mask >>= 1
    rebuilt: dict[int, int] = {}
    assert len(places) <= mask, "a rebuilt table has free places"
    for place in sorted(places):
        rebuilt[_free(rebuilt, mask, places[place])] = places[place]
    return mask, rebuilt


def _free(places: dict[int, int], mask: int, key: int) -> int:
    assert mask & (mask + 1) == 0, "a mask is a number of low bits"
    folded = (key ^ key >> 32) & MASK
    mixed = ((folded ^ folded >> 16) * 0x85EB_CA6B) & MASK
    place, step = (mixed ^ mixed >> 13) & mask, 0
    while place in places:
        step += 1
        place = (place + 2 * (step + 1) * step - 3) & mask
    return place
