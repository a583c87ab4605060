"""Hash codes of the JVM: `String.hashCode`, `Long.hashCode`, `HashMap.hash`, MurmurHash3 of case classes.

Rules of this module:
  - a hash code is an int of 32 bits; functions return it signed, as the JVM does, unless they say unsigned;
  - an int is its own hash code;
  - the hash code of a type of ZooKeeper or Kafka (`Id`, `TopicPartition`) stands beside that type.

Sources: java.lang.String.hashCode, java.lang.Long.hashCode, java.util.HashMap.hash, java.util.AbstractMap.hashCode,
scala.util.hashing.MurmurHash3 (productHash, unorderedHash), scala.util.hashing.byteswap32.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from struct import unpack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MASK: Final = 0xFFFF_FFFF
"""The 32 bits of an int."""
_SIGN: Final = 0x8000_0000
_BATCH: Final = 16
"""From this many texts of one length on, hashing them together is faster than one by one."""


def signed_32(value: int) -> int:
    """Return the low 32 bits of a number as a signed int.

    >>> signed_32(2**31), signed_32(-1)
    (-2147483648, -1)
    """
    value &= MASK
    return value - (1 << 32) if value & _SIGN else value


@lru_cache(maxsize=256)
def _weights(length: int) -> tuple[int, ...]:
    """Return the powers of 31 modulo 2^32 for a text of `length` UTF-16 units, highest first."""
    return tuple(pow(31, length - 1 - position, 1 << 32) for position in range(length))


def string_hash(text: str) -> int:
    """Return `String.hashCode` of a text: a polynomial over its UTF-16 units.

    >>> string_hash("hello"), string_hash("polygenelubricants"), string_hash("BB") == string_hash("Aa")
    (99162322, -2147483648, True)
    """
    if text.isascii():
        units: Sequence[int] = text.encode("ascii")
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return signed_32(sum(map(mul, units, _weights(len(units)))))


def long_hash(number: int) -> int:
    """Return `Long.hashCode` of a number of 64 bits.

    >>> long_hash(7), long_hash(-1), long_hash(1 << 32)
    (7, 0, 1)
    """
    number &= 0xFFFF_FFFF_FFFF_FFFF
    return signed_32(number ^ number >> 32)


def hash_code(key: object) -> int:
    """Return the hash code of an int or a text.

    >>> hash_code(5), hash_code("t")
    (5, 116)
    """
    if isinstance(key, str):
        return string_hash(key)
    assert isinstance(key, int), f"a key that is neither int nor text needs its own hash function: {key!r}"
    return signed_32(key)


def spread(hash_code: int) -> int:
    """Return `HashMap.hash` of a hash code, unsigned: the high half folded into the low bits, which choose a bucket."""
    hash_code &= MASK
    return hash_code ^ hash_code >> 16


def spread_hashes(texts: Iterable[str]) -> dict[str, int]:
    """Return the spread hash of each text, unsigned.

    >>> spread_hashes(["zookeeper"])["zookeeper"] == spread(string_hash("zookeeper"))
    True
    """
    by_length: dict[int, list[str]] = {}
    for text in texts:
        by_length.setdefault(len(text), []).append(text)
    spreads: dict[str, int] = {}
    for group in by_length.values():
        if len(group) >= _BATCH and (joined := "".join(group)).isascii():
            spreads.update(zip(group, _spread_batch(joined.encode("ascii"), len(group)), strict=True))
        else:
            for text in group:
                spreads[text] = spread(string_hash(text))
    return spreads


def _spread_batch(joined: bytes, count: int) -> tuple[int, ...]:
    """Return the spread hashes of `count` ASCII texts of one length, given joined.

    One large integer has 64 bits for each text, so that each step of the polynomial is one operation for all texts:
    three times faster than text by text, without numpy.
    """
    length, rest = divmod(len(joined), count)
    assert rest == 0, "the texts have one length"
    total = 0
    for position, weight in enumerate(_weights(length)):
        units = bytearray(8 * count)
        units[::8] = joined[position::length]
        total += int.from_bytes(units, "little") * weight  # 39 bits each: sums over any text fit into 64
    lower_halves = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")
    total &= lower_halves
    total = (total ^ total >> 16) & lower_halves
    return unpack(f"<{count}Q", total.to_bytes(8 * count, "little"))


def rotate_left(value: int, bits: int) -> int:
    """Return 32 bits rotated to the left, unsigned."""
    assert 0 < bits < 32
    value &= MASK
    return (value << bits | value >> (32 - bits)) & MASK


def byteswap32(value: int) -> int:
    """Return `scala.util.hashing.byteswap32` of a hash code, unsigned."""
    mixed = (value * 0x9E37_75CD) & MASK
    mixed = int.from_bytes(mixed.to_bytes(4, "big"), "little")
    return (mixed * 0x9E37_75CD) & MASK


def product_hash(*field_hashes: int, class_name: str = "") -> int:
    """Return the `hashCode` of a Scala case class: MurmurHash3 over the hash codes of its fields.

    Args:
        field_hashes: hash codes of the fields, in their order.
        class_name: name of the class. Scala 2.13 and later mix it in first, without counting it as a field.
    """
    value = 0xCAFE_BABE
    for field_hash in (string_hash(class_name), *field_hashes) if class_name else field_hashes:
        value = _murmur_mix(value, field_hash)
    return _murmur_finish(value, len(field_hashes))


def java_map_hash(entries: Iterable[tuple[int, int]]) -> int:
    """Return the `hashCode` of a `java.util.Map`, given the hash codes of each key and its value."""
    return signed_32(sum(key ^ value for key, value in entries))


def wrapped_map_hash(entries: Iterable[tuple[int, int]]) -> int:
    """Return the `hashCode` of Scala's wrapper of a map for Java, from the same, as Scala before 2.12.8 computes it."""
    return signed_32(sum(byteswap32(key) + (byteswap32(value) << 16) for key, value in entries))


def scala_map_hash(entries: Iterable[tuple[int, int]]) -> int:
    """Return the `hashCode` of a Scala map, from the same: the unordered MurmurHash3 of its entries as pairs."""
    pairs = [product_hash(key, value) & MASK for key, value in entries]
    total, either, product = sum(pairs) & MASK, 0, 1
    for pair in pairs:
        either ^= pair
        product = product * (pair or 1) & MASK
    value = _murmur_mix(_murmur_mix(string_hash("Map") & MASK, total), either)
    value ^= rotate_left(product * 0xCC9E_2D51, 15) * 0x1B87_3593 & MASK
    return _murmur_finish(value, len(pairs))


def _murmur_mix(value: int, element: int) -> int:
    """Return the state of MurmurHash3 after one more element."""
    mixed = rotate_left(element * 0xCC9E_2D51, 15) * 0x1B87_3593
    return (rotate_left(value ^ (mixed & MASK), 13) * 5 + 0xE654_6B64) & MASK


def _murmur_finish(value: int, length: int) -> int:
    """Return the hash for a final state of MurmurHash3."""
    value ^= length
    value = ((value ^ value >> 16) * 0x85EB_CA6B) & MASK
    value = ((value ^ value >> 13) * 0xC2B2_AE35) & MASK
    return signed_32(value ^ value >> 16)
