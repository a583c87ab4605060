"""Election rules of each Kafka version (docs/reference/kafka.md §2.6).

`simzk.partitions.transitions` reads them. A version's rules are those of the version before with the fields that it
changes, so an entry for a new version cannot change an older one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final


class Order(Enum):
    """Lists whose order decides between eligible replicas."""

    ISR = "isr"
    ASSIGNED = "assigned replicas"


class LastMember(Enum):
    """Rules for the removal of the only member of an ISR."""

    EMPTIED = "always emptied"
    KEPT_IF_CLEAN = "kept if unclean election is disabled for the topic"
    KEPT = "always kept"


@dataclass(frozen=True, kw_only=True)
class ElectionRules:
    """Rules by which a controller elects leaders and changes ISRs."""

    offline_order: Order
    """Order in which the live ISR members of an offline partition are tried: of the assigned replicas from 0.8.2 on
    (KAFKA-1503: with the order of the ISR all leaders end up on one broker after a rolling restart)."""

    always_unclean: bool
    """Whether a partition without a live ISR member always elects any live replica; from 0.8.2 on the topic's
    `unclean.leader.election.enable` decides (KAFKA-1028)."""

    reassign_needs_isr: bool
    """Whether the leader that a reassignment elects must be in the ISR: from 0.8.1 on (§2.6 Reassign)."""

    shutdown_order: Order
    """Order in which a controlled shutdown tries successors of a leader: of the assigned replicas from 0.10.0 on
    (KAFKA-3670)."""

    shutdown_drops_leader: bool
    """Whether a controlled shutdown removes the old leader from the ISR even if that broker is not shutting down: 0.8.0
    only (§2.6 Controlled shutdown)."""

    last_member: LastMember
    """Removal of the only member of an ISR: written as `[]` up to 0.8.1; kept from 0.8.2 on if unclean election is
    disabled for the topic; always kept from 1.1 on (§2.6 Remove a replica from the ISR)."""

    recovering: bool
    """Whether an unclean leader is marked RECOVERING in the znode: from 3.2 on, with inter.broker.protocol.version
    3.2-IV0 or later (KIP-704)."""

    failover_trims_dead: bool
    """Whether a new controller removes dead replicas from ISRs before it elects leaders: from 2.3 on (KAFKA-3143)."""

    preferred_again: bool
    """Whether a preferred election that a znode requests is written again where the preferred replica already leads:
    1.1 to 2.1 (§2.12, recorded)."""


RULES: Final[dict[tuple[int, int, int], ElectionRules]] = {
    (0, 8, 0): ElectionRules(
        offline_order=Order.ISR,
        always_unclean=True,
        reassign_needs_isr=False,
        shutdown_order=Order.ISR,
        shutdown_drops_leader=True,
        last_member=LastMember.EMPTIED,
        recovering=False,
        failover_trims_dead=False,
        preferred_again=False,
    )
}
"""Rules by the first version of each range, ascending."""

RULES[0, 8, 1] = replace(RULES[0, 8, 0], reassign_needs_isr=True, shutdown_drops_leader=False)
RULES[0, 8, 2] = replace(
    RULES[0, 8, 1], offline_order=Order.ASSIGNED, always_unclean=False, last_member=LastMember.KEPT_IF_CLEAN
)
RULES[0, 10, 0] = replace(RULES[0, 8, 2], shutdown_order=Order.ASSIGNED)
RULES[1, 1, 0] = replace(RULES[0, 10, 0], last_member=LastMember.KEPT, preferred_again=True)
RULES[2, 2, 0] = replace(RULES[1, 1, 0], preferred_again=False)
RULES[2, 3, 0] = replace(RULES[2, 2, 0], failover_trims_dead=True)
LATEST: Final = replace(RULES[2, 3, 0], recovering=True)
RULES[3, 2, 0] = LATEST


def rules_of(version: tuple[int, int, int]) -> ElectionRules:
    """Return the rules of a Kafka version.

    Args:
        version: such as `(3, 9, 1)`; `(0, minor, patch)` before 1.0.

    >>> rules_of((0, 9, 0)).shutdown_order
    <Order.ISR: 'isr'>
    >>> rules_of((3, 9, 1)) is LATEST
    True
    """
    assert version >= (0, 8, 0), f"no rules before 0.8.0: {version}"
    return RULES[max(first for first in RULES if first <= version)]
