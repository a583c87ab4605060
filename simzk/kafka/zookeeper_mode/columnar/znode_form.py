"""Common attributes of the stored znodes of topics and partitions, and the size of their data without encoding it.

Rules of this module:
  - a znode can be stored only if it has no owner and at most the one child that Kafka creates there;
  - a set of children that never had more than one member is represented by whether it is empty: its capacity is the
    initial one, and no insertion order is left (`jvm.hash_map`);
  - the size of encoded data is the number of digits in it plus the characters around and between the numbers. The
    latter are the same for all data of one codec, and are measured once on examples;
  - digits are counted in chunks of columns, so that no temporary array is as long as the table.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.partitions.arrays import NONE
from simzk.zookeeper.znode import CHILDREN_CAPACITY, Znode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.zookeeper.requests import ACL

FEW = 15
"""Greatest aversion and cversion of a stored znode. They are part of the form, and there must be few forms."""

NO_DATA = (None, b"")
"""Data of a znode that only has children."""


def is_plain(node: Znode) -> bool:
    """Return whether a znode has no owner and an aversion that a form can contain."""
    return not node.ephemeral_owner and 0 <= node.aversion <= FEW


def only_child(node: Znode, name: str) -> bool | None:
    """Return whether a plain znode has only the child `name` (True) or no child (False); None for any other znode."""
    children = node.children
    if not is_plain(node) or (children is not None and children.capacity != CHILDREN_CAPACITY):
        return None
    if not children:
        return False
    return True if len(children) == 1 and name in children else None


def new_znode(data: bytes | None, acl: tuple[ACL, ...], aversion: int, czxid: int, ctime_ms: int) -> Znode:
    """Return a znode as after its creation, with an aversion."""
    node = Znode(data, acl, 0, czxid, ctime_ms)
    node.aversion = aversion
    return node


_CHUNK = 1 << 16
"""Rows per chunk: their columns fit into the processor's cache."""


def chunks(chosen: BoolArray) -> Iterator[IntArray]:
    """Yield the rows of a mask in ascending chunks."""
    for begin in range(0, len(chosen), _CHUNK):
        yield (begin + np.flatnonzero(chosen[begin : begin + _CHUNK])).astype(np.int32)


def characters(numbers: NDArray[np.integer]) -> int:
    """Return the total number of characters of numbers in decimal.

    >>> characters(np.array([0, 9, 10, 1234, -1, -10]))
    13
    """
    if not numbers.size:
        return 0
    if numbers.min() < NONE:
        return characters(numbers[numbers >= NONE]) + sum(
            len(str(number)) for number in numbers[numbers < NONE].tolist()
        )
    return numbers.size + int(np.count_nonzero(numbers == NONE)) + _further_digits(numbers)


def _further_digits(numbers: NDArray[np.integer]) -> int:
    """Return the total number of digits without the last digit of each number."""
    total, power, greatest = 0, 10, int(numbers.max(initial=0))
    while power <= greatest:
        total += int(np.count_nonzero(numbers >= power))
        power *= 10
    return total


def _count_lists(padded: IntArray) -> tuple[int, int, int]:
    """Return the number of non-empty lists, of all their members, and of the characters of these."""
    members = int(np.count_nonzero(padded != NONE))
    return int(np.count_nonzero(padded[:, 0] != NONE)), members, members + _further_digits(padded)


@cache
def _state_costs(encode: Callable[[LeaderAndIsr], bytes]) -> tuple[int, int, int, int]:
    """Return the characters of an encoded state besides its numbers: fixed; for a non-empty ISR; between two members;
    for a recovering leader."""

    def size(*isr: int, recovering: bool = False) -> int:
        return len(encode(LeaderAndIsr(0, 0, isr, 0, recovering=recovering)))

    return size() - 3, size(0) - size() - 1, size(0, 0) - size(0) - 1, size(recovering=True) - size()


