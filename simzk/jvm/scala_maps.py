"""The order in which Scala's maps and sets iterate: it fixes JSON keys, batches of the controller, and ISR lists.

Rules of the module (docs/reference/kafka.md §1.2; proved against four real scala-library versions):

1. Up to four entries an immutable map or set keeps insertion order; beyond it is a hash trie (Scala 2.8 to 2.12) or a
   CHAMP trie (2.13), whose order depends on the hashes alone.
2. A mutable map is in the order of its buckets, whatever its size.
3. Hashes are those of the JVM: 32 bits, signed, an int hashes to itself. Keys here are ints, strings,
   `(topic, partition)` pairs (Kafka's TopicPartition), or anything with `hash_of` given.

The order in which Scala's `mutable.LongMap` iterates: an open table of numbers, as a broker keeps who lives in it.

Rules of the module (scala.collection.mutable.LongMap; equal to it in 2.12 and 2.13):
  - a number's place is where its mixed bits say, or the next free one of a quadratic walk; zero stands apart, first;
  - the table has the next power of two of the size it was made for, eight places at least, and is rebuilt twice as
    large once more than half is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Scala: TypeAlias = Literal["2.10", "2.11", "2.12", "2.13"]
Key = TypeVar("Key")

SMALL: Final = 4
"""The largest size at which an immutable map or set keeps insertion order."""

_MASK: Final = 0xFFFF_FFFF
_GROUP_BITS: Final = 5


def signed_32(value: int) -> int:
    """An int as the JVM keeps it: 32 bits, signed."""
    value &= _MASK
    return value - (1 << 32) if value & 0x8000_0000 else value


def string_hash(text: str) -> int:
    """`java.lang.String.hashCode`: over UTF-16 code units, signed.

    >>> string_hash("hello"), string_hash("polygenelubricants")
    (99162322, -2147483648)
    """
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & _MASK
    return signed_32(value)


def topic_partition_hash(topic: str, partition: int) -> int:
    """`org.apache.kafka.common.TopicPartition.hashCode`, signed.

    >>> topic_partition_hash("t", 0)
    1077
    """
    return signed_32(31 * (31 + partition) + string_hash(topic))


def product_hash(*element_hashes: int, class_name: str = "") -> int:
    """`hashCode` of a Scala case class: MurmurHash3 over the hashes of its fields, signed.

    It is the key hash of TopicAndPartition and PartitionAndReplica in Kafka. From Scala 2.13 on the name of the class
    is mixed in first (and not counted): give it as `class_name`.
    """
    value = 0xCAFE_BABE
    mixed_in = (string_hash(class_name), *element_hashes) if class_name else element_hashes
    for element in mixed_in:
        value = _mix(value, element)
    return _finished(value, len(element_hashes))


def _mix(value: int, element: int) -> int:
    """A step of MurmurHash3."""
    mixed = _rotate_left(element * 0xCC9E_2D51, 15) * 0x1B87_3593
    return (_rotate_left(value ^ (mixed & _MASK), 13) * 5 + 0xE654_6B64) & _MASK


def _finished(value: int, length: int) -> int:
    """The end of MurmurHash3, signed."""
    value ^= length
    value = ((value ^ value >> 16) * 0x85EB_CA6B) & _MASK
    value = ((value ^ value >> 13) * 0xC2B2_AE35) & _MASK
    return signed_32(value ^ value >> 16)


def java_hash(key: object) -> int:
    """The JVM's hash of a key: int, string, or `(topic, partition)`."""
    match key:
        case int():
            return signed_32(key)
        case str():
            return string_hash(key)
        case (str(topic), int(partition)):
            return topic_partition_hash(topic, partition)
    raise AssertionError(f"no JVM hash is known for {key!r}")


