"""What the znodes of topics and partitions have in common, and which of them may be held in columns.

Rules of this module:
  - a node of a kind that Kafka makes has no owner, and at most the one child that Kafka gives it;
  - a set of children that was never more than one is told by whether it is empty (hash_order.py: its capacity is the
    first one, and nothing is left of who came when).

How long the texts of many states and topics are, without writing one of them: sums over columns.

Rules of this module:
  - a text is as long as the decimal numbers in it and what stands around and between these, which is the same in all
    texts of one codec: it is measured once, on texts of the codec's own;
  - numbers are counted in columns, a chunk after the other, so that nothing as long as the table is made.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.kafka.schemas.topic import TopicZnode
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment
from simzk.partitions.arrays import NONE
from simzk.zookeeper.znode import CHILDREN_CAPACITY, Znode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.zookeeper.requests import ACL

FEW = 15
"""The highest aversion and cversion that is held: they are part of a form, of which there must not be many."""

NO_DATA = (None, b"")
"""The data of a node that only has children."""


def is_plain(node: Znode) -> bool:
    """Whether nobody owns a node, and its aversion may be part of a form."""
    return not node.ephemeral_owner and 0 <= node.aversion <= FEW


def only_child(node: Znode, name: str) -> bool | None:
    """Whether a plain node has the one child of this name, or none; None for any other node."""
    children = node.children
    if not is_plain(node) or (children is not None and children.capacity != CHILDREN_CAPACITY):
        return None
    if not children:
        return False
    return True if len(children) == 1 and name in children else None


def made(data: bytes | None, acl: tuple[ACL, ...], aversion: int, czxid: int, ctime_ms: int) -> Znode:
    """A node as it was when it was created, but for its aversion."""
    node = Znode(data, acl, 0, czxid, ctime_ms)
    node.aversion = aversion
    return node


_CHUNK = 1 << 16
"""Rows that lie in the processor's cache."""


def chunks(chosen: BoolArray) -> Iterator[IntArray]:
    """The rows of a mask, ascending, some at a time."""
    for begin in range(0, len(chosen), _CHUNK):
        yield (begin + np.flatnonzero(chosen[begin : begin + _CHUNK])).astype(np.int32)


def characters(numbers: NDArray[np.integer]) -> int:
    """How many characters some numbers take as decimal text, all together.

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
    """How many digits numbers have but for the last one of each."""
    total, power, greatest = 0, 10, int(numbers.max(initial=0))
    while power <= greatest:
        total += int(np.count_nonzero(numbers >= power))
        power *= 10
    return total


def _lists(padded: IntArray) -> tuple[int, int, int]:
    """Of padded lists: how many are not empty, how many numbers they have in all, and the characters of these."""
    members = int(np.count_nonzero(padded != NONE))
    return int(np.count_nonzero(padded[:, 0] != NONE)), members, members + _further_digits(padded)


class _StateCosts(NamedTuple):
    """Characters of a state's text beside its numbers: of all; of an ISR that is not empty; between its members; more
    where the leader is recovering."""

    fixed: int
    listed: int
    between: int
    recovering: int


@cache
def _state_costs(encode: Callable[[LeaderAndIsr], bytes]) -> _StateCosts:
    def size(*isr: int, recovering: bool = False) -> int:
        return len(encode(LeaderAndIsr(0, 0, isr, 0, recovering=recovering)))

    return _StateCosts(size() - 3, size(0) - size() - 1, size(0, 0) - size(0) - 1, size(recovering=True) - size())


def state_bytes(encode: Callable[[LeaderAndIsr], bytes], states: States) -> int:
    """The bytes of all texts of some states.

    Args:
        encode: writes each.
        states: k of them.

    >>> from simzk.kafka.schemas.partition_state import encode
    >>> from simzk.partitions.states import no_states
    >>> state_bytes(encode, no_states(2, 1)) == 2 * len(encode(LeaderAndIsr(-1, 0, (), 0)))
    True
    """
    costs = _state_costs(encode)
    lists, members, digits = _lists(states.isr)
    numbers = sum(map(characters, (states.controller_epoch, states.leader, states.leader_epoch)))
    around = costs.fixed * len(states.leader) + costs.listed * lists + costs.between * (members - lists)
    return numbers + digits + around + costs.recovering * int(np.count_nonzero(states.recovering))


class _TopicCosts(NamedTuple):
    """Characters of a topic's text beside its numbers and its id: of one of a single partition, with an id and without;
    for each further partition; between replicas; where the first partition of a topic adds replicas, or removes some;
    whether it tells an id."""

    fixed: int
    fixed_with_id: int
    partition: int
    between: int
    moving: int
    tells_id: int


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
        tells_id=size(topic_id="x") - size(topic_id=""),
    )


def topic_bytes(
    encode: Callable[[TopicZnode], bytes],
    id_lengths: NDArray[np.integer],
    rows: Iterable[tuple[NDArray[np.integer], IntArray]],
    moves: Iterable[dict[int, tuple[int, ...]]],
) -> int:
    """The bytes of all texts of some topics.

    Args:
        encode: writes each.
        id_lengths: int[k], characters of their ids; 0 of one without.
        rows: their partitions, in parts: numbers, and replicas padded.
        moves: by partition, the replicas that one of the topics adds, or removes; none of them empty.

    >>> from simzk.kafka.schemas.topic import encode_v3
    >>> ids, partitions = np.array([3]), (np.array([0, 1]), np.array([[1, 20], [2, NONE]]))
    >>> one = TopicZnode({0: ReplicaAssignment((1, 20)), 1: ReplicaAssignment((2,), (2,))}, "abc")
    >>> topic_bytes(encode_v3, ids, [partitions], [{1: (2,)}]) == len(encode_v3(one))
    True
    """
    costs = _topic_costs(encode)
    topics, with_id = len(id_lengths), int(np.count_nonzero(id_lengths))
    total = costs.fixed * (topics - with_id) + costs.fixed_with_id * with_id + costs.tells_id * int(id_lengths.sum())
    partitions = 0
    for numbers, replicas in rows:
        lists, members, digits = _lists(replicas)
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
