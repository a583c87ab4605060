"""What goes wrong in a consumer and is not the end of it: each is told in the history."""

from __future__ import annotations


class ConsumerError(Exception):
    """Something that a consumer could not do now."""


class NoNodeError(ConsumerError):
    """A znode that must be there is not."""


class AssignmentError(ConsumerError):
    """What was read cannot be assigned: the members read do not fit each other, or the rules forbid it."""


class RegistrationRefusedError(ConsumerError):
    """Another session holds the consumer's id."""


class RebalanceFailedError(ConsumerError):
    """All tries of a rebalance have failed (Kafka's ConsumerRebalanceFailedException)."""
