"""The states of partitions and replicas, and from which others each is entered (docs/reference/kafka.md §2.4, §2.5).

Rules of the module:
  - one row of the table for each range of releases, as their sources say it (`validPreviousStates`);
  - a state that a release does not have is entered from none.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class PartitionState(Enum):
    """What the controller knows of a partition."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaState(Enum):
    """What the controller knows of a replica."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"


class Transitions(NamedTuple):
    """How the two state machines of a release move.

    Args:
        partitions: from which states each state of a partition is entered.
        replicas: from which states each state of a replica is entered.
        dead_at_start: what a replica on a dead broker is for a new controller.
        stops_at_end: a replica's log is deleted as it leaves for good, not in a state of its own.
        leaderless_stay: a replica of a partition that never had a leader does not go offline.
        deleted_leave_first: partitions are non-existent from the beginning of their topic's deletion, not from its end.
    """

    partitions: Mapping[PartitionState, frozenset[PartitionState]]
    replicas: Mapping[ReplicaState, frozenset[ReplicaState]]
    dead_at_start: ReplicaState
    stops_at_end: bool
    leaderless_stay: bool
    deleted_leave_first: bool


_P, _R = PartitionState, ReplicaState
_PARTITIONS: Final = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}
_RUNNING: Final = frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE})
_REPLICAS: Final = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: _RUNNING,
    _R.OFFLINE: _RUNNING,
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}
_2_3: Final = Transitions(
    partitions=_PARTITIONS,
    replicas=_REPLICAS,
    dead_at_start=_R.DELETION_INELIGIBLE,
    stops_at_end=False,
    leaderless_stay=False,
    deleted_leave_first=True,
)
_2_2: Final = _2_3._replace(replicas=_REPLICAS | {_R.DELETION_INELIGIBLE: frozenset({_R.DELETION_STARTED})})
_1_1: Final = _2_2._replace(deleted_leave_first=False)
_0_8_1: Final = _1_1._replace(leaderless_stay=True)
_0_8_0: Final = _0_8_1._replace(
    partitions=_PARTITIONS | {_P.OFFLINE: frozenset({_P.NEW, _P.ONLINE})},
    replicas=dict.fromkeys(_R, frozenset[ReplicaState]())
    | {
        _R.NEW: frozenset({_R.NON_EXISTENT}),
        _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE}),
        _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE}),
        _R.NON_EXISTENT: frozenset({_R.OFFLINE}),
    },
    dead_at_start=_R.OFFLINE,
    stops_at_end=True,
)

TRANSITIONS: Final[Mapping[tuple[int, int, int], Transitions]] = {
    (0, 8, 0): _0_8_0,
    (0, 8, 1): _0_8_1,
    (1, 1, 0): _1_1,
    (2, 2, 0): _2_2,
    (2, 3, 0): _2_3,
}
"""First version of each range, ascending."""


def transitions_of(version: tuple[int, int, int]) -> Transitions:
    """The row of a Kafka version, such as `(3, 9, 0)`.

    >>> transitions_of((2, 2, 2)).replicas[ReplicaState.DELETION_INELIGIBLE]
    frozenset({<ReplicaState.DELETION_STARTED: 'deletion started'>})
    """
    assert version >= (0, 8, 0), f"no states before 0.8.0: {version}"
    return TRANSITIONS[max(first for first in TRANSITIONS if first <= version)]
