"""The order in which a connection's identities stand: that of a Java ConcurrentHashMap, by which they are told (§4).

Rules of this module:
  - nothing is ever taken away: a connection keeps what it has shown;
  - a table of 16 buckets doubles with the twelfth, the twenty-fourth, the forty-eighth identity, and so on; a bucket
    that is split keeps its last run of one half as it is, and has what came before that turned round.

Source: ServerCnxn.authInfo; java.util.concurrent.ConcurrentHashMap, putVal and transfer; the generated Id.hashCode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.hash_order import java_string_hash, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.zookeeper.requests import Id

_FIRST_BUCKETS = 16


def in_table_order(shown: Sequence[Id]) -> tuple[Id, ...]:
    """Identities in the order of the table.

    Args:
        shown: in the order in which they were shown, each once.

    >>> from simzk.zookeeper.requests import Id
    >>> [identity.id for identity in in_table_order([Id("ip", "127.0.0.1"), Id("super", ""), Id("digest", "a:b")])]
    ['a:b', '', '127.0.0.1']
    """
    buckets: list[list[tuple[int, Id]]] = [[] for _ in range(_FIRST_BUCKETS)]
    for count, identity in enumerate(shown, 1):
        hashed = _hash(identity)
        buckets[hashed & (len(buckets) - 1)].append((hashed, identity))
        if count >= len(buckets) * 3 // 4:
            buckets = _doubled(buckets)
    return tuple(identity for bucket in buckets for _, identity in bucket)


def _hash(identity: Id) -> int:
    code = 17 * 37 + java_string_hash(identity.scheme or "")
    code = code * 37 + java_string_hash(identity.id or "")
    return spread(code & 0xFFFFFFFF)


def _doubled(buckets: list[list[tuple[int, Id]]]) -> list[list[tuple[int, Id]]]:
    size = len(buckets)
    halves: tuple[list[list[tuple[int, Id]]], ...] = ([], [])
    for bucket in buckets:
        run = len(bucket)
        while run > 1 and (bucket[run - 1][0] ^ bucket[run - 2][0]) & size == 0:
            run -= 1
        at = max(run - 1, 0)  # where the last run begins
        ordered = [*reversed(bucket[:at]), *bucket[at:]]
        for upper, half in enumerate(halves):
            half.append([entry for entry in ordered if bool(entry[0] & size) == upper])
    return [*halves[0], *halves[1]]