def immutable_order(keys: Iterable[Key], scala: Scala = "2.13", hash_of: Callable[[Key], int] = java_hash) -> list[Key]:
    """Distinct keys, given in insertion order, as an immutable Map or Set iterates.

    >>> immutable_order([3, 1, 2])
    [3, 1, 2]
    >>> immutable_order([1, 2, 3, 4, 5])
    [5, 1, 2, 3, 4]
    """
    inserted = list(dict.fromkeys(keys))
    return inserted if len(inserted) <= SMALL else hash_order(inserted, scala, hash_of)


def hash_order(keys: Sequence[Key], scala: Scala = "2.13", hash_of: Callable[[Key], int] = java_hash) -> list[Key]:
    """Distinct keys as an immutable hash map or hash set iterates, of any size.

    A set of more than four that has shrunk is still one. Keys of equal hash keep the order given.

    >>> hash_order(["0", "1", "2", "3", "4", "5", "6", "7"], "2.13")
    ['4', '5', '0', '2', '7', '3', '6', '1']
    """
    hashed = [(_spread(hash_of(key)), key) for key in keys]
    if scala == "2.13":
        return _champ_order(hashed, 0)
    return [key for _, key in sorted(hashed, key=lambda entry: _groups(entry[0]))]


def mutable_order(keys: Iterable[Key], scala: Scala = "2.13", hash_of: Callable[[Key], int] = java_hash) -> list[Key]:
    """Distinct keys, given in insertion order, as a `mutable.HashMap` that began empty iterates.

    >>> mutable_order(["0", "1", "2", "3", "4", "5", "6", "7"], "2.12")
    ['2', '5', '7', '1', '4', '6', '0', '3']
    """
    inserted = [(signed_32(hash_of(key)), key) for key in dict.fromkeys(keys)]
    return _sorted_buckets_order(inserted) if scala == "2.13" else _chained_order(inserted)


def mutable_set_order(
    keys: Iterable[Key], scala: Scala = "2.13", hash_of: Callable[[Key], int] = java_hash
) -> list[Key]:
    """Distinct keys, given in insertion order, as a `mutable.HashSet` that began empty iterates.

    Up to 2.12 it is not built like the map: one open table of 32 places, doubled when 45 % are taken; a key goes to
    the place that its mixed hash says, or the next free one.

    >>> mutable_set_order([0, 1, 2, 3], "2.12")
    [0, 1, 2, 3]
    """
    inserted = [(signed_32(hash_of(key)), key) for key in dict.fromkeys(keys)]
    return _sorted_buckets_order(inserted) if scala == "2.13" else _open_table_order(inserted)


def json_partition_hash(partition: tuple[str, int], *, byteswapped: bool = False) -> int:
    """The JVM's hash of the Java map `{"topic": t, "partition": p}` that Kafka makes for JSON, signed.

    Args:
        partition: topic and number.
        byteswapped: as the wrapper of Scala before 2.12.8 hashes its entries.

    >>> json_partition_hash(("t1", 0))
    -1689266692
    """
    fields = (("topic", string_hash(partition[0])), ("partition", partition[1]))
    if byteswapped:
        return signed_32(sum(_mixed(string_hash(name)) + (_mixed(value) << 16) for name, value in fields))
    return signed_32(sum(string_hash(name) ^ value for name, value in fields))


def scala_map_hash(partition: tuple[str, int]) -> int:
    """`hashCode` of the Scala map `Map("topic" -> t, "partition" -> p)` that Kafka up to 1.0 makes for JSON, signed.

    The unordered MurmurHash3 of its entries, which are pairs.
    """
    entries = (
        product_hash(string_hash("topic"), string_hash(partition[0])) & _MASK,
        product_hash(string_hash("partition"), partition[1]) & _MASK,
    )
    total, either, product = sum(entries) & _MASK, entries[0] ^ entries[1], 1
    for entry in entries:
        product = product * (entry or 1) & _MASK
    value = _mix(_mix(string_hash("Map") & _MASK, total), either)
    value ^= _rotate_left(product * 0xCC9E_2D51, 15) * 0x1B87_3593 & _MASK
    return _finished(value, len(entries))


