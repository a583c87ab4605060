"""Which election rules hold in which Kafka version: one table (docs/reference/kafka.md §2.6).

The batch functions of `elections` and `isr` take a row of this table; what does not differ between versions is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Order(Enum):
    """The list whose order decides among eligible replicas."""

    ISR = "isr"
    ASSIGNED = "assigned replicas"


class LastMember(Enum):
    """What becomes of an ISR whose only member is removed."""

    EMPTIED = "always emptied"
    KEPT_IF_CLEAN = "kept only where unclean election is off for the topic"
    KEPT = "always kept"


@dataclass(frozen=True)
class ElectionRules:
    """How one range of Kafka versions elects leaders and trims ISRs.

    Args:
        offline_order: order in which an offline partition's live ISR members are tried.
        always_unclean: with no live ISR member any live replica is taken, whatever the topic says.
        reassign_needs_isr: a reassignment's new leader must be in the ISR.
        shutdown_order: order in which the leader's successor is sought at a controlled shutdown.
        shutdown_drops_leader: the old leader leaves the ISR at a controlled shutdown, also if it is not shutting down.
        last_member: what becomes of an ISR whose only member is removed.
        recovering: an unclean leader is marked RECOVERING in the znode.
        preferred_again: a partition that its preferred replica leads already is elected again (1.1 to 2.1, by znode).
        failover_trims_dead: a new controller takes dead replicas out of the ISR before it elects (KAFKA-3143).
    """

    offline_order: Order = Order.ASSIGNED
    always_unclean: bool = False
    reassign_needs_isr: bool = True
    shutdown_order: Order = Order.ASSIGNED
    shutdown_drops_leader: bool = False
    last_member: LastMember = LastMember.KEPT
    recovering: bool = True
    failover_trims_dead: bool = True
    preferred_again: bool = False


RULES: Final[dict[tuple[int, int, int], ElectionRules]] = {
    (0, 8, 0): ElectionRules(Order.ISR, True, False, Order.ISR, True, LastMember.EMPTIED, False, False),
    (0, 8, 1): ElectionRules(Order.ISR, True, True, Order.ISR, False, LastMember.EMPTIED, False, False),
    (0, 8, 2): ElectionRules(Order.ASSIGNED, False, True, Order.ISR, False, LastMember.KEPT_IF_CLEAN, False, False),
    (0, 10, 0): ElectionRules(
        Order.ASSIGNED, False, True, Order.ASSIGNED, False, LastMember.KEPT_IF_CLEAN, False, False
    ),
    (1, 1, 0): ElectionRules(recovering=False, failover_trims_dead=False, preferred_again=True),
    (2, 2, 0): ElectionRules(recovering=False, failover_trims_dead=False),
    (2, 3, 0): ElectionRules(recovering=False),
    (3, 2, 0): ElectionRules(),
}
"""First version of each range, ascending. A version from which `recovering` holds still needs an
inter.broker.protocol.version of 3.2-IV0 or later: below that take the rules of `rules_of((2, 3, 0))`."""

LATEST: Final = RULES[3, 2, 0]


def rules_of(version: tuple[int, int, int]) -> ElectionRules:
    """The rules of a Kafka version.

    Args:
        version: such as `(3, 9, 1)`; for the 1.x to 3.x lines (major, minor, patch), before that `(0, minor, patch)`.

    Returns:
        the row of the table that holds for it.

    >>> rules_of((0, 9, 0)).shutdown_order
    <Order.ISR: 'isr'>
    >>> rules_of((3, 9, 1)) is LATEST
    True
    """
    assert version >= (0, 8, 0), f"no rules before 0.8.0: {version}"
    return RULES[max(first for first in RULES if first <= version)]