def state_bytes(encode: Callable[[LeaderAndIsr], bytes], states: States) -> int:
    """Return the total size of encoded states, in bytes.

    >>> from simzk.kafka.zookeeper_mode.schemas.partition_state import encode
    >>> from simzk.partitions.states import no_states
    >>> state_bytes(encode, no_states(2, 1)) == 2 * len(encode(LeaderAndIsr(-1, 0, (), 0)))
    True
    """
    fixed, listed, between, recovering = _state_costs(encode)
    lists, members, digits = _count_lists(states.isr)
    numbers = sum(map(characters, (states.controller_epoch, states.leader, states.leader_epoch)))
    around = fixed * len(states.leader) + listed * lists + between * (members - lists)
    return numbers + digits + around + recovering * int(np.count_nonzero(states.recovering))


class _TopicCosts(NamedTuple):
    """Characters of an encoded topic besides its numbers and its id: with one partition, without and with an id; for
    each further partition; between two replicas; for the first partition that adds, or removes, replicas; per character
    of an id (0 if the codec has no ids)."""

    fixed: int
    fixed_with_id: int
    partition: int
    between: int
    moving: int
    per_id_character: int


@cache
def _topic_costs(encode: Callable[[TopicZnode], bytes]) -> _TopicCosts:
    def size(partitions: int = 1, replicas: int = 1, adding: tuple[int, ...] = (), topic_id: str | None = None) -> int:
        one = ReplicaAssignment((0,) * replicas, adding, ())
        return len(encode(TopicZnode(dict.fromkeys(range(partitions), one), topic_id)))

    return _TopicCosts(
        fixed=size() - 2,
        fixed_with_id=size(topic_id="") - 2,
        partition=size(partitions=2) - size() - 2,
        between=size(replicas=2) - size() - 1,
        moving=size(adding=(0,)) - size() - 2,
        per_id_character=size(topic_id="x") - size(topic_id=""),
    )


def topic_bytes(
    encode: Callable[[TopicZnode], bytes],
    id_lengths: NDArray[np.integer],
    rows: Iterable[tuple[NDArray[np.integer], IntArray]],
    moves: Iterable[dict[int, tuple[int, ...]]],
) -> int:
    """Return the total size of encoded topics, in bytes.

    Args:
        encode: encodes a topic.
        id_lengths: int[k], lengths of the topic ids; 0 for a topic without an id.
        rows: the partitions of the topics in chunks: partition numbers and padded replicas.
        moves: replicas by partition that a topic adds, or removes; no mapping and no list is empty.

    >>> from simzk.kafka.zookeeper_mode.schemas.topic import encode_v3
    >>> ids, partitions = np.array([3]), (np.array([0, 1]), np.array([[1, 20], [2, NONE]]))
    >>> one = TopicZnode({0: ReplicaAssignment((1, 20)), 1: ReplicaAssignment((2,), (2,))}, "abc")
    >>> topic_bytes(encode_v3, ids, [partitions], [{1: (2,)}]) == len(encode_v3(one))
    True
    """
    costs = _topic_costs(encode)
    topics, with_id = len(id_lengths), int(np.count_nonzero(id_lengths))
    total = costs.fixed * (topics - with_id) + costs.fixed_with_id * with_id
    total += costs.per_id_character * int(id_lengths.sum())
    partitions = 0
    for numbers, replicas in rows:
        lists, members, digits = _count_lists(replicas)
        assert lists == len(numbers), "a partition of a topic has replicas"
        total += characters(numbers) + digits + costs.between * (members - lists)
        partitions += lists
    total += costs.partition * (partitions - topics)
    for moving in moves:
        brokers = [broker for listed in moving.values() for broker in listed]
        total += sum(len(str(number)) for number in (*moving, *brokers))
        total += costs.between * (len(brokers) - len(moving))
        total += costs.moving + costs.partition * (len(moving) - 1)
    return total