def _rotate_left(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK


def _spread(value: int) -> int:
    """`improve` of immutable hash maps: spreads a poor hash over all bits."""
    value &= _MASK
    value = (value + (~(value << 9) & _MASK)) & _MASK
    value ^= value >> 14
    value = (value + (value << 4)) & _MASK
    return value ^ value >> 10


def _groups(spread: int) -> tuple[int, ...]:
    """The path of a key in the trie: groups of five bits from the low end."""
    return tuple(spread >> shift & 31 for shift in range(0, 32, _GROUP_BITS))


def _champ_order(hashed: Sequence[tuple[int, Key]], shift: int) -> list[Key]:
    """One node: the keys that are alone in their slot, in slot order, then the sub-nodes, in slot order."""
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


def _chained_order(inserted: Sequence[tuple[int, Key]]) -> list[Key]:
    """Scala 2.10 to 2.12: new entries at the front of their bucket; iteration from the last bucket to the first."""
    size = 16
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
    # The rotation is fixed by the initial table size and stays when the table grows.
    rotated = _rotate_left(_mixed(value), 32 - 4)
    return rotated >> (32 - (size.bit_length() - 1))


def _mixed(value: int) -> int:
    """`scala.util.hashing.byteswap32`."""
    mixed = (value * 0x9E37_75CD) & _MASK
    mixed = int.from_bytes(mixed.to_bytes(4, "big"), "little")
    return (mixed * 0x9E37_75CD) & _MASK


def _open_table_order(inserted: Sequence[tuple[int, Key]]) -> list[Key]:
    """Scala 2.10 to 2.12, mutable sets: iteration from the first place to the last."""
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
    """As in the maps, the rotation is that of the first size."""
    index = _rotate_left(_mixed(entry[0]), 32 - 5) >> (32 - (len(table).bit_length() - 1))
    while table[index] is not None:
        index = (index + 1) % len(table)
    table[index] = entry


def _sorted_buckets_order(inserted: Sequence[tuple[int, Key]]) -> list[Key]:
    """Scala 2.13: buckets by the low bits, each sorted by hash; iteration from the first bucket to the last."""
    size = 16
    while len(inserted) >= size * 3 // 4:
        size *= 2
    mixed = [(signed_32((value & _MASK) ^ (value & _MASK) >> 16), key) for value, key in inserted]
    return [key for _, key in sorted(mixed, key=lambda entry: (entry[0] & (size - 1), entry[0]))]


_WORD = 0xFFFF_FFFF
_LARGEST = 0x3FFF_FFFF
_LEAST = 0b111


def long_map_order(keys: Iterable[int], size: int = 16) -> list[int]:
    """Distinct numbers from 0 on, given in insertion order, as a map iterates that was made for so many.

    >>> long_map_order([1, 2, 3, 4, 5, 6], 6)
    [5, 1, 4, 6, 2, 3]
    """
    mask = min((1 << max(size - 1, 0).bit_length()) - 1, _LARGEST) | _LEAST
    places: dict[int, int] = {}
    inserted = list(dict.fromkeys(keys))
    for key in inserted:
        if key == 0:
            continue
        places[_free(places, mask, key)] = key
        if 2 * len(places) > mask:
            mask, places = _rebuilt(places, mask)
    return [*([0] if 0 in inserted else []), *(places[place] for place in sorted(places))]


def _rebuilt(places: dict[int, int], mask: int) -> tuple[int, dict[int, int]]:
    mask = ((mask << 1) + 1) & _LARGEST
    while mask > 8 and 8 * len(places) < mask:
        mask >>= 1
    rebuilt: dict[int, int] = {}
    for place in sorted(places):
        rebuilt[_free(rebuilt, mask, places[place])] = places[place]
    return mask, rebuilt


def _free(places: dict[int, int], mask: int, key: int) -> int:
    folded = (key ^ key >> 32) & _WORD
    mixed = ((folded ^ folded >> 16) * 0x85EB_CA6B) & _WORD
    place, step = (mixed ^ mixed >> 13) & mask, 0
    while place in places:
        step += 1
        place = (place + 2 * (step + 1) * step - 3) & mask
    return place
